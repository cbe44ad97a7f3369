"""Draw independent trials: comparisons of texts on different items, in which a positive answer is a false positive.

Independent trials are matched to paired trials, pooled, or probes. Pooled trials come in whole passes, in which every
agent appears once first and once second, so that each agent's own false-positive rate can be estimated. Probes compare
texts on different items that are unusually similar, such as templates or copies; shared words, which cost nothing,
identify them. Only the false-positive alarm uses probes, so that rates stay unbiased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.pooled_trials import EligibleItems, draw_pooled_trials
from youden.run_keys import INDEPENDENT
from youden.streams import stream
from youden.text.words import segment_texts
from youden.types import Plan, Pool, Trials
from youden.types.planning import IndependentRule
from youden.types.pool import Bools, Floats, Ids, Positions
from youden.types.trials import MATCHED, PROBE, SELF_TRIAL, count_earlier

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def select_trials(plan: Plan, rows: Bools | Positions) -> Plan:
    """Return a plan with some trials of another plan.

    Parameters
    ----------
    plan : Plan
        Plan to select from.
    rows : bool array (n_trials,) or int array
        Mask of the trials, or their positions in order.

    Returns
    -------
    Plan
        A plan with the selected trials and all other fields unchanged, except for the total text length.
    """
    return _with_trials(plan, plan.trials.take(rows))


def _with_trials(plan: Plan, trials: Trials) -> Plan:
    """Return a plan with other trials of its pool, and with their total text length."""
    characters = count_characters(plan.pool, trials, with_tasks=plan.question == "preference")
    return replace(plan, trials=trials, characters=characters)


def match_trials(plan: Plan, source: Plan) -> Positions:
    """Find, for each trial of a plan, the same trial in another plan.

    Two trials are the same if they have the same type, and show the same responses of the same agents to the same items. Agents
    and items are matched by id. Repetitions of a comparison are matched by their number, `replicate`.

    Parameters
    ----------
    plan : Plan
        Plan of n_trials trials.
    source : Plan
        Plan to search.

    Returns
    -------
    int64 array (n_trials,)
        Row of `source` for each trial of `plan`; −1 if there is none.
    """
    # agents and items of both plans are identified by their positions in `plan`; −1 if they are only in `source`
    plan_questions = _encode_questions(plan, np.arange(plan.n_agents), np.arange(plan.n_items))
    agent_numbers = _find_positions(source.agent_ids, plan.agent_ids)
    item_numbers = _find_positions(source.item_ids, plan.item_ids)
    source_questions = _encode_questions(source, agent_numbers, item_numbers)

    # give equal questions of both plans the same number
    all_questions = np.concatenate([plan_questions, source_questions])
    distinct_questions, question_ids = np.unique(all_questions, axis=0, return_inverse=True)
    plan_question_ids, source_question_ids = np.split(question_ids, [len(plan_questions)])

    # find the row of each question in the source, without rows whose agents or item are not in the plan
    first_second_item = source_questions[:, :3]
    is_in_plan = (first_second_item >= 0).all(axis=1)
    row_by_question = np.full(len(distinct_questions), -1, dtype=np.int64)
    row_by_question[source_question_ids[is_in_plan]] = np.flatnonzero(is_in_plan)
    return np.asarray(row_by_question[plan_question_ids])


def _find_positions(ids: Sequence[str], reference_ids: Sequence[str]) -> Positions:
    """Return the position of each id in `reference_ids`, −1 if it is not there: int64 array (n_ids,)."""
    position_of_id = {name: position for position, name in enumerate(reference_ids)}
    return np.array([position_of_id.get(name, -1) for name in ids], dtype=np.int64)


def _encode_questions(plan: Plan, agent_numbers: Positions, item_numbers: Positions) -> Positions:
    """Describe each trial of a plan by eight numbers, so that equal trials of two plans have equal numbers.

    agent_numbers : int array (n_agents,), number of each agent of the plan; −1 for an agent that the other plan does not have
    item_numbers : int array (n_items,), number of each item of the plan; −1 for an item that the other plan does not have

    Returns an int64 array (n_trials, 8). Its columns are: first agent, second agent, item of the first text, item of the second
    text (−1 for paired trials), trial type, replicate, response of the first agent, and response of the second agent.
    """
    other_item = np.full(len(plan), -1)
    has_other_item = plan.other_item >= 0
    other_item[has_other_item] = item_numbers[plan.other_item[has_other_item]]

    trials = plan.trials
    if trials.first_repeat is None:
        trials = trials.with_first_repeats()  # each agent has one response per item, so all trials show the first one
    trial_columns = trials.columns()
    columns = [
        agent_numbers[plan.first],
        agent_numbers[plan.second],
        item_numbers[plan.item],
        other_item,
        plan.trial_type,
        plan.replicate,
        trial_columns["first_repeat"],
        trial_columns["second_repeat"],
    ]
    return np.stack(columns, axis=1).astype(np.int64)


def with_added_trials(plan: Plan, added: Trials) -> Plan:
    """Return a plan with more trials after its own.

    A trial that repeats an earlier comparison gets the next number in the column `replicate`. If agents have several
    responses to an item, `assign_repeats` chooses the responses that the new trials show. Self-trials, in which an agent
    is compared with itself, do not influence this choice.

    Parameters
    ----------
    plan : Plan
        Plan to extend. It is not changed.
    added : Trials
        Trials to add. Their columns `replicate`, `first_repeat` and `second_repeat` are replaced.

    Returns
    -------
    Plan
        A plan with the earlier and the added trials, and with the total text length of all trials.
    """
    earlier = plan.trials.take(plan.trial_type != SELF_TRIAL)
    added = assign_repeats(added, plan.pool, plan.seed, after=earlier)
    return _with_trials(plan, Trials.concat([plan.trials, added]).with_replicate_numbers())


def count_characters(pool: Pool, trials: Trials, *, with_tasks: bool = False) -> int:
    """Count the characters of all texts that a judge reads.

    Parameters
    ----------
    pool : Pool
        Responses of the agents.
    trials : Trials
        Trials of this pool.
    with_tasks : bool, default False
        Whether the judge also reads the prompt of the item of each trial, as for preferences. Only the item of the first
        text counts, because trials of preferences have one item. An item without a prompt counts 0.

    Returns
    -------
    int
        Number of characters of both texts, summed over all trials, and of the prompts if they are read. A text that several
        trials show counts each time.
    """
    # number of characters of each response: one row per item, because trials are sorted by item, which makes reading fast;
    # one column per agent and number of the response
    lengths = np.ascontiguousarray(pool.all_lengths.T)
    first_item, second_item = trials.text_cells
    first_response, second_response = trials.text_rows(pool.n_agents)
    n_in_first_texts = lengths[first_item, first_response].sum()
    n_in_second_texts = lengths[second_item, second_response].sum()
    n_in_tasks = 0
    if with_tasks:
        prompt_lengths = np.array([len(item.prompt or "") for item in pool.items], dtype=np.int64)
        n_in_tasks = prompt_lengths[trials.item].sum()
    return int(n_in_first_texts + n_in_second_texts + n_in_tasks)


def assign_repeats(trials: Trials, pool: Pool, seed: int, *, after: Trials | None = None) -> Trials:
    """Choose which response of an agent each trial shows, if agents have several responses to an item.

    A trial shows the response that earlier trials of its type (paired or independent) have shown least often. Responses that
    were shown equally often take turns, beginning at a random one. Choices depend only on earlier trials, so that a larger plan
    keeps the choices of a smaller one.

    trials : trials without responses, in the order of the plan
    pool : responses of the agents
    seed : seed of the plan
    after : earlier trials of the plan, which already have responses; None if there are none

    Returns a copy of `trials` with the columns `first_repeat` and `second_repeat`, numbers of the responses from 1, int32
    arrays (n_trials,). If no agent of the pool has several responses to an item, `trials` itself is returned.
    """
    if pool.repeat_texts is None:
        return trials
    earlier = Trials.concat([]) if after is None else after
    if earlier.first_repeat is None:
        earlier = earlier.with_first_repeats()

    # A group is a trial type, an agent and an item. Find the group of each text. The texts are in one array: both texts of the
    # first trial, both texts of the second trial, and so on.
    text_codes = _encode_groups(Trials.concat([earlier, trials]), pool.n_items)
    group_codes, group_of_text = np.unique(text_codes, return_inverse=True)
    n_earlier_texts = 2 * len(earlier)
    groups_of_earlier_texts, groups_of_new_texts = np.split(group_of_text, [n_earlier_texts])

    # choose the response that its group has shown least often; of several such responses, the one of lowest rank
    rank = _draw_response_ranks(pool, group_codes, seed)
    n_shown = _count_shown_responses(earlier, groups_of_earlier_texts, shape=rank.shape)
    response_numbers = 1 + _choose_responses(groups_of_new_texts, rank, n_shown)
    first_repeat, second_repeat = response_numbers.reshape(-1, 2).T
    return replace(trials, first_repeat=first_repeat.copy(), second_repeat=second_repeat.copy())


def _count_shown_responses(trials: Trials, group_of_text: Positions, *, shape: tuple[int, ...]) -> Positions:
    """Count how often trials show each response of an agent to an item, separately for each type of trials.

    A group is a trial type, an agent and an item. Each trial shows two texts, so it counts in two groups.

    trials : trials with the columns `first_repeat` and `second_repeat`, numbers of the responses from 1
    group_of_text : int array (2·n_trials,), group of each text: both texts of the first trial, both texts of the second trial,
        and so on
    shape : number of groups, and maximum number of responses of an agent to an item

    Returns an int64 array of this shape.
    """
    columns = trials.columns()
    response_of_text = _interleave(columns["first_repeat"], columns["second_repeat"]) - 1
    n_shown = np.zeros(shape, dtype=np.int64)
    np.add.at(n_shown, (group_of_text, response_of_text), 1)  # unlike `+=`, counts equal indices separately
    return n_shown


def _interleave(of_first_texts: Ids | Positions, of_second_texts: Ids | Positions) -> Positions:
    """Put values of the first and of the second texts, int arrays (n_trials,), in turn into one array (2·n_trials,)."""
    return np.asarray(np.column_stack([of_first_texts, of_second_texts]).ravel())


_ABSENT = -1
"""Rank of a response that does not exist, because the agent has fewer responses to the item."""


def _draw_response_ranks(pool: Pool, group_codes: Positions, seed: int) -> Positions:
    """Draw the order in which trials show the responses of an agent to an item, and return the rank of each response in it.

    Responses are shown in cyclic order, beginning at a random one. For example, the order of three responses may be 2, 3, 1. The
    ranks of the responses 1, 2 and 3 are then 2, 0 and 1.

    pool : responses of the agents
    group_codes : int64 array (n_groups,), codes of `_encode_groups`, each once; a group is a trial type, an agent and an item
    seed : seed of the plan

    Returns ranks from 0, int64 array (n_groups, n_responses); −1 for a response that the agent does not have.
    """
    agent, item = _decode_cells(group_codes, pool.n_items)
    drawn_response = _draw_first_responses(pool, seed)[agent, item]

    # drawn numbers may exceed the number of responses of a group, so they are taken modulo this number
    n_responses = pool.n_repeats[agent, item].astype(np.int64)
    cycle_length = np.maximum(n_responses, 1)  # avoids a division by 0
    first_response = drawn_response % cycle_length

    # the rank is the number of steps in the cycle from the first response; rows are groups, columns are responses
    response = np.arange(pool.repeats)
    rank = (response - first_response[:, np.newaxis]) % cycle_length[:, np.newaxis]
    has_response = response < n_responses[:, np.newaxis]
    return np.where(has_response, rank, _ABSENT)


def _choose_responses(group_of_text: Positions, rank: Positions, n_shown: Positions) -> Ids:
    """Choose which response of its agent to its item each new text shows, and add the choices to the counts, in place.

    The texts of one trial type, agent and item form a group. A text shows the response that its group has shown least often. Of
    responses that were shown equally often, it shows the one with the smallest rank.

    group_of_text : int array (n_texts,), group of each text, in the order of the plan
    rank : int array (n_groups, n_responses), a result of `_draw_response_ranks`
    n_shown : int array (n_groups, n_responses), how often each response was shown; updated in place

    Returns the responses, int32 array (n_texts,), counted from 0.
    """
    n_responses = rank.shape[1]
    is_absent = rank == _ABSENT

    # A round has at most one text of each group, so that all its choices can be made at once.
    chosen = np.empty(len(group_of_text), dtype=np.int32)
    for texts in _split_into_rounds(group_of_text):
        groups = group_of_text[texts]

        # the smallest key has the smallest count and, among equal counts, the smallest rank, which is less than n_responses
        sort_key = n_shown[groups] * n_responses + rank[groups]
        sort_key[is_absent[groups]] = np.iinfo(np.int64).max
        response = sort_key.argmin(axis=1)
        n_shown[groups, response] += 1
        chosen[texts] = response
    return chosen


def _split_into_rounds(group_of_text: Positions) -> list[Positions]:
    """Return the positions of the texts in each round: round r contains the text with number r of each group."""
    round_of_text = count_earlier(group_of_text)
    by_round = np.argsort(round_of_text, kind="stable")
    round_starts = np.flatnonzero(np.diff(round_of_text[by_round])) + 1
    return np.split(by_round, round_starts)


def _draw_first_responses(pool: Pool, seed: int) -> Positions:
    """Draw the response that each agent shows first on each item.

    The first responses of an agent on the items are random permutations of the numbers of its responses, one permutation after
    the other. Each response therefore comes first on about equally many items.

    Returns the responses, int64 array (n_agents, n_items), counted from 0.
    """
    n_responses = pool.repeats
    n_permutations = ceil(pool.n_items / n_responses)
    ordered = np.tile(np.arange(n_responses), (n_permutations, 1))
    first_response = np.empty((pool.n_agents, pool.n_items), dtype=np.int64)
    for agent in range(pool.n_agents):
        rng = stream("repeats", seed, agent)
        permutations = rng.permuted(ordered, axis=1)
        first_response[agent] = permutations.ravel()[: pool.n_items]
    return first_response


def _encode_groups(trials: Trials, n_items: int) -> Positions:
    """Encode agent, item and trial type of the first and the second text of each trial, in turn: int64 array (2·n_trials,)."""
    agent = _interleave(trials.first, trials.second).astype(np.int64)
    item = _interleave(*trials.text_cells)
    return 2 * (agent * n_items + item) + np.repeat(trials.trial_type, 2)


def _decode_cells(group_codes: Positions, n_items: int) -> tuple[Positions, Positions]:
    """Return the agent and the item of each number that `_encode_groups` made, int64 arrays (n_groups,)."""
    cell = group_codes // 2
    return np.divmod(cell, n_items)


class IndependentRequest(NamedTuple):
    """Independent trials that were requested: one per paired trial, or `n` pooled ones (None: the default number)."""

    rule: IndependentRule
    n: int | None


def parse_independent(text: str) -> IndependentRequest:
    """Parse the rule for independent trials: "matched", "pooled" or "pooled:N", with a whole number N.

    Raises PlanError [independent-rule] for any other text.

    >>> parse_independent("pooled:300")
    IndependentRequest(rule='pooled', n=300)
    """
    match = INDEPENDENT.fullmatch(text)
    if match is None:
        raise PlanError(
            f"independent is unknown: got '{text}'. Set matched, pooled or pooled:N, with a whole number N.",
            slug="independent-rule",
        )
    n = int(match["n"]) if match["n"] else None
    return IndependentRequest("matched" if match["matched"] else "pooled", n)


def draw_matched_trials(paired: Trials, eligible: Bools, rng: np.random.Generator) -> Trials:
    """Draw an independent trial, which compares responses to different items, for each paired trial.

    It shows the same first text as the paired trial, and a text of the same second agent on a different item. This item is drawn
    at random from the eligible items of the second agent. Two trials may be equal.

    paired : paired trials; the second text of each trial is in an eligible cell
    eligible : bool array (n_agents, n_items), cells (agent, item) that may be used
    rng : source of the other items

    Returns independent trials of the role "matched" in the order of `paired`, and with the same weights. A paired trial is
    skipped if its second agent has no other eligible item.
    """
    n_eligible_items = eligible.sum(axis=1)  # by agent
    has_other_item = n_eligible_items[paired.second] > 1
    item = paired.item[has_other_item]
    first = paired.first[has_other_item]
    second = paired.second[has_other_item]
    other_item = _draw_other_items(item, second, eligible, rng)
    trials = Trials.independent(item, first, second, other_item)
    counts_for_first, counts_for_second = paired.weight_first > 0, paired.weight_second > 0
    return trials.with_role(MATCHED, first=counts_for_first[has_other_item], second=counts_for_second[has_other_item])


def _draw_other_items(item: Ids, agent: Ids, eligible: Bools, rng: np.random.Generator) -> Ids:
    """Draw another eligible item of the same agent for each of some cells (agent, item): int32 array (n_cells,).

    item, agent : int32 arrays (n_cells,), eligible cells of agents with at least two eligible items
    eligible : bool array (n_agents, n_items), cells that may be used
    """
    eligible_items = EligibleItems.from_mask(eligible)
    n_eligible = eligible_items.n_items[agent]

    # number of the cell's item among the eligible items of its agent, from 0
    n_eligible_up_to_item = np.cumsum(eligible, axis=1)[agent, item]
    item_number = n_eligible_up_to_item - 1

    # the n eligible items form a cycle: 1 to n − 1 steps lead to a different item
    n_steps = 1 + np.floor(rng.random(len(item)) * (n_eligible - 1)).astype(np.int64)
    other_number = (item_number + n_steps) % n_eligible
    return eligible_items.get(agent, other_number).astype(np.int32)


SCREENED_PER_CALL = 10
"""Number of comparisons that are screened for probes, per independent call."""
MAX_PROBE_FRACTION = 0.25
"""Maximum fraction of the independent calls that are probes."""
MAX_CALLS_WITH_PROBES = 100
"""Number of independent calls above which there are no more probes, and no more comparisons are screened for them."""
_OUTLIER_MADS = 6 * 1.4826
"""Number of median absolute deviations above the median that makes a similarity unusual: 6 standard deviations."""
_MIN_SIMILARITY = 0.5


def draw_probes(pool: Pool, eligible: Bools, n: int, rng: np.random.Generator) -> Trials:
    """Draw probes: independent trials whose texts share unusually many words, the most similar first.

    Parameters
    ----------
    pool : Pool
        Responses of the agents.
    eligible : bool array (n_agents, n_items)
        Cells that may be used.
    n : int
        Number of independent calls. At most a quarter of them become probes, rounded down, and at most 25.
    rng : numpy.random.Generator
        Source of all random numbers.

    Returns
    -------
    Trials
        Trials of the role "probe", the most similar first; none if `n` is below 4, if the pool has no texts, or if no texts are
        similar enough. They have the weight 0: they do not count for the false-positive rate of any agent.

    Raises
    ------
    PlanError
        [independent]: if no independent trial can be drawn.

    Notes
    -----
    10·n comparisons, at most 1000, are drawn evenly and screened. The similarity of two texts is the sum of the idf (inverse
    document frequency) of the words in both, divided by the smaller of the sums over all words of either text. A similarity is
    unusual if it exceeds both ½ and the median plus 6 standard deviations. The standard deviation is estimated by the median
    absolute deviation.
    """
    n = min(n, MAX_CALLS_WITH_PROBES)
    max_probes = int(n * MAX_PROBE_FRACTION)
    if max_probes == 0 or not pool.lengths.any():
        return draw_pooled_trials(eligible, 0, rng)
    screened = draw_pooled_trials(eligible, SCREENED_PER_CALL * n, rng)
    similarity = _compute_text_similarity(pool, screened)

    median = float(np.median(similarity))
    median_deviation = float(np.median(np.abs(similarity - median)))
    threshold = max(median + _OUTLIER_MADS * median_deviation, _MIN_SIMILARITY)

    most_similar_first = np.argsort(-similarity, kind="stable")
    is_unusual = similarity[most_similar_first] > threshold
    rows = most_similar_first[is_unusual][:max_probes]
    return screened.take(rows).with_role(PROBE, first=0.0, second=0.0)


def _find_words(texts: Sequence[str]) -> csr_array[np.int8]:
    """Return a sparse matrix of which text contains which word, with one row per text."""
    from youden.text.similarity import build_word_matrix

    # equal texts are split into words only once
    row_of_text = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    word_matrix = build_word_matrix(segment_texts(row_of_text))
    return word_matrix[[row_of_text[text] for text in texts]]


def _compute_text_similarity(pool: Pool, trials: Trials) -> Floats:
    """Compute how similar the two texts of each independent trial are: float array (n_trials,), from 0 to 1.

    Each word has a weight, its inverse document frequency (idf), so that rare words count more. The weight of a text is the
    sum over its words. The similarity is the weight of the shared words, divided by the smaller weight of the two texts; it
    is 0 if a text has no word.
    """
    from youden.text.similarity import idf, sum_shared_weights

    first_texts = pool.texts[trials.first, trials.item].tolist()
    second_texts = pool.texts[trials.second, trials.other_item].tolist()
    words = _find_words([*first_texts, *second_texts])
    n_texts, _ = words.shape
    n_texts_with_word = np.asarray(words.sum(axis=0), dtype=np.float64)
    word_weights = idf(n_texts_with_word, n_texts)
    text_weights = np.asarray(words @ word_weights, dtype=np.float64)

    # the rows of all first texts come before the rows of all second texts
    first_rows = np.arange(len(trials))
    second_rows = first_rows + len(trials)
    smaller_weight = np.minimum(text_weights[first_rows], text_weights[second_rows])
    shared_weight = sum_shared_weights(words, first_rows, second_rows, weights=word_weights)
    return np.divide(shared_weight, smaller_weight, out=np.zeros(len(trials)), where=smaller_weight > 0)
