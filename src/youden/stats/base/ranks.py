"""Which places in a ranking abilities and their intervals allow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.arrays import Floats, Ids


class RankRange(NamedTuple):
    """int32[K] each: the best and the worst place an agent can hold, 1 is first."""

    low: Ids
    high: Ids


def ranks(ability: Floats) -> Ids:
    """Places by ability, int32[K]: 1 + the number of agents strictly above, so ties share the best place.

    ability: float[K]; NaN (no estimate) stands behind every number.

    >>> ranks(np.array([0.2, 0.9, 0.2, np.nan]))
    array([2, 1, 2, 4], dtype=int32)
    """
    filled = np.where(np.isnan(ability), -np.inf, ability)
    return np.asarray(1 + (filled[None, :] > filled[:, None]).sum(axis=1), dtype=np.int32)


def rank_ranges(low: Floats, high: Floats, *, component: Ids | None = None) -> RankRange:
    """Places that intervals allow: rank low = 1 + agents whose interval lies wholly above, high = K − those wholly below.

    low, high: float[K]; NaN in either is no interval: such an agent may hold any place and bars nobody else's.
    component: int[K], as `Solution.component`: agents of two components bar each other from no place.

    Raises: StatisticsError [interval-order] where low exceeds high.

    >>> rank_ranges(np.array([0.7, 0.4, 0.1]), np.array([0.9, 0.8, 0.3]))
    RankRange(low=array([1, 1, 3], dtype=int32), high=array([2, 2, 3], dtype=int32))
    """
    if (low > high).any():
        raise StatisticsError(
            f"{int((low > high).sum())} intervals end before they begin. Give low ≤ high.", slug="interval-order"
        )
    above = low[None, :] > high[:, None]
    if component is not None:
        above &= component[None, :] == component[:, None]
    best = 1 + above.sum(axis=1)
    worst = len(low) - above.sum(axis=0)
    return RankRange(best.astype(np.int32), worst.astype(np.int32))
