"""A figure and its interval in words: never an interval that looks like a point."""

from __future__ import annotations

_MOST_DIGITS = 9


def with_interval(value: float, low: float | None, high: float | None, *, digits: int = 2, why: str = "") -> str:
    """`value [low, high]`, with more digits where the ends would else look alike.

    low, high: None or NaN where there is no interval, as where they are equal. why: said then, if it says `none: …`.

    >>> with_interval(0.931, 0.9, 0.954)
    '0.93 [0.90, 0.95]'
    >>> with_interval(0.9996, 0.9989, 0.9998)
    '1.000 [0.999, 1.000]'
    >>> with_interval(1.0, None, None, why="none: a perfect rank correlation gives none")
    '1.00 (no interval: a perfect rank correlation gives none)'
    """
    if low is None or high is None or not low < high:
        reason = why.removeprefix("none: ")
        return f"{value:.{digits}f}" + (f" (no interval: {reason})" if reason != why else "")
    digits = _telling(low, high, digits)
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def signed(low: float | None, high: float | None, *, digits: int = 2) -> str:
    """The interval of a difference, or a dash where there is none.

    >>> signed(-0.1, 0.25), signed(-0.0037, 0.0041), signed(None, None)
    ('-0.10 … +0.25', '-0.004 … +0.004', '–')
    """
    if low is None or high is None:
        return "–"
    digits = _telling(low, high, digits)
    return f"{low:+.{digits}f} … {high:+.{digits}f}"


def _telling(low: float, high: float, digits: int) -> int:
    while round(low, digits) == round(high, digits) and digits < _MOST_DIGITS:
        digits += 1
    return digits
