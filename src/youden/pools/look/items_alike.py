"""Items that a judge could not tell apart: independent pairs across them would look paired.

Words of prompts and of responses are compared; two items of one meaning in other words are not found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from youden.nouns import Finding, Pool
from youden.nouns.pool import Floats
from youden.pools.look.checked import listed
from youden.streams import own_stream
from youden.text.similarity import groups_holding, idf, word_matrix
from youden.text.words import segment

MOST_AGENTS = 30
MOST_TEXTS = 200_000
BLOCK = 512

ALIKE = 0.7
"""Likeness of two items' responses, as a share of the likeness within the items, from which they count as too alike."""

SAME_PROMPT = 0.9
"""Share of the weight of two prompts' words that they have in common (cosine), from which they count as the same."""


def find_items_alike(pool: Pool, *, seed: int = 0) -> Iterator[Finding]:
    """One finding for each cluster of items whose prompts, or whose responses, are as alike as those of one item.

    Responses: cosine of idf-weighted word counts between one half of the agents on item j and the other half on item k, against
    the same within j and within k.
    """
    if pool.n_items < 2:
        return
    linked = _prompts_alike(pool) + _responses_alike(pool, own_stream(seed))
    n, label = connected_components(linked, directed=False)
    sizes = np.bincount(label, minlength=n)
    for cluster in np.flatnonzero(sizes > 1):
        ids = tuple(pool.items[j].id for j in np.flatnonzero(label == cluster))
        yield Finding(
            "items-alike",
            f"{len(ids)} items can hardly be told apart by their words: {listed(ids)}.",
            "An independent pair across them looks paired, which raises every agent's false-positive rate and lowers all "
            "scores, most of those whose independent calls fall on these items.",
            "Keep one of them, or make the items more specific.",
            items=ids,
        )


def _prompts_alike(pool: Pool) -> csr_array[np.float64]:
    prompts = [item.prompt or "" for item in pool.items]
    profiles = _normed(word_matrix(segment(prompts)).astype(np.float64))
    return _pairs(profiles, profiles, np.full(pool.n_items, SAME_PROMPT))


def _responses_alike(pool: Pool, rng: np.random.Generator) -> csr_array[np.float64]:
    n = int(np.clip(MOST_TEXTS // pool.n_items, 2, MOST_AGENTS))
    agents = rng.permutation(pool.n_agents)[:n]
    holds = word_matrix(segment(text or "" for k in agents for text in pool.texts[k]))
    item_of = np.tile(np.arange(pool.n_items), len(agents))
    half_of = np.repeat(np.arange(len(agents)) % 2, pool.n_items)
    both = _normed(
        csr_array(
            csr_array(
                (np.ones(len(item_of)), (item_of + half_of * pool.n_items, np.arange(len(item_of)))),
                shape=(2 * pool.n_items, len(item_of)),
            )
            @ holds
        ),
        n_groups=2,
    )
    one, two = both[: pool.n_items], both[pool.n_items :]
    within = np.asarray(one.multiply(two).sum(axis=1), dtype=np.float64)
    usual = float(np.median(within[within > 0])) if (within > 0).any() else np.inf
    return _pairs(one, two, ALIKE * np.maximum(within, usual))


def _normed(counts: csr_array[np.float64], *, n_groups: int = 1) -> csr_array[np.float64]:
    """Rows weighted by idf over items, of length 1 (or 0). Items stand there `n_groups` times, one after the other."""
    J = counts.shape[0] // n_groups
    held = groups_holding(counts.astype(np.int8), np.tile(np.arange(J), n_groups), n_groups=J)
    weighted = csr_array(counts.multiply(idf(np.asarray(held.sum(axis=0), dtype=np.float64), J)))
    length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1), dtype=np.float64))
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    return csr_array(weighted.multiply(scale[:, None]))


def _pairs(one: csr_array[np.float64], two: csr_array[np.float64], least: Floats) -> csr_array[np.float64]:
    """[J, J]: 1 where items j and k are at least as alike as both ask, 0 elsewhere and on the diagonal."""
    J = one.shape[0]
    rows, columns = [], []
    for low in range(0, J, BLOCK):
        alike = (one[low : low + BLOCK] @ two.T).toarray()
        enough = alike >= np.maximum(least[low : low + BLOCK, None], least[None, :])
        j, k = np.nonzero(enough)
        rows.append(j + low)
        columns.append(k)
    j, k = np.concatenate(rows), np.concatenate(columns)
    apart = j != k
    return csr_array((np.ones(int(apart.sum())), (j[apart], k[apart])), shape=(J, J))
