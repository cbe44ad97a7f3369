"""Test exact and sampled curl, its bootstrap, its links, and its values on real data of the paper."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from narrowing import not_none
from worlds import published_scores
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError, StatisticsError
from youden.stats import compare_links, curl_ecdf, curl_quantiles
from youden.stats.base.links import CLIP, LINKS, Link
from youden.stats.curl import quantiles as curl
from youden.stats.curl.link_table import SampledCurl, measure_curl
from youden.stats.curl.quantiles import Coincident, median_differences
from youden.stats.curl.rectangles import Corners, n_rectangles, sample_rectangles
from youden.streams import standalone_stream
from youden.types import Scores
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
    """Generate small matrices with gaps, on a lattice (many ties) or not."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shape = draw(st.tuples(st.integers(2, 7), st.integers(2, 7)))
    steps = draw(st.sampled_from([1, 3, 116, 10**9]))
    matrix = rng.integers(-steps, steps + 1, shape) / steps
    matrix[rng.random(shape) < draw(st.sampled_from([0, 0.3, 0.6]))] = np.nan
    return matrix


@settings(max_examples=75, deadline=None)
@given(matrix=matrices(), n_listed=st.sampled_from([1, 5, 2**18]))
def test_quantiles_equal_those_of_all_rectangles(matrix: Floats, n_listed: int) -> None:
    gaps = every_gap(matrix)
    assert n_rectangles(~np.isnan(matrix)) == len(gaps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curl, "_MAX_LISTED", n_listed)
        patch.setattr(curl, "_SAMPLE_SIZE", min(n_listed, 4))
        if not gaps:
            with pytest.raises(StatisticsError, match="curl-no-rectangles"):
                curl_quantiles(matrix)
        else:
            np.testing.assert_allclose(curl_quantiles(matrix, LEVELS), by_hand(matrix), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["lattice", "normal", "two values", "almost equal", "one outlier"])
def test_bisection_returns_the_order_statistic_if_gaps_are_too_many_to_list(kind: str) -> None:
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
    """.55·100 is 55.00000000000001 in floating point: the 55th gap is meant, not the 56th."""
    matrix = np.random.default_rng(4).uniform(-1, 1, (5, 5))
    gaps = every_gap(matrix)
    assert len(gaps) == 100
    np.testing.assert_allclose(curl_quantiles(matrix, [0.07, 0.55, 0.551]), [gaps[6], gaps[54], gaps[55]], atol=1e-12)
    assert curl_quantiles(matrix, 0.55).tolist() == [curl_quantiles(matrix, [0.55])[0]]


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
def test_a_matrix_without_a_complete_rectangle_is_an_error_with_the_reason(matrix: Floats, why: str) -> None:
    assert n_rectangles(~np.isnan(matrix)) == 0
    with pytest.raises(StatisticsError, match=rf"{why}.*\[curl-no-rectangles\]"):
        curl_quantiles(matrix)


@settings(max_examples=40, deadline=None)
@given(matrix=matrices(), extra=st.lists(st.floats(-1, 5), max_size=3))
def test_the_distribution_equals_that_of_all_rectangles(matrix: Floats, extra: list[float]) -> None:
    gaps = every_gap(matrix)
    assume(gaps)
    at = [*gaps, *extra, -np.inf, np.inf]
    expected = [sum(gap <= x + 1e-12 for gap in gaps) / len(gaps) for x in at]
    np.testing.assert_array_equal(curl_ecdf(matrix, at), expected)


def test_gaps_that_differ_only_by_rounding_are_one_step() -> None:
    matrix = np.array([[1 / 3, 1 / 3, -2 / 3], [1, 1, 0]])
    np.testing.assert_array_equal(curl_ecdf(matrix, every_gap(matrix)), [1, 1, 1])


