"""`youden gate RUN --agent NEW --baseline OLD`: may NEW take OLD's place?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import UNDECIDED
from youden.cli.terms import options, show

if TYPE_CHECKING:
    from youden.nouns import Target
    from youden.practice.gate.decision import Gate

WORSE = 1


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
@click.option("--margin", type=float, default=0.05, show_default=True, help="How much worse still counts as no worse.")
@options.about
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
    ledger: Path | None,
    markdown: str | None,
    junit: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Is --agent better, no worse or worse than --baseline?

    It says so of items of this kind, or of what --target says, by the answers in RUN. The difference of their abilities gets
    an interval, from what each item contributes to it. If all of it lies above 0, the agent is better; if all of it lies
    above −margin, no worse: exit code 0 for both. If all of it lies below 0 but not above −margin, the agent is worse: 1.
    Else it is undecided: 3, with the number of calls that decide with a chance of 90 %, wherever the truth lies, and the
    command that asks them, or the number of items. Agents that were hardly seen to differ are undecided below
    some 70 items: 12 agreements of 12 still allow a difference on a quarter of all items.

    Nothing is asked and nothing spent. You may look again after more calls: look m may err with 2.5 % / 2^(m−1) on either
    side. Over all looks a wrong 'worse' then has a chance of at most 5 %, and so has a wrong pass. Looks are counted in
    --ledger; the same answers again are the same look. Several --agent in one command share the error (Bonferroni); in commands
    of their own they do not.

    In JUnit XML an agent is a test: worse is a failure, undecided an error.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.errors import InputError
    from youden.practice.gate.decision import gate_run, next_looks
    from youden.report.pages.gate import render_junit, render_markdown

    if as_json and markdown == "-":
        raise InputError("--json and --markdown - both want standard output. Give a file to one.", slug="gate-output")
    folder = RunFolder(run)
    if dry_run:
        looks = next_looks(folder, agents, baseline=baseline, ledger=ledger, target=target)
        if as_json:
            show.print_json({"dry_run": True, "calls": 0, "usd": 0.0, "looks": [asdict(look) for look in looks]})
        for look in looks:
            show.note(
                f"{look.agent} against {baseline}: look {look.look}, at a level of {100 * look.level:.4g} %; 0 calls, $0.00"
            )
        return 0
    gate = gate_run(folder, agents, baseline=baseline, margin=margin, ledger=ledger, target=target)
    if junit is not None:
        junit.write_text(render_junit(gate), encoding="utf-8")
    if markdown is not None and markdown != "-":
        Path(markdown).write_text(render_markdown(gate), encoding="utf-8")
    if as_json:
        show.print_json(gate.to_json())
    elif markdown == "-":
        click.echo(render_markdown(gate), nl=False)
    else:
        _show(gate)
    return {"worse": WORSE, "undecided": UNDECIDED}.get(gate.verdict, 0)


def _show(gate: Gate) -> None:
    from youden.practice.gate.words import footing, interval, sentence, to_do

    table = show.table(
        f"Against {show.safe(gate.baseline)}, margin {gate.margin:g}",
        ["agent", "verdict"],
        ["difference", "interval", "level", "items"],
    )
    for row in gate.agents:
        figures = (f"{row.difference:+.3f}", interval(row), f"{row.level:.2%}", f"{row.n_items:,}")
        table.add_row(show.safe(row.agent), row.verdict, *figures)
    show.console().print(table)
    for row in gate.agents:
        show.note(sentence(gate, row))
    command = to_do(gate)
    if command is not None:
        show.note(command)
    show.note(footing(gate))
    show.note(f"signature: {gate.signature}")
