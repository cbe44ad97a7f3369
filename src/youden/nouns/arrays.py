"""Array aliases, the one way to make an array read-only, and NaN as files write it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ids = NDArray[np.int32]
Positions = NDArray[np.int64]
Codes = NDArray[np.int8]
Objects = NDArray[np.object_]


def freeze(arrays: Iterable[NDArray[np.generic] | None]) -> None:
    """Set every array's write flag to false."""
    for array in arrays:
        if array is not None:
            array.setflags(write=False)


def or_none(value: float) -> float | None:
    """NaN as None, which JSON has a word for."""
    return None if np.isnan(value) else float(value)
