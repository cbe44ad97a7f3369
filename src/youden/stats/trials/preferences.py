"""Fit abilities to preferences, the answers to "which of two responses is better?", with errors clustered by item.

The link is the identity, as for all abilities of the package: a difference of two abilities is a difference of win rates.
Bradley–Terry's logit link is fitted by scikit-learn, for comparison only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import eigh, pinvh
from scipy.sparse import coo_array, csr_array, vstack
from scipy.special import stdtrit

from youden.errors import StatisticsError
from youden.extras import format_install
from youden.stats.base.array_likes import takes_array_likes
from youden.stats.base.clusters import (
    MIN_ITEMS,
    ROUNDING,
    CentredCovariance,
    check_level,
    covariance_of_chunks,
    make_clusters_error,
)
from youden.stats.base.metrics import Metric
from youden.stats.base.pair_chunks import InfluenceChunk, check_positions, check_trials
from youden.stats.trials.comparisons import agent_components
from youden.types.pool import Floats, Ids, Positions, ReadOnly

_MIN_EIGENVALUE = 1e-9
"""Directions with an eigenvalue below this share of the largest are not determined by the trials."""
_EXACT_FIT = 1e-9
"""A trial of leverage above 1 minus this is fitted exactly, whatever its answer."""
_EQUAL_ABILITY_ITEMS = 12
"""Maximum effective number of items at which an error has at least the variance that answers have if all abilities are equal.

