"""Measure how well a run's judge discriminates, and recommend agents only on that basis.

Youden's J and its interval come from the run's own trials. A fit stores the recommendation by agreement in `fit.json`.
Outputs show the one that `read_recommendation` returns: it also considers the calibration of the judge, and labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from youden.data.folder.run_folder import RunFolder
from youden.engines.trial_blocks import RateChunk, TrialsByItem
from youden.pipeline.abilities import LEVEL, SELF_RANKING, Abilities, describe_selection
from youden.pipeline.multi_judge import JudgeSpread, average_judges, match_votes
from youden.stats.base.metrics import Metric
from youden.stats.judges.discrimination import ItemTotals, equal_abilities_p, mean_difference, youdens_j
from youden.stats.trials.best_selection import select_best
from youden.stats.trials.comparisons import pairwise_differences
from youden.text.sentences import (
    format_count,
    format_recognition_difference,
    format_recognitions,
    format_with_interval,
)
from youden.types import Finding, Verdicts
from youden.types.facts import ChoiceFacts
from youden.types.finding import kind_of
from youden.types.label_facts import QualityFacts
from youden.types.pool import or_none
from youden.types.recommendation import (
    JudgeSignalFacts,
    Recommendation,
    RecommendationForm,
    explain_few_agents,
)

ALPHA = 0.05
"""Significance level at which abilities count as different; `benchmarks/no_signal.py` measures the size of the test."""
MAX_NAMED = 10
"""Maximum number of candidates that a text names; `agents` has all."""
FAILED_CALIBRATION = "by a judge that failed its calibration (NO-GO)"
"""Clause of a recommendation by a judge that `youden calibrate` rejected on the same pool."""
CAUTION_REMEDY = "; use another judge before you decide"
"""End of the clauses that limit a recommendation."""


class JudgeRates(NamedTuple):
    """TPR and FPR of a run's trials, NaN if unknown, and Youden's J with its interval."""

    tpr: float
    fpr: float
    j: Metric


def measure_judge_rates(trials: TrialsByItem) -> JudgeRates:
    """Compute the true-positive rate, the false-positive rate and J = TPR − FPR of a judge.

    The TPR is the mean answer to paired trials, which compare two responses to one item. The FPR is the mean answer to
    independent trials, which compare responses to different items. Held-out responses and trials that serve another purpose do
    not count. A rate without answers is NaN, and J is then also NaN.
    """
    paired = ItemTotals(trials.plan.n_items)
    for chunk in trials.iter_answered():
        item = chunk.start + chunk.item  # a chunk numbers its items from 0
        paired.add(chunk.answer, item)
    independent = trials.independent
    return JudgeRates(paired.mean, independent.mean, youdens_j(paired, independent, level=LEVEL))


def measure_judge_from_differences(chunks: Iterable[RateChunk], *, n_items: int) -> JudgeRates:
    """Compute Youden's J of the judge of an imported run.

    Only the differences D = TPR − FPR are known in such a run. J is the mean of D over all pairs of agents and items, weighted by
    numbers of trials.

    chunks : differences by pair of agents and item, in chunks of items
    n_items : number of items of the run

    Returns J with its interval; the TPR and the FPR are NaN.
    """
    totals = ItemTotals(n_items)
    for chunk in chunks:
        differences = chunk.answers
        item = chunk.start + differences.item  # a chunk numbers its items from 0
        totals.add(differences.value, item, weight=differences.weight)
    unknown = float("nan")
    return JudgeRates(unknown, unknown, mean_difference(totals, level=LEVEL))


def assess_signal(rates: JudgeRates | None, abilities: Abilities | JudgeSpread) -> JudgeSignalFacts:
    """Test whether the answers of a judge can rank agents.

    The result is stored in `fit.json`. Two conditions are tested: Youden's J = TPR − FPR is above 0, and the abilities are not
    all equal.

    rates : TPR, FPR and J of the judge; None if it was asked for preferences, which have no rates
    abilities : abilities with their covariance
    """
    p_value = equal_abilities_p(abilities.ability, abilities.covariance)
    if rates is None:
        return JudgeSignalFacts(p_equal_abilities=or_none(p_value), alpha=ALPHA, question="preference")
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
    choice: ChoiceFacts | None,
    signal: JudgeSignalFacts,
    *,
    max_regret: float | None = None,
    warnings: Sequence[Finding] = (),
) -> Recommendation:
    """Decide which agents a run recommends by its abilities: the selected ones, all candidates, or none.

    Parameters
    ----------
    choice : ChoiceFacts or None
        Selection of the best agents with their regret bound; None if some agents cannot be compared.
    signal : JudgeSignalFacts
        J of the judge with its interval, and a test of equal abilities. A run that asks for preferences has no J.
    max_regret : float, optional
        Maximum regret that the search of the run was to reach. None if the run is not a search, or is a search without a
        maximum regret.
    warnings : sequence of Finding, default ()
        Findings about the run. Those that limit the recommendation add a clause to the first sentence of its text, and
        set its `caution`; a recommendation of no agent stays unchanged.

    Returns
    -------
    Recommendation
        Its `text` (sentences), and one of three values of `form`:

        - "none" if the interval of J is not above 0 (not tested for preferences), if agents cannot be compared, or if abilities
          do not differ significantly. `agents` is then empty, and `reason` states why.
        - "recommended" if every other agent is ruled out as the best, or if the regret bound is at most `max_regret`. `agents`
          has the ids of the selected agents.
        - "candidates" otherwise. `agents` has the ids of all agents that may be the best.
    """
    if not signal.discriminates:
        return recommend_no_agent(signal.judge_reason, signal.judge_remedy)
    if choice is None:
        reason = (
            "some agents cannot be compared with the leader, because they have no answers, or answers on one item only, or "
            "because no comparison links them"
        )
        return recommend_no_agent(reason, "Add comparisons on more items, or remove these agents.")
    if not signal.separates_agents:
        reason = f"the abilities vary by no more than their sampling error (p = {signal.p_equal_abilities or 0:.2g})"
        bound = _format_regret_bound(choice)
        remedy = f"{bound[0].upper()}{bound[1:]}. Add comparisons or items, or use another judge."
        return recommend_no_agent(reason, remedy)

    form: RecommendationForm = "recommended"
    agents = choice.agents
    if not choice.candidates:
        comparison = f"{_name_selection(choice)} better than every other agent ({choice.level:.0%})"
    else:
        comparison = _format_regret_bound(choice)
        if max_regret is None or choice.regret_bound > max_regret:
            form, agents = "candidates", (*choice.agents, *choice.candidates)

    is_preference = signal.question == "preference"
    evidence = _format_preference(choice) if is_preference else _format_recognition(choice)
    text = f"{_format_names(form, agents)}. {evidence}; {comparison}."
    few_agents = explain_few_agents(len(choice.p_best))
    if few_agents and not is_preference:
        text += f" {few_agents}"
    recommendation = Recommendation(form, agents, text)
    for caution in _find_cautions(warnings):
        recommendation = _with_caution(recommendation, caution)
    return recommendation


def recommend_no_agent(reason: str, remedy: str) -> Recommendation:
    """Recommend no agent, for a reason and with a sentence about what to do."""
    return Recommendation("none", (), f"No recommendation: {reason}. {remedy}", reason)


def _format_names(form: RecommendationForm, agents: Sequence[str]) -> str:
    """Format the beginning of a recommendation: its form and the names of its agents."""
    if form == "recommended":
        return f"Recommended: {', '.join(agents)}"
    return f"Candidates: {list_first_names(agents)}"


def list_first_names(names: Sequence[str]) -> str:
    """List at most `MAX_NAMED` names, and state how many more there are."""
    suffix = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + suffix


def _format_recognition(choice: ChoiceFacts) -> str:
    """State the ability of the selected agents and of the next agent, as numbers of 100 comparisons.

    An ability is how often the judge recognizes the responses of an agent, beyond chance. For example, 0.61 is stated as 61 of
    100 comparisons. If several agents are selected, the lowest of their abilities is stated.
    """
    # `choice.abilities` has the selected agents, best first, and then the best other agent, if there is one
    n_selected = len(choice.agents)
    names = list(choice.abilities)
    abilities = list(choice.abilities.values())
    lowest_selected, *next_ability = abilities[n_selected - 1 :]

    selected_number, *next_number = format_recognitions(lowest_selected, *next_ability)
    selection = f"{names[0]} in" if n_selected == 1 else "each in at least"
    text = f"The judge recognizes the responses of {selection} {selected_number} of 100 comparisons beyond chance"
    if next_number:
        text += f", those of {names[-1]} in {next_number[0]}"
    return text


def _format_preference(choice: ChoiceFacts) -> str:
    """Format how much more often the selection and the next agent win against the average agent than they lose."""
    margins = format_recognitions(*choice.abilities.values())
    texts = [f"{agent} {margin}" for agent, margin in zip(choice.abilities, margins, strict=True)]
    return f"Of 100 comparisons with the average agent, wins minus losses: {', '.join(texts)}"


def _name_selection(choice: ChoiceFacts) -> str:
    """Name the selection as the subject of a sentence, with its verb."""
    return f"{choice.agents[0]} is" if len(choice.agents) == 1 else "they are"


def _format_regret_bound(choice: ChoiceFacts) -> str:
    """State in words how much better another agent may be than the selected ones (regret bound).

    The text is a part of a sentence. The bound is the upper confidence bound on this difference of abilities. For example, 0.04
    is stated as 4 of 100 comparisons.
    """
    n_comparisons = format_recognition_difference(choice.regret_bound)
    bound = f"{n_comparisons} of 100 comparisons ({choice.level:.0%} confidence)"
    names = ", ".join(choice.agents)
    n_selected = len(choice.agents)
    if n_selected == 1:
        return f"no other agent is better than {names} by more than {bound}"
    return f"none of the selected {n_selected} ({names}) is behind the best {n_selected} by more than {bound}"


def _find_cautions(warnings: Sequence[Finding]) -> list[str]:
    """Collect the clauses that warnings add to a recommendation; one about a single member of a jury adds none."""
    of_run = [finding for finding in warnings if finding.severity == "warning" and "judge" not in finding.facts]
    cautions = dict.fromkeys(kind_of(finding).caution for finding in of_run)
    return [caution for caution in cautions if caution]


def _with_caution(recommendation: Recommendation, caution: str) -> Recommendation:
    """Add a reason for caution to the first sentence of a recommendation.

    For example, "Recommended: a." becomes "Recommended: a, by a judge that failed its calibration (NO-GO); use another judge
    before you decide." Other sentences stay unchanged. A recommendation of no agent also stays unchanged.

    caution : clause that states the reason, for example `FAILED_CALIBRATION`
    """
    # the text consists of the names of the agents, the reasons for caution with a remedy, if there are any, and the remainder
    names = _format_names(recommendation.form, recommendation.agents)
    if recommendation.form == "none" or not recommendation.text.startswith(names):
        return recommendation

    remainder = recommendation.text.removeprefix(names)
    new_caution = f"{caution}{CAUTION_REMEDY}"
    if recommendation.caution:
        remainder = remainder.removeprefix(f", {recommendation.caution}")
        earlier_reasons = recommendation.caution.removesuffix(CAUTION_REMEDY)
        new_caution = f"{earlier_reasons}, and {new_caution}"
    return replace(recommendation, text=f"{names}, {new_caution}{remainder}", caution=new_caution)


def recommend_from_abilities(
    choice: ChoiceFacts | None, signal: JudgeSignalFacts, abilities: Abilities, *, warnings: Sequence[Finding] = ()
) -> Recommendation:
    """Decide from the abilities of a run which agents to recommend.

    These are the selected agents, all candidates for the best agent, or none. No agent is recommended if each agent was
    compared only with itself (self-trials).

    choice : selection of the best agents; None if some agents cannot be compared
    signal : tests whether the judge discriminates (Youden's J is above 0), and whether the abilities differ
    abilities : abilities of the run; if it was a search, they contain its maximum regret
    warnings : findings about the run. Some add a clause to the text, but none changes which agents are recommended.

    Returns the recommendation: `form` ("recommended", "candidates" or "none"), `agents` (ids) and `text`. `decided_by` states
    what the abilities measure: "agreement", "preference" or, for self-trials, "self_consistency". If no agent is recommended,
    `reason` states why.
    """
    if abilities.ranking == SELF_RANKING:
        return _recommend_no_agent_for_self_trials(signal, n_agents=len(abilities.ability))

    max_regret = None if abilities.search is None else abilities.search.max_regret
    recommendation = recommend(choice, signal, max_regret=max_regret, warnings=warnings)
    if signal.question == "preference":
        return replace(recommendation, decided_by="preference")
    return replace(recommendation, decided_by="agreement")


_SELF_TRIALS_REMEDY = (
    "Compare two versions by `youden gate RUN --agent NEW --baseline OLD`, or add agents for a ranking."
)
_SELF_TRIALS_REMEDY_FOR_ONE = (
    "Add agents for a ranking, or responses of another version of the agent; then make a new run. `youden gate` compares two "
    "versions."
)
"""What to do after self-trials of two agents, and of one agent."""


def _recommend_no_agent_for_self_trials(signal: JudgeSignalFacts, *, n_agents: int) -> Recommendation:
    """Make the recommendation of a run that compares each agent only with itself. It names no agent.

    A self-trial compares two responses of one agent, so it does not show which agent is better. The text states this reason and
    a remedy.

    signal : mean answer to self-trials of one item (TPR) and of two items (FPR)
    n_agents : number of agents of the run
    """
    has_one_answer = signal.tpr == signal.fpr and signal.tpr in (0, 1)
    if has_one_answer:
        answer = "yes" if signal.tpr else "no"
        reason = f"the judge answers {answer} to all self-trials, so J is 0 and shows nothing about the agent"
        remedy = "Read a few responses. If they differ between items, use another judge."
    else:
        reason = "an agent that is compared only with itself can be stable without being correct"
        remedy = _SELF_TRIALS_REMEDY_FOR_ONE if n_agents == 1 else _SELF_TRIALS_REMEDY
    return replace(recommend_no_agent(reason, remedy), decided_by="self_consistency")


def recommend_across_judges(results: Sequence[Verdicts], judge_spread: JudgeSpread) -> Recommendation:
    """Recommend agents by their mean abilities over several judges.

    The intervals contain the variance between judges.

    Parameters
    ----------
    results : sequence of Verdicts
        Answers of each judge. Only the trials of the first judge's run are used; the other runs may list them in another order.
        A trial is missing if a judge did not answer it.
    judge_spread : JudgeSpread
        Mean abilities over these judges, with their covariance.

    Returns
    -------
    Recommendation
        Recommended agents or candidates. No agent is recommended in three cases. First, Youden's J (true-positive minus
        false-positive rate) of the judges' mean answers is unknown or not significantly above 0. Second, some agents cannot be
        compared. Third, the abilities do not differ significantly.
    """
    # selection of the best agents; None if some agents cannot be compared
    agent_ids = results[0].plan.agent_ids
    differences = pairwise_differences(judge_spread.ability, judge_spread.covariance, level=LEVEL)
    selection = select_best(judge_spread.ability, judge_spread.covariance, differences)
    choice = None
    if selection is not None:
        choice = describe_selection(selection, judge_spread.ability, agent_ids)

    # test whether the judges discriminate: together, they count as one jury that answers by the mean of their votes
    votes = match_votes(results)
    jury = average_judges(replace(results[0], votes=votes))
    rates = measure_judge_rates(TrialsByItem.from_verdicts(jury))
    signal = assess_signal(rates, judge_spread)
    return recommend(choice, signal)


def read_recommendation(folder: RunFolder) -> Recommendation:
    """Read the recommendation of a run, and add a warning from the judge's calibration and the result by labels, if any.

    Parameters
    ----------
    folder : RunFolder
        Folder of a fitted run.

    Returns
    -------
    Recommendation
        Recommendation of fit.json, with a clause if the judge failed its calibration on the same pool. If quality was
        estimated from labels, the text also states the result by labels, and which of the two results decides. The text
        of an unfinished run begins with a sentence on how many of its calls are done.

    Raises
    ------
    RunFolderError
        If a file is missing or damaged.
    """
    run_facts = folder.read_facts()
    recommendation = run_facts.recommendation
    calibration = folder.find_calibration()
    if calibration is not None and calibration.outcome == "no-go" and calibration.pool == folder.read_pool().digest:
        recommendation = _with_caution(recommendation, FAILED_CALIBRATION)
    quality = folder.find_quality()
    if quality is not None:
        recommendation = recommend_by_labels(recommendation, quality)
    if run_facts.partial is not None:
        recommendation = replace(recommendation, text=f"{run_facts.partial.text} {recommendation.text}")
    return recommendation


def recommend_by_labels(by_agreement: Recommendation, quality: QualityFacts) -> Recommendation:
    """Combine the recommendation by agreement with the quality that is estimated from labels.

    Parameters
    ----------
    by_agreement : Recommendation
        Recommendation by agreement.
    quality : QualityFacts
        Estimated quality of all agents.

    Returns
    -------
    Recommendation
        Recommendation whose text states both results, and which of them decides.

    Notes
    -----
    Labels usually decide, because they measure quality, which agreement only predicts. The candidates by labels are the smallest
    set of agents that contains the best one with the posterior probability `quality.level`.

    If agreement recommends agents or candidates, agreement decides in two cases:

    1. the quality of some agents is unknown;
    2. the agents named by agreement are only a part of the candidates by labels, and there is no reason for caution
       (`by_agreement.caution`).
    """
    best = quality.agents[0]
    interval = format_with_interval(best.quality or 0.0, best.low, best.high)
    n_labels = format_count(quality.n_labels, "label")
    estimate = f"{best.agent} has the highest quality, {interval}{quality.tie}, estimated from {n_labels}"
    candidates = find_candidates_by_labels(quality)

    reason_for_agreement = ""
    if by_agreement.form != "none":
        n_unknown = sum(row.quality is None for row in quality.agents)
        is_part_of_candidates = set(by_agreement.agents) < set(candidates)
        if n_unknown:
            reason_for_agreement = f"the quality of {format_count(n_unknown, 'agent')} is unknown"
        elif is_part_of_candidates and not by_agreement.caution:
            names = ", ".join(by_agreement.agents[:MAX_NAMED])
            reason_for_agreement = f"the labels do not rule out {names} as the best"
    if reason_for_agreement:
        text = f"{by_agreement.text} By labels, {estimate}. Agreement decides, because {reason_for_agreement}."
        return replace(by_agreement, text=text)

    form: RecommendationForm = "recommended" if len(candidates) == 1 else "candidates"
    text = (
        f"{_format_names(form, candidates)}, by labels: {estimate}. Labels decide, because they measure quality, which "
        f"agreement only predicts. By agreement: {by_agreement.text}"
    )
    return Recommendation(form, candidates, text, decided_by="labels")


def find_candidates_by_labels(quality: QualityFacts) -> tuple[str, ...]:
    """Find the smallest set of agents that contains the best one with the posterior probability `quality.level`.

    quality : quality of each agent, estimated from labels, with its probability of being the best

    Returns the ids of the agents, in the order of `quality.agents`.
    """
    candidates = set()
    p_contains_best = 0.0
    for row in sorted(quality.agents, key=lambda row: -row.p_best):
        candidates.add(row.agent)
        p_contains_best += row.p_best
        if p_contains_best >= quality.level:
            break
    return tuple(row.agent for row in quality.agents if row.agent in candidates)


def explain_no_discrimination(verdicts: Verdicts, abilities: Abilities) -> str:
    """Explain why a judge does not discriminate, so that its answers cannot rank agents.

    A judge discriminates if Youden's J of its answers is significantly above 0.

    Parameters
    ----------
    verdicts : Verdicts
        Verdicts of the judge.
    abilities : Abilities
        Abilities that are estimated from these verdicts.

    Returns
    -------
    str
        Reason, as part of a sentence. Empty if the judge discriminates, or if the run asks for preferences, which have no J.
    """
    rates = None
    if verdicts.plan.question == "information":
        rates = measure_judge_rates(TrialsByItem.from_verdicts(verdicts))
    return assess_signal(rates, abilities).judge_reason
