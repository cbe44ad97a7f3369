"""What each design buys at each number of calls: rank correlation, top-k recall, interval width and coverage, beside how
alike two halves of the items rank.

The figures are means over seeds; `budget_goals` says what they support.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from youden.engines.trial_blocks import TrialsByItem
from youden.errors import PlanError, StatisticsError
from youden.pipeline.additive_abilities import fitted
from youden.pipeline.ranking import abilities_of
from youden.pipeline.rounds import run_rounds
from youden.protocol.coverage import coverage
from youden.protocol.plan import make_plan
from youden.run_keys import CallBudget
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.metrics import spearman
from youden.streams import own_stream
from youden.study.grid import grid
from youden.study.replaying import World, paired_mean_first, replay
from youden.types import PAIRED, Plan, Pool, Progress, Verdicts
from youden.types.pool import Floats, or_none
from youden.types.results import ScoreKind

TOPS = (1, 3, 5)
N_SPLITS = 20


@dataclass(frozen=True)
class HalvesOfItems:
    """ρ between the dense rankings of two disjoint halves of the items, mean and SD over splits.

    recalls: by k, the mean share of one half's top k that is in the other's.
    """

    rho: float
    rho_sd: float
    recalls: dict[int, float]


def half_items(scores: Floats, ability: Callable[[Floats], Floats], *, tops: tuple[int, ...]) -> HalvesOfItems:
    """scores: float[K, J], NaN unseen; ability: from such scores to float[K]."""
    figures = []
    for seed in range(N_SPLITS):
        order, half = own_stream(seed).permutation(scores.shape[1]), scores.shape[1] // 2
        one, other = (ability(scores[:, part]) for part in (order[:half], order[half:]))
        figures.append([seen_correlation(one, other), *(top_recall(one, other, top) for top in tops)])
    mean, spread = np.mean(figures, axis=0).tolist(), np.std(figures, axis=0, ddof=1).tolist()
    return HalvesOfItems(mean[0], spread[0], dict(zip(tops, mean[1:], strict=True)))


def seen_correlation(one: Floats, other: Floats) -> float:
    """Spearman's ρ over the agents that both rank. Raises: StatisticsError [metric-constant]."""
    both = ~(np.isnan(one) | np.isnan(other))
    return spearman(one[both], other[both]).value


def top_recall(ability: Floats, dense: Floats, top: int) -> float:
    """Share of the dense top k among the estimated top k, in [0, 1]; of equals the earlier agent goes first. NaN goes last.

    >>> top_recall(np.array([3.0, 1.0, 2.0]), np.array([3.0, 2.0, 1.0]), 2)
    0.5
    """
    best, true = (np.argsort(-np.nan_to_num(value, nan=-np.inf), kind="stable")[:top] for value in (ability, dense))
    return float(np.isin(true, best).mean())


LADDER = ("1%", "2%", "5%", "10%", "20%", "50%", "100%")
"""Budgets that are tried by default: of each design, the first `N_RUNGS` at which it can be drawn."""
N_RUNGS = 3


@dataclass(frozen=True)
class BudgetRow:
    """One design at one budget, over seeds.

    asked: what was asked for, as in `2%`, `450/agent` or `± 0.03`; percent: of the dense calls, asked for or come to; trials:
    paired ones an agent takes part in; calls, cells: spent and touched, means over seeds; usd: None where no price is known.
    rho: Spearman to the dense ranking, mean and SD; coverage: share of agents whose 95 % interval holds their dense distance
    from the mean agent; halfwidth: mean half width of those intervals. regret: by how much the dense best is better than who
    comes first. recall: share of the dense top k found, k the study's `top`; recalls: the same by k, for all its `tops`.
    Everything is None where the design cannot be drawn; `why` says so then. sd is None with one seed; coverage and
    halfwidth where the estimate has no interval.
    """

    percent: float
    asked: str = ""
    why: str | None = None
    trials: float | None = None
    calls: float | None = None
    usd: float | None = None
    cells: float | None = None
    slots: float | None = None
    rho_mean: float | None = None
    rho_sd: float | None = None
    coverage: float | None = None
    halfwidth: float | None = None
    regret: float | None = None
    recall: float | None = None
    recalls: dict[int, float] | None = None


