"""The models that clipped-linear is compared with, by name, each tuned fairly and as the paper set it.

A name loads a function without arguments that makes an unfitted estimator with `fit(scores)`, `predict()` and
`ability_`. Another package adds one by the entry-point group `youden.baselines`. The nuclear norm does not centre
scores: additive effects are left in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from youden.errors import StatisticsError
from youden.registry import Registry
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.rasch import Rasch
from youden.stats.base.estimator import Estimator, not_fitted, observed_scores
from youden.streams import own_stream
from youden.types import Scores
from youden.types.pool import Bools, Codes, Floats, freeze


def draw_folds(observed: Bools, *, n_folds: int, seed: int) -> Codes:
    """A fold for every observed cell, int8[K, J] in 0 … n_folds − 1, sizes equal to within one; −1 where unseen."""
    fold = np.full(observed.shape, -1, dtype=np.int8)
    n_cells = int(observed.sum())
    fold[observed] = own_stream(seed).permutation(n_cells) % n_folds
    return fold


class MatrixCompletion(Estimator, ABC):
    """A matrix filled in from its observed cells, all counted alike.

    Learned: prediction_: float[K, J] in [−1, 1], NaN for agents and items without a cell; ability_: float[K], its mean over
    items, as the paper ranks agents; NaN without a cell.
    """

    prediction_: Floats
    ability_: Floats

    def fit(self, scores: Scores | ArrayLike) -> Self:
        """Fit to scores float[K, J] in [−1, 1]; NaN is unseen.

        Raises: StatisticsError as `observed_scores`, and [baseline-parameter].
        """
        self._check_parameters()
        value = observed_scores(scores)
        observed = ~np.isnan(value)
        agents, items = observed.any(axis=1), observed.any(axis=0)
        seen = np.ix_(agents, items)
        self.prediction_ = np.full(value.shape, np.nan)
        self.prediction_[seen] = np.clip(self._complete(np.nan_to_num(value[seen]), observed[seen]), -1, 1)
        self.ability_ = np.full(len(value), np.nan)
        self.ability_[agents] = self.prediction_[seen].mean(axis=1)
        freeze([self.prediction_, self.ability_])
        return self

    def predict(self) -> Floats:
        """The completed matrix: float[K, J] in [−1, 1], NaN for agents and items never seen.

        Raises: StatisticsError [not-fitted].
        """
        if not hasattr(self, "prediction_"):
            raise not_fitted(self)
        return self.prediction_.copy()

    @abstractmethod
    def _check_parameters(self) -> None: ...

    @abstractmethod
    def _complete(self, value: Floats, observed: Bools) -> Floats:
        """float[K, J] from scores (0 where unseen) and which are observed: at least one in each row and column."""


def _check_at_least(least: float, **parameters: float) -> None:
    """Raises: StatisticsError [baseline-parameter] naming the first parameter that is below `least` or not finite."""
    for name, value in parameters.items():
        if not least <= value < np.inf:
            raise StatisticsError(
                f"The baseline's {name} is {value}. Give a number from {least} up.", slug="baseline-parameter"
            )


class IsotonicOnTop(MatrixCompletion):
    """ŝ = f(clip(θ_i − b_j)), f the monotone least-squares curve of scores on out-of-fold predictions.

    Each of `n_folds` parts of the observed cells is predicted by a model refitted on the others; f is fitted on all of these,
    straight between its points and constant beyond them, and applied to the model of all cells. A cell whose agent or item
    no other fold holds has no such prediction and stays out of f.

    Source: the paper's 'identity + isotonic', which does not say that it refits; fitted in-sample, f flatters itself.
    """

    def __init__(self, *, n_folds: int = 5, ridge: float = 1e-6, seed: int = 0) -> None:
        self.n_folds = n_folds
        self.ridge = ridge
        self.seed = seed

    def _check_parameters(self) -> None:
        _check_at_least(2, n_folds=self.n_folds)

    def _complete(self, value: Floats, observed: Bools) -> Floats:
        scores = np.where(observed, value, np.nan)
        fold = draw_folds(observed, n_folds=self.n_folds, seed=self.seed)
        out_of_fold = np.full(value.shape, np.nan)
        for number in range(min(self.n_folds, int(fold.max()) + 1)):
            out = fold == number
            if (observed & ~out).any():
                out_of_fold[out] = self._predicted(np.where(out, np.nan, scores))[out]
        usable = ~np.isnan(out_of_fold)
        if not usable.any():
            raise StatisticsError(
                f"No cell can be predicted from the others ({int(observed.sum())} seen). Score more cells.",
                slug="isotonic-folds",
            )
        x, place = np.unique(out_of_fold[usable], return_inverse=True)
        n = np.bincount(place)
        curve = isotonic_regression(np.bincount(place, value[usable]) / n, weights=n).x
        return np.asarray(np.interp(self._predicted(scores), x, curve))

    def _predicted(self, scores: Floats) -> Floats:
        return ClippedLinear(ridge=self.ridge).fit(scores).predict()


def rasch_probit() -> Rasch:
    """Least squares on the probit scale: the paper's."""
    return Rasch(link="probit")


