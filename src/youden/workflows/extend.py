"""Extend a judged run by agents, items, repeats or calls, or search it for its best agents; stored answers are reused.

An extension is recorded in config.yaml before its first request, so that the same command finishes it. The other files
of the folder change only when all its answers are stored. A search is a series of steps, one per round.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pydantic import ValidationError

from youden.data.folder.extension_steps import ExtensionRequest, ExtensionStep, UnfinishedExtension
from youden.data.folder.joined_pools import JOIN_BY_KIND, describe_addition, read_run_pools
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import read_pool
from youden.errors import ConfigError, PlanError, RunFolderError, YoudenError
from youden.judging.config.judge_files import load_judge_of_run
from youden.judging.estimate import estimate
from youden.judging.scheduler.options import JudgingOptions, check_cap
from youden.pipeline.call_division import find_call_division
from youden.pipeline.fitted_run import RunFit, fit_run
from youden.pipeline.judged_run import judge_run, read_payments_of_run
from youden.protocol.plan import PlanSize
from youden.protocol.pooled_trials import count_added_calls, count_independent, has_free_calls
from youden.run_keys import CallBudget
from youden.text.printable import printable
from youden.text.sentences import format_count
from youden.text.yaml_text import format_validation_error
from youden.types import PAIRED, Plan, Pool
from youden.types.payments import round_up_usd
from youden.workflows.extension_search import plan_search_round
from youden.workflows.extension_width import calls_for_all, calls_for_joining
from youden.workflows.planned_extension import PlannedExtension, plan_step, resume_extension

_LOG = logging.getLogger(__name__)


def plan_extension(
    config: RunConfig,
    *,
    agents: str | None = None,
    items: str | None = None,
    repeats: str | None = None,
    calls: int | str | None = None,
    focus: Sequence[str] = (),
    half_width: float | None = None,
    top: int | None = None,
    max_regret: float | None = None,
    max_cost: float | None = None,
) -> PlannedExtension | str:
    """Plan an extension of a judged run, or resume one that was stopped.

    The run's folder does not change. One of these combinations must be set: one pool, alone or with `calls`; `calls`, alone or
    with `focus`; `half_width`, alone or with `agents`; `top` and `calls`; or `max_regret`, alone or with `top`, `calls` or both.

    Parameters
    ----------
    config : RunConfig
        Config of the run, with the changes of this command, for example a judge.
    agents, items, repeats : str, optional
        Path of the pool with the agents, items or further responses to add. At most one of them.
    calls : int or str, optional
        Number of calls to add, of both trial types together; in a search, the maximum. If neither a pool nor `focus` is
        given, it can also be a percentage of the dense calls ("1%") or a number of trials per agent ("50/agent"). Default
        with a pool: each new agent, item or repeat gets as many calls as an existing one has. Without a pool, `calls` is
        required unless `half_width` or `max_regret` is given.
    focus : sequence of str, optional
        Ids of the agents on which `calls` are spent. Default: all agents.
    half_width : float above 0, optional
        Half-width of the 95% intervals to reach, in units of ability, in place of `calls`: with `agents`, for the new agents;
        otherwise, for 90% of the run's agents.
    top : int, optional
        Number of best agents to search for, at least 1 and less than all: `calls` are spent in rounds on fewer and fewer
        contenders. Default: 1 if `max_regret` is given, otherwise no search.
    max_regret : float in (0, 2), optional
        Maximum regret, in units of ability: search until the upper bound on the regret of the selected agents is at most this.
    max_cost : float, optional
        Maximum cost of the extension in USD, in addition to what the run has paid before. Default: what remains of the cost cap
        of the run.

    Returns
    -------
    PlannedExtension or str
        The first step: the run with its longer plan (`run`), the new trials alone (`new_trials`) and their expected cost
        (`cost`). A text is the reason why a search needs no further calls.

    Raises
    ------
    ConfigError
        [extend-options] if the options cannot be combined; [calls-invalid] if `calls` is text and a pool or `focus` is
        set; [extend-width] if no number of calls reaches `half_width`; [extend-search] if a search is not possible;
        [extend-part] if the run is part of another run.
    RunFolderError
        [run-unjudged] if the run has no answers; [run-partial] if it is unfinished; [extend-unfinished] if an extension with
        other options or another pool is unfinished.
    PoolError, PlanError
        If a pool cannot be read, or the calls cannot be planned; [extend-too-few-calls] if `calls` are too few for a search.
    """
    check_cap([], max_cost)  # before the cap is added to what was paid, and recorded in config.yaml
    folder = RunFolder(config.folder)
    folder.check_judged()
    if config.trials_from is not None:
        raise ConfigError(
            f"{folder.path} has only part of the trials of {config.trials_from}. Extend that run, and judge part of it again.",
            slug="extend-part",
        )

    pools = {"agents": agents, "items": items, "repeats": repeats}
    if isinstance(calls, str):
        if any(pools.values()) or focus:
            raise ConfigError(
                f"calls: got '{calls}' with a pool or with agents to focus on. Set a number of calls.",
                slug="calls-invalid",
            )
        calls = _convert_budget_to_calls(folder, CallBudget.parse(calls))
    options = {"calls": calls, "focus": [*focus], "half_width": half_width, "top": top, "max_regret": max_regret}
    try:
        request = ExtensionRequest.model_validate(pools | options)
    except ValidationError as error:
        raise ConfigError(
            f"The options do not fit: {format_validation_error(error)}. Correct them.", slug="extend-options"
        ) from None

    unfinished = config.unfinished
    if unfinished is None:
        paid = read_payments_of_run(config, load_judge_of_run(config), folder.read_plan_without_trials())
        paid_before = round_up_usd(paid.usd_under_cap)
    else:
        paid_before = unfinished.paid_before
    if max_cost is not None:
        config = config.model_copy(update={"max_cost": round_up_usd(paid_before + max_cost)})

    planned = _plan_first_step(config, request)
    if isinstance(planned, str):
        return planned
    if max_cost is None and unfinished is not None:
        max_cost = unfinished.max_cost
    return _with_recorded_cap(planned, max_cost=max_cost, paid_before=paid_before)


def _plan_first_step(config: RunConfig, request: ExtensionRequest) -> PlannedExtension | str:
    """Plan the first step of an extension.

    If an earlier command began the extension and stopped, its last step is planned again.

    Returns the reason as a sentence if a search needs no further calls.
    """
    if config.unfinished is not None:
        return resume_extension(config, config.unfinished, request)
    n_extensions = len(config.extensions)
    if request.is_search:
        return _plan_search_round(config, request, n_earlier_extensions=n_extensions, n_calls_spent=0)
    return _plan_single_step(config, request, n_earlier_extensions=n_extensions)


def _with_recorded_cap(planned: PlannedExtension, *, max_cost: float | None, paid_before: float) -> PlannedExtension:
    """Add the maximum cost of an extension, and what the run had paid before, to the record of the extension."""
    record = planned.unfinished.model_copy(update={"max_cost": max_cost, "paid_before": paid_before})
    return replace(planned, unfinished=record)


def _read_extended_pools(config: RunConfig, step: ExtensionStep) -> list[Pool]:
    """Read the initial pool of a run and the pool after each extension.

    The last pool is the one after a new extension, which is not in the config yet. Warnings about the pool that the new extension
    adds are logged, for example about items that it leaves out.

    config : config of the run before the extension
    step : the new extension
    """
    pools = read_run_pools(config)
    pool = pools[-1]
    if step.added_pool is None:
        return [*pools, pool]  # the extension adds only calls, so the pool is the same after it

    new_pool = read_pool(step.added_pool, empty=config.empty)
    joined = JOIN_BY_KIND[step.kind](pool, new_pool)
    for note in describe_addition(pool, new_pool, joined):
        _LOG.warning("%s: %s", printable(new_pool.name), printable(note))
    return [*pools, joined]


def _convert_budget_to_calls(folder: RunFolder, budget: CallBudget) -> int:
    """Convert a budget that depends on the size of a run to a number of calls.

    "1%" is a percentage of all possible calls. "50/agent" is a number of paired trials (responses to the same item) per agent, to
    which the calls of the corresponding independent trials (responses to different items) are added.
    """
    plan = folder.read_plan_without_trials()
    size = PlanSize(
        plan.n_agents,
        plan.n_items,
        is_matched=plan.independent == "matched",
        n_independent=0,  # calls of pooled independent trials are added below
        is_preference=plan.question == "preference",
    )
    n_calls = size.count_calls(budget)
    if budget.unit == "/agent" and plan.independent == "pooled":
        return count_added_calls(folder.read_plan(), n_calls, n_scored=plan.n_agents)
    return n_calls


def _plan_search_round(
    config: RunConfig, request: ExtensionRequest, *, n_earlier_extensions: int, n_calls_spent: int
) -> PlannedExtension | str:
    """Plan the next round of a search for the best agents.

    If the search ends, the reason is returned as a sentence instead.

    config : config of the run, with the earlier rounds among its extensions
    request : options of the search
    n_earlier_extensions : number of extensions of the run before the search
    n_calls_spent : number of calls of the search so far
    """
    n_rounds = len(config.extensions) - n_earlier_extensions
    step_or_reason = plan_search_round(config, request, number=n_rounds, spent=n_calls_spent)
    if isinstance(step_or_reason, str):
        return step_or_reason
    try:
        return plan_step(config, step_or_reason, request, first=n_earlier_extensions)
    except PlanError as error:
        if error.slug != "extend-exhausted":
            raise
        return "all comparisons of the candidates with the agents of the first plan have been made"


def _plan_single_step(config: RunConfig, request: ExtensionRequest, *, n_earlier_extensions: int) -> PlannedExtension:
    """Plan an extension that is not a search for the best agents.

    Such an extension has one step. If the user requests a half-width of the intervals, the number of calls is computed from it.
    New agents have no intervals yet. For them, a step with the default number of calls is planned first, and the number is
    computed from its expected half-width.

    config : config of the run
    request : what to add: agents, items, responses or calls, or a half-width that the intervals must reach
    n_earlier_extensions : number of extensions of the run before this one
    """
    half_width = request.half_width
    if half_width is not None and request.agents is None:
        n_calls, expected_width = calls_for_all(RunFolder(config.folder), half_width)
        step = _with_more_independent_trials(ExtensionStep(calls=n_calls), RunFolder(config.folder))
        return plan_step(config, step, request, first=n_earlier_extensions, half_width=expected_width)

    options_of_step = request.model_dump(include=set(ExtensionStep.model_fields))
    requested_step = ExtensionStep.model_validate(options_of_step)
    step = _with_more_independent_trials(requested_step, RunFolder(config.folder))
    pools = _read_extended_pools(config, step)
    planned = plan_step(config, step, request, first=n_earlier_extensions, pools=pools)
    if half_width is None or not planned.new_agents or planned.half_width is None:
        return planned

    n_calls = calls_for_joining(
        planned.run,
        planned.new_trials,
        half_width,
        n_joined=len(planned.new_agents),
        n_paired_each=planned.n_paired_each,
        expected=planned.half_width,
    )
    step_with_calls = step.model_copy(update={"calls": n_calls})
    return plan_step(config, step_with_calls, request, first=n_earlier_extensions, pools=pools)


def _with_more_independent_trials(step: ExtensionStep, folder: RunFolder) -> ExtensionStep:
    """Return an extension with more independent trials than by default, if the run needs them.

    A run needs them if the intervals of its agents are wide mainly because of the errors of the false-positive rates. Extensions
    that add anything other than calls are returned unchanged.

    step : the extension, with the default number of independent trials
    folder : folder of the run that is extended
    """
    if step.calls is None or step.kind != "calls" or not folder.has("fit.json"):
        return step
    plan = folder.read_plan_without_trials()
    division = find_call_division(plan, folder.read_facts())
    if division is None:
        return step

    n_focus = len(step.focus)
    n_independent = division.count_independent(step.calls, n_focus=n_focus)
    default_n_independent = count_independent(step.calls, n_focus or plan.n_agents, is_first=False)
    if n_independent <= default_n_independent:
        return step
    return step.model_copy(update={"independent": n_independent})


def extend_run(planned: PlannedExtension, options: JudgingOptions | None = None) -> tuple[RunFit, str]:
    """Query the judge on an extension and fit the extended run.

    A search for the best agents repeats these two steps in every round.

    Parameters
    ----------
    planned : PlannedExtension
        The extension, from `plan_extension`.
    options : JudgingOptions, optional
        Options of the requests. The cost cap and the maximum fraction of missing answers are taken from the run's config.

    Returns
    -------
    fitted : FitResult or PreferenceResult
        Fit of the extended run, whose tables were written to its folder.
    end : str
        Number of rounds and calls of a search, and the reason why it ended; empty for other extensions.

    Raises
    ------
    BudgetError, JudgeError, TooManyMissingError
        If the cost cap is reached, the judge cannot be used, or too many answers are missing. Finished rounds stay in
        the folder.
    RunFolderError
        [run-extended] if another process has extended the run since the extension was planned.

    Notes
    -----
    config.yaml records the extension as unfinished until `finish_extension` is called. If a new extension fails
    before it has an answer, the record is removed.
    """
    request, config = planned.unfinished, planned.run.config
    fitted = _extend_by_step(planned, options)
    if not request.is_search:
        return fitted, ""

    while True:
        n_calls_spent = _count_search_calls(planned.run.plan, request.first)
        extensions = planned.run.config.extensions
        extended = config.model_copy(update={"extensions": extensions, "unfinished": None})
        next_round = _plan_search_round(
            extended, request, n_earlier_extensions=request.first, n_calls_spent=n_calls_spent
        )
        if isinstance(next_round, str):
            n_rounds = format_count(len(extensions) - request.first, "round")
            return fitted, f"{n_rounds}, {n_calls_spent:,} calls; {next_round}"
        planned = _with_recorded_cap(next_round, max_cost=request.max_cost, paid_before=request.paid_before)
        fitted = _extend_by_step(planned, options)


def _count_search_calls(plan: Plan, n_earlier_extensions: int) -> int:
    """Count the calls of a search so far; if calls cost nothing, only paired trials count.

    plan : plan of the run with all rounds of the search
    n_earlier_extensions : number of extensions of the run before the search
    """
    is_of_search = plan.trials.step > n_earlier_extensions
    if has_free_calls(plan):
        is_of_search &= plan.trial_type == PAIRED
    return int(is_of_search.sum())


def _extend_by_step(planned: PlannedExtension, options: JudgingOptions | None) -> RunFit:
    """Judge the trials of one step of an extension, and fit the extended run.

    Before the first request, config.yaml records that the extension is unfinished. When all trials are judged, config.yaml
    records the step. If the first step fails before any answer is stored, the first record is removed. Raises the errors of
    `judge_run`.
    """
    run = planned.run
    # `judge_run` writes `run.config`, with the judge and the store of this command
    config_in_folder = run.folder.read_config()
    try:
        judge_run(run, options, on_start=partial(_record_unfinished, planned))
    except YoudenError as error:
        if _has_failed_at_start(planned, error):
            with suppress(OSError):
                finish_extension(run.folder)  # removes the record, so nothing is left of the extension
        raise

    recorded = _record_command(config_in_folder, planned)
    changes = {"target": run.config.target, "extensions": run.config.extensions}
    run.folder.write_config(recorded.model_copy(update=changes))
    return fit_run(run.folder)


def _has_failed_at_start(planned: PlannedExtension, error: YoudenError) -> bool:
    """Return whether an extension failed in its first step, before any answer was stored.

    Returns False if an earlier process began the step, or if another process uses the run.

    planned : the failed step
    error : error with which the step failed; its slug shows whether another process uses the run
    """
    is_first_step = planned.unfinished.number == planned.unfinished.first
    is_used_by_other_process = error.slug in ("run-busy", "run-extended")
    if planned.resumed or not is_first_step or is_used_by_other_process:
        return False
    return not _has_stored_answers(planned)


def _record_unfinished(planned: PlannedExtension) -> None:
    """Record in the run's config.yaml that an extension has begun and is not finished.

    The record lets the same command resume the extension if this process is stopped.

    Raises RunFolderError [run-extended] if another process has extended the run since the extension was planned.
    """
    folder = planned.run.folder
    recorded = folder.read_config()
    if _is_extended_by_other_process(recorded, planned.unfinished):
        raise RunFolderError(
            f"{folder.path} was extended by another process after this extension was planned. Run the same command again.",
            slug="run-extended",
        )
    folder.write_config(_record_command(recorded, planned))


def _record_command(config: RunConfig, planned: PlannedExtension) -> RunConfig:
    """Return the config of a run with the record of an unfinished extension, and with the command's cost cap if it is higher."""
    max_cost = config.max_cost
    if max_cost is not None and planned.run.config.max_cost is not None:
        max_cost = max(max_cost, planned.run.config.max_cost)
    return config.model_copy(update={"unfinished": planned.unfinished, "max_cost": max_cost})


