"""Define the commands that send more requests for a judged run: `extend` and `rejudge`.

An extension sends only the requests of new trials, and a second judge those of a sample of the trials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from youden.cli import options, output, progress, run_options
from youden.cli.options import Number, SuggestingGroup
from youden.cli.results import iter_judges_tables
from youden.errors import ConfigError
from youden.project_store import usual_store
from youden.text.printable import format_command, printable
from youden.text.sentences import format_count
from youden.text.tables import format_decimal

if TYPE_CHECKING:
    from youden.pipeline.fitted_run import RunFit
    from youden.report.data.summary import Summary
    from youden.types.facts import AgentChange, ExtensionFacts
    from youden.types.pool import Json
    from youden.workflows.planned_extension import PlannedExtension

MAX_CHANGES = 10
"""Maximum number of agents in the table of changed abilities."""

F = TypeVar("F", bound=Callable[..., None])


@click.group("extend", cls=SuggestingGroup)
def extend_command() -> None:
    """Extend RUN by agents, items, repeats or more calls.

    RUN is the folder of a judged run. Only new trials are judged. New agents are compared with the anchors, a balanced sample of
    the first agents of the run, on items on which the anchors were judged. Their abilities are on the same scale, and the
    abilities of other agents do not change. New items and more calls add trials of all agents: those that a larger budget would
    have planned. If agents have several responses to an item, new trials use the response that was shown least often.

    Calls and cost are printed before any request is sent. The ranking changes only when all new answers are stored. To resume an
    extension that was stopped before its report was written, run the same command again; no stored answer is paid for
    twice, and --max-cost may differ. Until then, RUN refuses other extensions. Afterwards, config.yaml reproduces the whole run.
    The report shows which abilities changed, and whether agents of the run drifted.
    """


def _extend_subcommand(name: str, *parameters: Callable[[F], F]) -> Callable[[F], click.Command]:
    """Return a decorator that registers a function as a subcommand of `youden extend`.

    Each subcommand adds something else to a run: agents, items, repeats or calls. All have the argument RUN and some shared
    options.

    name : name of the subcommand
    parameters : click decorators of the options and arguments that only this subcommand has. The help lists them in this order,
        between RUN and the shared options.
    """
    decorators: tuple[Callable[..., Any], ...] = (
        options.run,
        *parameters,
        run_options.config_options("judge", "max_cost", "max_missing", "target"),
        run_options.judging_options,
        options.dry_run,
        options.output_options,
    )

    def make_subcommand(function: F) -> click.Command:
        """Add RUN, the options of this subcommand and the shared options to a function, and register it in `youden extend`."""
        function_with_parameters = options.add_parameters(function, decorators)
        return extend_command.command(name)(function_with_parameters)

    return make_subcommand


_pool = partial(click.argument, metavar="POOL", type=click.Path())
_calls = click.option(
    "--calls",
    type=click.IntRange(min=1),
    help="Number of calls. [default: as many per new agent, item or repeat as the run has per agent, item or repeat]",
)
_half_width = Number(min=0, min_open=True)


@_extend_subcommand(
    "agents",
    _pool("agents"),
    _calls,
    click.option(
        "--half-width",
        type=_half_width,
        metavar="X",
        help="Add the calls needed for this half-width of the 95% intervals of the new agents, instead of --calls.",
    ),
)
def agents_command(**arguments: Any) -> None:
    """Add the new agents of POOL to RUN.

    Agents that are already in the run are skipped. The new agents are compared with a balanced sample of the agents of the run.
    """
    _extend_and_print(**arguments)


@_extend_subcommand("items", _pool("items"), _calls)
def items_command(**arguments: Any) -> None:
    """Add the new items of POOL, to which all agents of RUN respond."""
    _extend_and_print(**arguments)


@_extend_subcommand("repeats", _pool("repeats"), _calls)
def repeats_command(**arguments: Any) -> None:
    """Add further responses of the agents of RUN, from POOL."""
    _extend_and_print(**arguments)


@_extend_subcommand(
    "calls",
    click.argument("calls", metavar="BUDGET", callback=run_options.parse_budget),
    click.option(
        "--focus",
        multiple=True,
        metavar="AGENT",
        help="Spend BUDGET on this agent only; BUDGET is then a number of calls. Repeatable.",
    ),
)
def calls_command(**arguments: Any) -> None:
    """Add calls on all agents of RUN, or on some of them.

    BUDGET is a number of calls (4000), a percentage of the dense calls (1%), or trials per agent (50/agent). If high
    false-positive rates cause most of the variance of the abilities, more calls than by default serve to estimate these rates.
    """
    _extend_and_print(**arguments)


@_extend_subcommand("half-width", click.argument("half_width", metavar="X", type=_half_width))
def half_width_command(**arguments: Any) -> None:
    """Add calls until the 95% intervals of 90% of the agents are ± X or narrower."""
    _extend_and_print(**arguments)


@_extend_subcommand(
    "best",
    click.option(
        "--top", type=click.IntRange(min=1), metavar="N", help="Number of best agents to search for. [default: 1]"
    ),
    click.option(
        "--max-regret",
        type=Number(min=0, min_open=True, max=2, max_open=True),
        metavar="X",
        help="Stop when the bound on the regret of the selected agents is at most X. [default: stop when --calls are spent]",
    ),
    click.option("--calls", type=click.IntRange(min=1), help="Maximum number of calls; required without --max-regret."),
)
def best_command(top: int | None, max_regret: float | None, **arguments: Any) -> None:
    """Search RUN for its best agents, in rounds.

    Each round queries the judge only about agents that may still be among the best, so each round has fewer agents. --max-cost
    limits what all rounds together add to the cost of the run.
    """
    if max_regret is None and arguments["calls"] is None:
        raise ConfigError(
            "A search needs an end: got neither --calls nor --max-regret. Set --calls N or --max-regret X.",
            slug="extend-options",
        )
    if top is None and max_regret is None:
        top = 1
    _extend_and_print(top=top, max_regret=max_regret, **arguments)


def _extend_and_print(
    *,
    run: Path,
    overrides: run_options.Overrides,
    make_options: run_options.OptionsFactory,
    dry_run: bool,
    output_mode: options.OutputMode,
    **request: Any,
) -> None:
    """Plan an extension of the run in the folder `run`, print its plan, send its requests, and print the extended run.

    request : keyword arguments of `plan_extension`
    dry_run : whether only the plan is printed

    If nothing can be added, the reason is printed.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.workflows.extend import extend_run, finish_extension, plan_extension

    RunFolder(run).check_not_imported()
    changes = {key: value for key, value in overrides.items() if key != "max_cost"}
    config = run_options.load_config(run / "config.yaml", changes)
    planned = plan_extension(config, max_cost=overrides.get("max_cost"), **request)
    if isinstance(planned, str):  # the reason why nothing can be added
        output.print_note(f"no request is sent: {planned}")
        if output_mode == "json":
            output.print_json({"run": str(run), "dry_run": dry_run, "ended": planned})
        return

    if planned.resumed and output_mode != "quiet":
        output.print_note(f"resume: finishing the stopped extension, step {planned.unfinished.number + 1} of {run}")
    _print_plan(planned, "verbose" if dry_run else output_mode)
    plan: dict[str, Json] = {
        "run": str(run),
        "dry_run": dry_run,
        "cost": asdict(planned.cost),
        "joined": list(planned.new_agents),
        "half_width": planned.half_width,
    }
    extended = progress.run_with_progress(
        plan,
        lambda bar: extend_run(planned, make_options(progress=bar)),
        dry_run=dry_run,
        as_json=output_mode == "json",
        quiet=output_mode == "quiet",
    )
    if extended is None:
        return

    fitted, end_reason = extended
    _print_extended_run(planned, fitted, end_reason, plan=plan, output_mode=output_mode)
    finish_extension(planned.run.folder)


