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
"""The words of a text count in full if its common weight is at most this multiple of the upper quartile of its item."""
LENGTH_POWER = 2.0
"""Power of (limit / common weight) in the weight of a text whose common weight exceeds this limit."""

_BASELINE = (
    "The lexical judge is a similarity baseline: it compares shared words only, does not recognize contradiction and "
    "paraphrase, and favors long texts. Before you conclude, use a language model as the judge, or check that length alone does "
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
    idf(w) = log(number of items / number of items with w in a response). The common weight V of a text is Σ idf over its
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
            Trials to be judged, with the pool of their texts.

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
        item_of_text, agent_of_text = np.nonzero(pool.all_present.T)
        # two responses of one agent are not a pair to fit on, unless all trials compare such responses
        n_sources = len(pool.all_texts) if plan.is_self_plan else pool.n_agents
        first_responses = np.flatnonzero(agent_of_text < n_sources)
        other_item = np.where(plan.trial_type == PAIRED, plan.item, plan.other_item)
        first_text, second_text = _find_text_positions(
            plan, other_item=other_item, agent_of_text=agent_of_text, item_of_text=item_of_text
        )
        responses = pool.all_texts.T[pool.all_present.T]
        prompts = [item.prompt or "" for item in pool.items]
        texts = segment_texts([*responses, *prompts])

        # one model per pair of folds that contains the items of a trial; it is fitted on the items of all other folds
        rng = standalone_stream(self.seed)
        fold = _draw_folds(np.unique(item_of_text), rng, n_items=pool.n_items)
        fold_1, fold_2 = fold[plan.item], fold[other_item]
        excluded_folds = N_FOLDS * np.minimum(fold_1, fold_2) + np.maximum(fold_1, fold_2)  # one number per pair
        models = np.unique(excluded_folds)[:, None]
        excluded_1, excluded_2 = models // N_FOLDS, models % N_FOLDS  # the two folds of each pair
        is_fitted_on = (fold >= 0) & (fold != excluded_1) & (fold != excluded_2)  # (n_models, n_items)

        matrix = build_word_matrix(texts)[: len(item_of_text)]
        matrix, word_weights = _weight_words(matrix, item_of_text, is_fitted_on)
        text_weight = compute_text_weights(
            matrix, item_of_text=item_of_text, agent_of_text=agent_of_text % n_sources, word_weights=word_weights
        )

        # similarities (n_models, n_pairs) of sampled pairs of each trial type, and the models that may be fitted on them
        samples = []
        for paired in (True, False):
            pairs = sample_pairs(item_of_text[first_responses], rng, paired=paired)
            text_1, text_2 = (first_responses[positions] for positions in pairs)
            similarities = sum_shared_weights(matrix, text_1, text_2, weights=word_weights)
            similarities *= text_weight[text_1] * text_weight[text_2]
            is_in_fit = is_fitted_on[:, item_of_text[text_1]] & is_fitted_on[:, item_of_text[text_2]]
            samples.append((similarities.T, is_in_fit))
        (paired_similarities, is_paired_in_fit), (independent_similarities, is_independent_in_fit) = samples

        # each model answers the trials on the items that it was not fitted on
        answer, hard = np.empty(len(plan)), np.empty(len(plan))
        for m, model in enumerate(models):
            scale, threshold = _fit_scale_and_threshold(
                paired_similarities[m, is_paired_in_fit[m]],
                independent_similarities[m, is_independent_in_fit[m]],
                is_self_plan=plan.is_self_plan,
            )
            trials = np.flatnonzero(excluded_folds == model)
            text_1, text_2 = first_text[trials], second_text[trials]
            similarities = sum_shared_weights(matrix, text_1, text_2, weights=word_weights[:, m])
            similarities *= text_weight[text_1, m] * text_weight[text_2, m]
            answer[trials] = np.clip(similarities / scale, 0.0, 1.0)
            hard[trials] = similarities >= threshold

        copying_findings = _find_copying(
            pool, texts, agent_of_text=agent_of_text, item_of_text=item_of_text, is_self_plan=plan.is_self_plan
        )
        return Verdicts(
            plan=plan,
            answer=answer,
            hard_answer=hard,
            missing_reason=np.zeros(len(plan), dtype=np.int8),
            judge=self.describe(),
            warnings=(Finding("lexical", _BASELINE), *_warn_without_prompts(pool), *copying_findings),
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
    matrix: csr_array[np.int8], item_of_text: Index, is_fitted_on: NDArray[np.bool_]
) -> tuple[csr_array[np.int8], Floats]:
    """Compute the weights of words, and select the words that can contribute to a similarity of texts.

    Each model of similarity is fitted on some of the items. The weight of a word is its inverse document frequency (idf): rare
    words weigh more, and a word that occurs on all of these items has weight 0. A word is selected under two conditions: at least
    two texts contain it, and it has a positive weight in at least one model.

    matrix : int8 csr_array (n_texts, n_words), 1 if the text contains the word
    item_of_text : int array (n_texts,), item of each text
    is_fitted_on : bool array (n_models, n_items), items that each model is fitted on

    Returns the columns of `matrix` for the selected words; and the weights of these words, float array
    (n_selected_words, n_models).
    """
    words_by_item = build_group_word_matrix(matrix, item_of_text, n_groups=is_fitted_on.shape[1])
    n_items_with_word: Floats = np.asarray(is_fitted_on.astype(np.float64) @ words_by_item)
    n_items_of_model = is_fitted_on.sum(axis=1, keepdims=True)
    weights = idf(n_items_with_word, n_items_of_model)  # (n_models, n_words)

    has_weight = weights.max(axis=0, initial=0.0) > 0
    is_in_several_texts = matrix.sum(axis=0) > 1
    is_selected = has_weight & is_in_several_texts
    return matrix[:, is_selected], np.ascontiguousarray(weights[:, is_selected].T)


def _find_text_positions(
    plan: Plan, *, other_item: Ids, agent_of_text: Index, item_of_text: Index
) -> tuple[Index, Index]:
    """Find the first and the second text of each trial in the list of all texts of the pool.

    other_item : int array (n_trials,), item of the second text of each trial
    agent_of_text, item_of_text : int arrays (n_texts,), row and column in `Pool.all_texts` of each text in the list

    Returns the positions of the first and of the second texts in the list, two int arrays (n_trials,).
    Raises: PlanError [plan-missing-text] if the pool lacks a text of a trial.
    """
    # position in the list by row and column of `Pool.all_texts`; −1 for a text that the pool lacks
    positions = np.full(plan.pool.all_texts.shape, -1)
    positions[agent_of_text, item_of_text] = np.arange(len(item_of_text))
    first_row, second_row = plan.text_rows  # rows of `Pool.all_texts`
    first_text = positions[first_row, plan.item]
    second_text = positions[second_row, other_item]
    if (first_text < 0).any() or (second_text < 0).any():
        raise _make_missing_text_error(plan, first_text=first_text, second_text=second_text, other_item=other_item)
    return first_text, second_text


def _make_missing_text_error(plan: Plan, *, first_text: Index, second_text: Index, other_item: Ids) -> PlanError:
    """Make the error for a plan with texts that its pool does not contain. The message names the first missing text.

    first_text, second_text : int arrays (n_trials,), positions of the texts of each trial; −1 for a text that the pool lacks
    other_item : int array (n_trials,), item of the second text of each trial
    """
    incomplete_trials = np.flatnonzero((first_text < 0) | (second_text < 0))
    trial = incomplete_trials[0]
    if first_text[trial] < 0:
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
    item_of_text: Index, rng: np.random.Generator, *, paired: bool, limit: int = FITTING_PAIRS
) -> tuple[Index, Index]:
    """Sample distinct ordered pairs of two different texts uniformly.

    If `paired` is True, the two texts of a pair respond to the same item. Otherwise, they respond to different items.

    item_of_text : int array (n_texts,), item of each text, ascending
    rng : random number generator
    paired : whether the two texts of a pair respond to the same item
    limit : maximum number of pairs, by default 20,000; if no more pairs are possible, all of them are returned

    Returns the positions of the first and of the second texts, two int arrays (n_pairs,), both empty if no pair is possible.
    """
    # for each text: position of the first text on its item, and number of texts on its item
    item_start = np.searchsorted(item_of_text, item_of_text, side="left")
    n_on_item = np.searchsorted(item_of_text, item_of_text, side="right") - item_start

    # Number all possible pairs: first those that begin with text 0, then those that begin with text 1, and so on.
    # A partner of a text is any text that can form a pair with it.
    n_partners = n_on_item - 1 if paired else len(item_of_text) - n_on_item
    pairs_end = np.cumsum(n_partners)
    pairs_start = pairs_end - n_partners
    n_pairs = int(pairs_end[-1])
    pair_numbers = rng.choice(n_pairs, size=min(n_pairs, limit), replace=False, shuffle=False)
    first = np.searchsorted(pairs_end, pair_numbers, side="right")
    partner_numbers = pair_numbers - pairs_start[first]  # 0 for the first partner of the text

    # Convert partner numbers to text positions by skipping the texts that are not partners. For example, let the texts 2, 3 and 4
    # respond to one item. The partners of text 3 are then 2 and 4 if `paired` is True, and otherwise 0, 1, 5, …
    if paired:
        second = item_start[first] + partner_numbers
        second[second >= first] += 1  # skip the first text itself
    else:
        second = partner_numbers
        is_after_item = second >= item_start[first]
        second[is_after_item] += n_on_item[first][is_after_item]  # skip the texts on the same item
    return first, second


