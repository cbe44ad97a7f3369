"""Regress logit quality on ability, averaged over monotone forms of ability and over the absence of a relation.

The model is logit(quality) = a + b·t(z) + u, with z the standardised ability, t one of three monotone forms (linear,
convex or concave), and u a deviation of the agent with SD τ. Four uncertainties are averaged over instead of being
decided: b may be 0, so that ability predicts nothing; the form; an agent may be an outlier, of any quality; and ability
has a standard error. Everything is integrated on grids instead of sampled, so that equal labels give equal digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

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
"""Prior probability of b = 0: _P_NO_SLOPE + _P_NO_SLOPE_FEW/labelled agents."""
_P_POSITIVE, _P_POSITIVE_CURVED = 0.8, 0.95
"""Prior probability of b > 0 if b is not 0, in the linear form and in the curved forms. A curved relation that decreases
would fit a few weak agents that game the labels."""
_CURVATURES, _CURVATURE_PRIOR = (0.0, 0.5, -0.5), (0.6, 0.2, 0.2)
"""Curvatures c of the forms, and their prior probabilities: t = z if c = 0, else sign(c)·exp(c·z), standardised."""
_MAX_Z = 3.0
"""Limit of |z| in the exponential."""
_OUTLIER_SHARES, _OUTLIER_PRIOR = np.array([0.02, 0.1]), np.array([0.6, 0.4])
"""Shares of agents that are outliers, and their prior probabilities."""
_NEGLIGIBLE_WEIGHT = 1e-6


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
    n_labelled : int
        Number of agents with labels.
    """

    value: Floats
    step: float
    n_labelled: int

    @property
    def logits(self) -> Floats:
        """Grid of logits, float array (n_grid,)."""
        return logit_grid(self.step)

    @property
    def uniform(self) -> Floats:
        """Probabilities of the logits if quality is uniform on [0, 1], float array (n_grid,)."""
        density = expit(self.logits) * expit(-self.logits)
        return np.asarray(density / density.sum())


@dataclass(frozen=True, eq=False)
class _Regression:
    """One regression of quality on ability, logit(quality) = a + b·x + u, and the likelihood of all labels under it.

    Attributes
    ----------
    curvature : float
        Curvature c of the form in which ability enters.
    x, std_error : float array (n_agents,)
        Transformed abilities and their standard errors.
    on_line : float array (n_sds, n_grid, n_agents)
        Likelihood of an agent's labels if the agent is not an outlier, for each SD and each mean of its logit quality.
    off_line : float array (n_agents,)
        Likelihood of the labels of an agent if it is an outlier.
    step : float
        Step of the grid of logits.
    has_slope : bool
        Whether b may differ from 0.
    prior : float
        Prior probability of the regression.
    """

    curvature: float
    x: Floats
    std_error: Floats
    on_line: Floats
    off_line: Floats
    step: float
    has_slope: bool
    prior: float

    def on_line_likelihood(self, a: Floats, b: Floats, tau: float) -> tuple[Floats, Positions, Floats]:
        """Interpolate the likelihood of each agent's labels under regressions of logit quality on ability.

        The agents are taken as not being outliers.

        a : float array (n_a,), intercepts
        b : float array (n_b,), slopes
        tau : SD τ of the agents' deviations from the regression

        Returns three arrays (n_a, n_b, n_agents): the likelihood, interpolated between two points of the grid of
        logits; the index of the lower one in `on_line`, flattened; and the distance from it, as a fraction of the
        step.
        """
        n_sds, n_grid, n_agents = self.on_line.shape

        # nearest SD in the table: √(τ² + (b·std_error)²)
        sd = np.hypot(tau, b[:, None] * self.std_error)
        log_ratio = np.log(_KERNEL_SDS[1] / _KERNEL_SDS[0])
        nearest = np.rint(np.log(sd / _KERNEL_SDS[0]) / log_ratio).astype(np.int64)
        sd_index = np.clip(nearest, 0, n_sds - 1)

        # position of the mean a + b·x on the grid of logits
        position = (a[:, None, None] + b[:, None] * self.x + _MAX_LOGIT) / self.step
        position = np.clip(position, 0, n_grid - 1.001)
        lower = position.astype(np.int64)
        fraction = position - lower

        index = (sd_index * n_grid + lower) * n_agents + np.arange(n_agents)
        likelihoods = self.on_line.reshape(-1)
        at_lower = likelihoods[index]
        at_upper = likelihoods[index + n_agents]
        return at_lower + (at_upper - at_lower) * fraction, index, fraction

    def log_weights(self, a: Floats, b: Floats) -> Floats:
        """Compute log posterior weights on a grid of regressions: intercepts a, slopes b, SDs τ and shares of outliers.

        τ is the SD of the agents' deviations from the regression.

        a : float array (n_a,)
        b : float array (n_b,), equidistant

        Returns a float array (n_taus, n_outlier_shares, n_a, n_b).
        """
        log_weight = np.empty((len(_TAUS), len(_OUTLIER_SHARES), len(a), len(b)))
        for t, tau in enumerate(_TAUS):
            on_line = self.on_line_likelihood(a, b, tau)[0]
            for s, share in enumerate(_OUTLIER_SHARES):
                likelihood = (1 - share) * on_line + share * self.off_line
                log_weight[t, s] = np.log(likelihood).sum(axis=2)

        # priors of the share of outliers, of the intercept, and of τ
        half_square = 0.5 * (a[:, None] / _INTERCEPT_SD) ** 2  # minus the log density of the intercept
        log_weight += np.log(_OUTLIER_PRIOR)[:, None, None] - half_square + np.log(a[1] - a[0])
        tau_prior = _TAU_PRIOR_WITH_SLOPE if self.has_slope else _TAU_PRIOR_WITHOUT_SLOPE
        log_weight += np.log(self.prior * tau_prior / tau_prior.sum())[:, None, None, None]
        if not self.has_slope:
            return np.asarray(log_weight)

        # prior of the slope: a normal density, times twice the prior probability of its sign
        p_positive = _P_POSITIVE if self.curvature == 0 else _P_POSITIVE_CURVED
        p_sign = np.full(len(b), 0.5)
        p_sign[b > 0] = p_positive
        p_sign[b < 0] = 1 - p_positive
        log_scale = np.log(2 * p_sign * (b[1] - b[0]) / _SLOPE_SD / np.sqrt(2 * np.pi))
        return np.asarray(log_weight + log_scale - 0.5 * (b / _SLOPE_SD) ** 2)


