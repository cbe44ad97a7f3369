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


class Scale:
    """Effects of the anchors, on which other agents are placed, and the levels of items, both with their variances.

    An answer of agents i and k on item j is `centre` + effect_i + effect_k + level_j + noise; `level` is shrunk from the mean
    residuals, `residual`, and `share` is each item's share of the trials. `noise` is the variance of an answer,
    `cell_variance` and `pair_variance` are those of what an agent's answers of a slot, and answers of a pair, have in common.

    Notes
    -----
    An ability is a mean over the other anchors, so its effect is (K−1)/(K−2)·(θ_i − θ̄), 0 for an agent without an ability. The
    level of item j is the mean residual of its n_j trials times σ²_b/(σ²_b + σ²/n_j), with variances by moments; an item
    without trials has level 0.
    """

    def __init__(self, blocks: Blocks, *, ability: Floats, error: Floats, n_items: int) -> None:
        """Fit the scale to the anchors' answers in complete slots, in blocks of items.

        ability, error : float arrays (n_anchors,)
            Abilities and their standard errors.
        """
        K, stretch = len(ability), stretch_of(len(ability))
        centre = self.centre = float(np.nanmean(ability))
        effect = self.effect = np.nan_to_num((ability - centre) / stretch)
        self.effect_variance: Floats = (np.nan_to_num(error) / stretch) ** 2
        n, mean, squares = np.zeros(n_items, dtype=np.int64), np.zeros(n_items), 0.0
        for items, block in _with_items(blocks()):
            residual = block.value - centre - effect[block.first] - effect[block.second]
            n[items] = np.bincount(block.item, minlength=block.n_items)
            mean[items] = np.bincount(block.item, residual, block.n_items) / np.maximum(n[items], 1)
            squares += float(((residual - mean[items][block.item]) ** 2).sum())
        seen, n_trials = n > 0, int(n.sum())
        df = n_trials - int(seen.sum()) - K
        self.noise = squares / df if df > 0 else 0.0
        between = max(0.0, float((mean[seen] ** 2 - self.noise / n[seen]).mean())) if df > 0 else 0.0
        known = between * n + self.noise
        trust = np.divide(between * n, known, out=np.zeros(n_items), where=known > 0)
        self.residual, self.share = mean, n / max(n_trials, 1)
        self.level: Floats = trust * mean
        self.level_variance: Floats = between * (1 - trust)
        product, n_products, pairs = 0.0, 0, np.zeros((3, K, K))
        for items, block in _with_items(blocks()):
            residual = block.value - centre - effect[block.first] - effect[block.second]
            beyond = residual - self.level[items][block.item]
            if block.level is not None:
                twice = by_level(block, np.ones(len(beyond)), K) == 2
                product += float((by_level(block, beyond, K) ** 2 - by_level(block, beyond**2, K))[twice].sum()) / 2
                n_products += int(twice.sum())
            pair = np.minimum(block.first, block.second).astype(np.int64) * K + np.maximum(block.first, block.second)
            columns = (np.ones(len(pair)), beyond, beyond**2)
            pairs += [np.bincount(pair, column, K * K).reshape(K, K) for column in columns]
        self.pair_variance = _pair_variance(*pairs)
        # what an agent's two answers of a slot have in common
        own = self.cell_variance = min(max(0.0, product / n_products), self.noise / 4) if n_products else 0.0
        fpc = float(_left_of_items((self.share**2).sum(), n_items))
        self.centre_variance = (self.noise - 2 * own + 4 * own * fpc) / max(n_trials, 1)


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


