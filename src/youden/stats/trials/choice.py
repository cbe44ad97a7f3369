"""Which agent to take, and how much better another one may be: multiple comparisons with the best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtrit

from youden.nouns.pool import Bools, Floats
from youden.stats.base.clusters import CentredCovariance
from youden.stats.trials.comparisons import Differences

_DRAWS = 1000
_NONE = 1e-9
"""An eigenvalue below this share of the largest is rounding."""


@dataclass(frozen=True)
class Choice:
    """agent: the one of the highest ability; within: with `level`, no other is better than it by more; as_good: others that may
    be the best, by ability. low, high: an interval of its ability that allows for its having come first. Units of abilities."""

    agent: int
    within: float
    level: float
    as_good: tuple[int, ...]
    low: float
    high: float


def choice(ability: Floats, of: CentredCovariance, told: Differences, *, rng: np.random.Generator) -> Choice | None:
    """Hsu's comparisons with the best; None where an agent cannot be compared with the leader.

    within = max over k of (θ̂_k − θ̂_i + d_k·se_ik), not below 0, over agents k that may be the best: those for whom the same
    bound is above 0 against everybody. d_k: the one-sided `level` quantile of the largest of k's standardised differences, by
    draws of normal errors, read as a p-value for Student's t of each pair. It holds for every agent at once, so for the one
    that came first. 0 where the leader is told above everybody (`Differences.best`).

    low = θ̂_i − d·se_i, d the (1 + level)/2 quantile of the largest standardised error of an agent that may be the best: who comes
    first was lucky rather than not. high: as for any agent.

    ability: float[K]; of: their covariance; told: their differences. rng: of the draws.
    Source: Hsu (1996), Multiple Comparisons, ch. 4; Dunnett (1955), J. American Statistical Association 50.
    """
    K = len(ability)
    if np.isnan(ability).any() or K < 2:
        return None
    leader = int(np.argmax(ability))
    if (np.isnan(told.half_width) & ~np.eye(K, dtype=np.bool_)).any():
        return None
    level, freedom = told.level, np.where(np.eye(K, dtype=np.bool_), np.inf, told.freedom)
    error = np.where(np.eye(K, dtype=np.bool_), 0.0, told.error)
    value = np.where(np.eye(K, dtype=np.bool_), 0.0, told.value)

    def upper(k: int, p: float) -> Floats:
        """Of θ_k − θ_i for all i: float[K]."""
        return np.asarray(value[k] + stdtrit(freedom[k], 1 - p) * error[k])

    drawn = _errors(error, rng)
    widest = (1 - level) / (K - 1)
    ends: dict[int, Floats] = {}
    for k in range(K):
        if upper(k, widest).min() >= 0:
            ends[k] = upper(k, float(ndtr(-_quantile(drawn[:, [k]] - drawn, error[k], level))))
    may = [k for k, end in ends.items() if end.min() >= 0]
    others = [k for k in sorted(may, key=lambda k: -ability[k]) if k != leader]
    if told.best is not None:
        others = []
    within = max([0.0, *(float(ends[k][leader]) for k in others)])
    several = np.array(sorted({leader, *may}))
    first = float(ndtr(-_quantile(drawn[:, several], drawn[:, several].std(axis=0), (1 + level) / 2)))
    down, up = (stdtrit(of.freedom[leader], p) for p in (max(1 - first, (1 + level) / 2), (1 + level) / 2))
    spread = float(of.error[leader])
    middle = float(ability[leader])
    return Choice(leader, within, level, tuple(others), middle - float(down) * spread, middle + float(up) * spread)


def _errors(error: Floats, rng: np.random.Generator) -> Floats:
    """Draws of the errors of centred abilities whose differences have these standard errors: float[n, K]."""
    square = error**2
    off = square.mean(axis=0)
    value, vector = np.linalg.eigh((off[:, None] + off - square - off.mean()) / 2)
    root = (vector * np.sqrt(np.where(value > _NONE * value[-1], value, 0.0))) @ vector.T
    return np.asarray(rng.standard_normal((_DRAWS, len(error))) @ root)


def _quantile(drawn: Floats, error: Floats, level: float) -> float:
    """Of the largest standardised column: those of an error of 0 do not count."""
    known: Bools = error > 0
    if not known.any():
        return 0.0
    return float(np.quantile((drawn[:, known] / error[known]).max(axis=1), level))
