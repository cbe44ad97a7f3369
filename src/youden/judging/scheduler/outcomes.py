"""Decides how each call ends: with an answer, a failure or the end of the run; and keeps what came, with what it cost.

All who ask build on it, call by call or in batches. They say what came of a call (`answered`, `failed`), or what the store
had of it (`found`); who waits for a call's answer is a `Work`.

An answer is kept at once. A failure is its trial's own, and kept, only once anything was answered: until then it may be the
server's fault. What would befall every call ends the run, and so do the first requests where none of them is answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from youden.errors import BudgetError, YoudenError
from youden.judging.call.budget import Budget
from youden.judging.call.connection import Backend
from youden.judging.call.failures import CallError, Failure, ends_the_run
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import StopReason
from youden.judging.store.answers import Store, payment_of
from youden.judging.store.plan_answers import Call
from youden.types import Completion, Request


class Work(Protocol):
    """What is asked. Its rows are its own: numbers that stand for whoever waits for an answer."""

    def __len__(self) -> int:
        """How many rows there are."""

    def keys(self) -> Iterator[tuple[int, str]]:
        """(row, key) of every row, in order; rows with the same key share a call."""

    def request(self, row: int, key: str) -> Request:
        """What has to be sent for this row, whose key is `key`."""

    def fits(self, request: Request) -> bool:
        """Whether the request can be sent at all."""

    def is_answer(self, completion: Completion) -> bool:
        """Whether the completion is one that need not be asked again under `retry_failed`."""

    def put(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        """Take what came of these rows; None was not asked. Returns 'answered', or the reason why there is no answer."""

    def out_of_money(self, budget: Budget) -> BudgetError:
        """What to say where the cap does not allow the next call."""


@dataclass(eq=False)
class Outcomes:
    """How the calls of `work` end. What has to be written goes to `store`, and is on disk after its next `flush`.

    stop: why the run has to end, which others may share. account: cost account of the payments in the store; None to record none.
    retry_failed: what was rejected or is no answer is asked again. known_good: what was answered last.
    """

    work: Work
    judge: JudgeConfig
    backend: Backend
    store: Store
    stop: StopReason
    log: ProgressLog
    account: str | None = None
    retry_failed: bool = False
    known_good: Call | None = field(default=None, init=False)
    _early: list[tuple[Call, Failure]] = field(default_factory=list, init=False)

    def paid(self, key: str, usd: float, completion: Completion | None = None) -> None:
        """Note what a try cost, before what came of it is kept: both are written together."""
        if self.account is not None and (usd or completion is not None):
            self.store.pay(self.account, key, payment_of(usd, completion))

    def answered(self, call: Call, completion: Completion) -> None:
        """The call ends with an answer."""
        self.stop.answered()
        self.known_good = call
        self.keep_failures()
        self._keep(call, completion)
        outcome = self._put(call, completion, usd=call.usd)
        self.log.answered(call.key, completion, outcome=outcome, usd=call.usd)

    def failed(self, call: Call, error: CallError, *, again: bool) -> bool:
        """Whether the call ends with a failure, or the run with it. again: whether it may be tried once more; then it does not
        end, but with the run: what might have gone better is no failure of a call that the end of the run cut short."""
        if error.kind == "stop":
            self.stop.stop(lambda: self._ends_the_run(error))
        elif self.stop.stopped and error.kind == "retry":
            return True
        elif again:
            return False
        else:
            self._give_up(call, error)
        return True

    def found(self, asked: Call, outcome: Completion | Failure | None) -> None:
        """The store holds what came of it; None where it cannot be sent."""
        if isinstance(outcome, Completion):
            self.known_good = asked
        if self.backend.record is not None and outcome is not None:
            self.backend.record(asked.request, outcome)
        self._put(asked, outcome, stored=True)

    def keep_failures(self) -> None:
        """The server is well, so that what failed before is its trial's own."""
        while self._early:
            self._keep(*self._early.pop())

    def _give_up(self, call: Call, error: CallError) -> None:
        if self.backend.live:
            self.stop.given_up(lambda: self._ends_the_run(error), n_requests=len(self.work))
        failure = Failure(error.kind, error.status, error.reason)
        if self.stop.any_answered:
            self._keep(call, failure)
        else:
            self._early.append((call, failure))
        self._put(call, failure, usd=call.usd)

    def _keep(self, call: Call, outcome: Completion | Failure) -> None:
        if self.backend.record is not None:
            self.backend.record(call.request, outcome)
        self.store.add(call.key, outcome, again=call.known is not None, waits=False)

    def _put(self, asked: Call, outcome: Completion | Failure | None, *, usd: float = 0.0, stored: bool = False) -> str:
        reason = self.work.put(asked.rows, asked.key, outcome, usd=usd, stored=stored)
        self.log.advance(len(asked.rows), missing=reason, usd=usd, stored=stored)
        return reason

    def _ends_the_run(self, error: CallError) -> YoudenError:
        return ends_the_run(error, judge=self.judge.name, address=self.judge.address)
