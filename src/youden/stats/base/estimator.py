"""Provide the base class of estimators, and the checks of scores before an estimator is fitted.

Parameters follow the conventions of scikit-learn. Checks name the first invalid cell.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from numbers import Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from youden.errors import StatisticsError
from youden.types import Scores
from youden.types.arguments import check_argument
from youden.types.cells import ScoredCells
from youden.types.pool import Floats

RealColumn = NDArray[np.float32] | NDArray[np.float64]


def check_score_matrix(
    value: ArrayLike, *, agent_ids: Sequence[str] | None = None, item_ids: Sequence[str] | None = None
) -> Floats:
    """Convert scores to a float64 matrix, and check that they are in [−1, 1].

    Parameters
    ----------
    value : array_like (n_agents, n_items)
        Scores; NaN is unobserved. Masked values become NaN.
    agent_ids, item_ids : sequence of str, optional
        Ids for the error message, used if both are passed. Else the message shows the position of the invalid cell.

    Returns
    -------
    float64 array (n_agents, n_items)
        The scores. If `value` is a float64 array, it is returned without a copy.

    Raises
    ------
    StatisticsError
        [scores-numeric]: if a value cannot be converted to a float; [scores-shape]: if `value` is not two-dimensional;
        [scores-infinite]: if the first score outside [−1, 1] is infinite; [scores-range]: if it is finite.
    """
    scores = np.asarray(as_matrix(value), dtype=np.float64)
    is_invalid = np.abs(scores) > 1
    if not is_invalid.any():
        return scores

    i, j = np.argwhere(is_invalid)[0].tolist()
    location = f"cell [{i}, {j}]"
    if agent_ids is not None and item_ids is not None:
        location = _format_cell(agent_ids[i], item_ids[j])
    raise _range_error(float(scores[i, j]), location)


def check_scored_cells(scores: Scores) -> ScoredCells:
    """Check the scores and weights of the observed cells, and return these cells.

    Parameters
    ----------
    scores : Scores
        Scores, which must be in [−1, 1], and weights, which must be finite and at least 0.

    Returns
    -------
    ScoredCells
        Index of the observed cells, with their scores and weights, float arrays (n_cells,).

    Raises
    ------
    StatisticsError
        [scores-infinite]: if a score is infinite; [scores-range]: if a score is outside [−1, 1]; [weights-negative]: if a weight
        is negative, infinite or NaN; [scores-holdout]: if the scores are of held-out cells.
    """
    _refuse_holdout(scores)
    cells = scores.cells
    agent, item = cells.cell_index.agent, cells.cell_index.item
    invalid_scores = np.flatnonzero(np.abs(cells.value) > 1)
    if len(invalid_scores):
        row = invalid_scores[0]
        location = _format_cell(scores.agent_ids[agent[row]], scores.item_ids[item[row]])
        raise _range_error(float(cells.value[row]), location)

    is_valid_weight = (cells.weight >= 0) & (cells.weight < np.inf)
    invalid_weights = np.flatnonzero(~is_valid_weight)
    if len(invalid_weights):
        row = invalid_weights[0]
        raise StatisticsError(
            f"Weights must be finite and at least 0: got {cells.weight[row]} in cell [{agent[row]}, {item[row]}]. Pass numbers "
            "of answered trials.",
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


def _format_cell(agent: str, item: str) -> str:
    """Format the name of a cell for a message."""
    return f"agent '{agent}' on item '{item}'"


def _range_error(score: float, location: str) -> StatisticsError:
    """Make the error for a score outside [−1, 1]; `location` names its cell."""
    if np.isinf(score):
        return StatisticsError(
            f"Scores must be finite: got {score} for {location}. Pass NaN for unobserved cells.", slug="scores-infinite"
        )
    return StatisticsError(
        f"Scores must be in [−1, 1]: got {score} for {location}. Pass scores on the scale of TPR − FPR.",
        slug="scores-range",
    )


def check_ridge(ridge: float) -> None:
    """Raise ConfigError [argument-type] unless a ridge is a number, and StatisticsError [ridge] unless 0 < ridge < ∞."""
    check_argument("ridge", ridge, Real, "Pass a number such as 1e-6.")
    if not 0 < ridge < np.inf:
        raise StatisticsError(
            f"The ridge must be positive and finite: got {ridge}. Set ridge to 1e-6, which makes the solution unique without "
            "changing it.",
            slug="ridge",
        )


def check_constraint(constraint: str, *, choices: Sequence[str]) -> None:
    """Raise StatisticsError [constraint] unless a constraint is one of the choices."""
    if constraint not in choices:
        raise StatisticsError(
            f"The constraint is unknown: got '{constraint}'. Set one of: {', '.join(choices)}.", slug="constraint"
        )


def no_cells_error(size: str) -> StatisticsError:
    """Make the error for scores without an observed cell; `size` describes them, such as "3 × 4, all unobserved"."""
    return StatisticsError(
        f"No cell has a score: got {size}. Check that the judge answered, and that not all cells are held out.",
        slug="scores-empty",
    )


def as_matrix(array: ArrayLike) -> RealColumn:
    """Convert scores to a float matrix (n_agents, n_items), without a copy if they are a float32 or float64 matrix.

    Raises StatisticsError [scores-numeric] or [scores-shape] if the scores are not a two-dimensional array of numbers.
    """
    scores = as_reals(array, noun="scores")
    if scores.ndim != 2:
        raise StatisticsError(
            f"Scores must be a matrix: got the shape {scores.shape}. Pass a matrix of agents × items, with NaN for unobserved "
            "cells.",
            slug="scores-shape",
        )
    return scores


def as_reals(array: ArrayLike, *, noun: str) -> RealColumn:
    """Convert numbers to an array of floats; float32 and float64 are kept. Masked values become NaN.

    Raises StatisticsError [NOUN-numeric] if a value cannot be converted; `noun` is also the subject of the message.
    """
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(np.float64), np.nan)
    try:
        values = np.asarray(array)
        if values.dtype in (np.float32, np.float64):
            return values
        # an unsafe conversion of complex numbers would drop their imaginary parts; a safe one is refused
        return values.astype(np.float64, casting="unsafe" if values.dtype.kind != "c" else "safe")
    except (TypeError, ValueError) as error:
        raise StatisticsError(
            f"The {noun} must be an array of numbers: {error}. Pass floats.", slug=f"{noun}-numeric"
        ) from error


class Estimator:
    """Base class of estimators with the parameter interface of scikit-learn.

    Parameters are the keyword arguments of the constructor, stored unchanged under their names; `fit` checks them.
    """

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters of the estimator.

        Parameters
        ----------
        deep : bool, default True
            Without effect, because no parameter is an estimator.

        Returns
        -------
        dict
            Values by parameter name.
        """
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: object) -> Self:
        """Set parameters of the estimator.

        Parameters
        ----------
        **params : object
            Values by parameter name.

        Returns
        -------
        Estimator
            The estimator itself.

        Raises
        ------
        StatisticsError
            [unknown-parameter]: if the estimator has no such parameter.
        """
        current = self.get_params()
        for name, value in params.items():
            if name not in current:
                raise StatisticsError(
                    f"{type(self).__name__} has no such parameter: got '{name}'. Set one of: {', '.join(current)}.",
                    slug="unknown-parameter",
                )
            setattr(self, name, value)
        return self


