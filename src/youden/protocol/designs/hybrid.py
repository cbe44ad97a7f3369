"""Choose cells at random and independently of each other, as the paper's hybrid sampling does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.parts.cell_design import SHARED_OPTIONS, CellDesign
from youden.protocol.designs.parts.repair import check_fraction
from youden.types.pool import Bools, Floats


@dataclass(frozen=True, kw_only=True)
class Hybrid(CellDesign):
    """Choose each cell independently with the probability alpha · beta.

    Use it only to reproduce the paper.

    Attributes
    ----------
    alpha, beta : float in (0, 1], optional
        Factors of the probability. Default: the largest probability that fits the budget; 1/3 without a budget.

    Raises
    ------
    PlanError
        [design-option]: if an option is invalid, or only one of `alpha` and `beta` is set.

    References
    ----------
    The paper's hybrid sampling.
    """

    alpha: float | None = None
    beta: float | None = None
    name: ClassVar[str] = "hybrid"
    own_options: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    options: ClassVar[tuple[str, ...]] = (*own_options, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("alpha", self.alpha)
        check_fraction("beta", self.beta)
        if (self.alpha is None) != (self.beta is None):
            raise PlanError(
                f"The hybrid design needs both alpha and beta, or neither: got alpha {self.alpha}, beta {self.beta}. Set both, "
                "or set a budget instead.",
                slug="design-option",
            )

    def compute_thresholds(self, eligible: Bools, random_key: Floats) -> Floats:
        """Return the random number of each eligible cell as its threshold, so that cells are chosen independently.

        A cell is chosen if its threshold is below the sampling fraction.

        eligible : bool array (n_agents, n_items), cells that may be compared
        random_key : float array (n_agents, n_items), random numbers in [0, 1)

        Returns a float array (n_agents, n_items), inf for cells that are not eligible.
        """
        return np.where(eligible, random_key, np.inf)

    def get_fraction(self, eligible: Bools) -> float | None:
        """Return the probability alpha · beta; None if the options set none."""
        return None if self.alpha is None or self.beta is None else self.alpha * self.beta

    def get_remedies(self, eligible: Bools) -> tuple[str, str]:
        """Return instructions for an error message: if an agent has too few cells, and if an item has."""
        remedy = "Set a larger alpha or beta, a smaller d_core, or repair: true."
        return remedy, remedy
