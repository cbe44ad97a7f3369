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
from youden.judging.call.reply_errors import make_error_from_codes, object_or_empty
from youden.text.json_text import parse_json
from youden.types import Completion, Request

ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"


_MAX_CACHED_ANSWERS = 4096
_MAX_CACHED_BYTES = 2000
_MAX_TEXT = 200
"""Longest answer that is cached. Most judges answer with one word, so that most lines repeat."""


@dataclass(frozen=True)
class RequestLine:
    """One request, as a line of a file."""

    key: str
    """Request hash, which is the line's `custom_id`."""
    text: bytes
    """The line, with its line break."""
    usd: float
    """The most that the request can cost, in USD."""


def make_request_line(key: str, request: Request, *, usd: float) -> RequestLine:
    """Make the line of a request in a file of requests.

    key : request hash
    usd : largest possible cost of the request
    """
    fields = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": make_request_body(request)}
    text = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    return RequestLine(key, text, usd)


def split_lines(lines: Iterable[RequestLine], *, max_requests: int, max_bytes: int) -> Iterator[list[RequestLine]]:
    """Split request lines into files, and yield the lines of one file at a time.

    lines : the lines, whose order is kept
    max_requests : maximum number of lines of a file
    max_bytes : maximum size of a file in bytes, line breaks included; a longer line gets a separate file
    """
    file_lines: list[RequestLine] = []
    n_bytes = 0
    for line in lines:
        is_full = len(file_lines) == max_requests or n_bytes + len(line.text) > max_bytes
        if file_lines and is_full:
            yield file_lines
            file_lines = []
            n_bytes = 0
        file_lines.append(line)
        n_bytes += len(line.text)
    if file_lines:
        yield file_lines


class ResultLine(NamedTuple):
    """Content of one row of results."""

    key: object
    """Request hash; any other value if the row is invalid."""
    outcome: Completion | CallError | None
    """Answer or failure; None if the row cannot be read."""


def iter_results(text: bytes) -> Iterator[tuple[str, Completion | CallError]]:
    """Yield the request hash and the outcome of each line of a result file; invalid lines are skipped."""
    reader = LineReader()
    for line in text.splitlines():
        key, outcome = reader.read(line)
        if isinstance(key, str) and outcome is not None:
            yield key, outcome


class LineReader:
    """Reads result lines. Lines that differ only in ids and times are checked once."""

    def __init__(self) -> None:
        self._cached_answers: dict[object, Completion] = {}  # by the content of their lines

    def read(self, line: bytes) -> ResultLine:
        """Read a line of a result file: the request hash and the outcome (an answer or an error) of one request.

        Many lines differ only in their ids, so the answers of short lines are cached.

        line : the line, which may be damaged

        Returns the `custom_id` of the line, which should be the request hash, and the outcome. The outcome is None if the line
        has neither an answer nor an error. Both are None if the line is not a JSON object.
        """
        try:
            result = parse_json(line, unique_keys=False).value
        except ValueError:
            return ResultLine(None, None)
        if not isinstance(result, dict):
            return ResultLine(None, None)

        custom_id = result.get("custom_id")

        # the key of the cache is JSON, which cannot represent NaN and infinity
        is_cacheable = len(line) <= _MAX_CACHED_BYTES and b"NaN" not in line and b"Infinity" not in line
        content = _encode_without_ids(result) if is_cacheable else None
        cached_answer = self._cached_answers.get(content)
        if cached_answer is not None:
            return ResultLine(custom_id, cached_answer)

        outcome = parse_outcome(result)
        if content is not None:
            cache_outcome(self._cached_answers, content, outcome)
        return ResultLine(custom_id, outcome)


def _encode_without_ids(result: Mapping[str, Any]) -> bytes | None:
    """Return, as JSON, the parts of a result line that determine its outcome: status, error, and the reply without its ids.

    result : the parsed line, without NaN and infinity, which JSON cannot represent

    Returns None if the line has no `response` with a `status_code` and a `body`; such a line is not cached.
    """
    try:
        response = result["response"]
        body = {**response["body"], "id": None, "created": None}
        return orjson.dumps([response["status_code"], body, result.get("error")])
    except (KeyError, TypeError):
        return None


def cache_outcome(cache: dict[object, Completion], content: object, outcome: Completion | CallError | None) -> None:
    """Add an outcome to a cache in place, if it is a short answer and the cache is not full.

    cache : answers by the content of their rows
    content : content of the row, which is hashable
    """
    if isinstance(outcome, Completion) and len(outcome.text) <= _MAX_TEXT and len(cache) < _MAX_CACHED_ANSWERS:
        cache[content] = outcome


def parse_outcome(result: Mapping[str, Any]) -> Completion | CallError | None:
    """Return the answer or the error in a result line; None if the line has neither.

    A line has a response with an HTTP status, or an error, or both. It contains an answer if the status is a success (2xx).
    Any other status is an error, and so is the field `error` of a line without a status.
    """
    response = object_or_empty(result.get("response"))
    status = response.get("status_code")
    body = response.get("body")
    line_error = object_or_empty(result.get("error"))

    if isinstance(status, int) and 200 <= status < 300:
        try:
            return parse_completion(body, seconds=0.0)
        except CallError as error:
            return error
    if isinstance(status, int):
        return _make_status_error(status, parse_error_parts(line_error or body))
    if line_error:
        failure = make_error_from_codes(parse_error_parts(line_error), prefix="The line is an error")
        failure.unbilled = True  # the request was not answered
        return failure
    return None


def _make_status_error(status: int, error_parts: ErrorParts) -> CallError:
    """Make the error for a result line whose response has an HTTP status that is not a success.

    error_parts : codes and message of the provider's error
    """
    codes, message = error_parts
    explanation = to_text(message or "no reason given")
    return make_http_error(status, codes, message, reason=f"HTTP {status}: {explanation}")
