"""Summarize a run: ranking, costs and warnings.

The terminal, `--json` and the first lines of a report show the same sentences, so they are made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from youden.data.folder.run_folder import RunFolder
from youden.pipeline.alternative_rankings import describe_alternative_ranking
from youden.pipeline.extension_facts import describe_extension
from youden.pipeline.recommendation import read_recommendation
from youden.report.data.ranking_tables import (
    RankedAgent,
    add_report_columns,
    displayed_columns,
    find_stale_quality,
    format_cell,
    read_current_labels,
    select_ranking,
)
from youden.text.printable import format_command
from youden.text.sentences import (
    format_count,
    format_items_compared,
    format_recognition_difference,
    format_recognitions,
    split_sentences,
)
from youden.text.tables import Table, draw_interval, format_decimal, make_table
from youden.types.columns import TableColumn
from youden.types.facts import ChoiceFacts, LinkFacts
from youden.types.results import ABOUT, ScoreKind

Link = tuple[ScoreKind, str, LinkFacts]
"""Kind of the scores, name of the link, and curl of the scores on it."""


def build_curl_table(links: Iterable[Link]) -> Table:
    """Tabulate the curl of scores (the deviation from an additive model), one row per link function and kind of scores.

    The curl of agents i, k on items j, l (a rectangle) is |s_ij − s_il − s_kj + s_kl| for scores s that are transformed by the
    link function. The columns are its median and 95% quantile, both also per standard deviation (SD) of the transformed scores,
    and R² of the additive model. The quantiles have standard errors if only a sample of the rectangles was used.

    links : one element per row: kind of the scores ("row" or "symmetric"), name of the link function, and statistics
    """
    rows = []
    for score_kind, link_function, curl in links:
        median = _format_with_error(curl.median, curl.median_error)
        p95 = _format_with_error(curl.p95, curl.p95_error)
        median_per_sd = format_decimal(curl.median_scaled, 2)
        p95_per_sd = format_decimal(curl.p95_scaled, 2)
        rows.append([score_kind, link_function, median, p95, median_per_sd, p95_per_sd, format_decimal(curl.r2)])
    return make_table("Curl", ["scores", "link"], ["median", "P95", "median per SD", "P95 per SD", "R²"], rows)


def _format_with_error(value: float, std_error: float | None) -> str:
    """Format a value with its standard error, if it has one."""
    if std_error is None:
        return format_decimal(value)
    return f"{format_decimal(value)} ± {format_decimal(std_error, 4)}"


MAX_LISTED_AGENTS = 5
"""Maximum number of agents whose probability of being the best is listed."""


class _TextColumn(NamedTuple):
    """Column of the table of a ranking, as text."""

    heading: str
    alignment: str
    """"l" for left, "r" for right, and "c" for code."""
    cells: list[str]


class Summary:
    """Summary of a fitted run, as shown by the terminal, the first lines of a report and `--json`.

    Attributes
    ----------
    name : str
        Name of the folder of the run.
    facts : RunFacts
        Contents of fit.json.
    calls : CallFacts or None
        Calls and costs; None for an imported run.
    n_agents, n_items, n_compared : int
        Number of agents, of items, and of items on which agents were compared.
    n_missing_cells : int or None
        Number of cells without a response; None for an imported run.
    recommendation : Recommendation
        The recommendation of the run.
    headline : str
        The recommendation, and where the first agent has a lower rank in an alternative ranking.
    warnings : tuple of Finding
        Findings of the run and of its labels.
    ranking : tuple of RankedAgent
        Ranking that the run reports first.
    links : list of (str, str, LinkFacts)
        Curl of each kind of scores on each link.
    labels, quality, variance : Validation, QualityFacts, VarianceFacts or None
        Contents of labels.json, quality.json and variance_components.json; None if there are none, or if they are out
        of date.
    judge : str or None
        Name of the judge; None for an imported run.
    judged_on : str
        Date of the answers, such as "2026-11-25".
    signature, command, path : str
        Signature of the run, the command that repeats it, and the path of the run as a word of a command.
    calibration : str or None
        Result of the calibration of the judge; None if there is none.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Read the folder of a fitted run.

        Parameters
        ----------
        folder : RunFolder
            Folder of the run.

        Raises
        ------
        RunFolderError
            If a file is missing or damaged, or the run was never fitted.
        """
        facts, pool, signature = folder.read_facts(), folder.read_pool(), folder.read_signature()
        self.name = folder.path.resolve().name
        self.facts = facts
        self.calls = facts.calls
        self.n_agents = len(pool.agents)
        self.n_items = len(pool.item_ids)
        self.n_compared = folder.count_compared_items(pool)
        self.n_missing_cells = pool.n_missing

        leader_changes = []
        if facts.ranked_by == "plain":
            leader_changes = [
                ranking.leader_change for ranking in facts.alternative_rankings.values() if ranking.leader_change
            ]
        self.recommendation = read_recommendation(folder)
        self.headline = " ".join([self.recommendation.text, *leader_changes])
        self.labels, stale_labels = read_current_labels(folder)
        stale_files = (stale_labels, find_stale_quality(folder))
        self.warnings = (*facts.warnings, *filter(None, stale_files))
        rows = select_ranking(folder.read_ranking(), facts.ranked_by)
        self.ranking = add_report_columns(rows, pool, facts.choice)
        self.links = [(kind, link, row) for kind, table in facts.links.items() for link, row in table.items()]
        self.quality = folder.find_quality()
        self.variance = folder.read_variance_components() if folder.has("variance_components.json") else None

        judge = signature.parts.get("judge")
        self.judge = judge if isinstance(judge, str) else None
        self.judged_on = _judging_date(folder)
        self.signature = signature.text
        self.command = folder.format_command()
        self.path = format_command([str(folder.path)])
        self.calibration = folder.calibration

    @property
    def headline_parts(self) -> tuple[str, str]:
        """The first sentence of the headline, and the other ones."""
        first, *remaining = split_sentences(self.headline)
        return first, " ".join(remaining)

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """Additional columns of the ranking, besides rank, agent, group, ability and interval."""
        return displayed_columns(self.ranking)

    def table(self, *, bar_cells: int, max_agents: int | None = None) -> Table:
        """Tabulate the ranking, best agent first.

        Parameters
        ----------
        bar_cells : int
            Width in characters of a bar that shows the interval; 0 for no bar.
        max_agents : int, optional
            Maximum number of agents: the best ones are listed. Default: all.

        Returns
        -------
        Table
            One row of texts per agent, with its ranks (if there are several agents), id, ability, interval and bar. The group and
            further results are added if any agent has them. The title states the name of the run and how many agents
            and items it has in all.
        """
        columns = list(self._iter_table_columns(self.ranking[:max_agents], bar_cells))
        headings = [column.heading for column in columns]
        alignments = "".join(column.alignment for column in columns)
        cells_by_column = [column.cells for column in columns]
        rows = [list(row) for row in zip(*cells_by_column, strict=True)]
        title = f"{self.name}: {format_count(self.n_agents, 'agent')} on {self.items}"
        return Table(title, headings, alignments, rows)

    def _iter_table_columns(self, agents: Sequence[RankedAgent], bar_cells: int) -> Iterator[_TextColumn]:
        """Yield the columns of the table of a ranking, from left to right.

        agents : agents of the rows
        bar_cells : width in characters of the bar that shows the interval; 0 for no bar
        """
        if self.n_agents > 1:
            yield _TextColumn("ranks", "r", [agent.ranks for agent in agents])
        yield _TextColumn("agent", "l", [agent.agent for agent in agents])
        if any(agent.group for agent in self.ranking):
            yield _TextColumn("group", "l", [agent.group or "–" for agent in agents])
        yield _TextColumn("ability", "r", [format_decimal(agent.ability) for agent in agents])

        intervals = [f"{format_decimal(agent.low)} … {format_decimal(agent.high)}" for agent in agents]
        yield _TextColumn(f"{self.facts.level:.0%} interval", "l", intervals)
        if bar_cells > 0:
            yield _TextColumn("", "c", [_draw_bar(agent, bar_cells) for agent in agents])
        for column in self.columns:
            if column.in_terminal:
                yield _TextColumn(column.heading, "r", [format_cell(agent, column) for agent in agents])

    @property
    def items(self) -> str:
        """Number of items as text: `40 items`, or `40 items, of which 30 were compared`."""
        return format_items_compared(self.n_items, self.n_compared)

    @property
    def compared(self) -> str:
        """Number of compared items as text: `30 of 40 items compared`, or `all 40 items compared`."""
        if self.n_compared == self.n_items:
            return f"all {self.n_items:,} items compared"
        return f"{self.n_compared:,} of {self.n_items:,} items compared"

    @property
    def spent(self) -> str:
        """Number of calls and their cost as text, such as `8,448 calls, $0.00`."""
        if self.calls is None:
            return "calls and cost not recorded"
        prefix = "cost " if self.calls.usd is None else ""
        return f"{self.calls.n_done:,} calls, {prefix}{self.cost}"

    @property
    def cost(self) -> str:
        """Cost of all invocations as text, such as `$1.20`; `unknown` if a price is unknown."""
        usd = None if self.calls is None else self.calls.usd
        if usd is None:
            return "unknown"
        return f"${usd:,.2f}" if usd == 0 or usd >= 0.01 else f"${usd:.4f}"

    @property
    def target(self) -> str:
        """Sentence that states to which population intervals and ranks refer."""
        return f"Intervals and ranks describe how these agents would perform on {ABOUT[self.facts.target]}."

    @property
    def p_best_text(self) -> str | None:
        """Sentence with the agents' posterior probabilities of being the best, highest first.

        None if only one agent can be the best, if agents cannot be compared, if the judge does not discriminate, or if labels
        decide the recommendation.
        """
        is_based_on_labels = self.recommendation.decided_by == "labels"
        if is_based_on_labels or not self.facts.signal.discriminates:
            return None
        choice = self.facts.choice
        if choice is None or not choice.candidates:
            return None

        displayed = list(choice.p_best.items())[:MAX_LISTED_AGENTS]
        probabilities = ", ".join(f"{agent} {p_best:.2f}" for agent, p_best in displayed)
        if len(choice.p_best) > len(displayed):
            p_of_others = max(1 - sum(p_best for _, p_best in displayed), 0.0)  # rounding errors can make it negative
            probabilities += f"; all others: {p_of_others:.2f}"
        return (
            f"Probability of being the best: {probabilities}. If many agents are nearly level, the probability of the first is "
            "overstated."
        )

    @property
    def selection_text(self) -> str | None:
        """Sentences on the selected agent: its expected regret, and an interval of its ability adjusted for the selection.

        A further sentence names the candidates whose ranks exclude 1.

        None if several agents are selected, if agents cannot be compared, if the run recommends nothing, or if the
        recommendation is based on labels.
        """
        recommendation = self.recommendation
        if recommendation.form == "none" or recommendation.decided_by == "labels":
            return None
        selection = self.facts.choice
        if selection is None or len(selection.agents) > 1:
            return None

        interval = self._format_adjusted_interval(selection)
        is_certainly_best = not selection.candidates  # no other agent may be the best
        if is_certainly_best:
            return interval
        n_of_100_behind = format_recognition_difference(selection.expected_regret)
        text = f"On average, {selection.agents[0]} is {n_of_100_behind} of 100 comparisons behind the best. {interval}"
        ranked_below_first = [
            row.agent for row in self.ranking if row.agent in selection.candidates and row.rank_low > 1
        ]
        if not ranked_below_first:
            return text
        return (
            f"{text} The ranks of {', '.join(ranked_below_first)} exclude 1, because candidates are adjusted for multiple "
            "comparisons and ranks are not."
        )

    def _format_adjusted_interval(self, selection: ChoiceFacts) -> str:
        """Format a sentence with the confidence interval of the ability of the one selected agent.

        The agent was selected because of its high estimate, which is therefore too high on average. The interval is adjusted
        for this bias. Its bounds are stated as numbers of comparisons out of 100.
        """
        agent = selection.agents[0]
        low, high = format_recognitions(selection.ability_low, selection.ability_high)
        if self.facts.preference is None:
            unit = "comparisons beyond chance"
        else:
            unit = "comparisons with the average agent, wins minus losses"
        return f"Adjusted for the selection of {agent}, the {selection.level:.0%} interval is {low} to {high} of 100 {unit}."

    @property
    def preference_sentences(self) -> tuple[str, ...]:
        """Sentences on position bias, ties and length of a run that asks for preferences; empty for other runs."""
        return () if self.facts.preference is None else self.facts.preference.sentences

    @property
    def partners_text(self) -> str | None:
        """Sentences on how much the ranking depends on which other agents are in the pool; None if not measured.

        The partners of an agent are the agents that it is compared with. The sentences state the rank correlation of two
        rankings, each from a random half of the partners, and name the agents whose rank changes most.
        """
        split_half = self.facts.partners
        if split_half is None:
            return None
        text = (
            f"Rankings by two random halves of the partners correlate at ρ = {split_half.split_half_rho:.2f} (mean of "
            f"{split_half.n_splits} splits; part of the difference is due to the number of answers)."
        )
        if split_half.agents:
            changes = ", ".join(f"{agent} ({change:.1f} ranks)" for agent, change in split_half.agents)
            text += f" The choice of the other agents in the pool matters most for {changes}."
        return text

    @property
    def rates_text(self) -> str | None:
        """Sentences on the false-positive rates of the agents: their range, and their contribution to the variance of an ability.

        The rate of an agent is estimated from independent calls, which compare responses to different items. It is subtracted
        from the agent's yes rate in paired calls, so its error adds to the variance of the ability. None if the run has no rates
        of single agents.
        """
        rates = self.facts.rates
        if rates is None:
            return None

        # the agents are sorted by their rates, the highest first
        highest = rates.agents[0]
        lowest = rates.agents[-1]
        text = (
            f"Each agent's own rate is subtracted: from {lowest.rate:.4f} ({lowest.agent}) to {highest.rate:.4f} "
            f"({highest.agent})."
        )
        if rates.variance_share is None or rates.calls_to_halve is None:
            return text
        return (
            f"{text} The rates account for {rates.variance_share:.0%} of the variance of an ability; "
            f"{rates.calls_to_halve:,} more independent calls would halve the standard errors of the rates."
        )

    @property
    def rectangles(self) -> str:
        """Number of rectangles behind the curl as text, or that all were measured."""
        for _, _, curl in self.links:
            if curl.n_sampled is not None:
                return f"sampled: {curl.n_sampled:,} of {curl.n_rectangles:,} rectangles"
        return "exact over all rectangles"

    @property
    def standings(self) -> tuple[str, ...]:
        """One sentence per alternative ranking that could be computed."""
        return tuple(
            describe_alternative_ranking(name, facts, is_main=name == self.facts.ranked_by)
            for name, facts in self.facts.alternative_rankings.items()
            if not facts.message
        )

    @property
    def percent_of_dense(self) -> float | None:
        """Number of calls in percent of the calls of the dense design, which compares all pairs of agents on all items.

        Independent trials do not count if calls to the judge cost nothing, because the budget does not limit them. None for an
        imported run, and for a run of self-trials, which compare responses of the same agent.
        """
        calls = self.calls
        if calls is None or not calls.n_dense_calls:
            return None
        n_counted = calls.n_paired if calls.n_free else calls.n_done - calls.n_self
        return 100 * n_counted / calls.n_dense_calls

    @property
    def extension_sentences(self) -> tuple[str, ...]:
        """Sentences that describe the last extension; empty if the run was never extended."""
        return () if self.facts.extension is None else describe_extension(self.facts.extension)

    @property
    def missing_reasons(self) -> tuple[tuple[str, int], ...]:
        """Numbers of trials without an answer by trial type and reason: (("paired refused", 2), ("self-trial failed", 1))."""
        if self.calls is None:
            return ()
        counts_by_type = {
            "paired": self.calls.missing_paired,
            "independent": self.calls.missing_independent,
            "self-trial": self.calls.missing_self,
        }
        missing = []
        for trial_type, count_by_reason in counts_by_type.items():
            missing += [(f"{trial_type} {reason}", count) for reason, count in count_by_reason.items()]
        return tuple(missing)


def _draw_bar(agent: RankedAgent, cells: int) -> str:
    """Draw the interval of an agent as a bar of `cells` characters; empty if the agent has no interval."""
    if agent.bar is None:
        return ""
    return draw_interval(agent.bar.low, agent.bar.center, agent.bar.low + agent.bar.width, cells=cells)


def _judging_date(folder: RunFolder) -> str:
    """Return the date in ISO format, such as "2026-11-25", on which the answers of a run were written."""
    file = next((name for name in ("verdicts.parquet", "rates.parquet") if folder.has(name)), "ranking.csv")
    return datetime.fromtimestamp(folder.file(file).stat().st_mtime, UTC).date().isoformat()
