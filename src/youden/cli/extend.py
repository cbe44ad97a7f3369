"""Commands for a run week by week: extend, gate, rejudge.

`youden extend agents RUN POOL`, `calls RUN N`, …: extend a judged run.

`youden gate RUN --agent NEW --baseline OLD`: may NEW take OLD's place?

`youden rejudge RUN --judge B --calls N`: would another judge rank alike?
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from youden.cli import UNDECIDED, options, output, progress, run_options
from youden.cli.options import Number, SuggestingGroup
from youden.cli.results import judges_tables
from youden.errors import InputError
from youden.project_store import usual_store
from youden.text.printable import format_command, printable
from youden.text.sentences import format_count
from youden.text.tables import format_decimal

if TYPE_CHECKING:
    from youden.run_keys import Target
    from youden.types.facts import ExtensionFacts
    from youden.types.pool import Json
    from youden.workflows.planned_extension import PlannedExtension

MAX_MOVED = 10
"""Maximum number of agents that the table of moved abilities shows."""

F = TypeVar("F", bound=Callable[..., None])


@click.group("extend", cls=SuggestingGroup)
def extend_command() -> None:
    """Extend RUN by agents, items, repeats or more calls.

    RUN is the folder of a judged run. Only new comparisons are asked. New agents are compared with a balanced set of the
    run's own, on the items that those were judged on, and get abilities on the same scale. An ability moves only by answers
    about that agent. New items and more calls add trials for all agents, exactly those that a larger budget would have
    drawn. If agents have several responses to an item, new trials use the response that was shown least often.

    Calls and cost are shown first. Rankings and tables change only once the new answers are stored. If an extension is stopped
    before its report is written, the same command resumes it and pays for nothing twice; --max-cost may differ. RUN refuses other
    extensions until then. Afterwards config.yaml reproduces the whole run, and the same command extends it once more. The
    report shows what moved, and whether an agent of the run drifted.
    """


def _extension(name: str, *parameters: Callable[[F], F]) -> Callable[[F], click.Command]:
    """Make a command of `extend`. parameters: those of its own; they and the shared ones arrive as arguments of `_extend`."""

    def decorate(function: F) -> click.Command:
        command = options.shown(function)
        shared = (
            run_options.of_config("judge", "max_cost", "max_missing", "target"),
            run_options.asking,
            options.dry_run,
        )
        for decorator in (*reversed(shared), *reversed(parameters), options.run):
            command = decorator(command)
        return extend_command.command(name)(command)

    return decorate


_pool = partial(click.argument, metavar="POOL", type=click.Path())
_calls = click.option(
    "--calls",
    type=click.IntRange(min=1),
    help="How many calls. [default: as many for each new agent, item or repeat as one of the run got]",
)
_width = Number(min=0, min_open=True)


@_extension(
    "agents",
    _pool("agents"),
    _calls,
    click.option(
        "--width",
        type=_width,
        metavar="W",
        help="Half-width of the new agents' 95 % intervals: add as many calls as it takes. Not with --calls.",
    ),
)
def agents_command(**given: Any) -> None:
    """Add the new agents of POOL to RUN.

    Agents that are in the run already are left out. The new ones are compared with a balanced set of the run's own.
    """
    _extend(**given)


@_extension("items", _pool("items"), _calls)
def items_command(**given: Any) -> None:
    """Add the new items of POOL, answered by all agents of RUN."""
    _extend(**given)


@_extension("repeats", _pool("repeats"), _calls)
def repeats_command(**given: Any) -> None:
    """Add further responses of RUN's agents, from POOL."""
    _extend(**given)


@_extension(
    "calls",
    click.argument("calls", metavar="BUDGET", callback=run_options.parse_budget),
    click.option("--focus", multiple=True, metavar="AGENT", help="Spend BUDGET (a number) on this agent. Repeatable."),
)
def calls_command(**given: Any) -> None:
    """Add calls on all agents of RUN, or on some.

    BUDGET is a number of calls (4000), a percentage of the dense calls (1%) or trials per agent (50/agent).
    """
    _extend(**given)


