"""Answers that a run's folder holds and its store has lost: they are taken from verdicts.parquet, and not paid for again."""

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
from youden.nouns import Finding, Plan, Verdicts
from youden.nouns.pool import Bools
from youden.protocol.independent import plan_rows
from youden.run.keys import kept_keys
from youden.text.printable import shown

_CHUNK = 10_000
_BY_TRIAL = ("answer", "hard", "missing", "key", "tokens_in", "tokens_out", "usd", "seconds")


def with_kept_answers(
    answered: Callable[[Plan], Verdicts], folder: RunFolder, store: str, judge: JudgeConfig
) -> Callable[[Plan], Verdicts]:
    """Return `answered`, asked only for trials whose answers are not in the run's folder alone.

    Parameters
    ----------
    answered : callable
        Asks a plan, with the answers that the store holds.
    folder, store, judge
        Of the run.
    """
    before = _before(folder, judge)
    if before is None:
        return answered
    keys = kept_keys(folder)
    if judge.judges:
        gone = _holds_none(store, (keys(one.questions(), before.plan) for one in judge.judges))
        return (lambda plan: before if plan.digest == before.plan.digest else answered(plan)) if gone else answered
    lost = _lost(store, before)
    if not lost:
        return answered

    def spared(plan: Plan) -> Verdicts:
        at = np.array([lost.get(key, -1) for _, key in keys(judge.questions(), plan)], dtype=np.int64)
        if not (at >= 0).any():
            return answered(plan)
        rest = np.flatnonzero(at < 0)
        asked = answered(plan_rows(plan, rest)) if len(rest) else None
        return _joined(plan, before, at, asked, store=shown(store))

    return spared


def _before(folder: RunFolder, judge: JudgeConfig) -> Verdicts | None:
    """The verdicts in the run's folder; of a jury only if each of its judges answered everything."""
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
    """Whether the store lost all that the judges of a jury answered, by the first of each one's `keys`."""
    with open_store(place, read_only=True) as store:
        return not any(store.answers([key for _, key in islice(some, _CHUNK)]) for some in keys)


def _lost(place: str, before: Verdicts) -> dict[str, int]:
    """Key → row of the answers that the store does not hold."""
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


def _joined(plan: Plan, before: Verdicts, at: np.ndarray, asked: Verdicts | None, *, store: str) -> Verdicts:
    """The verdicts on `plan`: rows `at` of `before`, and where that is −1 those that were asked, in order."""
    kept: Bools = at >= 0
    columns: dict[str, Any] = {}
    for name in _BY_TRIAL:
        old = getattr(before, name)
        column = old[np.maximum(at, 0)]
        if asked is not None:
            column[~kept] = getattr(asked, name)
        columns[name] = column
    models = tuple(dict.fromkeys((*before.models, *(() if asked is None else asked.models))))
    if before.served is not None:
        served = before.served[np.maximum(at, 0)]
        if asked is not None and asked.served is not None:
            number = np.array([*map(models.index, asked.models), -1], dtype=np.int32)
            served[~kept] = number[asked.served]
        columns["served"] = served
    said = (
        f"{int(kept.sum()):,} answers were taken from the run's own verdicts.parquet, since the store {store} does not hold "
        "them: nothing is paid twice, and their raw texts are lost."
    )
    warnings = (Finding("kept", said, facts={"n": int(kept.sum())}), *(before if asked is None else asked).warnings)
    judge = dict(before.judge if asked is None else asked.judge)
    names = [name for one in (before, asked) if one is not None for name in _names(one)]
    judge["served"] = [*sorted(set(names))]
    return replace(asked or before, plan=plan, judge=judge, models=models, warnings=warnings, **columns)


def _names(verdicts: Verdicts) -> list[str]:
    served = verdicts.judge.get("served")
    return [str(one) for one in served] if isinstance(served, list) else []
