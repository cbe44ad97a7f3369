"""The two files of a Batch API: requests that go up, results that come down, one JSON line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from youden.judging.asking.terms import Limits
from youden.judging.call.chat import completion
from youden.judging.call.failures import CallError, fate
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
    """(key, what came of it) of a result file's lines; a line that names no key is left out, as no result came."""
    for line in text.splitlines():
        try:
            result = orjson.loads(line)
            key = result["custom_id"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(key, str):
            yield key, _outcome(result)


def _outcome(result: Mapping[str, Any]) -> Completion | CallError:
    response = result.get("response") or {}
    status, body = response.get("status_code"), response.get("body")
    if status == 200:
        try:
            return completion(orjson.dumps(body), seconds=0.0)
        except CallError as error:
            return error
    told = result.get("error") or (body.get("error") if isinstance(body, dict) else None) or {}
    code, said = told.get("code") or told.get("type"), told.get("message") or "no reason given"
    if not isinstance(status, int):
        return CallError(f"{code}: {said}", kind="retry")
    return CallError(f"HTTP {status}: {said}", kind=fate(status, code), status=status)
