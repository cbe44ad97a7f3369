"""Rankings beside the plain one: pairs that agree too much count once, families weigh alike, or a trusted panel scores
everybody.

Each moves the plain abilities by what changed weights of partners move a fit of all answers, so that where nothing is
linked it is the plain ranking, whatever estimator made that. Suspected pairs are asked more before they are linked:
further trials behind a plan's own, which no ranking but the links reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from youden.engines.trial_blocks import RateBlock, TrialsByItem, paired_answers
from youden.errors import StatisticsError
from youden.pipeline.abilities import Abilities, ranking_table, told_apart
from youden.protocol.blocks import without_follow_ups
from youden.protocol.independent import with_more
from youden.stats.base.clusters import Blocks, CentredCovariance, PairBlock
from youden.stats.partners import (
    LinkedPairs,
    PairTotals,
    Partners,
    all_partners,
    group_balanced,
    linked_pairs,
    panel,
    reweighted,
)
from youden.stats.trials.comparisons import Differences, tied_places
from youden.streams import stream
from youden.text.sentences import counted
from youden.types import PAIRED, Finding, Plan, Trials, Verdicts
from youden.types.facts import STANDING, PartnerRules, StandingFacts, StandingMove, StandingName
from youden.types.pool import Ids, Positions
from youden.types.trials import FOLLOW_UP

if TYPE_CHECKING:
    import pandas as pd

MOVES_NAMED = 5
FAR = 2
"""Places that a leader falls and that are said, though no two rankings tell those before it apart."""
TITLES: Mapping[StandingName, str] = {
    "robust": "robust",
    "family": "family-balanced",
    "trusted": "trusted panel's",
}


def standing_findings(made: Mapping[StandingName, StandingFacts]) -> list[Finding]:
    """What a reader of the plain ranking has to know: agents that agree too much, a leader that falls, what could not be made."""
    said = []
    for name, facts in made.items():
        if name == "robust":
            said += [
                Finding(
                    "pairs",
                    f"{', '.join(group)} are alike in their texts, or agree far beyond their abilities, so in the robust ranking "
                    "they count as one partner and do not score each other.",
                    agents=group,
                )
                for group in facts.groups
            ]
        if facts.message:
            said.append(Finding("no-standing", f"No {TITLES[name]} ranking: {facts.message}", facts={"ranking": name}))
        if facts.leader:
            said.append(Finding("leader", facts.leader, facts={"ranking": name}))
    return said


def standing_line(name: StandingName, facts: StandingFacts, *, heads: bool) -> str:
    """One ranking beside the plain one in a sentence: who moves, and by how much."""
    title = f"By the {TITLES[name]} ranking{', which heads this one,' if heads else ''}"
    if not facts.moves:
        return f"{title} every agent holds its place."
    named = ", ".join(f"{move.agent} {move.plain} → {move.place}" for move in facts.moves[:MOVES_NAMED])
    rest = len(facts.moves) - MOVES_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"{title} {counted(len(facts.moves), 'agent', 'holds', 'hold')} another place: {named}{more}."


def _leader_words(name: StandingName, plain: Differences, other: Differences, ids: Sequence[str]) -> str:
    """That the leader of the plain ranking falls in another; empty where it holds.

    It falls where the other puts somebody above it and one of the two tells them apart, or puts it `FAR` places down, or no
    longer tells it apart from everybody.
    """
    leader = int(np.argmax(np.nansum(plain.value > 0, axis=1)))
    ahead = other.value[:, leader] > 0
    if (ahead & (plain.above[leader] | other.above[:, leader])).any() or ahead.sum() >= FAR:
        behind = ", ".join(ids[k] for k in np.flatnonzero(ahead)[:MOVES_NAMED].tolist())
        return (
            f"The leader {ids[leader]} falls to place {int(ahead.sum()) + 1} in the {TITLES[name]} ranking, behind {behind}: "
            "it owes its first place to who else is in the pool."
        )
    if plain.best == leader and other.best != leader:
        return (
            f"The leader {ids[leader]} is told apart from everybody in the plain ranking, and no longer in the {TITLES[name]} "
            "one: it owes part of its lead to who else is in the pool."
        )
    return ""


class MadeStanding:
    """An alternative ranking with its facts; `found` and `apart` are None if it cannot be made."""

    def __init__(
        self,
        name: StandingName,
        groups: tuple[tuple[str, ...], ...],
        partners: Callable[[], Partners],
        *,
        answers: AllAnswers,
        plain: Abilities,
        differences: Differences,
        ids: Sequence[str],
    ) -> None:
        """Rank by weighted partners. groups: agents that count as one; plain, differences: of the plain ranking."""
        self.name = name
        self.found: Abilities | None = None
        self.apart: Differences | None = None
        try:
            found = moved_abilities(answers, plain, partners())
        except StatisticsError as error:
            self.facts = StandingFacts(groups, None, 0, (), message=str(error))
            return
        apart = differences if found is plain else told_apart(found)
        before, after = tied_places(plain.ability), tied_places(found.ability)
        order = np.argsort(-np.abs(after - before), kind="stable")
        moves = tuple(StandingMove(ids[i], int(before[i]), int(after[i])) for i in order if after[i] != before[i])
        best = None if apart.best is None else ids[apart.best]
        leader = _leader_words(name, differences, apart, ids)
        self.found, self.apart = found, apart
        self.facts = StandingFacts(groups, best, int(apart.above.sum()), moves, leader)


def links_of(of: PairTotals, agent_ids: Sequence[str], *, clones: Sequence[Sequence[str]] = ()) -> LinkedPairs:
    """Pairs that agree far beyond their abilities. clones: agents that are linked whatever the answers say."""
    known = np.zeros((len(agent_ids), len(agent_ids)), dtype=np.bool_)
    at = {agent: n for n, agent in enumerate(agent_ids)}
    for cluster in clones:
        members = [at[agent] for agent in cluster if agent in at]
        known[np.ix_(members, members)] = True
    return linked_pairs(of.means, known=known)


def check_rules(rules: PartnerRules, agent_ids: Sequence[str]) -> None:
    """Refuse rules that speak of agents that are not there, or leave nobody to score.

    Raises: StatisticsError [families-unknown], [one-family], [trusted-unknown], [panel-small].
    """
    _known("families", rules.families, agent_ids)
    _known("trusted", rules.trusted, agent_ids)
    if len(set(rules.trusted)) == 1 or (rules.ranked_by == "trusted" and not rules.trusted):
        raise StatisticsError(
            f"A trusted panel of {len(set(rules.trusted))} cannot score its own members. Name 2 agents or more.",
            slug="panel-small",
        )
    if rules.families and len(np.unique(family_labels(rules.families, agent_ids))) < 2:
        raise StatisticsError(
            f"All {len(agent_ids)} agents are of the family {next(iter(rules.families.values()))!r}, so no other family can "
            "score them. Name two families or more, or leave families out.",
            slug="one-family",
        )


def family_labels(families: Mapping[str, str], agent_ids: Sequence[str]) -> Ids:
    """A number for each agent's family: int32[K]; an agent without one is a family of its own."""
    names = [("family", families[agent]) if agent in families else ("agent", agent) for agent in agent_ids]
    order = {name: n for n, name in enumerate(dict.fromkeys(names))}
    return np.array([order[name] for name in names], dtype=np.int32)


