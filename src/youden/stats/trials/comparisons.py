"""Which agents can be compared; who is told apart from whom, by their difference and its own error; which places that
leaves, singly and all at once; and whether anybody is best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.special import stdtr, stdtrit

from youden.errors import StatisticsError
from youden.stats.base.clusters import NOTHING, CentredCovariance, check_level
from youden.stats.base.metrics import RankRange
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly


def agent_components(agent: Ids | Positions, item: Ids | Positions, *, n_agents: int, n_items: int) -> Ids:
    """Which agents are linked by chains of cells: int32[K], numbered from 0 in the agents' order, −1 without a cell.

    agent, item: int[N], positions of the cells.

    >>> agent_components(np.array([0, 2, 3]), np.array([1, 1, 0]), n_agents=4, n_items=2).tolist()
    [0, -1, 0, 1]
    """
    from scipy.sparse.csgraph import connected_components  # takes long to load, and few who name this module need it

    n = n_agents + n_items
    graph = coo_array((np.ones(len(agent), dtype=np.int8), (agent, n_agents + item)), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    seen = np.bincount(agent, minlength=n_agents) > 0
    component = np.full(n_agents, -1, dtype=np.int32)
    component[seen] = np.unique(label[:n_agents][seen], return_inverse=True)[1]
    return component


def disconnected(component: Ids) -> str:
    """What to do where there are several components; empty where there is one, or none."""
    sizes = np.sort(np.bincount(component[component >= 0]))[::-1]
    if len(sizes) < 2:
        return ""
    shown = ", ".join(map(str, sizes[:5])) + (", …" if len(sizes) > 5 else "")
    return (
        f"The cells fall into {len(sizes)} components (of {shown} agents) that share no agent and no item. "
        "Compare agents only within a component, or score cells that join them."
    )


def holm(p_values: Floats) -> Floats:
    """Holm's corrected p-values of float[n], in [0, 1]: the running maximum of (n − rank + 1)·p over ascending p.

    Raises: StatisticsError [p-values] if they are no one-dimensional array, or one of them lies outside [0, 1].

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    if p_values.ndim != 1:
        raise StatisticsError(
            f"P-values must be a one-dimensional array: got the shape {p_values.shape}. Pass a one-dimensional array.",
            slug="p-values",
        )
    outside = p_values[(p_values < 0) | (p_values > 1)]
    if len(outside):
        raise StatisticsError(
            f"P-values must be from 0 to 1: got {outside[0]}. Pass p-values, not test statistics.", slug="p-values"
        )
    order = np.argsort(p_values)
    corrected = np.empty_like(p_values)
    corrected[order] = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    return np.minimum(corrected, 1)


