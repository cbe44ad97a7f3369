"""Measure how much texts have in common: the weight of shared words, and the share that is copied from a prompt.

Only the share of copied text is measured; whether copying is wrong depends on the task.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from youden.text.words import SegmentedTexts
from youden.types.pool import Floats

N_GRAM = 5
"""Number of consecutive words that are compared with the prompt."""
COPYING_SHARE = 0.5
"""Copied share of the median response from which an agent is reported as copying."""


@dataclass(frozen=True)
class Copying:
    """An agent that copies its prompts."""

    agent: int
    """Row of the agent."""
    share: float
    """Copied share of the agent's median response, in [0, 1]."""


def copied_shares(
    responses: Iterable[Sequence[Hashable]], prompt: Sequence[Hashable], *, n: int = N_GRAM
) -> list[float]:
    """Compute the share of each response that is copied from the prompt, word for word.

    Parameters
    ----------
    responses : iterable of sequence of hashable
        Words of each response, or numbers that identify words.
    prompt : sequence of hashable
        Words of the prompt, in the same form.
    n : int, default 5
        Length of the n-grams (runs of n consecutive words) that are compared, at least 1.

    Returns
    -------
    list of float
        For each response, the share of its n-grams that also occur in the prompt, in [0, 1]. An n-gram that a response
        repeats counts each time. A response of fewer than n words is a single n-gram. NaN for a response without words; 0 if
        the prompt has no words.

    Examples
    --------
    >>> copied_shares([["a", "b", "c"], ["b", "c", "d"], ["c"]], ["x", "a", "b", "c"], n=2)
    [1.0, 0.5, 1.0]
    """
    prompt_n_grams: dict[int, set[tuple[Hashable, ...]]] = {}
    shares = []
    for response in responses:
        size = min(n, len(response))
        if not size:
            shares.append(float("nan"))
            continue
        if size not in prompt_n_grams:
            prompt_n_grams[size] = set(_n_grams(prompt, size))
        prompt_set = prompt_n_grams[size]
        n_copied = sum(n_gram in prompt_set for n_gram in _n_grams(response, size))
        shares.append(n_copied / (len(response) - size + 1))
    return shares


def _n_grams(sequence: Sequence[Hashable], size: int) -> Iterable[tuple[Hashable, ...]]:
    """Return the n-grams of a sequence: all its runs of `size` consecutive elements."""
    return zip(*(sequence[k:] for k in range(size)), strict=False)


def find_copying_agents(shares: Floats, *, min_share: float = COPYING_SHARE) -> tuple[Copying, ...]:
    """Find the agents that copy large parts of the prompts.

    An agent is returned if the median of its copied shares is at least `min_share`.

    Parameters
    ----------
    shares : float array (n_agents, n_items)
        Copied share of each response, in [0, 1]; NaN if there is no response, no word in it, or no prompt.
    min_share : float, default 0.5
        Smallest median share of a returned agent.

    Returns
    -------
    tuple of Copying
        In the order of the agents; agents without a valid share are left out.
    """
    medians = []
    for agent_shares in shares:
        valid = agent_shares[~np.isnan(agent_shares)]
        medians.append(float(np.median(valid)) if valid.size else 0.0)
    return tuple(Copying(agent, median) for agent, median in enumerate(medians) if median >= min_share)


_CHUNK_WORDS = 1 << 17


def build_word_matrix(texts: SegmentedTexts) -> csr_array[np.int8]:
    """Return a sparse matrix that shows which words each text contains.

    texts : words of each text

    Returns
    -------
    int8 csr_array (n_texts, n_words)
        1 if the text contains the word, however often, else 0.
    """
    ones = np.ones(len(texts.ids), dtype=np.int8)
    matrix = csr_array((ones, texts.ids, texts.start), shape=(len(texts), texts.n_words), copy=True)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def build_group_word_matrix(
    matrix: csr_array[np.int8], group: NDArray[np.integer], *, n_groups: int, min_texts: int = 1
) -> csr_array[np.int8]:
    """Return a sparse matrix that shows which words each group of texts contains.

    Parameters
    ----------
    matrix : int8 csr_array (n_texts, n_words)
        Result of `build_word_matrix`.
    group : int array (n_texts,)
        Group of each text, in [0, n_groups).
    n_groups : int
        Number of groups; a group without a text gets a row of zeros.
    min_texts : int, default 1
        Number of texts of the group that must contain a word, at least 1.

    Returns
    -------
    int8 csr_array (n_groups, n_words)
        1 if at least `min_texts` texts of the group contain the word, else 0.
    """
    # 1 in row g and column t if text t belongs to group g
    n_texts = len(group)
    membership = csr_array((np.ones(n_texts), (group, np.arange(n_texts))), shape=(n_groups, n_texts))

    # number of texts of each group (row) that contain each word (column)
    n_texts_with_word = csr_array(membership @ matrix)

    has_enough_texts = np.asarray(n_texts_with_word.data >= min_texts, dtype=np.int8)
    words_by_group = csr_array(
        (has_enough_texts, n_texts_with_word.indices, n_texts_with_word.indptr), shape=n_texts_with_word.shape
    )
    words_by_group.eliminate_zeros()
    return words_by_group


