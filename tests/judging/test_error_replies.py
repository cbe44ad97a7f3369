"""Test that any error headers and bodies of a server are read as a failure without an exception."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twists import ERROR_BODIES, RETRY_AFTER, STATUSES
from youden.judging.call.connection import make_status_error, parse_reply, parse_retry_after
from youden.judging.call.failures import CallError
from youden.judging.call.reply import parse_completion
from youden.judging.offline.lines import iter_results, parse_outcome
from youden.types import Completion

DATES = st.builds(
    "{}, {} {} {} {}:{}:{} {}".format,
    st.sampled_from(("Mon", "Xyz", "")),
    st.integers(-1, 99),
    st.sampled_from(("Jan", "Dec", "Foo", "13")),
    st.integers(-1, 99999),
    *[st.integers(-1, 99)] * 3,
    st.sampled_from(("GMT", "+0000", "-2359", "+9999999999999999", "+", "x")) | st.integers().map("{:+d}".format),
)
HEADERS = st.dictionaries(
    st.sampled_from(("Retry-After", "retry-after-ms", "Date", "date", "Location", "X-Odd")),
    st.sampled_from(RETRY_AFTER) | DATES | st.text(max_size=40),
    max_size=4,
)


def nested(deep: int, inner: Any) -> Any:
    for _ in range(deep):
        inner = {"error": inner} if deep % 2 else [inner]
    return inner


ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.builds(nested, st.sampled_from((1, 2, 990, 1001)), st.integers())
)
ERROR = st.fixed_dictionaries({}, optional={"message": ODD, "code": ODD, "type": ODD, "status": ODD}) | ODD
REPLY = st.fixed_dictionaries({}, optional={"error": ERROR, "message": ODD, "choices": ODD}) | ODD


def _dumped(said: Any) -> bytes:
    try:
        return json.dumps(said).encode()
    except RecursionError:  # as deep as json itself writes
        return ERROR_BODIES["deep message"]


BODIES = st.sampled_from(list(ERROR_BODIES.values())) | st.binary(max_size=60) | REPLY.map(_dumped)


def check(status: int, body: bytes, headers: dict[str, str], said: Any) -> None:
    """Check that reading a failure raises only CallError with a storable reason.

    A line without an answer or a failure is no result.
    """
    seconds = parse_retry_after(headers)
    assert seconds is None or seconds >= 0
    failures = [make_status_error(status, body, headers)]
    try:
        parse_completion(parse_reply(body), seconds=0.0)
    except CallError as error:
        failures.append(error)
    lines = [{"custom_id": "k", "error": said}, {"custom_id": "k", "response": {"status_code": status, "body": said}}]
    outcomes = [parse_outcome(line) for line in lines] + [outcome for _, outcome in iter_results(body)]
    failures += [failure for failure in outcomes if isinstance(failure, CallError)]
    assert all(failure is None or isinstance(failure, CallError | Completion) for failure in outcomes)
    assert all(len(failure.reason) <= 300 for failure in failures)


def fuzz(n: int) -> None:
    quick = settings(max_examples=n, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    quick(given(st.sampled_from(STATUSES), BODIES, HEADERS, ERROR)(check))()


def test_arbitrary_headers_and_error_bodies_are_parsed_without_an_exception() -> None:
    fuzz(100)


@pytest.mark.long
def test_twenty_thousand_headers_and_error_bodies_are_parsed_without_an_exception() -> None:
    fuzz(20_000)


def test_each_irregular_reply_is_a_failure_with_its_status() -> None:
    for body, after in product(ERROR_BODIES.values(), RETRY_AFTER):
        error = make_status_error(500, body, {"Retry-After": after, "Date": "Wed, 21 Oct 2026 07:28:00 GMT"})
        assert (error.kind, error.status) == ("transient", 500), (body, after)


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        ({"success": False, "errors": [{"code": 5007, "message": "No such task."}]}, "rejected", "No such task."),
        ({"errors": [{"message": "Your credit balance is too low"}]}, "fatal", "Your credit balance is too low"),
        ({"title": "Bad Request", "fields": ["top_k"]}, "rejected", '{"title": "Bad Request", "fields": ["top_k"]}'),
        ({"errors": ["top_k is unknown"]}, "rejected", "['top_k is unknown']"),
    ],
)
def test_an_error_is_shown_by_its_message_or_its_whole_body(body: object, kind: str, reason: str) -> None:
    error = make_status_error(400, json.dumps(body), {})
    assert (error.kind, error.reason) == (kind, f"HTTP 400: {reason}")
    assert make_status_error(400, b"", {}).reason == "HTTP 400: no message"


@pytest.mark.parametrize(
    ("event", "kind", "unbilled"),
    [
        ({"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}, "transient", True),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "transient", True),
        ({"error": {"message": "Top up.", "code": "insufficient_quota"}}, "fatal", True),
        ({"choices": [{"delta": {"content": "YES"}}]}, "rejected", False),
    ],
)
def test_an_error_in_the_first_event_of_a_stream_is_classified(event: object, kind: str, unbilled: bool) -> None:
    stream = f": ping\n\nevent: error\ndata: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
    with pytest.raises(CallError) as caught:
        parse_reply(stream)
    assert (caught.value.kind, caught.value.unbilled) == (kind, unbilled)


def test_a_failed_or_cancelled_model_call_may_be_sent_again() -> None:
    errors = {status: make_status_error(status, b"", {}) for status in (408, 424, 425, 499, 529)}
    assert {error.kind for error in errors.values()} == {"transient"}
    assert [status for status, error in errors.items() if error.unbilled] == [424, 425, 529]
