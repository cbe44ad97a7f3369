"""Estimate how much more one judge favors a labeled group of agents than another judge does."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from youden.errors import StatisticsError
from youden.stats.base.clusters import check_level
from youden.types.pool import Bools, Floats

N_PERMUTATIONS = 9999
"""Default number of random permutations of labels."""


@dataclass(frozen=True)
class LabelShift:
    """Effect of a label on agents, given a covariate.

    Attributes
    ----------
    shift : float
        Difference between agents with and without the label. If the label has no information, f'score/f'Vf (see
        `label_shift`), with an infinite interval; NaN if f'Vf is 0 as well.
    low, high : float
        Confidence bounds at `level`; ∓∞ if no value can be excluded.
    p_value : float
        Two-sided p-value of no difference.
    n_permutations : int
        Number of permutations of the labels, the observed one included.
    level : float
        Confidence level.
    """

    shift: float
    low: float
    high: float
    p_value: float
    n_permutations: int
    level: float

    @property
    def is_bounded(self) -> bool:
        """Whether the interval is finite, so that it can exclude 0."""
        return bool(np.isfinite([self.low, self.high]).all())


def label_shift(
    score: Floats,
    information: Floats,
    member: Bools,
    *,
    variance: Floats | None = None,
    rng: np.random.Generator,
    level: float = 0.95,
    n_permutations: int = N_PERMUTATIONS,
) -> LabelShift:
    """Estimate the difference between agents with and without a label, for example a model family, by a permutation test.

    Parameters
    ----------
    score : float array (n_agents,)
        Score vector of the regression, see Notes; without NaN.
    information : float array (n_agents, n_agents)
        Information matrix M, see Notes.
    member : bool array (n_agents,)
        Whether an agent has the label. At least one agent must have it, and at least one must not.
    variance : float array (n_agents, n_agents), optional
        Covariance matrix V of the score vector. Default: `information`.
    rng : numpy.random.Generator
        Source of random permutations; not used if all permutations are enumerated.
    level : float, default 0.95
        Confidence level, in (0, 1).
    n_permutations : int, default 9999
        Number of random permutations. If no more permutations than this exist, all of them are used instead.

    Returns
    -------
    LabelShift
        `shift` is c = f'score/f'Mf, for f the indicator of the label: agents with it minus the others. `low` and `high` are its
        bounds, `p_value` is the two-sided p-value of no difference, and `n_permutations` the number of permutations used. A bound
        is infinite if there are too few permutations for the level. If f'Mf or f'Vf is 0, the bounds are infinite, the p-value is
        1, and the shift is f'score/f'Vf, or NaN if f'Vf is 0.

    Raises
    ------
    StatisticsError
        [label-shape]: if the arrays do not fit each other; [label-constant]: if all agents or none have the
        label; [level]: unless 0 < level < 1.

    Notes
    -----
    For a regression y ≈ … + c·f with residual maker P, score = Py and M = P. If f has one value per agent and y one value per
    trial, then score = Z'Py and M = Z'PZ, with Z the matrix from agents to trials. The one-sided p-value of c is the
    fraction of the permutations F with u(F; c) ≥ u(f; c), the observed one included, where u(F; c) = F'(score − c·M·f)/√(F'VF).
    The other side has ≤. The two-sided p-value is twice the smaller one, at most 1. As u is linear in c, each permutation counts
    for the values of c on one side of a threshold, and the interval is read from the sorted thresholds.
    Differences between agents other than the label are present in all permutations.

    References
    ----------
    Ernst (2004), Statistical Science 19, 676–685 (permutation methods).
    """
    check_level(level)
    n_agents, n_members = len(score), int(member.sum())
    _check_labels(score, information, member)

    # permutations F of the label f (rows), without those of no variance; the symbols are those of the notes
    is_exact = comb(n_agents, n_members) <= n_permutations
    F = _list_all_labels(n_agents, n_members) if is_exact else _draw_labels(n_agents, n_members, n_permutations, rng)
    V = information if variance is None else variance
    sd = np.sqrt(np.maximum(((F @ V) * F).sum(axis=1), 0))  # √(F'VF)
    has_variance = sd > 1e-6
    F, sd = F[has_variance], sd[has_variance]

    # observed label, whose effect is not determined without information or variance
    f = member.astype(np.float64)
    label_score = float(f @ score)
    observed_sd = float(np.sqrt(np.maximum(f @ V @ f, 0)))
    observed_information = float(f @ information @ f)
    if observed_sd < 1e-6 or observed_information < 1e-12:
        estimate = label_score / observed_sd**2 if observed_sd >= 1e-6 else np.nan
        return LabelShift(estimate, -np.inf, np.inf, 1.0, len(F), level)
    estimate = label_score / observed_information

    # test statistics of a value c: u(F; c) = intercept − c·slope, and u(f; c) = (estimate − c)·observed_slope
    intercept = F @ score / sd
    slope = F @ (information @ f) / sd
    observed_slope = observed_information / observed_sd

    # A threshold is the value c at which both statistics are equal. A permutation has none if its slope is not smaller.
    slope_difference = observed_slope - slope
    has_threshold = slope_difference > 1e-9
    intercept_difference = observed_slope * estimate - intercept[has_threshold]
    thresholds = np.sort(intercept_difference / slope_difference[has_threshold])

    # the observed label, and permutations without a threshold, are as extreme for every c
    n_observed = 0 if is_exact else 1  # all permutations include the observed label
    n_all = len(F) + n_observed
    low, high, p_value = _invert_permutation_test(
        thresholds, n_permutations=n_all, n_always_extreme=n_all - len(thresholds), level=level
    )
    return LabelShift(estimate, low, high, p_value, n_all, level)


def _check_labels(score: Floats, information: Floats, has_label: Bools) -> None:
    """Check that all arrays describe the same number of agents, and that some of the agents, but not all, have the label.

    score : float array (n_agents,)
    information : float array (n_agents, n_agents)
    has_label : bool array (n_agents,)

    Raises StatisticsError [label-shape] if the numbers of agents differ, and [label-constant] if all agents or none have the
    label.
    """
    n_agents, n_labeled = len(score), int(has_label.sum())
    if has_label.shape != score.shape or information.shape != (n_agents, n_agents):
        raise StatisticsError(
            f"Score, information and labels must be of the same agents: got the shapes {score.shape}, {information.shape} and "
            f"{has_label.shape}. Pass arrays of one fit.",
            slug="label-shape",
        )
    if not 0 < n_labeled < n_agents:
        raise StatisticsError(
            f"The label must separate the agents: got {n_labeled} of {n_agents} with it. "
            "Pass a label that some agents have, and some have not.",
            slug="label-constant",
        )


def _invert_permutation_test(
    thresholds: Floats, *, n_permutations: int, n_always_extreme: int, level: float
) -> tuple[float, float, float]:
    """Compute the confidence bounds of an effect c, and the p-value of c = 0, by inverting a permutation test.

    The test permutes the labels of agents. A permutation is extreme if its statistic is at least as large as that of the
    observed labels. A value of c is excluded if few permutations are extreme. Each permutation has a threshold:

    - In the test for the lower bound, the permutation is extreme if c is at least the threshold.
    - In the test for the upper bound, the permutation is extreme if c is at most the threshold.

    thresholds : float array (n_thresholds,), thresholds of the permutations that have one, ascending
    n_permutations : number of all permutations
    n_always_extreme : number of permutations without a threshold, which are extreme for every c
    level : confidence level

    Returns the lower bound, the upper bound and the two-sided p-value. Bounds are ∓∞ if no value can be excluded.
    """
    # a value of c is excluded if at most the fraction (1 − level)/2 of the permutations is extreme
    max_n_extreme = int((1 - level) / 2 * n_permutations + 1e-9)  # 1e-9 allows for rounding

    # n_outside thresholds are below the lower bound, and as many are above the upper bound
    n_outside = max_n_extreme - n_always_extreme
    low, high = -np.inf, np.inf
    if 0 <= n_outside < len(thresholds):
        low = thresholds[n_outside]
        descending = thresholds[::-1]
        high = descending[n_outside]

    # p-value of c = 0 from the tests of both sides
    n_extreme_in_lower_test = int((thresholds <= 0).sum())
    n_extreme_in_upper_test = int((thresholds >= 0).sum())
    n_extreme = min(n_extreme_in_lower_test, n_extreme_in_upper_test) + n_always_extreme
    p_value = min(1.0, 2 * n_extreme / n_permutations)
    return float(low), float(high), p_value


def _list_all_labels(n_agents: int, n_members: int) -> Floats:
    """List all ways to give a label to `n_members` agents.

    Returns a float array (n_labels, n_agents), in which a row is 1 for the agents that have the label and 0 for the others.
    """
    members = np.array(list(combinations(range(n_agents), n_members)))
    labels = np.zeros((len(members), n_agents))
    np.put_along_axis(labels, members, 1.0, axis=1)
    return labels


def _draw_labels(n_agents: int, n_members: int, n_labels: int, rng: np.random.Generator) -> Floats:
    """Give a label to `n_members` random agents, `n_labels` times.

    Returns a float array (n_labels, n_agents), in which a row is 1 for the agents that have the label and 0 for the others.
    """
    random_order = np.argsort(rng.random((n_labels, n_agents)), axis=1)
    return (random_order < n_members).astype(np.float64)
