"""What one judge holds against another: agents that move, families it favours, and how alike the two would rank.

Neither judge is taken to be right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isnan

import numpy as np

from youden.errors import StatisticsError
from youden.stats.base.metrics import Metric, spearman
from youden.stats.judges.curved_relation import curve_share
from youden.stats.judges.judge_shift import JudgeShift, LabelShift, label_shift, ranking_seen
from youden.stats.trials.comparisons import holm
from youden.streams import own_stream
from youden.study.judged_runs import SideBySide
from youden.text.sentences import signed, with_interval
from youden.types.pool import Bools, Floats

FALSE_CLAIMS = 0.05
"""Chance, over both judges together, that a self-preference is claimed where there is none."""
LEAST_AGENTS = 2
"""Agents on either side below which a family cannot be told from an agent's own way."""
MOST_CURVE_SHARE = {"one": 0.1, "other": 0.25}
"""Share of who belongs that a curve in a judge's abilities may tell. Beyond it the family stands together in that judge's
ranking, and what it gets is read off the curve's shape. More by the other's abilities, which a preference raises."""
LEAST_RELIABILITY = 0.9
"""Of the one's abilities; below it errors hide which families stand together. All that a family stands higher or lower with the
one is then allowed to be the curve's, at its steepest: the other's spread over the one's. Errors flatten a curve, so they raise
what a strong family seems to get and lower a weak one's, never the reverse: the interval has to lie that much further on that
side alone.
.94–.97 in replays of PubMed, SAMSum and ICLR at 2 % of the calls, .71–.84 on OPUS with its 30 items."""
CURVE_ALLOWANCE = 0.15
"""Part of the rise that a curve gives a family over the rest by which its shape may be wrong: the interval has to lie that far
from 0 before anybody is named. Agents that win by other mixes of grades bend it so far in replays. Scattered
agents hardly rise."""

WIDER_ALLOWANCE = 0.3
"""The same where a family stands together by the other's abilities alone. The one then hardly tells these agents apart, for it
says yes to nearly all of them, and the curve is steepest where it is seen least. ICLR's strongest ten were claimed in .09 of
the 148 replays that this was chosen on, and in .05 of 180 others with it. Also where the one's abilities are below
LEAST_RELIABILITY: the curve is then drawn through what their errors leave. OPUS's weakest five were claimed in .22 of 200 replays
with a laxer other; without any error a parabola is wrong there by .26 of their rise."""


@dataclass(frozen=True)
class AgentShift:
    """How far the other judge's yes-rate for an agent lies off a curve that leads there from the one's; p_holm: of no shift
    beyond what agents differ by."""

    agent: str
    shift: float
    low: float
    high: float
    p_holm: float
    moves: bool


@dataclass(frozen=True)
class FamilyShift:
    """A family's agents against all others, under the other judge relative to the one. low, high: the interval at `level`, None
    where so few agents leave any preference possible. curve_share: of who belongs, what a curve in ability tells, None where so
    few agents say nothing; together: whether that is much, so that a preference may be the curve's; told_apart: whether what the
    family gets can be told from a curved relation between the judges.
    judges: those of this family; favoured_by: those that are shown to favour it. p_value, p_holm: two-sided."""

    family: str
    n_agents: int
    shift: float
    low: float | None
    high: float | None
    level: float
    p_value: float
    p_holm: float
    curve_share: float | None
    together: bool
    told_apart: bool
    judges: tuple[str, ...]
    favoured_by: tuple[str, ...]


