"""Designs: rules that draw the paired comparisons of a plan, registered by name.

Each file of this folder has one design, and `parts` has what they share. Another package can register more designs under the
entry-point group `youden.designs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Protocol

from youden.errors import PlanError
from youden.registry import Registry, find_modules
from youden.types import Design
from youden.types.planning import IndependentRule
from youden.types.pool import Json


class MakeDesign(Protocol):
    """Factory of a design, such as its class, with the defaults of the design as attributes."""

    name: str
    """Name of the design."""
    default_holdout: float
    """Default fraction of held-out cells."""
    default_trials_per_agent: float | None
    """Mean paired trials per agent if no budget is set; None for as many as the design takes."""
    plans_holdout: bool
    """Whether the design plans trials on held-out cells too; if not, a plan adds a few for each held-out cell."""
    default_independent: IndependentRule
    """Default of the independent trials."""
    options: tuple[str, ...]
    """Names of the keyword arguments of `__call__` other than `n_paired`."""

    def __call__(self, *, n_paired: int | None, **options: Json) -> Design:
        """Make a design.

        Parameters
        ----------
        n_paired : int or None
            Maximum number of paired calls; None for as many as the design takes, at most all comparisons of the pool.
        **options
            Options of the design.

        Returns
        -------
        Design
            A design that draws trials.
        """
        ...


DESIGNS: Registry[MakeDesign] = Registry(
    "youden.designs",
    "design",
    {name: f"{module}:{name.title().replace('-', '')}" for name, module in find_modules(__name__, __path__).items()},
)
"""Designs by name. The file `fixed_width.py` has the design "fixed-width", which is the class `FixedWidth`."""


def check_options(name: str, options: Mapping[str, Json]) -> None:
    """Check that a design has all given options.

    Parameters
    ----------
    name : str
        Name of the design.
    options : mapping of str to JSON value
        Options that are set for the design.

    Raises
    ------
    PlanError
        [design-option]: if the design does not have one of the options.
    """
    supported = DESIGNS.load(name).options
    for option in options:
        if option in supported:
            continue
        close_matches = get_close_matches(option, supported, n=1)
        hint = f"Did you mean '{close_matches[0]}'? " if close_matches else ""
        choices = f"Set one of: {', '.join(supported)}." if supported else "Remove it; the design has no options."
        raise PlanError(
            f"The design '{name}' does not have this option: got '{option}'. {hint}{choices}", slug="design-option"
        )
