"""A DuckDB database for one fit: how much memory it takes, where it spills to, and what is said when it cannot go on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from youden.data.atomic import workplace
from youden.errors import ConfigError, RunFolderError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "1GB"
"""What the database keeps in memory where nobody says otherwise; arrays of agents × items come on top."""
_SIZE = re.compile(r"\d+(\.\d+)?\s*(MB|GB)", re.IGNORECASE)


def installed() -> bool:
    """Whether the extra `duckdb` is there."""
    return find_spec("duckdb") is not None


def check_memory(memory: str) -> None:
    """Raises: ConfigError [engine-memory] unless it is a number and MB or GB."""
    if not _SIZE.fullmatch(memory.strip()):
        raise ConfigError(
            f"'{memory}' is no amount of memory. Write a number and MB or GB, such as 4GB.", slug="engine-memory"
        )


@contextmanager
def database(beside: Path, *, memory: str = MEMORY) -> Iterator[DuckDBPyConnection]:
    """An empty database in a folder of its own inside `beside`, taken away at the end; it spills into the same folder.

    Raises: ConfigError [engine-duckdb] without DuckDB, [engine-memory]; RunFolderError [engine-full] where disk or memory runs
    out; nothing of the run has changed then.
    """
    if not installed():
        raise ConfigError(
            "The engine duckdb needs DuckDB, which is not installed. Install `youden[duckdb]`, or say --engine arrays.",
            slug="engine-duckdb",
        )
    check_memory(memory)
    import duckdb

    try:
        with (
            workplace(beside) as place,
            duckdb.connect(str(place / "fit.duckdb")) as connection,
        ):
            connection.execute(f"SET memory_limit = '{memory.strip()}'")
            connection.execute("SET temp_directory = ?", [str(place / "spilled")])
            yield connection
    except (duckdb.OutOfMemoryException, duckdb.IOException, duckdb.TransactionException, OSError) as error:
        raise RunFolderError(
            f"DuckDB could not go on in {beside}: {error}. Make room on that disk, or raise --memory (now {memory}); "
            "the run is as it was.",
            slug="engine-full",
        ) from error
