"""How sure a run will be: what its answers, or else four judged domains, let one expect of more and of fewer calls.

Where the run asks until a width is there, also what that takes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import ceil

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import PlanError, StatisticsError
from youden.pipeline.abilities import balanced
from youden.pipeline.ranking import standing_of
from youden.protocol.blocks import extensions_of
from youden.protocol.designs.adaptive import SHARE, Adaptive, Width, adaptive_of, width_of
from youden.stats.forecast import (
    DOMAINS,
    DomainRange,
    OwnVariances,
    alike_width,
    expected_recall,
    expected_regret,
    expected_rho,
    half_widths,
    items_for,
    nearest,
    odd_parts,
    parts_of,
    prior_half_width,
    prior_parts,
    range_of,
    slots_for,
)
from youden.stats.trials.trial_errors import item_contributions
from youden.types import PAIRED, Plan, Verdicts
from youden.types.facts import RunFacts
from youden.types.judging import AnswerKind
from youden.types.pool import Json

OWN = "the run's own answers"
TIMES = (0.5, 1.0, 2.0)
"""How many times its calls a plan's half-width is told for."""


def run_parts(result: Verdicts) -> OwnVariances:
    """Both parts of the variance of a plan in slots, from its answers. Raises: StatisticsError."""
    found = standing_of(result)
    plan = result.plan
    used = (plan.slot >= 0) & result.answered
    weight = plan.trials.weight_first[used]
    of = item_contributions(
        plan.first[used],
        plan.second[used],
        plan.item[used],
        result.answer[used],
        ability=found.ability,
        first_weight=weight,
        second_weight=weight,
        n_items=plan.n_items,
    )
    return parts_of(of, np.diag(found.covariance.covariance))


