"""Replication scores of channels whose information is known exactly, and the self-consistency of agents with its errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from youden.errors import StatisticsError
from youden.stats import estimate_self_consistency, replication_scores
from youden.types.pool import Floats, Ids, Positions

CHANNELS = {
    "noiseless": np.eye(4),
    "symmetric": np.array([[0.9, 0.1], [0.1, 0.9]]),
    "erasure": np.array([[0.7, 0.0, 0.3], [0.0, 0.7, 0.3]]),
    "uninformative": np.array([[0.5, 0.3, 0.2]] * 3),
    "skewed": np.array([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]]),
}
"""P(class | item kind), for uniform item kinds: float (n_kinds, n_classes)."""


def information(channel: Floats) -> tuple[float, float]:
    """Return the χ² and the Shannon information (nats) of a channel with a uniform input."""
    marginal = channel.mean(axis=0)
    ratio = channel / marginal
    with np.errstate(divide="ignore", invalid="ignore"):
        shannon = np.nansum(channel * np.log(ratio)) / len(channel)
    return float((channel * ratio).sum() / len(channel)) - 1, float(shannon)


@pytest.mark.parametrize("name", CHANNELS)
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
    assert result.covariance.df.tolist() == [n_items - 1]


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


def test_nearly_constant_responses_have_a_smallest_standard_error() -> None:
    n = 30
    item = np.tile(np.arange(n, dtype=np.int32), 2)
    other = np.append(np.full(n, -1), np.roll(np.arange(n), 1)).astype(np.int32)
    answer = 0.9 + 0.01 * (-1.0) ** item
    result = estimate_self_consistency(np.zeros(2 * n, np.int32), item, other, answer, n_agents=1, n_items=n)
    assert result.covariance.std_error[0] == pytest.approx(1.7 * 0.9 / n)
