"""Agents that join a judged run, on the scale of its first agents, and whether the judge drifted.

Where agents stand that were compared with anchors, agents whose abilities are known already; and how surely.

No anchor moves. Items and partners are taken out as far as the anchors' own trials tell them; what they do not tell is the
linking error.

Whether agents, or a judge, answer otherwise now than a scale from earlier trials says.

What is compared is a mean of new residuals with what was estimated before, both with their errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from youden.nouns.pool import Floats, Ids, freeze
from youden.stats.base.estimator import check_trials

_PRIOR_SLOTS = 6


@dataclass(frozen=True, eq=False)
class Scale:
    """What anchors' trials tell: y ≈ centre + effect_i + effect_k + level_j.

    centre_variance: against all answers on these items; noise: variance of an answer beyond all this; cell_variance: the part
    of it that is an agent's own on an item; pair_variance: of what two agents have in common beyond their effects.

    effect, effect_variance: float[K0], of the additive effects, mean 0; level, level_variance: float[J], of the items, shrunk
    to 0 by how far they differ beyond noise; an unseen item has level 0 and the variance of all. residual: float[J], mean of an
    item's residuals, not shrunk; share: float[J], of the anchors' trials on each item.
    """

    centre: float
    centre_variance: float
    noise: float
    cell_variance: float
    pair_variance: float
    effect: Floats
    effect_variance: Floats
    level: Floats
    level_variance: Floats
    residual: Floats
    share: Floats

    def __post_init__(self) -> None:
        freeze([self.effect, self.effect_variance, self.level, self.level_variance, self.residual, self.share])


@dataclass(frozen=True, eq=False)
class Placed:
    """effect: float[M], on the anchors' scale; variance: float[M], linking error included; linking: float[M], that part alone.

    n_trials, n_slots: int32[M]. NaN where an agent has no trial; the variance also below 2 slots.
    """

    effect: Floats
    variance: Floats
    linking: Floats
    n_trials: Ids
    n_slots: Ids

    def __post_init__(self) -> None:
        freeze([self.effect, self.variance, self.linking, self.n_trials, self.n_slots])


def scale_of(
    item: Ids, first: Ids, second: Ids, slot: Ids, answer: Floats, *, ability: Floats, error: Floats, n_items: int
) -> Scale:
    """The scale of anchors with abilities and standard errors float[K0], from their own trials.

    An ability is a mean over the other anchors, so its effect is (K0−1)/(K0−2)·(θ_i − θ̄). An item's level is the mean residual
    of its n_j trials times σ²_b/(σ²_b + σ²/n_j), with variances by moments.

    item, first, second, slot: int[T], slot −1 where there is none; answer: float[T], on the scale of abilities. An agent without
    an ability has effect 0.
    """
    check_trials(item, first, second, slot, answer=answer)
    centre, stretch = float(np.nanmean(ability)), stretch_of(len(ability))
    effect = np.nan_to_num((ability - centre) / stretch)
    residual = answer - centre - effect[first] - effect[second]
    n = np.bincount(item, minlength=n_items)
    seen = n > 0
    mean = np.divide(np.bincount(item, residual, n_items), n, out=np.zeros(n_items), where=seen)
    freedom = len(answer) - int(seen.sum()) - len(ability)
    noise = float(((residual - mean[item]) ** 2).sum()) / freedom if freedom > 0 else 0.0
    between = max(0.0, float((mean[seen] ** 2 - noise / n[seen]).mean())) if freedom > 0 else 0.0
    share = n / max(len(answer), 1)
    trust = np.divide(between * n, between * n + noise, out=np.zeros(n_items), where=between * n + noise > 0)
    beyond = residual - trust[item] * mean[item]
    own = min(_cell_variance(first, second, slot, beyond, len(ability)), noise / 4)
    centre_variance = (noise - 2 * own + 4 * own * float(_left_of_items(share))) / max(len(answer), 1)
    return Scale(
        centre=centre,
        centre_variance=centre_variance,
        noise=noise,
        cell_variance=own,
        pair_variance=_pair_variance(first, second, beyond, len(ability)),
        effect=effect,
        effect_variance=(np.nan_to_num(error) / stretch) ** 2,
        level=trust * mean,
        level_variance=between * (1 - trust),
        residual=mean,
        share=share,
    )


def _cell_variance(first: Ids, second: Ids, slot: Ids, residual: Floats, n_agents: int) -> float:
    """What an agent's two answers of a slot have in common: their mean product over agents and slots, at least 0."""
    inside = slot >= 0
    cell = np.tile(slot[inside], 2) * np.int64(n_agents) + np.append(first[inside], second[inside])
    _, at, n = np.unique(cell, return_inverse=True, return_counts=True)
    e = np.tile(residual[inside], 2)
    product = (np.bincount(at, e) ** 2 - np.bincount(at, e**2)) / 2
    return max(0.0, float(product[n == 2].mean())) if (n == 2).any() else 0.0


