"""Find or draw the plan of a run, with its extensions.

A plan that is stored in the run's folder is reused if the config still asks for it. Answers that are paid for therefore
stay valid if defaults or random streams change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from youden.text.printable import format_command
from youden.text.sentences import format_count, suggest_name
from youden.types import Plan, Pool
from youden.types.plan_steps import Extension as Extended
from youden.types.pool import Json

_NO_DESIGN_OPTIONS = {"calls", "trials_from", "question", "self_trials"}
"""Entries of `Plan.options` that are config keys of their own instead of options of the design."""
_POOL_CHANGED = "the pool has other texts than those that were judged"
"""Difference between a stored plan and a config whose pool has changed."""
_OTHER_ORDER = "the pool has its agents or items in another order than those that were judged"
"""Difference between a stored plan and a config whose pool was sorted."""
_NEW_NAME = "another name or --out for this run"
"""What to set if a folder belongs to another run, as the end of a sentence "Set …" in messages."""


class RunPlan(NamedTuple):
    """Plan of a run.

    Attributes
    ----------
    plan : Plan
        The plan, with all extensions.
    stored_plan : Plan or None
        The plan in the run's folder, which `plan` equals or extends; None if `plan` is new.
    """

    plan: Plan
    stored_plan: Plan | None


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


def find_run_plan(config: RunConfig, folder: RunFolder, pools: Sequence[Pool] | None = None) -> RunPlan:
    """Read the plan of a run and update it to the config, or draw a new plan.

    A stored plan gets the extensions of the config that it lacks. Extensions add agents, items, repeats or calls to a judged
    run. A stored plan that is not judged yet is replaced by a new one in two cases:

    - It does not fit the config.
    - It was drawn for a free judge, with many independent trials, and the present judge costs money.

    config : config of the run
    folder : folder of the run, with or without a plan
    pools : result of `read_run_pools(config)`; None if the pools are to be read

    Returns the plan of the run (`plan`), and the plan in the folder (`stored_plan`). The latter is None if a new plan was drawn,
    also in place of a stored one. Nothing is written.

    Raises RunFolderError [run-mismatch] if a judged plan does not fit the config, and [run-extended] if the stored plan has
    more extensions than the config. Raises PoolError, PlanError or ConfigError (for example [focus-invalid]) if pool, plan and
    config do not fit each other. Raises StatisticsError [self-target] if the target cannot be estimated from comparisons of
    agents with themselves.
    """
    if pools is None:
        pools = read_run_pools(config)
    if not folder.has("plan.parquet"):
        return RunPlan(_draw_plan(config, pools), stored_plan=None)

    stored_plan = _with_own_pool(folder.read_plan(), pools)
    _check_target(config, stored_plan)

    # replace a stored plan that is not judged yet and does not fit the config
    differences = list(_describe_differences(config, stored_plan, pools))
    has_too_many_trials = has_free_calls(stored_plan) and not _has_free_judge(config)
    if not folder.is_judged and (differences or has_too_many_trials):
        return RunPlan(_draw_plan(config, pools), stored_plan=None)

    if differences:
        first_pool = pools[0]
        remedy = _suggest_extension(config, folder, stored_plan, first_pool)
        if not remedy:
            remedy = _suggest_search(config, folder, stored_plan)
        raise _make_plan_mismatch_error(folder, differences, remedy)
    return _continue_plan(config, folder, stored_plan, pools)


def _continue_plan(config: RunConfig, folder: RunFolder, stored_plan: Plan, pools: Sequence[Pool]) -> RunPlan:
    """Add the trials or extensions that a config requests and a stored plan lacks.

    A run whose trials are selected from another run (`trials_from`) gets more trials if the config selects more. Any other run
    gets the missing extensions.

    stored_plan : plan in the folder, which fits the config, but may lack trials or extensions
    pools : pool of the first plan, and one for each extension of the config

    Raises RunFolderError [run-extended] if the stored plan has more extensions than the config.
    """
    if config.trials_from is None:
        return _add_missing_steps(config, folder, stored_plan, pools)
    if _takes_more_trials(config, stored_plan):
        return RunPlan(_draw_plan(config, pools, earlier=stored_plan), stored_plan)
    return RunPlan(stored_plan, stored_plan)


def _with_own_pool(plan: Plan, pools: Sequence[Pool]) -> Plan:
    """Attach to a plan the pool that it was made for, if it is among `pools`; unchanged if there is none."""
    for pool in pools:
        if pool.digest == plan.pool_digest:
            return plan.with_pool(pool)
    return plan


def _add_missing_steps(config: RunConfig, folder: RunFolder, stored_plan: Plan, pools: Sequence[Pool]) -> RunPlan:
    """Extend a stored plan by those extensions of the config that it lacks.

    pools : pool of the first plan, and one for each extension of the config

    Raises RunFolderError [run-extended] if the stored plan has more extensions than the config.
    """
    n_planned_steps = len(get_extensions(stored_plan).steps)
    if n_planned_steps > len(config.extensions):
        raise _make_extended_error(folder, n_planned_steps)

    base_plan = _with_stopping_options(stored_plan, config)
    new_steps = config.extensions[n_planned_steps:]
    extension_pools = pools[1:]  # without the pool of the first plan
    new_pools = extension_pools[n_planned_steps:]
    extended = _extend_plan(plan_without_follow_ups(base_plan), new_steps, new_pools)
    return RunPlan(extended, base_plan)


def _with_stopping_options(plan: Plan, config: RunConfig) -> Plan:
    """Replace the options that decide when the rounds of a plan stop by those of the config.

    A run in rounds, such as a search for the best agents, can thus be continued to a new goal. Any other plan is unchanged.
    """
    if plan.design not in STOPPING_OPTIONS:
        return plan
    _, config_options = config.effective_design
    kept_options = _without_options(plan.options, STOPPING_OPTIONS[plan.design])
    return replace(plan, options={**kept_options, **config_options})


def _make_extended_error(folder: RunFolder, n_planned_steps: int) -> RunFolderError:
    """Return the error for a run folder whose plan has more extensions than the config.

    The error suggests the command that finishes an unfinished extension. If all are finished, it suggests `youden run`
    with the config in the folder.

    n_planned_steps : number of extensions of the plan in the folder
    """
    command = folder.format_command()

    # The config in the folder describes an extension in `unfinished` until it is finished, and then lists it in `extensions`.
    # If the plan has more extensions than this list, the last one is not finished.
    folder_config = folder.find_config()
    if folder_config and folder_config.unfinished and len(folder_config.extensions) < n_planned_steps:
        command = folder_config.unfinished.format_command(folder.path)
    return RunFolderError(
        f"{folder.path} was extended since this plan was made. Run `{command}` to continue it (in Python, open it by "
        "`youden.read_run`), or set another name or --out for this run.",
        slug="run-extended",
    )


def with_resolved_defaults(config: RunConfig, plan: Plan) -> RunConfig:
    """Return the config with a record of the pool and the budget that its plan was drawn with."""
    drawn = DrawnAs(pool=get_extensions(plan).pool, budget=plan.request.budget)
    return config.model_copy(update={"resolved": drawn})


def _draw_plan(config: RunConfig, pools: Sequence[Pool], *, earlier: Plan | None = None) -> Plan:
    """Draw the plan of a run with all its extensions.

    If the config names another run in `trials_from`, the plan is a selection of that run's trials.

    pools : pool of the first plan, and one for each extension
    earlier : earlier selection from the same other run, whose trials the new plan must contain; None if there is none
    """
    if config.trials_from is not None:
        other_run = RunFolder(Path(config.trials_from))
        plan_of_other_run = other_run.read_plan().with_pool(pools[-1])
        return _select_trials(config, plan_of_other_run, earlier=earlier)

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
    """Find the number of calls of a plan whose config sets no budget.

    - If a plan was drawn before for the same pool, its budget is kept, so that its paid answers stay valid.
    - A new search for the best agents (design "adaptive") gets as many calls as its cost cap pays for.

    config : config of the run; its entry `resolved` records the pool and the budget of an earlier plan
    pool : pool of the first plan

    Returns None if neither case applies; the design then decides.
    """
    earlier = config.resolved
    if earlier is not None and earlier.pool == pool.digest and earlier.budget is not None:
        return earlier.budget

    design, options = config.effective_design
    if design == Adaptive.name and config.calls is None:
        return _estimate_affordable_calls(config, pool, design, options)
    return None


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
    """Estimate how many calls the cost cap pays for.

    The result is at most the number of calls of the dense design. The price of a call is estimated from a plan of the default
    size. Returns None without a cost cap, without a known price above 0, or if the cap pays for no call.
    """
    if not config.max_cost:
        return None
    default_plan = make_plan(
        pool,
        design=design,
        options=options,
        holdout_rule=config.holdout_rule,
        holdout=config.holdout,
        seed=config.seed,
        question=config.question,
    )
    usd = estimate(default_plan, load_judge_of_run(config)).usd  # of all judges of a jury together
    if not usd:
        return None

    n_affordable = int(_PLANNED_CAP_FRACTION * config.max_cost * len(default_plan) / usd)
    n_calls = min(n_affordable, default_plan.n_dense_calls)
    return n_calls if n_calls > 0 else None


def _extend_plan(plan: Plan, steps: Sequence[ExtensionStep], pools: Sequence[Pool]) -> Plan:
    """Extend a plan by the extension steps of a config.

    A step adds agents, items, repeats (further responses of the same agents), or calls. Calls can be limited to some agents
    (`focus`). They can also continue a search for the best agents (`top`, `max_regret`).

    steps : extensions in order
    pools : pool after each step, with the added agents, items or responses
    """
    for step, pool in zip(steps, pools, strict=True):
        if step.kind != "calls":
            extend = _EXTEND_BY_KIND[step.kind]
            plan = extend(plan, pool, calls=step.calls)
        elif step.calls is not None:
            focus = tuple(_find_agent_position(agent, plan) for agent in step.focus)
            plan = add_calls(
                plan,
                calls=step.calls,
                independent=step.independent,
                focus=focus,
                top=step.top,
                max_regret=step.max_regret,
            )
    return plan


_EXTEND_BY_KIND: Final = {"agents": add_agents, "items": add_items, "repeats": add_repeats}


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

    Extensions that only one of the two has are not compared.

    pools : pool of the first plan (position 0), and one for each extension of the config

    Yields one phrase per difference, such as "seed was 0 and is 1".
    """
    # a selection of another run's trials may begin with any pool, because that run may have been extended before
    possible_pools = pools[:1] if config.trials_from is None else pools
    possible_digests = [pool.digest for pool in possible_pools]
    digest_of_first_pool = get_extensions(plan).pool
    if digest_of_first_pool not in possible_digests:
        yield _OTHER_ORDER if _has_other_order(plan, pools[0]) else _POOL_CHANGED

    for name, planned_value, requested_value in _iter_planning_keys(config, plan):
        if planned_value != requested_value:
            yield f"{name} was {_format_setting(planned_value)} and is {_format_setting(requested_value)}"
    if config.trials_from is not None and not is_part_of(plan, RunFolder(Path(config.trials_from))):
        yield f"trials_from is {config.trials_from}, but the trials are not from that run"

    # compare the extensions that both the plan and the config have; `zip` ends with the shorter list
    planned_extensions = get_extensions(plan).steps
    pools_after_extensions = pools[1:]
    common_extensions = zip(planned_extensions, config.extensions, pools_after_extensions, strict=False)
    for number, (planned, requested, pool) in enumerate(common_extensions, 1):
        if not _is_same_step(planned, requested, pool, plan):
            yield f"extension number {number} differs"


