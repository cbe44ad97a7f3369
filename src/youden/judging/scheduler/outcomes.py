"""Decide how each call ends (with an answer, a failure or the end of the run), and store its outcome and cost.

Both single calls and batches report here: `record_answer` and `record_failure` for a call that was sent,
`record_unsent` for a call that is not sent, because its outcome is known. A `Work` receives the outcomes of its rows.

An answer is stored at once. A failure is stored as the failure of its trial only after some call was answered, because
until then it may be the server's fault. An error that every call would have ends the run, and so do the first requests
if none of them is answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from youden.errors import BudgetError, JudgeError, YoudenError
from youden.judging.call.budget import Budget
from youden.judging.call.connection import Backend
from youden.judging.call.failures import CallError, Failure, to_judge_error
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import StopReason
from youden.judging.store.answers import Store, make_payment
from youden.judging.store.plan_answers import Call
from youden.types import Completion, Request


class Work(Protocol):
    """Requests to send, and the receiver of their outcomes. Its rows are numbered from 0; each waits for one answer."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def iter_row_keys(self) -> Iterator[tuple[int, str]]:
        """Iterate over (row, request hash) of all rows in order; rows with the same request hash share one call."""

    def request(self, row: int, key: str) -> Request:
        """Build the request of a row; `key` is its request hash."""

    def fits(self, request: Request) -> bool:
        """Return whether a request can be sent at all."""

    def is_answer(self, completion: Completion) -> bool:
        """Return whether a completion is an answer that need not be requested again under `retry_failed`."""

    def record_outcome(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        """Record the outcome of a call.

        Parameters
        ----------
        rows : sequence of int
            The rows that wait for it.
        key : str
            Their request hash.
        outcome : Completion, Failure or None
            None if the request cannot be sent.
        usd : float
            Cost of all attempts of the call, for all rows together, in USD; NaN if unknown, 0 if `stored`.
        stored : bool
            Whether no request was sent, because the outcome was in the store already, or because the request cannot be sent.

        Returns
        -------
        str
            "answered", or the reason why the answer is missing.
        """

    def make_budget_error(self, budget: Budget) -> BudgetError:
        """Build the error for a cap that does not allow the next call."""


def book_cost(store: Store, account: str | None, key: str, usd: float, completion: Completion | None) -> None:
    """Book the cost of an attempt to a cost account in a store.

    account : name of the cost account; if it is None, nothing is booked
    key : request hash
    usd : cost in USD; NaN if unknown. An attempt that failed and cost nothing is not booked.
    completion : the reply, with its token counts and duration; None if the attempt failed
    """
    if account is not None and (usd or completion is not None):
        store.pay(account, key, make_payment(usd, completion))


@dataclass(eq=False)
class Outcomes:
    """Records how the calls of some work end. What is written to the store is on disk after its next `flush`."""

    work: Work
    """The requests, and the receiver of their outcomes."""
    judge: JudgeConfig
    """Config of the judge."""
    backend: Backend
    """Backend of the judge."""
    store: Store
    """Store of the outcomes."""
    stop: StopReason
    """Why the run has to end; several `Outcomes` may share it."""
    log: ProgressLog
    """Receives progress and events."""
    options: JudgingOptions
    """Options of the run, with its cost account. With `retry_failed`, requests without an answer are recorded in `unanswered`."""
    last_answered_call: Call | None = field(default=None, init=False)
    """The call that was answered last, whose request can test whether the server responds."""
    _has_shown_failure: bool = field(default=False, init=False)
    _early_failures: list[tuple[Call, Failure]] = field(default_factory=list, init=False)

    def record_cost(self, key: str, usd: float, completion: Completion | None = None) -> None:
        """Book the cost of an attempt to the account of the run; without an account, this has no effect.

        Costs of several attempts with the same hash are summed. Call this method before the outcome of the attempt is recorded,
        so that both are written together.

        Parameters
        ----------
        key : str
            Request hash of the call.
        usd : float
            Cost of the attempt in USD; NaN if unknown. An attempt that failed and cost nothing is not booked.
        completion : Completion, optional
            The reply, with its token counts and duration; None if the attempt failed.
        """
        book_cost(self.store, self.options.account, key, usd, completion)

    def record_answer(self, call: Call, completion: Completion) -> None:
        """End a call with an answer: add it to the store, pass it to `work`, and show the progress.

        An answer shows that the server works. Earlier failures were therefore due to their requests, and are also added to the
        store. The caller has to write the store to the disk with `store.flush`.

        If the judge needs log-probabilities, and the first three requests all fail or get answers without log-probabilities,
        the end of the run is requested. The answers are stored nevertheless.

        call : the call, with its cost in USD (`usd`)
        completion : the reply, also one that cannot be parsed
        """
        if self._lacks_logprobs(completion):
            self.stop.record_failure(self._make_logprobs_error, n_requests=len(self.work))
        else:
            self.stop.record_answer()
        self.last_answered_call = call
        self.store_failures()

        self._store_outcome(call, completion)
        result = self._report_outcome(call, completion, usd=call.usd)
        self.log.record_answer(call.key, completion, outcome=result, usd=call.usd)

    def record_failure(self, call: Call, error: CallError, *, may_retry: bool) -> bool:
        """Record a failed attempt, and decide whether it ends the call or the run.

        There are three kinds of errors:

        - A transient error may not occur again if the call is sent again.
        - A rejection concerns only this call.
        - A fatal error would occur in every call of the run.

        Parameters
        ----------
        call : Call
            Call whose attempt has failed.
        error : CallError
            Why the attempt failed. After a fatal error, the end of the run is requested, and no failure is stored.
        may_retry : bool
            Whether the caller can send the call again after a transient error or a rejection. If not, the call ends with a
            failure. The failure is stored as soon as any call of the run was answered, or else at the end of a run that was
            not stopped.

        Returns
        -------
        bool
            True if the call has ended, False if the caller has to send it again. If the run is about to end, a transient error
            ends the call without a stored failure, so that the next run sends the request again.
        """
        if error.kind == "fatal":
            self.stop.request_stop(lambda: self._make_fatal_error(error))
            return True
        if error.kind == "transient" and self.stop.is_stopped:
            return True
        if may_retry:
            return False
        self._store_or_keep_failure(call, error)
        return True

    def record_unsent(self, call: Call, outcome: Completion | Failure | None) -> None:
        """End a call that is not sent, because its outcome is stored or its request is too long.

        The outcome is passed to `work`, and the progress is shown. If a cassette records, it gets a stored outcome, too.

        call : the call, whose cost counts as 0
        outcome : stored outcome; None if the request is too long
        """
        if isinstance(outcome, Completion):
            self.last_answered_call = call
        if self.backend.record is not None and outcome is not None:
            self.backend.record(call.request, outcome)
        self._report_outcome(call, outcome, stored=True)

    def store_failures(self) -> None:
        """Store the failures so far, after a call was answered and the server is therefore known to work."""
        while self._early_failures:
            call, failure = self._early_failures.pop()
            self._store_outcome(call, failure)

    def _store_or_keep_failure(self, call: Call, error: CallError) -> None:
        """End a call with a failure, which is stored now or after the first answer of the run.

        The failure is stored at once if a call of this run was answered. Before that, the server may be at fault: the
        failure is kept in memory, and `store_failures` stores it later. If the first requests of the run all fail, the end
        of the run is requested.

        call : the call, with its cost in USD (`usd`)
        error : why its last attempt failed
        """
        sends_requests = self.backend.live  # False if recorded answers are replayed
        if sends_requests:
            n_requests = len(self.work)
            self.stop.record_failure(lambda: self._make_fatal_error(error), n_requests=n_requests)

        failure = Failure(error.kind, error.status, error.reason)
        if self.stop.has_answers:
            self._store_outcome(call, failure)
        else:
            self._early_failures.append((call, failure))
        self._report_outcome(call, failure, usd=call.usd)

    def _lacks_logprobs(self, completion: Completion) -> bool:
        """Return whether a reply has a text, but not the log-probabilities that `decision: logprobs` needs."""
        needs_logprobs = self.judge.decision == "logprobs" and self.backend.live
        has_no_logprobs = not completion.top_logprobs and not completion.refusal
        return needs_logprobs and bool(completion.text) and has_no_logprobs

    def _make_logprobs_error(self) -> YoudenError:
        """Return the error that ends the run if the first replies lack log-probabilities."""
        return JudgeError(
            f"The first replies of the judge '{self.judge.name}' have no log-probabilities, which `decision: logprobs` needs. "
            "Set `decision: text` in the judge's config.",
            slug="judge-logprobs",
        )

    def _store_outcome(self, call: Call, outcome: Completion | Failure) -> None:
        """Add an outcome to the store, and to the cassette if one is recorded."""
        if self.backend.record is not None:
            self.backend.record(call.request, outcome)
        self.store.add(call.key, outcome, replaces_answer=call.cached is not None, may_flush=False)

    def _report_outcome(
        self, call: Call, outcome: Completion | Failure | None, *, usd: float = 0.0, stored: bool = False
    ) -> str:
        """Pass an outcome to the work and the progress display; return why the answer is missing, or "answered".

        The reason of the first failure is shown, because the counts of missing answers do not contain it.
        """
        does_server_work = stored or self.stop.has_answers  # if not, the error that ends the run states the reason
        if isinstance(outcome, Failure) and does_server_work and not self._has_shown_failure:
            self._has_shown_failure = True
            self.log.announce("first_failure", f"first failed call of '{self.judge.name}': {outcome.reason}")
        result = self.work.record_outcome(call.rows, call.key, outcome, usd=usd, stored=stored)
        if self.options.retry_failed and not stored and result != "answered":
            self.options.unanswered.add(call.key)
        self.log.advance(len(call.rows), outcome=result, usd=usd, stored=stored)
        return result

    def _make_fatal_error(self, error: CallError) -> YoudenError:
        """Return the error that ends the run because every call would fail like this one."""
        return to_judge_error(error, judge=self.judge.name, address=self.judge.address)
