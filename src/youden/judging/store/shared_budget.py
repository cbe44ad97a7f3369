"""Spend the share of the cost cap that the group of processes of a run grants to one process.

The processes share the cap by rows in the store (`worker_group`). So that not every call takes a transaction, a process
requests a share for many calls, and spends it without another report.
"""

from __future__ import annotations

import asyncio
import math
import threading

from youden.judging.call.budget import PICODOLLARS_PER_USD, Budget, OutOfMoneyError
from youden.judging.store.worker_group import NO_CAP, BudgetReport, WorkerGroup

MARGIN_FRACTION = 0.02
"""Largest margin that a member requests for later calls, as a fraction of the cap."""

BUDGET_CHECK_SECONDS = 0.05
"""Time between two checks whether reservations of other members have been released."""


class SharedBudget(Budget):
    """Share of the cost cap of a group that one member may spend without another report.

    In addition to the amounts that the member has spent or reserved, or needs for its next calls, it requests a margin, so that
    one report covers many calls. The margin is as large as the reserved and needed amounts together, but at most
    `MARGIN_FRACTION` of the cap. If the process is killed, all of these amounts count towards the cap.

    Parameters
    ----------
    cap : float
        Amount in USD that all members and all earlier commands of the run may pay together.
    workers : WorkerGroup
        Membership of this process.
    """

    def __init__(self, cap: float, workers: WorkerGroup) -> None:
        super().__init__(cap)
        self._own_cap = self.cap
        self._group = workers
        self._granted = 0  # picodollars that this member may spend
        self._awaited_amount = 0  # picodollars that the tasks in `reserve` wait for, in all
        self._promised_amount = 0  # picodollars that `can_reserve` allowed and that are not reserved yet
        self._counted_batches: set[str] = set()
        self._pending_report: asyncio.Future[None] | None = None
        self._amounts_lock = threading.RLock()
        workers.spend_from(self)

    @property
    def spent_by_all(self) -> float:
        """USD spent by all members and by earlier commands."""
        return self.spent + self._group.others.spent / PICODOLLARS_PER_USD

    @property
    def remedy(self) -> str:
        """What the user can do when the cap is reached, as a clause."""
        return "Set a higher max_cost, which limits the total cost of all commands on the run"

    def can_reserve(self, usd: float) -> bool:
        """Return whether a cost in USD can be reserved now, after requesting more of the cap if necessary.

        If it can, the amount is kept for this member until `reserve_unconditionally` is called, or `can_reserve` allows another
        amount.
        """
        amount = math.ceil(usd * PICODOLLARS_PER_USD)
        if self._count_available_picodollars() < amount:
            self._group.sync(amount)
        is_available = self._count_available_picodollars() >= amount
        if is_available:
            self._promised_amount = amount
        return is_available

    async def reserve(self, usd: float) -> None:
        """Reserve a cost. If this process's share of the cost cap is too small, request a larger share from the group first.

        The group consists of all processes that share the cap, its members. If it does not grant enough, wait until a member
        releases a reservation.

        Parameters
        ----------
        usd : float
            Cost in USD.

        Raises
        ------
        OutOfMoneyError
            If the cap does not allow the cost, and no member has a reservation that could be released.
        JudgeError
            If the store cannot be reached, or another process coordinates the run.
        """
        amount = math.ceil(usd * PICODOLLARS_PER_USD)
        self._awaited_amount += amount
        try:
            while not self._try_reserve(amount):
                await self._request_larger_share()
                # If the group granted less than was requested, wait for a release. Otherwise, another task of this process has
                # already reserved a part of the grant: request a larger share at once.
                is_available = self._count_available_picodollars() >= amount
                if not is_available and self._group.is_limited:
                    await self._wait_for_release()
        finally:
            self._awaited_amount -= amount

    async def _wait_for_release(self) -> None:
        """Wait a moment, in which a member may release a reservation. Raises: OutOfMoneyError if none has one."""
        if self._reserved == 0 and self._group.others.reserved == 0:
            raise OutOfMoneyError
        await asyncio.sleep(BUDGET_CHECK_SECONDS)

    async def _request_larger_share(self) -> None:
        """Request a share of the cap that suffices for all tasks waiting in `reserve`, and wait until the group has decided.

        The request is part of this member's next report (`WorkerGroup.sync`). If a report is in progress, the task only waits
        for that one. One report therefore serves all tasks that wait at the same time.

        Raises: JudgeError if the store cannot be reached, or another process coordinates the run.
        """
        if self._pending_report is None or self._pending_report.done():
            report_in_thread = asyncio.to_thread(self._group.sync, self._awaited_amount)
            self._pending_report = asyncio.ensure_future(report_in_thread)
        report = self._pending_report
        await asyncio.wait({report})  # unlike `await report`, does not cancel the report if this task is cancelled
        report.result()  # raises the error of the report

    def reserve_unconditionally(self, usd: float) -> None:
        """Reserve a cost in USD, even if this exceeds the cap."""
        with self._amounts_lock:
            self._reserved += math.ceil(usd * PICODOLLARS_PER_USD)
            self._promised_amount = 0

    def settle(self, reserved: float, spent: float) -> None:
        """Release a reservation and book what was spent, both in USD."""
        with self._amounts_lock:
            self.spent += spent
            self._reserved -= math.ceil(reserved * PICODOLLARS_PER_USD)

    def count_batch(self, batch_id: str, usd: float) -> None:
        """Count as spent the cost of a batch in progress that an earlier command of the run has sent.

        The batch is not counted while other processes of the run are alive, because it may be theirs.

        batch_id : id of the batch, which is counted only once
        usd : largest possible cost of the batch in USD; if it is NaN (unknown), the whole cap counts
        """
        if batch_id not in self._counted_batches and self._group.others.n == 0:
            self._counted_batches.add(batch_id)
            self.settle(0.0, self.cap if math.isnan(usd) else usd)

    def make_report(self, needed: int) -> BudgetReport:
        """Return the amounts that this member has spent and reserved, and the amount of the cap that it requests.

        The group grants each member a share of the cost cap. The requested share replaces the one of earlier reports. It is
        larger than what the member needs now, so that one report covers many calls. From now on, this member spends no more
        than the requested share, even if it was granted more before: the group may grant the difference to other members.

        needed : picodollars that are needed for the next calls, in addition to what is spent and reserved
        """
        with self._amounts_lock:
            spent = self._count_spent_picodollars()
            for_open_calls = self._reserved + max(needed, self._promised_amount)  # calls in flight, and the next calls
            for_later_calls = int(min(for_open_calls, MARGIN_FRACTION * self.cap * PICODOLLARS_PER_USD))
            requested = spent + for_open_calls + for_later_calls

            self._granted = min(self._granted, requested)
            return BudgetReport(spent, minimum=spent + self._reserved, requested=requested)

    @property
    def own_cap(self) -> int:
        """Cap that was passed to this member, in picodollars; `NO_CAP` if it is infinite."""
        return NO_CAP if self._own_cap == math.inf else min(int(self._own_cap * PICODOLLARS_PER_USD), NO_CAP)

    def set_group_cap(self, amount: int) -> None:
        """Set the cap of the coordinator, in picodollars. The lower of this cap and the member's own cap applies."""
        self.cap = self._own_cap if amount == NO_CAP else min(self._own_cap, amount / PICODOLLARS_PER_USD)

    def set_granted(self, amount: int) -> None:
        """Set this member's share of the cap, in picodollars."""
        with self._amounts_lock:
            self._granted = amount

    def _count_spent_picodollars(self) -> int:
        """Cost so far in units of 10⁻¹² USD, rounded up; whole numbers have no rounding errors in sums."""
        return math.ceil(self.spent * PICODOLLARS_PER_USD)

    def _count_available_picodollars(self) -> int:
        """Return the amount of this member's share that is neither spent nor reserved, in picodollars."""
        with self._amounts_lock:
            return self._granted - self._count_spent_picodollars() - self._reserved

    def _try_reserve(self, amount: int) -> bool:
        """Reserve an amount in picodollars if it is available, and return whether it was."""
        with self._amounts_lock:
            if self._count_available_picodollars() < amount:
                return False
            self._reserved += amount
            return True
