"""Estimate each agent's quality, the mean label it would have, from few labels and ability by small area estimation.

The model is logit(quality) = a + b·z + u, with z the standardised ability. Three uncertainties are averaged over
instead of being decided: b may be 0, so that ability predicts nothing; an agent may be an outlier, of any quality; and
ability has a standard error. Intervals reflect all three. The point estimate uses the median of b, which stays 0 until
labels show a slope: a useless ability does not break ties. Everything is integrated on grids instead of sampled, so
that equal labels give equal digits. Labels enter through the binomial likelihood.

References: Fay & Herriot (1979), J. American Statistical Association 74; Ybarra & Lohr (2008), Biometrika 95 (error of
the covariate); Datta & Lahiri (1995), J. Multivariate Analysis 54 (outliers); Hoeting et al. (1999), Statistical
Science 14 (model averaging); Johnstone & Silverman (2004), Annals of Statistics 32 (median under a prior with an atom
at 0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import expit, log_expit, ndtri

from youden.errors import StatisticsError
from youden.stats.base.clusters import check_level
from youden.stats.base.proportions import proportion
from youden.types.label_facts import QualityLine
from youden.types.pool import Bools, Floats, Positions

MIN_AGENTS = 5
"""Number of labelled agents below which no regression is fitted, and quality is estimated from labels alone."""
_P_OUTLIER = 0.5
"""An agent is called an outlier if the posterior probability exceeds this."""
_MAX_LOGIT, _STEP, _FINE_STEP = 7.0, 0.125, 0.05
"""Limit of the grid of logits; its step, and its step if an agent has more than `_MANY_LABELS` labels."""
_MANY_LABELS, _MAX_LABELS = 150, 1000
_KERNEL_SDS = np.exp(np.arange(np.log(0.08), np.log(5.0), 0.2))
_TAUS = np.exp(np.linspace(np.log(0.2), np.log(2.4), 9))
_TAU_PRIOR_WITHOUT_SLOPE = np.exp(-0.5 * (np.log(_TAUS) / 0.6) ** 2)
_TAU_PRIOR_WITH_SLOPE = _TAUS / (1 + (_TAUS / 0.6) ** 2) ** 1.5
"""Priors of τ, the SD of u: log-normal around 1 if b = 0, when u is the only difference between agents; else half-t
with 2 df."""
_INTERCEPT_SD, _SLOPE_SD = 2.0, 1.5
"""SDs of the normal priors of a, and of b if it is not 0, in logits."""
_P_NO_SLOPE, _P_NO_SLOPE_FEW, _P_POSITIVE = 0.2, 1.5, 0.8
"""Prior probability of b = 0: _P_NO_SLOPE + _P_NO_SLOPE_FEW/labelled agents; and of b > 0 if b is not 0."""
_OUTLIER_SHARES, _OUTLIER_PRIOR = np.array([0.02, 0.1]), np.array([0.6, 0.4])
"""Shares of agents that are outliers, and their prior probabilities."""
_NEGLIGIBLE_WEIGHT = 1e-6
_PRIOR_ITEM_PAIRS, _CHANCE_ERRORS = 10.0, 1.65
"""Number of pairs of labels on one item at which their estimated correlation is shrunk by half, and number of its
standard errors that is attributed to chance and subtracted."""


@dataclass(frozen=True, eq=False)
class QualityEstimates:
    """Quality of each agent, in [0, 1], with its posterior distribution.

    Attributes
    ----------
    quality, low, high : float array (n_agents,)
        Estimates and credible bounds at `level`; NaN for an agent without labels if no regression was fitted.
    label_weight : float array (n_agents,)
        Weight in [0, 1] of an agent's own labels in its estimate.
    p_outlier : float array (n_agents,)
        Probability that an agent is off the regression; NaN without a regression.
    predicted : float array (n_agents,)
        Quality predicted from ability and the other agents, without the agent's labels; NaN without a regression.
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
        """Compute each agent's probability of having the highest quality, with independent posteriors of agents.

        Returns
        -------
        float array (n_agents,)
            Probabilities, which sum to 1.
        """
        cumulative = np.cumsum(self.density, axis=1) - self.density / 2
        log_below = np.log(np.maximum(cumulative, 1e-300))
        log_product = log_below.sum(axis=0)
        p_best = (self.density * np.exp(log_product - log_below)).sum(axis=1)
        return np.asarray(p_best / p_best.sum())

    def regret_bound(self, agent: int) -> float:
        """Compute the upper bound on how much better than the selected agent any other agent may be.

        Parameters
        ----------
        agent : int
            Position of the selected agent.

        Returns
        -------
        float
            Smallest δ such that, with the probability `level`, no agent's quality exceeds the selected one's by more
            than δ.
        """
        others = np.delete(np.cumsum(self.density, axis=1), agent, axis=0)
        low, high = 0.0, 1.0
        for _ in range(20):
            mid = (low + high) / 2
            p_below = np.array([np.interp(self.grid + mid, self.grid, cdf) for cdf in others])
            is_enough = self.density[agent] @ p_below.prod(axis=0) >= self.level
            low, high = (low, mid) if is_enough else (mid, high)
        return high

    def allocate_labels(self, n: int, left: Positions, *, for_best: bool) -> Positions:
        """Allocate further labels, one after the other, to the agents for which they are worth most.

        Parameters
        ----------
        n : int
            Number of labels.
        left : int array (n_agents,)
            Largest number of labels that each agent can get.
        for_best : bool
            Whether to maximise the expected gain in the quality of the selected agent. Otherwise the reduction of the
            variances of all agents is maximised.

        Returns
        -------
        int64 array (n_agents,)
            Number of labels for each agent; fewer than n in all if fewer are left.

        Notes
        -----
        The gain of knowing an agent's quality q is the expected improvement E max(q − m, 0), with m the best estimate
        among the other agents. For the best agent itself it is E max(m − q, 0). The value of an agent's next label is
        this gain divided by the number of new labels that the agent then has.

        References
        ----------
        Frazier (2018), A tutorial on Bayesian optimization, arXiv:1807.02811.
        """
        allocated = np.zeros(len(left), dtype=np.int64)
        variance = _variance(self.density, self.grid)
        q = self.density @ self.grid
        best = int(np.argmax(q))
        is_best = np.arange(len(q)) == best
        best_other = np.where(is_best, np.delete(q, best).max(initial=0.0), q[best])[:, None]
        sign = np.where(is_best, -1, 1)[:, None]
        gain = (self.density * np.maximum(sign * (self.grid - best_other), 0)).sum(axis=1)
        for _ in range(min(n, int(left.sum()))):
            current = variance / (1 + allocated * variance / (q * (1 - q)))
            value = gain / (1 + allocated) if for_best else current**2 / (current + q * (1 - q))
            allocated[int(np.argmax(np.where(allocated < left, value, -1.0)))] += 1
        return allocated


