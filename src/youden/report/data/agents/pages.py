"""What is known of one agent: with whom it agrees, on which items it gains and loses, the trials that cost it most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from youden.nouns.arrays import Floats, Positions
from youden.report.data.doubts.doubts import Doubts
from youden.report.data.evidence import Evidence
from youden.report.data.grids import AgentGrid
from youden.report.data.summary import Summary

N_SHOWN = 5
"""Partners and items at either end of one agent."""


@dataclass(frozen=True)
class Near:
    """A partner or an item by its position. value: agreement with the partner, or the score on the item; beyond: on an item,
    score less its prediction, None for a partner."""

    position: int
    value: float
    beyond: float | None = None


@dataclass(frozen=True)
class AgentPage:
    """One agent, by its position. found: what was found about it, in words; high, low: partners it agrees with most and least;
    gains, loses: items where it scores furthest above and below what its ability lets one expect; worst: rows of trials."""

    position: int
    found: tuple[str, ...]
    high: tuple[Near, ...]
    low: tuple[Near, ...]
    gains: tuple[Near, ...]
    loses: tuple[Near, ...]
    worst: tuple[int, ...]


def agent_pages(
    evidence: Evidence,
    summary: Summary,
    grid: AgentGrid,
    doubts: Doubts,
    worst: Sequence[Sequence[int]],
) -> tuple[AgentPage, ...]:
    """One page an agent, in the order of the rates. worst: as `WorstTrials` gives them."""
    at, score, _ = evidence.scores.cells
    of_agents = np.split(at.by_agent, np.cumsum(np.bincount(at.agent, minlength=at.n_agents))[:-1])
    agreement = _both_orders(grid.value)
    pages = []
    for k, agent in enumerate(grid.agents):
        high, low = _ends(agreement[k])
        item, own = at.item[of_agents[k]], score[of_agents[k]]
        beyond = own - (np.nan if evidence.predicted is None else evidence.predicted.at(k, item))
        gains, loses = _ends(beyond)
        pages.append(
            AgentPage(
                position=k,
                found=tuple(findings(agent, summary, doubts)),
                high=tuple(Near(i, float(agreement[k, i])) for i in high),
                low=tuple(Near(i, float(agreement[k, i])) for i in low),
                gains=tuple(Near(int(item[j]), float(own[j]), float(beyond[j])) for j in gains if beyond[j] > 0),
                loses=tuple(Near(int(item[j]), float(own[j]), float(beyond[j])) for j in loses if beyond[j] < 0),
                worst=tuple(worst[k]) if worst else (),
            )
        )
    return tuple(pages)


def findings(agent: str, summary: Summary, doubts: Doubts) -> Iterator[str]:
    """What the run's warnings and this report's checks say of one agent, a sentence or two each."""
    named = (f"'{agent}'", f"texts of {agent} on", f"texts of {agent} and", f"and {agent} on unrelated items")
    yield from (text for text in summary.warnings if any(words in text for words in named))
    for pair in () if doubts.pairs is None else doubts.pairs.beyond:
        if agent in (pair.first, pair.second):
            other = pair.second if agent == pair.first else pair.first
            yield f"It agrees with {other} far beyond what their two abilities explain (agreement {pair.agreement:.2f})."
    for one, places in () if summary.facts.partners is None else summary.facts.partners.agents:
        if one == agent:
            yield f"Its place depends on who else is in the pool: {places:.1f} places between random halves of its partners."
    for label in () if summary.labels is None else summary.labels.labels:
        for line in label.disagreements:
            if line.agent == agent:
                yield f"By {label.name} it stands at place {line.label_low}, by ability at {line.place}."


def _both_orders(value: Floats) -> Floats:
    stack = np.stack([value, value.T])
    n = (~np.isnan(stack)).sum(axis=0)
    mean: Floats = np.divide(np.nansum(stack, axis=0), n, out=np.full_like(value, np.nan), where=n > 0)
    np.fill_diagonal(mean, np.nan)
    return mean


def _ends(value: Floats) -> tuple[list[int], list[int]]:
    """Positions of the highest, highest first, and of the lowest, lowest first; none stands in both."""
    known = np.flatnonzero(~np.isnan(value))
    order: Positions = known[np.argsort(value[known], kind="stable")]
    n = min(N_SHOWN, len(order) // 2)
    return order[::-1][: min(N_SHOWN, len(order) - n)].tolist(), order[:n].tolist()
