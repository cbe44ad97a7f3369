"""The two files of a Batch API: requests that go up, results that come down, one JSON line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from youden.judging.asking.terms import Limits
from youden.judging.call.failures import CallError, fate, in_words
from youden.judging.call.reply import checked
from youden.nouns import Completion, Request

ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"


@dataclass(frozen=True)
class Line:
    """One request as the file has it: `custom_id` is its key. usd: the worst it can cost."""

    key: str
    text: bytes
    usd: float


def request_line(key: str, request: Request, *, usd: float) -> Line:
    """The line that asks `request`."""
    body = {"model": request.model, "messages": request.messages, **request.parameters}
    text = orjson.dumps({"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}) + b"\n"
    return Line(key, text, usd)


def parts(lines: Iterable[Line], limits: Limits) -> Iterator[list[Line]]:
    """The lines in their order, in as few files as the limits allow, one file at a time."""
    part: list[Line] = []
    size = 0
    for line in lines:
        if part and (len(part) == limits.requests or size + len(line.text) > limits.bytes):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line.text)
    if part:
        yield part


def results(text: bytes) -> Iterator[tuple[str, Completion | CallError]]:
    """(key, what came of it) of a result file's lines; a line that says of no key what came of it is left out."""
    for line in text.splitlines():
        try:
            result = orjson.loads(line)
        except ValueError:
            continue
        key = result.get("custom_id") if isinstance(result, dict) else None
        if isinstance(key, str) and (outcome := outcome_of(result)) is not None:
            yield key, outcome


def outcome_of(result: Mapping[str, Any]) -> Completion | CallError | None:
    """What a line says, None where it is no result; an error of its own, or a status that is no success, cost nothing."""
    response = _object(result.get("response"))
    status, body = response.get("status_code"), response.get("body")
    told = _object(result.get("error")) or _object(_object(body).get("error"))
    code, said = told.get("code") or told.get("type"), in_words(told.get("message") or "no reason given")
    if not isinstance(status, int):
        return CallError(f"{in_words(code)}: {said}", kind="retry", free=True) if told else None
    if not 200 <= status < 300:
        kind = fate(status, code if isinstance(code, str) else None)
        return CallError(f"HTTP {status}: {said}", kind=kind, status=status)
    try:
        return checked(body, seconds=0.0)
    except CallError as error:
        return error


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
