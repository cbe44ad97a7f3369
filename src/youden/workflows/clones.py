"""Fit a run after its pool was judged for the first time or has changed, with the clones among its agents."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from youden.data.folder.run_folder import RunFolder
from youden.errors import YoudenError
from youden.pipeline.fitted_run import RunFit, fit_run
from youden.types import Pool
from youden.types.facts import PartnerRules


def fit_with_clones(folder: RunFolder, pool: Pool) -> RunFit:
    """Find agents with nearly identical texts in the pool of a judged run, and fit the run with them as clones.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run. The clones are stored in its config.
    pool : Pool
        Pool of the run.

    Returns
    -------
    FitResult or PreferenceResult
        Result of `fit_run`, which also raises its errors.
    """
    from youden.pools.checks.likeness import find_clone_clusters

    clones = find_clone_clusters(pool)
    return fit_run(folder, rules=replace(folder.fit_settings.rules, clones=clones))


def add_clones(rules: PartnerRules, folder: RunFolder) -> PartnerRules:
    """Add the clones in the pool of a run to its rules if the run was never fitted, and its pool can be read."""
    is_first_fit = folder.has("plan.parquet") and not folder.has("fit.json")
    if is_first_fit:
        from youden.pools.checks.likeness import find_clone_clusters

        with suppress(YoudenError):
            return replace(rules, clones=find_clone_clusters(folder.read_plan().pool))
    return rules
