"""What a fit sums over blocks of items: scores, rates and counts as `tally` and `train_scores` give them, what is known of every
two agents, and means of trials as `TrialMean` has them, with how sure they are on items like these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from youden.engines.trial_blocks import ApartSums, Block
from youden.nouns import Pairs, Plan, Rates, ScoreKind, ScoreRole, Scores
from youden.nouns.cells import CellIndex, ScoredCells
from youden.nouns.pool import Bools, Floats, Ids, Positions
from youden.protocol.scores import holdout_scores, train_scores
from youden.stats.base.clusters import CentredCovariance, covariance_of_blocks
from youden.stats.robust.linked_agents import pair_means_of_sums
from youden.stats.trials.comparisons import Differences
from youden.stats.trials.false_positives import OwnRates, own_rates_of_sums


class PairSums:
    """Sums by ordered pair of agents, and how many pairs of cells were compared; blocks of other items add up."""

    def __init__(self, n_agents: int, *, own_rates: bool) -> None:
        K = n_agents
        self._twin, self._shape = own_rates, (K, K)
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
        # As `pair_means` has them: a pair without an FPR of its own counts with 0.
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
    def partners(self) -> tuple[Floats, Floats]:
        """As `partner_halves` takes them."""
        return self._total, self._times

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
            own_rates=self._twin,
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


@dataclass(frozen=True, eq=False)
class Tallied:
    """row, symmetric: training scores; holdout: scores of held-out cells, None where none is; apart: the independent arm.

    item_trials: int64[J], answered paired trials. n, total: float[K], answered paired trials of an agent and the sum of their
    answers; n_seen_items: int64[K], items that hold one; squares: float[K], Σ_j n_ij². pairs: of every two agents.
    seen: bool[K, J], cells of answered paired trials.
    """

    row: Scores
    symmetric: Scores
    holdout: Scores | None
    apart: ApartSums
    item_trials: Positions
    n: Floats
    total: Floats
    n_seen_items: Positions
    squares: Floats
    pairs: PairSums
    seen: Bools


def tallied(found: Iterable[Block], plan: Plan, apart: ApartSums) -> Tallied:
    """Sum the blocks of a run."""
    K, J = plan.n_agents, plan.n_items
    row, symmetric = _Scores(plan, "row"), _Scores(plan, "symmetric")
    held = _Scores(plan, "symmetric") if plan.split.n_holdout else None
    item_trials = np.zeros(J, dtype=np.int64)
    n, total, squares = np.zeros(K), np.zeros(K), np.zeros(K)
    seen = np.zeros((K, J), dtype=np.bool_)
    pairs = PairSums(plan.n_agents, own_rates=plan.independent == "twin")
    for block in found:
        rates, split = block.rates(), block.split
        learned = rates if held is None else block.rates(clean=True)
        for part in (row, symmetric):
            part.put(block, train_scores(learned, split, kind=part.kind))
        if held is not None:
            held.put(block, holdout_scores(rates, split))
        times = block.cells()
        item_trials[block.items] = times.sum(axis=0) / 2
        n += times.sum(axis=1)
        for side in ("first", "second"):
            total += np.bincount(block.paired[side][block.used], block.paired["answer"][block.used], K)
        seen[:, block.items] = times > 0
        squares += (times**2).sum(axis=1)
        held_out = split.holdout[rates.first, rates.item] | split.holdout[rates.second, rates.item]
        pairs.add(rates, learned=(rates.n_paired > 0) & ~held_out, n_cells=int(seen[:, block.items].sum()))
    pooled = plan.independent == "pooled"
    less = apart.clean_rate if pooled else 0.0
    return Tallied(
        row=row.scores("train", less=less),
        symmetric=symmetric.scores("train", less=less),
        holdout=None if held is None else held.scores("holdout", less=(apart.rate or 0.0) if pooled else 0.0),
        apart=apart,
        item_trials=item_trials,
        n=n,
        total=total,
        n_seen_items=seen.sum(axis=1),
        squares=squares,
        pairs=pairs,
        seen=seen,
    )


class _Scores:
    """Scores that come in blocks of items, in their order."""

    def __init__(self, plan: Plan, kind: ScoreKind) -> None:
        self.plan, self.kind, self.parts = plan, kind, list[tuple[Ids, Ids, Floats, Floats]]()

    def put(self, block: Block, scores: Scores) -> None:
        at, value, weight = scores.cells
        self.parts.append((at.agent, at.item + np.int32(block.start), value, weight))

    def scores(self, role: ScoreRole, *, less: float) -> Scores:
        agent, item, value, weight = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        self.parts.clear()
        value -= less
        cells = ScoredCells(CellIndex(agent, item, self.plan.n_agents, self.plan.n_items), value, weight)
        return Scores.of_cells(
            cells, role=role, kind=self.kind, agent_ids=self.plan.agent_ids, item_ids=self.plan.item_ids
        )


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
