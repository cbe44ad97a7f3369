"""Plan one step of an extension: its trials, their cost, and a record with which the same command can resume it.

The run's folder does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from youden.data.folder.extension_steps import POOLS, ExtensionRequest, ExtensionStep, UnfinishedExtension
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.judging.estimate import estimate
from youden.pipeline.judged_run import PlannedRun, plan_run
from youden.protocol.blocks import get_extensions
from youden.protocol.independent import select_trials
from youden.types import PAIRED, Plan, Pool
from youden.types.planning import Cost
from youden.workflows.extension_width import expected_half_width


@dataclass(frozen=True, eq=False)
class PlannedExtension:
    """One step of an extension, before any request is sent.

    Attributes
    ----------
    run : PlannedRun
        The run with the step.
    new_trials : Plan
        The new trials alone.
    cost : Cost
        Cost of the new trials.
    new_agents : tuple of str
        Ids of the new agents.
    half_width : float or None
        Expected half-width of the 95% intervals of the new agents. It is computed as if their answers varied as much as those of
        the most variable agent. If a half-width was requested without new agents, it is that of 90% of the run's agents.
    unfinished : UnfinishedExtension
        Record of the command in config.yaml until its report is written.
    resumed : bool
        Whether an earlier process began the step.
    """

    run: PlannedRun
    new_trials: Plan
    cost: Cost
    new_agents: tuple[str, ...]
    half_width: float | None
    unfinished: UnfinishedExtension
    resumed: bool = False

    @property
    def n_paired_each(self) -> float:
        """Median number of paired trials that score a new agent."""
        plan, trials = self.run.plan, self.run.plan.trials
        is_paired = plan.trial_type == PAIRED
        first = plan.first[is_paired & (trials.weight_first > 0)]
        second = plan.second[is_paired & (trials.weight_second > 0)]
        counts = np.bincount(np.append(first, second), minlength=plan.n_agents)
        return float(np.median(counts[plan.n_agents - len(self.new_agents) :]))


def plan_step(
    config: RunConfig,
    step: ExtensionStep,
    request: ExtensionRequest,
    *,
    first: int,
    half_width: float | None = None,
    pools: Sequence[Pool] | None = None,
) -> PlannedExtension:
    """Plan one more step of a run, without sending a request.

    Parameters
    ----------
    config : RunConfig
        Config of the run with the earlier steps.
    step : ExtensionStep
        The step: a pool with agents, items or repeats to add, or a number of `calls`, optionally with `focus`.
    request : ExtensionRequest
        Options of the command, which become part of the record of the unfinished extension. They do not change the trials.
    first : int
        Number of extensions of the run before the command. It does not change the trials. It becomes part of the record
        of the unfinished extension, so that a resumed search knows which steps are its rounds.
    half_width : float, optional
        Expected half-width of the 95% intervals, in the unit of abilities, if the number of calls was computed for it. Ignored if
        the step adds agents, because the half-width of these agents is then computed.
    pools : sequence of Pool, optional
        The initial pool of the run and the pool after each step, including this one. Default: the pools are read.

    Returns
    -------
    PlannedExtension
        The run with its longer plan (`run`), the new trials alone (`new_trials`), and their expected cost (`cost`). The folder of
        the run does not change.

    Raises
    ------
    ConfigError, PoolError, PlanError
        If the judge, a pool or the number of calls does not fit.
    RunFolderError
        If a file of the run is missing or damaged.
    """
    number = len(config.extensions)
    extended_config = config.model_copy(update={"extensions": [*config.extensions, step]})
    run = plan_run(extended_config, pools=pools)
    extensions = get_extensions(run.plan)
    n_agents_by_step = [extensions.anchors, *(previous.agents for previous in extensions.steps)]
    n_agents_before = n_agents_by_step[-2]
    new_trials = select_trials(run.plan, run.plan.trials.step == number + 1)
    cost = estimate(new_trials, run.judge, store=run.config.store_location)
    options = request.model_dump(include=set(ExtensionRequest.model_fields))
    state = {"pool": run.plan.pool_digest, "first": first, "number": number, "step": step}
    planned = PlannedExtension(
        run=run,
        new_trials=replace(new_trials, notes=run.plan.notes[-1:]),
        cost=cost,
        new_agents=run.plan.agent_ids[n_agents_before:],
        half_width=half_width,
        unfinished=UnfinishedExtension.model_validate(options | state),
    )
    if not planned.new_agents:
        return planned
    return replace(planned, half_width=expected_half_width(run, planned.n_paired_each))


def resume_extension(config: RunConfig, unfinished: UnfinishedExtension, request: ExtensionRequest) -> PlannedExtension:
    """Plan the last step of an interrupted extension again, with the same trials.

    A search for the best agents has one step per round. Any other extension has a single step. Nothing is written.

    config : config of the run; its extensions may contain the last step already
    unfinished : record of the interrupted extension in this config, with its last step
    request : options of this command

    Returns the planned step, with `resumed` set to True. Raises RunFolderError [extend-unfinished] if the extension was
    started with other options, or if the contents of its pool or of the run's own pool have changed. Errors of `plan_step` are
    passed on.
    """
    if not unfinished.is_same_request(request):
        raise _unfinished_error(config, unfinished, fault="is not finished")

    earlier_extensions = config.extensions[: unfinished.number]
    config_before_step = config.model_copy(update={"extensions": earlier_extensions})
    # the pool to add may have moved, so its path is that of this command
    pool_paths = request.model_dump(include=set(POOLS))
    step = unfinished.step.model_copy(update=pool_paths)
    planned = plan_step(config_before_step, step, request, first=unfinished.first)
    if planned.unfinished.pool != unfinished.pool:
        fault = "was started with other contents of its pool, or of the run's own pool. Restore these contents"
        raise _unfinished_error(config, unfinished, fault=fault)

    return replace(planned, resumed=True)


def _unfinished_error(config: RunConfig, unfinished: UnfinishedExtension, *, fault: str) -> RunFolderError:
    """Return the error for an unfinished extension that this command cannot resume.

    config : config of the run
    unfinished : record of the extension, with the number of extension steps before its last step
    fault : end of the sentence that starts with "An earlier extension of RUN", such as "is not finished"
    """
    folder = RunFolder(config.folder)
    steps_in_folder = get_extensions(folder.read_plan_without_trials()).steps
    n_earlier_steps = unfinished.number

    # the user can drop the extension as long as the plan in the folder does not contain its last step
    alternative = ""
    if len(steps_in_folder) <= n_earlier_steps:
        alternative = f", or remove `unfinished` from {folder.file('config.yaml')} to drop it"
    return RunFolderError(
        f"An earlier extension of {folder.path} {fault}. Finish it first: "
        f"`{unfinished.format_command(folder.path)}`{alternative}.",
        slug="extend-unfinished",
    )