@dataclass(frozen=True, eq=False)
class Differences(ReadOnly):
    """Every two agents, row less column: float[K, K] each, NaN on the diagonal and where nothing says how they compare.

    value: θ_i − θ_k; error: its standard error, covariances included; freedom: of Student's t; half_width: of its interval at
    `level`. above: bool[K, K], whether the interval lies above 0. Each pair errs with 1 − level, of which half is to call it the
    wrong way round.
    """

    value: Floats
    error: Floats
    freedom: Floats
    half_width: Floats
    above: Bools
    level: float

    def among(self, agents: Positions) -> Differences:
        """Of some agents alone, int[n], in this order."""
        at = np.ix_(agents, agents)
        return Differences(
            self.value[at], self.error[at], self.freedom[at], self.half_width[at], self.above[at], self.level
        )

    @property
    def apart(self) -> Bools:
        """Which two are told apart: bool[K, K]."""
        return np.asarray(self.above | self.above.T)

    @property
    def p_above(self) -> Floats:
        """P-values of θ_i ≤ θ_k by Student's t, to be corrected by `holm`: float[K, K], 1 where the two cannot be compared."""
        known = ~np.isnan(self.half_width)
        with np.errstate(divide="ignore"):
            t = np.divide(self.value, self.error, out=np.zeros(self.value.shape), where=known & (self.value != 0))
        return np.where(known, stdtr(np.where(known, self.freedom, 1.0), -t), 1.0)

    @property
    def places(self) -> RankRange:
        """Marginally: place low = 1 + agents told to be above, high = K − those told to be below; int32[K] each.

        Here a difference is first shrunk by √(1 − mean error²/mean value²), over all pairs: where agents differ hardly more than
        chance lets them, many comparisons of one agent would else find somebody above it. Where they are spread it is near 1.
        Who is told above all others, or above another by `places_at_once`, is above here too, however much that shrinks.
        Each agent's holds its place with about `level`, not all at once: see `places_at_once`.
        Source: Gelman, Hill and Yajima (2012), J. Research on Educational Effectiveness 5.
        """
        known = ~np.isnan(self.half_width)
        chance, seen = float((self.error[known] ** 2).sum()), float((self.value[known] ** 2).sum())
        shrunk = self.value * np.sqrt(max(0.0, 1 - chance / seen)) if seen > 0 else np.zeros(self.value.shape)
        above = (shrunk > self.half_width) | _above_at_once(self)
        if (best := self.best) is not None:
            above[best] = np.arange(len(above)) != best
        return _places(above)

    @property
    def places_at_once(self) -> RankRange:
        """Ranks that are all true at once with the level of the differences: int32 (n_agents,) each, 1 is first.

        One-sided tests of θ_i ≤ θ_k for all ordered pairs, by Student's t, rejected by Holm's rule; low = 1 + agents shown to be
        better, high = K − agents shown to be worse. An agent without an estimate may have any rank and limits no other agent's.
        Source: Mogstad, Romano, Shaikh and Wilhelm (2024), Review of Economic Studies 91, with Holm's critical values.
        """
        return _places(_above_at_once(self))

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
    if ability.ndim != 1 or C.shape != (len(ability), len(ability)):
        raise StatisticsError(
            f"The covariance does not fit the abilities: got the shape {C.shape} for {ability.shape}. Pass both from one fit.",
            slug="comparison-shape",
        )
    value = ability[:, None] - ability
    value[same_value(ability[:, None], ability)] = 0.0
    spread = np.diag(C)
    error = np.sqrt(np.maximum(spread[:, None] + spread - 2 * C, 0))
    freedom = np.minimum(of.freedom[:, None], of.freedom)
    times = np.asarray(stdtrit(of.freedom, (1 + level) / 2), dtype=np.float64)
    half = np.maximum(times[:, None], times) * error
    for column in (value, error, half):
        column[np.isnan(half) | np.isnan(value)] = np.nan
        np.fill_diagonal(column, np.nan)
    return Differences(value, error, freedom, half, np.asarray(value > half), level)


def tied_places(ability: Floats) -> Ids:
    """Places by ability, int32[K]: 1 + agents above by more than rounding, so that ties share the best place; NaN is last.

    >>> tied_places(np.array([0.3, 0.5, 0.5 + 1e-16, np.nan]))
    array([3, 1, 1, 4], dtype=int32)
    """
    filled = np.where(np.isnan(ability), -np.inf, ability)
    above = (filled > filled[:, None]) & ~same_value(ability[:, None], ability)
    return np.asarray(1 + above.sum(axis=1), dtype=np.int32)


def _above_at_once(of: Differences) -> Bools:
    known = ~np.isnan(of.half_width)
    better = np.zeros(known.shape, dtype=np.bool_)
    better[known] = holm(of.p_above[known]) <= 1 - of.level
    return better


def _places(above: Bools) -> RankRange:
    low, high = 1 + above.sum(axis=0), len(above) - above.sum(axis=1)
    return RankRange(low.astype(np.int32), high.astype(np.int32))


def same_value(one: Floats, other: Floats) -> Bools:
    """Whether two abilities differ by no more than rounding: |a − b| ≤ 1e-6·max(1, |a|, |b|); never where one is NaN."""
    return np.asarray(
        np.abs(one - other) <= NOTHING * np.maximum(1, np.maximum(np.abs(one), np.abs(other))), dtype=np.bool_
    )
