"""Compute the calls with which an extension reaches a half-width, and the half-width that a number of calls gives.

Repeated trials on the same items narrow an interval less than new items do. The variance components of the run's
answers show by how much; if they are unknown, the half-width is assumed to be proportional to 1/√trials.
"""

from __future__ import annotations

from math import ceil, sqrt

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.pipeline.call_division import CallDivision, find_call_division
from youden.pipeline.judged_run import PlannedRun
from youden.pipeline.multi_judge import ITEMS_AND_JUDGES
from youden.pipeline.precision import read_variance_components
from youden.protocol.blocks import count_blocks_per_item
from youden.protocol.designs.fixed_width import HALF_WIDTH_FRACTION
from youden.protocol.extension import MIN_BLOCKS_PER_AGENT
from youden.protocol.pooled_trials import count_added_calls, has_default_independent_count
from youden.stats.forecast import (
    AgentVariances,
    find_min_blocks,
    find_min_items,
    find_smallest,
    half_width_quantile,
    half_widths,
)
from youden.types import PAIRED, Plan


def calls_for_all(folder: RunFolder, width: float) -> tuple[int, float]:
    """Compute how many more calls a run needs, so that the intervals of 90% of its agents reach a half-width.

    Parameters
    ----------
    folder : RunFolder
        Folder of a cyclic run that was not extended.
    width : float
        Half-width of the 95% intervals to reach.

    Returns
    -------
    n_calls : int
        Number of additional calls.
    expected_width : float
        Half-width that is expected with these calls.

    Raises
    ------
    ConfigError
        [extend-width] if the run is not cyclic, asks for preferences or was extended; if its target is "items-and-judges"; if no
        number of calls on its items suffices; or if the half-width is reached already.
    """
    plan = folder.read_plan()
    division = find_call_division(plan, folder.read_facts()) if folder.has("fit.json") else None
    components = read_variance_components(folder, separate_rates=division is not None)
    has_judge_variance = folder.fit_settings.target == ITEMS_AND_JUDGES
    if components is None or plan.rounds is not None or has_judge_variance:
        remedy = "Set a number of calls."
        if plan.rounds is not None:
            remedy = "Set `half_width:` in its config and run it again."
        raise ConfigError(
            f"The calls for ± {width:g} can be computed only for a cyclic run that asks for information, was not extended, and "
            f"has intervals without the variance between judges: got {folder.path}. {remedy}",
            slug="extend-width",
        )

    n_agents, n_items = plan.n_agents, plan.n_items
    n_blocks = int(plan.block.max()) + 1
    present_width = half_width_quantile(half_widths(components, n_blocks, n_items), HALF_WIDTH_FRACTION)
    if present_width <= width:
        raise ConfigError(
            f"90% of the agents have ± {present_width:.3f} already. Set a smaller half-width.", slug="extend-width"
        )
    if division is not None:
        return count_divided_calls(components, division, width, plan=plan)

    required_blocks = find_min_blocks(
        components,
        width,
        fraction=HALF_WIDTH_FRACTION,
        n_items=n_items,
        max_blocks=count_blocks_per_item(plan) * plan.n_items,
    )
    if required_blocks is None:
        raise _make_width_error(components, width, fraction=HALF_WIDTH_FRACTION, plan=plan)
    expected_width = half_width_quantile(half_widths(components, required_blocks, n_items), HALF_WIDTH_FRACTION)
    n_paired = (required_blocks - n_blocks) * n_agents
    return count_added_calls(plan, n_paired, n_scored=n_agents), expected_width


def count_divided_calls(
    components: AgentVariances, division: CallDivision, width: float, *, plan: Plan
) -> tuple[int, float]:
    """Compute how many more calls a run needs to reach a half-width, if `division` chooses how many are independent trials.

    Parameters
    ----------
    components : AgentVariances
        Variance components of the run. The constant component is the variance due to false-positive rates.
    division : CallDivision
        Division of further calls between paired and independent trials, according to the variances of the run.
    width : float
        Half-width of the 95% intervals that 90% of the agents must reach, in units of the abilities.
    plan : Plan
        Cyclic plan of the run, not extended.

    Returns
    -------
    n_calls : int
        Number of additional calls of both trial types, at least 2.
    expected_width : float
        Half-width that 90% of the agents are expected to reach with these calls, at most `width`.

    Raises
    ------
    ConfigError
        [extend-width] if the half-width cannot be reached with all paired comparisons on the items of the run.
    """
    n_blocks = int(plan.block.max()) + 1
    max_blocks = count_blocks_per_item(plan) * plan.n_items

    def components_after(n_calls: int) -> AgentVariances:
        """Return the components after `n_calls` more calls: more independent trials reduce the variance of the rates."""
        n_independent = division.n_independent + division.count_independent(n_calls)
        return components._replace(constant=components.constant * division.n_independent / n_independent)

    def half_width_after(n_calls: int) -> float:
        """Return the half-width that 90% of the agents reach after `n_calls` more calls."""
        n_added_blocks = (n_calls - division.count_independent(n_calls)) // plan.n_agents
        n_blocks_after = min(n_blocks + n_added_blocks, max_blocks)
        forecast = half_widths(components_after(n_calls), n_blocks_after, plan.n_items)
        return half_width_quantile(forecast, HALF_WIDTH_FRACTION)

    # enough calls for all paired comparisons, and for the independent trials that belong to them
    n_missing_paired = (max_blocks - n_blocks) * plan.n_agents
    max_calls = division.n_calls_to_balance + ceil(n_missing_paired / (1 - division.best_fraction))
    n_calls = find_smallest(lambda n: half_width_after(n) <= width, max_calls)
    if n_calls is None:
        raise _make_width_error(components_after(max_calls), width, fraction=HALF_WIDTH_FRACTION, plan=plan)
    return n_calls, half_width_after(n_calls)


