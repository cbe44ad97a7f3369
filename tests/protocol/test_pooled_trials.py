"""Test the number of pooled independent trials of a plan, and how they are drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_pools import make_pool
from youden import make_plan
from youden.data.folder.trial_tables import read_plan, write_plan
from youden.protocol import pooled_trials
from youden.protocol.extension import add_agents, add_calls
from youden.protocol.pooled_trials import (
    count_added_calls,
    count_independent,
    count_independent_for_paired,
    draw_pooled_trials,
    draw_scored_trials,
    has_free_calls,
)
from youden.protocol.subsample import subsample
from youden.types import INDEPENDENT, PAIRED, Plan, Pool, Trials
from youden.types.trials import POOLED, PROBE

K, J = 10, 40
POOL = make_pool(K + 2, J)
FIRST = Pool(POOL.agents[:K], POOL.items, POOL.texts[:K])


def count(plan: Plan, trial_type: int) -> int:
    return int((plan.trial_type == trial_type).sum())


@settings(max_examples=60, deadline=None)
@given(n_calls=st.integers(1, 10**6), n_agents=st.integers(3, 300))
def test_complete_passes_use_7_to_10_percent_and_are_at_least_two(n_calls: int, n_agents: int) -> None:
    n = count_independent(n_calls, n_agents)
    assert n % n_agents == 0
    assert n >= max(2 * n_agents, 0.07 * n_calls)
    assert n <= max(2 * n_agents, 0.1 * n_calls + n_agents)
    n_paired = max(n_calls - n, 0)
    n_of_paired = count_independent_for_paired(n_paired, n_agents)
    assert count_independent(n_paired + n_of_paired, n_agents) == n_of_paired
    assert n_of_paired <= n


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 400), gaps=st.booleans())
def test_every_agent_is_drawn_equally_often_on_each_side_and_no_trial_twice(seed: int, n: int, gaps: bool) -> None:
    rng = np.random.default_rng(seed)
    eligible = np.ones((6, 9), dtype=np.bool_)
    if gaps:
        eligible &= rng.random(eligible.shape) < 0.8
        eligible[:, :2] = True
    trials = draw_pooled_trials(eligible, n, rng)
    assert len(trials) == n
    assert eligible[trials.first, trials.item].all()
    assert eligible[trials.second, trials.other_item].all()
    assert (trials.item != trials.other_item).all()
    assert (trials.first != trials.second).all()
    assert not trials.with_replicate_numbers().replicate.any()
    if n <= 100:
        assert max(np.ptp(np.bincount(side, minlength=6)) for side in (trials.first, trials.second)) <= 2


def test_a_number_above_the_available_trials_gives_all_of_them() -> None:
    trials = draw_pooled_trials(np.ones((3, 4), dtype=np.bool_), 10**9, np.random.default_rng(0))
    assert 65 <= len(trials) <= 3 * 2 * 4 * 3
    planned = draw_pooled_trials(np.ones((3, 4), dtype=np.bool_), 20, np.random.default_rng(1))
    others = draw_pooled_trials(np.ones((3, 4), dtype=np.bool_), 10**9, np.random.default_rng(0), planned=planned)
    assert len(others) > 40
    assert not Trials.concat([planned, others]).with_replicate_numbers().replicate.any()


def test_extensions_of_a_small_pool_repeat_no_independent_trial() -> None:
    plan = make_plan(make_pool(6, 20), calls=120, calls_are_free=True)
    for _ in range(2):
        plan = add_calls(plan, calls=300)
        assert not plan.trials.replicate[plan.trial_type == INDEPENDENT].any()


@pytest.mark.parametrize(
    ("scored", "partners", "pairs"), [((0, 1), (0,), {(0, 1)}), ((0, 1), (), set()), ((0,), (0,), set())]
)
def test_an_agent_is_not_its_own_partner(
    scored: tuple[int, ...], partners: tuple[int, ...], pairs: set[tuple[int, int]]
) -> None:
    plan = make_plan(FIRST, calls=400)
    trials = draw_scored_trials(
        plan,
        FIRST.present,
        np.random.default_rng(0),
        scored=np.array(scored),
        partners=np.array(partners, dtype=np.int64),
        n=5,
    )
    assert len(trials) == 5 * len(pairs)
    drawn = zip(trials.first.tolist(), trials.second.tolist(), strict=True)
    assert {(min(pair), max(pair)) for pair in drawn} == pairs


@pytest.mark.parametrize("calls", [60, 300, 1000, "20%", "60%"])
def test_a_budget_pays_for_complete_passes_and_is_not_exceeded(calls: int | str) -> None:
    plan = make_plan(FIRST, calls=calls)
    n_calls = calls if isinstance(calls, int) else int(calls[:-1]) * plan.n_dense_calls // 100
    assert len(plan) <= n_calls
    pooled = plan.role == POOLED
    assert pooled.sum() == count_independent(n_calls, K)
    assert len(set(np.bincount(plan.first[pooled]))) == len(set(np.bincount(plan.second[pooled]))) == 1


def test_a_free_judge_gets_four_independent_trials_per_paired_one_outside_the_budget() -> None:
    plan = make_plan(FIRST, calls=400, calls_are_free=True)
    assert count(plan, PAIRED) == 400
    assert (plan.role == POOLED).sum() == 1600
    assert has_free_calls(plan)
    assert count(add_calls(plan, calls=100), PAIRED) == 500
    assert (add_calls(plan, calls=100).role == POOLED).sum() == 2000
    assert not has_free_calls(make_plan(FIRST, calls=400))


def test_a_large_free_plan_is_recognized_despite_fewer_independent_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pooled_trials, "MAX_FREE", 100)
    plan = make_plan(FIRST, calls=400, calls_are_free=True)
    assert (plan.role == POOLED).sum() == 100
    assert has_free_calls(plan)
    assert count_added_calls(plan, 60, n_scored=K) == 60


def test_a_plan_without_cost_is_recognized_after_reading_it_back(tmp_path: Path) -> None:
    for calls_are_free in (False, True):
        plan = make_plan(FIRST, calls=400, calls_are_free=calls_are_free)
        folder = tmp_path / str(calls_are_free)
        folder.mkdir()
        write_plan(folder / "plan.parquet", plan)
        assert has_free_calls(read_plan(folder / "plan.parquet")) == calls_are_free
    assert count(make_plan(FIRST, calls=400, independent="pooled:50", calls_are_free=True), INDEPENDENT) == 50


def test_another_judge_of_the_same_trials_omits_the_free_ones() -> None:
    part = subsample(make_plan(FIRST, calls=400, calls_are_free=True))
    assert count(part, PAIRED) == 400
    assert count(part, INDEPENDENT) == count_independent_for_paired(400, K)
    assert not has_free_calls(part)


def test_an_extension_adds_independent_trials_in_proportion_unless_n_is_set() -> None:
    plan = make_plan(FIRST, calls=1000, seed=1)
    extended = add_calls(plan, calls=500)
    assert len(extended) - len(plan) <= 500
    assert count(extended, INDEPENDENT) - count(plan, INDEPENDENT) == pytest.approx(0.07 * 500, abs=K)
    focused = add_calls(plan, calls=200, focus=(2, 3))
    added = np.arange(len(focused)) >= len(plan)
    counted = added & (focused.trial_type == INDEPENDENT)
    assert 0 < counted.sum() <= 20
    assert (focused.trials.weight_first + focused.trials.weight_second)[counted].max() == 1
    joined = add_agents(plan, POOL, calls=300)
    of_joined = (joined.trial_type == INDEPENDENT) & (np.maximum(joined.first, joined.second) >= K)
    assert of_joined.sum() >= 2 * 2

    fixed = make_plan(FIRST, calls=1000, seed=1, independent="pooled:50")
    assert count(add_calls(fixed, calls=500), INDEPENDENT) == 50
    assert count(add_agents(fixed, POOL, calls=300), INDEPENDENT) == 60


def test_probes_stay_few_for_any_number_of_independent_trials() -> None:
    for options in ({"calls": 1000}, {"calls": "60%"}, {"calls": 1000, "calls_are_free": True}):
        assert (make_plan(FIRST, **options).role == PROBE).sum() <= 25
