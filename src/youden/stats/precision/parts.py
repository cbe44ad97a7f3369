"""The two parts of an agent's variance: what it has of its own on an item, and what a trial adds.

With p_j the share of item j in an agent's n trials, v = own·Σ_j p_j² + noise/n. More trials on the same items take away the
second part alone; only more items take away the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.nouns.arrays import Floats
from youden.stats.trials.item_contributions import ItemContributions


class Parts(NamedTuple):
    """own, noise: float[K] ≥ 0, variances; of the item's part of an agent, and of a trial on a given item."""

    own: Floats
    noise: Floats


def parts_of(of: ItemContributions, variance: Floats) -> Parts:
    """Both parts of agents whose abilities vary by `variance`, float[K], NaN where nobody knows.

    With within_i what trials of one item differ by, left_i = (v_i − (K−2)/K·within_i/n_i)/Σp²: K of a slot's residuals sum to 0.
    own: left, shrunk towards its mean by how much more it differs between agents than chance lets it (2v²/items each), between 0
    and v/Σp². noise: the rest of v, times n, so that both parts give back v. An agent about whom nothing is known gets the means.

    >>> e = np.array([[0.1, -0.1], [-0.1, 0.1], [0.0, 0.0]])
    >>> of = ItemContributions(np.zeros(3), e / 2, np.full((3, 2), 0.5), np.full((3, 2), 2.0), np.full(3, 0.06))
    >>> parts = parts_of(of, np.full(3, 0.02))
    >>> parts.own.round(3).tolist(), parts.noise.round(3).tolist()
    ([0.03, 0.03, 0.03], [0.02, 0.02, 0.02])
    """
    known = ~np.isnan(variance) & (of.weight.sum(axis=1) > 0)
    own, noise = np.zeros(len(variance)), np.zeros(len(variance))
    if known.any():
        v, p, n = variance[known], (of.weight[known] ** 2).sum(axis=1), of.n_trials[known].sum(axis=1)
        K = int(known.sum())
        within = of.within[known]
        mean_within = float(np.nanmean(within)) if not np.isnan(within).all() else np.inf
        left = (v - (K - 2) / K * np.where(np.isnan(within), mean_within, within) / n) / p
        chance = float((2 * v**2 / (of.weight[known] > 0).sum(axis=1) / p**2).mean())
        mean, spread = max(0.0, float(left.mean())), float(left.var())
        trust = max(0.0, 1 - chance / spread) if spread > 0 else 0.0
        own[known] = np.clip(mean + trust * (left - mean), 0, v / p)
        noise[known] = (v - own[known] * p) * n
        own[~known], noise[~known] = own[known].mean(), noise[known].mean()
    return Parts(own, noise)