class JudgeShifts:
    """How one judge differs from another on the `n_trials` paired trials, or ordered pairs (`units`), that both answered.

    `slope` is that of the other's abilities on the one's. `rho` is that of their rankings, had the other judged all that the
    one did; `rho_seen` is the ρ on these trials, `rho_same` that of a judge that agrees with the one throughout. `agents`
    come by their p-values, `families` by name; `judge_families` has each judge's own, None if unknown.
    """

    def __init__(self, both: SideBySide, one: int, other: int, *, seed: int = 0) -> None:
        """Compare judge number `other` with judge number `one`. seed: of random deals of labels and of draws.

        Raises
        ------
        StatisticsError
            [shift-few] if both answered too few paired trials.

        Notes
        -----
        A judge favours its own family if the interval of the family's shift lies on the judge's side of 0: one-sided, 5 %
        over the judges tested, by an interval of 90 % if one of them has a family of its own and of 95 % if both have.
        """
        rng, rows = own_stream(seed), both.paired
        sides, answers = (both.first[rows], both.second[rows]), (both.soft[one][rows], both.soft[other][rows])
        shift = JudgeShift(*sides, *answers, n_agents=len(both.agent_ids))
        self.one, self.other, self.n_trials = both.names[one], both.names[other], shift.n_trials
        self.units = "paired trials" if both.units == "trials" else "ordered pairs"
        self.level, self.slope = shift.level, shift.slope
        judge_families = {both.names[number]: both.judge_families[number] for number in (one, other)}
        families = _families(both, shift, judge_families, rng)
        rho = ranking_seen(shift, rng=rng)
        seen, same = correlation(shift.other_seen, shift.one), correlation(shift.one_seen, shift.one)
        self.rho = None if np.isnan(rho.rho) else rho
        self.rho_seen = None if seen is None else seen.value
        self.rho_same = None if same is None else same.value
        self.agents, self.families, self.judge_families = _agents(both, shift), families, judge_families


def _agents(both: SideBySide, found: JudgeShift) -> tuple[AgentShift, ...]:
    return tuple(
        AgentShift(
            both.agent_ids[found.agents[i]],
            float(found.shift[i]),
            float(found.low[i]),
            float(found.high[i]),
            float(found.p_holm[i]),
            bool(found.p_holm[i] <= 1 - found.level),
        )
        for i in np.argsort(found.curve.p_value, kind="stable").tolist()
    )


def _families(
    both: SideBySide, found: JudgeShift, judges: dict[str, str | None], rng: np.random.Generator
) -> tuple[FamilyShift, ...]:
    names = [both.families[i] for i in found.agents]
    keys = np.array([_key(name) or "" for name in names])
    asked = {_key(own) for own in judges.values()} & set(keys.tolist())
    level = 1 - 2 * FALSE_CLAIMS / len(asked) if asked else 0.95
    tested: list[FamilyShift] = []
    one, other = found.one, found.other
    for key in sorted(set(keys.tolist()) - {""}):
        member = keys == key
        n = int(member.sum())
        if n == len(keys):
            continue
        # errors in abilities hide part of what a curve in them tells of who belongs
        share, near = (
            float(np.minimum(1.0, curve_share(ability, member.astype(np.float64)) / max(reliable, 0.1)))
            for ability, reliable in ((found.one, found.reliability), (found.other, found.other_reliability))
        )
        together = share > MOST_CURVE_SHARE["one"]
        shift = _shift(found, member, together, rng, level)
        if min(n, len(keys) - n) < LEAST_AGENTS:
            shift = replace(shift, low=-np.inf, high=np.inf)
        rise = abs(float(other[member].mean() - other[~member].mean()) - shift.shift)
        one_sided = near > MOST_CURVE_SHARE["other"] and not together
        unsure = found.reliability < LEAST_RELIABILITY
        shape = (WIDER_ALLOWANCE if one_sided or unsure else CURVE_ALLOWANCE) * rise
        if np.isnan(share):
            shape = float("inf")
        flattened = 0.0
        if unsure:
            flattened = np.copysign(_steepest(found), found.slope) * float(one[member].mean() - one[~member].mean())
        leeway = min(flattened, 0.0) - shape, max(flattened, 0.0) + shape
        together |= one_sided
        family = next(name for name in names if _key(name) == key)
        tested.append(
            FamilyShift(
                family=str(family),
                n_agents=n,
                shift=shift.shift,
                low=shift.low if shift.reachable else None,
                high=shift.high if shift.reachable else None,
                level=level,
                p_value=shift.p_value,
                p_holm=np.nan,
                curve_share=None if np.isnan(share) else share,
                together=together,
                told_apart=_told_apart(shift, together, leeway),
                judges=tuple(judge for judge, own in judges.items() if _key(own) == key),
                favoured_by=_favoured_by(key, _side(shift, leeway), judges),
            )
        )
    corrected = holm(np.array([row.p_value for row in tested])) if tested else np.empty(0)
    return tuple(replace(row, p_holm=float(p_holm)) for row, p_holm in zip(tested, corrected, strict=True))


