"""What a fit sums over blocks of items: scores, rates and counts as `tally` and `train_scores` give them, and what is known of
every two agents.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from youden.engines.trial_blocks import RateBlock, TrialsByItem
from youden.nouns import Pairs, Plan, Rates, ScoreKind, ScoreRole, Scores, Split
from youden.nouns.cells import CellIndex, ScoredCells
from youden.nouns.pool import Bools, Floats, Ids, Positions
from youden.protocol.scores import holdout_scores, train_scores
from youden.stats.partners import PairTotals
from youden.stats.trials.comparisons import Differences
from youden.stats.trials.false_positives import ApartSums


class PairSums:
    """What is known of ordered pairs of agents, and how many pairs of cells were compared; blocks of other items add up.

    totals: of answers that may be learned from.
    """

    def __init__(self, n_agents: int, *, own_rates: bool) -> None:
        self._twin, self.totals = own_rates, PairTotals(n_agents)
        self._difference, self._items = np.zeros((2, n_agents, n_agents))
        self._n_pairs = self._n_cells = 0

    def add(self, block: RateBlock, *, n_cells: int) -> None:
        """n_cells: of answered paired trials in the block."""
        rates = block.rates
        difference = rates.tpr - rates.fpr if self._twin else rates.tpr
        seen = ~np.isnan(difference)
        self._difference += _by_pair(rates, seen, difference)
        self._items += _by_pair(rates, seen)
        self.totals.add(block.answers)
        self._n_pairs += n_pairs_of_cells(rates)
        self._n_cells += n_cells

    def pairs(self, apart: Differences, ability: Floats) -> Pairs:
        """apart: who is told from whom; ability: float[K], of the additive fit."""
        means, met = self.totals.means, self._items > 0
        seen = 2 * self._n_pairs / (self._n_cells * (len(ability) - 1)) if self._n_pairs else None
        return Pairs(
            agreement=np.divide(self._difference, self._items, out=np.full(met.shape, np.nan), where=met),
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
    answers; squares: float[K], Σ_j n_ij². pairs: of every two agents. linked: bool[K, J], cells of answered paired trials that
    may be learned from.
    """

    row: Scores
    symmetric: Scores
    holdout: Scores | None
    apart: ApartSums
    item_trials: Positions
    n: Floats
    total: Floats
    squares: Floats
    pairs: PairSums
    linked: Bools


def tallied(found: Iterable[RateBlock], of: Plan | Rates, apart: ApartSums, split: Split | None) -> Tallied:
    """Sum the blocks of a run. of: its plan, or the rates that it was imported as; split: None for an import."""
    K, J = of.n_agents, of.n_items
    row, symmetric, held = _Scores(of, "row"), _Scores(of, "symmetric"), None
    if split is not None and split.n_holdout:
        held = _Scores(of, "symmetric")
    item_trials, linked = np.zeros(J, dtype=np.int64), np.zeros((K, J), dtype=np.bool_)
    n, total, squares = np.zeros((3, K))
    pairs = PairSums(K, own_rates=of.independent == "twin")
    for block in found:
        rates = block.rates
        for part in (row, symmetric):
            part.put(block, train_scores(block.clean, block.split, kind=part.kind))
        learned = times = cells_of(rates, rates.n_paired)
        if held is not None and block.split is not None:
            held.put(block, holdout_scores(rates, block.split))
            train = block.split.train
            used = train[rates.first, rates.item] & train[rates.second, rates.item]
            learned = cells_of(rates, rates.n_paired * used)
        item_trials[block.items] = times.sum(axis=0) / 2
        linked[:, block.items] = learned > 0
        n += times.sum(axis=1)
        answered = rates.n_paired > 0
        answers = (rates.tpr * rates.n_paired)[answered]
        for side in (rates.first, rates.second):
            total += np.bincount(side[answered], answers, K)
        squares += (times**2).sum(axis=1)
        pairs.add(block, n_cells=int((times > 0).sum()))
    pooled = of.independent == "pooled"
    less = apart.clean_rate if pooled else 0.0
    return Tallied(
        row=row.scores("train", less=less),
        symmetric=symmetric.scores("train", less=less),
        holdout=None if held is None else held.scores("holdout", less=(apart.rate or 0.0) if pooled else 0.0),
        apart=apart,
        item_trials=item_trials,
        n=n,
        total=total,
        squares=squares,
        pairs=pairs,
        linked=linked,
    )


def symmetric_scores(trials: TrialsByItem) -> Scores:
    """Training scores alone."""
    made = _Scores(trials.plan, "symmetric")
    for block in trials.blocks():
        made.put(block, train_scores(block.clean, block.split, kind=made.kind))
    return made.scores("train", less=trials.apart.clean_rate if trials.plan.independent == "pooled" else 0.0)


def cells_of(rates: Rates, values: Floats | Ids) -> Floats:
    """Sums of a column, int or float[R], by agent, on either side, and item: float[K, B]."""
    size = rates.n_agents * rates.n_items
    sides = (side * np.int64(rates.n_items) + rates.item for side in (rates.first, rates.second))
    return np.asarray(sum(np.bincount(side, values, size) for side in sides)).reshape(rates.n_agents, rates.n_items)


class _Scores:
    """Scores that come in blocks of items, in their order."""

    def __init__(self, of: Plan | Rates, kind: ScoreKind) -> None:
        self.of, self.kind, self.parts = of, kind, list[tuple[Ids, Ids, Floats, Floats]]()

    def put(self, block: RateBlock, scores: Scores) -> None:
        at, value, weight = scores.cells
        self.parts.append((at.agent, at.item + np.int32(block.start), value, weight))

    def scores(self, role: ScoreRole, *, less: float) -> Scores:
        agent, item, value, weight = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        self.parts.clear()
        value -= less
        cells = ScoredCells(CellIndex(agent, item, self.of.n_agents, self.of.n_items), value, weight)
        return Scores.of_cells(cells, role=role, kind=self.kind, agent_ids=self.of.agent_ids, item_ids=self.of.item_ids)
