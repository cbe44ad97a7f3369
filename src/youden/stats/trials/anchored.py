"""Link added agents to the scale of the first agents, the anchors, and estimate the drift of agents and judge.

The abilities of anchors stay as they are. The effects of items and partners are subtracted from the answers to added
agents, as far as the anchors' own trials determine them. What remains undetermined is the linking error. Drift is the
mean residual of new answers from the earlier estimates, with the errors of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from scipy.special import ndtr, stdtr

from youden.stats.base.pair_chunks import ChunkSource, PairChunk, check_trials, sum_by_effect_group, sum_by_pair
from youden.stats.trials.comparisons import holm
from youden.types.pool import Floats, Ids, Positions, ReadOnly

_PRIOR_BLOCKS = 6
"""Weight of the anchors' residual variance when an agent's variance is shrunk towards it, in blocks."""


class LinkingChunk(NamedTuple):
    """Answers to anchor trials on some items.

    There is one row for each trial and each agent that the trial measures.

    Attributes
    ----------
    item : int array (n_rows,)
        Item of a trial, numbered from 0 within the chunk.
    agent : int array (n_rows,)
        Agent that is measured.
    partner : int array (n_rows,)
        Partner in the trial, an anchor.
    block : int array (n_rows,)
        Block of the trial; no block is divided between chunks.
    answer : float array (n_rows,)
        Answers, without NaN.
    n_items : int
        Number of items of the chunk.
    """

    item: Ids
    agent: Ids
    partner: Ids
    block: Ids
    answer: Floats
    n_items: int


LinkingChunkSource = Callable[[], Iterable[LinkingChunk]]
"""A function that iterates over all chunks, in the order of items, each time it is called."""


class _HasItems(Protocol):
    @property
    def n_items(self) -> int: ...


C = TypeVar("C", bound=_HasItems)


def _iter_chunks_with_items(chunks: Iterable[C]) -> Iterator[tuple[slice, C]]:
    """Yield each chunk with the slice of its items."""
    start = 0
    for chunk in chunks:
        yield slice(start, start + chunk.n_items), chunk
        start += chunk.n_items


class AnchorScale:
    """Effects of anchors and items, to which other agents are linked.

    The answer of agents i and k on item j is center + effect_i + effect_k + item_effect_j + noise.

    Attributes
    ----------
    center, center_variance : float
        Mean ability of the anchors, and its variance.
    effect, effect_variance : float array (n_anchors,)
        Effects of the anchors, 0 for an anchor without an ability, and their variances.
    item_effect, item_effect_variance : float array (n_items,)
        Effects of the items, which are shrunk values of `item_residual`, and their variances.
    item_residual, item_share : float array (n_items,)
        Mean residual of each item, and share of the item in all trials.
    residual_variance : float
        Variance of an answer, given agents and item.
    cell_variance : float
        Covariance of two answers of an agent in one block.
    pair_variance : float
        Covariance of two answers to one pair of agents.

    Notes
    -----
    An ability θ_i is a mean over the K − 1 other anchors of K, so its effect is (K − 1)/(K − 2)·(θ_i − θ̄). The effect
    of item j is the mean residual of its n_j trials times σ²_b/(σ²_b + σ²/n_j), with moment estimates of σ²_b between
    items and σ² of an answer.
    """

    def __init__(self, chunks: ChunkSource, *, ability: Floats, std_error: Floats, n_items: int) -> None:
        """Fit the scale to the anchors' answers in complete blocks.

        Parameters
        ----------
        chunks : callable
            Function that iterates over the answers in chunks, each time it is called. A complete block is a set of trials on
            one item in which each anchor appears once first and once second.
        ability, std_error : float array (n_anchors,)
            Abilities and their standard errors.
        n_items : int
            Number of items.
        """
        n_anchors = len(ability)
        scale = effect_scale(n_anchors)
        self.center = float(np.nanmean(ability))
        self.effect = np.nan_to_num((ability - self.center) / scale)
        self.effect_variance: Floats = (np.nan_to_num(std_error) / scale) ** 2
        n_trials = self._fit_items(chunks, n_items)

        # Both agents add the cell variance to a trial. It counts twice, as an agent's two answers in a block share it.
        self.cell_variance, self.pair_variance = self._estimate_shared_variances(chunks)
        fpc = float(_compute_item_fpc((self.item_share**2).sum(), n_items))
        trial_variance = self.residual_variance - 2 * self.cell_variance + 4 * self.cell_variance * fpc
        self.center_variance = trial_variance / max(n_trials, 1)

    def _fit_items(self, chunks: ChunkSource, n_items: int) -> int:
        """Estimate the effects of items from the residuals of answers that compare anchors, the agents that define the scale.

        The results are stored in the attributes `item_…` and in `residual_variance`.

        chunks : function that yields the answers in chunks of items at each call
        n_items : number of items of the run

        Returns the number of trials.
        """
        n_by_item, item_mean, squares_within = self._summarize_residuals_by_item(chunks, n_items)
        n_trials = int(n_by_item.sum())
        n_items_with_trials = np.count_nonzero(n_by_item)

        # the variance σ² of an answer given its item, and the variance σ²_b between the effects of items
        df = n_trials - n_items_with_trials - len(self.effect)
        self.residual_variance = between_variance = 0.0
        if df > 0:
            self.residual_variance = squares_within / df
            between_variance = _estimate_effect_variance(item_mean, n_by_item, self.residual_variance)

        # reliability of the mean of n residuals: σ²_b/(σ²_b + σ²/n) = n·σ²_b/(n·σ²_b + σ²)
        n_times_between = between_variance * n_by_item.astype(np.float64)
        reliability = _divide_or_0(n_times_between, n_times_between + self.residual_variance)

        # the effect of an item is its mean residual, shrunk towards 0
        self.item_residual = item_mean
        self.item_share = n_by_item / max(n_trials, 1)
        self.item_effect: Floats = reliability * item_mean
        self.item_effect_variance: Floats = between_variance * (1 - reliability)
        return n_trials

    def _compute_residuals(self, chunk: PairChunk) -> Floats:
        """Subtract the center and the effects of both agents from answers: float array (n_trials,)."""
        return np.asarray(chunk.value - self.center - self.effect[chunk.first] - self.effect[chunk.second])

    def _summarize_residuals_by_item(self, chunks: ChunkSource, n_items: int) -> tuple[Positions, Floats, float]:
        """Compute the number and the mean of the residuals of each item, and their variation within items.

        A trial compares two anchors, the agents that define the scale. Its residual is the answer minus the value that is
        expected from the effects of these two agents.

        chunks : function that yields the answers in chunks of items at each call
        n_items : number of items of the run

        Returns numbers and means, arrays (n_items,), and the sum of the squared deviations of the residuals from these means.
        """
        n_by_item = np.zeros(n_items, dtype=np.int64)
        item_mean = np.zeros(n_items)
        squares_within = 0.0
        for items, chunk in _iter_chunks_with_items(chunks()):
            residual = self._compute_residuals(chunk)
            n_trials = np.bincount(chunk.item, minlength=chunk.n_items)
            mean = np.bincount(chunk.item, residual, chunk.n_items) / np.maximum(n_trials, 1)
            squares_within += float(((residual - mean[chunk.item]) ** 2).sum())
            n_by_item[items] = n_trials
            item_mean[items] = mean
        return n_by_item, item_mean, squares_within

    def _estimate_shared_variances(self, chunks: ChunkSource) -> tuple[float, float]:
        """Estimate two covariances: of an agent's answers on one item, and of answers that compare the same two agents.

        The first one, the cell variance, is estimated from blocks: trials on one item, in which each agent appears twice. The
        second one is called the pair variance.

        chunks : function that yields the anchors' answers in chunks of items at each call

        Returns the cell variance, 0 without blocks, and the pair variance, both at least 0.
        """
        n_anchors = len(self.effect)
        sums_by_pair = np.zeros((3, n_anchors, n_anchors))  # number, sum and sum of squares of residuals
        block_products = np.zeros(2)  # sum and number of the products of an agent's two residuals in one block
        for items, chunk in _iter_chunks_with_items(chunks()):
            residual = self._compute_residuals(chunk) - self.item_effect[items][chunk.item]
            sums_by_pair += _sum_residuals_by_pair(chunk, residual, n_anchors)
            if chunk.effect_group is not None:
                block_products += _sum_products_in_blocks(chunk, residual, n_anchors)
        pair_variance = _estimate_pair_variance(*sums_by_pair)

        # The variance of a residual contains the cell variances of both agents. Together, they are limited to half of it.
        product_sum, n_products = block_products.tolist()
        mean_product = product_sum / max(n_products, 1)
        cell_variance = min(max(0.0, mean_product), self.residual_variance / 4)
        return cell_variance, pair_variance


def _divide_or_0(numerator: Floats, denominator: Floats) -> Floats:
    """Divide two arrays of one shape; the result is 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator != 0)


