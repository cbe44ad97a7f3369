"""Copy answers from one store into another.

A copy moves everything that was paid for: answers, failures, judges and cost accounts. What the target holds already stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from youden.judging.store.answers import open_store
from youden.judging.store.contract import KEPT

AT_ONCE = 1000


@dataclass(frozen=True)
class Copied:
    """n_answers: that were read; n_new: of them, that were not there before."""

    n_answers: int
    n_new: int


def copy_stores(sources: Sequence[str | Path], target: str | Path) -> Copied:
    """Put everything of `sources` into `target`, made where there is none. It can be done again at any time, also after it broke
    off. Of two answers to one request the first stands, of two payments of one payer for one request, too.

    Raises: as `open_store`.
    """
    n_answers = n_new = 0
    with open_store(target) as to:
        for source in sources:
            with open_store(source, read_only=True) as store:
                for kept in KEPT:
                    last = None
                    while rows := store.place.rows(kept, last, n=AT_ONCE):
                        added = to.place.put_rows(kept, rows)
                        last = rows[-1]
                        if kept == "answers":
                            n_answers, n_new = n_answers + len(rows), n_new + added
    return Copied(n_answers, n_new)
