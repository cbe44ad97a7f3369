"""Cyclic slots in rounds until intervals are as narrow as asked for: all agents alike, so no round favours anybody.

How many slots come next, and whether it is enough, is decided from the answers (`run/width_rounds.py`); here is what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import Any, ClassVar

import numpy as np

from youden.errors import PlanError
from youden.nouns import Drawn, IndependentRule, Plan, Rounds, Trials
from youden.nouns.arrays import Bools
from youden.protocol.designs.checks import PairRule, check_pairs, check_positive, check_share
from youden.protocol.designs.cyclic import MIN_SLOTS, check_shared, numbered, slots

SHARE = 0.9
"""Share of agents that keep the width where nobody names one: a single odd agent can take as many calls again as all others."""
LEAST_PILOT = 12
"""Slots of the first round at least: with fewer, variances are guesses."""
PILOT_SQUARES = 0.05
"""The first round has this over width² slots, half of what answers take that vary as little as any in the paper's data."""


@dataclass(frozen=True, kw_only=True)
class Width:
    """A first round of about .05/width² slots, then as many as the answers so far ask for; slots are those of `Cyclic`.

    width: the half width, 95 %, of an agent's distance from the average one, for items like these; share: of the agents that are
    to keep it. n_paired: paired calls at most, None for all there are.

    Raises: PlanError [design-option], [budget-width] for a budget under two slots, [nothing-shared].
    """

    n_paired: int | None = None
    width: float = 0.05
    share: float = SHARE
    pairs: PairRule = "ordered"
    name: ClassVar[str] = "width"
    holdout: ClassVar[float] = 0.0
    percent: ClassVar[float | None] = None
    judges_holdout: ClassVar[bool] = False
    independent: ClassVar[IndependentRule] = "pooled"
    options: ClassVar[tuple[str, ...]] = ("width", "share", "pairs")

    def __post_init__(self) -> None:
        check_positive("width", self.width)
        check_share("share", self.share)
        check_pairs(self.pairs)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        """The first round."""
        check_shared(eligible)
        n_agents = len(eligible)
        if self.n_paired is not None and self.n_paired < MIN_SLOTS * n_agents:
            raise PlanError(
                f"The budget leaves {self.n_paired} paired calls, fewer than the {MIN_SLOTS * n_agents} of two slots. "
                "Raise calls or trials.",
                slug="budget-width",
            )
        until = max(LEAST_PILOT, ceil(PILOT_SQUARES / self.width**2))
        chosen = self.more(eligible, rng, n_done=0, n_spent=0, until=until)
        most = "all the paired calls there are" if self.n_paired is None else f"{self.n_paired:,} paired calls"
        note = f"this is the first round; more follow until ± {self.width:g} is reached, with {most} at most"
        return Drawn(chosen, (note,), Rounds.first(n_agents, n_paired=self.n_paired))

    def more(self, eligible: Bools, rng: np.random.Generator, *, n_done: int, n_spent: int, until: int) -> Trials:
        """Slots `n_done` to `until`, as far as the budget and the pool go; rng: the one that `draw` began with, afresh."""
        chosen: list[Trials] = []
        for slot in islice(slots(eligible, rng, pairs=self.pairs), n_done, until):
            n_spent += len(slot)
            if self.n_paired is not None and n_spent > self.n_paired:
                break
            chosen.append(slot)
        return numbered(chosen, start=n_done)


def width_of(plan: Plan) -> Width:
    """The design that drew a plan in rounds of equal turns."""
    own: dict[str, Any] = {name: plan.options[name] for name in Width.options if name in plan.options}
    return Width(n_paired=None if plan.rounds is None else plan.rounds.n_paired, **own)
