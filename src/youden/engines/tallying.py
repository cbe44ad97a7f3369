"""Scores, rates and counts of a run, summed over blocks of items: what `tally` and `train_scores` give, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from youden.engines.blocks import Block, clean_independent, item_ranges
from youden.engines.pairs import PairSums
from youden.engines.trial_table import columns
from youden.nouns import Plan, ScoreKind, ScoreRole, Scores
from youden.nouns.arrays import Bools, Floats, Ids, Positions
from youden.nouns.cells import CellIndex, ScoredCells
from youden.protocol.scores import holdout_scores, train_scores
from youden.stats.trials.false_positives import Alarm, alarms_of_pairs

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, eq=False)
class ApartSums:
    """The independent arm, probes left out: n, total: float[K], answered trials that an agent takes part in, and their sum;
    n_trials, total_all, squares: of all of them, Σy, Σy²; clean_n, clean_total: of those a training score may read."""

    n: Floats
    total: Floats
    n_trials: int
    total_all: float
    squares: float
    clean_n: int
    clean_total: float

    @property
    def rate(self) -> float | None:
        """The mean answer; None where there is none."""
        return self.total_all / self.n_trials if self.n_trials else None


@dataclass(frozen=True, eq=False)
class Tallied:
    """row, symmetric: training scores; holdout: scores of held-out cells, None where none is; apart: the independent arm.

    item_trials: int64[J], answered paired trials. n, total: float[K], answered paired trials of an agent and the sum of their
    answers; n_seen_items: int64[K], items that hold one; squares: float[K], Σ_j n_ij². pairs: of every two agents.
    seen: bool[K, J], cells of answered paired trials; n_cells: those that a paired trial touches.
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
    n_cells: int


def tallied(found: Iterable[Block], plan: Plan, apart: ApartSums) -> Tallied:
    """Sum the blocks of a run."""
    K, J = plan.n_agents, plan.n_items
    row, symmetric = _Scores(plan, "row"), _Scores(plan, "symmetric")
    held = _Scores(plan, "symmetric") if plan.split.n_holdout else None
    item_trials = np.zeros(J, dtype=np.int64)
    n, total, squares = np.zeros(K), np.zeros(K), np.zeros(K)
    n_cells, seen = 0, np.zeros((K, J), dtype=np.bool_)
    pairs = PairSums(plan)
    for block in found:
        rates, split = block.rates(), block.split
        learned = rates if held is None else block.rates(clean=True)
        for part in (row, symmetric):
            part.put(block, train_scores(learned, split, kind=part.kind))
        if held is not None:
            held.put(block, holdout_scores(rates, split))
        n_cells += block.n_cells
        times = block.cells()
        item_trials[block.items] = times.sum(axis=0) / 2
        n += times.sum(axis=1)
        for side in ("first", "second"):
            total += np.bincount(block.paired[side][block.used], block.paired["answer"][block.used], K)
        seen[:, block.items] = times > 0
        squares += (times**2).sum(axis=1)
        held_out = split.holdout[rates.first, rates.item] | split.holdout[rates.second, rates.item]
        pairs.add(rates, learned=(rates.n_paired > 0) & ~held_out, n_cells=int(seen[:, block.items].sum()))
    clean = apart.clean_total / apart.clean_n if apart.clean_n else 0.0
    pooled = plan.independent == "pooled"
    return Tallied(
        row=row.scores("train", less=clean if pooled else 0.0),
        symmetric=symmetric.scores("train", less=clean if pooled else 0.0),
        holdout=None if held is None else held.scores("holdout", less=(apart.rate or 0.0) if pooled else 0.0),
        apart=apart,
        item_trials=item_trials,
        n=n,
        total=total,
        n_seen_items=seen.sum(axis=1),
        squares=squares,
        pairs=pairs,
        seen=seen,
        n_cells=n_cells,
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


def apart_sums(database: DuckDBPyConnection, plan: Plan) -> ApartSums:
    """Of the independent arm in the database."""
    K = plan.n_agents
    n, total = np.zeros(K), np.zeros(K)
    sums = np.zeros(3)
    clean = np.zeros(2)
    for start, stop in item_ranges(database, plan, "apart"):
        batch = columns(
            database,
            f"""SELECT item, first, second, other, answer FROM apart
            WHERE NOT probe AND answer IS NOT NULL AND item >= {start} AND item < {stop}""",
        )
        y, sides = batch["answer"], np.append(batch["first"], batch["second"])
        n += np.bincount(sides, minlength=K)
        total += np.bincount(sides, np.tile(y, 2), K)
        sums += len(y), y.sum(), (y**2).sum()
        kept = clean_independent(plan.split, batch["first"], batch["item"], batch["second"], batch["other"])
        clean += kept.sum(), y[kept].sum()
    return ApartSums(n, total, int(sums[0]), float(sums[1]), float(sums[2]), int(clean[0]), float(clean[1]))


def alarms(database: DuckDBPyConnection, n_agents: int) -> tuple[Alarm, ...]:
    """As `false_positive_alarms` of the independent arm, probes included."""
    found = columns(
        database,
        """SELECT least(first, second)::BIGINT AS low, greatest(first, second)::BIGINT AS high, count(*) AS n,
            count(*) FILTER (hard >= 0.5) AS n_yes
        FROM apart WHERE answer IS NOT NULL GROUP BY ALL ORDER BY ALL""",
    )
    return alarms_of_pairs(found["low"], found["high"], found["n"], found["n_yes"], n_agents=n_agents)
