"""A run's trials and answers as tables of positions in a database: read from Parquet once, asked many times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from youden.errors import RunFolderError
from youden.nouns import Plan

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Columns = dict[str, NDArray[Any]]


def load_trials(database: DuckDBPyConnection, files: Sequence[Path], plan: Plan) -> None:
    """Make `paired` (item, first, second, slot, answer) and `apart` (item, first, second, other, answer, hard, probe), one row a
    trial of either arm: agents and items as positions, answer and hard null where missing; and the view `source` of the files.

    plan: the run's; its trials are not read. Raises: RunFolderError [run-file-damaged] for an agent or item it does not know.
    """
    from duckdb import ConversionException

    for name, ids in (("agent_id", plan.agent_ids), ("item_id", plan.item_ids)):
        database.execute(f"CREATE TYPE {name} AS ENUM ({', '.join(map(_quoted, ids))})")
    names = ", ".join(_quoted(str(file)) for file in files)
    database.execute(
        f"CREATE VIEW source AS SELECT * FROM read_parquet([{names}], filename = true, file_row_number = true)"
    )
    positions = """enum_code(item::item_id)::INTEGER AS item, enum_code(first::agent_id)::INTEGER AS first,
        enum_code(second::agent_id)::INTEGER AS second, CASE WHEN missing IS NULL THEN answer END AS answer"""
    try:
        database.execute(f"CREATE TABLE paired AS SELECT {positions}, slot FROM source WHERE arm = 'paired'")
        database.execute(
            f"CREATE TABLE apart AS SELECT {positions}, enum_code(other_item::item_id)::INTEGER AS other, "
            f"CASE WHEN missing IS NULL THEN hard END AS hard, {_probe(database, plan.n_probes)} AS probe "
            "FROM source WHERE arm = 'independent'"
        )
    except ConversionException as error:
        raise RunFolderError(
            f"{files[0]} names an agent or item that the plan does not know ({error}). Judge this plan again with "
            "`youden judge CONFIG`; the store keeps what is paid for.",
            slug="run-file-damaged",
        ) from error


def columns(database: DuckDBPyConnection, sql: str) -> Columns:
    """All rows of a query, column by column; null is −1 of a whole number, NaN of another."""
    return {name: _filled(column) for name, column in database.execute(sql).fetchnumpy().items()}


def _filled(column: Any) -> NDArray[Any]:
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    return np.asarray(column.filled(np.nan if column.dtype.kind == "f" else -1))


def _quoted(text: str) -> str:
    """Any text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _probe(database: DuckDBPyConnection, n_probes: int) -> str:
    """SQL: whether a row of `source` is one of the first `n_probes` of the independent arm."""
    if not n_probes:
        return "false"
    last = database.execute(
        "SELECT filename, file_row_number FROM source WHERE arm = 'independent' "
        f"ORDER BY filename, file_row_number LIMIT 1 OFFSET {n_probes - 1}"
    ).fetchone()
    return "true" if last is None else f"(filename, file_row_number) <= ({_quoted(last[0])}, {int(last[1])})"
