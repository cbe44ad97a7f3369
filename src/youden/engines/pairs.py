"""What a fit knows of every two agents, summed over blocks of items."""

from __future__ import annotations

import numpy as np

from youden.nouns import Pairs, Plan, Rates
from youden.nouns.arrays import Bools, Floats
from youden.stats.robust.pair_means import pair_means_of_sums
from youden.stats.trials.partner_halves import PartnerTables
from youden.stats.trials.places import Differences


class PairSums:
    """Sums by ordered pair of agents, and how many pairs of cells were compared; blocks of other items add up."""

    def __init__(self, plan: Plan) -> None:
        K = plan.n_agents
        self._twin, self._shape = plan.independent == "twin", (K, K)
        self._difference, self._items = np.zeros((K, K)), np.zeros((K, K))
        self._total, self._times = np.zeros((K, K)), np.zeros((K, K))
        self._squares, self._rows = np.zeros((K, K)), np.zeros((K, K))
        self._whole, self._n_pairs, self._n_cells = 0.0, 0, 0

    def add(self, rates: Rates, *, learned: Bools, n_cells: int) -> None:
        """A block's rates. learned: bool[M], what may be learned from; n_cells: cells of answered paired trials."""
        difference = rates.tpr - rates.fpr if self._twin else rates.tpr
        seen = ~np.isnan(difference)
        self._difference += _by_pair(rates, seen, difference)
        self._items += _by_pair(rates, seen)
        # As `partner_tables` and `pair_means` have them: a pair without an FPR of its own counts with 0.
        value = rates.tpr - np.nan_to_num(rates.fpr) if self._twin else rates.tpr
        weight = rates.n_paired.astype(np.float64)
        item = rates.item[learned]
        self._whole += float((weight * value)[learned].sum())
        n_item = np.maximum(np.bincount(item, weight[learned], rates.n_items), np.finfo(np.float64).tiny)
        value = value - (np.bincount(item, (weight * value)[learned], rates.n_items) / n_item)[rates.item]
        self._total += _by_pair(rates, learned, weight * value)
        self._times += _by_pair(rates, learned, weight)
        self._squares += _by_pair(rates, learned, weight * value**2)
        self._rows += _by_pair(rates, learned)
        self._n_pairs += n_pairs_of_cells(rates)
        self._n_cells += n_cells

    @property
    def partners(self) -> PartnerTables:
        """As `partner_tables` of all."""
        return PartnerTables(self._total, self._times)

    def pairs(self, apart: Differences, ability: Floats) -> Pairs:
        """apart: who is told from whom; ability: float[K], of the additive fit."""
        n = float(self._times.sum())
        means = pair_means_of_sums(
            self._total, self._times, self._squares, self._rows, middle=self._whole / n if n else 0.0
        )
        seen = 2 * self._n_pairs / (self._n_cells * (len(ability) - 1)) if self._n_pairs else None
        met = self._items > 0
        return Pairs(
            agreement=np.divide(self._difference, self._items, out=np.full(self._shape, np.nan), where=met),
            mean=means.mean,
            error=means.error,
            n=means.n,
            above=np.where(np.isnan(apart.error), np.nan, apart.above),
            ability=ability,
            partners_seen=seen,
        )


def _by_pair(rates: Rates, used: Bools, value: Floats | None = None) -> Floats:
    """Sums over some rows by ordered pair of agents; None counts them."""
    K = rates.n_agents
    pair = rates.first[used] * np.int64(K) + rates.second[used]
    return np.bincount(pair, None if value is None else value[used], K * K).reshape(K, K).astype(np.float64)


def n_pairs_of_cells(rates: Rates) -> int:
    """How many two cells of an item an answered paired trial compared, either way round."""
    seen = ~np.isnan(rates.tpr)
    item, one, two = (column[seen].astype(np.int64) for column in (rates.item, rates.first, rates.second))
    K = np.int64(rates.n_agents)
    key = np.sort((item * K + np.minimum(one, two)) * K + np.maximum(one, two))
    return int(np.count_nonzero(np.diff(key, prepend=-1)))
