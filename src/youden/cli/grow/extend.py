"""`youden extend RUN`: extend a judged run by agents, items or calls."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, ranking, run_options, show
from youden.cli.terms.progress import progress_bar
from youden.cli.terms.values import Number
from youden.text.compared import counted

if TYPE_CHECKING:
    from youden.nouns import ExtensionFacts, Json, Target

MOST_SHOWN = 10


@click.command("extend")
@options.run
@click.option("--agents", type=click.Path(), help="A pool with the new agents; those already in the run are left out.")
@click.option("--items", type=click.Path(), help="A pool with the new items, answered by all the run's agents.")
@click.option(
    "--calls",
    type=click.IntRange(min=1),
    help="How many calls. [default: as many for each new agent or item as one of the run got]",
)
@click.option("--focus", multiple=True, metavar="AGENT", help="Spend --calls on this agent alone. Repeatable.")
@click.option(
    "--width",
    type=Number(min=0, min_open=True),
    metavar="W",
    help="As many calls as give the new agents intervals of ± W; alone, nine in ten of the run's own.",
)
@options.target
@run_options.spending
@run_options.asking
@options.dry_run
@options.json
def extend_command(
    *,
    run: Path,
    agents: str | None,
    items: str | None,
    calls: int | None,
    focus: tuple[str, ...],
    width: float | None,
    target: Target | None,
    overrides: run_options.Overrides,
    asking: run_options.Asking,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Extend RUN by agents, items or more calls.

    RUN is the folder of a judged run. Only new comparisons are asked. New agents are compared with a balanced set of the
    run's own, on the items that those were judged on, and get abilities on the same scale. An ability moves only by answers
    about that agent. New items and more calls bring trials for all agents, the very ones that a larger budget would have
    drawn; --focus spends the calls on the agents it names.

    Calls and cost are shown first. The folder changes only when the new answers are there; until then the same command resumes.
    After that config.yaml makes the whole run again, and the same --calls buy as many more. The report says what moved, and
    whether an agent of the run drifted.
    """
    from youden.data.folder.run_config import Extension
    from youden.data.folder.run_folder import RunFolder
    from youden.practice.extend import extend_run, plan_extension, too_wide
    from youden.report.pages.write import write_report

    if wrong := _not_together(agents, items, calls=calls, width=width, focus=focus):
        raise click.UsageError(wrong)
    overrides = replace(overrides, target=target)
    kept = RunFolder(run).read_config()
    if target is not None:
        kept = kept.model_copy(update={"target": target})
    alone = width is not None and agents is None and items is None and calls is None
    step = None if alone else Extension(agents=agents, items=items, calls=calls, focus=list(focus))
    planned = plan_extension(overrides.apply(run / "config.yaml"), step, width=width)
    show.show_plan(planned.asked, planned.cost, planned.run.judge.name)
    if planned.half_width is not None:
        show.note(f"plan: {_expected(planned.half_width, n_joined=len(planned.joined))}")
    said: dict[str, Json] = {
        "run": str(planned.run.folder.path),
        "cost": asdict(planned.cost),
        "joined": list(planned.joined),
        "half_width": planned.half_width,
    }
    if dry_run:
        if as_json:
            show.print_json({**said, "dry_run": True})
        return
    with progress_bar() as bar:
        fitted = extend_run(planned, kept, asking.terms(progress=bar))
    extensions = fitted.facts.growth
    summary = write_report(planned.run.folder, fitted).summary
    wide = too_wide(planned, fitted, width) if width is not None else ()
    if wide:
        names = shlex.join(word for agent in wide for word in ("--focus", agent))
        show.note(
            f"warning: {len(wide)} of {len(planned.joined)} intervals are wider than ± {width:g}; more calls narrow them: "
            f"youden extend {shlex.quote(str(run))} --calls N {names}"
        )
    if as_json:
        moved = None if extensions is None else {**asdict(extensions), "words": list(summary.moved)}
        show.print_json({**said, "dry_run": False, "growth": moved})
        return
    ranking.show_result(summary, as_json=False)
    if extensions is not None:
        _draw(extensions)
    for line in summary.moved:
        click.echo(show.safe(line))


def _not_together(
    agents: str | None, items: str | None, *, calls: int | None, width: float | None, focus: tuple[str, ...]
) -> str | None:
    """What is wrong with options that do not go together, in words."""
    if agents is None and items is None and calls is None and width is None:
        return "Give --agents, --items, --calls or --width: what is the run extended by?"
    if agents is not None and items is not None:
        return "Give --agents first and --items in a second extension."
    if focus and (agents is not None or items is not None):
        return "--focus goes with --calls alone."
    return None


def _expected(half_width: float, *, n_joined: int) -> str:
    if not n_joined:
        return f"nine in ten agents will have about ± {half_width:.3f}, from the run's own answers"
    return (
        f"intervals of {counted(n_joined, 'new agent')}: about ± {half_width:.3f}, if their answers vary as those of the agent "
        "that varies most"
    )


def _draw(extensions: ExtensionFacts) -> None:
    """The agents whose abilities moved, those that moved most first; a place that only newcomers changed is no move."""
    moved = [move for move in extensions.moves if show.fixed(move.before) != show.fixed(move.after)]
    moved.sort(key=lambda move: abs((move.after or 0) - (move.before or 0)), reverse=True)
    if moved:
        table = show.table("What moved", ["agent"], ["before", "now", "place before", "place now", "p of drift"])
        for move in moved[:MOST_SHOWN]:
            table.add_row(
                show.safe(move.agent),
                show.fixed(move.before),
                show.fixed(move.after),
                str(move.place_before),
                str(move.place_after),
                show.fixed(move.p),
            )
        show.console().print(table)
        if len(moved) > MOST_SHOWN:
            show.note(f"{len(moved) - MOST_SHOWN} more moved, by less; fit.json has all")
