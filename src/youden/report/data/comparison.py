"""Compare two runs: the agreement of their rankings, and the trials on which their judges differ.

Neither run is treated as the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError, StatisticsError
from youden.protocol.blocks import are_of_one_pool
from youden.protocol.independent import match_trials
from youden.report.data.evidence import Sources, read_result
from youden.report.data.opened_trials import TrialSample, find_calling_judge
from youden.report.data.ranking_tables import RankedAgent
from youden.report.data.summary import Summary
from youden.report.data.trial_rows import TrialBook
from youden.stats.base.metrics import spearman
from youden.stats.trials.comparisons import rank_with_ties
from youden.streams import standalone_stream
from youden.study.agreement import JudgesStudy, describe_recommendations
from youden.study.judge_shifts import correlation
from youden.study.judged_runs import AlignedRuns, read_judged_run
from youden.text.tables import Table, format_decimal, make_table
from youden.types import INDEPENDENT, PAIRED, Verdicts
from youden.types.label_facts import QualityFacts
from youden.types.pool import Bools, Floats


class SlopeLine(NamedTuple):
    """Agent in two rankings."""

    first: RankedAgent
    """The agent in the first ranking."""
    second: RankedAgent
    """The agent in the second ranking."""
    first_rank: int
    """Rank in the first ranking, among the agents in both."""
    second_rank: int
    """Rank in the second ranking, among the agents in both."""
    differs: bool
    """Whether its standardized distance from the average agent differs significantly between the rankings."""


class Comparison:
    """Comparison of two runs on the agents and trials that both have.

    Attributes
    ----------
    first, second : Summary
        Summaries of both runs.
    lines : list of SlopeLine
        Agents in both rankings, in the order of the first.
    correlation : Metric or None
        Spearman correlation of the abilities; None for fewer than 3 agents or equal abilities.
    agent_ids, item_ids : tuple of str
        Ids of the first run, by position.
    answers : Table or None
        Answers of both judges to common trials; None if a run was imported, or if the runs judged different pools.
    trials : TrialSample or None
        Trials of the first run, with the answers of both judges; None if `answers` is None.
    answer : tuple of str
        What the recommendations of both runs have in common, and each recommendation.
    summary : tuple of str
        Sentences that state how the judges, and qualities estimated from labels, agree.
    """

    def __init__(self, first: RunFolder, second: RunFolder, *, seed: int = 0) -> None:
        """Compare two fitted runs.

        Parameters
        ----------
        first, second : RunFolder
            Folders of the runs.
        seed : int, default 0
            Seed of the sample of trials.

        Raises
        ------
        RunFolderError
            [compare-nothing]: if the runs rank no agent in common; other slugs if a file is missing or damaged.
        """
        self.first, self.second = Summary(first), Summary(second)
        self.lines = _match_agents(self.first.ranking, self.second.ranking)
        if not self.lines:
            raise RunFolderError(
                f"{first.path} and {second.path} rank no agent in common. Compare runs on the same agents.",
                slug="compare-nothing",
            )
        abilities = np.array([[line.first.ability, line.second.ability] for line in self.lines], dtype=np.float64).T
        is_comparable = len(self.lines) > 2 and bool((np.ptp(abilities, axis=1) > 0).all())
        self.correlation = spearman(abilities[0], abilities[1]) if is_comparable else None

        pool = first.read_pool()
        self.agent_ids, self.item_ids = pool.agent_ids, pool.item_ids
        self.answers: Table | None = None
        self.trials: TrialSample | None = None
        first_result, second_result = read_result(first), read_result(second)
        if (
            first_result is not None
            and second_result is not None
            and are_of_one_pool([first_result.plan, second_result.plan])
        ):
            against = match_answers(first_result, second_result)
            sources = Sources(first, find_calling_judge(first_result))
            self.trials = TrialSample(TrialBook(first_result, against), sources, rng=standalone_stream(seed))
            self.answers = _tabulate_answers(first_result, against)

        self.answer, agreement = self._describe_agreement(first, second)
        quality = compare_quality([(self.first.name, first), (self.second.name, second)])
        self.summary = (*agreement, *quality)

    def _describe_agreement(self, first: RunFolder, second: RunFolder) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Describe what both runs recommend, and how well their judges agree.

        Returns two tuples of sentences: the recommendations, and the agreement. If the agreement cannot be measured, the second
        tuple contains the reason.
        """
        try:
            aligned = AlignedRuns([read_judged_run(first), read_judged_run(second)])
            study = JudgesStudy(aligned)
        except (ConfigError, StatisticsError) as error:
            names = (self.first.name, self.second.name)
            recommendations = (self.first.recommendation, self.second.recommendation)
            return tuple(describe_recommendations(names, recommendations)), (error.message,)

        # the summary has the sentences on recommendations first, which `answer` contains too, and then those on agreement
        sentences = tuple(study.summary)
        n_recommendations = len(study.answer)
        return sentences[:n_recommendations], sentences[n_recommendations:]


