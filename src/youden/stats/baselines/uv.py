"""Factorisation of the observed scores as U Vᵀ by alternating ridge regressions."""

from __future__ import annotations

import numpy as np

from youden.nouns.arrays import Bools, Floats
from youden.stats.baselines.completion import Completion, check_at_least
from youden.streams import own_stream

_START = 0.1


class UVFactorisation(Completion):
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
        check_at_least(1, rank=self.rank, n_sweeps=self.n_sweeps)
        check_at_least(1e-12, ridge=self.ridge)

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
