"""Observed cells as an estimator reads them: columns that are checked once and never copied, grouped by item, and counted.

Solving is timed in tenths of milliseconds and run on hundreds of millions of cells, so checks look at extremes first: a
minimum and a maximum see NaN, infinity and range in one pass without a temporary; only then is the bad row searched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from youden.errors import StatisticsError
from youden.stats.base.estimator import RealColumn, as_matrix, as_reals, no_cells

IdColumn = NDArray[np.int32] | NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cells:
    """Observed cells as columns of one length N, in any order; a cell may come more than once.

    agent, item: int[N], 0 ≤ agent < n_agents and 0 ≤ item < n_items; score: float[N], finite, from low to high;
    weight: float[N], positive and finite, or None where all are 1.
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
        for name, column in columns.items():
            if column is not None and column.shape != self.score.shape:
                raise StatisticsError(
                    f"The columns of cells must have one length: got {column.shape} in {name} for scores of the shape "
                    f"{self.score.shape}. Make cells with check_cells.",
                    slug="cells-length",
                )

    def __len__(self) -> int:
        return len(self.score)

    def where(self, kept: NDArray[np.bool_]) -> Cells:
        """Copy the cells that a mask, bool (n_cells,), selects. Raises: StatisticsError [cells-length]."""
        if kept.shape != (len(self),):
            raise StatisticsError(
                f"The mask does not fit the cells: got the shape {kept.shape} for {len(self)} cells. Pass one value per cell.",
                slug="cells-length",
            )
        weight = None if self.weight is None else self.weight[kept]
        columns = (self.agent[kept], self.item[kept], self.score[kept])
        return Cells(*columns, weight, self.n_agents, self.n_items, self.low, self.high)


def check_cells(
    agent: ArrayLike,
    item: ArrayLike,
    score: ArrayLike,
    *,
    n_agents: int,
    n_items: int,
    weight: ArrayLike | None = None,
) -> Cells:
    """Columns of cells, checked, less those of weight 0; no weight is weight 1.

    agent, item: int[N]; score: float[N]; weight: float[N] ≥ 0. int32 and int64 ids, float32 and float64 numbers stay as
    they are, without a copy.

    Raises: StatisticsError [cells-length], [cells-id], [scores-numeric], [scores-infinite], [weights-numeric],
    [weights-negative], [scores-empty].
    """
    agents, items = np.asarray(agent), np.asarray(item)
    scores = as_reals(score, noun="scores")
    weights = None if weight is None else as_reals(weight, noun="weights")
    columns = [agents, items, scores] if weights is None else [agents, items, scores, weights]
    if scores.ndim != 1 or any(column.shape != scores.shape for column in columns):
        raise StatisticsError(
            f"Agent, item, score and weight came with the shapes {', '.join(str(column.shape) for column in columns)}. "
            "Give one-dimensional arrays of one length.",
            slug="cells-length",
        )
    if not len(scores):
        raise no_cells("0 rows")
    ids = _ids(agents, size=n_agents, noun="agent"), _ids(items, size=n_items, noun="item")
    low, high = float(scores.min()), float(scores.max())
    if not (low > -np.inf and high < np.inf):
        row = int(np.argmin(np.isfinite(scores)))
        raise StatisticsError(
            f"The score of row {row} (agent {agents[row]}, item {items[row]}) is {scores[row]}. "
            "Leave unseen cells out, and clip before changing scale.",
            slug="scores-infinite",
        )
    cells = Cells(*ids, scores, weights, n_agents, n_items, low, high)
    return cells if weights is None else _weighted(cells, weights)


def cells_of(matrix: Any, *, weight: ArrayLike | None = None) -> Cells:
    """The observed cells of a matrix of agents × items.

    matrix: float[K, J], NaN where unseen, or any scipy sparse array, whose stored entries are the cells seen (a stored 0
    is a score of 0). weight: float[K, J], or for a sparse array float[nnz] in the order of its COO form.

    >>> cells_of([[0.5, np.nan], [0.25, 0.75]]).item.tolist()
    [0, 0, 1]

    Raises: StatisticsError [scores-shape], [weights-shape], and those of `check_cells`.
    """
    if issparse(matrix):
        entries = cast(Any, matrix).tocoo()
        n_agents, n_items = entries.shape
        columns = entries.row, entries.col, entries.data
        return check_cells(*columns, n_agents=n_agents, n_items=n_items, weight=weight)
    scores = as_matrix(matrix)
    seen = ~np.isnan(scores)
    agent, item = np.nonzero(seen)
    weights = None if weight is None else np.asarray(weight)
    if weights is not None:
        if weights.shape != scores.shape:
            raise StatisticsError(
                f"The weights do not fit the scores: got the shape {weights.shape} for {scores.shape}. "
                "Pass one weight per score.",
                slug="weights-shape",
            )
        weights = weights[seen]
    n_agents, n_items = scores.shape
    return check_cells(agent, item, scores[seen], n_agents=n_agents, n_items=n_items, weight=weights)


def check_range(cells: Cells) -> None:
    """Raises: StatisticsError [scores-range] naming the first score outside [−1, 1]."""
    if cells.low < -1 or cells.high > 1:
        row = int(np.argmax(np.abs(cells.score) > 1))
        raise StatisticsError(
            f"The score of row {row} (agent {cells.agent[row]}, item {cells.item[row]}) is {cells.score[row]}, outside "
            '[−1, 1]. A score is TPR − FPR: bring yours to that scale, or fit another scale with constraint="none".',
            slug="scores-range",
        )


def _weighted(cells: Cells, weights: RealColumn) -> Cells:
    low, high = float(weights.min()), float(weights.max())
    if not (low >= 0 and high < np.inf):
        row = int(np.argmin((weights >= 0) & (weights < np.inf)))
        raise StatisticsError(
            f"The weight of row {row} (agent {cells.agent[row]}, item {cells.item[row]}) is {weights[row]}. "
            "A weight counts answered trials: finite and not negative.",
            slug="weights-negative",
        )
    if high == 0:
        raise no_cells(f"{len(weights)} rows, none of positive weight")
    return cells if low > 0 else cells.where(weights > 0)


def _ids(ids: NDArray[Any], *, size: int, noun: str) -> IdColumn:
    if not np.issubdtype(ids.dtype, np.integer):
        raise StatisticsError(f"The {noun}s came as {ids.dtype}. Give their integer positions.", slug="cells-id")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= size:
        row = int(np.argmax((ids < 0) | (ids >= size)))
        raise StatisticsError(
            f"The {noun} of row {row} is {ids[row]}, but there are {size}. Give positions from 0 to {size - 1}.",
            slug="cells-id",
        )
    return ids if ids.dtype in (np.int32, np.int64) else ids.astype(np.int64)
