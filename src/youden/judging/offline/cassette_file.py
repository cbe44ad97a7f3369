"""Read and write cassettes: files of recorded requests and their raw answers, for version control.

The same entries always make the same bytes, and each key is checked against its request when the file is read.
"""

from __future__ import annotations

import hashlib
import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, model_validator

from youden.data.atomic import atomic_write
from youden.errors import InputError
from youden.judging.call.failures import CallError, Failure
from youden.judging.call.reply import validate_completion
from youden.judging.question.parsing import Reading
from youden.judging.question.questions import Questions, canonical_request, hash_request, iter_keys
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import iter_call_lists
from youden.text.json_text import JSONDecodeError, parse_json
from youden.text.regular_files import read_regular
from youden.text.yaml_text import format_validation_error
from youden.types import Completion, Message, Plan, Request

VERSION = 2

_COMPLETION = TypeAdapter(Completion)
_MAX_REPORTED_PROBLEMS = 3

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Head(_Strict):
    cassette: int
    judges: list[dict[str, JsonValue]]


class _Message(_Strict):
    role: Literal["system", "user", "assistant"]
    content: str | None = None
    sha256: Sha256 | None = None
    characters: int | None = None

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        """Raise ValueError unless the message has either its content, or the hash and the length of the content."""
        is_plain = self.content is not None and self.sha256 is None and self.characters is None
        is_redacted = self.content is None and self.sha256 is not None and self.characters is not None
        if not is_plain and not is_redacted:
            raise ValueError("has either content, or sha256 and characters")
        return self


class _Request(BaseModel):
    """The canonical form of a request. Further fields, such as the cache salt, are checked through the line's key."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    base_url: str
    model: str
    messages: list[_Message]
    parameters: dict[str, JsonValue]


class _Line(_Strict):
    request_hash: Sha256
    request: _Request
    answer: Completion | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class Entry:
    """One request and its outcome."""

    request_hash: str
    """Request hash."""
    request: Mapping[str, Any]
    """Canonical form of the request; a redacted one has `sha256` and `characters` in place of each `content`."""
    outcome: Completion | Failure
    """Answer, with a duration of 0, or failure."""

    @property
    def redacted(self) -> bool:
        """Whether the texts are replaced by their hashes."""
        return any("sha256" in message for message in self.request["messages"])


@dataclass(frozen=True)
class Cassette:
    """Content of a cassette file."""

    judges: tuple[dict[str, Any], ...] = ()
    """Configs of the judges that answered, without secrets."""
    entries: Mapping[str, Entry] = field(default_factory=dict)
    """Entries by request hash."""

    @property
    def n_answers(self) -> int:
        """Number of entries with an answer."""
        return sum(isinstance(entry.outcome, Completion) for entry in self.entries.values())

    @property
    def n_redacted(self) -> int:
        """Number of redacted entries."""
        return sum(entry.redacted for entry in self.entries.values())


def make_entry(key: str, request: Mapping[str, object], outcome: Completion | Failure) -> Entry:
    """Make the entry of a request. The duration of its answer is set to 0, so that recordings of equal answers are equal.

    Parameters
    ----------
    key : str
        Request hash.
    request : mapping
        Canonical form of the request: all fields that can change its answer. All values can be encoded as JSON.
    outcome : Completion or Failure
        Answer to the request, or its failure.

    Returns
    -------
    Entry
        The hash, a copy of the request as JSON, and the outcome.
    """
    if isinstance(outcome, Completion):
        outcome = replace(outcome, seconds=0.0)
    return Entry(key, orjson.loads(orjson.dumps(request)), outcome)


def iter_entries(questions: Questions, plan: Plan, store: Store) -> Iterator[tuple[str, Entry | None]]:
    """Yield the key and the entry of each distinct request of a plan, in the order of the plan.

    Parameters
    ----------
    questions : Questions
        Prompt and parameters of the judge.
    plan : Plan
        Trials whose requests and outcomes are read; the texts come from its pool.
    store : Store
        Store of the answers.

    Yields
    ------
    key : str
        Request hash (hex).
    entry : Entry or None
        The request with its stored outcome; None if the store has no outcome of it.

    Raises
    ------
    PlanError
        [plan-no-pool]: if the plan has no pool; [plan-other-pool]: if its pool has changed.
    InputError
        [plan-missing-text]: if the pool has no response for a trial.
    """

    def make_request(row: int, _key: str) -> Request:
        """Return the request of a trial."""
        return questions.request(plan, row)

    visited_keys: set[str] = set()
    call_lists = iter_call_lists(iter_keys(questions, plan), store, make_request=make_request)
    for call in chain.from_iterable(call_lists):
        if call.key in visited_keys:  # trials of several lists may share a request
            continue
        visited_keys.add(call.key)
        stored_outcome = call.cached
        if stored_outcome is None:
            yield call.key, None
        else:
            request = canonical_request(call.request, address=questions.address)
            yield call.key, make_entry(call.key, request, stored_outcome)


def redact(entry: Entry, *, read: Callable[[Completion], Reading], labels: Iterable[str]) -> Entry:
    """Replace the texts of a recorded request and its outcome by their hashes (SHA-256).

    A cassette, a file of recorded requests and answers, can then be published without the texts. It can still be replayed: the
    text of an answer is replaced by a text that is parsed as the same answer.

    Parameters
    ----------
    entry : Entry
        The recorded request and its outcome. If the entry is redacted already, it is returned.
    read : callable
        Function that parses an answer.
    labels : iterable of str
        Labels of the prompt, for example "YES" and "NO".

    Returns
    -------
    Entry
        The entry with hashes (hex) in place of the texts of the request, of a refusal, and of the reason of a failure. All
        other fields are kept, including the request hash and log-probabilities. The text of an answer becomes the first of the
        following that `read` parses as an equal `Reading`:

        1. the hash of the text
        2. a label
        3. `<think>`, the beginning of reasoning
        4. a label in JSON

        If none of them is, the hash is used.
    """
    if entry.redacted:
        return entry
    outcome = entry.outcome
    if isinstance(outcome, Failure):
        outcome = replace(outcome, reason=_hash_text(outcome.reason))
    else:
        outcome = _redact_completion(outcome, read=read, labels=labels)
    hashed_messages = redacted_messages(entry.request["messages"])
    return Entry(entry.request_hash, {**entry.request, "messages": hashed_messages}, outcome)


def redacted_messages(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Replace the text of each message by its SHA-256, as hexadecimal digits, and its length."""
    return [
        {"role": message["role"], "sha256": _compute_sha256(message["content"]), "characters": len(message["content"])}
        for message in messages
    ]


