"""Run judges on faulty replies, resume each run on a repaired server, and check what must hold of both runs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from judged import CALLING, ask, dense_plan, judge_config
from small_pools import make_pool
from twists import Twist, twisted
from unruly_server import Body, Sent, UnrulyBatchServer, UnrulyServer, healthy, reply_to, sent
from youden.errors import YoudenError
from youden.judging.scheduler.options import Batching, JudgingOptions
from youden.types import PAIRED, Verdicts

ASKED_BY = (*CALLING, "batch")
"""Backends whose replies are fuzzed, including a batch."""
POOL = make_pool(3, 2)
PLAN = dense_plan(POOL)
PRICE = 1000.0
"""USD per million input and output tokens."""
MOST_THROTTLED = 8
"""Maximum number of 429 replies per request; a run would tolerate them for five minutes."""


@dataclass(frozen=True)
class Course:
    """A run in which reply number n has the fault `twists[n % len]` (None: no fault).

    `cap` is a fraction of the cost of the complete run.
    """

    backend: str
    twists: tuple[Twist | None, ...]
    decision: Literal["text", "logprobs"] = "text"
    cap: float | None = None


@dataclass(frozen=True)
class Passed:
    """The result of one invocation: verdicts, or the error that ended it."""

    verdicts: Verdicts | None
    error: YoudenError | None


async def judged(url: str, course: Course, path: Path, *, retry_failed: bool, cap: float | None) -> Passed:
    """Judge once; exceptions other than those of youden propagate."""
    batched = course.backend == "batch"
    config = judge_config(
        url,
        backend="openai" if batched else course.backend,
        decision=course.decision,
        **({"max_outage": 0.5} if batched else {}),
        price=PRICE,
        **({"batch_discount": 0.5} if batched else {}),
        max_tries=2,
    )
    batching = Batching(poll=0.0) if batched else None
    options = JudgingOptions(max_cost=cap, max_missing=1.0, retry_failed=retry_failed, batching=batching)
    try:
        return Passed(await ask(PLAN, POOL, config, path, options=options), None)
    except YoudenError as error:
        return Passed(None, error)


def check_verdicts(result: Verdicts) -> None:
    """Check that every trial is answered or missing for a reason, and that answers are finite and in [0, 1]."""
    answered = result.missing_reason == 0
    assert len(result) == len(PLAN)
    assert set(result.missing_reason.tolist()) <= set(range(6))
    for column in (result.answer, result.hard_answer):
        assert np.isfinite(column[answered]).all()
        assert ((column[answered] >= 0) & (column[answered] <= 1)).all()
        assert np.isnan(column[~answered]).all()
    assert result.usd is not None
    assert (result.usd >= 0).all()
    for tokens in (result.tokens_in, result.tokens_out):
        assert tokens is not None
        assert (tokens >= 0).all()


async def check_course(course: Course) -> int:
    """Run, resume, and resume with failed requests again; return the number of sent replies."""
    straight = await undisturbed(course)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "v.db")
        async with server_of(course) as server:
            cap = None if course.cap is None else course.cap * straight.total_usd
            first = await judged(server.url, course, path, retry_failed=False, cap=cap)
            billed = bill_of(server)
            if cap is not None:
                assert billed <= cap * (1 + 1e-9), f"billed {billed:.6f} of a cap of {cap:.6f}"
            if first.verdicts is not None:
                check_verdicts(first.verdicts)
                assert first.verdicts.total_usd >= billed * (1 - 1e-9)
                _check_harmless(course, first.verdicts, server)
            heal(server)
            for retry_failed in (False, True):
                again = await judged(server.url, course, path, retry_failed=retry_failed, cap=None)
                assert again.error is None, again.error
                assert again.verdicts is not None
                check_verdicts(again.verdicts)
            n_sent = server.n_results if isinstance(server, UnrulyBatchServer) else server.n_requests
            check_whole(again.verdicts, straight)
    return n_sent


def check_whole(result: Verdicts | None, undisturbed: Verdicts) -> None:
    """Return the table of an undisturbed run without times, costs, names and keys, which contain the port."""
    assert result is not None
    for column in ("answer", "hard_answer", "missing_reason"):
        np.testing.assert_array_equal(getattr(result, column), getattr(undisturbed, column), err_msg=column)


async def undisturbed(course: Course) -> Verdicts:
    """Return the result of the same run without faults."""
    kind = (course.backend, course.decision)
    if kind not in _UNDISTURBED:
        well = Course(course.backend, (None,), course.decision)
        with tempfile.TemporaryDirectory() as folder:
            async with server_of(well) as server:
                passed = await judged(server.url, well, Path(folder, "v.db"), retry_failed=False, cap=None)
        assert passed.verdicts is not None, passed.error
        np.testing.assert_array_equal(passed.verdicts.hard_answer, (PLAN.trial_type == PAIRED).astype(float))
        _UNDISTURBED[kind] = passed.verdicts
    return _UNDISTURBED[kind]


_UNDISTURBED: dict[tuple[str, str], Verdicts] = {}


def bill_of(server: Any) -> float:
    """Return the bill in USD; a batch costs half as much."""
    return float(server.bill.usd(PRICE * (0.5 if isinstance(server, UnrulyBatchServer) else 1)))


def server_of(course: Course) -> Any:
    twists = course.twists

    def script(n: int, key: str, body: Body) -> Sent:
        twist = twists[n % len(twists)]
        if twist is None or (twist.throttles and server.bill.asked[key] > MOST_THROTTLED):
            return healthy(n, key, body)
        return twisted(reply_to(body), twist, trap="/trap/x")

    def line(n: int, result: dict[str, Any]) -> Sent:
        return batch_line(result, twists[n % len(twists)])

    server = UnrulyServer(script)
    return UnrulyBatchServer(twist=line) if course.backend == "batch" else server


def batch_line(result: Mapping[str, Any], twist: Twist | None) -> Sent:
    """Return a result line with a faulty reply; a fault of the connection truncates the line."""
    complete = sent(result)
    if twist is None:
        return complete
    response = dict(result["response"])
    out = twisted(response["body"], twist)
    if out.cut is not None or out.dropped:
        return replace(complete, body=complete.body[: out.cut or 0], billed=out.billed)
    if twist.harmless and (b"\n" in out.body or out.headers):
        return complete
    if twist.kind in ("form", "short") or b"\n" in out.body:
        return replace(complete, body=out.body[:1000].replace(b"\n", b" "))
    body = out.body.decode("utf-8", "surrogatepass")
    mark = "\x01body\x01"
    line = json.dumps({**result, "response": {**response, "status_code": out.status, "body": mark}})
    return Sent(line.replace(json.dumps(mark), body).encode("utf-8", "surrogatepass"), billed=out.billed)


def heal(server: Any) -> None:
    if isinstance(server, UnrulyBatchServer):
        server.heal()
    else:
        server.script = healthy


def _check_harmless(course: Course, result: Verdicts, server: Any) -> None:
    """Check that every trial is answered by its first reply if all faults were harmless."""
    if all(twist is None or twist.harmless for twist in course.twists) and course.backend != "batch":
        assert result.answered.all()
        assert server.n_requests == len(PLAN)
