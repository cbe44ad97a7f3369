"""How much a ranking owes to who else was in the pool: two random halves of the partners each rank all agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from youden.errors import StatisticsError
from youden.nouns.pool import Bools, Floats, Ids, freeze
from youden.stats.base.clusters import effects_of_pairs
from youden.stats.base.estimator import check_trials
from youden.stats.base.metrics import ranks

FEWEST_AGENTS = 5


@dataclass(frozen=True, eq=False)
class PartnerHalves:
    """Over `n_splits` random halves of the agents taken as partners.

    correlation: mean Spearman correlation of the two rankings of all agents; it also holds what few answers leave to chance.
    moved: float[K], how many places lie between an agent's two places on average; NaN where one half never met it.
    """

    correlation: float
    moved: Floats
    n_splits: int

    def __post_init__(self) -> None:
        freeze([self.moved])


def partner_halves(
    first: Ids,
    second: Ids,
    item: Ids,
    value: Floats,
    *,
    weight: Floats,
    n_agents: int,
    rng: np.random.Generator,
    n_splits: int = 20,
) -> PartnerHalves:
    """With m_ik the mean answer to i and k, items' own means taken off, and a their additive effects, half A says

    θ_i = mean of m_ik − a_k over k in A that i met, k ≠ i; the other half likewise.

    first, second, item: int[T]; value: float[T], answers or rates, no NaN; weight: float[T] ≥ 0.

    Raises: StatisticsError [trial-columns], [trial-answer], [partner-agents] below 5 agents that met others.
    Source: none in the paper; a split-half reliability over partners instead of items.
    """
    check_trials(first, second, item, answer=value)
    tables = partner_tables(first, second, item, value, weight=weight, n_agents=n_agents)
    return halves_of_tables(*tables, rng=rng, n_splits=n_splits)


class PartnerTables(NamedTuple):
    """float[K, K] each: answers by ordered pair, items' own means taken off, summed with their weights; and the weights."""

    total: Floats
    times: Floats


def partner_tables(
    first: Ids, second: Ids, item: Ids, value: Floats, *, weight: Floats, n_agents: int
) -> PartnerTables:
    """Of trials as `partner_halves` takes them, or of all those on some items; tables of other items add up."""
    K = n_agents
    n_item = np.maximum(np.bincount(item, weight), np.finfo(np.float64).tiny)
    value = value - (np.bincount(item, weight * value) / n_item)[item]
    pair = first.astype(np.int64) * K + second
    total, times = np.bincount(pair, weight * value, K * K), np.bincount(pair, weight, K * K)
    return PartnerTables(*(np.asarray(sums, dtype=np.float64).reshape(K, K) for sums in (total, times)))


def halves_of_tables(total: Floats, times: Floats, *, rng: np.random.Generator, n_splits: int = 20) -> PartnerHalves:
    """`partner_halves` from `partner_tables`. Raises: StatisticsError [partner-agents]."""
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
        one, other = (rankdata(side[both]) for side in two)
        if np.ptp(one) and np.ptp(other):
            correlations.append(float(np.corrcoef(one, other)[0, 1]))
        gap = np.full(K, np.nan)
        gap[both] = np.abs(ranks(two[0][both]) - ranks(two[1][both]))
        places.append(gap)
    gaps = np.array(places).reshape(-1, K)
    n_seen = (~np.isnan(gaps)).sum(axis=0)
    moved = np.divide(np.nansum(gaps, axis=0), n_seen, out=np.full(K, np.nan), where=n_seen > 0)
    return PartnerHalves(float(np.mean(correlations)) if correlations else float("nan"), moved, n_splits)


def _effects(mean: Floats, met: Bools) -> Floats:
    """a of m_ik = a_i + a_k, least squares over pairs that met, each once: float[K]."""
    return effects_of_pairs(met.astype(np.float64), mean.sum(axis=1))
