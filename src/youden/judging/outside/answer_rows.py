"""Reads the answers of any engine from files, a few at a time: a Batch API's result lines, or Parquet; each goes through
the checks of a reply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from youden.errors import InputError
from youden.judging.call.failures import CallError
from youden.judging.call.reply import MOST_BYTES, trusted
from youden.judging.outside.lines import outcome_of
from youden.judging.outside.manifest import METADATA, NAME, Manifest, read_manifest
from youden.nouns import Completion

ROWS = 1000
"""Read at once."""

_ENDINGS = {".jsonl", ".json", ".parquet"}
_PARQUET = b"PAR1"
_REPEATED = 4096
"""Answers that are known again; most judges say one word, so that most answers are like another."""
_LONGEST_REPEATED = 200
"""Characters of such an answer."""
_PLAIN = {
    (int, str, str, str, int, int, str),
    (int, str, str, str, int, int, type(None)),
}
"""Types of what an ordinary result line says: 1 and True are not the same."""
_SAID = ("text", "finish_reason", "model", "tokens_in", "tokens_out", "refusal", "fingerprint", "top_logprobs", "error")
_DEFAULTS = {"text": "", "finish_reason": "unknown", "model": "", "tokens_in": 0, "tokens_out": 0}


class Row(NamedTuple):
    """What a row says: the key, of any type, and what came of it; None where it cannot be read."""

    key: object
    outcome: Completion | CallError | None


def answer_files(paths: Sequence[Path]) -> list[Path]:
    """The files of answers at `paths`; of a folder those below it, without an export's own.

    Raises: InputError [import-no-file].
    """
    files: list[Path] = []
    for path in paths:
        found = [path] if path.is_file() else sorted(one for one in path.rglob("*") if _is_of_answers(one, path))
        if not found:
            raise InputError(
                f"There are no answers at {path}. Name a file of result lines or a Parquet file, or a folder that holds some "
                f"(a name that ends in {', '.join(sorted(_ENDINGS))} and does not begin with 'requests-', '.' or '_').",
                slug="import-no-file",
            )
        files += found
    return files


def _is_of_answers(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    own = path.name == NAME or path.name.startswith("requests-")
    return path.suffix in _ENDINGS and path.is_file() and not hidden and not own


def manifest_of(path: Path) -> tuple[Path, Manifest] | None:
    """What the export says that these answers are to: in the file itself or in its folder; None where nothing says it.

    Raises: InputError [export-unreadable], [export-version], [import-unreadable].
    """
    if _is_parquet(path):
        said = (_parquet(path).schema_arrow.metadata or {}).get(METADATA)
        if said is not None:
            return path, read_manifest(said, where=path)
    beside = path.with_name(NAME)
    try:
        return (beside, read_manifest(beside.read_bytes(), where=beside)) if beside.is_file() else None
    except OSError as error:
        raise _unreadable(beside, error) from None


def rows_of(path: Path) -> Iterator[list[Row]]:
    """The rows of a file, up to `ROWS` at a time. Raises: InputError [import-unreadable], [import-columns]."""
    try:
        yield from _rows_of_parquet(path) if _is_parquet(path) else _rows_of_lines(path)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _rows_of_lines(path: Path) -> Iterator[list[Row]]:
    seen: dict[object, Completion] = {}
    with path.open("rb") as file:
        lines = (_row_of_line(line, seen) for line in iter(lambda: file.readline(MOST_BYTES), b"") if line.strip())
        while chunk := list(islice(lines, ROWS)):
            yield chunk


def _row_of_line(line: bytes, seen: dict[object, Completion]) -> Row:
    try:
        result = orjson.loads(line)
    except ValueError:
        return Row(None, None)
    if not isinstance(result, dict) or not (result.keys() & {"response", "error"}):
        return Row(None, None)
    said = _plain(result)
    outcome: Completion | CallError | None = None if said is None else seen.get(said)
    if outcome is None:
        outcome = outcome_of(result)
        if said is not None:
            _remember(seen, said, outcome)
    return Row(result.get("custom_id"), outcome)


def _plain(result: Mapping[str, Any]) -> tuple[object, ...] | None:
    """All that an ordinary line says of its answer; None for another, which is looked at by itself."""
    try:
        response = result["response"]
        body = response["body"]
        choice, usage = body["choices"][0], body["usage"]
        message = choice["message"]
        if choice.get("logprobs") is not None or message.get("refusal") or message.get("provider_specific_fields"):
            return None
        said = (
            response["status_code"],
            message["content"],
            choice["finish_reason"],
            body["model"],
            usage["prompt_tokens"],
            usage["completion_tokens"],
            body.get("system_fingerprint"),
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    return said if tuple(map(type, said)) in _PLAIN else None


def _remember(seen: dict[object, Completion], said: object, outcome: Completion | CallError | None) -> None:
    if isinstance(outcome, Completion) and len(outcome.text) <= _LONGEST_REPEATED and len(seen) < _REPEATED:
        seen[said] = outcome


def _rows_of_parquet(path: Path) -> Iterator[list[Row]]:
    file = _parquet(path)
    there = set(file.schema_arrow.names)
    if "key" not in there or not there & {"text", "error"}:
        raise InputError(
            f"{path} has the columns {', '.join(sorted(there))[:200]}. Answers have `key` and `text` or `error`, and beside them "
            "finish_reason, model, tokens_in, tokens_out and top_logprobs.",
            slug="import-columns",
        )
    columns = [name for name in ("key", *_SAID) if name in there]
    names = columns[1:]
    seen: dict[object, Completion] = {}
    for batch in file.iter_batches(batch_size=ROWS, columns=columns):
        keys, *said = (_values(batch.column(name)) for name in columns)
        yield [Row(key, _outcome(names, row, seen)) for key, row in zip(keys, zip(*said, strict=True), strict=True)]


def _outcome(
    names: Sequence[str], row: tuple[object, ...], seen: dict[object, Completion]
) -> Completion | CallError | None:
    """The answer or the failure of a row of Parquet. All rows of `seen` are of one file, whose columns have one type each."""
    try:
        if (found := seen.get(row)) is not None:
            return found
    except TypeError:  # a list, of odds for example, is looked at by itself
        return _read(dict(zip(names, row, strict=True)))
    outcome = _read(dict(zip(names, row, strict=True)))
    _remember(seen, row, outcome)
    return outcome


def _read(said: Mapping[str, Any]) -> Completion | CallError | None:
    error, text, odds = said.get("error"), said.get("text"), said.get("top_logprobs")
    if isinstance(error, str) and error:
        return CallError(f"The engine said: {error}", kind="retry")
    if text is None and said.get("refusal") is None:
        return None
    given = {name: value for name, value in said.items() if value is not None and name not in ("error", "top_logprobs")}
    if isinstance(odds, list):
        odds = [(one.get("token"), one.get("logprob")) if isinstance(one, dict) else one for one in odds]
    try:
        return trusted(Completion(**{**_DEFAULTS, **given, "top_logprobs": () if odds is None else odds}))
    except CallError as broken:
        return broken


def _values(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:  # a text that is none: half of it may still be read
        values = [
            None if one is None else one.decode("utf-8", "replace") for one in column.cast(pa.binary()).to_pylist()
        ]
    return values


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_PARQUET)) == _PARQUET
    except OSError as error:
        raise _unreadable(path, error) from None


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path} cannot be read ({' '.join(str(error).split())[:200]}). It may be cut off: write it again, or leave it out and "
        "import the others; what was read of them is kept.",
        slug="import-unreadable",
    )
