"""What is told of a run's trials in one reading, block by block; the trials that a report shows are read once more.

What was asked and how long calls took, how good the judge was, and which trials cost each agent most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.data.folder.trial_tables import TrialBlock
from youden.errors import YoudenError
from youden.judging.config.judge_files import load_judge_of_run, price
from youden.judging.store.answers import open_store_of_folder
from youden.report.data.answer_blocks import (
    AnswerAgreement,
    Predictions,
    TrialSource,
    cell_keys,
    codes_of,
    repeats_of,
)
from youden.report.data.grids import FalseAlarm, false_alarms
from youden.report.data.trial_rows import KINDS, Kind, TrialLine, TrialRows, count_kinds, surprising
from youden.stats.trials.false_positives import YesCounts
from youden.types import INDEPENDENT, PAIRED, Plan
from youden.types.pool import Floats, Positions

MAX_TIMED = 1_000_000
"""Calls whose seconds are told at most; of more it is every so many."""


@dataclass(frozen=True)
class Latency:
    """Seconds a call took, over the calls of the run's last pass. n_sampled: calls behind the figures, None for all."""

    n_calls: int
    median: float
    p90: float
    p99: float
    n_sampled: int | None = None


class Seconds:
    """What calls took, over blocks of rows; of a large run, of every so many calls."""

    def __init__(self, n_trials: int) -> None:
        self._step = -(-n_trials // MAX_TIMED) or 1
        self._n, self._timed = 0, [np.empty(0)]

    def add(self, rows: TrialRows) -> None:
        seconds = rows.columns["seconds"]
        timed = seconds[seconds > 0]
        self._timed.append(timed[-self._n % self._step :: self._step])
        self._n += len(timed)

    @property
    def latency(self) -> Latency | None:
        if not self._n:
            return None
        timed = np.concatenate(self._timed)
        median, p90, p99 = np.quantile(timed, [0.5, 0.9, 0.99]).tolist()
        return Latency(self._n, median, p90, p99, None if self._step == 1 else len(timed))


def reused_usd(folder: RunFolder) -> float | None:
    result = folder.read_verdicts(folder.read_plan())
    if result.key is None:
        return None
    try:
        config = folder.read_config()
        judge = load_judge_of_run(config)
        with open_store_of_folder(config.store_place) as store:
            found = store.answers(sorted({key.decode() for key in result.key[result.reused].tolist()})).values()
    except YoudenError:
        return None
    usd = math.fsum(price(judge.of or judge, one.tokens_in, one.tokens_out) for one in found)
    return None if math.isnan(usd) else usd


LEAST_PARTNERS = 0.5
"""Below this share of a cell's partners the scores of single cells are mostly noise, and curl says nothing of additivity."""


class JudgeQuality:
    """Mean answers of both trial types, over chunks of rows, and the agreement of repeated answers.

    `again` is the agreement of answers about the same two texts in the same order, `turned` in the other order; None if there are
    none.
    """

    def __init__(self) -> None:
        self._sums = {PAIRED: np.zeros(3), INDEPENDENT: np.zeros(3)}
        self._is_graded = False
        self.again: AnswerAgreement | None = None
        self.turned: AnswerAgreement | None = None

    def add(self, rows: TrialRows) -> None:
        answered = rows.columns["missing"] == 0
        for arm in self._sums:
            used = answered & (rows.columns["arm"] == arm)
            answer, hard = rows.columns["answer"][used], rows.columns["hard"][used]
            self._sums[arm] += len(answer), answer.sum(), hard.sum()
            self._is_graded |= bool((answer != hard).any())

    @property
    def tpr(self) -> float | None:
        """Mean answer to paired trials; None if none was answered."""
        return self._mean(PAIRED, 1)

    @property
    def fpr(self) -> float | None:
        """Mean answer to independent trials; None if none was answered."""
        return self._mean(INDEPENDENT, 1)

    @property
    def yes(self) -> tuple[float, float] | None:
        """Shares of yes-answers in both trial types, if answers are graded, so that the means are no shares; else None."""
        tpr, fpr = self._mean(PAIRED, 2), self._mean(INDEPENDENT, 2)
        return None if tpr is None or fpr is None or not self._is_graded else (tpr, fpr)

    @property
    def j(self) -> float | None:
        """Youden's J = TPR − FPR, over all pairs of agents."""
        return None if self.tpr is None or self.fpr is None else self.tpr - self.fpr

    def _mean(self, arm: int, column: int) -> float | None:
        n = self._sums[arm][0]
        return float(self._sums[arm][column] / n) if n else None


N_SHOWN = 5
"""Trials of one agent."""
AT_ONCE = 65_536
"""Trials that are looked at together; what was found in those before leaves few of them to be sorted."""


class WorstTrials:
    """For each agent the answered trials that lie furthest below what one would expect, worst first; of several trials of two
    texts the worst.

    With p_i the score that the fit predicts for an agent on the item and p̄ their mean over agents, a paired trial of i and k is
    expected at p_i + p_k − p̄, an independent one at 0, where a yes costs.
    """

    def __init__(self, plan: Plan, predicted: Predictions) -> None:
        self._plan, self._predicted = plan, predicted
        everybody = np.arange(plan.n_agents)
        self._mean = np.array([_known(predicted.at(everybody, j)).mean() for j in range(plan.n_items)])
        # agent, side, row, and the two cells of a trial
        self._kept: Positions = np.empty((5, 0), dtype=np.int64)
        self._short: Floats = np.empty(0)
        self._bar = np.full(plan.n_agents, -np.inf)

    def add(self, rows: TrialRows) -> None:
        """Of the next rows."""
        columns = rows.columns
        names = ("missing", "answer", "arm", "item", "first", "second")
        missing, answer, arm, item, first, second = (columns[name] for name in names)
        cells = cell_keys(columns, self._plan)
        for start in range(0, len(arm), AT_ONCE):
            some = start + np.flatnonzero(missing[start : start + AT_ONCE] == 0)
            short = np.where(
                arm[some] == PAIRED, self._expected(first[some], second[some], item[some]) - answer[some], answer[some]
            )
            for side, agent in enumerate((first[some], second[some])):
                near = np.flatnonzero(short >= self._bar[agent])
                at = some[near]
                pair = np.sort([cells[0][at], cells[1][at]], axis=0)
                found = np.stack([agent[near], np.full(len(near), side), rows.start + at, *pair])
                self._kept = np.concatenate([self._kept, found], axis=1)
                self._short = np.append(self._short, short[near])
            self._thin_out()

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """Of each agent."""
        ends = np.searchsorted(self._kept[0], np.arange(self._plan.n_agents + 1)).tolist()
        return tuple(tuple(self._kept[2, start:stop].tolist()) for start, stop in pairwise(ends))

    def _expected(self, first: Positions, second: Positions, item: Positions) -> Floats:
        one, two = (_known(self._predicted.at(agent, item)) for agent in (first, second))
        return np.asarray(one + two - self._mean[item])

    def _thin_out(self) -> None:
        """Keep the worst of each agent, each pair of texts once."""
        agent, side, row, low, high = self._kept
        order = np.lexsort((row, side, -self._short, high, low, agent))
        texts = self._kept[[0, 3, 4]][:, order]
        order = order[np.append(True, (texts[:, 1:] != texts[:, :-1]).any(axis=0))[: len(order)]]
        order = order[np.lexsort((row[order], side[order], -self._short[order], agent[order]))]
        begin = np.searchsorted(agent[order], np.arange(self._plan.n_agents + 1))
        place = np.arange(len(order)) - begin[agent[order]]
        last = order[place == N_SHOWN - 1]
        self._bar[agent[last]] = self._short[last]
        order = order[place < N_SHOWN]
        self._kept, self._short = self._kept[:, order], self._short[order]


def _known(predicted: Floats) -> Floats:
    """Predictions, .5 where the fit gives none."""
    return np.nan_to_num(predicted, nan=0.5)


_DIFFER = KINDS.index("answers differ")


class TrialReading:
    """A run's trials, read once: 18 bytes of each are in memory meanwhile, two afterwards.

    worst: of each agent the rows of the trials that cost it most.
    """

    judge: JudgeQuality
    alarms: tuple[FalseAlarm, ...]
    latency: Latency | None
    worst: tuple[tuple[int, ...], ...]

    def __init__(self, source: TrialSource, predicted: Predictions) -> None:
        """Raises: RunFolderError where a part is not whole."""
        self._source = source
        n, plan = source.n_trials, source.plan
        code, self._kind = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int8)
        arms, apart, worst, seconds = JudgeQuality(), YesCounts(plan.n_agents), WorstTrials(plan, predicted), Seconds(n)
        for block in source.blocks:
            rows = TrialRows(block.again(), plan, start=block.start)
            own = slice(block.start, block.start + block.n_rows)
            code[own], self._kind[own] = codes_of(rows.columns, plan), rows.kind
            arms.add(rows)
            apart.add(*rows.false_yeses)
            worst.add(rows)
            if "seconds" in source.measured:
                seconds.add(rows)
        repeats = repeats_of(code)
        self._differ = repeats.differ
        self._kind[repeats.differ & (self._kind > _DIFFER)] = _DIFFER
        arms.again, arms.turned = repeats.again, repeats.turned
        self.judge = arms
        self.alarms, self.latency = false_alarms(apart, plan.agent_ids), seconds.latency
        self.worst = worst.rows
        self._lines: dict[int, TrialLine] = {}

    def __len__(self) -> int:
        return len(self._kind)

    @property
    def n_of_kind(self) -> dict[Kind, int]:
        """How many trials there are of each kind."""
        return count_kinds(self._kind)

    def surprising(self, rng: np.random.Generator, most: int) -> Positions:
        """As `TrialBook.surprising`."""
        return surprising(self._kind, rng, most)

    def lines(self, rows: Sequence[int]) -> list[TrialLine]:
        """These trials, in this order; kept for whoever asks again."""
        for block, mine in self._by_block([row for row in rows if row not in self._lines]):
            differ = self._differ[block.start : block.start + block.n_rows]
            of = TrialRows(block.again(), self._source.plan, start=block.start, differ=differ)
            self._lines |= {row: of.line(row) for row in mine}
        return [self._lines[row] for row in rows]

    def keys(self, rows: Sequence[int]) -> list[bytes]:
        """The trials' requests in the store; empty where they were not asked there."""
        if self._source.asked is None:
            return [b""] * len(rows)
        found: dict[int, bytes] = {}
        for block, mine in self._by_block(rows):
            found |= zip(mine, block.keys_of(np.array(mine) - block.start), strict=True)
        return [found[row] for row in rows]

    def _by_block(self, rows: Sequence[int]) -> list[tuple[TrialBlock, list[int]]]:
        at = np.unique(np.array(rows, dtype=np.int64))
        cuts = np.searchsorted(at, [block.start for block in self._source.blocks[1:]])
        mine = [part.tolist() for part in np.split(at, cuts)]
        return [(block, part) for block, part in zip(self._source.blocks, mine, strict=True) if part]
