"""Estimate each agent's quality, the mean label it would have, from few labels and ability by small area estimation.

Labels enter through the binomial likelihood, and ability through the regressions of `ability_regression`. Intervals
reflect all uncertainties of the regressions. The point estimate uses the median of the slope, which stays 0 until labels
show a slope: a useless ability does not break ties.

References: Fay & Herriot (1979), J. American Statistical Association 74; Ybarra & Lohr (2008), Biometrika 95 (error of
the covariate); Datta & Lahiri (1995), J. Multivariate Analysis 54 (outliers); Hoeting et al. (1999), Statistical
Science 14 (model averaging); Johnstone & Silverman (2004), Annals of Statistics 32 (median under a prior with an atom
at 0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_expit, ndtri

from youden.errors import StatisticsError
from youden.stats.base.clusters import check_level
from youden.stats.base.proportions import proportion
from youden.stats.small_areas.ability_regression import (
    LabelLikelihood,
    RegressionPosterior,
    fit_regressions,
    logit_grid,
)
from youden.stats.small_areas.shared_items import LabelResiduals
from youden.types.label_facts import QualityLine
from youden.types.pool import Bools, Floats, Positions

MIN_AGENTS = 5
"""Number of labeled agents below which no regression is fitted, and quality is estimated from labels alone."""
_P_OUTLIER = 0.5
"""An agent is called an outlier if the posterior probability exceeds this."""
_GRID_STEP, _FINE_GRID_STEP = 0.125, 0.05
"""Step of the grid of logits, and its step if an agent has more than `_MANY_LABELS` labels."""
_MANY_LABELS, _MAX_LABELS = 150, 1000
_PRIOR_VARIANCE = 0.25
"""Variance of a label of 0 or 1 with the mean .5, which is added to the sums of squares that are compared."""
_MIN_RELATIVE_VARIANCE = 0.02
_N_CURVE_POINTS, _N_BISECTIONS = 41, 20


@dataclass(frozen=True, eq=False)
class QualityEstimates:
    """Quality of each agent, in [0, 1], with its posterior distribution.

    Attributes
    ----------
    quality, low, high : float array (n_agents,)
        Estimates and credible bounds at `level`; NaN for an agent without labels if no regression was fitted.
    label_weight : float array (n_agents,)
        Approximate weight in [0, 1] of an agent's own labels in its estimate: their effective number, divided by this number plus
        the number of labels that the prediction is worth. Without a regression, 1 for an agent with labels, and else 0.
    p_outlier : float array (n_agents,)
        Probability that an agent is off the regression; NaN without a regression.
    predicted : float array (n_agents,)
        Quality predicted from ability and the other agents, without the agent's labels, as the mean over all slopes (`quality`
        uses the median slope); NaN without a regression.
    regression : QualityLine or None
        Regression of logit quality on ability; None if fewer than 5 agents have labels.
    item_variance_share : float
        Share of the variance of labels around their agents' quality that is due to the items; 0 without a regression.
    density : float array (n_agents, n_grid)
        Posterior probabilities on `grid`; rows sum to 1.
    grid : float array (n_grid,)
        Values of quality.
    level : float
        Level of the credible intervals.
    """

    quality: Floats
    low: Floats
    high: Floats
    label_weight: Floats
    p_outlier: Floats
    predicted: Floats
    regression: QualityLine | None
    item_variance_share: float
    density: Floats
    grid: Floats
    level: float

    @property
    def is_outlier(self) -> Bools:
        """Whether each agent is more likely than not off the regression: bool array (n_agents,)."""
        return np.nan_to_num(self.p_outlier) > _P_OUTLIER

    def best_probabilities(self) -> Floats:
        """Compute each agent's posterior probability of having the highest quality; agents are taken as independent.

        Returns
        -------
        float array (n_agents,)
            Probabilities, which sum to 1.
        """
        # P(k is best) = Σ_g p_k(g)·Π_{i≠k} P(quality of i < g) over the grid points g. Half of the probability p_i(g) counts as
        # below g.
        p_below = np.cumsum(self.density, axis=1) - self.density / 2  # (n_agents, n_grid)
        log_p_below = np.log(np.maximum(p_below, 1e-300))
        log_p_others_below = log_p_below.sum(axis=0) - log_p_below
        p_best = (self.density * np.exp(log_p_others_below)).sum(axis=1)
        return np.asarray(p_best / p_best.sum())

    def regret_bound(self, agent: int) -> float:
        """Compute an upper bound on the regret of a selected agent: how much better any other agent may be.

        Parameters
        ----------
        agent : int
            Position of the selected agent.

        Returns
        -------
        float
            Smallest δ for which this holds with the probability `level`: no agent is better than the selected one by more than
            δ. Without another agent, it is 0 up to rounding.
        """
        cdf = np.cumsum(self.density, axis=1)  # P(quality ≤ grid point) of each agent
        cdf_of_others = np.delete(cdf, agent, axis=0)

        # bisection for the smallest δ with P(no other quality exceeds the selected one by more than δ) ≥ level
        low, high = 0.0, 1.0
        for _ in range(_N_BISECTIONS):
            delta = (low + high) / 2
            # P(other quality ≤ selected quality + δ), by other agent (rows) and selected quality (columns, the grid)
            p_within = [np.interp(self.grid + delta, self.grid, other_cdf) for other_cdf in cdf_of_others]
            p_all_within = self.density[agent] @ np.reshape(p_within, cdf_of_others.shape).prod(axis=0)
            if p_all_within >= self.level:
                high = delta
            else:
                low = delta
        return high

    def allocate_labels(self, n: int, left: Positions, *, for_best: bool) -> Positions:
        """Allocate further labels, one after the other, to the agents for which they are worth most.

        Parameters
        ----------
        n : int
            Number of labels to allocate, 0 or more.
        left : int array (n_agents,)
            Largest number of labels that each agent can still get, 0 or more. It is not changed.
        for_best : bool
            True: maximize the expected gain in the quality of the selected agent, the one of highest mean quality. False:
            maximize the reduction of the variances of all agents.

        Returns
        -------
        int64 array (n_agents,)
            Number of labels for each agent; fewer than n in all if fewer are left.

        Notes
        -----
        The gain of knowing an agent's quality q is the expected improvement E max(q − m, 0), with m the best estimate
        among the other agents. For the best agent itself it is E max(m − q, 0). The value of an agent's next label is this gain
        divided by 1 plus the number of labels allocated to the agent so far. If `for_best` is False, the value is
        v²/(v + q(1 − q)), with v the variance of the quality after the labels allocated so far.

        References
        ----------
        Frazier (2018), A tutorial on Bayesian optimization, arXiv:1807.02811.
        """
        variance = _compute_variances(self.density, self.grid)
        q = self.density @ self.grid
        label_variance = q * (1 - q)

        # gain of knowing the quality q' of each agent: E max(q' − m, 0), or E max(m − q', 0) for the best agent
        best = int(np.argmax(q))
        is_best = np.arange(len(q)) == best
        second_highest = np.delete(q, best).max(initial=0.0)
        best_other = np.where(is_best, second_highest, q[best])[:, None]
        sign = np.where(is_best, -1, 1)[:, None]
        improvement = np.maximum(sign * (self.grid - best_other), 0)
        gain = (self.density * improvement).sum(axis=1)

        allocated = np.zeros(len(left), dtype=np.int64)
        for _ in range(min(n, int(left.sum()))):
            if for_best:
                value = gain / (1 + allocated)
            else:  # reduction of the variance by one more label
                current = variance / (1 + allocated * variance / label_variance)
                value = current**2 / (current + label_variance)
            value_if_possible = np.where(allocated < left, value, -1.0)
            allocated[int(np.argmax(value_if_possible))] += 1
        return allocated


def quality_from_labels(
    agent: Positions, item: Positions, value: Floats, *, ability: Floats, std_error: Floats, level: float = 0.95
) -> QualityEstimates:
    """Estimate the quality of agents from labels and abilities.

    Parameters
    ----------
    agent, item : int array (n_labels,)
        Positions of the agent and of the item of each labeled response.
    value : float array (n_labels,)
        Labels in [0, 1], averaged over the labels of one response.
    ability, std_error : float array (n_agents,)
        Abilities and their standard errors; NaN for an agent without an ability. The ability of an agent without a standard error
        is not used, because its precision is unknown. The quality of an agent without a usable ability is predicted from the
        qualities of all agents.
    level : float, default 0.95
        Level of the credible intervals, in (0, 1).

    Returns
    -------
    QualityEstimates
        `quality` in [0, 1] is the mean label that an agent would have, with the credible interval `low`, `high`. `predicted` is
        the quality without the agent's own labels, whose weight is `label_weight`. `p_outlier` is the probability that the agent
        does not fit the `regression` of quality on ability. If fewer than 5 agents have labels, no regression is fitted. The
        estimates are then the label means with Wilson intervals, and NaN for an agent without labels.

    Raises
    ------
    StatisticsError
        [labels-range]: if a label is NaN or outside [0, 1]; [level]: unless 0 < level < 1.

    Notes
    -----
    Labels of one item share the effect of the item. This effect is predicted for each label from the residuals of the
    other labels on the item, weighted by their estimated correlation, and subtracted from the label. The error that
    remains, because the labeled items may be easy or difficult for all agents, widens the intervals of quality. It does
    not change the posterior densities (`QualityEstimates.density`), because differences between agents do not contain it.
    """
    check_level(level)
    if not ((value >= 0) & (value <= 1)).all():
        raise StatisticsError(
            f"Labels must be from 0 to 1: got labels from {np.min(value)} to {np.max(value)}. Pass labels on that scale.",
            slug="labels-range",
        )
    n_labels = np.bincount(agent, minlength=len(ability)).astype(np.float64)
    mean = _average_by_agent(agent, value, n_labels)
    relative_variance = _estimate_relative_variance(agent, value, mean)
    labels = _LabelMeans(mean, n_labels, np.full(len(n_labels), relative_variance))
    if (n_labels > 0).sum() < MIN_AGENTS:
        return _estimate_from_labels(labels, level)
    estimates = _fit_regression(labels, ability, std_error, level)
    residuals = LabelResiduals.from_quality(agent, item, value, estimates.quality)
    if residuals.n_ordered_pairs == 0:
        return estimates

    correlation = residuals.correlation_beyond_chance()
    if correlation > 0:
        predicted, remaining = residuals.predict_from_others(correlation)
        mean = np.clip(_average_by_agent(agent, value - predicted, n_labels), 0, 1)
        mean_remaining = np.where(n_labels > 0, _average_by_agent(agent, remaining, n_labels), 1.0)
        relative_variance = _estimate_relative_variance(agent, value, estimates.quality)
        labels = _LabelMeans(mean, n_labels, relative_variance * mean_remaining)
        estimates = _fit_regression(labels, ability, std_error, level)
    widened = _widen_intervals(estimates, residuals.shared_variance(relative_variance))
    return replace(widened, item_variance_share=correlation)


@dataclass(frozen=True, eq=False)
class _LabelMeans:
    """Label means of the agents.

    Attributes
    ----------
    mean, n : float array (n_agents,)
        Mean and number of each agent's labels.
    relative_variance : float array (n_agents,)
        Variance of a label, divided by the variance of a label of 0 or 1 with the same mean.
    """

    mean: Floats
    n: Floats
    relative_variance: Floats


def _average_by_agent(agent: Positions, values: Floats, n_labels: Floats) -> Floats:
    """Average values of labels by agent: float array (n_agents,), 0 for an agent without labels.

    agent, values : arrays (n_labels,), agent and value of each label
    n_labels : float array (n_agents,), number of labels of each agent
    """
    total = np.bincount(agent, weights=values, minlength=len(n_labels))
    return np.asarray(total / np.maximum(n_labels, 1))


def _estimate_relative_variance(agent: Positions, label: Floats, mean: Floats) -> float:
    """Estimate the variance of labels, divided by the variance of labels of 0 or 1 with the same means.

    Labels of 0 or 1 have the variance mean·(1 − mean). Grades between 0 and 1 vary less.

    agent : int array (n_labels,), agent of each label
    label : float array (n_labels,), labels in [0, 1]
    mean : float array (n_agents,), mean label of each agent

    Returns one number from 0.02 to 1 for all agents.
    """
    if np.isin(label, (0.0, 1.0)).all():
        return 1.0

    # observed sum of squared deviations, and the sum that labels of 0 or 1 would have
    mean_of_agent = mean[agent]
    squared_deviations = ((label - mean_of_agent) ** 2).sum()
    binary_variances = (mean_of_agent * (1 - mean_of_agent)).sum()

    # the estimated means make the deviations too small: each costs one degree of freedom
    n_labels = len(label)
    n_labeled_agents = (np.bincount(agent, minlength=len(mean)) > 0).sum()
    df_correction = n_labels / max(n_labels - n_labeled_agents, 1)

    # shrink the ratio towards 1 by adding the same number to both sums
    ratio = (df_correction * squared_deviations + _PRIOR_VARIANCE) / (binary_variances + _PRIOR_VARIANCE)
    return float(np.clip(ratio, _MIN_RELATIVE_VARIANCE, 1.0))


def _estimate_from_labels(labels: _LabelMeans, level: float) -> QualityEstimates:
    """Estimate the quality of agents from their labels alone, by label means with Wilson intervals.

    Wilson's formula is for labels of 0 or 1. For grades between 0 and 1, which vary less, the intervals are too wide. Qualities
    are not predicted from abilities, and outliers are not identified.

    labels : label means and numbers of labels of the agents
    level : confidence level

    Returns the estimates, NaN for an agent without a label, with posterior densities for a uniform prior of quality.
    """
    mean, n_labels = labels.mean, labels.n
    is_labeled = n_labels > 0
    label_sum = mean * n_labels
    wilson_intervals = [proportion(total, n, level=level) for total, n in zip(label_sum, n_labels, strict=True)]

    # posterior on the grid of logits: if quality q is uniform, its logit has the density q·(1 − q)
    logits = logit_grid(_GRID_STEP)
    prior = expit(logits) * expit(-logits)
    density = _compute_binomial_likelihood(mean, n_labels, _GRID_STEP) * prior

    unknown = np.full(len(mean), np.nan)
    return QualityEstimates(
        quality=np.where(is_labeled, mean, np.nan),
        low=np.array([interval.low for interval in wilson_intervals]),
        high=np.array([interval.high for interval in wilson_intervals]),
        label_weight=np.where(is_labeled, 1.0, 0.0),
        p_outlier=unknown,
        predicted=unknown,
        regression=None,
        item_variance_share=0.0,
        density=density / density.sum(axis=1, keepdims=True),
        grid=expit(logits),
        level=level,
    )


def _widen_intervals(estimates: QualityEstimates, shared_variance: float) -> QualityEstimates:
    """Widen the intervals of quality by an error that all agents share, because the labeled items may be unusually easy.

    The error has the variance shared_variance·q·(1 − q) for an agent of quality q.

    estimates : estimates with intervals that do not contain the shared error
    shared_variance : variance of the shared error, divided by q·(1 − q)

    Returns a copy with wider intervals.
    """
    # on the scale arcsin(√q), the standard deviation of the shared error is √shared_variance/2 for every q
    center = np.arcsin(np.sqrt(estimates.quality))
    distance_low = center - np.arcsin(np.sqrt(estimates.low))
    distance_high = np.arcsin(np.sqrt(estimates.high)) - center
    shared_half_width = ndtri((1 + estimates.level) / 2) * np.sqrt(shared_variance) / 2

    # the squares of half-widths add up, because the errors are independent
    low = np.maximum(center - np.hypot(distance_low, shared_half_width), 0)
    high = np.minimum(center + np.hypot(distance_high, shared_half_width), np.pi / 2)
    return replace(estimates, low=np.sin(low) ** 2, high=np.sin(high) ** 2)


def _compute_binomial_likelihood(mean: Floats, n_labels: Floats, step: float) -> Floats:
    """Compute the likelihood of each agent's labels at each logit of a grid: float array (n_agents, n_grid).

    For n labels of an agent of quality q, it is q^(n·mean)·(1 − q)^(n·(1 − mean)), divided by its maximum on the grid.

    mean, n_labels : float array (n_agents,), label means and effective numbers of labels
    step : step of the grid
    """
    logits = logit_grid(step)
    log_likelihood_per_label = mean[:, None] * log_expit(logits) + (1 - mean[:, None]) * log_expit(-logits)
    log_likelihood = n_labels[:, None] * log_likelihood_per_label
    max_log_likelihood = log_likelihood.max(axis=1, keepdims=True)
    return np.asarray(np.exp(log_likelihood - max_log_likelihood))


def _fit_regression(labels: _LabelMeans, ability: Floats, std_error: Floats, level: float) -> QualityEstimates:
    """Estimate the quality of agents from their labels and from a regression of quality on ability.

    labels : label means and numbers of labels of the agents
    ability, std_error : float arrays (n_agents,), abilities and their standard errors
    """
    mean, n_labels = labels.mean, labels.n
    n_effective = np.minimum(n_labels / labels.relative_variance, _MAX_LABELS)
    step = _FINE_GRID_STEP if n_effective.max() > _MANY_LABELS else _GRID_STEP
    likelihood = LabelLikelihood(_compute_binomial_likelihood(mean, n_effective, step), step, int((n_labels > 0).sum()))
    posterior = fit_regressions(likelihood, ability, std_error)
    q = expit(likelihood.logits)

    # posterior of each agent: prediction times the likelihood of its own labels; the quality of an outlier is uniform
    from_regression, prior_p_outlier = posterior.predict()
    as_outlier = prior_p_outlier[:, None] * likelihood.uniform
    prior = from_regression + as_outlier
    density = prior * likelihood.value
    p_outlier = (as_outlier * likelihood.value).sum(axis=1) / density.sum(axis=1)
    density /= density.sum(axis=1, keepdims=True)

    # point estimates: the same with the slope at its posterior median
    slope = posterior.slope_quantile(0.5)
    at_median = posterior.condition_on_slope(slope)
    quality = _compute_posterior_means(at_median, likelihood)

    # intervals, which contain the point estimates
    low, high = _compute_credible_bounds(density, likelihood, p_outlier, labels, level)
    low, high = np.minimum(low, quality), np.maximum(high, quality)

    line = QualityLine(
        slope=slope,
        low=posterior.slope_quantile((1 - level) / 2),
        high=posterior.slope_quantile((1 + level) / 2),
        p_zero_slope=posterior.p_zero_slope,
        r2=posterior.r2,
        equivalent_labels=_count_labels_of_equal_precision(labels, quality, _compute_variances(density, q)),
        curve=_make_curve(at_median),
    )
    return QualityEstimates(
        quality=quality,
        low=low,
        high=high,
        label_weight=n_effective / (n_effective + _compute_equivalent_labels(prior, q)),
        p_outlier=p_outlier,
        predicted=(from_regression @ q) / from_regression.sum(axis=1),
        regression=line,
        item_variance_share=0.0,
        density=density,
        grid=q,
        level=level,
    )


def _compute_posterior_means(posterior: RegressionPosterior, likelihood: LabelLikelihood) -> Floats:
    """Compute the posterior mean of each agent's quality: float array (n_agents,).

    The prior of an agent is predicted from its ability and the labels of the other agents. It is a mixture of two distributions
    of quality: that of the regression on ability, and a uniform one for the case that the agent is an outlier. The agent's own
    labels enter through their likelihood.
    """
    from_regression, p_outlier = posterior.predict()
    prior = from_regression + p_outlier[:, None] * likelihood.uniform
    density = prior * likelihood.value
    return np.asarray((density @ expit(likelihood.logits)) / density.sum(axis=1))


def _compute_credible_bounds(
    density: Floats, likelihood: LabelLikelihood, p_outlier: Floats, labels: _LabelMeans, level: float
) -> tuple[Floats, Floats]:
    """Compute credible bounds of quality.

    For a probable outlier, the bounds are widened to contain the Wilson interval of its labels.

    density : float array (n_agents, n_grid), posterior probabilities of the logits of quality
    likelihood : likelihood of the labels, with the grid of logits
    p_outlier : float array (n_agents,), posterior probability that the agent is an outlier from the regression on ability
    labels : label means and numbers of labels
    level : posterior probability that the bounds enclose the quality

    Returns lower and upper bounds, float array (n_agents,) each.
    """
    low = _compute_quality_quantiles(density, likelihood.logits, (1 - level) / 2)
    high = _compute_quality_quantiles(density, likelihood.logits, (1 + level) / 2)
    is_labeled_outlier = (p_outlier > _P_OUTLIER) & (labels.n > 0)
    for agent in np.flatnonzero(is_labeled_outlier):
        n_labels = labels.n[agent]
        label_sum = labels.mean[agent] * n_labels
        wilson_interval = proportion(label_sum, n_labels, level=level)
        low[agent] = min(low[agent], wilson_interval.low)
        high[agent] = max(high[agent], wilson_interval.high)
    return low, high


def _make_curve(posterior: RegressionPosterior) -> tuple[tuple[float, float], ...]:
    """Make points (ability, predicted quality) over the range of the abilities; none if no ability is known."""
    if len(posterior.ability) == 0:
        return ()
    ability = np.linspace(posterior.ability.min(), posterior.ability.max(), _N_CURVE_POINTS)
    return tuple(zip(ability.tolist(), posterior.mean_curve(ability).tolist(), strict=True))


def _count_labels_of_equal_precision(labels: _LabelMeans, quality: Floats, variance: Floats) -> int:
    """Compute how many labels would make plain label means as precise as the estimates.

    The variance of a label mean is inversely proportional to the number of labels. The number of labels is therefore multiplied
    by the ratio of two variances: of the label means, and of the estimates. Both are summed over the agents with labels.

    labels : label means and numbers of labels
    quality, variance : float arrays (n_agents,), estimates and their posterior variances

    Returns the number of labels of all agents together.
    """
    is_labeled = labels.n > 0
    label_variance = quality * (1 - quality) * labels.relative_variance
    variance_of_means = label_variance[is_labeled] / labels.n[is_labeled]
    variance_ratio = float(variance_of_means.sum() / variance[is_labeled].sum())
    n_labels = float(labels.n.sum())
    return round(variance_ratio * n_labels)


def _compute_equivalent_labels(density: Floats, q: Floats) -> Floats:
    """Compute the number of labels that a density is worth: a + b of a beta distribution with its mean and variance.

    density : float array (n_agents, n_grid), on q : float array (n_grid,). Returns a float array (n_agents,).
    """
    mean = density @ q
    n_labels = mean * (1 - mean) / _compute_variances(density, q) - 1
    return np.asarray(np.maximum(n_labels, 1e-9))


def _compute_variances(density: Floats, q: Floats) -> Floats:
    """Compute the variance of quality for each agent: float array (n_agents,).

    density : float array (n_agents, n_grid), probabilities of the values q
    q : float array (n_grid,)
    """
    return np.asarray(density @ q**2 - (density @ q) ** 2)


def _compute_quality_quantiles(density: Floats, logits: Floats, p: float) -> Floats:
    """Compute the p quantile of quality for each row of probabilities of logits: float array (n_agents,).

    density : float array (n_agents, n_grid)
    logits : float array (n_grid,)
    """
    cumulative = np.cumsum(density, axis=1) - density / 2
    return np.asarray(expit([np.interp(p, row, logits) for row in cumulative]))
