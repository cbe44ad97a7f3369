"""Half-widths as 0.1.0 gave them to trial means: by slot, with a finite population. What new intervals are measured against."""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from youden.types import Trials
from youden.types.pool import Floats

_PRIOR_SLOTS = 6


def first_half_widths(plan: Trials, answer: Floats, mean: Floats, *, n_population: int) -> Floats:
    """t_{S+5}·√(v(1 − T/N)) of a complete cyclic plan, 0 where everything was asked: float[K]."""
    K, n_slots = len(mean), int(plan.slot.max()) + 1
    effect = (K - 1) / (K - 2) * (mean - mean.mean())
    residual = answer - effect[plan.first] - effect[plan.second]
    by_slot = np.bincount(plan.slot, residual, n_slots) / np.bincount(plan.slot, minlength=n_slots)
    cell = np.append(plan.first, plan.second) * n_slots + np.tile(plan.slot, 2)
    E = np.bincount(cell, np.tile(residual - by_slot[plan.slot], 2), K * n_slots).reshape(K, n_slots) / 2
    v = (E**2).sum(axis=1) / (n_slots * (n_slots - 1))
    v = (v * (n_slots - 1) + _PRIOR_SLOTS * v.mean()) / (n_slots - 1 + _PRIOR_SLOTS)
    left = max(0.0, 1 - len(answer) / n_population)
    return np.asarray(student.ppf(0.975, n_slots - 1 + _PRIOR_SLOTS) * np.sqrt(v * left))
