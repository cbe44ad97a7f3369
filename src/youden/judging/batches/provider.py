"""What a provider of batches has to offer: the steps of a batch's life."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class LineError:
    """Why a batch was turned down: the provider's code, its words, and the line (from 1) it names, if it names one."""

    code: str | None
    message: str
    line: int | None


@dataclass(frozen=True)
class BatchState:
    """A batch under way or ended.

    n_done: requests finished so far. files: ids of result files, of an ended batch. errors: why it was turned down as a whole.
    """

    status: str
    ended: bool
    n_done: int = 0
    files: tuple[str, ...] = ()
    errors: tuple[LineError, ...] = ()


class BatchProvider(Protocol):
    """Runs files of requests. Every method raises CallError where it could not."""

    async def upload(self, text: bytes) -> str:
        """The id of a new file of requests."""
        ...

    async def start(self, file: str, *, perhaps_begun: bool) -> str:
        """The id of the batch of an uploaded file; never a second one of the same file."""
        ...

    async def look(self, batch: str) -> BatchState:
        """How far a batch is."""
        ...

    async def fetch(self, file: str) -> bytes:
        """The text of a result file."""
        ...

    async def aclose(self) -> None:
        """Let go of what is held open."""
        ...