def observed_scores(scores: Scores | ArrayLike) -> Floats:
    """Convert scores to a matrix with at least one observed cell.

    Cells of weight 0 count as unobserved.

    Parameters
    ----------
    scores : Scores or array_like (n_agents, n_items)
        Scores in [−1, 1]; NaN is unobserved.

    Returns
    -------
    float64 array (n_agents, n_items)
        The scores, NaN for unobserved cells.

    Raises
    ------
    StatisticsError
        [scores-empty]: if no cell was observed; [scores-holdout]: if the scores are of held-out cells; [scores-numeric],
        [scores-shape], [scores-infinite], [scores-range]: if the scores are not a matrix of numbers in [−1, 1].
    """
    if isinstance(scores, Scores):
        _refuse_holdout(scores)
        value = check_score_matrix(scores.value, agent_ids=scores.agent_ids, item_ids=scores.item_ids)
        value = np.where(scores.weight == 0, np.nan, value)
    else:
        value = check_score_matrix(scores)
    if np.isnan(value).all():
        raise no_cells_error(f"{value.shape[0]} × {value.shape[1]}, all unobserved")
    return value


def not_fitted_error(estimator: Estimator) -> StatisticsError:
    """Make the error for an estimator that is used before `fit`."""
    return StatisticsError(f"This {type(estimator).__name__} is not fitted. Run fit(scores) first.", slug="not-fitted")
