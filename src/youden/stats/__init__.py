"""Provide statistics on arrays: fits, diagnostics, intervals, baselines and metrics. Each name is loaded on first use.

Functions take and return arrays. A score matrix has the shape (n_agents, n_items), with NaN for cells that were not
observed. Abilities, difficulties and scores have the unit of the answers.

Raises
------
StatisticsError
    If an array does not fit; the message names it.

Examples
--------
>>> import numpy as np
>>> from youden import stats
>>> rho = stats.spearman(np.array([0.9, 0.7, 0.5, 0.4, 0.1]), np.array([5.0, 4, 2, 3, 1]))
>>> round(rho.value, 2)
0.9
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from youden.stats.additive.observed_cells import Cells, cells_from_arrays, cells_from_matrix
    from youden.stats.additive.rasch import Rasch
    from youden.stats.additive.solver import solve_additive, solve_cells
    from youden.stats.base.auc import auc_measurement_interval, auc_sampling_interval, ranking_auc
    from youden.stats.base.clusters import CentredCovariance
    from youden.stats.base.metrics import kendall, rmse, spearman
    from youden.stats.base.pair_chunks import PairChunk
    from youden.stats.baselines import BASELINES
    from youden.stats.curl.link_table import compare_links
    from youden.stats.curl.quantiles import curl_ecdf, curl_quantiles
    from youden.stats.trials.comparisons import holm, pairwise_differences
    from youden.stats.trials.preferences import fit_bradley_terry, fit_preferences
    from youden.stats.trials.replication import estimate_self_consistency, replication_scores
    from youden.stats.trials.trial_errors import trial_means

_HOMES = {
    "solve_additive": "youden.stats.additive.solver",
    "solve_cells": "youden.stats.additive.solver",
    "BASELINES": "youden.stats.baselines",
    "Cells": "youden.stats.additive.observed_cells",
    "cells_from_matrix": "youden.stats.additive.observed_cells",
    "cells_from_arrays": "youden.stats.additive.observed_cells",
    "CentredCovariance": "youden.stats.base.clusters",
    "pairwise_differences": "youden.stats.trials.comparisons",
    "holm": "youden.stats.trials.comparisons",
    "curl_ecdf": "youden.stats.curl.quantiles",
    "curl_quantiles": "youden.stats.curl.quantiles",
    "compare_links": "youden.stats.curl.link_table",
    "auc_measurement_interval": "youden.stats.base.auc",
    "kendall": "youden.stats.base.metrics",
    "ranking_auc": "youden.stats.base.auc",
    "rmse": "youden.stats.base.metrics",
    "auc_sampling_interval": "youden.stats.base.auc",
    "spearman": "youden.stats.base.metrics",
    "Rasch": "youden.stats.additive.rasch",
    "PairChunk": "youden.stats.base.pair_chunks",
    "fit_bradley_terry": "youden.stats.trials.preferences",
    "fit_preferences": "youden.stats.trials.preferences",
    "trial_means": "youden.stats.trials.trial_errors",
    "estimate_self_consistency": "youden.stats.trials.replication",
    "replication_scores": "youden.stats.trials.replication",
}

__all__ = [
    "BASELINES",
    "Cells",
    "CentredCovariance",
    "PairChunk",
    "Rasch",
    "auc_measurement_interval",
    "auc_sampling_interval",
    "cells_from_arrays",
    "cells_from_matrix",
    "compare_links",
    "curl_ecdf",
    "curl_quantiles",
    "estimate_self_consistency",
    "fit_bradley_terry",
    "fit_preferences",
    "holm",
    "kendall",
    "pairwise_differences",
    "ranking_auc",
    "replication_scores",
    "rmse",
    "solve_additive",
    "solve_cells",
    "spearman",
    "trial_means",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value: object = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'youden.stats' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
