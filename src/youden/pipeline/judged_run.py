"""Plan a run, query its judge, and write plan and verdicts into the run's folder.

Planning sends no request. Only one process at a time judges a run; workers on other machines send requests for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import IncompleteRunError, TooManyMissingError, YoudenError
from youden.judging.call.budget import Budget
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.estimate import estimate
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import check_answered, run_until_stopped
from youden.judging.store.accounts import add_pending_batches, calibration_account, read_run_payments
from youden.judging.store.answers import load_backend_class, open_store, open_store_of_folder
from youden.judging.store.batch_payers import take_over_batches
from youden.judging.store.shared_budget import SharedBudget
from youden.judging.store.worker_group import WorkerGroup, add_unconfirmed_amount, coordinate_run, join_as_worker
from youden.pipeline.alternative_rankings import check_partner_rules
from youden.pipeline.fitted_run import check_target
from youden.pipeline.follow_ups import judge_follow_ups
from youden.pipeline.planned_run import check_same_run, find_run_plan, with_resolved_defaults
from youden.pipeline.recovered_answers import keep_saved_costs, read_saved_hashes, reuse_saved_answers
from youden.pipeline.request_hashes import get_hash_reader, write_missing_hashes
from youden.pipeline.rounds import run_rounds
from youden.pipeline.run_store import check_same_store, run_lock
from youden.pipeline.telemetry import record_answer_counts, trace_step
from youden.pipeline.verdicts import query_judge
from youden.protocol.blocks import get_extensions
from youden.text.printable import format_command
from youden.types import Plan, Pool, Verdicts
from youden.types.payments import RunPayments
from youden.types.planning import Cost


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run that is planned, but not judged.

    Attributes
    ----------
    config : RunConfig
        Config of the run.
    folder : RunFolder
        Folder of the run.
    plan : Plan
        Plan of the run, as far as its rounds are known.
    judge : JudgeConfig
        Judge of the run.
    cost : Cost
        Estimated cost of the plan.
    summary : PoolSummary or None
        Summary of the pool, written to the folder; None for a process that writes no files.
    paid : RunPayments
        What the run has paid over all earlier commands.
    """

    config: RunConfig
    folder: RunFolder
    plan: Plan
    judge: JudgeConfig
    cost: Cost
    summary: PoolSummary | None = None
    paid: RunPayments = field(default_factory=RunPayments)

    @property
    def usd_left(self) -> float | None:
        """Amount in USD that remains of the cost cap of the run; None without a cap."""
        if self.config.max_cost is None:
            return None
        return max(0.0, self.config.max_cost - self.paid.usd_under_cap)

    @property
    def n_affordable(self) -> int | None:
        """Number of remaining calls that the cost cap pays for; None if it pays for all, or if a price is unknown."""
        return self.cost.count_affordable(self.usd_left)

    @property
    def pool(self) -> Pool:
        """Pool that the plan was made from."""
        return self.plan.pool

    @property
    def can_be_partial(self) -> bool:
        """Whether `fit` ranks the run by the first answers that it gets.

        False for a jury, which has no answer to a trial until its last judge has answered, and for a run that is judged
        to its end and is being extended, which keeps its ranking.
        """
        return not self.judge.judges and not self.folder.is_judged


class AnswerCollector(Protocol):
    """Function that collects the answers to a run's plan, and writes only to the store."""

    def __call__(self, planned: PlannedRun, options: JudgingOptions | None, *, team: WorkerGroup | None) -> Verdicts:
        """Query the judge of a planned run and return its verdicts."""
        ...


