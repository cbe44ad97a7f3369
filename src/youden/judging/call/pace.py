"""Requests and tokens a minute, let through evenly instead of minute by minute.

Both limits are leaky buckets of `aiolimiter`, chosen over `asyncio-throttle` by `benchmarks/engine_parts.py limiters` (two cores,
Python 3.11, a busy machine). At 500 and 1,300 requests a second:

| limiter | rate held | most in a second | CPU of one core, 1 waiter / 512 waiters |
| --- | --- | --- | --- |
| asyncio-throttle (windows of 20 ms and of 1 s) | .86–.97 | .90–.98 | 5–6 % / 25 % (5 % in line) |
| aiolimiter (a bucket of 20 ms) | .90–.99 | .99–1.00 | 6 % / 9 % (5–8 % in line) |

Only aiolimiter can also weigh a call by its tokens. asyncio-throttle looks at the clock again and again for every waiter.
"""

from __future__ import annotations

import asyncio

from aiolimiter import AsyncLimiter

BUCKETS_A_SECOND = 50
"""A fiftieth of a second's requests may pass at once."""
TOKEN_WINDOW = 0.1
"""Seconds of the token rate that may come at once."""


class Pace:
    """One caller at a time waits at the limits; the others stand in line behind it.

    requests_per_minute, tokens_per_minute: None for no limit. Never more requests than the rate allows pass in any second.
    """

    def __init__(self, *, requests_per_minute: float | None = None, tokens_per_minute: float | None = None) -> None:
        self.limited = requests_per_minute is not None or tokens_per_minute is not None
        self._rates = (requests_per_minute, tokens_per_minute)
        self._turn = asyncio.Lock()
        self._owed = 0.0
        self._n = 0
        self.share(1)

    def share(self, n: int) -> None:
        """Let through an `n`-th of what the limits allow, for so many ask side by side."""
        if n == self._n:
            return
        self._n = n
        requests, tokens = self._rates
        self._requests = None if requests is None else request_limiter(requests / 60 / n)
        self._tokens = None
        if tokens is not None:
            self._tokens = AsyncLimiter(tokens / 60 / n * TOKEN_WINDOW, TOKEN_WINDOW)

    async def acquire(self, tokens: float) -> None:
        """Wait until a request of so many tokens may be sent."""
        async with self._turn:
            if self._requests is not None:
                await self._requests.acquire()
            if self._tokens is not None:
                tokens, self._owed = tokens + self._owed, 0.0
                while tokens > 0:
                    part = min(tokens, self._tokens.max_rate)
                    await self._tokens.acquire(part)
                    tokens -= part
                self._owed += tokens

    def settle(self, reserved: float, used: float) -> None:
        """A request that was let through for `reserved` tokens took `used`: the next ones wait longer, or less."""
        if self._tokens is not None:
            self._owed += used - reserved


def request_limiter(rate: float) -> AsyncLimiter:
    """At most `rate` requests in any second: some at once, the rest as the bucket leaks.

    A second lets through what the bucket holds and what leaks meanwhile, so it leaks more slowly than `rate` by what it holds
    beyond one request.
    """
    at_once = max(1.0, rate / BUCKETS_A_SECOND)
    return AsyncLimiter(at_once, at_once / (rate - (at_once - 1)))
