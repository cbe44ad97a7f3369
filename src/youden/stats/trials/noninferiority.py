"""Decide at each interim analysis whether a new agent is non-inferior to a baseline, and forecast later decisions.

Intervals stay valid if two agents hardly ever differ. If no item shows a difference, the estimated variance is 0, and
yet 12 equal items of 12 are compatible with a difference on 26% of all items.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.stats.base.clusters import unseen_effect_square
from youden.stats.trials.agent_rates import MIN_DF, AgentRates
from youden.stats.trials.trial_errors import InfluenceTable
from youden.types.pool import Floats, Positions

_MAX_ITEMS = 10**6
_PRIOR_ITEMS = 6
"""Weight of the average variance of all agents when the variance of a difference is shrunk towards it, in items."""
_UNSEEN_FLOOR = 0.4
"""Divided by n, the smallest factor 1 − 3r/n of the unseen squared effect of n items, whose variance is skewed if few differ."""


class ConservativeDifference(NamedTuple):
    """Difference of two abilities, with an interval that is never of length 0.

    Attributes
    ----------
    value : float
        Difference θ_new − θ_old.
    variance : float
        Variance of the difference over items, which contains `residual_variance`.
    n_items : int
        Number of items with a trial of either agent.
    n_effective_items : float
        Number of equally weighted items with the same information.
    unseen_effect_square : float
        Squared effect of a kind of item that the run does not contain yet; 1 if no item shows a difference.
    residual_variance : float, default 0
        Part of the variance that more trials on the same items reduce.
    min_items : float, default ∞
        Number of items of the agent that has fewer.
    rate_variance : float, default 0
        Variance of the difference of the false-positive rates that were subtracted.
    rate_df : float, default ∞
        Degrees of freedom of this variance.
    rates_improve : bool, default True
        Whether more calls reduce this variance, because they include independent trials.
    shared_items : int, optional
        Number of items with trials of both agents; None if each agent was compared on all of the `n_items` items.
    max_df : float, default ∞
        Upper limit of the degrees of freedom of `variance`, which are otherwise n_items − 1.
    """

    value: float
    variance: float
    n_items: int
    n_effective_items: float
    unseen_effect_square: float
    residual_variance: float = 0.0
    min_items: float = math.inf
    rate_variance: float = 0.0
    rate_df: float = math.inf
    rates_improve: bool = True
    shared_items: int | None = None
    max_df: float = math.inf

    def with_rates(self, rates: AgentRates, new: int, old: int, *, improve: bool = True) -> ConservativeDifference:
        """Subtract the agents' false-positive rates from their mean answers, which gives the difference of abilities.

        The result is the ability of the new agent minus the ability of the old agent.

        Parameters
        ----------
        rates : AgentRates
            Estimated false-positive rates of the agents, with the covariance of their errors.
        new, old : int
            Positions of the two agents.
        improve : bool, default True
            Whether more calls include independent trials, which reduce the error of the rates. If False, the forecasts `after`
            and `with_items` do not change the variance of the rates.

        Returns
        -------
        ConservativeDifference
            Copy with the difference of the abilities (`value`), the variance of the difference of the rates (`rate_variance`),
            its degrees of freedom (`rate_df`) and `rates_improve`. Other fields are unchanged. Call it only once: a second call
            would subtract the rates again.
        """
        variance, df = rates.difference_variance(new, old)
        rate_difference = float(rates.rate[new] - rates.rate[old])
        return self._replace(
            value=self.value - rate_difference, rate_variance=variance, rate_df=df, rates_improve=improve
        )

    @property
    def total_variance(self) -> float:
        """Variance of the difference over items and through false-positive rates."""
        return self.variance + self.rate_variance

    @property
    def df(self) -> float:
        """Degrees of freedom of the total variance, by the formula of Welch and Satterthwaite.

        The formula is (v + r)²/(v²/d + r²/ν):

        - v is the variance over items, with d degrees of freedom: n_items − 1, but at most `max_df`.
        - r is the variance due to the false-positive rates, with ν degrees of freedom.

        The result is at least the smaller of 10 and d.
        """
        item_df = min(self.n_items - 1, self.max_df)
        if self.rate_variance == 0:
            return item_df
        denominator = self.variance**2 / item_df + self.rate_variance**2 / self.rate_df
        welch_df = self.total_variance**2 / denominator
        return max(welch_df, min(MIN_DF, item_df))

    def after(self, n_items: int, *, item_factor: float, trial_factor: float) -> ConservativeDifference:
        """Forecast the difference after more calls, with the same value and smaller variances.

        Parameters
        ----------
        n_items : int
            Number of items in all after these calls.
        item_factor : float
            Factor for the part of the variance that only more items reduce: from 0 to 1 for a larger plan.
        trial_factor : float
            Factor for the residual variance, which more trials on the same items reduce: from 0 to 1 for a larger plan. If
            `rates_improve`, it also applies to the variance of the false-positive rates.

        Returns
        -------
        ConservativeDifference
            The forecast, a copy. `n_effective_items` and `max_df` grow in proportion to `n_items`. `value`, `min_items`,
            `shared_items`, `unseen_effect_square` and the degrees of freedom of the rates are unchanged.
        """
        residual_variance = trial_factor * self.residual_variance
        rate_factor = trial_factor if self.rates_improve else 1.0
        return self._replace(
            variance=item_factor * (self.variance - self.residual_variance) + residual_variance,
            n_items=n_items,
            n_effective_items=self.n_effective_items * n_items / self.n_items,
            max_df=self.max_df * n_items / self.n_items,
            residual_variance=residual_variance,
            rate_variance=rate_factor * self.rate_variance,
        )

    def with_items(self, n_items: int) -> ConservativeDifference:
        """Forecast the difference for another number of items, with as many trials per item as now.

        Parameters
        ----------
        n_items : int
            Number of items.

        Returns
        -------
        ConservativeDifference
            Difference with the same value. The variance over items is multiplied by the present number of items divided by
            `n_items`. If `rates_improve`, so is the variance of the false-positive rates.
        """
        factor = self.n_items / n_items
        return self.after(n_items, item_factor=factor, trial_factor=factor)

    def half_width(self, alpha: float) -> float:
        """Compute the half-width of the interval of the difference.

        Parameters
        ----------
        alpha : float
            Type I error rate on either side.

        Returns
        -------
        float
            Half-width, greater than 0.

        Notes
        -----
        √(t²·v + (1 − alpha^(1/m))²·h), with v the total variance, t the quantile of Student's t with `df` degrees of
        freedom, m the effective number of items and h the unseen squared effect. If no item shows a difference and the
        false-positive rates have no variance, it is 1 − alpha^(1/m), which is exact: if a larger share of items differed, the
        probability of m items without a difference would be below alpha.
        """
        t = float(student.ppf(1 - alpha, self.df))
        unseen_share = float(zero_event_upper_bound(alpha, np.array(self.n_effective_items)))
        return math.sqrt(t**2 * self.total_variance + unseen_share**2 * self.unseen_effect_square)


def zero_event_upper_bound(alpha: float, n: Floats) -> Floats:
    """Compute the upper confidence bound on a proportion if no event occurred in n trials.

    Parameters
    ----------
    alpha : float
        Type I error rate, one-sided.
    n : float array
        Numbers of trials.

    Returns
    -------
    float array
        1 − alpha^(1/n), with the shape of `n`; about −ln(alpha)/n if n is large (the rule of three, if alpha is .05).
    """
    return np.asarray(-np.expm1(math.log(alpha) / n))


def estimate_difference(influence: InfluenceTable, new: int, old: int) -> ConservativeDifference:
    """Estimate θ_new − θ_old with its item-clustered variance.

    Parameters
    ----------
    influence : InfluenceTable
        Influence of the items on the abilities of all agents, made by `compute_item_influence`.
    new, old : int
        Positions of the two agents.

    Returns
    -------
    ConservativeDifference
        The difference `value` in the unit of abilities, with its `variance`. More trials on the same items reduce only the part
        `residual_variance`. `n_items` items have a trial of either agent, `shared_items` have trials of both, and `min_items` is
        the number of items of the agent that has fewer. `unseen_effect_square` estimates the squared effect of a kind of item
        that the run does not contain yet. False-positive rates are not subtracted: see `with_rates`.

    Raises
    ------
    StatisticsError
        [difference-agent] if an agent has no ability; [difference-items] if fewer than 2 items have a trial of either agent.

    Notes
    -----
    The variance over n items is n/(n − 1)·max(v, (v(n − 1) + 6v̄)/(n + 5)). v = Σ_j (U_new,j − U_old,j)², with U_ij the
    influence of item j on agent i. v̄ is the variance that the trials of all agents predict for the same numbers of
    trials. The residual part of the variance is (K − 2)/(K − 1)·Σ_i Σ_j p_ij²·within_i/n_ij over both agents i, for K
    agents, with p_ij the share of item j in the n_i trials of agent i, n_ij of them on the item, and within_i their
    variance on an item. The factor allows for trials between the two agents, whose errors cancel in the difference.
    """
    for agent in (new, old):
        if np.isnan(influence.ability[agent]):
            raise StatisticsError(
                f"Agent number {agent} has no ability: got NaN. Add trials of this agent before you compare it.",
                slug="difference-agent",
            )

    pair = [new, old]
    n_by_item = influence.n_trials[pair]
    n_items = int((n_by_item > 0).any(axis=0).sum())
    if n_items < 2:
        raise StatisticsError(
            f"A difference needs 2 items with trials of the two agents: got {n_items}. Add trials on more items.",
            slug="difference-items",
        )

    # v, and v shrunk towards v̄; the larger one is used
    difference = influence.influence[new] - influence.influence[old]
    observed = float((difference**2).sum())
    predicted = _predict_difference_variance(influence, pair)
    shrunk = (observed * (n_items - 1) + _PRIOR_ITEMS * predicted) / (n_items - 1 + _PRIOR_ITEMS)
    variance = n_items / (n_items - 1) * max(observed, shrunk)

    # (K − 2)/(K − 1)·Σ_i Σ_j p_ij²·within_i/n_ij
    K = int(influence.n_trials.any(axis=1).sum())
    share_squares_per_trial = (influence.weight[pair] ** 2 / np.maximum(n_by_item, 1)).sum(axis=1)
    within_variance = np.nan_to_num(influence.within_item_variance[pair]) @ share_squares_per_trial
    residual_variance = min((K - 2) / (K - 1) * float(within_variance), variance)

    # effect of each item on the difference, if items had equal weights
    mean_item_share = influence.weight[pair].mean(axis=0)
    n_effective = 1 / float((mean_item_share**2).sum())
    effect = (difference * n_effective)[None]
    unseen = float(unseen_effect_square(effect, np.array([n_items]), floor=_UNSEEN_FLOOR / n_items)[0])
    return ConservativeDifference(
        value=float(influence.ability[new] - influence.ability[old]),
        variance=variance,
        n_items=n_items,
        n_effective_items=n_effective,
        unseen_effect_square=unseen,
        residual_variance=residual_variance,
        min_items=int((n_by_item > 0).sum(axis=1).min()),
        shared_items=int((n_by_item > 0).all(axis=0).sum()),
    )


def _predict_difference_variance(table: InfluenceTable, compared_agents: list[int]) -> float:
    """Predict the variance of the difference of two abilities from their numbers of trials and the variance of a trial.

    For agents with n and m trials, the result is σ²·(1/n + 1/m). The variance σ² of a trial is averaged over all agents.

    table : influence of each item on each ability, with numbers of trials
    compared_agents : positions of the two agents
    """
    n_trials = table.n_trials.sum(axis=1)
    has_trials = n_trials > 0

    # The influence of an item is its contribution to the error of an ability. Centered by the mean over agents, squared and
    # summed over items, it gives the variance of the ability.
    influence = table.influence[has_trials]
    centered_influence = influence - influence.mean(axis=0)
    ability_variance = (centered_influence**2).sum(axis=1)

    # Each agent with n trials gives an estimate of σ², n × its ability variance. Their mean has one degree of freedom less than
    # agents, because a mean was subtracted.
    variance_estimates = ability_variance * n_trials[has_trials]
    trial_variance = float(variance_estimates.sum()) / (len(influence) - 1)
    return trial_variance * float((1 / n_trials[compared_agents]).sum())


def required_n_items(difference: ConservativeDifference, *, margin: float, alpha: float) -> int | None:
    """Find the number of items at which the non-inferiority test decides, if the difference stays the same.

    Parameters
    ----------
    difference : ConservativeDifference
        The difference so far.
    margin : float
        Non-inferiority margin, above 0, in the unit of the difference.
    alpha : float
        Type I error rate on either side, between 0 and ½.

    Returns
    -------
    int or None
        Smallest number of items in all, at least 2, at which the interval lies above −margin or below 0, with as many trials per
        item as now; None if a million items do not suffice.

    Raises
    ------
    StatisticsError
        [decision-error]: unless 0 < alpha < ½ and margin > 0.

    Notes
    -----
    The number is found by bisection, because half-widths fall with the number of items. For alpha < .005 and a constant
    variance of false-positive rates with few degrees of freedom, they may rise by some percent before they fall again;
    then a smaller number may suffice, too.

    Examples
    --------
    >>> equal = ConservativeDifference(0.0, 0.0, 12, 12.0, 1.0)
    >>> round(equal.half_width(0.025), 3), required_n_items(equal, margin=0.05, alpha=0.025)
    (0.265, 72)
    """
    if not 0 < alpha < 0.5 or not margin > 0:
        raise StatisticsError(
            f"Alpha must be between 0 and ½, and the margin above 0: got {alpha} and {margin}. "
            "Pass, for example, 0.025 and 0.05.",
            slug="decision-error",
        )
    max_half_width = max(margin + difference.value, -difference.value)
    low, high = 2, _MAX_ITEMS
    if difference.with_items(high).half_width(alpha) >= max_half_width:
        return None

    # bisection: the half-width falls with the number of items
    while low < high:
        midpoint = (low + high) // 2
        if difference.with_items(midpoint).half_width(alpha) < max_half_width:
            high = midpoint
        else:
            low = midpoint + 1
    return low


GateOutcome = Literal["better", "no worse", "worse", "undecided"]
"""Result of a non-inferiority test: superior, non-inferior, inferior or inconclusive."""

ALPHA = 0.025
"""Type I error rate on either side of the first analysis; all later analyses together have the same."""
_VARIANCE_QUANTILES = np.arange(0.025, 1, 0.05)
"""Quantiles over which the distribution of the variance estimate is averaged."""


class Decision(NamedTuple):
    """Result of one interim analysis.

    Attributes
    ----------
    low, high : float
        Interval of the difference at the level 1 − 2·alpha.
    outcome : GateOutcome
        Conclusion from the interval.
    """

    low: float
    high: float
    outcome: GateOutcome


def alpha_at_analysis(analysis: int, *, n_comparisons: int = 1) -> float:
    """Compute the type I error rate that an interim analysis spends on either side.

    Parameters
    ----------
    analysis : int
        Number of the analysis, from 1.
    n_comparisons : int, default 1
        Number of differences that are tested together.

    Returns
    -------
    float
        .025·2^(1 − analysis)/n_comparisons.

    Raises
    ------
    StatisticsError
        [analysis-number]: if a number is below 1.

    Notes
    -----
    A geometric series of Bonferroni corrections. Over any number of analyses and all comparisons, the probability of a false
    "worse" is at most .05, and the probability of a false pass is at most .05 as well.

    Examples
    --------
    >>> alpha_at_analysis(1), alpha_at_analysis(3, n_comparisons=5)
    (0.025, 0.00125)
    """
    if analysis < 1 or n_comparisons < 1:
        raise StatisticsError(
            f"Analyses and comparisons are counted from 1: got analysis {analysis} of {n_comparisons} comparisons. "
            "Pass at least 1.",
            slug="analysis-number",
        )
    return ALPHA * 2.0 ** (1 - analysis) / n_comparisons


def decide(value: float, half_width: float, *, margin: float) -> Decision:
    """Decide from the interval of a difference whether a new agent is better, no worse or worse than an old one.

    Parameters
    ----------
    value, half_width : float
        Difference θ_new − θ_old of the abilities, and half the length of its interval.
    margin : float
        Non-inferiority margin, above 0; this is not checked.

    Returns
    -------
    Decision
        Bounds of the interval and `outcome`. The first case that applies is the outcome: "better" if the whole interval is above
        0, "no worse" if it is above −margin, "worse" if it is below 0. Otherwise, and for NaN, it is "undecided".
    """
    low, high = value - half_width, value + half_width
    if low > -margin:
        return Decision(low, high, "better" if low > 0 else "no worse")
    return Decision(low, high, "worse" if high < 0 else "undecided")


def conditional_power(
    value: float,
    components: tuple[float, float],
    *,
    remaining: tuple[Floats, Floats],
    df: float,
    later_df: Positions | Floats,
    unseen_variance: Floats,
    margin: float,
    alpha: float,
) -> Floats:
    """Compute the probability that a later analysis decides, given the data so far.

    The true difference is assumed to be −margin/2, at which a decision is least likely.

    Parameters
    ----------
    value : float
        Difference θ_new − θ_old of the abilities now.
    components : (float, float)
        Parts of its variance now: the part that only more items reduce, and the part that more trials reduce. Their sum is v.
    remaining : (float array, float array)
        Factors (n_analyses,) in [0, 1] by which the two components, in the same order, are multiplied at each later analysis.
    df : float
        Degrees of freedom of the variance estimate now, above 0.
    later_df : int or float array (n_analyses,)
        Degrees of freedom at each later analysis.
    unseen_variance : float array (n_analyses,)
        Term that effects not seen yet add to the squared half-width.
    margin : float
        Non-inferiority margin, above 0, in the unit of the difference.
    alpha : float
        Type I error rate on either side at each later analysis, between 0 and ½.

    Returns
    -------
    float array (n_analyses,)
        For each later analysis, the probability that its outcome is not "undecided" (see `decide`).

    Notes
    -----
    Let w be the variance at the later analysis, and ρ = w/v. The later estimate is N(ρ·value − (1 − ρ)·margin/2,
    w·(1 − ρ)). The later analysis is undecided if this estimate is between −h and h − margin, with the
    half-width h = √(t²w + unseen_variance). If h ≤ margin/2, the later analysis always decides. As v is an estimate, the
    probability is averaged over v·df/χ²_df, with the trials' component held fixed.

    References
    ----------
    Lachin (2005), Statistics in Medicine 24, 2747–2764 (conditional power).
    """
    item_variance, trial_variance = components
    item_factor, trial_factor = remaining
    t = student.ppf(1 - alpha, later_df)
    power = np.zeros(len(later_df))
    possible_variances = (item_variance + trial_variance) * df / chi2.ppf(_VARIANCE_QUANTILES, df)
    for variance in possible_variances:
        from_trials = min(trial_variance, variance)
        from_items = variance - from_trials
        later_variance = np.minimum(from_items * item_factor + from_trials * trial_factor, variance)
        half_width = np.sqrt(t**2 * later_variance + unseen_variance)

        # normal distribution of the later estimate, given the present one
        rho = later_variance / variance if variance > 0 else np.zeros(len(later_variance))
        mean = rho * value - (1 - rho) * margin / 2
        sd = np.sqrt(np.maximum(later_variance * (1 - rho), np.finfo(np.float64).tiny))

        # P(−h ≤ estimate ≤ h − margin), an empty interval if h < margin/2
        p_below_upper = ndtr((half_width - margin - mean) / sd)
        p_below_lower = ndtr((-half_width - mean) / sd)
        p_undecided = np.maximum(0.0, p_below_upper - p_below_lower)
        power += (1 - p_undecided) / len(_VARIANCE_QUANTILES)
    return power
