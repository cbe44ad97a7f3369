"""Which agent to take, and how much better another one may be: multiple comparisons with the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtrit

from youden.nouns.pool import Bools, Floats
from youden.stats.base.clusters import CentredCovariance
from youden.stats.trials.comparisons import Differences

_DRAWS = 1000
_MOST_DRAWS = 10_000
"""Draws: the smaller a look's share of the error, the rarer what is looked for."""
_NONE = 1e-9
"""An eigenvalue below this share of the largest is rounding."""


@dataclass(frozen=True, eq=False)
class Choice:
    """agents: those of the highest ability; within: with `level`, the last one that belongs among so many best is better than
    each of them by at most this; as_good: others that may belong there, by ability. low, high: an interval of the first one's
    ability that allows for its having come first. ahead: float[K, n], by how much each may be better than each of `agents`, 0 on
    itself, −∞ for who cannot belong there. Units of abilities."""

    agents: tuple[int, ...]
    within: float
    level: float
    as_good: tuple[int, ...]
    low: float
    high: float
    ahead: Floats


def choice(
    ability: Floats,
    of: CentredCovariance,
    told: Differences,
    *,
    rng: np.random.Generator,
    top: int = 1,
    share: float = 1.0,
    earlier: Sequence[tuple[Differences, float]] = (),
) -> Choice | None:
    """Hsu's comparisons with the best; None where an agent cannot be compared with the leader.

    within = max over k of the `upper_ends` of θ_k − θ_i, not below 0; of several named, the `top`-th largest, for the worst of
    them. 0 where the leader is told above everybody (`Differences.best`).

    low = θ̂_i − d·se_i, d the (1 + level)/2 quantile of the largest standardised error of an agent that may be the best: who comes
    first was lucky rather than not. high: as for any agent.

    ability: float[K]; of: their covariance; told: their differences. rng: of the draws. top: how many are named. share: of the
    error 1 − level that this look has, where several are taken; earlier: the differences and shares of those before. All their
    bounds hold together, so each pair's lowest does.
    Source: Hsu (1996), Multiple Comparisons, ch. 4; Dunnett (1955), J. American Statistical Association 50.
    """
    K = len(ability)
    if np.isnan(ability).any() or K < 2:
        return None
    if (np.isnan(told.half_width) & ~np.eye(K, dtype=np.bool_)).any():
        return None
    drawn = _errors(told, rng, share)
    end = upper_ends(told, drawn, top=top, share=share)
    for before, its_share in earlier:
        end = np.minimum(end, upper_ends(before, _errors(before, rng, its_share), top=top, share=its_share))
    named = np.argsort(-ability, kind="stable")[:top]
    may = np.flatnonzero((end > -np.inf).sum(axis=1) > 1)
    others = [k for k in sorted(may.tolist(), key=lambda k: -ability[k]) if k not in named]
    ahead = end[:, named]
    within = float(np.sort(ahead, axis=0)[-top].max())
    if top == 1 and not earlier and told.best is not None:
        within, others = 0.0, []
    leader, level = int(named[0]), 1 - (1 - told.level) * share
    several = np.union1d(may, leader)
    first = float(ndtr(-_quantile(drawn[:, several], drawn[:, several].std(axis=0), (1 + level) / 2)))
    down, up = (stdtrit(of.freedom[leader], p) for p in (max(1 - first, (1 + level) / 2), (1 + level) / 2))
    spread, middle = float(of.error[leader]), float(ability[leader])
    low, high = middle - float(down) * spread, middle + float(up) * spread
    return Choice(tuple(named.tolist()), within, told.level, tuple(others), low, high, ahead)


def upper_ends(told: Differences, drawn: Floats, *, top: int, share: float) -> Floats:
    """Upper ends of θ_k − θ_i: float[K, K], 0 on the diagonal, −∞ where k cannot belong among the `top` best.

    θ̂_k − θ̂_i + d_k·se_ik. d_k: the one-sided quantile of the largest of k's standardised differences, by draws of normal errors,
    read as a p-value for Student's t of each pair; the bounds of the true best hold at once, so for whoever is named. With a
    `top` above 1, d is that for all pairs at once. k cannot belong where `top` others lie above it by those bounds.
    """
    K = len(told.value)
    level, mine = 1 - (1 - told.level) * share, np.eye(K, dtype=np.bool_)
    error, value = np.where(mine, 0.0, told.error), np.where(mine, 0.0, told.value)
    freedom = np.where(mine, np.inf, told.freedom)

    def upper(k: int, p: float) -> Floats:
        return np.asarray(value[k] + stdtrit(freedom[k], 1 - p) * error[k])

    end = np.full((K, K), -np.inf)
    if top == 1:
        widest = (1 - level) / (K - 1)
        for k in range(K):
            if upper(k, widest).min() >= 0:
                end[k] = upper(k, float(ndtr(-_quantile(drawn[:, [k]] - drawn, error[k], level))))
    else:
        largest = [_largest(drawn[:, [k]] - drawn, error[k]) for k in range(K)]
        every = float(ndtr(-np.quantile(np.max(largest, axis=0), level)))
        end = np.array([upper(k, every) for k in range(K)])
    end[(end < 0).sum(axis=1) >= top] = -np.inf
    np.fill_diagonal(end, 0.0)
    return end


def _errors(told: Differences, rng: np.random.Generator, share: float) -> Floats:
    """Draws of the errors of centred abilities whose differences have these standard errors: float[n, K]."""
    square = np.where(np.eye(len(told.error), dtype=np.bool_), 0.0, told.error) ** 2
    off = square.mean(axis=0)
    value, vector = np.linalg.eigh((off[:, None] + off - square - off.mean()) / 2)
    root = (vector * np.sqrt(np.where(value > _NONE * value[-1], value, 0.0))) @ vector.T
    return np.asarray(rng.standard_normal((int(min(_DRAWS / share, _MOST_DRAWS)), len(square))) @ root)


def _quantile(drawn: Floats, error: Floats, level: float) -> float:
    """Of the largest standardised column."""
    return float(np.quantile(_largest(drawn, error), level))


def _largest(drawn: Floats, error: Floats) -> Floats:
    """The largest standardised column of each draw; those of an error of 0 do not count: float[n]."""
    known: Bools = error > 0
    if not known.any():
        return np.zeros(len(drawn))
    return np.asarray((drawn[:, known] / error[known]).max(axis=1))
