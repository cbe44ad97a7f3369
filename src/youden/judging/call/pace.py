"""How many calls are in flight (fewer while the server says 'too many', more while it does not), and how fast they are sent.

Requests and tokens a minute are let through evenly instead of minute by minute.

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
import time
from collections.abc import Callable

from aiolimiter import AsyncLimiter

START = 20
CUT = 0.8
COOLDOWN = 15.0
"""Seconds after a cut in which 429s are the same episode: they cut no further, and growth goes on."""


class Concurrency:
    """At most `limit` calls in flight at once: additive increase, multiplicative decrease.

    +1 for every `limit` successes, up to `most`; ×.8 for an episode of 429s, down to 1. Nothing else moves it.
    """

    def __init__(self, most: int, *, start: int = START, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.limit = min(start, most)
        self._clock = clock
        self._semaphore = asyncio.Semaphore(self.limit)
        self._owed = 0
        self._n_successes = 0
        self._cut_at = -COOLDOWN

    async def acquire(self) -> None:
        """Wait until one more call may be in flight, in order of arrival."""
        await self._semaphore.acquire()

    def release(self) -> None:
        """One call less is in flight."""
        if self._owed:
            self._owed -= 1
        else:
            self._semaphore.release()

    def succeeded(self) -> None:
        """A call was answered."""
        self._n_successes += 1
        if self._n_successes >= self.limit and self.limit < self.most:
            self._n_successes = 0
            self.limit += 1
            self.release()

    def throttled(self) -> bool:
        """A call met a 429. Returns whether that cut the limit."""
        now = self._clock()
        if now - self._cut_at < COOLDOWN:
            return False
        self._cut_at = now
        fewer = max(1, int(self.limit * CUT))
        self._owed += self.limit - fewer
        self.limit = fewer
        self._n_successes = 0
        return True


BUCKETS_A_SECOND = 50
"""A fiftieth of a second's requests may pass at once."""
TOKEN_WINDOW = 0.1
"""Seconds of the token rate that may come at once."""


class Pace:
    """One caller at a time waits at the limits; the others stand in line behind it.

    requests_per_minute, tokens_per_minute: None for no limit. Never more requests than the rate allows pass in any second.
    """

    def __init__(self, requests_per_minute: float | None = None, tokens_per_minute: float | None = None) -> None:
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