class Expected:
    """What the paired trials of a plan, `trials` per agent, are expected to give.

    `half_width` is the average agent's, by multiples of the plan's trials, as a range over reference data sets, or one number
    from the run's own answers; none for a plan without slots. `trials_needed` per agent give the half-width `width` that was
    asked for; it is None if these items do not allow it, and `items_needed` would. `rho` and `recall`, to a dense ranking,
    are None outside what was measured. `regret` is the expected regret of uniform allocation and of a search, by multiples of
    the trials. `max_regret` is the regret bound that a search aims at; on these items it stays above `lowest_bound`, and
    takes from `search_calls[0]` to `search_calls[1]` paired calls, the latter None if that exceeds all comparisons;
    `search_items` items would do. `source` states where the half-widths come from.
    """

    def __init__(self, plan: Plan, parts: OwnVariances | None = None, *, kind: AnswerKind = "yes or no") -> None:
        """parts: variance parts from the run's own answers, None if there are none; kind: of the judge's answers."""
        search = adaptive_of(plan) if plan.design == Adaptive.name else None
        design = width_of(plan) if plan.design == Width.name else None
        has_slots, n_items = bool((plan.slot >= 0).any()), plan.n_items
        n_paired = int((plan.arm == PAIRED).sum())
        self.n_apart = len(plan) - n_paired
        self.max_regret = None if search is None else search.within
        most = (plan.n_agents - 1) * n_items
        if self.max_regret is not None:
            self._set_search(self.max_regret, n_paired, prior_parts(kind), plan)
        elif search is not None:
            n_paired = search.budget(plan.split.train)
        self.trials = 2 * n_paired / plan.n_agents
        self.half_width: dict[float, DomainRange] = {}
        for times in TIMES if has_slots and search is None else ():
            n_slots = round(times * self.trials / 2)
            if 2 <= n_slots <= most:
                self.half_width[times] = (
                    prior_half_width(n_slots, n_items, kind)
                    if parts is None
                    else range_of(half_widths(parts, n_slots, n_items).mean(keepdims=True))
                )
        is_measured = has_slots and self.trials < 2 * most
        self.regret: dict[float, tuple[DomainRange, DomainRange]] = {}
        for times in TIMES if is_measured and self.max_regret is None else ():
            uniform, searched = (expected_regret(times * self.trials, search=by) for by in (False, True))
            if uniform is not None and searched is not None:
                self.regret[times] = uniform, searched
        self.width, self.trials_needed, self.items_needed = None if design is None else design.width, None, None
        if design is not None:
            share, each = (1.0, _each(odd_parts(SHARE, kind))) if parts is None else (SHARE, [parts])
            slots = [slots_for(one, design.width, share=share, n_items=n_items, most=most) for one in each]
            enough = [2.0 * n for n in slots if n is not None]
            self.trials_needed = range_of(np.array(enough)) if enough else None
            if not enough:
                items = [items_for(one, design.width, share=share, n_agents=plan.n_agents) for one in each]
                self.items_needed = min((n for n in items if n is not None), default=None)
        has_forecast = is_measured and search is None
        self.rho = expected_rho(self.trials, kind) if has_forecast else None
        self.recall = expected_recall(self.trials, kind) if has_forecast else None
        self.domains = ", ".join(one.name for one in DOMAINS[kind])
        self.source = OWN if parts else f"{self.domains}, by {kind} answers; this run has no answers yet"

    def _set_search(self, max_regret: float, n_paired: int, prior: OwnVariances, plan: Plan) -> None:
        each, n_items, most = _each(prior), plan.n_items, (plan.n_agents - 1) * plan.n_items
        width = alike_width(max_regret, plan.n_agents)
        slots = [slots_for(one, width, share=1.0, n_items=n_items, most=most) for one in each]
        limits = np.array([nearest(one, n_items) for one in each])
        self.lowest_bound = range_of(limits)
        self.search_items = ceil(n_items * (float(limits.mean()) / max_regret) ** 2)
        self.search_calls = (n_paired, None if None in slots else max(n or 0 for n in slots) * plan.n_agents)

    @property
    def usual_half_width(self) -> str | None:
        """At the plan's own trials, over reference data sets; None if nothing is expected."""
        return _span(self.half_width[1.0]) if 1.0 in self.half_width else None

    def to_json(self) -> dict[str, Json]:
        """Return all of it as `youden run --json` prints it."""
        names = ("n_apart", "width", "trials_needed", "items_needed", "rho", "recall", "regret", "source", "domains")
        ranges = {name: getattr(self, name) for name in names}
        ranges |= {name: value._asdict() for name, value in ranges.items() if isinstance(value, DomainRange)}
        half_width: Json = {f"{times:g}": width._asdict() for times, width in self.half_width.items()}
        reach: Json = None
        if self.max_regret is not None:
            reach = [self.max_regret, list(self.lowest_bound), self.search_items, list(self.search_calls)]
        return {"trials": self.trials, "half_width": half_width, **ranges, "reach": reach}


def _each(parts: OwnVariances) -> list[OwnVariances]:
    return [OwnVariances(*row) for row in np.array(parts).T[:, :, None]]


def known_parts(folder: RunFolder) -> OwnVariances | None:
    """By the answers in a run's folder; None where there are too few, and where the run was extended or has no whole slots."""
    if not (folder.has("verdicts.parquet") and folder.has("plan.parquet")):
        return None
    kept = folder.read_plan()
    if kept.digest == folder.judged_plan() and balanced(kept) and not extensions_of(kept).steps:
        with suppress(StatisticsError):
            return run_parts(folder.read_verdicts(kept))
    return None


_LARGE = 2_000_000
"""Trials above which answers are not read again to say how many more would tell."""
_OUT_OF_SIGHT = 100
"""Times its items from which on nobody is told to find more."""
_FIRST = 1.3
"""How much wider than a pair's own interval the bound is that allows for having come first, about."""


