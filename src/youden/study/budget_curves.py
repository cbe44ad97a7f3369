"""Study what each design achieves at each number of calls: accuracy of the ranking, interval width, coverage, regret.

Figures are means over seeds, reported with their upper limit, the split-half reliability of the items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from youden.errors import PlanError, StatisticsError
from youden.pipeline import ranking
from youden.pipeline.rounds import run_rounds
from youden.protocol.coverage import compute_coverage
from youden.protocol.plan import make_plan
from youden.run_keys import CallBudget
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.metrics import spearman
from youden.streams import standalone_stream
from youden.study.grid import open_grid
from youden.study.replaying import RecordedAnswers, estimate_row_abilities, replay
from youden.types import PAIRED, Plan, Pool, Progress, Verdicts
from youden.types.pool import Floats, Positions, or_none
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
    """Compute how well the rankings by two random halves of the items agree: their split-half reliability.

    Parameters
    ----------
    scores : float array (n_agents, n_items)
        Scores, NaN if unobserved; at least 2 items.
    fit_ability : callable
        Takes the scores of some items, and returns abilities, float array (n_agents,), NaN for an agent without scores.
    tops : tuple of int
        Numbers k of top agents, at least 1, for which the recall is computed. If k exceeds n_agents, the recall is 1.

    Returns
    -------
    SplitHalf
        Means over 20 random splits (`N_SPLITS`) with fixed seeds. `rho` is Spearman's ρ between the two halves, and `rho_sd` its
        SD over the splits. `recalls` has, by k, the share of the top k agents of one half that are in the top k of the other. ρ
        is not extrapolated to all items. Agents without an ability in one of the halves are left out of ρ.

    Raises
    ------
    StatisticsError
        [metric-constant] if the abilities by a half do not vary.
    """
    n_items = scores.shape[1]
    n_first = n_items // 2
    measures_by_split = []
    for seed in range(N_SPLITS):
        order = standalone_stream(seed).permutation(n_items)
        first_ability = fit_ability(scores[:, order[:n_first]])
        second_ability = fit_ability(scores[:, order[n_first:]])
        recalls = [top_recall(first_ability, second_ability, top) for top in tops]
        measures_by_split.append([rank_correlation(first_ability, second_ability), *recalls])

    rho, *mean_recalls = np.mean(measures_by_split, axis=0).tolist()
    rho_sd, *_ = np.std(measures_by_split, axis=0, ddof=1).tolist()
    return SplitHalf(rho, rho_sd, dict(zip(tops, mean_recalls, strict=True)))


def rank_correlation(a: Floats, b: Floats) -> float:
    """Compute Spearman's ρ of two estimates of abilities, over the agents that have both.

    a, b : float arrays (n_agents,), NaN if missing

    Raises StatisticsError [metric-constant] if one does not vary.
    """
    is_common = ~(np.isnan(a) | np.isnan(b))
    return spearman(a[is_common], b[is_common]).value


def top_recall(ability: Floats, dense: Floats, top: int) -> float:
    """Compute the share of the `top` best agents by `dense` that are also among the `top` best by `ability`.

    Both are float arrays (n_agents,). Of agents with equal abilities, the earlier one ranks first; NaN ranks last. `top` is
    at least 1; above n_agents, the result is 1.

    >>> top_recall(np.array([3.0, 1.0, 2.0]), np.array([3.0, 2.0, 1.0]), 2)
    0.5
    """
    estimated_top = _find_top(ability, top)
    dense_top = _find_top(dense, top)
    return float(np.isin(dense_top, estimated_top).mean())


def _find_top(ability: Floats, top: int) -> Positions:
    """Return the positions of the agents with the highest abilities; NaN counts as the lowest ability."""
    order = np.argsort(-np.nan_to_num(ability, nan=-np.inf), kind="stable")
    return order[:top]


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
        Share of agents whose 95% interval covers their dense ability, both centered; None without intervals.
    half_width : float or None
        Mean half-width of these intervals; None without intervals.
    regret : float or None
        Dense ability of the best agent minus dense ability of the agent that ranks first.
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
        """Budget in percent of the dense calls; NaN if the limit is not a percentage."""
        return self.budget.value if self.budget is not None and self.budget.unit == "%" else np.nan

    def draw_plan(self, pool: Pool, design: str, *, seed: int) -> Plan:
        """Draw a plan of a design whose number of calls respects this limit, without held-out cells.

        If the limit is a half-width, the design must be able to add calls until the intervals are narrow enough: "adaptive",
        "fixed-width", or "cyclic", which is planned as "fixed-width".

        Parameters
        ----------
        pool : Pool
            Responses of the agents.
        design : str
            Name of a registered design.
        seed : int
            Seed of the random draws.

        Returns
        -------
        Plan
            The plan, or its first round if the design plans in rounds.

        Raises
        ------
        PlanError
            If the plan cannot be drawn, for example [width-design] if the design cannot plan for a half-width.
        ConfigError
            [unknown-design]: if the limit is a number of calls and the design is not registered.
        """
        if self.budget is not None:
            return make_plan(pool, design=design, calls=self.budget.plain, holdout=0.0, seed=seed)

        if design not in ("cyclic", "adaptive", "fixed-width"):
            raise PlanError(
                f"The design '{design}' cannot plan for a half-width. Set cyclic, adaptive or fixed-width.",
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
        Budgets, for example 5000 calls, "2%" of the dense calls, or "450/agent" (paired trials per agent).
    half_widths : sequence of float, optional
        Half-widths of intervals to reach, in units of the abilities, instead of or in addition to `calls`. A design that
        cannot be planned for a budget or a half-width gets a row without results, which states the reason. Without
        `calls` and `half_widths`, the first three of 1%, 2%, 5%, 10%, 20%, 50% and 100% of the dense calls at which a design
        can be planned are studied.
    n_seeds : int, default 100
        Plans per design and budget, at least 1. No cell is held out.
    target : {"symmetric", "row"}, default "symmetric"
        Kind of the scores. A "symmetric" score is the mean of all comparisons of an agent, in both orders of the two
        responses. A "row" score only uses comparisons that show the response of the agent first. With "row", plans of
        complete blocks are ranked by the mean of these trials, without intervals, and other plans by `ClippedLinear` on
        row scores.
    top : int, optional
        Number k of best agents whose recall a goal can require, at least 1 and below the number of ranked agents. The recalls
        for k = 1, 3 and 5 are reported, too, if k is below this number. Default: 5, or n_agents − 1 if this is less.
    usd_per_call : float, optional
        Price of a call in USD. Default: unknown, so costs are None.
    progress : Progress, optional
        Receiver of progress updates.

    Returns
    -------
    BudgetStudy
        One row per design and budget, for example with the mean of Spearman's ρ to the dense ranking, the coverage of intervals,
        the regret and the recall. Also the split-half reliability of the dense ranking, the FPR and R².

    Raises
    ------
    PlanError
        [budget-none-fits] if no design can be planned at any budget; [calls-invalid] if an element of `calls` is not a budget.
    ConfigError
        [unknown-design] if a design is not registered.
    StatisticsError
        [study-seeds] if `n_seeds` is below 1; [budget-top] if `top` does not fit the number of agents;
        [metric-constant] if a ranking does not vary.
    """
    dense_ability = _fit_dense_ability(recorded.scores(target))
    n_ranked = int((~np.isnan(dense_ability)).sum())
    top, tops = _choose_numbers_of_top_agents(n_ranked, top)
    requested = [_parse_budget(budget) for budget in calls]
    requested += [PlanLimit(None, half_width) for half_width in half_widths]
    limits = requested or [_parse_budget(budget) for budget in DEFAULT_BUDGETS]
    n_rows = len(requested) or N_DEFAULT_BUDGETS
    rows_by_design: dict[str, tuple[BudgetRow, ...]] = {}
    with open_grid(n_seeds, n_rows=len(designs) * n_rows, what="plans tried", progress=progress) as evaluate_row:
        for design in designs:
            rows: list[BudgetRow] = []
            for limit in limits:
                compute_measures = partial(
                    _compute_measures, recorded, dense_ability, design, limit, kind=target, tops=tops
                )
                measures = evaluate_row(compute_measures)
                # a default budget at which the design cannot be planned is skipped, unless it is the last one
                is_last_resort = str(limit) == DEFAULT_BUDGETS[-1] and not rows
                if requested or not isinstance(measures, PlanError) or is_last_resort:
                    rows.append(_make_row(measures, limit, recorded=recorded, top=top, tops=tops, price=usd_per_call))
                if len(rows) == n_rows:
                    break
            rows_by_design[design] = tuple(rows)

    reasons = [row.infeasible_reason for rows in rows_by_design.values() for row in rows]
    if all(reasons):
        raise PlanError(
            f"No design can be planned at any of these budgets. The first reason is: {reasons[0]}",
            slug="budget-none-fits",
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
    """Parse a budget, such as 5000, "2%" or "450/agent"."""
    return PlanLimit(CallBudget.parse(calls))


def _choose_numbers_of_top_agents(n_agents: int, top: int | None) -> tuple[int, tuple[int, ...]]:
    """Choose the numbers k for which a study reports the recall: the share of the k best agents that a ranking finds.

    n_agents : number of ranked agents
    top : number k to which the goal of the study refers; None for min(5, n_agents − 1)

    Returns the number for the goal, and all numbers in ascending order. Raises StatisticsError [budget-top] unless
    1 ≤ top < n_agents.
    """
    if top is None:
        top = min(5, n_agents - 1)
    if top < 1 or top >= n_agents:
        raise StatisticsError(
            f"The top must have 1 to {n_agents - 1} of {n_agents} agents: got {top}. Set another number.",
            slug="budget-top",
        )
    possible_defaults = {k for k in DEFAULT_TOPS if k < n_agents}
    reported_numbers = possible_defaults.union([top])
    return top, tuple(sorted(reported_numbers))


def _make_row(
    measures: Floats | PlanError,
    limit: PlanLimit,
    *,
    recorded: RecordedAnswers,
    top: int,
    tops: tuple[int, ...],
    price: float | None,
) -> BudgetRow:
    """Average the measures of one design at one budget over seeds.

    measures : float array (n_seeds, n_measures), one row of `_Measures` per seed, or the error if the design cannot be
        planned
    limit : budget of the design
    top : number k of top agents. The recall for this k becomes the field `recall` of the row.
    tops : all numbers k for which the measures contain a recall, in the order of the measures
    price : price of a call in USD; None if it is unknown
    """
    if isinstance(measures, PlanError):
        return BudgetRow(limit.percent, str(limit), measures.message)

    n_single = len(_Measures._fields)
    means = measures.mean(axis=0).tolist()
    mean = _Measures(*means[:n_single])
    mean_recalls = dict(zip(tops, means[n_single:], strict=True))
    rho_sd = None
    if len(measures) > 1:
        rho_by_seed = measures[:, _Measures._fields.index("rho")]
        rho_sd = float(rho_by_seed.std(ddof=1))

    percent = limit.percent
    if np.isnan(percent):  # the limit is not a percentage of the dense calls
        percent = 100 * mean.calls / recorded.n_dense_calls
    return BudgetRow(
        percent=percent,
        budget_label=str(limit),
        trials=mean.trials,
        calls=mean.calls,
        usd=None if price is None else mean.calls * price,
        cells=mean.cells,
        blocks=mean.blocks or None,
        rho_mean=mean.rho,
        rho_sd=rho_sd,
        coverage=or_none(mean.coverage),
        half_width=or_none(mean.half_width),
        regret=mean.regret,
        recall=mean_recalls[top],
        recalls=mean_recalls,
    )


class _Measures(NamedTuple):
    """Measures of a design with one seed, except the recalls: see the attributes of `BudgetRow` with the same names."""

    calls: float
    trials: float
    cells: float
    blocks: float
    rho: float
    coverage: float
    half_width: float
    regret: float


def _compute_measures(
    recorded: RecordedAnswers,
    dense_ability: Floats,
    design: str,
    limit: PlanLimit,
    seed: int,
    *,
    kind: ScoreKind,
    tops: tuple[int, ...],
) -> list[float]:
    """Draw a plan with one seed, answer it from recorded answers, and compute the measures of its ranking.

    dense_ability : float array (n_agents,), abilities by all answers
    limit : budget of the plan, or the half-width of its intervals
    kind : kind of the scores from which abilities are estimated, "symmetric" or "row"
    tops : numbers k of top agents whose recall is computed

    Returns the values of `_Measures`, then one recall per number in `tops`. Raises PlanError if the plan cannot be drawn.
    """
    first_plan = limit.draw_plan(recorded.pool, design, seed=seed)
    verdicts = run_rounds(first_plan, partial(replay, recorded=recorded))
    estimate = estimate_abilities(verdicts, kind=kind)
    measures = _measure_ranking(verdicts.plan, estimate, dense_ability)
    recalls = [top_recall(estimate.ability, dense_ability, top) for top in tops]
    return [*measures, *recalls]


def _measure_ranking(plan: Plan, estimate: Estimate, dense_ability: Floats) -> _Measures:
    """Compute the size of a plan, and measure how well its ranking agrees with the ranking of the dense run.

    The dense run has answers to all possible trials; the plan uses some of them.

    plan : plan with the trials of all rounds
    estimate : abilities estimated from the trials of the plan, with their intervals
    dense_ability : float array (n_agents,), abilities estimated from the dense run
    """
    n_paired = int((plan.trial_type == PAIRED).sum())
    trials_per_agent = 2 * n_paired / plan.n_agents  # a trial has two agents
    coverage, half_width = _measure_intervals(estimate, dense_ability)

    # dense ability of the best agent, minus that of the agent that the plan ranks first
    ranked_first = np.nanargmax(estimate.ability)
    regret = float(np.nanmax(dense_ability) - dense_ability[ranked_first])

    return _Measures(
        calls=len(plan),
        trials=trials_per_agent,
        cells=compute_coverage(plan).cells,
        blocks=int(plan.block.max()) + 1,
        rho=rank_correlation(estimate.ability, dense_ability),
        coverage=coverage,
        half_width=half_width,
        regret=regret,
    )


def _measure_intervals(estimate: Estimate, dense_ability: Floats) -> tuple[float, float]:
    """Compute the coverage and the mean half-width of the confidence intervals of a plan's abilities.

    Coverage is the fraction of the intervals that contain the agent's dense ability, which is estimated from the answers to all
    trials. The mean ability is arbitrary, so it is subtracted first.

    estimate : abilities by the trials of the plan, with their intervals
    dense_ability : float array (n_agents,)

    Returns the coverage and the mean half-width; both are NaN if no agent has an interval.
    """
    mean = np.nanmean(estimate.ability)
    centered_low = estimate.low - mean
    centered_high = estimate.high - mean
    centered_dense = dense_ability - np.nanmean(dense_ability)

    has_interval = ~(np.isnan(estimate.low) | np.isnan(centered_dense))
    if not has_interval.any():
        return np.nan, np.nan
    is_covered = (centered_low <= centered_dense) & (centered_dense <= centered_high)
    coverage = float(is_covered[has_interval].mean())
    half_width = float((estimate.high - estimate.low)[has_interval].mean() / 2)
    return coverage, half_width


def estimate_abilities(result: Verdicts, *, kind: ScoreKind) -> Estimate:
    """Estimate abilities and their intervals from the answers to a plan.

    Parameters
    ----------
    result : Verdicts
        Trials with their answers.
    kind : {"symmetric", "row"}
        Kind of the scores. "symmetric" uses all trials of an agent: abilities are estimated as for the ranking of a run. "row"
        uses only the trials that show the agent first. If the plan has complete blocks, abilities are then means of these
        trials, without intervals; for other plans, they are fitted by `ClippedLinear`.

    Returns
    -------
    Estimate
        Abilities with the bounds of their 95% intervals, which are NaN if there are none.
    """
    if kind == "symmetric":
        abilities = ranking.estimate_abilities(result)
        half_width = abilities.covariance.half_width()  # of the distance from the average agent
        return Estimate(abilities.ability, abilities.ability - half_width, abilities.ability + half_width)

    has_complete_blocks = ranking.trial_abilities_from_verdicts(result) is not None
    if has_complete_blocks:
        no_bound = np.full(result.plan.n_agents, np.nan)
        return Estimate(estimate_row_abilities(result), no_bound, no_bound)

    fit = ClippedLinear().fit(result.rates().training_scores(kind="row"))
    return Estimate(fit.ability_, fit.low_, fit.high_)


def _fit_dense_ability(scores: Floats) -> Floats:
    """Fit the additive model to scores, float array (n_agents, n_items), and return the abilities, (n_agents,)."""
    return ClippedLinear().fit(scores).ability_
