"""Compare abilities pairwise, and derive ranks, a unique best agent and connected components from the comparisons.

All conclusions follow from the standard errors of differences. Intervals of single abilities are not compared with each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.special import stdtr, stdtrit

from youden.errors import StatisticsError
from youden.stats.base.array_likes import takes_array_likes
from youden.stats.base.clusters import ROUNDING, CentredCovariance, check_level
from youden.stats.base.metrics import RankRange
from youden.types.arguments import check_argument
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly


def agent_components(agent: Ids | Positions, item: Ids | Positions, *, n_agents: int, n_items: int) -> Ids:
    """Find the sets of agents that are connected by common items, directly or through other agents.

    A cell is an agent on an item. Agents of different sets cannot be compared.

    Parameters
    ----------
    agent, item : int array (n_cells,)
        Position of the agent and of the item of each cell, in any order.
    n_agents, n_items : int
        Numbers of agents and of items.

    Returns
    -------
    int32 array (n_agents,)
        Component (set of connected agents) of each agent, numbered from 0 in the order of the agents; −1 for an agent without a
        cell.

    Examples
    --------
    >>> agent_components(np.array([0, 2, 3]), np.array([1, 1, 0]), n_agents=4, n_items=2).tolist()
    [0, -1, 0, 1]
    """
    from scipy.sparse.csgraph import connected_components  # takes long to load, and few callers need it

    # a bipartite graph, whose nodes are all agents followed by all items; each cell is an edge
    n_nodes = n_agents + n_items
    item_node = n_agents + item
    edge_values = np.ones(len(agent), dtype=np.int8)
    graph = coo_array((edge_values, (agent, item_node)), shape=(n_nodes, n_nodes))
    _, label_of_node = connected_components(graph, directed=False)

    # labels of the agents with a cell, renumbered without gaps
    has_cell = np.bincount(agent, minlength=n_agents) > 0
    _, number = np.unique(label_of_node[:n_agents][has_cell], return_inverse=True)
    component = np.full(n_agents, -1, dtype=np.int32)
    component[has_cell] = number
    return component


def describe_components(component: Ids, *, by_pairs: bool = False) -> str:
    """Write a warning that the agents fall into several components, which cannot be compared with each other.

    A component is a set of agents that are connected, directly or through other agents. Two agents are connected by a shared
    item, or by comparisons with each other.

    Parameters
    ----------
    component : int array (n_agents,)
        Component of each agent, −1 for an agent without a score or comparison.
    by_pairs : bool, default False
        True if comparisons connect the agents, False if shared items do.

    Returns
    -------
    str
        Number and sizes of the components, and a remedy: comparisons or items that connect them. Empty if there is at most
        one component.
    """
    sizes = np.bincount(component[component >= 0])
    sizes = np.sort(sizes)[::-1]  # the largest first
    if len(sizes) < 2:
        return ""
    largest_sizes = ", ".join(map(str, sizes[:5]))
    if len(sizes) > 5:
        largest_sizes += ", …"
    if by_pairs:
        return (
            f"The agents fall into {len(sizes)} components (of {largest_sizes} agents) that no comparison links. "
            "Compare agents only within a component, or add comparisons that join them."
        )
    return (
        f"The cells fall into {len(sizes)} components (of {largest_sizes} agents) that share no agent and no item. "
        "Compare agents only within a component, or score cells that join them."
    )


@takes_array_likes
def holm(p_values: Floats) -> Floats:
    """Correct p-values for multiple testing by Holm's method.

    Parameters
    ----------
    p_values : float array (n_tests,)
        P-values in [0, 1].

    Returns
    -------
    float array (n_tests,)
        Corrected p-values in [0, 1], in the order of `p_values`.

    Raises
    ------
    StatisticsError
        [p-values] if the array is not one-dimensional, or a value is outside [0, 1].

    Notes
    -----
    The corrected p-value is the running maximum of (n − rank + 1)·p over ascending p. It controls the familywise error
    rate under any dependence.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6, 65–70.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    if p_values.ndim != 1:
        raise StatisticsError(
            f"P-values must be a one-dimensional array: got the shape {p_values.shape}. Pass a one-dimensional array.",
            slug="p-values",
        )
    outside = p_values[(p_values < 0) | (p_values > 1)]
    if len(outside):
        raise StatisticsError(
            f"P-values must be from 0 to 1: got {outside[0]}. Pass p-values, not test statistics.", slug="p-values"
        )

    order = np.argsort(p_values)
    n_remaining = np.arange(len(p_values), 0, -1)  # n − rank + 1
    corrected = np.empty_like(p_values)
    corrected[order] = np.maximum.accumulate(p_values[order] * n_remaining)
    return np.minimum(corrected, 1)


