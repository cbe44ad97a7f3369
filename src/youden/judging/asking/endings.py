"""What ends a run before everything is asked, and the words it ends with."""

from __future__ import annotations

from collections.abc import Callable

from youden.errors import BudgetError, ShortRunError, TooManyMissingError, YoudenError
from youden.judging.call.budget import Budget
from youden.judging.call.failures import CallError
from youden.nouns import Plan

LOOKED_AT_FROM = 200
"""Trials after which the share of missing answers may stop the run."""

GIVEN_UP_AT_START = 3
"""So many requests given up on before anything was answered end the run."""


class Ending:
    """Whether a run has to end, and why: the first reason stands. Several loops may share one.

    on_stop: called once, when the run has to end; calls in flight still come to their end.
    """

    def __init__(self) -> None:
        self.on_stop: list[Callable[[], None]] = []
        self._why: Callable[[], YoudenError] | None = None
        self._n_answered = 0
        self._n_given_up = 0

    @property
    def any_answered(self) -> bool:
        return self._n_answered > 0

    @property
    def stopped(self) -> bool:
        return self._why is not None

    def stop(self, why: Callable[[], YoudenError]) -> None:
        """End the run. `why` is called when the last call has ended, so that it can count them all."""
        if self._why is None:
            self._why = why
            for told in self.on_stop:
                told()

    def stop_with(self, error: YoudenError) -> None:
        """End the run with this very error."""
        self.stop(lambda: error)

    def answered(self) -> None:
        """A call was answered."""
        self._n_answered += 1

    def given_up(self, why: Callable[[], YoudenError], *, n_requests: int) -> None:
        """A request was given up on: the run ends where none of the first three, or of fewer `n_requests`, was answered."""
        self._n_given_up += 1
        if not self._n_answered and self._n_given_up >= min(GIVEN_UP_AT_START, n_requests):
            self.stop(why)

    def raise_reason(self) -> None:
        """Raises: the reason, where the run had to end."""
        if self._why is not None:
            raise self._why()


class AnswersMissingError(ShortRunError):
    """The store does not hold every answer to `plan`, and nothing was to be asked. n_missing: trials without one."""

    def __init__(self, plan: Plan, *, n_missing: int) -> None:
        self.plan = plan
        self.n_missing = n_missing
        more = "" if plan.rounds is None else f" of round {len(plan.rounds.starts)}"
        super().__init__(
            f"{n_missing:,} of the {len(plan):,} trials{more} have no answer yet, so no verdicts are written. Export what is "
            "left with `youden plan CONFIG --export DIR` and import its answers, or ask it with `youden judge CONFIG`.",
            slug="answers-missing",
        )


def too_many(n_missing: int, n_done: int, *, max_missing: float) -> bool:
    """Whether more answers are missing than a run puts up with; not before `LOOKED_AT_FROM` trials are done."""
    return n_missing > 0 and n_done >= LOOKED_AT_FROM and n_missing > max_missing * n_done


def out_of_money(budget: Budget, *, n_done: int, n: int, what: str = "trials") -> BudgetError:
    """The cap does not allow the next call. what: of which `n_done` of `n` are done."""
    return BudgetError(
        f"The next call could pass the cap of {budget.cap:.6g} USD: {budget.spent_by_all:.6g} USD were spent "
        "(calls without a reply count as the most they can have cost), "
        f"{n_done} of {n} {what} are done and {n - n_done} remain. "
        "Raise max_cost, or run the same again to spend as much once more; no stored answer is asked or paid for twice.",
        slug="budget",
    )


def awaited(n: int, *, store: str) -> ShortRunError:
    """So many answers are left to the batches that `store` knows of."""
    return ShortRunError(
        f"{n:,} answers are awaited from batches that were sent and are not merged yet, so they are not asked for again. "
        f"The same command with `--mode batch` waits for them. `youden store batches {store}` shows the batches; with "
        "`--forget BATCH` it gives one up, whose requests are then asked, and paid, once more.",
        slug="batch-awaited",
    )


def away_too_long(error: CallError, *, judge: str, address: str, outage: float) -> ShortRunError:
    """The server did not come back in time."""
    return ShortRunError(
        f"The judge '{judge}' at {address} has been away for more than {outage:g} s: {error.reason} "
        "Every answer is kept. Run the same again when it is back, or let `outage` in its config be more seconds; "
        "`outage: 0` counts every failure as its trial's own, where a few texts break the server.",
        slug="outage",
    )


def too_many_missing(
    n_missing: int, n: int, *, why: str, max_missing: float, what: str = "trials"
) -> TooManyMissingError:
    """More answers are missing than the run puts up with. why: the reasons, in words."""
    return TooManyMissingError(
        f"{n_missing} of {n} {what} have no answer ({why or 'no answer'}), more than max_missing = {max_missing:g} allows. "
        "Look at the judge's prompt and labels, or raise max_missing; "
        "answers are kept, and the same run goes on from them (--retry-failed asks again what has no answer).",
        slug="too-many-missing",
    )
