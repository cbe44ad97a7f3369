"""Import answers that another engine gave to the requests of a plan into the store.

Files (result lines of a Batch API, or Parquet) are read in chunks of rows, in any order and any number of times. Rows
are untrusted: each passes the same checks as a reply, and its cost counts as unknown. Unreadable rows are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from youden.decompression import iter_unpacked, open_parquet
from youden.errors import InputError, JudgeError
from youden.judging.call.failures import CallError, Failure
from youden.judging.call.reply import MAX_REPLY_BYTES, check_usage, validate_completion
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.offline.exporting import KEY_BYTES, MANIFEST, RequestTable, hashes_to_bytes, list_calling_judges
from youden.judging.offline.lines import LineReader, ResultLine, remember
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import CHUNK, ServedModels
from youden.text.sentences import format_count
from youden.types import Completion, Plan

CHUNK_ROWS = 1000
"""Rows that are read at a time."""

_SUFFIXES = {".jsonl", ".json", ".parquet"}
_PARQUET_MAGIC = b"PAR1"
_OPTIONAL_COLUMNS = (
    *("text", "finish_reason", "model", "tokens_in", "tokens_out", "refusal", "fingerprint", "top_logprobs"),
    "error",
)
_DEFAULTS = {"text": "", "finish_reason": "unknown", "model": "", "tokens_in": 0, "tokens_out": 0}


def _find_answer_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files at `paths`; in place of a folder, all files of answers in it and its subfolders.

    Files of an export are left out. Raises: InputError [import-no-file] if a path has none.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_file():
            files.append(path)
            continue
        answers = sorted(file for file in path.rglob("*") if _is_answer_file(file, path))
        if not answers:
            raise InputError(
                f"There are no answers at {path}. Pass a file of result lines, a Parquet file, or a folder that contains such "
                f"files (their names end in {', '.join(sorted(_SUFFIXES))} and do not begin with 'requests-', '.' or '_').",
                slug="import-no-file",
            )
        files += answers
    return files


def _is_answer_file(path: Path, folder: Path) -> bool:
    is_hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    is_exported = path.name == MANIFEST or path.name.startswith("requests-")
    return path.suffix in _SUFFIXES and path.is_file() and not is_hidden and not is_exported


def iter_result_rows(path: Path) -> Iterator[list[ResultLine]]:
    """Yield the rows of a file of answers in chunks of at most `CHUNK_ROWS`; the outcome of an unreadable row is None.

    A Parquet file is recognised by its first bytes. Raises: InputError [import-unreadable] if the file is damaged;
    [import-columns] if a Parquet file lacks columns; [unpacked-too-large].
    """
    try:
        yield from _iter_parquet_rows(path) if _is_parquet(path) else _iter_json_rows(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path} cannot be read ({' '.join(str(error).split())[:200]}). It may be cut off. Write it again, or import the "
            "other files without it; what was read of them is stored.",
            slug="import-unreadable",
        ) from None


def _iter_json_rows(path: Path) -> Iterator[list[ResultLine]]:
    read = LineReader().read
    with path.open("rb") as file:
        rows = map(read, _iter_lines(file))
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
    file = open_parquet(path)
    available = set(file.schema_arrow.names)
    if "request_hash" not in available or not available & {"text", "error"}:
        raise InputError(
            f"{path} lacks columns of answers: got {', '.join(sorted(available))[:200]}. Add `request_hash` and `text` or "
            "`error`; "
            "finish_reason, model, tokens_in, tokens_out and top_logprobs are optional.",
            slug="import-columns",
        )
    names = [name for name in _OPTIONAL_COLUMNS if name in available]
    columns = ["request_hash", *names]
    remembered: dict[object, Completion] = {}
    for batch in iter_unpacked(file.iter_batches(batch_size=CHUNK_ROWS, columns=columns), path):
        keys, *values = (_to_list(batch.column(name)) for name in columns)
        rows = zip(*values, strict=True)
        yield [ResultLine(key, _parse_row(names, row, remembered)) for key, row in zip(keys, rows, strict=True)]


def _parse_row(
    names: Sequence[str], row: tuple[object, ...], remembered: dict[object, Completion]
) -> Completion | CallError | None:
    """Parse a row of a Parquet file. Equal rows of the file are parsed once: `remembered` holds their answers."""
    try:
        if (completion := remembered.get(row)) is not None:
            return completion
    except TypeError:  # a row with a list, such as top_logprobs, cannot be a key
        return _parse_fields(dict(zip(names, row, strict=True)))
    outcome = _parse_fields(dict(zip(names, row, strict=True)))
    remember(remembered, row, outcome)
    return outcome


def _parse_fields(fields: Mapping[str, Any]) -> Completion | CallError | None:
    """Convert the columns of a row to an answer or a failure; None if it has no text, refusal or error."""
    error, text, logprobs = fields.get("error"), fields.get("text"), fields.get("top_logprobs")
    if isinstance(error, str) and error:
        return CallError(f"The engine reported: {error}", kind="transient")
    if text is None and fields.get("refusal") is None:
        return None

    skipped = ("error", "top_logprobs")
    given = {name: value for name, value in fields.items() if value is not None and name not in skipped}
    if isinstance(logprobs, list):
        logprobs = [_to_pair(value) for value in logprobs]
    try:
        return validate_completion(
            Completion(**{**_DEFAULTS, **given, "top_logprobs": () if logprobs is None else logprobs})
        )
    except CallError as invalid:
        return invalid


def _to_pair(value: object) -> object:
    """Convert {"token": …, "logprob": …} to a pair; return any other value unchanged, for the checks to reject."""
    return (value.get("token"), value.get("logprob")) if isinstance(value, dict) else value


def _to_list(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:  # a text that is not UTF-8: the valid part of it may still be parsed
        texts = column.cast(pa.binary()).to_pylist()
        values = [None if text is None else text.decode("utf-8", "replace") for text in texts]
    return values


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC


MAX_INITIAL_REJECTIONS = 1000
"""Number of rejected requests before the first answer at which an import stops, because the engine may be at fault."""

ROWS_PER_WRITE = 50_000
"""Number of answers and failures that are written in one transaction. An interrupted import can be run again."""

_MAX_EXAMPLES = 3
_MAX_EXAMPLE_LENGTH = 70


@dataclass
class ImportCounts:
    """Numbers of rows that an import read, by what it did with them.

    Attributes
    ----------
    n_rows : int
        Rows read.
    n_new : int
        Answers that were added to the store.
    n_stored : int
        Rows whose request already had an answer, which is kept.
    n_failed : int
        Failures that were added to the store.
    n_unknown : int
        Rows whose request hash is not one of this plan.
    n_unreadable : int
        Rows that are cut off or are no result.
    n_not_sent : int
        Rows which report that the engine could not send the request.
    n_doubted : int
        Answers whose token counts are not possible; they count as unknown.
    unknown_keys : list of str
        The first few of the unknown request hashes, shortened.
    not_sent_reason : str
        Reason of the first request that was not sent; empty if there is none.
    """

    n_rows: int = 0
    n_new: int = 0
    n_stored: int = 0
    n_failed: int = 0
    n_unknown: int = 0
    n_unreadable: int = 0
    n_not_sent: int = 0
    n_doubted: int = 0
    unknown_keys: list[str] = field(default_factory=list)
    not_sent_reason: str = ""

    def sentences(self) -> Iterator[str]:
        """Yield the number of rows read as a sentence, then a sentence for each other count that is not 0."""
        yield (
            f"{format_count(self.n_rows, 'row')} read: {format_count(self.n_new, 'answer')} added, {self.n_stored:,} stored "
            f"already, {self.n_failed:,} failures"
        )
        if self.n_unknown:
            names = f"{', '.join(self.unknown_keys)}{' …' if self.n_unknown > len(self.unknown_keys) else ''}"
            yield f"{format_count(self.n_unknown, 'row')} skipped: not a request of this plan ({names})"
        if self.n_unreadable:
            yield f"{format_count(self.n_unreadable, 'row')} skipped: cut off, or not a result"
        if self.n_not_sent:
            rows = format_count(self.n_not_sent, "row")
            yield f"{rows} skipped: the engine could not send the request; the first: {self.not_sent_reason}"
        if self.n_doubted:
            yield f"{format_count(self.n_doubted, 'answer')} with impossible token counts, which are taken as unknown"


def import_answers(
    paths: Sequence[Path], plan: Plan, *, config: JudgeConfig, store: Store, account: str
) -> ImportCounts:
    """Import the answers in files into a store, if they answer requests of a plan.

    Answers that the store already has are kept. The cost of new answers is booked as unknown.

    Parameters
    ----------
    paths : sequence of Path
        Files of answers, or folders that contain them.
    plan : Plan
        The plan whose requests were exported.
    config : JudgeConfig
        Judge that the requests are for; for a jury, each of its judges that makes calls.
    store : Store
        Store that gets the answers and failures.
    account : str
        Cost account of the new answers.

    Returns
    -------
    ImportCounts
        Numbers of rows by what was done with them.

    Raises
    ------
    InputError
        [export-no-calls], [import-no-file]: before anything is written. [import-unreadable], [import-columns]: if a
        file cannot be read; the answers of the files before it are stored. [import-nothing]: if no row is a result.
        [import-other-plan]: if no row belongs to this plan.
    JudgeError
        [import-rejected]: if the engine rejected the first `MAX_INITIAL_REJECTIONS` requests, or all of fewer requests.
    """
    files = _find_answer_files(paths)
    judges = list_calling_judges(config)
    answer_import = _AnswerImport([RequestTable.from_plan(judge, plan) for judge in judges], store, account)
    for judge in judges:
        store.remember_judge(judge.public())
    try:
        for path in files:
            for rows in iter_result_rows(path):
                answer_import.add(rows)
    finally:
        answer_import.flush()
    return answer_import.finish()


class _AnswerImport:
    """Collects the answers to the requests of one or several judges, and writes them to a store."""

    def __init__(self, requests: Sequence[RequestTable], store: Store, account: str) -> None:
        self._requests = requests
        self._store = store
        self._account = account
        self._counts = ImportCounts()
        self._served = [ServedModels() for _ in requests]
        self._counted_models: set[tuple[int, str, str | None]] = set()
        self._answer_limits = [table.config.answer_limit for table in requests]
        self._any_answer = False
        self._answers: dict[str, tuple[int, Completion]] = {}
        self._failures: dict[str, Failure] = {}
        self._early_rejections: dict[str, Failure] = {}

    def add(self, rows: Sequence[ResultLine]) -> None:
        """Sort rows into answers and failures, and write them as soon as there are `ROWS_PER_WRITE` or more."""
        failures: dict[str, Failure] = {}
        for key, judge, n_characters, reported in self._iter_plan_rows(rows):
            outcome = self._check_usage(reported, judge, n_characters)
            if key in self._answers:
                self._counts.n_stored += 1
            elif isinstance(outcome, Completion):
                self._answers[key] = judge, outcome
                self._any_answer = True
            elif outcome.kind == "fatal":
                self._counts.n_not_sent += 1
                self._counts.not_sent_reason = self._counts.not_sent_reason or outcome.reason
            else:
                failures[key] = Failure(outcome.kind, outcome.status, outcome.reason)
        self._add_failures(failures)
        if len(self._answers) + len(self._failures) >= ROWS_PER_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what the store does not have yet.

        Keys are looked up and written in ascending order, so that each page of the store's tables is read
        and written once.
        """
        keys = sorted(self._answers.keys() | self._failures.keys())
        stored: set[str] = set()
        for start in range(0, len(keys), CHUNK):
            stored |= self._store.answers(keys[start : start + CHUNK]).keys()

        answers: dict[str, Completion] = {}
        for key in keys:
            if key in self._answers and key not in stored:
                judge, answers[key] = self._answers[key]
                self._count_model(judge, answers[key])
        answered = stored | self._answers.keys()
        failures = {key: failure for key, failure in self._failures.items() if key not in answered}

        self._counts.n_stored += len(stored)
        self._counts.n_new += len(answers)
        self._counts.n_failed += len(failures)
        self._store.add_all(answers, failures, account=self._account)
        self._answers, self._failures = {}, {}

    def finish(self) -> ImportCounts:
        """Record the served models and return the counts. Raises: InputError, JudgeError if nothing was imported."""
        counts = self._counts
        if self._early_rejections:
            self._raise_rejected()
        for table, served in zip(self._requests, self._served, strict=True):
            self._store.remember_served(table.config.public(), served.new_names())
        if counts.n_unknown == counts.n_rows - counts.n_unreadable > 0:
            raise InputError(
                f"None of the {counts.n_unknown:,} answers belongs to a request of this plan (keys "
                f"{', '.join(counts.unknown_keys)} …). They belong to another plan, judge or prompt. Pass the config that was "
                "exported.",
                slug="import-other-plan",
            )
        if counts.n_unreadable == counts.n_rows:
            raise InputError(
                f"No answer can be read: got {counts.n_rows:,} rows, of which {counts.n_unreadable:,} are cut off or are no "
                "results. Pass result lines of a Batch API (custom_id, response) or Parquet (request_hash, text).",
                slug="import-nothing",
            )
        return counts

    def _iter_plan_rows(self, rows: Sequence[ResultLine]) -> Iterator[tuple[str, int, int, Completion | CallError]]:
        """Yield the readable rows of this plan, and count the others.

        Yields (key, index of the judge, number of characters of its request, outcome).
        """
        readable = [row for row in rows if row.outcome is not None]
        self._counts.n_rows += len(rows)
        self._counts.n_unreadable += len(rows) - len(readable)

        keys = hashes_to_bytes([row.key for row in readable])
        judges, n_characters = np.full(len(keys), -1), np.zeros(len(keys), dtype=np.int64)
        for number, table in enumerate(self._requests):
            positions = table.find(keys)
            is_new = (positions >= 0) & (judges < 0)
            judges[is_new], n_characters[is_new] = number, table.characters[positions[is_new]]

        hashes = keys.tobytes().hex()
        columns = zip(readable, judges.tolist(), n_characters.tolist(), strict=True)
        for n, (row, judge, size) in enumerate(columns):
            if judge < 0 or row.outcome is None:
                self._counts.n_unknown += 1
                if len(self._counts.unknown_keys) < _MAX_EXAMPLES:
                    self._counts.unknown_keys.append(str(row.key)[:_MAX_EXAMPLE_LENGTH])
            else:
                yield hashes[2 * KEY_BYTES * n : 2 * KEY_BYTES * (n + 1)], judge, size, row.outcome

    def _check_usage(self, outcome: Completion | CallError, judge: int, n_characters: int) -> Completion | CallError:
        """Check the token counts of an answer.

        The length of its request is known in characters, not in bytes. A character has one to four bytes, which the
        limits of the check allow for.
        """
        if isinstance(outcome, CallError):
            return outcome
        try:
            completion, fault = check_usage(
                outcome,
                n_bytes=n_characters,
                n_messages=self._requests[judge].n_messages,
                answer_limit=self._answer_limits[judge],
            )
        except CallError as error:
            return error
        self._counts.n_doubted += fault is not None
        return completion

    def _count_model(self, judge: int, completion: Completion) -> None:
        """Record the model that gave an answer, once per judge, model and fingerprint."""
        model = judge, completion.model, completion.fingerprint
        if model not in self._counted_models:
            self._counted_models.add(model)
            self._served[judge].count([(completion, True)])

    def _add_failures(self, failures: dict[str, Failure]) -> None:
        """Add failures, but hold rejections back until the first answer: until then the engine may be at fault."""
        stored = self._store.failures(list(failures)) if failures else {}
        rejected = {key for key, failure in stored.items() if failure.kind == "rejected"}
        failures = {key: failure for key, failure in failures.items() if key not in rejected}
        if self._any_answer:
            self._failures |= self._early_rejections | failures
            self._early_rejections = {}
            return

        self._early_rejections |= {key: failure for key, failure in failures.items() if failure.kind == "rejected"}
        self._failures |= {key: failure for key, failure in failures.items() if failure.kind != "rejected"}
        if len(self._early_rejections) >= MAX_INITIAL_REJECTIONS:
            self._raise_rejected()

    def _raise_rejected(self) -> None:
        last = list(self._early_rejections.values())[-1]
        raise JudgeError(
            f"The engine rejected all of the first {len(self._early_rejections):,} requests and answered none; "
            f"the last reason: {last.reason} The rejections are not stored, because the engine may be at fault. Check its model "
            "and parameters, or import the answers first.",
            slug="import-rejected",
        )
