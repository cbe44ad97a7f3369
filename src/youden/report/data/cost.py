"""What a run asked, what came back, how long calls took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import YoudenError
from youden.judging.config.reading import load_judge_config, price
from youden.judging.store.answers import open_store
from youden.nouns import MISSING_REASONS, CallFacts, Verdicts
from youden.report.data.answers.blocks import TrialSource
from youden.report.data.trials import TrialRows

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


@dataclass(frozen=True)
class Cost:
    """The plan in numbers and the fate of its calls.

    fates: every reason of MISSING_REASONS with its number of calls, 'answered' first. notes: the plan's.
    latency: None where nothing was timed. reused_usd: what the answers that were not asked for this run cost
    when they were; None where that cannot be told, as in a run that is read in blocks.
    """

    design: str
    options: tuple[tuple[str, str], ...]
    independent: str
    seed: int
    notes: tuple[str, ...]
    n_cells: int
    fates: tuple[tuple[str, int], ...]
    latency: Latency | None
    reused_usd: float | None
    judge: tuple[tuple[str, str], ...]


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


def count_cost(
    folder: RunFolder, source: TrialSource, *, fates: Sequence[int], latency: Latency | None, calls: CallFacts | None
) -> Cost:
    """The cost of a judged run. fates: as MISSING_REASONS; calls: as `youden fit` counted them, for trials that are on disk."""
    plan = source.plan
    known = calls.n_cells if source.kept is None and calls is not None else plan.n_cells
    return Cost(
        design=plan.design,
        options=tuple((name, str(value)) for name, value in plan.said.items()),
        independent=plan.independent,
        seed=plan.seed,
        notes=plan.notes,
        n_cells=known,
        fates=tuple(zip(MISSING_REASONS, fates, strict=True)),
        latency=latency,
        reused_usd=None if source.kept is None else _reused_usd(folder, source.kept),
        judge=tuple((name, str(value)) for name, value in source.judge.items()),
    )


def _reused_usd(folder: RunFolder, result: Verdicts) -> float | None:
    if result.key is None or not result.reused.any():
        return None
    try:
        config = folder.read_config()
        judge = load_judge_config(config.judge)
        with open_store(config.store_place, read_only=True) as store:
            found = store.answers(sorted({key.decode() for key in result.key[result.reused].tolist()})).values()
    except YoudenError:
        return None
    usd = math.fsum(price(judge.of or judge, one.tokens_in, one.tokens_out) for one in found)
    return None if math.isnan(usd) else usd
