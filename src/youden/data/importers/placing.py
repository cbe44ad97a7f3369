"""Writes an imported pool where nothing else stands."""

from __future__ import annotations

from pathlib import Path

from youden.data.pools.reader import RESPONSES, read_pool
from youden.data.pools.writer import write_pool
from youden.errors import ImportFormatError
from youden.nouns import Pool

RUN_FILES = ("pool.json", "plan.parquet", "verdicts.parquet")


def refuse_run(out: Path, files: tuple[str, ...] = RUN_FILES) -> None:
    """Raises: ImportFormatError [import-other] where `out` has one of a run's files."""
    if any((out / file).exists() for file in files):
        raise ImportFormatError(
            f"{out} holds a run already. Give an --out of its own, or delete that folder.", slug="import-other"
        )


def write_imported(pool: Pool, out: Path) -> None:
    """Write `pool` into the folder `out`. Raises: ImportFormatError [import-other] where a run or another pool is there."""
    refuse_run(out)
    if (out / RESPONSES).exists() and read_pool(out).digest != pool.digest:
        raise ImportFormatError(
            f"{out} holds another pool already. Give an --out of its own, or delete that folder.", slug="import-other"
        )
    write_pool(pool, out)
