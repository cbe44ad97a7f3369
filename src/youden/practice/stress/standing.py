"""Where agents stand by what was answered, in each way of ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from youden.nouns import PAIRED, Verdicts
from youden.nouns.arrays import Floats, Ids
from youden.run.robust.rules import family_labels
from youden.run.robust.standings import PairedAnswers, links_of
from youden.stats.base.ranks import ranks
from youden.stats.robust.partners import group_balanced
from youden.stats.robust.reweighted import reweighted


@dataclass(frozen=True)
class Landing:
    """Where a ranking puts the planted agents, and what it does to the others.

    place: of the best of them, 1 is first, half places are ties; of: how many places there are, the weak agent's taken by them.
    shift: places that another agent moves among the others, in the mean; most, moved: the largest move, and whose.
    """

    place: float
    of: int
    shift: float
    most: int
    moved: str | None


def abilities(
    result: Verdicts, *, families: Mapping[str, str], clones: Sequence[Sequence[str]] = ()
) -> dict[str, Floats]:
    """float[K] for each way of ranking, higher is better, NaN for whom nobody that counts has scored.

    plain: every partner counts alike. robust: agents of a cluster of linked pairs, or of clones, do not score each other and
    count as one partner. family-balanced, where there are two families: the same of families; who has none is one by itself.
    Each is a mean over partners of the mean answer to the pair, items' own means taken off. False positives stay in: they
    shift all alike.

    families: by agent. clones: ids of agents whose texts are the same, group by group.
    """
    plan = result.plan
    used = (plan.arm == PAIRED) & result.answered
    once = np.ones(int(used.sum()))
    of = PairedAnswers(plan.first[used], plan.second[used], plan.item[used], result.answer[used], once)
    groups = {"plain": np.arange(plan.n_agents, dtype=np.int32)}
    groups["robust"] = links_of(of, plan.agent_ids, clones=clones).cluster
    if len(set(families.values())) > 1:
        groups["family-balanced"] = family_labels(families, plan.agent_ids)
    return {name: _scored(of, group, n_items=plan.n_items) for name, group in groups.items()}


def _scored(of: PairedAnswers, group: Ids, *, n_items: int) -> Floats:
    if len(np.unique(group)) < 2:
        return np.full(len(group), np.nan)
    partners = group_balanced(group)
    return reweighted(
        of.first, of.second, of.item, of.value, weight=of.weight, partners=partners, n_items=n_items
    ).ability


def land(before: Floats, after: Floats, *, weak: int, ids: tuple[str, ...]) -> Landing | None:
    """before: float[K], without the attack; after: float[K + m], the planted agents last. ids: of the K.

    None where nothing ranks them, as where all agents are linked to each other.
    """
    K = len(before)
    others = (np.arange(K) != weak) & ~np.isnan(before) & ~np.isnan(after[:K])
    known = after[K:][~np.isnan(after[K:])]
    if not len(known) or not others.any():
        return None
    best, rest = known.max(), after[:K][others]
    moved = np.abs(ranks(before[others]) - ranks(rest))
    most = int(np.argmax(moved))
    return Landing(
        place=1 + int((rest > best).sum()) + int((rest == best).sum()) / 2,
        of=int(others.sum()) + 1,
        shift=float(moved.mean()),
        most=int(moved[most]),
        moved=ids[int(np.flatnonzero(others)[most])] if moved[most] > 0 else None,
    )


def place_of(ability: Floats, agent: int) -> int | None:
    """An agent's place, 1 is first; None where nothing ranks it."""
    return None if np.isnan(ability[agent]) else int(ranks(ability)[agent])
