"""Test that every public statistic refuses inconsistent arrays before computing anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from youden import ClippedLinear, stats
from youden.errors import StatisticsError
from youden.stats.base.metrics import rank_ranges
from youden.types import Scores

THREE, FOUR = np.array([0.1, 0.5, 0.9]), np.array([0.1, 0.4, 0.6, 0.9])
GROUPS = np.array([True, False, True, False])
RNG = np.random.default_rng(0)
TRIALS: dict[str, Any] = {
    "first": np.array([0, 1, 2, 0, 1, 2], dtype=np.int32),
    "second": np.array([1, 2, 0, 2, 0, 1], dtype=np.int32),
    "item": np.array([0, 0, 0, 1, 1, 1], dtype=np.int32),
    "value": np.array([1.0, 0.0, 0.5, 1.0, 1.0, 0.0]),
    "weight": np.ones(6),
    "rate": np.zeros(6),
    "n_items": 2,
}


def covariance(n: int) -> stats.CentredCovariance:
    return stats.CentredCovariance(0.01 * np.eye(n), np.full(n, 10.0))


def block(**changes: Any) -> stats.PairChunk:
    return stats.PairChunk(**{**TRIALS, **changes})


def means(made: stats.PairChunk, **changes: Any) -> object:
    return stats.trial_means(lambda: [made], **{"n_agents": 3, "target": "items-like-these", **changes})


def scores(**changes: Any) -> Scores:
    usual: dict[str, Any] = {
        "value": RNG.random((4, 3)),
        "weight": np.ones((4, 3)),
        "role": "train",
        "kind": "row",
        "agent_ids": tuple("abcd"),
        "item_ids": tuple("xyz"),
    }
    return Scores.from_matrices(**{**usual, **changes})


MODEL = ClippedLinear().fit(scores())
HELD = scores(role="holdout")


def fit_held(name: str) -> object:
    return stats.BASELINES.load(name)().fit(HELD)


REFUSED: dict[str, Callable[[], object]] = {
    "covariance, not square": lambda: stats.CentredCovariance(np.ones((4, 3)), THREE),
    "covariance, freedom of others": lambda: stats.CentredCovariance(np.eye(4), THREE),
    "covariance, one freedom": lambda: stats.CentredCovariance(np.eye(4), np.ones(1)),
    "factors of others": lambda: covariance(4).with_scaled_variances(THREE),
    "factors of others, apart": lambda: covariance(4).with_scaled_ability_variances(THREE),
    "differences, covariance of others": lambda: stats.pairwise_differences(FOUR, covariance(3)),
    "differences, one ability": lambda: stats.pairwise_differences(FOUR[:1], covariance(3)),
    "differences, a matrix": lambda: stats.pairwise_differences(np.ones((3, 3)), covariance(3)),
    "spearman": lambda: stats.spearman(FOUR, THREE),
    "kendall, one reference": lambda: stats.kendall(FOUR, THREE[:1]),
    "rmse, would broadcast": lambda: stats.rmse(np.ones((4, 3)), np.ones((1, 3))),
    "groups of others": lambda: stats.ranking_auc(THREE, GROUPS),
    "groups that are positions": lambda: stats.ranking_auc(FOUR, np.array([0, 2, 3, 1])),
    "groups that are positions, sampled": lambda: stats.auc_sampling_interval(FOUR, np.array([0, 2, 3, 1])),
    "interval of others": lambda: stats.auc_measurement_interval(FOUR, GROUPS, low=THREE, high=FOUR, rng=RNG),
    "interval of one": lambda: stats.auc_measurement_interval(FOUR, GROUPS, low=FOUR[:1], high=FOUR[:1], rng=RNG),
    "ranges of two lengths": lambda: rank_ranges(FOUR, THREE + 1),
    "ranges, one end": lambda: rank_ranges(FOUR, np.ones(1)),
    "p-values in a matrix": lambda: stats.holm(np.full((2, 2), 0.1)),
    "p-values beyond 1": lambda: stats.holm(np.array([0.1, 1.5])),
    "weights of another matrix": lambda: stats.cells_from_matrix(np.ones((4, 3)) / 2, weight=np.ones((3, 4))),
    "weights of one row": lambda: stats.cells_from_matrix(np.ones((4, 3)) / 2, weight=np.ones((1, 3))),
    "cells, negative agent": lambda: stats.cells_from_arrays([-1], [0], [0.5], n_agents=2, n_items=2),
    "cells, too few agents": lambda: stats.cells_from_arrays([2], [0], [0.5], n_agents=2, n_items=2),
    "cells made by hand": lambda: stats.Cells(
        np.zeros(3, dtype=np.int32), np.zeros(2, dtype=np.int32), THREE, None, 4, 3, -1.0, 1.0
    ),
    "mask of other cells": lambda: stats.cells_from_matrix(np.ones((2, 2)) / 2).where(np.ones(3, dtype=np.bool_)),
    "additive, items of others": lambda: stats.solve_additive([0, 1], [0], [0.5, 0.4], n_agents=2, n_items=2),
    "predict_at, two lengths": lambda: MODEL.predict_at(np.array([0, 1]), np.array([0, 1, 2])),
    "predict_at, would broadcast": lambda: MODEL.predict_at(np.array([0, 1]), np.array([0])),
    "predict_at, no such agent": lambda: MODEL.predict_at(np.array([4]), np.array([0])),
    "predict_at, negative item": lambda: MODEL.predict_at(np.array([0]), np.array([-1])),
    "block, rates of others": lambda: block(rate=np.zeros(5)),
    "block, one rate": lambda: block(rate=np.zeros(1)),
    "block, flags of others": lambda: block(first_weight=np.ones(5, dtype=np.bool_)),
    "block, too few items": lambda: block(n_items=1),
    "means, too few agents": lambda: means(block(), n_agents=2),
    "means, no such target": lambda: means(block(), target="items"),
    "curl of a row": lambda: stats.curl_quantiles(FOUR),
    "curl of a row, distribution": lambda: stats.curl_ecdf(FOUR, [0.1]),
    "scores, too few agents": lambda: scores(agent_ids=tuple("abc")),
    "scores, too few items": lambda: scores(item_ids=tuple("xy")),
    "scores, weights turned": lambda: scores(weight=np.ones((3, 4))),
    "columns of scores, too few items": lambda: Scores(
        scores().cells, role="train", kind="row", agent_ids=tuple("abcd"), item_ids=tuple("xy")
    ),
    **{f"{name} learns from held-out cells": partial(fit_held, name) for name in stats.BASELINES},
}


@pytest.mark.parametrize("case", REFUSED)
def test_inconsistent_arguments_are_refused(case: str) -> None:
    with pytest.raises(StatisticsError):
        REFUSED[case]()


def test_consistent_arguments_are_accepted() -> None:
    assert stats.pairwise_differences(FOUR, covariance(4)).value.shape == (4, 4)
    assert stats.ranking_auc(FOUR, GROUPS.astype(np.int64)) == stats.ranking_auc(FOUR, GROUPS)
    assert MODEL.predict_at(np.array([0, 1]), np.array([2, 2])).shape == (2,)
    assert means(block()) is not None
    assert covariance(4).with_scaled_variances(FOUR).covariance.shape == (4, 4)
