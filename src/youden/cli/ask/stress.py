"""`youden stress POOL|RUN`: who could game this ranking, and would anything tell?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from youden.cli.terms import options, show
from youden.cli.terms.progress import progress_bar
from youden.text.printable import printable

if TYPE_CHECKING:
    from youden.practice.stress.stressing import Stress


@click.command("stress")
@click.argument("source", metavar="POOL|RUN", type=click.Path(path_type=Path))
@click.option(
    "--attack", "attacks", multiple=True, metavar="NAME", help="Only this one; may be repeated. [default: all]"
)
@click.option(
    "--attacker", metavar="AGENT", help="Whose answers attackers start from. [default: the last of the ranking]"
)
@click.option(
    "--judge", help="A name in configs/judges/, or a path that ends in .yaml. [default: the run's, or lexical]"
)
@click.option("--calls", type=click.IntRange(min=1), help="Calls of a pool's own plan; a run keeps its trials.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws trials and attacks.")
@options.store("the run's, else YOUDEN_STORE, else the run's own, runs/NAME/verdicts.db")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Write stress.md, stress.json and stress.svg there."
)
@options.max_cost
@options.grace
@options.dry_run
@options.json
def stress_command(
    *,
    source: Path,
    attacks: tuple[str, ...],
    attacker: str | None,
    judge: str | None,
    calls: int | None,
    seed: int,
    store: str | None,
    out: Path | None,
    max_cost: float | None,
    grace: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Plant attacks in a pool and see where they land.

    The pool is POOL, or that of a judged RUN. Each attack is agents that game a ranking by agreement: clones, a ring with a
    private word, templates, other agents' answers strung together or reworded, copied sources, words of the prompt, padding,
    instructions to the judge, and more. Planted agents meet everybody as often as the pool's agents meet each other. Only
    trials of theirs are asked anew; the pool's own come from the store. Without a judge that makes calls everything is
    offline.

    Shows where attackers land: in the plain ranking; in the robust one, in which agents that agree far beyond their abilities do
    not score each other; and, where agents name families, in the family-balanced one. It also shows how far other agents move,
    and what `check` and the alarms named.

    --max-cost holds for all attacks together; where they would cost more, nothing is asked. Packages add attacks by the
    entry-point group youden.attacks. The same command resumes.
    """
    from youden.practice.stress.planned import plan_stress
    from youden.practice.stress.stressing import stress
    from youden.practice.stress.words import asked_in_words

    planned = plan_stress(
        source,
        judge=judge,
        attacks=attacks,
        attacker=attacker,
        calls=calls,
        seed=seed,
        store=store,
        usual_store=options.usual_store(),
        max_cost=max_cost,
    )
    show.note(f"stress: {asked_in_words(planned)}")
    cost = show.dollars(planned.usd_left)
    show.note(f"stress: {planned.n_new:,} calls to make with {planned.judge.name}, cost {cost}")
    if dry_run:
        if as_json:
            show.print_json(planned.to_json())
        return
    with progress_bar() as bar:
        found = stress(planned, progress=bar if planned.judge.makes_calls else None, grace=grace)
    show.warn(found.warnings)
    if out is not None:
        from youden.report.pages.write import write_stress

        for file in write_stress(found, out):
            show.note(f"stress: {file}")
    if as_json:
        show.print_json(found.to_json())
    else:
        _draw(found)


def _draw(found: Stress) -> None:
    from youden.practice.stress.words import NOTES, columns, conclusion, rows

    table = Table(title=f"attacks on {show.safe(found.name)}, judged by {show.safe(found.judge)}", title_justify="left")
    for head in columns(found):
        table.add_column(head, overflow="fold")
    for row in rows(found):
        table.add_row(*map(show.safe, row))
    show.console().print(table)
    for line in conclusion(found):
        click.echo(printable(line))
    show.note(NOTES)