@dataclass(frozen=True, eq=False)
class _PosteriorGrid:
    """Grid of intercepts a and slopes b of a regression, with posterior weights.

    Attributes
    ----------
    regression : _Regression
        The regression.
    a, b : float array (n_a,), (n_b,)
        Intercepts and slopes.
    weight : float array (n_taus, n_outlier_shares, n_a, n_b)
        Posterior weight of each τ, share of outliers, intercept and slope.
    """

    regression: _Regression
    a: Floats
    b: Floats
    weight: Floats


@dataclass(frozen=True, eq=False)
class RegressionPosterior:
    """Posterior of the regressions of quality on ability; the weights of all grids sum to 1."""

    grids: Sequence[_PosteriorGrid]
    ability: Floats
    """Abilities of the agents that have one, float array (n_with_ability,)."""

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
            explained_share = grid.b**2 / (grid.b**2 + _TAUS[:, None] ** 2)
            total += float((weight * explained_share).sum())
        return total

    def slope_quantile(self, p: float) -> float:
        """Compute the p quantile of the slope over all regressions.

        Parameters
        ----------
        p : float in (0, 1)
            Probability.

        Returns
        -------
        float
            Quantile. Because the slope has a positive probability of being exactly 0, a range of p has the quantile 0.
        """
        # over all grids of regressions: cumulative probability at each slope other than 0, and that of a negative slope
        sloped_grids = [grid for grid in self.grids if grid.regression.has_slope]
        slopes = np.sort(np.concatenate([grid.b for grid in sloped_grids]))
        cumulative = np.zeros(len(slopes))
        p_negative = 0.0
        for grid in sloped_grids:
            weight = grid.weight.sum(axis=(0, 1, 2))
            cumulative_of_grid = np.cumsum(weight) - weight / 2
            cumulative += np.interp(slopes, grid.b, cumulative_of_grid)
            p_negative += float(np.interp(0, grid.b, cumulative_of_grid))

        # the probability of a slope of 0 lies between those of negative and of positive slopes
        if p <= p_negative:
            return float(np.interp(p, cumulative, slopes))
        if p <= p_negative + self.p_zero_slope:
            return 0.0
        return float(np.interp(p - self.p_zero_slope, cumulative, slopes))

    def at_slope(self, slope: float) -> RegressionPosterior:
        """Condition the posterior on a value of the slope of quality on ability.

        Parameters
        ----------
        slope : float
            Slope; 0 means the regressions without a slope.

        Returns
        -------
        RegressionPosterior
            Posterior, with each grid interpolated between the two values of b next to the slope.
        """
        grids = []
        for grid in self.grids:
            has_slope = grid.regression.has_slope
            if slope == 0 and not has_slope:
                grids.append(grid)
            elif slope != 0 and has_slope and grid.b[0] <= slope <= grid.b[-1]:
                grids.append(_interpolate_slope(grid, slope))
        total = sum(float(grid.weight.sum()) for grid in grids)
        return replace(self, grids=[replace(grid, weight=grid.weight / total) for grid in grids])

    def mean_curve(self, ability: Floats) -> Floats:
        """Compute the posterior mean of the regression at given abilities.

        Parameters
        ----------
        ability : float array (n_points,)
            Abilities.

        Returns
        -------
        float array (n_points,)
            Mean of logit⁻¹(a + b·t(z)), in [0, 1].
        """
        z = _standardise(ability, self.ability)
        reference = _standardise(self.ability, self.ability)

        # sum over all regressions of the mean over intercepts a and slopes b, by their posterior weights
        curve = np.zeros(len(z))
        for grid in self.grids:
            x, _ = _transform(z, grid.regression.curvature, reference)
            quality = expit(grid.a[:, None, None] + grid.b[:, None] * x)  # by intercept, slope and point
            weight = grid.weight.sum(axis=(0, 1))
            curve += np.tensordot(weight, quality, axes=2)
        return curve

    def predict(self) -> tuple[Floats, Floats]:
        """Predict each agent's logit quality from its ability and the labels of the other agents.

        Returns
        -------
        density : float array (n_agents, n_grid)
            Joint probability that the agent is not an outlier and has the logit quality of the grid point.
        p_outlier : float array (n_agents,)
            Probability that the agent is an outlier.

        Notes
        -----
        The predictions leave the agent's own labels out: the posterior weight of each regression is proportional to the
        product of the likelihoods of all agents' labels, and is divided by the likelihood of the agent's own labels.
        """
        # weights, by SD, mean of the logit quality and agent, if it is no outlier; flattened (n_sds · n_grid · n_agents)
        on_line_table = self.grids[0].regression.on_line
        n_agents = on_line_table.shape[2]
        flat_weight, outlier_weight = np.zeros(on_line_table.size), np.zeros(n_agents)
        for grid in self.grids:
            for t, tau in enumerate(_TAUS):
                if grid.weight[t].sum() >= _NEGLIGIBLE_WEIGHT:
                    _add_predictions(grid, t, tau, flat_weight, outlier_weight)

        # density_kh = Σ_s Σ_g weight_sgk·N(h; mean g, SD s), for agent k and logit h; only SDs s with a weight
        weight = flat_weight.reshape(on_line_table.shape)
        is_used = weight.any(axis=(1, 2))
        kernels = _normal_kernels(self.grids[0].regression.step)
        density = np.einsum("sgk,sgh->kh", weight[is_used], kernels[is_used], optimize=True)
        total = density.sum(axis=1) + outlier_weight
        return density / total[:, None], outlier_weight / total


