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
MAX_ROWS = 120
"""Maximum number of rows of the matrix of agents and items."""


@dataclass(frozen=True, eq=False)
class AgentGrid(ReadOnly):
    """Agreement of every ordered pair of agents, in two orders of the agents."""

    agents: tuple[str, ...]
    """Ids of the agents, by position."""
    agreement: Floats
    """float (n_agents, n_agents) in [−1, 1], mean of TPR − FPR over items; rows are the agents that are read first; NaN
    for pairs that were not compared.
    """
    by_rank: Positions
    """int64 (n_agents,), positions of the agents, best first."""
    by_cluster: Positions
    """int64 (n_agents,), positions of the agents, similar agents next to each other."""

    def average_tiles(self, order: Positions, *, max_tiles: int = MAX_TILES) -> tuple[Floats, tuple[str, ...], int]:
        """Average the agreement over square tiles, so that a heat map of many agents stays readable.

        Agents are arranged in the given order. A tile contains the pairs of several consecutive agents (rows) with several
        consecutive agents (columns).

        Parameters
        ----------
        order : int64 array (n_agents,)
            Positions of the agents, in the order of the rows.
        max_tiles : int, default 12,000
            Maximum number of tiles. If there are no more pairs than this, each tile has one pair.

        Returns
        -------
        agreement : float array (n_rows, n_rows)
            Mean of the known agreements in each tile; NaN if there are none.
        names : tuple of str
            Label of each row, and of the column with the same number: the id of its agent, or "FIRST … LAST" for several agents.
        agents_per_tile : int
            Number of agents in a row or column of tiles; the last one may have fewer.
        """
        max_rows = math.isqrt(max_tiles)
        agents_per_tile = math.ceil(len(order) / max_rows)
        agreement = self.agreement[np.ix_(order, order)]
        if agents_per_tile > 1:
            agreement = average_bins(agreement, agents_per_tile, agents_per_tile)
        ordered_agents = [self.agents[position] for position in order]
        names = label_bins(ordered_agents, agents_per_tile)
        return agreement, names, agents_per_tile


def make_agent_grid(evidence: Evidence, ranked: Sequence[str], *, fpr: float | None) -> AgentGrid:
    """Arrange the agreement of all ordered pairs of agents for a heat map, by rank and by similarity.

    Parameters
    ----------
    evidence : Evidence
        Tables of a run, with the `agreement` of ordered pairs and the `agent_ids`.
    ranked : sequence of str
        Ids of all agents of the run, best first.
    fpr : float or None
        False-positive rate of all pairs together, to subtract from the agreement of each pair; None to subtract nothing. It is
        ignored if each pair has its own rate (`evidence.own_rates`), because `evidence` has already subtracted these rates.

    Returns
    -------
    AgentGrid
        `agreement`, float array (n_agents, n_agents), by position of the agents in the run (`evidence.agent_ids`). It is NaN on
        the diagonal and for pairs that were not compared. A row is the agent whose response is shown first. Also two orders of
        the agents, int64 arrays (n_agents,) of positions: `by_rank`, and `by_cluster`, by hierarchical clustering.

    Raises
    ------
    KeyError
        If an id in `ranked` is not an agent of the run.
    """
    agreement = evidence.agreement
    if fpr is not None and not evidence.own_rates:
        agreement = agreement - fpr

    position_by_agent = {agent: position for position, agent in enumerate(evidence.agent_ids)}
    positions_by_rank = [position_by_agent[agent] for agent in ranked]
    return AgentGrid(
        agents=evidence.agent_ids,
        agreement=agreement,
        by_rank=np.array(positions_by_rank, dtype=np.int64),
        by_cluster=order_by_similarity(agreement),
    )