def jaccard_similarity(first: csr_array[np.int8], second: csr_array[np.int8]) -> Floats:
    """Compute the Jaccard similarity of texts: number of shared words / number of distinct words in both.

    Parameters
    ----------
    first, second : int8 csr_array (n_first, n_words) and (n_second, n_words)
        Rows of the result of `build_word_matrix`.

    Returns
    -------
    float32 array (n_first, n_second)
        Similarity of each text of `first` and each text of `second`; 0 for two texts without words.
    """
    n_shared = (first.astype(np.float32) @ second.astype(np.float32).T).toarray()
    n_first_words = np.diff(first.indptr).astype(np.float32)
    n_second_words = np.diff(second.indptr).astype(np.float32)
    n_all_words = n_first_words[:, None] + n_second_words[None, :] - n_shared
    return np.asarray(n_shared / np.maximum(n_all_words, 1))


def idf(document_frequency: Floats, n_documents: float | Floats) -> Floats:
    """Compute the inverse document frequency of words, log(n_documents / document_frequency).

    Parameters
    ----------
    document_frequency : float array
        Number of documents that contain each word; a word in none counts as if it were in one.
    n_documents : float or float array
        Number of documents; broadcasts with `document_frequency`.

    Returns
    -------
    float array
        Natural logarithm; 0 for a word in all documents.

    Examples
    --------
    >>> idf(np.array([4.0, 2.0, 1.0, 0.0]), 4).round(2).tolist()
    [0.0, 0.69, 1.39, 1.39]
    """
    return np.asarray(np.log(n_documents / np.maximum(document_frequency, 1.0)))


def sum_shared_weights(
    matrix: csr_array[np.int8],
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    *,
    weights: Floats,
    chunk_words: int = _CHUNK_WORDS,
) -> Floats:
    """Sum the weights of the words that the two texts of each pair have in common.

    Parameters
    ----------
    matrix : int8 csr_array (n_texts, n_words)
        Result of `build_word_matrix`: 1 if a text contains a word, however often, else 0.
    first, second : int array (n_pairs,)
        Rows of `matrix`: the texts of each pair.
    weights : float array (n_words,) or (n_words, n_weightings)
        Weight of each word, or several weightings at once.
    chunk_words : int, default 131,072
        The pairs are processed in chunks to limit memory. A chunk has about this number of distinct words, summed over its
        texts. The result does not depend on it.

    Returns
    -------
    float array (n_pairs,) or (n_pairs, n_weightings)
        Sum of the weights of the shared words, not normalized by the length of the texts. Each shared word counts once; the sum
        is 0 without a shared word.
    """
    # number the pairs by chunk, so that a chunk ends where the cumulative number of words passes a multiple of `chunk_words`
    n_words_of_text = np.diff(matrix.indptr).astype(np.int64)
    n_words_of_pair = n_words_of_text[first] + n_words_of_text[second]
    chunk_of_pair = np.cumsum(n_words_of_pair) // chunk_words
    chunk_starts = np.flatnonzero(np.diff(chunk_of_pair)) + 1

    weight_sums = np.zeros((len(first), *weights.shape[1:]))
    for start, end in pairwise([0, *chunk_starts, len(first)]):
        shared_words = matrix[first[start:end]].multiply(matrix[second[start:end]])
        weight_sums[start:end] = shared_words @ weights
    return weight_sums
