"""Sample the texts of a pool for checks that compare all responses to an item.

The sample of a small pool has all its items. That of a large pool has random items, with all responses to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from youden.streams import standalone_stream
from youden.text.similarity import build_group_word_matrix, build_word_matrix, idf, jaccard_similarity
from youden.text.words import SegmentedTexts, segment_texts
from youden.types import Agent, Item, Pool
from youden.types.pool import Floats

Index = NDArray[np.int64]
Hashes = NDArray[np.uint64]

MAX_TEXTS = 60_000
MIN_ITEMS = 20
_MULTIPLIER = np.uint64(0x5851F42D4C957F2D)
"""Odd multiplier of the polynomial hash of n-grams."""


@dataclass(frozen=True, eq=False)
class SampledTexts:
    """Responses to sampled items as words, ordered by item.

    Attributes
    ----------
    pool : Pool
        The pool.
    items : int array (n_sampled_items,)
        Positions of the sampled items in the pool, ascending.
    item_of : int array (n_texts,)
        Position in `items` of each text's item.
    agent_of : int array (n_texts,)
        Position in the pool of each text's agent.
    texts : SegmentedTexts
        Words of the n_texts responses, followed by those of the n_sampled_items prompts.
    """

    pool: Pool
    items: Index
    item_of: Index
    agent_of: Index
    texts: SegmentedTexts

    @classmethod
    def from_pool(cls, pool: Pool, *, seed: int = 0, max_texts: int = MAX_TEXTS) -> SampledTexts:
        """Sample items of a pool, and split the texts of these items into words: the prompts and the first responses.

        Parameters
        ----------
        pool : Pool
            The pool.
        seed : int, default 0
            Seed of the sample.
        max_texts : int, default 60,000
            Approximate maximum number of responses. It determines the number of sampled items: `max_texts` divided by the
            number of agents, rounded down, but at least 20. A pool with fewer items is used completely.

        Returns
        -------
        SampledTexts
            `texts`: numbered words of the first responses to the sampled items, item by item, without missing responses, and then
            of the prompts of these items; an item without a prompt has an empty text. `items`: positions of the sampled items in
            the pool, ascending. `item_of` and `agent_of`: item (a position in `items`) and agent of each response.
        """
        items = np.arange(pool.n_items)
        n_sampled = max(MIN_ITEMS, max_texts // max(1, pool.n_agents))
        if n_sampled < pool.n_items:
            rng = standalone_stream(seed)
            items = np.sort(rng.choice(pool.n_items, size=n_sampled, replace=False))

        # item (position in `items`) and agent of each response, in the order of items
        is_present = pool.present[:, items]
        item_of_text, agent_of_text = np.nonzero(is_present.T)
        responses = pool.texts[agent_of_text, items[item_of_text]]
        prompts = [pool.items[item].prompt or "" for item in items]
        texts = segment_texts([*responses, *prompts])
        return cls(pool, items, item_of_text, agent_of_text, texts)

    def __len__(self) -> int:
        return len(self.item_of)

    @property
    def ranges(self) -> Iterator[tuple[int, int]]:
        """Position of the first text of each sampled item, and of the first text after its last one."""
        bounds = np.searchsorted(self.item_of, np.arange(len(self.items) + 1))
        return pairwise(bounds.tolist())

    @cached_property
    def n_words(self) -> Index:
        """Number of words of each text, then of each prompt: int array (n_texts + n_sampled_items,)."""
        return np.diff(self.texts.start)

    @cached_property
    def _word_matrix(self) -> csr_array[np.int8]:
        return build_word_matrix(self.texts)

    @cached_property
    def has_word(self) -> csr_array[np.int8]:
        """1 if the text contains the word: int8 array (n_texts, n_distinct_words)."""
        return self._word_matrix[: len(self)]

    @cached_property
    def prompt_has_word(self) -> csr_array[np.int8]:
        """1 if the prompt of the item contains the word: int8 array (n_sampled_items, n_distinct_words)."""
        return self._word_matrix[len(self) :]

    @cached_property
    def idf(self) -> Floats:
        """Inverse document frequency of each word, float array (n_distinct_words,).

        It is log(number of sampled items / number of sampled items with a response that contains the word).
        """
        item_has_word = build_group_word_matrix(self.has_word, self.item_of, n_groups=len(self.items))
        return idf(np.asarray(item_has_word.sum(axis=0), dtype=np.float64), len(self.items))

    def hash_ngrams(self, size: int) -> tuple[Hashes, Index]:
        """Hash all n-grams of the responses and prompts. An n-gram is a sequence of `size` words of one text.

        Returns
        -------
        hashes : uint64 array (n_ngrams,)
            Hash of each n-gram.
        text_of : int array (n_ngrams,)
            Position of the text that contains the n-gram. Responses come first, and the prompt of item m has the position
            n_texts + m.
        """
        # polynomial hash of `size` consecutive words, at all positions at once
        word_ids = self.texts.ids.astype(np.uint64)
        n_positions = max(0, len(word_ids) - size + 1)
        hashes = np.zeros(n_positions, dtype=np.uint64)
        for offset in range(size):
            words = word_ids[offset : n_positions + offset]
            hashes = (hashes + words + np.uint64(1)) * _MULTIPLIER

        # leave out the n-grams that begin in one text and end in another
        text_of_word = np.repeat(np.arange(len(self.texts)), self.n_words)
        text_of_first_word = text_of_word[:n_positions]
        text_of_last_word = text_of_word[size - 1 :]
        is_in_one_text = text_of_first_word == text_of_last_word
        return hashes[is_in_one_text], text_of_first_word[is_in_one_text]

    def iter_similarities(self) -> Iterator[tuple[Index, Floats]]:
        """Yield the pairwise similarities of the responses to each sampled item.

        Yields
        ------
        rows : int array (n_responses,)
            Positions of the responses to the item.
        similarity : float array (n_responses, n_responses)
            Jaccard similarity of two responses: number of shared words / number of distinct words in both.
        """
        for start, end in self.ranges:
            has_word = self.has_word[start:end]
            yield np.arange(start, end), jaccard_similarity(has_word, has_word)

    def mean_similarity(self) -> Floats:
        """Return how similar the responses of two agents to the same item are on average, float array (n_agents, n_agents).

        The similarity of two responses is their Jaccard similarity, as in `iter_similarities`. The mean is NaN for two agents
        without a sampled item in common.
        """
        n_agents = self.pool.n_agents
        total = np.zeros((n_agents, n_agents))
        n_items = np.zeros((n_agents, n_agents))
        for rows, similarity in self.iter_similarities():
            agents = self.agent_of[rows]
            total[np.ix_(agents, agents)] += similarity
            n_items[np.ix_(agents, agents)] += 1
        mean = np.full((n_agents, n_agents), np.nan)
        np.divide(total, n_items, out=mean, where=n_items > 0)
        return mean

    def agent_medians(self, values: Floats) -> Floats:
        """Return the median of the values of each agent, float array (n_agents,), NaN for an agent without values.

        values : float array (n_texts,), one value per text; NaN is ignored
        """
        n_agents = self.pool.n_agents
        medians = np.full(n_agents, np.nan)
        # sorted by agent, the texts of an agent are consecutive
        texts_by_agent = np.argsort(self.agent_of, kind="stable")
        starts = np.searchsorted(self.agent_of[texts_by_agent], np.arange(n_agents + 1))
        for agent, (start, end) in enumerate(pairwise(starts)):
            agent_values = values[texts_by_agent[start:end]]
            valid_values = agent_values[~np.isnan(agent_values)]
            if len(valid_values):
                medians[agent] = np.median(valid_values)
        return medians


def select_ids(entries: Sequence[Agent] | Sequence[Item], positions: Iterable[int]) -> tuple[str, ...]:
    """Return the ids of the agents, or of the items, at some positions."""
    return tuple(entries[position].id for position in positions)


def format_names(names: tuple[str, ...], *, limit: int = 5) -> str:
    """Format up to `limit` names in quotes, and state how many names are left out.

    >>> format_names(("a", "b", "c"), limit=2)
    "'a', 'b' and 1 more"
    """
    listing = ", ".join(f"'{name}'" for name in names[:limit])
    return listing if len(names) <= limit else f"{listing} and {len(names) - limit:,} more"
