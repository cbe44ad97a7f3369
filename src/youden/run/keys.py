"""The keys of a run's requests, kept beside its plan where making them takes seconds: for one judge a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from youden.data.folder.key_files import KeyFile, KeysSaid, read_keys, write_keys
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.trial_tables import cuts_of
from youden.errors import RunFolderError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.question.questions import Keyed, Keys, Questions, keys
from youden.nouns import Plan, Pool

KEPT_FROM = 200_000
"""Trials from which on keys are kept: two seconds of work."""


def keep_keys(folder: RunFolder, plan: Plan, pool: Pool, judge: JudgeConfig, *, say: Callable[[str], None]) -> None:
    """Write the keys of all that `judge` is asked, where they pay and are not there. say: told of a file that does not fit."""
    for one in judge.judges or (judge,):
        if not (one.makes_calls and _pays(plan)):
            continue
        questions = one.questions()
        path = _file(folder, questions)
        if path.exists():
            try:
                _read(folder, questions, plan)
                continue
            except RunFolderError as error:
                say(f"{path.name} is made again: {error.message}")
        made = (key for _, key in keys(questions, plan, pool))
        write_keys(path, made, _said(questions, plan), n=len(plan), cuts=cuts_of(plan))


def kept_keys(folder: RunFolder) -> Keys:
    """Reads the keys of a plan from `folder` where they are there and whole, and makes them elsewhere."""

    def found(questions: Questions, plan: Plan, pool: Pool, *, start: int = 0) -> Iterator[Keyed]:
        if not (_pays(plan) and _file(folder, questions).exists()):
            return keys(questions, plan, pool, start=start)
        try:
            return _rows(_read(folder, questions, plan), start)
        except RunFolderError:
            return keys(questions, plan, pool, start=start)

    return found


def _rows(file: KeyFile, row: int) -> Iterator[Keyed]:
    for chunk in file.chunks(row):
        yield from enumerate(chunk, row)
        row += len(chunk)


def _pays(plan: Plan) -> bool:
    """A plan that changes as it is asked would need another file each time."""
    return len(plan) >= KEPT_FROM and plan.rounds is None and not plan.n_follow_ups


def _read(folder: RunFolder, questions: Questions, plan: Plan) -> KeyFile:
    return read_keys(_file(folder, questions), _said(questions, plan), n=len(plan))


def _file(folder: RunFolder, questions: Questions) -> Path:
    return folder.file(f"keys-{questions.digest[:12]}.parquet")


def _said(questions: Questions, plan: Plan) -> KeysSaid:
    return KeysSaid(plan_digest=plan.digest, judge_digest=questions.digest)
