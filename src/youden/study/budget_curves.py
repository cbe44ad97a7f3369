"""Study what each design achieves at each number of calls: accuracy of the ranking, interval width, coverage, regret.

The figures are means over seeds. The split-half reliability of the items, which is a ceiling, is reported with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from youden.engines.trial_blocks import TrialsByItem
from youden.errors import PlanError, StatisticsError
from youden.pipeline.additive_abilities import fit_trials
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.pipeline.rounds import run_rounds
from youden.protocol.coverage import compute_coverage
from youden.protocol.plan import make_plan
from youden.run_keys import CallBudget
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.metrics import spearman
from youden.streams import standalone_stream
from youden.study.grid import open_grid
from youden.study.replaying import RecordedAnswers, paired_mean_first, replay
from youden.types import PAIRED, Plan, Pool, Progress, Verdicts
from youden.types.pool import Floats, or_none
from youden.types.results import ScoreKind

DEFAULT_TOPS = (1, 3, 5)
N_SPLITS = 20


@dataclass(frozen=True)
class SplitHalf:
    """Split-half reliability of the items, over random splits.

    Attributes
    ----------
    rho, rho_sd : float
        Mean and standard deviation of ρ between the dense rankings of two disjoint halves of the items.
    recalls : dict of int to float
        By k, the mean share of one half's top k that is in the other half's.
    """

    rho: float
    rho_sd: float
    recalls: dict[int, float]


def compute_split_half(scores: Floats, fit_ability: Callable[[Floats], Floats], *, tops: tuple[int, ...]) -> SplitHalf:
    """Compute the split-half reliability of scores.

    scores : float array (n_agents, n_items), NaN if unobserved
    fit_ability : from the scores of some items to abilities, float array (n_agents,)
    """
    figures = []
    n_items = scores.shape[1]
    for seed in range(N_SPLITS):
        order, n_first = standalone_stream(seed).permutation(n_items), n_items // 2
        a, b = fit_ability(scores[:, order[:n_first]]), fit_ability(scores[:, order[n_first:]])
        figures.append([rank_correlation(a, b), *(top_recall(a, b, top) for top in tops)])
    means = np.mean(figures, axis=0).tolist()
    sds = np.std(figures, axis=0, ddof=1).tolist()
    return SplitHalf(means[0], sds[0], dict(zip(tops, means[1:], strict=True)))


def rank_correlation(a: Floats, b: Floats) -> float:
    """Compute Spearman's ρ over the agents that have both abilities, float arrays (n_agents,).

    Raises: StatisticsError [metric-constant] if one side does not vary.
    """
    is_common = ~(np.isnan(a) | np.isnan(b))
    return spearman(a[is_common], b[is_common]).value


def top_recall(ability: Floats, dense: Floats, top: int) -> float:
    """Compute the share of the dense top k that is in the estimated top k, in [0, 1].

    Of equal abilities, the earlier agent ranks first; NaN ranks last.

    >>> top_recall(np.array([3.0, 1.0, 2.0]), np.array([3.0, 2.0, 1.0]), 2)
    0.5
    """
    estimated_top, dense_top = (
        np.argsort(-np.nan_to_num(value, nan=-np.inf), kind="stable")[:top] for value in (ability, dense)
    )
    return float(np.isin(dense_top, estimated_top).mean())


DEFAULT_BUDGETS = ("1%", "2%", "5%", "10%", "20%", "50%", "100%")
"""Default budgets; of each design, the first `N_DEFAULT_BUDGETS` at which it can be planned are studied."""
N_DEFAULT_BUDGETS = 3


@dataclass(frozen=True)
class BudgetRow:
    """One design at one budget, as means over seeds.

    Figures are None if the design cannot be planned at this budget.

    Attributes
    ----------
    percent : float
        Budget in percent of the dense calls.
    budget_label : str
        Budget as requested, such as "2%", "450/agent" or "± 0.03".
    infeasible_reason : str or None
        Reason why the design cannot be planned at this budget.
    trials : float or None
        Paired trials per agent.
    calls, usd : float or None
        Calls, and their cost in USD; the cost is None if the price is unknown.
    cells, blocks : float or None
        Cells with a trial, and blocks; None if the plan has no blocks.
    rho_mean, rho_sd : float or None
        Mean and standard deviation of Spearman's ρ to the dense ranking; the latter is None with one seed.
    coverage : float or None
        Share of agents whose 95 % interval covers their dense ability, both centred; None without intervals.
    half_width : float or None
        Mean half-width of these intervals; None without intervals.
    regret : float or None
        Dense ability of the best agent minus that of the agent that ranks first.
    recall : float or None
        Share of the dense top k that is found, for the `top` of the study.
    recalls : dict of int to float or None
        The same by k, for all `tops` of the study.
    """

    percent: float
    budget_label: str = ""
    infeasible_reason: str | None = None
    trials: float | None = None
    calls: float | None = None
    usd: float | None = None
    cells: float | None = None
    blocks: float | None = None
    rho_mean: float | None = None
    rho_sd: float | None = None
    coverage: float | None = None
    half_width: float | None = None
    regret: float | None = None
    recall: float | None = None
    recalls: dict[int, float] | None = None


@dataclass(frozen=True)
class BudgetStudy:
    """Comparison of designs and budgets.

    Attributes
    ----------
    target : {"symmetric", "row"}
        Kind of the scores of the dense ranking.
    dense_calls : int
        Calls of a dense plan.
    halves : SplitHalf
        Split-half reliability of the items in the dense ranking.
    fpr : float
        Mean independent answer in [0, 1]; 0 if the run has none.
    r2 : float
        R² of ability − difficulty on the dense scores.
    top, tops : int, tuple of int
        k of the recall that a goal refers to, and all k of the reported recalls.
    n_seeds : int
        Number of seeds.
    designs : dict of str to tuple of BudgetRow
        Rows by design.
    """

    target: ScoreKind
    dense_calls: int
    halves: SplitHalf
    fpr: float
    r2: float
    top: int
    tops: tuple[int, ...]
    n_seeds: int
    designs: dict[str, tuple[BudgetRow, ...]]


class PlanLimit(NamedTuple):
    """Limit on the calls of a plan: a budget, or the half-width that its intervals must reach."""

    budget: CallBudget | None
    half_width: float = 0.0

    def __str__(self) -> str:
        return f"± {self.half_width:g}" if self.budget is None else str(self.budget.plain)

    @property
    def percent(self) -> float:
        """Percent of the dense calls; NaN if the limit is another one."""
        return self.budget.value if self.budget is not None and self.budget.unit == "%" else np.nan

    def plan(self, pool: Pool, design: str, *, seed: int) -> Plan:
        """Plan without a holdout. Raises: PlanError if the design cannot be planned within the limit."""
        if self.budget is not None:
            return make_plan(pool, design=design, calls=self.budget.plain, holdout=0.0, seed=seed)
        if design not in ("cyclic", "adaptive", "fixed-width"):
            raise PlanError(
                f"The design '{design}' cannot plan for a half-width. Set cyclic, adaptive or width.",
                slug="width-design",
            )
        name = "fixed-width" if design == "cyclic" else design
        return make_plan(pool, design=name, options={"half_width": self.half_width}, holdout=0.0, seed=seed)


class Estimate(NamedTuple):
    """Abilities and their confidence bounds, float arrays (n_agents,); bounds are NaN without an interval."""

    ability: Floats
    low: Floats
    high: Floats


def study_budget(
    recorded: RecordedAnswers,
    *,
    designs: Sequence[str] = ("cyclic", "nlogn"),
    calls: Sequence[int | str] = (),
    half_widths: Sequence[float] = (),
    n_seeds: int = 100,
    target: ScoreKind = "symmetric",
    top: int | None = None,
    usd_per_call: float | None = None,
    progress: Progress | None = None,
) -> BudgetStudy:
    """Compare designs at several budgets with the dense ranking.

    Plans are answered from recorded answers, without calls.

    Parameters
    ----------
    recorded : RecordedAnswers
        Answers to replay.
    designs : sequence of str, default ("cyclic", "nlogn")
        Registered designs.
    calls : sequence of int or str, optional
        Budgets, such as 5000, "2%" or "450/agent".
    half_widths : sequence of float, optional
        Half-widths to reach, instead of or in addition to `calls`. Without either, the first three of `DEFAULT_BUDGETS`
        at which a design can be planned are studied.
    n_seeds : int, default 100
        Plans per design and budget. No cell is held out.
    target : {"symmetric", "row"}, default "symmetric"
        Kind of the scores. With "row", plans of complete blocks are ranked by the mean of trials that show the agent
        first, without intervals, and other plans by `ClippedLinear` on row scores.
    top : int, optional
        k of the recall that goals refer to, reported together with those of 1, 3 and 5. Default: 5, or n_agents − 1 if
        that is less.
    usd_per_call : float, optional
        Price of a call in USD.
    progress : Progress, optional
        Receiver of progress updates.

    Returns
    -------
    BudgetStudy
        One row per design and budget.

    Raises
    ------
    PlanError
        [budget-none-fits] if no design can be planned at any budget.
    ConfigError
        [unknown-design] if a design is not registered.
    StatisticsError
        [study-seeds] if `n_seeds` is below 1; [budget-top] if `top` does not fit the number of agents;
        [metric-constant] if a ranking does not vary.
    """
    dense = _fit_dense_ability(recorded.scores(target))
    top, tops = _resolve_tops(int((~np.isnan(dense)).sum()), top)
    requested = [*map(_parse_budget, calls), *(PlanLimit(None, half_width) for half_width in half_widths)]
    n_rows = len(requested) or N_DEFAULT_BUDGETS
    rows_by_design: dict[str, tuple[BudgetRow, ...]] = {}
    with open_grid(n_seeds, n_rows=len(designs) * n_rows, what="plans tried", progress=progress) as evaluate_row:
        for design in designs:
            rows: list[BudgetRow] = []
            for limit in requested or map(_parse_budget, DEFAULT_BUDGETS):
                compute_figures = partial(_compute_figures, recorded, dense, design, limit, target=target, tops=tops)
                figures = evaluate_row(compute_figures)
                is_last_resort = str(limit) == DEFAULT_BUDGETS[-1] and not rows
                if requested or not isinstance(figures, PlanError) or is_last_resort:
                    rows.append(_make_row(figures, limit, recorded=recorded, top=top, tops=tops, price=usd_per_call))
                if len(rows) == n_rows:
                    break
            rows_by_design[design] = tuple(rows)

    reasons = [row.infeasible_reason for rows in rows_by_design.values() for row in rows]
    if all(reasons):
        raise PlanError(
            f"No design can be planned at any of these budgets: {reasons[0]} Set larger ones.", slug="budget-none-fits"
        )
    has_independent = np.isfinite(recorded.independent).any()
    return BudgetStudy(
        target=target,
        dense_calls=recorded.n_dense_calls,
        halves=compute_split_half(recorded.scores(target), _fit_dense_ability, tops=tops),
        fpr=float(np.nanmean(recorded.independent)) if has_independent else 0.0,
        r2=ClippedLinear().fit(recorded.scores(target)).r2_,
        top=top,
        tops=tops,
        n_seeds=n_seeds,
        designs=rows_by_design,
    )


def _parse_budget(calls: int | str) -> PlanLimit:
    return PlanLimit(CallBudget.parse(calls))


def _resolve_tops(n_agents: int, top: int | None) -> tuple[int, tuple[int, ...]]:
    """Return `top` or its default, and all k to report.

    Raises: StatisticsError [budget-top] unless 1 ≤ top < n_agents.
    """
    top = min(5, n_agents - 1) if top is None else top
    if not 1 <= top < n_agents:
        raise StatisticsError(
            f"The top must have 1 to {n_agents - 1} of {n_agents} agents: got {top}. Set another number.",
            slug="budget-top",
        )
    return top, tuple(sorted({k for k in DEFAULT_TOPS if k < n_agents} | {top}))


def _make_row(
    figures: Floats | PlanError,
    limit: PlanLimit,
    *,
    recorded: RecordedAnswers,
    top: int,
    tops: tuple[int, ...],
    price: float | None,
) -> BudgetRow:
    """Average the figures of one design at one budget.

    figures : float array (n_seeds, 8 + n_tops), or the error if the design cannot be planned
    """
    if isinstance(figures, PlanError):
        return BudgetRow(limit.percent, str(limit), figures.message)
    calls, trials, cells, blocks, rho, covered, half_width, regret, *shares = figures.mean(axis=0).tolist()
    recalls = dict(zip(tops, shares, strict=True))
    return BudgetRow(
        percent=100 * calls / recorded.n_dense_calls if np.isnan(limit.percent) else limit.percent,
        budget_label=str(limit),
        trials=trials,
        calls=calls,
        usd=None if price is None else calls * price,
        cells=cells,
        blocks=blocks or None,
        rho_mean=rho,
        rho_sd=float(figures[:, 4].std(ddof=1)) if len(figures) > 1 else None,
        coverage=or_none(covered),
        half_width=or_none(half_width),
        regret=regret,
        recall=recalls[top],
        recalls=recalls,
    )


def _compute_figures(
    recorded: RecordedAnswers,
    dense: Floats,
    design: str,
    limit: PlanLimit,
    seed: int,
    *,
    target: ScoreKind,
    tops: tuple[int, ...],
) -> list[float]:
    """Compute calls, trials per agent, cells, blocks, ρ, coverage, half-width, regret and recalls of one plan."""
    verdicts = run_rounds(limit.plan(recorded.pool, design, seed=seed), partial(replay, recorded=recorded))
    plan, estimate = verdicts.plan, estimate_abilities(verdicts, target=target)
    n_paired = int((plan.trial_type == PAIRED).sum())

    # coverage of centred abilities
    mean, centred_dense = np.nanmean(estimate.ability), dense - np.nanmean(dense)
    has_interval = ~(np.isnan(estimate.low) | np.isnan(centred_dense))
    is_covered = (estimate.low - mean <= centred_dense) & (centred_dense <= estimate.high - mean)
    covered, half_width = np.nan, np.nan
    if has_interval.any():
        covered = float(is_covered[has_interval].mean())
        half_width = float((estimate.high - estimate.low)[has_interval].mean() / 2)
    return [
        len(plan),
        2 * n_paired / plan.n_agents,
        compute_coverage(plan).cells,
        int(plan.block.max()) + 1,
        rank_correlation(estimate.ability, dense),
        covered,
        half_width,
        float(np.nanmax(dense) - dense[np.nanargmax(estimate.ability)]),
        *(top_recall(estimate.ability, dense, top) for top in tops),
    ]


def estimate_abilities(result: Verdicts, *, target: ScoreKind) -> Estimate:
    """Estimate abilities and their intervals, as a ranking does for symmetric scores.

    For "row", plans of complete blocks use the mean of trials that show the agent first, without intervals, and other
    plans `ClippedLinear` on row scores.
    """
    plan, ranked = result.plan, trial_abilities_from_verdicts(result)
    if target == "row" and ranked is None:
        fit = ClippedLinear().fit(result.rates().training_scores(kind="row"))
        return Estimate(fit.ability_, fit.low_, fit.high_)
    if target == "row":
        no_bound = np.full(plan.n_agents, np.nan)
        return Estimate(paired_mean_first(result), no_bound, no_bound)
    ranked = ranked or fit_trials(TrialsByItem.from_verdicts(result)).abilities
    return Estimate(ranked.ability, ranked.low, ranked.high)


def _fit_dense_ability(scores: Floats) -> Floats:
    return ClippedLinear().fit(scores).ability_
