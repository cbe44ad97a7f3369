"""Which estimator ranks a plan: trials in slots, adaptive rounds, plans that were extended, or cells.

Whoever ranks asks here: `rank`, a run's folder, the gate and the budget study.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.nouns import PAIRED, Plan, Rounds, Target, Verdicts
from youden.nouns.arrays import Floats, Positions
from youden.protocol.designs.adaptive import Standing
from youden.protocol.extension.blocks import complete_part, extensions_of, scored_sides
from youden.protocol.follow_ups import without_follow_ups
from youden.protocol.probes import without_probes
from youden.protocol.rates import tally
from youden.protocol.scores import pooled_fpr
from youden.run.estimates.ability import TRIALS, Abilities
from youden.run.estimates.extended import extended_abilities
from youden.run.estimates.fitted import fit_rates
from youden.run.estimates.trial_covariance import trial_covariance
from youden.run.estimates.trial_mean import TrialMean
from youden.stats.trials.weighted_mean import weighted_mean

MOST_LOST = 0.05
"""Share of an agent's paired trials that may lack an answer where plain means rank."""


def abilities_of(result: Verdicts, *, target: Target = "items-like-these") -> Abilities | None:
    """Abilities from trials in slots; None where a fit ranks, by `fit_rates`: dense and cell designs,
    gaps, a holdout, answers that are missing."""
    result = without_follow_ups(result)
    if extensions_of(result.plan).steps:
        return extended_abilities(result, anchors_of(result, target=target))
    if not balanced(result.plan):
        return None
    if result.plan.rounds is not None:
        return adaptive_means(result, target=target)
    if not _all_answered(result) and not few_lost(*_trials_of_agents(result)):
        return None
    means = TrialMean(target=target).fit(result.plan, without_probes(result))
    return Abilities(
        means.ability_,
        means.covariance_,
        means.n_trials_,
        means.fpr_,
        TRIALS,
        means.method_,
        target,
        means.by_item_,
    )


def balanced(plan: Plan) -> bool:
    """Whether trials in slots compare every agent on the same items, so that plain means are fair.

    With gaps or a holdout each agent is seen on items of its own, and a mean mixes its ability with their difficulty: the
    slot intervals then cover .79–.93 of the time on the paper's data where the additive fit's cover .945–.97
    (`benchmarks/cyclic.py`), at the same rank correlation.
    """
    slot = plan.slot[plan.arm == PAIRED]
    return bool(len(slot) and (slot >= 0).all() and plan.split.train.all())


def few_lost(asked: Positions, answered: Positions) -> bool:
    """Whether no agent lacks the answers to more than `MOST_LOST` of its paired trials in slots that hold an answer: int[K] each.

    Answers that fail are not spread evenly. Where an agent lacks those on hard items, its mean is too high, and where it lacks
    a tenth of them its slot interval covers .82 of the time; the fit's covers .97.
    """
    return bool((asked - answered <= MOST_LOST * asked).all())


def _all_answered(result: Verdicts) -> bool:
    return bool((result.answered | (result.plan.arm != PAIRED)).all())


def _trials_of_agents(result: Verdicts) -> tuple[Positions, Positions]:
    """Paired trials of each agent in slots that hold an answer, and those of them that are answered: int64[K] each."""
    plan = result.plan
    answered = (plan.arm == PAIRED) & result.answered
    begun = np.isin(plan.slot, plan.slot[answered])
    counts = (np.append(plan.first[rows], plan.second[rows]) for rows in ((plan.arm == PAIRED) & begun, answered))
    in_slots, known = (np.bincount(agents, minlength=plan.n_agents) for agents in counts)
    return in_slots, known


def adaptive_means(result: Verdicts, *, target: Target = "items-like-these") -> Abilities:
    """Abilities of an adaptive plan, less the pooled FPR. Raises: StatisticsError [weighted-mean]."""
    plan = result.plan
    used = (plan.slot >= 0) & result.answered
    first, second, slot, answer = plan.first[used], plan.second[used], plan.slot[used], result.answer[used]
    weight = trial_weights(plan).first[used]
    rounds = plan.rounds or Rounds.first(plan.n_agents, n_paired=None)
    means = weighted_mean(
        first,
        second,
        slot,
        answer,
        weight=weight,
        turn=rounds.turn_of(slot),
        asks=rounds.asks(first, second),
        n_agents=plan.n_agents,
    )
    found = trial_covariance(
        first,
        second,
        plan.item[used],
        slot,
        answer,
        ability=means.mean,
        weight=weight,
        n_items=plan.n_items,
        target=target,
    )
    rate = pooled_fpr(tally(result)) or 0.0
    method = f"weighted trials, {found.method}"
    return Abilities(means.mean - rate, found.covariance, means.n_trials, rate, TRIALS, method, target, found.by_item)


def standing_of(result: Verdicts, *, target: Target = "items-like-these") -> Standing:
    """How sure an adaptive plan's abilities are. Raises: StatisticsError [weighted-mean]."""
    found = adaptive_means(result, target=target)
    return Standing(found.ability, found.covariance.covariance, found.covariance.freedom)


class TrialWeights(NamedTuple):
    """What each trial of a plan counts for its first and its second agent: float[N] each."""

    first: Floats
    second: Floats


def trial_weights(plan: Plan) -> TrialWeights:
    """One over the chance with which an adaptive plan asked a trial; else 1 for whom the trial counts, 0 for others."""
    rounds = plan.rounds
    if rounds is None:
        sides = scored_sides(plan)
        return TrialWeights(sides.first.astype(np.float64), sides.second.astype(np.float64))
    weight, used = np.ones(len(plan)), plan.slot >= 0
    weight[used] = rounds.weights(plan.first[used], plan.second[used], n_slots=int(plan.slot.max()) + 1)
    return TrialWeights(weight, weight)


def anchors_of(result: Verdicts, *, target: Target = "items-like-these") -> Abilities:
    """Abilities of the first plan's agents: from complete slots, or from the fit where cells rank.

    They are on the level of the first plan's items: items that joined later do not move it.
    """
    part, n_items = complete_part(result), extensions_of(result.plan).items
    found = abilities_of(part, target=target)
    if found is None:
        return _fitted(part, n_items, target)
    first_items = (part.plan.arm == PAIRED) & part.answered & (part.plan.item < n_items)
    if part.plan.n_items == n_items or not first_items.any():
        return found
    level = float(part.answer[first_items].mean()) - found.fpr
    return found._replace(ability=found.ability + (level - float(np.nanmean(found.ability))))


def _fitted(part: Verdicts, n_items: int, target: Target) -> Abilities:
    _, model, found = fit_rates(tally(part), part.plan.split, target=target, with_items=True)
    if part.plan.n_items == n_items:
        return found
    return found._replace(ability=found.ability - float(np.nanmean(model.difficulty_[:n_items])))
