"""A cassette: requests and their raw answers as a file that stands in version control, each key proved from its request."""

from __future__ import annotations

import hashlib
import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, model_validator

from youden.data.atomic import replacing
from youden.errors import InputError
from youden.judging.call.failures import Failure
from youden.judging.question.parsing import Reading
from youden.judging.question.questions import Questions, canonical, key_of, keys
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import look_up
from youden.text.json_text import JSONDecodeError, ParsedJson, parse_json
from youden.text.regular_files import read_regular
from youden.text.yaml_text import misfit
from youden.types import Completion, Message, Plan

VERSION = 1

_COMPLETION = TypeAdapter(Completion)
_SHOWN_PROBLEMS = 3

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
    def _text_or_hash(self) -> Self:
        if (self.content is None) == (self.sha256 is None) or (self.sha256 is None) != (self.characters is None):
            raise ValueError("has either content, or sha256 and characters")
        return self


class _Request(BaseModel):
    """What `canonical` makes of a request. What it is asked as stands beside these keys; the line's key proves it."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    base_url: str
    model: str
    messages: list[_Message]
    parameters: dict[str, JsonValue]


class _Line(_Strict):
    key: Sha256
    request: _Request
    answer: Completion | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class Entry:
    """One request and what came of it.

    request: as `canonical` makes it; a redacted one has `sha256` and
    `characters` in place of each `content`.
    """

    key: str
    request: Mapping[str, Any]
    outcome: Completion | Failure

    @property
    def redacted(self) -> bool:
        return any("sha256" in message for message in self.request["messages"])


@dataclass(frozen=True)
class Cassette:
    """Entries by key, and the judges who answered, as `JudgeConfig.public` describes them."""

    judges: tuple[dict[str, Any], ...] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict)

    @property
    def n_answers(self) -> int:
        return sum(isinstance(entry.outcome, Completion) for entry in self.entries.values())

    @property
    def n_redacted(self) -> int:
        return sum(entry.redacted for entry in self.entries.values())


def entry(key: str, request: Mapping[str, object], outcome: Completion | Failure) -> Entry:
    """The entry of a canonical request; seconds are left out, for they differ whenever the same is recorded again."""
    if isinstance(outcome, Completion):
        outcome = replace(outcome, seconds=0.0)
    return Entry(key, orjson.loads(orjson.dumps(request)), outcome)


def recorded(questions: Questions, plan: Plan, store: Store) -> Iterator[tuple[str, Entry | None]]:
    """(key, entry) of every distinct request of `plan`, None where the store knows nothing of it."""
    seen: set[str] = set()
    chunks = look_up(keys(questions, plan), store, ask=lambda row, _: questions.request(plan, row))
    for call in (one for chunk in chunks for one in chunk):
        if call.key not in seen:
            seen.add(call.key)
            request = canonical(call.request, address=questions.address)
            yield call.key, None if call.known is None else entry(call.key, request, call.known)


def redact(entry: Entry, *, read: Callable[[Completion], Reading], labels: Iterable[str]) -> Entry:
    """The entry without a word of what was judged or said, that reads the same: sha256 for texts, the label for an answer."""
    if entry.redacted:
        return entry
    outcome = entry.outcome
    if isinstance(outcome, Failure):
        outcome = replace(outcome, reason=_hashed(outcome.reason))
    else:
        outcome = _wordless(outcome, read=read, labels=labels)
    return Entry(entry.key, {**entry.request, "messages": redacted_messages(entry.request["messages"])}, outcome)


def redacted_messages(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages with the sha256 (hex) and the length of each text in its place."""
    return [
        {"role": one["role"], "sha256": _sha256(one["content"]), "characters": len(one["content"])} for one in messages
    ]


def write_cassette(path: Path, cassette: Cassette) -> None:
    """Replace the file in one step; the same entries make the same bytes."""
    judges = sorted(cassette.judges, key=_json)
    with replacing(path) as fresh, fresh.open("wb") as file:
        file.write(_json({"cassette": VERSION, "judges": judges}))
        for key in sorted(cassette.entries):
            file.write(_json(_line(cassette.entries[key])))


