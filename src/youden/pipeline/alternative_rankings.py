"""Rank agents again with weighted partners: robust to collusion, balanced over families, or scored by a trusted panel.

The partners of an agent are the agents that it is compared with. For an alternative ranking, all answers are fitted
twice by an additive model, with weighted partners and with equal weights, and the plain abilities are shifted by the
difference. With equal weights, it is therefore the plain ranking, whatever estimator made that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from youden.engines.trial_blocks import RateChunk, TrialsByItem
from youden.errors import StatisticsError
from youden.pipeline.abilities import Abilities, agent_differences, build_ranking_table
from youden.stats.base.clusters import CentredCovariance
from youden.stats.base.pair_chunks import ChunkSource, PairChunk
from youden.stats.flagged_groups import FlaggedGroups, flag_groups
from youden.stats.partners import (
    PairTotals,
    PartnerWeights,
    fit_weighted_abilities,
    group_balanced_weights,
    panel_weights,
    uniform_weights,
)
from youden.stats.trials.comparisons import Differences, rank_with_ties
from youden.text.sentences import format_count
from youden.types import Finding
from youden.types.facts import (
    ALTERNATIVE_COLUMNS,
    AlternativeRanking,
    AlternativeRankingFacts,
    PartnerRules,
    RankChange,
)
from youden.types.pool import Ids, Positions
from youden.types.recommendation import MIN_AGENTS_FOR_COPYING, explain_few_agents

if TYPE_CHECKING:
    import pandas as pd

MAX_NAMED_MOVES = 5
"""Maximum number of agents that a sentence names."""
MIN_RANK_DROP = 2
"""Minimum drop in ranks that is reported of a leader if no agent that overtakes it differs significantly."""
TITLES: Mapping[AlternativeRanking, str] = {
    "robust": "robust",
    "family": "family-balanced",
    "trusted": "trusted panel's",
}


def list_alternative_ranking_findings(
    rankings: Mapping[AlternativeRanking, AlternativeRankingFacts], *, n_agents: int
) -> list[Finding]:
    """List the findings (messages to the user) about alternative rankings.

    An alternative ranking scores agents by another rule than the plain ranking, for example robustly. There is one finding for
    each

    - group of agents that agree suspiciously often;
    - ranking that could not be made;
    - ranking in which the leader of the plain ranking falls.

    If the run has too few agents for the robust ranking, the only finding about this ranking states that.

    rankings : facts of each alternative ranking, by its name
    n_agents : number of agents of the run
    """
    findings = []
    for name, facts in rankings.items():
        if name == "robust" and n_agents < MIN_AGENTS_FOR_COPYING:
            findings.append(Finding("few-agents", explain_few_agents(n_agents), facts={"n": n_agents}))
            continue
        if name == "robust":
            findings += [_make_flagged_group_finding(group) for group in facts.groups]
        if facts.message:
            message = f"The {TITLES[name]} ranking could not be made: {facts.message}"
            findings.append(Finding("no-standing", message, facts={"ranking": name}))
        if facts.leader_change:
            findings.append(
                Finding("leader", facts.leader_change, agents=facts.leader_change_agents, facts={"ranking": name})
            )
    return findings


def _make_flagged_group_finding(group: tuple[str, ...]) -> Finding:
    """Return the finding about a flagged group: agents with similar texts, or that agree suspiciously often.

    group : ids of the agents
    """
    message = (
        f"{', '.join(group)} have similar texts, or agree more than any honest group on record. Therefore, in the "
        "robust ranking, they count as one partner and do not score each other."
    )
    return Finding("pairs", message, agents=group)


def describe_alternative_ranking(name: AlternativeRanking, facts: AlternativeRankingFacts, *, is_main: bool) -> str:
    """Describe in one sentence how an alternative ranking differs from the plain one.

    Parameters
    ----------
    name : {"robust", "family", "trusted"}
        Name of the alternative ranking.
    facts : AlternativeRankingFacts
        Facts about it. The ranking must have been made (`facts.message` is empty), which is not checked.
    is_main : bool
        Whether it is the main ranking of the run; the sentence then states this.

    Returns
    -------
    str
        For example, "In the robust ranking, 2 agents have another rank: a 1 → 3, b 2 → 1." Plain and new ranks are listed for at
        most five agents, those with the largest changes; the others are counted. If no rank changes, the sentence states that.
    """
    beginning = f"In the {TITLES[name]} ranking"
    if is_main:
        beginning += ", the main one of this run"
    n_changes = len(facts.rank_changes)
    if n_changes == 0:
        return f"{beginning}, no agent changes its rank."

    displayed = facts.rank_changes[:MAX_NAMED_MOVES]
    changes = ", ".join(f"{change.agent} {change.plain} → {change.rank}" for change in displayed)
    if n_changes > len(displayed):
        changes += f" and {n_changes - len(displayed)} more"
    return f"{beginning}, {format_count(n_changes, 'agent', 'has', 'have')} another rank: {changes}."


def _describe_leader_change(
    name: AlternativeRanking, plain: Differences, alternative: Differences, agent_ids: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """Describe why the leader of the plain ranking does worse in an alternative ranking.

    There are two cases:

    - Other agents are now better than the leader, and chance is an unlikely reason (`_is_fall_notable`).
    - The leader was significantly better than all other agents, and no longer is.

    name : name of the alternative ranking
    plain, alternative : pairwise differences of the abilities of the two rankings
    agent_ids : ids of the agents, by position

    Returns a sentence and the ids of the agents that it names. If neither case applies, the sentence is empty.
    """
    # the leader of the plain ranking is the agent that is better than the most other agents
    n_worse = np.nansum(plain.value > 0, axis=1)
    leader = int(np.argmax(n_worse))
    leader_id = agent_ids[leader]

    new_better_agents = np.flatnonzero(alternative.value[:, leader] > 0)
    if _is_fall_notable(leader, new_better_agents, plain, alternative):
        named_ids = tuple(agent_ids[agent] for agent in new_better_agents[:MAX_NAMED_MOVES])
        text = (
            f"The leader {leader_id} falls to rank {len(new_better_agents) + 1} in the {TITLES[name]} ranking, behind "
            f"{', '.join(named_ids)}: its first rank depends on the other agents in the pool."
        )
        return text, (leader_id, *named_ids)

    if plain.unique_best == leader and alternative.unique_best != leader:
        text = (
            f"The leader {leader_id} is significantly better than all others in the plain ranking, but not in the "
            f"{TITLES[name]} ranking: part of its lead depends on the other agents in the pool."
        )
        return text, (leader_id,)
    return "", ()


def _is_fall_notable(leader: int, better_agents: Positions, plain: Differences, alternative: Differences) -> bool:
    """Return whether the fall of the leader in an alternative ranking deserves a message.

    It does if the leader falls by at least `MIN_RANK_DROP` ranks, or if the leader and an agent that is now better differ
    significantly in one of the two rankings. Other changes of the first rank may be due to chance.

    leader : position of the leader of the plain ranking
    better_agents : int array, positions of the agents that are better than the leader in the alternative ranking
    plain, alternative : pairwise differences of the abilities of the two rankings
    """
    if len(better_agents) >= MIN_RANK_DROP:
        return True

    # rows of `significantly_better` are the better agents, columns the worse ones
    was_significantly_worse = plain.significantly_better[leader, better_agents]
    is_significantly_better = alternative.significantly_better[better_agents, leader]
    return bool(was_significantly_worse.any() or is_significantly_better.any())


class WeightedRanking:
    """An alternative ranking by weighted partners, and the changes of rank against the plain ranking.

    If the ranking cannot be made, `abilities` and their pairwise `differences` are None, and `error` is the reason.
    """

    def __init__(
        self,
        name: AlternativeRanking,
        groups: tuple[tuple[str, ...], ...],
        make_partners: Callable[[], PartnerWeights],
        *,
        answers: PairedAnswers,
        plain: Abilities,
        plain_differences: Differences,
        agent_ids: Sequence[str],
    ) -> None:
        """Rank by weighted partners.

        `groups` holds the ids of the agents that are weighted together: flagged agents, families, or the panel.
        `make_partners` returns the weights. A StatisticsError that it raises becomes `error`.

        plain, plain_differences : abilities of the plain ranking and their pairwise differences
        """
        self.name = name
        self.abilities: Abilities | None = None
        self.differences: Differences | None = None
        self.error: StatisticsError | None = None
        try:
            abilities = reweight_abilities(answers, plain, make_partners())
        except StatisticsError as error:
            self.facts = AlternativeRankingFacts(groups, None, 0, (), message=str(error))
            self.error = error.with_traceback(None)
            return

        differences = plain_differences if abilities is plain else agent_differences(abilities)
        best = None if differences.unique_best is None else agent_ids[differences.unique_best]
        leader_change, leader_change_agents = _describe_leader_change(name, plain_differences, differences, agent_ids)

        self.abilities, self.differences = abilities, differences
        self.facts = AlternativeRankingFacts(
            groups,
            best,
            int(differences.significantly_better.sum()),
            _list_rank_changes(plain, abilities, agent_ids),
            leader_change,
            leader_change_agents,
        )


def _list_rank_changes(plain: Abilities, alternative: Abilities, agent_ids: Sequence[str]) -> tuple[RankChange, ...]:
    """List the agents whose rank differs between two rankings, with both ranks, the largest difference first.

    plain, alternative : abilities of the two rankings
    agent_ids : ids of the agents, in the order of the abilities
    """
    plain_rank = rank_with_ties(plain.ability)
    new_rank = rank_with_ties(alternative.ability)
    difference = np.abs(new_rank - plain_rank)
    largest_first = np.argsort(-difference, kind="stable").tolist()
    changed_agents = [agent for agent in largest_first if difference[agent] > 0]
    return tuple(RankChange(agent_ids[agent], int(plain_rank[agent]), int(new_rank[agent])) for agent in changed_agents)


def find_flagged_groups(
    totals: PairTotals, agent_ids: Sequence[str], *, clones: Sequence[Sequence[str]] = ()
) -> FlaggedGroups:
    """Find groups of agents whose responses agree suspiciously often.

    A group is flagged if it agrees more than every group of the same size in recorded data sets of independent agents. With
    fewer than 8 agents, or no more compared pairs than agents, only `clones` are flagged.

    Parameters
    ----------
    totals : PairTotals
        Sums of the answers of each pair of agents.
    agent_ids : sequence of str
        Ids of the agents, by position.
    clones : sequence of sequence of str, default ()
        Groups of agents that are known to be copies of each other. They are flagged whatever their answers are. Ids that are
        not in `agent_ids` are ignored.

    Returns
    -------
    FlaggedGroups
        `flagged`, bool array (n_agents, n_agents): whether two agents are in one flagged group. `cluster`, int32 array
        (n_agents,): position of the first agent in the cluster of each agent; flagged pairs connect the agents of a cluster, and
        any other agent is alone in its cluster. `undecided`: groups of agents, by position, that agree as much, but have too few
        answers to be flagged.
    """
    is_clone_pair = np.zeros((len(agent_ids), len(agent_ids)), dtype=np.bool_)
    position_by_agent = {agent: position for position, agent in enumerate(agent_ids)}
    for group in clones:
        members = [position_by_agent[agent] for agent in group if agent in position_by_agent]
        is_clone_pair[np.ix_(members, members)] = True
    return flag_groups(totals, prior_flags=is_clone_pair)


def check_partner_rules(rules: PartnerRules, agent_ids: Sequence[str]) -> None:
    """Check that the settings of the alternative rankings fit the agents of a run.

    Parameters
    ----------
    rules : PartnerRules
        Families of the agents, ids of the trusted panel, and name of the main ranking of the run.
    agent_ids : sequence of str
        Ids of the agents of the run.

    Raises
    ------
    StatisticsError
        [robust-few-agents]: if the run has fewer than 8 agents and its main ranking is the robust one; [families-unknown],
        [trusted-unknown]: if the rules name an agent that is not in the run; [panel-small]: if the panel has fewer than 2 agents;
        [one-family]: if all agents belong to one family.
    """
    if rules.ranked_by == "robust":
        _check_enough_agents(len(agent_ids))
    _check_agents_exist("families", rules.families, agent_ids)
    _check_agents_exist("trusted", rules.trusted, agent_ids)

    n_trusted = len(set(rules.trusted))
    needs_panel = rules.ranked_by == "trusted"
    if n_trusted == 1 or (needs_panel and n_trusted == 0):
        raise StatisticsError(
            f"A trusted panel needs at least 2 agents, which score each other: got {n_trusted}. Set trusted to 2 "
            "agents or more.",
            slug="panel-small",
        )

    n_families = len(np.unique(label_families(rules.families, agent_ids)))
    if rules.families and n_families < 2:
        (family,) = set(rules.families.values())
        raise StatisticsError(
            f"All {len(agent_ids)} agents belong to one family, so no other family can score them: got {family!r}. Set two "
            "families or more, or remove families.",
            slug="one-family",
        )


def label_families(families: Mapping[str, str], agent_ids: Sequence[str]) -> Ids:
    """Assign a number to the model family of each agent.

    Parameters
    ----------
    families : mapping of str to str
        Family of each agent id; an agent without an entry is the only one of its family.
    agent_ids : sequence of str
        Ids of the agents, by position.

    Returns
    -------
    int32 array (n_agents,)
        Number of each agent's family, from 0 in order of first appearance.
    """
    # a family may have the name of an agent, so each name is stored with its kind
    number_by_family: dict[tuple[str, str], int] = {}
    numbers = []
    for agent in agent_ids:
        family = ("family", families[agent]) if agent in families else ("agent", agent)
        number = number_by_family.setdefault(family, len(number_by_family))
        numbers.append(number)
    return np.array(numbers, dtype=np.int32)


def _check_enough_agents(n_agents: int) -> None:
    """Raise StatisticsError [robust-few-agents] if a robust ranking has too few agents."""
    if n_agents < MIN_AGENTS_FOR_COPYING:
        raise StatisticsError(
            f"A robust ranking needs at least {MIN_AGENTS_FOR_COPYING} agents: got {n_agents}. With fewer, copying cannot be "
            "distinguished from agreement. Add agents, or use the plain ranking.",
            slug="robust-few-agents",
        )


def _check_agents_exist(field: str, agents: Iterable[str], agent_ids: Sequence[str]) -> None:
    """Raise StatisticsError [families-unknown] or [trusted-unknown] if a rule names an unknown agent."""
    if unknown := [agent for agent in agents if agent not in set(agent_ids)]:
        raise StatisticsError(
            f"{field} names agents that are not in this run: got {', '.join(unknown[:5])}. Set agents of this run: "
            f"{', '.join(agent_ids[:10])}{' …' if len(agent_ids) > 10 else ''}.",
            slug=f"{field}-unknown",
        )


class PairedAnswers(NamedTuple):
    """Answers of a run to its paired trials, and their sums by pair of agents.

    Attributes
    ----------
    iter_chunks : callable
        Function without arguments that returns the answers in chunks of items (`PairChunk`).
    totals : PairTotals
        Sums of the answers.
    totals_with_follow_ups : PairTotals or None
        Sums that include the follow-up trials; None if there are none.
    """

    iter_chunks: ChunkSource
    totals: PairTotals
    totals_with_follow_ups: PairTotals | None = None

    @classmethod
    def from_trials(cls, trials: TrialsByItem, totals: PairTotals | None = None) -> PairedAnswers:
        """Sum the answers to the paired trials of a run for each pair of agents.

        A paired trial compares responses of two agents to the same item. Follow-up trials are additional paired trials that
        serve only to find agents that copy from each other. Sums are computed with and without them.

        Parameters
        ----------
        trials : TrialsByItem
            Trials of the run.
        totals : PairTotals, optional
            Sums without follow-up trials. They are computed by default.

        Returns
        -------
        PairedAnswers
            The answers in chunks, and their sums by pair of agents. The chunks contain no follow-up trials and no held-out
            responses. Answers are from 0 to 1. If the plan has one independent trial per paired trial, the false-positive rate of
            the pair is subtracted from each answer, which is then from −1 to 1. The sums with follow-up trials are None if the
            run has none.
        """
        n_agents = trials.plan.n_agents
        # each call of this function reads the trials again, and converts the rates of pairs to answers
        iter_chunks = partial(iter_answers, trials.iter_rates)
        if totals is None:
            totals = PairTotals.from_chunks(iter_chunks(), n_agents)

        totals_with_follow_ups = None
        if trials.has_follow_ups:
            iter_all_rates = partial(trials.iter_rates, with_follow_ups=True)
            totals_with_follow_ups = PairTotals.from_chunks(iter_answers(iter_all_rates), n_agents)
        return cls(iter_chunks, totals, totals_with_follow_ups)


def iter_answers(iter_rates: Callable[[], Iterable[RateChunk]]) -> Iterator[PairChunk]:
    """Yield the answers of each chunk of items that `iter_rates` returns."""
    return (chunk.answers for chunk in iter_rates())


def rank_alternatives(
    answers: PairedAnswers,
    abilities: Abilities,
    differences: Differences,
    agent_ids: Sequence[str],
    *,
    rules: PartnerRules,
) -> tuple[WeightedRanking, ...]:
    """Make the robust ranking, and rankings by families and by a trusted panel if `rules` define these.

    Parameters
    ----------
    answers : PairedAnswers
        Answers of the run to its paired trials, with their sums by pair of agents.
    abilities, differences : Abilities, Differences
        Abilities of the plain ranking, and their pairwise differences.
    agent_ids : sequence of str
        Ids of the agents, by position.
    rules : PartnerRules
        Rules that `check_partner_rules` accepts. A ranking whose families or panel are not set is left out. `ranked_by` is
        the main ranking of the run.

    Returns
    -------
    tuple of WeightedRanking
        The rankings in the order robust, families, trusted panel, each with its `name`, `abilities`, `differences` and `facts`.
        If a ranking other than the main one cannot be made (the robust one needs 8 agents), its abilities are None, and
        `facts.message` is the reason.

    Raises
    ------
    StatisticsError
        [all-agents-flagged], [partners-none], [cluster-agents]: if the main ranking, `rules.ranked_by`, cannot be made.
    """
    make_ranking = partial(
        WeightedRanking, answers=answers, plain=abilities, plain_differences=differences, agent_ids=agent_ids
    )
    totals = answers.totals_with_follow_ups or answers.totals
    cluster = find_flagged_groups(totals, agent_ids, clones=rules.clones).cluster
    groups = _list_groups(cluster, agent_ids) if len(agent_ids) >= MIN_AGENTS_FOR_COPYING else ()
    rankings = [make_ranking("robust", groups, lambda: _weight_groups_as_one_partner(cluster))]
    if rules.families:
        family = label_families(rules.families, agent_ids)
        rankings.append(make_ranking("family", _list_groups(family, agent_ids), lambda: group_balanced_weights(family)))
    if rules.trusted:
        is_trusted = np.isin(agent_ids, rules.trusted)
        rankings.append(make_ranking("trusted", (rules.trusted,), lambda: panel_weights(is_trusted)))

    for ranking in rankings:
        if ranking.error is not None and ranking.name == rules.ranked_by:
            raise ranking.error
    return tuple(rankings)


def _weight_groups_as_one_partner(group: Ids) -> PartnerWeights:
    """Compute the weight of each agent as a partner in comparisons for the robust ranking.

    All members of a group of suspicious (flagged) agents together have the weight of one agent. Comparisons between members of
    a group do not count.

    group : int32 array (n_agents,), number of each agent's group; an agent that is not flagged is a group by itself

    Raises StatisticsError [robust-few-agents] for too few agents, and [all-agents-flagged] if all agents are in one group.
    """
    _check_enough_agents(len(group))
    if len(np.unique(group)) == 1:
        raise StatisticsError(
            f"All {len(group)} agents are flagged as one group, so no agent is left to score them. Add agents that "
            "respond independently, or use the plain ranking with caution.",
            slug="all-agents-flagged",
        )
    return group_balanced_weights(group)


def reweight_abilities(answers: PairedAnswers, abilities: Abilities, partners: PartnerWeights) -> Abilities:
    """Estimate abilities as if comparisons with some agents had more weight.

    A model with one additive effect per agent is fitted to all answers twice: once with weights, and once with equal weights.
    The fits give the abilities t_i(weighted) and t_i(equal) of agent i.

    - The new ability is θ_i + t_i(weighted) − t_i(equal).
    - Its standard error is se(t_i(weighted)) · se(θ_i) / se(t_i(equal)).
    - The correlations between abilities are those of the weighted fit.

    answers : answers of the run, from which `abilities` were estimated
    abilities : abilities θ_i without weights, by any estimator
    partners : weight, at least 0, of each compared agent (partner, column) in the score of each agent (row)

    Returns the new abilities, NaN for an agent without answers about partners of positive weight; `item_influence` and `search`
    are None. If all weights are equal, `abilities` itself is returned.

    Raises StatisticsError [partners-none] if fewer than 3 agents have answers about partners of positive weight, and
    [cluster-agents] if fewer than 2 agents have trials on 2 items.
    """
    equal_partners = uniform_weights(len(abilities.ability))
    if np.array_equal(partners.weight, equal_partners.weight):
        return abilities

    equal = fit_weighted_abilities(answers.iter_chunks, answers.totals, equal_partners)
    weighted = fit_weighted_abilities(answers.iter_chunks, answers.totals, partners)

    shift = weighted.ability - equal.ability

    # C_ik = C_ik(weighted) · r_i · r_k, with the ratio r_i = se(θ_i) / se(t_i(equal))
    variance = np.diag(abilities.covariance.covariance)
    equal_variance = np.diag(equal.covariance.covariance)
    std_error_ratio = np.sqrt(variance / equal_variance)
    covariance = weighted.covariance.covariance * std_error_ratio[:, np.newaxis] * std_error_ratio
    df = np.fmin(weighted.covariance.df, abilities.covariance.df)
    return abilities._replace(
        ability=abilities.ability + shift,
        covariance=CentredCovariance(covariance, df),
        method=f"{abilities.method}; partners weighted, errors in proportion",
        item_influence=None,
        search=None,
    )


def with_alternative_columns(
    table: pd.DataFrame, rankings: Sequence[WeightedRanking], agent_ids: Sequence[str]
) -> pd.DataFrame:
    """Return a copy of a ranking table with the results of alternative rankings in further columns.

    Each ranking adds the columns in `ALTERNATIVE_COLUMNS` (ability, standard error, and the bounds of the interval and of both
    rank intervals), with its own name in front: for example `robust_ability`. Abilities, their bounds and standard errors are NaN
    for agents that the ranking does not include. All columns are NaN for agents that are not in `agent_ids`, and if the ranking
    could not be made.

    table : table with a column `agent`, whose rows stay in their order
    rankings : alternative rankings with their names, abilities and differences
    agent_ids : ids of the agents, in the order of the abilities in `rankings`
    """
    for ranking in rankings:
        if ranking.abilities is None or ranking.differences is None:
            missing_columns = {f"{ranking.name}_{name}": np.nan for name in ALTERNATIVE_COLUMNS}
            table = table.assign(**missing_columns)
        else:
            alternative_table = build_ranking_table(ranking.abilities, agent_ids, differences=ranking.differences)
            columns_by_agent = alternative_table.set_index("agent")[list(ALTERNATIVE_COLUMNS)]
            table = table.join(columns_by_agent.add_prefix(f"{ranking.name}_"), on="agent")
    return table


def sort_by_ranking(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Sort a ranking table by the abilities of the alternative ranking `name`, best first."""
    return table.sort_values(f"{name}_ability", ascending=False, kind="stable", na_position="last", ignore_index=True)


def _list_groups(label: Ids, agent_ids: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """List the groups of agents that an alternative ranking weights together, such as the models of one family.

    An agent that is alone in its group is left out.

    label : int32 array (n_agents,), number of each agent's group
    agent_ids : ids of the agents, in the order of `label`

    Returns the ids of the agents of each group, the largest group first.
    """
    agents_by_label: dict[int, list[str]] = {}
    for agent, group_label in zip(agent_ids, label.tolist(), strict=True):
        agents_by_label.setdefault(group_label, []).append(agent)

    groups = [tuple(agents) for agents in agents_by_label.values() if len(agents) > 1]
    return tuple(sorted(groups, key=lambda group: -len(group)))
