"""Test the false-positive rate of each agent: estimates, covariance and degrees of freedom."""

from __future__ import annotations

import numpy as np
import pytest

from small_pools import answer_with, make_pool
from youden import make_plan
from youden.errors import StatisticsError
from youden.pipeline.abilities import estimate_mean_abilities
from youden.protocol.pooled_trials import draw_pooled_trials
from youden.stats.base.clusters import CentredCovariance
from youden.stats.trials.agent_rates import AgentRates, IndependentTotals
from youden.types import INDEPENDENT
from youden.types.pool import Floats, Ids

K, J = 20, 50


class Answers:
    """Answers to independent trials in complete passes; a pair answers yes with the mean of both agents' effects."""

    def __init__(self, effect: Floats, n_passes: int, rng: np.random.Generator, *, soft: float = 0.0) -> None:
        self.n_agents = len(effect)
        trials = draw_pooled_trials(np.ones((self.n_agents, J), dtype=np.bool_), n_passes * self.n_agents, rng)
        self.item, self.first, self.second, self.other_item = (
            trials.item,
            trials.first,
            trials.second,
            trials.other_item,
        )
        rate = (effect[self.first] + effect[self.second]) / 2
        self.answer = (rng.random(len(rate)) < rate).astype(float)
        if soft:
            self.answer = np.clip(rate + soft * rng.standard_normal(len(rate)), 0, 1)

    def totals(self) -> IndependentTotals:
        return make_totals(self.first, self.second, self.answer, self.item, self.other_item, n_agents=self.n_agents)

    def rates(self, *, items_vary: bool = False) -> AgentRates:
        return self.totals().estimate_rates(items_vary=items_vary)


def make_totals(
    first: Ids, second: Ids, answer: Floats, item: Ids, other_item: Ids, *, n_agents: int
) -> IndependentTotals:
    totals = IndependentTotals(n_agents, J)
    totals.add(first, second, answer, item=item, other_item=other_item)
    return totals


def mean_rates(effect: Floats) -> Floats:
    """Return the mean answer of each agent over all partners."""
    n = len(effect)
    return np.asarray(effect / 2 + (effect.sum() - effect) / (n - 1) / 2)


def centered_half_width(rates: AgentRates) -> Floats:
    """Return half-widths of intervals for the distances of rates from their mean, without any other error."""
    n = len(rates.rate)
    no_error = CentredCovariance(1e-12 * (np.eye(n) - 1 / n), np.full(n, 200.0))
    return rates.add_errors_to(no_error).half_width()


@pytest.mark.parametrize("n_passes", [2, 8, 40])
@pytest.mark.parametrize("spread", [0.0, 0.005, 0.02, 0.05])
def test_intervals_of_differences_of_rates_cover_at_any_number_of_trials(spread: float, n_passes: int) -> None:
    rng = np.random.default_rng([3, n_passes, round(1000 * spread)])
    covered, within = [], []
    for _ in range(60):
        effect = np.clip(0.04 + 2 * spread * rng.standard_normal(K), 0, 1)
        rates, truth = Answers(effect, n_passes, rng).rates(), mean_rates(effect)
        error = rates.rate - rates.rate.mean() - (truth - truth.mean())
        covered.append(np.abs(error) <= centered_half_width(rates))
        within.append((rates.low <= truth) & (truth <= rates.high))
    assert np.mean(covered) >= 0.93
    assert np.mean(within) >= 0.9
    if spread >= 0.02 and n_passes == 40:
        assert np.mean(covered) <= 0.985


def test_differences_of_rates_do_not_depend_on_how_many_trials_another_agent_has() -> None:
    """An agent with many trials and a low rate lowers the mean answer, which must not push the other rates to 0."""
    n = np.array([4000, 16, 16, 16, 16, 16, 16, 16])
    total = np.array([6, 4, 0, 0, 0, 4, 8, 8])
    totals = IndependentTotals(len(n), 1)
    totals.n_by_agent, totals.sum_by_agent, totals.square_sum_by_agent = (
        n.astype(float),
        total.astype(float),
        total.astype(float),
    )
    totals.n_training, totals.training_sum, totals.training_square_sum = (
        int(n.sum() / 2),
        total.sum() / 2,
        total.sum() / 2,
    )
    rate = totals.estimate_rates(items_vary=False).rate
    assert rate[1] - rate[2] > 0.1
    assert rate.min() >= 0


def test_equal_rates_widen_intervals_little_and_a_different_one_is_kept() -> None:
    rng = np.random.default_rng(1)
    spread = [Answers(np.full(K, 0.02), 20, rng).rates().rate.std() for _ in range(40)]
    assert np.mean(spread) < 0.25 * np.sqrt(0.02 / 40)

    effect = np.full(K, 0.02)
    effect[3] = 0.3
    truth = mean_rates(effect)
    result = np.array([Answers(effect, 100, rng).rates().rate for _ in range(20)])
    assert abs(result[:, 3].mean() - truth[3]) < 0.03
    others = np.delete(np.arange(K), 3)
    assert np.mean((result - truth)[:, others] ** 2) < 0.3 * np.mean((result.mean(axis=1, keepdims=True) - truth) ** 2)


