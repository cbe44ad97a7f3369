"""Which agent to take, and how much better another one may be: multiple comparisons with the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, stdtrit

from youden.stats.base.clusters import CentredCovariance
from youden.stats.trials.comparisons import Differences
from youden.types.pool import Bools, Floats

_SIZES = 8
"""Quantiles are made for so many sizes of an agent's own error, and are read off between them."""
_HALVINGS = 11
_AT, _WEIGHT = np.polynomial.hermite_e.hermegauss(16)
"""Where normal errors are averaged over, and by what weights."""
MARGIN, LEAST_MORE = 1.2, 0.5
"""A round of a search asks for this times what seems to be needed, and for this share of what was asked at least."""
_GRID, _STEPS = 400, 10
"""Abilities at which it is asked who is the best, and how often the prior on them is made anew (`_likely`)."""


@dataclass(frozen=True, eq=False)
class Choice:
    """agents: those of the highest ability; within: with `level`, the last one that belongs among so many best is better than
    each of them by at most this; as_good: others that may belong there, by ability. low, high: an interval of the first one's
    ability that allows for its having come first. ahead: float[K, n], by how much each may be better than each of `agents`, 0 on
    itself, −∞ for who cannot belong there. chance: float[K], that an agent is the best, see `chances`; regret: by how much the
    best is better than the first of `agents`, on average. Units of abilities.
    """

    agents: tuple[int, ...]
    within: float
    level: float
    as_good: tuple[int, ...]
    low: float
    high: float
    ahead: Floats
    chance: Floats
    regret: float


def choice(
    ability: Floats,
    of: CentredCovariance,
    told: Differences,
    *,
    top: int = 1,
    share: float = 1.0,
    end: Floats | None = None,
) -> Choice | None:
    """Hsu's comparisons with the best; None where an agent cannot be compared with the leader.

    within = max over k of the `upper_ends` of θ_k − θ_i, not below 0; of several named, the `top`-th largest, for the worst of
    them. 0 where the leader is told above everybody (`Differences.best`).

    low = θ̂_i − d·se_i, d the (1 + level)/2 quantile of the largest of so many errors as agents may be the best: who comes first
    was lucky rather than not. high: as for any agent.

    ability: float[K]; of: their covariance; told: their differences. top: how many are named. share: of the error 1 − level that
    this look has, where several are taken; end: the lowest upper ends of all looks, by default those of this one.
    Source: Hsu (1996), Multiple Comparisons, ch. 4; Dunnett (1955), J. American Statistical Association 50.
    """
    K = len(ability)
    if np.isnan(ability).any() or K < 2 or not comparable(told):
        return None
    once = end is None
    if end is None:
        end = upper_ends(told, top=top, share=share)
    named = np.argsort(-ability, kind="stable")[:top]
    may = np.flatnonzero((end > -np.inf).sum(axis=1) > 1)
    others = [k for k in sorted(may.tolist(), key=lambda k: -ability[k]) if k not in named]
    ahead = end[:, named]
    within = float(np.sort(ahead, axis=0)[-top].max())
    if top == 1 and once and told.best is not None:
        within, others = 0.0, []
    leader, level = int(named[0]), 1 - (1 - told.level) * share
    several = np.union1d(may, leader)
    down, up = (stdtrit(of.freedom[leader], p) for p in (((1 + level) / 2) ** (1 / len(several)), (1 + level) / 2))
    spread, middle = float(of.error[leader]), float(ability[leader])
    low, high = middle - float(down) * spread, middle + float(up) * spread
    chance, regret = chances(ability, told)
    return Choice(tuple(named.tolist()), within, told.level, tuple(others), low, high, ahead, chance, regret)


def comparable(told: Differences) -> bool:
    """Whether every two agents can be compared."""
    return not (np.isnan(told.half_width) & ~np.eye(len(told.value), dtype=np.bool_)).any()


