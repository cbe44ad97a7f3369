"""A judge that answers as a function says, and a clock that a test sets."""

from __future__ import annotations

from collections.abc import Callable

from youden.judging.question.questions import characters
from youden.nouns import Completion, Request


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


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