def order_by_similarity(agreement: Floats) -> Positions:
    """Order agents by hierarchical clustering (average linkage), so that agents that agree are next to each other.

    Parameters
    ----------
    agreement : float array (n_agents, n_agents)
        Agreement of ordered pairs. NaN is replaced by the mean of all pairs.

    Returns
    -------
    int64 array (n_agents,)
        Positions of the agents, in the new order.

    Notes
    -----
    The distance of two agents is 1 − their mean agreement over both orders.
    """
    n_agents = len(agreement)
    if n_agents < 3:
        return np.arange(n_agents)
    mean_agreement = 0.0 if np.isnan(agreement).all() else float(np.nanmean(agreement))
    distance = 1 - average_orders(agreement, default=mean_agreement)
    np.fill_diagonal(distance, 0.0)
    cluster_tree = linkage(squareform(distance, checks=False), "average")
    return np.asarray(leaves_list(cluster_tree), dtype=np.int64)


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

        per_row, per_column = choose_bin_sizes((cells.n_agents, cells.n_items), max_tiles)
        row = _assign_bins(agent_order, per_row, cells.n_agents)[cells.agent]
        column = _assign_bins(item_order, per_column, cells.n_items)[cells.item]
        shape = math.ceil(len(agent_order) / per_row), math.ceil(len(item_order) / per_column)
        residual = value - evidence.predicted.predict(cells.agent, cells.item)
        self.agents_per_row, self.items_per_column = per_row, per_column
        self.score = _average_by_tile(row, column, value, shape)
        self.residual = _average_by_tile(row, column, residual, shape)
        self.rows = label_bins([scores.agent_ids[i] for i in agent_order], per_row)
        self.columns = label_bins([scores.item_ids[j] for j in item_order], per_column)


def _assign_bins(order: Positions, size: int, n: int) -> Positions:
    """Assign each of `n` positions to a bin of `size` consecutive positions in `order`, int64 array (n,)."""
    bins = np.zeros(n, dtype=np.int64)
    bins[order] = np.arange(len(order)) // size
    return bins


def _average_by_tile(row: Positions, column: Positions, values: Floats, shape: tuple[int, int]) -> Floats:
    """Return the mean value of the cells in each tile. NaN values are ignored.

    row, column : int arrays (n_cells,), row and column of the tile to which each cell belongs
    values : float array (n_cells,), values of the cells
    shape : numbers of rows and columns of tiles

    Returns a float array of this shape, NaN for an empty tile.
    """
    n_rows, n_columns = shape
    n_tiles = n_rows * n_columns
    is_valid = ~np.isnan(values)
    tile_of_cell = (row * n_columns + column)[is_valid]
    n_cells = np.bincount(tile_of_cell, minlength=n_tiles).astype(np.float64)
    total = np.asarray(np.bincount(tile_of_cell, values[is_valid], n_tiles), dtype=np.float64)
    return _divide_or_nan(total, n_cells).reshape(shape)


def _divide_or_nan(total: Floats, n: Floats) -> Floats:
    """Divide sums by numbers of values; NaN where the number is 0."""
    quotient: Floats = np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0)
    return quotient


def choose_bin_sizes(shape: tuple[int, int], max_tiles: int) -> tuple[int, int]:
    """Choose how many agents and items share a bin, so that a matrix has at most about `max_tiles` tiles.

    Parameters
    ----------
    shape : (int, int)
        Numbers of agents and items.
    max_tiles : int
        Approximate maximum number of tiles.

    Returns
    -------
    agents_per_row, items_per_column : int
        Numbers of agents and items per bin, at least 1.

    Examples
    --------
    >>> choose_bin_sizes((30, 200), 12_000), choose_bin_sizes((200, 2000), 12_000)
    ((1, 1), (2, 17))
    """
    n_agents, n_items = shape
    agents_per_row = max(1, math.ceil(n_agents / MAX_ROWS))
    n_rows = math.ceil(n_agents / agents_per_row)
    items_per_column = max(1, math.ceil(n_items * n_rows / max_tiles))
    return agents_per_row, items_per_column


def average_bins(value: Floats, per_row: int, per_column: int) -> Floats:
    """Average a matrix over bins of `per_row` rows and `per_column` columns, ignoring NaN.

    A bin without a value is NaN. The last bins of a row or column may be smaller.

    value : float array (n_rows, n_columns), not empty
    per_row, per_column : numbers of rows and of columns of a bin, at least 1

    Returns a float array (⌈n_rows/per_row⌉, ⌈n_columns/per_column⌉).

    >>> average_bins(np.array([[1.0, 3.0, np.nan], [np.nan, 2.0, np.nan]]), 2, 2)
    array([[ 2., nan]])
    """
    row_starts = np.arange(0, value.shape[0], per_row)
    column_starts = np.arange(0, value.shape[1], per_column)

    def sum_bins(matrix: Floats) -> Floats:
        row_sums = np.add.reduceat(matrix, row_starts, axis=0)
        return np.asarray(np.add.reduceat(row_sums, column_starts, axis=1))

    is_valid = ~np.isnan(value)
    total = sum_bins(np.where(is_valid, value, 0.0))
    n_valid = sum_bins(is_valid.astype(np.float64))
    return _divide_or_nan(total, n_valid)


