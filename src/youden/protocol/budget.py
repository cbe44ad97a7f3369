"""How many calls a plan may spend: what the user asked for, and else what the design takes by itself, ∝ agents.

An agent's error depends on its own trials, not on how many other agents there are; so no default grows with their square.
"""

from __future__ import annotations

from typing import NamedTuple

from youden.errors import PlanError

LEAST_CALLS_AN_AGENT = 30
"""Paired calls an agent that a design without a named budget makes at least: 2 % of a small pool's calls rank nobody."""
TRIALS_A_PERCENT = 225
"""Trials an agent, at most, for each percent of a design's default: 450 for 2 %, what 30 agents on 200 items come to."""


class Size(NamedTuple):
    """Of a pool, and of the independent arm: one independent trial for every paired one (twins), or `n_apart` in all."""

    agents: int
    items: int
    twins: bool
    n_apart: int

    @property
    def n_paired(self) -> int:
        """Paired calls there are: every ordered pair on every item."""
        return self.agents * (self.agents - 1) * self.items

    def calls(self, trials: float) -> int:
        """Calls of both arms where an agent takes part in `trials` paired ones on average."""
        n_paired = round(trials * self.agents / 2)
        return 2 * n_paired if self.twins else n_paired + self.n_apart


def default_calls(percent: float, size: Size) -> int:
    """Of a design whose default is `percent` of the dense calls: that, or the least, and never above the trials that it allows.

    >>> [default_calls(2.0, Size(K, J, False, 100)) for K, J in ((12, 32), (30, 200), (227, 805))]
    [460, 6850, 51175]
    """
    least = LEAST_CALLS_AN_AGENT * size.agents + size.n_apart
    return max(least, min(int(2 * size.n_paired * percent / 100), size.calls(TRIALS_A_PERCENT * percent)))


def asked_calls(calls: int | None, percent: float | None, trials: float | None, size: Size) -> int | None:
    """Calls of both arms that were asked for, None where nothing was.

    Raises: PlanError [budget-twice], [budget], [trials-many] for more trials than there are.
    """
    said = {"calls": calls, "percent": percent, "trials": trials}
    given = [f"{name} ({value:g})" for name, value in said.items() if value is not None]
    if len(given) > 1:
        raise PlanError(f"{' and '.join(given)} were given. Give one of them.", slug="budget-twice")
    if trials is not None:
        most = 2 * (size.agents - 1) * size.items
        if trials > most:
            raise PlanError(
                f"{trials:,.12g} trials an agent were asked for; on {size.items:,} items with {size.agents - 1:,} partners "
                f"there are {most:,}. Lower trials, or add items.",
                slug="trials-many",
            )
        return size.calls(trials)
    budget = calls if percent is None else int(2 * size.n_paired * percent / 100 + 0.5)
    if budget is not None and budget < 1:
        raise PlanError(f"A budget of {budget} calls was asked for. Give at least a few per agent.", slug="budget")
    return budget
