"""Compare two runs that ask for preferences, usually by two judges: their rankings, and their answers to the same trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.pipeline.abilities import agent_differences
from youden.pipeline.ranking import estimate_abilities
from youden.pipeline.recommendation import read_recommendation
from youden.protocol.blocks import check_same_pool
from youden.stats.base.metrics import Metric
from youden.stats.judges.cell_agreement import krippendorff_alpha
from youden.study.agreement import OrderComparison, describe_recommendations
from youden.study.judge_shifts import correlation
from youden.study.judged_runs import format_abilities, read_ranked_agents
from youden.text.sentences import format_with_interval
from youden.text.tables import Table, make_table
from youden.types import Verdicts
from youden.types.facts import RankingRow
from youden.types.pool import Bools, Floats, or_none
from youden.types.recommendation import Recommendation


@dataclass(frozen=True)
class PreferenceJudgesStudy:
    """Two rankings of the same agents by preference."""

    runs: tuple[str, str]
    """Names of the runs; each ends in its number if they are equal."""
    correlation: Metric | None
    """Spearman correlation of the abilities; None if all abilities of a run are equal."""
    orders: OrderComparison
    """Pairs of agents that differ significantly in each run."""
    n_trials: int
    """Number of trials with an answer in both runs. A trial shows two responses in one order."""
    agreement: float | None
    """Fraction of these trials in which both runs prefer the same response, or neither; None if there are no such trials."""
    krippendorff_alpha_graded: float | None
    """Krippendorff's α of the answers to these trials; None if it is undefined."""
    agents: Mapping[str, tuple[RankingRow, RankingRow]]
    """Row of each agent in the first and in the second ranking, in the order of the first ranking, best first."""
    recommendations: tuple[Recommendation, Recommendation]
    """Recommendation of each run."""

    @property
    def summary(self) -> tuple[str, ...]:
        """Sentences on recommendations, rankings and answers, in this order."""
        return tuple(self._describe())

    def _describe(self) -> Iterator[str]:
        """Yield the sentences of `summary`: on the best agents, the correlation of the rankings, and the common trials."""
        yield from describe_recommendations(self.runs, self.recommendations)

        first, second = self.runs
        if self.correlation is None:
            rho = "undefined, because all abilities of a run are equal"
        else:
            rho = format_with_interval(self.correlation.value, self.correlation.low, self.correlation.high)
        yield f"{first} and {second} rank {len(self.agents)} agents by preference with ρ = {rho}."
        yield self.orders.describe(self.runs, "items-like-these")
        yield self._describe_common_trials()

    def _describe_common_trials(self) -> str:
        """Describe how often both judges prefer the same response, in the trials that both answered."""
        if self.agreement is None:
            return "The runs have no trial in common: no pair of responses was judged in both runs in the same order."
        alpha = "undefined"
        if self.krippendorff_alpha_graded is not None:
            alpha = f"{self.krippendorff_alpha_graded:.2f}"
        return (
            f"In {self.agreement:.0%} of the {self.n_trials:,} trials that both answered, they prefer the same response, or "
            f"neither run prefers one. Krippendorff's α is {alpha}."
        )

    def table(self) -> Table:
        """Tabulate the ability and the rank interval of each agent in both runs.

        Returns
        -------
        Table
            One row per agent, in the order of `agents`.
        """
        table_rows = [[agent, *format_abilities(results)] for agent, results in self.agents.items()]
        headings = [self.runs[0], "ranks", self.runs[1], "ranks"]
        return make_table("Two runs by preference", ["agent"], headings, table_rows)


