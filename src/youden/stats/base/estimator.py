"""What all estimators share: parameters by name, and a score matrix checked before it is learned from."""

from __future__ import annotations

import inspect
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from youden.errors import StatisticsError
from youden.nouns import Scores
from youden.nouns.arrays import Floats
from youden.stats.base.validation import check_score_matrix, no_cells


class Estimator:
    """Parameters are the constructor's keyword arguments, stored unchanged under their names; `fit` checks them."""

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """The constructor's arguments by name; `deep` changes nothing, as none of them is an estimator."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: object) -> Self:
        """Set constructor arguments by name. Raises: StatisticsError [unknown-parameter]."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise StatisticsError(
                    f"{type(self).__name__} has no parameter '{name}'. It has: {', '.join(known)}.",
                    slug="unknown-parameter",
                )
            setattr(self, name, value)
        return self


def observed_scores(scores: Scores | ArrayLike) -> Floats:
    """float[K, J] in [−1, 1] with at least one cell, NaN unseen; a score's weight only says whether it was seen.

    Raises: StatisticsError [scores-empty], and those of `check_score_matrix`.
    """
    if isinstance(scores, Scores):
        value = check_score_matrix(scores.value, agent_ids=scores.agent_ids, item_ids=scores.item_ids)
        value = np.where(scores.weight == 0, np.nan, value)
    else:
        value = check_score_matrix(scores)
    if np.isnan(value).all():
        raise no_cells(f"{value.shape[0]} × {value.shape[1]}, all unseen")
    return value


def not_fitted(estimator: Estimator) -> StatisticsError:
    """The error for asking an estimator that has learned nothing."""
    return StatisticsError(
        f"This {type(estimator).__name__} has seen no scores. Call fit(scores) first.", slug="not-fitted"
    )
