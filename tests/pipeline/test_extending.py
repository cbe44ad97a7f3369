"""Test that an extended plan keeps its trials, repeats none, and keeps the abilities of the first agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Unpack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrowing import not_none
from plan_options import SeededPlanOptions
from small_pools import answer_with, make_pool, part_of, starts_with
from worlds import analyzed
from youden import make_plan, rank
from youden.engines.trial_blocks import TrialsByItem
from youden.errors import PlanError
from youden.pipeline.abilities import Abilities
from youden.pipeline.extension_facts import compute_extension_facts, describe_extension
from youden.pipeline.linked_abilities import fit_scale, link_agents
from youden.pipeline.ranking import estimate_abilities, estimate_anchor_abilities, trial_abilities_from_verdicts
from youden.protocol.blocks import get_extensions, plan_after_extensions, restrict_to_anchors
from youden.protocol.extension import add_agents, add_calls, add_items, draw_anchor_trials
from youden.protocol.independent import select_trials
from youden.stats.trials.anchored import effect_scale
from youden.types import INDEPENDENT, PAIRED, Plan, Verdicts
from youden.types.facts import ExtensionFacts
from youden.types.pool import Floats
from youden.types.trials import ANCHOR, PROBE

K, J = 8, 20


WHOLE = make_pool(K + 4, J + 6)
OLD = part_of(WHOLE, slice(K), slice(J))
MORE_AGENTS = part_of(WHOLE, slice(K + 3), slice(J))
MORE_ITEMS = part_of(WHOLE, slice(K + 3))


def first_plan(**options: Unpack[SeededPlanOptions]) -> Plan:
    arguments: SeededPlanOptions = {"design": "cyclic", "calls": 260, "seed": 3, **options}
    return make_plan(OLD, **arguments)


def answers(plan: Plan, *, ability: Floats | None = None, noise: float = 0.3, level: float = 0.0) -> Verdicts:
    """Answer paired trials by .5 + (a_i + a_k)/2 + noise, equal for equal trials of any plan."""
    ability = np.linspace(0.3, -0.3, K + 4) if ability is None else ability
    mean = 0.5 + (ability[plan.first] + ability[plan.second]) / 2 + level
    rng = np.random.default_rng(0)
    table = rng.standard_normal((J + 6, K + 4, K + 4))
    value = np.where(plan.trial_type == PAIRED, mean + noise * table[plan.item, plan.first, plan.second], 0.02)
    return answer_with(plan, np.clip(value, 0, 1))


def comparisons(plan: Plan) -> list[tuple[int, ...]]:
    rows = plan.trial_type == PAIRED
    return list(zip(plan.item[rows].tolist(), plan.first[rows].tolist(), plan.second[rows].tolist(), strict=True))


def grown(plan: Plan) -> Plan:
    plan = add_agents(plan, MORE_AGENTS, calls=180)
    plan = add_items(plan, MORE_ITEMS, calls=120)
    plan = add_calls(plan, calls=100)
    return add_calls(plan, calls=40, focus=(2, K + 1))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), pairs=st.sampled_from(["ordered", "unordered"]))
def test_every_step_keeps_earlier_rows_and_repeats_no_comparison(seed: int, pairs: str) -> None:
    plan = make_plan(OLD, design="cyclic", calls=200, seed=seed, options={"pairs": pairs}, independent="pooled:40")
    later = grown(plan)
    assert starts_with(later.trials, plan.trials)
    compared = comparisons(later)
    assert len(set(compared)) == len(compared)
    if pairs == "unordered":
        assert len({(item, *sorted(pair)) for item, *pair in compared}) == len(compared)
    assert (later.first != later.second).all()
    assert not later.replicate[later.trial_type == PAIRED].any()


def test_joining_agents_are_compared_with_every_anchor_evenly_in_both_orders() -> None:
    plan = add_agents(first_plan(), MORE_AGENTS, calls=3 * 2 * 16 + 9)
    beside = (plan.trial_type == PAIRED) & (plan.role == ANCHOR)
    for agent in range(K, K + 3):
        as_first, as_second = beside & (plan.first == agent), beside & (plan.second == agent)
        assert as_first.sum() == as_second.sum() == 16
        met = np.bincount(np.append(plan.second[as_first], plan.first[as_second]), minlength=K)
        assert met[:K].min() >= 2
        assert met[:K].max() <= 6
        assert met[K:].sum() == 0
    apart = (plan.trial_type == INDEPENDENT) & (np.maximum(plan.first, plan.second) >= K)
    assert apart.sum() == 9
    assert (plan.item[apart] != plan.other_item[apart]).all()


def test_further_calls_are_the_blocks_that_a_larger_budget_would_have_drawn() -> None:
    small, large = (
        first_plan(calls=200, independent="pooled:40"),
        first_plan(calls=200 + 5 * K, independent="pooled:40"),
    )
    extended = add_calls(small, calls=5 * K)
    assert set(comparisons(extended)) == set(comparisons(large))
    assert np.array_equal(
        ranked(answers(extended)).ability.round(12),
        ranked(answers(large)).ability.round(12),
    )


def ranked(result: Verdicts) -> Abilities:
    return not_none(trial_abilities_from_verdicts(result))


@pytest.mark.parametrize("design", ["cyclic", "dense", "nlogn"])
def test_abilities_and_intervals_of_the_first_agents_are_unchanged_if_others_join(design: str) -> None:
    plan = make_plan(OLD, design=design, seed=1, calls=260 if design == "cyclic" else None)
    later = add_agents(plan, MORE_AGENTS)
    before = analyzed(answers(plan)).ranking.set_index("agent")
    after = analyzed(answers(later)).ranking.set_index("agent")
    for column in ("ability", "low", "high"):
        assert after.loc[before.index, column].tolist() == pytest.approx(before[column].tolist(), abs=1e-12), column
    joined = after.loc[["a8", "a9", "a10"]]
    assert (joined.low < joined.ability).all()
    assert (joined.ability < joined.high).all()


def test_without_noise_a_joining_agent_gets_the_ability_of_an_equal_one() -> None:
    ability = np.array([0.3, 0.2, 0.1, 0.0, -0.1, -0.2, -0.3, -0.1, 0.3, -0.1, -0.3, 0.0])
    balanced = first_plan(calls=100 + 3 * (K - 1) * K, independent="pooled:100")
    result = ranked(answers(add_agents(balanced, MORE_AGENTS), ability=ability, noise=0.0))
    for joined, equal in ((K, 0), (K + 1, 4), (K + 2, 6)):
        assert result.mean_answer[joined] == pytest.approx(result.mean_answer[equal], abs=1e-9)
        assert result.ability[joined] == pytest.approx(result.ability[equal], abs=0.01)
    alone = ranked(answers(balanced, ability=ability[:K], noise=0.0)).covariance.std_error
    assert result.covariance.std_error[K:].max() == pytest.approx(alone.max(), rel=0.3)


def test_the_linked_mean_equals_a_naive_mean_residual() -> None:
    result = answers(add_agents(first_plan(), MORE_AGENTS))
    plan, actual = result.plan, ranked(result)
    trials = TrialsByItem.from_verdicts(result)
    anchors = estimate_anchor_abilities(trials)
    scale = fit_scale(trials, anchors)
    rows = [
        t for t in range(len(plan)) if plan.trial_type[t] == PAIRED and K in (int(plan.first[t]), int(plan.second[t]))
    ]
    partner = [int(plan.second[t] if plan.first[t] == K else plan.first[t]) for t in rows]
    residual = [
        result.answer[t] - scale.center - scale.effect[k] - scale.item_effect[plan.item[t]]
        for t, k in zip(rows, partner, strict=True)
    ]
    assert actual.mean_answer[K] == pytest.approx(scale.center + effect_scale(K) * np.mean(residual), abs=1e-12)
    assert actual.n_trials[K] == len(rows)


@pytest.mark.long
def test_intervals_of_joining_agents_cover_and_include_the_linking_error() -> None:
    covered, linked = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        ability, item = rng.normal(0, 0.1, K + 4), rng.normal(0, 0.1, J + 6)
        plan = add_agents(first_plan(seed=seed), MORE_AGENTS, calls=3 * 2 * 8 + 38)
        mean = 0.5 + ability[plan.first] + ability[plan.second] + item[plan.item]
        noise = rng.normal(0, 0.2, len(plan))
        result = answer_with(plan, np.where(plan.trial_type == PAIRED, mean + noise, 0.0))
        actual = ranked(result)
        truth = effect_scale(K) * (ability[K : K + 3] - ability[:K].mean()) + actual.ability[:K].mean()
        covered.append((actual.low[K:] <= truth) & (truth <= actual.high[K:]))
        trials = TrialsByItem.from_verdicts(result)
        anchors = estimate_anchor_abilities(trials)
        linked.append(link_agents(trials, anchors, fit_scale(trials, anchors)).linking_variance[K:])
    assert 0.9 <= np.mean(covered) <= 1.0
    assert np.min(linked) > 0


def test_new_items_and_calls_change_abilities_but_not_the_mean_of_the_scale() -> None:
    plan = first_plan()
    later = add_items(plan, part_of(WHOLE, slice(K)))
    hard = answers(later)
    answer = np.where((later.item >= J) & (later.trial_type == PAIRED), hard.answer - 0.4, hard.answer)
    before, after = ranked(answers(plan)), ranked(answer_with(later, answer))
    assert after.ability.mean() == pytest.approx(before.ability.mean(), abs=1e-9)
    assert (after.n_trials > before.n_trials).all()
    assert np.corrcoef(before.ability, after.ability)[0, 1] > 0.95


def test_focus_narrows_only_the_intervals_of_the_named_agents() -> None:
    plan = add_agents(first_plan(), MORE_AGENTS)
    before, after = ranked(answers(plan)), ranked(answers(add_calls(plan, calls=200, focus=(2, K + 1))))
    width = (after.high - after.low) / (before.high - before.low)
    assert width[2] < 0.9
    assert width[K + 1] < 0.9
    others = np.delete(np.arange(K + 3), [2, K + 1])
    assert (width[others] == 1).all()
    assert (after.ability[others] == before.ability[others]).all()


def test_the_plan_before_a_step_has_its_original_digest() -> None:
    plan = first_plan()
    second = add_agents(plan, MORE_AGENTS)
    third = add_calls(second, calls=100)
    for later, earlier in ((second, plan), (third, second)):
        was = plan_after_extensions(later, len(get_extensions(later).steps) - 1)
        assert np.array_equal(was.item, earlier.item)
        assert was.agent_ids == earlier.agent_ids
        assert get_extensions(was) == replace(get_extensions(earlier), pool=get_extensions(was).pool)
        assert was.digest == earlier.digest
    assert restrict_to_anchors(third).n_agents == K


def test_each_trial_records_its_role_its_step_and_the_agents_it_counts_for() -> None:
    plan = add_calls(add_agents(first_plan(), MORE_AGENTS), calls=100, focus=(0, 1))
    of, paired = plan.trials, plan.trial_type == PAIRED
    assert set(of.step.tolist()) == {0, 1, 2}
    assert ((plan.role == ANCHOR) == (of.step > 0)).all()
    assert (of.weight_first[(of.step == 0) & (plan.role != PROBE)] == 1).all()
    for step, scored in ((1, range(K, K + 3)), (2, (0, 1))):
        rows = paired & (of.step == step)
        assert np.array_equal(of.weight_first[rows] > 0, np.isin(plan.first[rows], list(scored)))
        assert np.array_equal(of.weight_second[rows] > 0, np.isin(plan.second[rows], list(scored)))


@pytest.mark.long
def test_planted_drift_is_detected_and_false_alarms_are_rare() -> None:
    false, actual = 0, 0
    for seed in range(40):
        plan = first_plan(seed=seed)
        later = add_calls(plan, calls=240)
        rng = np.random.default_rng(seed)
        noise = rng.normal(0, 0.2, len(later))
        mean = np.where(later.trial_type == PAIRED, 0.5 + noise, 0.0)
        new = np.arange(len(later)) >= len(plan)
        with_a3 = (later.first == 3) | (later.second == 3)
        changed = np.where(new & with_a3 & (later.trial_type == PAIRED), mean - 0.2, mean)
        for answer, planted in ((mean, False), (changed, True)):
            result = answer_with(later, answer)
            facts = not_none(
                compute_extension_facts(TrialsByItem.from_verdicts(result), ranked(result), answers_recomputed=True)
            )
            low = [move.agent for move in facts.agent_changes if move.p_holm is not None and move.p_holm < 0.05]
            actual += planted and "a3" in low
            false += not planted and bool(low)
    assert actual >= 30
    assert false <= 6


def test_a_judge_that_became_more_lenient_is_reported() -> None:
    plan = first_plan()
    later = add_calls(plan, calls=240)
    lax = np.where(np.arange(len(later)) >= len(plan), 0.15, 0.0)
    result = answers(later)
    result = answer_with(later, result.answer + lax)
    facts = not_none(
        compute_extension_facts(TrialsByItem.from_verdicts(result), ranked(result), answers_recomputed=True)
    )
    assert facts.judge_drift == pytest.approx(0.15, abs=0.06)
    assert any("its model may have changed" in line for line in describe_extension(facts))


def test_only_agents_in_focus_change_also_if_intervals_are_for_these_items() -> None:
    later = add_calls(first_plan(independent="pooled:240"), calls=60, focus=(0,))
    result = answers(later)
    is_yes = (
        np.random.default_rng(1).random((K, J)) < np.linspace(0.05, 0.4, K)[:, None]
    )  # the same on all trials of a response
    independent = later.trial_type == INDEPENDENT
    result = answer_with(later, np.where(independent, is_yes[later.first, later.item], result.answer))
    after = estimate_abilities(result, target="these-items")
    facts = not_none(compute_extension_facts(TrialsByItem.from_verdicts(result), after, answers_recomputed=False))
    assert [change.agent for change in facts.agent_changes if change.before != change.after] == ["a0"]


@pytest.mark.parametrize(("p_value", "is_reported"), [(0.049, False), (0.009, True)])
def test_judge_drift_is_reported_at_a_significance_level_of_one_percent(p_value: float, is_reported: bool) -> None:
    facts = ExtensionFacts(
        "calls", 918, (), (), (), judge_drift=-0.027, judge_drift_p=p_value, answers_recomputed=False
    )
    text = " ".join(describe_extension(facts))
    assert ("0.027 less often to the new comparisons than its earlier answers" in text) == is_reported


@pytest.mark.parametrize(
    ("grow", "slug"),
    [
        (lambda: add_agents(first_plan(), MORE_AGENTS, calls=40), "extend-too-few-calls"),
        (lambda: add_calls(first_plan(), calls=7), "extend-too-few-calls"),
        (lambda: add_calls(first_plan(), calls=1, focus=(1,)), "extend-too-few-calls"),
        (lambda: add_calls(make_plan(OLD, design="dense", holdout=0.0), calls=100), "extend-cell-design"),
        (lambda: add_calls(make_plan(OLD, design="dense", holdout=0.0), calls=100, focus=(1,)), "extend-exhausted"),
        (lambda: add_agents(make_plan(OLD, design="adaptive", calls=500), MORE_AGENTS), "extend-adaptive"),
    ],
)
def test_an_impossible_extension_is_refused_with_the_reason(grow: Callable[[], Plan], slug: str) -> None:
    with pytest.raises(PlanError, match=rf"\[{slug}\]"):
        grow()


def test_the_remedy_for_exhausted_agents_to_focus_on_is_not_to_focus() -> None:
    plan = add_calls(first_plan(), calls=100_000, focus=(1,))
    with pytest.raises(
        PlanError, match=r"these agents .* or add calls without agents to focus on\. \[extend-exhausted\]"
    ):
        add_calls(plan, calls=100, focus=(1,))
    assert len(add_calls(plan, calls=100)) > len(plan)


def test_calls_are_limited_to_all_possible_comparisons() -> None:
    plan = add_calls(first_plan(), calls=100_000)
    assert len(set(comparisons(plan))) == K * (K - 1) * J
    with pytest.raises(PlanError, match=r"No comparison is left.*\[extend-exhausted\]"):
        add_calls(first_plan(calls=K * (K - 1) * J, independent="pooled:0"), calls=100)


def simulate(plan: Plan, *, fpr: float) -> Verdicts:
    """Answer yes with probability .5 + (a_i + a_k)/2 in paired trials, and `fpr` in others, equally in equal trials."""
    ability = np.linspace(0.3, -0.3, K + 4)
    uniform = np.random.default_rng(0).random((K + 4, J + 6, K + 4, J + 6))
    probability = 0.5 + (ability[plan.first] + ability[plan.second]) / 2
    probability[plan.trial_type == INDEPENDENT] = fpr
    second_item = np.where(plan.trial_type == INDEPENDENT, plan.other_item, plan.item)
    is_yes = uniform[plan.first, plan.item, plan.second, second_item] < probability
    return answer_with(plan, is_yes.astype(np.float64))


def test_calls_after_all_paired_comparisons_are_independent_and_reach_a_half_width() -> None:
    plan = add_calls(first_plan(), calls=100_000)
    later = plan
    half_widths: list[float] = []
    while not half_widths or half_widths[-1] > 0.04:
        table = rank(simulate(later, fpr=0.2), target="these-items")
        half_widths.append((table.high - table.low).mean() / 2)
        later = add_calls(later, calls=208)
    assert half_widths[0] > 0.07  # only the false-positive rates have errors
    assert len(half_widths) <= 4

    added = later.trials.take(np.arange(len(plan), len(later)))
    assert starts_with(later.trials, plan.trials)
    assert (added.trial_type == INDEPENDENT).all()
    assert len(added) == 208 * len(half_widths)
    assert set(np.bincount(added.first)) == set(np.bincount(added.second)) == {26 * len(half_widths)}
    n_different = len({*zip(added.item, added.first, added.second, added.other_item, strict=True)})
    assert n_different == len(added)


def test_independent_calls_alone_count_equally_often_for_agents_that_joined() -> None:
    plan = add_calls(add_agents(first_plan(), MORE_AGENTS, calls=180), calls=100_000)
    later = add_calls(plan, calls=10 * (K + 6))
    added = later.trials.take(np.arange(len(plan), len(later)))
    n_first = np.bincount(added.first, weights=added.weight_first > 0, minlength=K + 3)
    n_second = np.bincount(added.second, weights=added.weight_second > 0, minlength=K + 3)
    assert (n_first + n_second).tolist() == [20] * (K + 3)
    before, after = rank(simulate(plan, fpr=0.2)), rank(simulate(later, fpr=0.2))
    assert (after.high - after.low).mean() < (before.high - before.low).mean()


@pytest.mark.parametrize("design", ["dense", "nlogn", "row"])
@pytest.mark.parametrize("holdout", [0.0, 0.2])
def test_an_extended_cell_design_accepts_only_focused_calls_and_keeps_intervals(design: str, holdout: float) -> None:
    plan = add_agents(make_plan(OLD, design=design, holdout=holdout, seed=2), MORE_AGENTS, calls=300)
    with pytest.raises(PlanError, match=r"\[extend-cell-design\]"):
        add_calls(plan, calls=200)
    with pytest.raises(PlanError, match=r"\[extend-cell-design\]"):
        add_items(plan, MORE_ITEMS)
    later = add_calls(plan, calls=40, focus=(K, K + 1))
    compared = comparisons(later)
    assert len(set(compared)) == len(compared)
    assert not np.isnan(ranked(answers(later)).low).any()


def test_matched_trials_of_focused_calls_do_not_change_other_agents() -> None:
    plan = first_plan(independent="matched", calls=520)
    later = add_calls(plan, calls=80, focus=(2, 3))
    before, after = ranked(answers(plan)), ranked(answers(later))
    others = np.delete(np.arange(K), [2, 3])
    assert (after.ability[others] == before.ability[others]).all()


def test_an_anchor_without_a_standard_error_counts_only_by_its_new_trials() -> None:
    plan = make_plan(OLD, design="nlogn", holdout=0.0, seed=1)
    later = add_calls(plan, calls=40, focus=(0,))
    new = np.arange(len(later)) >= len(plan)
    of_agent = ((later.first == 0) | (later.second == 0)) & (later.trial_type == PAIRED)
    lost = of_agent & ~new
    lost[np.flatnonzero(lost)[0]] = False
    result = answer_with(later, answers(later).answer, missing=lost)
    assert np.isnan(estimate_anchor_abilities(TrialsByItem.from_verdicts(result)).covariance.std_error[0])
    assert ranked(result).n_trials[0] == (of_agent & new).sum()


def test_calls_that_exceed_one_item_set_go_to_the_next() -> None:
    plan = add_items(add_calls(first_plan(), calls=100_000), part_of(WHOLE, slice(K)), calls=2 * K)
    later = add_calls(plan, calls=10 * K)
    assert len(later) - len(plan) == 10 * K


def test_calls_that_exceed_the_last_item_set_go_to_the_first() -> None:
    plan = add_items(first_plan(), part_of(WHOLE, slice(K)), calls=100_000)
    later = add_calls(plan, calls=100, independent=0)
    assert len(later) - len(plan) == 96

    few_first = make_plan(part_of(WHOLE, slice(4), slice(3)), design="cyclic", calls=12, independent="pooled:4")
    exhausted = add_items(few_first, part_of(WHOLE, slice(4), slice(20)), calls=100_000)
    assert add_calls(exhausted, calls=4).notes[-1] == "step 2: more calls: 0 independent and 4 paired calls"


@pytest.mark.parametrize("independent", ["matched", "pooled:20", None])
def test_the_number_of_calls_that_an_error_names_is_enough(independent: str | None) -> None:
    plan = first_plan(independent=independent)
    with pytest.raises(PlanError, match=r"Set at least \d+ calls\. \[extend-too-few-calls\]") as refused:
        add_calls(plan, calls=2)
    n_calls = int(str(refused.value).split("Set at least ")[1].split()[0])
    assert len(add_calls(plan, calls=n_calls)) > len(plan)


def test_the_note_of_an_extension_states_that_nothing_is_left_only_if_this_is_so() -> None:
    pool = make_pool(6, 20, present=np.random.default_rng(0).random((6, 20)) < 0.8)
    plan = make_plan(pool, design="cyclic", calls=120, seed=1)
    assert "no more are left" not in add_calls(plan, calls=100).notes[-1]
    assert "no more are left" in add_calls(plan, calls=100_000).notes[-1]


def test_the_text_of_new_trials_is_what_an_extension_adds_also_for_preferences() -> None:
    plan = make_plan(OLD, design="cyclic", calls=80, question="preference")
    later = add_calls(plan, calls=40)
    assert select_trials(later, later.trials.step == 1).characters == later.characters - plan.characters


def searched(max_regret: float | None, *, calls: int = 120, rounds: int = 2) -> tuple[Verdicts, Abilities]:
    """Return a run that three agents joined, after a search among the first two agents and the last one."""
    plan, focus = add_agents(first_plan(), MORE_AGENTS, calls=80), (0, 1, K + 2)
    for _ in range(rounds):
        plan = add_calls(plan, calls=calls, focus=focus, top=1, max_regret=max_regret)
    ability = np.linspace(0.3, -0.3, K + 4)
    ability[K + 2] = 0.32
    result = answers(plan, ability=ability)
    return result, not_none(trial_abilities_from_verdicts(result))


def test_contenders_share_partners_and_the_first_agents_keep_their_scale() -> None:
    result, actual = searched(0.02)
    before = estimate_anchor_abilities(TrialsByItem.from_verdicts(result)).with_rates_subtracted()
    np.testing.assert_array_equal(actual.ability[2:K], before.ability[2:K])
    assert actual.n_trials[[0, 1, K + 2]].min() > 1.5 * actual.n_trials[2:K].max()
    joined = (K, K + 1, K + 2)
    trials = draw_anchor_trials(
        np.ones((K + 3, J), dtype=np.bool_),
        np.random.default_rng(0),
        scored=joined,
        n_anchors=K,
        n_paired=6 * 30,
        planned=set(),
        pairs="ordered",
        items=np.arange(J, dtype=np.int32),
        start=0,
        together=True,
    )
    for block in range(30):
        rows = trials.block == block
        first = np.isin(trials.first[rows], joined)
        assert sorted(trials.first[rows][first]) == sorted(trials.second[rows][~first]) == list(joined)
        assert len(set(trials.second[rows][first])) == len(set(trials.first[rows][~first])) == 1


def test_analyses_of_an_extended_search_share_one_alpha_and_are_restored_from_files() -> None:
    _, result = searched(0.02, rounds=3)
    search = not_none(result.search)
    assert (search.top, search.max_regret, len(search.analyses)) == (1, 0.02, 4)
    shares = [look.alpha_fraction for look in search.analyses]
    assert sum(shares) == pytest.approx(search.analyses[-1].alpha_spent)
    assert sum(shares) <= 1
    ends = np.array([look.upper_bounds for look in search.analyses])
    assert (ends[1:] <= ends[:-1]).all()
    _, shorter = searched(0.02, rounds=2)
    np.testing.assert_array_equal(not_none(shorter.search).analyses[-1].upper_bounds, search.analyses[-2].upper_bounds)


def test_bounds_of_a_search_by_a_jury_contain_the_variance_between_judges() -> None:
    result, _ = searched(0.02)
    concerns_first_agent = (result.plan.first == 0) | (result.plan.second == 0)
    bias = np.array([-0.3, 0.0, 0.3])[:, None] * concerns_first_agent
    of_a_jury = replace(result, votes=np.clip(result.answer + bias, 0, 1))
    with_judges, with_one_judge = (
        not_none(estimate_abilities(of_a_jury, target=target).search).analyses
        for target in ("items-and-judges", "items-like-these")
    )
    for wide, narrow in zip(with_judges, with_one_judge, strict=True):
        assert wide.upper_bounds[1, 0] > 2 * narrow.upper_bounds[1, 0]


def test_a_search_that_spends_all_calls_has_one_analysis() -> None:
    _, result = searched(None)
    assert [look.alpha_fraction for look in not_none(result.search).analyses] == [1.0]


def test_a_search_ends_if_other_agents_join() -> None:
    result, _ = searched(0.02)
    abilities = not_none(trial_abilities_from_verdicts(answers(add_items(result.plan, MORE_ITEMS))))
    assert abilities.search is None
