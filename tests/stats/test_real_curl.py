"""Exact curl of the paper's real judge data, against the figures of the project's statistics page."""

from __future__ import annotations

from pathlib import Path

import pytest

from worlds import published_scores
from youden.stats import links_table

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
def test_curl_and_r2_of_real_data_are_the_published_exact_ones(
    peer_prediction: Path,
    folder: str,
    shape: tuple[int, int],
    figures: dict[str, tuple[float, float, float, float | None]],
) -> None:
    scores = published_scores(peer_prediction, folder)
    assert scores.shape == shape
    table = links_table(scores)
    K, J = shape
    for link, (median, p95, scaled, r2) in figures.items():
        row = table[link]
        assert row.n_rectangles == K * (K - 1) * J * (J - 1) // 4
        assert row.median == pytest.approx(median, abs=0.002)
        assert row.p95 == pytest.approx(p95, abs=0.002)
        assert row.median_scaled == pytest.approx(scaled, abs=0.01)
        if r2 is not None:
            assert row.r2 == pytest.approx(r2, abs=0.001)
