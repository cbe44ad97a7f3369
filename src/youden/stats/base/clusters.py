"""Estimate the joint covariance of centered abilities from the influence of independent clusters (items or blocks).

A cluster is one independent draw: the influences of all its trials on an agent are summed before they are squared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from youden.errors import StatisticsError
from youden.stats.base.array_likes import check_arrays
from youden.types.arguments import check_argument
from youden.types.pool import Bools, Floats, Positions, ReadOnly


def check_level(level: float) -> None:
    """Raise ConfigError [argument-type] unless `level` is a number, and StatisticsError [level] unless 0 < level < 1."""
    check_argument("level", level, Real, "Pass a number such as 0.95.")
    if not 0 < level < 1:
        raise StatisticsError(
            f"The confidence level must be between 0 and 1: got {level}. Pass a level such as 0.95.", slug="level"
        )


MIN_ITEMS = 6
"""Minimum number of items of an agent for an interval of its differences from other agents."""
PRIOR_CLUSTERS = 6
"""Weight, in clusters, of the average variance towards which an agent's variance is shrunk."""
_PRIOR_PRODUCTS = 100
"""Weight, in products of residuals, of the average component towards which an agent's component is shrunk."""
UNSEEN_CLUSTERS = 3.54
"""(ln 40 / 1.96)². If none of n clusters has an influence, this many clusters with a unit effect are added, so that
1.96 standard errors are about 1 − .025^(1/n)."""
ROUNDING = 1e-6
"""Influences and differences of abilities below this are due to rounding, or to the ridge of a fit with missing cells."""
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
        [covariance-shape]: if the shapes do not fit each other; [array-numbers]: if a value is not an array of numbers.
    """

    covariance: Floats
    df: Floats

    def __post_init__(self) -> None:
        check_arrays(self.covariance, self.df)
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
        """Return a copy in which the variance of each ability θ_i is multiplied by a factor.

        The factors of the agents may differ. The mean θ̄ contains the errors of all abilities. The factor of one agent therefore
        changes the variances of θ_k − θ̄ of all agents k.

        Parameters
        ----------
        factor : float array (n_agents,)
            Factors, at least 0.

        Returns
        -------
        CentredCovariance
            Covariance of the θ_i − θ̄ with the scaled variances. No variance is smaller than its old value times the
            agent's factor.

        Raises
        ------
        StatisticsError
            [covariance-shape]: if there is not one factor per agent.

        Notes
        -----
        The covariance of the uncentered θ_i is not known. If the covariances of different agents have the mean 0, it is
        C + v, with v = tr C/(K(K − 1)) the variance of θ̄ and K the number of agents that can be compared. C + v is
        scaled, and centered again by subtracting the means of its rows and columns.
        """
        # C + v; tr C and K are those of the agents that can be compared with agent i
        is_comparable = ~np.isnan(self.covariance)
        n_comparable = np.maximum(is_comparable.sum(axis=1), 2)
        trace = is_comparable @ np.nan_to_num(np.diag(self.covariance))
        mean_variance = trace / (n_comparable * (n_comparable - 1))
        uncentered = self.covariance + mean_variance[:, None]

        scaled = np.where(is_comparable, _scale_rows_and_columns(uncentered, factor), 0.0)
        row_mean = scaled.sum(axis=1) / n_comparable
        grand_mean = is_comparable @ row_mean / n_comparable
        centered = scaled - row_mean[:, None] - row_mean + grand_mean[:, None]

        # raise each variance that is smaller than its old value times the factor
        variance = np.diag(centered)
        min_variance = np.diag(self.covariance) * factor
        ratio = np.divide(min_variance, variance, out=np.ones(len(variance)), where=variance > 0)
        raised = _scale_rows_and_columns(centered, np.maximum(ratio, 1.0))
        return CentredCovariance(np.where(is_comparable, raised, np.nan), self.df)


def covariance_over_clusters(
    influence: Floats, share: Floats, *, relative_variance: Floats | None = None, anchors: Bools | None = None
) -> CentredCovariance:
    """Estimate the covariance of centered abilities, clustered by item or block.

    This is a sandwich estimator with shrinkage for few clusters. A cluster is an item or block, one independent draw.

    Parameters
    ----------
    influence : float array (n_agents, n_clusters)
        Influence U_ij of cluster j on the ability of agent i; 0 if the cluster has no trial of the agent.
    share : float array (n_agents, n_clusters)
        Share p_ij of cluster j in the weight of agent i. Rows sum to 1, or to 0 for an agent without a trial.
    relative_variance : float array (n_agents,), optional
        Expected variances of the agents in any common unit, above 0: for example, 1 / number of trials. Default: all equal.
    anchors : bool array (n_agents,), optional
        Agents over which the mean ability θ̄, the mean influence and the average variance are taken; those in fewer than 2
        clusters are left out. Default: all.

    Returns
    -------
    CentredCovariance
        `covariance`, float array (n_agents, n_agents), of the differences θ_i − θ̄, and `df`, float array (n_agents,), degrees of
        freedom of Student's t. Both are NaN for an agent in fewer than 2 clusters. All other variances are positive.

    Raises
    ------
    StatisticsError
        [cluster-shape]: if `influence` and `share` are not matrices of one shape; [cluster-agents]: if fewer than 2 of the
        `anchors` are in 2 or more clusters.

    Notes
    -----
    C = Σ_j g_j g_jᵀ with g_ij = (U_ij − Ū_j)/√(1 − p_ij), Ū_j the mean over the anchors. For an agent in n_i clusters:

    - Its variance v_i is shrunk to (v_i·(n_i − 1) + 6·s_i·mean(v/s))/(n_i + 5), s the relative variances. Covariances
      are shrunk towards those of independent agents.
    - The term 3.54/2·h_i/m_i² is added to v_i for effects that no observed cluster shows, with m_i = 1/Σ_j p_ij² the effective
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


