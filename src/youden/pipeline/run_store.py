"""Ensure that a run continues with the store that its folder names, or with one that has all answers it paid for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path

from youden.data.folder.folder_lock import folder_lock
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError, YoudenError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.store.answers import open_store
from youden.pipeline.request_hashes import get_hash_reader
from youden.text.printable import redact_location
from youden.text.sentences import format_count
from youden.types import Plan

_LOG = logging.getLogger(__name__)
_CHUNK = 10_000
"""Number of requests whose answers are looked up at once."""
_DAMAGED = ("store-corrupt", "not-a-store", "store-version", "store-missing")
"""Errors of a store from which no answer can be read; its run may continue with a store of the saved answers."""
_UNREACHABLE = ("store-unreachable", "store-url")
"""Errors of a store that cannot be reached at its address; the run continues with another store after a warning."""


@contextmanager
def run_lock(config: RunConfig, plan: Plan, judge: JudgeConfig) -> Iterator[None]:
    """Hold the lock of the run's folder within the `with` block, so that no other process judges the run with another store.

    Raises JudgeError [run-busy] if another process holds the lock, RunFolderError [run-store] if the store in `config`
    lacks answers that the run's own store holds.
    """
    with folder_lock(config.folder) if judge.stores_new_answers else nullcontext():
        _check_no_answers_lost(config, plan, judge)
        yield


def check_same_store(config: RunConfig, plan: Plan, judge: JudgeConfig) -> None:
    """Check that the store in `config` has all answers which the run's own store holds.

    Raises RunFolderError [run-store] if not; the message names both stores and the command that copies the answers.
    Raises JudgeError [run-busy] if another process pays into the run's own store.
    """
    if judge.stores_new_answers and _find_previous_store(config) is not None:
        with folder_lock(config.folder):
            _check_no_answers_lost(config, plan, judge)


def _find_previous_store(config: RunConfig) -> str | None:
    """Find the path or URL of the store in which the run kept its answers before.

    Returns None if the run has no earlier config, if the earlier store is the store in `config`, or if the file of the earlier
    store does not exist.
    """
    previous_config = RunFolder(config.folder).find_config()
    if previous_config is None or _is_same_store(previous_config, config):
        return None

    # a deleted file has no answers that could be lost, whether the new store is a file or a database
    previous_file = previous_config.store_file
    if previous_file is not None and not previous_file.is_file():
        return None
    return previous_config.store_location


def _is_same_store(first_config: RunConfig, second_config: RunConfig) -> bool:
    """Return whether two configs name the same store: the same file, or the same database."""
    if first_config.store_location == second_config.store_location:
        return True

    # a store without a file is a database; its address may differ in the password, which is removed here
    first_file, second_file = first_config.store_file, second_config.store_file
    if first_file is None or second_file is None:
        return redact_location(first_config.store_location) == redact_location(second_config.store_location)

    if first_file.resolve() == second_file.resolve():
        return True
    return first_file.exists() and second_file.exists() and first_file.samefile(second_file)


def _check_no_answers_lost(config: RunConfig, plan: Plan, judge: JudgeConfig) -> None:
    """Check that the store of a run has all answers that the run's previous store has.

    A damaged previous store, or one of another version, is ignored. If the previous store cannot be reached, a warning is logged.

    Raises RunFolderError [run-store] if the store in `config` lacks an answer.
    """
    previous_store = _find_previous_store(config)
    if previous_store is None:
        return

    # only judges that make calls have answers in a store
    single_judges = judge.judges or (judge,)
    calling_judges = [single_judge for single_judge in single_judges if single_judge.makes_calls]
    previous_name = redact_location(previous_store)
    new_name = redact_location(config.store_location)
    n_missing = 0
    try:
        for calling_judge in calling_judges:
            n_missing += _count_missing_answers(config, previous_store, plan, calling_judge)
    except YoudenError as error:
        if error.slug in _UNREACHABLE:  # not an error, because it may be the same database at its old address
            _LOG.warning(
                "The store %s of %s cannot be reached, so it was not compared with %s, which is used now.",
                previous_name,
                config.folder,
                new_name,
            )
            return
        if error.slug in _DAMAGED:
            return
        raise

    if n_missing:
        raise _make_lost_answers_error(n_missing, config.folder, previous_name, new_name)


def _make_lost_answers_error(n_missing: int, folder: Path, previous_name: str, new_name: str) -> RunFolderError:
    """Make the error [run-store] for a store that lacks answers which the run's previous store has.

    n_missing : number of these answers
    folder : folder of the run
    previous_name, new_name : paths or URLs of the two stores, without passwords
    """
    return RunFolderError(
        f"The store lacks {format_count(n_missing, 'answer')} that {folder} keeps in {previous_name}: got {new_name}. Remove "
        "--store, `store:` or YOUDEN_STORE to use the run's own store, or run "
        f"`youden store copy {previous_name} {new_name}` first.",
        slug="run-store",
    )


def _count_missing_answers(config: RunConfig, previous_location: str, plan: Plan, judge: JudgeConfig) -> int:
    """Count the answers of a judge that only the run's previous store has.

    previous_location : path or URL of the store that the run used before
    """
    read_hashes = get_hash_reader(RunFolder(config.folder))
    hashes = (request_hash for _, request_hash in read_hashes(judge.questions(), plan))
    n_missing = 0
    with open_store(previous_location, read_only=True) as previous_store:
        while chunk := list(islice(hashes, _CHUNK)):
            distinct_hashes = list(dict.fromkeys(chunk))
            in_previous_store = set(previous_store.answers(distinct_hashes))
            n_missing += len(in_previous_store - _find_answered_hashes(config, in_previous_store))
    return n_missing


def _find_answered_hashes(config: RunConfig, hashes: set[str]) -> set[str]:
    """Return the request hashes among `hashes` to which the store in `config` has an answer."""
    store_file = config.store_file
    store_exists = store_file is None or store_file.is_file()  # a store without a file is a database, and exists
    if not hashes or not store_exists:
        return set()
    with open_store(config.store_location, read_only=True) as store:
        return set(store.answers(list(hashes)))
