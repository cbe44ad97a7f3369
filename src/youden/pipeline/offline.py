"""A run that others ask: any engine by files, more processes on its store, a Ray cluster; and results of other tools.

For an engine what is still to ask goes out as files, and answers come back as files. A plan that comes in rounds goes out and
comes back a round at a time: what a round asks follows from the answers before it. A worker asks a run's plan into the run's
store, on this machine or another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.data.importers.peer_prediction import import_agents, import_results
from youden.data.importers.pool_joiner import refuse_other, write_imported
from youden.engines.ray import Placing, on_ray
from youden.errors import ConfigError
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.estimate import estimate
from youden.judging.offline.exporting import Format, export_requests
from youden.judging.offline.importing_answers import ImportCounts, import_answers
from youden.judging.scheduler.options import Asking, check_cap
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import AnswersMissingError, check_answered
from youden.judging.store.answers import open_store
from youden.judging.store.permission import VARIABLE
from youden.judging.store.worker_group import Team, help_run, lead_run
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import PlannedRun, account_of, answers_of, run_name
from youden.pipeline.planned_run import find_run_plan
from youden.pipeline.request_hashes import kept_keys
from youden.pipeline.run_store import refuse_another_store, run_lock
from youden.text.sentences import counted
from youden.types import Plan, Verdicts


@dataclass(frozen=True)
class Stage:
    """How far a run's answers carry it. plan: as far as its rounds are known. round: of a plan in rounds, from 1; None for a plan
    that is known as a whole."""

    plan: Plan
    round: int | None

    def words(self) -> str:
        """What to say of a plan in rounds; empty for any other."""
        if self.round is None:
            return ""
        return (
            f"this plan comes in rounds, and this is round {self.round}: what the next one asks follows from its answers. Import "
            "them, then export again, until nothing is left"
        )


def stage_of(planned: PlannedRun) -> Stage:
    """The plan as far as the answers in the run's store carry it."""
    plan = planned.plan
    if plan.rounds is None and not planned.config.suspected:
        return Stage(plan, None)
    try:
        plan = answers_of(planned, Asking(stored_only=True), team=None).plan
    except AnswersMissingError as short:
        plan = short.plan
    n_rounds = 1 if plan.rounds is None else len(plan.rounds.starts)
    return Stage(plan, n_rounds + (plan.n_follow_ups > 0))


def export_run(
    planned: PlannedRun, stage: Stage, folder: Path, *, format: Format = "jsonl", shards: int = 1
) -> tuple[int, tuple[Path, ...]]:
    """Write what the run's store has no answer to into the new `folder`. Raises: as `export_requests`."""
    with open_store(planned.config.store_place) as store:
        return export_requests(
            stage.plan, config=planned.judge, store=store, folder=folder, format=format, shards=shards
        )


def import_run(planned: PlannedRun, paths: Sequence[Path]) -> ImportCounts:
    """Take answers at `paths` into the run's store; those to later rounds once the answers before them are there.

    Raises: as `import_answers`; JudgeError [run-busy].
    """
    config = planned.config
    lock = run_lock(config, planned.plan, planned.judge)
    with lock, lead_run(config.store_place, run=run_name(planned)):
        stage, new = stage_of(planned), 0
        while True:
            with open_store(config.store_place) as store:
                taken = import_answers(paths, stage.plan, config=planned.judge, store=store, payer=account_of(config))
            new += taken.new
            before, stage = stage, stage_of(planned)
            if not taken.unknown or len(stage.plan) == len(before.plan):
                taken.there -= new - taken.new
                taken.new = new
                return taken


def plan_work(config: RunConfig) -> PlannedRun:
    """The run's plan, found or drawn as `plan_run` does; nothing is written.

    Raises: as `plan_run`; ConfigError [judge-offline] where the judge makes no calls.
    """
    judge = load_judge_of_run(config)
    if not judge.asks:
        raise _offline(judge, "--worker")
    folder = RunFolder(config.folder)
    found = find_run_plan(config, folder)
    refuse_another_store(config, found.plan, judge)
    cost = estimate(found.plan, judge, store=config.store_place, keys=kept_keys(folder))
    return PlannedRun(config, folder, found.plan, judge, cost)


def _offline(judge: JudgeConfig, option: str) -> ConfigError:
    said = f"The judge '{judge.name}' makes no calls, so there is nothing to share out. Leave {option} out."
    return ConfigError(said, slug="judge-offline")


