"""Measure the information in repeated responses of one agent: its self-consistency J, and Pearson and KL replication scores.

Items are the sampling unit. An independent trial shows responses to two items, so its answer is correlated with those of all
trials on either item; the variance of J is therefore clustered by both items.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import digamma

from youden.errors import StatisticsError
from youden.stats.base.array_likes import check_indexes, takes_array_likes
from youden.stats.base.clusters import ROUNDING, UNSEEN_CLUSTERS, CentredCovariance, unseen_effect_square
from youden.stats.base.pair_chunks import check_positions, check_trials
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly

_MIN_DIFFERENT_ITEMS = 1.7
"""Standard error of J, in units of FPR / number of items, that an agent with nearly constant responses has at least. Tuned on
simulated agents of `benchmarks/replication.py` (seed 11, 400 draws)."""


class ReplicationScores(NamedTuple):
    """Replication scores of responses; their means estimate information about the item, in the judge's equivalence classes.

    Attributes
    ----------
    pearson : float array (n_responses,)
        Pearson scores, at least −1, whose mean is the χ² information; NaN if the answers end before the score is known.
    kl : float array (n_responses,)
        KL scores, whose mean is the Shannon information in nats; NaN if the answers end before both first matches.
    """

    pearson: Floats
    kl: Floats


def replication_scores(same_item: ArrayLike, other_items: ArrayLike) -> ReplicationScores:
    """Compute Pearson and KL replication scores from the answers to sequences of comparisons.

    Each row belongs to one response Y of an agent. It is compared with further responses to the same item, and with
    responses to other random items, in the order of the columns, at least until one of them matches Y.

    Parameters
    ----------
    same_item : array_like (n_responses, n_same)
        Answers 0 and 1 (1 = match) to the comparisons with further responses to the same item; NaN if an answer is
        missing or the sequence has ended. Missing answers are skipped; append NaN to a row that is shorter than others.
    other_items : array_like (n_responses, n_other)
        Answers to the comparisons with responses to other items, in the same form.

    Returns
    -------
    ReplicationScores
        One score of each kind per response.

    Raises
    ------
    StatisticsError
        [array-index]: if DataFrames have different indexes;
        [replication-shape]: unless both arrays have two dimensions, rows of equal length and equally many rows;
        [replication-answers]: if an answer is neither 0, 1 nor NaN.

    Notes
    -----
    R₀ is the number of responses to other items up to the first match, and R₁ the number of further responses to the same item up
    to the first match. The Pearson score is −1 if the first further response does not match, else R₀ − 1. The KL score is H(R₀ −
    1) − H(R₁ − 1), with the harmonic numbers H(m) = Σ_{j≤m} 1/j. If the judge's relation is an equivalence, with classes A, then
    R₀ and R₁ are geometric, and the means are I_χ²(X; A) = E[P(A|X)/P(A)] − 1 and I(X; A). Rows whose score is NaN have long
    sequences, so that a mean over the other rows is biased: judge until each sequence has a match.

    References
    ----------
    Robertson (2026), Mutual Evaluation and Supervision without Peers, arXiv 2609.20789.

    Examples
    --------
    >>> scores = replication_scores([[1, 0], [0, 1]], [[0, 0, 1], [0, 1, 1]])
    >>> scores.pearson.tolist(), scores.kl.tolist()
    ([2.0, -1.0], [1.5, 0.0])
    """
    check_indexes([same_item, other_items], columns=False)
    same_answers, other_answers = _to_array(same_item), _to_array(other_items)
    if same_answers.ndim != 2 or other_answers.ndim != 2 or len(same_answers) != len(other_answers):
        raise StatisticsError(
            f"Answers must have the shape (n_responses, n_comparisons): got {same_answers.shape} on the same item and "
            f"{other_answers.shape} on other items. Pass two arrays with one row per response.",
            slug="replication-shape",
        )
    all_answers = np.concatenate([same_answers.ravel(), other_answers.ravel()])
    is_valid = np.isnan(all_answers) | (all_answers == 0) | (all_answers == 1)
    if not is_valid.all():
        raise StatisticsError(
            f"Matches must be 0 or 1, or NaN if missing: got {all_answers[~is_valid][0]}. Round graded answers first.",
            slug="replication-answers",
        )
    n_same, n_other = _count_until_match(same_answers), _count_until_match(other_answers)

    # 1 if the first answered comparison with the same item is a match; NaN if none was answered
    is_first_match = np.where(np.isnan(same_answers).all(axis=1), np.nan, n_same == 1)
    pearson = np.where(is_first_match == 0, -1.0, np.where(is_first_match == 1, n_other - 1, np.nan))

    # H(R₀ − 1) − H(R₁ − 1), where H(m) is digamma(m + 1) plus a constant
    kl = digamma(n_other) - digamma(n_same)
    return ReplicationScores(pearson, kl)


def _to_array(answers: ArrayLike) -> Floats:
    """Return answers as a float array; raise StatisticsError [replication-shape] if they do not form one."""
    try:
        return np.asarray(answers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise StatisticsError(
            f"Answers must be numbers in rows of equal length: got {reprlib.repr(answers)}. Append "
            "`float('nan')` to shorter rows; it stands for no answer.",
            slug="replication-shape",
        ) from error


def _count_until_match(answers: Floats) -> Floats:
    """Count the answered comparisons up to and including the first match: float array (n_responses,), NaN without a match.

    answers : float array (n_responses, n_comparisons), 0, 1 (match) or NaN (missing)
    """
    is_match = answers == 1
    is_before_first_match = is_match.cumsum(axis=1) == 0
    is_mismatch_before = is_before_first_match & (answers == 0)
    n_until_match = is_mismatch_before.sum(axis=1) + 1.0  # the mismatches before the first match, and the match
    return np.where(is_match.any(axis=1), n_until_match, np.nan)


@dataclass(frozen=True, eq=False)
class SelfConsistency(ReadOnly):
    """Self-consistency of agents: J = TPR − FPR from repeated responses of each agent.

    TPR and FPR are mean answers in [0, 1]; for a judge that answers yes or no, they are rates of yes.

    Attributes
    ----------
    value : float array (n_agents,)
        J of each agent; NaN unless it has answers of both trial types.
    tpr, fpr : float array (n_agents,)
        Mean answers to two responses of the agent to one item, and to two different items; NaN without an answer.
    n_paired, n_independent : int array (n_agents,)
        Numbers of answers.
    n_items : int array (n_agents,)
        Number of items with an answer.
    covariance : CentredCovariance
        Covariance of `value`, not centered, and degrees of freedom; NaN for an agent with fewer than 2 items, or without
        answers of one trial type.
    """

    value: Floats
    tpr: Floats
    fpr: Floats
    n_paired: Positions
    n_independent: Positions
    n_items: Positions
    covariance: CentredCovariance


@takes_array_likes
def estimate_self_consistency(
    agent: Ids | Positions,
    item: Ids | Positions,
    other_item: Ids | Positions,
    answer: Floats,
    *,
    n_agents: int,
    n_items: int,
) -> SelfConsistency:
    """Estimate the self-consistency of agents from trials between two responses of the same agent.

    Parameters
    ----------
    agent : int array (n_trials,)
        Position of the agent of both responses.
    item, other_item : int array (n_trials,)
        Positions of the items of the first and of the second response. `other_item` is −1 (or any negative number) for a paired
        trial, whose responses are both to `item`.
    answer : float array (n_trials,)
        Answers in [0, 1]; NaN if missing.
    n_agents, n_items : int
        Numbers of agents and items.

    Returns
    -------
    SelfConsistency
        Arrays (n_agents,): J = TPR − FPR (`value`), `tpr`, `fpr`, the numbers of answers `n_paired` and `n_independent`, and the
        number of items `n_items`; and the `covariance` of J for items like these (CentredCovariance, with `df`), which is not
        centered. J is NaN for an agent without answers of one trial type. Its standard error is also NaN for fewer than 2 items.

    Raises
    ------
    StatisticsError
        [trial-columns]: if the columns differ in length; [trial-position]: if an agent or item is not a position in the
        range, or if both items of a trial are equal; [trial-answer]: if an answer is not in [0, 1].

    Notes
    -----
    J is the mean paired answer minus the mean independent answer. Let e_t be the residual of trial t, divided by the number
    of trials of its type, with a minus sign for independent trials. The covariance is the dyadic cluster-robust one,
    n/(n − 1)·(Σ_j S_j S_jᵀ − Σ_d D_d D_dᵀ) over n items: S_j sums e over the trials that show item j, and D_d over the
    independent trials of the two items d, which would be counted twice. A variance is at least the variance for independent
    pairs of items. For effects that no item has shown yet, it is increased as in `covariance_over_clusters`. A standard error
    is at least 1.7·FPR/n, because an item whose response is unlike the responses to most items changes J by up to 2·FPR/n, and
    few such items may have been drawn.

    Student's t has 2(m − 2) degrees of freedom, at least 2 and at most n − 1, where m = (Σ_j S_j²)²/Σ_j S_j⁴ is the effective
    number of items. The number m is small if few items determine J. If no item has an influence, the degrees of freedom are
    n − 1. The factor 2 was tuned on the simulated agents of `benchmarks/replication.py`.

    References
    ----------
    Aronow, Samii & Assenova (2015), Political Analysis 23, 564–577 (dyadic cluster-robust variance).
    Carter, Schnepel & Steigerwald (2017), Review of Economics and Statistics 99, 698–709 (effective number of clusters).
    """
    check_trials(agent, item, other_item, answer=np.nan_to_num(answer))
    check_positions(agent, n_agents, noun="agent")
    check_positions(item, n_items, noun="item")
    check_positions(np.maximum(other_item, 0), n_items, noun="item")
    if (item == other_item).any():
        raise StatisticsError(
            "Both items of an independent trial must differ: got equal items. Set `other_item` to -1 if both responses are to "
            "one item.",
            slug="trial-position",
        )
    outside = answer[(answer < 0) | (answer > 1)]
    if len(outside):
        raise StatisticsError(
            f"Answers must be from 0 to 1: got {outside[0]}. Pass 1 for yes and 0 for no.", slug="trial-answer"
        )
    answered = ~np.isnan(answer)
    agent, item, other_item, answer = agent[answered], item[answered], other_item[answered], answer[answered]
    is_paired = other_item < 0
    tpr, n_paired = _average_selected_answers(agent, answer, is_paired, n_agents)
    fpr, n_independent = _average_selected_answers(agent, answer, ~is_paired, n_agents)

    # e_t, the influence of each trial on J
    of_paired_trials = (answer - tpr[agent]) / np.maximum(n_paired, 1)[agent]
    of_independent_trials = (fpr[agent] - answer) / np.maximum(n_independent, 1)[agent]
    influence = np.where(is_paired, of_paired_trials, of_independent_trials)

    # number of items of each agent
    is_shown = np.zeros((n_agents, n_items), dtype=np.bool_)
    is_shown[agent, item] = True
    is_shown[agent[~is_paired], other_item[~is_paired]] = True
    n_shown = is_shown.sum(axis=1)
    n_or_1 = np.maximum(n_shown, 1)
    has_interval = (n_shown > 1) & (n_paired > 0) & (n_independent > 0)

    # the clustered covariance times n/(n − 1), plus the variance of effects that no item has shown yet
    by_item, clustered = _cluster_by_item(influence, agent, (item, other_item), (n_agents, n_items))
    scale = np.sqrt(np.where(has_interval, n_shown / np.maximum(n_shown - 1, 1), np.nan))
    unseen_variance = UNSEEN_CLUSTERS * unseen_effect_square(by_item * n_shown[:, None], n_or_1) / n_or_1**2
    covariance = clustered * np.outer(scale, scale) + np.diag(unseen_variance)

    min_std_error = _MIN_DIFFERENT_ITEMS * np.nan_to_num(fpr) / n_or_1
    covariance = _replace_variances(covariance, np.maximum(covariance.diagonal(), min_std_error**2))
    return SelfConsistency(
        value=tpr - fpr,
        tpr=tpr,
        fpr=fpr,
        n_paired=n_paired,
        n_independent=n_independent,
        n_items=n_shown,
        covariance=CentredCovariance(covariance, np.where(has_interval, _compute_df(by_item, n_shown), np.nan)),
    )


def _average_selected_answers(
    agent: Ids | Positions, answer: Floats, is_selected: Bools, n_agents: int
) -> tuple[Floats, Positions]:
    """Compute the mean answer and the number of the selected trials of each agent.

    agent : int array (n_trials,), agent of each trial
    answer : float array (n_trials,)
    is_selected : bool array (n_trials,), trials to average

    Returns means, float array (n_agents,), NaN for an agent without a selected trial, and numbers, int array (n_agents,).
    """
    n_trials = np.bincount(agent[is_selected], minlength=n_agents)
    answer_sum = np.bincount(agent[is_selected], answer[is_selected], n_agents)
    mean = np.divide(answer_sum, n_trials, out=np.full(n_agents, np.nan), where=n_trials > 0)
    return mean, n_trials


def _compute_df(influence: Floats, n_shown: Positions) -> Floats:
    """Compute the degrees of freedom of each agent's Youden's J, float array (n_agents,): few if few items determine J.

    influence : float array (n_agents, n_items), influence of each item on J
    n_shown : int array (n_agents,), number of items of each agent
    """
    # effective number of items, (Σ S²)²/Σ S⁴ with the influence S; no limit if no item has an influence
    squares = np.square(influence)
    square_of_sum = np.square(squares.sum(axis=1))
    fourth_powers = np.square(squares).sum(axis=1)
    has_influence = np.abs(influence).max(axis=1, initial=0) > ROUNDING
    no_limit = np.full(len(squares), np.inf)
    n_effective = np.divide(square_of_sum, fourth_powers, out=no_limit, where=has_influence)

    df = np.maximum(2 * (n_effective - 2), 2)
    return np.asarray(np.minimum(df, n_shown - 1.0))


def _cluster_by_item(
    influence: Floats, agent: Ids | Positions, items: tuple[Ids | Positions, Ids | Positions], shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Sum the influence of trials on Youden's J by item, and compute the covariance of J, clustered by item.

    A paired trial has one item, and an independent trial has two. A variance is at least the variance in which each pair of
    items is a separate cluster.

    influence, agent : arrays (n_trials,), influence of each trial (its contribution to the error of J), and its agent
    items : int arrays (n_trials,), items of both responses of a trial; the second one is −1 for a paired trial
    shape : numbers of agents and of items

    Returns the sums, float array (n_agents, n_items), and the covariance, float array (n_agents, n_agents), without the factor
    n/(n − 1) for n items.
    """
    first_item, second_item = items
    n_agents, n_items = shape
    is_paired = second_item < 0
    paired_sums = _sum_by_cell(influence[is_paired], agent[is_paired], first_item[is_paired], shape)

    # an independent trial counts for both of its items, and once for the pair of items
    influence, agent = influence[~is_paired], agent[~is_paired]
    low_item, high_item = np.sort([first_item[~is_paired], second_item[~is_paired]], axis=0)
    low_sums = _sum_by_cell(influence, agent, low_item, shape)
    high_sums = _sum_by_cell(influence, agent, high_item, shape)
    item_pair = low_item * np.int64(n_items) + high_item
    pair_sums = _sum_by_cell(influence, agent, item_pair, (n_agents, n_items**2))

    # products of sums by item count each pair of items twice, once for each item: subtract them once
    by_item = (paired_sums + (low_sums + high_sums)).toarray()
    pair_products = pair_sums @ pair_sums.T
    covariance = by_item @ by_item.T - pair_products.toarray()

    # variance with the items of paired trials, and the pairs of items of independent trials, as independent clusters
    min_variance = (paired_sums @ paired_sums.T + pair_products).diagonal()
    return by_item, _replace_variances(covariance, np.maximum(covariance.diagonal(), min_variance))


def _sum_by_cell(value: Floats, row: Ids | Positions, column: Ids | Positions, shape: tuple[int, int]) -> csr_array:
    """Sum values by row and column, as a sparse array: values with the same row and column are added."""
    return csr_array((value, (row, column)), shape=shape)


def _replace_variances(covariance: Floats, variance: Floats) -> Floats:
    """Replace the variances of a covariance matrix, and limit its correlations to [−1, 1].

    covariance : float array (n_agents, n_agents)
    variance : float array (n_agents,), new variances, at least 0

    Returns a new matrix.
    """
    limit = np.sqrt(np.outer(variance, variance))
    limited = np.clip(covariance, -limit, limit)
    np.fill_diagonal(limited, variance)
    return limited