@dataclass(frozen=True)
class BudgetStudy:
    """Rows by design. halves: how well the dense rankings of two disjoint halves of the items agree: a ceiling.

    top: whose recall a goal asks for; tops: whose recalls are given. fpr: mean independent answer in [0, 1], 0 where the run
    does not know it; r2: of ability − difficulty on the dense scores.
    """

    target: ScoreKind
    dense_calls: int
    halves: HalvesOfItems
    fpr: float
    r2: float
    top: int
    tops: tuple[int, ...]
    n_seeds: int
    designs: dict[str, tuple[BudgetRow, ...]]


class Amount(NamedTuple):
    """Limit on the calls of a plan: a budget, or else the half-width that its intervals must reach."""

    calls: CallBudget | None
    width: float = 0.0

    def __str__(self) -> str:
        return f"± {self.width:g}" if self.calls is None else str(self.calls.plain)

    @property
    def percent(self) -> float:
        """Percent of the dense calls; NaN if the limit is another one."""
        return self.calls.value if self.calls is not None and self.calls.unit == "%" else np.nan

    def plan(self, pool: Pool, design: str, *, seed: int) -> Plan:
        """Plan without a holdout. Raises: PlanError."""
        if self.calls is not None:
            return make_plan(pool, design=design, calls=self.calls.plain, holdout=0.0, seed=seed)
        if design not in ("cyclic", "adaptive", "width"):
            raise PlanError(
                f"The design '{design}' cannot ask until a width is there. Take cyclic.", slug="width-design"
            )
        name = "width" if design == "cyclic" else design
        return make_plan(pool, design=name, options={"width": self.width}, holdout=0.0, seed=seed)


class Estimate(NamedTuple):
    """float[K] each; low, high: NaN where there is no interval."""

    ability: Floats
    low: Floats
    high: Floats


def study_budget(
    world: World,
    *,
    designs: Sequence[str] = ("cyclic", "nlogn"),
    calls: Sequence[int | str] = (),
    widths: Sequence[float] = (),
    n_seeds: int = 100,
    target: ScoreKind = "symmetric",
    top: int | None = None,
    usd_per_call: float | None = None,
    progress: Progress | None = None,
) -> BudgetStudy:
    """Plans of every design at every budget, answered by `world`, against its dense ranking.

    No cell is held out. symmetric: ranked as `rank` does; row: trials in slots without gaps by the mean of those where an agent
    stands first (no interval), all else by `ClippedLinear` on row scores.
    calls: budgets as in `make_plan`; widths: half widths to ask until. Without either, of each design the first three of
        `LADDER` at which it can be drawn, 100% alone where it can nowhere.
    top: whose recall is told beside that of the top 1, 3 and 5; None: 5, or one fewer than there are agents.

    Raises: PlanError where no design can be drawn at any budget; ConfigError [unknown-design]; StatisticsError [study-seeds],
    [budget-top], [metric-constant].
    """
    dense = _dense_ability(world.scores(target))
    top, tops = _tops(int((~np.isnan(dense)).sum()), top)
    said = [*map(_amount, calls), *(Amount(None, width) for width in widths)]
    n_rows = len(said) or N_RUNGS
    rows: dict[str, tuple[BudgetRow, ...]] = {}
    with grid(n_seeds, n_rows=len(designs) * n_rows, what="plans tried", progress=progress) as drawn:
        for design in designs:
            found: list[BudgetRow] = []
            for amount in said or map(_amount, LADDER):
                figures = drawn(partial(_figures, world, dense, design, amount, target=target, tops=tops))
                if said or not isinstance(figures, PlanError) or (str(amount) == LADDER[-1] and not found):
                    found.append(_row(figures, amount, world=world, top=top, tops=tops, price=usd_per_call))
                if len(found) == n_rows:
                    break
            rows[design] = tuple(found)
    reasons = [row.why for named in rows.values() for row in named]
    if all(reasons):
        raise PlanError(f"No design fits any of these budgets: {reasons[0]} Give larger ones.", slug="budget-none-fits")
    return BudgetStudy(
        target=target,
        dense_calls=world.n_dense_calls,
        halves=half_items(world.scores(target), _dense_ability, tops=tops),
        fpr=float(np.nanmean(world.independent)) if np.isfinite(world.independent).any() else 0.0,
        r2=ClippedLinear().fit(world.scores(target)).r2_,
        top=top,
        tops=tops,
        n_seeds=n_seeds,
        designs=rows,
    )


