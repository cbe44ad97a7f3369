"""Keeps a run's spending under its cap, and says what a call without a reply is thought to have cost.

The worst case is set aside before a call is sent, and what it really cost is counted after it. So the cap can only be passed by
a provider that bills more than the worst case. Of a call without a reply the cap counts the most it can have cost; what is
reported is closer, by the answers so far and a margin above the dearest.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

PARTS = 1e12
"""Reservations are whole millionths of a millionth of a USD: sums of them are exact, whatever their order."""


class OutOfMoneyError(Exception):
    """The next call could pass the cap, and nothing in flight can free any of it."""


@dataclass
class DoubtedUse:
    """Answers of one model whose reported token counts are missing or not credible; `usd` is the most they can have cost."""

    n: int = 0
    usd: float = 0.0
    example: str | None = None

    def in_words(self, model: str) -> str:
        """Format the note on how these answers are booked."""
        example = "" if self.example is None else f" (one of them: {self.example})"
        return (
            f"{self.n:,} answers of '{model}' reported no credible token usage{example}. They are booked at the most that they "
            f"can have cost, {self.usd:.6g} USD. Check the provider's bill."
        )


class Budget:
    """USD spent and allowed. `spent` is NaN where prices are unknown. Several event loops may use it, one after the other.

    doubted: by model, answers that are booked at their maximum cost, because their token usage is unknown.
    """

    def __init__(self, cap: float | None) -> None:
        self.cap = math.inf if cap is None else cap
        self.spent = 0.0
        self.doubted: dict[str, DoubtedUse] = {}
        self._reserved = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def spent_by_all(self) -> float:
        """USD spent under the cap, by others too where it is shared."""
        return self.spent

    def doubt(self, model: str, usd: float, reported: str | None) -> None:
        """Count an answer without a credible usage, booked at `usd`; reported: the usage that it reported, if any."""
        if usd > 0:
            use = self.doubted.setdefault(model, DoubtedUse())
            use.n += 1
            use.usd += usd
            use.example = use.example or reported

    def doubts(self) -> str:
        """Return the notes on all such answers, as one text; empty if there are none."""
        return " ".join(use.in_words(model) for model, use in self.doubted.items())

    def fits(self, usd: float) -> bool:
        """Whether so much could be set aside now."""
        return self.cap == math.inf or self.spent + (self._reserved + math.ceil(usd * PARTS)) / PARTS <= self.cap

    async def reserve(self, usd: float) -> None:
        """Set `usd` aside, waiting for calls in flight to settle where that helps. Raises: OutOfMoneyError."""
        while not self.fits(usd):
            if not self._reserved:
                raise OutOfMoneyError
            settled = asyncio.get_running_loop().create_future()
            self._waiting.append(settled)
            await settled
        self.take(usd)

    def take(self, usd: float) -> None:
        """Set `usd` aside, whether or not it fits."""
        if self.cap != math.inf:
            self._reserved += math.ceil(usd * PARTS)

    def settle(self, reserved: float, spent: float) -> None:
        """Give back what `reserve` set aside and count what was spent."""
        self.spent += spent
        if self.cap != math.inf:
            self._reserved -= math.ceil(reserved * PARTS)
            waiting, self._waiting = self._waiting, []
            for settled in waiting:
                if not settled.done():
                    settled.set_result(None)


ENOUGH = 20
"""Answers that have to be there before anything is concluded from them."""

MARGIN = 1.25


class TypicalUse:
    """What answers said they used, beside the most that their requests could have."""

    def __init__(self) -> None:
        self._n = 0
        self._share = 0.0
        self._most_out = 0

    def saw(self, tokens_in: int, tokens_out: int, *, most_in: int) -> None:
        """An answer whose use is believed. most_in: tokens that its request can be at most."""
        self._n += 1
        self._share = max(self._share, tokens_in / most_in)
        self._most_out = max(self._most_out, tokens_out)

    def at_most(self, most_in: int, most_out: int) -> tuple[int, int]:
        """Tokens in and out of a call of which nobody can say; (most_in, most_out) until there are `ENOUGH` answers.

        >>> usual = TypicalUse()
        >>> for _ in range(ENOUGH):
        ...     usual.saw(100, 1, most_in=400)
        >>> usual.at_most(800, 50)
        (250, 2)
        """
        if self._n < ENOUGH:
            return most_in, most_out
        most = math.ceil(MARGIN * self._share * most_in), math.ceil(MARGIN * self._most_out)
        return min(most[0], most_in), min(most[1], most_out)
