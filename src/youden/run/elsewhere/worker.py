"""A worker: one more process that asks a run's plan into the run's store, on this machine or another."""

from __future__ import annotations

from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.judging.asking.terms import Asking
from youden.judging.config.reading import load_judge_config
from youden.judging.estimate import estimate
from youden.judging.registry import REPLAY
from youden.judging.store.asked_alone import asked_together
from youden.nouns import Verdicts
from youden.run.keys import kept_keys
from youden.run.pipeline import PlannedRun, answers_of, run_name
from youden.run.plan import find_run_plan


def plan_work(config: RunConfig) -> PlannedRun:
    """The run's plan, found or drawn as `plan_run` does; nothing is written.

    Raises: as `plan_run`; ConfigError [worker-offline] where the judge makes no calls.
    """
    judge = load_judge_config(config.judge)
    if not judge.needs_store or judge.backend == REPLAY:
        raise ConfigError(
            f"The judge '{judge.name}' makes no calls, so there is nothing to share out. Leave --worker out.",
            slug="worker-offline",
        )
    folder = RunFolder(config.folder)
    found = find_run_plan(config, folder)
    cost = estimate(found.plan, found.pool, judge, store=config.store_place, keys=kept_keys(folder))
    return PlannedRun(config, folder, found.pool, found.plan, judge, cost)


def work(config: RunConfig, asking: Asking | None = None) -> Verdicts:
    """Ask the run's plan together with all who ask it, until every trial has an answer or a reason why not.

    Answers go into the store that `config` names, nowhere else: no file is written. What others ask is waited for, so that the
    verdicts are those of the whole plan. The cap is the run's: all who ask it spend under it together.

    Raises: as `judge_run`, but for [run-busy].
    """
    return work_on(plan_work(config), asking)


def work_on(planned: PlannedRun, asking: Asking | None = None) -> Verdicts:
    """As `work`, on a plan that is there already."""
    with asked_together(planned.config.store_place, run=run_name(planned)) as team:
        return answers_of(planned, asking, team=team)
