"""Extend a judged run by agents, items, repeats or calls, or search it for its best agents; stored answers are reused.

An extension is recorded in config.yaml before its first request, so that the same command finishes it. The other files of the
folder change only when all its answers are stored. A search is a series of steps, one per round.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import numpy as np
from pydantic import ValidationError

from youden.data.folder.extension_steps import ExtensionRequest, ExtensionStep
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, PlanError, RunFolderError, YoudenError
from youden.judging.estimate import estimate
from youden.judging.scheduler.options import Asking
from youden.pipeline.fit_tables import Analysis
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import judge_run
from youden.protocol.plan import PlanSize
from youden.run_keys import CallBudget
from youden.text.sentences import counted
from youden.text.yaml_text import misfit
from youden.workflows.extension_search import plan_search_round
from youden.workflows.extension_width import calls_for_all, calls_for_joining
from youden.workflows.planned_extension import PlannedExtension, plan_step, resume_extension


def plan_extension(
    config: RunConfig,
    *,
    agents: str | None = None,
    items: str | None = None,
    repeats: str | None = None,
    calls: int | str | None = None,
    focus: Sequence[str] = (),
    width: float | None = None,
    top: int | None = None,
    within: float | None = None,
) -> PlannedExtension | str:
    """Plan an extension of a judged run, or resume one that was stopped; the run's folder stays as it is.

    Parameters
    ----------
    config : RunConfig
        Config of the run, with the changes of this command, such as a cost cap.
    agents, items, repeats : str, optional
        Path of the pool with the agents, items or further responses to add. At most one of them.
    calls : int or str, optional
        Number of calls of both trial types; of a search, the maximum. Without a pool and `focus` also a percentage of the dense
        calls ("1%") or trials per agent ("50/agent"). Default with a pool: as many for each new agent, item or repeat as one of
        the run has.
    focus : sequence of str, optional
        Agents on which `calls` are spent.
    width : float, optional
        Half-width of the 95 % intervals, in place of `calls`: of the agents that join or, alone, of nine in ten of the run's
        agents.
    top : int, optional
        Search for so many of the best agents: spend `calls` in rounds on fewer and fewer of them.
    within : float, optional
        Search until the regret of those selected is at most this.

    Returns
    -------
    PlannedExtension or str
        The first step, or the reason why a search has nothing to ask.

    Raises
    ------
    ConfigError
        [extend-options] if the options do not go together, [calls-invalid], [extend-width], [extend-search], [extend-part].
    RunFolderError
        [run-unjudged], [extend-unfinished]; other errors as `plan_run`.
    """
    folder = RunFolder(config.folder)
    folder.refuse_unjudged()
    if config.trials_of is not None:
        raise ConfigError(
            f"{folder.path} asks a part of the trials of {config.trials_of}. Extend that run, and judge a part of it again.",
            slug="extend-part",
        )
    pools = {"agents": agents, "items": items, "repeats": repeats}
    if isinstance(calls, str):
        if any(pools.values()) or focus:
            raise ConfigError(
                f"calls: got '{calls}' with a pool or with agents to focus on. Set a number of calls.",
                slug="calls-invalid",
            )
        plan = folder.read_plan_alone()
        size = PlanSize(plan.n_agents, plan.n_items, twins=plan.independent == "twin", n_apart=0)
        calls = size.count_calls(CallBudget.parse(calls))
    try:
        request = ExtensionRequest.model_validate(
            {**pools, "calls": calls, "focus": [*focus], "width": width, "top": top, "within": within}
        )
    except ValidationError as error:
        raise ConfigError(f"The options do not fit: {misfit(error)}. Correct them.", slug="extend-options") from None
    if config.unfinished is not None:
        return resume_extension(config, config.unfinished, request)
    return _plan_next(config, request, first=len(config.extensions))


def _plan_next(config: RunConfig, request: ExtensionRequest, *, first: int, n_spent: int = 0) -> PlannedExtension | str:
    """Plan the next step of a request. first: extensions before the command; n_spent: calls of the search so far."""
    width, half_width = request.width, None
    if request.is_search:
        step = plan_search_round(config, request, number=len(config.extensions) - first, spent=n_spent)
        if isinstance(step, str):
            return step
    elif width is not None and request.agents is None:
        n_calls, half_width = calls_for_all(RunFolder(config.folder), width)
        step = ExtensionStep(calls=n_calls)
    else:
        step = ExtensionStep.model_validate(request.model_dump(include=set(ExtensionStep.model_fields)))
    try:
        planned = plan_step(config, step, request, first=first, half_width=half_width)
    except PlanError as error:
        if not request.is_search or error.slug != "grow-all":
            raise
        return "those who may be the best were asked everything there is"
    if width is None or not planned.joined or planned.half_width is None:
        return planned
    n_calls = calls_for_joining(
        planned.run,
        planned.asked,
        width,
        n_joined=len(planned.joined),
        n_paired_each=planned.n_paired_each,
        expected=planned.half_width,
    )
    return plan_step(config, step.model_copy(update={"calls": n_calls}), request, first=first)


def extend_run(planned: PlannedExtension, asking: Asking | None = None) -> tuple[Analysis, str]:
    """Query the judge on an extension and fit the extended run; in a search, round after round.

    Parameters
    ----------
    planned : PlannedExtension
        From `plan_extension`.
    asking : Asking, optional
        Terms of the requests. A cost cap holds for all rounds together.

    Returns
    -------
    fitted : Analysis
        Of the extended run.
    end : str
        How a search ended; empty for other extensions.

    Raises
    ------
    YoudenError
        As `judge_run`. The rounds before stay in the folder.

    Notes
    -----
    config.yaml records the extension as unfinished from before the first request until `finish_extension`. If a new
    extension fails before anything of it was answered, the record is removed.
    """
    request, config = planned.unfinished, planned.run.config
    fitted = _extend_by_step(planned, asking)
    if not request.is_search:
        return fitted, ""
    steps = planned.run.plan.trials.step
    spent = int((steps > request.first).sum())
    usd = _usd_of(planned)
    while True:
        left = None if config.max_cost is None else max(config.max_cost - usd, 0.0)
        extensions = planned.run.config.extensions
        extended = config.model_copy(update={"extensions": extensions, "max_cost": left, "unfinished": None})
        more = _plan_next(extended, request, first=request.first, n_spent=spent)
        if isinstance(more, str):
            return fitted, f"{counted(len(extensions) - request.first, 'round')}, {spent:,} calls; {more}"
        planned = more
        fitted = _extend_by_step(planned, asking)
        spent, usd = spent + len(planned.asked), usd + _usd_of(planned)


def _usd_of(planned: PlannedExtension) -> float:
    """Return the cost of the answers to a step."""
    folder = planned.run.folder
    usd = folder.read_verdicts(folder.read_plan()).usd
    return 0.0 if usd is None else float(np.nansum(usd[-len(planned.asked) :]))


def _extend_by_step(planned: PlannedExtension, asking: Asking | None) -> Analysis:
    run, unfinished = planned.run, planned.unfinished
    recorded = run.folder.read_config()  # without what holds for this command alone, such as a cost cap
    try:
        judge_run(run, asking, begin=partial(_record_unfinished, planned))
    except YoudenError as error:
        is_new = not planned.resumed and unfinished.first == unfinished.number
        if is_new and error.slug not in ("run-busy", "run-grown") and not _any_answered(planned):
            with suppress(OSError):
                finish_extension(run.folder)
        raise
    kept = {"target": run.config.target, "extensions": run.config.extensions, "unfinished": unfinished}
    run.folder.write_config(recorded.model_copy(update=kept))
    return fit_run(run.folder)


def _record_unfinished(planned: PlannedExtension) -> None:
    """Record the extension as unfinished in config.yaml.

    Raises: RunFolderError [run-grown] if another process has extended the run since the extension was planned.
    """
    folder, unfinished = planned.run.folder, planned.unfinished
    recorded = folder.read_config()
    is_same = recorded.unfinished is not None and recorded.unfinished.is_same_request(unfinished)
    if len(recorded.extensions) > unfinished.number + is_same or (recorded.unfinished is not None and not is_same):
        raise RunFolderError(
            f"{folder.path} has grown since this extension was planned. Run the same command again.", slug="run-grown"
        )
    folder.write_config(recorded.model_copy(update={"unfinished": unfinished}))


def _any_answered(planned: PlannedExtension) -> bool:
    run = planned.run
    return estimate(planned.asked, run.judge, store=run.config.store_place).stored > 0


def finish_extension(folder: RunFolder) -> None:
    """Remove the record of an unfinished extension, so that the same command makes a further one."""
    folder.write_config(folder.read_config().model_copy(update={"unfinished": None}))


def too_wide(planned: PlannedExtension, fitted: Analysis) -> tuple[str, ...]:
    """Return the agents that joined whose intervals are more than a tenth wider than the half-width asked for."""
    width = planned.unfinished.width
    if width is None:
        return ()
    ranking = fitted.ranking.set_index("agent")
    half = (ranking["high"] - ranking["low"]) / 2
    return tuple(agent for agent in planned.joined if not half[agent] <= 1.1 * width)