def rasch_logit() -> Rasch:
    """Least squares on the logit scale: the paper's."""
    return Rasch(link="logit")


def rasch_probit_quasi() -> Rasch:
    """Quasi-likelihood with a probit mean: no clip, errors counted on the scores' scale."""
    return Rasch(link="probit", method="quasi")


def rasch_logit_quasi() -> Rasch:
    """Quasi-likelihood with a logistic mean: no clip, errors counted on the scores' scale."""
    return Rasch(link="logit", method="quasi")


GRID = (2.0, 1.0, 0.5, 0.25, 0.125)
"""Penalties tried, in the scores' unit; from large to small, each starting where the one before it ended."""

_TOLERANCE = 1e-5


class NuclearNorm(MatrixCompletion):
    """min ½ Σ (s − x)² over observed cells + penalty·‖X‖_*, by soft-impute: fill in, shrink singular values, repeat.

    penalty: in the scores' unit, at least 0; None takes the one of `GRID` whose error over `n_folds` held-out fifths of the
    observed cells is smallest. Learned besides: penalty_, the one used.
    max_rounds: fill-ins at most; it ends earlier when the change is below 1e-5 of the matrix's norm.

    Source: the paper's nuclear-norm baseline (penalty 1); Mazumder, Hastie and Tibshirani (2010), JMLR 11.
    """

    penalty_: float

    def __init__(self, *, penalty: float | None = None, max_rounds: int = 300, n_folds: int = 5, seed: int = 0) -> None:
        self.penalty = penalty
        self.max_rounds = max_rounds
        self.n_folds = n_folds
        self.seed = seed

    def _check_parameters(self) -> None:
        _check_at_least(1, max_rounds=self.max_rounds)
        _check_at_least(2, n_folds=self.n_folds)
        if self.penalty is not None:
            _check_at_least(0, penalty=self.penalty)

    def _complete(self, value: Floats, observed: Bools) -> Floats:
        if value.shape[0] > value.shape[1]:
            return self._complete(value.T, observed.T).T
        self.penalty_ = self._chosen(value, observed) if self.penalty is None else self.penalty
        return self._impute(value, observed, penalty=self.penalty_, start=np.zeros_like(value))

    def _chosen(self, value: Floats, observed: Bools) -> float:
        fold = draw_folds(observed, n_folds=self.n_folds, seed=self.seed)
        error = np.zeros(len(GRID))
        for number in range(self.n_folds):
            out = fold == number
            x = np.zeros_like(value)
            for place, penalty in enumerate(GRID):
                x = self._impute(value, observed & ~out, penalty=penalty, start=x)
                error[place] += ((x - value)[out] ** 2).sum()
        return GRID[int(error.argmin())]

    def _impute(self, value: Floats, observed: Bools, *, penalty: float, start: Floats) -> Floats:
        x = start
        for _ in range(self.max_rounds):
            filled = np.where(observed, value, x)
            squared, u = np.linalg.eigh(filled @ filled.T)
            s = np.sqrt(np.maximum(squared, 0))
            kept = s > penalty
            u, shrink = u[:, kept], 1 - penalty / s[kept]
            x, before = (u * shrink) @ (u.T @ filled), x
            if np.linalg.norm(x - before) <= _TOLERANCE * np.linalg.norm(x):
                break
        return np.asarray(x)


def paper_nuclear_norm() -> NuclearNorm:
    """The setting that reproduces the paper's figure: penalty 1."""
    return NuclearNorm(penalty=1.0)


