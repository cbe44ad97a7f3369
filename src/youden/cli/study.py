"""Define `youden study` and its commands `links`, `paper`, `variance` and `aa`.

They analyze the files of judged runs and send no requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import options, output
from youden.cli.options import LazyGroup
from youden.progress_bar import progress_bar
from youden.text.printable import format_command
from youden.text.sentences import format_items_compared
from youden.text.tables import Table, format_decimal, make_table

if TYPE_CHECKING:
    from youden.data.folder.run_folder import RunFolder
    from youden.stats.curl.quantiles import Coincident, MedianDifference
    from youden.study.agreement import JudgesStudy
    from youden.study.link_curl import LinksStudy
    from youden.study.paper import PaperStudy
    from youden.types.pool import Json
    from youden.types.results import ScoreKind


@click.command("links")
@options.run
@options.scores_option("row")
@click.option(
    "--n-resamples",
    type=click.IntRange(min=0),
    default=500,
    help="Number of bootstrap resamples of agents and items; 0: none.",
)
@click.option(
    "--duplicates",
    type=click.Choice(["drop", "keep"]),
    default="drop",
    help="What to do with rectangles whose agent or item was resampled twice. keep: as in the paper, biased towards 0.",
)
@options.seed_option("the resamples")
@options.json
def links_command(
    *, run: Path, scores: ScoreKind, n_resamples: int, duplicates: Coincident, seed: int, as_json: bool
) -> None:
    """Test how well the additive model fits the scores of RUN.

    The scores s are transformed by a link function: identity, probit or logit. The curl of two agents i, i' and two items j, j'
    (a rectangle) is |s_ij − s_i'j − s_ij' + s_i'j'|. For each link, the command computes the exact median and 95th percentile of
    the curl over all rectangles, both unscaled and in units of the SD of the transformed scores. It also computes the R² of the
    additive fit. Bootstrap resamples of agents and items show whether the medians of two links differ.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.protocol.self_trials import check_compares_agents
    from youden.study.link_curl import LinksStudy
    from youden.types.pool import plain_fields

    folder = RunFolder(run)
    if folder.has("plan.parquet"):
        check_compares_agents(folder.read_plan_without_trials(), "study links")
    study = LinksStudy(
        folder.read_scores(scores),
        partners=_read_partner_share(folder, scores),
        n_draws=n_resamples,
        coincident=duplicates,
        seed=seed,
    )
    signature = folder.read_signature().text
    warnings = folder.read_facts().warnings if folder.has("fit.json") else ()
    result: dict[str, Json] = {
        **plain_fields(study),
        "run": folder.path.resolve().name,
        "signature": signature,
        "warnings": [plain_fields(warning) for warning in warnings],
    }
    output.print_result(
        as_json,
        result,
        tables=_make_curl_tables(study, folder.path.resolve().name),
        lines=study.summary,
        notes=[f"signature: {signature}"],
        warnings=warnings,
    )


def _read_partner_share(folder: RunFolder, scores: ScoreKind) -> float:
    """Return the share of all other agents that the median cell was compared with; 1 if the run has no rates."""
    from youden.study.link_curl import compute_partner_share

    if not folder.has("rates.parquet"):
        return 1.0
    return compute_partner_share(folder.read_rates(), scores)


def _make_curl_tables(study: LinksStudy, name: str) -> Iterator[Table]:
    """Yield a table of the curl on each link function, and a table of the differences between link functions.

    Curl, the deviation of transformed scores from additivity, is |s_ij − s_ik − s_lj + s_lk| for agents i, l on items j, k. R² is
    the share of the variance that the additive fit explains. The second table is left out without bootstrap resamples.

    name : name of the run, for the title of the first table
    """
    rows = []
    for link_function, curl in study.links.items():
        statistics = (curl.median, curl.p95, curl.median_scaled, curl.p95_scaled, curl.r2)
        rows.append([link_function, *map(format_decimal, statistics)])
    yield make_table(
        f"{name}: curl of {study.scores} scores, {study.n_agents} agents × "
        f"{format_items_compared(study.n_items, study.n_compared)}, {study.n_cells:,} cells",
        ["link"],
        ["median", "P95", "median per SD", "P95 per SD", "R²"],
        rows,
    )
    if study.differences:
        yield _make_differences_table(study.differences)


def _make_differences_table(differences: Sequence[MedianDifference]) -> Table:
    """Tabulate how much the median curl differs between pairs of link functions, with bootstrap intervals.

    The curl measures how far scores are from being additive on the scale of a link function; it is 0 for additive scores.

    differences : one per pair of link functions, not empty; all have the same number of resamples and confidence level

    Returns a table with one row per pair: the difference in the data, and the mean and the interval of the difference over the
    resamples.
    """
    rows = []
    for difference in differences:
        estimates = (difference.exact, difference.mean, difference.low, difference.high)
        rows.append([f"{difference.first} − {difference.second}", *map(format_decimal, estimates)])
    settings = differences[0]  # the settings of all differences are equal
    return make_table(
        f"Differences in median curl, {settings.level:.0%} intervals from {settings.n_draws} resamples, "
        f"duplicates: {settings.coincident}",
        ["links"],
        ["exact", "mean of resamples", "low", "high"],
        rows,
    )


