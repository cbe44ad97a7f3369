"""A judged run is searched on, however it grew: rounds of further calls on those who may still be the best.

Each round is an extension of the run, so the folder is whole after each, and the same command goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from youden.data.folder.extension_steps import POOLS, ExtensionStep
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, PlanError
from youden.judging.scheduler.options import Asking
from youden.pipeline.abilities import LEVEL, choice_among
from youden.pipeline.fit_tables import Analysis
from youden.pipeline.interim_analyses import first_look
from youden.pipeline.ranking import standing_of
from youden.pipeline.recommendation import no_signal
from youden.protocol.designs.adaptive import ROUNDS, contenders
from youden.stats.trials.best_selection import choice, comparable, wanting
from youden.stats.trials.comparisons import differences
from youden.text.sentences import counted
from youden.text.yaml_text import misfit
from youden.workflows.extend import (
    PlannedExtension,
    extend_run,
    plan_extension,
    plan_step,
    requested,
    resume_extension,
)


class SearchGoal(NamedTuple):
    """top: how many are looked for; within: how far from the best those named may be, None for until `calls` are spent;
    calls: the most of this search, of both arms, None for as many as it takes."""

    top: int
    within: float | None
    calls: int | None


def plan_more(config: RunConfig, options: Mapping[str, Any]) -> PlannedExtension | str:
    """Plan an extension or a search by the options of `youden extend`; its folder stays as it is.

    Parameters
    ----------
    config : RunConfig
        Config of the run, with the changes of this command.
    options : mapping
        `agents`, `items` or `repeats` (path of a pool), `calls`, `focus` (list), `width`, `top` and `within`; None if not given.

    Returns
    -------
    PlannedExtension or str
        Or the reason why a search has nothing to ask.

    Raises
    ------
    ConfigError
        [extend-options] if the options do not go together; other errors as `plan_extension` and `plan_round`.
    """
    top, within, calls, focus, width = (options[name] for name in ("top", "within", "calls", "focus", "width"))
    step = {name: options[name] for name in (*POOLS, "calls", "focus")}
    if not (top or within):
        is_empty = width is not None and not any(step.values())
        return plan_extension(config, None if is_empty else _step_of(step), width=width)
    if focus or width is not None or any(options[kind] is not None for kind in POOLS):
        raise ConfigError(
            "--top and --within look among the run's own agents. Let others join first; leave out --focus and --width.",
            slug="extend-options",
        )
    if calls is None and within is None:
        raise ConfigError("--top spends --calls, or asks until --within. Give one of them.", slug="extend-options")
    return plan_round(config, SearchGoal(top or 1, within, calls))


def _step_of(keys: Mapping[str, Any]) -> ExtensionStep:
    try:
        return ExtensionStep.model_validate(keys)
    except ValidationError as error:
        raise ConfigError(f"The run cannot be extended so: {misfit(error)}.", slug="extend-options") from error


def extend_planned(planned: PlannedExtension, asking: Asking | None = None) -> tuple[Analysis, str]:
    """Query the judge on what `plan_more` planned, and fit the run.

    Returns: the fitted run, and how a search ended, in words. Raises: as `extend_run`.
    """
    folder, unfinished = planned.run.folder, planned.unfinished
    kept = folder.read_config().model_copy(update={"target": planned.run.config.target})
    if unfinished.top is None:
        return extend_run(planned, kept, asking), ""
    goal = SearchGoal(unfinished.top, unfinished.within, unfinished.calls)
    return search_run(planned, goal, kept, asking)


def plan_round(
    config: RunConfig, goal: SearchGoal, *, number: int = 0, spent: int = 0, first: int | None = None
) -> PlannedExtension | str:
    """Plan the next round of a search, or resume one that was stopped.

    Without a bound on the regret, calls are spread over `ROUNDS` on fewer and fewer contenders. With one, a round spends on the
    agents that keep the bound from being reached as many calls as they seem to need; if the run meets the bound before its
    search, there is no round.

    Parameters
    ----------
    config : RunConfig
        Config of the run.
    goal : SearchGoal
        Options of the search.
    number, spent : int, default 0
        Rounds and calls of the search so far.
    first : int, optional
        Number of extensions that the run had before the search. Default: the number it has.

    Returns
    -------
    PlannedExtension or str
        The round, or the reason why there is none.

    Raises
    ------
    ConfigError
        [extend-search]; other errors as `plan_extension`.
    """
    folder = RunFolder(config.folder)
    folder.refuse_unjudged()
    options = goal._asdict()
    if config.unfinished is not None:
        return resume_extension(config, config.unfinished, options)
    result = folder.read_verdicts(folder.read_plan())
    plan, (top, within, calls) = result.plan, goal
    if top >= plan.n_agents:
        raise ConfigError(f"The top {top} of {plan.n_agents} agents is everybody. Lower --top.", slug="extend-search")
    found = standing_of(result, target=config.target)
    if reason := no_signal(result, found):
        return reason
    told = differences(found.ability, found.covariance, level=LEVEL)
    if not comparable(told):
        raise ConfigError(
            "Some agents cannot be compared with the leader. Give --calls without --top and --within first.",
            slug="extend-search",
        )
    arms, left = 2 if plan.independent == "twin" else 1, np.inf if calls is None else calls - spent
    if within is None:
        active, asked = contenders(found.ability, top, (number + 1) / ROUNDS), left / max(ROUNDS - number, 1)
    else:
        search = found.search if found.search is not None and found.search.top == top else None
        look = first_look(found, top=top, within=within) if search is None else search.looks[-1]
        said = choice(found.ability, found.covariance, told, top=top) if search is None else choice_among(found, told)
        if said is not None and said.within <= within:
            return "those named are near enough to the best"
        active, more, _ = wanting(told, look.end, top=top, share=look.hoped_share, goal=within)
        asked = min(left, active.sum() * ceil(more * float(found.n_trials[active].max())) * arms)
    over = within is None and number == ROUNDS
    if over or asked < 2 * active.sum() * arms:
        return "the calls are spent"
    focus = [plan.agent_ids[k] for k in np.flatnonzero(active)]
    try:
        planned = plan_step(config, ExtensionStep(calls=int(asked), focus=focus, top=top, within=within))
        return requested(planned, options, first=len(config.extensions) if first is None else first)
    except PlanError as error:
        if error.slug != "grow-all":
            raise
        return "those who may be the best were asked everything there is"


def search_run(
    planned: PlannedExtension, goal: SearchGoal, config: RunConfig, asking: Asking | None = None
) -> tuple[Analysis, str]:
    """Ask round after round, of which `planned` is the first, and fit the run after each.

    config: as `extend_run` takes it. A cap holds for all rounds together.

    Returns: the fitted run, and how the search ended, in words. Raises: as `extend_run`; the rounds before stay in the folder.
    """
    once, usd, unfinished = planned.run.config, 0.0, planned.unfinished
    number, steps = unfinished.number - unfinished.first, planned.run.plan.trials.step
    spent = int(((steps > unfinished.first) & (steps <= unfinished.number)).sum())
    more: PlannedExtension | str = planned
    while isinstance(more, PlannedExtension):
        fitted = extend_run(more, config, asking)
        number, spent, usd = number + 1, spent + len(more.asked), usd + _usd_of(more)
        left = None if once.max_cost is None else max(once.max_cost - usd, 0.0)
        grown = {"extensions": more.run.config.extensions, "max_cost": left, "unfinished": None}
        more = plan_round(once.model_copy(update=grown), goal, number=number, spent=spent, first=unfinished.first)
    return fitted, f"{counted(number, 'round')}, {spent:,} calls; {more}"


def _usd_of(round_: PlannedExtension) -> float:
    """What the answers of a round cost."""
    folder = round_.run.folder
    usd = folder.read_verdicts(folder.read_plan()).usd
    return 0.0 if usd is None else float(np.nansum(usd[-len(round_.asked) :]))
