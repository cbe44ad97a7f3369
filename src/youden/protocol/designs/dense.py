"""Every ordered pair on every item: what all other designs are measured against.

It knows which cells are eligible; it refuses to know budgets, except to say that it does not fit one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from youden.errors import PlanError
from youden.types import PairedTrials
from youden.types.arrays import Bools


@dataclass(frozen=True)
class Dense:
    """All m(m−1) ordered pairs of the m agents eligible on an item.

    Raises: PlanError [budget-dense] where that is more than `n_paired`.
    """

    n_paired: int | None = None
    name: ClassVar[str] = "dense"
    holdout: ClassVar[float] = 0.2
    percent: ClassVar[float | None] = None
    judges_holdout: ClassVar[bool] = True

    def draw(self, eligible: Bools, rng: np.random.Generator) -> PairedTrials:
        """Ordered pairs by item, then first, then second; `rng` is not used."""
        item, first, second = np.nonzero(eligible.T[:, :, None] & eligible.T[:, None, :])
        off_diagonal = first != second
        n = int(off_diagonal.sum())
        if self.n_paired is not None and n > self.n_paired:
            raise PlanError(
                f"The dense design takes {n:,} paired calls here; the budget allows {self.n_paired:,}. "
                "Raise calls or percent, or choose design: cyclic, which spends what it is given.",
                slug="budget-dense",
            )
        item, first, second = (column[off_diagonal].astype(np.int32) for column in (item, first, second))
        return PairedTrials(item, first, second, slot=np.full(n, -1, dtype=np.int32))
