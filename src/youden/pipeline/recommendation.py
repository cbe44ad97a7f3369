"""Measure how well a run's judge discriminates, and recommend agents only on that basis.

Youden's J and its interval come from the run's own trials. No code but `recommend_from_abilities` decides what
a run recommends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from youden.engines.trial_blocks import RateChunk, TrialsByItem
from youden.pipeline.abilities import LEVEL, Abilities
from youden.stats.base.metrics import Metric
from youden.stats.judges.discrimination import ItemTotals, equal_abilities_p, mean_difference, youdens_j
from youden.types import Verdicts
from youden.types.facts import ChoiceFacts
from youden.types.pool import or_none
from youden.types.recommendation import JudgeSignalFacts, Recommendation

ALPHA = 0.05
"""Significance level at which abilities count as different; `benchmarks/no_signal.py` measures the size of the test."""
MAX_NAMED = 5
"""Maximum number of candidates that a text names; `agents` has all."""


class JudgeRates(NamedTuple):
    """TPR and FPR of a run's trials, NaN if unknown, and Youden's J with its interval."""

    tpr: float
    fpr: float
    j: Metric


def measure_judge_rates(trials: TrialsByItem) -> JudgeRates:
    """Measure the judge on the answered trials of a run, without follow-ups, probes and held-out cells.

    For a jury, the answer to a trial is that of all its judges. J is NaN if a trial type has no answer.
    """
    paired = ItemTotals(trials.plan.n_items)
    for chunk in trials.iter_answered():
        paired.add(chunk.answer, chunk.item + chunk.start)
    independent = trials.independent
    return JudgeRates(paired.mean, independent.mean, youdens_j(paired, independent, level=LEVEL))


def measure_judge_from_differences(blocks: Iterable[RateChunk], *, n_items: int) -> JudgeRates:
    """Measure the judge of an imported run, of which only D = TPR − FPR is known.

    `blocks` are the rates of the run in chunks of items.
    """
    totals = ItemTotals(n_items)
    for chunk in blocks:
        answers = chunk.answers
        totals.add(answers.value, answers.item + chunk.start, weight=answers.weight)
    return JudgeRates(float("nan"), float("nan"), mean_difference(totals, level=LEVEL))


def assess_signal(rates: JudgeRates, abilities: Abilities) -> JudgeSignalFacts:
    """Test whether the judge separates agents, and return the result as the facts of `fit.json`."""
    p_value = equal_abilities_p(abilities.ability, abilities.covariance)
    j = rates.j
    return JudgeSignalFacts(
        tpr=or_none(rates.tpr),
        fpr=or_none(rates.fpr),
        j=or_none(j.value),
        j_low=or_none(j.low),
        j_high=or_none(j.high),
        level=j.level,
        method=j.method,
        p_equal_abilities=or_none(p_value),
        alpha=ALPHA,
    )


def recommend(
    choice: ChoiceFacts | None, signal: JudgeSignalFacts, *, max_regret: float | None = None
) -> Recommendation:
    """Decide what a run recommends; `max_regret` is the maximum regret for which it searched, if it did.

    It recommends no agent if the interval of J is not above 0, if some agents cannot be compared (`choice` is None), or
    if the abilities do not differ significantly. It recommends the selected agents if every other agent is ruled out as
    the best, or if their regret bound is at most `max_regret`. Otherwise, it recommends all candidates.
    """
    if not signal.discriminates:
        return _no_recommendation(signal.judge_reason, signal.judge_remedy)
    if choice is None:
        return _no_recommendation("some agents cannot be compared with the leader", "Add comparisons that link them.")
    if not signal.separates_agents:
        reason = f"the abilities vary by no more than their sampling error (p = {signal.p_equal_abilities or 0:.2g})"
        return _no_recommendation(reason, f"{_format_bound(choice)} Add calls or items, or use another judge.")

    # the selected agents, if every other one is ruled out or their regret bound is small enough
    names = ", ".join(choice.agents)
    if not choice.candidates:
        verb = "It is" if len(choice.agents) == 1 else "They are"
        text = f"Recommended: {names}. {verb} better than every other agent ({choice.level:.0%})."
        return Recommendation("recommended", choice.agents, f"{text}{_format_estimate(choice)}")
    if max_regret is not None and choice.regret_bound <= max_regret:
        return Recommendation(
            "recommended", choice.agents, f"Recommended: {names}. {_format_bound(choice)}{_format_estimate(choice)}"
        )

    candidates = (*choice.agents, *choice.candidates)
    suffix = f" and {len(candidates) - MAX_NAMED} more" if len(candidates) > MAX_NAMED else ""
    text = f"Candidates: {', '.join(candidates[:MAX_NAMED])}{suffix}. {_format_bound(choice)}{_format_estimate(choice)}"
    return Recommendation("candidates", candidates, text)


def _no_recommendation(reason: str, remedy: str) -> Recommendation:
    """Recommend no agent, for a reason and with a sentence about what to do."""
    return Recommendation("none", (), f"No recommendation: {reason}. {remedy}", reason)


def _format_bound(choice: ChoiceFacts) -> str:
    """Format the regret bound of the selection."""
    names = ", ".join(choice.agents)
    if len(choice.agents) > 1:
        n = len(choice.agents)
        return (
            f"None of the selected {n} ({names}) is behind the best {n} by more than {choice.regret_bound:.3f} "
            f"({choice.level:.0%})."
        )
    return f"No other agent is better than {names} by more than {choice.regret_bound:.3f} ({choice.level:.0%})."


def _format_estimate(choice: ChoiceFacts) -> str:
    """Format the expected regret and the selection-adjusted interval of a single selected agent."""
    if len(choice.agents) > 1:
        return ""
    regret = f" On average it is {choice.expected_regret:.3f} behind the best." if choice.candidates else ""
    return f"{regret} Its ability is {choice.ability_low:.3f} … {choice.ability_high:.3f}, adjusted for selection."


def recommend_from_abilities(
    choice: ChoiceFacts | None, signal: JudgeSignalFacts, abilities: Abilities
) -> Recommendation:
    """Decide what a run recommends; the maximum regret is that of its search, if it was one."""
    max_regret = None if abilities.search is None else abilities.search.max_regret
    return recommend(choice, signal, max_regret=max_regret)


def explain_missing_signal(result: Verdicts, abilities: Abilities) -> str:
    """Explain why a judge cannot find a best agent.

    Parameters
    ----------
    result : Verdicts
        Verdicts of the judge.
    abilities : Abilities
        Abilities that are estimated from them.

    Returns
    -------
    str
        Reason, as part of a sentence; empty if the judge discriminates.
    """
    return assess_signal(measure_judge_rates(TrialsByItem.from_verdicts(result)), abilities).judge_reason
