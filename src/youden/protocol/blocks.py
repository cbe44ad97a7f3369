"""Derive plans and verdicts from others: an earlier state, the first agents alone, or one more round.

Each trial has a role (its purpose) and a step (0 for the first plan, then one per extension or round). Both decide
which of these states it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.errors import ConfigError
from youden.protocol.independent import with_added_trials
from youden.types import PAIRED, Plan, Rounds, Trials, Verdicts
from youden.types.judging import PER_TRIAL
from youden.types.plan_steps import Extensions
from youden.types.pool import Bools
from youden.types.trials import ANCHOR


def get_extensions(plan: Plan) -> Extensions:
    """Return the extensions of a plan.

    Parameters
    ----------
    plan : Plan
        A plan, extended or not.

    Returns
    -------
    Extensions
        Without steps if the plan was never extended.
    """
    return plan.extensions or Extensions(plan.n_agents, plan.n_items, plan.pool_digest, ())


def are_of_one_pool(plans: Sequence[Plan]) -> bool:
    """Return whether all plans are of one pool of texts. Versions of a pool, before and after extensions, count as one."""
    digests = {plan.pool_digest for plan in plans}
    for extensions in map(get_extensions, plans):
        versions = {extensions.pool, *(step.pool for step in extensions.steps)}
        if digests <= versions:
            return True
    return len(digests) < 2


def check_same_pool(plans: Sequence[Plan], names: Sequence[str]) -> None:
    """Raise ConfigError [judges-pools] if the plans of runs with these names are of different pools of texts."""
    if not are_of_one_pool(plans):
        raise ConfigError(
            f"The runs judged different pools of texts: got {', '.join(names)}. Pass runs of one pool.",
            slug="judges-pools",
        )


def has_blocks_in_first_plan(plan: Plan) -> bool:
    """Return whether the trials before any extension or round include paired trials in blocks.

    A block compares agents on one item, each once as the first text and once as the second.

    Parameters
    ----------
    plan : Plan
        A plan, extended or not.

    Returns
    -------
    bool
        False if no such trial has a block number.
    """
    is_first_paired = (plan.trials.step == 0) & (plan.trial_type == PAIRED)
    return bool((plan.block[is_first_paired] >= 0).any())


def count_blocks_per_item(plan: Plan) -> int:
    """Return how many blocks of all agents are possible on an item.

    Parameters
    ----------
    plan : Plan
        A plan.

    Returns
    -------
    int
        One block per cyclic shift of the agents. Half of them, rounded down, if pairs are compared in one order only.
    """
    n_shifts = plan.n_agents - 1
    return n_shifts // 2 if plan.options.get("pairs") == "unordered" else n_shifts


def restrict_to_anchors(plan: Plan) -> Plan:
    """Restrict a plan to the agents of its first plan, which are called anchors.

    Parameters
    ----------
    plan : Plan
        An extended plan.

    Returns
    -------
    Plan
        A plan of the anchors and all items, without trials and extensions. `is_in_complete_block` selects the trials that
        belong to it.
    """
    anchors = get_extensions(plan).anchors
    return replace(_restrict_plan(plan, anchors, plan.n_items, Trials.concat([])), extensions=None)


def is_in_complete_block(columns: Mapping[str, NDArray[Any]], anchors: int) -> Bools:
    """Return which trials rank the anchors: comparisons of two anchors that are not linking trials.

    Anchors are the agents of the first plan; linking trials compare agents that joined later with them.

    Parameters
    ----------
    columns : mapping of str to array (n_trials,)
        Columns of the trials, with `first`, `second` and `role`.
    anchors : int
        Number of anchors, which are the first agents.

    Returns
    -------
    bool array (n_trials,)
        True for the trials of blocks that compare all anchors with each other.
    """
    are_anchors = (columns["first"] < anchors) & (columns["second"] < anchors)
    return np.asarray(are_anchors & (columns["role"] != ANCHOR))


def plan_after_extensions(plan: Plan, n_extensions: int) -> Plan:
    """Return the state of a plan after its first `n_extensions` extensions.

    An extension adds trials to a plan, and possibly agents or items.

    Parameters
    ----------
    plan : Plan
        A plan, extended or not.
    n_extensions : int
        Number of extensions to keep. A plan with this number or fewer is returned unchanged.

    Returns
    -------
    Plan
        The earlier plan. Its `characters` (total text length) still count the texts of the whole plan. It has no pool if a
        later extension changed the pool.
    """
    extensions = get_extensions(plan)
    n_later = len(extensions.steps) - n_extensions
    if n_later <= 0:
        return plan

    size = _get_size_after(extensions, n_extensions)
    earlier_trials = plan.trials.take(plan.trials.step <= n_extensions)
    earlier_plan = _restrict_plan(plan, size.n_agents, size.n_items, earlier_trials)

    earlier_steps = extensions.steps[:n_extensions]
    earlier_extensions = replace(extensions, steps=earlier_steps) if earlier_steps else None
    pool = plan.source if size.pool_digest == plan.pool_digest else None
    return replace(
        earlier_plan,
        extensions=earlier_extensions,
        pool_digest=size.pool_digest,
        source=pool,
        notes=plan.notes[:-n_later],  # each later extension has added one note
    )


class _EarlierSize(NamedTuple):
    """Numbers of agents and items that a plan had at some point, and the digest of its pool at that point."""

    n_agents: int
    n_items: int
    pool_digest: str


def _get_size_after(extensions: Extensions, n_extensions: int) -> _EarlierSize:
    """Return the size that a plan had after its first `n_extensions` extensions.

    An extension adds trials to a plan, and possibly agents or items.

    extensions : sizes of the first plan and of the plan after each extension
    n_extensions : number of extensions to count; 0 for the first plan
    """
    if n_extensions == 0:
        return _EarlierSize(extensions.anchors, extensions.items, extensions.pool)
    last_step = extensions.steps[n_extensions - 1]
    return _EarlierSize(last_step.agents, last_step.items, last_step.pool)


def _restrict_plan(plan: Plan, n_agents: int, n_items: int, trials: Trials) -> Plan:
    """Return a plan with only the first agents and items, with `trials` in place of its own, and without a pool.

    n_agents, n_items : numbers of agents and items that are kept
    """
    train = plan.split.train[:n_agents, :n_items]
    holdout = plan.split.holdout[:n_agents, :n_items]
    return replace(
        plan,
        trials=trials,
        agent_ids=plan.agent_ids[:n_agents],
        item_ids=plan.item_ids[:n_items],
        split=replace(plan.split, train=train, holdout=holdout),
        source=None,
    )


def _select_verdicts(plan: Plan, verdicts: Verdicts, trials: Bools | slice) -> Verdicts:
    """Return the verdicts of selected trials, with all their columns.

    plan : plan with the selected trials only
    verdicts : verdicts of all trials
    trials : bool array (n_trials,) or slice, selects the trials in `verdicts`
    """
    selected: dict[str, Any] = {}
    for name in PER_TRIAL:
        column = getattr(verdicts, name)
        if column is not None:
            selected[name] = column[trials]
    if verdicts.votes is not None:
        selected["votes"] = verdicts.votes[:, trials]
    return replace(verdicts, plan=plan, **selected)


def plan_without_follow_ups(plan: Plan) -> Plan:
    """Return a plan without its follow-ups.

    Follow-ups are trials that were added only to flag groups of agents.

    Parameters
    ----------
    plan : Plan
        A plan, with or without follow-ups at its end.

    Returns
    -------
    Plan
        The plan without follow-ups. Its `characters` (total text length) still count the texts of the whole plan.
    """
    if not plan.n_follow_ups:
        return plan
    n_others = len(plan) - plan.n_follow_ups
    return replace(plan, trials=plan.trials.take(slice(n_others)))


def remove_follow_ups(result: Verdicts) -> Verdicts:
    """Return verdicts without those of follow-ups, additional trials that are used only to flag groups of agents.

    Parameters
    ----------
    result : Verdicts
        Verdicts of a plan, whose last trials may be follow-ups.

    Returns
    -------
    Verdicts
        Verdicts of all other trials, on a plan of only these trials; `result` itself if there are no follow-ups.
    """
    plan = plan_without_follow_ups(result.plan)
    if plan is result.plan:
        return result
    return _select_verdicts(plan, result, slice(len(plan)))


def with_round(plan: Plan, rounds: Rounds, trials: Trials, *, active: Bools) -> Plan:
    """Return a plan in rounds with one more round, whose trials follow those of the plan.

    Parameters
    ----------
    plan : Plan
        The plan so far, with its pool and the trials of the pilot and of all earlier rounds. It is not changed.
    rounds : Rounds
        Rounds of this plan so far, the pilot included, without the new one.
    trials : Trials
        Trials of the new round, paired and independent. Their block numbers must continue the block numbers of the plan, and no
        trial may be in the plan already. This is not checked.
    active : bool array (n_agents,)
        Agents that the round samples.

    Returns
    -------
    Plan
        A copy, whose `rounds` have one more. The column `step` of the new trials is the number of the round, 1 for the first
        round after the pilot. If agents have several responses to an item, the responses that the new trials show are chosen.

    Raises
    ------
    PlanError
        [plan-no-pool] if the plan has no pool; [plan-other-pool] if the pool of the run has changed.
    """
    round_number = len(rounds.starts)  # the pilot is number 0 and has a start, too
    step = np.full(len(trials), round_number, dtype=np.int32)
    longer_plan = with_added_trials(plan, replace(trials, step=step))
    first_new_block = int(plan.block.max()) + 1
    return replace(longer_plan, rounds=rounds.with_round(first_new_block, active))
