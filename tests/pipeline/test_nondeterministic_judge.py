"""Test intervals on these items for the expected answer of a judge, if votes of a jury show its variance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from plan_options import PlanOptions
from small_pools import answer_with, make_pool
from youden import make_plan, rank
from youden.types import PAIRED, Plan, Verdicts
from youden.types.pool import Floats

K, J = 8, 10
POOL = make_pool(K, J)


def chances(seed: int) -> Floats:
    """Return the probability of a yes by item and ordered pair, float (J, K, K)."""
    rng = np.random.default_rng([seed, 1])
    level = 0.5 + np.linspace(-0.2, 0.2, K)[:, None] + np.linspace(-0.2, 0.2, K)
    return np.clip(level + 0.2 * rng.standard_normal((J, K, K)), 0.02, 0.98)


def voted(plan: Plan, chance: Floats, n_votes: int, *, seed: int, majority: bool = False) -> Verdicts:
    """Return the votes of a nondeterministic judge on each comparison."""
    output = np.random.default_rng(seed).random((n_votes, len(plan))) < chance[plan.item, plan.first, plan.second]
    votes = np.where(plan.trial_type == PAIRED, output, 0.0).astype(np.float64)
    mean = votes.mean(axis=0)
    result = answer_with(plan, (mean > 0.5).astype(np.float64) if majority else mean)
    return result if n_votes == 1 else replace(result, votes=votes)


def of_these(result: Verdicts) -> pd.DataFrame:
    return rank(result, target="these-items").set_index("agent").loc[list(result.plan.agent_ids)]


def covered(plan: Plan, n_votes: int, *, n_draws: int = 40) -> float:
    """Return how often intervals on these items contain the mean answer of the judge."""
    inside = []
    for seed in range(n_draws):
        chance = chances(seed)
        chance[:, np.eye(K, dtype=np.bool_)] = 0.0
        true = (chance.sum(axis=(0, 1)) + chance.sum(axis=(0, 2))) / (2 * (K - 1) * J)
        result = of_these(voted(plan, chance, n_votes, seed=seed))
        off = (result.ability - result.ability.mean()) - (true - true.mean())
        inside.append(np.abs(off) <= (result.high - result.low) / 2)
    return float(np.mean(inside))


EVERY: PlanOptions = {"design": "cyclic", "calls": f"{2 * (K - 1) * J}/agent", "independent": "pooled:20"}
HALF: PlanOptions = {"design": "cyclic", "calls": f"{(K - 1) * J}/agent", "independent": "pooled:20"}
CELLS: PlanOptions = {"design": "nlogn", "calls": "40%", "holdout": 0.0, "independent": "pooled:20"}


@pytest.mark.slow
@pytest.mark.parametrize("of", [EVERY, HALF, CELLS])
def test_on_these_items_intervals_with_replicates_cover_the_mean_answer(of: PlanOptions) -> None:
    assert covered(make_plan(POOL, **of), 2) >= 0.93


@pytest.mark.slow
def test_on_these_items_intervals_without_replicates_do_not_cover_the_mean_answer() -> None:
    plan = make_plan(POOL, **(EVERY | {"independent": "pooled:0"}))
    assert covered(plan, 1, n_draws=20) < 0.5


def test_a_majority_vote_is_treated_as_an_answer_without_replicates() -> None:
    plan = make_plan(POOL, **HALF)
    result = voted(plan, chances(0), 3, seed=0, majority=True)
    pd.testing.assert_frame_equal(of_these(result), of_these(replace(result, votes=None)))
