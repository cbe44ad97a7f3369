"""A whole report as a tree of plain dataclasses, built from a run's folder.

Its parts are questions, in this order: who is best, can I believe it, what did it cost, show me.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from youden.data.folder.run_folder import RunFolder
from youden.errors import StatisticsError
from youden.nouns import CurlCurve
from youden.report.data.advice import Advice, advise
from youden.report.data.agents.pages import AgentPage, agent_pages
from youden.report.data.answers.reading import Reading
from youden.report.data.checks import (
    FalseAlarm,
    HoldoutPoints,
    holdout_points,
)
from youden.report.data.cost import Cost, count_cost
from youden.report.data.doubts.doubts import Doubts, look_for_doubts
from youden.report.data.evidence import Evidence, gather, open_texts
from youden.report.data.front.warnings import Group, grouped
from youden.report.data.grids import AgentGrid, CellGrid, agent_grid, cell_grid
from youden.report.data.items import Items, order_items
from youden.report.data.openings import AskedPrompt, Sample, find_sources, sample_trials
from youden.report.data.ranking import Tied, tied_by_difference
from youden.report.data.summary import Summary, summarise_run
from youden.report.data.trials import Kind, TrialLine
from youden.report.data.trust.judge import LEAST_PARTNERS, JudgeQuality
from youden.run.learning import Learned
from youden.stats.curl.link_table import measure_curl
from youden.streams import own_stream


@dataclass(frozen=True)
class Trials:
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
    advice: tuple[Advice, ...]
    groups: tuple[Group, ...]
    doubts: Doubts
    agents: AgentGrid
    cells: CellGrid
    items: Items
    curl: tuple[CurlCurve, ...]
    alarms: tuple[FalseAlarm, ...]
    holdout: HoldoutPoints | None
    cost: Cost | None
    trials: Trials | None
    item_ids: tuple[str, ...]
    pages: tuple[AgentPage, ...]
    judge: JudgeQuality | None
    partners_seen: float | None

    @property
    def curl_tells(self) -> bool:
        """Whether curl and additivity speak of the scores, and not of noise."""
        return _tells(self.summary, self.partners_seen)


def build_report(folder: RunFolder, *, seed: int = 0, learned: Learned | None = None) -> ReportData:
    """Collect a report from the files of a run, its pool and its store where they are still there.

    seed: of the sample of trials. learned: what `fit_run` has just learned, so that it is not made twice.

    Raises: RunFolderError naming the file that is missing and the command that makes it.
    """
    summary = summarise_run(folder)
    evidence = gather(folder, learned=learned)
    texts = open_texts(folder)
    ranked = [agent.agent for agent in summary.ranking]
    alarms: tuple[FalseAlarm, ...] = ()
    trials, cost, judge = None, None, None
    worst: tuple[tuple[int, ...], ...] = ()
    notes = [] if texts.why_not is None else [texts.why_not]
    if evidence.trials is not None:
        read = Reading(evidence.trials, evidence.predicted)
        sources = find_sources(folder, texts, evidence.trials.asked)
        notes = list(sources.missing)
        worst = read.worst
        # Every agent's worst trial, then every agent's second worst, and so on.
        ahead = list(dict.fromkeys(row for rows in zip_longest(*worst) for row in rows if row is not None))
        sample = sample_trials(read, sources, rng=own_stream(seed), ahead=ahead)
        trials = Trials(sample, read.n_of_kind, sources.prompt, tuple(read.lines(ahead)))
        judge, alarms = read.judge, read.alarms
        calls = summary.facts.calls
        cost = count_cost(folder, evidence.trials, fates=read.fates, latency=read.latency, calls=calls)
    seen = evidence.partners_seen
    advice = advise(summary, notes, additivity=_tells(summary, seen))
    doubts = look_for_doubts(evidence, summary)
    agents = agent_grid(evidence, ranked, fpr=summary.facts.fpr)
    return ReportData(
        summary=summary,
        tied=_tied(evidence, summary),
        advice=advice,
        groups=grouped(advice, doubts, headline=summary.headline),
        doubts=doubts,
        agents=agents,
        cells=cell_grid(evidence, ranked),
        items=order_items(folder, texts),
        curl=_curl(folder, evidence),
        alarms=alarms,
        holdout=holdout_points(evidence),
        cost=cost,
        trials=trials,
        item_ids=evidence.item_ids,
        pages=agent_pages(evidence, summary, agents, doubts, worst),
        judge=judge,
        partners_seen=seen,
    )


def _tells(summary: Summary, seen: float | None) -> bool:
    return bool(summary.links) and seen is not None and seen >= LEAST_PARTNERS


def _tied(evidence: Evidence, summary: Summary) -> Tied:
    """By differences, made from the folder's answers as its ranking was; unknown where they cannot be made again."""
    if evidence.told is None:
        return dict.fromkeys(evidence.agent_ids)
    return tied_by_difference(evidence.told, evidence.agent_ids, summary.ranking)


def _curl(folder: RunFolder, evidence: Evidence) -> tuple[CurlCurve, ...]:
    """As `youden fit` wrote it; made here where its file was taken out. Empty where no rectangle is complete."""
    if folder.has("curl.csv"):
        return folder.read_curl()
    try:
        return measure_curl(evidence.scores).curves()
    except StatisticsError:
        return ()
