"""Completion by one singular value decomposition of a matrix whose gaps are filled with means."""

from __future__ import annotations

from typing import Literal

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.arrays import Bools, Floats
from youden.stats.baselines.completion import Completion, check_at_least


class ImputedSVD(Completion):
    """The best rank-`rank` approximation of the scores with gaps filled by means.

    fill `agent`: the mean of the agent's observed scores, a fair prior where items differ little; `global`: the mean of all.
    rank: at least 1.

    Source: the paper's SVD baseline, which is `global` at rank 5.
    """

    def __init__(self, *, rank: int = 1, fill: Literal["agent", "global"] = "agent") -> None:
        self.rank = rank
        self.fill = fill

    def _check_parameters(self) -> None:
        check_at_least(1, rank=self.rank)
        if self.fill not in ("agent", "global"):
            raise StatisticsError(f"There is no fill '{self.fill}'. Give agent or global.", slug="baseline-parameter")

    def _complete(self, value: Floats, observed: Bools) -> Floats:
        if self.fill == "agent":
            mean = (value.sum(axis=1) / observed.sum(axis=1))[:, None]
        else:
            mean = np.full((1, 1), value.sum() / observed.sum())
        u, s, vt = np.linalg.svd(np.where(observed, value, mean), full_matrices=False)
        return np.asarray((u[:, : self.rank] * s[: self.rank]) @ vt[: self.rank])


def paper_svd() -> ImputedSVD:
    """The paper's setting: global mean, rank 5, one shot."""
    return ImputedSVD(rank=5, fill="global")
