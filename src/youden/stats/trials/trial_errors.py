"""What each item contributes to abilities that are means of trials, and how sure differences therefore are: on items of
this kind, or against all answers on *these items*.

An item is one draw. What it does to both agents cancels; what it does to one alone is counted however often the item
was asked. On these items, what a balanced plan averages out is no error: a cyclic plan asks items and ordered pairs
almost equally often, and what an agent has of its own on an item, or two agents as a pair, then falls out of the mean
as far as that goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.run_keys import Target
from youden.stats.base.clusters import (
    NOTHING,
    PRIOR_CLUSTERS,
    Blocks,
    CentredCovariance,
    ItemMoves,
    PairBlock,
    by_cell,
    by_level,
    covariance_of_blocks,
)
from youden.types.pool import Floats, Ids, Positions, ReadOnly


@dataclass(frozen=True, eq=False)
class ItemContributions(ReadOnly):
    """ability: float[K], as given; by_item: float[K, J], U_ij = Σ_{t on j} w_it e_t / Σ_t w_it, 0 where unseen.

    weight: float[K, J], p_ij = Σ_{t on j} w_it / Σ_t w_it; n_trials: float[K, J], whole numbers; within: float[K], the
    variance of an agent's residuals within an item, NaN where no item holds two.
    """

    ability: Floats
    by_item: Floats
    weight: Floats
    n_trials: Floats
    within: Floats


def item_contributions(
    first: Ids,
    second: Ids,
    item: Ids,
    answer: Floats,
    *,
    ability: Floats,
    first_weight: Floats,
    second_weight: Floats,
    n_items: int,
) -> ItemContributions:
    """e = r − r̄_item, r = y − (K−1)/(K−2)·((θ_i−θ̄)+(θ_k−θ̄)), summed by agent and item.

    An ability is a mean over the other agents, hence the factor.
    first, second, item: int[T]; answer: float[T], no NaN; ability: float[K], a linear estimate, NaN where there is none; weights:
    float[T] ≥ 0, what a trial counts for its first and its second agent in it.

    Raises: StatisticsError [difference-agents] with fewer than 3 agents that have an ability.
    """
    n_agents, K = len(ability), int((~np.isnan(ability)).sum())
    if K < 3:
        raise StatisticsError(
            f"{K} agents have abilities; to compare two takes 3. Judge more agents.", slug="difference-agents"
        )
    effect = np.nan_to_num((K - 1) / (K - 2) * (ability - np.nanmean(ability)))
    residual = answer - effect[first] - effect[second]
    times = np.maximum(np.bincount(item, minlength=n_items), 1)
    residual = residual - (np.bincount(item, residual, n_items) / times)[item]
    sides = ((first, first_weight), (second, second_weight))

    def summed(of: Callable[[Floats], Floats]) -> Floats:
        cells = (np.bincount(agent * np.int64(n_items) + item, of(w), n_agents * n_items) for agent, w in sides)
        return np.asarray(sum(cells), dtype=np.float64).reshape(n_agents, n_items)

    share = summed(lambda w: w)
    whole = np.maximum(share.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    n = summed(lambda w: np.asarray(w > 0, dtype=np.float64))
    squares = summed(lambda w: residual**2 * (w > 0))
    squares -= np.divide(summed(lambda w: residual * (w > 0)) ** 2, n, out=np.zeros(n.shape), where=n > 0)
    freedom = np.maximum(n - 1, 0).sum(axis=1)
    within = np.divide(squares.sum(axis=1), freedom, out=np.full(n_agents, np.nan), where=freedom > 0)
    return ItemContributions(ability, summed(lambda w: w * residual) / whole, share / whole, n, np.maximum(within, 0))


class VarianceLeft(NamedTuple):
    """What is left of the two parts of a variance: float[n] each, 1 for all of it."""

    own: Floats
    noise: Floats


def variance_left(slots: Positions, *, now: int, n_items: int) -> VarianceLeft:
    """What `slots` (int[n]) slots of a cyclic design leave of the variance at `now` slots.

    Slot s asks item s mod J: with m_j of S slots on item j, the items' own part goes with Σ(m_j/S)², the noise with 1/S.

    >>> variance_left(np.array([10, 20, 40]), now=10, n_items=20)
    VarianceLeft(own=array([1. , 0.5, 0.5]), noise=array([1.  , 0.5 , 0.25]))
    """
    full, more = np.divmod(np.append(now, slots).astype(np.float64), n_items)
    squares = (n_items - more) * full**2 + more * (full + 1) ** 2
    own = squares / np.append(now, slots) ** 2.0
    return VarianceLeft(own[1:] / own[0], now / slots)


METHODS: dict[Target, str] = {
    "items-like-these": "residuals by item, shrunk variances, Student t",
    "these-items": "residuals by slot less what balance averages out, shrunk variances, Student t, finite population",
}
METHODS["items-and-judges"] = METHODS["items-like-these"]


class TrialMeans(NamedTuple):
    """ability: float[K], mean answers, NaN without a trial; weight: float[K], trials; covariance: of the θ_i − θ̄, NaN where there
    is none; method: how it was made, or why not. moves: what items do to means, in blocks."""

    ability: Floats
    weight: Floats
    covariance: CentredCovariance
    method: str
    moves: Callable[[], Iterator[ItemMoves]]


def trial_means(blocks: Blocks, *, n_agents: int, target: Target) -> TrialMeans:
    """Mean answers, and how sure their distances from the average one are.

    Over items, by `covariance_of_blocks` of what items do: U_ij = Σ_{t on j} e_t/n_i, e = r − r̄_item as in `item_contributions`;
    on these items, by `covariance_on_these_items`. NaN where fewer than 3 agents were asked in 2 clusters.

    blocks: all answers, with all items, each of weight 1, each time it is called; their levels are slots where target is
    `these-items`, all of a slot in one block.

    Raises: StatisticsError [slot-missing]; [trial-agent] if the blocks have other agents; [trial-target].
    Source: none in the paper; project statistics, designs over calls. A plan with its false positives: `youden.rank`.

    >>> first, second, item = np.array([0, 1, 2, 0, 1, 2]), np.array([1, 2, 0, 2, 0, 1]), np.array([0, 0, 0, 1, 1, 1])
    >>> block = PairBlock.of(item, first, second, np.array([1.0, 0.0, 0.5, 1.0, 1.0, 0.0]), n_items=2)
    >>> found = trial_means(lambda: [block], n_agents=3, target="items-like-these")
    >>> found.ability.tolist(), found.covariance.half_width().round(2).tolist()
    ([0.875, 0.5, 0.375], [0.13, 0.15, 0.13])
    """
    if target not in METHODS:
        raise StatisticsError(
            f"The target is unknown: got '{target}'. Pass one of: {', '.join(METHODS)}.",
            slug="trial-target",
        )
    n, total, squares = np.zeros((3, n_agents))
    n_clusters = np.zeros(n_agents, dtype=np.int64)
    n_items = 0
    these, name = target == "these-items", "slots" if target == "these-items" else "items"
    for block in blocks():
        _check_agents(block, n_agents)
        n_items += block.n_items
        times = by_cell(block, block.weight, n_agents)
        in_clusters = by_level(block, block.weight, n_agents) if these else times
        n += times.sum(axis=1)
        total += by_cell(block, block.value, n_agents).sum(axis=1)
        squares += (times**2).sum(axis=1)
        n_clusters += (in_clusters > 0).sum(axis=1)
    mean = np.divide(total, n, out=np.full(n_agents, np.nan), where=n > 0)
    whole = np.maximum(n, 1)
    moves = partial(_moves_of_means, blocks, mean, whole)
    if (n_clusters >= 2).sum() < 3:
        why = f"none: fewer than 3 agents have trials in 2 {name}"
        return TrialMeans(mean, n, nothing_known(n_agents), why, moves)
    if these:
        covariance = covariance_on_these_items(blocks, ability=mean, n_items=n_items)
    else:
        covariance = covariance_of_blocks(
            ((one.by_item, one.weight / whole[:, None]) for one in moves()),
            n_clusters=n_clusters,
            share_squares=squares / whole**2,
            size=1 / whole,
        )
    return TrialMeans(mean, n, covariance, METHODS[target], moves)


def _check_agents(block: PairBlock, n_agents: int) -> None:
    """Raise StatisticsError [trial-agent] unless all agents are positions below `n_agents`."""
    for side in (block.first, block.second):
        if len(side) and not 0 <= side.min() <= side.max() < n_agents:
            raise StatisticsError(
                f"Agents must be positions below n_agents: got {side.min()} to {side.max()} for {n_agents} agents. "
                "Pass the number of agents that the trials were drawn for.",
                slug="trial-agent",
            )


def nothing_known(n_agents: int) -> CentredCovariance:
    """Of agents about whom nothing says how sure they are."""
    return CentredCovariance(np.full((n_agents, n_agents), np.nan), np.full(n_agents, np.nan))


def _moves_of_means(blocks: Blocks, mean: Floats, whole: Floats) -> Iterator[ItemMoves]:
    K = int((~np.isnan(mean)).sum())
    effect = np.nan_to_num((K - 1) / (K - 2) * (mean - np.nanmean(mean)))
    for block in blocks():
        e = block.value - effect[block.first] - effect[block.second]
        times = np.maximum(np.bincount(block.item, minlength=block.n_items), 1)
        e -= (np.bincount(block.item, e, block.n_items) / times)[block.item]
        moved = by_cell(block, e, len(mean)) / whole[:, None]
        yield ItemMoves(moved, moved, by_cell(block, block.weight, len(mean)))


_PRIOR_PRODUCTS = 100
"""An agent's own parts are shrunk as if the average ones had been seen in this many products more."""
_ENOUGH = 2
"""Products of one ordered pair on two items, in number of agents, below which the pairs' part is not told from chance."""


