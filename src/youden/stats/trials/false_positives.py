"""Which agents and pairs get more yeses on unrelated texts than the rest, and each agent's own rate of false positives.

A rate is drawn towards the pooled one by how little is known of it. Where agents' independent trials are few the pooled
rate stands for all: own rates would be noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.stats.base.clusters import check_level, check_trials
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly


@dataclass(frozen=True)
class Alarm:
    """agents: one position, or two of a pair. n_yes of its n independent trials; p_value against `rate`, that of all others."""

    agents: tuple[int, ...]
    n_yes: int
    n: int
    rate: float
    p_value: float


class YesCounts:
    """Independent trials by unordered pair of agents, int64[K, K] above the diagonal: n, and their yeses n_yes; blocks add up."""

    def __init__(self, n_agents: int) -> None:
        self.n, self.n_yes = np.zeros((2, n_agents, n_agents), dtype=np.int64)

    def add(self, first: Ids, second: Ids, yes: Bools) -> None:
        """first, second: int[T]; yes: bool[T]."""
        K = len(self.n)
        pair = np.minimum(first, second).astype(np.int64) * K + np.maximum(first, second)
        self.n += np.bincount(pair, minlength=K * K).reshape(K, K)
        self.n_yes += np.bincount(pair[yes], minlength=K * K).reshape(K, K)

    def alarms(self, *, level: float = 0.95) -> tuple[Alarm, ...]:
        """Agents, then unordered pairs, whose yeses exceed twice the others' rate and chance, at `level` over all of one kind.

        P(X ≥ n_yes), X binomial(n, rate), rate = (yeses of trials without it + ½)/(their number + 1); below (1 − level) over the
        number tested (Bonferroni). A pair counts only where neither of its agents has an alarm. 1 yes alone never raises one.

        Raises: StatisticsError [level].
        """
        check_level(level)
        low, high = np.nonzero(self.n)
        n, n_yes, agent, K = self.n[low, high], self.n_yes[low, high], np.append(low, high), len(self.n)
        of_all = int(n.sum()), int(n_yes.sum())
        tested = _test(_summed(agent, n, K), _summed(agent, n_yes, K), *of_all)
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
    from scipy.stats import binom

    rate = (hits_all - hits + 0.5) / (n_all - n + 1)
    return hits, n, rate, np.asarray(binom.sf(hits - 1, n, rate), dtype=np.float64)


def _raised(
    tested: tuple[Positions, Positions, Floats, Floats], alpha: float
) -> list[tuple[int, tuple[int, int, float, float]]]:
    hits, n, rate, p = tested
    raised = np.flatnonzero((hits > 1) & (hits > 2 * n * rate) & (p < alpha / max(int((n > 0).sum()), 1)))
    return [(int(i), (int(hits[i]), int(n[i]), float(rate[i]), float(p[i]))) for i in raised]


LEAST = 100
"""Independent trials an agent, in the mean, from which on own rates are estimated: the pooled arm of a small plan has about 7."""
_FARTHEST = 0.25
"""A high rate is drawn at most this many of its standard errors towards the pooled one: who stands out is not averaged away."""


@dataclass(frozen=True, eq=False)
class OwnRates(ReadOnly):
    """rate, error: float[K], each agent's false-positive rate and its standard error; pooled: the mean answer of all trials.

    Where trials are fewer than `LEAST` an agent, or rates differ by chance alone, rate is `pooled` for everybody, and error 0.
    """

    rate: Floats
    error: Floats
    pooled: float

    @property
    def covariance(self) -> Floats:
        """Of the rates less their mean: float[K, K]."""
        centring = np.eye(len(self.error)) - 1 / max(len(self.error), 1)
        return np.asarray(centring * self.error**2 @ centring)


def own_rates(first: Ids, second: Ids, answer: Floats, *, n_agents: int) -> OwnRates:
    """Empirical Bayes: y of an agent's n_i trials has mean f_i and variance c·f_i, f_i a Gamma with the pooled mean μ.

    c = Σy²/Σy (1 for yes and no), and variance τ² by moments; w_i = n_i/(n_i + cμ/τ²); f_i = w_i·ȳ_i + (1 − w_i)·μ, or where that
    is lower ȳ_i − ¼√(cȳ_i/n_i) (limited translation); error² = w_i·c·f_i/n_i, there c·ȳ_i/n_i. A trial counts for both agents.

    first, second: int[T] of independent trials; answer: float[T] in [0, 1].

    Raises: StatisticsError [trial-columns], [trial-answer].
    Source: none in the paper; limited translation: Efron and Morris (1972), JASA 67.
    """
    check_trials(first, second, answer=answer)
    agent = np.append(first, second)
    n = np.bincount(agent, minlength=n_agents).astype(np.float64)
    total = np.asarray(np.bincount(agent, np.tile(answer, 2), n_agents), dtype=np.float64)
    return _own_rates_of_sums(
        n, total, n_trials=len(answer), sum_all=float(answer.sum()), squares=float((answer**2).sum())
    )


def _own_rates_of_sums(n: Floats, total: Floats, *, n_trials: int, sum_all: float, squares: float) -> OwnRates:
    """`own_rates` from how many trials each agent has part in and their sum: float[K] each; and over all trials, how many there
    are, Σy and Σy²."""
    n_agents, pooled = len(n), sum_all / n_trials if n_trials else 0.0
    if 2 * n_trials < LEAST * n_agents or pooled == 0 or (n == 0).any():
        return OwnRates(np.full(n_agents, pooled), np.zeros(n_agents), pooled)
    mean, spread = total / n, squares / sum_all
    noise = (n_agents - 1) * spread * pooled
    between = (float(n @ (mean - pooled) ** 2) - noise) / (n.sum() - float(n @ n) / n.sum())
    if between <= 0:
        return OwnRates(np.full(n_agents, pooled), np.zeros(n_agents), pooled)
    w = n / (n + spread * pooled / between)
    nearest = mean - _FARTHEST * np.sqrt(spread * mean / n)
    drawn = w * mean + (1 - w) * pooled
    stands_out = nearest > drawn
    rate = np.where(stands_out, nearest, drawn)
    return OwnRates(rate, np.sqrt(np.where(stands_out, 1, w) * spread * mean.clip(rate) / n), pooled)


class ApartSums:
    """The independent arm, probes left out; rows add up. n, total: float[K], answered trials that an agent takes part in, and
    their sum; n_trials, total_all, squares: of all of them, Σy, Σy²; clean_n, clean_total: of those a training score may read.
    """

    def __init__(self, n_agents: int) -> None:
        self.n, self.total = np.zeros((2, n_agents))
        self.n_trials, self.total_all, self.squares, self.clean_n, self.clean_total = 0, 0.0, 0.0, 0, 0.0

    def add(self, first: Ids, second: Ids, answer: Floats, *, clean: Bools) -> None:
        """first, second: int[T]; answer: float[T]; clean: bool[T], which a training score may read."""
        sides = np.append(first, second)
        self.n += np.bincount(sides, minlength=len(self.n))
        self.total += np.bincount(sides, np.tile(answer, 2), len(self.n))
        self.n_trials += len(answer)
        self.total_all += float(answer.sum())
        self.squares += float((answer**2).sum())
        self.clean_n += int(clean.sum())
        self.clean_total += float(answer[clean].sum())

    @property
    def rate(self) -> float | None:
        """The mean answer; None where there is none."""
        return self.total_all / self.n_trials if self.n_trials else None

    @property
    def clean_rate(self) -> float:
        """The mean answer of those that a training score may read; 0 where there is none."""
        return self.clean_total / self.clean_n if self.clean_n else 0.0

    @property
    def own_rates(self) -> OwnRates:
        """Each agent's own rate of false positives, or the pooled one."""
        return _own_rates_of_sums(
            self.n, self.total, n_trials=self.n_trials, sum_all=self.total_all, squares=self.squares
        )