def quality_from_labels(
    agent: Positions, item: Positions, value: Floats, *, ability: Floats, std_error: Floats, level: float = 0.95
) -> QualityEstimates:
    """Estimate the quality of agents from labels and abilities.

    Parameters
    ----------
    agent, item : int array (n_labels,)
        Agent and item of each labelled response.
    value : float array (n_labels,)
        Labels in [0, 1], averaged over the labels of one response.
    ability, std_error : float array (n_agents,)
        Abilities and their standard errors; NaN for an agent without an ability.
    level : float, default 0.95
        Level of the credible intervals.

    Returns
    -------
    QualityEstimates
        Estimates for all agents; from labels alone if fewer than 5 agents have labels.

    Raises
    ------
    StatisticsError
        [labels-range]: if a label is outside [0, 1]; [level].

    Notes
    -----
    Labels of one item share the effect of the item. This effect is predicted for each label from the residuals of the
    other labels on the item, weighted by their estimated correlation, and subtracted from the label. The error that
    remains, because the labelled items may be easy or difficult for all agents, widens the intervals.
    """
    check_level(level)
    if not ((value >= 0) & (value <= 1)).all():
        raise StatisticsError(
            f"Labels must be from 0 to 1: got labels from {np.min(value)} to {np.max(value)}. Pass labels on that scale.",
            slug="labels-range",
        )
    n_agents = len(ability)
    n = np.bincount(agent, minlength=n_agents).astype(np.float64)
    mean = np.bincount(agent, weights=value, minlength=n_agents) / np.maximum(n, 1)
    _, index = np.unique(item, return_inverse=True)
    n_by_item = np.bincount(index)
    labels = _LabelMeans(mean, n, _relative_variance(agent, value, mean))
    if (n > 0).sum() < MIN_AGENTS:
        return _estimate_from_labels(labels, level)
    estimates = _fit_regression(labels, ability, std_error, level)
    if n_by_item.max() < 2:
        return estimates

    # correlation of standardised residuals of one item, from all pairs, less what chance may produce
    sd = np.sqrt(np.maximum(estimates.quality * (1 - estimates.quality), 1e-4))
    r = (value - estimates.quality[agent]) / sd[agent]
    total = np.bincount(index, weights=r)
    products = total**2 - np.bincount(index, weights=r**2)
    n_pairs = float((n_by_item * (n_by_item - 1)).sum())
    excess = products.sum() - _CHANCE_ERRORS * np.sqrt(2 * n_pairs)
    icc = float(np.clip(excess / (n_pairs + 2 * _PRIOR_ITEM_PAIRS), 0, 0.8))
    if icc == 0:
        return estimates

    # subtract from each label the best linear prediction from the other labels on its item
    n_others = n_by_item[index] - 1
    weight = icc / (1 - icc + icc * n_others)
    remaining = 1 - icc * weight * n_others
    adjusted = value - sd[agent] * weight * (total[index] - r)
    mean_remaining = np.bincount(agent, weights=remaining, minlength=n_agents) / np.maximum(n, 1)
    mean_remaining = np.where(n > 0, mean_remaining, 1.0)
    mean = np.clip(np.bincount(agent, weights=adjusted, minlength=n_agents) / np.maximum(n, 1), 0, 1)
    relative_variance = _relative_variance(agent, value, estimates.quality) * mean_remaining
    estimates = _fit_regression(_LabelMeans(mean, n, relative_variance), ability, std_error, level)

    shared = icc * n_pairs / n_by_item.sum() ** 2
    margin = ndtri((1 + level) / 2) * np.sqrt(shared * estimates.quality * (1 - estimates.quality))
    return _widen(estimates, margin, icc)


