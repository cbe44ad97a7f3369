"""Which plan a run's config means, extensions included: the one in its folder, and else one that is drawn."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from youden.data.folder.extension_steps import ExtensionStep
from youden.data.folder.joined_pools import JOIN, part_of, run_pools
from youden.data.folder.run_config import DrawnAs, RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError, YoudenError
from youden.judging.backend_records import REPLAY
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.estimate import estimate
from youden.protocol.blocks import after_steps, extensions_of, plan_without_follow_ups
from youden.protocol.designs import DESIGNS
from youden.protocol.designs.adaptive import GOALS, Adaptive, Width
from youden.protocol.extension import add_agents, add_calls, add_items, add_repeats
from youden.protocol.plan import make_plan
from youden.protocol.subsample import subsample
from youden.text.sentences import counted, near
from youden.types import Plan, Pool
from youden.types.plan_steps import Extension as Extended
from youden.types.pool import Json

_NOT_OPTIONS = {"calls", "trials_of"}


class RunPlan(NamedTuple):
    """A run's plan. kept: the plan in its folder, which `plan` is or extends; None if `plan` is new."""

    plan: Plan
    kept: Plan | None


def draw_run_plan(config: RunConfig, unwritten: Pool | None = None) -> Plan:
    """Draw a run's plan, whether or not its folder holds one.

    Parameters
    ----------
    config : RunConfig
        Config of the run: a design, with all extensions, or `trials_of`, which takes trials from another run.
    unwritten : Pool, optional
        The pool that the config names, if it is not on disk yet.

    Returns
    -------
    Plan

    Raises
    ------
    PoolError, PlanError
        If pool or plan do not fit the config.
    ConfigError
        [run-config], [focus].
    RunFolderError
        If another run's plan cannot be found.
    """
    return _drawn(config, run_pools(config) if unwritten is None else (unwritten,))


def find_run_plan(config: RunConfig, folder: RunFolder) -> RunPlan:
    """The plan that the folder holds, where it is what the config asks for, with the extensions that it lacks; else a new one.

    So a run that was paid for goes on though defaults or random streams have changed since it was drawn.

    Raises: as `draw_run_plan`; RunFolderError [run-other], [run-grown] where there are answers to another plan.
    """
    pools = run_pools(config)
    kept = folder.read_plan() if folder.has("plan.parquet") else None
    if kept is None:
        return RunPlan(_drawn(config, pools), None)
    judged_pool = next((pool for pool in pools if pool.digest == kept.pool_digest), None)
    if judged_pool is not None:  # the config may name the pool otherwise than the folder's copy of it does
        kept = kept.with_pool(judged_pool)
    other = list(_differences(config, kept, pools))
    if other and not folder.has("verdicts.parquet"):
        return RunPlan(_drawn(config, pools), None)
    if other:
        raise _holds(
            folder,
            f"the answers to another plan: {'; '.join(other)}",
            way=_join_them(config, folder, kept, pools[0]) or _look_among_them(config, folder, kept),
        )
    if config.trials_of is not None:
        return RunPlan(kept if not _more_of_it(config, kept) else _drawn(config, pools), kept)
    if kept.design in GOALS:
        kept = replace(kept, options={**_without_goal(kept.design, kept.options), **config.asked_design[1]})
    n_kept = len(extensions_of(kept).steps)
    if n_kept > len(config.extensions):
        recorded = folder.recorded_config()
        unfinished = None if recorded is None or len(recorded.extensions) >= n_kept else recorded.unfinished
        command = f"youden run {folder.file('config.yaml')}" if unfinished is None else unfinished.command(folder.path)
        raise RunFolderError(
            f"{folder.path} has grown since this plan was made. Continue it with `{command}`, or "
            "give this run another name or --out.",
            slug="run-grown",
        )
    steps, joined = config.extensions[n_kept:], pools[n_kept + 1 :]
    return RunPlan(_extended(plan_without_follow_ups(kept), steps, joined), kept)


def as_drawn(config: RunConfig, plan: Plan) -> RunConfig:
    """The config with a note of how its plan was drawn."""
    drawn = DrawnAs(pool=extensions_of(plan).pool, budget=plan.asked.budget)
    return config.model_copy(update={"drawn": drawn})


