"""Which plan a run's config means, extensions included, and whether answers that are there are to it.

It knows configs, pools and plans; it refuses to ask anybody and to write anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from youden.data.folder.joining import run_pools
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError
from youden.judging.config.reading import JudgeConfig
from youden.judging.registry import REPLAY
from youden.nouns import Json, Plan, Pool
from youden.protocol.designs.adaptive import turns_of
from youden.protocol.extension.blocks import grew_from
from youden.protocol.extension.grow import add_agents, add_calls, add_items
from youden.protocol.plan import make_plan
from youden.protocol.subsample import subsample


def draw_run_plan(config: RunConfig) -> tuple[Pool, Plan]:
    """The run's pool and plan, with everything that joined, or a part of another run's trials.

    Raises: PoolError, PlanError, ConfigError [run-config], [focus]; RunFolderError where another run's plan is not there.
    """
    pools = run_pools(config)
    if config.trials_of is not None:
        other = RunFolder(Path(config.trials_of)).read_plan()
        return pools[-1], subsample(other, pools[-1], calls=config.calls, seed=config.seed)
    plan = make_plan(
        pools[0],
        design=config.design,
        calls=config.calls,
        percent=config.percent,
        independent=config.independent,
        n_independent=config.n_independent,
        holdout=config.holdout,
        rule=config.rule,
        holdout_partners=config.holdout_partners,
        options=config.options,
        seed=config.seed,
    )
    if config.n_independent is not None and plan.independent == "twin":
        raise ConfigError(
            f"n_independent: {config.n_independent} was given, but this plan has a twin for every paired trial. "
            "Leave it out, or say `independent: pooled`.",
            slug="run-config",
        )
    for step, pool in zip(config.extensions, pools[1:], strict=True):
        if step.agents is not None:
            plan = add_agents(plan, pool, calls=step.calls)
        elif step.items is not None:
            plan = add_items(plan, pool, calls=step.calls)
        elif step.calls is not None:
            plan = add_calls(plan, pool, calls=step.calls, focus=tuple(_place(name, plan) for name in step.focus))
    return pools[-1], plan


def _place(name: str, plan: Plan) -> int:
    """The agent's position. Raises: ConfigError [focus]."""
    if name not in plan.agent_ids:
        close = get_close_matches(name, plan.agent_ids, n=1)
        hint = f"Did you mean '{close[0]}'? " if close else ""
        raise ConfigError(
            f"There is no agent '{name}' in this run to focus on. {hint}It has: {', '.join(plan.agent_ids[:10])}"
            f"{' …' if plan.n_agents > 10 else ''}.",
            slug="focus",
        )
    return plan.agent_ids.index(name)


def refuse_another_run(folder: RunFolder, plan: Plan, judge: JudgeConfig) -> None:
    """Answers that are there must be to this plan, and by this judge. Raises: RunFolderError."""
    other = ""
    if folder.has("rates.parquet") and not (folder.has("verdicts.parquet") or folder.has("plan.parquet")):
        other = "an imported run"
    elif folder.has("verdicts.parquet"):
        if _grew_since(folder, plan):
            raise RunFolderError(
                f"{folder.path} has grown since this plan was made. Go on with `youden run {folder.file('config.yaml')}`, or "
                "give this run another name or --out.",
                slug="run-grown",
            )
        if not _answers(folder, plan):
            other = "the answers to another plan (pool, design, budget, holdout or seed differ)"
        elif not _same_judge(folder.judged_by(), judge):
            other = "another judge's answers"
    if other:
        raise RunFolderError(
            f"{folder.path} holds {other}. Give this run another name or --out; with the old run's store (`store:` or --store) "
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
    return all(said.get(name) == value for name, value in judge.describe().items())


def _grew_since(folder: RunFolder, plan: Plan) -> bool:
    """Whether the folder's own plan is `plan` with steps added."""
    if not folder.has("plan.parquet"):
        return False
    found = folder.read_plan()
    return len(found) > len(plan) and grew_from(found, plan)


def _answers(folder: RunFolder, plan: Plan) -> bool:
    """Whether the folder's answers are to `plan`, to what it was before it grew, or to what an adaptive one became."""
    if folder.judged_plan() == plan.digest:
        return True
    if not folder.has("plan.parquet"):
        return False
    found = folder.read_plan()
    if turns_of(plan) is None:
        # the plan alone is new: the answers to it were lost on their way into the folder, and are in the store
        return found.digest == plan.digest or (found.digest == folder.judged_plan() and grew_from(plan, found))
    return found.pool_digest == plan.pool_digest and all(
        np.array_equal(old[: len(plan)], new)
        for old, new in zip(found.columns().values(), plan.columns().values(), strict=True)
    )