def _sum_products_in_blocks(chunk: PairChunk, residual: Floats, n_anchors: int) -> Floats:
    """Multiply the two residuals of each agent in each block of trials, and sum the products.

    All agents are anchors, those that define the scale. An anchor has at most two trials in a block. With a single trial in a
    block, it has no product there.

    chunk : trials between anchors; `effect_group` is the block of each trial
    residual : float array (n_trials,), residual of each trial
    n_anchors : number of anchors

    Returns the sum and the number of the products, float array (2,).
    """
    # sums of the residuals of each anchor in each block
    n_residuals = sum_by_effect_group(chunk, np.ones(len(residual)), n_anchors)
    residual_sum = sum_by_effect_group(chunk, residual, n_anchors)
    sum_of_squares = sum_by_effect_group(chunk, residual**2, n_anchors)

    # the product of two residuals follows from these sums: 2·e₁·e₂ = (e₁ + e₂)² − (e₁² + e₂²)
    twice_product = residual_sum**2 - sum_of_squares
    has_two = n_residuals == 2
    product_sum = twice_product[has_two].sum() / 2
    return np.array([product_sum, has_two.sum()])


def _sum_residuals_by_pair(chunk: PairChunk, residual: Floats, n_anchors: int) -> Floats:
    """Compute number, sum and sum of squares of the residuals of each unordered pair of agents, all of them anchors.

    chunk : trials that compare two anchors
    residual : float array (n_trials,), residual of each trial
    n_anchors : number of anchors

    Returns a float array (3, n_anchors, n_anchors), in which a pair is the entry above the diagonal.
    """
    lower = np.minimum(chunk.first, chunk.second).astype(np.int64)
    higher = np.maximum(chunk.first, chunk.second)
    pair = lower * n_anchors + higher  # index in a flattened matrix

    powers = (np.ones(len(pair)), residual, residual**2)
    return np.array([sum_by_pair(pair, power, n_anchors) for power in powers])


