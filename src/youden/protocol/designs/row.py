"""Row design: every agent on a share of its items. How many agents an item gets is left to chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from youden.nouns.arrays import Bools, Floats
from youden.protocol.designs.cell_design import SHARED_OPTIONS, CellDesign
from youden.protocol.designs.checks import check_share


@dataclass(frozen=True, kw_only=True)
class Row(CellDesign):
    """⌈alpha · n_i⌉ random ones of the n_i items that agent i may be judged on.

    Under a budget the counts are alpha · n_i rounded up or down at random, so that it is spent.

    Source: the paper's row sampling, alpha ∈ {.15, .30, .45}.
    """

    alpha: float | None = None
    name: ClassVar[str] = "row"
    own: ClassVar[tuple[str, ...]] = ("alpha",)
    options: ClassVar[tuple[str, ...]] = (*own, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("alpha", self.alpha)

    def threshold(self, eligible: Bools, key: Floats) -> Floats:
        rank = np.where(eligible, key, np.inf).argsort(axis=1).argsort(axis=1)
        n = np.maximum(eligible.sum(axis=1, keepdims=True), 1)
        part = 0.0 if self.share(eligible) is not None else key.sum(axis=1, keepdims=True) % 1
        return np.where(eligible, (rank + part) / n, np.inf)

    def share(self, eligible: Bools) -> float | None:
        return self.alpha

    @property
    def default_share(self) -> float:
        return 1 / 3

    def remedies(self, eligible: Bools) -> tuple[str, str]:
        enough = (self.d_core - 1) / int(eligible.sum(axis=1).min())
        return f"Raise alpha above {enough:.2f} or lower d_core.", "Raise alpha, lower d_core, or set repair: true."