def _known(what: str, said: Mapping[str, str] | Sequence[str], ids: Sequence[str]) -> None:
    if unknown := [agent for agent in said if agent not in set(ids)]:
        raise StatisticsError(
            f"{what} names agents that are not in this run: {', '.join(unknown[:5])}. It has: {', '.join(ids[:10])}"
            f"{' …' if len(ids) > 10 else ''}.",
            slug=f"{what}-unknown",
        )


class AllAnswers(NamedTuple):
    """A run's answers, block by block, each time `blocks` is called, and their sums. more: the sums with those of pairs that were
    asked more, which links are told from; None where none was."""

    blocks: Blocks
    totals: PairTotals
    more: PairTotals | None = None

    @classmethod
    def of(cls, trials: TrialsByItem, totals: PairTotals | None = None) -> AllAnswers:
        """Of a run's trials. totals: their sums, where they are known."""
        blocks, K = partial(answers_of_pairs, trials.blocks), trials.plan.n_agents
        more = partial(answers_of_pairs, partial(trials.blocks, with_more=True))
        return cls(
            blocks, totals or PairTotals.of(blocks(), K), PairTotals.of(more(), K) if trials.asked_more else None
        )


def answers_of_pairs(blocks: Callable[[], Iterable[RateBlock]]) -> Iterator[PairBlock]:
    """Of each block."""
    return (block.answers for block in blocks())


def standings_of(
    answers: AllAnswers,
    found: Abilities,
    apart: Differences,
    ids: Sequence[str],
    *,
    rules: PartnerRules,
) -> tuple[MadeStanding, ...]:
    """The robust ranking always, the family-balanced and the trusted one where the rules name families or a panel.

    One that cannot be made says why; `check_rules` refuses beforehand what the rules alone show to be impossible.

    Raises: StatisticsError where the ranking that the rules put at the head cannot be made: [everything-linked], [partners-none].
    """
    rank = partial(MadeStanding, answers=answers, plain=found, differences=apart, ids=ids)
    linked = links_of(answers.more or answers.totals, ids, clones=rules.clones)
    made = [rank("robust", _names(linked.cluster, ids), lambda: _robust_partners(linked.cluster))]
    if rules.families:
        label = family_labels(rules.families, ids)
        made.append(rank("family", _names(label, ids), lambda: group_balanced(label)))
    if rules.trusted:
        made.append(rank("trusted", (rules.trusted,), lambda: panel(np.isin(ids, rules.trusted))))
    for one in made:
        if one.found is None and one.name == rules.ranked_by:
            message, _, slug = one.facts.message.rpartition(" [")
            raise StatisticsError(message, slug=slug.rstrip("]"))
    return tuple(made)


