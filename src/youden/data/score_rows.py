"""Read the rows of tables of scores, or of results of a benchmark, with their locations in the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from youden.data.importers.column_names import infer_role, is_agent_name, normalize_name
from youden.data.importers.foreign_files import find_disambiguating_suffixes, import_error
from youden.data.importers.score_results import read_result_rows
from youden.data.importers.table_files import find_tables, iter_plain_locations, read_plain_frame, read_tables
from youden.data.importers.table_header import Row, Rows
from youden.text.replacements import Replacements
from youden.types.arguments import describe_no_frame

if TYPE_CHECKING:
    import pandas as pd

_MAX_NAMES = 5
"""Number of names that a message lists."""


class LocatedFrame(NamedTuple):
    """Rows of a table, with their locations in the files.

    Attributes
    ----------
    frame : pandas.DataFrame
        The rows.
    locate : callable
        Function that returns the location of a row, for messages, for the position of the row in `frame`.
    tables : sequence of str
        Names of the files or sheets, if there are several.
    """

    frame: pd.DataFrame
    locate: Callable[[int], str]
    tables: Sequence[str] = ()


def read_frame_rows(table: object) -> LocatedFrame:
    """Read the rows of scores from a DataFrame or Series of pandas.

    The index becomes a column, because it may contain the names of models or items. The index is dropped if it only numbers the
    rows, or if a column has the same name.

    table : a DataFrame or Series of pandas

    Returns the rows, with a text as the name of each column.

    Raises: ImportFormatError [scores-columns] if `table` is not a table, if it has columns of several levels, or if two columns
        have the same name.
    """
    frame = _move_index_into_columns(_to_frame(table)).rename(columns=str)
    duplicates = frame.columns[frame.columns.duplicated()]
    if len(duplicates):
        problem = f"several columns have the same name: got {duplicates[0]!r}. Give each column a different name."
        raise import_error("table", problem, slug="scores-columns")
    return LocatedFrame(frame, lambda row: f"table, row {row + 1}")


def _to_frame(table: object) -> pd.DataFrame:
    """Return a table in memory as a data frame: the data frame itself, or a series as a data frame with one column.

    Raises: ImportFormatError [scores-columns] if `table` is neither, or if its columns have several levels, so that a column
        has no single name.
    """
    import pandas as pd  # slow to import

    if not isinstance(table, pd.DataFrame | pd.Series):
        problem = f"a table of scores is read from paths or a pandas DataFrame: {describe_no_frame(table)}"
        remedy = "Pass a path, a list of paths or a DataFrame."
        raise import_error("table", f"{problem} {remedy}", slug="scores-columns")

    frame = table.to_frame() if isinstance(table, pd.Series) else table
    if frame.columns.nlevels > 1:
        levels = ", ".join(map(repr, frame.columns.unique(0)[:_MAX_NAMES]))
        problem = f"its columns have several levels: got {levels} in the first."
        remedy = 'Select one score, for example by table["score"].'
        raise import_error("table", f"{problem} {remedy}", slug="scores-columns")
    return frame


def _move_index_into_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert the index of a data frame to columns, because the index may contain the names of models or items.

    An index that only numbers the rows is dropped. A level of the index with the name of an existing column is
    dropped as well. A level without a name becomes the column "index 1", "index 2" and so on.

    Returns the converted frame; the frame that is passed does not change.
    """
    index = frame.index
    only_numbers_rows = index.names == [None] and index.dtype.kind in "iu"
    repeated_levels = [level for level, name in enumerate(index.names) if name is not None and name in frame.columns]
    all_levels_are_columns = len(repeated_levels) == index.nlevels
    if only_numbers_rows or all_levels_are_columns:
        return frame.reset_index(drop=True)

    if repeated_levels:
        frame = frame.reset_index(level=repeated_levels, drop=True)
    names = [f"index {number}" if name is None else name for number, name in enumerate(frame.index.names, 1)]
    return frame.reset_index(names=names)


def read_score_rows(paths: Sequence[Path], notes: list[str]) -> LocatedFrame:
    """Read the rows of scores from files, which are results of a benchmark or other tables.

    If all paths have results of one known benchmark, such as MTEB, only these results are read. Otherwise, all tables are
    read.

    paths : files and folders. If there are several paths, a table without a column of models gets a column `model` with its
        name. For files of the same name, the names of folders that distinguish them are added.
    notes : receives what was assumed

    Returns the rows of all tables. A cell is a text in a plain CSV or TSV file, and otherwise has the type of its file.

    Raises: ImportFormatError [import-empty] if there is no file or table, or if a table has no rows; others if a file cannot be
        read.
    """
    if not paths:
        raise import_error("table", "there is no file: got an empty list. Pass at least one path.", slug="import-empty")
    result_rows = read_result_rows(paths, notes)
    if result_rows:
        return _to_located_frame(result_rows)

    files = find_tables(paths)
    if not files:
        problem = "there is no table in this folder: got no CSV, TSV, Excel, JSON or Parquet file. Pass a file or another folder."
        raise import_error(paths[0], problem, slug="import-empty")
    if len(files) == 1:
        frame = read_plain_frame(files[0], lambda text, _location: notes.append(text))
        if frame is not None:
            return LocatedFrame(frame, lambda position: _find_location(files[0], position))
    rows, tables = _read_all_rows(files, notes, adds_models=len(paths) > 1)
    return _to_located_frame(rows)._replace(tables=tables if len(tables) > 1 else ())


def _read_all_rows(files: Sequence[Path], notes: list[str], *, adds_models: bool) -> tuple[Rows, list[str]]:
    """Read the rows of all tables in files, and the names of the tables.

    notes : receives what was assumed
    adds_models : whether a table without a column of models gets a column `model` with the name of the table

    Raises: ImportFormatError [import-empty] if a table has no rows.
    """
    rows: Rows = []
    tables: list[str] = []
    replaced = Replacements()
    # folders that distinguish files of the same name
    folders = find_disambiguating_suffixes([file.stem for file in files], [file.parent for file in files])
    for file, folder in zip(files, folders, strict=True):
        for name, table_rows in read_tables(file, lambda text, _location: notes.append(text), replaced):
            if not table_rows:
                problem = "it has no rows. Pass a table with a header and a row, or a JSON list of objects."
                raise import_error(file, problem, slug="import-empty")
            table = f"{folder}/{name}" if folder else name
            tables.append(table)
            _, first_row = table_rows[0]
            needs_model = adds_models and not any(map(is_model_name, first_row))
            model: Row = {"model": table} if needs_model else {}
            rows += [(location, model | row) for location, row in table_rows]

    replacements = replaced.describe()
    if replacements:
        notes.append(replacements)
    return rows, tables


def _to_located_frame(rows: Rows) -> LocatedFrame:
    """Convert rows with their locations to a data frame, and keep the locations for messages."""
    import pandas as pd  # slow to import

    locations = [location for location, _ in rows]
    frame = pd.DataFrame([row for _, row in rows], dtype=object)
    return LocatedFrame(frame, locations.__getitem__)


def _find_location(file: Path, position: int) -> str:
    """Find the location of a row by its position. The file is read again, because only error messages need locations."""
    return next(islice(iter_plain_locations(file), position, None))


def is_model_name(name: str) -> bool:
    """Return whether the name of a column refers to models, such as "model_id" and "system".

    The result is False for "name", which may also be the name of an item.
    """
    return is_agent_name(name) or (infer_role(name) == "agent" and normalize_name(name) != "name")
