"""Everything a report reads of a run, opened once: answers where it was judged, rates, scores, the fit, texts."""

from __future__ import annotations

from dataclasses import dataclass

from youden.data.folder.run_folder import PoolSummary, RunFolder
from youden.errors import YoudenError
from youden.nouns import Pool, Rates, Scores, Verdicts
from youden.nouns.arrays import Floats
from youden.protocol.rates import tally
from youden.protocol.scores import holdout_scores, train_scores
from youden.stats.additive.clipped_linear import ClippedLinear


@dataclass(frozen=True, eq=False)
class Evidence:
    """A run as nouns.

    result: None for an imported run. predicted: float[K, J], the fit's predictions, NaN where it can give none; None where
    nothing could be fitted. holdout: None where nothing was held out.
    """

    folder: RunFolder
    pool: PoolSummary
    rates: Rates
    scores: Scores
    predicted: Floats | None
    holdout: Scores | None
    result: Verdicts | None


@dataclass(frozen=True, eq=False)
class Texts:
    """The pool behind a run, or None and why it cannot be shown."""

    pool: Pool | None
    why_not: str | None = None


def gather(folder: RunFolder) -> Evidence:
    """The nouns of a fitted run, made from its answers as `youden fit` makes them. Raises: RunFolderError."""
    if folder.has("plan.parquet"):
        plan = folder.read_plan()
        result = folder.read_verdicts(plan)
        rates, split = tally(result), plan.split
    else:
        result, split, rates = None, None, folder.read_rates()
    scores = train_scores(rates, split)
    try:
        predicted = ClippedLinear().fit(scores).predict()
    except YoudenError:
        predicted = None
    held = holdout_scores(rates, split) if split is not None and split.n_holdout else None
    return Evidence(folder, folder.read_pool(), rates, scores, predicted, held, result)


def open_texts(folder: RunFolder) -> Texts:
    """The responses a run was judged on, where they are still there and still the same."""
    if not folder.has("config.yaml"):
        return Texts(None, "This run was imported without texts.")
    try:
        pool = folder.run_pool()
    except YoudenError as error:
        return Texts(None, f"The pool cannot be read: {error}")
    if pool.digest != folder.read_pool().digest:
        return Texts(
            None, "The pool has changed since the run was planned, so its texts are not those that were judged."
        )
    return Texts(pool)
