"""Define the commands that evaluate judged runs: `fit`, `compare`, `report` and `view`.

They use only the files of run folders and send no request to a judge.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import options, output, progress, run_options
from youden.cli.options import explain_ability
from youden.errors import ConfigError
from youden.text.printable import format_command, printable
from youden.text.sentences import format_items_compared, format_signed_interval, format_with_interval
from youden.text.tables import Table, format_decimal, make_table

if TYPE_CHECKING:
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.multi_judge import JudgeSpread
    from youden.run_keys import Target
    from youden.stats.base.metrics import Metric
    from youden.study.agreement import JudgesStudy
    from youden.study.judge_shifts import FamilyShift, JudgeShifts
    from youden.study.judged_runs import MatchItems
    from youden.types.pool import Json
    from youden.types.results import ScoreKind


@click.command("fit")
@options.run
@options.labels
@run_options.config_options("target", "robust", "trusted", "families")
@click.option("--rates", is_flag=True, help="Write rates.parquet even for 10,000,000 trials or more.")
@options.open_store_option
@options.json
@explain_ability
def fit_command(
    *,
    run: Path,
    labels: Path | None,
    overrides: run_options.Overrides,
    rates: bool,
    as_json: bool,
) -> None:
    """Fit the model to the answers in RUN and rank its agents.

    An unfinished run is ranked by the answers so far, and marked as partial. The answers to an unfinished extension are not
    used.

    Writes scores.csv, scores_row.csv, ranking.csv, items.csv, fit.json, signature.json and others, and
    with --labels also labels.json, which measures how well the ranking agrees with the labels. A run by preference has no
    files of scores. A run of 10,000,000 trials or more gets rates.parquet only with --rates. The settings of the ranking,
    such as --target, are stored in the config of the run.
    """
    from youden.pipeline.next_step import format_finishing_step
    from youden.runs.run_object import Run

    fitted_run = Run(run).fit(**overrides, labels=labels, rates=rates)
    summary = fitted_run.summary
    output.print_fitted_run(summary, as_json=as_json)
    finishing_step = format_finishing_step(fitted_run.folder)
    if finishing_step:
        output.print_note(f"next: {finishing_step}")
    validation = summary.labels
    if labels is None or validation is None:
        return
    has_labeled_responses = any(label.cells for label in validation.labels)
    if has_labeled_responses:
        command = format_command(["youden", "quality", str(run), "--labels", str(labels)])
        output.print_note(f"to combine labels and ability, run: {command}")


MAX_INSIGNIFICANT_SHIFTS = 5
"""Maximum number of agents in the table of shifts if none is significant; all significant shifts are shown."""


@click.command("compare")
@options.runs
@options.scores_option("symmetric")
@click.option(
    "--match",
    type=click.Choice(["id", "number"]),
    default="id",
    help="How to match items of different runs: by id, or by the last number in the id (example-7 matches task-007).",
)
@click.option(
    "--target",
    type=click.Choice(["items-like-these", "these-items", "items-and-judges"]),
    help="Population of the differences: more items like these, or only these items. items-and-judges: rank by the mean over "
    "judges that answered the same trials, with intervals that include the variance between judges. [default: that of the "
    "runs, else items-like-these]",
)
@options.family_option("the name of the folder of its run")
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
    """Compare the judges of RUNs on shared agents and items.

    Pass two or more RUNs. --scores selects the scores of an agent: from trials in which its response comes first (row), or in
    both orders (symmetric). --match selects how items of different runs are matched: by id, or by the last number in the id.

    Reproduces Table 6 of the paper. The table contains correlations of the rankings of agents and of the difficulties of items,
    the curl of the data and of the predictions, the agreement per trial (raw, Cohen's κ, Krippendorff's α), and the largest
    differences. The column "rankings ρ" correlates the rankings of the runs, and "refitted ρ" the abilities of additive fits to
    the shared data.

    The result also lists the pairs of agents that differ significantly in each run, and states whether the runs agree on their
    order. --target sets the population for which the intervals of these differences hold, such as more items of the same kind. If
    two runs contain answers to the same trials, the result also lists the agents whose abilities differ significantly between the
    judges. It then also states whether a judge favors agents of its own family. The family of a judge is `family:` in its config,
    or --family JUDGE=NAME. The family of an agent is `meta.family` in the pool.

    With --target items-and-judges, the result is instead one ranking by the mean ability over the judges.

    A run that asks for information and one that asks for preferences are compared as two instruments: correlation of the
    rankings, and agents that are significantly above the average agent by one and below it by the other. Two runs that ask for
    preferences are compared by their rankings, their significant differences, and their answers to the same trials.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.agreement import JudgesStudy
    from youden.study.comparison import compare
    from youden.study.preference_judges import PreferenceJudgesStudy
    from youden.types.arguments import check_unused
    from youden.types.pool import plain_fields

    folders = [RunFolder(run) for run in runs]
    if target == "items-and-judges" and not any(folder.asks_preference for folder in folders):
        check_unused("A mean over judges", scores=scores != "symmetric", match=match != "id", family=families)
        _print_mean_over_judges(runs, as_json=as_json)
        return

    study = compare(*runs, scores=scores, match=match, target=target, families=families)
    if isinstance(study, JudgesStudy):
        _print_comparison_of_judges(study, folders, as_json=as_json)
        return
    key = "preferences" if isinstance(study, PreferenceJudgesStudy) else "instruments"
    result: dict[str, Json] = {**plain_fields(study), "summary": list(study.summary)}
    output.print_result(as_json, {key: result}, answer=study.summary, tables=[study.table()])


