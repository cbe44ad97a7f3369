"""Rankings beside the plain one: pairs that agree too much count once, families weigh alike, or a trusted panel scores everybody.

Each moves the plain abilities by what changed weights of partners move a fit of all answers, so that where nothing is linked
it is the plain ranking, whatever estimator made that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.nouns import PartnerRules, Rates, Split, StandingFacts, StandingMove, StandingName, Verdicts
from youden.nouns.arrays import Floats, Ids, freeze
from youden.protocol.rates import tally
from youden.run.estimates.ability import Abilities
from youden.run.estimates.places_table import ranking_table, told_apart
from youden.run.robust.rules import family_labels
from youden.run.robust.words import leader_words
from youden.stats.robust.links import Linked, linked_pairs
from youden.stats.robust.pair_means import pair_means
from youden.stats.robust.partners import Partners, all_partners, group_balanced, panel
from youden.stats.robust.reweighted import reweighted
from youden.stats.trials.places import Differences, tied_places

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("ability", "low", "high", "rank_low", "rank_high", "error", "place_low", "place_high")
"""Of each standing, with its name before: `robust_ability`, …"""


@dataclass(frozen=True, eq=False)
class PairedAnswers:
    """What may be learned from, a row an ordered pair on an item: int32[T] each, value float[T], weight float[T], its answers."""

    first: Ids
    second: Ids
    item: Ids
    value: Floats
    weight: Floats

    def __post_init__(self) -> None:
        freeze([self.first, self.second, self.item, self.value, self.weight])


class MadeStanding(NamedTuple):
    """A ranking beside the plain one; found and apart are None where there is none, then `facts.message` says why."""

    name: StandingName
    found: Abilities | None
    apart: Differences | None
    facts: StandingFacts


def paired_answers(rates: Rates, split: Split | None = None) -> PairedAnswers:
    """Answers of pairs less their own FPR, where they have one; rows that touch a held-out cell are left out."""
    used = rates.n_paired > 0
    if split is not None:
        used &= split.train[rates.first, rates.item] & split.train[rates.second, rates.item]
    own_rate = rates.fpr if rates.independent == "twin" else np.zeros(len(rates))
    value = rates.tpr - np.nan_to_num(own_rate)
    return PairedAnswers(
        rates.first[used], rates.second[used], rates.item[used], value[used], rates.n_paired[used].astype(np.float64)
    )


def answers_with_follow_ups(result: Verdicts | None) -> PairedAnswers | None:
    """The answers of a run with those of pairs that were asked more; None where none was."""
    if result is None or not result.plan.n_follow_ups:
        return None
    return paired_answers(tally(result), result.plan.split)


def links_of(of: PairedAnswers, agent_ids: Sequence[str], *, clones: Sequence[Sequence[str]] = ()) -> Linked:
    """Pairs that agree far beyond their abilities. clones: agents that are linked whatever the answers say."""
    known = np.zeros((len(agent_ids), len(agent_ids)), dtype=np.bool_)
    at = {agent: n for n, agent in enumerate(agent_ids)}
    for cluster in clones:
        members = [at[agent] for agent in cluster if agent in at]
        known[np.ix_(members, members)] = True
    return linked_pairs(
        pair_means(of.first, of.second, of.item, of.value, weight=of.weight, n_agents=len(agent_ids)), known=known
    )


def standings_of(
    rates: Rates,
    found: Abilities,
    *,
    component: Ids,
    split: Split | None = None,
    rules: PartnerRules | None = None,
    asked_more: PairedAnswers | None = None,
) -> tuple[MadeStanding, ...]:
    """The robust ranking always, the family-balanced and the trusted one where the rules name families or a panel.

    asked_more: answers that links are told from, where suspected pairs were asked more than `rates` hold.
    One that cannot be made says why; `check_rules` refuses beforehand what the rules alone show to be impossible.

    Raises: StatisticsError where the ranking that the rules put at the head cannot be made: [everything-linked], [partners-none].
    """
    rules, ids = rules or PartnerRules(), rates.agent_ids
    fit = _Fit(paired_answers(rates, split), found, ids, component)
    linked = links_of(asked_more or fit.answers, ids, clones=rules.clones)
    made = [fit.standing("robust", _names(linked.cluster, ids), lambda: _robust_partners(linked.cluster))]
    if rules.families:
        label = family_labels(rules.families, ids)
        made.append(fit.standing("family", _names(label, ids), lambda: group_balanced(label)))
    if rules.trusted:
        made.append(fit.standing("trusted", (rules.trusted,), lambda: panel(np.isin(ids, rules.trusted))))
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


@dataclass(frozen=True)
class _Fit:
    """What all rankings beside the plain one are made from."""

    answers: PairedAnswers
    found: Abilities
    ids: Sequence[str]
    component: Ids

    def standing(
        self, name: StandingName, groups: tuple[tuple[str, ...], ...], partners: Callable[[], Partners]
    ) -> MadeStanding:
        """The ranking with these partners, or why there is none."""
        try:
            moved = moved_abilities(self.answers, self.found, partners())
        except StatisticsError as error:
            return MadeStanding(name, None, None, StandingFacts(groups, None, 0, (), message=str(error)))
        apart = told_apart(moved, component=self.component)
        plain, place = tied_places(self.found.ability), tied_places(moved.ability)
        order = np.argsort(-np.abs(place - plain), kind="stable")
        moves = tuple(StandingMove(self.ids[i], int(plain[i]), int(place[i])) for i in order if place[i] != plain[i])
        best = None if apart.best is None else self.ids[apart.best]
        leader = leader_words(name, told_apart(self.found, component=self.component), apart, self.ids)
        return MadeStanding(name, moved, apart, StandingFacts(groups, best, int(apart.above.sum()), moves, leader))


def moved_abilities(of: PairedAnswers, found: Abilities, partners: Partners) -> Abilities:
    """`found`, moved by what the weights of `partners` change in an additive fit; errors grow as they do there.

    Raises: StatisticsError [partners-none], [cluster-agents].
    """
    n_agents = len(found.ability)
    everybody = all_partners(n_agents)
    if np.array_equal(partners.weight, everybody.weight):
        return found
    n_items = int(of.item.max(initial=-1)) + 1

    def fit(counted: Partners) -> tuple[Floats, Floats, Floats]:
        made = reweighted(of.first, of.second, of.item, of.value, weight=of.weight, partners=counted, n_items=n_items)
        return made.ability, made.covariance.covariance, made.covariance.freedom

    plain, plain_covariance, _ = fit(everybody)
    other, covariance, freedom = fit(partners)
    was = np.sqrt(np.diag(found.covariance.covariance) / np.diag(plain_covariance))
    scaled = type(found.covariance)(covariance * was[:, None] * was, np.fmin(freedom, found.covariance.freedom))
    return found._replace(
        ability=found.ability + (other - plain),
        covariance=scaled,
        method=f"{found.method}; partners weighted, errors in proportion",
        by_item=None,
    )


def with_standings(table: pd.DataFrame, made: Sequence[MadeStanding], agent_ids: Sequence[str]) -> pd.DataFrame:
    """The ranking with the columns of each standing after its own, in its order; one that could not be made is empty."""
    for one in made:
        if one.found is None or one.apart is None:
            columns = {f"{one.name}_{name}": np.nan for name in COLUMNS}
            table = table.assign(**columns)
            continue
        other = ranking_table(one.found, agent_ids, apart=one.apart).set_index("agent")[list(COLUMNS)]
        table = table.join(other.add_prefix(f"{one.name}_"), on="agent")
    return table


def ordered_by(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Best first by the standing `name`."""
    return table.sort_values(f"{name}_ability", ascending=False, kind="stable", na_position="last", ignore_index=True)


def _names(label: Ids, ids: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    groups = [tuple(ids[i] for i in np.flatnonzero(label == c).tolist()) for c in dict.fromkeys(label.tolist())]
    return tuple(sorted((group for group in groups if len(group) > 1), key=lambda group: -len(group)))
