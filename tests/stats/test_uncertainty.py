"""Test intervals, differences and ranks of abilities: coverage, ties and balance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from cyclic_plans import contributions, cyclic
from narrowing import not_none
from youden import ClippedLinear
from youden.errors import StatisticsError
from youden.stats import CentredCovariance, PairChunk, pairwise_differences, trial_means
from youden.stats.base.clusters import covariance_over_clusters, unseen_effect_square
from youden.stats.trials.comparisons import are_equal, rank_with_ties
from youden.stats.trials.noninferiority import ConservativeDifference, estimate_difference, required_n_items
from youden.stats.trials.trial_errors import covariance_on_these_items
from youden.types import Plan
from youden.types.pool import Floats


def means(plan: Plan, answer: Floats) -> Floats:
    agent = np.append(plan.first, plan.second)
    return np.bincount(agent, np.tile(answer, 2), plan.n_agents) / np.bincount(agent, minlength=plan.n_agents)


def over_items(plan: Plan, answer: Floats) -> CentredCovariance:
    influence = contributions(plan, answer)
    return covariance_over_clusters(influence.influence, influence.weight)


def on_these_items(plan: Plan, answer: Floats) -> CentredCovariance:
    block = PairChunk.from_trials(plan.item, plan.first, plan.second, answer, block=plan.block, n_items=plan.n_items)
    return covariance_on_these_items(lambda: [block], ability=means(plan, answer), n_items=plan.n_items)


def by_block(plan: Plan, answer: Floats) -> CentredCovariance:
    """Compute the plain variance: blocks as clusters, minus the fraction of all trials that was asked."""
    block = PairChunk.from_trials(plan.block, plan.first, plan.second, answer, n_items=int(plan.block.max()) + 1)
    result = trial_means(lambda: [block], n_agents=plan.n_agents, target="items-like-these")
    left = 1 - len(answer) / (plan.n_agents * (plan.n_agents - 1) * plan.n_items + 1)
    return result.covariance.with_scaled_variances(np.full(plan.n_agents, left))


def dense_answers(K: int, J: int, *, cell: float, pair: float, noise: float, seed: int) -> Floats:
    """Return D, float (J, K, K), without a main effect of agents."""
    rng = np.random.default_rng(seed)
    c = cell * rng.standard_normal((J, K))
    noisy = noise * rng.standard_normal((J, K, K)) + rng.standard_normal((J, 1, 1))
    return np.asarray(c[:, :, None] + c[:, None, :] + pair * rng.standard_normal((K, K)) + noisy)


def dense_ability(D: Floats) -> Floats:
    K = D.shape[1]
    D = np.where(np.eye(K, dtype=bool), 0.0, D)
    return np.asarray((D.sum(axis=(0, 1)) + D.sum(axis=(0, 2))) / (2 * (K - 1) * len(D)))


def test_the_covariance_is_the_cluster_covariance_shrunk_to_independent_agents() -> None:
    rng = np.random.default_rng(0)
    U = rng.choice([-0.01, 0.01], (5, 40))
    result = covariance_over_clusters(U, np.full((5, 40), 1 / 40))
    g = (U - U.mean(axis=0)) / np.sqrt(1 - 1 / 40)
    own = np.diag(g @ g.T)
    expected = np.zeros((5, 5))
    hidden = unseen_effect_square(g * 40, np.full(5, 40))
    for i in range(5):
        for k in range(5):
            apart = 1.0 if i == k else -1 / 4
            prior = apart * (6 / 45 * own.mean() + 3.54 / 2 * np.sqrt(hidden[i] * hidden[k]) / 40**2)
            expected[i, k] = 39 / 45 * (g[i] @ g[k]) + prior
    np.testing.assert_allclose(result.covariance, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(result.df, np.full(5, 45.0))


def test_standard_errors_stay_large_if_the_ridge_decides_a_fit_with_gaps() -> None:
    rng = np.random.default_rng(0)
    score = np.full((5, 12), -0.9)
    score[rng.random(score.shape) < 0.7] = np.nan
    error = ClippedLinear().fit(score).centred_covariance.std_error
    assert (~np.isnan(error)).any()
    assert np.nanmin(error) > 0.1


def test_variance_from_few_items_has_a_larger_correction_than_from_all_items() -> None:
    few, all_ = np.zeros((1, 50)), np.full((1, 50), 0.5)
    few[0, :2] = 0.5
    hidden_few, hidden_all, hidden_none = (
        float(unseen_effect_square(m, np.array([50]))[0]) for m in (few, all_, 0 * few)
    )
    assert hidden_few == pytest.approx((1 + 2 * 0.25) / 3 * (1 - 6 / 50))
    assert hidden_all == 0
    assert hidden_none == 1


def test_an_agent_without_trials_has_no_error_and_a_single_agent_is_refused() -> None:
    U, p = np.random.default_rng(0).normal(size=(5, 9)), np.full((5, 9), 1 / 9)
    U[2], p[2] = 0, 0
    result = covariance_over_clusters(U, p)
    assert np.isnan(result.covariance[2]).all()
    assert np.isfinite(np.delete(result.std_error, 2)).all()
    with pytest.raises(StatisticsError, match="cluster-agents"):
        covariance_over_clusters(U[:1], p[:1])
    with pytest.raises(StatisticsError, match="cluster-shape"):
        covariance_over_clusters(U, p[:2])


def test_dense_cells_and_a_complete_cyclic_plan_give_equal_half_widths() -> None:
    K, J = 6, 20
    plan = cyclic(K, J, J * (K - 1))
    D = np.clip(dense_answers(K, J, cell=0.1, pair=0.05, noise=0.2, seed=1) * 0.3, -1, 1)
    score = (np.where(np.eye(K, dtype=bool), 0, D).sum(axis=1) + np.where(np.eye(K, dtype=bool), 0, D).sum(axis=2)).T
    model = ClippedLinear().fit(score / (2 * (K - 1)))
    cells = model.centred_covariance
    trials = over_items(plan, D[plan.item, plan.first, plan.second])
    np.testing.assert_allclose(cells.half_width(), trials.half_width(), rtol=0.02)


@pytest.mark.parametrize(
    ("K", "J", "n_blocks", "cell", "pair"),
    [(8, 30, 63, 0.3, 0.0), (8, 30, 63, 0.0, 0.5), pytest.param(12, 20, 9, 0.4, 0.1, id="fewer blocks than shifts")],
)
def test_intervals_for_these_items_omit_balanced_variance_and_still_cover(
    K: int, J: int, n_blocks: int, cell: float, pair: float
) -> None:
    plan = cyclic(K, J, n_blocks)
    covered, ratio = [], []
    for seed in range(80):
        D = dense_answers(K, J, cell=cell, pair=pair, noise=0.4, seed=seed)
        answer, truth = D[plan.item, plan.first, plan.second], dense_ability(D)
        off = means(plan, answer) - truth
        half = on_these_items(plan, answer).half_width()
        covered.append(np.abs(off - off.mean()) <= half)
        ratio.append(half.mean() / by_block(plan, answer).half_width().mean())
    assert 0.93 <= np.mean(covered) <= 0.98
    assert np.mean(ratio) < 0.95


def test_with_fewer_blocks_than_shifts_the_plain_variance_is_used() -> None:
    K, J, n_blocks = 12, 40, 8
    plan = cyclic(K, J, n_blocks)
    answer = np.random.default_rng(0).random(len(plan))
    width = on_these_items(plan, answer).half_width() / by_block(plan, answer).half_width()
    assert width.min() > 0.85
    assert np.median(width) < 1.01


def test_trials_without_a_block_are_refused() -> None:
    plan = cyclic(5, 6, 6)
    block = PairChunk.from_trials(plan.item, plan.first, plan.second, np.ones(len(plan)), n_items=6)
    with pytest.raises(StatisticsError, match="block-missing"):
        covariance_on_these_items(lambda: [block], ability=np.ones(5), n_items=6)


def test_twelve_of_twelve_agreements_allow_25_percent_and_need_72_items_for_a_gate() -> None:
    plan = cyclic(5, 12, 12)
    difference = estimate_difference(contributions(plan, np.ones(len(plan))), 0, 1)
    assert difference.half_width(0.025) == pytest.approx(1 - 0.025 ** (1 / 12))
    assert required_n_items(difference, margin=0.05, alpha=0.025) == 72
    assert difference.with_items(72).half_width(0.025) < 0.05 <= difference.with_items(71).half_width(0.025)


def test_agents_that_differ_on_every_item_have_the_interval_of_the_variance() -> None:
    plan = cyclic(6, 40, 80)
    influence = contributions(plan, np.random.default_rng(0).random(len(plan)))
    difference = estimate_difference(influence, 0, 1)
    plain = student.ppf(0.975, difference.n_items - 1) * difference.variance**0.5
    assert plain <= difference.half_width(0.025) < 1.05 * plain


def test_fewer_than_72_items_suffice_if_most_of_them_show_a_small_difference() -> None:
    plan = cyclic(12, 40, 400)
    answer = 0.5 + np.random.default_rng(0).choice([-0.1, 0.1], len(plan))
    difference = estimate_difference(contributions(plan, answer), 0, 1)
    assert difference.n_items == 40
    assert difference.half_width(0.025) < 0.05 < 1 - 0.025 ** (1 / 40)


def test_a_gate_at_its_margin_rarely_passes_and_covers_the_difference() -> None:
    K, J, rate = 5, 60, 0.05 * 4 / 3
    plan = cyclic(K, J, J)
    passed, covered = 0, 0
    for seed in range(300):
        bad = np.random.default_rng(seed).random(J) < rate
        answer = np.where(bad[plan.item] & ((plan.first == 0) | (plan.second == 0)), 0.0, 1.0)
        difference = estimate_difference(contributions(plan, answer), 0, 1)
        passed += difference.value - difference.half_width(0.025) > -0.05
        covered += abs(difference.value + 0.05) <= difference.half_width(0.025)
    assert passed <= 15
    assert covered >= 279


def test_a_clearer_difference_needs_fewer_items_and_forecasts_end_at_a_million() -> None:
    near, far = ConservativeDifference(-0.02, 1e-3, 50, 50.0, 0.0), ConservativeDifference(-0.1, 1e-3, 50, 50.0, 0.0)
    slow = not_none(required_n_items(near, margin=0.05, alpha=0.025))
    fast = not_none(required_n_items(far, margin=0.05, alpha=0.025))
    assert fast < slow
    assert required_n_items(ConservativeDifference(0.0, 10.0, 5, 5.0, 1.0), margin=1e-3, alpha=0.025) is None
    with pytest.raises(StatisticsError, match="decision-error"):
        required_n_items(near, margin=0.0, alpha=0.025)


def covariance(variance: float, K: int, *, correlation: float = 0.0) -> CentredCovariance:
    C = variance * ((1 - correlation) * np.eye(K) + correlation)
    return CentredCovariance(C, np.full(K, 1e6))


def test_two_agents_can_differ_significantly_although_their_intervals_overlap() -> None:
    of, ability = covariance(0.01**2, 3), np.array([0.5, 0.47, 0.0])
    half = of.half_width()
    assert ability[0] - half[0] < ability[1] + half[1]
    result = pairwise_differences(ability, of)
    assert result.significantly_better.tolist() == [[False, True, True], [False, False, True], [False, False, False]]
    assert result.unique_best == 0
    assert result.marginal_ranks.low.tolist() == result.marginal_ranks.high.tolist() == [1, 2, 3]


def test_means_that_differ_in_the_16th_decimal_are_ties_without_a_unique_best() -> None:
    ability = np.array([0.7, 0.7 + 1e-16, 0.7 - 1.2e-16, 0.1])
    result = pairwise_differences(ability, covariance(1e-36, 4))
    assert rank_with_ties(ability).tolist() == [1, 1, 1, 4]
    assert result.unique_best is None
    assert result.marginal_ranks.low.tolist() == [1, 1, 1, 4]
    assert result.value[0, 1] == 0
    assert bool(are_equal(ability[:1], ability[1:2])[0])


def test_the_unique_best_has_rank_one_and_simultaneous_ranks_contain_marginal_ranks() -> None:
    K = 20
    covariance = CentredCovariance(np.eye(K) - 1 / K, np.full(K, 35.0))
    ahead, ends = np.zeros((2, K))
    ahead[0] = 3.2
    ends[[0, -1]] = 2.9, -2.9
    result = pairwise_differences(ahead, covariance)
    assert result.unique_best == 0
    assert result.marginal_ranks.high[0] == 1
    assert (result.marginal_ranks.low[1:] == 2).all()
    one_by_one, at_once = (
        pairwise_differences(ends, covariance).marginal_ranks,
        pairwise_differences(ends, covariance).simultaneous_ranks,
    )
    assert at_once.high[0] == K - 1
    assert (at_once.low <= one_by_one.low).all()
    assert (one_by_one.high <= at_once.high).all()


def test_simultaneous_rank_intervals_are_wider_and_widest_with_few_clusters() -> None:
    ability = np.linspace(0.3, -0.3, 12)
    centered = covariance(0.03**2, 12)
    few = CentredCovariance(centered.covariance, np.full(12, 4.0))
    marginal = pairwise_differences(ability, centered).marginal_ranks
    many, fewer = (pairwise_differences(ability, c).simultaneous_ranks for c in (centered, few))
    widths = [int((r.high - r.low).sum()) for r in (marginal, many, fewer)]
    assert widths[0] < widths[1] < widths[2]


def test_rank_intervals_of_equal_agents_cover_marginally_and_simultaneously() -> None:
    K, J, marginal, every = 12, 40, [], []
    plan = cyclic(K, J, 80)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        c = 0.2 * rng.standard_normal((J, K))
        answer = c[plan.item, plan.first] + c[plan.item, plan.second] + 0.35 * rng.standard_normal(len(plan))
        result = pairwise_differences(means(plan, answer), over_items(plan, answer))
        marginal.append((result.marginal_ranks.low == 1) & (result.marginal_ranks.high == K))
        at_once = result.simultaneous_ranks
        every.append((at_once.low == 1).all() and (at_once.high == K).all())
    assert np.mean(marginal) >= 0.95
    assert np.mean(every) >= 0.93


def test_of_two_equal_leaders_one_is_wrongly_unique_best_in_at_most_one_of_twenty() -> None:
    rng, ability, of = np.random.default_rng(0), np.array([0.3, 0.3, 0.0, -0.3]), covariance(0.05**2, 4)
    named = [
        pairwise_differences(ability + 0.05 * rng.standard_normal(4), of).unique_best is not None for _ in range(2000)
    ]
    assert 0.035 <= np.mean(named) <= 0.065
