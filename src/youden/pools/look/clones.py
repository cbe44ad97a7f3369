"""Agents that give the same responses as others, and identical responses between agents that otherwise differ.

Two responses on the same item are compared as sets of words.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from youden.nouns import Pool
from youden.pools.look.findings import Finding, listed
from youden.pools.look.looked_at import LookedAt

NEAR = 0.65
"""Share of all their words that two responses have in common (Jaccard), from which they count as the same.

Honest agents who know the same source stay under it: at most .46 in the median of any pair on SAMSum, .29 on field-notes.
"""

MOSTLY = 0.5
"""Share of common items with the same response, from which two agents count as clones."""

OFTEN = 0.05
"""Share of an agent's responses that are word for word another's, from which it is named."""

LEAST_WORDS = 3
LEAST_COMMON = 3


def find_clones(looked: LookedAt) -> list[Finding]:
    """One finding for each cluster of agents whose responses on most common items share ≥ .65 of their words (Jaccard)."""
    K = looked.pool.n_agents
    same = np.zeros((K, K), dtype=np.int32)
    common = np.zeros((K, K), dtype=np.int32)
    for low, high in pairwise(looked.bounds):
        rows = np.arange(low, high)[looked.n_words[low:high] >= LEAST_WORDS]
        agents = looked.agent_of[rows]
        holds = looked.holds[rows].astype(np.float32)
        shared = (holds @ holds.T).toarray()
        size = np.diag(shared)
        near = shared >= NEAR * (size[:, None] + size[None, :] - shared)
        common[np.ix_(agents, agents)] += 1
        same[np.ix_(agents, agents)] += near
    np.fill_diagonal(same, 0)
    linked = (same >= MOSTLY * common) & (common >= min(LEAST_COMMON, len(looked.items))) & (same > 0)
    n, label = connected_components(coo_array(linked), directed=False)
    sizes = np.bincount(label, minlength=n)
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


def find_duplicates(pool: Pool, *, cloned: frozenset[str]) -> list[Finding]:
    """Agents with responses that are another's word for word on the same item, beside those called clones already."""
    copies: Counter[int] = Counter()
    for column in pool.texts.T:
        first: dict[str, int] = {}
        shared: set[int] = set()
        for k, text in enumerate(column):
            if text is not None and text.strip() and first.setdefault(text, k) != k:
                shared |= {k, first[text]}
        copies.update(shared)
    n_own = pool.present.sum(axis=1)
    named = [k for k in sorted(copies) if copies[k] >= max(2, OFTEN * n_own[k]) and pool.agents[k].id not in cloned]
    if not named:
        return []
    ids = tuple(pool.agents[k].id for k in named)
    worst = max(copies[k] / n_own[k] for k in named)
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
