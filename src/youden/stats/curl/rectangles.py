"""Count and sample complete rectangles of a score matrix: two agents and two items with all four cells observed.

Pairs of rows are drawn with probabilities proportional to their numbers of rectangles. Then some rectangles of each
drawn pair are drawn, so that all rectangles are equally likely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from youden.errors import StatisticsError
from youden.types.pool import Bools, Floats, Positions

_CELLS_PER_CHUNK = 2**20
"""Number of cells that stay in the cache of a processor."""
_DENSE_SPEEDUP = 256
"""Number of products in a dense matrix product that take as long as one product of two sparse entries."""
_SAMPLED_CELLS_PER_CHUNK = 2**22
N_PAIRS = 4096
N_PER_PAIR = 32
"""Default numbers of pairs of rows and of rectangles of each: 131,072 in all, for a standard error of a share of
about .003."""


def n_rectangles(observed: Bools) -> int:
    """Count the complete rectangles: two agents and two items whose four cells are True in `observed`."""
    n_shared = _RowPairs.from_mask(observed).n_shared
    return int((n_shared * (n_shared - 1) // 2).sum())


class _RowPairs(NamedTuple):
    """Pairs of rows of the shorter side of a matrix, and the number of columns in which both were observed.

    Attributes
    ----------
    rows : bool array (n_rows, n_columns)
        The matrix, transposed if it has more agents than items.
    upper, lower, n_shared : int64 array (n_pairs,)
        Positions of both rows, and number of their common columns.
    """

    rows: Bools
    upper: Positions
    lower: Positions
    n_shared: Positions

    @classmethod
    def from_mask(cls, observed: Bools) -> _RowPairs:
        """Make the pairs of the shorter side of a mask, bool array (n_agents, n_items)."""
        rows = observed if observed.shape[0] <= observed.shape[1] else observed.T
        upper, lower = np.triu_indices(len(rows), 1)
        return cls(rows, upper, lower, shared_columns(rows)[upper, lower])


def shared_columns(rows: Bools) -> Positions:
    """Count, for each pair of rows, the columns in which both were observed.

    Parameters
    ----------
    rows : bool array (n_rows, n_columns)
        Whether a cell was observed.

    Returns
    -------
    int64 array (n_rows, n_rows)

    Examples
    --------
    >>> shared_columns(np.array([[True, False], [True, True]])).tolist()
    [[1, 1], [1, 2]]
    """
    # The counts are the product of the matrix with its transpose. If few cells were observed, a sparse product is faster.
    n_rows, n_columns = rows.shape
    n_by_column = np.count_nonzero(rows, axis=0).astype(np.float64)
    n_sparse_products = (n_by_column**2).sum()
    n_dense_products = n_rows**2 * n_columns
    if _DENSE_SPEEDUP * n_sparse_products < n_dense_products:
        cells = csr_array(rows, dtype=np.int64)
        return np.asarray(csr_array(cells @ cells.T).toarray(), dtype=np.int64)

    # otherwise, sum the dense products of chunks of columns that fit into the cache of a processor
    n_chunk_columns = max(1, _CELLS_PER_CHUNK // max(n_rows, 1))
    n_shared = np.zeros((n_rows, n_rows))
    for start in range(0, n_columns, n_chunk_columns):
        chunk = rows[:, start : start + n_chunk_columns].astype(np.float32)
        n_shared += chunk @ chunk.T
    return np.rint(n_shared).astype(np.int64)


class Corners(NamedTuple):
    """Agents and items of sampled rectangles.

    Attributes
    ----------
    i, k : int64 array (n_pairs, n_per_pair)
        Positions of both agents.
    j, m : int64 array (n_pairs, n_per_pair)
        Positions of both items.
    n_all : int
        Number of complete rectangles of the matrix.
    """

    i: Positions
    k: Positions
    j: Positions
    m: Positions
    n_all: int

    def scores(self, score_at: Callable[[Positions, Positions], Floats]) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the scores of the cells (i, j), (k, j), (i, m) and (k, m), float array (n_pairs, n_per_pair) each.

        score_at : function of an array of agents and an array of items that returns the scores of these cells
        """
        i, k, j, m, _ = self
        return score_at(i, j), score_at(k, j), score_at(i, m), score_at(k, m)


