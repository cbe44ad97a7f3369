"""Learn from replies with HTTP 429 (too many requests) how many requests per second a server accepts.

The rate is learned from the answers and not from headers, because the same header has different meanings: with one
provider, it counts requests per minute, with another per day. A decrease is kept only if the server still gives nearly
as many answers. Otherwise, it rejects requests at random, at any rate, because it lacks capacity. The rate also limits
the calls in flight, of which a server may accept a certain number, because their mean number is the rate times the
duration of a call.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import NamedTuple

WINDOW_SECONDS = 2.0
MIN_REPLIES = 100
"""Shortest time and smallest number of replies after which the rate may change."""
MAX_GAP_SECONDS = 10.0
"""Longest time between two replies of a window: a longer one is an outage or a pause, in which no rate can be measured."""

MAX_SHARE = 0.04
LOW_SHARE = 0.01
"""The rate decreases if a larger share of the requests than the first number is rejected. It increases up to the second one."""
MAX_TOLERANCE, LOW_TOLERANCE = 1.25, 0.5
"""The same numbers while a share of rejected requests is tolerated, as multiples of this share."""
MAX_TOLERATED_SHARE = 0.5
N_TOLERANT_WINDOWS = 8
"""Largest share of rejected requests that is tolerated after a decrease in vain, and for how many windows."""
VAIN_FRACTION = 0.7
"""A decrease was in vain if the relative decrease of the answers exceeds this fraction of that of the requests."""
MIN_FACTOR = 0.3
"""Smallest factor by which the rate decreases at a time."""
FIRST_INCREASE = 0.05
MAX_INCREASE = 1.0
"""The first increase after a decrease is by 5%. It doubles with each further increase, up to 100%."""
MIN_RATE = 0.2

MAX_REJECTIONS_IN_A_ROW = 20
"""Number of rejected requests in a row after which nothing is sent for a while."""
MIN_PAUSE_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 30.0
"""Shortest and longest pause if the server does not state Retry-After."""
MAX_PAUSE_SECONDS = 60.0
"""Longest pause if the server states Retry-After: rate limits are usually counted per minute."""

MAX_BLOCKED_SECONDS = 300.0
"""Time after the first pause in which the server must answer a request; otherwise it blocks the judge."""

BURST_SECONDS = 0.02
"""The requests of this time may be sent at once."""


class LearnedRateLimiter:
    """Limit the requests per second to what the server accepts; there is no limit before the first HTTP 429.

    Replies are counted in windows of at least two seconds and 100 replies. If more than 4% of the requests of a window are
    rejected, the rate decreases to the number of answers per second. The next window begins when the requests that were sent
    before have been answered. If it has fewer answers nearly in proportion to the requests, the server rejects requests at
    random. The decrease is then undone, and this share of rejected requests is tolerated for the next 8 windows, if it is at
    most one half.

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
        self._first_pause = inf  # start of the first pause since the last answer
        self._window_start = self._last_reply = inf  # the first window begins after the first answer
        self._n_replies = self._n_rejected = 0  # in this window
        self._longest_answer = 0.0  # seconds from sending a request to its answer, in this window
        self._tolerated_share = 0.0  # share of requests that the server rejects at any rate
        self._n_tolerant_windows = 0
        self._before_decrease: _Window | None = None  # the window before the first decrease since the last increase
        self._increase = FIRST_INCREASE

    @property
    def is_limited(self) -> bool:
        """Whether a request may have to wait."""
        return self.rate is not None or asyncio.get_running_loop().time() < self._paused_until

    @property
    def is_blocked(self) -> bool:
        """Whether the server has answered no request for `MAX_BLOCKED_SECONDS` after it began to reject all requests."""
        return asyncio.get_running_loop().time() - self._first_pause >= MAX_BLOCKED_SECONDS

    async def acquire(self) -> None:
        """Wait until a request may be sent; requests wait in the order of their arrival."""
        loop = asyncio.get_running_loop()
        async with self._queue:
            send_time = max(self._next_send, self._paused_until)
            await asyncio.sleep(max(0.0, send_time - loop.time()))
            if self.rate is not None:
                self._next_send = max(self._next_send, loop.time() - BURST_SECONDS) + 1 / self.rate

    def record_answer(self, seconds: float) -> None:
        """Record that a request was answered, which may increase the rate.

        Parameters
        ----------
        seconds : float
            Seconds from sending the request to its answer.
        """
        if self._window_start == inf:
            self._begin_window(delay=seconds)
        self._longest_answer = max(self._longest_answer, seconds)
        self._n_rejected_in_a_row = 0
        self._first_pause = inf
        self._backoff = MIN_PAUSE_SECONDS
        self._count_reply(is_rejected=False)

    def record_throttling(self, retry_after: float | None) -> None:
        """Record a reply with HTTP 429, which may decrease the rate or begin a pause.

        Parameters
        ----------
        retry_after : float or None
            Seconds that the server asked to wait; None if it did not say.
        """
        now = asyncio.get_running_loop().time()
        if now < self._paused_until:
            return  # the request was sent before the pause
        self._n_rejected_in_a_row += 1
        if self._n_rejected_in_a_row >= MAX_REJECTIONS_IN_A_ROW:
            seconds = min(retry_after, MAX_PAUSE_SECONDS) if retry_after else self._backoff
            self._backoff = min(2 * self._backoff, MAX_BACKOFF_SECONDS)
            self._paused_until = now + seconds
            self._first_pause = min(self._first_pause, now)
        self._count_reply(is_rejected=True)

    def _count_reply(self, *, is_rejected: bool) -> None:
        """Count a reply, and adapt the rate if the window has enough of them."""
        now = asyncio.get_running_loop().time()
        if now - self._last_reply > MAX_GAP_SECONDS:
            self._begin_window(delay=self._longest_answer)
        self._last_reply = now
        if now < self._window_start:
            return

        self._n_replies += 1
        self._n_rejected += is_rejected
        seconds = now - self._window_start
        if seconds >= WINDOW_SECONDS and self._n_replies >= MIN_REPLIES:
            old_rate = self.rate
            self._adapt_rate(_Window(old_rate, self._n_replies / seconds, self._n_rejected / self._n_replies))
            self._begin_window(delay=0.0 if self.rate == old_rate else self._longest_answer)

    def _begin_window(self, *, delay: float) -> None:
        """Count the replies from now on, after a delay in seconds in which earlier requests are answered."""
        self._window_start = asyncio.get_running_loop().time() + delay
        self._n_replies = self._n_rejected = 0
        self._longest_answer = 0.0

    def _adapt_rate(self, window: _Window) -> None:
        """Decrease or increase the rate according to the share of rejected requests in a window."""
        self._n_tolerant_windows -= 1
        if self._n_tolerant_windows <= 0:
            self._tolerated_share = 0.0
        low_share = max(LOW_SHARE, LOW_TOLERANCE * self._tolerated_share)
        max_share = max(MAX_SHARE, MAX_TOLERANCE * self._tolerated_share)

        before = self._before_decrease
        if before is not None and window.is_slowed_in_vain(before):
            self.rate = before.rate
            self._before_decrease = None
            self._tolerated_share, self._n_tolerant_windows = window.rejected_share, N_TOLERANT_WINDOWS
        elif window.rejected_share > max_share:
            self._before_decrease = before or window
            old_rate = window.replies_per_second if self.rate is None else self.rate
            self.rate = max(window.answers_per_second, MIN_FACTOR * old_rate, MIN_RATE)
            self._increase = FIRST_INCREASE
        elif self.rate is not None and window.rejected_share <= low_share and window.replies_per_second > self.rate / 2:
            self._before_decrease = None
            self.rate *= 1 + self._increase
            self._increase = min(2 * self._increase, MAX_INCREASE)


class _Window(NamedTuple):
    """Replies of some seconds, and the limit of the rate in this time."""

    rate: float | None
    replies_per_second: float
    rejected_share: float

    @property
    def answers_per_second(self) -> float:
        """Number of requests per second that were answered."""
        return self.replies_per_second * (1 - self.rejected_share)

    def is_slowed_in_vain(self, before: _Window) -> bool:
        """Return whether a lower rate has reduced the answers nearly in proportion to the requests."""
        if before.answers_per_second == 0 or self.rejected_share > MAX_TOLERATED_SHARE:
            return False
        requests_ratio = self.replies_per_second / before.replies_per_second
        answers_ratio = self.answers_per_second / before.answers_per_second
        return 1 - answers_ratio > VAIN_FRACTION * (1 - requests_ratio)