def make_clusters_error(n_agents: int) -> StatisticsError:
    """Return the error [cluster-agents]: only `n_agents` agents, fewer than 2, have trials in at least 2 clusters."""
    return StatisticsError(
        f"Standard errors need 2 agents with trials in 2 clusters (items or blocks): got {n_agents}. Add trials on more items.",
        slug="cluster-agents",
    )


def covariance_of_chunks(
    chunks: Iterable[Sequence[Floats]],
    *,
    n_clusters: Positions,
    share_squares: Floats,
    relative_variance: Floats | None = None,
    anchors: Bools | None = None,
) -> CentredCovariance:
    """Estimate the covariance of centered abilities from chunks of clusters.

    This is the estimator of `covariance_over_clusters`, with only one chunk in memory at a time.

    Parameters
    ----------
    chunks : iterable of (influence, share)
        Float arrays (n_agents, n_clusters_of_chunk): influence of each cluster on each ability, and the cluster's share
        in the weight of each agent. Each cluster is in one chunk. The iterable is read once.
    n_clusters : int array (n_agents,)
        Number of clusters with a trial of the agent, over all chunks.
    share_squares : float array (n_agents,)
        Sum of the agent's squared shares over all chunks.
    relative_variance : float array (n_agents,), optional
        Expected variances of the agents in any common unit, above 0: for example, 1 / number of trials. Default: all equal.
    anchors : bool array (n_agents,), optional
        Agents over which the mean ability θ̄, the mean influence and the average variance are taken; those in fewer than 2
        clusters are left out. Default: all.

    Returns
    -------
    CentredCovariance
        `covariance`, float array (n_agents, n_agents), of the differences θ_i − θ̄, and `df`, float array (n_agents,), degrees of
        freedom of Student's t. Both are NaN for an agent in fewer than 2 clusters.

    Raises
    ------
    StatisticsError
        [cluster-agents]: if fewer than 2 of the `anchors` are in 2 or more clusters.
    """
    is_estimated = n_clusters >= 2
    is_reference = is_estimated if anchors is None else is_estimated & anchors
    K = int(is_reference.sum())
    if K < 2:
        raise make_clusters_error(K)

    # arrays over the agents with an estimate
    n = n_clusters[is_estimated].astype(np.float64)
    in_mean = is_reference[is_estimated]
    n_effective = 1 / share_squares[is_estimated]
    estimated_chunks = ((influence[is_estimated], share[is_estimated]) for influence, share in chunks)
    sums = _sum_influence(estimated_chunks, in_mean, n_effective)

    # shrinkage: the prior variance s_i·mean(v/s) has the weight of PRIOR_CLUSTERS clusters
    ratio = np.ones(len(n)) if relative_variance is None else relative_variance[is_estimated]
    prior_variance = ratio * (sums.variance / ratio)[in_mean].mean()
    data_weight = (n - 1) / (n - 1 + PRIOR_CLUSTERS)

    # variance added to the shrunk one: that of the prior, and that of effects which no cluster has shown
    unseen_square = _estimate_unseen_square(sums.effect_squares, sums.effect_fourth_powers, n, floor=0.0)
    unseen_variance = UNSEEN_CLUSTERS / 2 * unseen_square / n_effective**2
    added_variance = (1 - data_weight) * prior_variance + unseen_variance
    added = _scale_rows_and_columns(_independent_covariance(in_mean), added_variance)
    shrunk = _scale_rows_and_columns(sums.products, data_weight) + added

    n_agents = len(n_clusters)
    covariance = np.full((n_agents, n_agents), np.nan)
    covariance[np.ix_(is_estimated, is_estimated)] = shrunk
    df = np.full(n_agents, np.nan)
    df[is_estimated] = n - 1 + PRIOR_CLUSTERS
    return CentredCovariance(covariance, df)


