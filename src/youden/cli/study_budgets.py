"""Define the studies `budget`, `sparsity` and `baselines`, which evaluate fewer calls or other models on a judged run.

Answers come from the run, so that no request is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from youden.cli import options, output, run_options
from youden.cli.options import Number, parse_names, parse_numbers
from youden.progress_bar import progress_bar
from youden.text.tables import Table, format_decimal, make_table

if TYPE_CHECKING:
    from youden.data.folder.run_folder import RunFolder
    from youden.report.charts.marks import Figure
    from youden.report.pages.writing import StudyPart
    from youden.study.baseline_table import BaselinesStudy
    from youden.study.budget_curves import BudgetRow, BudgetStudy
    from youden.study.grid import SeedSummary
    from youden.study.known_groups import Contrast
    from youden.study.replaying import RecordedAnswers
    from youden.study.sparsity import SparsityStudy
    from youden.types.pool import Json
    from youden.types.results import ScoreKind

    ContrastFinder = Callable[[RecordedAnswers], Contrast | None]


def _holdout_options(n_seeds: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds --html, --json and the options of random holdouts (cells that are left out of the fit).

    The command receives --top-groups and --bottom-groups as one argument `find_groups`. It is a function that takes the recorded
    answers and returns the `Contrast` of the agents of these groups. By default, the groups are those of the paper; the function
    returns None if the run does not have them.

    n_seeds : default number of holdouts
    """
    option_decorators = (
        click.option("--n-seeds", type=click.IntRange(min=1), default=n_seeds, help="Number of random holdouts."),
        click.option(
            "--holdout",
            type=Number(0, 1, min_open=True, max_open=True),
            metavar="FRACTION",
            default=0.2,
            help="Fraction of the cells to hold out.",
        ),
        click.option(
            "--holdout-rule",
            "rule",
            type=click.Choice(["strict", "paper"]),
            default="strict",
            help="Trials to exclude from training. strict: all trials that include a held-out cell; paper: those that score it, "
            "as in the paper.",
        ),
        options.scores_option("row", "kind"),
        click.option(
            "--top-groups",
            default="faithful",
            callback=parse_names,
            help="Groups that should rank first, separated by commas.",
        ),
        click.option(
            "--bottom-groups",
            default="strategic,low-effort",
            callback=parse_names,
            help="Groups that should rank last, separated by commas.",
        ),
        options.html,
        options.json,
    )

    def add_options(command: Callable[..., None]) -> Callable[..., None]:
        """Add the options of `option_decorators` to a command, which is called with a function to find the two groups."""

        @wraps(command)
        def call_with_find_groups(
            *, top_groups: tuple[str, ...], bottom_groups: tuple[str, ...], **arguments: object
        ) -> None:
            """Call the command with `find_groups` in place of the values of --top-groups and --bottom-groups."""
            find_groups = partial(_find_contrast, above=top_groups, below=bottom_groups)
            command(find_groups=find_groups, **arguments)

        return options.add_parameters(call_with_find_groups, option_decorators)

    return add_options


def _find_contrast(answers: RecordedAnswers, *, above: tuple[str, ...], below: tuple[str, ...]) -> Contrast | None:
    """Call `find_contrast`, whose module is imported only when a study runs."""
    from youden.study.known_groups import find_contrast

    return find_contrast(answers, above=above, below=below)


def _print_study(
    name: str,
    folder: RunFolder,
    result: Json,
    *,
    table: Table,
    text: Iterable[str],
    figure_arguments: tuple[Any, ...],
    html: Path | None,
    as_json: bool,
) -> None:
    """Print a study of one run, and write a page with its figures.

    name : name of the study ("baselines" or "budget") and its key in the JSON output
    folder : folder of the run
    result : result for the JSON output
    table, text : result for readers
    figure_arguments : arguments of the function that draws the figures of this study
    html : file of the page; None to write none
    as_json : whether to print `result` in place of `table` and `text`
    """
    lines = tuple(text)
    signature = folder.read_signature().text
    run = folder.path.resolve().name
    if html is not None:
        from youden.report.charts.studies import draw_baseline_figures, draw_budget_figures
        from youden.report.pages.writing import StudyPart, write_study

        draw_figures: Callable[..., tuple[Figure, ...]]
        draw_figures = draw_baseline_figures if name == "baselines" else draw_budget_figures
        write_study(html, name.capitalize(), [StudyPart(run, lines, draw_figures(*figure_arguments), signature)])
    output.print_result(
        as_json,
        {name: result, "run": run, "signature": signature},
        tables=[table],
        lines=lines,
        notes=[f"signature: {signature}"],
    )


