"""Completion under a nuclear-norm penalty (soft-impute), the penalty fixed or chosen by cross-validation.

Scores are not centred: additive effects are left in.
"""

from __future__ import annotations

import numpy as np

from youden.nouns.arrays import Bools, Floats
from youden.stats.baselines.completion import Completion, check_at_least
from youden.stats.baselines.folds import draw_folds

GRID = (2.0, 1.0, 0.5, 0.25, 0.125)
"""Penalties tried, in the scores' unit; from large to small, each starting where the one before it ended."""

_TOLERANCE = 1e-5


class NuclearNorm(Completion):
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
        check_at_least(1, max_rounds=self.max_rounds)
        check_at_least(2, n_folds=self.n_folds)
        if self.penalty is not None:
            check_at_least(0, penalty=self.penalty)

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