def compare_preference_runs(first: RunFolder, second: RunFolder) -> PreferenceJudgesStudy:
    """Compare the rankings and answers of two runs whose judges say which of two responses is better.

    Only agents with an ability in both runs are compared.

    Parameters
    ----------
    first, second : RunFolder
        Fitted runs of the same agents, usually by different judges.

    Returns
    -------
    PreferenceJudgesStudy
        Spearman's ρ of the abilities, significant differences in each run, and the agreement on the same trials.

    Raises
    ------
    RunFolderError
        [compare-preferences]: if the runs have fewer than 3 agents in common. Errors with other slugs: if a run is not judged to
        its end, if its fit is older than its answers, or if a file is missing or damaged.
    ConfigError
        [judges-pools]: if the runs judged different pools of texts.
    """
    folders = first, second
    rankings = [read_ranked_agents(folder) for folder in folders]
    common = tuple(agent for agent in rankings[0] if agent in rankings[1])
    if len(common) < 3:
        raise RunFolderError(
            f"The runs must have at least 3 agents in common: got {len(common)}. Pass two runs of the same agents.",
            slug="compare-preferences",
        )
    results = [folder.read_verdicts(folder.read_plan()) for folder in folders]
    has_texts = [folder.read_pool().digest is not None for folder in folders]  # False for imported battles
    if all(has_texts):
        check_same_pool([result.plan for result in results], [folder.path.resolve().name for folder in folders])
    significantly_better = [_find_significantly_better(result, common) for result in results]

    # answers to the common trials (n_trials, 2), from 0 to 1; above ½ if the first response is preferred
    answers_by_run = [_index_answers(result) for result in results]
    answers = pd.concat(answers_by_run, axis=1, join="inner").to_numpy(np.float64)
    preference = np.sign(answers - 0.5)
    is_same = preference[:, 0] == preference[:, 1]

    abilities = [_get_abilities(ranking, common) for ranking in rankings]
    names = first.path.resolve().name, second.path.resolve().name
    if names[0] == names[1]:
        names = f"{names[0]} (1)", f"{names[1]} (2)"
    return PreferenceJudgesStudy(
        runs=names,
        correlation=correlation(abilities[0], abilities[1]),
        orders=OrderComparison(significantly_better[0], significantly_better[1], common),
        n_trials=len(answers),
        agreement=float(is_same.mean()) if len(answers) else None,
        krippendorff_alpha_graded=or_none(krippendorff_alpha(answers.T)),
        agents={agent: (rankings[0][agent], rankings[1][agent]) for agent in common},
        recommendations=(read_recommendation(first), read_recommendation(second)),
    )


def _find_significantly_better(result: Verdicts, agents: Sequence[str]) -> Bools:
    """Find the significant differences between some agents of a run, by their ids.

    Returns a bool array (n_agents, n_agents): whether the agent of the row is significantly better than the agent of the column.
    """
    positions = np.array([result.plan.agent_ids.index(agent) for agent in agents])
    differences = agent_differences(estimate_abilities(result))
    return differences.subset(positions).significantly_better


def _get_abilities(ranking: Mapping[str, RankingRow], agents: Sequence[str]) -> Floats:
    """Return the abilities of some agents in a ranking, float array (n_agents,)."""
    return np.array([ranking[agent].ability for agent in agents], dtype=np.float64)


def _index_answers(result: Verdicts) -> pd.Series[float]:
    """Return the answers of a run, with an index that identifies the same trial in other runs of these agents and items.

    The index consists of the ids of the item and of both agents, and of three numbers, which distinguish repeated trials and
    repeated responses. Trials without an answer are left out.
    """
    plan = result.plan
    trials = plan.trials
    if trials.first_repeat is None:  # each agent has one response per item
        trials = trials.with_first_repeats()
    columns = trials.columns()

    item_ids = np.array(plan.item_ids, dtype=object)
    agent_ids = np.array(plan.agent_ids, dtype=object)
    levels = [
        item_ids[plan.item],
        agent_ids[plan.first],
        agent_ids[plan.second],
        columns["replicate"],
        columns["first_repeat"],
        columns["second_repeat"],
    ]
    trial_index = pd.MultiIndex.from_arrays(levels)
    return pd.Series(result.answer, index=trial_index).dropna()
