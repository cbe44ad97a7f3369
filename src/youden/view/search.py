"""What a search finds: agents and items by their names, cells by their words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from starlette.exceptions import HTTPException

from youden.nouns import Plan, Pool
from youden.nouns.arrays import Bools
from youden.text.printable import printable

MAX_WORDS = 200
"""Characters of a search."""
MAX_NAMES = 20
"""Names that are offered at a time."""


def named(names: Sequence[str], sought: str) -> frozenset[int] | None:
    """Positions of the name that reads `sought`, else of all that hold it, in upper or lower case; None where nothing is sought.

    Raises: HTTPException 400 for a search too long.

    >>> [sorted(named(("a1", "a10", "b"), sought)) for sought in ("a1", "A", "c")]
    [[0], [0, 1], []]
    """
    words = _checked(sought)
    if not words:
        return None
    shown = [printable(name).lower() for name in names]
    exact = frozenset(k for k, name in enumerate(shown) if name == words)
    return exact or frozenset(k for k, name in enumerate(shown) if words in name)


def names_like(names: Sequence[str], sought: str) -> list[str]:
    """The first names that hold `sought`, as they are shown, those that begin with it ahead.

    Raises: HTTPException 400 for a search too long.

    >>> names_like(("ba", "ab", "b"), "b")
    ['ba', 'b', 'ab']
    """
    words = _checked(sought)
    found = [name for name in map(printable, names) if words in name.lower()]
    return sorted(found, key=lambda name: not name.lower().startswith(words))[:MAX_NAMES]


def cells_with(plan: Plan, pool: Pool | None, words: str) -> Bools | None:
    """bool[K, J]: the cells whose response, agent or item holds these words, in upper or lower case; None for no words.

    pool: None where the texts cannot be read, then names alone are searched. Raises: HTTPException 400 for a search too long.
    """
    sought = _checked(words)
    if not sought:
        return None
    agents, items = (np.array([sought in name.lower() for name in names]) for names in (plan.agent_ids, plan.item_ids))
    held = agents[:, None] | items
    if pool is not None:
        held |= np.array([[text is not None and sought in text.lower() for text in row] for row in pool.texts])
    return np.asarray(held, dtype=np.bool_)


def _checked(words: str) -> str:
    sought = words.strip().lower()
    if len(sought) > MAX_WORDS:
        raise HTTPException(400, f"A search is at most {MAX_WORDS} characters long.")
    return sought
