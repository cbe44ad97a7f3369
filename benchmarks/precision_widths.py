"""Measure runs that stop at a requested half-width, and searches that stop when the top agents are separated.

Both are parts of `precision.py`.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from precision_runs import (
    SMOKE_RUNS,
    answer_plan,
    compute_recall,
    estimate,
    make_empty_pool,
    print_row,
    simulate_answers,
    std_error,
)
from recorded import compute_dense_abilities, load_recorded_answers, read_answers
from youden import make_plan
from youden.pipeline.ranking import estimate_abilities, trial_abilities_from_verdicts
from youden.pipeline.rounds import run_rounds
from youden.protocol.designs.cyclic import Cyclic
from youden.stats.forecast import find_min_blocks, half_width_quantile
from youden.study.replaying import replay
from youden.types.pool import Floats

HALF_WIDTHS = (0.02, 0.03, 0.05)
FRACTION = 0.9


class WidthRun(NamedTuple):
    """Result of a run with a requested half-width.

    Attributes
    ----------
    narrow : bool
        Whether the half-width was attained.
    at_share : float
        Half-width that the fraction `FRACTION` of agents attains.
    blocks : int
    ratio : float
        Blocks over those of the oracle; NaN if there is none.
    covered : float
        Share of agents whose interval contains the true ability.
    n_analyses : int
        Number of interim analyses.
    """

    narrow: bool
    at_share: float
    blocks: int
    ratio: float
    covered: float
    n_analyses: int


def run_to_half_width(paired: Floats, truth: Floats, requested: float, oracle: int | None, seed: int) -> WidthRun:
    """Run a plan of the design fixed-width on the given answers."""
    J, K, _ = paired.shape
    plan = make_plan(make_empty_pool(K, J), design="fixed-width", options={"half_width": requested}, seed=seed)
    verdicts = run_rounds(plan, partial(answer_plan, paired=paired))
    abilities = estimate_abilities(verdicts)
    half_width = abilities.covariance.half_width()
    error = abilities.ability - abilities.ability.mean() - truth
    n_blocks, rounds = int(verdicts.plan.block.max()) + 1, verdicts.plan.rounds
    return WidthRun(
        narrow="stopped early" in verdicts.plan.notes[-1],
        at_share=half_width_quantile(half_width, FRACTION),
        blocks=n_blocks,
        ratio=np.nan if oracle is None else n_blocks / oracle,
        covered=float((np.abs(error) <= half_width).mean()),
        n_analyses=0 if rounds is None else len(rounds.starts),
    )


def measure_half_widths(n_runs: int, shared: Path) -> None:
    """Print one row per data set and requested half-width."""
    cases = list(product(("simulated 30 × 1,000", "PubMed", "ICLR", "SAMSum"), HALF_WIDTHS))
    for name, requested in cases if n_runs > SMOKE_RUNS else cases[2:3]:
        results, oracle = [], None
        answers = None if name.startswith("simulated") else read_answers(name, shared)
        if answers is not None:
            oracle = find_min_blocks_by_replay(answers, requested)
        for seed in range(n_runs):
            if answers is None:
                paired, truth, variances = simulate_answers(seed, 30, 1000)
                oracle = find_min_blocks(variances, requested, fraction=FRACTION, n_items=1000, max_blocks=29_000)
            else:
                paired = answers[np.random.default_rng([seed, 1]).integers(len(answers), size=len(answers))]
                truth = compute_dense_abilities(answers)
            results.append(run_to_half_width(paired, truth, requested, oracle, seed))
        attained = [result for result in results if result.narrow]
        figures: dict[str, object] = {
            "part": "width",
            "data": name,
            "width": requested,
            "runs": n_runs,
            "reported_unattainable": n_runs - len(attained),
        }
        if attained:
            at_share, ratio, covered, n_analyses = (
                np.array(column, dtype=float)
                for column in zip(
                    *((result.at_share, result.ratio, result.covered, result.n_analyses) for result in attained),
                    strict=True,
                )
            )
            figures |= {
                "reached": round(float((np.abs(at_share / requested - 1) <= 0.1).mean()), 3),
                "at_share": round(float(at_share.mean()), 4),
                "calls": round(float(np.mean([result.blocks for result in attained])) * paired.shape[1] + 100),
                "oracle_blocks": oracle,
                "ratio": None if oracle is None else round(float(ratio.mean()), 3),
                "ratio_se": None if oracle is None else std_error(ratio),
                "covered": round(float(covered.mean()), 4),
                "covered_se": std_error(covered),
                "n_analyses": round(float(n_analyses.mean()), 1),
            }
        print_row(**figures)


def find_min_blocks_by_replay(D: Floats, requested: float, *, n_draws: int = 12) -> int | None:
    """Find the smallest number of blocks that attains the half-width on average over resampled runs; None if there is none."""
    J, K, _ = D.shape

    def is_too_wide(n_blocks: int) -> bool:
        """Return whether the mean half-width over resampled runs exceeds the requested one."""
        half_widths = []
        for seed in range(n_draws):
            rng = np.random.default_rng([seed, 2])
            paired = D[rng.integers(J, size=J)]
            plan = Cyclic(n_blocks * K).draw(np.ones((K, J), dtype=np.bool_), rng).trials
            half_widths.append(half_width_quantile(estimate(paired, plan).kind.half_width(), FRACTION))
        return float(np.mean(half_widths)) > requested

    low, high = 4, 16
    while is_too_wide(high):
        if high >= (K - 1) * J:
            return None
        low, high = high, min(2 * high, (K - 1) * J)
    while high - low > max(1, high // 100):
        mid = (low + high) // 2
        low, high = (mid, high) if is_too_wide(mid) else (low, mid)
    return high


def measure_top(n_runs: int, shared: Path) -> None:
    """Print recall of the top 5 by a search and by a cyclic plan per domain, and how often a separated top 5 is wrong."""
    for name in ("PubMed", "ICLR", "SAMSum"):
        recorded = load_recorded_answers(name, shared)
        truth = compute_dense_abilities(np.nan_to_num(recorded.paired))
        rows = []
        for seed in range(n_runs):
            plan = make_plan(recorded.pool, design="adaptive", options={"top": 5}, seed=seed)
            verdicts = run_rounds(plan, partial(replay, recorded=recorded))
            search_ability = estimate_abilities(verdicts).ability
            uniform = trial_abilities_from_verdicts(
                replay(make_plan(recorded.pool, calls=len(verdicts.plan), seed=seed), recorded)
            )
            assert uniform is not None
            is_separated = "near enough" in verdicts.plan.notes[-1]
            stop_figures = [
                is_separated,
                is_separated and compute_recall(search_ability, truth) < 1,
                len(verdicts.plan),
            ]
            rows.append([compute_recall(search_ability, truth), compute_recall(uniform.ability, truth), *stop_figures])
        table = np.array(rows, dtype=float)
        names = ("recall", "uniform_recall", "separated", "wrong", "calls")
        means = {name: round(float(value), 4) for name, value in zip(names, table.mean(axis=0), strict=True)}
        print_row(part="top", domain=name, runs=n_runs, **means, difference_se=std_error(table[:, 0] - table[:, 1]))
