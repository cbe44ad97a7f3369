"""Narrow optional values in tests."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """Return a value of which the test expects that it is not None."""
    assert value is not None
    return value
