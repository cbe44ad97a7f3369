"""What every estimator gives: abilities of a plan's agents, and how sure their distances from the average agent are.

Means of trials in slots, less the rate of false positives, are the plainest of them. Abilities become a table here, with the
places that their differences allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from youden.engines.trial_blocks import TrialsByItem
from youden.errors import StatisticsError
from youden.run_keys import Target
from youden.stats.additive.trial_fit import TrialFit
from youden.stats.base.clusters import CentredCovariance
from youden.stats.trials.best_selection import Choice, choice
from youden.stats.trials.comparisons import Differences, agent_components, differences
from youden.stats.trials.false_positives import OwnRates, own_rates
from youden.stats.trials.trial_errors import TrialMeans, nothing_known, trial_means
from youden.types import PAIRED, Plan, Verdicts
from youden.types.cells import CellIndex
from youden.types.facts import ChoiceFacts
from youden.types.pool import Floats, Ids, Positions

if TYPE_CHECKING:
    import pandas as pd


class ByItem(NamedTuple):
    """What items do to abilities: U_ij and the item's share in i's weight of the cells seen, float[N] each."""

    cells: CellIndex
    contribution: Floats
    share: Floats

    def matrices(self, items: slice, n_agents: int) -> ItemMatrices:
        """Of some items and so many agents, which may be more: 0 where unseen."""
        rows = slice(*np.searchsorted(self.cells.item, [items.start, items.stop]))
        at = CellIndex(
            self.cells.agent[rows], self.cells.item[rows] - np.int32(items.start), n_agents, items.stop - items.start
        )
        return ItemMatrices(*(at.matrix(column[rows], empty=0.0) for column in (self.contribution, self.share)))

    @classmethod
    def of(cls, found: TrialFit | TrialMeans) -> ByItem:
        """Of an agent's own trials, as if the others were known."""
        parts, start = [], 0
        for move in found.moves():
            cells = CellIndex.of(move.weight > 0)
            at = cells.agent, cells.item
            parts.append((cells.agent, cells.item + np.int32(start), move.alone[at], move.weight[at]))
            start += move.weight.shape[1]
        agent, item, alone, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(CellIndex(agent, item, len(found.weight), start), alone, weight / found.weight[agent])


class ItemMatrices(NamedTuple):
    """`ByItem` of every cell of some items: float[K, B] each."""

    contribution: Floats
    share: Floats


LEVEL = 0.95
TRIALS = "mean of trials"
FITTED = "additive fit of trials"
CELLS = "clipped-linear ability"
MOST = 0.7
"""What a look has of the error that is left where it may be the last one."""


class Look(NamedTuple):
    """spent: how much of the error that all looks may have together is spent, this look included, which had `share` of it;
    next_share: what the next look has. end: float[K, K], the lowest upper ends of all looks so far, see `upper_ends`.
    luck: float[K], see there, of those whose turn it was; carried: float[K], what those chosen so far had of it, on average."""

    spent: float
    share: float
    next_share: float
    end: Floats
    luck: Floats
    carried: Floats

    @property
    def hoped_share(self) -> float:
        """What a look may have that is to be the last one. It says who has to be asked more: the looks before are stricter."""
        return max(self.next_share, MOST * (1 - self.spent))


class Search(NamedTuple):
    """top: how many agents are to be named; within: how far from the best they may be, None for not at all; looks: from the first
    to the last."""

    top: int
    within: float | None
    looks: tuple[Look, ...]


class Abilities(NamedTuple):
    """Abilities of a plan's agents, and how sure their distances from the average agent are.

    ability: float[K]; covariance: of the θ_i − θ̄; n_trials: int32[K]. fpr: the rate that was taken off the answers. ranking: the
    estimator's name; method: the interval's. target: what it speaks of. component: int32[K], which agents are linked, as
    `agent_components`: others are not compared. by_item: what items contribute, for items like
    these, where it was asked for. search: what the plan looks for, None where it ranks everybody, or partners are weighted.
    """

    ability: Floats
    covariance: CentredCovariance
    n_trials: Ids
    fpr: float
    ranking: str
    method: str
    target: Target
    component: Ids
    by_item: ByItem | None = None
    search: Search | None = None

    @property
    def low(self) -> Floats:
        """The lower end of the interval for an agent's distance from the average one, put around its ability: float[K]."""
        return np.asarray(self.ability - self.covariance.half_width(LEVEL))

    @property
    def high(self) -> Floats:
        """The upper end: float[K]."""
        return np.asarray(self.ability + self.covariance.half_width(LEVEL))


