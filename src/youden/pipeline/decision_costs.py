"""Forecast the calls that a judge takes for the same half-width if it decides in another way.

A judge that returns log-probabilities gives the probability of yes, whose variance is smaller than that of yes or no. The
forecast is the ratio of the two on the reference data sets, so it needs no answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.judging.config.judge_files import JudgeConfig
from youden.judging.question.parsing import Decision
from youden.protocol.blocks import count_blocks_per_item
from youden.stats.forecast import AgentVariances, find_min_blocks, half_widths
from youden.stats.reference_data import ReferenceRange, prior_components, summarize_range
from youden.types import PAIRED, Plan
from youden.types.judging import AnswerKind
from youden.types.pool import Json, count_distinct


class OtherDecision(NamedTuple):
    """Another way in which a judge can decide, and the calls that it takes.

    Attributes
    ----------
    decision : {"text", "logprobs"}
        Value of the judge's key `decision`.
    calls : ReferenceRange or None
        Calls of both trial types that give the half-width of the plan: a range over the reference data sets. None if one
        of them does not reach it with all comparisons on these items.
    """

    decision: Decision
    calls: ReferenceRange | None

    def to_json(self) -> dict[str, Json]:
        """Return the forecast in the form of the output of `youden plan --json`."""
        return {"decision": self.decision, "calls": None if self.calls is None else self.calls._asdict()}


def forecast_other_decision(plan: Plan, judge: JudgeConfig) -> OtherDecision | None:
    """Forecast how many calls a judge needs for the same half-width if it decides in the other way.

    A judge that decides by log-probabilities gives graded answers, from 0 to 1. A judge that decides by the text of its reply
    answers yes or no. The forecast is for the decision that the judge does not use. The target is the half-width of the agents'
    confidence intervals that is expected under the plan with the present decision.

    Parameters
    ----------
    plan : Plan
        Plan of the run.
    judge : JudgeConfig
        Judge of the run, with its present `decision`.

    Returns
    -------
    OtherDecision or None
        The other decision, and the range of the number of calls that it takes. The range is None if even all comparisons on
        these items are too few according to one of the reference data sets. The result is None if the judge has no other
        decision, if the plan has fewer than 2 blocks, or if it consists of rounds that are planned one after another.
    """
    decision = judge.other_decision
    n_blocks = count_distinct(plan.block[plan.block >= 0])
    max_blocks = count_blocks_per_item(plan) * plan.n_items
    if decision is None or plan.rounds is not None or not 2 <= n_blocks <= max_blocks:
        return None

    # the present half-width by each reference data set, and the variance components of the other kind of answers
    half_width_by_data_set = half_widths(prior_components(judge.answers), n_blocks, plan.n_items).tolist()
    other_answers: AnswerKind = "graded" if decision == "logprobs" else "yes or no"
    other_components = prior_components(other_answers)

    # blocks with which the other answers give the present half-width, by each reference data set
    blocks_needed = []
    for agent_item, residual, half_width in zip(
        other_components.agent_item, other_components.residual, half_width_by_data_set, strict=True
    ):
        components = AgentVariances(np.array([agent_item]), np.array([residual]))
        n_needed = find_min_blocks(components, half_width, fraction=1.0, n_items=plan.n_items, max_blocks=max_blocks)
        if n_needed is None:
            return OtherDecision(decision, None)
        blocks_needed.append(float(n_needed))

    # the paired trials of held-out cells are in no block, and their number does not depend on the half-width
    n_holdout_trials = int(((plan.trial_type == PAIRED) & (plan.block < 0)).sum())
    calls_per_block = (len(plan) - plan.n_self_trials - n_holdout_trials) / n_blocks
    return OtherDecision(decision, summarize_range(n_holdout_trials + np.array(blocks_needed) * calls_per_block))


def format_other_decision(forecast: OtherDecision, *, usd_per_call: float | None) -> str:
    """Format how many calls a run would need with another setting of `decision`, as part of a sentence.

    For example: "with `decision: text`, the same half-width would take about 1,000 to 1,200 calls, $1.00 to $1.20".

    usd_per_call : cost of a call in USD; None if it is unknown, so that no cost is stated
    """
    text = f"with `decision: {forecast.decision}`, the same half-width "
    if forecast.calls is None:
        return f"{text}may not be reached on these items"
    low, _, high = forecast.calls
    cost = f", ${usd_per_call * low:,.2f} to ${usd_per_call * high:,.2f}" if usd_per_call else ""
    text += f"would take about {low:,.0f} to {high:,.0f} calls{cost}"
    if forecast.decision == "logprobs":
        text += "; `youden doctor` tests whether the judge returns log-probabilities"
    return text