@click.command("paper")
@options.runs
@click.option("--n-seeds", type=click.IntRange(min=1), default=20, help="Number of random holdouts.")
@click.option(
    "--n-resamples",
    type=click.IntRange(min=20),
    default=500,
    help="Number of bootstrap resamples for Table 2.",
)
@click.option(
    "--judges",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Run of one of several judges on the same pool, for Table 6. Repeatable.",
)
@options.json
def paper_command(
    *, runs: tuple[Path, ...], n_seeds: int, n_resamples: int, judges: tuple[Path, ...], as_json: bool
) -> None:
    """Reproduce the tables of the paper from its data.

    Each number is printed next to the number in the paper, and disagreements between the paper and its data are listed. RUNs are
    imported runs. The name of the folder that was imported identifies the data set: pubmed…, opus… or peer_review…. Runs with
    other names are ignored. Tables 3 to 5 are means over --n-seeds random holdouts, and Table 2 uses --n-resamples
    bootstrap resamples. Table 6 needs --judges, runs of several judges on one pool.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.paper import group_by_domain, study_paper
    from youden.study.replaying import read_dense_answers
    from youden.types.pool import plain_fields

    folders = [RunFolder(run) for run in runs]
    answers_by_source = {folder.read_pool().source: read_dense_answers(folder) for folder in folders}
    answers_by_domain = group_by_domain(answers_by_source)
    judges_study = _compare_judges(judges) if judges else None
    with progress_bar() as bar:
        study = study_paper(answers_by_domain, n_seeds=n_seeds, n_draws=n_resamples, judges=judges_study, progress=bar)

    signatures = [folder.read_signature().text for folder in folders]
    result: dict[str, Json] = {**plain_fields(study), "signatures": [*signatures]}
    not_computed = [f"- {line}" for line in study.missing]
    disagreements = [f"- {line}" for line in study.disagreements]
    output.print_result(
        as_json,
        {"paper": result},
        tables=_make_paper_tables(study),
        lines=["Not computed:", *not_computed, "Disagreements between the paper and its data:", *disagreements],
        notes=[f"signature: {signature}" for signature in signatures],
    )


def _compare_judges(runs: tuple[Path, ...]) -> JudgesStudy:
    """Compare the judges of runs, with items matched by the last number in their ids."""
    from youden.data.folder.run_folder import RunFolder
    from youden.study import agreement
    from youden.study.judged_runs import AlignedRuns, read_judged_run

    judged_runs = [read_judged_run(RunFolder(run)) for run in runs]
    return agreement.JudgesStudy(AlignedRuns(judged_runs, match="number"))


def _make_paper_tables(study: PaperStudy) -> Iterator[Table]:
    """Yield one table per table of the paper: its figures, ours, and their difference in standard deviations."""
    for number, rows in groupby(study.rows, key=lambda row: row.table):
        cells = []
        for row in rows:
            figures = [format_decimal(value) for value in (row.paper, row.value, row.sd)]
            cells.append([row.row, row.figure, *figures, format_decimal(row.sds, 1)])
        yield make_table(f"Table {number}", ["", "figure"], ["paper", "ours", "SD", "difference in SDs"], cells)


@click.command("variance")
@options.run
@click.argument("other_runs", metavar="[OTHER_RUNS]…", nargs=-1, type=click.Path(path_type=Path))
@options.json
def variance_command(*, run: Path, other_runs: tuple[Path, ...], as_json: bool) -> None:
    """Estimate the variance components of the abilities of RUN.

    The variance of an ability has components due to items, responses, calls and judges. The result shows how the interval would
    change with twice as many items, responses, calls or judges, and ends with a conclusion. OTHER_RUNS are runs of other judges
    on the same plan. If RUN was fitted, the command also updates variance_components.json, and the report shows these components.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.variance_components import build_variance_table, study_variance
    from youden.types.pool import plain_fields

    folder = RunFolder(run)
    components = study_variance(folder, [RunFolder(path) for path in other_runs])
    if folder.has("fit.json"):
        folder.write_variance_components(components)
    between_agent_sd = components.between_agent_variance**0.5
    std_errors = (
        f"The standard error is {components.std_error:.4f} for an agent's distance from the average, and "
        f"{components.difference_std_error:.4f} for the difference of two agents; abilities have an SD of {between_agent_sd:.4f}."
    )
    unknown = components.list_unknown(format_command([str(run)]))
    lines = [std_errors, *unknown, components.summary]
    output.print_result(as_json, plain_fields(components), tables=[build_variance_table(components)], lines=lines)


@click.command("aa")
@options.run
@click.option("--n-splits", type=click.IntRange(min=1), default=20, help="Number of random splits.")
@options.seed_option("the splits")
@options.json
def aa_command(*, run: Path, n_splits: int, seed: int, as_json: bool) -> None:
    """Run an A/A test on RUN: compare agents with themselves.

    The responses of each agent to each item are split into two random halves, which are ranked as if they were two agents. The
    test counts how often the two halves differ significantly, and how often `youden gate`, a non-inferiority test, finds that one
    half is worse than the other. Both should happen rarely. The test needs agents with several responses per item, uses the
    answers of RUN, and sends no request.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.types.pool import plain_fields
    from youden.workflows.halves import run_aa_test

    folder = RunFolder(run)
    result = run_aa_test(folder.read_verdicts(folder.read_plan()), n_splits=n_splits, seed=seed)
    output.print_result(as_json, plain_fields(result), lines=[result.summary])


STUDIES = {
    "links": "youden.cli.study:links_command",
    "sparsity": "youden.cli.study_budgets:sparsity_command",
    "baselines": "youden.cli.study_budgets:baselines_command",
    "budget": "youden.cli.study_budgets:budget_command",
    "judges": "youden.cli.results:compare_command",
    "paper": "youden.cli.study:paper_command",
    "variance": "youden.cli.study:variance_command",
    "aa": "youden.cli.study:aa_command",
}
"""Name of a study → its module and object."""


@click.command("study", cls=LazyGroup, groups={"Commands": STUDIES})
def study_command() -> None:
    """Study the method on a judged run."""
