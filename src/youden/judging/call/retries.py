"""Decide whether and when a failed call is sent again: exponential backoff with full jitter, after any Retry-After.

The rules are tenacity's stop and wait objects. Two rules are implemented here, because tenacity has no
equivalent: HTTP 429 does not count as an attempt, so each call has two counts (`Attempts`); and a waiting call may not
occupy a worker, so `count_failure_and_compute_wait` returns the seconds and the caller schedules the next attempt. The
shared circuit breaker is in `scheduler.circuit_breaker`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, stop_after_attempt, wait_combine, wait_random_exponential

from youden.judging.call.failures import TOO_MANY_REQUESTS, Attempts, CallError

T = TypeVar("T")

MAX_BACKOFF_SECONDS = 30.0
MAX_THROTTLED_SECONDS = 300.0
"""Maximum total wait of a call because of HTTP 429, and maximum Retry-After of other errors; then the call fails."""


def _get_retry_after(retry_state: RetryCallState) -> float:
    """Return the seconds that the server asked to wait in Retry-After; 0 if it did not."""
    if retry_state.outcome is None:
        return 0.0
    error = retry_state.outcome.exception()
    if not isinstance(error, CallError):
        return 0.0
    return error.retry_after or 0.0


class RetryPolicy:
    """Retry transient errors, in at most `max_tries` attempts per call.

    Parameters
    ----------
    max_tries : int
        Largest number of attempts. HTTP 429 does not count; it is limited by `MAX_THROTTLED_SECONDS`.
    backoff : float
        Seconds. The wait after the nth failure is uniform on [0, min(backoff·2ⁿ⁻¹, max(backoff,
        `MAX_BACKOFF_SECONDS`))], plus Retry-After.
    """

    def __init__(self, max_tries: int, backoff: float) -> None:
        jitter = wait_random_exponential(backoff, max=max(backoff, MAX_BACKOFF_SECONDS))
        self._tenacity = Retrying(stop=stop_after_attempt(max_tries), wait=wait_combine(jitter, _get_retry_after))

    def count_failure_and_compute_wait(self, attempts: Attempts, error: CallError) -> float | None:
        """Count a failed attempt, and compute the time until the next attempt.

        A reply with HTTP 429 (too many requests) does not count towards `max_tries`. It is counted in `attempts.n_throttled`,
        and all other transient errors in `attempts.n_failed`.

        Parameters
        ----------
        attempts : Attempts
            Counts of the call so far; changed in place if the error is transient.
        error : CallError
            Error of the attempt.

        Returns
        -------
        float or None
            Seconds until the next attempt. None if the call must not be sent again, for one of these reasons:

            - The error is not transient.
            - After HTTP 429, the sum of all waits of the call after HTTP 429, this one included, exceeds 300 seconds
              (`MAX_THROTTLED_SECONDS`).
            - After another error, `max_tries` attempts have failed, or the server asked for a wait longer than 300 seconds.

            The wait is random; its upper limit doubles with each failure. The wait that the server asked for is added.
        """
        if error.kind != "transient":
            return None

        if error.status == TOO_MANY_REQUESTS:
            attempts.n_throttled += 1
            state = self._make_tenacity_state(error, attempts.n_throttled)
            seconds = self._tenacity.wait(state)
            attempts.throttled_seconds += seconds
            return seconds if attempts.throttled_seconds <= MAX_THROTTLED_SECONDS else None

        attempts.n_failed += 1
        state = self._make_tenacity_state(error, attempts.n_failed)
        was_last_attempt = self._tenacity.stop(state)
        is_wait_too_long = _get_retry_after(state) > MAX_THROTTLED_SECONDS
        if was_last_attempt or is_wait_too_long:
            return None
        return self._tenacity.wait(state)

    def _make_tenacity_state(self, error: CallError, n_attempts: int) -> RetryCallState:
        """Describe a failed call to tenacity, which then decides whether the call is sent again and computes the wait.

        error : error of the last attempt
        n_attempts : number of attempts that count, including the last one
        """
        state = RetryCallState(self._tenacity, fn=None, args=(), kwargs={})  # tenacity does not make the call itself
        exc_info = (type(error), error, None)
        state.set_exception(exc_info)
        state.attempt_number = n_attempts
        return state

    async def call(self, send: Callable[[], Awaitable[T]]) -> T:
        """Call a function until it succeeds or `count_failure_and_compute_wait` gives up.

        Parameters
        ----------
        send : async function without parameters
            Makes one attempt; raises CallError if the attempt fails.

        Returns
        -------
        object
            Result of the attempt that succeeded.

        Raises
        ------
        CallError
            Error of the last attempt, if all failed.
        """
        attempts = Attempts()
        while True:
            try:
                return await send()
            except CallError as error:
                seconds = self.count_failure_and_compute_wait(attempts, error)
                if seconds is None:
                    raise
            await asyncio.sleep(seconds)
