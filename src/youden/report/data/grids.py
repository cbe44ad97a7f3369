"""Prepare data for the figures of a report: matrices of agents and of cells, false-positive rates and held-out cells.

A large matrix is averaged over bins, so that a page stays small.
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
from youden.streams import standalone_stream
from youden.types.pool import Floats, Positions, ReadOnly

MAX_TILES = 12_000
"""Approximate number of cells above which a matrix is drawn in bins; the figure states it."""


@dataclass(frozen=True, eq=False)
class AgentGrid(ReadOnly):
    """Agreement of every ordered pair of agents, in two orders of the agents."""

    agents: tuple[str, ...]
    """Ids of the agents, by position."""
    value: Floats
    """float (n_agents, n_agents) in [−1, 1], mean of TPR − FPR over items; rows are the agents that are read first; NaN
    for pairs that were not compared.
    """
    by_rank: Positions
    """int64 (n_agents,), positions of the agents, best first."""
    by_cluster: Positions
    """int64 (n_agents,), positions of the agents, similar agents next to each other."""

    def tiles(self, order: Positions, *, max_tiles: int = MAX_TILES) -> tuple[Floats, tuple[str, ...], int]:
        """Average the agreement over tiles, with the agents in the given order.

        Parameters
        ----------
        order : int64 array (n_agents,)
            Positions of the agents.
        max_tiles : int, default 12,000
            Approximate maximum number of tiles.

        Returns
        -------
        value : float array (n_rows, n_rows)
            Mean of the known agreements in each tile; NaN if there are none.
        names : tuple of str
            Labels of the rows and columns.
        agents_per_tile : int
            Number of agents per row.
        """
        max_rows = math.isqrt(max_tiles)
        agents_per_tile = math.ceil(len(order) / max_rows)
        value = self.value[np.ix_(order, order)]
        if agents_per_tile > 1:
            value = bin_means(value, agents_per_tile, agents_per_tile)
        names = label_bins([self.agents[position] for position in order], agents_per_tile)
        return value, names, agents_per_tile


def make_agent_grid(evidence: Evidence, ranked: Sequence[str], *, fpr: float | None) -> AgentGrid:
    """Arrange the agreement of all ordered pairs of agents by rank and by similarity.

    Parameters
    ----------
    evidence : Evidence
        Tables of a run.
    ranked : sequence of str
        Ids of the agents, best first.
    fpr : float or None
        Pooled false-positive rate, which is subtracted unless each pair has its own rate; None subtracts nothing.

    Returns
    -------
    AgentGrid
        Agreement by position of the agents, and two orders of them: by rank, and by hierarchical clustering.
    """
    pooled_rate = 0.0 if evidence.own_rates else fpr or 0.0
    value = evidence.agreement - pooled_rate
    position_by_agent = {agent: position for position, agent in enumerate(evidence.agent_ids)}
    return AgentGrid(
        agents=evidence.agent_ids,
        value=value,
        by_rank=np.array([position_by_agent[agent] for agent in ranked], dtype=np.int64),
        by_cluster=cluster_order(value),
    )


def cluster_order(value: Floats) -> Positions:
    """Order agents so that agents that agree are next to each other, by average linkage.

    Parameters
    ----------
    value : float array (n_agents, n_agents)
        Agreement of ordered pairs. NaN is replaced by the mean of all pairs.

    Returns
    -------
    int64 array (n_agents,)
        Positions of the agents.

    Notes
    -----
    The distance of two agents is 1 − their mean agreement over both orders.
    """
    n_agents = len(value)
    if n_agents < 3:
        return np.arange(n_agents)
    overall = 0.0 if np.isnan(value).all() else float(np.nanmean(np.stack([value, value.T])))
    distance = 1 - average_orders(value, default=overall)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average")
    return np.asarray(leaves_list(tree), dtype=np.int64)


class CellGrid:
    """Scores of agents on items and their residuals, as matrices for drawing.

    Rows are agents, best first; columns are items, easiest first. A large matrix is averaged over bins.

    Attributes
    ----------
    score, residual : float array (n_rows, n_columns)
        Mean score, and mean score minus its prediction, of each tile; NaN if no cell was observed.
    rows, columns : tuple of str
        Labels of the rows and of the columns.
    agents_per_row, items_per_column : int
        Size of the bins.
    """

    def __init__(self, evidence: Evidence, ranked: Sequence[str], *, max_tiles: int = MAX_TILES) -> None:
        """Arrange the cells of a run; `ranked` are the ids of its agents, best first."""
        scores = evidence.scores
        position = {agent: k for k, agent in enumerate(scores.agent_ids)}
        agent_order = np.array([position[agent] for agent in ranked], dtype=np.int64)
        cells, value, _ = scores.cells
        n_scores = np.bincount(cells.item, minlength=cells.n_items)
        total = np.bincount(cells.item, value, cells.n_items)
        # items without a score come last
        mean_score = np.divide(total, n_scores, out=np.full(len(n_scores), -2.0), where=n_scores > 0)
        item_order = np.argsort(-mean_score, kind="stable")

        per_row, per_column = bin_sizes((cells.n_agents, cells.n_items), max_tiles)
        row = _assign_bins(agent_order, per_row, cells.n_agents)[cells.agent]
        column = _assign_bins(item_order, per_column, cells.n_items)[cells.item]
        shape = math.ceil(len(agent_order) / per_row), math.ceil(len(item_order) / per_column)
        residual = value - evidence.predicted.predict(cells.agent, cells.item)
        self.agents_per_row, self.items_per_column = per_row, per_column
        self.score = _tile_means(row, column, value, shape)
        self.residual = _tile_means(row, column, residual, shape)
        self.rows = label_bins([scores.agent_ids[i] for i in agent_order], per_row)
        self.columns = label_bins([scores.item_ids[j] for j in item_order], per_column)


def _assign_bins(order: Positions, size: int, n: int) -> Positions:
    """Assign each of `n` positions to a bin of `size` consecutive positions in `order`, int64 array (n,)."""
    bins = np.zeros(n, dtype=np.int64)
    bins[order] = np.arange(len(order)) // size
    return bins


def _tile_means(row: Positions, column: Positions, values: Floats, shape: tuple[int, int]) -> Floats:
    """Average values by tile, ignoring NaN: float array of `shape`, NaN for an empty tile.

    `row`, `column` and `values` are arrays (n_cells,): the tile of each cell, and its value.
    """
    n_rows, n_columns = shape
    valid = ~np.isnan(values)
    tile = (row * n_columns + column)[valid]
    n = np.bincount(tile, minlength=n_rows * n_columns)
    total = np.bincount(tile, values[valid], len(n))
    mean: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    return mean.reshape(shape)


def bin_sizes(shape: tuple[int, int], max_tiles: int) -> tuple[int, int]:
    """Choose how many agents and items share a bin, so that a matrix has at most about `max_tiles` tiles.

    `shape` is (n_agents, n_items).

    >>> bin_sizes((30, 200), 12_000), bin_sizes((200, 2000), 12_000)
    ((1, 1), (2, 17))
    """
    n_agents, n_items = shape
    agents_per_row = max(1, math.ceil(n_agents / 120))
    n_rows = math.ceil(n_agents / agents_per_row)
    items_per_column = max(1, math.ceil(n_items * n_rows / max_tiles))
    return agents_per_row, items_per_column


def bin_means(value: Floats, per_row: int, per_column: int) -> Floats:
    """Average a matrix over bins of `per_row` rows and `per_column` columns, ignoring NaN; an empty bin is NaN.

    >>> bin_means(np.array([[1.0, 3.0, np.nan], [np.nan, 2.0, np.nan]]), 2, 2)
    array([[ 2., nan]])
    """
    row_starts = np.arange(0, value.shape[0], per_row)
    column_starts = np.arange(0, value.shape[1], per_column)

    def sum_bins(matrix: Floats) -> Floats:
        row_sums = np.add.reduceat(matrix, row_starts, axis=0)
        return np.asarray(np.add.reduceat(row_sums, column_starts, axis=1))

    valid = ~np.isnan(value)
    total = sum_bins(np.where(valid, value, 0.0))
    n = sum_bins(valid.astype(np.float64))
    mean: Floats = np.divide(total, n, out=np.full_like(total, np.nan), where=n > 0)
    return mean


def average_orders(value: Floats, *, default: float) -> Floats:
    """Average each pair of agents over both orders, ignoring NaN.

    `value` is a float array (n_agents, n_agents), like the result. `default` is the result for a pair that is NaN in both
    orders.
    """
    orders = np.stack([value, value.T])
    total = np.nansum(orders, axis=0)
    n = (~np.isnan(orders)).sum(axis=0)
    return np.asarray(np.divide(total, n, out=np.full_like(value, default), where=n > 0))


def label_bins(names: Sequence[str], size: int) -> tuple[str, ...]:
    """Label bins of `size` consecutive names by "first … last", or by the name if a bin has only one."""
    labels = []
    for start in range(0, len(names), size):
        members = names[start : start + size]
        labels.append(members[0] if len(members) == 1 else f"{members[0]} … {members[-1]}")
    return tuple(labels)


FAMILYWISE_LEVEL = 0.95
"""Confidence level of the intervals of all agents together."""
MAX_POINTS = 3_000
"""Maximum number of held-out cells in a figure."""


@dataclass(frozen=True)
class FalseAlarm:
    """False-positive rate of an agent: yes-answers among its independent trials."""

    agent: str
    """Id of the agent."""
    n: int
    """Number of answered independent trials with a text of the agent."""
    n_yes: int
    """Number of yes-answers among them."""
    low: float
    """Lower simultaneous confidence bound of the rate."""
    high: float
    """Upper simultaneous confidence bound of the rate."""
    alarmed: bool
    """Whether a warning of the run names the agent, alone or in a pair."""

    @property
    def rate(self) -> float:
        """Fraction of yes-answers."""
        return self.n_yes / self.n


@dataclass(frozen=True, eq=False)
class HoldoutPoints(ReadOnly):
    """Predicted and observed scores of held-out cells, or of a sample of them."""

    predicted: Floats
    """float (n_points,), predicted scores."""
    observed: Floats
    """float (n_points,), observed scores."""
    n_cells: int
    """Number of held-out cells that could be predicted."""


def compute_false_alarms(counts: YesCounts, agent_ids: Sequence[str]) -> tuple[FalseAlarm, ...]:
    """Compute the false-positive rate of each agent that has an answered independent trial, highest rate first.

    Parameters
    ----------
    counts : YesCounts
        Numbers of independent trials and of yes-answers, by pair of agents.
    agent_ids : sequence of str
        Ids of the agents, by position.

    Returns
    -------
    tuple of FalseAlarm

    Notes
    -----
    Intervals are Clopper–Pearson intervals at the level 1 − .05/K (Bonferroni), so that all K intervals cover
    simultaneously with 95 %.
    """
    alarmed = {position for alarm in counts.find_alarms() for position in alarm.agents}
    # trials in which an agent comes first or second
    n = counts.n.sum(axis=0) + counts.n.sum(axis=1)
    n_yes = counts.n_yes.sum(axis=0) + counts.n_yes.sum(axis=1)
    tail = (1 - FAMILYWISE_LEVEL) / len(agent_ids) / 2
    low = np.where(n_yes > 0, betaincinv(np.maximum(n_yes, 1), n - n_yes + 1, tail), 0.0)
    high = np.where(n_yes < n, betaincinv(n_yes + 1, np.maximum(n - n_yes, 1), 1 - tail), 1.0)
    lines = [
        FalseAlarm(agent_ids[k], int(n[k]), int(n_yes[k]), float(low[k]), float(high[k]), alarmed=k in alarmed)
        for k in np.flatnonzero(n).tolist()
    ]
    return tuple(sorted(lines, key=lambda line: -line.rate))


def sample_holdout_points(evidence: Evidence) -> HoldoutPoints | None:
    """Sample at most `MAX_POINTS` held-out cells, and return their predicted and observed scores.

    Returns None if the run has no held-out cell that could be predicted.
    """
    if evidence.holdout is None:
        return None
    cells, observed, _ = evidence.holdout.cells
    order = cells.by_agent
    predicted = evidence.predicted.predict(cells.agent[order], cells.item[order])
    valid = np.flatnonzero(~np.isnan(predicted))
    if not len(valid):
        return None
    sample = standalone_stream(0).choice(valid, min(MAX_POINTS, len(valid)), replace=False)
    return HoldoutPoints(predicted[sample], observed[order[sample]], len(valid))