def _has_other_order(plan: Plan, pool: Pool) -> bool:
    """Return whether a pool differs from the first pool of a plan only in the order of its agents and items."""
    extensions = get_extensions(plan)
    agents, items = plan.agent_ids[: extensions.anchors], plan.item_ids[: extensions.items]
    if (len(agents), len(items)) != (pool.n_agents, pool.n_items):
        return False
    return find_subpool(pool, agents, items, digest=extensions.pool) is not None


def _without_options(options: Mapping[str, Any], removed_names: Collection[str]) -> dict[str, Any]:
    """Return a copy of some options without those of certain names."""
    return {name: value for name, value in options.items() if name not in removed_names}


def _iter_planning_keys(config: RunConfig, plan: Plan) -> Iterator[tuple[str, object, object]]:
    """Yield the config keys on which planned trials depend, with their values.

    Each key has its value in the plan and its value in the config. A plan that selects trials of another run (`trials_from`)
    depends on fewer keys, because the other run determines its design.
    """
    yield "trials_from", "trials_from" in plan.options, config.trials_from is not None
    if not _takes_more_trials(config, plan):
        yield "calls", plan.options.get("calls"), config.calls
    yield "seed", plan.seed, config.seed
    yield "question", plan.question, config.question
    if config.trials_from is None:
        yield from _iter_design_keys(config, plan)