def upper_ends(told: Differences, *, top: int, share: float) -> Floats:
    """Upper ends of θ_k − θ_i: float[K, K], 0 on the diagonal, −∞ where k cannot belong among the `top` best.

    θ̂_k − θ̂_i + d_k·se_ik. d_k: the one-sided quantile of the largest of k's standardised differences, read as a p-value for
    Student's t of each pair; the bounds of the true best hold at once, so for whoever is named. With a `top` above 1, d is that
    for all pairs at once. k cannot belong where `top` others lie above it by those bounds.
    """
    K = len(told.value)
    level, mine = 1 - (1 - told.level) * share, np.eye(K, dtype=np.bool_)
    error, value = np.where(mine, 0.0, told.error), np.where(mine, 0.0, told.value)
    own = _own_errors(told)
    freedom = np.max(told.freedom, axis=1, where=~mine, initial=1.0)
    if top == 1:
        sizes = np.unique(np.quantile(own, np.linspace(0, 1, _SIZES)))
        tails = ndtr(-_dunnett(sizes, own, level))
        times = np.array([stdtrit(freedom, 1 - tail) for tail in tails])
        at = np.interp(own, sizes, np.arange(len(sizes), dtype=np.float64))
        low, part = np.floor(at).astype(np.int64), (at % 1)[:, None]
        times = times[low] * (1 - part) + times[np.minimum(low + 1, len(sizes) - 1)] * part
    else:
        times = np.tile(stdtrit(freedom, 1 - ndtr(-_range(K, level))), (K, 1))
    end = value + np.maximum(times, np.diag(times)[:, None]) * error
    end[(end < 0).sum(axis=1) >= top] = -np.inf
    np.fill_diagonal(end, 0.0)
    return np.asarray(end)


def wanting(told: Differences, end: Floats, *, top: int, share: float, goal: float) -> tuple[Bools, float, bool]:
    """Return which agents must be compared more, by what share of their trials, and whether that should be enough.

    An upper end of θ_k − θ_i falls with the root of the trials that tell of both, and the pair that needs most decides.

    Who is near enough by what a look of `share` says now is not asked again, unless nobody else is left to ask.
    At most as much again is asked at once, for what seems to be needed is a guess while contenders are many.
    end: as `Choice`; share: of the error that the last look may have; goal: the bound that is asked for, above 0.
    """
    value = np.nan_to_num(told.value)
    named = np.argsort(-value.sum(axis=1), kind="stable")[:top]
    ahead, gap, hoped = (of[:, named] for of in (end, value, upper_ends(told, top=top, share=share)))
    unsure = np.sort(ahead, axis=0)[-top] > goal
    pairs = (ahead > goal) & unsure
    pairs[named] = False
    if (far := pairs & (hoped > goal)).any():
        pairs = far
    active = pairs.any(axis=1)
    active[named[unsure]] = True
    needed = ((np.maximum(hoped, goal) - gap) / (goal - np.minimum(gap, goal / 2))) ** 2
    more = MARGIN * float(np.max(needed, where=pairs, initial=1.0)) - 1
    return active, min(max(more, LEAST_MORE), 1.0), more <= 1


def _own_errors(told: Differences) -> Floats:
    """Errors e of agents that stand alone, such that a difference has the error √(e_i² + e_k²): float[K], by least squares."""
    K = len(told.error)
    square = np.where(np.eye(K, dtype=np.bool_), 0.0, told.error) ** 2
    if K == 2:
        return np.asarray(np.sqrt(square.sum(axis=1) / 2))
    rows = square.sum(axis=1)
    least = 1e-3 * float(square.mean())
    return np.asarray(np.sqrt(np.maximum((rows - rows.sum() / (2 * K - 2)) / (K - 2), least)))


def chances(ability: Floats, told: Differences) -> tuple[Floats, float]:
    """The chance that an agent is the best, float[K], and how much better the best is than the first one, on average.

    Abilities are drawn from what `_likely` gives, each agent apart from the others.
    """
    e = _own_errors(told)
    if not e.any():
        first = ability == ability.max()
        return np.asarray(first / first.sum()), 0.0
    at, each = _likely(ability, e)
    least, upto = np.finfo(np.float64).tiny, np.cumsum(each, axis=1)
    below = np.log(np.maximum(upto - each / 2, least))
    chance = (each * np.exp(below.sum(axis=0) - below)).sum(axis=1)
    best = float(np.diff(np.exp(np.log(np.maximum(upto, least)).sum(axis=0)), prepend=0.0) @ at)
    return np.asarray(chance / chance.sum()), max(best - float(each[np.argmax(ability)] @ at), 0.0)


