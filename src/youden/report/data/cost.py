"""What a run asked, what came back, how long calls took."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import YoudenError
from youden.judging.config.reading import load_judge_config, price
from youden.judging.store.answers import open_store
from youden.nouns import MISSING_REASONS, Verdicts


@dataclass(frozen=True)
class Latency:
    """Seconds a call took, over the calls of the run's last pass."""

    n_calls: int
    median: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Cost:
    """The plan in numbers and the fate of its calls.

    fates: every reason of MISSING_REASONS with its number of calls, 'answered' first. notes: the plan's.
    latency: None where nothing was timed. reused_usd: what the answers that were not asked for this run cost
    when they were; None where that cannot be told.
    """

    design: str
    options: tuple[tuple[str, str], ...]
    independent: str
    seed: int
    notes: tuple[str, ...]
    n_cells: int
    n_cells_all: int
    fates: tuple[tuple[str, int], ...]
    latency: Latency | None
    reused_usd: float | None
    judge: tuple[tuple[str, str], ...]


def count_cost(folder: RunFolder, result: Verdicts) -> Cost:
    """The cost of a judged run."""
    plan = result.plan
    counts = np.bincount(result.missing, minlength=len(MISSING_REASONS))
    return Cost(
        design=plan.design,
        options=tuple((name, str(value)) for name, value in plan.said.items()),
        independent=plan.independent,
        seed=plan.seed,
        notes=plan.notes,
        n_cells=plan.n_cells,
        n_cells_all=plan.n_agents * plan.n_items,
        fates=tuple((name, int(n)) for name, n in zip(MISSING_REASONS, counts, strict=True)),
        latency=_latency(result),
        reused_usd=_reused_usd(folder, result),
        judge=tuple((name, str(value)) for name, value in result.judge.items()),
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


def _latency(result: Verdicts) -> Latency | None:
    timed = result.seconds[result.seconds > 0] if result.seconds is not None else np.empty(0)
    if not len(timed):
        return None
    median, p90, p99 = np.quantile(timed, [0.5, 0.9, 0.99]).tolist()
    return Latency(len(timed), median, p90, p99)
