"""Define the command `gate`, which tests whether a new agent is no worse than a baseline. It sends no request."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from youden.cli import UNDECIDED, options, output
from youden.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from youden.run_keys import Target
    from youden.types.pool import Json
    from youden.workflows.gate import GateAnalysis


EXIT_CODES = {"worse": 1, "undecided": UNDECIDED}
"""Outcome of a gate → exit code; 0 for other outcomes."""


@click.command("gate")
@options.run
@click.option(
    "--agent",
    "agents",
    multiple=True,
    required=True,
    help="New agent to test. Repeatable; several agents share alpha.",
)
@click.option("--baseline", required=True, help="Agent to compare with.")
@click.option(
    "--margin",
    type=float,
    default=0.05,
    help="Largest deficit against the baseline at which an agent still counts as no worse.",
)
@click.option(
    "--target",
    type=click.Choice(["items-like-these", "these-items"]),
    help="Population of the differences: more items like these, or only these items. [default: that of the run, else "
    "items-like-these]",
)
@click.option(
    "--by",
    type=click.Choice(["ability", "quality"]),
    default="ability",
    help="Quantity to compare. quality: estimated from --labels and ability together, in the units of the labels.",
)
@options.label_file_options
@click.option(
    "--ledger",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that counts the interim analyses; keep it under version control if RUN is temporary. [default: RUN/gates.json]",
)
@click.option("--markdown", metavar="FILE", help="Write the result as Markdown; - for standard output.")
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the result as JUnit XML: worse is a failure, undecided an error.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the number and the level of this interim analysis without counting it.",
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
    """Test whether an agent is better or worse than a baseline.

    The non-inferiority test compares --agent with --baseline. It uses the answers in RUN. The result refers to the
    target population of RUN (more items of the same kind by default), unless --target is set. The command computes a confidence
    interval of the difference of the two abilities, clustered by item:

    \b
    better     the interval lies above 0 (exit code 0)
    no worse   it lies above −margin (exit code 0)
    worse      it lies below 0, and not above −margin (exit code 1)
    undecided  otherwise (exit code 3)

    With several --agent options, the exit code is 1 if any agent is worse, else 3 if any is undecided.

    If the result is undecided, the output contains a command that adds enough calls for a decision. The probability of a decision
    is then 90%, whatever the true difference. If more calls are not enough, the output states how many items such a decision
    needs.

    No request is sent. You can repeat the test after adding calls. Interim analysis m has an alpha of 2.5% / 2^(m−1) per side.
    Over all analyses, the probability of a wrong "worse" is therefore at most 5%, and the probability of a wrong pass is at most
    5%. The analyses are counted in the file --ledger, by default gates.json in RUN. Repeating the test on the same answers does
    not count. With --dry-run, no test is made: the command prints the number and the level of the next analysis. Several --agent
    options of one command share alpha (Bonferroni), but separate commands do not.

    --by quality compares the estimated mean labels instead (see `youden quality`). Other labels count as another analysis.
    """
    from youden.report.pages.gate_output import render_gate_markdown
    from youden.runs.run_object import Run
    from youden.types.arguments import check_unused
    from youden.workflows.gate import plan_analyses
    from youden.workflows.gate_text import describe_gate, gate_table
    from youden.workflows.quality import read_answers

    if as_json and markdown == "-":
        raise InputError(
            "Got both --json and --markdown -, which write to standard output. Set --markdown FILE, or remove --json.",
            slug="gate-output",
        )
    if (by == "quality") != bool(files):
        raise click.UsageError("--by quality and --labels FILE require each other. Set both, or remove both.")
    if by == "ability":
        check_unused("A comparison by ability", label=label, scale=scale)
    if dry_run:
        check_unused("--dry-run, which makes no test,", markdown=markdown, junit=junit)
    judged_run = Run(run)
    if dry_run:
        folder = judged_run.folder
        labels = read_answers(folder, files, label=label, scale=scale) if files else None
        analyses = plan_analyses(folder, agents, baseline=baseline, ledger=ledger, target=target, labels=labels)
        _print_planned_analyses(analyses, baseline, as_json=as_json)
        return 0

    gate = judged_run.gate(
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
        click.echo(render_gate_markdown(gate), nl=False)
        return EXIT_CODES.get(gate.outcome, 0)
    output.print_result(as_json, gate.to_json(), tables=[gate_table(gate)], notes=describe_gate(gate))
    return EXIT_CODES.get(gate.outcome, 0)


def _print_planned_analyses(analyses: Sequence[GateAnalysis], baseline: str, *, as_json: bool) -> None:
    """Print which tests the command would make without --dry-run, one line per agent, to standard error.

    Each test is an interim analysis: one of several tests of the same agent, over which alpha (the probability of a wrong result)
    is divided.

    analyses : planned tests, with their numbers and significance levels
    baseline : agent with which the agents are compared
    as_json : whether to print the analyses as JSON to standard output, too
    """
    if as_json:
        records: list[Json] = [asdict(analysis) for analysis in analyses]
        output.print_json({"dry_run": True, "calls": 0, "usd": 0.0, "analyses": records})

    for planned in analyses:
        analysis_number = planned.analysis
        output.print_note(
            f"{planned.agent} against {baseline}: interim analysis {analysis_number}, at a level of "
            f"{100 * planned.level:.4g}%; 0 calls, $0.00"
        )
