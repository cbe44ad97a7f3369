"""Reuse answers that a run's folder holds but its store has lost, so that they are not paid for again.

Answers are matched by request hash. The answers of a jury have no request hash, so they are reused together, for the
same plan, if the store has lost any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.question.questions import RowKey
from youden.judging.store.answers import open_store
from youden.pipeline.request_hashes import get_hash_reader
from youden.protocol.independent import match_trials, select_trials
from youden.text.printable import redact_location
from youden.text.sentences import format_count
from youden.types import Finding, Plan, Verdicts
from youden.types.pool import Ids, Json, Positions

_CHUNK = 10_000
"""Number of request hashes that are looked up at once."""
_PER_TRIAL = ("answer", "hard_answer", "missing_reason", "request_hash", "tokens_in", "tokens_out", "usd", "seconds")


def reuse_saved_answers(
    judge_plan: Callable[[Plan], Verdicts], folder: RunFolder, store: str, judge: JudgeConfig
) -> Callable[[Plan], Verdicts]:
    """Wrap a function that judges plans, so that it reuses answers from the run's folder if the store lacks them.

    The answers of a single judge are reused by request hash, for any plan. The answers of a jury are reused only for the plan
    in the folder, and only if the store lacks one of them.

    judge_plan : function that returns the verdicts of a plan, from the store if possible, otherwise by requests
    folder : folder of the run
    store : path or URL of the run's store
    judge : judge of the run

    Returns a function that returns the verdicts of a plan. It calls `judge_plan` for all answers that cannot be reused. Returns
    `judge_plan` itself if no answer can be reused. The store is not changed.

    Raises RunFolderError if a file in the folder is damaged, and ConfigError or JudgeError if the store is needed and cannot be
    read, for example [store-missing] if it does not exist.
    """
    saved_verdicts = _read_reusable_verdicts(folder, judge)
    if saved_verdicts is None:
        return judge_plan

    read_hashes = get_hash_reader(folder)
    if judge.judges:
        members = [member for member in judge.judges if member.stores_new_answers]
        row_keys_by_judge = (read_hashes(member.questions(), saved_verdicts.plan) for member in members)
        if _has_all_answers(store, row_keys_by_judge):
            return judge_plan
        return partial(_judge_other_plans, judge_plan=judge_plan, saved_verdicts=saved_verdicts)

    lost_rows = _find_lost_rows(store, saved_verdicts)
    if not lost_rows:
        return judge_plan

    return partial(
        _judge_or_reuse,
        judge_plan=judge_plan,
        saved_verdicts=saved_verdicts,
        lost_rows=lost_rows,
        iter_hashes=partial(read_hashes, judge.questions()),
        store=redact_location(store),
    )


def read_saved_hashes(folder: RunFolder, judge: JudgeConfig, plan: Plan) -> frozenset[str]:
    """Return the request hashes of the answers in a run's folder that `reuse_saved_answers` can reuse for a plan.

    The store is not read, so the hashes include answers that are also in the store.

    folder : folder of the run
    judge : judge of the run
    plan : plan that is to be judged

    Returns the hashes (hex), empty if no answer can be reused. For a single judge, they include answers to requests that are not
    in `plan`. For a jury, they are those of all requests of its judges if `plan` is the plan in the folder; otherwise, the result
    is empty. Raises RunFolderError if a file in the folder is damaged.
    """
    saved_verdicts = _read_reusable_verdicts(folder, judge)
    if saved_verdicts is None or (judge.judges and plan.digest != saved_verdicts.plan.digest):
        return frozenset()
    if not judge.judges:
        return frozenset(_find_row_by_hash(saved_verdicts))
    read_hashes = get_hash_reader(folder)
    members = [member for member in judge.judges if member.stores_new_answers]
    return frozenset(request_hash for member in members for _, request_hash in read_hashes(member.questions(), plan))


def keep_saved_costs(verdicts: Verdicts, folder: RunFolder, judge: JudgeConfig) -> Verdicts:
    """Add the costs in a run's folder to answers that the store has booked to another folder.

    The store books costs by the path of a folder. If the folder was renamed or copied, only its files have the costs of
    its earlier answers.

    Parameters
    ----------
    verdicts : Verdicts
        Verdicts of the run, with the costs that are booked to the present path.
    folder : RunFolder
        Folder of the run, with its earlier verdicts.
    judge : JudgeConfig
        Judge of the run. The answers of a jury have no request hash, so they are matched by trial.

    Returns
    -------
    Verdicts
        A copy of `verdicts`. If the cost of a request is 0 in `verdicts` but not in the folder, the copy has the saved cost,
        tokens and duration. It has the saved cost of the calibration if that of `verdicts` is 0. `verdicts` itself is returned if
        the folder has no verdicts of the plan in the folder, if costs were not measured, or if the judge stores no answers. No
        file is written.

    Raises
    ------
    RunFolderError
        If a file in the folder is damaged.
    """
    saved_verdicts = _read_saved_verdicts(folder, judge)
    if saved_verdicts is None or saved_verdicts.usd is None or verdicts.usd is None:
        return verdicts

    saved_rows = np.flatnonzero(saved_verdicts.usd > 0)
    if judge.judges:
        rows = match_trials(saved_verdicts.plan, verdicts.plan)[saved_rows]
    elif saved_verdicts.request_hash is None or verdicts.request_hash is None:
        return verdicts
    else:
        # the cost of a request is in the first trial that needs its answer
        saved_hashes = saved_verdicts.request_hash[saved_rows]
        _, positions, rows = np.intersect1d(saved_hashes, verdicts.request_hash, return_indices=True)
        saved_rows = saved_rows[positions]
    is_lost = (rows >= 0) & (verdicts.usd[rows] == 0)
    usd_calibration = saved_verdicts.usd_calibration if verdicts.usd_calibration == 0 else verdicts.usd_calibration
    if not is_lost.any():
        return replace(verdicts, usd_calibration=usd_calibration)

    columns = {}
    for name in ("usd", "seconds", "tokens_in", "tokens_out"):
        column = getattr(verdicts, name).copy()
        column[rows[is_lost]] = getattr(saved_verdicts, name)[saved_rows[is_lost]]
        columns[name] = column
    return replace(verdicts, usd_calibration=usd_calibration, **columns)


def _judge_other_plans(plan: Plan, *, judge_plan: Callable[[Plan], Verdicts], saved_verdicts: Verdicts) -> Verdicts:
    """Return the saved verdicts if they are of this plan, otherwise those of `judge_plan`."""
    return saved_verdicts if plan.digest == saved_verdicts.plan.digest else judge_plan(plan)


def _judge_or_reuse(
    plan: Plan,
    *,
    judge_plan: Callable[[Plan], Verdicts],
    saved_verdicts: Verdicts,
    lost_rows: Mapping[str, int],
    iter_hashes: Callable[[Plan], Iterator[RowKey]],
    store: str,
) -> Verdicts:
    """Return the verdicts of a plan, with answers from the run's folder if the store has lost them.

    plan : the trials to judge
    judge_plan : function that returns the verdicts of a plan; it is called for the trials whose answers are not in `lost_rows`
    saved_verdicts : verdicts in the run's folder
    lost_rows : row of `saved_verdicts` by request hash, for the answers that the store has lost
    iter_hashes : function that yields a row and its request hash for each trial of a plan, in order
    store : name of the store, for a warning
    """
    # for each trial, the row of `saved_verdicts` with its answer; −1 if the answer does not come from the folder
    saved_rows = [lost_rows.get(request_hash, -1) for _, request_hash in iter_hashes(plan)]
    saved_row_by_trial = np.array(saved_rows, dtype=np.int64)
    trials_to_judge = np.flatnonzero(saved_row_by_trial < 0)
    if len(trials_to_judge) == len(plan):
        return judge_plan(plan)

    new_verdicts = judge_plan(select_trials(plan, trials_to_judge)) if len(trials_to_judge) else None
    return _combine_answers(plan, saved_verdicts, saved_row_by_trial, new_verdicts, store=store)


def _read_reusable_verdicts(folder: RunFolder, judge: JudgeConfig) -> Verdicts | None:
    """Read the verdicts in a run's folder if their answers can be reused; None if they cannot.

    The verdicts of a single judge must have request hashes. Those of a jury must have a vote of every judge on every trial.
    """
    verdicts = _read_saved_verdicts(folder, judge)
    if verdicts is None:
        return None
    if judge.judges:
        is_reusable = verdicts.votes is not None and not np.isnan(verdicts.votes).any()
    else:
        is_reusable = verdicts.request_hash is not None
    return verdicts if is_reusable else None


def _read_saved_verdicts(folder: RunFolder, judge: JudgeConfig) -> Verdicts | None:
    """Read the verdicts in a run's folder; None if there are none, or if they do not belong to the plan in the folder."""
    if not (judge.stores_new_answers and folder.has("verdicts.parquet") and folder.has("plan.parquet")):
        return None
    plan = folder.read_plan()
    if folder.read_judged_plan_digest() != plan.digest:
        return None
    return folder.read_verdicts(plan)


