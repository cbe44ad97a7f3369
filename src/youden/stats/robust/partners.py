"""How much each agent counts as a partner that scores another: clusters, families, or a trusted panel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.arrays import Bools, Floats, Ids, freeze


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