@dataclass(frozen=True, eq=False)
class Differences(ReadOnly):
    """Differences of abilities between all pairs of agents, row minus column.

    Each array is NaN (False in `significantly_better`) on the diagonal and for agents that cannot be compared.

    Attributes
    ----------
    value : float array (n_agents, n_agents)
        Differences θ_i − θ_k; 0 if they are within rounding.
    std_error : float array (n_agents, n_agents)
        Standard errors of the differences, with the covariance of both abilities.
    df : float array (n_agents, n_agents)
        Degrees of freedom of Student's t.
    half_width : float array (n_agents, n_agents)
        Half-widths of the confidence intervals at `level`.
    significantly_better : bool array (n_agents, n_agents)
        Whether the interval is above 0. For each pair, the probability of a wrong direction is at most (1 − level)/2.
    level : float
        Confidence level of each interval; there is no correction for the number of pairs. `simultaneously_better` has one.
    """

    value: Floats
    std_error: Floats
    df: Floats
    half_width: Floats
    significantly_better: Bools
    level: float

    def subset(self, agents: Positions) -> Differences:
        """Return the differences among some agents.

        Parameters
        ----------
        agents : int array (n,)
            Positions of the agents, in the order of the result.

        Returns
        -------
        Differences
            Arrays of the shape (n, n).
        """
        pairs = np.ix_(agents, agents)
        return Differences(
            self.value[pairs],
            self.std_error[pairs],
            self.df[pairs],
            self.half_width[pairs],
            self.significantly_better[pairs],
            self.level,
        )

    @property
    def significant(self) -> Bools:
        """Whether the interval of each pair excludes 0: bool array (n_agents, n_agents)."""
        return np.asarray(self.significantly_better | self.significantly_better.T)

    @property
    def one_sided_p(self) -> Floats:
        """P-values of the hypotheses that agent i is not better than agent k: float array (n_agents, n_agents).

        The p-values come from Student's t, without correction for the number of pairs. They are 1 for agents that cannot be
        compared.
        """
        is_estimated = ~np.isnan(self.half_width)
        difference = np.where(is_estimated, self.value, 0.0)

        # t is 0 for equal agents, even with the standard error 0; it is infinite for different agents with the standard error 0
        with np.errstate(divide="ignore"):
            t = np.divide(difference, self.std_error, out=np.zeros(difference.shape), where=difference != 0)
        df = np.where(is_estimated, self.df, 1.0)
        return np.where(is_estimated, stdtr(df, -t), 1.0)

    @property
    def p_holm(self) -> Floats:
        """P-values as in `one_sided_p`, adjusted for all ordered pairs by Holm's method; NaN for agents that cannot be compared.

        References
        ----------
        Holm (1979), Scandinavian Journal of Statistics 6, 65–70.
        """
        is_estimated = ~np.isnan(self.half_width)
        adjusted = np.full(is_estimated.shape, np.nan)
        adjusted[is_estimated] = holm(self.one_sided_p[is_estimated])
        return adjusted

    @property
    def simultaneously_better(self) -> Bools:
        """Whether each agent is better than each other agent, for all pairs jointly: bool array (n_agents, n_agents).

        The probability that any agent is wrongly called better is at most 1 − level, because `p_holm` decides.
        """
        return np.asarray(self.p_holm <= 1 - self.level)

    @property
    def marginal_ranks(self) -> RankRange:
        """Lower and upper bounds of a confidence interval of each agent's rank, int32 array (n_agents,) each.

        The intervals hold for one agent at a time: each contains the agent's rank with a probability of about `level`.

        Notes
        -----
        The lowest rank is 1 plus the number of better agents. The highest rank is n_agents minus the number of worse agents. An
        agent counts as better in any of three cases:

        - The shrunk difference of the two agents exceeds the half-width of its interval. Shrinkage multiplies all differences by
          one factor from 0 to 1, which is small if the differences are mostly due to sampling errors.
        - The agent is better at the confidence level for all pairs jointly.
        - The agent is the unique best agent.

        References
        ----------
        Gelman, Hill & Yajima (2012), J. Research on Educational Effectiveness 5 (shrinkage instead of correction).
        """
        shrunk_difference = self.value * self._compute_shrinkage_factor()
        is_better = (shrunk_difference > self.half_width) | self.simultaneously_better

        best_agent = self.unique_best
        if best_agent is not None:
            is_better[best_agent] = True
            is_better[best_agent, best_agent] = False
        return _compute_rank_range(is_better)

    def _compute_shrinkage_factor(self) -> float:
        """Compute the factor by which all differences between agents are shrunk to remove the effect of sampling errors.

        The factor is √(1 − Σ SE²/Σ difference²), with sums over all pairs of agents that can be compared. It is 0 if the errors
        are larger than the differences.
        """
        is_estimated = ~np.isnan(self.half_width)
        difference, std_error = self.value[is_estimated], self.std_error[is_estimated]
        sum_of_squared_differences = float((difference**2).sum())
        sum_of_squared_errors = float((std_error**2).sum())
        if sum_of_squared_errors >= sum_of_squared_differences:
            return 0.0
        return float(np.sqrt(1 - sum_of_squared_errors / sum_of_squared_differences))

    @property
    def simultaneous_ranks(self) -> RankRange:
        """Confidence intervals of all ranks jointly: int32 array (n_agents,) each.

        The probability that all of them contain the true ranks is at least `level`. An agent without an estimate may have any
        rank, and does not limit the ranks of other agents.

        Notes
        -----
        The lowest rank is 1 plus the number of agents that are simultaneously better. The highest rank is n_agents minus the
        number of agents that are simultaneously worse.

        References
        ----------
        Mogstad, Romano, Shaikh & Wilhelm (2024), Review of Economic Studies 91 (here with Holm's critical values).
        """
        return _compute_rank_range(self.simultaneously_better)

    @property
    def unique_best(self) -> int | None:
        """Position of the agent that is significantly better than all others; None if there is none.

        The intervals of its differences from all other agents must exclude 0. The probability of a false result is at most 1 −
        level. It is largest if exactly two agents share the highest ability.
        """
        n_agents = len(self.significantly_better)
        n_worse = self.significantly_better.sum(axis=1)
        is_best = n_worse == n_agents - 1
        return int(is_best.argmax()) if n_agents > 1 and is_best.any() else None


