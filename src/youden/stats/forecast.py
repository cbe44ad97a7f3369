"""Forecast the half-widths of intervals for a number of blocks, and the blocks or items that a half-width needs.

The variance of an ability has three components, agent × item, residual and a constant. With p_j the share of item j in
an agent's n trials, it is agent_item·Σ_j p_j² + residual/n + constant. More trials on the same items reduce only the
second term, and only more items reduce the first. A block compares each agent twice on one item, and block s is on item
s mod J, for J items.

Before a run has answers, `reference_data` has components to forecast from.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from youden.stats.base.clusters import PRIOR_CLUSTERS
from youden.stats.trials.trial_errors import InfluenceTable
from youden.types.pool import Floats


class AgentVariances(NamedTuple):
    """Variance components of each agent.

    Attributes
    ----------
    agent_item : float array (n_agents,)
        Variance of the agent's effect on an item, at least 0.
    residual : float array (n_agents,)
        Variance of a trial on a given item, at least 0.
    constant : float array (n_agents,), optional
        Variance that neither more trials nor more items reduce. Default: 0.
    """

    agent_item: Floats
    residual: Floats
    constant: Floats = np.zeros(())


def estimate_components(influence: InfluenceTable, variance: Floats) -> AgentVariances:
    """Split the variances of abilities into agent × item and residual components.

    Parameters
    ----------
    influence : InfluenceTable
        Influence of the items on the abilities, with weights and numbers of trials.
    variance : float array (n_agents,)
        Variances of the abilities over items; NaN if unknown.

    Returns
    -------
    AgentVariances
        Components that reproduce `variance`. An agent of unknown variance gets the mean components of the others.

    Notes
    -----
    The moment estimate of agent_item is (v_i − (K − 2)/K·within_i/n_i)/Σ_j p_ij², with within_i the variance of the
    agent's n_i trials on a given item. The factor (K − 2)/K is there because the residuals of a block of K trials sum
    to 0. The estimates are shrunk towards their mean by the share of their variance that is sampling variance
    (2v²/n_items for each agent), and limited to [0, v/Σp²]. The residual component is the remainder of v, times n.

    Examples
    --------
    >>> e = np.array([[0.1, -0.1], [-0.1, 0.1], [0.0, 0.0]])
    >>> influence = InfluenceTable(np.zeros(3), e / 2, np.full((3, 2), 0.5), np.full((3, 2), 2.0), np.full(3, 0.06))
    >>> components = estimate_components(influence, np.full(3, 0.02))
    >>> components.agent_item.round(3).tolist(), components.residual.round(3).tolist()
    ([0.03, 0.03, 0.03], [0.02, 0.02, 0.02])
    """
    is_known = ~np.isnan(variance) & (influence.weight.sum(axis=1) > 0)
    agent_item, residual = np.zeros(len(variance)), np.zeros(len(variance))
    if not is_known.any():
        return AgentVariances(agent_item, residual)

    # arrays over the agents of known variance
    known_variance, share = variance[is_known], influence.weight[is_known]
    share_squares = (share**2).sum(axis=1)
    n_trials = influence.n_trials[is_known].sum(axis=1)
    K = int(is_known.sum())

    # An agent without two trials on an item gets the mean variance within items of the others.
    # If no agent has two, the components cannot be separated, and the whole variance counts as residual.
    within_variance = influence.within_item_variance[is_known]
    is_measured = ~np.isnan(within_variance)
    if is_measured.any():
        within_variance = np.where(is_measured, within_variance, within_variance[is_measured].mean())
        estimate = (known_variance - (K - 2) / K * within_variance / n_trials) / share_squares

        n_items = (share > 0).sum(axis=1)
        sampling_variance = float((2 * known_variance**2 / n_items / share_squares**2).mean())
        shrunk = _shrink_to_mean(estimate, sampling_variance)
        agent_item[is_known] = np.clip(shrunk, 0, known_variance / share_squares)

    residual[is_known] = (known_variance - agent_item[is_known] * share_squares) * n_trials
    agent_item[~is_known] = agent_item[is_known].mean()
    residual[~is_known] = residual[is_known].mean()
    return AgentVariances(agent_item, residual)


def _shrink_to_mean(estimate: Floats, sampling_variance: float) -> Floats:
    """Shrink estimates towards their mean by their reliability, the share of their variance that is not sampling variance.

    A negative mean is replaced by 0.

    estimate : float array (n_agents,)
    sampling_variance : sampling variance of an estimate

    Returns an array of the same shape.
    """
    mean = max(0.0, float(estimate.mean()))
    total_variance = float(estimate.var())
    reliability = 0.0
    if total_variance > 0:
        reliability = max(0.0, 1 - sampling_variance / total_variance)
    return np.asarray(mean + reliability * (estimate - mean))


LEVEL = 0.95
"""Confidence level of all forecast intervals."""
MAX_ITEMS = 10_000_000
"""Largest number of items that a search considers."""


def item_share_squares(n_blocks: int, n_items: int) -> float:
    """Compute Σ_j p_j², with p_j the share of item j in the blocks of a cyclic plan.

    In a block, each agent has two trials on one item. The result is 1/n_blocks if no item has two blocks, and 1/n_items if all
    items have equally many blocks.

    Examples
    --------
    >>> [item_share_squares(n, 100) for n in (50, 100, 1000)]
    [0.02, 0.01, 0.01]
    """
    blocks_per_item, n_with_one_more = divmod(n_blocks, n_items)
    squares = (n_items - n_with_one_more) * blocks_per_item**2 + n_with_one_more * (blocks_per_item + 1) ** 2
    return float(squares / n_blocks**2)


def half_widths(components: AgentVariances, n_blocks: int, n_items: int) -> Floats:
    """Forecast the half-widths of the agents' 95% intervals from variance components, for a plan of a given size.

    The variance of an ability is the sum of three components: more items reduce the agent × item component, more trials reduce
    the residual component, and the third one is constant. The items count as a sample of similar items.

    Parameters
    ----------
    components : AgentVariances
        Variance components `agent_item`, `residual` and `constant` of the agents, float arrays (n_agents,) at least 0.
    n_blocks, n_items : int
        Numbers of blocks and of items of the plan, at least 1. In a block, each agent has 2 trials on one item. All items have
        the same number of blocks, up to a difference of 1.

    Returns
    -------
    float array (n_agents,)
        t·√(agent_item·Σ_j p_j² + residual/(2·n_blocks) + constant), in the unit of abilities. p_j is the share of item j in the
        blocks. t is the 0.975 quantile of Student's t with min(n_blocks, n_items) − 1 + `PRIOR_CLUSTERS` (6) degrees of freedom.
    """
    agent_item_part = components.agent_item * item_share_squares(n_blocks, n_items)
    n_trials_of_agent = 2 * n_blocks
    residual_part = components.residual / n_trials_of_agent
    variance = agent_item_part + residual_part + components.constant

    df = min(n_blocks, n_items) - 1 + PRIOR_CLUSTERS
    t_quantile = stdtrit(df, (1 + LEVEL) / 2)
    return np.asarray(t_quantile * np.sqrt(variance))


def half_width_quantile(half_width: Floats, fraction: float) -> float:
    """Find the half-width that a fraction of the agents does not exceed.

    Parameters
    ----------
    half_width : float array (n_agents,)
        Half-widths; NaN if an agent has none.
    fraction : float in (0, 1]
        Fraction of the agents.

    Returns
    -------
    float
        The quantile; ∞ if too few agents have a half-width.

    Examples
    --------
    >>> half_width_quantile(np.array([0.3, 0.1, 0.2, np.nan]), 0.5), half_width_quantile(np.array([0.3, np.nan]), 1.0)
    (0.2, inf)
    """
    ordered = np.sort(np.nan_to_num(half_width, nan=np.inf))
    n_needed = ceil(fraction * len(ordered) - 1e-9)  # 0.07·100 is slightly above 7 in floating point
    return float(ordered[n_needed - 1])


def find_min_blocks(
    components: AgentVariances, half_width: float, *, fraction: float, n_items: int, max_blocks: int
) -> int | None:
    """Find the smallest number of blocks of a plan with which the agents' intervals are narrow enough.

    In a block, each agent has 2 trials on one item.

    Parameters
    ----------
    components : AgentVariances
        Variance components `agent_item`, `residual` and `constant` of the agents, float arrays (n_agents,) at least 0.
    half_width : float
        Half-width of the 95% interval to reach or to fall below, in the unit of abilities.
    fraction : float in (0, 1]
        Fraction of the agents that must reach the half-width; the number of agents is rounded up.
    n_items : int
        Number of items, at least 1. Blocks are divided evenly among them.
    max_blocks : int
        Largest number of blocks to consider.

    Returns
    -------
    int or None
        Number of blocks, at least 2; None if `max_blocks` do not suffice, or if it is below 2.
    """

    def suffices(n_blocks: int) -> bool:
        forecast = half_widths(components, n_blocks, n_items)
        return half_width_quantile(forecast, fraction) <= half_width

    return find_smallest(suffices, max_blocks)


def find_min_items(
    components: AgentVariances, half_width: float, *, fraction: float, blocks_per_item: int
) -> int | None:
    """Find the smallest number of items on which the agents' intervals can be narrow enough.

    All possible blocks on each item are judged.

    Parameters
    ----------
    components : AgentVariances
        Variance components `agent_item`, `residual` and `constant` of the agents, float arrays (n_agents,) at least 0.
    half_width : float
        Half-width of the 95% interval to reach or to fall below, in the unit of abilities.
    fraction : float in (0, 1]
        Fraction of the agents that must reach the half-width; the number of agents is rounded up.
    blocks_per_item : int
        Number of blocks on each item, at least 1: n_agents − 1 if every pair of agents is compared in both orders.

    Returns
    -------
    int or None
        Number of items, at least 2; None if `MAX_ITEMS` (10 million) do not suffice.
    """

    def suffices(n_items: int) -> bool:
        n_blocks = n_items * blocks_per_item
        forecast = half_widths(components, n_blocks, n_items)
        return half_width_quantile(forecast, fraction) <= half_width

    return find_smallest(suffices, MAX_ITEMS)


def find_smallest(suffices: Callable[[int], bool], limit: int) -> int | None:
    """Find the smallest number from 2 to `limit` that suffices, by bisection; None if `limit` does not suffice.

    suffices : function that is False up to some number and True above it
    """
    if limit < 2 or not suffices(limit):
        return None

    too_small = 1
    large_enough = limit
    while large_enough - too_small > 1:
        midpoint = (too_small + large_enough) // 2
        if suffices(midpoint):
            large_enough = midpoint
        else:
            too_small = midpoint
    return large_enough


def min_regret_bound(components: AgentVariances, n_items: int) -> float:
    """Compute the smallest regret bound that a number of items allows, however many trials there are.

    The regret bound is an upper confidence bound on how much better the best agent is than the selected one. Here it is the bound
    for two agents with equal abilities.

    Parameters
    ----------
    components : AgentVariances
        Variance components of one agent: arrays of the shape (1,).
    n_items : int
        Number of items, at least 2.

    Returns
    -------
    float
        Half-width of the 95% interval of the difference of both abilities, if only the agent × item component is left.
    """
    t_quantile = stdtrit(n_items - 1, (1 + LEVEL) / 2)
    std_error = np.sqrt(2 * components.agent_item[0] / n_items)  # of the difference of two abilities
    return float(t_quantile * std_error)


def half_width_for_regret(max_regret: float, n_agents: int) -> float:
    """Compute the half-width that abilities need so that a selection among equal agents has a given regret bound.

    The regret bound is a simultaneous upper 95% confidence bound on how much better the best agent is than the selected one.

    Parameters
    ----------
    max_regret : float
        Regret bound to reach.
    n_agents : int
        Number of agents, at least 2, with equally many trials.

    Returns
    -------
    float
        Half-width of the 95% interval of each ability, in the unit of `max_regret`.
    """
    # The regret bound is bonferroni·√2·SE and the half-width z·SE, with SE the standard error of an ability.
    bonferroni = -ndtri((1 - LEVEL) / (n_agents - 1))
    z = ndtri((1 + LEVEL) / 2)
    return float(max_regret * z / (np.sqrt(2) * bonferroni))
