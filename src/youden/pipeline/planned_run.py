"""Find or draw the plan of a run, with its extensions.

A plan that is stored in the run's folder is reused if the config still asks for it. Answers that are paid for therefore
stay valid if defaults or random streams change.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from youden.data.folder.extension_steps import ExtensionStep
from youden.data.folder.joined_pools import JOIN_BY_KIND, find_subpool, read_run_pools
from youden.data.folder.run_config import DrawnAs, RunConfig
from youden.data.folder.run_files import COMMAND_BY_FILE
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError, YoudenError
from youden.judging.backend_records import LEXICAL, REPLAY
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.estimate import estimate
from youden.judging.question.parsing import MAX_TOKENS
from youden.pipeline.recommendation import read_recommendation
from youden.protocol.blocks import get_extensions, plan_after_extensions, plan_without_follow_ups
from youden.protocol.designs import DESIGNS
from youden.protocol.designs.adaptive import STOPPING_OPTIONS, Adaptive
from youden.protocol.designs.fixed_width import FixedWidth
from youden.protocol.extension import add_agents, add_calls, add_items, add_repeats
from youden.protocol.plan import make_plan
from youden.protocol.pooled_trials import has_free_calls
from youden.protocol.subsample import subsample
from youden.text.sentences import format_count, suggest_name
from youden.types import Plan, Pool
from youden.types.plan_steps import Extension as Extended
from youden.types.pool import Json

_NO_DESIGN_OPTIONS = {"calls", "trials_from", "question", "self_trials"}
"""Entries of `Plan.options` that are config keys of their own instead of options of the design."""
_OTHER_TEXTS = "the pool has other texts than those that were judged"
"""Difference between a stored plan and a config whose pool has changed."""
_OTHER_ORDER = "the pool has its agents or items in another order than those that were judged"
"""Difference between a stored plan and a config whose pool was sorted."""
_OTHER_FOLDER = "another name or --out for this run"
"""Last choice of the messages about a folder that holds something else."""


class RunPlan(NamedTuple):
    """Plan of a run.

    Attributes
    ----------
    plan : Plan
        The plan, with all extensions.
    stored : Plan or None
        The plan in the run's folder, which `plan` equals or extends; None if `plan` is new.
    """

    plan: Plan
    stored: Plan | None


def draw_run_plan(config: RunConfig, unwritten: Pool | None = None) -> Plan:
    """Draw a run's plan, whether or not its folder holds one.

    Parameters
    ----------
    config : RunConfig
        Config of the run, with a design and extensions, or with `trials_from`, which takes trials from another run.
    unwritten : Pool, optional
        The pool that the config names, if it is not on disk yet.

    Returns
    -------
    Plan
        The plan with all extensions.

    Raises
    ------
    PoolError, PlanError
        If pool or plan do not fit the config.
    ConfigError
        [run-config]; [focus-invalid]: if an extension focuses on an agent that is not in the run.
    RunFolderError
        If another run's plan cannot be found.
    """
    pools = read_run_pools(config) if unwritten is None else (unwritten,)
    return _draw_plan(config, pools)


def find_run_plan(config: RunConfig, folder: RunFolder) -> RunPlan:
    """Read the plan of a run from its folder and bring it up to date with the config, or draw a new plan if there is none.

    A stored plan that fits the config gets the extensions that it lacks: steps that add agents, items, repeats or calls to
    a judged run. A stored plan that is not judged yet is replaced by a new one if it does not fit the config. It is also replaced
    if it was drawn for a judge with free calls, but the calls of the present judge are not free: the plan then has many
    independent trials, which would cost money.

    config : config of the run
    folder : folder of the run, with or without a plan

    Raises RunFolderError: [run-mismatch] if the folder has answers to another plan, [run-extended] if the stored plan has
    more extensions than the config. PoolError, PlanError or ConfigError (such as [focus-invalid]) are raised if pool, plan
    and config do not fit each other, and StatisticsError [self-target] if self-trials cannot estimate the target.
    """
    pools = read_run_pools(config)
    if not folder.has("plan.parquet"):
        return RunPlan(_draw_plan(config, pools), None)

    stored = _with_own_pool(folder.read_plan(), pools)
    _check_target(config, stored)

    # replace a stored plan that is not judged yet and does not fit the config
    differences = list(_describe_differences(config, stored, pools))
    has_too_many_trials = has_free_calls(stored) and not _has_free_judge(config)
    if not folder.is_judged and (differences or has_too_many_trials):
        return RunPlan(_draw_plan(config, pools), None)

    if differences:
        suggestion = _suggest_extension(config, folder, stored, pools[0]) or _suggest_search(config, folder, stored)
        raise _other_plan_error(folder, differences, suggestion)
    return _continue_plan(config, folder, stored, pools)


def _continue_plan(config: RunConfig, folder: RunFolder, stored: Plan, pools: Sequence[Pool]) -> RunPlan:
    """Extend a stored plan by the trials or steps that the config requests and the plan lacks.

    A run may take its trials from another run (`trials_from`). In that case, trials are added if the config selects more than
    the plan has. Otherwise, the missing extensions are added.

    stored : plan in the folder, which otherwise fits the config
    pools : pool of the first plan, and one for each extension of the config

    Raises RunFolderError [run-extended] if the stored plan has more extensions than the config.
    """
    if config.trials_from is None:
        return _add_missing_steps(config, folder, stored, pools)
    if _takes_more_trials(config, stored):
        return RunPlan(_draw_plan(config, pools, earlier=stored), stored)
    return RunPlan(stored, stored)


def _with_own_pool(plan: Plan, pools: Sequence[Pool]) -> Plan:
    """Attach to a plan the pool that it was made for, if it is among `pools`; unchanged if there is none."""
    for pool in pools:
        if pool.digest == plan.pool_digest:
            return plan.with_pool(pool)
    return plan


def _add_missing_steps(config: RunConfig, folder: RunFolder, stored: Plan, pools: Sequence[Pool]) -> RunPlan:
    """Extend a stored plan by those extensions of the config that it lacks.

    pools : pool of the first plan, and one for each extension of the config

    Raises RunFolderError [run-extended] if the stored plan has more extensions than the config.
    """
    n_stored = len(get_extensions(stored).steps)
    if n_stored > len(config.extensions):
        raise _run_extended_error(folder, n_stored)

    # a run in rounds may be continued to a new goal in the config
    if stored.design in STOPPING_OPTIONS:
        _, new_options = config.effective_design
        options = {**_without_stopping_options(stored.design, stored.options), **new_options}
        stored = replace(stored, options=options)
    new_steps, new_pools = config.extensions[n_stored:], pools[n_stored + 1 :]
    extended = _extend_plan(plan_without_follow_ups(stored), new_steps, new_pools)
    return RunPlan(extended, stored)


def _run_extended_error(folder: RunFolder, n_stored: int) -> RunFolderError:
    """Return the error for a run folder whose plan has more extensions than the config.

    The error suggests the command that finishes an unfinished extension. If all are finished, it suggests `youden run`
    with the config in the folder.

    n_stored : number of extensions of the plan in the folder
    """
    command = f"youden run {folder.file('config.yaml')}"

    # the config in the folder does not list an unfinished extension, but describes it in `unfinished`
    recorded = folder.find_config()
    if recorded is not None and recorded.unfinished is not None and len(recorded.extensions) < n_stored:
        command = recorded.unfinished.format_command(folder.path)
    return RunFolderError(
        f"{folder.path} was extended since this plan was made. Run `{command}` to continue it, or set another name or "
        "--out for this run.",
        slug="run-extended",
    )


def with_resolved_defaults(config: RunConfig, plan: Plan) -> RunConfig:
    """Return the config with a record of the pool and the budget that its plan was drawn with."""
    drawn = DrawnAs(pool=get_extensions(plan).pool, budget=plan.request.budget)
    return config.model_copy(update={"resolved": drawn})


def _draw_plan(config: RunConfig, pools: Sequence[Pool], *, earlier: Plan | None = None) -> Plan:
    """Draw the plan of a run with all its extensions, or select trials of another run if the config has `trials_from`.

    pools : pool of the first plan, and one for each extension
    earlier : plan that is already in the folder and selects fewer trials of the same other run; None if there is none
    """
    if config.trials_from is not None:
        source = RunFolder(Path(config.trials_from)).read_plan().with_pool(pools[-1])
        return _select_trials(config, source, earlier=earlier)

    design, options = config.effective_design
    plan = make_plan(
        pools[0],
        design=design,
        calls=config.calls,
        independent=config.independent,
        holdout=config.holdout,
        holdout_rule=config.holdout_rule,
        options=options,
        seed=config.seed,
        default_budget=_find_default_budget(config, pools[0]),
        calls_are_free=_has_free_judge(config),
        question=config.question,
        self_trials=config.self_trials,
    )
    _check_target(config, plan)

    if plan.design == FixedWidth.name:
        from youden.pipeline.precision import check_width_attainable

        check_width_attainable(plan)
    return _extend_plan(plan, config.extensions, pools[1:])


def _find_default_budget(config: RunConfig, pool: Pool) -> int | None:
    """Find the budget, in calls, of a plan whose config does not set one.

    A plan that was drawn before for the same pool keeps its budget, so that its paid answers stay valid. A search for the
    best agents (design "adaptive") otherwise gets as many calls as its cost cap pays for.

    config : config of the run, with the resolved budget of an earlier plan
    pool : pool of the first plan

    Returns None if neither case applies; the design then decides.
    """
    design, options = config.effective_design

    # an earlier plan counts only if it was drawn for the same pool
    budget = None
    if config.resolved is not None and config.resolved.pool == pool.digest:
        budget = config.resolved.budget

    if budget is None and config.calls is None and design == Adaptive.name:
        budget = _estimate_affordable_calls(config, pool, design, options)
    return budget


def _select_trials(config: RunConfig, source: Plan, *, earlier: Plan | None) -> Plan:
    """Select as many trials of another run as the config requests.

    source : plan of the other run
    earlier : smaller selection that is already in the folder of this run, and that the new one must contain; None if there is
        none
    """
    # unless the other run was extended since then, a larger selection contains the earlier one by itself
    if earlier is not None and earlier.options.get("trials_from") == source.digest[:12]:
        earlier = None
    return subsample(source, calls=config.calls, seed=config.seed, earlier=earlier)


def _check_target(config: RunConfig, plan: Plan) -> None:
    """Raise StatisticsError [self-target] before a request is sent if self-trials cannot estimate the target."""
    if plan.is_self_plan:
        from youden.pipeline.self_consistency import check_self_target

        check_self_target(config.target)


def _has_free_judge(config: RunConfig) -> bool:
    """Return whether calls of the run's judge cost nothing and take no time.

    The plan of such a judge has more independent trials. False if the judge cannot be loaded.
    """
    with suppress(YoudenError):  # a judge that cannot be loaded is reported when it is needed
        return load_judge_of_run(config).backend == LEXICAL
    return False


_PLANNED_CAP_FRACTION = 0.9
"""Fraction of the cost cap that a search plans to spend, because the actual cost of calls may exceed the estimate."""


def _estimate_affordable_calls(config: RunConfig, pool: Pool, design: str, options: Mapping[str, Json]) -> int | None:
    """Estimate how many calls the cost cap pays for, up to the number of calls of the dense design.

    Returns None if the config has no cost cap, if calls cost nothing, or if their price is unknown.
    """
    judge = load_judge_of_run(config)
    if not config.max_cost or not judge.makes_calls:
        return None
    pilot = make_plan(
        pool, design=design, options=options, holdout_rule=config.holdout_rule, holdout=config.holdout, seed=config.seed
    )
    cost = estimate(pilot, judge)
    if not cost.usd:
        return None

    affordable = int(_PLANNED_CAP_FRACTION * config.max_cost * cost.calls / cost.usd)
    return min(affordable, pilot.n_dense_calls) or None


def _extend_plan(plan: Plan, steps: Sequence[ExtensionStep], pools: Sequence[Pool]) -> Plan:
    """Extend a plan by the steps of a config.

    steps : extensions in order; each adds agents, items, repeats (further responses of the same agents) or calls
    pools : pool after each step, with the added agents, items or responses
    """
    for step, pool in zip(steps, pools, strict=True):
        if step.kind != "calls":
            plan = _EXTENDERS[step.kind](plan, pool, calls=step.calls)
        elif step.calls is not None:
            focus = tuple(_find_agent_position(agent, plan) for agent in step.focus)
            plan = add_calls(plan, calls=step.calls, focus=focus, top=step.top, max_regret=step.max_regret)
    return plan


_EXTENDERS: Final = {"agents": add_agents, "items": add_items, "repeats": add_repeats}


def _find_agent_position(agent: str, plan: Plan) -> int:
    """Return the position of an agent id; raise ConfigError [focus-invalid] if it is not in the plan."""
    if agent not in plan.agent_ids:
        raise ConfigError(
            f"The agent to focus on is not in this run: got '{agent}'. {suggest_name(agent, plan.agent_ids)}",
            slug="focus-invalid",
        )
    return plan.agent_ids.index(agent)


def _describe_differences(config: RunConfig, plan: Plan, pools: Sequence[Pool]) -> Iterator[str]:
    """Describe the differences between a config and the settings of a stored plan.

    pools : pool of the first plan (position 0), and one for each extension of the config

    Yields one phrase per difference, such as "seed was 0 and is 1".
    """
    # trials of another run may have been selected before or after any of its extensions
    possible_pools = pools[:1] if config.trials_from is None else pools
    possible_digests = {pool.digest for pool in possible_pools}
    if get_extensions(plan).pool not in possible_digests:
        yield _OTHER_ORDER if _has_other_order(plan, pools[0]) else _OTHER_TEXTS

    for name, planned_value, requested_value in _iter_planning_keys(config, plan):
        if planned_value != requested_value:
            yield f"{name} was {_format_setting(planned_value)} and is {_format_setting(requested_value)}"
    if config.trials_from is not None and not is_part_of(plan, RunFolder(Path(config.trials_from))):
        yield f"trials_from is {config.trials_from}, but the trials are not from that run"

    # compare the extensions up to the shorter of the two lists; `_add_missing_steps` handles different numbers
    shared_steps = zip(get_extensions(plan).steps, config.extensions, pools[1:], strict=False)
    for number, (planned, requested, pool) in enumerate(shared_steps, 1):
        if not _is_same_step(planned, requested, pool, plan):
            yield f"extension number {number} differs"


def _has_other_order(plan: Plan, pool: Pool) -> bool:
    """Return whether a pool differs from the first pool of a plan only in the order of its agents and items."""
    extensions = get_extensions(plan)
    agents, items = plan.agent_ids[: extensions.anchors], plan.item_ids[: extensions.items]
    if (len(agents), len(items)) != (pool.n_agents, pool.n_items):
        return False
    return find_subpool(pool, agents, items, digest=extensions.pool) is not None


def _without_stopping_options(design: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a design without those that decide when its rounds stop."""
    return {name: value for name, value in options.items() if name not in STOPPING_OPTIONS[design]}


