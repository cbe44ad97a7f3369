"""A judge that answers as a function says, a progress that counts, a set clock, and a loop on which waiting takes no time."""

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


@dataclass
class Counted:
    """A progress that only counts, and notes what is said with how many calls were made until then."""

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
            said, "stop", request.model, tokens_in=count_characters(request) // 4, tokens_out=len(said) // 4 + 1
        )
