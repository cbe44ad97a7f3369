"""Takes the answers of any engine into the store: those to this plan, and only what is not there.

Files are read a few rows at a time, in any order and any number of times: a Batch API's result lines, or Parquet. A row is
another machine's text: it goes through the checks of a reply, and says nothing of what was spent; one that cannot be read is
counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from youden.decompression import open_parquet, unpacked
from youden.errors import InputError, JudgeError
from youden.judging.call.failures import CallError, Failure
from youden.judging.call.reply import MAX_REPLY_BYTES, check_usage, trusted
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.offline.exporting import KEY_BYTES, MANIFEST, Requests, as_bytes, asked_judges
from youden.judging.offline.lines import LineReader, ResultLine, remember
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import CHUNK, Served
from youden.text.sentences import counted
from youden.types import Completion, Plan

ROWS = 1000
"""Read at once."""

_ENDINGS = {".jsonl", ".json", ".parquet"}
_PARQUET = b"PAR1"
_SAID = ("text", "finish_reason", "model", "tokens_in", "tokens_out", "refusal", "fingerprint", "top_logprobs", "error")
_DEFAULTS = {"text": "", "finish_reason": "unknown", "model": "", "tokens_in": 0, "tokens_out": 0}


def _answer_files(paths: Sequence[Path]) -> list[Path]:
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
    own = path.name == MANIFEST or path.name.startswith("requests-")
    return path.suffix in _ENDINGS and path.is_file() and not hidden and not own


def rows_of(path: Path) -> Iterator[list[ResultLine]]:
    """The rows of a file, up to `ROWS` at a time. Raises: InputError [import-unreadable], [import-columns], [unpacked]."""
    try:
        yield from _rows_of_parquet(path) if _is_parquet(path) else _rows_of_lines(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path} cannot be read ({' '.join(str(error).split())[:200]}). It may be cut off: write it again, or leave it out "
            "and import the others; what was read of them is kept.",
            slug="import-unreadable",
        ) from None


def _rows_of_lines(path: Path) -> Iterator[list[ResultLine]]:
    read = LineReader().read
    with path.open("rb") as file:
        rows = map(read, _lines_of(file))
        while chunk := list(islice(rows, ROWS)):
            yield chunk


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Its lines. One that is too long is left out but for its beginning, which is no row."""
    while line := file.readline(MAX_REPLY_BYTES):
        more = line
        while len(more) == MAX_REPLY_BYTES and not more.endswith(b"\n"):
            more = file.readline(MAX_REPLY_BYTES)
        if line.strip():
            yield line


