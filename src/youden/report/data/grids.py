"""Matrices of agents by agents and by items as they are drawn, binned where they are large, and what is drawn beside them: false
alarms of single agents, predictions of held-out cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from scipy.special import betaincinv

from youden.report.data.evidence import Evidence
from youden.stats.trials.false_positives import YesCounts
from youden.streams import own_stream
from youden.types.pool import Floats, Positions, ReadOnly

MAX_TILES = 12_000
"""Above so many cells a heatmap is drawn in bins, and says so."""


@dataclass(frozen=True, eq=False)
class AgentGrid(ReadOnly):
    """How often the judge saw two agents' responses to one item as one source, less the false-positive rate.

    value: float[K, K] in [−1, 1], mean of D over items, first-read agent by row; NaN where never asked.
    by_cluster: int64[K], positions of agents so that like stands beside like; by_rank: the same, best first.
    """

    agents: tuple[str, ...]
    value: Floats
    by_rank: Positions
    by_cluster: Positions

    def tiles(self, order: Positions, *, max_tiles: int = MAX_TILES) -> tuple[Floats, tuple[str, ...], int]:
        """Return values, names and agents per tile in this order of agents, as means over at most about `max_tiles` tiles."""
        per_tile = -(-len(order) // math.isqrt(max_tiles))
        value = self.value[np.ix_(order, order)]
        names = edges([self.agents[position] for position in order], per_tile)
        return value if per_tile == 1 else binned(value, per_tile, per_tile), names, per_tile


def agent_grid(evidence: Evidence, ranked: Sequence[str], *, fpr: float | None) -> AgentGrid:
    """The agent × agent matrix in the order of `ranked` and clustered. fpr: subtracted where a plan pools it."""
    value = evidence.agreement - (0.0 if evidence.own_rates else fpr or 0.0)
    place = {agent: position for position, agent in enumerate(evidence.agent_ids)}
    return AgentGrid(
        agents=evidence.agent_ids,
        value=value,
        by_rank=np.array([place[agent] for agent in ranked], dtype=np.int64),
        by_cluster=cluster_order(value),
    )


def cluster_order(value: Floats) -> Positions:
    """Positions 0 … K−1 so that agents that agree stand together: average linkage on 1 − mean of both orders.

    value: float[K, K], NaN is unseen and counts as the mean of what was seen.
    """
    K = len(value)
    if K < 3:
        return np.arange(K)
    overall = 0.0 if np.isnan(value).all() else float(np.nanmean(np.stack([value, value.T])))
    distance = 1 - mean_of_both(value, unseen=overall)
    np.fill_diagonal(distance, 0.0)
    return np.asarray(leaves_list(linkage(squareform(distance, checks=False), "average")), dtype=np.int64)


class CellGrid:
    """Scores of agents on items and what the fit does not explain of them, float (rows, columns), NaN if never seen.

    Rows are agents, best first, columns items, easiest first. A tile of a binned grid is the mean of what was seen of
    `agents_per_row` agents on `items_per_column` items.
    """

    def __init__(self, evidence: Evidence, ranked: Sequence[str], *, max_tiles: int = MAX_TILES) -> None:
        scores = evidence.scores
        position = {agent: k for k, agent in enumerate(scores.agent_ids)}
        rows = np.array([position[agent] for agent in ranked], dtype=np.int64)
        at, value, _ = scores.cells
        n = np.bincount(at.item, minlength=at.n_items)
        ease = np.divide(np.bincount(at.item, value, at.n_items), n, out=np.full(len(n), -2.0), where=n > 0)
        columns = np.argsort(-ease, kind="stable")
        per_row, per_column = self.agents_per_row, self.items_per_column = bin_sizes(
            (at.n_agents, at.n_items), max_tiles
        )
        tile = _bins(rows, per_row, at.n_agents)[at.agent], _bins(columns, per_column, at.n_items)[at.item]
        shape = -(-len(rows) // per_row), -(-len(columns) // per_column)
        self.score = _tile_means(tile, value, shape)
        self.residual = _tile_means(tile, value - evidence.predicted.at(at.agent, at.item), shape)
        self.rows = edges([scores.agent_ids[i] for i in rows], per_row)
        self.columns = edges([scores.item_ids[j] for j in columns], per_column)


def _bins(order: Positions, size: int, n: int) -> Positions:
    """The bin of each of n, by its place in `order`: int64[n]."""
    bins = np.zeros(n, dtype=np.int64)
    bins[order] = np.arange(len(order)) // size
    return bins


def _tile_means(tile: tuple[Positions, Positions], values: Floats, shape: tuple[int, int]) -> Floats:
    """Means of float[N], less NaN, by the tile that each stands in; NaN where nothing does."""
    known = ~np.isnan(values)
    place = (tile[0] * shape[1] + tile[1])[known]
    n = np.bincount(place, minlength=shape[0] * shape[1])
    total = np.bincount(place, values[known], len(n))
    mean: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    return mean.reshape(shape)


def bin_sizes(shape: tuple[int, int], max_tiles: int) -> tuple[int, int]:
    """Agents a row and items a column so that at most about `max_tiles` tiles remain; the longer side is binned first.

    >>> bin_sizes((30, 200), 12_000), bin_sizes((200, 2000), 12_000)
    ((1, 1), (2, 17))
    """
    K, J = shape
    per_row = max(1, -(-K // 120))
    per_column = max(1, -(-J * -(-K // per_row) // max_tiles))
    return per_row, per_column


def binned(value: Floats, per_row: int, per_column: int) -> Floats:
    """Means over blocks of cells, of what was seen; NaN where nothing was.

    >>> binned(np.array([[1.0, 3.0, np.nan], [np.nan, 2.0, np.nan]]), 2, 2)
    array([[ 2., nan]])
    """
    seen = ~np.isnan(value)
    starts = np.arange(0, value.shape[0], per_row), np.arange(0, value.shape[1], per_column)
    total, n = (
        np.add.reduceat(np.add.reduceat(part, starts[0], axis=0), starts[1], axis=1)
        for part in (np.where(seen, value, 0.0), seen.astype(np.float64))
    )
    mean: Floats = np.divide(total, n, out=np.full_like(total, np.nan), where=n > 0)
    return mean


def mean_of_both(value: Floats, *, unseen: float) -> Floats:
    """The mean of both orders of float[K, K], of what was seen."""
    stack = np.stack([value, value.T])
    n = (~np.isnan(stack)).sum(axis=0)
    return np.asarray(np.divide(np.nansum(stack, axis=0), n, out=np.full_like(value, unseen), where=n > 0))


def edges(names: Sequence[str], size: int) -> tuple[str, ...]:
    """What stands at the edge of a matrix in bins of `size`: `first … last` of each bin."""
    if size == 1:
        return tuple(names)
    blocks = [names[start : start + size] for start in range(0, len(names), size)]
    return tuple(f"{block[0]} … {block[-1]}" if len(block) > 1 else block[0] for block in blocks)


FAMILY_LEVEL = 0.95
MAX_POINTS = 3_000
"""Held-out cells drawn at most."""


@dataclass(frozen=True)
class FalseAlarm:
    """Yes-answers among the independent trials an agent takes part in on either side.

    low, high: exact interval of the rate, wide enough to hold for all agents at once. alarmed: a warning of the run names the
    agent, alone or in a pair.
    """

    agent: str
    n: int
    n_yes: int
    low: float
    high: float
    alarmed: bool

    @property
    def rate(self) -> float:
        return self.n_yes / self.n


@dataclass(frozen=True, eq=False)
class HoldoutPoints(ReadOnly):
    """Held-out cells as predicted and as observed, float[n] each; n_cells: how many there are, of which n are drawn."""

    predicted: Floats
    observed: Floats
    n_cells: int


def false_alarms(counts: YesCounts, agent_ids: Sequence[str]) -> tuple[FalseAlarm, ...]:
    """One line for each agent with independent trials that answered, the highest rate first; alarms are those of `YesCounts`.

    Intervals are Clopper–Pearson at 1 − .05/K, so that all of them hold together with 95 %.
    """
    K = len(agent_ids)
    named = {position for alarm in counts.alarms() for position in alarm.agents}
    n, n_yes = (table.sum(axis=0) + table.sum(axis=1) for table in (counts.n, counts.n_yes))
    tail = (1 - FAMILY_LEVEL) / K / 2
    lower = np.where(n_yes > 0, betaincinv(np.maximum(n_yes, 1), n - n_yes + 1, tail), 0.0)
    upper = np.where(n_yes < n, betaincinv(n_yes + 1, np.maximum(n - n_yes, 1), 1 - tail), 1.0)
    lines = [
        FalseAlarm(agent_ids[i], int(n[i]), int(n_yes[i]), float(lower[i]), float(upper[i]), alarmed=i in named)
        for i in np.flatnonzero(n).tolist()
    ]
    return tuple(sorted(lines, key=lambda line: -line.rate))


def holdout_points(evidence: Evidence) -> HoldoutPoints | None:
    """Predictions of held-out cells beside what was observed; None without a holdout or a fit."""
    if evidence.holdout is None:
        return None
    at, held, _ = evidence.holdout.cells
    order = at.by_agent
    predicted = evidence.predicted.at(at.agent[order], at.item[order])
    known = np.flatnonzero(~np.isnan(predicted))
    if not len(known):
        return None
    drawn = own_stream(0).choice(known, min(MAX_POINTS, len(known)), replace=False)
    return HoldoutPoints(predicted[drawn], held[order[drawn]], len(known))
