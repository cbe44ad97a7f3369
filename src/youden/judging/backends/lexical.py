"""Judge a plan without calls: two responses come from the same item if they share words that few items have.

The judge is a baseline that ignores meaning, word order and contradiction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from youden.errors import ConfigError, JudgeError, PlanError
from youden.streams import standalone_stream
from youden.text.similarity import (
    COPYING_SHARE,
    N_GRAM,
    build_group_word_matrix,
    build_word_matrix,
    copied_shares,
    find_copying_agents,
    idf,
    sum_shared_weights,
)
from youden.text.words import SegmentedTexts, segment_texts
from youden.types import PAIRED, Finding, Plan, Pool, Verdicts
from youden.types.pool import Floats, Ids, Json

Index = NDArray[np.int64]

VERSION = 3
N_FOLDS = 5
MIN_ITEMS = 8
"""Minimum number of items with responses; with fewer, there would be too few items to fit on in a fold."""
SCALE_QUANTILE = 0.95
FITTING_PAIRS = 20_000
"""Largest number of pairs of responses, of each trial type, that scale and threshold are fitted on."""
MAX_QUARTILES = 2.0
"""The words of a text count in full if its common mass is at most this multiple of the upper quartile of its item."""
LENGTH_POWER = 2.0
"""Power of (limit / common mass) in the weight of a text whose common mass exceeds this limit."""

_BASELINE = (
    "The lexical judge is a similarity baseline: it compares shared words only, does not recognize contradiction and "
    "paraphrase, and favours long texts. Before you conclude, use a language model as the judge, or check that length alone does "
    "not explain the result."
)


@dataclass(frozen=True)
class Lexical:
    """Judges a whole plan by shared words, without calls.

    Parameters
    ----------
    seed : int, default 0
        Seed of the folds, and of the sample of pairs to which scale and threshold are fitted.

    Raises
    ------
    ConfigError
        [judge-parameters] if the seed is not an integer ≥ 0.

    Notes
    -----
    The similarity of two texts is Σ idf(w) over the words in both, times the weight min(1, 2·Q₃ / V)² of each text. Here
    idf(w) = log(number of items / number of items with w in a response). The common mass V of a text is Σ idf over its
    words that also occur in another agent's response to the item. Q₃ is the upper quartile of V over the agents that
    responded to the item, without agents that share no words. If an agent has several responses, their mean V is used.
    Long responses therefore count in full if at least a quarter of the agents respond at length, but a text
    that collects the words of all others counts little.

    The soft answer is clip(similarity / 95th percentile of paired similarities, 0, 1). The hard answer is similarity ≥
    threshold, with the threshold that maximizes TPR − FPR. For each trial, idf, scale and threshold are fitted on the
    items outside the folds (of 5) that contain the trial's items. Whether two texts respond to the same item is known,
    so no labels are needed.
    """

    seed: int = 0

    name: ClassVar[str] = "lexical"

    def __post_init__(self) -> None:
        if type(self.seed) is not int or self.seed < 0:
            raise ConfigError(
                f"The seed of the lexical judge must be an integer of 0 or more: got {self.seed!r}. Set such a seed.",
                slug="judge-parameters",
            )

    def answer_many(self, plan: Plan) -> Verdicts:
        """Answer every trial of a plan; no answer is missing.

        Parameters
        ----------
        plan : Plan
            The plan, with its pool.

        Returns
        -------
        Verdicts
            One answer per trial, in the plan's order.

        Raises
        ------
        PlanError
            [plan-missing-text] if the pool lacks a text of the plan.
        JudgeError
            [lexical-few-items] if fewer than 8 items have responses; [lexical-nothing-shared] if the items to fit on do
            not determine a scale.
        """
        # all texts of the pool, item by item; further responses of an agent have agent numbers from n_agents on
        pool = plan.pool
        item_of, agent_of = np.nonzero(pool.all_present.T)
        # two responses of one agent are no pair to fit on, unless all trials compare such responses
        n_sources = len(pool.all_texts) if plan.is_self_plan else pool.n_agents
        first_responses = np.flatnonzero(agent_of < n_sources)
        other_item = np.where(plan.trial_type == PAIRED, plan.item, plan.other_item)
        first, second = _find_text_positions(plan, other_item=other_item, agent_of=agent_of, item_of=item_of)
        responses = pool.all_texts.T[pool.all_present.T]
        prompts = [item.prompt or "" for item in pool.items]
        texts = segment_texts([*responses, *prompts])

        # one model per pair of folds that contains the items of a trial; it is fitted on the items of all other folds
        rng = standalone_stream(self.seed)
        fold = _draw_folds(np.unique(item_of), rng, n_items=pool.n_items)
        fold_1, fold_2 = fold[plan.item], fold[other_item]
        excluded_folds = N_FOLDS * np.minimum(fold_1, fold_2) + np.maximum(fold_1, fold_2)  # one number per pair
        models = np.unique(excluded_folds)[:, None]
        fits_on = (fold >= 0) & (fold != models // N_FOLDS) & (fold != models % N_FOLDS)  # (n_models, n_items)

        matrix = build_word_matrix(texts)[: len(item_of)]
        matrix, word_weights = _weight_words(matrix, item_of, fits_on)
        text_weight = compute_text_weights(
            matrix, item_of=item_of, agent_of=agent_of % n_sources, word_weights=word_weights
        )

        # similarities (n_models, n_pairs) of sampled pairs of each trial type, and the models that may be fitted on them
        samples = []
        for paired in (True, False):
            pairs = sample_pairs(item_of[first_responses], rng, paired=paired)
            a, b = (first_responses[rows] for rows in pairs)
            mass = sum_shared_weights(matrix, a, b, weights=word_weights)
            mass *= text_weight[a] * text_weight[b]
            samples.append((mass.T, fits_on[:, item_of[a]] & fits_on[:, item_of[b]]))
        (paired_mass, paired_fits), (independent_mass, independent_fits) = samples

        # each model answers the trials on the items that it was not fitted on
        answer, hard = np.empty(len(plan)), np.empty(len(plan))
        for m, model in enumerate(models):
            paired_values = paired_mass[m, paired_fits[m]]
            independent_values = independent_mass[m, independent_fits[m]]
            scale, threshold = _fit_scale_and_threshold(
                paired_values, independent_values, is_self_plan=plan.is_self_plan
            )
            trials = np.flatnonzero(excluded_folds == model)
            mass = sum_shared_weights(matrix, first[trials], second[trials], weights=word_weights[:, m])
            mass *= text_weight[first[trials], m] * text_weight[second[trials], m]
            answer[trials] = np.clip(mass / scale, 0.0, 1.0)
            hard[trials] = mass >= threshold

        return Verdicts(
            plan=plan,
            answer=answer,
            hard_answer=hard,
            missing_reason=np.zeros(len(plan), dtype=np.int8),
            judge=self.describe(),
            warnings=(
                Finding("lexical", _BASELINE),
                *_warn_without_prompts(pool),
                *_find_copying(pool, texts, agent_of=agent_of, item_of=item_of, is_self_plan=plan.is_self_plan),
            ),
        )

    def describe(self) -> dict[str, Json]:
        """Return everything that an answer depends on except the texts, for the signature of verdicts."""
        return {
            "name": self.name,
            "version": VERSION,
            "similarity": "sum of idf over shared words, idf over items, times min(1, 2 Q3 / V)^2 of each text",
            "words": "NFKC, casefolded; pairs of characters in scripts without spaces",
            "folds": N_FOLDS,
            "seed": self.seed,
            "scale_quantile": SCALE_QUANTILE,
            "fitting_pairs": FITTING_PAIRS,
        }


def _weight_words(
    matrix: csr_array[np.int8], item_of: Index, fits_on: NDArray[np.bool_]
) -> tuple[csr_array[np.int8], Floats]:
    """Select the words that can count, and compute their weights.

    A word can count under two conditions: at least two texts contain it, and, for at least one model, some item that the
    model is fitted on has no text with the word.

    matrix : int8 csr_array (n_texts, n_words), 1 if the text contains the word
    item_of : int array (n_texts,), item of each text
    fits_on : bool array (n_models, n_items), items that each model is fitted on

    Returns the columns of `matrix` for the selected words; and the weights of these words, float array
    (n_selected_words, n_models). A weight is the inverse document frequency over the items that the model is fitted on.
    """
    words_by_item = build_group_word_matrix(matrix, item_of, n_groups=fits_on.shape[1])
    n_items_with_word: Floats = np.asarray(fits_on.astype(np.float64) @ words_by_item)
    weights = idf(n_items_with_word, fits_on.sum(axis=1, keepdims=True))
    can_count = (weights.max(axis=0, initial=0.0) > 0) & (matrix.sum(axis=0) > 1)
    return matrix[:, can_count], np.ascontiguousarray(weights[:, can_count].T)


def _find_text_positions(plan: Plan, *, other_item: Ids, agent_of: Index, item_of: Index) -> tuple[Index, Index]:
    """Find the first and the second text of each trial in the list of all texts of the pool.

    other_item : int array (n_trials,), item of the second text of each trial
    agent_of, item_of : int arrays (n_texts,), row and column in `Pool.all_texts` of each text in the list

    Returns the positions of the first and of the second texts in the list, two int arrays (n_trials,).
    Raises: PlanError [plan-missing-text] if the pool lacks a text of a trial.
    """
    pool = plan.pool
    positions = np.full(pool.all_texts.shape, -1)  # −1 for a text that the pool lacks
    positions[agent_of, item_of] = np.arange(len(item_of))
    first_row, second_row = plan.text_rows
    first = positions[first_row, plan.item]
    second = positions[second_row, other_item]
    if (first < 0).any() or (second < 0).any():
        raise _make_missing_text_error(plan, first=first, second=second, other_item=other_item)
    return first, second


def _make_missing_text_error(plan: Plan, *, first: Index, second: Index, other_item: Ids) -> PlanError:
    """Make the error for a plan with texts that its pool does not contain. The message names the first missing text.

    first, second : int arrays (n_trials,), positions of the two texts of each trial; −1 for a text that the pool lacks
    other_item : int array (n_trials,), item of the second text of each trial
    """
    incomplete_trials = np.flatnonzero((first < 0) | (second < 0))
    trial = incomplete_trials[0]
    if first[trial] < 0:
        agent, item = plan.first[trial], plan.item[trial]
    else:
        agent, item = plan.second[trial], other_item[trial]
    return PlanError(
        f"The pool '{plan.pool.name}' lacks texts of the plan in {incomplete_trials.size} of {len(plan)} trials: the first is "
        f"trial {trial}, agent '{plan.agent_ids[agent]}' on item '{plan.item_ids[item]}'. "
        "Make the plan from this pool.",
        slug="plan-missing-text",
    )


_FEW_ITEMS_REMEDY = "Add items, or use another judge."


def _describe_few_items(n_items: int) -> str:
    """Describe the error that too few items have responses."""
    return (
        f"The lexical judge needs at least {MIN_ITEMS} items with responses, because it is fitted on other items than it "
        f"judges: got {n_items}."
    )


def find_few_items(pool: Pool) -> list[Finding]:
    """Return a finding if a pool has too few items with responses for this judge, so that a run would fail; else none."""
    n_items = int(pool.all_present.any(axis=0).sum())
    if n_items >= MIN_ITEMS:
        return []
    effect = "The run of this config would end with an error."
    return [Finding("lexical-few-items", _describe_few_items(n_items), effect, _FEW_ITEMS_REMEDY, "failed")]


def _draw_folds(items: Index, rng: np.random.Generator, *, n_items: int) -> Index:
    """Divide items into random folds of about equal size.

    items : int array, items with responses

    Returns the fold of each item, int array (n_items,), counted from 0; −1 for an item without responses.
    Raises JudgeError [lexical-few-items] if there are too few items.
    """
    if len(items) < MIN_ITEMS:
        raise JudgeError(f"{_describe_few_items(len(items))} {_FEW_ITEMS_REMEDY}", slug="lexical-few-items")
    fold = np.full(n_items, -1)
    fold[items] = rng.permutation(len(items)) % N_FOLDS
    return fold


def sample_pairs(
    item_of: Index, rng: np.random.Generator, *, paired: bool, limit: int = FITTING_PAIRS
) -> tuple[Index, Index]:
    """Sample distinct ordered pairs of two different texts uniformly; both may be texts of one agent.

    The partners of a text are the texts that can form a pair with it. If `paired` is True, these are the other texts on its item;
    otherwise, the texts on all other items. All possible pairs are numbered, and a sample of these numbers is drawn.

    item_of : int array (n_texts,), item of each text, ascending
    rng : source of the sample
    paired : whether the two texts of a pair respond to the same item; otherwise they respond to different items
    limit : largest number of pairs; if no more pairs are possible, all of them are returned

    Returns the positions of the first and of the second texts, two int arrays (n_pairs,).
    """
    # for each text: position of the first text on its item, and number of texts on its item
    item_start = np.searchsorted(item_of, item_of, side="left")
    n_on_item = np.searchsorted(item_of, item_of, side="right") - item_start

    # the pairs with the first text 0 are numbered first, then those with the first text 1, and so on
    n_partners = n_on_item - 1 if paired else len(item_of) - n_on_item
    pairs_end = np.cumsum(n_partners)
    pairs_start = pairs_end - n_partners
    n_pairs = int(pairs_end[-1])
    pair = rng.choice(n_pairs, size=min(n_pairs, limit), replace=False, shuffle=False)
    first = np.searchsorted(pairs_end, pair, side="right")
    partner = pair - pairs_start[first]  # number of the partner, from 0 for the first text

    # convert the number of the partner to its position: skip the texts in between that are no partners
    if paired:
        position = item_start[first] + partner
        is_after_first = position >= first
        return first, position + is_after_first
    is_after_item = partner >= item_start[first]
    return first, partner + is_after_item * n_on_item[first]


def _fit_scale_and_threshold(paired: Floats, independent: Floats, *, is_self_plan: bool) -> tuple[float, float]:
    """Fit the scale and the threshold that convert similarities to answers.

    The scale is the 95th percentile of the paired similarities. The threshold is the lowest one that maximizes TPR − FPR.

    paired : float array (n_paired,), similarities of two texts on the same item
    independent : float array (n_independent,), similarities of two texts on different items
    is_self_plan : whether a pair consists of two responses of one agent, for the error message

    Returns the scale, above 0, and the threshold.
    Raises: JudgeError [lexical-nothing-shared] if one of the arrays is empty or the scale is 0.
    """
    scale = 0.0
    if paired.size and independent.size:
        scale = float(np.quantile(paired, SCALE_QUANTILE))
    if scale == 0.0:
        responses = "to which at least two agents responded"
        if is_self_plan:
            responses = "with at least two responses of the agent"
        raise JudgeError(
            f"The lexical judge cannot set its scale: of {paired.size} pairs of responses to the same item that it is fitted on, "
            f"{np.count_nonzero(paired)} share a word that some items lack. "
            f"Add items {responses} in words, or use another judge.",
            slug="lexical-nothing-shared",
        )

    # TPR and FPR at a threshold: the fractions of similarities that are not below it
    candidates = np.unique(paired)
    tpr = 1 - np.searchsorted(np.sort(paired), candidates) / paired.size
    fpr = 1 - np.searchsorted(np.sort(independent), candidates) / independent.size
    return scale, float(candidates[np.argmax(tpr - fpr)])


def compute_text_weights(
    matrix: csr_array[np.int8], *, item_of: Index, agent_of: Index, word_weights: Floats
) -> Floats:
    """Compute the weights of texts. Texts that share unusually many words with other responses to their item weigh less.

    A word is common on an item if at least two agents used it there. The mass of a text is the sum of the weights of its
    common words. The limit of an item is `MAX_QUARTILES` times the upper quartile of the mean masses of all agents whose mean
    mass is above 0. The weight of a text is min(1, limit / mass) to the power of `LENGTH_POWER`.

    matrix : int8 csr_array (n_texts, n_words), 1 if the text contains the word
    item_of, agent_of : int arrays (n_texts,), item and agent of each text; `item_of` ascends
    word_weights : float array (n_words, n_models), ≥ 0, weight of each word in each model

    Returns a float array (n_texts, n_models), in (0, 1].
    """
    n_texts, n_words = matrix.shape
    common_words = _find_common_words(matrix, item_of=item_of, agent_of=agent_of)
    bounded_ratios = np.ones((n_texts, word_weights.shape[1]))  # min(1, limit / mass)

    # 1 for each common word of the current item; one array serves all items, because it is as long as the vocabulary
    is_common = np.zeros(n_words, dtype=np.int8)

    for texts in _iter_texts_by_item(item_of):
        item = item_of[texts.start]
        common_words_of_item = common_words[[item]].indices
        is_common[common_words_of_item] = 1
        mass = _sum_word_weights(matrix[texts], is_common, word_weights)
        is_common[common_words_of_item] = 0  # for the next item

        mass_by_agent = _average_by_agent(mass, agent_of[texts])
        limit = MAX_QUARTILES * _compute_upper_quartiles(mass_by_agent)
        np.divide(limit, mass, out=bounded_ratios[texts], where=mass > limit)
    return np.asarray(bounded_ratios**LENGTH_POWER)


def _iter_texts_by_item(item_of: Index) -> Iterator[slice]:
    """Yield the positions of the texts on each item as a slice. The texts on one item are consecutive.

    item_of : int array (n_texts,), item of each text, ascending
    """
    later_starts = np.flatnonzero(np.diff(item_of)) + 1
    for start, stop in pairwise([0, *later_starts.tolist(), len(item_of)]):
        yield slice(start, stop)


def _sum_word_weights(words: csr_array[np.int8], is_included: NDArray[np.int8], word_weights: Floats) -> Floats:
    """Sum the weights of the included words of each text, a float array (n_texts, n_models).

    words : int8 csr_array (n_texts, n_words), 1 if the text contains the word
    is_included : int8 array (n_words,), 1 or 0
    word_weights : float array (n_words, n_models)
    """
    included_words = csr_array((is_included[words.indices], words.indices, words.indptr), shape=words.shape)
    return np.asarray(included_words @ word_weights)


def _find_common_words(matrix: csr_array[np.int8], *, item_of: Index, agent_of: Index) -> csr_array[np.int8]:
    """Find the words that at least two agents used in their responses to an item, int8 csr_array (n_items, n_words).

    matrix : int8 csr_array (n_texts, n_words), 1 if the text contains the word
    item_of, agent_of : int arrays (n_texts,), item and agent of each text
    """
    n_agents = int(agent_of.max()) + 1
    n_items = int(item_of.max()) + 1
    cell_codes, cell_of = np.unique(item_of * n_agents + agent_of, return_inverse=True)
    item_of_cell = cell_codes // n_agents

    # words of each agent on each item: those of its only response, or of its repeats together
    words_by_cell = matrix
    has_repeats = len(cell_codes) < len(item_of)
    if has_repeats:
        words_by_cell = build_group_word_matrix(matrix, cell_of, n_groups=len(cell_codes))
    return build_group_word_matrix(words_by_cell, item_of_cell, n_groups=n_items, min_texts=2)


def _average_by_agent(mass: Floats, agent_of: Index) -> Floats:
    """Average the masses of the texts of each agent.

    mass : float array (n_texts, n_models), mass of each text in each model (see `compute_text_weights`)
    agent_of : int array (n_texts,), agent of each text

    Returns a float array (n_agents, n_models), one row per agent that occurs in `agent_of`, in any order.
    """
    agents, agent_row, n_texts = np.unique(agent_of, return_inverse=True, return_counts=True)
    has_one_text_each = len(agents) == len(agent_of)
    if has_one_text_each:
        return mass
    sums = np.zeros((len(agents), mass.shape[1]))
    np.add.at(sums, agent_row, mass)
    return np.asarray(sums / n_texts[:, None])


def _compute_upper_quartiles(mass: Floats) -> Floats:
    """Return the upper quartile of the positive values of each column, linearly interpolated; 0 if there are none.

    mass : float array (n_agents, n_models), ≥ 0

    Returns a float array (n_models,).
    """
    sorted_mass = np.sort(mass, axis=0)
    n_zeros = np.count_nonzero(sorted_mass == 0, axis=0)
    last_row = len(mass) - 1

    # position of the quartile in each sorted column, after the zeros
    position = n_zeros + 0.75 * (last_row - n_zeros)
    lower_row = np.floor(position).astype(np.int64)
    upper_row = np.minimum(lower_row + 1, last_row)
    fraction = position - lower_row
    columns = np.arange(mass.shape[1])
    lower_value = sorted_mass[lower_row, columns]
    upper_value = sorted_mass[upper_row, columns]
    return np.asarray((1 - fraction) * lower_value + fraction * upper_value)


def _warn_without_prompts(pool: Pool) -> list[Finding]:
    """Return a finding if no item has a prompt, so that copying cannot be detected; else an empty list."""
    if any(item.prompt is not None for item in pool.items):
        return []
    return [
        Finding(
            "no-prompts",
            "The pool has no prompts, so it cannot be checked whether agents copy their sources, which this judge rewards.",
        )
    ]


def _compute_copied_shares(pool: Pool, texts: SegmentedTexts, *, agent_of: Index, item_of: Index) -> Floats:
    """Compute the fraction of each response that is copied from its prompt.

    texts : words of all responses, in the order of `item_of`, followed by the words of the prompts of all items
    agent_of, item_of : int arrays (n_responses,), row and column of each response in `Pool.all_texts`; `item_of` ascends

    Returns a float array with the shape of `Pool.all_texts`; NaN without a response or a prompt.
    """
    shares = np.full(pool.all_texts.shape, np.nan)
    n_responses = len(item_of)

    # the responses to an item are consecutive: from starts[item] up to starts[item + 1] − 1
    starts = np.searchsorted(item_of, np.arange(pool.n_items + 1))
    for item, record in enumerate(pool.items):
        if record.prompt is None:
            continue
        positions = range(starts[item], starts[item + 1])
        responses = (texts[position] for position in positions)
        prompt = texts[n_responses + item]
        shares[agent_of[positions], item] = copied_shares(responses, prompt)
    return shares


def _find_copying(
    pool: Pool, texts: SegmentedTexts, *, agent_of: Index, item_of: Index, is_self_plan: bool
) -> list[Finding]:
    """Return a finding for each agent whose median response is largely copied from its prompt.

    texts : words of all responses, in the order of `item_of`, followed by the words of the prompts of all items
    agent_of, item_of : int arrays (n_responses,), row and column of each response in `Pool.all_texts`; `item_of` ascends
    is_self_plan : whether each trial compares responses of one agent, so that there is no ranking
    """
    shares = _compute_copied_shares(pool, texts, agent_of=agent_of, item_of=item_of)

    # join the repeats of each agent: from (n_repeats · n_agents, n_items) to (n_agents, n_repeats · n_items)
    shares_by_agent = np.hstack(np.split(shares, pool.repeats))

    effect = "ranks the agent higher than its responses deserve"
    if is_self_plan:
        effect = "overstates the self-consistency of the agent"
    findings = []
    for copying in find_copying_agents(shares_by_agent):
        agent_id = pool.agents[copying.agent].id
        message = (
            f"Agent '{agent_id}' copies its prompts: in its median response, {copying.share:.0%} of the "
            f"runs of {N_GRAM} words occur in the item's prompt (reported from {COPYING_SHARE:.0%}). Copied text shares words "
            f"with all responses that keep to the prompt, so this judge {effect}."
        )
        findings.append(Finding("copying", message, agents=(agent_id,), facts={"share": copying.share}))
    return findings
