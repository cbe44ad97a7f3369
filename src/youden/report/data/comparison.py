"""Two runs side by side: whether their rankings agree, and on which trials their judges do not.

Neither run is taken to be right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtri

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError, StatisticsError
from youden.protocol.independent import same_trials
from youden.report.data.evidence import open_texts, read_result
from youden.report.data.opened_trials import find_sources, judge_of_calls, sample_trials
from youden.report.data.ranking_tables import RankedAgent, current_quality
from youden.report.data.report import TrialFacts
from youden.report.data.summary import Summary, summarise_run
from youden.report.data.trial_rows import TrialBook
from youden.stats.base.metrics import Metric, spearman
from youden.stats.trials.comparisons import tied_places
from youden.streams import own_stream
from youden.study.agreement import study_judges
from youden.study.judge_shifts import correlation
from youden.study.judged_runs import read_judged, side_by_side
from youden.text.tables import Table, fixed, two_sided
from youden.types import PAIRED, Verdicts
from youden.types.pool import Floats


@dataclass(frozen=True)
class SlopeLine:
    """One agent in both rankings. one, two: its places among the shared agents.

    apart: whether its distance from the average shared agent, in SDs of either ranking, differs by more than its own error; by
    places that do not overlap where neither ranking has errors.
    """

    agent: str
    group: str | None
    one: int
    two: int
    places_one: str
    places_two: str
    ability_one: float
    ability_two: float
    apart: bool


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two fitted runs. correlation: Spearman of abilities, None below 3 shared agents or where all are equal; trials: the first
    run's with the second judge's answers; answers: how both judges answered them; both None where a run was imported; words: what
    `youden compare` says of both."""

    one: Summary
    two: Summary
    lines: tuple[SlopeLine, ...]
    correlation: Metric | None
    answers: Table | None
    trials: TrialFacts | None
    words: tuple[str, ...]
    agent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]


def compare_runs(one: RunFolder, two: RunFolder, *, seed: int = 0) -> Comparison:
    """Compare two fitted runs. seed: of the sample of trials.

    Raises: RunFolderError where a file is missing, and [compare-nothing] where no agent is in both.
    """
    heads = summarise_run(one), summarise_run(two)
    lines = _lines(*heads)
    if not lines:
        raise RunFolderError(
            f"{one.path} and {two.path} rank no agent in common. Compare runs on the same agents.",
            slug="compare-nothing",
        )
    abilities = np.array([[line.ability_one, line.ability_two] for line in lines]).T
    comparable = len(lines) > 2 and bool((np.ptp(abilities, axis=1) > 0).all())
    mine, theirs, pool = read_result(one), read_result(two), one.read_pool()
    answers, trials = None, None
    if mine is not None and theirs is not None:
        against = other_answers(mine, theirs)
        book = TrialBook(mine, against)
        sources = find_sources(one, open_texts(one), judge_of_calls(mine))
        trials = TrialFacts(sample_trials(book, sources, rng=own_stream(seed)), book.n_of_kind, sources.prompt)
        answers = _answers(mine, against)
    return Comparison(
        one=heads[0],
        two=heads[1],
        lines=lines,
        correlation=spearman(abilities[0], abilities[1]) if comparable else None,
        answers=answers,
        trials=trials,
        words=(*_words(one, two), *quality_compared([(heads[0].name, one), (heads[1].name, two)])),
        agent_ids=pool.agent_ids,
        item_ids=pool.item_ids,
    )


def _words(one: RunFolder, two: RunFolder) -> tuple[str, ...]:
    try:
        both = side_by_side([read_judged(one), read_judged(two)])
        return study_judges(both).words
    except (ConfigError, StatisticsError) as error:
        return (error.message,)


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


def _lines(one: Summary, two: Summary) -> tuple[SlopeLine, ...]:
    others = {agent.agent: agent for agent in two.ranking}
    shared = [
        (mine, others[mine.agent], mine.ability, others[mine.agent].ability)
        for mine in one.ranking
        if mine.agent in others
    ]
    known = [(mine, other, a, b) for mine, other, a, b in shared if a is not None and b is not None]
    places = _places([a for _, _, a, _ in known]), _places([b for _, _, _, b in known])
    apart = _apart(known)
    return tuple(
        SlopeLine(
            agent=mine.agent,
            group=mine.group,
            one=place,
            two=other_place,
            places_one=mine.places,
            places_two=other.places,
            ability_one=a,
            ability_two=b,
            apart=differs,
        )
        for (mine, other, a, b), place, other_place, differs in zip(known, *places, apart, strict=True)
    )


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


def _places(abilities: Sequence[float]) -> list[int]:
    places: list[int] = tied_places(np.array(abilities, dtype=np.float64)).tolist()
    return places


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