@takes_array_likes
def pairwise_differences(ability: Floats, covariance: CentredCovariance, *, level: float = 0.95) -> Differences:
    """Estimate the differences of abilities between all pairs of agents.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, NaN without an estimate.
    covariance : CentredCovariance
        Covariance of the same abilities.
    level : float, default 0.95
        Confidence level of each interval, in (0, 1). The intervals are not corrected for the number of pairs.

    Returns
    -------
    Differences
        Arrays (n_agents, n_agents), row minus column: the differences `value`, their `std_error`, degrees of freedom `df` and
        `half_width`, and `significantly_better`, whether the interval lies above 0. On the diagonal and for pairs that cannot be
        compared, `value`, `std_error` and `half_width` are NaN and `significantly_better` is False.

    Raises
    ------
    StatisticsError
        [comparison-shape]: if the covariance does not have the shape (n_agents, n_agents); [level]: unless 0 < level < 1.
    ConfigError
        [argument-type]: if `covariance` or `level` has a wrong type.

    Notes
    -----
    The interval of θ_i − θ_k is θ̂_i − θ̂_k ± t·√(C_ii + C_kk − 2C_ik), t with the smaller of both degrees of freedom.
    """
    check_level(level)
    check_argument(
        "covariance", covariance, CentredCovariance, "Pass the covariance of a fit, or make a CentredCovariance."
    )
    C = covariance.covariance
    if ability.ndim != 1 or C.shape != (len(ability), len(ability)):
        raise StatisticsError(
            f"The covariance does not fit the abilities: got the shape {C.shape} for {ability.shape}. Pass both from one fit.",
            slug="comparison-shape",
        )

    value = ability[:, None] - ability
    value[are_equal(ability[:, None], ability)] = 0.0

    # √(C_ii + C_kk − 2C_ik)
    variance = np.diag(C)
    std_error = np.sqrt(np.maximum(variance[:, None] + variance - 2 * C, 0))
    df = np.minimum(covariance.df[:, None], covariance.df)
    t = np.asarray(stdtrit(covariance.df, (1 + level) / 2), dtype=np.float64)
    half_width = np.maximum(t[:, None], t) * std_error  # the larger quantile belongs to the smaller df

    for table in (value, std_error, half_width):
        table[np.isnan(half_width) | np.isnan(value)] = np.nan
        np.fill_diagonal(table, np.nan)
    return Differences(value, std_error, df, half_width, np.asarray(value > half_width), level)


