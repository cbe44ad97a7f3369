"""Designs that ask in rounds: until enough is told apart, or until intervals have a width.

Cyclic slots in rounds until intervals are as narrow as asked for: all agents alike, so no round favours anybody.

How many slots come next, and whether it is enough, is decided from the answers (`run/rounds.py`); here is what they are.

Cyclic slots in rounds: a pilot on all agents, then rounds on those whose places are least sure.

Whether the top is separated is asked at every look, and each look spends an equal part of the error rate (Bonferroni), so
stopping early is no luck. How wide intervals are does not depend on who is ahead: stopping where they are narrow needs no such
price.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import scipy

from youden.errors import PlanError
from youden.nouns import Drawn, IndependentRule, Plan, Rounds, Trials
from youden.nouns.pool import Bools, Floats
from youden.protocol.designs.cyclic import MIN_SLOTS, Cyclic, check_shared, numbered, slots
from youden.protocol.designs.repair import PairRule, check_count, check_pairs, check_positive, check_share

SHARE = 0.9
"""Share of agents that keep the width where nobody names one: a single odd agent can take as many calls again as all others."""
LEAST_PILOT = 12
"""Slots of the first round at least: with fewer, variances are guesses."""
PILOT_SQUARES = 0.05
"""The first round has this over width² slots, half of what answers take that vary as little as any in the paper's data."""


@dataclass(frozen=True, kw_only=True)
class Width:
    """A first round of about .05/width² slots, then as many as the answers so far ask for; slots are those of `Cyclic`.

    width: the half width, 95 %, of an agent's distance from the average one, for items like these; share: of the agents that are
    to keep it. n_paired: paired calls at most, None for all there are.

    Raises: PlanError [design-option], [budget-width] for a budget under two slots, [nothing-shared].
    """

    n_paired: int | None = None
    width: float = 0.05
    share: float = SHARE
    pairs: PairRule = "ordered"
    name: ClassVar[str] = "width"
    holdout: ClassVar[float] = 0.0
    percent: ClassVar[float | None] = None
    judges_holdout: ClassVar[bool] = False
    independent: ClassVar[IndependentRule] = "pooled"
    options: ClassVar[tuple[str, ...]] = ("width", "share", "pairs")

    def __post_init__(self) -> None:
        check_positive("width", self.width)
        check_share("share", self.share)
        check_pairs(self.pairs)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        """The first round."""
        check_shared(eligible)
        n_agents = len(eligible)
        if self.n_paired is not None and self.n_paired < MIN_SLOTS * n_agents:
            raise PlanError(
                f"The budget leaves {self.n_paired} paired calls, fewer than the {MIN_SLOTS * n_agents} of two slots. "
                "Raise calls or trials.",
                slug="budget-width",
            )
        until = max(LEAST_PILOT, ceil(PILOT_SQUARES / self.width**2))
        chosen = self.more(eligible, rng, n_done=0, n_spent=0, until=until)
        most = "all the paired calls there are" if self.n_paired is None else f"{self.n_paired:,} paired calls"
        note = f"this is the first round; more follow until ± {self.width:g} is reached, with {most} at most"
        return Drawn(chosen, (note,), Rounds.first(n_agents, n_paired=self.n_paired))

    def more(self, eligible: Bools, rng: np.random.Generator, *, n_done: int, n_spent: int, until: int) -> Trials:
        """Slots `n_done` to `until`, as far as the budget and the pool go; rng: the one that `draw` began with, afresh."""
        chosen: list[Trials] = []
        for slot in islice(slots(eligible, rng, pairs=self.pairs), n_done, until):
            n_spent += len(slot)
            if self.n_paired is not None and n_spent > self.n_paired:
                break
            chosen.append(slot)
        return numbered(chosen, start=n_done)


def width_of(plan: Plan) -> Width:
    """The design that drew a plan in rounds of equal turns."""
    own: dict[str, Any] = {name: plan.options[name] for name in Width.options if name in plan.options}
    return Width(n_paired=None if plan.rounds is None else plan.rounds.n_paired, **own)


ALPHA = 0.05
"""Chance, over all looks together, that a run stops because a top is separated that is none; and of an interval to miss."""


