"""Fit Rasch models of scores, additive on a probit or logit scale, by least squares or by quasi-likelihood.

`curl_quantiles(model.predict())` measures how far the link makes the predictions non-additive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from youden.errors import StatisticsError
from youden.stats.additive.solver import Solution, solve_additive
from youden.stats.base.estimator import Estimator, not_fitted_error, observed_scores
from youden.stats.base.links import LINKS, Link
from youden.types import Scores
from youden.types.pool import Floats, Positions

RaschMethod = Literal["least-squares", "quasi"]
RaschStatus = Literal["ok", "disconnected", "not_converged"]

_TOLERANCE = 1e-8
"""Scoring stops if no prediction changes by this much on the scale of the link."""
_TINY = 1e-12
"""Smallest slope and variance, which avoids division by 0."""
_MAX_ROUNDS = 100
_MAX_HALVINGS = 40


class Rasch(Estimator):
    """Rasch model of scores, additive on the scale of a link.

    The link g is applied to scores, g(s_ij) ≈ θ_i − b_j, and predictions are g⁻¹(θ_i − b_j).

    Parameters
    ----------
    link : {"logit", "probit", "identity"}, default "logit"
        Name of the link g, a key of `LINKS`. "identity" is possible with least squares only.
    method : {"least-squares", "quasi"}, default "least-squares"
        Least squares on the scale of the link, or quasi-likelihood.
    ridge : float, default 1e-6
        Positive ridge penalty.

    Attributes
    ----------
    ability_ : float array (n_agents,)
        Abilities on the scale of the link; NaN for an agent without a cell.
    difficulty_ : float array (n_items,)
        Difficulties on the scale of the link; NaN for an item without a cell. They sum to 0.
    link_ : Link
        The link that was fitted.
    status_ : {"ok", "disconnected", "not_converged"}
        "disconnected": abilities of different components cannot be compared. "not_converged": quasi-likelihood did not
        converge in 100 steps, or the equations were not solved.
    message_ : str
        Advice if the status is not "ok", else empty.
    n_rounds_ : int
        Number of scoring steps; 1 for least squares.

    Notes
    -----
    All cells have the same weight, whatever their numbers of trials, and Σ b = 0 over the observed items.

    Least squares minimizes Σ (g(s) − θ_i + b_j)² + ridge·(‖θ‖² + ‖b‖²), with s clipped to the interval of the link.
    Quasi-likelihood maximizes Σ [p ln μ + (1 − p) ln(1 − μ)] − ridge/2·(‖θ‖² + ‖b‖²), with p = (s + 1)/2 and
    μ = (g⁻¹(θ_i − b_j) + 1)/2. It needs no clipping: a score of ±1 has a finite influence.

    References
    ----------
    Papke & Wooldridge (1996), J. Applied Econometrics 11, 619–632 (quasi-likelihood).
    """

    link_: Link
    ability_: Floats
    difficulty_: Floats
    status_: RaschStatus
    message_: str
    n_rounds_: int

    def __init__(self, *, link: str = "logit", method: RaschMethod = "least-squares", ridge: float = 1e-6) -> None:
        self.link = link
        self.method = method
        self.ridge = ridge

    def fit(self, scores: Scores | ArrayLike) -> Self:
        """Fit abilities and difficulties to observed scores.

        Parameters
        ----------
        scores : Scores or array_like (n_agents, n_items)
            Scores in [−1, 1]; NaN is unobserved.

        Returns
        -------
        Rasch
            The estimator itself.

        Raises
        ------
        StatisticsError
            [unknown-link], [rasch-method], [ridge]: if a parameter is invalid; [scores-empty], [scores-holdout],
            [scores-numeric], [scores-shape], [scores-infinite], [scores-range]: if the scores cannot be fitted.
        """
        link = self._check_parameters()
        cells = _Cells.from_matrix(observed_scores(scores), ridge=self.ridge)
        solution = cells.fit(link.forward(cells.score))
        self.n_rounds_ = 1
        self.status_, self.message_ = solution.status, solution.message

        if self.method == "quasi":
            solution, self.n_rounds_ = _maximize_quasi_likelihood(cells, link, start=solution)
            has_converged = self.n_rounds_ <= _MAX_ROUNDS
            if not has_converged:
                self.status_ = "not_converged"
                self.message_ = f"Quasi-likelihood did not converge in {_MAX_ROUNDS} rounds. Set a larger ridge."

        self.ability_, self.difficulty_ = solution.ability, solution.difficulty
        self.link_ = link
        return self

    def predict(self) -> Floats:
        """Predict the scores of all cells.

        Returns
        -------
        float array (n_agents, n_items)
            g⁻¹(θ_i − b_j), in [−1, 1]; NaN for agents and items that were not observed.

        Raises
        ------
        StatisticsError
            [not-fitted]: if `fit` was not called.
        """
        if not hasattr(self, "ability_"):
            raise not_fitted_error(self)
        return np.clip(self.link_.inverse(self.ability_[:, None] - self.difficulty_), -1, 1)

    def _check_parameters(self) -> Link:
        """Check the link and the method, and return the link function.

        Raises StatisticsError [unknown-link] or [rasch-method] if one of them is invalid.
        """
        if self.link not in LINKS:
            raise StatisticsError(
                f"The link is unknown: got '{self.link}'. Set one of: {', '.join(LINKS)}.", slug="unknown-link"
            )
        if self.method not in ("least-squares", "quasi"):
            raise StatisticsError(
                f"The method is unknown: got '{self.method}'. Set least-squares or quasi.", slug="rasch-method"
            )
        if self.method == "quasi" and self.link == "identity":
            raise StatisticsError(
                "Quasi-likelihood needs a link that keeps the mean in [−1, 1]: got 'identity'. "
                "Set the link probit or logit, or the method least-squares.",
                slug="rasch-method",
            )
        return LINKS[self.link]


@dataclass(frozen=True, eq=False)
class _Cells:
    """Observed cells of a matrix.

    Attributes
    ----------
    agent, item : int array (n_cells,)
        Positions of agent and item.
    score : float array (n_cells,)
        Score of each cell.
    shape : tuple of (int, int)
        Numbers of agents and of items.
    ridge : float
        Ridge penalty of the fits.
    """

    agent: Positions
    item: Positions
    score: Floats
    shape: tuple[int, int]
    ridge: float

    @classmethod
    def from_matrix(cls, score: Floats, *, ridge: float) -> Self:
        """Select the observed cells of a matrix of scores, float array (n_agents, n_items), NaN for an unobserved cell.

        ridge : ridge penalty of the fits
        """
        n_agents, n_items = score.shape
        agent, item = np.nonzero(~np.isnan(score))
        return cls(agent, item, score[agent, item], shape=(n_agents, n_items), ridge=ridge)

    def fit(self, value: Floats, weight: Floats | None = None) -> Solution:
        """Fit value ≈ ability − difficulty by least squares, with difficulties that sum to 0.

        value : float array (n_cells,), finite values on the scale of the link, in the order of the cells of this object
        weight : float array (n_cells,), weights of the cells, at least 0; None for 1

        Returns the abilities (n_agents,) and difficulties (n_items,) on the scale of the link, NaN without a cell. `status` is
        "ok", "disconnected" or "not_converged".

        Raises StatisticsError [scores-infinite] if a value is infinite or NaN, [scores-empty] if no cell has a positive weight,
        [weights-negative] if a weight is negative, infinite or NaN, [weights-scale] if the ridge outweighs all cells of an agent
        or item, [ridge] if the ridge is not positive, and [additive-singular] if the system is singular.
        """
        n_agents, n_items = self.shape
        return solve_additive(
            self.agent,
            self.item,
            value,
            n_agents=n_agents,
            n_items=n_items,
            weight=weight,
            ridge=self.ridge,
            constraint="none",
        )

    def predict(self, fit: Solution) -> Floats:
        """Predict the values of the cells on the scale of the link: float array (n_cells,)."""
        return np.asarray(fit.ability[self.agent] - fit.difficulty[self.item])


def _fit_linearized_scores(cells: _Cells, link: Link, eta: Floats) -> Solution:
    """Fit the model to linearized scores by weighted least squares: one step of Fisher scoring.

    A linearized score is a score on the scale of the link function: prediction + residual / slope of the inverse link. Its
    weight is 1/variance.

    cells : observed cells with their scores
    link : link function, which transforms scores to the scale of the effects
    eta : float array (n_cells,), predictions on the scale of the link
    """
    predicted_score = link.inverse(eta)
    slope = link.inverse_slope(eta)
    variance = np.maximum(1 - predicted_score**2, _TINY)
    linearized_score = eta + (cells.score - predicted_score) / np.maximum(slope, _TINY)
    weight = slope**2 / variance
    return cells.fit(linearized_score, weight)


def _maximize_quasi_likelihood(cells: _Cells, link: Link, *, start: Solution) -> tuple[Solution, int]:
    """Maximize the quasi-likelihood by Fisher scoring, and halve steps that would lower it.

    start : least-squares fit

    Returns the best fit found, and the number of scoring steps, which is `_MAX_ROUNDS` + 1 if the fit did not converge.
    """
    fit = start
    eta = cells.predict(fit)  # predictions on the scale of the link
    for n_rounds in range(1, _MAX_ROUNDS + 1):
        target = _fit_linearized_scores(cells, link, eta)
        better_fit = _find_better_fit(cells, link, fit, target)
        if better_fit is None:
            return fit, n_rounds

        fit = better_fit
        previous_eta, eta = eta, cells.predict(fit)
        max_change = np.abs(eta - previous_eta).max()
        if max_change < _TOLERANCE:
            return fit, n_rounds
    return fit, _MAX_ROUNDS + 1


def _find_better_fit(cells: _Cells, link: Link, fit: Solution, target: Solution) -> Solution | None:
    """Find a fit between the current fit and a target, without lowering the penalized quasi-likelihood.

    The target itself is tried first. The step from the current fit is then halved up to `_MAX_HALVINGS` − 1 times.

    cells : observed cells with their scores
    link : link function, which transforms scores to the scale of the effects
    fit, target : current fit, and the fit that a full scoring step leads to

    Returns None if every step lowers the quasi-likelihood.
    """
    objective = _penalized_likelihood(cells, link, fit)
    for n_halvings in range(_MAX_HALVINGS):
        trial = _interpolate_solutions(fit, target, step=0.5**n_halvings)
        if _penalized_likelihood(cells, link, trial) >= objective:
            return trial
    return None


def _penalized_likelihood(cells: _Cells, link: Link, fit: Solution) -> float:
    """Compute the quasi-likelihood Σ [p ln μ + (1 − p) ln(1 − μ)] of a fit, minus its ridge penalty."""
    p = (cells.score + 1) / 2
    s = link.inverse(cells.predict(fit))
    likelihood = float((xlogy(p, (1 + s) / 2) + xlogy(1 - p, (1 - s) / 2)).sum())
    squared_norm = float(np.nansum(fit.ability**2) + np.nansum(fit.difficulty**2))
    return likelihood - cells.ridge / 2 * squared_norm


def _interpolate_solutions(start: Solution, end: Solution, step: float) -> Solution:
    """Return the solution at `start` + `step` · (`end` − `start`), with the diagnostics of `end`."""
    return replace(
        end,
        ability=start.ability + step * (end.ability - start.ability),
        difficulty=start.difficulty + step * (end.difficulty - start.difficulty),
    )
