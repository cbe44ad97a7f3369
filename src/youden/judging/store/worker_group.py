"""Coordinate the processes that send requests for one run, and divide the run's cost cap among them.

The members are the processes that work on the run. Each has a row in the store, so that any host can join. At most one
process is the coordinator, which writes the run folder. A member that stops renewing its row has ended; its whole
grant counts as spent, because it may have spent it after its last report. The cap holds for all members together,
because the worst-case cost of each request is reserved in the store before it is sent (`SharedBudget`).

One more row is that of the group. It contains the cost account of the run, the cap of the coordinator, which also holds for
workers that were started with a higher cap, and the amount that the run has paid without the living members: over all earlier
commands, and by members that have ended. The first member of a group creates this row. It also books, to a separate account,
the amounts that killed processes of an earlier group may have paid.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from youden.errors import JudgeError, YoudenError
from youden.judging.call.budget import PICODOLLARS_PER_USD
from youden.judging.store.accounts import (
    list_run_payments,
    read_run_payments,
    sum_pending_batches,
    unconfirmed_account,
)
from youden.judging.store.answers import Store, open_store
from youden.judging.store.contract import Member, Payment
from youden.judging.store.leases import LEASE_SECONDS, is_dead_process, new_holder_name
from youden.types.payments import RunPayments

HEARTBEAT_SECONDS = 1.0
"""Time between two reports of a member that spends nothing; one that spends reports before it spends more."""

GROUP_ROW_PREFIX = "group of "
"""Beginning of the name of the row of the group. The rest of the name is the cost account of the run. The column `granted` is
the amount that the run has paid without the living members, `spent` is the cap of the coordinator (`NO_CAP` if there is none),
`answered` is the number of answers that members received before they ended, and `expires` is −`start_time`, so that the row
never counts as a living member."""

NO_CAP = 2**63 - 1
"""Cap of a group without a cap: the largest integer that a store accepts."""

MAX_ROUNDING_ERROR = 1e-6
"""Largest difference of two sums of payments, in USD, that counts as a rounding error."""

NO_PAYMENTS = RunPayments()
"""Payments of a new run."""

_GOLDEN = (math.sqrt(5) - 1) / 2
"""Golden ratio: the fractional parts of its multiples are spread evenly over [0, 1)."""


class BudgetReport(NamedTuple):
    """Amounts of one member since it joined, in picodollars (`PICODOLLARS_PER_USD` per USD)."""

    spent: int
    """Amount that it has spent."""
    minimum: int
    """Amount that it has spent, plus the largest possible cost of its calls in flight."""
    requested: int
    """Amount of the cap that it requests, in total."""

    def without(self, amount: int) -> BudgetReport:
        """Return the amounts minus `amount`, which another row contains already, but at least 0."""
        return BudgetReport(
            spent=max(0, self.spent - amount),
            minimum=max(0, self.minimum - amount),
            requested=max(0, self.requested - amount),
        )


class MemberBudget(Protocol):
    """Share of the cost cap that one member may spend: `SharedBudget`."""

    cap: float
    """Cap in USD."""

    @property
    def own_cap(self) -> int:
        """Cap that was passed to this member, in picodollars; `NO_CAP` if it is infinite."""

    def make_report(self, needed: int) -> BudgetReport:
        """Return the amounts of this member; `needed` is the amount that it needs in addition, in picodollars."""

    def set_group_cap(self, amount: int) -> None:
        """Set the cap of the coordinator, in picodollars."""

    def set_granted(self, amount: int) -> None:
        """Set this member's share of the cap, in picodollars."""


@dataclass(frozen=True)
class OtherMembers:
    """Totals over the other members of a group. Amounts are in picodollars."""

    n: int = 0
    """Number of members that are alive."""
    n_sending: int = 0
    """Number of living members that send requests."""
    spent: int = 0
    """Amount that all other members spent; for members that ended, the amount that they may have spent."""
    reserved: int = 0
    """Amount that living members were granted and have not spent."""
    answered: int = 0
    """Number of answers that other members received since the coordinator started."""


