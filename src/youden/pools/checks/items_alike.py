"""Find near-duplicate items, whose independent trials a judge would take for paired ones.

Only words of prompts and of responses are compared, so two items with the same meaning in different
words are not found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from youden.data.pools.sampled_texts import format_names, select_ids
from youden.streams import standalone_stream
from youden.text.similarity import build_group_word_matrix, build_word_matrix, idf
from youden.text.words import segment_texts
from youden.types import Finding, Pool
from youden.types.pool import Floats, Positions

MAX_AGENTS = 30
MAX_TEXTS = 200_000
MAX_ITEMS = 10_000
"""Maximum number of items, sampled at random, whose responses are compared; prompts are compared for all items."""
_CHUNK_ROWS = 512
_CHUNK_PAIRS = 1_000_000
_ROUNDING_ERROR = 1e-9

MIN_RESPONSE_SIMILARITY = 0.7
"""Items are near-duplicates if their responses are at least this fraction as similar as those within each item."""

MIN_PROMPT_SIMILARITY = 0.9
"""Items are also near-duplicates if the cosine similarity of their prompts' idf-weighted words is at least this."""


def find_similar_items(pool: Pool, *, seed: int = 0) -> Iterator[Finding]:
    """Find clusters of near-duplicate items, whose prompts or responses use the same words; yield one finding per cluster.

    Similarity is the cosine of word counts, weighted by idf (inverse document frequency). The responses of two halves of the
    agents are compared, to different items and to the same item. Items have similar responses if the similarity between them is
    at least `MIN_RESPONSE_SIMILARITY` times the similarity within each of them.
    """
    if pool.n_items < 2:
        return
    similar_prompts = _find_similar_prompts(pool)
    similar_responses = _find_similar_responses(pool, standalone_stream(seed))

    # the sum of the two sparse matrices is positive for items with similar prompts, similar responses, or both
    n_clusters, labels = connected_components(similar_prompts + similar_responses, directed=False)
    sizes = np.bincount(labels, minlength=n_clusters)
    for cluster in np.flatnonzero(sizes > 1):
        ids = select_ids(pool.items, np.flatnonzero(labels == cluster))
        yield Finding(
            "items-alike",
            f"{len(ids)} items can hardly be distinguished by their words: {format_names(ids)}.",
            "An independent trial with two of these items looks paired, which raises false-positive rates and lowers scores, "
            "most of all for agents with many independent trials on these items.",
            "Remove all but one of them, or make the items more specific.",
            items=ids,
        )


def _find_similar_prompts(pool: Pool) -> csr_array[np.float64]:
    """Compare the words of all prompts; return a sparse matrix (n_items, n_items) with 1 for similar ones."""
    prompts = [item.prompt or "" for item in pool.items]
    word_counts = build_word_matrix(segment_texts(prompts)).astype(np.float64)
    profiles = _weight_and_normalize_rows(word_counts)
    return _find_similar_pairs(profiles, profiles, np.full(pool.n_items, MIN_PROMPT_SIMILARITY))


