"""Which requests the store already knows, a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from youden.judging.call.failures import Failure
from youden.judging.store.answers import Store
from youden.nouns import Completion, Request

CHUNK = 1000


@dataclass(frozen=True)
class Known:
    """One distinct request of a chunk, the rows that ask it, and what the store holds of it."""

    key: str
    request: Request
    rows: tuple[int, ...]
    completion: Completion | None
    failure: Failure | None

    def settled(
        self, is_answer: Callable[[Completion], bool], *, retry_failed: bool = False
    ) -> Completion | Failure | None:
        """What stands without a call: a stored answer, or a rejection; under `retry_failed` only what `is_answer`."""
        if self.completion is not None:
            return self.completion if not retry_failed or is_answer(self.completion) else None
        rejected = self.failure is not None and self.failure.kind == "rejected"
        return self.failure if rejected and not retry_failed else None


def look_up(requests: Iterable[tuple[int, str, Request]], store: Store, *, size: int = CHUNK) -> Iterator[list[Known]]:
    """(row, key, request) in order, in chunks of `size` rows, identical requests of a chunk together."""
    rest = iter(requests)
    while chunk := list(islice(rest, size)):
        rows: dict[str, list[int]] = {}
        asked: dict[str, Request] = {}
        for row, key, request in chunk:
            rows.setdefault(key, []).append(row)
            asked[key] = request
        answers = store.answers(list(rows))
        failures = store.failures([key for key in rows if key not in answers])
        yield [
            Known(key, request, tuple(rows[key]), answers.get(key), failures.get(key)) for key, request in asked.items()
        ]
