"""How sure abilities from trials are: over more items of this kind, or against all answers on these items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.nouns import Target
from youden.nouns.arrays import Bools, Floats, Ids
from youden.nouns.cells import CellIndex
from youden.stats.base.clusters import CentredCovariance, covariance_over_cells
from youden.stats.trials.item_contributions import item_contributions
from youden.stats.trials.slot_covariance import covariance_on_these_items

METHODS: dict[Target, str] = {
    "items-like-these": "residuals by item, shrunk variances, Student t",
    "these-items": "residuals by slot less what balance averages out, shrunk variances, Student t, finite population",
}


class ByItem(NamedTuple):
    """What items do to abilities: U_ij and the item's share in i's weight of the cells seen, float[N] each."""

    cells: CellIndex
    contribution: Floats
    share: Floats

    def matrices(self, n_agents: int, n_items: int) -> ItemMatrices:
        """Of so many agents and items, which may be more: 0 where unseen."""
        cells = CellIndex(self.cells.agent, self.cells.item, n_agents, n_items)
        return ItemMatrices(cells.matrix(self.contribution, empty=0.0), cells.matrix(self.share, empty=0.0))


class ItemMatrices(NamedTuple):
    """`ByItem` of every cell: float[K, J] each."""

    contribution: Floats
    share: Floats


class TrialCovariance(NamedTuple):
    """covariance: NaN where there is none; by_item: for items like these only; method: how it was made, or why not."""

    covariance: CentredCovariance
    by_item: ByItem | None
    method: str


def trial_covariance(
    first: Ids,
    second: Ids,
    item: Ids,
    slot: Ids,
    answer: Floats,
    *,
    ability: Floats,
    weight: Floats,
    n_items: int,
    target: Target,
) -> TrialCovariance:
    """Of abilities that are weighted means of trials in slots; weight: float[T] > 0.

    Over items, by `covariance_over_cells` of `item_contributions`; on these items, by `covariance_on_these_items`. NaN where
    a trial has no slot, and where fewer than 3 agents were asked in 2 clusters.
    """
    cluster, name = (item, "items") if target == "items-like-these" else (slot, "slots")
    if (slot < 0).any():
        return _none(len(ability), "there are trials without a slot")
    if _asked_twice(first, second, cluster, n_agents=len(ability)).sum() < 3:
        return _none(len(ability), f"fewer than 3 agents have trials in 2 {name}")
    if target == "these-items":
        found = covariance_on_these_items(
            first,
            second,
            item,
            slot,
            answer,
            ability=ability,
            first_weight=weight,
            second_weight=weight,
            n_items=n_items,
        )
        return TrialCovariance(found, None, METHODS[target])
    of = item_contributions(
        first, second, item, answer, ability=ability, first_weight=weight, second_weight=weight, n_items=n_items
    )
    size = np.bincount(of.cells.agent, of.weight**2 / np.maximum(of.n_trials, 1), len(ability))
    found = covariance_over_cells(of.cells, of.by_item, of.weight, size=np.where(size > 0, size, 1.0))
    return TrialCovariance(found, ByItem(of.cells, of.by_item, of.weight), METHODS[target])


def no_covariance(n_agents: int) -> CentredCovariance:
    """Of agents about whom nothing says how sure they are."""
    return CentredCovariance(np.full((n_agents, n_agents), np.nan), np.full(n_agents, np.nan))


def _none(n_agents: int, why: str) -> TrialCovariance:
    return TrialCovariance(no_covariance(n_agents), None, f"none: {why}")


def _asked_twice(first: Ids, second: Ids, cluster: Ids, *, n_agents: int) -> Bools:
    """Which agents have trials in two clusters: bool[K]."""
    _, at = np.unique(cluster, return_inverse=True)
    seen = np.zeros((n_agents, int(at.max(initial=-1)) + 1), dtype=np.bool_)
    seen[first, at] = seen[second, at] = True
    return np.asarray(seen.sum(axis=1) >= 2)
