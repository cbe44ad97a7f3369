"""Trials: the comparisons that a judge answers, stored as columns, with the purpose of each.

The purpose is stored with the trial when it is planned, so that no later step has to infer it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from youden.errors import PlanError
from youden.types.pool import Bools, Codes, Floats, Ids, Positions, ReadOnly

PAIRED = 0
"""Trial type: both responses answer the same item."""
INDEPENDENT = 1
"""Trial type: the two responses answer different items."""
SELF_TRIAL = 2
"""Trial type of a self-trial, both of whose responses are by one agent, in a plan that also compares agents."""
ROLES = ("main", "matched", "pooled", "probe", "anchor", "follow-up", "self")
"""Purposes of trials:

- main: paired trial that compares the agents of the plan
- matched trial: independent trial matched to one paired trial
- pooled: independent trial, from which false-positive rates of agents are estimated
- probe: independent trial that is used only for the false-positive alarm
- anchor: trial of either type that links new agents to the scale of the first agents
- follow-up: additional trial of a pair of agents, which is used only to flag groups
- self: comparison of two responses of one agent, which is used only for its self-consistency
"""
MAIN, MATCHED, POOLED, PROBE, ANCHOR, FOLLOW_UP, SELF = range(len(ROLES))


_PLACEHOLDER: NDArray[Any] = np.empty(0)
"""Default of an optional column; compared by identity, because a plan may have no trials."""


def _get_placeholder() -> NDArray[Any]:
    """Return the placeholder for a column that the caller left out."""
    return _PLACEHOLDER


def count_earlier(values: Ids | Positions) -> Positions:
    """Count how often each value of an array occurs before its own position.

    Parameters
    ----------
    values : int array (n,)
        Values of 0 or more.

    Returns
    -------
    int64 array (n,)
        Number of earlier equal values: 0 at the first occurrence of a value, 1 at the second, and so on.

    Examples
    --------
    >>> count_earlier(np.array([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(values, kind="stable")
    position = np.arange(len(values))

    # in sorted order, equal values are adjacent: count from the first position of each value
    is_first = np.diff(values[order], prepend=-1) != 0
    first_position = np.maximum.accumulate(np.where(is_first, position, 0))

    n_earlier = np.empty(len(values), dtype=np.int64)
    n_earlier[order] = position - first_position
    return n_earlier


@dataclass(frozen=True, eq=False)
class Trials(ReadOnly):
    """Trials as columns of length n_trials: first the comparison, then its purpose.

    `trial_type` and `role` are int8, the weights are float, and all other columns are int32.

    Raises
    ------
    PlanError
        [trials-length]: if the columns have different lengths, or only one of `first_repeat` and `second_repeat`
        is set.
    """

    item: Ids
    """Item of the first text, and of both texts of a paired trial."""
    first: Ids
    """Agent whose text the judge reads first."""
    second: Ids
    """Agent of the second text."""
    trial_type: Codes
    """Trial type: PAIRED, INDEPENDENT or SELF_TRIAL."""
    other_item: Ids
    """Item of the second text; −1 for a paired trial."""
    replicate: Ids
    """Number of earlier trials with the same comparison: 0 for the first, 1 for the second, …"""
    block: Ids
    """Block of the trial; −1 if it has none."""
    role: Codes = field(default_factory=_get_placeholder)
    """Index into `ROLES`. Default: `main` for paired trials and `pooled` for independent ones."""
    step: Ids = field(default_factory=_get_placeholder)
    """Number of the extension or round that added the trial, from 1 on; 0 (the default) for the first plan."""
    weight_first: Floats = field(default_factory=_get_placeholder)
    """Weight of the answer in the ability of the first agent. Default 1; 0 if the trial does not count for that agent;
    in rounds that sample some agents more often, 1 divided by the sampling probability.
    """
    weight_second: Floats = field(default_factory=_get_placeholder)
    """Weight of the answer in the ability of the second agent, defined in the same way."""
    first_repeat: Ids | None = None
    """Number, from 1, of the response of the first agent; None if no agent has several responses to an item."""
    second_repeat: Ids | None = None
    """Number, from 1, of the response of the second agent; None if no agent has several responses to an item."""

    def __post_init__(self) -> None:
        n = len(self.item)
        if self.role is _PLACEHOLDER:
            self.__dict__["role"] = np.where(self.trial_type == PAIRED, MAIN, POOLED).astype(np.int8)
        if self.step is _PLACEHOLDER:
            self.__dict__["step"] = np.zeros(n, dtype=np.int32)
        for name in ("weight_first", "weight_second"):
            if getattr(self, name) is _PLACEHOLDER:
                self.__dict__[name] = np.ones(n)
        if (self.first_repeat is None) != (self.second_repeat is None):
            raise PlanError(
                "Trials show the responses of both agents or of neither: got only one of first_repeat and second_repeat. "
                "Pass both.",
                slug="trials-length",
            )
        for name, column in self.columns().items():
            if len(column) != n:
                raise PlanError(
                    f"Columns of trials must have one length: got {n} in item and {len(column)} in {name}. "
                    "Pass one value per trial in each column.",
                    slug="trials-length",
                )
        super().__post_init__()

    def __len__(self) -> int:
        return len(self.item)

    @classmethod
    def paired(cls, item: Ids, first: Ids, second: Ids, *, block: Ids | None = None) -> Trials:
        """Create paired trials of the role "main", with weight 1 for both agents.

        All comparisons must differ, because `replicate` is 0; this is not checked.

        Parameters
        ----------
        item : int32 array (n_trials,)
            Item of both texts.
        first, second : int32 array (n_trials,)
            Agents, in the order in which the judge reads their texts.
        block : int32 array (n_trials,), optional
            Block of each trial. Default: −1, for no block.

        Returns
        -------
        Trials
            Trials in the given order; `other_item` is −1. The arrays are not copied, and become read-only.

        Raises
        ------
        PlanError
            [trials-length]: if the arrays have different lengths.
        """
        n_trials = len(item)
        return cls(
            item,
            first,
            second,
            trial_type=np.full(n_trials, PAIRED, dtype=np.int8),
            other_item=np.full(n_trials, -1, dtype=np.int32),
            replicate=np.zeros(n_trials, dtype=np.int32),
            block=np.full(n_trials, -1, dtype=np.int32) if block is None else block,
        )

    @classmethod
    def independent(cls, item: Ids, first: Ids, second: Ids, other_item: Ids) -> Trials:
        """Create independent trials of the role "pooled", with weight 1 for both agents.

        All comparisons must differ, because `replicate` is 0; this is not checked.

        Parameters
        ----------
        item, other_item : int32 array (n_trials,)
            Item of the first and of the second text.
        first, second : int32 array (n_trials,)
            Agents, in the order in which the judge reads their texts.

        Returns
        -------
        Trials
            Trials in the given order, which belong to no block. The arrays are not copied, and become read-only.

        Raises
        ------
        PlanError
            [trials-length]: if the arrays have different lengths.
        """
        n_trials = len(item)
        return cls(
            item,
            first,
            second,
            trial_type=np.full(n_trials, INDEPENDENT, dtype=np.int8),
            other_item=other_item,
            replicate=np.zeros(n_trials, dtype=np.int32),
            block=np.full(n_trials, -1, dtype=np.int32),
        )

    def with_role(self, role: int, *, first: Bools | float = 1.0, second: Bools | float = 1.0) -> Trials:
        """Return these trials with another role and other weights.

        Parameters
        ----------
        role : int
            New role of all trials, an index into `ROLES`: 0 "main", 1 "matched", 2 "pooled", 3 "probe", 4 "anchor",
            5 "follow-up", 6 "self". It is not checked.
        first, second : bool array (n_trials,) or float, default 1
            New weights of the trials for the first and for the second agent. An array has one weight per trial (True for 1, False
            for 0); a number is the weight of all trials. The default replaces the old weights by 1.

        Returns
        -------
        Trials
            A copy; all other columns are the same.
        """
        n_trials = len(self)
        return replace(
            self,
            role=np.full(n_trials, role, dtype=np.int8),
            weight_first=np.zeros(n_trials) + first,
            weight_second=np.zeros(n_trials) + second,
        )

    def as_new_plan(self) -> Trials:
        """Return the same comparisons as trials of a first plan.

        Returns
        -------
        Trials
            The comparisons, with default roles, steps and weights.
        """
        comparison = {name: column for name, column in self.columns().items() if name in COMPARISON_COLUMNS}
        return Trials(**comparison)

    @classmethod
    def concat(cls, parts: Sequence[Trials]) -> Trials:
        """Concatenate trials in the given order.

        Parameters
        ----------
        parts : sequence of Trials
            Trials to concatenate; an empty sequence gives no trials.

        Returns
        -------
        Trials
            The trials of all parts. The columns `first_repeat` and `second_repeat` number the responses of an agent to an item.
            If only some parts have these columns, they are filled with 1 in the other parts.
        """
        if not parts:
            no_positions = np.empty(0, dtype=np.int32)
            return cls.paired(no_positions, no_positions, no_positions)
        if len(parts) == 1:
            return parts[0]
        has_repeats = any(part.first_repeat is not None for part in parts)
        tables = []
        for part in parts:
            lacks_repeats = has_repeats and part.first_repeat is None
            completed_part = part.with_first_repeats() if lacks_repeats else part
            tables.append(completed_part.columns())

        concatenated = {}
        for name in tables[0]:
            concatenated[name] = np.concatenate([table[name] for table in tables])
        return cls(**concatenated)

    def take(self, rows: Bools | Positions | slice) -> Trials:
        """Return the selected trials.

        Parameters
        ----------
        rows : bool array (n_trials,), int array or slice
            Mask, positions in the desired order, or slice.

        Returns
        -------
        Trials
            Trials in the order of `rows`, with all their columns.
        """
        return Trials(**{name: column[rows] for name, column in self.columns().items()})

    def swapped(self) -> Trials:
        """Exchange the first and the second text of every trial.

        Use it for paired trials only: the items of independent trials are not exchanged.

        Returns
        -------
        Trials
            The same trials, with `first` and `second` exchanged, and `first_repeat` and `second_repeat` too.
        """
        return replace(
            self,
            first=self.second,
            second=self.first,
            first_repeat=self.second_repeat,
            second_repeat=self.first_repeat,
        )

    def with_first_repeats(self) -> Trials:
        """Return these trials with `first_repeat` and `second_repeat` set to 1.

        Returns
        -------
        Trials
            The same trials, on the first response of each agent.
        """
        ones = np.ones(len(self), np.int32)
        return replace(self, first_repeat=ones, second_repeat=ones.copy())

    def text_rows(self, n_agents: int) -> tuple[Ids, Ids]:
        """Return the rows of `Pool.all_texts` that contain the texts of the trials.

        `Pool.all_texts` has the first responses of all agents, one row per agent, followed by their second responses, and so on.
        Trials without the columns `first_repeat` and `second_repeat` show the first responses.

        Parameters
        ----------
        n_agents : int
            Number of agents of the pool.

        Returns
        -------
        first_row, second_row : int32 array (n_trials,)
            Rows of `Pool.all_texts` with the first and with the second text of each trial.
        """
        if self.first_repeat is None or self.second_repeat is None:
            return self.first, self.second
        first_row = self.first + (self.first_repeat - 1) * n_agents
        second_row = self.second + (self.second_repeat - 1) * n_agents
        return first_row, second_row

    def weight_by_agent(self, rows: Bools, n_agents: int) -> Floats:
        """Sum the weights of selected trials by agent.

        Each trial counts for its first agent with `weight_first`, and for its second agent with `weight_second`. A self-trial, in
        which one agent is both, therefore counts twice.

        Parameters
        ----------
        rows : bool array (n_trials,)
            Mask of the trials.
        n_agents : int
            Number of agents of the pool.

        Returns
        -------
        float array (n_agents,)
            Sum of the weights of each agent, by position; 0 for an agent without a selected trial.
        """
        as_first = np.bincount(self.first[rows], self.weight_first[rows], n_agents)
        as_second = np.bincount(self.second[rows], self.weight_second[rows], n_agents)
        return np.asarray(as_first + as_second)

    def with_replicate_numbers(self) -> Trials:
        """Recompute the column `replicate`, the number of earlier trials with the same comparison.

        Two trials make the same comparison if they have the same agents in the same order and the same items.

        Returns
        -------
        Trials
            The same trials with the new column. It is 0 for a self-trial, because no two self-trials compare the same responses.
        """
        codes = self._comparison_codes()
        sorted_codes = np.sort(codes)
        is_repeated = sorted_codes[1:] == sorted_codes[:-1]
        repeated_codes = sorted_codes[1:][is_repeated]

        # most plans repeat few comparisons: to save time, count only the trials with these comparisons
        replicate = np.zeros(len(codes), dtype=np.int32)
        if len(repeated_codes):
            rows = np.flatnonzero(np.isin(codes, repeated_codes))
            replicate[rows] = count_earlier(codes[rows])
            replicate[self.trial_type == SELF_TRIAL] = 0
        return replace(self, replicate=replicate)

    def _comparison_codes(self) -> Positions:
        """Return one number ≥ 0 per trial, equal for trials with the same items and agents: int64 array (n_trials,)."""
        codes = np.zeros(len(self), dtype=np.int64)  # 64 bits suffice for two cells of a pool of 200 million
        for column in (self.item, self.first, self.second, self.other_item):
            codes *= int(column.max(initial=-1)) + 2
            codes += column
            codes += 1
        return codes

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name.

        Returns
        -------
        dict of str to array (n_trials,)
            Columns in the order of `plan.parquet`, without those that are None.
        """
        table = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: column for name, column in table.items() if column is not None}

    @property
    def text_cells(self) -> tuple[Ids, Ids]:
        """int32 array (n_trials,) each, items of the first and of the second text."""
        return self.item, np.where(self.other_item >= 0, self.other_item, self.item)


COMPARISON_COLUMNS = (
    "item",
    "first",
    "second",
    "trial_type",
    "other_item",
    "replicate",
    "block",
    "first_repeat",
    "second_repeat",
)
"""Columns that define the comparison; the other columns follow from how the plan was drawn and extended."""
