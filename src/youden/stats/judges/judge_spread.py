"""A ranking averaged over judges that answered the same trials, with what judges differ in, in its error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from youden.errors import StatisticsError
from youden.nouns.pool import Floats
from youden.stats.base.clusters import CentredCovariance


class JudgeSpread(NamedTuple):
    """Of M judges. ability: float[K], their mean; by_judge: float[M, K].

    variance: of one judge's distance of an agent from the average around what all judges of the kind would say, beyond what
    these items and calls leave to chance; low, high: its interval at 95 %; between: of abilities between agents, beyond error.
    covariance: of the mean, over items like these and judges like these. votes: how many independent judges the M are worth.
    """

    ability: Floats
    by_judge: Floats
    variance: float
    low: float
    high: float
    between: float
    covariance: CentredCovariance
    votes: float


class VoteSums:
    """Answers of M judges to the same trials; blocks add up."""

    def __init__(self) -> None:
        self._base: Floats | None = None
        self._n, self._total, self._products = 0, np.zeros(0), np.zeros(0)

    def add(self, told: Floats) -> None:
        """float[M, T] without NaN."""
        if not told.size:
            return
        if self._base is None:  # what never varies stays exactly 0
            M = len(told)
            self._base, self._total, self._products = told[:, :1], np.zeros(M), np.zeros((M, M))
        moved = told - self._base
        self._n += told.shape[1]
        self._total = self._total + moved.sum(axis=1)
        self._products = self._products + moved @ moved.T

    @property
    def correlation(self) -> float:
        """Mean correlation of two judges' answers; 0 where one always says the same, or there is no answer."""
        mean = self._total / max(self._n, 1)
        covariance = self._products / max(self._n, 1) - np.outer(mean, mean)
        error = np.sqrt(np.diag(covariance))
        if not (len(error) > 1 and error.all()):
            return 0.0
        return float((covariance / np.outer(error, error))[np.triu_indices(len(error), 1)].mean())


def votes(n_judges: int, alike: float) -> float:
    """How many independent judges so many are worth whose answers correlate so. Source: Spearman and Brown.

    >>> votes(3, 0.5)
    1.5
    """
    return n_judges / (1 + (n_judges - 1) * min(max(alike, 0.0), 1.0))


def judge_spread(by_judge: Floats, of_mean: CentredCovariance, of_gaps: Floats, alike: float) -> JudgeSpread:
    """Method of moments: what abilities differ by between judges, less what chance does to their differences.

    by_judge: float[M, K], each judge's abilities on the same trials, no NaN; of_mean: covariance of their mean over items;
    of_gaps: float[K], the variance over items of one judge's distance around the judges' mean, M/(M − 1) times (0 where
    unknown); alike: mean correlation of two judges' answers to the same trials.

    Raises: StatisticsError [judges-few].
    Source: one-way random effects.
    """
    M, K = by_judge.shape
    if M < 2:
        raise StatisticsError(
            "One judge says nothing of what judges differ in. Judge the same plan with another: `youden rejudge`.",
            slug="judges-few",
        )
    centred = by_judge - by_judge.mean(axis=1, keepdims=True)
    squares, n = centred.var(axis=0, ddof=1), (K - 1) * (M - 1)
    total, chance = float(squares.sum() / (K - 1)), float(of_gaps.sum() / (K - 1))
    low, high = (total * n / float(chdtri(n, p)) - chance for p in (0.025, 0.975))
    between = max(
        0.0, float(centred.mean(axis=0).var(ddof=1)) - float(np.nanmean(np.diag(of_mean.covariance))) - total / M
    )
    variance = max(0.0, total - chance)
    # each agent's own spread, shrunk to the average one as if that had been seen in one judge more
    own = np.maximum((squares * (M - 1) + total) / M - of_gaps, variance) / M
    root = np.sqrt(own * K / (K - 1))
    covariance = of_mean.covariance + root[:, None] * root * (np.eye(K) - 1 / K)
    items = np.diag(of_mean.covariance)
    freedom = (items + own) ** 2 / (items**2 / of_mean.freedom + own**2 / (M - 1))
    found = CentredCovariance(covariance, freedom)
    return JudgeSpread(by_judge.mean(axis=0), by_judge, variance, low, high, between, found, votes(M, alike))