def rank_with_ties(ability: Floats) -> Ids:
    """Rank agents by ability, so that equal abilities share the best of their ranks.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities; differences within rounding count as ties, and NaN ranks last.

    Returns
    -------
    int32 array (n_agents,)
        Ranks from 1.

    Examples
    --------
    >>> rank_with_ties(np.array([0.3, 0.5, 0.5 + 1e-16, np.nan]))
    array([3, 1, 1, 4], dtype=int32)
    """
    filled = np.where(np.isnan(ability), -np.inf, ability)
    tolerance = ROUNDING * np.maximum(1, np.abs(np.nan_to_num(ability)))  # as in `are_equal`

    # the rank is 1 plus the number of agents that are better by more than the tolerance
    n_not_better = np.searchsorted(np.sort(filled), filled + tolerance, side="right")
    n_better = len(filled) - n_not_better
    return (1 + n_better).astype(np.int32)


def sort_best_first(ability: Floats) -> Positions:
    """Return the positions of agents by rank (`rank_with_ties`), int array (n_agents,); ties keep their order.

    The tolerance for ties is absolute for abilities below 1. If all are below 1, such as mean scores of an audit, they are
    divided by the largest one, so that their unit does not matter. The divisor is at least 1e-9, so that rounding errors of 0
    remain ties.

    Examples
    --------
    >>> sort_best_first(np.array([0.3, 0.5, 0.5 + 1e-16, np.nan])).tolist()
    [1, 2, 0, 3]
    """
    largest = np.max(np.abs(ability), where=~np.isnan(ability), initial=0)
    return np.argsort(rank_with_ties(ability / np.clip(largest, 1e-9, 1)), kind="stable")


def _compute_rank_range(is_better: Bools) -> RankRange:
    """Convert significant differences to the ranges of ranks that they allow.

    is_better : bool array (n_agents, n_agents), whether the agent of the row is better than the agent of the column
    """
    best = 1 + is_better.sum(axis=0)
    worst = len(is_better) - is_better.sum(axis=1)
    return RankRange(best.astype(np.int32), worst.astype(np.int32))


def are_equal(a: Floats, b: Floats) -> Bools:
    """Return elementwise whether abilities are equal up to rounding: |a − b| ≤ 1e-6·max(1, |a|, |b|). NaN is not."""
    tolerance = ROUNDING * np.maximum(1, np.maximum(np.abs(a), np.abs(b)))
    return np.asarray(np.abs(a - b) <= tolerance, dtype=np.bool_)
