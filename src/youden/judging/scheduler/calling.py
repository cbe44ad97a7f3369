"""One attempt of one call: its cost is reserved, the rate limits are kept, and its time is limited.

Whether there is another attempt is decided in `loop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from youden.judging.call.budget import Budget, TypicalUse
from youden.judging.call.connection import Backend
from youden.judging.call.failures import TOO_MANY_REQUESTS, CallError
from youden.judging.call.pace import Concurrency, Pace
from youden.judging.call.reply import check_usage_of
from youden.judging.config.judge_files import JudgeConfig, price
from youden.judging.question.questions import characters
from youden.judging.scheduler.circuit_breaker import CircuitBreaker
from youden.judging.store.plan_answers import Call
from youden.types import Completion, Request


class Caller:
    """Asks one backend under the limits of `config` and the cap of `budget`; nothing is sent once `stopped` is set, or while
    what is asked is not `is_held` against others."""

    def __init__(self, backend: Backend, config: JudgeConfig, budget: Budget) -> None:
        self.backend = backend
        self.config = config
        self.budget = budget
        self.concurrency = Concurrency(config.concurrency, start=config.start_concurrency)
        self.breaker = CircuitBreaker(config.outage)
        self.stopped = False
        self.is_held: Callable[[], bool] = lambda: True
        self._usual = TypicalUse()
        self._answer_limit = config.answer_limit
        self.paced: set[asyncio.Timeout] = set()
        limits = (config.requests_per_minute, config.tokens_per_minute) if backend.live else (None, None)
        self.pace = Pace(*limits)

    def stop(self) -> None:
        """Send nothing more; who waits to send learns it now."""
        self.stopped = True
        self.breaker.wake_waiters()
        for waiting in self.paced:
            waiting.reschedule(0)

    def share(self, n: int) -> None:
        """So many ask side by side: each takes its part of the requests and tokens a minute."""
        self.pace.share(n)

    async def attempt(self, call: Call) -> Completion:
        """One try, for a worker that was let in by `concurrency`.

        It is paid by what the reply says it used; not at all where the server turned it down. Where nobody can say, the cap
        counts the most it can have cost; so does the call where an answer came, and else what calls like it cost.

        Raises: CallError; OutOfMoneyError before anything is sent.
        """
        call.last_usd = 0.0
        most_in, most_out = most_tokens(call.request), self._answer_limit or 0
        worst = price(self.config, most_in, most_out)
        await self.budget.reserve(worst)
        spent, booked = 0.0, None
        try:
            thought = await self._let_through(call.request)
            spent = worst
            reply = await within(self.config.timeout, self.backend.open().answer(call.request))
            completion, fault = check_usage_of(reply, call.request, answer_limit=self._answer_limit)
            tokens_in, tokens_out = completion.tokens_in, completion.tokens_out
            if tokens_in or tokens_out:
                spent = price(self.config, tokens_in, tokens_out)
                self._usual.saw(tokens_in, tokens_out, most_in=most_in)
                self.pace.settle(thought, tokens_in + tokens_out)
            else:
                self.budget.record_unreported(self.config.name, worst, fault)
            booked = spent
        except CallError as error:
            if error.free:
                spent = 0.0
            if error.status == TOO_MANY_REQUESTS:
                self.concurrency.throttled()
            raise
        finally:
            self.budget.settle(worst, spent)
            if booked is None:
                booked = price(self.config, *self._usual.at_most(most_in, most_out)) if spent else 0.0
                if spent:
                    self.budget.record_lost_call(self.config.name, booked, worst)
            call.last_usd = booked
            call.usd += booked
        self.concurrency.succeeded()
        return completion

    async def _let_through(self, request: Request) -> float:
        """Wait for the pace. Returns the tokens that the call is thought to take; 0 without a pace."""
        thought = 0.0
        if self.pace.limited:
            thought = characters(request) / 4 + self.config.answer_tokens
            with suppress(TimeoutError):
                async with asyncio.timeout(0 if self.stopped else None) as waiting:
                    self.paced.add(waiting)
                    try:
                        await self.pace.acquire(thought)
                    finally:
                        self.paced.discard(waiting)
        if self.stopped:
            raise CallError("The run ended before this was sent.", kind="retry")
        if not self.is_held():
            raise CallError("Somebody else may ask this by now.", kind="retry", free=True)
        return thought


async def within(seconds: float, answer: Awaitable[Completion]) -> Completion:
    """What a judge answers in time. Raises: CallError."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise CallError(f"No reply within {seconds:g} s.", kind="retry") from None


def worst_price(config: JudgeConfig, request: Request) -> float:
    """USD that one try can cost at most, NaN where prices are unknown."""
    return price(config, most_tokens(request), config.answer_limit or 0)


def most_tokens(request: Request) -> int:
    """No tokenizer makes more tokens than there are bytes, and a message costs a few beside."""
    return sum(len(message.content.encode()) + 8 for message in request.messages) + 8