def _iter_planning_keys(config: RunConfig, plan: Plan) -> Iterator[tuple[str, object, object]]:
    """Yield each config key that decides which trials are planned, with its value in the plan and in the config.

    A plan that selects trials of another run (`trials_from`) depends on fewer keys, because the other run determines its
    design.
    """
    yield "trials_from", "trials_from" in plan.options, config.trials_from is not None
    if not _takes_more_trials(config, plan):
        yield "calls", plan.options.get("calls"), config.calls
    yield "seed", plan.seed, config.seed
    yield "question", plan.question, config.question
    if config.trials_from is None:
        yield from _iter_design_keys(config, plan)


def _iter_design_keys(config: RunConfig, plan: Plan) -> Iterator[tuple[str, object, object]]:
    """Yield each config key that decides how a design plans trials, with its value in the plan and in the config.

    The caller compares both values to decide whether a stored plan can be reused. Options that only decide when a run in
    rounds stops are left out, because they do not change trials that were planned already.

    config : config of the run
    plan : stored plan

    Yields tuples (key, value in the plan, value in the config).
    """
    requested_design = _get_requested_design(config, plan)
    yield "design", plan.design, requested_design
    yield "self_trials", plan.options.get("self_trials", 0), config.self_trials

    # options of the design, without those that decide when a run in rounds stops
    _, requested_options = config.effective_design
    planned_options = {option: value for option, value in plan.options.items() if option not in _NO_DESIGN_OPTIONS}
    if requested_design == plan.design and requested_design in STOPPING_OPTIONS:
        planned_options = _without_stopping_options(requested_design, planned_options)
        requested_options = _without_stopping_options(requested_design, requested_options)
    yield "options", planned_options, requested_options

    yield "independent", plan.request.independent, config.independent
    yield "holdout", plan.request.holdout, config.holdout
    yield "holdout_rule", plan.split.rule, config.holdout_rule


