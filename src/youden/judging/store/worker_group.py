"""Who asks one run: one of them may lead, and what one spends, all know. Rows in the store, so that any host can join.

One process at a time leads a run, by a row that a killed process lets go. A member that stops renewing its row has ended. What it
may have spent by then counts as spent; what it had set aside beyond that is free for the others again. The cap holds over all of
them: before anything is sent, its worst case is set aside in the store.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from youden.errors import JudgeError, YoudenError
from youden.judging.call.budget import PARTS, Budget, OutOfMoneyError
from youden.judging.store.answers import Store, open_store
from youden.judging.store.contract import Member
from youden.judging.store.leases import LEASE, is_gone, new_owner

BEAT = 1.0
"""Seconds between two reports of a member that spends nothing; one that spends reports before it spends more."""


_GOLDEN = (math.sqrt(5) - 1) / 2
"""Any number of its multiples, without their whole parts, are well spread over 0 to 1."""


class Money(NamedTuple):
    """Of one member, in whole parts of a USD (`PARTS`). least: what was spent and what calls under way can cost; most: what it
    would like to have been granted."""

    spent: int
    least: int
    most: int

    def beyond(self, counted: int) -> Money:
        """Without what is counted elsewhere."""
        return Money(*(max(0, parts - counted) for parts in self))


@dataclass(frozen=True)
class OtherMembers:
    """The other members. n: those who live; n_asking: of them, those who make calls. spent: by all but this one, in parts of a
    USD, with what the dead may have spent. at_risk: what the living have set aside and not spent. answered: calls of this pass
    that were answered."""

    n: int = 0
    n_asking: int = 0
    spent: int = 0
    at_risk: int = 0
    answered: int = 0


class Team:
    """This process's place among those who ask `run`. Use it as a context manager. leads: as the one that there can be.

    asks: whether calls are made here; who leads others that do says no. answered: calls that were answered here; to be counted
    by whoever asks. lost: why this member has to stop, None while it need
    not. limited: whether it was granted less than it wanted the last time. part: how much
    of the plan it leaves to others at first. Only a leader that finds nobody alive begins a new pass, with the whole cap.

    Raises: JudgeError [run-busy] where somebody else leads.
    """

    def __init__(self, store: Store, run: str, *, leads: bool, beat: float = BEAT) -> None:
        self.asks = True
        self.answered = 0
        self.others = OtherMembers()
        self.lost: YoudenError | None = None
        self.part = 0.0
        self.limited = False
        self._store = store
        self._run = run
        self._leads = leads
        self._budget: SharedBudget | None = None
        self._beat = beat
        self._name = new_owner()
        self._joined = False
        self._counted = 0
        self._granted = self._taken_for_dead = 0
        self._one_at_a_time = threading.Lock()
        self._over = threading.Event()
        self._beating = threading.Thread(target=self._go_on, name="youden team", daemon=True)

    def __enter__(self) -> Self:
        self.sync()
        self.part = 0.0 if self._leads else self.others.n_asking * _GOLDEN % 1
        self._beating.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._beating.join()
        with suppress(YoudenError):
            self._report(0, ends=True)

    def spend_from(self, budget: SharedBudget) -> None:
        """From now on it is `budget` that is reported."""
        self._budget = budget
        self.sync()

    def sync(self, wanted: int = 0) -> None:
        """Report, and ask for `wanted` parts of a USD to spend. Raises: JudgeError [run-busy], [lease-lost]; as the store."""
        self._report(wanted, ends=False)

    def _report(self, wanted: int, *, ends: bool) -> None:
        with self._one_at_a_time:
            money = Money(0, 0, 0) if self._budget is None else self._budget.wants(wanted)
            seen: list[Sequence[Member]] = []

            def change(now: float, rows: Sequence[Member]) -> Sequence[Member]:
                seen[:] = [rows]
                return self._changed(now, rows, money.beyond(self._base(rows, money)), ends=ends)

            made = self._store.place.members(self._run, change)
            if self._is_forgotten(seen[0]):
                self._taken_for_dead += min(self._granted, sum(one.spent for one in seen[0] if not one.name))
            self._counted = self._base(seen[0], money)
            self._joined = True
            mine, living = made[-1], [one for one in made[:-1] if one.expires]
            self._granted = mine.granted
            self.others = OtherMembers(
                len(living),
                sum(one.asks for one in living),
                max(0, sum(one.spent for one in made[:-1]) - self._taken_for_dead),
                sum(one.granted - one.spent for one in living),
                sum(one.answered for one in made[:-1]),
            )
            self.limited = mine.granted < money.beyond(self._counted).most
            if self._budget is not None:
                self._budget.granted(mine.granted + self._counted)

    def _base(self, rows: Sequence[Member], money: Money) -> int:
        """What of this member's money is not in its row: all it could spend before it was taken for dead was counted."""
        return money.least if self._is_forgotten(rows) else self._counted

    def _is_forgotten(self, rows: Sequence[Member]) -> bool:
        """Whether others took this member for dead, and count all that it was granted as spent."""
        return self._joined and all(one.name != self._name for one in rows)

    def _changed(self, now: float, rows: Sequence[Member], money: Money, *, ends: bool) -> Sequence[Member]:
        """The rows as they are to be: those who live, one for all who have ended, and this one's last."""
        # a store from somebody else could hold a negative amount, which would lift the cap
        others = [replace(one, granted=max(0, one.granted)) for one in rows if one.name != self._name]
        living = [one for one in others if one.name and one.expires >= now and not is_gone(one.name)]
        if self._leads and any(one.leads for one in living):
            raise self._busy()
        ended = [one for one in others if one not in living]
        if self._leads and not self._joined and not living:
            ended = []
        past = sum(one.granted for one in ended)
        memory = [Member("", False, past, past, sum(one.answered for one in ended), 0.0)] if ended else []
        granted = money.least if ends else money.most
        if self._budget is not None and self._budget.cap < math.inf:
            left = int(self._budget.cap * PARTS) - past - sum(one.granted for one in living)
            granted = max(money.least, min(granted, left))
        expires = 0.0 if ends else now + LEASE
        mine = Member(self._name, self._leads, granted, money.spent, self.answered, expires, self.asks)
        return [*living, *memory, mine]

    def _busy(self) -> JudgeError:
        if self._joined:
            return JudgeError(
                f"This process stood still, or could not reach the store, for more than {LEASE:g} s, and another "
                f"one leads the run '{self._run}' now. What was answered is kept; let that one go on.",
                slug="lease-lost",
            )
        return JudgeError(
            f"The run '{self._run}' is being judged by another process, and both would pay for the same answers. Wait until "
            f"that one has ended ({LEASE:g} s where its machine is gone), or stop it; then the same command goes on. "
            "With --worker this one helps it. If it is another's run that is called alike, give yours a --out of another name.",
            slug="run-busy",
        )

    def _go_on(self) -> None:
        while not self._over.wait(self._beat):
            try:
                self.sync()
            except YoudenError as error:
                self.lost = error
                return


@contextmanager
def lead_run(store: str | Path, *, run: str) -> Iterator[Team]:
    """Lead `run` in `store`; other runs may use the store meanwhile, and workers help.

    Raises: JudgeError [run-busy] where another process leads it.
    """
    with open_store(store) as opened, Team(opened, run, leads=True) as team:
        yield team


@contextmanager
def help_run(store: str | Path, *, run: str) -> Iterator[Team]:
    """Help whoever asks `run` into `store`, now or later."""
    with open_store(store) as opened, Team(opened, run, leads=False) as team:
        yield team


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
        """What this member spent and would like to have been granted, `wanted` parts beyond what it set aside; no more than that
        is used until `granted` says how much there is."""
        with self._counting:
            spent = self._spent_parts()
            least = spent + self._reserved
            money = Money(spent, least, least + self._reserved + 2 * wanted)
            self._granted = min(self._granted, money.most)
            return money

    def granted(self, parts: int) -> None:
        """So much of the cap is this member's."""
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
