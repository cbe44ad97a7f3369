"""Hold the paired trials of consecutive items, sum columns of them by agent, and fit effects of agents to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from youden.errors import StatisticsError
from youden.stats.base.array_likes import check_arrays
from youden.types.arguments import check_argument
from youden.types.pool import Bools, Floats, Ids, Positions


def check_trials(*columns: Ids | Positions | Floats | Bools, answer: Floats) -> None:
    """Check that columns of trials are arrays of numbers of one length, and that no answer is NaN.

    *columns : arrays with one value per trial, such as the agents and the item
    answer : float array (n_trials,)

    Raises StatisticsError [array-numbers], [trial-columns] or [trial-answer] otherwise.
    """
    check_arrays(*columns, answer)
    lengths = [*(len(column) for column in columns), len(answer)]
    if len(set(lengths)) > 1:
        raise StatisticsError(
            f"Columns of trials must have one length: got {lengths}. Pass all columns from one run.",
            slug="trial-columns",
        )
    n_missing = int(np.isnan(answer).sum())
    if n_missing:
        raise StatisticsError(
            f"Answers must not be NaN: got {n_missing} NaN in {len(answer)} answers. Pass answered trials only.",
            slug="trial-answer",
        )


def check_positions(positions: Ids | Positions, n_positions: int, *, noun: str) -> None:
    """Check that the positions of agents or items are whole numbers from 0 to `n_positions` − 1.

    positions : array (n_trials,) of an integer type; if it is empty, its type is not checked
    n_positions : number of agents or items
    noun : "agent" or "item", for the message

    Returns nothing. Raises StatisticsError [trial-position] if the type is not an integer type (for example, floats), or if a
    position is negative or not below `n_positions`; ConfigError [argument-type] if `n_positions` is not a whole number.
    """
    check_argument(f"n_{noun}s", n_positions, Integral, "Pass a whole number.")
    if not np.issubdtype(positions.dtype, np.integer) and len(positions):
        raise StatisticsError(
            f"The {noun}s of trials must be whole numbers: got {positions.dtype}. Pass their positions.",
            slug="trial-position",
        )
    outside = positions[(positions < 0) | (positions >= n_positions)]
    if len(outside):
        raise StatisticsError(
            f"There are {n_positions} {noun}s: got the position {outside[0]}. Pass positions from 0 to {n_positions - 1}.",
            slug="trial-position",
        )


@dataclass(frozen=True, eq=False)
class PairChunk:
    """All answers to trials on some items, as columns.

    The answers of a run are read chunk by chunk, so that only one chunk is in memory.

    Attributes
    ----------
    first, second : int array (n_trials,)
        Positions of the two agents of a trial.
    item : int array (n_trials,)
        Item of a trial, numbered from 0 within the chunk.
    value : float array (n_trials,)
        Answers, without NaN.
    weight : float array (n_trials,)
        Positive weights.
    rate : float array (n_trials,)
        False-positive rate that was subtracted from an answer, if it was estimated for the pair of agents; else 0.
    n_items : int
        Number of items of the chunk.
    effect_group : int array (n_trials,), optional
        Group of trials that share an additive effect, numbered from 0: a block of a cyclic plan. Default: the item.
    first_weight, second_weight : bool array (n_trials,) or bool, default True
        Whether a trial measures its first (second) agent. It does not measure an agent that takes part in all trials of
        its group, such as the common partner of a block.

    Raises
    ------
    StatisticsError
        [array-numbers]: if a column is not an array of numbers; [trial-columns]: if the columns differ in length;
        [trial-answer]: if an answer is NaN; [trial-item]: if an item is not below `n_items`.
    """

    first: Ids
    second: Ids
    item: Ids
    value: Floats
    weight: Floats
    rate: Floats
    n_items: int
    effect_group: Ids | None = None
    first_weight: Bools | bool = True
    second_weight: Bools | bool = True

    def __post_init__(self) -> None:
        check_trials(self.first, self.second, self.item, self.weight, self.rate, self.effect_groups, answer=self.value)
        for flags in (self.first_weight, self.second_weight):
            if not isinstance(flags, bool):
                check_trials(flags, answer=self.value)
        check_argument("n_items", self.n_items, Integral, "Pass a whole number.")
        if len(self.item) and not 0 <= self.item.min() <= self.item.max() < self.n_items:
            raise StatisticsError(
                f"Items must be positions below n_items: got {self.item.min()} to {self.item.max()} for {self.n_items} "
                "items. Number the items of a chunk from 0.",
                slug="trial-item",
            )

    @classmethod
    def from_trials(
        cls,
        item: Ids,
        first: Ids,
        second: Ids,
        answer: Floats,
        *,
        n_items: int,
        block: Ids | None = None,
        rows: Bools | Positions | slice = slice(None),
    ) -> PairChunk:
        """Make a chunk of individual answers, each of weight 1.

        Parameters
        ----------
        item, first, second : int array (n_trials,)
            Positions of the item (below `n_items`), of the first agent and of the second agent of each trial.
        answer : float array (n_trials,)
            Answers, without NaN in the selected rows.
        n_items : int
            Number of items of the chunk.
        block : int array (n_trials,), optional
            Integer label of the block of each trial. It becomes the effect group of the trial: all trials of a block share an
            additive effect. Default: the item.
        rows : bool mask, int array or slice, optional
            Trials to select. Default: all.

        Returns
        -------
        PairChunk
            The selected trials in the order of `rows`, as columns. `rate`, the subtracted false-positive rate, is 0.

        Raises
        ------
        StatisticsError
            [array-numbers]: if a column is not an array of numbers; [trial-columns]: if the selected columns differ in length;
            [trial-answer]: if a selected answer is NaN; [trial-item]: if a selected item is negative or not below `n_items`.
        """
        check_arrays(item, first, second, answer)
        selected_answer = answer[rows]
        n_selected = len(selected_answer)
        effect_group = None if block is None else _renumber_from_0(block[rows])
        return cls(
            first=first[rows],
            second=second[rows],
            item=item[rows],
            value=selected_answer,
            weight=np.ones(n_selected),
            rate=np.zeros(n_selected),  # no false-positive rate was subtracted
            n_items=n_items,
            effect_group=effect_group,
        )

    @property
    def effect_groups(self) -> Ids:
        """Effect group of each trial, the item by default: int array (n_trials,)."""
        return self.item if self.effect_group is None else self.effect_group


def _renumber_from_0(labels: Ids) -> Ids:
    """Replace integer labels by the numbers 0, 1, … in ascending order of the labels: int32 array (n,).

    For example, the labels 7, 5, 7 become 1, 0, 1. The time and the memory grow with the largest label.

    labels : int array (n,)
    """
    offset = labels - labels.min(initial=0)
    is_used = np.bincount(offset) > 0
    number_of_offset = np.cumsum(is_used) - 1
    return np.asarray(number_of_offset[offset], dtype=np.int32)


ChunkSource = Callable[[], Iterable[PairChunk]]
"""A function that iterates over all chunks of a run, in the order of items, each time it is called."""


class InfluenceChunk(NamedTuple):
    """Influence of the items of one chunk on abilities.

    Attributes
    ----------
    influence : float array (n_agents, n_items)
        Influence U_ij of item j on the ability of agent i.
    direct_influence : float array (n_agents, n_items)
        The part through the agent's own trials, with the abilities of its partners held fixed.
    weight : float array (n_agents, n_items)
        Total weight of the agent's trials on the item.
    """

    influence: Floats
    direct_influence: Floats
    weight: Floats


def sum_by_effect_group(chunk: PairChunk, column: Floats, n_agents: int) -> Floats:
    """Sum a column over the trials of each agent in each effect group, float array (n_agents, n_effect_groups).

    A trial counts for both of its agents.

    column : float array (n_trials,)
    """
    n_groups = chunk.n_items if chunk.effect_group is None else int(chunk.effect_group.max(initial=-1)) + 1
    return _sum_by_agent(chunk, chunk.effect_groups, (column, column), n_agents, n_groups)


def sum_by_item(chunk: PairChunk, column: Floats, n_agents: int) -> Floats:
    """Sum a column over the trials of each agent on each item, float array (n_agents, n_items).

    A trial counts for an agent only if it measures this agent (see `PairChunk.first_weight`).

    column : float array (n_trials,)
    """
    columns = column * chunk.first_weight, column * chunk.second_weight
    return _sum_by_agent(chunk, chunk.item, columns, n_agents, chunk.n_items)


def _sum_by_agent(
    chunk: PairChunk, group: Ids, values_by_side: tuple[Floats, Floats], n_agents: int, n_groups: int
) -> Floats:
    """Sum the values of all trials by agent and group of trials: float array (n_agents, n_groups).

    Each trial has two values. One is added to the sum of its first agent, the other to that of its second agent.

    group : int array (n_trials,), group of each trial, such as its item
    values_by_side : values for the first and for the second agents, two float arrays (n_trials,)
    """
    flat_sums = np.zeros(n_agents * n_groups)
    for agent, value in zip((chunk.first, chunk.second), values_by_side, strict=True):
        flat_index = agent * np.int64(n_groups) + group
        flat_sums += np.bincount(flat_index, value, n_agents * n_groups)
    return flat_sums.reshape(n_agents, n_groups)


def index_pairs(chunk: PairChunk, n_agents: int) -> Positions:
    """Return the index of each trial's ordered pair in a flattened array (n_agents, n_agents): int64 array (n_trials,)."""
    return chunk.first.astype(np.int64) * n_agents + chunk.second


