"""Which requests the store already knows, a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from youden.judging.call.failures import Failure
from youden.judging.store.answers import Store
from youden.nouns import Completion, Request

CHUNK = 1000


@dataclass(frozen=True)
class Known:
    """One distinct request of a chunk, the rows that ask it, and what the store holds of it. ask: makes it, by row and key."""

    key: str
    rows: tuple[int, ...]
    completion: Completion | None
    failure: Failure | None
    ask: Callable[[int, str], Request]

    @cached_property
    def request(self) -> Request:
        """Made when it is looked at: what is answered needs none."""
        return self.ask(self.rows[0], self.key)

    def settled(
        self, is_answer: Callable[[Completion], bool], *, retry_failed: bool = False
    ) -> Completion | Failure | None:
        """What stands without a call: a stored answer, or a rejection; under `retry_failed` only what `is_answer`."""
        if self.completion is not None:
            return self.completion if not retry_failed or is_answer(self.completion) else None
        rejected = self.failure is not None and self.failure.kind == "rejected"
        return self.failure if rejected and not retry_failed else None


def look_up(
    keys: Iterable[tuple[int, str]], store: Store, *, ask: Callable[[int, str], Request], size: int = CHUNK
) -> Iterator[list[Known]]:
    """(row, key) in order, in chunks of `size` rows, identical requests of a chunk together. ask: as `Known` has it."""
    rest = iter(keys)
    while chunk := list(islice(rest, size)):
        rows: dict[str, list[int]] = {}
        for row, key in chunk:
            rows.setdefault(key, []).append(row)
        answers = store.answers(list(rows))
        failures = store.failures([key for key in rows if key not in answers])
        yield [Known(key, tuple(at), answers.get(key), failures.get(key), ask) for key, at in rows.items()]
