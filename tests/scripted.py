"""A judge that answers as a function says, a clock that a test sets, and a loop on which waiting takes no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from youden.judging.question.questions import characters
from youden.nouns import Completion, Request

T = TypeVar("T")


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Jumps(selectors.DefaultSelector):
    """Instead of waiting it sets the clock to what comes next."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += max(timeout or 0.0, 1e-6)
        return super().select(0)


def in_no_time(work: Coroutine[Any, Any, T]) -> T:
    """What `work`, which waits for nothing but its loop's clock, comes to."""
    selector = Jumps()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


class Scripted:
    """Answers every request with `script(request)`: a text, or a whole completion. Counts its calls in `n_calls`."""

    def __init__(self, script: Callable[[Request], str | Completion], *, name: str = "scripted") -> None:
        self.name = name
        self.n_calls = 0
        self._script = script

    async def answer(self, request: Request) -> Completion:
        self.n_calls += 1
        said = self._script(request)
        if isinstance(said, Completion):
            return said
        return Completion(
            said, "stop", request.model, tokens_in=characters(request) // 4, tokens_out=len(said) // 4 + 1
        )
