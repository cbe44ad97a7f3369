"""How much a ranking owes to who else was in the pool: two random halves of the partners each rank all agents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.errors import StatisticsError
from youden.stats.base.clusters import effects_of_pairs
from youden.stats.base.metrics import rank_correlation
from youden.stats.trials.comparisons import tied_places
from youden.types.pool import Bools, Floats, ReadOnly

FEWEST_AGENTS = 5


@dataclass(frozen=True, eq=False)
class PartnerHalves(ReadOnly):
    """Over `n_splits` random halves of the agents taken as partners.

    correlation: mean Spearman correlation of the two rankings of all agents; it also holds what few answers leave to chance.
    moved: float[K], how many places lie between an agent's two places on average; NaN where one half never met it.
    """

    correlation: float
    moved: Floats
    n_splits: int


def partner_halves(total: Floats, times: Floats, *, rng: np.random.Generator, n_splits: int = 20) -> PartnerHalves:
    """With m_ik the mean answer to i and k, items' own means taken off, and a their additive effects, half A says

    θ_i = mean of m_ik − a_k over k in A that i met, k ≠ i; the other half likewise.

    total, times: float[K, K], answers by ordered pair, items' own means taken off, summed with their weights; and the weights.

    Raises: StatisticsError [partner-agents] below 5 agents that met others.
    Source: none in the paper; a split-half reliability over partners instead of items.
    """
    K, summed, times = len(total), total + total.T, times + times.T
    met = times > 0
    known = met.any(axis=1)
    if (n := int(known.sum())) < FEWEST_AGENTS:
        raise StatisticsError(
            f"{n} agents were compared with others; halves of their partners need {FEWEST_AGENTS}. Judge more agents.",
            slug="partner-agents",
        )
    mean = np.divide(summed, times, out=np.zeros((K, K)), where=met)
    rest = np.where(met, mean - _effects(mean, met), 0.0)
    agents = np.flatnonzero(known)
    correlations, places = [], []
    for _ in range(n_splits):
        half = np.zeros(K, dtype=np.bool_)
        half[rng.permutation(agents)[: n // 2]] = True
        two = []
        for side in (half, known & ~half):
            n_met = met[:, side].sum(axis=1)
            two.append(np.divide(rest[:, side].sum(axis=1), n_met, out=np.full(K, np.nan), where=n_met > 0))
        both = ~np.isnan(two[0] + two[1])
        if both.sum() < FEWEST_AGENTS:
            continue
        one, other = (side[both] for side in two)
        correlations.append(rank_correlation(one, other))
        gap = np.full(K, np.nan)
        gap[both] = np.abs(tied_places(one) - tied_places(other))
        places.append(gap)
    gaps = np.array(places).reshape(-1, K)
    n_seen = (~np.isnan(gaps)).sum(axis=0)
    moved = np.divide(np.nansum(gaps, axis=0), n_seen, out=np.full(K, np.nan), where=n_seen > 0)
    told = [rho for rho in correlations if not np.isnan(rho)]
    return PartnerHalves(float(np.mean(told)) if told else float("nan"), moved, n_splits)


def _effects(mean: Floats, met: Bools) -> Floats:
    """a of m_ik = a_i + a_k, least squares over pairs that met, each once: float[K]."""
    return effects_of_pairs(met.astype(np.float64), mean.sum(axis=1))
