"""Store the request hashes of a large plan next to it, one file per judge, because computing them takes seconds.

A file is used only if it was written for the same plan, pool and judge, and if its checksums are right. Otherwise, the
hashes are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from youden.data.atomic import atomic_write
from youden.data.folder.parquet_tables import TableMetadata, read_table, with_table_metadata
from youden.data.folder.run_files import damaged_file_error
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.question.questions import KeySource, Questions, RowKey, iter_keys
from youden.types import Plan

MIN_TRIALS = 200_000
"""Minimum number of trials for which request hashes are stored: two seconds of work."""
KEY_BYTES = 32
"""Size of a request hash, a SHA-256."""
CHUNK_ROWS = 65_536
"""Number of request hashes that are read and written together: 2 MB."""

_SCHEMA = pa.schema([pa.field("request_hash", pa.binary(KEY_BYTES), nullable=False)])


def write_missing_hashes(folder: RunFolder, plan: Plan, judge: JudgeConfig, *, log: Callable[[str], None]) -> None:
    """Write the request hashes of a plan to a file, for each judge without a valid file.

    Judges that make no calls have no requests, so they need no file. Nothing is written for plans of fewer than 200,000 trials
    (`MIN_TRIALS`), or for plans with rounds or follow-ups, because they may still change.

    folder : folder of the run, in which a file request-hashes-DIGEST.parquet is written, with the DIGEST of the judge
    plan : plan with its pool
    judge : judge of the run; for a jury, one file per member is written
    log : function that receives a message about an invalid file, which is written again
    """
    if not _is_worth_storing(plan):
        return
    for member in judge.judges or (judge,):
        if not member.makes_calls:
            continue
        questions = member.questions()
        if not _has_valid_hash_file(folder, questions, plan, log):
            hashes = (request_hash for _, request_hash in iter_keys(questions, plan))
            write_hashes(_get_hash_file_path(folder, questions), hashes, _make_metadata(questions, plan))


def _has_valid_hash_file(folder: RunFolder, questions: Questions, plan: Plan, log: Callable[[str], None]) -> bool:
    """Return whether a run folder has a valid file with the request hashes of a plan.

    A request hash identifies a request to a judge, and the file spares computing the hashes again. The file is valid if it was
    written for the same plan, pool and judge, and if its checksums are right.

    questions : questions of the judge, from which the hashes are computed
    log : function that gets a message with the reason if a file exists but is not valid
    """
    path = _get_hash_file_path(folder, questions)
    if not path.exists():
        return False
    try:
        _open_hash_file(folder, questions, plan)
    except RunFolderError as error:
        log(f"{path.name} is written again: {error.message}")
        return False
    return True


def get_hash_reader(folder: RunFolder) -> KeySource:
    """Return a function that yields the row and the request hash of each trial of a plan.

    A request hash is the key of an answer in a store. The function takes the questions to the judge and the plan. It reads the
    hashes from a file in the run folder. Without a valid file, it computes them from the requests, which takes longer.
    """

    def read_or_compute(questions: Questions, plan: Plan, *, start: int = 0) -> Iterator[RowKey]:
        """Yield the row and the request hash of each trial of a plan, from row `start` on."""
        if _is_worth_storing(plan) and _get_hash_file_path(folder, questions).exists():
            with suppress(RunFolderError):  # the hashes are computed if the file is not valid
                hash_file = _open_hash_file(folder, questions, plan)
                return _iter_numbered_hashes(hash_file, start)
        return iter_keys(questions, plan, start=start)

    return read_or_compute


def _iter_numbered_hashes(file: HashFile, row: int) -> Iterator[RowKey]:
    """Yield pairs of a row number and its request hash, from `row` on."""
    for chunk in file.chunks(row):
        yield from enumerate(chunk, row)
        row += len(chunk)


def _is_worth_storing(plan: Plan) -> bool:
    """Return whether a plan is large and final, so that it does not need another file after each change."""
    return len(plan) >= MIN_TRIALS and plan.rounds is None and not plan.n_follow_ups


def _open_hash_file(folder: RunFolder, questions: Questions, plan: Plan) -> HashFile:
    """Open the file of a plan's request hashes; raise RunFolderError if it does not fit the plan and judge."""
    return open_hashes(_get_hash_file_path(folder, questions), _make_metadata(questions, plan), n=len(plan))


