"""Make small pools and synthetic verdicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from youden.data.folder.trial_tables import VerdictChunk
from youden.report.data.answer_blocks import Predictions, TrialSource
from youden.types import Agent, Item, Plan, Pool, Trials, Verdicts
from youden.types.judging import PER_TRIAL
from youden.types.pool import Bools, Floats, Objects, Positions
from youden.types.trials import COMPARISON_COLUMNS


def make_pool(n_agents: int = 5, n_items: int = 6, *, present: Bools | None = None, prompt: bool = True) -> Pool:
    texts = np.empty((n_agents, n_items), dtype=object)
    for i in range(n_agents):
        for j in range(n_items):
            if present is None or present[i, j]:
                texts[i, j] = f"agent {i} says something of item {j}"
    return Pool(
        agents=tuple(Agent(id=f"a{i}", group="even" if i % 2 == 0 else "odd") for i in range(n_agents)),
        items=tuple(Item(id=f"i{j}", prompt=f"item {j}" if prompt else None) for j in range(n_items)),
        texts=texts,
        name="test",
    )


def part_of(pool: Pool, agents: slice = slice(None), items: slice = slice(None)) -> Pool:
    return replace(pool, agents=pool.agents[agents], items=pool.items[items], texts=pool.texts[agents, items])


def starts_with(trials: Trials, other: Trials) -> bool:
    """Return whether these trials begin with those of `other`."""
    first, second = trials.columns(), other.columns()
    names = [name for name in COMPARISON_COLUMNS if name in first]
    same = all(name in second and np.array_equal(first[name][: len(other)], second[name]) for name in names)
    return len(other) <= len(trials) and same


def answer_with(plan: Plan, answer: Floats, *, missing: Bools | None = None) -> Verdicts:
    """Return the verdicts of a judge with these answers, some of them refused."""
    lost = np.zeros(len(plan), dtype=np.bool_) if missing is None else missing
    return Verdicts(
        plan=plan,
        answer=np.where(lost, np.nan, answer),
        hard_answer=np.where(lost, np.nan, (answer >= 0.5).astype(float)),
        missing_reason=np.where(lost, 2, 0).astype(np.int8),
        judge={"name": "test"},
    )


class HeldBlock(VerdictChunk):
    """All rows of a result, in memory."""

    def __init__(self, result: Verdicts) -> None:
        dict.__init__(self, result.plan.trials.columns())
        self.start, self.n_rows = 0, len(result)
        for name in PER_TRIAL:
            if (column := getattr(result, name)) is not None:
                self[name] = column

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name)

    def unread_copy(self) -> VerdictChunk:
        return self

    def read_request_hashes(self, rows: Positions) -> list[bytes]:
        result: list[bytes] = self["request_hash"][rows].tolist()
        return result


def source_of(result: Verdicts) -> TrialSource:
    """Return the input of a report for these answers, without a folder."""
    block = HeldBlock(result)
    return TrialSource(result.plan, [block], result.judge, frozenset(block))


def nothing_predicted(plan: Plan) -> Predictions:
    """Return predictions without agents and items."""
    return Predictions(np.full(plan.n_agents, np.nan), np.full(plan.n_items, np.nan))


def draw_repeats(n_agents: int, n_items: int, n_repeats: int, *, words_per_agent: int) -> list[Objects]:
    """Draw responses that share words on an item: the later the agent, the fewer. One array of texts per repeat."""
    rng = np.random.default_rng(4)
    texts: list[Objects] = []
    for _ in range(n_repeats):
        rows = [
            [
                " ".join(f"w{rng.integers(9 + words_per_agent * agent) + 80 * j}" for _ in range(8))
                for j in range(n_items)
            ]
            for agent in range(n_agents)
        ]
        texts.append(np.array(rows, dtype=object))
    return texts
