"""Checks of what a design's options may be."""

from __future__ import annotations

from typing import Literal

from youden.errors import PlanError

PairRule = Literal["ordered", "unordered"]


def check_share(name: str, value: float | None) -> None:
    """Raises: PlanError [design-option] unless None or a number in (0, 1]."""
    if value is not None and not (_is_number(value) and 0 < value <= 1):
        raise PlanError(f"{name} is {value!r}. Give a share above 0 and up to 1.", slug="design-option")


def check_positive(name: str, value: float | None) -> None:
    """Raises: PlanError [design-option] unless None or a number above 0."""
    if value is not None and not (_is_number(value) and 0 < value < float("inf")):
        raise PlanError(f"{name} is {value!r}. Give a number above 0.", slug="design-option")


def check_count(name: str, value: object) -> None:
    """Raises: PlanError [design-option] unless None or a whole number ≥ 1."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise PlanError(f"{name} is {value!r}. Give a whole number, 1 or more.", slug="design-option")


def check_flag(name: str, value: object) -> None:
    """Raises: PlanError [design-option] unless True or False."""
    if not isinstance(value, bool):
        raise PlanError(f"{name} is {value!r}. Give true or false.", slug="design-option")


def check_pairs(value: PairRule) -> None:
    """Raises: PlanError [design-option] unless `ordered` or `unordered`."""
    if value not in ("ordered", "unordered"):
        raise PlanError(
            f"pairs is {value!r}. Give ordered (both orders are comparisons of their own) or unordered.",
            slug="design-option",
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
