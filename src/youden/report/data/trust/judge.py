"""How good the judge was in this run: what it says yes to, and whether it says the same when it is asked twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.nouns import INDEPENDENT, PAIRED
from youden.report.data.answers.repeats import Alike
from youden.report.data.trials import TrialRows

LEAST_PARTNERS = 0.5
"""Below this share of a cell's partners the scores of single cells are mostly noise, and curl says nothing of additivity."""


@dataclass(frozen=True)
class JudgeQuality:
    """tpr, fpr: mean answer to responses to one item, and to two items; None where none of that arm answered.

    again: the same two texts in the same order; turned: in the other order; None where that was never asked.
    """

    tpr: float | None
    fpr: float | None
    again: Alike | None
    turned: Alike | None

    @property
    def j(self) -> float | None:
        """Youden's J = TPR − FPR, over all pairs of agents."""
        return None if self.tpr is None or self.fpr is None else self.tpr - self.fpr


class ArmMeans:
    """The mean answer of either arm, over blocks of rows."""

    def __init__(self) -> None:
        self._sums = {PAIRED: np.zeros(2), INDEPENDENT: np.zeros(2)}

    def add(self, rows: TrialRows) -> None:
        answered = rows.columns["missing"] == 0
        for arm in self._sums:
            answer = rows.columns["answer"][answered & (rows.columns["arm"] == arm)]
            self._sums[arm] += len(answer), answer.sum()

    @property
    def tpr(self) -> float | None:
        return self._mean(PAIRED)

    @property
    def fpr(self) -> float | None:
        return self._mean(INDEPENDENT)

    def _mean(self, arm: int) -> float | None:
        n, total = self._sums[arm].tolist()
        return total / n if n else None
