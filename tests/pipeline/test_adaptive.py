"""Test searches for the best agents in rounds: determinism, budgets, unbiased abilities and stopping rules."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrowing import not_none
from plan_options import PlanOptions
from small_pools import answer_with, make_pool
from worlds import dense_world
from youden import make_plan
from youden.data.folder.run_config import RunConfig
from youden.data.pools.pool_reader import write_pool
from youden.errors import PlanError
from youden.pipeline.abilities import SearchState
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.interim_analyses import analyze_extended_run
from youden.pipeline.judged_run import judge_run, plan_run
from youden.pipeline.ranking import estimate_abilities, rank
from youden.pipeline.rounds import run_rounds
from youden.protocol.designs.adaptive import get_adaptive_design
from youden.study.replaying import RecordedAnswers, replay
from youden.types import INDEPENDENT, PAIRED, Plan, Verdicts
from youden.types.pool import Bools, Json


@pytest.fixture(scope="module")
def recorded_8_by_40() -> RecordedAnswers:
    return dense_world(8, 40)


def carried(world: RecordedAnswers, *, seed: int = 0, calls: str = "30%", **options: Json) -> Verdicts:
    plan = make_plan(world.pool, design="adaptive", calls=calls, seed=seed, options=options)
    return run_rounds(plan, partial(replay, recorded=world))


def test_rounds_stop_by_the_variance_between_judges_if_the_target_includes_them(
    recorded_8_by_40: RecordedAnswers,
) -> None:
    result = carried(recorded_8_by_40)
    concerns_first_agent = (result.plan.first == 0) | (result.plan.second == 0)
    bias = np.array([-0.3, 0.0, 0.3])[:, None] * concerns_first_agent  # judges differ in how they rate this agent
    of_a_jury = replace(result, votes=np.clip(result.answer + bias, 0, 1))
    with_judges, with_one_judge = (
        estimate_abilities(of_a_jury, target=target).covariance.std_error
        for target in ("items-and-judges", "items-like-these")
    )
    assert with_judges[0] > 2 * with_one_judge[0]
    ranking = rank(of_a_jury, target="items-and-judges").set_index("agent").loc[list(result.plan.agent_ids)]
    assert with_judges == pytest.approx(ranking["std_error"].to_numpy())
    bound_with_one_judge = rank(of_a_jury).attrs["choice"].regret_bound
    assert rank(of_a_jury, target="items-and-judges").attrs["choice"].regret_bound > 2 * bound_with_one_judge


@pytest.mark.parametrize(("pairs", "n_possible"), [("ordered", 360), ("unordered", 180)])
def test_the_budget_of_a_search_is_at_most_the_number_of_possible_comparisons(pairs: str, n_possible: int) -> None:
    plan = make_plan(make_pool(6, 12), design="adaptive", calls=400, options={"pairs": pairs})
    assert get_adaptive_design(plan).budget(plan.split.train) == n_possible
    assert (plan.trial_type == PAIRED).sum() <= n_possible / 2


@pytest.mark.parametrize(
    "options", [{"design": "adaptive"}, {"design": "fixed-width", "options": {"half_width": 0.05}}]
)
def test_each_paired_trial_of_a_round_has_an_independent_one_if_they_are_matched(options: PlanOptions) -> None:
    plan = make_plan(make_pool(8, 40), **(options | {"calls": 900, "independent": "matched"}))
    uniform = np.random.default_rng(0).random((40, 8, 8))

    def judge_by_ability(plan: Plan) -> Verdicts:
        is_yes = uniform[plan.item, plan.first, plan.second] < 0.4 + 0.01 * (plan.first + plan.second)
        return answer_with(plan, np.where(plan.trial_type == PAIRED, is_yes, 0.1))

    result = run_rounds(plan, judge_by_ability)
    trials = result.plan.trials
    columns = np.column_stack([trials.step, trials.item, trials.first, trials.second, trials.weight_first])
    is_paired = trials.trial_type == PAIRED
    assert trials.step.max() > 0
    assert sorted(columns[is_paired].tolist()) == sorted(columns[~is_paired].tolist())
    assert len(result) > 0.9 * 900


@given(st.integers(0, 1000), st.sampled_from([10.0, 30.0, 60.0]))
@settings(max_examples=3, deadline=None)
def test_rounds_respect_the_budget_repeat_no_trial_and_are_deterministic(seed: int, percent: float) -> None:
    world = dense_world(8, 40)
    result = carried(world, seed=seed, calls=f"{percent}%")
    plan = result.plan
    assert len(plan) <= percent / 100 * plan.n_dense_calls
    if "the budget is spent" in plan.notes[-1]:
        assert len(plan) > 0.85 * min(percent / 100, 0.3) * plan.n_dense_calls
    paired = plan.trial_type == PAIRED
    rows = np.stack([plan.item, plan.first, plan.second])[:, paired]
    assert len(np.unique(rows, axis=1).T) == paired.sum()
    independent = plan.trial_type == INDEPENDENT
    cells = np.stack([plan.item, plan.first, plan.second, plan.other_item])[:, independent]
    assert len(np.unique(cells, axis=1).T) == independent.sum()
    n_paired = not_none(not_none(plan.rounds).n_paired)
    assert independent.sum() > 0.9 * (not_none(plan.request.budget) - n_paired) * paired.sum() / n_paired
    assert carried(world, seed=seed, calls=f"{percent}%").plan.digest == plan.digest


@pytest.mark.parametrize(("top", "last"), [(1, 2), (3, 4)])
def test_fewer_contenders_remain_and_each_block_gives_them_the_same_partner_and_item(
    recorded_8_by_40: RecordedAnswers, top: int, last: int
) -> None:
    plan = carried(recorded_8_by_40, top=top, calls="20%").plan
    turns = not_none(plan.rounds)
    assert len(turns.starts) == 6
    assert turns.active[0].all()
    sizes = turns.active.sum(axis=1)
    assert (np.diff(sizes) <= 0).all()
    assert sizes[-1] == last
    for block in np.unique(plan.block[plan.block >= turns.starts[1]]):
        rows = plan.block == block
        active = turns.active[plan.trials.step[rows][0]]
        tells_first, tells_second = (
            column[rows] > 0 for column in (plan.trials.weight_first, plan.trials.weight_second)
        )
        assert (tells_first ^ tells_second).all()
        assert len(set(tells_first)) == len(set(plan.item[rows])) == 1
        mine, their_side = (plan.first, plan.second) if tells_first.all() else (plan.second, plan.first)
        assert len(set(their_side[rows])) == 1
        assert active[mine[rows]].all()
        assert rows.sum() >= 2


def test_rounds_share_the_budget_that_remains_after_the_pilot(recorded_8_by_40: RecordedAnswers) -> None:
    plan = carried(recorded_8_by_40, calls="20%").plan
    sizes = np.bincount(plan.trials.step[plan.block >= 0])
    assert sizes[0] / sizes.sum() == pytest.approx(0.25, abs=0.02)
    assert sizes[1:] / sizes.sum() == pytest.approx(np.full(5, 0.15), abs=0.02)


@pytest.mark.parametrize(
    ("options", "blocks"),
    [
        ({"calls": "16%"}, 24),
        ({"calls": "8%"}, 20),
        ({"calls": "16%", "pilot": 0.1}, 8),
        ({"calls": "16%", "pilot": 0.6}, 49),
        ({"calls": "16%", "pilot": 0.1, "max_regret": 0.1}, 8),
        ({"calls": "40%", "pilot": 0.4, "max_regret": 0.1}, 82),
    ],
)
def test_a_pilot_has_24_blocks_or_half_of_the_budget_or_the_configured_number(
    recorded_8_by_40: RecordedAnswers, options: dict[str, Any], blocks: int
) -> None:
    plan = carried(recorded_8_by_40, **options).plan
    sizes = np.bincount(plan.trials.step[plan.block >= 0])
    assert sizes[0] == 8 * blocks
    assert "max_regret" in options or sizes[1:].max() <= 8 + (sizes.sum() - sizes[0]) / 5


def test_each_pair_is_planned_in_one_order_if_configured(recorded_8_by_40: RecordedAnswers) -> None:
    plan = carried(recorded_8_by_40, calls="30%", pairs="unordered").plan
    paired = plan.block >= 0
    low, high = np.minimum(plan.first, plan.second), np.maximum(plan.first, plan.second)
    rows = np.stack([plan.item, low, high])[:, paired]
    assert len(np.unique(rows, axis=1).T) == paired.sum()


@pytest.mark.slow
def test_mutually_preferred_agents_are_not_biased_by_few_trials() -> None:
    """Agents 0 and 1 favor each other; frequent trials of this pair would bias their abilities upwards."""
    world = dense_world(8, 120)
    biased = world.paired.copy()
    biased[:, [0, 1], [1, 0]] = 1.0
    world = RecordedAnswers(biased, world.independent, world.pool, world.rates, world.groups)
    truth = np.nanmean(np.concatenate([biased, biased.transpose(0, 2, 1)], axis=2), axis=(0, 2))
    gaps = []
    for seed in range(20):
        result = carried(world, seed=seed, calls="12%")
        ability = estimate_abilities(result).ability
        gaps.append(ability - ability.mean() - truth + truth.mean())
    assert np.abs(np.mean(gaps, axis=0)).max() < 0.02


def test_a_ceiling_on_pairs_of_good_agents_does_not_bias_agents_with_more_trials() -> None:
    """The answer of a pair of good agents is limited to .9, less than the sum of their abilities."""
    world = dense_world(10, 150)
    strength = np.linspace(0.9, 0.0, 10)
    limited = np.broadcast_to(np.minimum(strength[:, None] + strength, 0.9), world.paired.shape).copy()
    limited[np.isnan(world.paired)] = np.nan
    world = RecordedAnswers(limited, world.independent, world.pool, world.rates, world.groups)
    truth = np.nanmean(np.concatenate([limited, limited.transpose(0, 2, 1)], axis=2), axis=(0, 2))
    result = carried(world, calls="30%")
    rounds = not_none(result.plan.rounds)
    often = rounds.active[2]
    assert 0 < often.sum() < 10
    off = estimate_abilities(result).ability - truth
    assert abs(off[often].mean() - off[~often].mean()) < 0.01


def test_stopping_rules_end_a_search_early_and_state_the_reason(recorded_8_by_40: RecordedAnswers) -> None:
    complete = carried(recorded_8_by_40, calls="60%")
    near = carried(recorded_8_by_40, calls="60%", max_regret=0.2)
    assert len(near) < len(complete)
    assert "the regret bound of the selected agents is small enough" in near.plan.notes[-1]
    assert complete.plan.notes[-1].endswith(
        "spent before the selected agent was significantly better than all others, over all interim analyses"
    )
    short = carried(recorded_8_by_40, calls="5%", top=4, max_regret=0.01)
    assert short.plan.notes[-1].endswith(
        "before the 4 selected agents were known to be within 0.01 of the best, over all interim analyses"
    )


@pytest.mark.slow
def test_equal_agents_are_rarely_called_significantly_different() -> None:
    """Agents 2 and 3 of 8 are equal, so that a significant top 3 is always an error."""
    pool = make_pool(8, 60)
    ability = np.array([0.4, 0.35, 0.0, 0.0, -0.2, -0.25, -0.3, -0.35])
    wrong = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mean = 0.5 + (ability[:, None] + ability) / 2
        paired = (rng.random((60, 8, 8)) < mean).astype(float)
        paired[:, np.arange(8), np.arange(8)] = np.nan

        def ask(plan: Plan, paired: np.ndarray = paired) -> Verdicts:
            answer = np.where(plan.trial_type == PAIRED, paired[plan.item, plan.first, plan.second], 0.0)
            return Verdicts(plan, answer, answer, np.zeros(len(plan), dtype=np.int8), {"name": "tied"})

        plan = make_plan(pool, design="adaptive", calls="20%", independent="pooled:0", seed=seed, options={"top": 3})
        wrong += "small enough" in run_rounds(plan, ask).plan.notes[-1]
    assert wrong <= 3


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ({"pilot": 0}, "design-option"),
        ({"rounds": 0}, "design-option"),
        ({"top": 8}, "design-option"),
        ({"max_regret": -1}, "design-option"),
        ({"active": 0.5}, "design-option"),
        ({"calls": "1%"}, "budget-adaptive"),
    ],
)
def test_an_impossible_search_is_refused(recorded_8_by_40: RecordedAnswers, options: dict[str, Any], slug: str) -> None:
    with pytest.raises(PlanError, match=rf"\[{slug}\]"):
        carried(recorded_8_by_40, **options)


def test_agents_that_share_no_item_end_the_run() -> None:
    present = np.arange(8)[:, None] // 4 == np.arange(20) // 10
    pool = make_pool(8, 20, present=present)

    def answered(plan: Plan) -> Verdicts:
        says_yes = (plan.trial_type == PAIRED) & ((plan.first * 7 + plan.second + plan.item) % 3 == 0)
        return answer_with(plan, says_yes.astype(float))

    for seed in range(2):
        result = run_rounds(make_plan(pool, design="adaptive", calls="40%", seed=seed), answered)
        assert "the budget is spent" in result.plan.notes[-1]


def test_other_designs_are_planned_in_one_round(recorded_8_by_40: RecordedAnswers) -> None:
    requests: list[Plan] = []

    def ask(plan: Plan) -> Verdicts:
        requests.append(plan)
        return replay(plan, recorded_8_by_40)

    plan = make_plan(recorded_8_by_40.pool, design="cyclic", calls="20%")
    assert plan.rounds is None
    assert run_rounds(plan, ask).plan is plan
    assert len(requests) == 1
    assert not np.isnan(estimate_abilities(ask(plan)).ability).any()


def test_a_search_runs_to_its_end_and_resumes(tmp_path: Path) -> None:
    write_pool(make_pool(6, 30), tmp_path / "pool")
    config = RunConfig.model_validate(
        {
            "name": "a",
            "pool": str(tmp_path / "pool"),
            "design": "adaptive",
            "calls": "40%",
            "independent": "pooled:10",
            "out": str(tmp_path / "run"),
        }
    )
    planned = plan_run(config)
    result = judge_run(planned)
    assert len(result.plan) > len(planned.plan)
    assert fit_run(planned.folder).facts.interval.startswith("additive fit of trials")
    again = judge_run(plan_run(config))
    assert again.plan.digest == result.plan.digest


def test_saved_upper_bounds_give_the_result_of_repeating_all_interim_analyses(
    recorded_8_by_40: RecordedAnswers,
) -> None:
    """The rounds of the run store the bounds; its files alone must give the same result."""
    requests: list[Verdicts] = []

    def ask(plan: Plan) -> Verdicts:
        requests.append(replay(plan, recorded=recorded_8_by_40))
        return requests[-1]

    run_rounds(make_plan(recorded_8_by_40.pool, design="adaptive", calls="60%", options={"max_regret": 0.05}), ask)
    assert len(requests) >= 3
    previous: SearchState | None = None
    for n, part in enumerate(requests):
        kept, anew = (estimate_abilities(part, previous_search=case) for case in (previous, None))
        previous, before, repeated = kept.search, not_none(kept.search), not_none(anew.search)
        assert len(before.analyses) == n + 1
        np.testing.assert_array_equal(before.analyses[-1].upper_bounds, repeated.analyses[-1].upper_bounds)
        np.testing.assert_array_equal(kept.covariance.covariance, anew.covariance.covariance)
        assert before.analyses[-1].alpha_spent == repeated.analyses[-1].alpha_spent <= 1 + 1e-9


def answer_from(plan: Plan, *, says: Bools) -> Verdicts:
    return answer_with(plan, ((plan.trial_type == PAIRED) & says[plan.item, plan.first, plan.second]).astype(float))


@pytest.mark.slow
def test_adaptive_sampling_bias_is_corrected_without_changing_the_selection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All agents are equal: those that remain in the last round had random leads before."""
    pool, lead = make_pool(10, 30), []
    for seed in range(4):
        plan = make_plan(pool, design="adaptive", calls="20%", independent="pooled:16", seed=seed, options={"top": 1})
        says = np.random.default_rng(seed).random((30, 10, 10)) < 0.5
        result = run_rounds(plan, partial(answer_from, says=says))
        asked = result.plan.rounds.active[-1] if result.plan.rounds else np.ones(10, dtype=np.bool_)
        of_all = {}
        for share in (0.0, 0.5):
            monkeypatch.setattr("youden.pipeline.interim_analyses.BIAS_FRACTION", share)
            of_all[share] = estimate_abilities(result).ability
        assert of_all[0.5].argmax() == of_all[0.0].argmax()
        lead.append([of[asked].mean() - of[~asked].mean() for of in of_all.values()])
    with_luck, less = np.mean(lead, axis=0)
    assert 0 < less < 0.9 * with_luck


def test_a_maximum_regret_of_zero_leaves_alpha_for_later_analyses() -> None:
    plan = make_plan(make_pool(5, 12), calls=300)
    answer = (np.random.default_rng(0).random(len(plan)) < 0.5).astype(float)
    abilities = estimate_abilities(answer_with(plan, answer))
    spent = [analyze_extended_run(abilities, top=1, max_regret=x).alpha_spent for x in (0.0, 1e-9, None)]
    assert spent[0] == spent[1] < spent[2] == 1