def read_cassette(path: Path) -> Cassette:
    """The cassette at `path`. Raises: InputError [cassette], see `check_cassette`."""
    cassette, problems = check_cassette(path)
    if problems:
        more = f" (and {len(problems) - _SHOWN_PROBLEMS} more)" if len(problems) > _SHOWN_PROBLEMS else ""
        raise InputError(
            f"The cassette {path} cannot be used: {'; '.join(problems[:_SHOWN_PROBLEMS])}{more}. "
            "Take it from version control, export it again, or record it again.",
            slug="cassette",
        )
    return cassette


def check_cassette(path: Path) -> tuple[Cassette, list[str]]:
    """What can be read of the cassette at `path`, and what is wrong with it, line by line.

    Every key is computed again from its request, but for redacted ones, whose texts are not there to do it with.

    Raises: InputError [cassette-unreadable], [cassette-head], [cassette-newer] where nothing can be read at all.
    """
    try:
        lines = read_regular(path).removeprefix(BOM_UTF8).splitlines()
    except OSError as error:
        raise InputError(
            f"The cassette {path} cannot be read ({error.strerror}). Give the file that `youden cassette export` wrote.",
            slug="cassette-unreadable",
        ) from None
    head = _head(path, lines[0] if lines else b"")
    entries: dict[str, Entry] = {}
    problems: list[str] = []
    for number, text in enumerate(lines[1:], start=2):
        try:
            line = _Line.model_validate_json(_strict_json(text))
        except ValidationError as error:
            problems.append(f"line {number}: {misfit(error, shown=False)}")
            continue
        request = line.request.model_dump(exclude_none=True, exclude={"parameters"})
        request["parameters"] = line.request.parameters
        outcome = line.answer or line.failure
        if outcome is None or (line.answer and line.failure):
            problems.append(f"line {number}: it needs either an answer or a failure")
            continue
        read = Entry(line.key, request, outcome)
        if line.key in entries:
            problems.append(f"line {number}: the key {line.key[:12]}… is there twice")
        elif not read.redacted and (key := _key(request)) != line.key:
            problems.append(f"line {number}: the request has another key ({key[:12]}…) than {line.key[:12]}…")
        else:
            entries[line.key] = read
    return Cassette(tuple(head.judges), entries), problems


def _strict_json(line: bytes) -> bytes:
    """Replace lone surrogates, which pydantic rejects; return `line` itself if it has none."""
    try:
        parsed = parse_json(line) if b"\\ud" in line.lower() else ParsedJson(None)
    except JSONDecodeError:
        return line
    return json.dumps(parsed.value).encode() if parsed.n_replaced_texts else line


def _head(path: Path, line: bytes) -> _Head:
    try:
        head = _Head.model_validate_json(line)
    except ValidationError:
        raise InputError(
            f"{path} is no cassette: it does not begin with a line like "
            f'{{"cassette":{VERSION},"judges":[…]}}, but with {line[:60].decode("utf-8", "replace")!r}. '
            "Give the file that `youden cassette export` wrote.",
            slug="cassette-head",
        ) from None
    if head.cassette > VERSION:
        raise InputError(
            f"{path} was written by a newer youden (cassette {head.cassette}, this one reads {VERSION}). Upgrade youden.",
            slug="cassette-newer",
        )
    return head


def _key(request: Mapping[str, Any]) -> str:
    messages = [Message(one["role"], one["content"]) for one in request["messages"]]
    return key_of({**request, "messages": messages})


def _line(entry: Entry) -> dict[str, Any]:
    if isinstance(entry.outcome, Failure):
        return {"key": entry.key, "request": entry.request, "failure": vars(entry.outcome)}
    answer = _COMPLETION.dump_python(entry.outcome, mode="json", exclude={"seconds"}, exclude_defaults=True)
    return {"key": entry.key, "request": entry.request, "answer": answer}


def _json(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def _wordless(completion: Completion, *, read: Callable[[Completion], Reading], labels: Iterable[str]) -> Completion:
    """Return `completion` with the first text that is parsed as the original is: its hash, a label, a tag, a label as JSON."""
    refusal = completion.refusal and _hashed(completion.refusal)
    wanted = repr(read(completion))
    bare = list(labels)
    texts = [_hashed(completion.text), *bare, "<think>", *(orjson.dumps({"answer": label}).decode() for label in bare)]
    shorter = [replace(completion, text=text, refusal=refusal) for text in texts]
    return next((one for one in shorter if repr(read(one)) == wanted), shorter[0])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _hashed(text: str) -> str:
    return f"sha256:{_sha256(text)}"
