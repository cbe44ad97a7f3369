"""The tables of agents, items and labels as they are shown: intervals as bars, places, who cannot be told from whom.

Labels that were held against an earlier ranking are told here, and characters that deceive a reader are made visible; markup is
escaped later, where a text is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import regex

from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.table_columns import ItemRow
from youden.report.data.evidence import Evidence
from youden.stats.trials.comparisons import tied_places
from youden.text.printable import printable
from youden.text.sentences import with_interval
from youden.text.tables import Table, fixed, two_sided
from youden.types import Finding, Pool
from youden.types.columns import Field, Meaning, TableColumn, columns_of, fields_of
from youden.types.facts import CHANCE, AgentMove, ChoiceFacts, RankedBy, RankingRow
from youden.types.label_facts import Agreement, LabelFacts, QualityFacts, Validation
from youden.types.pool import Json

_ACTING = regex.compile(r"[\p{Cc}\p{Cs}\p{Bidi_Control}\p{Zl}\p{Zp}--[\n\t]]", regex.V1)


def readable(text: str) -> str:
    r"""`text` with controls, lone surrogates and marks that turn the direction of reading spelt out; line breaks stay.

    >>> readable("a\u202eb\x00\n")
    'a\\u202eb\\x00\n'
    """
    return _ACTING.sub(lambda match: printable(match.group()), text.replace("\r\n", "\n"))


def clipped(text: str, limit: int) -> str:
    """`readable` text of at most `limit` characters, saying how much is left out.

    >>> clipped("abcdef", 4)
    'abcd … (2 more characters)'
    """
    if len(text) <= limit:
        return readable(text)
    return f"{readable(text[:limit])} … ({len(text) - limit:,} more characters)"


Tied = Mapping[str, tuple[str, ...] | None]
"""For each agent those it is not told apart from, best first; None where nothing says how it compares."""


@dataclass(frozen=True)
class IntervalBar:
    """Where an interval is drawn, in percent of the axis that holds all intervals of the ranking."""

    low: float
    width: float
    middle: float


@dataclass(frozen=True)
class RankedAgent(RankingRow):
    """One line of the ranking, with what is drawn beside it."""

    chance: Annotated[float | None, Meaning(CHANCE)] = None
    length_place: Annotated[int | None, Meaning("its place by mean words a response alone", heading="by length")] = None
    bar: IntervalBar | None = None

    @property
    def as_json(self) -> dict[str, Json]:
        return fields_of(self) | super().as_json

    @property
    def place_range(self) -> tuple[int, int]:
        """The best and the worst place this agent can hold."""
        return self.place_low, self.place_high

    @property
    def places(self) -> str:
        """`3` or `3–5`: the places this agent can hold."""
        return _range(*self.place_range)

    @property
    def places_at_once(self) -> str:
        """The same, so that all agents' are true at once."""
        return _range(self.rank_low, self.rank_high)


def headed_by(rows: Sequence[RankingRow], ranked_by: RankedBy) -> tuple[RankingRow, ...]:
    """The rows with the numbers of the ranking that heads the run."""
    if ranked_by == "plain":
        return tuple(rows)
    return tuple(replace(row.standings.get(ranked_by, row), standings=row.standings) for row in rows)


def shown_columns(rows: Sequence[RankedAgent]) -> tuple[TableColumn, ...]:
    """What stands beside places, agent, group, ability and interval wherever a ranking is shown: columns with a heading that say
    something of an agent."""
    headed = (column for column in columns_of(RankedAgent) if column.heading)
    return tuple(column for column in headed if any(getattr(row, column.name) is not None for row in rows))


def shown(row: RankedAgent, column: TableColumn) -> str:
    """What a row says in a column, for a reader."""
    value: Field = getattr(row, column.name)
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else value or "–"


def rank_agents(
    rows: Sequence[RankingRow], pool: PoolSummary, choice: ChoiceFacts | None = None
) -> tuple[RankedAgent, ...]:
    """The lines of `ranking.csv` with what is drawn beside them, in the same order. choice: what knows their chances."""
    lengths, chances = _length_places(pool), choice.chances if choice else {}
    ends = [end for row in rows for end in (row.low, row.high, row.ability) if end is not None]
    left, span = (min(ends), (max(ends) - min(ends)) or 1.0) if ends else (0.0, 1.0)

    def bar(row: RankingRow) -> IntervalBar | None:
        if row.ability is None or row.low is None or row.high is None:
            return None
        low, middle, high = (100 * (end - left) / span for end in (row.low, row.ability, row.high))
        return IntervalBar(low=low, width=high - low, middle=middle)

    return tuple(
        RankedAgent(**vars(row), chance=chances.get(row.agent), length_place=lengths.get(row.agent), bar=bar(row))
        for row in rows
    )


