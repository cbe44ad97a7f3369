"""What every completion of a score matrix does besides completing: checks, clips, and ranks agents by their mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from youden.errors import StatisticsError
from youden.nouns import Scores
from youden.nouns.arrays import Bools, Floats, freeze
from youden.stats.base.estimator import Estimator, not_fitted, observed_scores


class Completion(Estimator, ABC):
    """A matrix filled in from its observed cells, all counted alike.

    Learned: prediction_: float[K, J] in [−1, 1], NaN for agents and items without a cell; ability_: float[K], its mean over
    items, as the paper ranks agents; NaN without a cell.
    """

    prediction_: Floats
    ability_: Floats

    def fit(self, scores: Scores | ArrayLike) -> Self:
        """Fit to scores float[K, J] in [−1, 1]; NaN is unseen.

        Raises: StatisticsError as `observed_scores`, and [baseline-parameter].
        """
        self._check_parameters()
        value = observed_scores(scores)
        observed = ~np.isnan(value)
        agents, items = observed.any(axis=1), observed.any(axis=0)
        seen = np.ix_(agents, items)
        self.prediction_ = np.full(value.shape, np.nan)
        self.prediction_[seen] = np.clip(self._complete(np.nan_to_num(value[seen]), observed[seen]), -1, 1)
        self.ability_ = np.full(len(value), np.nan)
        self.ability_[agents] = self.prediction_[seen].mean(axis=1)
        freeze([self.prediction_, self.ability_])
        return self

    def predict(self) -> Floats:
        """The completed matrix: float[K, J] in [−1, 1], NaN for agents and items never seen.

        Raises: StatisticsError [not-fitted].
        """
        if not hasattr(self, "prediction_"):
            raise not_fitted(self)
        return self.prediction_.copy()

    @abstractmethod
    def _check_parameters(self) -> None: ...

    @abstractmethod
    def _complete(self, value: Floats, observed: Bools) -> Floats:
        """float[K, J] from scores (0 where unseen) and which are observed: at least one in each row and column."""


def check_at_least(least: float, **parameters: float) -> None:
    """Raises: StatisticsError [baseline-parameter] naming the first parameter that is below `least` or not finite."""
    for name, value in parameters.items():
        if not least <= value < np.inf:
            raise StatisticsError(
                f"The baseline's {name} is {value}. Give a number from {least} up.", slug="baseline-parameter"
            )
