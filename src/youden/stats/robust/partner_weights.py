"""Abilities where partners do not all count alike: clusters as one, families balanced, or a trusted panel, by an
additive fit in which each agent is scored by its own weighted partners.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.cells import touched_cells
from youden.nouns.pool import Bools, Floats, Ids, freeze
from youden.stats.base.clusters import CentredCovariance, covariance_of_blocks
from youden.stats.base.estimator import check_trials
from youden.stats.robust.linked_agents import item_effects


@dataclass(frozen=True, eq=False)
class Partners:
    """weight: float[K, K] ≥ 0, how much agent k (column) counts where agent i (row) is scored, 0 on the diagonal.

    importance: float[K], how much k counts in general.
    """

    weight: Floats
    importance: Floats

    def __post_init__(self) -> None:
        freeze([self.weight, self.importance])


def all_partners(n_agents: int) -> Partners:
    """Everybody scores everybody else alike, as the plain ranking has it."""
    return Partners(1.0 - np.eye(n_agents), np.ones(n_agents))


def group_balanced(group: Ids) -> Partners:
    """Agents of one group do not score each other, and count together as one partner.

    group: int[K], of clusters or families.

    Raises: StatisticsError [one-group] where all agents are of one group.

    >>> group_balanced(np.array([0, 0, 1])).weight
    array([[0. , 0. , 1. ],
           [0. , 0. , 1. ],
           [0.5, 0.5, 0. ]])
    """
    _, label, size = np.unique(group, return_inverse=True, return_counts=True)
    if len(size) < 2:
        raise StatisticsError(
            f"All {len(group)} agents are of one group, so nobody is left to score them. Name two groups or more.",
            slug="one-group",
        )
    importance = 1.0 / size[label]
    return Partners(np.where(label[:, None] == label, 0.0, importance), importance)


def panel(trusted: Bools) -> Partners:
    """Everybody is scored by the trusted agents alone, and these by each other. trusted: bool[K].

    Raises: StatisticsError [panel-small] with fewer than 2 agents.
    """
    if trusted.sum() < 2:
        raise StatisticsError(
            f"A panel of {int(trusted.sum())} cannot score its own members. Trust 2 agents or more.", slug="panel-small"
        )
    weight = np.tile(trusted.astype(np.float64), (len(trusted), 1))
    np.fill_diagonal(weight, 0.0)
    return Partners(weight, trusted.astype(np.float64))


@dataclass(frozen=True, eq=False)
class Reweighted:
    """ability: float[K], on the scale of a mean over K − 1 partners, NaN for whom nobody that counts has scored.

    effect: float[K], the a_i behind it; covariance: over items, of the θ_i − θ̄.
    """

    ability: Floats
    effect: Floats
    covariance: CentredCovariance

    def __post_init__(self) -> None:
        freeze([self.ability, self.effect])


def reweighted(
    first: Ids, second: Ids, item: Ids, value: Floats, *, weight: Floats, partners: Partners, n_items: int
) -> Reweighted:
    """a solves Σ_k W_ik Σ_{t of i and k} w_t (y_t − a_i − a_k) = 0 for each i, y less its item's mean; θ_i = (K−2)/(K−1)·a_i + c.

    c = K/(K−1) times the mean of a, agents weighing by their importance. With all partners alike this is the mean over partners.
    What partners an agent has moves it no more than they are worth: their own effects are taken off. Items enter by
    what each does to the a_i, carried through the equations.

    first, second, item: int[T]; value: float[T]; weight: float[T] ≥ 0, how many answers a row stands for.

    Raises: StatisticsError [trial-columns], [trial-answer], [cluster-agents].
    """
    check_trials(first, second, item, answer=value)
    K = len(partners.importance)
    y = value - item_effects(item, value, weight)
    agent, partner = np.append(first, second), np.append(second, first)
    rows, both = np.tile(item, 2), np.tile(y, 2)
    times = np.tile(weight, 2)
    w = partners.weight[agent, partner] * times
    total = np.bincount(agent, w, K)
    scored = total > 0
    if scored.sum() < 3:
        raise StatisticsError(
            f"{int(scored.sum())} agents were compared with partners that count; abilities need 3. Let more partners count, or "
            "judge more pairs.",
            slug="partners-none",
        )
    share_of = np.divide(w, total[agent], out=np.zeros(len(w)), where=scored[agent])
    system = np.bincount(agent.astype(np.int64) * K + partner, share_of, K * K).reshape(K, K) + np.diag(scored * 1.0)
    inverse = np.linalg.pinv(system, rcond=1e-8)
    effect = inverse @ np.bincount(agent, share_of * both, K)
    stretch = (K - 2) / (K - 1)
    known = scored * partners.importance
    level = K / (K - 1) * float(known @ effect / known.sum()) if known.any() else 0.0
    ability = np.where(scored, stretch * effect + level, np.nan)
    # What is left of each answer, and of it what its item does to all: only differences between agents are wanted.
    cells, (row,) = touched_cells(rows, agent, n_agents=K, n_items=n_items)
    left = both - effect[agent] - effect[partner]
    moved, share, n = (
        np.bincount(row, of, len(cells)).astype(np.float64) for of in (share_of * left, share_of, times * (w > 0))
    )
    size = np.bincount(cells.agent, share**2 / np.maximum(n, 1), K)
    carried = np.where(scored[:, None], stretch * inverse, 0.0)
    covariance = covariance_of_blocks(
        ((carried @ of_item, share_of_item) for of_item, share_of_item in cells.blocks(moved, share)),
        n_clusters=np.bincount(cells.agent[share > 0], minlength=K),
        share_squares=np.bincount(cells.agent, share**2, K).astype(np.float64),
        size=np.where(size > 0, size, 1.0),
    )
    return Reweighted(ability, np.where(scored, effect, np.nan), covariance)
