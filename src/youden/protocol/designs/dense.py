"""Compare every ordered pair on every item, as the reference for all other designs.

The design cannot be made smaller: if it exceeds the budget, it raises an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.cyclic import TrialDesign
from youden.protocol.designs.parts.repair import count_comparisons, draw_comparisons
from youden.types import DesignResult
from youden.types.planning import IndependentRule
from youden.types.pool import Bools


@dataclass(frozen=True)
class Dense(TrialDesign):
    """All ordered pairs of the agents that are eligible on an item.

    Use it for small pools, for a judge that costs nothing, and as a reference for other designs.

    Attributes
    ----------
    n_paired : int or None
        Maximum number of paired calls; None for no limit.
    pairs : {"ordered", "unordered"}, default "ordered"
        `unordered` compares each pair once, in an order drawn at random.
    """

    name: ClassVar[str] = "dense"
    default_holdout: ClassVar[float] = 0.2
    plans_holdout: ClassVar[bool] = True
    default_independent: ClassVar[IndependentRule] = "matched"
    options: ClassVar[tuple[str, ...]] = ("pairs",)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> DesignResult:
        """Draw all pairs of agents on each item, sorted by item.

        With the attribute `pairs` "ordered", each pair is compared in both orders, sorted by first and then by second agent. With
        "unordered", each pair is compared once, with a random agent first.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells (agent, item) that may be compared.
        rng : numpy.random.Generator
            Source of all random numbers; used only if `pairs` is "unordered".

        Returns
        -------
        DesignResult
            Paired `trials` without blocks, none if no item has two eligible agents; no notes.

        Raises
        ------
        PlanError
            [budget-dense]: if the number of comparisons exceeds the budget, the attribute `n_paired` (None for no limit).
        """
        n_pairs = count_comparisons(eligible, eligible, n_partners=None, pairs=self.pairs)
        if self.n_paired is not None and n_pairs > self.n_paired:
            raise PlanError(
                f"The dense design exceeds the budget of {self.n_paired:,} paired calls: got {n_pairs:,}. Set more calls, or set "
                "design: cyclic, which adapts to the budget.",
                slug="budget-dense",
            )
        trials = draw_comparisons(eligible, eligible, n_partners=None, pairs=self.pairs, rng=rng)
        return DesignResult(trials)