def _drawn(config: RunConfig, pools: Sequence[Pool]) -> Plan:
    drawn = config.drawn if config.drawn is not None and config.drawn.pool == pools[0].digest else None
    if config.trials_of is not None:
        other = RunFolder(Path(config.trials_of)).read_plan()
        return subsample(other.with_pool(pools[-1]), calls=config.calls, seed=config.seed)
    design, options = config.asked_design
    budget = None if drawn is None else drawn.budget
    if budget is None and config.calls is None and design == Adaptive.name:
        budget = _affordable(config, pools[0], design, options)
    plan = make_plan(
        pools[0],
        design=design,
        calls=config.calls,
        independent=config.independent,
        holdout=config.holdout,
        rule=config.rule,
        options=options,
        seed=config.seed,
        default_budget=budget,
    )
    if plan.design == Width.name:
        from youden.pipeline.precision import refuse_out_of_reach

        refuse_out_of_reach(plan)
    return _extended(plan, config.extensions, pools[1:])


_OF_CAP = 0.9
"""The share of a cap that a search plans to spend: calls are paid by what they turn out to take."""


def _affordable(config: RunConfig, pool: Pool, design: str, options: Mapping[str, Json]) -> int | None:
    """Calls that the cap in money pays for, at most all there are; None where nothing costs anything, or nobody knows what."""
    judge = load_judge_of_run(config)
    if not config.max_cost or not judge.makes_calls:
        return None
    pilot = make_plan(pool, design=design, options=options, rule=config.rule, holdout=config.holdout, seed=config.seed)
    cost = estimate(pilot, judge)
    if not cost.usd:
        return None
    return min(int(_OF_CAP * config.max_cost * cost.calls / cost.usd), pilot.n_dense_calls) or None


def _extended(plan: Plan, steps: Sequence[ExtensionStep], pools: Sequence[Pool]) -> Plan:
    for step, pool in zip(steps, pools, strict=True):
        if step.kind != "calls":
            plan = _ADD[step.kind](plan, pool, calls=step.calls)
        elif step.calls is not None:
            focus = tuple(_place(name, plan) for name in step.focus)
            plan = add_calls(plan, calls=step.calls, focus=focus, top=step.top, within=step.within)
    return plan


_ADD: Final = {"agents": add_agents, "items": add_items, "repeats": add_repeats}


def _place(name: str, plan: Plan) -> int:
    """The agent's position. Raises: ConfigError [focus]."""
    if name not in plan.agent_ids:
        raise ConfigError(
            f"There is no agent '{name}' in this run to focus on. {near(name, plan.agent_ids)}", slug="focus"
        )
    return plan.agent_ids.index(name)


def _differences(config: RunConfig, plan: Plan, pools: Sequence[Pool]) -> Iterator[str]:
    """What the config asks for and the plan was not drawn by, in words."""
    first = pools[0] if config.trials_of is None else pools[-1]
    if first.digest != extensions_of(plan).pool:
        yield "the pool's texts are not those that were judged"
    for name, was, now in _settings(config, plan):
        if was != now:
            yield f"{name} was {_shown(was)} and is {_shown(now)}"
    if config.trials_of is not None and not _is_part_of(plan, config.trials_of):
        yield f"trials_of is {config.trials_of}, and the trials are not of that run"
    for number, (step, extension) in enumerate(zip(extensions_of(plan).steps, config.extensions, strict=False)):
        if not _same_step(step, extension, pools[number + 1], plan):
            yield f"number {number + 1} of the extensions is another one"


def _without_goal(design: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in GOALS[design]}


def _settings(config: RunConfig, plan: Plan) -> Iterator[tuple[str, object, object]]:
    """Yield the config keys that decide a plan, each with its value in the plan and in the config."""
    yield "trials_of", "trials_of" in plan.options, config.trials_of is not None
    if not _more_of_it(config, plan):
        yield "calls", plan.options.get("calls"), config.calls
    yield "seed", plan.seed, config.seed
    if config.trials_of is not None:
        return
    design, now = config.asked_design
    name = DESIGNS.load(design).name
    was = {option: value for option, value in plan.options.items() if option not in _NOT_OPTIONS}
    if name == plan.design in GOALS:  # the same rounds to another goal: the run goes on
        was, now = _without_goal(name, was), _without_goal(name, now)
    yield "design", plan.design, name
    yield "options", was, now
    yield "independent", plan.asked.independent, config.independent
    yield "holdout", plan.asked.holdout, config.holdout
    yield "rule", plan.split.rule, config.rule


def _more_of_it(config: RunConfig, plan: Plan) -> bool:
    """Whether a part of another run is asked for that is larger than `plan`; by the same seed it holds all of `plan`."""
    was = plan.options.get("calls")
    if config.trials_of is None or not isinstance(was, int):
        return False
    return config.calls is None or (isinstance(config.calls, int) and config.calls > was)


