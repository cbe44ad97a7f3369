"""What is settled once, before a run asks anything: its cap, its patience, who watches, and whether it goes in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from youden.nouns import MAX_MISSING, Progress


def _say_nothing(_: str) -> None:
    return


@dataclass(frozen=True)
class Limits:
    """Most requests and most bytes of one file of a Batch API."""

    requests: int = 50_000
    bytes: int = 200_000_000


@dataclass(frozen=True)
class Batching:
    """How batches are waited for.

    poll: seconds between looks at them. limits: of the provider's files. say: told in words what happens.
    """

    poll: float = 30.0
    limits: Limits = field(default_factory=Limits)
    say: Callable[[str], None] = _say_nothing
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True)
class Asking:
    """The terms of a run, made once where it begins.

    max_cost: USD it may spend; None for no cap. max_missing: share of trials without an answer above which it stops.
    retry_failed: whether what was refused, cut off, unparsed or rejected is asked again. progress: shown how far it is.
    log: a file that gets a line of JSON for every call and failure. batching: send everything through the provider's Batch
    API, at its prices, instead of calling.
    """

    max_cost: float | None = None
    max_missing: float = MAX_MISSING
    retry_failed: bool = False
    progress: Progress | None = None
    log: Path | None = None
    batching: Batching | None = None

    def after(self, spent: float) -> Asking:
        """The same terms with so much less USD to spend."""
        return self if self.max_cost is None else replace(self, max_cost=max(0.0, self.max_cost - spent))
