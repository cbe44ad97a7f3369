"""False positives: alarms for agents whose unrelated texts look alike, and agents' own rates."""

from __future__ import annotations

import numpy as np
import pytest

from pools import answer_with, make_pool
from youden import make_plan
from youden.pipeline.abilities import estimate_mean_abilities
from youden.protocol.independent import choose_pooled_size
from youden.stats.trials.false_positives import MIN_TRIALS_PER_AGENT, Alarm, YesCounts, estimate_agent_rates
from youden.types import INDEPENDENT
from youden.types.pool import Bools, Ids


def false_positive_alarms(first: Ids, second: Ids, yes: Bools, *, n_agents: int) -> tuple[Alarm, ...]:
    counts = YesCounts(n_agents)
    counts.add(first, second, yes)
    return counts.find_alarms()


def drawn(seed: int, n: int = 3000, n_agents: int = 10) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, n_agents, n)
    return first, (first + rng.integers(1, n_agents, n)) % n_agents, rng


def test_by_hand() -> None:
    """Agent 0: 3 yes of 4; without it 0 of 4, rate (0 + ½)/(4 + 1) = .1; P(X ≥ 3 | 4, .1) = .0037 < .05 / 3."""
    first = np.array([0, 0, 0, 0, 1, 1, 2, 2])
    second = np.array([1, 2, 1, 2, 2, 2, 1, 1])
    yes = np.array([True, True, True, False, False, False, False, False])
    alarm = false_positive_alarms(first, second, yes, n_agents=3)[0]
    assert (alarm.agents, alarm.n_yes, alarm.n) == ((0,), 3, 4)
    np.testing.assert_allclose([alarm.rate, alarm.p_value], [0.1, 0.0037])


def test_a_template_is_caught_and_a_pair_of_clones() -> None:
    first, second, rng = drawn(0)
    template = ((first == 3) | (second == 3)) & (rng.random(len(first)) < 0.05)
    assert [alarm.agents for alarm in false_positive_alarms(first, second, template, n_agents=10)] == [(3,)]
    clones = np.isin(first, [4, 7]) & np.isin(second, [4, 7]) & (rng.random(len(first)) < 0.1)
    found = false_positive_alarms(first, second, clones, n_agents=10)
    assert {agent for alarm in found for agent in alarm.agents} == {4, 7}


def test_even_false_positives_ring_no_more_often_than_promised() -> None:
    rung = 0
    for seed in range(200):
        first, second, rng = drawn(seed, n=400)
        alarms = false_positive_alarms(first, second, rng.random(400) < 0.02, n_agents=10)
        rung += any(len(alarm.agents) == 1 for alarm in alarms)
    assert rung <= 20


def test_no_trials_no_alarm() -> None:
    empty = np.array([], dtype=np.int32)
    assert false_positive_alarms(empty, empty, np.array([], dtype=bool), n_agents=4) == ()


K = 20


def draw_by_rates(rate: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Independent trials of a pair, yes with the sum of half their rates."""
    first = rng.integers(0, K, n)
    second = (first + rng.integers(1, K, n)) % K
    return first, second, (rng.random(n) < (rate[first] + rate[second]) / 2).astype(float)


def own_part(rate: np.ndarray) -> np.ndarray:
    """The mean answer of an agent's trials: half its own rate, half its partners'."""
    return rate / 2 + (rate.sum() - rate) / (K - 1) / 2


def test_few_trials_leave_the_pooled_rate_and_add_no_error() -> None:
    rng = np.random.default_rng(0)
    first, second, answer = draw_by_rates(np.full(K, 0.1), MIN_TRIALS_PER_AGENT * K // 2 - 1, rng)
    found = estimate_agent_rates(first, second, answer, n_agents=K)
    assert (found.rate == answer.mean()).all()
    assert (found.std_error == 0).all()
    assert estimate_agent_rates(first[:0], second[:0], answer[:0], n_agents=K).pooled == 0


def test_who_stands_out_keeps_its_rate_and_intervals_hold_everybodys() -> None:
    rate = np.full(K, 0.02)
    rate[3] = 0.15
    true, rng = own_part(rate), np.random.default_rng(1)
    inside, squares, pooled_squares = [], [], []
    for _ in range(60):
        found = estimate_agent_rates(*draw_by_rates(rate, 4000, rng), n_agents=K)
        inside.append(np.abs(found.rate - true) <= 1.96 * found.std_error)
        squares.append((found.rate - true) ** 2)
        pooled_squares.append((found.pooled - true) ** 2)
    assert np.mean(inside, axis=0)[3] >= 0.9
    assert np.mean(inside) >= 0.88
    assert np.mean(squares) < 0.5 * np.mean(pooled_squares)


def test_where_all_have_one_rate_own_ones_hardly_differ_from_it() -> None:
    rng = np.random.default_rng(2)
    spread = [
        estimate_agent_rates(*draw_by_rates(np.full(K, 0.02), 4000, rng), n_agents=K).rate.std() for _ in range(40)
    ]
    raw = np.sqrt(0.02 / 400)
    assert np.mean(spread) < 0.4 * raw


def test_the_covariance_is_that_of_centred_rates() -> None:
    found = estimate_agent_rates(*draw_by_rates(np.linspace(0, 0.2, K), 4000, np.random.default_rng(3)), n_agents=K)
    error = np.random.default_rng(4).normal(size=(200_000, K)) * found.std_error
    centred = error - error.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(np.diag(found.covariance), centred.var(axis=0), rtol=0.03)


@pytest.mark.parametrize(("budget", "found"), [(3_248, 100), (32_479, 100), (32_480, 3248), (200_000, 16_240)], ids=str)
def test_the_arm_grows_from_a_fifth_of_the_dense_calls_on(budget: int, found: int) -> None:
    assert choose_pooled_size(100, budget=budget, n_agents=29, n_dense=162_400) == found


def test_a_pool_too_small_for_own_rates_keeps_its_arm() -> None:
    assert choose_pooled_size(100, budget=11_160, n_agents=31, n_dense=55_800) == 100


def test_a_plan_pays_for_own_rates_out_of_its_budget_and_an_arm_with_a_number_stays() -> None:
    pool = make_pool(10, 60)  # 10,800 dense calls
    large, small = (make_plan(pool, calls=f"{percent}%") for percent in (60, 10))
    assert large.n_independent == 648
    assert len(large) <= 6480
    assert small.n_independent == 100
    assert make_plan(pool, calls="60%", independent="pooled:100").n_independent == 100
    assert make_plan(pool, calls="60%", holdout=0.2).n_independent == 100


def test_the_agent_with_most_false_positives_is_ranked_by_its_own_and_a_small_plan_by_the_pooled_rate() -> None:
    pool = make_pool(10, 60)
    for percent, own in ((60, True), (10, False)):
        plan = make_plan(pool, calls=f"{percent}%")
        apart = plan.trial_type == INDEPENDENT
        yes = ((plan.first == 2) | (plan.second == 2)) & (np.arange(len(plan)) % 2 == 0)
        means = estimate_mean_abilities(answer_with(plan, np.where(apart, yes, 0.6).astype(float)))
        others = np.delete(means.ability, 2)
        assert (means.ability[2] < others.min() - 0.2) == own
        assert np.ptp(others) < 0.1 if own else np.ptp(means.ability) == pytest.approx(0)