def _compute_item_fpc(share_squares: Floats, n_items: int) -> Floats:
    """Compute the finite population correction of the variance of items, Σ_j (w_j − 1/J)² / Σ_j w_j².

    share_squares : float array (...), the sums Σ_j w_j² of the shares w_j of all J items

    Returns an array of the same shape.
    """
    imbalance = np.maximum(share_squares - 1 / n_items, 0)
    ones = np.ones_like(share_squares)
    return np.asarray(np.divide(imbalance, share_squares, out=ones, where=share_squares > 0), dtype=np.float64)


def _estimate_pair_variance(n_residuals: Floats, residual_sum: Floats, sum_of_squares: Floats) -> float:
    """Estimate the variance of the effects of pairs of agents.

    The effect of a pair is the expected residual of the trials that compare its two agents. Its mean over all pairs is 0.

    n_residuals, residual_sum, sum_of_squares : float arrays (n_anchors, n_anchors), number, sum and sum of squares of the
        residuals of each unordered pair, above the diagonal

    Returns a variance of at least 0; 0 if no pair has two residuals.
    """
    is_compared = n_residuals > 0
    n_of_pair = n_residuals[is_compared]
    mean = residual_sum[is_compared] / n_of_pair
    df_within = n_of_pair.sum() - len(n_of_pair)
    if df_within < 1:
        return 0.0

    # variance of the residuals of one pair, from Σ(e − ē)² = Σe² − n·ē²
    squared_deviations = sum_of_squares[is_compared] - n_of_pair * mean**2
    variance_within = float(squared_deviations.sum()) / df_within
    return _estimate_effect_variance(mean, n_of_pair, variance_within)


def _estimate_effect_variance(mean: Floats, n: Floats | Positions, residual_variance: float) -> float:
    """Estimate the variance of the effects of items or pairs, whose mean is 0, from the means of their residuals.

    mean, n : arrays (n_effects,), mean and number of the residuals of each item or pair; an effect with n = 0 is left out
    residual_variance : variance of the residuals of one item or pair

    Returns a variance of at least 0.
    """
    # on average, the square of the mean of n residuals exceeds the squared effect by residual_variance/n
    is_observed = n > 0
    squared_effect = mean[is_observed] ** 2 - residual_variance / n[is_observed]
    return max(0.0, float(squared_effect.mean()))


def effect_scale(n_anchors: int) -> float:
    """Return the ability per unit of effect, which is below 1 because an agent is not its own partner.

    Parameters
    ----------
    n_anchors : int
        Number of agents over which abilities are means, at least 3.

    Returns
    -------
    float
        (n_anchors − 2)/(n_anchors − 1).
    """
    return (n_anchors - 2) / (n_anchors - 1)