def sum_by_pair(pair: Positions, column: Floats | Bools, n_agents: int) -> Floats:
    """Sum a column (n_trials,) by first agent (row) and second agent (column of the result).

    pair : int64 array (n_trials,), as returned by `index_pairs`
    """
    return np.bincount(pair, column, n_agents**2).reshape(n_agents, n_agents).astype(np.float64, copy=False)


def compute_residuals(first: Ids, second: Ids, group: Ids, answer: Floats, *, ability: Floats) -> Floats:
    """Compute the residuals of answers from the additive model, answer ≈ both agents' effects + the effect of the group.

    The effects of the agents follow from their abilities, which are mean answers.

    Parameters
    ----------
    first, second : int array (n_trials,)
        Positions of the two agents of each trial.
    group : int array (n_trials,)
        Group of trials, numbered from 0, that share an additive effect: the item, or the block of a cyclic plan.
    answer : float array (n_trials,)
        Answers, without NaN.
    ability : float array (n_agents,)
        Abilities (mean answers); NaN for an agent without an estimate, which counts as an agent of mean ability.

    Returns
    -------
    float array (n_trials,)
        Answers minus the effects of both agents, minus the mean of this difference in the group. The residuals of each group sum
        to 0.

    Notes
    -----
    The effect of agent i is (K − 1)/(K − 2)·(θ_i − θ̄) with its ability θ_i and K agents that have an ability. For K = 2, the
    factor is 1.
    """
    K = int((~np.isnan(ability)).sum())
    factor = (K - 1) / max(K - 2, 1)
    agent_effect = np.nan_to_num(factor * (ability - np.nanmean(ability)))
    answer_without_agents = answer - agent_effect[first] - agent_effect[second]

    group_size = np.maximum(np.bincount(group), 1)
    group_effect = np.bincount(group, answer_without_agents) / group_size
    return np.asarray(answer_without_agents - group_effect[group])