class Standing(NamedTuple):
    """What is known after a look.

    ability: float[K]; covariance: float[K, K], of abilities less their mean, NaN where unknown; freedom: float[K], Student's.
    """

    ability: Floats
    covariance: Floats
    freedom: Floats

    @property
    def error(self) -> Floats:
        """Standard errors of abilities less their mean: float[K]."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def apart(self) -> Floats:
        """Standard errors of the differences of two agents: float[K, K]."""
        own = np.diag(self.covariance)
        return np.asarray(np.sqrt(np.maximum(own[:, None] + own - 2 * self.covariance, 0)))


class NextRound(NamedTuple):
    """trials: none where the run is over; active: bool[K], whose turn they are; over: why, or None; more: to be said of it."""

    trials: Trials
    active: Bools
    over: Literal["separated", "narrow", "budget", "items"] | None
    more: str = ""


@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """A pilot of `pilot` of the budget, then up to `rounds` rounds on the share `active` of agents whose places are least sure.

    An agent's unsureness is Σ_k Φ(−|θ_i − θ_k|/se), se of the difference, over the others, or over those on the other side of
    the top's edge where `top` is set. A slot of a round asks the pairs that hold an active agent, and counts for the active ones
    alone.
    Stops when the top `top` agents are separated from the rest, or every half width is ≤ `width`, or the budget is spent.

    Raises: PlanError [budget-adaptive] without a budget or with one too small for the pilot, [design-option].
    """

    n_paired: int | None = None
    pilot: float = 0.4
    rounds: int = 6
    active: float = 0.5
    top: int | None = None
    width: float | None = None
    pairs: PairRule = "ordered"
    name: ClassVar[str] = "adaptive"
    holdout: ClassVar[float] = 0.0
    percent: ClassVar[float | None] = 5.0
    judges_holdout: ClassVar[bool] = False
    independent: ClassVar[IndependentRule] = "pooled"
    options: ClassVar[tuple[str, ...]] = ("pilot", "rounds", "active", "top", "width", "pairs")

    def __post_init__(self) -> None:
        check_share("pilot", self.pilot)
        check_count("rounds", self.rounds)
        check_share("active", self.active)
        check_count("top", self.top)
        check_positive("width", self.width)
        check_pairs(self.pairs)

    @property
    def n_looks(self) -> int:
        """How often the data may be looked at: after the pilot and after every round."""
        return self.rounds + 1

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        """The pilot. Raises: PlanError [budget-adaptive], [nothing-shared]."""
        n_agents = len(eligible)
        if self.top is not None and self.top >= n_agents:
            raise PlanError(f"The top {self.top} of {n_agents} agents is everybody. Lower top.", slug="design-option")
        check_shared(eligible)
        budget = self._budget(eligible)
        pilot = int(budget * self.pilot)
        if pilot < MIN_SLOTS * n_agents:
            raise PlanError(
                f"The pilot has {pilot} of {budget} paired calls, fewer than the {MIN_SLOTS * n_agents} of two slots. "
                "Raise calls, percent or pilot.",
                slug="budget-adaptive",
            )
        paired = Cyclic(n_paired=pilot, pairs=self.pairs).draw(eligible, rng).trials
        note = f"this is the pilot; up to {self.rounds} rounds follow, {self.n_paired or 'as many'} paired calls in all"
        return Drawn(paired, (note,), Rounds.first(n_agents, n_paired=self.n_paired))

    def next_round(
        self, plan: Plan, rounds: Rounds, standing: Standing, *, eligible: Bools, rng: np.random.Generator
    ) -> NextRound:
        """What to ask after `plan`, a pure function of its arguments; rng: the one that `draw` began with, afresh."""
        n_spent = int((plan.slot >= 0).sum())
        n_done = int(plan.slot.max()) + 1
        nobody = np.zeros(len(eligible), dtype=np.bool_)
        over = self._over(standing)
        if over is not None or len(rounds.starts) > self.rounds:
            return NextRound(numbered([]), nobody, over or "budget")
        active = self._least_sure(standing)
        share = self.pilot + (1 - self.pilot) * len(rounds.starts) / self.rounds
        limit = int(self._budget(eligible) * share)
        chosen: list[Trials] = []
        for slot in islice(slots(eligible, rng, pairs=self.pairs), n_done, None):
            asked = active[slot.first] | active[slot.second]
            if n_spent + int(asked.sum()) > limit:
                break
            n_spent += int(asked.sum())
            chosen.append(slot.take(asked))
        trials = numbered(chosen, start=n_done)
        return NextRound(trials, active, None if len(trials) else "budget")

    def _budget(self, eligible: Bools) -> int:
        m = eligible.sum(axis=0, dtype=np.int64)
        most = int((m * (m - 1)).sum())
        return most if self.n_paired is None else min(self.n_paired, most)

    def _over(self, standing: Standing) -> Literal["separated", "narrow"] | None:
        known = not np.isnan(standing.error).any()
        if self.top is not None and known and self._separated(standing):
            return "separated"
        if self.width is not None and known:
            half = scipy.special.stdtrit(standing.freedom, 1 - ALPHA / 2) * standing.error
            return "narrow" if half.max() <= self.width else None
        return None

    def _separated(self, standing: Standing) -> bool:
        """Every agent of the estimated top against every other, by their difference, ALPHA shared among looks and pairs."""
        above = self._above(standing)
        across = np.ix_(above, ~above)
        one_sided = 1 - ALPHA / (self.n_looks * int(above.sum() * (~above).sum()))
        z = np.asarray(scipy.special.stdtrit(standing.freedom, one_sided))
        gap = standing.ability[above][:, None] - standing.ability[~above]
        return bool((gap > np.maximum(z[above][:, None], z[~above]) * standing.apart[across]).all())

    def _above(self, standing: Standing) -> Bools:
        above = np.zeros(len(standing.ability), dtype=np.bool_)
        above[np.argsort(-standing.ability, kind="stable")[: self.top]] = True
        return above

    def _least_sure(self, standing: Standing) -> Bools:
        ability, error = np.nan_to_num(standing.ability), np.nan_to_num(standing.apart, nan=1.0)
        apart = np.abs(ability[:, None] - ability) / np.maximum(error, 1e-12)
        confused = scipy.special.ndtr(-apart)
        np.fill_diagonal(confused, 0.0)
        if self.top is not None:
            above = self._above(standing)
            confused = np.where(above[:, None] != above, confused, 0.0)
        unsure = confused.sum(axis=1)
        n_active = max(2, int(np.ceil(self.active * len(ability))))
        active = np.zeros(len(ability), dtype=np.bool_)
        active[np.argsort(-unsure, kind="stable")[:n_active]] = True
        return active


def adaptive_of(plan: Plan) -> Adaptive:
    """The design that drew an adaptive plan."""
    own: dict[str, Any] = {name: plan.options[name] for name in Adaptive.options if name in plan.options}
    return Adaptive(n_paired=None if plan.rounds is None else plan.rounds.n_paired, **own)
