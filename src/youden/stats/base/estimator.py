"""What all estimators share: parameters by name, and matrices of scores checked before anything is learned from them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from youden.errors import StatisticsError
from youden.types import Scores
from youden.types.cells import ScoredCells
from youden.types.pool import Floats

RealColumn = NDArray[np.float32] | NDArray[np.float64]


def check_score_matrix(
    value: ArrayLike, *, agent_ids: Sequence[str] | None = None, item_ids: Sequence[str] | None = None
) -> Floats:
    """`value` as float[K, J] in [−1, 1], NaN where unseen. The ids name the first cell that is wrong.

    Raises: StatisticsError [scores-numeric], [scores-shape], [scores-infinite], [scores-range].
    """
    scores = np.asarray(as_matrix(value), dtype=np.float64)
    broken = np.abs(scores) > 1
    if not broken.any():
        return scores
    i, j = (int(index) for index in np.argwhere(broken)[0])
    where = f"cell [{i}, {j}]"
    if agent_ids is not None and item_ids is not None:
        where = _named(agent_ids[i], item_ids[j])
    raise _out_of_range(float(scores[i, j]), where)


def check_scored_cells(scores: Scores) -> ScoredCells:
    """The cells of `scores`, in [−1, 1] and with weights that are finite and ≥ 0.

    Raises: StatisticsError [scores-infinite], [scores-range], [weights-negative], [weights-shape], [scores-holdout].
    """
    _refuse_holdout(scores)
    cells = scores.cells
    agent, item = cells.at.agent, cells.at.item
    broken = np.abs(cells.value) > 1
    if broken.any():
        row = int(np.argmax(broken))
        where = _named(scores.agent_ids[agent[row]], scores.item_ids[item[row]])
        raise _out_of_range(float(cells.value[row]), where)
    broken = ~((cells.weight >= 0) & (cells.weight < np.inf))
    if broken.any():
        row = int(np.argmax(broken))
        raise StatisticsError(
            f"The weight at [{agent[row]}, {item[row]}] is {cells.weight[row]}. A weight counts answered trials: finite "
            "and not negative.",
            slug="weights-negative",
        )
    return cells


def _refuse_holdout(scores: Scores) -> None:
    """Raise StatisticsError [scores-holdout] for scores of held-out cells."""
    if scores.role == "holdout":
        raise StatisticsError(
            "An estimator must not learn from held-out cells: got scores with the role 'holdout'. Pass the "
            "rates' training_scores().",
            slug="scores-holdout",
        )


def _named(agent: str, item: str) -> str:
    return f"agent '{agent}' on item '{item}'"


def _out_of_range(score: float, where: str) -> StatisticsError:
    if np.isinf(score):
        return StatisticsError(
            f"The score of {where} is {score}. An unseen cell is NaN, never infinite.", slug="scores-infinite"
        )
    return StatisticsError(
        f"The score of {where} is {score}, outside [−1, 1]. A score is TPR − FPR: bring yours to that scale first.",
        slug="scores-range",
    )


def check_ridge(ridge: float) -> None:
    """Raises: StatisticsError [ridge] unless it is positive and finite."""
    if not 0 < ridge < np.inf:
        raise StatisticsError(
            f"The ridge is {ridge}. Give a positive number: 1e-6 moves no score and makes every solution unique.",
            slug="ridge",
        )


def check_constraint(constraint: str, *, known: Sequence[str]) -> None:
    """Raises: StatisticsError [constraint] unless it is one of those known."""
    if constraint not in known:
        raise StatisticsError(
            f"There is no constraint '{constraint}'. Give one of: {', '.join(known)}.", slug="constraint"
        )


def no_cells(arrived: str) -> StatisticsError:
    """The error for input without a single observed cell."""
    return StatisticsError(
        f"No cell has a score ({arrived}). Check that the judge answered and that the split leaves cells to learn from.",
        slug="scores-empty",
    )


def as_matrix(array: ArrayLike) -> RealColumn:
    """Return scores as a matrix of agents × items of floats, float32 as it is.

    Raises: StatisticsError [scores-numeric], [scores-shape].
    """
    scores = as_reals(array, noun="scores")
    if scores.ndim != 2:
        raise StatisticsError(
            f"Scores came with the shape {scores.shape}. Give a matrix of agents × items, NaN where unseen.",
            slug="scores-shape",
        )
    return scores


def as_reals(array: ArrayLike, *, noun: str) -> RealColumn:
    """Return an array of floats, float32 as it is. Raises: StatisticsError [<noun>-numeric]."""
    found = np.asarray(array)
    try:
        return found if found.dtype in (np.float32, np.float64) else found.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise StatisticsError(
            f"The {noun} are not an array of numbers: {error}. Give floats.", slug=f"{noun}-numeric"
        ) from error


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

    Raises: StatisticsError [scores-empty], [scores-holdout], and those of `check_score_matrix`.
    """
    if isinstance(scores, Scores):
        _refuse_holdout(scores)
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
