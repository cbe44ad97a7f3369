"""How much two texts share, as the summed weight of words in both, and how much of a response is its prompt's, word for word.

Whether copying is bad depends on the task.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from youden.text.words import Segmented
from youden.types.pool import Floats

N_GRAM = 5
COPYING_SHARE = 0.5


@dataclass(frozen=True)
class Copying:
    """An agent (its row) that copies, and the share of its median response that is copied, in [0, 1]."""

    agent: int
    share: float


def copied_shares(
    responses: Iterable[Sequence[Hashable]], prompt: Sequence[Hashable], *, n: int = N_GRAM
) -> list[float]:
    """For each response, the share of its runs of n words that also occur in the prompt, in [0, 1].

    Responses and prompt are words, or numbers that stand for words. A response of fewer than n words is one run, itself;
    one without words has nothing to copy: NaN.

    >>> copied_shares([["a", "b", "c"], ["b", "c", "d"], ["c"]], ["x", "a", "b", "c"], n=2)
    [1.0, 0.5, 1.0]
    """
    in_prompt: dict[int, set[tuple[Hashable, ...]]] = {}
    shares = []
    for response in responses:
        size = min(n, len(response))
        if size and size not in in_prompt:
            in_prompt[size] = set(_runs(prompt, size))
        shares.append(
            sum(map(in_prompt[size].__contains__, _runs(response, size))) / (len(response) - size + 1)
            if size
            else float("nan")
        )
    return shares


def _runs(sequence: Sequence[Hashable], size: int) -> Iterable[tuple[Hashable, ...]]:
    return zip(*(sequence[k:] for k in range(size)), strict=False)


def copying_agents(shares: Floats, *, at_least: float = COPYING_SHARE) -> tuple[Copying, ...]:
    """The agents whose median over items reaches `at_least`, in their order.

    shares: float[K, J] in [0, 1], NaN where there is no response, no word in it, or no prompt. An agent of NaN only is not
    named.
    """
    medians = [float(np.median(known)) if known.size else 0.0 for known in (row[~np.isnan(row)] for row in shares)]
    return tuple(Copying(agent, share) for agent, share in enumerate(medians) if share >= at_least)


_CHUNK_WORDS = 1 << 17


def word_matrix(texts: Segmented) -> csr_array[np.int8]:
    """int8[R, W]: 1 where text r holds word w, however often; 0 elsewhere."""
    ones = np.ones(len(texts.ids), dtype=np.int8)
    matrix = csr_array((ones, texts.ids, texts.start), shape=(len(texts), texts.n_words), copy=True)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def groups_holding(matrix: csr_array[np.int8], group: NDArray[np.integer], *, n_groups: int) -> csr_array[np.int8]:
    """int8[G, W]: 1 where any text of group g holds word w; 0 elsewhere. `group`: int[R] in [0, G), the group of each text."""
    n_texts = len(group)
    member = csr_array((np.ones(n_texts), (group, np.arange(n_texts))), shape=(n_groups, n_texts))
    held = csr_array(member @ matrix)
    return csr_array((np.ones(held.nnz, dtype=np.int8), held.indices, held.indptr), shape=held.shape)


def idf(n_holding: Floats, n_groups: float | Floats) -> Floats:
    """log(J / items whose responses hold the word), natural logarithm.

    0 for a word in all items; log J for a word in one, and for a word in none of those counted. J and the counts broadcast.

    >>> idf(np.array([4.0, 2.0, 1.0, 0.0]), 4).round(2).tolist()
    [0.0, 0.69, 1.39, 1.39]
    """
    return np.asarray(np.log(n_groups / np.maximum(n_holding, 1.0)))


def shared_mass(
    matrix: csr_array[np.int8],
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    *,
    weights: Floats,
    chunk_words: int = _CHUNK_WORDS,
) -> Floats:
    """Σ weight(w) over the words w that both texts of a pair hold, not divided by the mass of either.

    first, second: int[N], rows of `matrix`; weights: float[W], or float[W, M] for M weightings at once.
    chunk_words: bound on the words of the pairs in memory at a time (a pair alone may exceed it).
    Returns float[N] or float[N, M].
    """
    n_words = np.diff(matrix.indptr).astype(np.int64)
    chunk = np.cumsum(n_words[first] + n_words[second]) // chunk_words
    mass = np.zeros((len(first), *weights.shape[1:]))
    edges = [0, *(np.flatnonzero(np.diff(chunk)) + 1), len(first)]
    for low, high in pairwise(edges):
        mass[low:high] = matrix[first[low:high]].multiply(matrix[second[low:high]]) @ weights
    return mass
