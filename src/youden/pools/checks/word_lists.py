"""Find agents whose responses are lists of words: keywords, or rare words of the prompt.

Function words are those that recur in an agent's own responses, in any language. Keywords are not reported if the
median agent has few function words, because of its script or task.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from youden.pools.checks.checked import SampledTexts, format_min_share, format_subject, select_ids
from youden.types import Finding
from youden.types.pool import Bools, Floats, Ids, Positions

RECURRENCE_SHARE = 0.2
"""A word is a function word of an agent if at least this share of the agent's responses contains it."""

MAX_RELATIVE_FUNCTION_SHARE = 0.15
"""An agent lists keywords if its share of function words is below this fraction of the median agent's.

Shares are those in the median response. No honest agent of SAMSum, AlpacaEval, MT-Bench or field-notes (telegram style
among them) is below it.
"""

MIN_FUNCTION_SHARE = 0.1
"""If the median agent's share of function words is lower than this, keywords are not reported."""

MAX_RARE_SHARE = 0.1
"""A word is rare if it occurs in the prompts, and in the responses, of less than this share of the items."""

MIN_LISTED_SHARE = 0.5
"""An agent lists the prompt's words if its median response has a sequence of rare ones at least this long.

The length is a share of the prompt's rare words, of which at most 25 count. Honest agents: at most .25. A weak response
with 25 rare words of the prompt: .9 to 1.
"""

MAX_RARE_WORDS = 25

MIN_RARE_WORDS = 4

MIN_WORDS = 10

MIN_ITEMS = 8

MIN_AGENTS = 4


def find_word_lists(sample: SampledTexts) -> Iterator[Finding]:
    """Find agents whose responses are lists of words: keywords, or rare words of the prompt.

    Yields at most one finding of each kind. Small pools are not checked.
    """
    if len(sample.items) < MIN_ITEMS or sample.pool.n_agents < MIN_AGENTS:
        return
    yield from _find_keyword_lists(sample)
    yield from _find_prompt_word_lists(sample)


def _find_keyword_lists(sample: SampledTexts) -> Iterator[Finding]:
    """Yield a finding for all agents that use few function words, compared with the median agent."""
    function_shares = sample.agent_medians(function_word_shares(sample))
    known_shares = function_shares[~np.isnan(function_shares)]
    median = float(np.median(known_shares)) if known_shares.size else 0.0
    keyword_agents = np.flatnonzero(function_shares < MAX_RELATIVE_FUNCTION_SHARE * median)
    if median >= MIN_FUNCTION_SHARE and len(keyword_agents):
        ids = select_ids(sample.pool.agents, keyword_agents)
        share = float(function_shares[keyword_agents].max())
        yield Finding(
            "keywords",
            f"{format_subject(ids, 'lists', 'list', limit=20)} keywords: {share:.0%} of the words in the median response are "
            f"function words, such as 'the' or 'of'; the median agent has {median:.0%}.",
            "A list of an item's typical words agrees with every response that uses them, but contains no statement.",
            "Read a few of the responses, and remove the agent if its task was to respond in sentences.",
            agents=ids,
            facts={"share": share},
        )


def _find_prompt_word_lists(sample: SampledTexts) -> Iterator[Finding]:
    """Yield a finding for all agents that list a large part of the prompt's rare words in one sequence."""
    listed_shares = sample.agent_medians(prompt_word_shares(sample))
    listing_agents = np.flatnonzero(listed_shares >= MIN_LISTED_SHARE)
    if len(listing_agents):
        ids = select_ids(sample.pool.agents, listing_agents)
        share = float(listed_shares[listing_agents].min())
        yield Finding(
            "prompt-words",
            f"{format_subject(ids, 'lists', 'list', limit=20)} words of the prompt: the median response contains "
            f"{format_min_share(share, n_agents=len(ids))} of the prompt's rare words in one sequence.",
            "Rare words of the prompt occur in every response that keeps to it, so such a list agrees with all of them.",
            "Read a few of the responses, and remove the agent if the list was added to influence the judge.",
            agents=ids,
            facts={"share": share},
        )


def function_word_shares(sample: SampledTexts) -> Floats:
    """Compute the share of function words among the words of each text, float array (n_texts,).

    A function word occurs in at least a fifth of the agent's texts, such as 'the' or 'of'. The share is NaN for a text
    with few words, and for all texts of an agent that has few texts or mostly short ones.
    """
    shares = np.full(len(sample), np.nan)
    for agent in range(sample.pool.n_agents):
        rows = np.flatnonzero(sample.agent_of == agent)
        if len(rows) < MIN_ITEMS or np.median(sample.n_words[rows]) < MIN_WORDS:
            continue
        n_texts_with_word: Floats = np.asarray(sample.has_word[rows].sum(axis=0))
        is_function_word = n_texts_with_word >= RECURRENCE_SHARE * len(rows)
        for row in rows[sample.n_words[rows] >= MIN_WORDS]:
            words = sample.texts.ids[sample.texts.start[row] : sample.texts.start[row + 1]]
            shares[row] = is_function_word[words].mean()
    return shares


def prompt_word_shares(sample: SampledTexts) -> Floats:
    """Compute the share of a prompt's rare words that each text lists in one sequence, float array (n_texts,).

    The share is the length of the longest sequence that consists only of rare words of the prompt, divided by the number of
    rare words of the prompt (at most 25). It is NaN if there is no prompt, or if it has fewer than four rare words.
    """
    is_rare = _find_rare_words(sample)
    shares = np.full(len(sample), np.nan)
    for item, (start, end) in enumerate(sample.ranges):
        prompt_words = sample.prompt_has_word[[item]].indices
        rare_words = prompt_words[is_rare[prompt_words]]
        if len(rare_words) >= MIN_RARE_WORDS:
            n_listable = min(MAX_RARE_WORDS, len(rare_words))
            shares[start:end] = _measure_longest_lists(sample, start, end, rare_words) / n_listable
    return shares


def _find_rare_words(sample: SampledTexts) -> Bools:
    """Return which words occur in few prompts, and in responses to few items: bool array (n_distinct_words,)."""
    n_prompts: Floats = np.asarray(sample.prompt_has_word.sum(axis=0), dtype=np.float64)
    is_rare_in_prompts = n_prompts < MAX_RARE_SHARE * len(sample.items)
    share_of_items = np.exp(-sample.idf)  # idf = −log(share of the items with the word)
    return np.asarray(is_rare_in_prompts & (share_of_items < MAX_RARE_SHARE))


def _measure_longest_lists(sample: SampledTexts, start: int, end: int, words: Ids) -> Positions:
    """Return the length of the longest sequence of only the given words in each text from `start` to `end` − 1."""
    # words of all texts together, because one call of np.isin is faster
    word_bounds = sample.texts.start[start : end + 1]
    is_listed = np.isin(sample.texts.ids[word_bounds[0] : word_bounds[-1]], words)
    text_bounds = (word_bounds - word_bounds[0]).tolist()
    return np.array([_longest_run(is_listed[first:last]) for first, last in pairwise(text_bounds)])


def _longest_run(is_listed: Bools) -> int:
    """Return the length of the longest sequence of True."""
    # every sequence lies between two breaks: a False, or one of the ends
    breaks = np.flatnonzero(np.concatenate([[True], ~is_listed, [True]]))
    return int(np.diff(breaks).max()) - 1
