"""Items that a judge could not tell apart: independent pairs across them would look paired.

Words of prompts and of responses are compared; two items of one meaning in other words are not found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from youden.pools.checks.checked import listed
from youden.streams import own_stream
from youden.text.similarity import groups_holding, idf, word_matrix
from youden.text.words import segment
from youden.types import Finding, Pool
from youden.types.pool import Floats, Positions

MOST_AGENTS = 30
MOST_TEXTS = 200_000
MOST_ITEMS = 10_000
"""Maximum number of items, drawn at random, whose responses are compared; prompts are compared for all items."""
BLOCK = 512
_PAIRS_AT_ONCE = 1_000_000
_ROUNDING = 1e-9

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
    items = np.arange(pool.n_items)
    if pool.n_items > MOST_ITEMS:
        items = np.sort(rng.choice(pool.n_items, MOST_ITEMS, replace=False))
    J = len(items)
    n = int(np.clip(MOST_TEXTS // J, 2, MOST_AGENTS))
    agents = rng.permutation(pool.n_agents)[:n]
    holds = word_matrix(segment(text or "" for k in agents for text in pool.texts[k, items]))
    item_of = np.tile(np.arange(J), len(agents))
    half_of = np.repeat(np.arange(len(agents)) % 2, J)
    both = _normed(
        csr_array(
            csr_array(
                (np.ones(len(item_of)), (item_of + half_of * J, np.arange(len(item_of)))),
                shape=(2 * J, len(item_of)),
            )
            @ holds
        ),
        n_groups=2,
    )
    one, two = both[:J], both[J:]
    within = np.asarray(one.multiply(two).sum(axis=1), dtype=np.float64)
    usual = float(np.median(within[within > 0])) if (within > 0).any() else np.inf
    linked = _pairs(one, two, ALIKE * np.maximum(within, usual)).tocoo()
    return csr_array((linked.data, (items[linked.row], items[linked.col])), shape=(pool.n_items, pool.n_items))


def _normed(counts: csr_array[np.float64], *, n_groups: int = 1) -> csr_array[np.float64]:
    """Rows weighted by idf over items, of length 1 (or 0). Items stand there `n_groups` times, one after the other."""
    J = counts.shape[0] // n_groups
    held = groups_holding(counts.astype(np.int8), np.tile(np.arange(J), n_groups), n_groups=J)
    weighted = csr_array(counts.multiply(idf(np.asarray(held.sum(axis=0), dtype=np.float64), J)))
    length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1), dtype=np.float64))
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    return csr_array(weighted.multiply(scale[:, None]))


def _pairs(one: csr_array[np.float64], two: csr_array[np.float64], least: Floats) -> csr_array[np.float64]:
    """Return a matrix [J, J]: 1 where the similarity of items j and k reaches `least` of both, 0 elsewhere and on the diagonal.

    Only pairs that share a word of both prefixes (see `_prefixes`) are compared.
    """
    J = one.shape[0]
    order = np.argsort(np.bincount(np.concatenate([one.indices, two.indices]), minlength=one.shape[1]), kind="stable")
    rarity = np.empty_like(order)
    rarity[order] = np.arange(len(order))
    rare, rare_columns = _prefixes(one, least, rarity), csr_array(_prefixes(two, least, rarity).T)
    rows, columns = [], []
    for low in range(0, J, BLOCK):
        candidates = (rare[low : low + BLOCK] @ rare_columns).tocoo()
        for start in range(0, candidates.nnz, _PAIRS_AT_ONCE):
            j = candidates.row[start : start + _PAIRS_AT_ONCE] + low
            k = candidates.col[start : start + _PAIRS_AT_ONCE]
            alike = np.asarray(one[j].multiply(two[k]).sum(axis=1), dtype=np.float64)
            enough = (alike >= np.maximum(least[j], least[k])) & (j != k)
            rows.append(j[enough])
            columns.append(k[enough])
    j, k = (np.concatenate([np.empty(0, dtype=np.int64), *each]) for each in (rows, columns))
    return csr_array((np.ones(len(j)), (j, k)), shape=(J, J))


def _prefixes(profiles: csr_array[np.float64], least: Floats, rarity: Positions) -> csr_array[np.float64]:
    """Keep the rarest words of each row, so many that the norm of the dropped words is below the row's `least`.

    Two rows of norm 1 whose product reaches `least` of both share a word that both keep. Otherwise one of them would have dropped
    the rarest word that they share, and with it all others that they share, so that the product is below `least` of that row.

    References: Bayardo, Ma & Srikant 2007, Scaling up all pairs similarity search.
    """
    row = np.repeat(np.arange(profiles.shape[0]), np.diff(profiles.indptr))
    commonest_first = np.lexsort((-rarity[profiles.indices], row))
    squares = np.cumsum(profiles.data[commonest_first] ** 2)
    before = np.concatenate([[0.0], squares])[profiles.indptr[:-1]]
    kept = commonest_first[squares - before[row] >= least[row] ** 2 - _ROUNDING]
    return csr_array((profiles.data[kept], (row[kept], profiles.indices[kept])), shape=profiles.shape)
