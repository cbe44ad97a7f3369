"""Test labels of many agents on the same items: their common item error, and its effect on intervals of quality."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from youden.stats.small_areas.quality_estimates import QualityEstimates, quality_from_labels
from youden.stats.small_areas.shared_items import LabelResiduals

N_AGENTS = 20
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def _draw_labels(rng: np.random.Generator, z: np.ndarray, n_items: int, *, grades: bool = False) -> Arrays:
    """Draw labels of all agents on the same items, with item effects of SD 1.5; grades have the values 0, ¼, …, 1."""
    agent = np.repeat(np.arange(N_AGENTS), n_items)
    item = np.tile(np.arange(n_items), N_AGENTS)
    logits = -1 + 1.5 * z[agent] + 1.5 * rng.normal(size=n_items)[item]
    if grades:
        value = np.round(4 * expit(logits + rng.normal(size=len(agent)))) / 4
    else:
        value = (rng.random(len(agent)) < expit(logits)).astype(float)
    return agent, item, value


def _compute_truth(z: np.ndarray, *, grades: bool = False) -> np.ndarray:
    """Compute the expected label of each agent over items, by drawing 200,000 of them."""
    rng = np.random.default_rng(99)
    logits = -1 + 1.5 * z[:, None] + 1.5 * rng.normal(size=200_000)
    if grades:
        return np.asarray(np.round(4 * expit(logits + rng.normal(size=logits.shape))).mean(axis=1) / 4)
    return np.asarray(expit(logits).mean(axis=1))


def _fit(labels: Arrays, z: np.ndarray) -> QualityEstimates:
    return quality_from_labels(*labels, ability=z, std_error=np.full(len(z), 0.05))


@pytest.mark.slow
@pytest.mark.parametrize(("n_items", "grades"), [(2, False), (5, False), (10, False), (5, True), (10, True)])
def test_intervals_cover_if_all_agents_are_labeled_on_the_same_items(n_items: int, grades: bool) -> None:
    rng = np.random.default_rng([n_items, grades])
    z = rng.normal(size=N_AGENTS)
    truth = _compute_truth(z, grades=grades)
    is_covered = []
    for _ in range(60):
        estimates = _fit(_draw_labels(rng, z, n_items, grades=grades), z)
        is_covered.append((estimates.low <= truth) & (truth <= estimates.high))
    assert np.mean(is_covered) > 0.9


def test_the_same_labels_give_wider_intervals_on_common_than_on_separate_items() -> None:
    z = np.linspace(-1.5, 1.5, N_AGENTS)
    agent, item, value = _draw_labels(np.random.default_rng(1), z, 4)
    common = _fit((agent, item, value), z)
    separate = _fit((agent, np.arange(len(value)), value), z)
    assert (common.high - common.low).min() > 0
    assert (common.high - common.low).mean() > 1.2 * (separate.high - separate.low).mean()


def test_a_correlation_unseen_in_the_labels_widens_intervals_only() -> None:
    rng = np.random.default_rng(2)
    z = np.linspace(-1.5, 1.5, N_AGENTS)
    agent, item = np.repeat(np.arange(N_AGENTS), 3), np.tile(np.arange(3), N_AGENTS)
    value = (rng.random(len(agent)) < expit(z[agent])).astype(float)
    common = _fit((agent, item, value), z)
    separate = _fit((agent, np.arange(len(value)), value), z)
    assert common.item_variance_share == 0
    np.testing.assert_array_equal(common.quality, separate.quality)
    np.testing.assert_array_equal(common.density, separate.density)
    assert (common.low < separate.low).all()
    assert (common.high > separate.high).all()


def test_shared_variance_agrees_with_a_sum_over_pairs_of_labels() -> None:
    rng = np.random.default_rng(3)
    agent, item = np.repeat(np.arange(6), 5), rng.integers(0, 8, 30)
    quality = np.linspace(0.1, 0.9, 6)
    value = (rng.random(30) < 0.95 - 0.12 * item).astype(float)
    residuals = LabelResiduals.from_quality(agent, item, value, quality)

    n_pairs, products, variances = 0, 0.0, 0.0
    for k in range(30):
        for m in range(30):
            if k != m and item[k] == item[m]:
                q, r = quality[agent[k]], quality[agent[m]]
                n_pairs += 1
                products += (value[k] - q) * (value[m] - r)
                variances += np.sqrt(q * (1 - q) * r * (1 - r))
    n_items = 30**2 / (np.bincount(item) ** 2).sum()
    correlation = (n_items * products / variances + 20 * 0.25) / (n_items - 1 + 20)

    assert residuals.n_ordered_pairs == n_pairs
    assert correlation > 0.25
    assert residuals.shared_variance(1.0) == pytest.approx(correlation * n_pairs / 30**2)


def test_residuals_without_correlation_have_the_usual_shared_variance() -> None:
    agent, item = np.repeat(np.arange(6), 4), np.tile(np.arange(4), 6)
    value = np.tile([1.0, 0.0], 12)
    value[12:] = 1 - value[12:]
    residuals = LabelResiduals.from_quality(agent, item, value, np.full(6, 0.5))
    assert residuals.correlation_beyond_chance() == 0
    assert residuals.shared_variance(1.0) == pytest.approx(0.25 * residuals.n_ordered_pairs / 24**2)
    assert residuals.shared_variance(0.6) == residuals.shared_variance(1.0)
    assert residuals.shared_variance(0.4) == pytest.approx(0.2 * residuals.n_ordered_pairs / 24**2)


def test_one_label_per_agent_on_one_item_leaves_the_level_of_quality_open() -> None:
    """All 20 agents fail on the one item that is labeled: it may be difficult."""
    z = np.linspace(-1.5, 1.5, N_AGENTS)
    on_one_item = _fit((np.arange(N_AGENTS), np.zeros(N_AGENTS, dtype=int), np.zeros(N_AGENTS)), z)
    on_separate_items = _fit((np.arange(N_AGENTS), np.arange(N_AGENTS), np.zeros(N_AGENTS)), z)
    assert on_one_item.high.max() > on_separate_items.high.max() + 0.15
    assert (on_one_item.low >= 0).all()


@pytest.mark.parametrize("label", [0.0, 0.5, 1.0])
def test_equal_labels_on_common_items_have_intervals_that_contain_them(label: float) -> None:
    z = np.linspace(-1.5, 1.5, N_AGENTS)
    agent, item = np.repeat(np.arange(N_AGENTS), 5), np.tile(np.arange(5), N_AGENTS)
    estimates = _fit((agent, item, np.full(len(agent), label)), z)
    assert np.isfinite(estimates.quality).all()
    assert ((estimates.low >= 0) & (estimates.low <= estimates.quality)).all()
    assert ((estimates.quality <= estimates.high) & (estimates.high <= 1)).all()
    assert np.abs(estimates.quality - label).max() < 0.15
