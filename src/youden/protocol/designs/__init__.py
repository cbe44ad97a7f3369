"""Designs: which paired comparisons to make. One file each; a package elsewhere adds one by the group `youden.designs`."""

from __future__ import annotations

from typing import Protocol

from youden.registry import Registry
from youden.types import Design


class MakeDesign(Protocol):
    """Builds a design that may spend at most `n_paired` paired calls (None: as many as it takes)."""

    holdout: float
    """The fraction held out where the user names none."""
    percent: float | None
    """The share of the dense calls spent where the user names no budget; None: as many as it takes."""
    judges_holdout: bool
    """Whether it plans trials on held-out cells too; if not, the plan adds a few for each."""

    def __call__(self, *, n_paired: int | None) -> Design: ...


DESIGNS: Registry[MakeDesign] = Registry(
    "youden.designs",
    "design",
    {
        "dense": "youden.protocol.designs.dense:Dense",
        "cyclic": "youden.protocol.designs.cyclic:Cyclic",
    },
)