def calls_for_joining(
    run: PlannedRun, new_trials: Plan, width: float, *, n_joined: int, n_paired_each: float, expected: float
) -> int:
    """Compute how many calls new agents need to reach a half-width.

    The number follows from the variance components of the run. If the run has none, half-widths are assumed to be proportional
    to 1/√trials, and the number follows from `expected`. Each new agent gets at least 6 blocks (`MIN_BLOCKS_PER_AGENT`) of two
    paired trials.

    Parameters
    ----------
    run : PlannedRun
        Run with the new agents, planned with the default number of calls.
    new_trials : Plan
        Trials of the new agents alone.
    width : float
        Half-width of the 95% intervals to reach.
    n_joined : int
        Number of new agents.
    n_paired_each : float
        Number of paired trials that score each new agent in `new_trials`. Used only if the run has variance components.
    expected : float
        Half-width that is expected with these trials. Used only if the run has no variance components.

    Returns
    -------
    int
        Number of calls of both trial types, for all new agents together.

    Raises
    ------
    ConfigError
        [extend-width] if no number of calls on the present items reaches `width`.
    """
    plan = run.plan
    components = read_variance_components(run.folder)
    # factor of the planned trials; without variance components, half-widths are proportional to 1 / √trials
    factor = (expected / width) ** 2
    if components is not None:
        max_blocks = count_blocks_per_item(plan) * plan.n_items
        required_blocks = find_min_blocks(components, width, fraction=1.0, n_items=plan.n_items, max_blocks=max_blocks)
        if required_blocks is None:
            raise _make_width_error(components, width, fraction=1.0, plan=plan)
        planned_blocks = max(1, round(n_paired_each / 2))
        factor = required_blocks / planned_blocks

    n_paired = int((new_trials.trial_type == PAIRED).sum())
    min_paired = MIN_BLOCKS_PER_AGENT * 2 * n_joined
    required_paired = max(ceil(factor * n_paired), min_paired)

    # independent trials whose number the user set are not counted below
    n_set_by_user = 0
    if plan.independent != "matched" and not has_default_independent_count(plan):
        n_set_by_user = len(new_trials) - n_paired
    return count_added_calls(plan, required_paired, n_scored=n_joined, are_new=True) + n_set_by_user


def _make_width_error(components: AgentVariances, width: float, *, fraction: float, plan: Plan) -> ConfigError:
    """Make the error for a half-width that cannot be reached on the items of a run.

    The message also states how many items would be enough, if there is such a number.

    components : variance components of the agents
    width : requested half-width
    fraction : fraction of the agents, in (0, 1], that must reach it
    plan : plan of the run
    """
    problem = f"± {width:g} cannot be reached on {plan.n_items:,} items with all paired comparisons"
    n_items = find_min_items(components, width, fraction=fraction, blocks_per_item=count_blocks_per_item(plan))
    if n_items is None:
        message = (
            f"{problem}, nor with more items, because of the errors of the false-positive rates. Set a larger half-width, or add "
            "calls: after all paired comparisons, `youden extend calls` adds independent ones."
        )
    else:
        message = f"{problem}: about {n_items:,} such items are needed. Add items first, or set a larger half-width."
    return ConfigError(message, slug="extend-width")


def expected_half_width(run: PlannedRun, n_trials: float) -> float | None:
    """Estimate the half-width of 95% intervals for a given number of trials per agent.

    n_trials : paired trials per agent

    Returns the half-width of the agent with the widest interval, or None if the run has neither variance components nor
    intervals.
    """
    components = read_variance_components(run.folder)
    if components is not None:
        n_blocks = max(1, round(n_trials / 2))  # an agent has two trials per block
        return float(half_widths(components, n_blocks, run.plan.n_items).max())

    # a half-width is proportional to 1 / √trials
    widths_of_one_trial = []
    for row in run.folder.read_ranking():
        if row.ability is not None and row.low is not None and row.high is not None:
            half_width = max(row.high - row.ability, row.ability - row.low)
            widths_of_one_trial.append(half_width * sqrt(row.n_trials))
    if not widths_of_one_trial:
        return None
    return max(widths_of_one_trial) / sqrt(n_trials)
