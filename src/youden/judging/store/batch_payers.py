"""Correct what a run has reserved for its batches if another process fetches them, or the folder of the run is renamed.

The cost of a batch is booked to the account in its record. The run has also reserved the largest possible cost, in the rows of
its processes (`worker_group`). If these have ended, nothing else releases the part that was not spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from youden.judging.call.budget import PICODOLLARS_PER_USD
from youden.judging.store.answers import Store
from youden.judging.store.contract import Member
from youden.judging.store.leases import new_id, read_pending_jobs
from youden.judging.store.worker_group import find_account, is_alive


def take_over_batches(store: Store, old_account: str, account: str) -> None:
    """Let a run whose folder was renamed pay for its batches in progress, and not the account of its old path.

    A batch that another process polls is left out.

    Parameters
    ----------
    store : Store
        Store of the run.
    old_account, account : str
        Names of the cost accounts of the run under its old and its present path.
    """
    leases = store.leases()
    lease_keys = [job.lease_key for job in read_pending_jobs(store.backend) if job.account == old_account]
    leased_keys = leases.acquire(lease_keys)

    # read the records again, because another process may have changed them before its lease was taken over
    jobs = [job for job in read_pending_jobs(store.backend) if job.lease_key in leased_keys]
    for job in jobs:
        store.settle(job.id, replace(job, account=account, id=new_id()).row)
    store.flush()
    for job in jobs:
        release_unspent(store, old_account, job.usd)
    leases.release()


def release_unspent(store: Store, account: str, usd: float) -> None:
    """Reduce the amount that ended processes of a run may have paid, because a batch of theirs cost less than was reserved.

    Nothing changes while a process of the run is alive, because this process may have reserved the cost itself.

    Parameters
    ----------
    store : Store
        Store of the run.
    account : str
        Cost account of the run.
    usd : float
        Largest possible cost of the batch minus its actual cost, in USD. If it is NaN (unknown), nothing changes.
    """
    if not usd > 0 or not hasattr(store.backend, "read_all_members"):  # a plugin for an earlier version of the contract
        return
    _, rows_by_run = store.backend.read_all_members()
    for run, rows in rows_by_run.items():
        if find_account(rows) == account:
            store.backend.replace_members(run, partial(_reduce_granted, amount=int(usd * PICODOLLARS_PER_USD)))


def _reduce_granted(now: float, rows: Sequence[Member], *, amount: int) -> Sequence[Member]:
    """Subtract an amount from the granted amounts of a group, and return its new rows; unchanged if a member is alive.

    now : time of the database, in seconds
    amount : picodollars to subtract from the sum of the granted amounts, none of which becomes negative
    """
    if any(is_alive(row, now=now) for row in rows):
        return rows
    new_rows = []
    for row in rows:
        reduction = min(amount, max(0, row.granted))
        amount -= reduction
        new_rows.append(replace(row, granted=row.granted - reduction))
    return new_rows