def _has_all_answers(path: str, row_keys_by_judge: Iterable[Iterator[RowKey]]) -> bool:
    """Return whether the store has the answers of all judges of a jury.

    path : path or URL of the store
    row_keys_by_judge : for each judge, an iterator over pairs (row of the trial, request hash)
    """
    with open_store(path, read_only=True) as store:
        for row_keys in row_keys_by_judge:
            while hashes := {request_hash for _, request_hash in islice(row_keys, _CHUNK)}:
                if len(store.answers(list(hashes))) < len(hashes):
                    return False
    return True


def _find_lost_rows(path: str, saved_verdicts: Verdicts) -> dict[str, int]:
    """Find the saved answers that the store of the run has lost.

    path : path or URL of the store
    saved_verdicts : verdicts in the run's folder

    Returns the row of `saved_verdicts` by request hash; empty if no answer is lost, or if the verdicts have no hashes.
    """
    row_by_hash = _find_row_by_hash(saved_verdicts)
    distinct_hashes = list(row_by_hash)
    with open_store(path, read_only=True) as store:
        for start in range(0, len(distinct_hashes), _CHUNK):
            chunk = distinct_hashes[start : start + _CHUNK]
            for request_hash in store.answers(chunk):
                del row_by_hash[request_hash]
    return row_by_hash