class Aim(NamedTuple):
    """What is wanted of an estimator. target: what intervals speak of; before: the search as the look before found it, whose
    bounds need not be made again; with_items: whether `by_item` is made."""

    target: Target = "items-like-these"
    before: Search | None = None
    with_items: bool = False


_NO_FPR = "; FPR taken as 0: no independent trial answered"


def mean_abilities(verdicts: Verdicts, *, target: Target = "items-like-these") -> Abilities:
    """Estimate abilities of any plan as mean answers of paired trials, less the false-positive rate.

    θ_i = mean answer of the answered paired trials with i on either side − FPR_i. FPR_i is the mean answer of all answered
    independent trials but probes (0 if there are none), or the agent's own rate if it has many (`own_rates`). Trials of held-out
    cells are left out of both. If a trial belongs to no slot, the covariance is NaN.

    Raises: StatisticsError [trial-none] if no paired trial of training cells was answered.
    """
    plan, is_paired = verdicts.plan, verdicts.plan.arm == PAIRED
    used = plan.teaches & verdicts.answered
    paired, independent = used & is_paired, used & ~is_paired
    if not paired.any():
        raise none_answered(int((plan.teaches & is_paired).sum()))
    rates = own_rates(
        plan.first[independent], plan.second[independent], verdicts.answer[independent], n_agents=plan.n_agents
    )
    no_rate = not independent.any()
    abilities = means_of(TrialsByItem.of(verdicts), rates, target, no_rate=no_rate)
    if (plan.slot[paired] >= 0).all():
        return abilities
    method = "none: there are trials without a slot" + (_NO_FPR if no_rate else "")
    return abilities._replace(covariance=nothing_known(plan.n_agents), method=method)


def none_answered(n_paired: int) -> StatisticsError:
    """What is raised where so many paired trials have no answer that may be learned from."""
    return StatisticsError(
        f"Abilities need answered paired trials; of {n_paired} that may be learned from none was answered. "
        "Run the judge, or look at why its answers are missing.",
        slug="trial-none",
    )


def means_of(
    trials: TrialsByItem, own: OwnRates, target: Target, *, no_rate: bool, with_items: bool = False
) -> Abilities:
    """Mean answers of trials that may be learned from, less each agent's rate of false positives. no_rate: whether no independent
    trial was answered; with_items: whether `by_item` is made, for items like these."""
    these = target == "these-items"
    found = trial_means(
        lambda: (block.pairs(slots=these) for block in trials.answers()),
        n_agents=trials.plan.n_agents,
        target=target,
    )
    return Abilities(
        found.ability - own.rate,
        CentredCovariance(found.covariance.covariance + own.covariance, found.covariance.freedom),
        found.weight.astype(np.int32),
        own.pooled,
        TRIALS,
        found.method + (_NO_FPR if no_rate else ""),
        target,
        components_of(trials),
        ByItem.of(found) if with_items and not these else None,
    )


MOST_LOST = 0.05
"""Share of an agent's paired trials that may lack an answer where plain means rank."""


def of_slots(trials: TrialsByItem, aim: Aim) -> Abilities | None:
    """By means of trials in slots; None where one has no slot, or too many lack an answer. Where every cell may teach, such means
    are fair: see `balanced`."""
    plan, n_paired = trials.plan, 0
    asked, answered = np.zeros((2, plan.n_agents), dtype=np.int64)
    for block in trials.asked():
        if (block.slot < 0).any():
            return None
        n_paired += len(block.slot)
        known = block.where(block.answered)
        asked += block.where(np.isin(block.slot, known.slot)).of_agents(plan.n_agents)
        answered += known.of_agents(plan.n_agents)
    if not n_paired or not few_lost(asked, answered):
        return None
    if not answered.any():
        raise none_answered(n_paired)
    no_rate = not trials.apart.n_trials
    return means_of(trials, trials.apart.own_rates, aim.target, no_rate=no_rate, with_items=aim.with_items)


