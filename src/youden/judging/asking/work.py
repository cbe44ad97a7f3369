"""What the loop asks: rows that wait for answers, the requests they need, and where the answers go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from youden.errors import BudgetError
from youden.judging.call.budget import Budget
from youden.judging.call.failures import Failure
from youden.nouns import Completion, Request


class Work(Protocol):
    """What is asked. Its rows are its own: numbers that stand for whoever waits for an answer."""

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def keys(self) -> Iterator[tuple[int, str]]:
        """(row, key) of every row, in order; rows with the same key share a call."""
        ...

    def request(self, row: int, key: str) -> Request:
        """What has to be sent for this row, whose key is `key`."""
        ...

    def fits(self, request: Request) -> bool:
        """Whether the request can be sent at all."""
        ...

    def is_answer(self, completion: Completion) -> bool:
        """Whether the completion is one that need not be asked again under `retry_failed`."""
        ...

    def put(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        """Take what came of these rows; None was not asked. Returns 'answered', or the reason why there is no answer."""
        ...

    def out_of_money(self, budget: Budget) -> BudgetError:
        """What to say where the cap does not allow the next call."""
        ...
