"""The additive model against others at one coverage, fair and paper settings side by side: the paper's Table 5 over seeds.

Two doubts are told apart. Over items: would other items of this kind give the same order? Over seeds: would other holdouts and
cells of these items? Seeds repeat the same items, so however many they are, they cannot answer the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import hypot
from typing import Literal

import numpy as np
from scipy.special import ndtri

from youden.errors import StatisticsError
from youden.nouns import Json, Progress, ScoreKind, SplitRule
from youden.nouns.pool import Bools, Floats
from youden.protocol.designs.cell_designs import NLogN
from youden.protocol.designs.repair import StarvedError
from youden.stats.base.metrics import kendall, ranking_auc, rmse, spearman
from youden.stats.baselines import BASELINES
from youden.streams import own_stream, stream
from youden.study.known_groups import Contrast
from youden.study.replay import World
from youden.study.sparsity import Spread, draw_fold

_FIELDS = ("rmse", "rho", "tau", "auc")
N_RESAMPLES = 1000
LEVEL = 0.95
Order = Literal["better", "worse", "open"]


@dataclass(frozen=True)
class BaselineRow:
    """One estimator over seeds: RMSE on held-out cells, rank correlations to the dense training fit of clipped-linear, AUC.

    behind: its RMSE less clipped-linear's on the same split and cells, over seeds. se_items: standard error of its mean over
    items of this kind, from resampled items; se_seeds: over other holdouts and cells of the same items, None with one seed.
    order: against clipped-linear, `open` where the mean is within what both errors leave at 95 % over all rows.
    """

    name: str
    rmse: Spread
    rho: Spread
    tau: Spread
    auc: Spread | None
    behind: Spread
    se_items: float
    se_seeds: float | None
    order: Order


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

    Items are resampled with the fits as they are: models are not fitted again.

    Raises: StatisticsError [baselines-seeds]; ConfigError [unknown-baseline]; PlanError [d-core], [holdout].
    """
    if n_seeds < 1:
        raise StatisticsError(f"{n_seeds} seeds were asked for. Give at least 1.", slug="baselines-seeds")
    tried = list(dict.fromkeys(["clipped-linear", *(names or BASELINES)]))
    makers = {name: BASELINES.load(name) for name in tried}
    figures = np.full((n_seeds, len(tried), len(_FIELDS)), np.nan)
    covered = np.empty(n_seeds)
    squares, counts = np.empty((2, n_seeds, len(tried), world.pool.n_items))
    if progress is not None:
        progress.start(n_seeds * len(tried), what="fits")
    for seed in range(n_seeds):
        fold = draw_fold(world, rule=rule, kind=kind, holdout=holdout, seed=seed)
        chosen = _chosen(world, fold.split.train, c=c, seed=seed)
        covered[seed] = chosen.sum() / world.pool.present.sum()
        train = np.where(chosen, fold.train, np.nan)
        for place, make in enumerate(makers.values()):
            model = make().fit(train)
            theta = model.ability_
            predicted = model.predict()
            held = np.where(np.isnan(predicted), np.nan, fold.held)
            squares[seed, place] = np.nansum((predicted - held) ** 2, axis=0)
            counts[seed, place] = (~np.isnan(held)).sum(axis=0)
            figures[seed, place, :3] = (
                rmse(predicted, held).value,
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
    behind = figures[:, :, 0] - figures[:, :1, 0]
    se_items = _error_over_items(squares, counts)
    reach = float(ndtri(1 - (1 - LEVEL) / 2 / max(len(tried) - 1, 1)))
    rows = [
        _row(name, figures[:, place], behind[:, place], se_items=float(se_items[place]), reach=reach)
        for place, name in enumerate(tried)
    ]
    return BaselinesStudy(rule, kind, Spread.of(covered), tuple(rows))


def _chosen(world: World, train: Bools, *, c: float, seed: int) -> Bools:
    try:
        return NLogN(c=c).choose(train, stream("trials", seed))
    except StarvedError as error:
        named = world.pool.agents if error.side == "agent" else world.pool.items
        raise error.named(named[error.position].id) from error


def _error_over_items(squares: Floats, counts: Floats) -> Floats:
    """SE of the mean over seeds of each model's RMSE less the first one's, items resampled: float[models].

    squares: float[seeds, models, J], sums of squared errors of an item's held-out cells; counts: how many they are.
    """
    n_items = counts.shape[2]
    drawn = own_stream(0).multinomial(n_items, np.full(n_items, 1 / n_items), size=N_RESAMPLES).astype(np.float64)
    rmse_ = np.sqrt((squares @ drawn.T) / np.maximum(counts @ drawn.T, 1)).mean(axis=0)
    return np.asarray((rmse_ - rmse_[0]).std(axis=1, ddof=1))


def _row(name: str, figures: Floats, behind: Floats, *, se_items: float, reach: float) -> BaselineRow:
    rmse_, rho, tau, auc = figures.T
    se_seeds = float(behind.std(ddof=1)) / len(behind) ** 0.5 if len(behind) > 1 else None
    mean = float(behind.mean())
    carried = abs(mean) > reach * hypot(se_items, se_seeds or 0.0)
    return BaselineRow(
        name,
        Spread.of(rmse_),
        Spread.of(rho),
        Spread.of(tau),
        None if np.isnan(auc).any() else Spread.of(auc),
        Spread.of(behind),
        se_items,
        se_seeds,
        "open" if not carried else "better" if mean < 0 else "worse",
    )


def baselines_words(study: BaselinesStudy) -> tuple[str, ...]:
    """Who is ahead of clipped-linear, and what the differences are certain about: other items, and other holdouts or not."""
    n = study.coverage.n
    said = [f"Rule `{study.rule}`, {study.coverage.mean:.1%} of all cells, paired over {n} seed{'s' if n > 1 else ''}."]
    where = "On this one holdout " if n == 1 else ""
    kinds: dict[Order, str] = {
        "better": f"{where}better than clipped-linear",
        "worse": f"{where}worse than clipped-linear",
        "open": "no order supported against clipped-linear",
    }
    for order, words in kinds.items():
        found = ", ".join(
            f"{row.name} ({row.behind.mean:+.4f} ± {row.se_items:.4f})" for row in study.rows[1:] if row.order == order
        )
        if found:
            said.append(f"{words[0].upper()}{words[1:]}: {found}.")
    said.append(
        "In brackets: RMSE less clipped-linear's, and its standard error over items of this kind, from resampled items. "
        + (
            "One seed is one holdout and one draw of cells: nothing is claimed of others. Give --seeds 10."
            if n == 1
            else f"An order is claimed beyond that error and the one over seeds together, at {LEVEL:.0%} over all models."
        )
    )
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
