"""Select the best agents and bound the regret of the selection by multiple comparisons with the best.

The bounds are frequentist and hold simultaneously. Probabilities of being best, expected regret and selection bias are
empirical Bayes estimates, with a prior that is estimated from the abilities themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, stdtrit

from youden.stats.base.clusters import CentredCovariance
from youden.stats.trials.comparisons import Differences, rank_with_ties, sort_best_first
from youden.streams import standalone_stream
from youden.types.pool import Bools, Floats

_N_SIZES = 8
"""Number of standard errors for which Dunnett's quantile is computed; it is interpolated between them."""
_N_BISECTIONS = 11
"""Number of halvings when a quantile is found by bisection."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
"""Nodes and weights of the quadrature over a standard normal distribution."""
MARGIN, MIN_INCREASE = 1.2, 0.5
"""A round of a search plans MARGIN times the trials that seem to be needed, and at least MIN_INCREASE of the trials so far."""
_N_GRID, _N_PRIOR_STEPS = 400, 10
"""Grid points of abilities, and EM steps that estimate the prior."""
_N_RANKINGS = 1000
"""Number of rankings that are drawn to predict a rank correlation."""
_TINY = np.finfo(np.float64).tiny
"""Smallest probability, which avoids the logarithm of 0."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Selected agents and the bound on their regret, in the unit of abilities.

    Attributes
    ----------
    agents : tuple of int
        Positions of the selected agents, the highest ability first.
    regret_bound : float
        Regret bound: with the probability `level`, the best agent is better than the selected one by at most this. For
        several, it bounds how much better the worst of the truly best agents is than any of them.
    level : float
        Confidence level.
    candidates : tuple of int
        Other candidates: agents that cannot be ruled out as one of the best, by ability.
    ability_low, ability_high : float
        Selection-adjusted interval of the first agent's ability.
    ahead : float array (n_agents, n_selected)
        Upper bounds on how much better each agent is than each selected one; 0 for the agent itself, −∞ for an agent
        that is ruled out.
    p_best : float array (n_agents,)
        Posterior probability of each agent of being the best.
    expected_regret : float
        Expected regret: posterior mean of the best ability minus that of the first selected agent.
    """

    agents: tuple[int, ...]
    regret_bound: float
    level: float
    candidates: tuple[int, ...]
    ability_low: float
    ability_high: float
    ahead: Floats
    p_best: Floats
    expected_regret: float


def select_best(
    ability: Floats,
    covariance: CentredCovariance,
    differences: Differences,
    *,
    top: int = 1,
    alpha_fraction: float = 1.0,
    upper_bounds: Floats | None = None,
) -> Choice | None:
    """Select the best agents and bound their regret.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, without NaN.
    covariance : CentredCovariance
        Covariance of the same abilities.
    differences : Differences
        Pairwise differences of the same abilities; they carry the confidence level.
    top : int, default 1
        Number of agents to select, from 1 to `n_agents`. Of equal abilities, those of lower position are selected.
    alpha_fraction : float in (0, 1], default 1
        Fraction of alpha = 1 − level that this interim analysis spends.
    upper_bounds : float array (n_agents, n_agents), optional
        Minimum over all interim analyses, including this one, of the simultaneous upper bounds on θ_k − θ_i for agents k
        (row) and i (column); −∞ if k is ruled out, and 0 on the diagonal. Default: the bounds of this analysis alone.

    Returns
    -------
    Choice or None
        The selection: positions of the selected `agents`, the best first, and of the other `candidates`; the `regret_bound` and
        the `expected_regret` in the unit of abilities; bounds `ability_low` and `ability_high` of the ability of the first
        selected agent; and the probability `p_best` of each agent of being the best, with the sum 1. None if an ability is NaN,
        if there are fewer than 2 agents, or if two agents cannot be compared.

    Notes
    -----
    For one selected agent i, the regret bound is the largest upper bound on θ_k − θ_i over all k, at least 0. It is 0
    if i is the unique best, unless `upper_bounds` is passed. For several selected agents, the `top`-th largest upper bound is
    computed for each of them, and the regret bound is the largest of these values.

    `ability_low` is θ̂_i − d·SE_i. With m candidates, d is the ((1 + level)/2)^(1/m) quantile of Student's t, so that the
    interval holds whichever candidate has the highest estimate. `ability_high` is the usual bound.

    References
    ----------
    Hsu (1996), Multiple Comparisons, ch. 4. Dunnett (1955), J. American Statistical Association 50, 1096–1121.
    """
    n_agents = len(ability)
    if np.isnan(ability).any() or n_agents < 2 or not are_comparable(differences):
        return None
    is_single_analysis = upper_bounds is None
    if upper_bounds is None:
        upper_bounds = simultaneous_upper_bounds(differences, top=top, alpha_fraction=alpha_fraction)
    best_first = sort_best_first(ability)
    selected, others = best_first[:top], best_first[top:]

    # Bounds of an agent that is ruled out are −∞, except the 0 on the diagonal.
    n_finite_bounds = (upper_bounds > -np.inf).sum(axis=1)
    is_candidate = n_finite_bounds > 1
    other_candidates = others[is_candidate[others]].tolist()

    ahead = upper_bounds[:, selected]
    top_largest_bound = np.sort(ahead, axis=0)[-top]
    regret_bound = float(top_largest_bound.max())
    if top == 1 and is_single_analysis and differences.unique_best is not None:
        regret_bound, other_candidates = 0.0, []

    leader = int(selected[0])
    is_candidate[leader] = True
    n_candidates = int(is_candidate.sum())
    level = 1 - (1 - differences.level) * alpha_fraction
    distance_low, distance_high = _compute_bound_distances(covariance, leader, n_candidates, level)
    p_best, expected_regret = best_probabilities(ability, differences)
    return Choice(
        agents=tuple(selected.tolist()),
        regret_bound=regret_bound,
        level=differences.level,
        candidates=tuple(other_candidates),
        ability_low=float(ability[leader]) - distance_low,
        ability_high=float(ability[leader]) + distance_high,
        ahead=ahead,
        p_best=p_best,
        expected_regret=expected_regret,
    )


def _compute_bound_distances(
    covariance: CentredCovariance, agent: int, n_candidates: int, level: float
) -> tuple[float, float]:
    """Compute how far the confidence bounds of the best agent's ability are from its estimate.

    The estimate of the best of several agents tends to be too high. The lower bound is therefore simultaneous for all
    candidates. The upper bound is not adjusted.

    covariance : covariance of all abilities
    agent : position of the agent, which has the highest estimate of `n_candidates` agents
    level : confidence level

    Returns the distance of the lower bound and the distance of the upper bound, both above 0.
    """
    df = covariance.df[agent]
    std_error = float(covariance.std_error[agent])

    # a bound holds with the probability (1 + level)/2; m bounds hold jointly if each has the m-th root of it (Šidák)
    probability = (1 + level) / 2
    probability_of_each = probability ** (1 / n_candidates)
    t_low = float(stdtrit(df, probability_of_each))
    t_high = float(stdtrit(df, probability))
    return t_low * std_error, t_high * std_error


def are_comparable(differences: Differences) -> bool:
    """Return whether every pair of agents can be compared.

    Parameters
    ----------
    differences : Differences
        Differences of all abilities.

    Returns
    -------
    bool
        False if a half-width outside the diagonal is NaN.
    """
    off_diagonal = ~np.eye(len(differences.value), dtype=np.bool_)
    return not (np.isnan(differences.half_width) & off_diagonal).any()


def simultaneous_upper_bounds(differences: Differences, *, top: int, alpha_fraction: float) -> Floats:
    """Compute simultaneous upper confidence bounds on θ_k − θ_i.

    Parameters
    ----------
    differences : Differences
        Differences of all abilities, which can be compared pairwise.
    top : int
        Number of agents that are selected, at least 1.
    alpha_fraction : float in (0, 1]
        Fraction of alpha = 1 − level that is spent.

    Returns
    -------
    float array (n_agents, n_agents)
        Bound on θ_k − θ_i for each agent k (row) and i (column), in the unit of abilities; 0 on the diagonal. If k is ruled out
        as one of the `top` best, all other entries of its row are −∞.

    Notes
    -----
    The bound is θ̂_k − θ̂_i + d·SE_ik, with SE_ik the standard error of the difference.

    For top = 1, d is the one-sided quantile of Dunnett's test in which agent k is the control and all others are compared
    with it. The bounds in row k then hold simultaneously. In the row of the best agent, they bound the regret of every agent. The
    bound of the selected agent therefore holds whichever agent is selected. For top > 1, d is the quantile of the studentized
    range, divided by √2. All bounds then hold simultaneously.

    Both quantiles assume normal errors with known variances. Each is replaced by the quantile of Student's t that has the same
    tail probability.

    Agent k is ruled out if the bounds on θ_k − θ_i are below 0 for `top` other agents i or more.

    References
    ----------
    Hsu (1996), Multiple Comparisons, ch. 4. Dunnett (1955), J. American Statistical Association 50, 1096–1121.
    """
    n_agents = len(differences.value)
    level = 1 - (1 - differences.level) * alpha_fraction
    diagonal = np.eye(n_agents, dtype=np.bool_)
    std_error = np.where(diagonal, 0.0, differences.std_error)
    value = np.where(diagonal, 0.0, differences.value)

    df = np.max(differences.df, axis=1, where=~diagonal, initial=1.0)
    if top == 1:
        std_error_of_agent = _derive_std_errors_of_agents(differences)
        quantile = _compute_dunnett_critical_values(std_error_of_agent, df, level)
    else:
        tail = ndtr(-_compute_range_quantile(n_agents, level))
        quantile = np.tile(stdtrit(df, 1 - tail), (n_agents, 1))

    # θ̂_k − θ̂_i + d·SE_ik, with the larger of the t quantiles of agents k and i
    larger_quantile = np.maximum(quantile, np.diag(quantile)[:, None])
    bounds = value + larger_quantile * std_error

    is_ruled_out = (bounds < 0).sum(axis=1) >= top
    bounds[is_ruled_out] = -np.inf
    np.fill_diagonal(bounds, 0.0)
    return np.asarray(bounds)


def _compute_dunnett_critical_values(std_error: Floats, df: Floats, level: float) -> Floats:
    """Compute the critical values of Dunnett's test, which compares one agent, the control, with all others.

    Each agent is the control once. Dunnett's quantile assumes known standard errors. Because they are estimated, it is replaced
    by the quantile of Student's t with the same tail probability, and with the degrees of freedom of the other agent.

    std_error, df : float arrays (n_agents,), standard errors and degrees of freedom
    level : confidence level of all comparisons with one control

    Returns a float array (n_agents, n_agents): the critical value for the control (row) and the other agent (column).
    """
    # to save time, compute critical values only for a few standard errors of a control: (n_control_errors, n_agents)
    control_errors = np.unique(np.quantile(std_error, np.linspace(0, 1, _N_SIZES)))
    normal_quantiles = _compute_dunnett_quantiles(control_errors, std_error, level)
    tail_probabilities = ndtr(-normal_quantiles)
    t_quantiles = np.array([stdtrit(df, 1 - tail) for tail in tail_probabilities])

    # interpolate between the rows of `t_quantiles`, at the standard error of each control
    row_numbers = np.arange(len(control_errors), dtype=np.float64)
    position_between_rows = np.interp(std_error, control_errors, row_numbers)
    lower_row = np.floor(position_between_rows).astype(np.int64)
    upper_row = np.minimum(lower_row + 1, len(control_errors) - 1)
    fraction = (position_between_rows % 1)[:, None]
    return np.asarray(t_quantiles[lower_row] * (1 - fraction) + t_quantiles[upper_row] * fraction)


def next_allocation(
    differences: Differences, upper_bounds: Floats, *, top: int, alpha_fraction: float, max_regret: float
) -> tuple[Bools, float, bool]:
    """Select the agents that need more trials to reach a maximum regret.

    Parameters
    ----------
    differences : Differences
        Differences of all abilities, which can be compared pairwise.
    upper_bounds : float array (n_agents, n_agents)
        Minimum over all interim analyses of the simultaneous upper bounds on θ_k − θ_i for agents k (row) and i (column).
    top : int
        Number of agents that are selected, from 1 to `n_agents`: those of highest ability.
    alpha_fraction : float in (0, 1]
        Fraction of alpha that the last interim analysis may spend.
    max_regret : float
        Regret bound to reach, above 0, in the unit of abilities.

    Returns
    -------
    is_active : bool array (n_agents,)
        Agents that need more trials; none if the maximum regret is reached.
    increase : float
        Number of trials to add for each active agent, as a fraction of its trials so far, from 0.5 to 1; 0.5 if no agent is
        active.
    is_enough : bool
        Whether this increase is expected to reach the maximum regret.

    Notes
    -----
    The distance of an upper bound from its estimate falls with the square root of the number of trials of both agents.
    The pair that needs the largest number decides. Pairs that an analysis at `alpha_fraction` would settle now get no
    more trials, unless no other pair is left. The trials of an agent are at most doubled, because the estimate is rough while
    there are many candidates.
    """
    value = np.nan_to_num(differences.value)
    selected = sort_best_first(value.mean(axis=1))[:top]
    final_bounds = simultaneous_upper_bounds(differences, top=top, alpha_fraction=alpha_fraction)

    # columns of the selected agents: bounds so far, estimates, and bounds that the last analysis would give now
    bounds_so_far = upper_bounds[:, selected]
    estimate = value[:, selected]
    last_bounds = final_bounds[:, selected]

    # selected agents whose regret bound is still too large, and the agents that may be ahead of them
    is_unsettled = np.sort(bounds_so_far, axis=0)[-top] > max_regret
    pairs = (bounds_so_far > max_regret) & is_unsettled
    pairs[selected] = False

    # Leave out pairs that the last analysis would settle without more trials, unless no other pair is left.
    needs_trials = pairs & (last_bounds > max_regret)
    if needs_trials.any():
        pairs = needs_trials
    is_active = pairs.any(axis=1)
    is_active[selected[is_unsettled]] = True

    # factor by which trials must grow: squared ratio of the distances between bound and estimate, now and at the goal
    distance_now = np.maximum(last_bounds, max_regret) - estimate
    distance_at_goal = max_regret - np.minimum(estimate, max_regret / 2)
    growth = np.divide(distance_now, distance_at_goal, out=np.ones_like(estimate), where=pairs) ** 2
    increase = MARGIN * float(np.max(growth, where=pairs, initial=1.0)) - 1
    return is_active, min(max(increase, MIN_INCREASE), 1.0), increase <= 1


def _derive_std_errors_of_agents(differences: Differences) -> Floats:
    """Derive a standard error of each ability from the standard errors of pairwise differences.

    If abilities are independent, the difference of agents i and k has the variance e_i² + e_k². The squares e² are fitted to the
    variances of all differences by least squares. With only two agents, both get the same standard error.

    differences : pairwise differences of the abilities, all of which can be compared

    Returns a float array (n_agents,).
    """
    n_agents = len(differences.std_error)
    difference_variance = differences.std_error**2
    np.fill_diagonal(difference_variance, 0.0)
    row_sum = difference_variance.sum(axis=1)
    if n_agents == 2:
        return np.asarray(np.sqrt(row_sum / 2))

    # The least-squares solution satisfies row_sum_i = (n − 2)·e_i² + Σ_k e_k² for all n agents. Summed over i, this gives Σ_k
    # e_k² = Σ_i row_sum_i/(2n − 2).
    sum_of_squared_errors = row_sum.sum() / (2 * n_agents - 2)
    squared_error = (row_sum - sum_of_squared_errors) / (n_agents - 2)

    # the solution may be negative for an agent with a small error, so that it needs a minimum
    min_squared_error = 1e-3 * difference_variance.mean()
    return np.asarray(np.sqrt(np.maximum(squared_error, min_squared_error)))


def best_probabilities(ability: Floats, differences: Differences) -> tuple[Floats, float]:
    """Estimate each agent's probability of being the best, and the expected regret of selecting the highest estimate.

    The regret is the true ability of the best agent minus that of the selected agent. All abilities have the same prior, which
    is estimated from them. If the abilities have no error, the highest ones share the probability equally.

    ability : float array (n_agents,), without NaN
    differences : pairwise differences of the same abilities, all of which can be compared

    Returns the posterior probabilities, float array (n_agents,) with sum 1; and the posterior mean of the regret, at least 0.
    """
    std_error = _derive_std_errors_of_agents(differences)
    if not std_error.any():
        is_highest = rank_with_ties(ability) == 1
        return np.asarray(is_highest / is_highest.sum()), 0.0

    grid, posterior = _estimate_posteriors(ability, std_error)
    selected_agent = np.argmax(ability)
    mean_of_selected = float(posterior[selected_agent] @ grid)
    expected_regret = _compute_mean_of_best(grid, posterior) - mean_of_selected
    return _compute_p_best(posterior), max(expected_regret, 0.0)


def _compute_p_best(posterior: Floats) -> Floats:
    """Compute the probability of each agent to have the highest ability, float array (n_agents,) with the sum 1.

    posterior : float array (n_agents, n_grid), probabilities of the abilities of a grid, independent between agents
    """
    # P(θ_i < x) of each agent; half of the probability of the grid point x itself counts as below it
    p_below = np.cumsum(posterior, axis=1) - posterior / 2

    # P(k is best) = Σ_x p_k(x)·Π_{i≠k} P(θ_i < x)
    log_p_below = np.log(np.maximum(p_below, _TINY))
    log_p_others_below = log_p_below.sum(axis=0) - log_p_below
    p_best = (posterior * np.exp(log_p_others_below)).sum(axis=1)
    return np.asarray(p_best / p_best.sum())


def _compute_mean_of_best(grid: Floats, posterior: Floats) -> float:
    """Compute the expected value of the highest ability of all agents.

    grid : float array (n_grid,), abilities, ascending
    posterior : float array (n_agents, n_grid), probabilities of these abilities, independent between agents
    """
    # the highest ability has the distribution function Π_i P(θ_i ≤ x), whose steps are its probabilities
    log_p_up_to = np.log(np.maximum(np.cumsum(posterior, axis=1), _TINY))
    p_all_up_to = np.exp(log_p_up_to.sum(axis=0))
    p_highest = np.diff(p_all_up_to, prepend=0.0)
    return float(p_highest @ grid)


def expected_selection_bias(differences: Differences, selected: Bools) -> Floats:
    """Estimate the selection bias of abilities: by how much estimates are too high because the highest ones were selected.

    Parameters
    ----------
    differences : Differences
        Differences of the abilities of all agents. It must be possible to compare every pair of agents.
    selected : bool array (n_agents,)
        Whether each agent was selected. The prior is estimated from the selected agents.

    Returns
    -------
    float array (n_agents,)
        Estimate minus posterior mean; 0 for other agents, and for all agents if fewer than 3 are selected or no error is above 0.
    """
    agents = np.flatnonzero(selected)
    bias = np.zeros(len(selected))
    if len(agents) < 3:
        return bias

    among_selected = differences.subset(agents)
    std_error = _derive_std_errors_of_agents(among_selected)
    if not std_error.any():
        return bias

    # ability relative to the mean of the selected agents; an agent's difference from itself is NaN, and counts as 0
    ability = np.nansum(among_selected.value, axis=1) / len(agents)
    grid, posterior = _estimate_posteriors(ability, std_error)
    posterior_mean = posterior @ grid
    bias[agents] = ability - posterior_mean
    return bias


def predict_rank_correlation(first: Differences, second: Differences) -> float:
    """Predict Spearman's ρ of two rankings that differ only by their sampling errors, given the first one.

    Parameters
    ----------
    first : Differences
        Differences of all abilities of the first ranking.
    second : Differences
        Differences of all abilities of the second ranking, for the same agents. Only their standard errors are used.

    Returns
    -------
    float
        Mean ρ over draws of the second ranking, at least 0; 0 if the abilities of the first vary by no more than their standard
        errors. NaN if there are fewer than 3 agents, or if two agents cannot be compared.

    Notes
    -----
    True abilities are drawn from their posterior distributions, with a prior that is estimated from the first ranking. A
    correlation of abilities would be too high: a single agent far from all others brings it close to 1, even if the ranks of the
    others are random.
    """
    from scipy.stats import rankdata  # takes long to load

    n_agents = len(first.value)
    if n_agents < 3 or not (are_comparable(first) and are_comparable(second)):
        return float("nan")
    ability = np.nansum(first.value, axis=1) / n_agents
    std_error = _derive_std_errors_of_agents(first)
    std_error_of_second = _derive_std_errors_of_agents(second)
    if ability.var(ddof=1) <= (std_error**2).mean():
        return 0.0

    rng = standalone_stream(0)
    true_ability = np.tile(ability, (_N_RANKINGS, 1))
    if std_error.any():
        grid, posterior = _estimate_posteriors(ability, std_error)
        true_ability = np.column_stack([rng.choice(grid, _N_RANKINGS, p=p / p.sum()) for p in posterior])
    drawn = true_ability + std_error_of_second * rng.standard_normal(true_ability.shape)

    # ρ of each drawn ranking with the first one, from ranks minus their mean; 0 if all drawn abilities are equal
    mean_rank = (n_agents + 1) / 2
    rank = rankdata(ability) - mean_rank
    drawn_ranks = rankdata(drawn, axis=1) - mean_rank
    norms = np.linalg.norm(drawn_ranks, axis=1) * np.linalg.norm(rank)
    rho = np.divide(drawn_ranks @ rank, norms, out=np.zeros(_N_RANKINGS), where=norms > 0)
    return max(float(rho.mean()), 0.0)


def _estimate_prior_variance(ability: Floats, std_error: Floats) -> float:
    """Estimate the variance of the true abilities: that of the estimates minus the mean error variance."""
    # If all abilities are equal, the standard error of this difference is error_variance·√(2/(n − 1)). The minimum is half of it.
    error_variance = float((std_error**2).mean())
    min_variance = error_variance * float(np.sqrt(0.5 / (len(ability) - 1)))
    return max(float(ability.var(ddof=1)) - error_variance, min_variance)


def _estimate_posteriors(ability: Floats, std_error: Floats) -> tuple[Floats, Floats]:
    """Compute the posterior distribution of each ability under a prior estimated from all of them.

    ability, std_error : float arrays (n_agents,); at least one standard error is above 0

    Returns the grid of abilities, float array (n_grid,), and the posterior probabilities, float array (n_agents, n_grid).

    The prior starts as a normal distribution, and a few EM steps adapt its shape (Jiang & Zhang 2009, Annals of Statistics 37).
    After many steps, it would be concentrated at a few points, and the expected regret would be too small (Laird 1978, J.
    American Statistical Association 73).
    """
    margin = std_error.mean()
    grid = np.linspace(ability.min() - margin, ability.max() + margin, _N_GRID)
    likelihood = _compute_normal_likelihood(ability, std_error, grid)
    prior_variance = _estimate_prior_variance(ability, std_error)
    prior = np.exp(-((grid - ability.mean()) ** 2) / (2 * prior_variance))

    # An EM step replaces the prior by the mean of the agents' posterior distributions, likelihood × prior / marginal.
    for _ in range(_N_PRIOR_STEPS):
        marginal = likelihood @ prior
        prior_ratio = (1 / marginal) @ likelihood / len(ability)
        prior = prior * prior_ratio

    marginal = likelihood @ prior
    return grid, likelihood * prior / marginal[:, None]


def _compute_normal_likelihood(ability: Floats, std_error: Floats, grid: Floats) -> Floats:
    """Compute the likelihood of each estimated ability at each true ability of a grid, relative to its maximum.

    Estimates have normal errors. A standard error below the step of the grid is replaced by the step.

    ability, std_error : float arrays (n_agents,), estimates and their standard errors
    grid : float array (n_grid,), equidistant true abilities

    Returns a float array (n_agents, n_grid).
    """
    grid_step = grid[1] - grid[0]
    z = (ability[:, None] - grid) / np.maximum(std_error, grid_step)[:, None]
    square = z**2
    smallest_square = square.min(axis=1, keepdims=True)
    return np.asarray(np.exp((smallest_square - square) / 2))


def _compute_dunnett_quantiles(control_errors: Floats, std_error: Floats, level: float) -> Floats:
    """Compute the quantile of Dunnett's test, in which one agent, the control, is compared with all others.

    The statistic is the largest difference between the errors of the control and of another agent, divided by its standard
    deviation. Errors are independent and normal. There is one quantile for each assumed standard error of the control.

    control_errors : float array (n_control_errors,), assumed standard errors of the control
    std_error : float array (n_agents,), standard errors of all agents
    level : probability of the quantile

    Returns the quantiles, float array (n_control_errors,). They are approximate: the control is not left out, and each of the n
    agents counts as (n − 1)/n of a comparison instead.
    """
    n_agents = len(std_error)
    n_comparisons = n_agents - 1

    # A standardized difference is a·z − b·z_agent, with standard normal z of the control and z_agent of the other agent. The
    # axes of the arrays are: assumed standard error of the control, integration node of z, agent.
    a = _divide_by_total_errors(control_errors, std_error)[:, None, :]
    b = np.sqrt(np.maximum(1 - a**2, 1e-12))

    def compute_probability(max_difference: Floats) -> Floats:
        """Compute the probability that no difference of an agent from the control exceeds d, by integration over z.

        A difference is a·z − b·z_agent, with standard normal errors z of the control and z_agent of the agent.

        max_difference : float array (n_control_errors,), d for each standard error of the control; the result has this shape
        """
        # Given z, the differences are independent, with P(a·z − b·z_agent ≤ d) = Φ((d − a·z)/b). The sign of z does not matter,
        # because the nodes of z are symmetric around 0.
        d = max_difference[:, None, None]
        z = _NODES[:, None]
        log_p_by_agent = log_ndtr((d + a * z) / b)

        # the product over all agents includes the control, so that its logarithm is reduced to n − 1 comparisons
        log_p_given_z = log_p_by_agent.sum(axis=2) * (n_comparisons / n_agents)
        return np.asarray(np.exp(log_p_given_z) @ _WEIGHTS / _WEIGHTS.sum())

    # the quantile is at least that of one comparison, and at most that of all comparisons by Bonferroni's correction
    lower_limit = np.full(len(control_errors), ndtri(level))
    upper_limit = np.full(len(control_errors), -ndtri((1 - level) / n_comparisons))
    return _bisect(compute_probability, lower_limit, upper_limit, level)


def _divide_by_total_errors(control_errors: Floats, std_error: Floats) -> Floats:
    """Divide standard errors of a control by the standard errors √(control_error² + std_error²) of its differences from agents.

    control_errors : float array (n_sizes,), standard errors of the control
    std_error : float array (n_agents,), standard errors of the agents

    Returns a float array (n_sizes, n_agents), √½ if both errors are 0.
    """
    total_error = np.hypot(control_errors[:, None], std_error)
    equal_shares = np.full(total_error.shape, np.sqrt(0.5))
    return np.asarray(np.divide(control_errors[:, None], total_error, out=equal_shares, where=total_error > 0))


def _compute_range_quantile(n_agents: int, level: float) -> float:
    """Compute a quantile of the range of `n_agents` independent standard normal variables, divided by √2.

    The variables are the errors of agents with equal abilities. Their range is the largest difference of two agents, and √2 is
    the standard deviation of a difference.

    n_agents : number of agents
    level : probability of the quantile
    """
    grid = np.linspace(-8, 8, _N_GRID)
    grid_step = grid[1] - grid[0]
    unscaled_density = np.exp(-(grid**2) / 2)  # normal density · √(2π)

    def compute_probability(max_difference: Floats) -> Floats:
        """Compute the probability that the range of K estimates, divided by √2, is at most d: float array (n,), for each d."""
        # K·∫ φ(x)·(Φ(x) − Φ(x − √2·d))^(K − 1) dx: one estimate is x, and the others are smaller by at most √2·d
        smallest_in_range = grid - np.sqrt(2) * max_difference[:, None]
        p_in_range = ndtr(grid) - ndtr(smallest_in_range)
        p_others_in_range = np.maximum(p_in_range, 0.0) ** (n_agents - 1)
        integral = (unscaled_density * p_others_in_range).sum(axis=1) * grid_step
        return np.asarray(n_agents * integral / np.sqrt(2 * np.pi))

    # the quantile is at least that of one comparison, and at most that of all comparisons by Bonferroni's correction
    n_comparisons = n_agents * (n_agents - 1)
    lower_limit = np.array([ndtri(level)])
    upper_limit = np.array([-ndtri((1 - level) / n_comparisons)])
    return float(_bisect(compute_probability, lower_limit, upper_limit, level)[0])


def _bisect(compute_probability: Callable[[Floats], Floats], low: Floats, high: Floats, level: float) -> Floats:
    """Find the arguments between `low` and `high` at which an increasing function is `level`, by bisection.

    low, high : float arrays (n,), bounds of the arguments; `compute_probability` maps an array (n,) to an array (n,)
    """
    for _ in range(_N_BISECTIONS):
        mid = (low + high) / 2
        is_below = compute_probability(mid) < level
        low = np.where(is_below, mid, low)
        high = np.where(is_below, high, mid)
    return np.asarray((low + high) / 2)
