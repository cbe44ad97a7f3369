"""Regress logit quality on ability, averaged over monotone forms of ability and over the absence of a relation.

The model is logit(quality) = a + b·t(z) + u, with z the standardized ability, t one of three monotone forms (linear,
convex or concave), and u a deviation of the agent with SD τ. Four uncertainties are averaged over instead of being
decided: b may be 0, so that ability predicts nothing; the form; an agent may be an outlier, of any quality; and ability
has a standard error. Everything is integrated on grids instead of sampled, so that equal labels give equal digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from youden.types.pool import Floats, Positions

_MAX_LOGIT = 7.0
"""Limit of the grid of logits."""
_KERNEL_SDS = np.exp(np.arange(np.log(0.08), np.log(5.0), 0.2))
_TAUS = np.exp(np.linspace(np.log(0.2), np.log(2.4), 9))
_TAU_PRIOR_WITHOUT_SLOPE = np.exp(-0.5 * (np.log(_TAUS) / 0.6) ** 2)
_TAU_PRIOR_WITH_SLOPE = _TAUS / (1 + (_TAUS / 0.6) ** 2) ** 1.5
"""Priors of τ, the SD of u: log-normal around 1 if b = 0, when u is the only difference between agents; else half-t
with 2 df."""
_INTERCEPT_SD, _SLOPE_SD = 2.0, 1.5
"""SDs of the normal priors of a, and of b if it is not 0, in logits."""
_P_NO_SLOPE, _P_NO_SLOPE_FEW = 0.2, 1.5
"""Prior probability of b = 0: _P_NO_SLOPE + _P_NO_SLOPE_FEW/labeled agents."""
_P_POSITIVE, _P_POSITIVE_CURVED = 0.8, 0.95
"""Prior probability of b > 0 if b is not 0, in the linear form and in the curved forms. A curved relation that decreases
would fit a few weak agents that game the labels."""
_CURVATURES, _CURVATURE_PRIOR = (0.0, 0.5, -0.5), (0.6, 0.2, 0.2)
"""Curvatures c of the forms, and their prior probabilities: t = z if c = 0, else sign(c)·exp(c·z), standardized."""
_MAX_Z = 3.0
"""Limit of |z| in the exponential."""
_OUTLIER_SHARES, _OUTLIER_PRIOR = np.array([0.02, 0.1]), np.array([0.6, 0.4])
"""Shares of agents that are outliers, and their prior probabilities."""
_NEGLIGIBLE_WEIGHT = 1e-6
"""Posterior weight of a τ below which its regressions are left out of predictions."""
_INTERCEPT_LIMIT, _N_COARSE_INTERCEPTS = 5.0, 17
_SLOPE_LIMIT, _N_COARSE_SLOPES = 3.2, 13
"""Limits and numbers of points of the coarse grids of intercepts and slopes, in logits."""
_N_POINTS, _GRID_SDS, _MIN_GRID_SD = 13, 3.5, 0.6
"""Number of points of the final grids, and their half-width in posterior standard deviations. A standard deviation counts
as at least 0.6 steps of the coarse grid, which cannot show smaller ones."""


def logit_grid(step: float) -> Floats:
    """Make the grid of logits.

    Parameters
    ----------
    step : float
        Distance between two grid points.

    Returns
    -------
    float array (n_grid,)
        Logits from −7 to 7.
    """
    return np.arange(-_MAX_LOGIT, _MAX_LOGIT + step / 2, step)


@dataclass(frozen=True, eq=False)
class LabelLikelihood:
    """Likelihood of each agent's labels on a grid of logit quality.

    Attributes
    ----------
    value : float array (n_agents, n_grid)
        Likelihood, with the maximum 1.
    step : float
        Step of the grid, which reaches from −7 to 7.
    n_labeled : int
        Number of agents with labels.
    """

    value: Floats
    step: float
    n_labeled: int

    @property
    def logits(self) -> Floats:
        """Grid of logits, float array (n_grid,)."""
        return logit_grid(self.step)

    @property
    def uniform(self) -> Floats:
        """Probabilities of the logits if quality is uniform on [0, 1], float array (n_grid,)."""
        density = expit(self.logits) * expit(-self.logits)
        return np.asarray(density / density.sum())


class _Interpolation(NamedTuple):
    """Likelihoods that were interpolated between two points of the grid of logits.

    Attributes
    ----------
    likelihood : float array (n_intercepts, n_slopes, n_agents)
        Interpolated likelihood of each agent's labels.
    lower, upper : int64 array (n_intercepts, n_slopes, n_agents)
        Indices of the lower and the upper point in the flattened array `_Regression.likelihood`.
    fraction : float array (n_intercepts, n_slopes, n_agents)
        Distance from the lower point, as a fraction of the step.
    """

    likelihood: Floats
    lower: Positions
    upper: Positions
    fraction: Floats


@dataclass(frozen=True, eq=False)
class _Regression:
    """One regression of quality on ability, logit(quality) = a + b·x + u, and the likelihood of all labels under it.

    In the formula, a is the intercept, b the slope, x the transformed ability, and u the deviation of an agent, with SD τ. An
    outlier is an agent to which the regression does not apply: its quality is uniform on [0, 1].

    Attributes
    ----------
    curvature : float
        Curvature c of the form in which ability enters.
    transformed_ability, std_error : float array (n_agents,)
        Transformed abilities x and their standard errors.
    likelihood : float array (n_sds, n_grid, n_agents)
        Likelihood of an agent's labels if the agent is not an outlier, for each SD and each mean of its logit quality.
    outlier_likelihood : float array (n_agents,)
        Likelihood of the labels of an agent if it is an outlier.
    step : float
        Step of the grid of logits.
    has_slope : bool
        Whether b may differ from 0.
    prior : float
        Prior probability of the regression.
    """

    curvature: float
    transformed_ability: Floats
    std_error: Floats
    likelihood: Floats
    outlier_likelihood: Floats
    step: float
    has_slope: bool
    prior: float

    def interpolate_likelihood(self, intercepts: Floats, slopes: Floats, tau: float) -> _Interpolation:
        """Compute the likelihood of the labels of each agent, for every combination of an intercept and a slope.

        The regression predicts a normal distribution of the logit quality of an agent, unless the agent is an outlier. The mean
        is intercept + slope × transformed ability, and the SD is √(τ² + (slope × std_error)²). The likelihood is taken from the
        table `self.likelihood`, by interpolation between two means at the nearest SD.

        intercepts : float array (n_intercepts,), in logits
        slopes : float array (n_slopes,), in logits per unit of transformed ability
        tau : SD τ, at least 0, of the agents' deviations from the regression, in logits

        Returns the likelihoods (not logarithms), and the indices and fractions of the interpolation: arrays (n_intercepts,
        n_slopes, n_agents). A mean outside the table is replaced by the nearest one in it.
        """
        _, n_grid, n_agents = self.likelihood.shape
        sd = np.hypot(tau, slopes[:, None] * self.std_error)
        sd_index = _find_nearest_sd(sd)  # (n_slopes, n_agents)

        # each mean lies between two grid points, a lower and an upper one: arrays (n_intercepts, n_slopes, n_agents)
        mean = intercepts[:, None, None] + slopes[:, None] * self.transformed_ability
        position = (mean + _MAX_LOGIT) / self.step
        position_in_grid = np.clip(position, 0, n_grid - 1.001)  # before the last point, which has no upper point
        lower_point = position_in_grid.astype(np.int64)
        fraction = position_in_grid - lower_point

        # the likelihoods at both points, by their indices in the flattened array of SDs, means and agents
        agent = np.arange(n_agents)
        lower_index = np.ravel_multi_index((sd_index, lower_point, agent), self.likelihood.shape)
        upper_index = lower_index + n_agents  # the next mean, for the same SD and agent
        flat_likelihood = self.likelihood.ravel()
        at_lower = flat_likelihood[lower_index]
        at_upper = flat_likelihood[upper_index]
        interpolated = at_lower + (at_upper - at_lower) * fraction
        return _Interpolation(interpolated, lower_index, upper_index, fraction)

    def compute_log_weights(self, intercepts: Floats, slopes: Floats) -> Floats:
        """Compute the natural logarithm of the posterior weight of each combination of τ, outlier share, intercept and slope.

        The posterior weight is the likelihood of all labels times the prior probabilities. Posterior probabilities are
        proportional to these weights, with the same factor for all regressions.

        intercepts : float array (n_intercepts,), equidistant, in logits
        slopes : float array (n_slopes,), equidistant, in logits per unit of transformed ability; [0] without a slope

        Returns a float array (n_taus, n_outlier_shares, n_intercepts, n_slopes), for the τ in `_TAUS` and the shares of
        outliers in `_OUTLIER_SHARES`.
        """
        # log likelihood of all labels; each agent is an outlier with the probability `share`
        log_weight = np.empty((len(_TAUS), len(_OUTLIER_SHARES), len(intercepts), len(slopes)))
        for tau_index, tau in enumerate(_TAUS):
            likelihood = self.interpolate_likelihood(intercepts, slopes, tau).likelihood
            for share_index, share in enumerate(_OUTLIER_SHARES):
                likelihood_by_agent = self.mix_with_outliers(likelihood, share)  # (n_intercepts, n_slopes, n_agents)
                log_weight[tau_index, share_index] = np.log(likelihood_by_agent).sum(axis=2)

        self._add_common_log_priors(log_weight, intercepts)
        if self.has_slope:
            self._add_log_slope_prior(log_weight, slopes)
        return log_weight

    def mix_with_outliers(self, likelihood: Floats, share: float) -> Floats:
        """Mix the likelihood (…, n_agents) of agents that are not outliers with that of outliers, a share of the agents."""
        return np.asarray((1 - share) * likelihood + share * self.outlier_likelihood)

    def _add_common_log_priors(self, log_weight: Floats, intercepts: Floats) -> None:
        """Add the log priors that all regressions have: of the regression, of τ, of the outlier share and of the intercept.

        τ is the SD of the agents' deviations from the regression. The prior of an intercept is a normal density times the step
        of the grid, up to a constant factor. All priors are independent, so that their logarithms are summed.

        log_weight : float array (n_taus, n_outlier_shares, n_intercepts, n_slopes), changed in place
        intercepts : float array (n_intercepts,), equidistant
        """
        # each prior is added along its own axis of `log_weight`
        log_share_prior = np.log(_OUTLIER_PRIOR)[:, None, None]
        log_intercept_density = -0.5 * (intercepts[:, None] / _INTERCEPT_SD) ** 2
        intercept_step = intercepts[1] - intercepts[0]
        log_weight += log_share_prior + log_intercept_density + np.log(intercept_step)

        tau_density = _TAU_PRIOR_WITH_SLOPE if self.has_slope else _TAU_PRIOR_WITHOUT_SLOPE
        p_regression_and_tau = self.prior * tau_density / tau_density.sum()
        log_weight += np.log(p_regression_and_tau)[:, None, None, None]

    def _add_log_slope_prior(self, log_weight: Floats, slopes: Floats) -> None:
        """Add the log prior of each slope to log weights, in place.

        The prior probability of a slope is proportional to a normal density. Positive and negative slopes are scaled separately:
        positive slopes have the total probability `_P_POSITIVE`, or `_P_POSITIVE_CURVED` if ability is transformed by a curve.

        log_weight : float array (n_taus, n_outlier_shares, n_intercepts, n_slopes), changed in place
        slopes : float array (n_slopes,), equidistant
        """
        p_positive = _P_POSITIVE if self.curvature == 0 else _P_POSITIVE_CURVED
        p_of_side = np.full(len(slopes), 0.5)
        p_of_side[slopes > 0] = p_positive
        p_of_side[slopes < 0] = 1 - p_positive

        # the factor of 2 is due to the normal density, which has half of its mass on either side of 0
        slope_step = slopes[1] - slopes[0]
        scale = 2 * p_of_side * slope_step / _SLOPE_SD / np.sqrt(2 * np.pi)
        log_weight += np.log(scale)
        log_weight -= 0.5 * (slopes / _SLOPE_SD) ** 2


@dataclass(frozen=True, eq=False)
class _PosteriorGrid:
    """Grid of intercepts and slopes of a regression, with posterior weights.

    Attributes
    ----------
    regression : _Regression
        The regression.
    intercepts, slopes : float array (n_intercepts,), (n_slopes,)
        Intercepts a and slopes b.
    weight : float array (n_taus, n_outlier_shares, n_intercepts, n_slopes)
        Posterior weight of each τ, share of outliers, intercept and slope.
    """

    regression: _Regression
    intercepts: Floats
    slopes: Floats
    weight: Floats

    def p_slope_below(self, value: Floats | float) -> Floats:
        """Compute the posterior probability that this regression holds and that its slope is below each value.

        value : number or float array (n,); the result has the same shape
        """
        weight = self.weight.sum(axis=(0, 1, 2))  # by slope
        p_below = np.cumsum(weight) - weight / 2  # half of the weight of a grid point is below it
        return np.asarray(np.interp(value, self.slopes, p_below))


@dataclass(frozen=True, eq=False)
class RegressionPosterior:
    """Posterior of the regressions of quality on ability; the weights of all grids sum to 1."""

    grids: Sequence[_PosteriorGrid]
    ability: Floats
    """Abilities of the agents that have an ability and its standard error, float array (n_with_ability,)."""

    @property
    def p_zero_slope(self) -> float:
        """Probability that the slope is 0."""
        return sum(float(grid.weight.sum()) for grid in self.grids if not grid.regression.has_slope)

    @property
    def r2(self) -> float:
        """Share of the variance of logit quality that is due to the slope, averaged over the posterior."""
        total = 0.0
        for grid in self.grids:
            weight = grid.weight.sum(axis=(1, 2))  # by τ and slope
            explained_share = grid.slopes**2 / (grid.slopes**2 + _TAUS[:, None] ** 2)
            total += float((weight * explained_share).sum())
        return total

    def slope_quantile(self, p: float) -> float:
        """Compute the quantile of the slope at a probability p, over all regressions.

        Parameters
        ----------
        p : float in (0, 1)
            Probability.

        Returns
        -------
        float
            Quantile. It is exactly 0 for a range of p, because the slope is 0 with a positive probability.
        """
        # distribution function of the slope, P(slope < x), over the regressions with a slope
        sloped_grids = [grid for grid in self.grids if grid.regression.has_slope]
        slopes = np.sort(np.concatenate([grid.slopes for grid in sloped_grids]))
        p_slope_below = np.sum([grid.p_slope_below(slopes) for grid in sloped_grids], axis=0)
        p_negative = sum(float(grid.p_slope_below(0.0)) for grid in sloped_grids)

        # Regressions without a slope give the slope 0 the probability p_zero. The distribution function therefore jumps at 0,
        # from p_negative to p_negative + p_zero. Above the jump, p_zero is subtracted.
        p_zero = self.p_zero_slope
        if p_negative < p <= p_negative + p_zero:
            return 0.0
        p_without_jump = p if p <= p_negative else p - p_zero
        return float(np.interp(p_without_jump, p_slope_below, slopes))

    def condition_on_slope(self, slope: float) -> RegressionPosterior:
        """Condition the posterior on a value of the slope of quality on ability.

        Parameters
        ----------
        slope : float
            Slope b, in logits per transformed ability.

        Returns
        -------
        RegressionPosterior
            Posterior at this slope. For the slope 0, it consists of the regressions without a slope. For other values, it
            consists of the regressions whose grid of slopes includes the value, interpolated between the two nearest slopes.
        """
        grids = []
        for grid in self.grids:
            has_slope = grid.regression.has_slope
            if slope == 0 and not has_slope:
                grids.append(grid)
            elif slope != 0 and has_slope and grid.slopes[0] <= slope <= grid.slopes[-1]:
                grids.append(_interpolate_slope(grid, slope))
        total = sum(float(grid.weight.sum()) for grid in grids)
        return replace(self, grids=[replace(grid, weight=grid.weight / total) for grid in grids])

    def mean_curve(self, ability: Floats) -> Floats:
        """Predict the quality of agents with given abilities: the posterior mean over all regressions.

        Parameters
        ----------
        ability : float array (n_points,)
            Abilities, on the scale of `self.ability`.

        Returns
        -------
        float array (n_points,)
            Posterior mean quality, in [0, 1], of agents that do not deviate from the regression. One regression
            predicts the quality logit⁻¹(a + b·x), with intercept a, slope b, and transformed ability x.
        """
        standardized = _standardize(ability, self.ability)
        reference = _standardize(self.ability, self.ability)

        mean_quality = np.zeros(len(standardized))
        for grid in self.grids:
            # quality for each intercept, slope and ability: float array (n_intercepts, n_slopes, n_points)
            transformed, _ = _transform_abilities(standardized, grid.regression.curvature, reference)
            logit = grid.intercepts[:, None, None] + grid.slopes[:, None] * transformed
            quality = expit(logit)

            # posterior weight of each intercept and slope, summed over τ (axis 0) and outlier shares (axis 1)
            weight = grid.weight.sum(axis=(0, 1))
            mean_quality += np.tensordot(weight, quality, axes=2)  # summed over intercepts and slopes
        return mean_quality

    def predict(self) -> tuple[Floats, Floats]:
        """Predict each agent's logit quality from its ability and the labels of the other agents.

        Returns
        -------
        density : float array (n_agents, n_grid)
            Probability that the agent has the logit quality of the grid point and is no outlier.
        p_outlier : float array (n_agents,)
            Probability that the agent is an outlier.

        Notes
        -----
        A regression is logit(quality) = a + b·x + u, with the ability x and deviations u of SD τ. Each combination of τ, a and b
        predicts a normal distribution of logit quality. The density is a mixture of these distributions, weighted by their
        posterior probabilities given the labels of the other agents.
        """
        regression = self.grids[0].regression
        mixture = _MixtureWeights(regression)
        for grid in self.grids:
            for tau_index in range(len(_TAUS)):
                if grid.weight[tau_index].sum() >= _NEGLIGIBLE_WEIGHT:
                    mixture.add(grid, tau_index)

        # weights of the normal distributions (n_sds, n_means, n_agents), and their densities (n_sds, n_means, n_grid)
        is_used_sd = mixture.normal.any(axis=(1, 2))
        weight = mixture.normal[is_used_sd]
        normal_density = _make_normal_kernels(regression.step)[is_used_sd]

        # sum of density × weight over SDs and means: (n_grid, n_agents), transposed
        density = np.tensordot(normal_density, weight, axes=((0, 1), (0, 1))).T
        total = density.sum(axis=1) + mixture.outlier
        return density / total[:, None], mixture.outlier / total


class _MixtureWeights:
    """Weights of the distributions in the mixture that predicts an agent's logit quality from the labels of other agents.

    Attributes
    ----------
    normal : float array (n_sds, n_grid, n_agents)
        Weight of each normal distribution, by its SD and its mean, which is a point of the grid of logits.
    outlier : float array (n_agents,)
        Weight of the case that the agent is an outlier.
    """

    def __init__(self, regression: _Regression) -> None:
        self.normal = np.zeros(regression.likelihood.shape)
        self.outlier = np.zeros(len(regression.outlier_likelihood))

    def add(self, grid: _PosteriorGrid, tau_index: int) -> None:
        """Add the distributions that a regression with one value of τ predicts for each agent to `normal` and `outlier`.

        There is one distribution per intercept and slope. Each distribution gets the posterior weight of its intercept and slope.
        This weight depends on the labels of all agents. It is divided by the likelihood of the agent's own labels, so that only
        the other labels count.

        grid : intercepts and slopes with their posterior weights
        tau_index : position in `_TAUS` of τ, the SD of the agents' deviations from the regression
        """
        regression = grid.regression
        interpolation = regression.interpolate_likelihood(grid.intercepts, grid.slopes, _TAUS[tau_index])

        # posterior weights without the agent's own labels: (n_intercepts, n_slopes, n_agents)
        normal_weight = np.zeros_like(interpolation.likelihood)
        for share, grid_weight in zip(_OUTLIER_SHARES, grid.weight[tau_index], strict=True):
            own_likelihood = regression.mix_with_outliers(interpolation.likelihood, share)
            weight_without_own = grid_weight[:, :, None] / own_likelihood
            normal_weight += (1 - share) * weight_without_own
            self.outlier += share * weight_without_own.sum(axis=(0, 1))

        # divide the weight between the two grid points nearest to the predicted mean
        weight_at_lower = normal_weight * (1 - interpolation.fraction)
        weight_at_upper = normal_weight * interpolation.fraction
        for index, weight in ((interpolation.lower, weight_at_lower), (interpolation.upper, weight_at_upper)):
            total_weight = np.bincount(index.ravel(), weight.ravel(), self.normal.size)
            self.normal += total_weight.reshape(self.normal.shape)


def _interpolate_slope(grid: _PosteriorGrid, slope: float) -> _PosteriorGrid:
    """Restrict a grid to the two slopes nearest to a given slope, with weights that interpolate between them."""
    index_above = np.searchsorted(grid.slopes, slope).clip(1, len(grid.slopes) - 1)
    neighbors = [index_above - 1, index_above]
    slope_below, slope_above = grid.slopes[neighbors]

    # a weight is a density times the step between two slopes
    step = slope_above - slope_below
    fraction = (slope - slope_below) / step
    weight = grid.weight[..., neighbors] * np.array([1 - fraction, fraction]) / step
    return replace(grid, slopes=grid.slopes[neighbors], weight=weight)


def _find_nearest_sd(sd: Floats) -> Positions:
    """Find the position in `_KERNEL_SDS` that is nearest to each standard deviation on a logarithmic scale."""
    log_step = np.log(_KERNEL_SDS[1] / _KERNEL_SDS[0])
    nearest = np.rint(np.log(sd / _KERNEL_SDS[0]) / log_step).astype(np.int64)
    return np.asarray(np.clip(nearest, 0, len(_KERNEL_SDS) - 1))


def fit_regressions(likelihood: LabelLikelihood, ability: Floats, std_error: Floats) -> RegressionPosterior:
    """Compute the posterior of the regressions of quality on ability.

    Parameters
    ----------
    likelihood : LabelLikelihood
        Likelihood of each agent's labels on a grid of logit quality, and the number of agents with labels. At least one agent
        must have labels, which is not checked.
    ability, std_error : float array (n_agents,)
        Abilities and their standard errors; NaN for an agent without an ability. An agent without an ability or a standard error
        counts as an agent of mean ability, with the SD of the abilities as its standard error.

    Returns
    -------
    RegressionPosterior
        Posterior over four regressions of logit quality: without a slope, and with a slope on the ability, on an increasing
        convex function of the ability, and on an increasing concave function of the ability. It predicts qualities (`predict`,
        `mean_curve`), and describes the slope (`slope_quantile`, `p_zero_slope`, `r2`).
    """
    has_ability = np.isfinite(ability) & np.isfinite(std_error)
    finite_ability = ability[has_ability]
    reference = _standardize(finite_ability, finite_ability)
    z, z_error = np.zeros(len(ability)), np.ones(len(ability))
    z[has_ability] = reference
    z_error[has_ability] = std_error[has_ability] / _compute_sd(finite_ability)

    p_no_slope = _P_NO_SLOPE + _P_NO_SLOPE_FEW / likelihood.n_labeled
    without_slope = _Regression(
        curvature=0.0,
        transformed_ability=z,
        std_error=z_error,
        likelihood=_make_normal_kernels(likelihood.step) @ likelihood.value.T,
        outlier_likelihood=likelihood.value @ likelihood.uniform,
        step=likelihood.step,
        has_slope=False,
        prior=p_no_slope,
    )
    regressions = [without_slope]
    for curvature, form_prior in zip(_CURVATURES, _CURVATURE_PRIOR, strict=True):
        transformed, derivative = _transform_abilities(z, curvature, reference)
        regression = replace(
            without_slope,
            curvature=curvature,
            transformed_ability=transformed,
            std_error=derivative * z_error,
            has_slope=True,
            prior=form_prior * (1 - p_no_slope),
        )
        regressions.append(regression)

    # the weights of all grids sum to 1
    log_grids = [_make_grid_with_log_weights(regression) for regression in regressions]
    max_log_weight = max(float(grid.weight.max()) for grid in log_grids)
    weights = [np.exp(grid.weight - max_log_weight) for grid in log_grids]
    total = sum(float(weight.sum()) for weight in weights)
    grids = [replace(grid, weight=weight / total) for grid, weight in zip(log_grids, weights, strict=True)]
    return RegressionPosterior(grids, finite_ability)


def _compute_sd(x: Floats) -> float:
    """Compute the SD, or 1 if all values are equal or there are none."""
    sd = float(x.std()) if len(x) else 0.0
    return sd or 1.0


def _standardize(x: Floats, reference: Floats) -> Floats:
    """Standardize x such that the values of the reference have mean 0 and SD 1."""
    center = float(reference.mean()) if len(reference) else 0.0
    return (x - center) / _compute_sd(reference)


def _transform_abilities(z: Floats, curvature: float, reference: Floats) -> tuple[Floats, Floats]:
    """Transform standardized abilities by an increasing exponential curve, for a regression of quality on ability.

    The curve is sign(c)·exp(c·z) with the curvature c: convex for c > 0, and concave for c < 0. For c = 0, the curve is linear,
    and z is returned unchanged.

    z : float array (n,), standardized abilities
    curvature : curvature c
    reference : float array (n_reference,), standardized abilities whose transformed values have mean 0 and SD 1

    Returns the transformed abilities and the derivatives of the curve at z, float arrays (n,).
    """
    if curvature == 0:
        return z, np.ones(len(z))

    exponential = np.exp(curvature * np.clip(z, -_MAX_Z, _MAX_Z))
    reference_exponential = np.exp(curvature * np.clip(reference, -_MAX_Z, _MAX_Z))
    transformed = np.sign(curvature) * _standardize(exponential, reference_exponential)

    # the derivative of exp(c·z) is c·exp(c·z); its sign cancels with that of the curve
    derivative = abs(curvature) * exponential / _compute_sd(reference_exponential)
    return transformed, derivative


@lru_cache(2)
def _make_normal_kernels(step: float) -> Floats:
    """Compute normal densities around each grid point for each SD: float array (n_sds, n_grid, n_grid), rows sum to 1."""
    logits = logit_grid(step)
    kernel = np.exp(-0.5 * ((logits[:, None] - logits) / _KERNEL_SDS[:, None, None]) ** 2)
    return np.asarray(kernel / kernel.sum(axis=2, keepdims=True))


def _make_grid_with_log_weights(regression: _Regression) -> _PosteriorGrid:
    """Make a fine grid of intercepts and slopes around their posterior means, which are estimated on a coarse grid.

    The attribute `weight` of the result contains logarithms of posterior weights. They are normalized later, when all
    regressions have a grid.
    """
    coarse_intercepts = np.linspace(-_INTERCEPT_LIMIT, _INTERCEPT_LIMIT, _N_COARSE_INTERCEPTS)
    coarse_slopes = np.zeros(1)
    if regression.has_slope:
        coarse_slopes = np.linspace(-_SLOPE_LIMIT, _SLOPE_LIMIT, _N_COARSE_SLOPES)
    log_weight = regression.compute_log_weights(coarse_intercepts, coarse_slopes)
    probability = np.exp(log_weight - log_weight.max())
    probability /= probability.sum()

    # marginal distributions of intercepts and of slopes; the axes are τ, outlier share, intercept and slope
    p_intercept = probability.sum(axis=(0, 1, 3))
    intercepts = _make_centered_grid(coarse_intercepts, p_intercept)
    slopes = coarse_slopes
    if regression.has_slope:
        p_slope = probability.sum(axis=(0, 1, 2))
        slopes = _make_centered_grid(coarse_slopes, p_slope)

    fine_log_weight = regression.compute_log_weights(intercepts, slopes)
    return _PosteriorGrid(regression, intercepts, slopes, weight=fine_log_weight)


def _make_centered_grid(coarse: Floats, probability: Floats) -> Floats:
    """Make a grid of `_N_POINTS` points that covers `_GRID_SDS` standard deviations around the mean of a distribution.

    coarse, probability : float array (n_coarse,), equidistant points and their probabilities
    """
    mean = float(probability @ coarse)
    sd = float(np.sqrt(probability @ (coarse - mean) ** 2))
    coarse_step = coarse[1] - coarse[0]
    half_width = _GRID_SDS * max(sd, _MIN_GRID_SD * coarse_step)
    return np.linspace(mean - half_width, mean + half_width, _N_POINTS)
