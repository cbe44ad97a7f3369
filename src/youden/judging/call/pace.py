"""Requests and tokens a minute, let through evenly instead of minute by minute.

It knows rates and how many tokens a call was thought to take and took; it refuses to know who calls and why.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from aiolimiter import AsyncLimiter
from asyncio_throttle.throttler import Throttler

WINDOWS_A_SECOND = 50
AHEAD = 0.97
"""Small windows pass 3 % faster than the rate, and so make up for the moments in which nobody looked; the window of a
second holds the rate."""
TOKEN_WINDOW = 0.1
"""Seconds of the token rate that may come at once."""


class Pace:
    """One caller at a time waits at the limits; the others stand in line behind it, which costs nothing.

    requests_per_minute, tokens_per_minute: None for no limit. Requests pass in windows of a fiftieth of a second (one by
    one where there are fewer than fifty a second), never more than the rate in any second.
    """

    def __init__(self, *, requests_per_minute: float | None = None, tokens_per_minute: float | None = None) -> None:
        self.limited = requests_per_minute is not None or tokens_per_minute is not None
        self._turn = asyncio.Lock()
        self._gates: list[_Gate] = []
        if requests_per_minute is not None:
            rate = requests_per_minute / 60
            self._gates = [_gate(rate / WINDOWS_A_SECOND, rate / AHEAD), _gate(rate, rate)]
        self._tokens = None
        if tokens_per_minute is not None:
            self._tokens = AsyncLimiter(tokens_per_minute / 60 * TOKEN_WINDOW, TOKEN_WINDOW)
        self._owed = 0.0

    async def acquire(self, tokens: float) -> None:
        """Wait until a request of so many tokens may be sent."""
        async with self._turn:
            for gate in self._gates:
                await gate.acquire()
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


class _Gate(Protocol):
    async def acquire(self) -> None: ...


def _gate(at_once: float, rate: float) -> _Gate:
    """At most so many requests (one, where that is less) in the time that they take at `rate` a second."""
    n = max(1, int(at_once))
    period = n / rate
    return cast(_Gate, Throttler(rate_limit=n, period=period, retry_interval=min(0.002, period / 10)))
