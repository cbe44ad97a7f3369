"""The two files of a Batch API: requests that go up, results that come down, one JSON line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import orjson

from youden.judging.call.account_errors import ErrorParts, error_parts
from youden.judging.call.connection import request_body
from youden.judging.call.failures import CallError, http_error, in_words
from youden.judging.call.reply import checked
from youden.judging.call.reply_errors import coded_error, object_or_empty
from youden.text.json_text import parse_json
from youden.types import Completion, Request

ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"


_MAX_REMEMBERED = 4096
_MAX_REMEMBERED_BYTES = 2000
_MAX_TEXT = 200
"""Longest line and longest answer that are remembered; most judges say one word, so that most answers are like another."""


@dataclass(frozen=True)
class Line:
    """One request as the file has it: `custom_id` is its key. usd: the worst it can cost."""

    key: str
    text: bytes
    usd: float


def request_line(key: str, request: Request, *, usd: float) -> Line:
    """The line that asks `request`."""
    said = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": request_body(request)}
    text = orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE)
    return Line(key, text, usd)


def split_lines(lines: Iterable[Line], *, max_requests: int, max_bytes: int) -> Iterator[list[Line]]:
    """Split lines, in their order, into as few files as the limits allow, one file at a time."""
    part: list[Line] = []
    size = 0
    for line in lines:
        if part and (len(part) == max_requests or size + len(line.text) > max_bytes):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line.text)
    if part:
        yield part


class ResultLine(NamedTuple):
    """What a row says: the key, of any type, and what came of it; None where it cannot be read."""

    key: object
    outcome: Completion | CallError | None


def results(text: bytes) -> Iterator[tuple[str, Completion | CallError]]:
    """(key, what came of it) of a result file's lines; a line that says of no key what came of it is left out."""
    read = LineReader().read
    for key, outcome in map(read, text.splitlines()):
        if isinstance(key, str) and outcome is not None:
            yield key, outcome


class LineReader:
    """Reads result lines. Bodies that differ only in their id and time are checked once."""

    def __init__(self) -> None:
        self._remembered: dict[object, Completion] = {}

    def read(self, line: bytes) -> ResultLine:
        """Read one line."""
        try:
            result = parse_json(line).value
        except ValueError:
            return ResultLine(None, None)
        if not isinstance(result, dict):
            return ResultLine(None, None)
        is_long = len(line) > _MAX_REMEMBERED_BYTES
        content = None if is_long or b"NaN" in line or b"Infinity" in line else _content_without_ids(result)
        outcome: Completion | CallError | None = self._remembered.get(content)
        if outcome is None:
            outcome = outcome_of(result)
            if content is not None:
                remember(self._remembered, content, outcome)
        return ResultLine(result.get("custom_id"), outcome)


def _content_without_ids(result: Mapping[str, Any]) -> bytes | None:
    """Return what decides the outcome of a line without NaN or infinity, as JSON; None if it is not a plain reply."""
    try:
        response = result["response"]
        body = {**response["body"], "id": None, "created": None}
        return orjson.dumps([response["status_code"], body, result.get("error")])
    except (KeyError, TypeError):
        return None


def remember(remembered: dict[object, Completion], content: object, outcome: Completion | CallError | None) -> None:
    """Add the answer of a row with this content, while there is room."""
    if isinstance(outcome, Completion) and len(outcome.text) <= _MAX_TEXT and len(remembered) < _MAX_REMEMBERED:
        remembered[content] = outcome


def outcome_of(result: Mapping[str, Any]) -> Completion | CallError | None:
    """What a line says, None where it is no result; an error of its own, or a status that is no success, cost nothing."""
    response = object_or_empty(result.get("response"))
    status, body = response.get("status_code"), response.get("body")
    told = object_or_empty(result.get("error"))
    codes, message = error_parts(told or body)
    said = in_words(message or "no reason given")
    if not isinstance(status, int):
        if not told:
            return None
        error = coded_error(ErrorParts(codes, message), prefix="The line is an error")
        error.free = True
        return error
    if not 200 <= status < 300:
        return http_error(status, codes, message, reason=f"HTTP {status}: {said}")
    try:
        return checked(body, seconds=0.0)
    except CallError as error:
        return error
