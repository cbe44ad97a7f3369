"""Find near-duplicate items, whose independent trials a judge would take for paired ones.

Only words of prompts and of responses are compared, so two items with the same meaning in different
words are not found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from youden.pools.checks.checked import format_names, select_ids
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

    To compare the responses to two items, the responses of one half of the agents to the first item are compared with those of
    the other half to the second item. The items have similar responses if this similarity is almost as high as the similarity of
    the two halves on the same item. Words are weighted by idf (inverse document frequency), and similarity is the cosine.
    """
    if pool.n_items < 2:
        return
    is_similar = _find_similar_prompts(pool) + _find_similar_responses(pool, standalone_stream(seed))
    n_clusters, labels = connected_components(is_similar, directed=False)
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
    profiles = _make_profiles(word_counts)
    return _find_similar_pairs(profiles, profiles, np.full(pool.n_items, MIN_PROMPT_SIMILARITY))


def _find_similar_responses(pool: Pool, rng: np.random.Generator) -> csr_array[np.float64]:
    """Find pairs of different items whose responses use similar words.

    The agents are divided into two halves. The similarity of two items compares the responses of one half to the first item with
    the responses of the other half to the second item. It is compared with the similarity of both halves on the same item. In a
    large pool, `rng` draws the items and agents to compare.

    Returns a sparse matrix (n_items, n_items): 1 for a pair of similar items, and 0 otherwise.
    """
    items = np.arange(pool.n_items)
    if pool.n_items > MAX_ITEMS:
        items = np.sort(rng.choice(pool.n_items, MAX_ITEMS, replace=False))
    n_agents = int(np.clip(MAX_TEXTS // len(items), 2, MAX_AGENTS))
    agents = rng.permutation(pool.n_agents)[:n_agents]

    word_counts = _count_words_by_half(pool, agents, items)
    profiles = _make_profiles(word_counts, n_halves=2)
    first_half, second_half = profiles[: len(items)], profiles[len(items) :]
    thresholds = _compute_similarity_thresholds(first_half, second_half)
    pairs = _find_similar_pairs(first_half, second_half, thresholds).tocoo()

    # from positions in the sample to positions in the pool
    return csr_array((pairs.data, (items[pairs.row], items[pairs.col])), shape=(pool.n_items, pool.n_items))


def _compute_similarity_thresholds(first_half: csr_array[np.float64], second_half: csr_array[np.float64]) -> Floats:
    """Compute the minimum similarity at which the responses to an item count as similar to those to another item.

    The minimum is a fraction of the similarity between the responses of two halves of the agents to the item itself. If
    the median of this similarity over all items is larger, the median is used, so that items with very different
    responses do not have a low threshold.

    first_half, second_half : word profiles (n_items, n_distinct_words) of the responses of each half

    Returns a float array (n_items,).
    """
    similarity = np.asarray(first_half.multiply(second_half).sum(axis=1), dtype=np.float64)

    # median over the items on which the halves have words in common
    is_positive = similarity > 0
    median = float(np.median(similarity[is_positive])) if is_positive.any() else np.inf

    return MIN_RESPONSE_SIMILARITY * np.maximum(similarity, median)


def _count_words_by_half(pool: Pool, agents: Positions, items: Positions) -> csr_array[np.float64]:
    """Count the responses to each item that contain a word, separately for two halves of the agents.

    The first half are agents[0], agents[2], …; the second half are agents[1], agents[3], …

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

    # multiplying by a matrix with a 1 in the row of each text adds up the texts of a row
    n_texts = len(texts)
    is_in_row = csr_array((np.ones(n_texts), (row_of_text, np.arange(n_texts))), shape=(2 * n_items, n_texts))
    return csr_array(is_in_row @ has_word)


def _make_profiles(counts: csr_array[np.float64], *, n_halves: int = 1) -> csr_array[np.float64]:
    """Weight word counts by idf (inverse document frequency), and scale each row to norm 1; a row of zeros stays 0.

    The idf of a word is computed from the number of items on which it occurs in any half.

    counts : sparse matrix (n_halves · n_items, n_distinct_words); with two halves, all items of the first half come first
    n_halves : 2 if the responses of two halves of the agents are counted separately; otherwise 1

    Returns a sparse matrix with the shape of `counts`.
    """
    n_items = counts.shape[0] // n_halves
    item_of_row = np.tile(np.arange(n_items), n_halves)
    item_has_word = build_group_word_matrix(counts.astype(np.int8), item_of_row, n_groups=n_items)
    n_items_with_word = np.asarray(item_has_word.sum(axis=0), dtype=np.float64)
    weighted = csr_array(counts.multiply(idf(n_items_with_word, n_items)))
    squared_norm = weighted.multiply(weighted).sum(axis=1)
    norm = np.sqrt(np.asarray(squared_norm, dtype=np.float64))
    scale = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    return csr_array(weighted.multiply(scale[:, None]))


def _find_similar_pairs(
    profiles_a: csr_array[np.float64], profiles_b: csr_array[np.float64], threshold: Floats
) -> csr_array[np.float64]:
    """Find the pairs of different items with similar word profiles.

    Items i and j are similar if the scalar product of profile a of i and profile b of j reaches the thresholds of both items. To
    save time, only candidates are compared: pairs whose rarest words (prefixes) overlap. `_select_prefixes` guarantees that
    no other pair is similar.

    profiles_a, profiles_b : sparse matrices (n_items, n_distinct_words), with rows of norm 1 or 0
    threshold : float array (n_items,)

    Returns a sparse matrix (n_items, n_items) with 1 for each pair.
    """
    rank_by_frequency = _rank_words(profiles_a, profiles_b)
    prefixes_a = _select_prefixes(profiles_a, threshold, rank_by_frequency)
    prefixes_b = _select_prefixes(profiles_b, threshold, rank_by_frequency)

    # items whose prefixes share no word are not similar: the words they share have a norm below one of the thresholds
    rows, columns = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for row, column in _iter_candidates(prefixes_a, prefixes_b):
        products = profiles_a[row].multiply(profiles_b[column])
        similarity = np.asarray(products.sum(axis=1), dtype=np.float64)
        threshold_of_pair = np.maximum(threshold[row], threshold[column])
        is_similar = (similarity >= threshold_of_pair) & (row != column)
        rows.append(row[is_similar])
        columns.append(column[is_similar])
    n_items = len(threshold)
    positions = np.concatenate(rows), np.concatenate(columns)
    ones = np.ones(len(positions[0]))
    return csr_array((ones, positions), shape=(n_items, n_items))


def _rank_words(profiles_a: csr_array[np.float64], profiles_b: csr_array[np.float64]) -> Positions:
    """Return the rank of each word by the number of rows that contain it: int array (n_distinct_words,), 0 for the rarest."""
    words = np.concatenate([profiles_a.indices, profiles_b.indices])
    frequency = np.bincount(words, minlength=profiles_a.shape[1])
    rarest_first = np.argsort(frequency, kind="stable")
    rank = np.empty_like(rarest_first)
    rank[rarest_first] = np.arange(len(rarest_first))
    return rank


def _iter_candidates(
    prefixes_a: csr_array[np.float64], prefixes_b: csr_array[np.float64]
) -> Iterator[tuple[Positions, Positions]]:
    """Yield the pairs of items whose prefixes share a word, in chunks that limit memory.

    prefixes_a, prefixes_b : sparse matrices (n_items, n_distinct_words)

    Yields the first item and the second item of each pair, as two int arrays (n_pairs,).
    """
    words_b = csr_array(prefixes_b.T)
    for first_row in range(0, prefixes_a.shape[0], _CHUNK_ROWS):
        candidates = (prefixes_a[first_row : first_row + _CHUNK_ROWS] @ words_b).tocoo()
        for start in range(0, candidates.nnz, _CHUNK_PAIRS):
            stop = start + _CHUNK_PAIRS
            row = candidates.row[start:stop].astype(np.int64) + first_row
            yield row, candidates.col[start:stop].astype(np.int64)


def _select_prefixes(
    profiles: csr_array[np.float64], threshold: Floats, rank_by_frequency: Positions
) -> csr_array[np.float64]:
    """Keep the rarest words of each row, its prefix. The norm of the dropped words is below the threshold of the row.

    If the scalar product of two rows of norm 1 reaches both thresholds, their prefixes share a word. Proof by contradiction: if
    the prefixes shared no word, the row that stops at the rarer word would have dropped all words that the rows share. The
    norm of its dropped words is below its threshold, so the product would be below the threshold, too.

    profiles : sparse matrix (n_items, n_distinct_words), rows of norm 1 or 0
    threshold : float array (n_items,), minimum scalar product
    rank_by_frequency : int array (n_distinct_words,), 0 for the rarest word

    Returns a sparse matrix with the shape of `profiles`.

    References: Bayardo, Ma & Srikant (2007), Scaling up all pairs similarity search.
    """
    # CSR layout: row i has the entries from indptr[i] to indptr[i + 1] − 1; sorting within rows keeps these bounds
    row_starts = profiles.indptr[:-1]
    row = np.repeat(np.arange(profiles.shape[0]), np.diff(profiles.indptr))
    word = profiles.indices
    commonest_first = np.lexsort((-rank_by_frequency[word], row))

    # squared norm of a word and all more common words of its row: cumulative sum over all rows, minus the sum before the row
    cumulative = np.cumsum(profiles.data[commonest_first] ** 2)
    sum_before_entry = np.concatenate([[0.0], cumulative])
    sum_before_row = sum_before_entry[row_starts]
    squared_norm = cumulative - sum_before_row[row]
    is_kept = squared_norm >= threshold[row] ** 2 - _ROUNDING_ERROR
    kept = commonest_first[is_kept]
    return csr_array((profiles.data[kept], (row[kept], word[kept])), shape=profiles.shape)