class LinkedEffects:
    """Effects of agents on the anchors' scale, from their anchor trials.

    Attributes
    ----------
    effect : float array (n_agents,)
        Effects, NaN without an answer.
    variance : float array (n_agents,)
        Variances, which include the linking variance; NaN with answers in fewer than 2 blocks.
    linking_variance : float array (n_agents,)
        Variance of the linking error alone; NaN without an answer.
    partner_share : float array (n_agents, n_anchors)
        Share of each anchor among the partners of an agent.
    n_trials, n_blocks : int32 array (n_agents,)
        Numbers of trials and of blocks.

    Notes
    -----
    With r = y − center − effect_partner − item_effect, the effect is the mean of r over the agent's n trials. E_s is
    the sum of r − mean over the trials in block s of S blocks. The variance of a trial, u = S/(S − 1)·ΣE²/n, is shrunk
    towards the anchors' residual variance, which has the weight of 6 blocks. The variance of the effect is
    u/n·(1 − n/(2JK)) + linking variance, for J items and K anchors. The factor of u/n, a finite population correction, is smaller
    if answers of an agent in one block correlate. It is 1 if inference is for items like these.

    The linking variance is Σ_j (p_ij − q_j)²·var(item_effect_j) + Σ_k (p_ik − 1/K)²·var(effect_k), plus var(center) for agents
    that are no anchors. p_ij and p_ik are the agent's shares of item j and anchor k, and q_j is the anchors' share of item j.
    """

    def __init__(self, chunks: LinkingChunkSource, *, scale: AnchorScale, n_agents: int, finite: bool = True) -> None:
        """Link agents to a scale.

        Parameters
        ----------
        chunks : callable
            Function that iterates over the anchor trials in chunks, each time it is called.
        scale : AnchorScale
            Scale of the anchors, which are the first of all agents.
        n_agents : int
            Number of all agents.
        finite : bool, default True
            Whether variances are for exactly these items; else they are for items like these.
        """
        n_anchors = len(scale.effect)

        # first pass over the trials: the mean residual of each agent, and its partners
        n_trials, residual_sum = np.zeros((2, n_agents))
        n_with_partner = np.zeros((n_agents, n_anchors))
        for items, chunk in _iter_chunks_with_items(chunks()):
            check_trials(chunk.item, chunk.agent, chunk.partner, chunk.block, answer=chunk.answer)
            residual = _compute_linking_residuals(chunk, items, scale)
            n_trials += np.bincount(chunk.agent, minlength=n_agents)
            residual_sum += np.bincount(chunk.agent, residual, n_agents)
            n_with_partner += _count_by_agent(chunk.agent, chunk.partner, n_agents, n_anchors)
        has_trials = n_trials > 0
        self.effect = np.divide(residual_sum, n_trials, out=np.full(n_agents, np.nan), where=has_trials)
        self.partner_share: Floats = n_with_partner / np.maximum(n_trials, 1)[:, None]

        # second pass: the variance of the mean residual
        sums = _sum_blocks_and_items(chunks, scale, self.effect, n_trials)
        variance = _estimate_variance_of_mean(sums, n_trials, prior_variance=scale.residual_variance)
        if finite:
            variance *= _compute_trial_fpc(sums, n_trials, scale)

        # linking variance: of the effects of items, of partners, and of the center
        share_difference = self.partner_share - 1 / n_anchors
        linking_variance = sums.item_linking_variance + share_difference**2 @ scale.effect_variance
        linking_variance[n_anchors:] += scale.center_variance
        self.linking_variance = np.where(has_trials, linking_variance, np.nan)

        self.variance: Floats = variance + self.linking_variance
        self.n_trials, self.n_blocks = n_trials.astype(np.int32), sums.n_blocks.astype(np.int32)


class _BlockAndItemSums(NamedTuple):
    """Sums over the blocks and the items of each agent that is linked to the scale of the anchors.

    Attributes
    ----------
    squares : float array (n_agents,)
        Σ_s E_s², with E_s the sum of the agent's residuals in block s.
    n_blocks : float array (n_agents,)
        Number of blocks.
    item_linking_variance : float array (n_agents,)
        Σ_j (p_ij − q_j)²·var(item_effect_j); item j has the share p_ij of the agent's trials and q_j of the anchors' trials.
    share_squares : float array (n_agents,)
        Σ_j p_ij².
    """

    squares: Floats
    n_blocks: Floats
    item_linking_variance: Floats
    share_squares: Floats


def _sum_blocks_and_items(
    chunks: LinkingChunkSource, scale: AnchorScale, effect: Floats, n_trials: Floats
) -> _BlockAndItemSums:
    """Compute sums over the blocks and items of each agent, from which the variance of its effect is estimated.

    Each agent is compared with anchors, agents that define a fixed scale. Its effect is the mean of its answers, minus the
    effects of the items and of the anchors.

    chunks : function that yields the trials of linked agents in chunks of items at each call
    scale : scale of the anchors, with the effects of the items
    effect, n_trials : float arrays (n_agents,), effect of each agent on this scale, and number of its trials
    """
    n_agents = len(n_trials)
    block_sums = np.zeros((2, n_agents))  # sums of squares, and numbers of blocks
    item_linking_variance, share_squares = np.zeros((2, n_agents))
    for items, chunk in _iter_chunks_with_items(chunks()):
        residual = _compute_linking_residuals(chunk, items, scale) - effect[chunk.agent]
        block_sums += _sum_squares_over_blocks(chunk, residual, n_agents)

        # Item j has the share p_ij of the trials of agent i, and q_j of the anchors' trials. Errors of item effects thus add the
        # variance Σ_j (p_ij − q_j)²·var(item_effect_j).
        n_trials_on_item = _count_by_agent(chunk.agent, chunk.item, n_agents, chunk.n_items)
        item_share = n_trials_on_item / np.maximum(n_trials, 1)[:, None]
        share_difference = item_share - scale.item_share[items]
        item_linking_variance += share_difference**2 @ scale.item_effect_variance[items]
        share_squares += (item_share**2).sum(axis=1)
    squares, n_blocks = block_sums
    return _BlockAndItemSums(squares, n_blocks, item_linking_variance, share_squares)


