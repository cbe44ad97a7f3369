"""Stop a run before all requests are sent (signal, missing answers, budget, outage), and build the errors for it.

Calls in flight are first answered and stored, within a grace period. Ctrl-C (through `asyncio.run`), SIGTERM, SIGHUP
and the `cancel()` of a task all arrive here as a cancellation. A second one ends the run at once.
"""

from __future__ import annotations

import asyncio
import math
import signal
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from youden.errors import BudgetError, IncompleteRunError, TooManyMissingError, YoudenError
from youden.judging.call.budget import Budget
from youden.judging.call.failures import CallError
from youden.judging.call.learned_rate import MAX_BLOCKED_SECONDS
from youden.judging.store.plan_answers import format_missing_reasons
from youden.text.sentences import format_count
from youden.types import MISSING_REASONS, Plan, Verdicts
from youden.types.pool import Json

T = TypeVar("T")

_DEFERRED = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

FLUSH_RESERVE_SECONDS = 1.0
"""Part of the grace period, at most a quarter of it, that is reserved for storing answers and ending the process."""

SIGNAL_CHECK_SECONDS = 0.2
"""Interval at which the main thread checks for signals while it waits for a worker thread (needed on Windows)."""


async def wait_with_grace(task: asyncio.Task[None], *, stop: Callable[[], None], grace: float) -> None:
    """Wait for a task. If this coroutine is cancelled, for example by Ctrl-C, give the task some time to end by itself.

    The task is cancelled if it does not end in time. A quarter of the time, but at most a second, is left for what follows:
    the caller stores the answers.

    task : the task
    stop : function that asks the task to end, called if this coroutine is cancelled
    grace : time until the process should have ended, in seconds

    Raises: the exception of the task; CancelledError if this coroutine was cancelled, after the task has ended.
    """
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        stop()
        seconds_for_storing = min(FLUSH_RESERVE_SECONDS, grace / 4)
        try:
            await asyncio.wait({task}, timeout=grace - seconds_for_storing)
        finally:  # also if this coroutine is cancelled a second time
            task.cancel()  # without effect if the task has ended
            await asyncio.wait({task})
            if not task.cancelled():
                _ = task.exception()  # otherwise, asyncio logs the exception as unread
        raise
    await task  # raises the exception of the task