class _InfluenceSums(NamedTuple):
    """Sums over clusters of the corrected influence g_ij = (U_ij − Ū_j)/√(1 − p_ij) of cluster j on agent i.

    Attributes
    ----------
    products : float array (n_agents, n_agents)
        Σ_j g_ij·g_kj for agents i and k.
    variance : float array (n_agents,)
        Σ_j g_ij², the diagonal of `products`.
    effect_squares, effect_fourth_powers : float array (n_agents,)
        Σ_j d_ij² and Σ_j d_ij⁴, with d_ij the effect that the cluster would have if it were the agent's only one.
    """

    products: Floats
    variance: Floats
    effect_squares: Floats
    effect_fourth_powers: Floats


def _sum_influence(chunks: Iterable[tuple[Floats, Floats]], in_mean: Bools, n_effective: Floats) -> _InfluenceSums:
    """Sum products, squares and fourth powers of the influence of clusters on agents' estimates, over all clusters.

    The sums contain two values for each agent i and cluster j:

    - The corrected influence g_ij = (U_ij − Ū_j)/√(1 − p_ij). U_ij is the influence, and p_ij the cluster's share of the agent's
      trials. The divisor is that of the HC2 estimator: a cluster with a large share has residuals that are too small.
    - The effect d_ij, which is g_ij times the effective number of the agent's clusters.

    chunks : influence U and share p, float arrays (n_agents, n_clusters_of_chunk)
    in_mean : bool array (n_agents,), agents over which the mean influence Ū of a cluster is taken
    n_effective : float array (n_agents,), effective number of clusters of each agent
    """
    n_agents = len(n_effective)
    products = np.zeros((n_agents, n_agents))
    variance, effect_squares, effect_fourth_powers = np.zeros((3, n_agents))
    for influence, share in chunks:
        centered = influence - influence[in_mean].mean(axis=0)
        corrected = centered / np.sqrt(np.maximum(1 - share, ROUNDING))
        products += corrected @ corrected.T
        variance += (corrected**2).sum(axis=1)

        effect = corrected * n_effective[:, None]
        effect_squares += (effect**2).sum(axis=1)
        effect_fourth_powers += (effect**4).sum(axis=1)
    return _InfluenceSums(products, variance, effect_squares, effect_fourth_powers)


def _independent_covariance(in_mean: Bools) -> Floats:
    """Compute the covariance of independent abilities, measured from the mean of some agents, scaled to variances of 1.

    in_mean : bool array (n_agents,), agents over which the mean is taken

    Returns a float array (n_agents, n_agents).
    """
    K = int(in_mean.sum())
    centered = np.eye(len(in_mean)) - np.outer(in_mean, in_mean) / K
    return _scale_rows_and_columns(centered, np.where(in_mean, K / (K - 1), 1.0))