def _iter_design_keys(config: RunConfig, plan: Plan) -> Iterator[tuple[str, object, object]]:
    """Yield the config keys that decide how a design plans trials, with their values.

    The caller compares both values to decide whether a stored plan can be reused.

    config : config of the run
    plan : stored plan

    Yields tuples (key, value in the plan, value in the config).
    """
    requested_design = _get_requested_design(config, plan)
    yield "design", plan.design, requested_design
    yield "self_trials", plan.options.get("self_trials", 0), config.self_trials

    # options that decide when the rounds of a design stop may differ, because they do not change trials that are planned already
    ignored_options: tuple[str, ...] = ()
    if requested_design == plan.design:
        ignored_options = STOPPING_OPTIONS.get(plan.design, ())
    planned_options = _without_options(plan.options, {*_NO_DESIGN_OPTIONS, *ignored_options})
    _, requested_options = config.effective_design
    yield "options", planned_options, _without_options(requested_options, ignored_options)

    yield "independent", plan.request.independent, config.independent
    yield "holdout", plan.request.holdout, config.holdout
    yield "holdout_rule", plan.split.rule, config.holdout_rule


def _get_requested_design(config: RunConfig, plan: Plan) -> str:
    """Return the name of the design that the config requests, to compare it with that of a stored plan.

    With one or two agents, the design "cyclic" makes a plan that compares agents with themselves. Such a plan has another
    design name. If the stored plan is of this kind, its design name is returned instead of "cyclic".

    plan : stored plan
    """
    requested_name, _ = config.effective_design
    if plan.is_self_plan and requested_name == "cyclic":
        return plan.design
    return DESIGNS.load(requested_name).name


