"""Measure whether a judge's relation "same source" is transitive, from its answers on triples of texts.

A path a ~ b ~ c is open if the judge answers no to a and c. An equivalence relation has no open path. If the answers to the
three pairs of a triple are independent, the expected share of open paths is the share of no answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.stats.base.proportions import proportion
from youden.types.pool import Floats


class OpenPaths(NamedTuple):
    """Open paths in triples of texts; values are NaN without a path.

    Attributes
    ----------
    n_paths, n_open : int
        Number of paths a ~ b ~ c, with any of the three texts in the middle, and of those that are open.
    share, low, high : float
        Share of open paths with a 95% interval.
    expected : float
        Share of open paths if the three answers of a triple were independent.
    """

    n_paths: int
    n_open: int
    share: float
    low: float
    high: float
    expected: float


def count_open_paths(answers: Floats) -> OpenPaths:
    """Count the open paths in triples of texts, which show that a judge's "same source" is not transitive.

    A path is two yes answers a ~ b and b ~ c. It is open if the answer to a and c is no.

    Parameters
    ----------
    answers : float array (n_triples, 3)
        Answers 0 or 1 to the three pairs of each triple; a triple with a NaN is left out.

    Returns
    -------
    OpenPaths
        Numbers of paths and of open paths, the share of open ones with a 95% interval, and the share expected if answers
        were independent.

    Raises
    ------
    StatisticsError
        [triples-shape]: if the array has another shape.

    Notes
    -----
    A triple with two yes answers has one path, which is open. A triple with three yes answers has three paths, none of them open.
    With q the proportion of triples with two yes answers among all triples of both kinds, the share of open paths is q/(q + 3(1 −
    q)). Its bounds are those of Wilson's interval of q, for which triples are the sampling unit.

    Examples
    --------
    >>> paths = count_open_paths(np.array([[1.0, 1, 1], [1, 1, 0], [0, 1, 0], [1, 0, 1]]))
    >>> paths.n_paths, paths.n_open, round(paths.share, 2), round(paths.expected, 2)
    (5, 2, 0.4, 0.33)
    """
    if answers.ndim != 2 or answers.shape[1] != 3:
        raise StatisticsError(
            f"Answers on triples must have the shape (n_triples, 3): got {answers.shape}. Pass the answers to the three pairs.",
            slug="triples-shape",
        )
    answered = answers[~np.isnan(answers).any(axis=1)]
    n_yes = answered.sum(axis=1)
    n_open, n_closed = int((n_yes == 2).sum()), int((n_yes == 3).sum())
    share_of_triples = proportion(n_open, n_open + n_closed)
    bounds = (share_of_triples.value, share_of_triples.low, share_of_triples.high)
    share, low, high = (q / (q + 3 * (1 - q)) for q in bounds)
    expected = float(1 - answered.mean()) if len(answered) else np.nan
    return OpenPaths(n_open + 3 * n_closed, n_open, share, low, high, expected)
