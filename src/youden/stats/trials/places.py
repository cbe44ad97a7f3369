"""Who is told apart from whom, by their difference and its own error; which places that leaves; and whether anybody is best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.nouns.arrays import Bools, Floats, Ids, freeze
from youden.stats.base.clusters import CentredCovariance, same_value
from youden.stats.base.ranks import RankRange
from youden.stats.base.validation import check_level
from youden.stats.trials.comparisons import rank_sets


@dataclass(frozen=True, eq=False)
class Differences:
    """Every two agents, row less column: float[K, K] each, NaN on the diagonal and where nothing says how they compare.

    value: θ_i − θ_k; error: its standard error, covariances included; half_width: of its interval at `level`. above: bool[K, K],
    whether the interval lies above 0. Each pair errs with 1 − level, of which half is to call it the wrong way round.
    """

    value: Floats
    error: Floats
    half_width: Floats
    above: Bools
    level: float

    def __post_init__(self) -> None:
        freeze([self.value, self.error, self.half_width, self.above])

    @property
    def apart(self) -> Bools:
        """Which two are told apart: bool[K, K]."""
        return np.asarray(self.above | self.above.T)

    @property
    def places(self) -> RankRange:
        """Marginally: place low = 1 + agents told to be above, high = K − those told to be below; int32[K] each.

        Each agent's holds its place with about `level`, not all at once: see `places_at_once`.
        """
        low, high = 1 + self.above.sum(axis=0), len(self.above) - self.above.sum(axis=1)
        return RankRange(low.astype(np.int32), high.astype(np.int32))

    @property
    def best(self) -> int | None:
        """The agent told above every other, None where there is none.

        All its differences must clear 0 at once, so that a wrong agent is named with at most 1 − level, whoever leads: that is
        reached where two are equally good, and with more leaders it is less.
        """
        others = self.above.sum(axis=1) == len(self.above) - 1
        return int(others.argmax()) if len(others) > 1 and others.any() else None


def differences(ability: Floats, of: CentredCovariance, *, level: float = 0.95) -> Differences:
    """θ_i − θ_k ± t·√(C_ii + C_kk − 2C_ik), t with the lesser freedom of both. Values within rounding are 0, and nobody's above.

    ability: float[K], NaN without an estimate.

    Raises: StatisticsError [comparison-shape], [level].
    """
    check_level(level)
    C = of.covariance
    if C.shape != (len(ability), len(ability)):
        raise StatisticsError(
            f"{len(ability)} abilities came with a covariance of the shape {C.shape}. Give both from one fit.",
            slug="comparison-shape",
        )
    value = ability[:, None] - ability
    value[same_value(ability[:, None], ability)] = 0.0
    spread = np.diag(C)
    error = np.sqrt(np.maximum(spread[:, None] + spread - 2 * C, 0))
    freedom = np.minimum(of.freedom[:, None], of.freedom)
    half = student.ppf((1 + level) / 2, freedom) * error
    for column in (value, error, half):
        column[np.isnan(half) | np.isnan(value)] = np.nan
        np.fill_diagonal(column, np.nan)
    return Differences(value, error, half, np.asarray(value > half), level)


def tied_places(ability: Floats) -> Ids:
    """Places by ability, int32[K]: 1 + agents above by more than rounding, so that ties share the best place; NaN is last.

    >>> tied_places(np.array([0.3, 0.5, 0.5 + 1e-16, np.nan]))
    array([3, 1, 1, 4], dtype=int32)
    """
    filled = np.where(np.isnan(ability), -np.inf, ability)
    above = (filled > filled[:, None]) & ~same_value(ability[:, None], ability)
    return np.asarray(1 + above.sum(axis=1), dtype=np.int32)


def places_at_once(
    ability: Floats, of: CentredCovariance, *, rng: np.random.Generator, level: float = 0.95
) -> RankRange:
    """Places that are all true at once with `level`: `rank_sets`, its errors widened from the normal's to Student's t.

    Raises: StatisticsError [comparison-shape], [level].
    """
    check_level(level)
    tail = (1 + level) / 2
    wider = np.asarray((student.ppf(tail, of.freedom) / norm.ppf(tail)) ** 2, dtype=np.float64)
    return rank_sets(ability, of.scaled(wider).covariance, rng=rng, level=level)
