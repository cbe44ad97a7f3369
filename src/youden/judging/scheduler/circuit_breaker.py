"""Stop sending while the server of a judge is down: a circuit breaker that all calls to the judge share.

The circuit is closed (calls are sent), open during an outage (calls wait), or half-open (one probe request is sent, to
test whether the server has recovered). A broken connection is not the fault of a trial, so no failure counts as an
attempt of its call while the circuit is open.

This is implemented here because tenacity's objects decide about one call each and share no state between calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress

from youden.judging.call.failures import Attempts, CallError, is_no_response

FAILURE_THRESHOLD = 3
"""Number of different calls that fail, with no reply in between, before the circuit opens. A failure to connect opens
it at once. Retries of a failed call do not count, because a single text can break a server."""

MAX_PROBE_INTERVAL_SECONDS = 5.0
"""Longest wait before a probe. The first probe is sent at once, and the waits before the next ones double."""

MAX_SUSPECT_PROBES = 3
"""Number of probes for which a call that failed in this outage may be sent. After that, a request that was answered
before is sent in its place, because the call may be the cause of the outage."""

_ADMITTED = nullcontext()


class CircuitBreaker:
    """Track whether the server of a judge is reachable.

    Only a server that has answered can have an outage.

    Parameters
    ----------
    max_outage : float
        Seconds of outage after which the run stops. 0 disables the breaker: every failure then counts as an attempt of
        its call.

    Attributes
    ----------
    has_answered : bool
        Whether the server has answered. Set it if answers of an earlier invocation are in the store.
    """

    def __init__(self, max_outage: float) -> None:
        self.max_outage = max_outage
        self.has_answered = False
        self._outage_start: float | None = None  # time at which the circuit was opened; None while it is closed
        self._failed_calls: list[Attempts] = []  # calls that failed for the first time since the last reply
        self._n_probes = 0  # in this outage
        self._probe_lock = asyncio.Lock()
        self._wake = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether there is an outage."""
        return self._outage_start is not None

    @property
    def timed_out(self) -> bool:
        """Whether the outage lasts longer than the run waits."""
        return self._outage_start is not None and time.monotonic() - self._outage_start >= self.max_outage

    def needs_other_probe(self, attempts: Attempts) -> bool:
        """Return whether another request must be sent as the probe, the call that tests whether an outage is over.

        This is the case if the given call failed in this outage and may be its cause.
        """
        return self.is_open and attempts.suspect and self._n_probes > MAX_SUSPECT_PROBES

    def record_reply(self, *, is_answer: bool) -> float | None:
        """Record that the server replied, which ends an outage.

        is_answer : whether the reply is an answer; otherwise it is an error

        Returns the duration of the outage in seconds; None if there was none.
        """
        self.has_answered |= is_answer
        self._failed_calls.clear()
        outage_start = self._outage_start
        self._outage_start = None
        self._wake.set()
        return None if outage_start is None else time.monotonic() - outage_start

    def record_failure(self, attempts: Attempts, error: CallError) -> bool:
        """Record a failed call, and open the circuit if the failure shows that the server is down.

        The circuit opens at once if a connection cannot be made, or else when 3 different calls have failed since the last reply.
        It never opens before the first answer of the server, or if `max_outage` is 0. While the circuit is open, only single
        calls are sent, to test the server. An outage consists of the failures that opened the circuit and of all failures while
        it is open. They do not count as attempts: when the circuit opens, `n_failed` of the calls that opened it becomes 0.
        `suspect` becomes True for each call that failed in the outage, because its text may have caused the outage.

        Parameters
        ----------
        attempts : Attempts
            The attempts of the call, changed in place. `n_failed` is not increased.
        error : CallError
            The failure. It has no effect if the server replied.

        Returns
        -------
        bool
            Whether the call failed in an outage. If False, the caller counts the failure as an attempt, in `n_failed`.
        """
        is_enabled = self.has_answered and self.max_outage > 0
        if not is_enabled or not is_no_response(error):
            return False
        if not self.is_open:
            if not self._is_start_of_outage(attempts, error):
                return False
            self._begin_outage()
        attempts.suspect = True
        return True

    def _is_start_of_outage(self, attempts: Attempts, error: CallError) -> bool:
        """Count a call that failed without a reply, and return whether its failure is the start of an outage.

        An outage starts at once if the connection cannot be opened. Otherwise, it starts when `FAILURE_THRESHOLD` different calls
        have failed since the last reply. Each call counts once, because its text may be what makes the server fail.

        attempts : earlier failures of the call, in outages (`suspect`) and outside of them (`n_failed`)
        error : the failure
        """
        was_never_sent = error.unbilled and error.status is None  # the connection could not be opened
        if was_never_sent:
            return True
        has_failed_before = attempts.n_failed > 0 or attempts.suspect
        if has_failed_before:
            return False
        self._failed_calls.append(attempts)
        return len(self._failed_calls) >= FAILURE_THRESHOLD

    def admit(self) -> AbstractAsyncContextManager[None]:
        """Return a context that a call to the server has to enter before it is sent.

        If the circuit is closed, the call is admitted at once. While it is open, one call at a time is admitted as the
        probe; when it closes, all waiting calls are admitted.
        """
        return self._admit_probe() if self.is_open else _ADMITTED

    @asynccontextmanager
    async def _admit_probe(self) -> AsyncIterator[None]:
        """Wait until a call may be sent as a probe, a test whether the outage is over. Send it in the body of `async with`.

        Only one call is in the body at a time, and all other calls wait for its result. A reply closes the circuit for all.
        """
        async with AsyncExitStack() as lock_stack:
            await lock_stack.enter_async_context(self._probe_lock)
            await self._wait_for_probe()

            # if the circuit has closed during the wait, release the lock now, so that the other calls need not wait
            if not self.is_open:
                await lock_stack.aclose()
            yield

    def wake_waiters(self) -> None:
        """Let calls that wait for the next probe proceed now."""
        self._wake.set()

    def _begin_outage(self) -> None:
        """Open the circuit, at the beginning of an outage."""
        self._outage_start = time.monotonic()
        self._n_probes = 0
        self._wake.clear()
        # the failures that led to this are due to the outage, so they do not count as attempts
        for attempts in self._failed_calls:
            attempts.n_failed = 0
            attempts.suspect = True

    async def _wait_for_probe(self) -> None:
        """Wait until the next probe is due: 0 s before the first probe, then ¼ s, ½ s, 1 s, … up to 5 s."""
        if not self.is_open:
            return
        seconds = 0.0
        if self._n_probes:
            seconds = min(MAX_PROBE_INTERVAL_SECONDS, 0.25 * 2.0 ** (self._n_probes - 1))
        self._n_probes += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
