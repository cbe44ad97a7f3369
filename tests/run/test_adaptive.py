"""Adaptive rounds: deterministic, within budget, unbiased for whoever was asked more, stopped by rules valid at every look."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pools import answer_with, make_pool
from worlds import dense_world, verdicts
from youden.data.folder.run_config import RunConfig
from youden.data.pools.pool_reader import write_pool
from youden.errors import PlanError, StatisticsError
from youden.nouns import INDEPENDENT, PAIRED, Plan, Rounds, Verdicts
from youden.protocol.plan import make_plan
from youden.run.estimators import adaptive_means, standing_of
from youden.run.pipeline import fit_run, judge_run, plan_run
from youden.run.rounds import run_rounds
from youden.stats.trials.slot_means import trial_mean, weighted_mean
from youden.study.replaying import World, replay


@pytest.fixture(scope="module")
def world() -> World:
    return dense_world(8, 40)


def carried(world: World, *, seed: int = 0, percent: float = 30, **options: object) -> Verdicts:
    plan = make_plan(world.pool, design="adaptive", percent=percent, n_independent=16, seed=seed, options=options)
    return run_rounds(plan, world.pool, partial(replay, world=world))


@given(st.integers(0, 1000), st.sampled_from([10.0, 30.0, 60.0]))
@settings(max_examples=6, deadline=None)
def test_rounds_keep_the_budget_ask_nothing_twice_and_repeat_themselves(seed: int, percent: float) -> None:
    world = dense_world(8, 40)
    result = carried(world, seed=seed, percent=percent)
    plan = result.plan
    assert len(plan) <= percent / 100 * plan.n_dense_calls
    assert len(plan) > 0.85 * min(percent / 100, 0.5) * plan.n_dense_calls
    paired = plan.arm == PAIRED
    rows = np.stack([plan.item, plan.first, plan.second])[:, paired]
    assert len(np.unique(rows, axis=1).T) == paired.sum()
    assert (plan.arm == INDEPENDENT).sum() == 16
    assert carried(world, seed=seed, percent=percent).plan.digest == plan.digest


def test_only_pairs_with_an_active_agent_are_asked(world: World) -> None:
    plan = carried(world, active=0.3).plan
    turns = plan.rounds
    assert turns is not None
    assert len(turns.starts) == 7
    assert turns.active[0].all()
    assert set(turns.active[1:].sum(axis=1)) == {3}
    for start, end, active in zip(turns.starts, [*turns.starts[1:], 10**6], turns.active, strict=True):
        rows = (plan.slot >= start) & (plan.slot < end)
        assert (active[plan.first[rows]] | active[plan.second[rows]]).all()


def test_weights_are_one_over_the_share_of_slots_that_would_have_asked_the_pair() -> None:
    active = np.array([[True] * 4, [True, False, False, False]])
    turns = Rounds(None, (0, 10), active)
    assert turns.weights(np.array([0, 1]), np.array([1, 2]), n_slots=40).tolist() == [1.0, 4.0]


def test_complete_slots_of_equal_weight_give_the_trial_mean() -> None:
    result = verdicts(make_pool(7, 30), design="cyclic", percent=30)
    plan = result.plan
    used = plan.slot >= 0
    columns = plan.first[used], plan.second[used], plan.slot[used], result.answer[used]
    plain = trial_mean(*columns, n_agents=7)
    ones = np.ones(used.sum())
    ours = weighted_mean(*columns, weight=ones, turn=np.zeros(len(ones)).astype(int), asks=ones[None] > 0, n_agents=7)
    np.testing.assert_allclose(ours.mean, plain.mean, atol=1e-9)
    assert ours.n_trials.tolist() == plain.n_trials.tolist()


@pytest.mark.slow
def test_a_pair_that_agents_prefer_does_not_move_means_when_only_unsure_agents_are_asked() -> None:
    """Agents 0 and 1 favour each other; asked often as partners, unweighted they would look better than they are."""
    world = dense_world(8, 120)
    biased = world.paired.copy()
    biased[:, [0, 1], [1, 0]] = 1.0
    world = World(biased, world.independent, world.pool, world.rates, world.groups)
    truth = np.nanmean(np.concatenate([biased, biased.transpose(0, 2, 1)], axis=2), axis=(0, 2))
    gaps = []
    for seed in range(20):
        result = carried(world, seed=seed, percent=12, active=0.3)
        ability = adaptive_means(result).ability
        gaps.append(ability - ability.mean() - truth + truth.mean())
    assert np.abs(np.mean(gaps, axis=0)).max() < 0.02


def test_two_good_agents_that_are_not_twice_as_good_do_not_move_those_asked_more() -> None:
    """Two of the upper half reach the answer of one: pairs of a round answer less than abilities add up to, whatever the slot."""
    world = dense_world(10, 150)
    strength = np.linspace(0.9, 0.0, 10)
    limited = np.broadcast_to(np.minimum(strength[:, None] + strength, 0.9), world.paired.shape).copy()
    limited[np.isnan(world.paired)] = np.nan
    world = World(limited, world.independent, world.pool, world.rates, world.groups)
    truth = np.nanmean(np.concatenate([limited, limited.transpose(0, 2, 1)], axis=2), axis=(0, 2))
    result = carried(world, percent=30, rounds=1)
    rounds = result.plan.rounds
    assert rounds is not None
    often = rounds.active[-1]
    assert 0 < often.sum() < 10
    off = adaptive_means(result).ability - truth
    assert abs(off[often].mean() - off[~often].mean()) < 0.004


def test_rules_stop_early_and_say_so(world: World) -> None:
    whole = carried(world, percent=60)
    narrow = carried(world, percent=60, width=0.2)
    separated = carried(world, percent=60, top=4)
    assert len(narrow) < len(whole)
    assert len(separated) < len(whole)
    assert "narrow as asked" in narrow.plan.notes[-1]
    assert "separated" in separated.plan.notes[-1]
    assert whole.plan.notes[-1].endswith("the budget is spent")
    short = carried(world, percent=5, top=4)
    assert short.plan.notes[-1].endswith("spent before the top 4 were told apart from the rest, all looks together")
    means = adaptive_means(narrow)
    assert (means.high - means.low).max() / 2 <= 0.2


@pytest.mark.slow
def test_truly_tied_agents_are_hardly_ever_called_separated() -> None:
    """Agents 2 and 3 of 8 are equal: 'the top 3 are separated' is an error whenever it is said."""
    pool = make_pool(8, 60)
    ability = np.array([0.4, 0.35, 0.0, 0.0, -0.2, -0.25, -0.3, -0.35])
    wrong = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mean = 0.5 + (ability[:, None] + ability) / 2
        paired = (rng.random((60, 8, 8)) < mean).astype(float)
        paired[:, np.arange(8), np.arange(8)] = np.nan

        def ask(plan: Plan, paired: np.ndarray = paired) -> Verdicts:
            answer = np.where(plan.arm == PAIRED, paired[plan.item, plan.first, plan.second], 0.0)
            return Verdicts(plan, answer, answer, np.zeros(len(plan), dtype=np.int8), {"name": "tied"})

        plan = make_plan(pool, design="adaptive", percent=20, n_independent=0, seed=seed, options={"top": 3})
        wrong += "separated" in run_rounds(plan, pool, ask).plan.notes[-1]
    assert wrong <= 3


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ({"pilot": 0}, "design-option"),
        ({"rounds": 0}, "design-option"),
        ({"active": 1.5}, "design-option"),
        ({"top": 8}, "design-option"),
        ({"width": -1}, "design-option"),
        ({"pilot": 0.01}, "budget-adaptive"),
    ],
)
def test_what_cannot_be_planned_is_refused(world: World, options: dict[str, float], slug: str) -> None:
    with pytest.raises(PlanError) as caught:
        carried(world, **options)
    assert caught.value.slug == slug


def test_two_agents_have_no_standing() -> None:
    one = np.array([0, 1], dtype=np.int32)
    with pytest.raises(StatisticsError):
        weighted_mean(
            one, 1 - one, one, np.ones(2), weight=np.ones(2), turn=0 * one, asks=np.ones((1, 2), dtype=bool), n_agents=2
        )


def test_a_round_whose_slots_hold_no_unsure_agent_ends_the_run() -> None:
    present = np.arange(8)[:, None] // 4 == np.arange(20) // 10
    pool = make_pool(8, 20, present=present)

    def answered(plan: Plan) -> Verdicts:
        return answer_with(plan, ((plan.first * 7 + plan.second + plan.item) % 3 == 0).astype(float))

    for seed in range(6):
        result = run_rounds(make_plan(pool, design="adaptive", percent=40, seed=seed), pool, answered)
        assert "the budget is spent" in result.plan.notes[-1]


def test_any_other_plan_is_asked_once(world: World) -> None:
    asked: list[Plan] = []

    def ask(plan: Plan) -> Verdicts:
        asked.append(plan)
        return replay(plan, world)

    plan = make_plan(world.pool, design="cyclic", percent=20)
    assert plan.rounds is None
    assert run_rounds(plan, world.pool, ask).plan is plan
    assert len(asked) == 1
    assert not np.isnan(standing_of(ask(plan)).ability).any()


def test_a_run_is_carried_to_its_end_and_resumes(tmp_path: Path) -> None:
    write_pool(make_pool(6, 30), tmp_path / "pool")
    config = RunConfig(
        name="a",
        pool=str(tmp_path / "pool"),
        design="adaptive",
        percent=40,
        n_independent=10,
        out=str(tmp_path / "run"),
    )
    planned = plan_run(config)
    result = judge_run(planned)
    assert len(result.plan) > len(planned.plan)
    assert fit_run(planned.folder).facts.interval.startswith("weighted trials")
    again = judge_run(plan_run(config))
    assert again.plan.digest == result.plan.digest
