"""Decide whether an agent is better, no worse or worse than a baseline, and how many more calls would decide it.

A gate sends no requests: each invocation is an interim analysis of the answers of a run, counted in a ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from pathlib import Path

import numpy as np

from youden.data.folder.folder_lock import file_lock
from youden.data.folder.run_files import GATES_FILE, GateLedger, GateQuantity, read_ledger, write_ledger
from youden.data.folder.run_folder import RunFolder
from youden.errors import InputError
from youden.pipeline.abilities import SELF_RANKING
from youden.pipeline.preference_abilities import PREFERENCE_MODEL
from youden.pipeline.recommendation import read_recommendation
from youden.run_keys import Target
from youden.stats.base.clusters import MIN_ITEMS
from youden.stats.trials.noninferiority import (
    ConservativeDifference,
    GateOutcome,
    alpha_at_analysis,
    conditional_power,
    decide,
    required_n_items,
    zero_event_upper_bound,
)
from youden.stats.trials.trial_errors import RemainingVariance
from youden.text.sentences import suggest_name
from youden.types.arguments import check_argument
from youden.types.facts import POSITION_REMEDY, ChoiceFacts, RunFacts
from youden.types.pool import Floats, Json, Positions
from youden.types.recommendation import Recommendation
from youden.workflows.gate_answers import DifferenceForecast, GateAnswers, QualityDifference, read_answers
from youden.workflows.quality import LabeledAnswers, add_quality_comparison

MARGIN = 0.05
_CONDITIONAL_POWER = 0.9
"""Conditional power of the recommended calls; `benchmarks/gate.py` counts how often they do decide."""
_MIN_RATE_SHARE = 0.1
"""Share of the false-positive rates in the variance of a difference from which more independent calls are recommended.

