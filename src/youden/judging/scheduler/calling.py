"""One try of one call, paid for, let through and bounded in time; and whether the server is away.

Whether there is another try is decided in `loop`. A broken connection says nothing of a trial: while the server is away nobody's
tries are counted, the others wait, and one call at a time finds out whether it is back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from youden.judging.call.budget import Budget, TypicalUse
from youden.judging.call.connection import Backend
from youden.judging.call.failures import TOO_MANY, CallError, Tries, is_silence
from youden.judging.call.pace import Concurrency, Pace
from youden.judging.call.reply import believed, with_usage
from youden.judging.config.judge_files import JudgeConfig, price
from youden.judging.question.questions import characters
from youden.judging.store.plan_answers import Call
from youden.types import Completion, Finding, Request

IN_A_ROW = 3
"""So many calls that had never failed, one after the other and no reply in between, mean that the server is away. A call that
failed while others were answered does not count: a text that breaks a server is that trial's failure, also as the last one."""

LONGEST_WAIT = 5.0
"""Seconds between two looks whether the server is back; the first look is at once."""

LOOKS_WITH_THE_SAME = 3
"""After so many looks, a call that failed before in this outage is no good sign of it: a call that was answered once is asked."""


class Outage:
    """Whether the server is away. longest: seconds until the run gives up on it; 0 to never wait.

    Only a server that has answered can be away: set `answered_before` where a run before this one was answered.
    """

    def __init__(self, longest: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.longest = longest
        self.answered_before = False
        self._clock = clock
        self._since: float | None = None
        self._suspects: list[Tries] = []
        self._n_looks = 0
        self._one = asyncio.Lock()
        self._look_now = asyncio.Event()

    @property
    def is_on(self) -> bool:
        return self._since is not None

    @property
    def is_over_time(self) -> bool:
        """Whether the server has been away for longer than the run waits."""
        return self._since is not None and self._clock() - self._since >= self.longest

    def is_stuck(self, tries: Tries) -> bool:
        """Whether only calls that failed in this outage are left to look with: they may be what breaks the server."""
        return self.is_on and tries.suspect and self._n_looks > LOOKS_WITH_THE_SAME

    def heard(self, *, answer: bool) -> float | None:
        """The server said something. answer: a completion. Returns the seconds it was away, None where it was not."""
        self.answered_before |= answer
        self._suspects.clear()
        away, self._since = None if self._since is None else self._clock() - self._since, None
        self._look_now.set()
        return away

    def befell(self, tries: Tries, error: CallError) -> bool:
        """Whether the failure of a call with these `tries` so far is the server's, and so no try of the call."""
        if not self.answered_before or not self.longest or not is_silence(error):
            return False
        if self._since is None:
            never_sent = error.free and error.status is None
            if not never_sent:
                if tries.n_failed or tries.suspect:
                    return False
                self._suspects.append(tries)
                if len(self._suspects) < IN_A_ROW:
                    return False
            self._begin()
        tries.suspect = True
        return True

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Around a call: while the server is away one at a time, after a wait. Once it is back the others go all at once."""
        if self._since is None:
            yield
            return
        async with AsyncExitStack() as alone:
            await alone.enter_async_context(self._one)
            await self._until_time_to_look()
            if not self.is_on:
                await alone.aclose()
            yield

    def wait_no_more(self) -> None:
        """Whoever waits for the server comes to its turn now."""
        self._look_now.set()

    def _begin(self) -> None:
        self._since = self._clock()
        self._n_looks = 0
        self._look_now.clear()
        for tries in self._suspects:
            tries.n_failed, tries.suspect = 0, True

    async def _until_time_to_look(self) -> None:
        if not self.is_on:
            return
        seconds = min(LONGEST_WAIT, 0.25 * 2.0 ** (self._n_looks - 1)) if self._n_looks else 0.0
        self._n_looks += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._look_now.wait()


class Caller:
    """Asks one backend under the limits of `config` and the cap of `budget`; nothing is sent once `stopped` is set, or while
    what is asked is not `is_held` against others."""

    def __init__(self, backend: Backend, config: JudgeConfig, budget: Budget) -> None:
        self.backend = backend
        self.config = config
        self.budget = budget
        self.concurrency = Concurrency(config.concurrency, start=config.start_concurrency)
        self.outage = Outage(config.outage)
        self.stopped = False
        self.is_held: Callable[[], bool] = lambda: True
        self.lost = LostCalls()
        self._usual = TypicalUse()
        self._answer_limit = config.answer_limit
        self.paced: set[asyncio.Timeout] = set()
        paced = config if backend.live else config.unpaced()
        self.pace = Pace(requests_per_minute=paced.requests_per_minute, tokens_per_minute=paced.tokens_per_minute)

    def stop(self) -> None:
        """Send nothing more; who waits to send learns it now."""
        self.stopped = True
        self.outage.wait_no_more()
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
            said = await within(self.config.timeout, self.backend.open().answer(call.request))
            usage = believed(said, call.request, answer_limit=self._answer_limit)
            completion = with_usage(said, usage)
            if usage.tokens_in or usage.tokens_out:
                spent = price(self.config, usage.tokens_in, usage.tokens_out)
                self._usual.saw(usage.tokens_in, usage.tokens_out, most_in=most_in)
                self.pace.settle(thought, usage.tokens_in + usage.tokens_out)
            else:
                self.budget.doubt(self.config.name, worst, usage.doubt)
            booked = spent
        except CallError as error:
            if error.free:
                spent = 0.0
            if error.status == TOO_MANY:
                self.concurrency.throttled()
            raise
        finally:
            self.budget.settle(worst, spent)
            if booked is None:
                booked = price(self.config, *self._usual.at_most(most_in, most_out)) if spent else 0.0
                self.lost.count(booked, worst if spent else 0.0)
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


@dataclass
class LostCalls:
    """Calls that were sent and got no reply.

    Attributes
    ----------
    n : int
        Number of such calls that may have cost something.
    usd : float
        USD booked for them: what such calls usually cost.
    most : float
        The most that they can have cost, in USD.
    """

    n: int = 0
    usd: float = 0.0
    most: float = 0.0

    def count(self, booked: float, worst: float) -> None:
        """Count one call, booked at `booked` USD and costing at most `worst` USD; both are 0 if it surely cost nothing."""
        self.n += worst > 0
        self.usd += booked
        self.most += worst

    def warnings(self) -> tuple[Finding, ...]:
        """Return a finding on the cost of these calls; none if they surely cost nothing."""
        if not self.n:
            return ()
        message = (
            f"{self.n:,} calls were sent and got no reply; the provider may have worked on them. They are booked at "
            f"{self.usd:.6g} USD, what such calls usually cost; at most they cost {self.most:.6g} USD, which is "
            "what the cap counts."
        )
        return (Finding("bill", message, facts={"n": self.n, "usd": self.usd, "most": self.most}),)


def worst_price(config: JudgeConfig, request: Request) -> float:
    """USD that one try can cost at most, NaN where prices are unknown."""
    return price(config, most_tokens(request), config.answer_limit or 0)


def most_tokens(request: Request) -> int:
    """No tokenizer makes more tokens than there are bytes, and a message costs a few beside."""
    return sum(len(message.content.encode()) + 8 for message in request.messages) + 8
