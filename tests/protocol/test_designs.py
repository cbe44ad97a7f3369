"""Test the claims of built-in designs: number of cells, repair, cost and refusals."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Unpack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plan_options import PlanOptions
from small_pools import make_pool
from youden import make_plan
from youden.errors import PlanError
from youden.protocol.coverage import compute_coverage
from youden.protocol.designs.column import Column
from youden.protocol.designs.cyclic import Cyclic
from youden.protocol.designs.hybrid import Hybrid
from youden.protocol.designs.nlogn import Nlogn
from youden.protocol.designs.parts.repair import PairRule, count_comparisons, draw_comparisons, find_graph_components
from youden.protocol.designs.row import Row
from youden.types import PAIRED, Plan
from youden.types.trials import POOLED

CELL_DESIGNS = [Row, Column, Hybrid, Nlogn]
FULL = np.ones((30, 200), dtype=bool)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_row_gives_every_agent_equal_numbers_of_items() -> None:
    n_items = Row(alpha=0.3, d_core=1).choose(FULL, rng()).sum(axis=1)
    assert set(n_items) == {60}


def test_column_gives_every_item_equal_numbers_of_agents() -> None:
    assert set(Column(beta=0.3).choose(FULL, rng()).sum(axis=0)) == {9}


def test_hybrid_selects_cells_at_random() -> None:
    n = Hybrid(alpha=0.6, beta=0.5).choose(FULL, rng()).sum()
    assert abs(n - 1800) < 4 * np.sqrt(6000 * 0.3 * 0.7)


def test_the_nlogn_design_of_the_paper_uses_a_third_of_all_cells() -> None:
    plan = make_plan(make_pool(30, 200), design="nlogn")
    counted = compute_coverage(plan)
    assert counted.scored == 2001
    assert counted.present_fraction == pytest.approx(0.3335)
    assert counted.train_fraction == pytest.approx(2001 / 4800)


@given(st.integers(0, 1000), st.sampled_from(CELL_DESIGNS), st.sampled_from([0.5, 1.0]))
@settings(max_examples=15, deadline=None)
def test_selected_cells_are_eligible_a_d_core_and_connected(seed: int, design: type[Row], share: float) -> None:
    generator = np.random.default_rng(seed)
    eligible = generator.random((9, 14)) < share
    drawer = design(n_paired=1)
    if min(eligible.sum(axis=0).min(), eligible.sum(axis=1).min()) < 3 or find_graph_components(eligible)[0].max():
        with pytest.raises(PlanError) as caught:
            drawer.draw(eligible, generator)
        assert caught.value.slug in ("d-core", "not-connected")
    else:
        chosen = design().choose(eligible, generator)
        assert not (chosen & ~eligible).any()
        assert chosen.sum(axis=0).min() >= 3
        assert chosen.sum(axis=1).min() >= 3
        assert find_graph_components(chosen)[0].max() == find_graph_components(chosen)[1].max() == 0


def test_two_components_are_joined_by_one_cell() -> None:
    key = np.full((4, 4), 0.5)
    key[2, 1] = 0.1
    blocks = np.kron(np.eye(2), np.ones((2, 2))).astype(bool)
    drawer = Row(d_core=2)
    mended = drawer._complete_or_check(blocks, np.ones((4, 4), dtype=bool), key)
    assert np.argwhere(mended & ~blocks).tolist() == [[2, 1]]


@given(st.integers(0, 1000), st.sampled_from(["ordered", "unordered"]), st.sampled_from([None, 2]))
@settings(max_examples=15, deadline=None)
def test_every_selected_cell_is_compared_with_its_partners(seed: int, pairs: PairRule, n_partners: int | None) -> None:
    generator = np.random.default_rng(seed)
    eligible = generator.random((6, 5)) < 0.8
    chosen = eligible & (generator.random((6, 5)) < 0.4)
    trials = draw_comparisons(chosen, eligible, n_partners=n_partners, pairs=pairs, rng=generator)
    rows = list(zip(trials.item.tolist(), trials.first.tolist(), trials.second.tolist(), strict=True))
    comparisons = count_comparisons(chosen, eligible, n_partners=n_partners, pairs=pairs)
    assert len(rows) == comparisons if pairs == "ordered" or n_partners is None else len(rows) <= comparisons
    met = Counter((j, i) for j, i, _ in rows)
    if pairs == "unordered":
        assert len({(j, frozenset((i, k))) for j, i, k in rows}) == len(rows)
        met += Counter((j, k) for j, _, k in rows)
    for i, j in np.argwhere(chosen):
        others = int(eligible[:, j].sum()) - 1
        wanted = others if n_partners is None else min(others, n_partners)
        assert met[(j, i)] == wanted if pairs == "ordered" else met[(j, i)] >= wanted
    assert all(i != k and eligible[i, j] and eligible[k, j] for j, i, k in rows)


@pytest.mark.parametrize("design", ["row", "column", "hybrid", "nlogn"])
@pytest.mark.parametrize("pairs", ["ordered", "unordered"])
@pytest.mark.parametrize("percent", [5.0, 20.0, 60.0])
def test_a_budget_is_respected_and_nearly_spent(design: str, pairs: str, percent: float) -> None:
    pool = make_pool(12, 40)
    plan = make_plan(pool, design=design, calls=f"{percent}%", holdout=0, options={"pairs": pairs})
    budget = percent / 100 * plan.n_dense_calls
    spent = len(plan) / budget
    assert spent <= 1.001
    exhausted = pairs == "unordered" and percent == 60
    assert spent > (0.5 if exhausted or percent == 5 else 0.9)


def test_a_budget_too_small_for_all_partners_uses_fewer_with_a_note() -> None:
    plan = make_plan(make_pool(30, 200), design="nlogn", calls="1%", holdout=0)
    assert len(plan) <= 3480
    assert np.bincount(plan.first[plan.trial_type == PAIRED] * 200 + plan.item[plan.trial_type == PAIRED]).max() == 2
    assert "2 of 29 others" in plan.notes[0]


def test_a_note_on_partners_counts_only_agents_that_share_an_item() -> None:
    pool = make_pool(30, 200)
    texts = pool.texts.copy()
    texts[np.arange(200) % 30, np.arange(200)] = None  # no item has responses of all agents
    plan = make_plan(replace(pool, texts=texts), design="nlogn", calls="1%", holdout=0)
    assert "of 28 others" in plan.notes[0]


def test_an_excessive_c_is_limited_with_a_note() -> None:
    plan = make_plan(make_pool(6, 10), design="nlogn", holdout=0, options={"c": 50})
    assert compute_coverage(plan).scored == 60
    assert "all of them are used" in plan.notes[0]


@given(st.integers(0, 100))
@settings(max_examples=10, deadline=None)
def test_unordered_cyclic_repeats_no_pair_and_uses_every_possible_pair(seed: int) -> None:
    for n_agents in (7, 8):
        eligible = np.ones((n_agents, 5), dtype=bool)
        trials = Cyclic(pairs="unordered").draw(eligible, np.random.default_rng(seed)).trials
        asked = {(j, frozenset((i, k))) for j, i, k in zip(trials.item, trials.first, trials.second, strict=True)}
        assert len(asked) == len(trials.item) == 5 * n_agents * ((n_agents - 1) // 2)


def refusal(**arguments: Unpack[PlanOptions]) -> PlanError:
    with pytest.raises(PlanError) as caught:
        make_plan(make_pool(9, 20), **arguments)
    return caught.value


def test_an_item_with_too_few_agents_is_an_error_with_a_remedy() -> None:
    error = refusal(design="column", holdout=0, options={"beta": 0.22, "repair": False})
    assert error.slug == "d-core"
    assert str(error) == (
        "The column design has too few agents for item 'i0': got 2, but it needs 3. Set beta above 0.22, or a smaller d_core. "
        "[d-core]"
    )


def test_an_item_that_no_option_can_complete_is_named() -> None:
    present = np.ones((9, 20), dtype=bool)
    present[2:, 17] = False
    with pytest.raises(PlanError, match="too few agents for item 'i17': got 2") as caught:
        make_plan(make_pool(9, 20, present=present), design="nlogn", holdout=0)
    assert caught.value.slug == "d-core"


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        ({"design": "row", "options": {"beta": 0.3}}, "design-option"),
        ({"design": "cyclic", "options": {"alpha": 0.3}}, "design-option"),
        ({"design": "row", "options": {"alpha": 0}}, "design-option"),
        ({"design": "row", "options": {"alpha": "much"}}, "design-option"),
        ({"design": "column", "options": {"beta": 1.5}}, "design-option"),
        ({"design": "hybrid", "options": {"alpha": 0.5}}, "design-option"),
        ({"design": "nlogn", "options": {"c": -1}}, "design-option"),
        ({"design": "nlogn", "options": {"d_core": 0}}, "design-option"),
        ({"design": "nlogn", "options": {"partners": 1.5}}, "design-option"),
        ({"design": "dense", "options": {"pairs": "both"}}, "design-option"),
        ({"design": "row", "options": {"repair": "no"}}, "design-option"),
        ({"design": "row", "calls": 10}, "budget-cells"),
        ({"design": "row", "calls": "5%", "options": {"alpha": 0.9}}, "budget-cells"),
        ({"independent": "pooled:x"}, "independent-rule"),
        ({"independent": "matched:3"}, "independent-rule"),
    ],
)
def test_invalid_design_options_are_refused(arguments: PlanOptions, slug: str) -> None:
    assert refusal(**arguments).slug == slug


def test_an_unknown_option_is_an_error_with_the_nearest_known_one() -> None:
    assert "Did you mean 'alpha'?" in str(refusal(design="row", options={"alhpa": 0.3}))


def test_pooled_n_sets_the_number_of_independent_trials() -> None:
    plan: Plan = make_plan(make_pool(9, 20), independent="pooled:30", calls="20%")
    assert (plan.trial_type != PAIRED).sum() == 30
    default = make_plan(make_pool(9, 20), independent="pooled", calls=1000)
    assert (default.role == POOLED).sum() == 72
    assert len(default) <= 1000


@pytest.mark.parametrize("pairs", ["ordered", "unordered"])
def test_dense_uses_both_orders_or_one(pairs: str) -> None:
    plan = make_plan(make_pool(5, 6), design="dense", holdout=0, options={"pairs": pairs})
    counted = compute_coverage(plan)
    assert counted.unordered == 10 * 6
    assert counted.ordered == counted.paired == counted.independent == (120 if pairs == "ordered" else 60)
