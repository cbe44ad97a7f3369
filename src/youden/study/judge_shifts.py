"""Compare two judges: agents whose abilities shift, families that a judge favors, and agreement of the rankings.

Neither judge is assumed to be right: every shift of the second judge is relative to the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from youden.errors import StatisticsError
from youden.stats.base.metrics import Metric, spearman
from youden.stats.judges.curved_relation import parabola_r2
from youden.stats.judges.judge_shift import JudgeShift
from youden.stats.judges.label_shift import LabelShift, label_shift
from youden.stats.judges.rank_agreement import estimate_rank_agreement
from youden.stats.trials.comparisons import holm
from youden.streams import standalone_stream
from youden.study.judged_runs import AlignedRuns
from youden.types.pool import Bools, Floats

ALPHA = 0.05
"""Probability, over both judges together, of claiming a self-preference that does not exist."""
MIN_AGENTS = 2
"""Minimum number of agents in a family, and outside it, for a claim: the shift of one agent is not a preference."""
MAX_CURVE_SHARE_FIRST, MAX_CURVE_SHARE_SECOND = 0.1, 0.25
"""Maximum share of a family's membership that a curve in the abilities of the first (second) judge may explain.

Above its share, the family counts as clustered in the ranking of that judge: its shift then depends on the shape of the
curve. The second share is larger, because a preference of the second judge raises it."""
MIN_RELIABILITY = 0.9
"""Reliability of the first judge's abilities below which their errors hide which families are clustered.

Below it, the curve may explain the whole difference in ability between the family and the others, at its steepest
slope: the SD of the second judge's abilities over that of the first's. Errors flatten a curve, which raises the
estimated shift of a strong family and lowers that of a weak one, so the interval must exceed that amount on one side
only. In replays at 2% of the calls, reliabilities were .94–.97 (PubMed, SAMSum, ICLR) and .71–.84 (OPUS, 30 items)."""
CURVE_ALLOWANCE = 0.15
"""Fraction of a family's rise by which the shape of the curve may be wrong; the curve gives it this rise over others.

A preference is claimed only if the interval is that far from 0. In replays, agents that win by other mixes of grades
bend the curve by that much. A family that is spread over the ranking has hardly any rise."""
WIDE_CURVE_ALLOWANCE = 0.3
"""The same, if a family is clustered by the second judge's abilities alone, or the first judge's are unreliable.