def sample_rectangles(
    observed: Bools, *, rng: np.random.Generator, n_pairs: int = N_PAIRS, n_per_pair: int = N_PER_PAIR
) -> Corners:
    """Sample complete rectangles with replacement, all equally likely.

    A rectangle consists of two agents and two items. It is complete if all four cells were observed.

    Parameters
    ----------
    observed : bool array (n_agents, n_items)
        Whether a cell was observed.
    rng : numpy.random.Generator
        Source of the sample.
    n_pairs : int, default 4096
        Number of sampled pairs of rows. Rows are the shorter side of the matrix: agents or items; agents if both are equal.
    n_per_pair : int, default 32
        Number of rectangles that are sampled for each sampled pair.

    Returns
    -------
    Corners
        Positions of the agents `i` and `k` and of the items `j` and `m` of each rectangle, int64 arrays (n_pairs, n_per_pair),
        and the number `n_all` of all complete rectangles.

    Raises
    ------
    StatisticsError
        [curl-no-rectangles]: if there is no complete rectangle.
    """
    # pairs of rows, with probabilities proportional to their numbers of rectangles
    row_pairs = _RowPairs.from_mask(observed)
    n_shared = row_pairs.n_shared
    cumulative = np.cumsum(n_shared * (n_shared - 1) // 2)
    if not len(cumulative) or cumulative[-1] == 0:
        raise no_rectangles_error(observed)
    n_all = int(cumulative[-1])
    sampled = np.sort(cumulative.searchsorted(rng.integers(0, cumulative[-1], n_pairs), side="right"))

    # two different columns of each rectangle, as ranks among those that the pair shares
    size = n_shared[sampled][:, None]
    first_rank = rng.integers(0, size, (n_pairs, n_per_pair))
    second_rank = (first_rank + rng.integers(1, size, (n_pairs, n_per_pair))) % size
    j, m = _select_shared_columns_in_chunks(row_pairs, sampled, np.stack([first_rank, second_rank]))

    i = np.broadcast_to(row_pairs.upper[sampled][:, None], j.shape)
    k = np.broadcast_to(row_pairs.lower[sampled][:, None], j.shape)
    if row_pairs.rows is not observed:  # rows are items
        return Corners(i=j, k=m, j=i, m=k, n_all=n_all)
    return Corners(i, k, j, m, n_all)


def _select_shared_columns_in_chunks(
    row_pairs: _RowPairs, sampled_pairs: Positions, column_ranks: Positions
) -> Positions:
    """Find the two columns of each sampled rectangle from their ranks, in chunks of pairs of rows to save memory.

    A rectangle has two rows and two columns that were observed in both rows, their shared columns. The rank of a column is its
    position among the shared columns, from left to right.

    sampled_pairs : int64 array (n_pairs,), ascending positions in `row_pairs`, possibly repeated
    column_ranks : int64 array (2, n_pairs, n_per_pair), ranks from 0 of the first and of the second column of each rectangle

    Returns the positions of the columns, int64 array (2, n_pairs, n_per_pair).
    """
    n_columns = row_pairs.rows.shape[1]
    n_pairs_per_chunk = max(1, _SAMPLED_CELLS_PER_CHUNK // n_columns)

    # a chunk contains up to n_pairs_per_chunk distinct pairs with all their rectangles
    _, first_sample_of_pair = np.unique(sampled_pairs, return_index=True)
    chunk_starts = first_sample_of_pair[n_pairs_per_chunk::n_pairs_per_chunk]
    pair_chunks = np.split(sampled_pairs, chunk_starts)
    rank_chunks = np.split(column_ranks, chunk_starts, axis=1)

    column_chunks = [
        _select_shared_columns(row_pairs, pairs, ranks) for pairs, ranks in zip(pair_chunks, rank_chunks, strict=True)
    ]
    return np.concatenate(column_chunks, axis=1)


def _select_shared_columns(row_pairs: _RowPairs, sampled_pairs: Positions, column_ranks: Positions) -> Positions:
    """Find columns by their ranks among the shared columns of a pair of rows.

    A column is shared if it was observed in both rows. Rank 0 is the leftmost shared column.

    sampled_pairs : int64 array (n_pairs,), ascending positions in `row_pairs`, possibly repeated
    column_ranks : int64 array (2, n_pairs, n_per_pair), ranks from 0 of the first and of the second column of each rectangle

    Returns the positions of the columns, int64 array (2, n_pairs, n_per_pair).
    """
    distinct_pairs, index_of_pair = np.unique(sampled_pairs, return_inverse=True)
    upper, lower = row_pairs.upper[distinct_pairs], row_pairs.lower[distinct_pairs]

    # list the shared columns of all distinct pairs, one pair after the other
    is_shared = row_pairs.rows[upper] & row_pairs.rows[lower]
    _, shared_columns = np.nonzero(is_shared)
    n_shared = row_pairs.n_shared[distinct_pairs]
    start_of_pair = np.cumsum(n_shared) - n_shared

    # the index of a column in this list is the start of its pair plus its rank
    start_of_sample = start_of_pair[index_of_pair][:, None]  # (n_pairs, 1)
    index_in_list = start_of_sample + column_ranks
    return np.asarray(shared_columns[index_in_list])


def no_rectangles_error(observed: Bools) -> StatisticsError:
    """Make the error for scores without a complete rectangle of two agents and two items.

    observed : bool array (n_agents, n_items), cells with a score
    """
    n_agents, n_items = int(observed.any(axis=1).sum()), int(observed.any(axis=0).sum())
    if n_agents == 0:
        reason, remedy = "all cells are missing", "Check that the judge answered"
    elif n_agents == 1:
        reason, remedy = "a single agent has scores", "Add a second agent"
    elif n_items == 1:
        reason, remedy = "a single item has scores", "Add a second item"
    else:
        reason, remedy = "no two agents have two items in common", "Add scores of the same items for more agents"
    return StatisticsError(
        f"Curl needs two agents with scores of the same two items, but {reason}: got {int(observed.sum())} cells of "
        f"{observed.shape[0]} × {observed.shape[1]}. {remedy}.",
        slug="curl-no-rectangles",
    )
