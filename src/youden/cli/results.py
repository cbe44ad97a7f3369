"""Commands that read what was judged: fit, compare, report, view.

`youden fit RUN`: rates, scores, fit and ranking of a judged run.

`youden compare RUN RUN…`: do judges agree?

`youden report RUN`: draw a run's report anew, or a part of it for another place.

`youden view [RUN…]`: look at runs in a browser.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import options, output, progress, run_options
from youden.errors import ConfigError
from youden.text.printable import format_command
from youden.text.sentences import format_items_compared, format_signed_interval, format_with_interval
from youden.text.tables import Table, format_decimal, make_table

if TYPE_CHECKING:
    from youden.run_keys import Target
    from youden.stats.base.metrics import Metric
    from youden.study.agreement import JudgesStudy
    from youden.study.judge_shifts import JudgeShifts
    from youden.study.judged_runs import MatchItems
    from youden.types.pool import Json
    from youden.types.results import ScoreKind


@click.command("fit")
@options.run
@options.labels
@run_options.of_config("target", "robust", "trusted", "families")
@click.option("--rates", is_flag=True, help="Write rates.parquet even for 10,000,000 trials or more.")
@options.json
def fit_command(
    *,
    run: Path,
    labels: Path | None,
    said: run_options.Said,
    rates: bool,
    as_json: bool,
) -> None:
    """Fit the model to the answers in RUN and rank its agents.

    Writes rates.parquet, scores.csv, scores_row.csv, holdout.csv, ranking.csv, items.csv, fit.json and signature.json;
    with --labels also labels.json, which says how far the ranking agrees with them.

    Ability is how well others' responses let the judge recognise the same source, relative to this pool, this judge and these
    items. It rewards restating what others can be matched to (obscure or bureaucratic styles stand high, terse references low),
    and is no proof of correctness.
    """
    from youden.runs.run_object import Run

    summary = Run(run).fit(**said, labels=labels, rates=rates).summary
    output.show_result(summary, as_json=as_json)
    if labels is not None and summary.labels is not None and any(one.cells for one in summary.labels.labels):
        output.note(
            f"labels and ability together: {format_command(['youden', 'quality', str(run), '--labels', str(labels)])}"
        )


MOST_SHOWN = 5


@click.command("compare")
@options.runs
@options.scores("symmetric")
@click.option(
    "--match",
    type=click.Choice(["id", "number"]),
    default="id",
    help="Which items are the same: those with one id, or with one last number in it (example-7 is task-007).",
)
@click.option(
    "--target",
    type=click.Choice(["items-like-these", "these-items", "items-and-judges"]),
    help="What differences describe: how agents would do on more items like these, or on these items alone. items-and-judges: "
    "rank by the average of judges that answered the same trials, with what judges differ in, in the intervals. "
    "[default: what the runs say, else items-like-these]",
)
@options.family
@options.json
def compare_command(
    *,
    runs: tuple[Path, ...],
    scores: ScoreKind,
    match: MatchItems,
    target: Target | None,
    families: dict[str, str],
    as_json: bool,
) -> None:
    """Do the judges of RUNs agree on what they share?

    The paper's Table 6: agent ranking, item difficulty, curl on data and predictions, agreement per trial (raw, Cohen's κ,
    Krippendorff's α), and where they differ most. "rankings ρ" is of the two rankings as they stand; "fitted anew ρ" is of
    additive fits to what the runs share. It also says which pairs of agents each run tells apart, and whether in the same
    order; --target says which items these differences are about. Where two runs answered the same trials, it names the agents
    that the later run's judge moves beyond chance, and says whether a judge favours agents of its own family (meta.family of the
    pool's agents).
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.report.data.comparison import compare_quality
    from youden.study.agreement import compare
    from youden.types.pool import plain_fields

    if target == "items-and-judges":
        _over_judges(runs, as_json=as_json)
        return
    study = compare(*runs, scores=scores, match=match, target=target, families=families)
    beside = compare_quality([(name, RunFolder(run)) for name, run in zip(study.runs, runs, strict=True)])
    words = [*study.words, *beside]
    signatures = [RunFolder(run).read_signature().text for run in runs]
    found: dict[str, Json] = {**plain_fields(study), "words": list(words), "signatures": list(signatures)}
    output.tell(
        as_json,
        {"judges": found},
        tables=judges_tables(study),
        words=words,
        notes=[f"signature of {name}: {one}" for name, one in zip(study.runs, signatures, strict=True)],
    )


