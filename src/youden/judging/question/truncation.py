"""Shortens two texts so that a request fits a model's context.

It counts characters, for no tokenizer is at hand, and shortens only where the judge's config asks for it.
"""

from __future__ import annotations

from typing import Literal

Truncation = Literal["refuse", "middle", "end"]

MARK = "\n[…]\n"


def shortened(first: str, second: str, *, room: int, policy: Truncation) -> tuple[str, str]:
    """Both texts, cut to `room` characters together: half for each, and what one does not need goes to the other.

    `middle` takes the middle out of a text, `end` its end, and leaves `MARK` there; `refuse` changes nothing.

    >>> shortened("a" * 9, "b" * 40, room=30, policy="end")
    ('aaaaaaaaa', 'bbbbbbbbbbbbbbbb\\n[…]\\n')
    """
    if policy == "refuse" or len(first) + len(second) <= room:
        return first, second
    half = room // 2
    for_first = max(half, room - len(second)) if len(first) > half else len(first)
    for_second = room - min(for_first, len(first))
    return _cut(first, for_first, policy), _cut(second, for_second, policy)


def _cut(text: str, room: int, policy: Truncation) -> str:
    if len(text) <= room:
        return text
    kept = max(0, room - len(MARK))
    if policy == "end":
        return text[:kept] + MARK
    tail = kept // 2
    return text[: kept - tail] + MARK + text[len(text) - tail :]