_RIDGE = 1e-10


def fit_pair_effects(weight: Floats, total: Floats) -> Floats:
    """Fit additive agent effects to means of pairs by weighted least squares.

    Parameters
    ----------
    weight : float array (n_agents, n_agents)
        Symmetric weights w_ik of the pairs; 0 on the diagonal and for pairs that were not compared.
    total : float array (n_agents,)
        Sums Σ_k w_ik·m_ik, with m_ik the mean of a pair.

    Returns
    -------
    float array (n_agents,)
        Effects a; 0 for an agent without a comparison.

    Notes
    -----
    Minimizes Σ w_ik (m_ik − a_i − a_k)². If several solutions exist, the one of the smallest norm is returned.

    Examples
    --------
    >>> fit_pair_effects(np.ones((3, 3)) - np.eye(3), np.array([0.5, 0.7, 0.8])).round(6)
    array([0. , 0.2, 0.3])
    """
    # Several solutions exist, for example, if two groups of agents were compared only with each other: the effects of one group
    # may then be increased by a constant, and those of the other reduced by it. A small ridge selects the smallest solution.
    normal_matrix = weight + np.diag(weight.sum(axis=1))
    largest_diagonal = float(np.diag(normal_matrix).max(initial=0.0))
    ridge = _RIDGE * max(largest_diagonal, 1.0)
    try:
        cholesky_factor = cho_factor(normal_matrix + ridge * np.eye(len(normal_matrix)), check_finite=False)
        effects = cho_solve(cholesky_factor, total, check_finite=False)
    except LinAlgError:
        effects = np.asarray(np.linalg.lstsq(normal_matrix, total, rcond=None)[0], dtype=np.float64)
    return np.asarray(effects)
