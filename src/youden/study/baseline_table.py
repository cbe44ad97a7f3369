"""The additive model against others at one coverage, fair and paper settings side by side: the paper's Table 5 over seeds.

Two doubts are told apart. Over items: would other items of this kind give the same order? Over seeds: would other holdouts and
cells of these items? Seeds repeat the same items, so however many they are, they cannot answer the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Literal

import numpy as np
from scipy.special import ndtri

from youden.errors import PlanError
from youden.protocol.designs.cell_designs import NLogN
from youden.protocol.designs.repair import StarvedError
from youden.run_keys import SplitRule
from youden.stats.baselines import BASELINES, Baseline
from youden.streams import own_stream, stream
from youden.study.grid import Spread, draw_folds, grid
from youden.study.known_groups import Contrast
from youden.study.replaying import World
from youden.types import Progress
from youden.types.pool import Bools, Floats, Json, plain_fields
from youden.types.results import ScoreKind

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

    Raises: StatisticsError [study-seeds]; ConfigError [unknown-baseline]; PlanError [d-core], [holdout].
    """
    tried = list(dict.fromkeys(["clipped-linear", *(names or BASELINES)]))
    makers = {name: BASELINES.load(name) for name in tried}
    folds = draw_folds(world, n_seeds, rule=rule, kind=kind, holdout=holdout)
    chosen = [_chosen(world, fold.split.train, c=c, seed=seed) for seed, fold in enumerate(folds)]
    tables = []
    with grid(n_seeds, n_rows=len(tried), what="fits", progress=progress) as drawn:
        for make in makers.values():

            def figures(seed: int, make: Callable[[], Baseline] = make) -> list[float]:
                fold, model = folds[seed], make()
                kept = fold.kept_by(model, np.where(chosen[seed], fold.train, np.nan), groups)
                error = (model.predict() - fold.held) ** 2
                return [*kept, *np.nansum(error, axis=0).tolist(), *(~np.isnan(error)).sum(axis=0).tolist()]

            found = drawn(figures)
            if isinstance(found, PlanError):
                raise found
            tables.append(found)
    kept = np.stack([table[:, :4] for table in tables], axis=1)
    squares, counts = np.stack([table[:, 4:].reshape(n_seeds, 2, -1) for table in tables], axis=2).swapaxes(0, 1)
    behind = kept[:, :, 0] - kept[:, :1, 0]
    se_items = _error_over_items(np.ascontiguousarray(squares), np.ascontiguousarray(counts))
    reach = float(ndtri(1 - (1 - LEVEL) / 2 / max(len(tried) - 1, 1)))
    rows = [
        _row(name, kept[:, place], behind[:, place], se_items=float(se_items[place]), reach=reach)
        for place, name in enumerate(tried)
    ]
    covered = np.array([cells.sum() / world.pool.present.sum() for cells in chosen])
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
    facts = plain_fields(study)
    return {"scores": facts.pop("kind"), **facts, "words": list(baselines_words(study))}
