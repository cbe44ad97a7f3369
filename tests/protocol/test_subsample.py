"""Test samples of a plan for another judge: trials of the plan, balanced over agents, at most the requested number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plan_options import PlanOptions
from small_pools import make_pool
from youden import make_plan
from youden.errors import PlanError
from youden.protocol.subsample import subsample
from youden.types import INDEPENDENT, PAIRED, Plan
from youden.types.pool import Ids
from youden.types.trials import PROBE

POOL = make_pool(10, 30)
DESIGNS: dict[str, PlanOptions] = {
    "cyclic": {"calls": 1000},
    "dense": {},
    "nlogn": {"calls": "40%"},
    "adaptive": {"calls": 700, "options": {"rounds": 2}},
}


def rows(plan: Plan) -> set[tuple[int, ...]]:
    names = ("item", "first", "second", "trial_type", "other_item", "replicate")
    return set(zip(*(plan.trials.columns()[name].tolist() for name in names), strict=True))


def trials_from(plan: Plan) -> Ids:
    paired = plan.trial_type == PAIRED
    return np.bincount(np.append(plan.first[paired], plan.second[paired]), minlength=plan.n_agents).astype(np.int32)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_sample_contains_trials_of_the_plan_with_all_agents_equally_often(design: str) -> None:
    options: PlanOptions = {"holdout": 0.0, "design": design, **DESIGNS[design]}
    plan = make_plan(POOL, seed=1, **options)
    part = subsample(plan, calls=200, seed=3)
    assert len(part) == 200
    assert rows(part) <= rows(plan)
    assert len(rows(part)) == 200
    assert np.ptp(trials_from(part)) <= 2
    assert part.independent == "pooled"
    assert part.pool_digest == POOL.digest
    assert 0 < part.characters < plan.characters
    again = subsample(plan, calls=200, seed=3)
    assert again.digest == part.digest
    assert subsample(plan, calls=200, seed=4).digest != part.digest


def test_complete_blocks_of_different_items_are_sampled_with_independent_trials() -> None:
    plan = make_plan(POOL, design="cyclic", calls=1000, seed=1)
    part = subsample(plan, calls=207)
    paired = part.trial_type == PAIRED
    assert (np.bincount(part.block[paired])[np.unique(part.block[paired])] == 10).all()
    assert len(np.unique(part.item[paired])) == len(np.unique(part.block[paired])) == 18
    assert (part.trial_type == INDEPENDENT).sum() == 27


def test_all_trials_are_sampled_if_all_are_requested() -> None:
    plan = make_plan(POOL, design="cyclic", calls=400, seed=1)
    for part in (subsample(plan), subsample(plan, calls=len(plan))):
        assert len(part) == len(plan) - int((plan.role == PROBE).sum())
        assert np.array_equal(part.block, plan.block[plan.role != PROBE])


def test_held_out_cells_are_never_sampled() -> None:
    for design in ("cyclic", "dense"):
        plan = make_plan(POOL, design=design, holdout=0.2, seed=1)
        part = subsample(plan, calls=300)
        other_item = np.where(part.trial_type == PAIRED, part.item, part.other_item)
        assert not plan.split.holdout[part.first, part.item].any()
        assert not plan.split.holdout[part.second, other_item].any()
        assert not part.split.holdout.any()
        assert np.array_equal(part.split.train, plan.split.train)


def test_probes_are_not_sampled() -> None:
    plan = make_plan(POOL, design="cyclic", calls=1000, seed=1)
    first = np.flatnonzero(plan.trial_type == INDEPENDENT)[:20]
    role = plan.role.copy()
    role[first] = PROBE
    marked = replace(plan, trials=replace(plan.trials, role=role))
    probes = rows(replace(plan, trials=plan.trials.take(first)))
    assert not rows(subsample(marked)) & probes


def test_blocks_without_some_agents_are_not_treated_as_complete() -> None:
    plan = make_plan(POOL, design="cyclic", calls=1000, seed=1)
    cut = np.flatnonzero((plan.block != 3) | (plan.first != 2))
    plan = replace(plan, trials=plan.trials.take(cut))
    part = subsample(plan, calls=200)
    assert (part.block == -1).all()
    assert np.ptp(trials_from(part)) <= 2


@pytest.mark.parametrize(("calls", "slug"), [(1001, "subsample-calls"), (20, "subsample-few")])
def test_a_sample_larger_than_the_plan_or_too_small_is_refused(calls: int, slug: str) -> None:
    plan = make_plan(POOL, design="cyclic", calls=1000, seed=1)
    with pytest.raises(PlanError) as caught:
        subsample(plan, calls=calls)
    assert caught.value.slug == slug
