"""Parse JSON as servers and tools write it, beyond what the standard allows.

orjson parses strict JSON. Only text that it rejects is parsed a second time, by `json`, which accepts the constants
NaN, Infinity and -Infinity, lone surrogates, and control characters inside strings.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections import Counter
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

MAX_DEPTH = 200
"""Deepest nesting of lists and objects in text that is not strict JSON. orjson's own limit is 1024."""

JSONDecodeError = orjson.JSONDecodeError
"""Raised by `parse_json`; a subclass of `json.JSONDecodeError` and of `ValueError`."""


class ParsedJson(NamedTuple):
    """A JSON value, and what was not strict JSON in its text.

    Attributes
    ----------
    value : Any
        The parsed value. NaN and infinities are floats; a character that UTF-8 cannot encode is U+FFFD.
    n_nonfinite : int
        Number of constants NaN, Infinity and -Infinity, and of numbers too large for a float, such as 1e999.
    n_replaced_texts : int
        Number of strings and keys in which a lone surrogate or an invalid byte became U+FFFD.
    """

    value: Any
    n_nonfinite: int = 0
    n_replaced_texts: int = 0


class RepeatedKeyError(orjson.JSONDecodeError):
    """Raised by `parse_json` if an object has a key twice, so that one of the two values would be lost."""


def parse_json(text: str | bytes, *, unique_keys: bool = True) -> ParsedJson:
    r"""Parse JSON, tolerating a byte order mark, non-finite numbers, lone surrogates, and line breaks inside strings.

    Parameters
    ----------
    text : str or bytes
        JSON; bytes are UTF-8, with or without a byte order mark.
    unique_keys : bool, default True
        Whether it is an error if an object has a key twice. If False, the last value of the key counts, so that a reply that
        was paid for is not lost.

    Returns
    -------
    ParsedJson
        The value, with counts of what was replaced.

    Raises
    ------
    JSONDecodeError
        If the text is not JSON, or is nested too deeply.
    RepeatedKeyError
        If an object has a key twice.

    Examples
    --------
    >>> parse_json('{"answer": "cut \\ud83d", "score": NaN}')
    ParsedJson(value={'answer': 'cut \ufffd', 'score': nan}, n_nonfinite=1, n_replaced_texts=1)
    """
    text = text.removeprefix("\ufeff") if isinstance(text, str) else text.removeprefix(BOM_UTF8)
    parsed = _parse_tolerantly(text)
    if unique_keys:
        check_unique_keys(_decode(text))  # the parser above keeps the last value of a repeated key
    return parsed


def _decode(text: str | bytes) -> str:
    """Return JSON as a string, in which an invalid byte is a lone surrogate."""
    return text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")


