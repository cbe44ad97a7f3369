"""Find agents and pairs of agents whose texts on different items the judge calls the same source too often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from youden.stats.base.clusters import check_level
from youden.types.pool import Bools, Ids, Positions


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
        Probability that at least `n_yes` of all yes answers are to these trials if all trials have the same rate (Fisher's exact
        test), without correction for multiple testing.
    """

    agents: tuple[int, ...]
    n_yes: int
    n: int
    rate: float
    p_value: float


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
        """Count independent trials, which compare responses to different items, and their yes answers by pair of agents.

        The counts of the class, `n` and `n_yes`, are changed in place. Each pair is counted above the diagonal, whichever
        agent comes first.

        Parameters
        ----------
        first, second : int array (n_trials,)
            Positions of the two different agents of each trial.
        yes : bool array (n_trials,)
            Whether the answer is yes.
        """
        n_agents = len(self.n)
        shape = n_agents, n_agents
        lower, higher = np.minimum(first, second), np.maximum(first, second)
        pair = lower.astype(np.int64) * n_agents + higher
        self.n += np.bincount(pair, minlength=n_agents**2).reshape(shape)
        self.n_yes += np.bincount(pair[yes], minlength=n_agents**2).reshape(shape)

    def find_alarms(self, *, level: float = 0.95) -> tuple[Alarm, ...]:
        """Find agents and pairs of agents with a significantly higher rate of yes answers than all other independent trials.

        Parameters
        ----------
        level : float, default 0.95
            One minus the familywise error rate, for agents and for pairs separately.

        Returns
        -------
        tuple of Alarm
            Alarms of single agents, and then of pairs in which neither agent has an alarm.

        Raises
        ------
        StatisticsError
            [level]: unless 0 < level < 1.

        Notes
        -----
        The p-value is that of Fisher's exact test, which compares the trials of the agent or the pair with all other trials. The
        expected rate is (yes answers of the other trials + ½)/(their number + 1). An alarm needs a p-value below
        (1 − level)/number of tests (Bonferroni), more than twice the expected yes answers, and at least 2.
        """
        check_level(level)
        alpha = 1 - level

        # pairs of agents with a trial
        low, high = np.nonzero(self.n)
        n, n_yes = self.n[low, high], self.n_yes[low, high]
        n_total, n_yes_total = int(n.sum()), int(n_yes.sum())

        # agents: each pair counts for both of its agents
        agent, n_agents = np.append(low, high), len(self.n)
        n_by_agent = _sum_by_agent(agent, n, n_agents)
        n_yes_by_agent = _sum_by_agent(agent, n_yes, n_agents)
        agent_tests = _iter_significant(n_by_agent, n_yes_by_agent, n_total, n_yes_total, alpha)
        alarms = [Alarm((i,), *statistics) for i, statistics in agent_tests]

        # pairs of agents without an alarm
        alarmed = {alarm.agents[0] for alarm in alarms}
        for row, statistics in _iter_significant(n, n_yes, n_total, n_yes_total, alpha):
            pair = int(low[row]), int(high[row])
            if not alarmed & set(pair):
                alarms.append(Alarm(pair, *statistics))
        return tuple(alarms)


def _sum_by_agent(agent: Positions, count: Positions, n_agents: int) -> Positions:
    """Sum the counts of the pairs of each agent: int64 array (n_agents,). A pair of an agent with itself counts once.

    agent : int array (2·n_pairs,), the first agents of all pairs, then the second ones
    count : int array (n_pairs,)
    """
    first, second = np.split(agent, 2)
    counts_of_second = np.where(first == second, 0, count)
    return np.bincount(agent, weights=np.append(count, counts_of_second), minlength=n_agents).astype(np.int64)


def _iter_significant(
    n: Positions, n_yes: Positions, n_total: int, n_yes_total: int, alpha: float
) -> Iterator[tuple[int, tuple[int, int, float, float]]]:
    """Find sets of trials with a significantly higher rate of yes answers than all other trials.

    The rates are compared by Fisher's exact test, with Bonferroni's correction. A significant set must also have at least 2 yes
    answers, and more than twice the number expected from the other trials.

    n, n_yes : int64 arrays (n_sets,), number of trials and of yes answers of each set, such as the trials of one agent
    n_total, n_yes_total : number of all trials, and number of all yes answers
    alpha : familywise error rate

    Yields the position of each significant set, and four values of its `Alarm`: number of yes answers, number of trials, rate of
    the other trials and p-value.
    """
    from scipy.stats import hypergeom

    n_tests = max(int((n > 0).sum()), 1)
    other_rate = (n_yes_total - n_yes + 0.5) / (n_total - n + 1)
    expected_n_yes = n * other_rate

    # p-values take long, so they are computed only for sets with many yes answers
    frequent = np.flatnonzero((n_yes > 1) & (n_yes > 2 * expected_n_yes))
    p_values = np.asarray(hypergeom.sf(n_yes[frequent] - 1, n_total, n_yes_total, n[frequent]))
    for position, p_value in zip(frequent.tolist(), p_values.tolist(), strict=True):
        if p_value < alpha / n_tests:
            yield position, (int(n_yes[position]), int(n[position]), float(other_rate[position]), p_value)