def _print_extended_run(
    planned: PlannedExtension,
    fitted: RunFit,
    end_reason: str,
    *,
    plan: dict[str, Json],
    output_mode: options.OutputMode,
) -> None:
    """Write the report of an extended run, and print its new ranking and how the extension changed the abilities.

    fitted : the run with its new ranking
    end_reason : why a search for the best agents ended; an empty string for other extensions
    plan : planned extension as JSON, the first part of the output in the mode "json"
    """
    from youden.report.pages.writing import write_report
    from youden.workflows.extend import list_agents_with_wide_intervals

    summary = write_report(planned.run.folder)
    agents_with_wide_interval = list_agents_with_wide_intervals(planned, fitted)
    warnings = _describe_wide_intervals(planned, agents_with_wide_interval)
    if output_mode == "json":
        output.print_warnings(warnings)
        result = _extended_run_to_json(fitted, summary, end_reason)
        output.print_json({**plan, **result})
        return

    search_end = f"search: {end_reason}" if end_reason else ""
    output.print_judged_run(
        planned.run.folder,
        summary,
        output_mode,
        end_reason=search_end,
        changes=summary.extension_sentences,
        warnings=warnings,
    )
    # in this mode, `print_judged_run` does not print the changes
    if output_mode == "verbose" and fitted.facts.extension is not None:
        _print_agent_changes(fitted.facts.extension)
        for sentence in summary.extension_sentences:
            click.echo(printable(sentence))


