"""All that a report says, as a tree of plain dataclasses from a run's folder, and what is known of each of its agents.

Its parts are questions, in this order: who is best, can I believe it, what did it cost, show me.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.report.data.doubts import Doubts, look_for_doubts
from youden.report.data.evidence import Evidence, Sources
from youden.report.data.grids import AgentGrid, CellGrid, FalseAlarm, agent_grid, holdout_points, mean_of_both
from youden.report.data.opened_trials import TrialSample
from youden.report.data.ranking_tables import Items, tied_by_difference
from youden.report.data.summary import Summary
from youden.report.data.trial_reading import AT_ONCE, LEAST_PARTNERS, JudgeQuality, Latency, TrialReading, reused_usd
from youden.report.data.warnings import advise, grouped
from youden.streams import own_stream
from youden.types.pool import Floats, Ids, Json, Positions

N_SHOWN = 5
"""Partners and items at either end of one agent."""


class AgentPage:
    """What is known of one agent: findings, partners, items and trials.

    `high` and `low` are the partners it agrees with most and least, as (position, agreement); `gains` and `loses` the items
    on which it scores furthest above and below what its ability predicts, as (position, score, residual); `worst` are rows of
    trials.
    """

    def __init__(
        self,
        agreement: Floats,
        item: Ids | Positions,
        score: Floats,
        residual: Floats,
        *,
        found: Sequence[str],
        worst: Sequence[int],
    ) -> None:
        """agreement : float array (n_agents,); item, score, residual : arrays (n_seen,) of the items on which it was seen."""
        self.found, self.worst = found, worst
        self.high, self.low = ([(k, float(agreement[k])) for k in end] for end in _ends(agreement))
        self.gains, self.loses = (
            [(int(item[j]), float(score[j]), float(residual[j])) for j in end if sign * residual[j] > 0]
            for sign, end in zip((1, -1), _ends(residual), strict=True)
        )


def _agent_pages(
    evidence: Evidence, summary: Summary, grid: AgentGrid, doubts: Doubts, worst: Sequence[Sequence[int]]
) -> list[AgentPage]:
    """Make one page per agent, in the order of the grid. worst: rows of each agent's worst trials, empty for an imported run."""
    at, score, _ = evidence.scores.cells
    of_agents = np.split(at.by_agent, np.cumsum(np.bincount(at.agent, minlength=at.n_agents))[:-1])
    agreement = mean_of_both(grid.value, unseen=np.nan)
    np.fill_diagonal(agreement, np.nan)
    pages = []
    for k, agent in enumerate(grid.agents):
        item, own = at.item[of_agents[k]], score[of_agents[k]]
        residual = own - evidence.predicted.at(k, item)
        found, rows = list(findings(agent, summary, doubts)), worst[k] if worst else []
        pages.append(AgentPage(agreement[k], item, own, residual, found=found, worst=rows))
    return pages


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


class ReportData:
    """Everything that a report shows of a run.

    `tied` has for each agent the agents that are not significantly different; `plan`, `trials` and `judge` are None
    for an imported run; `groups` is the advice as it is shown; `pages` has one page per agent, in the order of `agents.agents`.
    """

    def __init__(self, folder: RunFolder, *, seed: int = 0) -> None:
        """Read a fitted run's folder and its answer store. seed: of the trials that are shown opened.

        Raises: RunFolderError; JudgeError [store-damaged].
        """
        summary = self.summary = Summary(folder)
        evidence = Evidence(folder)
        source, ranked = evidence.trials, [agent.agent for agent in summary.ranking]
        sources = Sources(folder, None if source is None else source.asked)
        self.plan = None if source is None else source.plan
        self.judge_settings: Mapping[str, Json] = {} if source is None else source.judge
        self.trials: TrialSample | None = None
        self.judge: JudgeQuality | None = None
        self.latency: Latency | None = None
        self.alarms: tuple[FalseAlarm, ...] = ()
        self.reused_usd: float | None = None
        worst: Sequence[Sequence[int]] = ()
        if source is not None:
            reading = TrialReading(source, evidence.predicted)
            worst = reading.worst
            # Every agent's worst trial, then every agent's second worst, and so on.
            ahead = list(dict.fromkeys(row for rows in zip_longest(*worst) for row in rows if row is not None))
            self.trials = TrialSample(reading, sources, rng=own_stream(seed), ahead=ahead)
            self.judge, self.alarms, self.latency = reading.judge, reading.alarms, reading.latency
            if summary.calls is not None and summary.calls.n_reused and source.n_trials <= AT_ONCE:
                self.reused_usd = reused_usd(folder)
        self.partners_seen = evidence.partners_seen
        self.advice = tuple(advise(summary, sources.missing, additivity=self.curl_tells))
        self.doubts = look_for_doubts(evidence, summary)
        self.groups = grouped(self.advice, self.doubts, headline=summary.headline)
        self.tied = tied_by_difference(evidence, summary.ranking)
        self.agents = agent_grid(evidence, ranked, fpr=summary.facts.fpr)
        self.cells = CellGrid(evidence, ranked)
        self.items = Items(folder, sources.pool)
        self.curl, self.holdout = folder.read_curl(), holdout_points(evidence)
        self.item_ids = evidence.item_ids
        self.pages = _agent_pages(evidence, summary, self.agents, self.doubts, worst)

    @property
    def curl_tells(self) -> bool:
        """Whether cells were compared with enough partners that curl and R² mean something."""
        seen = self.partners_seen
        return bool(self.summary.links) and seen is not None and seen >= LEAST_PARTNERS