def _print_comparison_of_judges(study: JudgesStudy, folders: Sequence[RunFolder], *, as_json: bool) -> None:
    """Print a comparison of the judges of runs, with the results by labels, if any, and the signatures of the runs."""
    from youden.report.data.comparison import compare_quality
    from youden.types.pool import plain_fields

    quality_lines = compare_quality(list(zip(study.runs, folders, strict=True)))
    lines = [*study.summary, *quality_lines]
    signatures = [folder.read_signature().text for folder in folders]
    result: dict[str, Json] = {**plain_fields(study), "summary": list(lines), "signatures": list(signatures)}
    output.print_result(
        as_json,
        {"judges": result},
        answer=lines,
        tables=iter_judges_tables(study),
        notes=[f"signature of {name}: {text}" for name, text in zip(study.runs, signatures, strict=True)],
    )


def _print_mean_over_judges(runs: tuple[Path, ...], *, as_json: bool) -> None:
    """Print the ranking by the mean abilities over several judges that answered the same trials.

    runs : folders of the runs, one run per judge
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.multi_judge import describe_judge_spread, measure_judge_spread
    from youden.pipeline.recommendation import recommend_across_judges
    from youden.pipeline.variance_components import read_all_verdicts
    from youden.types.pool import or_none

    verdicts_by_judge = [read_all_verdicts(RunFolder(run), "compare") for run in runs]
    judge_spread = measure_judge_spread(verdicts_by_judge)
    summary = describe_judge_spread(judge_spread)
    recommendation = recommend_across_judges(verdicts_by_judge, judge_spread)

    agents_as_json: list[Json] = []
    rows = []
    for agent, ability, half_width in _rank_by_mean(judge_spread, verdicts_by_judge[0].plan.agent_ids):
        agents_as_json.append({"agent": agent, "ability": ability, "half_width": or_none(half_width)})
        rows.append([agent, format_decimal(ability), f"± {half_width:.3f}"])
    result: dict[str, Json] = {
        "target": "items-and-judges",
        "recommendation": asdict(recommendation),
        "agents": agents_as_json,
        "votes": judge_spread.n_effective,  # effective number of judges: of independent ones with the same information
        "summary": summary,
    }
    title = f"Mean over {len(runs)} judges, for items and judges like these"
    table = make_table(title, ["agent"], ["ability", "95%"], rows)
    output.print_result(as_json, result, answer=[recommendation.text, summary], tables=[table])


def _rank_by_mean(judge_spread: JudgeSpread, agent_ids: Iterable[str]) -> list[tuple[str, float, float]]:
    """Return each agent with its mean ability over the judges and the half-width of its interval, the best agent first."""
    half_widths = judge_spread.covariance.half_width()
    agents = zip(agent_ids, judge_spread.ability.tolist(), half_widths.tolist(), strict=True)
    return sorted(agents, key=lambda agent: -agent[1])


def iter_judges_tables(study: JudgesStudy) -> Iterator[Table]:
    """Yield the tables of a comparison of two or more judges: agreement, curl, largest differences, and shifts of agents.

    Curl is the distance of a judge's scores from an additive model. There is one table of shifts for each pair of judges that
    answered the same trials.
    """
    yield _make_agreement_table(study)
    yield _make_curl_table(study)
    yield _make_differences_table(study)
    yield from map(_make_shifts_table, study.shifts)


def _make_agreement_table(study: JudgesStudy) -> Table:
    """Tabulate for each pair of judges the correlations of their rankings and the agreement of their answers.

    The correlations are those of the rankings, of the abilities by a new fit to the shared data ("refitted"), and of the
    difficulties of the items. The other columns concern what both judges answered, trials or ordered pairs of agents: their
    number, the fraction of equal answers ("same"), and coefficients of agreement.
    """
    rows = []
    for pair in study.pairs:
        correlations = [_format_interval(metric) for metric in (pair.ranking, pair.refit_ability, pair.difficulty)]
        measures = (pair.agreement, pair.cohen_kappa, pair.krippendorff_alpha, pair.krippendorff_alpha_graded)
        agreement = [format_decimal(measure) for measure in measures]
        rows.append([f"{pair.judge_a} / {pair.judge_b}", *correlations, f"{pair.n_units:,}", *agreement])
    items = format_items_compared(study.n_items, study.n_compared, by=" by every judge")
    return make_table(
        f"Judges on {study.n_agents} agents × {items}, agreement on {study.units}",
        ["judges"],
        ["rankings ρ", "refitted ρ", "items ρ", study.units, "same", "κ", "α", "α graded"],
        rows,
    )


def _make_curl_table(study: JudgesStudy) -> Table:
    """Tabulate the curl of each judge's scores, one row per judge and link function (identity, probit or logit).

    Curl measures how far the transformed scores are from a sum of an agent effect and an item effect. The column "predictions"
    has the curl of the scores, without transformation, that an additive fit on the scale of the link predicts.
    """
    rows = []
    for judge, curl_by_link in study.curl.items():
        for link, curl in curl_by_link.items():
            curl_of_data = f"{format_decimal(curl.data_median)} / {format_decimal(curl.data_p95)}"
            curl_of_predictions = f"{format_decimal(curl.predicted_median)} / {format_decimal(curl.predicted_p95)}"
            rows.append([judge, link, curl_of_data, curl_of_predictions])
    return make_table("Curl, median / P95", ["judge", "link"], ["data", "predictions"], rows)


def _make_differences_table(study: JudgesStudy) -> Table:
    """Tabulate the agents and items on which the judges differ most: ranks of agents, and difficulties of items."""
    agent_rows = [[agent["agent"], *(f"rank {rank}" for rank in agent["places"])] for agent in study.agents]
    item_rows = [
        [item["item"], *(f"{format_decimal(value, 2)} SD" for value in item["difficulty"])] for item in study.items
    ]
    return make_table("Largest differences, by the refits", ["agent or item"], study.runs, [*agent_rows, *item_rows])


def _make_shifts_table(shifts: JudgeShifts) -> Table:
    """Tabulate the shifts of agents and model families between two judges.

    A shift is the rate of yes answers under the second judge minus the rate predicted from the first judge. The table contains
    the first `MAX_INSIGNIFICANT_SHIFTS` tested agents, all other agents with a significant shift, and all families. The
    p-values are adjusted by Holm's method.
    """
    tested_shifts = [shift for shift in shifts.agents if not isnan(shift.p_holm)]
    rows = []
    for index, shift in enumerate(tested_shifts):
        if not shift.significant and index >= MAX_INSIGNIFICANT_SHIFTS:
            continue
        value = f"{shift.shift:+.3f}"
        interval = f"{format_signed_interval(shift.low, shift.high)} ({shifts.level:.0%})"
        if abs(shift.shift) > 1:  # no difference of two yes rates, so the curve is wrong
            value, interval = "unknown", "too few agents for the curve"
        rows.append([shift.agent, value, interval, format_decimal(shift.p_holm)])
    rows += [_make_family_row(family) for family in shifts.families]

    return make_table(
        f"{shifts.second_judge} against {shifts.first_judge}: yes rates relative to those predicted from {shifts.first_judge}, "
        f"{shifts.n_trials:,} {shifts.units}",
        ["agents or family"],
        ["shift", "interval", "p (Holm)"],
        rows,
    )


def _make_family_row(family: FamilyShift) -> list[str]:
    """Format the shift of a model family as a row of the table of shifts: name, shift, interval and p-value.

    The name is followed by the number of agents and the judges of the family, and by a remark if a nonlinear relation between the
    judges may explain the shift.
    """
    description = str(family.n_agents)
    if family.judges:
        description += f", family of {' and '.join(family.judges)}"
    was_relation_tested = family.curve_share is not None  # None with too few agents
    if was_relation_tested and not family.identifiable:
        description += ", not distinguishable from a nonlinear relation"

    interval = format_signed_interval(family.low, family.high)
    if family.low is not None:
        interval += f" ({family.level:.0%})"
    name = f"family {family.family} ({description})"
    return [name, f"{family.shift:+.3f}", interval, format_decimal(family.p_holm)]


def _format_interval(metric: Metric | None) -> str:
    """Format a correlation with its confidence interval; a dash for None."""
    if metric is None:
        return "–"
    return format_with_interval(metric.value, metric.low, metric.high, digits=3)


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
    "variance",
    "holdout",
    "pairs",
    "pairs-beyond",
    "quality",
)
"""Figures that `report --chart` can draw."""
PICTURE_FORMATS = ("png", "svg")
FORMATS = ("html", "md", *PICTURE_FORMATS, "csv")


@click.command("report")
@options.run
@click.option("--format", "kind", type=click.Choice(FORMATS), default="html", help="Format to write.")
@click.option("--chart", type=click.Choice(CHARTS), help="Figure to draw as png or svg. [default: ranking]")
@click.option(
    "--against", type=click.Path(path_type=Path), metavar="RUN", help="Show another run next to this one (html)."
)
@options.labels
@progress.mlflow_option
@options.open_store_option
@click.option(
    "--out", type=click.Path(path_type=Path), help="File to write. [default: RUN/report.html, RUN/CHART.png, …]"
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
    """Write the report of RUN, or a part of it.

    Reads the files of a fitted run and prints the path of the file it writes, by default RUN/report.html. The formats
    md (a summary, for example for a pull request) and csv (the ranking) are written to standard output unless --out is
    set; png and svg contain one figure (--chart), by default RUN/ranking.png or RUN/ranking.svg. --against OTHER writes a page
    with both runs side by side, by default RUN/against-OTHER.html. --labels also writes RUN/labels.json, which later reports
    include until the ranking changes. --mlflow also logs the ranking and the report to an MLflow server.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.report.data.summary import Summary
    from youden.report.pages.writing import TEXTS
    from youden.runs.run_object import Run
    from youden.workflows.labels import open_labels, validate

    is_whole_report = kind == "html" and against is None
    if chart is not None and kind not in PICTURE_FORMATS:
        raise click.UsageError(f"--chart requires the format png or svg: got {kind}. Set --format png.")
    if to_mlflow and (out is not None or not is_whole_report):
        raise ConfigError(
            "--mlflow logs the new RUN/report.html. Remove --format, --against and --out.", slug="report-mlflow"
        )
    if to_mlflow:
        progress.check_mlflow()

    folder = RunFolder(run)
    if labels is not None:
        validate(folder, open_labels(labels, folder.read_pool().agents))

    is_printed = kind in TEXTS and out is None and against is None
    if is_printed:
        click.echo(TEXTS[kind](folder), nl=False)
        return

    path = Run(run).report(out, format=kind, chart=chart, against=against)
    if is_whole_report:
        output.print_warnings(Summary(folder).warnings)
    click.echo(printable(str(path)))
    if to_mlflow:
        progress.log_to_mlflow(folder)


@click.command("view")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the server. [default: any free port]")
@click.option("--open/--no-open", "opens_browser", show_default=False, help="Open the page in a browser.")
@options.open_store_option
def view_command(runs: tuple[Path, ...], port: int | None, opens_browser: bool) -> None:
    """View runs in a browser, including runs in progress.

    Shows reports, comparisons of two runs, and every trial. Serves the given runs, or all runs in `runs/`. The server can be
    reached only from this machine, and only at the printed address, which contains a secret token. It changes no files. Press
    Ctrl-C to stop it.
    """
    from youden.report.charts.vega import need_charts
    from youden.view.shown import find_runs

    need_charts()
    from youden.view.app import open_server  # imported only now, because the packages of the charts may be missing

    shown_runs = find_runs(runs, root=Path("runs"))
    server = open_server(shown_runs, port=port or 0, token=secrets.token_urlsafe(24))
    click.echo(printable(server.url))
    output.print_note("Serving on this machine only. Press Ctrl-C to stop.")
    if opens_browser:
        # Other users of the machine can see the arguments of the browser's process. This address is valid only once.
        click.launch(server.url_once)
    server.run()
