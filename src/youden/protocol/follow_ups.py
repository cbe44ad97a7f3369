"""Trials of suspected pairs behind a plan's own: they tell who is linked, and count for nothing else."""

from __future__ import annotations

from dataclasses import replace

from youden.nouns import Plan, Verdicts
from youden.protocol.extension.blocks import answers_to


def plan_without_follow_ups(plan: Plan) -> Plan:
    """The plan as it was before suspected pairs were asked more; `characters` stays what it is."""
    if not plan.n_follow_ups:
        return plan
    return replace(plan, trials=plan.trials.take(slice(len(plan) - plan.n_follow_ups)), n_follow_ups=0)


def without_follow_ups(result: Verdicts) -> Verdicts:
    """The answers to that plan."""
    plan = plan_without_follow_ups(result.plan)
    if plan is result.plan:
        return result
    return answers_to(plan, result, slice(len(plan)))
