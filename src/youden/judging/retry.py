"""The one retry policy: what is asked again, when, and how often.

It knows `CallError`s and seconds; it refuses to know what was asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_random_exponential,
)

from youden.judging.failures import CallError

LONGEST_BACKOFF = 30.0
LONGEST_WAIT = 300.0
"""Seconds: a server that asks to wait longer has, for this run, failed the trial."""


def worth_another_try(error: BaseException) -> bool:
    """Whether the same call may go better later, and that soon."""
    return isinstance(error, CallError) and error.kind == "retry" and (error.retry_after or 0) <= LONGEST_WAIT


def retrying(
    *, max_tries: int, backoff: float, stopped: Callable[[], bool], pause: Callable[[float], Awaitable[None]]
) -> AsyncRetrying:
    """At most `max_tries`, behind full jitter of `backoff`·2ⁿ seconds, never before Retry-After.

    stopped: whether the run ends, so that nothing is tried again. pause: sleeps so many seconds, or until that happens.
    """
    jitter = wait_random_exponential(multiplier=backoff, max=max(backoff, LONGEST_BACKOFF))

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, CallError) else None
        return jitter(state) + (asked or 0)

    return AsyncRetrying(
        retry=retry_if_exception(worth_another_try),
        stop=lambda state: stopped() or state.attempt_number >= max_tries,
        wait=wait,
        sleep=pause,
        reraise=True,
    )
