"""Asks models for texts, on the judging engine: its limits, retries, store and budget.

It knows requests, keys and how a call can end; it refuses to know how agents build on each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from youden.errors import BudgetError, ReplayMissError, YoudenError
from youden.judging.asking.calling import Call, Caller
from youden.judging.asking.sight import Sight
from youden.judging.call.budget import Budget, OutOfMoneyError
from youden.judging.call.failures import CallError, Failure, ends_the_run
from youden.judging.call.retry import TOO_MANY, RetryPolicy
from youden.judging.cassette.lines import Entry, entry
from youden.judging.cassette.tape import Player, played, plays_only, record
from youden.judging.config.reading import JudgeConfig
from youden.judging.question.questions import key_of
from youden.judging.registry import calling_judge
from youden.judging.store.answers import Store
from youden.nouns import Completion, Judge, Request

SCHEMA = 1
GIVEN_UP_AT_START = 3


@dataclass(frozen=True)
class Wanted:
    """A request on behalf of an agent, about an item. model: by its name among those that are asked together."""

    model: str
    address: str
    request: Request
    agent: str
    item: str

    @property
    def canonical(self) -> dict[str, object]:
        """All that can change the answer, and who asks: two agents with the same words get two texts."""
        return {
            "generated": SCHEMA,
            "base_url": self.address,
            "model": self.request.model,
            "messages": self.request.messages,
            "parameters": dict(self.request.parameters),
            "asker": self.agent,
        }

    @property
    def key(self) -> str:
        """What the answer is stored under."""
        return key_of(self.canonical)

    def __str__(self) -> str:
        return f"agent '{self.agent}' on item '{self.item}'"


def recorded(wanted: Mapping[str, Wanted], store: Store) -> Iterator[tuple[str, Entry | None]]:
    """(key, entry) of every request, None where the store knows nothing of it."""
    outcomes = store.failures(list(wanted)) | store.answers(list(wanted))
    for key, one in wanted.items():
        yield key, entry(key, one.canonical, outcomes[key]) if key in outcomes else None


@dataclass
class Models:
    """Models that are asked together, under one budget. `await ask(...)` as often as needed, then `aclose`.

    environment: where keys are looked up, once something is left to be asked of a model. judges: asked instead of the models
    so named. replay: ask nobody; what the store does not hold is an error.
    n_failed: requests given up on; reasons: the first reason of each kind. n_asked: calls that were answered now.
    """

    configs: Mapping[str, JudgeConfig]
    store: Store
    budget: Budget
    sight: Sight
    environment: Mapping[str, str]
    judges: Mapping[str, Judge] = field(default_factory=dict)
    retry_failed: bool = False
    replay: bool = False
    n_asked: int = 0
    n_failed: int = 0
    reasons: dict[str, str] = field(default_factory=dict)
    _wanted: Mapping[str, Wanted] = field(default_factory=dict)
    _asked: list[Judge | Player] = field(default_factory=list)
    _callers: dict[str, Caller] = field(default_factory=dict)
    _stopped: Callable[[], YoudenError] | None = None

    async def ask(self, wanted: Mapping[str, Wanted]) -> dict[str, Completion]:
        """key → completion for those that could be had.

        Raises: BudgetError, JudgeError once the calls in flight have ended; what came is in the store. ReplayMissError.
        """
        self._wanted = wanted
        known = self.store.answers(list(wanted))
        turned_down = {} if self.retry_failed else self.store.failures(list(wanted))
        left: dict[str, list[tuple[str, Wanted]]] = {name: [] for name in self.configs}
        for key, one in wanted.items():
            if key in known:
                self.sight.advance(1, stored=True)
            elif key in turned_down and (turned_down[key].kind == "rejected" or self.replay):
                self._count_failure(turned_down[key].reason)
            elif self.replay:
                raise ReplayMissError(
                    f"The store {self.store.path} has no answer of {one} (under {key}), and a replay asks nobody. "
                    "Replay the agents, items and models that were asked, or generate without --replay.",
                    slug="replay-miss",
                )
            else:
                left[one.model].append((key, one))
        for name, requests in left.items():
            if requests and name not in self._callers:
                self._callers[name] = self._caller(name)
        try:
            async with asyncio.TaskGroup() as group:
                for name, requests in left.items():
                    for _ in range(min(len(requests), self.configs[name].concurrency)):
                        group.create_task(self._work(name, requests, known))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            self.store.flush()
            record(recorded({key: one for key, one in wanted.items() if one.model not in self.judges}, self.store))
        if self._stopped is not None:
            raise self._stopped()
        return known

    async def aclose(self) -> None:
        """Let go of the models."""
        for one in self._asked:
            if hasattr(one, "aclose"):
                await one.aclose()

    def _caller(self, name: str) -> Caller:
        config = self.configs[name]
        asked = self.judges.get(name) or self._connected(config)
        return Caller(asked, config.unpaced() if plays_only() else config, self.budget)

    def _connected(self, config: JudgeConfig) -> Judge | Player:
        asked = played(
            f"the model '{config.name}'",
            canonical=lambda key, _request: self._wanted[key].canonical,
            make=lambda: calling_judge(config.backend, config.connection(self.environment)),
        )
        self._asked.append(asked)
        return asked

    async def _work(self, name: str, requests: list[tuple[str, Wanted]], answers: dict[str, Completion]) -> None:
        while requests and self._stopped is None:
            key, one = requests.pop()
            completion = await self._settle(name, key, one.request)
            if completion is not None:
                answers[key] = completion

    async def _settle(self, name: str, key: str, request: Request) -> Completion | None:
        """Try until there is an answer, or a reason why not."""
        config, caller = self.configs[name], self._callers[name]
        policy, call = RetryPolicy(config.max_tries, config.backoff), Call(key, request, rows=[])
        while self._stopped is None:
            await caller.slots.acquire()
            try:
                completion = await caller.attempt(call)
            except OutOfMoneyError:
                self._stop(self._out_of_money)
                return None
            except CallError as error:
                seconds = self._after(name, error, policy.wait(call.tries, error))
                if seconds is None:
                    self.store.add(key, Failure(error.kind, error.status, error.reason))
                    return None
            else:
                self.store.add(key, completion)
                self.n_asked += 1
                self.sight.advance(1, usd=call.usd)
                return completion
            finally:
                caller.slots.release()
            await asyncio.sleep(seconds)
        return None

    def _after(self, name: str, error: CallError, seconds: float | None) -> float | None:
        """Seconds to wait, None where the call is over."""
        if error.status == TOO_MANY:
            self.sight.throttled()
        if seconds is not None:
            return seconds
        config = self.configs[name]
        at_start = self.n_asked == 0 and not plays_only()
        if error.kind == "stop" or (at_start and self.n_failed + 1 >= GIVEN_UP_AT_START):
            self._stop(lambda: ends_the_run(error, judge=config.name, address=config.address))
        else:
            self._count_failure(error.reason)
        return None

    def _count_failure(self, reason: str) -> None:
        self.n_failed += 1
        self.reasons.setdefault(reason, reason)
        self.sight.advance(1, missing="failed")

    def _stop(self, why: Callable[[], YoudenError]) -> None:
        self._stopped = self._stopped or why
        for caller in self._callers.values():
            caller.stopped = True

    def _out_of_money(self) -> BudgetError:
        return BudgetError(
            f"The next call could pass the cap of {self.budget.cap:.6g} USD: {self.budget.spent:.6g} USD were spent. "
            "Raise --max-cost, or run the same again to spend as much once more; no stored answer is paid for twice.",
            slug="budget",
        )
