"""Asks models for texts, on the judging engine: its limits, retries, store and budget.

It knows requests, keys and how a call can end; it refuses to know agents and items.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from youden.errors import BudgetError, YoudenError
from youden.judging.budget import Budget, OutOfMoneyError
from youden.judging.calling import Call, Caller
from youden.judging.failures import CallError, Failure, ends_the_run
from youden.judging.judge_config import JudgeConfig
from youden.judging.questions import key_of
from youden.judging.retry import TOO_MANY, RetryPolicy
from youden.judging.sight import Sight
from youden.judging.store import Store
from youden.types import Completion, Judge, Request

SCHEMA = 1
GIVEN_UP_AT_START = 3


def key_for(request: Request, *, address: str, asker: str) -> str:
    """What the answer is stored under: all that can change it, and who asks: two agents with the same words get two texts."""
    return key_of(
        {
            "generated": SCHEMA,
            "base_url": address,
            "model": request.model,
            "messages": request.messages,
            "parameters": dict(request.parameters),
            "asker": asker,
        }
    )


@dataclass
class Models:
    """Models that are asked together, under one budget. `await ask(...)` as often as needed.

    connect: a model's name → whom to ask; called once a model, when something is left to be asked of it.
    n_failed: requests given up on; reasons: the first reason of each kind. n_asked: calls that were answered now.
    """

    configs: Mapping[str, JudgeConfig]
    connect: Callable[[str], Judge]
    store: Store
    budget: Budget
    sight: Sight
    retry_failed: bool = False
    n_asked: int = 0
    n_failed: int = 0
    reasons: dict[str, str] = field(default_factory=dict)
    _callers: dict[str, Caller] = field(default_factory=dict)
    _stopped: Callable[[], YoudenError] | None = None

    async def ask(self, wanted: Mapping[str, tuple[str, Request]]) -> dict[str, Completion]:
        """key → completion for those that could be had. wanted: key → (model, request).

        Raises: BudgetError, JudgeError once the calls in flight have ended; what came is in the store.
        """
        known = self.store.answers(list(wanted))
        turned_down = {} if self.retry_failed else self.store.failures(list(wanted))
        left: dict[str, list[tuple[str, Request]]] = {name: [] for name in self.configs}
        for key, (model, request) in wanted.items():
            if key in known:
                self.sight.advance(1, stored=True)
            elif key in turned_down and turned_down[key].kind == "rejected":
                self._count_failure(turned_down[key].reason)
            else:
                left[model].append((key, request))
        for name, requests in left.items():
            if requests and name not in self._callers:
                self._callers[name] = Caller(self.connect(name), self.configs[name], self.budget)
        try:
            async with asyncio.TaskGroup() as group:
                for name, requests in left.items():
                    for _ in range(min(len(requests), self.configs[name].concurrency)):
                        group.create_task(self._work(name, requests, known))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            self.store.flush()
        if self._stopped is not None:
            raise self._stopped()
        return known

    async def _work(self, name: str, requests: list[tuple[str, Request]], answers: dict[str, Completion]) -> None:
        while requests and self._stopped is None:
            key, request = requests.pop()
            completion = await self._settle(name, key, request)
            if completion is not None:
                answers[key] = completion

    async def _settle(self, name: str, key: str, request: Request) -> Completion | None:
        """Try until there is an answer, or a reason why not."""
        config, caller = self.configs[name], self._callers[name]
        policy, call = RetryPolicy(config.max_tries, config.backoff), Call(request, rows=[])
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
        if error.kind == "stop" or (self.n_asked == 0 and self.n_failed + 1 >= GIVEN_UP_AT_START):
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
