"""Every ordered pair on every item: what all other designs are measured against.

It spends no budget; it only says where it does not fit one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from youden.errors import PlanError
from youden.nouns import Drawn, IndependentRule
from youden.nouns.arrays import Bools
from youden.protocol.designs.checks import PairRule, check_pairs
from youden.protocol.designs.partners import compare, n_comparisons


@dataclass(frozen=True)
class Dense:
    """All m(m−1) ordered pairs of the m agents eligible on an item; with pairs: unordered, each pair once, in an order by coin.

    Raises: PlanError [budget-dense] where that is more than `n_paired`.
    """

    n_paired: int | None = None
    pairs: PairRule = "ordered"
    name: ClassVar[str] = "dense"
    holdout: ClassVar[float] = 0.2
    percent: ClassVar[float | None] = None
    judges_holdout: ClassVar[bool] = True
    independent: ClassVar[IndependentRule] = "twin"
    options: ClassVar[tuple[str, ...]] = ("pairs",)

    def __post_init__(self) -> None:
        check_pairs(self.pairs)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        """Pairs by item, then first, then second agent."""
        n = n_comparisons(eligible, eligible, n_partners=None, pairs=self.pairs)
        if self.n_paired is not None and n > self.n_paired:
            raise PlanError(
                f"The dense design takes {n:,} paired calls here; the budget allows {self.n_paired:,}. "
                "Raise calls or percent, or choose design: cyclic, which spends what it is given.",
                slug="budget-dense",
            )
        return Drawn(compare(eligible, eligible, n_partners=None, pairs=self.pairs, rng=rng))