@pytest.mark.parametrize("soft", [0.0, 0.05])
def test_the_order_of_agents_and_trials_is_irrelevant(soft: float) -> None:
    rng = np.random.default_rng(2)
    answers = Answers(np.linspace(0, 0.2, K), 6, rng, soft=soft)
    rates = answers.rates(items_vary=True)

    order, rows = rng.permutation(K), rng.permutation(len(answers.answer))
    new_position = np.argsort(order).astype(np.int32)
    permuted = make_totals(
        new_position[answers.first][rows],
        new_position[answers.second][rows],
        answers.answer[rows],
        answers.item[rows],
        answers.other_item[rows],
        n_agents=K,
    ).estimate_rates(items_vary=True)
    for name in ("rate", "low", "high", "squared_error_variance", "n_trials"):
        np.testing.assert_allclose(getattr(permuted, name), getattr(rates, name)[order], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(permuted.covariance, rates.covariance[np.ix_(order, order)], rtol=1e-6, atol=1e-14)


def test_the_sides_of_a_trial_are_exchangeable_and_chunks_add_up() -> None:
    answers = Answers(np.linspace(0, 0.3, K), 4, np.random.default_rng(5))
    exchanged = make_totals(answers.second, answers.first, answers.answer, answers.other_item, answers.item, n_agents=K)
    np.testing.assert_allclose(exchanged.estimate_rates().rate, answers.rates(items_vary=True).rate, rtol=1e-9)

    half = len(answers.answer) // 2
    parts = [
        make_totals(
            answers.first[rows],
            answers.second[rows],
            answers.answer[rows],
            answers.item[rows],
            answers.other_item[rows],
            n_agents=K,
        )
        for rows in (slice(half), slice(half, None))
    ]
    merged = parts[0].merged(parts[1]).estimate_rates()
    np.testing.assert_allclose(merged.covariance, answers.rates(items_vary=True).covariance, rtol=1e-9)


@pytest.mark.parametrize("n_agents", [2, 3, 12])
@pytest.mark.parametrize("answer", [0.0, 1.0, 0.3])
def test_constant_answers_give_equal_rates_at_their_mean(n_agents: int, answer: float) -> None:
    answers = Answers(np.zeros(n_agents), 4, np.random.default_rng(0))
    answers.answer[:] = answer
    rates = answers.rates(items_vary=True)
    np.testing.assert_allclose(rates.rate, answer, atol=1e-6)
    assert np.isfinite(rates.covariance).all()
    assert np.isfinite(rates.squared_error_variance).all()
    assert (rates.low <= rates.rate).all()
    assert (rates.rate <= rates.high).all()
    assert (rates.high <= 1).all()
    assert (rates.low >= 0).all()


def test_without_a_yes_the_uncertainty_falls_with_the_number_of_trials() -> None:
    widths = [np.diag(Answers(np.zeros(K), n, np.random.default_rng(0)).rates().covariance).mean() for n in (2, 8, 32)]
    assert widths[0] > 4 * widths[1] > 16 * widths[2] > 0


def test_two_agents_have_the_same_trials_and_so_the_same_rate() -> None:
    rates = Answers(np.array([0.0, 0.9]), 20, np.random.default_rng(0)).rates()
    assert rates.rate[0] == rates.rate[1]
    assert not rates.covariance.any()


def test_an_agent_without_trials_has_the_mean_rate_and_the_widest_interval() -> None:
    rng = np.random.default_rng(7)
    answers = Answers(np.linspace(0.0, 0.3, K), 30, rng)
    used = (answers.first != 4) & (answers.second != 4)
    columns = (answers.first, answers.second, answers.answer, answers.item, answers.other_item)
    rates = make_totals(*(column[used] for column in columns), n_agents=K).estimate_rates()
    assert rates.n_trials[4] == 0
    assert abs(rates.rate[4] - rates.pooled) < 0.5 * rates.rate.std()
    assert np.diag(rates.covariance).argmax() == 4
    assert (rates.high - rates.low).argmax() == 4


def test_without_trials_rates_are_0_and_add_no_variance() -> None:
    rates = IndependentTotals(K, J).estimate_rates()
    covariance = CentredCovariance(np.eye(K), np.full(K, 50.0))
    assert not rates.rate.any()
    assert np.isnan(rates.low).all()
    assert rates.add_errors_to(covariance) is covariance


def test_missing_answers_and_columns_of_several_lengths_are_refused() -> None:
    first, second, item = np.array([0, 1]), np.array([1, 0]), np.array([0, 1])
    totals = IndependentTotals(2, J)
    with pytest.raises(StatisticsError, match="trial-answer"):
        totals.add(first, second, np.array([0.0, np.nan]), item=item, other_item=item[::-1])
    with pytest.raises(StatisticsError, match="trial-columns"):
        totals.add(first, second[:1], np.zeros(2), item=item, other_item=item[::-1])


@pytest.mark.slow
def test_the_added_covariance_is_that_of_centered_rates_and_its_df_are_between_both() -> None:
    rates = Answers(np.linspace(0, 0.2, K), 10, np.random.default_rng(3)).rates()
    base = CentredCovariance(0.0004 * (np.eye(K) - 1 / K), np.full(K, 200.0))
    total = rates.add_errors_to(base)
    error = np.random.default_rng(4).multivariate_normal(np.zeros(K), rates.covariance, size=200_000)
    centered = error - error.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(np.diag(total.covariance - base.covariance), centered.var(axis=0), rtol=0.03)
    assert (total.df >= 10).all()
    assert (total.df <= 200).all()
    few = rates.add_errors_to(CentredCovariance(base.covariance, np.full(K, 7.0)))
    assert (few.df >= 7).all()


def test_distances_from_reference_agents_do_not_depend_on_other_agents() -> None:
    rates = Answers(np.linspace(0, 0.2, K), 10, np.random.default_rng(3)).rates()
    base = CentredCovariance(np.eye(K), np.full(K, 30.0))
    reference = np.arange(K) < 5
    changed = rates.covariance.copy()
    changed[10, 10] *= 100
    agent_rates = AgentRates(**(vars(rates) | {"covariance": changed}))
    plain, larger = (case.add_errors_to(base, reference=reference).covariance for case in (rates, agent_rates))
    np.testing.assert_allclose(plain[:10, :10], larger[:10, :10])


def test_answers_about_one_text_are_not_independent_for_items_like_these() -> None:
    """A text that matches one text matches every text: the design effect is the number of trials per text."""
    rng = np.random.default_rng(6)
    texts = rng.random((K, J)) < 0.05
    n = 12_000
    first, item, other_item = (rng.integers(0, size, n).astype(np.int32) for size in (K, J, J))
    second = ((first + rng.integers(1, K, n)) % K).astype(np.int32)
    answer = (texts[first, item] | texts[second, other_item]).astype(float)
    totals = make_totals(first, second, answer, item, other_item, n_agents=K)
    these, like_these = (totals.estimate_rates(items_vary=vary) for vary in (False, True))
    assert np.diag(like_these.covariance).mean() > 2 * np.diag(these.covariance).mean()


def test_linked_agents_do_not_change_each_other_or_the_anchors() -> None:
    rng = np.random.default_rng(8)
    anchors = Answers(np.linspace(0.0, 0.1, K), 10, rng)
    rates = anchors.rates()
    anchor_totals = anchors.totals()
    for yeses in (0, 20):
        totals = IndependentTotals(K + 2, J)
        answer = np.zeros(80)
        answer[:yeses] = 1
        new, partner = np.full(80, K), rng.integers(0, K, 80)
        counts_for = np.ones(80, dtype=np.bool_), np.zeros(80, dtype=np.bool_)
        item = np.zeros(80, dtype=np.int64)
        totals.add(new, partner, answer, item=item, other_item=item + 1, counts_for=counts_for)
        linked = totals.link_rates(anchor_totals, rates, np.array([K, K + 1]), items_vary=False)
        np.testing.assert_array_equal(linked.rate[:K], rates.rate)
        np.testing.assert_array_equal(linked.covariance[:K, :K], rates.covariance)
        assert abs(linked.rate[K + 1] - rates.rate.mean()) < 0.02  # without a trial
        assert linked.high[K + 1] > rates.high.mean()
    assert linked.rate[K] > 0.15


def test_an_agent_with_more_false_positives_ranks_lower_at_every_budget() -> None:
    pool = make_pool(10, 60)
    for percent in (60, 10, 3):
        plan = make_plan(pool, calls=f"{percent}%")
        independent = plan.trial_type == INDEPENDENT
        is_yes = ((plan.first == 2) | (plan.second == 2)) & (np.arange(len(plan)) % 2 == 0)
        abilities = estimate_mean_abilities(answer_with(plan, np.where(independent, is_yes, 0.6).astype(float)))
        others = np.delete(np.arange(10), 2)
        assert abilities.ability[2] < abilities.ability[others].min() - 0.05
        assert np.ptp(abilities.ability[others]) < 0.1
        share = abilities.rate_variance / np.diag(abilities.covariance.covariance)
        assert share[2] > 0.8  # paired answers do not vary here
        assert (share > 0.3).all()
