"""Estimate how a judge's answers about agents deviate from a smooth curve in the abilities under another judge.

Two judges that see the same grades, but have different thresholds for a yes, are related by a curve: strong agents lose
less by a strict threshold than weak ones. A straight line between the judges would report this difference as favour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from youden.stats.base.clusters import UNSEEN_CLUSTERS, unseen_effect_square
from youden.types.pool import Floats, Ids, ReadOnly

_VARIANCE_RATIOS = np.append(0.0, np.geomspace(1e-4, 10, 150))[:, None]
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
    """Cross products of trials after projection on the complement Q of the fixed part.

    Attributes
    ----------
    N : float array (n_agents, n_agents)
        Z'QZ, with Z the matrix from agents to trials.
    v : float array (n_agents,)
        Z'Qy, with y the answers.
    squares : float
        y'Qy.
    df : int
        Remaining degrees of freedom.
    """

    N: Floats
    v: Floats
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
        Agents of each paired trial.
    ability : float array (n_agents,)
        Additive effects a of the agents under the first judge.
    deviation : float array (n_trials,)
        The first judge's answer minus a_first + a_second.
    answer : float array (n_trials,)
        The second judge's answer.
    ability_variance : float array (n_agents,), optional
        Sampling variances of the abilities. Default: 0.

    Returns
    -------
    CurvedRelation
        Shifts of agents, and statistics of group labels.

    Notes
    -----
    The model is y = γ₀ + γ₁(x_i + x_k) + γ₂(x_i² + x_k²) + β·r + β₁·r(x_i + x_k) + u_i + u_k + ε, with x the abilities
    in SDs and r the deviation. The random effects u ~ N(0, τ²) allow for small differences between agents, which arise
    if they win by different mixtures of grades. τ² is the maximum of the restricted likelihood on a grid. The shift of
    an agent is a fixed effect, tested against the τ² of all other agents. Its standard error is at least √(3.54·h)/n
    over the agent's n trials, with h the unseen squared effect.

    Errors of the abilities flatten the curve, so that strong agents would seem favoured. For labels, the contribution
    of the errors is therefore subtracted from the moments of x and x².

    References
    ----------
    Chan & Mak (1985), J. Royal Statistical Society B 47, 510–518 (polynomials in a covariate with errors).
    """
    n_agents, n_trials = len(ability), len(answer)
    sd = float(ability.std())
    x = (ability - ability.mean()) / sd if sd > _TINY else np.zeros(n_agents)
    Z = np.zeros((n_trials, n_agents))
    rows = np.arange(n_trials)
    Z[rows, first] = Z[rows, second] = 1.0

    strength = Z @ x
    fixed = np.column_stack([np.ones(n_trials), strength, Z @ x**2, deviation, deviation * strength])
    design = _project_out(fixed, Z, answer)
    ratio, _ = _fit_variance_ratio(design)
    inverse = np.linalg.inv(np.eye(n_agents) + ratio * design.N)
    plain_score, plain_information = inverse @ design.v, inverse @ design.N

    # labels: the first judge's answer replaces the curve, which is subtracted with its errors
    first_answer = deviation + Z @ ability
    x_variance = np.zeros(n_agents) if ability_variance is None or sd <= _TINY else ability_variance / sd**2
    label_design = _project_out(np.column_stack([np.ones(n_trials), first_answer]), Z, answer)
    score, information, variance = _label_statistics(label_design, x, x_variance, ratio)

    # shifts of single agents
    residual = _residuals(np.column_stack([fixed, Z]), answer)
    noise_ratio = _noise_ratio(residual, Z)
    n_by_agent = np.maximum(Z.sum(axis=0), 1)
    unseen = unseen_effect_square((Z * residual[:, None]).T, n_by_agent)
    shifts = [_agent_shift(design, agent, float(noise_ratio[agent])) for agent in range(n_agents)]
    shift, std_error, df = np.array(shifts).T
    std_error = np.maximum(std_error, np.sqrt(UNSEEN_CLUSTERS * unseen) / n_by_agent)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(np.abs(shift) < _TINY, 0.0, np.abs(shift) / std_error)
    return CurvedRelation(
        score=score,
        information=information,
        variance=variance,
        plain_score=plain_score,
        plain_information=plain_information,
        shift=shift,
        std_error=std_error,
        p_value=2 * student.sf(t, df),
        df=df,
        unseen_effect_square=unseen,
    )