def format_next_step(folder: RunFolder, facts: RunFacts, *, usd_per_call: float | None) -> str:
    """Format how many more calls or items would separate the first two candidates.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.
    facts : RunFacts
        Facts of its fit.
    usd_per_call : float or None
        Price of a call; None if it is unknown.

    Returns
    -------
    str
        Approximate number, price and command; empty if more calls would not help, because agents cannot be compared, the judge
        does not discriminate, or the run has its recommendation.

    Notes
    -----
    With that many, the half-width of the 95 % interval of the difference is below the difference itself, estimated from the
    run's own answers. If these do not show how much items matter, the half-width is assumed to be proportional to 1/√trials.

    If the run has an extension that was stopped, the next step is to finish it, because until then another one is refused.
    """
    unfinished = folder.read_config().unfinished
    if unfinished is not None and len(extensions_of(folder.read_plan_alone()).steps) <= unfinished.number:
        return f"finish the extension that was stopped: `{unfinished.command(folder.path)}`"
    choice = facts.choice
    if (
        choice is None
        or not choice.as_good
        or not facts.signal.discriminates
        or facts.recommendation.form == "recommended"
    ):
        return ""
    run, plan = shlex.quote(str(folder.path)), folder.read_plan()
    if plan.rounds is not None:
        return f"with more `calls:` in {folder.file('config.yaml')} the same command resumes the search"
    two = [choice.agents[-1], choice.as_good[0]]
    slots, items = _told_apart_by(folder, plan, two)
    if slots is None:
        if items is None or items > _OUT_OF_SIGHT * plan.n_items:
            return f"{' and '.join(two)} may well be equally good: {_OUT_OF_SIGHT} times as many items might not separate them"
        return f"about {items:,} more items would separate {' and '.join(two)}: `youden extend items {run} POOL`"
    # A call places an agent that is focused on; a slot of K calls gives everybody two.
    focus = plan.n_agents > 2 * len(two)
    calls = slots * 2 * (len(two) if focus else plan.n_agents)
    usd = f", ${usd_per_call * calls:,.2f}" if usd_per_call else ""
    names = shlex.join(word for name in two for word in ("--focus", name))
    command = f"youden extend calls {run} {calls}{f' {names}' if focus else ''}"
    return f"about {calls:,} more calls{usd} would separate {' and '.join(two)}: `{command}`"


def _told_apart_by(folder: RunFolder, plan: Plan, two: Sequence[str]) -> tuple[int | None, int | None]:
    """Slots more that may tell two agents apart; where these items have not so many, None, and the items more that may."""
    K, J = plan.n_agents, plan.n_items
    rows = {row.agent: row for row in folder.read_ranking()}
    ability, half = [], 0.0
    for name in two:
        row = rows[name]
        if row.ability is None or row.low is None or row.high is None:
            return None, None
        ability.append(row.ability)
        half += ((row.high - row.low) / 2) ** 2
    apart = abs(ability[0] - ability[1]) / _FIRST
    if not apart > 0:
        return None, None
    now, most = int((plan.arm == PAIRED).sum()) / K, (K - 1) * J
    parts = None if len(plan) > _LARGE else known_parts(folder)
    if parts is None:
        need = now * half / apart**2
        times = max(need / now, 1.1)
        return (ceil((times - 1) * now), None) if times * now <= most else (None, ceil((times - 1) * J))
    places = [plan.agent_ids.index(name) for name in two]
    both = OwnVariances(*(part[places].sum(keepdims=True) for part in parts))
    slots = slots_for(both, apart, share=1.0, n_items=J, most=most)
    if slots is not None and now < most:
        return max(slots - round(now), ceil(now / 10)), None
    n_items = items_for(both, apart, share=1.0, n_agents=K)
    return None, None if n_items is None else max(n_items - J, ceil(J / 10))


def refuse_out_of_reach(plan: Plan) -> None:
    """Raises: PlanError [width-items] where a plan asks for a width that its items cannot give.

    That is: not even where items matter half as much as in the judged domain where they matter least.
    """
    design, own = width_of(plan), min(one.own for one in DOMAINS["graded"]) / 2
    least = OwnVariances(np.array([own]), np.zeros(1))
    if slots_for(least, design.width, share=1.0, n_items=plan.n_items, most=plan.n_items) is None:
        n_items = items_for(least, design.width, share=1.0, n_agents=plan.n_agents)
        raise PlanError(
            f"± {design.width:g} was asked for on {plan.n_items:,} items. Agents differ so much from item to item that "
            f"intervals stay wider than that, however often they are asked. Give {n_items or 0:,} items or more, or a wider "
            "width.",
            slug="width-items",
        )