def components_of(trials: TrialsByItem) -> Ids:
    """Which agents the answered trials link: int32[K], as `agent_components`."""
    seen = np.zeros((trials.plan.n_agents, trials.plan.n_items), dtype=np.bool_)
    for block in trials.answers():
        seen[block.first, block.start + block.item] = seen[block.second, block.start + block.item] = True
    return agent_components(*np.nonzero(seen), n_agents=seen.shape[0], n_items=seen.shape[1])


def balanced(plan: Plan) -> bool:
    """Whether trials in slots compare every agent on the same items, so that plain means are fair.

    With gaps or a holdout each agent is seen on items of its own, and a mean mixes its ability with their difficulty: the
    slot intervals then cover .79–.93 of the time on the paper's data where the additive fit's cover .945–.97
    (`benchmarks/cyclic.py`), at the same rank correlation.
    """
    slot = plan.slot[plan.arm == PAIRED]
    return bool(len(slot) and (slot >= 0).all() and plan.split.train.all())


def few_lost(asked: Positions, answered: Positions) -> bool:
    """Whether no agent lacks the answers to more than `MOST_LOST` of its paired trials in slots that hold an answer: int[K] each.

    Answers that fail are not spread evenly. Where an agent lacks those on hard items, its mean is too high, and where it lacks
    a tenth of them its slot interval covers .82 of the time; the fit's covers .97.
    """
    return bool((asked - answered <= MOST_LOST * asked).all())


Groups = Mapping[str, str | None]


def told_apart(found: Abilities) -> Differences:
    """All differences of abilities, and who is told apart by them; agents of two components are not compared."""
    same = found.component[:, None] == found.component
    covariance = np.where(same, found.covariance.covariance, np.nan)
    return differences(found.ability, CentredCovariance(covariance, found.covariance.freedom), level=LEVEL)


def choice_among(found: Abilities, apart: Differences) -> Choice | None:
    """`choice` of as many as the plan looks for, by the bounds of all looks at it."""
    if found.search is None:
        return choice(found.ability, found.covariance, apart)
    last = found.search.looks[-1]
    return choice(found.ability, found.covariance, apart, top=found.search.top, share=last.share, end=last.end)


def choice_of(found: Abilities, agent_ids: Sequence[str], *, apart: Differences) -> ChoiceFacts | None:
    """Which agents to take, and how much better another may be; None where some cannot be compared."""
    made = choice_among(found, apart)
    if made is None:
        return None
    named, as_good = (tuple(agent_ids[k] for k in agents) for agents in (made.agents, made.as_good))
    chances = {agent_ids[k]: float(made.chance[k]) for k in np.argsort(-made.chance, kind="stable").tolist()}
    return ChoiceFacts(named, made.within, made.level, as_good, made.low, made.high, chances, made.regret)


def ranking_table(
    found: Abilities, agent_ids: Sequence[str], *, apart: Differences, groups: Groups | None = None
) -> pd.DataFrame:
    """Abilities and the places their differences allow, best first."""
    import pandas as pd  # takes long to load, and a plan needs this module without its tables

    places, at_once = apart.places, apart.places_at_once
    return pd.DataFrame(
        {
            "agent": list(agent_ids),
            "group": [(groups or {}).get(agent) for agent in agent_ids],
            "ability": found.ability,
            "low": found.low,
            "high": found.high,
            "rank_low": at_once.low,
            "rank_high": at_once.high,
            "n_trials": found.n_trials,
            "error": found.covariance.error,
            "place_low": places.low,
            "place_high": places.high,
            "target": found.target,
        }
    ).sort_values("ability", ascending=False, kind="stable", na_position="last", ignore_index=True)
