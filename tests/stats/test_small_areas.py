"""Test quality from few labels and ability: against brute force, and with informative or misleading abilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, norm

from narrowing import not_none
from youden.errors import StatisticsError
from youden.stats.base.proportions import proportion
from youden.stats.small_areas.quality_estimates import QualityEstimates, quality_from_labels

K = 30


@dataclass(frozen=True)
class _Drawn:
    agent: np.ndarray
    item: np.ndarray
    value: np.ndarray
    ability: np.ndarray
    truth: np.ndarray

    def fit(self) -> QualityEstimates:
        return quality_from_labels(
            self.agent, self.item, self.value, ability=self.ability, std_error=np.full(len(self.ability), 0.01)
        )

    @property
    def means(self) -> np.ndarray:
        return np.bincount(self.agent, weights=self.value) / np.bincount(self.agent)


def _drawn(rng: np.random.Generator, n: int, *, relation: float = 1.0, k: int = K, spread: float = 0.4) -> _Drawn:
    z = rng.normal(size=k)
    truth = expit(-0.5 + relation * z + spread * rng.normal(size=k))
    agent = np.repeat(np.arange(k), n)
    item = np.arange(k * n)
    return _Drawn(agent, item, (rng.random(k * n) < truth[agent]).astype(float), 0.4 + 0.05 * z, truth)


@pytest.mark.slow
def test_densities_and_median_quality_agree_with_importance_sampling() -> None:
    """Compared with importance sampling from the same priors, within the Monte Carlo error."""
    rng = np.random.default_rng(0)
    ability = np.linspace(-1, 1, 6)
    z = (ability - ability.mean()) / ability.std()
    yes, n = np.array([0, 1, 1, 2, 3, 3]), 3
    value = np.concatenate([np.r_[np.ones(y), np.zeros(n - y)] for y in yes])
    labels = quality_from_labels(
        np.repeat(np.arange(6), n), np.arange(18), value, ability=ability, std_error=np.zeros(6)
    )
    draws, nothing = 400_000, 0.2 + 1.5 / 6
    taus = np.exp(np.linspace(np.log(0.2), np.log(2.4), 9))
    beside, alone = taus / (1 + (taus / 0.6) ** 2) ** 1.5, np.exp(-0.5 * (np.log(taus) / 0.6) ** 2)
    has_slope = rng.random(draws) >= nothing
    form = rng.choice(3, draws, p=[0.6, 0.2, 0.2])
    convex, concave = np.exp(z / 2), -np.exp(-z / 2)
    x = np.array([z, *((t - t.mean()) / t.std() for t in (convex, concave))])[form]
    a, other_b = (rng.choice(taus, draws, p=chance / chance.sum()) for chance in (alone, beside))
    tau = np.where(has_slope, other_b, a)[:, None]
    sign = np.where(rng.random(draws) < np.where(form == 0, 0.8, 0.95), 1, -1)
    b = np.where(has_slope, sign * np.abs(rng.normal(size=draws)) * 1.5, 0.0)
    share = rng.choice([0.02, 0.1], draws, p=[0.6, 0.4])[:, None]
    theta = 2 * rng.normal(size=(draws, 1)) + b[:, None] * x + tau * rng.normal(size=(draws, 6))
    q = np.where(rng.random((draws, 6)) < share, rng.random((draws, 6)), expit(theta))
    weight = np.prod(binom.pmf(yes, n, q), axis=1)
    weight /= weight.sum()
    assert np.abs(labels.density @ labels.grid - weight @ q).max() < 0.015
    assert abs(not_none(labels.regression).p_zero_slope - weight[~has_slope].sum()) < 0.03
    order = np.argsort(b)
    median = b[order][np.searchsorted(np.cumsum(weight[order]), 0.5)]
    assert abs(not_none(labels.regression).slope - median) < 0.1
    near = np.abs(b - median) < 0.1
    assert np.abs(labels.quality - weight[near] @ q[near] / weight[near].sum()).max() < 0.02


def test_ability_does_not_break_ties_before_labels_show_a_slope() -> None:
    """Eight agents with one label each, half of them yes regardless of ability: two values of quality, ordered by label."""
    value = np.array([1.0, 0, 0, 1, 1, 0, 0, 1])
    labels = quality_from_labels(np.arange(8), np.arange(8), value, ability=np.arange(8.0), std_error=np.full(8, 0.01))
    assert not_none(labels.regression).slope == 0.0
    assert len(np.unique(labels.quality[value == 1].round(12))) == 1
    assert labels.quality[value == 1].min() > labels.quality[value == 0].max()


def test_a_predictive_ability_saves_labels() -> None:
    rng = np.random.default_rng(1)
    ours, alone = [], []
    for _ in range(10):
        drawn = _drawn(rng, 5)
        ours.append(np.mean((drawn.fit().quality - drawn.truth) ** 2))
        alone.append(np.mean((drawn.means - drawn.truth) ** 2))
    assert np.mean(alone) > 2.5 * np.mean(ours)


def test_an_ability_that_is_noise_is_ignored() -> None:
    rng = np.random.default_rng(2)
    z = [_drawn(rng, 10, relation=0.0, spread=1.0).fit().regression for _ in range(6)]
    assert all(line is not None for line in z)
    assert np.mean([line.p_zero_slope for line in z if line]) > 0.4
    assert np.mean([line.r2 for line in z if line]) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("relation", [1.2, 0.0, -1.2])
def test_intervals_cover_for_any_relation(relation: float) -> None:
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(12):
        drawn = _drawn(rng, 5, relation=relation, spread=0.6)
        result = drawn.fit()
        inside.append(((result.low <= drawn.truth) & (drawn.truth <= result.high)).mean())
    assert 0.92 <= np.mean(inside) <= 0.99


def test_an_outlier_between_labels_and_ability_is_named_and_keeps_its_labels() -> None:
    rng = np.random.default_rng(4)
    drawn = _drawn(rng, 10)
    ability = np.r_[drawn.ability, drawn.ability.min() - 0.05]
    value = np.r_[drawn.value, np.ones(9), np.zeros(1)]
    agent = np.r_[drawn.agent, np.full(10, K)]
    labels = quality_from_labels(agent, np.arange(len(value)), value, ability=ability, std_error=np.full(K + 1, 0.01))
    own = proportion(9, 10)
    assert np.flatnonzero(labels.is_outlier).tolist() == [K]
    assert labels.quality[K] > 0.75
    assert labels.predicted[K] < 0.3
    assert labels.low[K] <= own.low
    assert labels.high[K] >= own.high


def test_below_five_labeled_agents_only_labels_count() -> None:
    value = np.array([1.0, 0, 1, 1, 1, 0, 0, 0])
    labels = quality_from_labels(
        np.repeat(np.arange(4), 2), np.arange(8), value, ability=np.arange(6.0), std_error=np.ones(6)
    )
    assert labels.quality[:4].tolist() == [0.5, 1.0, 0.5, 0.0]
    assert np.isnan(labels.quality[4:]).all()
    assert (labels.low[0], labels.high[0]) == (proportion(1, 2).low, proportion(1, 2).high)
    assert labels.regression is None
    assert not labels.is_outlier.any()


def test_an_agent_without_labels_has_the_quality_predicted_from_its_ability() -> None:
    drawn = _drawn(np.random.default_rng(5), 20)
    ability = np.r_[drawn.ability, drawn.ability.max(), np.nan]
    labels = quality_from_labels(drawn.agent, drawn.item, drawn.value, ability=ability, std_error=np.full(K + 2, 0.01))
    assert labels.quality[K] > labels.quality[:K].mean() + 0.15
    assert labels.label_weight[K] == 0.0
    assert labels.high[K + 1] - labels.low[K + 1] > labels.high[:K].mean() - labels.low[:K].mean()


def test_the_ability_of_an_agent_without_a_standard_error_is_not_used() -> None:
    drawn = _drawn(np.random.default_rng(5), 20)
    is_unknown = np.arange(K) < 3
    error = np.where(is_unknown, np.nan, 0.01)
    without_error = quality_from_labels(drawn.agent, drawn.item, drawn.value, ability=drawn.ability, std_error=error)
    ability = np.where(is_unknown, np.nan, drawn.ability)
    without_ability = quality_from_labels(drawn.agent, drawn.item, drawn.value, ability=ability, std_error=error)
    np.testing.assert_array_equal(without_error.quality, without_ability.quality)
    np.testing.assert_array_equal(without_error.high, without_ability.high)


@pytest.mark.slow
def test_agents_labeled_on_hard_items_are_not_penalized() -> None:
    """Half of the agents are labeled on harder items, as agents that share items show."""
    rng = np.random.default_rng(7)
    bias = []
    for _ in range(8):
        z, effect = rng.normal(size=K), np.r_[np.full(10, -1.2), np.full(10, 1.2)]
        truth = logit(0.5) + 0.3 * z
        item = np.concatenate(
            [
                np.r_[rng.choice(10, 3 + 4 * (k % 2), False), 10 + rng.choice(10, 7 - 4 * (k % 2), False)]
                for k in range(K)
            ]
        )
        agent = np.repeat(np.arange(K), 10)
        value = (rng.random(len(agent)) < expit(truth[agent] + effect[item])).astype(float)
        labels = quality_from_labels(agent, item, value, ability=rng.normal(size=K), std_error=np.full(K, 0.01))
        mean = np.bincount(agent, weights=value) / 10
        bias.append(
            [
                np.mean(x[::2]) - np.mean(x[1::2]) - np.mean(expit(truth)[::2]) + np.mean(expit(truth)[1::2])
                for x in (labels.quality, mean)
            ]
        )
        assert labels.item_variance_share > 0.05
    ours, plain = np.mean(bias, axis=0)
    assert abs(ours) < 0.5 * abs(plain)


def test_grades_have_more_information_than_labels_of_0_and_1() -> None:
    rng = np.random.default_rng(8)
    drawn = _drawn(rng, 5)
    graded = np.clip(drawn.truth[drawn.agent] + 0.1 * rng.normal(size=len(drawn.agent)), 0, 1)
    labels = quality_from_labels(drawn.agent, drawn.item, graded, ability=drawn.ability, std_error=np.full(K, 0.01))
    assert (labels.high - labels.low).mean() < 0.6 * (drawn.fit().high - drawn.fit().low).mean()


def test_with_many_labels_ability_has_no_weight() -> None:
    drawn = _drawn(np.random.default_rng(9), 600, relation=0.3, k=8)
    result = drawn.fit()
    assert np.abs(result.quality - drawn.means).max() < 0.01
    assert result.label_weight.min() > 0.9


def test_regret_bound_and_p_best_equal_those_of_draws() -> None:
    drawn = _drawn(np.random.default_rng(10), 10)
    result = drawn.fit()
    rng = np.random.default_rng(0)
    draws = np.array([rng.choice(result.grid, 20_000, p=row) for row in result.density]) + 1e-9 * rng.random(
        (K, 20_000)
    )
    best = np.bincount(draws.argmax(axis=0), minlength=K) / 20_000
    assert np.abs(result.best_probabilities() - best).max() < 0.02
    leader = int(result.best_probabilities().argmax())
    within = result.regret_bound(leader)
    assert abs(np.mean(draws.max(axis=0) - draws[leader] <= within) - 0.95) < 0.03


def test_a_single_agent_has_no_regret_and_is_the_best() -> None:
    label = np.array([0.0, 1.0] * 4)
    fit = quality_from_labels(
        np.zeros(8, dtype=int), np.arange(8), label, ability=np.array([0.3]), std_error=np.array([0.05])
    )
    assert fit.regret_bound(0) == pytest.approx(0, abs=1e-6)
    assert fit.best_probabilities().tolist() == [1.0]


def test_labels_to_find_the_best_go_to_contenders_and_labels_for_all_are_spread() -> None:
    drawn = _drawn(np.random.default_rng(11), 10)
    result, left = drawn.fit(), np.full(K, 40)
    best, every = (result.allocate_labels(30, left, for_best=how) for how in (True, False))
    assert best.sum() == every.sum() == 30
    top = np.argsort(-result.quality)
    assert best[top[:10]].sum() >= 25
    variance = result.density @ result.grid**2 - (result.density @ result.grid) ** 2
    assert np.corrcoef(every, variance)[0, 1] > 0.5
    none = quality_from_labels(
        drawn.agent[:0], drawn.item[:0], drawn.value[:0], ability=drawn.ability, std_error=np.full(K, 0.01)
    )
    assert none.allocate_labels(2 * K, left, for_best=False).tolist() == [2] * K
    assert (
        result.allocate_labels(30, np.r_[np.zeros(K - 1, dtype=int), 2], for_best=True)
        == np.r_[np.zeros(K - 1, dtype=int), 2]
    ).all()


def test_labels_out_of_range_are_refused() -> None:
    with pytest.raises(StatisticsError, match=r"labels from 0.0 to 5.0.* \[labels-range\]"):
        quality_from_labels(
            np.arange(5), np.arange(5), np.array([0.0, 1, 1, 5, 0]), ability=np.arange(5.0), std_error=np.ones(5)
        )


def test_the_regression_accepts_labels_that_are_not_normal() -> None:
    """With one label per agent, means are 0 or 1; the regression is found, and no quality is 0 or 1."""
    z = norm.ppf((np.arange(K) + 0.5) / K)
    value = (z > 0).astype(float)
    labels = quality_from_labels(np.arange(K), np.arange(K), value, ability=z, std_error=np.full(K, 0.01))
    assert not_none(labels.regression).low > 0
    assert 0 < labels.quality.min() < 0.2
    assert 0.8 < labels.quality.max() < 1
