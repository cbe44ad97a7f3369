"""Measure how well a ranking separates known groups of agents.

Groups are used for evaluation only, never in a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.stats.base.auc import auc_measurement_interval
from youden.stats.base.metrics import Metric
from youden.streams import standalone_stream
from youden.study.replaying import RecordedAnswers
from youden.types.facts import RankingRow
from youden.types.pool import Bools

PAPER_ABOVE = ("faithful",)
PAPER_BELOW = ("strategic", "low-effort")


@dataclass(frozen=True, eq=False)
class Contrast:
    """Agents of two groups that a ranking should separate.

    Attributes
    ----------
    positive, negative : bool array (n_agents,)
        Agents that should rank above, and below; disjoint.
    """

    positive: Bools
    negative: Bools


def find_contrast(
    recorded: RecordedAnswers, *, above: Sequence[str] = PAPER_ABOVE, below: Sequence[str] = PAPER_BELOW
) -> Contrast | None:
    """Find the agents of two sets of groups. A good ranking places all agents of the first set above the second set.

    Parameters
    ----------
    recorded : RecordedAnswers
        Answers of a run, with the groups of its agents.
    above, below : sequence of str
        Groups that should rank above, and groups that should rank below. Default: the groups of the paper, "faithful"
        above "strategic" and "low-effort".

    Returns
    -------
    Contrast or None
        Masks `positive` and `negative` of the agents of the two sets, bool arrays (n_agents,). None if a set has no agent and
        both sets are the default, because most runs do not have the groups of the paper.

    Raises
    ------
    ConfigError
        [groups] if a group is in both sets. Also if a set has no agent, unless both sets are the default.
    """
    group_by_position = np.array([recorded.groups.get(agent.id) or "" for agent in recorded.pool.agents])
    is_above = np.isin(group_by_position, above)
    is_below = np.isin(group_by_position, below)
    if (is_above & is_below).any():
        raise ConfigError(
            f"The groups overlap: got {list(above)} and {list(below)}. Set disjoint groups.", slug="groups"
        )
    if is_above.any() and is_below.any():
        return Contrast(positive=is_above, negative=is_below)

    are_defaults = (tuple(above), tuple(below)) == (PAPER_ABOVE, PAPER_BELOW)
    if are_defaults:
        return None
    choices = ", ".join(sorted({str(name) for name in group_by_position if name})) or "none"
    raise ConfigError(
        f"No agent is in {list(above)}, or none in {list(below)}. Set groups of this run: {choices}.", slug="groups"
    )


@dataclass(frozen=True)
class GroupAuc:
    """Probability that an agent of one group ranks above one of another.

    Attributes
    ----------
    above, below : str
        The groups.
    n_above, n_below : int
        Ranked agents in each.
    auc : Metric
        The probability, ties counted half, with an interval that covers the uncertainty of the abilities.
    """

    above: str
    below: str
    n_above: int
    n_below: int
    auc: Metric


def compute_group_aucs(folder: RunFolder, pairs: Sequence[tuple[str, str]]) -> list[GroupAuc]:
    """Compute how well the ranking of a run separates pairs of groups.

    Parameters
    ----------
    folder : RunFolder
        A fitted run.
    pairs : sequence of (str, str)
        Groups (above, below).

    Returns
    -------
    list of GroupAuc
        One per pair, in the order of `pairs`: the probability that an agent of the first group ranks above an agent of the
        second one, with its interval.

    Raises
    ------
    StatisticsError
        [auc-one-group] if a group has no ranked agent, for example because no agent has this group.
    RunFolderError
        If the run is not fitted, or a file is damaged.
    """
    ranking, level = folder.read_ranking(), folder.read_facts().level
    return [
        compute_group_auc(ranking, above=above, below=below, level=level, rng=standalone_stream(0))
        for above, below in pairs
    ]


def compute_group_auc(
    ranking: Sequence[RankingRow], *, above: str, below: str, level: float, rng: np.random.Generator
) -> GroupAuc:
    """Compute the probability that a random agent of one group ranks above a random agent of another: the AUC.

    Agents of other groups and agents without an ability are left out.

    ranking : rows of a ranking, with groups and intervals
    above, below : names of the two groups
    level : confidence level of the intervals in the ranking and of the interval of the AUC, in (0, 1)
    rng : random generator. The interval of the AUC is computed from normal draws of the abilities.

    Returns the AUC with its interval, and the numbers of agents of both groups. The bounds are NaN if an ability has no
    interval, or if nearly all draws give the same AUC, as for clearly separated groups.

    Raises StatisticsError: [auc-one-group] if a group has no ranked agent; [level] unless 0 < level < 1; [interval-order] if a
        lower bound of an ability exceeds its upper bound.
    """
    rows = [row for row in ranking if row.group in (above, below) and row.ability is not None]
    ability = np.array([row.ability for row in rows], dtype=np.float64)
    low = np.array([row.low for row in rows], dtype=np.float64)
    high = np.array([row.high for row in rows], dtype=np.float64)
    is_above = np.array([row.group == above for row in rows], dtype=np.bool_)
    auc = auc_measurement_interval(ability, is_above, low=low, high=high, level=level, rng=rng)
    return GroupAuc(above, below, int(is_above.sum()), int((~is_above).sum()), auc)
