"""Designs that plan in rounds: until confidence intervals are narrow enough, or until the best agents are known.

`FixedWidth` samples all agents equally, so no round favours an agent. `Adaptive` samples fewer and fewer contenders,
and compares all of them with the same partner, on the same item and in the same order. The designs only draw rounds;
`pipeline/rounds.py` decides from the answers whether another round follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import ceil, lcm
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.cyclic import (
    MIN_BLOCKS,
    Cyclic,
    TrialDesign,
    check_shared_items,
    iter_blocks,
    number_blocks,
)
from youden.protocol.designs.repair import check_count, check_fraction, check_positive
from youden.types import PAIRED, DesignResult, Plan, Rounds, Trials
from youden.types.pool import Bools, Floats, Ids, Positions
from youden.types.trials import MAIN

HALF_WIDTH_FRACTION = 0.9
"""Fraction of agents that must reach the half-width: one unusual agent can take as many calls as all others."""
MIN_PILOT_BLOCKS = 12
"""Minimum number of blocks in the first round; with fewer, the variances are too uncertain."""
PILOT_BLOCKS_PER_PRECISION = 0.05
"""The first round has this number / half_width² blocks: half of what the least variable answers in the paper need."""


@dataclass(frozen=True, kw_only=True)
class FixedWidth(TrialDesign):
    """Cyclic blocks in rounds, until confidence intervals are narrow enough.

    The first round has about .05/half_width² blocks. Later rounds have as many as the answers so far require.

    Attributes
    ----------
    n_paired : int or None
        Maximum number of paired calls; None for all there are.
    half_width : float, default 0.05
        Half-width of the 95 % interval of an agent's distance from the average agent, for items like these, which a
        fraction `HALF_WIDTH_FRACTION` of the agents must reach.
    pairs : {"ordered", "unordered"}, default "ordered"
        Whether pairs may be judged in both orders.

    Raises
    ------
    PlanError
        [design-option]: if an option is invalid.
    """

    half_width: float = 0.05
    name: ClassVar[str] = "fixed-width"
    options: ClassVar[tuple[str, ...]] = ("half_width", "pairs")

    def __post_init__(self) -> None:
        check_positive("half_width", self.half_width)
        super().__post_init__()

    def draw(self, eligible: Bools, rng: np.random.Generator) -> DesignResult:
        """Draw the first round; eligible : bool array (n_agents, n_items).

        Raises
        ------
        PlanError
            [budget-width]: if the budget is less than two blocks; [nothing-shared]: if no item has two eligible agents.
        """
        check_shared_items(eligible)
        n_agents = len(eligible)
        if self.n_paired is not None and self.n_paired < MIN_BLOCKS * n_agents:
            raise PlanError(
                f"The budget is less than two blocks, {MIN_BLOCKS * n_agents} paired calls: got {self.n_paired}. Set more calls.",
                slug="budget-width",
            )
        until = max(MIN_PILOT_BLOCKS, ceil(PILOT_BLOCKS_PER_PRECISION / self.half_width**2))
        trials = self.draw_blocks(eligible, rng, n_done=0, n_spent=0, until=until)
        limit = "all possible paired calls" if self.n_paired is None else f"{self.n_paired:,} paired calls"
        note = f"this is the first round; more follow until ± {self.half_width:g} is reached, up to {limit}"
        return DesignResult(trials, (note,), Rounds.first(n_agents, n_paired=self.n_paired))

    def draw_blocks(
        self, eligible: Bools, rng: np.random.Generator, *, n_done: int, n_spent: int, until: int
    ) -> Trials:
        """Draw the blocks numbered from `n_done` to `until` − 1, as far as the budget and the pool allow.

        `rng` must be in the state in which `draw` got it; `n_spent` is the number of paired calls so far.
        """
        blocks: list[Trials] = []
        for block in islice(iter_blocks(eligible, rng, pairs=self.pairs), n_done, until):
            n_spent += len(block)
            if self.n_paired is not None and n_spent > self.n_paired:
                break
            blocks.append(block)
        return number_blocks(blocks, start=n_done)


def get_width_design(plan: Plan) -> FixedWidth:
    """Return the design that drew a plan with a given half-width.

    Parameters
    ----------
    plan : Plan
        A plan of the design "fixed-width".

    Returns
    -------
    FixedWidth
    """
    options: dict[str, Any] = {name: plan.options[name] for name in FixedWidth.options if name in plan.options}
    return FixedWidth(n_paired=None if plan.rounds is None else plan.rounds.n_paired, **options)


MIN_SEARCH_PILOT_BLOCKS = 24
"""Minimum number of blocks in the pilot of a search."""
PILOT_BLOCKS_PER_REGRET = 0.04
"""The pilot of a search has about this number divided by max_regret² blocks, if there is a maximum regret."""


class NextRound(NamedTuple):
    """The next round of a plan, or the reason why there is none.

    Attributes
    ----------
    trials : Trials
        Paired trials of the round; empty if the run stops.
    active : bool array (n_agents,)
        Agents that the round samples.
    stop_reason : {"near enough", "narrow", "budget", "items", "judge"} or None
        Why the run stops; None if it continues.
    detail : str
        Text that follows the stop reason.
    """

    trials: Trials
    active: Bools
    stop_reason: Literal["near enough", "narrow", "budget", "items", "judge"] | None
    detail: str = ""


ELIMINATION_POWER = 0.5
"""Power of the finished fraction of rounds by which the number of contenders falls. Below 1, early rounds eliminate
more agents, so that the last few contenders, on which the regret depends, get more trials."""


def select_contenders(ability: Floats, top: int, progress: float) -> Bools:
    """Select the agents nearest to the boundary of the top.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, NaN for agents without one.
    top : int
        Number of agents to find.
    progress : float in [0, 1]
        Fraction of the rounds that are finished: 0 selects all agents, 1 selects `top` + 1.

    Returns
    -------
    bool array (n_agents,)
        Whether each agent is a contender.
    """
    values, n_agents = np.nan_to_num(ability, nan=-2.0), len(ability)
    # midway between the last agent in the top and the first one out of it
    boundary = np.sort(values)[::-1][top - 1 : top + 1].mean()
    n_contenders = ceil(round(n_agents * ((top + 1) / n_agents) ** progress**ELIMINATION_POWER, 6))
    is_contender = np.zeros(n_agents, dtype=np.bool_)
    is_contender[np.argsort(np.abs(values - boundary), kind="stable")[:n_contenders]] = True
    return is_contender


DEFAULT_ROUNDS = 5
"""Default number of rounds of a search that spends its budget."""
_MAX_ROUNDS_TO_REGRET = 40
"""Maximum number of rounds of a search with a maximum regret; it seldom takes ten."""


@dataclass(frozen=True, kw_only=True)
class Adaptive(TrialDesign):
    """A search for the best agents: a pilot of cyclic blocks, then rounds on fewer and fewer contenders.

    Attributes
    ----------
    n_paired : int or None
        Maximum number of paired calls; None for all there are.
    pilot : float in (0, 1], optional
        Fraction of the budget for the pilot.
    rounds : int, optional
        Maximum number of rounds after the pilot.
    top : int, default 1
        Number of agents to find.
    max_regret : float, optional
        Maximum regret at which the search stops. By default, it stops when the selected agents are significantly better
        than all others, or when the budget is spent.
    pairs : {"ordered", "unordered"}, default "ordered"
        Whether pairs may be judged in both orders.

    Raises
    ------
    PlanError
        [design-option]: if an option is invalid.

    Notes
    -----
    In a block of a round, every contender is compared with one partner on one item and in one order, so
    neither the partner nor the item favours a contender. A block counts for its contenders alone. Blocks go through
    items and partners in random orders; no comparison is repeated.

    Without `max_regret`, the pilot has a quarter of the budget, or 24 blocks if these are more, but at most half of the
    budget. Each round has an equal part of the rest. Contenders are the agents nearest to the boundary of the top;
    their number falls to `top` + 1, faster in the first rounds.

    With `max_regret`, the pilot has .04/max_regret² blocks, at least 24 and at most a quarter of the budget. Each round
    samples the agents that keep the regret bound too large, as much as they seem to need.

    References
    ----------
    Karnin, Koren and Somekh (2013), who halve the contenders each round; arXiv 2606.07726, where
    contenders share comparisons.
    """

    pilot: float | None = None
    rounds: int | None = None
    top: int = 1
    max_regret: float | None = None
    name: ClassVar[str] = "adaptive"
    default_trials_per_agent: ClassVar[float | None] = 1125
    options: ClassVar[tuple[str, ...]] = ("pilot", "rounds", "top", "max_regret", "pairs")

    def __post_init__(self) -> None:
        check_fraction("pilot", self.pilot)
        check_count("rounds", self.rounds)
        check_count("top", self.top)
        check_positive("max_regret", self.max_regret)
        super().__post_init__()

    @property
    def n_rounds(self) -> int:
        """Maximum number of rounds after the pilot: `rounds`, else 5, or 40 with `max_regret`."""
        return self.rounds or (DEFAULT_ROUNDS if self.max_regret is None else _MAX_ROUNDS_TO_REGRET)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> DesignResult:
        """Draw the pilot; eligible : bool array (n_agents, n_items).

        Raises
        ------
        PlanError
            [budget-adaptive]: if the pilot is less than two blocks; [design-option]: if `top` includes all agents;
            [nothing-shared]: if no item has two eligible agents.
        """
        n_agents = len(eligible)
        if self.top >= n_agents:
            raise PlanError(
                f"top must be less than the number of agents, {n_agents}: got {self.top}. Set a smaller top.",
                slug="design-option",
            )
        check_shared_items(eligible)
        budget = self.budget(eligible)
        if self.pilot is not None:
            n_pilot = int(budget * self.pilot)
        elif self.max_regret is None:
            n_pilot = max(budget // 4, min(n_agents * MIN_SEARCH_PILOT_BLOCKS, budget // 2))
        else:
            n_blocks = max(MIN_SEARCH_PILOT_BLOCKS, ceil(PILOT_BLOCKS_PER_REGRET / self.max_regret**2))
            n_pilot = min(budget // 4, n_agents * n_blocks)
        if n_pilot < MIN_BLOCKS * n_agents:
            raise PlanError(
                f"The pilot is less than two blocks, {MIN_BLOCKS * n_agents} paired calls: got {n_pilot} of {budget} calls. Set "
                "more calls, or a larger pilot.",
                slug="budget-adaptive",
            )
        paired = Cyclic(n_paired=n_pilot, pairs=self.pairs).draw(eligible, rng).trials
        limit = "all possible" if not self.n_paired else f"{self.n_paired:,}"
        note = f"this is the pilot; rounds on fewer and fewer contenders follow, up to {limit} paired calls in all"
        return DesignResult(paired, (note,), Rounds.first(n_agents, n_paired=self.n_paired))

    def next_round(
        self,
        plan: Plan,
        rounds: Rounds,
        ability: Floats,
        *,
        eligible: Bools,
        rng: np.random.Generator,
        active: Bools | None = None,
        n_blocks: int = 0,
    ) -> NextRound:
        """Draw the next round; the result depends only on the arguments.

        Parameters
        ----------
        plan : Plan
            The plan so far.
        rounds : Rounds
            Its rounds.
        ability : float array (n_agents,)
            Abilities by the answers so far.
        eligible : bool array (n_agents, n_items)
            Cells that may be compared.
        rng : Generator
            Random numbers in the state in which `draw` got them.
        active : bool array (n_agents,), optional
            Contenders. Default: those nearest to the boundary of the top.
        n_blocks : int, default 0
            Number of blocks; used only with `active`. Without it, the round has an equal part of the budget.

        Returns
        -------
        NextRound
            Without trials if the rounds or the budget are spent.
        """
        n_rounds, budget = len(rounds.starts), self.budget(eligible)
        n_spent = int((plan.block >= 0).sum())
        if active is None:
            progress = n_rounds / self.n_rounds
            active = select_contenders(ability, self.top, progress)
            n_pilot = int(((plan.block >= 0) & (plan.trials.step == 0)).sum())
            until = n_pilot + int((budget - n_pilot) * n_rounds / self.n_rounds)
        else:
            until = min(budget, n_spent + n_blocks * int(active.sum()))
        if n_rounds > self.n_rounds:
            return NextRound(number_blocks([]), active, "budget")
        first_block = (*rounds.starts, int(plan.block.max()) + 1)[1]
        trials = self._draw_blocks(plan, active, eligible, rng, first_block=first_block, n_trials=until - n_spent)
        stop_reason: Literal["budget"] | None = None if len(trials) else "budget"
        return NextRound(trials, active, stop_reason)

    def budget(self, eligible: Bools) -> int:
        """Return the maximum number of paired trials; eligible : bool array (n_agents, n_items)."""
        n_on_item = eligible.sum(axis=0, dtype=np.int64)
        n_dense = int((n_on_item * (n_on_item - 1)).sum())
        return n_dense if self.n_paired is None else min(self.n_paired, n_dense)

    def _draw_blocks(
        self,
        plan: Plan,
        active: Bools,
        eligible: Bools,
        rng: np.random.Generator,
        *,
        first_block: int,
        n_trials: int,
    ) -> Trials:
        """Draw at most `n_trials` trials of the contenders that are not in the plan yet, block by block.

        All rounds go through the same sequence of blocks, whose first block has the number `first_block`. A contender
        that was dropped and comes back therefore catches up with the comparisons of the others.
        """
        n_agents, n_items = eligible.shape
        items, partners = rng.permutation(n_items), rng.permutation(n_agents)
        contender_is_first = rng.random(n_items * n_agents) < 0.5
        contenders = np.flatnonzero(active)
        is_paired = plan.trial_type == PAIRED
        planned = self._comparison_codes(plan.item[is_paired], plan.first[is_paired], plan.second[is_paired], n_agents)
        begun = np.unique(plan.block) - first_block
        drawn: list[Trials] = []
        position, end = 0, (2 if self.pairs == "ordered" else 1) * n_items * n_agents
        while position < end:
            stop = min(end, position + max(n_trials // len(contenders), _MIN_CHUNK_BLOCKS))
            number = np.arange(position, stop)  # of each block in the sequence
            position = stop

            # item, partner and order of each block, repeated for each contender
            block, agent = np.repeat(number - number[0], len(contenders)), np.tile(contenders, len(number))
            item = items[number % n_items][block]
            partner = partners[(number + number // lcm(n_items, n_agents)) % n_agents][block]
            is_second_pass = number >= n_items * n_agents
            is_first = (contender_is_first[number % (n_items * n_agents)] ^ is_second_pass)[block]
            first, second = np.where(is_first, agent, partner), np.where(is_first, partner, agent)

            # new comparisons of eligible cells, each once
            code = self._comparison_codes(item, first, second, n_agents)
            is_eligible = (agent != partner) & eligible[agent, item] & eligible[partner, item]
            is_new = is_eligible & ~np.isin(code, planned)
            is_new[np.setdiff1d(np.arange(len(code)), np.unique(code, return_index=True)[1])] = False

            # a new block needs two contenders, and blocks are taken while they fit
            size = np.bincount(block[is_new], minlength=len(number))
            size[(size < 2) & ~np.isin(number, begun)] = 0
            fits = np.cumsum(size) <= n_trials
            is_new &= ((size > 0) & fits)[block]
            columns = (item[is_new], first[is_new], second[is_new])
            planned = np.append(planned, self._comparison_codes(*columns, n_agents))
            block = first_block + number[block[is_new]]
            item, first, second, block = (column.astype(np.int32) for column in (*columns, block))
            trials = Trials.paired(item, first, second, block=block)
            drawn.append(trials.with_role(MAIN, first=is_first[is_new], second=~is_first[is_new]))
            n_trials -= len(block)
            if not fits.all():
                break
        return Trials.concat(drawn)

    def _comparison_codes(self, item: Ids, first: Ids, second: Ids, n_agents: int) -> Positions:
        """Encode comparisons as numbers, int64 array (n_trials,); both orders get one number if pairs are unordered."""
        if self.pairs == "unordered":
            first, second = np.minimum(first, second), np.maximum(first, second)
        return np.asarray((item * np.int64(n_agents) + first) * n_agents + second)


_MIN_CHUNK_BLOCKS = 64
"""Minimum number of blocks that are drawn together."""


def get_adaptive_design(plan: Plan) -> Adaptive:
    """Return the design that drew an adaptive plan.

    Parameters
    ----------
    plan : Plan
        A plan of the design "adaptive".

    Returns
    -------
    Adaptive
    """
    options: dict[str, Any] = {name: plan.options[name] for name in Adaptive.options if name in plan.options}
    return Adaptive(n_paired=None if plan.rounds is None else plan.rounds.n_paired, **options)


STOPPING_OPTIONS = {FixedWidth.name: ("half_width",), Adaptive.name: ("max_regret",)}
"""Options that decide when a run in rounds stops, but not what its rounds sample."""