@trace_step("plan")
def plan_run(config: RunConfig, *, batched: bool = False, pools: Sequence[Pool] | None = None) -> PlannedRun:
    """Plan a run: read the pool, find or draw the plan, and write plan.parquet, pool.json and config.yaml.

    If the folder holds answers to an earlier state of the plan, these files are not written until `judge_run` writes
    the new answers.

    Parameters
    ----------
    config : RunConfig
        Config of the run.
    batched : bool, default False
        Whether to estimate the cost at the prices of the provider's Batch API.
    pools : sequence of Pool, optional
        Result of `read_run_pools(config)`, if the pools have been read.

    Returns
    -------
    PlannedRun
        The run with its `plan`, `judge`, `folder`, estimated `cost` (of all calls, and of those without a stored answer), and
        the amount that it has already paid (`paid`). No request has been sent.

    Raises
    ------
    PoolError, PlanError, ConfigError
        If pool, plan, judge or options do not fit each other.
    StatisticsError
        If the families or the trusted panel of the config do not fit the pool.
    RunFolderError
        [run-mismatch]: if the folder holds answers to another plan; [run-extended]: if its plan has more extensions than the
        config; [run-store]: if another store than the run's own one was given; [run-foreign]: if the folder does not belong to
        a run, but contains files that a run would replace.
    """
    judge = load_judge_of_run(config)
    if batched:
        judge = judge.with_batch_prices()
    check_target(config.target, judge.judges, judge.name)

    folder = RunFolder(config.folder)
    run_plan = find_run_plan(config, folder, pools)
    check_same_run(folder, run_plan, judge)
    plan = run_plan.plan
    check_partner_rules(config.fit_settings.rules, plan.agent_ids)

    # record the store, unless the judge stores no answers
    if judge.stores_new_answers:
        load_backend_class(config.store_location)  # raises if it cannot be a store, before it is recorded
        config = config.model_copy(update={"store": config.store_location})
    check_same_store(config, plan, judge)

    folder.cache_pool(plan.pool, config)
    cost = _estimate_cost(config, judge, plan)
    summary = PoolSummary.from_pool(plan.pool, source=str(config.pool))
    paid = read_payments_of_run(config, judge, plan)
    planned = PlannedRun(with_resolved_defaults(config, plan), folder, plan, judge, cost, summary, paid)
    has_earlier_answers = folder.is_judged and folder.read_judged_plan_digest() != plan.digest
    if not has_earlier_answers:
        if plan is not run_plan.stored_plan:
            folder.write_plan(plan)
        _write_config(planned, account=_find_recorded_account(folder) or get_cost_account(config, plan))
    return planned


def _estimate_cost(config: RunConfig, judge: JudgeConfig, plan: Plan) -> Cost:
    """Estimate the cost of a run. Answers that its store or its folder already has cost nothing."""
    folder = RunFolder(config.folder)
    saved: frozenset[str] = frozenset()
    with suppress(YoudenError):  # a folder that cannot be read has no answers
        saved = read_saved_hashes(folder, judge, plan)
    return estimate(plan, judge, store=config.store_location, keys=get_hash_reader(folder), saved=saved)


def _write_config(planned: PlannedRun, *, account: str) -> None:
    """Write pool.json and config.yaml. If config.yaml records an unfinished extension, the record is kept.

    account : cost account that contains what the run has paid so far
    """
    if planned.summary is not None:
        planned.folder.write_pool(planned.summary)

    config_in_folder = planned.folder.find_config()
    unfinished = None if config_in_folder is None else config_in_folder.unfinished
    resolved = planned.config.resolved
    if resolved is not None:
        resolved = resolved.model_copy(update={"account": account})
    planned.folder.write_config(planned.config.model_copy(update={"unfinished": unfinished, "resolved": resolved}))


def _find_recorded_account(folder: RunFolder) -> str | None:
    """Return the cost account that the config in a run's folder records; None if there is none."""
    recorded = folder.find_config()
    return recorded.resolved.account if recorded is not None and recorded.resolved is not None else None


def _record_account(folder: RunFolder, account: str) -> None:
    """Record another cost account in the config of a run's folder, if the folder was renamed or copied."""
    recorded = folder.find_config()
    if recorded is None or recorded.resolved is None or recorded.resolved.account in (None, account):
        return
    resolved = recorded.resolved.model_copy(update={"account": account})
    folder.write_config(recorded.model_copy(update={"resolved": resolved}))