With more items, this minimum decreases. The number was chosen by the exact error rates for two equal agents with 6 to 30 items,
and by the coverage for 5 agents and 30 items."""
_MAX_CELLS_PER_CHUNK = 2_000_000
"""Maximum size of a matrix of trials × agents, unless one item has more trials."""


@dataclass(frozen=True, eq=False)
class PreferenceFit(ReadOnly):
    """Abilities that were fitted to preferences, with their covariance.

    Attributes
    ----------
    ability : float array (n_agents,)
        Abilities θ_i, which sum to 0 over the agents that trials link; NaN for an agent without a trial. A difference of two
        abilities is the win rate of one agent against the other minus its loss rate, ties counting ½.
    covariance : CentredCovariance
        Covariance of the distances from the mean ability, for items like these. NaN for an agent with fewer than 6 effective
        items.
    component : int32 array (n_agents,)
        Set of agents that trials link, numbered from 0; −1 for an agent without a trial.
    n_trials : int array (n_agents,)
        Trials of each agent.
    n_effective_items : float array (n_agents,)
        Number of items of equal weight that would determine the ability as well, at most the number of items of the agent.
        It is small if an ability depends on a few trials, such as the only ones that show the agent in second place.
    position_effect : Metric
        Win rate of the first response minus its loss rate if both agents have the same ability; in [−1, 1], 0 without position
        bias. NaN if the orders do not determine it. Its bounds are NaN for fewer than 6 effective items, and if no residual
        shows its error. If the same position wins all comparisons, the bound is that of a proportion without an event.
    influence_chunks : callable
        Function that yields, for one chunk of items after another, their influence on the abilities.
    """

    ability: Floats
    covariance: CentredCovariance
    component: Ids
    n_trials: Positions
    n_effective_items: Floats
    position_effect: Metric
    influence_chunks: Callable[[], Iterator[InfluenceChunk]]


@takes_array_likes
def fit_preferences(
    first: Ids | Positions,
    second: Ids | Positions,
    item: Ids | Positions,
    answer: Floats,
    *,
    n_agents: int,
    level: float = 0.95,
) -> PreferenceFit:
    """Fit abilities and a position effect to preferences by least squares.

    Parameters
    ----------
    first, second : int array (n_trials,)
        Positions of the agents whose responses come first and second.
    item : int array (n_trials,)
        Number that identifies the item of each trial; the trials of one item are one cluster.
    answer : float array (n_trials,)
        Preference for the first response, in [0, 1]: 1 if it is better, ½ for a tie, 0 if the second is better.
    n_agents : int
        Number of agents.
    level : float, default 0.95
        Confidence level of the position effect's interval, in (0, 1).

    Returns
    -------
    PreferenceFit
        `ability` is NaN for an agent without a trial. Its `covariance` over items is NaN for an agent with fewer than 6 effective
        items. A difference of two abilities is the win rate of one agent against the other minus its loss rate. A component is a
        set of agents that trials link, directly or through other agents; the abilities of each `component` sum to 0. The
        `position_effect` is the win rate of the first response minus its loss rate for equal agents. It is NaN if the orders do
        not determine it.

    Raises
    ------
    StatisticsError
        [trial-columns]: if the columns differ in length; [trial-answer]: if an answer is NaN or not in [0, 1]; [trial-position]:
        if an agent is not a whole number from 0 to `n_agents` − 1, or a trial compares an agent with itself;
        [cluster-agents]: if fewer than 2 agents have trials on 2 items; [level]: unless 0 < level < 1.

    Notes
    -----
    The model of an answer y is E[2y − 1] = θ_first − θ_second + π, π the position effect. With x the row of a trial (1 for the
    first agent, −1 for the second, 1 for π), M = Σxxᵀ, P its pseudo-inverse, e the residuals and h = xᵀPx the leverages, the
    influence of item j is the sum of P·x·e/√(1 − h) over its trials. The covariance of the abilities is the sandwich estimate
    from these influences, shrunk as in `covariance_over_clusters`. π is dropped from the model if the orders do not determine it,
    for example if one agent always comes second.

    The effective number of items of agent i is m_i = (Σ_j ω_ij)²/Σ_j ω_ij², with ω_ij the sum of the squares of (P·x)_i −
    Σ_k n_k·(P·x)_k/Σ_k n_k over the trials of item j, and n_k the trials of agent k. It takes the place of the number of items
    in the shrinkage, and limits the degrees of freedom, which are also at most (K − 1)(J − 1) and the number of trials minus
    the rank of M. The error e of a trial with h = 1 is unknown, and counts as 1. A variance is at least min(1, 12/m_i)·s²·P_ii,
    with s² the variance of 2y − 1 around its mean, which is its error variance if all abilities are equal.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> item = np.repeat(np.arange(500), 6)
    >>> first, second = np.tile([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]], 500)
    >>> ability = np.array([0.2, 0.0, -0.2])
    >>> answer = (rng.random(3000) < (1 + ability[first] - ability[second] + 0.1) / 2).astype(float)
    >>> fit = fit_preferences(first, second, item, answer, n_agents=3)
    >>> fit.ability.round(1).tolist(), round(fit.position_effect.value, 1)
    ([0.2, -0.0, -0.2], 0.1)
    """
    check_trials(first, second, item, answer=answer)
    _check_agents(first, second, n_agents)
    _check_range(answer)
    check_level(level)
    if len(item) == 0:
        raise make_clusters_error(0)

    # sorted by item, so that each chunk has all trials of its items, which are numbered without gaps
    order = np.argsort(item, kind="stable")
    first, second, value = first[order], second[order], 2 * answer[order] - 1
    _, item = np.unique(item[order], return_inverse=True)
    design = _make_design(first, second, n_agents)
    inverse, has_position = _invert_normal_matrix((design.T @ design).toarray())
    effect = inverse @ (design.T @ value)

    # e/√(1 − h) with h = xᵀPx; the error of a trial that is fitted exactly is unknown, and counts as the largest one
    residual = value - design @ effect
    leverage = _compute_leverages(first, second, inverse)
    is_free = leverage < 1 - _EXACT_FIT
    adjusted = np.where(is_free, residual, 1.0) / np.sqrt(np.where(is_free, 1 - leverage, 1.0))

    # number of trials of each cell (agent, item), a sparse array (n_agents, n_items)
    n_items = int(item.max(initial=-1)) + 1
    cell_size = abs(design[:, :n_agents]).T @ _make_item_indicators(item)
    n_trials = cell_size.sum(axis=1).astype(np.int64)
    n_items_of_agent = np.diff(cell_size.tocsr().indptr)  # each stored element is positive
    total = np.maximum(n_trials, 1).astype(np.float64)

    # sets of agents that trials link: each trial counts as an item that only its two agents share
    agent, trial = np.append(first, second).astype(np.int64), np.tile(np.arange(len(value)), 2)
    component = agent_components(agent, trial, n_agents=n_agents, n_items=len(value))

    # effective numbers of items of the abilities and, last, of the position effect
    n_effective_items = _count_effective_items(design, item, _center_abilities(inverse, n_trials, component))
    n_effective_items[:n_agents] = np.minimum(n_effective_items[:n_agents], n_items_of_agent)
    n_effective_of_agent = n_effective_items[:n_agents]

    # smallest variance of each estimate, and largest degrees of freedom
    min_variance = _compute_min_error_variance(value, n_effective_items, has_position=has_position) * np.diag(inverse)
    n_agents_with_trials = (n_trials > 0).sum()
    residual_df = len(value) - leverage.sum()
    max_df = min(residual_df, (n_agents_with_trials - 1) * (n_items - 1))

    share_squares = cell_size.power(2).sum(axis=1) / total**2
    influence_chunks = partial(_iter_influence, design, item, adjusted, inverse)
    estimate = covariance_of_chunks(
        ((chunk.influence, chunk.weight / total[:, None]) for chunk in influence_chunks()),
        n_clusters=np.where(n_items_of_agent > 1, np.maximum(n_effective_of_agent, 2), n_items_of_agent),
        share_squares=np.maximum(share_squares, 1 / np.maximum(n_effective_of_agent, 1)),
        relative_variance=np.maximum(np.diag(inverse)[:n_agents], ROUNDING / total),
    )
    covariance = _limit_covariance(
        estimate, min_variance=min_variance[:n_agents], n_effective_items=n_effective_of_agent, max_df=max_df
    )

    position = Metric(np.nan, np.nan, np.nan, level, "unknown: the orders do not determine it")
    if has_position:
        influence_of_trial = inverse[n_agents, first] - inverse[n_agents, second] + inverse[n_agents, n_agents]
        influence = np.bincount(item, influence_of_trial * adjusted).astype(np.float64)
        position = _estimate_position_effect(
            float(effect[-1]),
            influence,
            min_variance=float(min_variance[-1]),
            n_effective_items=float(n_effective_items[-1]),
            max_df=max_df,
            level=level,
        )
    ability = np.where(n_trials > 0, effect[:n_agents], np.nan)
    return PreferenceFit(ability, covariance, component, n_trials, n_effective_of_agent, position, influence_chunks)


def _iter_influence(
    design: csr_array, item: Ids | Positions, adjusted_residual: Floats, inverse: Floats
) -> Iterator[InfluenceChunk]:
    """Yield, for each chunk of trials, the influence of its items on the abilities, and the number of trials of each agent.

    Arrays over n_agents + 1 estimates contain the abilities of the agents and, last, the position effect.

    design : sparse array (n_trials, n_agents + 1), the rows x of the trials, sorted by item
    item : int array (n_trials,), item of each trial, in ascending order without gaps
    adjusted_residual : float array (n_trials,), residuals with the correction for leverage
    inverse : float array (n_agents + 1, n_agents + 1), pseudo-inverse P of the normal matrix
    """
    n_agents = len(inverse) - 1
    for trials in _divide_between_items(item, n_estimates=len(inverse)):
        chunk_design = design[trials]
        is_on_item = _make_item_indicators(item[trials] - item[trials.start])

        # the influence of an item on the estimates is P·Σ x·residual over its trials
        weighted_design = chunk_design.multiply(adjusted_residual[trials, None])
        sum_by_item = (weighted_design.T @ is_on_item).toarray()
        influence = inverse @ sum_by_item
        ability_influence = influence[:n_agents]

        # Σ |x| counts the trials of each agent, because x is 1 or −1 for the two agents of a trial
        n_trials = (abs(chunk_design).T @ is_on_item).toarray()

        # the second argument, the influence through an agent's own trials, is not needed here
        yield InfluenceChunk(ability_influence, direct_influence=ability_influence, weight=n_trials[:n_agents])


def _make_item_indicators(item: Ids | Positions) -> csr_array:
    """Make a sparse array (n_trials, n_items) that is 1 for the item of each trial; `item` has no gaps."""
    return csr_array((np.ones(len(item)), (np.arange(len(item)), item)))


_POSITION_METHOD = "position effect, residuals by item, HC2, Student t"


def _estimate_position_effect(
    effect: float, influence: Floats, *, min_variance: float, n_effective_items: float, max_df: float, level: float
) -> Metric:
    """Return a position effect, the advantage of the response that is shown first, with its confidence interval.

    The interval is based on Student's t. If the same position wins all trials, the residuals are 0. The interval is then
    computed from an upper bound on the probability that the other position wins.

    effect : estimate, in [−1, 1]
    influence : float array (n_items,), influence of each item on the estimate
    min_variance : minimum of the variance of the estimate
    n_effective_items : effective number of items that determine the estimate
    max_df : maximum of the degrees of freedom
    level : confidence level

    The bounds are NaN for fewer than `MIN_ITEMS` effective items, and if the half-width is 0.
    """
    n_items = len(influence)
    sandwich_variance = float((influence**2).sum()) * n_items / max(n_items - 1, 1)
    variance = max(sandwich_variance, min_variance)
    df = max(min(n_effective_items - 1, max_df), 1)
    half_width = float(stdtrit(df, (1 + level) / 2) * np.sqrt(variance))

    one_position_wins_all = abs(effect) > 1 - ROUNDING
    if one_position_wins_all:
        from youden.stats.trials.noninferiority import zero_event_upper_bound  # takes long to load

        # if the other position wins with the probability p, the effect is (1 − p) − p, which is 2p smaller than the estimate
        p_upper_bound = zero_event_upper_bound((1 - level) / 2, np.asarray(n_effective_items))
        half_width = 2 * float(p_upper_bound)

    has_too_few_items = n_effective_items < MIN_ITEMS - ROUNDING
    if has_too_few_items or half_width < ROUNDING:
        return Metric(effect, np.nan, np.nan, level, _POSITION_METHOD)
    low, high = np.clip([effect - half_width, effect + half_width], -1, 1).tolist()
    return Metric(effect, low, high, level, _POSITION_METHOD)


def _make_design(first: Ids | Positions, second: Ids | Positions, n_agents: int) -> csr_array:
    """Make the rows x of all trials, a sparse array (n_trials, n_agents + 1); the last column is that of the position effect."""
    n_trials = len(first)
    columns = np.concatenate([first, second, np.full(n_trials, n_agents)])
    values = np.repeat([1.0, -1.0, 1.0], n_trials)
    return coo_array((values, (np.tile(np.arange(n_trials), 3), columns)), shape=(n_trials, n_agents + 1)).tocsr()


def _compute_leverages(first: Ids | Positions, second: Ids | Positions, inverse: Floats) -> Floats:
    """Compute the leverage h = xᵀPx of each trial, float (n_trials,); `inverse` is P, float (n_agents + 1, n_agents + 1)."""
    # x is 1 for the first agent, −1 for the second agent, and 1 for the position effect
    diagonal, with_position = np.diag(inverse), inverse[-1]
    squares = diagonal[first] + diagonal[second] + diagonal[-1]
    products = with_position[first] - with_position[second] - inverse[first, second]
    return np.asarray(squares + 2 * products)


def _center_abilities(inverse: Floats, n_trials: Positions, component: Ids) -> Floats:
    """Change a pseudo-inverse so that the abilities computed from it are relative to a mean ability.

    An ability is a row of the pseudo-inverse, times a vector of answer sums. From each row, the mean row of all agents that can
    be compared with the agent is subtracted. The mean is weighted by numbers of trials.

    inverse : float array (n_agents + 1, n_agents + 1), the pseudo-inverse; its last row is that of the position effect
    n_trials : int array (n_agents,), number of trials of each agent
    component : int array (n_agents,), the same number for agents that can be compared

    Returns a changed copy of `inverse`; the last row is unchanged.
    """
    is_linked = component[:, None] == component
    n_trials_of_linked = np.where(is_linked, n_trials, 0.0)
    total = n_trials_of_linked.sum(axis=1, keepdims=True)
    mean_weight = n_trials_of_linked / np.maximum(total, 1)

    ability_rows = inverse[:-1]
    centered = inverse.copy()
    centered[:-1] -= mean_weight @ ability_rows
    return centered


def _count_effective_items(design: csr_array, item: Ids | Positions, inverse: Floats) -> Floats:
    """Compute the effective number of items that determine each estimate, m = (Σ_j ω_j)²/Σ_j ω_j².

    The weight ω_j of item j is the sum of the squared influences of its trials on the estimate. For equal weights, m is the
    number of items.

    design : sparse array (n_trials, n_agents + 1), the rows x of the trials, sorted by item
    item : int array (n_trials,), item of each trial, in ascending order without gaps
    inverse : float array (n_agents + 1, n_agents + 1), pseudo-inverse P of the normal matrix; P·x is the influence of a trial

    Returns a float array (n_agents + 1,), for the abilities and, last, the position effect. It is 0 for an estimate that no
    trial influences.
    """
    weight_sum, squared_weight_sum = np.zeros((2, len(inverse)))
    for trials in _divide_between_items(item, n_estimates=len(inverse)):
        squared_influence = (design[trials] @ inverse.T) ** 2  # (n_chunk_trials, n_agents + 1)
        first_trial_of_item = _find_first_positions(item[trials])
        item_weight = np.add.reduceat(squared_influence, first_trial_of_item)  # sums over the trials of each item
        weight_sum += item_weight.sum(axis=0)
        squared_weight_sum += (item_weight**2).sum(axis=0)

    zeros = np.zeros(len(inverse))
    return np.divide(weight_sum**2, squared_weight_sum, out=zeros, where=squared_weight_sum > 0)


def _divide_between_items(item: Ids | Positions, *, n_estimates: int) -> list[slice]:
    """Divide trials, sorted by item, into chunks that limit memory. All trials of an item are in one chunk.

    For example, with 2 trials per chunk, trials on the items 0, 0, 1, 2, 2 are divided into the slices 0:2 and 2:5. A matrix of
    the trials of a chunk × `n_estimates` has about `_MAX_CELLS_PER_CHUNK` cells. It may have more, because all trials of an item
    belong to the chunk of its first trial.

    item : int array (n_trials,), item of each trial, in ascending order
    """
    trials_per_chunk = max(1, _MAX_CELLS_PER_CHUNK // n_estimates)
    first_trials = _find_first_positions(item)  # the first trial of each item
    chunk_of_item = first_trials // trials_per_chunk
    is_first_item_of_chunk = np.diff(chunk_of_item, prepend=-1) > 0
    chunk_starts = first_trials[is_first_item_of_chunk]
    chunk_ends = np.append(chunk_starts[1:], len(item))
    return [slice(start, end) for start, end in zip(chunk_starts, chunk_ends, strict=True)]


def _find_first_positions(values: Ids | Positions) -> Positions:
    """Find the first position of each different value in an ascending array of integers of at least 0, such as items."""
    return np.flatnonzero(np.diff(values, prepend=-1))


def _compute_min_error_variance(value: Floats, n_effective_items: Floats, *, has_position: bool) -> Floats:
    """Compute the smallest error variance of a trial that is assumed for each estimate: float array (n_agents + 1,).

    A few items may have small residuals by chance, so the error variance needs a minimum. For up to 12 effective items, this is
    the error variance of trials between equal agents. For m > 12 effective items, it is 12/m of this variance.

    value : float array (n_trials,), value 2y − 1 of each trial with the answer y
    n_effective_items : float array (n_agents + 1,), effective number of items of each ability and, last, of the position effect
    has_position : whether the model has a position effect
    """
    # if all abilities are equal, the expected value of a trial is the position effect
    expected_if_equal = value.mean() if has_position else 0.0
    sum_of_squares = float(((value - expected_if_equal) ** 2).sum())
    df = len(value) - 1 if has_position else len(value)
    variance_if_equal = sum_of_squares / max(df, 1)
    factor = np.minimum(1, _EQUAL_ABILITY_ITEMS / np.maximum(n_effective_items, 1))
    return np.asarray(variance_if_equal * factor)


def _limit_covariance(
    estimate: CentredCovariance, *, min_variance: Floats, n_effective_items: Floats, max_df: float
) -> CentredCovariance:
    """Raise variances below their minimum, and reduce degrees of freedom above their maximum.

    estimate : covariance of the abilities
    min_variance : float array (n_agents,), minimum variance of each ability
    n_effective_items : float array (n_agents,), effective number of items of each ability
    max_df : maximum of the degrees of freedom; a value below 1 counts as 1

    Returns a covariance with the same correlations. Its entries and degrees of freedom are NaN for agents with fewer than
    `MIN_ITEMS` effective items.
    """
    variance = np.maximum(np.diag(estimate.covariance), np.finfo(np.float64).tiny)  # avoids a division by 0
    variance_factor = np.maximum(min_variance / variance, 1.0)
    raised = estimate.with_scaled_variances(variance_factor)
    covariance = raised.covariance.copy()
    df = np.minimum(estimate.df, max(max_df, 1))

    # the tolerance `ROUNDING` keeps agents whose effective number of items is `MIN_ITEMS` except for rounding errors
    has_too_few_items = n_effective_items < MIN_ITEMS - ROUNDING
    df[has_too_few_items] = np.nan
    covariance[has_too_few_items, :] = np.nan
    covariance[:, has_too_few_items] = np.nan
    return CentredCovariance(covariance, df)


def _invert_normal_matrix(normal_matrix: Floats) -> tuple[Floats, bool]:
    """Compute the pseudo-inverse of the normal matrix, and whether the trials determine the position effect.

    normal_matrix : float array (n_agents + 1, n_agents + 1), of the abilities and, last, the position effect

    Returns the pseudo-inverse, an array of the same shape. If the trials do not determine the position effect, it is left
    out of the model: its row and its column are 0.
    """
    eigenvalues, eigenvectors = eigh(normal_matrix, check_finite=False)
    is_null = eigenvalues <= _MIN_EIGENVALUE * eigenvalues[-1]  # the largest eigenvalue is the last one

    # the trials determine the position effect if it has no part in the eigenvectors with the eigenvalue 0
    position_components = np.abs(eigenvectors[-1, is_null])
    has_position = bool((position_components < np.sqrt(_MIN_EIGENVALUE)).all())
    if not has_position:
        inverse = np.zeros_like(normal_matrix)
        inverse[:-1, :-1] = pinvh(normal_matrix[:-1, :-1], rtol=_MIN_EIGENVALUE)
        return inverse, False

    # pseudo-inverse V·diag(1/eigenvalue)·Vᵀ
    basis = eigenvectors[:, ~is_null]
    return (basis / eigenvalues[~is_null]) @ basis.T, True


def _check_agents(first: Ids | Positions, second: Ids | Positions, n_agents: int) -> None:
    """Raise StatisticsError [trial-position] unless each trial compares two of the agents 0 to `n_agents` − 1."""
    check_positions(first, n_agents, noun="agent")
    check_positions(second, n_agents, noun="agent")
    n_equal = int((first == second).sum())
    if n_equal:
        raise StatisticsError(
            f"A trial must compare two different agents: got {n_equal:,} of an agent with itself. Leave them out.",
            slug="trial-position",
        )


def _check_range(answer: Floats) -> None:
    """Raise StatisticsError [trial-answer] if an answer is not from 0 to 1."""
    outside = answer[(answer < 0) | (answer > 1)]
    if len(outside):
        raise StatisticsError(
            f"Preferences must be from 0 to 1: got {outside[0]}. Pass 1 if the first response is better, ½ for a tie, and 0 if "
            "the second is better.",
            slug="trial-answer",
        )


@takes_array_likes
def fit_bradley_terry(
    first: Ids | Positions, second: Ids | Positions, answer: Floats, *, n_agents: int, position_effect: bool = True
) -> Floats:
    """Fit the Bradley–Terry model to preferences by maximum likelihood, for comparison.

    Parameters
    ----------
    first, second : int array (n_trials,)
        Positions of the agents whose responses come first and second.
    answer : float array (n_trials,)
        Preference for the first response, in [0, 1]; a value y counts as y wins of the first and 1 − y wins of the second.
    n_agents : int
        Number of agents.
    position_effect : bool, default True
        Whether the model has a position effect: an advantage of the response that comes first. The effect is not returned.

    Returns
    -------
    float array (n_agents,)
        Strengths on the logit scale, which sum to 0; 0 for an agent without a trial. A weak ridge penalty keeps the strength of
        an agent that wins all its trials finite. Strengths of agents that no chain of trials links are not comparable.

    Raises
    ------
    StatisticsError
        [trial-columns]: if the columns differ in length; [trial-answer]: if an answer is NaN or not in [0, 1]; [trial-position]:
        if an agent is not a whole number from 0 to `n_agents` − 1, or a trial compares an agent with itself;
        [trial-none]: if there are no trials; [bradley-terry]: if scikit-learn is not installed.

    References
    ----------
    Bradley & Terry (1952), Biometrika 39, 324–345.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ModuleNotFoundError as error:
        raise StatisticsError(
            f"The Bradley–Terry model needs scikit-learn, which is not installed. Run `{format_install('preferences')}`.",
            slug="bradley-terry",
        ) from error
    check_trials(first, second, answer=answer)
    _check_agents(first, second, n_agents)
    _check_range(answer)
    if not len(answer):
        raise StatisticsError(
            "The Bradley–Terry model needs trials: got none. Pass preferences of a judge.", slug="trial-none"
        )

    # each trial is one win, of weight y, and one loss, of weight 1 − y
    design = _make_design(first, second, n_agents)[:, :n_agents]
    model = LogisticRegression(C=1e6, fit_intercept=position_effect, tol=1e-8, max_iter=10_000, solver="newton-cg")
    outcome = np.repeat([1, 0], len(answer))
    model.fit(vstack([design, design]), outcome, sample_weight=np.append(answer, 1 - answer))
    strength = np.asarray(model.coef_[0], dtype=np.float64)
    return np.asarray(strength - strength.mean())
