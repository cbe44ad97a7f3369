"""What a report says of a run's trials, from one reading of them block by block; the trials that it shows are read once more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from youden.nouns import MISSING_REASONS
from youden.nouns.arrays import Positions
from youden.report.data.answers.blocks import Block, TrialSource
from youden.report.data.answers.predictions import Predictions
from youden.report.data.answers.repeats import codes_of, repeats_of
from youden.report.data.answers.worst import WorstTrials
from youden.report.data.checks import ApartCounts, FalseAlarm
from youden.report.data.cost import Latency, Seconds
from youden.report.data.trials import KINDS, Kind, TrialLine, TrialRows, count_kinds, surprising
from youden.report.data.trust.judge import ArmMeans, JudgeQuality

_DIFFER = KINDS.index("answers differ")


class Reading:
    """A run's trials, read once: 18 bytes of each are in memory meanwhile, two afterwards.

    worst: of each agent the rows of the trials that cost it most; fates: how often each of MISSING_REASONS came.
    """

    judge: JudgeQuality
    alarms: tuple[FalseAlarm, ...]
    latency: Latency | None
    worst: tuple[tuple[int, ...], ...]
    fates: tuple[int, ...]

    def __init__(self, source: TrialSource, predicted: Predictions | None) -> None:
        """Raises: RunFolderError where a part is not whole."""
        self._source = source
        n, plan = source.n_trials, source.plan
        code, self._kind = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int8)
        fates = np.zeros(len(MISSING_REASONS), dtype=np.int64)
        arms, apart, worst, seconds = ArmMeans(), ApartCounts(plan), WorstTrials(plan, predicted), Seconds(n)
        for block in source.blocks:
            rows = TrialRows(block.read(), plan, start=block.start)
            own = slice(block.start, block.start + block.n)
            code[own], self._kind[own] = codes_of(rows.columns, plan), rows.kind
            fates += np.bincount(rows.columns["missing"], minlength=len(fates))
            arms.add(rows)
            apart.add(rows)
            worst.add(rows)
            if "seconds" in source.measured:
                seconds.add(rows)
        repeats = repeats_of(code)
        self._differ = repeats.differ
        self._kind[repeats.differ & (self._kind > _DIFFER)] = _DIFFER
        self.judge = arms.quality(again=repeats.again, turned=repeats.turned)
        self.alarms, self.latency = apart.alarms, seconds.latency
        self.worst, self.fates = worst.rows, tuple(fates.tolist())
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
            differ = self._differ[block.start : block.start + block.n]
            of = TrialRows(block.read(), self._source.plan, start=block.start, differ=differ)
            self._lines |= {row: of.line(row) for row in mine}
        return [self._lines[row] for row in rows]

    def keys(self, rows: Sequence[int]) -> list[bytes]:
        """The trials' requests in the store; empty where they were not asked there."""
        if self._source.asked is None:
            return [b""] * len(rows)
        found: dict[int, bytes] = {}
        for block, mine in self._by_block(rows):
            found |= zip(mine, block.keys(np.array(mine) - block.start), strict=True)
        return [found[row] for row in rows]

    def _by_block(self, rows: Sequence[int]) -> list[tuple[Block, list[int]]]:
        at = np.unique(np.array(rows, dtype=np.int64))
        cuts = np.searchsorted(at, [block.start for block in self._source.blocks[1:]])
        mine = [part.tolist() for part in np.split(at, cuts)]
        return [(block, part) for block, part in zip(self._source.blocks, mine, strict=True) if part]