def judge_run(
    planned: PlannedRun,
    options: JudgingOptions | None = None,
    *,
    collect: AnswerCollector | None = None,
    on_start: Callable[[], None] = lambda: None,
) -> Verdicts:
    """Query the judge for answers that the store lacks, and write verdicts.parquet.

    The cost cap limits what this command and all earlier commands of the run pay together. The costs in verdicts.parquet also
    include earlier and interrupted commands. An adaptive plan is judged round by round. The files plan.parquet, pool.json and
    config.yaml are written together with the verdicts. The request hashes of a large plan are written before it is judged. The
    run is not fitted.

    Parameters
    ----------
    planned : PlannedRun
        Result of `plan_run`.
    options : JudgingOptions, optional
        Options of the requests. The cost cap and the maximum fraction of missing answers are taken from the run's config.
    collect : AnswerCollector, optional
        Function that collects the answers. Default: `collect_answers`, in this process.
    on_start : callable, optional
        Called without arguments before the first request, once no other process can judge the run. Default: nothing is called.

    Returns
    -------
    Verdicts
        Verdicts as they are written, with the plan of all rounds.

    Raises
    ------
    JudgeError
        [run-busy] if another process judges the run; other slugs if the judge cannot be used.
    ReplayMissError
        If the judge is a replay and lacks an answer.
    RunFolderError
        [run-store] if the store lacks answers that the run's own store holds.
    BudgetError
        If the cost cap is reached. verdicts.parquet is not written; received answers stay in the store.
    TooManyMissingError
        [too-many-missing] if more answers are missing than the config allows. verdicts.parquet is not written; received answers
        stay in the store.
    IncompleteRunError
        If the server cannot be reached for longer than the outage limit, or the state of a batch is unknown.
    """
    folder, config = planned.folder, planned.config
    lock = run_lock(config, planned.plan, planned.judge)

    # a judge that stores no answers has no workers to coordinate
    coordination = join_group(planned) if planned.judge.stores_new_answers else nullcontext()
    with lock, coordination as team:
        if team is not None:
            _record_account(folder, team.account)  # the group has booked the payments of an earlier account to it
        on_start()
        log = ProgressLog(None if options is None else options.progress)
        write_missing_hashes(folder, planned.plan, planned.judge, log=partial(log.announce, "keys"))

        # collect the answers
        collect = collect or collect_answers
        facts: dict[str, str | int] = {
            "run": folder.path.name,
            "judge": planned.judge.name,
            "agents": planned.plan.n_agents,
        }
        try:
            with trace_step("judge", **facts, calls=len(planned.plan)):
                result = collect(planned, options, team=team)
        except IncompleteRunError as error:
            can_be_ranked = team is not None and _has_answers(planned, team) and planned.can_be_partial
            if can_be_ranked and not isinstance(error, TooManyMissingError):
                command = format_command(["youden", "fit", str(folder.path)])
                error.add(f"`{command}` ranks by the answers so far.")
            raise

        # write them
        record_answer_counts(result, facts)
        check_answered(result, max_missing=config.max_missing)
        result = keep_saved_costs(result, folder, planned.judge)
        result = replace(result, paid=read_payments_of_run(config, planned.judge, planned.plan))
        folder.write_plan(result.plan)
        folder.write_verdicts(result)
        _write_config(planned, account=get_cost_account(config, planned.plan))
    return result


def _has_answers(planned: PlannedRun, team: WorkerGroup) -> bool:
    """Return whether the store has an answer to the plan, from before this invocation or from its processes."""
    return planned.cost.stored + team.answered + team.others.answered > 0


def join_group(planned: PlannedRun, *, is_coordinator: bool = True) -> AbstractContextManager[WorkerGroup]:
    """Join the group of processes that send requests for a run and share its cost cap, as its coordinator or as a worker."""
    store, run = planned.config.store_location, get_run_name(planned.folder, planned.plan)
    account = get_cost_account(planned.config, planned.plan)
    if not is_coordinator:
        return join_as_worker(store, run=run, account=account)
    _take_over_batches(planned, account)
    return coordinate_run(store, run=run, account=account, saved=_read_saved_payments(planned.config, planned.plan))


def get_run_name(folder: RunFolder, plan: Plan) -> str:
    """Return the name of a run in its store, made of the name of its folder and the pool that it began with.

    Workers in other directories and on other hosts find the run by this name, so it contains no path.
    """
    return f"{folder.path.resolve().name} {get_extensions(plan).pool[:12]}"


def _take_over_batches(planned: PlannedRun, account: str) -> None:
    """Let a run whose folder was renamed pay for its batches in progress. A copy does not pay for those of the original."""
    config = planned.config
    old_account = _find_recorded_account(planned.folder)
    if old_account in (None, account) or config.store_file is None:
        return
    old_folder = config.store_file.resolve().parent / old_account
    if not old_folder.exists():
        with open_store(config.store_location) as store:
            take_over_batches(store, old_account, account)


def collect_answers(
    planned: PlannedRun, options: JudgingOptions | None = None, *, team: WorkerGroup | None
) -> Verdicts:
    """Collect the answers to a run's plan, with all its rounds and follow-ups, and write only to the store.

    Parameters
    ----------
    planned : PlannedRun
        The run. The cost cap and the maximum fraction of missing answers are taken from its config.
    options : JudgingOptions, optional
        Options of the requests.
    team : WorkerGroup or None
        Processes that send requests for this run and share its cost cap; None for a judge that makes no calls.

    Returns
    -------
    Verdicts
        Answers to the plan with all its rounds and follow-up trials.

    Raises
    ------
    JudgeError, BudgetError, TooManyMissingError, ReplayMissError
        If the judge cannot be used, the cost cap is reached, no trial has an answer or significantly more answers are missing
        than the config allows, or a replay lacks an answer. Received answers stay in the store.
    IncompleteRunError
        If the server cannot be reached for longer than the outage limit; with `options.stored_only`, if the store lacks an
        answer.
    """
    config = planned.config
    account = None
    if planned.judge.stores_new_answers:
        account = get_cost_account(config, planned.plan) if team is None else team.account
    options = replace(
        options or JudgingOptions(),
        max_cost=config.max_cost,
        max_missing=config.max_missing,
        account=account,
        team=team,
        keys=get_hash_reader(planned.folder),
    )
    budget = Budget(config.max_cost)
    if team is not None and config.max_cost is not None:
        budget = SharedBudget(config.max_cost, team)

    def judge_plan(plan: Plan) -> Verdicts:
        """Query the judge on the trials of a plan whose answers the store lacks."""
        task = query_judge(plan, judge=planned.judge, store=config.store_location, options=options, budget=budget)
        return run_until_stopped(task)

    judge_or_reuse: Callable[[Plan], Verdicts] = judge_plan
    if not options.stored_only:
        judge_or_reuse = reuse_saved_answers(judge_plan, planned.folder, config.store_location, planned.judge)

    def judge_round(plan: Plan) -> Verdicts:
        """Return the verdicts of a plan, and check that it has an answer, without which no further round can be planned."""
        verdicts = judge_or_reuse(plan)
        check_answered(verdicts, max_missing=1.0)
        return verdicts

    result = run_rounds(planned.plan, judge_round, target=config.target)
    if config.follow_up_fraction:
        result = judge_follow_ups(result, judge_round, share=config.follow_up_fraction)
    return result


