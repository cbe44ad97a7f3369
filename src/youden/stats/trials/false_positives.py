"""Find agents and pairs with too many yes answers on unrelated texts, and estimate each agent's false-positive rate.

A rate is shrunk towards the pooled one, the more the fewer trials it has. If agents have few independent trials, the
pooled rate is used for all, because their own rates would be noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from youden.stats.base.clusters import check_level
from youden.stats.base.pair_chunks import check_trials
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly


@dataclass(frozen=True)
class Alarm:
    """An agent or a pair of agents with too many false positives.

    Attributes
    ----------
    agents : tuple of int
        Position of the agent, or positions of the two agents.
    n_yes : int
        Number of yes answers to its independent trials.
    n : int
        Number of its independent trials.
    rate : float
        Rate of yes answers to all other independent trials.
    p_value : float
        Probability of at least `n_yes` yes answers at that rate, without correction for multiple testing.
    """

    agents: tuple[int, ...]
    n_yes: int
    n: int
    rate: float
    p_value: float


class _RateTests(NamedTuple):
    """One-sided binomial tests: yes answers, trials, rate of all other trials, and p-value, arrays (n_tests,)."""

    n_yes: Positions
    n: Positions
    rate: Floats
    p_value: Floats


class YesCounts:
    """Counts of independent trials and of yes answers, by unordered pair of agents.

    Attributes
    ----------
    n, n_yes : int64 array (n_agents, n_agents)
        Counts, above the diagonal.
    """

    def __init__(self, n_agents: int) -> None:
        self.n, self.n_yes = np.zeros((2, n_agents, n_agents), dtype=np.int64)

    def add(self, first: Ids, second: Ids, yes: Bools) -> None:
        """Add a chunk of answered independent trials.

        Parameters
        ----------
        first, second : int array (n_trials,)
            Agents of each trial.
        yes : bool array (n_trials,)
            Whether the answer is yes.
        """
        n_agents = len(self.n)
        pair = np.minimum(first, second).astype(np.int64) * n_agents + np.maximum(first, second)
        self.n += np.bincount(pair, minlength=n_agents**2).reshape(n_agents, n_agents)
        self.n_yes += np.bincount(pair[yes], minlength=n_agents**2).reshape(n_agents, n_agents)

    def find_alarms(self, *, level: float = 0.95) -> tuple[Alarm, ...]:
        """Find agents and pairs of agents with significantly more yes answers.

        Parameters
        ----------
        level : float, default 0.95
            One minus the familywise error rate, for agents and for pairs separately.

        Returns
        -------
        tuple of Alarm
            Agents first, then pairs of agents without an alarm.

        Raises
        ------
        StatisticsError
            [level]: unless 0 < level < 1.

        Notes
        -----
        The p-value is P(X ≥ n_yes), X binomial with the rate (yes answers of the other trials + ½)/(their number + 1).
        An alarm needs a p-value below (1 − level)/number of tests (Bonferroni), more than twice the expected yes
        answers, and at least 2.
        """
        check_level(level)
        low, high = np.nonzero(self.n)
        n, n_yes, agent, n_agents = self.n[low, high], self.n_yes[low, high], np.append(low, high), len(self.n)
        n_total, n_yes_total = int(n.sum()), int(n_yes.sum())

        n_by_agent, n_yes_by_agent = _sum_by_agent(agent, n, n_agents), _sum_by_agent(agent, n_yes, n_agents)
        agent_tests = _test_rates(n_by_agent, n_yes_by_agent, n_total, n_yes_total)
        alarms = [Alarm((i,), *statistics) for i, statistics in _iter_significant(agent_tests, 1 - level)]
        alarmed = {alarm.agents[0] for alarm in alarms}

        pair_tests = _test_rates(n, n_yes, n_total, n_yes_total)
        for row, statistics in _iter_significant(pair_tests, 1 - level):
            pair = int(low[row]), int(high[row])
            if not alarmed & set(pair):
                alarms.append(Alarm(pair, *statistics))
        return tuple(alarms)


def _sum_by_agent(agent: Positions, count: Positions, n_agents: int) -> Positions:
    """Sum counts of pairs, int (n_pairs,), over both agents, int (2·n_pairs,). Returns int64 (n_agents,)."""
    return np.bincount(agent, weights=np.tile(count, 2), minlength=n_agents).astype(np.int64)


def _test_rates(n: Positions, n_yes: Positions, n_total: int, n_yes_total: int) -> _RateTests:
    """Test each rate of yes answers against that of all other trials; n, n_yes : int64 (n_tests,)."""
    from scipy.stats import binom

    rate = (n_yes_total - n_yes + 0.5) / (n_total - n + 1)
    return _RateTests(n_yes, n, rate, np.asarray(binom.sf(n_yes - 1, n, rate), dtype=np.float64))


def _iter_significant(tests: _RateTests, alpha: float) -> Iterator[tuple[int, tuple[int, int, float, float]]]:
    """Yield the index and the statistics of each significant test, with Bonferroni's correction."""
    n_yes, n, rate, p = tests
    n_tests = max(int((n > 0).sum()), 1)
    is_significant = (n_yes > 1) & (n_yes > 2 * n * rate) & (p < alpha / n_tests)
    for i in np.flatnonzero(is_significant):
        yield int(i), (int(n_yes[i]), int(n[i]), float(rate[i]), float(p[i]))


MIN_TRIALS_PER_AGENT = 100
"""Mean independent trials per agent from which on rates are estimated by agent; pooled trials of a small plan give
about 7."""
_MAX_SHRINKAGE = 0.25
"""Largest shrinkage of a high rate, in its standard errors: an agent that differs is not averaged away."""


