"""Collect all data of a report from the folder of a run.

Nothing is drawn or formatted here, so that pages, Markdown and figures show the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.report.data.doubts import RankingChecks, check_ranking
from youden.report.data.evidence import Evidence, Sources
from youden.report.data.grids import (
    AgentGrid,
    CellGrid,
    FalsePositiveRate,
    average_orders,
    make_agent_grid,
    sample_holdout_points,
)
from youden.report.data.opened_trials import TrialSample
from youden.report.data.ranking_tables import Items, find_ties
from youden.report.data.sections import SECTIONS
from youden.report.data.sections.report_section import ReportSection
from youden.report.data.summary import Summary
from youden.report.data.trial_reading import (
    MIN_PARTNER_FRACTION,
    TRIALS_PER_CHUNK,
    TrialReaders,
    TrialReading,
    compute_reused_usd,
)
from youden.report.data.warnings import group_warnings, iter_advice
from youden.streams import standalone_stream
from youden.text.tables import Table, make_table
from youden.types.cells import CellIndex
from youden.types.pool import Floats, Ids, Json, Positions

N_EXTREMES = 5
"""Number of partners, and of items, in each list of an agent."""


class AgentPage:
    """Details of one agent: findings, partners, items and trials.

    Attributes
    ----------
    findings : sequence of str
        Sentences about the agent.
    worst : sequence of int
        Rows of the trials that lower its ability most.
    high, low : list of (int, float)
        Partners with the highest and with the lowest agreement: position and agreement.
    gains, loses : list of (int, float, float)
        Items with the largest positive and the largest negative residuals: position, score and residual.
    """

    def __init__(
        self,
        agreement: Floats,
        item: Ids | Positions,
        score: Floats,
        residual: Floats,
        *,
        findings: Sequence[str],
        worst: Sequence[int],
    ) -> None:
        """Select the partners and items to show.

        Parameters
        ----------
        agreement : float array (n_agents,)
            Agreement with each other agent; NaN if unknown.
        item : int array (n_scored,)
            Positions of the items on which the agent has a score.
        score, residual : float array (n_scored,)
            Scores on these items, and scores minus predictions.
        findings : sequence of str
            Sentences about the agent.
        worst : sequence of int
            Rows of the trials that lower its ability most.
        """
        self.findings, self.worst = findings, worst
        highest, lowest = _find_extremes(agreement)
        self.high = [(k, float(agreement[k])) for k in highest]
        self.low = [(k, float(agreement[k])) for k in lowest]
        highest, lowest = _find_extremes(residual)
        self.gains = [(int(item[j]), float(score[j]), float(residual[j])) for j in highest if residual[j] > 0]
        self.loses = [(int(item[j]), float(score[j]), float(residual[j])) for j in lowest if residual[j] < 0]


def _make_agent_pages(
    evidence: Evidence, summary: Summary, grid: AgentGrid, checks: RankingChecks, worst_trials: Sequence[Sequence[int]]
) -> list[AgentPage]:
    """Make the section of each agent in a report: partners, items, findings and worst trials.

    evidence : tables of the run, with the score of each cell (an agent on an item)
    summary : summary of the run, with its warnings
    grid : agreement of all pairs of agents; it defines the order of the agents in the result
    checks : checks of the ranking; each finding is shown for the agents that it names
    worst_trials : for each agent, rows of the trials that lower its ability most; an empty sequence for an imported run, which
        has no trials
    """
    cells, scores, _weights = evidence.scores.cells
    agreement = average_orders(grid.agreement, default=np.nan)  # mean of A against B and B against A
    np.fill_diagonal(agreement, np.nan)

    pages = []
    for agent_position, cells_of_agent in enumerate(_group_by_agent(cells)):
        item = cells.item[cells_of_agent]
        score = scores[cells_of_agent]
        predicted_score = evidence.predicted.predict(agent_position, item)
        agent_id = grid.agents[agent_position]
        page = AgentPage(
            agreement[agent_position],
            item,
            score,
            score - predicted_score,
            findings=list(iter_agent_findings(agent_id, summary, checks)),
            worst=worst_trials[agent_position] if worst_trials else [],
        )
        pages.append(page)
    return pages


def _group_by_agent(cells: CellIndex) -> list[Positions]:
    """Return the positions of the cells of each agent."""
    n_cells = np.bincount(cells.agent, minlength=cells.n_agents)
    return np.split(cells.by_agent, np.cumsum(n_cells)[:-1])


_SLUGS_WITH_OWN_SENTENCES = ("pairs", "halves")
"""Slugs of warnings about flagged groups and partners, which are replaced by one sentence for each agent."""


def iter_agent_findings(agent: str, summary: Summary, checks: RankingChecks) -> Iterator[str]:
    """Yield one sentence for each warning, check or label of a run that names an agent.

    Parameters
    ----------
    agent : str
        Id of the agent; nothing is yielded for an unknown one.
    summary : Summary
        Summary of the run.
    checks : RankingChecks
        Checks of the ranking of the run.

    Yields
    ------
    str
        First warnings, each message once, then flagged groups (similar texts or high agreement). Then a large dependence of the
        rank on partners, the agents with which it is compared. Then labels that give the agent another rank than its ability.
    """
    warnings = [*summary.warnings, *checks.warnings]
    other_warnings = [finding for finding in warnings if finding.slug not in _SLUGS_WITH_OWN_SENTENCES]
    messages = [finding.message for finding in other_warnings if agent in finding.agents]
    yield from dict.fromkeys(messages)  # each message once

    flagged_groups = () if checks.pairs is None else checks.pairs.groups
    for group in flagged_groups:
        if agent in group.agents:
            yield f"It is in a group with similar texts, or that agrees more than any honest group on record: {group}."

    rank_changes = () if summary.facts.partners is None else summary.facts.partners.agents
    for name, rank_change in rank_changes:
        if name == agent:
            yield f"Its rank depends on the other agents: random halves of its partners differ by {rank_change:.1f} ranks."

    labels = () if summary.labels is None else summary.labels.labels
    for label in labels:
        for disagreement in label.disagreements:
            if disagreement.agent == agent:
                yield f"Its rank by {label.name} is {disagreement.label_low}, its rank by ability {disagreement.rank}."


def _find_extremes(values: Floats) -> tuple[list[int], list[int]]:
    """Find the positions of the highest and of the lowest values, at most `N_EXTREMES` of each.

    values : float array (n,); NaN is ignored

    Returns two lists, highest value first and lowest value first. No position is in both.
    """
    valid = np.flatnonzero(~np.isnan(values))
    ascending: Positions = valid[np.argsort(values[valid], kind="stable")]
    n_lowest = min(N_EXTREMES, len(ascending) // 2)  # if there are few values, half of them
    n_highest = min(N_EXTREMES, len(ascending) - n_lowest)
    return ascending[::-1][:n_highest].tolist(), ascending[:n_lowest].tolist()


def _iter_tables(sections: Sequence[ReportSection]) -> Iterator[tuple[type[ReportSection], Table]]:
    """Yield the class and the table of each section whose table has rows."""
    for section in sections:
        if rows := section.make_rows():
            yield type(section), make_table(section.title, section.text_headings, section.number_headings, rows)


class ReportData:
    """All data that a report shows of a run.

    Attributes
    ----------
    summary : Summary
        Ranking, costs and warnings.
    plan : Plan or None
        Plan without its trials; None for an imported run.
    judge_settings : mapping
        Settings of the judge; empty for an imported run.
    trials : TrialSample or None
        Trials with their texts; None for an imported run.
    readers : TrialReaders or None
        Readers that have read all trials, one attribute each; None for an imported run.
    sections : dict of type to Table
        Classes of the sections that consist of a table, with their tables. Sections without rows are left out.
    alarms : tuple of FalsePositiveRate
        False-positive rates of the agents.
    reused_usd : float or None
        Cost in USD of the reused answers; None if there are none, or if it is unknown.
    partners_seen : float or None
        Mean fraction of its possible partners with which a cell was compared.
    advice : tuple of Finding
        Warnings about the run.
    checks : RankingChecks
        Checks of the ranking.
    groups : tuple of Group
        Warnings and checks, grouped for display.
    tied : mapping of str to tuple of str, or None
        Agents that are not significantly different from each agent.
    agents, cells, items : AgentGrid, CellGrid, Items
        Agreement of agents, scores of cells, and items by difficulty.
    curl : tuple of CurlCurve
        Distribution of the curl on each link.
    holdout : HoldoutPoints or None
        Held-out cells; None if there are none.
    item_ids : tuple of str
        Ids of the items, by position.
    pages : list of AgentPage
        Details of each agent, in the order of `agents.agents`.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Read the folder of a fitted run, and the store of its answers.

        Parameters
        ----------
        folder : RunFolder
            Folder of the run.

        Raises
        ------
        RunFolderError
            If a file is missing or damaged.
        JudgeError
            [store-corrupt]: if the store is damaged.
        """
        summary = self.summary = Summary(folder)
        evidence = Evidence(folder)
        source = evidence.trials
        sections = [section(summary, evidence) for section in SECTIONS]
        sources = Sources(folder, None if source is None else source.calling_judge)
        self.plan = None if source is None else source.plan
        self.judge_settings: Mapping[str, Json] = {} if source is None else source.judge
        self.trials: TrialSample | None = None
        self.readers: TrialReaders | None = None
        self.alarms: tuple[FalsePositiveRate, ...] = ()
        self.reused_usd: float | None = None
        worst: Sequence[Sequence[int]] = ()
        if source is not None:
            reading = TrialReading(source, evidence.predicted, sections)
            worst = reading.readers.worst.rows
            # the worst trial of every agent, then the second worst of every agent, and so on
            by_severity = [row for rows in zip_longest(*worst) for row in rows if row is not None]
            preferred = list(dict.fromkeys(by_severity))
            self.trials = TrialSample(reading, sources, rng=standalone_stream(0), preferred=preferred)
            self.readers = reading.readers
            self.alarms = reading.alarms
            if summary.calls is not None and summary.calls.n_reused and source.n_trials <= TRIALS_PER_CHUNK:
                self.reused_usd = compute_reused_usd(folder)
        self.sections = dict(_iter_tables(sections))
        self.partners_seen = evidence.partners_seen
        self.advice = tuple(iter_advice(summary, sources.missing, additivity=self.can_assess_additivity))
        self.checks = check_ranking(evidence, summary)
        self.groups = group_warnings(self.advice, self.checks, headline=summary.headline)
        self.tied = find_ties(evidence, summary.ranking)
        ranked = [row.agent for row in summary.ranking]
        self.agents = make_agent_grid(evidence, ranked, fpr=summary.facts.fpr)
        self.cells = CellGrid(evidence, ranked)
        self.items = Items(folder, sources.pool)
        self.curl = folder.read_curl()
        self.holdout = sample_holdout_points(evidence)
        self.item_ids = evidence.item_ids
        self.pages = _make_agent_pages(evidence, summary, self.agents, self.checks, worst)

    @property
    def can_assess_additivity(self) -> bool:
        """Whether cells were compared with enough partners for curl and R² to show additivity."""
        if not self.summary.links or self.partners_seen is None:
            return False
        return self.partners_seen >= MIN_PARTNER_FRACTION
