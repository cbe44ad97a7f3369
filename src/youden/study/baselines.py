"""The additive model against others at one coverage, fair and paper settings side by side: the paper's Table 5 over seeds.

An order of means that the seeds do not carry is not called a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from youden.errors import StatisticsError
from youden.nouns import Json, Progress, ScoreKind, SplitRule
from youden.nouns.arrays import Floats
from youden.protocol.designs.nlogn import NLogN
from youden.stats.base.metrics import kendall, ranking_auc, rmse, spearman
from youden.stats.baselines import BASELINES
from youden.streams import stream
from youden.study.contrast import Contrast
from youden.study.replay import World
from youden.study.sparsity.curves import Spread, draw_fold

_FIELDS = ("rmse", "rho", "tau", "auc")


@dataclass(frozen=True)
class BaselineRow:
    """One estimator over seeds: RMSE on held-out cells, rank correlations to the dense training fit of clipped-linear, AUC.

    behind: its RMSE less clipped-linear's on the same split and cells, over seeds.
    """

    name: str
    rmse: Spread
    rho: Spread
    tau: Spread
    auc: Spread | None
    behind: Spread


@dataclass(frozen=True)
class BaselinesStudy:
    """Rows in the registry's order. coverage: share of all cells that every estimator saw."""

    rule: SplitRule
    kind: ScoreKind
    coverage: Spread
    rows: tuple[BaselineRow, ...]


def study_baselines(
    world: World,
    *,
    names: Sequence[str] | None = None,
    n_seeds: int = 10,
    rule: SplitRule = "shared",
    kind: ScoreKind = "row",
    c: float = 1.6,
    holdout: float = 0.2,
    groups: Contrast | None = None,
    progress: Progress | None = None,
) -> BaselinesStudy:
    """Every named baseline (all that are registered if None) on the same `n_seeds` splits and n log n cells of `world`.

    Raises: StatisticsError [baselines-seeds]; ConfigError [unknown-baseline]; PlanError [d-core], [holdout].
    """
    if n_seeds < 1:
        raise StatisticsError(f"{n_seeds} seeds were asked for. Give at least 1.", slug="baselines-seeds")
    tried = list(dict.fromkeys(["clipped-linear", *(names or BASELINES)]))
    makers = {name: BASELINES.load(name) for name in tried}
    figures = np.full((n_seeds, len(tried), len(_FIELDS)), np.nan)
    covered = np.empty(n_seeds)
    if progress is not None:
        progress.start(n_seeds * len(tried), what="fits")
    for seed in range(n_seeds):
        fold = draw_fold(world, rule=rule, kind=kind, holdout=holdout, seed=seed)
        chosen = NLogN(c=c).choose(fold.split.train, stream("trials", seed))
        covered[seed] = chosen.sum() / world.pool.present.sum()
        train = np.where(chosen, fold.train, np.nan)
        for place, make in enumerate(makers.values()):
            model = make().fit(train)
            theta = model.ability_
            predicted = model.predict()
            figures[seed, place, :3] = (
                rmse(predicted, np.where(np.isnan(predicted), np.nan, fold.held)).value,
                spearman(theta, fold.dense).value,
                kendall(theta, fold.dense).value,
            )
            if groups is not None:
                either = groups.positive | groups.negative
                figures[seed, place, 3] = ranking_auc(theta[either], groups.positive[either])
            if progress is not None:
                progress.advance()
    if progress is not None:
        progress.stop()
    rows = [_row(name, figures[:, place], figures[:, 0, 0]) for place, name in enumerate(tried)]
    return BaselinesStudy(rule, kind, Spread.of(covered), tuple(rows))


def _row(name: str, figures: Floats, clipped: Floats) -> BaselineRow:
    rmse_, rho, tau, auc = figures.T
    return BaselineRow(
        name,
        Spread.of(rmse_),
        Spread.of(rho),
        Spread.of(tau),
        None if np.isnan(auc).any() else Spread.of(auc),
        Spread.of(rmse_ - clipped),
    )


def baselines_words(study: BaselinesStudy) -> tuple[str, ...]:
    """Who is ahead of clipped-linear, and which of the differences the seeds carry (2 SDs of the paired differences)."""
    better: list[str] = []
    worse: list[str] = []
    tied: list[str] = []
    for row in study.rows[1:]:
        sd = row.behind.sd or 0.0
        side = tied if abs(row.behind.mean) <= 2 * sd else better if row.behind.mean < 0 else worse
        side.append(row.name)
    said = [f"Rule `{study.rule}`, {study.coverage.mean:.1%} of all cells, paired over {study.coverage.n} seeds."]
    said += [
        f"{words}: {', '.join(names)}."
        for words, names in (
            ("Better than clipped-linear beyond 2 SDs", better),
            ("Worse beyond 2 SDs", worse),
            ("No order supported against clipped-linear", tied),
        )
        if names
    ]
    return tuple(said)


def baselines_json(study: BaselinesStudy) -> dict[str, Json]:
    """The `baselines` object of `youden study baselines --json`."""
    return {
        "rule": study.rule,
        "scores": study.kind,
        "coverage": asdict(study.coverage),
        "rows": [asdict(row) for row in study.rows],
        "words": list(baselines_words(study)),
    }
