"""Knows four ways to say how sure the abilities of the additive model are, behind one entry; refuses to know their ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from youden.errors import StatisticsError
from youden.nouns import Scores
from youden.nouns.arrays import Bools, Floats, Ids, freeze
from youden.stats.additive.refits import Reweight, refit_abilities
from youden.stats.additive.sandwich import hc2_covariance
from youden.stats.additive.solver import agent_components
from youden.stats.base.estimator import observed_scores
from youden.stats.base.validation import check_level, check_weight_matrix
from youden.stats.curl.additivity import additive_effects, additive_residuals

IntervalMethod = Literal["hc2", "multinomial", "items", "jackknife"]
_METHODS: tuple[IntervalMethod, ...] = get_args(IntervalMethod)

_FEWEST_DRAWS = 20


@dataclass(frozen=True, eq=False)
class Intervals:
    """Abilities with intervals for θ_i − θ̄ (what a ranking needs), put around θ_i.

    ability: float[K], least squares, in the scores' unit, NaN without a cell. low, high: float[K], NaN where nothing says how
    sure an ability is: an agent seen once, one that a single cell links to the rest, an agent alone. θ̄ is the mean over the
    agents that have an interval. covariance: float[K, K], of the θ_i − θ̄; NaN likewise and across components.
    n_draws: refits used, 0 where there are none; n_apart: refits left out because their agents fell apart.
    """

    ability: Floats
    low: Floats
    high: Floats
    level: float
    method: IntervalMethod
    covariance: Floats
    n_draws: int
    n_apart: int

    def __post_init__(self) -> None:
        freeze([self.ability, self.low, self.high, self.covariance])


def intervals(
    scores: Scores | ArrayLike,
    *,
    method: IntervalMethod = "hc2",
    level: float = 0.95,
    rng: np.random.Generator | None = None,
    n_draws: int = 500,
) -> Intervals:
    """Intervals of abilities at `level`, from the least-squares fit s_ij ≈ θ_i − b_j, b centred over the items seen.

    hc2: normal quantile, sandwich with e²/(1−h); cells independent, of any spread; needs no draws.
    multinomial (the paper): percentiles over refits to cells drawn with replacement. items: the same with whole items drawn,
    for cells that depend within an item. jackknife: one item left out at a time, normal quantile.

    scores: float[K, J] in [−1, 1], NaN unseen, or Scores, whose cells weigh by their trials over the mean. rng: needed by the
    two bootstraps, which make `n_draws` refits; unused otherwise.

    Raises: StatisticsError [interval-method], [interval-draws], [level], [intervals-disconnected] where a method
    of refits meets agents without a chain of cells between them, [intervals-none] where no agent has an interval,
    [bootstrap-thin] where agents fall apart in half of the refits or more, and those of `observed_scores`.
    Source: the paper's sampling protocol (multinomial, 500 draws); project statistics for the rest.
    """
    check_level(level)
    if method not in _METHODS:
        raise StatisticsError(
            f"There is no method '{method}'. Give one of {', '.join(_METHODS)}.", slug="interval-method"
        )
    value = observed_scores(scores)
    observed = ~np.isnan(value)
    value, weight = np.where(observed, value, 0.0), _weight(scores, observed)
    component = agent_components(*np.nonzero(observed), n_agents=value.shape[0], n_items=value.shape[1])
    theta, _ = additive_effects(value, weight)
    ability = np.where(component >= 0, theta, np.nan)
    covariance = hc2_covariance(weight, additive_residuals(value, weight), component=component)
    if method == "hc2":
        return _normal(ability, covariance, level=level, method=method)
    sure = ~np.isnan(np.diag(covariance))
    _check_refits(component[sure], n_components=int(component.max()) + 1)
    kept = (weight[sure] > 0).any(axis=0)
    value, weight = value[np.ix_(sure, kept)], weight[np.ix_(sure, kept)]
    covariance = np.full_like(covariance, np.nan)
    if method == "jackknife":
        draws, n_apart = _refits(value, _leave_one_item_out(weight), n_draws=weight.shape[1])
        moved = draws - draws.mean(axis=0)
        covariance[np.ix_(sure, sure)] = (len(draws) - 1) / len(draws) * moved.T @ moved
        return _normal(ability, covariance, level=level, method=method, n_draws=len(draws), n_apart=n_apart)
    if rng is None or n_draws < _FEWEST_DRAWS:
        raise StatisticsError(
            f"The method {method} draws at random, but {n_draws} draws {'without' if rng is None else 'with'} an rng arrived. "
            f"Give rng=np.random.default_rng(seed) and at least {_FEWEST_DRAWS} draws.",
            slug="interval-draws",
        )
    resample = _resample_cells if method == "multinomial" else _resample_items
    draws, n_apart = _refits(value, resample(weight, rng), n_draws=n_draws)
    covariance[np.ix_(sure, sure)] = np.cov(draws.T)
    low, high = np.full_like(ability, np.nan), np.full_like(ability, np.nan)
    tail = (1 - level) / 2
    low[sure], high[sure] = ability[sure].mean() + np.quantile(draws, [tail, 1 - tail], axis=0)
    return Intervals(ability, low, high, level, method, covariance, len(draws), n_apart)


def _normal(
    ability: Floats, covariance: Floats, *, level: float, method: IntervalMethod, n_draws: int = 0, n_apart: int = 0
) -> Intervals:
    half = float(ndtri((1 + level) / 2)) * np.sqrt(np.maximum(np.diag(covariance), 0))
    return Intervals(ability, ability - half, ability + half, level, method, covariance, n_draws, n_apart)


def _weight(scores: Scores | ArrayLike, observed: Bools) -> Floats:
    """Weights of mean 1 over the observed cells, 0 elsewhere."""
    if not isinstance(scores, Scores):
        return observed.astype(np.float64)
    weight = np.where(observed, check_weight_matrix(scores.weight, shape=observed.shape), 0.0)
    return np.asarray(weight * (observed.sum() / weight.sum()))


def _check_refits(component: Ids, *, n_components: int) -> None:
    if not component.size:
        raise StatisticsError(
            "No agent's cells say how sure its ability is: each is seen once or hangs on a single cell. Score more cells.",
            slug="intervals-none",
        )
    if len(np.unique(component)) > 1:
        raise StatisticsError(
            f"The cells fall into {n_components} components that share no agent and no item, and refits compare within one. "
            "Take the method hc2, or score cells that join them.",
            slug="intervals-disconnected",
        )


def _refits(value: Floats, reweight: Reweight, *, n_draws: int) -> tuple[Floats, int]:
    """Centred abilities of the refits whose agents hang together, and how many do not."""
    draws = refit_abilities(value, reweight, n_draws=n_draws)
    draws = draws[~np.isnan(draws[:, 0])]
    n_apart = n_draws - len(draws)
    if 2 * n_apart >= n_draws or len(draws) < 2:
        raise StatisticsError(
            f"In {n_apart} of {n_draws} refits some agents share no chain of cells with others. "
            "Score more cells, or take the method hc2.",
            slug="bootstrap-thin",
        )
    return draws, n_apart


def _resample_cells(weight: Floats, rng: np.random.Generator) -> Reweight:
    cells = np.flatnonzero(weight)

    def reweight(start: int, stop: int) -> Floats:
        n = stop - start
        place = cells[rng.integers(0, len(cells), (n, len(cells)))] + weight.size * np.arange(n)[:, None]
        times = np.bincount(place.ravel(), minlength=n * weight.size)
        return np.asarray(times.reshape(n, *weight.shape) * weight)

    return reweight


def _resample_items(weight: Floats, rng: np.random.Generator) -> Reweight:
    n_items = weight.shape[1]

    def reweight(start: int, stop: int) -> Floats:
        times = rng.multinomial(n_items, np.full(n_items, 1 / n_items), stop - start)
        return np.asarray(times[:, None, :] * weight)

    return reweight


def _leave_one_item_out(weight: Floats) -> Reweight:
    def reweight(start: int, stop: int) -> Floats:
        kept = np.arange(weight.shape[1]) != np.arange(start, stop)[:, None]
        return np.asarray(kept[:, None, :] * weight)

    return reweight
