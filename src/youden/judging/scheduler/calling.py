"""Make one attempt at a call: reserve its cost, wait for the rate limits, send it and limit its duration.

Whether there is another attempt is decided in `loop`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from youden.judging.call.budget import Budget, TypicalUsage
from youden.judging.call.connection import Backend
from youden.judging.call.failures import TOO_MANY_REQUESTS, CallError
from youden.judging.call.learned_rate import LearnedRateLimiter
from youden.judging.call.pace import ConcurrencyLimiter, RateLimiter
from youden.judging.call.reply import check_usage, count_request_bytes, max_request_tokens
from youden.judging.config.judge_files import JudgeConfig, call_cost
from youden.judging.question.questions import count_characters
from youden.judging.scheduler.circuit_breaker import CircuitBreaker
from youden.judging.store.plan_answers import Call
from youden.types import Completion, Request


class Caller:
    """Sends the calls of one backend under the limits of its config and a budget.

    Parameters
    ----------
    backend : Backend
    config : JudgeConfig
    budget : Budget

    Attributes
    ----------
    concurrency : ConcurrencyLimiter
    breaker : CircuitBreaker
    rate_limiter : RateLimiter
    learned_rate : LearnedRateLimiter
    is_stopped : bool
        Whether no more calls are sent.
    has_lease : callable
        Returns whether the lease on the request of a call is certainly valid; if it is not, the call is not sent.
    """

    def __init__(self, backend: Backend, config: JudgeConfig, budget: Budget) -> None:
        self.backend = backend
        self.config = config
        self.budget = budget
        self.concurrency = ConcurrencyLimiter(config.concurrency, start=config.start_concurrency)
        self.breaker = CircuitBreaker(config.max_outage)
        self.is_stopped = False
        self.has_lease: Callable[[Call], bool] = lambda _: True
        self._typical_usage = TypicalUsage()
        self._answer_limit = config.answer_limit
        self._rate_limit_timeouts: set[asyncio.Timeout] = set()
        limits = (config.requests_per_minute, config.tokens_per_minute) if backend.live else (None, None)
        self.rate_limiter = RateLimiter(*limits)
        self.learned_rate = LearnedRateLimiter()

    def stop(self) -> None:
        """Send no more calls, and wake all calls that wait to be sent."""
        self.is_stopped = True
        self.breaker.wake_waiters()
        for timeout in self._rate_limit_timeouts:
            timeout.reschedule(0)

    def share_limits(self, n_others: int, *, n_answered: int) -> None:
        """Share the rate limits equally with other processes, which have received `n_answered` answers so far."""
        self.rate_limiter.divide_limits(1 + n_others)
        self.learned_rate.record_other_processes(n_others, n_answered=n_answered)

    async def attempt(self, call: Call) -> Completion:
        """Send a call once and book its cost, for a worker that `concurrency` has admitted.

        The cost is computed from the reported usage, and is 0 if the server rejected the call. If the usage is unknown, the cap
        counts the largest possible cost. A call that was answered is then booked at this cost, and a failed one at the cost
        that calls of this run usually have.

        Parameters
        ----------
        call : Call
            Its `last_attempt_usd` is set to the cost of this attempt, which is added to its `usd`.

        Raises
        ------
        CallError
            If the attempt failed, or was not sent because the run ends or the lease may have expired.
        OutOfMoneyError
            If the cap does not allow the call; nothing was sent.
        """
        call.last_attempt_usd = 0.0
        n_bytes = count_request_bytes(call.request)
        n_messages = len(call.request.messages)
        max_tokens_in = max_request_tokens(n_bytes, n_messages)
        max_tokens_out = self._answer_limit or 0
        max_cost = call_cost(self.config, max_tokens_in, max_tokens_out)
        await self.budget.reserve(max_cost)

        spent = 0.0  # cost that the cap counts
        booked: float | None = None  # cost of the call; None until it is answered
        try:
            estimated_tokens = await self._wait_for_rate_limit(call)
            spent = max_cost  # from here on, the server may charge the call
            send_time = time.monotonic()
            number = self.learned_rate.number_request()
            reply = await with_timeout(self.config.timeout, self.backend.open().answer(call.request))
            completion, usage_error = check_usage(
                reply, n_bytes=n_bytes, n_messages=n_messages, answer_limit=self._answer_limit
            )
            tokens_in, tokens_out = completion.tokens_in, completion.tokens_out
            has_usage = tokens_in > 0 or tokens_out > 0
            if has_usage:
                spent = call_cost(self.config, tokens_in, tokens_out)
                self._typical_usage.observe(tokens_in, tokens_out, max_tokens_in=max_tokens_in)
                self.rate_limiter.settle(estimated_tokens, tokens_in + tokens_out)  # replaces the estimate
            else:
                self.budget.record_unreported(self.config.name, max_cost, usage_error)
            booked = spent
        except CallError as error:
            if error.unbilled:
                spent = 0.0
            if error.status == TOO_MANY_REQUESTS:
                self.learned_rate.record_throttling(number, error.retry_after)
                self.concurrency.set_max(self.learned_rate.max_in_flight)
            raise
        finally:
            self.budget.settle(max_cost, spent)
            if booked is None:  # the call failed
                booked = 0.0
                if spent:
                    booked = self._book_lost_call(max_tokens_in, max_tokens_out, max_cost)
            call.last_attempt_usd = booked
            call.usd += booked
        self.learned_rate.record_answer(time.monotonic() - send_time)
        self.concurrency.set_max(self.learned_rate.max_in_flight)
        self.concurrency.record_success()
        return completion

    def _book_lost_call(self, max_tokens_in: int, max_tokens_out: int, max_cost: float) -> float:
        """Estimate the cost of a call that was sent and failed, and record the call for the findings on the run.

        The server may bill such a call, but reports no token counts. The call is therefore assumed to cost as much as calls of
        this run usually cost.

        max_tokens_in, max_tokens_out : largest possible numbers of tokens of the request and of the answer
        max_cost : cost of these tokens in USD

        Returns the estimated cost in USD.
        """
        typical_usage = self._typical_usage.estimate(max_tokens_in, max_tokens_out)
        usd = call_cost(self.config, *typical_usage)
        self.budget.record_lost_call(self.config.name, usd, max_cost)
        return usd

    async def _wait_for_rate_limit(self, call: Call) -> float:
        """Wait until the rate limits allow the request of a call, and return its estimated number of tokens; 0 without a limit.

        Raises: CallError if the run ends meanwhile, or if the lease on the request may have expired. A lease reserves the request
        for this process, so that no other process sends it.
        """
        estimated_tokens = 0.0
        if self.learned_rate.is_limited:
            await self._wait_until_stopped(self.learned_rate.acquire())
        if self.rate_limiter.is_limited:
            # about four characters per token
            estimated_tokens = count_characters(call.request) / 4 + self.config.answer_tokens
            await self._wait_until_stopped(self.rate_limiter.acquire(estimated_tokens))
        if self.is_stopped:
            raise CallError("The run ended before the request was sent.", kind="transient")
        if not self.has_lease(call):
            raise CallError("The lease on the request may have expired.", kind="transient")
        return estimated_tokens

    async def _wait_until_stopped(self, permission: Awaitable[None]) -> None:
        """Wait until a limiter permits a request, or until the run ends.

        The wait has no time limit, but when the run ends, the method `stop` sets the timeouts of all waits to 0.
        """
        max_seconds = 0 if self.is_stopped else None  # None: no time limit
        with suppress(TimeoutError):  # the run ended before or during the wait
            async with asyncio.timeout(max_seconds) as timeout:
                self._rate_limit_timeouts.add(timeout)
                try:
                    await permission
                finally:
                    self._rate_limit_timeouts.discard(timeout)


async def with_timeout(seconds: float, answer: Awaitable[Completion]) -> Completion:
    """Wait for an answer for a limited time.

    Parameters
    ----------
    seconds : float
        Maximum duration.
    answer : awaitable of Completion
        Call that returns the answer.

    Returns
    -------
    Completion
        The answer.

    Raises
    ------
    CallError
        Of kind `transient`, if no reply arrives in time; or the error of `answer`.
    """
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise CallError(f"No reply within {seconds:g} s.", kind="transient") from None


def max_call_cost(config: JudgeConfig, request: Request) -> float:
    """Compute the largest possible cost of one attempt in USD; NaN if a price is unknown."""
    max_tokens_in = max_request_tokens(count_request_bytes(request), len(request.messages))
    return call_cost(config, max_tokens_in, config.answer_limit or 0)
