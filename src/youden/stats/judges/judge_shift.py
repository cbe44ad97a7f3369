"""Compare two judges' answers to the same paired trials by agent, by group of agents, and by the resulting rankings.

Neither judge is assumed to be right: a shift is that of the second judge relative to the first. The second judge may
have answered only some of the trials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.stats.base.clusters import ROUNDING, check_level
from youden.stats.judges.curved_relation import curved_relation
from youden.stats.trials.comparisons import holm
from youden.stats.trials.noninferiority import zero_event_upper_bound
from youden.types.pool import Bools, Floats, Ids

MIN_TRIALS_PER_AGENT = 4
"""Mean number of trials per agent, answered by both judges, that an estimate of shifts needs."""


class JudgeShift:
    """Shifts of agents between judge A, the reference, and judge B, on paired trials.

    Attributes
    ----------
    agents : int array (n_compared,)
        Positions of the agents with trials that both judges answered. The arrays below refer to them.
    effect_a : float array (n_compared,)
        Additive effects of the agents under judge A, from all its answers.
    effect_b : float array (n_compared,)
        Effects under judge B, predicted for all trials that judge A answered.
    covariance : float array (n_compared, n_compared)
        Covariance of `effect_b`, given judge A's answers.
    shared_effect_a, shared_effect_b : float array (n_compared,)
        Effects from the trials that both judges answered.
    slope : float
        Slope of `effect_b` on `effect_a`.
    shift, low, high : float array (n_compared,)
        Deviation of each agent from the curve that relates both judges, with its confidence bounds.
    p_holm : float array (n_compared,)
        P-values of no shift, with Holm's correction.
    curve : CurvedRelation
        The fitted curve, and the statistics that tests of group labels need.
    level : float
        Confidence level.
    n_trials : int
        Number of trials that both judges answered.
    n_by_agent : int array (n_compared,)
        Number of these trials by agent.
    reliability_a, reliability_b : float
        Share of the variance of `effect_a` (`effect_b`) over agents that is not sampling variance.

    Notes
    -----
    y_B = α_i + α_k + β·y_A is fitted by least squares to the trials of agents i and k that both judges answered, so
    that noise that both judges share cancels. With a the effects under judge A, the effects under judge B over all
    trials of judge A are α + β·a (two-phase sampling). A shift is the residual of an agent from a curve in a, so that a
    judge with another threshold for a yes shifts no agent. If the judges never differ, the n trials of an agent still
    allow a shift of 1 − .025^(1/n).

    References
    ----------
    Cochran (1977), Sampling Techniques, §12.6.
    """

    def __init__(
        self, first: Ids, second: Ids, answer_a: Floats, answer_b: Floats, *, n_agents: int, level: float = 0.95
    ) -> None:
        """Compare two judges' answers to the same paired trials.

        Parameters
        ----------
        first, second : int array (n_trials,)
            Agents of each trial.
        answer_a, answer_b : float array (n_trials,)
            Answers of both judges, NaN if missing.
        n_agents : int
            Number of agents.
        level : float, default 0.95
            Confidence level.

        Raises
        ------
        StatisticsError
            [shift-few] if both answered too few trials; [level].
        """
        check_level(level)
        in_both = ~(np.isnan(answer_a) | np.isnan(answer_b))
        is_compared = np.bincount(np.append(first[in_both], second[in_both]), minlength=n_agents) > 0
        K, n = int(is_compared.sum()), int(in_both.sum())
        if K < 3 or 2 * n < MIN_TRIALS_PER_AGENT * K:
            raise StatisticsError(
                f"Shifts of agents need {MIN_TRIALS_PER_AGENT} trials per agent that both judges answered, and 3 agents: got {n} "
                f"paired trials of {K} agents. Add trials that both judge.",
                slug="shift-few",
            )
        index = np.cumsum(is_compared) - 1

        # judge A, from all trials of the compared agents that it answered
        by_a = ~np.isnan(answer_a) & is_compared[first] & is_compared[second]
        first_a, second_a = index[first[by_a]], index[second[by_a]]
        a, inverse_a = _fit_effects(first_a, second_a, answer_a[by_a], K)
        residual_a = answer_a[by_a] - a[first_a] - a[second_a]
        variance_a = _effect_variances(first_a, second_a, residual_a, inverse_a)

        # judge B given judge A, from the trials that both answered
        i, k = index[first[in_both]], index[second[in_both]]
        y_a, y_b = answer_a[in_both], answer_b[in_both]
        coefficients, inverse = _fit_effects(i, k, y_b, K, covariate=y_a)
        fitted = coefficients[i] + coefficients[k] + coefficients[K] * y_a
        variance = _residual_variance(y_b - fitted, K + 1)
        extend = np.column_stack([np.eye(K), a])  # α + β·a
        b = extend @ coefficients
        covariance = variance * (extend @ inverse @ extend.T)

        line = np.column_stack([np.ones(K), a - a.mean()])
        curve = curved_relation(i, k, a, y_a - a[i] - a[k], y_b, ability_variance=variance_a)
        half_width = student.ppf((1 + level) / 2, curve.df) * curve.std_error

        self.agents = np.flatnonzero(is_compared)
        self.effect_a, self.effect_b = a, b
        self.covariance = covariance
        self.shared_effect_a, _ = _fit_effects(i, k, y_a, K)
        self.shared_effect_b, _ = _fit_effects(i, k, y_b, K)
        self.slope = float((np.linalg.pinv(line) @ b)[1])
        self.curve = curve
        self.shift = np.where(np.abs(curve.shift) < ROUNDING, 0.0, curve.shift)
        self.low, self.high = self.shift - half_width, self.shift + half_width
        self.p_holm = holm(curve.p_value)
        self.level = level
        self.n_trials = n
        self.n_by_agent = np.bincount(np.append(i, k), minlength=K)
        self.reliability_a = _reliability(a, variance_a)
        self.reliability_b = _reliability(b, np.diag(covariance))

    def min_half_width(self, member: Bools, level: float) -> float:
        """Compute the smallest half-width that the interval of a group's shift may have.

        Parameters
        ----------
        member : bool array (n_compared,)
            Whether an agent belongs to the group.
        level : float
            Confidence level.

        Returns
        -------
        float
            Shift of the group against the other agents that these answers could have missed, because judges may differ
            in rare events.
        """
        unseen_members = self._unseen_shift(member, level)
        unseen_others = self._unseen_shift(~member, level)
        return math.hypot(unseen_members, unseen_others)

    def _unseen_shift(self, side: Bools, level: float) -> float:
        """Compute the shift of a group that its trials could have missed; `side`, bool (n_compared,), selects the group."""
        n = self.n_by_agent[side]
        mean_square = np.average(self.curve.unseen_effect_square[side], weights=n)
        return float(zero_event_upper_bound((1 - level) / 2, n.sum()) * np.sqrt(mean_square))


def _reliability(effect: Floats, sampling_variance: Floats) -> float:
    """Compute the share of the variance of effects that is not sampling variance; both are float arrays (n_agents,)."""
    variance = float(effect.var())
    if variance <= 0:
        return 0.0
    return max(0.0, 1 - float(sampling_variance.mean()) / variance)


def _fit_effects(
    first: Ids, second: Ids, answer: Floats, K: int, *, covariate: Floats | None = None
) -> tuple[Floats, Floats]:
    """Fit answer ≈ a_first + a_second (+ β·covariate) by least squares; of several solutions, the one of the smallest norm.

    `first`, `second`, `answer` and `covariate` are arrays (n_trials,). Returns the coefficients, float (K,) or (K +
    1,), and the pseudo-inverse of the normal matrix.
    """
    pairs = np.zeros((K, K))
    np.add.at(pairs, (first, second), 1.0)
    normal = pairs + pairs.T
    np.fill_diagonal(normal, np.bincount(np.append(first, second), minlength=K))
    right = _sum_by_agent(first, second, answer, K)
    if covariate is not None:
        border = _sum_by_agent(first, second, covariate, K)[:, None]
        normal = np.block([[normal, border], [border.T, np.array([[float(covariate @ covariate)]])]])
        right = np.append(right, covariate @ answer)
    inverse = np.asarray(np.linalg.pinv(normal, rcond=1e-10, hermitian=True), dtype=np.float64)
    return inverse @ right, inverse


def _effect_variances(first: Ids, second: Ids, residual: Floats, inverse: Floats) -> Floats:
    """Compute the sampling variances of fitted effects, float (K,), with a separate error variance for each trial.

    Error variances differ: answers vary less for an agent to which a judge nearly always answers no. `residual` is a
    float array (n_trials,), and `inverse` the pseudo-inverse of the normal matrix.
    """
    leverage = inverse[:, first] + inverse[:, second]
    n_trials = len(residual)
    return np.asarray((leverage**2) @ residual**2) * n_trials / max(n_trials - len(inverse), 1)


def _residual_variance(residual: Floats, n_fitted: int) -> float:
    """Compute the variance of residuals, float (n_trials,), after fitting `n_fitted` coefficients."""
    return float(residual @ residual) / max(len(residual) - n_fitted, 1)


def _sum_by_agent(first: Ids, second: Ids, column: Floats, K: int) -> Floats:
    """Sum a column, float (n_trials,), over the trials of each agent, float (K,); a trial counts for both of its agents."""
    return np.bincount(np.append(first, second), np.tile(column, 2), K).astype(np.float64)


_BENDS = np.linspace(0.0, 1.0, 21)
"""Standard deviations of the quadratic term of the curve, relative to the linear one."""


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
        Effects of the agents under both judges.
    rng : numpy.random.Generator
        Source of the draws.
    n_draws : int, default 4000
        Number of draws.

    Returns
    -------
    RankAgreement
        ρ with its interval, and its attenuation ceiling.

    Notes
    -----
    The true effects under judge B have the prior N(c₀ + c₁a_i + c₂a_i², τ²), with a the effects under judge A, flat
    priors of c₀ and c₁, and a normal prior of the quadratic term whose SD is at most the linear rise. τ and this SD are
    integrated out on a grid of restricted likelihoods. ρ is computed between a and posterior draws of the true effects.
    Unlike ρ between two estimates, it is not attenuated by the error of judge B. Without the quadratic term, judges
    with different thresholds for a yes would seem to disagree: in replays of PubMed and SAMSum the coverage of the 95 %
    interval is .3 to .6 without it, and .9 with it.

    The ceiling is the median of ρ between a and draws of the true effects of judge A, N(ā + B(a − ā), B(1 − B)·var a),
    with B the reliability of a.
    """
    a, b, covariance = shift.effect_a, shift.effect_b, shift.covariance
    K = len(a)
    x = _normalise(a - a.mean())
    if not x.any():
        return RankAgreement(np.nan, np.nan, np.nan, shift.level, np.nan)

    # orthonormal basis: constant, linear, quadratic, and the complement, in which the sampling covariance is diagonal
    line = np.column_stack([np.full(K, K**-0.5), x])
    quadratic = _normalise(x**2 - line @ (line.T @ x**2)) if K > 3 else np.zeros(K)
    fixed = np.column_stack([line, quadratic]) if quadratic.any() else line
    complement = np.linalg.svd(fixed, full_matrices=True)[0][:, fixed.shape[1] :]
    sampling_variance, rotation = np.linalg.eigh(complement.T @ covariance @ complement)
    basis = np.column_stack([complement @ rotation, quadratic])
    quadratic_variance = float(quadratic @ covariance @ quadratic)
    sampling_variance = np.append(sampling_variance, quadratic_variance).clip(0) + 1e-12
    observed = basis.T @ b

    # posterior over τ and the SD of the quadratic term, on a grid
    max_size = max(float(np.abs(observed).max()), float(np.sqrt(sampling_variance.max())))
    tau_square = (np.linspace(0, 3, 301) * max_size) ** 2
    quadratic_square = tau_square[:, None] + (_BENDS * float(x @ b)) ** 2
    log_likelihood = _log_density(observed[:-1], sampling_variance[:-1] + tau_square[:, None]).sum(axis=1)[:, None]
    log_likelihood = log_likelihood + _log_density(observed[-1], sampling_variance[-1] + quadratic_square)
    weight = np.exp(log_likelihood - log_likelihood.max()).ravel()
    grid_points = rng.choice(weight.size, n_draws, p=weight / weight.sum())

    # posterior draws of the true effects under judge B
    n_coordinates = len(sampling_variance)
    prior_variance = np.repeat(tau_square[grid_points // len(_BENDS), None], n_coordinates, axis=1)
    prior_variance[:, -1] = quadratic_square.ravel()[grid_points]
    trust = prior_variance / (prior_variance + sampling_variance)
    noise = rng.standard_normal((n_draws, n_coordinates))
    coordinates = trust * observed + np.sqrt(trust * sampling_variance) * noise
    slope_sd = np.sqrt(max(float(x @ covariance @ x), 0.0))
    slope = x @ b + slope_sd * rng.standard_normal(n_draws)
    true_b = slope[:, None] * x + coordinates @ basis.T
    rho = _spearman_rows(true_b, a)

    p_high = (1 + shift.level) / 2
    low, median, high = np.quantile(rho, [1 - p_high, 0.5, p_high]).tolist()
    if low == high:
        low = high = np.nan
    B = shift.reliability_a
    true_a = a.mean() + B * (a - a.mean()) + (B * (1 - B)) ** 0.5 * a.std() * rng.standard_normal((n_draws, K))
    ceiling = float(np.median(_spearman_rows(true_a, a)))
    return RankAgreement(median, low, high, shift.level, ceiling)


def _log_density(value: Floats, variance: Floats) -> Floats:
    """Compute the log density of a normal distribution with mean 0 at `value`, up to a constant."""
    return np.asarray(-0.5 * (np.log(variance) + value**2 / variance))


def _normalise(vector: Floats) -> Floats:
    """Scale a vector to length 1; a vector of length 0 becomes 0."""
    length = float(np.sqrt(vector @ vector))
    if length <= 1e-12:
        return np.zeros_like(vector)
    return vector / length


def _spearman_rows(rows: Floats, reference: Floats) -> Floats:
    """Compute Spearman's ρ of each row of a matrix with a reference; 0 for a constant row.

    `rows` is a float array (n_rows, n), `reference` (n,). Returns a float array (n_rows,).
    """
    rank = rankdata(rows, axis=1)
    rank -= rank.mean(axis=1, keepdims=True)
    reference_rank = rankdata(reference) - (len(reference) + 1) / 2
    length = np.sqrt((rank**2).sum(axis=1) * (reference_rank @ reference_rank))
    rho: Floats = np.divide(rank @ reference_rank, length, out=np.zeros(len(rows)), where=length > 0)
    return rho


N_PERMUTATIONS = 9999
"""Default number of random permutations of labels."""


@dataclass(frozen=True)
class LabelShift:
    """Effect of a label on agents, given a covariate.

    Attributes
    ----------
    shift : float
        Difference between agents with and without the label. If the label has no information, f'score/f'Vf (see
        `label_shift`), with an infinite interval; NaN if f'Vf is 0 as well.
    low, high : float
        Confidence bounds at `level`; ∓∞ if no value can be excluded.
    p_value : float
        Two-sided p-value of no difference.
    n_permutations : int
        Number of permutations of the labels, the observed one included.
    level : float
        Confidence level.
    """

    shift: float
    low: float
    high: float
    p_value: float
    n_permutations: int
    level: float

    @property
    def is_bounded(self) -> bool:
        """Whether the interval is finite, so that it can exclude 0."""
        return bool(np.isfinite([self.low, self.high]).all())


def label_shift(
    score: Floats,
    information: Floats,
    member: Bools,
    *,
    variance: Floats | None = None,
    rng: np.random.Generator,
    level: float = 0.95,
    n_permutations: int = N_PERMUTATIONS,
) -> LabelShift:
    """Estimate the difference between agents with and without a label, with the interval of a permutation test.

    Parameters
    ----------
    score : float array (n_agents,)
        Score vector of the regression, see Notes; without NaN.
    information : float array (n_agents, n_agents)
        Information matrix M, see Notes.
    member : bool array (n_agents,)
        Whether an agent has the label. At least one agent must have it, and at least one must not.
    variance : float array (n_agents, n_agents), optional
        Covariance matrix V of the score vector. Default: `information`.
    rng : numpy.random.Generator
        Source of random permutations.
    level : float, default 0.95
        Confidence level.
    n_permutations : int, default 9999
        Number of random permutations. If there are no more than this, all are used instead.

    Returns
    -------
    LabelShift
        c = f'score/f'Mf, for f the indicator of the label, with its interval and p-value.

    Raises
    ------
    StatisticsError
        [label-shape]: if the arrays do not fit each other; [label-constant]: if all agents or none have the
        label; [level].

    Notes
    -----
    For a regression y ≈ … + c·f with residual maker P, score = Py and M = P. If f belongs to agents and y to trials,
    with Z the matrix from agents to trials, score = Z'Py and M = Z'PZ. The p-value of c counts the permutations F with
    u(F; c) ≥ u(f; c), the observed one included, where u(F; c) = F'(score − c·M·f)/√(F'VF). As u is linear in c, each
    permutation excludes the values of c on one half-line, and the interval is read from the sorted ends of these
    half-lines. Differences between agents other than the label are present in all permutations.

    References
    ----------
    Ernst (2004), Statistical Science 19, 676–685 (permutation methods).
    """
    check_level(level)
    K, n_members = len(score), int(member.sum())
    if member.shape != score.shape or information.shape != (K, K):
        raise StatisticsError(
            f"Score, information and labels must be of the same agents: got the shapes {score.shape}, {information.shape} and "
            f"{member.shape}. Pass arrays of one fit.",
            slug="label-shape",
        )
    if not 0 < n_members < K:
        raise StatisticsError(
            f"The label must separate the agents: got {n_members} of {K} with it. "
            "Pass a label that some agents have, and some have not.",
            slug="label-constant",
        )

    # permutations F of the label, without those of no variance
    is_exact = comb(K, n_members) <= n_permutations
    F = _all_labels(K, n_members) if is_exact else _random_labels(K, n_members, n_permutations, rng)
    V = information if variance is None else variance
    length = np.sqrt(np.maximum(((F @ V) * F).sum(axis=1), 0))
    has_variance = length > 1e-6
    F, length = F[has_variance], length[has_variance]

    f = member.astype(np.float64)
    f_length = float(np.sqrt(max(float(f @ V @ f), 0.0)))
    f_information = float(f @ information @ f)
    if f_length < 1e-6 or f_information < 1e-12:
        estimate = float(f @ score) / f_length**2 if f_length >= 1e-6 else np.nan
        return LabelShift(estimate, -np.inf, np.inf, 1.0, len(F), level)
    estimate = float(f @ score) / f_information

    # u(F; c) = u − c·g, and u(f; c) = (estimate − c)·observed_g
    u = F @ score / length
    g = F @ (information @ f) / length
    observed_g = f_information / f_length
    differs = observed_g - g > 1e-9
    # the observed labels, or labels equivalent to them, are as extreme for every c
    n_observed = 0 if is_exact else 1  # all permutations include the observed labels
    n = len(F) + n_observed
    n_always = len(F) - int(differs.sum()) + n_observed
    ends = np.sort((observed_g * estimate - u[differs]) / (observed_g - g[differs]))
    n_excluded = int((1 - level) / 2 * n + 1e-9) - n_always
    low, high = -np.inf, np.inf
    if 0 <= n_excluded < len(ends):
        low, high = ends[n_excluded], ends[-1 - n_excluded]
    n_extreme = min(int((ends <= 0).sum()), int((ends >= 0).sum())) + n_always
    p_value = min(1.0, 2 * n_extreme / n)
    return LabelShift(estimate, float(low), float(high), p_value, n, level)


def _all_labels(K: int, n_members: int) -> Floats:
    """List all labels of `n_members` of K agents: float (n_labels, K), 1 for members."""
    members = np.array(list(combinations(range(K), n_members)))
    labels = np.zeros((len(members), K))
    labels[np.arange(len(members))[:, None], members] = 1.0
    return labels


def _random_labels(K: int, n_members: int, n: int, rng: np.random.Generator) -> Floats:
    """Draw `n` random labels of `n_members` of K agents: float (n, K), 1 for members."""
    return (np.argsort(rng.random((n, K)), axis=1) < n_members).astype(np.float64)
