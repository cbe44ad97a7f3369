"""Checks of levels, of columns of trials, and of matrices of scores and weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from youden.errors import StatisticsError
from youden.nouns.arrays import Floats, Ids


def check_score_matrix(
    value: ArrayLike, *, agent_ids: Sequence[str] | None = None, item_ids: Sequence[str] | None = None
) -> Floats:
    """`value` as float[K, J] in [−1, 1], NaN where unseen. The ids name the first cell that is wrong.

    Raises: StatisticsError [scores-numeric], [scores-shape], [scores-infinite], [scores-range].
    """
    scores = _as_floats(value, noun="scores")
    if scores.ndim != 2:
        raise StatisticsError(
            f"Scores came with the shape {scores.shape}. Give a matrix of agents × items, NaN where unseen.",
            slug="scores-shape",
        )
    broken = np.abs(scores) > 1
    if not broken.any():
        return scores
    i, j = (int(index) for index in np.argwhere(broken)[0])
    where = f"cell [{i}, {j}]"
    if agent_ids is not None and item_ids is not None:
        where = f"agent '{agent_ids[i]}' on item '{item_ids[j]}'"
    if np.isinf(scores[i, j]):
        raise StatisticsError(
            f"The score of {where} is {scores[i, j]}. An unseen cell is NaN, never infinite.", slug="scores-infinite"
        )
    raise StatisticsError(
        f"The score of {where} is {scores[i, j]}, outside [−1, 1]. A score is TPR − FPR: bring yours to that scale first.",
        slug="scores-range",
    )


def check_weight_matrix(weight: ArrayLike, *, shape: tuple[int, ...]) -> Floats:
    """`weight` as float[K, J], finite and ≥ 0, of the scores' shape.

    Raises: StatisticsError [weights-numeric], [weights-shape], [weights-negative].
    """
    weights = _as_floats(weight, noun="weights")
    if weights.shape != shape:
        raise StatisticsError(
            f"Weights came with the shape {weights.shape}, scores with {shape}. Give one weight a score.",
            slug="weights-shape",
        )
    _check_weights(weights)
    return weights


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


def check_level(level: float) -> None:
    """Raises: StatisticsError [level] unless 0 < level < 1."""
    if not 0 < level < 1:
        raise StatisticsError(f"The interval's level is {level}. Give one between 0 and 1, such as 0.95.", slug="level")


def check_trials(*columns: Ids, answer: Floats) -> None:
    """Raises: StatisticsError [trial-columns] unless all are as long as `answer`, [trial-answer] on NaN."""
    lengths = [*(len(column) for column in columns), len(answer)]
    if len(set(lengths)) > 1:
        raise uneven_columns(f"columns of {lengths} trials")
    if missing := int(np.isnan(answer).sum()):
        raise StatisticsError(
            f"{missing} of {len(answer)} answers are NaN. Give answered trials only.", slug="trial-answer"
        )


def uneven_columns(what: str) -> StatisticsError:
    """The error for trials whose columns do not fit each other."""
    return StatisticsError(
        f"Columns of one length are needed, but {what} arrived. Take both from one run.", slug="trial-columns"
    )


def no_cells(arrived: str) -> StatisticsError:
    """The error for input without a single observed cell."""
    return StatisticsError(
        f"No cell has a score ({arrived}). Check that the judge answered and that the split leaves cells to learn from.",
        slug="scores-empty",
    )


def _as_floats(array: ArrayLike, *, noun: str) -> Floats:
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise StatisticsError(
            f"The {noun} are not an array of numbers: {error}. Give floats.", slug=f"{noun}-numeric"
        ) from error


def _check_weights(weights: Floats) -> None:
    broken = ~((weights >= 0) & (weights < np.inf))
    if broken.any():
        first = tuple(int(index) for index in np.argwhere(broken)[0])
        raise StatisticsError(
            f"The weight at {list(first)} is {weights[first]}. A weight counts answered trials: finite and not negative.",
            slug="weights-negative",
        )
