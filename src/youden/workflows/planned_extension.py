"""Plan one step of an extension: what it asks, what that costs, and the record that lets the same command finish it.

The run's folder stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from youden.data.folder.extension_steps import POOLS, ExtensionRequest, ExtensionStep, UnfinishedExtension
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.judging.estimate import estimate
from youden.pipeline.judged_run import PlannedRun, plan_run
from youden.protocol.blocks import extensions_of
from youden.protocol.independent import plan_rows
from youden.types import PAIRED, Plan
from youden.types.planning import Cost
from youden.workflows.extension_width import expected_half_width


@dataclass(frozen=True, eq=False)
class PlannedExtension:
    """One step of an extension, before anything is asked.

    Attributes
    ----------
    run : PlannedRun
        The run with the step.
    asked : Plan
        The new calls alone.
    cost : Cost
        Of `asked`.
    joined : tuple of str
        Agents that join.
    half_width : float or None
        Expected half-width of the 95 % intervals of the agents that join, if their answers vary as those of the agent that varies
        most; of nine in ten of the run's agents, if a width was asked for without agents.
    unfinished : UnfinishedExtension
        Record of the command in config.yaml until its report is written.
    resumed : bool
        Whether an earlier process began the step.
    """

    run: PlannedRun
    asked: Plan
    cost: Cost
    joined: tuple[str, ...]
    half_width: float | None
    unfinished: UnfinishedExtension
    resumed: bool = False

    @property
    def n_paired_each(self) -> float:
        """Median number of paired trials that score an agent that joins."""
        plan, trials = self.run.plan, self.run.plan.trials
        paired = plan.arm == PAIRED
        first, second = plan.first[paired & (trials.weight_first > 0)], plan.second[paired & (trials.weight_second > 0)]
        counts = np.bincount(np.append(first, second), minlength=plan.n_agents)
        return float(np.median(counts[plan.n_agents - len(self.joined) :]))


def plan_step(
    config: RunConfig, step: ExtensionStep, request: ExtensionRequest, *, first: int, half_width: float | None = None
) -> PlannedExtension:
    """Plan one more step of a run.

    Parameters
    ----------
    config : RunConfig
        Config of the run, with the steps before.
    step : ExtensionStep
        The step.
    request : ExtensionRequest
        What the command asks for.
    first : int
        Number of extensions that the run had before the command.
    half_width : float, optional
        Expected half-width, if the step was made for one.

    Returns
    -------
    PlannedExtension

    Raises
    ------
    YoudenError
        As `plan_run`.
    """
    number = len(config.extensions)
    run = plan_run(config.model_copy(update={"extensions": [*config.extensions, step]}))
    extensions = extensions_of(run.plan)
    n_before = ([extensions.anchors] + [one.agents for one in extensions.steps])[-2]
    asked = plan_rows(run.plan, run.plan.trials.step == number + 1)
    options = request.model_dump(include=set(ExtensionRequest.model_fields))
    state = {"max_cost": config.max_cost, "pool": run.plan.pool_digest, "first": first, "number": number, "step": step}
    planned = PlannedExtension(
        run=run,
        asked=replace(asked, notes=run.plan.notes[-1:]),
        cost=estimate(asked, run.judge, store=run.config.store_place),
        joined=run.plan.agent_ids[n_before:],
        half_width=half_width,
        unfinished=UnfinishedExtension.model_validate(options | state),
    )
    if not planned.joined:
        return planned
    return replace(planned, half_width=expected_half_width(run, planned.n_paired_each))


def resume_extension(config: RunConfig, unfinished: UnfinishedExtension, request: ExtensionRequest) -> PlannedExtension:
    """Plan the step of a stopped extension again, if the command asks for the same extension.

    Parameters
    ----------
    config : RunConfig
        Config of the run.
    unfinished : UnfinishedExtension
        Record of the stopped extension.
    request : ExtensionRequest
        What this command asks for.

    Returns
    -------
    PlannedExtension
        The step, marked as resumed.

    Raises
    ------
    RunFolderError
        [extend-unfinished] if the extension was started with other options, or with a pool of other contents.
    """
    if not unfinished.is_same_request(request):
        raise _unfinished_error(config, unfinished, fault="is not finished")
    pools = {name: getattr(request, name) for name in POOLS}
    step = unfinished.step.model_copy(update=pools)
    before = config.model_copy(update={"extensions": config.extensions[: unfinished.number]})
    planned = plan_step(before, step, request, first=unfinished.first)
    if planned.unfinished.pool != unfinished.pool:
        fault = "was started with other contents of its pool, or of the run's own pool. Restore these contents"
        raise _unfinished_error(config, unfinished, fault=fault)
    if config.max_cost is None:
        capped = planned.unfinished.model_copy(update={"max_cost": unfinished.max_cost})
        planned = replace(planned, unfinished=capped)
    return replace(planned, resumed=True)


def _unfinished_error(config: RunConfig, unfinished: UnfinishedExtension, *, fault: str) -> RunFolderError:
    folder = RunFolder(config.folder)
    alternative = ""
    if len(extensions_of(folder.read_plan_alone()).steps) <= unfinished.number:
        alternative = f", or remove `unfinished` from {folder.file('config.yaml')} to drop it"
    return RunFolderError(
        f"An earlier extension of {folder.path} {fault}. Finish it first: "
        f"`{unfinished.command(folder.path)}`{alternative}.",
        slug="extend-unfinished",
    )
