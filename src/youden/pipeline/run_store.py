"""Ensure that a run continues with the store that its folder names, or with one that has all answers it paid for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice

from youden.data.folder.folder_lock import folder_lock
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError, YoudenError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.store.answers import open_store
from youden.pipeline.request_hashes import get_key_reader
from youden.text.printable import redact_location
from youden.types import Completion, Plan

_LOG = logging.getLogger(__name__)
_CHUNK = 10_000
_DAMAGED = ("store-corrupt", "not-a-store", "store-version", "store-missing")
"""Errors of a store from which no answer can be read; its run may continue with a store of the saved answers."""


@contextmanager
def run_lock(config: RunConfig, plan: Plan, judge: JudgeConfig) -> Iterator[None]:
    """Hold the lock of the run's folder inside the block, so that no other process pays for the run into another store.

    Raises JudgeError [run-busy] if another process holds the lock, RunFolderError [run-store] if the store in `config`
    lacks answers that the run's own store holds.
    """
    with folder_lock(config.folder) if judge.stores_new_answers else nullcontext():
        _compare_stores(config, plan, judge)
        yield


def check_same_store(config: RunConfig, plan: Plan, judge: JudgeConfig) -> None:
    """Check that the store in `config` has all answers which the run's own store holds.

    Raises RunFolderError [run-store] if not; the message names both stores and the command that copies the answers.
    Raises JudgeError [run-busy] if another process pays into the run's own store.
    """
    if judge.stores_new_answers and _other_store(config) is not None:
        with folder_lock(config.folder):
            _compare_stores(config, plan, judge)


def _other_store(config: RunConfig) -> str | None:
    """Return the store that the run's folder names, if it is not the one in `config`."""
    recorded = RunFolder(config.folder).find_config()
    if recorded is None or recorded.store_location == config.store_location:
        return None
    own_file, new_file = recorded.store_file, config.store_file
    if own_file is None or new_file is None:
        return (
            None
            if redact_location(recorded.store_location) == redact_location(config.store_location)
            else recorded.store_location
        )
    is_same = own_file.resolve() == new_file.resolve() or (
        new_file.exists() and own_file.exists() and own_file.samefile(new_file)
    )
    return recorded.store_location if own_file.is_file() and not is_same else None


def _compare_stores(config: RunConfig, plan: Plan, judge: JudgeConfig) -> None:
    """Raise RunFolderError [run-store] if the store in `config` lacks answers that the run's own store holds."""
    own_store = _other_store(config)
    if own_store is None:
        return
    members = [member for member in judge.judges or (judge,) if member.makes_calls]
    try:
        n = sum(_count_lacking(config, own_store, plan, member) for member in members)
    except YoudenError as error:
        if error.slug == "store-unreachable":  # it may be the same database, which moved to another address
            _LOG.warning(
                "The store %s of %s cannot be reached, so it was not compared with %s, which is used now.",
                redact_location(own_store),
                config.folder,
                redact_location(config.store_location),
            )
        elif error.slug not in _DAMAGED:
            raise
        return
    if n:
        copy = f"youden store copy {redact_location(own_store)} {redact_location(config.store_location)}"
        raise RunFolderError(
            f"The store lacks {n:,} answers that {config.folder} keeps in {redact_location(own_store)}: got "
            f"{redact_location(config.store_location)}. "
            f"Remove --store, `store:` or YOUDEN_STORE to "
            f"use the run's own store, or run `{copy}` first.",
            slug="run-store",
        )


def _count_lacking(config: RunConfig, own_store: str, plan: Plan, judge: JudgeConfig) -> int:
    """Count the answers to `plan` that the run's own store holds and the store in `config` does not."""
    keys = (key for _, key in get_key_reader(RunFolder(config.folder))(judge.questions(), plan))
    n, file = 0, config.store_file
    with open_store(own_store, read_only=True) as own_answers:
        while chunk := list(dict.fromkeys(islice(keys, _CHUNK))):
            lacking = [
                key for key, outcome in own_answers.get_outcomes(chunk).items() if isinstance(outcome, Completion)
            ]
            if lacking and (file is None or file.is_file()):
                with open_store(config.store_location, read_only=True) as new:
                    present = new.answers(lacking)
                lacking = [key for key in lacking if key not in present]
            n += len(lacking)
    return n
