"""Means of trials and how sure they are on items like these, from blocks of items: as `TrialMean` has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from youden.engines.blocks import Block
from youden.engines.tallying import ApartSums, Tallied
from youden.nouns.arrays import Floats
from youden.stats.base.clusters import CentredCovariance, covariance_of_blocks
from youden.stats.trials.own_rates import OwnRates, own_rates_of_sums


class Means(NamedTuple):
    """ability: float[K]; covariance: of the θ_i − θ̄; n_trials: float[K]; fpr: the pooled rate; enough: whether 3 agents were
    asked on 2 items, without which the covariance is NaN."""

    ability: Floats
    covariance: CentredCovariance
    n_trials: Floats
    fpr: float
    enough: bool


def means(found: Iterable[Block], of: Tallied) -> Means:
    """Mean answers less the rate of false positives, with the covariance of `trial_covariance` over items."""
    n = len(of.n)
    mean = np.divide(of.total, of.n, out=np.full(n, np.nan), where=of.n > 0)
    own = rates_of_agents(of.apart)
    enough = int((of.n_seen_items >= 2).sum()) >= 3
    covariance = CentredCovariance(np.full((n, n), np.nan), np.full(n, np.nan))
    if enough:
        whole = np.maximum(of.n, np.finfo(np.float64).tiny)
        covariance = covariance_of_blocks(
            _contributions(found, mean, whole),
            n_clusters=of.n_seen_items,
            share_squares=of.squares / whole**2,
            size=np.where(of.n > 0, 1 / whole, 1.0),
        )
    covariance = CentredCovariance(covariance.covariance + own.covariance, covariance.freedom)
    return Means(mean - own.rate, covariance, of.n, own.pooled, enough)


def rates_of_agents(apart: ApartSums) -> OwnRates:
    """Each agent's own rate of false positives, or the pooled one."""
    return own_rates_of_sums(
        apart.n, apart.total, n_trials=apart.n_trials, sum_all=apart.total_all, squares=apart.squares
    )


def _contributions(found: Iterable[Block], mean: Floats, whole: Floats) -> Iterator[tuple[Floats, Floats]]:
    """U and p of `item_contributions`, block by block."""
    K = int((~np.isnan(mean)).sum())
    effect = np.nan_to_num((K - 1) / (K - 2) * (mean - np.nanmean(mean)))
    for block in found:
        paired, times = block.paired, block.cells()
        residual = paired["answer"] - effect[paired["first"]] - effect[paired["second"]]
        of_item = np.bincount(paired["item"][block.used], residual[block.used], block.n_items)
        residual -= (of_item / np.maximum(times.sum(axis=0) / 2, 1))[paired["item"]]
        yield block.cells(residual) / whole[:, None], times / whole[:, None]
