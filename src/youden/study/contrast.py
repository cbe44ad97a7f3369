"""Which known groups a study's AUC tells apart. Groups are never used in a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from youden.errors import ConfigError
from youden.nouns.arrays import Bools
from youden.study.replay import World

PAPER_ABOVE = ("faithful",)
PAPER_BELOW = ("strategic", "low-effort")


@dataclass(frozen=True, eq=False)
class Contrast:
    """positive, negative: bool[K], disjoint; agents of no group are in neither."""

    positive: Bools
    negative: Bools


def contrast(
    world: World, *, above: Sequence[str] = PAPER_ABOVE, below: Sequence[str] = PAPER_BELOW
) -> Contrast | None:
    """The paper's contrast by default, faithful against strategic and low effort; None where the run names no such groups.

    Raises: ConfigError [groups] where groups other than the defaults are asked for and one side has no agent, or both share one.
    """
    names = np.array([world.groups.get(agent.id) or "" for agent in world.pool.agents])
    positive, negative = np.isin(names, above), np.isin(names, below)
    if (positive & negative).any():
        raise ConfigError(f"The groups {list(above)} and {list(below)} overlap. Give disjoint ones.", slug="groups")
    if positive.any() and negative.any():
        return Contrast(positive, negative)
    if (tuple(above), tuple(below)) == (PAPER_ABOVE, PAPER_BELOW):
        return None
    known = ", ".join(sorted({str(name) for name in names if name})) or "none"
    raise ConfigError(
        f"No agent is in {list(above)}, or none in {list(below)}. The run's groups: {known}.", slug="groups"
    )
