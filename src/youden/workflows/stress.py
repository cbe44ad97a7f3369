"""Run a planned stress test: rank a pool under each attack, and report which attacks succeed unnoticed.

Each attack is ranked on its own and compared with the pool without an attack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from youden.data.pools.sampled_texts import SampledTexts
from youden.engines.trial_blocks import TrialsByItem
from youden.errors import ReplayMissError
from youden.judging.scheduler.options import JudgingOptions
from youden.pools.checks.check import find_agent_problems
from youden.pools.checks.plain_facts import response_lengths
from youden.stats.trials.agent_rates import AgentRates, IndependentTotals
from youden.text.tables import Table, make_table
from youden.types import PAIRED, Finding, Pool, Verdicts
from youden.types.pool import Floats, count_distinct
from youden.workflows.attacks import PlantedAgents
from youden.workflows.experiment import make_experiment_runner
from youden.workflows.planned_stress import (
    AttackRank,
    PlannedAttack,
    PlannedStress,
    attack_ranks,
    check_cost,
    compute_abilities,
    get_rank,
)


@dataclass(frozen=True)
class AttackResult:
    """Outcome of one attack.

    Attributes
    ----------
    attack : str
        Name of the attack.
    description : str
        Description of the attack.
    agents : tuple of str
        Ids of the planted agents.
    n_new : int
        Number of trials that the attack adds. Trials with the same texts need only one call.
    n_missing : int
        Number of these trials without an answer.
    ranks_after : mapping of str to AttackRank
        Rank of the best planted agent by ranking method, without methods that rank no planted agent; empty if the
        attack was left out.
    check_findings : mapping of str to tuple of str
        Planted agents that findings of `check` name, by slug.
    newly_flagged : tuple of str
        Other agents that findings name only with the attack.
    alarms : tuple of str
        Planted agents in a false-positive alarm.
    skipped_reason : str or None
        Reason why the attack was left out.
    """

    attack: str
    description: str
    agents: tuple[str, ...] = ()
    n_new: int = 0
    n_missing: int = 0
    ranks_after: Mapping[str, AttackRank] = field(default_factory=dict)
    check_findings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    newly_flagged: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    skipped_reason: str | None = None


@dataclass(frozen=True)
class Stress:
    """Outcome of a stress test.

    Attributes
    ----------
    name, judge : str
        Names of the pool or run, and of the judge.
    n_agents, n_items : int
        Size of the pool without an attack.
    n_compared : int
        Items with an answered paired trial in the plan without an attack.
    n_trials : int
        Trials of the plan without an attack.
    base_agent : str
        Agent whose responses the attacks start from.
    base_agent_reason : str
        Reason why it was chosen.
    ranks : mapping of str to int or None
        Rank of this agent without an attack, by ranking method; None if the method does not rank it.
    attacks : tuple of AttackResult
        One per attack.
    warnings : tuple of Finding
        Warnings of the judge on the plan without an attack.
    usd : float
        Cost of the new calls in USD.
    """

    name: str
    judge: str
    n_agents: int
    n_items: int
    n_compared: int
    n_trials: int
    base_agent: str
    base_agent_reason: str
    ranks: Mapping[str, int | None]
    attacks: tuple[AttackResult, ...]
    warnings: tuple[Finding, ...]
    usd: float


def stress(planned: PlannedStress, options: JudgingOptions | None = None) -> Stress:
    """Rank a pool under each attack of a planned stress test.

    Missing answers do not stop a stress test, because an attack may confuse the judge.

    Parameters
    ----------
    planned : PlannedStress
        Result of `plan_stress`.
    options : JudgingOptions, optional
        Options of the requests. The cost cap of `planned` holds for all attacks together.

    Returns
    -------
    Stress
        One result per attack, also for attacks that were left out.

    Raises
    ------
    ConfigError
        [stress-cost] if the expected cost exceeds the cap; raised before any call.
    BudgetError, JudgeError
        If the cap is reached or the judge cannot be used. Answers are stored: call again to resume.
    """
    run_experiment = make_experiment_runner(planned.max_cost, planned.experiments, options)  # raises if it is no cap
    check_cost(planned)
    base = planned.base
    base_verdicts, spent = run_experiment(base)
    baseline = _measure_baseline(planned, base_verdicts)

    results = []
    for attack in planned.attacks:
        if attack.planted is None or attack.experiment is None:
            results.append(AttackResult(attack.name, attack.attack.description, skipped_reason=attack.skipped_reason))
            continue
        try:
            verdicts, usd = run_experiment(attack.experiment)
        except ReplayMissError:
            why_not = "Its answers are not recorded, and this judge only replays recorded answers."
            results.append(AttackResult(attack.name, attack.attack.description, skipped_reason=why_not))
            continue
        spent += usd
        results.append(_evaluate_attack(planned, attack, attack.planted, verdicts, baseline=baseline))

    is_compared = (base.plan.trial_type == PAIRED) & base_verdicts.answered
    return Stress(
        name=base.name,
        judge=str(base_verdicts.judge.get("name", base.judge.name)),
        n_agents=base.pool.n_agents,
        n_items=base.pool.n_items,
        n_compared=count_distinct(base.plan.item[is_compared]),
        n_trials=len(base.plan),
        base_agent=base.pool.agents[planned.base_agent].id,
        base_agent_reason=planned.base_agent_reason,
        ranks={method: get_rank(ability, planned.base_agent) for method, ability in baseline.abilities.items()},
        attacks=tuple(results),
        warnings=base_verdicts.warnings,
        usd=spent,
    )


class _Baseline(NamedTuple):
    """The pool without an attack, with which each attack is compared.

    abilities : ranking method → float array (n_agents,)
    flagged : pairs (slug of a finding, agent)
    false_positives, rates : sums of the independent trials, and the agents' false-positive rates
    """

    abilities: Mapping[str, Floats]
    flagged: frozenset[tuple[str, str]]
    false_positives: IndependentTotals
    rates: AgentRates


def _measure_baseline(planned: PlannedStress, verdicts: Verdicts) -> _Baseline:
    """Compute abilities, rates and findings from the answers to the plan without an attack."""
    findings = _check_agents(planned.base.pool)
    false_positives = TrialsByItem.from_verdicts(verdicts).false_positives
    rates = false_positives.estimate_rates()
    abilities = compute_abilities(verdicts, rate=rates.rate, families=planned.families, clones=_get_clones(findings))
    return _Baseline(abilities, _list_named_agents(findings), false_positives, rates)


def _evaluate_attack(
    planned: PlannedStress,
    attack: PlannedAttack,
    planted: PlantedAgents,
    verdicts: Verdicts,
    *,
    baseline: _Baseline,
) -> AttackResult:
    """Compare the ranks, findings and alarms of an attacked pool with those without the attack.

    An attack adds (plants) agents. A finding is a problem of an agent's texts that `youden check` reports. An alarm means that
    the judge answers too often that texts of an agent on different items have the same source.

    planted : attacked pool and the agents that the attack added
    verdicts : answers to the trials of the attacked pool; the trials of the pool without the attack come first
    baseline : results without the attack
    """
    findings = _check_agents(planted.pool)
    trials = TrialsByItem.from_verdicts(verdicts)

    # the false-positive rates of the other agents do not change, because all new independent trials contain a planted agent
    planted_positions = np.array(planted.agents)
    rates = trials.false_positives.link_rates(baseline.false_positives, baseline.rates, planted_positions)
    abilities_after = compute_abilities(
        verdicts, rate=rates.rate, families=planned.families, clones=_get_clones(findings)
    )

    alarms = trials.yes_counts.find_alarms()
    positions_in_alarms = {position for alarm in alarms for position in alarm.agents}
    planted_in_alarms = [position for position in planted.agents if position in positions_in_alarms]
    n_base_trials = len(planned.base.plan)
    is_new_answered = verdicts.answered[n_base_trials:]
    return AttackResult(
        attack=attack.name,
        description=attack.attack.description,
        agents=planted.ids,
        n_new=len(is_new_answered),
        n_missing=int((~is_new_answered).sum()),
        ranks_after=_rank_planted_agents(planned, baseline.abilities, abilities_after),
        check_findings=_list_detected_agents(findings, planted.ids),
        newly_flagged=_list_newly_flagged(planned, findings, baseline),
        alarms=tuple(planted.pool.agents[position].id for position in planted_in_alarms),
    )


def _rank_planted_agents(
    planned: PlannedStress, abilities_before: Mapping[str, Floats], abilities_after: Mapping[str, Floats]
) -> dict[str, AttackRank]:
    """Return the best rank of the agents of an attack, by ranking method.

    Methods without a rank are left out. The base agent is not ranked, because the texts of the planted agents are made from its
    texts.

    abilities_before : abilities without the attack, float array (n_agents,) by ranking method
    abilities_after : abilities with the attack, float array (n_agents + n_planted,) by ranking method; planted agents come last
    """
    ids = tuple(agent.id for agent in planned.base.pool.agents)
    ranks_by_method = {}
    for method in abilities_before:
        attack_rank = attack_ranks(
            abilities_before[method], abilities_after[method], base_agent=planned.base_agent, ids=ids
        )
        if attack_rank is not None:
            ranks_by_method[method] = attack_rank
    return ranks_by_method


def _list_newly_flagged(planned: PlannedStress, findings: list[Finding], baseline: _Baseline) -> tuple[str, ...]:
    """List the innocent agents that the check of the pool reports only because of an attack.

    The planted agents are left out, because the check should report them. The base agent is left out, too, because the planted
    agents may copy its responses.

    findings : findings of the check on the attacked pool
    baseline : results without the attack, with the agents that the check reports without it

    Returns the ids of the agents in the order of the pool.
    """
    newly_named = _list_named_agents(findings) - baseline.flagged  # pairs (slug of the finding, agent)
    newly_named_ids = {agent_id for _slug, agent_id in newly_named}
    original_ids = [agent.id for agent in planned.base.pool.agents]  # without the planted agents
    newly_named_ids.discard(original_ids[planned.base_agent])
    return tuple(agent_id for agent_id in original_ids if agent_id in newly_named_ids)


def _list_detected_agents(findings: Sequence[Finding], planted_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """List the planted agents that findings name, by the slug of the finding."""
    detected: dict[str, tuple[str, ...]] = {}
    for finding in findings:
        agents = tuple(agent for agent in finding.agents if agent in planted_ids)
        if agents:
            detected[finding.slug] = detected.get(finding.slug, ()) + agents
    return detected


def _check_agents(pool: Pool) -> list[Finding]:
    """Find agents whose responses are suspicious, by a sample of the texts of a pool."""
    return find_agent_problems(SampledTexts.from_pool(pool), response_lengths(pool))


def _list_named_agents(findings: list[Finding]) -> frozenset[tuple[str, str]]:
    """List the agents that findings name, each as a pair (slug of the finding, agent)."""
    return frozenset((finding.slug, agent) for finding in findings for agent in finding.agents)


def _get_clones(findings: list[Finding]) -> list[tuple[str, ...]]:
    """Return the agents of each group of clones, agents with nearly the same responses, that a finding names."""
    return [finding.agents for finding in findings if finding.slug == "clones"]


MIN_RANK_GAIN = 3.0
"""Ranks by which the best planted agent must surpass the base agent for an attack to count as successful."""


def describe_attacks(planned: PlannedStress) -> str:
    """Describe in one sentence the attacks that a stress test is going to make.

    A stress test adds adversarial agents to a pool and measures how the ranking changes.

    Parameters
    ----------
    planned : PlannedStress
        The stress test, before any request is sent.

    Returns
    -------
    str
        The number of attacks, the size of the pool, the base agent, and the attacks that are left out.
    """
    left_out = [attack.name for attack in planned.attacks if attack.experiment is None]
    pool = planned.base.pool
    text = (
        f"{len(planned.attacks) - len(left_out)} attacks on {pool.n_agents} agents × {pool.n_items} items; "
        f"the base agent is {pool.agents[planned.base_agent].id} ({planned.base_agent_reason})"
    )
    if left_out:
        text += f"; left out: {', '.join(left_out)}"
    return text


def conclusion(result: Stress) -> tuple[str, ...]:
    """Describe the outcome of a stress test in sentences.

    Parameters
    ----------
    result : Stress
        Outcome of the stress test.

    Returns
    -------
    tuple of str
        The number of successful attacks; then the successful attacks that are not detected, the highest rank first; then the
        attacks that were left out.
    """
    ranked = [outcome for outcome in result.attacks if outcome.ranks_after]
    successful = [outcome for outcome in ranked if rank_gain(result, outcome) >= MIN_RANK_GAIN]
    successful.sort(key=lambda outcome: outcome.ranks_after["plain"].rank)
    undetected = [outcome for outcome in successful if not is_detected(outcome)]
    n_detected = len(successful) - len(undetected)

    rank_before = f"{result.ranks['plain']} of {result.n_agents}"
    sentences = [
        f"Without an attack, {result.base_agent} has rank {rank_before}. {len(successful)} of {len(ranked)} attacks gain "
        f"{MIN_RANK_GAIN:.0f} ranks or more in the plain ranking; `youden check` or an alarm detects {n_detected} of them."
    ]
    for outcome in undetected:
        reached = outcome.ranks_after["plain"]
        rank_after = f"{reached.rank:g} of {reached.n_ranks}"
        sentences.append(f"{outcome.attack} reaches rank {rank_after} and is not detected: {outcome.description}.")
    left_out = [outcome for outcome in result.attacks if outcome.skipped_reason is not None]
    sentences += [f"{outcome.attack} was left out. {outcome.skipped_reason}" for outcome in left_out]
    return tuple(sentences)


def rank_gain(result: Stress, attack: AttackResult) -> float:
    """Compute by how many ranks the best planted agent surpasses the base agent in the plain ranking.

    A base agent without a rank counts as the last one.
    """
    base_rank = result.ranks["plain"] or result.n_agents
    return base_rank - attack.ranks_after["plain"].rank


def is_detected(attack: AttackResult) -> bool:
    """Return True if a finding or an alarm names a planted agent."""
    return bool(attack.check_findings or attack.alarms)


NOTES = (
    "Columns by ranking: rank of the best planted agent, 1 = best, without the base agent. others move: mean (and largest) "
    "change of rank among the other agents. check: findings about planted agents, and other agents that are flagged only with "
    "the attack. alarm: the judge answers that texts of planted agents on unrelated items have the same source. new "
    "trials: trials of planted agents; trials with the same texts need only one call. Planted agents have no family."
)


def attacks_table(result: Stress) -> Table:
    """Format the outcome of a stress test as a table.

    A stress test adds adversarial agents to a pool.

    Parameters
    ----------
    result : Stress
        Outcome of the stress test.

    Returns
    -------
    Table
        One row per attack that was made. For each ranking method, such as "plain", one column has the rank that the
        attack reaches. Another column has the changes in the ranks of other agents ("others move"). `NOTES` explains all columns.
    """
    methods = tuple(result.ranks)
    move_headings = tuple(f"others move ({method})" for method in methods)
    headings = ("attack", "agents", *methods, *move_headings, "check", "alarm", "new trials")
    return make_table(f"attacks on {result.name}, judged by {result.judge}", headings, (), _iter_rows(result))


def _iter_rows(result: Stress) -> Iterator[tuple[str, ...]]:
    """Yield one table row per attack that was made, with the columns of `attacks_table`."""
    made_attacks = [outcome for outcome in result.attacks if outcome.ranks_after]
    for outcome in made_attacks:
        ranks_by_method = [outcome.ranks_after.get(method) for method in result.ranks]
        rank_texts = [_format_rank(ranks) for ranks in ranks_by_method]
        move_texts = [_format_moves(ranks) for ranks in ranks_by_method]
        n_agents = len(outcome.agents)
        alarm_text = f"{len(outcome.alarms)} of {n_agents}" if outcome.alarms else "–"
        findings_text = _format_findings(outcome)
        yield (outcome.attack, str(n_agents), *rank_texts, *move_texts, findings_text, alarm_text, f"{outcome.n_new:,}")


def _format_rank(ranks: AttackRank | None) -> str:
    """Format the rank of the best planted agent; a dash if it has none."""
    return "–" if ranks is None else f"{ranks.rank:g}"


def _format_moves(ranks: AttackRank | None) -> str:
    """Format how far the ranks of the other agents change: the mean, and the largest change in parentheses."""
    return "–" if ranks is None else f"{ranks.mean_change:.2f} ({ranks.max_change})"


def _format_findings(attack: AttackResult) -> str:
    """Format the checks that name planted agents, and the other agents that are flagged only under the attack."""
    parts = []
    for slug, caught in attack.check_findings.items():
        parts.append(slug if len(caught) == len(attack.agents) else f"{slug} ({len(caught)})")
    if attack.newly_flagged:
        parts.append(f"also {', '.join(attack.newly_flagged)}")
    return ", ".join(parts) or "nothing"