class _RunQuality(NamedTuple):
    """Name of a run, with the qualities (estimated from labels) and the abilities of its agents."""

    name: str
    facts: QualityFacts
    abilities: Mapping[str, float | None]

    @property
    def qualities(self) -> Mapping[str, float | None]:
        return {row.agent: row.quality for row in self.facts.agents}


def compare_quality(runs: Sequence[tuple[str, RunFolder]]) -> Iterator[str]:
    """Compare the qualities of agents (their expected labels, estimated from labels) for each pair of runs.

    Parameters
    ----------
    runs : sequence of (str, RunFolder)
        Names and folders of runs. Runs without a quality.json of their present ranking are skipped.

    Yields
    ------
    str
        One sentence per pair of runs: the correlations of qualities and of abilities, and the best agents.
    """
    estimates = []
    for name, folder in runs:
        facts = folder.find_quality()
        if facts is not None:
            abilities = {row.agent: row.ability for row in folder.read_ranking()}
            estimates.append(_RunQuality(name, facts, abilities))
    for first, second in combinations(estimates, 2):
        yield _describe_qualities(first, second)


def _describe_qualities(first: _RunQuality, second: _RunQuality) -> str:
    """Describe how much two runs agree on the qualities of their agents.

    The quality of an agent is its expected label, such as its mean grade by people, and is estimated from labels of some
    responses. The ability is estimated without labels.

    first, second : qualities and abilities of the agents of each run

    Returns a sentence with two rank correlations between the runs, and a sentence with the best agents of each run.
    """
    shared_agents = [agent for agent in first.abilities if agent in second.abilities]
    quality_rho = _format_correlation(first.qualities, second.qualities, shared_agents)
    ability_rho = _format_correlation(first.abilities, second.abilities, shared_agents)

    # the abilities are in the order of a ranking, best agent first
    first_best_ability = next(iter(first.abilities))
    second_best_ability = next(iter(second.abilities))
    return (
        f"Quality, estimated from labels, of {len(shared_agents)} agents in both: ρ = {quality_rho}, by ability "
        f"{ability_rho}. Best by quality in {first.name}: {first.facts.best} (by ability {first_best_ability}); in "
        f"{second.name}: {second.facts.best} (by ability {second_best_ability})."
    )


def _format_correlation(a: Mapping[str, float | None], b: Mapping[str, float | None], agents: Sequence[str]) -> str:
    """Format Spearman's ρ of two values of these agents, "–" if it cannot be computed."""
    values_a = np.array([a[agent] for agent in agents], dtype=np.float64)
    values_b = np.array([b[agent] for agent in agents], dtype=np.float64)
    rho = correlation(values_a, values_b)
    return "–" if rho is None else f"{rho.value:.2f}"


def match_answers(result: Verdicts, other_result: Verdicts) -> Floats:
    """Find the answers of another judge to the trials of a run.

    Parameters
    ----------
    result : Verdicts
        Answers of the run, with N trials.
    other_result : Verdicts
        Answers of the other judge.

    Returns
    -------
    float array (n_trials,)
        The other judge's answer as a decision, 0 or 1, to each trial of `result`; NaN if it has none.
    """
    row = match_trials(result.plan, other_result.plan)
    is_common = row >= 0
    answers = np.full(len(result), np.nan)
    answers[is_common] = other_result.hard_answer[row[is_common]]
    return answers


def _match_agents(first: Sequence[RankedAgent], second: Sequence[RankedAgent]) -> list[SlopeLine]:
    """Match the agents that have an ability in both rankings, and test whether each agent differs between the rankings.

    Returns the rows and ranks of each agent for a slope chart, in the order of the first ranking. Ranks are among these agents.
    """
    second_by_id = {row.agent: row for row in second if row.ability is not None}
    first_rows = [row for row in first if row.ability is not None and row.agent in second_by_id]
    second_rows = [second_by_id[row.agent] for row in first_rows]

    first_ability = np.array([row.ability for row in first_rows], dtype=np.float64)
    second_ability = np.array([row.ability for row in second_rows], dtype=np.float64)
    first_ranks = rank_with_ties(first_ability).tolist()
    second_ranks = rank_with_ties(second_ability).tolist()

    pairs = list(zip(first_rows, second_rows, strict=True))
    is_different = _test_changes(pairs, np.stack([first_ability, second_ability]))
    return list(map(SlopeLine, first_rows, second_rows, first_ranks, second_ranks, is_different))


