"""Study how few cells or calls predict held-out cells and preserve the ranking (the paper's Tables 3, 4 and Figure 2).

All regimes of a seed use the same holdout. A cell is the score of one agent on one item.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.coverage import compute_coverage
from youden.protocol.designs import DESIGNS, check_options
from youden.protocol.designs.parts.cell_design import CellDesign
from youden.protocol.designs.parts.repair import count_comparisons
from youden.protocol.plan import make_plan
from youden.run_keys import SplitRule
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.streams import stream
from youden.study.grid import Fold, SeedSummary, draw_folds, open_grid
from youden.study.known_groups import Contrast
from youden.study.replaying import RecordedAnswers, replay
from youden.types import Plan, Progress, Scores
from youden.types.pool import Bools, Floats, Json, plain_fields
from youden.types.results import ScoreKind


@dataclass(frozen=True)
class Regime:
    """A rule that selects the observed cells: a design with its options, or `cyclic` with a budget.

    Attributes
    ----------
    design : str
        Name of the design.
    options : dict of str to object
        Options of the design.
    calls : str or None
        Budget, such as "5%"; None for a design of cells, whose options determine the number of cells.
    """

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
"""The paper's grid (c = 1.6 gives the 33% of its tables), and cyclic plans, which are not in the paper."""

