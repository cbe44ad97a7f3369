"""Evaluate the rows of a study at every seed, and summarize measures over seeds.

A study defines its rows and their measures. The loop over seeds is here; for a row that cannot be planned, it returns
the error instead of raising it, so that the other rows are still evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from youden.errors import PlanError, StatisticsError
from youden.protocol.plan import draw_split
from youden.run_keys import SplitRule
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.auc import ranking_auc
from youden.stats.base.metrics import kendall, rmse, spearman
from youden.stats.baselines import Baseline
from youden.study.known_groups import Contrast
from youden.study.replaying import RecordedAnswers
from youden.types import Progress, Scores
from youden.types.planning import Split
from youden.types.pool import Floats
from youden.types.results import ScoreKind

RowEvaluator = Callable[[Callable[[int], Sequence[float]]], Floats | PlanError]
"""Turns a function of the seed that returns measures into a float array (n_seeds, n_measures), or the error of a plan."""


@contextmanager
def open_grid(n_seeds: int, *, n_rows: int, what: str, progress: Progress | None) -> Iterator[RowEvaluator]:
    """Provide, as a context manager, a function that evaluates a row of a study at every seed and reports progress.

    The seeds are evaluated one after another, in this process.

    Parameters
    ----------
    n_seeds : int
        Number of seeds, at least 1. The seeds are 0 to n_seeds − 1.
    n_rows : int
        Number of rows that will be evaluated, for the progress bar.
    what : str
        Name of one evaluation, for the progress bar.
    progress : Progress or None
        Receiver of progress updates; None for no updates.

    Yields
    ------
    callable
        Takes a function of the seed that returns measures. Returns a float array (n_seeds, n_measures), or the first PlanError
        that the function raises. After a PlanError, the remaining seeds of the row are skipped, and are not reported as progress.

    Raises
    ------
    StatisticsError
        [study-seeds] if `n_seeds` is below 1.
    """
    if n_seeds < 1:
        raise StatisticsError(
            f"The number of seeds must be at least 1: got {n_seeds}. Set a larger number.", slug="study-seeds"
        )

    def evaluate_row(compute_measures: Callable[[int], Sequence[float]]) -> Floats | PlanError:
        """Compute the measures of one row of the study, such as a design, at each of the `n_seeds` seeds.

        compute_measures : function that takes a seed, 0 to n_seeds − 1, and returns the measures

        Returns a float array (n_seeds, n_measures). If the function raises a PlanError, because the row is impossible, this error
        is returned instead, so that the study can report it. The progress is advanced after each seed.
        """
        measures_by_seed = []
        for seed in range(n_seeds):
            try:
                measures = compute_measures(seed)
            except PlanError as error:
                return error
            measures_by_seed.append(measures)
            if progress is not None:
                progress.advance()
        return np.array(measures_by_seed, dtype=np.float64)

    if progress is not None:
        progress.start(n_seeds * n_rows, what=what)
    try:
        yield evaluate_row
    finally:
        if progress is not None:
            progress.stop()


@dataclass(frozen=True)
class SeedSummary:
    """Summary of a measure over seeds.

    Attributes
    ----------
    mean, sd : float, float or None
        Mean and standard deviation; the latter is None with one seed.
    low, high : float
        2.5% and 97.5% quantiles.
    n : int
        Number of seeds.
    """

    mean: float
    sd: float | None
    low: float
    high: float
    n: int

    @classmethod
    def from_values(cls, values: Floats) -> SeedSummary:
        """Summarize the values of a measure, float array (n_seeds,)."""
        low, high = np.quantile(values, [0.025, 0.975]).tolist()
        sd = float(values.std(ddof=1)) if len(values) > 1 else None
        return cls(float(values.mean()), sd, low, high, len(values))

    @classmethod
    def from_columns(cls, table: Floats) -> list[SeedSummary | None]:
        """Summarize each column of a float array (n_seeds, n_measures); None for a column with a NaN."""
        return [None if np.isnan(column).any() else cls.from_values(column) for column in table.T]


@dataclass(frozen=True, eq=False)
class Fold:
    """A random holdout of cells; a cell is the score of one agent on one item.

    Attributes
    ----------
    split : Split
        Training and held-out cells.
    train, held_out : float array (n_agents, n_items)
        Training scores, and dense scores of the held-out cells; NaN elsewhere.
    dense_ability : float array (n_agents,)
        Abilities fitted to all training scores.
    """

    split: Split
    train: Floats
    held_out: Floats
    dense_ability: Floats

    def evaluate(self, model: Baseline, scores: Scores | Floats, groups: Contrast | None) -> list[float]:
        """Fit a model to scores of training cells, and measure how well it predicts.

        The predictions are compared with the held-out scores, and the abilities with those of a fit to all training scores.

        Parameters
        ----------
        model : Baseline
            Estimator, which is fitted in place.
        scores : Scores or float array (n_agents, n_items)
            Scores of training cells, NaN if unobserved.
        groups : Contrast or None
            Groups of agents for the AUC.

        Returns
        -------
        list of float
            Four measures: RMSE on held-out cells; Spearman's ρ and Kendall's τ of its abilities with `dense_ability`;
            AUC of its abilities for `groups`, NaN without groups. Cells without a prediction and agents without an
            ability (NaN) are left out.

        Raises
        ------
        StatisticsError
            If the model cannot be fitted, or a measure cannot be computed from the cells or agents that remain.
        """
        predicted = model.fit(scores).predict()
        predictable_held_out = np.where(np.isnan(predicted), np.nan, self.held_out)

        ability = model.ability_
        auc = np.nan
        if groups is not None:
            in_groups = (groups.positive | groups.negative) & ~np.isnan(ability)
            auc = ranking_auc(ability[in_groups], groups.positive[in_groups])

        is_common = ~(np.isnan(ability) | np.isnan(self.dense_ability))
        common_ability = ability[is_common]
        dense_ability = self.dense_ability[is_common]
        return [
            rmse(predicted, predictable_held_out).value,
            spearman(common_ability, dense_ability).value,
            kendall(common_ability, dense_ability).value,
            auc,
        ]


def draw_folds(
    recorded: RecordedAnswers, n_seeds: int, *, rule: SplitRule, kind: ScoreKind, holdout: float
) -> list[Fold]:
    """Draw one random holdout of cells per seed, on which all estimators or designs of a study are compared.

    A cell is the score of one agent on one item.

    Parameters
    ----------
    recorded : RecordedAnswers
        Answers of a dense run, in which every two agents were compared on every item.
    n_seeds : int
        Number of folds. The seeds are 0 to n_seeds − 1.
    rule : {"strict", "paper"}
        Rule for trials that compare an agent whose cell is held out with an agent whose cell is not. "strict" leaves them
        out of all training scores; "paper" uses them in the score of the agent whose cell is not held out.
    kind : {"symmetric", "row"}
        Kind of the scores: the mean of an agent's trials in both orders of the responses ("symmetric"), or of those that
        show its response first ("row").
    holdout : float
        Fraction of cells that are held out, above 0 and below 1.

    Returns
    -------
    list of Fold
        By seed: the split, its training and held-out scores, and the abilities of a fit to all training cells; NaN for
        an agent without a training cell.

    Raises
    ------
    PlanError
        [holdout] unless 0 ≤ `holdout` < 1, or if no score is held out.
    """
    folds = []
    for seed in range(n_seeds):
        split = draw_split(recorded.pool.present, fraction=holdout, rule=rule, seed=seed)
        split_rates = replace(recorded.rates, split=split)
        training_scores = split_rates.training_scores(kind=kind).value
        held_out_scores = split_rates.holdout_scores(kind=kind).value
        if np.isnan(held_out_scores).all():
            raise PlanError(
                f"No score is held out: got the holdout {holdout:g}. Set a larger fraction.", slug="holdout"
            )

        # reference abilities, from all training cells
        dense_fit = ClippedLinear(constraint="clip").fit(training_scores)
        folds.append(Fold(split, training_scores, held_out_scores, dense_fit.ability_))
    return folds
