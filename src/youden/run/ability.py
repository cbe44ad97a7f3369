"""An estimate of abilities with its errors, and the table of places that follows.

How sure abilities from trials are: over more items of this kind, or against all answers on these items.

What every estimator gives: abilities of a plan's agents, and how sure their distances from the average agent are.

Abilities of a plan's agents as means of its answered trials, less the rate of false positives.

Abilities with the places that their differences allow, as a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.nouns import FOLLOW_UP, INDEPENDENT, PAIRED, PROBE, Plan, Target, Verdicts
from youden.nouns.cells import CellIndex
from youden.nouns.facts import ChoiceFacts
from youden.nouns.pool import Bools, Floats, Ids
from youden.stats.base.clusters import CentredCovariance, covariance_over_cells
from youden.stats.base.estimator import check_level, uneven_columns
from youden.stats.trials.choice import Choice, choice
from youden.stats.trials.comparisons import Differences, differences, places_at_once
from youden.stats.trials.false_positives import own_rates
from youden.stats.trials.trial_errors import covariance_on_these_items, item_contributions

if TYPE_CHECKING:
    import pandas as pd

METHODS: dict[Target, str] = {
    "items-like-these": "residuals by item, shrunk variances, Student t",
    "these-items": "residuals by slot less what balance averages out, shrunk variances, Student t, finite population",
}
METHODS["items-and-judges"] = METHODS["items-like-these"]


class ByItem(NamedTuple):
    """What items do to abilities: U_ij and the item's share in i's weight of the cells seen, float[N] each."""

    cells: CellIndex
    contribution: Floats
    share: Floats

    def matrices(self, n_agents: int, n_items: int) -> ItemMatrices:
        """Of so many agents and items, which may be more: 0 where unseen."""
        cells = CellIndex(self.cells.agent, self.cells.item, n_agents, n_items)
        return ItemMatrices(cells.matrix(self.contribution, empty=0.0), cells.matrix(self.share, empty=0.0))


class ItemMatrices(NamedTuple):
    """`ByItem` of every cell: float[K, J] each."""

    contribution: Floats
    share: Floats


class TrialCovariance(NamedTuple):
    """covariance: NaN where there is none; by_item: for items like these only; method: how it was made, or why not."""

    covariance: CentredCovariance
    by_item: ByItem | None
    method: str


def trial_covariance(
    first: Ids,
    second: Ids,
    item: Ids,
    slot: Ids,
    answer: Floats,
    *,
    ability: Floats,
    weight: Floats,
    n_items: int,
    target: Target,
) -> TrialCovariance:
    """Of abilities that are weighted means of trials in slots; weight: float[T] > 0.

    Over items, by `covariance_over_cells` of `item_contributions`; on these items, by `covariance_on_these_items`. NaN where
    a trial has no slot, and where fewer than 3 agents were asked in 2 clusters.
    """
    cluster, name = (slot, "slots") if target == "these-items" else (item, "items")
    if (slot < 0).any():
        return _none(len(ability), "there are trials without a slot")
    if _asked_twice(first, second, cluster, n_agents=len(ability)).sum() < 3:
        return _none(len(ability), f"fewer than 3 agents have trials in 2 {name}")
    if target == "these-items":
        found = covariance_on_these_items(
            first,
            second,
            item,
            slot,
            answer,
            ability=ability,
            first_weight=weight,
            second_weight=weight,
            n_items=n_items,
        )
        return TrialCovariance(found, None, METHODS[target])
    of = item_contributions(
        first, second, item, answer, ability=ability, first_weight=weight, second_weight=weight, n_items=n_items
    )
    size = np.bincount(of.cells.agent, of.weight**2 / np.maximum(of.n_trials, 1), len(ability))
    found = covariance_over_cells(of.cells, of.by_item, of.weight, size=np.where(size > 0, size, 1.0))
    return TrialCovariance(found, ByItem(of.cells, of.by_item, of.weight), METHODS[target])


def no_covariance(n_agents: int) -> CentredCovariance:
    """Of agents about whom nothing says how sure they are."""
    return CentredCovariance(np.full((n_agents, n_agents), np.nan), np.full(n_agents, np.nan))


def _none(n_agents: int, why: str) -> TrialCovariance:
    return TrialCovariance(no_covariance(n_agents), None, f"none: {why}")


def _asked_twice(first: Ids, second: Ids, cluster: Ids, *, n_agents: int) -> Bools:
    """Which agents have trials in two clusters: bool[K]."""
    _, at = np.unique(cluster, return_inverse=True)
    seen = np.zeros((n_agents, int(at.max(initial=-1)) + 1), dtype=np.bool_)
    seen[first, at] = seen[second, at] = True
    return np.asarray(seen.sum(axis=1) >= 2)


LEVEL = 0.95
TRIALS = "mean of trials"
FITTED = "additive fit of trials"
CELLS = "clipped-linear ability"


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


class Search(NamedTuple):
    """top: how many agents are to be named; within: how far from the best they may be, None for not at all; looks: from the first
    to the last."""

    top: int
    within: float | None
    looks: tuple[Look, ...]


class Abilities(NamedTuple):
    """Abilities of a plan's agents, and how sure their distances from the average agent are.

    ability: float[K]; covariance: of the θ_i − θ̄; n_trials: int32[K]. fpr: the rate that was taken off the answers. ranking: the
    estimator's name; method: the interval's. target: what it speaks of. by_item: what items contribute, for items like
    these; None of an extended run. search: what the plan looks for, None where it ranks everybody, or partners are weighted.
    """

    ability: Floats
    covariance: CentredCovariance
    n_trials: Ids
    fpr: float
    ranking: str
    method: str
    target: Target
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


class TrialMean:
    """Ability as the mean answer over an agent's paired trials, less the false-positive rate.

    θ_i = mean of y over answered paired trials with i on either side − FPR_i, which is the mean answer of answered independent
    trials that are no probes (0 where there is none: `n_independent_` is 0 then, and `method_` says so), or where they are many
    an agent's own rate with its error added, see `own_rates`. Where a plan holds cells out, trials that touch one in either arm
    are left out, under both rules.

    target: what intervals are about, more items of this kind or these items alone; see `trial_covariance`.

    Learned: ability_, low_, high_: float[K] (the interval is for θ_i − θ̄, around θ_i); covariance_: CentredCovariance, of the
    θ_i − θ̄; error_: float[K], its standard errors; by_item_: what items contribute, None on these items; n_trials_: int32[K];
    n_missing_: paired trials without an answer; fpr_: float; n_independent_: int; method_: str, how intervals were made, or why
    they are NaN. Abilities and errors are in units of the answers, [−1, 1].

    Raises: StatisticsError, by `fit`.

    >>> import youden
    >>> pool = youden.read_pool("datasets/field-notes")
    >>> plan = youden.make_plan(pool, calls=300)
    >>> model = youden.TrialMean().fit(plan, youden.judge(plan, pool))
    >>> model.ability_.shape, bool((model.low_ < model.high_).all())
    ((12,), True)
    """

    def __init__(self, *, level: float = 0.95, target: Target = "items-like-these") -> None:
        self.level = level
        self.target = target

    def fit(self, plan: Plan, result: Verdicts) -> TrialMean:
        """Learn from the answers to `plan`.

        Raises: StatisticsError [trial-none] where no paired trial that may be learned from was answered, [trial-columns]
        where plan and verdicts differ in length, [level].
        """
        if len(plan) != len(result):
            raise uneven_columns(f"a plan of {len(plan)} trials and {len(result)} verdicts")
        check_level(self.level)
        train = plan.split.train
        other = np.where(plan.arm == PAIRED, plan.item, plan.other_item)
        allowed = train[plan.first, plan.item] & train[plan.second, other] & ~np.isin(plan.role, (PROBE, FOLLOW_UP))
        paired = allowed & (plan.arm == PAIRED)
        used = paired & result.answered
        independent = allowed & (plan.arm == INDEPENDENT) & result.answered
        if not used.any():
            raise StatisticsError(
                f"Abilities need answered paired trials; of {int(paired.sum())} that may be learned from none was answered. "
                "Run the judge, or look at why its answers are missing.",
                slug="trial-none",
            )
        first, second, answer = plan.first[used], plan.second[used], result.answer[used]
        agent = np.append(first, second)
        n_trials = np.bincount(agent, minlength=plan.n_agents)
        mean = np.full(plan.n_agents, np.nan)
        np.divide(np.bincount(agent, np.tile(answer, 2), plan.n_agents), n_trials, out=mean, where=n_trials > 0)
        found = trial_covariance(
            first,
            second,
            plan.item[used],
            plan.slot[used],
            answer,
            ability=mean,
            weight=np.ones(len(answer)),
            n_items=plan.n_items,
            target=self.target,
        )
        self.n_independent_ = int(independent.sum())
        self.fpr_ = float(result.answer[independent].mean()) if self.n_independent_ else 0.0
        own = own_rates(
            plan.first[independent], plan.second[independent], result.answer[independent], n_agents=plan.n_agents
        )
        self.ability_ = mean - own.rate
        self.covariance_ = CentredCovariance(found.covariance.covariance + own.covariance, found.covariance.freedom)
        half = self.covariance_.half_width(self.level)
        self.error_, self.by_item_ = self.covariance_.error, found.by_item
        self.low_, self.high_ = self.ability_ - half, self.ability_ + half
        self.n_trials_ = n_trials.astype(np.int32)
        self.n_missing_ = int(paired.sum() - used.sum())
        self.method_ = found.method + ("" if self.n_independent_ else "; FPR taken as 0: no independent trial answered")
        return self


Groups = Mapping[str, str | None]


def told_apart(found: Abilities, *, component: Ids) -> Differences:
    """All differences of abilities, and who is told apart by them; agents of two components are not compared."""
    same = component[:, None] == component
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

    places, at_once = apart.places, places_at_once(apart)
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
