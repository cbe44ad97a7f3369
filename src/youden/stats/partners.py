"""Sum the answers of each pair of agents, and estimate abilities with weighted partners.

The weights of partners decide which comparisons count for an agent. The plain ranking gives all partners the same
weight; the robust, the family-balanced and the trusted ranking do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.stats.base.clusters import CentredCovariance, covariance_of_chunks
from youden.stats.base.pair_chunks import ChunkSource, PairChunk, index_pairs, sum_by_pair
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly


@dataclass(frozen=True, eq=False)
class PairMeans(ReadOnly):
    """Mean answers to pairs of agents, both orders together.

    Attributes
    ----------
    mean : float array (n_agents, n_agents)
        Symmetric means; NaN for pairs that were not compared and on the diagonal.
    std_error : float array (n_agents, n_agents)
        Standard errors of the means.
    n : float array (n_agents, n_agents)
        Total weight of the answers.
    """

    mean: Floats
    std_error: Floats
    n: Floats

    @property
    def compared(self) -> Bools:
        """Whether each pair was compared: bool array (n_agents, n_agents)."""
        return np.asarray(self.n > 0)


class PairTotals:
    """Sums of answers by ordered pair of agents, added chunk by chunk.

    Attributes
    ----------
    total, weight, squares : float array (n_agents, n_agents)
        Σwy, Σw and Σwy² over the answers of each ordered pair, with y the answer minus the mean of its item and w
        its weight.
    uncentered_total : float array (n_agents, n_agents)
        Σwx over the answers x of each ordered pair.
    n_answers : float array (n_agents, n_agents)
        Number of answers of positive weight.
    """

    def __init__(self, n_agents: int) -> None:
        self.total, self.weight, self.squares, self.n_answers, self.uncentered_total = np.zeros((5, n_agents, n_agents))

    @classmethod
    def from_chunks(cls, chunks: Iterable[PairChunk], n_agents: int) -> PairTotals:
        """Sum the answers to comparisons of agents by ordered pair of agents.

        The mean answer on the same item is subtracted from each answer, so that pairs that were compared on different
        items are comparable.

        Parameters
        ----------
        chunks : iterable of PairChunk
            Parts of the answers. All answers on an item must be in one part, because their mean is subtracted.
        n_agents : int
            Number of agents.

        Returns
        -------
        PairTotals
            Sums by ordered pair (first agent, second agent). The property `means` averages both orders, and adds the mean of all
            answers, so that the means are on the scale of answers. This property has `mean`, `std_error` (not clustered by item)
            and `n` (total weight), float arrays (n_agents, n_agents).

        Examples
        --------
        Two comparisons of two agents on one item, once in each order, with the answers 1 and .5:

        >>> first, second, item = np.array([0, 1]), np.array([1, 0]), np.array([0, 0])
        >>> chunk = PairChunk(first, second, item, np.array([1.0, 0.5]), np.ones(2), np.zeros(2), n_items=1)
        >>> means = PairTotals.from_chunks([chunk], n_agents=2).means
        >>> means.mean.tolist(), means.n.tolist()
        ([[nan, 0.75], [0.75, nan]], [[0.0, 2.0], [2.0, 0.0]])
        """
        totals = cls(n_agents)
        for chunk in chunks:
            totals.add(chunk)
        return totals

    def add(self, chunk: PairChunk) -> None:
        """Add the answers of a chunk to the sums of their ordered pairs of agents, in place.

        The sums are those of the weights, of weight × answer and of weight × squared answer. The mean answer on the same
        item is subtracted from each answer, except in `uncentered_total`.

        Parameters
        ----------
        chunk : PairChunk
            Answers on items that no other chunk contains.
        """
        n_agents = len(self.weight)
        pair = index_pairs(chunk, n_agents)
        weight = chunk.weight
        centered_answer = _center_by_item(chunk)

        self.n_answers += sum_by_pair(pair, weight > 0, n_agents)
        self.weight += sum_by_pair(pair, weight, n_agents)
        self.total += sum_by_pair(pair, weight * centered_answer, n_agents)
        self.squares += sum_by_pair(pair, weight * centered_answer**2, n_agents)
        self.uncentered_total += sum_by_pair(pair, weight * chunk.value, n_agents)

    @property
    def mean_answer(self) -> float:
        """Weighted mean of all answers; 0 without an answer."""
        total_weight = float(self.weight.sum())
        return float(self.uncentered_total.sum()) / total_weight if total_weight else 0.0

    @property
    def means(self) -> PairMeans:
        """Mean answer to each pair of agents, adjusted for the items on which the pair was compared.

        The mean of the item is subtracted from each answer, and the mean of all answers is added to each pair's mean.

        Notes
        -----
        The standard error of the mean answer to agents i and k is √(max(v, v_i, v_k)/w), with w the total weight of the answers.
        v is the variance of all answers around the means of their pairs, and v_i that of the answers to the pairs of agent i. The
        variance is not estimated from the pair alone, because it would be 0 for two agents that always agree.
        """
        # add the entries of both orders of each pair
        pair_total = self.total + self.total.T
        pair_weight = self.weight + self.weight.T
        pair_squares = self.squares + self.squares.T
        n_answers = self.n_answers + self.n_answers.T

        is_compared = pair_weight > 0
        centered_mean = np.divide(pair_total, pair_weight, out=np.zeros(pair_weight.shape), where=is_compared)

        # with answers y of weight w and their mean ȳ: Σw·(y − ȳ)² = Σw·y² − Σw·ȳ², at least 0 despite rounding
        residual_squares = np.maximum(pair_squares - pair_weight * centered_mean**2, 0)
        residual_squares = np.where(is_compared, residual_squares, 0.0)

        mean = np.where(is_compared, centered_mean + self.mean_answer, np.nan)
        return _add_std_errors(mean, pair_weight, n_answers, residual_squares)


def _center_by_item(chunk: PairChunk) -> Floats:
    """Subtract from each answer the mean of its item: float array (n_trials,)."""
    weight_by_item = np.maximum(np.bincount(chunk.item, chunk.weight), np.finfo(np.float64).tiny)
    mean = np.bincount(chunk.item, chunk.weight * chunk.value) / weight_by_item
    return np.asarray(chunk.value - mean[chunk.item])


def _add_std_errors(mean: Floats, weight: Floats, n_answers: Floats, residual_squares: Floats) -> PairMeans:
    """Add standard errors to the mean answers to pairs of agents.

    One pair has too few answers to estimate the variance of an answer. The variance is therefore estimated for each agent, from
    all its pairs, and from all answers together. The standard error of a pair is computed from the largest of three variances:
    those of its two agents, and that of all answers.

    All arrays are symmetric float arrays (n_agents, n_agents), with one entry per pair.

    mean : mean answer, NaN for a pair that was not compared
    weight, n_answers : total weight and number of the answers
    residual_squares : sums of weight × squared deviation of the answer from the mean
    """
    # degrees of freedom n − 1, times the mean weight, because the residual squares are weighted
    mean_weight = np.divide(weight, n_answers, out=np.zeros(weight.shape), where=n_answers > 0)
    weighted_df = np.maximum(n_answers - 1, 0) * mean_weight

    # variances around the means of pairs: of all answers, and of the answers to the pairs of each agent
    overall_variance = float(residual_squares.sum() / max(weighted_df.sum(), 1.0))
    df_of_agent = weighted_df.sum(axis=1)
    agent_variance = np.full(len(weight), overall_variance)
    np.divide(residual_squares.sum(axis=1), df_of_agent, out=agent_variance, where=df_of_agent > 0)

    largest_variance = np.maximum(agent_variance, overall_variance)
    variance = np.maximum(largest_variance[:, None], largest_variance)
    squared_error = np.divide(variance, weight, out=np.full(weight.shape, np.nan), where=weight > 0)
    return PairMeans(mean, np.sqrt(squared_error), weight)


@dataclass(frozen=True, eq=False)
class PartnerWeights(ReadOnly):
    """Weights of partners in the abilities of agents.

    Attributes
    ----------
    weight : float array (n_agents, n_agents)
        Weight, at least 0, of agent k (column) as a partner of agent i (row); 0 on the diagonal.
    importance : float array (n_agents,)
        Weight of each agent in the mean effect, which sets the origin of the abilities.
    """

    weight: Floats
    importance: Floats


def uniform_weights(n_agents: int) -> PartnerWeights:
    """Give all partners of an agent the same weight, as in the plain ranking, in which no partner is preferred.

    Parameters
    ----------
    n_agents : int
        Number of agents.

    Returns
    -------
    PartnerWeights
        Weights 1, and 0 on the diagonal.
    """
    return PartnerWeights(1.0 - np.eye(n_agents), np.ones(n_agents))


def group_balanced_weights(group: Ids) -> PartnerWeights:
    """Make weights of comparisons, so that the members of a group together count as one partner of other agents.

    The partners of an agent are the agents with which it is compared. Partners of its own group get the weight 0.

    Parameters
    ----------
    group : int array (n_agents,)
        Group of each agent, such as its cluster or its model family.

    Returns
    -------
    PartnerWeights
        Weight 1/size of the partner's group for partners in other groups.

    Raises
    ------
    StatisticsError
        [one-group]: if all agents are in one group.

    Examples
    --------
    >>> group_balanced_weights(np.array([0, 0, 1])).weight
    array([[0. , 0. , 1. ],
           [0. , 0. , 1. ],
           [0.5, 0.5, 0. ]])
    """
    _, label, size = np.unique(group, return_inverse=True, return_counts=True)
    if len(size) < 2:
        raise StatisticsError(
            f"Group-balanced weights need two groups: got one group of {len(group)} agents. Set two groups or more.",
            slug="one-group",
        )
    weight_of_member = 1.0 / size[label]
    is_same_group = label[:, None] == label
    partner_weight = np.where(is_same_group, 0.0, weight_of_member)
    return PartnerWeights(partner_weight, importance=weight_of_member)


def panel_weights(trusted: Bools) -> PartnerWeights:
    """Give weight only to the agents of a trusted panel.

    Parameters
    ----------
    trusted : bool array (n_agents,)
        Agents of the panel, which score each other as well.

    Returns
    -------
    PartnerWeights
        Weight 1 for the panel, 0 for other agents and on the diagonal.

    Raises
    ------
    StatisticsError
        [panel-small]: if the panel has fewer than 2 agents.
    """
    if trusted.sum() < 2:
        raise StatisticsError(
            f"A trusted panel needs 2 agents, which score each other: got {int(trusted.sum())}. Add agents to the panel.",
            slug="panel-small",
        )
    weight = np.tile(trusted.astype(np.float64), (len(trusted), 1))
    np.fill_diagonal(weight, 0.0)
    return PartnerWeights(weight, trusted.astype(np.float64))


@dataclass(frozen=True, eq=False)
class WeightedAbilities(ReadOnly):
    """Abilities that were estimated with weighted partners.

    Attributes
    ----------
    ability : float array (n_agents,)
        Abilities, on the scale of a mean over all other agents; NaN for an agent without a partner of positive weight.
    effect : float array (n_agents,)
        Additive effects a_i from which the abilities are computed; NaN for the same agents.
    covariance : CentredCovariance
        Covariance of the distances from the mean, for items like these.
    """

    ability: Floats
    effect: Floats
    covariance: CentredCovariance


def fit_weighted_abilities(chunks: ChunkSource, totals: PairTotals, partners: PartnerWeights) -> WeightedAbilities:
    """Estimate abilities from all answers, with weights of partners.

    Parameters
    ----------
    chunks : callable
        Function without parameters that returns an iterator over all answers in chunks (`PairChunk`), each time it is called. All
        answers to an item must be in one chunk.
    totals : PairTotals
        Sums of the same answers, made by `PairTotals.from_chunks`.
    partners : PartnerWeights
        Weights W of the partners, float array (n_agents, n_agents), and the importance of the agents, float array (n_agents,),
        which sets the origin of the abilities.

    Returns
    -------
    WeightedAbilities
        `ability` of each agent on the scale of mean answers, the additive `effect` of each agent, float arrays (n_agents,), and
        the `covariance` of the abilities' distances from their mean (CentredCovariance), for items like these. They are NaN for
        an agent without an answered trial with a partner of positive weight. False-positive rates are not subtracted.

    Raises
    ------
    StatisticsError
        [partners-none]: if fewer than 3 agents were compared with a partner of positive weight; [cluster-agents]: if fewer than 2
        agents have trials on 2 items.

    Notes
    -----
    The effects solve Σ_k W_ik·Σ_t w_t·(y_t − a_i − a_k) = 0 for each agent i, with the inner sum over the trials of i and k. y is
    an answer minus the mean answer to its item plus the mean of all answers. The effects of partners are subtracted.
    Partners therefore affect an agent's ability only through the noise of these effects.

    The ability is θ_i = (K − 2)/(K − 1)·a_i + c, with K = n_agents, also if some abilities are NaN, and c = K/(K − 1) times the
    mean effect of the agents, weighted by `partners.importance`. With equal weights, the ability is the mean over the partners.
    The covariance is clustered by item; the influence of an item on the effects is propagated through the equations.
    """
    K = len(partners.importance)
    pair_weight = totals.weight + totals.weight.T
    pair_total = totals.total + totals.total.T
    agent_weight = (partners.weight * pair_weight).sum(axis=1)
    is_scored = agent_weight > 0
    if is_scored.sum() < 3:
        raise StatisticsError(
            f"Abilities need 3 agents with partners of positive weight: got {int(is_scored.sum())}. Set weights for more "
            "partners, or add comparisons.",
            slug="partners-none",
        )

    # share_ik of one answer about agents i and k, of weight 1, in the mean answer of agent i
    answer_share = np.divide(partners.weight, agent_weight[:, None], out=np.zeros((K, K)), where=is_scored[:, None])

    # solve a_i + Σ_k share_ik·a_k = mean answer of i, with the shares and means of pairs
    inverse = np.linalg.pinv(answer_share * pair_weight + np.diag(is_scored * 1.0), rcond=1e-8)
    uncentered_total = pair_total + totals.mean_answer * pair_weight
    effect = inverse @ (answer_share * uncentered_total).sum(axis=1)

    # θ_i = (K − 2)/(K − 1)·a_i + K/(K − 1)·ā
    scale = (K - 2) / (K - 1)
    importance = is_scored * partners.importance
    intercept = 0.0
    if importance.any():
        intercept = K / (K - 1) * float(importance @ effect / importance.sum())
    ability = np.where(is_scored, scale * effect + intercept, np.nan)

    sum_chunk = partial(_sum_by_item, answer_share=answer_share, effect=effect, mean_answer=totals.mean_answer)

    # first pass: numbers and shares of the items; second pass: influence of the items on the abilities
    n_clusters = np.zeros(K, dtype=np.int64)
    share_squares, relative_variance = np.zeros((2, K))
    for sums in map(sum_chunk, chunks()):
        n_clusters += (sums.share > 0).sum(axis=1)
        share_squares += (sums.share**2).sum(axis=1)
        relative_variance += (sums.share**2 / np.maximum(sums.weight, 1)).sum(axis=1)

    influence_of_residual = np.where(is_scored[:, None], scale * inverse, 0.0)
    influence_and_share = ((influence_of_residual @ sums.residual, sums.share) for sums in map(sum_chunk, chunks()))
    covariance = covariance_of_chunks(
        influence_and_share,
        n_clusters=n_clusters,
        share_squares=share_squares,
        relative_variance=np.where(relative_variance > 0, relative_variance, 1.0),
    )
    return WeightedAbilities(ability, np.where(is_scored, effect, np.nan), covariance)


class _ItemSums(NamedTuple):
    """Sums over the answers about each agent on each item of a chunk.

    Attributes
    ----------
    residual : float array (n_agents, n_chunk_items)
        Sums of residual × share of the answer in the agent's ability.
    share : float array (n_agents, n_chunk_items)
        Shares of the items in the agent's ability.
    weight : float array (n_agents, n_chunk_items)
        Total weights of the answers that have a share.
    """

    residual: Floats
    share: Floats
    weight: Floats


def _sum_by_item(chunk: PairChunk, answer_share: Floats, effect: Floats, mean_answer: float) -> _ItemSums:
    """Sum residuals, shares and weights of the answers of a chunk by agent and item.

    An ability is a weighted mean of answers. The share of an answer is its weight in this mean. A residual is the answer, minus
    the effects of its two agents, minus the mean of its item, plus the mean of all answers.

    answer_share : float array (n_agents, n_agents), share of an answer of weight 1 in the ability of an agent (row). The column
        is the partner, the other agent of the comparison.
    effect : float array (n_agents,), effects of the agents
    mean_answer : mean of all answers
    """
    # each trial counts twice, once for either agent, with the other agent as the partner
    agent = np.append(chunk.first, chunk.second)
    partner = np.append(chunk.second, chunk.first)
    item = np.tile(chunk.item, 2)
    weight = np.tile(chunk.weight, 2)
    answer = np.tile(_center_by_item(chunk) + mean_answer, 2)
    share = answer_share[agent, partner] * weight
    residual = answer - effect[agent] - effect[partner]
    counted_weight = np.where(share > 0, weight, 0.0)  # answers of partners without weight do not count

    shape = len(effect), chunk.n_items
    cell = agent.astype(np.int64) * chunk.n_items + item  # index in the flattened array
    return _ItemSums(
        residual=_sum_by_cell(cell, share * residual, shape),
        share=_sum_by_cell(cell, share, shape),
        weight=_sum_by_cell(cell, counted_weight, shape),
    )


def _sum_by_cell(cell: Positions, column: Floats, shape: tuple[int, int]) -> Floats:
    """Sum a column (n_rows,) by cell; `cell` has the index of the row's cell in the flattened array of the given shape."""
    n_agents, n_items = shape
    return np.bincount(cell, column, n_agents * n_items).reshape(shape).astype(np.float64, copy=False)
