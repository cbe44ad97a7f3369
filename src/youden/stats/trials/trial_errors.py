"""Compute abilities as means of trials, the influence of items on them, and their covariance for each target.

For items like the sampled ones, an item is one draw. Its effect on both agents cancels in their difference, and its
effect on one agent counts once, however many trials the item has.

For exactly these items, whatever a balanced plan averages out is not an error. A cyclic plan uses all items and all ordered pairs
of agents almost equally often, so that the effects of cells (an agent on an item) and of pairs largely cancel in the means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.run_keys import Target
from youden.stats.base.clusters import (
    PRIOR_CLUSTERS,
    ROUNDING,
    CentredCovariance,
    covariance_of_chunks,
    shrink_component,
)
from youden.stats.base.pair_chunks import (
    ChunkSource,
    InfluenceChunk,
    PairChunk,
    compute_residuals,
    index_pairs,
    sum_by_effect_group,
    sum_by_item,
    sum_by_pair,
)
from youden.types.arguments import check_argument
from youden.types.pool import Floats, Ids, Positions, ReadOnly


@dataclass(frozen=True, eq=False)
class InfluenceTable(ReadOnly):
    """Influence of the items on abilities that are weighted means of trials.

    Attributes
    ----------
    ability : float array (n_agents,)
        Abilities, NaN without an estimate.
    influence : float array (n_agents, n_items)
        U_ij = Σ_t w_it·e_t / Σ_t w_it, the first sum over the trials of agent i on item j; 0 without a trial.
    weight : float array (n_agents, n_items)
        Share p_ij of the item in the agent's total weight.
    n_trials : float array (n_agents, n_items)
        Numbers of trials, whole numbers.
    within_item_variance : float array (n_agents,)
        Variance of an agent's residuals within items; NaN if no item has two trials of the agent.
    """

    ability: Floats
    influence: Floats
    weight: Floats
    n_trials: Floats
    within_item_variance: Floats


def compute_item_influence(
    first: Ids,
    second: Ids,
    item: Ids,
    answer: Floats,
    *,
    ability: Floats,
    first_weight: Floats,
    second_weight: Floats,
    n_items: int,
) -> InfluenceTable:
    """Compute the influence of each item on each ability, if abilities are weighted means of trials.

    Parameters
    ----------
    first, second, item : int array (n_trials,)
        Positions of the two agents and of the item of each trial.
    answer : float array (n_trials,)
        Answers, without NaN.
    ability : float array (n_agents,)
        Abilities, estimated linearly from the answers; NaN without an estimate. Trials of an agent without an estimate may be
        included; its ability then counts as the mean of the others.
    first_weight, second_weight : float array (n_trials,)
        Weight of a trial, at least 0, in the ability of its first and of its second agent. The weights are divided by their
        sum for each agent.
    n_items : int
        Number of items.

    Returns
    -------
    InfluenceTable
        Three float arrays (n_agents, n_items), 0 for a cell without a trial: `influence` (sum of normalized weight × residual),
        `weight` (share of the item in the agent's total weight) and `n_trials` (number of trials of positive weight).
        `within_item_variance` (n_agents,) is the variance of each agent's residuals within items, NaN if no item has two trials
        of the agent. `ability` is the given one.

    Raises
    ------
    StatisticsError
        [difference-agents]: if fewer than 3 agents have an ability.

    Notes
    -----
    The residual is e = r − r̄_item with r = y − (K − 1)/(K − 2)·((θ_i − θ̄) + (θ_k − θ̄)), where K agents have an ability. The
    factor is needed because an ability is a mean over the K − 1 others.
    """
    n_agents, K = len(ability), int((~np.isnan(ability)).sum())
    if K < 3:
        raise StatisticsError(
            f"A comparison of two agents needs 3 agents with an ability: got {K}. Add trials of more agents.",
            slug="difference-agents",
        )

    residual = compute_residuals(first, second, item, answer, ability=ability)

    def sum_by_cell(of_first: Floats, of_second: Floats) -> Floats:
        """Sum values (n_trials,) for the first and the second agents by agent and item: float array (n_agents, n_items)."""
        n_cells = n_agents * n_items
        first_cell = first * np.int64(n_items) + item
        second_cell = second * np.int64(n_items) + item
        sums = np.bincount(first_cell, of_first, n_cells) + np.bincount(second_cell, of_second, n_cells)
        return np.asarray(sums, dtype=np.float64).reshape(n_agents, n_items)

    weight = sum_by_cell(first_weight, second_weight)
    total_weight = np.maximum(weight.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    influence = sum_by_cell(first_weight * residual, second_weight * residual) / total_weight

    # sums over the trials that measure an agent: their number, and squares around the mean of each cell, Σe² − (Σe)²/n
    for_first, for_second = first_weight > 0, second_weight > 0
    n_trials = sum_by_cell(for_first.astype(np.float64), for_second.astype(np.float64))
    squares = sum_by_cell(residual**2 * for_first, residual**2 * for_second)
    square_of_sum = sum_by_cell(residual * for_first, residual * for_second) ** 2
    squares -= np.divide(square_of_sum, n_trials, out=np.zeros(n_trials.shape), where=n_trials > 0)
    df = np.maximum(n_trials - 1, 0).sum(axis=1)
    within_variance = np.divide(squares.sum(axis=1), df, out=np.full(n_agents, np.nan), where=df > 0)
    return InfluenceTable(ability, influence, weight / total_weight, n_trials, np.maximum(within_variance, 0))


class RemainingVariance(NamedTuple):
    """Factors by which the two components of a variance change.

    Attributes
    ----------
    agent_item : float array (n,)
        Factor of the agent × item component.
    residual : float array (n,)
        Factor of the residual component.
    """

    agent_item: Floats
    residual: Floats


def remaining_variance(n_blocks: Positions, *, n_current: int, n_items: int) -> RemainingVariance:
    """Compute which fraction of each variance component of an ability remains if a cyclic plan has more blocks.

    Parameters
    ----------
    n_blocks : int array (n,)
        Numbers of blocks of the larger plans, in all.
    n_current : int
        Number of blocks now, at least 1.
    n_items : int
        Number of items, now and in the larger plans.

    Returns
    -------
    RemainingVariance
        `agent_item` and `residual`: the agent × item variance and the residual variance at each number of blocks, float arrays
        (n,), each divided by its value now.

    Notes
    -----
    A cyclic plan assigns its blocks to the J items in turn: the first J blocks are on items 1 to J, the next J blocks again on
    items 1 to J, and so on. In each block, each agent has two trials. With m_j of the S blocks on item j, the agent × item
    component is proportional to Σ_j (m_j/S)², and the residual component to 1/S.

    Examples
    --------
    >>> remaining_variance(np.array([10, 20, 40]), n_current=10, n_items=20)
    RemainingVariance(agent_item=array([1. , 0.5, 0.5]), residual=array([1.  , 0.5 , 0.25]))
    """
    all_n_blocks = np.append(n_current, n_blocks)  # the current number comes first
    blocks_per_item, n_items_with_one_more = np.divmod(all_n_blocks.astype(np.float64), n_items)

    # Σ_j m_j²: the items have blocks_per_item blocks, and some of them one block more
    n_other_items = n_items - n_items_with_one_more
    squares_of_other_items = n_other_items * blocks_per_item**2
    squares_with_one_more = n_items_with_one_more * (blocks_per_item + 1) ** 2
    agent_item = (squares_of_other_items + squares_with_one_more) / all_n_blocks**2.0

    # relative to the current number of blocks
    return RemainingVariance(agent_item=agent_item[1:] / agent_item[0], residual=n_current / n_blocks)


METHODS: dict[Target, str] = {
    "items-like-these": "residuals by item, shrunk variances, Student t",
    "these-items": "residuals by block without what balance averages out, shrunk variances, Student t, finite population",
}
"""Description of the covariance estimator for each inference target."""
METHODS["items-and-judges"] = METHODS["items-like-these"]


class TrialMeans(NamedTuple):
    """Abilities that are mean answers, with their covariance.

    Attributes
    ----------
    ability : float array (n_agents,)
        Mean answers, NaN without a trial.
    weight : float array (n_agents,)
        Numbers of trials.
    covariance : CentredCovariance
        Covariance of the distances from the mean ability; NaN if it cannot be estimated.
    method : str
        Description of the covariance estimator, or the reason why there is none.
    influence_chunks : callable
        Function that iterates over the influence of the items on the means, chunk by chunk, each time it is called.
    """

    ability: Floats
    weight: Floats
    covariance: CentredCovariance
    method: str
    influence_chunks: Callable[[], Iterator[InfluenceChunk]]


def trial_means(chunks: ChunkSource, *, n_agents: int, target: Target) -> TrialMeans:
    """Estimate abilities as mean answers of trials, with their covariance.

    Parameters
    ----------
    chunks : callable
        Function without parameters that returns an iterator over all answers in chunks (`PairChunk`), each time it is called. All
        weights must be 1, and all trials on an item must be in one chunk. If `target` is "these-items", effect groups must be the
        blocks of a cyclic plan, and no block may be divided between chunks.
    n_agents : int
        Number of agents.
    target : {"items-like-these", "these-items", "items-and-judges"}
        Inference target: items like the sampled ones, exactly these items, or items and judges like these. The last one
        has the same covariance over items as the first.

    Returns
    -------
    TrialMeans
        `ability` has the mean answer of each agent, NaN without a trial, and `weight` its number of trials. The `covariance` of
        the means is NaN if fewer than 3 agents have trials in 2 clusters (items or blocks). `method` describes the covariance
        estimator, or states why there is none.

    Raises
    ------
    StatisticsError
        [block-missing]: if `target` is "these-items" and a trial has no block; [trial-agent]: if an agent is not below
        `n_agents`; [trial-target]: if the target is unknown; [trial-chunks]: if `chunks` is not a function.
    ConfigError
        [argument-type]: if `n_agents` is not a whole number.

    Notes
    -----
    For items like these, the covariance is a sandwich estimate, clustered by item, of the influences U_ij = Σ_t
    e_t/n_i. The sum is over the agent's trials on item j, n_i is the number of all its trials, and e = r − r̄_item is the
    residual of the additive model. Unlike `youden.rank`, this function does not subtract false-positive rates.

    Examples
    --------
    >>> first, second, item = np.array([0, 1, 2, 0, 1, 2]), np.array([1, 2, 0, 2, 0, 1]), np.array([0, 0, 0, 1, 1, 1])
    >>> chunk = PairChunk.from_trials(item, first, second, np.array([1.0, 0.0, 0.5, 1.0, 1.0, 0.0]), n_items=2)
    >>> means = trial_means(lambda: [chunk], n_agents=3, target="items-like-these")
    >>> means.ability.tolist(), means.covariance.half_width().round(2).tolist()
    ([0.875, 0.5, 0.375], [0.13, 0.15, 0.13])
    """
    if not callable(chunks):
        raise StatisticsError(
            f"The chunks must be returned by a function: got {type(chunks).__name__}. Pass, for example, `lambda: [chunk]`.",
            slug="trial-chunks",
        )
    check_argument("n_agents", n_agents, Integral, "Pass a whole number.")
    if target not in METHODS:
        raise StatisticsError(
            f"The target is unknown: got '{target}'. Pass one of: {', '.join(METHODS)}.",
            slug="trial-target",
        )

    # sums over all trials
    by_block = target == "these-items"
    n, total, squares = np.zeros((3, n_agents))
    n_clusters = np.zeros(n_agents, dtype=np.int64)
    n_items = 0
    for chunk in chunks():
        _check_agents(chunk, n_agents)
        n_items += chunk.n_items
        n_by_item = sum_by_item(chunk, chunk.weight, n_agents)
        n_by_cluster = sum_by_effect_group(chunk, chunk.weight, n_agents) if by_block else n_by_item
        n += n_by_item.sum(axis=1)
        total += sum_by_item(chunk, chunk.value, n_agents).sum(axis=1)
        squares += (n_by_item**2).sum(axis=1)
        n_clusters += (n_by_cluster > 0).sum(axis=1)
    mean = np.divide(total, n, out=np.full(n_agents, np.nan), where=n > 0)
    n_or_1 = np.maximum(n, 1)
    influence_chunks = partial(_iter_influence_of_means, chunks, mean, n_or_1)

    n_agents_in_2_clusters = (n_clusters >= 2).sum()
    if n_agents_in_2_clusters < 3:
        reason = f"none: fewer than 3 agents have trials in 2 {'blocks' if by_block else 'items'}"
        return TrialMeans(mean, n, unknown_covariance(n_agents), reason, influence_chunks)
    if by_block:
        covariance = covariance_on_these_items(chunks, ability=mean, n_items=n_items)
    else:
        covariance = covariance_of_chunks(
            ((chunk.influence, chunk.weight / n_or_1[:, None]) for chunk in influence_chunks()),
            n_clusters=n_clusters,
            share_squares=squares / n_or_1**2,
            relative_variance=1 / n_or_1,
        )
    return TrialMeans(mean, n, covariance, METHODS[target], influence_chunks)


def _check_agents(chunk: PairChunk, n_agents: int) -> None:
    """Raise StatisticsError [trial-agent] unless all agents are positions below `n_agents`."""
    for side in (chunk.first, chunk.second):
        if len(side) and not 0 <= side.min() <= side.max() < n_agents:
            raise StatisticsError(
                f"Agents must be positions below n_agents: got {side.min()} to {side.max()} for {n_agents} agents. "
                "Pass the number of agents that the trials were drawn for.",
                slug="trial-agent",
            )


def unknown_covariance(n_agents: int) -> CentredCovariance:
    """Return a covariance that is NaN for all agents.

    Parameters
    ----------
    n_agents : int
        Number of agents.

    Returns
    -------
    CentredCovariance
        All entries and degrees of freedom are NaN.
    """
    return CentredCovariance(np.full((n_agents, n_agents), np.nan), np.full(n_agents, np.nan))


def _iter_influence_of_means(chunks: ChunkSource, mean_answer: Floats, n_trials: Floats) -> Iterator[InfluenceChunk]:
    """Yield, for each chunk of trials, the influence of its items on the agents' mean answers, and the numbers of trials.

    The influence of an item on an agent's mean answer is Σe/n: the sum of the residuals e of the agent's trials on the item,
    divided by the number n of all its trials.

    chunks : function that yields the trials in chunks of items at each call; all weights are 1
    mean_answer : float array (n_agents,), mean answer to the trials of each agent
    n_trials : float array (n_agents,), number of these trials, at least 1
    """
    n_agents = len(mean_answer)
    for chunk in chunks():
        residual = compute_residuals(chunk.first, chunk.second, chunk.item, chunk.value, ability=mean_answer)
        influence = sum_by_item(chunk, residual, n_agents) / n_trials[:, None]
        n_trials_on_item = sum_by_item(chunk, chunk.weight, n_agents)
        yield InfluenceChunk(influence, direct_influence=influence, weight=n_trials_on_item)


_MIN_PAIR_PRODUCTS = 2
"""Smallest number per agent of products of two residuals of one ordered pair from which a pair component is estimated."""


def covariance_on_these_items(chunks: ChunkSource, *, ability: Floats, n_items: int) -> CentredCovariance:
    """Estimate the covariance of mean answers for exactly the sampled items.

    chunks : function that iterates over all answers in chunks at each call. All weights must be 1, and effect groups must
        be the blocks of a cyclic plan; neither is checked. A block is a set of trials on one item, in which each agent
        appears once first and once second; it may not be divided between chunks.
    ability : float array (n_agents,), mean answers, NaN without a trial
    n_items : number J of items of the plan

    Returns the covariance of the distances from the mean, NaN for an agent in fewer than 2 blocks. Raises StatisticsError
    [block-missing] if a trial has no block, [cluster-agents] if fewer than 2 agents are in 2 blocks.

    The correlations come from the estimate clustered by block. Its variances v_i are replaced by what the plan does not average
    out:

    f_i·(τ²_i − σ²c_i − σ²g_i)/n_i + σ²c_i·Σ_j (w_ij − 1/J)² + σ²g_i·(Σ_p w_ip² − 1/P),

    at least f_i·v_i/4 and at most v_i. Agent i of K agents has n_i trials, with shares w_ij on the J items and w_ip
    with its P = 2(K − 1) ordered pairs. The terms are:

    - f_i = 1 − n_i/(PJ + 1), the finite population correction.
    - τ²_i, the mean square of i's residuals, shrunk in the same way as v_i.
    - σ²c_i, the variance of an agent's effect on an item: mean product of i's two residuals in a block, plus the part
      that is lost because residuals are measured from the mean of the block.
    - σ²g_i, the variance of the effect of an ordered pair of agents: mean product of two residuals of one ordered pair
      of i on different items. It is 0 if there are fewer than 2K such products; the effects of pairs then count as
      residual variance.

    Both components are shrunk towards τ²_i/τ̄² times their average. If no block contains an agent twice, the variance is f_i·v_i.
    """
    # v_i, the variances clustered by block
    sums = _BlockSums(ability)
    for chunk in chunks():
        sums.add(chunk)
    n_trials = np.maximum(sums.n_trials, 1)
    by_block = covariance_of_chunks(
        sums.iter_influence(chunks()),
        n_clusters=sums.n_blocks,
        share_squares=sums.block_squares / n_trials**2,
        relative_variance=1 / n_trials,
    )
    block_variance = np.diag(by_block.covariance)

    # f_i
    n_partners = max(int((sums.n_trials > 0).sum()) - 1, 1)
    n_pairs = 2 * n_partners
    fpc = np.maximum(0.0, 1 - n_trials / (n_pairs * n_items + 1))

    # τ²_i, σ²c_i and σ²g_i
    trial_variance = _shrink_trial_variance(sums.residual_squares / n_trials, df=by_block.df)
    relative_variance = trial_variance / max(float(np.nanmean(trial_variance)), ROUNDING)
    components = sums.estimate_components(relative_variance)
    if components is None:
        return by_block.with_scaled_variances(fpc)
    cell_variance, pair_variance = components

    # Σ_j (w_ij − 1/J)² and Σ_p w_ip² − 1/P, which are 0 in a balanced plan
    item_imbalance = sums.item_squares / n_trials**2 - 1 / n_items
    squared_counts = sums.n_by_pair**2
    pair_squares = squared_counts.sum(axis=1) + squared_counts.sum(axis=0)  # as the first and as the second agent
    pair_imbalance = np.maximum(pair_squares / n_trials**2 - 1 / n_pairs, 0)

    residual_part = fpc * (trial_variance - cell_variance - pair_variance) / n_trials
    remaining = residual_part + cell_variance * item_imbalance + pair_variance * pair_imbalance
    return by_block.with_scaled_variances(np.clip(remaining / block_variance, fpc / 4, 1))


class _BlockSums:
    """Sums over trials from which the variance components for exactly these items are estimated.

    Make it from the abilities, call `add` once for each chunk, and only then `iter_influence` and `estimate_components`. The
    residual of a trial is its answer minus the effects of both agents, minus the mean of this difference in the block.

    Attributes
    ----------
    n_trials, residual_squares : float array (n_agents,)
        Number of each agent's trials, and the sum of their squared residuals.
    n_blocks : int64 array (n_agents,)
        Number of blocks with a trial of the agent.
    block_squares, item_squares : float array (n_agents,)
        Sum over blocks (over items) of the square of the agent's number of trials in the block (on the item).
    residual_products, n_products : float array (n_agents,)
        Sum and number of the products of an agent's two residuals in one block.
    n_by_pair, sum_by_pair, squares_by_pair : float array (n_agents, n_agents)
        Number of trials, sum of residuals, and sum of squared residuals of each ordered pair of agents.
    """

    def __init__(self, ability: Floats) -> None:
        n_agents = len(ability)
        self._ability = ability
        self.n_trials, self.residual_squares, self.block_squares, self.item_squares = np.zeros((4, n_agents))
        self.n_blocks = np.zeros(n_agents, dtype=np.int64)
        self.residual_products, self.n_products = np.zeros((2, n_agents))
        self.n_by_pair, self.sum_by_pair, self.squares_by_pair = np.zeros((3, n_agents, n_agents))
        self._sum_of_inverse_sizes, self._n_all_blocks = 0.0, 0  # Σ 1/m over blocks of m trials, and number of blocks

    def add(self, chunk: PairChunk) -> None:
        """Add the trials of a chunk to all sums, in place.

        chunk : trials with their blocks, as the attribute `effect_group`; all trials of a block must be in the same chunk

        Raises StatisticsError [block-missing] if `effect_group` is None.
        """
        if chunk.effect_group is None:
            raise StatisticsError(
                f"Trials must belong to blocks: got {len(chunk.value)} trials without one. Set the target items-like-these.",
                slug="block-missing",
            )
        residual = self._residuals(chunk)
        self._add_numbers_of_trials(chunk)
        self._add_residuals_by_agent(chunk, residual)
        self._add_residuals_by_pair(chunk, residual)

        # Σ 1/m over blocks of m trials. Subtracting the mean of the block lowers a product of two residuals by variance/m.
        block_size = np.bincount(chunk.effect_group)
        self._sum_of_inverse_sizes += float((1 / block_size).sum())
        self._n_all_blocks += len(block_size)

    def _add_numbers_of_trials(self, chunk: PairChunk) -> None:
        """Count the trials of each agent in each block and on each item, and add the counts to the sums, in place.

        The squared counts are also added. They measure how evenly an agent's trials are distributed over blocks and items. The
        counts in blocks also give the number of products of two residuals in one block. Blocks are the effect groups of the
        chunk.
        """
        n_agents = len(self.n_trials)
        ones = np.ones(len(chunk.value))
        n_by_block = sum_by_effect_group(chunk, ones, n_agents)  # by agent (row) and block (column)
        n_by_item = sum_by_item(chunk, ones, n_agents)
        self.n_trials += n_by_block.sum(axis=1)
        self.n_blocks += (n_by_block > 0).sum(axis=1)
        self.block_squares += (n_by_block**2).sum(axis=1)
        self.item_squares += (n_by_item**2).sum(axis=1)

        # n trials in a block have n(n − 1)/2 products of two residuals
        twice_n_products = n_by_block * (n_by_block - 1)
        self.n_products += twice_n_products.sum(axis=1) / 2

    def _add_residuals_by_agent(self, chunk: PairChunk, residual: Floats) -> None:
        """Add the squared residuals of each agent, and the product of its two residuals in each block, to the sums, in place.

        In a block, an agent has at most two trials. With a single trial, it has no product, which counts as 0.

        residual : float array (n_trials,), residual of each trial of `chunk`, whose effect groups are blocks
        """
        # sums by agent (row) and block (column)
        n_agents = len(self.n_trials)
        squares_by_block = sum_by_effect_group(chunk, residual**2, n_agents)
        sum_by_block = sum_by_effect_group(chunk, residual, n_agents)
        self.residual_squares += squares_by_block.sum(axis=1)

        # the product of two residuals follows from these sums: 2·e₁·e₂ = (e₁ + e₂)² − (e₁² + e₂²)
        twice_product = sum_by_block**2 - squares_by_block
        self.residual_products += twice_product.sum(axis=1) / 2

    def _add_residuals_by_pair(self, chunk: PairChunk, residual: Floats) -> None:
        """Add number, sum and sum of squares of the residuals, float array (n_trials,), of each ordered pair of agents."""
        n_agents = len(self.n_trials)
        pair = index_pairs(chunk, n_agents)
        self.n_by_pair += sum_by_pair(pair, np.ones(len(residual)), n_agents)
        self.sum_by_pair += sum_by_pair(pair, residual, n_agents)
        self.squares_by_pair += sum_by_pair(pair, residual**2, n_agents)

    def iter_influence(self, chunks: Iterable[PairChunk]) -> Iterator[tuple[Floats, Floats]]:
        """Yield, for each chunk, the influence of each block on each ability, and the share of the agent's trials in the block.

        The influence of a block on an ability is Σe/n: the sum of the agent's residuals e in the block, divided by the number n
        of all its trials.

        chunks : chunks that were all passed to `add` before, because the numbers of all trials are needed

        Yields two float arrays (n_agents, n_chunk_blocks).
        """
        n_agents = len(self.n_trials)
        n_trials = np.maximum(self.n_trials, 1)[:, None]
        for chunk in chunks:
            residual_sum_in_block = sum_by_effect_group(chunk, self._residuals(chunk), n_agents)
            n_trials_in_block = sum_by_effect_group(chunk, np.ones(len(chunk.value)), n_agents)
            yield residual_sum_in_block / n_trials, n_trials_in_block / n_trials

    def _residuals(self, chunk: PairChunk) -> Floats:
        """Compute residuals of the additive model, which subtracts agent effects and block means: float array (n_trials,)."""
        return compute_residuals(chunk.first, chunk.second, chunk.effect_groups, chunk.value, ability=self._ability)

    def estimate_components(self, relative_variance: Floats) -> tuple[Floats, Floats] | None:
        """Estimate two variances of each agent: between its effects on items, and between its effects with different partners.

        Two residuals that share an effect have a mean product equal to its variance. The item variance is estimated from an
        agent's two residuals in a block, the partner variance from residuals of one ordered pair of agents. Both are shrunk
        towards the estimate from all agents, times the agent's relative variance.

        relative_variance : float array (n_agents,), residual variance of each agent divided by the mean over agents

        Returns the two variances, float arrays (n_agents,), or None if no agent appears twice in a block. The partner variance
        is 0 if there are too few products.
        """
        if not self.n_products.any():
            return None

        # Subtracting the mean of a block of m trials from its residuals makes their products too small by variance/m. The mean
        # of variance/m over all blocks is therefore added to each product.
        residual_variance = self.squares_by_pair.sum() / self.n_by_pair.sum()
        correction = float(residual_variance * self._sum_of_inverse_sizes / self._n_all_blocks)
        item_variance = shrink_component(
            self.residual_products, self.n_products, relative_variance, correction=correction
        )
        partner_variance = self._estimate_partner_variance(relative_variance)
        return item_variance, partner_variance

    def _estimate_partner_variance(self, relative_variance: Floats) -> Floats:
        """Estimate how much each agent's answers vary between its partners, the agents with which it is compared.

        Two residuals of one ordered pair of agents share the effect of this pair. Their mean product therefore estimates the
        variance of the effects. It is shrunk towards the estimate from all agents, times the agent's relative variance.

        relative_variance : float array (n_agents,), residual variance of each agent divided by the mean over agents

        Returns a float array (n_agents,), 0 for all agents if there are too few products.
        """
        # sum and number of the products of two residuals of each ordered pair: Σ_{s<t} e_s·e_t = ((Σe)² − Σe²)/2
        product_sum = (self.sum_by_pair**2 - self.squares_by_pair) / 2
        n_products = self.n_by_pair * (self.n_by_pair - 1) / 2
        if n_products.sum() < _MIN_PAIR_PRODUCTS * len(self.n_trials):
            return np.zeros(len(self.n_trials))

        # add the pairs in which an agent is the second one (sum over rows) and the first one (sum over columns)
        agent_product_sum = product_sum.sum(axis=0) + product_sum.sum(axis=1)
        n_agent_products = n_products.sum(axis=0) + n_products.sum(axis=1)
        return shrink_component(agent_product_sum, n_agent_products, relative_variance)


def _shrink_trial_variance(mean_square: Floats, *, df: Floats) -> Floats:
    """Shrink the residual variances of agents towards their mean, which has the weight of `PRIOR_CLUSTERS` blocks.

    mean_square : float array (n_agents,), mean squared residuals
    df : float array (n_agents,), degrees of freedom of the variances clustered by block, which are shrunk in the same way

    Returns a float array (n_agents,); NaN stays.
    """
    n_blocks = df - PRIOR_CLUSTERS + 1  # the prior counts as PRIOR_CLUSTERS degrees of freedom
    variance = mean_square * n_blocks / (n_blocks - 1)
    return np.asarray((variance * (n_blocks - 1) + PRIOR_CLUSTERS * np.nanmean(variance)) / df)