def _over_judges(runs: tuple[Path, ...], *, as_json: bool) -> None:
    """The ranking averaged over judges, and what they are worth."""
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.multi_judge import describe_judge_spread, measure_judge_spread
    from youden.types.pool import or_none

    results = [(folder := RunFolder(run)).read_verdicts(folder.read_plan()) for run in runs]
    found = measure_judge_spread(results)
    half, ids, M, said = (
        found.covariance.half_width(),
        results[0].plan.agent_ids,
        len(runs),
        describe_judge_spread(found),
    )
    order = sorted(range(len(ids)), key=lambda k: -found.ability[k])
    agents: list[Json] = [
        {"agent": ids[k], "ability": float(found.ability[k]), "half_width": or_none(float(half[k]))} for k in order
    ]
    lines = ([ids[k], format_decimal(found.ability[k]), f"± {half[k]:.3f}"] for k in order)
    title = f"Averaged over {M} judges, for items and judges like these"
    output.tell(
        as_json,
        {"target": "items-and-judges", "agents": agents, "votes": found.n_effective, "said": said},
        tables=[make_table(title, ["agent"], ["ability", "95 %"], lines)],
        words=[said],
    )


def judges_tables(study: JudgesStudy) -> Iterator[Table]:
    """All that a study of judges has beside its words."""
    yield make_table(
        f"Judges on {study.n_agents} agents × "
        f"{format_items_compared(study.n_items, study.n_compared, by=' by every judge')}, agreement on {study.units}",
        ["judges"],
        ["rankings ρ", "fitted anew ρ", "items ρ", study.units, "same", "κ", "α", "α graded"],
        (
            [
                f"{pair.one} / {pair.other}",
                *map(_with_interval, (pair.ranking, pair.fits, pair.difficulty)),
                f"{pair.n_units:,}",
                *map(format_decimal, (pair.same, pair.kappa, pair.alpha, pair.alpha_soft)),
            ]
            for pair in study.pairs
        ),
    )
    yield make_table(
        "Curl, median / P95",
        ["judge", "link"],
        ["data", "predictions"],
        (
            [
                name,
                link,
                f"{format_decimal(row.data_median)} / {format_decimal(row.data_p95)}",
                f"{format_decimal(row.predicted_median)} / {format_decimal(row.predicted_p95)}",
            ]
            for name, rows in study.curl.items()
            for link, row in rows.items()
        ),
    )
    differ = [[agent["agent"], *(f"place {place}" for place in agent["places"])] for agent in study.agents]
    differ += [
        [item["item"], *(f"{format_decimal(value, 2)} SD" for value in item["difficulty"])] for item in study.items
    ]
    yield make_table("Where they differ most", ["agent or item"], study.runs, differ)
    yield from map(_shifts_table, study.shifts)


def _shifts_table(shifts: JudgeShifts) -> Table:
    tested = [agent for agent in shifts.agents if not isnan(agent.p_holm)]
    rows = [
        [
            agent.agent,
            f"{agent.shift:+.3f}",
            f"{format_signed_interval(agent.low, agent.high)} ({shifts.level:.0%})",
            format_decimal(agent.p_holm),
        ]
        for number, agent in enumerate(tested)
        if agent.moves or number < MOST_SHOWN
    ]
    for row in shifts.families:
        whose = f", that of {' and '.join(row.judges)}" if row.judges else ""
        interval = format_signed_interval(row.low, row.high) + ("" if row.low is None else f" ({row.level:.0%})")
        apart = "" if row.told_apart or row.curve_share is None else ", not told apart from a curve"
        name = f"family {row.family} ({row.n_agents}{whose}{apart})"
        rows.append([name, f"{row.shift:+.3f}", interval, format_decimal(row.p_holm)])
    return make_table(
        f"{shifts.other} against {shifts.one}: yes-rates off what {shifts.one} leads to expect, "
        f"{shifts.n_trials:,} {shifts.units}",
        ["agents or family"],
        ["shift", "interval", "p (Holm)"],
        rows,
    )


