"""How few cells or calls predict held-out cells and keep the ranking: the paper's Tables 3 and 4 and Figure 2, over
seeds.

Within a seed all regimes are compared on the same holdout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from youden.errors import PlanError
from youden.protocol.coverage import coverage
from youden.protocol.designs import DESIGNS, check_options
from youden.protocol.designs.cell_designs import CellDesign
from youden.protocol.designs.repair import n_comparisons
from youden.protocol.plan import make_plan
from youden.run_keys import SplitRule
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.streams import stream
from youden.study.grid import Fold, Spread, draw_folds, grid
from youden.study.known_groups import Contrast
from youden.study.replaying import World, replay
from youden.types import Progress, Scores
from youden.types.pool import Bools, Floats, Json, plain_fields
from youden.types.results import ScoreKind


@dataclass(frozen=True)
class Regime:
    """One design with its options, or `cyclic` with a budget."""

    design: str
    options: dict[str, Json] = field(default_factory=dict)
    calls: str | None = None

    @property
    def label(self) -> str:
        shown = self.options if self.calls is None else {"calls": self.calls, **self.options}
        return " ".join([self.design, *(f"{name}={value}" for name, value in shown.items())])


PAPER_REGIMES = (
    *(Regime("row", {"alpha": alpha}) for alpha in (0.15, 0.3, 0.45)),
    *(Regime("column", {"beta": beta}) for beta in (0.15, 0.3, 0.45)),
    *(Regime("hybrid", {"alpha": alpha, "beta": beta}) for alpha, beta in ((0.5, 0.3), (0.6, 0.5), (0.9, 0.5))),
    *(Regime("nlogn", {"c": c}) for c in (0.5, 1.0, 1.6, 2.0, 3.0, 5.0)),
    *(Regime("cyclic", calls=f"{percent}%") for percent in (1, 2, 5, 10)),
)
"""The paper's grid; c = 1.6 is the 33 % of its tables, and cyclic plans are ours."""

HEADLINE = Regime("nlogn", {"c": 1.6})


@dataclass(frozen=True)
class SparsityRow:
    """One regime over seeds.

    of_all, of_train: scored cells as a share of all cells, and of those left for training. calls: ordered pairs with a twin each
    (cyclic: as planned); calls_unordered: one call a pair serves both its cells, again with a twin. rmse: on held-out cells;
    rho, tau: of abilities with those of the dense training fit; auc: of abilities for known groups, None without groups.
    All None where the regime cannot be drawn: `why`.
    """

    label: str
    why: str | None
    of_all: Spread | None = None
    of_train: Spread | None = None
    calls: Spread | None = None
    calls_unordered: Spread | None = None
    rmse: Spread | None = None
    rho: Spread | None = None
    tau: Spread | None = None
    auc: Spread | None = None


@dataclass(frozen=True)
class SparsityStudy:
    """dense: the fit on all training cells, what the rows are compared with."""

    n_agents: int
    n_items: int
    rule: SplitRule
    kind: ScoreKind
    holdout: float
    dense: SparsityRow
    rows: tuple[SparsityRow, ...]


def study_sparsity(
    world: World,
    *,
    regimes: Sequence[Regime] = PAPER_REGIMES,
    n_seeds: int = 20,
    rule: SplitRule = "shared",
    kind: ScoreKind = "row",
    holdout: float = 0.2,
    groups: Contrast | None = None,
    progress: Progress | None = None,
) -> SparsityStudy:
    """Every regime on `n_seeds` splits of `world`: which cells, what they cost, and what `ClippedLinear` learns from them.

    groups: what `auc` tells apart.

    Raises: PlanError [holdout]; StatisticsError [study-seeds]; ConfigError [unknown-design].
    """
    for regime in regimes:
        check_options(regime.design, regime.options)
    folds = draw_folds(world, n_seeds, rule=rule, kind=kind, holdout=holdout)

    def row(label: str, regime: Regime | None = None) -> SparsityRow:
        def figures(seed: int) -> list[float]:
            fold = folds[seed]
            dense = fold.split.train & ~np.isnan(fold.train)
            scored = _chosen(fold, dense) if regime is None else _scored(world, fold, regime, kind=kind, seed=seed)
            scores, costs = scored
            return [*costs, *fold.kept_by(ClippedLinear(constraint="clip"), scores, groups)]

        found = drawn(figures)
        if isinstance(found, PlanError):
            return SparsityRow(label, found.message)
        return SparsityRow(label, None, *Spread.of_each(found))

    with grid(n_seeds, n_rows=1 + len(regimes), what="fits", progress=progress) as drawn:
        return SparsityStudy(
            n_agents=world.pool.n_agents,
            n_items=world.pool.n_items,
            rule=rule,
            kind=kind,
            holdout=holdout,
            dense=row("dense"),
            rows=tuple(row(regime.label, regime) for regime in regimes),
        )


