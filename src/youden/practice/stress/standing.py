"""Where agents stand by what was answered, in each way of ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from youden.nouns import PAIRED, Pool, Verdicts
from youden.nouns.arrays import Bools, Floats, Ids
from youden.stats.base.ranks import ranks
from youden.stats.robust.links import linked_pairs
from youden.stats.robust.pair_means import pair_means
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


def abilities(result: Verdicts, pool: Pool, *, clones: Sequence[Sequence[str]] = ()) -> dict[str, Floats]:
    """float[K] for each way of ranking, higher is better, NaN for whom nobody that counts has scored.

    plain: every partner counts alike. robust: agents of a cluster of linked pairs, or of clones, do not score each other and
    count as one partner. family-balanced, where agents name a family: the same of families; who names none is one by itself.
    Each is a mean over partners of the mean answer to the pair, items' own means taken off. False positives stay in: they
    shift all alike.

    clones: ids of agents whose texts are the same, group by group.
    """
    plan = result.plan
    used = (plan.arm == PAIRED) & result.answered
    first, second, item, answer = plan.first[used], plan.second[used], plan.item[used], result.answer[used]
    once, K = np.ones(len(answer)), plan.n_agents
    means = pair_means(first, second, item, answer, weight=once, n_agents=K)
    linked = linked_pairs(means, known=_known(clones, plan.agent_ids))
    groups = {"plain": np.arange(K, dtype=np.int32), "robust": linked.cluster}
    family = _families(pool)
    if family is not None:
        groups["family-balanced"] = family

    def scored(group: Ids) -> Floats:
        if len(np.unique(group)) < 2:
            return np.full(K, np.nan)
        partners = group_balanced(group)
        return reweighted(first, second, item, answer, weight=once, partners=partners, n_items=plan.n_items).ability

    return {name: scored(group) for name, group in groups.items()}


def _known(clones: Sequence[Sequence[str]], ids: tuple[str, ...]) -> Bools:
    place = {agent: k for k, agent in enumerate(ids)}
    known = np.zeros((len(ids), len(ids)), dtype=np.bool_)
    for group in clones:
        members = [place[agent] for agent in group]
        known[np.ix_(members, members)] = True
    return known


def _families(pool: Pool) -> Ids | None:
    """int32[K]: the same number for the same `meta.family`; None where fewer than two are named."""
    named = [agent.meta.get("family") for agent in pool.agents]
    families = sorted({str(family) for family in named if family is not None})
    if len(families) < 2:
        return None
    own = iter(range(len(families), len(families) + len(named)))
    return np.array([next(own) if family is None else families.index(str(family)) for family in named], dtype=np.int32)


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
