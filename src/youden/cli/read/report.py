"""`youden report RUN`: draw a run's report anew, or a part of it for another place."""

from __future__ import annotations

from pathlib import Path

import click

from youden.cli.terms import options, show, tracking

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
    "holdout",
    "pairs",
    "pairs-beyond",
)
PICTURES = ("png", "svg")
FORMATS = ("html", "md", *PICTURES, "csv")


@click.command("report")
@options.run
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), default="html", show_default=True, help="What is written."
)
@click.option("--chart", type=click.Choice(CHARTS), help="The figure that png and svg draw. [default: ranking]")
@click.option("--against", type=click.Path(path_type=Path), metavar="RUN", help="Compare with another run (html).")
@options.labels
@tracking.option
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
    from youden.errors import ConfigError
    from youden.practice.labels.matching import aliases_of
    from youden.practice.labels.validation import open_labels, validate
    from youden.report.pages import write

    if chart is not None and kind not in PICTURES:
        raise click.UsageError(f"--chart is drawn as png or svg, not as {kind}. Add --format png.")
    if to_mlflow:
        if kind != "html" or against is not None or out is not None:
            raise ConfigError(
                "--mlflow logs RUN/report.html as it is written now. Leave out --format, --against and --out.",
                slug="report-mlflow",
            )
        tracking.check()
    folder = RunFolder(run)
    if labels is not None:
        pool = folder.read_pool()
        validate(folder, open_labels(labels, pool.agent_ids, aliases=aliases_of(pool.agents)))
    if against is not None:
        if kind != "html":
            raise ConfigError(f"--against is drawn as html, not as {kind}. Leave out --format.", slug="report-against")
        click.echo(str(write.write_comparison(folder, RunFolder(against), out=out)))
    elif kind == "html":
        path, data = write.write_page(folder, out=out)
        show.warn(data.summary.warnings)
        click.echo(str(path))
        if to_mlflow:
            tracking.log(folder)
    elif kind in ("md", "csv"):
        text = write.markdown(folder) if kind == "md" else write.ranking_csv(folder)
        if out is None:
            click.echo(text, nl=False)
        else:
            write.write_file(out, text)
            click.echo(str(out))
    else:
        click.echo(
            str(write.write_picture(folder, chart or "ranking", kind="png" if kind == "png" else "svg", out=out))
        )
