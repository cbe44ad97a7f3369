"""Estimates from scores: arrays in, arrays out. Everything named here loads when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from youden.stats.additive import Solution, solve_additive, solve_cells
    from youden.stats.cells import Cells, cells_of, check_cells

_HOMES = {
    "Cells": "youden.stats.cells",
    "Solution": "youden.stats.additive",
    "cells_of": "youden.stats.cells",
    "check_cells": "youden.stats.cells",
    "solve_additive": "youden.stats.additive",
    "solve_cells": "youden.stats.additive",
}

__all__ = ["Cells", "Solution", "cells_of", "check_cells", "solve_additive", "solve_cells"]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'youden.stats' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