@dataclass(frozen=True, eq=False)
class AgentRates(ReadOnly):
    """False-positive rates of agents.

    With fewer than `MIN_TRIALS_PER_AGENT`, or if rates differ by no more than their sampling error, all rates are
    `pooled`, with the standard error 0.

    Attributes
    ----------
    rate : float array (n_agents,)
        False-positive rate of each agent.
    std_error : float array (n_agents,)
        Standard errors of the rates.
    pooled : float
        Mean answer to all independent trials.
    """

    rate: Floats
    std_error: Floats
    pooled: float

    @property
    def covariance(self) -> Floats:
        """Covariance of the rates' distances from their mean: float array (n_agents, n_agents)."""
        centring = np.eye(len(self.std_error)) - 1 / max(len(self.std_error), 1)
        return np.asarray(centring * self.std_error**2 @ centring)


def estimate_agent_rates(first: Ids, second: Ids, answer: Floats, *, n_agents: int) -> AgentRates:
    """Estimate the false-positive rate of each agent by empirical Bayes.

    Parameters
    ----------
    first, second : int array (n_trials,)
        Agents of each independent trial, which counts for both.
    answer : float array (n_trials,)
        Answers in [0, 1], without NaN.
    n_agents : int
        Number of agents.

    Returns
    -------
    AgentRates
        Rates with their standard errors.

    Raises
    ------
    StatisticsError
        [trial-columns]: if columns differ in length; [trial-answer]: if an answer is NaN.

    Notes
    -----
    An answer y to one of an agent's n_i trials has the mean f_i and the variance c·f_i, with c = Σy²/Σy (1 for yes and
    no). The f_i have a gamma distribution with the pooled mean μ and the variance τ², estimated by moments. With w_i =
    n_i/(n_i + cμ/τ²), the estimate is w_i·ȳ_i + (1 − w_i)·μ, with the variance w_i·c·f_i/n_i, but at least
    ȳ_i − ¼·√(cȳ_i/n_i), with the variance c·ȳ_i/n_i (limited translation).

    References
    ----------
    Efron & Morris (1972), J. American Statistical Association 67, 130–139 (limited translation).
    """
    check_trials(first, second, answer=answer)
    agent = np.append(first, second)
    n = np.bincount(agent, minlength=n_agents).astype(np.float64)
    total = np.asarray(np.bincount(agent, np.tile(answer, 2), n_agents), dtype=np.float64)
    return _rates_from_sums(
        n, total, n_trials=len(answer), total_all=float(answer.sum()), squares=float((answer**2).sum())
    )


def _rates_from_sums(n: Floats, total: Floats, *, n_trials: int, total_all: float, squares: float) -> AgentRates:
    """Estimate rates from sums.

    n, total : float (n_agents,), number of an agent's trials and sum of their answers; n_trials, total_all, squares :
    number, sum and sum of squares over all trials.
    """
    n_agents, pooled = len(n), total_all / n_trials if n_trials else 0.0
    pooled_rates = AgentRates(np.full(n_agents, pooled), np.zeros(n_agents), pooled)
    if 2 * n_trials < MIN_TRIALS_PER_AGENT * n_agents or pooled == 0 or (n == 0).any():
        return pooled_rates
    mean, c = total / n, squares / total_all

    # τ² by moments
    expected_square = (n_agents - 1) * c * pooled
    excess = float(n @ (mean - pooled) ** 2) - expected_square
    between = excess / (n.sum() - float(n @ n) / n.sum())
    if between <= 0:
        return pooled_rates

    w = n / (n + c * pooled / between)
    shrunk = w * mean + (1 - w) * pooled
    floor = mean - _MAX_SHRINKAGE * np.sqrt(c * mean / n)
    is_limited = floor > shrunk
    rate = np.where(is_limited, floor, shrunk)
    return AgentRates(rate, np.sqrt(np.where(is_limited, 1, w) * c * mean.clip(rate) / n), pooled)


class IndependentTotals:
    """Sums of the answers to independent trials without probes.

    Attributes
    ----------
    n, total : float array (n_agents,)
        Number of answered trials of each agent, and the sum of their answers.
    n_trials, total_all, squares : float
        Number of all trials, sum of their answers, and sum of the squared answers.
    training_n, training_total : float
        Number and sum of the trials that training scores may use.
    """

    def __init__(self, n_agents: int) -> None:
        self.n, self.total = np.zeros((2, n_agents))
        self.n_trials, self.total_all, self.squares = 0, 0.0, 0.0
        self.training_n, self.training_total = 0, 0.0

    def add(self, first: Ids, second: Ids, answer: Floats, *, is_training: Bools) -> None:
        """Add a chunk of answered independent trials.

        Parameters
        ----------
        first, second : int array (n_trials,)
            Agents of each trial.
        answer : float array (n_trials,)
            Answers, without NaN.
        is_training : bool array (n_trials,)
            Whether training scores may use a trial.
        """
        sides = np.append(first, second)
        self.n += np.bincount(sides, minlength=len(self.n))
        self.total += np.bincount(sides, np.tile(answer, 2), len(self.n))
        self.n_trials += len(answer)
        self.total_all += float(answer.sum())
        self.squares += float((answer**2).sum())
        self.training_n += int(is_training.sum())
        self.training_total += float(answer[is_training].sum())

    @property
    def rate(self) -> float | None:
        """Mean answer to all trials; None without a trial."""
        return self.total_all / self.n_trials if self.n_trials else None

    @property
    def training_rate(self) -> float:
        """Mean answer to the trials that training scores may use; 0 without one."""
        return self.training_total / self.training_n if self.training_n else 0.0

    @property
    def agent_rates(self) -> AgentRates:
        """False-positive rates of agents, or the pooled rate if there are too few trials."""
        return _rates_from_sums(
            self.n, self.total, n_trials=self.n_trials, total_all=self.total_all, squares=self.squares
        )
