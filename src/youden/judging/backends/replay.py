"""Answers a plan again from the store, without calls, keys or a network.

What the store does not hold is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from youden.errors import ReplayMissError
from youden.judging.question.parsing import Reading, no_reading
from youden.judging.question.questions import Questions, trial_name
from youden.judging.store.answers import Store
from youden.judging.store.arriving import VerdictColumns
from youden.judging.store.lookup import Known, look_up
from youden.nouns import Json, Plan, Pool, Verdicts


class Replay:
    """What the judge described by `judge` answered to `questions`, as `store` has it.

    advance: told how many more trials were answered.
    """

    name = "replay"

    def __init__(
        self,
        questions: Questions,
        store: Store,
        *,
        judge: Mapping[str, Json],
        advance: Callable[[int], None] = lambda n: None,
    ) -> None:
        self._questions = questions
        self._store = store
        self._judge = judge
        self._advance = advance

    def answer_many(self, pool: Pool, plan: Plan) -> Verdicts:
        """The verdicts of the original run, without its costs.

        Raises: ReplayMissError [replay-miss], naming the first trial that was never asked.
        """
        columns = VerdictColumns(len(plan))
        for chunk in look_up(self._questions.all(plan, pool), self._store):
            for known in chunk:
                columns.put(known.rows, known.key, self._read(known, plan), completion=known.completion, stored=True)
            self._advance(sum(len(known.rows) for known in chunk))
        return columns.verdicts(plan, self._judge)

    def _read(self, known: Known, plan: Plan) -> Reading:
        if known.completion is not None:
            return self._questions.read(known.completion)
        if known.failure is not None:
            return no_reading("failed")
        if not self._questions.fits(known.request):
            return no_reading("not_asked")
        raise ReplayMissError(
            f"The store {self._store.path} has no answer under {known.key} to {trial_name(plan, known.rows[0])}. "
            "Replay the plan, pool and judge that were judged, or judge this plan first.",
            slug="replay-miss",
        )