class WorkerGroup:
    """Membership of this process among the processes that send requests for a run. Use it as a context manager.

    Parameters
    ----------
    store : Store
        Store that the members share.
    run : str
        Name of the run.
    is_coordinator : bool
        Whether this process is the coordinator.
    account : str, optional
        Cost account of the run, whose payments count towards the cap. Default: `run`.
    saved : RunPayments, optional
        What the run has paid according to its folder. The coordinator books the part that the account lacks.
    heartbeat : float, default HEARTBEAT_SECONDS
        Seconds between reports.

    Attributes
    ----------
    sends_requests : bool
        Whether this process sends requests; False for a coordinator that only starts workers.
    answered : int
        Number of answers received here, counted by the caller.
    others : OtherMembers
        Totals over the other members, as of the last report.
    report_error : YoudenError or None
        Error for which this member has to stop; None if there is none.
    start_time : float
        Time, by the clock of the store in seconds, at which the group began, or at which its last coordinator joined if that is
        later. A request that failed after this time is not sent again.
    start_fraction : float
        Where in the plan this member starts, as a fraction in [0, 1), so that members start at different trials.
    is_limited : bool
        Whether it was granted less than it requested in the last report.
    account : str
        Cost account of the run. A worker that joins a group uses the account of the group, even if its folder has another path.

    Raises
    ------
    JudgeError
        [run-busy] if another process is the coordinator.
    """

    def __init__(
        self,
        store: Store,
        run: str,
        *,
        is_coordinator: bool,
        account: str | None = None,
        saved: RunPayments = NO_PAYMENTS,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.sends_requests = True
        self.answered = 0
        self.others = OtherMembers()
        self.report_error: YoudenError | None = None
        self.start_time = 0.0
        self.start_fraction = 0.0
        self.is_limited = False
        self.account = account or run
        self._store = store
        self._run = run
        self._is_coordinator = is_coordinator
        self._saved = saved
        self._paid_before = RunPayments()  # what the run had paid when this member joined
        self._usd_in_batches: Mapping[str | None, float] = {}  # largest possible costs of pending batches, by account
        self._ended_rows: Sequence[Member] = ()  # rows of the group before this one, if this member began a new group
        self._budget: MemberBudget | None = None
        self._heartbeat = heartbeat
        self._name = new_holder_name()
        self._has_joined = False
        self._granted = 0  # picodollars that the row of this member grants it
        # Other members may have removed this member's row because it seemed to have ended. They have then added all that it
        # was granted to the row of the group. These amounts, in picodollars, are 0 if this has not happened.
        self._granted_before_removal = 0  # part of the row of the group that is due to this member
        self._used_before_removal = 0  # what this member had spent or reserved when it noticed the removal
        self._report_lock = threading.Lock()
        self._left = threading.Event()
        self._reporter = threading.Thread(target=self._send_heartbeats, name="youden workers", daemon=True)

    def __enter__(self) -> Self:
        if self._is_coordinator:  # if workers did this too, an amount could be booked twice
            self._book_earlier_payments()
        self._paid_before = read_run_payments(self._store, self.account)
        self._usd_in_batches = sum_pending_batches(self._store)
        self.sync()
        self._book_unconfirmed_amount()
        self.start_fraction = 0.0 if self._is_coordinator else self.others.n_sending * _GOLDEN % 1
        self._reporter.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._reporter.join()
        with suppress(YoudenError):
            self._update_rows_in_store(0, is_leaving=True)

    def _book_earlier_payments(self) -> None:
        """Book payments that the run folder states and the account lacks: the folder was renamed, or the store was lost."""
        if self._saved.is_zero:
            return
        booked = read_run_payments(self._store, self.account)
        key = "earlier payments"
        self._book(self.account, key, self._saved.usd - booked.usd)
        self._book(unconfirmed_account(self.account), key, self._saved.usd_unconfirmed - booked.usd_unconfirmed)

    def _book_unconfirmed_amount(self) -> None:
        """Book what killed processes of the group before this one may have paid, if this member began a new group."""
        account = find_account(self._ended_rows)
        if account is not None:
            paid = read_run_payments(self._store, account)
            usd = _count_unconfirmed_usd(self._ended_rows, paid, usd_in_batches=self._usd_in_batches)
            self._book(unconfirmed_account(account), "killed processes", usd)

    def _book(self, account: str, key: str, usd: float) -> None:
        """Book an amount in USD to an account, unless it is a rounding error or negative."""
        if usd > MAX_ROUNDING_ERROR:
            self._store.pay(account, key, Payment(usd))
            self._store.flush()

    def spend_from(self, budget: MemberBudget) -> None:
        """Report the amounts of `budget` from now on."""
        self._budget = budget
        self.sync()

    def sync(self, needed: int = 0) -> None:
        """Write this member's amounts to the store, read the amounts of the others, and request more of the cap.

        Parameters
        ----------
        needed : int, default 0
            Picodollars that this member needs for its next calls, in addition to what it has spent and reserved.

        Raises
        ------
        JudgeError
            [run-busy] or [lease-lost] if another process is the coordinator; the errors of the store.
        """
        self._update_rows_in_store(needed, is_leaving=False)

    def _update_rows_in_store(self, needed: int, *, is_leaving: bool) -> None:
        """Write this member's row to the store, and read the rows of the other members of the group.

        The members of a group are the processes of one run, which share its cost cap. The row of a member states how much of
        the cap it has spent, and how much it may spend. All rows are read and replaced in one transaction. Therefore, two
        members cannot be granted the same part of the cap.

        needed : picodollars that this member needs in addition to those that it has spent and reserved
        is_leaving : whether this member leaves the group, and needs no more of the cap

        Raises: JudgeError [run-busy] or [lease-lost] if another process is the coordinator; the errors of the store.
        """
        with self._report_lock:
            report = BudgetReport(0, 0, 0) if self._budget is None else self._budget.make_report(needed)
            previous_rows: Sequence[Member] = ()

            def update_rows(now: float, rows: Sequence[Member]) -> Sequence[Member]:
                """Return the new rows of all members; called in the transaction of the store, which may be repeated."""
                nonlocal previous_rows
                previous_rows = rows
                # if others removed this member, its amounts so far are in the row of the group
                counted_elsewhere = report.minimum if self._was_removed(rows) else self._used_before_removal
                return self._make_new_rows(now, rows, report.without(counted_elsewhere), is_leaving=is_leaving)

            new_rows = self._store.backend.replace_members(self._run, update_rows)
            if not self._is_coordinator:
                self.account = find_account(new_rows) or self.account
            if self._was_removed(previous_rows):
                self._record_removal(previous_rows, report)
            self._has_joined = True
            self._set_totals_and_share(new_rows, report.without(self._used_before_removal))

    def _record_removal(self, previous_rows: Sequence[Member], report: BudgetReport) -> None:
        """Record what this member had been granted and had used when other members removed its row.

        They removed the row because this member seemed to have ended, and added the amount that it was granted to the row of
        the group. The new row of this member contains only later amounts.

        previous_rows : rows of all members before this member added a new row
        report : all amounts of this member since it joined
        """
        group_row = _find_group_row(previous_rows)
        self._granted_before_removal += min(self._granted, group_row.granted if group_row else 0)
        self._used_before_removal = report.minimum

    def _was_removed(self, rows: Sequence[Member]) -> bool:
        """Return whether other members have removed this member's row because it seemed to have ended.

        rows : rows of all members
        """
        return self._has_joined and all(row.name != self._name for row in rows)

    def _set_totals_and_share(self, rows: Sequence[Member], report: BudgetReport) -> None:
        """Set the totals over the other members (`others`), and the amount of the cost cap that this member may spend.

        A member is a process of the run. The group row contains the amounts of the members that have ended.

        rows : new rows: that of the group, those of the other members, and that of this member
        report : amounts of this member, as its row contains them
        """
        group_row, *living_rows, own_row = rows
        self.start_time = -group_row.expires
        self.others = OtherMembers(
            n=len(living_rows),
            n_sending=sum(row.asks for row in living_rows),
            spent=max(0, group_row.granted + sum(row.spent for row in living_rows) - self._granted_before_removal),
            reserved=sum(row.granted - row.spent for row in living_rows),
            answered=group_row.answered + sum(row.answered for row in living_rows),
        )
        self._granted = own_row.granted
        self.is_limited = own_row.granted < report.requested
        if self._budget is not None:
            # the row does not contain amounts from before the last removal of this member; the budget does
            granted_since_joining = self._used_before_removal + own_row.granted
            self._budget.set_granted(granted_since_joining)

    def _make_new_rows(
        self, now: float, rows: Sequence[Member], report: BudgetReport, *, is_leaving: bool
    ) -> Sequence[Member]:
        """Return the new rows: that of the group, those of the other members that are alive, and that of this member.

        A member is a process of the run. It counts as ended if its process has ended, or if it did not renew its row in time. A
        member that leaves keeps the amount that it has spent and reserved, and returns the rest of its share of the cost cap.

        now : time of the database, in seconds
        rows : rows so far
        report : amounts of this member, as its row contains them
        is_leaving : whether this member leaves the group

        Raises: JudgeError [run-busy] or [lease-lost] if this member and another living member are both the coordinator.
        """
        # a store that someone else wrote could contain a negative amount, which would raise the cap
        other_rows = [replace(row, granted=max(0, row.granted)) for row in rows if row.name != self._name]
        living_rows = [row for row in other_rows if is_alive(row, now=now)]
        if self._is_coordinator and any(row.leads for row in living_rows):
            raise self._make_busy_error()

        ended_rows = [row for row in other_rows if row not in living_rows]
        is_new = not self._has_joined and not living_rows
        if not self._has_joined:
            self._ended_rows = ended_rows if is_new else ()
        group_row = self._make_group_row(ended_rows, is_new=is_new)
        if is_new or (self._is_coordinator and not self._has_joined):
            group_row = replace(group_row, expires=-now)
        if self._budget is not None:
            self._budget.set_group_cap(group_row.spent)
        granted_to_others = group_row.granted + sum(row.granted for row in living_rows)
        requested = report.minimum if is_leaving else report.requested
        own_row = Member(
            name=self._name,
            leads=self._is_coordinator,
            granted=self._compute_grant(requested, granted_to_others, minimum=report.minimum),
            spent=report.spent,
            answered=self.answered,
            expires=0.0 if is_leaving else now + LEASE_SECONDS,
            asks=self.sends_requests,
        )
        return [group_row, *living_rows, own_row]

    def _make_group_row(self, ended_rows: Sequence[Member], *, is_new: bool) -> Member:
        """Return the new row of the group, which contains the amounts of members (processes of the run) that have ended.

        ended_rows : row of the group so far, or of an earlier group, and rows of members that have ended
        is_new : whether this member begins a new group, because it starts while no other member is alive
        """
        previous_row = _find_group_row(ended_rows)
        if is_new or previous_row is None:
            group_row = Member(
                name=GROUP_ROW_PREFIX + self.account,
                leads=False,
                granted=self._count_paid_before(ended_rows),
                spent=NO_CAP,
                answered=0,
                expires=0.0,
            )
        else:
            granted = sum(row.granted for row in ended_rows)
            group_row = replace(previous_row, granted=granted, answered=sum(row.answered for row in ended_rows))
        if self._is_coordinator and self._budget is not None:
            group_row = replace(group_row, spent=self._budget.own_cap)
        return group_row

    def _count_paid_before(self, ended_rows: Sequence[Member]) -> int:
        """Count what the run may have paid before this member begins a new group, in picodollars.

        ended_rows : rows of the group before, which may belong to another run of the same name
        """
        usd = self._paid_before.usd_under_cap
        if find_account(ended_rows) == self.account:
            usd += _count_unconfirmed_usd(ended_rows, self._paid_before, usd_in_batches=self._usd_in_batches)
        return math.ceil(usd * PICODOLLARS_PER_USD)

    def _compute_grant(self, requested: int, granted_to_others: int, *, minimum: int) -> int:
        """Compute the amount of the run's cost cap that this member may spend; all amounts are in picodollars.

        The member gets the amount that it requests, but at most the part of the cap that is not granted to other members. It
        always gets at least `minimum`, the amount that it may have spent already.
        """
        if self._budget is None or self._budget.cap == math.inf:
            return requested
        cap = int(self._budget.cap * PICODOLLARS_PER_USD)
        available = cap - granted_to_others
        return max(minimum, min(requested, available))

    def _make_busy_error(self) -> JudgeError:
        """Make the error for a run that another process coordinates: [lease-lost] after joining, [run-busy] before."""
        if self._has_joined:
            return JudgeError(
                f"This process was suspended, or could not reach the store, for more than {LEASE_SECONDS:g} s, and another "
                f"process coordinates the run '{self._run}' now. All answers are stored. Wait for the other process.",
                slug="lease-lost",
            )
        return JudgeError(
            f"The run '{self._run}' is being judged by another process, and both would pay for the same answers. Wait until "
            f"the other process has ended (if its machine is down, for {LEASE_SECONDS:g} s), or stop it, then run the same "
            "command again. Add --worker to help it. If it is another run of the same name, pass another --out.",
            slug="run-busy",
        )

    def _send_heartbeats(self) -> None:
        """Report at intervals until the member leaves or a report fails."""
        while not self._left.wait(self._heartbeat):
            try:
                self.sync()
            except YoudenError as error:
                self.report_error = error
                return


def is_alive(member: Member, *, now: float) -> bool:
    """Return whether a row belongs to a process that renewed it in time, and that is not known to have ended."""
    return member.expires >= now and not is_dead_process(member.name)


def _find_group_row(rows: Sequence[Member]) -> Member | None:
    """Find the row of the group; None if there is none."""
    return next((row for row in rows if row.name.startswith(GROUP_ROW_PREFIX)), None)


def find_account(rows: Sequence[Member]) -> str | None:
    """Find the cost account of the run in the row of its group; None if there is no such row."""
    group_row = _find_group_row(rows)
    return None if group_row is None else group_row.name.removeprefix(GROUP_ROW_PREFIX)


def _count_unconfirmed_usd(
    ended_rows: Sequence[Member], paid: RunPayments, *, usd_in_batches: Mapping[str | None, float]
) -> float:
    """Count what killed processes may have paid in addition to what their account contains, in USD.

    A process that was killed may have spent all that it was granted. The batches that it left at a provider do not count here,
    because the process that resumes a batch reserves its cost.

    ended_rows : rows of a group of which no member is alive
    paid : what the account of the group contains
    usd_in_batches : largest possible cost of the pending batches of each account
    """
    granted = sum(max(0, row.granted) for row in ended_rows)
    usd_in_batches_of_run = usd_in_batches.get(find_account(ended_rows), 0.0)
    return max(0.0, granted / PICODOLLARS_PER_USD - paid.usd_under_cap - usd_in_batches_of_run)


def add_unconfirmed_amount(store: Store, run: str, account: str, paid: RunPayments) -> RunPayments:
    """Add the amount that killed processes of a run may have paid and that no command has booked yet.

    Parameters
    ----------
    store : Store
        Store of the run, which is only read.
    run, account : str
        Name of the run and of its cost account, as the processes of the run passed them.
    paid : RunPayments
        USD that the account contains: for answers, and for calls that may have been paid (`usd_unconfirmed`).

    Returns
    -------
    RunPayments
        `paid` with this amount added to `usd_unconfirmed`. The amount is what the killed processes were granted of the cap,
        minus `paid` and the largest possible cost of the run's batches in progress. `paid` itself if there is no such
        amount, or if `account` is not the account of these processes. Also `paid` itself if a process of the run is alive,
        because its calls may still be answered.
    """
    if not hasattr(store.backend, "read_members"):  # a plugin for an earlier version of the contract
        return paid
    now, rows = store.backend.read_members(run)
    if find_account(rows) != account:
        return paid
    return _add_unconfirmed_usd(rows, paid, now=now, usd_in_batches=sum_pending_batches(store))


def _add_unconfirmed_usd(
    rows: Sequence[Member], paid: RunPayments, *, now: float, usd_in_batches: Mapping[str | None, float]
) -> RunPayments:
    """Add what killed processes may have paid to what the account of their group contains, unless a member is alive.

    rows : all rows of the group
    paid : what the account of the group contains
    now : time of the database, in seconds
    usd_in_batches : largest possible cost of the pending batches of each account
    """
    if any(is_alive(row, now=now) for row in rows):
        return paid
    usd = _count_unconfirmed_usd(rows, paid, usd_in_batches=usd_in_batches)
    if usd <= MAX_ROUNDING_ERROR:
        return paid
    return replace(paid, usd_unconfirmed=paid.usd_unconfirmed + usd)


def list_total_payments(store: Store) -> dict[str, RunPayments]:
    """Return what all runs of a store have paid, including what killed processes may have paid.

    Parameters
    ----------
    store : Store
        The store, which is only read.

    Returns
    -------
    dict of str to RunPayments
        Payments by cost account, in alphabetical order.
    """
    payments = list_run_payments(store)
    if not hasattr(store.backend, "read_all_members"):  # a plugin for an earlier version of the contract
        return payments
    now, rows_by_run = store.backend.read_all_members()
    usd_in_batches = sum_pending_batches(store)
    for rows in rows_by_run.values():
        account = find_account(rows)
        if account is not None:
            booked = payments.get(account, NO_PAYMENTS)
            paid = _add_unconfirmed_usd(rows, booked, now=now, usd_in_batches=usd_in_batches)
            if not paid.is_zero:
                payments[account] = paid
    return dict(sorted(payments.items()))


def is_in_progress(store: Store, run: str) -> bool:
    """Return whether a process sends requests for a run, according to its heartbeat.

    Parameters
    ----------
    store : Store
        Store of the run, which is only read.
    run : str
        Name of the run.

    Returns
    -------
    bool
        Whether a process that takes part in the run is alive. A process counts as alive until `LEASE_SECONDS` after its
        last heartbeat, unless it is known to have ended. False if the storage backend has no method `read_members`.
    """
    if not hasattr(store.backend, "read_members"):  # a plugin for an earlier version of the contract
        return False
    now, members = store.backend.read_members(run)
    return any(is_alive(member, now=now) for member in members)


@contextmanager
def coordinate_run(
    store: str | Path, *, run: str, account: str | None = None, saved: RunPayments = NO_PAYMENTS
) -> Iterator[WorkerGroup]:
    """Be the coordinator of a run for the duration of the block.

    Other runs may use the store at the same time, and workers may join this run.

    Parameters
    ----------
    store : str or Path
        Path or URL of the store, which is created if it does not exist.
    run : str
        Name of the run.
    account : str, optional
        Cost account of the run, whose payments count towards the cap. Default: `run`.
    saved : RunPayments, optional
        USD that the run has paid according to its folder. The coordinator books the part that the account lacks. Default: 0.

    Yields
    ------
    WorkerGroup
        Membership of this process among the processes that send requests for the run. It ends with the block.

    Raises
    ------
    JudgeError
        [run-busy] if another process is the coordinator; the errors of the store.
    ConfigError
        If the store cannot be opened.
    """
    with (
        open_store(store) as opened,
        WorkerGroup(opened, run, is_coordinator=True, account=account, saved=saved) as workers,
    ):
        yield workers


@contextmanager
def join_as_worker(store: str | Path, *, run: str, account: str | None = None) -> Iterator[WorkerGroup]:
    """Join a run as a worker for the duration of the block.

    The worker may join, and send requests, before the coordinator starts.

    Parameters
    ----------
    store : str or Path
        Path or URL of the store, which is created if it does not exist.
    run : str
        Name of the run.
    account : str, optional
        Cost account of the run, whose payments count towards the cap. Default: `run`. If other processes are judging the run,
        their account is used instead.

    Yields
    ------
    WorkerGroup
        Membership of this process among the processes that send requests for the run. It ends with the block.

    Raises
    ------
    ConfigError, JudgeError
        If the store cannot be opened or written.
    """
    with (
        open_store(store) as opened,
        WorkerGroup(opened, run, is_coordinator=False, account=account) as workers,
    ):
        yield workers