def _get_requested_design(config: RunConfig, plan: Plan) -> str:
    """Return the name of the design that the config requests, for a comparison with the design of a stored plan.

    The design "cyclic" of a pool with one or two agents plans self-trials only, and is stored under another name. This
    name is returned if `plan` has only self-trials.

    plan : stored plan
    """
    design_key, _ = config.effective_design
    if plan.is_self_plan and design_key == "cyclic":
        return plan.design
    return DESIGNS.load(design_key).name


def _takes_more_trials(config: RunConfig, plan: Plan) -> bool:
    """Return whether the config selects more trials of another run (`trials_from`) than `plan` has.

    False if the config has no `trials_from`, if `plan` has all trials of the other run, or if one of the two numbers is
    not an integer. With the same seed, the larger selection contains the trials of `plan`.
    """
    old_calls = plan.options.get("calls")
    if config.trials_from is None or not isinstance(old_calls, int):
        return False

    # without `calls`, the config takes all trials
    if config.calls is None:
        return True
    return isinstance(config.calls, int) and config.calls > old_calls


def is_part_of(plan: Plan, run: RunFolder) -> bool:
    """Return whether `plan` has trials of the plan of `run`, as it is now or as it was before an extension."""
    source = run.read_plan()
    n_steps = len(get_extensions(source).steps)
    states = (plan_after_extensions(source, n) for n in range(n_steps + 1))
    return any(state.digest[:12] == plan.options.get("trials_from") for state in states)


