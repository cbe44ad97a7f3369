"""How alike two rankings are, from end to end and at the top, and how alike two halves of the items rank: the ceiling.

Agreement of two halves is what the items themselves allow; a plan that agrees better with the dense ranking repeats its noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from youden.nouns.arrays import Floats
from youden.stats.base.metrics import spearman
from youden.streams import own_stream

TOPS = (1, 3, 5)
N_SPLITS = 20


@dataclass(frozen=True)
class Halves:
    """ρ between the dense rankings of two disjoint halves of the items, mean and SD over splits.

    recalls: by k, the mean share of one half's top k that is in the other's.
    """

    rho: float
    rho_sd: float
    recalls: dict[int, float]


def half_items(scores: Floats, ability: Callable[[Floats], Floats], *, tops: tuple[int, ...]) -> Halves:
    """scores: float[K, J], NaN unseen; ability: from such scores to float[K]."""
    figures = []
    for seed in range(N_SPLITS):
        order, half = own_stream(seed).permutation(scores.shape[1]), scores.shape[1] // 2
        one, other = (ability(scores[:, part]) for part in (order[:half], order[half:]))
        figures.append([seen_correlation(one, other), *(top_recall(one, other, top) for top in tops)])
    mean, spread = np.mean(figures, axis=0).tolist(), np.std(figures, axis=0, ddof=1).tolist()
    return Halves(mean[0], spread[0], dict(zip(tops, mean[1:], strict=True)))


def seen_correlation(one: Floats, other: Floats) -> float:
    """Spearman's ρ over the agents that both rank. Raises: StatisticsError [metric-constant]."""
    both = ~(np.isnan(one) | np.isnan(other))
    return spearman(one[both], other[both]).value


def top_recall(ability: Floats, dense: Floats, top: int) -> float:
    """Share of the dense top k among the estimated top k, in [0, 1]; of equals the earlier agent goes first. NaN goes last.

    >>> top_recall(np.array([3.0, 1.0, 2.0]), np.array([3.0, 2.0, 1.0]), 2)
    0.5
    """
    best, true = (np.argsort(-np.nan_to_num(value, nan=-np.inf), kind="stable")[:top] for value in (ability, dense))
    return float(np.isin(true, best).mean())
