"""Where agents stand that joined a judged run, on the scale of its first agents, the anchors; and whether the judge drifted.

No anchor moves. Items and partners are taken out as far as the anchors' own trials tell them; what they do not tell is the
linking error. For drift a mean of new residuals is compared with what was estimated before, both with their errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from scipy.special import ndtr, stdtr

from youden.stats.base.clusters import Blocks, by_level, check_trials
from youden.stats.trials.comparisons import holm
from youden.types.pool import Floats, Ids, ReadOnly

_PRIOR_SLOTS = 6


@dataclass(frozen=True, eq=False)
class Scale(ReadOnly):
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


class AddedBlock(NamedTuple):
    """Answers outside complete slots on some items, one row a trial and agent it counts for: item, numbered from 0, agent,
    partner (an anchor), slot, all of a slot in one block: int[T]; answer: float[T]."""

    item: Ids
    agent: Ids
    partner: Ids
    slot: Ids
    answer: Floats
    n_items: int


AddedBlocks = Callable[[], Iterable[AddedBlock]]
"""All of them, block by block in the order of items, each time it is called."""


@dataclass(frozen=True, eq=False)
class Placed(ReadOnly):
    """effect: float[M], on the anchors' scale; variance: float[M], linking error included; linking: float[M], that part alone.

    n_trials, n_slots: int32[M]; partners: float[M, K0], shares of the anchors in an agent's trials. NaN where an agent has no
    trial; the variance also below 2 slots.
    """

    effect: Floats
    variance: Floats
    linking: Floats
    n_trials: Ids
    n_slots: Ids
    partners: Floats


class _OnItems(Protocol):
    @property
    def n_items(self) -> int: ...


B = TypeVar("B", bound=_OnItems)


def _with_items(blocks: Iterable[B]) -> Iterator[tuple[slice, B]]:
    """Each block, and which items are its."""
    start = 0
    for block in blocks:
        yield slice(start, start + block.n_items), block
        start += block.n_items


def scale_of(blocks: Blocks, *, ability: Floats, error: Floats, n_items: int) -> Scale:
    """The scale of anchors with abilities and standard errors float[K0], from their own trials.

    An ability is a mean over the other anchors, so its effect is (K0−1)/(K0−2)·(θ_i − θ̄). An item's level is the mean residual
    of its n_j trials times σ²_b/(σ²_b + σ²/n_j), with variances by moments.

    blocks: answers on the scale of abilities, in the order of items, each time it is called; their levels are slots, if any, all
    of a slot in one block. An agent without an ability has effect 0.
    """
    centre, stretch, K = float(np.nanmean(ability)), stretch_of(len(ability)), len(ability)
    effect = np.nan_to_num((ability - centre) / stretch)
    n, mean, squares = np.zeros(n_items, dtype=np.int64), np.zeros(n_items), 0.0
    for items, block in _with_items(blocks()):
        residual = block.value - centre - effect[block.first] - effect[block.second]
        n[items] = np.bincount(block.item, minlength=block.n_items)
        mean[items] = np.bincount(block.item, residual, block.n_items) / np.maximum(n[items], 1)
        squares += float(((residual - mean[items][block.item]) ** 2).sum())
    seen, n_trials = n > 0, int(n.sum())
    freedom = n_trials - int(seen.sum()) - K
    noise = squares / freedom if freedom > 0 else 0.0
    between = max(0.0, float((mean[seen] ** 2 - noise / n[seen]).mean())) if freedom > 0 else 0.0
    share = n / max(n_trials, 1)
    trust = np.divide(between * n, between * n + noise, out=np.zeros(n_items), where=between * n + noise > 0)
    product, n_products, pairs = 0.0, 0, np.zeros((3, K, K))
    for items, block in _with_items(blocks()):
        residual = block.value - centre - effect[block.first] - effect[block.second]
        beyond = residual - (trust * mean)[items][block.item]
        if block.level is not None:
            twice = by_level(block, np.ones(len(beyond)), K) == 2
            product += float((by_level(block, beyond, K) ** 2 - by_level(block, beyond**2, K))[twice].sum()) / 2
            n_products += int(twice.sum())
        pair = np.minimum(block.first, block.second).astype(np.int64) * K + np.maximum(block.first, block.second)
        pairs += [np.bincount(pair, column, K * K).reshape(K, K) for column in (np.ones(len(pair)), beyond, beyond**2)]
    # what an agent's two answers of a slot have in common
    own = min(max(0.0, product / n_products), noise / 4) if n_products else 0.0
    centre_variance = (noise - 2 * own + 4 * own * float(_left_of_items((share**2).sum(), n_items))) / max(n_trials, 1)
    return Scale(
        centre=centre,
        centre_variance=centre_variance,
        noise=noise,
        cell_variance=own,
        pair_variance=_pair_variance(*pairs),
        effect=effect,
        effect_variance=(np.nan_to_num(error) / stretch) ** 2,
        level=trust * mean,
        level_variance=between * (1 - trust),
        residual=mean,
        share=share,
    )


def _left_of_items(squares: Floats, n_items: int) -> Floats:
    """Σ_j (w_j − 1/J)² / Σ_j w_j², how much of the items' own variance a mean over shares w of all J items keeps, from Σ_j w_j²:
    float[...]."""
    off = np.maximum(squares - 1 / n_items, 0)
    return np.asarray(np.divide(off, squares, out=np.ones_like(squares), where=squares > 0), dtype=np.float64)


def _pair_variance(n: Floats, total: Floats, squares: Floats) -> float:
    """By moments: of the mean residuals of unordered pairs, beyond what residuals within pairs vary by. float[K0, K0] each."""
    met = n > 0
    n, mean = n[met], total[met] / n[met]
    freedom = n.sum() - len(n)
    if freedom < 1:
        return 0.0
    noise = float((squares[met] - n * mean**2).sum()) / freedom
    return max(0.0, float((mean**2 - noise / n).mean()))


def stretch_of(n_anchors: int) -> float:
    """Ability per effect: (K0−2)/(K0−1), as an agent is no partner of its own."""
    return (n_anchors - 2) / (n_anchors - 1)


def place(blocks: AddedBlocks, *, scale: Scale, n_agents: int, finite: bool = True) -> Placed:
    """The mean of r = y − centre − effect_partner − level_item over each agent's trials, and its variance.

    E_si = sum of i's r − mean in slot s; u_i = S/(S−1)·ΣE²/n_i, shrunk as if the anchors' noise had been seen in 6 slots more;
    variance = u_i/n_i·(1 − n_i/(2JK0)) + linking; linking = Σ_j (its share of item j − the anchors')²·var(level_j)
    + Σ_k (its share of anchor k − 1/K0)²·var(effect_k), and var(centre) for agents that are no anchors themselves.
    finite: whether the error is against these comparisons, all answered: then what an agent has of its own on an item is no error
    as far as it met all items alike; else against more of their kind, without 1 − n_i/(2JK0) too.

    n_agents: M. Raises: StatisticsError [trial-columns], [trial-answer].
    """
    n_items, n_anchors = len(scale.level), len(scale.effect)
    n, total, met = np.zeros(n_agents), np.zeros(n_agents), np.zeros((n_agents, n_anchors))
    for items, block in _with_items(blocks()):
        check_trials(block.item, block.agent, block.partner, block.slot, answer=block.answer)
        n += np.bincount(block.agent, minlength=n_agents)
        total += np.bincount(block.agent, _beyond(block, items, scale), n_agents)
        met += _counts(block.agent, block.partner, n_agents, n_anchors)
    effect = np.divide(total, n, out=np.full(n_agents, np.nan), where=n > 0)
    of_trials, partners = np.maximum(n, 1), met / np.maximum(n, 1)[:, None]
    squares, n_slots, linking, item_squares = np.zeros((4, n_agents))
    for items, block in _with_items(blocks()):
        cell, where = np.unique(block.slot.astype(np.int64) * n_agents + block.agent, return_inverse=True)
        owner = cell % n_agents
        off = np.bincount(where, _beyond(block, items, scale) - effect[block.agent])
        squares += np.bincount(owner, off**2, n_agents)
        n_slots += np.bincount(owner, minlength=n_agents)
        of_item = _counts(block.agent, block.item, n_agents, block.n_items) / of_trials[:, None]
        linking += (of_item - scale.share[items]) ** 2 @ scale.level_variance[items]
        item_squares += (of_item**2).sum(axis=1)
    variance = np.full(n_agents, np.nan)
    enough = n_slots >= 2
    freedom = n_slots[enough] - 1
    own = squares[enough] / n[enough] * (freedom + 1) / freedom
    variance[enough] = (own * freedom + _PRIOR_SLOTS * scale.noise) / (freedom + _PRIOR_SLOTS) / n[enough]
    left = np.maximum(0.0, 1 - n / (2 * n_items * n_anchors)) if finite else np.ones(n_agents)
    linking += (partners - 1 / n_anchors) ** 2 @ scale.effect_variance
    linking[n_anchors:] += scale.centre_variance
    if finite and scale.cell_variance > 0:
        of_slot = 2 * scale.cell_variance / (scale.noise + scale.cell_variance)
        left *= 1 - of_slot + of_slot * _left_of_items(item_squares, n_items)
    linking = np.where(n > 0, linking, np.nan)
    return Placed(effect, variance * left + linking, linking, n.astype(np.int32), n_slots.astype(np.int32), partners)


def _beyond(block: AddedBlock, items: slice, scale: Scale) -> Floats:
    """Answers beyond what the scale says of partner and item: float[T]."""
    return block.answer - scale.centre - scale.effect[block.partner] - scale.level[items][block.item]


def _counts(agent: Ids, other: Ids, n_agents: int, n_others: int) -> Floats:
    """How many trials of an agent have each of the others: float[n_agents, n_others]."""
    counts = np.bincount(agent.astype(np.int64) * n_others + other, minlength=n_agents * n_others)
    return np.asarray(counts.reshape(n_agents, n_others), dtype=np.float64)


class PlacedItems(NamedTuple):
    """Of a block's items: contribution, share: float[M, B], what an item does to an agent's ability, and its share in the agent's
    trials."""

    items: slice
    contribution: Floats
    share: Floats


def placed_by_item(
    blocks: AddedBlocks, placed: Placed, *, scale: Scale, anchors: Callable[[slice], Floats]
) -> Callable[[], Iterator[PlacedItems]]:
    """What each item contributes to the ability of a placed agent less the anchors' mean, over items of the kind.

    U_ij = stretch·[Σ_{t on j} (r_t − effect_i)/n_i − q_j·(1 − Σ_l p_il·level_l/r̄_l)·r̄_j] − Σ_k p_ik·U_kj, r as in `place`, p_il
    and p_ik the shares of item l and anchor k in i's trials, q_j that of item j in the anchors', r̄_j its mean residual there.
    So an item's level cancels as far as it is known or met alike, and what an item did to the anchors moves whom they placed.

    anchors: U_kj on some items, float[K0, B].
    """
    n_agents, n = len(placed.effect), np.maximum(placed.n_trials, 1)[:, None]
    trust = np.divide(scale.level, scale.residual, out=np.zeros(len(scale.level)), where=scale.residual != 0)
    trusted, stretch = np.zeros(n_agents), stretch_of(len(scale.effect))
    for items, block in _with_items(blocks()):
        trusted += _counts(block.agent, block.item, n_agents, block.n_items) / n @ trust[items]

    def moves() -> Iterator[PlacedItems]:
        for items, block in _with_items(blocks()):
            residual = _beyond(block, items, scale) - placed.effect[block.agent]
            cell = block.agent.astype(np.int64) * block.n_items + block.item
            own = np.bincount(cell, residual, n_agents * block.n_items).reshape(n_agents, block.n_items) / n
            centre = (1 - trusted)[:, None] * scale.share[items] * scale.residual[items]
            of_anchors = anchors(items)
            found = stretch * (own - centre) - placed.partners @ (of_anchors - of_anchors.mean(axis=0))
            found = np.where(placed.n_trials[:, None] > 0, found, 0.0)
            yield PlacedItems(items, found, _counts(block.agent, block.item, n_agents, block.n_items) / n)

    return moves


@dataclass(frozen=True, eq=False)
class Drift(ReadOnly):
    """change: float[K0], of each anchor's effect, new answers less what the scale says, or float[K] of each agent's ability;
    variance: as long; NaN where no new trial tells. level, level_variance: of all answers together, from level_slots slots; NaN
    where fewer than 2 tell.
    """

    change: Floats
    variance: Floats
    level: float
    level_variance: float
    level_slots: int

    @property
    def p(self) -> Floats:
        """Two-sided, of no change, Holm's correction: float[K], NaN where nothing tells."""
        p: Floats = np.full(len(self.change), np.nan)
        known = (self.variance > 0) & ~np.isnan(self.change)
        p[known] = holm(2 * ndtr(-np.abs(self.change[known]) / np.sqrt(self.variance[known])))
        return p

    @property
    def level_p(self) -> float:
        """Student's t, as slots are few."""
        if not self.level_variance > 0:
            return float("nan")
        return float(2 * stdtr(max(self.level_slots - 1, 1), -abs(self.level) / np.sqrt(self.level_variance)))


def drift_in_slots(blocks: Blocks, *, scale: Scale) -> Drift | None:
    """From complete slots of anchors: e = y − centre − effect_i − effect_k − level_j; None without a trial.

    change_i = (K0−1)/(K0−2) × mean of e less its slot's mean, over i's trials; variance = σ²/n_i + var(effect_i), σ² of those
    residuals. level = mean over slots of their mean e, on items the anchors were seen on, with the variance of that mean and of
    the centre.

    blocks: as for `scale_of`, without a level where trials stand in no slot, which then are one slot an item.
    """
    n_anchors, sums, n_slots = len(scale.effect), _MeanSums(len(scale.effect)), 0
    levels = list[Floats]()
    for items, block in _with_items(blocks()):
        known = scale.effect[block.first] + scale.effect[block.second] + scale.level[items][block.item]
        residual = block.value - scale.centre - known
        _, at, size = np.unique(block.levels, return_inverse=True, return_counts=True)
        mean = np.bincount(at, residual) / size
        sums.add(np.append(block.first, block.second), np.tile(residual - mean[at], 2))
        n_slots += len(size)
        levels.append(mean[np.unique(at[scale.share[items][block.item] > 0])])
    if not sums.count:
        return None
    change, variance = sums.means(share=1 - n_slots / (sums.count / 2))
    told = np.concatenate(levels)
    level = level_variance = np.nan
    if len(told) > 1:
        level = float(told.mean())
        level_variance = float(told.var(ddof=1)) / len(told) + scale.centre_variance
    stretch = (n_anchors - 1) / (n_anchors - 2)
    return Drift(stretch * change, stretch**2 * variance + scale.effect_variance, level, level_variance, len(told))


def drift_beside(blocks: AddedBlocks, *, effect: Floats, scale: Scale) -> Drift | None:
    """Of anchors as partners of agents that joined: mean of e = y − centre − effect of the joined − effect_k − level_j, centred.

    Its variance adds, to those of the mean and of effect_k, what pairs have in common: pair_variance·Σ_n (n's share of k's)².
    None without a trial.

    blocks: of the agents that joined; effect: float[M], of all agents, as `place` gives it.
    Raises: StatisticsError [trial-columns], [trial-answer].
    """
    sums, met = _MeanSums(len(scale.effect)), np.zeros((len(scale.effect), len(effect)))
    for items, block in _with_items(blocks()):
        check_trials(block.item, block.agent, block.partner, answer=block.answer)
        sums.add(block.partner, _beyond(block, items, scale) - effect[block.agent])
        met += _counts(block.partner, block.agent, *met.shape)
    if not sums.count:
        return None
    change, variance = sums.means(share=1 - 1 / sums.count, centred=True)
    share = met / np.maximum(met.sum(axis=1, keepdims=True), 1)
    variance += scale.effect_variance + scale.pair_variance * (share**2).sum(axis=1)
    return Drift(change, variance, np.nan, np.nan, 0)


class _MeanSums:
    """Residuals of agents; count: of all."""

    def __init__(self, n_agents: int) -> None:
        self._n, self._total = np.zeros((2, n_agents))
        self._squares, self.count = 0.0, 0

    def add(self, agent: Ids, residual: Floats) -> None:
        K = len(self._n)
        self._n += np.bincount(agent, minlength=K)
        self._total += np.bincount(agent, residual, K)
        self._squares += float((residual**2).sum())
        self.count += len(residual)

    def means(self, *, share: float, centred: bool = False) -> tuple[Floats, Floats]:
        """Mean residual of each agent, and the variance of that mean; NaN without a trial. share: of freedom left to residuals;
        centred: whether the mean of all is taken off."""
        of_all = float(self._total.sum()) / self.count if centred else 0.0
        noise = (self._squares / self.count - of_all**2) / max(share, 1e-9)
        known = self._n > 0
        mean = np.divide(self._total, self._n, out=np.full(len(known), np.nan), where=known) - of_all
        return mean, np.divide(noise, self._n, out=np.full(len(known), np.nan), where=known)
