"""Statistics on arrays: fits, diagnostics, intervals, baselines, metrics. Everything named here loads when first used.

Arrays in, arrays out: K agents, J items, float[K, J] with NaN for a cell that was not seen. Abilities, difficulties and scores
share one unit, that of the answers.

Raises: StatisticsError, naming the array that does not fit.

>>> import numpy as np
>>> from youden import stats
>>> found = stats.spearman(np.array([0.9, 0.7, 0.5, 0.4, 0.1]), np.array([5.0, 4, 2, 3, 1]))
>>> round(found.value, 2)
0.9
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from youden.stats.additive.cells import Cells, cells_of, check_cells
    from youden.stats.additive.clipped_linear import ClippedLinear
    from youden.stats.additive.rasch import Rasch
    from youden.stats.additive.solver import Solution, solve_additive, solve_cells
    from youden.stats.base.links import LINKS
    from youden.stats.base.metrics import auc_interval, kendall, ranking_auc, rmse, sampled_auc, spearman
    from youden.stats.base.ranks import rank_ranges
    from youden.stats.baselines import BASELINES
    from youden.stats.curl.additivity import rank_one_test, residual_map
    from youden.stats.curl.bootstrap import median_differences
    from youden.stats.curl.link_table import links_table
    from youden.stats.curl.quantiles import curl_ecdf, curl_quantiles
    from youden.stats.trials.comparisons import compare_agents, holm, rank_sets
    from youden.stats.trials.trial_mean import trial_mean

_NAMES = {
    "additive.solver": ("Solution", "solve_additive", "solve_cells"),
    "curl.additivity": ("rank_one_test", "residual_map"),
    "baselines": ("BASELINES",),
    "additive.cells": ("Cells", "cells_of", "check_cells"),
    "additive.clipped_linear": ("ClippedLinear",),
    "trials.comparisons": ("compare_agents", "holm", "rank_sets"),
    "curl.quantiles": ("curl_ecdf", "curl_quantiles"),
    "curl.bootstrap": ("median_differences",),
    "curl.link_table": ("links_table",),
    "base.links": ("LINKS",),
    "base.metrics": ("auc_interval", "kendall", "ranking_auc", "rmse", "sampled_auc", "spearman"),
    "base.ranks": ("rank_ranges",),
    "additive.rasch": ("Rasch",),
    "trials.trial_mean": ("trial_mean",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "BASELINES",
    "LINKS",
    "Cells",
    "ClippedLinear",
    "Rasch",
    "Solution",
    "auc_interval",
    "cells_of",
    "check_cells",
    "compare_agents",
    "curl_ecdf",
    "curl_quantiles",
    "holm",
    "kendall",
    "links_table",
    "median_differences",
    "rank_one_test",
    "rank_ranges",
    "rank_sets",
    "ranking_auc",
    "residual_map",
    "rmse",
    "sampled_auc",
    "solve_additive",
    "solve_cells",
    "spearman",
    "trial_mean",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found: object = getattr(import_module(f"youden.stats.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'youden.stats' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
