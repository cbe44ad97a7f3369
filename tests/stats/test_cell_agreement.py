"""Two numbers of the same cells: over all of them, and among agents within items."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from youden.stats.judges.cell_agreement import cell_correlation


def cells(n_agents: int, n_items: int, *, rho: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Cells that correlate ρ among agents within items, of items whose difficulties the two sides share."""
    rng = np.random.default_rng(seed)
    items = 3 * rng.normal(size=n_items)
    one = rng.normal(size=(n_agents, n_items))
    other = rho * one + np.sqrt(1 - rho**2) * rng.normal(size=(n_agents, n_items))
    return one + items, other + items


def test_both_figures_are_those_of_a_loop_over_items() -> None:
    one, other = cells(7, 9, rho=0.5)
    one[0, :4], other[3, 5], other[:, 8] = np.nan, np.nan, 1.0
    both = ~(np.isnan(one) | np.isnan(other))
    found = cell_correlation(one, other)
    assert found.n_cells == both.sum()
    assert found.overall.value == pytest.approx(spearmanr(one[both], other[both]).statistic)
    by_item = [spearmanr(one[both[:, j], j], other[both[:, j], j]).statistic for j in range(8)]
    assert found.n_items == 8
    assert found.within.value == pytest.approx(np.mean(by_item))
    assert found.overall.low < found.overall.value < found.overall.high
    assert found.within.low < found.within.value < found.within.high


def test_difficulty_that_both_sides_share_is_in_the_overall_figure_alone() -> None:
    found = cell_correlation(*cells(20, 60, rho=0.0))
    assert found.overall.low > 0.5
    assert found.within.low < 0 < found.within.high


@pytest.mark.slow
def test_intervals_over_items_cover_the_figure_of_many_items() -> None:
    truth = cell_correlation(*cells(8, 1_000, rho=0.6, seed=1))
    hits = np.zeros(2)
    for seed in range(100):
        found = cell_correlation(*cells(8, 15, rho=0.6, seed=seed + 2))
        hits += [
            found.overall.low <= truth.overall.value <= found.overall.high,
            found.within.low <= truth.within.value <= found.within.high,
        ]
    assert (hits / 100 >= 0.9).all(), hits


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.full((3, 3), np.nan), np.ones((3, 3))),
        (np.ones((3, 3)), np.arange(9.0).reshape(3, 3)),
        (np.empty((0, 0)), np.empty((0, 0))),
    ],
)
def test_where_nothing_varies_there_is_no_figure(one: np.ndarray, other: np.ndarray) -> None:
    found = cell_correlation(one, other)
    assert np.isnan([found.overall.value, found.overall.low, found.within.value, found.within.high]).all()
    assert found.overall.method == "none: nothing varies"


def test_two_items_have_figures_without_intervals() -> None:
    found = cell_correlation(*cells(6, 2, rho=0.5))
    assert not np.isnan(found.overall.value)
    assert np.isnan([found.overall.low, found.within.low]).all()
    assert found.within.method == "none: 2 items are too few"


def test_items_that_all_have_one_correlation_make_no_interval() -> None:
    found = cell_correlation(np.arange(12.0).reshape(4, 3), np.arange(12.0).reshape(4, 3)).within
    assert found.value == pytest.approx(1)
    assert np.isnan([found.low, found.high]).all()
    assert found.method == "none: all 3 items have the same"