@click.command("baselines")
@options.run
@click.option(
    "--c", type=Number(min=0, min_open=True), default=1.6, help="Number of observed cells, as a multiple of n log n."
)
@click.option(
    "--only",
    "names",
    callback=parse_names,
    metavar="NAMES",
    help="Baselines to fit, separated by commas. [default: all]",
)
@_holdout_options(10)
def baselines_command(
    *, run: Path, find_groups: ContrastFinder, html: Path | None, as_json: bool, **arguments: Any
) -> None:
    """Compare the additive model with others on held-out cells.

    RUN must be dense: nearly all pairs must be answered. Reproduces Table 5 of the paper. Each model is fitted with settings
    that are fair to it and with the settings of the paper, on the same holdouts and cells. The AUC measures how well a ranking
    separates --top-groups from --bottom-groups. --html also writes a page with the figures.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.baseline_table import baselines_to_json, describe_baselines, study_baselines
    from youden.study.replaying import read_dense_answers

    folder = RunFolder(run)
    answers = read_dense_answers(folder)
    groups = find_groups(answers)
    with progress_bar() as bar:
        # `arguments` are the values of --c, --only and the options of the holdouts
        study = study_baselines(answers, groups=groups, progress=bar, **arguments)
    _print_study(
        "baselines",
        folder,
        baselines_to_json(study),
        table=_make_baselines_table(study, folder.path.resolve().name),
        text=describe_baselines(study),
        figure_arguments=(study,),
        html=html,
        as_json=as_json,
    )


def _make_baselines_table(study: BaselinesStudy, name: str) -> Table:
    """Tabulate the accuracy of each model, as means over seeds with standard deviations.

    The accuracy is the prediction error (RMSE) on held-out cells (agent–item pairs), the rank correlations ρ and τ, and the AUC
    of the ranking for two groups of agents. The difference of the RMSE from that of the model clipped-linear has two standard
    errors: over items, and over seeds.

    name : name of the run, for the title
    """
    headings = ["model", "holdout RMSE", "minus clipped-linear", "SE items", "SE seeds", "ρ", "τ", "AUC"]
    rows = []
    for model in study.rows:
        errors = [_format_summary(model.rmse), _format_summary(model.rmse_difference)]
        std_errors = [format_decimal(model.se_items, 4), format_decimal(model.se_seeds, 4)]
        agreement = [_format_summary(model.rho), _format_summary(model.tau), _format_summary(model.auc)]
        rows.append([model.name, *errors, *std_errors, *agreement])
    return Table(f"{name}: {study.kind} scores, rule {study.rule}, mean (SD)", headings, "crrrrrrr", rows)


@click.command("budget")
@options.run
@click.option("--design", "designs", default="cyclic,nlogn", callback=parse_names, help="Designs, separated by commas.")
@run_options.calls_option(
    "Budgets, separated by commas: calls, percentages of the dense calls or trials per agent, as in 4000,5%,450/agent. "
    "[default: the first three of 1%,2%,5%,10%,20%,50%,100% that a design can be drawn at]",
    several=True,
)
@click.option(
    "--half-width",
    "half_widths",
    callback=parse_numbers,
    metavar="NUMBERS",
    help="Half-widths of intervals to reach instead of a number of calls, separated by commas, as in 0.03,0.05.",
)
@click.option(
    "--n-seeds", type=click.IntRange(min=1), default=100, help="Number of random plans per design and budget."
)
@click.option(
    "--target",
    type=click.Choice(["symmetric", "row"]),
    default="symmetric",
    help="Scores by which to rank: symmetric, from trials in both orders; or row, from trials in which the agent's response "
    "comes first, as in the paper.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of top agents whose recall --goal refers to. [default: 5, or the number of agents minus one]",
)
@click.option(
    "--goal", default="rho=0.97", help="Goal to reach at the lowest cost: rho=…, recall=…, half_width=… or regret=…."
)
@click.option("--usd-per-call", type=Number(min=0), help="Price of a call. [default: mean cost of the calls of RUN]")
@options.html
@options.json
def budget_command(
    *,
    run: Path,
    designs: tuple[str, ...],
    calls: tuple[int | str, ...],
    half_widths: tuple[float, ...],
    n_seeds: int,
    target: ScoreKind,
    top: int | None,
    goal: str,
    usd_per_call: float | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Estimate the accuracy of each design at each number of calls.

    RUN is a dense run, in which nearly all pairs of agents are compared on each item, or a smaller run (a pilot), from which a
    dense run is simulated. Random plans of each design and size are drawn, and their answers are taken from the dense run. ρ is
    the rank correlation of the ranking of a plan with the dense ranking. Recall is the fraction of the top 1, 3 and 5 agents of
    the dense ranking that are also the top agents of the plan. The ceiling of ρ is the correlation of the rankings by two random
    halves of the items. The cheapest plan that reaches --goal is printed. --usd-per-call sets the price of a call; the default is
    the mean cost of the calls of RUN.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.budget_curves import study_budget
    from youden.study.budget_goals import budget_to_json, describe_budget, parse_goal
    from youden.study.replaying import read_or_simulate_answers, read_usd_per_call

    parsed_goal = parse_goal(goal)
    folder = RunFolder(run)
    answers = read_or_simulate_answers(folder, seed=0)
    price = read_usd_per_call(folder) if usd_per_call is None else usd_per_call
    with progress_bar() as bar:
        study = study_budget(
            answers,
            designs=designs,
            calls=calls,
            half_widths=half_widths,
            n_seeds=n_seeds,
            target=target,
            top=top,
            usd_per_call=price,
            progress=bar,
        )
    for line in answers.caveats:
        output.print_note(f"note: {line}")
    _print_study(
        "budget",
        folder,
        budget_to_json(study, parsed_goal),
        table=_make_budget_table(study, folder.path.resolve().name),
        text=describe_budget(study, parsed_goal),
        figure_arguments=(study, parsed_goal),
        html=html,
        as_json=as_json,
    )


def _make_budget_table(study: BudgetStudy, name: str) -> Table:
    """Tabulate cost and accuracy of each design at each budget.

    The last row, "half items", has the correlation (ρ) and the recall of two dense rankings, each from a random half of the
    items. This correlation is a ceiling for the other rows: a ranking with a larger one only reproduces the noise of these items.

    name : name of the run, for the title
    """
    cost_headings = ["budget", "trials per agent", "calls", "USD", "cells"]
    recall_headings = [f"top-{top} recall" for top in study.tops]
    precision_headings = ["coverage", "half-width", "regret"]

    rows = []
    for design, design_rows in study.designs.items():
        rows += [[design, *_format_budget_row(row, tops=study.tops)] for row in design_rows]

    split_half = study.halves
    split_half_measures = map(format_decimal, (split_half.rho, split_half.rho_sd, *split_half.recalls.values()))
    blank_costs = [""] * len(cost_headings)
    blank_precisions = [""] * len(precision_headings)
    rows.append(["half items", *blank_costs, *split_half_measures, *blank_precisions])

    ceiling = output.format_with_sd(split_half.rho, split_half.rho_sd)
    title = f"{name}: {study.target} ranking, {study.n_seeds} seeds, of {study.dense_calls:,} dense calls; ceiling {ceiling}"
    headings = [*cost_headings, "ρ", "SD", *recall_headings, *precision_headings]
    return make_table(title, ["design"], headings, rows)


def _format_budget_row(row: BudgetRow, *, tops: Iterable[int]) -> list[str]:
    """Format one row of the table of budgets: the cost and the accuracy of a design at one budget.

    row : results of the design at this budget, as means over random plans
    tops : numbers k of top agents. For each k, the table has a column with the recall: the fraction of the k best agents that a
        plan finds. If the row has no recalls, the columns are blank.

    Returns the cells after the name of the design, in the order of the headings.
    """
    cost_columns = [
        format_decimal(row.trials, 0),
        format_decimal(row.calls, 0),
        format_decimal(row.usd, 2),
        format_decimal(row.cells, 0),
    ]

    recalls = row.recalls or dict.fromkeys(tops)  # None for each k without recalls
    accuracy = [row.rho_mean, row.rho_sd, *recalls.values(), row.coverage, row.half_width, row.regret]
    return [row.budget_label, *cost_columns, *map(format_decimal, accuracy)]


@click.command("sparsity")
@options.runs
@_holdout_options(20)
def sparsity_command(
    *, runs: tuple[Path, ...], find_groups: ContrastFinder, html: Path | None, as_json: bool, **arguments: Any
) -> None:
    """Estimate how few cells or calls predict held-out cells of RUNs.

    Reproduces Tables 3 and 4 and Figure 2 of the paper on dense RUNs, with random holdouts. A regime is a design with a number
    of observed cells. For each regime, the percentage of observed cells, the number of calls, the RMSE of the predictions, and
    the ρ, τ and AUC of the ranking are printed. The AUC measures how well a ranking separates --top-groups from
    --bottom-groups. --html also writes a page with the figures.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.stats.curl.link_table import compare_links
    from youden.study.judged_runs import make_unique_names
    from youden.study.link_curl import describe_additivity
    from youden.study.replaying import read_dense_answers
    from youden.study.sparsity import describe_sparsity, sparsity_to_json, study_sparsity

    results: dict[str, Json] = {}
    page_parts: list[StudyPart] = []
    names = make_unique_names([run.resolve().name for run in runs])
    for name, folder in zip(names, map(RunFolder, runs), strict=True):
        answers = read_dense_answers(folder)
        groups = find_groups(answers)
        with progress_bar() as bar:
            # `arguments` are the values of the options of the holdouts
            study = study_sparsity(answers, groups=groups, progress=bar, **arguments)
        links = compare_links(answers.scores(study.kind))
        sentences = (*describe_sparsity(study), *describe_additivity(links))
        signature = folder.read_signature().text

        results[name] = {**sparsity_to_json(study), "summary": list(sentences), "signature": signature}
        if html is not None:
            page_parts.append(_make_sparsity_part(study, name, sentences, signature))
        if not as_json:
            table = _make_sparsity_table(study, name)
            output.print_text(tables=[table], lines=sentences, notes=[f"signature: {signature}"])

    if html is not None:
        from youden.report.pages.writing import write_study

        write_study(html, "Sparsity", page_parts)
    if as_json:
        output.print_json({"sparsity": results})


