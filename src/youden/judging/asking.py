"""Asks a judge what the store does not know: one dispatcher, a fixed pool of workers, one policy of retries.

It knows calls, their fates and when to stop; it refuses to know what a judge is made of or how verdicts are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from youden.errors import BudgetError, TooManyMissingError, YoudenError
from youden.judging.budget import Budget, OutOfMoneyError
from youden.judging.columns import VerdictColumns
from youden.judging.failures import CallError, Failure, ends_the_run
from youden.judging.judge_config import JudgeConfig, price
from youden.judging.lookup import Known, look_up
from youden.judging.parsing import Reading, no_reading
from youden.judging.questions import Questions
from youden.judging.retry import retrying
from youden.judging.store import Store
from youden.types import Completion, Judge, Plan, Pool, Progress, Request

LOOKED_AT_FROM = 200
"""Trials after which the share of missing answers may stop the run."""

GIVEN_UP_AT_START = 3
"""So many requests given up on before anything was answered end the run."""


@dataclass
class _Call:
    """One request on its way, the trials that wait for it, and the USD its tries have cost."""

    request: Request
    rows: list[int]
    usd: float = 0.0


class Asking:
    """One run over a plan. Make it, `await go()`, read `columns`."""

    def __init__(
        self,
        plan: Plan,
        pool: Pool,
        *,
        judge: Judge,
        config: JudgeConfig,
        questions: Questions,
        store: Store,
        budget: Budget,
        max_missing: float,
        retry_failed: bool,
        progress: Progress | None,
    ) -> None:
        self.columns = VerdictColumns(len(plan))
        self._plan = plan
        self._pool = pool
        self._judge = judge
        self._config = config
        self._questions = questions
        self._store = store
        self._budget = budget
        self._max_missing = max_missing
        self._retry_failed = retry_failed
        self._progress = progress
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=config.concurrency)
        self._calls: dict[str, _Call] = {}
        self._n_answered = 0
        self._n_given_up = 0
        self._stopped = asyncio.Event()
        self._why: Callable[[], YoudenError] | None = None
        self._retrying = retrying(
            max_tries=config.max_tries, backoff=config.backoff, stopped=self._stopped.is_set, pause=self._pause
        )

    async def go(self) -> None:
        """Ask until every trial has an answer or a reason why not.

        Raises: JudgeError, BudgetError, TooManyMissingError once the calls in flight have ended.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._config.concurrency):
                    group.create_task(self._work())
                group.create_task(self._dispatch())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        if self._why is not None:
            raise self._why()

    async def _dispatch(self) -> None:
        try:
            await self._route_all()
        except YoudenError as error:
            self._stop_with(error)
        for _ in range(self._config.concurrency):
            await self._queue.put(None)

    async def _route_all(self) -> None:
        for chunk in look_up(self._questions, self._plan, self._pool, self._store):
            for known in chunk:
                if self._stopped.is_set():
                    return
                await self._route(known)
            await asyncio.sleep(0)

    async def _route(self, known: Known) -> None:
        """Take what the store has, join a call in flight, or queue a new one."""
        if known.key in self._calls:
            self._calls[known.key].rows.extend(known.rows)
            return
        completion = known.completion or self._store.answers([known.key]).get(known.key)
        if (reading := self._settled(known, completion)) is not None:
            self._put(known.rows, known.key, reading, completion)
            return
        self._calls[known.key] = _Call(known.request, list(known.rows))
        await self._queue.put(known.key)

    def _settled(self, known: Known, completion: Completion | None) -> Reading | None:
        """What is known without a call; None where the judge has to be asked."""
        if completion is not None:
            reading = self._questions.read(completion)
            return None if self._retry_failed and reading.missing != "answered" else reading
        if known.failure is not None and known.failure.kind == "rejected" and not self._retry_failed:
            return no_reading("failed")
        return None if self._questions.fits(known.request) else no_reading("not_asked")

    async def _work(self) -> None:
        while (key := await self._queue.get()) is not None:
            if not self._stopped.is_set():
                await self._settle(key, self._calls[key])
            del self._calls[key]

    async def _settle(self, key: str, call: _Call) -> None:
        """Ask, and keep what came of it."""
        try:
            completion: Completion = await self._retrying(self._try, call)
        except OutOfMoneyError:
            self._stop(self._out_of_money)
        except CallError as error:
            self._give_up(key, call, error)
        else:
            self._n_answered += 1
            self._keep(key, completion)
            self.columns.bill(call.rows[0], usd=call.usd, completion=completion)
            self._put(call.rows, key, self._questions.read(completion), completion, usd=call.usd)

    async def _try(self, call: _Call) -> Completion:
        """One call, paid for: in full where nobody can say what it used, not at all where the server turned it down."""
        request = call.request
        worst = price(self._config, _most_tokens(request), self._config.answer_limit or 0)
        await self._budget.reserve(worst)
        spent = worst
        try:
            async with asyncio.timeout(self._config.timeout):
                completion = await self._judge.answer(request)
            if completion.tokens_in or completion.tokens_out:
                spent = price(self._config, completion.tokens_in, completion.tokens_out)
        except TimeoutError:
            raise CallError(f"No reply within {self._config.timeout:g} s.", kind="retry") from None
        except CallError as error:
            spent = worst if error.status is None else 0.0
            raise
        else:
            return completion
        finally:
            self._budget.settle(worst, spent)
            call.usd += spent

    def _give_up(self, key: str, call: _Call, error: CallError) -> None:
        if error.kind == "stop":
            self._stop(lambda: self._ends_the_run(error))
            return
        if self._stopped.is_set() and error.kind == "retry":
            return
        self._n_given_up += 1
        if not self._n_answered and self._n_given_up >= min(GIVEN_UP_AT_START, len(self._plan)):
            self._stop(lambda: self._ends_the_run(error))
        self._keep(key, Failure(error.kind, error.status, error.reason))
        self.columns.bill(call.rows[0], usd=call.usd)
        self._put(call.rows, key, no_reading("failed"), None, usd=call.usd)

    def _keep(self, key: str, outcome: Completion | Failure) -> None:
        try:
            self._store.add(key, outcome)
        except YoudenError as error:
            self._stop_with(error)

    def _put(
        self,
        rows: list[int] | tuple[int, ...],
        key: str,
        reading: Reading,
        completion: Completion | None,
        *,
        usd: float = 0.0,
    ) -> None:
        served = completion.model or None if completion else None
        self.columns.put(rows, key, reading, served=served)
        if self._progress is not None:
            failed = 0 if reading.missing == "answered" else len(rows)
            self._progress.advance(len(rows), failed=failed, usd=usd)
        if self.columns.n_done >= LOOKED_AT_FROM and self.columns.n_missing > self._max_missing * self.columns.n_done:
            self._stop(self._too_many_missing)

    def _stop(self, why: Callable[[], YoudenError]) -> None:
        """End the run after the calls in flight. The first reason stands."""
        self._why = self._why or why
        self._stopped.set()

    def _stop_with(self, error: YoudenError) -> None:
        self._stop(lambda: error)

    async def _pause(self, seconds: float) -> None:
        """Sleep so long, or until the run stops."""
        try:
            await asyncio.wait_for(self._stopped.wait(), seconds)
        except TimeoutError:
            return

    def _ends_the_run(self, error: CallError) -> YoudenError:
        return ends_the_run(error, judge=self._config.name, address=self._config.address)

    def _out_of_money(self) -> BudgetError:
        n_left = len(self._plan) - self.columns.n_done
        return BudgetError(
            f"The next call could pass the cap of {self._budget.cap:.6g} USD: {self._budget.spent:.6g} USD were spent, "
            f"{self.columns.n_done} of {len(self._plan)} trials are done and {n_left} remain. "
            "Raise max_cost, or run the same again to spend as much once more; no stored answer is asked or paid for twice.",
            slug="budget",
        )

    def _too_many_missing(self) -> TooManyMissingError:
        return TooManyMissingError(
            f"{self.columns.n_missing} of {self.columns.n_done} trials have no answer "
            f"({self.columns.missing_in_words()}), more than max_missing = {self._max_missing:g} allows. "
            "Look at the judge's prompt and labels, or raise max_missing; "
            "answers are kept, and the same run goes on from them.",
            slug="too-many-missing",
        )


def _most_tokens(request: Request) -> int:
    """No tokenizer makes more tokens than there are bytes; a message costs a few beside."""
    return sum(len(message.content.encode()) + 8 for message in request.messages) + 8