def _get_hash_file_path(folder: RunFolder, questions: Questions) -> Path:
    """Return the path of the file with the request hashes of `questions`, the questions to one judge."""
    return folder.file(f"request-hashes-{questions.digest[:12]}.parquet")


def _make_metadata(questions: Questions, plan: Plan) -> KeysMetadata:
    """Return the metadata that a file of request hashes for a plan and judge must have."""
    return KeysMetadata(plan_digest=plan.digest, judge_digest=questions.digest)


class KeysMetadata(TableMetadata):
    """Plan and judge of a file of request hashes, each as a SHA-256 in hex."""

    type: Literal["keys"] = "keys"
    plan_digest: str
    """Digest of the plan and its pool."""
    judge_digest: str
    """Digest of the settings of the judge that decide its requests."""


def write_hashes(path: Path, hashes: Iterable[str], metadata: KeysMetadata) -> None:
    """Write request hashes to a Parquet file.

    path : file to write; an existing one is replaced atomically, and a missing folder is created
    hashes : hashes of 64 hexadecimal digits (SHA-256), in the order of the plan
    metadata : digests of the plan with its pool and of the judge, which are stored in the file
    """
    remaining_hashes = iter(hashes)
    schema = with_table_metadata(_SCHEMA, metadata)
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    with atomic_write(path) as temporary, pq.ParquetWriter(temporary, schema, **options) as writer:
        while chunk := list(islice(remaining_hashes, CHUNK_ROWS)):
            hash_bytes = bytes.fromhex("".join(chunk))
            no_missing_values = None
            buffers = [no_missing_values, pa.py_buffer(hash_bytes)]
            column = pa.Array.from_buffers(pa.binary(KEY_BYTES), len(chunk), buffers)
            writer.write_batch(pa.record_batch([column], schema=schema))


def open_hashes(path: Path, metadata: KeysMetadata, *, n: int) -> HashFile:
    """Open a file of request hashes, and check that it is intact and belongs to a plan and a judge.

    The whole file is read once, to verify its checksums and the number of hashes.

    path : Parquet file that `write_hashes` has written
    metadata : plan, pool and judge for which the file must have been written
    n : number of request hashes that the file must have

    Returns an object whose method `chunks` yields lists of hashes, as hexadecimal texts. The file is open only during a reading.
    Raises RunFolderError [run-missing] or [run-file-missing] if the file is missing; [run-version] if another version of youden
    wrote it; [run-file-damaged] if it is damaged or incomplete, or was written for another plan, pool or judge.
    """
    table = read_table(path, KeysMetadata)
    if table.metadata != metadata:
        raise damaged_file_error(path, "it was written for another plan, pool or judge")
    file = HashFile(path)
    n_hashes = sum(len(hashes) for hashes in file.iter_row_groups())
    if n_hashes != n:
        raise damaged_file_error(path, f"it does not have the {n:,} request hashes of this plan")
    return file


class HashFile:
    """A file of request hashes in plan order, which is read in chunks as needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def chunks(self, start: int = 0) -> Iterator[list[str]]:
        """Yield lists of request hashes in hex from row `start` on; raise RunFolderError if the file is damaged."""
        for hashes in self.iter_row_groups(start):
            data = memoryview(hashes.buffers()[1])[KEY_BYTES * hashes.offset :]
            text = data[: KEY_BYTES * len(hashes)].hex()
            n_digits = 2 * KEY_BYTES
            yield [text[i : i + n_digits] for i in range(0, len(text), n_digits)]

    def iter_row_groups(self, start: int = 0) -> Iterator[pa.Array]:
        """Yield the request hashes from row `start` on, one array per row group of the file.

        The values of an array are binary and of fixed size. A row group is a part of a Parquet file that is read at once. Row
        groups that end before row `start` are not read. Raises RunFolderError if the file is damaged.
        """
        n_to_skip = start
        try:
            with closing(pq.ParquetFile(self._path, memory_map=True, page_checksum_verification=True)) as file:
                for group in range(file.num_row_groups):
                    n_rows = file.metadata.row_group(group).num_rows
                    if n_to_skip < n_rows:
                        hashes = file.read_row_group(group).column("request_hash")
                        binary_hashes = hashes.cast(pa.binary(KEY_BYTES), safe=True)
                        yield binary_hashes.combine_chunks()[n_to_skip:]
                    n_to_skip = max(0, n_to_skip - n_rows)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise damaged_file_error(self._path, f"its request hashes cannot be read ({error})") from error
