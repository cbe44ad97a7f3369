"""Additive effects of agents on their pairs: least squares for m_ik ≈ a_i + a_k."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from youden.nouns.arrays import Floats

_RIDGE = 1e-10


def effects_of_pairs(weight: Floats, total: Floats) -> Floats:
    """a that makes Σ w_ik (m_ik − a_i − a_k)² least: float[K]; the shortest one where several do, 0 for an agent that met nobody.

    weight: float[K, K], symmetric, w_ik of a pair, 0 on the diagonal and where it never met; total: float[K], Σ_k w_ik m_ik.

    >>> effects_of_pairs(np.ones((3, 3)) - np.eye(3), np.array([0.5, 0.7, 0.8])).round(6)
    array([0. , 0.2, 0.3])
    """
    normal = weight + np.diag(weight.sum(axis=1))
    least = _RIDGE * max(float(np.diag(normal).max(initial=0.0)), 1.0)
    try:
        # Pairs that never meet but across two halves leave one direction open: the ridge closes it at the shortest solution.
        found = cho_solve(
            cho_factor(normal + least * np.eye(len(normal)), check_finite=False), total, check_finite=False
        )
    except LinAlgError:
        found = np.asarray(np.linalg.lstsq(normal, total, rcond=None)[0], dtype=np.float64)
    return np.asarray(found)
