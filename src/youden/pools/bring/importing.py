"""Brings a pool from another tool's files into a pool's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from youden.data.importers import IMPORTERS
from youden.data.importers.joining import ImportedPool
from youden.data.importers.placing import write_imported
from youden.errors import ConfigError, ImportFormatError

TABLES = frozenset({"table", "hf-dataset"})
MAX_DROPPED = 0.01
"""The share of responses that an import may lose without being told that it may."""


def bring(
    format_: str,
    paths: Sequence[Path],
    out: Path,
    *,
    columns: Mapping[str, str] | None = None,
    allow_dropped: bool = False,
) -> ImportedPool:
    """Import files of one format into the pool's folder `out`.

    columns: agent, item, text, prompt or group → a column's name, for tables only. allow_dropped: go on, however many responses
    cannot be used.

    Raises: ConfigError [unknown-format], [import-columns]; ImportFormatError naming file and place,
    [import-dropped] where more than 1 % of the responses cannot be used, [import-other] where `out` holds a run or another pool.
    """
    read = IMPORTERS.load(format_)
    if columns and format_ not in TABLES:
        raise ConfigError(
            f"The format '{format_}' has no columns to name, but {', '.join(columns)} was given. Leave --column out.",
            slug="import-columns",
        )
    imported = read(paths, columns=columns or {})
    if imported.share_dropped > MAX_DROPPED and not allow_dropped:
        n_all = imported.n_dropped + int(imported.pool.present.sum())
        raise ImportFormatError(
            f"{imported.n_dropped:,} of {n_all:,} responses would be lost ({imported.share_dropped:.0%}; {MAX_DROPPED:.0%} may): "
            f"{'; '.join(imported.dropped)}. Give files in which each agent answers an item once, or go on without them: "
            "--allow-dropped.",
            slug="import-dropped",
        )
    write_imported(imported.pool, out)
    return imported
