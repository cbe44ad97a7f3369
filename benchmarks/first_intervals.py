"""Compute half-widths of trial means as version 0.1.0 did, as the reference for present intervals.

They are computed from blocks, with a finite population correction.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from youden.types import Trials
from youden.types.pool import Floats

_PRIOR_BLOCKS = 6


def first_half_widths(plan: Trials, answer: Floats, mean: Floats, *, n_population: int) -> Floats:
    """Compute the half-widths (n_agents,) of a complete cyclic plan; 0 if every comparison was made.

    t_{S+5}·√(v(1 − T/N)), with S blocks, T answers, N possible answers and v the variance of a mean, shrunk to the average v.
    """
    n_agents, n_blocks = len(mean), int(plan.block.max()) + 1
    effect = (n_agents - 1) / (n_agents - 2) * (mean - mean.mean())
    residual = answer - effect[plan.first] - effect[plan.second]
    block_mean = np.bincount(plan.block, residual, n_blocks) / np.bincount(plan.block, minlength=n_blocks)
    cell = np.append(plan.first, plan.second) * n_blocks + np.tile(plan.block, 2)
    block_effect = (
        np.bincount(cell, np.tile(residual - block_mean[plan.block], 2), n_agents * n_blocks).reshape(
            n_agents, n_blocks
        )
        / 2
    )
    variance = (block_effect**2).sum(axis=1) / (n_blocks * (n_blocks - 1))
    variance = (variance * (n_blocks - 1) + _PRIOR_BLOCKS * variance.mean()) / (n_blocks - 1 + _PRIOR_BLOCKS)
    fpc = max(0.0, 1 - len(answer) / n_population)
    return np.asarray(student.ppf(0.975, n_blocks - 1 + _PRIOR_BLOCKS) * np.sqrt(variance * fpc))
