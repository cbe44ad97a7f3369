"""A design of one's own, in one file and one row, may carry notes, rounds and slots."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from pools import make_pool
from youden import make_plan, registry
from youden.protocol.designs.cyclic import number_blocks
from youden.protocol.extension import add_calls
from youden.types import PAIRED, Drawn, Plan, Pool, Rounds, Trials
from youden.types.pool import Bools


class Neighbours:
    """Each slot compares every agent with the next one, on one item."""

    name = "neighbours"
    holdout, default_trials_per_agent, judges_holdout, independent = 0.0, None, False, "pooled"
    options = ("n_slots",)

    def __init__(self, *, n_paired: int | None = None, n_slots: int = 2) -> None:
        self.n_slots = n_slots

    def slots(self, eligible: Bools, rng: np.random.Generator) -> Iterator[Trials]:
        agents = np.arange(len(eligible), dtype=np.int32)
        for item in rng.permutation(eligible.shape[1]):
            yield Trials.paired(np.full_like(agents, item), agents, np.roll(agents, -1))

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        chosen = [slot for _, slot in zip(range(self.n_slots), self.slots(eligible, rng), strict=False)]
        return Drawn(number_blocks(chosen), (f"{self.n_slots} rows of neighbours",))


class InRounds(Neighbours):
    """As `Neighbours`, and says that rounds follow."""

    name = "in rounds"

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        drawn = super().draw(eligible, rng)
        return Drawn(drawn.trials, rounds=Rounds.first(len(eligible), n_paired=50))


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both as a package elsewhere would register them."""
    points = [EntryPoint(made.name, f"{__name__}:{made.__name__}", "youden.designs") for made in (Neighbours, InRounds)]
    monkeypatch.setattr(
        registry, "entry_points", lambda *, group, name=None: [p for p in points if name in (None, p.name)]
    )


@pytest.fixture
def pool() -> Pool:
    return make_pool(5, 8)


def test_notes_and_slots_of_its_own_are_in_the_plan(pool: Pool) -> None:
    plan = make_plan(pool, design="neighbours", options={"n_slots": 3}, independent="pooled:10")
    assert "3 rows of neighbours" in plan.notes
    assert np.unique(plan.slot[plan.arm == PAIRED]).tolist() == [0, 1, 2]
    assert plan.rounds is None


def test_more_calls_are_the_slots_it_draws_next(pool: Pool) -> None:
    def paired(plan: Plan) -> list[tuple[int, ...]]:
        rows = plan.arm == PAIRED
        return list(zip(plan.item[rows].tolist(), plan.first[rows].tolist(), plan.second[rows].tolist(), strict=True))

    small, large = (
        make_plan(pool, design="neighbours", options={"n_slots": n}, independent="pooled:10") for n in (2, 4)
    )
    assert paired(add_calls(small, calls=10)) == paired(large)


def test_rounds_of_its_own_are_in_the_plan(pool: Pool) -> None:
    rounds = make_plan(pool, design="in rounds", independent="pooled:10").rounds
    assert rounds is not None
    assert (rounds.n_paired, rounds.starts, rounds.active.all()) == (50, (0,), True)
