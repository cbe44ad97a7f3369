"""How far two judges would rank alike, where one of them has seen few trials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from youden.nouns.arrays import Floats
from youden.stats.judges.judge_shift import JudgeShift

_BENDS = np.linspace(0.0, 1.0, 21)
"""How far a curve may bend, in the rise of its straight part."""


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

    e_i ~ N(c₀ + c₁a_i + c₂a_i², τ²) beneath what was seen, τ and the curve unknown (flat priors, a bend of up to the rise of the
    straight part; τ and the bend's size on a grid of restricted likelihood): draws of all e given what was seen, and ρ of each
    with a. Not attenuated, as ρ of the estimates is. Without a bend, judges who draw the line for a yes elsewhere would seem to
    disagree: it covered .3–.6 in replays of PubMed and SAMSum, where this covers .9.
    """
    known = shift.known
    a, e = shift.one[known], shift.other[known]
    covariance = shift.covariance[np.ix_(known, known)]
    K = len(a)
    x = _unit(a - a.mean())
    if not x.any():
        return RankingSeen(np.nan, np.nan, np.nan, shift.level)
    line = np.column_stack([np.full(K, K**-0.5), x])
    bend = _unit(x**2 - line @ (line.T @ x**2)) if K > 3 else np.zeros(K)
    fixed = np.column_stack([line, bend]) if bend.any() else line
    apart = np.linalg.svd(fixed, full_matrices=True)[0][:, fixed.shape[1] :]
    value, vector = np.linalg.eigh(apart.T @ covariance @ apart)
    basis = np.column_stack([apart @ vector, bend])
    value = np.append(value, float(bend @ covariance @ bend)).clip(0) + 1e-12
    seen = basis.T @ e
    tau2 = (np.linspace(0, 3, 301) * max(float(np.abs(seen).max()), float(np.sqrt(value.max())))) ** 2
    bent = tau2[:, None] + (_BENDS * float(x @ e)) ** 2
    log = _log(seen[:-1], value[:-1] + tau2[:, None]).sum(axis=1)[:, None] + _log(seen[-1], value[-1] + bent)
    chance = np.exp(log - log.max()).ravel()
    drawn = rng.choice(chance.size, n_draws, p=chance / chance.sum())
    own = np.repeat(tau2[drawn // len(_BENDS), None], len(value), axis=1)
    own[:, -1] = bent.ravel()[drawn]
    share = own / (own + value)
    off = share * seen + np.sqrt(share * value) * rng.standard_normal((n_draws, len(value)))
    along = x @ e + np.sqrt(max(float(x @ covariance @ x), 0.0)) * rng.standard_normal(n_draws)
    rho = _spearman_rows(along[:, None] * x + off @ basis.T, a)
    z = (1 + shift.level) / 2
    low, middle, high = np.quantile(rho, [1 - z, 0.5, z]).tolist()
    if low == high:
        low = high = np.nan
    return RankingSeen(middle, low, high, shift.level)


def _log(seen: Floats, variance: Floats) -> Floats:
    return np.asarray(-0.5 * (np.log(variance) + seen**2 / variance))


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
