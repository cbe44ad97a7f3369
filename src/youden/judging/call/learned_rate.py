"""Learn from replies with HTTP 429 (too many requests) how many requests per second a server accepts.

The rate is learned from the answers and not from headers, because the same header has different meanings: with one
provider, it counts requests per minute, with another per day. A decrease is kept only if it lowers the share of
rejected requests: a server that lacks capacity rejects requests at random, at any rate.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

WINDOW_SECONDS = 2.0
MIN_REPLIES = 100
"""Shortest time and smallest number of replies after which the rate may change."""
MAX_GAP_SECONDS = 10.0
"""Longest time between two replies of a window: a longer one is an outage or a pause, in which no rate can be measured."""

HIGH_SHARE = 0.03
LOW_SHARE = 0.01
"""The rate decreases if the share of rejected requests exceeds the tolerated share by more than the first number. It increases
if the excess is at most the second number."""
SAME_SHARE = 0.8
"""A decrease may have been in vain if the shares of rejected requests before and after it have at least this ratio."""
N_TOLERANT_WINDOWS = 15
"""Number of windows in which a share of rejected requests that a decrease did not lower is tolerated."""
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

BURST_SECONDS = 0.02
"""The requests of this time may be sent at once."""


class LearnedRateLimiter:
    """Limit the requests per second to what the server accepts; there is no limit before the first HTTP 429.

    Replies are counted in windows of at least two seconds and 100 replies. If more than 3% of the requests of a window are
    rejected, the rate decreases to the number of answers per second. If the next window has fewer answers and hardly fewer
    rejected requests in proportion, the server rejects this share at any rate. The decrease is then undone, and the share is
    tolerated for the next 15 windows.

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
        self._window_start = self._last_reply = float("-inf")
        self._n_answered = self._n_rejected = 0  # in this window
        self._tolerated_share = 0.0  # share of requests that the server rejects at any rate
        self._n_tolerant_windows = 0
        self._before_decrease: _Window | None = None  # the last window, if the rate decreased after it
        self._increase = FIRST_INCREASE

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

    def record_answer(self) -> None:
        """Record that a request was answered, which may increase the rate."""
        self._n_answered += 1
        self._n_rejected_in_a_row = 0
        self._backoff = MIN_PAUSE_SECONDS
        self._end_full_window()

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
        self._n_rejected += 1
        self._n_rejected_in_a_row += 1
        if self._n_rejected_in_a_row >= MAX_REJECTIONS_IN_A_ROW:
            seconds = min(retry_after, MAX_PAUSE_SECONDS) if retry_after else self._backoff
            self._backoff = min(2 * self._backoff, MAX_BACKOFF_SECONDS)
            self._paused_until = now + seconds
        self._end_full_window()

    def _end_full_window(self) -> None:
        """Adapt the rate to the replies of the window if it has enough of them, and begin the next window."""
        now = asyncio.get_running_loop().time()
        is_after_gap = now - self._last_reply > MAX_GAP_SECONDS
        self._last_reply = now
        if is_after_gap:
            self._begin_window(now)
        seconds = now - self._window_start
        n_replies = self._n_answered + self._n_rejected
        if seconds < WINDOW_SECONDS or n_replies < MIN_REPLIES:
            return

        window = _Window(self.rate, n_replies / seconds, self._n_answered / seconds)
        if self._before_decrease is not None and window.is_slowed_in_vain(self._before_decrease):
            self.rate = self._before_decrease.rate
            self._before_decrease = None
            self._tolerated_share, self._n_tolerant_windows = window.rejected_share, N_TOLERANT_WINDOWS
        else:
            self._adapt_rate(window)
        self._begin_window(now)

    def _begin_window(self, now: float) -> None:
        """Count the replies from now on."""
        self._window_start = now
        self._n_answered = self._n_rejected = 0

    def _adapt_rate(self, window: _Window) -> None:
        """Decrease or increase the rate according to the share of rejected requests in a window."""
        self._n_tolerant_windows -= 1
        if self._n_tolerant_windows <= 0:
            self._tolerated_share = 0.0
        self._tolerated_share = min(self._tolerated_share, window.rejected_share)
        excess_share = window.rejected_share - self._tolerated_share

        self._before_decrease = None
        if excess_share > HIGH_SHARE:
            self._before_decrease = window
            old_rate = window.replies_per_second if self.rate is None else self.rate
            self.rate = max(window.answers_per_second, MIN_FACTOR * old_rate, MIN_RATE)
            self._increase = FIRST_INCREASE
        elif self.rate is not None and excess_share <= LOW_SHARE and window.replies_per_second > self.rate / 2:
            self.rate *= 1 + self._increase
            self._increase = min(2 * self._increase, MAX_INCREASE)


class _Window(NamedTuple):
    """Replies of some seconds, and the limit of the rate in this time."""

    rate: float | None
    replies_per_second: float
    answers_per_second: float

    @property
    def rejected_share(self) -> float:
        """Fraction of the requests that were rejected."""
        return 1 - self.answers_per_second / self.replies_per_second

    def is_slowed_in_vain(self, before: _Window) -> bool:
        """Return whether a lower rate has reduced the answers as much as the requests, compared to the window before."""
        requests_ratio = self.replies_per_second / before.replies_per_second
        answers_ratio = self.answers_per_second / before.answers_per_second if before.answers_per_second else 1.0
        smaller_share, larger_share = sorted((self.rejected_share, before.rejected_share))
        is_same_share = smaller_share > SAME_SHARE * larger_share
        return is_same_share and answers_ratio < (1 + requests_ratio) / 2
