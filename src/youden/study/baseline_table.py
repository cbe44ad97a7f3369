"""Compare the additive model with other estimators at one coverage of cells, as in the paper's Table 5, over seeds.

Two standard errors are reported separately: over items (would other items of this kind give the same order?) and over
seeds (would other holdouts and cells of the same items?). All seeds use the same items, so more seeds do not reduce
the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import hypot
from typing import Literal

import numpy as np
from scipy.special import ndtri

from youden.errors import PlanError
from youden.protocol.designs.nlogn import Nlogn
from youden.protocol.designs.parts.repair import StarvedError
from youden.run_keys import SplitRule
from youden.stats.baselines import BASELINES, Baseline
from youden.streams import standalone_stream, stream
from youden.study.grid import SeedSummary, draw_folds, open_grid
from youden.study.known_groups import Contrast
from youden.study.replaying import RecordedAnswers
from youden.types import Progress
from youden.types.pool import Bools, Floats, Json, plain_fields
from youden.types.results import ScoreKind

N_RESAMPLES = 1000
LEVEL = 0.95
Order = Literal["better", "worse", "open"]


@dataclass(frozen=True)
class BaselineRow:
    """One estimator over seeds.

    Attributes
    ----------
    name : str
        Registered name.
    rmse : SeedSummary
        RMSE on held-out cells.
    rho, tau : SeedSummary
        Rank correlations of its abilities with those of clipped-linear on all training cells.
    auc : SeedSummary or None
        AUC of its abilities for known groups; None without groups.
    rmse_difference : SeedSummary
        Its RMSE minus that of clipped-linear on the same split and cells.
    se_items : float
        Standard error of the mean of `rmse_difference` over items of this kind, from resampled items.
    se_seeds : float or None
        Standard error over holdouts and cells of the same items; None with one seed.
    order : {"better", "worse", "open"}
        Comparison with clipped-linear; "open" if `rmse_difference` is not significant at 95% over all rows, by both
        standard errors.
    """

    name: str
    rmse: SeedSummary
    rho: SeedSummary
    tau: SeedSummary
    auc: SeedSummary | None
    rmse_difference: SeedSummary
    se_items: float
    se_seeds: float | None
    order: Order


@dataclass(frozen=True)
class BaselinesStudy:
    """Comparison of estimators.

    Attributes
    ----------
    rule : {"strict", "paper"}
        Holdout rule.
    kind : {"symmetric", "row"}
        Kind of the scores.
    coverage : SeedSummary
        Share of all cells that every estimator is fitted to.
    rows : tuple of BaselineRow
        One per estimator, clipped-linear first.
    """

    rule: SplitRule
    kind: ScoreKind
    coverage: SeedSummary
    rows: tuple[BaselineRow, ...]


def study_baselines(
    recorded: RecordedAnswers,
    *,
    names: Sequence[str] | None = None,
    n_seeds: int = 10,
    rule: SplitRule = "strict",
    kind: ScoreKind = "row",
    c: float = 1.6,
    holdout: float = 0.2,
    groups: Contrast | None = None,
    progress: Progress | None = None,
) -> BaselinesStudy:
    """Compare the additive model with other estimators on the same held-out cells of a dense run.

    All estimators are fitted to the same cells, which the n log n design chooses at random.

    Parameters
    ----------
    recorded : RecordedAnswers
        Answers of a dense run.
    names : sequence of str, optional
        Registered baselines to compare with clipped-linear, which is always included. Default: all.
    n_seeds : int, default 10
        Number of random splits, at least 1; the seeds are 0 to n_seeds − 1.
    rule : {"strict", "paper"}, default "strict"
        Holdout rule: whether trials that touch a held-out cell are left out of all training scores ("strict"), or used in
        the training scores of the partner ("paper").
    kind : {"symmetric", "row"}, default "row"
        Kind of the scores: means over all trials of an agent, or over those that show its response first ("row").
    c : float, default 1.6
        Constant of the n log n design, above 0. c·(K + J)·ln(K + J) cells are fitted, for K agents and J items, or all if there
        are fewer.
    holdout : float in (0, 1), default 0.2
        Fraction of all cells that are held out, above 0 and below 1; the fitted cells are chosen from the others.
    groups : Contrast, optional
        Two groups of agents for the AUC. Default: no AUC.
    progress : Progress, optional
        Receiver of progress updates.

    Returns
    -------
    BaselinesStudy
        One row per estimator, whose values are summaries over the splits. They are the RMSE on held-out cells, Spearman's ρ and
        Kendall's τ with the dense ranking (a fit to all training cells of the split), and the AUC for `groups` (None without
        groups). Standard errors over items come from resampled items, without new fits.

    Raises
    ------
    StatisticsError
        [study-seeds] if `n_seeds` is below 1.
    ConfigError
        [unknown-baseline] if a baseline is not registered.
    PlanError
        [d-core], [holdout] if the cells or the holdout cannot be drawn; [design-option] unless `c` is above 0.
    """
    all_names = list(dict.fromkeys(["clipped-linear", *(names or BASELINES)]))
    factories = {name: BASELINES.load(name) for name in all_names}
    folds = draw_folds(recorded, n_seeds, rule=rule, kind=kind, holdout=holdout)
    chosen_cells = [_choose_cells(recorded, fold.split.train, c=c, seed=seed) for seed, fold in enumerate(folds)]

    def compute_measures(make_model: Callable[[], Baseline], seed: int) -> list[float]:
        """Fit a model to the chosen training cells of one seed, and measure how well it predicts the held-out cells.

        Returns the RMSE, ρ, τ and the AUC; then, for each item, the sum of the squared errors; then, for each item, their number.
        """
        fold, is_chosen = folds[seed], chosen_cells[seed]
        model = make_model()
        observed_scores = np.where(is_chosen, fold.train, np.nan)
        measures = fold.evaluate(model, observed_scores, groups)
        squared_error = (model.predict() - fold.held_out) ** 2  # NaN for cells that are not held out
        sums_by_item = np.nansum(squared_error, axis=0).tolist()
        counts_by_item = (~np.isnan(squared_error)).sum(axis=0).tolist()
        return [*measures, *sums_by_item, *counts_by_item]

    tables = {}
    with open_grid(n_seeds, n_rows=len(all_names), what="fits", progress=progress) as evaluate_row:
        for name, make_model in factories.items():
            table = evaluate_row(partial(compute_measures, make_model))
            if isinstance(table, PlanError):
                raise table
            tables[name] = table
    n_cells = recorded.pool.present.sum()
    coverage = np.array([chosen.sum() / n_cells for chosen in chosen_cells])
    return BaselinesStudy(rule, kind, SeedSummary.from_values(coverage), _summarize_models(tables))


def _summarize_models(tables: Mapping[str, Floats]) -> tuple[BaselineRow, ...]:
    """Summarize the prediction errors of models over seeds, and compare each model with the first one.

    tables : results by name of the model, float arrays (n_seeds, 4 + 2 · n_items). The columns are the RMSE, Spearman's ρ,
        Kendall's τ and the AUC; the sum of squared errors of each item; and the number of squared errors of each item.

    Returns one row per model. The significance of a difference in RMSE is corrected for the number of comparisons
    (Bonferroni).
    """
    results = np.stack(list(tables.values()), axis=1)  # (n_seeds, n_models, 4 + 2 · n_items)
    n_items = (results.shape[2] - 4) // 2
    measures = results[:, :, :4]
    error_sums = results[:, :, 4 : 4 + n_items]
    error_counts = results[:, :, 4 + n_items :]
    item_std_errors = _compute_item_std_error(
        np.ascontiguousarray(error_sums), np.ascontiguousarray(error_counts)
    ).tolist()

    # two-sided normal quantile with the error rate divided by the number of comparisons
    n_comparisons = max(len(tables) - 1, 1)
    critical_value = float(ndtri(1 - (1 - LEVEL) / 2 / n_comparisons))

    rmse = measures[:, :, 0]  # (n_seeds, n_models)
    rmse_difference = rmse - rmse[:, :1]
    rows = []
    for k, name in enumerate(tables):
        row = _summarize_model(
            name, measures[:, k], rmse_difference[:, k], se_items=item_std_errors[k], critical_value=critical_value
        )
        rows.append(row)
    return tuple(rows)


def _choose_cells(recorded: RecordedAnswers, training_cells: Bools, *, c: float, seed: int) -> Bools:
    """Choose training cells at random by the n log n design; a cell is a combination of an agent and an item.

    recorded : recorded answers, with the ids of the agents and items
    training_cells : bool array (n_agents, n_items)
    c : constant of the design; a larger one gives more cells
    seed : seed of the random choice

    Returns a bool array of the same shape. Raises StarvedError if an agent or item has too few cells; the message contains the id
    of this agent or item.
    """
    design = Nlogn(c=c)
    try:
        return design.choose(training_cells, stream("trials", seed))
    except StarvedError as error:
        agents_or_items = recorded.pool.agents if error.side == "agent" else recorded.pool.items
        agent_or_item = agents_or_items[error.position]
        raise error.with_name(agent_or_item.id) from error


def _compute_item_std_error(squares: Floats, counts: Floats) -> Floats:
    """Estimate by a bootstrap how much differences in RMSE between models depend on the choice of the items.

    A difference is the mean RMSE of a model over seeds minus the mean RMSE of the first model.

    squares : float array (n_seeds, n_models, n_items), sums of the squared errors of held-out cells
    counts : float array (n_seeds, n_models, n_items), numbers of these cells

    Returns the standard errors of the differences, float array (n_models,), 0 for the first model.
    """
    # how often each resample contains each item, (n_resamples, n_items)
    n_items = counts.shape[2]
    equal_probabilities = np.full(n_items, 1 / n_items)
    multiplicities = standalone_stream(0).multinomial(n_items, equal_probabilities, size=N_RESAMPLES)
    weights = multiplicities.astype(np.float64)

    # RMSE in each resample, (n_seeds, n_models, n_resamples), and its mean over seeds, (n_models, n_resamples)
    resampled_counts = np.maximum(counts @ weights.T, 1)
    mean_squares = (squares @ weights.T) / resampled_counts
    mean_rmse = np.sqrt(mean_squares).mean(axis=0)

    rmse_difference = mean_rmse - mean_rmse[0]
    return np.asarray(rmse_difference.std(axis=1, ddof=1))


def _summarize_model(
    name: str, measures: Floats, rmse_difference: Floats, *, se_items: float, critical_value: float
) -> BaselineRow:
    """Summarize one estimator over seeds, and test whether its RMSE differs from the RMSE of clipped-linear.

    The outcome is "open" if the difference is not significant.

    measures : float array (n_seeds, 4) with the columns RMSE, ρ, τ and AUC
    rmse_difference : float array (n_seeds,), RMSE minus the RMSE of clipped-linear
    se_items : standard error of the mean of `rmse_difference` due to the choice of the items
    critical_value : number of standard errors above which a difference is significant
    """
    rmse, rho, tau, auc = measures.T
    n_seeds = len(rmse_difference)
    se_seeds = None
    if n_seeds > 1:
        se_seeds = float(rmse_difference.std(ddof=1)) / n_seeds**0.5

    # both errors are independent, so their variances are added
    std_error = hypot(se_items, se_seeds or 0.0)
    mean_difference = float(rmse_difference.mean())
    order: Order = "open"
    if abs(mean_difference) > critical_value * std_error:
        order = "better" if mean_difference < 0 else "worse"
    return BaselineRow(
        name=name,
        rmse=SeedSummary.from_values(rmse),
        rho=SeedSummary.from_values(rho),
        tau=SeedSummary.from_values(tau),
        auc=None if np.isnan(auc).any() else SeedSummary.from_values(auc),
        rmse_difference=SeedSummary.from_values(rmse_difference),
        se_items=se_items,
        se_seeds=se_seeds,
        order=order,
    )


def describe_baselines(study: BaselinesStudy) -> tuple[str, ...]:
    """Describe which estimators predict held-out cells significantly better or worse than clipped-linear.

    The first sentence states the holdout rule, the share of cells and the number of seeds. The next sentences list the estimators
    that are better than clipped-linear, those that are worse, and those that do not differ significantly. The last sentence
    explains the standard errors.
    """
    n_seeds = study.coverage.n
    if n_seeds > 1:
        better, worse, seeds = "Better", "Worse", f"{n_seeds} seeds"
    else:
        better, worse, seeds = "On this one holdout, better", "On this one holdout, worse", "1 seed"
    sentences = [f"Rule `{study.rule}`, {study.coverage.mean:.1%} of all cells, paired over {seeds}."]

    # one sentence per outcome of the comparison with clipped-linear, which is the first row
    heading_by_outcome: dict[Order, str] = {
        "better": f"{better} than clipped-linear",
        "worse": f"{worse} than clipped-linear",
        "open": "Not significantly different from clipped-linear",
    }
    for outcome, heading in heading_by_outcome.items():
        rows = [row for row in study.rows[1:] if row.order == outcome]
        if rows:
            differences = [f"{row.name} ({row.rmse_difference.mean:+.4f} ± {row.se_items:.4f})" for row in rows]
            sentences.append(f"{heading}: {', '.join(differences)}.")
    sentences.append(_explain_differences(n_seeds))
    return tuple(sentences)


def _explain_differences(n_seeds: int) -> str:
    """Explain the numbers in parentheses after the name of an estimator: a difference in RMSE and its standard error.

    With several holdouts, the text also states when a difference is significant. One holdout allows no conclusion about others.

    n_seeds : number of random holdouts
    """
    explanation = (
        "In parentheses: the RMSE minus the RMSE of clipped-linear, and the standard error of this difference over items of "
        "this kind, which is estimated by resampling the items."
    )
    if n_seeds == 1:
        return f"{explanation} One seed is one holdout and one draw of cells: nothing follows for others. Set --n-seeds 10."
    return (
        f"{explanation} A difference counts as significant at {LEVEL:.0%} over all models, by this standard error and the one "
        "over seeds."
    )


def baselines_to_json(study: BaselinesStudy) -> dict[str, Json]:
    """Convert a comparison of estimators to the `baselines` object of `youden study baselines --json`.

    The object has the fields of the comparison, with `kind` as "scores", and conclusions in sentences as "summary".
    """
    facts = plain_fields(study)
    return {"scores": facts.pop("kind"), **facts, "summary": list(describe_baselines(study))}
