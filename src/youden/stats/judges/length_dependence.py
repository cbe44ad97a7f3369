"""Measure how much of a judge's answers the lengths of the two texts explain.

Lengths are compared in cells of quantiles, so that any rule by length is found: both texts are long, both are of
similar length, or the first one is long.
"""

from __future__ import annotations

import numpy as np

from youden.types.pool import Bools, Floats, Ids, Positions

N_LENGTH_CLASSES = 5
"""Quantile classes of each text's length; a cell is a pair of classes."""
N_RATIO_CLASSES = 10
"""Quantile classes of the ratio of both lengths."""
MIN_ANSWERS = 100
"""Smallest number of answers for an estimate."""


def length_share(
    answer: Floats, first_length: Ids | Positions, second_length: Ids | Positions, *, paired: Bools
) -> float:
    """Estimate the share of the variance of answers that text lengths explain.

    Parameters
    ----------
    answer : float array (n_trials,)
        Answers in [0, 1], without NaN.
    first_length, second_length : int array (n_trials,)
        Length of the first and of the second text, 0 or more, in one unit such as characters.
    paired : bool array (n_trials,)
        Whether a trial is paired; else it is independent.

    Returns
    -------
    float
        Adjusted R² of the cell means, at most 1, near 0 if answers do not depend on length. NaN with fewer than 100
        answers, if all answers are equal, or if one trial type is missing.

    Notes
    -----
    The result is the larger of two values of R². One is for cells that combine the length classes of both texts, the other for
    classes of the absolute log ratio of both lengths. Both trial types get the same total weight: a judge that compares contents
    answers no to independent trials whatever their lengths are. R² is adjusted for the number of cells (Wherry), with the
    effective number of trials.

    Examples
    --------
    >>> import numpy as np
    >>> lengths = np.random.default_rng(0).integers(1, 1000, (2, 500))
    >>> similar = np.abs(np.log(lengths[0] / lengths[1])) < 0.5
    >>> paired = np.arange(500) < 400
    >>> length_share(similar.astype(float), *lengths, paired=paired) > 0.5
    True
    >>> length_share((similar & paired).astype(float), *lengths, paired=paired) > 0.5
    False
    """
    n_paired, n_independent = int(paired.sum()), int((~paired).sum())
    if len(answer) < MIN_ANSWERS or np.ptp(answer) == 0 or not n_paired or not n_independent:
        return float("nan")
    weight = np.where(paired, 0.5 / n_paired, 0.5 / n_independent)
    lengths = np.stack([first_length, second_length]).astype(np.float64)
    length_class = _assign_quantile_classes(lengths.ravel(), N_LENGTH_CLASSES)
    first_class, second_class = length_class.reshape(lengths.shape)
    class_pair = first_class * N_LENGTH_CLASSES + second_class
    first_log_length, second_log_length = np.log(np.maximum(lengths, 1))
    log_ratio = np.abs(second_log_length - first_log_length)
    ratio_class = _assign_quantile_classes(log_ratio, N_RATIO_CLASSES)
    return max(_compute_adjusted_r2(answer, weight, cell) for cell in (class_pair, ratio_class))


def _assign_quantile_classes(values: Floats, n_classes: int) -> Positions:
    """Assign values to `n_classes` classes of about equal size by their quantiles: class numbers from 0, int64 array (n,)."""
    edges = np.quantile(values, np.linspace(0, 1, n_classes + 1)[1:-1])
    return np.searchsorted(edges, values, side="right").astype(np.int64)


def _compute_adjusted_r2(answer: Floats, weight: Floats, group: Positions) -> float:
    """Compute the adjusted R² of predicting each answer by the weighted mean answer of its group of trials.

    The adjustment allows for the number of groups: each group mean that is fitted costs one degree of freedom.

    answer : float array (n_trials,)
    weight : float array (n_trials,), weights of the trials, with sum 1
    group : int64 array (n_trials,), number of the group of each trial, such as trials with similar lengths of the texts
    """
    group_weight = np.bincount(group, weight)
    has_trials = group_weight > 0
    answer_sum = np.bincount(group, weight * answer)
    group_mean = np.divide(answer_sum, group_weight, out=np.zeros(len(group_weight)), where=has_trials)
    overall_mean = float(weight @ answer)

    # weighted sums of squared deviations from the group means and from the overall mean
    residual_squares = float((weight * (answer - group_mean[group]) ** 2).sum())
    total_squares = float((weight * (answer - overall_mean) ** 2).sum())

    # degrees of freedom, with the effective number 1/Σw² of trials
    n_effective = 1 / float((weight**2).sum())
    total_df = n_effective - 1
    residual_df = max(n_effective - int(has_trials.sum()), 1)
    return 1 - residual_squares / total_squares * total_df / residual_df