def _takes_more_trials(config: RunConfig, plan: Plan) -> bool:
    """Return whether a config selects more trials of another run (`trials_from`) than a plan has.

    With the same seed, the larger selection contains the trials of the plan. Returns False if the config has no `trials_from`,
    or if a number of calls is unknown.
    """
    planned_calls = plan.options.get("calls")  # None if the plan has all trials of the other run
    if config.trials_from is None or not isinstance(planned_calls, int):
        return False
    if config.calls is None:  # the config selects all trials
        return True
    return isinstance(config.calls, int) and config.calls > planned_calls


def is_part_of(plan: Plan, run: RunFolder) -> bool:
    """Return whether `plan` has trials of the plan of `run`, as it is now or as it was before an extension."""
    plan_of_run = run.read_plan()
    n_steps = len(get_extensions(plan_of_run).steps)
    possible_plans = (plan_after_extensions(plan_of_run, n) for n in range(n_steps + 1))
    return any(possible_plan.digest[:12] == plan.options.get("trials_from") for possible_plan in possible_plans)


def _is_same_step(planned: Extended, requested: ExtensionStep, pool: Pool, plan: Plan) -> bool:
    """Return whether an extension of the plan is the step that the config asks for."""
    if (planned.kind, planned.pool) != (requested.kind, pool.digest):
        return False
    focus = [plan.agent_ids[agent] for agent in planned.focus]
    planned_values = (planned.calls, planned.independent, focus, planned.top, planned.max_regret)
    requested_values = (
        requested.calls,
        requested.independent,
        requested.focus,
        requested.top,
        requested.max_regret,
    )
    return planned_values == requested_values


def _format_setting(value: object) -> str:
    """Format the value of a config key for a message; None is a key that the config does not contain."""
    return "left out" if value is None else str(value)


def check_same_run(folder: RunFolder, run_plan: RunPlan, judge: JudgeConfig) -> None:
    """Check that a run would not replace complete answers to another plan or of another judge.

    Answers in the folder are accepted if they belong to an unfinished run, or if the new plan extends the stored one. A replay is
    accepted in place of any judge.

    folder : folder of the run, which need not exist
    run_plan : plan of the run and plan in the folder, as returned by `find_run_plan`
    judge : judge of the run

    Raises RunFolderError [run-mismatch] if the folder has complete answers to another plan or of another judge, or an imported
    run. Raises RunFolderError [run-foreign] if the folder has no run, but contains files that the run would replace.
    """
    if not folder.is_judged:
        if folder.has("rates.parquet") and not folder.has("plan.parquet"):
            raise _make_mismatch_error(folder, "an imported run")
        check_no_foreign_files(folder)
        return

    run_digest = run_plan.plan.digest
    stored_digest = None if run_plan.stored_plan is None else run_plan.stored_plan.digest
    judged_digest = folder.read_judged_plan_digest()
    is_judged_plan_valid = judged_digest in (run_digest, stored_digest)

    # an earlier command may have stored the plan of the run, and then stopped before it replaced older answers
    is_plan_stored = run_digest == stored_digest
    if not is_judged_plan_valid and not is_plan_stored:
        raise _make_mismatch_error(folder, "the answers to another plan (pool, design, budget, holdout or seed differ)")
    _check_same_judge(folder, judge)


