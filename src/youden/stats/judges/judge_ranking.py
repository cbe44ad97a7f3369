"""How far two judges would rank alike, where one of them has seen few trials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from youden.nouns.arrays import Floats
from youden.stats.judges.judge_shift import JudgeShift


@dataclass(frozen=True)
class RankingSeen:
    """ρ of two judges' rankings, had both judged the whole plan: median and interval at `level`, NaN where neither varies.

    low and high are NaN where all but 1 − level of the draws have one ρ: no interval is a point.
    """

    rho: float
    low: float
    high: float
    level: float


def ranking_seen(shift: JudgeShift, *, rng: np.random.Generator, n_draws: int = 4000) -> RankingSeen:
    """Spearman ρ of the one's ranking (as it stands) and the other's, with the other's few trials allowed for.

    e_i ~ N(c₀ + c₁a_i, τ²) beneath what was seen, τ and the line unknown (flat priors, τ on a grid of restricted likelihood):
    draws of all e given what was seen, and ρ of each with a. Not attenuated, as ρ of the estimates is.
    """
    known = shift.known
    a, e = shift.one[known], shift.other[known]
    covariance = shift.covariance[np.ix_(known, known)]
    K = len(a)
    line = np.column_stack([np.full(K, K**-0.5), _unit(a - a.mean())])
    if not line[:, 1].any():
        return RankingSeen(np.nan, np.nan, np.nan, shift.level)
    apart = np.linalg.svd(line, full_matrices=True)[0][:, 2:]
    value, vector = np.linalg.eigh(apart.T @ covariance @ apart)
    basis = apart @ vector
    value, seen = np.maximum(value, 0) + 1e-12, basis.T @ e
    tau2 = (np.linspace(0, 3, 301) * max(float(np.abs(seen).max()), float(np.sqrt(value.max())))) ** 2
    total = value + tau2[:, None]
    log = -0.5 * (np.log(total) + seen**2 / total).sum(axis=1)
    chance = np.exp(log - log.max())
    drawn = rng.choice(tau2, n_draws, p=chance / chance.sum())[:, None]
    share = drawn / (drawn + value)
    apart_drawn = share * seen + np.sqrt(share * value) * rng.standard_normal((n_draws, K - 2))
    along = line[:, 1] @ e + np.sqrt(max(line[:, 1] @ covariance @ line[:, 1], 0)) * rng.standard_normal(n_draws)
    rho = _spearman_rows(along[:, None] * line[:, 1] + apart_drawn @ basis.T, a)
    z = (1 + shift.level) / 2
    low, middle, high = np.quantile(rho, [1 - z, 0.5, z]).tolist()
    if low == high:
        low = high = np.nan
    return RankingSeen(middle, low, high, shift.level)


def _unit(vector: Floats) -> Floats:
    length = float(np.sqrt(vector @ vector))
    return vector / length if length > 1e-12 else np.zeros_like(vector)


def _spearman_rows(rows: Floats, reference: Floats) -> Floats:
    """ρ of every row with `reference`, ties at their mean rank; 0 for a row all equal."""
    one = rankdata(rows, axis=1)
    one -= one.mean(axis=1, keepdims=True)
    other = rankdata(reference) - (len(reference) + 1) / 2
    length = np.sqrt((one**2).sum(axis=1) * (other @ other))
    rho: Floats = np.divide(one @ other, length, out=np.zeros(len(rows)), where=length > 0)
    return rho
