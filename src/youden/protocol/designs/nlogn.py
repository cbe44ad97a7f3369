"""Choose about n log n cells for n agents and items together, as the paper's efficient sampling does."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import numpy as np

from youden.protocol.designs.parts.cell_design import SHARED_OPTIONS, CellDesign
from youden.protocol.designs.parts.repair import check_positive
from youden.types import Trials
from youden.types.pool import Bools, Floats


@dataclass(frozen=True, kw_only=True)
class Nlogn(CellDesign):
    """Choose c·(K + J)·ln(K + J) cells at random for K agents and J items, or all cells if there are fewer.

    Use it only to reproduce the paper.

    Attributes
    ----------
    c : float, optional
        Factor of the number of cells. Default: the largest one that fits the budget; 1.6 without a budget. For 30
        agents and 200 items, 1.6 gives a third of all cells.

    References
    ----------
    The paper's efficient sampling, C ∈ {.5, 1, 2, 3, 5}. The paper's tables report it at 33% of the cells, which is C = 1.6.
    """

    c: float | None = None
    name: ClassVar[str] = "nlogn"
    own_options: ClassVar[tuple[str, ...]] = ("c",)
    options: ClassVar[tuple[str, ...]] = (*own_options, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("c", self.c)
        if self.c is None and self.n_paired is None:
            object.__setattr__(self, "c", 1.6)

    def compute_thresholds(self, eligible: Bools, random_key: Floats) -> Floats:
        """Compute thresholds that choose exactly the sampling fraction of the eligible cells.

        A cell is chosen if its threshold is below the sampling fraction. The threshold is the cell's rank by `random_key` among
        the eligible cells, from 0, divided by the number of eligible cells.

        eligible : bool array (n_agents, n_items), cells that may be compared
        random_key : float array (n_agents, n_items), random numbers in [0, 1)

        Returns a float array (n_agents, n_items), inf for cells that are not eligible.
        """
        # `argsort`, applied twice, returns ranks
        rank = random_key[eligible].argsort().argsort()
        threshold = np.full(eligible.shape, np.inf)
        threshold[eligible] = rank / len(rank)
        return threshold

    def get_fraction(self, eligible: Bools) -> float | None:
        """Return the fraction of the cells that `c` requests; None if `c` is not set."""
        if self.c is None:
            return None
        return _count_requested_cells(self.c, eligible) / int(eligible.sum())

    def get_remedies(self, eligible: Bools) -> tuple[str, str]:
        """Return instructions for an error message: if an agent has too few cells, and if an item has."""
        remedy = "Set a larger c, a smaller d_core, or repair: true."
        return remedy, remedy

    def get_notes(self, eligible: Bools, trials: Trials) -> tuple[str, ...]:
        """Return the notes of all cell designs, and a note if the option `c` requests more cells than there are.

        The notes of all cell designs are described in the base class. For the K agents and J items of the pool, the option `c`
        requests c·(K + J)·ln(K + J) cells. The added note states that all eligible cells are used.

        eligible : bool array (n_agents, n_items), cells (agent, item) that may be compared: the training cells of the plan
        trials : the drawn trials, at least one

        Returns a tuple of sentences without a full stop; empty if there is nothing to note.
        """
        notes = super().get_notes(eligible, trials)
        if self.c is None:
            return notes
        n_requested = _count_requested_cells(self.c, eligible)
        n_eligible = int(eligible.sum())
        if n_requested <= n_eligible:
            return notes
        note = (
            f"c = {self.c:g} requests {n_requested:,} cells, but there are {n_eligible:,} training cells; "
            "all of them are used"
        )
        return (*notes, note)


def _count_requested_cells(c: float, eligible: Bools) -> int:
    """Return the number of cells that `c` requests, c·(K + J)·ln(K + J) for K agents and J items, rounded."""
    n_agents_and_items = sum(eligible.shape)
    return int(c * n_agents_and_items * log(n_agents_and_items) + 0.5)
