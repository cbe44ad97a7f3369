"""How far judges agree on the same units beyond chance."""

from __future__ import annotations

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.arrays import Floats


def cohen_kappa(one: Floats, other: Floats) -> float:
    """(p_o − p_e)/(1 − p_e) of two judges on N units: p_o the share of equal answers, p_e that of independent judges.

    one, other: float[N], any finite set of categories, no NaN. NaN where both give one and the same answer throughout.

    Raises: StatisticsError [agreement-shape] for different lengths or no unit.
    Source: Cohen (1960), Educational and Psychological Measurement 20.

    >>> cohen_kappa(np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0]))
    0.5
    """
    if one.shape != other.shape or one.size == 0:
        raise StatisticsError(
            f"Two judges' answers have the shapes {one.shape} and {other.shape}. Give both on the same units.",
            slug="agreement-shape",
        )
    expected = sum(float((one == value).mean() * (other == value).mean()) for value in np.unique(np.append(one, other)))
    return float("nan") if expected == 1 else (float((one == other).mean()) - expected) / (1 - expected)


def krippendorff_alpha(answers: Floats) -> float:
    """1 − D_o/D_e of R judges on N units, with δ = (difference)²: interval α, which for answers 0 and 1 is nominal α.

    D_o averages δ over pairs of answers to one unit, D_e over all pairs of answers. answers: float[R, N], NaN where a judge gave
    none; units with one answer are left out. NaN where all answers are equal or no unit has two.

    Raises: StatisticsError [agreement-shape] unless two judges or more.
    Source: Krippendorff (2011), Computing Krippendorff's alpha-reliability.

    >>> round(krippendorff_alpha(np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])), 4)
    0.5333
    """
    if answers.ndim != 2 or len(answers) < 2:
        raise StatisticsError(
            f"Answers of the shape {answers.shape} arrived. Give one row a judge, two judges or more.",
            slug="agreement-shape",
        )
    n = (~np.isnan(answers)).sum(axis=0)
    answers, n = answers[:, n > 1], n[n > 1]
    given = answers[~np.isnan(answers)]
    if len(given) == 0 or np.ptp(given) == 0:
        return float("nan")
    within = np.nansum((answers - np.nansum(answers, axis=0) / n) ** 2, axis=0)
    observed = float((2 * n * within / (n - 1)).sum()) / len(given)
    expected = 2 * len(given) * float(given.var()) / (len(given) - 1)
    return 1 - observed / expected
