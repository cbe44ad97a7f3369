"""Test that every public statistic refuses invalid scores and parameters with the slug that explains the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from narrowing import untyped
from youden import stats
from youden.errors import StatisticsError, YoudenError
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


AGENT, ITEM = np.arange(24) // 8, np.arange(24) % 8
OTHER_ITEM = np.where(np.arange(24) % 2, -1, (ITEM + 1) % 8)
FIRST, SECOND = np.arange(24) % 4, (np.arange(24) + 1) % 4
ANSWER = RNG.random(24).round()
CELLS = {"agent": AGENT, "item": ITEM, "score": RNG.random(24), "n_agents": 3, "n_items": 8, "weight": np.ones(24)}
TRIALS = {"first": FIRST, "second": SECOND, "answer": ANSWER, "n_agents": 4}
MATRIX = RNG.random((4, 5))
CHUNK = untyped(stats.PairChunk.from_trials)(ITEM, FIRST, SECOND, ANSWER, n_items=8)
ARGUMENTS: dict[str, dict[str, Any]] = {
    "Cells": CELLS | {"low": 0.0, "high": 1.0},
    "CentredCovariance": {"covariance": np.eye(3), "df": np.full(3, 9.0)},
    "PairChunk": {
        name: getattr(CHUNK, name) for name in ("first", "second", "item", "value", "weight", "rate", "n_items")
    },
    "auc_measurement_interval": {
        "ability": A,
        "positive": POSITIVE,
        "low": A - 1,
        "high": A + 1,
        "rng": RNG,
        "n_draws": 9,
    },
    "auc_sampling_interval": {"ability": A, "positive": POSITIVE, "level": 0.9},
    "cells_from_arrays": CELLS,
    "cells_from_matrix": {"matrix": MATRIX},
    "compare_links": {"matrix": MATRIX},
    "curl_ecdf": {"matrix": MATRIX, "x": [0.1]},
    "curl_quantiles": {"matrix": MATRIX, "q": [0.5]},
    "estimate_self_consistency": {
        **{"agent": AGENT, "item": ITEM, "other_item": OTHER_ITEM, "answer": ANSWER, "n_agents": 3, "n_items": 8}
    },
    "fit_bradley_terry": TRIALS,
    "fit_preferences": TRIALS | {"item": ITEM, "level": 0.9},
    "holm": {"p_values": A},
    "kendall": {"ability": A, "reference": B, "level": 0.9},
    "pairwise_differences": {"ability": A[:3], "covariance": COVARIANCE, "level": 0.9},
    "ranking_auc": {"ability": A, "positive": POSITIVE},
    "replication_scores": {"same_item": np.eye(2), "other_items": np.eye(2)},
    "rmse": {"predicted": A, "observed": B, "level": 0.9},
    "solve_additive": CELLS | {"ridge": 1e-6},
    "solve_cells": {"cells": stats.cells_from_matrix(MATRIX), "ridge": 1e-6},
    "spearman": {"ability": A, "reference": B, "level": 0.9},
    "trial_means": {"chunks": lambda: [CHUNK], "n_agents": 4, "target": "items-like-these"},
}
UNTESTED = {"Cells": {"low", "high", "n_agents", "n_items"}, "trial_means": {"target"}}


@pytest.mark.parametrize("name", sorted(set(stats.__all__) - {"BASELINES", "Rasch"}))
def test_values_of_a_wrong_type_are_refused_by_every_public_statistic(name: str) -> None:
    function = untyped(getattr(stats, name))
    arguments = ARGUMENTS[name]
    function(**arguments)
    for argument in arguments.keys() - UNTESTED.get(name, set()):
        for value in ("abc", ["a", "b"], [1, [2, 3]], {"a": 1}, *([] if argument == "weight" else [None])):
            with pytest.raises(YoudenError):
                function(**arguments | {argument: value})


@pytest.mark.parametrize(("slug", "call"), CASES, ids=[f"{slug} {n}" for n, (slug, _) in enumerate(CASES)])
def test_wrong_input_is_refused_by_slug(slug: str, call: Callable[[], object]) -> None:
    with pytest.raises(StatisticsError, match=rf"\[{slug}\]"):
        call()