def get_cost_account(config: RunConfig, plan: Plan, *, calibrating: bool = False) -> str:
    """Return the name of the cost account of a run, or of the calibrations of its judge.

    The name is the path of the run's folder relative to its store, so that both can be moved together. In a store on a
    server, it is the name of the run (`get_run_name`), so that the run has one account on all hosts.

    Parameters
    ----------
    config : RunConfig
        Config of the run.
    plan : Plan
        Plan of the run, with or without its trials.
    calibrating : bool, default False
        Whether to return the account of the calibrations.

    Returns
    -------
    str
        Path of the run's folder or name of the run, or the name of the calibrations' account that is derived from it.
    """
    if config.store_file is None:
        account = get_run_name(RunFolder(config.folder), plan)
    else:
        account = _get_relative_path(config.folder, config.store_file)
    return calibration_account(account) if calibrating else account


def read_payments_of_run(config: RunConfig, judge: JudgeConfig, plan: Plan) -> RunPayments:
    """Return what a run has paid over all commands, including what killed processes may have paid.

    The amounts are read from the cost account of the run in its store. An account belongs to the path or name of a folder, so it
    may lack payments if the folder was renamed or copied. If the folder records larger amounts (`_read_saved_payments`), these
    are returned instead. A store that cannot be read is ignored, and nothing is written.

    config : config of the run, with its folder and store
    judge : judge of the run; all amounts are 0 if it stores no answers
    plan : plan of the run, with or without its trials

    Returns the amounts in USD. Those that count towards the cost cap of the run are in `usd_under_cap`. Requests of unknown cost
    are not in the amounts; `n_unknown` is their number.
    """
    if not judge.stores_new_answers:
        return RunPayments()
    booked = RunPayments()
    with suppress(YoudenError), open_store_of_folder(config.store_location) as store:
        run_name = get_run_name(RunFolder(config.folder), plan)
        account = get_cost_account(config, plan)
        confirmed = read_run_payments(store, account)
        booked = add_unconfirmed_amount(store, run_name, account, confirmed)
    return _max_payments(booked, _read_saved_payments(config, plan))


def _read_saved_payments(config: RunConfig, plan: Plan) -> RunPayments:
    """Return the payments that a run's folder records.

    These are the payments in verdicts.parquet, or those in the cost account that config.yaml names, whichever are larger.
    config.yaml names another account than the present one if the folder was renamed or copied. The old account pays for its
    batches in progress, so their largest possible cost is in the unconfirmed amount. Payments that cannot be read are ignored.
    """
    folder = RunFolder(config.folder)
    in_verdicts = in_old_account = RunPayments()
    with suppress(YoudenError):
        in_verdicts = folder.read_saved_payments()
    with suppress(YoudenError):
        old_account = _find_recorded_account(folder)
        if old_account is not None and old_account != get_cost_account(config, plan):
            with open_store_of_folder(config.store_location) as store:
                in_old_account = add_pending_batches(store, old_account, read_run_payments(store, old_account))
    return _max_payments(in_verdicts, in_old_account)


def _max_payments(a: RunPayments, b: RunPayments) -> RunPayments:
    """Return the larger one of each amount."""
    return RunPayments(*map(max, astuple(a), astuple(b)))


def _get_relative_path(folder: Path, store_file: Path) -> str:
    """Return the path of a run's folder relative to the folder of its store.

    The store identifies the run by this path. A relative path stays valid if the run and its store are moved together. The
    result is the absolute path if the run and the store are on different drives.
    """
    folder = folder.resolve()
    try:
        relative_path = os.path.relpath(folder, store_file.resolve().parent)
        return Path(relative_path).as_posix()
    except ValueError:  # the folder and the store are on different drives
        return folder.as_posix()
