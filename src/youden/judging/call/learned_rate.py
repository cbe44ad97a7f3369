"""Learn from replies with HTTP 429 (too many requests) how many requests per second a server accepts.

The rate is learned from the answers and not from headers, because the same header has different meanings: with one
provider, it counts requests per minute, with another per day. A decrease is kept only if the server still gives nearly
as many answers. Otherwise, it rejects requests at random, at any rate, because it lacks capacity. A server may also limit
the calls in flight. Their limit is therefore their mean number at the learned rate: the rate times the mean duration of a
call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import ceil, inf
from typing import NamedTuple

WINDOW_SECONDS = 2.0
MIN_REPLIES, MIN_ANSWERS = 50, 25
"""The rate may change after this time and `MIN_REPLIES` replies, or `MIN_ANSWERS` if no request was rejected."""
MAX_GAP_SECONDS = 10.0
"""Longest time between two replies of a window. A longer time is an outage or a pause, in which no rate can be measured."""

MAX_SHARE = 0.035
LOW_SHARE = 0.01
"""The rate decreases if the share of rejected requests exceeds `MAX_SHARE`. It increases if the share is at most `LOW_SHARE`."""
MAX_TOLERANCE, LOW_TOLERANCE = 1.5, 0.5
"""While a share of rejected requests is tolerated, these multiples of it are added to `MAX_SHARE` and `LOW_SHARE`."""
MAX_TOLERATED_SHARE = 0.5
N_TOLERANT_WINDOWS = 64
"""Largest share of rejected requests that is tolerated after a decrease in vain, and for how many windows."""
VAIN_FRACTION = 0.7
"""A decrease was in vain if the relative decrease of the answers exceeds this fraction of that of the requests."""
MIN_FACTOR = 0.3
"""Smallest factor by which the rate decreases at a time."""
FIRST_INCREASE = 0.02
MAX_INCREASE = 0.25
INCREASE_PER_SHARE = 0.35
"""The first increase after a decrease is by 2%, or by this fraction of the share of rejected requests if it is larger: many
rejections make the measured rate inaccurate. Each further increase is larger by 2 percentage points, up to 25%."""
MIN_RATE = 0.2

MAX_REJECTIONS_IN_A_ROW = 15
N_ACCEPTED_IN_A_ROW = 1
"""A pause begins after 15 replies with HTTP 429 in a row, or if at most one other request was sent between the last 15 rejected
ones. The second rule also applies while earlier requests, which the server accepted, are still being answered."""
MIN_PAUSE_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 30.0
"""Shortest and longest pause if the server does not state Retry-After."""
MAX_PAUSE_SECONDS = 60.0
"""Longest pause if the server states Retry-After: rate limits are usually counted per minute."""
ROUNDING_SECONDS = 0.5
"""Added to Retry-After, which servers round to whole seconds."""

MAX_BLOCKED_SECONDS = 300.0
"""The run ends if the server answers no request for this time after the first pause began."""
MAX_LONG_WAITS = 3
"""The run also ends after this many replies with HTTP 429, without an answer in between, that ask to wait longer than
`MAX_BLOCKED_SECONDS`."""

BURST_SECONDS = 0.1
"""The requests of this time may be sent at once."""


class LearnedRateLimiter:
    """Limit the requests per second to what the server accepts; there is no limit before the first HTTP 429.

    Replies are counted in windows of at least two seconds and 50 replies. If more than 3.5% of the requests of a window are
    rejected, the rate decreases to the number of answers per second; if several processes send requests, to the mean of their
    numbers. The next window begins when the requests that were sent before have been answered. If its answers decrease nearly
    in proportion to the requests, the server rejects requests at random. The decrease is then undone, and this share of
    rejected requests, if it is at most one half, is tolerated for 64 windows.

    The window after an increase is not compared with later ones, because the server may have saved up permissions for requests
    while the rate was low. If other processes send requests, the comparison is made after three decreases, because the other
    processes need this time to decrease their rates, too.

    Attributes
    ----------
    rate : float or None
        Largest number of requests per second; None for no limit.
    max_in_flight : float
        Largest number of calls in flight: the rate times the mean duration of a call. Infinite without a rate.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self.max_in_flight = inf
        self._n_processes = 1  # processes that send requests, including this one
        self._queue = asyncio.Lock()
        self._next_send = 0.0
        self._paused_until = 0.0
        self._backoff = MIN_PAUSE_SECONDS
        self._answers_of_others: deque[tuple[float, int]] = deque(maxlen=6)  # time, and number of answers until then
        self._n_sent = 0
        self._n_rejected_in_a_row = 0
        self._n_long_waits_in_a_row = 0
        self._first_pause = inf  # start of the first pause since the last answer
        self._last_rejections: deque[int] = deque(maxlen=MAX_REJECTIONS_IN_A_ROW)  # numbers of the rejected requests
        self._window_start = self._last_reply = inf  # the first window begins after the first answer
        self._n_replies = self._n_rejected = 0  # in the current window
        self._longest_answer = 0.0  # seconds from sending a request to its answer, in this window
        self._answer_seconds = 0.0  # sum over the answers of this window
        self._tolerated_share = 0.0  # share of requests that the server rejects at any rate
        self._n_tolerant_windows = 0
        self._before_decrease: _Window | None = None  # the window with which later ones are compared
        self._n_decreases = 0  # since the window `_before_decrease`
        self._was_increased = False  # whether the rate was increased before this window
        self._increase = FIRST_INCREASE

    def record_other_processes(self, n: int, *, n_answered: int) -> None:
        """Record the other processes that send requests to the server. Their answers per second are measured over some seconds.

        Parameters
        ----------
        n : int
            Number of the other processes. The measurement begins again if it changes.
        n_answered : int
            Number of answers that they have received so far.
        """
        now = asyncio.get_running_loop().time()
        if n + 1 != self._n_processes:
            self._n_processes = n + 1
            self._answers_of_others.clear()
        if not self._answers_of_others or now - self._answers_of_others[-1][0] >= 1.0:
            self._answers_of_others.append((now, n_answered))

    @property
    def is_limited(self) -> bool:
        """Whether a request may have to wait."""
        return self.rate is not None or asyncio.get_running_loop().time() < self._paused_until

    @property
    def is_blocked(self) -> bool:
        """Whether the server has rejected all requests for `MAX_BLOCKED_SECONDS`, or asks repeatedly to wait longer than that."""
        seconds = asyncio.get_running_loop().time() - self._first_pause
        return seconds >= MAX_BLOCKED_SECONDS or self._n_long_waits_in_a_row >= MAX_LONG_WAITS

    async def acquire(self) -> None:
        """Wait until a request may be sent; requests wait in the order of their arrival."""
        loop = asyncio.get_running_loop()
        async with self._queue:
            send_time = max(self._next_send, self._paused_until)
            await asyncio.sleep(max(0.0, send_time - loop.time()))
            if self.rate is not None:
                self._next_send = max(self._next_send, loop.time() - BURST_SECONDS) + 1 / self.rate

    def number_request(self) -> int:
        """Return a number for the request that is sent now. Requests are numbered from 1."""
        self._n_sent += 1
        return self._n_sent

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
        self._n_rejected_in_a_row = self._n_long_waits_in_a_row = 0
        self._first_pause = inf
        self._backoff = MIN_PAUSE_SECONDS
        self._count_reply(seconds)

    def record_throttling(self, number: int, retry_after: float | None) -> None:
        """Record a reply with HTTP 429, which may decrease the rate or begin a pause.

        A pause stops all requests. It begins after 15 such replies in a row, or if 15 of 16 consecutive requests were
        rejected. A reply during a pause does not decrease the rate.

        Parameters
        ----------
        number : int
            Number of the request, from `number_request`.
        retry_after : float or None
            Seconds that the server asked to wait. If a pause begins, it lasts 0.5 seconds longer, but at most 60 seconds. If None
            or 0, the first pause lasts 1 second. Until the next answer, each further pause lasts twice as long, up to 30 seconds.
        """
        now = asyncio.get_running_loop().time()
        self._last_rejections.append(number)
        if retry_after is not None and retry_after > MAX_BLOCKED_SECONDS:
            self._n_long_waits_in_a_row += 1
        if now < self._paused_until:
            return  # the request was sent before the pause
        self._n_rejected_in_a_row += 1
        if self._n_rejected_in_a_row >= MAX_REJECTIONS_IN_A_ROW or self._are_last_requests_rejected():
            seconds = min(retry_after + ROUNDING_SECONDS, MAX_PAUSE_SECONDS) if retry_after else self._backoff
            self._backoff = min(2 * self._backoff, MAX_BACKOFF_SECONDS)
            self._paused_until = now + seconds
            self._first_pause = min(self._first_pause, now)
        self._count_reply(None)

    def _are_last_requests_rejected(self) -> bool:
        """Return whether at most `N_ACCEPTED_IN_A_ROW` other requests were sent between the last 15 rejected ones."""
        n_requests = max(self._last_rejections) - min(self._last_rejections) + 1
        n_rejected = len(self._last_rejections)
        return n_rejected == MAX_REJECTIONS_IN_A_ROW and n_requests - n_rejected <= N_ACCEPTED_IN_A_ROW

    def _count_reply(self, seconds_to_answer: float | None) -> None:
        """Count a reply, and adapt the limits if the window has enough of them.

        seconds_to_answer : duration of the call; None if the request was rejected
        """
        now = asyncio.get_running_loop().time()
        if now - self._last_reply > MAX_GAP_SECONDS:
            self._begin_window(delay=self._longest_answer)
        self._last_reply = now
        if now < self._window_start:
            return

        self._n_replies += 1
        if seconds_to_answer is None:
            self._n_rejected += 1
        else:
            self._answer_seconds += seconds_to_answer
        seconds = now - self._window_start
        min_replies = MIN_ANSWERS if self._n_rejected == 0 else MIN_REPLIES
        if seconds >= WINDOW_SECONDS and self._n_replies >= min_replies:
            old_rate = self.rate
            self._adapt_rate(_Window(old_rate, self._n_replies / seconds, self._n_rejected / self._n_replies))
            self._adapt_calls_in_flight()
            self._begin_window(delay=0.0 if self.rate == old_rate else self._longest_answer)

    def _adapt_calls_in_flight(self) -> None:
        """Limit the calls in flight to the rate times the mean duration of the calls that were answered in this window."""
        n_answered = self._n_replies - self._n_rejected
        if self.rate is None:
            self.max_in_flight = inf
        elif n_answered > 0:
            self.max_in_flight = ceil(self.rate * self._answer_seconds / n_answered)

    def _begin_window(self, *, delay: float) -> None:
        """Count the replies from now on, after a delay in seconds in which earlier requests are answered."""
        self._window_start = asyncio.get_running_loop().time() + delay
        self._n_replies = self._n_rejected = 0
        self._longest_answer = self._answer_seconds = 0.0

    def _adapt_rate(self, window: _Window) -> None:
        """Decrease or increase the rate according to the share of rejected requests in a window."""
        self._n_tolerant_windows -= 1
        if self._n_tolerant_windows < 0:
            self._tolerated_share = 0.0
        low_share = LOW_SHARE + LOW_TOLERANCE * self._tolerated_share
        max_share = MAX_SHARE + MAX_TOLERANCE * self._tolerated_share
        was_increased, self._was_increased = self._was_increased, False

        n_decreases_needed = 1 if self._n_processes == 1 else 3
        before = self._before_decrease if self._n_decreases >= n_decreases_needed else None

        if window.rejected_share > max_share and before is not None and window.is_slowed_in_vain(before):
            self.rate = before.rate
            self._before_decrease = None
            self._tolerated_share, self._n_tolerant_windows = window.rejected_share, N_TOLERANT_WINDOWS
        elif window.rejected_share > max_share:
            if self._before_decrease is None and not was_increased:
                self._before_decrease, self._n_decreases = window, 0
            self._n_decreases += 1
            old_rate = window.replies_per_second if self.rate is None else self.rate
            self.rate = max(self._compute_fair_share(window.answers_per_second), MIN_FACTOR * old_rate, MIN_RATE)
            self._increase = min(max(FIRST_INCREASE, INCREASE_PER_SHARE * window.rejected_share), MAX_INCREASE)
        elif self.rate is not None and window.rejected_share <= low_share and window.replies_per_second > self.rate / 2:
            self._before_decrease = None
            self._was_increased = True
            self.rate *= 1 + self._increase
            self._increase = min(self._increase + FIRST_INCREASE, MAX_INCREASE)

    def _compute_fair_share(self, answers_per_second: float) -> float:
        """Return the mean number of answers per second over all processes, given that of this process."""
        if len(self._answers_of_others) < 2:
            return answers_per_second
        (start, n_before), (end, n_after) = self._answers_of_others[0], self._answers_of_others[-1]
        per_second_of_others = max(0, n_after - n_before) / (end - start)
        return (answers_per_second + per_second_of_others) / self._n_processes


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
        return requests_ratio < 1 and 1 - answers_ratio > VAIN_FRACTION * (1 - requests_ratio)
