"""A cap that holds over all who ask a run: before anything is sent, its worst case is set aside in the store."""

from __future__ import annotations

import asyncio
import math
import threading

from youden.judging.call.budget import PARTS, Budget, OutOfMoneyError
from youden.judging.store.team import Money, Team

LOOKS_EVERY = 0.05
"""Seconds between two looks whether what others set aside has come free."""


class SharedBudget(Budget):
    """This member's part of the cap of a team: what it was granted, it may spend without asking.

    As much again as is in flight is asked for, so that one report covers many calls, and no more is at risk when it dies.
    """

    def __init__(self, cap: float, team: Team) -> None:
        super().__init__(cap)
        self._team = team
        self._granted = 0
        self._wanted = 0
        self._report: asyncio.Future[None] | None = None
        self._counting = threading.RLock()
        team.spend_from(self)

    @property
    def spent_by_all(self) -> float:
        return self.spent + self._team.others.spent / PARTS

    def fits(self, usd: float) -> bool:
        need = math.ceil(usd * PARTS)
        if self._free() < need:
            self._team.sync(need)
        return self._free() >= need

    async def reserve(self, usd: float) -> None:
        need = math.ceil(usd * PARTS)
        self._wanted += need
        try:
            while not self._taken(need):
                await self._synced()
                if self._free() < need and self._team.limited:
                    if not self._reserved and not self._team.others.at_risk:
                        raise OutOfMoneyError
                    await asyncio.sleep(LOOKS_EVERY)
        finally:
            self._wanted -= need

    async def _synced(self) -> None:
        """One report for all who wait. Raises: JudgeError."""
        if self._report is None or self._report.done():
            self._report = asyncio.ensure_future(asyncio.to_thread(self._team.sync, self._wanted))
        report = self._report
        await asyncio.wait({report})
        report.result()

    def take(self, usd: float) -> None:
        with self._counting:
            self._reserved += math.ceil(usd * PARTS)

    def settle(self, reserved: float, spent: float) -> None:
        with self._counting:
            self.spent += spent
            self._reserved -= math.ceil(reserved * PARTS)

    def wants(self, wanted: int) -> Money:
        with self._counting:
            spent = self._spent_parts()
            least = spent + self._reserved
            money = Money(spent, least, least + self._reserved + 2 * wanted)
            self._granted = min(self._granted, money.most)
            return money

    def granted(self, parts: int) -> None:
        with self._counting:
            self._granted = parts

    def _spent_parts(self) -> int:
        return math.ceil(self.spent * PARTS)

    def _free(self) -> int:
        with self._counting:
            return self._granted - self._spent_parts() - self._reserved

    def _taken(self, need: int) -> bool:
        with self._counting:
            if self._free() < need:
                return False
            self._reserved += need
            return True
