"""Learn from replies with HTTP 429 (too many requests) how many requests per second a server accepts.

The rate is learned from the replies and not from headers, because the meaning of a header depends on the provider: one provider
counts requests per minute, and another counts them per day. The retry mode "adaptive" of AWS's SDKs also learns a rate, but
decreases it with each rejected request. If a server rejects all requests until the end of a minute, the rate falls almost to
zero. Here, the rate never falls below the number of answers per second, and it decreases by at most a fifth in two seconds.
"""

from __future__ import annotations

import asyncio

DECREASE_FACTOR = 0.8
"""Smallest factor of a single decrease of a limit."""
DECREASE_SECONDS = 2.0
"""Time in which a limit decreases by no more than this factor."""

MAX_REJECTIONS_IN_A_ROW = 10
"""Number of rejected requests in a row that begin a pause, in which nothing is sent."""
MIN_PAUSE_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 30.0
"""Shortest and longest pause if the server does not state Retry-After."""
MAX_PAUSE_SECONDS = 60.0
"""Longest pause if the server states Retry-After: rate limits are usually counted per minute."""

MIN_ANSWERS_PER_INCREASE = 30
MIN_INCREASE_SECONDS = 1.0
FIRST_INCREASE = 0.05
MAX_INCREASE = 1.0
"""The first increase after a rejected request is by 5%. It doubles with each further increase, up to 100%."""

MIN_RATE = 1 / 30
BURST_SECONDS = 0.02
"""Time whose requests may be sent at once."""


class LearnedRateLimiter:
    """Limit the requests per second to what the server accepts; there is no limit before the first HTTP 429.

    A rejected request sets the rate to the number of answers per second since the last decrease, but to no less than 80% of
    the previous rate. There are at least two seconds between two decreases. After 30 answers and one second without a rejected
    request, the rate increases by 5% if it is in use. This percentage doubles with each further increase. If ten requests in a
    row are rejected, nothing is sent until the time in Retry-After has passed.

    Attributes
    ----------
    rate : float or None
        Largest number of requests per second; None for no limit.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self._queue = asyncio.Lock()
        self._next_send = 0.0
        self._paused_until = 0.0
        self._backoff = MIN_PAUSE_SECONDS
        self._n_rejected_in_a_row = 0
        self._changed_at: float | None = None  # start of the time in which requests and answers are counted
        self._n_sent = self._n_answered = 0
        self._increase = FIRST_INCREASE
        self._increased_at = 0.0
        self._n_answered_since_increase = 0

    @property
    def is_limited(self) -> bool:
        """Whether a request may have to wait."""
        return self.rate is not None or asyncio.get_running_loop().time() < self._paused_until

    async def acquire(self) -> None:
        """Wait until a request may be sent; requests wait in the order of their arrival."""
        loop = asyncio.get_running_loop()
        async with self._queue:
            send_time = max(self._next_send, self._paused_until)
            await asyncio.sleep(max(0.0, send_time - loop.time()))
            if self.rate is not None:
                self._next_send = max(self._next_send, loop.time() - BURST_SECONDS) + 1 / self.rate

    def record_sent(self) -> None:
        """Record that a request is sent."""
        if self._changed_at is None:
            self._changed_at = asyncio.get_running_loop().time()
        self._n_sent += 1

    def record_answer(self) -> None:
        """Record that a request was answered, which may increase the rate."""
        self._n_answered += 1
        self._n_rejected_in_a_row = 0
        self._backoff = MIN_PAUSE_SECONDS
        if self.rate is None:
            return
        self._n_answered_since_increase += 1
        now = asyncio.get_running_loop().time()
        seconds = now - self._increased_at
        if self._n_answered_since_increase >= MIN_ANSWERS_PER_INCREASE and seconds >= MIN_INCREASE_SECONDS:
            is_used = self.rate < 2 * self._n_answered_since_increase / seconds
            if is_used:
                self.rate *= 1 + self._increase
                self._increase = min(MAX_INCREASE, 2 * self._increase)
            self._restart_increase(now)

    def record_throttling(self, retry_after: float | None, *, may_decrease: bool) -> None:
        """Record a reply with HTTP 429, which may decrease the rate and begin a pause.

        Parameters
        ----------
        retry_after : float or None
            Seconds that the server asked to wait; None if it did not state them.
        may_decrease : bool
            False if the server may have rejected the request because of the number of calls in flight. The rate then decreases
            only if many requests in a row are rejected.
        """
        now = asyncio.get_running_loop().time()
        self._restart_increase(now)
        self._increase = FIRST_INCREASE
        if now < self._paused_until:
            return  # a request that was sent before the pause
        self._n_rejected_in_a_row += 1
        if self._n_rejected_in_a_row >= MAX_REJECTIONS_IN_A_ROW:
            self._begin_pause(now, retry_after)
            may_decrease = True
        if may_decrease:
            self._decrease_rate(now)

    def _begin_pause(self, now: float, retry_after: float | None) -> None:
        """Send nothing until Retry-After has passed; without Retry-After, for a time that doubles until the next answer."""
        seconds = min(retry_after, MAX_PAUSE_SECONDS) if retry_after else self._backoff
        self._backoff = min(2 * self._backoff, MAX_BACKOFF_SECONDS)
        self._paused_until = now + seconds

    def _decrease_rate(self, now: float) -> None:
        """Set the rate to the number of answers per second since the last decrease, but to no less than 80% of its value."""
        seconds = 0.0 if self._changed_at is None else now - self._changed_at
        if seconds < DECREASE_SECONDS:
            return
        old_rate = self._n_sent / seconds if self.rate is None else self.rate
        self.rate = max(MIN_RATE, self._n_answered / seconds, DECREASE_FACTOR * old_rate)
        self._changed_at = now
        self._n_sent = self._n_answered = 0

    def _restart_increase(self, now: float) -> None:
        """Count the answers until the next increase from now on."""
        self._increased_at = now
        self._n_answered_since_increase = 0
