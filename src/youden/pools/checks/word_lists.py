"""Find agents whose responses are lists of words: keywords, or rare words of the prompt.

Function words are those that recur in an agent's own responses, in any language. Keywords are not reported if the
median agent has few function words, because of its script or task.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from youden.data.pools.sampled_texts import SampledTexts, select_ids
from youden.pools.checks.checked import format_min_share, format_subject
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
    """Find agents that list keywords instead of writing sentences, and yield one finding for all of them.

    Such an agent uses few function words (words such as 'the' or 'of') compared with the median agent.
    """
    function_shares = sample.agent_medians(compute_function_word_shares(sample))
    known_shares = function_shares[~np.isnan(function_shares)]
    median = float(np.median(known_shares)) if known_shares.size else 0.0
    agents_with_few = np.flatnonzero(function_shares < MAX_RELATIVE_FUNCTION_SHARE * median)
    if median >= MIN_FUNCTION_SHARE and len(agents_with_few):
        ids = select_ids(sample.pool.agents, agents_with_few)
        share = float(function_shares[agents_with_few].max())
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
    """Find agents that list rare words of the prompt one after another, and yield one finding for all of them.

    The list in the median response of such an agent contains at least the share `MIN_LISTED_SHARE` of the prompt's rare words.
    """
    listed_shares = sample.agent_medians(compute_listed_shares(sample))
    agents_with_lists = np.flatnonzero(listed_shares >= MIN_LISTED_SHARE)
    if len(agents_with_lists):
        ids = select_ids(sample.pool.agents, agents_with_lists)
        share = float(listed_shares[agents_with_lists].min())
        yield Finding(
            "prompt-words",
            f"{format_subject(ids, 'lists', 'list', limit=20)} words of the prompt: the median response contains "
            f"{format_min_share(share, n_agents=len(ids))} of the prompt's rare words in one sequence.",
            "Rare words of the prompt occur in every response that keeps to it, so such a list agrees with all of them.",
            "Read a few of the responses, and remove the agent if the list was added to influence the judge.",
            agents=ids,
            facts={"share": share},
        )


def compute_function_word_shares(sample: SampledTexts) -> Floats:
    """Compute the share of function words among the words of each response, float array (n_texts,).

    Function words, such as 'the' or 'of', are the words that occur in at least a fifth of the agent's responses. The share is
    NaN for a response with few words, and for all responses of an agent that has few responses or mostly short ones.
    """
    shares = np.full(len(sample), np.nan)
    for agent in range(sample.pool.n_agents):
        responses = np.flatnonzero(sample.agent_of == agent)
        n_words = sample.n_words[responses]
        if len(responses) < MIN_ITEMS or np.median(n_words) < MIN_WORDS:
            continue
        n_responses_with_word: Floats = np.asarray(sample.has_word[responses].sum(axis=0))
        is_function_word = n_responses_with_word >= RECURRENCE_SHARE * len(responses)

        for response in responses[n_words >= MIN_WORDS]:
            # `texts.ids` has the words of all texts as numbers, one text after another
            start, end = sample.texts.start[response], sample.texts.start[response + 1]
            words = sample.texts.ids[start:end]
            shares[response] = is_function_word[words].mean()
    return shares


def compute_listed_shares(sample: SampledTexts) -> Floats:
    """Compute the share of the prompt's rare words that each response lists one after another, float array (n_texts,).

    The list is the longest sequence in the response that consists only of rare words of the prompt. Its length is divided by the
    number of rare words of the prompt (at most 25). The share is NaN if the prompt has fewer than four rare words.
    """
    is_rare = _find_rare_words(sample)
    shares = np.full(len(sample), np.nan)
    for item, (start, end) in enumerate(sample.ranges):  # the responses to each item
        prompt_words = sample.prompt_has_word[[item]].indices
        rare_words = prompt_words[is_rare[prompt_words]]
        if len(rare_words) >= MIN_RARE_WORDS:
            list_lengths = _measure_longest_lists(sample, start, end, rare_words)
            shares[start:end] = list_lengths / min(MAX_RARE_WORDS, len(rare_words))
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
    return np.array([_measure_longest_run(is_listed[first:last]) for first, last in pairwise(text_bounds)])


def _measure_longest_run(is_listed: Bools) -> int:
    """Return the length of the longest sequence of True."""
    # every sequence lies between two breaks: a False, or one of the ends
    breaks = np.flatnonzero(np.concatenate([[True], ~is_listed, [True]]))
    return int(np.diff(breaks).max()) - 1
