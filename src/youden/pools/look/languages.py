"""Which language each agent answers in.

The package `py3langid` names the language of a few responses an agent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import import_module

from youden.errors import ConfigError
from youden.pools.look.findings import Finding, listed
from youden.pools.look.looked_at import LookedAt
from youden.streams import own_stream

AN_AGENT = 12
MOST = 6_000
LEAST_CHARACTERS = 40
LEAST_TEXTS = 3
CHARACTERS = 600


@dataclass(frozen=True)
class Languages:
    """languages: code (ISO 639-1) → agents that mostly answer in it, most first."""

    languages: dict[str, int]
    findings: tuple[Finding, ...]


def find_languages(looked: LookedAt, *, seed: int = 0) -> Languages:
    """The language that most of an agent's responses looked at are in, and the agents in another than most agents'.

    Raises: ConfigError [languages-missing] where `py3langid` is not installed.
    """
    try:
        classify = import_module("py3langid").classify
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Languages are told apart by the package `py3langid`, which is not installed. Install youden[pools].",
            slug="languages-missing",
        ) from error
    rng = own_stream(seed)
    n = max(LEAST_TEXTS, min(AN_AGENT, MOST // max(1, looked.pool.n_agents)))
    spoken: dict[int, str] = {}
    for k, row in enumerate(looked.pool.texts[:, looked.items]):
        texts = [text for text in row if text is not None and len(text) >= LEAST_CHARACTERS]
        if len(texts) >= LEAST_TEXTS:
            chosen = rng.permutation(len(texts))[:n]
            codes = Counter(str(classify(texts[c][:CHARACTERS])[0]) for c in chosen)
            code, count = codes.most_common(1)[0]
            if count > len(chosen) / 2:
                spoken[k] = code
    counts = Counter(spoken.values())
    if len(counts) < 2:
        return Languages(dict(counts), ())
    usual, n_usual = counts.most_common(1)[0]
    others = tuple(looked.pool.agents[k].id for k, code in spoken.items() if code != usual)
    said = ", ".join(f"{code} ({count})" for code, count in counts.most_common())
    return Languages(
        dict(counts.most_common()),
        (
            Finding(
                "languages",
                f"Agents answer in several languages: {said}. Not in {usual}: {listed(others)}.",
                "Pairs across languages share no words, so `lexical` puts the smaller language last whatever it says; a model "
                "judge compares them less surely than within a language.",
                "Rank each language for itself, or translate before ranking.",
                agents=others,
                measure=1 - n_usual / len(spoken),
            ),
        ),
    )
