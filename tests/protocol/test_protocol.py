"""Test the protocol: holdout, counts and scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from narrowing import untyped
from small_pools import answer_with, make_pool
from youden import make_plan
from youden.errors import PlanError, StatisticsError
from youden.protocol.coverage import compute_coverage
from youden.protocol.designs import DESIGNS
from youden.protocol.plan import PlanSize, draw_split
from youden.protocol.scores import pooled_fpr
from youden.run_keys import SplitRule
from youden.types import INDEPENDENT, PAIRED, Plan, Scores
from youden.types.planning import Split
from youden.types.results import ScoreKind
from youden.types.trials import PROBE

DESIGN_NAMES = list(DESIGNS)
TRIAL_TYPES = ["matched", "pooled"]
CELL_DESIGNS = ["row", "column", "hybrid", "nlogn"]
SMALL: dict[str, dict[str, Any]] = {
    "cyclic": {"calls": 200},
    "adaptive": {"calls": 400, "options": {"pilot": 0.6}},
    **{name: {"options": {"d_core": 1, "partners": 2}} for name in CELL_DESIGNS},
}
"""Options with which a design fits a pool of 6 × 8 with gaps; other designs need none."""
CASES = [
    pytest.param(design, trial_type, rule, kind, id=f"{design}-{trial_type}-{rule}-{kind}")
    for design in DESIGN_NAMES
    for trial_type in TRIAL_TYPES
    for rule in ("strict", "paper")
    for kind in ("row", "symmetric")
]


def gappy(seed: int, n_agents: int = 6, n_items: int = 8, share: float = 0.85) -> np.ndarray:
    return np.random.default_rng(seed).random((n_agents, n_items)) < share


def plan_for(design: str, trial_type: str, *, rule: SplitRule = "strict", seed: int = 0, holdout: float = 0.2) -> Plan:
    pool = make_pool(6, 8, present=gappy(seed))
    return make_plan(
        pool,
        design=design,
        holdout_rule=rule,
        seed=seed,
        holdout=holdout,
        independent="matched" if trial_type == "matched" else "pooled:40",
        **SMALL.get(design, {}),
    )


def same(one: Scores, other: Scores) -> bool:
    """Return whether scores are equal up to rounding: their sums may be taken in another order."""
    is_close = np.allclose(one.value, other.value, rtol=0, atol=1e-12, equal_nan=True)
    return is_close and np.array_equal(one.weight, other.weight)


def touching(plan: Plan, *, own: bool) -> np.ndarray:
    """Return the trials on which no training score may depend."""
    holdout = plan.split.holdout
    first = holdout[plan.first, plan.item]
    other_item = np.where(plan.trial_type == INDEPENDENT, plan.other_item, plan.item)
    return (
        first
        if own
        else first | holdout[plan.second, other_item] | holdout[plan.second, plan.item] & (plan.trial_type == PAIRED)
    )


@pytest.mark.parametrize(("design", "trial_type", "rule", "kind"), CASES)
def test_training_scores_do_not_change_if_every_held_out_verdict_does(
    design: str, trial_type: str, rule: SplitRule, kind: ScoreKind
) -> None:
    for seed in range(2):
        plan = plan_for(design, trial_type, rule=rule, seed=seed)
        rng = np.random.default_rng(seed)
        answer = rng.random(len(plan))
        secret = touching(plan, own=rule == "paper")
        assert secret.any()
        changed = np.where(secret, 1 - answer, answer)
        before, after = (answer_with(plan, a).rates().training_scores(kind=kind) for a in (answer, changed))
        assert same(before, after), seed
        assert np.isnan(before.value[plan.split.holdout]).all(), seed
        lost = answer_with(plan, answer, missing=secret)
        assert same(before, lost.rates().training_scores(kind=kind)), seed


@pytest.mark.parametrize("design", DESIGN_NAMES)
@pytest.mark.parametrize(("rule", "kind"), [("strict", "symmetric"), ("paper", "row")])
def test_the_leakage_test_can_fail(design: str, rule: SplitRule, kind: ScoreKind) -> None:
    """A change of any paired training verdict changes a training score."""
    plan = plan_for(design, "pooled", rule=rule)
    answer = np.random.default_rng(1).random(len(plan))
    row = np.flatnonzero(~touching(plan, own=rule == "paper") & (plan.trial_type == PAIRED))[0]
    changed = answer.copy()
    changed[row] = 1 - changed[row]
    before, after = (answer_with(plan, a).rates().training_scores(kind=kind) for a in (answer, changed))
    assert not same(before, after)


def test_under_the_paper_rule_calls_of_held_out_cells_enter_rows_of_partners() -> None:
    """The rule of the paper permits this, and `strict` does not."""
    answers = {}
    for rule in ("paper", "strict"):
        plan = plan_for("dense", "matched", rule=rule)
        holdout = plan.split.holdout
        as_second = holdout[plan.second, plan.item] & ~holdout[plan.first, plan.item] & (plan.trial_type == PAIRED)
        answer = np.full(len(plan), 0.25)
        moved = np.where(as_second, 1.0, answer)
        before, after = (answer_with(plan, a).rates().training_scores(kind="row") for a in (answer, moved))
        answers[rule] = same(before, after)
    assert answers == {"paper": False, "strict": True}


@pytest.mark.parametrize("rule", ["strict", "paper"])
def test_holdout_scores_are_the_dense_scores_of_the_held_out_cells(rule: SplitRule) -> None:
    pool = make_pool(5, 6)
    plan = make_plan(pool, design="dense", holdout_rule=rule, holdout=0.3, seed=3)
    rates = answer_with(plan, np.random.default_rng(0).random(len(plan))).rates()
    holdout = rates.holdout_scores()
    dense = replace(rates, split=Split.without_holdout((5, 6))).training_scores()
    assert np.array_equal(np.isnan(holdout.value), ~plan.split.holdout)
    np.testing.assert_allclose(holdout.value[plan.split.holdout], dense.value[plan.split.holdout])


@given(st.integers(0, 10_000), st.sampled_from(DESIGN_NAMES), st.sampled_from(TRIAL_TYPES), st.sampled_from([0.0, 0.2]))
@settings(max_examples=20, deadline=None)
def test_a_plan_contains_only_existing_comparisons_and_repeats_none_in_a_replicate(
    seed: int, design: str, trial_type: str, holdout: float
) -> None:
    present = gappy(seed)
    pool = make_pool(6, 8, present=present)
    try:
        plan = make_plan(
            pool,
            design=design,
            holdout=holdout,
            seed=seed,
            independent="matched" if trial_type == "matched" else "pooled:30",
            **SMALL.get(design, {}),
        )
    except PlanError as error:
        if error.slug not in ("budget-cyclic", "pool-cyclic", "budget-adaptive", "d-core", "not-connected"):
            raise
        reject()
    other_item = np.where(plan.trial_type == INDEPENDENT, plan.other_item, plan.item)
    assert present[plan.first, plan.item].all()
    assert present[plan.second, other_item].all()
    assert (plan.first != plan.second).all()
    assert (other_item != plan.item)[plan.trial_type == INDEPENDENT].all()
    rows = np.stack([plan.item, plan.first, plan.second, plan.other_item, plan.replicate])
    assert len(np.unique(rows, axis=1).T) == len(plan)
    lengths = [[len(t or "") for t in row] for row in pool.texts.tolist()]
    counted = sum(
        lengths[i][j] + lengths[k][o] for i, j, k, o in zip(plan.first, plan.item, plan.second, other_item, strict=True)
    )
    assert plan.characters == counted
    assert plan.n_cells == len({(i, j) for f, s, j in zip(*_paired(plan), strict=True) for i in (f, s)})
    _check_coverage(plan)


def _check_coverage(plan: Plan) -> None:
    """Check every count of `compute_coverage` by a naive computation."""
    train, values = plan.split.train, plan.split.holdout
    scored, ordered, unordered, n_held = set(), set(), set(), 0
    for j, i, k, trial_type, o in zip(
        plan.item, plan.first, plan.second, plan.trial_type, plan.other_item, strict=True
    ):
        n_held += bool(values[i, j] or values[k, j if trial_type == PAIRED else o])
        if trial_type == PAIRED:
            ordered.add((j, i, k))
            unordered.add((j, frozenset((i, k))))
            if train[i, j] and train[k, j]:
                scored.add((i, j))
    counted = compute_coverage(plan)
    assert (counted.ordered, counted.unordered, counted.scored) == (len(ordered), len(unordered), len(scored))
    assert (counted.holdout, counted.cells, counted.calls) == (n_held, plan.n_cells, len(plan))
    assert (counted.train, counted.present) == (train.sum(), train.sum() + values.sum())
    assert counted.train_fraction == len(scored) / train.sum()


def _paired(plan: Plan) -> list[np.ndarray]:
    return [column[plan.trial_type == PAIRED] for column in (plan.first, plan.second, plan.item)]


@pytest.mark.parametrize("design", DESIGN_NAMES)
def test_a_plan_is_determined_by_its_seed(design: str) -> None:
    pool = make_pool(8, 20)
    plan, again, other_plan = (make_plan(pool, design=design, seed=seed, holdout=0.1) for seed in (1, 1, 2))
    assert plan.digest == again.digest
    assert plan.digest != other_plan.digest


def test_dense_without_holdout_is_every_ordered_pair_with_its_matched_trial() -> None:
    plan = make_plan(make_pool(5, 6), design="dense", holdout=0)
    assert len(plan) == plan.n_dense_calls == 2 * 5 * 4 * 6
    assert plan.n_cells == 30


def test_each_agent_is_once_first_and_once_second_in_a_block_and_no_block_repeats() -> None:
    pool = make_pool(7, 9)
    plan = make_plan(pool, design="cyclic", calls=7 * 40 + 10, independent="pooled:10", seed=5)
    paired = plan.trial_type == PAIRED
    assert paired.sum() == 7 * 40
    assert (plan.block[~paired] == -1).all()
    observed = set()
    for block in range(40):
        rows = plan.block == block
        assert sorted(plan.first[rows]) == sorted(plan.second[rows]) == list(range(7))
        item = set(plan.item[rows])
        assert len(item) == 1
        observed.add((item.pop(), frozenset(zip(plan.first[rows].tolist(), plan.second[rows].tolist(), strict=True))))
    assert len(observed) == 40


def test_cyclic_can_spend_up_to_every_ordered_pair_once() -> None:
    plan = make_plan(make_pool(5, 4), design="cyclic", calls=10_000, independent="pooled:0")
    assert len(plan) == 5 * 4 * 4
    assert (plan.replicate == 0).all()


@pytest.mark.parametrize(
    ("n_agents", "n_items", "calls"),
    [(5, 40, 865), (6, 40, 1296), (8, 40, 1944), (12, 32, 2916), (10, 200, 2430), (30, 200, 7290), (39, 200, 9477)],
)
def test_cyclic_without_a_budget_plans_450_trials_per_agent_or_every_comparison(
    n_agents: int, n_items: int, calls: int
) -> None:
    plan = make_plan(make_pool(n_agents, n_items), design="cyclic")
    assert len(plan) == calls + (plan.role == PROBE).sum()
    every = n_agents * (n_agents - 1) * n_items
    assert (plan.trial_type == PAIRED).sum() == min(every, 450 * n_agents // 2)


def test_default_calls_grow_linearly_with_agents() -> None:
    calls = [PlanSize(n_agents, 1000).default_calls(450) for n_agents in (10, 100, 1000)]
    assert calls == [2430, 24_300, 243_000]


def test_trials_per_agent_is_the_mean_number_of_trials_of_an_agent() -> None:
    plan = make_plan(make_pool(9, 50), calls="120/agent")
    paired = plan.trial_type == PAIRED
    assert np.bincount(np.append(plan.first[paired], plan.second[paired])).tolist() == [120] * 9
    assert len(plan) == 9 * 60 + 45 + (plan.role == PROBE).sum()
    cells = make_plan(make_pool(9, 50), design="row", calls="120/agent", holdout=0.0)
    paired = cells.trial_type == PAIRED
    assert 90 <= 2 * paired.sum() / 9 <= 120


def test_with_more_items_than_blocks_no_item_repeats_and_partners_are_balanced() -> None:
    plan = make_plan(make_pool(40, 400), calls="60/agent", independent="pooled:0")
    item_of_block = {int(block): int(item) for block, item in zip(plan.block, plan.item, strict=True)}
    assert len(set(item_of_block.values())) == 30
    pairs = np.bincount(plan.first * 40 + plan.second, minlength=1600)
    assert pairs.max() == 1


def test_a_budget_between_two_numbers_of_blocks_is_not_a_limit_of_the_pool() -> None:
    plan = make_plan(make_pool(9, 14), calls=44)
    assert len(plan) == 40  # another block would have 9 calls
    assert not any("has only" in note for note in plan.notes)


def test_a_plan_with_far_fewer_calls_than_requested_states_it() -> None:
    plan = make_plan(make_pool(4, 12), calls=1_000_000_000)
    assert any(
        "the budget is 1,000,000,000 calls, but the design 'cyclic' has only 174 on this pool" in note
        for note in plan.notes
    )


def test_cyclic_spreads_items_evenly() -> None:
    plan = make_plan(make_pool(6, 10), design="cyclic", calls=6 * 25, independent="pooled:0")
    blocks_of_item = np.bincount(plan.item, minlength=10) // 6
    assert set(blocks_of_item) == {2, 3}


def test_cyclic_uses_only_agents_with_a_response_that_is_not_held_out() -> None:
    present = gappy(11, 8, 12, 0.7)
    plan = make_plan(
        make_pool(8, 12, present=present), design="cyclic", calls="40%", holdout=0.2, independent="pooled:12", seed=2
    )
    in_blocks = plan.block >= 0
    train = plan.split.train
    assert train[plan.first[in_blocks], plan.item[in_blocks]].all()
    assert train[plan.second[in_blocks], plan.item[in_blocks]].all()
    extra = (plan.block < 0) & (plan.trial_type == PAIRED)
    assert plan.split.holdout[plan.first[extra], plan.item[extra]].all()
    assert np.bincount(plan.first[extra] * 12 + plan.item[extra]).max() == 3
    assert any("judge only the" in note for note in plan.notes)


def test_pooled_independent_trials_are_spread_over_agents() -> None:
    plan = make_plan(make_pool(10, 12), design="cyclic", calls=500, independent="pooled:100")
    apart = plan.trial_type == INDEPENDENT
    assert apart.sum() == 100
    apart &= plan.role != PROBE
    for side in (plan.first, plan.second):
        counts = np.bincount(side[apart], minlength=10)
        assert counts.min() >= 6
        assert counts.max() <= 12


def test_matched_trials_keep_the_ordered_pair_and_change_the_item() -> None:
    plan = make_plan(make_pool(5, 6), design="dense", holdout=0)
    paired, apart = plan.trial_type == PAIRED, plan.trial_type == INDEPENDENT
    for name in ("item", "first", "second"):
        column = plan.trials.columns()[name]
        assert np.array_equal(column[paired], column[apart])
    assert len(np.unique(plan.other_item[apart])) == 6


def test_rates_equal_manually_computed_values() -> None:
    plan = make_plan(make_pool(3, 2), design="dense", holdout=0)
    answer = np.where(plan.trial_type == PAIRED, 1.0, 0.25)
    missing = (plan.trial_type == PAIRED) & (plan.item == 0) & (plan.first == 0) & (plan.second == 1)
    rates = answer_with(plan, answer, missing=missing).rates()
    row = (rates.item == 0) & (rates.first == 0) & (rates.second == 1)
    assert np.isnan(rates.tpr[row]).all()
    assert rates.n_missing[row].tolist() == [1]
    assert rates.n_missing.sum() == 1
    assert np.nanmin(rates.tpr) == 1.0
    assert set(rates.fpr) == {0.25}
    scores = rates.training_scores(kind="row")
    np.testing.assert_allclose(scores.value, 0.75)
    assert scores.weight.tolist() == [[1, 2], [2, 2], [2, 2]]
    assert pooled_fpr(rates) == 0.25


def test_a_cell_without_an_answer_is_nan_and_not_zero() -> None:
    plan = make_plan(make_pool(3, 3), design="dense", holdout=0)
    missing = ((plan.first == 2) | (plan.second == 2)) & (plan.item == 1)
    scores = answer_with(plan, np.ones(len(plan)), missing=missing).rates().training_scores()
    assert np.isnan(scores.value[2, 1])
    assert scores.weight[2, 1] == 0


def test_row_and_symmetric_scores_equal_manually_computed_values() -> None:
    plan = make_plan(make_pool(3, 2), design="dense", holdout=0)
    answer = np.where(plan.trial_type == PAIRED, np.where(plan.first == 0, 1.0, 0.0), 0.0)
    rates = answer_with(plan, answer).rates()
    assert rates.training_scores(kind="row").value[:, 0].tolist() == [1, 0, 0]
    assert rates.training_scores(kind="symmetric").value[:, 0].tolist() == [0.5, 0.25, 0.25]


@given(st.integers(0, 1000), st.floats(0, 0.9))
@settings(max_examples=25, deadline=None)
def test_a_split_is_disjoint_and_covers_all_existing_cells(seed: int, fraction: float) -> None:
    present = gappy(seed)
    split = draw_split(present, fraction=fraction, seed=seed)
    assert not (split.train & split.holdout).any()
    assert np.array_equal(split.train | split.holdout, present)
    assert split.n_holdout == int(fraction * present.sum() + 0.5)


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        ({"design": "cyclic", "calls": 20}, "budget-cyclic"),
        ({"design": "dense", "calls": 20}, "budget-dense"),
        ({"calls": "2/agent"}, "budget-cyclic"),
        ({"calls": "81/agent"}, "trials-many"),
        ({"calls": 0}, "calls-invalid"),
        ({"calls": "0.001%"}, "calls-invalid"),
        ({"calls": "5 percent"}, "calls-invalid"),
        ({"holdout": 1.0}, "holdout"),
        ({"holdout": -0.1}, "holdout"),
        ({"holdout_rule": "none"}, "holdout-rule"),
        ({"independent": "some"}, "independent-rule"),
        ({"independent": "pooled:-1"}, "independent-rule"),
    ],
)
def test_an_impossible_plan_is_refused(arguments: dict[str, Any], slug: str) -> None:
    with pytest.raises(PlanError) as caught:
        make_plan(make_pool(6, 8), **arguments)
    assert caught.value.slug == slug


def test_a_pool_without_blocks_of_unordered_pairs_is_refused_with_a_remedy() -> None:
    present = np.zeros((4, 60), dtype=bool)
    for item in range(60):
        present[[item % 4, (item + 1) % 4], item] = True
    with pytest.raises(PlanError, match=r"allows only 0.*Set `pairs: ordered`.*\[pool-cyclic\]"):
        make_plan(make_pool(4, 60, present=present), options={"pairs": "unordered"})


@pytest.mark.parametrize(("n_agents", "n_items"), [(2, 5), (5, 1)])
def test_a_pool_too_small_to_rank_is_refused(n_agents: int, n_items: int) -> None:
    with pytest.raises(PlanError, match="at least 3 agents and 2 items"):
        make_plan(make_pool(n_agents, n_items), design="dense")


@pytest.mark.parametrize("design", DESIGN_NAMES)
def test_a_pool_whose_agents_share_no_item_is_refused(design: str) -> None:
    pool = make_pool(4, 4, present=np.eye(4, dtype=bool))
    with pytest.raises(PlanError) as caught:
        make_plan(pool, design=design, holdout=0)
    assert caught.value.slug == "nothing-shared"


def test_scores_with_the_split_of_another_plan_are_refused() -> None:
    plan = make_plan(make_pool(5, 6), design="dense")
    other_split = draw_split(np.ones((4, 6), dtype=bool), fraction=0.2, seed=0)
    rates = answer_with(plan, np.ones(len(plan))).rates()
    for wrong in (other_split, None):
        with pytest.raises(StatisticsError, match=r"\[split-shape\]"):
            untyped(replace)(rates, split=wrong)
    with pytest.raises(PlanError, match=r"\[plan-shape\]"):
        replace(plan, split=other_split)
