"""One experiment: a plan is made, its cost is known, it is asked under a cap that others share, measured and decided on.

Calibrate and stress differ in how the plan is made, in what is measured, and in what is decided; asking is here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from youden.data.folder.run_config import RunConfig, with_usual_store
from youden.judging.call.budget import Budget
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.estimate import estimate
from youden.judging.scheduler.options import Asking, check_cap
from youden.judging.scheduler.shutdown import run_until_stopped
from youden.pipeline.verdicts import ask
from youden.protocol.independent import plan_rows
from youden.types import Plan, Pool, Verdicts
from youden.types.planning import Cost
from youden.types.pool import Json


@dataclass(frozen=True, eq=False)
class Experiment:
    """Trials to be asked of a judge: nothing has been asked. store: where answers are kept; cost: of the trials that no other
    experiment asks."""

    name: str
    plan: Plan
    judge: JudgeConfig
    store: str
    cost: Cost

    @property
    def pool(self) -> Pool:
        return self.plan.pool

    @property
    def n_new(self) -> int:
        """Calls that no store answers yet."""
        return self.cost.calls - self.cost.stored

    @property
    def usd_new(self) -> float | None:
        """What these cost; None where a price is unknown."""
        return self.cost.usd if self.cost.usd_left is None else self.cost.usd_left


def plan_experiment(name: str, plan: Plan, *, judge: JudgeConfig, store: str, first_new: int = 0) -> Experiment:
    """first_new: the plan's first trial that no other experiment asks."""
    new = plan_rows(plan, np.arange(first_new, len(plan))) if first_new else plan
    return Experiment(name, plan, judge, store, estimate(new, judge, store=store))


def config_of_pool(source: Path, changes: Mapping[str, Json], usual_store: str | None) -> RunConfig:
    """The run of a pool, called like its file or folder. changes: to it, by key; usual_store: where they name no other."""
    name = re.sub(r"[^\w .+-]", "-", source.resolve().stem).lstrip(" .+-")[:100] or "pool"
    config = RunConfig.model_validate({"name": name, "pool": str(source), **changes})
    return with_usual_store(config, usual_store)


class Answered(NamedTuple):
    """What an experiment was answered. usd: spent on it now."""

    result: Verdicts
    usd: float


def asked_under(
    max_cost: float | None, experiments: Sequence[Experiment], asking: Asking | None = None
) -> Callable[[Experiment], Answered]:
    """Asks each of `experiments` what its store does not hold, under one cap for all.

    asking: the terms. Missing answers stop nothing here: they are what is looked for.

    Raises: ConfigError before any call where the cap does not fit; then as `judge_async`; answers that came are kept.
    """
    check_cap([one.judge for one in experiments], max_cost)
    terms, budget = replace(asking or Asking(), max_cost=max_cost, max_missing=1.0), Budget(max_cost)

    def answered(one: Experiment) -> Answered:
        before = budget.spent
        asked = ask(one.plan, judge=one.judge, store=one.store, asking=terms, budget=budget)
        result = run_until_stopped(asked)
        return Answered(result, budget.spent - before)

    return answered
