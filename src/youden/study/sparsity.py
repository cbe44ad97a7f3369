"""Study how few cells or calls predict held-out cells and preserve the ranking (the paper's Tables 3, 4 and Figure 2).

All regimes of a seed use the same holdout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from youden.errors import PlanError
from youden.protocol.coverage import compute_coverage
from youden.protocol.designs import DESIGNS, check_options
from youden.protocol.designs.cell_designs import CellDesign
from youden.protocol.designs.repair import count_comparisons
from youden.protocol.plan import make_plan
from youden.run_keys import SplitRule
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.streams import stream
from youden.study.grid import Fold, SeedSummary, draw_folds, open_grid
from youden.study.known_groups import Contrast
from youden.study.replaying import RecordedAnswers, replay
from youden.types import Progress, Scores
from youden.types.pool import Bools, Floats, Json, plain_fields
from youden.types.results import ScoreKind


@dataclass(frozen=True)
class Regime:
    """A rule that selects the observed cells: a design with its options, or `cyclic` with a budget."""

    design: str
    options: dict[str, Json] = field(default_factory=dict)
    calls: str | None = None

    @property
    def label(self) -> str:
        """Design, budget and options as text, such as "nlogn c=1.6"."""
        options = self.options if self.calls is None else {"calls": self.calls, **self.options}
        return " ".join([self.design, *(f"{name}={value}" for name, value in options.items())])


PAPER_REGIMES = (
    *(Regime("row", {"alpha": alpha}) for alpha in (0.15, 0.3, 0.45)),
    *(Regime("column", {"beta": beta}) for beta in (0.15, 0.3, 0.45)),
    *(Regime("hybrid", {"alpha": alpha, "beta": beta}) for alpha, beta in ((0.5, 0.3), (0.6, 0.5), (0.9, 0.5))),
    *(Regime("nlogn", {"c": c}) for c in (0.5, 1.0, 1.6, 2.0, 3.0, 5.0)),
    *(Regime("cyclic", calls=f"{percent}%") for percent in (1, 2, 5, 10)),
)
"""The paper's grid (c = 1.6 gives the 33 % of its tables), and cyclic plans, which are not in the paper."""

HEADLINE = Regime("nlogn", {"c": 1.6})


@dataclass(frozen=True)
class SparsityRow:
    """One regime over seeds.

    Figures are None if the regime cannot be planned.

    Attributes
    ----------
    label : str
        Label of the regime.
    infeasible_reason : str or None
        Reason why the regime cannot be planned.
    of_all, of_train : SeedSummary
        Scored cells as a share of all cells, and of the training cells.
    calls : SeedSummary
        Calls, with one independent trial per ordered pair; for cyclic plans, as planned.
    calls_unordered : SeedSummary
        Calls if one call per pair serves both of its cells, again with one independent trial each.
    rmse : SeedSummary
        RMSE on held-out cells.
    rho, tau : SeedSummary
        Rank correlations of the abilities with those of the dense training fit.
    auc : SeedSummary or None
        AUC of the abilities for known groups; None without groups.
    """

    label: str
    infeasible_reason: str | None
    of_all: SeedSummary | None = None
    of_train: SeedSummary | None = None
    calls: SeedSummary | None = None
    calls_unordered: SeedSummary | None = None
    rmse: SeedSummary | None = None
    rho: SeedSummary | None = None
    tau: SeedSummary | None = None
    auc: SeedSummary | None = None


@dataclass(frozen=True)
class SparsityStudy:
    """Comparison of regimes.

    Attributes
    ----------
    n_agents, n_items : int
        Size of the pool.
    rule : {"strict", "paper"}
        Holdout rule.
    kind : {"symmetric", "row"}
        Kind of the scores.
    holdout : float
        Fraction of cells that are held out.
    dense : SparsityRow
        The fit to all training cells, with which the others are compared.
    rows : tuple of SparsityRow
        One per regime.
    """

    n_agents: int
    n_items: int
    rule: SplitRule
    kind: ScoreKind
    holdout: float
    dense: SparsityRow
    rows: tuple[SparsityRow, ...]


