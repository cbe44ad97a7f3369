"""Compare a run that asks for information with one that asks for preferences: two instruments on the same agents.

An agent that is high on one and low on the other needs a reader: a constant or flattering response can be preferred without
answering its item, and a response can answer its item without being preferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.stats.base.metrics import Metric, spearman
from youden.study.judged_runs import format_abilities, read_ranked_agents
from youden.text.sentences import format_with_interval
from youden.text.tables import Table, make_table
from youden.types.facts import RankingRow

PREFERRED, INFORMATIVE = "preferred only", "informative only"
"""Flags of agents that are significantly above the average agent by one instrument and below it by the other."""
_EXPLANATIONS = {
    PREFERRED: (
        "{} is significantly above the average agent by preference and below it by information: read its responses, which may be "
        "constant, generic or addressed to the judge."
    ),
    INFORMATIVE: (
        "{} is significantly above the average agent by information and below it by preference: its responses belong to their "
        "items, but the judge prefers others."
    ),
}


@dataclass(frozen=True)
class InstrumentRow:
    """Rows of an agent in both rankings, and its flag, which may be empty."""

    information: RankingRow
    preference: RankingRow
    flag: str


@dataclass(frozen=True)
class InstrumentsStudy:
    """Two rankings of the same agents, by information and by preference."""

    runs: tuple[str, str]
    """Names of the run that asks for information and of the run that asks for preferences."""
    level: float
    """Confidence level of all intervals."""
    correlation: Metric
    """Spearman correlation of the abilities."""
    agents: Mapping[str, InstrumentRow]
    """Agents in both rankings, best by preference first."""

    @property
    def summary(self) -> tuple[str, ...]:
        """Sentences on the correlation, and on the agents that are high on one instrument and low on the other."""
        rho = format_with_interval(self.correlation.value, self.correlation.low, self.correlation.high)
        flagged = [_EXPLANATIONS[row.flag].format(agent) for agent, row in self.agents.items() if row.flag]
        none = "No agent is significantly above the average agent by one instrument and below it by the other."
        return (f"Information and preference rank {len(self.agents)} agents with ρ = {rho}.", *(flagged or [none]))

    def table(self) -> Table:
        """Tabulate both abilities of each agent with their rank intervals, and its flag.

        One ability is from the run that asks for information, the other from the run that asks for preferences. An agent has a
        flag if one of its abilities is significantly above the average, and the other ability is significantly below it.
        """
        rows = [
            [agent, *format_abilities([row.information, row.preference]), row.flag or "–"]
            for agent, row in self.agents.items()
        ]
        headings = ["information", "ranks", "preference", "ranks", "flag"]
        return make_table("Two instruments", ["agent"], headings, rows)


def compare_instruments(first: RunFolder, second: RunFolder) -> InstrumentsStudy:
    """Compare the rankings of two instruments: a run that asks a judge for information, and a run that asks it for preferences.

    An agent gets a flag if it is significantly above the average agent in one ranking, and below it in the other.

    Parameters
    ----------
    first, second : RunFolder
        Fitted runs, in any order.

    Returns
    -------
    InstrumentsStudy
        Spearman's ρ of the two rankings, and the two abilities and the flag of each agent that is in both runs.

    Raises
    ------
    RunFolderError
        [compare-preferences]: if both runs ask the same question, or have fewer than 3 agents in common. Other slugs if a file is
        missing or damaged.
    """
    information, preference = (second, first) if first.asks_preference else (first, second)
    by_information, by_preference = read_ranked_agents(information), read_ranked_agents(preference)
    common = [agent for agent in by_preference if agent in by_information]
    _check_comparable(first, second, n_common=len(common))

    # flag by the signs (by information, by preference) of the two significant differences from the average agent
    flag_by_signs = {(-1, 1): PREFERRED, (1, -1): INFORMATIVE}
    sign_by_information = _compare_with_average(by_information)
    sign_by_preference = _compare_with_average(by_preference)
    agents = {}
    for agent in common:
        signs = (sign_by_information[agent], sign_by_preference[agent])
        flag = flag_by_signs.get(signs, "")
        agents[agent] = InstrumentRow(by_information[agent], by_preference[agent], flag)

    information_ability = np.array([by_information[agent].ability for agent in common])
    preference_ability = np.array([by_preference[agent].ability for agent in common])
    correlation = spearman(information_ability, preference_ability)
    names = information.path.resolve().name, preference.path.resolve().name
    return InstrumentsStudy(names, preference.read_facts().level, correlation, agents)


def _check_comparable(first: RunFolder, second: RunFolder, *, n_common: int) -> None:
    """Check that two runs ask different questions and have at least 3 agents in common.

    n_common : number of agents with an ability in both runs

    Raises RunFolderError [compare-preferences].
    """
    if first.asks_preference == second.asks_preference:
        question = "preference" if first.asks_preference else "information"
        raise RunFolderError(
            f"The runs must ask different questions: got `question: {question}` for both. Pass one run of each question.",
            slug="compare-preferences",
        )
    if n_common < 3:
        raise RunFolderError(
            f"The runs must have at least 3 agents in common: got {n_common}. Pass two runs of the same agents.",
            slug="compare-preferences",
        )


def _compare_with_average(ranking: Mapping[str, RankingRow]) -> dict[str, int]:
    """Compare each agent with the average agent: 1 if it is significantly better, −1 if it is significantly worse, else 0.

    ranking : row of the ranking by agent
    """
    average = np.mean([row.ability for row in ranking.values() if row.ability is not None])
    signs = {}
    for agent, row in ranking.items():
        is_better = row.low is not None and row.low > average
        is_worse = row.high is not None and row.high < average
        signs[agent] = int(is_better) - int(is_worse)
    return signs
