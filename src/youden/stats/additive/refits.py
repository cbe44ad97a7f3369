"""Knows how to fit the additive model to one matrix under many weights at once; refuses to know where weights come from.

Only centred abilities are returned: a resample can lose items, and the gauge over items would move with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from youden.nouns.arrays import Bools, Floats

_CHUNK = 2**20
_APART = 1e-9

Reweight = Callable[[int, int], Floats]
"""From the first draw and the one after the last to weights, float[draws, K, J], 0 where unseen."""


def refit_abilities(value: Floats, reweight: Reweight, *, n_draws: int) -> Floats:
    """θ − θ̄ of least squares under each draw's weights: float[n_draws, K], NaN for draws in which agents fall apart.

    min Σ w (s − θ_i + b_j)² without ridge: with θ centred it needs none where the agents hang together.
    value: float[K, J], 0 where unseen. O(n_draws·K²J) time, a few times 2^20 numbers of memory (or K·J, if larger).
    """
    abilities = np.full((n_draws, len(value)), np.nan)
    for start, stop in _chunks(n_draws, max(1, _CHUNK // value.size)):
        A = reweight(start, stop)
        m = A.sum(axis=1)
        C = A * np.divide(1, m, out=np.zeros_like(m), where=m > 0)[:, None, :]
        M = -(C @ np.swapaxes(A, 1, 2))
        joined = _joined(M)
        n = A.sum(axis=2)
        M[:, np.arange(len(value)), np.arange(len(value))] += n
        M += n.mean(axis=1)[:, None, None]  # 1ᵀθ = 0 for all that hang together, as the rest of M maps ones to 0
        weighted = A * value
        rhs = weighted.sum(axis=2) - (C @ weighted.sum(axis=1)[:, :, None])[:, :, 0]
        abilities[start:stop][joined] = np.linalg.solve(M[joined], rhs[joined][:, :, None])[:, :, 0]
    return abilities


def _chunks(n: int, size: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + size, n)) for start in range(0, n, size))


def _joined(M: Floats) -> Bools:
    """Which draws link all agents by chains of shared items: bool[draws]. M: float[draws, K, K], negative where two share."""
    linked = M < -_APART
    reached = np.zeros(M.shape[:2], dtype=np.bool_)
    reached[:, 0] = linked[:, 0, 0]
    while True:
        grown = reached | (linked & reached[:, None, :]).any(axis=2)
        if (grown == reached).all():
            return np.asarray(reached.all(axis=1))
        reached = grown