def _left_of_items(share: Floats) -> Floats:
    """Σ_j (w_j − 1/J)² / Σ_j w_j², how much of the items' own variance a mean over shares w of all J items keeps: float[...]."""
    squares = (share**2).sum(axis=-1)
    off = ((share - 1 / share.shape[-1]) ** 2).sum(axis=-1)
    return np.asarray(np.divide(off, squares, out=np.ones_like(squares), where=squares > 0), dtype=np.float64)


def _pair_variance(first: Ids, second: Ids, residual: Floats, n_agents: int) -> float:
    """By moments: of the mean residuals of unordered pairs, beyond what residuals within pairs vary by."""
    pair = np.minimum(first, second).astype(np.int64) * n_agents + np.maximum(first, second)
    _, at, n = np.unique(pair, return_inverse=True, return_counts=True)
    mean = np.bincount(at, residual) / n
    freedom = len(residual) - len(n)
    if freedom < 1:
        return 0.0
    noise = float(((residual - mean[at]) ** 2).sum()) / freedom
    return max(0.0, float((mean**2 - noise / n).mean()))


def stretch_of(n_anchors: int) -> float:
    """Ability per effect: (K0−2)/(K0−1), as an agent is no partner of its own."""
    return (n_anchors - 2) / (n_anchors - 1)