def _extended_run_to_json(fitted: RunFit, summary: Summary, end_reason: str) -> dict[str, Json]:
    """Convert the result of an extension to JSON: the changes, and the recommendation of the extended run.

    fitted : the run with its new ranking
    summary : summary of this run, with the changes in sentences
    end_reason : why a search for the best agents ended. Other extensions pass an empty string, and the result then has no key
        "ended"
    """
    extension = fitted.facts.extension
    changes: Json = None
    if extension is not None:
        changes = {**asdict(extension), "summary": list(summary.extension_sentences)}
    result: dict[str, Json] = {"extension": changes, "recommendation": asdict(summary.recommendation)}
    if end_reason:
        result["ended"] = end_reason
    return result


def _print_plan(planned: PlannedExtension, output_mode: options.OutputMode) -> None:
    """Print the trials that an extension adds, their cost, and the expected half-width of the intervals."""
    half_width = planned.half_width
    half_width_text = None if half_width is None else f"{half_width:.3f}"
    output.print_plan(planned.run, output_mode, plan=planned.new_trials, cost=planned.cost, half_width=half_width_text)
    if half_width is not None and output_mode in ("verbose", "json"):
        output.print_note(f"plan: {_describe_width(half_width, n_joined=len(planned.new_agents))}")


def _describe_wide_intervals(planned: PlannedExtension, agents: tuple[str, ...]) -> list[str]:
    """Warn that intervals of new agents are wider than requested, and name the command that narrows them.

    agents : ids of the new agents whose intervals are too wide

    Returns a list of one warning; the list is empty if `agents` is empty.
    """
    if not agents:
        return []

    command = format_command(["youden", "extend", "calls", str(planned.run.folder.path)])
    focus_arguments: list[str] = []
    for agent in agents:
        focus_arguments += ["--focus", agent]
    focus_options = format_command(focus_arguments)
    n_new_agents = len(planned.new_agents)
    return [
        f"{len(agents)} of {n_new_agents} intervals are wider than ± {planned.unfinished.half_width:g}; to narrow them, add "
        f"calls: {command} N {focus_options}"
    ]


def _describe_width(half_width: float, *, n_joined: int) -> str:
    """Describe the expected half-width of the intervals of `n_joined` new agents, or of all agents if it is 0."""
    if not n_joined:
        return (
            f"90% of the agents are expected to have at most ± {half_width:.3f}, estimated from the answers of the run"
        )
    return (
        f"intervals of {format_count(n_joined, 'new agent')}: about ± {half_width:.3f}, if their answers vary as much as those "
        "of the agent that varies most"
    )