def _rows_of_parquet(path: Path) -> Iterator[list[ResultLine]]:
    file = open_parquet(path)
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
    for batch in unpacked(file.iter_batches(batch_size=ROWS, columns=columns), path):
        keys, *said = (_values(batch.column(name)) for name in columns)
        yield [
            ResultLine(key, _outcome(names, row, seen)) for key, row in zip(keys, zip(*said, strict=True), strict=True)
        ]


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
    remember(seen, row, outcome)
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
    with path.open("rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


REJECTED_AT_START = 1000
"""So many rejected requests before the first answer may be the engine's fault, and no trial's own."""

WRITTEN = 50_000
"""Answers that are written at once; an import that is cut off is run again."""

_NAMED = 3
_LONGEST = 70


@dataclass
class ImportCounts:
    """What came of rows. new: answers that were not there; there: whose answer was, and stays; failed: failures that are kept;
    unknown: whose key is of no request of this plan, the first of them in `named`; unread: cut off, or no result; unasked:
    which say that the engine could not ask at all, and why; doubted: answers whose use of tokens cannot be."""

    rows: int = 0
    new: int = 0
    there: int = 0
    failed: int = 0
    unknown: int = 0
    unread: int = 0
    unasked: int = 0
    doubted: int = 0
    named: list[str] = field(default_factory=list)
    why: str = ""

    def words(self) -> Iterator[str]:
        """All that is worth saying, in sentences."""
        yield (
            f"{counted(self.rows, 'row')} read: {counted(self.new, 'answer')} taken, {self.there:,} were there already and stay, "
            f"{self.failed:,} failures"
        )
        if self.unknown:
            names = f"{', '.join(self.named)}{' …' if self.unknown > len(self.named) else ''}"
            yield f"{counted(self.unknown, 'row')} refused, of no request of this plan ({names})"
        if self.unread:
            yield f"{counted(self.unread, 'row')} cannot be read: cut off, or no result"
        if self.unasked:
            yield f"{counted(self.unasked, 'row', 'says', 'say')} that the engine could not ask: left out; the first: {self.why}"
        if self.doubted:
            yield f"{counted(self.doubted, 'answer', 'says it', 'say they')} used tokens as cannot be: taken as unknown"


def import_answers(paths: Sequence[Path], plan: Plan, *, config: JudgeConfig, store: Store, payer: str) -> ImportCounts:
    """Take the answers at `paths` to what `config`, or each judge of a jury, is asked by `plan`.

    An answer that `store` holds stays. What was spent on new ones is noted as unknown under `payer`.

    Raises: InputError [export-no-calls], [import-no-file] before anything is written; [import-unreadable], [import-columns] with
    what was read before kept; [import-nothing], [import-other-plan] where nothing is of this plan; JudgeError [import-rejected].
    """
    files = _answer_files(paths)
    members = asked_judges(config)
    taking = _Taking([Requests.from_plan(one, plan) for one in members], store, payer)
    for one in members:
        store.remember_judge(one.public())
    try:
        for path in files:
            for rows in rows_of(path):
                taking.take(rows)
    finally:
        taking.write()
    return taking.finish()


class _Taking:
    """One import under way."""

    def __init__(self, asked: Sequence[Requests], store: Store, payer: str) -> None:
        self.asked = asked
        self._store = store
        self._payer = payer
        self._taken = ImportCounts()
        self._served = [Served() for _ in asked]
        self._who: set[tuple[int, str, str | None]] = set()
        self._limits = [one.config.answer_limit for one in asked]
        self._any_answer = False
        self._answers: dict[str, tuple[int, Completion]] = {}
        self._failures: dict[str, Failure] = {}
        self._early: dict[str, Failure] = {}

    def take(self, rows: Sequence[ResultLine]) -> None:
        """Keep what may be new in these rows."""
        failures: dict[str, Failure] = {}
        for key, judge, characters, said in self._known(rows):
            outcome = self._believed(said, judge, characters) if isinstance(said, Completion) else said
            if key in self._answers:
                self._taken.there += 1
            elif isinstance(outcome, Completion):
                self._answers[key] = judge, outcome
                self._any_answer = True
            elif outcome.kind == "stop":
                self._taken.unasked += 1
                self._taken.why = self._taken.why or outcome.reason
            else:
                failures[key] = Failure(outcome.kind, outcome.status, outcome.reason)
        self._fail(failures)
        if len(self._answers) + len(self._failures) >= WRITTEN:
            self.write()

    def write(self) -> None:
        """Put what is new into the store. It is looked up and written in the order of keys, so that a page of the store's tables
        is read and written once for several."""
        keys = sorted(self._answers.keys() | self._failures.keys())
        held: set[str] = set()
        for begin in range(0, len(keys), CHUNK):
            held |= self._store.answers(keys[begin : begin + CHUNK]).keys()
        answers: dict[str, Completion] = {}
        for key in keys:
            if key in self._answers and key not in held:
                judge, answers[key] = self._answers[key]
                self._serves(judge, answers[key])
        failures = {key: one for key, one in self._failures.items() if key not in held and key not in self._answers}
        self._taken.there += len(held)
        self._taken.new += len(answers)
        self._taken.failed += len(failures)
        self._store.add_all(answers, failures, payer=self._payer)
        self._answers, self._failures = {}, {}

    def finish(self) -> ImportCounts:
        """What came of it all. Raises: InputError, JudgeError where that is nothing."""
        taken = self._taken
        if self._early:
            self._refuse_all_rejected()
        for asked, served in zip(self.asked, self._served, strict=True):
            self._store.remember_served(asked.config.public(), served.fresh())
        if taken.unknown == taken.rows - taken.unread > 0:
            raise InputError(
                f"None of the {taken.unknown:,} answers is to a request of this plan (keys {', '.join(taken.named)} …). "
                "They are of another plan, judge or prompt: name the config that was exported.",
                slug="import-other-plan",
            )
        if taken.unread == taken.rows:
            raise InputError(
                f"No answer can be read: {taken.rows:,} rows, {taken.unread:,} of them cut off or no result. Give result lines "
                "of a Batch API (custom_id, response) or Parquet (key, text).",
                slug="import-nothing",
            )
        return taken

    def _known(self, rows: Sequence[ResultLine]) -> Iterator[tuple[str, int, int, Completion | CallError]]:
        """(key, judge, characters of its request, outcome) of the rows that can be read and are of this plan."""
        self._taken.rows += len(rows)
        readable = [row for row in rows if row.outcome is not None]
        self._taken.unread += len(rows) - len(readable)
        keys = as_bytes([row.key for row in readable])
        judge, size = np.full(len(keys), -1), np.zeros(len(keys), dtype=np.int64)
        for number, asked in enumerate(self.asked):
            at = asked.find(keys)
            here = (at >= 0) & (judge < 0)
            judge[here], size[here] = number, asked.characters[at[here]]
        names = keys.tobytes().hex()
        for n, (row, whose, characters) in enumerate(zip(readable, judge.tolist(), size.tolist(), strict=True)):
            if whose < 0 or row.outcome is None:
                self._taken.unknown += 1
                if len(self._taken.named) < _NAMED:
                    self._taken.named.append(str(row.key)[:_LONGEST])
            else:
                yield names[2 * KEY_BYTES * n : 2 * KEY_BYTES * (n + 1)], whose, characters, row.outcome

    def _believed(self, said: Completion, judge: int, characters: int) -> Completion | CallError:
        """What is believed of it. A request has at least as many bytes as characters, and at most four times as many."""
        asked = self.asked[judge]
        try:
            completion, fault = check_usage(
                said, n_bytes=characters, n_messages=asked.n_messages, answer_limit=self._limits[judge]
            )
        except CallError as error:
            return error
        self._taken.doubted += fault is not None
        return completion

    def _serves(self, judge: int, said: Completion) -> None:
        if (who := (judge, said.model, said.fingerprint)) not in self._who:
            self._who.add(who)
            self._served[judge].count([(said, True)])

    def _fail(self, failures: dict[str, Failure]) -> None:
        """Keep failures; rejections wait for the first answer, for until then they may be the engine's fault."""
        held = self._store.failures(list(failures)) if failures else {}
        failures = {key: one for key, one in failures.items() if key not in held or held[key].kind != "rejected"}
        if self._any_answer:
            self._failures |= self._early | failures
            self._early = {}
            return
        self._early |= {key: one for key, one in failures.items() if one.kind == "rejected"}
        self._failures |= {key: one for key, one in failures.items() if one.kind != "rejected"}
        if len(self._early) >= REJECTED_AT_START:
            self._refuse_all_rejected()

    def _refuse_all_rejected(self) -> None:
        last = list(self._early.values())[-1]
        raise JudgeError(
            f"The engine rejected all of the first {len(self._early):,} requests and answered none; the last: {last.reason} "
            "Nothing of them is kept, for it may be no trial's own fault. Check its model and parameters, or import first what "
            "was answered.",
            slug="import-rejected",
        )