def _steepest(found: JudgeShift) -> float:
    """SD of the other's abilities over SD of the one's, errors of the latter taken out."""
    true = float(np.std(found.one)) * max(found.reliability, 0.1) ** 0.5
    return float(np.std(found.other)) / true if true > 0 else float("inf")


def _side(shift: LabelShift, leeway: tuple[float, float] = (0.0, 0.0)) -> int:
    """1 where the interval lies above what the curve may be wrong by, −1 below, 0 where it does not tell."""
    return int(shift.low > leeway[1]) - int(shift.high < leeway[0])


def _shift(found: JudgeShift, member: Bools, together: bool, rng: np.random.Generator, level: float) -> LabelShift:
    """What belonging adds. Errors of abilities are taken out of the curve where the family stands together: elsewhere they do
    not favour it, and taking them out adds noise."""
    curve = found.curve
    if together:
        score, information, variance = curve.score, curve.information, curve.variance
    else:
        score, information, variance = curve.plain_score, curve.plain_information, None
    shift = label_shift(score, information, member, variance=variance, rng=rng, level=level)
    least = found.least_half_width(member, level)
    return replace(shift, low=min(shift.low, shift.shift - least), high=max(shift.high, shift.shift + least))


def _told_apart(shift: LabelShift, together: bool, leeway: tuple[float, float]) -> bool:
    """Scattered agents whose interval holds 0 show no preference, however badly abilities are known."""
    scattered = not together and bool(np.isfinite(leeway).all()) and _side(shift) == 0
    return not any(leeway) or scattered or _side(shift, leeway) != 0


def _favoured_by(key: str, side: int, judges: dict[str, str | None]) -> tuple[str, ...]:
    """The judge that favours this family, its own; nobody where both are of it, for what they share cannot be seen."""
    own = [judge for judge, of in judges.items() if _key(of) == key]
    if len(own) != 1:
        return ()
    return (own[0],) if side == (1 if own[0] == list(judges)[1] else -1) else ()


def correlation(one: Floats, other: Floats) -> Metric | None:
    """Spearman's ρ over those that both know; None where one of them does not vary."""
    known = ~(np.isnan(one) | np.isnan(other))
    try:
        return spearman(one[known], other[known])
    except StatisticsError:
        return None


def _key(family: str | None) -> str | None:
    return None if family is None else family.strip().casefold()


MOST_NAMED = 6


def shift_words(shifts: JudgeShifts) -> Iterator[str]:
    """The ranking, the agents that move, and self-preference, each with what it may not be taken for."""
    one, other = shifts.one, shifts.other
    if shifts.rho is not None and shifts.rho_seen is not None and shifts.rho_same is not None:
        none = "none: what both answered leaves no other order"
        rho = with_interval(shifts.rho.rho, shifts.rho.low, shifts.rho.high, why=none)
        yield (
            f"On the {shifts.n_trials:,} {shifts.units} both answered, {other}'s ranking has ρ = {shifts.rho_seen:.2f} to "
            f"{one}'s on all that {one} judged; {one}'s own ranking on these alone has {shifts.rho_same:.2f}. "
            f"Had {other} judged all of them: ρ = {rho}. By {one}'s own errors, a judge that differs from it by repetition alone "
            f"would come to about {shifts.rho.ceiling:.2f} there: only an interval below that says that they rank differently."
        )
        if shifts.slope < 0.8:
            yield f"{other} tells agents apart {shifts.slope:.2f} times as far as {one}; shifts are what is left beyond that."
    yield _moving(shifts)
    if not shifts.families:
        yield (
            "Whether a judge favours its own kind cannot be asked: agents of two families or more are needed, by "
            "`meta: {family: …}` in the pool's agents.jsonl."
        )
        return
    yield from dict.fromkeys(_own_kind(judge, shifts) for judge in (one, other))
    if any(family.favoured_by for family in shifts.families):
        yield (
            f"A preference is relative: {other} favouring a family and {one} disfavouring it look the same. "
            "A third judge would tell."
        )


