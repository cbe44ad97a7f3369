"""What ends a run before everything is asked (a signal, too much missing, no money, no server), and the words it ends with.

Calls in flight are answered and stored first, for so long as the grace lasts. Ctrl-C (through `asyncio.run`), SIGTERM, SIGHUP and
a task's `cancel()` all come here as a cancellation. A second ends at once.
"""

from __future__ import annotations

import asyncio
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

from youden.errors import BudgetError, ShortRunError, TooManyMissingError, YoudenError
from youden.judging.call.budget import Budget
from youden.judging.call.failures import CallError
from youden.judging.store.plan_answers import in_words
from youden.text.sentences import counted
from youden.types import MISSING_REASONS, Plan, Verdicts
from youden.types.pool import Json

T = TypeVar("T")

_DEFERRED = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

FOR_WRITING = 1.0
"""Seconds of the grace, a quarter of it at most, that are kept for storing answers and ending the process."""

SIGNAL_CHECK_SECONDS = 0.2
"""How often the main thread looks for signals while a worker thread runs the loop; on Windows a wait cannot be interrupted."""


async def drained(asking: asyncio.Task[None], *, stop: Callable[[], None], grace: float) -> None:
    """Wait for `asking`; when the waiting is cancelled, `stop` it and give it its `grace` before it is cancelled too.

    Raises: what `asking` raises; CancelledError once it has ended.
    """
    try:
        await asyncio.wait({asking})
    except asyncio.CancelledError:
        stop()
        try:
            await asyncio.wait({asking}, timeout=grace - min(FOR_WRITING, grace / 4))
        finally:
            asking.cancel()
            await asyncio.wait({asking})
            if not asking.cancelled():
                asking.exception()
        raise
    await asking


def run_until_stopped(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in an event loop of its own.

    Like `asyncio.run`, with two differences. SIGTERM and SIGHUP first cancel `main`, as Ctrl-C does, and take effect once it has
    ended. Inside a running event loop, as in a notebook, the new loop runs in a worker thread with a copy of the context, and the
    caller waits; there Ctrl-C cancels `main` too.

    Raises
    ------
    ShortRunError
        [stopped] if the process survives the signal. Otherwise whatever `main` raises.
    """
    cancellation = _Cancellation()
    results: list[T] = []

    async def run_cancellable() -> None:
        # The task returns None: asyncio.run may format a task's result, which takes long for large arrays.
        cancellation.attach()
        results.append(await main)

    try:
        if _is_loop_running():
            with _handled_by(cancellation.cancel, [signal.SIGINT, *_DEFERRED]):
                _run_in_thread(run_cancellable())
        else:
            with _handled_by(cancellation.cancel, _DEFERRED):
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
    raise ShortRunError(
        f"A signal ({signal.Signals(received).name}) stopped the run. What was answered is kept; run the same again.",
        slug="stopped",
    )


def _is_loop_running() -> bool:
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
        self.signals.append(number)
        if self._cancel_task is not None:
            self._cancel_task()


def _run_in_thread(main: Coroutine[Any, Any, None]) -> None:
    """`asyncio.run` in a worker thread. The caller wakes up regularly, because only the main thread handles signals."""
    with ThreadPoolExecutor(1, thread_name_prefix="youden loop") as executor:
        future = executor.submit(copy_context().run, asyncio.run, main)
        while not wait([future], timeout=SIGNAL_CHECK_SECONDS).done:
            pass
    future.result()


@contextmanager
def _handled_by(handler: Callable[[int, Any], None], signals: Sequence[int]) -> Iterator[None]:
    """Send signals that would end the process to `handler`. Only the main thread can do so."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in signals} if is_main else {}
    replaced = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in replaced:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in replaced.items():
            signal.signal(number, old)


LOOKED_AT_FROM = 200
"""Trials after which the share of missing answers may stop the run."""

GIVEN_UP_AT_START = 3
"""So many requests given up on before anything was answered end the run."""


class StopReason:
    """Whether a run has to end, and why: the first reason stands. All who ask one run share it.

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

    def raise_it(self, *budgets: Budget) -> None:
        """Raise the error that ended the run, if one did, with the notes of `budgets` on doubted token usage."""
        if self._why is not None:
            error = self._why()
            for note in filter(None, dict.fromkeys(budget.doubts() for budget in budgets)):
                error.add(note)
            raise error


class AnswersMissingError(ShortRunError):
    """The store does not hold every answer to `plan`, and nothing was to be asked. n_missing: trials without one."""

    def __init__(self, plan: Plan, *, n_missing: int) -> None:
        self.plan = plan
        self.n_missing = n_missing
        more = "" if plan.rounds is None else f" of round {len(plan.rounds.starts)}"
        super().__init__(
            f"{n_missing:,} of the {len(plan):,} trials{more} {'has' if n_missing == 1 else 'have'} no answer yet, so no "
            "verdicts are written. Export what is left with `youden plan CONFIG --export DIR` and import its answers, or ask it "
            "with `youden judge CONFIG`.",
            slug="answers-missing",
        )


def too_many(n_missing: int, n_done: int, *, max_missing: float) -> bool:
    """Whether a run stops early because too many answers are missing; False below `LOOKED_AT_FROM` trials."""
    return n_done >= LOOKED_AT_FROM and n_missing > max_missing * n_done


def check_answered(verdicts: Verdicts, *, max_missing: float) -> None:
    """Check that a finished run has enough answers.

    Parameters
    ----------
    verdicts : Verdicts
        All trials of the plan.
    max_missing : float
        Largest fraction of trials without an answer, in [0, 1].

    Raises
    ------
    TooManyMissingError
        [too-many-missing]: if a larger fraction is missing, or if a judge, alone or in a jury, answered no trial.
    """
    n, n_missing = len(verdicts), int((~verdicts.answered).sum())
    if n_missing > max_missing * n or n_missing == n > 0:
        counts = Counter(MISSING_REASONS[code] for code in verdicts.missing)
        raise too_many_missing(n_missing, n, why=in_words(counts), max_missing=max_missing)
    if verdicts.votes is not None:
        judges = cast(list[dict[str, Json]], verdicts.judge["judges"])
        silent = [judge["name"] for judge, votes in zip(judges, verdicts.votes, strict=True) if np.isnan(votes).all()]
        if silent and n:
            raise TooManyMissingError(
                f"Of the jury's judges, {', '.join(map(str, silent))} answered none of the {n:,} trials. Check these judges "
                "with `youden doctor`, or remove them from the jury; --retry-failed queries them again. All answers are kept.",
                slug="too-many-missing",
            )


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
        f"{counted(n, 'answer', 'is', 'are')} awaited from batches that were sent and not merged yet, and not asked for again. "
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
    """Make the error for a run in which too many answers are missing. why: the reasons, as `in_words` formats them."""
    reasons = why or "no answer"
    if n_missing == n:
        fault = f"None of the {n:,} {what} was answered ({reasons}). Check the judge with `youden doctor`."
    else:
        fault = (
            f"{n_missing:,} of {n:,} {what} have no answer ({reasons}), more than max_missing = {max_missing:g} allows. "
            "Check the judge's prompt, labels and max_tokens, or raise max_missing to continue without these answers."
        )
    return TooManyMissingError(
        f"{fault} All answers are kept and the same command resumes; --retry-failed also repeats calls without an answer.",
        slug="too-many-missing",
    )