def average_orders(value: Floats, *, default: float) -> Floats:
    """Average the values of each pair of agents over both orders, ignoring NaN.

    Parameters
    ----------
    value : float array (n_agents, n_agents)
        Value of each ordered pair.
    default : float
        Result for a pair that is NaN in both orders.

    Returns
    -------
    float array (n_agents, n_agents)
        A symmetric matrix.
    """
    orders = np.stack([value, value.T])
    total = np.nansum(orders, axis=0)
    n_valid = (~np.isnan(orders)).sum(axis=0)
    return np.asarray(np.divide(total, n_valid, out=np.full_like(value, default), where=n_valid > 0))


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
class FalsePositiveRate:
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


def compute_false_positive_rates(counts: YesCounts, agent_ids: Sequence[str]) -> tuple[FalsePositiveRate, ...]:
    """Compute the false-positive rate of each agent that has an answered independent trial, highest rate first.

    Parameters
    ----------
    counts : YesCounts
        Numbers of independent trials and of yes-answers, by pair of agents.
    agent_ids : sequence of str
        Ids of the agents, by position.

    Returns
    -------
    tuple of FalsePositiveRate
        Rate of each agent with its interval, and whether an alarm names the agent, alone or in a pair.

    Notes
    -----
    The intervals of K agents are Clopper–Pearson intervals at the level 1 − .05/K (Bonferroni). With a probability of at
    least 95%, all K intervals together contain the true rates.
    """
    agents_with_alarm = {position for alarm in counts.find_alarms() for position in alarm.agents}

    # counts are matrices (first agent, second agent), so the trials of an agent are in its row and in its column
    n_trials = counts.n.sum(axis=0) + counts.n.sum(axis=1)
    n_yes = counts.n_yes.sum(axis=0) + counts.n_yes.sum(axis=1)
    low, high = _compute_exact_bounds(n_trials, n_yes)
    rates = []
    for agent in np.flatnonzero(n_trials).tolist():
        rate = FalsePositiveRate(
            agent=agent_ids[agent],
            n=int(n_trials[agent]),
            n_yes=int(n_yes[agent]),
            low=float(low[agent]),
            high=float(high[agent]),
            alarmed=agent in agents_with_alarm,
        )
        rates.append(rate)
    rates.sort(key=lambda rate: -rate.rate)
    return tuple(rates)


def _compute_exact_bounds(n: Positions, n_yes: Positions) -> tuple[Floats, Floats]:
    """Compute the bounds of Clopper–Pearson intervals of n_yes / n at the level 1 − .05/K (Bonferroni): arrays (K,)."""
    # the bounds are quantiles of beta distributions
    tail = (1 - FAMILYWISE_LEVEL) / len(n) / 2
    n_no = n - n_yes
    low = np.where(n_yes > 0, betaincinv(np.maximum(n_yes, 1), n_no + 1, tail), 0.0)
    high = np.where(n_no > 0, betaincinv(n_yes + 1, np.maximum(n_no, 1), 1 - tail), 1.0)
    return low, high


def sample_holdout_points(evidence: Evidence) -> HoldoutPoints | None:
    """Sample at most `MAX_POINTS` held-out scores at random, each with the score that the fit predicts for it.

    Returns None if the run has no held-out scores, or if the fit can predict none of them.
    """
    if evidence.holdout is None:
        return None

    # scores of held-out cells (combinations of an agent and an item), in a fixed order, so that the sample is reproducible
    cells, unsorted_scores, _weights = evidence.holdout.cells
    order = cells.by_agent
    observed = unsorted_scores[order]
    predicted = evidence.predicted.predict(cells.agent[order], cells.item[order])
    predictable = np.flatnonzero(~np.isnan(predicted))
    n_predictable = len(predictable)
    if n_predictable == 0:
        return None

    n_points = min(MAX_POINTS, n_predictable)
    sample = standalone_stream(0).choice(predictable, n_points, replace=False)
    return HoldoutPoints(predicted[sample], observed[sample], n_predictable)