def _sum_squares_over_blocks(chunk: LinkingChunk, residual: Floats, n_agents: int) -> Floats:
    """Sum the residuals of each agent in each of its blocks, and sum the squares of these sums over the blocks.

    A block contains trials on one item, whose answers may correlate.

    residual : float array (n_rows,), residual of each row of the chunk

    Returns the sum of squares and the number of blocks of each agent, float array (2, n_agents).
    """
    code = chunk.block.astype(np.int64) * n_agents + chunk.agent  # of a combination of block and agent
    distinct_codes, index = np.unique(code, return_inverse=True)
    residual_sum = np.bincount(index, residual)

    agent = distinct_codes % n_agents
    squares = np.bincount(agent, residual_sum**2, n_agents)
    n_blocks = np.bincount(agent, minlength=n_agents)
    return np.array([squares, n_blocks], dtype=np.float64)


def _estimate_variance_of_mean(sums: _BlockAndItemSums, n_trials: Floats, *, prior_variance: float) -> Floats:
    """Estimate the variance of each agent's mean residual from the sums of its residuals in blocks.

    A block is a set of trials on one item. The variance of a trial is shrunk towards a prior variance, which has the weight of
    `_PRIOR_BLOCKS` blocks.

    n_trials : float array (n_agents,), number of trials of each agent

    Returns a float array (n_agents,), NaN for an agent with trials in fewer than 2 blocks.
    """
    is_estimated = sums.n_blocks >= 2
    n_blocks = sums.n_blocks[is_estimated]
    n_own_trials = n_trials[is_estimated]

    # variance of a trial from the sums E_s of the residuals of n trials in S blocks: S/(S − 1)·Σ E_s²/n
    df = n_blocks - 1
    trial_variance = sums.squares[is_estimated] / n_own_trials * n_blocks / df
    shrunk_variance = (trial_variance * df + _PRIOR_BLOCKS * prior_variance) / (df + _PRIOR_BLOCKS)

    variance = np.full(len(n_trials), np.nan)
    variance[is_estimated] = shrunk_variance / n_own_trials
    return variance


def _compute_trial_fpc(sums: _BlockAndItemSums, n_trials: Floats, scale: AnchorScale) -> Floats:
    """Compute the finite population correction of each agent, by which its variance is multiplied.

    With the correction, the variance is valid for exactly these items. The factor falls from 1 to 0 as the agent gets more of
    its possible trials: with each anchor (a reference agent) on each item in both orders. The factor for the number of trials is
    multiplied by a factor for the share of the variance that is due to the items.

    n_trials : float array (n_agents,), number of trials of each agent with anchors

    Returns a float array (n_agents,).
    """
    n_items, n_anchors = len(scale.item_effect), len(scale.effect)
    n_possible_trials = 2 * n_items * n_anchors
    trial_fpc = np.maximum(0.0, 1 - n_trials / n_possible_trials)
    if scale.cell_variance <= 0:
        return trial_fpc

    # An agent's two answers in a block share its effect c on the item. Their sum has the variance 2·(σ² + var(c)), with the
    # variance σ² of an answer; 4·var(c) of this is due to c.
    effect_share = 2 * scale.cell_variance / (scale.residual_variance + scale.cell_variance)
    item_fpc = _compute_item_fpc(sums.share_squares, n_items)
    return trial_fpc * (1 - effect_share + effect_share * item_fpc)


def _compute_linking_residuals(chunk: LinkingChunk, items: slice, scale: AnchorScale) -> Floats:
    """Subtract from answers the center of the scale and the effects of partner and item: float array (n_rows,).

    items : the items of the chunk
    """
    item_effect = scale.item_effect[items][chunk.item]
    return np.asarray(chunk.answer - scale.center - scale.effect[chunk.partner] - item_effect)


def _count_by_agent(agent: Ids, unit: Ids, n_agents: int, n_units: int) -> Floats:
    """Count how often each agent occurs with each unit, such as an item: float array (n_agents, n_units).

    agent, unit : int array (n_rows,)
    """
    counts = np.bincount(agent.astype(np.int64) * n_units + unit, minlength=n_agents * n_units)
    return np.asarray(counts.reshape(n_agents, n_units), dtype=np.float64)


