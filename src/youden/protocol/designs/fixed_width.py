"""Design that plans cyclic blocks in rounds, until confidence intervals are narrow enough.

It samples all agents equally, so no round favors an agent. It only draws rounds; `pipeline/rounds.py` decides from the
answers whether another round follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import Any, ClassVar

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.cyclic import MIN_BLOCKS, TrialDesign, check_shared_items, iter_blocks, number_blocks
from youden.protocol.designs.parts.repair import check_positive
from youden.types import DesignResult, Plan, Rounds, Trials
from youden.types.pool import Bools

HALF_WIDTH_FRACTION = 0.9
"""Fraction of agents that must reach the half-width: one unusual agent can take as many calls as all others."""


MIN_PILOT_BLOCKS = 12
"""Minimum number of blocks in the first round; with fewer, the variances are too uncertain."""


PILOT_BLOCKS_PER_PRECISION = 0.05
"""The first round has this number / half_width² blocks: half of what the least variable answers in the paper need."""


@dataclass(frozen=True, kw_only=True)
class FixedWidth(TrialDesign):
    """Cyclic blocks in rounds, until confidence intervals are narrow enough.

    Use it to reach a given half-width of the confidence intervals. The key `half_width` selects it.

    Attributes
    ----------
    n_paired : int or None
        Maximum number of paired calls; None for all there are.
    half_width : float, default 0.05
        Half-width of the 95% interval of an agent's distance from the average agent, for items like these, which a
        fraction `HALF_WIDTH_FRACTION` of the agents must reach.
    pairs : {"ordered", "unordered"}, default "ordered"
        Whether pairs may be judged in both orders.

    Raises
    ------
    PlanError
        [design-option]: if an option is invalid.

    Notes
    -----
    The first round has about .05/half_width² blocks. Later rounds have as many as the answers so far require.
    """

    half_width: float = 0.05
    name: ClassVar[str] = "fixed-width"
    options: ClassVar[tuple[str, ...]] = ("half_width", "pairs")

    def __post_init__(self) -> None:
        check_positive("half_width", self.half_width)
        super().__post_init__()

    def draw(self, eligible: Bools, rng: np.random.Generator) -> DesignResult:
        """Draw the trials of the first round; later rounds depend on its answers.

        The first round has 0.05 / half_width² blocks, rounded up, but at least 12. If the budget or the pool does not allow this
        number, the first round has fewer; a pool that allows fewer than two raises no error. A block consists of one paired trial
        per agent on one item: each agent is shown once first and once second.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells (agent, item) that may be compared.
        rng : numpy.random.Generator
            Source of all random numbers.

        Returns
        -------
        DesignResult
            Paired `trials` with their block numbers, `notes` with one note about the rounds that follow, and the record `rounds`,
            which has only the first round so far.

        Raises
        ------
        PlanError
            [budget-width]: if the budget does not cover two blocks; [nothing-shared]: if no item has two eligible agents.
        """
        check_shared_items(eligible)
        n_agents = len(eligible)
        n_needed = MIN_BLOCKS * n_agents
        if self.n_paired is not None and self.n_paired < n_needed:
            raise PlanError(
                f"The budget is less than two blocks, {n_needed} paired calls: got {self.n_paired}. Set more calls.",
                slug="budget-width",
            )

        n_blocks = ceil(PILOT_BLOCKS_PER_PRECISION / self.half_width**2)
        n_blocks = max(MIN_PILOT_BLOCKS, n_blocks)
        trials = self.draw_blocks(eligible, rng, n_done=0, n_spent=0, until=n_blocks)

        limit = "all possible paired calls" if self.n_paired is None else f"{self.n_paired:,} paired calls"
        note = f"this is the first round; more follow until ± {self.half_width:g} is reached, up to {limit}"
        rounds = Rounds.first(n_agents, n_paired=self.n_paired)
        return DesignResult(trials, (note,), rounds)

    def draw_blocks(
        self, eligible: Bools, rng: np.random.Generator, *, n_done: int, n_spent: int, until: int
    ) -> Trials:
        """Draw further blocks, which compare all agents on one item, as far as the budget and the pool allow.

        All blocks form one random sequence, which depends only on `eligible` and `rng`. Earlier rounds have used the first
        `n_done` blocks of the sequence. This method returns the following blocks.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells (agent, item) that may be compared.
        rng : numpy.random.Generator
            Random generator, in the same state as when it was passed to `draw`.
        n_done : int
            Number of blocks so far, which is the number of the first new block.
        n_spent : int
            Number of paired calls so far. A paired call is one comparison of two agents on one item; it counts towards the
            budget `n_paired` of the design.
        until : int
            Number of blocks to reach, including the `n_done` blocks so far. Drawing stops earlier if the next block would
            exceed the budget, or if the sequence ends.

        Returns
        -------
        Trials
            Paired trials of the new blocks, with block numbers from `n_done` on; none if no further block fits or is left.

        Raises
        ------
        PlanError
            [nothing-shared]: if no item has two eligible agents.
        """
        all_blocks = iter_blocks(eligible, rng, pairs=self.pairs)
        later_blocks = islice(all_blocks, n_done, until)
        blocks: list[Trials] = []
        for block in later_blocks:
            n_spent += len(block)
            if self.n_paired is not None and n_spent > self.n_paired:
                break
            blocks.append(block)
        return number_blocks(blocks, start=n_done)


def get_width_design(plan: Plan) -> FixedWidth:
    """Return the design that drew a plan, with the options of the plan.

    Parameters
    ----------
    plan : Plan
        A plan of the design "fixed-width".

    Returns
    -------
    FixedWidth
        The design, which can draw further blocks.
    """
    options: dict[str, Any] = {name: plan.options[name] for name in FixedWidth.options if name in plan.options}
    n_paired = None if plan.rounds is None else plan.rounds.n_paired
    return FixedWidth(n_paired=n_paired, **options)
