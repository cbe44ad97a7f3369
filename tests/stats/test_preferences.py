"""The preference model: abilities, position effect and intervals, against a naive implementation."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
from scipy.stats import multinomial

from youden.errors import StatisticsError
from youden.stats import fit_bradley_terry, fit_preferences
from youden.stats.base.clusters import UNSEEN_CLUSTERS
from youden.stats.trials import preferences
from youden.stats.trials.comparisons import pairwise_differences
from youden.types.pool import Floats, Positions

Columns = tuple[Positions, Positions, Positions, Floats]


def draw_battles(n_agents: int, n_items: int, n: int, seed: int) -> Columns:
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(n_agents, 2, replace=False) for _ in range(n)])
    return pairs[:, 0], pairs[:, 1], rng.integers(0, n_items, n), rng.choice([0, 0.5, 1], n)


def test_the_fit_equals_naive_least_squares() -> None:
    K = 4
    first, second, item, answer = draw_battles(K, 15, 120, seed=3)
    fit = fit_preferences(first, second, item, answer, n_agents=K)

    design = np.zeros((len(item), K + 1))
    design[np.arange(len(item)), first] = 1
    design[np.arange(len(item)), second] = -1
    design[:, K] = 1
    solution = np.linalg.lstsq(design, 2 * answer - 1, rcond=None)[0]
    np.testing.assert_allclose(fit.ability, solution[:K] - solution[:K].mean(), atol=1e-12)
    assert fit.position_effect.value == pytest.approx(solution[K])

    inverse = np.linalg.pinv(design.T @ design)
    leverage = np.einsum("ti,ik,tk->t", design, inverse, design)
    residual = (2 * answer - 1 - design @ solution) / np.sqrt(1 - leverage)
    influence = np.zeros((K + 1, 15))
    n_trials = np.zeros((K, 15))
    for t in range(len(item)):
        influence[:, item[t]] += inverse @ design[t] * residual[t]
        for agent in (first[t], second[t]):
            n_trials[agent, item[t]] += 1
    total = n_trials.sum(axis=1)

    # effective items: ω_ij from abilities that are measured from their mean, weighted by trials
    by_trial = inverse[:K] @ design.T
    by_trial -= (total / total.sum()) @ by_trial
    omega = np.stack([(by_trial[:, item == j] ** 2).sum(axis=1) for j in range(15)], axis=1)
    m = np.minimum(omega.sum(axis=1) ** 2 / (omega**2).sum(axis=1), (n_trials > 0).sum(axis=1))
    np.testing.assert_allclose(fit.n_effective_items, m)

    # shrunk sandwich, for m items of equal weight, raised to a share of s²·P_ii
    g = (influence[:K] - influence[:K].mean(axis=0)) / np.sqrt(1 - n_trials / total[:, None])
    variance, P = (g**2).sum(axis=1), np.diag(inverse)[:K]
    d = g * np.minimum(m, total**2 / (n_trials**2).sum(axis=1))[:, None]
    r = (d**2).sum(axis=1) ** 2 / (d**4).sum(axis=1)
    unseen = (1 + (d**2).sum(axis=1)) / (1 + r) * np.maximum(0, 1 - 3 * r / m)
    unseen *= UNSEEN_CLUSTERS / 2 * np.maximum(1 / m, (n_trials**2).sum(axis=1) / total**2) ** 2
    shrunk = (variance * (m - 1) + 6 * P * (variance / P).mean()) / (m + 5) + unseen
    floor = np.minimum(1, 12 / m) * (2 * answer - 1).var(ddof=1) * P
    np.testing.assert_allclose(fit.covariance.std_error**2, np.maximum(shrunk, floor))
    np.testing.assert_allclose(fit.covariance.df, m + 5)
    np.testing.assert_array_equal(fit.n_trials, total)


def list_counts(n: int, tie: float) -> list[tuple[list[float], float]]:
    """List the answers to n battles of two equal agents up to their order, and their probabilities."""
    counts = [(wins, ties) for ties in range(n + 1 if tie else 1) for wins in range(n + 1 - ties)]
    return [
        (
            [1.0] * wins + [0.5] * ties + [0.0] * (n - wins - ties),
            multinomial.pmf([wins, ties, n - wins - ties], n, [(1 - tie) / 2, tie, (1 - tie) / 2]),
        )
        for wins, ties in counts
    ]


@pytest.mark.parametrize("n", [6, *(pytest.param(n, marks=pytest.mark.slow) for n in (7, 8))])
@pytest.mark.parametrize("tie", [0.0, 0.2, 0.5])
def test_two_equal_agents_differ_significantly_in_at_most_5_percent_of_few_battles(n: int, tie: float) -> None:
    n_forward = n // 2
    first = (np.arange(n) >= n_forward).astype(int)
    rate = 0.0
    for (forward, p), (backward, q) in product(list_counts(n_forward, tie), list_counts(n - n_forward, tie)):
        fit = fit_preferences(first, 1 - first, np.arange(n), np.array(forward + backward), n_agents=2)
        if pairwise_differences(fit.ability, fit.covariance).significant.any():
            rate += p * q
    assert rate <= 0.05


@pytest.mark.parametrize("n", [6, *(pytest.param(n, marks=pytest.mark.slow) for n in (7, 8))])
def test_two_equal_agents_with_both_orders_on_few_items_keep_the_level(n: int) -> None:
    """A judge answers by content, in the same way in both orders, or by position on a share of the items."""
    first, item = np.tile([0, 1], n), np.repeat(np.arange(n), 2)
    for by_position in (0.0, 0.2, 0.4):
        rate = 0.0
        for wins, losses in ((w, k) for w in range(n + 1) for k in range(n + 1 - w)):
            split = n - wins - losses
            answer = np.array([1.0, 0] * wins + [0.0, 1] * losses + [1.0, 1] * split)
            fit = fit_preferences(first, 1 - first, item, answer, n_agents=2)
            if pairwise_differences(fit.ability, fit.covariance).significant.any():
                by_content = (1 - by_position) / 2
                rate += multinomial.pmf([wins, losses, split], n, [by_content, by_content, by_position])
        assert rate <= 0.05


def test_few_trials_in_one_of_the_orders_give_no_interval() -> None:
    first = np.array([0] * 19 + [1])
    fit = fit_preferences(first, 1 - first, np.arange(20), np.ones(20) - (first == 1), n_agents=2)
    assert fit.n_effective_items == pytest.approx([1.1, 1.1], abs=0.1)
    assert np.isnan(fit.covariance.df).all()
    assert np.isnan(fit.position_effect.low)


def test_the_difference_of_agents_that_one_trial_links_has_no_interval() -> None:
    """One trial between two groups decides on which group is better; it leaves no residual."""
    rng = np.random.default_rng(0)
    first, second = np.tile([0, 1, 2, 3], 30), np.tile([1, 0, 3, 2], 30)
    first, second = np.append(first, 0), np.append(second, 2)
    answer = np.append(rng.random(120) < 0.5, True).astype(float)
    fit = fit_preferences(first, second, np.arange(121), answer, n_agents=4)
    assert not pairwise_differences(fit.ability, fit.covariance).significant[:2, 2:].any()
    assert (fit.n_effective_items < 2).all()


def test_an_agent_with_few_trials_leaves_the_intervals_of_others() -> None:
    rng = np.random.default_rng(0)
    first, second = np.tile([0, 1, 1, 2, 2, 0], 20), np.tile([1, 0, 2, 1, 0, 2], 20)
    first, second = np.append(first, [0, 3, 1]), np.append(second, [3, 1, 3])
    fit = fit_preferences(first, second, np.arange(123), rng.random(123).round(), n_agents=4)
    np.testing.assert_array_equal(np.isnan(fit.covariance.df), [False, False, False, True])
    assert (fit.n_effective_items[:3] > 50).all()


def test_chunks_of_items_give_the_same_result_as_all_items_together(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = draw_battles(5, 40, 200, seed=1)
    together = fit_preferences(*columns, n_agents=5)
    monkeypatch.setattr(preferences, "_MAX_CELLS_PER_CHUNK", 18)
    in_chunks = fit_preferences(*columns, n_agents=5)
    np.testing.assert_allclose(in_chunks.covariance.covariance, together.covariance.covariance, atol=1e-14)
    assert in_chunks.position_effect.high == pytest.approx(together.position_effect.high)


def test_exchanging_the_order_of_all_battles_reverses_only_the_position_effect() -> None:
    first, second, item, answer = draw_battles(5, 40, 200, seed=2)
    fit = fit_preferences(first, second, item, answer, n_agents=5)
    swapped = fit_preferences(second, first, item, 1 - answer, n_agents=5)
    np.testing.assert_allclose(swapped.ability, fit.ability, atol=1e-12)
    assert swapped.position_effect.value == pytest.approx(-fit.position_effect.value)


def test_the_position_effect_is_unknown_if_one_agent_always_comes_second() -> None:
    rng = np.random.default_rng(0)
    first, item = np.tile([1, 2, 3], 50), np.repeat(np.arange(50), 3)
    answer = (rng.random(150) < 0.8).astype(float)
    fit = fit_preferences(first, np.zeros(150, dtype=int), item, answer, n_agents=4)
    assert np.isnan(fit.position_effect.value)
    assert fit.ability[1:].min() > fit.ability[0]
    assert fit.ability.sum() == pytest.approx(0)


def test_a_judge_that_always_prefers_the_first_has_a_position_effect_of_1() -> None:
    item = np.repeat(np.arange(30), 4)
    first = np.tile(np.arange(4), 30)
    fit = fit_preferences(first, (first + 1 + item % 3) % 4, item, np.ones(120), n_agents=4)
    assert fit.position_effect.value == pytest.approx(1)
    np.testing.assert_allclose(fit.ability, 0, atol=1e-12)
    assert (fit.covariance.std_error > 0).all()


def test_unlinked_agents_have_abilities_of_their_own_mean() -> None:
    columns = np.array([[0, 1, 2, 3], [1, 0, 3, 2]] * 10).reshape(-1, 4)
    first, second = columns[::2].ravel(), columns[1::2].ravel()
    answer = np.tile([1.0, 0.0, 1.0, 0.0], 10)
    fit = fit_preferences(first, second, np.arange(40), answer, n_agents=5)
    assert np.isnan(fit.ability[4])
    np.testing.assert_allclose(fit.ability[:4], [0.5, -0.5, 0.5, -0.5], atol=1e-12)


def test_bradley_terry_is_the_maximum_of_its_likelihood() -> None:
    first, second, _, answer = draw_battles(6, 5, 400, seed=4)
    strength = fit_bradley_terry(first, second, answer, n_agents=6, position_effect=False)
    p_first = 1 / (1 + np.exp(strength[second] - strength[first]))
    score = np.bincount(first, answer - p_first, 6) - np.bincount(second, answer - p_first, 6)
    np.testing.assert_allclose(score, 0, atol=1e-3)
    assert strength.sum() == pytest.approx(0)


def test_bradley_terry_needs_trials() -> None:
    no_agents, no_answers = np.zeros(0, dtype=np.int64), np.zeros(0)
    with pytest.raises(StatisticsError, match=r"needs trials.*\[trial-none\]"):
        fit_bradley_terry(no_agents, no_agents, no_answers, n_agents=3)


def test_bradley_terry_without_scikit_learn_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(StatisticsError, match=r"preferences\]'") as caught:
        fit_bradley_terry(np.array([0, 1]), np.array([1, 0]), np.array([1.0, 0.0]), n_agents=2)
    assert caught.value.slug == "bradley-terry"


def test_wrong_columns_are_refused() -> None:
    first, second, item, answer = draw_battles(3, 5, 20, seed=0)
    with pytest.raises(StatisticsError, match="one length"):
        fit_preferences(first[1:], second, item, answer, n_agents=3)
    answer[0] = np.nan
    with pytest.raises(StatisticsError, match="NaN"):
        fit_preferences(first, second, item, answer, n_agents=3)


def test_the_position_effect_has_no_interval_without_an_error_or_enough_items() -> None:
    first, second, item = np.tile([0, 1], 10), np.tile([1, 0], 10), np.arange(20)
    fit = fit_preferences(first, second, item, np.full(20, 0.5), n_agents=2)
    assert fit.position_effect.value == pytest.approx(0)
    assert np.isnan(fit.position_effect.low)
    rng = np.random.default_rng(1)
    fit = fit_preferences(first, second, item % 5, rng.random(20), n_agents=2)
    assert np.isnan(fit.position_effect.high)
    fit = fit_preferences(first[:7], second[:7], item[:7], np.array([1.0, 0, 0, 1, 1, 0, 0]), n_agents=2)
    assert -1 <= fit.position_effect.low <= fit.position_effect.high <= 1
