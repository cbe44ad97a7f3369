"""An A/A test: each agent's repeats in two halves, ranked as if they were agents. How often is a half told from the other?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from youden.errors import InputError
from youden.pipeline.ranking import differences_of
from youden.stats.trials.noninferiority import decide, look_error
from youden.streams import stream
from youden.types import Trials, Verdicts
from youden.types.pool import Ids
from youden.workflows.gate_answers import outlooks


@dataclass(frozen=True)
class Halves:
    """Over `n_splits` splits of the repeats of `n_agents` agents: how often the halves were told apart, and how often a gate
    called the second worse than the first. Both are the program's own errors: .05 and .025 are what it allows itself."""

    n_agents: int
    n_splits: int
    told_apart: float
    gated_worse: float

    @property
    def words(self) -> str:
        n = self.n_agents * self.n_splits
        return (
            f"Of {n:,} pairs of halves ({self.n_agents} agents, {self.n_splits} splits of their repeats) {self.told_apart:.1%} "
            f"were told apart (5% may), and a gate called {self.gated_worse:.1%} worse (2.5% may). No call was made."
        )


def halves_test(result: Verdicts, *, n_splits: int = 20, seed: int = 0) -> Halves:
    """The answers there are, read as those of 2K agents; halves of one agent never met.

    Raises: InputError [aa-repeats] where no agent showed several responses to an item.
    """
    plan = result.plan
    if plan.trials.first_repeat is None or max(int(side.max()) for side in _shown(plan.trials)) < 2:
        raise InputError(
            "The run's agents gave one response to each item, so there are no halves. Import logs with epochs, or a table with a "
            "column `repeat`, and run that pool.",
            slug="aa-repeats",
        )
    apart: list[float] = []
    worse: list[float] = []
    for split in range(n_splits):
        of_halves = in_halves(result, stream("halves", seed, split))
        found = differences_of(of_halves, target="items-like-these")
        outlook = outlooks(of_halves, None)
        for agent in range(plan.n_agents):
            other = agent + plan.n_agents
            if np.isnan(found.half_width[agent, other]):
                continue
            apart.append(bool(found.apart[agent, other]))
            now = outlook(other, agent).now
            worse.append(decide(now.value, now.half_width(look_error(1)), margin=0.0).verdict == "worse")
    return Halves(plan.n_agents, n_splits, float(np.mean(apart or [0])), float(np.mean(worse or [0])))


def _shown(trials: Trials) -> tuple[Ids, Ids]:
    of = trials.columns()
    return of["first_repeat"], of["second_repeat"]


def in_halves(result: Verdicts, rng: np.random.Generator) -> Verdicts:
    """The same answers, given to halves of agents: agent i is i where it shows a response of its first half, else K + i.

    Each cell's responses are split at random, as evenly as they can be. Halves do not meet the same items and agents, so no
    trial keeps its slot: plain means would not be fair to them.
    """
    plan = result.plan
    K, J = plan.n_agents, plan.n_items
    shown = _shown(plan.trials)
    R = max(int(side.max()) for side in shown)
    half = (rng.random((K, J, R)).argsort(axis=2) + rng.integers(0, 2, (K, J, 1), dtype=np.int64)) % 2
    item, other = plan.trials.text_cells
    first = plan.first + K * half[plan.first, item, shown[0] - 1]
    second = plan.second + K * half[plan.second, other, shown[1] - 1]
    trials = replace(
        plan.trials,
        first=first.astype(np.int32),
        second=second.astype(np.int32),
        slot=np.full_like(plan.slot, -1),
        first_repeat=None,
        second_repeat=None,
    )
    split = replace(plan.split, train=np.tile(plan.split.train, (2, 1)), holdout=np.tile(plan.split.holdout, (2, 1)))
    ids = (*plan.agent_ids, *(f"{agent} (other half)" for agent in plan.agent_ids))
    halved = replace(plan, trials=trials, agent_ids=ids, split=split, rounds=None, extensions=None, source=None)
    return replace(result, plan=halved)
