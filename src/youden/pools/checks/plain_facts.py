"""Find problems of single responses: gaps, lengths, placeholders and damaged characters; and similar ids."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain, cycle

import numpy as np
from numpy.typing import NDArray

from youden.data.pools.sampled_texts import format_names, select_ids
from youden.pools.checks.checked import format_subject
from youden.pools.checks.repeated import find_unusual_repeats
from youden.protocol.self_trials import needs_self_trials, suggest_additions
from youden.text.sentences import format_count
from youden.types import Finding, Pool
from youden.types.pool import Floats

PLACEHOLDER = re.compile(
    r"\s*(#(REF!|N/A|VALUE!|NAME\?|DIV/0!|NULL!|NUM!|SPILL!|CALC!)|nan|null|none|undefined|\[object Object\]"
    r"|\[?[\w.]*(error|exception)(:| code|\]).*|http (error )?[45]\d\d\b.*|(request )?(timeout|timed out)\W*)\s*",
    re.IGNORECASE | re.DOTALL,
)
"""An error of a spreadsheet, the text that a program prints for a missing value, or an error message of an API."""

MAX_PLACEHOLDER_CHARACTERS = 300
MAX_QUOTED_CHARACTERS = 40

LONG_CHARACTERS = 100_000
MIN_BLANK_SHARE = 0.05
MIN_ANSWERED_SHARE = 0.5

MIN_LONG_RATIO = 2.5
MAX_SHORT_RATIO = 0.08
"""An agent's responses are very long, or very short, if their median relative length reaches one of these limits.

