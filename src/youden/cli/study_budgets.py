"""`youden study budget`, `sparsity` and `baselines`: what fewer calls would have given, and what other models would.

`youden study budget RUN`: what each design would have bought at each number of calls.

`youden study sparsity RUN…`: how few cells or calls are enough.

`youden study baselines RUN`: the additive model against others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from youden.cli import options, output, run_options
from youden.cli.options import Number, numbers, words
from youden.progress_bar import progress_bar
from youden.text.tables import Table, format_decimal, make_table

if TYPE_CHECKING:
    from youden.data.folder.run_folder import RunFolder
    from youden.report.pages.writing import StudyPart
    from youden.study.baseline_table import BaselinesStudy
    from youden.study.budget_curves import BudgetStudy
    from youden.study.grid import SeedSummary
    from youden.study.known_groups import Contrast
    from youden.study.replaying import RecordedAnswers
    from youden.study.sparsity import SparsityStudy
    from youden.types.pool import Json

    Groups = Callable[[RecordedAnswers], Contrast | None]


def _holdouts(n_seeds: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of a study over random holdouts, which arrive by the names of its arguments, and --html and --json.

    --above and --below arrive as `groups`, a function of the recorded answers.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @click.option("--seeds", "n_seeds", type=click.IntRange(min=1), default=n_seeds, help="Holdouts drawn.")
        @click.option(
            "--holdout",
            type=Number(0, 1, min_open=True, max_open=True),
            metavar="SHARE",
            default=0.2,
            help="The share of the cells that is held out.",
        )
        @click.option(
            "--rule",
            type=click.Choice(["shared", "own"]),
            default="shared",
            help="What a held-out cell keeps out of training. shared: every trial that touches it; own: those that score it, "
            "the paper's way.",
        )
        @options.scores("row", "kind")
        @click.option(
            "--above", default="faithful", callback=words, help="Groups that should rank first, separated by commas."
        )
        @click.option(
            "--below",
            default="strategic,low-effort",
            callback=words,
            help="Groups that should rank last, separated by commas.",
        )
        @options.html
        @options.json
        @wraps(function)
        def wrapped(*, above: tuple[str, ...], below: tuple[str, ...], **rest: object) -> None:
            def groups(world: RecordedAnswers) -> Contrast | None:
                from youden.study.known_groups import find_contrast

                return find_contrast(world, above=above, below=below)

            function(groups=groups, **rest)

        return wrapped

    return decorate


def _tell(
    name: str,
    folder: RunFolder,
    found: Json,
    *,
    table: Table,
    text: Iterable[str],
    drawn: tuple[object, ...],
    html: Path | None,
    as_json: bool,
) -> None:
    """Print the study `name` of one run, and draw it into `html`. drawn: arguments of its figures."""
    lines, signature, run = tuple(text), folder.read_signature().text, folder.path.name
    if html is not None:
        from youden.report.charts import studies
        from youden.report.pages.writing import StudyPart, write_study

        figures = getattr(studies, f"{name}_figures")(*drawn)
        write_study(html, name.capitalize(), [StudyPart(run, signature, lines, figures)])
    output.tell(
        as_json,
        {name: found, "run": run, "signature": signature},
        tables=[table],
        words=lines,
        notes=[f"signature: {signature}"],
    )


@click.command("baselines")
@options.run
@click.option("--c", type=Number(min=0, min_open=True), default=1.6, help="How many cells are seen: C of n log n.")
@click.option(
    "--only",
    "names",
    callback=words,
    metavar="NAMES",
    help="These baselines alone, separated by commas. [default: all]",
)
@_holdouts(10)
def baselines_command(*, run: Path, groups: Groups, html: Path | None, as_json: bool, **arguments: Any) -> None:
    """Do other models predict held-out cells of RUN better?

    The paper's Table 5, fair and paper settings side by side, on the same holdouts and cells.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.baseline_table import baselines_to_json, describe_baselines, study_baselines
    from youden.study.replaying import read_dense_answers

    folder = RunFolder(run)
    world = read_dense_answers(folder)
    with progress_bar() as bar:
        study = study_baselines(world, groups=groups(world), progress=bar, **arguments)
    _tell(
        "baselines",
        folder,
        baselines_to_json(study),
        table=_baselines_table(study, folder.path.name),
        text=describe_baselines(study),
        drawn=(study,),
        html=html,
        as_json=as_json,
    )


