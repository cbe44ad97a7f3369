"""A monotone curve on top of the clipped-linear model, learned on cells the model did not see."""

from __future__ import annotations

import numpy as np
from scipy.optimize import isotonic_regression

from youden.errors import StatisticsError
from youden.nouns.arrays import Bools, Floats
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.baselines.completion import Completion, check_at_least
from youden.stats.baselines.folds import draw_folds


class IsotonicOnTop(Completion):
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
        check_at_least(2, n_folds=self.n_folds)

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