def study_sparsity(
    recorded: RecordedAnswers,
    *,
    regimes: Sequence[Regime] = PAPER_REGIMES,
    n_seeds: int = 20,
    rule: SplitRule = "strict",
    kind: ScoreKind = "row",
    holdout: float = 0.2,
    groups: Contrast | None = None,
    progress: Progress | None = None,
) -> SparsityStudy:
    """Compare how well the additive model predicts held-out cells if it is fitted to fewer cells or calls.

    A regime is a design with a number of observed cells or calls. All regimes share the random splits of a dense run.

    Parameters
    ----------
    recorded : RecordedAnswers
        Answers of a dense run.
    regimes : sequence of Regime, optional
        Regimes to compare. Default: those of the paper, and cyclic plans.
    n_seeds : int, default 20
        Number of splits.
    rule : {"strict", "paper"}, default "strict"
        Holdout rule.
    kind : {"symmetric", "row"}, default "row"
        Kind of the scores.
    holdout : float, default 0.2
        Fraction of cells that are held out.
    groups : Contrast, optional
        Groups for the AUC.
    progress : Progress, optional
        Receiver of progress updates.

    Returns
    -------
    SparsityStudy
        Cells, calls, prediction error and rank correlations of each regime and of all training cells ("dense"). A
        regime that cannot be planned has a row with the reason and without results.

    Raises
    ------
    PlanError
        [holdout] if the holdout cannot be drawn.
    StatisticsError
        [study-seeds] if `n_seeds` is below 1.
    ConfigError
        [unknown-design] if a design is not registered.
    """
    for regime in regimes:
        check_options(regime.design, regime.options)
    folds = draw_folds(recorded, n_seeds, rule=rule, kind=kind, holdout=holdout)

    def make_row(label: str, regime: Regime | None = None) -> SparsityRow:
        """Evaluate a regime (a design and its options) at every seed, and return the results as a row of the table.

        Without a regime, all training cells are observed.
        """

        def compute_measures(seed: int) -> list[float]:
            """Fit the scores that the regime observes at one seed, and return its four costs, then its accuracy."""
            fold = folds[seed]
            if regime is None:
                all_cells = fold.split.train & ~np.isnan(fold.train)
                scores, costs = _score_cells(fold, all_cells)
            else:
                scores, costs = _score_regime(recorded, fold, regime, kind=kind, seed=seed)
            model = ClippedLinear(constraint="clip")
            return [*costs, *fold.evaluate(model, scores, groups)]

        measures = evaluate_row(compute_measures)
        if isinstance(measures, PlanError):
            return SparsityRow(label, measures.message)
        return SparsityRow(label, None, *SeedSummary.from_columns(measures))

    with open_grid(n_seeds, n_rows=1 + len(regimes), what="fits", progress=progress) as evaluate_row:
        return SparsityStudy(
            n_agents=recorded.pool.n_agents,
            n_items=recorded.pool.n_items,
            rule=rule,
            kind=kind,
            holdout=holdout,
            dense=make_row("dense"),
            rows=tuple(make_row(regime.label, regime) for regime in regimes),
        )


def _score_regime(
    recorded: RecordedAnswers, fold: Fold, regime: Regime, *, kind: ScoreKind, seed: int
) -> tuple[Scores | Floats, list[float]]:
    """Return the training scores that a regime (a design and its options) observes, and four measures of its cost.

    The measures are: the share of all cells that are scored, the share of the training cells that are scored, the number
    of calls, and the number of calls if one call serves both cells of a pair.

    fold : holdout that all regimes share
    kind : kind of the scores, "symmetric" or "row"
    """
    design = DESIGNS.load(regime.design)(n_paired=None, **regime.options)
    if isinstance(design, CellDesign):
        return _score_cells(fold, design.choose(fold.split.train, stream("trials", seed)))
    plan = make_plan(
        recorded.pool,
        design=regime.design,
        calls=regime.calls,
        options=regime.options,
        holdout=fold.split.fraction,
        holdout_rule=fold.split.rule,
        seed=seed,
    )
    scores = replay(plan, recorded).rates().training_scores(kind=kind)
    coverage = compute_coverage(plan)
    n_scored = float((scores.weight > 0).sum())
    share_of_all = n_scored / coverage.present
    share_of_train = n_scored / coverage.train
    training_calls = float(coverage.calls - coverage.holdout)  # held-out calls do not serve training
    return scores, [share_of_all, share_of_train, training_calls, training_calls]


