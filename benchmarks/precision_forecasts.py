"""Compare forecasts by `plan` with the results of runs: half-widths, ρ and top-5 recall; a part of `precision.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from unittest.mock import patch

import numpy as np

from precision_runs import (
    SMOKE_RUNS,
    JudgedPool,
    answer_plan,
    compute_recall,
    iter_further_pools,
    iter_judged_pools,
    make_empty_pool,
    print_row,
    std_error,
)
from recorded import compute_dense_abilities
from youden import make_plan
from youden.pipeline.precision import PrecisionForecast, estimate_variance_components
from youden.pipeline.ranking import estimate_abilities
from youden.stats import spearman
from youden.stats.reference_data import REFERENCE_DATA, ReferenceRange
from youden.types.pool import Floats

SMALL_PLAN_TRIALS = 150
"""Trials per agent of the smaller plan."""
FIRST_SEED = 500
"""Seed of the first run; the reference data were measured with seeds from 0."""
PILOT_TRIALS = 100
"""Trials per agent of the pilot run whose answers are used for forecasts."""


def measure_forecasts(n_runs: int, shared: Path) -> None:
    """Print one row per judged pool and plan.

    A forecast before any answer uses the reference data without those of the same pool. Half-widths are means over agents.
    `off`: distance of the result from the forecast range, relative to the result. `by_pilot`, `by_run`: half-width forecast from
    answers of a pilot, or of the run itself, over the observed one. `near`: share of runs whose forecast by the pilot is off by
    at most a tenth.
    """
    n_pools = None if n_runs > SMOKE_RUNS else 2
    for judged in islice(chain(iter_judged_pools(shared), iter_further_pools(shared)), n_pools):
        truth = compute_dense_abilities(judged.D)
        for trials in (None, SMALL_PLAN_TRIALS):
            with leave_out(judged):
                results = [
                    _run_and_forecast(judged, truth, trials, seed) for seed in range(FIRST_SEED, FIRST_SEED + n_runs)
                ]
            forecast = results[0][0]
            half_width, rho, recall, by_pilot, by_run = np.array([figures for _, figures in results]).T
            ranges = {"half": forecast.half_width[1.0], "rho": forecast.rho, "recall": forecast.recall}
            observed = {"half": half_width, "rho": rho, "recall": recall}
            print_row(
                part="forecasts",
                domain=judged.name,
                answers=judged.kind,
                trials=forecast.trials,
                runs=n_runs,
                **{
                    name: _compare_with_range(forecast_range, observed[name])
                    for name, forecast_range in ranges.items()
                    if forecast_range is not None
                },
                by_pilot=round(float(by_pilot.mean()), 3),
                near=round(float((np.abs(by_pilot - 1) <= 0.1).mean()), 3),
                by_run=round(float(by_run.mean()), 3),
            )


@contextmanager
def leave_out(judged: JudgedPool) -> Iterator[None]:
    """Forecast without the reference data of a pool."""
    others = tuple(data for data in REFERENCE_DATA[judged.kind] if not data.name.startswith(f"{judged.name} "))
    with patch.dict(REFERENCE_DATA, {judged.kind: others}):
        yield


def _compare_with_range(forecast_range: ReferenceRange, values: Floats) -> dict[str, float]:
    """Compare observed values with the range of the forecast."""
    mean, (low, _, high) = float(values.mean()), forecast_range
    relative_distance = max(low - mean, mean - high, 0.0) / mean
    figures = {"low": low, "high": high, "found": mean, "se": std_error(values), "off": relative_distance}
    return {name: round(value, 4) for name, value in figures.items()}


def _run_and_forecast(
    judged: JudgedPool, truth: Floats, trials: float | None, seed: int
) -> tuple[PrecisionForecast, list[float]]:
    """Run one plan; return its forecast without answers, and its figures."""
    J, K, _ = judged.D.shape
    pool = make_empty_pool(K, J)
    is_free = judged.kind == "lexical"
    plan = make_plan(pool, calls=None if trials is None else f"{trials}/agent", seed=seed, calls_are_free=is_free)
    verdicts = answer_plan(plan, paired=judged.D)
    pilot_plan = make_plan(pool, calls=f"{PILOT_TRIALS}/agent", seed=1000 + seed, calls_are_free=is_free)
    pilot = answer_plan(pilot_plan, paired=judged.D)
    abilities = estimate_abilities(verdicts)
    half_width = float(abilities.covariance.half_width().mean())
    forecast_ratios = [
        PrecisionForecast(plan, estimate_variance_components(answers)).half_width[1.0].mean / half_width
        for answers in (pilot, verdicts)
    ]
    figures = [
        half_width,
        spearman(abilities.ability, truth).value,
        compute_recall(abilities.ability, truth),
        *forecast_ratios,
    ]
    return PrecisionForecast(plan, kind=judged.kind), figures