def work(config: RunConfig, asking: Asking | None = None) -> Verdicts:
    """Ask the run's plan together with all who ask it, until every trial has an answer or a reason why not.

    Answers go into the store that `config` names, nowhere else: no file is written. What others ask is waited for, so that the
    verdicts are those of the whole plan. The cap is the run's: all who ask it spend under it together.

    Raises: as `judge_run`, but for [run-busy].
    """
    return work_on(plan_work(config), asking)


def work_on(planned: PlannedRun, asking: Asking | None = None) -> Verdicts:
    """As `work`, on a plan that is there already."""
    with help_run(planned.config.store_place, run=run_name(planned)) as team:
        verdicts = answers_of(planned, asking, team=team)
    check_answered(verdicts, max_missing=planned.config.max_missing)
    return verdicts


def answers_on_ray(planned: PlannedRun, asking: Asking | None, *, team: Team | None, placing: Placing) -> Verdicts:
    """As `answers_of`, asked by the workers that `placing` places; this process leads the run and asks nothing.

    The plan and the pool are sent to the workers, so that nodes need no files. Keys are looked up in the workers' environment.

    Raises: as `answers_of` and `on_ray`; ConfigError [judge-offline] where the judge makes no calls.
    """
    if team is None or not planned.judge.asks:
        raise _offline(planned.judge, "--engine")
    check_cap([planned.judge], planned.config.max_cost)
    team.asks = False
    team.sync()
    terms = asking or Asking()
    shown, log = 0, ProgressLog(terms.progress)

    def look() -> None:
        nonlocal shown
        shown, before = team.others.answered, shown
        log.advance(max(0, shown - before))

    one_machine = planned.config.store_file is not None
    work = partial(_work, _from_anywhere(planned), replace(terms, progress=None), os.environ.get(VARIABLE))
    log.start(len(planned.plan), what=f"judging by {planned.judge.name}, on Ray")
    try:
        result = on_ray(work, replace(placing, one_machine=one_machine, grace=terms.grace, look=look))
    finally:
        log.stop()
    if team.lost is not None:
        raise team.lost
    return result


def placing_of(config: RunConfig, *, workers: int | None = None, say: Callable[[str], None]) -> Placing:
    """Where the run's config wants workers to go. workers: goes before the config's own."""
    own = {"workers": workers} if workers else {}
    return Placing(config.ray.model_copy(update=own), say=say)


def _work(planned: PlannedRun, asking: Asking, store: str | None) -> Verdicts:
    """On a node. store: what the variable says that a store's password comes from, where the node itself says nothing."""
    if store is not None:
        os.environ.setdefault(VARIABLE, store)
    return work_on(planned, asking)


def _from_anywhere(planned: PlannedRun) -> PlannedRun:
    """The run with paths that mean the same wherever a worker starts."""
    config, file = planned.config, planned.config.store_file
    store = config.store_place if file is None else os.path.abspath(file)
    changes = {"out": os.path.abspath(config.folder), "store": store}
    return replace(planned, config=config.model_copy(update=changes))


JUDGED = ("plan.parquet", "verdicts.parquet")
"""What a run has that was not imported."""


@dataclass(frozen=True)
class ImportedRun:
    """What an import made."""

    kind: Literal["pool", "run"]
    n_agents: int
    n_items: int
    notes: tuple[str, ...]


def import_peer_prediction(path: Path, out: Path) -> ImportedRun:
    """An agents file becomes the pool `out`; a results folder becomes the fitted run `out`.

    Raises: ImportFormatError with the file and the reason, [import-other] where something else stands in `out`.
    """
    if path.is_file():
        pool = import_agents(path)
        write_imported(pool, out)
        missing = f"{counted(pool.n_missing, 'cell', 'has', 'have')} no response"
        return ImportedRun("pool", pool.n_agents, pool.n_items, (missing,))
    results = import_results(path)
    folder = RunFolder(out)
    refuse_other(out, run=JUDGED, again="pool.json")
    folder.write_pool(PoolSummary.of_import(results.agents, results.rates.item_ids, source=str(path)))
    folder.write_rates(results.rates)
    folder.write_notes(results.notes)
    fit_run(folder)
    return ImportedRun("run", results.rates.n_agents, results.rates.n_items, results.notes)