def _check_same_judge(folder: RunFolder, judge: JudgeConfig) -> None:
    """Check that the given judge made the answers in a run folder.

    Answers of two judges must not be mixed.

    folder : folder of a run with complete answers
    judge : judge of the present config

    Raises RunFolderError [run-mismatch] if another judge made the answers. If the judges differ only in the key `decision`, the
    message recommends to change this key. It decides whether an answer is read from the text of a reply or from
    log-probabilities.
    """
    recorded_judge = folder.read_recorded_judge()
    if is_same_judge(recorded_judge, judge):
        return

    decision = recorded_judge.get("decision")
    if judge.makes_calls and decision in MAX_TOKENS:  # has an entry for each valid value of the key
        with_recorded_decision = judge.with_changes({"decision": decision})
        if is_same_judge(recorded_judge, with_recorded_decision):
            remedy = f"Set `decision: {decision}` in the judge's config to continue this run, or set {_NEW_NAME}"
            raise _make_mismatch_error(folder, f"answers of this judge with `decision: {decision}`", remedy=remedy)

    command = format_command(["youden", "rejudge", str(folder.path), "--judge", "JUDGE", "--calls", "N/agent"])
    remedy = f"Run `{command}` to query this judge on the same trials, or set {_NEW_NAME}"
    raise _make_mismatch_error(folder, "another judge's answers", remedy=remedy)


def check_no_foreign_files(folder: RunFolder) -> None:
    """Check that a new run in a folder would not replace files that do not belong to a run.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run, which need not exist. It belongs to a run if it has a plan or the pool.json of a run.

    Raises
    ------
    RunFolderError
        [run-foreign]: if the folder does not belong to a run, but contains a file that a run would replace.
    """
    # a run can be without its plan, for example because the plan was damaged and removed
    if folder.has("plan.parquet") or _has_readable_pool(folder):
        return

    replaced_files = [name for name in COMMAND_BY_FILE if name != "generation.json" and folder.has(name)]
    if replaced_files:
        raise RunFolderError(
            f"{folder.path} does not contain a run, and a run would replace files in it: got {replaced_files[0]}. Set --out to "
            "a new folder, or move these files.",
            slug="run-foreign",
        )


def _has_readable_pool(folder: RunFolder) -> bool:
    """Return whether a folder has a pool.json that describes the pool of a run, and that can be read."""
    try:
        folder.read_pool()
    except RunFolderError:
        return False
    return True


def _suggest_search(config: RunConfig, folder: RunFolder, stored_plan: Plan) -> str:
    """Suggest the command that continues a run with a search for the best agents.

    stored_plan : plan in the folder

    Returns sentences without a full stop at the end. Returns "" if the config does not ask for a search, if the run is a search
    already, or if it has no ranking.
    """
    design, _ = config.effective_design
    asks_for_search = design == Adaptive.name and stored_plan.design != Adaptive.name
    if not asks_for_search or not folder.has("fit.json"):
        return ""

    goal = ["--calls", "N"]
    if config.max_regret:
        goal = ["--max-regret", f"{config.max_regret:g}"]
    if config.top:
        goal += ["--top", str(config.top)]
    command = format_command(["youden", "extend", "best", str(folder.path), *goal])
    first_sentence, _, _ = read_recommendation(folder).text.partition(". ")
    return f"Run `{command}` to continue with a search. So far: {first_sentence}. To search from the start, set {_NEW_NAME}"


