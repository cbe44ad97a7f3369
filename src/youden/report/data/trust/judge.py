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

    yes: the shares of either that are a yes, where answers are graded or odds, so that the means are no shares; else None.
    again: the same two texts in the same order; turned: in the other order; None where that was never asked.
    """

    tpr: float | None
    fpr: float | None
    yes: tuple[float, float] | None
    again: Alike | None
    turned: Alike | None

    @property
    def j(self) -> float | None:
        """Youden's J = TPR − FPR, over all pairs of agents."""
        return None if self.tpr is None or self.fpr is None else self.tpr - self.fpr


class ArmMeans:
    """The mean answer of either arm, and how much of it is a yes, over blocks of rows."""

    def __init__(self) -> None:
        self._sums = {PAIRED: np.zeros(3), INDEPENDENT: np.zeros(3)}
        self._between = False

    def add(self, rows: TrialRows) -> None:
        answered = rows.columns["missing"] == 0
        for arm in self._sums:
            of = answered & (rows.columns["arm"] == arm)
            answer, hard = rows.columns["answer"][of], rows.columns["hard"][of]
            self._sums[arm] += len(answer), answer.sum(), hard.sum()
            self._between |= bool((answer != hard).any())

    def quality(self, *, again: Alike | None, turned: Alike | None) -> JudgeQuality:
        """What was added."""
        (tpr, yes), (fpr, false_yes) = (self._means(arm) for arm in (PAIRED, INDEPENDENT))
        shares = None if yes is None or false_yes is None or not self._between else (yes, false_yes)
        return JudgeQuality(tpr, fpr, shares, again, turned)

    def _means(self, arm: int) -> tuple[float, float] | tuple[None, None]:
        n, total, n_yes = self._sums[arm].tolist()
        return (total / n, n_yes / n) if n else (None, None)
