"""Whom a run asks: a judge that is made when it is first needed, and what a cassette around it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from youden.judging.call.failures import Failure
from youden.nouns import Completion, Judge, Request


@dataclass
class Backend:
    """make: the judge, with its key. live: whether a server may be asked, so that it is spared and a failure says something of
    the next call. batches: whether its provider may be sent batches instead. record: told of every request and what came of it;
    None where nobody listens."""

    make: Callable[[], Judge]
    live: bool = True
    batches: bool = True
    record: Callable[[Request, Completion | Failure], None] | None = None
    _judge: Judge | None = field(default=None, init=False)

    def open(self) -> Judge:
        """The judge. Raises: what `make` raises, such as JudgeError [judge-no-key]."""
        if self._judge is None:
            self._judge = self.make()
        return self._judge

    @property
    def has_others(self) -> bool:
        """Whether a server is there to be asked after another one of the judge's failed."""
        return bool(getattr(self._judge, "has_others", False))

    def warnings(self) -> tuple[str, ...]:
        """What has to be said of the judge's servers."""
        said: tuple[str, ...] = getattr(self._judge, "warnings", tuple)()
        return said

    async def aclose(self) -> None:
        """Let go of the judge, where it was made and holds something."""
        if self._judge is not None and hasattr(self._judge, "aclose"):
            await self._judge.aclose()
