"""The keys of a run's requests, 32 bytes a trial, kept beside its plan where making them takes seconds: for one judge a file.

Such a file is believed where it was made for the very plan, pool and judge and is whole, byte for byte. Everybody else makes the
keys again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from youden.data.atomic import replacing
from youden.data.folder.parquet_tables import TableMetadata, read_table, with_table_metadata
from youden.data.folder.run_files import damaged
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.question.questions import Keyed, Keys, Questions, keys
from youden.types import Plan

KEPT_FROM = 200_000
"""Trials from which on keys are kept: two seconds of work."""
BYTES = 32
"""Of a key: a sha256."""
ROWS = 65_536
"""Keys that are read and written at once: 2 MB."""

_SCHEMA = pa.schema([pa.field("key", pa.binary(BYTES), nullable=False)])


def keep_keys(folder: RunFolder, plan: Plan, judge: JudgeConfig, *, say: Callable[[str], None]) -> None:
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
        made = (key for _, key in keys(questions, plan))
        write_keys(path, made, _said(questions, plan))


def kept_keys(folder: RunFolder) -> Keys:
    """Reads the keys of a plan from `folder` where they are there and whole, and makes them elsewhere."""

    def found(questions: Questions, plan: Plan, *, start: int = 0) -> Iterator[Keyed]:
        if not (_pays(plan) and _file(folder, questions).exists()):
            return keys(questions, plan, start=start)
        try:
            return _rows(_read(folder, questions, plan), start)
        except RunFolderError:
            return keys(questions, plan, start=start)

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


def _said(questions: Questions, plan: Plan) -> KeysMetadata:
    return KeysMetadata(plan_digest=plan.digest, judge_digest=questions.digest)


class KeysMetadata(TableMetadata):
    """What keys were made for, each a sha256 (hex): the plan with its pool, and all of the judge that decides requests."""

    noun: Literal["keys"] = "keys"
    plan_digest: str
    judge_digest: str


def write_keys(path: Path, keys: Iterable[str], said: KeysMetadata) -> None:
    """Write keys, in hex, as they come, replacing the file in one step."""
    remaining, schema = iter(keys), with_table_metadata(_SCHEMA, said)
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    with replacing(path) as fresh, pq.ParquetWriter(fresh, schema, **options) as file:
        while text := "".join(islice(remaining, ROWS)):
            data = pa.py_buffer(bytes.fromhex(text))
            column = pa.Array.from_buffers(pa.binary(BYTES), data.size // BYTES, [None, data])
            file.write_batch(pa.record_batch([column], schema=schema))


def read_keys(path: Path, said: KeysMetadata, *, n: int) -> KeyFile:
    """The `n` keys at `path`. Raises: RunFolderError where they were made for something else, or are not whole."""
    table = read_table(path, KeysMetadata)
    if table.said != said:
        raise damaged(path, "it was made for another plan, pool or judge")
    found = KeyFile(path)
    if sum(len(column) for column in found.columns()) != n:
        raise damaged(path, f"it does not have the {n:,} keys of this plan")
    return found


class KeyFile:
    """Whole keys in the order of the plan's rows, read as they are needed. Raises: RunFolderError where they are not whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def chunks(self, start: int = 0) -> Iterator[list[str]]:
        """Keys in hex from row `start` on, several at a time."""
        for column in self.columns(start):
            data = memoryview(column.buffers()[1])[BYTES * column.offset :]
            text = data[: BYTES * len(column)].hex()
            yield [text[at : at + 2 * BYTES] for at in range(0, len(text), 2 * BYTES)]

    def columns(self, start: int = 0) -> Iterator[pa.Array]:
        """Keys from row `start` on as they stand in the file, several at a time."""
        try:
            with closing(pq.ParquetFile(self._path, memory_map=True, page_checksum_verification=True)) as file:
                for group in range(file.num_row_groups):
                    n = file.metadata.row_group(group).num_rows
                    if start < n:
                        column = file.read_row_group(group).column("key").cast(pa.binary(BYTES), safe=True)
                        yield column.combine_chunks()[start:]
                    start = max(0, start - n)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise damaged(self._path, f"its keys cannot be read ({error})") from error
