"""Design that searches for the best agents in rounds.

It samples fewer and fewer contenders, and compares all of them with the same partner, on the same item and in the same
order. It only draws rounds; `pipeline/rounds.py` decides from the answers whether another round follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.cyclic import MIN_BLOCKS, Cyclic, TrialDesign, check_shared_items, number_blocks
from youden.protocol.designs.fixed_width import FixedWidth
from youden.protocol.designs.parts.block_sequence import BlockSequence
from youden.protocol.designs.parts.repair import check_count, check_fraction, check_positive, count_comparisons
from youden.types import PAIRED, DesignResult, Plan, Rounds, Trials
from youden.types.pool import Bools, Floats, Ids, Positions

MIN_SEARCH_PILOT_BLOCKS = 24
"""Minimum number of blocks in the pilot of a search."""
PILOT_BLOCKS_PER_REGRET = 0.04
"""A search with a maximum regret has a pilot of about this number / max_regret² blocks."""
RoundStop = Literal["near enough", "narrow", "budget", "items", "judge", "judges", "rates"]
"""Why a plan gets no more rounds, see `NextRound`."""


class NextRound(NamedTuple):
    """The next round of a plan, or the reason why there is none.

    Attributes
    ----------
    trials : Trials
        Paired trials of the round; empty if the run stops.
    active : bool array (n_agents,)
        Agents that the round samples.
    stop_reason : {"near enough", "narrow", "budget", "items", "judge", "judges", "rates"} or None
        Why the run stops, None if it continues: regret bound reached, half-width reached, no calls left, half-width not
        possible on these items, a judge that does not discriminate, judges that differ too much, or false-positive rates that are
        too uncertain.
    detail : str
        Text that a message appends to the description of the reason.
    """

    trials: Trials
    active: Bools
    stop_reason: RoundStop | None
    detail: str = ""


ELIMINATION_POWER = 0.5
"""Power of the finished fraction of rounds by which the number of contenders falls. Below 1, early rounds eliminate
more agents, so that the last few contenders, on which the regret depends, get more trials."""


def select_contenders(ability: Floats, top: int, progress: float) -> Bools:
    """Select the contenders: the agents whose abilities are nearest to the boundary between the best ones and the rest.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities. An agent without one (NaN) counts as worse than all others.
    top : int
        Number of best agents to find, from 1 to n_agents − 1. The boundary is midway between the abilities of the agents with the
        ranks `top` and `top` + 1.
    progress : float in [0, 1]
        Fraction of the rounds that are finished: 0 selects all agents, 1 selects `top` + 1. The number of contenders is
        n_agents·((top + 1)/n_agents)^√progress, rounded up.

    Returns
    -------
    bool array (n_agents,)
        Whether each agent is a contender. Of equally near agents, the first ones are preferred.
    """
    n_agents = len(ability)
    ability = np.nan_to_num(ability, nan=-2.0)  # below every ability

    # midway between the last agent in the top and the first one out of it
    best_first = np.sort(ability)[::-1]
    boundary = best_first[top - 1 : top + 1].mean()

    # the number falls geometrically from all agents to top + 1
    final_fraction = (top + 1) / n_agents
    elimination = progress**ELIMINATION_POWER
    n_remaining = n_agents * final_fraction**elimination
    n_contenders = ceil(round(n_remaining, 6))  # without `round`, a floating-point error could add a contender

    distance = np.abs(ability - boundary)
    nearest_first = np.argsort(distance, kind="stable")
    is_contender = np.zeros(n_agents, dtype=np.bool_)
    is_contender[nearest_first[:n_contenders]] = True
    return is_contender


DEFAULT_ROUNDS = 5
"""Default number of rounds of a search that spends its budget."""
_MAX_ROUNDS_TO_REGRET = 40
"""Maximum number of rounds of a search with a maximum regret; it seldom takes ten."""


@dataclass(frozen=True, kw_only=True)
class Adaptive(TrialDesign):
    """A search for the best agents: a pilot of cyclic blocks, then rounds on fewer and fewer contenders.

    Use it to select the best agent, or the best few. The key `top` selects it, with or without `max_regret`.

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
    In a block of a round, all contenders are compared with the same partner, on the same item and in the same order. Neither
    the partner nor the item therefore favors a contender. The trials of a block measure its contenders, not the partner.
    Blocks go through items and partners in random orders; no comparison is repeated.

    Without `max_regret`, the pilot has a quarter of the budget, or 24 blocks if these are more, but at most half of the
    budget. Each round has an equal part of the rest. Contenders are the agents nearest to the boundary between the
    `top` best ones and the rest; their number falls to `top` + 1, faster in the first rounds.

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
        if self.rounds:
            return self.rounds
        return DEFAULT_ROUNDS if self.max_regret is None else _MAX_ROUNDS_TO_REGRET

    def draw(self, eligible: Bools, rng: np.random.Generator) -> DesignResult:
        """Draw the trials of the pilot, which comes before the first round.

        The pilot compares all agents in cyclic blocks. A block has one item, on which each agent is compared once as the
        first and once as the second. The trials of the rounds depend on earlier answers, so they are drawn later. The
        attribute `n_paired` is the budget of the pilot and all rounds together.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells (agent, item) that may be compared.
        rng : numpy.random.Generator
            Source of all random numbers.

        Returns
        -------
        DesignResult
            Paired `trials` of the pilot with their block numbers, `notes` with one note on the rounds that follow, and the record
            `rounds`, which has only the pilot so far.

        Raises
        ------
        PlanError
            [design-option]: if `top` is not below the number of agents; [budget-adaptive]: if the pilot has fewer than
            two blocks; [nothing-shared]: if no item has two eligible agents.
        """
        n_agents = len(eligible)
        if self.top >= n_agents:
            raise PlanError(
                f"top must be less than the number of agents, {n_agents}: got {self.top}. Set a smaller top.",
                slug="design-option",
            )
        check_shared_items(eligible)
        budget = self.budget(eligible)
        n_pilot = self._count_pilot_calls(n_agents, budget)
        n_needed = MIN_BLOCKS * n_agents
        if n_pilot < n_needed:
            raise PlanError(
                f"The pilot is less than two blocks, {n_needed} paired calls: got {n_pilot} of {budget} calls. Set "
                "more calls, or a larger pilot.",
                slug="budget-adaptive",
            )

        pilot = Cyclic(n_paired=n_pilot, pairs=self.pairs).draw(eligible, rng).trials
        limit = f"{self.n_paired:,}" if self.n_paired else "all possible"
        note = f"this is the pilot; rounds on fewer and fewer contenders follow, up to {limit} paired calls in all"
        rounds = Rounds.first(n_agents, n_paired=self.n_paired)
        return DesignResult(pilot, (note,), rounds)

    def _count_pilot_calls(self, n_agents: int, budget: int) -> int:
        """Return the maximum number of paired calls of the pilot, the first part of a search, which samples all agents equally.

        - If the option `pilot` is set: this fraction of the budget.
        - Without a maximum regret: a quarter of the budget.
        - With a maximum regret: the number of calls that this precision needs.

        In the last two cases, the number is at least that of `MIN_SEARCH_PILOT_BLOCKS` blocks. It is at most half of the budget,
        or a quarter of it with a maximum regret.

        budget : number of paired calls of the whole search
        """
        if self.pilot is not None:
            return int(budget * self.pilot)

        quarter_of_budget = budget // 4
        min_calls = n_agents * MIN_SEARCH_PILOT_BLOCKS  # a block has one call per agent
        if self.max_regret is None:
            half_of_budget = budget // 2
            return max(quarter_of_budget, min(min_calls, half_of_budget))

        # the number of trials that give an interval of a given width is proportional to 1/width²
        n_blocks_for_regret = ceil(PILOT_BLOCKS_PER_REGRET / self.max_regret**2)
        calls_for_regret = max(min_calls, n_agents * n_blocks_for_regret)
        return min(quarter_of_budget, calls_for_regret)

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
        """Draw the next round of comparisons among the contenders, the agents that may still be among the best.

        The result depends only on the arguments.

        Parameters
        ----------
        plan : Plan
            The plan so far. Comparisons of its trials are not drawn again.
        rounds : Rounds
            Its rounds so far, the pilot included.
        ability : float array (n_agents,)
            Abilities by the answers so far; an agent without one (NaN) counts as worse than all others. Not used if
            `active` is set.
        eligible : bool array (n_agents, n_items)
            Cells (agent, item) that may be compared.
        rng : numpy.random.Generator
            Random generator in the same state as when it was passed to `draw`.
        active : bool array (n_agents,), optional
            Whether each agent is a contender. Default: the agents whose abilities are nearest to the boundary between
            the best agents and the rest.
        n_blocks : int, default 0
            Maximum number of blocks of the round. Set it whenever `active` is set, because a round of 0 blocks has no trials.
            Without `active`, it is ignored, and each round gets an equal part of the budget that the pilot leaves.

        Returns
        -------
        NextRound
            Paired `trials` with block numbers, contenders `active` (bool array), and `stop_reason`. If the rounds, the budget or
            the possible comparisons are used up, there are no trials and the reason is "budget". Otherwise, the reason is None.
        """
        next_number = len(rounds.starts)  # the pilot is number 0
        budget = self.budget(eligible)
        is_in_block = plan.block >= 0
        n_spent = int(is_in_block.sum())

        # paired trials of the plan after this round
        if active is None:
            active = select_contenders(ability, self.top, next_number / self.n_rounds)
            n_pilot = int((is_in_block & (plan.trials.step == 0)).sum())
            n_after_round = n_pilot + int((budget - n_pilot) * next_number / self.n_rounds)
        else:
            n_of_round = n_blocks * int(active.sum())
            n_after_round = min(budget, n_spent + n_of_round)
        if next_number > self.n_rounds:
            return NextRound(number_blocks([]), active, "budget")

        # all rounds share one sequence of blocks, which begins after the pilot
        has_earlier_round = next_number > 1
        first_block = rounds.starts[1] if has_earlier_round else int(plan.block.max()) + 1
        n_trials = n_after_round - n_spent
        trials = self._draw_blocks(plan, active, eligible, rng, first_block=first_block, n_trials=n_trials)
        stop_reason: RoundStop | None = None if len(trials) else "budget"
        return NextRound(trials, active, stop_reason)

    def budget(self, eligible: Bools) -> int:
        """Return the maximum number of paired trials of the whole search: the pilot and all rounds.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells that may be compared.

        Returns
        -------
        int
            `n_paired`, or the number of all possible comparisons if this is smaller. A pair of agents has two comparisons
            on an item, or one if `pairs` is "unordered".
        """
        n_possible = count_comparisons(eligible, eligible, n_partners=None, pairs=self.pairs)
        return n_possible if self.n_paired is None else min(self.n_paired, n_possible)

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

        A block compares all contenders with one partner on one item, in one order. All rounds go through the same sequence of
        blocks. If a contender was dropped and comes back, it therefore gets the comparisons that it missed.

        active : bool array (n_agents,), contenders
        eligible : bool array (n_agents, n_items), cells that may be compared
        first_block : number of the first block of the sequence
        """
        n_agents, n_items = eligible.shape
        sequence = BlockSequence.draw(n_agents, n_items, rng)
        contenders = np.flatnonzero(active)

        # a second pass through all partners and items compares each pair in the other order
        n_passes = 2 if self.pairs == "ordered" else 1
        n_blocks = n_passes * n_items * n_agents

        is_paired = plan.trial_type == PAIRED
        planned_codes = self._encode_comparisons(
            plan.item[is_paired], plan.first[is_paired], plan.second[is_paired], n_agents
        )
        begun_blocks = np.unique(plan.block) - first_block
        drawn: list[Trials] = []
        start = 0
        while start < n_blocks:
            n_in_chunk = max(n_trials // len(contenders), _MIN_CHUNK_BLOCKS)
            stop = min(n_blocks, start + n_in_chunk)
            number = np.arange(start, stop)  # of each block in the sequence
            start = stop

            # keep comparisons of eligible cells that are not planned yet, each once
            candidates = sequence.list_comparisons(number, contenders)
            code = self._encode_comparisons(candidates.item, candidates.first, candidates.second, n_agents)
            is_kept = candidates.are_eligible(eligible)
            is_kept &= ~np.isin(code, planned_codes) & _is_first_occurrence(code)

            # a new block needs two contenders, and blocks are taken while they fit
            n_in_block = np.bincount(candidates.block[is_kept], minlength=len(number))
            n_in_block[(n_in_block < 2) & ~np.isin(number, begun_blocks)] = 0
            fits = np.cumsum(n_in_block) <= n_trials
            is_taken = (n_in_block > 0) & fits
            is_kept &= is_taken[candidates.block]

            trials = candidates.to_trials(is_kept, block=first_block + number[candidates.block])
            drawn.append(trials)
            planned_codes = np.append(planned_codes, code[is_kept])
            n_trials -= len(trials)
            if not fits.all():
                break
        return Trials.concat(drawn)

    def _encode_comparisons(
        self, item: Ids | Positions, first: Ids | Positions, second: Ids | Positions, n_agents: int
    ) -> Positions:
        """Encode each comparison (item, first agent, second agent) as one number, by which equal comparisons are found.

        If the option `pairs` is "unordered", the two orders of a pair of agents have the same number.

        item, first, second : int arrays (n_trials,), positions of the item and of the two agents
        n_agents : number of agents of the run

        Returns an int64 array (n_trials,).
        """
        agent_1, agent_2 = first, second
        if self.pairs == "unordered":
            agent_1 = np.minimum(first, second)
            agent_2 = np.maximum(first, second)
        item_and_agent_1 = item * np.int64(n_agents) + agent_1
        return np.asarray(item_and_agent_1 * n_agents + agent_2)


def _is_first_occurrence(values: Positions) -> Bools:
    """Return whether each value of an int array (n,) differs from all values before it: bool array (n,)."""
    _, first_positions = np.unique(values, return_index=True)
    is_first = np.zeros(len(values), dtype=np.bool_)
    is_first[first_positions] = True
    return is_first


_MIN_CHUNK_BLOCKS = 64
"""Minimum number of blocks that are drawn together."""


def get_adaptive_design(plan: Plan) -> Adaptive:
    """Return the design that drew an adaptive plan, with the options of the plan.

    Parameters
    ----------
    plan : Plan
        A plan of the design "adaptive".

    Returns
    -------
    Adaptive
        The design, which can draw the next rounds.
    """
    options: dict[str, Any] = {name: plan.options[name] for name in Adaptive.options if name in plan.options}
    n_paired = None if plan.rounds is None else plan.rounds.n_paired
    return Adaptive(n_paired=n_paired, **options)


STOPPING_OPTIONS = {FixedWidth.name: ("half_width",), Adaptive.name: ("max_regret",)}
"""Options that decide when a run in rounds stops, but not what its rounds sample."""
