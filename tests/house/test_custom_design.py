"""Test that a custom design in one file may define notes, rounds and blocks."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest

from small_pools import make_pool
from youden import make_plan, registry
from youden.errors import PlanError
from youden.protocol.designs.cyclic import number_blocks
from youden.protocol.extension import add_calls
from youden.types import PAIRED, DesignResult, Plan, Pool, Rounds, Trials
from youden.types.pool import Bools


class Neighbors:
    """Design whose blocks compare every agent with the next one on one item."""

    name = "third-party-rows"
    default_holdout, default_trials_per_agent, plans_holdout, default_independent = 0.0, None, False, "pooled"
    options = ("n_blocks",)

    def __init__(self, *, n_paired: int | None = None, n_blocks: int = 2) -> None:
        self.n_blocks = n_blocks

    def blocks(self, eligible: Bools, rng: np.random.Generator) -> Iterator[Trials]:
        agents = np.arange(len(eligible), dtype=np.int32)
        for item in rng.permutation(eligible.shape[1]):
            yield Trials.paired(np.full_like(agents, item), agents, np.roll(agents, -1))

    def draw(self, eligible: Bools, rng: np.random.Generator) -> DesignResult:
        chosen = [block for _, block in zip(range(self.n_blocks), self.blocks(eligible, rng), strict=False)]
        return DesignResult(number_blocks(chosen), (f"{self.n_blocks} rows of neighbors",))


class InRounds(Neighbors):
    """The design `Neighbors` with further rounds."""

    name = "in rounds"

    def draw(self, eligible: Bools, rng: np.random.Generator) -> DesignResult:
        drawn = super().draw(eligible, rng)
        return DesignResult(drawn.trials, rounds=Rounds.first(len(eligible), n_paired=50))


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register both designs like an installed package."""
    points = [EntryPoint(case.name, f"{__name__}:{case.__name__}", "youden.designs") for case in (Neighbors, InRounds)]
    monkeypatch.setattr(registry, "_list_entry_points", lambda _group: EntryPoints(points))


@pytest.fixture
def small_pool() -> Pool:
    return make_pool(5, 8)


def test_a_design_that_draws_nothing_is_refused_unless_no_item_is_shared(small_pool: Pool) -> None:
    with pytest.raises(PlanError, match=r"The design third-party-rows plans no comparison.*Set more calls") as caught:
        make_plan(small_pool, design="third-party-rows", options={"n_blocks": 0})
    assert caught.value.slug == "plan-empty"
    with pytest.raises(PlanError) as caught:
        make_plan(make_pool(4, 4, present=np.eye(4, dtype=bool)), design="third-party-rows", options={"n_blocks": 0})
    assert caught.value.slug == "nothing-shared"


def test_notes_and_blocks_of_a_custom_design_are_in_the_plan(small_pool: Pool) -> None:
    plan = make_plan(small_pool, design="third-party-rows", options={"n_blocks": 3}, independent="pooled:10")
    assert "3 rows of neighbors" in plan.notes
    assert np.unique(plan.block[plan.trial_type == PAIRED]).tolist() == [0, 1, 2]
    assert plan.rounds is None


def test_more_calls_extend_a_plan_by_the_next_blocks_of_a_custom_design(small_pool: Pool) -> None:
    def paired(plan: Plan) -> list[tuple[int, ...]]:
        rows = plan.trial_type == PAIRED
        return list(zip(plan.item[rows].tolist(), plan.first[rows].tolist(), plan.second[rows].tolist(), strict=True))

    small, large = (
        make_plan(small_pool, design="third-party-rows", options={"n_blocks": n}, independent="pooled:10")
        for n in (2, 4)
    )
    assert paired(add_calls(small, calls=10)) == paired(large)


def test_rounds_of_a_custom_design_are_in_the_plan(small_pool: Pool) -> None:
    rounds = make_plan(small_pool, design="in rounds", independent="pooled:10").rounds
    assert rounds is not None
    assert (rounds.n_paired, rounds.starts) == (50, (0,))
    assert rounds.active.all()


def test_a_design_never_gets_a_negative_budget(monkeypatch: pytest.MonkeyPatch, small_pool: Pool) -> None:
    budgets = []

    class Recording(Neighbors):
        def __init__(self, *, n_paired: int | None = None, n_blocks: int = 2) -> None:
            super().__init__(n_paired=n_paired, n_blocks=n_blocks)
            budgets.append(n_paired)

    monkeypatch.setattr(f"{__name__}.Neighbors", Recording)
    make_plan(small_pool, design="third-party-rows", calls=1)
    assert min(budget for budget in budgets if budget is not None) == budgets[-1] == 0


def test_a_plan_that_exceeds_its_budget_has_a_note(small_pool: Pool) -> None:
    plan = make_plan(small_pool, design="third-party-rows", calls=1)
    assert "the design 'third-party-rows' exceeds the budget: 10 paired calls instead of 0" in plan.notes
    assert not any("exceeds" in note for note in make_plan(small_pool, design="third-party-rows", calls=40).notes)


def test_a_plan_whose_comparisons_leave_agents_unlinked_has_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    class TwoPairs(Neighbors):
        def blocks(self, eligible: Bools, rng: np.random.Generator) -> Iterator[Trials]:
            first = np.array([0, 2], dtype=np.int32)
            for item in range(eligible.shape[1]):
                yield Trials.paired(np.full_like(first, item), first, first + np.int32(1))

    note = "no comparison links 2 agents, such as 'a2', with the others, so their abilities are not comparable"
    pool = make_pool(4, 8)
    assert note not in make_plan(pool, design="third-party-rows").notes
    monkeypatch.setattr(f"{__name__}.Neighbors", TwoPairs)
    assert note in make_plan(pool, design="third-party-rows").notes
