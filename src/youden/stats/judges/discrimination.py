"""Estimate Youden's J of a judge with a confidence interval, and test whether abilities differ at all.

The intervals of J's two rates are Wilson intervals at an effective sample size, so that J has a valid interval also if
a rate is 0 or 1 and if answers on one item are correlated.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import fdtrc, ndtri, stdtrit

from youden.stats.base.clusters import ROUNDING, CentredCovariance, check_level
from youden.stats.base.metrics import Metric
from youden.stats.base.proportions import Proportion, independent_difference, proportion
from youden.types.pool import Floats, Ids


class ItemTotals:
    """Answers of one trial type, summed by item; chunks of trials add up.

    Parameters
    ----------
    n_items : int
        Number of items of the plan.

    Attributes
    ----------
    item_weight, item_sum : float array (n_items,)
        Total weight of the trials of each item, and the weighted sum of their answers. A trial of two items counts for
        both.
    weight, answer_sum, square_sum : float
        Total weight of all trials, and the weighted sums of their answers and of the squared answers.
    """

    def __init__(self, n_items: int) -> None:
        self.item_weight, self.item_sum = np.zeros((2, n_items))
        self.weight, self.answer_sum, self.square_sum = 0.0, 0.0, 0.0
        self._items_per_trial = 1

    def add(self, answer: Floats, *items: Ids, weight: Floats | None = None) -> None:
        """Add a chunk of answered trials to the sums in all attributes, in place.

        A trial counts once in the sums over trials, and for each of its items in the sums by item.

        Parameters
        ----------
        answer : float array (n_trials,)
            Answers in [0, 1], without NaN.
        *items : int arrays (n_trials,)
            Positions of the items of the trials: one array for paired trials, two for independent trials. Every call must pass
            the same number of arrays, which is not checked.
        weight : float array (n_trials,), optional
            Weights of the trials, at least 0. Default: 1.

        Raises
        ------
        ValueError
            If a position is negative, or not below the number of items. Some sums may have been changed then.
        """
        weight = np.ones(len(answer)) if weight is None else weight
        n_items = len(self.item_weight)
        self._items_per_trial = len(items)
        for item in items:
            self.item_weight += np.bincount(item, weight, n_items)
            self.item_sum += np.bincount(item, weight * answer, n_items)
        self.weight += float(weight.sum())
        self.answer_sum += float((weight * answer).sum())
        self.square_sum += float((weight * answer**2).sum())

    @property
    def mean(self) -> float:
        """Mean answer; NaN without a trial."""
        return self.answer_sum / self.weight if self.weight else math.nan

    @property
    def n_clusters(self) -> int:
        """Number of items with a trial."""
        return int((self.item_weight > 0).sum())

    @property
    def variance(self) -> float:
        """Variance of the mean answer, clustered by item; NaN without a trial.

        It is at least the variance without clustering.

        Notes
        -----
        The variance is max(U − (m − 1)·R, R)/N² · G/(G − 1):

        - A residual is an answer minus the mean. R is the sum of all squared residuals.
        - U is a sum over items: the residuals of each item are summed, and the sum is squared.
        - m is the number of items per trial: 1 for paired trials, 2 for independent ones. For m = 2, U contains each squared
          residual twice, so R is subtracted (dyadic cluster-robust variance).
        - N is the total weight of the trials, and G the number of items.

        References
        ----------
        Aronow, Samii & Assenova (2015), Political Analysis 23, 564–577.
        """
        if not self.weight:
            return math.nan
        residual_squares = max(self.square_sum - self.weight * self.mean**2, 0.0)  # R
        residual_sum_by_item = self.item_sum - self.item_weight * self.mean
        squares_of_item_sums = float((residual_sum_by_item**2).sum())  # U
        clustered_squares = squares_of_item_sums - (self._items_per_trial - 1) * residual_squares
        squares = max(clustered_squares, residual_squares)  # at least those without clustering

        n_items = max(self.n_clusters, 2)  # with a single item, the correction is not defined
        return squares * n_items / (n_items - 1) / self.weight**2


def clustered_proportion(answers: ItemTotals, *, level: float = 0.95) -> Proportion:
    """Estimate a mean answer with a Wilson interval at its effective sample size, clustered by item.

    Parameters
    ----------
    answers : ItemTotals
        Answers in [0, 1], each of weight 1.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    Proportion
        Mean answer with its interval; NaN without a trial.

    Notes
    -----
    The effective sample size is p(1 − p)/V, with V the clustered variance, but at most the number of trials. It is
    multiplied by (z/t)², with t the quantile of Student's t with one degree of freedom fewer than there are items.
    If all answers are equal, V is unknown. The effective sample size is then the number of items for paired trials. For
    independent trials, each of which has two items, it is the number of trials.

    References
    ----------
    Korn & Graubard (1998), Survey Methodology 24, 193–201. Wilson (1927), J. American Statistical Association 22,
    209–212.
    """
    check_level(level)
    n_trials = answers.weight  # the number of trials, because each has the weight 1
    if not n_trials:
        return proportion(0, 0, level=level)
    p = min(max(answers.mean, 0.0), 1.0)
    binomial_variance = p * (1 - p)
    is_paired = answers._items_per_trial == 1
    if binomial_variance > 0 and answers.variance > ROUNDING**2:
        n_effective = min(n_trials, binomial_variance / answers.variance)
    elif is_paired:
        n_effective = float(min(n_trials, answers.n_clusters))
    else:
        n_effective = float(n_trials)

    # allow for the estimated variance by Student's t instead of the normal quantile z
    p_upper = (1 + level) / 2
    t = stdtrit(max(answers.n_clusters - 1, 1), p_upper)
    n_effective *= float((ndtri(p_upper) / t) ** 2)
    return proportion(p * n_effective, n_effective, level=level)


def youdens_j(paired: ItemTotals, independent: ItemTotals, *, level: float = 0.95) -> Metric:
    """Estimate Youden's J = TPR − FPR of a judge from the trials of a run.

    Parameters
    ----------
    paired : ItemTotals
        Weighted sums of the answers to paired trials, by item; their mean is the TPR.
    independent : ItemTotals
        Weighted sums of the answers to independent trials, by item; their mean is the FPR.
    level : float, default 0.95
        Confidence level, in (0, 1).

    Returns
    -------
    Metric
        J in [−1, 1] (`value`) with its interval (`low`, `high`); all three are NaN if a trial type has no answer.

    Raises
    ------
    StatisticsError
        [level]: if `level` is not in (0, 1).

    Notes
    -----
    The interval is Newcombe's hybrid of two Wilson intervals. It is valid even if a rate is 0 or 1. The rates are treated
    as statistically independent. Items on which a judge answers yes more often raise both rates, so the interval tends to
    be too wide.

    References
    ----------
    Newcombe (1998), Statistics in Medicine 17, 873–890, method 10.
    """
    tpr = clustered_proportion(paired, level=level)
    fpr = clustered_proportion(independent, level=level)
    j = independent_difference(tpr, fpr)
    return Metric(j.value, j.low, j.high, level, "Newcombe's hybrid score, clustered by item")


def mean_difference(differences: ItemTotals, *, level: float = 0.95) -> Metric:
    """Average the differences D = TPR − FPR of pairs of agents, an estimate of Youden's J.

    Use it for imported runs, which contain D but not the true-positive rates (TPR) and false-positive rates (FPR).

    Parameters
    ----------
    differences : ItemTotals
        Values of D in [−1, 1], one per pair and item.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    Metric
        Mean of D with Student's t interval, clustered by item; NaN with fewer than 2 items.
    """
    check_level(level)
    method = "mean of D, clustered by item, Student t"
    if differences.n_clusters < 2:
        return Metric(differences.mean, math.nan, math.nan, level, method)
    mean = differences.mean
    t_quantile = float(stdtrit(differences.n_clusters - 1, (1 + level) / 2))
    half_width = t_quantile * math.sqrt(differences.variance)
    return Metric(mean, mean - half_width, mean + half_width, level, method)


def equal_abilities_p(ability: Floats, covariance: CentredCovariance) -> float:
    """Test whether abilities differ by more than their sampling error.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, NaN for agents without one.
    covariance : CentredCovariance
        Covariance of the same abilities' distances from their mean.

    Returns
    -------
    float
        P-value of the hypothesis that all abilities are equal; NaN if fewer than 2 agents can be compared.

    Notes
    -----
    With C the centered covariance, ν_i its degrees of freedom, and d the distances from the mean, Q = Σ d_i²/tr C has
    the mean 1 if abilities are equal. Q is referred to an F distribution with (tr C)²/tr C² and min ν_i degrees of
    freedom (Box's approximation). C is never inverted, so the test keeps its size if there are hardly more items than
    agents.

    References
    ----------
    Brunner, Dette & Munk (1997), J. American Statistical Association 92, 1494–1502. Box (1954), Annals of Mathematical
    Statistics 25, 290–302.

    Examples
    --------
    >>> import numpy as np
    >>> covariance = CentredCovariance(0.01 * (np.eye(3) - 1 / 3), np.full(3, 20.0))
    >>> p = [equal_abilities_p(np.array([0.4, 0.4 + gap, 0.4]), covariance) for gap in (0.0, 0.5)]
    >>> [round(value, 3) for value in p]
    [1.0, 0.002]
    """
    C = covariance.covariance
    is_estimated = ~np.isnan(ability) & ~np.isnan(np.diag(C))
    C = C[np.ix_(is_estimated, is_estimated)]
    if is_estimated.sum() < 2 or np.isnan(C).any():
        return math.nan
    distance = ability[is_estimated] - ability[is_estimated].mean()
    trace = float(np.trace(C))
    if trace <= 0:
        return 0.0 if np.ptp(distance) > 0 else 1.0
    Q = float((distance**2).sum()) / trace
    df_numerator = trace**2 / float((C**2).sum())
    df_denominator = covariance.df[is_estimated].min()
    return float(fdtrc(df_numerator, df_denominator, Q))
