"""Compare two judges' answers to the same paired trials by agent, by group of agents, and by the resulting rankings.

Neither judge is assumed to be right: a shift is that of the second judge relative to the first. The second judge may
have answered only some of the trials.
"""

from __future__ import annotations

import math

import numpy as np
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
            [shift-few] if both answered too few trials; [level]: unless 0 < level < 1.
        """
        check_level(level)
        answered_by_both = ~(np.isnan(answer_a) | np.isnan(answer_b))
        shared_agents = np.append(first[answered_by_both], second[answered_by_both])
        is_compared = np.bincount(shared_agents, minlength=n_agents) > 0
        K, n = int(is_compared.sum()), int(answered_by_both.sum())
        if K < 3 or 2 * n < MIN_TRIALS_PER_AGENT * K:
            raise StatisticsError(
                f"Shifts of agents need {MIN_TRIALS_PER_AGENT} trials per agent that both judges answered, and 3 agents: got {n} "
                f"paired trials of {K} agents. Add trials that both judge.",
                slug="shift-few",
            )
        index = np.cumsum(is_compared) - 1  # position of an agent among the compared ones

        # judge A, from all trials of the compared agents that it answered
        answered_by_a = ~np.isnan(answer_a) & is_compared[first] & is_compared[second]
        first_a, second_a = index[first[answered_by_a]], index[second[answered_by_a]]
        a, inverse_a = _fit_effects(first_a, second_a, answer_a[answered_by_a], K)
        residual_a = answer_a[answered_by_a] - a[first_a] - a[second_a]
        variance_a = _compute_effect_variances(first_a, second_a, residual_a, inverse_a)

        # judge B given judge A, from the trials that both answered: y_B = α_i + α_k + β·y_A
        i, k = index[first[answered_by_both]], index[second[answered_by_both]]
        y_a, y_b = answer_a[answered_by_both], answer_b[answered_by_both]
        coefficients, inverse = _fit_effects(i, k, y_b, K, covariate=y_a)
        fitted = coefficients[i] + coefficients[k] + coefficients[K] * y_a
        variance = _residual_variance(y_b - fitted, K + 1)

        # effects α + β·a over all trials of judge A, and their covariance
        to_all_trials = np.column_stack([np.eye(K), a])
        b = to_all_trials @ coefficients
        covariance = variance * (to_all_trials @ inverse @ to_all_trials.T)

        # relation between the effects under both judges
        line = np.column_stack([np.ones(K), a - a.mean()])
        _, self.slope = (np.linalg.pinv(line) @ b).tolist()
        curve = curved_relation(i, k, a, y_a - a[i] - a[k], y_b, ability_variance=variance_a)
        half_width = student.ppf((1 + level) / 2, curve.df) * curve.std_error

        self.agents = np.flatnonzero(is_compared)
        self.effect_a, self.effect_b = a, b
        self.covariance = covariance
        self.shared_effect_a, _ = _fit_effects(i, k, y_a, K)
        self.shared_effect_b, _ = _fit_effects(i, k, y_b, K)
        self.curve = curve
        self.shift = np.where(np.abs(curve.shift) < ROUNDING, 0.0, curve.shift)
        self.low, self.high = self.shift - half_width, self.shift + half_width
        self.p_holm = holm(curve.p_value)
        self.level = level
        self.n_trials = n
        self.n_by_agent = np.bincount(np.append(i, k), minlength=K)
        self.reliability_a = _compute_reliability(a, variance_a)
        self.reliability_b = _compute_reliability(b, np.diag(covariance))

    def min_half_width(self, member: Bools, level: float) -> float:
        """Compute the smallest half-width that the interval of a group's shift may have.

        The shift of an agent is its effect under judge B minus the value predicted from judge A.

        Parameters
        ----------
        member : bool array (n_compared,)
            Whether an agent belongs to the group, in the order of `agents`. At least one agent must belong to it, and at least
            one must not.
        level : float
            Confidence level, in (0, 1); not checked.

        Returns
        -------
        float
            Largest shift of the group relative to the other agents, in units of answers (0 to 1), that these trials may have
            missed at this level. Trials can miss a shift if the judges differ only in rare events.

        Raises
        ------
        ZeroDivisionError
            If all agents belong to the group, or none.
        """
        unseen_members = self._bound_unseen_shift(member, level)
        unseen_others = self._bound_unseen_shift(~member, level)
        return math.hypot(unseen_members, unseen_others)

    def _bound_unseen_shift(self, is_in_group: Bools, level: float) -> float:
        """Compute an upper bound on a difference between judges that the trials of a group of agents may have missed.

        Two judges may differ only in rare trials, and the group's n trials may contain none of them. This has the probability
        alpha = (1 − level)/2 if the share of such trials is 1 − alpha^(1/n). The bound is this share, times the typical
        difference of the judges' answers in such a trial.

        is_in_group : bool array (n_compared,)
        level : confidence level
        """
        n_trials = self.n_by_agent[is_in_group]
        alpha = (1 - level) / 2  # of one side of a two-sided interval
        max_unseen_share = float(zero_event_upper_bound(alpha, n_trials.sum()))
        mean_square_effect = np.average(self.curve.unseen_effect_square[is_in_group], weights=n_trials)
        return float(max_unseen_share * np.sqrt(mean_square_effect))


def _compute_reliability(effect: Floats, sampling_variance: Floats) -> float:
    """Compute the reliability of estimated effects: the share of their variance that is not sampling variance.

    effect, sampling_variance : float arrays (n_agents,), estimates and their sampling variances

    Returns a number from 0 to 1; 0 if all estimates are equal.
    """
    total_variance = float(effect.var())
    if total_variance <= 0:
        return 0.0
    sampling_share = float(sampling_variance.mean()) / total_variance
    return max(0.0, 1 - sampling_share)


def _fit_effects(
    first: Ids, second: Ids, answer: Floats, n_agents: int, *, covariate: Floats | None = None
) -> tuple[Floats, Floats]:
    """Fit the effects of agents to answers by least squares: answer ≈ sum of both agents' effects + β·covariate.

    The covariate is optional. If several solutions exist, the one of minimum norm is returned.

    first, second : int arrays (n_trials,), agents of each trial
    answer, covariate : float arrays (n_trials,)

    Returns the coefficients, float array (n_coefficients,): the effects of the agents and, with a covariate, β. Also returns the
    pseudo-inverse of the normal matrix, float array (n_coefficients, n_coefficients).
    """
    # normal matrix: number of trials of each pair, and of each agent on the diagonal
    n_ordered = np.zeros((n_agents, n_agents))
    np.add.at(n_ordered, (first, second), 1.0)
    n_by_agent = np.bincount(np.append(first, second), minlength=n_agents)
    normal_matrix = n_ordered + n_ordered.T + np.diag(n_by_agent)
    target = _sum_by_agent(first, second, answer, n_agents)

    # one more row and column for the coefficient β, with the sum of the covariate over the trials of each agent
    if covariate is not None:
        covariate_sums = _sum_by_agent(first, second, covariate, n_agents)[:, None]
        covariate_square = covariate @ covariate
        normal_matrix = np.block([[normal_matrix, covariate_sums], [covariate_sums.T, covariate_square]])
        target = np.append(target, covariate @ answer)

    inverse = np.asarray(np.linalg.pinv(normal_matrix, rcond=1e-10, hermitian=True), dtype=np.float64)
    return inverse @ target, inverse


def _compute_effect_variances(first: Ids, second: Ids, residual: Floats, inverse: Floats) -> Floats:
    """Compute the sampling variances of fitted effects, float array (n_agents,), with an error variance per trial.

    residual : float array (n_trials,)
    inverse : pseudo-inverse of the normal matrix
    """
    leverage = inverse[:, first] + inverse[:, second]
    n_trials = len(residual)
    return np.asarray((leverage**2) @ residual**2) * n_trials / max(n_trials - len(inverse), 1)


def _residual_variance(residual: Floats, n_fitted: int) -> float:
    """Compute the variance of residuals, float array (n_trials,), after fitting `n_fitted` coefficients."""
    return float(residual @ residual) / max(len(residual) - n_fitted, 1)


def _sum_by_agent(first: Ids, second: Ids, column: Floats, n_agents: int) -> Floats:
    """Sum a column, float array (n_trials,), by agent, float array (n_agents,); a trial counts for both of its agents."""
    return np.bincount(np.append(first, second), np.tile(column, 2), n_agents).astype(np.float64)
