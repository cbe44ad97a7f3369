"""Everything a report reads of a run, opened once: answers where it was judged, rates, scores, the fit, texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.data.folder.run_folder import PoolSummary, RunFolder
from youden.errors import YoudenError
from youden.nouns import Pool, Rates, Scores, Target, Verdicts
from youden.nouns.arrays import Floats, Ids, Positions
from youden.protocol.rates import tally
from youden.protocol.scores import holdout_scores, train_scores
from youden.run.learning import Learned, learn
from youden.stats.trials.places import Differences


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the fit predicts, cell by cell where it is asked for. ability: float[K]; difficulty: float[J]."""

    ability: Floats
    difficulty: Floats

    def at(self, agent: Ids | Positions | int, item: Ids | Positions | int | slice) -> Floats:
        """clip(θ_i − b_j, −1, 1) of cells by position; NaN for agents and items never seen."""
        return np.clip(self.ability[agent] - self.difficulty[item], -1, 1)


@dataclass(frozen=True, eq=False)
class Evidence:
    """A run as nouns.

    result: None for an imported run. predicted: the fit's predictions; apart: who is told from whom; both None where nothing
    could be fitted. holdout: None where nothing was held out.
    """

    folder: RunFolder
    pool: PoolSummary
    rates: Rates
    scores: Scores
    predicted: Predictions | None
    holdout: Scores | None
    result: Verdicts | None
    apart: Differences | None


@dataclass(frozen=True, eq=False)
class Texts:
    """The pool behind a run, or None and why it cannot be shown."""

    pool: Pool | None
    why_not: str | None = None


def gather(folder: RunFolder, *, learned: Learned | None = None) -> Evidence:
    """The nouns of a fitted run, made from its answers as `youden fit` makes them, or as they were `learned`.

    Raises: RunFolderError.
    """
    if learned is None:
        split, result = None, read_result(folder)
        if result is None:
            rates = folder.read_rates()
        else:
            rates, split = tally(result), result.plan.split
        try:
            learned = learn(rates, split=split, result=result, target=_target(folder))
        except YoudenError:
            scores = train_scores(rates, split)
            held = holdout_scores(rates, split) if split is not None and split.n_holdout else None
            return Evidence(folder, folder.read_pool(), rates, scores, None, held, result, None)
    return Evidence(
        folder=folder,
        pool=folder.read_pool(),
        rates=learned.rates,
        scores=learned.scores,
        predicted=Predictions(learned.model.ability_, learned.model.difficulty_),
        holdout=learned.holdout,
        result=learned.result,
        apart=learned.apart,
    )


def read_result(folder: RunFolder) -> Verdicts | None:
    """The answers of a judged run, None for an imported one. Raises: RunFolderError."""
    return folder.read_verdicts(folder.read_plan()) if folder.has("plan.parquet") else None


def _target(folder: RunFolder) -> Target:
    return (folder.read_facts().target if folder.has("fit.json") else None) or "items-like-these"


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