def expected_words(expected: Expected, *, usd_per_call: float | None = None, n_agents: int = 0) -> Iterator[str]:
    """Plain sentences: trials an agent, widths, what a width takes, ρ and recall, and where that comes from."""
    times = {0.5: "at half the calls", 2.0: "at twice the calls"}
    said = [f"{_span(expected.half_width[x])} {words}" for x, words in times.items() if x in expected.half_width]
    line = f"{expected.trials:,.0f} trials an agent"
    if 1.0 in expected.half_width:
        more = f" ({', '.join(said)})" if said else ""
        line += f"; the average agent's 95 % interval comes to about ± {expected.usual_half_width}{more}"
    yield line
    if expected.width is not None:
        yield _of_width(expected, expected.width, usd_per_call, n_agents)
    if expected.rho is not None and expected.recall is not None:
        yield (
            f"on judged data a plan of so many trials has ρ {_shown(expected.rho)} to the ranking by all calls and finds "
            f"{_shown(expected.recall, 2)} of its top 5 ({expected.domains})"
        )
    if 1.0 in expected.regret:
        yield _of_regret(expected.regret)
    if expected.max_regret is not None:
        yield from _of_search(expected, expected.max_regret, usd_per_call)
    if expected.half_width:
        yield f"widths are from {expected.source}"
        if expected.source != OWN:
            yield "judges and agents differ by so much; a run of fewer calls first says by its own answers what more of them buy"


def _of_regret(regret: dict[float, tuple[DomainRange, DomainRange]]) -> str:
    """What taking the first one loses, and which way of asking loses less."""
    alike, searched = regret[1.0]
    more = [
        f"{regret[x][0].mean:.3f} at {words}" for x, words in ((0.5, "half the calls"), (2.0, "twice")) if x in regret
    ]
    said = f" ({', '.join(more)})" if more else ""
    better = "to take one, look for it" if searched.mean < alike.mean else "looking for one does no better"
    return (
        f"who comes first is worse than the best by {_shown(alike)} on average where all are asked alike"
        f"{said}, by {_shown(searched)} with `top: 1` on as many calls: {better}"
    )


def _of_search(expected: Expected, max_regret: float, usd_per_call: float | None) -> Iterator[str]:
    low, high = expected.search_calls
    if max_regret < expected.lowest_bound.low:
        yield (
            f"within {max_regret:g} is out of reach on these items unless one agent stands out: where all are alike the bound "
            f"stays above {_shown(expected.lowest_bound)}; about {expected.search_items:,} items would do"
        )
    usd = [f", ${usd_per_call * n:,.2f}" if usd_per_call and n else "" for n in (low, high)]
    most = "every comparison and more" if high is None else f"{high:,}{usd[1]}"
    yield (
        f"within {max_regret:g} takes from {low:,} paired calls{usd[0]}, where one agent stands out, to {most}, where all are "
        "alike"
    )


def _of_width(expected: Expected, width: float, usd_per_call: float | None, n_agents: int) -> str:
    if expected.trials_needed is None:
        n = expected.items_needed
        return f"± {width:g} cannot be had on these items" + (
            "" if n is None else f": it takes about {n:,} items like them, or more"
        )
    low, mean, high = expected.trials_needed
    calls = [n_agents * trials / 2 + expected.n_apart for trials in (low, high)]
    usd = "" if not usd_per_call else f", ${usd_per_call * calls[0]:,.2f} to ${usd_per_call * calls[1]:,.2f}"
    if high - low < 1:
        usd = "" if not usd_per_call else f", ${usd_per_call * calls[0]:,.2f}"
        return f"± {width:g} takes about {mean:,.0f} trials an agent, {calls[0]:,.0f} calls{usd}"
    return f"± {width:g} takes {low:,.0f} to {high:,.0f} trials an agent, {calls[0]:,.0f} to {calls[1]:,.0f} calls{usd}"


def _span(value: DomainRange) -> str:
    low, _, high = (f"{x:.3f}" for x in value)
    return low if low == high else f"{low} to {high}"


def _shown(value: DomainRange, digits: int = 3) -> str:
    low, mean, high = (f"{x:.{digits}f}" for x in value)
    return mean if low == high else f"{mean} ({low} to {high})"