def curve_share(ability: Floats, member: Floats) -> float:
    """Compute how well a curve in ability predicts which agents have a label: the adjusted R² of a parabola.

    A value near 0 means that agents with and without the label have similar abilities. A high value means that the label
    is concentrated in a range of abilities, so that its estimated effect depends on the shape of the curve.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities.
    member : float array (n_agents,)
        1 for agents with the label, else 0.

    Returns
    -------
    float
        R², adjusted for the two coefficients of the parabola; NaN for fewer than 5 agents.

    Examples
    --------
    >>> curve_share(np.arange(6.0), np.array([0.0, 0, 0, 1, 1, 1])) > 0.5
    True
    """
    K = len(ability)
    if K < 5:
        return float("nan")
    x = ability - ability.mean()
    curve = np.column_stack([np.ones(K), x, x**2])
    residual = member - curve @ (np.linalg.pinv(curve) @ member)
    residual_squares = float(residual @ residual)
    total_squares = float(((member - member.mean()) ** 2).sum())
    return 1 - residual_squares / total_squares * (K - 1) / (K - 3)


def _project_out(fixed: Floats, Z: Floats, answer: Floats) -> _AdjustedDesign:
    """Remove what the fixed part of a model explains from the columns of agents and from the answers.

    `fixed` is a float array (n_trials, n_columns), whose columns may be collinear, `Z` (n_trials, n_agents) and `answer`
    (n_trials,).
    """
    left, singular_values, _ = np.linalg.svd(fixed, full_matrices=False)
    basis = left[:, singular_values > _TINY * singular_values[0]]
    Z = Z - basis @ (basis.T @ Z)
    answer = answer - basis @ (basis.T @ answer)
    df = max(len(answer) - basis.shape[1], 1)
    return _AdjustedDesign(Z.T @ Z, Z.T @ answer, float(answer @ answer), df)


def _label_statistics(
    design: _AdjustedDesign, x: Floats, x_variance: Floats, ratio: float
) -> tuple[Floats, Floats, Floats]:
    """Compute score, information and variance of labels after subtracting a parabola in a covariate with errors.

    `x` and `x_variance`, float arrays (n_agents,), are the covariate and the variances of its errors. `ratio` is the
    variance between agents divided by that of a trial. t_m is an unbiased estimate of the m-th power of the true x, so
    that G_ii·(t_m·t_n − t_(m+n)), summed over agents i, is the contribution of the errors to a moment, with G the
    information about the agents' effects. Returns the score, float (n_agents,), and information and variance, float
    (n_agents, n_agents) each.
    """
    eigenvalues, U = np.linalg.eigh(design.N)
    eigenvalues = np.maximum(eigenvalues, 0)
    G = (U * (eigenvalues / (1 + ratio * eigenvalues))) @ U.T
    h = U @ ((U.T @ design.v) / (1 + ratio * eigenvalues))

    t = [np.ones_like(x), x]
    for m in (1, 2, 3):
        t.append(x * t[m] - m * x_variance * t[m - 1])
    curve = np.column_stack(t[1:3])
    errors = np.array([[np.diag(G) @ (t[m] * t[n] - t[m + n]) for n in (1, 2)] for m in (1, 2)])

    # directions in which the curve's moments are uncorrelated, and the share of errors in each
    moments, V = np.linalg.eigh(curve.T @ G @ curve)
    is_determined = moments > _TINY
    V = V[:, is_determined] / np.sqrt(moments[is_determined])
    error_share, rotation = np.linalg.eigh(V.T @ errors @ V)
    V = V @ rotation
    error_share = np.where(error_share > _MAX_ERROR_SHARE, 0.0, error_share.clip(0))
    complement = np.eye(len(x)) - G @ curve @ (V / (1 - error_share)) @ V.T @ curve.T
    return complement @ h, complement @ G, complement @ G @ complement.T


