"""Extends a judged run by agents, items, repeats or calls; stored answers are reused.

An extension is noted in config.yaml before its first request, so that the same command finishes it. The other files of the folder
change only when all its answers are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, sqrt

import numpy as np

from youden.data.folder.extension_steps import POOLS, ExtensionStep, UnfinishedExtension
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError, YoudenError
from youden.judging.estimate import estimate
from youden.judging.scheduler.options import Asking
from youden.pipeline.fit_tables import Analysis
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import PlannedRun, judge_run, plan_run
from youden.pipeline.precision import known_parts
from youden.protocol.blocks import extensions_of
from youden.protocol.designs.adaptive import SHARE
from youden.protocol.extending import LEAST_SLOTS
from youden.protocol.independent import plan_rows
from youden.stats.forecast import OwnVariances, at_share, half_widths, items_for, slots_for
from youden.text.sentences import counted
from youden.types import PAIRED, Plan
from youden.types.facts import ExtensionFacts
from youden.types.planning import Cost

ALPHA = 0.05
"""Chance that any agent, or the level, is said to have drifted though none has."""
POOL_WIDE = (
    "This judge makes no calls and weighs words by the whole pool, so that all was answered anew: 'before' is what it says today "
    "of what was asked before."
)
_SHOWN = 5


def extension_words(facts: ExtensionFacts) -> tuple[str, ...]:
    """What the last extension changed, a sentence each."""
    said = []
    if facts.joined:
        more = " …" if len(facts.joined) > _SHOWN else ""
        said.append(f"{counted(len(facts.joined), 'agent')} joined: {', '.join(facts.joined[:_SHOWN])}{more}.")
    if facts.joined_items:
        said.append(f"{counted(len(facts.joined_items), 'item')} joined.")
    moved = {
        move.agent: move.after - move.before
        for move in facts.moves
        if move.before is not None and move.after is not None and move.before != move.after
    }
    if moved:
        most = max(moved, key=lambda agent: abs(moved[agent]))
        said.append(f"{len(moved)} of {len(facts.moves)} abilities moved, {most} most, by {moved[most]:+.3f}.")
    else:
        said.append(f"No ability of the {len(facts.moves)} agents that were there moved.")
    what, why = {
        "repeats": ("by its new responses", "look at them"),
        "agents": (
            "with those that joined",
            "they may have a source or a style in common, or its responses or the judge changed",
        ),
        "items": ("on the new items", "they suit it otherwise, or the judge changed"),
        "calls": ("by the new answers", "look at its responses, and whether the judge changed"),
    }[facts.kind]
    drifted = [move for move in facts.moves if move.p is not None and move.p < ALPHA]
    said += [
        f"{move.agent} stands {abs(move.drift or 0):.3f} {'higher' if (move.drift or 0) > 0 else 'lower'} {what} than before "
        f"(p = {move.p:.2g}, corrected for {len(facts.moves)} agents): {why}."
        for move in drifted
    ]
    if not drifted and any(move.p is not None for move in facts.moves):
        said.append(f"No agent that was there stands otherwise {what} beyond chance.")
    if facts.level is not None and facts.level_p is not None and facts.level_p < ALPHA:
        said.append(
            f"The judge says 'same source' {abs(facts.level):.3f} {'more' if facts.level > 0 else 'less'} often of the same "
            f"items than before (p = {facts.level_p:.2g}): the model that is served may have changed."
        )
    if facts.answered_anew:
        said.append(POOL_WIDE)
    return tuple(said)


@dataclass(frozen=True, eq=False)
class PlannedExtension:
    """An extension before anything is asked.

    asked: the new calls alone; cost: of them. joined: agents that are new. half_width: what their 95 % intervals will have if
    their answers vary as those of the agent that varies most; without such agents, what nine in ten agents keep after more calls
    were asked for by a width; else None. unfinished: its record in config.yaml until its report is written; resumed: whether an
    earlier process started it.
    """

    run: PlannedRun
    asked: Plan
    cost: Cost
    joined: tuple[str, ...]
    half_width: float | None
    unfinished: UnfinishedExtension
    resumed: bool = False


def plan_extension(config: RunConfig, step: ExtensionStep | None, *, width: float | None = None) -> PlannedExtension:
    """What it would take to let `step` join the judged run of `config`; its folder stays as it is.

    step: None for as many calls on all agents as `width` takes.
    width: the half width wanted of the 95 % intervals, in place of a number of calls: of joining agents, or without agents,
    items and calls, of nine in ten of the run's own.

    Raises: RunFolderError [run-unjudged]; ConfigError [extend-width]; as `plan_run`.
    """
    folder = RunFolder(config.folder)
    folder.refuse_unjudged()
    if config.trials_of is not None:
        raise ConfigError(
            f"{folder.path} asks a part of the trials of {config.trials_of}. Extend that run, and judge a part of it again.",
            slug="extend-part",
        )
    if width is not None and step is not None and (step.agents is None or step.calls is not None):
        raise ConfigError(
            f"A half width of {width:g} says how many calls there are. Give --width alone or with --agents, without --items, "
            "--calls and --focus.",
            slug="extend-width",
        )
    options = {"width": width} | ({} if step is None else step.model_dump())
    if config.unfinished is not None:
        return resume_extension(config, config.unfinished, options)
    if step is None:
        if width is None:
            raise ConfigError(
                "An extension adds agents, items, repeats or calls; name one of them.", slug="extend-width"
            )
        n_calls, half_width = _calls_for(folder, width)
        planned = replace(plan_step(config, ExtensionStep(calls=n_calls)), half_width=half_width)
    else:
        planned = plan_step(config, step)
        if width is not None and planned.half_width is not None:
            more = _times(planned, width)
            paired = max(ceil(more * int((planned.asked.arm == PAIRED).sum())), LEAST_SLOTS * 2 * len(planned.joined))
            apart = int((planned.asked.arm != PAIRED).sum())
            calls = 2 * paired if planned.asked.independent == "twin" else paired + apart
            planned = plan_step(config, step.model_copy(update={"calls": calls}))
    return requested(planned, options, first=len(config.extensions))


def requested(planned: PlannedExtension, options: Mapping[str, object], *, first: int) -> PlannedExtension:
    """Return a planned extension whose record names the command.

    Parameters
    ----------
    planned : PlannedExtension
        From `plan_step`.
    options : mapping
        Options of the command, by the names of `UnfinishedExtension`.
    first : int
        Number of extensions that the run had before the command.

    Returns
    -------
    PlannedExtension
        `planned` with these options, `first` and the cost cap in `unfinished`.
    """
    keys = planned.unfinished.model_dump() | {**options} | {"first": first, "max_cost": planned.run.config.max_cost}
    return replace(planned, unfinished=UnfinishedExtension.model_validate(keys))


def resume_extension(
    config: RunConfig, unfinished: UnfinishedExtension, options: Mapping[str, object]
) -> PlannedExtension:
    """Plan a stopped extension again, if the command has the same options.

    Parameters
    ----------
    config : RunConfig
        The run's config.
    unfinished : UnfinishedExtension
        Record of the stopped extension.
    options : mapping
        Options of this command, by the names of `UnfinishedExtension`.

    Returns
    -------
    PlannedExtension
        The extension, marked as resumed.

    Raises
    ------
    RunFolderError
        [extend-unfinished]: if the extension was started with other options, or with a pool of other contents.
    """
    if not unfinished.is_asked_by(options):
        raise _unfinished_error(config, unfinished, fault="is not finished")
    pools = {name: options.get(name) for name in POOLS}
    step = unfinished.step.model_copy(update=pools)
    planned = plan_step(config.model_copy(update={"extensions": config.extensions[: unfinished.number]}), step)
    if planned.unfinished.pool != unfinished.pool:
        fault = "was started with other contents of its pool, or of the run's own pool. Restore these contents"
        raise _unfinished_error(config, unfinished, fault=fault)
    max_cost = unfinished.max_cost if config.max_cost is None else config.max_cost
    updated = unfinished.model_copy(update=pools | {"step": step, "max_cost": max_cost})
    return replace(planned, unfinished=updated, resumed=True)


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


def plan_step(config: RunConfig, step: ExtensionStep) -> PlannedExtension:
    """Plan one more extension of a run. Raises: as `plan_run`."""
    run = plan_run(config.model_copy(update={"extensions": [*config.extensions, step]}))
    extensions = extensions_of(run.plan)
    n_before = ([extensions.anchors] + [one.agents for one in extensions.steps])[-2]
    asked = plan_rows(run.plan, run.plan.trials.step == len(extensions.steps))
    asked = replace(asked, notes=run.plan.notes[-1:])
    return PlannedExtension(
        run=run,
        asked=asked,
        cost=estimate(asked, run.judge, store=run.config.store_place),
        joined=run.plan.agent_ids[n_before:],
        half_width=_half_width(run, n_before),
        unfinished=UnfinishedExtension(
            pool=run.plan.pool_digest, first=len(config.extensions), number=len(config.extensions), step=step
        ),
    )


def _calls_for(folder: RunFolder, width: float) -> tuple[int, float]:
    """Calls more that give nine in ten agents of a run ± `width`, and what they will have. Raises: ConfigError [extend-width]."""
    parts, plan = known_parts(folder), folder.read_plan()
    if parts is None or plan.rounds is not None:
        raise ConfigError(
            f"How many calls ± {width:g} takes can be told of a cyclic run that was not extended. "
            + ("Write `width:` into its config and run it again." if plan.rounds is not None else "Give --calls."),
            slug="extend-width",
        )
    K, J, now = plan.n_agents, plan.n_items, int(plan.slot.max()) + 1
    need = slots_for(parts, width, share=SHARE, n_items=J, most=(K - 1) * J)
    if need is None:
        raise _out_of_reach(parts, width, share=SHARE, plan=plan)
    if need <= now:
        have = at_share(half_widths(parts, now, J), SHARE)
        raise ConfigError(
            f"Nine in ten agents have ± {have:.3f} already. Give a width below that.", slug="extend-width"
        )
    return (need - now) * K, at_share(half_widths(parts, need, J), SHARE)


def _out_of_reach(parts: OwnVariances, width: float, *, share: float, plan: Plan) -> ConfigError:
    n_items = items_for(parts, width, share=share, n_agents=plan.n_agents)
    return ConfigError(
        f"± {width:g} cannot be had on {plan.n_items:,} items, whatever is asked"
        + ("" if n_items is None else f": it takes about {n_items:,} items like them")
        + ". Extend the run by --items first, or give a wider width.",
        slug="extend-width",
    )


def _times(planned: PlannedExtension, width: float) -> float:
    """How many times the trials that agents get who join they need for ± `width`."""
    parts, run = known_parts(planned.run.folder), planned.run.plan
    if parts is None or planned.half_width is None:
        return ((planned.half_width or width) / width) ** 2
    n_slots = max(1, round(_trials_of_joined(planned.run, run.n_agents - len(planned.joined)) / 2))
    need = slots_for(parts, width, share=1.0, n_items=run.n_items, most=(run.n_agents - 1) * run.n_items)
    if need is None:
        raise _out_of_reach(parts, width, share=1.0, plan=run)
    return need / n_slots


def _trials_of_joined(run: PlannedRun, n_before: int) -> float:
    plan, of = run.plan, run.plan.trials
    paired = plan.arm == PAIRED
    scored = np.append(plan.first[paired & (of.weight_first > 0)], plan.second[paired & (of.weight_second > 0)])
    return float(np.median(np.bincount(scored, minlength=plan.n_agents)[n_before:]))


def _half_width(run: PlannedRun, n_before: int) -> float | None:
    """The widest of the agents that are ranked already, at the number of trials of those that join.

    Items that are asked again and again do not narrow it as more of them would; where the run's answers do not tell how far, it
    is taken to go with 1/√trials.
    """
    if run.plan.n_agents == n_before:
        return None
    n_trials, parts = _trials_of_joined(run, n_before), known_parts(run.folder)
    if parts is not None:
        return float(half_widths(parts, max(1, round(n_trials / 2)), run.plan.n_items).max())
    known = [
        (row.high - row.low) / 2 * sqrt(row.n_trials)
        for row in run.folder.read_ranking()
        if row.low is not None and row.high is not None
    ]
    return max(known) / sqrt(n_trials) if known else None


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
    """Query the judge on an extension, and fit the extended run.

    Parameters
    ----------
    planned : PlannedExtension
        From `plan_extension`, or a round of a search.
    config : RunConfig
        Base of the new config.yaml, without options of this command only, such as a cost cap.
    asking : Asking, optional
        Terms of the requests.

    Returns
    -------
    Analysis
        Of the extended run.

    Raises
    ------
    YoudenError
        As `judge_run`.

    Notes
    -----
    config.yaml records the extension as unfinished from before the first request until `finish_extension`. If a new
    extension fails before anything of it was answered, the record is removed.
    """
    run, unfinished = planned.run, planned.unfinished
    try:
        judge_run(run, asking, begin=partial(_record_unfinished, planned))
    except YoudenError as error:
        is_new = not planned.resumed and unfinished.first == unfinished.number
        if is_new and error.slug not in ("run-busy", "run-grown") and not _any_answered(planned):
            with suppress(OSError):
                finish_extension(run.folder)
        raise
    run.folder.write_config(config.model_copy(update={"extensions": run.config.extensions, "unfinished": unfinished}))
    return fit_run(run.folder)


def _record_unfinished(planned: PlannedExtension) -> None:
    """Record the extension as unfinished in config.yaml.

    Raises: RunFolderError [run-grown] if another process has extended the run since the extension was planned.
    """
    folder, unfinished = planned.run.folder, planned.unfinished
    recorded = folder.read_config()
    is_same = recorded.unfinished is not None and recorded.unfinished.is_asked_by(unfinished.model_dump())
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