def _sum_by_agent_and_item(chunk: LinkingChunk, column: Floats, n_agents: int) -> Floats:
    """Sum a column of a chunk, float array (n_rows,), by agent and item: float array (n_agents, n_chunk_items)."""
    cell = chunk.agent.astype(np.int64) * chunk.n_items + chunk.item  # index in the flattened array
    sums = np.bincount(cell, column, n_agents * chunk.n_items)
    return np.asarray(sums.reshape(n_agents, chunk.n_items), dtype=np.float64)


def compute_linked_influence(
    chunks: LinkingChunkSource, linked: LinkedEffects, *, scale: AnchorScale, anchors: Callable[[slice], Floats]
) -> Callable[[], Iterator[tuple[slice, Floats, Floats]]]:
    """Compute the influence of items on the abilities of linked agents.

    Abilities are measured from the mean of the anchors, and inference is for items like these.

    Parameters
    ----------
    chunks : callable
        Function without parameters that returns an iterator over the anchor trials in chunks (`LinkingChunk`), each time it is
        called.
    linked : LinkedEffects
        Effects of all agents, estimated from the same trials, with `n_trials` and `partner_share` of each agent.
    scale : AnchorScale
        Scale of the anchors, which are the first of all agents: their mean ability and the effects of anchors and items.
    anchors : callable
        Function of a slice of items that returns their influence U_kj on the abilities of the anchors, float array (n_anchors,
        n_chunk_items).

    Returns
    -------
    callable
        Function without parameters. Each call returns an iterator over tuples (items, influence, share). `items` is a slice.
        `influence` and `share` are float arrays (n_agents, n_chunk_items), 0 for agents without anchor trials. `n_agents` is the
        number of all agents. `influence` is the influence of the items on each ability, in units of answers. `share` is their
        share in each agent's anchor trials.

    Notes
    -----
    U_ij = scale·[Σ_t (r_t − effect_i)/n_i − q_j·(1 − Σ_l p_il·β_l)·r̄_j] − Σ_k p_ik·(U_kj − Ū_j).

    - scale is `effect_scale`. The sum over t is over those of the agent's n_i trials that are on item j, with r the
      residuals from the scale.
    - p_il and p_ik are the shares of item l and anchor k in the agent's trials.
    - In the anchors' trials, item j has the share q_j, the mean residual r̄_j and the effect β_j·r̄_j.

    The effect of an item cancels as far as it is known, or if agent and anchors have equal shares of it. The influence
    of an item on anchors is carried over to the agents that were linked through them.
    """
    n_agents, n_anchors = len(linked.effect), len(scale.effect)
    n_trials = np.maximum(linked.n_trials, 1)[:, None]
    has_trials = linked.n_trials[:, None] > 0
    ability_per_effect = effect_scale(n_anchors)
    mean_shrinkage = _average_item_shrinkage(chunks, scale, n_trials)[:, None]

    def iter_influence() -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield, for each chunk, the slice of its items, their influence on each ability, and their share in its trials.

        Agents are compared with anchors, which define the scale. An ability is the agent's mean answer, minus the center of the
        scale, minus the effects of its anchors. An item influences all three. Influence and share are float arrays (n_agents,
        n_chunk_items).
        """
        for items, chunk in _iter_chunks_with_items(chunks()):
            # through the residuals of the agent's own trials on the item
            residual = _compute_linking_residuals(chunk, items, scale) - linked.effect[chunk.agent]
            through_trials = _sum_by_agent_and_item(chunk, residual, n_agents) / n_trials

            # Through the center of the scale, which contains the anchors' mean residual on the item. A higher center also
            # reduces the item effects, which cancels the fraction `mean_shrinkage` of this influence.
            influence_on_center = scale.item_share[items] * scale.item_residual[items]
            through_center = (1 - mean_shrinkage) * influence_on_center

            # through the abilities of the anchors, measured from their mean, with the share of each anchor in its trials
            influence_on_anchors = anchors(items)
            centered_influence = influence_on_anchors - influence_on_anchors.mean(axis=0)
            through_anchors = linked.partner_share @ centered_influence

            influence = ability_per_effect * (through_trials - through_center) - through_anchors
            influence = np.where(has_trials, influence, 0.0)
            item_share = _count_by_agent(chunk.agent, chunk.item, n_agents, chunk.n_items) / n_trials
            yield items, influence, item_share

    return iter_influence


def _average_item_shrinkage(chunks: LinkingChunkSource, scale: AnchorScale, n_trials: Positions) -> Floats:
    """Compute the mean shrinkage factor of the items of each agent, weighted by the items' shares in its trials: (n_agents,).

    The effect of an item is the mean residual of the answers on it, times a shrinkage factor from 0 to 1. Items with more trials
    have a larger factor. The answers are those of the anchors, the agents that define the scale.

    chunks : function that yields the trials that compare agents with anchors, in chunks of items
    scale : scale of the anchors, with the effect and the mean residual of each item
    n_trials : int array (n_agents, 1), number of these trials of each agent, at least 1
    """
    n_agents = len(n_trials)
    shrinkage = _divide_or_0(scale.item_effect, scale.item_residual)  # 0 for an item without a residual

    mean_shrinkage = np.zeros(n_agents)
    for items, chunk in _iter_chunks_with_items(chunks()):
        item_share = _count_by_agent(chunk.agent, chunk.item, n_agents, chunk.n_items) / n_trials
        mean_shrinkage += item_share @ shrinkage[items]
    return mean_shrinkage


@dataclass(frozen=True, eq=False)
class Drift(ReadOnly):
    """Drift of agents, and of the judge, between earlier and new answers.

    Attributes
    ----------
    change : float array (n_agents,)
        Change of each agent's effect or ability; NaN without a new trial.
    variance : float array (n_agents,)
        Variance of the change.
    judge_drift, judge_drift_variance : float
        Change of all answers together, and its variance; NaN if it is estimated from fewer than 2 blocks.
    n_blocks : int
        Number of blocks from which the judge's drift is estimated.
    """

    change: Floats
    variance: Floats
    judge_drift: float
    judge_drift_variance: float
    n_blocks: int

    @property
    def p_holm(self) -> Floats:
        """Two-sided p-values of no change, with Holm's correction: float array (n_agents,), NaN without an estimate."""
        p: Floats = np.full(len(self.change), np.nan)
        is_estimated = (self.variance > 0) & ~np.isnan(self.change)
        z = np.abs(self.change[is_estimated]) / np.sqrt(self.variance[is_estimated])
        p[is_estimated] = holm(2 * ndtr(-z))
        return p

    @property
    def judge_drift_p(self) -> float:
        """Two-sided p-value of no drift of the judge, by Student's t; NaN without an estimate."""
        if not self.judge_drift_variance > 0:
            return float("nan")
        t = abs(self.judge_drift) / np.sqrt(self.judge_drift_variance)
        return float(2 * stdtr(max(self.n_blocks - 1, 1), -t))


