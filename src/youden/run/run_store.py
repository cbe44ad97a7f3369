"""Which store a run pays into: the one that its folder names, unless another one holds all that was paid for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice

from youden.data.folder.folder_lock import folder_lock
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError, YoudenError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.store.answers import open_store
from youden.nouns import Completion, Plan
from youden.run.keys import kept_keys
from youden.text.printable import shown

_CHUNK = 10_000
_DAMAGED = ("store-corrupt", "store-foreign", "store-form", "store-missing")
"""Errors of a store that no answer can be read from; its run may go on with what was saved of it."""


@contextmanager
def run_lock(config: RunConfig, plan: Plan, judge: JudgeConfig) -> Iterator[None]:
    """Hold the lock of the run's folder inside the block, so that no other process pays for the same run into another store.

    Raises: JudgeError [run-busy]; as `refuse_another_store`.
    """
    with folder_lock(config.folder) if judge.asks else nullcontext():
        _compare_stores(config, plan, judge)
        yield


def refuse_another_store(config: RunConfig, plan: Plan, judge: JudgeConfig) -> None:
    """Raise an error if a store was given that lacks answers which the run's own store holds.

    Raises
    ------
    RunFolderError
        [run-store]: the message names both stores and the command that copies the answers.
    JudgeError
        [run-busy]: if another process pays into the run's own store.
    """
    if judge.asks and _other_store(config) is not None:
        with folder_lock(config.folder):
            _compare_stores(config, plan, judge)


def _other_store(config: RunConfig) -> str | None:
    """Return the store that the run's folder names, if it is not the one in `config`."""
    recorded = RunFolder(config.folder).recorded_config()
    if recorded is None or recorded.store_place == config.store_place:
        return None
    own, given = recorded.store_file, config.store_file
    if own is None or given is None:
        return None if shown(recorded.store_place) == shown(config.store_place) else recorded.store_place
    same = own.resolve() == given.resolve() or (given.exists() and own.exists() and own.samefile(given))
    return recorded.store_place if own.is_file() and not same else None


def _compare_stores(config: RunConfig, plan: Plan, judge: JudgeConfig) -> None:
    own = _other_store(config)
    if own is None:
        return
    try:
        n = sum(_n_lacking(config, own, plan, one) for one in judge.judges or (judge,) if one.makes_calls)
    except YoudenError as error:
        if error.slug not in _DAMAGED:
            raise
        return
    if n:
        copy = f"youden store copy {shown(own)} {shown(config.store_place)}"
        raise RunFolderError(
            f"{config.folder} keeps its answers in {shown(own)}, and {n:,} of them are not in the store that was given: got "
            f"{shown(config.store_place)}. Leave out --store, `store:` or YOUDEN_STORE to use its own store, or copy the answers "
            f"first: `{copy}`.",
            slug="run-store",
        )


def _n_lacking(config: RunConfig, own: str, plan: Plan, judge: JudgeConfig) -> int:
    """Count the answers to `plan` that the run's own store holds and the store in `config` does not."""
    keys = (key for _, key in kept_keys(RunFolder(config.folder))(judge.questions(), plan))
    n, file = 0, config.store_file
    with open_store(own, read_only=True) as before:
        while chunk := list(dict.fromkeys(islice(keys, _CHUNK))):
            held = [key for key, one in before.known(chunk).items() if isinstance(one, Completion)]
            if held and (file is None or file.is_file()):
                with open_store(config.store_place, read_only=True) as now:
                    found = now.answers(held)
                held = [key for key in held if key not in found]
            n += len(held)
    return n
