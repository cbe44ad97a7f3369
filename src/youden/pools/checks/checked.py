"""What a check of a pool says, as data, and the part of the pool that it looks at.

Slow measures look at all of a small pool, else at random items with all their responses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from youden.streams import own_stream
from youden.text.similarity import groups_holding, idf, word_matrix
from youden.text.words import Segmented, segment
from youden.types import Finding, Pool
from youden.types.pool import Floats, Json


@dataclass(frozen=True)
class Counts:
    """How much there is. Lengths are characters of responses that are there; words are estimated on the texts looked at."""

    n_agents: int
    n_items: int
    n_responses: int
    n_missing: int
    n_blank: int
    n_prompts: int
    shortest: int
    median: int
    longest: int
    total: int
    mean_words: float | None


@dataclass(frozen=True)
class DesignCost:
    """What judging the pool by one design with one judge takes, at the design's own budget. usd: None, the price is unknown."""

    design: str
    judge: str
    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None


@dataclass(frozen=True)
class Checked:
    """A pool's check. agent_words: agent id → mean words of the responses looked at. notes: what was not looked at, and why."""

    name: str
    counts: Counts
    agent_words: dict[str, float | None]
    languages: dict[str, int]
    findings: tuple[Finding, ...]
    costs: tuple[DesignCost, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """The same as one JSON object."""
        data: dict[str, Json] = asdict(self)
        return data


def listed(names: tuple[str, ...], *, most: int = 5) -> str:
    """Names in quotes, cut after a few.

    >>> listed(("a", "b", "c"), most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


Index = NDArray[np.int64]
Hashes = NDArray[np.uint64]

MOST_TEXTS = 60_000
LEAST_ITEMS = 20
_ODD = np.uint64(0x5851F42D4C957F2D)


@dataclass(frozen=True, eq=False)
class SampledTexts:
    """Texts of some items as words, item by item.

    items: int[M], ascending. item_of (position in `items`), agent_of: int[R], of each text. prompts: the M prompts, cut too.
    """

    pool: Pool
    items: Index
    item_of: Index
    agent_of: Index
    texts: Segmented

    @classmethod
    def of(cls, pool: Pool, *, seed: int = 0, most: int = MOST_TEXTS) -> SampledTexts:
        """All items, or as many random ones as have about `most` responses together (20 at least)."""
        n = max(LEAST_ITEMS, most // max(1, pool.n_agents))
        if n < pool.n_items:
            items = np.sort(own_stream(seed).choice(pool.n_items, size=n, replace=False))
        else:
            items = np.arange(pool.n_items)
        item_of, agent_of = np.nonzero(pool.present[:, items].T)
        responses = pool.texts[agent_of, items[item_of]]
        texts = segment([*responses, *(pool.items[j].prompt or "" for j in items)])
        return cls(pool, items, item_of, agent_of, texts)

    def __len__(self) -> int:
        return len(self.item_of)

    @cached_property
    def bounds(self) -> Index:
        """int[M + 1]: the texts of item number m are bounds[m] … bounds[m + 1]."""
        return np.searchsorted(self.item_of, np.arange(len(self.items) + 1))

    @property
    def spans(self) -> Iterator[tuple[int, int]]:
        """From which text to which (excluded) each item's stand."""
        return pairwise(self.bounds.tolist())

    @cached_property
    def n_words(self) -> Index:
        """int[R + M]: words of each text, then of each prompt."""
        return np.diff(self.texts.start)

    @cached_property
    def holds(self) -> csr_array[np.int8]:
        """int8[R, W]: whether the text holds the word."""
        return word_matrix(self.texts)[: len(self)]

    @cached_property
    def prompt_holds(self) -> csr_array[np.int8]:
        """int8[M, W]: whether the item's prompt holds the word."""
        return word_matrix(self.texts)[len(self) :]

    @cached_property
    def idf(self) -> Floats:
        """float[W]: log(items / items whose responses hold the word)."""
        held = groups_holding(self.holds, self.item_of, n_groups=len(self.items))
        return idf(np.asarray(held.sum(axis=0), dtype=np.float64), len(self.items))

    def runs(self, size: int) -> tuple[Hashes, Index]:
        """uint64[N]: each run of `size` words, in texts and then in prompts, as one number; int[N]: where it stands."""
        ids, n = self.texts.ids.astype(np.uint64), max(0, len(self.texts.ids) - size + 1)
        text_of = np.repeat(np.arange(len(self.texts)), self.n_words)
        whole = text_of[size - 1 :] == text_of[:n]
        number = np.zeros(n, dtype=np.uint64)
        for k in range(size):
            number = (number + ids[k : n + k] + np.uint64(1)) * _ODD
        return number[whole], text_of[:n][whole]

    def alike(self) -> Iterator[tuple[Index, Floats]]:
        """For each item, the rows of its texts and float[n, n]: the share of all their words that two of them share (Jaccard)."""
        for low, high in self.spans:
            holds = self.holds[low:high].astype(np.float32)
            shared = (holds @ holds.T).toarray()
            size = np.diag(shared)
            either = size[:, None] + size[None, :] - shared
            yield np.arange(low, high), shared / np.maximum(1, either)

    def mean_alike(self) -> Floats:
        """float[K, K]: the mean of that share over the items that two agents both answered; NaN without one."""
        K = self.pool.n_agents
        total, n = np.zeros((K, K)), np.zeros((K, K))
        for rows, alike in self.alike():
            agents = np.ix_(self.agent_of[rows], self.agent_of[rows])
            total[agents] += alike
            n[agents] += 1
        mean = np.full((K, K), np.nan)
        np.divide(total, n, out=mean, where=n > 0)
        return mean

    def agent_medians(self, values: Floats) -> Floats:
        """float[K]: the median over an agent's texts of values (float[R], NaN is left out); NaN without any."""
        result = np.full(self.pool.n_agents, np.nan)
        order = np.argsort(self.agent_of, kind="stable")
        bounds = np.searchsorted(self.agent_of[order], np.arange(self.pool.n_agents + 1))
        for k in range(self.pool.n_agents):
            own = values[order[bounds[k] : bounds[k + 1]]]
            own = own[~np.isnan(own)]
            if len(own):
                result[k] = np.median(own)
        return result