def _fit_scale_and_threshold(paired: Floats, independent: Floats, *, is_self_plan: bool) -> tuple[float, float]:
    """Fit the scale and the threshold that convert similarities to answers.

    The scale is the 95th percentile of the similarities of paired texts. The threshold is the lowest one that maximizes the
    true-positive rate minus the false-positive rate, TPR − FPR.

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
        needed_items = "to which at least two agents responded"
        if is_self_plan:
            needed_items = "with at least two responses of the agent"
        raise JudgeError(
            f"The lexical judge cannot set its scale: of {paired.size} pairs of responses to the same item that it is fitted on, "
            f"{np.count_nonzero(paired)} share a word that some items lack. "
            f"Add items {needed_items} in words, or use another judge.",
            slug="lexical-nothing-shared",
        )

    # the hard answer is yes for a similarity of at least the threshold, so the rates are 1 minus the fractions below it
    thresholds = np.unique(paired)
    n_paired_below = np.searchsorted(np.sort(paired), thresholds)
    n_independent_below = np.searchsorted(np.sort(independent), thresholds)
    true_positive_rates = 1 - n_paired_below / paired.size
    false_positive_rates = 1 - n_independent_below / independent.size
    best = np.argmax(true_positive_rates - false_positive_rates)
    return scale, float(thresholds[best])


def compute_text_weights(
    matrix: csr_array[np.int8], *, item_of_text: Index, agent_of_text: Index, word_weights: Floats
) -> Floats:
    """Compute a weight for each text. Texts that share unusually many words with other responses to their item weigh less.

    1. A word is common on an item if at least two agents used it in their responses to the item.
    2. The overlap of a text is the sum of the weights of its common words. The overlap of an agent is the mean over its texts on
       the item.
    3. The limit of an item is `MAX_QUARTILES` (2) times the upper quartile of those overlaps of agents that are above 0.
    4. The weight of a text is min(1, limit / overlap of the text) to the power of `LENGTH_POWER` (2); 1 if its overlap is 0.

    Steps 2 to 4 are done separately for each model, a column of `word_weights`.

    matrix : int8 csr_array (n_texts, n_words), 1 if the text contains the word
    item_of_text, agent_of_text : int arrays (n_texts,), item and agent of each text; `item_of_text` ascends
    word_weights : float array (n_words, n_models), ≥ 0, weight of each word in each model

    Returns a float array (n_texts, n_models), in (0, 1].
    """
    n_texts, n_words = matrix.shape
    common_words = _find_common_words(matrix, item_of_text=item_of_text, agent_of_text=agent_of_text)
    ratios = np.ones((n_texts, word_weights.shape[1]))  # min(1, limit / overlap)

    # 1 for each common word of the current item; the array is long, so it is reused for all items
    is_common = np.zeros(n_words, dtype=np.int8)

    for texts in _iter_texts_by_item(item_of_text):
        item = item_of_text[texts.start]
        common_words_of_item = common_words[[item]].indices
        is_common[common_words_of_item] = 1
        common_weights = _sum_word_weights(matrix[texts], is_common, word_weights)
        is_common[common_words_of_item] = 0  # for the next item

        weights_by_agent = _average_over_texts_of_agents(common_weights, agent_of_text[texts])
        limit = MAX_QUARTILES * _compute_upper_quartiles_above_zero(weights_by_agent)
        np.divide(limit, common_weights, out=ratios[texts], where=common_weights > limit)
    return np.asarray(ratios**LENGTH_POWER)


def _iter_texts_by_item(item_of_text: Index) -> Iterator[slice]:
    """Yield the positions of the texts on each item as a slice. The texts on one item are consecutive.

    item_of_text : int array (n_texts,), item of each text, ascending
    """
    later_starts = np.flatnonzero(np.diff(item_of_text)) + 1
    for start, stop in pairwise([0, *later_starts.tolist(), len(item_of_text)]):
        yield slice(start, stop)


def _sum_word_weights(words: csr_array[np.int8], is_included: NDArray[np.int8], word_weights: Floats) -> Floats:
    """Sum the weights of the included words of each text, a float array (n_texts, n_models).

    words : int8 csr_array (n_texts, n_words), 1 if the text contains the word
    is_included : int8 array (n_words,), 1 or 0
    word_weights : float array (n_words, n_models)
    """
    included_words = csr_array((is_included[words.indices], words.indices, words.indptr), shape=words.shape)
    return np.asarray(included_words @ word_weights)


def _find_common_words(matrix: csr_array[np.int8], *, item_of_text: Index, agent_of_text: Index) -> csr_array[np.int8]:
    """Find the words that at least two agents used in their responses to an item, int8 csr_array (n_items, n_words).

    matrix : int8 csr_array (n_texts, n_words), 1 if the text contains the word
    item_of_text, agent_of_text : int arrays (n_texts,), item and agent of each text
    """
    n_agents = int(agent_of_text.max()) + 1
    n_items = int(item_of_text.max()) + 1

    # all responses of an agent to an item form one group, which is identified by a number
    codes = item_of_text * n_agents + agent_of_text
    distinct_codes, group_of_text = np.unique(codes, return_inverse=True)
    item_of_group = distinct_codes // n_agents

    # an agent that used a word in several responses to an item counts once
    words_by_group = matrix
    has_several_responses = len(distinct_codes) < len(item_of_text)
    if has_several_responses:
        words_by_group = build_group_word_matrix(matrix, group_of_text, n_groups=len(distinct_codes))
    return build_group_word_matrix(words_by_group, item_of_group, n_groups=n_items, min_texts=2)


def _average_over_texts_of_agents(common_weights: Floats, agent_of_text: Index) -> Floats:
    """Average a weight over the texts of each agent.

    common_weights : float array (n_texts, n_models), weight of each text in each model
    agent_of_text : int array (n_texts,), agent of each text

    Returns a float array (n_agents, n_models), one row per agent that occurs in `agent_of_text`, in any order.
    """
    agents, agent_row_of_text, n_texts_by_agent = np.unique(agent_of_text, return_inverse=True, return_counts=True)
    has_one_text_each = len(agents) == len(agent_of_text)
    if has_one_text_each:
        return common_weights
    sums = np.zeros((len(agents), common_weights.shape[1]))
    np.add.at(sums, agent_row_of_text, common_weights)
    return np.asarray(sums / n_texts_by_agent[:, None])


def _compute_upper_quartiles_above_zero(values: Floats) -> Floats:
    """Return the upper quartile of the positive values of each column, linearly interpolated.

    values : float array (n_agents, n_models), ≥ 0

    Returns a float array (n_models,); 0 for a column without positive values.
    """
    sorted_values = np.sort(values, axis=0)
    n_zeros = np.count_nonzero(sorted_values == 0, axis=0)
    last_row = len(values) - 1

    # The quartile is three quarters of the way from the first positive value to the last row. A column of zeros gives 0.
    position = n_zeros + 0.75 * (last_row - n_zeros)
    lower_row = np.floor(position).astype(np.int64)
    upper_row = np.minimum(lower_row + 1, last_row)
    fraction = position - lower_row
    columns = np.arange(values.shape[1])
    lower_value = sorted_values[lower_row, columns]
    upper_value = sorted_values[upper_row, columns]
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


def _compute_copied_shares(pool: Pool, texts: SegmentedTexts, *, agent_of_text: Index, item_of_text: Index) -> Floats:
    """Compute the fraction of each response that is copied from its prompt.

    texts : words of all responses, in the order of `item_of_text`, followed by the words of the prompts of all items
    agent_of_text, item_of_text : int arrays (n_responses,), row and column of each response in `Pool.all_texts`; the columns
        ascend

    Returns a float array with the shape of `Pool.all_texts`; NaN without a response or a prompt.
    """
    shares = np.full(pool.all_texts.shape, np.nan)
    n_responses = len(item_of_text)

    # the responses to an item are consecutive: from starts[column] up to starts[column + 1] − 1
    starts = np.searchsorted(item_of_text, np.arange(pool.n_items + 1))
    for column, item in enumerate(pool.items):
        if item.prompt is None:
            continue
        positions = np.arange(starts[column], starts[column + 1])
        responses = (texts[position] for position in positions)
        prompt = texts[n_responses + column]  # the prompts follow the responses
        shares[agent_of_text[positions], column] = copied_shares(responses, prompt)
    return shares


def _find_copying(
    pool: Pool, texts: SegmentedTexts, *, agent_of_text: Index, item_of_text: Index, is_self_plan: bool
) -> list[Finding]:
    """Return a finding for each agent whose median response is largely copied from its prompt.

    texts : words of all responses, in the order of `item_of_text`, followed by the words of the prompts of all items
    agent_of_text, item_of_text : int arrays (n_responses,), row and column of each response in `Pool.all_texts`; the columns
        ascend
    is_self_plan : whether each trial compares responses of one agent, so that there is no ranking
    """
    shares = _compute_copied_shares(pool, texts, agent_of_text=agent_of_text, item_of_text=item_of_text)

    # The rows are the agents' first responses, then their second ones, and so on. Put all responses of an agent in one row.
    shares_by_repeat = np.split(shares, pool.repeats)  # arrays (n_agents, n_items)
    shares_by_agent = np.hstack(shares_by_repeat)

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
