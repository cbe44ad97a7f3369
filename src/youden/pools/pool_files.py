"""Find the pool of a folder, and recognize tables that are pools.

A pool is a folder with responses.jsonl, or a table with the columns `agent`, `item` and `text`.
"""

from __future__ import annotations

from pathlib import Path

from youden.data.importers.table_files import EXTENSIONS, read_rows
from youden.data.pools.pool_reader import RESPONSES
from youden.errors import PoolError, YoudenError

MAX_LISTED = 6
"""Maximum number of pools that an error lists."""


POOL_TABLES = (".csv", ".parquet")
"""Extensions of tables that may be pools."""


def find_pool(start: Path) -> Path:
    """Find the only pool in a folder and its subfolders. If there is no pool, find the only table in the folder.

    Parameters
    ----------
    start : Path
        The folder.

    Returns
    -------
    Path
        The pool: a folder with a responses.jsonl, or a table with the columns of a pool. If there is no pool: a table whose
        columns have other names, which has to be imported as a pool.

    Raises
    ------
    PoolError
        [init-none]: if there is no pool or table; [init-several]: if there are several pools, or several tables and no pool.
    """
    candidates = _list_pools_or_tables(start)
    if not candidates:
        raise PoolError(
            f"There is no pool here: no table ({', '.join(EXTENSIONS)}), and no folder with {RESPONSES}. Run youden init FILE to "
            "name one, `youden import` to import files of other tools, or `youden demo` to see an example.",
            slug="init-none",
        )
    if len(candidates) > 1:
        names = ", ".join(str(path) for path in candidates[:MAX_LISTED])
        ellipsis = " …" if len(candidates) > MAX_LISTED else ""
        raise PoolError(
            f"There are {len(candidates)} pools here: {names}{ellipsis}. Run youden init FILE to name one.",
            slug="init-several",
        )
    return candidates[0]


def _list_pools_or_tables(folder: Path) -> list[Path]:
    """List the pools in a folder or, if there are none, its tables, which can be imported.

    A pool is a folder with a responses.jsonl (the folder itself, or a visible subfolder), or a CSV or Parquet file with the
    columns of a pool. The folder comes first, then its subfolders and tables, each in alphabetical order.
    """
    entries = sorted(folder.iterdir())
    subfolders = [path for path in entries if path.is_dir() and not path.name.startswith(".")]
    tables = [path for path in entries if path.is_file() and path.suffix.lower() in EXTENSIONS]

    pools = [path for path in (folder, *subfolders) if (path / RESPONSES).is_file()]
    pools += [path for path in tables if path.suffix.lower() in POOL_TABLES and has_pool_columns(path)]
    return pools or tables


def has_pool_columns(file: Path) -> bool:
    """Return whether a table has the columns `agent`, `item` and `text`.

    Also True if it cannot be read or has no row, because reading it as a pool then raises a more helpful error.
    """
    columns = _read_columns(file)
    return not columns or {"agent", "item", "text"} <= set(columns)


def _read_columns(file: Path) -> list[str]:
    """Read the column names of a table; an empty list if it cannot be read or has no row."""
    try:
        _, first_row = next(iter(read_rows(file)))
    except (YoudenError, StopIteration):
        return []
    return [str(name) for name in first_row]
