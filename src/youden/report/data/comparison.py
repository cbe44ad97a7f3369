"""Two runs side by side: whether their rankings agree, and on which trials their judges do not.

Neither run is taken to be right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError, StatisticsError
from youden.protocol.independent import same_trials
from youden.report.data.evidence import Sources, read_result
from youden.report.data.opened_trials import TrialSample, judge_of_calls
from youden.report.data.ranking_tables import RankedAgent, current_quality
from youden.report.data.summary import Summary
from youden.report.data.trial_rows import TrialBook
from youden.stats.base.metrics import spearman
from youden.stats.trials.comparisons import tied_places
from youden.streams import own_stream
from youden.study.agreement import JudgesStudy
from youden.study.judge_shifts import correlation
from youden.study.judged_runs import SideBySide, read_judged
from youden.text.tables import Table, fixed, two_sided
from youden.types import PAIRED, Verdicts
from youden.types.pool import Floats


class SlopeLine(NamedTuple):
    """An agent in two rankings, and its places among the agents in both; apart: whether its standing differs significantly."""

    one: RankedAgent
    two: RankedAgent
    place_one: int
    place_two: int
    apart: bool


class Comparison:
    """Two runs side by side, for the agents and trials that both have.

    `correlation` is None for fewer than 3 agents or equal abilities; `answers` and `trials` are None if a run was imported.
    """

    def __init__(self, one: RunFolder, two: RunFolder, *, seed: int = 0) -> None:
        """Compare two fitted runs. seed: of the trials that are shown opened.

        Raises: RunFolderError; [compare-nothing] if they rank no agent in common.
        """
        self.one, self.two = Summary(one), Summary(two)
        self.lines = _lines(self.one, self.two)
        if not self.lines:
            raise RunFolderError(
                f"{one.path} and {two.path} rank no agent in common. Compare runs on the same agents.",
                slug="compare-nothing",
            )
        abilities = np.array([[line.one.ability, line.two.ability] for line in self.lines], dtype=np.float64).T
        is_comparable = len(self.lines) > 2 and bool((np.ptp(abilities, axis=1) > 0).all())
        self.correlation = spearman(abilities[0], abilities[1]) if is_comparable else None
        pool, results = one.read_pool(), (read_result(one), read_result(two))
        self.agent_ids, self.item_ids = pool.agent_ids, pool.item_ids
        self.answers: Table | None = None
        self.trials: TrialSample | None = None
        if results[0] is not None and results[1] is not None:
            against = other_answers(results[0], results[1])
            sources = Sources(one, judge_of_calls(results[0]))
            self.trials = TrialSample(TrialBook(results[0], against), sources, rng=own_stream(seed))
            self.answers = _answers(results[0], against)
        quality = quality_compared([(self.one.name, one), (self.two.name, two)])
        self.words = (*_words(one, two), *quality)


def _words(one: RunFolder, two: RunFolder) -> list[str]:
    try:
        both = SideBySide([read_judged(one), read_judged(two)])
        return JudgesStudy(both).words
    except (ConfigError, StatisticsError) as error:
        return [error.message]


def quality_compared(runs: Sequence[tuple[str, RunFolder]]) -> Iterator[str]:
    """Quality beside ability, a sentence for every two runs that have a quality.json of their ranking. runs: name, folder."""
    known = [
        (name, found, {row.agent: row.ability for row in run.read_ranking()})
        for name, run in runs
        if (found := current_quality(run)) is not None
    ]
    for (name, one, abilities), (other_name, two, other_abilities) in combinations(known, 2):
        qualities, other_qualities = ({row.agent: row.quality for row in of.agents} for of in (one, two))
        shared = [agent for agent in abilities if agent in other_abilities]
        rho = [
            correlation(*(np.array([of[agent] for agent in shared], dtype=np.float64) for of in pair))
            for pair in ((qualities, other_qualities), (abilities, other_abilities))
        ]
        alike, by_ability = ("–" if found is None else f"{found.value:.2f}" for found in rho)
        yield (
            f"Quality, from labels, of {len(shared)} agents in both: ρ = {alike}, by ability {by_ability}. Best by quality "
            f"in {name}: {one.best} (by ability {next(iter(abilities))}); in {other_name}: {two.best} (by ability "
            f"{next(iter(other_abilities))})."
        )


def other_answers(mine: Verdicts, theirs: Verdicts) -> Floats:
    """float[N]: the hard answers of `theirs` to the trials of `mine`, NaN where it has none."""
    row = same_trials(mine.plan, theirs.plan)
    found = row >= 0
    answers = np.full(len(mine), np.nan)
    answers[found] = theirs.hard[row[found]]
    return answers


def _lines(one: Summary, two: Summary) -> list[SlopeLine]:
    others = {agent.agent: agent for agent in two.ranking}
    pairs = [(agent, others[agent.agent]) for agent in one.ranking if agent.agent in others]
    known = [
        (mine, other, mine.ability, other.ability)
        for mine, other in pairs
        if mine.ability is not None and other.ability is not None
    ]
    places = [tied_places(np.array([line[k] for line in known], dtype=np.float64)).tolist() for k in (2, 3)]
    return [
        SlopeLine(mine, other, place, other_place, differs)
        for (mine, other, *_), place, other_place, differs in zip(known, *places, _apart(known), strict=True)
    ]


def _apart(known: Sequence[tuple[RankedAgent, RankedAgent, float, float]]) -> list[bool]:
    ranges = [(mine.place_range, other.place_range) for mine, other, *_ in known]
    by_places = [one[1] < two[0] or two[1] < one[0] for one, two in ranges]
    if len(known) < 2:
        return by_places
    ability, error = (
        np.array([pick(line) for line in known], dtype=np.float64).reshape(-1, 2).T
        for pick in (
            lambda line: (line[2], line[3]),
            lambda line: [np.nan if end.error is None else end.error for end in line[:2]],
        )
    )
    spread = ability.std(axis=1, keepdims=True)
    if np.isnan(error).all() or (spread == 0).any():
        return by_places
    distance, error = (ability - ability.mean(axis=1, keepdims=True)) / spread, error / spread
    far: list[bool] = (np.abs(distance[0] - distance[1]) > ndtri(0.975) * np.hypot(*error)).tolist()
    return far


def _answers(mine: Verdicts, against: Floats) -> Table:
    """How both judges answered the trials that both plans hold, an arm a row."""
    both = mine.answered & ~np.isnan(against)
    rows = []
    for arm, name in ((PAIRED, "paired"), (1 - PAIRED, "independent")):
        chosen = both & (mine.plan.arm == arm)
        yes, other = mine.hard[chosen] == 1, against[chosen] == 1
        counts = [int(count.sum()) for count in (yes & other, yes & ~other, ~yes & other, ~yes & ~other)]
        differ = 100 * float((yes != other).mean()) if len(yes) else None
        rows.append([name, *(f"{n:,}" for n in (len(yes), *counts)), fixed(differ, 1)])
    heads = ["trials both answered", "yes, yes", "yes, no", "no, yes", "no, no", "differ, %"]
    return two_sided("Answers of both judges", ["arm"], heads, rows)
