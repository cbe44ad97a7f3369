"""A run's folder as an object: its results, and what the command line makes from them without requests.

The object holds no results: it reads the files of the folder, so that it and the commands can be used in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self

from youden.data.folder.run_folder import RunFolder
from youden.errors import YoudenError
from youden.pipeline.fitted_run import fit_run
from youden.text.printable import printable

if TYPE_CHECKING:
    import pandas as pd

    from youden.data.exporters.export_files import Exported
    from youden.pools.run_cassettes import CassetteExport
    from youden.report.data.summary import Summary
    from youden.run_keys import Target
    from youden.types import Finding, Plan, Verdicts
    from youden.types.facts import RunFacts
    from youden.types.recommendation import Recommendation
    from youden.workflows.gate import Gate
    from youden.workflows.quality import Labels
    from youden.workflows.to_label import LabelsFor, ToLabel

    PathOrText = str | PathLike[str]


class RunView:
    """What is known of a run, and all that is made from its files without requests.

    Attributes
    ----------
    path : Path
        The run's folder.
    folder : RunFolder
        Reads and writes its files.
    """

    def __init__(self, path: PathOrText) -> None:
        self.path = Path(path)
        self.folder = RunFolder(self.path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        said = "not fitted"
        with suppress(YoudenError):
            said = printable(self.recommendation.text)
        return f"Run({str(self.path)!r}: {said})"

    def _repr_html_(self) -> str:
        from youden.text.tables import as_html

        summary = self.summary
        lines = [summary.headline, *map(str, summary.warnings)]
        return as_html(summary.table(bar_cells=0)) + "".join(f"<p>{escape(printable(line))}</p>" for line in lines)

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return self.path.resolve().name

    @property
    def facts(self) -> RunFacts:
        """Contents of fit.json."""
        return self.folder.read_facts()

    @property
    def recommendation(self) -> Recommendation:
        """What the run recommends; `text` is the sentence that every output begins with."""
        return self.facts.recommendation

    @property
    def summary(self) -> Summary:
        """The head of the report: ranking, headline, cost and warnings, with the sentences that the terminal shows."""
        from youden.report.data.summary import Summary

        return Summary(self.folder)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that a reader of the ranking should know."""
        return self.facts.warnings

    @property
    def plan(self) -> Plan:
        """The plan, which reads its pool when it is needed."""
        return self.folder.read_plan()

    @property
    def verdicts(self) -> Verdicts:
        """Answers of the judge, with the plan as `verdicts.plan`."""
        return self.folder.read_verdicts(self.plan)

    @property
    def ranking(self) -> pd.DataFrame:
        """One row per agent, best first, in the columns of ranking.csv and with the `attrs` of `youden.rank`."""
        import pandas as pd

        facts = self.facts
        table = pd.read_csv(self.folder.file("ranking.csv"))
        names = ("best", "choice", "signal", "recommendation")
        table.attrs.update({name: getattr(facts, name) for name in names})
        table.attrs.update(method=f"{facts.ranking}; {facts.interval}", warnings=list(facts.warnings))
        return table

    def fit(
        self,
        *,
        target: Target | None = None,
        robust: bool | None = None,
        trusted: Sequence[str] | None = None,
        families: Mapping[str, str] | PathOrText | None = None,
        labels: PathOrText | None = None,
        rates: bool = False,
    ) -> Self:
        """Fit the answers again, as `youden fit` does.

        The run's folder keeps `target`, `robust`, `trusted` and `families` for later fits; None leaves them as they
        are.

        Parameters
        ----------
        target : {"items-like-these", "these-items", "items-and-judges"}, optional
            Population that the intervals refer to.
        robust : bool, optional
            Whether to rank by the robust ranking. Ignored if `trusted` is given.
        trusted : sequence of str, optional
            Agents that alone score all others. An empty sequence removes the panel.
        families : mapping or path, optional
            Agent → family, or a table with the columns agent and family.
        labels : str or path, optional
            Table of labels that the ranking is compared with.
        rates : bool, default False
            Whether to write rates.parquet even for 10,000,000 trials or more.

        Returns
        -------
        Run
            Itself.
        """
        from youden.data.label_tables import read_families
        from youden.workflows.labels import open_labels, validate

        folder = self.folder
        table = None if labels is None else open_labels(Path(labels), folder.read_pool().agents)
        if isinstance(families, str | PathLike):
            families = read_families(Path(families))
        chosen = None if trusted is None else tuple(trusted)
        rules = folder.terms.rules.changed(robust=robust, trusted=chosen, families=families)
        fit_run(folder, target=target, rules=rules, rates=rates)
        if table is not None:
            validate(folder, table)
        return self

    def report(
        self,
        path: PathOrText | None = None,
        *,
        format: str | None = None,
        chart: str | None = None,
        against: PathOrText | None = None,
    ) -> Path:
        """Write the report, or a part of it, as `youden report` does.

        Parameters
        ----------
        path : str or path, optional
            File to write. Default: one in the run's folder, such as report.html.
        format : {"html", "md", "csv", "png", "svg"}, optional
            Default: that of the ending of `path`, else "html".
        chart : str, optional
            Figure that png and svg draw. Default: "ranking".
        against : str, path or Run, optional
            Other run to show side by side (html).

        Returns
        -------
        Path
            The file.

        Raises
        ------
        ConfigError
            [report-format] if the format is unknown; [report-against] if `against` is given and the format is not html;
            [unknown-chart] if the run has no such figure; [pictures-missing] if png or svg needs a package that is not
            installed.
        """
        from youden.report.pages import writing

        out = None if path is None else Path(path)
        kind = format or (out.suffix.lstrip(".").lower() if out is not None and out.suffix else "html")
        return writing.write_as(
            self.folder, kind, out=out, chart=chart, against=None if against is None else RunFolder(Path(against))
        )

    def log_to_mlflow(self) -> str:
        """Log ranking, intervals, cost and report to MLflow, as `youden report --mlflow` does, and return the id there."""
        from youden.report.tracking import log_run

        self.report()
        return log_run(self.folder)

    def gate(
        self,
        *agents: str,
        baseline: str,
        margin: float = 0.05,
        target: Target | None = None,
        labels: Labels | None = None,
        label: str | None = None,
        scale: tuple[float, float] | None = None,
        ledger: PathOrText | None = None,
        markdown: PathOrText | None = None,
        junit: PathOrText | None = None,
    ) -> Gate:
        """Test whether agents are better, no worse or worse than a baseline, as `youden gate` does.

        Parameters
        ----------
        *agents : str
            The new agents; several share the alpha.
        baseline : str
            The agent that they are compared with.
        margin : float, default 0.05
            Largest deficit that still counts as no worse, in (0, 2): in units of ability, or of the labels if `labels`
            are given.
        target : {"items-like-these", "these-items"}, optional
            Population that differences refer to. Default: what the run says.
        labels, label, scale : optional
            As in `quality`; compare by quality instead of ability.
        ledger : str or path, optional
            File that counts the interim analyses. Default: gates.json in the run's folder.
        markdown, junit : str or path, optional
            Files to write the result to.

        Returns
        -------
        Gate
            `verdict` is that of all agents together: "better", "no worse", "undecided" or "worse"; `agents` has one row
            each.

        Raises
        ------
        InputError
            [gate-margin], [gate-target] if a value is not allowed; [gate-agent], [gate-baseline] if an agent is unknown
            or missing; [gate-unjudged], [gate-apart] if the answers do not allow the comparison.
        """
        from youden.report.pages.writing import gate_markdown, render_junit, write_file
        from youden.workflows.gate import gate_run
        from youden.workflows.quality import read_answers

        gate = gate_run(
            self.folder,
            agents,
            baseline=baseline,
            margin=margin,
            ledger=None if ledger is None else Path(ledger),
            target=target,
            labels=None if labels is None else read_answers(self.folder, labels, label=label, scale=scale),
        )
        for path, render in ((markdown, gate_markdown), (junit, render_junit)):
            if path is not None:
                write_file(Path(path), render(gate))
        return gate

    def quality(
        self, labels: Labels, *, label: str | None = None, scale: tuple[float, float] | None = None
    ) -> pd.DataFrame:
        """Estimate the mean label of each agent from a few labels and ability together, as `youden quality` does.

        Writes quality.csv and quality.json; the ranking stays as it is.

        Parameters
        ----------
        labels : path, sequence of paths, or DataFrame
            Tables with the columns agent, item and a label, or tables that `label` wrote, filled in. An answer may be labelled
            more than once.
        label : str, optional
            Column of the label, if there are several.
        scale : (float, float), default (0, 1)
            Lowest and highest possible label.

        Returns
        -------
        DataFrame
            One row per agent, best first, in the columns of quality.csv; `attrs["words"]` says what it comes to.
        """
        import pandas as pd

        from youden.workflows.quality import estimate_quality

        found = estimate_quality(self.folder, labels, label=label, scale=scale)
        table = pd.DataFrame([row.__dict__ for row in found.agents])
        table.attrs["words"] = found.words
        return table

    def label(
        self,
        n: int,
        out: PathOrText,
        *,
        purpose: LabelsFor = "all",
        labels: Labels | None = None,
        label: str | None = None,
        scale: tuple[float, float] | None = None,
        show_agents: bool = False,
        seed: int = 0,
    ) -> ToLabel:
        """Write the next `n` answers to label into a table, as `youden label` does.

        Parameters
        ----------
        n : int
            Number of answers.
        out : str or path
            The table to write, a .csv; a .json beside it says whose answers they are.
        purpose : {"all", "best"}, default "all"
            Whether labels are for all agents or to find the best.
        labels, label, scale : optional
            Labels that are there already, as in `quality`.
        show_agents : bool, default False
            Whether the table names the agents.
        seed : int, default 0
            Seed of items, ids and order.

        Returns
        -------
        ToLabel
        """
        from youden.workflows.quality import read_answers
        from youden.workflows.to_label import choose_to_label

        known = None if labels is None else read_answers(self.folder, labels, label=label, scale=scale)
        return choose_to_label(
            self.folder, n, Path(out), purpose=purpose, known=known, show_agents=show_agents, seed=seed
        )

    def export(
        self,
        out: PathOrText,
        *,
        format: str = "tables",
        overwrite: bool = False,
        organization: str | None = None,
        raw_cells: bool = False,
    ) -> Exported:
        """Write the run for other tools, as `youden export` does.

        Parameters
        ----------
        out : str or path
            File (tables: .csv, .jsonl, .parquet or .duckdb) or new folder.
        format : str, default "tables"
            Registered format: "tables", "eee", "hf", or a plugin's.
        overwrite : bool, default False
            Whether to replace existing files; folders are never replaced.
        organization : str, optional
            Who made the run, for "eee".
        raw_cells : bool, default False
            Whether to leave texts in CSV files unchanged that a spreadsheet would run as formulas. Default: prefix an
            apostrophe.

        Returns
        -------
        Exported
            `files`, and the number of `rows` of each table.
        """
        from youden.data.exporters import EXPORTERS
        from youden.data.exporters.export_files import ExportOptions

        return EXPORTERS.load(format)(self.folder, Path(out), terms=ExportOptions(overwrite, organization, raw_cells))

    def export_cassette(self, out: PathOrText, *, redact: bool = False) -> CassetteExport:
        """Write the run's requests and answers to a file, as `youden cassette export` does.

        Parameters
        ----------
        out : str or path
            File to write.
        redact : bool, default False
            Whether to write SHA-256 hashes in place of texts.

        Returns
        -------
        CassetteExport
        """
        from youden.pools.run_cassettes import export_cassette

        return export_cassette(self.path, Path(out), redacted=redact)
