"""Checks of levels, of columns of trials, and of matrices of scores and weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from youden.errors import StatisticsError
from youden.nouns import Scores
from youden.nouns.arrays import Floats, Ids
from youden.nouns.cells import ScoredCells


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
        where = _named(agent_ids[i], item_ids[j])
    raise _out_of_range(float(scores[i, j]), where)


def check_scored_cells(scores: Scores) -> ScoredCells:
    """The cells of `scores`, in [−1, 1] and with weights that are finite and ≥ 0.

    Raises: StatisticsError [scores-infinite], [scores-range], [weights-negative], [weights-shape].
    """
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