def _robust_partners(cluster: Ids) -> Partners:
    if len(np.unique(cluster)) == 1:
        raise StatisticsError(
            f"All {len(cluster)} agents agree far beyond their abilities, so nobody is left to score them. Add agents that "
            "answer on their own, or read the plain ranking with this in mind.",
            slug="everything-linked",
        )
    return group_balanced(cluster)


def moved_abilities(of: AllAnswers, found: Abilities, partners: Partners) -> Abilities:
    """`found`, moved by what the weights of `partners` change in an additive fit; errors grow as they do there.

    Raises: StatisticsError [partners-none], [cluster-agents].
    """
    n_agents = len(found.ability)
    everybody = all_partners(n_agents)
    if np.array_equal(partners.weight, everybody.weight):
        return found
    plain, other = (reweighted(of.blocks, of.totals, counted) for counted in (everybody, partners))
    was = np.sqrt(np.diag(found.covariance.covariance) / np.diag(plain.covariance.covariance))
    scaled = CentredCovariance(
        other.covariance.covariance * was[:, None] * was, np.fmin(other.covariance.freedom, found.covariance.freedom)
    )
    return found._replace(
        ability=found.ability + (other.ability - plain.ability),
        covariance=scaled,
        method=f"{found.method}; partners weighted, errors in proportion",
        by_item=None,
        search=None,
    )


def with_standings(table: pd.DataFrame, made: Sequence[MadeStanding], agent_ids: Sequence[str]) -> pd.DataFrame:
    """The ranking with the columns of each standing after its own, in its order; one that could not be made is empty."""
    for one in made:
        if one.found is None or one.apart is None:
            columns = {f"{one.name}_{name}": np.nan for name in STANDING}
            table = table.assign(**columns)
            continue
        other = ranking_table(one.found, agent_ids, apart=one.apart).set_index("agent")[list(STANDING)]
        table = table.join(other.add_prefix(f"{one.name}_"), on="agent")
    return table


def ordered_by(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Best first by the standing `name`."""
    return table.sort_values(f"{name}_ability", ascending=False, kind="stable", na_position="last", ignore_index=True)


def _names(label: Ids, ids: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    groups = [tuple(ids[i] for i in np.flatnonzero(label == c).tolist()) for c in dict.fromkeys(label.tolist())]
    return tuple(sorted((group for group in groups if len(group) > 1), key=lambda group: -len(group)))


EACH = 16
"""Trials a suspected pair gets in a round: with as many as 2 % of the calls give it, its error goes down by a third."""

Ask = Callable[[Plan], Verdicts]


def most_suspected(found: LinkedPairs, n: int) -> Positions:
    """Up to n pairs to ask more, int[M, 2], the largest residual first; pairs whose agents are in one cluster are settled."""
    open_ = np.triu(found.suspected, 1) & (found.cluster[:, None] != found.cluster)
    one, other = np.nonzero(open_)
    order = np.argsort(-found.residual[one, other], kind="stable")[:n]
    return np.stack([one[order], other[order]], axis=1)


def follow_up(result: Verdicts, ask: Ask, *, share: float) -> Verdicts:
    """Ask suspected pairs again and again, on other items, until none is open or `share` of the plan's calls is spent.

    The same answers make the same trials, so that an interrupted run goes on where it was.
    """
    result = without_follow_ups(result)
    rng, left = stream("follow-ups", result.plan.seed), int(share * len(result.plan))
    while left >= EACH:
        plan = result.plan
        so_far = [paired_answers(result.rates())]
        found = links_of(PairTotals.of(so_far, plan.n_agents), plan.agent_ids)
        trials = _trials(plan, most_suspected(found, left // EACH), rng)
        if not len(trials):
            break
        result = ask(with_more(plan, trials))
        left -= len(trials)
    return result


def _trials(plan: Plan, pairs: Positions, rng: np.random.Generator) -> Trials:
    """`EACH` paired trials a pair, half of them in either order, on random items that were not asked yet."""
    rows = []
    low, high = np.minimum(plan.first, plan.second), np.maximum(plan.first, plan.second)
    for one, other in pairs.tolist():
        asked_already = plan.item[(low == one) & (high == other) & (plan.arm == PAIRED)]
        both = plan.split.train[one] & plan.split.train[other]
        items = np.setdiff1d(np.flatnonzero(both), asked_already)
        if not len(items):
            continue
        asked = rng.choice(items, size=min(EACH, len(items)), replace=False)
        for number, item in enumerate(asked.tolist()):
            rows.append((item, one, other) if number % 2 else (item, other, one))
    trials = Trials.paired(*np.array(rows, dtype=np.int32).reshape(-1, 3).T)
    return trials.marked(FOLLOW_UP, first=0.0, second=0.0)