@dataclass(frozen=True, eq=False)
class _LabelMeans:
    """Label means of the agents.

    mean, n : float (n_agents,), means and numbers of labels; relative_variance : float (n_agents,), variance of a label
    divided by the variance of labels that are 0 or 1 and have the same mean.
    """

    mean: Floats
    n: Floats
    relative_variance: Floats


def _relative_variance(agent: Positions, value: Floats, mean: Floats) -> Floats:
    """Compute the variance of labels relative to labels that are 0 or 1 with the same means, pooled over agents.

    agent, value : arrays (n_labels,); mean : float (n_agents,). Returns float (n_agents,), all equal.
    """
    if np.isin(value, (0.0, 1.0)).all():
        return np.ones(len(mean))
    binary = (mean * (1 - mean))[agent].sum() + 0.25
    n = np.bincount(agent, minlength=len(mean))
    correction = len(value) / max(len(value) - (n > 0).sum(), 1)
    squares = ((value - mean[agent]) ** 2).sum()
    return np.full(len(mean), np.clip((correction * squares + 0.25) / binary, 0.02, 1.0))


def _estimate_from_labels(labels: _LabelMeans, level: float) -> QualityEstimates:
    """Estimate quality by label means with Wilson intervals, and densities under a uniform prior of quality."""
    mean, n = labels.mean, labels.n
    logits, likelihood = _logit_grid(_STEP), _binomial_likelihood(mean, n, _STEP)
    density = likelihood * (expit(logits) * expit(-logits))
    intervals = [proportion(m * k, k, level=level) for m, k in zip(mean, n, strict=True)]
    unknown = np.full(len(mean), np.nan)
    return QualityEstimates(
        quality=np.where(n > 0, mean, np.nan),
        low=np.array([interval.low for interval in intervals]),
        high=np.array([interval.high for interval in intervals]),
        label_weight=np.where(n > 0, 1.0, 0.0),
        p_outlier=unknown,
        predicted=unknown,
        regression=None,
        item_variance_share=0.0,
        density=density / density.sum(axis=1, keepdims=True),
        grid=expit(logits),
        level=level,
    )