def _with_interval(metric: Metric | None) -> str:
    return "–" if metric is None else format_with_interval(metric.value, metric.low, metric.high, digits=3)


CHARTS = (
    "ranking",
    "agents",
    "agents-clustered",
    "scores",
    "residuals",
    "difficulty",
    "curl",
    "curl-scaled",
    "alarms",
    "moves",
    "holdout",
    "pairs",
    "pairs-beyond",
    "quality",
)
PICTURES = ("png", "svg")
FORMATS = ("html", "md", *PICTURES, "csv")


@click.command("report")
@options.run
@click.option("--format", "kind", type=click.Choice(FORMATS), default="html", help="What is written.")
@click.option("--chart", type=click.Choice(CHARTS), help="The figure that png and svg draw. [default: ranking]")
@click.option("--against", type=click.Path(path_type=Path), metavar="RUN", help="Compare with another run (html).")
@options.labels
@progress.option
@options.open_store
@click.option(
    "--out", type=click.Path(path_type=Path), help="The file to write. [default: RUN/report.html, RUN/CHART.png, …]"
)
def report_command(
    *,
    run: Path,
    kind: str,
    chart: str | None,
    against: Path | None,
    labels: Path | None,
    to_mlflow: bool,
    out: Path | None,
) -> None:
    """Write RUN/report.html, or a part of it for another place.

    Reads the files of a fitted run and prints the path it wrote. md (a summary fit for a pull request) and csv (the ranking)
    go to standard output unless --out is given; png and svg draw one figure. --against OTHER writes both runs side by side.
    --labels also writes RUN/labels.json, and later reports show it for as long as the ranking stays.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.report.data.summary import Summary
    from youden.report.pages.writing import TEXTS
    from youden.runs.run_object import Run
    from youden.workflows.labels import open_labels, validate

    if chart is not None and kind not in PICTURES:
        raise click.UsageError(f"--chart is drawn as png or svg, not as {kind}. Add --format png.")
    if to_mlflow:
        if kind != "html" or against is not None or out is not None:
            raise ConfigError(
                "--mlflow logs RUN/report.html as it is written now. Leave out --format, --against and --out.",
                slug="report-mlflow",
            )
        progress.check()
    folder = RunFolder(run)
    if labels is not None:
        validate(folder, open_labels(labels, folder.read_pool().agents))
    if kind in TEXTS and out is None and against is None:
        click.echo(TEXTS[kind](folder), nl=False)
        return
    path = Run(run).report(out, format=kind, chart=chart, against=against)
    if kind == "html" and against is None:
        output.warn(Summary(folder).warnings)
    click.echo(str(path))
    if to_mlflow:
        progress.log(folder)


@click.command("view")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")
@click.option("--port", type=click.IntRange(0, 65535), help="The port to serve at. [default: any that is free]")
@click.option("--open/--no-open", "opens", show_default=False, help="Open the address in a browser.")
@options.open_store
def view_command(runs: tuple[Path, ...], port: int | None, opens: bool) -> None:
    """Look at runs in a browser, also while they are under way.

    Shows reports, two runs side by side, and every trial. Serves the runs named, or all in `runs/`, to this machine only, and
    only to who has the address that is printed. It reads and never writes. End it with Ctrl-C.
    """
    from youden.report.charts.vega import need_charts
    from youden.view.shown import find_runs

    need_charts()
    from youden.view.app import prepare

    serving = prepare(find_runs(runs, root=Path("runs")), port=port or 0, token=secrets.token_urlsafe(24))
    click.echo(serving.url)
    output.note("Serving to this machine only; Ctrl-C ends it.")
    if opens:
        click.launch(serving.url_once)  # other users of the machine see a command's words
    serving.run()