def scores(*, gaps: float = 0.3, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    value = np.clip(rng.normal(0.5, 0.3, (8, 20)), -1, 1)
    value[rng.random(value.shape) < gaps] = np.nan
    return value


def test_rectangles_are_drawn_uniformly_from_all_complete_ones() -> None:
    observed = np.random.default_rng(1).random((4, 5)) < 0.75
    everyone = {
        ((i, k), (j, m))
        for i, k in combinations(range(4), 2)
        for j, m in combinations(range(5), 2)
        if observed[np.ix_([i, k], [j, m])].all()
    }
    n = 400 * len(everyone)
    *corners, _ = sample_rectangles(observed, rng=np.random.default_rng(2), n_pairs=n, n_per_pair=1)
    drawn = Counter(
        ((min(i, k), max(i, k)), (min(j, m), max(j, m)))
        for i, k, j, m in zip(*(c.ravel().tolist() for c in corners), strict=True)
    )
    assert set(drawn) == everyone
    chi_square = sum((count - 400) ** 2 / 400 for count in drawn.values())
    assert chi_square < len(everyone) + 4 * np.sqrt(2 * len(everyone))


def test_all_pairs_of_links_are_compared_and_exact_uses_all_rectangles() -> None:
    value = scores()
    result = median_differences(value, rng=np.random.default_rng(0), n_draws=60, n_rectangles=500)
    assert [(r.first, r.second) for r in result] == list(combinations(LINKS, 2))
    medians = {name: curl_quantiles(link.forward(value), (0.5,))[0] for name, link in LINKS.items()}
    for r in result:
        assert r.exact == pytest.approx(medians[r.first] - medians[r.second])
        assert r.low < r.mean < r.high
        assert (r.level, r.coincident, r.n_draws) == (0.95, "drop", 60)


def test_keeping_duplicate_rows_biases_medians_towards_zero() -> None:
    kept, dropped = (
        median_differences(scores(), rng=np.random.default_rng(0), coincident=rule, n_draws=100, n_rectangles=1000)[1]
        for rule in ("keep", "drop")
    )
    assert abs(kept.mean) < abs(dropped.mean)


def test_resamples_without_a_rectangle_are_counted_and_too_many_are_refused() -> None:
    value = np.full((6, 6), np.nan)
    value[:3, :3] = scores(gaps=0)[:3, :3]
    result = median_differences(value, rng=np.random.default_rng(0), n_draws=100, n_rectangles=50)[0]
    assert 50 <= result.n_draws < 100
    value[2], value[:, 2] = np.nan, np.nan
    with pytest.raises(StatisticsError, match=r"\[curl-no-rectangles\]"):
        median_differences(value, rng=np.random.default_rng(0), n_draws=100, n_rectangles=50)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("coincident", "mean", "low", "high"), [("keep", -0.294, -0.327, -0.255), ("drop", -0.306, -0.348, -0.270)]
)
def test_intervals_on_real_scores_agree_with_those_of_the_paper(
    peer_prediction: Path, coincident: Coincident, mean: float, low: float, high: float
) -> None:
    """Project statistics, PubMed, identity minus logit; in the paper, which keeps duplicate rows: −.298 [−.326, −.256]."""
    value = published_scores(peer_prediction, "pubmed_200_config_results")
    result = median_differences(
        value, rng=np.random.default_rng(0), coincident=coincident, n_draws=300, n_rectangles=10_000
    )
    identity_less_logit = result[1]
    assert identity_less_logit.mean == pytest.approx(mean, abs=0.004)
    assert identity_less_logit.low == pytest.approx(low, abs=0.008)
    assert identity_less_logit.high == pytest.approx(high, abs=0.008)


SAMPLED_LEVELS = (0.1, 0.5, 0.95)


def curl_of(value: Floats, corners: Corners) -> SampledCurl:
    return SampledCurl.from_scores(corners.scores(lambda i, j: value[i, j]))


def noisy_scores(*, gaps: float, lattice: bool, shape: tuple[int, int] = (14, 60)) -> Floats:
    """Return scores with noise of different size per agent, so that rectangles of one pair of agents are similar."""
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 1, shape) * rng.uniform(0.02, 0.3, shape[0])[:, None]
    value = np.clip(rng.normal(0.3, 0.2, shape[0])[:, None] + noise, -1, 1)
    value = np.round(value * 4) / 4 if lattice else value
    value[rng.random(shape) < gaps] = np.nan
    return value


@pytest.mark.parametrize("gaps", [0.0, 0.8])
@pytest.mark.parametrize("wide", [True, False])
def test_sampled_rectangles_are_complete_and_counted(gaps: float, wide: bool) -> None:
    value = noisy_scores(gaps=gaps, lattice=False)
    value = value if wide else value.T
    i, k, j, m, n_all = sample_rectangles(~np.isnan(value), rng=standalone_stream(0), n_pairs=50, n_per_pair=7)
    assert i.shape == m.shape == (50, 7)
    assert (i != k).all()
    assert (j != m).all()
    assert not np.isnan(value[i, j] + value[k, j] + value[i, m] + value[k, m]).any()
    assert n_all == n_rectangles(~np.isnan(value))


@pytest.mark.parametrize("name", list(LINKS))
@pytest.mark.parametrize("gaps", [0.0, 0.6])
def test_a_sampled_curl_is_within_its_errors_of_the_exact_one(gaps: float, name: str) -> None:
    value, link = noisy_scores(gaps=gaps, lattice=False), LINKS[name].forward
    result = curl_of(link(value), sample_rectangles(~np.isnan(value), rng=standalone_stream(1)))
    exact = curl_quantiles(link(value), SAMPLED_LEVELS)
    sampled = result.quantiles(SAMPLED_LEVELS)
    assert (np.abs(sampled.value - exact) <= 4 * sampled.std_error).all()
    assert (sampled.std_error < 0.03 * exact).all()
    share = result.ecdf(exact)
    assert (np.abs(share.value - curl_ecdf(link(value), exact)) <= 4 * share.std_error).all()
    assert (share.std_error < 0.005).all()


