"""Compare two runs that ask for preferences, usually by two judges: their rankings, and their answers to the same trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.pipeline.abilities import agent_differences
from youden.pipeline.ranking import estimate_abilities
from youden.pipeline.recommendation import read_recommendation
from youden.stats.base.metrics import Metric
from youden.stats.judges.cell_agreement import krippendorff_alpha
from youden.study.agreement import OrderComparison, describe_recommendations
from youden.study.judge_shifts import correlation
from youden.text.sentences import format_with_interval
from youden.text.tables import Table, format_decimal, make_table
from youden.types import Verdicts
from youden.types.facts import RankingRow
from youden.types.pool import or_none
from youden.types.recommendation import Recommendation


@dataclass(frozen=True)
class PreferenceJudgesStudy:
    """Two rankings of the same agents by preference."""

    runs: tuple[str, str]
    """Names of the runs."""
    correlation: Metric | None
    """Spearman correlation of the abilities; None if those of a run do not vary."""
    orders: OrderComparison
    """Pairs of agents that differ significantly in each run."""
    n_trials: int
    """Number of trials (two responses in one order) that both answered."""
    agreement: float | None
    """Share of these trials in which both prefer the same response or both neither; None without a trial."""
    krippendorff_alpha_graded: float | None
    """Krippendorff's α of the answers; None if it is undefined."""
    agents: Mapping[str, tuple[RankingRow, RankingRow]]
    """Rows of the agents in both rankings, best by the first run first."""
    recommendations: tuple[Recommendation, Recommendation]
    """Recommendation of each run."""

    @property
    def summary(self) -> tuple[str, ...]:
        """Sentences on recommendations, rankings and answers."""
        return tuple(self._describe())

    def _describe(self) -> Iterator[str]:
        """Yield the sentences of `summary`."""
        first, second = self.runs
        yield from describe_recommendations(self.runs, self.recommendations)
        rho = "undefined, because all abilities of a run are equal"
        if self.correlation is not None:
            rho = format_with_interval(self.correlation.value, self.correlation.low, self.correlation.high)
        yield f"{first} and {second} rank {len(self.agents)} agents by preference with ρ = {rho}."
        yield self.orders.describe(self.runs, "items-like-these")
        if self.agreement is None:
            yield "The runs have no trial in common: no pair of responses was answered by both in the same order."
            return
        alpha = "undefined" if self.krippendorff_alpha_graded is None else f"{self.krippendorff_alpha_graded:.2f}"
        yield (
            f"In {self.agreement:.0%} of the {self.n_trials:,} trials that both answered, they prefer the same response or both "
            f"neither; Krippendorff's α is {alpha}."
        )

    def table(self) -> Table:
        """Tabulate the abilities of each agent in both runs with their rank intervals."""
        rows = []
        for agent, ranked in self.agents.items():
            columns = [(format_decimal(row.ability), f"{row.rank_low}–{row.rank_high}") for row in ranked]
            rows.append([agent, *columns[0], *columns[1]])
        heads = [self.runs[0], "ranks", self.runs[1], "ranks"]
        return make_table("Two runs by preference", ["agent"], heads, rows)


def compare_preference_runs(first: RunFolder, second: RunFolder) -> PreferenceJudgesStudy:
    """Compare the rankings and answers of two runs that ask for preferences.

    Parameters
    ----------
    first, second : RunFolder
        Fitted runs.

    Returns
    -------
    PreferenceJudgesStudy
        Spearman's ρ of both rankings, significant differences in each, and the agreement on the same trials.

    Raises
    ------
    RunFolderError
        [compare-preferences]: if the runs have fewer than 3 agents in common; others if a file is missing or damaged.
    """
    folders = first, second
    rankings = [{row.agent: row for row in folder.read_ranking() if row.ability is not None} for folder in folders]
    common = tuple(agent for agent in rankings[0] if agent in rankings[1])
    if len(common) < 3:
        raise RunFolderError(
            f"The runs must have at least 3 agents in common: got {len(common)}. Pass two runs of the same agents.",
            slug="compare-preferences",
        )
    results = [folder.read_verdicts(folder.read_plan()) for folder in folders]
    better = []
    for result in results:
        position = np.array([result.plan.agent_ids.index(agent) for agent in common])
        better.append(agent_differences(estimate_abilities(result)).subset(position).significantly_better)

    answers = pd.concat([_tabulate_answers(result) for result in results], axis=1, join="inner").to_numpy(np.float64)
    is_same = np.sign(answers[:, 0] - 0.5) == np.sign(answers[:, 1] - 0.5)
    abilities = [np.array([ranking[agent].ability for agent in common], dtype=np.float64) for ranking in rankings]
    name_a, name_b = (folder.path.resolve().name for folder in folders)
    names = (name_a, name_b) if name_a != name_b else (f"{name_a} (1)", f"{name_b} (2)")
    return PreferenceJudgesStudy(
        runs=names,
        correlation=correlation(*abilities),
        orders=OrderComparison(better[0], better[1], common),
        n_trials=len(answers),
        agreement=float(is_same.mean()) if len(answers) else None,
        krippendorff_alpha_graded=or_none(krippendorff_alpha(answers.T)),
        agents={agent: (rankings[0][agent], rankings[1][agent]) for agent in common},
        recommendations=(read_recommendation(first), read_recommendation(second)),
    )


def _tabulate_answers(result: Verdicts) -> pd.Series[float]:
    """Return the answers of a run by the ids and responses of a trial; none of a trial without an answer."""
    plan = result.plan
    trials = plan.trials if plan.trials.first_repeat is not None else plan.trials.with_first_repeats()
    columns = trials.columns()
    agents = np.array(plan.agent_ids, dtype=object)
    index = [np.array(plan.item_ids, dtype=object)[plan.item], agents[plan.first], agents[plan.second]]
    index += [columns[name] for name in ("replicate", "first_repeat", "second_repeat")]
    return pd.Series(result.answer, index=pd.MultiIndex.from_arrays(index)).dropna()
