"""Count and draw the pooled independent trials, from which each agent's own false-positive rate is estimated.

They come in whole passes, in which every agent appears once first and once second. An extension or a round that
measures some agents adds trials of these agents with random partners.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.types import INDEPENDENT, Plan, Trials
from youden.types.pool import Bools, Ids, Positions
from youden.types.trials import POOLED

MIN_PASSES = 2
"""Minimum number of passes of independent trials; in a pass, every agent appears once first and once second."""
MIN_FRACTION, MAX_FRACTION = 0.07, 0.1
"""Fraction of the calls for independent trials, in small and in large plans."""
LARGE_PLAN = 2500
"""Number of calls per agent from which on the larger fraction applies; below it, the fraction is interpolated."""
FREE_PER_PAIRED, MAX_FREE = 4, 200_000
"""Independent trials per paired trial if calls cost nothing, and their maximum number."""
MAX_POSSIBLE_FRACTION = 0.5
"""Maximum number of independent trials that cost nothing, as a fraction of all possible ones. With more, it would take
long to draw trials that are all different."""
_MAX_TRIES = 20
_ROUNDING_ERROR = 1e-9
"""Maximum error by which a computed number of passes may exceed a whole number."""


def count_independent(n_calls: int, n_agents: int, *, is_first: bool = True) -> int:
    """Return how many calls of a budget are independent trials if these are pooled: 7 to 10%, and a multiple of `n_agents`.

    An independent trial compares responses to different items, and a paired trial responses to the same item. Independent trials
    come in passes, in which each agent is once the first and once the second agent of a trial. Their fraction grows linearly with
    the number of calls per agent: 7% at 0, and 10% from `LARGE_PLAN` (2500) calls per agent on. A small budget may be exceeded.

    n_calls : budget: total number of calls, for paired and for independent trials
    n_agents : number of agents, at least 1
    is_first : True if the agents have no independent trials yet: the number of passes is rounded up, and is at least `MIN_PASSES`
        (2), even if this is more than 10% of the calls. If False, it is rounded to the nearest integer, which may be 0.

    >>> [count_independent(n, 12) for n in (60, 300, 3_000, 60_000)]
    [24, 24, 228, 6000]
    """
    # the fraction is 7% for 0 calls per agent, and increases linearly to 10% for `LARGE_PLAN` calls per agent
    calls_per_agent = n_calls / n_agents
    relative_size = min(1.0, calls_per_agent / LARGE_PLAN)
    fraction = MIN_FRACTION + (MAX_FRACTION - MIN_FRACTION) * relative_size

    n_passes = fraction * n_calls / n_agents  # a pass has one call per agent
    if not is_first:
        return n_agents * round(n_passes)
    return n_agents * max(MIN_PASSES, ceil(n_passes - _ROUNDING_ERROR))


def count_independent_for_paired(n_paired: int, n_agents: int, *, is_first: bool = True) -> int:
    """Return how many independent trials to add to some paired trials, so that they are 7 to 10% of all trials.

    The result is the smallest number that is enough for the total of both, as computed by `count_independent`.

    n_paired : number of paired trials
    n_agents : number of agents, at least 1
    is_first : True if the agents have no independent trials yet, and need at least two passes of `n_agents` trials

    >>> count_independent_for_paired(276, 12)
    24
    """
    # increase the number until it is enough, because each increase also increases the total
    n_independent = 0
    while True:
        n_all = n_paired + n_independent
        n_needed = count_independent(n_all, n_agents, is_first=is_first)
        if n_needed <= n_independent:
            return n_independent
        n_independent = n_needed


def count_free_independent(n_paired: int, eligible: Bools) -> int:
    """Return the number of independent trials of a plan if calls cost nothing: `FREE_PER_PAIRED` per paired trial.

    The number is limited to `MAX_FREE`, and to the fraction `MAX_POSSIBLE_FRACTION` of all different independent trials.

    n_paired : number of paired trials
    eligible : bool array (n_agents, n_items), cells (agent, item) whose responses may be used
    """
    max_different = int(MAX_POSSIBLE_FRACTION * _count_possible_trials(eligible))
    return min(FREE_PER_PAIRED * n_paired, MAX_FREE, max_different)


def _count_possible_trials(eligible: Bools) -> int:
    """Count the ordered pairs of texts of two different agents on two different items: the possible independent trials.

    eligible : bool array (n_agents, n_items), cells (agent, item) whose texts may be used
    """
    n_texts_by_agent = eligible.sum(axis=1, dtype=np.int64)
    n_texts_by_item = eligible.sum(axis=0, dtype=np.int64)

    # all ordered pairs, minus those of two texts of one agent
    pairs_of_two_agents = int(n_texts_by_agent.sum() ** 2 - (n_texts_by_agent**2).sum())

    # two different texts on one item are always of two agents
    pairs_on_one_item = int((n_texts_by_item * (n_texts_by_item - 1)).sum())
    return pairs_of_two_agents - pairs_on_one_item


def has_free_calls(plan: Plan) -> bool:
    """Return whether a plan was made for a judge whose calls cost nothing, so that independent trials use no budget."""
    return plan.request.free_independent and has_default_independent_count(plan)


def has_default_independent_count(plan: Plan) -> bool:
    """Return whether a plan pools its independent trials and has the default number of them, so that extensions add more."""
    is_default = plan.independent == "pooled" and plan.request.independent in (None, "pooled")
    return is_default and plan.question == "information"


def adds_independent(plan: Plan) -> bool:
    """Return whether an extension of a plan adds not only paired trials, but also independent ones."""
    return plan.independent == "matched" or has_default_independent_count(plan)


def count_added_independent(plan: Plan, n_paired: int, *, n_scored: int, are_new: bool = False) -> int:
    """Return how many independent trials an extension or a round adds to its paired trials.

    - If the plan matches independent trials to paired trials, one is added per paired trial.
    - If the user requested a number of independent trials for the plan, or if the plan is for preferences, none is added.
    - If calls cost nothing, `FREE_PER_PAIRED` (4) are added per paired trial, at most `MAX_FREE` (200,000).
    - In all other plans, about 7 to 10% of the added calls are independent trials. Their number is a multiple of `n_scored`, so
      that a small extension may have none or more than 10% (`count_independent_for_paired`).

    n_paired : number of paired trials that are added
    n_scored : number of agents whose abilities these trials measure
    are_new : whether these agents are new in the plan, so that each needs a minimum number of independent trials: two passes of
        `n_scored` trials
    """
    if plan.independent == "matched":
        return n_paired
    if not has_default_independent_count(plan):
        return 0
    if has_free_calls(plan):
        return min(FREE_PER_PAIRED * n_paired, MAX_FREE)
    return count_independent_for_paired(n_paired, n_scored, is_first=are_new)


def count_added_paired(plan: Plan, calls: int, *, n_scored: int, are_new: bool = False) -> int:
    """Return how many of the calls of an extension are paired trials.

    - If the plan matches one independent trial to each paired trial, half of the calls are paired, rounded down.
    - If calls cost nothing, all calls are paired, because independent trials then do not count towards the budget.
    - If the user requested a number of independent trials, all calls are paired, because the plan has this number already. All
      calls are also paired if the plan is for preferences.
    - In all other plans, about 7 to 10% of the calls are independent trials, and the rest are paired. The number of independent
      trials is a multiple of `n_scored`, so that a small extension may have none or more than 10% (`count_independent`).

    calls : number of calls of both trial types
    n_scored : number of agents whose abilities the paired trials measure
    are_new : whether these agents are new in the plan, so that each needs a minimum number of independent trials: two passes of
        `n_scored` trials

    Returns a number from 0 to `calls`.
    """
    if plan.independent == "matched":
        return calls // 2
    if has_free_calls(plan) or not has_default_independent_count(plan):
        return calls

    n_independent = count_independent(calls, n_scored, is_first=are_new)
    return max(0, calls - n_independent)


def count_added_calls(plan: Plan, n_paired: int, *, n_scored: int, are_new: bool = False) -> int:
    """Return how many calls an extension needs for `n_paired` paired trials; free independent trials do not count.

    n_scored : number of agents whose abilities the paired trials measure
    are_new : whether these agents are new in the plan
    """
    if has_free_calls(plan):
        return n_paired
    return n_paired + count_added_independent(plan, n_paired, n_scored=n_scored, are_new=are_new)


def draw_pooled_trials(eligible: Bools, n: int, rng: np.random.Generator, *, planned: Trials | None = None) -> Trials:
    """Draw n different independent trials, spread evenly over the agents.

    Parameters
    ----------
    eligible : bool array (n_agents, n_items)
        Cells that may be used.
    n : int
        Number of trials; 0 or less for none.
    rng : numpy.random.Generator
        Source of all random numbers.
    planned : Trials, optional
        Independent trials that are not drawn again.

    Returns
    -------
    Trials
        Independent trials of the role "pooled", of weight 1 for both agents; fewer than n if n different ones cannot be found.

    Raises
    ------
    PlanError
        [independent]: if n > 0 and no two agents have responses to different items.

    Notes
    -----
    A pass puts the agents in a random order, and pairs this order with the same order shifted cyclically by a random number of
    places. Every agent therefore appears once first and once second in a pass. Items are uniform over each agent's eligible
    cells, and differ. A pair without a new comparison is skipped.
    """
    agents = np.flatnonzero(eligible.any(axis=1))
    n_agents = len(agents)
    drawn = np.empty((0, 4), dtype=np.int64)  # item, first, second and other item of each trial
    codes = _encode_trials(planned, eligible)
    n_wanted = min(n, _count_possible_trials(eligible) - len(codes))
    while len(drawn) < n_wanted:
        # one row per pass: the agents in a random order, and the same order shifted cyclically
        n_passes = ceil((n_wanted - len(drawn)) / n_agents)
        order = rng.permuted(np.tile(agents, (n_passes, 1)), axis=1)
        shift = rng.integers(1, n_agents, (n_passes, 1))
        partner_position = (np.arange(n_agents) + shift) % n_agents
        partners = np.take_along_axis(order, partner_position, axis=1)

        new_trials, new_codes, _ = _draw_different_items(order.ravel(), partners.ravel(), eligible, codes, rng)
        if not len(new_trials):
            break
        drawn = np.concatenate([drawn, new_trials])
        codes = np.concatenate([codes, new_codes])
    if n > 0 and not _count_possible_trials(eligible):
        raise PlanError(
            "No independent trial can be drawn, because no two agents have responses to different items. Add responses, or set "
            "independent: pooled:0.",
            slug="independent",
        )
    return _make_independent_trials(drawn[:n_wanted])


def _make_independent_trials(comparisons: Positions) -> Trials:
    """Make independent trials of comparisons: int64 array (n_trials, 4), columns item, first, second and other_item."""
    item, first, second, other_item = comparisons.astype(np.int32).T
    return Trials.independent(item, first, second, other_item)


def _draw_different_items(
    first: Positions, second: Positions, eligible: Bools, earlier_codes: Positions, rng: np.random.Generator
) -> tuple[Positions, Positions, Bools]:
    """Draw a new independent trial for each pair of agents: one item per agent, and both items differ.

    If the items are equal, or if the comparison was made before, they are drawn again, at most `_MAX_TRIES` times in all. A pair
    without a new comparison is left out.

    first, second : int64 array (n_pairs,), the agents
    eligible : bool array (n_agents, n_items), cells (agent, item) whose responses may be used
    earlier_codes : int64 array, codes of the earlier trials, as made by `_encode_comparisons`

    Returns the comparisons (item, first, second, other_item), int64 array (n, 4); their codes, int64 array (n,); and
    whether each pair has a comparison, bool array (n_pairs,).
    """
    items = EligibleItems.from_mask(eligible)
    item, other_item = np.zeros_like(first), np.zeros_like(second)
    pairs_to_draw = np.arange(len(first))
    for _ in range(_MAX_TRIES):
        item[pairs_to_draw] = items.draw(first[pairs_to_draw], rng)
        other_item[pairs_to_draw] = items.draw(second[pairs_to_draw], rng)
        comparisons = np.stack([item, first, second, other_item], axis=1)
        new_codes, is_new = _find_new_comparisons(comparisons, eligible, earlier_codes)
        pairs_to_draw = np.flatnonzero(~is_new)
        if not len(pairs_to_draw):
            break
    return comparisons[is_new], new_codes[is_new], is_new


class EligibleItems(NamedTuple):
    """Eligible items of all agents in one array, one agent after the other."""

    items: Positions
    start: Positions
    """Position of the first item of each agent in `items`, int64 array (n_agents,)."""
    n_items: Positions
    """Number of eligible items of each agent, int64 array (n_agents,)."""

    @classmethod
    def from_mask(cls, eligible: Bools) -> EligibleItems:
        """List the items of the cells that are True in a bool array (n_agents, n_items)."""
        n_eligible = eligible.sum(axis=1)
        start = np.cumsum(n_eligible) - n_eligible
        items = np.flatnonzero(eligible.ravel()) % eligible.shape[1]
        return cls(items, start, n_eligible)

    def get(self, agents: Ids | Positions, numbers: Positions) -> Positions:
        """Return the eligible item with a number, from 0, of each of some agents: int64 array of the same length."""
        return np.asarray(self.items[self.start[agents] + numbers])

    def draw(self, agents: Positions, rng: np.random.Generator) -> Positions:
        """Draw an eligible item for each element of `agents`, int64 array (n_draws,): int64 array (n_draws,)."""
        numbers = np.floor(rng.random(len(agents)) * self.n_items[agents]).astype(np.int64)
        return self.get(agents, numbers)


def _find_new_comparisons(comparisons: Positions, eligible: Bools, earlier_codes: Positions) -> tuple[Positions, Bools]:
    """Encode each comparison as one number, and return whether it can be used as a new trial.

    It can be used if its two items differ, and if it is neither an earlier comparison nor a duplicate of a previous row.

    comparisons : int64 array (n, 4), columns item, first, second and other_item
    eligible : bool array (n_agents, n_items), cells (agent, item) that may be compared
    earlier_codes : int64 array, codes of the earlier comparisons

    Returns the codes, int64 array (n,), and a bool array (n,).
    """
    codes = _encode_comparisons(comparisons, eligible)
    _, first_rows = np.unique(codes, return_index=True)
    is_first_row_of_code = np.zeros(len(codes), dtype=np.bool_)
    is_first_row_of_code[first_rows] = True

    has_two_items = comparisons[:, 0] != comparisons[:, 3]
    is_earlier = np.isin(codes, earlier_codes)
    return codes, np.asarray(has_two_items & ~is_earlier & is_first_row_of_code)


def _encode_comparisons(comparisons: Positions, eligible: Bools) -> Positions:
    """Encode comparisons (item, first, second, other_item), int64 array (n_trials, 4), as numbers, int64 array (n_trials,)."""
    n_agents, n_items = eligible.shape
    item, first, second, other_item = comparisons.T
    return np.asarray((first * n_items + item) * (n_agents * n_items) + second * n_items + other_item)


def _encode_trials(trials: Trials | None, eligible: Bools) -> Positions:
    """Encode independent trials as numbers, int64 array (n_different,), ascending, each once; empty for None."""
    if trials is None:
        return np.empty(0, dtype=np.int64)
    columns = np.stack([trials.item, trials.first, trials.second, trials.other_item], axis=1)
    return np.unique(_encode_comparisons(columns.astype(np.int64), eligible))


def draw_scored_trials(
    plan: Plan, eligible: Bools, rng: np.random.Generator, *, scored: Positions, partners: Positions, n: int
) -> Trials:
    """Draw independent trials to estimate the false-positive rates of the agents in `scored`.

    Each trial compares one of these agents with a random partner. Each agent gets the same number of trials, up to a difference
    of 1, and is first and second about equally often. A pair of agents without a new comparison gets no trial.

    plan : plan whose independent trials are not repeated
    eligible : bool array (n_agents, n_items), cells (agent, item) whose responses may be used
    rng : source of the partners and items
    scored, partners : int arrays, positions of the agents; an agent is not compared with itself
    n : number of trials; 0 or less for none

    Returns independent trials of the role "pooled", with weight 1 for the scored agent and 0 for its partner: n, or fewer if new
    comparisons are not found. Scored agents without a response or partner get none.
    """
    has_response = np.asarray(eligible.any(axis=1))
    scored = scored[has_response[scored]]
    partners = partners[has_response[partners]]
    if len(partners) == 1:  # an agent is not its own partner
        scored = scored[scored != partners[0]]
    if n < 1 or not len(scored) or not len(partners):
        return _make_independent_trials(np.empty((0, 4), dtype=np.int64))

    pairs = _draw_scored_pairs(scored, partners, n, rng)
    planned = plan.trials.take(plan.trial_type == INDEPENDENT)
    planned_codes = _encode_trials(planned, eligible)
    comparisons, _, has_comparison = _draw_different_items(pairs.first, pairs.second, eligible, planned_codes, rng)
    trials = _make_independent_trials(comparisons)

    # an answer counts for the rate of the scored agent, not for that of its partner
    counts_for_first = pairs.scored_is_first[has_comparison]  # pairs without a new comparison have no trial
    return trials.with_role(POOLED, first=counts_for_first, second=~counts_for_first)


class _ScoredPairs(NamedTuple):
    """Pairs of a scored agent and a partner, in the order in which a trial shows their texts: arrays (n_pairs,)."""

    first: Positions
    second: Positions
    scored_is_first: Bools
    """Whether the first agent is the scored one, for which the trial counts."""


def _draw_scored_pairs(scored: Positions, partners: Positions, n: int, rng: np.random.Generator) -> _ScoredPairs:
    """Draw `n` pairs of a scored agent and a random partner.

    The scored agents take turns. In one pass through all scored agents, each of them is the first agent of a pair. In the
    next pass, each of them is the second agent, and so on.

    scored, partners : int arrays, positions of the agents; a scored agent gets a partner other than itself
    """
    pass_number, position = np.divmod(np.arange(n), len(scored))
    scored_is_first = pass_number % 2 == 0
    agent = scored[position]
    partner = _draw_other_agents(agent, partners, rng)
    first = np.where(scored_is_first, agent, partner)
    second = np.where(scored_is_first, partner, agent)
    return _ScoredPairs(first, second, scored_is_first)


def _draw_other_agents(agents: Positions, partners: Positions, rng: np.random.Generator) -> Positions:
    """Draw a random partner for each agent; an agent is never its own partner.

    agents : int array (n,)
    partners : int array (n_partners,), the agents to draw from

    Returns the partners, int array (n,).
    """
    # position of each agent in `partners`; n_partners if the agent is not there
    n_partners = len(partners)
    position_by_partner = {partner: position for position, partner in enumerate(partners.tolist())}
    own_position = np.array([position_by_partner.get(agent, n_partners) for agent in agents.tolist()])

    # draw one of the other positions by skipping the agent's own one
    n_other_partners = np.where(own_position < n_partners, n_partners - 1, n_partners)
    position = np.floor(rng.random(len(agents)) * n_other_partners).astype(np.int64)
    position[position >= own_position] += 1
    return np.asarray(partners[position])