def _make_sparsity_part(study: SparsityStudy, name: str, lines: tuple[str, ...], signature: str) -> StudyPart:
    """Make the part of the HTML page of `youden study sparsity` on one run, with its figures.

    name : name of the run, the heading of the part
    lines : conclusions in sentences
    signature : signature of the run, which states how the result was computed
    """
    from youden.report.charts.studies import draw_sparsity_figures
    from youden.report.pages.writing import StudyPart

    return StudyPart(name, lines, draw_sparsity_figures(study), signature)


def _make_sparsity_table(study: SparsityStudy, name: str) -> Table:
    """Tabulate the cost and accuracy of each regime, with the dense regime in the first row.

    A regime is a design with a number of observed cells (agent–item pairs); in the dense regime, all training cells are observed.
    The cost is the percentage of observed cells, the number of calls, and "unordered", the number of calls if each pair is
    compared in only one order.

    name : name of the run, for the title
    """
    headings = ["regime", "% of all", "% of train", "calls", "unordered", "holdout RMSE", "ρ", "τ", "AUC"]
    # "c" is the first column, which does not wrap; "r" aligns the other columns to the right
    sides = "c" + "r" * (len(headings) - 1)
    rows = []
    for regime in (study.dense, *study.rows):
        cost = [
            _format_mean(regime.of_all, digits=1, factor=100),
            _format_mean(regime.of_train, digits=1, factor=100),
            _format_mean(regime.calls, digits=0),
            _format_mean(regime.calls_unordered, digits=0),
        ]
        accuracy = [_format_summary(measure) for measure in (regime.rmse, regime.rho, regime.tau, regime.auc)]
        rows.append([regime.label, *cost, *accuracy])
    return Table(f"{name}: {study.kind} scores, rule {study.rule}, mean (SD) over holdouts", headings, sides, rows)


def _format_mean(summary: SeedSummary | None, *, digits: int, factor: float = 1) -> str:
    """Format `factor` times a mean over seeds; a dash if there is none."""
    return format_decimal(None if summary is None else factor * summary.mean, digits)


def _format_summary(summary: SeedSummary | None) -> str:
    """Format a mean over seeds with its standard deviation; a dash if there is none."""
    return "–" if summary is None else output.format_with_sd(summary.mean, summary.sd)
