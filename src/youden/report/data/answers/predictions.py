"""What the fit of a run predicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.nouns.arrays import Floats, Ids, Positions


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the fit predicts, cell by cell where it is asked for. ability: float[K]; difficulty: float[J]."""

    ability: Floats
    difficulty: Floats

    def at(self, agent: Ids | Positions | int, item: Ids | Positions | int | slice) -> Floats:
        """clip(θ_i − b_j, −1, 1) of cells by position; NaN for agents and items never seen."""
        return np.clip(self.ability[agent] - self.difficulty[item], -1, 1)
