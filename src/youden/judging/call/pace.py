"""Limit the number of calls in flight, and the requests and tokens per minute.

Requests are spread evenly over a minute, instead of being sent at its beginning. The module `learned_rate` limits the
requests to a server whose limit is unknown.

Both limits are leaky buckets of `aiolimiter`, chosen over `asyncio-throttle` by `benchmarks/engine_parts.py limiters`
(two cores, Python 3.11, a busy machine). At 500 and 1,300 requests a second:

| limiter | rate reached | largest rate in a second | CPU of one core, 1 waiter / 512 waiters |
| --- | --- | --- | --- |
| asyncio-throttle (windows of 20 ms and of 1 s) | .86–.97 | .90–.98 | 5–6% / 25% (5% in a queue) |
| aiolimiter (a bucket of 20 ms) | .90–.99 | .99–1.00 | 6% / 9% (5–8% in a queue) |

Only aiolimiter can also weight a call by its tokens. asyncio-throttle polls the clock for every waiter.
"""

from __future__ import annotations

import asyncio

from aiolimiter import AsyncLimiter

DEFAULT_START_CONCURRENCY = 20


class ConcurrencyLimiter:
    """Limit the number of calls in flight. The limit increases by 1 with each answer, up to a maximum that may change.

    Parameters
    ----------
    max_limit : int
        Largest value of the limit.
    start : int, default 20
        First value of the limit.

    Attributes
    ----------
    limit : int
        Number of calls that may be in flight now.
    """

    def __init__(self, max_limit: int, *, start: int = DEFAULT_START_CONCURRENCY) -> None:
        self.max_limit = max_limit
        self.limit = min(start, max_limit)
        self._current_max: float = max_limit
        self._n_excess = 0  # calls in flight above the limit after a decrease
        self._semaphore = asyncio.Semaphore(self.limit)

    async def acquire(self) -> None:
        """Wait until another call may be in flight; callers are admitted in the order of their arrival."""
        await self._semaphore.acquire()

    def release(self) -> None:
        """Report that a call has ended."""
        if self._n_excess > 0:
            self._n_excess -= 1
        else:
            self._semaphore.release()

    def set_max(self, max_limit: float) -> None:
        """Set the maximum of the limit: at least 1, and at most `max_limit` of the constructor."""
        self._current_max = max(1, min(max_limit, self.max_limit))
        while self.limit > self._current_max:
            self.limit -= 1
            self._n_excess += 1

    def record_success(self) -> None:
        """Record that a call was answered, which increases the limit unless it has its largest value."""
        if self.limit < self._current_max:
            self.limit += 1
            self.release()


BUCKETS_PER_SECOND = 50
"""The requests of a fiftieth of a second may be sent at once."""
TOKEN_WINDOW_SECONDS = 0.1
"""The tokens of this time may be sent at once."""


class RateLimiter:
    """Limit the requests and tokens per minute; requests wait in the order of their arrival.

    In any second, no more requests are sent than the rate allows.

    Parameters
    ----------
    requests_per_minute, tokens_per_minute : float, optional
        The limits; None for no limit.

    Attributes
    ----------
    is_limited : bool
        Whether there is any limit.
    """

    def __init__(self, requests_per_minute: float | None = None, tokens_per_minute: float | None = None) -> None:
        self.is_limited = requests_per_minute is not None or tokens_per_minute is not None
        self._rates = (requests_per_minute, tokens_per_minute)
        self._queue = asyncio.Lock()
        self._unsettled_tokens = 0.0
        self._n_workers = 0
        self.divide_limits(1)

    def divide_limits(self, n_workers: int) -> None:
        """Divide the limits equally among the processes that send requests, and apply the share of this process.

        The provider limits the account, so all processes together must stay within the limits. Nothing changes if the number of
        processes is the same as before.

        Parameters
        ----------
        n_workers : int
            Number of processes that send requests, including this one.
        """
        if n_workers == self._n_workers:
            return
        self._n_workers = n_workers

        requests_per_minute, tokens_per_minute = self._rates
        self._request_limiter = None
        if requests_per_minute is not None:
            requests_per_second = requests_per_minute / 60 / n_workers
            self._request_limiter = make_request_limiter(requests_per_second)

        self._token_limiter = None
        if tokens_per_minute is not None:
            tokens_per_second = tokens_per_minute / 60 / n_workers
            self._token_limiter = AsyncLimiter(tokens_per_second * TOKEN_WINDOW_SECONDS, TOKEN_WINDOW_SECONDS)

    async def acquire(self, tokens: float) -> None:
        """Wait until a request may be sent.

        Parameters
        ----------
        tokens : float
            Estimated number of tokens of the request and its answer.
        """
        async with self._queue:
            if self._request_limiter is not None:
                await self._request_limiter.acquire()
            if self._token_limiter is None:
                return

            # `settle` has added used minus estimated tokens of earlier requests; a negative sum shortens this wait
            remaining_tokens = tokens + self._unsettled_tokens
            self._unsettled_tokens = 0.0

            # the limiter admits at most `max_rate` tokens at once
            while remaining_tokens > 0:
                portion = min(remaining_tokens, self._token_limiter.max_rate)
                await self._token_limiter.acquire(portion)
                remaining_tokens -= portion

            # A negative remainder shortens the wait of the next request. It is added and not assigned, because `settle` may have
            # changed the sum during the wait.
            self._unsettled_tokens += remaining_tokens

    def settle(self, reserved: float, used: float) -> None:
        """Correct the estimate for a request that was answered; the next requests wait longer or shorter.

        Without a limit of tokens per minute, this has no effect.

        Parameters
        ----------
        reserved : float
            Estimated number of tokens that was passed to `acquire`.
        used : float
            Actual number of tokens of the request and its answer.
        """
        if self._token_limiter is not None:
            self._unsettled_tokens += used - reserved


def make_request_limiter(rate: float) -> AsyncLimiter:
    """Make a leaky bucket that admits at most `rate` requests in any second.

    Notes
    -----
    In a second, the bucket admits its capacity c and what leaks meanwhile. It therefore leaks c − 1 requests per second
    more slowly than `rate`.
    """
    capacity = max(1.0, rate / BUCKETS_PER_SECOND)
    leak_rate = rate - (capacity - 1)
    return AsyncLimiter(capacity, time_period=capacity / leak_rate)