def _is_same_step(planned: Extended, requested: ExtensionStep, pool: Pool, plan: Plan) -> bool:
    """Return whether an extension of the plan is the step that the config asks for."""
    if (planned.kind, planned.pool) != (requested.kind, pool.digest):
        return False
    focus = [plan.agent_ids[agent] for agent in planned.focus]
    planned_values = (planned.calls, focus, planned.top, planned.max_regret)
    requested_values = (requested.calls, requested.focus, requested.top, requested.max_regret)
    return planned_values == requested_values


def _format_setting(value: object) -> str:
    """Format the value of a config key for a message; None is a key that the config does not contain."""
    return "left out" if value is None else str(value)


def check_same_run(folder: RunFolder, run_plan: RunPlan, judge: JudgeConfig) -> None:
    """Raise RunFolderError [run-mismatch] if a folder contains complete answers to another plan or of another judge.

    Answers to the plan in the folder are accepted, because the run extends this plan. The answers of an unfinished run are also
    accepted. An imported run is refused. A folder without a run is refused with the error [run-foreign] if it contains files
    that the run would replace. Any other folder without answers is accepted.

    run_plan : plan of the run and plan in the folder, as returned by `find_run_plan`
    judge : judge of the run
    """
    if not folder.is_judged:
        if folder.has("rates.parquet") and not folder.has("plan.parquet"):
            raise _run_mismatch_error(folder, "an imported run")
        check_no_foreign_files(folder)
        return

    # The answers must belong to the plan of the run, or to the stored plan, which the run extends. If the two plans are
    # equal, older answers are accepted: an earlier command stopped before it replaced them.
    judged_digest = folder.read_judged_plan_digest()
    digest = run_plan.plan.digest
    stored_digest = None if run_plan.stored is None else run_plan.stored.digest
    if digest != stored_digest and judged_digest not in (digest, stored_digest):
        raise _run_mismatch_error(folder, "the answers to another plan (pool, design, budget, holdout or seed differ)")
    _check_same_judge(folder, judge)