Relative length is the number of characters divided by the item's median. Honest agents, in words: .2 to 1.9 on SAMSum,
.28 to 1.6 on AlpacaEval.
"""

MIN_LENGTH_ITEMS = 8
MIN_LENGTH_AGENTS = 4
DAMAGED = ("\ufffd", "\x00")
MAX_SELF_WRITTEN_SHARE = 0.01


def response_lengths(pool: Pool) -> NDArray[np.int64]:
    """Return the length in characters of each response.

    Parameters
    ----------
    pool : Pool

    Returns
    -------
    int array (n_agents, n_items)
        −1 for a cell without a response.
    """
    return np.array([[-1 if text is None else len(text) for text in row] for row in pool.texts], dtype=np.int64)


def find_response_problems(pool: Pool, length: NDArray[np.int64]) -> list[Finding]:
    """Find problems of responses, such as gaps, unusual lengths, placeholders and damaged characters, and similar ids.

    length : int array (n_agents, n_items), characters of each response, −1 without a response
    """
    return [
        *_check_size(pool),
        *_find_gaps(pool),
        *_find_blank_responses(pool),
        *_find_placeholders(pool),
        *find_unusual_repeats(pool),
        *_find_long(pool, length),
        *_find_unusual_lengths(pool, length),
        *_find_damaged(pool),
        *_find_similar_ids("agent", tuple(agent.id for agent in pool.agents)),
        *_find_similar_ids("item", tuple(item.id for item in pool.items)),
    ]


def _check_size(pool: Pool) -> Iterator[Finding]:
    """Report a pool with fewer than 3 agents or 2 items, unless its agents have repeated responses."""
    if (pool.n_agents >= 3 and pool.n_items >= 2) or needs_self_trials(pool):
        return
    yield Finding(
        "pool-small",
        f"The pool is too small: got {format_count(pool.n_agents, 'agent')} and {format_count(pool.n_items, 'item')}.",
        "No ranking is possible: a ranking needs 3 agents and 2 items.",
        f"{suggest_additions(pool)}.",
    )


def _find_gaps(pool: Pool) -> Iterator[Finding]:
    """Report missing responses that prevent comparisons, with at most one finding for each of three problems.

    - agents that respond to less than half of the items;
    - items with responses of fewer than two agents;
    - agents that have no item in common with another agent.
    """
    n_items_by_agent = pool.present.sum(axis=1)
    n_agents_by_item = pool.present.sum(axis=0)

    min_items = MIN_ANSWERED_SHARE * pool.n_items
    incomplete = select_ids(pool.agents, np.flatnonzero(n_items_by_agent < min_items))
    if incomplete:
        yield Finding(
            "gaps",
            f"{format_count(len(incomplete), 'agent', 'responds', 'respond')} to less than half of the items: "
            f"{format_names(incomplete)}.",
            "They are compared on fewer items than the other agents. If these items are easy, the mean score overestimates their "
            "ability. Their intervals are wide.",
            "Add the missing responses, or set `design: dense`, whose fit separates ability from difficulty.",
            agents=incomplete,
            facts={"share": float(n_items_by_agent.min() / pool.n_items)},
        )

    items_without_pairs = select_ids(pool.items, np.flatnonzero(n_agents_by_item < 2))
    if items_without_pairs and not needs_self_trials(pool):
        yield Finding(
            "items-alone",
            f"{format_count(len(items_without_pairs), 'item', 'has', 'have')} responses of fewer than two agents: "
            f"{format_names(items_without_pairs)}.",
            "They give no pairs of responses, so they do not contribute to the ranking. Ids that differ between files have this "
            "effect.",
            "Check whether an item has the same id in all files, or remove the items.",
            items=items_without_pairs,
        )
    yield from _find_disjoint_agents(pool)


def _find_disjoint_agents(pool: Pool) -> Iterator[Finding]:
    """Report agents that have no item in common with at least one other agent.

    The judge never compares two agents without a common item. Their order in the ranking depends on other agents that are
    compared with both.

    Yields one finding that lists all these agents, or nothing if any two agents have an item in common.
    """
    present = pool.present.astype(np.float32)
    n_common_items = present @ present.T
    np.fill_diagonal(n_common_items, 1)  # an agent is not compared with itself

    is_disjoint = n_common_items == 0
    if pool.n_items and is_disjoint.any():
        disjoint = select_ids(pool.agents, np.flatnonzero(is_disjoint.any(axis=1)))
        yield Finding(
            "nothing-shared",
            f"Some agents have no item in common with another agent: {format_names(disjoint)}.",
            "They are never compared directly, and without a chain of common partners their ranks cannot be compared at all.",
            "Add responses, such that all agents have at least a few items in common.",
            agents=disjoint,
        )


def _find_blank_responses(pool: Pool) -> Iterator[Finding]:
    """Report agents with blank responses, if at least the share `MIN_BLANK_SHARE` of their responses is blank."""
    n_blank = np.zeros(pool.n_agents, dtype=np.int64)
    # `all_texts` has one row per agent for the first responses, then one per agent for the second ones, and so on
    for row, texts in enumerate(pool.all_texts):
        agent = row % pool.n_agents
        n_blank[agent] += sum(text is not None and not text.strip() for text in texts)

    n_responses = np.maximum(1, pool.n_repeats.sum(axis=1))  # at least 1, because it is a divisor below
    min_blank = np.maximum(1, MIN_BLANK_SHARE * n_responses)
    is_reported = n_blank >= min_blank
    reported = select_ids(pool.agents, np.flatnonzero(is_reported))
    if not reported:
        return

    yield Finding(
        "blank",
        f"{format_count(int(n_blank.sum()), 'response', 'is', 'are')} empty or consist of spaces, most of them by "
        f"{format_names(reported)}.",
        "An empty response counts as a failure: the answer to its paired trials is no, which lowers the agent's score.",
        "If the agent did not get the item, set `empty: missing` in the config. If it failed or refused, keep the responses.",
        agents=reported,
        facts={"share": float((n_blank / n_responses).max())},
    )


def _find_placeholders(pool: Pool) -> Iterator[Finding]:
    """Report responses that only consist of a placeholder for a missing value, such as "null", or of an error message."""
    counts: Counter[str] = Counter()  # number of responses by placeholder
    reported: list[str] = []  # ids of agents
    for agent, texts in zip(cycle(pool.agents), pool.all_texts, strict=False):
        for text in texts:
            if text is not None and len(text) <= MAX_PLACEHOLDER_CHARACTERS and PLACEHOLDER.fullmatch(text):
                counts[text.strip()[:MAX_QUOTED_CHARACTERS]] += 1
                reported.append(agent.id)
    if not counts:
        return

    agents = tuple(dict.fromkeys(reported))  # each agent once
    n_responses = counts.total()
    examples = ", ".join(f"{placeholder} ({count:,})" for placeholder, count in counts.most_common(5))
    yield Finding(
        "stand-ins",
        f"{format_count(n_responses, 'response', 'looks', 'look')} like a missing value or an error message: "
        f"{examples}, by {format_names(agents)}.",
        "They are judged like any other response. The judge answers no to their paired trials, or yes if both responses are the "
        "same text.",
        "Remove these rows, so that the cells are missing, or import the responses again.",
        agents=agents,
        facts={"n": n_responses},
    )


def _find_long(pool: Pool, length: NDArray[np.int64]) -> Iterator[Finding]:
    """Report responses of more than `LONG_CHARACTERS` characters.

    length : int array (n_agents, n_items), number of characters of each response
    """
    is_long = length > LONG_CHARACTERS
    if not is_long.any():
        return

    agents = select_ids(pool.agents, np.flatnonzero(is_long.any(axis=1)))
    items = select_ids(pool.items, np.flatnonzero(is_long.any(axis=0)))
    yield Finding(
        "long",
        f"{format_count(int(is_long.sum()), 'response', 'is', 'are')} longer than {LONG_CHARACTERS:,} characters "
        f"(the longest {length.max():,}), by {format_names(agents)}.",
        "They may not fit the context window of a judge. Such trials are not judged and count as missing, and those that fit are "
        "expensive.",
        "Check whether they are responses at all, and shorten them, or set `context_window` in the judge's config.",
        agents=agents,
        items=items,
        facts={"characters": int(length.max())},
    )


def _find_unusual_lengths(pool: Pool, length: NDArray[np.int64]) -> Iterator[Finding]:
    """Report agents whose median response is much longer or much shorter than the usual response to the item.

    length : int array (n_agents, n_items), number of characters of each response, −1 for a missing one
    """
    if pool.n_agents < MIN_LENGTH_AGENTS or pool.n_items < MIN_LENGTH_ITEMS:
        return

    ratios = _compute_length_ratios(pool, length)
    very_long = np.flatnonzero(ratios >= MIN_LONG_RATIO)
    if len(very_long):
        ids = select_ids(pool.agents, very_long)
        max_ratio = float(ratios.max())
        yield Finding(
            "very-long",
            f"{format_subject(ids, 'writes', 'write')} very long responses: in the median up to "
            f"{max_ratio:.1f} times as long as the usual response to the item.",
            "A long response shares words with more of the others, so judges that prefer length rank it higher.",
            "Read a few of the responses to find padding, and check how ranks depend on length before relying on them.",
            agents=ids,
            facts={"times": max_ratio},
        )
    very_short = np.flatnonzero(ratios <= MAX_SHORT_RATIO)
    if len(very_short):
        ids = select_ids(pool.agents, very_short)
        min_ratio = float(ratios.min())
        yield Finding(
            "very-short",
            f"{format_subject(ids, 'writes', 'write')} very short responses: in the median only "
            f"{min_ratio:.1%} as long as the usual response to the item.",
            "There is almost nothing to compare, so such an agent ranks low.",
            "Check whether the import cut its responses.",
            agents=ids,
            facts={"share": min_ratio},
        )


def _compute_length_ratios(pool: Pool, length: NDArray[np.int64]) -> Floats:
    """Compute the length of each agent's median response, relative to the usual response to the item.

    The ratio of a response is its length divided by the median length of all responses to the same item. An agent
    with a ratio far from 1 gives unusually long or short responses.

    length : int array (n_agents, n_items), characters of each response, −1 if it is missing

    Returns the median ratio of each agent, float array (n_agents,), which is 1 for an agent without responses.
    """
    is_answered = pool.present.any(axis=0)
    lengths = np.where(length >= 0, length, np.nan)[:, is_answered]
    ratios = lengths / np.maximum(1.0, np.nanmedian(lengths, axis=0))

    median_ratios = np.ones(pool.n_agents)
    for position, ratios_of_agent in enumerate(ratios):
        valid_ratios = ratios_of_agent[~np.isnan(ratios_of_agent)]
        if valid_ratios.size:
            median_ratios[position] = np.median(valid_ratios)
    return median_ratios


def _find_damaged(pool: Pool) -> Iterator[Finding]:
    """Report responses with characters that were lost when a file was read in a wrong encoding."""
    n_damaged_by_row = np.array([sum(map(_is_damaged, texts)) for texts in pool.all_texts])
    n_damaged = n_damaged_by_row.reshape(pool.repeats, pool.n_agents).sum(axis=0)
    # some models write U+FFFD themselves in a few responses, for example in pictures made of characters
    is_reported = n_damaged > np.maximum(1, MAX_SELF_WRITTEN_SHARE * pool.n_repeats.sum(axis=1))
    if not is_reported.any():
        return

    n_responses = int(n_damaged[is_reported].sum())
    agents = select_ids(pool.agents, np.flatnonzero(is_reported))
    yield Finding(
        "damaged",
        f"{format_count(n_responses, 'response', 'contains', 'contain')} a replacement character (U+FFFD) or a null, by "
        f"{format_names(agents)}.",
        "The file was read in a wrong encoding at some time. Damaged words do not match those of others, which lowers the "
        "scores of these agents.",
        "Import the original file again in the correct encoding.",
        agents=agents,
    )


def _is_damaged(text: str | None) -> bool:
    """Return whether a text contains a replacement character or a null."""
    return text is not None and any(mark in text for mark in DAMAGED)


def _find_similar_ids(noun: str, ids: tuple[str, ...]) -> Iterator[Finding]:
    """Report ids that differ only by case or spaces; `noun` is "agent" or "item"."""
    ids_by_key: defaultdict[str, list[str]] = defaultdict(list)
    for id_ in ids:
        without_spaces = "".join(id_.split())
        ids_by_key[without_spaces.casefold()].append(id_)
    groups = [group for group in ids_by_key.values() if len(group) > 1]
    similar = tuple(chain.from_iterable(groups))
    if not similar:
        return

    yield Finding(
        "ids-alike",
        f"Some {noun} ids differ only by case or spaces: {format_names(similar)}.",
        f"If they mean the same {noun}, its responses are split between two ids and are not compared as they should be.",
        f"Set one spelling of each {noun} id in all files.",
        agents=similar if noun == "agent" else (),
        items=similar if noun == "item" else (),
    )
