"""`youden check POOL|CONFIG`: whether a pool can be ranked at all, before money is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, run_options, show
from youden.text.printable import printable

if TYPE_CHECKING:
    from youden.pools.look.findings import Checked


@click.command("check")
@options.pool_or_config
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Draws the items that are looked at in a large pool.",
)
@click.option("--all", "every", is_flag=True, help="Show what every design takes with every judge.")
@options.json
def check_command(source: Path, seed: int, every: bool, as_json: bool) -> None:
    """Look a pool over before money is spent.

    Looks for gaps, clones, templates, copied sources, texts that address a judge, items too alike, and languages. Every finding
    says what it does to the ranking and what to do. Nothing is changed and nothing is asked.

    Then it says what judging would take: for a run's CONFIG (.yaml) with its own judge, design and budget; for a POOL by the
    usual design with each judge there is a config for.
    """
    from youden.pools.look.check import check_config, check_pool
    from youden.pools.look.costs import USUAL

    if source.suffix.lower() in options.CONFIGS:
        config = run_options.Overrides(None, None, None).apply(source)
        checked, by = check_config(config, seed=seed, designs=None if every else ()), "this run"
    else:
        from youden.data.pools.reader import read_pool

        checked, by = check_pool(read_pool(source), seed=seed, designs=None if every else USUAL), "the usual design"
    if as_json:
        show.print_json(checked.to_json())
        return
    _draw(checked, f"what judging would take, by {'each design at its own budget' if every else by}")


def _draw(checked: Checked, title: str) -> None:
    counts = checked.counts
    words = "" if counts.mean_words is None else f", {counts.mean_words:.0f} words in the mean"
    click.echo(
        f"{printable(checked.name)}: {counts.n_agents:,} agents × {counts.n_items:,} items, {counts.n_responses:,} responses, "
        f"{counts.n_missing:,} missing, {counts.n_blank:,} blank; {counts.shortest:,} to {counts.longest:,} characters "
        f"(median {counts.median:,}){words}."
    )
    for line in checked.notes:
        show.note(f"note: {line}")
    for number, finding in enumerate(checked.findings, 1):
        click.echo(
            f"\n{number}. {printable(finding.what)} [{finding.slug}]\n   {finding.effect}\n   To do: {finding.advice}"
        )
    click.echo("\nNothing found that a ranking would suffer from." if not checked.findings else "")
    if not checked.costs:
        return
    table = show.table(title, ["design", "judge"], ["calls", "tokens in", "tokens out", "USD"])
    for cost in checked.costs:
        usd = "unknown" if cost.usd is None else f"{cost.usd:,.2f}"
        cells = [f"{n:,}" for n in (cost.calls, cost.tokens_in, cost.tokens_out)]
        table.add_row(show.safe(cost.design), show.safe(cost.judge), *cells, usd)
    show.console().print(table)
