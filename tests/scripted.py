"""Provide a judge that answers by a function, a counting progress display, a simulated clock, and a loop without waiting."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from youden.judging.question.questions import count_characters
from youden.types import Completion, Request

T = TypeVar("T")


class Clock:
    """Clock that the test advances."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Jumps(selectors.DefaultSelector):
    """Selector that sets the clock to the next event instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += max(timeout or 0.0, 1e-6)
        return super().select(0)


def in_no_time(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, run on a loop with a simulated clock."""
    selector = Jumps()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


@dataclass
class Counted:
    """Progress display that counts, and records messages with the number of calls made before them."""

    total: int = 0
    done: int = 0
    failed: int = 0
    usd: float = 0.0
    stopped: bool = False
    n_throttled: int = 0
    calls: Callable[[], int] = lambda: 0
    said: list[tuple[int, str]] = field(default_factory=list)

    def start(self, total: int, *, what: str) -> None:
        self.total = total

    def advance(self, n: int = 1, *, failed: int = 0, usd: float = 0.0, cached: int = 0, reason: str = "") -> None:
        self.done, self.failed, self.usd = self.done + n, self.failed + failed, self.usd + usd

    def throttled(self) -> None:
        self.n_throttled += 1

    def stop(self) -> None:
        self.stopped = True

    def say(self, text: str) -> None:
        self.said.append((self.calls(), text))


class Scripted:
    """Judge that answers every request by `script(request)`, a text or a completion, and counts calls in `n_calls`."""

    def __init__(self, script: Callable[[Request], str | Completion], *, name: str = "scripted") -> None:
        self.name = name
        self.n_calls = 0
        self._script = script

    async def answer(self, request: Request) -> Completion:
        self.n_calls += 1
        output = self._script(request)
        if isinstance(output, Completion):
            return output
        return Completion(
            output, "stop", request.model, tokens_in=count_characters(request) // 4, tokens_out=len(output) // 4 + 1
        )
