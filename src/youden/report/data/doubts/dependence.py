"""What a ranking may follow instead of ability: length, one group's presence, a coalition, or nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from youden.nouns.arrays import Bools, Floats
from youden.stats.base.pair_effects import effects_of_pairs
from youden.stats.base.ranks import ranks
from youden.stats.robust.pair_means import PairMeans

FEWEST = 5
"""With fewer agents a rank correlation says nothing."""


@dataclass(frozen=True)
class WithoutGroup:
    """The ranking with one group's agents scoring nobody. correlation: Spearman, of the agents outside it; most: places."""

    group: str
    n_agents: int
    correlation: float
    moved: str
    most: int


@dataclass(frozen=True)
class Breakdown:
    """How large a coalition that always agrees has to be for a group to stand below it.

    inside, across: mean agreement in the group, and with the others; others: of these with each other, as they answer now.
    share: of the pool, in [0, 1]; None where the group agrees less inside than with others, and needs no coalition to lose.
    """

    group: str
    n_agents: int
    inside: float
    across: float
    others: float
    share: float | None


def length_correlation(ability: Floats, length: Floats | None) -> float | None:
    """Spearman of ability and mean length; None where lengths are unknown or fewer than 5 agents have both."""
    if length is None:
        return None
    return _spearman(ability, length)


def without_groups(of: PairMeans, groups: Sequence[str | None], agents: Sequence[str]) -> tuple[WithoutGroup, ...]:
    """One line for each named group beside which 5 agents are left; agents are scored by pairs' effects.

    With a the additive effects of all pairs, partners P say θ_i = mean of m_ik − a_k over k in P that i met.
    """
    effect = _effects(of)
    rest = of.mean - effect
    found = []
    for group, inside in _members(groups):
        outside = ~inside
        if inside.all() or not inside.any() or outside.sum() < FEWEST:
            continue
        whole, part = (_mean(rest[:, partners], of.met[:, partners]) for partners in (outside | inside, outside))
        correlation = _spearman(whole[outside], part[outside])
        if correlation is None:
            continue
        moved = np.abs(ranks(whole[outside]) - ranks(part[outside]))
        most = int(np.argmax(moved))
        agent = int(np.flatnonzero(outside)[most])
        found.append(WithoutGroup(group, int(inside.sum()), correlation, agents[agent], int(moved[most])))
    return tuple(found)


def breakdowns(of: PairMeans, groups: Sequence[str | None]) -> tuple[Breakdown, ...]:
    """p* = (FF − FB)/((FF − FB) + (BB − FB)) of each named group of two or more: F its agents, B a coalition.

    A share p of the pool that always agrees (BB = 1), and with the group as the others do (FB), then scores as high as the group:
    (1 − p)·FF + p·FB = (1 − p)·FB + p·BB.

    Source: none in the paper.
    """
    found = []
    for group, inside in _members(groups):
        means = [_over(of, one, two) for one, two in ((inside, inside), (inside, ~inside), (~inside, ~inside))]
        if np.isnan(means[:2]).any() or means[1] >= 1:
            continue
        inside_mean, across, others = means
        gap = inside_mean - across
        share = gap / (gap + (1 - across)) if gap > 0 else None
        found.append(Breakdown(group, int(inside.sum()), inside_mean, across, others, share))
    return tuple(found)


def agreeing_share(of: PairMeans, *, least: float) -> float | None:
    """Share of the pairs that met whose agreement is `least` or more; None without a pair."""
    pairs = np.triu(of.met, 1)
    return float((of.mean[pairs] >= least).mean()) if pairs.any() else None


def _members(groups: Sequence[str | None]) -> list[tuple[str, Bools]]:
    named = dict.fromkeys(group for group in groups if group is not None)
    return [(group, np.array([one == group for one in groups], dtype=np.bool_)) for group in named]


def _effects(of: PairMeans) -> Floats:
    """a of m_ik = a_i + a_k, least squares over pairs that met."""
    return effects_of_pairs(of.met.astype(np.float64), np.where(of.met, of.mean, 0.0).sum(axis=1))


def _mean(value: Floats, met: Bools) -> Floats:
    n = met.sum(axis=1)
    total = np.where(met, value, 0.0).sum(axis=1)
    mean: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    return mean


def _over(of: PairMeans, one: Bools, two: Bools) -> float:
    pairs = of.met & one[:, None] & two
    return float(of.mean[pairs].mean()) if pairs.any() else float("nan")


def _spearman(one: Floats, two: Floats) -> float | None:
    both = ~np.isnan(one + two)
    if both.sum() < FEWEST:
        return None
    first, second = rankdata(one[both]), rankdata(two[both])
    if not (np.ptp(first) and np.ptp(second)):
        return None
    return float(np.corrcoef(first, second)[0, 1])
