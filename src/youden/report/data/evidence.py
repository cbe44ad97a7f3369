"""Everything a report reads of a run, opened once: answers where it was judged, rates, scores, the fit, texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.errors import YoudenError
from youden.report.data.answer_blocks import Predictions, TrialSource, trials_on_disk
from youden.stats.partners import PairMeans
from youden.types import Pool, Scores, Verdicts
from youden.types.pool import Bools, Floats


@dataclass(frozen=True, eq=False)
class ToldApart:
    """apart: bool[K, K], which two agents are told apart; known: bool[K], of whom anything says how it compares."""

    apart: Bools
    known: Bools

    @classmethod
    def of(cls, above: Floats) -> ToldApart:
        """above: float[K, K], as in `Pairs`."""
        return cls(np.asarray((above == 1) | (above.T == 1)), np.asarray((~np.isnan(above)).any(axis=1)))


@dataclass(frozen=True, eq=False)
class Evidence:
    """A run as nouns.

    agreement, own_rates, partners_seen: as in `Pairs`; pairs: None where no two agents met. predicted: the fit's predictions;
    told: who is told from whom. trials: None for an imported run. holdout: None where nothing was held out.
    """

    folder: RunFolder
    pool: PoolSummary
    agent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    own_rates: bool
    agreement: Floats
    pairs: PairMeans | None
    partners_seen: float | None
    scores: Scores
    predicted: Predictions
    holdout: Scores | None
    trials: TrialSource | None
    told: ToldApart


@dataclass(frozen=True, eq=False)
class ReportTexts:
    """The pool behind a run, or None and why it cannot be shown."""

    pool: Pool | None
    why_not: str | None = None


def gather(folder: RunFolder) -> Evidence:
    """The nouns of a fitted run, as its fit wrote them: nothing is estimated again. Raises: RunFolderError."""
    trials = trials_on_disk(folder) if folder.has("plan.parquet") else None
    pairs, scores = folder.read_pairs(), folder.read_scores("symmetric")
    difficulty = [np.nan if row.difficulty is None else row.difficulty for row in folder.read_items()]
    return Evidence(
        folder=folder,
        pool=folder.read_pool(),
        agent_ids=scores.agent_ids,
        item_ids=scores.item_ids,
        own_rates=pairs.own_rates,
        agreement=pairs.agreement,
        pairs=PairMeans(pairs.mean, pairs.error, pairs.n) if pairs.n.any() else None,
        partners_seen=pairs.partners_seen,
        scores=scores,
        predicted=Predictions(pairs.ability, np.array(difficulty)),
        holdout=folder.read_holdout() if folder.has("holdout.csv") else None,
        trials=trials,
        told=ToldApart.of(pairs.above),
    )


def read_result(folder: RunFolder) -> Verdicts | None:
    """The answers of a judged run, None for an imported one. Raises: RunFolderError."""
    return folder.read_verdicts(folder.read_plan()) if folder.has("plan.parquet") else None


def open_texts(folder: RunFolder) -> ReportTexts:
    """The responses a run was judged on, where they are still there and still the same."""
    if not folder.has("config.yaml"):
        return ReportTexts(None, "This run was imported without texts.")
    try:
        pool = folder.run_pool()
    except YoudenError as error:
        return ReportTexts(None, f"The pool cannot be read: {error}")
    if pool.digest != folder.read_pool().digest:
        return ReportTexts(
            None, "The pool has changed since the run was planned, so its texts are not those that were judged."
        )
    return ReportTexts(pool)
