"""Represent the folder of a run as an object with its results, and with the commands that send no requests.

The object caches no results. It reads the files of the folder, so that it and the command line can be used in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self

from youden.data.folder.csv_tables import read_ranking_frame
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, YoudenError
from youden.pipeline.fitted_run import check_fit, fit_run
from youden.pipeline.partial_run import write_answers_so_far
from youden.pipeline.recommendation import read_recommendation
from youden.text.printable import printable
from youden.types.arguments import check_argument

if TYPE_CHECKING:
    import pandas as pd

    from youden.data.exporters.export_files import Exported
    from youden.pools.run_cassettes import CassetteExport
    from youden.report.data.summary import Summary
    from youden.run_keys import Target
    from youden.stats.trials.replication import ReplicationScores
    from youden.types import Finding, Plan, Verdicts
    from youden.types.facts import RunFacts
    from youden.types.recommendation import Recommendation
    from youden.workflows.gate import Gate
    from youden.workflows.quality import Labels
    from youden.workflows.to_label import LabelsFor, ToLabel

    PathOrText = str | PathLike[str]


def _check_label_options(labels: Labels | None, label: str | None, scale: tuple[float, float] | None) -> None:
    """Raise ConfigError [label-options] if the column or the scale of labels is set without labels."""
    if labels is None and not (label is None and scale is None):
        raise ConfigError(
            f"`label` and `scale` have an effect only with `labels`: got {label!r} and {scale!r}. Set `labels`, or remove them.",
            slug="label-options",
        )


class RunView:
    """Results of a run, and methods that send no requests.

    Attributes
    ----------
    path : Path
        Folder of the run.
    folder : RunFolder
        Reader and writer of its files.
    """

    def __init__(self, path: PathOrText) -> None:
        check_argument("path", path, str | PathLike, "Pass the folder of a run.")
        self.path = Path(path)
        self.folder = RunFolder(self.path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        status = "not fitted"
        with suppress(YoudenError):
            status = printable(self.recommendation.text)
        return f"Run({str(self.path)!r}: {status})"

    def _repr_html_(self) -> str:
        """Show headline, warnings and ranking as HTML in a notebook."""
        from youden.text.tables import to_html

        def to_paragraph(line: str) -> str:
            """Return a line of text as a paragraph in HTML."""
            return f"<p>{escape(printable(line))}</p>"

        summary = self.summary
        headline = to_paragraph(summary.headline)
        table = to_html(summary.table(bar_cells=0))
        warnings = [to_paragraph(str(warning)) for warning in summary.warnings]
        return headline + table + "".join(warnings)

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.resolve().name

    @property
    def facts(self) -> RunFacts:
        """Contents of fit.json."""
        return self.folder.read_facts()

    @property
    def recommendation(self) -> Recommendation:
        """Recommendation of the run; every output begins with its `text`."""
        return read_recommendation(self.folder)

    @property
    def summary(self) -> Summary:
        """Ranking, headline, costs and warnings, with the sentences that the terminal shows."""
        from youden.report.data.summary import Summary

        return Summary(self.folder)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that a reader of the ranking should know."""
        return self.facts.warnings

    @property
    def plan(self) -> Plan:
        """Plan of the run, which reads its pool on first access."""
        return self.folder.read_plan()

    @property
    def verdicts(self) -> Verdicts:
        """Answers of the judge; their `plan` is the plan of the run."""
        return self.folder.read_verdicts(self.plan)

    def replication_bounds(self, agent: str) -> ReplicationScores:
        """Compute replication scores of the responses of an agent from its self-trials.

        The mean score is a lower bound on the information that a response of the agent contains about the item.

        Parameters
        ----------
        agent : str
            Id of an agent of a run of self-trials, or of a run with `self_trials`.

        Returns
        -------
        ReplicationScores
            One score of each kind (`pearson`, `kl`) per response, in the order of repeats, then items. The mean of `pearson`
            bounds the χ² information, the mean of `kl` the Shannon information in nats. A KL score is NaN if no further response
            to the item matches.

        Raises
        ------
        StatisticsError
            [replication-agent]: if the run has no answered self-trial of the agent.
        """
        from youden.pipeline.self_consistency import replication_bounds

        return replication_bounds(self.verdicts, agent)

    @property
    def ranking(self) -> pd.DataFrame:
        """Ranking as a DataFrame with one row per agent, best first.

        It has the columns of ranking.csv, among them `agent`, `ability`, the bounds `low` and `high` of the 95% interval of the
        ability, and `rank`. The mapping `attrs` has the same keys as for `youden.rank`:

        - `agents`: ids of the agents, best first, also after the table was sorted.
        - `unique_best`: id of the agent that is significantly better than all others, or None.
        - `choice`: agents that are selected as the best, and an upper bound on their regret (how much better another agent may
          be).
        - `signal`: tests whether the judge discriminates (Youden's J is above 0), and whether the abilities differ.
        - `partial`: how much of the run is judged, or None if it is finished.
        - `recommendation`: recommended agents, with the reasons.
        - `method`: estimator of the abilities, and method of the intervals.
        - `warnings`: findings about the run.
        """
        fit_facts = self.facts  # raises if the run is missing or not fitted
        table = read_ranking_frame(self.folder.file("ranking.csv"))
        table.attrs.update(
            agents=table["agent"].tolist(),
            unique_best=fit_facts.unique_best,
            choice=fit_facts.choice,
            signal=fit_facts.signal,
            partial=fit_facts.partial,
            recommendation=self.recommendation,
            method=f"{fit_facts.ranking}; {fit_facts.interval}",
            warnings=list(fit_facts.warnings),
        )
        return table

    @property
    def differences(self) -> pd.DataFrame:
        """Differences of abilities as a DataFrame with one row per ordered pair of agents.

        It has these columns of pairs.parquet. The numbers are NaN for agents that cannot be compared.

        - `first`, `second`: ids of the agents.
        - `difference`, `half_width`: ability of the first agent minus that of the second, and the half-width of the 95% interval
          of this difference, for this pair alone.
        - `significantly_better`: 1 if this interval is above 0, else 0.
        - `p_holm`: p-value of the hypothesis that the first agent is not better, adjusted for all pairs by Holm's method.

        The abilities are those of the plain ranking, also if the run is ranked by another rule.
        """
        import pandas as pd

        self.folder.read_pairs()  # raises if the file is damaged, or belongs to another ranking
        columns = ["first", "second", "difference", "half_width", "significantly_better", "p_holm"]
        table = pd.read_parquet(self.folder.file("pairs.parquet"), columns=columns)
        return table.astype({"first": str, "second": str})

    def fit(
        self,
        *,
        target: Target | None = None,
        robust: bool | None = None,
        trusted: str | Sequence[str] | None = None,
        families: Mapping[str, str] | PathOrText | None = None,
        labels: PathOrText | None = None,
        rates: bool = False,
    ) -> Self:
        """Fit the answers again, as the command `youden fit` does.

        The tables of the run are replaced; its report is not written again. An unfinished run is ranked by its answers so far.
        `ranking.attrs["partial"]` then states how many there are.

        The folder of the run stores `target`, `robust`, `trusted` and `families` for later fits. None leaves a
        setting unchanged.

        Parameters
        ----------
        target : {"items-like-these", "these-items", "items-and-judges"}, optional
            Population that the intervals refer to.
        robust : bool, optional
            Whether to report the robust ranking first, in which agents that agree suspiciously often count as one partner.
            True or False removes a stored trusted panel; False reports the plain ranking first. Ignored if `trusted` is given.
        trusted : str or sequence of str, optional
            Ids of the trusted panel, the agents that alone score all others. An empty sequence removes the panel.
        families : mapping or path, optional
            Mapping of agent id to model family, or the path of a table with the columns agent and family. It replaces all
            stored families. An empty mapping removes them; the families in the pool are then used, if there are any.
        labels : str or path, optional
            Table of labels (.csv, .tsv, .xlsx, .jsonl or .parquet) with which the ranking is compared. It has the column agent,
            optionally item, and one or several columns of labels. The result is written to labels.json.
        rates : bool, default False
            Whether to write rates.parquet even for 10,000,000 trials or more.

        Returns
        -------
        Run
            Itself.

        Raises
        ------
        ConfigError
            [argument-type]: if an argument has a wrong type, for example a DataFrame; [labels-unknown], [labels-alias]: if the
            labels do not fit the agents; [judges-few]: if the target "items-and-judges" is set and the run has a single judge;
            [question-option], [option-unused]: if the run asks for preferences, and an argument is set that does not apply to
            such a run.
        ImportFormatError
            If a table of families or labels cannot be read.
        StatisticsError
            If the panel or the families do not fit the agents, or the answers do not allow a fit; [robust-few-agents]: if
            `robust` is True and the run has fewer than 8 agents.
        RunFolderError
            [run-unjudged]: if the run has no answers.
        """
        from youden.data.label_tables import read_families
        from youden.workflows.labels import open_labels, validate

        check_argument("labels", labels, str | PathLike | None, "Pass the path of a table of labels.")
        if hasattr(families, "columns"):
            check_argument(
                "families", families, Mapping, "Pass a mapping, such as `dict(zip(table.agent, table.family))`."
            )
        folder = self.folder
        table = None if labels is None else open_labels(Path(labels), folder.read_pool().agents)
        if isinstance(families, str | PathLike):
            families = read_families(Path(families))
        if isinstance(trusted, str):
            trusted = (trusted,)
        panel = None if trusted is None else tuple(trusted)
        for agent in panel or ():
            check_argument("trusted", agent, str, "Pass ids of agents.")
        rules = folder.fit_settings.rules.with_changes(robust=robust, trusted=panel, families=families)
        write_answers_so_far(folder)
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
        """Write the report or a part of it, as the command `youden report` does.

        Parameters
        ----------
        path : str or path, optional
            File to write; an existing one is replaced, and missing folders are created. Default: a file in the folder of the
            run: report.FORMAT, for a figure CHART.FORMAT, with `against` against-RUN.html.
        format : {"html", "md", "csv", "png", "svg"}, optional
            The whole report ("html"), its summary ("md"), the ranking ("csv"), or one figure. It may differ from the suffix of
            `path`. Default: this suffix, which must be one of the formats; "html" if there is no path or no suffix.
        chart : str, optional
            Figure to draw as png or svg, for example "ranking" or "difficulty"; ignored for other formats. Default: "ranking".
        against : str, path or Run, optional
            Other fitted run. The file is then a comparison of both runs (only html).

        Returns
        -------
        Path
            Path of the file.

        Raises
        ------
        ConfigError
            [report-format]: if the format or the suffix is unknown; [report-against]: if `against` is given and the format
            is not html; [unknown-chart]: if the run has no such figure (the message lists them); [pictures-missing]: if png or
            svg needs a package that is not installed.
        RunFolderError
            If the run is not fitted, or a file is missing or damaged; [fit-stale], [run-other-plan]: if the run was planned or
            judged again since it was fitted; [run-preference]: for a figure of a run that asks for preferences.
        """
        from youden.report.pages import writing

        out = None if path is None else Path(path)
        suffix = "" if out is None else out.suffix.lstrip(".").lower()
        report_format = format or suffix or "html"
        other_run = None if against is None else RunFolder(Path(against))
        return writing.write_as(self.folder, report_format, out=out, chart=chart, against=other_run)

    def log_to_mlflow(self) -> str:
        """Log ranking, intervals, costs and report to MLflow, as the command `youden report --mlflow` does.

        Returns
        -------
        str
            Id of the run in MLflow.

        Raises
        ------
        ConfigError
            [mlflow-missing]: if MLflow is not installed; [mlflow-refused]: if its server does not accept the run.
        """
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
        """Test whether agents are better, no worse or worse than a baseline, as the command `youden gate` does.

        The test is a gate: a non-inferiority test that may be repeated as answers are added. Each test is an interim analysis,
        which is recorded in `ledger` and spends a part of alpha, .05: half of it at the first analysis, and half of the
        remainder at each later one. A repeated test of the same answers is not counted again.

        Parameters
        ----------
        *agents : str
            Ids of the new agents. Several agents share alpha, so that the error rate holds for all of them together.
        baseline : str
            Id of the agent with which the new agents are compared.
        margin : float in (0, 2), default 0.05
            Largest deficit that still counts as no worse, in units of ability, or of the labels if `labels` are given.
        target : {"items-like-these", "these-items"}, optional
            Population that the differences refer to: more items like those of the run, or its items alone. Only
            "items-like-these" is allowed with `labels` and for a run that asks for preferences. Default: "these-items" if this
            is the target of the run, otherwise "items-like-these".
        labels : path, sequence of paths, or DataFrame, optional
            Tables of labels, as for `quality`, to compare agents by quality instead of ability.
        label : str, optional
            Column of the label, if there are several.
        scale : (float, float), default (0, 1)
            Lowest and highest possible label.
        ledger : str or path, optional
            File that records the interim analyses; it is created if it does not exist. Default: gates.json in the folder of the
            run.
        markdown, junit : str or path, optional
            Files to which the result is written as Markdown and as JUnit XML; existing ones are replaced. Default: no files.

        Returns
        -------
        Gate
            `agents` is a tuple of `GateResult`, one per distinct agent: the `difference` (agent minus baseline), its bounds `low`
            and `high`, and the `outcome`: "better", "no worse", "undecided" or "worse". The bounds are None if the agent
            or the baseline has answers on fewer than 6 items. Without `labels`, they are also None if the judge does not
            discriminate between responses to the same item and to different items. The
            `outcome` of the gate is the least favorable outcome of an agent; "undecided" is less favorable than "no worse".

        Raises
        ------
        InputError
            [gate-margin]: if the margin is not in (0, 2); [gate-target]: if the target is not allowed, or earlier analyses had
            another one; [gate-agent], [gate-baseline]: if an agent is unknown, none is given, or the baseline is one of them;
            [gate-unjudged], [gate-not-comparable]: if the answers do not allow the comparison.
        ConfigError
            [label-options]: if `label` or `scale` is set without `labels`; others if the labels do not fit the run, as for
            `quality`.
        RunFolderError
            If the run is not judged and fitted; [gate-ledger]: if the ledger is damaged.
        """
        from youden.report.pages.gate_output import render_gate_markdown, render_junit
        from youden.report.pages.writing import write_file
        from youden.workflows.gate import gate_run
        from youden.workflows.quality import read_answers

        for agent in agents:
            check_argument("agents", agent, str, "Pass the id of each agent as an argument of its own.")
        check_argument("baseline", baseline, str, "Pass the id of an agent.")
        _check_label_options(labels, label, scale)
        labeled = None if labels is None else read_answers(self.folder, labels, label=label, scale=scale)
        gate = gate_run(
            self.folder,
            agents,
            baseline=baseline,
            margin=margin,
            ledger=None if ledger is None else Path(ledger),
            target=target,
            labels=labeled,
        )
        if markdown is not None:
            write_file(Path(markdown), render_gate_markdown(gate))
        if junit is not None:
            write_file(Path(junit), render_junit(gate))
        return gate

    def quality(
        self, labels: Labels, *, label: str | None = None, scale: tuple[float, float] | None = None
    ) -> pd.DataFrame:
        """Estimate the mean label of each agent from a few labels and the agent's ability, like the command `youden quality`.

        The files quality.csv and quality.json in the folder of the run are written or replaced; the ranking does not change.

        Parameters
        ----------
        labels : path, sequence of paths, or DataFrame
            Tables with the columns agent, item and a label. A table that the method `label` has written can also be used after
            its labels are filled in. A response may have several labels, of which the mean is used.
        label : str, optional
            Column of the label, if a table has several. Default for a DataFrame: "label".
        scale : (float, float), default (0, 1)
            Lowest and highest possible label. A label outside of it is an error.

        Returns
        -------
        DataFrame
            One row per agent, the highest quality first, with the columns of quality.csv. Among these are `agent`, `n_labels`,
            `label_mean`, `rank` and `quality`, the estimated mean label in the unit of the labels. `low` and `high` are its 95%
            interval, and `p_best` is the probability of being the best. `attrs["summary"]` has sentences that summarize the
            estimates, and `attrs["notes"]` sentences about labeled agents and items that are not in the run.

        Raises
        ------
        ConfigError
            [quality-none]: if no response of a ranked agent has a label; [quality-column]: if the column of the label
            is missing or ambiguous; [quality-scale]: if a label is outside the scale, or if a label is a word or a
            percentage, but the scale is not (0, 1); [quality-items]: if a table labels agents instead of responses;
            [labels-unknown], [labels-alias]: if the agents of a table do not fit the run.
        ImportFormatError
            If a table cannot be read, or a label is neither a number nor a known word, for example "yes".
        RunFolderError
            If the run is not fitted; [fit-stale], [run-other-plan]: if it was planned or judged again since it was fitted;
            [run-preference]: if it asks for preferences.
        """
        import pandas as pd

        from youden.workflows.quality import estimate_quality

        estimates = estimate_quality(self.folder, labels, label=label, scale=scale)
        table = pd.DataFrame([vars(agent_quality) for agent_quality in estimates.agents])
        table.attrs["agents"] = table["agent"].tolist()
        table.attrs["summary"] = estimates.summary
        table.attrs["notes"] = estimates.notes
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
        """Write a table of the `n` responses to label next, as the command `youden label` does.

        Parameters
        ----------
        n : int
            Number of responses, at least 1. If fewer than `n` responses are without a label, the table has all of them.
        out : str or path
            Table to write, a .csv with the columns id, prompt, text, the other agents' texts on the item and an empty label. A
            .json with the same name records the agents and items of the responses. Neither file may exist.
        purpose : {"all", "best"}, default "all"
            Whether the labels are used to estimate the quality of all agents, or to find the best agent.
        labels : path, sequence of paths, or DataFrame, optional
            Existing labels, as for `quality`. Responses with a label are not chosen again. Default: no response has a label.
        label : str, optional
            Column of the label in `labels`, if there are several. Do not set it without `labels`.
        scale : (float, float), default (0, 1)
            Lowest and highest possible label in `labels`. Do not set it without `labels`.
        show_agents : bool, default False
            Whether the table names the agents, in a column `shown_agent`.
        seed : int, default 0
            Seed of the selection of items, of the ids and of the order.

        Returns
        -------
        ToLabel
            `table` and `key` are the paths of both files; `given` has the number of chosen responses by agent id.

        Raises
        ------
        ConfigError
            [label-number]: if `n` is below 1; [label-purpose]: if `purpose` is unknown; [label-options]: if `label` or `scale` is
            set without `labels`; [label-out]: if `out` is not a .csv, or one of the two files exists;
            [nothing-to-label]: if every response has a label; other slugs if `labels` do not fit the run, as for `quality`.
        RunFolderError
            If the run is not fitted; [fit-stale], [run-other-plan]: if it was planned or judged again since it was fitted;
            [run-preference]: if it asks for preferences.
        PoolError, PlanError
            If the pool of the run cannot be read, or has changed since the run was planned.
        """
        from youden.workflows.quality import read_answers
        from youden.workflows.to_label import choose_to_label

        _check_label_options(labels, label, scale)
        existing = None if labels is None else read_answers(self.folder, labels, label=label, scale=scale)
        return choose_to_label(
            self.folder, n, Path(out), purpose=purpose, labeled=existing, show_agents=show_agents, seed=seed
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
        """Write the run in the format of another tool, as the command `youden export` does.

        Parameters
        ----------
        out : str or path
            For "tables", a file whose suffix is .csv, .jsonl, .parquet or .duckdb: a .duckdb contains all tables, and otherwise
            each table is written to a file `<stem>-<table>` next to it. For other formats, a new or empty folder.
        format : str, default "tables"
            Registered format: "tables" (ranking, items and trials), "eee" (Every Eval Ever), "hf" (Hugging Face), or that
            of a plugin.
        overwrite : bool, default False
            Whether to replace existing files; folders are never replaced.
        organization : str, optional
            Organization that made the run, for "eee"; an error for "tables" and "hf".
        raw_cells : bool, default False
            Whether to write all texts in CSV files unchanged; True is an error if no .csv is written. By default, an apostrophe
            precedes texts that a spreadsheet would run as formulas.

        Returns
        -------
        Exported
            `files`, a tuple of paths, and `rows`, the number of rows by table.

        Raises
        ------
        ConfigError
            [unknown-format]: if the format is unknown; [export-exists]: if `out` exists and may not be replaced;
            [export-format]: if its suffix does not fit the format; [option-unused]: if an option has no effect on the format.
        RunFolderError
            If the run is not fitted and the format is "eee" or "hf" (for "tables", only the trials are then written);
            [run-other-plan], [fit-stale]: if the run was planned or judged again since it was fitted; [run-preference]: if it
            asks for preferences and the format is "eee" or "hf".
        """
        from youden.data.exporters import EXPORTERS
        from youden.data.exporters.export_files import ExportOptions

        check_fit(self.folder)
        export = EXPORTERS.load(format)
        return export(self.folder, Path(out), options=ExportOptions(overwrite, organization, raw_cells))

    def export_cassette(self, out: PathOrText, *, redact: bool = False) -> CassetteExport:
        """Write the requests of the run and their stored answers to a file, as the command `youden cassette export` does.

        The file is a cassette, from which the run can be judged again without requests.

        Parameters
        ----------
        out : str or path
            File to write; an existing one is replaced.
        redact : bool, default False
            Whether to replace each text by its SHA-256 hash, and each answer by its label. The cassette can still be
            replayed, with the same results.

        Returns
        -------
        CassetteExport
            Numbers of requests in the file with an answer (`n_answers`) and with a failure (`n_failures`), and of requests that
            are left out because the store has no outcome (`n_unanswered`).

        Raises
        ------
        ConfigError
            [cassette-no-calls]: if the judge of the run makes no calls; [store-missing]: if the store does not exist.
        PlanError
            [plan-other-pool]: if the pool of the run has changed.
        RunFolderError, PoolError
            If a file of the run or of its pool cannot be read.
        """
        from youden.pools.run_cassettes import export_cassette

        return export_cassette(self.path, Path(out), redacted=redact)
