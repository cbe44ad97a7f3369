"""What abilities and their covariance say about pairs and places: differences, p-values, simultaneous sets of ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from youden.errors import StatisticsError
from youden.nouns.arrays import Bools, Floats, freeze
from youden.stats.base.ranks import RankRange
from youden.stats.base.validation import check_level

_CHUNK = 2**22


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Every two agents: float[K, K] each, row against column, NaN on the diagonal and where the two cannot be compared.

    difference: θ_i − θ_k; error: its standard error; p_value: two-sided, of no difference; p_holm: the same, corrected by Holm
    for all pairs that can be compared, so that P(any false one below α) ≤ α.
    """

    difference: Floats
    error: Floats
    p_value: Floats
    p_holm: Floats

    def __post_init__(self) -> None:
        freeze([self.difference, self.error, self.p_value, self.p_holm])


def compare_agents(ability: Floats, covariance: Floats) -> Comparisons:
    """Normal tests of θ_i = θ_k for every two agents.

    ability: float[K]; covariance: float[K, K], as `intervals` gives them; NaN is no estimate. Where the error is 0, p is 1 for
    equal abilities and 0 for others.

    Raises: StatisticsError [comparison-shape].
    Source: Holm (1979), Scandinavian J. Statistics 6.
    """
    difference, error = _differences(ability, covariance)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(difference == 0, 0.0, np.abs(difference) / error)
    p_value = np.where(np.isnan(error), np.nan, 2 * ndtr(-z))
    p_holm = np.full_like(p_value, np.nan)
    upper = np.triu(~np.isnan(p_value), 1)
    p_holm[upper] = holm(p_value[upper])
    p_holm.T[upper] = p_holm[upper]
    return Comparisons(difference, error, p_value, p_holm)


def holm(p_values: Floats) -> Floats:
    """Holm's corrected p-values of float[n], in [0, 1]: the running maximum of (n − rank + 1)·p over ascending p.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    corrected = np.empty_like(p_values)
    corrected[order] = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    return np.minimum(corrected, 1)


def rank_sets(
    ability: Floats, covariance: Floats, *, rng: np.random.Generator, level: float = 0.95, n_draws: int = 4000
) -> RankRange:
    """Places every agent can hold, all true at once with probability `level`: int32[K] each, 1 is first.

    One-sided tests of θ_i ≤ θ_k for all ordered pairs at once: rejected where (θ_i − θ_k)/se exceeds the `level` quantile of the
    largest (Z_i − Z_k)/se over pairs not yet rejected, Z ~ N(0, covariance), until nothing more is. Place low = 1 + agents shown
    to be better, high = K − agents shown to be worse. An agent without an estimate may hold any place and bars nobody else's.

    Raises: StatisticsError [comparison-shape], [level], [bootstrap-draws].
    Source: Mogstad, Romano, Shaikh and Wilhelm (2024), Review of Economic Studies 91; Romano and Wolf (2005), stepdown.
    """
    check_level(level)
    if n_draws < 1 / (1 - level):
        raise StatisticsError(
            f"{n_draws} draws cannot tell the {level} quantile. Give at least {int(1 / (1 - level)) + 1}; 4,000 are usual.",
            slug="bootstrap-draws",
        )
    difference, error = _differences(ability, covariance)
    comparable = ~np.isnan(error)
    known = np.flatnonzero(comparable.any(axis=1))
    better = np.zeros(comparable.shape, dtype=np.bool_)
    exact = comparable & (error == 0)
    better[exact] = difference[exact] > 0
    tested = comparable & ~exact
    Z = np.zeros((n_draws, len(ability)))
    for part in _parts(comparable[np.ix_(known, known)]):
        agents = known[part]
        root = np.linalg.svd(covariance[np.ix_(agents, agents)], hermitian=True)
        Z[:, agents] = (rng.standard_normal((n_draws, len(agents))) * np.sqrt(root.S)) @ root.U.T
    while (open_ := tested & ~better).any():
        found = open_ & (difference > _critical(Z, error, open_, level=level) * np.where(open_, error, 1.0))
        if not found.any():
            break
        better |= found
    low, high = 1 + better.sum(axis=0), len(ability) - better.sum(axis=1)
    return RankRange(low.astype(np.int32), high.astype(np.int32))


def _critical(Z: Floats, error: Floats, open_: Bools, *, level: float) -> float:
    """The `level` quantile of the largest (Z_i − Z_k)/se over open pairs."""
    first, second = np.nonzero(open_)
    chunk = max(1, _CHUNK // len(first))
    largest = [
        ((Z[start : start + chunk, first] - Z[start : start + chunk, second]) / error[first, second]).max(axis=1)
        for start in range(0, len(Z), chunk)
    ]
    return float(np.quantile(np.concatenate(largest), level))


def _parts(comparable: Bools) -> list[Bools]:
    """Groups of agents that are compared with each other: the distinct rows, each agent with itself."""
    return list(np.unique(comparable | np.eye(len(comparable), dtype=np.bool_), axis=0))


def _differences(ability: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """θ_i − θ_k and its standard error, NaN where unknown and on the diagonal."""
    if covariance.shape != (len(ability), len(ability)):
        raise StatisticsError(
            f"{len(ability)} abilities came with a covariance of the shape {covariance.shape}. Give both from one fit.",
            slug="comparison-shape",
        )
    spread = np.diag(covariance)
    error = np.sqrt(np.maximum(spread[:, None] + spread - 2 * covariance, 0))
    np.fill_diagonal(error, np.nan)
    return np.where(np.isnan(error), np.nan, ability[:, None] - ability), error