def estimate_block_drift(chunks: ChunkSource, *, scale: AnchorScale) -> Drift | None:
    """Estimate the drift of the anchors and of the judge from new answers to trials between anchors in complete blocks.

    Parameters
    ----------
    chunks : callable
        Function without parameters that returns an iterator over the new answers in chunks (`PairChunk`). Trials without a block
        form one block per item.
    scale : AnchorScale
        Scale that was fitted to the earlier answers.

    Returns
    -------
    Drift or None
        `change` of each anchor's effect with its `variance`, float arrays (n_anchors,), NaN for an anchor without a trial;
        `judge_drift`, the change of all answers together, with its variance, NaN for fewer than 2 blocks. None without a trial.

    Notes
    -----
    The residuals are e = y − center − effect_i − effect_k − item_effect_j, and d is e minus the mean e of the block. The change
    of anchor i is f times the mean of d over its n_i trials, with f = (K − 1)/(K − 2) for K anchors. The variance of the
    change is f²·σ²/n_i + var(effect_i), with σ² the variance of d. The judge's drift is the average over blocks of the mean e of
    the block; only blocks on items with earlier trials count. Its variance is that of the average plus that of the center.
    """
    n_anchors = len(scale.effect)
    sums, n_blocks, means_by_chunk = _ResidualSums(n_anchors), 0, list[Floats]()
    for items, chunk in _iter_chunks_with_items(chunks()):
        fitted = scale.effect[chunk.first] + scale.effect[chunk.second] + scale.item_effect[items][chunk.item]
        residual = chunk.value - scale.center - fitted
        _, block, size = np.unique(chunk.effect_groups, return_inverse=True, return_counts=True)
        block_mean = np.bincount(block, residual) / size

        # each trial counts for both of its agents
        sums.add(np.append(chunk.first, chunk.second), np.tile(residual - block_mean[block], 2))
        n_blocks += len(size)

        # blocks on items with earlier trials
        has_earlier_trials = scale.item_share[items][chunk.item] > 0
        earlier_blocks = np.unique(block[has_earlier_trials])
        means_by_chunk.append(block_mean[earlier_blocks])
    if not sums.count:
        return None

    # one degree of freedom less for each block, whose mean was subtracted
    n_trials = sums.count / 2
    mean, mean_variance = sums.compute_means(df_share=1 - n_blocks / n_trials)
    factor = (n_anchors - 1) / (n_anchors - 2)
    change = factor * mean
    variance = factor**2 * mean_variance + scale.effect_variance

    block_means = np.concatenate(means_by_chunk)
    judge_drift = judge_drift_variance = np.nan
    if len(block_means) > 1:
        judge_drift = float(block_means.mean())
        judge_drift_variance = float(block_means.var(ddof=1)) / len(block_means) + scale.center_variance
    return Drift(change, variance, judge_drift, judge_drift_variance, len(block_means))


