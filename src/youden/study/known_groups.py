"""Known groups of agents: which ones a ranking should tell apart, and how well it does. Groups are never used in a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.stats.base.metrics import Metric, auc_interval
from youden.streams import own_stream
from youden.study.replaying import World
from youden.types.facts import RankingRow
from youden.types.pool import Bools

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


@dataclass(frozen=True)
class GroupAuc:
    """P(an agent of `above` ranks over one of `below`), ties ½, with an interval over the abilities' uncertainty."""

    above: str
    below: str
    n_above: int
    n_below: int
    auc: Metric


def run_group_aucs(folder: RunFolder, compared: Sequence[tuple[str, str]], *, seed: int = 0) -> list[GroupAuc]:
    """`group_auc` of a fitted run for every (above, below)."""
    ranking, level = folder.read_ranking(), folder.read_facts().level
    return [
        group_auc(ranking, above=above, below=below, level=level, rng=own_stream(seed)) for above, below in compared
    ]


def group_auc(
    ranking: Sequence[RankingRow], *, above: str, below: str, level: float, rng: np.random.Generator
) -> GroupAuc:
    """AUC of the group `above` against the group `below`; agents of other groups, or without an ability, are left out.

    level: that of the ranking's intervals.

    Raises: StatisticsError [auc-one-group] where one of the groups has no ranked agent.
    """
    rows = [row for row in ranking if row.group in (above, below) and row.ability is not None]
    ability, low, high = (
        np.array(ends, dtype=np.float64)
        for ends in ([row.ability for row in rows], [row.low for row in rows], [row.high for row in rows])
    )
    positive = np.array([row.group == above for row in rows], dtype=np.bool_)
    auc = auc_interval(ability, positive, low=low, high=high, level=level, rng=rng)
    return GroupAuc(above, below, int(positive.sum()), int((~positive).sum()), auc)
