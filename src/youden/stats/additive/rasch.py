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
_TINY = 1e-12
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

    Least squares minimises Σ (g(s) − θ_i + b_j)² + ridge·(‖θ‖² + ‖b‖²), with s clipped to the interval of the link.
    Quasi-likelihood maximises Σ [p ln μ + (1 − p) ln(1 − μ)] − ridge/2·(‖θ‖² + ‖b‖²), with p = (s + 1)/2 and
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
        value = observed_scores(scores)
        agent, item = np.nonzero(~np.isnan(value))
        cells = _Cells(agent, item, value[agent, item], shape=(value.shape[0], value.shape[1]), ridge=self.ridge)
        solution, self.n_rounds_ = cells.fit(link.forward(cells.score)), 1
        self.status_, self.message_ = solution.status, solution.message
        if self.method == "quasi":
            solution, self.n_rounds_ = _maximise_quasi_likelihood(cells, link, start=solution)
            if self.n_rounds_ > _MAX_ROUNDS:
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
        """Check link and method, and return the link."""
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
    """Observed cells of a matrix of the shape `shape`; agent, item, score : arrays (n_cells,)."""

    agent: Positions
    item: Positions
    score: Floats
    shape: tuple[int, int]
    ridge: float

    def fit(self, value: Floats, weight: Floats | None = None) -> Solution:
        """Fit the additive model without constraint; value, on the scale of the link, and weight : float (n_cells,)."""
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


def _maximise_quasi_likelihood(cells: _Cells, link: Link, *, start: Solution) -> tuple[Solution, int]:
    """Maximise the quasi-likelihood by Fisher scoring with step halving, from the least-squares fit.

    Returns the solution and the number of rounds; _MAX_ROUNDS + 1 if it did not converge.
    """
    p = (cells.score + 1) / 2

    def predictor(fit: Solution) -> Floats:
        return np.asarray(fit.ability[cells.agent] - fit.difficulty[cells.item])

    def objective(eta: Floats, penalty: float) -> float:
        s = link.inverse(eta)
        return float((xlogy(p, (1 + s) / 2) + xlogy(1 - p, (1 - s) / 2)).sum()) - cells.ridge / 2 * penalty

    fit, eta = start, predictor(start)
    current = objective(eta, _squared_norm(fit))
    for n_rounds in range(1, _MAX_ROUNDS + 1):
        s, slope = link.inverse(eta), link.inverse_slope(eta)
        variance = np.maximum(1 - s**2, _TINY)
        target = cells.fit(eta + (cells.score - s) / np.maximum(slope, _TINY), slope**2 / variance)

        step = 1.0
        for _ in range(_MAX_HALVINGS):
            trial = _interpolate(fit, target, step)
            if (value := objective(predictor(trial), _squared_norm(trial))) >= current:
                break
            step /= 2
        else:
            return fit, n_rounds
        change = float(np.abs(predictor(trial) - eta).max())
        fit, eta, current = trial, predictor(trial), value
        if change < _TOLERANCE:
            return fit, n_rounds
    return fit, _MAX_ROUNDS + 1


def _interpolate(start: Solution, end: Solution, step: float) -> Solution:
    return replace(
        end,
        ability=start.ability + step * (end.ability - start.ability),
        difficulty=start.difficulty + step * (end.difficulty - start.difficulty),
    )


def _squared_norm(fit: Solution) -> float:
    return float(np.nansum(fit.ability**2) + np.nansum(fit.difficulty**2))
