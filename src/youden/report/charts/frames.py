"""The numbers behind a chart as columns: small in a file, easy to expand into rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from youden.nouns import Json
from youden.text.printable import printable

Value = str | int | float | bool | None
Column = Sequence[Value] | NDArray[np.float64] | NDArray[np.int64]

DECIMALS = 5
"""Kept of a number that is drawn."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns of equal length. Other people's names in them are made printable."""

    columns: Mapping[str, tuple[Value, ...]]

    @classmethod
    def of(cls, **columns: Column) -> Frame:
        """From sequences or arrays; NaN becomes None, numbers keep `DECIMALS`."""
        return cls({name: _values(column) for name, column in columns.items()})

    def rows(self) -> list[dict[str, Json]]:
        """One mapping a row."""
        names = list(self.columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    def packed(self) -> dict[str, Json]:
        """Each column as it is, or as distinct `levels` and their `codes` where text repeats."""
        return {name: _packed(column) for name, column in self.columns.items()}


def _packed(column: Sequence[Value]) -> Json:
    if not any(isinstance(one, str) for one in column):
        return list(column)
    levels = {one: code for code, one in enumerate(dict.fromkeys(column))}
    if len(levels) > len(column) // 2:
        return list(column)
    return {"levels": list(levels), "codes": [levels[one] for one in column]}


def _values(column: Column) -> tuple[Value, ...]:
    if isinstance(column, np.ndarray):
        rounded: list[Value] = np.round(column, DECIMALS).tolist()
        return tuple(None if isinstance(value, float) and math.isnan(value) else value for value in rounded)
    return tuple(_value(value) for value in column)


def _value(value: Value) -> Value:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, DECIMALS)
    return value