def unseen_effect_square(effect: Floats, n: Floats | Positions, *, floor: float = 0.0) -> Floats:
    """Estimate the squared effect of a kind of cluster that was not observed yet.

    Parameters
    ----------
    effect : float array (n_agents, n_clusters)
        Effect d of each cluster on each agent if it were the agent's only cluster, on the scale of answers; 0 for a cluster
        without a trial of the agent.
    n : array (n_agents,)
        Number of clusters of each agent, at least 1.
    floor : float, default 0
        Smallest value of the factor 1 − 3r/n of the notes, from 0 to 1.

    Returns
    -------
    float array (n_agents,)
        Squared effects, at least 0, in the squared unit of `effect`; 1 for an agent on which no cluster has an effect (root mean
        square below 1e-5).

    Notes
    -----
    The estimate is q²·max(1 − 3r/n, floor). The mean squared effect is q² = (1 + Σd²)/(1 + r), in which one effect of size 1 is
    added to those observed. r = (Σd²)²/Σd⁴, or 0 without effects, is the effective number of clusters that make up the variance:
    k if k of n clusters have equal effects and the others none, n/3 if effects are normally distributed. A small r means that
    effects are rare: other clusters may have an effect, but were not observed.
    """
    return _estimate_unseen_square((effect**2).sum(axis=1), (effect**4).sum(axis=1), n, floor=floor)


def _estimate_unseen_square(
    squares: Floats, fourth_powers: Floats, n_clusters: Floats | Positions, *, floor: float
) -> Floats:
    """Estimate the squared effect that an unobserved cluster may have, from sums over the observed clusters.

    The estimate is q²·max(floor, 1 − 3r/n):

    - q² is the mean squared effect.
    - r is the effective number of clusters that have an effect. If r is small, the sample has probably missed other such
      clusters, and the estimate is large. Normally distributed effects have r = n/3, for which the factor is `floor`.

    squares, fourth_powers : float arrays (n_agents,), sums of d² and d⁴ over the effects d of each agent's clusters
    n_clusters : array (n_agents,), number n of clusters of each agent
    floor : smallest value of the factor 1 − 3r/n
    """
    # r = (Σd²)²/Σd⁴; 0 if the mean squared effect is negligible
    has_effect = squares > n_clusters * _NO_INFLUENCE**2
    n_with_effect = np.divide(squares**2, fourth_powers, out=np.zeros(len(squares)), where=has_effect)

    # q² = (1 + Σd²)/(1 + r), in which one effect of size 1 is added to the observed ones
    mean_square = (1 + squares) / (1 + n_with_effect)
    reduction_factor = np.maximum(floor, 1 - 3 * n_with_effect / n_clusters)
    return np.asarray(mean_square * reduction_factor)


def shrink_component(
    product_sum: Floats, n_products: Floats, relative_variance: Floats, *, correction: float = 0.0
) -> Floats:
    """Estimate a variance component of each agent from products of its residuals, shrunk towards the average component.

    If two residuals share an effect, such as that of an item, the expected value of their product is the variance of the effect.

    Parameters
    ----------
    product_sum, n_products : float array (n_agents,)
        Sums and numbers of the products of two residuals that share the effect, without NaN.
    relative_variance : float array (n_agents,)
        Variance of the agent's residuals divided by the mean over all agents; NaN counts as 0.
    correction : float, default 0
        Value that is added to each product, if products are too small because a mean was subtracted from the residuals.

    Returns
    -------
    float array (n_agents,)
        Variances of the effect, at least 0. Each is the mean of the agent's products, increased by `correction`, and of 100 added
        products. An added product is the average component times the agent's relative variance. The average component is the
        mean of the products of all agents (0 without any) plus `correction`, but at least 0.
    """
    mean_product = float(product_sum.sum() / max(n_products.sum(), 1))
    average_component = max(0.0, mean_product + correction)

    corrected_sum = product_sum + n_products * correction
    prior_sum = _PRIOR_PRODUCTS * average_component * np.nan_to_num(relative_variance)
    mean = (corrected_sum + prior_sum) / (n_products + _PRIOR_PRODUCTS)
    return np.asarray(np.maximum(mean, 0.0))


def _scale_rows_and_columns(matrix: Floats, factor: Floats) -> Floats:
    """Multiply entry (i, k) of a covariance matrix by √(factor_i·factor_k), so that variances are multiplied by `factor`.

    `matrix` is a float array (n_agents, n_agents), `factor` (n_agents,). Raises StatisticsError [covariance-shape] otherwise.
    """
    check_arrays(factor)
    if factor.shape != matrix.shape[:1]:
        raise StatisticsError(
            f"The factors do not fit the covariance: got the shape {factor.shape} for {len(matrix)} agents. "
            "Pass one factor per agent.",
            slug="covariance-shape",
        )
    root = np.sqrt(factor)
    return np.asarray(matrix * root[:, None] * root)