def tied_by_difference(evidence: Evidence, ranking: Sequence[RankedAgent]) -> Tied:
    """Return each agent's not significantly different others, in the order of the ranking; None for an agent without interval."""
    position = {agent: k for k, agent in enumerate(evidence.agent_ids)}
    order = np.array([position[agent.agent] for agent in ranking], dtype=np.int64)
    tied: dict[str, tuple[str, ...] | None] = {}
    for k in order.tolist():
        others = order[~evidence.significant[k, order] & (order != k)].tolist()
        names = tuple(evidence.agent_ids[other] for other in others)
        tied[evidence.agent_ids[k]] = names if evidence.is_compared[k] else None
    return tied


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"


def _length_places(pool: PoolSummary) -> Mapping[str, int]:
    if pool.mean_length is None:
        return {}
    places = tied_places(pool.mean_length)
    return {agent.id: int(place) for agent, place in zip(pool.agents, places, strict=True)}


N_SHOWN = 5
EXCERPT = 600
"""Characters shown of an item's prompt."""


@dataclass(frozen=True)
class ItemLine(ItemRow):
    """One item. text: its prompt's beginning, None where unknown."""

    text: str | None


class Items:
    """Items from the easiest to the hardest, items without difficulty last; the hardest and the easiest of them."""

    def __init__(self, folder: RunFolder, pool: Pool | None) -> None:
        prompts = {item.id: item.prompt for item in pool.items} if pool else {}
        lines = [ItemLine(**vars(row), text=_excerpt(prompts.get(row.item))) for row in folder.read_items()]
        known = sorted((line for line in lines if line.difficulty is not None), key=lambda line: line.difficulty or 0.0)
        n = min(N_SHOWN, len(known) // 2)
        self.ordered = known + [line for line in lines if line.difficulty is None]
        self.hardest, self.easiest = known[len(known) - n :][::-1], known[:n]


def _excerpt(prompt: str | None) -> str | None:
    return clipped(prompt, EXCERPT) if prompt else None


LABELS = "labels.json"


def current_quality(folder: RunFolder) -> QualityFacts | None:
    """What quality.json says, if it is about the ranking that stands there now. Raises: RunFolderError where it is damaged."""
    found = folder.read_quality() if folder.has("quality.json") else None
    return found if found is not None and found.tables == folder.tables_digest() else None


def current_labels(folder: RunFolder) -> tuple[Validation | None, Finding | None]:
    """What labels.json says, if it is about the ranking that stands there now; else None, and why not, if there is one.

    Raises: RunFolderError where it is damaged.
    """
    if not folder.has(LABELS):
        return None, None
    found = folder.read_labels()
    if found.tables == folder.tables_digest():
        return found, None
    said = f"{LABELS} is about an earlier ranking and is left out."
    return None, Finding("labels-stale", f"{said} Compare again: youden fit {folder.path} --labels {found.source}")


def labels_table(found: Validation) -> Table:
    """How far the ranking agrees with each label."""
    rows = (
        [label.name, str(label.n_agents), *map(_agreement, (label.spearman, label.kendall, label.auc))]
        for label in found.labels
    )
    title = f"against {found.source} ({found.level:.0%} intervals)"
    return two_sided(title, ["label"], ["agents", "Spearman ρ", "Kendall τ-b", "AUC"], rows)


def disagreements_table(label: LabelFacts) -> Table:
    """The agents that stand elsewhere by a label than by ability."""
    heads = ["agent", f"by {label.name}", "its places", "ability", "place, and its interval's", "explained"]
    rows = (
        [
            one.agent,
            f"{one.label:.4g}",
            _range(one.label_low, one.label_high),
            fixed(one.ability),
            f"{one.place}; {_range(one.rank_low, one.rank_high)}",
            "yes" if one.explained else "no",
        ]
        for one in label.disagreements
    )
    return Table(f"elsewhere by {label.name}", heads, "lrrrrl", rows)


def moved_table(moves: Sequence[AgentMove]) -> Table:
    """An agent a row, before and after the last extension."""
    rows = (
        [
            move.agent,
            *map(fixed, (move.before, move.after)),
            *map(str, (move.place_before, move.place_after)),
            *map(fixed, (move.drift, move.p)),
        ]
        for move in moves
    )
    return two_sided("What moved", ["agent"], ["before", "now", "place before", "place now", "drift", "p"], rows)


def _agreement(found: Agreement | None) -> str:
    if found is None or found.value is None:
        return "–"
    return with_interval(found.value, found.low, found.high)
