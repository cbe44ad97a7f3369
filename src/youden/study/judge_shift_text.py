"""Describe in sentences how two judges differ: in rankings, in agents, and in the families that they favor."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from youden.stats.judges.rank_agreement import RankAgreement
from youden.study.judge_shifts import MIN_AGENTS, FamilyShift, JudgeShifts
from youden.text.sentences import format_signed_interval, format_with_interval

MAX_NAMED = 6


def describe_shifts(shifts: JudgeShifts) -> Iterator[str]:
    """Describe the differences between two judges: their rankings, shifts of agents, and preferences for their own families.

    The shift of an agent is its yes rate by the second judge minus the yes rate that is predicted from the first judge's answers.

    Yields texts of one or more sentences.
    """
    first, second = shifts.first_judge, shifts.second_judge
    if shifts.rho is not None and shifts.rho_seen is not None and shifts.rho_same is not None:
        yield from _describe_rankings(shifts, shifts.rho, shifts.rho_seen, shifts.rho_same)
    yield _describe_agents(shifts)

    if not shifts.families:
        yield (
            "Self-preference of the judges cannot be tested: it needs agents of two families or more. Add `meta: {family: …}` to "
            "agents in the pool's agents.jsonl."
        )
        return

    texts = [_describe_self_preference(judge, shifts) for judge in (first, second)]
    yield from dict.fromkeys(texts)  # two judges of one family have the same text
    if any(family.favoured_by for family in shifts.families):
        yield (
            f"A preference is relative: {second} favoring a family and {first} disfavoring it cannot be distinguished. "
            "Run a third judge to decide."
        )


def _describe_rankings(
    shifts: JudgeShifts, predicted: RankAgreement, rho_of_second: float, rho_of_first: float
) -> Iterator[str]:
    """Yield texts on how well the rankings of two judges agree.

    Each ρ is Spearman's correlation with the reference, the ranking by all answers of the first judge. The shared trials are
    those that both judges answered.

    shifts : differences of the second judge from the first
    predicted : ρ to expect of the second judge if it answered all trials of the first judge
    rho_of_second : ρ of the second judge's ranking by the shared trials
    rho_of_first : ρ of the first judge's ranking by the shared trials
    """
    first, second = shifts.first_judge, shifts.second_judge
    observed = (
        f"On the {shifts.n_trials:,} {shifts.units} that both answered, the ranking by {second} has ρ = {rho_of_second:.2f} with "
        f"the ranking by all answers of {first}; the ranking by {first} on these alone has ρ = {rho_of_first:.2f}."
    )

    # shown in place of an interval if the shared answers allow only one order of the agents
    no_interval = "none: the shared answers allow no other order"
    rho_with_interval = format_with_interval(predicted.rho, predicted.low, predicted.high, method=no_interval)
    prediction = f"If {second} answered all trials of {first}, ρ of these agents is predicted as {rho_with_interval}."
    reference = (
        f"By the standard errors of {first}, the same judge would reach about ρ = {predicted.ceiling:.2f} if it judged again: "
        "only an interval below that shows that the judges rank differently."
    )
    yield f"{observed} {prediction} {reference}"
    if shifts.slope < 0.8:
        yield (
            f"The slope of the answers by {second} on those by {first} is {shifts.slope:.2f}; shifts are relative to "
            "this slope."
        )


def _describe_agents(shifts: JudgeShifts) -> str:
    """Describe which agents have a significantly higher or lower yes rate by the second judge than predicted.

    The yes rate is predicted from the answers of the first judge. The difference is the shift of the agent. P-values are
    corrected for the number of agents by the method of Holm.
    """
    first, second = shifts.first_judge, shifts.second_judge
    n_agents = len(shifts.agents)
    if all(isnan(agent.p_holm) for agent in shifts.agents):
        return (
            f"Shifts of single agents between {first} and {second} cannot be tested: {n_agents} agents are too few to fit "
            "a curve."
        )

    significant = [agent for agent in shifts.agents if agent.significant]
    if not significant:
        return f"No agent shifts significantly between {first} and {second} (Holm over {n_agents})."

    listed = ", ".join(f"{agent.agent} {agent.shift:+.2f}" for agent in significant[:MAX_NAMED])
    if len(significant) > MAX_NAMED:
        listed += f" and {len(significant) - MAX_NAMED} more"
    return (
        f"Significant shifts (Holm over {n_agents}) under {second}: {listed}. A shift is the distance of the yes rate from a "
        f"curve that predicts it from {first}'s answers."
    )


def _describe_self_preference(judge: str, shifts: JudgeShifts) -> str:
    """Describe whether a judge favors agents of its own model family, or why that cannot be tested.

    The sentence is the same for both judges if they are of one family.
    """
    judge_family = shifts.judge_families[judge]
    families = ", ".join(shift.family for shift in shifts.families)  # families of the agents
    if judge_family is None:
        return (
            f"{judge}'s own family is unknown, so its self-preference is not tested. Set `family: …` in the judge's config, or "
            f"--family {judge}=NAME; the pool has {families}."
        )
    shift_of_family = next((shift for shift in shifts.families if judge in shift.judges), None)
    if shift_of_family is None:
        return f"No agent that both judged is of {judge}'s family, {judge_family}; the pool has {families}."
    if len(shift_of_family.judges) > 1:
        judges = " and ".join(shift_of_family.judges)
        return f"{judges} are of one family, {shift_of_family.family}: a shared preference cannot be observed."
    return _describe_preference(judge, shift_of_family, shifts)


def _describe_preference(judge: str, family: FamilyShift, shifts: JudgeShifts) -> str:
    """Describe whether a judge favors agents of its own model family, or why the data cannot show it.

    A curve predicts an agent's yes rate by the second judge from the first judge's answers. The shift of a family is the mean
    distance of its agents from this curve.

    judge : name of the judge
    family : family of this judge, but not of the other judge, with its shift
    shifts : differences of the second judge from the first
    """
    shift_text = _format_family_shift(family, shifts)
    if _has_too_few_agents(family, shifts):
        return (
            f"{judge}'s family {family.family} has {family.n_agents} of {len(shifts.agents)} agents, too few on one side to "
            f"claim a preference: shifts of single agents would look like one too often. Observed: {shift_text}."
        )

    if not family.identifiable:
        reason, remedy = _explain_confounding(family, shifts)
        return (
            f"A preference of {judge} for {family.family} cannot be distinguished from a nonlinear relation between the judges: "
            f"{reason}. Observed beyond the curve: {shift_text}; the curve may be wrong by more than that. {remedy}"
        )

    if judge not in family.favoured_by:
        members = f"{family.family} ({family.n_agents})"
        return f"No self-preference of {judge} is shown: agents of {members} have a shift of {shift_text}."
    one_sided_p_value = family.p_value / 2
    return (
        f"{judge} favors agents of its own family {family.family} ({family.n_agents}): {shift_text}, "
        f"one-sided p = {one_sided_p_value:.3f}."
    )


def _format_family_shift(family: FamilyShift, shifts: JudgeShifts) -> str:
    """Format the shift of a family in yes rate, with its interval if it has one."""
    interval = ""
    if family.low is not None:
        interval = f" ({family.level:.0%} interval {format_signed_interval(family.low, family.high)})"
    return f"{family.shift:+.2f}{interval} in yes rate under {shifts.second_judge} relative to {shifts.first_judge}"


def _has_too_few_agents(family: FamilyShift, shifts: JudgeShifts) -> bool:
    """Return whether a family or the rest of the pool is too small to test a preference."""
    n_others = len(shifts.agents) - family.n_agents
    if family.curve_share is None or min(family.n_agents, n_others) < MIN_AGENTS:
        return True
    return family.identifiable and family.low is None


def _explain_confounding(family: FamilyShift, shifts: JudgeShifts) -> tuple[str, str]:
    """Explain why the shift of a family may have another cause than a preference of a judge, and what to do.

    The reason is that the agents of the family have similar ranks or, otherwise, that the abilities are imprecise.

    family : family with its shift
    shifts : differences of the second judge from the first

    Returns the reason, as part of a sentence, and a sentence with the remedy.
    """
    has_similar_ranks = family.together
    if has_similar_ranks:
        reason = (
            f"its {family.n_agents} agents have similar ranks, and one judge may merely answer yes more often than the other for "
            "agents of such ranks"
        )
        return reason, "Run a third judge, or add weaker and stronger agents of the family."
    reason = f"{shifts.first_judge}'s answers are too few to estimate abilities precisely"
    return reason, f"Add trials judged by {shifts.first_judge}."
