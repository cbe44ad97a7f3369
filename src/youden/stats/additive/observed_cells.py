"""Check columns of observed cells for an estimator, without copying them.

A fit takes tenths of milliseconds, or has hundreds of millions of cells. Checks therefore compute a minimum and a
maximum first, which show NaN, infinity and range in one pass without a temporary array; an invalid row is searched for
only then.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from youden.errors import StatisticsError
from youden.stats.base.array_likes import check_arrays, check_indexes, stack
from youden.stats.base.estimator import RealColumn, as_matrix, as_reals, no_cells_error
from youden.types.arguments import check_argument

IdColumn = NDArray[np.int32] | NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cells:
    """Observed cells as columns, in any order and possibly repeated.

    Attributes
    ----------
    agent, item : int32 or int64 array (n_cells,)
        Position of the agent and of the item of each cell.
    score : float array (n_cells,)
        Finite scores.
    weight : float array (n_cells,) or None
        Positive finite weights; None if all are 1.
    n_agents, n_items : int
        Numbers of agents and of items.
    low, high : float
        Bounds of the scores: the smallest and the largest score, of cells that may since have been removed by `where`.

    Raises
    ------
    StatisticsError
        [cells-length]: if the columns differ in length; [array-numbers]: if one is not an array of numbers.
    """

    agent: IdColumn
    item: IdColumn
    score: RealColumn
    weight: RealColumn | None
    n_agents: int
    n_items: int
    low: float
    high: float

    def __post_init__(self) -> None:
        columns = {"agent": self.agent, "item": self.item, "weight": self.weight}
        check_arrays(self.agent, self.item, self.score, *([] if self.weight is None else [self.weight]))
        for name, column in columns.items():
            if column is not None and column.shape != self.score.shape:
                raise StatisticsError(
                    f"The columns of cells must have one length: got {column.shape} in {name} for scores of the shape "
                    f"{self.score.shape}. Make cells with cells_from_arrays.",
                    slug="cells-length",
                )

    def __len__(self) -> int:
        return len(self.score)

    def where(self, mask: NDArray[np.bool_]) -> Cells:
        """Return a copy that contains only some of the cells.

        Parameters
        ----------
        mask : bool array (n_cells,)
            Cells to copy.

        Returns
        -------
        Cells
            The selected cells, with the same bounds.

        Raises
        ------
        StatisticsError
            [cells-length]: if the mask has another length.
        """
        if mask.shape != (len(self),):
            raise StatisticsError(
                f"The mask does not fit the cells: got the shape {mask.shape} for {len(self)} cells. Pass one value per cell.",
                slug="cells-length",
            )
        weight = None if self.weight is None else self.weight[mask]
        columns = (self.agent[mask], self.item[mask], self.score[mask])
        return Cells(*columns, weight, self.n_agents, self.n_items, self.low, self.high)


def cells_from_arrays(
    agent: ArrayLike,
    item: ArrayLike,
    score: ArrayLike,
    *,
    n_agents: int,
    n_items: int,
    weight: ArrayLike | None = None,
) -> Cells:
    """Check columns of observed cells, and drop cells of weight 0.

    Parameters
    ----------
    agent, item : int array_like (n_cells,)
        Positions of agents and items, of an integer type; int32 and int64 are not copied. A cell (an agent on an item) may occur
        repeatedly.
    score : float array_like (n_cells,)
        Finite scores; float32 and float64 are not copied.
    n_agents, n_items : int
        Numbers of agents and of items.
    weight : float array_like (n_cells,), optional
        Finite weights, at least 0. Default: 1.

    Returns
    -------
    Cells
        The columns of the cells of positive weight in the given order, for `solve_cells`.

    Raises
    ------
    StatisticsError
        [array-index]: if Series have different indexes; [cells-length]: if columns are not one-dimensional arrays of one length;
        [cells-id]: if positions are not of an integer type (for example, floats) or out of range; [scores-numeric]: if scores are
        not numbers; [scores-infinite]: if one is infinite or NaN; [scores-empty]: if there is no cell of positive weight;
        [weights-numeric]: if weights are not numbers; [weights-negative]: if one is negative, infinite or NaN.
    """
    check_indexes([agent, item, score, weight])
    agents, items = stack(agent), stack(item)
    scores = as_reals(score, noun="scores")
    weights = None if weight is None else as_reals(weight, noun="weights")
    columns = [agents, items, scores] if weights is None else [agents, items, scores, weights]
    if scores.ndim != 1 or any(column.shape != scores.shape for column in columns):
        raise StatisticsError(
            "Agent, item, score and weight must be one-dimensional arrays of one length: got the shapes "
            f"{', '.join(str(column.shape) for column in columns)}. Pass one value per cell.",
            slug="cells-length",
        )
    if not len(scores):
        raise no_cells_error("0 rows")
    ids = _check_ids(agents, size=n_agents, noun="agent"), _check_ids(items, size=n_items, noun="item")
    low, high = float(scores.min()), float(scores.max())
    if not (low > -np.inf and high < np.inf):
        row = int(np.argmin(np.isfinite(scores)))
        raise StatisticsError(
            f"Scores must be finite: got {scores[row]} in row {row} (agent {agents[row]}, item {items[row]}). "
            "Remove unobserved cells, and clip scores before you transform them.",
            slug="scores-infinite",
        )
    cells = Cells(*ids, scores, weights, n_agents, n_items, low, high)
    return cells if weights is None else _drop_cells_of_weight_0(cells, weights)


def cells_from_matrix(matrix: Any, *, weight: ArrayLike | None = None) -> Cells:
    """Collect the observed cells of a matrix.

    Parameters
    ----------
    matrix : array_like or sparse array (n_agents, n_items)
        Scores, NaN for unobserved cells; or a SciPy sparse array, whose stored entries are the observed cells,
        including stored zeros.
    weight : float array_like (n_agents, n_items), optional
        Weights, at least 0; for a sparse array (n_entries,), in the order of its COO format. Default: 1.

    Returns
    -------
    Cells
        The observed cells of positive weight, for `solve_cells`.

    Raises
    ------
    StatisticsError
        [array-index]: if DataFrames have different indexes or columns;
        [scores-shape], [weights-shape]: if the matrix is not two-dimensional, or weights have another shape;
        [scores-numeric], [scores-infinite], [scores-empty]: if scores are not finite numbers, or there are none;
        [weights-numeric], [weights-negative]: if weights are not finite numbers, or one is negative; [cells-length]: if weights
        of a sparse array have another length.

    Examples
    --------
    >>> cells_from_matrix([[0.5, np.nan], [0.25, 0.75]]).item.tolist()
    [0, 0, 1]
    """
    if issparse(matrix):
        entries = cast(Any, matrix).tocoo()
        n_agents, n_items = entries.shape
        columns = entries.row, entries.col, entries.data
        return cells_from_arrays(*columns, n_agents=n_agents, n_items=n_items, weight=weight)
    check_indexes([matrix, weight])
    scores = as_matrix(matrix)
    observed = ~np.isnan(scores)
    agent, item = np.nonzero(observed)
    weights = None if weight is None else as_reals(weight, noun="weights")
    if weights is not None:
        if weights.shape != scores.shape:
            raise StatisticsError(
                f"The weights do not fit the scores: got the shape {weights.shape} for {scores.shape}. "
                "Pass one weight per score.",
                slug="weights-shape",
            )
        weights = weights[observed]
    n_agents, n_items = scores.shape
    return cells_from_arrays(agent, item, scores[observed], n_agents=n_agents, n_items=n_items, weight=weights)


def check_range(cells: Cells) -> None:
    """Check that all scores are in [−1, 1].

    Raises StatisticsError [scores-range], which names the first score outside.
    """
    if cells.low < -1 or cells.high > 1:
        row = int(np.argmax(np.abs(cells.score) > 1))
        raise StatisticsError(
            f"Scores must be in [−1, 1]: got {cells.score[row]} in row {row} (agent {cells.agent[row]}, item "
            f'{cells.item[row]}). Pass scores on the scale of TPR − FPR, or set constraint="none".',
            slug="scores-range",
        )


def _drop_cells_of_weight_0(cells: Cells, weights: RealColumn) -> Cells:
    """Check the weights of cells, and drop the cells of weight 0.

    weights : float array (n_cells,)

    Raises StatisticsError [weights-negative] if a weight is negative, infinite or NaN, and [scores-empty] if all are 0.
    """
    smallest, largest = float(weights.min()), float(weights.max())
    are_valid = smallest >= 0 and largest < np.inf  # False if a weight is NaN
    if not are_valid:
        is_valid = (weights >= 0) & (weights < np.inf)
        row = int(np.argmin(is_valid))  # the first invalid weight
        raise StatisticsError(
            f"Weights must be finite and at least 0: got {weights[row]} in row {row} (agent {cells.agent[row]}, item "
            f"{cells.item[row]}). Pass numbers of answered trials.",
            slug="weights-negative",
        )
    if largest == 0:
        raise no_cells_error(f"{len(weights)} rows, none of positive weight")
    return cells if smallest > 0 else cells.where(weights > 0)


def _check_ids(ids: NDArray[Any], *, size: int, noun: str) -> IdColumn:
    """Check positions and return them as int32 or int64.

    Raises StatisticsError [cells-id] if the positions are not integers, or if a position is outside the range from 0 to
    `size` − 1; ConfigError [argument-type] if `size` is not a whole number.
    """
    check_argument(f"n_{noun}s", size, Integral, "Pass a whole number.")
    if not np.issubdtype(ids.dtype, np.integer):
        raise StatisticsError(f"The {noun}s must be integers: got {ids.dtype}. Pass their positions.", slug="cells-id")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= size:
        row = int(np.argmax((ids < 0) | (ids >= size)))
        raise StatisticsError(
            f"There are {size} {noun}s: got the position {ids[row]} in row {row}. Pass positions from 0 to {size - 1}.",
            slug="cells-id",
        )
    return ids if ids.dtype in (np.int32, np.int64) else ids.astype(np.int64)