def luck(told: Differences, among: Bools) -> Floats:
    """By how much agents are worse than they seem, on average, by what `_likely` gives of all `among` whom they are: float[K].

    among: bool[K]; 0 for others, and of fewer than 3.
    """
    found, chosen_from = np.zeros(len(among)), np.flatnonzero(among)
    of = told.among(chosen_from)
    if len(chosen_from) >= 3 and (e := _own_errors(of)).any():
        ability = np.nansum(of.value, axis=1) / len(chosen_from)
        at, each = _likely(ability, e)
        found[chosen_from] = ability - each @ at
    return found


def reliability(told: Differences) -> float:
    """The share of what abilities vary by that is not their errors', in [0, 1]; NaN where two cannot be compared."""
    if len(told.value) < 3 or not comparable(told):
        return float("nan")
    variance = float(np.nansum(told.value**2)) / (2 * len(told.value) * (len(told.value) - 1))
    return max(1 - float((_own_errors(told) ** 2).mean()) / variance, 0.0) if variance else 0.0


def _likely(ability: Floats, e: Floats) -> tuple[Floats, Floats]:
    """Abilities, float[G], and how likely each agent has each of them, float[K, G]; e: the `_own_errors`, not all 0.

    The prior is N(θ̄, τ²) at first, τ² what θ̂ vary by beyond their errors, at least half the error of that where all are alike;
    then, `_STEPS` times, the mean of what agents' θ̂ and errors make of it. So it takes on the shape of a plateau. Few steps keep
    it smooth: the most likely prior is a few atoms, which say too little of what is lost.
    Source: Laird (1978), J. American Statistical Association 73; Jiang and Zhang (2009), Annals of Statistics 37.
    """
    noise = float((e**2).mean())
    true = max(float(ability.var(ddof=1)) - noise, noise * float(np.sqrt(0.5 / (len(e) - 1))))
    at = np.linspace(ability.min() - e.mean(), ability.max() + e.mean(), _GRID)
    square = ((ability[:, None] - at) / np.maximum(e, at[1] - at[0])[:, None]) ** 2
    likely = np.exp((square.min(axis=1, keepdims=True) - square) / 2)
    prior = np.exp(-((at - ability.mean()) ** 2) / (2 * true))
    for _ in range(_STEPS):
        prior *= (1 / (likely @ prior)) @ likely / len(e)
    return at, likely * prior / (likely @ prior)[:, None]


def _dunnett(sizes: Floats, own: Floats, level: float) -> Floats:
    """The `level` quantile of the largest of (e_k − e_i)/√(v_k + v_i) over the others i, by k's size √v_k: float[S]."""
    K = len(own)
    total = sizes[:, None] ** 2 + own**2
    shared = np.where(total > 0, sizes[:, None] / np.sqrt(np.where(total > 0, total, 1.0)), np.sqrt(0.5))[:, None, :]
    alone = np.sqrt(np.maximum(1 - shared**2, 1e-12))

    def below(d: Floats) -> Floats:
        each = log_ndtr((d[:, None, None] + shared * _AT[:, None]) / alone).sum(axis=2) * ((K - 1) / K)
        return np.asarray(np.exp(each) @ _WEIGHT / _WEIGHT.sum())

    return _found(below, np.full(len(sizes), ndtri(level)), np.full(len(sizes), -ndtri((1 - level) / (K - 1))), level)


def _range(K: int, level: float) -> float:
    """The `level` quantile of the largest standardised difference of any two of K agents alike, who stand alone."""
    at = np.linspace(-8, 8, _GRID)

    def below(d: Floats) -> Floats:
        inside = ndtr(at) - ndtr(at - np.sqrt(2) * d[:, None])
        density = np.exp(-(at**2) / 2) * np.maximum(inside, 0.0) ** (K - 1)
        return np.asarray(K * density.sum(axis=1) * (at[1] - at[0]) / np.sqrt(2 * np.pi))

    most = -ndtri((1 - level) / (K * (K - 1)))
    return float(_found(below, np.full(1, ndtri(level)), np.full(1, most), level)[0])


def _found(below: Callable[[Floats], Floats], low: Floats, high: Floats, level: float) -> Floats:
    """Where `below`, which grows, comes to `level`, between `low` and `high`."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        less = below(middle) < level
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.asarray((low + high) / 2)