def estimate_partner_drift(chunks: LinkingChunkSource, *, effect: Floats, scale: AnchorScale) -> Drift | None:
    """Estimate how much the effects of anchors have changed since the scale was fitted.

    Anchors are the agents whose earlier trials define the scale of abilities. Agents that were added later are compared
    with them in anchor trials. Here, the answers to anchor trials are compared with the answers that the scale predicts.

    Parameters
    ----------
    chunks : callable
        Function without parameters that returns an iterator over the new anchor trials in chunks (`LinkingChunk`).
    effect : float array (n_agents,)
        Effects of all agents on the scale, estimated from the same trials; the anchors come first.
    scale : AnchorScale
        Scale that was fitted to the earlier answers.

    Returns
    -------
    Drift or None
        `change` of each anchor's effect in units of answers, and its `variance` in squared units: float arrays (n_anchors,), NaN
        for an anchor without a trial. `judge_drift` is NaN, because a change of all answers cannot be separated from the effects
        of the added agents. None without a trial.

    Raises
    ------
    StatisticsError
        [trial-columns]: if columns differ in length; [trial-answer]: if an answer is NaN.

    Notes
    -----
    The residual of an answer y of agent i and anchor k on item j is e = y − center − effect_i − effect_k −
    item_effect_j. The change of anchor k is the mean of e over its n_k trials minus the mean over all trials. Its variance is
    σ²/n_k, with σ² the variance of e over all trials, plus the variance of effect_k, plus pair_variance·Σ_i s_i², with s_i the
    share of agent i in the trials of anchor k.
    """
    n_anchors, n_agents = len(scale.effect), len(effect)
    sums, n_trials = _ResidualSums(n_anchors), np.zeros((n_anchors, n_agents))
    for items, chunk in _iter_chunks_with_items(chunks()):
        check_trials(chunk.item, chunk.agent, chunk.partner, answer=chunk.answer)
        residual = _compute_linking_residuals(chunk, items, scale) - effect[chunk.agent]
        sums.add(chunk.partner, residual)
        n_trials += _count_by_agent(chunk.partner, chunk.agent, n_anchors, n_agents)
    if not sums.count:
        return None

    # one degree of freedom less in all, for the mean of all residuals
    change, mean_variance = sums.compute_means(df_share=1 - 1 / sums.count, centered=True)

    n_trials_of_anchor = n_trials.sum(axis=1, keepdims=True)
    agent_share = n_trials / np.maximum(n_trials_of_anchor, 1)
    pair_variance = scale.pair_variance * (agent_share**2).sum(axis=1)

    variance = mean_variance + (scale.effect_variance + pair_variance)
    return Drift(change, variance, judge_drift=np.nan, judge_drift_variance=np.nan, n_blocks=0)


class _ResidualSums:
    """Sums of residuals by agent, from which their means are computed; `count` is the number of all residuals."""

    def __init__(self, n_agents: int) -> None:
        self._n, self._total = np.zeros((2, n_agents))
        self._squares, self.count = 0.0, 0

    def add(self, agent: Ids, residual: Floats) -> None:
        """Add residuals; agent : int array (n,), residual : float array (n,)."""
        n_agents = len(self._n)
        self._n += np.bincount(agent, minlength=n_agents)
        self._total += np.bincount(agent, residual, n_agents)
        self._squares += float((residual**2).sum())
        self.count += len(residual)

    def compute_means(self, *, df_share: float, centered: bool = False) -> tuple[Floats, Floats]:
        """Compute the mean residual of each agent and the variance of this mean.

        The variance is s²/n, with n the agent's number of residuals, and s² the mean square of the residuals of all agents
        divided by `df_share`.

        df_share : degrees of freedom of all residuals, divided by their number
        centered : whether the mean of all residuals is first subtracted from the residuals

        Returns means and variances, float arrays (n_agents,), NaN for an agent without a residual.
        """
        overall_mean = float(self._total.sum()) / self.count if centered else 0.0
        mean_square = self._squares / self.count - overall_mean**2
        residual_variance = mean_square / max(df_share, 1e-9)

        # NaN for agents without a residual, because a division by NaN is NaN
        n_or_nan = np.where(self._n > 0, self._n, np.nan)
        agent_mean = self._total / n_or_nan
        variance_of_mean = residual_variance / n_or_nan
        return agent_mean - overall_mean, variance_of_mean