def _score_cells(fold: Fold, chosen: Bools) -> tuple[Scores | Floats, list[float]]:
    """Return the scores of some training cells, and four measures of their cost.

    A cell is the score of one agent on one item. Each cell is compared with every other agent on its item. The measures
    are: the share of all cells, the share of the training cells, the number of calls, and the number of calls if one call
    serves both cells of a pair.

    chosen : bool array (n_agents, n_items), the training cells to score
    """
    split = fold.split
    partners = split.train if split.rule == "strict" else split.train | split.holdout
    ordered_pairs = count_comparisons(chosen, partners, n_partners=None, pairs="ordered")
    unordered_pairs = count_comparisons(chosen, partners, n_partners=None, pairs="unordered")

    # calls of both trial types: one independent trial per paired trial
    calls = 2.0 * ordered_pairs
    calls_unordered = 2.0 * unordered_pairs

    n_chosen = int(chosen.sum())
    n_train = int(split.train.sum())
    share_of_all = n_chosen / (n_train + split.n_holdout)
    share_of_train = n_chosen / n_train
    scores = np.where(chosen, fold.train, np.nan)
    return scores, [share_of_all, share_of_train, calls, calls_unordered]


def describe_sparsity(study: SparsityStudy) -> tuple[str, ...]:
    """Describe how well the paper's main regime (n log n cells) predicts held-out cells, and at what cost.

    Parameters
    ----------
    study : SparsityStudy
        The comparison of regimes.

    Returns
    -------
    tuple of str
        The holdout rule, the headline regime (n log n with c = 1.6) in cells and in calls, and one sentence per regime
        that cannot be planned.
    """
    effect = "calls of held-out cells are used in their partners' scores (the paper's rule), so the holdout error is too low."
    if study.rule == "strict":
        effect = "no trial of a held-out cell is used in training."
    sentences = [f"Holdout rule `{study.rule}`: {effect}"]
    headline = next((row for row in study.rows if row.label == HEADLINE.label), None)
    if headline is not None and headline.rmse and study.dense.rmse and headline.rho and headline.of_all:
        change = headline.rmse.mean / study.dense.rmse.mean - 1
        sentences.append(
            f"{headline.label}: {headline.of_all.mean:.1%} of all cells, holdout RMSE {headline.rmse.mean:.4f} against "
            f"{study.dense.rmse.mean:.4f} dense ({change:+.1%}), ρ {headline.rho.mean:.3f} to the dense training fit."
        )
    if headline is not None and headline.calls_unordered and study.dense.calls_unordered and headline.of_train:
        share = headline.calls_unordered.mean / study.dense.calls_unordered.mean
        sentences.append(
            f"Cells are not calls: its {headline.of_train.mean:.0%} of the training cells need {share:.0%} of the training "
            "pairs, because a cell is compared with every other agent on its item."
        )
    infeasible = [row for row in study.rows if row.infeasible_reason is not None]
    sentences += [f"{row.label} cannot be planned: {row.infeasible_reason}" for row in infeasible]
    return tuple(sentences)


def sparsity_to_json(study: SparsityStudy) -> dict[str, Json]:
    """Convert a comparison of regimes to a JSON object.

    Parameters
    ----------
    study : SparsityStudy
        The comparison of regimes.

    Returns
    -------
    dict of str to object
        Entry of one run in the output of `youden study sparsity --json`: the fields of the comparison, with `kind` as
        "scores" and `rows` as "regimes", and conclusions in sentences as "summary".
    """
    regimes: list[Json] = [_drop_missing_measures(row) for row in study.rows]
    facts = plain_fields(study) | {"dense": _drop_missing_measures(study.dense), "regimes": regimes}
    return {
        "scores": facts.pop("kind"),
        **{name: value for name, value in facts.items() if name != "rows"},
        "summary": list(describe_sparsity(study)),
    }


def _drop_missing_measures(row: SparsityRow) -> dict[str, Json]:
    """Convert a row to JSON, without the measures that are None."""
    return {name: value for name, value in plain_fields(row).items() if value is not None}
