"""One try of one call: paid for, let through, bounded in time. Whether there is another try is decided in `loop`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from youden.judging.asking.outage import Outage
from youden.judging.call.backend import Backend
from youden.judging.call.budget import Budget
from youden.judging.call.concurrency import Concurrency
from youden.judging.call.failures import CallError, Failure
from youden.judging.call.pace import Pace
from youden.judging.call.reply import believed, with_usage
from youden.judging.call.retry import TOO_MANY, Tries
from youden.judging.call.usual import Usual
from youden.judging.config.reading import JudgeConfig, price
from youden.judging.question.questions import characters
from youden.nouns import Completion, Request


@dataclass
class Call:
    """One request on its way, and what it went through.

    rows: who waits for the answer. usd: what its tries have cost so far; last_usd: the last one. known: what the store held of it
    when it was looked up.
    """

    key: str
    request: Request
    rows: list[int]
    known: Completion | Failure | None = None
    usd: float = 0.0
    last_usd: float = 0.0
    tries: Tries = field(default_factory=Tries)


class Caller:
    """Asks one backend under the limits of `config` and the cap of `budget`; nothing is sent once `stopped` is set."""

    def __init__(self, backend: Backend, config: JudgeConfig, budget: Budget) -> None:
        self.backend = backend
        self.config = config
        self.budget = budget
        self.concurrency = Concurrency(config.concurrency, start=config.start_concurrency)
        self.outage = Outage(config.fetching.outage)
        self.stopped = False
        self.unsaid = Unsaid()
        self._usual = Usual()
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
            said = await self._ask(call.request)
            usage = believed(said, call.request, answer_limit=self._answer_limit)
            completion = with_usage(said, usage)
            if usage.tokens_in or usage.tokens_out:
                spent = price(self.config, usage.tokens_in, usage.tokens_out)
                self._usual.saw(usage.tokens_in, usage.tokens_out, most_in=most_in)
                self.pace.settle(thought, usage.tokens_in + usage.tokens_out)
            else:
                self.unsaid.count(worst, usage.doubt)
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
        return thought

    async def _ask(self, request: Request) -> Completion:
        try:
            async with asyncio.timeout(self.config.timeout):
                return await self.backend.open().answer(request)
        except TimeoutError:
            raise CallError(f"No reply within {self.config.timeout:g} s.", kind="retry") from None


@dataclass
class Unsaid:
    """Counts answers that did not say what they used, or said what cannot be: they are booked at the most they can cost."""

    n: int = 0
    usd: float = 0.0
    doubt: str | None = None

    def count(self, usd: float, doubt: str | None) -> None:
        """One more, booked at `usd`. doubt: what it said instead, None where it said nothing."""
        self.n += 1
        self.usd += usd
        self.doubt = self.doubt or doubt

    def warnings(self) -> tuple[str, ...]:
        """What to say of the bill; nothing where answers cost nothing."""
        if not self.usd > 0:
            return ()
        such = "" if self.doubt is None else f" (one of them: {self.doubt})"
        return (
            f"{self.n:,} answers did not say how many tokens they used, or said what cannot be{such}. Their "
            f"{self.usd:.6g} USD are the most they can have cost: look at the provider's own bill.",
        )


def worst_price(config: JudgeConfig, request: Request) -> float:
    """USD that one try can cost at most, NaN where prices are unknown."""
    return price(config, most_tokens(request), config.answer_limit or 0)


def most_tokens(request: Request) -> int:
    """No tokenizer makes more tokens than there are bytes, and a message costs a few beside."""
    return sum(len(message.content.encode()) + 8 for message in request.messages) + 8
