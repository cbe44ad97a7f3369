"""Agents that hand back their source instead of a response.

Runs of words that stand in the prompt are counted, whether or not quoting was asked for.
"""

from __future__ import annotations

import numpy as np

from youden.pools.look.findings import Finding, listed
from youden.pools.look.looked_at import LookedAt
from youden.text.copying import COPYING_SHARE, N_GRAM, copied_shares


def find_copies(looked: LookedAt) -> list[Finding]:
    """One finding for all agents whose median response is half or more taken from its item's prompt word for word."""
    shares = np.full(len(looked), np.nan)
    for m, j in enumerate(looked.items):
        if looked.pool.items[j].prompt:
            low, high = looked.bounds[m], looked.bounds[m + 1]
            shares[low:high] = copied_shares((looked.texts[r] for r in range(low, high)), looked.texts[len(looked) + m])
    medians = looked.agent_medians(shares)
    copying = np.flatnonzero(np.nan_to_num(medians) >= COPYING_SHARE)
    if not len(copying):
        return []
    ids = tuple(looked.pool.agents[k].id for k in copying)
    return [
        Finding(
            "source-copying",
            f"{listed(ids, most=20)} copy their source: in the median response {medians[copying].min():.0%} or more of the "
            f"{N_GRAM}-word runs stand in the item's prompt.",
            "Copied text shares words with everybody who keeps to the source, so a judge that compares words ranks such agents "
            "far too high, and a judge that reads ranks them too high as well: a source is what all responses have in common.",
            "Leave them out, or judge with a model and read their places with care.",
            agents=ids,
            measure=float(medians[copying].max()),
        )
    ]