def _widen(estimates: QualityEstimates, margin: Floats, item_variance_share: float) -> QualityEstimates:
    """Widen the intervals by the error that all label means share: the labelled items may be easy or difficult.

    margin : float (n_agents,), half-width of this error.
    """
    quality = estimates.quality
    low = np.maximum(quality - np.hypot(quality - estimates.low, margin), 0)
    high = np.minimum(quality + np.hypot(estimates.high - quality, margin), 1)
    return replace(estimates, low=low, high=high, item_variance_share=item_variance_share)


def _logit_grid(step: float) -> Floats:
    return np.arange(-_MAX_LOGIT, _MAX_LOGIT + step / 2, step)


def _binomial_likelihood(mean: Floats, n: Floats, step: float) -> Floats:
    """Compute the quasi-binomial likelihood on the logit grid: float (n_agents, n_grid), with the maximum 1.

    mean, n : float (n_agents,), label means and effective numbers of labels.
    """
    logits = _logit_grid(step)
    log = n[:, None] * (mean[:, None] * log_expit(logits) + (1 - mean[:, None]) * log_expit(-logits))
    return np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))


@lru_cache(2)
def _normal_kernels(step: float) -> Floats:
    """Compute normal densities around each grid point for each SD: float (n_sds, n_grid, n_grid), rows sum to 1."""
    logits = _logit_grid(step)
    kernel = np.exp(-0.5 * ((logits[:, None] - logits) / _KERNEL_SDS[:, None, None]) ** 2)
    return np.asarray(kernel / kernel.sum(axis=2, keepdims=True))


