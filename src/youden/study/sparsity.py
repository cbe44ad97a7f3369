"""How few cells or calls predict held-out cells and keep the ranking: the paper's Tables 3 and 4 and Figure 2, over
seeds.

Within a seed all regimes are compared on the same holdout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np

from youden.errors import PlanError, StatisticsError
from youden.nouns import Json, Progress, ScoreKind, Scores, Split, SplitRule
from youden.nouns.pool import Bools, Floats
from youden.protocol.coverage import coverage
from youden.protocol.designs import DESIGNS, check_options
from youden.protocol.designs.cell_designs import CellDesign
from youden.protocol.designs.repair import n_comparisons
from youden.protocol.plan import draw_split, make_plan
from youden.protocol.scores import holdout_scores, tally, train_scores
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.metrics import kendall, ranking_auc, rmse, spearman
from youden.streams import stream
from youden.study.known_groups import Contrast
from youden.study.replay import World, replay


@dataclass(frozen=True)
class Regime:
    """One design with its options, or `cyclic` at a percent of the dense calls."""

    design: str
    options: dict[str, Json] = field(default_factory=dict)
    percent: float | None = None

    @property
    def label(self) -> str:
        shown = {"percent": self.percent, **self.options} if self.percent is not None else self.options
        return " ".join([self.design, *(f"{name}={value}" for name, value in shown.items())])


PAPER_REGIMES = (
    *(Regime("row", {"alpha": alpha}) for alpha in (0.15, 0.3, 0.45)),
    *(Regime("column", {"beta": beta}) for beta in (0.15, 0.3, 0.45)),
    *(Regime("hybrid", {"alpha": alpha, "beta": beta}) for alpha, beta in ((0.5, 0.3), (0.6, 0.5), (0.9, 0.5))),
    *(Regime("nlogn", {"c": c}) for c in (0.5, 1.0, 1.6, 2.0, 3.0, 5.0)),
    *(Regime("cyclic", percent=percent) for percent in (1.0, 2.0, 5.0, 10.0)),
)
"""The paper's grid; c = 1.6 is the 33 % of its tables, and cyclic plans are ours."""

HEADLINE = Regime("nlogn", {"c": 1.6})


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


@dataclass(frozen=True)
class SparsityRow:
    """One regime over seeds.

    of_all, of_train: scored cells as a share of all cells, and of those left for training. calls: ordered pairs with a twin each
    (cyclic: as planned); calls_unordered: one call a pair serves both its cells, again with a twin. rmse: on held-out cells;
    rho, tau: of abilities with those of the dense training fit; auc: of abilities for known groups, None without groups.
    All None where the regime cannot be drawn: `why`.
    """

    label: str
    of_all: Spread | None = None
    of_train: Spread | None = None
    calls: Spread | None = None
    calls_unordered: Spread | None = None
    rmse: Spread | None = None
    rho: Spread | None = None
    tau: Spread | None = None
    auc: Spread | None = None
    why: str | None = None


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


class _Costs(NamedTuple):
    of_all: float
    of_train: float
    calls: float
    calls_unordered: float


class _Draw(NamedTuple):
    of_all: float
    of_train: float
    calls: float
    calls_unordered: float
    rmse: float
    rho: float
    tau: float
    auc: float


