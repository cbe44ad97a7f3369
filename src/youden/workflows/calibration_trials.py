"""Draw trials whose correct answer is known, to calibrate a judge.

Most of them are trials of the run's own plan, so that the run finds their answers in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.independent import count_characters
from youden.protocol.pooled_trials import draw_pooled_trials
from youden.streams import standalone_stream, stream
from youden.text.transforms import Step, apply_steps
from youden.types import INDEPENDENT, PAIRED, Agent, Plan, Pool, Trials
from youden.types.planning import PlanRequest, Split
from youden.types.pool import Bools, Codes, Floats, Ids, Positions, ReadOnly
from youden.types.trials import COMPARISON_COLUMNS, PROBE

Kind = Literal[
    "paired", "reversed", "retest", "triple", "independent", "unbalanced", "balanced", "identical", "clone", "template"
]


class KindDetails(NamedTuple):
    """Number of trials of a kind per 150 calls, the group in which missing answers are counted, and a description."""

    per_150_calls: int
    group: str
    description: str


KIND_DETAILS: dict[Kind, KindDetails] = {
    "paired": KindDetails(36, "paired", "two agents on one item, at random from the run's plan: yes"),
    "reversed": KindDetails(24, "paired", "the same, the other text first: yes"),
    "retest": KindDetails(10, "paired", "the same request once more: yes"),
    "triple": KindDetails(12, "paired", "each of the two texts and a third agent's on the same item: yes"),
    "independent": KindDetails(30, "independent", "two agents on two items: no"),
    "unbalanced": KindDetails(10, "paired", "two agents on one item, with the most different lengths: yes"),
    "balanced": KindDetails(10, "independent", "two agents on two items, long texts with the most similar lengths: no"),
    "identical": KindDetails(6, "planted", "a response against itself: yes"),
    "clone": KindDetails(6, "planted", "a response against its sentences in another order, as a list: yes"),
    "template": KindDetails(6, "planted", "a response against a text that is about no item: no"),
}
KINDS = tuple(KIND_DETAILS)
GROUPS = tuple(dict.fromkeys(details.group for details in KIND_DETAILS.values()))

MIN_TRIALS = 10
"""Minimum number of paired, and of independent, trials for a calibration."""

_N_EXTRA_INDEPENDENT = 400
"""Independent trials that are drawn in addition to those of the run, which may have too few."""
_MIN_BALANCED_POOL = 30
"""Number of trials of the run from which on "balanced" trials are selected from these alone, without the
additional ones."""
_CLONE_STEPS = (Step("reorder"), Step("bullets"))


@dataclass(frozen=True, eq=False)
class CalibrationTrials(ReadOnly):
    """Trials with known answers.

    Attributes
    ----------
    plan : Plan
        The trials. Its pool is that of the run and two planted agents, which have texts only on the items of
        their trials.
    kind : int8 array (n_trials,)
        Index of the kind of each trial in `KINDS`.
    original : int32 array (n_trials,)
        Row of the paired trial that a "reversed" or "retest" trial repeats, or that a "triple" trial extends by a third
        text; −1 for other kinds.
    in_run : bool array (n_trials,)
        Whether the run's plan has the same trial.
    max_calls : int
        Largest calibration that this run's plan allows.
    """

    plan: Plan
    kind: Codes
    original: Ids
    in_run: Bools
    max_calls: int

    @property
    def pool(self) -> Pool:
        """Pool of the run, with the planted agents."""
        return self.plan.pool

    def rows(self, *kinds: Kind) -> Positions:
        """Return the positions of the trials of these kinds, ascending."""
        return np.flatnonzero(np.isin(self.kind, [KINDS.index(kind) for kind in kinds]))

    def rows_in_group(self, group: str) -> Positions:
        """Return the positions of the trials of a group ("paired", "independent" or "planted"), ascending."""
        return self.rows(*(kind for kind in KINDS if KIND_DETAILS[kind].group == group))


def draw_calibration_trials(plan: Plan, *, calls: int, seed: int) -> CalibrationTrials:
    """Draw trials with known answers, preferably from the trials of a run.

    Parameters
    ----------
    plan : Plan
        Plan of the run.
    calls : int
        Number of trials to draw. `KIND_DETAILS` has the number per kind for 150 calls; other numbers are in proportion, rounded
        by kind. Fewer are drawn from a small pool.
    seed : int
        Seed. A larger calibration contains the trials of a smaller one with the same seed.

    Returns
    -------
    CalibrationTrials
        The trials as a plan (`plan`), in order of their kinds; the kind of each (`kind`, int8 array of positions in `KINDS`); and
        whether the plan of the run also has it (`in_run`, bool array).

    Raises
    ------
    PlanError
        [calibrate-small] if fewer than 10 trials of the kind "paired", or of the kind "independent", are drawn: `calls` is below
        48, or the pool is too small.

    Notes
    -----
    "paired" and "independent" trials are random samples of the trials of the plan. The samples contain no probe (a trial of
    unusually similar texts) and no second paired trial of the same two agents on an item. If the plan has too few independent
    trials, new random ones are added, except in a plan of self-trials (comparisons of two responses of one agent). Planted texts
    are made of responses of at least median length.
    """
    pool = plan.pool
    n_wanted = {kind: round(calls * details.per_150_calls / 150) for kind, details in KIND_DETAILS.items()}
    length = pool.lengths.astype(np.float64)
    lower_quartile, median = np.quantile(length[pool.present], [0.25, 0.5]).tolist()

    # one half of the trials is sampled at random, the other one is sorted by length; a run may have too few independent ones
    rng = stream("known truth", seed)
    all_paired = rng.permutation(np.flatnonzero(plan.trial_type == PAIRED))
    paired, other_paired = _split_in_two(_drop_repeated_pairs(plan, all_paired))
    extended = plan if plan.is_self_plan else _add_independent(plan, stream("known independent trials", seed))
    independent, other_independent = _split_independent(plan, np.arange(len(plan), len(extended)), rng)

    # a text below the lower quartile may be too short to recognize; a judge by length takes two long texts for one item
    unbalanced = _sort_by_length_ratio(extended, other_paired, length, min_length=lower_quartile, largest_first=True)
    balanced = _sort_by_length_ratio(extended, other_independent, length, min_length=median, largest_first=False)

    # take the requested number of trials of each kind
    paired_trials = plan.trials.take(paired[: n_wanted["paired"]])
    n_triples = n_wanted["triple"] // 2  # a triple has two trials
    triples, triple_originals = _draw_triples(paired_trials, plan, n_triples, stream("known triples", seed))
    trials_by_kind: dict[Kind, Trials] = {
        "paired": paired_trials,
        "reversed": paired_trials.take(slice(n_wanted["reversed"])).swapped(),
        "retest": paired_trials.take(slice(n_wanted["retest"])),
        "triple": triples,
        "independent": extended.trials.take(independent[: n_wanted["independent"]]),
        "unbalanced": plan.trials.take(unbalanced[: n_wanted["unbalanced"]]),
        "balanced": extended.trials.take(balanced[: n_wanted["balanced"]]),
        **_draw_planted_trials(pool, length >= max(1.0, median), n_wanted, stream("planted texts", seed)),
    }
    _check_numbers(pool, n_wanted, n_paired=len(paired_trials), n_independent=len(trials_by_kind["independent"]))

    trials = [trials_by_kind[name] for name in KINDS]
    kind = np.repeat(np.arange(len(KINDS), dtype=np.int8), [len(table) for table in trials])
    extended_pool = _add_planted_agents(pool, trials_by_kind["clone"], trials_by_kind["template"])
    calibration_plan = _make_calibration_plan(plan, extended_pool, Trials.concat(trials), kind)

    return CalibrationTrials(
        plan=calibration_plan,
        kind=kind,
        original=_find_originals(kind, triple_originals),
        in_run=_is_in_plan(plan, calibration_plan),
        max_calls=_compute_max_calls(n_paired=len(paired), n_independent=len(independent)),
    )


def _compute_max_calls(*, n_paired: int, n_independent: int) -> int:
    """Compute the size of the largest calibration, a multiple of 150 calls, from the numbers of trials to sample from."""
    max_paired = n_paired // KIND_DETAILS["paired"].per_150_calls
    max_independent = n_independent // KIND_DETAILS["independent"].per_150_calls
    return 150 * min(max_paired, max_independent)


def _check_numbers(pool: Pool, n_wanted: Mapping[Kind, int], *, n_paired: int, n_independent: int) -> None:
    """Raise PlanError [calibrate-small] if the calls or the pool allow too few paired or too few independent trials."""
    if min(n_wanted["paired"], n_wanted["independent"]) < MIN_TRIALS:
        raise PlanError(
            f"A calibration needs at least {MIN_TRIALS} paired and {MIN_TRIALS} independent trials: the calls allow only "
            f"{n_wanted['paired']} and {n_wanted['independent']}. Set at least 50 calls.",
            slug="calibrate-small",
        )
    if min(n_paired, n_independent) < MIN_TRIALS:
        raise PlanError(
            f"The pool '{pool.name}' is too small to calibrate a judge: got {n_paired} paired and {n_independent} independent "
            f"trials, at least {MIN_TRIALS} of each are needed. "
            "Add agents or items, set more calls for the run, or calibrate on a larger pool of the same kind.",
            slug="calibrate-small",
        )


def _split_in_two(rows: Positions) -> tuple[Positions, Positions]:
    """Split rows, int array, into two halves: for random trials, and for trials selected by length.

    The first half has one row more if the number is odd.
    """
    n_first = (len(rows) + 1) // 2
    return rows[:n_first], rows[n_first:]


def _split_independent(plan: Plan, added: Positions, rng: np.random.Generator) -> tuple[Positions, Positions]:
    """Split independent trials at random into candidates for two kinds of calibration trials.

    The kinds are "independent" and "balanced". A calibration later draws trials of the kind "independent" at random from their
    candidates. It selects trials of the kind "balanced" by the lengths of their texts.

    plan : plan of the run; its probes are left out
    added : int array, rows of independent trials that the calibration has added to the plan
    rng : source of the random order

    Returns the rows of both groups of candidates. Each group gets half of the trials of the run. The first group also gets half
    of the added trials. The second group gets the other half only if it has fewer than `_MIN_BALANCED_POOL` trials of the run.
    """
    is_usable = (plan.trial_type == INDEPENDENT) & (plan.role != PROBE)
    rows = rng.permutation(np.flatnonzero(is_usable))
    random_candidates, balanced_candidates = _split_in_two(rows)

    random_candidates = np.append(random_candidates, added[0::2])
    if len(balanced_candidates) < _MIN_BALANCED_POOL:
        balanced_candidates = np.append(balanced_candidates, added[1::2])
    return random_candidates, balanced_candidates


def _add_independent(plan: Plan, rng: np.random.Generator) -> Plan:
    """Return a plan with 400 more random independent trials (comparisons across items) at its end."""
    extra = draw_pooled_trials(plan.pool.present, _N_EXTRA_INDEPENDENT, rng)
    return replace(plan, trials=Trials.concat([plan.trials, extra]))


def _drop_repeated_pairs(plan: Plan, rows: Positions) -> Positions:
    """Remove repeated comparisons of the same two agents on the same item.

    The first comparison is kept. The order of the two agents does not matter.

    rows : int array, rows of paired trials

    Returns the rows to keep, in the same order.
    """
    lower_agent = np.minimum(plan.first, plan.second)[rows]
    higher_agent = np.maximum(plan.first, plan.second)[rows]
    comparison = np.stack([plan.item[rows], lower_agent, higher_agent])  # (3, n_rows)
    _, first_index = np.unique(comparison, axis=1, return_index=True)
    return rows[np.sort(first_index)]


def _draw_triples(paired: Trials, plan: Plan, n_triples: int, rng: np.random.Generator) -> tuple[Trials, Positions]:
    """Extend paired trials to triples of texts on the same item.

    Both texts of a trial are compared with the text of a third agent.

    paired : paired trials to extend; a trial is skipped if no third agent has a response to its item
    plan : plan of the run
    n_triples : maximum number of triples
    rng : source of the third agents

    Returns the new trials, two per triple, and an int array (n_new_trials,): for each new trial, the row in `paired` of the trial
    that it extends.
    """
    third_agent = _draw_third_agents(paired, plan, rng)
    rows_with_third_agent = np.flatnonzero(third_agent >= 0)[:n_triples]
    extended_trials = paired.take(rows_with_third_agent)
    new_trials = _compare_with_third(extended_trials, third_agent[rows_with_third_agent])
    return new_trials, np.repeat(rows_with_third_agent, 2)


def _compare_with_third(paired: Trials, third: Ids) -> Trials:
    """Compare both texts of each paired trial with the text of a third agent.

    With the trial (a, b), the trials (b, c) and (c, a) show whether the answers of a judge are transitive. Each of the texts
    a, b and c comes first in one of the three trials.

    paired : n trials of a first text a and a second text b
    third : int array (n,), the agent of text c for each trial

    Returns 2·n trials: (b, c) and (c, a) of the first paired trial, then of the second one, and so on.
    """
    has_repeats = paired.first_repeat is not None
    paired_with_repeats = paired if has_repeats else paired.with_first_repeats()

    # swap (a, b) to (b, a); then replace a by c, which gives (b, c), or replace b by c, which gives (c, a)
    swapped = paired_with_repeats.swapped()
    repeat_of_c = np.ones(len(third), dtype=np.int32)  # the first response of the third agent
    b_then_c = replace(swapped, second=third, second_repeat=repeat_of_c)
    c_then_a = replace(swapped, first=third, first_repeat=repeat_of_c.copy())

    # put the two trials of a triple next to each other: rows 0, n, 1, n + 1 and so on
    row = np.arange(len(third))
    rows_by_triple = np.column_stack([row, row + len(third)]).ravel()
    trials = Trials.concat([b_then_c, c_then_a]).take(rows_by_triple)
    if has_repeats:
        return trials
    return replace(trials, first_repeat=None, second_repeat=None)


def _draw_third_agents(paired: Trials, plan: Plan, rng: np.random.Generator) -> Ids:
    """Draw a third agent for each paired trial.

    The agent must have a response to the item of the trial. The comparisons of the third agent with both agents of the trial
    should be new. Agents with few such comparisons in the plan of the run are therefore preferred.

    Returns an int32 array (n_trials,), −1 if no third agent has a response.
    """
    trial = np.arange(len(paired))
    can_be_drawn = plan.pool.present.T[
        paired.item
    ]  # (n_trials, n_agents): whether the agent has a response to the item
    can_be_drawn[trial, paired.first] = False
    can_be_drawn[trial, paired.second] = False

    # draw at random among the agents with the fewest planned comparisons; the random number is below 1, so it only breaks ties
    n_planned = _count_planned_comparisons(paired, plan)
    sort_key = n_planned + rng.random(n_planned.shape)
    sort_key[~can_be_drawn] = np.inf
    third_agent: Ids = sort_key.argmin(axis=1).astype(np.int32)
    third_agent[~can_be_drawn.any(axis=1)] = -1
    return third_agent


def _count_planned_comparisons(paired: Trials, plan: Plan) -> Floats:
    """Count the planned comparisons of each agent with the two agents of a trial.

    Only comparisons on the item of the trial count.

    Returns a float array (n_trials, n_agents), with values from 0 to 2.
    """
    is_on_same_items = (plan.trial_type == PAIRED) & np.isin(plan.item, paired.item)
    planned = plan.trials.take(is_on_same_items)
    planned_codes = _pair_codes(planned.item, planned.first, planned.second, plan.n_agents)

    all_agents = np.arange(plan.n_agents)
    n_planned: Floats = np.zeros((len(paired), plan.n_agents))
    for agent_of_trial in (paired.first, paired.second):
        codes = _pair_codes(paired.item[:, None], agent_of_trial[:, None], all_agents, plan.n_agents)
        n_planned += np.isin(codes, planned_codes)
    return n_planned


def _pair_codes(item: Ids, first: Ids, second: Ids | Positions, n_agents: int) -> Positions:
    """Return a unique number for each item and unordered pair of agents; the arguments are int arrays that broadcast."""
    lower_agent, higher_agent = np.minimum(first, second), np.maximum(first, second)
    return np.asarray((item.astype(np.int64) * n_agents + lower_agent) * n_agents + higher_agent)


def _find_originals(kind: Codes, triple_originals: Positions) -> Ids:
    """Find the paired trial that each trial of a calibration repeats or extends.

    The first rows of a calibration are paired trials. The k-th trial of the kind "reversed", and the k-th trial of the kind
    "retest", repeat the paired trial in row k, with k from 0.

    kind : int8 array (n_trials,), index of the kind of each trial in `KINDS`
    triple_originals : int array (n_triple_trials,), row of the paired trial that each trial of the kind "triple" extends

    Returns the rows of the paired trials, int32 array (n_trials,), −1 for trials of other kinds.
    """
    original_row = np.full(len(kind), -1, dtype=np.int32)
    for name in ("reversed", "retest"):
        repeat_rows = np.flatnonzero(kind == KINDS.index(name))
        original_row[repeat_rows] = np.arange(len(repeat_rows))

    is_triple = kind == KINDS.index("triple")
    original_row[is_triple] = triple_originals
    return original_row


def _sort_by_length_ratio(
    plan: Plan, rows: Positions, length: Floats, *, min_length: float, largest_first: bool
) -> Positions:
    """Sort trials by the ratio of the lengths of their two texts.

    plan : plan of the run
    rows : int array, rows of the trials to sort
    length : float array (n_agents, n_items), number of characters of each response
    min_length : number of characters; trials with a shorter text come last in any case
    largest_first : True if the trials with the most different lengths come first, False if those with the most similar lengths do
    """
    first_item = plan.item[rows]
    other_item = plan.other_item[rows]
    second_item = np.where(other_item >= 0, other_item, first_item)  # paired trials have one item
    first_length = length[plan.first[rows], first_item]
    second_length = length[plan.second[rows], second_item]

    # |log ratio of the lengths|; + 1 because a text may be empty
    difference = np.abs(np.log((first_length + 1) / (second_length + 1)))
    if largest_first:
        difference = -difference
    is_short = np.minimum(first_length, second_length) < min_length
    return rows[np.lexsort([difference, is_short])]  # by `is_short`, then by the difference


def _draw_planted_trials(
    pool: Pool, is_long: Bools, n_wanted: Mapping[Kind, int], rng: np.random.Generator
) -> dict[Kind, Trials]:
    """Draw paired trials for which the correct answer of a judge is known.

    A random response is compared with a second text on the same item. The second text depends on the kind of the trial:

    - "identical": the response itself;
    - "clone": the sentences of the response in another order, by a new agent at position `pool.n_agents`;
    - "template": a text that has nothing to do with any item, by a new agent at position `pool.n_agents` + 1.

    `_add_planted_agents` adds both new agents to the pool.

    is_long : bool array (n_agents, n_items), responses that are long enough to be drawn
    n_wanted : maximum number of trials of each kind

    Returns the trials by kind.
    """
    ordered = np.argwhere(pool.present & is_long).astype(np.int32)
    responses = ordered[rng.permutation(len(ordered))]  # agent and item of one response per row

    # the first response to each item is for the clones, because the agent of the clones has one text per item
    _, first_of_item = np.unique(responses[:, 1], return_index=True)
    is_first_of_item = np.zeros(len(responses), dtype=np.bool_)
    is_first_of_item[first_of_item] = True
    cloned = responses[is_first_of_item][: n_wanted["clone"]]

    # the remaining responses alternate between the two other kinds
    remaining = responses[~is_first_of_item]
    compared_with_itself = remaining[0::2][: n_wanted["identical"]]
    compared_with_template = remaining[1::2][: n_wanted["template"]]
    agent_of_clones = pool.n_agents
    agent_of_templates = pool.n_agents + 1
    return {
        "identical": _compare_responses(compared_with_itself, second_agent=None),  # None for the same agent
        "clone": _compare_responses(cloned, agent_of_clones),
        "template": _compare_responses(compared_with_template, agent_of_templates),
    }


def _compare_responses(cells: Ids, second_agent: int | None) -> Trials:
    """Return paired trials that compare each response in `cells` with the response of another agent to the same item.

    cells : int array (n_trials, 2), the agent and the item of each response
    second_agent : position of the other agent; None compares each response with itself
    """
    agent, item = (column.copy() for column in cells.T)
    second = agent.copy() if second_agent is None else np.full(len(cells), second_agent, dtype=np.int32)
    return Trials.paired(item, agent, second)


def _add_planted_agents(pool: Pool, clones: Trials, templates: Trials) -> Pool:
    """Return the pool with two more agents, which have the clones and the template on these items."""
    texts = np.full((2, pool.n_items), None, dtype=object)
    for agent, item in zip(clones.first.tolist(), clones.item.tolist(), strict=True):
        texts[0, item] = apply_steps(str(pool.texts[agent, item]), _CLONE_STEPS, standalone_stream(item))
    texts[1, templates.item] = apply_steps("", [Step("template")], standalone_stream(0))
    return pool.with_agents([Agent("planted clone"), Agent("planted template")], [texts])


def _is_in_plan(plan: Plan, calibration_plan: Plan) -> Bools:
    """Return whether each trial of a calibration is also in the plan of the run, bool array (n_trials,)."""
    has_same_item = np.isin(plan.item, calibration_plan.item)
    planned = set(_iter_trials(plan, has_same_item))
    all_rows = np.ones(len(calibration_plan), dtype=np.bool_)
    return np.array([trial in planned for trial in _iter_trials(calibration_plan, all_rows)])


def _iter_trials(plan: Plan, rows: Bools) -> Iterator[tuple[int, ...]]:
    """Yield the columns that identify a trial as a tuple, for each row with True in `rows`, bool array (n_trials,)."""
    trials = plan.trials if plan.trials.first_repeat is not None else plan.trials.with_first_repeats()
    columns = [trials.columns()[name] for name in COMPARISON_COLUMNS if name not in ("trial_type", "block")]
    return zip(*(column[rows].tolist() for column in columns), strict=True)


def _make_calibration_plan(plan: Plan, pool: Pool, trials: Trials, kind: Codes) -> Plan:
    """Make the plan of a calibration from its trials.

    Trials of the kind "retest" repeat a request. They get the replicate number 1 instead of 0, so that the judge is queried again
    although an answer to the request is stored. Trials belong to no block, and no response is held out.

    plan : plan of the run, from which settings such as the seed are taken
    pool : pool of the run with the two agents that are added for the calibration
    trials : trials of all kinds, in the order of `KINDS`
    kind : int8 array (n_trials,), index of the kind of each trial in `KINDS`
    """
    is_retest = kind == KINDS.index("retest")
    no_block = np.full(len(kind), -1, dtype=np.int32)
    trials = replace(trials.as_new_plan(), replicate=is_retest.astype(np.int32), block=no_block)
    no_holdout = np.zeros_like(pool.present)
    split = Split(pool.present.copy(), no_holdout, rule="strict", fraction=0.0, seed=plan.seed)
    return replace(
        plan,
        trials=trials,
        split=split,
        design="calibration",
        options={},
        n_independent=None,
        rounds=None,
        extensions=None,
        request=PlanRequest(),
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        characters=count_characters(pool, trials),
        notes=(),
        source=pool,
    )
