"""Keeps a run's spending under its cap.

It knows USD reserved and USD spent; it refuses to know what is bought. The worst case is reserved before a call is
sent and settled after it, so that the cap can only be passed by a provider that bills more than it can.
"""

from __future__ import annotations

import asyncio
import math


class OutOfMoneyError(Exception):
    """The next call could pass the cap, and nothing in flight can free any of it."""


class Budget:
    """USD spent, reserved and allowed. `spent` is NaN where prices are unknown."""

    def __init__(self, cap: float | None) -> None:
        self.cap = math.inf if cap is None else cap
        self.spent = 0.0
        self._reserved: list[float] = []
        self._freed = asyncio.Event()

    async def reserve(self, usd: float) -> None:
        """Set `usd` aside, waiting for calls in flight to settle where that helps. Raises: OutOfMoneyError."""
        while self.spent + math.fsum(self._reserved) + usd > self.cap:
            if not self._reserved:
                raise OutOfMoneyError
            self._freed.clear()
            await self._freed.wait()
        self._reserved.append(usd)

    def settle(self, reserved: float, spent: float) -> None:
        """Give back what `reserve` set aside and count what was spent."""
        self._reserved.remove(reserved)
        self.spent += spent
        self._freed.set()
