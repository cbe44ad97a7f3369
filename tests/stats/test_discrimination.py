"""Test Youden's J with its interval, the test of equal abilities, and the variance explained by text length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from youden.stats.base.clusters import CentredCovariance
from youden.stats.base.proportions import independent_difference, proportion
from youden.stats.judges.discrimination import (
    ItemTotals,
    clustered_proportion,
    equal_abilities_p,
    mean_difference,
    youdens_j,
)
from youden.stats.judges.length_dependence import length_share
from youden.types.pool import Bools, Positions


def totals(answer: object, *items: object, n_items: int = 40, weight: object = None) -> ItemTotals:
    item_totals = ItemTotals(n_items)
    columns = [np.asarray(item, dtype=np.int32) for item in items]
    item_totals.add(
        np.asarray(answer, dtype=float), *columns, weight=None if weight is None else np.asarray(weight, dtype=float)
    )
    return item_totals


def test_the_variance_of_paired_answers_equals_that_of_item_sums() -> None:
    rng = np.random.default_rng(0)
    item = rng.integers(0, 40, 500)
    answer = (rng.random(500) < rng.random(40)[item]).astype(float)
    residual = answer - answer.mean()
    by_item = np.array([residual[item == j].sum() for j in range(40)])
    assert totals(answer, item).variance == pytest.approx((by_item**2).sum() / 500**2 * 40 / 39)


def test_the_variance_of_independent_answers_is_dyadic() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.permutation(np.stack(np.triu_indices(40, 1)), axis=1)[:, :300]
    answer = (rng.random(300) < rng.random(40)[first]).astype(float)
    residual = answer - answer.mean()
    shares_an_item = np.array(
        [[bool({first[s], second[s]} & {first[t], second[t]}) for t in range(300)] for s in range(300)]
    )
    slow = float(residual @ shares_an_item @ residual) / 300**2 * 40 / 39
    assert totals(answer, first, second).variance == pytest.approx(max(slow, (residual**2).sum() / 300**2 * 40 / 39))


def test_sums_of_chunks_equal_the_total() -> None:
    rng = np.random.default_rng(2)
    item, answer = rng.integers(0, 40, 200).astype(np.int32), rng.random(200)
    complete, parts = totals(answer, item), ItemTotals(40)
    for rows in (slice(0, 70), slice(70, 200)):
        parts.add(answer[rows], item[rows])
    assert (parts.mean, parts.variance) == pytest.approx((complete.mean, complete.variance))


@pytest.mark.parametrize(("paired", "independent"), [(0, 0), (1, 1), (1, 0), (0, 1)])
def test_j_has_an_interval_of_positive_width_at_rates_of_0_and_1(paired: float, independent: float) -> None:
    item = np.arange(200) % 40
    result = youdens_j(totals(np.full(200, paired), item), totals(np.full(100, independent), item[:100], item[1:101]))
    assert result.value == paired - independent
    assert result.low <= result.value <= result.high
    assert result.high - result.low > 0.02
    assert (result.low > 0, result.high < 0) == (paired > independent, paired < independent)


def test_independent_answers_get_newcombe_intervals_and_correlated_ones_wider_ones() -> None:
    rng = np.random.default_rng(3)
    item = np.repeat(np.arange(400), 1)
    yes = (rng.random(400) < 0.6).astype(float)
    no = (rng.random(100) < 0.1).astype(float)
    apart = totals(no, np.arange(100), np.arange(100, 200), n_items=400)
    alone = youdens_j(totals(yes, item, n_items=400), apart)
    plain = independent_difference(proportion(yes.sum(), 400), proportion(no.sum(), 100))
    assert (alone.low, alone.high) == pytest.approx((plain.low, plain.high), abs=0.02)
    alike = youdens_j(totals(np.sort(yes), item // 20, n_items=20), apart)
    assert alike.high - alike.low > 2 * (alone.high - alone.low)


@pytest.mark.parametrize("answer", [0.1, 1 / 3, 0.7, 0.9])
def test_equal_graded_answers_count_once_per_item_despite_rounding_errors(answer: float) -> None:
    item = np.repeat(np.arange(6), 6)
    one_answer_per_item = clustered_proportion(totals(np.full(6, answer), np.arange(6)))
    repeated = clustered_proportion(totals(np.full(36, answer), item))
    assert (repeated.low, repeated.high) == pytest.approx((one_answer_per_item.low, one_answer_per_item.high))


def test_a_trial_type_without_answers_leaves_j_unknown() -> None:
    result = youdens_j(totals(np.ones(50), np.arange(50) % 40), ItemTotals(40))
    assert np.isnan([result.value, result.low, result.high]).all()
    assert np.isnan(clustered_proportion(ItemTotals(40)).value)


def test_the_mean_of_differences_covers_0_if_there_is_no_signal() -> None:
    rng, covered = np.random.default_rng(4), 0
    item = np.arange(600) % 40
    for _ in range(200):
        result = mean_difference(totals(rng.choice([-1.0, 0.0, 1.0], 600) + rng.normal(0, 0.3, 40)[item], item))
        covered += result.low <= 0 <= result.high
    assert 0.9 <= covered / 200 <= 0.99
    assert np.isnan(mean_difference(totals([1.0, 1.0], [0, 0])).low)


def test_equal_abilities_are_rejected_at_rate_alpha_and_others_almost_always() -> None:
    rng, n_items = np.random.default_rng(5), 30
    p_equal, p_other = [], []
    for _ in range(400):
        by_item = rng.standard_normal((6, n_items)) * rng.uniform(0.5, 2, 6)[:, None]
        centered = by_item - by_item.mean(axis=0)
        deviation = centered - centered.mean(axis=1, keepdims=True)
        covariance = CentredCovariance(deviation @ deviation.T / (n_items - 1) / n_items, np.full(6, n_items - 1.0))
        ability = by_item.mean(axis=1)
        p_equal.append(equal_abilities_p(ability, covariance))
        p_other.append(equal_abilities_p(ability + np.linspace(0, 3, 6), covariance))
    assert np.mean(np.array(p_equal) < 0.05) < 0.08
    assert np.mean(np.array(p_other) < 0.05) > 0.99


def test_agents_that_cannot_be_compared_have_no_p_value() -> None:
    C = np.full((4, 4), np.nan)
    C[:2, :2] = C[2:, 2:] = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert np.isnan(equal_abilities_p(np.arange(4.0), CentredCovariance(C, np.full(4, 9.0))))
    assert np.isnan(equal_abilities_p(np.full(4, np.nan), CentredCovariance(C, np.full(4, 9.0))))


def test_exact_abilities_differ_unless_they_are_equal() -> None:
    exact = CentredCovariance(np.zeros((3, 3)), np.full(3, 9.0))
    assert equal_abilities_p(np.array([1.0, 2.0, 3.0]), exact) == 0
    assert equal_abilities_p(np.ones(3), exact) == 1


RULES: dict[str, Callable[[Positions, Positions], Bools]] = {
    "both long": lambda a, b: (a > 300) & (b > 300),
    "alike": lambda a, b: np.abs(np.log(a / b)) < 0.4,
    "first long": lambda a, _: a > 300,
    "long together": lambda a, b: a + b > 700,
}


@pytest.mark.parametrize("rule", list(RULES))
def test_every_length_based_judge_is_detected(rule: str) -> None:
    rng = np.random.default_rng(6)
    lengths = np.exp(rng.normal(5.7, 0.6, (2, 700))).astype(np.int64)
    paired = np.arange(700) < 600
    by_length = RULES[rule](*lengths)
    assert length_share(by_length.astype(float), *lengths, paired=paired) > 0.5
    assert length_share((by_length & paired).astype(float), *lengths, paired=paired) < 0.5, "it knows pairs from others"
    assert abs(length_share((rng.random(700) < 0.5).astype(float), *lengths, paired=paired)) < 0.15


@pytest.mark.parametrize("tpr", [0.9, 1.0])
def test_a_good_judge_does_not_compare_lengths_that_are_similar_within_items(tpr: float) -> None:
    rng = np.random.default_rng(7)
    mean_log_length = rng.normal(5, 0.6, 30)
    item, other_item = rng.integers(0, 30, 330), rng.integers(0, 30, 330)
    paired = np.arange(330) < 300
    other_item[paired] = item[paired]
    log_lengths = mean_log_length[[item, other_item]] + rng.normal(0, 0.1, (2, 330))
    answer = (rng.random(330) < tpr) & paired
    assert length_share(answer.astype(float), *np.exp(log_lengths).astype(int), paired=paired) < 0.1


def test_few_or_equal_answers_do_not_indicate_a_length_based_judge() -> None:
    lengths = np.arange(1, 401).reshape(2, 200)
    paired = np.arange(200) < 150
    assert np.isnan(length_share(np.ones(200), *lengths, paired=paired))
    assert np.isnan(length_share(np.arange(200.0) % 2, *lengths, paired=np.ones(200, dtype=np.bool_)))
    assert np.isnan(length_share(np.arange(50.0) % 2, *lengths[:, :50], paired=paired[:50]))
