"""Copy answers from one store to another.

A copy includes everything that was paid for: answers, failures, judges and cost accounts. Rows that the target already
has are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from youden.judging.store.answers import open_store
from youden.judging.store.contract import COPIED_TABLES, CopiedTable, StorageBackend

ROWS_PER_QUERY = 1000


@dataclass(frozen=True)
class CopyCounts:
    """Numbers of answers that were copied."""

    n_answers: int
    """Answers in the sources."""
    n_new: int
    """Answers that were added to the target."""


def copy_stores(sources: Sequence[str | Path], target: str | Path) -> CopyCounts:
    """Copy all rows of several stores into another store, which is created if it does not exist.

    A copy may be repeated, also after it was interrupted. Two stores may have an answer to the same request, or a payment of the
    same account for the same request. Then the row that is in the target already is kept, or else the row of the first store.

    Parameters
    ----------
    sources : sequence of str or Path
        Paths or URLs of the stores to read.
    target : str or Path
        Path or URL of the store to write.

    Returns
    -------
    CopyCounts
        Numbers of answers that were read and added.

    Raises
    ------
    ConfigError, JudgeError
        The errors of `open_store`.
    """
    n_answers = n_new = 0
    with open_store(target) as target_store:
        for source in sources:
            with open_store(source, read_only=True) as source_store:
                for table in COPIED_TABLES:
                    n_rows, n_added = _copy_table(table, source_store.backend, target_store.backend)
                    if table == "answers":
                        n_answers += n_rows
                        n_new += n_added
    return CopyCounts(n_answers, n_new)


def _copy_table(table: CopiedTable, source: StorageBackend, target: StorageBackend) -> tuple[int, int]:
    """Copy the rows of a table in chunks; return the numbers of rows that were read and that were added.

    source, target : open stores to read from and to write to
    """
    n_rows = n_added = 0
    last_row = None
    while True:
        rows = source.rows(table, last_row, n=ROWS_PER_QUERY)
        if not rows:
            return n_rows, n_added
        n_rows += len(rows)
        n_added += target.put_rows(table, rows)
        last_row = rows[-1]
