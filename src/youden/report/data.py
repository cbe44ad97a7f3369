"""What a report says, as a tree of plain dataclasses built from a run's folder.

It knows which facts belong together and the words around them; it refuses to know any markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from youden.data.run_folder import PoolSummary, RankingRow, RunFolder
from youden.stats.ranks import ranks
from youden.types import CallFacts, HoldoutFacts, LinkFacts, RunFacts, ScoreKind


@dataclass(frozen=True)
class IntervalBar:
    """Where an interval is drawn, in percent of the axis that holds all intervals of the ranking."""

    low: float
    width: float
    middle: float


@dataclass(frozen=True)
class RankedAgent:
    """One line of the ranking. length_place: the agent's place by mean response length alone, None where unknown."""

    agent: str
    group: str | None
    ability: float | None
    low: float | None
    high: float | None
    rank_low: int
    rank_high: int
    n_trials: int
    length_place: int | None
    bar: IntervalBar | None

    @property
    def places(self) -> str:
        """`3` or `3–5`: the places the interval allows."""
        return str(self.rank_low) if self.rank_low == self.rank_high else f"{self.rank_low}–{self.rank_high}"


@dataclass(frozen=True)
class LinkLine:
    """One line of the curl table."""

    scores: ScoreKind
    link: str
    facts: LinkFacts


@dataclass(frozen=True)
class ReportData:
    """Everything the page, the terminal and `--json` show of a run."""

    name: str
    n_agents: int
    n_items: int
    n_missing_cells: int | None
    warnings: tuple[str, ...]
    ranking: tuple[RankedAgent, ...]
    links: tuple[LinkLine, ...]
    links_missing: dict[ScoreKind, str]
    calls: CallFacts | None
    holdout: HoldoutFacts | None
    facts: RunFacts
    signature: str
    command: str

    @property
    def shows_length(self) -> bool:
        """Whether the ranking by length alone belongs beside this one."""
        return any(agent.length_place is not None for agent in self.ranking)

    @property
    def percent_of_dense(self) -> float | None:
        """Calls as percent of the dense design's 2K(K−1)J."""
        return None if self.calls is None else 100 * self.calls.n_calls / self.calls.n_dense_calls

    @property
    def missing_reasons(self) -> tuple[tuple[str, int], ...]:
        """Calls without an answer, by arm and reason."""
        if self.calls is None:
            return ()
        arms = (("paired", self.calls.missing_paired), ("independent", self.calls.missing_independent))
        return tuple((f"{arm} {reason}", n) for arm, reasons in arms for reason, n in reasons.items())


def build_report(folder: RunFolder) -> ReportData:
    """Collect a report from the files of a run.

    Raises: RunFolderError naming the file that is missing and the command that makes it.
    """
    facts = folder.read_facts()
    pool = folder.read_pool()
    rows = folder.read_ranking()
    return ReportData(
        name=folder.path.name,
        n_agents=len(pool.agents),
        n_items=len(pool.item_ids),
        n_missing_cells=pool.n_missing,
        warnings=facts.warnings,
        ranking=_ranked(rows, _length_places(pool)),
        links=tuple(LinkLine(kind, link, line) for kind, table in facts.links.items() for link, line in table.items()),
        links_missing=facts.links_missing,
        calls=facts.calls,
        holdout=facts.holdout,
        facts=facts,
        signature=folder.read_signature().text,
        command=folder.command(),
    )


def _ranked(rows: Sequence[RankingRow], lengths: Mapping[str, int]) -> tuple[RankedAgent, ...]:
    ends = [end for row in rows for end in (row.low, row.high, row.ability) if end is not None]
    left, span = (min(ends), (max(ends) - min(ends)) or 1.0) if ends else (0.0, 1.0)

    def bar(row: RankingRow) -> IntervalBar | None:
        if row.ability is None or row.low is None or row.high is None:
            return None
        low, middle, high = (100 * (end - left) / span for end in (row.low, row.ability, row.high))
        return IntervalBar(low=low, width=high - low, middle=middle)

    return tuple(RankedAgent(**vars(row), length_place=lengths.get(row.agent), bar=bar(row)) for row in rows)


def _length_places(pool: PoolSummary) -> dict[str, int]:
    if pool.mean_length is None:
        return {}
    places = ranks(pool.mean_length)
    return {agent.id: int(place) for agent, place in zip(pool.agents, places, strict=True)}
