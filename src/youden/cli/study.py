"""`youden study`: the paper's questions asked of a run. `links`: does the additive model hold, and on which link?
`paper`: its tables again, beside its own figures.
`variance`: what moves its ranking. `aa`: is an agent told apart from itself?
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import options, output
from youden.cli.options import LazyGroup
from youden.progress_bar import progress_bar
from youden.text.sentences import format_items_compared
from youden.text.tables import Table, format_decimal, make_table

if TYPE_CHECKING:
    from youden.stats.curl.quantiles import Coincident
    from youden.study.link_curl import LinksStudy
    from youden.study.paper import PaperStudy
    from youden.types.pool import Json
    from youden.types.results import ScoreKind


@click.command("links")
@options.run
@options.scores("row")
@click.option(
    "--draws", type=click.IntRange(min=0), default=500, help="Bootstrap resamples of agents and items; 0: none."
)
@click.option(
    "--coincident",
    type=click.Choice(["drop", "keep"]),
    default="drop",
    help="What becomes of rectangles whose agent or item was drawn twice. keep: the paper's way, biased to 0.",
)
@options.seeded("the resamples")
@options.json
def links_command(
    *, run: Path, scores: ScoreKind, draws: int, coincident: Coincident, seed: int, as_json: bool
) -> None:
    """Does ability − difficulty fit RUN, and on which link?

    Exact median and 95th percentile of the curl |s_ij − s_i'j − s_ij' + s_i'j'| over all rectangles, raw and per SD of the
    transformed scores, with the R² of the additive fit.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.link_curl import LinksStudy, compute_partner_share
    from youden.types.pool import plain_fields

    folder = RunFolder(run)
    study = LinksStudy(
        folder.read_scores(scores),
        partners=compute_partner_share(folder.read_rates(), scores) if folder.has("rates.parquet") else 1.0,
        n_draws=draws,
        coincident=coincident,
        seed=seed,
    )
    signature = folder.read_signature().text
    warnings = folder.read_facts().warnings if folder.has("fit.json") else ()
    found: dict[str, Json] = {
        "run": folder.path.name,
        "signature": signature,
        "warnings": [plain_fields(one) for one in warnings],
    }
    output.tell(
        as_json,
        plain_fields(study) | found,
        tables=_links_tables(study, folder.path.name),
        words=study.words,
        notes=[f"signature: {signature}"],
        warnings=warnings,
    )


def _links_tables(study: LinksStudy, name: str) -> Iterator[Table]:
    yield make_table(
        f"{name}: curl of {study.scores} scores, {study.n_agents} agents × "
        f"{format_items_compared(study.n_items, study.n_compared)}, {study.n_cells:,} cells",
        ["link"],
        ["median", "P95", "median per SD", "P95 per SD", "R²"],
        (
            [link, *map(format_decimal, (row.median, row.p95, row.median_scaled, row.p95_scaled, row.r2))]
            for link, row in study.links.items()
        ),
    )
    if study.differences:
        first = study.differences[0]
        yield make_table(
            f"Differences in median curl, {first.level:.0%} of {first.n_draws} resamples, coincident: {first.coincident}",
            ["links"],
            ["exact", "mean of resamples", "low", "high"],
            (
                [f"{gap.first} − {gap.second}", *map(format_decimal, (gap.exact, gap.mean, gap.low, gap.high))]
                for gap in study.differences
            ),
        )


