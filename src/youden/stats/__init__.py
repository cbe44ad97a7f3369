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
    from youden.stats.additive.observed_cells import Cells, cells_of, check_cells
    from youden.stats.additive.rasch import Rasch
    from youden.stats.additive.solver import solve_additive, solve_cells
    from youden.stats.base.clusters import CentredCovariance, PairBlock
    from youden.stats.base.links import LINKS
    from youden.stats.base.metrics import auc_interval, kendall, ranking_auc, rmse, sampled_auc, spearman
    from youden.stats.baselines import BASELINES
    from youden.stats.curl.link_table import links_table
    from youden.stats.curl.quantiles import curl_ecdf, curl_quantiles, median_differences
    from youden.stats.trials.comparisons import differences, holm
    from youden.stats.trials.trial_errors import trial_means

_HOMES = {
    "solve_additive": "youden.stats.additive.solver",
    "solve_cells": "youden.stats.additive.solver",
    "BASELINES": "youden.stats.baselines",
    "Cells": "youden.stats.additive.observed_cells",
    "cells_of": "youden.stats.additive.observed_cells",
    "check_cells": "youden.stats.additive.observed_cells",
    "CentredCovariance": "youden.stats.base.clusters",
    "differences": "youden.stats.trials.comparisons",
    "holm": "youden.stats.trials.comparisons",
    "curl_ecdf": "youden.stats.curl.quantiles",
    "curl_quantiles": "youden.stats.curl.quantiles",
    "median_differences": "youden.stats.curl.quantiles",
    "links_table": "youden.stats.curl.link_table",
    "LINKS": "youden.stats.base.links",
    "auc_interval": "youden.stats.base.metrics",
    "kendall": "youden.stats.base.metrics",
    "ranking_auc": "youden.stats.base.metrics",
    "rmse": "youden.stats.base.metrics",
    "sampled_auc": "youden.stats.base.metrics",
    "spearman": "youden.stats.base.metrics",
    "Rasch": "youden.stats.additive.rasch",
    "PairBlock": "youden.stats.base.clusters",
    "trial_means": "youden.stats.trials.trial_errors",
}

__all__ = [
    "BASELINES",
    "LINKS",
    "Cells",
    "CentredCovariance",
    "PairBlock",
    "Rasch",
    "auc_interval",
    "cells_of",
    "check_cells",
    "curl_ecdf",
    "curl_quantiles",
    "differences",
    "holm",
    "kendall",
    "links_table",
    "median_differences",
    "ranking_auc",
    "rmse",
    "sampled_auc",
    "solve_additive",
    "solve_cells",
    "spearman",
    "trial_means",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found: object = getattr(import_module(_HOMES[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'youden.stats' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