def _baselines_table(study: BaselinesStudy, name: str) -> Table:
    heads = ["model", "holdout RMSE", "less clipped-linear's", "SE items", "SE seeds", "ρ", "τ", "AUC"]
    rows = []
    for row in study.rows:
        first, behind, *others = (
            "–" if spread is None else output.with_sd(spread.mean, spread.sd)
            for spread in (row.rmse, row.behind, row.rho, row.tau, row.auc)
        )
        rows.append(
            [row.name, first, behind, format_decimal(row.se_items, 4), format_decimal(row.se_seeds, 4), *others]
        )
    return Table(f"{name}: {study.kind} scores, rule {study.rule}, mean (SD)", heads, "crrrrrrr", rows)


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
@click.option("--seeds", "n_seeds", type=click.IntRange(min=1), default=100, help="Plans drawn of each.")
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
    *, run: Path, goal: str, usd_per_call: float | None, html: Path | None, as_json: bool, **arguments: Any
) -> None:
    """What would each design have bought at each number of calls?

    Plans are drawn again and again and answered from RUN: a dense run, or a pilot, from which a dense run is imagined. ρ is
    the rank correlation with RUN's dense ranking. Recall is the share of its best 1, 3 and 5 that a plan finds. The ceiling
    is how far two halves of its items agree with each other.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.budget_curves import study_budget
    from youden.study.budget_goals import budget_to_json, describe_budget, parse_goal
    from youden.study.replaying import read_or_simulate_answers, read_usd_per_call

    asked, folder = parse_goal(goal), RunFolder(run)
    world = read_or_simulate_answers(folder, seed=0)
    price = read_usd_per_call(folder) if usd_per_call is None else usd_per_call
    with progress_bar() as bar:
        study = study_budget(world, usd_per_call=price, progress=bar, **arguments)
    for line in world.words:
        output.note(f"note: {line}")
    _tell(
        "budget",
        folder,
        budget_to_json(study, asked),
        table=_budget_table(study, folder.path.name),
        text=describe_budget(study, asked),
        drawn=(study, asked),
        html=html,
        as_json=as_json,
    )


def _budget_table(study: BudgetStudy, name: str) -> Table:
    recalls = [f"top-{k} recall" for k in study.tops]
    rows = [
        [
            design,
            row.asked,
            *(
                format_decimal(value, digits)
                for value, digits in ((row.trials, 0), (row.calls, 0), (row.usd, 2), (row.cells, 0))
            ),
            *map(format_decimal, (row.rho_mean, row.rho_sd)),
            *map(format_decimal, (row.recalls or dict.fromkeys(study.tops)).values()),
            *map(format_decimal, (row.coverage, row.halfwidth, row.regret)),
        ]
        for design, of_design in study.designs.items()
        for row in of_design
    ]
    halves = (study.halves.rho, study.halves.rho_sd, *study.halves.recalls.values())
    rows.append(["half items", *[""] * 5, *map(format_decimal, halves), "", "", ""])
    return make_table(
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
@_holdouts(20)
def sparsity_command(
    *, runs: tuple[Path, ...], groups: Groups, html: Path | None, as_json: bool, **arguments: Any
) -> None:
    """How few cells or calls predict held-out cells of RUNs?

    And is the ranking kept? RUNs are dense. The paper's Tables 3 and 4 and Figure 2 over many holdouts: RMSE, ρ, τ and AUC of
    every regime, against cells and calls.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.stats.curl.link_table import compare_links
    from youden.study.link_curl import describe_additivity
    from youden.study.replaying import read_dense_answers
    from youden.study.sparsity import describe_sparsity, sparsity_to_json, study_sparsity

    found: dict[str, Json] = {}
    parts: list[StudyPart] = []
    for run in runs:
        world = read_dense_answers(RunFolder(run))
        with progress_bar() as bar:
            study = study_sparsity(world, groups=groups(world), progress=bar, **arguments)
        words = (*describe_sparsity(study), *describe_additivity(compare_links(world.scores(study.kind))))
        signature = RunFolder(run).read_signature().text
        if html is not None:
            from youden.report.charts.studies import sparsity_figures
            from youden.report.pages.writing import StudyPart as Part

            parts.append(Part(run.name, signature, words, sparsity_figures(study)))
        found[run.name] = {**sparsity_to_json(study), "words": list(words), "signature": signature}
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
                *(format_decimal(share, 1) for share in shares),
                *(format_decimal(n, 0) for n in calls),
                *(_with_sd(spread) for spread in (row.rmse, row.rho, row.tau, row.auc)),
            ]
        )
    return Table(f"{name}: {study.kind} scores, rule {study.rule}, mean (SD) over holdouts", heads, "crrrrrrrr", rows)


def _with_sd(spread: SeedSummary | None) -> str:
    return "–" if spread is None else output.with_sd(spread.mean, spread.sd)
