"""Exact curl against the list of all rectangles."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.errors import StatisticsError
from youden.stats import curl_ecdf, curl_quantiles
from youden.stats.curl import quantiles as curl
from youden.stats.curl.rectangles import n_rectangles
from youden.types.pool import Floats

LEVELS = (0.0, 0.05, 0.5, 0.95, 1.0)


def every_gap(matrix: Floats) -> list[float]:
    K, J = matrix.shape
    gaps = [
        abs(matrix[i, j] - matrix[k, j] - matrix[i, m] + matrix[k, m])
        for i, k in combinations(range(K), 2)
        for j, m in combinations(range(J), 2)
    ]
    return sorted(gap for gap in gaps if not math.isnan(gap))


def by_hand(matrix: Floats) -> list[float]:
    gaps = every_gap(matrix)
    return [gaps[max(1, -(-round(q * 100) * len(gaps) // 100)) - 1] for q in LEVELS]


@st.composite
def matrices(draw: st.DrawFn) -> Floats:
    """Small matrices with gaps, on a lattice (heavy ties) or not."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shape = draw(st.tuples(st.integers(2, 7), st.integers(2, 7)))
    steps = draw(st.sampled_from([1, 3, 116, 10**9]))
    matrix = rng.integers(-steps, steps + 1, shape) / steps
    matrix[rng.random(shape) < draw(st.sampled_from([0, 0.3, 0.6]))] = np.nan
    return matrix


@settings(max_examples=75, deadline=None)
@given(matrix=matrices(), n_listed=st.sampled_from([1, 5, 2**18]))
def test_quantiles_are_those_of_all_rectangles(matrix: Floats, n_listed: int) -> None:
    gaps = every_gap(matrix)
    assert n_rectangles(~np.isnan(matrix)) == len(gaps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curl, "_MAX_LISTED", n_listed)
        patch.setattr(curl, "_SAMPLED", min(n_listed, 4))
        if not gaps:
            with pytest.raises(StatisticsError, match="curl-no-rectangles"):
                curl_quantiles(matrix)
        else:
            np.testing.assert_allclose(curl_quantiles(matrix, LEVELS), by_hand(matrix), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["lattice", "normal", "two values", "almost equal", "one outlier"])
def test_bisection_ends_on_the_order_statistic_when_gaps_are_too_many_to_list(kind: str) -> None:
    rng = np.random.default_rng(1)
    matrix = {
        "lattice": rng.integers(-116, 117, (20, 80)) / 116,
        "normal": rng.normal(size=(20, 80)),
        "two values": rng.integers(0, 2, (20, 80)).astype(float),
        "almost equal": 0.3 + rng.normal(size=(20, 80)) * 1e-15,
        "one outlier": np.where(np.arange(1600).reshape(20, 80) == 77, 1e6, rng.integers(0, 3, (20, 80))),
    }[kind]
    matrix[rng.random(matrix.shape) < 0.05] = np.nan
    upper, lower = np.triu_indices(20, 1)
    left, right = np.triu_indices(80, 1)
    difference = matrix[upper] - matrix[lower]
    gaps = np.abs(difference[:, left] - difference[:, right]).ravel()
    gaps = np.sort(gaps[~np.isnan(gaps)])
    assert len(gaps) > curl._MAX_LISTED
    expected = [gaps[math.ceil(q * len(gaps)) - 1] for q in (0.5, 0.95)]
    scale = max(1.0, float(np.nanmax(np.abs(matrix))))
    np.testing.assert_allclose(curl_quantiles(matrix), expected, rtol=0, atol=1e-12 * scale)


def test_a_level_means_the_order_statistic_at_the_ceiling_without_rounding_error() -> None:
    """.55·100 is 55.00000000000001 in floats: the 55th gap is meant, not the 56th."""
    matrix = np.random.default_rng(4).uniform(-1, 1, (5, 5))
    gaps = every_gap(matrix)
    assert len(gaps) == 100
    np.testing.assert_allclose(curl_quantiles(matrix, [0.07, 0.55, 0.551]), [gaps[6], gaps[54], gaps[55]], atol=1e-12)


NAN = np.nan


@pytest.mark.parametrize(
    ("matrix", "why"),
    [
        (np.full((3, 4), NAN), "all cells are missing"),
        (np.empty((0, 0)), "all cells are missing"),
        (np.array([[0.1, 0.2, 0.3]]), "a single agent"),
        (np.array([[0.1, 0.2], [NAN, NAN]]), "a single agent"),
        (np.array([[0.1], [0.2]]), "a single item"),
        (np.array([[0.1, NAN], [NAN, 0.2]]), "no two agents have two items in common"),
    ],
)
def test_no_complete_rectangle_is_an_error_that_says_why(matrix: Floats, why: str) -> None:
    assert n_rectangles(~np.isnan(matrix)) == 0
    with pytest.raises(StatisticsError, match=rf"{why}.*\[curl-no-rectangles\]"):
        curl_quantiles(matrix)


@settings(max_examples=40, deadline=None)
@given(matrix=matrices(), extra=st.lists(st.floats(-1, 5), max_size=3))
def test_the_whole_distribution_is_that_of_all_rectangles(matrix: Floats, extra: list[float]) -> None:
    gaps = every_gap(matrix)
    if not gaps:
        return
    at = [*gaps, *extra, -np.inf, np.inf]
    expected = [sum(gap <= x + 1e-12 for gap in gaps) / len(gaps) for x in at]
    np.testing.assert_array_equal(curl_ecdf(matrix, at), expected)


def test_gaps_that_are_rounding_alone_are_one_step() -> None:
    matrix = np.array([[1 / 3, 1 / 3, -2 / 3], [1, 1, 0]])
    np.testing.assert_array_equal(curl_ecdf(matrix, every_gap(matrix)), [1, 1, 1])
