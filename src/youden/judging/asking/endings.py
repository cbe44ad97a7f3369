"""How a run that falls short says so.

It knows counts and what a user can do next; it refuses to know when a run has to end.
"""

from __future__ import annotations

from youden.errors import BudgetError, TooManyMissingError
from youden.judging.call.budget import Budget
from youden.judging.store.arriving import VerdictColumns

LOOKED_AT_FROM = 200
"""Trials after which the share of missing answers may stop the run."""


def out_of_money(budget: Budget, columns: VerdictColumns, *, n_trials: int) -> BudgetError:
    """The cap does not allow the next call."""
    return BudgetError(
        f"The next call could pass the cap of {budget.cap:.6g} USD: {budget.spent:.6g} USD were spent, "
        f"{columns.n_done} of {n_trials} trials are done and {n_trials - columns.n_done} remain. "
        "Raise max_cost, or run the same again to spend as much once more; no stored answer is asked or paid for twice.",
        slug="budget",
    )


def too_many_missing(columns: VerdictColumns, *, max_missing: float) -> TooManyMissingError:
    """More answers are missing than the run puts up with."""
    return TooManyMissingError(
        f"{columns.n_missing} of {columns.n_done} trials have no answer "
        f"({columns.missing_in_words()}), more than max_missing = {max_missing:g} allows. "
        "Look at the judge's prompt and labels, or raise max_missing; "
        "answers are kept, and the same run goes on from them (--retry-failed asks again what has no answer).",
        slug="too-many-missing",
    )
