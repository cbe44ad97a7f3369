"""Agents that agree with each other for a reason of their own: a token that only they know, or one family of models.

A ring shares words that nobody else uses and that the prompt does not hold, other ones on each item. A family is what the
agents' `meta.family` says; naming one accuses nobody.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from youden.pools.look.findings import Finding, listed
from youden.pools.look.looked_at import LookedAt

RING = 0.5
"""Share of the items on which the same three or more agents, and nobody else, have a word that stands on this item only.

No set of honest agents of SAMSum, AlpacaEval or MT-Bench reaches it. A ring with a made-up word an item: 1.
"""

LEAST_RING = 3
LEAST_ITEMS = 8

LARGE = 0.4
"""Share of the agents from which a family counts as large."""

CLOSER = 1.25
"""How many times as many words pairs within a family share as pairs with others, from which the family is named."""


def find_rings(looked: LookedAt, *, cloned: frozenset[str] = frozenset()) -> list[Finding]:
    """One finding for each set of three or more agents that share private words on half of the items or more.

    cloned: agents that are named as clones already; a set of which they are half shares all its words, not a token.
    """
    if len(looked.items) < LEAST_ITEMS:
        return []
    times: Counter[tuple[int, ...]] = Counter()
    once = looked.idf >= np.log(len(looked.items)) - 1e-9
    for m, (low, high) in enumerate(looked.spans):
        holds = looked.holds[low:high].tocsc()
        n = np.diff(holds.indptr)
        private = once & (n >= LEAST_RING) & (2 * n <= max(2 * LEAST_RING, looked.pool.n_agents))
        private[looked.prompt_holds[[m]].indices] = False
        agents = looked.agent_of[low:high]
        times.update(
            {
                tuple(sorted(agents[holds.indices[holds.indptr[w] : holds.indptr[w + 1]]].tolist()))
                for w in np.flatnonzero(private)
            }
        )
    findings = []
    for ring, n_times in times.most_common():
        share = n_times / len(looked.items)
        if share < RING:
            break
        ids = tuple(looked.pool.agents[k].id for k in ring)
        if 2 * len(cloned.intersection(ids)) >= len(ids):
            continue
        findings.append(
            Finding(
                "ring",
                f"{listed(ids, most=20)} share words that nobody else uses, on {share:.0%} of the items, other words on each.",
                "A token that only some agents know tells a judge which of their answers belong together, so they rise together "
                "whatever else they say.",
                "Read their answers to a few items; leave the ring out, or keep one of it.",
                agents=ids,
                measure=share,
            )
        )
    return findings


def find_families(looked: LookedAt) -> list[Finding]:
    """One finding for each family (`meta.family`) that is a large part of the pool or whose agents share more words."""
    agents = looked.pool.agents
    family = [agent.meta.get("family") for agent in agents]
    named = sorted({name for name in family if isinstance(name, str)})
    if len(named) < 1:
        return []
    alike = looked.mean_alike()
    findings = []
    for name in named:
        members = np.array([one == name for one in family])
        n = int(members.sum())
        if n < 2:
            continue
        within = alike[np.ix_(members, members)][~np.eye(n, dtype=np.bool_)]
        across = alike[np.ix_(members, ~members)]
        if np.isnan(within).all() or np.isnan(across).all():
            closer = 1.0
        else:
            closer = float(np.nanmean(within) / max(1e-9, np.nanmean(across)))
        share = n / len(agents)
        if closer < CLOSER and (n < 3 or share < LARGE):
            continue
        ids = tuple(agents[k].id for k in np.flatnonzero(members))
        findings.append(
            Finding(
                "family",
                f"{n} of {len(agents)} agents are of the family '{name}': {listed(ids)}. Two of them share {closer:.2f} times as "
                "many words as one of them and another agent.",
                "Agents of one family agree for reasons that need not be right, and each is a partner of the others: a large or "
                "close family can lift all its agents.",
                "Read their places with care; see whether they hold when only agents of other families are their partners.",
                agents=ids,
                measure=share,
            )
        )
    return findings