def write_cassette(path: Path, cassette: Cassette) -> None:
    """Write a cassette; an existing file is replaced atomically.

    Equal cassettes give files with equal bytes.

    Parameters
    ----------
    path : Path
        File of the cassette.
    cassette : Cassette
        Judges and entries to write.
    """
    judges = sorted(cassette.judges, key=_to_json)
    with atomic_write(path) as tmp_path, tmp_path.open("wb") as file:
        file.write(_to_json({"cassette": VERSION, "judges": judges}))
        for key in sorted(cassette.entries):
            file.write(_to_json(_make_line_fields(cassette.entries[key])))


def read_cassette(path: Path) -> Cassette:
    """Read a cassette, which can be replayed.

    Parameters
    ----------
    path : Path
        File of the cassette.

    Returns
    -------
    Cassette
        Judges and entries of the file.

    Raises
    ------
    InputError
        [cassette] if a line is not valid; [cassette-unreadable], [cassette-head], [cassette-version] if the file is not
        a cassette of this version.
    """
    cassette, problems = check_cassette(path)
    if problems:
        displayed = "; ".join(problems[:_MAX_REPORTED_PROBLEMS])
        n_omitted = len(problems) - _MAX_REPORTED_PROBLEMS
        if n_omitted > 0:
            displayed += f" (and {n_omitted} more)"
        raise InputError(
            f"The cassette {path} is not valid: {displayed}. "
            "Restore it from version control, export it again, or record it again.",
            slug="cassette",
        )
    return cassette


def check_cassette(path: Path) -> tuple[Cassette, list[str]]:
    """Read the valid entries of a cassette, and describe the invalid ones.

    The first line of a cassette, the head, has the version and the judges. Each further line is an entry: a request, its hash,
    and its answer or failure. The hash is checked, except for redacted entries, whose texts are replaced by hashes.

    Parameters
    ----------
    path : Path
        File of the cassette.

    Returns
    -------
    cassette : Cassette
        The valid entries.
    problems : list of str
        One description per invalid line.

    Raises
    ------
    InputError
        [cassette-unreadable] if the file cannot be opened; [cassette-head] if it is not a cassette; [cassette-version] if it is
        of another version.
    """
    first_line, *entry_lines = _read_lines(path) or [b""]
    head = _parse_head(path, first_line)
    entries: dict[str, Entry] = {}
    problems: list[str] = []
    for number, line in enumerate(entry_lines, start=2):
        if not line.strip():
            continue
        try:
            entry = _parse_entry(line)
        except ValueError as error:
            problems.append(f"line {number}: {_describe_invalid_entry(error)}")
            continue
        if entry.request_hash in entries:
            problems.append(f"line {number}: the key {entry.request_hash[:12]}… occurs twice")
        else:
            entries[entry.request_hash] = entry
    return Cassette(tuple(head.judges), entries), problems


def _describe_invalid_entry(error: ValueError) -> str:
    """Describe why a line of a cassette is invalid, without the values of its fields, which may be long texts.

    error : error of `_parse_entry`; a pydantic ValidationError if fields are missing or have a wrong type
    """
    if isinstance(error, ValidationError):
        return format_validation_error(error, show_values=False)
    return str(error)