def _is_extended_by_other_process(recorded: RunConfig, planned: UnfinishedExtension) -> bool:
    """Return whether another process has extended a run since this process planned its extension.

    recorded : config of the run as the folder contains it now
    planned : extension of this process, with the number of extensions that the run had when it was planned
    """
    n_new_extensions = len(recorded.extensions) - planned.number
    if recorded.unfinished is None:
        return n_new_extensions > 0
    if not recorded.unfinished.is_same_request(planned):
        return True

    # one new extension may be our own: the same command recorded it and was interrupted
    return n_new_extensions > 1


def _has_stored_answers(planned: PlannedExtension) -> bool:
    """Return whether the store has an answer to a new trial of the step."""
    run = planned.run
    return estimate(planned.new_trials, run.judge, store=run.config.store_location).stored > 0


def finish_extension(folder: RunFolder) -> None:
    """Remove the record of an unfinished extension from config.yaml.

    Afterwards, the same command makes a new extension.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.
    """
    folder.write_config(folder.read_config().model_copy(update={"unfinished": None}))


def list_agents_with_wide_intervals(planned: PlannedExtension, fitted: RunFit) -> tuple[str, ...]:
    """List the new agents whose interval is wider than requested.

    Parameters
    ----------
    planned : PlannedExtension
        The extension. The requested half-width is `planned.unfinished.half_width`.
    fitted : RunFit
        Fit of the extended run, a `FitResult` or a `PreferenceResult`. Its `ranking` has the intervals.

    Returns
    -------
    tuple of str
        Ids of the new agents without an interval, or whose half-width exceeds the requested one by more than 10%. Empty
        if no half-width was requested.
    """
    requested_half_width = planned.unfinished.half_width
    if requested_half_width is None:
        return ()
    ranking = fitted.ranking.set_index("agent")
    half_widths = (ranking["high"] - ranking["low"]) / 2
    is_narrow_enough = half_widths <= 1.1 * requested_half_width  # False for an agent without an interval (NaN)
    return tuple(agent for agent in planned.new_agents if not is_narrow_enough[agent])
