"""One grid for the studies: every plan is drawn at every seed, answered from a run, and told in figures.

A study says what a row draws and which figures it has; here the seeds are walked, and a row that cannot be drawn says why.
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
from youden.stats.base.metrics import kendall, ranking_auc, rmse, spearman
from youden.stats.baselines import Baseline
from youden.study.known_groups import Contrast
from youden.study.replaying import World
from youden.types import Progress, Scores
from youden.types.planning import Split
from youden.types.pool import Floats
from youden.types.results import ScoreKind

Drawn = Callable[[Callable[[int], Sequence[float]]], Floats | PlanError]
"""From a row's figures at one seed to those at all of them, float[seeds, figures], or why it cannot be drawn."""


@contextmanager
def grid(n_seeds: int, *, n_rows: int, what: str, progress: Progress | None) -> Iterator[Drawn]:
    """Draws rows over `n_seeds`, told to `progress` as so many of `what`. Raises: StatisticsError [study-seeds]."""
    if n_seeds < 1:
        raise StatisticsError(f"{n_seeds} seeds were asked for. Give at least 1.", slug="study-seeds")

    def drawn(figures: Callable[[int], Sequence[float]]) -> Floats | PlanError:
        found = []
        for seed in range(n_seeds):
            try:
                found.append(figures(seed))
            except PlanError as error:
                return error
            if progress is not None:
                progress.advance()
        return np.array(found, dtype=np.float64)

    if progress is not None:
        progress.start(n_seeds * n_rows, what=what)
    yield drawn
    if progress is not None:
        progress.stop()


@dataclass(frozen=True)
class Spread:
    """Mean and SD (None with one seed) over `n` seeds, and the central 95 % of them."""

    mean: float
    sd: float | None
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: Floats) -> Spread:
        low, high = np.quantile(values, [0.025, 0.975]).tolist()
        sd = float(values.std(ddof=1)) if len(values) > 1 else None
        return cls(float(values.mean()), sd, low, high, len(values))

    @classmethod
    def of_each(cls, table: Floats) -> list[Spread | None]:
        """Of each column of float[seeds, figures]; None where it has a NaN."""
        return [None if np.isnan(column).any() else cls.of(column) for column in table.T]


@dataclass(frozen=True, eq=False)
class Fold:
    """One seed: a split, its training scores, the dense scores of its holdout, and the dense training fit's abilities."""

    split: Split
    train: Floats
    held: Floats
    dense: Floats

    def kept_by(self, model: Baseline, scores: Scores | Floats, groups: Contrast | None) -> list[float]:
        """By `model`, fitted to `scores` of the training cells. groups: what AUC tells apart."""
        predicted = model.fit(scores).predict()
        theta = model.ability_
        both = ~(np.isnan(theta) | np.isnan(self.dense))
        either = None if groups is None else (groups.positive | groups.negative) & ~np.isnan(theta)
        return [
            rmse(predicted, np.where(np.isnan(predicted), np.nan, self.held)).value,
            spearman(theta[both], self.dense[both]).value,
            kendall(theta[both], self.dense[both]).value,
            np.nan if groups is None or either is None else ranking_auc(theta[either], groups.positive[either]),
        ]


def draw_folds(world: World, n_seeds: int, *, rule: SplitRule, kind: ScoreKind, holdout: float) -> list[Fold]:
    """The fold of each seed, so that all rows share them. Raises: PlanError [holdout]."""
    folds = []
    for seed in range(n_seeds):
        split = draw_split(world.pool.present, fraction=holdout, rule=rule, seed=seed)
        rates = replace(world.rates, split=split)
        train, held = rates.training_scores(kind=kind).value, rates.holdout_scores(kind=kind).value
        folds.append(Fold(split, train, held, ClippedLinear(constraint="clip").fit(train).ability_))
    return folds
