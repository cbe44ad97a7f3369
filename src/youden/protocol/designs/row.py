"""Choose the same fraction of the items of each agent, as the paper's row sampling does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from youden.protocol.designs.parts.cell_design import SHARED_OPTIONS, LineDesign
from youden.protocol.designs.parts.repair import check_fraction
from youden.types.pool import Bools


@dataclass(frozen=True, kw_only=True)
class Row(LineDesign):
    """Choose a fraction of the items of each agent.

    Use it only to reproduce the paper.

    Attributes
    ----------
    alpha : float in (0, 1], optional
        Fraction of the eligible items of each agent. Default: the largest one that fits the budget; 1/3 without a budget.

    Notes
    -----
    Agent i gets ⌈alpha · n_i⌉ of its n_i eligible items at random. Under a budget, alpha · n_i is rounded up or down at
    random, so that the budget is spent.

    References
    ----------
    The paper's row sampling, alpha ∈ {.15, .30, .45}.
    """

    alpha: float | None = None
    name: ClassVar[str] = "row"
    own_options: ClassVar[tuple[str, ...]] = ("alpha",)
    axis: ClassVar[int] = 1
    options: ClassVar[tuple[str, ...]] = (*own_options, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("alpha", self.alpha)

    def get_fraction(self, eligible: Bools) -> float | None:
        """Return the fraction of items of each agent that the options set; None if they set none."""
        return self.alpha
