"""`youden study budget` and `sparsity`: what fewer calls would have given.

`youden study budget RUN`: what each design would have bought at each number of calls.

`youden study sparsity RUN…`: how few cells or calls are enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import options, output, run_options
from youden.cli.options import Number, numbers, words
from youden.progress_bar import progress_bar
from youden.text.tables import Table, fixed, two_sided

if TYPE_CHECKING:
    from youden.report.pages.writing import StudyPart
    from youden.run_keys import SplitRule
    from youden.study.budget_curves import BudgetStudy
    from youden.study.grid import Spread
    from youden.study.sparsity import SparsityStudy
    from youden.types.pool import Json
    from youden.types.results import ScoreKind


@click.command("budget")
@options.run
@click.option("--design", "designs", default="cyclic,nlogn", callback=words, help="Designs, separated by commas.")
@run_options.budgets(
    "Budgets, separated by commas: calls, percentages of the dense calls or trials per agent, as in 4000,5%,450/agent. "
    "[default: the first three of 1%,2%,5%,10%,20%,50%,100% that a design can be drawn at]",
    several=True,
)
@click.option(
    "--width",
    "widths",
    callback=numbers,
    metavar="NUMBERS",
    help="Half widths of intervals: calls are asked until they are reached, as in 0.03,0.05.",
)
@click.option("--seeds", type=click.IntRange(min=1), default=100, help="Plans drawn of each.")
@click.option(
    "--target",
    type=click.Choice(["symmetric", "row"]),
    default="symmetric",
    help="The scores whose ranking is wanted. row: the paper's.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Whose recall --goal means: the top N. [default: 5, or one less than there are agents]",
)
@click.option(
    "--goal", default="rho=0.97", help="What to reach, as cheaply as can be: rho=…, recall=…, halfwidth=… or regret=…."
)
@click.option("--usd-per-call", type=Number(min=0), help="Price of a call. [default: what RUN's calls cost]")
@options.html
@options.json
def budget_command(
    *,
    run: Path,
    designs: tuple[str, ...],
    calls: tuple[int | str, ...],
    widths: tuple[float, ...],
    seeds: int,
    target: ScoreKind,
    top: int | None,
    goal: str,
    usd_per_call: float | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """What would each design have bought at each number of calls?

    Plans are drawn again and again and answered from RUN: a dense run, or a pilot, from which a dense run is imagined. ρ is
    the rank correlation with RUN's dense ranking. Recall is the share of its best 1, 3 and 5 that a plan finds. The ceiling
    is how far two halves of its items agree with each other.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.budget_curves import study_budget
    from youden.study.budget_goals import budget_json, budget_words, parse_goal
    from youden.study.replaying import read_dense_or_imagine
    from youden.study.replaying import usd_per_call as price_of

    asked = parse_goal(goal)
    folder = RunFolder(run)
    world = read_dense_or_imagine(folder, seed=0)
    with progress_bar() as bar:
        study = study_budget(
            world,
            designs=designs,
            calls=calls,
            widths=widths,
            n_seeds=seeds,
            target=target,
            top=top,
            usd_per_call=price_of(folder) if usd_per_call is None else usd_per_call,
            progress=bar,
        )
    signature = folder.read_signature().text
    if html is not None:
        from youden.report.charts.studies import budget_figures
        from youden.report.pages.writing import StudyPart, write_study

        part = StudyPart(folder.path.name, signature, tuple(budget_words(study, asked)), budget_figures(study, asked))
        write_study(html, "Budget", [part])
    for line in world.words:
        output.note(f"note: {line}")
    output.tell(
        as_json,
        {"budget": budget_json(study, asked), "run": folder.path.name, "signature": signature},
        tables=[_budget_table(study, folder.path.name)],
        words=budget_words(study, asked),
        notes=[f"signature: {signature}"],
    )


