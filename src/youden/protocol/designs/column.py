"""Column design: every item by a share of its agents. How many items an agent gets is left to chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from youden.nouns.arrays import Bools, Floats
from youden.protocol.designs.cell_design import SHARED_OPTIONS, CellDesign
from youden.protocol.designs.checks import check_share


@dataclass(frozen=True, kw_only=True)
class Column(CellDesign):
    """⌈beta · m_j⌉ random ones of the m_j agents that item j may be judged by.

    Under a budget the counts are beta · m_j rounded up or down at random, so that it is spent.

    Source: the paper's column sampling, beta ∈ {.15, .30, .45}.
    """

    beta: float | None = None
    name: ClassVar[str] = "column"
    own: ClassVar[tuple[str, ...]] = ("beta",)
    options: ClassVar[tuple[str, ...]] = (*own, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("beta", self.beta)

    def threshold(self, eligible: Bools, key: Floats) -> Floats:
        rank = np.where(eligible, key, np.inf).argsort(axis=0).argsort(axis=0)
        n = np.maximum(eligible.sum(axis=0, keepdims=True), 1)
        part = 0.0 if self.share(eligible) is not None else key.sum(axis=0, keepdims=True) % 1
        return np.where(eligible, (rank + part) / n, np.inf)

    def share(self, eligible: Bools) -> float | None:
        return self.beta

    @property
    def default_share(self) -> float:
        return 1 / 3

    def remedies(self, eligible: Bools) -> tuple[str, str]:
        enough = (self.d_core - 1) / int(eligible.sum(axis=0).min())
        return "Raise beta, lower d_core, or set repair: true.", f"Raise beta above {enough:.2f} or lower d_core."
