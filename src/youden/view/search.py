"""Which cells a search for words finds."""

from __future__ import annotations

import numpy as np
from starlette.exceptions import HTTPException

from youden.nouns import Plan, Pool
from youden.nouns.arrays import Bools

MAX_WORDS = 200
"""Characters of a search."""


def cells_with(plan: Plan, pool: Pool | None, words: str) -> Bools | None:
    """bool[K, J]: the cells whose response, agent or item holds these words, in upper or lower case; None for no words.

    pool: None where the texts cannot be read, then names alone are searched. Raises: HTTPException 400 for a search too long.
    """
    sought = words.strip().lower()
    if not sought:
        return None
    if len(sought) > MAX_WORDS:
        raise HTTPException(400, f"A search is at most {MAX_WORDS} characters long.")
    agents, items = (np.array([sought in name.lower() for name in names]) for names in (plan.agent_ids, plan.item_ids))
    held = agents[:, None] | items
    if pool is not None:
        held |= np.array([[text is not None and sought in text.lower() for text in row] for row in pool.texts])
    return np.asarray(held, dtype=np.bool_)