@_extension("width", click.argument("width", metavar="W", type=_width))
def width_command(**given: Any) -> None:
    """Add as many calls as give nine in ten agents of RUN ± W."""
    _extend(**given)


@_extension(
    "best",
    click.option("--top", type=click.IntRange(min=1), metavar="N", help="How many are searched. [default: 1]"),
    click.option(
        "--within",
        type=Number(min=0, min_open=True, max=2, max_open=True),
        metavar="D",
        help="Ask until those named are at most D from the best. [default: until --calls are spent]",
    ),
    click.option("--calls", type=click.IntRange(min=1), help="Maximum number of calls; needed without --within."),
)
def best_command(top: int | None, within: float | None, **given: Any) -> None:
    """Search RUN for its best agents, in rounds.

    Each round asks about fewer of the agents that may be the best. --max-cost holds for all rounds together.
    """
    _extend(top=top or (1 if within is None else None), within=within, **given)


def _extend(
    *,
    run: Path,
    said: run_options.Said,
    asking: run_options.Terms,
    dry_run: bool,
    how: options.Shown,
    **request: Any,
) -> None:
    """Plan an extension, show its plan, run it and show the extended run."""
    from youden.report.pages.writing import write_report
    from youden.workflows.extend import extend_run, find_too_wide, finish_extension, plan_extension

    planned = plan_extension(run_options.run_config(run / "config.yaml", said), **request)
    if isinstance(planned, str):
        output.note(f"nothing is asked: {planned}")
        if how == "json":
            output.print_json({"run": str(run), "dry_run": dry_run, "ended": planned})
        return
    if planned.resumed and how != "quiet":
        output.note(f"resume: finishing the stopped extension, step {planned.unfinished.number + 1} of {run}")
    _show_plan(planned, "verbose" if dry_run else how)
    found: dict[str, Json] = {
        "run": str(run),
        "dry_run": dry_run,
        "cost": asdict(planned.cost),
        "joined": list(planned.joined),
        "half_width": planned.half_width,
    }
    done = progress.asked(
        found,
        lambda bar: extend_run(planned, asking(progress=bar)),
        dry_run=dry_run,
        as_json=how == "json",
        quiet=how == "quiet",
    )
    if done is None:
        return
    fitted, ended = done
    folder, growth = planned.run.folder, fitted.facts.growth
    summary = write_report(folder).summary
    warnings = _describe_wide(planned, find_too_wide(planned, fitted))
    if how == "json":
        output.warn(warnings)
        found["growth"] = None if growth is None else {**asdict(growth), "words": list(summary.moved)}
        found["recommendation"] = asdict(fitted.facts.recommendation)
        output.print_json(found | ({"ended": ended} if ended else {}))
    else:
        why = ended and f"search: {ended}"
        output.show_asked(folder, summary, how, why=why, moved=summary.moved, warnings=warnings)
        if how == "verbose" and growth is not None:
            _draw_moved(growth)
            for line in summary.moved:
                click.echo(printable(line))
    finish_extension(folder)


def _show_plan(planned: PlannedExtension, how: options.Shown) -> None:
    """Print what will be asked, and the expected half-width."""
    half_width = planned.half_width
    width = None if half_width is None else f"{half_width:.3f}"
    output.show_plan(planned.run, how, plan=planned.new_trials, cost=planned.cost, half_width=width)
    if half_width is not None and how in ("verbose", "json"):
        output.note(f"plan: {_describe_width(half_width, n_joined=len(planned.joined))}")


def _describe_wide(planned: PlannedExtension, wide: tuple[str, ...]) -> list[str]:
    """Name the command that narrows the intervals of agents that joined, if they are wider than asked for."""
    if not wide:
        return []
    command = format_command(["youden", "extend", "calls", str(planned.run.folder.path)])
    names = format_command(word for agent in wide for word in ("--focus", agent))
    return [
        f"{len(wide)} of {len(planned.joined)} intervals came out wider than ± {planned.unfinished.width:g}; more calls narrow "
        f"them: {command} N {names}"
    ]


