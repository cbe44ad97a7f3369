"""The trials of a plan as work for the loop: their requests, and verdicts from what came of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

from youden.errors import BudgetError, TooManyMissingError
from youden.judging.asking.endings import Ending, out_of_money, too_many, too_many_missing
from youden.judging.call.budget import Budget
from youden.judging.call.failures import Failure
from youden.judging.question.keys import Keys, keys
from youden.judging.question.parsing import no_reading
from youden.judging.question.questions import Questions
from youden.judging.store.arriving import VerdictColumns
from youden.nouns import Completion, Plan, Pool, Request


class JudgedTrials:
    """All trials of `plan`, one row each. Read `columns` when the loop has ended.

    max_missing: the share of trials without an answer above which they end the run. first: the share of the plan that comes
    last, so that several who ask one plan begin in different places. keys: where the keys come from.
    """

    def __init__(
        self,
        plan: Plan,
        pool: Pool,
        questions: Questions,
        *,
        ending: Ending,
        max_missing: float,
        first: float = 0.0,
        keys: Keys = keys,
    ) -> None:
        self.columns = VerdictColumns(len(plan))
        self._plan = plan
        self._pool = pool
        self._questions = questions
        self._ending = ending
        self._max_missing = max_missing
        self._first = int(first * len(plan))
        self._keys = keys

    def __len__(self) -> int:
        return len(self._plan)

    def keys(self) -> Iterator[tuple[int, str]]:
        of = self._questions, self._plan, self._pool
        return chain(self._keys(*of, start=self._first), islice(self._keys(*of), self._first))

    def request(self, row: int, key: str) -> Request:
        return self._questions.request_under(key, self._plan, self._pool, row)

    def fits(self, request: Request) -> bool:
        return self._questions.fits(request)

    def is_answer(self, completion: Completion) -> bool:
        return self._questions.read(completion).missing == "answered"

    def put(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        completion = outcome if isinstance(outcome, Completion) else None
        if completion is not None:
            reading = self._questions.read(completion)
        else:
            reading = no_reading("not_asked" if outcome is None else "failed")
        if not stored:
            self.columns.bill(rows[0], usd=usd, completion=completion)
        self.columns.put(rows, key, reading, completion=completion, stored=stored)
        if too_many(self.columns.n_missing, self.columns.n_done, max_missing=self._max_missing):
            self._ending.stop(self._too_many_missing)
        return reading.missing

    def correct(self, outcomes: Mapping[str, Completion | Failure]) -> None:
        """Read what others answered first, and the store keeps, in place of what came here."""
        for key, outcome in outcomes.items():
            completion = outcome if isinstance(outcome, Completion) else None
            reading = no_reading("failed") if completion is None else self._questions.read(completion)
            self.columns.correct(key, reading, completion=completion)

    def out_of_money(self, budget: Budget) -> BudgetError:
        return out_of_money(budget, n_done=self.columns.n_done, n=len(self))

    def _too_many_missing(self) -> TooManyMissingError:
        columns = self.columns
        return too_many_missing(
            columns.n_missing, columns.n_done, why=columns.missing_in_words(), max_missing=self._max_missing
        )