def _amount(calls: int | str) -> Amount:
    return Amount(CallBudget.parse(calls))


def _tops(K: int, top: int | None) -> tuple[int, tuple[int, ...]]:
    """Whose recall is wanted, and that with `TOPS`, as far as `K` agents have them. Raises: StatisticsError [budget-top]."""
    top = min(5, K - 1) if top is None else top
    if not 1 <= top < K:
        raise StatisticsError(f"The top {top} of {K} agents were asked for. Give 1 to {K - 1}.", slug="budget-top")
    return top, tuple(sorted({k for k in TOPS if k < K} | {top}))


def _row(
    found: Floats | PlanError,
    amount: Amount,
    *,
    world: World,
    top: int,
    tops: tuple[int, ...],
    price: float | None,
) -> BudgetRow:
    if isinstance(found, PlanError):
        return BudgetRow(amount.percent, str(amount), found.message)
    calls, trials, cells, slots, rho, covered, halfwidth, regret, *shares = found.mean(axis=0).tolist()
    recalls = dict(zip(tops, shares, strict=True))
    return BudgetRow(
        percent=100 * calls / world.n_dense_calls if np.isnan(amount.percent) else amount.percent,
        asked=str(amount),
        trials=trials,
        calls=calls,
        usd=None if price is None else calls * price,
        cells=cells,
        slots=slots or None,
        rho_mean=rho,
        rho_sd=float(found[:, 4].std(ddof=1)) if len(found) > 1 else None,
        coverage=or_none(covered),
        halfwidth=or_none(halfwidth),
        regret=regret,
        recall=recalls[top],
        recalls=recalls,
    )


def _figures(
    world: World, dense: Floats, design: str, amount: Amount, seed: int, *, target: ScoreKind, tops: tuple[int, ...]
) -> list[float]:
    """Calls, trials an agent, cells, slots, ρ, coverage, half width, regret, and the recall of each of `tops`."""
    result = run_rounds(amount.plan(world.pool, design, seed=seed), partial(replay, world=world))
    plan, found = result.plan, estimate(result, target=target)
    centre, true = np.nanmean(found.ability), dense - np.nanmean(dense)
    bounded = ~(np.isnan(found.low) | np.isnan(true))
    inside = (found.low - centre <= true) & (true <= found.high - centre)
    return [
        len(plan),
        2 * int((plan.arm == PAIRED).sum()) / plan.n_agents,
        coverage(plan).cells,
        int(plan.slot.max()) + 1,
        seen_correlation(found.ability, dense),
        float(inside[bounded].mean()) if bounded.any() else np.nan,
        float((found.high - found.low)[bounded].mean() / 2) if bounded.any() else np.nan,
        float(np.nanmax(dense) - dense[np.nanargmax(found.ability)]),
        *(top_recall(found.ability, dense, top) for top in tops),
    ]


def estimate(result: Verdicts, *, target: ScoreKind) -> Estimate:
    """Abilities as `rank` gives them; row: of the trials where an agent stands first, or by `ClippedLinear` on row scores."""
    plan, found = result.plan, abilities_of(result)
    if target == "row" and found is None:
        fit = ClippedLinear().fit(result.rates().training_scores(kind="row"))
        return Estimate(fit.ability_, fit.low_, fit.high_)
    if target == "row":
        nothing = np.full(plan.n_agents, np.nan)
        return Estimate(paired_mean_first(result), nothing, nothing)
    found = found or fitted(TrialsByItem.of(result)).found
    return Estimate(found.ability, found.low, found.high)


def _dense_ability(scores: Floats) -> Floats:
    return ClippedLinear().fit(scores).ability_
