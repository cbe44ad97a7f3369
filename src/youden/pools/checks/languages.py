"""Find agents that respond in another language than most agents do to the same items.

The language is detected by `py3langid` from a few responses per agent. Items may have different languages, as in a
bilingual pool: each response is compared with the other responses to its item.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import islice

import numpy as np

from youden.data.pools.sampled_texts import SampledTexts, format_names, select_ids
from youden.errors import ConfigError
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
    """Detect the languages of responses, and report agents that do not respond in the main language of the items.

    The main language of an item is the language of most of its responses. It may differ between items.

    Parameters
    ----------
    sample : SampledTexts
        Responses. At most 12 responses per agent are classified, as far as possible on the same items.
    seed : int, default 0
        Seed of the selection of items.

    Returns
    -------
    Languages
        Number of agents by language, and a finding if there are agents whose responses are mostly not in the main language of
        their item. An agent has a language if most of its responses are in this language; other agents are not counted.

    Raises
    ------
    ConfigError
        [languages-missing] if the package `py3langid` is not installed.
    """
    codes = _detect_languages(sample, standalone_stream(seed))
    agent_languages = [_find_majority(code_by_item.values()) for code_by_item in codes.values()]
    n_agents_by_language = Counter(language for language in agent_languages if language is not None)
    languages = dict(n_agents_by_language.most_common())

    deviating_agents = _find_deviating_agents(codes)
    if not deviating_agents:
        return Languages(languages, ())
    ids = select_ids(sample.pool.agents, deviating_agents)
    return Languages(languages, (_make_language_finding(languages, ids, len(deviating_agents) / len(codes)),))


def _make_language_finding(languages: Mapping[str, int], ids: tuple[str, ...], share: float) -> Finding:
    """Return the finding for agents with another language; `share` is their fraction of the classified agents."""
    listing = ", ".join(f"{language} ({n_agents})" for language, n_agents in languages.items())
    return Finding(
        "languages",
        f"Agents respond in several languages: {listing}. Not in the language of the other responses: {format_names(ids)}.",
        "Responses in different languages share no words, so the judge `lexical` ranks agents of the less frequent "
        "language last, whatever they contain; a model compares them less reliably than responses in one "
        "language.",
        "Rank each language separately, or translate the responses before ranking.",
        agents=ids,
        facts={"share": share},
    )


def _find_deviating_agents(codes: Mapping[int, Mapping[int, str]]) -> list[int]:
    """Find the agents that respond to most of their items in another language than most responses to the item.

    codes : position of the agent → position of the item → language code of the response; unclassified responses are left out

    Returns the positions of the agents.
    """
    counts_by_item: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for code_by_item in codes.values():
        for item, code in code_by_item.items():
            counts_by_item[item][code] += 1
    main_code_by_item = {item: max(counts, key=counts.__getitem__) for item, counts in counts_by_item.items()}

    deviating_agents = []
    for agent, code_by_item in codes.items():
        n_deviating = sum(main_code_by_item[item] != code for item, code in code_by_item.items())
        if n_deviating > len(code_by_item) / 2:
            deviating_agents.append(agent)
    return deviating_agents


def _find_majority(codes: Iterable[str]) -> str | None:
    """Return the code that more than half of `codes` are; None if there is none."""
    counts = Counter(codes)
    code, n = counts.most_common(1)[0]
    return code if n > counts.total() / 2 else None


def _load_classifier() -> Callable[[str], tuple[str, float]]:
    """Load the language detector of the optional package `py3langid`.

    Returns a function that takes a text, and returns the code of the most probable language, such as "en", and its score.

    Raises ConfigError [languages-missing] if the package is not installed.
    """
    try:
        classify: Callable[[str], tuple[str, float]] = import_module("py3langid").classify
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Languages are detected by the package `py3langid`, which is not installed. Install youden[pools].",
            slug="languages-missing",
        ) from error
    return classify


def _detect_languages(sample: SampledTexts, rng: np.random.Generator) -> dict[int, dict[int, str]]:
    """Detect the languages of a sample of the long responses of each agent.

    Agents with fewer than `MIN_CLASSIFIED_TEXTS` long responses are left out, because a few texts do not show the usual language
    of an agent.

    Returns the language codes, such as "en", by position of the agent and position of the item.
    """
    classify = _load_classifier()
    affordable_texts = MAX_CLASSIFIED_TEXTS // max(1, sample.pool.n_agents)  # per agent
    max_texts_per_agent = int(np.clip(affordable_texts, MIN_CLASSIFIED_TEXTS, MAX_TEXTS_PER_AGENT))

    # all agents go through the items in the same order, so most are classified on the same items
    items = rng.permutation(sample.items).tolist()
    codes: dict[int, dict[int, str]] = {}
    for agent, texts in enumerate(sample.pool.texts):
        items_with_long_text = (item for item in items if len(texts[item] or "") >= MIN_CLASSIFIED_CHARACTERS)
        code_by_item = {}
        for item in islice(items_with_long_text, max_texts_per_agent):
            beginning = texts[item][:MAX_CLASSIFIED_CHARACTERS]
            code, _score = classify(beginning)
            code_by_item[item] = str(code)
        if len(code_by_item) >= MIN_CLASSIFIED_TEXTS:
            codes[agent] = code_by_item
    return codes
