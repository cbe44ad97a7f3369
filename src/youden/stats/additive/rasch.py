"""Rasch models of scores: ability − difficulty on a curved scale, by least squares there or by quasi-likelihood.

`curl_quantiles(model.predict())` says how far the scale bends the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from youden.errors import StatisticsError
from youden.stats.additive.solver import Solution, solve_additive
from youden.stats.base.estimator import Estimator, not_fitted, observed_scores
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
    """Scores that are additive after a link: g(s_ij) ≈ θ_i − b_j, predicted as g⁻¹(θ_i − b_j).

    method `least-squares`: min Σ (g(s) − θ_i + b_j)² + ridge·(‖θ‖² + ‖b‖²), s clipped to the link's interval.
    method `quasi`: max Σ p ln μ + (1−p) ln(1−μ) − ridge/2·(‖θ‖² + ‖b‖²), p = (s+1)/2, μ = (g⁻¹(θ_i − b_j) + 1)/2; the scores
    need no clip, and a saturated one pulls with finite force. Σ b = 0 over the items seen in both.

    link: a name in `LINKS`. ridge: positive. Every cell counts alike, whatever its number of trials.

    Learned: ability_: float[K]; difficulty_: float[J], on the link's scale, NaN for an agent or item without a cell;
    status_: `ok`, `disconnected` as in `Solution`, `not_converged` where quasi-likelihood ran out of rounds; message_: what
    to try then; n_rounds_: scoring steps, 1 for least squares.

    Source: the paper's Rasch baselines (least squares); quasi-likelihood: Papke and Wooldridge (1996), J. Appl. Econometrics 11.
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
        """Fit to scores float[K, J] in [−1, 1]; NaN is unseen.

        Raises: StatisticsError [unknown-link], [rasch-method], [ridge], and those of `observed_scores`.
        """
        link = self._checked_link()
        value = observed_scores(scores)
        agent, item = np.nonzero(~np.isnan(value))
        cells = _Cells(agent, item, value[agent, item], shape=(value.shape[0], value.shape[1]), ridge=self.ridge)
        solution, self.n_rounds_ = cells.solve(link.forward(cells.score)), 1
        self.status_, self.message_ = solution.status, solution.message
        if self.method == "quasi":
            solution, self.n_rounds_ = _quasi(cells, link, start=solution)
            if self.n_rounds_ > _MAX_ROUNDS:
                self.status_ = "not_converged"
                self.message_ = f"Quasi-likelihood still moved after {_MAX_ROUNDS} rounds. Raise the ridge."
        self.ability_, self.difficulty_ = solution.ability, solution.difficulty
        self.link_ = link
        return self

    def predict(self) -> Floats:
        """g⁻¹(θ_i − b_j) for every cell: float[K, J] in [−1, 1], NaN for agents and items never seen.

        Raises: StatisticsError [not-fitted].
        """
        if not hasattr(self, "ability_"):
            raise not_fitted(self)
        return np.clip(self.link_.inverse(self.ability_[:, None] - self.difficulty_), -1, 1)

    def _checked_link(self) -> Link:
        if self.link not in LINKS:
            raise StatisticsError(
                f"There is no link '{self.link}'. Give one of {', '.join(LINKS)}.", slug="unknown-link"
            )
        if self.method not in ("least-squares", "quasi"):
            raise StatisticsError(
                f"There is no method '{self.method}'. Give least-squares or quasi.", slug="rasch-method"
            )
        if self.method == "quasi" and self.link == "identity":
            raise StatisticsError(
                "Quasi-likelihood needs a link that keeps the mean inside [−1, 1]; 'identity' arrived. "
                "Give probit or logit, or the method least-squares.",
                slug="rasch-method",
            )
        return LINKS[self.link]


@dataclass(frozen=True, eq=False)
class _Cells:
    agent: Positions
    item: Positions
    score: Floats
    shape: tuple[int, int]
    ridge: float

    def solve(self, value: Floats, weight: Floats | None = None) -> Solution:
        """The additive fit of values on the link's scale, which nothing bounds."""
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


def _quasi(cells: _Cells, link: Link, *, start: Solution) -> tuple[Solution, int]:
    """Fisher scoring with halved steps from the least-squares fit; _MAX_ROUNDS + 1 rounds mean it did not settle."""
    p = (cells.score + 1) / 2

    def linear(fit: Solution) -> Floats:
        return np.asarray(fit.ability[cells.agent] - fit.difficulty[cells.item])

    def gain(eta: Floats, penalty: float) -> float:
        s = link.inverse(eta)
        return float((xlogy(p, (1 + s) / 2) + xlogy(1 - p, (1 - s) / 2)).sum()) - cells.ridge / 2 * penalty

    fit, eta = start, linear(start)
    reached = gain(eta, _square(fit))
    for round_ in range(1, _MAX_ROUNDS + 1):
        s, slope = link.inverse(eta), link.inverse_slope(eta)
        variance = np.maximum(1 - s**2, _TINY)
        step = cells.solve(eta + (cells.score - s) / np.maximum(slope, _TINY), slope**2 / variance)
        share = 1.0
        for _ in range(_MAX_HALVINGS):
            trial = _between(fit, step, share)
            if (now := gain(linear(trial), _square(trial))) >= reached:
                break
            share /= 2
        else:
            return fit, round_
        moved = float(np.abs(linear(trial) - eta).max())
        fit, eta, reached = trial, linear(trial), now
        if moved < _TOLERANCE:
            return fit, round_
    return fit, _MAX_ROUNDS + 1


def _between(one: Solution, other: Solution, share: float) -> Solution:
    return replace(
        other,
        ability=one.ability + share * (other.ability - one.ability),
        difficulty=one.difficulty + share * (other.difficulty - one.difficulty),
    )


def _square(fit: Solution) -> float:
    return float(np.nansum(fit.ability**2) + np.nansum(fit.difficulty**2))
