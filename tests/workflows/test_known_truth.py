"""Test the trials of a calibration: their kinds, their known truth, and reuse by the run."""

from __future__ import annotations

import numpy as np
import pytest

from small_pools import make_pool
from youden import make_plan, read_pool
from youden.errors import PlanError
from youden.types import INDEPENDENT, PAIRED, Plan, Pool
from youden.types.trials import PROBE
from youden.workflows.calibration_trials import KIND_DETAILS, KINDS, CalibrationTrials, draw_calibration_trials

Trial = tuple[int, int, int, int, int]


def trials(plan: Plan) -> list[Trial]:
    columns = (plan.item, plan.first, plan.second, plan.other_item, plan.replicate)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.fixture(scope="module")
def pool() -> Pool:
    return read_pool("datasets/field-notes")


@pytest.fixture(scope="module")
def plan(pool: Pool) -> Plan:
    return make_plan(pool, seed=3)


@pytest.fixture(scope="module")
def known_trials(plan: Plan, pool: Pool) -> CalibrationTrials:
    return draw_calibration_trials(plan, calls=150, seed=3)


def test_150_calls_are_split_as_documented(known_trials: CalibrationTrials) -> None:
    assert {kind: len(known_trials.rows(kind)) for kind in KINDS} == {
        kind: details.per_150_calls for kind, details in KIND_DETAILS.items()
    }
    assert len(known_trials.plan) == 150
    assert len(set(trials(known_trials.plan))) == 150


def test_more_than_half_of_the_trials_are_those_of_the_run(known_trials: CalibrationTrials, plan: Plan) -> None:
    planned = set(trials(plan))
    assert [trial in planned for trial in trials(known_trials.plan)] == known_trials.in_run.tolist()
    assert known_trials.in_run[known_trials.rows("paired", "independent", "unbalanced", "balanced")].all()
    assert not known_trials.in_run[known_trials.rows("retest", "identical", "clone", "template")].any()


def test_random_trials_contain_no_probe_and_no_pair_twice(known_trials: CalibrationTrials, plan: Plan) -> None:
    probes = {trial for trial, probe in zip(trials(plan), plan.role == PROBE, strict=True) if probe}
    asked = trials(known_trials.plan)
    assert not probes & {asked[row] for row in known_trials.rows("independent", "balanced")}
    pairs = [(asked[row][0], frozenset(asked[row][1:3])) for row in known_trials.rows("paired", "unbalanced")]
    assert len(set(pairs)) == len(pairs)


def test_replicates_refer_to_the_trials_they_repeat(known_trials: CalibrationTrials) -> None:
    asked = trials(known_trials.plan)
    for row in known_trials.rows("reversed"):
        item, first, second, *_ = asked[known_trials.original[row]]
        assert asked[row] == (item, second, first, -1, 0)
    for row in known_trials.rows("retest"):
        assert asked[row] == (*asked[known_trials.original[row]][:4], 1)
    assert set(known_trials.original[known_trials.rows("paired", "independent", "identical")]) == {-1}


def test_planted_texts_are_of_the_named_kind(known_trials: CalibrationTrials, pool: Pool) -> None:
    plan, texts = known_trials.plan, known_trials.pool.texts
    assert known_trials.pool.agents[: pool.n_agents] == pool.agents
    templates = set()
    for kind in ("identical", "clone", "template"):
        for row in known_trials.rows(kind):
            first, second = texts[plan.first[row], plan.item[row]], texts[plan.second[row], plan.item[row]]
            assert first == pool.texts[plan.first[row], plan.item[row]]
            if kind == "identical":
                assert first == second
            elif kind == "clone":
                assert first != second
                assert sorted(first.split()) == sorted(word for word in second.split() if word != "-")
            else:
                templates.add(second)
    assert len(templates) == 1
    assert not any(item.id in text for item in pool.items for text in templates)


def test_texts_of_unbalanced_trials_differ_more_in_length_than_balanced_ones(known_trials: CalibrationTrials) -> None:
    plan = known_trials.plan
    length = np.array([[len(text or "") for text in row] for row in known_trials.pool.texts])
    other_item = np.where(plan.trial_type == INDEPENDENT, plan.other_item, plan.item)
    ratio = np.abs(np.log(length[plan.first, plan.item] / length[plan.second, other_item]))
    assert set(plan.trial_type[known_trials.rows("unbalanced")]) == {PAIRED}
    assert ratio[known_trials.rows("unbalanced")].min() > ratio[known_trials.rows("balanced")].max()


def test_more_calls_include_the_trials_of_fewer(plan: Plan, pool: Pool) -> None:
    few, extended = (draw_calibration_trials(plan, calls=calls, seed=3) for calls in (60, 400))
    for kind in KINDS:
        n = len(few.rows(kind))
        assert [trials(few.plan)[row] for row in few.rows(kind)] == [
            trials(extended.plan)[row] for row in extended.rows(kind)
        ][:n]


def test_the_plan_of_a_calibration_knows_its_length(known_trials: CalibrationTrials) -> None:
    plan, texts = known_trials.plan, known_trials.pool.texts
    other_item = np.where(plan.trial_type == INDEPENDENT, plan.other_item, plan.item)
    both = [*texts[plan.first, plan.item], *texts[plan.second, other_item]]
    assert plan.characters == sum(map(len, both))
    assert plan.pool_digest == known_trials.pool.digest


def test_independent_trials_missing_from_a_run_are_added(pool: Pool) -> None:
    plan = make_plan(pool, independent="pooled:0", seed=1)
    calibration_trials = draw_calibration_trials(plan, calls=150, seed=1)
    rows = calibration_trials.rows("independent")
    assert len(rows) == 30
    assert len(calibration_trials.rows("balanced")) == 10
    assert not calibration_trials.in_run[rows].any()
    assert (calibration_trials.plan.item[rows] != calibration_trials.plan.other_item[rows]).all()


@pytest.mark.parametrize("design", ["dense", "nlogn", "adaptive"])
def test_trials_are_drawn_from_any_design(pool: Pool, design: str) -> None:
    plan = make_plan(pool, design=design, calls=None if design == "dense" else 2000, seed=1)
    calibration_trials = draw_calibration_trials(plan, calls=150, seed=1)
    assert len(calibration_trials.rows("paired")) == 36
    assert calibration_trials.in_run[calibration_trials.rows("paired", "unbalanced")].all()


def test_a_pool_with_gaps_is_planned_without_missing_cells() -> None:
    present = np.random.default_rng(0).random((6, 12)) > 0.2
    pool = make_pool(6, 12, present=present)
    calibration_trials = draw_calibration_trials(make_plan(pool, seed=0), calls=150, seed=0)
    plan, texts = calibration_trials.plan, calibration_trials.pool.texts
    other_item = np.where(plan.trial_type == INDEPENDENT, plan.other_item, plan.item)
    assert all(text for text in (*texts[plan.first, plan.item], *texts[plan.second, other_item]))


def test_a_pool_too_small_to_calibrate_is_refused_with_its_size() -> None:
    pool = make_pool(3, 3)
    with pytest.raises(PlanError, match=r"5 paired.*at least 10 of each are needed.*\[calibrate-small\]"):
        draw_calibration_trials(make_plan(pool, design="dense", holdout=0), calls=150, seed=0)
    with pytest.raises(PlanError, match=r"the calls allow only 10 and 8.*at least 50 calls.*\[calibrate-small\]"):
        draw_calibration_trials(make_plan(make_pool(6, 12)), calls=40, seed=0)
