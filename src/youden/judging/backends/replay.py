"""Answers a plan again from the store, without calls, keys or a network.

What the store does not hold is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from youden.errors import ReplayMissError
from youden.judging.question.parsing import MissingReason, no_reading
from youden.judging.question.questions import Keyed, Keys, Questions, keys, trial_name
from youden.judging.store.answers import Store
from youden.judging.store.arriving import CHUNK, VerdictColumns
from youden.nouns import Completion, Json, Plan, Pool, Verdicts


class Replay:
    """What the judge described by `judge` answered to `questions`, as `store` has it.

    advance: told how many more trials were answered. keys: where the keys of a plan come from.
    """

    name = "replay"

    def __init__(
        self,
        questions: Questions,
        store: Store,
        *,
        judge: Mapping[str, Json],
        advance: Callable[[int], None] = lambda n: None,
        keys: Keys = keys,
    ) -> None:
        self._questions = questions
        self._store = store
        self._judge = judge
        self._advance = advance
        self._keys = keys

    def answer_many(self, pool: Pool, plan: Plan) -> Verdicts:
        """The verdicts of the original run, without its costs.

        Raises: ReplayMissError [replay-miss], naming the first trial that was never asked.
        """

        def missed(key: str, row: int) -> None:
            raise ReplayMissError(
                f"The store {self._store.name} has no answer under {key} to {trial_name(plan, row)}. "
                "Replay the plan, pool and judge that were judged, or judge this plan first.",
                slug="replay-miss",
            )

        rows = self._keys(self._questions, plan, pool)
        columns = stored_columns(self._questions, plan, pool, self._store, rows, advance=self._advance, missed=missed)
        return columns.verdicts(plan, self._judge)


def stored_columns(
    questions: Questions,
    plan: Plan,
    pool: Pool,
    store: Store,
    keys: Iterator[Keyed],
    *,
    advance: Callable[[int], None],
    missed: Callable[[str, int], None],
) -> VerdictColumns:
    """What `store` holds of every trial, by their `keys`. missed: told the key and the first trial of each request that it
    knows nothing of."""
    columns = VerdictColumns(len(plan))
    while chunk := list(islice(keys, CHUNK)):
        rows: dict[str, list[int]] = {}
        for row, key in chunk:
            rows.setdefault(key, []).append(row)
        known = store.known(sorted(rows))
        answers = {key: one for key, one in known.items() if isinstance(one, Completion)}
        columns.put_stored([(rows[key], key, questions.read(one), one) for key, one in answers.items()])
        for key, at in ((key, at) for key, at in rows.items() if key not in answers):
            reason: MissingReason = "failed" if key in known else "not_asked"
            if reason == "not_asked" and questions.fits(questions.request(plan, pool, at[0])):
                missed(key, at[0])
            else:
                columns.put(at, key, no_reading(reason))
        advance(len(chunk))
    return columns
