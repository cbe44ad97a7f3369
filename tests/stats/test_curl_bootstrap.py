"""Bootstrap of median curl differences: its rectangles by enumeration, its intervals on the paper's data."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from worlds import published_scores
from youden.errors import StatisticsError
from youden.stats import LINKS, curl_quantiles, median_differences
from youden.stats.curl.rectangles import sample_rectangles
from youden.types.pool import Floats


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
    *corners, _ = sample_rectangles(observed, rng=np.random.default_rng(2), n_pairs=n, a_pair=1)
    drawn = Counter(
        ((min(i, k), max(i, k)), (min(j, m), max(j, m)))
        for i, k, j, m in zip(*(c.ravel().tolist() for c in corners), strict=True)
    )
    assert set(drawn) == everyone
    chi_square = sum((count - 400) ** 2 / 400 for count in drawn.values())
    assert chi_square < len(everyone) + 4 * np.sqrt(2 * len(everyone))


def test_every_two_links_are_compared_and_exact_is_over_all_rectangles() -> None:
    value = scores()
    result = median_differences(value, rng=np.random.default_rng(0), n_draws=60, n_rectangles=500)
    assert [(r.first, r.second) for r in result] == list(combinations(LINKS, 2))
    medians = {name: curl_quantiles(link.forward(value), (0.5,))[0] for name, link in LINKS.items()}
    for r in result:
        assert r.exact == pytest.approx(medians[r.first] - medians[r.second])
        assert r.low < r.mean < r.high
        assert (r.level, r.coincident, r.n_draws) == (0.95, "drop", 60)


def test_keeping_coincident_rows_draws_medians_towards_zero() -> None:
    kept, dropped = (
        median_differences(scores(), rng=np.random.default_rng(0), coincident=rule, n_draws=100, n_rectangles=1000)[1]
        for rule in ("keep", "drop")
    )
    assert abs(kept.mean) < abs(dropped.mean)


def test_resamples_without_a_rectangle_are_counted_and_too_many_refused() -> None:
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
def test_the_papers_interval_on_real_scores_and_ours(
    peer_prediction: Path, coincident: str, mean: float, low: float, high: float
) -> None:
    """Project statistics, PubMed, identity less logit; the paper, which keeps coincident rows: −.298 [−.326, −.256]."""
    value = published_scores(peer_prediction, "pubmed_200_config_results")
    result = median_differences(
        value, rng=np.random.default_rng(0), coincident=coincident, n_draws=300, n_rectangles=10_000
    )
    identity_less_logit = result[1]
    assert identity_less_logit.mean == pytest.approx(mean, abs=0.004)
    assert identity_less_logit.low == pytest.approx(low, abs=0.008)
    assert identity_less_logit.high == pytest.approx(high, abs=0.008)
