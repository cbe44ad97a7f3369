"""Estimate how a judge's answers about agents deviate from a smooth curve in the abilities under another judge.

Two judges that see the same grades, but have different thresholds for a yes, are related by a curve: strong agents lose
less by a strict threshold than weak ones. A straight line between the judges would report this difference as favoritism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from youden.stats.base.clusters import UNSEEN_CLUSTERS, unseen_effect_square
from youden.types.pool import Floats, Ids, ReadOnly

_VARIANCE_RATIOS = np.append(0.0, np.geomspace(1e-4, 10, 150))[:, None]
"""Grid of ratios of the variance between agents to the variance of a trial, as a column."""
_TINY = 1e-9
_MAX_ERROR_SHARE = 0.5
"""Share of a covariate's variance that may be measurement error. Above it, no correction is made: nearly all of the
covariate is error, so that the correction would divide noise by noise."""


@dataclass(frozen=True, eq=False)
class CurvedRelation(ReadOnly):
    """Deviations of agents from a curve between judges, and label statistics.

    A label is a vector f (n_agents,), 1 for agents that have it and else 0. Its coefficient is c = f'score /
    f'information·f, and f'score has the variance f'variance·f, in units of the variance of a trial.

    Attributes
    ----------
    score : float array (n_agents,)
        Score vector, corrected for the errors of abilities.
    information, variance : float array (n_agents, n_agents)
        Information matrix, and covariance matrix of the score vector.
    plain_score, plain_information : float array (n_agents,), (n_agents, n_agents)
        Score vector and information matrix without the correction, which have less noise.
    shift : float array (n_agents,)
        Deviation of each agent from the curve; NaN if it cannot be estimated.
    std_error : float array (n_agents,)
        Standard errors of the shifts, with the variance between other agents.
    p_value : float array (n_agents,)
        Two-sided p-values of no shift.
    df : float array (n_agents,)
        Degrees of freedom of Student's t.
    unseen_effect_square : float array (n_agents,)
        Squared effect that no trial of the agent has shown yet; 1 if no trial deviates.
    """

    score: Floats
    information: Floats
    variance: Floats
    plain_score: Floats
    plain_information: Floats
    shift: Floats
    std_error: Floats
    p_value: Floats
    df: Floats
    unseen_effect_square: Floats


class _AdjustedDesign(NamedTuple):
    """Cross products of trials after the fixed part of a model was removed by the projection Q on its complement.

    Attributes
    ----------
    agent_products : float array (n_agents, n_agents)
        Z'QZ, with Z the matrix (n_trials, n_agents) that is 1 for the two agents of a trial.
    answer_products : float array (n_agents,)
        Z'Qy, with y the answers.
    squares : float
        y'Qy.
    df : int
        Remaining degrees of freedom.
    """

    agent_products: Floats
    answer_products: Floats
    squares: float
    df: int


def curved_relation(
    first: Ids,
    second: Ids,
    ability: Floats,
    deviation: Floats,
    answer: Floats,
    *,
    ability_variance: Floats | None = None,
) -> CurvedRelation:
    """Fit a judge's answers by a curve in the abilities under another judge.

    Parameters
    ----------
    first, second : int array (n_trials,)
        Positions of the two agents of each paired trial.
    ability : float array (n_agents,)
        Additive effects a of the agents under the first judge, without NaN.
    deviation : float array (n_trials,)
        The first judge's answer minus the sum a_first + a_second.
    answer : float array (n_trials,)
        The second judge's answer, without NaN.
    ability_variance : float array (n_agents,), optional
        Sampling variances of the abilities. Default: 0.

    Returns
    -------
    CurvedRelation
        `shift` is the deviation of each agent from the curve, in units of answers, with `std_error`, two-sided `p_value` and `df`
        (degrees of freedom): float arrays (n_agents,), NaN if the trials do not determine the shift. The function `label_shift`
        needs further statistics for groups of agents. `score` (n_agents,), `information` and `variance` (n_agents, n_agents) are
        corrected for errors of the abilities; `plain_score` and `plain_information` are not.

    Notes
    -----
    The model is y = γ₀ + γ₁(x_i + x_k) + γ₂(x_i² + x_k²) + β·r + β₁·r(x_i + x_k) + u_i + u_k + ε, with x the abilities
    in SDs and r the deviation. The random effects u ~ N(0, τ²) allow for small differences between agents, which arise if agents
    of equal ability have different mixtures of grades (answers from 0 to 1). τ² is the maximum of the restricted likelihood on a
    grid. The shift of an agent is a fixed effect, tested against the τ² of all other agents. Its standard error is at least
    √(3.54·h)/n, with n the number of the agent's trials and h its `unseen_effect_square`.

    Errors of the abilities flatten the curve, so that strong agents would seem favored. For labels, the contribution
    of the errors is therefore subtracted from the moments of x and x².

    References
    ----------
    Chan & Mak (1985), J. Royal Statistical Society B 47, 510–518 (polynomials in a covariate with errors).
    """
    n_agents, n_trials = len(ability), len(answer)
    sd = float(ability.std())
    x, x_variance = np.zeros((2, n_agents))
    if sd > _TINY:
        x = (ability - ability.mean()) / sd
        if ability_variance is not None:
            x_variance = ability_variance / sd**2
    is_in_trial = np.zeros((n_trials, n_agents))  # 1 for the two agents of a trial
    rows = np.arange(n_trials)
    is_in_trial[rows, first] = is_in_trial[rows, second] = 1.0

    # fixed part: 1, x_i + x_k, x_i² + x_k², r and r(x_i + x_k)
    sum_of_x = is_in_trial @ x
    fixed = np.column_stack([np.ones(n_trials), sum_of_x, is_in_trial @ x**2, deviation, deviation * sum_of_x])
    design = _make_adjusted_design(fixed, is_in_trial, answer)
    ratio, _ = _fit_variance_ratio(design)
    inverse = np.linalg.inv(np.eye(n_agents) + ratio * design.agent_products)

    # labels: the first judge's answer replaces the curve, which is subtracted with its errors
    first_answer = deviation + is_in_trial @ ability
    label_fixed = np.column_stack([np.ones(n_trials), first_answer])
    label_design = _make_adjusted_design(label_fixed, is_in_trial, answer)
    score, information, variance = _compute_label_statistics(label_design, x, x_variance, ratio)

    # shifts of single agents
    full_design = np.column_stack([fixed, is_in_trial])
    coefficients, *_ = np.linalg.lstsq(full_design, answer, rcond=None)
    residual = answer - full_design @ coefficients
    relative_variance = _compute_relative_variance(residual, is_in_trial)
    shifts = [_estimate_agent_shift(design, agent, float(relative_variance[agent])) for agent in range(n_agents)]
    shift, std_error, df = np.array(shifts).T

    # standard errors are at least √(3.54·h)/n, for effects that no trial has shown
    n_by_agent = np.maximum(is_in_trial.sum(axis=0), 1)
    unseen = unseen_effect_square((is_in_trial * residual[:, None]).T, n_by_agent)
    std_error = np.maximum(std_error, np.sqrt(UNSEEN_CLUSTERS * unseen) / n_by_agent)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(np.abs(shift) < _TINY, 0.0, np.abs(shift) / std_error)
    return CurvedRelation(
        score=score,
        information=information,
        variance=variance,
        plain_score=inverse @ design.answer_products,
        plain_information=inverse @ design.agent_products,
        shift=shift,
        std_error=std_error,
        p_value=2 * student.sf(t, df),
        df=df,
        unseen_effect_square=unseen,
    )


def parabola_r2(ability: Floats, has_label: Floats) -> float:
    """Compute the adjusted R² of a parabola in ability that predicts which agents have a label.

    A value near 0 means that agents with and without the label have similar abilities. A high value means that the label
    is concentrated in a range of abilities, so that its estimated effect depends on the shape of the curve.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities.
    has_label : float array (n_agents,)
        1 for agents with the label, else 0.

    Returns
    -------
    float
        R², adjusted for the two coefficients of the parabola; NaN for fewer than 5 agents.

    Examples
    --------
    >>> parabola_r2(np.arange(6.0), np.array([0.0, 0, 0, 1, 1, 1])) > 0.5
    True
    """
    n_agents = len(ability)
    if n_agents < 5:
        return float("nan")

    # least-squares parabola, as a prediction of the label
    x = ability - ability.mean()
    parabola = np.column_stack([np.ones(n_agents), x, x**2])
    residual = has_label - parabola @ (np.linalg.pinv(parabola) @ has_label)
    residual_squares = float(residual @ residual)
    total_squares = float(((has_label - has_label.mean()) ** 2).sum())

    # adjusted R², with 3 coefficients
    return 1 - residual_squares / total_squares * (n_agents - 1) / (n_agents - 3)


def _make_adjusted_design(fixed: Floats, is_in_trial: Floats, answer: Floats) -> _AdjustedDesign:
    """Remove the fixed part of a model, such as the intercept, from the data of trials by regression.

    The answers and the agent columns are regressed on the fixed part. The effects of agents can then be estimated from the
    residuals alone.

    fixed : float array (n_trials, n_columns), columns of the fixed part, which may be collinear
    is_in_trial : float array (n_trials, n_agents), 1 for the two agents of a trial
    answer : float array (n_trials,), answers to the trials

    Returns sums over trials of the products of residuals, and the remaining degrees of freedom.
    """
    # orthonormal basis of the fixed part; directions with smaller singular values are due to rounding
    left, singular_values, _ = np.linalg.svd(fixed, full_matrices=False)
    basis = left[:, singular_values > _TINY * singular_values[0]]

    agent_residual = is_in_trial - basis @ (basis.T @ is_in_trial)
    answer_residual = answer - basis @ (basis.T @ answer)
    return _AdjustedDesign(
        agent_products=agent_residual.T @ agent_residual,
        answer_products=agent_residual.T @ answer_residual,
        squares=float(answer_residual @ answer_residual),
        df=max(len(answer) - basis.shape[1], 1),
    )


def _compute_label_statistics(
    design: _AdjustedDesign, ability: Floats, ability_variance: Floats, variance_ratio: float
) -> tuple[Floats, Floats, Floats]:
    """Compute the statistics of a score test for the effect of any label of agents on a judge's answers.

    A label, such as "has long responses", is an array f (n_agents,) with 1 for agents that have it and 0 for others. Its
    estimated effect is f'score / f'information·f. The effect is adjusted for a parabola in the abilities of the agents.

    design : sums of products of agent columns and answers, from `_make_adjusted_design`
    ability, ability_variance : float arrays (n_agents,), standardized abilities and the variances of their errors
    variance_ratio : variance between agents divided by the variance of a trial

    Returns the score vector, float array (n_agents,), the information matrix, and the covariance matrix of the score
    vector, float arrays (n_agents, n_agents).
    """
    # Random effects of agents give the answers the covariance I + ratio·ZZ', with the agent columns Z. With N = `agent_products`
    # and v = `answer_products`, generalized least squares has the score (I + ratio·N)⁻¹v and the information N(I + ratio·N)⁻¹.
    # Both are simple products in the eigenbasis of N.
    eigenvalues, eigenvectors = np.linalg.eigh(design.agent_products)
    eigenvalues = np.maximum(eigenvalues, 0)
    denominator = 1 + variance_ratio * eigenvalues
    information_eigenvalues = eigenvalues / denominator
    information = (eigenvectors * information_eigenvalues) @ eigenvectors.T
    score_in_eigenbasis = (eigenvectors.T @ design.answer_products) / denominator
    score = eigenvectors @ score_in_eigenbasis

    remove_parabola = _make_parabola_removal_matrix(ability, ability_variance, information)
    adjusted_score = remove_parabola @ score
    adjusted_information = remove_parabola @ information
    score_covariance = adjusted_information @ remove_parabola.T
    return adjusted_score, adjusted_information, score_covariance


def _make_parabola_removal_matrix(ability: Floats, ability_variance: Floats, information: Floats) -> Floats:
    """Make the matrix that removes a parabola in the abilities from a score vector of agents.

    The parabola predicts the score vector from the abilities and their squares by regression. Errors of the abilities would make
    it too flat. The moments of the abilities are therefore corrected for these errors. A moment whose error share exceeds
    `_MAX_ERROR_SHARE` is not corrected.

    ability, ability_variance : float arrays (n_agents,), abilities and the variances of their errors
    information : float array (n_agents, n_agents), information matrix of the score vector

    Returns a float array (n_agents, n_agents), by which a score vector is multiplied from the left.
    """
    # The result is I − MX(X'MX − E)⁻¹X'. M is the information matrix, X has the columns ability and squared ability, and E is
    # the part of X'MX that is due to errors.
    powers, error_moments = _estimate_first_two_powers(ability, ability_variance, weight=np.diag(information))

    # linear combinations of both columns for which X'MX is the identity matrix
    moments, axes = np.linalg.eigh(powers.T @ information @ powers)
    is_determined = moments > _TINY
    combinations = axes[:, is_determined] / np.sqrt(moments[is_determined])

    # rotate them so that E is diagonal, too; its diagonal has the error share of each combination
    error_share, rotation = np.linalg.eigh(combinations.T @ error_moments @ combinations)
    combinations = combinations @ rotation
    error_share = np.where(error_share > _MAX_ERROR_SHARE, 0.0, error_share.clip(0))

    # in the combinations, X'MX − E is the diagonal matrix of 1 − error_share
    regressors = powers @ combinations  # (n_agents, n_combinations)
    score_to_coefficients = (regressors / (1 - error_share)).T  # (n_combinations, n_agents)
    parabola = information @ regressors @ score_to_coefficients
    return np.asarray(np.eye(len(ability)) - parabola)


def _estimate_first_two_powers(x: Floats, x_variance: Floats, *, weight: Floats) -> tuple[Floats, Floats]:
    """Estimate true values and their squares without bias, from observed values x with normal errors.

    For example, the square of an observed value is too large by the variance of its error.

    x, x_variance : float arrays (n_agents,), observed values and the variances of their errors
    weight : float array (n_agents,), weights of the agents

    Returns the estimates of the values and of the squares as columns, float array (n_agents, 2). Also returns the products of
    their errors, as weighted sums over agents, float array (2, 2).
    """
    # unbiased estimates of the powers 0 to 4 of the true value: power_(m+1) = x·power_m − m·variance·power_(m−1)
    powers = [np.ones_like(x), x]
    for exponent in (1, 2, 3):
        next_power = x * powers[exponent] - exponent * x_variance * powers[exponent - 1]
        powers.append(next_power)

    # on average, the product of two estimates is the estimate of the product plus the product of their errors
    error_moments = np.empty((2, 2))
    for i in (1, 2):
        for k in (1, 2):
            error_product = powers[i] * powers[k] - powers[i + k]
            error_moments[i - 1, k - 1] = weight @ error_product
    return np.column_stack([powers[1], powers[2]]), error_moments


def _compute_relative_variance(residual: Floats, is_in_trial: Floats) -> Floats:
    """Compute the mean squared residual of each agent's trials, divided by that of all trials. The result is at least 1.

    residual : float array (n_trials,), residual of each trial
    is_in_trial : float array (n_trials, n_agents), 1 for the two agents of a trial

    Returns a float array (n_agents,).
    """
    mean_square = float((residual**2).mean())
    if mean_square < _TINY:
        return np.ones(is_in_trial.shape[1])

    n_trials = np.maximum(is_in_trial.sum(axis=0), 1)
    mean_square_by_agent = (is_in_trial.T @ residual**2) / n_trials
    ratio: Floats = np.maximum(mean_square_by_agent / mean_square, 1.0)
    return ratio


def _fit_variance_ratio(design: _AdjustedDesign) -> tuple[float, float]:
    """Estimate the variance of random effects of agents, relative to the variance of a trial.

    The method is restricted maximum likelihood (REML) on a grid of ratios of both variances.

    design : sums of products of agent columns and answers, from `_make_adjusted_design`

    Returns the ratio, and the variance of a trial.
    """
    # The restricted log-likelihood is −½(df·log S + Σ log(1 + rλ)), with S = squares − Σ r·v²/(1 + rλ). Here r is the ratio, λ
    # are the eigenvalues, and v the products of the answers with the eigenvectors. The variance of a trial is S/df.
    eigenvalues, eigenvectors = np.linalg.eigh(design.agent_products)
    eigenvalues = np.maximum(eigenvalues, 0)
    products = eigenvectors.T @ design.answer_products

    # the ratios of the grid are a column: arrays (n_ratios, n_agents) before the sums over the eigenvectors
    relative_variance = 1 + _VARIANCE_RATIOS * eigenvalues
    explained_squares = (_VARIANCE_RATIOS * products**2 / relative_variance).sum(axis=1)
    residual_squares = np.maximum(design.squares - explained_squares, 1e-12)  # S

    log_determinant = np.log1p(_VARIANCE_RATIOS * eigenvalues).sum(axis=1)
    log_likelihood = -0.5 * (design.df * np.log(residual_squares) + log_determinant)
    best = int(np.argmax(log_likelihood))
    trial_variance = float(residual_squares[best]) / design.df
    return float(_VARIANCE_RATIOS[best, 0]), trial_variance


def _estimate_agent_shift(design: _AdjustedDesign, agent: int, relative_variance: float) -> tuple[float, float, float]:
    """Estimate how much the answers about one agent deviate from the curve that relates the two judges.

    The agent has a fixed effect, its shift. The other agents have random effects, with the variance τ².

    design : cross products of the agents' columns and the answers, from which the curve was removed
    agent : position of the agent
    relative_variance : variance of the agent's trials divided by that of all trials

    Returns the shift, its standard error and its degrees of freedom; all are NaN if the shift is not determined.
    """
    agent_square = float(design.agent_products[agent, agent])
    if agent_square < _TINY:
        return np.nan, np.nan, np.nan

    # products of the column of the agent, and of the columns of the others
    is_other = np.arange(len(design.answer_products)) != agent
    agent_with_answers = float(design.answer_products[agent])
    agent_with_others = design.agent_products[is_other, agent]
    others_with_answers = design.answer_products[is_other]
    others_with_others = design.agent_products[np.ix_(is_other, is_other)]

    # products of the residuals of a regression on the column of the agent, from which τ² is estimated
    explained_products = np.outer(agent_with_others, agent_with_others) / agent_square
    explained_answers = agent_with_others * agent_with_answers / agent_square
    without_agent = _AdjustedDesign(
        agent_products=others_with_others - explained_products,
        answer_products=others_with_answers - explained_answers,
        squares=design.squares - agent_with_answers**2 / agent_square,
        df=max(design.df - 1, 1),
    )
    ratio, variance = _fit_variance_ratio(without_agent)

    # generalized least squares for the shift: subtract what the random effects of the others explain
    system = np.eye(len(others_with_others)) + ratio * others_with_others
    targets = np.column_stack([agent_with_others, others_with_answers])
    predicted = ratio * np.linalg.solve(system, targets)
    information = agent_square - float(agent_with_others @ predicted[:, 0])
    shift = (agent_with_answers - float(agent_with_others @ predicted[:, 1])) / information

    # The sampling variance of the shift, plus τ² = ratio·variance, because shifts are tested against differences between
    # agents.
    std_error = float(np.sqrt(variance * relative_variance / information + variance * ratio))
    n_others = len(others_with_answers)
    df = min(n_others, without_agent.df) if ratio > 0 else without_agent.df
    return shift, std_error, float(df)
