"""Prepare the tables of files that belong together: flatten rows and find the responses.

A table without responses belongs to no agent. Only its prompts are used, and only if the other tables have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from youden.data.importers.column_names import get_name_priority, infer_role, is_agent_name, normalize_name
from youden.data.importers.column_roles import Roles
from youden.data.importers.column_values import FILE, FILE_NUMBER, FOLDER, ColumnValues, get_value, join_names
from youden.data.importers.foreign_files import find_unique_suffixes
from youden.data.importers.nested_rows import explode, flatten, is_list_of_objects
from youden.data.importers.response_columns import ColumnPath, detect_known_layout
from youden.data.importers.restarting_ids import split_composite
from youden.data.importers.table_files import SPREADSHEETS, Note, Rows, fill_down
from youden.types.pool import Json

_RESPONSE_FOLDERS = {
    *("predictions", "details", "model_answer", "answers", "responses", "generations", "completions"),
}
"""Names of folders that hold the responses if other folders hold other tables."""
_OTHER_FILES = {
    *("question", "prompt", "input", "instruction", "reference", "gold", "expected", "label", "dataset", "metadata"),
    *("config", "dataset_info"),
}
"""Names of files that hold no responses if other files do."""
_TIME = re.compile(
    r"[_-]*\d{4}-?\d\d-?\d\d(?:[T_ -]?\d\d[-:]?\d\d[-:]?\d\d(?:[.:]\d+)?)?(?:[+-]\d\d[-:]?\d\d)?", re.ASCII
)
_KIND = re.compile(r"(^|[._ ])(type|kind)$", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?:^|[-_. ]+)(?:repeat|rep|replicate|run|seed|trial|sample|attempt)s?[-_ ]*(\d+)(?=$|[-_. ])",
    re.IGNORECASE | re.ASCII,
)
"""Part of the name of a file or folder that numbers repeats."""


class SourceTable(NamedTuple):
    """A table in a file, or in a sheet of a file.

    Attributes
    ----------
    file : Path
    name : str
        Name of the file or sheet.
    rows : list of (str, dict)
        Location and values of each row; nested values are flattened.
    first_row : mapping
        First row as the file has it.
    """

    file: Path
    name: str
    rows: Rows
    first_row: Mapping[str, Json]

    @property
    def flat_rows(self) -> list[dict[str, Json]]:
        """Rows without locations."""
        return [row for _, row in self.rows]

    @property
    def columns(self) -> list[str]:
        """Names of all columns, in the order of their first occurrence."""
        return list(dict.fromkeys(column for _, row in self.rows for column in row))

    def get_candidates(self, role: str) -> list[str]:
        """Return the columns whose names propose a role, the most reliable first."""
        columns = (name for name in self.columns if infer_role(name) == role)
        return sorted(columns, key=lambda name: get_name_priority(name, role))

    def is_text_column(self, column: str) -> bool:
        """Return whether the values of a column are texts."""
        return ColumnValues([row.get(column) for _, row in self.rows]).is_text

    def get_layout(self, columns: Mapping[str, str]) -> str | None:
        """Return a key that tables of the same layout share; None if the table has no responses.

        The key is the column of the responses, or all columns of a known layout. `columns` are those that the user
        named, by role.
        """
        if "text" in columns:
            return columns["text"] if set(columns["text"].split(",")) & {*self.columns} else None
        layout = detect_known_layout(self.first_row)
        if "text" in layout:
            return ", ".join(f"{role}={column}" for role, column in layout.items())
        return next(filter(self.is_text_column, self.get_candidates("text")), None)


def prepare_table(file: Path, name: str, rows: Rows, columns: Mapping[str, str], note: Note) -> SourceTable:
    """Make a table with flat rows.

    If no column holds responses but a list of objects in a column does, the objects become rows. In spreadsheets, empty
    cells of agents, items and prompts are filled from above. `columns` are those that the user named, by role; `note`
    receives assumptions.
    """
    first_row = dict(rows[0][1])
    if "text" not in columns and "text" in detect_known_layout(first_row):
        return SourceTable(file, name, rows, first_row)

    flat = [(location, flatten(row) | _get_named_values(row, columns)) for location, row in rows]
    below_header = _with_header(flat)
    is_log = len(below_header) < len(flat)
    table = SourceTable(file, name, _drop_other_kinds(below_header, is_log=is_log, note=note), first_row)
    if file.suffix.lower() in SPREADSHEETS:
        for column in table.columns:
            if infer_role(column) in ("agent", "item", "prompt"):
                fill_down(table.rows, column, note)
    if table.get_layout(columns) is not None:
        return table

    for column in table.columns:
        if any(is_list_of_objects(row.get(column)) for row in table.flat_rows):
            elements = [(location, element) for location, row in table.rows for element in explode(row, column)]
            exploded = table._replace(rows=elements)
            if exploded.get_layout(columns) is not None:
                return exploded
    return table


def _get_named_values(row: Mapping[str, Json], columns: Mapping[str, str]) -> dict[str, Json]:
    """Return the values of the columns that the user named by a path or as a combination, by the text of the name."""
    flat = flatten(row) if columns else {}
    values: dict[str, Json] = {}
    for role, text in columns.items():
        for column in text.split(",") if role == "text" else [text]:
            if names := split_composite(column, flat):
                values[column] = get_value(flat, join_names(names))
            elif (path := ColumnPath.parse(column, row)) is not None:
                values[column] = path.get_value(row)
    return values


def _with_header(rows: Rows) -> Rows:
    """Remove a header, which is a first row that shares no column with the others, and add its agents to each row."""
    (_, header), *others = rows
    if not others or any(name in header for _, row in others for name in row):
        return rows
    agents = {name: text for name, text in header.items() if isinstance(text, str) and infer_role(name) == "agent"}
    return [(location, {**agents, **row}) for location, row in others]


def _drop_other_kinds(rows: Rows, *, is_log: bool, note: Note) -> Rows:
    """Leave out the rows without a model if a column `type` or `kind` separates them from the others.

    In a log with a header (`is_log`), the same holds for rows without a prompt.
    """
    names = dict.fromkeys(name for _, row in rows for name in row)
    required = (name for name in names if is_agent_name(name) or (is_log and infer_role(name) == "prompt"))
    for name in required:
        complete = [(location, row) for location, row in rows if row.get(name) is not None]
        incomplete = [(location, row) for location, row in rows if row.get(name) is None]
        for column in filter(_KIND.search, names):
            complete_kinds = {str(row.get(column)) for _, row in complete}
            other_kinds = {str(row.get(column)) for _, row in incomplete}
            if complete_kinds and other_kinds and not complete_kinds & other_kinds:
                note(
                    f"rows not read: {column!r} is {', '.join(sorted(other_kinds))}, and {name!r} is empty", rows[0][0]
                )
                return complete
    return rows


def split_by_responses(
    path: Path, tables: Sequence[SourceTable], columns: Mapping[str, str]
) -> tuple[list[SourceTable], list[SourceTable]]:
    """Split tables into those that hold responses and the others: configurations, scores, prompts."""

    def is_in_response_folder(table: SourceTable) -> bool:
        folders = table.file.relative_to(path).parts[:-1] if table.file.is_relative_to(path) else ()
        return not _RESPONSE_FOLDERS.isdisjoint(folder.lower() for folder in folders)

    by_name = [table for table in tables if normalize_name(table.file.stem).removesuffix("s") not in _OTHER_FILES]
    with_text = [table for table in by_name or tables if table.get_layout(columns) is not None]
    chosen = list(filter(is_in_response_folder, with_text)) or with_text or list(tables)
    return chosen, [table for table in tables if not any(table is chosen_table for chosen_table in chosen)]


def add_location_columns(tables: Sequence[SourceTable]) -> tuple[str, ...]:
    """Add columns for folder and file to the rows of several tables, and return the names of these columns.

    Times in names are ignored. There is a column for folders only if files of the same names are in several folders.
    Numbers of runs or seeds in names are repeats if all names have one and something else names the agents.
    """
    if len(tables) == 1:
        return ()

    has_sheets = len({table.file for table in tables}) < len(tables)
    files = [table.file for table in tables] if has_sheets else _without_repeat_numbers(tables)
    stems = [_TIME.sub("", file.stem) for file in files]
    folders = [next((folder for folder in file.parents if _TIME.sub("", folder.name)), file.parent) for file in files]

    # A grid: each combination of folder and stem is one file.
    has_repeated_stems = len(set(stems)) < len({*files})
    is_grid = has_repeated_stems and len({*files}) == len({*zip(folders, stems, strict=True)}) and not has_sheets
    if is_grid:
        columns = {FOLDER: find_unique_suffixes(folders), FILE: stems}
    elif has_sheets:
        columns = {FILE: [table.name for table in tables]}
    else:
        columns = {FILE: find_unique_suffixes([file.with_suffix("") for file in files])}

    columns = {column: values for column, values in columns.items() if len(set(values)) > 1}
    for number, table in enumerate(tables):
        for row in table.flat_rows:
            row.update({column: values[number] for column, values in columns.items()})
    return tuple(columns)


def _without_repeat_numbers(tables: Sequence[SourceTable]) -> list[Path]:
    """Return the files without the numbers of repeats in their paths, and add the numbers to the rows.

    Files are returned unchanged if two agents differ only in these numbers.
    """
    files = [table.file for table in tables]
    has_agents = any(is_agent_name(column) for column in tables[0].columns)

    def rename_folder(file: Path) -> Path:
        name = file.parent.name
        return file.parent.with_name(_NUMBER.sub("", name) or "run") / file.name if name else file

    by_file = [file.with_stem(_NUMBER.sub("", file.stem) or "run") for file in files]
    by_folder = [rename_folder(file) for file in files]
    for renamed, names in (
        (by_file, [file.stem for file in files]),
        (by_folder, [file.parent.name for file in files]),
    ):
        numbers = [_NUMBER.search(name) for name in names]
        if len(set(names)) > 1 and all(numbers) and (has_agents or len(set(renamed)) > 1):
            for table, number in zip(tables, numbers, strict=True):
                for row in table.flat_rows:
                    row[FILE_NUMBER] = number[1] if number else None
            return renamed
    return files


def with_prompts(roles: Roles, rows: Sequence[dict[str, Json]], others: Sequence[SourceTable]) -> Roles:
    """Add the prompts of another table with the same ids of items to roles and `rows`, unless there are prompts."""
    item = roles.columns.get("item")
    if item is None or "prompt" in roles.columns:
        return roles

    ids = {str(row.get(item)) for row in rows}
    for table in others:
        for column in table.get_candidates("prompt") + table.get_candidates("text"):
            prompts = {str(row[item]): row[column] for row in table.flat_rows if row.get(item) and row.get(column)}
            if ids & prompts.keys() and table.is_text_column(column):
                for row in rows:
                    row.setdefault(column, prompts.get(str(row.get(item))))
                return replace(roles, columns={**roles.columns, "prompt": column})
    return roles