@click.command("paper")
@options.runs
@click.option("--seeds", type=click.IntRange(min=1), default=20, help="Holdouts drawn.")
@click.option("--draws", type=click.IntRange(min=20), default=500, help="Bootstrap resamples of Table 2.")
@click.option(
    "--judges",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Runs of several judges on one pool, for Table 6; repeat it.",
)
@options.json
def paper_command(*, runs: tuple[Path, ...], seeds: int, draws: int, judges: tuple[Path, ...], as_json: bool) -> None:
    """The paper's tables again, and where paper and data disagree.

    Its figures stand beside ours. RUNs are imported, and recognised by the folder they were imported from: pubmed…, opus…,
    peer_review….
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.agreement import JudgesStudy
    from youden.study.judged_runs import AlignedRuns, read_judged_run
    from youden.study.paper import group_by_domain, study_paper
    from youden.study.replaying import read_dense_answers
    from youden.types.pool import plain_fields

    folders = [RunFolder(run) for run in runs]
    worlds = group_by_domain({folder.read_pool().source: read_dense_answers(folder) for folder in folders})
    compared = None
    if judges:
        compared = JudgesStudy(AlignedRuns([read_judged_run(RunFolder(run)) for run in judges], match="number"))
    with progress_bar() as bar:
        study = study_paper(worlds, n_seeds=seeds, n_draws=draws, judges=compared, progress=bar)
    signatures = [folder.read_signature().text for folder in folders]
    told = (("Not made", study.missing), ("Where the paper and its data disagree", study.disagreements))
    output.tell(
        as_json,
        {"paper": plain_fields(study) | {"signatures": [*signatures]}},
        tables=_paper_tables(study),
        words=[line for title, lines in told for line in (f"{title}:", *(f"- {one}" for one in lines))],
        notes=[f"signature: {signature}" for signature in signatures],
    )


def _paper_tables(study: PaperStudy) -> Iterator[Table]:
    for number, rows in groupby(study.rows, key=lambda row: row.table):
        figures = (
            [row.row, row.figure, *map(format_decimal, (row.paper, row.ours, row.sd)), format_decimal(row.sds, 1)]
            for row in rows
        )
        yield make_table(f"Table {number}", ["", "figure"], ["paper", "ours", "SD", "SDs apart"], figures)


@click.command("variance")
@options.run
@click.argument("others", metavar="[OTHER_RUNS]…", nargs=-1, type=click.Path(path_type=Path))
@options.json
def variance_command(*, run: Path, others: tuple[Path, ...], as_json: bool) -> None:
    """What moves RUN's ranking: items, luck, calls, the judge?

    The variance of an ability in parts, what twice of each would make of the interval, and one sentence. OTHER_RUNS are other
    judges' runs of the same plan. Nothing is asked. The report of a fitted RUN shows it, from moves.json.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.variance_components import build_variance_table, study_variance
    from youden.types.pool import plain_fields

    folder = RunFolder(run)
    found = study_variance(folder, [RunFolder(other) for other in others])
    if folder.has("fit.json"):
        folder.write_moves(found)
    errors = (
        f"An agent's distance from the average has a standard error of {found.error:.4f}, two agents' difference one of "
        f"{found.of_difference:.4f}; agents differ by {found.between**0.5:.4f} (SD)."
    )
    words = [errors, *found.unknown, found.sentence]
    output.tell(as_json, plain_fields(found), tables=[build_variance_table(found)], words=words)


@click.command("aa")
@options.run
@click.option("--splits", type=click.IntRange(min=1), default=20, help="Random splits in halves.")
@options.seeded("the splits")
@options.json
def aa_command(*, run: Path, splits: int, seed: int, as_json: bool) -> None:
    """Is an agent told apart from itself? Halves of its repeats.

    Each agent's responses to each item are split in two halves, which are ranked as if they were agents. A half that is told
    apart from the other, or gated worse, is an error of the program. Nothing is asked.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.types.pool import plain_fields
    from youden.workflows.halves import run_aa_test

    folder = RunFolder(run)
    found = run_aa_test(folder.read_verdicts(folder.read_plan()), n_splits=splits, seed=seed)
    output.tell(as_json, plain_fields(found), words=[found.words])


QUESTIONS = {
    "links": "youden.cli.study:links_command",
    "sparsity": "youden.cli.study_budgets:sparsity_command",
    "baselines": "youden.cli.study_budgets:baselines_command",
    "budget": "youden.cli.study_budgets:budget_command",
    "judges": "youden.cli.results:compare_command",
    "paper": "youden.cli.study:paper_command",
    "variance": "youden.cli.study:variance_command",
    "aa": "youden.cli.study:aa_command",
}


@click.command("study", cls=LazyGroup, groups={"Commands": QUESTIONS})
def study_command() -> None:
    """Ask the paper's questions of a run."""