def run_until_stopped(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a new event loop.

    Like `asyncio.run`, with two differences. SIGTERM and SIGHUP first cancel `main`, as Ctrl-C does, and take effect
    once it has ended. Inside a running event loop, as in a notebook, the new loop runs in a worker thread with a copy
    of the context, and the caller waits; there Ctrl-C cancels `main` too.

    Parameters
    ----------
    main : coroutine
        Coroutine that has not been started.

    Returns
    -------
    object
        The result of the coroutine.

    Raises
    ------
    IncompleteRunError
        [stopped]: if a signal stopped the run and did not end the process.
    Exception
        Whatever `main` raises.
    """
    cancellation = _Cancellation()
    results: list[T] = []

    async def run_cancellable() -> None:
        # The task returns None: asyncio.run may format a task's result, which takes long for large arrays.
        cancellation.attach()
        results.append(await main)

    try:
        if _is_loop_running():
            with _handle_signals(cancellation.cancel, [signal.SIGINT, *_DEFERRED]):
                _run_in_thread(run_cancellable())
        else:
            with _handle_signals(cancellation.cancel, _DEFERRED):
                asyncio.run(run_cancellable())
    except asyncio.CancelledError:
        if not cancellation.signals:
            raise
    else:
        if not cancellation.signals:
            return results[0]
    received = cancellation.signals[0]
    signal.raise_signal(received)
    if received == signal.SIGINT:  # the handler of asyncio.run cancels its task, and does not raise
        raise KeyboardInterrupt
    raise IncompleteRunError(
        f"A signal ({signal.Signals(received).name}) stopped the run. All answers are stored; run the "
        "same command again to resume.",
        slug="stopped",
    )


def _is_loop_running() -> bool:
    """Return whether an event loop is running in this thread, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Cancellation:
    """Cancels a task on a signal. signals: the numbers of the signals received so far."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self._cancel_task: Callable[[], object] | None = None

    def attach(self) -> None:
        """Cancel the current task on each later signal, and at once if there was one."""
        task = cast(asyncio.Task[None], asyncio.current_task())
        self._cancel_task = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
        if self.signals:
            self._cancel_task()

    def cancel(self, number: int, _frame: object) -> None:
        """Record the number of a signal, and cancel the task if there is one; a signal handler."""
        self.signals.append(number)
        if self._cancel_task is not None:
            self._cancel_task()


def _run_in_thread(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a worker thread; the caller wakes up regularly, because only it can handle signals."""
    with ThreadPoolExecutor(1, thread_name_prefix="youden loop") as executor:
        future = executor.submit(copy_context().run, asyncio.run, main)
        while not wait([future], timeout=SIGNAL_CHECK_SECONDS).done:
            pass
    future.result()


@contextmanager
def _handle_signals(handler: Callable[[int, Any], None], signals: Sequence[int]) -> Iterator[None]:
    """Call `handler` for signals in the body of the `with` statement. Signals that are ignored stay ignored.

    Python sets signal handlers only in the main thread. In any other thread, nothing is changed.
    """
    previous_handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in signals:
            previous_handler = signal.getsignal(number)
            # None stands for a handler that was not set by Python, which could not be restored
            if previous_handler not in (signal.SIG_IGN, None):
                previous_handlers[number] = previous_handler
    for number in previous_handlers:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, previous_handler in previous_handlers.items():
            signal.signal(number, previous_handler)


MIN_TRIALS_BEFORE_STOP = 200
"""Number of trials after which the fraction of missing answers may stop the run."""

MAX_INITIAL_FAILURES = 3
"""The run ends if this many requests fail for good before any is answered."""


class StopReason:
    """The first reason for which a run has to end, shared by all loops of the run.

    Attributes
    ----------
    on_stop : list of callable
        Called once when the run has to end; calls in flight may still end by themselves.
    """

    def __init__(self) -> None:
        self.on_stop: list[Callable[[], None]] = []
        self._make_error: Callable[[], YoudenError] | None = None
        self._n_answered = 0
        self._n_failed = 0

    @property
    def has_answers(self) -> bool:
        """Whether any call was answered."""
        return self._n_answered > 0

    @property
    def is_stopped(self) -> bool:
        """Whether the run has to end."""
        return self._make_error is not None

    def request_stop(self, make_error: Callable[[], YoudenError]) -> None:
        """Record that the run has to end and with which error, and call the callbacks in `on_stop`.

        Nothing is raised here: `raise_if_stopped` raises the error after the calls in flight have ended. If a reason was
        recorded before, this method has no effect.

        Parameters
        ----------
        make_error : callable
            Function without arguments that returns the error. `raise_if_stopped` calls it, so that the error can count
            all calls.
        """
        if self.is_stopped:
            return
        self._make_error = make_error
        for callback in self.on_stop:
            callback()

    def request_stop_with_error(self, error: YoudenError) -> None:
        """Record that the run has to end with an error that exists already."""
        self.request_stop(lambda: error)

    def record_answer(self) -> None:
        """Record that a call was answered."""
        self._n_answered += 1

    def record_failure(self, make_error: Callable[[], YoudenError], *, n_requests: int) -> None:
        """Record that a request failed and is not sent again; end the run if none of the first 3 requests was answered.

        To end the run, this method calls `request_stop(make_error)`; it raises nothing itself.

        Parameters
        ----------
        make_error : callable
            Function without arguments that returns the error that ends the run.
        n_requests : int
            Number of requests that the run has in all. If it has fewer than 3, the run ends when all of them have failed.
        """
        self._n_failed += 1
        max_failures = min(MAX_INITIAL_FAILURES, n_requests)
        if not self.has_answers and self._n_failed >= max_failures:
            self.request_stop(make_error)

    def raise_if_stopped(self, *budgets: Budget) -> None:
        """Raise the error that ended the run, if there is one.

        Parameters
        ----------
        *budgets : Budget
            Budgets of the run. Notes about their uncertain costs are added to the error: those of answers without valid token
            counts, and of calls without a usable reply. Equal notes are added once.

        Raises
        ------
        YoudenError
            The error that `request_stop` or `request_stop_with_error` recorded as the reason.
        """
        if self._make_error is None:  # nothing has requested the end of the run
            return
        error = self._make_error()
        notes = [budget.describe_uncertain_costs() for budget in budgets]
        for note in dict.fromkeys(notes):
            if note:
                error.add(note)
        raise error


class AnswersMissingError(IncompleteRunError):
    """The store does not contain all answers to a plan, and no requests may be sent.

    Parameters
    ----------
    plan : Plan
    n_missing : int
        Number of trials without an answer.
    """

    def __init__(self, plan: Plan, *, n_missing: int) -> None:
        self.plan = plan
        self.n_missing = n_missing
        round_name = "" if plan.rounds is None else f" of round {len(plan.rounds.starts)}"
        verb = "has" if n_missing == 1 else "have"
        super().__init__(
            f"{n_missing:,} of the {len(plan):,} trials{round_name} {verb} no answer yet, so no "
            "verdicts are written. Export the open requests with `youden plan CONFIG --export DIR` and import their answers, or "
            "send them with `youden judge CONFIG`.",
            slug="answers-missing",
        )


def exceeds_max_missing(n_missing: int, n_done: int, *, max_missing: float, is_certain: bool = False) -> bool:
    """Return whether a run must stop early because significantly more answers are missing than `max_missing` allows.

    The excess is significant if it is more than three standard errors. The limit is checked after each answer, so chance would
    otherwise stop many runs that meet the limit in the end.

    Parameters
    ----------
    n_missing : int
        Number of trials whose outcome is not an answer.
    n_done : int
        Number of trials that have an outcome. If `is_certain`, number of all trials of the plan.
    max_missing : float
        Largest fraction of trials without an answer with which the run continues, in [0, 1].
    is_certain : bool, default False
        Whether `n_done` counts all trials of the plan, so that the fraction cannot fall any more.

    Returns
    -------
    bool
        True if `n_done` is at least 200, and `n_missing` exceeds `max_missing` · `n_done` by more than three standard errors. If
        `is_certain`, any excess is enough.
    """
    if n_done < MIN_TRIALS_BEFORE_STOP:
        return False
    # fractions are compared, because a product such as .29 · 100 may be less than 29
    std_error = 0.0 if is_certain else math.sqrt(max_missing * (1 - max_missing) / n_done)
    return n_missing / n_done > max_missing + 3 * std_error


def check_answered(verdicts: Verdicts, *, max_missing: float) -> None:
    """Check that enough of the finished trials have answers.

    Parameters
    ----------
    verdicts : Verdicts
        All trials of the plan. Pending ones are not counted.
    max_missing : float
        Largest fraction of trials without an answer, in [0, 1].

    Raises
    ------
    TooManyMissingError
        [too-many-missing]: if a larger fraction is missing, or if a judge, alone or in a jury, answered no trial.
    """
    n_done = len(verdicts) - verdicts.n_pending
    if n_done == 0:
        return
    n_missing = n_done - int(verdicts.answered.sum())
    if n_missing / n_done > max_missing or n_missing == n_done:
        counts = Counter(MISSING_REASONS[code] for code in verdicts.missing_reason)
        del counts["pending"]
        reasons = format_missing_reasons(counts)
        raise make_too_many_missing_error(n_missing, n_done, reasons=reasons, max_missing=max_missing)

    silent_judges = _find_silent_judges(verdicts)
    if silent_judges:
        raise TooManyMissingError(
            f"Of the jury's judges, {', '.join(silent_judges)} answered none of the {n_done:,} trials. Check these judges "
            "with `youden doctor`, or remove them from the jury; --retry-failed queries them again. All answers are kept.",
            slug="too-many-missing",
        )


def _find_silent_judges(verdicts: Verdicts) -> list[str]:
    """Return the names of the judges of a jury that answered no trial; an empty list without a jury."""
    if verdicts.votes is None:
        return []
    judges = cast(list[dict[str, Json]], verdicts.judge["judges"])
    names = []
    for judge, votes in zip(judges, verdicts.votes, strict=True):
        if np.isnan(votes).all():
            names.append(str(judge["name"]))
    return names


def make_budget_error(budget: Budget, *, n_done: int, n: int, what: str = "trials") -> BudgetError:
    """Build the error [budget] for a cap that does not allow the next call.

    Parameters
    ----------
    budget : Budget
        Budget with its cap and what was spent.
    n_done, n : int
        Number of trials that are done, and of all trials.
    what : str, default "trials"
        What is counted, in the plural.
    """
    return BudgetError(
        f"The next call could exceed the cap of {budget.cap:.6g} USD: {budget.spent_by_all:.6g} USD were spent "
        "(calls and batches without a reply count at their maximum cost), "
        f"{n_done} of {n} {what} are done and {n - n_done} remain. {budget.remedy}; no stored answer is requested or paid for "
        "twice.",
        slug="budget",
    )


def make_batches_pending_error(n: int, *, store: str) -> IncompleteRunError:
    """Build the error for `n` answers that are left to batches in progress. store: name of the store."""
    return IncompleteRunError(
        f"{format_count(n, 'answer', 'is', 'are')} pending in batches that were sent and not merged "
        "yet, so they are not requested again. Run the same command with `--mode batch` to wait for them. "
        f"See the batches with `youden store batches {store}`; its option `--forget BATCH` abandons one, whose requests "
        "are then sent, and paid for, once more.",
        slug="batch-awaited",
    )


def make_outage_error(error: CallError, *, judge: str, address: str, outage: float) -> IncompleteRunError:
    """Build the error [outage] for a server that has not responded for too long.

    error : the last failure
    judge : name of the judge
    address : address of its server
    outage : number of seconds for which the server has not responded, or longer
    """
    return IncompleteRunError(
        f"The judge '{judge}' at {address} has not responded for more than {outage:g} s: {error.reason} "
        "All answers are stored. Run the same command again when it responds, or set a longer `max_outage` in its config; if "
        "a few "
        "texts break the server, set `max_outage: 0`, so that each failure counts for its own trial.",
        slug="outage",
    )


def make_blocked_error(error: CallError, *, judge: str, address: str) -> IncompleteRunError:
    """Build the error [rate-limit] for a server that rejects all requests because of a rate limit.

    error : the last rejection
    judge : name of the judge
    address : address of its server
    """
    return IncompleteRunError(
        f"The judge '{judge}' at {address} rejects all requests with HTTP 429, and a run waits at most {MAX_BLOCKED_SECONDS:g} s "
        f"for this to end. Last reply: {error.reason} All answers are stored. Run the same command again when the rate limit of "
        "the account allows requests.",
        slug="rate-limit",
    )


def make_too_many_missing_error(
    n_missing: int, n_trials: int, *, reasons: str, max_missing: float, what: str = "trials"
) -> TooManyMissingError:
    """Build the error [too-many-missing] for a run in which too many answers are missing.

    Parameters
    ----------
    n_missing, n_trials : int
        Number of trials without an answer, and of all trials.
    reasons : str
        Why answers are missing, for display; empty if unknown.
    max_missing : float
        Largest fraction of trials without an answer, in [0, 1].
    what : str, default "trials"
        What is counted, in the plural.
    """
    reasons = reasons or "no answer"
    if n_missing == n_trials:
        problem = f"None of the {n_trials:,} {what} was answered ({reasons}). Check the judge with `youden doctor`."
    else:
        problem = (
            f"{n_missing:,} of {n_trials:,} {what} have no answer ({reasons}), more than max_missing = {max_missing:g} allows. "
            "Check the judge's prompt, labels and max_tokens, or raise max_missing to continue without these answers."
        )
    return TooManyMissingError(
        f"{problem} All answers are kept and the same command resumes; --retry-failed also repeats calls without an answer. "
        "After a change of the requests, for example by max_tokens, all calls are sent and paid for again.",
        slug="too-many-missing",
    )
