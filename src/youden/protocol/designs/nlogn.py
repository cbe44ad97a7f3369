"""The n log n design: C·(K+J)·ln(K+J) random cells. Agents and items are not balanced."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import numpy as np

from youden.nouns import Trials
from youden.nouns.arrays import Bools, Floats
from youden.protocol.designs.cell_design import SHARED_OPTIONS, CellDesign
from youden.protocol.designs.checks import check_positive


@dataclass(frozen=True, kw_only=True)
class NLogN(CellDesign):
    """N = C·(K+J)·ln(K+J) cells, uniformly without replacement; capped at all there are, and said.

    c: C; without it and without a budget 1.6, a third of 30 × 200 cells.
    Source: the paper's efficient sampling, C ∈ {.5, 1, 2, 3, 5}; with C = 1.6 it covers the 33 % that its tables report.
    """

    c: float | None = None
    name: ClassVar[str] = "nlogn"
    own: ClassVar[tuple[str, ...]] = ("c",)
    options: ClassVar[tuple[str, ...]] = (*own, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("c", self.c)
        if self.c is None and self.n_paired is None:
            object.__setattr__(self, "c", 1.6)

    def threshold(self, eligible: Bools, key: Floats) -> Floats:
        cells = np.flatnonzero(eligible)
        threshold = np.full(eligible.size, np.inf)
        threshold[cells[np.argsort(key.ravel()[cells])]] = np.arange(len(cells)) / len(cells)
        return threshold.reshape(eligible.shape)

    def share(self, eligible: Bools) -> float | None:
        return None if self.c is None else _n_cells(self.c, eligible) / int(eligible.sum())

    @property
    def default_share(self) -> float:
        return 1 / 3

    def remedies(self, eligible: Bools) -> tuple[str, str]:
        remedy = "Raise c, lower d_core, or set repair: true."
        return remedy, remedy

    def notes(self, eligible: Bools, trials: Trials) -> tuple[str, ...]:
        """C that exceeds the matrix is capped, and said."""
        said = super().notes(eligible, trials)
        n, n_all = 0 if self.c is None else _n_cells(self.c, eligible), int(eligible.sum())
        if n <= n_all:
            return said
        return (
            *said,
            f"c = {self.c:g} asks for {n:,} cells; there are {n_all:,} to learn from: capped at all of them",
        )


def _n_cells(c: float, eligible: Bools) -> int:
    n = sum(eligible.shape)
    return int(c * n * log(n) + 0.5)