def _test_changes(pairs: Sequence[tuple[RankedAgent, RankedAgent]], ability: Floats) -> list[bool]:
    """Test for each agent whether its distance from the average agent differs significantly between two rankings.

    If all standard errors are unknown, or if all abilities of a ranking are equal, distances cannot be compared. An agent then
    differs if its rank intervals in the two rankings do not overlap.

    pairs : row of each agent in the first and in the second ranking
    ability : float array (2, n_agents), abilities of the agents in both rankings

    Returns one bool per agent.
    """
    has_disjoint_ranks = [_has_disjoint_ranks(first, second) for first, second in pairs]
    if len(pairs) < 2:
        return has_disjoint_ranks

    std_errors_of_pairs = [(first.std_error, second.std_error) for first, second in pairs]
    std_error = np.array(std_errors_of_pairs, dtype=np.float64).T  # (2, n_agents)
    has_equal_abilities = (ability.std(axis=1) == 0).any()
    if np.isnan(std_error).all() or has_equal_abilities:
        return has_disjoint_ranks
    is_different: list[bool] = _test_distances(ability, std_error).tolist()
    return is_different


def _test_distances(ability: Floats, std_error: Floats) -> Bools:
    """Test whether the standardized distance of each agent from the average agent differs between two rankings.

    The distances are in units of the standard deviation of the abilities in each ranking, so that rankings on different scales
    can be compared. The test is two-sided, at the level of 5%.

    ability, std_error : float arrays (2, n_agents), abilities in both rankings, and their standard errors

    Returns a bool array (n_agents,), False for an agent with an unknown standard error.
    """
    # |z_1 − z_2| > z_.975 · √(SE_1² + SE_2²), with z = (θ − mean θ) / SD(θ) and SE in the same unit
    sd = ability.std(axis=1, keepdims=True)
    first_distance, second_distance = (ability - ability.mean(axis=1, keepdims=True)) / sd
    first_error, second_error = std_error / sd
    half_width = ndtri(0.975) * np.hypot(first_error, second_error)
    return np.asarray(np.abs(first_distance - second_distance) > half_width)


def _has_disjoint_ranks(first: RankedAgent, second: RankedAgent) -> bool:
    """Return whether the rank intervals of an agent in two rankings do not overlap."""
    first_low, first_high = first.rank_interval
    second_low, second_high = second.rank_interval
    return first_high < second_low or second_high < first_low


def _count_answers(first: Floats, second: Floats) -> list[int]:
    """Count the combinations of answers of two judges: yes and yes, yes and no, no and yes, no and no.

    first, second : float arrays (n_trials,), answers of the judges to the same trials, 1 for yes and 0 for no
    """
    combination = 2 * (first != 1) + (second != 1)
    counts: list[int] = np.bincount(combination, minlength=4).tolist()
    return counts


def _tabulate_answers(result: Verdicts, other_decision: Floats) -> Table:
    """Tabulate how often two judges gave each combination of answers, one row per trial type.

    The last column is the percentage of trials with different answers.

    result : answers of the first judge
    other_decision : float array (n_trials,), answer of the second judge to each of its trials: 0 or 1, NaN if it has none
    """
    is_common = result.answered & ~np.isnan(other_decision)
    rows = []
    for trial_type, name in ((PAIRED, "paired"), (INDEPENDENT, "independent")):
        is_used = is_common & (result.plan.trial_type == trial_type)
        counts = _count_answers(result.hard_answer[is_used], other_decision[is_used])
        n_common = sum(counts)
        _n_yes_yes, n_yes_no, n_no_yes, _n_no_no = counts
        n_different = n_yes_no + n_no_yes
        percent_different = 100 * (n_different / n_common) if n_common else None
        formatted_counts = [f"{count:,}" for count in (n_common, *counts)]
        rows.append([name, *formatted_counts, format_decimal(percent_different, 1)])
    headings = ["answered by both", "yes, yes", "yes, no", "no, yes", "no, no", "differ, %"]
    return make_table("Answers of both judges", ["trial type"], headings, rows)
