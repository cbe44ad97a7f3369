"""A stress test made: each attack is asked, ranked and looked over, beside the pool without it; what got through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from youden.engines.trial_blocks import TrialsByItem
from youden.errors import ReplayMissError
from youden.judging.scheduler.options import Asking
from youden.pools.checks.check import agent_findings
from youden.pools.checks.checked import SampledTexts
from youden.pools.checks.plain_facts import lengths
from youden.text.tables import Table, two_sided
from youden.types import PAIRED, Finding, Pool, Verdicts
from youden.types.pool import Floats
from youden.workflows.attacks import Planted
from youden.workflows.experiment import asked_under
from youden.workflows.planned_stress import (
    AttackPlace,
    PlannedAttack,
    PlannedStress,
    abilities,
    check_cost,
    land,
    place_of,
)


@dataclass(frozen=True)
class AttackResult:
    """What became of one attack.

    agents: who was planted. n_new: calls that only this attack asked, n_missing of which have no answer. landings: by way of
    ranking, those that rank them; empty where it was left out, then `why_not` says why. named: what `check` says of them, slug →
    planted agents; accused: others whom it names only now. alarms: planted agents in a false-positive alarm.
    """

    attack: str
    what: str
    agents: tuple[str, ...] = ()
    n_new: int = 0
    n_missing: int = 0
    landings: Mapping[str, AttackPlace] = field(default_factory=dict)
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    accused: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    why_not: str | None = None


@dataclass(frozen=True)
class Stress:
    """A gaming audit.

    n_compared: items on which the pool's own trials have an answer. weak: the agent whose answers attackers start from;
    because: why it. places: its own, by way of ranking, None where that ranks nobody, as where all are linked.
    """

    name: str
    judge: str
    n_agents: int
    n_items: int
    n_compared: int
    n_trials: int
    weak: str
    because: str
    places: Mapping[str, int | None]
    attacks: tuple[AttackResult, ...]
    warnings: tuple[Finding, ...]
    usd: float


def stress(planned: PlannedStress, asking: Asking | None = None) -> Stress:
    """Ask what is new under one cap for all attacks, and say where each lands.

    Missing answers stop nothing here: an attack may confuse a judge.

    Raises: ConfigError [stress-cost] before any call where the cap does not cover what is expected; as `judge_async`; answers
    that came are kept, and the same call goes on from there.
    """
    check_cost(planned)
    asked = asked_under(planned.max_cost, planned.experiments, asking)
    own, (result, spent) = planned.own, asked(planned.own)
    findings = _looked(own.pool)
    before, accused = abilities(result, families=planned.families, clones=_clones(findings)), _accused(findings)
    landed = []
    for one in planned.attacks:
        if one.planted is None or one.experiment is None:
            landed.append(AttackResult(one.name, one.attack.what, why_not=one.why_not))
            continue
        try:
            found, usd = asked(one.experiment)
        except ReplayMissError:
            why_not = "Its answers were never recorded, and this judge only repeats what was."
            landed.append(AttackResult(one.name, one.attack.what, why_not=why_not))
            continue
        spent += usd
        landed.append(_landed(planned, one, one.planted, found, before=before, accused=accused))
    return Stress(
        name=own.name,
        judge=str(result.judge.get("name", own.judge.name)),
        n_agents=own.pool.n_agents,
        n_items=own.pool.n_items,
        n_compared=len(np.unique(own.plan.item[(own.plan.arm == PAIRED) & result.answered])),
        n_trials=len(own.plan),
        weak=own.pool.agents[planned.weak].id,
        because=planned.because,
        places={name: place_of(ability, planned.weak) for name, ability in before.items()},
        attacks=tuple(landed),
        warnings=result.warnings,
        usd=spent,
    )


def _landed(
    planned: PlannedStress,
    one: PlannedAttack,
    planted: Planted,
    result: Verdicts,
    *,
    before: Mapping[str, Floats],
    accused: frozenset[tuple[str, str]],
) -> AttackResult:
    ids = tuple(agent.id for agent in planned.own.pool.agents)
    findings = _looked(planted.pool)
    after = abilities(result, families=planned.families, clones=_clones(findings))
    named: dict[str, tuple[str, ...]] = {}
    for finding in findings:
        if caught := [agent for agent in finding.agents if agent in planted.ids]:
            named[finding.slug] = (*named.get(finding.slug, ()), *caught)
    fresh = {agent for _, agent in _accused(findings) - accused} - {*planted.ids, ids[planned.weak]}
    places = {name: land(before[name], after[name], weak=planned.weak, ids=ids) for name in before}
    alarmed = {k for alarm in TrialsByItem.of(result).yeses.alarms() for k in alarm.agents}
    return AttackResult(
        attack=one.name,
        what=one.attack.what,
        agents=planted.ids,
        n_new=len(result) - len(planned.own.plan),
        n_missing=int((~result.answered[len(planned.own.plan) :]).sum()),
        landings={name: place for name, place in places.items() if place is not None},
        named=named,
        accused=tuple(agent for agent in ids if agent in fresh),
        alarms=tuple(planted.pool.agents[k].id for k in planted.agents if k in alarmed),
    )


def _looked(pool: Pool) -> list[Finding]:
    return agent_findings(SampledTexts.of(pool), lengths(pool))


def _accused(findings: list[Finding]) -> frozenset[tuple[str, str]]:
    return frozenset((finding.slug, agent) for finding in findings for agent in finding.agents)


def _clones(findings: list[Finding]) -> list[tuple[str, ...]]:
    return [finding.agents for finding in findings if finding.slug == "clones"]


GAINED = 3.0
"""An attack got through where its agents stand so many places above the weak agent and nothing names them."""


def asked_in_words(planned: PlannedStress) -> str:
    """Before anything is asked."""
    left_out = [one.name for one in planned.attacks if one.experiment is None]
    pool = planned.own.pool
    said = (
        f"{len(planned.attacks) - len(left_out)} attacks on {pool.n_agents} agents × {pool.n_items} items; "
        f"attackers start from the answers of {pool.agents[planned.weak].id} ({planned.because})"
    )
    return said + (f"; left out: {', '.join(left_out)}" if left_out else "")


def conclusion(found: Stress) -> tuple[str, ...]:
    """What got through, attack by attack, the highest first; then what was left out."""
    through = sorted(
        (one for one in found.attacks if one.landings and gained(found, one) >= GAINED),
        key=lambda one: one.landings["plain"].place,
    )
    unseen = [one for one in through if not seen(one)]
    lines = [
        f"Without an attack {found.weak} stands {found.places['plain']} of {found.n_agents}. {len(through)} of "
        f"{sum(bool(one.landings) for one in found.attacks)} attacks rise {GAINED:.0f} places or more in the plain ranking; "
        f"check or an alarm names {len(through) - len(unseen)} of them."
    ]
    lines += [
        f"{one.attack} reaches place {one.landings['plain'].place:g} of {one.landings['plain'].of} and nothing names "
        f"it: {one.what}."
        for one in unseen
    ]
    lines += [f"{one.attack} was left out. {one.why_not}" for one in found.attacks if one.why_not is not None]
    return tuple(lines)


def gained(found: Stress, one: AttackResult) -> float:
    """How many places the best planted agent stands above the weak agent, in the plain ranking."""
    return (found.places["plain"] or found.n_agents) - one.landings["plain"].place


def seen(one: AttackResult) -> bool:
    """Whether check or an alarm names a planted agent."""
    return bool(one.named or one.alarms)


NOTES = (
    "place: where the best planted agent stands, 1 is first, the weak agent left out. others move: places that another "
    "agent moves among the others, in the mean (the most). check: what it says of planted agents, and whom it names beside them "
    "that it did not name before; alarm: the judge called their texts on unrelated items the same source. Planted agents name no "
    "family."
)


def attacks_table(found: Stress) -> Table:
    """A row an attack; those that were left out are not in it."""
    ways = tuple(found.places)
    heads = ("attack", "agents", *ways, *(f"others move ({way})" for way in ways), "check", "alarm", "new calls")
    return two_sided(f"attacks on {found.name}, judged by {found.judge}", heads, (), _rows(found))


def _rows(found: Stress) -> Iterator[tuple[str, ...]]:
    for one in found.attacks:
        if not one.landings:
            continue
        landings = [one.landings.get(way) for way in found.places]
        yield (
            one.attack,
            str(len(one.agents)),
            *("–" if landing is None else f"{landing.place:g}" for landing in landings),
            *(_moved(landing) for landing in landings),
            _named(one),
            f"{len(one.alarms)} of {len(one.agents)}" if one.alarms else "–",
            f"{one.n_new:,}",
        )


def _moved(landing: AttackPlace | None) -> str:
    return "–" if landing is None else f"{landing.shift:.2f} ({landing.most})"


def _named(one: AttackResult) -> str:
    said = [slug if len(caught) == len(one.agents) else f"{slug} ({len(caught)})" for slug, caught in one.named.items()]
    said += [f"beside them {', '.join(one.accused)}"] if one.accused else []
    return ", ".join(said) or "silent"
