"""Find clones and report them in the warnings of a run. Clones are agents that give the same responses, except for some words.

Two responses to an item are compared as sets of words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from youden.data.folder.run_folder import RunFolder
from youden.data.pools.sampled_texts import SampledTexts, format_names, select_ids
from youden.errors import YoudenError
from youden.text.similarity import jaccard_similarity
from youden.types import Finding, Plan, Pool
from youden.types.pool import Bools, Floats, Positions
from youden.types.recommendation import MIN_AGENTS_FOR_COPYING

Counts = NDArray[np.unsignedinteger]

MIN_CLONE_SIMILARITY = 0.65
"""Minimum Jaccard similarity of words of two responses that count as the same.

Honest agents with the same source stay below it: the median of any pair is at most .46 on SAMSum, .37 on AlpacaEval.
"""

MIN_EXCESS_SIMILARITY = 0.5
"""The similarity of such responses must also exceed the item's median similarity m by this fraction of 1 − m.

Otherwise honest translations of one sentence, which share most of their words, would count as the same.
"""

MIN_CLONE_SHARE = 0.5
"""Two agents are clones if they give the same response to at least this share of their common items."""

MIN_CLONE_WORDS = 3
MIN_COMMON_ITEMS = 3

CHUNK_RESPONSES = 1_000
"""Number of responses that are compared with the others at a time. The first chunk determines the median of an item."""

MAX_TEXTS_OF_RUN = 3_000
"""Approximate number of responses that are compared to rank a pool; `youden check` compares more."""

_findings_by_pool: WeakKeyDictionary[Pool, tuple[Finding, ...]] = WeakKeyDictionary()
"""Results of `find_pool_clones`, because a pool is ranked several times, for example by several judges."""


def find_run_clones(
    folder: RunFolder, agent_ids: Sequence[str], known_clones: Sequence[tuple[str, ...]]
) -> tuple[Finding, ...]:
    """Find agents with nearly the same responses (clones) in a judged run, and return one finding per cluster.

    Two agents are clones if their responses have nearly the same words on at least half of their common items. Any two agents of
    a cluster are clones. A random sample of the items is compared; it is the same in each call.

    folder : folder of the run
    agent_ids : ids of the agents of the run
    known_clones : clusters of agent ids of an earlier fit. They are reported instead if the pool cannot be read or has changed.

    Returns findings with the slug "clones"; the `agents` of a finding are the ids of its cluster, at least two. Empty without
    clones.
    """
    pool = folder.find_judged_pool()
    if pool is not None:
        return find_pool_clones(pool)
    n_agents = len(agent_ids)
    return tuple(_make_clone_finding(ids, n_agents=n_agents) for ids in known_clones)


def find_plan_clones(plan: Plan) -> tuple[Finding, ...]:
    """Find the clones in the pool of a plan. The result is empty if the plan has no pool, or if its pool cannot be read."""
    with suppress(YoudenError):
        return find_pool_clones(plan.pool)
    return ()


def find_pool_clones(pool: Pool) -> tuple[Finding, ...]:
    """Find agents with nearly the same responses (clones) in a pool, and return one finding per cluster.

    The responses to a random sample of items are compared: about 3,000 responses, but at least 20 items.
    """
    findings = _findings_by_pool.get(pool)
    if findings is None:
        findings = tuple(find_clones(SampledTexts.from_pool(pool, max_texts=MAX_TEXTS_OF_RUN)))
        _findings_by_pool[pool] = findings
    return findings


def find_clones(sample: SampledTexts) -> Iterator[Finding]:
    """Find clusters of agents that give the same responses, and yield one finding per cluster.

    Any two agents of a cluster give the same response, except for some words, to at least half of their common items.
    """
    n_same, n_compared = _count_same_responses(sample)
    min_compared = min(MIN_COMMON_ITEMS, len(sample.items))
    is_clone_pair = (n_same > 0) & (n_compared >= min_compared)
    is_clone_pair &= n_same >= np.multiply(n_compared, MIN_CLONE_SHARE, dtype=np.float32)
    if not is_clone_pair.any():
        return

    for members in _cluster_pairs(is_clone_pair):
        pairs_of_members = np.ix_(members, members)
        n_compared_once = np.triu(n_compared[pairs_of_members], k=1)  # each pair once, as in `n_same`
        share = float(n_same[pairs_of_members].sum() / n_compared_once.sum())
        ids = select_ids(sample.pool.agents, members)
        yield _make_clone_finding(ids, n_agents=sample.pool.n_agents, share=share)


def _cluster_pairs(is_pair: Bools) -> list[Positions]:
    """Return the clusters of agents of which any two are a pair, from a matrix (n_agents, n_agents), above its diagonal."""
    # complete linkage: a chain of pairs is not one cluster
    distances = squareform(~is_pair, checks=False).astype(np.float64)
    labels = fcluster(linkage(distances, "complete"), 0.5, "distance") - 1
    sizes = np.bincount(labels)
    return [np.flatnonzero(labels == cluster) for cluster in np.flatnonzero(sizes > 1)]


def _count_same_responses(sample: SampledTexts) -> tuple[Counts, Counts]:
    """Count, for each pair of agents, the items on which both give nearly the same response.

    Two responses count as the same if the Jaccard similarity of their words reaches the threshold of the item. Responses with
    fewer than `MIN_CLONE_WORDS` words are not compared.

    sample : responses to compare

    Returns two int arrays (n_agents, n_agents). The first one counts the items with the same response; it is 0 on and below the
    diagonal. The second one counts the items on which the responses of both agents were compared.
    """
    n_agents, n_items = sample.pool.n_agents, len(sample.items)
    count_type = np.min_scalar_type(n_items)  # 8 bits for a large pool, to save memory
    is_long_enough = sample.n_words[: len(sample)] >= MIN_CLONE_WORDS
    is_compared = np.zeros((n_agents, n_items), dtype=count_type)
    is_compared[sample.agent_of[is_long_enough], sample.item_of[is_long_enough]] = 1
    n_compared = is_compared @ is_compared.T

    n_same = np.zeros((n_agents, n_agents), dtype=count_type)
    for start, end in sample.ranges:  # rows of the responses to one item
        rows = start + np.flatnonzero(is_long_enough[start:end])
        agents = sample.agent_of[rows]  # ascending
        has_word = sample.has_word[rows]
        threshold = MIN_CLONE_SIMILARITY

        # compare the responses of a chunk with each other and with all later responses, so that each pair is compared once
        for chunk_start in range(0, len(rows), CHUNK_RESPONSES):
            chunk = has_word[chunk_start : chunk_start + CHUNK_RESPONSES]
            similarity = jaccard_similarity(chunk, has_word[chunk_start:])
            if chunk_start == 0:
                threshold = _choose_clone_threshold(similarity)
            is_same = np.triu(similarity >= threshold, k=1)
            first, second = np.nonzero(is_same)
            n_same[agents[chunk_start + first], agents[chunk_start + second]] += 1
    return n_same, n_compared


def _choose_clone_threshold(similarity: Floats) -> float:
    """Choose the minimum similarity at which two responses to an item count as the same.

    If all responses to the item are similar, for example because they are short, the minimum is higher than usual.

    similarity : float array (n_rows, n_responses), Jaccard similarities of the first responses and all responses to the item
    """
    median = 0.0
    if len(similarity) > 1:
        is_off_diagonal = ~np.eye(*similarity.shape, dtype=np.bool_)
        median = float(np.median(similarity[is_off_diagonal]))
    return max(MIN_CLONE_SIMILARITY, median + MIN_EXCESS_SIMILARITY * (1 - median))


def _make_clone_finding(ids: tuple[str, ...], *, n_agents: int, share: float | None = None) -> Finding:
    """Make the message to the user about a cluster of clones.

    Clones are agents that give the same responses, except for some words.

    ids : agents of the cluster
    n_agents : number of agents of the pool. In a small pool, good agents may also agree, so the message recommends to read the
        responses.
    share : fraction of the items on which two agents of the cluster give the same response; None if it is unknown
    """
    remedy = "Remove all but one of them, unless you want to study clones."
    if n_agents < MIN_AGENTS_FOR_COPYING:
        remedy = (
            f"Read their responses: among {n_agents} agents, copies cannot be distinguished from good agents that agree. "
            "If they are copies, remove all but one."
        )
    fraction = f"at least {MIN_CLONE_SHARE:.0%}" if share is None else f"{share:.0%}"
    return Finding(
        "clones",
        f"{format_names(ids)} give the same responses, except for up to a third of the words, on {fraction} of their items.",
        "Clones inflate each other's scores: each is a perfect partner of the others, so the scores of all rise by about "
        "their share of the partners, whatever their responses are.",
        remedy,
        agents=ids,
        facts={"share": share},
    )
