"""Read files of recorded answers, as JSON Lines or Parquet, in chunks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from youden.decompression import iter_unpacked, open_parquet
from youden.errors import InputError
from youden.judging.call.failures import CallError
from youden.judging.call.reply import MAX_REPLY_BYTES, validate_completion
from youden.judging.offline.exporting import MANIFEST
from youden.judging.offline.lines import LineReader, ResultLine, cache_outcome
from youden.types import Completion

CHUNK_ROWS = 1000
"""Rows that are read at a time."""
_SUFFIXES = {".jsonl", ".json", ".parquet"}
_PARQUET_MAGIC = b"PAR1"
_OPTIONAL_COLUMNS = (
    *("text", "finish_reason", "model", "tokens_in", "tokens_out", "refusal", "fingerprint", "top_logprobs"),
    "error",
)
_DEFAULTS: dict[str, Any] = {
    "text": "",
    "finish_reason": "unknown",
    "model": "",
    "tokens_in": 0,
    "tokens_out": 0,
    "top_logprobs": (),
}


def find_answer_files(paths: Sequence[Path]) -> list[Path]:
    """List the files of answers at paths: each file, and the files of answers in each folder and its subfolders.

    Raises: InputError [import-no-file] if a path does not exist, or if a folder contains no file of answers.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_file():
            files.append(path)
            continue
        answer_files = sorted(file for file in path.rglob("*") if _is_answer_file(file, path))
        if not answer_files:
            raise InputError(
                f"There are no answers at {path}. Pass a file of result lines, a Parquet file, or a folder that contains such "
                f"files (their names end in {', '.join(sorted(_SUFFIXES))} and do not begin with 'requests-', '.' or '_').",
                slug="import-no-file",
            )
        files += answer_files
    return files


def _is_answer_file(path: Path, folder: Path) -> bool:
    """Return whether a file in a folder has an extension of answers, and is neither hidden nor part of an export."""
    is_hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    is_exported = path.name == MANIFEST or path.name.startswith("requests-")
    return path.suffix.lower() in _SUFFIXES and path.is_file() and not is_hidden and not is_exported


def iter_result_rows(path: Path) -> Iterator[list[ResultLine]]:
    """Read the answers in a file, one list of rows at a time.

    Parameters
    ----------
    path : Path
        Parquet file, which is recognized by its first bytes, or file of JSON lines.

    Yields
    ------
    list of ResultLine
        The next rows, at most `CHUNK_ROWS`: the request hash and the answer or failure of each. The outcome of a row that cannot
        be read is None.

    Raises
    ------
    InputError
        [import-unreadable] if the file is damaged; [import-columns] if a Parquet file lacks columns;
        [unpacked-too-large] if its decompressed size exceeds the limit.
    """
    try:
        if _is_parquet(path):
            yield from _iter_parquet_rows(path)
        else:
            yield from _iter_json_rows(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path} cannot be read ({' '.join(str(error).split())[:200]}). It may be cut off. Write it again, or import the "
            "other files without it; what was read of them is stored.",
            slug="import-unreadable",
        ) from None


def _iter_json_rows(path: Path) -> Iterator[list[ResultLine]]:
    """Yield the rows of a file of JSON lines in chunks."""
    reader = LineReader()
    with path.open("rb") as file:
        rows = map(reader.read, _iter_lines(file))
        while chunk := list(islice(rows, CHUNK_ROWS)):
            yield chunk