def _interpolate_slope(grid: _PosteriorGrid, slope: float) -> _PosteriorGrid:
    """Restrict a grid to the two slopes next to a given one, with weights that interpolate the density at it."""
    k = int(np.clip(np.searchsorted(grid.b, slope) - 1, 0, len(grid.b) - 2))
    step = grid.b[k + 1] - grid.b[k]
    fraction = (slope - grid.b[k]) / step
    weight = grid.weight[..., k : k + 2] * np.array([1 - fraction, fraction]) / step
    return replace(grid, b=grid.b[k : k + 2], weight=weight)


def _add_predictions(
    grid: _PosteriorGrid, tau_index: int, tau: float, flat_weight: Floats, outlier_weight: Floats
) -> None:
    """Add the posterior weights for one SD τ of the deviations to two arrays, in place.

    The labels of an agent do not count for its own prediction.

    tau_index, tau : position of τ in the grid, and its value
    flat_weight : float array (n_sds · n_grid · n_agents,), weights of the predictions of agents that are no outliers
    outlier_weight : float array (n_agents,), weights of being an outlier
    """
    n_agents = len(outlier_weight)
    on_line, index, fraction = grid.regression.on_line_likelihood(grid.a, grid.b, tau)
    weight = np.zeros_like(on_line)
    for s, share in enumerate(_OUTLIER_SHARES):
        own_likelihood = (1 - share) * on_line + share * grid.regression.off_line
        without_own = grid.weight[tau_index, s][:, :, None] / own_likelihood
        weight += (1 - share) * without_own
        outlier_weight += share * without_own.sum(axis=(0, 1))

    # each weight is divided between the two grid points next to the mean
    to_lower, to_upper = weight * (1 - fraction), weight * fraction
    flat_weight += np.bincount(index.ravel(), weights=to_lower.ravel(), minlength=flat_weight.size)
    flat_weight += np.bincount(index.ravel() + n_agents, weights=to_upper.ravel(), minlength=flat_weight.size)


