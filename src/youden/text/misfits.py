"""Says in one sentence what pydantic found wrong with data, and where."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from pydantic import ValidationError

SHOWN = 60
"""Most characters of a wrong value that are shown."""


def misfit(
    error: ValidationError,
    *,
    keys: Iterable[str] = (),
    parts: Collection[str] = (),
    hidden: Collection[str] = (),
    shown: bool = True,
    whole: str = "the whole",
) -> str:
    """The first thing that does not fit: where it stands, why, what arrived; without a full stop.

    keys: what a key at the top may be called, to help with an unknown one. parts: names on the way to a value that are in the
    code and not in the file. hidden: keys whose values may be secret. shown: whether any value is. whole: a name for the data.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    way = [str(part) for part in first["loc"] if part not in parts]
    place, reason = ".".join(way), first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return unknown_key(place, keys if len(way) == 1 else ())
    if first["type"] == "missing":
        return f"{place!r} is missing"
    if first["type"] == "model_type":
        reason = "has no keys; write `key: value`, in JSON an object"
    if not place:
        return reason if first["type"] == "value_error" else f"{whole}: {reason}"
    arrived = f" is {repr(first['input'])[:SHOWN]}" if shown and way[0] not in hidden else ""
    return f"{place!r}{arrived}: {reason}"


def unknown_key(key: str, known: Iterable[str] = ()) -> str:
    """That there is no such key, with the nearest and all that there are; without a full stop."""
    known = list(known)
    close = get_close_matches(key, known, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"unknown key '{key}'" + (f". {hint}Known: {', '.join(known)}" if known else "")
