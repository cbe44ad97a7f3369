"""How wide intervals will be at a number of cyclic slots, and how many slots, or items, a wished width takes.

A slot compares each agent twice on one item; slot s asks item s mod J.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from scipy.special import stdtrit

from youden.nouns.arrays import Floats
from youden.stats.base.clusters import PRIOR_CLUSTERS
from youden.stats.precision.parts import Parts

LEVEL = 0.95
MOST_ITEMS = 10_000_000
"""More items than this are not looked for."""


def item_squares(n_slots: int, n_items: int) -> float:
    """Σ_j p_j², p_j the share of item j: 1/S where no item is asked twice, 1/J where all are asked as often.

    >>> [item_squares(n, 100) for n in (50, 100, 1000)]
    [0.02, 0.01, 0.01]
    """
    full, more = divmod(n_slots, n_items)
    return float(((n_items - more) * full**2 + more * (full + 1) ** 2) / n_slots**2)


def half_widths(parts: Parts, n_slots: int, n_items: int) -> Floats:
    """Of 95 % intervals for items like these at `n_slots` slots: float[K], t·√(own·Σp² + noise/2S)."""
    variance = parts.own * item_squares(n_slots, n_items) + parts.noise / (2 * n_slots)
    freedom = min(n_slots, n_items) - 1 + PRIOR_CLUSTERS
    return np.asarray(stdtrit(freedom, (1 + LEVEL) / 2) * np.sqrt(variance))


def at_share(half_width: Floats, share: float) -> float:
    """The half width that the share `share` of agents keeps, infinite where too few have one.

    >>> at_share(np.array([0.3, 0.1, 0.2, np.nan]), 0.5), at_share(np.array([0.3, np.nan]), 1.0)
    (0.2, inf)
    """
    ordered = np.sort(np.nan_to_num(half_width, nan=np.inf))
    return float(ordered[ceil(share * len(ordered) - 1e-9) - 1])


def slots_for(parts: Parts, width: float, *, share: float, n_items: int, most: int) -> int | None:
    """The fewest slots, 2 to `most`, at which the share `share` of agents is expected to have ± `width`; None: not even `most`.

    >>> slots_for(Parts(np.full(5, 0.005), np.full(5, 0.08)), 0.05, share=1.0, n_items=200, most=5800)
    72
    """

    def wide(n_slots: int) -> bool:
        return at_share(half_widths(parts, n_slots, n_items), share) > width

    if most < 2 or wide(most):
        return None
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high


def items_for(parts: Parts, width: float, *, share: float, n_agents: int) -> int | None:
    """The fewest items on which ± `width` can be had when all there is is asked: every pair in both orders; None: not in reason.

    >>> items_for(Parts(np.full(5, 0.005), np.full(5, 0.08)), 0.01, share=1.0, n_agents=5)
    579
    """

    def wide(n_items: int) -> bool:
        return at_share(half_widths(parts, n_items * (n_agents - 1), n_items), share) > width

    if wide(MOST_ITEMS):
        return None
    low, high = 1, MOST_ITEMS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high