def place(
    item: Ids, agent: Ids, partner: Ids, slot: Ids, answer: Floats, *, scale: Scale, n_agents: int, finite: bool = True
) -> Placed:
    """The mean of r = y − centre − effect_partner − level_item over each agent's trials, and its variance.

    E_si = sum of i's r − mean in slot s; u_i = S/(S−1)·ΣE²/n_i, shrunk as if the anchors' noise had been seen in 6 slots more;
    variance = u_i/n_i·(1 − n_i/(2JK0)) + linking; linking = Σ_j (its share of item j − the anchors')²·var(level_j)
    + Σ_k (its share of anchor k − 1/K0)²·var(effect_k), and var(centre) for agents that are no anchors themselves.
    finite: whether the error is against these comparisons, all answered: then what an agent has of its own on an item is no error
    as far as it met all items alike; else against more of their kind, without 1 − n_i/(2JK0) too.

    One row a trial and scored agent: item, agent (0 … n_agents − 1), partner (an anchor), slot: int[T]; answer: float[T].

    Raises: StatisticsError [trial-columns], [trial-answer].
    """
    check_trials(item, agent, partner, slot, answer=answer)
    n_items, n_anchors = len(scale.level), len(scale.effect)
    residual = answer - scale.centre - scale.effect[partner] - scale.level[item]
    n = np.bincount(agent, minlength=n_agents)
    effect: Floats = np.full(n_agents, np.nan)
    np.divide(np.bincount(agent, residual, n_agents), n, out=effect, where=n > 0)
    _, at = np.unique(slot, return_inverse=True)
    cell = agent.astype(np.int64) * (int(at.max(initial=-1)) + 1) + at
    _, where = np.unique(cell, return_inverse=True)
    owner = np.zeros(int(where.max(initial=-1)) + 1, dtype=np.int64)
    owner[where] = agent
    total = np.bincount(where, residual - effect[agent])
    n_slots = np.bincount(owner, minlength=n_agents)
    variance = np.full(n_agents, np.nan)
    enough = n_slots >= 2
    if enough.any():
        freedom = n_slots[enough] - 1
        own = np.bincount(owner, total**2, n_agents)[enough] / n[enough] * (freedom + 1) / freedom
        shrunk = (own * freedom + _PRIOR_SLOTS * scale.noise) / (freedom + _PRIOR_SLOTS)
        variance[enough] = shrunk / n[enough]
    of_item = _shares(agent, item, n_agents, n_items)
    of_partner = _shares(agent, partner, n_agents, n_anchors)
    left = np.maximum(0.0, 1 - n / (2 * n_items * n_anchors)) if finite else np.ones(n_agents)
    linking = (of_item - scale.share) ** 2 @ scale.level_variance
    linking += (of_partner - 1 / n_anchors) ** 2 @ scale.effect_variance
    linking[n_anchors:] += scale.centre_variance
    if finite and scale.cell_variance > 0:
        of_slot = 2 * scale.cell_variance / (scale.noise + scale.cell_variance)
        left *= 1 - of_slot + of_slot * _left_of_items(of_item)
    linking = np.where(n > 0, linking, np.nan)
    return Placed(effect, variance * left + linking, linking, n.astype(np.int32), n_slots.astype(np.int32))


class PlacedByItem(NamedTuple):
    """contribution, share: float[M, J], what an item does to an agent's ability, and its share in the agent's trials."""

    contribution: Floats
    share: Floats


def placed_by_item(
    item: Ids, agent: Ids, partner: Ids, answer: Floats, *, effect: Floats, scale: Scale, anchors: Floats
) -> PlacedByItem:
    """What each item contributes to the ability of a placed agent less the anchors' mean, over items of the kind.

    U_ij = stretch·[Σ_{t on j} (r_t − effect_i)/n_i − q_j·(1 − Σ_l p_il·level_l/r̄_l)·r̄_j] − Σ_k p_ik·U_kj, r as in `place`, p_il
    and p_ik the shares of item l and anchor k in i's trials, q_j that of item j in the anchors', r̄_j its mean residual there.
    So an item's level cancels as far as it is known or met alike, and what an item did to the anchors moves whom they placed.

    item, agent, partner, answer: as for `place`; effect: float[M], as it found them; anchors: float[K0, J], U_kj.
    """
    n_agents, n_items = len(effect), len(scale.level)
    residual = answer - scale.centre - scale.effect[partner] - scale.level[item] - effect[agent]
    share = _shares(agent, item, n_agents, n_items)
    n = np.maximum(np.bincount(agent, minlength=n_agents), 1)
    cell = agent.astype(np.int64) * n_items + item
    own = np.bincount(cell, residual, n_agents * n_items).reshape(n_agents, n_items) / n[:, None]
    trust = np.divide(scale.level, scale.residual, out=np.zeros(n_items), where=scale.residual != 0)
    centre = (1 - share @ trust)[:, None] * scale.share * scale.residual
    linked = _shares(agent, partner, n_agents, len(scale.effect)) @ (anchors - anchors.mean(axis=0))
    found = stretch_of(len(scale.effect)) * (own - centre) - linked
    return PlacedByItem(np.where((share.sum(axis=1) > 0)[:, None], found, 0.0), share)