def _find_similar_responses(pool: Pool, rng: np.random.Generator) -> csr_array[np.float64]:
    """Find pairs of different items whose responses use similar words, as defined in `find_similar_items`.

    In a large pool, only a random sample of items and agents is compared.

    Returns a sparse matrix (n_items, n_items): 1 for a pair of similar items, and 0 otherwise.
    """
    items = np.arange(pool.n_items)
    if pool.n_items > MAX_ITEMS:
        items = np.sort(rng.choice(pool.n_items, MAX_ITEMS, replace=False))
    n_agents = int(np.clip(MAX_TEXTS // len(items), 2, MAX_AGENTS))
    agents = rng.permutation(pool.n_agents)[:n_agents]

    word_counts = _count_words_by_half(pool, agents, items)
    profiles = _weight_and_normalize_rows(word_counts, n_halves=2)
    first_half = profiles[: len(items)]
    second_half = profiles[len(items) :]
    min_similarity = _compute_min_similarities(first_half, second_half)
    pairs = _find_similar_pairs(first_half, second_half, min_similarity).tocoo()

    # `pairs` has positions among the compared items; `items` converts them to positions in the pool
    item_a = items[pairs.row]
    item_b = items[pairs.col]
    return csr_array((pairs.data, (item_a, item_b)), shape=(pool.n_items, pool.n_items))


def _compute_min_similarities(first_half: csr_array[np.float64], second_half: csr_array[np.float64]) -> Floats:
    """Compute for each item how similar the responses to another item must be, so that the two items count as similar.

    The minimum is `MIN_RESPONSE_SIMILARITY` times the similarity within the item: between the responses of two halves of the
    agents. If this similarity is below its median over all items, the median replaces it.

    first_half, second_half : weighted word counts (n_items, n_distinct_words) of the responses of each half, with rows of
        norm 1 or 0

    Returns a float array (n_items,).
    """
    similarity_within_item = np.asarray(first_half.multiply(second_half).sum(axis=1), dtype=np.float64)

    # items on which the halves have no word in common do not count in the median
    positive_similarities = similarity_within_item[similarity_within_item > 0]
    if len(positive_similarities) == 0:
        return np.full(len(similarity_within_item), np.inf)

    median = float(np.median(positive_similarities))
    return MIN_RESPONSE_SIMILARITY * np.maximum(similarity_within_item, median)


def _count_words_by_half(pool: Pool, agents: Positions, items: Positions) -> csr_array[np.float64]:
    """Count, for each item and word, the responses that contain the word, separately for two halves of the agents.

    The first half is agents[0], agents[2], …, and the second half is agents[1], agents[3], …

    agents : int array (n_agents,), positions in the pool
    items : int array (n_items,), positions in the pool

    Returns a sparse matrix (2 · n_items, n_distinct_words): all items for the first half, then all items for the second half.
    """
    n_agents, n_items = len(agents), len(items)
    texts = pool.texts[np.ix_(agents, items)].ravel()  # all responses of the first agent, then of the next one
    has_word = build_word_matrix(segment_texts(text or "" for text in texts))

    item_of_text = np.tile(np.arange(n_items), n_agents)
    half_of_text = np.repeat(np.arange(n_agents) % 2, n_items)
    row_of_text = item_of_text + half_of_text * n_items

    # the product sums the rows of `has_word` (one per text) that belong to the same row of the result
    n_texts = len(texts)
    indicators = csr_array((np.ones(n_texts), (row_of_text, np.arange(n_texts))), shape=(2 * n_items, n_texts))
    return csr_array(indicators @ has_word)


def _weight_and_normalize_rows(counts: csr_array[np.float64], *, n_halves: int = 1) -> csr_array[np.float64]:
    """Weight word counts by idf (inverse document frequency), and scale each row to norm 1. A row of zeros stays 0.

    The documents of the idf are the items; an item that has the word in both halves counts once.

    counts : sparse matrix (n_halves · n_items, n_distinct_words); with two halves, all items of the first half come first
    n_halves : 2 if `counts` has separate rows for two halves of the agents, else 1

    Returns a sparse matrix with the shape of `counts`.
    """
    n_items = counts.shape[0] // n_halves
    item_of_row = np.tile(np.arange(n_items), n_halves)
    # 1 if any half has the word on the item, else 0
    item_has_word = build_group_word_matrix(counts.astype(np.int8), item_of_row, n_groups=n_items)
    n_items_with_word = np.asarray(item_has_word.sum(axis=0), dtype=np.float64)
    word_weights = idf(n_items_with_word, n_items)
    weighted = csr_array(counts.multiply(word_weights))

    squared_norm = weighted.multiply(weighted).sum(axis=1)
    norm = np.sqrt(np.asarray(squared_norm, dtype=np.float64))
    scale = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    return csr_array(weighted.multiply(scale[:, None]))


def _find_similar_pairs(
    profiles_a: csr_array[np.float64], profiles_b: csr_array[np.float64], min_similarity: Floats
) -> csr_array[np.float64]:
    """Find the pairs of different items with similar weighted word counts (profiles).

    Similarity is the scalar product of a row of `profiles_a` and a row of `profiles_b`. To save time, it is computed only for
    items that share one of their rarest words. No other items can be similar; see `_select_rarest_words`.

    profiles_a, profiles_b : sparse matrices (n_items, n_distinct_words), with rows of norm 1 or 0
    min_similarity : float array (n_items,); a pair is similar if its similarity is at least the minima of both items

    Returns a sparse matrix (n_items, n_items) with 1 for each pair.
    """
    word_ranks = _rank_words_by_frequency(profiles_a, profiles_b)
    rare_words_a = _select_rarest_words(profiles_a, min_similarity, word_ranks)
    rare_words_b = _select_rarest_words(profiles_b, min_similarity, word_ranks)

    # positions of similar items, one array per chunk of compared pairs; the empty arrays allow for no chunk
    similar_in_a, similar_in_b = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for item_a, item_b in _iter_pairs_with_shared_words(rare_words_a, rare_words_b):
        products = profiles_a[item_a].multiply(profiles_b[item_b])
        similarity = np.asarray(products.sum(axis=1), dtype=np.float64)
        min_similarity_of_pair = np.maximum(min_similarity[item_a], min_similarity[item_b])
        is_similar = (similarity >= min_similarity_of_pair) & (item_a != item_b)
        similar_in_a.append(item_a[is_similar])
        similar_in_b.append(item_b[is_similar])

    n_items = len(min_similarity)
    positions = np.concatenate(similar_in_a), np.concatenate(similar_in_b)
    ones = np.ones(len(positions[0]))
    return csr_array((ones, positions), shape=(n_items, n_items))


def _rank_words_by_frequency(profiles_a: csr_array[np.float64], profiles_b: csr_array[np.float64]) -> Positions:
    """Return the rank of each word by the number of rows that contain it: int array (n_distinct_words,), 0 for the rarest."""
    words = np.concatenate([profiles_a.indices, profiles_b.indices])
    frequency = np.bincount(words, minlength=profiles_a.shape[1])
    rarest_first = np.argsort(frequency, kind="stable")
    rank = np.empty_like(rarest_first)
    rank[rarest_first] = np.arange(len(rarest_first))
    return rank


def _iter_pairs_with_shared_words(
    words_a: csr_array[np.float64], words_b: csr_array[np.float64]
) -> Iterator[tuple[Positions, Positions]]:
    """Yield the pairs of items that share a word, in chunks that limit memory.

    words_a, words_b : sparse matrices (n_items, n_distinct_words), with positive values for the words of an item

    Yields the rows of the two items of each pair, the first in `words_a` and the second in `words_b`, as two int arrays
    (n_pairs,).
    """
    items_b_by_word = csr_array(words_b.T)
    for first_row in range(0, words_a.shape[0], _CHUNK_ROWS):
        # entry (i, j) of the product is positive if items i and j share a word
        products = (words_a[first_row : first_row + _CHUNK_ROWS] @ items_b_by_word).tocoo()
        for start in range(0, products.nnz, _CHUNK_PAIRS):
            stop = start + _CHUNK_PAIRS
            item_a = products.row[start:stop].astype(np.int64) + first_row
            item_b = products.col[start:stop].astype(np.int64)
            yield item_a, item_b


def _select_rarest_words(
    profiles: csr_array[np.float64], min_similarity: Floats, word_ranks: Positions
) -> csr_array[np.float64]:
    """Drop the most common words of each item, as long as two items that share no other word cannot be similar.

    The norm of the dropped words of an item is below its minimum similarity. If two items share no kept word, the item whose
    most common kept word is rarer drops all words that they share. Their scalar product is then at most the norm of the words
    that this item drops, so the items are not similar.

    profiles : sparse matrix (n_items, n_distinct_words), rows of norm 1 or 0
    min_similarity : float array (n_items,), minimum scalar product of similar items
    word_ranks : int array (n_distinct_words,), 0 for the rarest word

    Returns a sparse matrix with the shape of `profiles`.

    References: Bayardo, Ma & Srikant (2007), Scaling up all pairs similarity search.
    """
    # a sparse matrix in CSR format has the entries of row i from indptr[i] to indptr[i + 1] − 1
    row_starts = profiles.indptr[:-1]
    row = np.repeat(np.arange(profiles.shape[0]), np.diff(profiles.indptr))
    word = profiles.indices

    # sort the entries of each row; the rows keep their order and their first positions
    commonest_first = np.lexsort((-word_ranks[word], row))
    sum_of_squares = np.cumsum(profiles.data[commonest_first] ** 2)
    sum_before_entry = np.concatenate([[0.0], sum_of_squares])
    sum_before_row = sum_before_entry[row_starts]

    # squared norm of the word and of all more common words in the same row
    squared_norm = sum_of_squares - sum_before_row[row]
    is_kept = squared_norm >= min_similarity[row] ** 2 - _ROUNDING_ERROR
    kept = commonest_first[is_kept]
    return csr_array((profiles.data[kept], (row[kept], word[kept])), shape=profiles.shape)
