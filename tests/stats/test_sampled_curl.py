"""The curl of a sample of rectangles against the curl of all of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError, StatisticsError
from youden.stats import LINKS, curl_ecdf, curl_quantiles, links_table
from youden.stats.curl.link_table import SampledCurl, measure_curl
from youden.stats.curl.rectangles import Corners, n_rectangles, sample_rectangles
from youden.streams import own_stream
from youden.types import Scores
from youden.types.pool import Floats

LEVELS = (0.1, 0.5, 0.95)


def curl_of(value: Floats, corners: Corners) -> SampledCurl:
    return SampledCurl.of(corners.scores(lambda i, j: value[i, j]))


def scores(*, gaps: float, lattice: bool, shape: tuple[int, int] = (14, 60)) -> Floats:
    """Agents differ in how noisy they are, so that rectangles of one pair of agents are alike."""
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 1, shape) * rng.uniform(0.02, 0.3, shape[0])[:, None]
    value = np.clip(rng.normal(0.3, 0.2, shape[0])[:, None] + noise, -1, 1)
    value = np.round(value * 4) / 4 if lattice else value
    value[rng.random(shape) < gaps] = np.nan
    return value


@pytest.mark.parametrize("gaps", [0.0, 0.8])
@pytest.mark.parametrize("wide", [True, False])
def test_rectangles_are_complete_real_and_counted(gaps: float, wide: bool) -> None:
    value = scores(gaps=gaps, lattice=False)
    value = value if wide else value.T
    i, k, j, m, n_all = sample_rectangles(~np.isnan(value), rng=own_stream(0), n_pairs=50, a_pair=7)
    assert i.shape == m.shape == (50, 7)
    assert (i != k).all()
    assert (j != m).all()
    assert not np.isnan(value[i, j] + value[k, j] + value[i, m] + value[k, m]).any()
    assert n_all == n_rectangles(~np.isnan(value))


@pytest.mark.parametrize("name", list(LINKS))
@pytest.mark.parametrize("gaps", [0.0, 0.6])
def test_a_sample_stands_within_its_errors_of_the_exact_curl(gaps: float, name: str) -> None:
    value, link = scores(gaps=gaps, lattice=False), LINKS[name].forward
    found = curl_of(link(value), sample_rectangles(~np.isnan(value), rng=own_stream(1)))
    exact = curl_quantiles(link(value), LEVELS)
    sampled = found.quantiles(LEVELS)
    assert (np.abs(sampled.value - exact) <= 4 * sampled.error).all()
    assert (sampled.error < 0.03 * exact).all()
    share = found.ecdf(exact)
    assert (np.abs(share.value - curl_ecdf(link(value), exact)) <= 4 * share.error).all()
    assert (share.error < 0.005).all()


def test_errors_are_as_large_as_samples_differ() -> None:
    value = scores(gaps=0.3, lattice=False)
    at = curl_quantiles(value, LEVELS)
    medians, errors, shares, doubts = [], [], [], []
    for seed in range(60):
        corners = sample_rectangles(~np.isnan(value), rng=own_stream(seed), n_pairs=300, a_pair=8)
        found = curl_of(value, corners)
        median, share = found.quantiles((0.5,)), found.ecdf(at)
        medians.append(median.value[0])
        errors.append(median.error[0])
        shares.append(share.value)
        doubts.append(share.error)
    assert np.std(medians) == pytest.approx(np.mean(errors), rel=0.25)
    np.testing.assert_allclose(np.std(shares, axis=0), np.mean(doubts, axis=0), rtol=0.25)


def test_steps_of_a_lattice_fall_where_they_are_asked_for() -> None:
    value = scores(gaps=0.2, lattice=True)
    found = curl_of(value, sample_rectangles(~np.isnan(value), rng=own_stream(2)))
    at = [0.0, 0.25, 0.5, 1.0]
    np.testing.assert_allclose(found.ecdf(at).value, curl_ecdf(value, at), atol=0.01)


def test_the_table_is_exact_up_to_a_stated_size_and_says_where_it_is_sampled() -> None:
    value = scores(gaps=0.1, lattice=False)
    exact, sampled = links_table(value), links_table(value, exact_up_to=10)
    assert sampled == links_table(value, exact_up_to=10), "the same sample each time"
    for name, line in exact.items():
        assert (line.n_sampled, line.median_error, line.p95_error) == (None, None, None)
        other = sampled[name]
        assert other.n_sampled == 131_072
        assert abs(other.median - line.median) <= 4 * other.median_error
        assert abs(other.p95 - line.p95) <= 4 * other.p95_error
        same = ("sd", "r2", "n_rectangles")
        assert [asdict(other)[key] for key in same] == [asdict(line)[key] for key in same]


def test_curves_of_a_sample_carry_errors_and_exact_ones_none() -> None:
    value = scores(gaps=0.1, lattice=False)
    for exact, sampled in zip(measure_curl(value).curves(), measure_curl(value, exact_up_to=10).curves(), strict=True):
        assert not exact.error.any()
        assert sampled.error.any()
        truth = curl_ecdf(LINKS[exact.link].forward(value), sampled.x)
        assert (np.abs(sampled.share - truth) <= 4 * sampled.error + 1e-4).all()


@pytest.mark.parametrize("observed", [np.zeros((3, 4), bool), np.eye(4, dtype=bool), np.ones((1, 5), bool)])
def test_without_a_rectangle_there_is_nothing_to_sample(observed: np.ndarray) -> None:
    with pytest.raises(StatisticsError, match="curl-no-rectangles"):
        sample_rectangles(observed, rng=own_stream(0))


def test_curves_read_back_to_the_last_bit_and_another_table_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    curves = measure_curl(scores(gaps=0.1, lattice=False)).curves()
    folder.write_curl(curves)
    for written, read in zip(curves, folder.read_curl(), strict=True):
        assert (written.link, written.sd) == (read.link, read.sd)
        for name in ("x", "share", "error"):
            np.testing.assert_array_equal(getattr(written, name), getattr(read, name))
    folder.write_text("curl.csv", "link,x\nidentity,1\n")
    with pytest.raises(RunFolderError, match="run-file-damaged"):
        folder.read_curl()


@pytest.mark.parametrize("exact_up_to", [0, 2**20])
def test_scores_kept_as_columns_have_the_curl_of_their_matrix(exact_up_to: int) -> None:
    value = scores(gaps=0.6, lattice=False)
    names = tuple(map(str, range(14))), tuple(map(str, range(60)))
    whole = Scores(value, (~np.isnan(value)).astype(float), "train", "row", *names)
    columns = Scores.of_cells(whole.cells, role="train", kind="row", agent_ids=names[0], item_ids=names[1])
    found = measure_curl(columns, exact_up_to=exact_up_to)
    assert found.table() == measure_curl(value, exact_up_to=exact_up_to).table()
    assert "value" not in vars(columns)