@dataclass(frozen=True, eq=False)
class _RegressionLikelihood:
    """Likelihood of all labels for values of a, b, τ and the share of outliers.

    z, std_error : float (n_agents,), standardised abilities and their standard errors; on_line : float (n_sds, n_grid,
    n_agents), likelihood of an agent's labels for each SD and mean of its logit quality; off_line : float (n_agents,),
    likelihood of its labels if it is an outlier; step : step of the grid; p_no_slope : prior probability of b = 0.
    """

    z: Floats
    std_error: Floats
    on_line: Floats
    off_line: Floats
    step: float
    p_no_slope: float

    def on_line_likelihood(self, a: Floats, b: Floats, tau: float) -> tuple[Floats, Positions, Floats]:
        """Compute the likelihood of each agent's labels if it is not an outlier, by interpolation: float (n_a, n_b, n_agents).

        Also returns the flat index into `on_line` of the lower grid point, and the fraction of the step beyond it.
        """
        n_sds, n_grid, n_agents = self.on_line.shape
        sd = np.hypot(tau, b[:, None] * self.std_error)
        log_ratio = np.log(_KERNEL_SDS[1] / _KERNEL_SDS[0])
        sd_index = np.clip(np.rint(np.log(sd / _KERNEL_SDS[0]) / log_ratio).astype(np.int64), 0, n_sds - 1)

        position = (a[:, None, None] + b[:, None] * self.z + _MAX_LOGIT) / self.step
        position = np.clip(position, 0, n_grid - 1.001)
        lower = position.astype(np.int64)
        fraction = position - lower
        index = (sd_index * n_grid + lower) * n_agents + np.arange(n_agents)
        table = self.on_line.reshape(-1)
        low = table[index]
        return low + (table[index + n_agents] - low) * fraction, index, fraction

    def log_weights(self, a: Floats, b: Floats, *, has_slope: bool) -> Floats:
        """Compute log posterior weights of grid points: float (n_taus, n_outlier_shares, n_a, n_b)."""
        log = np.empty((len(_TAUS), len(_OUTLIER_SHARES), len(a), len(b)))
        for t, tau in enumerate(_TAUS):
            on_line = self.on_line_likelihood(a, b, tau)[0]
            for s, share in enumerate(_OUTLIER_SHARES):
                log[t, s] = np.log((1 - share) * on_line + share * self.off_line).sum(axis=2)
        log += np.log(_OUTLIER_PRIOR)[:, None, None] - 0.5 * (a[:, None] / _INTERCEPT_SD) ** 2 + np.log(a[1] - a[0])
        tau_prior = _TAU_PRIOR_WITH_SLOPE if has_slope else _TAU_PRIOR_WITHOUT_SLOPE
        log += np.log(tau_prior / tau_prior.sum())[:, None, None, None]
        if not has_slope:
            return np.asarray(log + np.log(self.p_no_slope))

        p_sign = np.where(b > 0, _P_POSITIVE, np.where(b < 0, 1 - _P_POSITIVE, 0.5)) * (1 - self.p_no_slope)
        log_scale = np.log(2 * p_sign * (b[1] - b[0]) / _SLOPE_SD / np.sqrt(2 * np.pi))
        return np.asarray(log + log_scale - 0.5 * (b / _SLOPE_SD) ** 2)


def _zoom(grid: Floats, weight: Floats, n: int) -> Floats:
    """Make a grid of n points around the bulk of the weight; grid, weight : float (n_grid,), weights sum to 1."""
    mean = float(weight @ grid)
    sd = float(np.sqrt(weight @ (grid - mean) ** 2))
    half_width = 3.5 * max(sd, 0.6 * (grid[1] - grid[0]))
    return np.linspace(mean - half_width, mean + half_width, n)


@dataclass(frozen=True, eq=False)
class _PosteriorGrid:
    """Grid of a and b, float (n_a,) and (n_b,), with posterior weights, float (n_taus, n_outlier_shares, n_a, n_b)."""

    a: Floats
    b: Floats
    weight: Floats


def _posterior_grids(likelihood: _RegressionLikelihood) -> list[_PosteriorGrid]:
    """Compute the posterior without and with a slope; all weights together sum to 1.

    Each grid is coarse first, and then finer around the bulk of the posterior.
    """
    grids = []
    for has_slope in (False, True):
        a, b = np.linspace(-5, 5, 17), np.linspace(-3.2, 3.2, 13) if has_slope else np.zeros(1)
        coarse = likelihood.log_weights(a, b, has_slope=has_slope)
        coarse = np.exp(coarse - coarse.max())
        coarse /= coarse.sum()
        a = _zoom(a, coarse.sum(axis=(0, 1, 3)), 13)
        b = _zoom(b, coarse.sum(axis=(0, 1, 2)), 13) if has_slope else b
        grids.append(_PosteriorGrid(a, b, likelihood.log_weights(a, b, has_slope=has_slope)))
    maximum = max(float(grid.weight.max()) for grid in grids)
    total = sum(float(np.exp(grid.weight - maximum).sum()) for grid in grids)
    return [replace(grid, weight=np.exp(grid.weight - maximum) / total) for grid in grids]


