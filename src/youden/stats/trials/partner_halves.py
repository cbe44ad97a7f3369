"""Measure how much a ranking depends on the pool of partners, by the split-half reliability over partners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.errors import StatisticsError
from youden.stats.base.metrics import rank_correlation
from youden.stats.base.pair_chunks import fit_pair_effects
from youden.stats.trials.comparisons import rank_with_ties
from youden.types.pool import Bools, Floats, ReadOnly

MIN_AGENTS = 5
"""Smallest number of agents for which halves of the partners are compared."""


@dataclass(frozen=True, eq=False)
class PartnerSplitHalf(ReadOnly):
    """Mean agreement of the rankings from two random halves of the partners.

    Attributes
    ----------
    rho : float
        Mean of Spearman's ρ; sampling error of few answers lowers it as well.
    rank_change : float array (n_agents,)
        Mean absolute difference of an agent's two ranks; NaN if the agent was never compared with both halves.
    n_splits : int
        Number of random splits.
    """

    rho: float
    rank_change: Floats
    n_splits: int


def partner_split_half(
    total: Floats, weight: Floats, *, rng: np.random.Generator, n_splits: int = 20
) -> PartnerSplitHalf:
    """Compare two rankings of all agents, each based on a random half of their partners (agents compared with them).

    Parameters
    ----------
    total : float array (n_agents, n_agents)
        Weighted sums of answers by ordered pair (first agent, second agent), after the mean of each item was subtracted.
    weight : float array (n_agents, n_agents)
        Sums of the weights by ordered pair; 0 for pairs that were not compared.
    rng : numpy.random.Generator
        Source of the random splits.
    n_splits : int, default 20
        Number of splits, each into two halves of the agents that were compared; of an odd number, the second half has one more.

    Returns
    -------
    PartnerSplitHalf
        Means over the splits of Spearman's ρ between the two rankings (`rho`), and of the absolute difference of each agent's two
        ranks (`rank_change`, float array (n_agents,)). NaN if no split is informative, and for an agent that was not compared
        with both halves. `n_splits` is the given number of splits, even if fewer were informative.

    Raises
    ------
    StatisticsError
        [partner-agents]: if fewer than 5 agents were compared with others.

    Notes
    -----
    With m_ik the mean answer to a pair and a the additive effects, half A estimates θ_i as the mean of m_ik − a_k over
    the partners k in A that agent i was compared with. A split counts if both halves rank at least 5 agents.
    """
    n_agents = len(total)
    pair_total, pair_weight = total + total.T, weight + weight.T
    compared = pair_weight > 0
    is_compared = compared.any(axis=1)
    n_compared = int(is_compared.sum())
    if n_compared < MIN_AGENTS:
        raise StatisticsError(
            f"Halves of the partners need {MIN_AGENTS} agents that were compared: got {n_compared}. Add trials of more agents.",
            slug="partner-agents",
        )

    # m_ik − a_k
    mean = np.divide(pair_total, pair_weight, out=np.zeros((n_agents, n_agents)), where=compared)
    effect = fit_pair_effects(compared.astype(np.float64), mean.sum(axis=1))
    without_partner = np.where(compared, mean - effect, 0.0)

    agents = np.flatnonzero(is_compared)
    correlations, rank_changes = [], []
    for _ in range(n_splits):
        half = np.zeros(n_agents, dtype=np.bool_)
        half[rng.permutation(agents)[: n_compared // 2]] = True
        ability = _mean_over_partners(without_partner, compared, half)
        other_ability = _mean_over_partners(without_partner, compared, is_compared & ~half)
        if (~np.isnan(ability + other_ability)).sum() >= MIN_AGENTS:
            rho, change = _compare_rankings(ability, other_ability)
            correlations.append(rho)
            rank_changes.append(change)

    # means over the splits that are informative
    changes = np.array(rank_changes).reshape(-1, n_agents)
    n_changes = (~np.isnan(changes)).sum(axis=0)
    mean_change = np.divide(np.nansum(changes, axis=0), n_changes, out=np.full(n_agents, np.nan), where=n_changes > 0)
    valid = [rho for rho in correlations if not np.isnan(rho)]
    mean_rho = float(np.mean(valid)) if valid else float("nan")
    return PartnerSplitHalf(mean_rho, mean_change, n_splits)


def _compare_rankings(ability: Floats, other_ability: Floats) -> tuple[float, Floats]:
    """Compute Spearman's ρ of two rankings, and the absolute change of each agent's rank.

    ability, other_ability : float arrays (n_agents,); agents with a NaN are left out

    Returns ρ, and the changes, float array (n_agents,), which are NaN for agents that are left out.
    """
    in_both = ~np.isnan(ability) & ~np.isnan(other_ability)
    compared, other_compared = ability[in_both], other_ability[in_both]
    change = np.full(len(ability), np.nan)
    change[in_both] = np.abs(rank_with_ties(compared) - rank_with_ties(other_compared))
    return rank_correlation(compared, other_compared), change


def _mean_over_partners(value: Floats, compared: Bools, partners: Bools) -> Floats:
    """Average rows over some partners, NaN without one: float array (n_agents,).

    value, compared : arrays (n_agents, n_agents), 0 and False for pairs that were not compared
    partners : bool array (n_agents,)
    """
    total = value[:, partners].sum(axis=1)
    n_partners = compared[:, partners].sum(axis=1)
    mean = np.full(len(value), np.nan)
    np.divide(total, n_partners, out=mean, where=n_partners > 0)
    return mean
