"""Statistics on arrays: fits, diagnostics, intervals, baselines, metrics. Everything named here loads when first used.

It knows arrays in and arrays out; it refuses to know pools, files and judges.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from youden.stats.ability_intervals import Intervals, intervals
    from youden.stats.additive import Solution, solve_additive, solve_cells
    from youden.stats.additivity import rank_one_test, residual_map
    from youden.stats.baselines import BASELINES
    from youden.stats.cells import Cells, cells_of, check_cells
    from youden.stats.clipped_linear import ClippedLinear
    from youden.stats.comparisons import compare_agents, holm, rank_sets
    from youden.stats.curl import curl_ecdf, curl_quantiles
    from youden.stats.curl_bootstrap import median_differences
    from youden.stats.link_table import links_table
    from youden.stats.links import LINKS
    from youden.stats.metrics import auc_interval, kendall, ranking_auc, rmse, sampled_auc, spearman
    from youden.stats.pair_model import fit_pair_model
    from youden.stats.ranks import rank_ranges
    from youden.stats.rasch import Rasch
    from youden.stats.trial_mean import TrialMean

_NAMES = {
    "ability_intervals": ("Intervals", "intervals"),
    "additive": ("Solution", "solve_additive", "solve_cells"),
    "additivity": ("rank_one_test", "residual_map"),
    "baselines": ("BASELINES",),
    "cells": ("Cells", "cells_of", "check_cells"),
    "clipped_linear": ("ClippedLinear",),
    "comparisons": ("compare_agents", "holm", "rank_sets"),
    "curl": ("curl_ecdf", "curl_quantiles"),
    "curl_bootstrap": ("median_differences",),
    "link_table": ("links_table",),
    "links": ("LINKS",),
    "metrics": ("auc_interval", "kendall", "ranking_auc", "rmse", "sampled_auc", "spearman"),
    "pair_model": ("fit_pair_model",),
    "ranks": ("rank_ranges",),
    "rasch": ("Rasch",),
    "trial_mean": ("TrialMean",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "BASELINES",
    "LINKS",
    "Cells",
    "ClippedLinear",
    "Intervals",
    "Rasch",
    "Solution",
    "TrialMean",
    "auc_interval",
    "cells_of",
    "check_cells",
    "compare_agents",
    "curl_ecdf",
    "curl_quantiles",
    "fit_pair_model",
    "holm",
    "intervals",
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
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found: object = getattr(import_module(f"youden.stats.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'youden.stats' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