def _is_part_of(plan: Plan, run: str) -> bool:
    """Whether `plan` holds trials of the plan of `run`, as it is or as it was before it was extended."""
    other = RunFolder(Path(run)).read_plan()
    states = (after_steps(other, n) for n in range(len(extensions_of(other).steps) + 1))
    return any(state.digest[:12] == plan.options.get("trials_of") for state in states)


def _same_step(step: Extended, extension: ExtensionStep, pool: Pool, plan: Plan) -> bool:
    if (step.kind, step.pool) != (extension.kind, pool.digest):
        return False
    was = step.calls, [plan.agent_ids[agent] for agent in step.focus], step.top, step.within
    return was == (extension.calls, extension.focus, extension.top, extension.within)


def _shown(value: object) -> str:
    return "left out" if value is None else str(value)


def refuse_another_run(folder: RunFolder, found: RunPlan, judge: JudgeConfig) -> None:
    """Answers that are there must be to this plan, and by this judge. Raises: RunFolderError [run-other]."""
    if not folder.has("verdicts.parquet"):
        if folder.has("rates.parquet") and not folder.has("plan.parquet"):
            raise _holds(folder, "an imported run")
        return
    # a plan may be newer than its answers: those were lost on their way into the folder, and are in the store
    same = found.kept is not None and found.kept.digest in (found.plan.digest, folder.judged_plan())
    if not same and folder.judged_plan() != found.plan.digest:
        raise _holds(folder, "the answers to another plan (pool, design, budget, holdout or seed differ)")
    if not _same_judge(folder.judged_by(), judge):
        way = f"To put the same trials to this judge: `youden rejudge {folder.path} --judge JUDGE --calls N/agent`. Else give"
        raise _holds(folder, "another judge's answers", way=way)


def _look_among_them(config: RunConfig, folder: RunFolder, kept: Plan) -> str:
    """Where the best is to be looked for in a run that asked everybody alike: who may be it, and how to search on."""
    if config.asked_design[0] != Adaptive.name or kept.design == Adaptive.name or not folder.has("fit.json"):
        return ""
    goal = ["--within", f"{config.within:g}"] if config.within else ["--calls", "N"]
    goal += ["--top", str(config.top)] if config.top else []
    command = shlex.join(["youden", "extend", "best", str(folder.path), *goal])
    text = folder.read_facts().recommendation.text
    return f"Continue the search in it: `{command}`. So far: {text} To search from the start, give"


def _join_them(config: RunConfig, folder: RunFolder, kept: Plan, pool: Pool) -> str:
    """Where the file was given more agents or items, and all else is as it was: the command by which they join, and its cost."""
    was = extensions_of(kept)
    part = part_of(pool, kept.agent_ids[: was.anchors], kept.item_ids[: was.items], digest=was.pool)
    if config.extensions or was.steps or part is None:
        return ""
    more = {
        "agents": pool.n_agents - part.n_agents,
        "items": pool.n_items - part.n_items,
        "repeats": pool.n_responses - part.n_responses,
    }
    what, n = next(((name, count) for name, count in more.items() if count), ("", 0))
    if not n:
        return ""
    cost = ""
    with suppress(YoudenError):
        joined, judge = JOIN[what](part, pool), load_judge_of_run(config)
        plan = _ADD[what](plan_without_follow_ups(kept), joined)
        usd = [estimate(one, judge).usd for one in (plan, kept.with_pool(part))]
        dollars = "" if None in usd else f", ${(usd[0] or 0) - (usd[1] or 0):,.2f}"
        cost = f" (about {len(plan) - len(kept):,} calls{dollars})"
    command = shlex.join(["youden", "extend", what, str(folder.path), config.pool])
    return f"{counted(n, what.removesuffix('s'))} came to its pool; let them join it: `{command}`{cost}. Or give"


def _holds(folder: RunFolder, other: str, *, way: str = "") -> RunFolderError:
    return RunFolderError(
        f"{folder.path} holds {other}. {way or 'Give'} this run another name or --out; with the same store "
        "nothing it paid for is asked again.",
        slug="run-other",
    )


def _same_judge(said: Mapping[str, Json], judge: JudgeConfig) -> bool:
    """Whether answers signed `said` can be this judge's; a replay repeats whomever it repeats."""
    if judge.backend == REPLAY:
        return True
    if judge.judges:
        members = said.get("judges")
        if not isinstance(members, list) or len(members) != len(judge.judges) or said.get("vote") != judge.vote:
            return False
        pairs = zip(members, judge.judges, strict=True)
        return all(isinstance(one, dict) and _same_judge(one, member) for one, member in pairs)
    if not judge.makes_calls:
        return said.get("name") == judge.backend
    # another parser reads all stored answers again, so that no reading of the old one remains
    return all(said.get(name) == value for name, value in judge.describe().items() if name != "parser")
