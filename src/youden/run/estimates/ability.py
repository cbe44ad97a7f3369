"""What every estimator gives: abilities of a plan's agents, and how sure their distances from the average agent are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.nouns import Target
from youden.nouns.arrays import Floats, Ids
from youden.run.estimates.trial_covariance import ByItem
from youden.stats.base.clusters import CentredCovariance

LEVEL = 0.95
TRIALS = "mean of trials"
FITTED = "additive fit of trials"
CELLS = "clipped-linear ability"


class Abilities(NamedTuple):
    """Abilities of a plan's agents, and how sure their distances from the average agent are.

    ability: float[K]; covariance: of the θ_i − θ̄; n_trials: int32[K]. fpr: the rate that was taken off the answers. ranking: the
    estimator's name; method: the interval's. target: what it speaks of. by_item: what items contribute, for items like
    these; None of an extended run.
    """

    ability: Floats
    covariance: CentredCovariance
    n_trials: Ids
    fpr: float
    ranking: str
    method: str
    target: Target
    by_item: ByItem | None = None

    @property
    def low(self) -> Floats:
        """The lower end of the interval for an agent's distance from the average one, put around its ability: float[K]."""
        return np.asarray(self.ability - self.covariance.half_width(LEVEL))

    @property
    def high(self) -> Floats:
        """The upper end: float[K]."""
        return np.asarray(self.ability + self.covariance.half_width(LEVEL))
