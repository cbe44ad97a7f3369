"""What one judge says of agents beyond any smooth curve that leads from another judge's answers to its own.

Two judges who see the same grades and draw the line for a yes elsewhere relate by a curve: what one lets pass for strong agents
the other does not for weak ones. A straight line between them takes that for favour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from youden.stats.base.clusters import UNSEEN, unseen_square
from youden.types.pool import Floats, Ids, ReadOnly

_RATIOS = np.append(0.0, np.geomspace(1e-4, 10, 150))[:, None]
_NOTHING = 1e-9
_MOST_NOISE = 0.5
"""Share of a covariate's spread that may be noise; beyond it nearly all is, little is flattened, and noise would be divided by
noise: no part is taken out."""


@dataclass(frozen=True, eq=False)
class CurvedRelation(ReadOnly):
    """score: float[K], information, variance: float[K, K]: labels f of agents add c·(f_i + f_k), c = f'score / f'information f;
    f'score has the variance f'variance f, in units of a trial's. Z'Py and twice Z'PZ where abilities are without error.
    plain_score, plain_information: Z'Py and Z'PZ with nothing taken out for errors: less noise, for scattered labels. shift,
    error: float[K], each agent off the curve, the spread of the other agents in its error; p_value: float[K]; freedom: float[K],
    of Student's t. NaN for an agent that nothing is known of. hidden: float[K], `unseen_square` of what is left of an agent's
    trials: 1 where nothing is."""

    score: Floats
    information: Floats
    variance: Floats
    plain_score: Floats
    plain_information: Floats
    shift: Floats
    error: Floats
    p_value: Floats
    freedom: Floats
    hidden: Floats


class _Seen(NamedTuple):
    """Trials with the fixed part taken out: N = Z'QZ, v = Z'Qy, y'Qy and the degrees of freedom left."""

    N: Floats
    v: Floats
    squares: float
    freedom: int