def test_standard_errors_equal_the_spread_of_samples() -> None:
    value = noisy_scores(gaps=0.3, lattice=False)
    at = curl_quantiles(value, SAMPLED_LEVELS)
    medians, errors, shares, doubts = [], [], [], []
    for seed in range(60):
        corners = sample_rectangles(~np.isnan(value), rng=standalone_stream(seed), n_pairs=300, n_per_pair=8)
        result = curl_of(value, corners)
        median, share = result.quantiles((0.5,)), result.ecdf(at)
        medians.append(median.value[0])
        errors.append(median.std_error[0])
        shares.append(share.value)
        doubts.append(share.std_error)
    assert np.std(medians) == pytest.approx(np.mean(errors), rel=0.25)
    np.testing.assert_allclose(np.std(shares, axis=0), np.mean(doubts, axis=0), rtol=0.25)


def test_steps_of_a_lattice_are_at_the_requested_positions() -> None:
    value = noisy_scores(gaps=0.2, lattice=True)
    result = curl_of(value, sample_rectangles(~np.isnan(value), rng=standalone_stream(2)))
    at = [0.0, 0.25, 0.5, 1.0]
    np.testing.assert_allclose(result.ecdf(at).value, curl_ecdf(value, at), atol=0.01)


def test_the_table_is_exact_up_to_a_stated_size_and_states_if_it_is_sampled() -> None:
    value = noisy_scores(gaps=0.1, lattice=False)
    exact, sampled = compare_links(value), compare_links(value, exact_up_to=10)
    assert sampled == compare_links(value, exact_up_to=10), "the same sample each time"
    for name, line in exact.items():
        assert (line.n_sampled, line.median_error, line.p95_error) == (None, None, None)
        estimate = sampled[name]
        assert estimate.n_sampled == 131_072
        assert abs(estimate.median - line.median) <= 4 * not_none(estimate.median_error)
        assert abs(estimate.p95 - line.p95) <= 4 * not_none(estimate.p95_error)
        same = ("sd", "r2", "n_rectangles")
        assert [asdict(estimate)[key] for key in same] == [asdict(line)[key] for key in same]


def test_sampled_curves_have_errors_and_exact_ones_do_not() -> None:
    value = noisy_scores(gaps=0.1, lattice=False)
    for exact, sampled in zip(measure_curl(value).curves(), measure_curl(value, exact_up_to=10).curves(), strict=True):
        assert not exact.std_error.any()
        assert sampled.std_error.any()
        truth = curl_ecdf(LINKS[exact.link].forward(value), sampled.x)
        assert (np.abs(sampled.share - truth) <= 4 * sampled.std_error + 1e-4).all()


@pytest.mark.parametrize("observed", [np.zeros((3, 4), bool), np.eye(4, dtype=bool), np.ones((1, 5), bool)])
def test_sampling_without_a_rectangle_is_refused(observed: np.ndarray) -> None:
    with pytest.raises(StatisticsError, match="curl-no-rectangles"):
        sample_rectangles(observed, rng=standalone_stream(0))


def test_curves_read_back_exactly_and_another_table_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    curves = measure_curl(noisy_scores(gaps=0.1, lattice=False)).curves()
    folder.write_curl(curves)
    for written, read in zip(curves, folder.read_curl(), strict=True):
        assert (written.link, written.sd) == (read.link, read.sd)
        for name in ("x", "share", "std_error"):
            np.testing.assert_array_equal(getattr(written, name), getattr(read, name))
    folder.write_text("curl.csv", "link,x\nidentity,1\n")
    with pytest.raises(RunFolderError, match="run-file-damaged"):
        folder.read_curl()


@pytest.mark.parametrize("exact_up_to", [0, 2**20])
def test_scores_in_columns_have_the_curl_of_their_matrix(exact_up_to: int) -> None:
    value = noisy_scores(gaps=0.6, lattice=False)
    names = tuple(map(str, range(14))), tuple(map(str, range(60)))
    weight = (~np.isnan(value)).astype(float)
    columns = Scores.from_matrices(value, weight, role="train", kind="row", agent_ids=names[0], item_ids=names[1])
    result = measure_curl(columns, exact_up_to=exact_up_to)
    assert result.table() == measure_curl(value, exact_up_to=exact_up_to).table()
    assert "value" not in vars(columns)


