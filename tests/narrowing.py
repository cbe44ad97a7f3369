"""Narrow optional values, and pass wrong arguments on purpose, in tests that mypy checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """Return a value that the test expects not to be None."""
    assert value is not None
    return value


def untyped(function: Callable[..., T]) -> Callable[..., T]:
    """Return a function without the types of its parameters, for tests that pass wrong arguments."""
    return function