def _print_agent_changes(extension: ExtensionFacts) -> None:
    """Print a table of the agents whose displayed abilities an extension of a run changed, the largest changes first.

    The table has at most `MAX_CHANGES` agents; a note states how many other abilities changed.
    """
    from youden.report.data.ranking_tables import build_changes_table

    changes = [
        change for change in extension.agent_changes if format_decimal(change.before) != format_decimal(change.after)
    ]

    def get_size(change: AgentChange) -> float:
        """Return how much the ability changed; an agent without an ability counts as average (0)."""
        return abs((change.after or 0) - (change.before or 0))

    changes.sort(key=get_size, reverse=True)
    if changes:
        output.print_table(build_changes_table(changes[:MAX_CHANGES]))
    if len(changes) > MAX_CHANGES:
        output.print_note(f"{len(changes) - MAX_CHANGES} smaller changes are not shown; see fit.json")


@click.command("rejudge")
@options.run
@click.option(
    "--judge", required=True, help="Second judge: name of a judge in configs/judges/, or path of a .yaml file."
)
@run_options.config_options(
    "max_cost",
    "max_missing",
    calls="Budget: number of trials of the run (400), percentage of the dense calls (1%), or trials per agent (50/agent). "
    "[default: 50/agent, or the calls of an earlier run in --out if these are more]",
    out="Folder of the new run. [default: RUN-by-JUDGE]",
    store="Store of its answers. [default: YOUDEN_STORE, else .youden/answers.db of the project]",
    seed="Seed for the trials. [default: 0]",
)
@run_options.judging_options
@options.family_option("the name of the judge, not of a folder")
@options.dry_run
@options.json
def rejudge_command(
    *,
    run: Path,
    judge: str,
    overrides: run_options.Overrides,
    make_options: run_options.OptionsFactory,
    families: dict[str, str],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Query a second judge on a sample of the trials of RUN.

    The sample is balanced over agents and items. The result shows how often the judges agree on a trial, and the correlation of
    their rankings. For comparison, it shows the correlation between the ranking of RUN and the ranking that the first judge gives
    on the sampled trials alone. It lists agents whose abilities differ significantly between the judges, and states whether a
    judge favors agents of its own family. The family of an agent is `meta.family` in agents.jsonl of the pool. The family of a
    judge is `family:` in its config, or --family JUDGE=NAME.

    The sample becomes a separate run with its own config, which `youden run`, `report`, `compare` and `cassette` accept. Stored
    answers are reused. Run the same command again to resume. --dry-run writes the config and the plan of the new run, and sends
    no request.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.fitted_run import fit_run
    from youden.pipeline.judged_run import judge_run
    from youden.types.pool import plain_fields
    from youden.workflows.rejudge import compare_rejudged, plan_rejudge

    planned = plan_rejudge(RunFolder(run), judge=judge, changes=overrides, usual_store=usual_store(), families=families)
    second_run = planned.again
    output.print_run_plan(second_run)
    plan: dict[str, Json] = {"run": str(second_run.folder.path), "first_run": str(run)}
    plan |= {"judge": second_run.judge.name, "cost": asdict(second_run.cost)}
    verdicts = progress.run_with_progress(
        {**plan, "notes": list(second_run.plan.notes)},
        lambda bar: judge_run(second_run, make_options(progress=bar)),
        dry_run=dry_run,
        as_json=as_json,
    )
    if verdicts is None:
        return
    fit_run(second_run.folder)
    comparison = compare_rejudged(planned, families=families)
    study, path = plain_fields(comparison.study), second_run.folder.path
    command = format_command(["youden", "report", str(run), "--against", str(path)])
    locations = f"run: {path}; to compare the reports: {command}"
    output.print_result(
        as_json,
        {**plan, "retest": comparison.retest, "summary": list(comparison.summary), "judges": study},
        tables=iter_judges_tables(comparison.study),
        lines=(*comparison.study.summary, *comparison.summary),
        warnings=verdicts.warnings,
        notes=[f"{output.format_uncertain_costs(verdicts.warnings)}{locations}"],
    )
