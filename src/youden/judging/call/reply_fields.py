"""Check the fields of a reply: their types, numbers and names."""

from __future__ import annotations

from typing import Any

from youden.judging.call.failures import CallError
from youden.judging.call.secrets import mask_secrets
from youden.text.printable import to_encodable

MAX_TOKEN_COUNT = 10_000_000
"""Largest accepted number of tokens. No context window is longer, and sums of such numbers fit every column."""
MAX_NAME_CHARACTERS = 200
"""Maximum length of the name of a model, and of other short texts."""
MAX_TOKEN_BYTES = 128
"""Length of the longest token of any known tokenizer: a text of n bytes has at least n / 128 tokens."""


def require_object(value: object, name: str) -> dict[str, Any]:
    """Return a value of a reply if it is a JSON object.

    Parameters
    ----------
    value : object
        Value of the reply.
    name : str
        Name of the value, for the message.

    Raises
    ------
    CallError
        (transient): if the value is of another type.
    """
    if not isinstance(value, dict):
        raise make_invalid_error(f"{name} is {describe_type(value)}")
    return value


def is_number(value: object) -> bool:
    """Return whether a value is a float, or an integer that a float represents exactly; a bool is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) <= 2**53


_MAX_COUNT_DIGITS = len(str(MAX_TOKEN_COUNT))


def parse_count(value: object) -> int | None:
    """Parse a number of tokens from 0 to `MAX_TOKEN_COUNT`; None if it is invalid.

    Valid are an int, a float without a fraction, and a string of decimal digits, which providers' own libraries accept
    too. A bool is invalid.
    """
    if value is None:
        return None
    if type(value) is int:  # the most frequent type is tested first
        return value if 0 <= value <= MAX_TOKEN_COUNT else None

    if isinstance(value, str):
        is_number_text = value.isascii() and value.isdecimal() and len(value) <= _MAX_COUNT_DIGITS
        return parse_count(int(value)) if is_number_text else None
    if isinstance(value, float) and 0 <= value <= MAX_TOKEN_COUNT and value.is_integer():
        return int(value)
    return None


def clean_name(value: object) -> str | None:
    """Return a text without secrets, cut to `MAX_NAME_CHARACTERS`; None if the value is not a text."""
    if not isinstance(value, str):
        return None
    return mask_secrets(to_encodable(value))[:MAX_NAME_CHARACTERS]


def make_invalid_error(fault: str) -> CallError:
    """Return the error for a reply that is not a chat completion; `fault` describes why."""
    return CallError(f"The reply is not a valid chat completion ({fault}).", kind="transient")


def describe_type(value: object) -> str:
    """Describe the type of a value that has the wrong type, for an error message."""
    return "missing" if value is None else f"of type {type(value).__name__}"


def describe_number(value: object) -> str:
    """Describe a value that is not an accepted number, for an error message."""
    return repr(value)[:40] if is_number(value) else describe_type(value)
