"""The part of `precision.py` that sets what `plan` tells beside what a run then has: widths, ρ and top-5 recall."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from precision_runs import Judged, answered, blank, judged, recall, row, se
from recorded import dense_abilities
from youden import make_plan
from youden.pipeline.precision import PrecisionForecast, estimate_variance_components
from youden.pipeline.ranking import estimate_abilities
from youden.stats import spearman
from youden.stats.forecast import ReferenceRange
from youden.types.pool import Floats

FEW = 150
PILOT = 100
"""Trials an agent: of the smaller plan, and of the run whose answers foretell the others."""


def told(runs: int, shared: Path) -> None:
    """Widths are of the average agent's interval. `off`: by how much of itself what was found lies outside the range told.
    `by_pilot`, `by_run`: width told from answers over the one found; `near`: runs whose pilot told it to a tenth."""
    for of in judged(shared):
        truth = dense_abilities(of.D)
        for trials in (None, FEW):
            runs_of_it = [_one_run(of, truth, trials, seed) for seed in range(runs)]
            expected = runs_of_it[0][0]
            half, rho, top, by_pilot, by_run = np.array([figures for _, figures in runs_of_it]).T
            ranges = {"half": expected.half_width[1.0], "rho": expected.rho, "recall": expected.recall}
            found = {"half": half, "rho": rho, "recall": top}
            row(
                of="told",
                domain=of.name,
                answers=of.kind,
                trials=expected.trials,
                runs=runs,
                **{name: _beside(range_, found[name]) for name, range_ in ranges.items() if range_ is not None},
                by_pilot=round(float(by_pilot.mean()), 3),
                near=round(float((np.abs(by_pilot - 1) <= 0.1).mean()), 3),
                by_run=round(float(by_run.mean()), 3),
            )


def _beside(range_: ReferenceRange, values: Floats) -> dict[str, float]:
    found, (low, _, high) = float(values.mean()), range_
    off = max(low - found, found - high, 0.0) / found
    figures = {"low": low, "high": high, "found": found, "se": se(values), "off": off}
    return {name: round(value, 4) for name, value in figures.items()}


def _one_run(of: Judged, truth: Floats, trials: float | None, seed: int) -> tuple[PrecisionForecast, list[float]]:
    J, K, _ = of.D.shape
    pool = blank(K, J)
    plan = make_plan(pool, calls=None if trials is None else f"{trials}/agent", seed=seed)
    result = answered(plan, paired=of.D)
    pilot = answered(make_plan(pool, calls=f"{PILOT}/agent", seed=1000 + seed), paired=of.D)
    found = estimate_abilities(result)
    half = float(found.covariance.half_width().mean())
    by = [
        PrecisionForecast(plan, estimate_variance_components(answers)).half_width[1.0].mean / half
        for answers in (pilot, result)
    ]
    figures = [half, spearman(found.ability, truth).value, recall(found.ability, truth), *by]
    return PrecisionForecast(plan, kind=of.kind), figures