def _check_same_judge(folder: RunFolder, judge: JudgeConfig) -> None:
    """Check that the answers in a run folder are those of the given judge, so that answers of two judges are never mixed.

    folder : folder of a run with complete answers
    judge : judge of the present config

    Raises RunFolderError [run-mismatch] if the answers are those of another judge. The remedy in the message is different
    if the two judges differ only in their `decision`: whether an answer is read from the text or from log-probabilities.
    """
    recorded = folder.read_recorded_judge()
    if is_same_judge(recorded, judge):
        return

    # the judges may differ only in how the answer is read, from the text or from log-probabilities
    decision = recorded.get("decision")
    can_set_decision = judge.makes_calls and decision in MAX_TOKENS
    if can_set_decision and is_same_judge(recorded, judge.with_changes({"decision": decision})):
        remedy = f"Set `decision: {decision}` in the judge's config to continue this run, or set {_OTHER_FOLDER}"
        raise _run_mismatch_error(folder, f"answers of this judge with `decision: {decision}`", remedy=remedy)

    command = f"youden rejudge {folder.path} --judge JUDGE --calls N/agent"
    remedy = f"Run `{command}` to query this judge on the same trials, or set {_OTHER_FOLDER}"
    raise _run_mismatch_error(folder, "another judge's answers", remedy=remedy)


