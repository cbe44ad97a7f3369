"""Forecast the half-widths of intervals for a number of blocks, and the blocks or items that a half-width needs.

The variance of an ability has two components, agent × item and residual. With p_j the share of item j in an agent's n
trials, it is agent_item·Σ_j p_j² + residual/n. More trials on the same items reduce only the second term; only more
items reduce the first. A block compares each agent twice on one item, and block s is on item s mod J, for J items.

Before a run has answers, forecasts use reference data sets instead: their variance components, rank correlation ρ and
top-5 recall. These are recorded answers of GPT-4o-mini (the paper's data) and of the judge `lexical`, with 60 plans
each (`python benchmarks/precision.py --only domains`). ρ and recall compare with the ranking of the dense design,
mostly of about 30 agents. Both are lower with more or with more similar agents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from youden.stats.base.clusters import PRIOR_CLUSTERS
from youden.stats.trials.trial_errors import InfluenceTable
from youden.types.judging import AnswerKind
from youden.types.pool import Floats


class AgentVariances(NamedTuple):
    """Variance components of each agent.

    Attributes
    ----------
    agent_item : float array (n_agents,)
        Variance of the agent's effect on an item, at least 0.
    residual : float array (n_agents,)
        Variance of a trial on a given item, at least 0.
    """

    agent_item: Floats
    residual: Floats


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

    v, share = variance[is_known], influence.weight[is_known]
    share_squares, n = (share**2).sum(axis=1), influence.n_trials[is_known].sum(axis=1)
    K = int(is_known.sum())
    within_variance = influence.within_item_variance[is_known]
    mean_within = float(np.nanmean(within_variance)) if not np.isnan(within_variance).all() else np.inf
    within_variance = np.where(np.isnan(within_variance), mean_within, within_variance)
    estimate = (v - (K - 2) / K * within_variance / n) / share_squares

    # shrinkage of the estimates towards their mean
    sampling_variance = float((2 * v**2 / (share > 0).sum(axis=1) / share_squares**2).mean())
    mean, total_variance = max(0.0, float(estimate.mean())), float(estimate.var())
    trust = max(0.0, 1 - sampling_variance / total_variance) if total_variance > 0 else 0.0
    agent_item[is_known] = np.clip(mean + trust * (estimate - mean), 0, v / share_squares)
    residual[is_known] = (v - agent_item[is_known] * share_squares) * n
    agent_item[~is_known], residual[~is_known] = agent_item[is_known].mean(), residual[is_known].mean()
    return AgentVariances(agent_item, residual)


LEVEL = 0.95
"""Confidence level of all forecast intervals."""
MAX_ITEMS = 10_000_000
"""Largest number of items that a search considers."""


def item_share_squares(n_blocks: int, n_items: int) -> float:
    """Compute Σ_j p_j², with p_j the share of item j in the blocks of a cyclic plan.

    It is 1/n_blocks if no item has two blocks, and 1/n_items if all items have equally many.

    Examples
    --------
    >>> [item_share_squares(n, 100) for n in (50, 100, 1000)]
    [0.02, 0.01, 0.01]
    """
    blocks_per_item, n_with_one_more = divmod(n_blocks, n_items)
    squares = (n_items - n_with_one_more) * blocks_per_item**2 + n_with_one_more * (blocks_per_item + 1) ** 2
    return float(squares / n_blocks**2)


def half_widths(components: AgentVariances, n_blocks: int, n_items: int) -> Floats:
    """Forecast the half-widths of 95 % intervals for items like the sampled ones.

    Parameters
    ----------
    components : AgentVariances
        Variance components of the agents.
    n_blocks, n_items : int
        Numbers of blocks and of items of the plan.

    Returns
    -------
    float array (n_agents,)
        t·√(agent_item·Σ_j p_j² + residual/(2·n_blocks)).
    """
    variance = components.agent_item * item_share_squares(n_blocks, n_items) + components.residual / (2 * n_blocks)
    df = min(n_blocks, n_items) - 1 + PRIOR_CLUSTERS
    return np.asarray(stdtrit(df, (1 + LEVEL) / 2) * np.sqrt(variance))


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
    return float(ordered[ceil(fraction * len(ordered) - 1e-9) - 1])


def find_min_blocks(
    components: AgentVariances, half_width: float, *, fraction: float, n_items: int, max_blocks: int
) -> int | None:
    """Find the smallest number of blocks that reaches a half-width.

    Parameters
    ----------
    components : AgentVariances
        Variance components of the agents.
    half_width : float
        Half-width to reach.
    fraction : float in (0, 1]
        Fraction of the agents that must reach it.
    n_items : int
        Number of items.
    max_blocks : int
        Largest number of blocks to consider.

    Returns
    -------
    int or None
        Number of blocks, at least 2; None if `max_blocks` do not suffice.
    """

    def suffices(n_blocks: int) -> bool:
        return half_width_quantile(half_widths(components, n_blocks, n_items), fraction) <= half_width

    return _find_smallest(suffices, max_blocks)


def find_min_items(components: AgentVariances, half_width: float, *, fraction: float, n_agents: int) -> int | None:
    """Find the smallest number of items that allows a half-width.

    Every pair of agents is compared on each item.

    Parameters
    ----------
    components : AgentVariances
        Variance components of the agents.
    half_width : float
        Half-width to reach.
    fraction : float in (0, 1]
        Fraction of the agents that must reach it.
    n_agents : int
        Number of agents in the plan.

    Returns
    -------
    int or None
        Number of items, at least 2; None if `MAX_ITEMS` do not suffice.
    """

    def suffices(n_items: int) -> bool:
        return half_width_quantile(half_widths(components, n_items * (n_agents - 1), n_items), fraction) <= half_width

    return _find_smallest(suffices, MAX_ITEMS)


def _find_smallest(suffices: Callable[[int], bool], limit: int) -> int | None:
    """Find the smallest number from 2 to `limit` that suffices, by bisection; None if `limit` does not."""
    if limit < 2 or not suffices(limit):
        return None
    low, high = 1, limit
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (low, mid) if suffices(mid) else (mid, high)
    return high


REFERENCE_TRIALS = (60, 120, 225, 450, 900)
"""Trials per agent at which the reference data sets were measured."""


class ReferenceData(NamedTuple):
    """Measurements on one reference data set.

    Attributes
    ----------
    name : str
        Name, with the numbers of agents and items.
    agent_item, residual : float
        Variance components of an agent with the mean half-width, at 450 trials per agent.
    max_width_ratio : float
        Largest half-width of an agent divided by the mean one, at 450 trials per agent.
    rho, recall : tuple of float
        Spearman's ρ with the dense ranking, and recall of its top 5, at each of `REFERENCE_TRIALS`.
    """

    name: str
    agent_item: float
    residual: float
    max_width_ratio: float
    rho: tuple[float, ...]
    recall: tuple[float, ...]


REFERENCE_DATA: dict[AnswerKind, tuple[ReferenceData, ...]] = {
    "graded": (
        ReferenceData(
            "PubMed 30 × 200", 0.0078, 0.0784, 1.33, (0.924, 0.948, 0.962, 0.974, 0.982), (0.51, 0.60, 0.65, 0.73, 0.81)
        ),
        ReferenceData(
            "ICLR 29 × 100", 0.0099, 0.0408, 2.10, (0.837, 0.896, 0.933, 0.957, 0.971), (0.45, 0.50, 0.55, 0.63, 0.67)
        ),
        ReferenceData(
            "SAMSum 30 × 200", 0.0077, 0.0817, 1.18, (0.960, 0.977, 0.987, 0.992, 0.995), (0.69, 0.74, 0.81, 0.85, 0.89)
        ),
        ReferenceData(
            "OPUS 31 × 30", 0.0105, 0.0699, 1.56, (0.892, 0.929, 0.947, 0.966, 0.980), (0.48, 0.54, 0.56, 0.61, 0.68)
        ),
    ),
    "yes or no": (
        ReferenceData(
            "PubMed 30 × 200", 0.0120, 0.1315, 1.29, (0.924, 0.949, 0.962, 0.974, 0.983), (0.51, 0.60, 0.68, 0.74, 0.82)
        ),
        ReferenceData(
            "ICLR 29 × 100", 0.0141, 0.0649, 2.02, (0.841, 0.897, 0.933, 0.956, 0.972), (0.46, 0.50, 0.56, 0.63, 0.70)
        ),
        ReferenceData(
            "SAMSum 30 × 200", 0.0112, 0.1345, 1.20, (0.959, 0.976, 0.986, 0.991, 0.995), (0.69, 0.75, 0.81, 0.86, 0.89)
        ),
        ReferenceData(
            "OPUS 31 × 30", 0.0156, 0.1141, 1.42, (0.892, 0.932, 0.951, 0.968, 0.981), (0.47, 0.55, 0.54, 0.61, 0.72)
        ),
    ),
    "lexical": (
        ReferenceData(
            "AlpacaEval 39 × 200",
            0.0086,
            0.0145,
            1.85,
            (0.947, 0.971, 0.985, 0.992, 0.995),
            (0.65, 0.76, 0.83, 0.85, 0.89),
        ),
        ReferenceData(
            "field-notes 12 × 32",
            0.0023,
            0.0213,
            1.21,
            (0.976, 0.985, 0.987, 0.991, 1.000),
            (1.00, 1.00, 1.00, 1.00, 1.00),
        ),
    ),
}
"""By kind of answers: as recorded (graded), the same answers rounded at ½ (yes or no), and those of the
judge `lexical`."""


REGRET = {
    "uniform": (
        (0.0194, 0.0119, 0.0045, 0.0039, 0.0018),
        (0.0056, 0.0056, 0.0045, 0.0034, 0.0027),
        (0.0314, 0.0207, 0.0140, 0.0028, 0.0000),
        (0.0293, 0.0186, 0.0234, 0.0169, 0.0116),
    ),
    "search": (
        (0.0101, 0.0065, 0.0012, 0.0016, 0.0014),
        (0.0040, 0.0046, 0.0041, 0.0024, 0.0018),
        (0.0178, 0.0067, 0.0014, 0.0000, 0.0000),
        (0.0251, 0.0176, 0.0147, 0.0115, 0.0106),
    ),
}
"""Mean regret at `REFERENCE_TRIALS` trials per agent on the graded reference data sets, of uniform allocation and of a
search with equally many calls (`python benchmarks/best.py --only losses`)."""


class ReferenceRange(NamedTuple):
    """Range of a forecast over the reference data sets.

    Attributes
    ----------
    low, mean, high : float
        Smallest value, mean and largest value.
    """

    low: float
    mean: float
    high: float


def prior_components(kind: AnswerKind) -> AgentVariances:
    """Return the variance components of an average agent in each reference data set.

    Parameters
    ----------
    kind : {"graded", "yes or no", "lexical"}
        Kind of answers.

    Returns
    -------
    AgentVariances
        Arrays of the shape (n_data_sets,).
    """
    return AgentVariances(*np.array([[data.agent_item, data.residual] for data in REFERENCE_DATA[kind]]).T)


def mean_prior_components() -> AgentVariances:
    """Return variance components of an average agent with yes/no answers, as means over the reference data sets.

    Returns
    -------
    AgentVariances
        Arrays of the shape (1,).
    """
    return AgentVariances(*(component.mean(keepdims=True) for component in prior_components("yes or no")))


def components_at_quantile(quantile: float, kind: AnswerKind) -> AgentVariances:
    """Return the variance components of an agent at a quantile of half-widths.

    Parameters
    ----------
    quantile : float in [0, 1]
        Quantile of the agents, 1 for the one with the largest half-width. Up to 0.5 the average agent is returned.
    kind : {"graded", "yes or no", "lexical"}
        Kind of answers.

    Returns
    -------
    AgentVariances
        Arrays of the shape (n_data_sets,).
    """
    distance = max(0.0, 2 * quantile - 1) ** 2
    components = prior_components(kind)
    width_ratio = 1 + distance * (np.array([data.max_width_ratio for data in REFERENCE_DATA[kind]]) - 1)
    return AgentVariances(components.agent_item * width_ratio**2, components.residual * width_ratio**2)


def expected_rho(trials: float, kind: AnswerKind) -> ReferenceRange | None:
    """Forecast Spearman's ρ with the ranking of the dense design.

    Parameters
    ----------
    trials : float
        Paired trials per agent.
    kind : {"graded", "yes or no", "lexical"}
        Kind of answers.

    Returns
    -------
    ReferenceRange or None
        Range over the reference data sets; None outside the measured numbers of trials.
    """
    return _interpolate(trials, [data.rho for data in REFERENCE_DATA[kind]])


def expected_recall(trials: float, kind: AnswerKind) -> ReferenceRange | None:
    """Forecast the recall of the top 5 agents of the dense design.

    Parameters
    ----------
    trials : float
        Paired trials per agent.
    kind : {"graded", "yes or no", "lexical"}
        Kind of answers.

    Returns
    -------
    ReferenceRange or None
        Range over the reference data sets; None outside the measured numbers of trials.
    """
    return _interpolate(trials, [data.recall for data in REFERENCE_DATA[kind]])


def expected_regret(trials: float, *, search: bool) -> ReferenceRange | None:
    """Forecast how much better the best agent is than the selected one.

    Parameters
    ----------
    trials : float
        Paired trials per agent.
    search : bool
        Whether trials are allocated by a search for the best agent; else uniformly.

    Returns
    -------
    ReferenceRange or None
        Range of the mean regret over the reference data sets; None outside the measured numbers of trials.
    """
    return _interpolate(trials, REGRET["search" if search else "uniform"])


def min_regret_bound(components: AgentVariances, n_items: int) -> float:
    """Compute the smallest regret bound that a number of items allows, however many trials there are.

    The bound is that of two agents with equal abilities.

    Parameters
    ----------
    components : AgentVariances
        Variance components of one agent: arrays of the shape (1,).
    n_items : int
        Number of items.

    Returns
    -------
    float
        Half-width of the difference of both abilities if only the agent × item component is left.
    """
    return float(stdtrit(n_items - 1, (1 + LEVEL) / 2) * np.sqrt(2 * components.agent_item[0] / n_items))


def half_width_for_regret(max_regret: float, n_agents: int) -> float:
    """Compute the half-width at which agents of equal ability reach a regret bound.

    Parameters
    ----------
    max_regret : float
        Regret bound to reach.
    n_agents : int
        Number of agents, with equally many trials.

    Returns
    -------
    float
        Half-width of each ability.
    """
    bonferroni = -ndtri((1 - LEVEL) / (n_agents - 1))
    return float(max_regret * ndtri((1 + LEVEL) / 2) / (np.sqrt(2) * bonferroni))


def _interpolate(trials: float, rows: Sequence[tuple[float, ...]]) -> ReferenceRange | None:
    """Interpolate values at `REFERENCE_TRIALS`, one row per data set, linearly in log trials; None outside."""
    if not REFERENCE_TRIALS[0] <= trials <= REFERENCE_TRIALS[-1]:
        return None
    return summarize_range(np.array([np.interp(np.log(trials), np.log(REFERENCE_TRIALS), row) for row in rows]))


def summarize_range(values: Floats) -> ReferenceRange:
    """Compute the smallest value, the mean and the largest value.

    Parameters
    ----------
    values : float array (n,)
        At least one value.

    Returns
    -------
    ReferenceRange
        The three numbers.
    """
    return ReferenceRange(float(values.min()), float(values.mean()), float(values.max()))