def _parse_tolerantly(text: str | bytes) -> ParsedJson:
    """Parse JSON, and replace what strict JSON does not allow, as far as possible.

    Strict JSON is parsed by orjson, which is fast. A text that orjson refuses is parsed again by the module `json`. If an
    object has a key twice, the last value counts.

    text : JSON without a byte order mark

    Raises: JSONDecodeError, by orjson, if neither parser accepts the text.
    """
    try:
        return ParsedJson(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        error_of_orjson = error
    n_nonfinite = 0

    def parse_float(literal: str) -> float:
        """Convert a number or a constant such as "NaN", and count it if it is not finite."""
        nonlocal n_nonfinite
        number = float(literal)
        if not math.isfinite(number):
            n_nonfinite += 1
        return number

    try:
        value = json.loads(
            _decode(text), strict=False, parse_constant=parse_float, parse_float=parse_float, parse_int=_parse_int
        )
        replacer = _SurrogateReplacer()
        value_without_surrogates = replacer.replace(value)
    except (ValueError, RecursionError):
        raise error_of_orjson from None
    return ParsedJson(value_without_surrogates, n_nonfinite, replacer.n_texts)


def check_unique_keys(text: str) -> None:
    """Check that no object in a JSON text has a key twice.

    A text that is nested too deeply for the module `json` is not checked. The callers refuse it for another reason.

    Parameters
    ----------
    text : str
        JSON without a byte order mark.

    Raises
    ------
    RepeatedKeyError
        If an object has a key twice.
    ValueError
        If the text is not JSON.
    """

    def check_keys(members: list[tuple[str, Any]]) -> None:
        """Check the keys of one object, whose members are pairs of a key and a value."""
        if len(dict(members)) == len(members):  # faster than counting the keys of each object
            return
        key_counts = Counter(key for key, _ in members)
        [(most_frequent_key, _)] = key_counts.most_common(1)
        raise _make_repeated_key_error(most_frequent_key, text)

    # orjson does not report repeated keys; `json` calls `check_keys` for each object. The values are not used: with `str`, they
    # are not converted to numbers.
    with suppress(RecursionError):
        json.loads(text, strict=False, object_pairs_hook=check_keys, parse_constant=str, parse_float=str, parse_int=str)


def _make_repeated_key_error(key: str, text: str) -> RepeatedKeyError:
    """Make the error for a key that an object in a JSON text has twice, with the position of its last occurrence."""
    occurrences = [match.start() for match in re.finditer(rf'"{re.escape(key)}"\s*:', text)]
    return RepeatedKeyError(f"the key {key!r} occurs twice", text, occurrences[-1] if occurrences else 0)


def _parse_int(digits: str) -> int | float:
    """Parse an integer as orjson does: as a float if it needs more than 64 bits."""
    is_short = len(digits) <= len(str(2**64))
    return int(digits) if is_short and -(2**63) <= int(digits) < 2**64 else float(digits)


def is_nested_deeper(value: Any, max_depth: int) -> bool:
    """Return whether lists and objects in a JSON value are nested more than `max_depth` deep.

    Examples
    --------
    >>> is_nested_deeper([[1], {"a": []}], 3), is_nested_deeper([[1], {"a": []}], 2)
    (False, True)
    """
    values_at_depth = [value]
    for _ in range(max_depth + 1):
        containers = [inner for inner in values_at_depth if isinstance(inner, list | dict)]
        if not containers:
            return False
        values_at_depth = []
        for container in containers:
            values_at_depth += container.values() if isinstance(container, dict) else container
    return True


def replace_surrogates(text: str) -> str:
    """Replace every lone surrogate in `text`, which UTF-8 cannot encode, by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _SurrogateReplacer:
    """Replaces lone surrogates by U+FFFD in the texts of JSON values, and counts the texts that it changes.

    A lone surrogate is one half of a character that UTF-16 represents by two code units. UTF-8 cannot encode it.
    """

    def __init__(self) -> None:
        self.n_texts = 0
        """Number of texts, including keys, in which a surrogate was replaced."""

    def replace(self, value: Any, *, depth: int = 0) -> Any:
        """Return a copy of a JSON value in which U+FFFD replaces each lone surrogate, also in keys, and count the changed texts.

        The number of changed texts and keys is added to `n_texts`.

        value : parsed JSON value; numbers, bools and None are returned unchanged
        depth : number of lists and objects around the value

        Raises: RecursionError if lists and objects are nested more than 200 deep.
        """
        if depth > MAX_DEPTH:
            raise RecursionError
        if isinstance(value, str):
            encodable = replace_surrogates(value)
            self.n_texts += encodable != value
            return encodable
        if isinstance(value, list):
            return [self.replace(element, depth=depth + 1) for element in value]
        if isinstance(value, dict):
            return {
                self.replace(key, depth=depth + 1): self.replace(member, depth=depth + 1)
                for key, member in value.items()
            }
        return value


def replace_nonfinite(value: Any) -> Any:
    """Replace every NaN and infinity inside a JSON value by None (null in JSON).

    Parameters
    ----------
    value : Any
        A parsed JSON value.

    Returns
    -------
    Any
        A new value; other parts are unchanged.

    Examples
    --------
    >>> replace_nonfinite({"score": [float("nan"), 1.0]})
    {'score': [None, 1.0]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [replace_nonfinite(item) for item in value]
    if isinstance(value, dict):
        return {key: replace_nonfinite(item) for key, item in value.items()}
    return value
