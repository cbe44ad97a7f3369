"""Everything a report reads of a run, opened once: answers where it was judged, rates, scores, the fit, texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.errors import StatisticsError, YoudenError
from youden.nouns import IndependentRule, Pairs, Pool, Rates, Scores, Split, Target, Verdicts
from youden.nouns.pool import Bools, Floats, Positions
from youden.protocol.scores import holdout_scores, tally, train_scores
from youden.report.data.answers import Predictions, TrialSource, trials_in_memory, trials_on_disk
from youden.run.ranking import Learned, learn
from youden.run.standings import paired_answers
from youden.stats.robust.linked_agents import PairMeans, pair_means


@dataclass(frozen=True, eq=False)
class Told:
    """apart: bool[K, K], which two agents are told apart; known: bool[K], of whom anything says how it compares."""

    apart: Bools
    known: Bools

    @classmethod
    def of(cls, above: Floats) -> Told:
        """above: float[K, K], as in `Pairs`."""
        return cls(np.asarray((above == 1) | (above.T == 1)), np.asarray((~np.isnan(above)).any(axis=1)))


@dataclass(frozen=True, eq=False)
class Evidence:
    """A run as nouns.

    agreement: float[K, K], as in `Pairs`; pairs: None where no two agents met; partners_seen: as the function of that name.
    trials: None for an imported run. predicted: the fit's predictions; told: who is told from whom; both None where nothing
    could be fitted. holdout: None where nothing was held out.
    """

    folder: RunFolder
    pool: PoolSummary
    agent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    independent: IndependentRule
    agreement: Floats
    pairs: PairMeans | None
    partners_seen: float | None
    scores: Scores
    predicted: Predictions | None
    holdout: Scores | None
    trials: TrialSource | None
    told: Told | None


@dataclass(frozen=True, eq=False)
class Texts:
    """The pool behind a run, or None and why it cannot be shown."""

    pool: Pool | None
    why_not: str | None = None


def gather(folder: RunFolder, *, learned: Learned | None = None) -> Evidence:
    """The nouns of a fitted run: as its fit wrote them, where that was one of a run too large for arrays; else made from its
    answers as `youden fit` makes them, or as they were `learned`.

    Raises: RunFolderError.
    """
    if learned is None:
        if folder.has("pairs.parquet") and (written := folder.read_pairs()):
            return _written(folder, written)
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
            return _made(folder, rates, split, result, scores=scores, holdout=held)
    return _made(
        folder,
        learned.rates,
        learned.split,
        learned.result,
        scores=learned.scores,
        holdout=learned.holdout,
        predicted=Predictions(learned.model.ability_, learned.model.difficulty_),
        told=Told(learned.apart.apart, np.asarray((~np.isnan(learned.apart.error)).any(axis=1))),
    )


def _made(
    folder: RunFolder,
    rates: Rates,
    split: Split | None,
    result: Verdicts | None,
    *,
    scores: Scores,
    holdout: Scores | None,
    predicted: Predictions | None = None,
    told: Told | None = None,
) -> Evidence:
    of = paired_answers(rates, split)
    try:
        pairs = pair_means(of.first, of.second, of.item, of.value, weight=of.weight, n_agents=rates.n_agents)
    except StatisticsError:
        pairs = None
    return Evidence(
        folder=folder,
        pool=folder.read_pool(),
        agent_ids=rates.agent_ids,
        item_ids=rates.item_ids,
        independent=rates.independent,
        agreement=agreement_of(rates),
        pairs=pairs,
        partners_seen=partners_seen(rates),
        scores=scores,
        predicted=predicted,
        holdout=holdout,
        trials=None if result is None else trials_in_memory(result),
        told=told,
    )


def _written(folder: RunFolder, pairs: Pairs) -> Evidence:
    trials = trials_on_disk(folder)
    difficulty = [np.nan if row.difficulty is None else row.difficulty for row in folder.read_items()]
    return Evidence(
        folder=folder,
        pool=folder.read_pool(),
        agent_ids=trials.plan.agent_ids,
        item_ids=trials.plan.item_ids,
        independent=trials.plan.independent,
        agreement=pairs.agreement,
        pairs=PairMeans(pairs.mean, pairs.error, pairs.n) if pairs.n.any() else None,
        partners_seen=pairs.partners_seen,
        scores=folder.read_scores("symmetric"),
        predicted=Predictions(pairs.ability, np.array(difficulty)),
        holdout=folder.read_holdout() if folder.has("holdout.csv") else None,
        trials=trials,
        told=Told.of(pairs.above),
    )


def agreement_of(rates: Rates) -> Floats:
    """Mean TPR of ordered pairs over items, less the pair's own FPR where it has one: float[K, K], NaN where never asked."""
    difference = rates.tpr - rates.fpr if rates.independent == "twin" else rates.tpr
    seen = ~np.isnan(difference)
    place = rates.first[seen].astype(np.int64) * rates.n_agents + rates.second[seen]
    size = rates.n_agents**2
    n = np.bincount(place, minlength=size)
    total = np.bincount(place, weights=difference[seen], minlength=size).astype(np.float64)
    mean: Floats = np.divide(total, n, out=np.full(size, np.nan), where=n > 0)
    return mean.reshape(rates.n_agents, rates.n_agents)


def partners_seen(rates: Rates) -> float | None:
    """Share of its possible partners with which a compared cell was compared, on average; None where nothing was."""
    seen = ~np.isnan(rates.tpr)
    item, one, two = (column[seen].astype(np.int64) for column in (rates.item, rates.first, rates.second))
    if not len(item) or rates.n_agents < 2:
        return None
    K = np.int64(rates.n_agents)
    n_pairs = _n_distinct((item * K + np.minimum(one, two)) * K + np.maximum(one, two))
    n_cells = _n_distinct(np.concatenate([item * K + one, item * K + two]))
    return 2 * n_pairs / (n_cells * (rates.n_agents - 1))


def _n_distinct(keys: Positions) -> int:
    # By sorting: np.unique hashes, which takes ten times as long.
    return 1 + int(np.count_nonzero(np.diff(np.sort(keys))))


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
