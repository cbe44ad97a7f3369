"""Estimate the rank correlation of two judges' abilities without the errors of sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from youden.stats.judges.judge_shift import JudgeShift
from youden.types.pool import Floats

_RELATIVE_QUADRATIC_SDS = np.linspace(0.0, 1.0, 21)
"""Grid of the prior standard deviation of the quadratic term of the curve, relative to the linear term."""


@dataclass(frozen=True)
class RankAgreement:
    """Spearman's ρ of two judges' rankings, as if both had judged the whole plan.

    Attributes
    ----------
    rho : float
        Posterior median; NaN if all effects under judge A are equal.
    low, high : float
        Credible bounds at `level`; NaN if they are equal.
    level : float
        Level of the interval.
    ceiling : float
        Attenuation ceiling: median ρ between judge A's ranking and posterior draws of the true effects under judge A.
    """

    rho: float
    low: float
    high: float
    level: float
    ceiling: float


def estimate_rank_agreement(shift: JudgeShift, *, rng: np.random.Generator, n_draws: int = 4000) -> RankAgreement:
    """Estimate Spearman's ρ of two judges' rankings, corrected for the sampling error of judge B.

    Parameters
    ----------
    shift : JudgeShift
        Effects of at least 3 agents under judge A (`effect_a`) and judge B (`effect_b`, with its `covariance`), the reliability
        of `effect_a` (`reliability_a`), and the `level` of the interval.
    rng : numpy.random.Generator
        Source of the draws.
    n_draws : int, default 4000
        Number of draws, at least 1.

    Returns
    -------
    RankAgreement
        `rho` is the median of ρ over the draws, with the bounds `low` and `high` of its credible interval at `shift.level`. The
        `ceiling` is the same median for draws of the true effects under judge A. All are NaN if all agents have the same effect
        under judge A. The bounds are also NaN if the lower one equals the upper one.

    Notes
    -----
    The true effects under judge B have the prior N(c₀ + c₁a_i + c₂a_i², τ²), with a the effects under judge A, flat
    priors of c₀ and c₁, and a normal prior of the quadratic term whose SD is at most the linear rise. τ and this SD are
    integrated out on a grid of restricted likelihoods. ρ is computed between a and posterior draws of the true effects.
    Unlike ρ between two estimates, it is not attenuated by the error of judge B. Without the quadratic term, judges
    with different thresholds for a yes would seem to disagree: in replays of PubMed and SAMSum the coverage of the 95%
    interval is .3 to .6 without it, and .9 with it.

    The ceiling is the median of ρ between a and draws of the true effects of judge A, N(ā + B(a − ā), B(1 − B)·var a),
    with B the reliability of a.
    """
    a = shift.effect_a
    K = len(a)
    scaled_a = _scale_to_length_1(a - a.mean())
    if not scaled_a.any():
        return RankAgreement(np.nan, np.nan, np.nan, shift.level, np.nan)

    drawn_effects = _draw_effects(shift, scaled_a, rng=rng, n_draws=n_draws)
    rho = _correlate_rows(drawn_effects, a)
    p_high = (1 + shift.level) / 2
    low, median, high = np.quantile(rho, [1 - p_high, 0.5, p_high]).tolist()
    if low == high:
        low = high = np.nan

    # true effects of judge A: N(ā + B(a − ā), B(1 − B)·var a), with B the reliability
    B = shift.reliability_a
    mean, sd = a.mean() + B * (a - a.mean()), (B * (1 - B)) ** 0.5 * a.std()
    true_a = mean + sd * rng.standard_normal((n_draws, K))
    ceiling = float(np.median(_correlate_rows(true_a, a)))
    return RankAgreement(median, low, high, shift.level, ceiling)


def _draw_effects(shift: JudgeShift, scaled_a: Floats, *, rng: np.random.Generator, n_draws: int) -> Floats:
    """Draw the true effects of the agents under judge B from their posterior distribution.

    The true effects are modeled as a linear function of the effects under judge A, plus deviations in several orthogonal
    directions. All lines are equally likely a priori. The deviations have normal priors around 0, with variances from
    `_draw_prior_variances`.

    shift : estimated effects of the agents under both judges, with the covariance of those under judge B
    scaled_a : float array (n_agents,), effects under judge A minus their mean, scaled to a sum of squares of 1
    n_draws : number of draws

    Returns a float array (n_draws, n_agents), effects up to a constant, which does not change ranks.
    """
    # estimates of the slope and of the deviations: projections on the orthonormal vectors `scaled_a` and the columns of `basis`
    slope = float(scaled_a @ shift.effect_b)
    basis = _make_nonlinear_basis(shift.covariance, scaled_a)
    deviation = basis.T @ shift.effect_b

    # sampling variance of the deviation in each direction v: vᵀ·covariance·v, without negative rounding errors
    sampling_variance = (basis * (shift.covariance @ basis)).sum(axis=0).clip(0) + 1e-12
    prior_variance = _draw_prior_variances(deviation, sampling_variance, slope, rng=rng, n_draws=n_draws)

    # A deviation with a normal prior around 0 has the posterior mean w·deviation and the posterior variance w·sampling
    # variance, with the weight w = prior variance / (prior variance + sampling variance).
    data_weight = prior_variance / (prior_variance + sampling_variance)
    posterior_sd = np.sqrt(data_weight * sampling_variance)
    noise = rng.standard_normal((n_draws, len(deviation)))
    drawn_deviation = data_weight * deviation + posterior_sd * noise

    # posterior of the slope of the line; the intercept is left out
    slope_variance = float(scaled_a @ shift.covariance @ scaled_a)
    slope_sd = np.sqrt(max(slope_variance, 0.0))
    drawn_slope = slope + slope_sd * rng.standard_normal(n_draws)
    return np.asarray(drawn_slope[:, None] * scaled_a + drawn_deviation @ basis.T)


def _draw_prior_variances(
    deviation: Floats, sampling_variance: Floats, slope: float, *, rng: np.random.Generator, n_draws: int
) -> Floats:
    """Draw the variances of the priors of deviations from a line, given the observed deviations.

    The deviations have these priors:

    - N(0, τ² + (κ·slope)²) for the last deviation, the coefficient of a quadratic curve: a steep line is more likely to be
      curved.
    - N(0, τ²) for all others.

    τ and κ are drawn from a grid, with probabilities proportional to the likelihood of the observed deviations.

    deviation : float array (n_vectors,), observed deviations in an orthonormal basis; the last is the quadratic one
    sampling_variance : float array (n_vectors,), sampling variances of the deviations
    slope : slope of the line

    Returns a float array (n_draws, n_vectors).
    """
    # grid of τ (rows) and κ (columns)
    max_size = max(float(np.abs(deviation).max()), float(np.sqrt(sampling_variance.max())))
    tau = np.linspace(0, 3, 301) * max_size
    tau_square = tau[:, None] ** 2
    quadratic_prior_variance = tau_square + (_RELATIVE_QUADRATIC_SDS * slope) ** 2

    # log-likelihood on the grid; that of all deviations except the quadratic one does not depend on κ
    log_densities = _compute_log_density(deviation[:-1], sampling_variance[:-1] + tau_square)
    quadratic_log_density = _compute_log_density(deviation[-1], sampling_variance[-1] + quadratic_prior_variance)
    log_likelihood = log_densities.sum(axis=1, keepdims=True) + quadratic_log_density

    # draw points of the grid
    likelihood = np.exp(log_likelihood - log_likelihood.max()).ravel()
    flat_index = rng.choice(likelihood.size, n_draws, p=likelihood / likelihood.sum())
    tau_index, quadratic_index = np.unravel_index(flat_index, log_likelihood.shape)
    prior_variance = np.repeat(tau_square[tau_index], len(deviation), axis=1)
    prior_variance[:, -1] = quadratic_prior_variance[tau_index, quadratic_index]
    return prior_variance


def _make_nonlinear_basis(covariance: Floats, x: Floats) -> Floats:
    """Make orthonormal vectors that describe how effects under judge B deviate from a linear function of those under judge A.

    The vectors have three properties:

    - They are orthogonal to a constant and to x, the scaled effects under judge A.
    - The last one is quadratic in x. It is 0 for 3 agents, and if x has only two distinct values.
    - The sampling errors of the effects along the other vectors are uncorrelated.

    covariance : float array (n_agents, n_agents), covariance of the sampling errors of the effects under judge B
    x : float array (n_agents,), effects under judge A minus their mean, scaled to a sum of squares of 1

    Returns the vectors as columns, float array (n_agents, n_vectors).
    """
    # orthonormal columns: the linear functions of x, and the part of x² that is orthogonal to them
    n_agents = len(x)
    linear = np.column_stack([np.full(n_agents, n_agents**-0.5), x])
    quadratic = np.zeros(n_agents)
    if n_agents > 3:
        linear_part = linear @ (linear.T @ x**2)
        quadratic = _scale_to_length_1(x**2 - linear_part)
    known_vectors = np.column_stack([linear, quadratic]) if quadratic.any() else linear

    # The first left singular vectors span these columns. The remaining ones are a basis of all orthogonal vectors.
    left_vectors, _, _ = np.linalg.svd(known_vectors, full_matrices=True)
    n_known = known_vectors.shape[1]
    complement = left_vectors[:, n_known:]

    # rotate the basis to the eigenvectors of the covariance, so that sampling errors are uncorrelated
    _, rotation = np.linalg.eigh(complement.T @ covariance @ complement)
    return np.column_stack([complement @ rotation, quadratic])


def _compute_log_density(value: Floats, variance: Floats) -> Floats:
    """Compute the log density of normal distributions with mean 0, without the constant −½ log 2π."""
    return np.asarray(-0.5 * (np.log(variance) + value**2 / variance))


def _scale_to_length_1(vector: Floats) -> Floats:
    """Scale a vector to length 1; a vector of length 0 becomes 0."""
    length = float(np.sqrt(vector @ vector))
    if length <= 1e-12:
        return np.zeros_like(vector)
    return vector / length


def _correlate_rows(rows: Floats, reference: Floats) -> Floats:
    """Compute Spearman's ρ of each row of a matrix with a reference: float array (n_rows,), 0 for a constant row.

    rows : float array (n_rows, n_values)
    reference : float array (n_values,), values with which each row is correlated
    """
    # ranks minus their mean; n ranks have the mean (n + 1)/2
    rank = rankdata(rows, axis=1)
    rank -= rank.mean(axis=1, keepdims=True)
    reference_rank = rankdata(reference) - (len(reference) + 1) / 2

    # ρ is the correlation of the ranks: their sum of products divided by the root of the product of their sums of squares
    product_sum = rank @ reference_rank
    root = np.sqrt((rank**2).sum(axis=1) * (reference_rank @ reference_rank))
    rho: Floats = np.divide(product_sum, root, out=np.zeros(len(rows)), where=root > 0)
    return rho