def _shares(agent: Ids, other: Ids, n_agents: int, n_others: int) -> Floats:
    """Share of each agent's trials with each of the others: float[M, n_others]."""
    counts = np.bincount(agent.astype(np.int64) * n_others + other, minlength=n_agents * n_others)
    table = counts.reshape(n_agents, n_others)
    return np.asarray(table / np.maximum(table.sum(axis=1, keepdims=True), 1), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Drift:
    """change: float[K0], of each anchor's effect, new answers less what the scale says; variance: float[K0]; NaN where no new
    trial tells. level, level_variance: of all answers together, from level_slots slots; NaN where fewer than 2 tell.
    """

    change: Floats
    variance: Floats
    level: float
    level_variance: float
    level_slots: int

    def __post_init__(self) -> None:
        freeze([self.change, self.variance])


def drift_in_slots(item: Ids, first: Ids, second: Ids, slot: Ids, answer: Floats, *, scale: Scale) -> Drift:
    """From complete slots of anchors: e = y − centre − effect_i − effect_k − level_j.

    change_i = (K0−1)/(K0−2) × mean of e less its slot's mean, over i's trials; variance = σ²/n_i + var(effect_i), σ² of those
    residuals. level = mean over slots of their mean e, on items the anchors were seen on, with the variance of that mean and of
    the centre.

    item, first, second, slot: int[T]; answer: float[T]. Raises: StatisticsError [trial-columns], [trial-answer].
    """
    check_trials(item, first, second, slot, answer=answer)
    n_anchors = len(scale.effect)
    residual = answer - scale.centre - scale.effect[first] - scale.effect[second] - scale.level[item]
    _, at, size = np.unique(slot, return_inverse=True, return_counts=True)
    mean = np.bincount(at, residual) / size
    change, variance = _means(
        np.append(first, second), np.tile(residual - mean[at], 2), n_anchors, share=1 - len(size) / len(answer)
    )
    known = np.unique(at[scale.share[item] > 0])
    level = level_variance = np.nan
    if len(known) > 1:
        level = float(mean[known].mean())
        level_variance = float(mean[known].var(ddof=1)) / len(known) + scale.centre_variance
    stretch = (n_anchors - 1) / (n_anchors - 2)
    return Drift(stretch * change, stretch**2 * variance + scale.effect_variance, level, level_variance, len(known))


def drift_beside(item: Ids, agent: Ids, partner: Ids, answer: Floats, *, effect: Floats, scale: Scale) -> Drift:
    """Of anchors as partners of agents that joined: mean of e = y − centre − effect of the joined − effect_k − level_j, centred.

    Its variance adds, to those of the mean and of effect_k, what pairs have in common: pair_variance·Σ_n (n's share of k's)².

    item, agent, partner: int[T], `agent` the joined one; answer: float[T]; effect: float[M], of all agents, as `place` gives it.
    Raises: StatisticsError [trial-columns], [trial-answer].
    """
    check_trials(item, agent, partner, answer=answer)
    residual = answer - scale.centre - effect[agent] - scale.effect[partner] - scale.level[item]
    change, variance = _means(partner, residual - residual.mean(), len(scale.effect), share=1 - 1 / len(answer))
    met = np.zeros((len(scale.effect), len(effect)))
    np.add.at(met, (partner, agent), 1)
    share = met / np.maximum(met.sum(axis=1, keepdims=True), 1)
    variance += scale.effect_variance + scale.pair_variance * (share**2).sum(axis=1)
    return Drift(change, variance, np.nan, np.nan, 0)


def _means(agent: Ids, residual: Floats, n_agents: int, *, share: float) -> tuple[Floats, Floats]:
    """Mean residual of each agent, and the variance of that mean; NaN without a trial. share: of freedom left to residuals."""
    n = np.bincount(agent, minlength=n_agents)
    noise = float((residual**2).mean()) / max(share, 1e-9)
    mean, variance = np.full(n_agents, np.nan), np.full(n_agents, np.nan)
    np.divide(np.bincount(agent, residual, n_agents), n, out=mean, where=n > 0)
    np.divide(noise, n, out=variance, where=n > 0)
    return mean, variance
