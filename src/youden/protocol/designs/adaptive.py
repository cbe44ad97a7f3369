"""Designs that ask in rounds: until intervals have a width, or until who is best is known near enough.

`Width` asks cyclic slots of all agents alike, so no round favours anybody. How many slots come next, and whether it is enough, is
decided from the answers (`pipeline/rounds.py`); here is what they are.

`Adaptive` asks a pilot of all agents, then fewer and fewer contenders, all of them the same: one item, one partner, one order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import ceil, lcm
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.cyclic import MIN_SLOTS, Cyclic, OverTrials, check_shared, numbered, slots
from youden.protocol.designs.repair import check_count, check_positive, check_share
from youden.types import Drawn, Plan, Rounds, Trials
from youden.types.pool import Bools, Floats, Ids, Positions
from youden.types.trials import PLAN

SHARE = 0.9
"""Fraction of agents that must reach the half-width: a single unusual agent can take as many calls as all others together."""
LEAST_PILOT = 12
"""Slots of the first round at least: with fewer, variances are guesses."""
PILOT_SQUARES = 0.05
"""The first round has this over width² slots, half of what answers take that vary as little as any in the paper's data."""


@dataclass(frozen=True, kw_only=True)
class Width(OverTrials):
    """A first round of about .05/width² slots, then as many as the answers so far ask for; slots are those of `Cyclic`.

    width: half-width of the 95 % interval of an agent's distance from the average agent, for items like these, which a fraction
    `SHARE` of the agents must reach. n_paired: maximum number of paired calls; None: all there are.

    Raises: PlanError [design-option], [budget-width] for a budget under two slots, [nothing-shared].
    """

    width: float = 0.05
    name: ClassVar[str] = "width"
    options: ClassVar[tuple[str, ...]] = ("width", "pairs")

    def __post_init__(self) -> None:
        check_positive("width", self.width)
        super().__post_init__()

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        """The first round."""
        check_shared(eligible)
        n_agents = len(eligible)
        if self.n_paired is not None and self.n_paired < MIN_SLOTS * n_agents:
            raise PlanError(
                f"The budget leaves {self.n_paired} paired calls, fewer than the {MIN_SLOTS * n_agents} of two slots. "
                "Raise calls.",
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


LEAST_SEARCH_PILOT, PILOT_BOUNDS = 24, 0.04
"""The first round of a search has at least so many slots, and this over the squared bound that is asked for in slots."""


class NextRound(NamedTuple):
    """trials: none where the run is over; active: bool[K], whose turn they are; over: why, or None; more: to be said of it."""

    trials: Trials
    active: Bools
    over: Literal["near enough", "narrow", "budget", "items", "judge"] | None
    more: str = ""


EARLIER = 0.5
"""Contenders grow fewer as if this power of the rounds had come: regret comes from the last few, who so are asked more."""


def contenders(ability: Floats, top: int, come: float) -> Bools:
    """Those nearest to the edge of the top, of all agents at first, of one more than the top at last: bool[K].

    ability: float[K]; come: how much of the rounds has come, from 0 to 1.
    """
    known, K = np.nan_to_num(ability, nan=-2.0), len(ability)
    edge = np.sort(known)[::-1][top - 1 : top + 1].mean()
    n = ceil(round(K * ((top + 1) / K) ** come**EARLIER, 6))
    active = np.zeros(K, dtype=np.bool_)
    active[np.argsort(np.abs(known - edge), kind="stable")[:n]] = True
    return active


ROUNDS = 5
"""Rounds of a search that spends its calls, if nobody says how many."""


@dataclass(frozen=True, kw_only=True)
class Adaptive(OverTrials):
    """A pilot of cyclic slots, then at most `n_rounds` rounds on fewer and fewer contenders for the `top` places.

    They meet in blocks: one item, one partner, one order, in which every contender is compared with that partner, so that neither
    sets them apart. A block stands as a slot and counts for its contenders alone. Blocks go round items and partners in random
    orders; nothing is asked twice.
    Without `within`, the pilot has a quarter of the budget, or 24 slots if these are more and at most half of it; each round
    has as much of what is left, and contenders are the agents nearest to the edge of the top, midway between the last one in
    it and the first one out of it: fewer each round, by a larger factor in the first ones, to `top` + 1. With `within`, the
    pilot has .04/within² slots, 24 at least and at most a quarter of the budget, and each round asks those who keep the bound
    from being there as much as they seem to need (`pipeline/rounds.py`). A `pilot` that is given holds in either case: that share
    of the budget. The run ends when those named are at most `within` behind the last one that belongs to the top, None for 0;
    or when the budget is spent.

    Raises: PlanError [budget-adaptive] with a budget too small for the pilot, [design-option].
    Source: Karnin, Koren and Somekh (2013), who halve contenders; arXiv 2606.07726, where they share what they are asked.
    """

    pilot: float | None = None
    rounds: int | None = None
    top: int = 1
    within: float | None = None
    name: ClassVar[str] = "adaptive"
    default_trials_per_agent: ClassVar[float | None] = 1125
    options: ClassVar[tuple[str, ...]] = ("pilot", "rounds", "top", "within", "pairs")

    def __post_init__(self) -> None:
        check_share("pilot", self.pilot)
        check_count("rounds", self.rounds)
        check_count("top", self.top)
        check_positive("within", self.within)
        super().__post_init__()

    @property
    def n_rounds(self) -> int:
        """Rounds at most: `rounds`, or 5, or 40 until a bound, which hardly ever takes ten."""
        return self.rounds or (ROUNDS if self.within is None else 40)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        """The pilot. Raises: PlanError [budget-adaptive], [nothing-shared]."""
        n_agents = len(eligible)
        if self.top >= n_agents:
            raise PlanError(f"The top {self.top} of {n_agents} agents is everybody. Lower top.", slug="design-option")
        check_shared(eligible)
        budget = self.budget(eligible)
        if self.pilot is not None:
            pilot = int(budget * self.pilot)
        elif self.within is None:
            pilot = max(budget // 4, min(n_agents * LEAST_SEARCH_PILOT, budget // 2))
        else:
            pilot = min(budget // 4, n_agents * max(LEAST_SEARCH_PILOT, ceil(PILOT_BOUNDS / self.within**2)))
        if pilot < MIN_SLOTS * n_agents:
            raise PlanError(
                f"The pilot has {pilot} of {budget} paired calls, fewer than the {MIN_SLOTS * n_agents} of two slots. "
                "Raise calls or pilot.",
                slug="budget-adaptive",
            )
        paired = Cyclic(n_paired=pilot, pairs=self.pairs).draw(eligible, rng).trials
        note = f"this is the pilot; rounds on fewer and fewer contenders follow, {self.n_paired or 'as many'} paired calls in all"
        return Drawn(paired, (note,), Rounds.first(n_agents, n_paired=self.n_paired))

    def next_round(
        self,
        plan: Plan,
        rounds: Rounds,
        ability: Floats,
        *,
        eligible: Bools,
        rng: np.random.Generator,
        active: Bools | None = None,
        more: int = 0,
    ) -> NextRound:
        """What to ask after `plan`, a pure function of its arguments; rng: the one that `draw` began with, afresh.

        active, more: whose turn it is and how many blocks, in place of the shares of the budget that are asked by default.
        """
        n_rounds, budget = len(rounds.starts), self.budget(eligible)
        n_spent = int((plan.slot >= 0).sum())
        if active is None:
            active = contenders(ability, self.top, n_rounds / self.n_rounds)
            n_pilot = int(((plan.slot >= 0) & (plan.trials.step == 0)).sum())
            until = n_pilot + int((budget - n_pilot) * n_rounds / self.n_rounds)
        else:
            until = min(budget, n_spent + more * int(active.sum()))
        if n_rounds > self.n_rounds:
            return NextRound(numbered([]), active, "budget")
        start = (*rounds.starts, int(plan.slot.max()) + 1)[1]
        trials = self._blocks(plan, active, eligible, rng, start=start, n=until - n_spent)
        return NextRound(trials, active, None if len(trials) else "budget")

    def budget(self, eligible: Bools) -> int:
        """Paired trials at most."""
        m = eligible.sum(axis=0, dtype=np.int64)
        most = int((m * (m - 1)).sum())
        return most if self.n_paired is None else min(self.n_paired, most)

    def _blocks(
        self, plan: Plan, active: Bools, eligible: Bools, rng: np.random.Generator, *, start: int, n: int
    ) -> Trials:
        """What contenders have not been asked of the blocks, in order, the first of which has slot `start`: at most `n` trials.

        So who comes back among them catches up with what the others were asked.
        """
        K, J = eligible.shape
        items, partners, leads = rng.permutation(J), rng.permutation(K), rng.random(J * K) < 0.5
        contenders = np.flatnonzero(active)
        asked = self._codes(plan.item, plan.first, plan.second, K)
        chosen: list[Trials] = []
        begun = np.unique(plan.slot) - start
        at, end = 0, (2 if self.pairs == "ordered" else 1) * J * K
        while at < end:
            turn = np.arange(at, min(end, at + max(n // len(contenders), _AT_ONCE)))
            at = int(turn[-1]) + 1
            block, agent = np.repeat(turn - turn[0], len(contenders)), np.tile(contenders, len(turn))
            item = items[turn % J][block]
            partner = partners[(turn + turn // lcm(J, K)) % K][block]
            lead = (leads[turn % (J * K)] ^ (turn >= J * K))[block]
            first, second = np.where(lead, agent, partner), np.where(lead, partner, agent)
            code = self._codes(item, first, second, K)
            kept = (agent != partner) & eligible[agent, item] & eligible[partner, item] & ~np.isin(code, asked)
            kept[np.setdiff1d(np.arange(len(code)), np.unique(code, return_index=True)[1])] = False
            size = np.bincount(block[kept], minlength=len(turn))
            size[(size < 2) & ~np.isin(turn, begun)] = 0
            fits = np.cumsum(size) <= n
            kept &= ((size > 0) & fits)[block]
            columns = (item[kept], first[kept], second[kept])
            asked = np.append(asked, self._codes(*columns, K))
            item, first, second, slot = (column.astype(np.int32) for column in (*columns, start + turn[block[kept]]))
            tells = Trials.paired(item, first, second, slot=slot)
            chosen.append(tells.marked(PLAN, first=lead[kept], second=~lead[kept]))
            n -= len(slot)
            if not fits.all():
                break
        return Trials.concat(chosen)

    def _codes(self, item: Ids, first: Ids, second: Ids, K: int) -> Positions:
        """What is compared, as a number: int64[N]; of a pair in both orders the same where it is not to be asked in both."""
        if self.pairs == "unordered":
            first, second = np.minimum(first, second), np.maximum(first, second)
        return np.asarray((item * np.int64(K) + first) * K + second)


_AT_ONCE = 64
"""Blocks that are drawn together at least."""


def adaptive_of(plan: Plan) -> Adaptive:
    """The design that drew an adaptive plan."""
    own: dict[str, Any] = {name: plan.options[name] for name in Adaptive.options if name in plan.options}
    return Adaptive(n_paired=None if plan.rounds is None else plan.rounds.n_paired, **own)


GOALS = {Width.name: ("width",), Adaptive.name: ("within",)}
"""Options that say when a run in rounds ends, not what it asks until then."""
