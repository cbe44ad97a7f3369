"""Measure how much of a judge's answers the lengths of the two texts explain.

Lengths are compared in cells of quantiles, so that any rule by length is found: both texts are long, both are of
similar length, or the first one is long.
"""

from __future__ import annotations

import numpy as np

from youden.types.pool import Bools, Floats, Ids, Positions, count_distinct

N_LENGTH_CLASSES = 5
"""Quantile classes of each text's length; a cell is a pair of classes."""
N_RATIO_CLASSES = 10
"""Quantile classes of the ratio of both lengths."""
_TINY = 1e-12
"""Sum of squares below which values are equal except for rounding; also the smallest divisor, to avoid division by 0."""
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
        Length of the first and of the second text, 0 or more, in the same unit: for example, characters.
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
    effective number of trials. It is limited to the partial R² given the trial type: if responses to one item are of similar
    length, the answers of a judge that compares contents also correlate with the ratio of the lengths.

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
    return max(_compute_adjusted_r2(answer, weight, cell, paired) for cell in (class_pair, ratio_class))


def _assign_quantile_classes(values: Floats, n_classes: int) -> Positions:
    """Assign values to `n_classes` classes of about equal size by their quantiles: class numbers from 0, int64 array (n,)."""
    edges = np.quantile(values, np.linspace(0, 1, n_classes + 1)[1:-1])
    return np.searchsorted(edges, values, side="right").astype(np.int64)


def _compute_adjusted_r2(answer: Floats, weight: Floats, group: Positions, paired: Bools) -> float:
    """Compute the adjusted R² of predicting each answer by the weighted mean answer of its group of trials.

    R² is adjusted for the number of fitted group means. The result is limited by the adjusted partial R², which allows for the
    trial type: the share of the variance within trial types that groups explain in an additive model.

    answer : float array (n_trials,)
    weight : float array (n_trials,), weights of the trials, with sum 1
    group : int64 array (n_trials,), number of the group of each trial, such as trials with similar lengths of the texts
    paired : bool array (n_trials,), trial type
    """
    # deviations of the answers and of the trial type (1 for paired) from their means
    is_paired = paired.astype(np.float64)
    from_group_mean = answer - _average_by_group(answer, weight, group)
    from_type_mean = answer - _average_by_group(answer, weight, paired.astype(np.int64))
    type_from_group_mean = is_paired - _average_by_group(is_paired, weight, group)

    # weighted sums of squares: around the overall mean, within groups, and within trial types
    total_squares = float(weight @ (answer - weight @ answer) ** 2)
    group_squares = float(weight @ from_group_mean**2)
    type_squares = float(weight @ from_type_mean**2)
    if type_squares < _TINY:  # answers differ only between the trial types
        return 0.0

    # residual squares of the additive model of groups and trial types: a regression within groups on the trial type
    product = float(weight @ (type_from_group_mean * from_group_mean))
    explained_by_type = product**2 / max(float(weight @ type_from_group_mean**2), _TINY)
    additive_squares = max(group_squares - explained_by_type, 0.0)

    # degrees of freedom, with the effective number 1/Σw² of trials
    n_effective = 1 / float((weight**2).sum())
    n_groups = count_distinct(group)
    r2 = 1 - group_squares / total_squares * (n_effective - 1) / max(n_effective - n_groups, 1)
    partial_r2 = 1 - additive_squares / type_squares * (n_effective - 2) / max(n_effective - n_groups - 1, 1)
    return min(r2, partial_r2)


def _average_by_group(values: Floats, weight: Floats, group: Positions) -> Floats:
    """Return the weighted mean of the values of its group for each trial: float array (n_trials,)."""
    group_weight = np.bincount(group, weight)
    value_sum = np.bincount(group, weight * values)
    return np.asarray((value_sum / np.maximum(group_weight, _TINY))[group])
