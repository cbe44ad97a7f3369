"""Plans a run, queries its judge, and writes both into the run's folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.judging.call.budget import Budget
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.estimate import estimate
from youden.judging.scheduler.options import Asking, calibration_account
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import check_answered, run_until_stopped
from youden.judging.store.worker_group import SharedBudget, Team, lead_run
from youden.pipeline.alternative_rankings import check_rules, follow_up
from youden.pipeline.fitted_run import check_judges
from youden.pipeline.planned_run import as_drawn, find_run_plan, refuse_another_run
from youden.pipeline.recovered_answers import with_kept_answers
from youden.pipeline.request_hashes import keep_keys, kept_keys
from youden.pipeline.rounds import run_rounds
from youden.pipeline.run_store import refuse_another_store, run_lock
from youden.pipeline.telemetry import count_answers, trace_step
from youden.pipeline.verdicts import ask
from youden.protocol.blocks import extensions_of
from youden.types import Plan, Pool, Verdicts
from youden.types.planning import Cost


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run up to its plan: nothing has been asked. summary: of its pool, for its folder; None for who writes no files."""

    config: RunConfig
    folder: RunFolder
    plan: Plan
    judge: JudgeConfig
    cost: Cost
    summary: PoolSummary | None = None

    @property
    def pool(self) -> Pool:
        return self.plan.pool


class Answers(Protocol):
    """Gets the answers to a run's plan, and writes nothing but the store."""

    def __call__(self, planned: PlannedRun, asking: Asking | None, *, team: Team | None) -> Verdicts: ...


@trace_step("plan")
def plan_run(config: RunConfig, *, batched: bool = False) -> PlannedRun:
    """Read the pool, load the judge, find or draw the plan, and write plan.parquet, pool.json and config.yaml; where the folder
    holds answers to an earlier state of the plan, it stays as it is until `judge_run` writes the new answers.

    batched: at the prices of the provider's Batch API.

    Raises: PoolError, ConfigError, PlanError; RunFolderError [run-other] where the folder holds answers to another plan.
    """
    judge = load_judge_of_run(config)
    if batched:
        judge = judge.at_batch_prices()
    check_judges(config.target, judge.judges, judge.name)
    folder = RunFolder(config.folder)
    found = find_run_plan(config, folder)
    refuse_another_run(folder, found, judge)
    plan = found.plan
    check_rules(config.terms.rules, plan.agent_ids)
    if judge.asks:
        config = config.model_copy(update={"store": config.store_place})
    refuse_another_store(config, plan, judge)
    folder.remember(plan.pool, config)
    cost = estimate(plan, judge, store=config.store_place, keys=kept_keys(folder))
    summary = PoolSummary.of(plan.pool, source=str(config.pool))
    planned = PlannedRun(as_drawn(config, plan), folder, plan, judge, cost, summary)
    if not (folder.has("verdicts.parquet") and folder.judged_plan() != plan.digest):
        if plan is not found.kept:
            folder.write_plan(plan)
        _write_config(planned)
    return planned


def _write_config(planned: PlannedRun) -> None:
    """Write pool.json and config.yaml, which keeps its record of an unfinished extension."""
    if planned.summary is not None:
        planned.folder.write_pool(planned.summary)
    recorded = planned.folder.recorded_config()
    unfinished = None if recorded is None else recorded.unfinished
    planned.folder.write_config(planned.config.model_copy(update={"unfinished": unfinished}))


def judge_run(
    planned: PlannedRun,
    asking: Asking | None = None,
    *,
    by: Answers | None = None,
    begin: Callable[[], None] = lambda: None,
) -> Verdicts:
    """Query the judge for answers that the store lacks, and write verdicts.parquet.

    verdicts.parquet counts the cost of all invocations of this run, interrupted ones included. An adaptive plan is judged round
    by round, and plan.parquet is written with it. The keys of a large plan's requests are written before it is judged.

    Parameters
    ----------
    planned : PlannedRun
        From `plan_run`.
    asking : Asking, optional
        Terms of the requests. The cost cap, which holds for this invocation alone, and the maximum fraction of missing answers
        are those of the run's config.
    by : Answers, optional
        Gets the answers. Default: this process, by `answers_of`.
    begin : callable, optional
        Called before the first request, once no other process can judge the run.

    Returns
    -------
    Verdicts
        As they are written.

    Raises
    ------
    JudgeError
        [run-busy] if another process judges the run.
    TooManyMissingError
        [too-many-missing], before any file is written. Other errors as `judge_async`. Received answers stay in the store.
    """
    folder, config = planned.folder, planned.config
    lock = run_lock(config, planned.plan, planned.judge)
    led = lead_run(config.store_place, run=run_name(planned)) if planned.judge.asks else nullcontext()
    with lock, led as team:
        begin()
        log = ProgressLog(None if asking is None else asking.progress)
        keep_keys(folder, planned.plan, planned.judge, say=partial(log.say, "keys"))
        facts: dict[str, str | int] = {
            "run": folder.path.name,
            "judge": planned.judge.name,
            "agents": planned.plan.n_agents,
        }
        with trace_step("judge", **facts, calls=len(planned.plan)):
            result = (by or answers_of)(planned, asking, team=team)
        count_answers(result, facts)
        check_answered(result, max_missing=config.max_missing)
        folder.write_plan(result.plan)
        folder.write_verdicts(result)
        _write_config(planned)
    return result


def run_name(planned: PlannedRun) -> str:
    """Return the name of a run in its store: the name of its folder, and the pool that it began with.

    Workers in other directories and on other hosts find the run by this name, so it contains no path.
    """
    return f"{planned.folder.path.resolve().name} {extensions_of(planned.plan).pool[:12]}"


def answers_of(planned: PlannedRun, asking: Asking | None = None, *, team: Team | None) -> Verdicts:
    """As `judge_run`, and nothing is written but the store. team: who asks this run, and spends under its cap, together; each
    learns the whole of it."""
    config = planned.config
    terms = replace(
        asking or Asking(),
        max_cost=config.max_cost,
        max_missing=config.max_missing,
        account=account_of(planned.config) if planned.judge.asks else None,
        team=team,
        keys=kept_keys(planned.folder),
    )
    budget = Budget(config.max_cost)
    if team is not None and config.max_cost is not None:
        budget = SharedBudget(config.max_cost, team)

    def answered(plan: Plan) -> Verdicts:
        asked = ask(plan, judge=planned.judge, store=config.store_place, asking=terms, budget=budget)
        verdicts = run_until_stopped(asked)
        check_answered(verdicts, max_missing=1.0)  # the next round cannot be planned without any answer
        return verdicts

    answer_plan: Callable[[Plan], Verdicts] = answered
    if not terms.stored_only:
        answer_plan = with_kept_answers(answered, planned.folder, config.store_place, planned.judge)
    result = run_rounds(planned.plan, answer_plan, target=config.target)
    if config.suspected:
        result = follow_up(result, answer_plan, share=config.suspected)
    return result


def account_of(config: RunConfig, *, calibrating: bool = False) -> str:
    """Return the cost account of a run, or of the calibrations of its judge.

    A run is known by the path of its folder relative to its store, so that both can be moved together; in a store on a server by
    the folder's name, so that it is the same run on every host.
    """
    account = _beside(config)
    return calibration_account(account) if calibrating else account


def _beside(config: RunConfig) -> str:
    folder, store = config.folder.resolve(), config.store_file
    if store is None:
        return folder.name
    try:
        return Path(os.path.relpath(folder, store.resolve().parent)).as_posix()
    except ValueError:  # two drives
        return folder.as_posix()