class ImputedSVD(MatrixCompletion):
    """The best rank-`rank` approximation of the scores with gaps filled by means.

    fill `agent`: the mean of the agent's observed scores, a fair prior where items differ little; `global`: the mean of all.
    rank: at least 1.

    Source: the paper's SVD baseline, which is `global` at rank 5.
    """

    def __init__(self, *, rank: int = 1, fill: Literal["agent", "global"] = "agent") -> None:
        self.rank = rank
        self.fill = fill

    def _check_parameters(self) -> None:
        _check_at_least(1, rank=self.rank)
        if self.fill not in ("agent", "global"):
            raise StatisticsError(f"There is no fill '{self.fill}'. Give agent or global.", slug="baseline-parameter")

    def _complete(self, value: Floats, observed: Bools) -> Floats:
        if self.fill == "agent":
            mean = (value.sum(axis=1) / observed.sum(axis=1))[:, None]
        else:
            mean = np.full((1, 1), value.sum() / observed.sum())
        u, s, vt = np.linalg.svd(np.where(observed, value, mean), full_matrices=False)
        return np.asarray((u[:, : self.rank] * s[: self.rank]) @ vt[: self.rank])


def paper_svd() -> ImputedSVD:
    """The paper's setting: global mean, rank 5, one shot."""
    return ImputedSVD(rank=5, fill="global")


_START = 0.1


class UVFactorisation(MatrixCompletion):
    """s_ij ≈ u_i·v_j: min Σ (s − u_i·v_j)² + ridge·(‖U‖² + ‖V‖²) over observed cells, by `n_sweeps` alternations.

    rank: at least 1; with more it fits noise faster than signal at a third of the cells, the more the longer it runs.
    ridge: positive. V starts normal with standard deviation .1 from `seed`; U is solved for first.

    Source: the paper's UV baseline, which is rank 3 at ridge .01.
    """

    def __init__(self, *, rank: int = 1, ridge: float = 0.01, n_sweeps: int = 20, seed: int = 0) -> None:
        self.rank = rank
        self.ridge = ridge
        self.n_sweeps = n_sweeps
        self.seed = seed

    def _check_parameters(self) -> None:
        _check_at_least(1, rank=self.rank, n_sweeps=self.n_sweeps)
        _check_at_least(1e-12, ridge=self.ridge)

    def _complete(self, value: Floats, observed: Bools) -> Floats:
        v = own_stream(self.seed).normal(0, _START, (value.shape[1], self.rank))
        weight = observed.astype(np.float64)
        for _ in range(self.n_sweeps):
            u = self._regress(value, weight, v)
            v = self._regress(value.T, weight.T, u)
        return np.asarray(u @ v.T)

    def _regress(self, value: Floats, weight: Floats, factor: Floats) -> Floats:
        """Each row of `value` on `factor`: float[rows, rank]."""
        outer = factor[:, :, None] * factor[:, None, :]
        gram = np.einsum("ij,jab->iab", weight, outer) + self.ridge * np.eye(self.rank)
        return np.asarray(np.linalg.solve(gram, (value @ factor)[:, :, None])[:, :, 0])


def paper_uv() -> UVFactorisation:
    """The paper's setting: rank 3, ridge .01."""
    return UVFactorisation(rank=3)


class Baseline(Protocol):
    """Completes a score matrix. ability_: float[K], what it ranks agents by; predict: float[K, J] in [−1, 1]."""

    ability_: Floats

    def fit(self, scores: Scores | ArrayLike) -> Self: ...

    def predict(self) -> Floats: ...


BASELINES: Registry[Callable[[], Baseline]] = Registry(
    "youden.baselines",
    "baseline",
    {
        "clipped-linear": "youden.stats.additive.clipped_linear:ClippedLinear",
        "isotonic": "youden.stats.baselines:IsotonicOnTop",
        "rasch-probit": "youden.stats.baselines:rasch_probit",
        "rasch-logit": "youden.stats.baselines:rasch_logit",
        "rasch-probit-quasi": "youden.stats.baselines:rasch_probit_quasi",
        "rasch-logit-quasi": "youden.stats.baselines:rasch_logit_quasi",
        "nuclear-norm": "youden.stats.baselines:NuclearNorm",
        "nuclear-norm-paper": "youden.stats.baselines:paper_nuclear_norm",
        "svd": "youden.stats.baselines:ImputedSVD",
        "svd-paper": "youden.stats.baselines:paper_svd",
        "uv": "youden.stats.baselines:UVFactorisation",
        "uv-paper": "youden.stats.baselines:paper_uv",
    },
)
"""`-paper` is the setting that reproduces the paper's figure; the plain name is the fair one."""