Below it, halving the standard errors of the rates narrows the interval by less than 4%.
"""
_ITEM_GRID = np.unique(np.geomspace(MIN_ITEMS, 10**6, 500).astype(np.int64))


@dataclass(frozen=True)
class RequiredCalls:
    """Calls or items that decide with a conditional power of 90%.

    The power is computed for the true difference at which a decision is least likely. All fields are None if an agent
    was seen on fewer than 6 items.

    Attributes
    ----------
    calls, usd : int, float or None
        Additional calls on the same items, None if no number suffices, and their cost, None if a price is unknown.
    items, conditional_power : int, float or None
        Set only if no number of calls on these items suffices. `items` is the approximate number of items that suffices if all
        comparisons on them are made. `conditional_power` is the probability of a decision after all comparisons on the present
        items; None if all have been made.
    items_at_current_difference : int or None
        Number of items that suffices if the true difference equals the present estimate.
    independent_calls : int or None
        Number of additional independent calls that halves the standard errors of the false-positive rates. None if other calls
        on these items are enough, if the run cannot be extended by independent calls, or if the rates account for less than a
        tenth of the variance of the difference.
    """

    calls: int | None = None
    usd: float | None = None
    items: int | None = None
    conditional_power: float | None = None
    items_at_current_difference: int | None = None
    independent_calls: int | None = None


@dataclass(frozen=True)
class GateResult:
    """Comparison of one agent with the baseline.

    Attributes
    ----------
    agent, outcome : str
        The agent, and the decision: "better", "no worse", "worse" or "undecided".
    difference, low, high : float, float or None
        Ability of the agent minus ability of the baseline, and its confidence bounds at `level`. The bounds are None if
        one of the two was seen on fewer than 6 items, or if the judge does not discriminate; in the second case, the
        analysis is not counted.
    level, analysis : float, int
        Confidence level of the interval, and number of this interim analysis of the two agents, from 1.
    n_items : int
        Number of items on which both agents were compared; without an interval, the smaller of the numbers of items of the
        two agents.
    required, reason : RequiredCalls or None, str
        Calls that would decide an "undecided" result; reason why nothing can be decided, else empty.
    smaller_margin : float or None
        Smallest margin of earlier analyses of the two agents, if it is smaller than the margin of this analysis.
    """

    agent: str
    outcome: GateOutcome
    difference: float
    low: float | None
    high: float | None
    level: float
    analysis: int
    n_items: int
    required: RequiredCalls | None
    reason: str = ""
    smaller_margin: float | None = None


@dataclass(frozen=True)
class Gate:
    """Result of a gate.

    Attributes
    ----------
    folder, signature : str
        Path of the run folder, as it was given, and signature of the run.
    baseline, margin : str, float
        The baseline, and the largest deficit that counts as no worse, in units of ability or of the labels.
    method : str
        Method of the comparison, for display.
    calls, extendable : int or None, bool
        Calls of the run, None if imported; whether calls can be added to it, without a new run.
    agents, target : tuple of GateResult, {"items-like-these", "these-items"}
        One result per agent; the population that the differences refer to.
    choice, recommendation : ChoiceFacts, Recommendation or None
        Selection and recommendation among all agents of the run, None if quality is compared.
    calibration, by : str or None, {"ability", "quality"}
        A line on the stored calibration of the judge, if there is one; the quantity that is compared.
    ranking, label_notes : str, tuple of str
        Ranking of the run, such as "self-consistency" for self-trials; sentences on labels that do not fit the run.
    """

    folder: str
    baseline: str
    margin: float
    method: str
    calls: int | None
    extendable: bool
    signature: str
    agents: tuple[GateResult, ...]
    target: Target = "items-like-these"
    choice: ChoiceFacts | None = None
    recommendation: Recommendation | None = None
    calibration: str | None = None
    by: GateQuantity = "ability"
    ranking: str = ""
    label_notes: tuple[str, ...] = ()

    @property
    def is_of_self_consistency(self) -> bool:
        """Whether the consistency of agents with themselves is compared."""
        return self.by == "ability" and self.ranking == SELF_RANKING

    @property
    def is_of_preferences(self) -> bool:
        """Whether preferences for the agents are compared."""
        return self.by == "ability" and self.ranking == PREFERENCE_MODEL

    @property
    def outcome(self) -> GateOutcome:
        """The least favorable outcome of all agents."""
        order: tuple[GateOutcome, ...] = ("worse", "undecided", "no worse", "better")
        return min((row.outcome for row in self.agents), key=order.index)

    @property
    def focus(self) -> tuple[str, ...]:
        """Undecided agents that more calls would decide, then the baseline; empty if there are none."""
        agents = tuple(row.agent for row in self._decidable)
        return (*agents, self.baseline) if agents else ()

    @property
    def required(self) -> RequiredCalls | None:
        """Additional calls that decide the comparisons of all agents in `focus`, with their cost.

        They are None if `focus` is empty. The number follows from the comparison that needs the most calls. The requirement of
        this comparison covers all agents if the run cannot be extended. Otherwise, it covers two agents, so it is multiplied by
        half the number of agents in `focus`.
        """
        requirements = [row.required for row in self._decidable if row.required]
        largest = max(requirements, key=lambda requirement: requirement.calls or 0, default=None)
        if largest is None or largest.calls is None or not self.extendable:
            return largest

        n_calls = -(-largest.calls * len(self.focus) // 2)  # rounded up
        total_usd = None if largest.usd is None else largest.usd * n_calls / largest.calls
        return replace(largest, calls=n_calls, usd=total_usd)

    @property
    def _decidable(self) -> tuple[GateResult, ...]:
        """Results of the undecided agents that more calls would decide."""
        return tuple(row for row in self.agents if row.outcome == "undecided" and row.required and row.required.calls)

    def to_json(self) -> dict[str, Json]:
        """Return the fields and the verdict as a JSON object."""
        return asdict(self) | {"outcome": self.outcome}


@dataclass(frozen=True)
class GateAnalysis:
    """Number of an interim analysis of an agent, from 1, and the confidence level of its interval."""

    agent: str
    analysis: int
    level: float


def _resolve_target(folder: RunFolder, target: Target | None, labels: LabeledAnswers | None) -> Target:
    """Return the population of items to which the conclusions of a gate refer.

    A gate is a non-inferiority test of agents against a baseline. A comparison by quality or by preferences always refers to
    "items-like-these": more items of the same kind.

    target : population that the user set. Default: "these-items" if the run was fitted for it, otherwise "items-like-these"
    labels : labels from which quality is estimated; None to compare abilities

    Raises InputError [gate-target] if the user set "items-and-judges", or another population than "items-like-these" for a
    comparison by quality or by preferences.
    """
    compares_abilities = labels is None and not folder.asks_preference
    if not compares_abilities:
        if target not in (None, "items-like-these"):
            raise InputError(
                f"Quality and preferences refer to more items of the same kind: got the target '{target}'. Remove --target.",
                slug="gate-target",
            )
        return "items-like-these"

    if target == "items-and-judges":
        raise InputError(
            "A gate does not include the variance between judges: got the target 'items-and-judges'. Pass 'items-like-these' or "
            "'these-items'.",
            slug="gate-target",
        )
    if target is not None:
        return target
    return "these-items" if folder.fit_settings.target == "these-items" else "items-like-these"


def plan_analyses(
    folder: RunFolder,
    agents: Sequence[str],
    *,
    baseline: str,
    ledger: Path | None = None,
    target: Target | None = None,
    labels: LabeledAnswers | None = None,
) -> tuple[GateAnalysis, ...]:
    """Determine the interim analyses that the next call of `gate_run` would make; nothing is computed or written.

    A gate compares new agents with a baseline. Each interim analysis of the same comparison spends less alpha than the
    one before, so their numbers are kept in a file, the ledger. An analysis of answers that were analyzed before keeps
    its number.

    Parameters
    ----------
    folder : RunFolder
        A judged and fitted run.
    agents : sequence of str
        Agents to compare with the baseline.
    baseline : str
        Agent that they are compared with.
    ledger : Path, optional
        File that counts the interim analyses; without the file, no analysis was made before. Default: gates.json in the run's
        folder.
    target : {"items-like-these", "these-items"}, optional
        Population for which the intervals hold: more items like those of the run, or its items alone. With `labels` and for a
        run that asks for preferences, only "items-like-these" is allowed. Default: "these-items" if this is the target of the
        run and allowed, otherwise "items-like-these".
    labels : LabeledAnswers, optional
        Labels, if quality is compared instead of ability.

    Returns
    -------
    tuple of GateAnalysis
        Number (from 1) and confidence level of the analysis of each distinct agent, in the order of `agents`.

    Raises
    ------
    InputError
        [gate-agent] if an agent or the baseline is unknown; [gate-unjudged] if it has no answers; [gate-baseline] if there are
        no agents, or the baseline is one of them; [gate-target] if earlier analyses or the labels have another target.
    RunFolderError
        If the run is not judged and fitted; [gate-ledger] if the ledger is damaged.
    """
    target = _resolve_target(folder, target, labels)
    recorded = read_ledger(ledger or folder.file(GATES_FILE))
    answers = add_quality_comparison(read_answers(folder), folder, labels)
    return _number_analyses(folder, answers, agents, baseline, recorded, target=target)


def gate_run(
    folder: RunFolder,
    agents: Sequence[str],
    *,
    baseline: str,
    margin: float = MARGIN,
    ledger: Path | None = None,
    target: Target | None = None,
    labels: LabeledAnswers | None = None,
) -> Gate:
    """Test whether agents are better, worse or no worse than a baseline, and record the interim analyses.

    Parameters
    ----------
    folder : RunFolder
        A judged and fitted run.
    agents, baseline : sequence of str, str
        Agents to compare, and the baseline to compare them with.
    margin : float in (0, 2), default 0.05
        Largest deficit that counts as no worse, in units of ability, or of the labels if `labels` are given.
    ledger : Path, optional
        File that counts the interim analyses; it is created if it does not exist. Default: gates.json in the run's folder.
    target : {"items-like-these", "these-items"}, optional
        Population for which the intervals hold: more items like those of the run, or its items alone. With `labels` and for a
        run that asks for preferences, only "items-like-these" is allowed. Default: "these-items" if this is the target of the
        run and allowed, otherwise "items-like-these".
    labels : LabeledAnswers, optional
        Labeled responses of the run, from `workflows.quality.read_answers`. Quality is then compared instead of ability. If
        labels were added or changed, the gate counts as another analysis.

    Returns
    -------
    Gate
        One result per distinct agent (`agents`), whose `outcome` is "better", "no worse", "worse" or "undecided". The `outcome`
        of the gate is the least favorable of these; "undecided" is less favorable than "no worse". An agent with answers on
        fewer than 6 items (`MIN_ITEMS`) is undecided. All agents are undecided if the judge does not discriminate, unless labels
        are given. In both cases, the agents have no interval, and their analyses are not recorded.

    Raises
    ------
    InputError
        [gate-margin] if the margin is not in (0, 2); [gate-agent] if an agent or the baseline is unknown; [gate-unjudged] if it
        has no answers; [gate-baseline] if there are no agents, or the baseline is one of them; [gate-not-comparable] if the
        answers do not link an agent with the baseline; [gate-target] if earlier analyses or the labels have another target.
    StatisticsError
        [quality-unknown] if the quality of an agent cannot be estimated from `labels`.
    RunFolderError
        If the run is not judged and fitted; [gate-ledger] if the ledger is damaged.

    Notes
    -----
    The type I error rate is divided among the agents and over all interim analyses of the same two agents, alpha_k =
    .025·2^(1−k)/n_agents on either side for analysis k. Repeating a gate on the same answers repeats the same analysis and
    spends no further alpha.
    """
    check_argument("margin", margin, Real, "Set a number, such as 0.05.")
    if not 0 < margin < 2:
        raise InputError(
            f"The margin must be above 0 and below 2: got {margin:g}. Set the largest deficit that counts as no worse, such as "
            f"{MARGIN:g}.",
            slug="gate-margin",
        )
    target = _resolve_target(folder, target, labels)
    path = ledger or folder.file(GATES_FILE)
    answers = add_quality_comparison(read_answers(folder, target=target), folder, labels)
    with file_lock(path):  # another gate must not use the same number of an analysis
        recorded = read_ledger(path)
        analyses = _number_analyses(folder, answers, agents, baseline, recorded, target=target)
        n_agents = len(analyses)
        rows = [
            _evaluate_difference(answers, each, baseline=baseline, margin=margin, n_agents=n_agents)
            for each in analyses
        ]

        facts = folder.read_facts()
        if not labels:
            rows = [_withdraw_unsupported_outcome(row, facts) for row in rows]
        by: GateQuantity = "quality" if labels else "ability"
        rows = [replace(row, smaller_margin=_find_smaller_margin(recorded, row, baseline, margin, by)) for row in rows]
        for row in rows:
            if row.low is not None:
                recorded = recorded.with_analysis(
                    row.agent, baseline, answers=answers.digest, margin=margin, by=by, target=target
                )
        write_ledger(path, recorded)
    return Gate(
        folder=str(folder.path),
        baseline=baseline,
        margin=margin,
        method=answers.method,
        calls=answers.n_calls,
        extendable=answers.is_extendable,
        signature=answers.signature,
        agents=tuple(rows),
        target=target,
        choice=None if labels else facts.choice,
        recommendation=None if labels else read_recommendation(folder),
        calibration=folder.calibration,
        by=by,
        ranking=facts.ranking,
        label_notes=labels.notes if labels else (),
    )


def _find_smaller_margin(
    recorded: GateLedger, row: GateResult, baseline: str, margin: float, by: GateQuantity
) -> float | None:
    """Return the smallest margin of earlier analyses of an agent if it is below `margin`, otherwise None."""
    earlier = recorded.get_smallest_margin(row.agent, baseline, by=by)
    return earlier if earlier is not None and earlier < margin else None


def _evaluate_difference(
    answers: GateAnswers, analysis: GateAnalysis, *, baseline: str, margin: float, n_agents: int
) -> GateResult:
    """Compare one agent with the baseline: by quality if the answers have labels, otherwise by ability.

    analysis : the agent, the number of the interim analysis, and the confidence level of its interval
    baseline : id of the baseline
    margin : largest deficit (baseline minus agent) that still counts as no worse, in units of ability, or of the labels if
        quality is compared
    n_agents : number of agents that are compared together and share alpha
    """
    if answers.quality is not None:
        difference = answers.quality(analysis.agent, baseline, analysis.level)
        return _evaluate_quality(difference, analysis, margin=margin)

    new_agent = answers.agent_ids.index(analysis.agent)
    baseline_agent = answers.agent_ids.index(baseline)
    return evaluate_agent(
        answers.forecast(new_agent, baseline_agent),
        analysis,
        n_compared=n_agents,
        n_items=answers.n_items,
        margin=margin,
        usd=answers.usd_per_call,
        n_independent=answers.n_independent,
    )


def _limit_to_net_win_rates(row: GateResult) -> GateResult:
    """Limit a difference and its interval to [−1, 1]; the linear model of preferences may exceed these bounds."""
    low = None if row.low is None else max(row.low, -1.0)
    high = None if row.high is None else min(row.high, 1.0)
    return replace(row, difference=min(max(row.difference, -1.0), 1.0), low=low, high=high)


def _withdraw_unsupported_outcome(comparison: GateResult, facts: RunFacts) -> GateResult:
    """Change the outcome of a comparison to "undecided" if the answers do not support it.

    There are three reasons:
    - the judge states preferences, and its position bias is too large or unknown;
    - the judge does not discriminate significantly;
    - the judge states preferences, the outcome is "no worse", and no two abilities of the run differ significantly. A judge
      that chooses responses at random would lead to the same outcome.

    If the judge states preferences, the difference and its interval are also restricted to [−1, 1].
    """
    if facts.preference is not None:
        comparison = _limit_to_net_win_rates(comparison)
    problem = _describe_signal_problem(facts)
    if problem is not None:
        return replace(comparison, outcome="undecided", low=None, high=None, required=None, reason=problem)

    is_by_preferences = facts.signal.question == "preference"
    if is_by_preferences and comparison.outcome == "no worse" and not facts.signal.separates_agents:
        reason = (
            "the abilities of the run do not differ significantly, so this judge may prefer no response to any other. "
            "Add an agent that is known to be worse, or use another judge."
        )
        return replace(comparison, outcome="undecided", reason=reason)
    return comparison


def _describe_signal_problem(facts: RunFacts) -> str | None:
    """Describe why no difference between agents can be read from the answers of a judge; None if it can."""
    if facts.preference is not None and facts.preference.position_problem:
        return f"{facts.preference.position_problem}. {POSITION_REMEDY}"
    if not facts.signal.discriminates:
        return f"{facts.signal.judge_reason}. {facts.signal.judge_remedy}"
    return None


def _evaluate_quality(difference: QualityDifference, analysis: GateAnalysis, *, margin: float) -> GateResult:
    """Decide by the interval of the difference in quality."""
    value, low, high, n_labels = difference
    outcome = decide((low + high) / 2, (high - low) / 2, margin=margin).outcome
    return GateResult(analysis.agent, outcome, value, low, high, analysis.level, analysis.analysis, n_labels, None)


def _number_analyses(
    folder: RunFolder,
    answers: GateAnswers,
    agents: Sequence[str],
    baseline: str,
    recorded: GateLedger,
    *,
    target: Target,
) -> tuple[GateAnalysis, ...]:
    """Determine the number and the confidence level of the next interim analysis of each agent.

    Each analysis has a smaller type I error rate (alpha) than the one before, so that the total over all analyses is limited. A
    comparison consists of two one-sided tests with this alpha, so the level of its two-sided interval is 1 − 2·alpha.

    agents : ids of the agents to compare with the baseline; duplicates are ignored
    recorded : record of the earlier analyses

    Raises InputError: [gate-agent] or [gate-unjudged] if the answers lack an agent or the baseline; [gate-baseline] if there are
    no agents, or if the baseline is one of them; [gate-target] if earlier analyses of an agent had another target.
    """
    distinct_agents = tuple(dict.fromkeys(agents))
    for agent in (baseline, *distinct_agents):
        _check_agent(folder, answers, agent)
    if not distinct_agents or baseline in distinct_agents:
        problem = "as the agent" if distinct_agents else "no agent"
        raise InputError(
            f"A gate compares an agent with another one: got '{baseline}' as the baseline and {problem}. Set the new agent, and "
            "another one as the baseline.",
            slug="gate-baseline",
        )

    analyses = []
    for agent in distinct_agents:
        number = recorded.analysis_number(agent, baseline, answers=answers.digest, target=target)
        alpha = alpha_at_analysis(number, n_comparisons=len(distinct_agents))
        analyses.append(GateAnalysis(agent, number, level=1 - 2 * alpha))
    return tuple(analyses)


def _check_agent(folder: RunFolder, answers: GateAnswers, agent: str) -> None:
    """Raise InputError [gate-agent] if an agent is unknown, or [gate-unjudged] if it has no answered comparison.

    If an extension of the run is unfinished, which may add the agent, [gate-agent] states the command that finishes it.
    """
    if agent not in answers.agent_ids:
        remedy = "Set one of them, or add the agent's responses to the pool and judge it."
        config = folder.find_config()
        if config is not None and config.unfinished is not None:
            command = config.unfinished.format_command(folder.path)
            remedy = f"Set one of them, or first finish the extension of the run, which was stopped: `{command}`."
        raise InputError(
            f"The run has no agent '{agent}'. {suggest_name(agent, answers.agent_ids)} {remedy}",
            slug="gate-agent",
        )
    if not answers.is_judged[answers.agent_ids.index(agent)]:
        raise InputError(
            f"The agent '{agent}' was not judged in this run: no comparison of it has an answer. "
            "Judge a plan that contains it, or retry failed requests (`youden judge CONFIG --retry-failed`).",
            slug="gate-unjudged",
        )


def evaluate_agent(
    forecast: DifferenceForecast,
    analysis: GateAnalysis,
    *,
    n_compared: int,
    n_items: int,
    margin: float,
    usd: float | None,
    n_independent: int = 0,
) -> GateResult:
    """Test whether an agent is better, worse or no worse than the baseline at one interim analysis.

    If the outcome is "undecided", the function also computes how many more calls would decide. If no number of calls is enough,
    it computes how many items would decide.

    Parameters
    ----------
    forecast : DifferenceForecast
        Difference between the agent and the baseline (agent minus baseline), and the variance that more calls would leave.
    analysis : GateAnalysis
        Id of the agent, number of the interim analysis, on which its alpha depends, and level of the interval.
    n_compared : int
        Number of agents that are compared together and share alpha.
    n_items : int
        Number of items of the run.
    margin : float
        Largest deficit that counts as no worse, above 0, in the unit of the difference.
    usd : float or None
        Price of a call in USD, None if it is unknown; the cost of the required calls is then None, too.
    n_independent : int, default 0
        Number of independent trials of the run, from which the false-positive rates are estimated. With 0,
        `required.independent_calls` is None.

    Returns
    -------
    GateResult
        The difference with its interval (`low`, `high`), and the `outcome`. The first case that applies is the outcome: "better"
        if `low` is above 0, "no worse" if `low` is above −margin, "worse" if `high` is below 0, and otherwise "undecided".
        If the outcome is "undecided", `required.calls` is the number of additional calls that decide the next analysis with a
        probability of at least 90%. If no number of calls suffices, `required.calls` is None, and `required.items` is the
        number of items for a decision. It is None if a million items do not suffice. For other outcomes, `required` is None.

    Raises
    ------
    InputError
        [gate-not-comparable] if the answers do not link the two agents.

    Notes
    -----
    If one of the two agents was compared on fewer than 6 items (`MIN_ITEMS`), the outcome is "undecided", `low` and `high` are
    None, and all fields of `required` are None.
    """
    difference = forecast.difference
    if np.isnan(difference.variance):
        raise InputError(
            f"'{analysis.agent}' and the baseline cannot be compared: no chain of scores links them, or a link rests on a single "
            "cell. Add comparisons of both.",
            slug="gate-not-comparable",
        )
    result = GateResult(
        agent=analysis.agent,
        outcome="undecided",
        difference=difference.value,
        low=None,
        high=None,
        level=analysis.level,
        analysis=analysis.analysis,
        n_items=int(min(difference.n_items, difference.min_items)),
        required=RequiredCalls(),
    )
    if result.n_items < MIN_ITEMS:
        return result

    alpha = alpha_at_analysis(analysis.analysis, n_comparisons=n_compared)
    decision = decide(difference.value, difference.half_width(alpha), margin=margin)
    required = None
    if decision.outcome == "undecided":
        next_alpha = alpha_at_analysis(analysis.analysis + 1, n_comparisons=n_compared)
        required = _compute_required_calls(
            forecast, n_items=n_items, margin=margin, alpha=next_alpha, usd=usd, n_independent=n_independent
        )
    return replace(
        result,
        outcome=decision.outcome,
        low=decision.low,
        high=decision.high,
        n_items=difference.n_items if difference.shared_items is None else difference.shared_items,
        required=required,
    )


def _compute_required_calls(
    forecast: DifferenceForecast,
    *,
    n_items: int,
    margin: float,
    alpha: float,
    usd: float | None,
    n_independent: int,
) -> RequiredCalls:
    """Compute how many more calls the next analysis needs for a decision.

    If no number of calls is enough, the number of items is computed instead. A number is enough if the conditional power, the
    probability of a decision, is at least `_CONDITIONAL_POWER`.

    forecast : present difference of the two agents, with its variance after each of several numbers of additional calls
    n_items : number of items of the run
    margin : the new agent counts as no worse than the baseline if it is worse by at most this difference
    alpha : type I error rate of the next analysis
    usd : price of a call in USD; None if unknown
    n_independent : number of independent trials of the run, from which the false-positive rates are estimated
    """
    difference = forecast.difference
    power_by_calls = _compute_conditional_power(
        difference, forecast.remaining, forecast.n_items, margin=margin, alpha=alpha
    )
    is_enough = power_by_calls >= _CONDITIONAL_POWER
    if is_enough.any():
        n_calls = int(forecast.calls[is_enough].min())
        total_usd = None if usd is None else usd * n_calls
        return RequiredCalls(calls=n_calls, usd=total_usd)

    # four times as many independent trials halve the standard errors of the false-positive rates
    rate_variance = difference.rate_variance
    has_relevant_rates = rate_variance > _MIN_RATE_SHARE * difference.total_variance
    return RequiredCalls(
        items=_compute_required_items(forecast, n_items=n_items, margin=margin, alpha=alpha),
        conditional_power=float(power_by_calls.max()) if len(power_by_calls) else None,
        items_at_current_difference=required_n_items(difference, margin=margin, alpha=alpha),
        independent_calls=3 * n_independent if n_independent and has_relevant_rates else None,
    )


def _compute_required_items(forecast: DifferenceForecast, *, n_items: int, margin: float, alpha: float) -> int | None:
    """Compute approximately how many items the next analysis needs for a decision.

    All comparisons on these items are assumed to be made. `_compute_required_calls` describes the parameters. Returns None if no
    number of items up to 10⁶ (`_ITEM_GRID`) is enough.
    """
    # ratio of each variance component after all comparisons on the present items to now; 1 if all of them have been made
    min_agent_item_factor = float(min(forecast.remaining.agent_item, default=1.0))
    min_residual_factor = float(min(forecast.remaining.residual, default=1.0))

    # both components are inversely proportional to the number of items
    larger_n_items = _ITEM_GRID[n_items < _ITEM_GRID]
    factors = RemainingVariance(
        agent_item=min_agent_item_factor * n_items / larger_n_items,
        residual=min_residual_factor * n_items / larger_n_items,
    )
    power_by_items = _compute_conditional_power(
        forecast.difference, factors, larger_n_items, margin=margin, alpha=alpha
    )
    is_enough = power_by_items >= _CONDITIONAL_POWER
    return int(larger_n_items[is_enough].min()) if is_enough.any() else None


def _compute_conditional_power(
    difference: ConservativeDifference,
    factors: RemainingVariance,
    later_items: Positions,
    *,
    margin: float,
    alpha: float,
) -> Floats:
    """Compute the conditional power of the next analysis for several larger plans: float array (n_plans,).

    The conditional power is the probability, given the answers so far, that the analysis decides. It is computed for the
    true difference −margin/2, at which a decision is least likely.

    difference : present difference of two agents with its variance
    factors : factors by which each larger plan multiplies the present variance components, float arrays (n_plans,)
    later_items : int array (n_plans,), numbers of items on which the agents are compared in each larger plan
    margin : the new agent counts as no worse than the baseline if it is worse by at most this difference
    alpha : type I error rate of the next analysis
    """
    forecasts = [
        difference.after(n_items, item_factor=agent_item_factor, trial_factor=residual_factor)
        for n_items, agent_item_factor, residual_factor in zip(
            later_items.tolist(), factors.agent_item, factors.residual, strict=True
        )
    ]
    item_variance = difference.variance - difference.residual_variance
    trial_variance = _get_trial_variance(difference)
    later_trial_variance = np.array([_get_trial_variance(forecast) for forecast in forecasts])
    # a trial variance of 0 stays 0 with any factor
    trial_factor = later_trial_variance / trial_variance if trial_variance > 0 else factors.residual

    # the effective number of items increases as the agent × item variance decreases, up to the number of items
    n_effective_items = np.minimum(difference.n_effective_items / factors.agent_item, later_items)

    # kinds of items that the run does not contain yet may also change the difference
    max_unseen_share = zero_event_upper_bound(alpha, n_effective_items)
    unseen_variance = max_unseen_share**2 * difference.unseen_effect_square
    return conditional_power(
        difference.value,
        (item_variance, trial_variance),
        remaining=(factors.agent_item, trial_factor),
        df=difference.df,
        later_df=np.array([forecast.df for forecast in forecasts]),
        unseen_variance=unseen_variance,
        margin=margin,
        alpha=alpha,
    )


def _get_trial_variance(difference: ConservativeDifference) -> float:
    """Return the variance of a difference that more trials on the same items reduce."""
    return difference.residual_variance + difference.rate_variance