def curved_relation(
    first: Ids, second: Ids, ability: Floats, luck: Floats, answer: Floats, *, doubt: Floats | None = None
) -> CurvedRelation:
    """y = γ₀ + γ₁(x_i + x_k) + γ₂(x_i² + x_k²) + β·r + β₁·r(x_i + x_k) + u_i + u_k + ε, x the one's abilities in SDs.

    u ~ N(0, τ²): agents differ a little by themselves, as they do where they win by other mixes of grades. τ² by restricted
    likelihood on a grid. An agent's own shift is fitted with τ² from all others and tested against it. Abilities are known with
    error, which flattens the curve, and strong agents would seem favoured: labels are looked at with the errors' part taken out
    of the moments of x and x².
    An agent's error is never below √(3.54·hidden)/n over its n trials: where none differ, so many agreements in a row allow that.

    first, second: int[U] in 0 … K−1; ability: float[K]; luck r: float[U], the one's answer less a_i + a_k; answer y: float[U];
    doubt: float[K], the abilities' variances, 0 if None.

    Source: Chan & Mak (1985), JRSS B 47, for polynomials in a covariate with error.
    """
    K, n = len(ability), len(answer)
    sd = float(ability.std())
    x = (ability - ability.mean()) / sd if sd > _NOTHING else np.zeros(K)
    agents = np.zeros((n, K))
    rows = np.arange(n)
    agents[rows, first] = agents[rows, second] = 1.0
    strength = agents @ x
    fixed = np.column_stack([np.ones(n), strength, agents @ x**2, luck, luck * strength])
    seen = _without(fixed, agents, answer)
    ratio, _ = _spread(seen)
    one = luck + agents @ ability
    doubts = np.zeros(K) if doubt is None or sd <= _NOTHING else doubt / sd**2
    inside = np.linalg.inv(np.eye(K) + ratio * seen.N)
    labels = _labels(_without(np.column_stack([np.ones(n), one]), agents, answer), x, doubts, ratio)
    left = _left(np.column_stack([fixed, agents]), answer)
    noisier, hidden = _noisier(left, agents), _hidden(left, agents)
    shift, error, freedom = np.array([_alone(seen, i, float(noisier[i])) for i in range(K)]).T
    error = np.maximum(error, np.sqrt(UNSEEN * hidden) / np.maximum(agents.sum(axis=0), 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(np.abs(shift) < _NOTHING, 0.0, np.abs(shift) / error)
    return CurvedRelation(
        *labels, inside @ seen.v, inside @ seen.N, shift, error, 2 * student.sf(statistic, freedom), freedom, hidden
    )


def curve_share(ability: Floats, member: Floats) -> float:
    """Share of a label's variance over agents that a parabola in ability explains, adjusted for its two coefficients.

    Near 0: agents with and without the label stand at the same abilities. High: they do not, and what the label adds is read off
    the curve's shape. NaN for four agents or fewer.

    >>> curve_share(np.arange(6.0), np.array([0.0, 0, 0, 1, 1, 1])) > 0.5
    True
    """
    K = len(ability)
    if K < 5:
        return float("nan")
    x = ability - ability.mean()
    curve = np.column_stack([np.ones(K), x, x**2])
    left = member - curve @ (np.linalg.pinv(curve) @ member)
    return 1 - float(left @ left) / float(((member - member.mean()) ** 2).sum()) * (K - 1) / (K - 3)


def _without(fixed: Floats, agents: Floats, answer: Floats) -> _Seen:
    left, size, _ = np.linalg.svd(fixed, full_matrices=False)
    known = left[:, size > _NOTHING * size[0]]
    agents = agents - known @ (known.T @ agents)
    answer = answer - known @ (known.T @ answer)
    return _Seen(agents.T @ agents, agents.T @ answer, float(answer @ answer), max(len(answer) - known.shape[1], 1))


def _labels(seen: _Seen, x: Floats, doubt: Floats, ratio: float) -> tuple[Floats, Floats, Floats]:
    """Score, information and variance of labels off a parabola in x, a covariate with error variances `doubt`.

    t_m has the mean of the true x^m, so G·(t_m t_n − t_(m+n)), summed over agents, is the errors' part of a moment.
    """
    d, U = np.linalg.eigh(seen.N)
    weight = np.maximum(d, 0) / (1 + ratio * np.maximum(d, 0))
    G = (U * weight) @ U.T
    h = U @ ((U.T @ seen.v) / (1 + ratio * np.maximum(d, 0)))
    t = [np.ones_like(x), x]
    for m in (1, 2, 3):
        t.append(x * t[m] - m * doubt * t[m - 1])
    curve = np.column_stack(t[1:3])
    errors = np.array([[np.diag(G) @ (t[m] * t[n] - t[m + n]) for n in (1, 2)] for m in (1, 2)])
    size, V = np.linalg.eigh(curve.T @ G @ curve)
    V = V[:, size > _NOTHING] / np.sqrt(size[size > _NOTHING])
    noise, turned = np.linalg.eigh(V.T @ errors @ V)
    V = V @ turned
    noise = np.where(noise > _MOST_NOISE, 0.0, noise.clip(0))
    left = np.eye(len(x)) - G @ curve @ (V / (1 - noise)) @ V.T @ curve.T
    return left @ h, left @ G, left @ G @ left.T


def _left(known: Floats, answer: Floats) -> Floats:
    return answer - known @ np.linalg.lstsq(known, answer, rcond=None)[0]


def _noisier(left: Floats, agents: Floats) -> Floats:
    """Mean squared residual of each agent's trials over that of all trials, at least 1: float[K]."""
    every = float((left**2).mean())
    if every < _NOTHING:
        return np.ones(agents.shape[1])
    noisier: Floats = np.maximum((agents.T @ left**2) / np.maximum(agents.sum(axis=0), 1) / every, 1.0)
    return noisier


def _hidden(left: Floats, agents: Floats) -> Floats:
    return unseen_square((agents * left[:, None]).T, np.maximum(agents.sum(axis=0), 1))


def _spread(seen: _Seen) -> tuple[float, float]:
    """τ²/σ² and σ² at the highest restricted likelihood."""
    d, U = np.linalg.eigh(seen.N)
    d = np.maximum(d, 0)
    squares = seen.squares - (_RATIOS * (U.T @ seen.v) ** 2 / (1 + _RATIOS * d)).sum(axis=1)
    squares = np.maximum(squares, 1e-12)
    log = -0.5 * (seen.freedom * np.log(squares) + np.log1p(_RATIOS * d).sum(axis=1))
    best = int(np.argmax(log))
    return float(_RATIOS[best, 0]), float(squares[best]) / seen.freedom


def _alone(seen: _Seen, i: int, noisier: float) -> tuple[float, float, float]:
    """Agent i's shift, its error and degrees of freedom, with the spread of agents taken from all others. noisier: its trials'
    noise variance in those of all trials."""
    N, v = seen.N, seen.v
    others = np.arange(len(v)) != i
    own, shared = float(N[i, i]), N[others, i]
    if own < _NOTHING:
        return np.nan, np.nan, np.nan
    among = N[np.ix_(others, others)]
    without = _Seen(
        among - np.outer(shared, shared) / own,
        v[others] - shared * v[i] / own,
        seen.squares - float(v[i]) ** 2 / own,
        max(seen.freedom - 1, 1),
    )
    ratio, variance = _spread(without)
    inside = ratio * np.linalg.solve(np.eye(len(among)) + ratio * among, np.column_stack([shared, v[others]]))
    left = own - float(shared @ inside[:, 0])
    shift = (float(v[i]) - float(shared @ inside[:, 1])) / left
    error = float(np.sqrt(variance * noisier / left + variance * ratio))
    return shift, error, float(min(len(v) - 1, without.freedom) if ratio > 0 else without.freedom)
