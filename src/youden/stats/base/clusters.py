"""Estimate the joint covariance of centred abilities from the influence of independent clusters (items or blocks).

A cluster is one independent draw: the influences of all its trials on an agent are summed before they are squared. The
module also holds the table of answers that the estimators read, and the least-squares fit of additive agent effects to
means of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import stdtrit

from youden.errors import StatisticsError
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly


def check_level(level: float) -> None:
    """Raise StatisticsError [level] unless 0 < level < 1."""
    if not 0 < level < 1:
        raise StatisticsError(
            f"The confidence level must be between 0 and 1: got {level}. Pass a level such as 0.95.", slug="level"
        )


def check_trials(*columns: Ids | Positions | Floats | Bools, answer: Floats) -> None:
    """Check that columns of trials have the length of `answer`, and that no answer is NaN.

    Raises StatisticsError [trial-columns] or [trial-answer] otherwise.
    """
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
        Whether a trial measures its first (second) agent. It does not if this agent takes part in all trials of
        its group.

    Raises
    ------
    StatisticsError
        [trial-columns]: if the columns differ in length; [trial-answer]: if an answer is NaN; [trial-item]: if an item
        is not below `n_items`.
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
        """Make a chunk of single answers, each of weight 1.

        Parameters
        ----------
        item, first, second : int array (n_trials,)
            Item, first agent and second agent of each trial.
        answer : float array (n_trials,)
            Answers, without NaN in the selected rows.
        n_items : int
            Number of items.
        block : int array (n_trials,), optional
            Block of each trial, which becomes its effect group, in any numbering. Default: the item.
        rows : bool mask, int array or slice, optional
            Trials to select. Default: all.

        Returns
        -------
        PairChunk
            The selected trials.
        """
        value = answer[rows]
        effect_group = None if block is None else _renumber_from_0(block[rows])
        weight, rate = np.ones(len(value)), np.zeros(len(value))
        return cls(first[rows], second[rows], item[rows], value, weight, rate, n_items, effect_group)

    @property
    def effect_groups(self) -> Ids:
        """Effect group of each trial, the item by default: int array (n_trials,)."""
        return self.item if self.effect_group is None else self.effect_group


def _renumber_from_0(labels: Ids) -> Ids:
    """Replace labels by the numbers 0, 1, … in ascending order of the labels, int32 array (n,)."""
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
    """Sum a column over the trials of each agent in each effect group, float (n_agents, n_effect_groups).

    `column` is a float array (n_trials,). A trial counts for both of its agents.
    """
    n_groups = chunk.n_items if chunk.effect_group is None else int(chunk.effect_group.max(initial=-1)) + 1
    return _sum_by_agent(chunk, chunk.effect_groups, (column, column), n_agents, n_groups)


def sum_by_item(chunk: PairChunk, column: Floats, n_agents: int) -> Floats:
    """Sum a column over the trials of each agent on each item, float (n_agents, n_items).

    `column` is a float array (n_trials,). A trial counts for each of its agents that it measures.
    """
    columns = column * chunk.first_weight, column * chunk.second_weight
    return _sum_by_agent(chunk, chunk.item, columns, n_agents, chunk.n_items)


def _sum_by_agent(chunk: PairChunk, group: Ids, columns: tuple[Floats, Floats], n_agents: int, n_groups: int) -> Floats:
    """Sum a column for first agents and one for second agents by agent and group, float (n_agents, n_groups).

    `group` is an int array and `columns` two float arrays (n_trials,).
    """
    sums = np.zeros(n_agents * n_groups)
    for agent, column in zip((chunk.first, chunk.second), columns, strict=True):
        cell = agent * np.int64(n_groups) + group
        sums += np.bincount(cell, column, n_agents * n_groups)
    return sums.reshape(n_agents, n_groups)


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
    Minimises Σ w_ik (m_ik − a_i − a_k)². If several solutions exist, the one of the smallest norm is returned.

    Examples
    --------
    >>> fit_pair_effects(np.ones((3, 3)) - np.eye(3), np.array([0.5, 0.7, 0.8])).round(6)
    array([0. , 0.2, 0.3])
    """
    normal = weight + np.diag(weight.sum(axis=1))
    ridge = _RIDGE * max(float(np.diag(normal).max(initial=0.0)), 1.0)
    try:
        # If agents form two groups and only pairs across them were compared, a constant can move from one group to the
        # other. The ridge selects the shortest of these solutions.
        factor = cho_factor(normal + ridge * np.eye(len(normal)), check_finite=False)
        effects = cho_solve(factor, total, check_finite=False)
    except LinAlgError:
        effects = np.asarray(np.linalg.lstsq(normal, total, rcond=None)[0], dtype=np.float64)
    return np.asarray(effects)


