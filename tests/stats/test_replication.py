"""Replication scores of channels whose information is known exactly, and the self-consistency of agents with its errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from small_pools import answer_with, make_pool
from youden import make_plan
from youden.errors import StatisticsError
from youden.pipeline.self_consistency import replication_bounds
from youden.stats import estimate_self_consistency, replication_scores
from youden.types import Plan, Pool
from youden.types.pool import Floats, Ids, Positions

CHANNELS = {
    "noiseless": np.eye(4),
    "symmetric": np.array([[0.9, 0.1], [0.1, 0.9]]),
    "erasure": np.array([[0.7, 0.0, 0.3], [0.0, 0.7, 0.3]]),
    "uninformative": np.array([[0.5, 0.3, 0.2]] * 3),
    "skewed": np.array([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]]),
}
"""P(class | item kind), for uniform item kinds: float (n_kinds, n_classes)."""
CORE_CHANNELS = ("noiseless", "skewed")
CHANNEL_NAMES = [name if name in CORE_CHANNELS else pytest.param(name, marks=pytest.mark.slow) for name in CHANNELS]


def information(channel: Floats) -> tuple[float, float]:
    """Return the χ² and the Shannon information (nats) of a channel with a uniform input."""
    marginal = channel.mean(axis=0)
    ratio = channel / marginal
    with np.errstate(divide="ignore", invalid="ignore"):
        shannon = np.nansum(channel * np.log(ratio)) / len(channel)
    return float((channel * ratio).sum() / len(channel)) - 1, float(shannon)


@pytest.mark.parametrize("name", CHANNEL_NAMES)
def test_mean_scores_are_the_information_of_a_channel(name: str) -> None:
    channel, n, length = CHANNELS[name], 6_000, 300
    rng = np.random.default_rng([11, len(channel)])
    cumulative = channel.cumsum(axis=1)

    def draw_class(kind: Positions) -> Positions:
        return np.asarray((rng.random(kind.shape)[..., None] > cumulative[kind]).sum(axis=-1))

    kind = rng.integers(0, len(channel), n)
    response = draw_class(kind)
    same = draw_class(np.tile(kind[:, None], length)) == response[:, None]
    other = draw_class(rng.integers(0, len(channel), (n, length))) == response[:, None]
    scores = replication_scores(same, other)
    assert not np.isnan(scores.pearson).any()
    assert not np.isnan(scores.kl).any()
    for score, exact in zip(scores, information(channel), strict=True):
        std_error = score.std() / np.sqrt(n)
        assert abs(score.mean() - exact) < 3.5 * std_error + 1e-12
        assert std_error < 0.05


def test_scores_of_short_sequences_can_be_checked_by_hand() -> None:
    nan = np.nan
    same = np.array([[1, nan], [0, 1], [nan, 1], [0, 0], [nan, nan], [1, 0]])
    other = np.array([[0, 0, 1], [1, 0, 0], [0, nan, 1], [0, 1, 1], [1, 0, 0], [0, 0, 0]])
    pearson, kl = replication_scores(same, other)
    # R₁ = 1, 2, 1 (a missing answer is skipped), none, none, 1; R₀ = 3, 1, 2, 2, 1, none
    assert pearson.tolist() == pytest.approx([2, -1, 1, -1, nan, nan], nan_ok=True)
    assert kl.tolist() == pytest.approx([1.5, -1, 1, nan, nan, nan], nan_ok=True)


def test_scores_refuse_graded_answers_and_arrays_that_do_not_fit() -> None:
    with pytest.raises(StatisticsError, match=r"got 0\.5") as graded:
        replication_scores([[0.5]], [[1]])
    assert graded.value.slug == "replication-answers"
    for same, other in (([1.0], [[1.0]]), ([[1.0]], [[1.0], [0.0]])):
        with pytest.raises(StatisticsError) as shape:
            replication_scores(np.array(same), np.array(other))
        assert shape.value.slug == "replication-shape"


@pytest.mark.parametrize("rows", [[[1.0], [0.0, 1.0]], [["yes"]]])
def test_scores_of_rows_of_different_lengths_state_how_to_pad_them(rows: list[list[float]]) -> None:
    for same, other in ((rows, [[1.0]] * 2), ([[1.0]] * 2, rows)):
        with pytest.raises(StatisticsError, match=r"rows of equal length: got .*Append `float\('nan'\)`") as error:
            replication_scores(same, other)
        assert error.value.slug == "replication-shape"


def test_columns_of_different_lengths_are_refused() -> None:
    one, two = np.zeros(1, dtype=np.int32), np.zeros(2, dtype=np.int32)
    with pytest.raises(StatisticsError) as error:
        estimate_self_consistency(two, one, two, np.zeros(2), n_agents=1, n_items=1)
    assert error.value.slug == "trial-columns"


def naive_variance(item: Ids, other: Ids, answer: Floats) -> float:
    """Sum e_t·e_u over all pairs of trials that share an item."""
    paired = other < 0
    e = np.where(
        paired,
        (answer - answer[paired].mean()) / paired.sum(),
        (answer[~paired].mean() - answer) / (~paired).sum(),
    )
    items = [{int(i), int(k)} - {-1} for i, k in zip(item, other, strict=True)]
    total = sum(e[t] * e[u] for t, u in itertools.product(range(len(e)), repeat=2) if items[t] & items[u])
    n = len(set().union(*items))
    return float(total) * n / (n - 1)


def test_the_variance_sums_products_of_residuals_of_trials_that_share_an_item() -> None:
    rng = np.random.default_rng(3)
    n_items, n = 40, 90
    item = rng.integers(0, n_items, 2 * n).astype(np.int32)
    other = np.append(np.full(n, -1), (item[n:] + rng.integers(1, n_items, n)) % n_items).astype(np.int32)
    effect = rng.choice([-0.2, 0.2], n_items)
    answer = np.clip(0.5 + effect[item] + np.where(other >= 0, effect[other], 0) + rng.normal(0, 0.1, 2 * n), 0, 1)
    result = estimate_self_consistency(np.zeros(2 * n, np.int32), item, other, answer, n_agents=1, n_items=n_items)
    assert result.value[0] == pytest.approx(answer[:n].mean() - answer[n:].mean())
    # half of the items have each effect, so that nothing is added for effects not seen
    assert result.covariance.covariance[0, 0] == pytest.approx(naive_variance(item, other, answer), rel=1e-9)


def test_few_items_that_determine_j_give_few_degrees_of_freedom() -> None:
    n_items, n_different = 30, 5
    item = np.tile(np.arange(n_items, dtype=np.int32), 2)
    other = np.append(np.full(n_items, -1), np.roll(np.arange(n_items), 1)).astype(np.int32)
    answer = np.append(np.arange(n_items) >= n_different, np.zeros(n_items)).astype(np.float64)
    result = estimate_self_consistency(
        np.zeros(2 * n_items, np.int32), item, other, answer, n_agents=1, n_items=n_items
    )
    # the residuals of the paired answers are −5/6 on 5 items and 1/6 on 25
    n_effective = (5 * 5**2 + 25) ** 2 / (5 * 5**4 + 25)
    assert result.covariance.df[0] == pytest.approx(2 * (n_effective - 2))


def test_agents_without_answers_have_no_interval_and_perfect_ones_have_one() -> None:
    agent = np.array([0, 0, 1, 1, 2, 2, 2, 2], dtype=np.int32)
    item = np.array([0, 1, 0, 0, 0, 1, 0, 1], dtype=np.int32)
    other = np.array([-1, -1, -1, 1, -1, -1, 1, 0], dtype=np.int32)
    answer = np.array([1, 1, np.nan, 0, 1, 1, 0, 0], dtype=np.float64)
    result = estimate_self_consistency(agent, item, other, answer, n_agents=3, n_items=2)
    assert np.isnan(result.value[:2]).all()
    assert result.value[2] == 1
    std_error = result.covariance.std_error
    assert std_error[2] > 0.5, "two items cannot show that no item differs"
    assert np.isnan(std_error[:2]).all()


@pytest.mark.parametrize("answer_to_itself", [0.9, 1.0])
def test_items_without_an_influence_do_not_reduce_the_degrees_of_freedom(answer_to_itself: float) -> None:
    n = 30
    item = np.tile(np.arange(n, dtype=np.int32), 2)
    other = np.append(np.full(n, -1), np.roll(np.arange(n), 1)).astype(np.int32)
    answer = np.append(np.full(n, answer_to_itself), np.zeros(n))
    result = estimate_self_consistency(np.zeros(2 * n, np.int32), item, other, answer, n_agents=1, n_items=n)
    assert result.covariance.df.tolist() == [n - 1]


def test_nearly_constant_responses_have_a_smallest_standard_error() -> None:
    n = 30
    item = np.tile(np.arange(n, dtype=np.int32), 2)
    other = np.append(np.full(n, -1), np.roll(np.arange(n), 1)).astype(np.int32)
    answer = np.where(item % 2, 0.89, 0.91)
    result = estimate_self_consistency(np.zeros(2 * n, np.int32), item, other, answer, n_agents=1, n_items=n)
    assert result.covariance.std_error[0] == pytest.approx(1.7 * 0.9 / n)


def self_plan(n_agents: int, n_items: int, n_repeats: int) -> Plan:
    agents_and_items = make_pool(n_agents, n_items)
    texts = [np.full((n_agents, n_items), "text", dtype=object)] * n_repeats
    return make_plan(Pool.from_repeats(agents_and_items.agents, agents_and_items.items, texts, "repeats"))


def test_bounds_from_verdicts_are_the_truncated_scores_of_each_response() -> None:
    plan = self_plan(2, 6, 3)
    answer = np.random.default_rng(1).choice([0.0, 1.0], len(plan), p=[0.7, 0.3])
    verdicts = answer_with(plan, answer)
    columns = plan.trials.columns()
    second_item = np.where(plan.other_item < 0, plan.item, plan.other_item)
    sequences: dict[tuple[int, int], dict[tuple[int, int], float]] = {}
    for t in np.flatnonzero(plan.first == 1):
        a = (int(plan.item[t]), int(columns["first_repeat"][t]))
        b = (int(second_item[t]), int(columns["second_repeat"][t]))
        for response, partner in ((a, b), (b, a)):
            sequences.setdefault(response, {}).setdefault(partner, answer[t])
    pearson, kl = [], []
    for (item, _), partners in sorted(sequences.items(), key=lambda pair: pair[0][::-1]):
        same = [y for (j, _), y in partners.items() if j == item]
        other = [*(y for (j, _), y in partners.items() if j != item), 1.0]
        r0 = other.index(1) + 1
        pearson.append(float(r0 - 1 if same[0] else -1))
        r1 = same.index(1) + 1 if 1 in same else np.nan
        kl.append(np.nan if np.isnan(r1) else sum(1 / j for j in range(1, r0)) - sum(1 / j for j in range(1, int(r1))))
    bounds = replication_bounds(verdicts, "a1")
    assert bounds.pearson.tolist() == pearson
    assert bounds.kl == pytest.approx(np.array(kl), nan_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANNELS)
def test_the_mean_bound_is_below_the_information_of_a_channel(name: str) -> None:
    channel, plan = CHANNELS[name], self_plan(1, 30, 3)
    rng = np.random.default_rng([5, len(channel)])
    columns = plan.trials.columns()
    second_item = np.where(plan.other_item < 0, plan.item, plan.other_item)
    means = []
    for _ in range(60):
        kind = rng.integers(0, len(channel), plan.n_items)
        response = np.stack([rng.choice(channel.shape[1], 4, p=channel[k]) for k in kind])
        first = response[plan.item, columns["first_repeat"]]
        second = response[second_item, columns["second_repeat"]]
        means.append(replication_bounds(answer_with(plan, (first == second).astype(float)), "a0").pearson.mean())
    std_error = np.std(means) / np.sqrt(len(means))
    assert np.mean(means) <= information(channel)[0] + 3.5 * std_error

    # expected score of a response that is compared with m others: Σ P(a|x)²·(1 − (1 − P(a))^(m + 1))/P(a) − 1
    is_other = plan.other_item >= 0
    a = plan.item[is_other] * 4 + columns["first_repeat"][is_other]
    b = plan.other_item[is_other] * 4 + columns["second_repeat"][is_other]
    pairs = np.unique(np.append(a, b) * 1000 + np.append(b, a))
    m = np.unique(pairs // 1000, return_counts=True)[1]
    assert len(m) == 90
    marginal = channel.mean(axis=0)
    expected_r0 = (1 - (1 - marginal) ** (m[:, None, None] + 1)) / marginal
    expected = float((channel**2 * expected_r0).sum(axis=-1).mean()) - 1
    assert abs(np.mean(means) - expected) <= 3.5 * std_error


def test_bounds_need_self_trials_of_the_agent() -> None:
    plan = self_plan(1, 6, 2)
    with pytest.raises(StatisticsError, match="got 'b'") as error:
        replication_bounds(answer_with(plan, np.ones(len(plan))), "b")
    assert error.value.slug == "replication-agent"
