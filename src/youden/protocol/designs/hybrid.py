"""Hybrid design: every cell by a coin of its own. Agents and items are not balanced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from youden.errors import PlanError
from youden.nouns.arrays import Bools, Floats
from youden.protocol.designs.cell_design import SHARED_OPTIONS, CellDesign
from youden.protocol.designs.checks import check_share


@dataclass(frozen=True, kw_only=True)
class Hybrid(CellDesign):
    """Each cell on its own with probability alpha · beta. Source: the paper's hybrid sampling."""

    alpha: float | None = None
    beta: float | None = None
    name: ClassVar[str] = "hybrid"
    own: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    options: ClassVar[tuple[str, ...]] = (*own, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("alpha", self.alpha)
        check_share("beta", self.beta)
        if (self.alpha is None) != (self.beta is None):
            raise PlanError(
                f"The hybrid design takes each cell with probability alpha · beta; alpha is {self.alpha}, beta is {self.beta}. "
                "Give both, or neither and a budget.",
                slug="design-option",
            )

    def threshold(self, eligible: Bools, key: Floats) -> Floats:
        return np.where(eligible, key, np.inf)

    def share(self, eligible: Bools) -> float | None:
        return None if self.alpha is None or self.beta is None else self.alpha * self.beta

    @property
    def default_share(self) -> float:
        return 1 / 3

    def remedies(self, eligible: Bools) -> tuple[str, str]:
        remedy = "Raise alpha or beta, lower d_core, or set repair: true."
        return remedy, remedy