def _iter_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that are not blank. A line longer than `MAX_REPLY_BYTES` is cut, so that it does not parse."""
    while line := file.readline(MAX_REPLY_BYTES):
        skipped = line
        while len(skipped) == MAX_REPLY_BYTES and not skipped.endswith(b"\n"):
            skipped = file.readline(MAX_REPLY_BYTES)
        if line.strip():
            yield line


def _iter_parquet_rows(path: Path) -> Iterator[list[ResultLine]]:
    """Yield the rows of a Parquet file in chunks, each row as a request hash and its outcome.

    Raises: InputError [import-columns] if the file lacks the column `request_hash`, or both `text` and `error`.
    """
    file = open_parquet(path)
    available_columns = set(file.schema_arrow.names)
    _check_answer_columns(path, available_columns)
    value_columns = [name for name in _OPTIONAL_COLUMNS if name in available_columns]
    columns = ["request_hash", *value_columns]

    # equal rows, such as those with a one-word answer, are parsed once
    completions_by_row: dict[object, Completion] = {}
    batches = file.iter_batches(batch_size=CHUNK_ROWS, columns=columns)
    for batch in iter_unpacked(batches, path):
        values_by_column = [_to_list(batch.column(name)) for name in columns]
        lines = []
        for request_hash, *values in zip(*values_by_column, strict=True):
            outcome = _parse_row(value_columns, tuple(values), completions_by_row)
            lines.append(ResultLine(request_hash, outcome))
        yield lines


def _check_answer_columns(path: Path, columns: set[str]) -> None:
    """Check that a Parquet file has the columns of answers; raise InputError [import-columns] if it lacks some.

    path : path of the file, for the error message
    columns : names of its columns; `request_hash` is needed, and at least one of `text` and `error`
    """
    if "request_hash" not in columns or columns.isdisjoint({"text", "error"}):
        raise InputError(
            f"{path} lacks columns of answers: got {', '.join(sorted(columns))[:200]}. Add `request_hash` and `text` or "
            "`error`; finish_reason, model, tokens_in, tokens_out and top_logprobs are optional.",
            slug="import-columns",
        )


def _parse_row(
    names: Sequence[str], row: tuple[object, ...], completions_by_row: dict[object, Completion]
) -> Completion | CallError | None:
    """Convert a row of a Parquet file to an answer or a failure.

    names : names of the columns
    row : values of the columns
    completions_by_row : answers of earlier rows, which are reused for equal rows; the answer of this row is added
    """
    fields = dict(zip(names, row, strict=True))
    try:
        cached_completion = completions_by_row.get(row)
    except TypeError:  # a row with a list, such as top_logprobs, cannot be the key of a dictionary
        return _parse_fields(fields)

    if cached_completion is not None:
        return cached_completion
    outcome = _parse_fields(fields)
    cache_outcome(completions_by_row, row, outcome)
    return outcome


def _parse_fields(fields: Mapping[str, Any]) -> Completion | CallError | None:
    """Return the answer in a row. If the row reports an error, or if its answer is invalid, return an error.

    fields : value of each column of the row; None if it is missing

    Returns None if the row has neither a text, a refusal nor an error.
    """
    error = fields.get("error")
    if isinstance(error, str) and error:
        return CallError(f"The engine reported: {error}", kind="transient")
    if fields.get("text") is None and fields.get("refusal") is None:
        return None

    present_fields = {name: value for name, value in fields.items() if value is not None and name != "error"}
    completion_fields = _DEFAULTS | present_fields
    logprobs = fields.get("top_logprobs")
    if isinstance(logprobs, list):
        completion_fields["top_logprobs"] = [_to_pair(value) for value in logprobs]
    try:
        return validate_completion(Completion(**completion_fields))
    except CallError as invalid:
        return invalid


def _to_pair(value: object) -> object:
    """Convert {"token": …, "logprob": …} to a pair; any other value is returned unchanged, and is rejected later."""
    return (value.get("token"), value.get("logprob")) if isinstance(value, dict) else value


def _to_list(column: pa.Array) -> list[Any]:
    """Convert a column to a list; bytes of a text that are not UTF-8 are replaced."""
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:  # the valid part of the text may still be parsed
        texts = column.cast(pa.binary()).to_pylist()
        values = [None if text is None else text.decode("utf-8", "replace") for text in texts]
    return values


def _is_parquet(path: Path) -> bool:
    """Return whether a file begins like a Parquet file."""
    with path.open("rb") as file:
        return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