def covariance_on_these_items(blocks: Blocks, *, ability: Floats, n_items: int) -> CentredCovariance:
    """C of `covariance_over_clusters` by slot, correlations kept, its variances v_i made

    l_i·(τ²_i − σ²c_i − σ²g_i)/n_i + σ²c_i·Σ_j(w_ij − 1/J)² + σ²g_i·(Σ_p w_ip² − 1/P), at least l_i·v_i/4 and at most v_i;
    l_i = 1 − n_i/(PJ + 1), n_i trials of i, P = 2(K−1); w_ij, w_ip: shares of item j, of ordered pair p in them.
    τ²_i: the mean square of i's residuals, shrunk as v_i is. σ²c_i: mean product of i's two residuals of a slot, σ²g_i: of those
    of one ordered pair of i's on two items, both shrunk to τ²_i/τ̄² times the average. v_i·n_i is τ²_i + σ²c_i on average, and
    also holds what two pairs of a shift have in common by chance, again in each slot of that shift. σ²g_i is 0 where fewer than
    2K products of pairs exist: what pairs have of their own then counts as chance. Plain form, l_i·v_i: where no slot holds an
    agent twice.

    Residuals as in `item_contributions`, centred in their slot. blocks: answers whose levels are slots, all of a slot in one
    block, each time it is called; all weigh 1. ability: float[K], their means, NaN without a trial.

    Raises: StatisticsError [slot-missing] for trials without slots, [cluster-agents].
    Source: none in the paper; project statistics, designs over calls.
    """
    sums = _SlotSums(ability)
    for block in blocks():
        sums.add(block)
    n = np.maximum(sums.n, 1)
    found = covariance_of_blocks(
        sums.contributions(blocks()), n_clusters=sums.n_slots, share_squares=sums.slot_squares / n**2, size=1 / n
    )
    variance = np.diag(found.covariance)
    P = 2 * max(int((sums.n > 0).sum()) - 1, 1)
    left = np.maximum(0.0, 1 - n / (P * n_items + 1))
    a_trial = _variance_of_a_trial(sums.squares / n, freedom=found.freedom)
    parts = sums.parts(relative=a_trial / max(float(np.nanmean(a_trial)), NOTHING))
    if parts is None:
        return found.scaled(left)
    of_item = sums.item_squares / n**2 - 1 / n_items
    of_pair = np.maximum(((sums.pairs[0] ** 2).sum(axis=1) + (sums.pairs[0] ** 2).sum(axis=0)) / n**2 - 1 / P, 0)
    cell, pair = parts
    remaining = left * (a_trial - cell - pair) / n + cell * of_item + pair * of_pair
    return found.scaled(np.clip(remaining / variance, left / 4, 1))


