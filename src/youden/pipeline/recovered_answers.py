"""Reuse answers that a run's folder holds but its store has lost, so that they are not paid for again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.question.questions import Keyed
from youden.judging.store.answers import open_store
from youden.pipeline.request_hashes import kept_keys
from youden.protocol.independent import plan_rows
from youden.text.printable import shown
from youden.types import Finding, Plan, Verdicts
from youden.types.pool import Bools

_CHUNK = 10_000
_BY_TRIAL = ("answer", "hard", "missing", "key", "tokens_in", "tokens_out", "usd", "seconds")


def with_kept_answers(
    answered: Callable[[Plan], Verdicts], folder: RunFolder, store: str, judge: JudgeConfig
) -> Callable[[Plan], Verdicts]:
    """Wrap a function that answers plans, so that it reuses answers which only the run's folder holds.

    Parameters
    ----------
    answered : callable
        Answers a plan: from the store if it holds the answer, else by a request.
    folder : RunFolder
        Folder of the run.
    store : str
        Path or URL of the run's store.
    judge : JudgeConfig
        Judge of the run.

    Returns
    -------
    callable
        As `answered`, which it calls only for the other trials.
    """
    before = _verdicts_in_folder(folder, judge)
    if before is None:
        return answered
    keys = kept_keys(folder)
    if judge.judges:
        is_all_lost = _holds_none(store, (keys(member.questions(), before.plan) for member in judge.judges))
        return (
            (lambda plan: before if plan.digest == before.plan.digest else answered(plan)) if is_all_lost else answered
        )
    lost_rows = _find_lost_rows(store, before)
    if not lost_rows:
        return answered

    def answered_with_kept(plan: Plan) -> Verdicts:
        rows = np.array([lost_rows.get(key, -1) for _, key in keys(judge.questions(), plan)], dtype=np.int64)
        if not (rows >= 0).any():
            return answered(plan)
        others = np.flatnonzero(rows < 0)
        new = answered(plan_rows(plan, others)) if len(others) else None
        return _join(plan, before, rows, new, store=shown(store))

    return answered_with_kept


def _verdicts_in_folder(folder: RunFolder, judge: JudgeConfig) -> Verdicts | None:
    """Read the verdicts in the run's folder, if they fit its plan; those of a jury only if every judge answered every trial."""
    if not (judge.asks and folder.has("verdicts.parquet") and folder.has("plan.parquet")):
        return None
    plan = folder.read_plan()
    if folder.judged_plan() != plan.digest:
        return None
    verdicts = folder.read_verdicts(plan)
    if not judge.judges:
        return None if verdicts.key is None else verdicts
    return verdicts if verdicts.votes is not None and not np.isnan(verdicts.votes).any() else None


def _holds_none(place: str, keys: Iterable[Iterator[Keyed]]) -> bool:
    """Return whether the store holds no answer of any judge of a jury, checked on the first keys of each judge."""
    with open_store(place, read_only=True) as store:
        return not any(store.answers([key for _, key in islice(of_judge, _CHUNK)]) for of_judge in keys)


def _find_lost_rows(place: str, before: Verdicts) -> dict[str, int]:
    """Map the key of each answer that the store does not hold to its row of `before`."""
    if before.key is None:
        return {}
    rows = np.flatnonzero(before.answered & (before.key != b""))
    row = dict(zip((key.decode() for key in before.key[rows].tolist()), rows.tolist(), strict=True))
    keys = list(row)
    with open_store(place, read_only=True) as store:
        for begin in range(0, len(keys), _CHUNK):
            for key in store.answers(keys[begin : begin + _CHUNK]):
                del row[key]
    return row


def _join(plan: Plan, before: Verdicts, rows: np.ndarray, new: Verdicts | None, *, store: str) -> Verdicts:
    """Join verdicts on `plan`: row `rows[i]` of `before`, or the next row of `new` if `rows[i]` is −1."""
    is_kept: Bools = rows >= 0
    columns: dict[str, Any] = {}
    for name in _BY_TRIAL:
        column = getattr(before, name)[np.maximum(rows, 0)]
        if new is not None:
            column[~is_kept] = getattr(new, name)
        columns[name] = column
    models = tuple(dict.fromkeys((*before.models, *(() if new is None else new.models))))
    if before.served is not None or (new is not None and new.served is not None):
        served = np.full(len(rows), -1, dtype=np.int32)
        if before.served is not None:
            served[is_kept] = before.served[rows[is_kept]]
        if new is not None and new.served is not None:
            number = np.array([*map(models.index, new.models), -1], dtype=np.int32)
            served[~is_kept] = number[new.served]
        columns["served"] = served
    n_kept = int(is_kept.sum())
    message = (
        f"{n_kept:,} answers were taken from the run's own verdicts.parquet, because the store {store} does not hold them. "
        "Nothing is paid twice, but their raw texts are lost."
    )
    warnings = (Finding("kept", message, facts={"n": n_kept}), *(before if new is None else new).warnings)
    judge = dict(before.judge if new is None else new.judge)
    names = [name for verdicts in (before, new) if verdicts is not None for name in _served_names(verdicts)]
    judge["served"] = [*sorted(set(names))]
    return replace(new or before, plan=plan, judge=judge, models=models, warnings=warnings, **columns)


def _served_names(verdicts: Verdicts) -> list[str]:
    names = verdicts.judge.get("served")
    return [str(name) for name in names] if isinstance(names, list) else []
