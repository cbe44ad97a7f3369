"""Read numbers in the forms that occur in tables: "0,5" with a decimal comma, "50%", or words such as "yes"."""

from __future__ import annotations

import re
from decimal import Decimal
from numbers import Real

import numpy as np

_YES = ("true", "yes", "pass", "passed", "correct", "right", "win")
_NO = ("false", "no", "fail", "failed", "incorrect", "wrong", "loss")
_VALUE_BY_WORD = dict.fromkeys(_YES, 1.0) | dict.fromkeys(_NO, 0.0) | {"tie": 0.5}
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(\s*%)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}(\s*%)?")


def is_unit_label(value: object) -> bool:
    """Return whether a label is a percentage, a truth value or a word such as yes, which mean a number from 0 to 1."""
    if isinstance(value, str):
        text = value.strip().lower()
        return text.endswith("%") or text in _VALUE_BY_WORD
    return isinstance(value, bool | np.bool_)


def has_decimal_comma(text: str) -> bool:
    """Return whether a text is a number with a decimal comma, such as 0,5 or 70,5%."""
    return _DECIMAL_COMMA.fullmatch(text.strip()) is not None


def list_spellings(text: str) -> list[str]:
    """List both meanings of a number with an ambiguous comma, such as 1,234: 1234 and 1.234; none for other texts."""
    number = text.strip()
    if not _THOUSANDS.fullmatch(number):
        return []
    return [number.replace(",", ""), number.replace(",", ".")]


def to_number(value: object) -> float | None:
    """Convert a number, or a text such as 0.5, 0,5, 50% or yes, to a number; None if this is not possible."""
    if isinstance(value, Real | np.bool_ | Decimal):
        return float(value)
    if not isinstance(value, str):
        return None

    text = value.strip()
    word = text.lower()
    if word in _VALUE_BY_WORD:
        return _VALUE_BY_WORD[word]
    return parse_number(text)


def parse_number(text: str) -> float | None:
    """Convert a text such as "0.5", "0,5" with a decimal comma, or "50%" (which is .5) to a number; None for another text.

    text : text without white space around it
    """
    text = text.replace("−", "-")  # the minus sign U+2212
    with_decimal_point = text.replace(",", ".") if has_decimal_comma(text) else text
    divisor = 100 if with_decimal_point.endswith("%") else 1
    try:
        return float(with_decimal_point.removesuffix("%")) / divisor
    except ValueError:
        return None
