"""Designs: which paired comparisons to make. One file each; a package elsewhere adds one by the group `youden.designs`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Protocol

from youden.errors import PlanError
from youden.registry import Registry
from youden.types import Design
from youden.types.planning import IndependentRule
from youden.types.pool import Json


class MakeDesign(Protocol):
    """Builds a design that may spend at most `n_paired` paired calls (None: as many as it takes)."""

    name: str
    holdout: float
    """The fraction held out where the user names none."""
    default_trials_per_agent: float | None
    """Mean paired trials per agent if no budget is set; None: as many as it takes."""
    judges_holdout: bool
    """Whether it plans trials on held-out cells too; if not, the plan adds a few for each."""
    independent: IndependentRule
    """The independent arm where the user names none."""
    options: tuple[str, ...]
    """Which keywords `__call__` takes beside `n_paired`."""

    def __call__(self, *, n_paired: int | None, **options: Json) -> Design: ...


DESIGNS: Registry[MakeDesign] = Registry(
    "youden.designs",
    "design",
    {
        "dense": "youden.protocol.designs.cyclic:Dense",
        "cyclic": "youden.protocol.designs.cyclic:Cyclic",
        "adaptive": "youden.protocol.designs.adaptive:Adaptive",
        "width": "youden.protocol.designs.adaptive:Width",
        "row": "youden.protocol.designs.cell_designs:Row",
        "column": "youden.protocol.designs.cell_designs:Column",
        "hybrid": "youden.protocol.designs.cell_designs:Hybrid",
        "nlogn": "youden.protocol.designs.cell_designs:NLogN",
    },
)


def check_options(name: str, options: Mapping[str, Json]) -> None:
    """Raises: PlanError [design-option] for an option the design `name` does not have."""
    known = DESIGNS.load(name).options
    for option in options:
        if option not in known:
            close = get_close_matches(option, known, n=1)
            hint = f"Did you mean '{close[0]}'? " if close else ""
            has = f"It has: {', '.join(known)}." if known else "It has none."
            raise PlanError(f"The design '{name}' has no option '{option}'. {hint}{has}", slug="design-option")