def fit_regressions(likelihood: LabelLikelihood, ability: Floats, std_error: Floats) -> RegressionPosterior:
    """Compute the posterior of the regressions of quality on ability.

    Parameters
    ----------
    likelihood : LabelLikelihood
        Likelihood of the labels, of which at least one agent has some.
    ability, std_error : float array (n_agents,)
        Abilities and their standard errors; NaN for an agent without an ability. The ability of an agent without a
        standard error is not used.

    Returns
    -------
    RegressionPosterior
        Posterior over regressions without a slope, and with a slope in each form.
    """
    has_ability = np.isfinite(ability) & np.isfinite(std_error)
    finite_ability = ability[has_ability]
    reference = _standardise(finite_ability, finite_ability)
    z, z_error = np.zeros(len(ability)), np.ones(len(ability))
    z[has_ability] = reference
    z_error[has_ability] = std_error[has_ability] / _sd(finite_ability)

    p_no_slope = _P_NO_SLOPE + _P_NO_SLOPE_FEW / likelihood.n_labelled
    without_slope = _Regression(
        curvature=0.0,
        x=z,
        std_error=z_error,
        on_line=_normal_kernels(likelihood.step) @ likelihood.value.T,
        off_line=likelihood.value @ likelihood.uniform,
        step=likelihood.step,
        has_slope=False,
        prior=p_no_slope,
    )
    regressions = [without_slope]
    for curvature, form_prior in zip(_CURVATURES, _CURVATURE_PRIOR, strict=True):
        x, derivative = _transform(z, curvature, reference)
        prior = form_prior * (1 - p_no_slope)
        regression = replace(
            without_slope, curvature=curvature, x=x, std_error=derivative * z_error, has_slope=True, prior=prior
        )
        regressions.append(regression)

    # the weights of all grids sum to 1
    grids = [_make_grid(regression) for regression in regressions]
    max_log_weight = max(float(grid.weight.max()) for grid in grids)
    total = sum(float(np.exp(grid.weight - max_log_weight).sum()) for grid in grids)
    normalised = [replace(grid, weight=np.exp(grid.weight - max_log_weight) / total) for grid in grids]
    return RegressionPosterior(normalised, finite_ability)


def _sd(x: Floats) -> float:
    """Compute the SD, or 1 if all values are equal or there are none."""
    return (float(x.std()) if len(x) else 0.0) or 1.0


def _standardise(x: Floats, reference: Floats) -> Floats:
    """Standardise x such that the values of the reference have mean 0 and SD 1."""
    centre = float(reference.mean()) if len(reference) else 0.0
    return (x - centre) / _sd(reference)


def _transform(z: Floats, curvature: float, reference: Floats) -> tuple[Floats, Floats]:
    """Transform z by sign(c)·exp(c·z), with c the curvature, or leave it unchanged if c = 0.

    z : float array (n,), standardised abilities
    reference : float array (n_reference,), standardised abilities whose transformed values have mean 0 and SD 1

    Returns the transformed z and the derivative, float array (n,) each.
    """
    if curvature == 0:
        return z, np.ones(len(z))
    exponential = np.exp(curvature * np.clip(z, -_MAX_Z, _MAX_Z))
    reference_exponential = np.exp(curvature * np.clip(reference, -_MAX_Z, _MAX_Z))
    derivative = abs(curvature) * exponential / _sd(reference_exponential)
    return np.sign(curvature) * _standardise(exponential, reference_exponential), derivative


@lru_cache(2)
def _normal_kernels(step: float) -> Floats:
    """Compute normal densities around each grid point for each SD: float array (n_sds, n_grid, n_grid), rows sum to 1."""
    logits = logit_grid(step)
    kernel = np.exp(-0.5 * ((logits[:, None] - logits) / _KERNEL_SDS[:, None, None]) ** 2)
    return np.asarray(kernel / kernel.sum(axis=2, keepdims=True))


def _make_grid(regression: _Regression) -> _PosteriorGrid:
    """Make a grid of intercepts and slopes with log posterior weights.

    A coarse grid shows where the posterior weights are. The grid that is returned is finer and lies around them.
    """
    a, b = np.linspace(-5, 5, 17), np.zeros(1)
    if regression.has_slope:
        b = np.linspace(-3.2, 3.2, 13)
    log_weight = regression.log_weights(a, b)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()

    a = _make_finer_grid(a, weight.sum(axis=(0, 1, 3)), 13)
    if regression.has_slope:
        b = _make_finer_grid(b, weight.sum(axis=(0, 1, 2)), 13)
    return _PosteriorGrid(regression, a, b, regression.log_weights(a, b))


def _make_finer_grid(grid: Floats, weight: Floats, n: int) -> Floats:
    """Make a grid of `n` points that covers 3.5 standard deviations around the mean of a distribution.

    grid, weight : float array (n_grid,), points and their probabilities
    """
    mean = float(weight @ grid)
    sd = float(np.sqrt(weight @ (grid - mean) ** 2))
    half_width = 3.5 * max(sd, 0.6 * (grid[1] - grid[0]))
    return np.linspace(mean - half_width, mean + half_width, n)
