"""Complete rectangles of a score matrix, two agents and two items of which all four cells were seen: counted, and drawn.

Pairs of rows are drawn by how many rectangles they hold, then some rectangles of each pair, so that every rectangle is as
likely as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from youden.errors import StatisticsError
from youden.types.pool import Bools, Floats, Positions

_AT_ONCE = 2**20
"""Cells of a block, which stays in a processor's cache."""
_PAIRS_AT_ONCE = 256
"""Products of whole blocks that take as long as one of two single cells."""
_AT_ONCE_OF_SAMPLED = 2**22
N_PAIRS = 4096
A_PAIR = 32
"""Rectangles drawn of each pair of rows: 131,072 in all, which know a share to about .003."""


def n_rectangles(observed: Bools) -> int:
    """How many complete rectangles bool[K, J] has."""
    n_shared = _Shared.of(observed).n
    return int((n_shared * (n_shared - 1) // 2).sum())


class _Shared(NamedTuple):
    """rows: bool[R, C], the shorter side first; upper, lower, n: every two of them, and how many columns they share."""

    rows: Bools
    upper: Positions
    lower: Positions
    n: Positions

    @classmethod
    def of(cls, observed: Bools) -> _Shared:
        rows = observed if observed.shape[0] <= observed.shape[1] else observed.T
        upper, lower = np.triu_indices(len(rows), 1)
        return cls(rows, upper, lower, shared_columns(rows)[upper, lower])


def shared_columns(rows: Bools) -> Positions:
    """How many columns every two rows of bool[R, C] share: int64[R, R]; from the cells alone where they are few.

    >>> shared_columns(np.array([[True, False], [True, True]])).tolist()
    [[1, 1], [1, 2]]
    """
    n = np.count_nonzero(rows, axis=0).astype(np.float64)
    if _PAIRS_AT_ONCE * (n**2).sum() < rows.size * len(rows):
        cells = csr_array(rows, dtype=np.int64)
        return np.asarray(csr_array(cells @ cells.T).toarray(), dtype=np.int64)
    step = max(1, _AT_ONCE // max(len(rows), 1))
    shared = np.zeros((len(rows), len(rows)))
    for start in range(0, rows.shape[1], step):
        part = rows[:, start : start + step].astype(np.float32)
        shared += part @ part.T
    return np.rint(shared).astype(np.int64)


class Corners(NamedTuple):
    """Rectangles by their rows and columns, int64[pairs, rectangles] each; how many complete ones there are in all."""

    i: Positions
    k: Positions
    j: Positions
    m: Positions
    n_all: int

    def scores(self, at: Callable[[Positions, Positions], Floats]) -> tuple[Floats, Floats, Floats, Floats]:
        """Of (i, j), (k, j), (i, m), (k, m), by a function of rows and columns."""
        i, k, j, m, _ = self
        return at(i, j), at(k, j), at(i, m), at(k, m)


def sample_rectangles(
    observed: Bools, *, rng: np.random.Generator, n_pairs: int = N_PAIRS, a_pair: int = A_PAIR
) -> Corners:
    """Complete rectangles of bool[K, J], drawn with replacement, each as likely as any other.

    O(K²J) for counting, K the shorter side, and n_pairs·J for the draw. Raises: StatisticsError [curl-no-rectangles].
    """
    rows, upper, lower, n_shared = _Shared.of(observed)
    ways = np.cumsum(n_shared * (n_shared - 1) // 2)
    if not len(ways) or ways[-1] == 0:
        raise no_rectangles(observed)
    chosen = np.sort(ways.searchsorted(rng.integers(0, ways[-1], n_pairs), side="right"))
    size = n_shared[chosen][:, None]
    first = rng.integers(0, size, (n_pairs, a_pair))
    second = (first + rng.integers(1, size, (n_pairs, a_pair))) % size
    j, m = np.empty_like(first), np.empty_like(first)
    pairs, start_of = np.unique(chosen, return_index=True)
    edges = [*start_of.tolist(), n_pairs]
    step = max(1, _AT_ONCE_OF_SAMPLED // rows.shape[1])
    for start in range(0, len(pairs), step):
        some = pairs[start : start + step]
        part = slice(edges[start], edges[start + len(some)])
        shared = np.flatnonzero(rows[upper[some]] & rows[lower[some]])
        begin = np.repeat(np.cumsum(n_shared[some]) - n_shared[some], np.diff(edges[start : start + len(some) + 1]))
        j[part], m[part] = (shared[begin[:, None] + which[part]] % rows.shape[1] for which in (first, second))
    i, k = (np.broadcast_to(side[chosen][:, None], first.shape) for side in (upper, lower))
    if rows is not observed:
        i, k, j, m = j, m, i, k
    return Corners(i, k, j, m, int(ways[-1]))


def no_rectangles(observed: Bools) -> StatisticsError:
    """The error for bool[K, J] without a complete rectangle, saying why there is none."""
    n_agents, n_items = int(observed.any(axis=1).sum()), int(observed.any(axis=0).sum())
    if n_agents == 0:
        why, then = "all cells are missing", "Check that the judge answered"
    elif n_agents == 1:
        why, then = "a single agent has scores", "Add a second agent"
    elif n_items == 1:
        why, then = "a single item has scores", "Add a second item"
    else:
        why, then = "no two agents have two items in common", "Score the same items for more agents"
    return StatisticsError(
        f"Curl needs two agents scored on the same two items, but {why} "
        f"({int(observed.sum())} of {observed.shape[0]} × {observed.shape[1]} cells seen). {then}.",
        slug="curl-no-rectangles",
    )
