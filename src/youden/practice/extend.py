"""A run grows: agents, items or calls join it, what was answered is kept, and the run says what moved.

The folder changes only when the new answers are there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt
from pathlib import Path

import numpy as np

from youden.data.folder.run_config import Extension, RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError
from youden.judging.asking.terms import Asking
from youden.judging.estimate import estimate
from youden.nouns import PAIRED, Cost, Plan
from youden.protocol.columns import plan_rows
from youden.protocol.extension.blocks import extensions_of, scored_sides
from youden.protocol.extension.extending import LEAST_SLOTS
from youden.run.analysis import Analysis
from youden.run.pipeline import PlannedRun, fit_run, judge_run, plan_run


@dataclass(frozen=True, eq=False)
class PlannedExtension:
    """An extension before anything is asked.

    asked: the new calls alone; cost: of them. joined: agents that are new. half_width: what their 95 % intervals will have if
    their answers vary as those of the agent that varies most; None where no agent joins.
    """

    run: PlannedRun
    asked: Plan
    cost: Cost
    joined: tuple[str, ...]
    half_width: float | None


def plan_extension(config: RunConfig, step: Extension, *, width: float | None = None) -> PlannedExtension:
    """What it would take to let `step` join the judged run of `config`; its folder stays as it is.

    width: the half width wanted of the 95 % intervals of joining agents, in place of a number of calls.

    Raises: RunFolderError [extend-unjudged]; ConfigError [extend-width]; as `plan_run`.
    """
    folder = RunFolder(config.folder)
    if not folder.has("verdicts.parquet"):
        raise RunFolderError(
            f"{folder.path} has no answers yet that could be extended. Run it first: {folder.command()}",
            slug="extend-unjudged",
        )
    if config.trials_of is not None:
        raise ConfigError(
            f"{folder.path} asks a part of the trials of {config.trials_of}. Extend that run, and judge a part of it again.",
            slug="extend-part",
        )
    if width is not None and (step.agents is None or step.calls is not None):
        raise ConfigError(
            f"A half width of {width:g} says how many calls new agents get. Give --width with --agents and without --calls.",
            slug="extend-width",
        )
    if _is_unfinished(folder, config, step, width=width):
        config, step = config.model_copy(update={"extensions": config.extensions[:-1]}), config.extensions[-1]
        return _planned(config, step)
    planned = _planned(config, step)
    if width is not None and planned.half_width is not None:
        more = (planned.half_width / width) ** 2
        paired = max(ceil(more * int((planned.asked.arm == PAIRED).sum())), LEAST_SLOTS * 2 * len(planned.joined))
        apart = int((planned.asked.arm != PAIRED).sum())
        calls = 2 * paired if planned.asked.independent == "twin" else paired + apart
        planned = _planned(config, step.model_copy(update={"calls": calls}))
    return planned


def _is_unfinished(folder: RunFolder, config: RunConfig, step: Extension, *, width: float | None) -> bool:
    """Whether `step` is the last one of the run already, and was stopped between its answers and the ranking."""
    if not config.extensions or _wanted(config.extensions[-1], width) != _wanted(step, width):
        return False
    fitted = folder.read_signature().parts.get("plan") if folder.has("signature.json") else None
    return fitted != folder.judged_plan()[:12]


def _wanted(step: Extension, width: float | None) -> tuple[object, ...]:
    places = [None if place is None else Path(place).resolve() for place in (step.agents, step.items)]
    return (*places, tuple(step.focus), None if width else step.calls)


def _planned(config: RunConfig, step: Extension) -> PlannedExtension:
    run = plan_run(config.model_copy(update={"extensions": [*config.extensions, step]}))
    extensions = extensions_of(run.plan)
    last, n_before = extensions.steps[-1], ([extensions.anchors] + [one.agents for one in extensions.steps])[-2]
    asked = plan_rows(run.plan, np.arange(len(run.plan)) >= last.row, run.pool)
    asked = replace(asked, notes=run.plan.notes[-1:])
    return PlannedExtension(
        run=run,
        asked=asked,
        cost=estimate(asked, run.pool, run.judge),
        joined=run.plan.agent_ids[n_before:],
        half_width=_half_width(run, n_before),
    )


def _half_width(run: PlannedRun, n_before: int) -> float | None:
    """The widest of the agents that are ranked already, at the number of trials of those that join."""
    plan, sides = run.plan, scored_sides(run.plan)
    known = [
        (row.high - row.low) / 2 * sqrt(row.n_trials)
        for row in run.folder.read_ranking()
        if row.low is not None and row.high is not None
    ]
    if plan.n_agents == n_before or not known:
        return None
    paired = plan.arm == PAIRED
    scored = np.append(plan.first[paired & sides.first], plan.second[paired & sides.second])
    n_trials = np.bincount(scored, minlength=plan.n_agents)[n_before:]
    return float(max(known) / np.sqrt(np.median(n_trials)))


def too_wide(planned: PlannedExtension, fitted: Analysis, width: float) -> tuple[str, ...]:
    """Joining agents whose intervals came out more than a tenth wider than ± `width`."""
    ranking = fitted.ranking.set_index("agent")
    half = (ranking["high"] - ranking["low"]) / 2
    return tuple(agent for agent in planned.joined if not half[agent] <= 1.1 * width)


def extend_run(
    planned: PlannedExtension,
    config: RunConfig,
    asking: Asking | None = None,
) -> Analysis:
    """Ask, and fit the run that has grown. config: what its config.yaml goes on from, without what holds for this once (a cap).

    Raises: as `judge_run`.
    """
    run = planned.run
    judge_run(run, asking)
    run.folder.write_config(config.model_copy(update={"extensions": run.config.extensions}))
    return fit_run(run.folder)
