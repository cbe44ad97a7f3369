"""Choose the same fraction of the agents on each item, as the paper's column sampling does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from youden.protocol.designs.parts.cell_design import SHARED_OPTIONS, LineDesign
from youden.protocol.designs.parts.repair import check_fraction
from youden.types.pool import Bools


@dataclass(frozen=True, kw_only=True)
class Column(LineDesign):
    """Choose a fraction of the agents on each item.

    Use it only to reproduce the paper.

    Attributes
    ----------
    beta : float in (0, 1], optional
        Fraction of the eligible agents on each item. Default: the largest one that fits the budget; 1/3 without a budget.

    Notes
    -----
    Item j gets ⌈beta · m_j⌉ of its m_j eligible agents at random. Under a budget, beta · m_j is rounded up or down at
    random, so that the budget is spent.

    References
    ----------
    The paper's column sampling, beta ∈ {.15, .30, .45}.
    """

    beta: float | None = None
    name: ClassVar[str] = "column"
    own_options: ClassVar[tuple[str, ...]] = ("beta",)
    axis: ClassVar[int] = 0
    options: ClassVar[tuple[str, ...]] = (*own_options, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("beta", self.beta)

    def get_fraction(self, eligible: Bools) -> float | None:
        """Return the fraction of agents on each item that the options set; None if they set none."""
        return self.beta
