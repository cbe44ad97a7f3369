"""Flag groups of agents that agree more than any honest group on record.

Two good agents agree, and so do two agents of one style. The agreement of a group is therefore corrected for what the
abilities of its agents predict, and compared with a bar above the values that honest groups of the same size reach in
recorded runs. Honest styles form pairs and triples; a collusion ring is a clique, in which every pair agrees, so the bar
of a large group is lower. The bars were chosen by `benchmarks/flagged_groups.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.special import betainc, gammaln

from youden.stats.base.pair_chunks import fit_pair_effects
from youden.stats.partners import PairMeans, PairTotals
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly
from youden.types.recommendation import MIN_AGENTS_FOR_COPYING

MIN_RESIDUAL, MIN_RESIDUAL_MADS, MIN_CORRECTED = 0.2, 2.5, 0.3
"""The residual of each pair of a flagged group exceeds .2 and 2.5 median absolute residuals (without their sampling
error), and its corrected agreement exceeds .3."""
MIN_EXPECTED = -0.9
"""Lower limit of the expected agreement of a pair: the additive model predicts negative values for weak agents."""
GROUP_BARS = (0.8, 0.7, 0.6, 0.5)
"""Corrected agreement that a flagged group of 2, 3, 4, and 5 or more agents reaches. Honest groups of four recorded
domains reach .63, .48, 0 and 0 (0: no group of candidates), and .71, .55, .43 and 0 in .98 of random halves."""
ALPHA = 5e-4
"""Significance level of the test of a pair. A pair is tested at most twice, before and after its follow-up trials."""
TOLERANCE, TOLERANCE_ERRORS = 0.05, 2.0
"""A member agrees with the other members as much as they agree with one another, minus this tolerance and this number
of standard errors. An honest agent whose style is like that of a copied agent is thus not flagged with the copies."""
MAX_GROUPS = 300
"""Maximum number of groups that are tested, so that the time is limited in pools of many agents with few answers."""

TUKEY = 4.685
"""Number of standard deviations beyond which Tukey's biweight ignores a pair; its efficiency for normal errors is
95%."""
_MAD_TO_SD = 1.4826
_SD_TO_MAD = 0.6745
_MAX_ITERATIONS = 60
_PRECISION = 1e-3
_DECIMALS = 9


@dataclass(frozen=True, eq=False)
class FlaggedGroups(ReadOnly):
    """Groups of agents that agree more than any honest group on record.

    Attributes
    ----------
    flagged : bool array (n_agents, n_agents)
        Whether two agents are in one flagged group, symmetric; groups may overlap.
    cluster : int32 array (n_agents,)
        Cluster of each agent: a connected component of the flagged pairs, numbered by its first agent.
    undecided : tuple of tuple of int
        Groups that agree as much, but have too few answers to be flagged. The group whose p-value is smallest relative
        to its significance level comes first.
    """

    flagged: Bools
    cluster: Ids
    undecided: tuple[tuple[int, ...], ...]

    @property
    def clusters(self) -> tuple[tuple[int, ...], ...]:
        """Agents of each cluster with two agents or more, the largest first."""
        members = [tuple(np.flatnonzero(self.cluster == label).tolist()) for label in np.unique(self.cluster)]
        groups = [group for group in members if len(group) > 1]
        return tuple(sorted(groups, key=lambda group: (-len(group), group)))


def flag_groups(totals: PairTotals, *, prior_flags: Bools | None = None) -> FlaggedGroups:
    """Flag groups of agents that agree more than any honest group (without collusion) in recorded runs.

    Parameters
    ----------
    totals : PairTotals
        Sums of the answers to all pairs.
    prior_flags : bool array (n_agents, n_agents), optional
        Pairs to flag for other reasons, such as near-duplicate texts. Default: none.

    Returns
    -------
    FlaggedGroups
        Flags and clusters. If there are fewer than 8 agents, or no more compared pairs than agents, only `prior_flags` are
        flagged.

    Notes
    -----
    The mean answer m_ik of a pair is modeled as a_i + a_k, fitted robustly. With e_ik = a_i + a_k plus its standard error,
    the corrected agreement of a group is Σn(m − e)/Σn(1 − e) over its pairs, with n the number of answers: the fraction
    of the largest possible excess over e that the group reaches. Cohen's kappa is the same fraction with the agreement of
    independent raters as e.

    Candidates are pairs with m − e > max(.2, 2.5 MAD) and a corrected agreement above .3. A group is grown from each
    candidate pair. Agents can join if their pairs with all members are candidates; the one with the largest corrected
    agreement with the group joins first. The group stops growing when this agreement is more than .05 plus two standard errors
    below the agreement within the group.

    A group of g of the K agents is flagged if two conditions hold. First, the corrected agreement of each member with the others
    reaches the bar c(g), and is not much lower than the agreement among the other members. Second, if the group agreed
    exactly as much as the bar, a sum of answers at least as large as the observed one would have a probability below .0005·C(K,
    2)/C(K, g), by the binomial distribution with the mean answer Σn(e + c(g)(1 − e))/Σn.

    References
    ----------
    Cohen (1960), Educational and Psychological Measurement 20, 37-46.

    Examples
    --------
    >>> from youden.stats import PairChunk
    >>> agents = np.argwhere(~np.eye(12, dtype=bool))
    >>> first, second = np.tile(agents, (40, 1)).T
    >>> item = np.repeat(np.arange(40), len(agents))
    >>> value = np.where((first < 2) & (second < 2), 1.0, 0.2)
    >>> chunk = PairChunk(first, second, item, value, np.ones(len(item)), np.zeros(len(item)), n_items=40)
    >>> flag_groups(PairTotals.from_chunks([chunk], n_agents=12)).clusters
    ((0, 1),)
    """
    K = len(totals.weight)
    flagged = np.zeros((K, K), dtype=np.bool_)
    undecided: dict[tuple[int, ...], float] = {}
    pairs = PairAgreement.from_totals(totals)
    for group in _iter_grown_groups(pairs):
        # the agents in the order in which they joined: the first two, the first three, and so on
        tests = [_test_group_agreement(pairs, group[:size]) for size in range(2, len(group) + 1)]
        significant = [test for test in tests if test.log_ratio <= 0]
        insufficient = [test for test in tests if test.log_p < 0]
        if significant:
            largest = significant[-1].members
            flagged[np.ix_(largest, largest)] = True
        elif insufficient:
            best = min(insufficient, key=lambda test: test.log_ratio)
            undecided[best.members] = best.log_ratio

    if prior_flags is not None:
        flagged |= prior_flags | prior_flags.T
    np.fill_diagonal(flagged, False)
    by_log_ratio = sorted(undecided, key=lambda members: undecided[members])
    return FlaggedGroups(flagged, _label_components(flagged), tuple(by_log_ratio))


class PairAgreement(NamedTuple):
    """Answers to pairs of agents, compared with the predictions from their abilities.

    The corrected agreement of a pair, or of several pairs, is the sum of `excess` divided by the sum of `max_excess`.

    Attributes
    ----------
    n, total : float array (n_agents, n_agents)
        Number and sum of the answers to each pair, symmetric.
    excess : float array (n_agents, n_agents)
        Answers beyond the prediction, total − n·e, with e the predicted answer plus its standard error; 0 for pairs that
        were not compared.
    max_excess : float array (n_agents, n_agents)
        Largest possible excess, n·(1 − e); 0 for pairs that were not compared.
    is_candidate : bool array (n_agents, n_agents)
        Whether a pair agrees so much that it may be part of a flagged group.
    effect : float array (n_agents,)
        Additive effects of the agents, which represent their abilities.
    """

    n: Floats
    total: Floats
    excess: Floats
    max_excess: Floats
    is_candidate: Bools
    effect: Floats

    @classmethod
    def from_totals(cls, totals: PairTotals) -> PairAgreement:
        """Compare the answers about each pair of agents with the predictions of a robust additive model.

        The prediction of an answer is the sum of the effects of both agents, plus its standard error. The excess of a pair is the
        sum of its answers minus the sum of their predictions. A pair is a candidate if its excess is so large that it may be part
        of a flagged group.

        Parameters
        ----------
        totals : PairTotals
            Sums of the answers to each pair.

        Returns
        -------
        PairAgreement
            Answers, excess and candidates of all pairs, and effects of the agents. If there are fewer than
            `MIN_AGENTS_FOR_COPYING` agents, or no more compared pairs than agents, no pair is a candidate, and all excesses
            and effects are 0.
        """
        means = totals.means
        n_agents = len(means.mean)
        n_answers = means.n
        total = totals.uncentered_total + totals.uncentered_total.T
        is_compared_pair = np.triu(means.compared, 1)  # each pair once
        has_enough_pairs = is_compared_pair.sum() > n_agents
        if n_agents < MIN_AGENTS_FOR_COPYING or not has_enough_pairs:
            zeros = np.zeros((n_agents, n_agents))
            no_candidates = np.zeros((n_agents, n_agents), dtype=np.bool_)
            return cls(n_answers, total, zeros, zeros, no_candidates, np.zeros(n_agents))

        # smallest residual of a candidate: a multiple of the median absolute residual (MAD), from which the part that
        # sampling errors contribute is subtracted
        effect = fit_robust_effects(means)
        residual = np.abs(means.mean - effect[:, None] - effect)[is_compared_pair]
        mad = float(np.median(residual))
        sampling_variance = float(np.median(means.std_error[is_compared_pair] ** 2))
        mad_square = mad**2 - _SD_TO_MAD**2 * sampling_variance
        mad_without_error = np.sqrt(max(mad_square, 0.0))
        min_residual = max(MIN_RESIDUAL, MIN_RESIDUAL_MADS * mad_without_error)

        # predicted answer, plus the standard error of the sum of two effects
        std_error = _MAD_TO_SD * mad * np.sqrt(2 / (n_agents - 2))
        expected = np.maximum(effect[:, None] + effect + std_error, MIN_EXPECTED)
        can_exceed = means.compared & (expected < 1)
        excess = np.where(can_exceed, total - n_answers * expected, 0.0)
        max_excess = np.where(can_exceed, n_answers * (1 - expected), 0.0)

        has_large_residual = np.nan_to_num(means.mean) - expected > min_residual
        has_large_agreement = excess > MIN_CORRECTED * max_excess
        is_candidate = can_exceed & has_large_residual & has_large_agreement
        return cls(n_answers, total, excess, max_excess, is_candidate, effect)


def _iter_grown_groups(pairs: PairAgreement) -> Iterator[list[int]]:
    """Grow groups of agents that agree unusually often with each other.

    Each group starts from a candidate pair of agents, in the order of decreasing agreement. A pair is skipped if an earlier
    group contains both agents.

    Yields the positions of the agents of each group, in the order in which they joined. There are at most `MAX_GROUPS`.
    """
    first, second = np.nonzero(np.triu(pairs.is_candidate, 1))
    corrected = np.round(pairs.excess[first, second] / pairs.max_excess[first, second], _DECIMALS)

    # Of pairs with equal agreement, the one with more answers comes first, and then the one with smaller effects. The result
    # thus does not depend on the order of the agents.
    n_answers = pairs.n[first, second]
    sum_of_effects = pairs.effect[first] + pairs.effect[second]
    order = np.lexsort((sum_of_effects, -n_answers, -corrected))  # the last key counts first

    are_in_one_group = np.zeros(pairs.is_candidate.shape, dtype=np.bool_)
    n_groups = 0
    for agent, partner in zip(first[order].tolist(), second[order].tolist(), strict=True):
        if n_groups == MAX_GROUPS:
            return
        if not are_in_one_group[agent, partner]:
            group = _grow_group(pairs, [agent, partner])
            are_in_one_group[np.ix_(group, group)] = True
            n_groups += 1
            yield group


def _grow_group(pairs: PairAgreement, group: list[int]) -> list[int]:
    """Add agents to a group, one at a time, until no other agent agrees enough with the members.

    An agent agrees enough if it agrees with the members about as much as the members agree with each other.

    group : positions of the first members

    Returns the positions of all members in the order in which they joined.
    """
    while True:
        next_member = _find_next_member(pairs, group)
        if next_member is None:
            return group
        group = [*group, next_member]


def _find_next_member(pairs: PairAgreement, group: list[int]) -> int | None:
    """Find the agent that joins a group next: the eligible agent that agrees most with the members.

    The agent's agreement is computed from the answers that compare it with members. Their excess is the sum of the answers minus
    the sum that abilities predict. The corrected agreement is the excess divided by the largest possible excess.

    pairs : answers to all pairs of agents
    group : positions of the members

    Returns the position of the agent; None if no agent is eligible, or if the best one agrees clearly less with the members than
    the members agree with each other.
    """
    is_eligible = _find_eligible_agents(pairs, group)
    if not is_eligible.any():
        return None

    # sums over the pairs of each agent with the members
    n_answers = pairs.n[:, group].sum(axis=1)
    excess = pairs.excess[:, group].sum(axis=1)
    max_excess = pairs.max_excess[:, group].sum(axis=1)

    # of agents with equal agreement, take the one with more answers, and then the one with the lower ability
    no_agreement = np.full(len(excess), -np.inf)
    corrected = np.divide(excess, max_excess, out=no_agreement, where=is_eligible)
    rounded = np.round(corrected, _DECIMALS)
    order = np.lexsort((pairs.effect, -n_answers, -rounded))  # the last key counts first
    best_agent = int(order[0])

    # the same sums for the members among themselves, in which each pair is counted twice
    in_group = np.ix_(group, group)
    corrected_of_group = pairs.excess[in_group].sum() / pairs.max_excess[in_group].sum()
    n_answers_of_group = pairs.n[in_group].sum() / 2
    is_similar = _agrees_like_group(
        corrected[best_agent], n_answers[best_agent], corrected_of_group, n_answers_of_group
    )
    return best_agent if is_similar else None


def _find_eligible_agents(pairs: PairAgreement, group: list[int]) -> Bools:
    """Find the agents that may join a group, bool array (n_agents,).

    An agent outside the group is eligible under three conditions:

    - It was compared with at least half of the members.
    - Its pairs with these members are all candidate pairs, which agree unusually often.
    - The answers to these pairs can be higher than abilities predict, so that the corrected agreement is defined.

    pairs : answers to all pairs of agents, and the candidates among the pairs
    group : positions of the members
    """
    # pairs of an agent (row) and a member (column)
    is_compared = pairs.n[:, group] > 0
    agrees_too_little = is_compared & ~pairs.is_candidate[:, group]
    n_compared_members = is_compared.sum(axis=1)

    was_compared_enough = 2 * n_compared_members >= len(group)
    can_exceed_prediction = pairs.max_excess[:, group].sum(axis=1) > 0
    is_eligible = ~agrees_too_little.any(axis=1) & was_compared_enough & can_exceed_prediction
    is_eligible[group] = False
    return np.asarray(is_eligible)


def _agrees_like_group(
    corrected: Floats, n_answers: Floats, corrected_of_group: Floats, n_answers_of_group: Floats
) -> Bools:
    """Return whether an agent agrees with a group about as much as the members of the group agree with each other.

    The agent's corrected agreement may be lower than the group's by at most `TOLERANCE` plus `TOLERANCE_ERRORS` standard
    errors of the difference. All arguments are numbers, or arrays of one shape for several agents.

    corrected, n_answers : corrected agreement of the agent with the group, and its number of answers
    corrected_of_group, n_answers_of_group : the same for the members among themselves
    """
    # standard error as for the difference of two proportions with the group's proportion
    variance = np.clip(corrected_of_group * (1 - corrected_of_group), 0, None)
    std_error = np.sqrt(variance * (1 / n_answers + 1 / n_answers_of_group))
    difference = corrected_of_group - corrected
    return np.asarray(difference <= TOLERANCE + TOLERANCE_ERRORS * std_error)


class _GroupTest(NamedTuple):
    """Test of whether a group agrees more than honest groups do.

    Attributes
    ----------
    members : tuple of int
        Positions of the agents, ascending.
    log_p : float
        Logarithm of the p-value; 0 if a member agrees too little with the others.
    log_ratio : float
        Logarithm of the p-value divided by the significance level; infinite if a member agrees too little with the others.
    """

    members: tuple[int, ...]
    log_p: float
    log_ratio: float


def _test_group_agreement(pairs: PairAgreement, group: Sequence[int]) -> _GroupTest:
    """Test whether the agents of a group agree more than honest groups of the same size.

    The excess of a group is the sum of its answers minus the sum that abilities predict. Its corrected agreement is the excess
    divided by the largest possible excess. The null hypothesis is that this agreement equals a limit from `GROUP_BARS`, which is
    above that of honest groups in recorded runs. Honest agents do not collude.

    pairs : answers to all pairs of agents
    group : positions of the members

    Returns the result of the test. The p-value is 1 if a member agrees too little with the others (see `_has_weak_member`).
    """
    members = tuple(sorted(group))
    # the first limit is for pairs, and the last one for all larger groups
    limit_index = min(len(group) - 2, len(GROUP_BARS) - 1)
    agreement_limit = GROUP_BARS[limit_index]

    # sums over the pairs of each member with the others
    in_group = np.ix_(members, members)
    n_answers = pairs.n[in_group].sum(axis=1)
    excess = pairs.excess[in_group].sum(axis=1)
    max_excess = pairs.max_excess[in_group].sum(axis=1)
    if _has_weak_member(n_answers, excess, max_excess, agreement_limit=agreement_limit):
        return _GroupTest(members, log_p=0.0, log_ratio=np.inf)

    # sums over the pairs of the group; the sums by member contain each pair twice
    n_answers_of_group = n_answers.sum() / 2
    max_excess_of_group = max_excess.sum() / 2
    answer_sum = pairs.total[in_group].sum() / 2

    # under the null hypothesis, the sum of the n answers is below its maximum n by (1 − agreement_limit)·max_excess
    distance_from_max = (1 - agreement_limit) * max_excess_of_group
    null_mean = 1 - distance_from_max / n_answers_of_group
    log_p = _compute_log_binomial_tail(answer_sum, n_answers_of_group, null_mean)
    log_alpha = _compute_log_alpha(len(pairs.n), len(group))
    return _GroupTest(members, log_p, log_p - log_alpha)


def _compute_log_binomial_tail(total: float, n_answers: float, mean: float) -> float:
    """Compute the logarithm of the probability that answers with the expected value `mean` have at least the sum `total`.

    The answers are treated as independent values of 0 or 1. `total` and `n_answers` need not be integers.
    """
    with np.errstate(divide="ignore"):
        return float(np.log(betainc(total, n_answers - total + 1, mean)))


def _compute_log_alpha(n_agents: int, size: int) -> float:
    """Compute the logarithm of the significance level of the test of one group of `size` agents.

    The groups of each size together have the same level as all pairs together, `ALPHA` times the number of pairs. This level
    is divided equally among all possible groups of the size.
    """
    return float(np.log(ALPHA) + _compute_log_n_subsets(n_agents, 2) - _compute_log_n_subsets(n_agents, size))


def _has_weak_member(n_answers: Floats, excess: Floats, max_excess: Floats, *, agreement_limit: float) -> bool:
    """Return whether any member of a group agrees too little with the other members.

    A member agrees too little if its agreement is below the limit, or clearly below the agreement of the other members with each
    other.

    n_answers : float array (n_members,), number of answers that compare each member with other members
    excess : float array (n_members,), sum of these answers minus the sum that abilities predict
    max_excess : float array (n_members,), largest possible excess
    agreement_limit : smallest agreement, excess / max_excess, that a member must reach
    """
    is_below_limit = excess < agreement_limit * max_excess
    if is_below_limit.any():
        return True

    # sums over the pairs of the other members: the sum over all pairs, each of which is counted twice, minus the member's pairs
    n_of_others = n_answers.sum() / 2 - n_answers
    excess_of_others = excess.sum() / 2 - excess
    max_excess_of_others = max_excess.sum() / 2 - max_excess

    # only members whose fellow members were compared with each other can be compared with them
    is_compared = n_of_others > _PRECISION
    agreement = excess[is_compared] / max_excess[is_compared]
    agreement_of_others = excess_of_others[is_compared] / max_excess_of_others[is_compared]
    is_similar = _agrees_like_group(agreement, n_answers[is_compared], agreement_of_others, n_of_others[is_compared])
    return not is_similar.all()


def _compute_log_n_subsets(n_elements: int, size: int) -> float:
    """Return the logarithm of the number of subsets with `size` of `n_elements` elements."""
    return float(gammaln(n_elements + 1) - gammaln(size + 1) - gammaln(n_elements - size + 1))


def _label_components(flagged: Bools) -> Ids:
    """Label each agent by the first agent of its connected component, in which flagged pairs are edges: int32 array (n_agents,).

    flagged : bool array (n_agents, n_agents), symmetric
    """
    from scipy.sparse.csgraph import connected_components

    _, component = connected_components(coo_array(flagged), directed=False)  # numbered from 0
    _, first_agent = np.unique(component, return_index=True)
    return np.asarray(first_agent[component], dtype=np.int32)


def fit_robust_effects(means: PairMeans) -> Floats:
    """Fit the additive model m_ik ≈ a_i + a_k robustly.

    Parameters
    ----------
    means : PairMeans
        Mean answers to pairs of agents.

    Returns
    -------
    float array (n_agents,)
        Effects a_i; 0 for an agent that was not compared.

    Notes
    -----
    This is iteratively reweighted least squares, first with weights of least absolute deviations, then with Tukey's
    biweight. The first fit has a single minimum, so that a few colluding agents cannot create another. In the second
    fit, pairs also have the weights 1/(SE² + τ²), with τ² the variance between pairs beyond sampling.

    References
    ----------
    Holland & Welsch (1977), Communications in Statistics 6, 813-827.
    """
    # the compared pairs, each once, with their mean answers and sampling variances: arrays (n_pairs,)
    first, second = np.nonzero(np.triu(means.compared, 1))
    mean, variance = means.mean[first, second], means.std_error[first, second] ** 2
    n_agents = len(means.mean)
    if not len(mean):
        return np.zeros(n_agents)

    # least absolute deviations: weights 1/|residual|
    effect, weight = np.zeros(n_agents), np.ones(len(mean))
    for _ in range(_MAX_ITERATIONS // 2):
        previous, effect = effect, _fit_weighted_effects(first, second, mean, weight, n_agents)
        if np.abs(effect - previous).max() < _PRECISION:
            break
        residual = mean - effect[first] - effect[second]
        weight = 1 / np.maximum(np.abs(residual), _PRECISION)

    # Tukey's biweight: weights (1 − u²)² divided by the variance SE² + τ², with u the standardized residual divided by
    # the one from which pairs are ignored
    for _ in range(_MAX_ITERATIONS // 2):
        residual = mean - effect[first] - effect[second]
        sd = _MAD_TO_SD * float(np.median(np.abs(residual)))
        between_variance = max(sd**2 - float(np.median(variance)), 0.0)
        total_variance = variance + between_variance + _PRECISION**2
        standardized = residual / np.sqrt(total_variance)
        mad = float(np.median(np.abs(standardized)))
        scale = max(_MAD_TO_SD * mad, _PRECISION)
        u = np.clip(standardized / (TUKEY * scale), -1, 1)
        weight = (1 - u**2) ** 2 / total_variance

        previous, effect = effect, _fit_weighted_effects(first, second, mean, weight, n_agents)
        if np.abs(effect - previous).max() < _PRECISION / 100:
            break
    return effect


def _fit_weighted_effects(first: Positions, second: Positions, mean: Floats, weight: Floats, n_agents: int) -> Floats:
    """Fit agent effects to the mean answers of pairs by weighted least squares.

    The model predicts the mean answer of a pair by the sum of the effects of its two agents.

    first, second : int arrays (n_pairs,), agents of each pair
    mean, weight : float arrays (n_pairs,), mean answer of each pair and its weight

    Returns the effects, float array (n_agents,).
    """
    pair_weight = np.zeros((n_agents, n_agents))
    pair_weight[first, second] = weight
    pair_weight += pair_weight.T

    # sum of weight × mean over the pairs of each agent
    weighted_mean = weight * mean
    agent_total = np.bincount(first, weighted_mean, n_agents) + np.bincount(second, weighted_mean, n_agents)
    return fit_pair_effects(pair_weight, agent_total.astype(np.float64))
