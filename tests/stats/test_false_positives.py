"""Test alarms for agents whose texts on different items the judge calls the same source too often."""

from __future__ import annotations

import numpy as np

from youden.stats.trials.false_positives import Alarm, YesCounts
from youden.types.pool import Bools, Ids


def false_positive_alarms(first: Ids, second: Ids, yes: Bools, *, n_agents: int) -> tuple[Alarm, ...]:
    counts = YesCounts(n_agents)
    counts.add(first, second, yes)
    return counts.find_alarms()


def drawn(seed: int, n: int = 3000, n_agents: int = 10) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, n_agents, n)
    return first, (first + rng.integers(1, n_agents, n)) % n_agents, rng


def test_the_alarm_equals_manually_computed_values() -> None:
    """Agent 0: 4 yes of 4; without it 0 of 6, rate (0 + ½)/(6 + 1); all 4 yes are its own with p = 1/210 < .05 / 3."""
    first = np.array([0, 0, 0, 0, 1, 1, 2, 2, 1, 2])
    second = np.array([1, 2, 1, 2, 2, 2, 1, 1, 2, 1])
    yes = np.arange(10) < 4
    alarm = false_positive_alarms(first, second, yes, n_agents=3)[0]
    assert (alarm.agents, alarm.n_yes, alarm.n) == ((0,), 4, 4)
    np.testing.assert_allclose([alarm.rate, alarm.p_value], [1 / 14, 1 / 210])


def test_trials_of_two_responses_of_one_agent_count_once() -> None:
    agent = np.repeat([0, 1], 100)
    yes = np.arange(200) % 100 < np.where(agent == 0, 5, 30)
    alarms = false_positive_alarms(agent, agent, yes, n_agents=2)
    assert [(alarm.agents, alarm.n_yes, alarm.n) for alarm in alarms] == [((1,), 30, 100)]
    np.testing.assert_allclose(alarms[0].rate, 5.5 / 101)


def test_a_template_and_a_pair_of_clones_raise_the_alarm() -> None:
    first, second, rng = drawn(0)
    template = ((first == 3) | (second == 3)) & (rng.random(len(first)) < 0.05)
    assert [alarm.agents for alarm in false_positive_alarms(first, second, template, n_agents=10)] == [(3,)]
    clones = np.isin(first, [4, 7]) & np.isin(second, [4, 7]) & (rng.random(len(first)) < 0.1)
    result = false_positive_alarms(first, second, clones, n_agents=10)
    assert {agent for alarm in result for agent in alarm.agents} == {4, 7}


def test_equal_false_positive_rates_raise_alarms_at_most_at_the_nominal_rate() -> None:
    rung = 0
    for seed in range(200):
        first, second, rng = drawn(seed, n=400)
        alarms = false_positive_alarms(first, second, rng.random(400) < 0.02, n_agents=10)
        rung += any(len(alarm.agents) == 1 for alarm in alarms)
    assert rung <= 20


def test_few_agents_with_equal_rates_raise_alarms_at_most_at_the_nominal_rate() -> None:
    n_alarmed = 0
    for seed in range(400):
        first, second, rng = drawn(seed, n=60, n_agents=3)
        n_alarmed += bool(false_positive_alarms(first, second, rng.random(60) < 0.15, n_agents=3))
    assert n_alarmed <= 30


def test_without_trials_no_alarm_is_raised() -> None:
    empty = np.array([], dtype=np.int32)
    assert false_positive_alarms(empty, empty, np.array([], dtype=bool), n_agents=4) == ()
