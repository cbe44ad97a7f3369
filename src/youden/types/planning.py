"""A plan: which cells are held out, which calls are made and what they cost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from youden.errors import PlanError
from youden.run_keys import SplitRule
from youden.types.plan_steps import Extensions, Rounds
from youden.types.pool import Bools, Codes, Ids, Json, Pool, ReadOnly
from youden.types.trials import ASKED, FOLLOW_UP, PAIRED, PROBE, Trials

if TYPE_CHECKING:
    from youden.judging.config.judge_files import JudgeLike

IndependentRule = Literal["twin", "pooled"]


@dataclass(frozen=True, eq=False)
class Split(ReadOnly):
    """Training and held-out cells, drawn before anything is planned or scored.

    Raises: PlanError [split-cells], [holdout-rule].
    """

    train: Bools
    """bool (n_agents, n_items), training cells; a cell without a response is in neither set."""
    holdout: Bools
    """bool (n_agents, n_items), held-out cells."""
    rule: SplitRule
    """`shared` excludes every trial that touches a held-out cell from training; `own` (the paper's) only those that are
    scored for it.
    """
    fraction: float
    """Requested fraction of held-out cells."""
    seed: int
    """Seed of the draw."""

    def __post_init__(self) -> None:
        if self.train.shape != self.holdout.shape:
            raise PlanError(
                f"Training and held-out cells have different shapes: got {self.train.shape} and {self.holdout.shape}. Pass cells "
                "of the same pool.",
                slug="split-cells",
            )
        if n_shared := int((self.train & self.holdout).sum()):
            raise PlanError(
                f"Training and held-out cells overlap: got {n_shared} cells in both. Remove the held-out cells from train.",
                slug="split-cells",
            )
        if self.rule not in get_args(SplitRule):
            raise PlanError(
                f"The holdout rule is unknown: got '{self.rule}'. Pass one of: {', '.join(get_args(SplitRule))}.",
                slug="holdout-rule",
            )
        super().__post_init__()

    @classmethod
    def whole(cls, shape: tuple[int, int]) -> Split:
        """Make a split of (n_agents, n_items) cells that holds nothing out."""
        return cls(np.ones(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_), rule="shared", fraction=0.0, seed=0)

    @property
    def n_holdout(self) -> int:
        return int(self.holdout.sum())


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a design returns."""

    trials: Trials
    """Paired trials."""
    notes: tuple[str, ...] = ()
    """What a reader of the plan has to know, one sentence each."""
    rounds: Rounds | None = None
    """The pilot, if the design is adaptive; else None."""


class Design(Protocol):
    """Chooses the paired comparisons of a plan."""

    name: str

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        """Paired trials among eligible cells (bool[K, J]), a pure function of both arguments.

        Raises: PlanError where the cells do not allow the design, saying what to change.
        """
        ...


@runtime_checkable
class Slotted(Protocol):
    """A design whose trials stand in slots, and that can go on: its runs are extended by more calls and by items."""

    def slots(self, eligible: Bools, rng: np.random.Generator) -> Iterator[Trials]:
        """Every slot there is, in the order in which `draw` takes them, not numbered yet."""
        ...


@dataclass(frozen=True)
class Cost:
    """Estimated cost of a plan."""

    cells: int
    """Cells (agent, item) that paired trials touch."""
    calls: int
    """Number of calls."""
    tokens_in: int
    """Estimated tokens of the requests."""
    tokens_out: int
    """Estimated tokens of the answers."""
    usd: float | None
    """Estimated cost in USD; None if a price is unknown."""
    tokenizer: str = "characters / 4"
    """How tokens were estimated."""
    prices: str = ""
    """Source of the prices; empty if nothing is priced."""
    minutes: float | None = None
    """Expected duration; None if unknown."""
    pace: str = ""
    """What the duration is based on."""
    stored: int = 0
    """Number of calls whose answers the store holds."""
    usd_left: float | None = None
    """Estimated cost in USD of the calls that are not in the store; None if a price is unknown or no store was read."""


@dataclass(frozen=True)
class Asked:
    """What was requested when a plan was first drawn; None for what was left to the design."""

    independent: str | None = None
    """Independent trials, such as `twin` or `pooled:100`."""
    holdout: float | None = None
    """Fraction of held-out cells."""
    budget: int | None = None
    """Calls of both trial types that this resulted in; None for as many as the design takes."""


@dataclass(frozen=True, eq=False)
class Plan:
    """All trials to be judged, and what was requested when they were drawn.

    Raises: PlanError [plan-shape] if split or trials do not fit the agents and items, [plan-other-pool] if `source` is
    another pool or no pool.
    """

    trials: Trials
    """Trials; those of the first plan come first."""
    split: Split
    """Training and held-out cells."""
    design: str
    """Name of the design."""
    options: Mapping[str, Json]
    """Budget and options of the design."""
    independent: IndependentRule
    """`twin` (an independent trial for every paired one) or `pooled` (a few, for one rate)."""
    seed: int
    """Seed of all draws."""
    pool_digest: str
    """Digest of the pool."""
    agent_ids: tuple[str, ...]
    """Ids of the agents, by position."""
    item_ids: tuple[str, ...]
    """Ids of the items, by position."""
    n_independent: int | None = None
    """Requested number of pooled independent trials; None for `twin`."""
    rounds: Rounds | None = None
    """Rounds of an adaptive plan; else None."""
    extensions: Extensions | None = None
    """Extensions; None if there are none."""
    asked: Asked = Asked()
    """What was requested."""
    characters: int = 0
    """Length of all judged texts together."""
    notes: tuple[str, ...] = field(default=())
    """What a reader of the plan has to know, one sentence each."""
    source: Pool | Callable[[], Pool] | None = field(default=None, repr=False, compare=False)
    """The pool that the plan was made from, or a function that reads it; None for a plan without texts. Use `pool` to read
    it.
    """

    def __post_init__(self) -> None:
        shape = (self.n_agents, self.n_items)
        for cells in (self.split.train, self.split.holdout):
            if cells.shape != shape:
                raise PlanError(
                    f"The split does not fit the plan: got {cells.shape} cells for {shape[0]} agents × {shape[1]} items. "
                    "Pass the split of the same pool.",
                    slug="plan-shape",
                )
        columns = {"first": shape[0], "second": shape[0], "item": shape[1], "other_item": shape[1]}
        for name, n in columns.items():
            largest = int(self.trials.columns()[name].max(initial=-1))
            if largest >= n:
                raise PlanError(
                    f"The trials do not fit the plan: got {largest} in {name}, but positions end at {n - 1}. "
                    "Pass trials of the same agents and items.",
                    slug="plan-shape",
                )
        if isinstance(self.source, Pool):
            self._check(self.source)
        elif self.source is not None and not callable(self.source):
            raise PlanError(
                f"A plan's pool must be a Pool: got {type(self.source).__name__}. Pass what youden.read_pool returns.",
                slug="plan-other-pool",
            )

    def __repr__(self) -> str:
        return f"Plan({self.design}: {len(self):,} calls, {self.n_agents:,} agents × {self.n_items:,} items, seed {self.seed})"

    def __len__(self) -> int:
        return len(self.trials)

    @property
    def n_agents(self) -> int:
        return len(self.agent_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @cached_property
    def pool(self) -> Pool:
        """Pool that the plan was made from; a plan read from a run's folder loads it on first use.

        Raises: PlanError [plan-no-pool] if the plan holds no pool, [plan-other-pool] if its run's pool has changed.
        """
        if self.source is None:
            raise PlanError(
                "The plan holds no pool, but its texts are needed. Pass the pool that it was made from: plan.with_pool(pool).",
                slug="plan-no-pool",
            )
        if isinstance(self.source, Pool):
            return self.source
        pool = self.source()
        self._check(pool)
        return pool

    def with_pool(self, pool: Pool) -> Plan:
        """Return this plan with the pool it was made from.

        Raises: PlanError [plan-other-pool] if the plan was made from another pool.
        """
        return self if self.source is pool else replace(self, source=pool)

    def _check(self, pool: Pool) -> None:
        ids = tuple(agent.id for agent in pool.agents), tuple(item.id for item in pool.items)
        if pool.digest != self.pool_digest or ids != (self.agent_ids, self.item_ids):
            raise PlanError(
                f"The plan was made from another pool: got the pool '{pool.name}' ({pool.n_agents} agents × {pool.n_items} "
                f"items, digest {pool.digest[:12]}) for a plan of {self.n_agents} × {self.n_items} (digest "
                f"{self.pool_digest[:12]}). Use the pool that the plan was made from, or make a new plan from the given pool.",
                slug="plan-other-pool",
            )

    @property
    def item(self) -> Ids:
        return self.trials.item

    @property
    def first(self) -> Ids:
        return self.trials.first

    @property
    def second(self) -> Ids:
        return self.trials.second

    @property
    def arm(self) -> Codes:
        return self.trials.arm

    @property
    def other_item(self) -> Ids:
        return self.trials.other_item

    @property
    def replicate(self) -> Ids:
        return self.trials.replicate

    @property
    def slot(self) -> Ids:
        return self.trials.slot

    @cached_property
    def text_rows(self) -> tuple[Ids, Ids]:
        """Where each trial's texts stand in the rows of `Pool.every`: int32[N] each."""
        return self.trials.text_rows(self.n_agents)

    @property
    def teaches(self) -> Bools:
        """Trials of either arm that abilities may be made of: those of training cells, but probes and follow-ups; bool[N]."""
        train, (item, other) = self.split.train, self.trials.text_cells
        return np.asarray(train[self.first, item] & train[self.second, other] & ~np.isin(self.role, (PROBE, FOLLOW_UP)))

    @property
    def said(self) -> dict[str, Json]:
        """What was asked for beside the trials, as JSON: part of the signature of a run."""
        said = dict(self.options)
        if self.n_independent is not None:
            said["n_independent"] = self.n_independent
        if self.rounds is not None:
            said |= self.rounds.said
        if self.extensions is not None:
            said["grown"] = self.extensions.said
        return said

    @property
    def role(self) -> Codes:
        return self.trials.role

    @property
    def n_follow_ups(self) -> int:
        """The last trials, which ask suspected pairs more and which only links between agents read."""
        return int((self.role == FOLLOW_UP).sum())

    @property
    def n_dense_calls(self) -> int:
        """2K(K−1)J: both arms of every ordered pair on every item, the yardstick of all percentages."""
        return 2 * self.n_agents * (self.n_agents - 1) * self.n_items

    @cached_property
    def n_cells(self) -> int:
        """Distinct agent–item cells that a paired trial touches."""
        touched = np.zeros((self.n_items, self.n_agents), dtype=np.bool_)
        paired = self.arm == PAIRED
        item = self.item[paired]
        touched[item, self.first[paired]] = True
        touched[item, self.second[paired]] = True
        return int(touched.sum())

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) over what the trials ask, the split and the pool they speak of."""
        hasher = hashlib.sha256(f"{self.pool_digest} {self.split.rule}".encode())
        hasher.update(np.packbits(self.split.holdout).tobytes())
        columns = self.trials.columns()
        for name in ASKED:
            if name in columns:
                hasher.update(np.ascontiguousarray(columns[name]).tobytes())
        return hasher.hexdigest()

    def cost(self, judge: JudgeLike) -> Cost:
        """Estimate what a judge will cost on the whole plan.

        Parameters
        ----------
        judge : str, path, mapping, JudgeConfig or callable
            As `judge` of `youden.judge`.

        Returns
        -------
        Cost
            Cells, calls, estimated tokens, USD and minutes; USD is None if a price is unknown. A judge that makes no
            calls costs 0.

        Raises
        ------
        ConfigError
            If the judge cannot be found or its config is wrong.

        Examples
        --------
        >>> import youden
        >>> plan = youden.make_plan(youden.read_pool("datasets/field-notes"), calls=300)
        >>> plan.cost("gpt-4o-mini").calls
        292
        """
        from youden.judging.estimate import cost_of

        return cost_of(self, judge)