class Placed:
    """Effects of agents on the anchors' scale, by the answers that compare them with anchors.

    `effect`, its `variance` (that of linking included), and `linking` alone are NaN without answers; `partners`, float (n_agents,
    n_anchors), has the share of each anchor among an agent's partners. A variance needs answers in 2 slots.

    Notes
    -----
    With r = y − centre − effect_partner − level_item, the effect is the mean of r over an agent's n trials. With E_s the sum
    of r − mean in slot s of S, u = S/(S−1)·ΣE²/n is shrunk as if the anchors' noise had been seen in 6 slots more, and the
    variance is u/n·(1 − n/(2JK)) + linking, with linking = Σ_j (the agent's share of item j − the anchors')²·var(level_j) +
    Σ_k (its share of anchor k − 1/K)²·var(effect_k), plus var(centre) for agents that are no anchors.
    """

    def __init__(self, blocks: AddedBlocks, *, scale: Scale, n_agents: int, finite: bool = True) -> None:
        """Place agents. finite: whether the variance is that on these items alone."""
        n_items, n_anchors = len(scale.level), len(scale.effect)
        n, total, met = np.zeros(n_agents), np.zeros(n_agents), np.zeros((n_agents, n_anchors))
        for items, block in _with_items(blocks()):
            check_trials(block.item, block.agent, block.partner, block.slot, answer=block.answer)
            n += np.bincount(block.agent, minlength=n_agents)
            total += np.bincount(block.agent, _beyond(block, items, scale), n_agents)
            met += _counts(block.agent, block.partner, n_agents, n_anchors)
        self.effect = np.divide(total, n, out=np.full(n_agents, np.nan), where=n > 0)
        of_trials = np.maximum(n, 1)
        self.partners: Floats = met / of_trials[:, None]
        squares, n_slots, linking, item_squares = np.zeros((4, n_agents))
        for items, block in _with_items(blocks()):
            cell, where = np.unique(block.slot.astype(np.int64) * n_agents + block.agent, return_inverse=True)
            owner = cell % n_agents
            off = np.bincount(where, _beyond(block, items, scale) - self.effect[block.agent])
            squares += np.bincount(owner, off**2, n_agents)
            n_slots += np.bincount(owner, minlength=n_agents)
            of_item = _counts(block.agent, block.item, n_agents, block.n_items) / of_trials[:, None]
            linking += (of_item - scale.share[items]) ** 2 @ scale.level_variance[items]
            item_squares += (of_item**2).sum(axis=1)
        variance = np.full(n_agents, np.nan)
        enough = n_slots >= 2
        df = n_slots[enough] - 1
        own = squares[enough] / n[enough] * (df + 1) / df
        variance[enough] = (own * df + _PRIOR_SLOTS * scale.noise) / (df + _PRIOR_SLOTS) / n[enough]
        fpc = np.maximum(0.0, 1 - n / (2 * n_items * n_anchors)) if finite else np.ones(n_agents)
        linking += (self.partners - 1 / n_anchors) ** 2 @ scale.effect_variance
        linking[n_anchors:] += scale.centre_variance
        if finite and scale.cell_variance > 0:
            of_slot = 2 * scale.cell_variance / (scale.noise + scale.cell_variance)
            fpc *= 1 - of_slot + of_slot * _left_of_items(item_squares, n_items)
        self.linking = np.where(n > 0, linking, np.nan)
        self.variance: Floats = variance * fpc + self.linking
        self.n_trials, self.n_slots = n.astype(np.int32), n_slots.astype(np.int32)


def _beyond(block: AddedBlock, items: slice, scale: Scale) -> Floats:
    """Answers beyond what the scale says of partner and item: float[T]."""
    return block.answer - scale.centre - scale.effect[block.partner] - scale.level[items][block.item]


def _counts(agent: Ids, other: Ids, n_agents: int, n_others: int) -> Floats:
    """How many trials of an agent have each of the others: float[n_agents, n_others]."""
    counts = np.bincount(agent.astype(np.int64) * n_others + other, minlength=n_agents * n_others)
    return np.asarray(counts.reshape(n_agents, n_others), dtype=np.float64)


def placed_by_item(
    blocks: AddedBlocks, placed: Placed, *, scale: Scale, anchors: Callable[[slice], Floats]
) -> Callable[[], Iterator[tuple[slice, Floats, Floats]]]:
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

    def moves() -> Iterator[tuple[slice, Floats, Floats]]:
        for items, block in _with_items(blocks()):
            residual = _beyond(block, items, scale) - placed.effect[block.agent]
            cell = block.agent.astype(np.int64) * block.n_items + block.item
            own = np.bincount(cell, residual, n_agents * block.n_items).reshape(n_agents, block.n_items) / n
            centre = (1 - trusted)[:, None] * scale.share[items] * scale.residual[items]
            of_anchors = anchors(items)
            found = stretch * (own - centre) - placed.partners @ (of_anchors - of_anchors.mean(axis=0))
            found = np.where(placed.n_trials[:, None] > 0, found, 0.0)
            yield items, found, _counts(block.agent, block.item, n_agents, block.n_items) / n

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

    blocks: as for `Scale`, without a level where trials stand in no slot, which then are one slot an item.
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
