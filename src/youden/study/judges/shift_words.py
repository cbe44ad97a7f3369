"""What the shifts of one judge against another mean, in sentences."""

from __future__ import annotations

from math import isnan

from youden.study.judges.judge_shifts import LEAST_AGENTS, FamilyShift, JudgeShifts
from youden.text.intervals import signed, with_interval

MOST_NAMED = 6


def shift_words(shifts: JudgeShifts) -> list[str]:
    """The ranking, the agents that move, and self-preference, each with what it may not be taken for."""
    return [*_ranking(shifts), *_agents(shifts), *_own_kind(shifts)]


def _ranking(shifts: JudgeShifts) -> list[str]:
    one, other = shifts.one, shifts.other
    if shifts.rho is None or shifts.rho_seen is None or shifts.rho_same is None:
        return []
    rho = with_interval(
        shifts.rho.rho, shifts.rho.low, shifts.rho.high, why="none: what both answered leaves no other order"
    )
    said = [
        f"On the {shifts.n_trials:,} {shifts.units} both answered, {other} ranks agents like {one} ranks them on all it judged "
        f"at ρ = {shifts.rho_seen:.2f}; {one} itself, seen on these alone, reaches {shifts.rho_same:.2f}. "
        f"Had {other} judged all of them: ρ = {rho}."
    ]
    if shifts.slope < 0.8:
        said.append(
            f"{other} tells agents apart {shifts.slope:.2f} times as far as {one}; shifts are what is left beyond that."
        )
    return said


def _agents(shifts: JudgeShifts) -> list[str]:
    if all(isnan(agent.p_holm) for agent in shifts.agents):
        return [
            f"Nothing is said of single agents between {shifts.one} and {shifts.other}: {len(shifts.agents)} agents tell no "
            "curve that one of them could lie off."
        ]
    moving = [agent for agent in shifts.agents if agent.moves]
    if not moving:
        return [
            f"No agent moves beyond chance between {shifts.one} and {shifts.other} (Holm over {len(shifts.agents)})."
        ]
    named = ", ".join(f"{agent.agent} {agent.shift:+.2f}" for agent in moving[:MOST_NAMED])
    rest = f" and {len(moving) - MOST_NAMED} more" if len(moving) > MOST_NAMED else ""
    return [
        f"Beyond chance (Holm over {len(shifts.agents)}) {shifts.other} moves {named}{rest}, in yes-rate, off the "
        f"curve that {shifts.one}'s answers lead to expect."
    ]


def _own_kind(shifts: JudgeShifts) -> list[str]:
    if not shifts.families:
        return [
            "Whether a judge favours its own kind cannot be asked: agents of two families or more are needed, by "
            "`meta: {family: …}` in the pool's agents.jsonl."
        ]
    said = [line for judge in (shifts.one, shifts.other) for line in _of(judge, shifts)]
    if any(family.favoured_by for family in shifts.families):
        said.append(
            f"A preference is relative: {shifts.other} favouring a family and {shifts.one} disfavouring it look the same. "
            "A third judge would tell."
        )
    return said


def _of(judge: str, shifts: JudgeShifts) -> list[str]:
    family = shifts.judge_families[judge]
    if family is None:
        return [
            f"{judge}'s own family is not known, so its self-preference is not tested. Say `family: …` in the judge's config, or "
            f"--family {judge}=NAME; the pool has {_listed(shifts)}."
        ]
    own = next((row for row in shifts.families if judge in row.judges), None)
    if own is None:
        return [f"No agent both judged is of {judge}'s family, {family}; the pool has {_listed(shifts)}."]
    if len(own.judges) > 1:
        return [
            f"{' and '.join(own.judges)} are of one family, {own.family}: a preference they share cannot be seen."
        ] * (judge == own.judges[0])
    return [_of_one(judge, own, shifts)]


def _of_one(judge: str, own: FamilyShift, shifts: JudgeShifts) -> str:
    figures = f"{own.shift:+.2f}{_interval(own)} in yes-rate under {shifts.other} relative to {shifts.one}"
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


def _interval(row: FamilyShift) -> str:
    return "" if row.low is None else f" ({row.level:.0%} interval {signed(row.low, row.high)})"


def _listed(shifts: JudgeShifts) -> str:
    return ", ".join(row.family for row in shifts.families)