In the first case, the first judge hardly distinguishes these agents, because it answers yes to nearly all of them: the
curve is steepest where it is least observed. The value was chosen on 148 replays, of which .09 claimed ICLR's strongest
ten; with it, .05 of 180 others did. In the second case, the curve is fitted through what the errors leave. In .22 of
200 replays with a more lenient second judge, OPUS's weakest five were claimed; even without errors, a parabola is wrong
there by .26 of their rise."""


@dataclass(frozen=True)
class AgentShift:
    """Shift of an agent under the second judge.

    Attributes
    ----------
    agent, shift : str, float
        The agent, and its yes rate under the second judge minus the value that a curve predicts from the first judge.
    low, high, p_holm : float
        95% confidence bounds of the shift, and its p-value, corrected by Holm over the agents.
    significant : bool
        Whether the shift is significant.
    """

    agent: str
    shift: float
    low: float
    high: float
    p_holm: float
    significant: bool


@dataclass(frozen=True)
class FamilyShift:
    """Shift of a family relative to all other agents, under the second judge.

    Attributes
    ----------
    family, n_agents : str, int
        The family and its size.
    shift, low, high, level : float
        Shift in yes rate and its confidence bounds at `level`; bounds are None if so few agents allow any shift.
    p_value, p_holm : float
        Two-sided p-value, and the same corrected by Holm over the families.
    curve_share : float or None
        Share of the variance of membership in the family that a curve in ability explains; None with too few agents.
    together : bool
        Whether the family's ranks by a judge are close together. A shift may then be due to the shape of the curve that
        relates the two judges.
    identifiable : bool
        Whether the shift can be distinguished from a nonlinear relation between the judges.
    judges, favoured_by : tuple of str
        Judges of this family, and those of them that significantly favor it.
    """

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
    identifiable: bool
    judges: tuple[str, ...]
    favoured_by: tuple[str, ...]


class JudgeShifts:
    """Differences of a second judge from a first one.

    Attributes
    ----------
    first_judge, second_judge : str
        Names of the first and of the second judge.
    n_trials, units : int, str
        Number of units that both answered, and what they are: "paired trials" or "ordered pairs".
    level, slope : float
        Confidence level of the agents' shifts, and slope of the second judge's abilities on the first's.
    rho, rho_seen, rho_same : RankAgreement, float, float or None
        Spearman's ρ with the ranking by all answers of the first judge. `rho`: predicted for the ranking by the second
        judge if it answered all trials. `rho_seen`, `rho_same`: of the rankings by the second and by the first judge on
        the trials that both answered. None if ρ is not defined.
    agents, families : tuple of AgentShift, tuple of FamilyShift
        Shifts of agents, by p-value, and of families, by name.
    judge_families : dict of str to str or None
        Family of each judge; None if it is unknown.
    """

    def __init__(self, aligned: AlignedRuns, first: int, second: int, *, seed: int = 0) -> None:
        """Compare two judges: compute the shifts of agents and families under the second judge.

        Parameters
        ----------
        aligned : AlignedRuns
            The runs of the judges.
        first, second : int
            Positions of the two judges in `aligned`.
        seed : int, default 0
            Seed of random permutations and draws.

        Raises
        ------
        StatisticsError
            [shift-few] if too few paired trials were answered by both judges.

        Notes
        -----
        The second judge favors its own family if the interval of the family's shift is above 0, and above all shifts that a
        nonlinear relation between the judges may cause. The first judge favors its own family if the interval is below
        both. This is a one-sided test with an error rate of 5% over all judges tested. The interval therefore has a level
        of 90% if the pool has agents of only one judge's family, otherwise of 95%.
        """
        rng = standalone_stream(seed)
        rows = aligned.paired
        shift = JudgeShift(
            aligned.first[rows],
            aligned.second[rows],
            aligned.soft[first][rows],
            aligned.soft[second][rows],
            n_agents=len(aligned.agent_ids),
        )
        judge_families = {aligned.names[number]: aligned.judge_families[number] for number in (first, second)}
        families = _compute_family_shifts(aligned, shift, judge_families, rng)
        rho = estimate_rank_agreement(shift, rng=rng)
        rho_seen = correlation(shift.shared_effect_b, shift.effect_a)
        rho_same = correlation(shift.shared_effect_a, shift.effect_a)

        self.first_judge, self.second_judge = aligned.names[first], aligned.names[second]
        self.n_trials = shift.n_trials
        self.units = "paired trials" if aligned.units == "trials" else "ordered pairs"
        self.level, self.slope = shift.level, shift.slope
        self.rho = None if np.isnan(rho.rho) else rho
        self.rho_seen = None if rho_seen is None else rho_seen.value
        self.rho_same = None if rho_same is None else rho_same.value
        self.agents = _list_agent_shifts(aligned, shift)
        self.families = families
        self.judge_families = judge_families


def _list_agent_shifts(aligned: AlignedRuns, differences: JudgeShift) -> tuple[AgentShift, ...]:
    """List the shift of each agent under the second judge, the smallest p-value first.

    A curve predicts the yes rate of an agent by the second judge from its ability under the first judge. The shift is the yes
    rate minus this prediction.

    aligned : runs of the judges, with the ids of the agents
    differences : differences of the second judge from the first one
    """
    alpha = 1 - differences.level
    by_p_value = np.argsort(differences.curve.p_value, kind="stable")
    agent_shifts = []
    for index in by_p_value.tolist():
        agent_position = differences.agents[index]
        p_holm = float(differences.p_holm[index])
        agent_shift = AgentShift(
            agent=aligned.agent_ids[agent_position],
            shift=float(differences.shift[index]),
            low=float(differences.low[index]),
            high=float(differences.high[index]),
            p_holm=p_holm,
            significant=p_holm <= alpha,
        )
        agent_shifts.append(agent_shift)
    return tuple(agent_shifts)


def _compute_family_shifts(
    aligned: AlignedRuns, differences: JudgeShift, judge_families: dict[str, str | None], rng: np.random.Generator
) -> tuple[FamilyShift, ...]:
    """Compute the shift of each model family of agents relative to all other agents, with p-values adjusted by Holm.

    A family that contains all agents is left out.

    aligned : runs of the judges, with the family of each agent
    differences : differences of the second judge from the first one
    judge_families : family of each judge, by its name; None if it is unknown
    rng : random numbers for permutations of the agents
    """
    names = [aligned.families[agent] for agent in differences.agents]
    family_keys = [_normalize_family_name(name) for name in names]  # None for an agent without a family
    distinct_keys = {key for key in family_keys if key}
    confidence_level = _choose_level(distinct_keys, judge_families)

    family_shifts = []
    for key in sorted(distinct_keys):
        is_member = np.array([agent_key == key for agent_key in family_keys])
        if not is_member.all():
            name = str(names[family_keys.index(key)])
            family_shift = _compute_family_shift(
                name, differences, is_member, judge_families, rng=rng, level=confidence_level
            )
            family_shifts.append(family_shift)
    return _adjust_p_values(family_shifts)


def _adjust_p_values(family_shifts: Sequence[FamilyShift]) -> tuple[FamilyShift, ...]:
    """Return shifts of families with p-values that are adjusted for the number of families, by the method of Holm."""
    if not family_shifts:
        return ()
    p_values = np.array([family_shift.p_value for family_shift in family_shifts])
    adjusted_p_values = holm(p_values).tolist()
    return tuple(
        replace(family_shift, p_holm=p_holm)
        for family_shift, p_holm in zip(family_shifts, adjusted_p_values, strict=True)
    )


def _choose_level(family_keys: set[str], judge_families: dict[str, str | None]) -> float:
    """Return the confidence level of the shifts of families: .95 if no judge belongs to one of them."""
    judge_keys = {_normalize_family_name(family) for family in judge_families.values()}
    n_tested = len(family_keys & judge_keys)
    if not n_tested:
        return 0.95
    return 1 - 2 * ALPHA / n_tested  # one bound of the interval is a one-sided test of a family at ALPHA / n_tested


def _compute_family_shift(
    name: str,
    differences: JudgeShift,
    is_member: Bools,
    judge_families: dict[str, str | None],
    *,
    rng: np.random.Generator,
    level: float,
) -> FamilyShift:
    """Compute the shift of a family of agents under the second judge, and which judges favor the family.

    A curve predicts yes rates by the second judge from abilities under the first judge. The shift is the mean distance of the
    family from this curve. An error of the curve can also cause a shift, above all if the family's abilities are similar.

    name : name of the family
    differences : differences of the second judge from the first one
    is_member : bool array (n_agents,), agents of the family
    judge_families : model family of each judge, None if unknown
    rng : random numbers for permutations of the agents
    level : confidence level of the interval
    """
    n_members, n_others = int(is_member.sum()), int((~is_member).sum())
    share_first = _compute_curve_share(differences.effect_a, is_member, differences.reliability_a)
    share_second = _compute_curve_share(differences.effect_b, is_member, differences.reliability_b)
    is_clustered_first = share_first > MAX_CURVE_SHARE_FIRST
    is_clustered_second_only = share_second > MAX_CURVE_SHARE_SECOND and not is_clustered_first
    is_clustered = is_clustered_first or is_clustered_second_only
    is_unreliable = differences.reliability_a < MIN_RELIABILITY

    estimate = _estimate_shift(differences, is_member, is_clustered_first, rng, level)
    if min(n_members, n_others) < MIN_AGENTS:
        estimate = replace(estimate, low=-np.inf, high=np.inf)

    # lowest and highest shift that an error of the curve may cause
    if np.isnan(share_first):  # there are too few agents to fit a curve
        relative_error = np.inf
    elif is_clustered_second_only or is_unreliable:
        relative_error = WIDE_CURVE_ALLOWANCE
    else:
        relative_error = CURVE_ALLOWANCE
    curve_range = _compute_curve_range(differences, is_member, estimate, relative_error=relative_error)

    sign = _compare_with_curve(estimate, curve_range)
    judges = _list_judges_of_family(name, judge_families)
    return FamilyShift(
        family=name,
        n_agents=n_members,
        shift=estimate.shift,
        low=estimate.low if estimate.is_bounded else None,
        high=estimate.high if estimate.is_bounded else None,
        level=level,
        p_value=estimate.p_value,
        p_holm=np.nan,
        curve_share=None if np.isnan(share_first) else share_first,
        together=is_clustered,
        identifiable=_is_distinguishable(estimate, is_clustered, curve_range),
        judges=judges,
        favoured_by=_list_favoring_judges(judges, tuple(judge_families), sign),
    )


def _list_judges_of_family(name: str, judge_families: Mapping[str, str | None]) -> tuple[str, ...]:
    """List the judges of a model family, whose name may be spelled differently for judges and agents.

    judge_families : model family of each judge, None if unknown
    """
    key = _normalize_family_name(name)
    return tuple(judge for judge, family in judge_families.items() if _normalize_family_name(family) == key)


def _compute_curve_range(
    differences: JudgeShift, is_member: Bools, estimate: LabelShift, *, relative_error: float
) -> tuple[float, float]:
    """Compute the lowest and the highest shift of a family that errors of the prediction curve may cause.

    The curve predicts yes rates by the second judge (b) from abilities under the first judge (a). A wrong shape of the curve
    causes a shift in either direction. If the abilities are unreliable, the slope of the curve is too small, which causes a shift
    in one direction.

    differences : differences of the second judge from the first one
    is_member : bool array (n_agents,), agents of the family
    estimate : estimated shift of the family
    relative_error : possible error of the predicted difference, as a fraction of it; ∞ if the curve is unknown
    """
    observed_difference = _compute_gap(differences.effect_b, is_member)
    predicted_difference = abs(observed_difference - estimate.shift)
    shape_error = np.inf if np.isinf(relative_error) else relative_error * predicted_difference

    # at worst, a flat curve predicts no difference between the family and the others, so that the whole difference is a shift
    flattening_shift = 0.0
    if differences.reliability_a < MIN_RELIABILITY:
        steepest_slope = np.copysign(_compute_max_slope(differences), differences.slope)
        ability_difference = _compute_gap(differences.effect_a, is_member)
        flattening_shift = float(steepest_slope * ability_difference)

    lowest_shift = min(flattening_shift, 0.0) - shape_error
    highest_shift = max(flattening_shift, 0.0) + shape_error
    return lowest_shift, highest_shift


def _compute_curve_share(ability: Floats, is_member: Bools, reliability: float) -> float:
    """Compute how well a curve in ability predicts which agents belong to a family, as a share of variance (R²).

    Errors of the abilities make the share too small, so it is divided by their reliability.

    ability : float array (n_agents,)
    is_member : bool array (n_agents,), agents of the family
    reliability : reliability of the abilities, from 0 to 1
    """
    share = parabola_r2(ability, is_member.astype(np.float64))
    return float(np.minimum(1.0, share / max(reliability, 0.1)))


def _compute_gap(ability: Floats, is_member: Bools) -> float:
    """Compute the mean ability of a family minus that of the others."""
    return float(ability[is_member].mean() - ability[~is_member].mean())


def _compute_max_slope(differences: JudgeShift) -> float:
    """Compute the largest slope of the curve: SD of the second judge's abilities / SD of the first judge's abilities.

    The SD of the first judge's abilities is corrected for their errors.
    """
    true_sd = float(np.std(differences.effect_a)) * max(differences.reliability_a, 0.1) ** 0.5
    return float(np.std(differences.effect_b)) / true_sd if true_sd > 0 else float("inf")


def _compare_with_curve(estimate: LabelShift, curve_range: tuple[float, float]) -> int:
    """Compare the confidence interval of a family's shift with the range of shifts that an error of the curve may cause.

    The curve predicts yes rates by the second judge from abilities under the first judge, and a shift is the distance from it.

    estimate : shift of the family, with its interval
    curve_range : lowest and highest shift that an error of the curve may cause (result of `_compute_curve_range`)

    Returns 1 if the interval is above the range, −1 if it is below it, and 0 if they overlap.
    """
    lowest, highest = curve_range
    if estimate.low > highest:
        return 1
    return -1 if estimate.high < lowest else 0


def _estimate_shift(
    differences: JudgeShift, is_member: Bools, is_clustered: bool, rng: np.random.Generator, level: float
) -> LabelShift:
    """Estimate the shift of a family under the second judge, with a confidence interval.

    The shift is the mean difference of the family's yes rates from a curve, which predicts them from abilities under the first
    judge.

    differences : differences of the second judge from the first one, with the curve
    is_member : bool array (n_agents,), agents of the family
    is_clustered : whether the agents of the family have similar abilities
    rng : random numbers for permutations of the agents
    level : confidence level
    """
    curve = differences.curve
    if is_clustered:
        # errors of the abilities bias the shift of a clustered family, so the corrected score is used
        estimate = label_shift(curve.score, curve.information, is_member, variance=curve.variance, rng=rng, level=level)
    else:
        estimate = label_shift(curve.plain_score, curve.plain_information, is_member, rng=rng, level=level)

    # the judges may also differ in events too rare for the shared answers, so the interval has a minimum half-width
    min_half_width = differences.min_half_width(is_member, level)
    low = min(estimate.low, estimate.shift - min_half_width)
    high = max(estimate.high, estimate.shift + min_half_width)
    return replace(estimate, low=low, high=high)


def _is_distinguishable(estimate: LabelShift, is_clustered: bool, curve_range: tuple[float, float]) -> bool:
    """Return whether a preference for a family can be distinguished from the effect of a curve that relates the two judges.

    The result is True if the interval of the shift is outside the range that the curve may cause, or if the curve causes none. It
    is also True if the shift is not significant, the range is finite, and the agents differ in ability.

    estimate : shift of the family with its interval
    is_clustered : whether the agents of the family have similar abilities
    curve_range : lowest and highest shift that the curve may cause; both are 0 if it causes none
    """
    can_curve_cause_shift = curve_range != (0.0, 0.0)
    is_outside_range = _compare_with_curve(estimate, curve_range) != 0
    if not can_curve_cause_shift or is_outside_range:
        return True

    is_significant = estimate.low > 0 or estimate.high < 0
    is_range_finite = bool(np.isfinite(curve_range).all())
    return not is_significant and is_range_finite and not is_clustered


def _list_favoring_judges(judges_of_family: tuple[str, ...], judges: tuple[str, ...], sign: int) -> tuple[str, ...]:
    """List the judges that favor their own family: at most one.

    A judge favors its family if it rates the family significantly higher than the other judge does, and the other judge is not
    of this family.

    judges_of_family : names of the judges of the family
    judges : names of the first and of the second judge
    sign : 1 if the second judge rates the family significantly higher, −1 if the first judge does, 0 if neither does
    """
    first, second = judges
    if sign == 0:
        return ()
    higher_rating_judge = second if sign == 1 else first
    is_only_judge_of_family = judges_of_family == (higher_rating_judge,)
    return (higher_rating_judge,) if is_only_judge_of_family else ()


def correlation(first: Floats, second: Floats) -> Metric | None:
    """Compute Spearman's ρ, with its interval, over the positions that are valid in both arrays; None if one does not vary.

    first, second : float arrays (n,), NaN for missing values
    """
    is_valid = ~(np.isnan(first) | np.isnan(second))
    try:
        return spearman(first[is_valid], second[is_valid])
    except StatisticsError:
        return None


def _normalize_family_name(family: str | None) -> str | None:
    """Return the name of a family for comparisons: without surrounding spaces, and in lower case."""
    return None if family is None else family.strip().casefold()
