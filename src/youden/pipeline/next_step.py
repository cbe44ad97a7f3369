"""Suggest how many more calls or items would separate the last selected agent of a run from the first other candidate."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Literal, NamedTuple

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.pipeline.call_division import CallDivision, find_call_division
from youden.pipeline.precision import format_cost, read_variance_components
from youden.pipeline.rounds import STOP_MESSAGES
from youden.protocol.blocks import count_blocks_per_item, get_extensions, has_blocks_in_first_plan
from youden.protocol.pooled_trials import count_added_calls
from youden.stats.forecast import AgentVariances, find_min_blocks, half_widths
from youden.text.printable import format_command
from youden.types import PAIRED, Plan
from youden.types.facts import RunFacts

_MAX_TRIALS = 2_000_000
"""Number of trials above which the answers are not read again to forecast how many more are needed."""
_MAX_ITEM_FACTOR = 100
"""Maximum number of items that the next step suggests, as a multiple of those of the run."""
_SELECTION_FACTOR = 1.3
"""Approximate ratio of the selection-adjusted bound on a difference to the half-width of a single difference."""


def format_finishing_step(folder: RunFolder) -> str:
    """Format the advice to finish an interrupted extension of a run, with the command.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.

    Returns
    -------
    str
        A clause; an empty string if the run has no unfinished extension.
    """
    config = folder.find_config()  # None for an imported run
    unfinished = None if config is None else config.unfinished
    if unfinished is None:
        return ""
    n_planned_steps = len(get_extensions(folder.read_plan_without_trials()).steps)
    if n_planned_steps > unfinished.number:  # the plan already contains the extension
        return ""
    return f"finish the extension that was stopped: `{unfinished.format_command(folder.path)}`"


def format_next_step(folder: RunFolder, facts: RunFacts, *, usd_per_call: float | None) -> str:
    """Format how many more calls or items would separate the last selected agent from the first other candidate.

    Two agents are separated if their abilities differ significantly. Other candidates are the agents that were not selected,
    but cannot be ruled out as one of the best.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.
    facts : RunFacts
        Facts about its fit.
    usd_per_call : float or None
        Price of a call in USD; the text has no price if it is None or 0.

    Returns
    -------
    str
        Approximate number of calls with their price, or of items without a price, and the command that adds them. If most of the
        variance of an ability is due to the false-positive rates, the text recommends calls that mainly estimate these rates. It
        then states the half-width that is expected after them. In the following cases, the text has no number and no price:

        - an unfinished extension: the command that finishes it, because no other extension can begin before;
        - answers that follow the position of the responses: an instruction to use another judge;
        - a run of self-trials: an instruction to run a pool with more items;
        - a search in rounds: how to search longer, because a search cannot be extended (`_format_next_search`);
        - two agents that even many more items would not separate: a statement that they may be equally good.

        Empty if more calls would not help: if agents cannot be compared, the judge does not discriminate, or the run has
        its recommendation.

    Raises
    ------
    RunFolderError
        If a file of the run is missing or damaged.

    Notes
    -----
    With the additions, the half-width of the 95% interval of the difference is at most the difference divided by 1.3. The factor
    accounts for the selection of the two agents from many. At least a tenth is added. Difference and half-width are estimated
    from the run's answers. If the answers do not show how much abilities vary between items, the half-width is assumed to be
    proportional to 1/√trials.
    """
    finishing_step = format_finishing_step(folder)
    if finishing_step:
        return finishing_step

    # cases in which more calls do not help
    choice = facts.choice
    if facts.preference is not None and facts.preference.follows_position:
        return "use another judge or prompt, because the answers follow the position of the responses"
    is_decided = not facts.signal.discriminates or facts.recommendation.form == "recommended"
    if choice is None or not choice.candidates or is_decided:
        return ""

    plan = folder.read_plan()
    pair = [choice.agents[-1], choice.candidates[0]]
    if plan.is_self_plan:
        names = " and ".join(pair)
        return f"to separate {names}, run a pool with more items under another name; self-trials cannot be extended"
    if plan.rounds is not None:
        return _format_next_search(folder, plan, facts)
    # a plan without blocks cannot be extended by calls of all agents
    division = find_call_division(plan, facts) if has_blocks_in_first_plan(plan) else None
    # other next steps also add at least a tenth of the present calls
    if division is not None and 10 * division.n_calls_to_balance >= len(plan):
        next_step = _format_balance(folder, division, usd_per_call=usd_per_call)
    else:
        next_step = _format_separation(folder, plan, pair, usd_per_call=usd_per_call)
    return next_step


def _format_next_search(folder: RunFolder, plan: Plan, facts: RunFacts) -> str:
    """Format the advice on how to continue a search that has stopped.

    The advice depends on the reason for which it stopped, and on whether false-positive rates dominate the intervals.
    """
    command = folder.format_command()
    stop_note = " ".join(plan.notes)  # contains the reason
    if STOP_MESSAGES["near enough"] in stop_note:
        return (
            "for a longer search, set a smaller `max_regret` in the config of the run, and run it with --out NEW; with the same "
            "store, stored answers are reused"
        )
    if STOP_MESSAGES["narrow"] in stop_note:
        return f"`{command} --half-width X` with a smaller half-width adds rounds; stored answers are reused"
    if STOP_MESSAGES["items"] in stop_note:
        more_items = "for narrower intervals, run a pool with more items under another name"
        division = find_call_division(plan, facts)
        if division is None:
            return more_items
        return (
            f"{more_items}, or the same pool without `half_width`: the false-positive rates account for "
            f"{division.rate_share:.0%} of the variance of an ability, and `youden extend calls` adds the calls that estimate "
            "them"
        )
    return f"`{command} --calls N --out NEW` makes a longer search; with the same store, stored answers are reused"


def _format_balance(folder: RunFolder, division: CallDivision, *, usd_per_call: float | None) -> str:
    """Format how many more calls would give the optimal fraction of independent trials.

    The advice is for a run with wide intervals, mainly because its false-positive rates are uncertain. Independent trials
    estimate these rates. The text also states the half-width that is expected after these calls.

    division : division of further calls between paired and independent trials
    usd_per_call : price of a call in USD; the text has no price if it is None or 0
    """
    n_calls = division.n_calls_to_balance
    n_independent = division.count_independent(n_calls)
    half_widths_of_agents = [
        (row.high - row.low) / 2 for row in folder.read_ranking() if row.low is not None and row.high is not None
    ]
    half_width = float(np.mean(half_widths_of_agents))
    new_half_width = half_width * division.forecast_width_ratio(n_calls)
    command = format_command(["youden", "extend", "calls", str(folder.path), str(n_calls)])
    return (
        f"the false-positive rates account for {division.rate_share:.0%} of the variance of an ability; about {n_calls:,} more "
        f"calls{format_cost(n_calls, usd_per_call)}, {n_independent:,} of them to estimate these rates, would narrow the average "
        f"agent's 95% interval from ± {half_width:.3f} to about ± {new_half_width:.3f}: `{command}`"
    )


def _format_separation(folder: RunFolder, plan: Plan, pair: Sequence[str], *, usd_per_call: float | None) -> str:
    """Format how many more calls or items would make two agents significantly different.

    The text also has the price and the command. For large pools, the command adds trials that measure only these two agents (a
    focus).

    plan : plan of the run
    pair : ids of the two agents
    usd_per_call : price of a call in USD; the text has no price if it is None or 0
    """
    names = " and ".join(pair)
    needed = _forecast_needed_data(folder, plan, pair)
    if needed is None or (needed.unit == "items" and needed.n_added > _MAX_ITEM_FACTOR * plan.n_items):
        return f"{names} may be equally good: {_MAX_ITEM_FACTOR} times as many items might not separate them"
    if needed.unit == "items":
        command = format_command(["youden", "extend", "items", str(folder.path), "POOL"])
        return (
            f"about {needed.n_added:,} more items, with as many calls each as now, would separate {names} if their difference "
            f"is as estimated: `{command}`"
        )

    # A block has two trials of each agent that it measures. With a focus, a trial measures one agent, and otherwise two.
    has_focus = plan.n_agents > 2 * len(pair)
    n_measured = len(pair) if has_focus else plan.n_agents
    n_paired_per_block = 2 * len(pair) if has_focus else plan.n_agents
    n_paired = n_paired_per_block * needed.n_added  # the unit of `n_added` is blocks
    n_calls = count_added_calls(plan, n_paired, n_scored=n_measured)
    words = ["youden", "extend", "calls", str(folder.path), str(n_calls)]
    if has_focus:
        words += ["--focus", pair[0], "--focus", pair[1]]

    cost = format_cost(n_calls, usd_per_call)
    return (
        f"about {n_calls:,} more calls{cost} would separate {names} if their difference is as estimated: "
        f"`{format_command(words)}`"
    )


class _NeededData(NamedTuple):
    """Data that must be added to a run so that an interval has a required half-width.

    Attributes
    ----------
    unit : {"blocks", "items"}
        "blocks" for more blocks of trials on the present items, "items" for more items.
    n_added : int
        Number of additional blocks or items.
    """

    unit: Literal["blocks", "items"]
    n_added: int


def _forecast_needed_data(folder: RunFolder, plan: Plan, pair: Sequence[str]) -> _NeededData | None:
    """Forecast how many more blocks or items make the difference of two agents significant.

    A block is a set of trials of one item, with two trials of each agent. The half-width of the difference must fall below the
    difference divided by `_SELECTION_FACTOR`. This factor accounts for the selection of the two agents from many. More items
    are proposed only if all possible blocks on the present items are too few.

    pair : ids of the two agents

    Returns None if the difference is 0 or unknown.
    """
    difference, squared_half_width = _read_ability_difference(folder, pair)
    required_half_width = abs(difference) / _SELECTION_FACTOR
    if not required_half_width > 0:  # the abilities are equal, or one is unknown (NaN)
        return None

    # variance components give a better forecast than the present width, but reading them from a large plan takes long
    components = None if len(plan) > _MAX_TRIALS else read_variance_components(folder)
    if components is None:
        needed_growth = squared_half_width / required_half_width**2
        return _forecast_data_by_scaling(needed_growth, plan)

    # the variances of a difference are sums over both agents
    positions = [plan.agent_ids.index(agent) for agent in pair]
    difference_variances = AgentVariances(*(component[positions].sum(keepdims=True) for component in components))
    return _forecast_data_by_components(difference_variances, required_half_width, plan)


def _forecast_data_by_scaling(variance_ratio: float, plan: Plan) -> _NeededData:
    """Forecast how much data must be added to a run so that a variance decreases by a factor.

    The variance is assumed to be proportional to 1/blocks, where a block is a set of trials of one item. If the present items
    allow too few blocks, it is assumed to be proportional to 1/items. At least a tenth of the present number is added.

    variance_ratio : present variance, divided by the required one
    plan : present plan of the run
    """
    growth = max(variance_ratio, 1.1)
    n_blocks = int((plan.trial_type == PAIRED).sum()) / plan.n_agents
    max_blocks = count_blocks_per_item(plan) * plan.n_items
    if growth * n_blocks <= max_blocks:
        return _NeededData("blocks", ceil((growth - 1) * n_blocks))
    return _NeededData("items", ceil((growth - 1) * plan.n_items))


def _read_ability_difference(folder: RunFolder, pair: Sequence[str]) -> tuple[float, float]:
    """Read two abilities from the ranking of a run, and compute their difference and its squared half-width.

    The squared half-width of the difference is the sum of the squared half-widths of both confidence intervals.

    folder : folder of the run
    pair : ids of the two agents

    Returns the first ability minus the second one, and the squared half-width. Both are NaN if an ability or a bound is
    unknown.
    """
    row_by_agent = {row.agent: row for row in folder.read_ranking()}
    abilities = []
    squared_half_width = 0.0  # of the difference: sum over both agents
    for agent in pair:
        row = row_by_agent[agent]
        if row.ability is None or row.low is None or row.high is None:
            return np.nan, np.nan
        abilities.append(row.ability)

        # use the farther bound, because the other one may be clipped to the possible range
        squared_half_width += max(row.high - row.ability, row.ability - row.low) ** 2
    return abilities[0] - abilities[1], squared_half_width


def _forecast_data_by_components(components: AgentVariances, half_width: float, plan: Plan) -> _NeededData:
    """Forecast how much data must be added to a run so that an interval has a given half-width.

    Blocks of trials on the present items are preferred, because they need no new responses. If too few blocks are possible, the
    result is a number of items, with as many blocks each as the present ones. At least a tenth of the present number is added.

    components : variance components of the estimate, arrays (1,)
    half_width : required half-width of its interval
    plan : present plan of the run
    """
    n_blocks = int((plan.trial_type == PAIRED).sum()) / plan.n_agents  # a block has one paired trial per agent
    max_blocks = count_blocks_per_item(plan) * plan.n_items

    # `components` are of one estimate, so "all estimates" (a fraction of 1) means this one
    blocks_needed = find_min_blocks(components, half_width, fraction=1.0, n_items=plan.n_items, max_blocks=max_blocks)
    if blocks_needed is not None and n_blocks < max_blocks:
        min_added_blocks = ceil(n_blocks / 10)
        return _NeededData("blocks", max(blocks_needed - round(n_blocks), min_added_blocks))

    # with as many blocks per item as now, which `youden extend items` adds by default, all variances are proportional to 1/items
    present_half_width = float(half_widths(components, round(n_blocks), plan.n_items)[0])
    growth = max((present_half_width / half_width) ** 2, 1.1)
    return _NeededData("items", ceil((growth - 1) * plan.n_items))