@dataclass(frozen=True, eq=False)
class Fold:
    """One seed: a split, its training scores, the dense scores of its holdout, and the dense training fit."""

    split: Split
    train: Floats
    held: Floats
    dense: Floats
    seed: int


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

    Raises: PlanError [holdout]; StatisticsError [sparsity-seeds]; ConfigError [unknown-design].
    """
    if n_seeds < 1:
        raise StatisticsError(f"{n_seeds} seeds were asked for. Give at least 1.", slug="sparsity-seeds")
    for regime in regimes:
        check_options(regime.design, regime.options)
    dense: list[_Draw] = []
    draws: dict[str, list[_Draw]] = {regime.label: [] for regime in regimes}
    why: dict[str, str] = {}
    if progress is not None:
        progress.start(n_seeds * len(regimes), what="fits")
    for seed in range(n_seeds):
        fold = draw_fold(world, rule=rule, kind=kind, holdout=holdout, seed=seed)
        whole = fold.split.train & ~np.isnan(fold.train)
        dense.append(_drawn(fold, fold.train, groups, _cell_costs(fold, whole)))
        for regime in regimes:
            try:
                draws[regime.label].append(_draw(world, fold, regime, kind=kind, groups=groups))
            except PlanError as error:
                why[regime.label] = error.message
            if progress is not None:
                progress.advance()
    if progress is not None:
        progress.stop()
    return SparsityStudy(
        n_agents=world.pool.n_agents,
        n_items=world.pool.n_items,
        rule=rule,
        kind=kind,
        holdout=holdout,
        dense=_row("dense", dense),
        rows=tuple(
            SparsityRow(regime.label, why=why[regime.label])
            if regime.label in why
            else _row(regime.label, draws[regime.label])
            for regime in regimes
        ),
    )


def draw_fold(world: World, *, rule: SplitRule, kind: ScoreKind, holdout: float, seed: int) -> Fold:
    """The fold of one seed. Raises: PlanError [holdout]."""
    split = draw_split(world.pool.present, fraction=holdout, rule=rule, seed=seed)
    train = train_scores(world.rates, split, kind=kind).value
    held = holdout_scores(world.rates, split, kind=kind).value
    return Fold(split, train, held, ClippedLinear(constraint="clip").fit(train).ability_, seed)


def _draw(world: World, fold: Fold, regime: Regime, *, kind: ScoreKind, groups: Contrast | None) -> _Draw:
    design = DESIGNS.load(regime.design)(n_paired=None, **regime.options)
    if isinstance(design, CellDesign):
        chosen = design.choose(fold.split.train, stream("trials", fold.seed))
        return _drawn(fold, np.where(chosen, fold.train, np.nan), groups, _cell_costs(fold, chosen))
    plan = make_plan(
        world.pool,
        design=regime.design,
        percent=regime.percent,
        options=regime.options,
        holdout=fold.split.fraction,
        rule=fold.split.rule,
        seed=fold.seed,
    )
    scores = train_scores(tally(replay(plan, world)), plan.split, kind=kind)
    counted = coverage(plan)
    seen = float((scores.weight > 0).sum())
    # what the held-out cells alone cost is not what training took
    calls = float(counted.calls - counted.holdout)
    return _drawn(fold, scores, groups, _Costs(seen / counted.present, seen / counted.train, calls, calls))


def _cell_costs(fold: Fold, chosen: Bools) -> _Costs:
    """Shares of all and of training cells, and calls with ordered and with unordered pairs."""
    partners = fold.split.train if fold.split.rule == "shared" else fold.split.train | fold.split.holdout
    n = int(chosen.sum())
    ordered = n_comparisons(chosen, partners, n_partners=None, pairs="ordered")
    unordered = n_comparisons(chosen, partners, n_partners=None, pairs="unordered")
    n_train = int(fold.split.train.sum())
    return _Costs(n / (n_train + fold.split.n_holdout), n / n_train, 2.0 * ordered, 2.0 * unordered)


def _drawn(
    fold: Fold,
    scores: Scores | Floats,
    groups: Contrast | None,
    costs: _Costs,
) -> _Draw:
    model = ClippedLinear(constraint="clip").fit(scores)
    predicted = model.predict()
    observed = np.where(np.isnan(predicted), np.nan, fold.held)
    theta = model.ability_
    both = ~(np.isnan(theta) | np.isnan(fold.dense))
    auc = np.nan
    if groups is not None:
        either = (groups.positive | groups.negative) & ~np.isnan(theta)
        auc = ranking_auc(theta[either], groups.positive[either])
    return _Draw(
        *costs,
        rmse=rmse(predicted, observed).value,
        rho=spearman(theta[both], fold.dense[both]).value,
        tau=kendall(theta[both], fold.dense[both]).value,
        auc=auc,
    )


def _row(label: str, draws: list[_Draw]) -> SparsityRow:
    of = {
        name: None if np.isnan(column).any() else Spread.of(column)
        for name, column in zip(_Draw._fields, np.array(draws).T, strict=True)
    }
    return SparsityRow(
        label,
        of_all=of["of_all"],
        of_train=of["of_train"],
        calls=of["calls"],
        calls_unordered=of["calls_unordered"],
        rmse=of["rmse"],
        rho=of["rho"],
        tau=of["tau"],
        auc=of["auc"],
    )


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
    return {
        "n_agents": study.n_agents,
        "n_items": study.n_items,
        "rule": study.rule,
        "scores": study.kind,
        "holdout": study.holdout,
        "dense": _words_row(study.dense),
        "regimes": [_words_row(row) for row in study.rows],
        "words": list(sparsity_words(study)),
    }


def _words_row(row: SparsityRow) -> dict[str, Json]:
    return {name: value for name, value in asdict(row).items() if value is not None}
