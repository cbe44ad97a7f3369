"""Test that every public statistic refuses invalid scores and parameters with the slug that explains the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from narrowing import untyped
from youden.errors import StatisticsError
from youden.stats import (
    BASELINES,
    CentredCovariance,
    Rasch,
    auc_measurement_interval,
    compare_links,
    curl_ecdf,
    curl_quantiles,
    fit_preferences,
    kendall,
    pairwise_differences,
    ranking_auc,
    rmse,
    spearman,
)
from youden.stats.base.metrics import rank_ranges
from youden.stats.baselines import ImputedSVD, IsotonicOnTop, NuclearNorm, UVFactorization
from youden.stats.curl.quantiles import median_differences
from youden.stats.judges.cell_agreement import cell_correlation
from youden.stats.trials.partner_halves import partner_split_half

A, B = np.array([0.9, 0.7, 0.5, 0.3]), np.array([0.8, 0.9, 0.4, 0.5])
POSITIVE = np.array([True, True, False, False])
SCORES, RNG = np.zeros((3, 3)), np.random.default_rng(0)
COVARIANCE = CentredCovariance(np.eye(3), np.full(3, np.inf))
NOTHING = np.full((2, 2), np.nan)
WRONG_SCORES = {
    "scores-empty": np.full((2, 3), np.nan),
    "scores-range": np.array([[0.0, 1.5]]),
    "scores-infinite": np.array([[0.0, np.inf]]),
    "scores-shape": np.zeros(3),
    "scores-numeric": [["a"]],
}
ESTIMATORS: dict[str, Callable[[], Any]] = {**{name: BASELINES.load(name) for name in BASELINES}, "rasch": Rasch}

CASES: list[tuple[str, Callable[[], object]]] = [
    *((slug, lambda make=make, value=value: make().fit(value))
      for make in ESTIMATORS.values() for slug, value in WRONG_SCORES.items()),
    ("baseline-parameter", lambda: ImputedSVD(rank=0).fit(SCORES)),
    ("baseline-parameter", lambda: untyped(ImputedSVD)(fill="median").fit(SCORES)),
    ("baseline-parameter", lambda: UVFactorization(ridge=0.0).fit(SCORES)),
    ("baseline-parameter", lambda: UVFactorization(n_sweeps=0).fit(SCORES)),
    ("baseline-parameter", lambda: NuclearNorm(penalty=-1.0).fit(SCORES)),
    ("baseline-parameter", lambda: NuclearNorm(n_folds=1).fit(SCORES)),
    ("baseline-parameter", lambda: IsotonicOnTop(n_folds=1).fit(SCORES)),
    ("unknown-link", lambda: Rasch(link="cloglog").fit(SCORES)),
    ("rasch-method", lambda: untyped(Rasch)(method="ml").fit(SCORES)),
    ("rasch-method", lambda: Rasch(link="identity", method="quasi").fit(SCORES)),
    ("ridge", lambda: Rasch(ridge=0.0).fit(SCORES)),
    ("scores-range", lambda: compare_links(np.full((2, 2), 1.5))),
    ("coincident", lambda: untyped(median_differences)(SCORES, rng=RNG, coincident="both")),
    ("bootstrap-draws", lambda: median_differences(SCORES, rng=RNG, n_draws=3)),
    ("level", lambda: median_differences(SCORES, rng=RNG, level=1.0)),
    ("curl-infinite", lambda: curl_quantiles(np.array([[np.inf, 0.0], [0.0, 0.0]]))),
    ("curl-level", lambda: curl_quantiles(np.eye(2), [95])),
    ("curl-too-large", lambda: curl_quantiles(np.broadcast_to(0.0, (600, 600)))),
    ("curl-at", lambda: curl_ecdf(np.eye(3), [np.nan])),
    ("curl-at", lambda: curl_ecdf(np.eye(3), [[0.0]])),
    ("curl-at", lambda: curl_ecdf(np.eye(3), 0.0)),
    ("metric-missing", lambda: spearman(np.array([1.0, np.nan]), np.array([1.0, 2.0]))),
    ("metric-shape", lambda: spearman(A, A[:3])),
    ("metric-constant", lambda: kendall(A, np.ones(4))),
    ("level", lambda: spearman(A, B, level=95)),
    ("auc-one-group", lambda: ranking_auc(A, np.ones(4, dtype=bool))),
    ("metric-missing", lambda: ranking_auc(np.full(4, np.nan), POSITIVE)),
    ("interval-order", lambda: auc_measurement_interval(A, POSITIVE, low=B, high=-B, rng=RNG)),
    ("metric-shape", lambda: rmse(np.zeros(2), np.zeros(3))),
    ("rmse-no-cells", lambda: rmse(np.zeros(2), np.full(2, np.nan))),
    ("metric-missing", lambda: rmse(np.array([np.nan]), np.zeros(1))),
    ("metric-shape", lambda: cell_correlation(np.ones((2, 3)), np.ones((3, 2)))),
    ("interval-order", lambda: rank_ranges(np.array([0.5]), np.array([0.4]))),
    ("level", lambda: pairwise_differences(np.zeros(3), COVARIANCE, level=1.0)),
    ("comparison-shape", lambda: pairwise_differences(np.zeros(4), COVARIANCE)),
    ("cluster-agents", lambda: untyped(fit_preferences)([], [], [], [], n_agents=3)),
    ("partner-agents", lambda: partner_split_half(np.zeros((4, 4)), 1 - np.eye(4), rng=RNG)),
]  # fmt: skip


@pytest.mark.parametrize(("slug", "call"), CASES, ids=[f"{slug} {n}" for n, (slug, _) in enumerate(CASES)])
def test_wrong_input_is_refused_by_slug(slug: str, call: Callable[[], object]) -> None:
    with pytest.raises(StatisticsError, match=rf"\[{slug}\]"):
        call()
