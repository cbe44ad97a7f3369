"""Collect the answers to a run elsewhere: through exchanged files, by worker processes, or on a Ray cluster.

Requests are exported as files, and the answers are imported. A plan in rounds is exchanged round by round, because each
round depends on the answers before it. Workers, on this machine or others, send requests and write only to the run's
store. Results of the peer-prediction code and battles are imported, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.data.importers.foreign_files import MAX_DROPPED, import_error
from youden.data.importers.output_folder import RUN_FILES, check_output_folder, write_imported_pool
from youden.data.importers.peer_prediction import import_agents, import_results
from youden.engines.ray import RayPlacement, run_on_ray
from youden.errors import ConfigError, StatisticsError
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.estimate import estimate
from youden.judging.offline.exporting import Format, export_requests
from youden.judging.offline.importing_answers import ImportCounts, import_answers
from youden.judging.scheduler.options import JudgingOptions, check_cap
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import AnswersMissingError, check_answered
from youden.judging.store.answers import open_store
from youden.judging.store.permission import VARIABLE
from youden.judging.store.worker_group import WorkerGroup
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import PlannedRun, collect_answers, get_cost_account, join_group
from youden.pipeline.planned_run import find_run_plan
from youden.pipeline.request_hashes import get_hash_reader
from youden.pipeline.run_store import check_same_store, run_lock
from youden.text.sentences import format_count
from youden.types import Agent, Plan, Verdicts


@dataclass(frozen=True)
class KnownRounds:
    """The rounds of a run's plan that are known from its answers so far.

    Attributes
    ----------
    plan : Plan
        Plan as far as its rounds are known.
    round : int or None
        Number of the last known round, from 1; None for a plan without rounds.
    """

    plan: Plan
    round: int | None

    def describe(self) -> str:
        """Describe the round, and what follows after it; empty for a plan without rounds."""
        if self.round is None:
            return ""
        return (
            f"this plan is made in rounds, and this is round {self.round}: its answers decide the next one. Import them, then "
            "export again, until nothing is left"
        )


def find_known_rounds(planned: PlannedRun) -> KnownRounds:
    """Plan all rounds of a run that its stored answers determine.

    Adaptive designs plan their trials in rounds. A round is planned from the answers to all earlier rounds, so these must be in
    the store. No request is sent.

    Parameters
    ----------
    planned : PlannedRun
        The run.

    Returns
    -------
    KnownRounds
        The plan with these rounds, and their number. Follow-up trials, which test for copied responses, count as one more
        round. The number is None for a run whose trials are all planned at once.

    Raises
    ------
    ConfigError, JudgeError
        If the store cannot be read, or the judge cannot be used.
    """
    is_planned_at_once = planned.plan.rounds is None and not planned.config.follow_up_fraction
    if is_planned_at_once:
        return KnownRounds(planned.plan, None)

    try:
        verdicts = collect_answers(planned, JudgingOptions(stored_only=True), team=None)  # without worker processes
    except AnswersMissingError as error:
        plan = error.plan  # up to the first round with a missing answer
    else:
        plan = verdicts.plan

    n_rounds = 1 if plan.rounds is None else len(plan.rounds.starts)
    if plan.n_follow_ups > 0:
        n_rounds += 1
    return KnownRounds(plan, n_rounds)


def export_run(
    planned: PlannedRun, known_rounds: KnownRounds, folder: Path, *, format: Format = "jsonl", shards: int = 1
) -> tuple[int, tuple[Path, ...]]:
    """Export the requests that the run's store has no answer to.

    Requests are left out if the store records that they were rejected, or if they exceed the context of the model.

    Parameters
    ----------
    planned : PlannedRun
        The run. If its store does not exist, an empty one is created.
    known_rounds : KnownRounds
        Part of its plan to export, as returned by `find_known_rounds`.
    folder : Path
        New or empty folder for the files; missing parents are created. Each judge of a jury gets a subfolder.
    format : {"jsonl", "parquet"}, default "jsonl"
        Format of the files.
    shards : int, default 1
        Number of files per judge; fewer are written if there are fewer requests. A number below 1 counts as 1.

    Returns
    -------
    tuple of (int, tuple of Path)
        Number of requests, and the files with requests. Each folder also gets an export.json that describes them. If the store
        has all answers, nothing is written: 0 and ().

    Raises
    ------
    InputError
        [export-no-calls]: if the judge makes no calls; [export-not-empty]: if the folder is not empty; [export-failed]:
        if it cannot be written.
    ConfigError, JudgeError
        If the store cannot be opened.
    """
    with open_store(planned.config.store_location) as store:
        return export_requests(
            known_rounds.plan, config=planned.judge, store=store, folder=folder, format=format, shards=shards
        )


def import_run(planned: PlannedRun, paths: Sequence[Path]) -> ImportCounts:
    """Import answers into the run's store, round by round if the plan has rounds.

    Parameters
    ----------
    planned : PlannedRun
        The run.
    paths : sequence of Path
        Files or folders with answers.

    Returns
    -------
    ImportCounts
        Numbers of new answers, of answers that were stored before, of failures, and of answers that could not be used.

    Raises
    ------
    InputError
        [import-no-file], [import-unreadable], [import-columns]: if there are no files of answers, or one cannot be
        read; [import-nothing], [import-other-plan]: if no answer belongs to this plan.
    JudgeError
        [run-busy]: if another process judges the run; [import-rejected]: if all requests were rejected.
    """
    config = planned.config
    lock = run_lock(config, planned.plan, planned.judge)
    with lock, join_group(planned):
        plan = find_known_rounds(planned).plan
        n_new_before = 0  # answers that were imported by earlier passes of the loop
        while True:
            with open_store(config.store_location) as store:
                counts = import_answers(
                    paths, plan, config=planned.judge, store=store, account=get_cost_account(config, plan)
                )

            # repeat while answers are left that may belong to the next round
            longer_plan = find_known_rounds(planned).plan
            has_next_round = len(longer_plan) > len(plan)
            if not counts.n_unknown or not has_next_round:
                break
            n_new_before += counts.n_new
            plan = longer_plan

        # the last pass read the answers of all earlier passes again, and counted them as stored before the import
        counts.n_new += n_new_before
        counts.n_stored -= n_new_before
        return counts


def plan_worker_run(config: RunConfig) -> PlannedRun:
    """Plan a run for a worker process.

    A worker sends requests for the run, but writes no file.

    Raises ConfigError [judge-offline] if the judge makes no calls, so that a worker has nothing to send. Raises PoolError,
    PlanError, ConfigError or RunFolderError if the run cannot be planned.
    """
    judge = load_judge_of_run(config)
    if not judge.stores_new_answers:
        raise _make_offline_judge_error(judge, "--worker")
    folder = RunFolder(config.folder)
    run_plan = find_run_plan(config, folder)
    check_same_store(config, run_plan.plan, judge)
    cost = estimate(run_plan.plan, judge, store=config.store_location, keys=get_hash_reader(folder))
    return PlannedRun(config, folder, run_plan.plan, judge, cost)


def _make_offline_judge_error(judge: JudgeConfig, option: str) -> ConfigError:
    """Return the error for workers of a judge that makes no calls; `option` is the one to remove."""
    message = f"The judge '{judge.name}' makes no calls, so workers have nothing to do. Remove {option}."
    return ConfigError(message, slug="judge-offline")


def run_worker(config: RunConfig, options: JudgingOptions | None = None) -> Verdicts:
    """Send requests of a run together with other workers, until every trial has an answer or a reason why it has none.

    Answers are written to the store of `config`, and no file is written. The function waits for the requests of other workers,
    so that it returns the verdicts of the whole plan. All workers share the cost cap of the run.

    Parameters
    ----------
    config : RunConfig
        Config of the run.
    options : JudgingOptions, optional
        Options of the requests.

    Returns
    -------
    Verdicts

    Raises
    ------
    PoolError, PlanError, ConfigError, RunFolderError
        If the run cannot be planned; [judge-offline]: if the judge makes no calls.
    JudgeError, BudgetError, TooManyMissingError
        If the judge cannot be used, the cost cap is reached, or more answers are missing than the config allows.
    """
    return join_run(plan_worker_run(config), options)


def join_run(planned: PlannedRun, options: JudgingOptions | None = None) -> Verdicts:
    """Send requests of a run as one of several workers, and return its verdicts.

    The workers are processes, possibly on several machines, that share the store and the cost cap of the run. Each worker
    also waits for the requests of the others. No file is written to the folder of the run.

    planned : the run, with its plan and judge
    options : options of the requests; None for the defaults

    Raises JudgeError, BudgetError or TooManyMissingError if the judge cannot be used, the cost cap is reached, or more
    answers are missing than the config allows.
    """
    with join_group(planned, is_coordinator=False) as team:
        verdicts = collect_answers(planned, options, team=team)
    check_answered(verdicts, max_missing=planned.config.max_missing)
    return verdicts


def collect_answers_on_ray(
    planned: PlannedRun, options: JudgingOptions | None, *, team: WorkerGroup | None, placing: RayPlacement
) -> Verdicts:
    """Collect the answers to a run by workers on a Ray cluster; this process coordinates them and sends no request.

    The plan and the pool are sent to the workers, so nodes need no files. API keys are read from the environment of the workers.

    Parameters
    ----------
    planned : PlannedRun
        The run.
    options : JudgingOptions or None
        Options of the requests; None for the defaults. The cost cap and the maximum fraction of missing answers are taken from
        the config of the run.
    team : WorkerGroup or None
        Processes that work on this run; this process coordinates them. None for a judge that makes no calls, for which
        [judge-offline] is raised.
    placing : RayPlacement
        Number and resources of the workers, from `resolve_placement`.

    Returns
    -------
    Verdicts
        Answers to the whole plan, with its rounds and follow-ups. They are in the store; no file of the run is written.

    Raises
    ------
    ConfigError
        [judge-offline]: if the judge makes no calls; [max-cost-needed] and others if the cost cap does not fit the judge, or Ray
        cannot be used.
    JudgeError, BudgetError, TooManyMissingError
        If the judge cannot be used, the cost cap is reached, or more answers are missing than the config allows.
    IncompleteRunError
        [ray-workers]: if all workers are lost.
    """
    if team is None or not planned.judge.stores_new_answers:
        raise _make_offline_judge_error(planned.judge, "--engine")
    check_cap([planned.judge], planned.config.max_cost)
    team.sends_requests = False
    team.sync()
    options = options or JudgingOptions()
    log = ProgressLog(options.progress)
    n_reported = 0

    def report_progress() -> None:
        nonlocal n_reported
        n_answered = team.others.answered
        log.advance(max(0, n_answered - n_reported))
        n_reported = n_answered

    one_machine = planned.config.store_file is not None
    task = partial(
        _send_requests_on_node, _with_absolute_paths(planned), replace(options, progress=None), os.environ.get(VARIABLE)
    )
    log.start(len(planned.plan), what=f"judging by {planned.judge.name}, on Ray")
    try:
        result = run_on_ray(
            task, replace(placing, one_machine=one_machine, grace=options.grace, on_tick=report_progress)
        )
    finally:
        log.stop()
    if team.report_error is not None:
        raise team.report_error
    return result


def resolve_placement(
    config: RunConfig, *, workers: int | None = None, on_message: Callable[[str], None]
) -> RayPlacement:
    """Resolve how many workers start on a Ray cluster, and with which resources.

    Parameters
    ----------
    config : RunConfig
        Config of the run.
    workers : int, optional
        Number of workers, not negative (not checked); None or 0 for the number in the config.
    on_message : callable
        Function that is called with a line of text about the workers at each change while they run.

    Returns
    -------
    RayPlacement
        Number of workers, and the CPUs, GPUs and other resources of each. If neither `workers` nor the config sets the number,
        it is None, which means one worker per node. The cluster is not contacted, so it may lack these resources.
    """
    overrides = {"workers": workers} if workers else {}
    return RayPlacement(config.ray.model_copy(update=overrides), on_status=on_message)


def _send_requests_on_node(planned: PlannedRun, options: JudgingOptions, store_variable: str | None) -> Verdicts:
    """Send requests on a node; `store_variable` is the value of YOUDEN_STORE for a node that does not set it."""
    if store_variable is not None:
        os.environ.setdefault(VARIABLE, store_variable)
    return join_run(planned, options)


def _with_absolute_paths(planned: PlannedRun) -> PlannedRun:
    """Return the run with absolute paths, so that workers may start in any directory."""
    config = planned.config
    store = config.store_location
    if config.store_file is not None:
        store = os.path.abspath(config.store_file)
    paths = {"out": os.path.abspath(config.folder), "store": store}
    return replace(planned, config=config.model_copy(update=paths))


_JUDGED_FILES = ("plan.parquet", "verdicts.parquet")
"""Files of a run that was judged, not imported."""


@dataclass(frozen=True)
class ImportedRun:
    """What `import_peer_prediction` has written: a pool or a fitted run.

    Attributes
    ----------
    kind : {"pool", "run"}
        Whether responses or results were imported.
    n_agents, n_items : int
        Numbers of agents and items.
    notes : tuple of str
        Remarks about the import.
    """

    kind: Literal["pool", "run"]
    n_agents: int
    n_items: int
    notes: tuple[str, ...]


def import_peer_prediction(path: Path, out: Path) -> ImportedRun:
    """Import data that the code of the peer-prediction paper has written.

    A file of agents with their responses becomes a pool. A folder of results becomes a run, which is also fitted.

    Parameters
    ----------
    path : Path
        File of agents, or folder of results.
    out : Path
        Folder of the pool or run to write.

    Returns
    -------
    ImportedRun
        What was written: a pool or a run, its numbers of agents and items, and remarks about the import.

    Raises
    ------
    ImportFormatError
        If the data cannot be read; [out-not-empty]: if `out` contains other files.
    """
    if path.is_file():
        pool = import_agents(path)
        write_imported_pool(pool, out)
        note = f"{format_count(pool.n_missing, 'cell', 'has', 'have')} no response"
        return ImportedRun("pool", pool.n_agents, pool.n_items, (note,))

    results = import_results(path)
    check_output_folder(out, run_files=_JUDGED_FILES, last_file="pool.json")
    folder = RunFolder(out)
    folder.write_pool(PoolSummary.from_import(results.agents, results.rates.item_ids, source=str(path)))
    folder.write_rates(results.rates)
    folder.write_notes(results.notes)
    fit_run(folder)
    return ImportedRun("run", results.rates.n_agents, results.rates.n_items, results.notes)


def _check_winners(path: Path, verdicts: Verdicts) -> None:
    """Check that nearly all imported battles, which are recorded comparisons of two agents, have a winner.

    If many winners are missing, the columns of the file may have been misread. The import then stops, and the user can allow
    it.

    path : file of the battles, for the message
    verdicts : battles as answers; a battle without a winner is unanswered

    Raises ImportFormatError [import-dropped] if more than the fraction `MAX_DROPPED` of the battles have no winner.
    """
    n_dropped = int((~verdicts.answered).sum())
    n_battles = len(verdicts.answer)
    if n_dropped > MAX_DROPPED * n_battles:
        problem = (
            f"{n_dropped:,} of {n_battles:,} battles have no winner; the limit is {MAX_DROPPED:.0%}. Add the winners, or run "
            "`youden import battles … --allow-dropped` to import the others."
        )
        raise import_error(path, problem, slug="import-dropped")


def import_battles(path: Path, out: Path, *, columns: Mapping[str, str], allow_dropped: bool = False) -> RunFolder:
    """Import battles, recorded comparisons of two agents with a winner, as a judged run without texts, and fit it.

    Parameters
    ----------
    path : Path
        CSV, TSV, Excel, JSON, JSONL or Parquet file.
    out : Path
        Folder of the new run.
    columns : mapping of str to str
        Role → name of its column, for the roles model_a, model_b, winner, item, order and judge. A role that is not in the
        mapping is read from the column with its name, or with another common name (see `read_battles`). A winner is the name of a
        model, a word (for example model_a, model_b or tie), or, in all rows, a preference for model_a from 0 to 1. Without an
        order, model_a counts as shown first; without an item, each battle is a separate item.
    allow_dropped : bool, default False
        Whether to import the battles even if more than 1% have no winner. These become missing answers.

    Returns
    -------
    RunFolder
        The fitted run, which asks for preferences. Its plan, verdicts and tables are written to `out`.

    Raises
    ------
    ImportFormatError
        If the file cannot be read, with the reason; [battles-columns]: if a column is missing or a role is unknown;
        [battles-value]: if a winner or an order is unknown; [import-agents]: if a name cannot be an id; [import-empty]: if no
        battle of two models is left; [out-not-empty]: if `out` contains other files; [import-dropped]: if more than 1% of the
        battles have no winner; [trial-none], [cluster-agents]: if fewer than 2 agents have battles on 2 items. After an error, no
        file of the run remains.
    """
    from youden.data.importers.battles import read_battles  # loads pandas

    verdicts = read_battles(path, columns=columns)
    if not allow_dropped:
        _check_winners(path, verdicts)
    check_output_folder(out, last_file="pool.json")
    plan = verdicts.plan
    agents = tuple(Agent(agent_id) for agent_id in plan.agent_ids)
    folder = RunFolder(out)
    folder.write_pool(PoolSummary.from_import(agents, plan.item_ids, source=str(path)))
    folder.write_plan(plan)
    folder.write_verdicts(verdicts)

    # if the fit fails, remove the files of the run, so that the import can be repeated
    try:
        fit_run(folder)
    except BaseException as error:
        for file in RUN_FILES:
            folder.file(file).unlink(missing_ok=True)
        if not isinstance(error, StatisticsError):
            raise
        problem = (
            "fewer than 2 agents have battles with a winner on 2 items. Add battles of these agents on more items."
        )
        raise import_error(path, problem, slug=error.slug) from error
    return folder
