"""Find near-duplicate items, whose independent trials a judge would take for paired ones.

Only words of prompts and of responses are compared, so two items with the same meaning in different
words are not found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from youden.pools.checks.checked import format_names
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

    Two items have similar responses if one half of the agents on the first item and the other half on the second item
    use words almost as similar as two halves on the same item. Words are weighted by idf (inverse document frequency),
    and similarity is the cosine.
    """
    if pool.n_items < 2:
        return
    is_similar = _find_similar_prompts(pool) + _find_similar_responses(pool, standalone_stream(seed))
    n_clusters, labels = connected_components(is_similar, directed=False)
    sizes = np.bincount(labels, minlength=n_clusters)
    for cluster in np.flatnonzero(sizes > 1):
        ids = tuple(pool.items[position].id for position in np.flatnonzero(labels == cluster))
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
    profiles = _normalize(build_word_matrix(segment_texts(prompts)).astype(np.float64))
    return _find_similar_pairs(profiles, profiles, np.full(pool.n_items, MIN_PROMPT_SIMILARITY))


def _find_similar_responses(pool: Pool, rng: np.random.Generator) -> csr_array[np.float64]:
    """Find pairs of different items whose responses use similar words.

    The agents are divided into two halves, so that the similarity of two items (responses of one half to the first item,
    responses of the other half to the second item) can be compared with the similarity within an item (both halves on this
    item). In a large pool, only some items and agents are compared, which `rng` draws.

    Returns a sparse matrix (n_items, n_items): 1 for a pair of similar items, and 0 otherwise.
    """
    items = np.arange(pool.n_items)
    if pool.n_items > MAX_ITEMS:
        items = np.sort(rng.choice(pool.n_items, MAX_ITEMS, replace=False))
    n_items = len(items)
    n_agents = int(np.clip(MAX_TEXTS // n_items, 2, MAX_AGENTS))
    agents = rng.permutation(pool.n_agents)[:n_agents]
    texts = pool.texts[np.ix_(agents, items)].ravel()
    has_word = build_word_matrix(segment_texts(text or "" for text in texts))

    # word counts by item in the responses of one half (rows 0 to n_items − 1), then of the other half (n_items to 2·n_items − 1)
    item_of_text = np.tile(np.arange(n_items), len(agents))
    half_of_text = np.repeat(np.arange(len(agents)) % 2, n_items)
    row_of_text = item_of_text + half_of_text * n_items
    n_texts = len(texts)
    membership = csr_array((np.ones(n_texts), (row_of_text, np.arange(n_texts))), shape=(2 * n_items, n_texts))
    profiles = _normalize(csr_array(membership @ has_word), n_groups=2)
    first_half = profiles[:n_items]
    second_half = profiles[n_items:]

    # Similarity of both halves on the same item. Items whose similarity is below the median are compared with the median,
    # so that items with very different responses do not have a low threshold.
    similarity_within = np.asarray(first_half.multiply(second_half).sum(axis=1), dtype=np.float64)
    is_positive = similarity_within > 0
    median = float(np.median(similarity_within[is_positive])) if is_positive.any() else np.inf
    threshold = MIN_RESPONSE_SIMILARITY * np.maximum(similarity_within, median)
    pairs = _find_similar_pairs(first_half, second_half, threshold).tocoo()
    return csr_array((pairs.data, (items[pairs.row], items[pairs.col])), shape=(pool.n_items, pool.n_items))


def _normalize(counts: csr_array[np.float64], *, n_groups: int = 1) -> csr_array[np.float64]:
    """Weight word counts by idf (inverse document frequency), and scale each row to norm 1; a row of zeros stays 0.

    The idf of a word is computed from the number of items on which any group uses it.

    counts : sparse matrix (n_groups · n_items, n_distinct_words), all items of the first group of agents, then of the next one
    n_groups : number of groups of agents

    Returns a sparse matrix with the shape of `counts`.
    """
    n_items = counts.shape[0] // n_groups
    item_of_row = np.tile(np.arange(n_items), n_groups)
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
    """Return a sparse matrix (n_items, n_items) with 1 for each pair of different items with similar word profiles.

    Two profiles are similar if their scalar product reaches the thresholds of both items. The products are computed only for
    candidates: pairs that share a word of their prefixes, the rarest words of each profile (see `_select_prefixes`). No other
    pair can be similar. Pairs are processed in chunks to limit memory.

    profiles_a, profiles_b : sparse matrices (n_items, n_distinct_words), with rows of norm 1 or 0
    threshold : float array (n_items,)
    """
    n_items = profiles_a.shape[0]
    frequency = np.bincount(np.concatenate([profiles_a.indices, profiles_b.indices]), minlength=profiles_a.shape[1])
    rarest_first = np.argsort(frequency, kind="stable")
    rank_by_frequency = np.empty_like(rarest_first)
    rank_by_frequency[rarest_first] = np.arange(len(rarest_first))

    prefixes_a = _select_prefixes(profiles_a, threshold, rank_by_frequency)
    prefixes_b = csr_array(_select_prefixes(profiles_b, threshold, rank_by_frequency).T)
    rows, columns = [], []
    for first_row in range(0, n_items, _CHUNK_ROWS):
        candidates = (prefixes_a[first_row : first_row + _CHUNK_ROWS] @ prefixes_b).tocoo()
        for start in range(0, candidates.nnz, _CHUNK_PAIRS):
            stop = start + _CHUNK_PAIRS
            row = candidates.row[start:stop] + first_row
            column = candidates.col[start:stop]
            products = profiles_a[row].multiply(profiles_b[column])
            similarity = np.asarray(products.sum(axis=1), dtype=np.float64)
            threshold_of_pair = np.maximum(threshold[row], threshold[column])
            is_similar = (similarity >= threshold_of_pair) & (row != column)
            rows.append(row[is_similar])
            columns.append(column[is_similar])
    empty = np.empty(0, dtype=np.int64)
    all_rows = np.concatenate([empty, *rows])
    all_columns = np.concatenate([empty, *columns])
    return csr_array((np.ones(len(all_rows)), (all_rows, all_columns)), shape=(n_items, n_items))


def _select_prefixes(
    profiles: csr_array[np.float64], threshold: Floats, rank_by_frequency: Positions
) -> csr_array[np.float64]:
    """Keep the rarest words of each row (its prefix), so that the norm of the dropped words is below the row's threshold.

    If the scalar product of two rows of norm 1 reaches both thresholds, their prefixes share a word. Proof: otherwise, one of
    the two rows has dropped all words that they share. Its dropped words have a norm below its threshold, so the product would
    be below that threshold.

    profiles : sparse matrix (n_items, n_distinct_words), rows of norm 1 or 0
    threshold : float array (n_items,), minimum scalar product
    rank_by_frequency : int array (n_distinct_words,), 0 for the rarest word

    Returns a sparse matrix with the shape of `profiles`.

    References: Bayardo, Ma & Srikant (2007), Scaling up all pairs similarity search.
    """
    row = np.repeat(np.arange(profiles.shape[0]), np.diff(profiles.indptr))
    commonest_first = np.lexsort((-rank_by_frequency[profiles.indices], row))

    # squared norm of each word and all more common words of its row: cumulative sum over all rows, minus the sum before the row
    cumulative = np.cumsum(profiles.data[commonest_first] ** 2)
    sum_before_row = np.concatenate([[0.0], cumulative])[profiles.indptr[:-1]]
    squared_norm = cumulative - sum_before_row[row]
    is_kept = squared_norm >= threshold[row] ** 2 - _ROUNDING_ERROR
    selected = commonest_first[is_kept]
    return csr_array((profiles.data[selected], (row[selected], profiles.indices[selected])), shape=profiles.shape)
