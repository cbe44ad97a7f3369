"""Find agents that are too similar: duplicates, rings, families and templates.

A ring shares words that no other agent uses and no prompt contains, different ones on each item. A family is the value of
`meta.family`; a finding about a family is not an accusation. A template repeats n-grams of words, or has little to do with its
items. A template that always uses new words is not found if items have no prompts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array

from youden.data.pools.sampled_texts import Hashes, SampledTexts, format_names, select_ids
from youden.types import Finding, Pool
from youden.types.finding import Fact
from youden.types.pool import Bools, Floats, Positions

MIN_DUPLICATE_SHARE = 0.05
"""An agent is reported if at least this share of its responses is identical to another agent's."""

MIN_DUPLICATE_WORDS = 8
"""Minimum number of words, separated by white space, of a duplicate; shorter responses coincide by chance."""


def find_duplicates(pool: Pool, *, excluded: frozenset[str]) -> Iterator[Finding]:
    """Report agents with long responses that are identical to another agent's response to the same item.

    Yields one finding for all these agents. If they are more than half of the compared agents, identical responses are normal in
    this pool, and nothing is yielded.

    excluded : ids of agents that are not compared, because another finding reports them already
    """
    compared_agents = [position for position, agent in enumerate(pool.agents) if agent.id not in excluded]
    n_duplicates = _count_duplicates(pool, compared_agents)
    n_responses = pool.present.sum(axis=1)
    min_duplicates = np.maximum(2, MIN_DUPLICATE_SHARE * n_responses)
    duplicating_agents = [agent for agent in sorted(n_duplicates) if n_duplicates[agent] >= min_duplicates[agent]]
    if not duplicating_agents or 2 * len(duplicating_agents) > len(compared_agents):
        return

    ids = select_ids(pool.agents, duplicating_agents)
    max_share = max(n_duplicates[agent] / n_responses[agent] for agent in duplicating_agents)
    yield Finding(
        "duplicates",
        f"Responses of {format_names(ids)} are identical to responses of other agents, up to {max_share:.0%} of an agent's.",
        "On these items the agents are perfect partners, which raises the scores of both.",
        "Check whether a file was imported twice, or whether short responses coincide, and remove the copies.",
        agents=ids,
        facts={"share": float(max_share)},
    )


MIN_RING_SHARE = 0.5
"""Agents form a ring if they share a private word on at least this share of the items.

A private word is used by these agents only, and on one item only. No set of honest agents of SAMSum, AlpacaEval or
MT-Bench reaches the share. A ring with one made-up word per item reaches 1.
"""

MIN_RING_SIZE = 3
MIN_RING_ITEMS = 8

LARGE_FAMILY_SHARE = 0.4
"""A family is large if it has at least this share of the agents."""

MIN_FAMILY_RATIO = 1.25
"""A family is also reported if its agents share at least this many times as many words as with other agents."""


def _count_duplicates(pool: Pool, agents: Sequence[int]) -> Counter[int]:
    """Count, for each agent, the items on which another agent gave exactly the same long response.

    agents : positions of the agents to compare

    Returns the counts by position of the agent; agents without duplicates are left out.
    """
    n_items: Counter[int] = Counter()
    for texts_of_item in pool.texts.T:
        first_agent_by_text: dict[str, int] = {}
        agents_with_duplicate: set[int] = set()
        for agent in agents:
            text = texts_of_item[agent]
            if text is None or len(text.split()) < MIN_DUPLICATE_WORDS:
                continue
            first_agent = first_agent_by_text.setdefault(text, agent)
            if first_agent != agent:
                agents_with_duplicate |= {first_agent, agent}
        n_items.update(agents_with_duplicate)
    return n_items