def _predictive_density(
    likelihood: _RegressionLikelihood, grids: list[_PosteriorGrid], kernels: Floats
) -> tuple[Floats, Floats]:
    """Predict each agent's logit quality from its ability and the labels of the other agents.

    Returns the density if the agent is not an outlier, float (n_agents, n_grid), and the probability that it is one,
    (n_agents,). Each grid point counts with its weight divided by the likelihood of the agent's own labels, which
    removes these exactly.
    """
    n_agents = likelihood.on_line.shape[2]
    by_point, outlier = np.zeros(likelihood.on_line.size), np.zeros(n_agents)
    for grid in grids:
        for t, tau in enumerate(_TAUS):
            if grid.weight[t].sum() < _NEGLIGIBLE_WEIGHT:
                continue
            on_line, index, fraction = likelihood.on_line_likelihood(grid.a, grid.b, tau)
            weight = np.zeros_like(on_line)
            for s, share in enumerate(_OUTLIER_SHARES):
                own_likelihood = (1 - share) * on_line + share * likelihood.off_line
                without_own = grid.weight[t, s][:, :, None] / own_likelihood
                weight += (1 - share) * without_own
                outlier += share * without_own.sum(axis=(0, 1))
            lower, upper = weight * (1 - fraction), weight * fraction
            by_point += np.bincount(index.ravel(), weights=lower.ravel(), minlength=by_point.size)
            by_point += np.bincount(index.ravel() + n_agents, weights=upper.ravel(), minlength=by_point.size)

    by_sd = by_point.reshape(likelihood.on_line.shape)
    is_used = by_sd.any(axis=(1, 2))
    density = np.einsum("sgk,sgh->kh", by_sd[is_used], kernels[is_used], optimize=True)
    total = density.sum(axis=1) + outlier
    return density / total[:, None], outlier / total


def _fit_regression(labels: _LabelMeans, ability: Floats, std_error: Floats, level: float) -> QualityEstimates:
    """Fit the regression of quality on ability; ability, std_error : float (n_agents,)."""
    mean, n = labels.mean, labels.n
    n_effective = np.minimum(n / labels.relative_variance, _MAX_LABELS)
    has_ability = np.isfinite(ability)
    centre, sd = 0.0, 0.0
    if has_ability.any():
        centre, sd = float(ability[has_ability].mean()), float(ability[has_ability].std())
    sd = sd or 1.0
    z = np.where(has_ability, (ability - centre) / sd, 0.0)
    z_error = np.where(has_ability, np.nan_to_num(std_error) / sd, 1.0)

    step = _FINE_STEP if n_effective.max() > _MANY_LABELS else _STEP
    logits, kernels = _logit_grid(step), _normal_kernels(step)
    likelihood = _binomial_likelihood(mean, n_effective, step)
    q, uniform = expit(logits), expit(logits) * expit(-logits)
    uniform /= uniform.sum()
    p_no_slope = _P_NO_SLOPE + _P_NO_SLOPE_FEW / (n > 0).sum().clip(MIN_AGENTS)
    regression = _RegressionLikelihood(z, z_error, kernels @ likelihood.T, likelihood @ uniform, step, p_no_slope)
    grids = _posterior_grids(regression)
    slope, grid_at_median = _slope(grids, level)

    # posterior of each agent: prediction times its own likelihood
    on_line, p_off_line = _predictive_density(regression, grids, kernels)
    off_line = p_off_line[:, None] * uniform
    prior = on_line + off_line
    density = prior * likelihood
    p_outlier = (off_line * likelihood).sum(axis=1) / density.sum(axis=1)
    density /= density.sum(axis=1, keepdims=True)

    # intervals; an outlier's contains that of its labels alone
    low, high = (_quality_quantiles(density, logits, p) for p in ((1 - level) / 2, (1 + level) / 2))
    for k in np.flatnonzero((p_outlier > _P_OUTLIER) & (n > 0)):
        from_labels = proportion(mean[k] * n[k], n[k], level=level)
        low[k], high[k] = min(low[k], from_labels.low), max(high[k], from_labels.high)

    # point estimates at the median of b
    on_line_at_median, p_off_line_at_median = _predictive_density(regression, [grid_at_median], kernels)
    density_at_median = (on_line_at_median + p_off_line_at_median[:, None] * uniform) * likelihood
    quality = (density_at_median @ q) / density_at_median.sum(axis=1)
    low, high = np.minimum(low, quality), np.maximum(high, quality)

    return QualityEstimates(
        quality=quality,
        low=low,
        high=high,
        label_weight=n_effective / (n_effective + _equivalent_labels(prior, q)),
        p_outlier=p_outlier,
        predicted=(on_line @ q) / on_line.sum(axis=1),
        regression=_summarise_regression(labels, quality, _variance(density, q), slope=slope, grids=grids),
        item_variance_share=0.0,
        density=density,
        grid=q,
        level=level,
    )