def _find_row_by_hash(saved_verdicts: Verdicts) -> dict[str, int]:
    """Return the row of each saved answer by its request hash; empty if the verdicts have no hashes."""
    if saved_verdicts.request_hash is None:
        return {}
    rows_with_hash = np.flatnonzero(saved_verdicts.answered & (saved_verdicts.request_hash != b""))
    hashes = [request_hash.decode() for request_hash in saved_verdicts.request_hash[rows_with_hash].tolist()]
    return dict(zip(hashes, rows_with_hash.tolist(), strict=True))


def _combine_answers(
    plan: Plan, saved_verdicts: Verdicts, saved_row: Positions, new_verdicts: Verdicts | None, *, store: str
) -> Verdicts:
    """Combine saved and new answers into the verdicts of a plan.

    Settings of the judge and warnings are those of the new answers, or of the saved ones if there are no new ones. Names of
    models are taken from both. A further warning states that the raw texts of saved answers are lost.

    plan : plan whose trials were answered
    saved_verdicts : verdicts in the run's folder
    saved_row : int64 array (n_trials,), row of `saved_verdicts` with the answer to each trial; −1 for a trial with a new answer
    new_verdicts : answers to the trials whose `saved_row` is −1, in their order; None if all answers are saved
    store : name of the store, for the warning
    """
    latest = saved_verdicts if new_verdicts is None else new_verdicts
    columns = _combine_trial_columns(saved_verdicts, saved_row, new_verdicts)
    models = tuple(dict.fromkeys((*saved_verdicts.models, *latest.models)))
    if saved_verdicts.response_model is not None or latest.response_model is not None:
        columns["response_model"] = _find_model_of_each_answer(models, saved_verdicts, saved_row, new_verdicts)

    reported_models = {*_get_reported_models(saved_verdicts), *_get_reported_models(latest)}
    judge: dict[str, Json] = {**latest.judge, "response_models": [*sorted(reported_models)]}

    n_saved = int((saved_row >= 0).sum())
    message = (
        f"{format_count(n_saved, 'answer', 'was', 'were')} taken from the run's own verdicts.parquet instead of the store "
        f"{store}. No request is sent again, but raw texts are lost."
    )
    warnings = (Finding("kept", message, facts={"n": n_saved}), *latest.warnings)
    return replace(latest, plan=plan, judge=judge, models=models, warnings=warnings, **columns)


def _combine_trial_columns(
    saved_verdicts: Verdicts, saved_row: Positions, new_verdicts: Verdicts | None
) -> dict[str, Any]:
    """Combine saved and new answers into one array per column.

    The columns have answers, costs and other values of single trials.

    saved_verdicts : answers that the run folder holds
    saved_row : int64 array (n_trials,), row of `saved_verdicts` with the answer to each trial; −1 for a trial with a new answer
    new_verdicts : answers to the trials whose `saved_row` is −1, in their order; None if all answers are saved

    Returns an array (n_trials,) for each column name in `_PER_TRIAL`.
    """
    is_saved = saved_row >= 0
    combined_columns = {}
    for name in _PER_TRIAL:
        saved_column = getattr(saved_verdicts, name)
        column = np.empty(len(saved_row), dtype=saved_column.dtype)
        column[is_saved] = saved_column[saved_row[is_saved]]
        if new_verdicts is not None:
            column[~is_saved] = getattr(new_verdicts, name)
        combined_columns[name] = column
    return combined_columns


def _find_model_of_each_answer(
    models: tuple[str, ...], saved_verdicts: Verdicts, saved_row: Positions, new_verdicts: Verdicts | None
) -> Ids:
    """Find which model gave each answer.

    models : names of all models; those of `saved_verdicts` come first, in the same order
    saved_row : int64 array (n_trials,), row of `saved_verdicts` with the answer to each trial; −1 for a trial with a new answer
    new_verdicts : answers to the trials whose `saved_row` is −1, in their order; None if all answers are saved

    Returns the position of each trial's model in `models`, int32 array (n_trials,); −1 if the model is unknown.
    """
    is_saved = saved_row >= 0
    model_position = np.full(len(saved_row), -1, dtype=np.int32)
    if saved_verdicts.response_model is not None:
        model_position[is_saved] = saved_verdicts.response_model[saved_row[is_saved]]

    # `new_verdicts` numbers its own models, and has −1 for an unknown one
    if new_verdicts is not None and new_verdicts.response_model is not None:
        new_trials = np.flatnonzero(~is_saved)
        for number, name in enumerate(new_verdicts.models):
            trials_of_model = new_trials[new_verdicts.response_model == number]
            model_position[trials_of_model] = models.index(name)
    return model_position


def _get_reported_models(verdicts: Verdicts) -> list[str]:
    """Return the names of the models that answered, as the judge's server reported them; empty if unknown."""
    names = verdicts.judge.get("response_models")
    return [str(name) for name in names] if isinstance(names, list) else []