def _residuals(design: Floats, answer: Floats) -> Floats:
    """Compute the residuals of a least-squares fit, float (n_trials,); `design` is float (n_trials, n_columns)."""
    return answer - design @ np.linalg.lstsq(design, answer, rcond=None)[0]


def _noise_ratio(residual: Floats, Z: Floats) -> Floats:
    """Compute the mean squared residual of each agent's trials relative to that of all trials, float (n_agents,).

    Ratios below 1 are raised to 1. `residual` is a float array (n_trials,), and `Z` (n_trials, n_agents) is 1 for the two
    agents of a trial.
    """
    mean_square = float((residual**2).mean())
    if mean_square < _TINY:
        return np.ones(Z.shape[1])
    n_trials = np.maximum(Z.sum(axis=0), 1)
    mean_square_by_agent = (Z.T @ residual**2) / n_trials
    ratio: Floats = np.maximum(mean_square_by_agent / mean_square, 1.0)
    return ratio


def _fit_variance_ratio(design: _AdjustedDesign) -> tuple[float, float]:
    """Estimate the variance between agents by restricted maximum likelihood on a grid.

    Returns τ²/σ², the variance between agents divided by that of a trial, and σ².
    """
    eigenvalues, U = np.linalg.eigh(design.N)
    eigenvalues = np.maximum(eigenvalues, 0)
    explained = (_VARIANCE_RATIOS * (U.T @ design.v) ** 2 / (1 + _VARIANCE_RATIOS * eigenvalues)).sum(axis=1)
    squares = np.maximum(design.squares - explained, 1e-12)
    log_det = np.log1p(_VARIANCE_RATIOS * eigenvalues).sum(axis=1)
    log_likelihood = -0.5 * (design.df * np.log(squares) + log_det)
    best = int(np.argmax(log_likelihood))
    return float(_VARIANCE_RATIOS[best, 0]), float(squares[best]) / design.df


def _agent_shift(design: _AdjustedDesign, agent: int, noise_ratio: float) -> tuple[float, float, float]:
    """Estimate the shift of one agent, its standard error and degrees of freedom; NaN if it is not determined.

    The variance τ² between agents is estimated from all other agents. `noise_ratio` is the noise variance of the agent's
    trials divided by that of all trials.
    """
    N, v = design.N, design.v
    others = np.arange(len(v)) != agent
    n_agent = float(N[agent, agent])
    if n_agent < _TINY:
        return np.nan, np.nan, np.nan
    shared = N[others, agent]
    N_others = N[np.ix_(others, others)]
    without_agent = _AdjustedDesign(
        N=N_others - np.outer(shared, shared) / n_agent,
        v=v[others] - shared * v[agent] / n_agent,
        squares=design.squares - float(v[agent]) ** 2 / n_agent,
        df=max(design.df - 1, 1),
    )
    ratio, variance = _fit_variance_ratio(without_agent)

    # generalized least squares of the fixed effect of the agent, with the others' effects random
    adjustment = ratio * np.linalg.solve(np.eye(len(N_others)) + ratio * N_others, np.column_stack([shared, v[others]]))
    information = n_agent - float(shared @ adjustment[:, 0])
    shift = (float(v[agent]) - float(shared @ adjustment[:, 1])) / information
    std_error = float(np.sqrt(variance * noise_ratio / information + variance * ratio))
    df = min(len(v) - 1, without_agent.df) if ratio > 0 else without_agent.df
    return shift, std_error, float(df)
