"""Answers a plan again from the store, without calls, keys or a network.

What the store does not hold is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from youden.errors import ReplayMissError
from youden.judging.question.keys import keys
from youden.judging.question.parsing import MissingReason, no_reading
from youden.judging.question.questions import Questions, trial_name
from youden.judging.store.answers import Store
from youden.judging.store.arriving import VerdictColumns
from youden.judging.store.lookup import CHUNK
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
        rest = keys(self._questions, plan, pool)
        while chunk := list(islice(rest, CHUNK)):
            rows: dict[str, list[int]] = {}
            for row, key in chunk:
                rows.setdefault(key, []).append(row)
            answers = self._store.answers(sorted(rows))
            for key, completion in answers.items():
                reading = self._questions.read(completion)
                columns.put(rows[key], key, reading, completion=completion, stored=True)
            unknown = {key: at for key, at in rows.items() if key not in answers}
            failed = self._store.failures(sorted(unknown)) if unknown else {}
            for key, at in unknown.items():
                columns.put(at, key, no_reading("failed" if key in failed else self._not_asked(plan, pool, key, at[0])))
            self._advance(len(chunk))
        return columns.verdicts(plan, self._judge)

    def _not_asked(self, plan: Plan, pool: Pool, key: str, row: int) -> MissingReason:
        if not self._questions.fits(self._questions.request(plan, pool, row)):
            return "not_asked"
        raise ReplayMissError(
            f"The store {self._store.name} has no answer under {key} to {trial_name(plan, row)}. "
            "Replay the plan, pool and judge that were judged, or judge this plan first.",
            slug="replay-miss",
        )
