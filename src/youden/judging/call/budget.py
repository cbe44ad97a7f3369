"""Keeps a run's spending under its cap, and says what a call without a reply is thought to have cost.

The worst case is set aside before a call is sent, and what it really cost is counted after it. So the cap can only be passed by
a provider that bills more than the worst case. Of a call without a reply the cap counts the most it can have cost; what is
reported is closer, by the answers so far and a margin above the dearest.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from dataclasses import dataclass

from youden.types import Finding

PARTS = 1e12
"""Reservations are whole millionths of a millionth of a USD: sums of them are exact, whatever their order."""


class OutOfMoneyError(Exception):
    """The next call could pass the cap, and nothing in flight can free any of it."""


@dataclass
class UncertainCosts:
    """Calls of one model whose cost is not certain.

    Attributes
    ----------
    n_unreported : int
        Answers whose reported token counts are missing or not possible.
    usd_unreported : float
        The most that they can have cost, in USD.
    example : str or None
        The fault of one such report.
    n_lost : int
        Calls that were sent and got no reply.
    usd_lost, max_usd_lost : float
        USD booked for them (what such calls usually cost), and the most that they can have cost.
    """

    n_unreported: int = 0
    usd_unreported: float = 0.0
    example: str | None = None
    n_lost: int = 0
    usd_lost: float = 0.0
    max_usd_lost: float = 0.0

    def describe_unreported(self, model: str) -> str:
        """Describe how answers without a possible usage are booked; empty if there are none."""
        if not self.n_unreported:
            return ""
        example = "" if self.example is None else f" (one of them: {self.example})"
        return (
            f"{self.n_unreported:,} answers of '{model}' reported no credible token usage{example}. They are booked at the most "
            f"that they can have cost, {self.usd_unreported:.6g} USD. Check the provider's bill."
        )

    def findings(self, model: str) -> tuple[Finding, ...]:
        """Return one finding for each kind of uncertain cost."""
        found = []
        if self.n_unreported:
            message = self.describe_unreported(model)
            found.append(
                Finding(
                    "bill",
                    message,
                    facts={"n": self.n_unreported, "usd": self.usd_unreported, "doubted": model},
                )
            )
        if self.n_lost:
            message = (
                f"{self.n_lost:,} calls were sent and got no reply; the provider may have worked on them. They are booked at "
                f"{self.usd_lost:.6g} USD, what such calls usually cost; at most they cost {self.max_usd_lost:.6g} USD, which is "
                "what the cap counts."
            )
            lost = {"n": self.n_lost, "usd": self.usd_lost, "most": self.max_usd_lost}
            found.append(Finding("bill", message, facts=lost))
        return tuple(found)


class Budget:
    """USD spent and allowed. `spent` is NaN where prices are unknown. Several event loops may use it, one after the other.

    uncertain: by model, calls whose cost is not certain.
    """

    def __init__(self, cap: float | None) -> None:
        self.cap = math.inf if cap is None else cap
        self.spent = 0.0
        self.uncertain: defaultdict[str, UncertainCosts] = defaultdict(UncertainCosts)
        self._reserved = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def spent_by_all(self) -> float:
        """USD spent under the cap, by others too where it is shared."""
        return self.spent

    def record_unreported(self, model: str, usd: float, fault: str | None) -> None:
        """Record an answer without a possible usage, booked at `usd`; fault: of the usage that it reported, if any."""
        if usd > 0:
            costs = self.uncertain[model]
            costs.n_unreported += 1
            costs.usd_unreported += usd
            costs.example = costs.example or fault

    def record_lost_call(self, model: str, usd: float, max_usd: float) -> None:
        """Record a call that was sent and got no reply, booked at `usd` and costing at most `max_usd`."""
        if max_usd > 0:
            costs = self.uncertain[model]
            costs.n_lost += 1
            costs.usd_lost += usd
            costs.max_usd_lost += max_usd

    def doubts(self) -> str:
        """Describe all answers without a possible usage; empty if there are none."""
        notes = [costs.describe_unreported(model) for model, costs in self.uncertain.items()]
        return " ".join(filter(None, notes))

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
