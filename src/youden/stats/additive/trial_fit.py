"""Fit the effects of agents and items jointly to the answers of an unbalanced plan, with errors clustered by item.

The score of a cell is a mean over the partners that it met. If there are few, their abilities distort it, and a fit of
cells pulls abilities together. A fit of trials takes the partners into account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import coo_array, csr_array

from youden.stats.base.clusters import ROUNDING, CentredCovariance, covariance_of_chunks, shrink_component
from youden.stats.base.pair_chunks import (
    ChunkSource,
    InfluenceChunk,
    PairChunk,
    index_pairs,
    sum_by_effect_group,
    sum_by_item,
    sum_by_pair,
)
from youden.types.pool import Bools, Floats, Positions

_MIN_EIGENVALUE = 1e-9
"""Directions with an eigenvalue below this share of the largest are not determined by the trials."""
_EXACT_FIT = 1e-9
"""A trial of leverage above 1 minus this is fitted exactly, whatever its answer."""
_MAX_DENSE_PER_TRIAL = 32
"""Sums by agent and effect group are stored densely if there are at most this many of them per trial."""


@dataclass(frozen=True, eq=False)
class TrialFit:
    """Abilities that were fitted to trials, with their covariance.

    Attributes
    ----------
    ability : float array (n_agents,)
        Centered abilities; NaN for an agent without a trial.
    item_mean : float array (n_items,)
        Expected answer of the average agent on each item; NaN for an item without a trial.
    weight : float array (n_agents,)
        Total weight of the agent's trials.
    covariance : CentredCovariance
        Covariance of the distances from the mean ability, for items like these: `fpc` is not applied.
    fpc : float array (n_agents,)
        Finite population correction, from 0 to 1: multiply a variance by it for inference about exactly these items.
    influence_chunks : callable
        Function that yields, for one chunk of items after another, their influence on the abilities.
    """

    ability: Floats
    item_mean: Floats
    weight: Floats
    covariance: CentredCovariance
    fpc: Floats
    influence_chunks: Callable[[], Iterator[InfluenceChunk]]


def fit_additive_trials(chunks: ChunkSource, *, n_agents: int, n_items: int) -> TrialFit | None:
    """Fit additive effects of agents and effect groups to trials.

    An effect group is a set of trials with one common effect: all trials of an item, or of a block of a cyclic plan.

    Parameters
    ----------
    chunks : callable
        Function that returns an iterator over all answers in chunks (`PairChunk`), each time it is called. All trials of an item
        or an effect group are in one chunk; chunks are in the order of the items.
    n_agents : int
        Number of agents.
    n_items : int
        Number of items that the plan may use, including those without a trial.

    Returns
    -------
    TrialFit or None
        `ability` has the mean 0, in units of answers, and is NaN for an agent without a trial. `weight` is the weight of each
        agent's trials, and `item_mean` the expected answer of the average agent on each item. The `covariance` of the abilities
        (a `CentredCovariance`) is for the population that the items are a sample of. For inference about exactly these items,
        multiply the variances by `fpc`, from 0 to 1. None if fewer than 3 agents have trials, if fewer than 2 agents have trials
        on 2 items, or if the trials do not link all agents.

    Notes
    -----
    The weighted least-squares model of an answer y is y ≈ a_first + a_second + b_group, and θ = (K − 2)/(K − 1)·a with K
    agents that have trials, because an ability is a mean over the other agents.

    With x the indicator of a trial's two agents, z = x − x̄_group its centered design row, M = Σw·zzᵀ, P its
    pseudo-inverse, and leverages h = w(1/m_group + zᵀPz), the influence of item j is U_ij = (K − 2)/(K − 1)·Σ_k
    P_ik E_kj. E_kj is the sum of w·e/√(1 − h) over the trials of agent k on the item. The covariance is the sandwich
    estimate from U, clustered by item.

    The finite population correction of agent i is (C·(Σ_j p_ij² − 1/J) + (V − F)·(1/n_i − 1/(PJ + 1)) + F/n_i) /
    (C·Σ_j p_ij² + V/n_i), each difference at least 0. Here p_ij is the share of item j in the agent's weight, J the
    number of items, n_i = (Σw)²/Σw² the agent's effective number of trials, and P = 2(K − 1) its number of ordered
    pairs. C is the covariance of two residuals of the agent on one item, and V the remaining variance of a residual.
    F is the variance of the false-positive rates if they were estimated by pair; comparing all pairs does not
    remove it.
    """
    sums = _sum_all_trials(chunks(), n_agents)
    observed = sums.weight > 0
    K = int(observed.sum())
    n_agents_on_2_items = (sums.n_items[observed] >= 2).sum()
    if K < 3 or n_agents_on_2_items < 2:
        return None

    # P, the pseudo-inverse of M; one direction, the mean effect, may be undetermined
    eigenvalues, eigenvectors = eigh(sums.normal_matrix[np.ix_(observed, observed)], check_finite=False)
    is_determined = eigenvalues > _MIN_EIGENVALUE * eigenvalues[-1]
    if is_determined.sum() < K - 1:
        return None
    basis = eigenvectors[:, is_determined]
    inverse = np.zeros((n_agents, n_agents))
    inverse[np.ix_(observed, observed)] = (basis / eigenvalues[is_determined]) @ basis.T

    effect = inverse @ sums.normal_target
    scale = (K - 2) / (K - 1)
    total_weight = np.where(observed, sums.weight, 1.0)
    influence_chunks = partial(_iter_influence, chunks, effect, inverse, total_weight=total_weight, scale=scale)
    components = _ResidualComponents(n_agents, n_items)
    influence_and_share = (
        (chunk.influence, chunk.weight / total_weight[:, None]) for chunk in influence_chunks(components=components)
    )
    covariance = covariance_of_chunks(
        influence_and_share,
        n_clusters=sums.n_items,
        share_squares=sums.squared_item_weight / total_weight**2,
        relative_variance=np.where(observed, 1 / total_weight, 1.0),
    )

    # covariance_of_chunks has passed all chunks through `components` by now
    ability = np.where(observed, scale * (effect - effect[observed].mean()), np.nan)
    fpc = components.finite_correction(sums, total_weight, n_all=2 * (K - 1) * n_items, n_items=n_items)
    return TrialFit(ability, components.item_mean, sums.weight, covariance, fpc, influence_chunks)


@dataclass(eq=False)
class _TrialSums:
    """Sums over all trials. A trial has a weight w, an answer y and two agents.

    Attributes
    ----------
    normal_matrix : float array (n_agents, n_agents)
        Normal matrix M of the agents' effects, after the effects of the effect groups were eliminated.
    normal_target : float array (n_agents,)
        Right-hand side Σw·z·y of the normal equations, with z the centered design row of a trial.
    weight, squared_weight : float array (n_agents,)
        Σw and Σw² over an agent's trials.
    squared_item_weight : float array (n_agents,)
        Sum over items of the squared total weight of the agent's trials on the item.
    n_items : int64 array (n_agents,)
        Number of items with a trial of the agent.
    """

    normal_matrix: Floats
    normal_target: Floats
    weight: Floats
    squared_weight: Floats
    squared_item_weight: Floats
    n_items: Positions


def _sum_all_trials(chunks: Iterable[PairChunk], n_agents: int) -> _TrialSums:
    """Sum over all trials: the normal equations of the agent effects, and each agent's weights and number of items.

    An effect group is a set of trials that share one effect in the model: the trials of an item, or of a block of the plan.

    chunks : trials in chunks of items; all trials on an item, and all trials of an effect group, must be in one chunk
    """
    sums = _TrialSums(
        normal_matrix=np.zeros((n_agents, n_agents)),
        normal_target=np.zeros(n_agents),
        weight=np.zeros(n_agents),
        squared_weight=np.zeros(n_agents),
        squared_item_weight=np.zeros(n_agents),
        n_items=np.zeros(n_agents, dtype=np.int64),
    )
    for chunk in chunks:
        group_weight = _sum_by_group(chunk, chunk.weight, n_agents)
        _add_to_normal_equations(sums, chunk, group_weight)

        # Σw of each agent's trials on each item, and Σw² over its trials
        items_are_groups = chunk.effect_group is None
        item_weight = group_weight if items_are_groups else sum_by_item(chunk, chunk.weight, n_agents)
        sums.weight += item_weight.sum(axis=1)
        sums.squared_item_weight += (item_weight**2).sum(axis=1)  # square of the sum of the trials on an item
        sums.n_items += (item_weight > 0).sum(axis=1)
        sums.squared_weight += sum_by_item(chunk, chunk.weight**2, n_agents).sum(axis=1)
    return sums


def _add_to_normal_equations(sums: _TrialSums, chunk: PairChunk, agent_weight: Floats | csr_array) -> None:
    """Add the trials of a chunk to the normal equations of the agent effects in `sums`, in place.

    An answer is modeled as the sum of the effects of its two agents and of its effect group, an item or a block. The
    least-squares effect of a group is its mean answer minus the mean of the agent effects in its trials. With these values for
    the group effects, only the agent effects are unknown.

    chunk : trials, with their agents (`first`, `second`), answers (`value`), weights and effect groups
    agent_weight : array or sparse array (n_agents, n_groups), total weight of each agent's trials in each effect group
    """
    n_agents = len(sums.weight)

    # normal matrix before the elimination: the weight of each pair of agents, and of each agent on the diagonal
    weight_by_order = sum_by_pair(index_pairs(chunk, n_agents), chunk.weight, n_agents)
    matrix = weight_by_order + weight_by_order.T + np.diag(agent_weight.sum(axis=1))

    # right-hand side before the elimination: the weighted sum of the answers to each agent's trials
    agent_answers = _sum_by_group(chunk, chunk.weight * chunk.value, n_agents)  # (n_agents, n_groups)
    target = agent_answers.sum(axis=1)

    # weight and mean answer of each group; sums over agents count each trial twice
    group_weight = agent_weight.sum(axis=0) / 2
    positive_group_weight = np.maximum(group_weight, np.finfo(np.float64).tiny)
    group_mean = agent_answers.sum(axis=0) / 2 / positive_group_weight

    # The equation of agent i contains the effect of each group times the weight of i in the group: weight_i·(mean answer −
    # Σ_k share_k·effect_k). The coefficient of effect_k, Σ share_k·weight_i over groups, is symmetric in i and k.
    agent_share = agent_weight / positive_group_weight  # (n_agents, n_groups)
    sums.normal_matrix += matrix - agent_share @ agent_weight.T
    sums.normal_target += target - agent_weight @ group_mean


def _iter_influence(
    chunks: ChunkSource,
    effect: Floats,
    inverse: Floats,
    *,
    total_weight: Floats,
    scale: float,
    components: _ResidualComponents | None = None,
) -> Iterator[InfluenceChunk]:
    """Yield, for each chunk of trials, the influence of its items on the abilities of all agents.

    The influence of an item on an ability is the part of the ability's error that its trials cause. The direct influence
    contains only the agent's own trials, with the abilities of its partners held fixed.

    chunks : function that returns an iterator over all answers
    effect : float array (n_agents,), fitted effects of the agents
    inverse : float array (n_agents, n_agents), pseudo-inverse of the normal matrix
    total_weight : float array (n_agents,), total weight of each agent's trials, above 0
    scale : ability per effect of an agent
    components : sums to which the residuals and item means are added, in place; None if they are not needed
    """
    n_agents = len(effect)
    for chunk in chunks():
        first, second, group, weight = chunk.first, chunk.second, chunk.effect_groups, chunk.weight
        agent_weight = _sum_by_group(chunk, weight, n_agents)  # Σw by agent (row) and group (column)
        group_weight = np.maximum(agent_weight.sum(axis=0) / 2, np.finfo(np.float64).tiny)

        # e = y − a_first − a_second − b_group, with b the weighted mean of y − a_first − a_second in the group
        without_agents = chunk.value - effect[first] - effect[second]
        group_effect = np.bincount(group, weight * without_agents, len(group_weight)) / group_weight
        residual = without_agents - group_effect[group]

        # w·e/√(1 − h); a trial that is fitted exactly has no residual
        leverage = _compute_leverages(chunk, agent_weight, group_weight, inverse)
        is_free = leverage < 1 - _EXACT_FIT
        root = np.sqrt(np.where(is_free, 1 - leverage, 1.0))
        adjusted = np.where(is_free, weight * residual / root, 0.0)
        if components is not None:
            components.add(chunk, residual, is_free, n_agents)
            components.add_items(_average_by_item(chunk, group_effect))

        item_sums = sum_by_item(chunk, adjusted, n_agents)
        influence = scale * (inverse @ item_sums)
        direct = item_sums / total_weight[:, None]
        yield InfluenceChunk(influence, direct, sum_by_item(chunk, weight, n_agents))


def _compute_leverages(
    chunk: PairChunk, agent_weight: Floats | csr_array, group_weight: Floats, inverse: Floats
) -> Floats:
    """Compute the leverage of each trial, the change of its fitted value per unit change of its answer: float (n_trials,).

    An answer of weight w is taken to have the variance 1/w. The leverage is then w times the variance of the fitted value:

    - The fitted value is ȳ + s − s̄, where s is the sum of the effects of both agents.
    - ȳ and s̄ are the means of the answers and of s over the effect group, the trials of one item or block.
    - The variance is var(ȳ) + var(s) − 2·cov(s, s̄) + var(s̄).

    chunk : trials, with their agents (`first`, `second`), weights and effect groups
    agent_weight : array or sparse array (n_agents, n_groups), total weight of each agent's trials in each effect group
    group_weight : float array (n_groups,), total weight of each effect group
    inverse : float array (n_agents, n_agents), pseudo-inverse P of the normal matrix of the agent effects
    """
    first, second, group = chunk.first, chunk.second, chunk.effect_groups

    # P is the covariance of the effects: var(s) of each trial
    effect_variance = np.diag(inverse)
    sum_variance = effect_variance[first] + effect_variance[second] + 2 * inverse[first, second]

    # s̄ of a group is the sum of all effects, weighted by the share of each agent in the group: var(s̄) of each group
    agent_share: Any = agent_weight / group_weight  # (n_agents, n_groups)
    effect_covariance = inverse @ agent_share  # covariance of each effect with s̄ of each group
    mean_variance = (agent_share * effect_covariance).sum(axis=0)

    covariance = effect_covariance[first, group] + effect_covariance[second, group]  # cov(s, s̄)
    answer_variance = 1 / group_weight[group]  # var(ȳ)
    fitted_variance = answer_variance + (sum_variance - 2 * covariance + mean_variance[group])
    return np.asarray(chunk.weight * fitted_variance)


class _ResidualComponents:
    """Variance components of the residuals, and the means of the items.

    Chunks are added in the order of items.
    """

    def __init__(self, n_agents: int, n_items: int) -> None:
        # by agent: sum and number of products of two residuals on one item, sum and number of squared residuals
        self._products, self._n_products, self._squares, self._n = np.zeros((4, n_agents))
        # over trials: sums of the weights, of weight × false-positive rate, and of weight × squared rate
        self._rate_sums = np.zeros(3)
        self._n_added_items = 0
        self.item_mean = np.full(n_items, np.nan)

    def add_items(self, item_mean: Floats) -> None:
        """Add the means of the next items, float array (n_chunk_items,)."""
        end = self._n_added_items + len(item_mean)
        self.item_mean[self._n_added_items : end] = item_mean
        self._n_added_items = end

    def add(self, chunk: PairChunk, residual: Floats, is_free: Bools, n_agents: int) -> None:
        """Add the residuals and the false-positive rates of the trials of a chunk to the sums, in place.

        The sums of each agent are those of its squared residuals, and of the products of two of its residuals on one item. The
        sums over all trials are those of the weights, the weighted rates and the weighted squared rates.

        chunk : all trials of some items, with their agents, items, weights and rates
        residual : float array (n_trials,), residuals of the trials of `chunk`
        is_free : bool array (n_trials,), False for a trial that is fitted exactly; only the sums over all trials contain it
        n_agents : number of agents
        """
        # squared residuals of each agent on each item (n_agents, n_items), and their number
        has_residual = is_free & (np.abs(residual) > ROUNDING)  # not 0, except for rounding
        counted_residual = np.where(has_residual, residual, 0.0)
        n_residuals = sum_by_item(chunk, is_free.astype(np.float64), n_agents)
        squares = sum_by_item(chunk, counted_residual**2, n_agents)
        self._squares += squares.sum(axis=1)
        self._n += n_residuals.sum(axis=1)

        # products of two residuals of an agent on one item: Σ_{s<t} e_s·e_t = ((Σe)² − Σe²)/2
        residual_sum = sum_by_item(chunk, counted_residual, n_agents)
        twice_products = residual_sum**2 - squares
        self._products += twice_products.sum(axis=1) / 2
        self._n_products += (n_residuals * (n_residuals - 1)).sum(axis=1) / 2

        # false-positive rates, which do not depend on the residuals
        weight, rate = chunk.weight, chunk.rate
        self._rate_sums += np.array([weight.sum(), weight @ rate, weight @ rate**2])

    def finite_correction(self, sums: _TrialSums, total_weight: Floats, *, n_all: int, n_items: int) -> Floats:
        """Compute the finite population correction of each agent, by which its variance is multiplied.

        With the correction, a variance is valid for exactly these items. Without it, the items count as a sample of similar
        items.

        sums : sums over all trials
        total_weight : float array (n_agents,), total weight of each agent's trials, above 0
        n_all : number of answers that an agent has if every ordered pair is compared on every item
        n_items : number of items that the plan may use

        Returns a float array (n_agents,) with values from 0 to 1. A correction is near 0 if every pair is compared on every
        item. It is larger if false-positive rates were estimated by pair. If all residuals are 0, it is computed from the
        numbers of trials.
        """
        # variance of the residuals of each agent; for an agent without residuals, the variance over all agents
        mean_variance = self._squares.sum() / max(self._n.sum(), 1)
        all_means = np.full(len(total_weight), mean_variance)
        variance = np.divide(self._squares, self._n, out=all_means, where=self._n > 0)
        relative_variance = variance / mean_variance if mean_variance else np.ones(len(total_weight))

        # covariance of two residuals of an agent on one item
        item_covariance = shrink_component(self._products, self._n_products, relative_variance)

        # variance of a trial without the item effects of the agent and of its partner, which is about average
        mean_covariance = max(self._products.sum() / max(self._n_products.sum(), 1), 0.0)
        trial_variance = np.maximum(variance - item_covariance - mean_covariance, 0)

        # part of the trial variance that comes from false-positive rates, if they were estimated by pair
        weight, rate_sum, rate_squares = self._rate_sums.tolist()
        rate_variance = max(rate_squares / weight - (rate_sum / weight) ** 2, 0.0)
        pair_rate_variance = np.minimum(rate_variance, trial_variance)

        # factors of the item covariance and of the trial variance, and what remains of them after subtracting a complete
        # design's
        item_factor = sums.squared_item_weight / total_weight**2
        trial_factor = sums.squared_weight / total_weight**2
        remaining_item_factor = np.maximum(item_factor - 1 / n_items, 0)
        remaining_trial_factor = np.maximum(trial_factor - 1 / (n_all + 1), 0)

        remaining_of_trials = (trial_variance - pair_rate_variance) * remaining_trial_factor
        remaining = item_covariance * remaining_item_factor + remaining_of_trials + pair_rate_variance * trial_factor
        total = item_covariance * item_factor + trial_variance * trial_factor

        # without residual variance, the correction is that of the number of trials
        zeros = np.zeros(len(total_weight))
        trial_correction = np.divide(remaining_trial_factor, trial_factor, out=zeros, where=trial_factor > 0)
        return np.asarray(np.divide(remaining, total, out=trial_correction, where=total > 0))


def _sum_by_group(chunk: PairChunk, values: Floats, n_agents: int) -> Floats | csr_array:
    """Sum the values of trials by agent and effect group. The value of a trial is added for each of its two agents.

    If the groups are small, most agents have no trial in a given group, and the result is sparse to save memory.

    chunk : trials, with their agents and effect groups
    values : float array (n_trials,)

    Returns an array (n_agents, n_groups), or a `csr_array` if most of its entries would be 0.
    """
    if chunk.effect_group is None:
        return sum_by_effect_group(chunk, values, n_agents)
    n_groups = int(chunk.effect_group.max(initial=-1)) + 1
    is_dense = n_agents * n_groups <= _MAX_DENSE_PER_TRIAL * len(values)
    if is_dense:
        return sum_by_effect_group(chunk, values, n_agents)

    # each trial has two entries, one for each agent; repeated entries are summed
    agents = np.concatenate([chunk.first, chunk.second])
    groups = np.tile(chunk.effect_group, 2)
    entries = np.tile(values, 2)
    return coo_array((entries, (agents, groups)), shape=(n_agents, n_groups)).tocsr()


def _average_by_item(chunk: PairChunk, group_effect: Floats) -> Floats:
    """Compute the weighted mean of the effects of the trials of each item.

    The effect of a trial is that of its group: of its item or, if `chunk.effect_group` is given, of a block of trials.

    group_effect : float array (n_groups,), effect that all trials of a group share

    Returns a float array (n_items,), NaN for an item without a trial.
    """
    item_weight = np.bincount(chunk.item, chunk.weight, chunk.n_items)
    has_trials = item_weight > 0
    if chunk.effect_group is None:  # all trials of an item have the same effect
        return np.where(has_trials, group_effect, np.nan)

    effect_of_trial = group_effect[chunk.effect_group]
    effect_sum = np.bincount(chunk.item, chunk.weight * effect_of_trial, chunk.n_items)
    unknown = np.full(chunk.n_items, np.nan)
    return np.asarray(np.divide(effect_sum, item_weight, out=unknown, where=has_trials))