def _describe_width(half_width: float, *, n_joined: int) -> str:
    if not n_joined:
        return f"nine in ten agents will have about ± {half_width:.3f}, from the run's own answers"
    return (
        f"intervals of {format_count(n_joined, 'new agent')}: about ± {half_width:.3f}, if their "
        "answers vary as those of the agent "
        "that varies most"
    )


def _draw_moved(growth: ExtensionFacts) -> None:
    """Draw the agents whose abilities moved, the largest moves first; a rank that only new agents changed is no move."""
    from youden.report.data.ranking_tables import moved_table

    moved = [move for move in growth.moves if format_decimal(move.before) != format_decimal(move.after)]
    moved.sort(key=lambda move: abs((move.after or 0) - (move.before or 0)), reverse=True)
    if moved:
        output.draw(moved_table(moved[:MAX_MOVED]))
    if len(moved) > MAX_MOVED:
        output.note(f"{len(moved) - MAX_MOVED} more moved, by less; fit.json has all")


ENDS = {"worse": 1, "undecided": UNDECIDED}
"""What a gate ends with; 0 where nobody is worse or undecided."""


@click.command("gate")
@options.run
@click.option(
    "--agent",
    "agents",
    multiple=True,
    required=True,
    help="The new agent. Repeatable: several share the error.",
)
@click.option("--baseline", required=True, help="The agent it is compared with.")
@click.option("--margin", type=float, default=0.05, help="How much worse still counts as no worse.")
@click.option(
    "--target",
    type=click.Choice(["items-like-these", "these-items"]),
    help="What differences describe: how agents would do on more items like these, or on these items alone. "
    "[default: what the run says, else items-like-these]",
)
@click.option(
    "--by",
    type=click.Choice(["ability", "quality"]),
    default="ability",
    help="What is compared. quality: what --labels and ability say together, in the labels' units.",
)
@options.of_labels
@click.option(
    "--ledger",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where looks are counted; keep it under version control where RUN is thrown away. [default: RUN/gates.json]",
)
@click.option("--markdown", metavar="FILE", help="Write it as Markdown; - for standard output.")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write it as JUnit XML.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Say which look this would be and at what level; do not count it.",
)
@options.json
def gate_command(
    *,
    run: Path,
    agents: tuple[str, ...],
    baseline: str,
    margin: float,
    target: Target | None,
    by: Literal["ability", "quality"],
    files: tuple[Path, ...],
    label: str | None,
    scale: tuple[float, float] | None,
    ledger: Path | None,
    markdown: str | None,
    junit: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Is --agent better, no worse or worse than --baseline?

    The answer comes from RUN, and is about items of this kind unless --target says otherwise. The difference of their abilities
    gets an interval, from what each item contributes to it. If all of it lies above 0, the agent is better; if all of it lies
    above −margin, no worse: exit code 0 for both. If all of it lies below 0 but not above −margin, the agent is worse: 1. Else
    it is undecided: 3. It then names the command whose calls decide with a chance of 90 %, wherever the truth lies, or the
    number of items that would. Agents that were hardly seen to differ are undecided below some 70 items: 12 agreements of 12
    still allow a difference on a quarter of all items.

    Nothing is asked and nothing spent. You may look again after more calls: look m may err with 2.5 % / 2^(m−1) on either
    side. Over all looks a wrong 'worse' then has a chance of at most 5 %, and so has a wrong pass. Looks are counted in
    --ledger; the same answers again are the same look. Several --agent in one command share the error (Bonferroni); in commands
    of their own they do not.

    --by quality compares what a label would say on average instead (`youden quality`), from --labels and ability together; other
    labels are another look.

    In JUnit XML an agent is a test: worse is a failure, undecided an error.
    """
    from youden.report.pages.writing import gate_markdown
    from youden.runs.run_object import Run
    from youden.workflows.gate import plan_analyses
    from youden.workflows.gate_text import describe_gate, gate_table
    from youden.workflows.quality import read_answers

    if as_json and markdown == "-":
        raise InputError("--json and --markdown - both want standard output. Give a file to one.", slug="gate-output")
    if (by == "quality") != bool(files):
        raise click.UsageError("--by quality and --labels FILE belong together. Give both, or neither.")
    judged = Run(run)
    if dry_run:
        folder = judged.folder
        labels = read_answers(folder, files, label=label, scale=scale) if files else None
        looks = plan_analyses(folder, agents, baseline=baseline, ledger=ledger, target=target, labels=labels)
        if as_json:
            output.print_json({"dry_run": True, "calls": 0, "usd": 0.0, "looks": [asdict(look) for look in looks]})
        for look in looks:
            output.note(
                f"{look.agent} against {baseline}: look {look.look}, at a level of {100 * look.level:.4g} %; 0 calls, $0.00"
            )
        return 0
    gate = judged.gate(
        *agents,
        baseline=baseline,
        margin=margin,
        target=target,
        labels=files or None,
        label=label,
        scale=scale,
        ledger=ledger,
        markdown=None if markdown == "-" else markdown,
        junit=junit,
    )
    if markdown == "-":
        click.echo(gate_markdown(gate), nl=False)
        return ENDS.get(gate.verdict, 0)
    output.tell(as_json, gate.to_json(), tables=[gate_table(gate)], notes=describe_gate(gate))
    return ENDS.get(gate.verdict, 0)


@click.command("rejudge")
@options.run
@click.option(
    "--judge", required=True, help="The second judge: a name in configs/judges/, or a path that ends in .yaml."
)
@run_options.of_config(
    "max_cost",
    "max_missing",
    calls="Budget: a number of the run's trials (400), a percentage of the dense calls (1%), or trials per agent (50/agent).",
    out="The new run's folder. [default: RUN-by-JUDGE]",
    store="Where its answers are kept. [default: YOUDEN_STORE, else the project's .youden/answers.db]",
    seed="Draws the trials. [default: 0]",
)
@run_options.asking
@options.family
@options.dry_run
@options.json
def rejudge_command(
    *,
    run: Path,
    judge: str,
    said: run_options.Said,
    asking: run_options.Terms,
    families: dict[str, str],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Ask a second judge part of RUN's trials: do the two agree?

    The part is balanced over agents and items. Shows how often they agree on a trial; how alike they rank, beside how alike
    RUN's own judge would rank on so few trials; which agents move beyond chance; and whether a judge favours agents of its
    own family. Families are `meta.family` of agents in the pool's agents.jsonl, and `family:` in a judge's config or --family
    JUDGE=NAME.

    The part is a run of its own, with a config that makes it again: `youden run`, `report`, `compare` and cassettes take it
    like any other. Nothing that its store holds is asked again; the same command resumes.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.fitted_run import fit_run
    from youden.pipeline.judged_run import judge_run
    from youden.types.pool import plain_fields
    from youden.workflows.rejudge import compare_rejudged, plan_rejudge

    if "calls" not in said:
        raise click.UsageError("The number of calls is missing. Set --calls, as in --calls 50/agent.")
    planned = plan_rejudge(RunFolder(run), judge=judge, changes=said, usual_store=usual_store())
    again = planned.again
    output.show_run_plan(again)
    shown: dict[str, Json] = {
        "run": str(again.folder.path),
        "of": str(run),
        "judge": again.judge.name,
        "cost": asdict(again.cost),
    }
    result = progress.asked(
        {**shown, "notes": list(again.plan.notes)},
        lambda bar: judge_run(again, asking(progress=bar)),
        dry_run=dry_run,
        as_json=as_json,
    )
    if result is None:
        return
    fit_run(again.folder)
    found = compare_rejudged(planned, families=families)
    locations = f"run: {again.folder.path}; both side by side: youden report {run} --against {again.folder.path}"
    output.tell(
        as_json,
        {**shown, "retest": found.retest, "words": list(found.words), "judges": plain_fields(found.study)},
        tables=judges_tables(found.study),
        words=(*found.study.words, *found.words),
        warnings=result.warnings,
        notes=[f"{output.bill_words(result.warnings)}{locations}"],
    )