def _summarise_regression(
    labels: _LabelMeans,
    quality: Floats,
    variance: Floats,
    *,
    slope: tuple[float, float, float],
    grids: list[_PosteriorGrid],
) -> QualityLine:
    """Summarise the regression; quality, variance : float (n_agents,), estimates and their posterior variances."""
    is_labelled = labels.n > 0
    label_variance = quality * (1 - quality) * labels.relative_variance
    direct_variance = label_variance[is_labelled] / labels.n[is_labelled]
    equivalent_labels = round(float(direct_variance.sum() / variance[is_labelled].sum()) * float(labels.n.sum()))
    # share of the variance of logit quality that is due to the slope, averaged over the posterior
    explained = sum(
        float((grid.weight.sum(axis=(1, 2)) * grid.b**2 / (grid.b**2 + _TAUS[:, None] ** 2)).sum()) for grid in grids
    )
    intercept = sum(float(grid.weight.sum(axis=(0, 1, 3)) @ grid.a) for grid in grids)
    return QualityLine(*slope, float(grids[0].weight.sum()), explained, equivalent_labels, intercept)


def _slope(grids: list[_PosteriorGrid], level: float) -> tuple[tuple[float, float, float], _PosteriorGrid]:
    """Compute the median of b and its bounds, and the posterior given that b is the median.

    The median lies between two grid points. The posterior consists of these two points, with weights that sum to 1.
    """
    p_no_slope, b, weight = float(grids[0].weight.sum()), grids[1].b, grids[1].weight
    b_weight = weight.sum(axis=(0, 1, 2))
    cumulative = np.cumsum(b_weight) - b_weight / 2
    p_negative = float(np.interp(0, b, cumulative))

    def quantile(p: float) -> float:
        if p_negative < p <= p_negative + p_no_slope:
            return 0.0
        return float(np.interp(p if p <= p_negative else p - p_no_slope, cumulative, b))

    median = quantile(0.5)
    slope = (median, quantile((1 - level) / 2), quantile((1 + level) / 2))
    if median == 0:
        return slope, replace(grids[0], weight=grids[0].weight / p_no_slope)
    k = int(np.clip(np.searchsorted(b, median) - 1, 0, len(b) - 2))
    fraction = (median - b[k]) / (b[k + 1] - b[k])
    conditional = weight[..., k : k + 2] / np.maximum(b_weight[k : k + 2], 1e-300)
    conditional = conditional * np.array([1 - fraction, fraction])
    return slope, _PosteriorGrid(grids[1].a, b[k : k + 2], conditional / conditional.sum())


def _equivalent_labels(density: Floats, q: Floats) -> Floats:
    """Compute the number of labels that a density is worth: a + b of a beta distribution with its mean and variance.

    density : float (n_agents, n_grid), on q : float (n_grid,). Returns float (n_agents,).
    """
    mean = density @ q
    return np.asarray(np.maximum(mean * (1 - mean) / _variance(density, q) - 1, 1e-9))


def _variance(density: Floats, q: Floats) -> Floats:
    return np.asarray(density @ q**2 - (density @ q) ** 2)


def _quality_quantiles(density: Floats, logits: Floats, p: float) -> Floats:
    """Compute the p quantile of quality under each row of a density over logits, float (n_agents, n_grid)."""
    cumulative = np.cumsum(density, axis=1) - density / 2
    return np.asarray(expit([np.interp(p, row, logits) for row in cumulative]))
