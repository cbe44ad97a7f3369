"""Read the answers so far of an unfinished run, so that `fit` can rank its agents before the run is finished.

They are written to verdicts.parquet like those of a finished run, and its other trials are marked as pending. Commands
that need all answers refuse such a run, and `youden run` finishes it.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from youden.data.folder.folder_lock import folder_lock
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.estimate import estimate_by_characters
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.scheduler.shutdown import AnswersMissingError, check_answered, run_until_stopped
from youden.judging.store.permission import check_store_allowed
from youden.pipeline.judged_run import PlannedRun, collect_answers, get_cost_account, read_payments_of_run
from youden.pipeline.planned_run import is_same_judge
from youden.pipeline.recovered_answers import reuse_saved_answers
from youden.pipeline.request_hashes import get_hash_reader
from youden.pipeline.verdicts import query_judge
from youden.text.printable import redact_location
from youden.types import Plan, Verdicts

_LOG = logging.getLogger(__name__)


def write_answers_so_far(folder: RunFolder) -> None:
    """Write the stored answers of an unfinished run to verdicts.parquet, with all other trials as pending.

    A run that is judged to its end, an imported run, and a run of a judge that makes no calls are left as they are.
    Nothing is sent, and the store is not changed. If verdicts.parquet has more outcomes than the store, for example
    because the store was moved, it is kept, and a warning is logged.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.

    Raises
    ------
    RunFolderError
        [run-unjudged]: if the run has no answers yet.
    TooManyMissingError
        [too-many-missing]: if more of the trials that are done have no answer than the config allows.
    JudgeError
        [run-busy]: if another process judges the run.
    ConfigError
        [store-not-opened]: if the store is on a network and the user did not name it; others if the store or the judge
        cannot be used.
    """
    if folder.is_judged or not (folder.has("plan.parquet") and folder.has("config.yaml")):
        return
    config = folder.read_config()
    judge = load_judge_of_run(config)
    if not judge.stores_new_answers:
        return
    check_store_allowed(config.store_location)
    n_saved = _count_saved_outcomes(folder, judge)
    is_store_deleted = config.store_file is not None and not config.store_file.is_file()
    if is_store_deleted and n_saved == 0:
        raise folder.make_unjudged_error()
    if is_store_deleted:
        _warn_kept_outcomes(config, folder, n_saved, n_stored=0)
        return

    with folder_lock(folder.path):
        plan = _find_plan_so_far(config, folder, judge)
        verdicts = _read_answers_so_far(config, folder, judge, plan)
        n_stored = len(verdicts) - verdicts.n_pending
        if n_stored < n_saved:
            _warn_kept_outcomes(config, folder, n_saved, n_stored=n_stored)
            return
        if n_stored == 0:
            raise folder.make_unjudged_error(_describe_votes(verdicts, judge))
        check_answered(verdicts, max_missing=config.max_missing)
        verdicts = replace(verdicts, paid=read_payments_of_run(config, judge, verdicts.plan))
        folder.write_plan(verdicts.plan)
        folder.write_verdicts(verdicts)


def _count_saved_outcomes(folder: RunFolder, judge: JudgeConfig) -> int:
    """Count the trials in verdicts.parquet of a run folder that have an answer or have failed.

    Pending trials are not counted. Returns 0 if there is no such file, or if it belongs to a different plan or judge.
    """
    if not folder.has("verdicts.parquet"):
        return 0
    is_same_plan = folder.read_judged_plan_digest() == folder.read_plan().digest
    if not is_same_plan or not is_same_judge(folder.read_recorded_judge(), judge):
        return 0
    verdicts = folder.open_judged_files().verdicts
    return len(verdicts) - verdicts.metadata.n_pending


def _warn_kept_outcomes(config: RunConfig, folder: RunFolder, n_saved: int, *, n_stored: int) -> None:
    """Log a warning that the `n_saved` outcomes in verdicts.parquet are kept, because the store has only `n_stored`."""
    store = redact_location(config.store_location)
    _LOG.warning(
        "%s has only %s outcomes of %s, so the %s outcomes in its verdicts.parquet were kept. If the store was moved, "
        "run `youden store copy OLD %s`, with its new path as OLD.",
        store,
        f"{n_stored:,}",
        folder.path,
        f"{n_saved:,}",
        store,
    )


def _describe_votes(verdicts: Verdicts, judge: JudgeConfig) -> str:
    """Describe how many trials each judge of a jury has answered.

    The text is for runs in which no trial has the answers of all judges yet.

    verdicts : verdicts without any answer of the jury
    judge : config of the jury, or of a single judge

    Returns the end of a sentence; empty for a single judge.
    """
    if verdicts.votes is None:
        return ""

    counts = []
    for jury_member, votes in zip(judge.judges, verdicts.votes, strict=True):
        n_answers = int((~np.isnan(votes)).sum())
        counts.append(f"{jury_member.name} {n_answers:,}")
    return (
        f": no trial has the answers of all {len(judge.judges)} judges. Answers to {len(verdicts):,} trials: "
        f"{', '.join(counts)}"
    )


def _find_plan_so_far(config: RunConfig, folder: RunFolder, judge: JudgeConfig) -> Plan:
    """Find the plan of an unfinished run, with all rounds that stored answers determine.

    Each round is planned from the answers to earlier rounds. The last one is usually a round that is not completely judged.
    Follow-up trials, which test for copied responses, are treated as a round. No request is sent, and nothing is written.
    """
    plan = folder.read_plan()
    if plan.rounds is None and not config.follow_up_fraction:
        return plan

    planned_run = PlannedRun(config, folder, plan, judge, estimate_by_characters(plan, judge))
    options = JudgingOptions(stored_only=True, read_only=True)
    try:
        verdicts = collect_answers(planned_run, options, team=None)  # without worker processes
    except AnswersMissingError as error:  # the usual case: the last round is not judged completely
        return error.plan
    return verdicts.plan


def _read_answers_so_far(config: RunConfig, folder: RunFolder, judge: JudgeConfig, plan: Plan) -> Verdicts:
    """Read the answers to a plan that a run has so far, without sending a request.

    The answers come from the store of the run. Answers that are no longer in the store are taken from the run's verdicts.parquet,
    if possible. The trials without an answer are pending in the result.
    """
    read_hashes = get_hash_reader(folder)  # the request hashes under which the store has the answers
    options = JudgingOptions(  # with these options, no requests are sent
        stored_only=True,
        read_only=True,
        allows_pending=True,
        account=get_cost_account(config, plan),
        keys=read_hashes,
    )

    def read_from_store(trials_to_read: Plan) -> Verdicts:
        reading = query_judge(trials_to_read, judge=judge, store=config.store_location, options=options)
        return run_until_stopped(reading)

    read_with_saved_answers = reuse_saved_answers(read_from_store, folder, config.store_location, judge)
    return read_with_saved_answers(plan)