class _SlotSums:
    """What the residuals of trials in slots are made of; blocks of other slots add up.

    n, n_slots: of each agent's trials; squares: Σe²; slot_squares, item_squares: Σ of its squared numbers of trials in a slot,
    on an item. products: float[2, K], of an agent's two residuals of a slot, their sum and number. pairs: float[3, K, K], trials
    of ordered pairs, Σe, Σe².
    """

    def __init__(self, ability: Floats) -> None:
        K, known = len(ability), int((~np.isnan(ability)).sum())
        self._effect = np.nan_to_num((known - 1) / max(known - 2, 1) * (ability - np.nanmean(ability)))
        self.n, self.squares, self.slot_squares, self.item_squares = np.zeros((4, K))
        self.n_slots = np.zeros(K, dtype=np.int64)
        self.products, self.pairs = np.zeros((2, K)), np.zeros((3, K, K))
        self._shared = np.zeros(2)

    def add(self, block: PairBlock) -> None:
        if block.level is None:
            raise StatisticsError(
                f"{len(block.value)} trials have no slot. Take the covariance of cells for such a plan.",
                slug="slot-missing",
            )
        K, e = len(self.n), self._residuals(block)
        ones = np.ones(len(e))
        in_slots, on_items = by_level(block, ones, K), by_cell(block, ones, K)
        self.n += in_slots.sum(axis=1)
        self.n_slots += (in_slots > 0).sum(axis=1)
        self.slot_squares += (in_slots**2).sum(axis=1)
        self.item_squares += (on_items**2).sum(axis=1)
        squares = by_level(block, e**2, K)
        self.squares += squares.sum(axis=1)
        products = by_level(block, e, K) ** 2 - squares, in_slots * (in_slots - 1)
        self.products += [column.sum(axis=1) / 2 for column in products]
        pair = block.first.astype(np.int64) * K + block.second
        self.pairs += [np.bincount(pair, column, K * K).reshape(K, K) for column in (ones, e, e**2)]
        self._shared += (1 / np.bincount(block.level)).sum(), block.level.max(initial=-1) + 1

    def contributions(self, blocks: Iterable[PairBlock]) -> Iterator[tuple[Floats, Floats]]:
        """What a slot does to agents, and its share in their trials, block by block."""
        K, n = len(self.n), np.maximum(self.n, 1)[:, None]
        for block in blocks:
            yield by_level(block, self._residuals(block), K) / n, by_level(block, np.ones(len(block.value)), K) / n

    def _residuals(self, block: PairBlock) -> Floats:
        r, slot = block.value - self._effect[block.first] - self._effect[block.second], block.levels
        return np.asarray(r - (np.bincount(slot, r) / np.bincount(slot))[slot])

    def parts(self, *, relative: Floats) -> tuple[Floats, Floats] | None:
        """None where no slot holds an agent twice; no pairs' part where too few products tell it. relative: float[K], τ²_i/τ̄²."""
        K, (cell, n_cell), (n, total, squares) = len(self.n), self.products, self.pairs
        if not n_cell.any():
            return None
        # centring makes two residuals of a slot of m trials differ by −variance/m on average
        centring = float(squares.sum() / n.sum() * self._shared[0] / self._shared[1])
        own = _shrunk(cell, n_cell, relative, more=centring)
        pair, n_pair = (total**2 - squares) / 2, n * (n - 1) / 2
        if n_pair.sum() < _ENOUGH * K:
            return own, np.zeros(K)
        total, n = (table.sum(axis=0) + table.sum(axis=1) for table in (pair, n_pair))
        return own, _shrunk(total, n, relative, more=0.0)


def _variance_of_a_trial(own: Floats, *, freedom: Floats) -> Floats:
    """Agents' mean squared residuals, shrunk to that of all as variances by slot are, NaN where they are: float[K]."""
    n_slots = freedom - PRIOR_CLUSTERS + 1
    own = own * n_slots / (n_slots - 1)
    return np.asarray((own * (n_slots - 1) + PRIOR_CLUSTERS * np.nanmean(own)) / freedom)


def _shrunk(total: Floats, n: Floats, relative: Floats, *, more: float) -> Floats:
    average = max(0.0, float(total.sum() / n.sum()) + more)
    own = total + n * more + _PRIOR_PRODUCTS * average * np.nan_to_num(relative)
    return np.asarray(np.maximum(own / (n + _PRIOR_PRODUCTS), 0.0))
