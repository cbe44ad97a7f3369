"""Who agrees with whom beside what their abilities explain of it, best agents first, and the pairs that agree far beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from youden.nouns.arrays import Bools, Floats, freeze
from youden.report.data.grids import binned, edges
from youden.stats.robust.links import Linked
from youden.stats.robust.pair_means import PairMeans

MOST_A_SIDE = 100
"""Above so many agents the matrices are drawn in bins, and say so."""


@dataclass(frozen=True)
class BeyondPair:
    """Two linked agents: how often they agree, and how far that is above a_i + a_k; both may be NaN for clones told by texts."""

    first: str
    second: str
    agreement: float
    residual: float


@dataclass(frozen=True, eq=False)
class PairGrid:
    """float[n, n] each, agents best first, by `agents_per_row`; NaN where two never met.

    agreement: of pairs, both orders, items' own means taken off; residual: less a_i + a_k; linked: bool[n, n], a tile with a
    linked pair. names: at the edges. clusters: agents linked to each other; beyond: their pairs, the largest residual first.
    """

    names: tuple[str, ...]
    agreement: Floats
    residual: Floats
    linked: Bools
    agents_per_row: int
    clusters: tuple[tuple[str, ...], ...]
    beyond: tuple[BeyondPair, ...]

    def __post_init__(self) -> None:
        freeze([self.agreement, self.residual, self.linked])


def pair_grid(
    of: PairMeans, found: Linked, agents: Sequence[str], ranked: Sequence[str], *, most: int = MOST_A_SIDE
) -> PairGrid:
    """agents: ids in matrix order; ranked: the same, best first."""
    place = {agent: k for k, agent in enumerate(agents)}
    order = np.array([place[agent] for agent in ranked], dtype=np.int64)
    square = np.ix_(order, order)
    size = max(1, -(-len(order) // most))
    off = ~np.eye(len(order), dtype=np.bool_)
    agreement, residual = (np.where(off, matrix[square], np.nan) for matrix in (of.mean, found.residual))
    first, second = np.nonzero(np.triu(found.linked & ~np.eye(len(agents), dtype=np.bool_)))
    beyond = [
        BeyondPair(agents[i], agents[k], float(of.mean[i, k]), float(found.residual[i, k]))
        for i, k in zip(first.tolist(), second.tolist(), strict=True)
    ]
    return PairGrid(
        names=edges(ranked, size),
        agreement=binned(agreement, size, size),
        residual=binned(residual, size, size),
        linked=binned((found.linked[square] & off).astype(np.float64), size, size) > 0,
        agents_per_row=size,
        clusters=tuple(tuple(agents[k] for k in cluster) for cluster in found.clusters),
        beyond=tuple(sorted(beyond, key=lambda pair: -np.nan_to_num(pair.residual))),
    )
