"""Says what a mistyped name may have meant, and which names there are."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def near(name: str, known: Sequence[str], *, most: int = 10) -> str:
    """The nearest of `known`, where one is near, and the first `most` of them.

    >>> near("gpt4", ["gpt-4", "llama"]), near("x", ["gpt-4", "llama"], most=1)
    ("Did you mean 'gpt-4'? There are: gpt-4, llama.", 'There are: gpt-4 ….')
    """
    close = get_close_matches(name, known, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"{hint}There are: {', '.join(known[:most])}{' …' if len(known) > most else ''}."
