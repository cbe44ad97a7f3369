"""Which of a plan's requests the store already knows, a chunk at a time.

It knows trials, keys and what is stored under them; it refuses to know what is done about the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from youden.judging.call.failures import Failure
from youden.judging.question.questions import Questions
from youden.judging.store.answers import Store
from youden.nouns import Completion, Plan, Pool, Request

CHUNK = 1000


@dataclass(frozen=True)
class Known:
    """One distinct request of a chunk, the trials that ask it, and what the store holds of it."""

    key: str
    request: Request
    rows: tuple[int, ...]
    completion: Completion | None
    failure: Failure | None


def look_up(questions: Questions, plan: Plan, pool: Pool, store: Store, *, size: int = CHUNK) -> Iterator[list[Known]]:
    """The plan's requests in order, in chunks of `size` trials, identical ones of a chunk together."""
    trials = questions.all(plan, pool)
    while chunk := list(islice(trials, size)):
        rows: dict[str, list[int]] = {}
        requests: dict[str, Request] = {}
        for row, key, request in chunk:
            rows.setdefault(key, []).append(row)
            requests[key] = request
        answers = store.answers(list(rows))
        failures = store.failures([key for key in rows if key not in answers])
        yield [
            Known(key, request, tuple(rows[key]), answers.get(key), failures.get(key))
            for key, request in requests.items()
        ]
