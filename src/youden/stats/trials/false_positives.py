"""Which agents and pairs get more yeses on unrelated texts than the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from youden.nouns.arrays import Bools, Floats, Ids, Positions
from youden.stats.base.validation import check_level


@dataclass(frozen=True)
class Alarm:
    """agents: one position, or two of a pair. n_yes of its n independent trials; p_value against `rate`, that of all others."""

    agents: tuple[int, ...]
    n_yes: int
    n: int
    rate: float
    p_value: float


def false_positive_alarms(
    first: Ids, second: Ids, yes: Bools, *, n_agents: int, level: float = 0.95
) -> tuple[Alarm, ...]:
    """Agents, then unordered pairs, whose yeses exceed twice the others' rate and chance, at `level` over all of one kind.

    P(X ≥ n_yes), X binomial(n, rate), rate = (yeses of trials without it + ½)/(their number + 1); below (1 − level) over the
    number tested (Bonferroni). A pair counts only where neither of its agents has an alarm. 1 yes alone never raises one.

    first, second: int[T] of independent trials; yes: bool[T].

    Raises: StatisticsError [level].
    """
    low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second)
    pairs, place = np.unique(low * n_agents + high, return_inverse=True)
    n = np.bincount(place, minlength=len(pairs))
    n_yes = np.bincount(place, weights=yes, minlength=len(pairs)).astype(np.int64)
    return alarms_of_pairs(pairs // n_agents, pairs % n_agents, n, n_yes, n_agents=n_agents, level=level)


def alarms_of_pairs(
    low: Positions, high: Positions, n: Positions, n_yes: Positions, *, n_agents: int, level: float = 0.95
) -> tuple[Alarm, ...]:
    """`false_positive_alarms` from one row an unordered pair: its agents, its trials and its yeses, int64[P] each.

    Raises: StatisticsError [level].
    """
    check_level(level)
    agent, of_all = np.append(low, high), (int(n.sum()), int(n_yes.sum()))
    tested = _test(_summed(agent, n, n_agents), _summed(agent, n_yes, n_agents), *of_all)
    alarms = [Alarm((int(i),), *found) for i, found in _raised(tested, 1 - level)]
    rung = {alarm.agents[0] for alarm in alarms}
    for row, found in _raised(_test(n, n_yes, *of_all), 1 - level):
        both = int(low[row]), int(high[row])
        if not rung & set(both):
            alarms.append(Alarm(both, *found))
    return tuple(alarms)


def _summed(agent: Positions, of_pair: Positions, n_agents: int) -> Positions:
    return np.bincount(agent, weights=np.tile(of_pair, 2), minlength=n_agents).astype(np.int64)


def _test(n: Positions, hits: Positions, n_all: int, hits_all: int) -> tuple[Positions, Positions, Floats, Floats]:
    """Yeses, trials, the others' rate and the tail probability of each."""
    rate = (hits_all - hits + 0.5) / (n_all - n + 1)
    return hits, n, rate, np.asarray(binom.sf(hits - 1, n, rate), dtype=np.float64)


def _raised(
    tested: tuple[Positions, Positions, Floats, Floats], alpha: float
) -> list[tuple[int, tuple[int, int, float, float]]]:
    hits, n, rate, p = tested
    raised = np.flatnonzero((hits > 1) & (hits > 2 * n * rate) & (p < alpha / max(int((n > 0).sum()), 1)))
    return [(int(i), (int(hits[i]), int(n[i]), float(rate[i]), float(p[i]))) for i in raised]
