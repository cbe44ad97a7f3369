"""One try of one call: paid for, let through, bounded in time.

It knows the cap, the slots, the pace and the deadline; it refuses to know trials, stores, and whether there is another try.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from youden.judging.call.budget import Budget
from youden.judging.call.failures import CallError
from youden.judging.call.pace import Pace
from youden.judging.call.retry import TOO_MANY, Tries
from youden.judging.call.slots import Slots
from youden.judging.cassette.tape import Player
from youden.judging.config.reading import JudgeConfig, price
from youden.judging.question.questions import characters
from youden.nouns import Completion, Judge, Request


@dataclass
class Call:
    """One request on its way, by its key, the trials that wait for it, the USD its tries have cost, and what it went through."""

    key: str
    request: Request
    rows: list[int]
    usd: float = 0.0
    tries: Tries = field(default_factory=Tries)


class Caller:
    """Asks `judge` under the limits of `config` and the cap of `budget`; nothing is sent once `stopped` is set."""

    def __init__(self, judge: Judge | Player, config: JudgeConfig, budget: Budget) -> None:
        self.budget = budget
        self.slots = Slots(config.concurrency, start=config.start_concurrency)
        self.stopped = False
        self._judge = judge
        self._config = config
        self._pace = Pace(requests_per_minute=config.requests_per_minute, tokens_per_minute=config.tokens_per_minute)

    async def attempt(self, call: Call) -> Completion:
        """One try by a worker that holds a slot, paid for: in full where nobody can say what it used, not at all where the
        server turned it down.

        Raises: CallError; OutOfMoneyError before anything is sent.
        """
        worst = worst_price(self._config, call.request)
        await self.budget.reserve(worst)
        spent = 0.0
        try:
            thought = await self._let_through(call.request)
            spent = worst
            completion = await self._ask(call)
            if completion.tokens_in or completion.tokens_out:
                spent = price(self._config, completion.tokens_in, completion.tokens_out)
                self._pace.settle(thought, completion.tokens_in + completion.tokens_out)
        except CallError as error:
            if error.status is not None:
                spent = 0.0
            if error.status == TOO_MANY:
                self.slots.throttled()
            raise
        finally:
            self.budget.settle(worst, spent)
            call.usd += spent
        self.slots.succeeded()
        return completion

    async def _let_through(self, request: Request) -> float:
        """Tokens that the call was thought to take while it waited for the pace; 0 without one."""
        thought = 0.0
        if self._pace.limited:
            thought = characters(request) / 4 + self._config.answer_tokens
            await self._pace.acquire(thought)
        if self.stopped:
            raise CallError("The run ended before this was sent.", kind="retry")
        return thought

    async def _ask(self, call: Call) -> Completion:
        try:
            async with asyncio.timeout(self._config.timeout):
                if isinstance(self._judge, Player):
                    return await self._judge.play(call.key, call.request)
                return await self._judge.answer(call.request)
        except TimeoutError:
            raise CallError(f"No reply within {self._config.timeout:g} s.", kind="retry") from None


def worst_price(config: JudgeConfig, request: Request) -> float:
    """USD that one try can cost at most, NaN where prices are unknown: no tokenizer makes more tokens than there are bytes,
    and a message costs a few beside."""
    most_tokens = sum(len(message.content.encode()) + 8 for message in request.messages) + 8
    return price(config, most_tokens, config.answer_limit or 0)
