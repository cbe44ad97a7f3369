"""Where agents stand by what was answered, in each way of ranking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.nouns import PAIRED, Verdicts
from youden.nouns.arrays import Bools, Floats
from youden.stats.base.ranks import ranks


@dataclass(frozen=True)
class Landing:
    """Where a ranking puts the planted agents, and what it does to the others.

    place: of the best of them, 1 is first, half places are ties; of: how many places there are, the weak agent's taken by them.
    shift: places that another agent moves among the others, in the mean; most, moved: the largest move, and whose.
    """

    place: float
    of: int
    shift: float
    most: float
    moved: str | None


def abilities(result: Verdicts) -> dict[str, Floats]:
    """float[K] for each way of ranking, higher is better, NaN without a trial.

    plain: the mean over partners of the mean answer to the pair, items' own means taken off. False positives shift all alike
    and stay in.
    """
    return {"plain": pair_mean_abilities(result)}


def pair_mean_abilities(result: Verdicts) -> Floats:
    """float[K]: the mean over partners of m_ik, the mean answer to the pair less its items' means."""
    plan = result.plan
    used = (plan.arm == PAIRED) & result.answered
    item, answer = plan.item[used], result.answer[used]
    n_item = np.maximum(np.bincount(item, minlength=plan.n_items), 1)
    rest = answer - (np.bincount(item, answer, plan.n_items) / n_item)[item]
    first, second = plan.first[used].astype(np.int64), plan.second[used].astype(np.int64)
    K = plan.n_agents
    pair = np.append(first * K + second, second * K + first)
    n = np.bincount(pair, minlength=K * K).reshape(K, K)
    total = np.bincount(pair, np.tile(rest, 2), K * K).reshape(K, K)
    mean = np.divide(total, n, out=np.zeros((K, K)), where=n > 0)
    met = (n > 0).sum(axis=1)
    return np.divide(mean.sum(axis=1), met, out=np.full(K, np.nan), where=met > 0)


def land(before: Floats, after: Floats, *, weak: int, ids: tuple[str, ...]) -> Landing:
    """before: float[K], without the attack; after: float[K + m], the planted agents last. ids: of the K."""
    K = len(before)
    others = np.arange(K) != weak
    others &= ~(np.isnan(before) | np.isnan(after[:K]))
    best = float(np.nanmax(after[K:]))
    above = int((after[:K][others] > best).sum())
    equal = int((after[:K][others] == best).sum())
    moved = np.abs(ranks(before[others]) - ranks(after[:K][others]))
    most = int(np.argmax(moved))
    named = [ids[k] for k in np.flatnonzero(others)]
    return Landing(
        place=1 + above + equal / 2,
        of=int(others.sum()) + 1,
        shift=float(moved.mean()),
        most=float(moved[most]),
        moved=named[most] if moved[most] > 0 else None,
    )


def place_of(ability: Floats, agent: int) -> float:
    """An agent's place, 1 is first; NaN without an ability."""
    known: Bools = ~np.isnan(ability)
    if not known[agent]:
        return float("nan")
    return float(ranks(ability[known])[int(known[:agent].sum())])
