"""Answers a plan again from the store, without calls, keys or a network.

What the store does not hold is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from youden.errors import ReplayMissError
from youden.judging.question.questions import Keys, Questions, keys, trial_name
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import read_answers
from youden.nouns import Json, Plan, Pool, Verdicts


class Replay:
    """What the judge described by `judge` answered to `questions`, as `store` has it.

    advance: as `read_answers` has it. keys: where the keys of a plan come from.
    """

    name = "replay"

    def __init__(
        self,
        questions: Questions,
        store: Store,
        *,
        judge: Mapping[str, Json],
        advance: Callable[..., None] = lambda n, *, missing, stored: None,
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
        found = read_answers(self._questions, plan, pool, self._store, rows, advance=self._advance, missed=missed)
        return found.verdicts(self._judge)
