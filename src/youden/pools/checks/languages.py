"""Find agents that respond in another language, by `py3langid` from a few responses per agent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from youden.errors import ConfigError
from youden.pools.checks.checked import SampledTexts, format_names
from youden.streams import standalone_stream
from youden.types import Finding

MAX_TEXTS_PER_AGENT = 12

MAX_CLASSIFIED_TEXTS = 6_000

MIN_CLASSIFIED_CHARACTERS = 40

MIN_CLASSIFIED_TEXTS = 3

MAX_CLASSIFIED_CHARACTERS = 600


@dataclass(frozen=True)
class Languages:
    """Languages of a pool.

    Attributes
    ----------
    languages : dict
        Code (ISO 639-1) → number of agents that mostly respond in it, the most frequent first.
    findings : tuple of Finding
        At most one.
    """

    languages: dict[str, int]
    findings: tuple[Finding, ...]


def find_languages(sample: SampledTexts, *, seed: int = 0) -> Languages:
    """Detect the language of each agent from some of its responses, and report agents that use another language than most.

    Parameters
    ----------
    sample : SampledTexts
        Responses. Of each agent, at most 12 responses are classified.
    seed : int, default 0
        Seed of the selection of responses.

    Returns
    -------
    Languages
        Number of agents by language, and a finding if there are two languages or more. An agent without a language in
        most of its responses is not counted.

    Raises
    ------
    ConfigError
        [languages-missing] if the package `py3langid` is not installed.
    """
    code_by_agent = _detect_languages(sample, standalone_stream(seed))
    n_agents = Counter(code_by_agent.values())
    if len(n_agents) < 2:
        return Languages(dict(n_agents), ())

    main_language, n_main = n_agents.most_common(1)[0]
    others = tuple(sample.pool.agents[k].id for k, code in code_by_agent.items() if code != main_language)
    listing = ", ".join(f"{code} ({n})" for code, n in n_agents.most_common())
    finding = Finding(
        "languages",
        f"Agents respond in several languages: {listing}. Not in {main_language}: {format_names(others)}.",
        "Responses in different languages share no words, so the judge `lexical` ranks agents of the less frequent "
        "language last, whatever they contain; a model compares them less reliably than responses in one "
        "language.",
        "Rank each language separately, or translate the responses before ranking.",
        agents=others,
        facts={"share": 1 - n_main / len(code_by_agent)},
    )
    return Languages(dict(n_agents.most_common()), (finding,))


def _detect_languages(sample: SampledTexts, rng: np.random.Generator) -> dict[int, str]:
    """Return the language code of each agent that uses one language in most of its classified responses, by position."""
    try:
        classify = import_module("py3langid").classify
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Languages are detected by the package `py3langid`, which is not installed. Install youden[pools].",
            slug="languages-missing",
        ) from error

    texts_per_agent = MAX_CLASSIFIED_TEXTS // max(1, sample.pool.n_agents)
    max_texts = max(MIN_CLASSIFIED_TEXTS, min(MAX_TEXTS_PER_AGENT, texts_per_agent))
    code_by_agent: dict[int, str] = {}
    for k, row in enumerate(sample.pool.texts[:, sample.items]):
        texts = [text for text in row if text is not None and len(text) >= MIN_CLASSIFIED_CHARACTERS]
        if len(texts) < MIN_CLASSIFIED_TEXTS:
            continue
        chosen = rng.permutation(len(texts))[:max_texts]
        codes = Counter(str(classify(texts[i][:MAX_CLASSIFIED_CHARACTERS])[0]) for i in chosen)
        code, n_texts = codes.most_common(1)[0]
        if n_texts > len(chosen) / 2:
            code_by_agent[k] = code
    return code_by_agent