# folder, shape, then per link: median, p95, scale-free median, R² (None where the page gives none)
FIGURES = [
    (
        "pubmed_200_config_results",
        (30, 200),
        {
            "identity": (0.129, 0.466, 0.68, 0.667),
            "probit": (0.242, 0.810, 0.72, 0.661),
            "logit": (0.432, 1.430, 0.73, 0.657),
        },
    ),
    (
        "peer_review_results_100",
        (29, 100),
        {
            "identity": (0.080, 0.580, 0.37, 0.707),
            "probit": (0.289, 1.182, 0.60, 0.691),
            "logit": (0.592, 2.238, 0.64, 0.682),
        },
    ),
    (
        "opus_translation_results",
        (31, 30),
        {
            "identity": (0.142, 0.458, 0.56, None),
            "probit": (0.239, 0.766, 0.55, None),
            "logit": (0.419, 1.355, 0.54, None),
        },
    ),
]


@pytest.mark.parametrize(("folder", "shape", "figures"), FIGURES, ids=[row[0] for row in FIGURES])
def test_curl_and_r2_of_real_data_equal_the_published_exact_values(
    peer_prediction: Path,
    folder: str,
    shape: tuple[int, int],
    figures: dict[str, tuple[float, float, float, float | None]],
) -> None:
    scores = published_scores(peer_prediction, folder)
    assert scores.shape == shape
    table = compare_links(scores)
    K, J = shape
    for link, (median, p95, scaled, r2) in figures.items():
        row = table[link]
        assert row.n_rectangles == K * (K - 1) * J * (J - 1) // 4
        assert row.median == pytest.approx(median, abs=0.002)
        assert row.p95 == pytest.approx(p95, abs=0.002)
        assert row.median_scaled == pytest.approx(scaled, abs=0.01)
        if r2 is not None:
            assert row.r2 == pytest.approx(r2, abs=0.001)


EVERY = pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))
clipped_scores = st.floats(-CLIP, CLIP)


@EVERY
@settings(max_examples=25, deadline=None)
@given(score=clipped_scores)
def test_inverse_of_forward_is_the_identity_inside_the_interval(link: Link, score: float) -> None:
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
def test_forward_increases_keeps_nan_and_is_finite_at_the_bounds(link: Link) -> None:
    value = link.forward(np.array([-1.0, -0.5, 0.0, 0.5, 1.0, np.nan]))
    assert (np.diff(value[:5]) > 0).all()
    assert np.isfinite(value[:5]).all()
    assert np.isnan(value[5])


def test_link_values_equal_manually_computed_ones() -> None:
    s = np.array([0.61])
    assert LINKS["identity"].forward(s)[0] == 0.61
    assert LINKS["logit"].forward(s)[0] == pytest.approx(np.log(0.805 / 0.195))
    assert LINKS["probit"].forward(np.array([0.95]))[0] == pytest.approx(1.959963985)


def test_only_the_identity_distinguishes_scores_beyond_the_clip() -> None:
    s = np.array([CLIP, 1.0])
    assert np.ptp(LINKS["identity"].forward(s)) > 0
    assert np.ptp(LINKS["probit"].forward(s)) == 0
    assert np.ptp(LINKS["logit"].forward(s)) == 0


def test_an_additive_matrix_has_no_curl_and_full_r2_on_the_identity_only() -> None:
    theta, b = np.array([0.1, 0.4, 0.6]), np.array([-0.3, 0.0, 0.1, 0.2])
    table = compare_links(theta[:, None] - b[None, :])
    assert list(table) == ["identity", "probit", "logit"]
    assert table["identity"].p95 == pytest.approx(0, abs=1e-12)
    assert table["identity"].r2 == pytest.approx(1, abs=1e-9)
    assert table["logit"].median > 0.01
    assert table["logit"].n_rectangles == 3 * 6


def test_scores_that_differ_only_by_rounding_have_no_curl_scale() -> None:
    clipped_scores = np.ones((5, 12))
    clipped_scores[0, 0] -= 1e-15
    assert {curve.sd for curve in measure_curl(clipped_scores).curves()} == {0.0}


def test_equal_scores_have_no_scale_and_no_r2_instead_of_nan() -> None:
    for row in compare_links(np.full((3, 4), 0.1 + 0.2)).values():
        assert (row.median, row.p95, row.sd) == (0, 0, 0)
        assert (row.median_scaled, row.p95_scaled, row.r2) == (None, None, None)


def test_scaled_curl_does_not_depend_on_the_unit() -> None:
    matrix = np.random.default_rng(0).uniform(-1, 1, (4, 6))
    whole, half = compare_links(matrix)["identity"], compare_links(matrix / 2)["identity"]
    assert half.median == pytest.approx(whole.median / 2)
    assert half.median_scaled == pytest.approx(whole.median_scaled)
    assert half.r2 == pytest.approx(whole.r2)