def _moving(shifts: JudgeShifts) -> str:
    n, moving = len(shifts.agents), [agent for agent in shifts.agents if agent.moves]
    if all(isnan(agent.p_holm) for agent in shifts.agents):
        return (
            f"Nothing is said of single agents between {shifts.one} and {shifts.other}: {n} agents tell no "
            "curve that one of them could lie off."
        )
    if not moving:
        return f"No agent moves beyond chance between {shifts.one} and {shifts.other} (Holm over {n})."
    named = ", ".join(f"{agent.agent} {agent.shift:+.2f}" for agent in moving[:MOST_NAMED])
    rest = f" and {len(moving) - MOST_NAMED} more" if len(moving) > MOST_NAMED else ""
    return (
        f"Beyond chance (Holm over {n}) {shifts.other} moves {named}{rest}: that is how far their yes-rates are from the curve "
        f"that {shifts.one}'s answers lead one to expect."
    )


def _own_kind(judge: str, shifts: JudgeShifts) -> str:
    """What is known of the judge's preference for its own family; of two judges of one family, the same."""
    family, there = shifts.judge_families[judge], ", ".join(row.family for row in shifts.families)
    if family is None:
        return (
            f"{judge}'s own family is not known, so its self-preference is not tested. Say `family: …` in the judge's config, or "
            f"--family {judge}=NAME; the pool has {there}."
        )
    own = next((row for row in shifts.families if judge in row.judges), None)
    if own is None:
        return f"No agent both judged is of {judge}'s family, {family}; the pool has {there}."
    if len(own.judges) > 1:
        return f"{' and '.join(own.judges)} are of one family, {own.family}: a preference they share cannot be seen."
    return _of_one(judge, own, shifts)


def _of_one(judge: str, own: FamilyShift, shifts: JudgeShifts) -> str:
    interval = "" if own.low is None else f" ({own.level:.0%} interval {signed(own.low, own.high)})"
    figures = f"{own.shift:+.2f}{interval} in yes-rate under {shifts.other} relative to {shifts.one}"
    fewest = min(own.n_agents, len(shifts.agents) - own.n_agents)
    if own.curve_share is None or fewest < LEAST_AGENTS or (own.told_apart and own.low is None):
        return (
            f"{judge}'s family {own.family} has {own.n_agents} of {len(shifts.agents)} agents, too few on one side to claim a "
            f"preference whatever they got: agents' own ways would look like it too often. Seen: {figures}."
        )
    if not own.told_apart:
        why = (
            f"its {own.n_agents} agents stand together in a judge's ranking, where one judge may only draw the line for a yes "
            "elsewhere than the other"
            if own.together
            else f"{shifts.one}'s answers are too few to say how good agents are"
        )
        return (
            f"Whether {judge} favours {own.family} cannot be told apart from a curved relation between the judges: {why}. Seen "
            f"beyond the curve: {figures}; the curve may be wrong by more than that shows. "
            + (
                "A third judge, or weaker and stronger agents of the family, would tell."
                if own.together
                else f"More trials judged by {shifts.one} would tell."
            )
        )
    if judge not in own.favoured_by:
        return f"No self-preference of {judge} is shown: agents of {own.family} ({own.n_agents}) lie {figures}."
    return (
        f"{judge} favours agents of its own family {own.family} ({own.n_agents}): {figures}, "
        f"one-sided p = {own.p_value / 2:.3f}."
    )