MAIN_REGIME = Regime("nlogn", {"c": 1.6})
"""Regime of the paper's main results."""


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
        Regimes to compare. Default: the regimes of the paper, and cyclic plans.
    n_seeds : int, default 20
        Number of splits, at least 1.
    rule : {"strict", "paper"}, default "strict"
        Holdout rule: whether trials that touch a held-out cell are left out of all training scores ("strict"), or used in
        the training scores of the partner ("paper").
    kind : {"symmetric", "row"}, default "row"
        Kind of the scores: means over all trials of an agent, or over those that show its response first ("row").
    holdout : float in (0, 1), default 0.2
        Fraction of all cells that are held out.
    groups : Contrast, optional
        Two groups of agents for the AUC. Default: no AUC.
    progress : Progress, optional
        Receiver of progress updates.

    Returns
    -------
    SparsityStudy
        One row per regime in `rows`, and one for all training cells in `dense`. Measures are summarized over the splits: numbers
        of cells and calls, RMSE, and rank correlations with the abilities from all training cells. A regime that cannot be
        planned has a row with the reason and without results.

    Raises
    ------
    PlanError
        [holdout] if the holdout cannot be drawn; [design-option] if a design does not have an option of its regime.
    StatisticsError
        [study-seeds] if `n_seeds` is below 1.
    ConfigError
        [unknown-design] if a design is not registered.
    """
    for regime in regimes:
        check_options(regime.design, regime.options)
    folds = draw_folds(recorded, n_seeds, rule=rule, kind=kind, holdout=holdout)

    with open_grid(n_seeds, n_rows=1 + len(regimes), what="fits", progress=progress) as evaluate_row:
        dense_measures = evaluate_row(partial(_measure_all_cells, folds, groups=groups))
        rows = []
        for regime in regimes:
            compute_measures = partial(_measure_regime, recorded, folds, regime, kind=kind, groups=groups)
            rows.append(_make_row(regime.label, evaluate_row(compute_measures)))

    return SparsityStudy(
        n_agents=recorded.pool.n_agents,
        n_items=recorded.pool.n_items,
        rule=rule,
        kind=kind,
        holdout=holdout,
        dense=_make_row("dense", dense_measures),
        rows=tuple(rows),
    )


def _make_row(label: str, measures: Floats | PlanError) -> SparsityRow:
    """Summarize the measures of a regime over seeds.

    measures : float array (n_seeds, 8), the measures of a `SparsityRow` in their order, or the error if the regime cannot be
        planned
    """
    if isinstance(measures, PlanError):
        return SparsityRow(label, measures.message)
    return SparsityRow(label, None, *SeedSummary.from_columns(measures))


def _measure_all_cells(folds: Sequence[Fold], seed: int, *, groups: Contrast | None) -> list[float]:
    """Compute the measures of the fit to all training cells at one seed. `_measure_regime` does the same for a regime."""
    fold = folds[seed]
    all_cells = fold.split.train & ~np.isnan(fold.train)
    return _measure_fit(fold, _observe_cells(fold, all_cells), groups)


def _measure_regime(
    recorded: RecordedAnswers,
    folds: Sequence[Fold],
    regime: Regime,
    seed: int,
    *,
    kind: ScoreKind,
    groups: Contrast | None,
) -> list[float]:
    """Compute the measures of a regime, a design with its options, at one seed.

    recorded : answers of a dense run
    folds : holdout of each seed
    kind : kind of the scores, "symmetric" or "row"
    groups : groups of agents for the AUC; None to compute none

    Returns the measures of a `SparsityRow`: the fields of `_Costs`, then RMSE, ρ, τ and AUC (NaN without groups). Raises
    PlanError if the regime cannot be planned.
    """
    fold = folds[seed]
    observation = _simulate_observation(recorded, fold, regime, kind=kind, seed=seed)
    return _measure_fit(fold, observation, groups)


def _measure_fit(fold: Fold, observation: _Observation, groups: Contrast | None) -> list[float]:
    """Fit the additive model to observed scores, and return their costs and the accuracy of the fit."""
    model = ClippedLinear(constraint="clip")
    accuracy = fold.evaluate(model, observation.scores, groups)
    return [*observation.costs, *accuracy]


class _Costs(NamedTuple):
    """Measures of the cost of observing the scores of some training cells.

    Attributes
    ----------
    share_of_all, share_of_train : float
        Scored cells, as a share of all cells and of the training cells.
    calls : float
        Number of calls.
    calls_unordered : float
        Number of calls if each pair of agents is compared on an item in one order only, and both agents use the answer. Equal
        to `calls` for a plan of trials, which already decides the orders.
    """

    share_of_all: float
    share_of_train: float
    calls: float
    calls_unordered: float


class _Observation(NamedTuple):
    """Training scores that are observed, with NaN or weight 0 for all other cells, and their costs."""

    scores: Scores | Floats
    costs: _Costs


def _simulate_observation(
    recorded: RecordedAnswers, fold: Fold, regime: Regime, *, kind: ScoreKind, seed: int
) -> _Observation:
    """Return the training scores that a design would observe, by the recorded answers of a dense run.

    A design either chooses cells (an agent on an item) to score, or it chooses trials.

    recorded : answers of a dense run, from which the scores of a plan of trials are computed
    fold : held-out and training cells at this seed, and the scores of the training cells
    regime : the design and its options
    kind : kind of the scores, "symmetric" or "row"
    seed : seed of the random draws

    Returns the observed training scores and their costs. Raises PlanError if the regime cannot be planned.
    """
    design_type = DESIGNS.load(regime.design)
    design = design_type(n_paired=None, **regime.options)
    if isinstance(design, CellDesign):
        chosen_cells = design.choose(fold.split.train, stream("trials", seed))
        return _observe_cells(fold, chosen_cells)

    plan = make_plan(
        recorded.pool,
        design=regime.design,
        calls=regime.calls,
        options=regime.options,
        holdout=fold.split.fraction,
        holdout_rule=fold.split.rule,
        seed=seed,
    )
    return _observe_plan(plan, recorded, kind)


def _observe_plan(plan: Plan, recorded: RecordedAnswers, kind: ScoreKind) -> _Observation:
    """Answer the trials of a plan from recorded answers, and compute the resulting training scores and their cost.

    plan : plan of the trials, with its holdout
    recorded : answers of a dense run
    kind : kind of the scores, "symmetric" or "row"

    Returns the scores, with weight 0 for a cell that no trial observes, and the cost in training calls and in observed cells.
    """
    scores = replay(plan, recorded).rates().training_scores(kind=kind)
    coverage = compute_coverage(plan)
    n_scored = float((scores.weight > 0).sum())
    n_holdout_calls = coverage.holdout  # calls that touch a held-out cell
    n_training_calls = float(coverage.calls - n_holdout_calls)
    costs = _Costs(
        share_of_all=n_scored / coverage.present,
        share_of_train=n_scored / coverage.train,
        calls=n_training_calls,
        calls_unordered=n_training_calls,
    )
    return _Observation(scores, costs)


def _observe_cells(fold: Fold, chosen: Bools) -> _Observation:
    """Return the training scores of the chosen cells, and the cost of observing them.

    To observe a cell, its agent is compared with all other agents that responded to the item. If the holdout rule is "strict",
    agents whose response to the item is held out are left out of these comparisons.

    fold : holdout, with the scores of all training cells
    chosen : bool array (n_agents, n_items), the training cells to score
    """
    split = fold.split
    partner_cells = split.train
    if split.rule != "strict":
        partner_cells = split.train | split.holdout
    n_ordered_pairs = count_comparisons(chosen, partner_cells, n_partners=None, pairs="ordered")
    n_unordered_pairs = count_comparisons(chosen, partner_cells, n_partners=None, pairs="unordered")

    n_chosen = int(chosen.sum())
    n_train = int(split.train.sum())
    costs = _Costs(
        share_of_all=n_chosen / (n_train + split.n_holdout),
        share_of_train=n_chosen / n_train,
        calls=2.0 * n_ordered_pairs,  # a paired and an independent trial per pair
        calls_unordered=2.0 * n_unordered_pairs,
    )
    observed_scores = np.where(chosen, fold.train, np.nan)
    return _Observation(observed_scores, costs)


def describe_sparsity(study: SparsityStudy) -> tuple[str, ...]:
    """Describe how well a sparse design predicts held-out scores, and how many calls it costs.

    The sparse design is the main one of the paper: `nlogn` with the option c = 1.6, which scores 33% of the cells.

    Returns a sentence on the holdout rule, sentences on the sparse design, if `study` has it, and a sentence for each design that
    cannot be planned.
    """
    if study.rule == "strict":
        effect = "no trial of a held-out cell is used in training."
    else:
        effect = "calls of held-out cells are used in their partners' scores (the paper's rule), so the holdout error is too low."
    sentences = [f"Holdout rule `{study.rule}`: {effect}"]

    sparse = next((row for row in study.rows if row.label == MAIN_REGIME.label), None)
    if sparse is not None:
        sentences += _describe_sparse_design(sparse, study.dense)

    infeasible = [row for row in study.rows if row.infeasible_reason is not None]
    sentences += [f"{row.label} cannot be planned: {row.infeasible_reason}" for row in infeasible]
    return tuple(sentences)


def _describe_sparse_design(sparse: SparsityRow, dense: SparsityRow) -> Iterator[str]:
    """Yield two sentences on a sparse design: how well it predicts held-out scores, and how many calls it saves.

    The dense fit uses all training cells (those that are not held out), and the sparse design only some of them. Its share of
    the calls assumes that one call serves both agents of a pair.

    sparse : measures of the sparse design; all are None if it cannot be planned
    dense : measures of the dense fit

    A sentence is left out if one of its measures is None.
    """
    share_of_all_cells, share_of_training_cells = sparse.of_all, sparse.of_train
    if sparse.rmse is not None and dense.rmse is not None and sparse.rho is not None and share_of_all_cells is not None:
        rmse_change = sparse.rmse.mean / dense.rmse.mean - 1
        yield (
            f"{sparse.label}: {share_of_all_cells.mean:.1%} of all cells, holdout RMSE {sparse.rmse.mean:.4f} against "
            f"{dense.rmse.mean:.4f} dense ({rmse_change:+.1%}), ρ {sparse.rho.mean:.3f} to the dense training fit."
        )

    n_calls, n_dense_calls = sparse.calls_unordered, dense.calls_unordered
    if n_calls is not None and n_dense_calls is not None and share_of_training_cells is not None:
        share_of_calls = n_calls.mean / n_dense_calls.mean
        yield (
            f"A share of the cells is not the same share of the calls: {share_of_training_cells.mean:.0%} of the training cells "
            f"need {share_of_calls:.0%} of the training pairs, because a cell is compared with every other agent on its item."
        )


def sparsity_to_json(study: SparsityStudy) -> dict[str, Json]:
    """Convert a comparison of regimes to a JSON object, the entry of one run in the output of `youden study sparsity --json`.

    The object has the fields of the comparison, with `kind` as "scores" and `rows` as "regimes", and conclusions in sentences as
    "summary".
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
