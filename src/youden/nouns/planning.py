"""Which cells are held out, which calls are made, and what they cost."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from youden.nouns.arrays import Bools, Codes, Ids, freeze
from youden.nouns.pool import Json

PAIRED = 0
INDEPENDENT = 1

SplitRule = Literal["shared", "own"]
IndependentRule = Literal["twin", "pooled"]


@dataclass(frozen=True, eq=False)
class Split:
    """Which cells may be learned from, drawn before anything is planned or scored.

    train, holdout: bool[K, J], disjoint; a cell without a response is in neither.
    rule: `shared` keeps every trial that touches a held-out cell out of training; `own` (the paper) only those scored for it.
    """

    train: Bools
    holdout: Bools
    rule: SplitRule
    fraction: float
    seed: int

    def __post_init__(self) -> None:
        freeze([self.train, self.holdout])

    @property
    def n_holdout(self) -> int:
        return int(self.holdout.sum())


@dataclass(frozen=True, eq=False)
class PairedTrials:
    """Paired comparisons as a design draws them: int32[N] each; slot is −1 where the design has none."""

    item: Ids
    first: Ids
    second: Ids
    slot: Ids


class Design(Protocol):
    """Chooses the paired comparisons of a plan."""

    name: str

    def draw(self, eligible: Bools, rng: np.random.Generator) -> PairedTrials:
        """Paired trials among eligible cells (bool[K, J]), a pure function of both arguments.

        Raises: PlanError where the cells do not allow the design, saying what to change.
        """
        ...


class Priced(Protocol):
    """What a cost estimate needs to know of a judge. Prices are USD per million tokens; None is unknown, 0 is known."""

    @property
    def name(self) -> str: ...
    @property
    def makes_calls(self) -> bool: ...
    @property
    def overhead_characters(self) -> int: ...
    @property
    def answer_tokens(self) -> int: ...
    @property
    def price_in(self) -> float | None: ...
    @property
    def price_out(self) -> float | None: ...


@dataclass(frozen=True)
class Cost:
    """What a plan asks for, before anything runs. usd is None where a price is unknown.

    tokenizer: how tokens were estimated. prices: where they come from, empty where nothing is priced. minutes: what asking
    is expected to take, None where unknown. pace: what the minutes rest on, in words.
    """

    cells: int
    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None
    tokenizer: str = "characters / 4"
    prices: str = ""
    minutes: float | None = None
    pace: str = ""


@dataclass(frozen=True, eq=False)
class Plan:
    """Every call to be made, as columns of integers (int32[N] but for `arm`, int8[N]).

    item: the item of the first text, and of both in the paired arm.
    first, second: the agents, in the order in which the judge reads them.
    arm: PAIRED or INDEPENDENT.
    other_item: the item of the second text in the independent arm, −1 in the paired arm.
    replicate: 0 for the first time a comparison is asked, 1 for the second, …
    slot: the slot of a cyclic design, −1 elsewhere.
    independent: `twin` (an independent trial for every paired one) or `pooled` (a few, for one rate).
    characters: length of all judged texts together.
    """

    item: Ids
    first: Ids
    second: Ids
    arm: Codes
    other_item: Ids
    replicate: Ids
    slot: Ids
    n_agents: int
    n_items: int
    split: Split
    design: str
    options: Mapping[str, Json]
    independent: IndependentRule
    seed: int
    pool_digest: str
    agent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    characters: int = 0
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        freeze(self.columns().values())

    def __len__(self) -> int:
        return len(self.item)

    def columns(self) -> dict[str, Ids | Codes]:
        """The trials, column by column, in the order of `plan.parquet`."""
        return {
            "item": self.item,
            "first": self.first,
            "second": self.second,
            "arm": self.arm,
            "other_item": self.other_item,
            "replicate": self.replicate,
            "slot": self.slot,
        }

    @property
    def n_dense_calls(self) -> int:
        """2K(K−1)J: both arms of every ordered pair on every item, the yardstick of all percentages."""
        return 2 * self.n_agents * (self.n_agents - 1) * self.n_items

    @cached_property
    def n_cells(self) -> int:
        """Distinct agent–item cells that a paired trial touches."""
        touched = np.zeros((self.n_agents, self.n_items), dtype=np.bool_)
        paired = self.arm == PAIRED
        touched[self.first[paired], self.item[paired]] = True
        touched[self.second[paired], self.item[paired]] = True
        return int(touched.sum())

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) over the trials, the split and the pool they speak of."""
        hasher = hashlib.sha256(f"{self.pool_digest} {self.split.rule}".encode())
        hasher.update(np.packbits(self.split.holdout).tobytes())
        for column in self.columns().values():
            hasher.update(np.ascontiguousarray(column).tobytes())
        return hasher.hexdigest()

    def cost(self, judge: Priced) -> Cost:
        """Cells, calls, estimated tokens and USD of asking `judge` the whole plan. A judge that makes no calls costs 0."""
        if not judge.makes_calls:
            return Cost(cells=self.n_cells, calls=len(self), tokens_in=0, tokens_out=0, usd=0.0)
        tokens_in = -(-(self.characters + judge.overhead_characters * len(self)) // 4)
        tokens_out = judge.answer_tokens * len(self)
        usd = None
        if judge.price_in is not None and judge.price_out is not None:
            usd = (tokens_in * judge.price_in + tokens_out * judge.price_out) / 1e6
        return Cost(cells=self.n_cells, calls=len(self), tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)