def check_no_foreign_files(folder: RunFolder) -> None:
    """Check that a folder contains no files of other origin that a run would replace.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run, which need not exist. It is accepted if it has a plan or the pool.json of a run.

    Raises
    ------
    RunFolderError
        [run-foreign]: if the folder does not belong to a run, but contains a file that a run would replace.
    """
    if folder.has("plan.parquet"):
        return
    with suppress(RunFolderError):
        folder.read_pool()
        return  # the plan was removed, for example because it was damaged

    replaced_files = [name for name in COMMAND_BY_FILE if name != "generation.json" and folder.has(name)]
    if replaced_files:
        raise RunFolderError(
            f"{folder.path} does not contain a run, and a run would replace files in it: got {replaced_files[0]}. Set --out to "
            "a new folder, or move these files.",
            slug="run-foreign",
        )


def _suggest_search(config: RunConfig, folder: RunFolder, stored: Plan) -> str:
    """Suggest the command that continues a run with the search for the best agents that the config asks for.

    stored : plan in the folder

    Returns sentences without the last full stop. The result is empty if the config does not ask for a search, if the run
    is a search already, or if it has no ranking.
    """
    design, _ = config.effective_design
    asks_for_search = design == Adaptive.name and stored.design != Adaptive.name
    if not asks_for_search or not folder.has("fit.json"):
        return ""

    goal = ["--calls", "N"]
    if config.max_regret:
        goal = ["--max-regret", f"{config.max_regret:g}"]
    if config.top:
        goal += ["--top", str(config.top)]
    command = shlex.join(["youden", "extend", "best", str(folder.path), *goal])
    first_sentence, _, _ = read_recommendation(folder).text.partition(". ")
    return f"Run `{command}` to continue with a search. So far: {first_sentence}. To search from the start, set {_OTHER_FOLDER}"


def _suggest_extension(config: RunConfig, folder: RunFolder, stored: Plan, pool: Pool) -> str:
    """Suggest the command that extends a run whose pool has more agents, items or repeats (further responses).

    stored : plan in the folder
    pool : present pool of the config

    Returns sentences without the last full stop. The result is empty if the run was extended before, or if the pool
    differs in another way.
    """
    was_extended = bool(config.extensions or get_extensions(stored).steps)
    old_pool = _find_original_pool(stored, pool)
    if was_extended or old_pool is None:
        return ""

    n_added_by_kind = _count_additions(old_pool, pool)
    if not n_added_by_kind:
        return ""

    # new agents and items also have new responses, so the first kind is the one to extend by
    kind, n_added = next(iter(n_added_by_kind.items()))
    cost = ""
    with suppress(YoudenError):  # no cost if the judge cannot be loaded, or the plan cannot be extended
        joined_pool = JOIN_BY_KIND[kind](old_pool, pool)
        extended = _EXTENDERS[kind](plan_without_follow_ups(stored), joined_pool)
        cost = _format_added_cost(load_judge_of_run(config), stored.with_pool(old_pool), extended)
    command = shlex.join(["youden", "extend", kind, str(folder.path), config.pool])
    added = format_count(n_added, kind.removesuffix("s"), "was", "were")
    return f"{added} added to its pool. Run `{command}`{cost} to add them to the run, or set {_OTHER_FOLDER}"


