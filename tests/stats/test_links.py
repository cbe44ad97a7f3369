"""Links between scores and the scales on which they may be additive."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.stats import LINKS, links_table
from youden.stats.base.links import CLIP, Link
from youden.stats.curl.link_table import measure_curl

EVERY = pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))
scores = st.floats(-CLIP, CLIP)


@EVERY
@settings(max_examples=25, deadline=None)
@given(score=scores)
def test_inverse_undoes_forward_inside_the_interval(link: Link, score: float) -> None:
    s = np.array([score])
    np.testing.assert_allclose(link.inverse(link.forward(s)), s, atol=1e-12)


@EVERY
@settings(max_examples=25, deadline=None)
@given(value=st.floats(-5, 5))
def test_inverse_slope_is_the_derivative_of_inverse(link: Link, value: float) -> None:
    x, h = np.array([value]), 1e-5
    numeric = (link.inverse(x + h) - link.inverse(x - h)) / (2 * h)
    np.testing.assert_allclose(link.inverse_slope(x), numeric, rtol=1e-4, atol=1e-9)


@EVERY
def test_forward_rises_passes_nan_through_and_is_finite_at_the_ends(link: Link) -> None:
    value = link.forward(np.array([-1.0, -0.5, 0.0, 0.5, 1.0, np.nan]))
    assert (np.diff(value[:5]) > 0).all()
    assert np.isfinite(value[:5]).all()
    assert np.isnan(value[5])


def test_values_checked_by_hand() -> None:
    s = np.array([0.61])
    assert LINKS["identity"].forward(s)[0] == 0.61
    assert LINKS["logit"].forward(s)[0] == pytest.approx(np.log(0.805 / 0.195))
    assert LINKS["probit"].forward(np.array([0.95]))[0] == pytest.approx(1.959963985)


def test_only_the_identity_tells_scores_beyond_the_clip_apart() -> None:
    s = np.array([CLIP, 1.0])
    assert np.ptp(LINKS["identity"].forward(s)) > 0
    assert np.ptp(LINKS["probit"].forward(s)) == 0
    assert np.ptp(LINKS["logit"].forward(s)) == 0


def test_an_additive_matrix_has_no_curl_and_full_r2_on_the_identity_only() -> None:
    theta, b = np.array([0.1, 0.4, 0.6]), np.array([-0.3, 0.0, 0.1, 0.2])
    table = links_table(theta[:, None] - b[None, :])
    assert list(table) == ["identity", "probit", "logit"]
    assert table["identity"].p95 == pytest.approx(0, abs=1e-12)
    assert table["identity"].r2 == pytest.approx(1, abs=1e-9)
    assert table["logit"].median > 0.01
    assert table["logit"].n_rectangles == 3 * 6


def test_scores_that_differ_by_rounding_have_no_scale_to_draw_curl_on() -> None:
    scores = np.ones((5, 12))
    scores[0, 0] -= 1e-15
    assert {curve.sd for curve in measure_curl(scores).curves()} == {0.0}


def test_equal_scores_have_no_scale_and_no_r2_rather_than_nan() -> None:
    for row in links_table(np.full((3, 4), 0.1 + 0.2)).values():
        assert (row.median, row.p95, row.sd) == (0, 0, 0)
        assert (row.median_scaled, row.p95_scaled, row.r2) == (None, None, None)


def test_scaled_curl_does_not_depend_on_the_unit() -> None:
    matrix = np.random.default_rng(0).uniform(-1, 1, (4, 6))
    whole, half = links_table(matrix)["identity"], links_table(matrix / 2)["identity"]
    assert half.median == pytest.approx(whole.median / 2)
    assert half.median_scaled == pytest.approx(whole.median_scaled)
    assert half.r2 == pytest.approx(whole.r2)
