"""Write the request lines of a Batch API and read its result lines, one JSON object each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import orjson

from youden.judging.call.account_errors import ErrorParts, parse_error_parts
from youden.judging.call.connection import make_request_body
from youden.judging.call.failures import CallError, make_http_error, to_text
from youden.judging.call.reply import parse_completion
from youden.judging.call.reply_errors import error_from_codes, object_or_empty
from youden.text.json_text import parse_json
from youden.types import Completion, Request

ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"


_MAX_REMEMBERED = 4096
_MAX_REMEMBERED_BYTES = 2000
_MAX_TEXT = 200
"""Longest line and longest answer that are remembered. Most judges answer with one word, so that most lines repeat."""


@dataclass(frozen=True)
class RequestLine:
    """One request, as a line of a file."""

    key: str
    """Request hash, which is the line's `custom_id`."""
    text: bytes
    """The line."""
    usd: float
    """The most that the request can cost, in USD."""


def make_request_line(key: str, request: Request, *, usd: float) -> RequestLine:
    """Make the line of a request. usd: the most that it can cost."""
    fields = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": make_request_body(request)}
    text = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    return RequestLine(key, text, usd)


def split_lines(lines: Iterable[RequestLine], *, max_requests: int, max_bytes: int) -> Iterator[list[RequestLine]]:
    """Split lines, in their order, into as few files as the limits allow, and yield one file at a time."""
    part: list[RequestLine] = []
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
    """Content of one row of results."""

    key: object
    """Request hash, or what is in its place."""
    outcome: Completion | CallError | None
    """Answer or failure; None if the row cannot be read."""


def iter_results(text: bytes) -> Iterator[tuple[str, Completion | CallError]]:
    """Yield key and outcome of the lines of a result file; lines without a key or an outcome are skipped."""
    read = LineReader().read
    for key, outcome in map(read, text.splitlines()):
        if isinstance(key, str) and outcome is not None:
            yield key, outcome


class LineReader:
    """Reads result lines. Lines that differ only in ids and times are checked once."""

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

        content = None
        if len(line) <= _MAX_REMEMBERED_BYTES and b"NaN" not in line and b"Infinity" not in line:
            content = _content_without_ids(result)
        outcome: Completion | CallError | None = self._remembered.get(content)
        if outcome is None:
            outcome = parse_outcome(result)
            if content is not None:
                remember(self._remembered, content, outcome)
        return ResultLine(result.get("custom_id"), outcome)


def _content_without_ids(result: Mapping[str, Any]) -> bytes | None:
    """Return as JSON what decides the outcome of a line without NaN or infinity; None if it is not a plain reply."""
    try:
        response = result["response"]
        body = {**response["body"], "id": None, "created": None}
        return orjson.dumps([response["status_code"], body, result.get("error")])
    except (KeyError, TypeError):
        return None


def remember(remembered: dict[object, Completion], content: object, outcome: Completion | CallError | None) -> None:
    """Add the answer of a row with this content to `remembered`, if there is room and the answer is short."""
    if isinstance(outcome, Completion) and len(outcome.text) <= _MAX_TEXT and len(remembered) < _MAX_REMEMBERED:
        remembered[content] = outcome


def parse_outcome(result: Mapping[str, Any]) -> Completion | CallError | None:
    """Parse a result line; None if it is not a result.

    An error of the line itself, or a status that is not 2xx, cost nothing.
    """
    response = object_or_empty(result.get("response"))
    status, body = response.get("status_code"), response.get("body")
    line_error = object_or_empty(result.get("error"))
    codes, message = parse_error_parts(line_error or body)
    text = to_text(message or "no reason given")
    if not isinstance(status, int):
        if not line_error:
            return None
        error = error_from_codes(ErrorParts(codes, message), prefix="The line is an error")
        error.unbilled = True
        return error
    if not 200 <= status < 300:
        return make_http_error(status, codes, message, reason=f"HTTP {status}: {text}")
    try:
        return parse_completion(body, seconds=0.0)
    except CallError as error:
        return error
