"""The ranking as it is shown: intervals as bars, places, and who cannot be told from whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from youden.data.folder.run_folder import PoolSummary, RankingRow
from youden.stats.base.ranks import ranks


@dataclass(frozen=True)
class IntervalBar:
    """Where an interval is drawn, in percent of the axis that holds all intervals of the ranking."""

    low: float
    width: float
    middle: float


@dataclass(frozen=True)
class RankedAgent:
    """One line of the ranking.

    length_place: the agent's place by mean response length alone, None where unknown. tied: the agents whose intervals
    overlap this one's, best first; None where the agent has no interval.
    """

    agent: str
    group: str | None
    ability: float | None
    low: float | None
    high: float | None
    rank_low: int
    rank_high: int
    n_trials: int
    error: float | None
    place_low: int | None
    place_high: int | None
    length_place: int | None
    bar: IntervalBar | None
    tied: tuple[str, ...] | None

    @property
    def places(self) -> str:
        """`3` or `3–5`: the places the interval allows."""
        return str(self.rank_low) if self.rank_low == self.rank_high else f"{self.rank_low}–{self.rank_high}"


def rank_agents(rows: Sequence[RankingRow], pool: PoolSummary) -> tuple[RankedAgent, ...]:
    """The lines of `ranking.csv` with what is drawn beside them, in the same order."""
    lengths = _length_places(pool)
    ends = [end for row in rows for end in (row.low, row.high, row.ability) if end is not None]
    left, span = (min(ends), (max(ends) - min(ends)) or 1.0) if ends else (0.0, 1.0)

    def bar(row: RankingRow) -> IntervalBar | None:
        if row.ability is None or row.low is None or row.high is None:
            return None
        low, middle, high = (100 * (end - left) / span for end in (row.low, row.ability, row.high))
        return IntervalBar(low=low, width=high - low, middle=middle)

    return tuple(
        RankedAgent(**vars(row), length_place=lengths.get(row.agent), bar=bar(row), tied=_tied(row, rows))
        for row in rows
    )


def headline(ranking: Sequence[RankedAgent]) -> str:
    """Who is best and how sure that is, in one sentence."""
    best = [agent for agent in ranking if agent.rank_low == 1 and agent.tied is not None]
    if not best:
        return "No agent has an interval, so nobody can be called best."
    if len(best) == 1:
        return f"{best[0].agent} is best: its interval lies above everybody else's."
    shown = [agent.agent for agent in best[:3]]
    rest = len(best) - len(shown)
    names = ", ".join(shown[:-1]) + f" and {shown[-1]}" if not rest else ", ".join(shown) + f" and {rest} more"
    return f"{names} can each be first: their intervals overlap, and these data do not tell them apart."


def _tied(row: RankingRow, rows: Sequence[RankingRow]) -> tuple[str, ...] | None:
    if row.low is None or row.high is None:
        return None
    return tuple(
        other.agent
        for other in rows
        if other is not row
        and other.low is not None
        and other.high is not None
        and other.low <= row.high
        and row.low <= other.high
    )


def _length_places(pool: PoolSummary) -> Mapping[str, int]:
    if pool.mean_length is None:
        return {}
    places = ranks(pool.mean_length)
    return {agent.id: int(place) for agent, place in zip(pool.agents, places, strict=True)}
