"""Which budgets a study tries where nobody names them: those at which the design can be drawn on this pool."""

from __future__ import annotations

from youden.errors import PlanError
from youden.nouns import Pool
from youden.protocol.plan import make_plan

LADDER = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Percents of the dense calls."""
N_RUNGS = 3


def fitting_percents(pool: Pool, design: str) -> tuple[float, ...]:
    """The first three of `LADDER` at which `design` can be drawn on `pool`; 100 alone where it can nowhere.

    Raises: ConfigError [unknown-design].
    """
    fitting: list[float] = []
    for percent in LADDER:
        try:
            make_plan(pool, design=design, percent=percent, holdout=0.0)
        except PlanError:
            continue
        fitting.append(percent)
        if len(fitting) == N_RUNGS:
            break
    return tuple(fitting) or LADDER[-1:]
