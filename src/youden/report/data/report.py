"""All that a report says, as a tree of plain dataclasses from a run's folder, and what is known of each of its agents.

Its parts are questions, in this order: who is best, can I believe it, what did it cost, show me.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.report.data.doubts import Doubts, look_for_doubts
from youden.report.data.evidence import Evidence, gather, open_texts
from youden.report.data.grids import (
    AgentGrid,
    CellGrid,
    FalseAlarm,
    HoldoutPoints,
    agent_grid,
    cell_grid,
    holdout_points,
    mean_of_both,
)
from youden.report.data.opened_trials import AskedPrompt, Sample, find_sources, sample_trials
from youden.report.data.ranking_tables import Items, Tied, order_items, tied_by_difference
from youden.report.data.summary import Summary, summarise_run
from youden.report.data.trial_reading import LEAST_PARTNERS, CostFacts, JudgeQuality, TrialReading, count_cost
from youden.report.data.trial_rows import Kind, TrialLine
from youden.report.data.warnings import Group, advise, grouped
from youden.streams import own_stream
from youden.types import Finding
from youden.types.pool import Floats, Positions
from youden.types.results import CurlCurve

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


def _agent_pages(
    evidence: Evidence,
    summary: Summary,
    grid: AgentGrid,
    doubts: Doubts,
    worst: Sequence[Sequence[int]],
) -> tuple[AgentPage, ...]:
    """One page an agent, in the order of the rates. worst: as `WorstTrials` gives them."""
    at, score, _ = evidence.scores.cells
    of_agents = np.split(at.by_agent, np.cumsum(np.bincount(at.agent, minlength=at.n_agents))[:-1])
    agreement = mean_of_both(grid.value, unseen=np.nan)
    np.fill_diagonal(agreement, np.nan)
    pages = []
    for k, agent in enumerate(grid.agents):
        high, low = _ends(agreement[k])
        item, own = at.item[of_agents[k]], score[of_agents[k]]
        beyond = own - evidence.predicted.at(k, item)
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
    yield from (one.says for one in summary.warnings if agent in one.agents and one.slug != "pairs")
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


def _ends(value: Floats) -> tuple[list[int], list[int]]:
    """Positions of the highest, highest first, and of the lowest, lowest first; none stands in both."""
    known = np.flatnonzero(~np.isnan(value))
    order: Positions = known[np.argsort(value[known], kind="stable")]
    n = min(N_SHOWN, len(order) // 2)
    return order[::-1][: min(N_SHOWN, len(order) - n)].tolist(), order[:n].tolist()


@dataclass(frozen=True)
class TrialFacts:
    """The trials of a judged run. n_of_kind: of all of them, not of the sample; prompt: None where it cannot be shown; worst:
    the trials that cost agents most, which their pages name, by row."""

    sample: Sample
    n_of_kind: dict[Kind, int]
    prompt: AskedPrompt | None
    worst: tuple[TrialLine, ...] = ()


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything the page shows. tied: who is not told apart from whom; cost, trials, judge: None for an imported run; holdout:
    None without one; groups: the advice as it is shown; pages: one an agent, in the order of `agents.agents`; partners_seen: as
    the function of that name."""

    summary: Summary
    tied: Tied
    advice: tuple[Finding, ...]
    groups: tuple[Group, ...]
    doubts: Doubts
    agents: AgentGrid
    cells: CellGrid
    items: Items
    curl: tuple[CurlCurve, ...]
    alarms: tuple[FalseAlarm, ...]
    holdout: HoldoutPoints | None
    cost: CostFacts | None
    trials: TrialFacts | None
    item_ids: tuple[str, ...]
    pages: tuple[AgentPage, ...]
    judge: JudgeQuality | None
    partners_seen: float | None

    @property
    def curl_tells(self) -> bool:
        """Whether curl and additivity speak of the scores, and not of noise."""
        return _tells(self.summary, self.partners_seen)


def build_report(folder: RunFolder, *, seed: int = 0) -> ReportData:
    """Collect a report from the files of a run, its pool and its store where they are still there.

    seed: of the sample of trials.

    Raises: RunFolderError naming the file that is missing and the command that makes it.
    """
    summary = summarise_run(folder)
    evidence = gather(folder)
    texts = open_texts(folder)
    ranked = [agent.agent for agent in summary.ranking]
    alarms: tuple[FalseAlarm, ...] = ()
    trials, cost, judge = None, None, None
    worst: tuple[tuple[int, ...], ...] = ()
    notes = [] if texts.why_not is None else [texts.why_not]
    if evidence.trials is not None:
        read = TrialReading(evidence.trials, evidence.predicted)
        sources = find_sources(folder, texts, evidence.trials.asked)
        notes = list(sources.missing)
        worst = read.worst
        # Every agent's worst trial, then every agent's second worst, and so on.
        ahead = list(dict.fromkeys(row for rows in zip_longest(*worst) for row in rows if row is not None))
        sample = sample_trials(read, sources, rng=own_stream(seed), ahead=ahead)
        trials = TrialFacts(sample, read.n_of_kind, sources.prompt, tuple(read.lines(ahead)))
        judge, alarms = read.judge, read.alarms
        if (calls := summary.facts.calls) is not None:
            cost = count_cost(folder, evidence.trials, latency=read.latency, calls=calls)
    seen = evidence.partners_seen
    advice = tuple(advise(summary, notes, additivity=_tells(summary, seen)))
    doubts = look_for_doubts(evidence, summary)
    agents = agent_grid(evidence, ranked, fpr=summary.facts.fpr)
    return ReportData(
        summary=summary,
        tied=tied_by_difference(evidence.told, evidence.agent_ids, summary.ranking),
        advice=advice,
        groups=grouped(advice, doubts, headline=summary.headline),
        doubts=doubts,
        agents=agents,
        cells=cell_grid(evidence, ranked),
        items=order_items(folder, texts),
        curl=folder.read_curl(),
        alarms=alarms,
        holdout=holdout_points(evidence),
        cost=cost,
        trials=trials,
        item_ids=evidence.item_ids,
        pages=_agent_pages(evidence, summary, agents, doubts, worst),
        judge=judge,
        partners_seen=seen,
    )


def _tells(summary: Summary, seen: float | None) -> bool:
    return bool(summary.links) and seen is not None and seen >= LEAST_PARTNERS
