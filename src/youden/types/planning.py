"""A plan: its held-out cells, its trials, and the contracts of the designs that draw them.

A plan holds its pool, or a function that reads it, so that no caller has to pass a matching pool.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from youden.errors import PlanError
from youden.run_keys import Question, SplitRule
from youden.types.plan_steps import Extensions, Rounds
from youden.types.pool import Bools, Codes, Ids, Json, Pool, ReadOnly
from youden.types.trials import COMPARISON_COLUMNS, FOLLOW_UP, PAIRED, PROBE, SELF, SELF_TRIAL, Trials

if TYPE_CHECKING:
    from youden.judging.config.judge_files import JudgeLike

IndependentRule = Literal["matched", "pooled"]
"""One matched independent trial per paired trial, or fewer, from which the false-positive rates are estimated."""


@dataclass(frozen=True, eq=False)
class Split(ReadOnly):
    """Training and held-out cells, drawn before anything is planned or scored.

    Raises
    ------
    PlanError
        [split-cells]: if the sets of cells have different shapes or overlap; [holdout-rule]: if the rule is unknown.
    """

    train: Bools
    """bool (n_agents, n_items), training cells; a cell without a response is in neither set."""
    holdout: Bools
    """bool (n_agents, n_items), held-out cells."""
    rule: SplitRule
    """`strict` excludes from training all trials with a text of a held-out cell, `paper` only if it comes first."""
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
        n_shared = int((self.train & self.holdout).sum())
        if n_shared:
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
    def without_holdout(cls, shape: tuple[int, int]) -> Split:
        """Create a split in which all cells are training cells.

        Parameters
        ----------
        shape : (int, int)
            Number of agents and of items.

        Returns
        -------
        Split
            A split whose fraction of held-out cells is 0.
        """
        train = np.ones(shape, dtype=np.bool_)
        holdout = np.zeros(shape, dtype=np.bool_)
        return cls(train, holdout, rule="strict", fraction=0.0, seed=0)

    @property
    def n_holdout(self) -> int:
        """Number of held-out cells."""
        return int(self.holdout.sum())

    def allows_training(self, first: Ids, item: Ids, second: Ids, other_item: Ids) -> Bools:
        """Return which comparisons may be used for training scores.

        The first text must not be in a held-out cell (agent and item). The rule "strict" requires the same of the second text;
        the rule "paper" does not.

        Parameters
        ----------
        first, item : int array (n_comparisons,)
            Agent and item of the first text of each comparison.
        second, other_item : int array (n_comparisons,)
            Agent and item of the second text.

        Returns
        -------
        bool array (n_comparisons,)
            Whether each comparison may be used.
        """
        is_held_out = self.holdout[first, item]
        if self.rule == "strict":
            is_held_out |= self.holdout[second, other_item]
        return np.asarray(~is_held_out)


@dataclass(frozen=True, eq=False)
class DesignResult:
    """Trials that a design drew."""

    trials: Trials
    """Paired trials."""
    notes: tuple[str, ...] = ()
    """Remarks that a reader of the plan should know, one sentence each."""
    rounds: Rounds | None = None
    """Rounds with the pilot, if the design is adaptive; else None."""


class Design(Protocol):
    """Rule that chooses the paired trials of a plan."""

    name: str
    """Registered name."""

    def draw(self, eligible: Bools, rng: np.random.Generator) -> DesignResult:
        """Draw paired trials. The result depends only on the arguments.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells that may be compared. These are the cells that have a response and are not held out.
        rng : numpy.random.Generator
            Source of all random numbers.

        Returns
        -------
        DesignResult
            Paired trials among the eligible cells, with `notes` for readers of the plan and, if the design is adaptive, the
            `rounds` with the pilot.

        Raises
        ------
        PlanError
            If the design is impossible on these cells; the message names what to change.
        """
        ...


@runtime_checkable
class BlockDesign(Protocol):
    """Design whose trials form blocks, so that a run can be extended by calls and by items."""

    def blocks(self, eligible: Bools, rng: np.random.Generator) -> Iterator[Trials]:
        """Yield all possible blocks: paired trials of one item, in which each eligible agent appears once first and once second.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells (agent and item) that may be compared.
        rng : numpy.random.Generator
            Source of all random numbers.

        Yields
        ------
        Trials
            Paired trials of one block, without block number (−1). The blocks have the order in which `draw` uses them.

        Raises
        ------
        PlanError
            If no item has two eligible agents, when the first block is requested; a design may yield nothing instead.
        """
        ...


@dataclass(frozen=True)
class Cost:
    """Estimated cost of a plan."""

    cells: int
    """Number of cells (agent, item) in paired trials."""
    calls: int
    """Number of calls."""
    tokens_in: int
    """Estimated tokens of the requests."""
    tokens_out: int
    """Estimated tokens of the answers."""
    usd: float | None
    """Estimated cost in USD; None if a price is unknown."""
    tokenizer: str = "characters / 4"
    """Method of the token estimate."""
    prices: str = ""
    """Source of the prices; empty if nothing is priced."""
    minutes: float | None = None
    """Expected duration of the calls without a stored answer; None if unknown."""
    pace: str = ""
    """Basis of the expected duration."""
    stored: int = 0
    """Number of calls whose answers are in the store or in the folder of the run."""
    usd_left: float | None = None
    """Estimated cost in USD of the other calls; None if a price is unknown or no answer is stored."""
    n_shared: int = 0
    """Number of trials that share the request of an earlier trial with the same two texts. Estimates count this request once."""
    n_other_settings: int = 0
    """Number of calls that have a stored answer under other settings of the judge, which the run does not reuse."""
    other_settings: str = ""
    """The other settings, such as "max_tokens: 16 instead of 8"; empty if there are no such answers, or no calls left."""

    @property
    def calls_left(self) -> int:
        """Number of calls whose answers are not in the store."""
        return self.calls - self.stored

    def count_affordable(self, max_cost: float | None) -> int | None:
        """Estimate the number of remaining calls that can be made within a cost cap.

        Parameters
        ----------
        max_cost : float or None
            Cost cap in USD; None for no cap.

        Returns
        -------
        int or None
            Number of calls. None in three cases: all remaining calls can be made, there is no cap, or a price is unknown.

        Examples
        --------
        >>> cost = Cost(cells=40, calls=2000, tokens_in=0, tokens_out=0, usd=0.10)
        >>> cost.count_affordable(0.01), cost.count_affordable(1.0)
        (200, None)
        """
        usd_of_remaining_calls = self.usd if self.stored == 0 else self.usd_left
        if max_cost is None or usd_of_remaining_calls is None or usd_of_remaining_calls <= max_cost:
            return None
        return int(self.calls_left * max_cost / usd_of_remaining_calls)


@dataclass(frozen=True)
class PlanRequest:
    """Settings that were requested when a plan was first drawn; None means the default of the design."""

    independent: str | None = None
    """Independent trials, such as `matched` or `pooled:100`."""
    holdout: float | None = None
    """Fraction of held-out cells."""
    budget: int | None = None
    """Resulting number of calls of both trial types; None for the default number of the design."""
    free_independent: bool = False
    """Whether independent trials cost nothing, so that they are added to the budget."""


SELF_DESIGN = "replication"
"""Design of a plan of self-trials, comparisons of two responses of one agent."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Trials to be judged, with their pool and the settings from which they were drawn.

    Raises
    ------
    PlanError
        [plan-shape]: if the split or the trials do not fit the agents and items; [plan-other-pool]: if `source` is a
        pool with another digest, or no pool.
    """

    trials: Trials
    """Trials; those of the first plan precede those of rounds and extensions."""
    split: Split
    """Training and held-out cells."""
    design: str
    """Name of the design."""
    options: Mapping[str, Json]
    """Budget and options of the design."""
    independent: IndependentRule
    """`matched` (one independent trial per paired trial) or `pooled` (any number, for the FPR of each agent)."""
    seed: int
    """Seed of all draws."""
    pool_digest: str
    """Digest of the pool."""
    agent_ids: tuple[str, ...]
    """Ids of the agents, by position."""
    item_ids: tuple[str, ...]
    """Ids of the items, by position."""
    n_independent: int | None = None
    """Number of pooled independent trials, probes included; None for `matched`."""
    rounds: Rounds | None = None
    """Rounds of an adaptive plan; else None."""
    extensions: Extensions | None = None
    """Extensions; None if there are none."""
    request: PlanRequest = PlanRequest()
    """Settings that were requested when the plan was first drawn."""
    characters: int = 0
    """Total length of the texts in all trials, in characters."""
    notes: tuple[str, ...] = field(default=())
    """Remarks that a reader of the plan should know, one sentence each."""
    source: Pool | Callable[[], Pool] | None = field(default=None, repr=False, compare=False)
    """Pool from which the plan was made, or a function that reads it; None for a plan without texts. Read it by `pool`."""

    def __post_init__(self) -> None:
        for cells in (self.split.train, self.split.holdout):
            if cells.shape != (self.n_agents, self.n_items):
                raise PlanError(
                    f"The split does not fit the plan: got {cells.shape} cells for {self.n_agents} agents × {self.n_items} "
                    "items. Pass the split of the same pool.",
                    slug="plan-shape",
                )
        self._check_positions("first", self.n_agents)
        self._check_positions("second", self.n_agents)
        self._check_positions("item", self.n_items)
        self._check_positions("other_item", self.n_items)
        if isinstance(self.source, Pool):
            self._check_pool(self.source)
        elif self.source is not None and not callable(self.source):
            raise PlanError(
                f"A plan's pool must be a Pool: got {type(self.source).__name__}. Pass what youden.read_pool returns.",
                slug="plan-other-pool",
            )

    def _check_positions(self, column: str, n_positions: int) -> None:
        """Raise PlanError [plan-shape] unless all positions in a column of the trials are below `n_positions`."""
        largest = int(self.trials.columns()[column].max(initial=-1))
        if largest >= n_positions:
            raise PlanError(
                f"The trials do not fit the plan: got {largest} in {column}, but positions end at {n_positions - 1}. "
                "Pass trials of the same agents and items.",
                slug="plan-shape",
            )

    def __repr__(self) -> str:
        return f"Plan({self.design}: {len(self):,} calls, {self.n_agents:,} agents × {self.n_items:,} items, seed {self.seed})"

    def __len__(self) -> int:
        return len(self.trials)

    @property
    def n_agents(self) -> int:
        """Number of agents."""
        return len(self.agent_ids)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @cached_property
    def pool(self) -> Pool:
        """Pool from which the plan was made. A plan that was read from the folder of a run loads its pool on first access.

        Raises
        ------
        PlanError
            [plan-no-pool]: if the plan has no pool; [plan-other-pool]: if the pool of the run has changed.
        """
        if self.source is None:
            raise PlanError(
                "The plan holds no pool, but its texts are needed. Pass the pool that it was made from: plan.with_pool(pool).",
                slug="plan-no-pool",
            )
        if isinstance(self.source, Pool):
            return self.source
        pool = self.source()
        self._check_pool(pool)
        return pool

    def with_pool(self, pool: Pool) -> Plan:
        """Return this plan with the given pool as its `source`.

        Parameters
        ----------
        pool : Pool
            Pool from which the plan was made.

        Returns
        -------
        Plan
            The same plan, with its pool.

        Raises
        ------
        PlanError
            [plan-other-pool]: if the plan was made from another pool.
        """
        if self.source is pool:
            return self
        return replace(self, source=pool)

    def _check_pool(self, pool: Pool) -> None:
        """Raise PlanError [plan-other-pool] unless the plan was made from this pool."""
        has_same_texts = pool.digest == self.pool_digest
        has_same_agents = tuple(agent.id for agent in pool.agents) == self.agent_ids
        has_same_items = tuple(item.id for item in pool.items) == self.item_ids
        if not (has_same_texts and has_same_agents and has_same_items):
            raise PlanError(
                f"The plan was made from another pool: got the pool '{pool.name}' ({pool.n_agents} agents × {pool.n_items} "
                f"items, digest {pool.digest[:12]}) for a plan of {self.n_agents} × {self.n_items} (digest "
                f"{self.pool_digest[:12]}). Use the pool that the plan was made from, or make a new plan from the given pool.",
                slug="plan-other-pool",
            )

    @property
    def question(self) -> Question:
        """What the judge is asked about two responses: "information" (same item?) or "preference" (which is better?)."""
        return "preference" if self.options.get("question") == "preference" else "information"

    @property
    def item(self) -> Ids:
        """Item of the first text, and of both texts of a paired trial: int32 array (n_trials,)."""
        return self.trials.item

    @property
    def first(self) -> Ids:
        """Agent whose text the judge reads first: int32 array (n_trials,)."""
        return self.trials.first

    @property
    def second(self) -> Ids:
        """Agent of the second text: int32 array (n_trials,)."""
        return self.trials.second

    @property
    def trial_type(self) -> Codes:
        """Trial type, PAIRED, INDEPENDENT or SELF_TRIAL: int8 array (n_trials,)."""
        return self.trials.trial_type

    @property
    def other_item(self) -> Ids:
        """Item of the second text of an independent trial: int32 array (n_trials,); −1 for a paired one."""
        return self.trials.other_item

    @property
    def replicate(self) -> Ids:
        """Number of earlier trials with the same comparison: int32 array (n_trials,)."""
        return self.trials.replicate

    @property
    def block(self) -> Ids:
        """Block of the trial: int32 array (n_trials,); −1 if it has none."""
        return self.trials.block

    @property
    def role(self) -> Codes:
        """Index into `youden.types.trials.ROLES`: int8 array (n_trials,)."""
        return self.trials.role

    @cached_property
    def text_rows(self) -> tuple[Ids, Ids]:
        """int32 array (n_trials,) each, rows of `Pool.all_texts` that contain the first and the second text of each trial."""
        return self.trials.text_rows(self.n_agents)

    @property
    def is_training(self) -> Bools:
        """Whether a trial counts for abilities (training cells, role main, matched, pooled or anchor): bool array (n_trials,)."""
        first_item, second_item = self.trials.text_cells
        train = self.split.train
        are_training_cells = train[self.first, first_item] & train[self.second, second_item]
        has_other_purpose = np.isin(self.role, (PROBE, FOLLOW_UP, SELF))
        return np.asarray(are_training_cells & ~has_other_purpose)

    @property
    def settings(self) -> dict[str, Json]:
        """Settings of the plan as JSON: options of the design, independent trials, rounds and extensions."""
        settings = dict(self.options)
        if self.n_independent is not None:
            settings["n_independent"] = self.n_independent
        if self.rounds is not None:
            settings |= self.rounds.to_json
        if self.extensions is not None:
            settings["grown"] = self.extensions.to_json
        return settings

    @property
    def is_self_plan(self) -> bool:
        """Whether each trial compares two responses of one agent, because there are only one or two agents."""
        return self.design == SELF_DESIGN

    @property
    def n_self_trials(self) -> int:
        """Number of self-trials of a plan that also compares agents."""
        return int((self.trial_type == SELF_TRIAL).sum())

    @property
    def n_follow_ups(self) -> int:
        """Number of follow-up trials, which serve only to flag groups of agents and are the last trials of the plan."""
        return int((self.role == FOLLOW_UP).sum())

    @property
    def n_dense_calls(self) -> int:
        """Number of calls of the dense design, which compares all agents on all items; 0 for a plan of self-trials.

        A budget such as "5%" is a percentage of this number. For K agents and J items, it is 2·K·(K − 1)·J, or half of this if
        the judge is asked for preferences.
        """
        if self.is_self_plan:
            return 0
        n_paired = self.n_agents * (self.n_agents - 1) * self.n_items
        return n_paired if self.question == "preference" else 2 * n_paired

    @cached_property
    def n_cells(self) -> int:
        """Number of distinct cells (agent, item) in paired trials."""
        is_compared = np.zeros((self.n_items, self.n_agents), dtype=np.bool_)
        is_paired = self.trial_type == PAIRED
        item = self.item[is_paired]
        is_compared[item, self.first[is_paired]] = True
        is_compared[item, self.second[is_paired]] = True
        return int(is_compared.sum())

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of the comparisons, the training and held-out cells, and the digest of the pool."""
        hasher = hashlib.sha256(f"{self.pool_digest} {self.split.rule}".encode())
        hasher.update(np.packbits(self.split.holdout).tobytes())
        columns = self.trials.columns()
        for name in COMPARISON_COLUMNS:
            if name in columns:
                hasher.update(np.ascontiguousarray(columns[name]).tobytes())
        return hasher.hexdigest()

    def cost(self, judge: JudgeLike) -> Cost:
        """Estimate the cost of judging the whole plan.

        Parameters
        ----------
        judge : str, path, mapping, JudgeConfig or callable
            Judge name, path of a judge YAML, judge keys, or ``f(text_a, text_b)`` returning a bool or a number in [0, 1].

        Returns
        -------
        Cost
            Cells, calls, tokens, USD (None if a price is unknown) and minutes; 0 USD for a judge without calls.

        Raises
        ------
        ConfigError
            If the judge cannot be found or its config is invalid.

        Examples
        --------
        >>> import youden
        >>> plan = youden.make_plan(youden.read_pool("datasets/field-notes"), calls=300)
        >>> plan.cost("gpt-4o-mini").calls
        300
        """
        from youden.judging.estimate import estimate_for_judge

        return estimate_for_judge(self, judge)
