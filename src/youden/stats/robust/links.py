"""Pairs of agents that agree far beyond their abilities, and the clusters they form.

Two honest agents may be alike, and two good ones agree; a pair is linked only where both its agreement and its residual from
a_i + a_k are extreme. What honest agents reach, over half pools of four recorded domains: a residual of .57, and then an
agreement of at most .60.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array

from youden.nouns.arrays import Bools, Floats, Ids, freeze
from youden.stats.robust.pair_fit import pair_effects
from youden.stats.robust.pair_means import PairMeans

RESIDUAL = 0.4
"""A pair is not linked below this residual, however like each other all others are."""
SPREADS = 4.0
"""Nor below this many times the median absolute residual, what sampling adds to it taken off."""
ERRORS = 4.5
"""Nor below this many standard errors of its own mean."""
QUANTILE = 0.7
"""Nor where its agreement lies below this quantile of pairs whose residual is no more than usual, or below `AGREEMENT`."""
AGREEMENT = 0.7
"""The most that is asked of the agreement: where all agree on nearly everything, a copy with faults stays below the quantile."""
SLACK, SURE = 0.1, 2.0
"""The agreement has to lie this many standard errors above the bar less the slack, errors of answers that are yes or no with
that chance: few answers prove no agreement."""
FEWEST = 5
"""With fewer agents a residual says nothing: 4 agents have 6 pairs and 4 effects."""
_MAD = 0.6745


@dataclass(frozen=True, eq=False)
class Linked:
    """Which pairs are linked, and why.

    effect: float[K], a_i; residual: float[K, K], NaN where two never met; needed: float[K, K], the residual it takes; agreement:
    the bar for a pair's mean, NaN with fewer than 5 agents. suspected: bool[K, K], extreme as far as few answers tell, but not
    linked; linked: bool[K, K]; cluster: int32[K], components of the links, numbered by their first agent.
    """

    effect: Floats
    residual: Floats
    needed: Floats
    agreement: float
    suspected: Bools
    linked: Bools
    cluster: Ids

    def __post_init__(self) -> None:
        freeze([self.effect, self.residual, self.needed, self.suspected, self.linked, self.cluster])

    @property
    def clusters(self) -> tuple[tuple[int, ...], ...]:
        """Agents of each cluster of two or more, the largest first."""
        found = [tuple(np.flatnonzero(self.cluster == c).tolist()) for c in np.unique(self.cluster)]
        return tuple(sorted((c for c in found if len(c) > 1), key=lambda c: (-len(c), c)))


def linked_pairs(of: PairMeans, *, known: Bools | None = None) -> Linked:
    """Links i and k where m_ik − a_i − a_k > max(.4, 4 MAD, 4.5 errors) and m_ik is above the 70th percentile of usual pairs.

    That percentile counts as .7 where it is more.

    known: bool[K, K], pairs linked for other reasons, such as clones told by their texts.

    >>> mean = np.full((12, 12), 0.2)
    >>> mean[0, 1] = mean[1, 0] = 1.0
    >>> linked_pairs(PairMeans(mean, np.full((12, 12), 0.01), 1.0 - np.eye(12))).clusters
    ((0, 1),)
    """
    K = len(of.mean)
    known = np.zeros((K, K), dtype=np.bool_) if known is None else (known | known.T) & ~np.eye(K, dtype=np.bool_)
    effect = pair_effects(of)
    residual = np.where(of.met, of.mean - effect[:, None] - effect, np.nan)
    off = np.triu(of.met, 1)
    if K < FEWEST or off.sum() <= K:
        nothing = np.zeros((K, K), dtype=np.bool_)
        return Linked(effect, residual, np.full((K, K), np.nan), np.nan, nothing, known, _components(known))
    spread = float(np.median(np.abs(residual[off])) ** 2 - _MAD**2 * np.median(of.error[off] ** 2))
    usual = SPREADS * np.sqrt(max(spread, 0.0))
    error = np.where(of.met, of.error, 0.0)
    least = max(RESIDUAL, usual)
    needed = np.maximum(least, ERRORS * error)
    ordinary = of.mean[off & (residual <= least)]
    agreement = min(AGREEMENT, float(np.quantile(ordinary, QUANTILE))) if len(ordinary) else AGREEMENT
    mean, beyond = np.where(of.met, of.mean, -np.inf), np.where(of.met, residual, -np.inf)
    below = max(agreement - SLACK, 0.0)
    chance = np.sqrt(below * (1 - below) / np.maximum(of.n, 1))
    found = (beyond > needed) & (mean > agreement) & (mean > below + SURE * np.maximum(error, chance))
    suspected = (beyond > least) & (mean + error > agreement)
    linked = found | known
    return Linked(effect, residual, needed, agreement, suspected & ~linked, linked, _components(linked))


def _components(linked: Bools) -> Ids:
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(coo_array(linked), directed=False)
    first = np.full(len(linked), len(linked))
    np.minimum.at(first, label, np.arange(len(linked)))
    return np.asarray(first[label], dtype=np.int32)