def _read_lines(path: Path) -> list[bytes]:
    """Read the lines of a file; raise InputError [cassette-unreadable] if it cannot be read."""
    try:
        return read_regular(path).removeprefix(BOM_UTF8).splitlines()
    except OSError as error:
        raise InputError(
            f"The cassette {path} cannot be read ({error.strerror}). Pass the file that `youden cassette export` wrote.",
            slug="cassette-unreadable",
        ) from None


def _parse_entry(line: bytes) -> Entry:
    """Parse a line of a cassette.

    Raises: ValueError if the line or its answer is not valid, or if the line has not exactly one of answer and failure. Also if
    the request hash is wrong, which is not checked if the texts of the request are redacted.
    """
    fields = _Line.model_validate_json(_replace_surrogates(line))
    request = fields.request.model_dump(exclude_none=True, exclude={"parameters"})
    request["parameters"] = fields.request.parameters  # a parameter that is None belongs to the request
    outcome = fields.answer or fields.failure
    if outcome is None or (fields.answer and fields.failure):
        raise ValueError("it must have an answer or a failure, and not both")
    if isinstance(outcome, Completion):
        try:
            validate_completion(outcome)
        except CallError as error:
            raise ValueError(error.reason) from None

    entry = Entry(fields.request_hash, request, outcome)
    if not entry.redacted:
        request_hash = _compute_request_hash(request)
        if request_hash != fields.request_hash:
            raise ValueError(f"the key is {fields.request_hash[:12]}…, but that of the request is {request_hash[:12]}…")
    return entry


def _replace_surrogates(line: bytes) -> bytes:
    """Replace lone surrogates in a line of JSON, because pydantic rejects them.

    A line without lone surrogates, or one that is not JSON, is returned unchanged.
    """
    if b"\\ud" not in line.lower():
        return line
    try:
        parsed = parse_json(line)
    except JSONDecodeError:
        return line
    return json.dumps(parsed.value).encode() if parsed.n_replaced_texts else line


def _parse_head(path: Path, line: bytes) -> _Head:
    """Parse the first line of a cassette. Raises: InputError [cassette-head], [cassette-version]."""
    try:
        head = _Head.model_validate_json(line)
    except ValidationError:
        raise InputError(
            f"{path} is not a cassette: its first line must be like "
            f'{{"cassette":{VERSION},"judges":[…]}}, got {line[:60].decode("utf-8", "replace")!r}. '
            "Pass the file that `youden cassette export` wrote.",
            slug="cassette-head",
        ) from None
    if head.cassette != VERSION:
        raise InputError(
            f"{path} was written by another version of youden: got a cassette of version {head.cassette}; this youden reads "
            f"only version {VERSION}. Use the version of youden that wrote it, or export the cassette again.",
            slug="cassette-version",
        )
    return head


def _compute_request_hash(request: Mapping[str, Any]) -> str:
    """Compute the request hash of a canonical request that was read from JSON."""
    messages = [Message(message["role"], message["content"]) for message in request["messages"]]
    return hash_request({**request, "messages": messages})


def _make_line_fields(entry: Entry) -> dict[str, Any]:
    """Return the fields of an entry's line in a cassette, without fields of an answer that have their default values."""
    if isinstance(entry.outcome, Failure):
        return {"request_hash": entry.request_hash, "request": entry.request, "failure": vars(entry.outcome)}
    answer = _COMPLETION.dump_python(entry.outcome, mode="json", exclude={"seconds"}, exclude_defaults=True)
    return {"request_hash": entry.request_hash, "request": entry.request, "answer": answer}


def _to_json(value: object) -> bytes:
    """Encode a value as a line of JSON with sorted keys."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def _redact_completion(
    completion: Completion, *, read: Callable[[Completion], Reading], labels: Iterable[str]
) -> Completion:
    """Replace the text of a completion by another text that is read as the same answer, and a refusal by its hash.

    The hash of the text is tried first, then typical answers. If none of them is read as the same answer, the hash is used.

    read : function that parses an answer
    labels : labels of the prompt
    """
    hashed = replace(completion, text=_hash_text(completion.text))
    if completion.refusal:
        hashed = replace(hashed, refusal=_hash_text(completion.refusal))

    original_reading = repr(read(completion))  # as text, because a reading may contain NaN, which does not equal NaN
    for text in (hashed.text, *_list_typical_answers(labels)):
        redacted = replace(hashed, text=text)
        if repr(read(redacted)) == original_reading:
            return redacted
    return hashed


def _list_typical_answers(labels: Iterable[str]) -> list[str]:
    """Return the labels, the beginning of a reasoning without an end, and the labels in JSON."""
    plain = list(labels)
    json_labels = [orjson.dumps({"answer": label}).decode() for label in plain]
    return [*plain, "<think>", *json_labels]


def _compute_sha256(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _hash_text(text: str) -> str:
    """Return the hash that replaces a text in a cassette, such as `sha256:9f86…`."""
    return f"sha256:{_compute_sha256(text)}"