def find_rings(sample: SampledTexts, *, clones: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Find rings: three or more agents that share private words on at least half of the items; yield one finding per ring.

    A private word of a ring occurs only in responses of its agents, and only on one item. If at least half of the agents are
    clones, they are not a ring, because clones share all their words.

    clones : ids of agents with a finding as clones
    """
    if len(sample.items) < MIN_RING_ITEMS:
        return
    for group, n_items in _count_items_with_private_word(sample).most_common():
        share = n_items / len(sample.items)
        if share < MIN_RING_SHARE:
            break
        ids = select_ids(sample.pool.agents, group)
        if 2 * len(clones.intersection(ids)) >= len(ids):
            continue
        yield Finding(
            "ring",
            f"{format_names(ids, limit=20)} share words that no other agent uses, on {share:.0%} of the items, different words "
            "on each.",
            "A token that only some agents know shows a judge which of their responses belong together, so their scores rise "
            "whatever else they contain.",
            "Read their responses to a few items, and remove the ring or all but one of its agents.",
            agents=ids,
            facts={"share": share},
        )


def _count_items_with_private_word(sample: SampledTexts) -> Counter[tuple[int, ...]]:
    """Count for each group of agents the items on which the group has a private word.

    A private word occurs in the responses of all agents of the group to one item, and neither in other responses nor in the
    prompt. Very small and very large groups do not count; see `_find_groups_with_private_word`.

    Returns the number of items by group, a tuple of the ascending positions of its agents.
    """
    n_items_by_group: Counter[tuple[int, ...]] = Counter()

    # idf = log(n_items / number of items with the word), so it is largest, log(n_items), for a word on only one item
    max_idf = np.log(len(sample.items))
    is_on_one_item = sample.idf >= max_idf - 1e-9  # allows for rounding errors
    for item, (start, end) in enumerate(sample.ranges):
        is_new_word = is_on_one_item.copy()
        prompt_words = sample.prompt_has_word[[item]].indices
        is_new_word[prompt_words] = False
        groups = _find_groups_with_private_word(sample, slice(start, end), is_new_word)
        n_items_by_group.update(groups)  # each group counts once per item
    return n_items_by_group


def _find_groups_with_private_word(sample: SampledTexts, responses: slice, is_new_word: Bools) -> set[tuple[int, ...]]:
    """Find the groups of agents that use a private word in their responses to one item, as colluding agents may do.

    A private word is a new word that only the agents of a group use. The group has at least `MIN_RING_SIZE` agents, but not all
    agents that responded to the item. A group of more than `MIN_RING_SIZE` agents has at most half of the agents of the pool.

    responses : range of the responses to the item in the sample
    is_new_word : bool array (n_distinct_words,), whether a word occurs neither on other items nor in the prompt

    Returns the groups, tuples of ascending positions of agents.
    """
    has_word = sample.has_word[responses].tocsc()
    n_responses = has_word.shape[0]
    n_users = np.diff(has_word.indptr)
    max_group_size = max(MIN_RING_SIZE, sample.pool.n_agents / 2)
    is_large_enough = n_users >= MIN_RING_SIZE
    is_small_enough = (n_users <= max_group_size) & (n_users < n_responses)
    is_private_word = is_new_word & is_large_enough & is_small_enough

    agents = sample.agent_of[responses]
    groups = set()
    for word in np.flatnonzero(is_private_word):
        # in the CSC format, `indices` has the rows (responses) of each column (word), and `indptr` the start of each column
        start, end = has_word.indptr[word], has_word.indptr[word + 1]
        responses_with_word = has_word.indices[start:end]
        users = agents[responses_with_word]
        groups.add(tuple(sorted(users.tolist())))
    return groups


_FAMILY_EFFECT = (
    "Agents of one family may agree although they are wrong, and each is a partner of the others: a large or similar "
    "family can raise the scores of all its agents."
)
_FAMILY_REMEDY = (
    "Interpret their ranks with care, and check whether they change if only agents of other families are partners."
)


def find_families(sample: SampledTexts) -> Iterator[Finding]:
    """Report families of agents (`meta.family`) that are a large part of the pool or have similar responses.

    A family has similar responses if its members are at least `MIN_FAMILY_RATIO` times as similar to each other as to other
    agents. A family of three or more agents is large if it has at least the fraction `LARGE_FAMILY_SHARE` of all agents.

    Yields one finding per family.
    """
    agents = sample.pool.agents
    family_by_agent = [agent.meta.get("family") for agent in agents]
    n_members_by_family = Counter(family for family in family_by_agent if isinstance(family, str))
    families = sorted(family for family, n_members in n_members_by_family.items() if n_members >= 2)
    if not families:
        return

    similarity = sample.mean_similarity()
    for name in families:
        is_member = np.array([family == name for family in family_by_agent])
        ratio = _compute_similarity_ratio(similarity, is_member)
        n_members = n_members_by_family[name]
        is_large = n_members >= 3 and n_members / len(agents) >= LARGE_FAMILY_SHARE
        if ratio >= MIN_FAMILY_RATIO or is_large:
            ids = select_ids(agents, np.flatnonzero(is_member))
            yield _make_family_finding(name, ids, len(agents), ratio)


def _make_family_finding(name: str, ids: tuple[str, ...], n_agents: int, ratio: float) -> Finding:
    """Return the finding for a family; `ratio` is the result of `_compute_similarity_ratio`."""
    message = (
        f"{len(ids)} of {n_agents} agents belong to the family '{name}': {format_names(ids)}. On average, two of them "
        f"share {ratio:.2f} times as many words as one of them and an agent outside the family."
    )
    facts: dict[str, Fact] = {"share": len(ids) / n_agents}
    return Finding("family", message, _FAMILY_EFFECT, _FAMILY_REMEDY, agents=ids, facts=facts)


def _compute_similarity_ratio(similarity: Floats, is_member: Bools) -> float:
    """Divide the similarity between members of a family by their similarity to agents outside the family.

    similarity : float array (n_agents, n_agents), mean similarity of two agents' responses; NaN if it is unknown
    is_member : bool array (n_agents,), members of the family; at least two

    Returns the mean similarity of two different members, divided by the mean similarity of a member and an agent outside the
    family. It is 1.5 if members are 1.5 times as similar to each other as to other agents, and 1 if a mean is unknown.
    """
    within_family = similarity[is_member][:, is_member]
    is_off_diagonal = ~np.eye(len(within_family), dtype=np.bool_)
    between_members = within_family[is_off_diagonal]
    with_other_agents = similarity[is_member][:, ~is_member]
    if np.isnan(between_members).all() or np.isnan(with_other_agents).all():
        return 1.0

    mean_between_members = float(np.nanmean(between_members))
    mean_with_other_agents = float(np.nanmean(with_other_agents))
    return mean_between_members / max(1e-9, mean_with_other_agents)


_NGRAM_SIZE = 3

RECURRENCE_SHARE = 0.1
"""An n-gram recurs if at least this share of the agent's responses contains it."""

MIN_RECURRING_SHARE = 0.3
"""An agent is a template if at least this share of the n-grams in its median response recurs."""

MAX_RELATIVE_SPECIFICITY = 0.3
"""An agent is also a template if its specificity to the item is below this fraction of the median agent's."""

NORMAL_RELATIVE_OVERLAP = 0.75
"""An agent counts as specific if its overlap with other responses is at least this fraction of the median agent's.

Its responses may still avoid the words of the prompt, like references written by humans. The templates of SAMSum reach
.33 to .69.
"""

MIN_TEMPLATE_ITEMS = 8
MIN_TEMPLATE_AGENTS = 4


def find_templates(sample: SampledTexts) -> Iterator[Finding]:
    """Yield one finding for each agent whose responses repeat the same phrases, or hardly depend on the item."""
    if len(sample.items) < MIN_TEMPLATE_ITEMS:
        return

    recurring = sample.agent_medians(compute_recurring_shares(sample))
    specificity = _compute_relative_specificity(sample)
    for position, agent in enumerate(sample.pool.agents):
        # comparisons with NaN, for agents without a value, are false
        if recurring[position] >= MIN_RECURRING_SHARE:
            share = float(recurring[position])
            message = (
                f"Agent '{agent.id}' repeats itself: {share:.0%} of the three-word runs of its median response occur in "
                "at least a tenth of its responses."
            )
            yield _make_template_finding(agent.id, message, share)
        elif specificity[position] < MAX_RELATIVE_SPECIFICITY:
            share = float(specificity[position])
            message = (
                f"The responses of agent '{agent.id}' hardly depend on the item: they are {share:.0%} as specific to "
                "it as those of the median agent."
            )
            yield _make_template_finding(agent.id, message, share)


def _make_template_finding(agent: str, message: str, share: float) -> Finding:
    """Return the finding for an agent whose responses are a template."""
    return Finding(
        "template",
        message,
        "Its independent trials look paired, or its paired ones independent, so its score is low. That is "
        "correct if its responses are unspecific, and wrong if the import cut them.",
        "Read a few of its responses. If they are complete, keep it as a low-effort agent.",
        agents=(agent,),
        facts={"share": share},
    )


def _compute_relative_specificity(sample: SampledTexts) -> Floats:
    """Compute how specific the responses of each agent are to their items, relative to the median agent.

    Specificity is the weighted share of the words of a response that occur in its prompt. Good responses may avoid these words,
    but share words with other responses to the item (response overlap). The specificity is therefore 1 for an agent with a normal
    response overlap. If any item has no prompt, the response overlap itself is returned.

    Returns a float array (n_agents,): 1 for the median agent, less for less specific agents, NaN if it is unknown.
    """
    response_overlap = _compute_relative_medians(sample, compute_response_overlap(sample))
    have_all_prompts = all(sample.pool.items[item].prompt for item in sample.items)
    if not have_all_prompts:
        return response_overlap

    specificity = _compute_relative_medians(sample, compute_prompt_overlap(sample))
    specificity[response_overlap >= NORMAL_RELATIVE_OVERLAP] = 1.0
    return specificity


def _compute_relative_medians(sample: SampledTexts, values: Floats) -> Floats:
    """Compute the median of the values of each agent, divided by the median of these medians over agents.

    values : float array (n_texts,)

    Returns a float array (n_agents,): NaN for an agent without values. It is NaN for all agents if fewer than four agents have
    values, or if the median over agents is 0.
    """
    agent_medians = sample.agent_medians(values)
    valid_medians = agent_medians[~np.isnan(agent_medians)]
    if len(valid_medians) < MIN_TEMPLATE_AGENTS:
        return np.full(len(agent_medians), np.nan)
    median_agent = np.median(valid_medians)
    if median_agent == 0:
        return np.full(len(agent_medians), np.nan)
    return np.asarray(agent_medians / median_agent)


def compute_recurring_shares(sample: SampledTexts) -> Floats:
    """Compute the share of each response's n-grams (sequences of three words) that its agent repeats in other responses.

    An agent repeats an n-gram if at least two of its responses, and at least a tenth of them, contain the n-gram.

    Returns a float array (n_texts,), NaN for a response of fewer than three words.
    """
    # hash, text and agent of each occurrence of an n-gram in a response; occurrences in prompts are left out
    n_texts = len(sample)
    all_hashes, all_texts = sample.hash_ngrams(_NGRAM_SIZE)
    is_response = all_texts < n_texts
    ngram_hashes, text_of_occurrence = all_hashes[is_response], all_texts[is_response]
    agent_of_occurrence = sample.agent_of[text_of_occurrence]

    # minimum number of texts of each agent that must contain a repeated n-gram
    n_texts_by_agent = np.bincount(sample.agent_of, minlength=sample.pool.n_agents)
    min_texts_by_agent = np.maximum(2, RECURRENCE_SHARE * n_texts_by_agent)

    n_texts_with_ngram = _count_texts_with_ngram(agent_of_occurrence, ngram_hashes, text_of_occurrence)
    is_recurring = n_texts_with_ngram >= min_texts_by_agent[agent_of_occurrence]
    n_ngrams = np.bincount(text_of_occurrence, minlength=n_texts).astype(np.float64)
    n_recurring = np.bincount(text_of_occurrence, weights=is_recurring, minlength=n_texts)
    return _divide(n_recurring.astype(np.float64), n_ngrams)


def _count_texts_with_ngram(
    agent_of_occurrence: Positions, ngram_hashes: Hashes, text_of_occurrence: Positions
) -> Positions:
    """Count in how many texts an agent uses each of its n-grams (sequences of three words).

    Each array has one element per occurrence of an n-gram. An n-gram can occur several times in the same text.

    agent_of_occurrence : int array (n_occurrences,), agent of the text with the occurrence
    ngram_hashes : int array (n_occurrences,), hash of the n-gram
    text_of_occurrence : int array (n_occurrences,), position of the text

    Returns an int array (n_occurrences,): the number of texts of the same agent that contain the same n-gram.
    """
    # each distinct pair of an agent and an n-gram gets an id
    agent_and_ngram = np.stack([agent_of_occurrence.astype(np.uint64), ngram_hashes])
    _, ngram_ids = np.unique(agent_and_ngram, axis=1, return_inverse=True)

    # the distinct pairs of an id and a text count several occurrences in the same text once
    id_and_text = np.stack([ngram_ids.astype(np.int64), text_of_occurrence])
    ngram_id_of_pair, _ = np.unique(id_and_text, axis=1)
    n_texts_by_ngram_id = np.bincount(ngram_id_of_pair)
    return n_texts_by_ngram_id[ngram_ids]


def compute_prompt_overlap(sample: SampledTexts) -> Floats:
    """Compute the share of each text's words that also occur in its prompt, float array (n_texts,).

    Words are weighted by their idf (inverse document frequency), so that rare words count more. The share is NaN if all
    words of the text have weight 0.
    """
    weights = csr_array(sample.has_word.multiply(sample.idf))
    in_prompt = weights.multiply(sample.prompt_has_word[sample.item_of])
    shared_weight = np.asarray(in_prompt.sum(axis=1), dtype=np.float64)
    return _divide(shared_weight, np.asarray(weights.sum(axis=1), dtype=np.float64))


def compute_response_overlap(sample: SampledTexts) -> Floats:
    """Compute the share of each response's words that also occur in another response to the same item.

    The share is averaged over the other responses to the item. Words are weighted by their idf (inverse document frequency), so
    that rare words count more.

    Returns a float array (n_texts,), NaN for a response whose words all have weight 0.
    """
    weights = csr_array(sample.has_word.multiply(sample.idf))
    mean_shared_weight = np.zeros(len(sample))
    for start, end in sample.ranges:  # the responses to one item
        n_responses_with_word = np.asarray(sample.has_word[start:end].sum(axis=0), dtype=np.float64)
        item_weights = weights[start:end]
        weight_in_all_responses = item_weights @ n_responses_with_word

        # the responses with a word include the response itself, so the weight of its words is subtracted once
        own_weight = np.asarray(item_weights.sum(axis=1))
        weight_in_other_responses = weight_in_all_responses - own_weight
        n_other_responses = max(1, end - start - 1)
        mean_shared_weight[start:end] = weight_in_other_responses / n_other_responses
    total_weight = np.asarray(weights.sum(axis=1), dtype=np.float64)
    return _divide(mean_shared_weight, total_weight)


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    """Divide two arrays elementwise, with NaN where the denominator is 0."""
    quotient = np.full(len(denominator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient
