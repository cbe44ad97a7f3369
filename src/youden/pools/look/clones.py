"""Agents that give the same responses as others, and identical responses between agents that otherwise differ.

Two responses on the same item are compared as sets of words.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from youden.nouns import Pool
from youden.pools.look.findings import Finding, listed
from youden.pools.look.looked_at import LookedAt

NEAR = 0.65
"""Share of all their words that two responses have in common (Jaccard), from which they count as the same.

Honest agents who know the same source stay under it: at most .46 in the median of any pair on SAMSum, .37 on AlpacaEval.
"""

BEYOND = 0.5
"""How much of the way from the usual pair's share on the item to 1 they have to go besides: translations of one sentence share
most of their words, honestly."""

MOSTLY = 0.5
"""Share of common items with the same response, from which two agents count as clones."""

OFTEN = 0.05
"""Share of an agent's responses that are word for word another's, from which it is named."""

LEAST_COPIED = 8
"""Pieces between white space from which a response that is another's counts: shorter ones coincide."""

LEAST_WORDS = 3
LEAST_COMMON = 3


def clones_of(pool: Pool) -> tuple[tuple[str, ...], ...]:
    """Ids of agents whose texts show them to be one, a cluster each, from some 3,000 responses (20 items at least)."""
    return tuple(finding.agents for finding in find_clones(LookedAt.of(pool, most=3_000)))


def find_clones(looked: LookedAt) -> list[Finding]:
    """One finding for each cluster of agents of whom any two give the same responses on half of their common items or more."""
    K = looked.pool.n_agents
    same = np.zeros((K, K), dtype=np.int32)
    common = np.zeros((K, K), dtype=np.int32)
    for rows, all_alike in looked.alike():
        long_enough = looked.n_words[rows] >= LEAST_WORDS
        agents, alike = looked.agent_of[rows[long_enough]], all_alike[np.ix_(long_enough, long_enough)]
        usual = float(np.median(alike[~np.eye(len(alike), dtype=np.bool_)])) if len(alike) > 1 else 0.0
        common[np.ix_(agents, agents)] += 1
        same[np.ix_(agents, agents)] += alike >= max(NEAR, usual + BEYOND * (1 - usual))
    np.fill_diagonal(same, 0)
    linked = (same >= MOSTLY * common) & (common >= min(LEAST_COMMON, len(looked.items))) & (same > 0)
    if not linked.any():
        return []
    # Complete linkage: all pairs of a cluster are linked, so that a chain of likenesses is no cluster.
    label = fcluster(linkage(squareform(~linked, checks=False).astype(np.float64), "complete"), 0.5, "distance") - 1
    sizes = np.bincount(label)
    findings = []
    for cluster in np.flatnonzero(sizes > 1):
        members = np.flatnonzero(label == cluster)
        share = float(same[np.ix_(members, members)].sum() / max(1, common[np.ix_(members, members)].sum()))
        share *= len(members) / (len(members) - 1)
        ids = tuple(looked.pool.agents[k].id for k in members)
        findings.append(
            Finding(
                "clones",
                f"{len(ids)} agents give the same responses, up to a third of the words, on {min(share, 1):.0%} of their items: "
                f"{listed(ids)}.",
                "Clones inflate each other's mutual information: each is paired with the others as a perfect partner, so all of "
                "them rise by about their share of the partners, whatever they say.",
                "Keep one of them, unless the clone is what you want to study.",
                agents=ids,
                measure=min(share, 1.0),
            )
        )
    return findings


def find_duplicates(pool: Pool, *, named: frozenset[str]) -> list[Finding]:
    """Agents with responses of some length that are another's word for word on the same item, where that is not usual.

    named: agents that are named for something already, who count no more.
    """
    copies: Counter[int] = Counter()
    kept = [k for k, agent in enumerate(pool.agents) if agent.id not in named]
    for column in pool.texts.T:
        first: dict[str, int] = {}
        shared: set[int] = set()
        for k in kept:
            text = column[k]
            if text is not None and len(text.split()) >= LEAST_COPIED and first.setdefault(text, k) != k:
                shared |= {k, first[text]}
        copies.update(shared)
    n_own = pool.present.sum(axis=1)
    copying = [k for k in sorted(copies) if copies[k] >= max(2, OFTEN * n_own[k])]
    if not copying or 2 * len(copying) > len(kept):
        return []
    ids = tuple(pool.agents[k].id for k in copying)
    worst = max(copies[k] / n_own[k] for k in copying)
    return [
        Finding(
            "duplicates",
            f"Responses of {listed(ids)} are another agent's word for word, at worst {worst:.0%} of an agent's.",
            "On these items the agents are each other's perfect partner, which lifts both.",
            "See whether a file was imported twice, or whether short answers coincide; then drop the copies.",
            agents=ids,
            measure=float(worst),
        )
    ]
