"""Prepare rankings, items and labels for display.

Characters that can mislead a reader, such as control characters, are escaped here; the templates escape markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import regex

from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.table_columns import ItemRow
from youden.report.data.evidence import Evidence
from youden.stats.trials.comparisons import rank_with_ties
from youden.text.printable import format_command, printable
from youden.text.sentences import format_rank_range, format_with_interval
from youden.text.tables import Table, format_decimal, make_table
from youden.types import Finding, Pool
from youden.types.columns import Field, Meaning, TableColumn, columns_of, fields_of
from youden.types.facts import CHANCE, AgentChange, ChoiceFacts, RankedBy, RankingRow
from youden.types.label_facts import Agreement, LabelFacts, Validation
from youden.types.pool import Json

_DECEPTIVE = regex.compile(r"[\p{Cc}\p{Cs}\p{Bidi_Control}\p{Zl}\p{Zp}--[\n\t]]", regex.V1)


def escape_controls(text: str) -> str:
    r"""Escape control characters, lone surrogates and bidirectional controls of a text; line breaks and tabs stay.

    >>> escape_controls("a\u202eb\x00\n")
    'a\\u202eb\\x00\n'
    """
    return _DECEPTIVE.sub(lambda match: printable(match.group()), text.replace("\r\n", "\n"))


def truncate(text: str, limit: int) -> str:
    """Truncate a text to at most `limit` characters, escape its controls, and state how many characters are left out.

    >>> truncate("abcdef", 4)
    'abcd … (2 more characters)'
    """
    if len(text) <= limit:
        return escape_controls(text)
    return f"{escape_controls(text[:limit])} … ({len(text) - limit:,} more characters)"


Tied = Mapping[str, tuple[str, ...] | None]
"""Agent id → agents that are not significantly different, best first; None if the agent has no interval."""


@dataclass(frozen=True)
class IntervalBar:
    """Position of a confidence interval, in percent of an axis that contains all intervals of the ranking."""

    low: float
    """Position of the lower bound."""
    width: float
    """Width of the interval."""
    center: float
    """Position of the ability."""


@dataclass(frozen=True)
class RankedAgent(RankingRow):
    """Row of a ranking with values that are only displayed."""

    p_best: Annotated[float | None, Meaning(CHANCE)] = None
    length_place: Annotated[
        int | None, Meaning("rank by the mean number of words per response", heading="by length")
    ] = None
    bar: IntervalBar | None = None
    """Its interval as a bar; None if it has no interval."""

    @property
    def as_json(self) -> dict[str, Json]:
        """The row as JSON."""
        return fields_of(self) | super().as_json

    @property
    def rank_interval(self) -> tuple[int, int]:
        """Best and worst rank of the marginal rank confidence interval."""
        return self.rank_low, self.rank_high

    @property
    def ranks(self) -> str:
        """Marginal rank confidence interval as text: `3` or `3–5`."""
        return format_rank_range(*self.rank_interval)

    @property
    def simultaneous_ranks(self) -> str:
        """Simultaneous rank confidence interval as text: `3` or `3–5`."""
        return format_rank_range(self.simultaneous_rank_low, self.simultaneous_rank_high)


def select_ranking(rows: Sequence[RankingRow], ranked_by: RankedBy) -> tuple[RankingRow, ...]:
    """Return the ranking that a run reports first: the plain ranking, or one of the alternative rankings.

    An agent that is not in the alternative ranking keeps its row of the plain ranking.

    rows : plain ranking; each row has an attribute `alternative_rankings`: name of a ranking → row of the agent in it
    ranked_by : name of the ranking to return
    """
    if ranked_by == "plain":
        return tuple(rows)
    selected_rows = []
    for plain_row in rows:
        # rows of alternative rankings do not contain the other rankings, which the report also shows
        selected_row = plain_row.alternative_rankings.get(ranked_by, plain_row)
        selected_rows.append(replace(selected_row, alternative_rankings=plain_row.alternative_rankings))
    return tuple(selected_rows)


def displayed_columns(rows: Sequence[RankedAgent]) -> tuple[TableColumn, ...]:
    """Return the additional columns of a displayed ranking: those that have a heading and a value in some row."""
    columns = [column for column in columns_of(RankedAgent) if column.heading]
    return tuple(column for column in columns if any(getattr(row, column.name) is not None for row in rows))


def format_cell(row: RankedAgent, column: TableColumn) -> str:
    """Format the value of a row in a column for display, "–" if it is empty."""
    value: Field = getattr(row, column.name)
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return value or "–"


def add_report_columns(
    rows: Sequence[RankingRow], pool: PoolSummary | None, choice: ChoiceFacts | None = None
) -> tuple[RankedAgent, ...]:
    """Add the columns to a ranking that only reports show: probability of being the best, rank by length, interval bar.

    Parameters
    ----------
    rows : sequence of RankingRow
        Ranking, best agent first.
    pool : PoolSummary or None
        Pool of the run, for the mean length of the responses; None without responses.
    choice : ChoiceFacts, optional
        Selection of the best agents, with each agent's probability of being the best. Without a selection, this probability is
        None.

    Returns
    -------
    tuple of RankedAgent
        The same agents, in the same order, with all columns of `rows`. Three values are added, each None if unknown: `p_best`,
        the probability of being the best; `length_place`, the rank by mean number of words, 1 for the longest responses, where
        ties share the best rank; and `bar`, the position of the interval in percent of an axis that all agents share.
    """
    length_rank_by_agent = {} if pool is None else _rank_by_length(pool)
    p_best_by_agent = choice.p_best if choice else {}
    agents = []
    for row, bar in zip(rows, _iter_interval_bars(rows), strict=True):
        columns_of_ranking = vars(row)
        agent = RankedAgent(
            **columns_of_ranking,
            p_best=p_best_by_agent.get(row.agent),
            length_place=length_rank_by_agent.get(row.agent),
            bar=bar,
        )
        agents.append(agent)
    return tuple(agents)


def _iter_interval_bars(rows: Sequence[RankingRow]) -> Iterator[IntervalBar | None]:
    """Place the interval of each agent on a common axis, for the bars in the table of the ranking.

    The axis reaches from the smallest to the largest of all abilities and interval bounds. Positions are percentages of its
    length.

    Yields the bar of each agent, or None for an agent without an ability or an interval.
    """
    values: list[float] = []
    for row in rows:
        values += [value for value in (row.low, row.high, row.ability) if value is not None]
    axis_start = min(values, default=0.0)
    axis_length = (max(values, default=1.0) - axis_start) or 1.0  # 1 if all values are equal

    for row in rows:
        if row.ability is None or row.low is None or row.high is None:
            yield None
            continue
        low, high, center = (100 * (value - axis_start) / axis_length for value in (row.low, row.high, row.ability))
        yield IntervalBar(low=low, width=high - low, center=center)


def find_ties(evidence: Evidence, ranking: Sequence[RankedAgent]) -> Tied:
    """Find, for each agent, the other agents that do not differ significantly from it in ability.

    evidence : tables of the run
    ranking : ranking, best agent first

    Returns for the id of each agent the ids of these agents, in the order of the ranking; None for an agent without an interval.
    """
    position_by_agent = {agent: position for position, agent in enumerate(evidence.agent_ids)}
    positions_by_rank = np.array([position_by_agent[row.agent] for row in ranking], dtype=np.int64)
    tied_agents: dict[str, tuple[str, ...] | None] = {}
    for position in positions_by_rank.tolist():
        agent = evidence.agent_ids[position]
        if not evidence.is_compared[position]:
            tied_agents[agent] = None
            continue
        is_tied = ~evidence.significant[position]
        is_tied[position] = False  # an agent is not tied with itself
        tied_positions = positions_by_rank[is_tied[positions_by_rank]].tolist()
        tied_agents[agent] = tuple(evidence.agent_ids[tied_position] for tied_position in tied_positions)
    return tied_agents


def _rank_by_length(pool: PoolSummary) -> Mapping[str, int]:
    """Rank the agents by the mean number of words of their responses: agent id → rank; empty for a single agent."""
    if pool.mean_length is None or len(pool.agents) == 1:
        return {}
    ranks = rank_with_ties(pool.mean_length)
    return {agent.id: int(rank) for agent, rank in zip(pool.agents, ranks, strict=True)}


N_EXTREME_ITEMS = 5
"""Number of items in the lists of the hardest and of the easiest items."""
MAX_EXCERPT_CHARACTERS = 600
"""Maximum number of characters of the excerpt of a prompt."""


@dataclass(frozen=True)
class ItemLine(ItemRow):
    """Item with an excerpt of its prompt."""

    text: str | None
    """Beginning of the prompt; None if it is unknown."""


class Items:
    """Items of a run, sorted by difficulty.

    Attributes
    ----------
    ordered : list of ItemLine
        All items, easiest first; items without a difficulty are last.
    hardest, easiest : list of ItemLine
        A few items from either end, most extreme first.
    """

    def __init__(self, folder: RunFolder, pool: Pool | None) -> None:
        prompts = {item.id: item.prompt for item in pool.items} if pool else {}
        lines = [ItemLine(**vars(row), text=_excerpt(prompts.get(row.item))) for row in folder.read_items()]
        ranked = [line for line in lines if line.difficulty is not None]
        ranked.sort(key=lambda line: line.difficulty or 0.0)
        unranked = [line for line in lines if line.difficulty is None]
        n = min(N_EXTREME_ITEMS, len(ranked) // 2)
        self.ordered = ranked + unranked
        self.hardest, self.easiest = ranked[len(ranked) - n :][::-1], ranked[:n]


def _excerpt(prompt: str | None) -> str | None:
    """Return the beginning of a prompt with escaped control characters; None if there is no prompt."""
    return truncate(prompt, MAX_EXCERPT_CHARACTERS) if prompt else None


LABELS = "labels.json"


def read_current_labels(folder: RunFolder) -> tuple[Validation | None, Finding | None]:
    """Read how well the current ranking of a run agrees with labels, from the run's file labels.json.

    Returns
    -------
    validation : Validation or None
        Contents of the file; None if it does not exist, or if it belongs to an earlier ranking.
    warning : Finding or None
        Warning that the file belongs to an earlier ranking; None if it does not.

    Raises
    ------
    RunFolderError
        If the file is damaged.
    """
    if not folder.has(LABELS):
        return None, None
    validation = folder.read_labels()
    if validation.tables_digest == folder.compute_tables_digest():
        return validation, None
    message = f"{LABELS} refers to an earlier ranking and is not shown."
    command = format_command(["youden", "fit", str(folder.path), "--labels", validation.source])
    remedy = f"Run `{command}`."
    return None, Finding("labels-stale", f"{message} {remedy}")


def find_stale_quality(folder: RunFolder) -> Finding | None:
    """Return a warning if the quality of the agents was estimated for an earlier ranking of a run, so that it is not used."""
    if not folder.has("quality.json") or folder.find_quality() is not None:
        return None
    sources = ", ".join(folder.read_quality().sources)
    command = format_command(["youden", "quality", str(folder.path), "--labels"])
    message = (
        "quality.json refers to an earlier ranking, so it is not shown, and labels do not decide the recommendation. "
        f"Run `{command} FILE` or `Run.quality` again, with the labels of {sources}."
    )
    return Finding("labels-stale", message)


def build_labels_table(validation: Validation) -> Table:
    """Build a table of the agreement of the ranking with each label, one row per label."""
    rows = []
    for label in validation.labels:
        agreement = [_format_agreement(metric) for metric in (label.spearman, label.kendall, label.auc)]
        rows.append([label.name, str(label.n_agents), *agreement])
    title = f"against {validation.source} ({validation.level:.0%} intervals)"
    return make_table(title, ["label"], ["agents", "Spearman ρ", "Kendall τ-b", "AUC"], rows)


def build_disagreements_table(label: LabelFacts) -> Table:
    """Build a table of the agents whose ranks by a label and by ability differ most, one row per agent."""
    heads = ["agent", f"by {label.name}", "its ranks", "ability", "rank, and its interval", "explained"]
    rows = [
        [
            line.agent,
            f"{line.label:.4g}",
            format_rank_range(line.label_low, line.label_high),
            format_decimal(line.ability),
            f"{line.rank}; {format_rank_range(line.rank_low, line.rank_high)}",
            "yes" if line.explained else "no",
        ]
        for line in label.disagreements
    ]
    return Table(f"other ranks by {label.name}", heads, "lrrrrl", rows)


def build_changes_table(changes: Sequence[AgentChange]) -> Table:
    """Build a table of the changes since the last extension of a run, one row per agent.

    The columns are the ability and the rank before and after the extension, the drift of the agent, and its p-value. Drift is
    the ability by the new answers alone minus the ability by the earlier answers.
    """
    rows = [
        [
            change.agent,
            format_decimal(change.before),
            format_decimal(change.after),
            str(change.rank_before),
            str(change.rank_after),
            format_decimal(change.drift),
            format_decimal(change.p_holm),
        ]
        for change in changes
    ]
    return make_table("What changed", ["agent"], ["before", "now", "rank before", "rank now", "drift", "p"], rows)


def _format_agreement(agreement: Agreement | None) -> str:
    """Format a correlation with its confidence interval; a dash if it is missing or undefined."""
    if agreement is None or agreement.value is None:
        return "–"
    return format_with_interval(agreement.value, agreement.low, agreement.high)