def _suggest_extension(config: RunConfig, folder: RunFolder, stored_plan: Plan, pool: Pool) -> str:
    """Suggest the command that extends a run to a larger pool.

    The pool may have more agents, items or repeats (further responses).

    stored_plan : plan in the folder
    pool : present pool of the config

    Returns two sentences without a full stop at the end, such as "2 agents were added to its pool. Run `youden extend agents …`
    to add them to the run, …". Returns "" if the run was extended before, or if the pool differs in another way.
    """
    was_extended = bool(config.extensions or get_extensions(stored_plan).steps)
    old_pool = _find_original_pool(stored_plan, pool)
    if was_extended or old_pool is None:
        return ""

    n_added_by_kind = _count_additions(old_pool, pool)
    if not n_added_by_kind:
        return ""

    # new agents and items also have new responses, so the first kind is the one to extend by
    kind = next(iter(n_added_by_kind))
    n_added = n_added_by_kind[kind]
    cost = ""
    with suppress(YoudenError):  # no cost if the judge cannot be loaded, or the plan cannot be extended
        joined_pool = JOIN_BY_KIND[kind](old_pool, pool)
        extend = _EXTEND_BY_KIND[kind]
        extended = extend(plan_without_follow_ups(stored_plan), joined_pool)
        cost = _format_added_cost(load_judge_of_run(config), stored_plan.with_pool(old_pool), extended)
    command = format_command(["youden", "extend", kind, str(folder.path), config.pool])
    additions = format_count(n_added, kind.removesuffix("s"), "was", "were")
    return f"{additions} added to its pool. Run `{command}`{cost} to add them to the run, or set {_NEW_NAME}"


def _find_original_pool(stored_plan: Plan, pool: Pool) -> Pool | None:
    """Find the pool for which a run was first planned.

    It is a part of the present pool.

    stored_plan : plan of the run
    pool : present pool, which may have more agents, items or responses

    Returns None if the present pool does not contain the original one unchanged.
    """
    # the first plan has the first agents (the anchors) and the first items of the extended plan
    extensions = get_extensions(stored_plan)
    agent_ids = stored_plan.agent_ids[: extensions.anchors]
    item_ids = stored_plan.item_ids[: extensions.items]
    return find_subpool(pool, agent_ids, item_ids, digest=extensions.pool)


def _count_additions(old_pool: Pool, pool: Pool) -> dict[str, int]:
    """Count how many more agents, items and responses a pool has than an earlier version of it.

    Returns a mapping from the kind of extension to the number, in the order "agents", "items", "repeats" (further responses).
    Kinds without an addition are left out.
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


def _make_plan_mismatch_error(folder: RunFolder, differences: Sequence[str], remedy: str) -> RunFolderError:
    """Return the error [run-mismatch] for a judged run whose stored plan does not fit its config.

    differences : phrases that describe the differences between the stored plan and the config
    remedy : sentences without a full stop at the end; "" for the usual remedy for these differences
    """
    has_pool_changed = _POOL_CHANGED in differences or _OTHER_ORDER in differences
    if not remedy and has_pool_changed:
        remedy = f"Restore the pool as it was judged, or set {_NEW_NAME}"
    return _make_mismatch_error(folder, f"the answers to another plan: {'; '.join(differences)}", remedy=remedy)


def _make_mismatch_error(folder: RunFolder, content: str, *, remedy: str = "") -> RunFolderError:
    """Return the error [run-mismatch] for a folder that holds something else than the run of the config.

    content : what the folder holds
    remedy : sentences without a full stop at the end; "" for the advice to set another name or --out
    """
    remedy = remedy or f"Set {_NEW_NAME}"
    return RunFolderError(
        f"{folder.path} holds {content}. {remedy}; with the same store, stored answers are reused.", slug="run-mismatch"
    )


def is_same_judge(recorded: Mapping[str, Json], judge: JudgeConfig) -> bool:
    """Return whether a judge gave the answers in a run folder, as far as the folder records it.

    The result is always True for a judge that repeats recorded answers, because these can come from any judge.

    recorded : description of the judge that gave the answers, with the keys of `JudgeConfig.describe`
    judge : judge of the run
    """
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
    """Return whether a jury is the one that gave the answers in a run folder.

    A jury consists of several judges, whose votes are combined into one answer. The judges must be the same ones in the same
    order, and their votes must be combined by the same rule.

    recorded : description of the judge that gave the answers, with the keys of `JudgeConfig`; it may be a single judge
    jury : config of the jury
    """
    recorded_judges = recorded.get("judges")
    if not isinstance(recorded_judges, list) or len(recorded_judges) != len(jury.judges):
        return False
    if recorded.get("vote") != jury.vote:
        return False

    pairs = zip(recorded_judges, jury.judges, strict=True)
    return all(isinstance(old_judge, dict) and is_same_judge(old_judge, judge) for old_judge, judge in pairs)