def _budget_table(study: BudgetStudy, name: str) -> Table:
    recalls = [f"top-{k} recall" for k in study.tops]
    rows = [
        [
            design,
            row.asked,
            *(
                fixed(value, digits)
                for value, digits in ((row.trials, 0), (row.calls, 0), (row.usd, 2), (row.cells, 0))
            ),
            *map(fixed, (row.rho_mean, row.rho_sd)),
            *map(fixed, (row.recalls or dict.fromkeys(study.tops)).values()),
            *map(fixed, (row.coverage, row.halfwidth, row.regret)),
        ]
        for design, of_design in study.designs.items()
        for row in of_design
    ]
    halves = (study.halves.rho, study.halves.rho_sd, *study.halves.recalls.values())
    rows.append(["half items", *[""] * 5, *map(fixed, halves), "", "", ""])
    return two_sided(
        f"{name}: {study.target} ranking, {study.n_seeds} seeds, of {study.dense_calls:,} dense calls; "
        f"ceiling {output.with_sd(study.halves.rho, study.halves.rho_sd)}",
        ["design"],
        [
            "asked for",
            "trials an agent",
            "calls",
            "USD",
            "cells",
            "ρ",
            "SD",
            *recalls,
            "coverage",
            "half width",
            "regret",
        ],
        rows,
    )


@click.command("sparsity")
@options.runs
@click.option("--seeds", type=click.IntRange(min=1), default=20, help="Holdouts drawn.")
@options.held_out
@options.rule
@options.scores("row")
@options.above
@options.below
@options.html
@options.json
def sparsity_command(
    *,
    runs: tuple[Path, ...],
    seeds: int,
    holdout: float,
    rule: SplitRule,
    scores: ScoreKind,
    above: tuple[str, ...],
    below: tuple[str, ...],
    html: Path | None,
    as_json: bool,
) -> None:
    """How few cells or calls predict held-out cells of RUNs?

    And is the ranking kept? RUNs are dense. The paper's Tables 3 and 4 and Figure 2 over many holdouts: RMSE, ρ, τ and AUC of
    every regime, against cells and calls.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.stats.curl.link_table import links_table
    from youden.study.known_groups import contrast
    from youden.study.link_curl import additivity_words
    from youden.study.replaying import open_world
    from youden.study.sparsity import sparsity_json, sparsity_words, study_sparsity

    found: dict[str, Json] = {}
    parts: list[StudyPart] = []
    for run in runs:
        world = open_world(RunFolder(run))
        groups = contrast(world, above=above, below=below)
        with progress_bar() as bar:
            study = study_sparsity(
                world,
                n_seeds=seeds,
                rule=rule,
                kind=scores,
                holdout=holdout,
                groups=groups,
                progress=bar,
            )
        words = (*sparsity_words(study), *additivity_words(links_table(world.scores(scores))))
        signature = RunFolder(run).read_signature().text
        if html is not None:
            from youden.report.charts.studies import sparsity_figures
            from youden.report.pages.writing import StudyPart as Part

            parts.append(Part(run.name, signature, words, sparsity_figures(study)))
        found[run.name] = {**sparsity_json(study), "words": list(words), "signature": signature}
        if not as_json:
            table = _sparsity_table(study, run.name)
            output.tell(False, {}, tables=[table], words=words, notes=[f"signature: {signature}"])
    if html is not None:
        from youden.report.pages.writing import write_study

        write_study(html, "Sparsity", parts)
    if as_json:
        output.print_json({"sparsity": found})


def _sparsity_table(study: SparsityStudy, name: str) -> Table:
    heads = ["regime", "% of all", "% of train", "calls", "unordered", "holdout RMSE", "ρ", "τ", "AUC"]
    rows = []
    for row in (study.dense, *study.rows):
        shares = [None if spread is None else 100 * spread.mean for spread in (row.of_all, row.of_train)]
        calls = [None if spread is None else spread.mean for spread in (row.calls, row.calls_unordered)]
        rows.append(
            [
                row.label,
                *(fixed(share, 1) for share in shares),
                *(fixed(n, 0) for n in calls),
                *(_with_sd(spread) for spread in (row.rmse, row.rho, row.tau, row.auc)),
            ]
        )
    return Table(f"{name}: {study.kind} scores, rule {study.rule}, mean (SD) over holdouts", heads, "crrrrrrrr", rows)


def _with_sd(spread: Spread | None) -> str:
    return "–" if spread is None else output.with_sd(spread.mean, spread.sd)
