"""Name the cost accounts of a run in its store, and sum the payments that they contain.

A run has three accounts, so that the cost of its calibrations, and what killed processes may have paid, are stated separately.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from youden.judging.store.answers import Store
from youden.judging.store.contract import Row, column_names
from youden.judging.store.leases import read_pending_jobs
from youden.types.payments import RunPayments

_CALIBRATION = " (calibration)"
_UNCONFIRMED = " (unconfirmed)"
_ROWS_PER_READ = 10_000


def calibration_account(account: str) -> str:
    """Return the name of the cost account for calibrating the judge of a run; `account` is that of the run itself."""
    return account + _CALIBRATION


def unconfirmed_account(account: str) -> str:
    """Return the name of the account for what killed processes may have paid; `account` is that of the run itself."""
    return account + _UNCONFIRMED


def read_run_payments(store: Store, account: str) -> RunPayments:
    """Return what a run has paid over all commands; `account` is the cost account of the run itself."""
    names = (account, unconfirmed_account(account), calibration_account(account))
    amounts = {name: [payment.usd for payment in store.read_payments(name).values()] for name in names}
    return _sum_amounts(account, amounts)


def list_run_payments(store: Store) -> dict[str, RunPayments]:
    """Return what all runs of a store have paid, by the cost account of the run, in alphabetical order."""
    amounts: defaultdict[str, list[float]] = defaultdict(list)
    payer, usd = map(column_names("costs").index, ("payer", "usd"))
    last_row: Row | None = None
    while rows := store.backend.rows("costs", last_row, n=_ROWS_PER_READ):
        for row in rows:
            amounts[cast(str, row[payer])].append(math.nan if row[usd] is None else cast(float, row[usd]))
        last_row = rows[-1]
    accounts = {name.removesuffix(_CALIBRATION).removesuffix(_UNCONFIRMED) for name in amounts}
    return {account: _sum_amounts(account, amounts) for account in sorted(accounts)}


def sum_pending_batches(store: Store) -> dict[str | None, float]:
    """Sum the largest possible costs of the pending batches in a store, in USD, by cost account; unknown costs count as 0."""
    sums: defaultdict[str | None, float] = defaultdict(float)
    for job in read_pending_jobs(store.backend):
        sums[job.account] += 0.0 if math.isnan(job.usd) else job.usd
    return sums


def add_pending_batches(store: Store, account: str, paid: RunPayments) -> RunPayments:
    """Return what an account has paid, with the largest possible cost of its pending batches added to `usd_unconfirmed`."""
    usd_in_batches = sum_pending_batches(store).get(account, 0.0)
    return replace(paid, usd_unconfirmed=paid.usd_unconfirmed + usd_in_batches)


def _sum_amounts(account: str, amounts: dict[str, list[float]]) -> RunPayments:
    """Sum the amounts of the three accounts of a run.

    account : cost account of the run itself
    amounts : payments in USD by account; a payment is NaN if the cost is unknown
    """
    of_run = amounts.get(account, [])
    of_calibration = amounts.get(calibration_account(account), [])
    return RunPayments(
        usd=_sum_known(of_run),
        usd_unconfirmed=_sum_known(amounts.get(unconfirmed_account(account), [])),
        usd_calibration=_sum_known(of_calibration),
        n_unknown=sum(map(math.isnan, [*of_run, *of_calibration])),
    )


def _sum_known(amounts: Iterable[float]) -> float:
    """Return the sum of the amounts that are not NaN."""
    return math.fsum(amount for amount in amounts if not math.isnan(amount))