PRIOR_CLUSTERS = 6
"""Weight, in clusters, of the average variance towards which an agent's variance is shrunk."""
UNSEEN_CLUSTERS = 3.54
"""(ln 40 / 1.96)². If none of n clusters has an influence, this many clusters with a unit effect are added, so that
1.96 standard errors are about 1 − .025^(1/n)."""
ROUNDING = 1e-6
"""Influences and differences of abilities below this are due to rounding, or to the ridge of a fit with
missing cells."""
_NO_INFLUENCE = 1e-5
"""Root mean square effect of an agent's clusters below which none of them counts as having an influence."""


@dataclass(frozen=True, eq=False)
class CentredCovariance(ReadOnly):
    """Covariance of the abilities' distances from their mean, θ_i − θ̄.

    The variance of a difference θ_i − θ_k is C_ii + C_kk − 2C_ik.

    Attributes
    ----------
    covariance : float array (n_agents, n_agents)
        Covariance matrix C. θ̄ is the mean over the agents that have an estimate; the rows of other agents are NaN.
    df : float array (n_agents,)
        Degrees of freedom of Student's t for each agent, NaN without an estimate.

    Raises
    ------
    StatisticsError
        [covariance-shape]: if the shapes do not fit each other.
    """

    covariance: Floats
    df: Floats

    def __post_init__(self) -> None:
        n = self.df.size
        if self.df.shape != (n,) or self.covariance.shape != (n, n):
            raise StatisticsError(
                f"The covariance and the degrees of freedom do not fit: got the shapes {self.covariance.shape} and "
                f"{self.df.shape}. Pass arrays of the shapes (n_agents, n_agents) and (n_agents,).",
                slug="covariance-shape",
            )
        super().__post_init__()

    @property
    def std_error(self) -> Floats:
        """Standard errors of the θ_i − θ̄: float array (n_agents,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def half_width(self, level: float = 0.95) -> Floats:
        """Compute the half-widths of Student's t intervals of the θ_i − θ̄.

        Parameters
        ----------
        level : float, default 0.95
            Confidence level.

        Returns
        -------
        float array (n_agents,)
            Half-widths, NaN without an estimate.

        Raises
        ------
        StatisticsError
            [level]: unless 0 < level < 1.
        """
        check_level(level)
        return np.asarray(stdtrit(self.df, (1 + level) / 2) * self.std_error)

    def with_scaled_variances(self, factor: Floats) -> CentredCovariance:
        """Return a copy with the variances of the θ_i − θ̄ multiplied by factors.

        Parameters
        ----------
        factor : float array (n_agents,)
            Factors, at least 0.

        Returns
        -------
        CentredCovariance
            Scaled covariance with the same correlations.

        Raises
        ------
        StatisticsError
            [covariance-shape]: if there is not one factor per agent.
        """
        return CentredCovariance(_scale_rows_and_columns(self.covariance, factor), self.df)

    def with_scaled_ability_variances(self, factor: Floats) -> CentredCovariance:
        """Return a copy with the variances of the θ_i multiplied by factors.

        Use it if the factors of agents differ. The error of each agent enters θ̄, and thereby the distances of
        all agents.

        Parameters
        ----------
        factor : float array (n_agents,)
            Factors, at least 0.

        Returns
        -------
        CentredCovariance
            Covariance, centred again. No variance is smaller than its old value times the agent's factor.

        Raises
        ------
        StatisticsError
            [covariance-shape]: if there is not one factor per agent.

        Notes
        -----
        The θ_i are assumed to be independent on average. Their covariance is then C + tr C/(K(K − 1)), with K agents
        that can be compared. Its rows and columns are scaled and centred.
        """
        is_linked = ~np.isnan(self.covariance)
        n_linked = np.maximum(is_linked.sum(axis=1), 2)
        sum_of_variances = is_linked @ np.nan_to_num(np.diag(self.covariance))
        mean_variance = sum_of_variances / (n_linked * (n_linked - 1))

        scaled = _scale_rows_and_columns(self.covariance + mean_variance[:, None], factor)
        scaled = np.where(is_linked, scaled, 0.0)
        row_mean = scaled.sum(axis=1) / n_linked
        grand_mean = is_linked @ row_mean / n_linked
        centred = scaled - row_mean[:, None] - row_mean + grand_mean[:, None]

        variance = np.diag(centred)
        min_variance = np.diag(self.covariance) * factor
        raised = np.divide(min_variance, variance, out=np.ones(len(n_linked)), where=variance > 0)
        centred = _scale_rows_and_columns(centred, np.maximum(raised, 1.0))
        return CentredCovariance(np.where(is_linked, centred, np.nan), self.df)


def covariance_over_clusters(
    influence: Floats, share: Floats, *, relative_variance: Floats | None = None, anchors: Bools | None = None
) -> CentredCovariance:
    """Estimate the covariance of centred abilities, clustered by item or block.

    This is a sandwich estimator with shrinkage for small numbers of clusters. A cluster is an item or block, one
    independent draw.

    Parameters
    ----------
    influence : float array (n_agents, n_clusters)
        Influence U_ij of cluster j on the ability of agent i; 0 if the cluster has no trial of the agent.
    share : float array (n_agents, n_clusters)
        Share p_ij of cluster j in the weight of agent i. Rows sum to 1, or to 0 for an agent without a trial.
    relative_variance : float array (n_agents,), optional
        Expected ratios of the agents' variances, positive, such as 1 / number of trials. Default: all equal.
    anchors : bool array (n_agents,), optional
        Agents over which θ̄, the mean influence and the average variance are taken. Default: all.

    Returns
    -------
    CentredCovariance
        NaN for an agent in fewer than 2 clusters; all other variances are positive.

    Raises
    ------
    StatisticsError
        [cluster-shape]: if the arrays differ in shape; [cluster-agents]: if fewer than 2 agents are in 2 clusters.

    Notes
    -----
    C = Σ_j g_j g_jᵀ with g_ij = (U_ij − Ū_j)/√(1 − p_ij), Ū_j the mean over agents. For an agent in n_i clusters:

    - Its variance v_i is shrunk to (v_i·(n_i − 1) + 6·s_i·mean(v/s))/(n_i + 5), s the relative variances. Covariances
      are shrunk towards those of independent agents.
    - The term 3.54/2·h_i/m_i² is added for effects that no observed cluster shows, with m_i = 1/Σ_j p_ij² the effective
      number of clusters, and h_i the `unseen_effect_square` of the effects m_i·g_ij.
    - Student's t has n_i + 5 degrees of freedom.

    References
    ----------
    MacKinnon & White (1985), J. Econometrics 29, 305–325 (here by cluster; the shrinkage is youden's own).

    Examples
    --------
    >>> U = np.array([[0.1, -0.1, 0.0, 0.0], [-0.1, 0.1, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    >>> estimate = covariance_over_clusters(U, np.full((3, 4), 0.25))
    >>> bool((estimate.std_error > 0).all()), estimate.df.tolist()
    (True, [9.0, 9.0, 9.0])
    """
    if influence.shape != share.shape or influence.ndim != 2:
        raise StatisticsError(
            f"Influences and shares must have one shape (n_agents, n_clusters): got {influence.shape} and {share.shape}. "
            "Pass both from one run.",
            slug="cluster-shape",
        )
    return covariance_of_chunks(
        [(influence, share)],
        n_clusters=(share > 0).sum(axis=1),
        share_squares=np.einsum("ij,ij->i", share, share),
        relative_variance=relative_variance,
        anchors=anchors,
    )


def covariance_of_chunks(
    chunks: Iterable[Sequence[Floats]],
    *,
    n_clusters: Positions,
    share_squares: Floats,
    relative_variance: Floats | None = None,
    anchors: Bools | None = None,
) -> CentredCovariance:
    """Estimate the covariance of centred abilities from chunks of clusters.

    The estimator is that of `covariance_over_clusters`, with one chunk in memory at a time.

    Parameters
    ----------
    chunks : iterable of (influence, share)
        Float arrays (n_agents, n_clusters_of_chunk): influence of each cluster on each ability, and the cluster's share
        in the weight of each agent.
    n_clusters : int array (n_agents,)
        Number of clusters with a trial of the agent, over all chunks.
    share_squares : float array (n_agents,)
        Sum of the agent's squared shares over all chunks.
    relative_variance : float array (n_agents,), optional
        Expected ratios of the agents' variances, positive. Default: all equal.
    anchors : bool array (n_agents,), optional
        Agents over which θ̄, the mean influence and the average variance are taken. Default: all.

    Returns
    -------
    CentredCovariance
        NaN for an agent in fewer than 2 clusters.

    Raises
    ------
    StatisticsError
        [cluster-agents]: if fewer than 2 agents are in 2 clusters.
    """
    is_estimated = n_clusters >= 2
    is_reference = is_estimated if anchors is None else is_estimated & anchors
    K = int(is_reference.sum())
    if K < 2:
        raise StatisticsError(
            f"Standard errors need 2 agents with trials in 2 clusters (items or blocks): got {K}. Add trials on more items.",
            slug="cluster-agents",
        )

    # arrays over the agents with an estimate
    n = n_clusters[is_estimated].astype(np.float64)
    in_mean = is_reference[is_estimated]
    n_effective = 1 / share_squares[is_estimated]
    gram = np.zeros((len(n), len(n)))
    variance, squares, fourth_powers = np.zeros((3, len(n)))
    for influence, share in chunks:
        U, p = influence[is_estimated], share[is_estimated]
        g = (U - U[in_mean].mean(axis=0)) / np.sqrt(np.maximum(1 - p, ROUNDING))
        gram += g @ g.T
        variance += (g**2).sum(axis=1)
        effect = g * n_effective[:, None]  # effect of a cluster if it were the only one
        squares += (effect**2).sum(axis=1)
        fourth_powers += (effect**4).sum(axis=1)

    s = np.ones(len(n)) if relative_variance is None else relative_variance[is_estimated]
    prior = s * (variance / s)[in_mean].mean()
    trust = (n - 1) / (n - 1 + PRIOR_CLUSTERS)
    unseen = _unseen_effect_square(squares, fourth_powers, n, floor=0.0)
    added = (1 - trust) * prior + UNSEEN_CLUSTERS / 2 * unseen / n_effective**2

    # covariance of independent abilities of variance 1, centred at the mean of the reference agents
    independent = np.eye(len(n)) - np.outer(in_mean, in_mean) / K
    independent = _scale_rows_and_columns(independent, np.where(in_mean, K / (K - 1), 1.0))
    shrunk = _scale_rows_and_columns(gram, trust) + _scale_rows_and_columns(independent, added)

    n_agents = len(n_clusters)
    covariance = np.full((n_agents, n_agents), np.nan)
    covariance[np.ix_(is_estimated, is_estimated)] = shrunk
    df = np.full(n_agents, np.nan)
    df[is_estimated] = n - 1 + PRIOR_CLUSTERS
    return CentredCovariance(covariance, df)


def unseen_effect_square(effect: Floats, n: Floats | Positions, *, floor: float = 0.0) -> Floats:
    """Estimate the squared effect of a kind of cluster that was not observed yet.

    Parameters
    ----------
    effect : float array (n_agents, n_clusters)
        Effect d of each cluster on each agent, as if it were the agent's only cluster.
    n : array (n_agents,)
        Number of clusters of each agent.
    floor : float, default 0
        Smallest value of the factor 1 − 3r/n.

    Returns
    -------
    float array (n_agents,)
        Squared effects, at least 0.

    Notes
    -----
    The estimate is q²·max(1 − 3r/n, floor) with r = (Σd²)²/Σd⁴ and q² = (1 + Σd²)/(1 + r); it is 1 if no cluster has an
    effect. r is the effective number of clusters that make up the variance: k if k of n clusters have equal effects and
    the others none, n/3 if effects are normally distributed. A small r means that effects are rare events, of which
    others may not have occurred yet.
    """
    return _unseen_effect_square((effect**2).sum(axis=1), (effect**4).sum(axis=1), n, floor=floor)


def _unseen_effect_square(squares: Floats, fourth_powers: Floats, n: Floats | Positions, *, floor: float) -> Floats:
    """Compute `unseen_effect_square` from the sums Σd² and Σd⁴ of each agent, float arrays (n_agents,)."""
    has_effect = squares > n * _NO_INFLUENCE**2
    r = np.divide(squares**2, fourth_powers, out=np.zeros(len(squares)), where=has_effect)
    mean_square = (1 + squares) / (1 + r)
    return np.asarray(mean_square * np.maximum(floor, 1 - 3 * r / n))


def _scale_rows_and_columns(matrix: Floats, factor: Floats) -> Floats:
    """Multiply entry (i, k) of a matrix by √(factor_i·factor_k), so that variances are multiplied by `factor`.

    `matrix` is a float array (n_agents, n_agents), `factor` (n_agents,). Raises StatisticsError [covariance-shape] otherwise.
    """
    if factor.shape != matrix.shape[:1]:
        raise StatisticsError(
            f"The factors do not fit the covariance: got the shape {factor.shape} for {len(matrix)} agents. "
            "Pass one factor per agent.",
            slug="covariance-shape",
        )
    root = np.sqrt(factor)
    return np.asarray(matrix * root[:, None] * root)