def _scored(
    world: World, fold: Fold, regime: Regime, *, kind: ScoreKind, seed: int
) -> tuple[Scores | Floats, list[float]]:
    design = DESIGNS.load(regime.design)(n_paired=None, **regime.options)
    if isinstance(design, CellDesign):
        return _chosen(fold, design.choose(fold.split.train, stream("trials", seed)))
    plan = make_plan(
        world.pool,
        design=regime.design,
        calls=regime.calls,
        options=regime.options,
        holdout=fold.split.fraction,
        rule=fold.split.rule,
        seed=seed,
    )
    scores = replay(plan, world).rates().training_scores(kind=kind)
    counted = coverage(plan)
    seen = float((scores.weight > 0).sum())
    # what the held-out cells alone cost is not what training took
    calls = float(counted.calls - counted.holdout)
    return scores, [seen / counted.present, seen / counted.train, calls, calls]


def _chosen(fold: Fold, chosen: Bools) -> tuple[Scores | Floats, list[float]]:
    """Some of the training cells, compared with every partner on their item."""
    split = fold.split
    partners = split.train if split.rule == "shared" else split.train | split.holdout
    n, n_train = int(chosen.sum()), int(split.train.sum())
    ordered, unordered = (
        2.0 * n_comparisons(chosen, partners, n_partners=None, pairs=pairs) for pairs in ("ordered", "unordered")
    )
    of_all = n / (n_train + split.n_holdout)
    return np.where(chosen, fold.train, np.nan), [of_all, n / n_train, ordered, unordered]


def sparsity_words(study: SparsityStudy) -> tuple[str, ...]:
    """The headline regime against dense, cells apart from calls, and what could not be drawn."""
    said = [
        f"Holdout rule `{study.rule}`: "
        + (
            "no trial that touches a held-out cell entered training."
            if study.rule == "shared"
            else "calls of held-out cells entered their partners' scores (the paper's rule), which flatters the holdout."
        )
    ]
    headline = next((row for row in study.rows if row.label == HEADLINE.label), None)
    if headline is not None and headline.rmse and study.dense.rmse and headline.rho and headline.of_all:
        change = headline.rmse.mean / study.dense.rmse.mean - 1
        said.append(
            f"{headline.label}: {headline.of_all.mean:.1%} of all cells, holdout RMSE {headline.rmse.mean:.4f} against "
            f"{study.dense.rmse.mean:.4f} dense ({change:+.1%}), ρ {headline.rho.mean:.3f} to the dense training fit."
        )
    if headline is not None and headline.calls_unordered and study.dense.calls_unordered and headline.of_train:
        share = headline.calls_unordered.mean / study.dense.calls_unordered.mean
        said.append(
            f"Cells are not calls: its {headline.of_train.mean:.0%} of the training cells take {share:.0%} of the training "
            "pairs, for a cell is compared with every other agent on its item."
        )
    said += [f"{row.label} cannot be drawn: {row.why}" for row in study.rows if row.why is not None]
    return tuple(said)


def sparsity_json(study: SparsityStudy) -> dict[str, Json]:
    """One run's entry in the `--json` of `youden study sparsity`."""
    facts = plain_fields(study) | {"dense": _figures(study.dense), "regimes": [_figures(row) for row in study.rows]}
    return {
        "scores": facts.pop("kind"),
        **{name: value for name, value in facts.items() if name != "rows"},
        "words": list(sparsity_words(study)),
    }


def _figures(row: SparsityRow) -> dict[str, Json]:
    return {name: value for name, value in plain_fields(row).items() if value is not None}