def _find_original_pool(stored: Plan, pool: Pool) -> Pool | None:
    """Find the part of a pool with which a run was first planned; None if the pool does not contain this part unchanged.

    stored : plan of the run
    pool : present pool, which may have more agents, items or responses
    """
    extensions = get_extensions(stored)
    agent_ids = stored.agent_ids[: extensions.anchors]
    item_ids = stored.item_ids[: extensions.items]
    return find_subpool(pool, agent_ids, item_ids, digest=extensions.pool)


def _count_additions(old_pool: Pool, pool: Pool) -> dict[str, int]:
    """Count how many agents, items and responses a pool has more than an earlier version of it.

    Returns the numbers by kind of the extension that adds them, in the order "agents", "items", "repeats" (further
    responses), without kinds of which nothing was added.
    """
    n_added_by_kind = {
        "agents": pool.n_agents - old_pool.n_agents,
        "items": pool.n_items - old_pool.n_items,
        "repeats": pool.n_responses - old_pool.n_responses,
    }
    return {kind: n_added for kind, n_added in n_added_by_kind.items() if n_added}


def _format_added_cost(judge: JudgeConfig, plan: Plan, extended: Plan) -> str:
    """Format the numbers of calls and USD that an extended plan costs in addition; without USD if a price is unknown."""
    usd = estimate(extended, judge).usd
    old_usd = estimate(plan, judge).usd
    dollars = "" if usd is None or old_usd is None else f", ${usd - old_usd:,.2f}"
    return f" (about {len(extended) - len(plan):,} calls{dollars})"


def _other_plan_error(folder: RunFolder, differences: Sequence[str], suggestion: str) -> RunFolderError:
    """Return the error [run-mismatch] for a judged run whose stored plan does not fit its config.

    differences : phrases that describe the differences between the stored plan and the config
    suggestion : remedy as sentences without the last full stop; if it is empty, the remedy depends on the differences
    """
    remedy = suggestion
    if not suggestion and not {_OTHER_TEXTS, _OTHER_ORDER}.isdisjoint(differences):
        remedy = f"Restore the pool as it was judged, or set {_OTHER_FOLDER}"
    return _run_mismatch_error(folder, f"the answers to another plan: {'; '.join(differences)}", remedy=remedy)


def _run_mismatch_error(folder: RunFolder, content: str, *, remedy: str = "") -> RunFolderError:
    """Return the error for a folder that holds something else.

    content : what the folder holds
    remedy : sentences without the last full stop; by default, to set another name or --out
    """
    remedy = remedy or f"Set {_OTHER_FOLDER}"
    return RunFolderError(
        f"{folder.path} holds {content}. {remedy}; with the same store, stored answers are reused.", slug="run-mismatch"
    )


def is_same_judge(recorded: Mapping[str, Json], judge: JudgeConfig) -> bool:
    """Return whether the answers in a run folder can be answers of a judge.

    recorded : description of the judge that gave these answers, with the keys of `JudgeConfig.describe`
    judge : judge of the run
    """
    # a replay can have the answers of any judge
    if judge.backend == REPLAY:
        return True

    if judge.judges:
        return _is_same_jury(recorded, judge)
    if not judge.makes_calls:
        return recorded.get("name") == judge.backend

    # the parser may differ, because all stored answers are parsed again
    expected = {name: value for name, value in judge.describe().items() if name != "parser"}
    return all(recorded.get(name) == value for name, value in expected.items())


def _is_same_jury(recorded: Mapping[str, Json], jury: JudgeConfig) -> bool:
    """Return whether recorded answers are those of a jury, several judges whose votes are combined into one answer.

    The judges must be the same ones in the same order, and their votes must be combined by the same rule.

    recorded : description of the judge that gave the answers, with the keys of `JudgeConfig`; it may be a single judge
    jury : config of the jury
    """
    recorded_judges = recorded.get("judges")
    if not isinstance(recorded_judges, list) or len(recorded_judges) != len(jury.judges):
        return False
    if recorded.get("vote") != jury.vote:
        return False

    pairs = zip(recorded_judges, jury.judges, strict=True)
    return all(isinstance(old, dict) and is_same_judge(old, new) for old, new in pairs)
