"""Prepares tables of files that belong together: which hold responses, which of their rows, from which folder and file.

A table without responses belongs to no agent: it may hold prompts, and is otherwise not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from youden.data.importers.column_names import name_order, names_agents_surely, plain_name, role_of_name
from youden.data.importers.column_roles import Roles
from youden.data.importers.column_values import FILE, FILE_NUMBER, FOLDER, ColumnValues, joined, value
from youden.data.importers.foreign_files import suffixes
from youden.data.importers.nested_rows import explode, flatten, is_list_of_objects
from youden.data.importers.response_columns import ColumnPath, known_columns
from youden.data.importers.restarting_ids import composite_columns
from youden.data.importers.table_files import SPREADSHEETS, Note, Rows, fill_down
from youden.types.pool import Json

_RESPONSE_FOLDERS = {
    *("predictions", "details", "model_answer", "answers", "responses", "generations", "completions"),
}
"""Names of folders that hold responses, if folders beside them do not."""
_OTHER_FILES = {
    *("question", "prompt", "input", "instruction", "reference", "gold", "expected", "label", "dataset", "metadata"),
    *("config", "dataset_info"),
}
"""Names of files that hold no responses, if others do."""
_TIME = re.compile(
    r"[_-]*\d{4}-?\d\d-?\d\d(?:[T_ -]?\d\d[-:]?\d\d[-:]?\d\d(?:[.:]\d+)?)?(?:[+-]\d\d[-:]?\d\d)?", re.ASCII
)
_KIND = re.compile(r"(^|[._ ])(type|kind)$", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?:^|[-_. ]+)(?:repeat|rep|replicate|run|seed|trial|sample|attempt)s?[-_ ]*(\d+)(?=$|[-_. ])",
    re.IGNORECASE | re.ASCII,
)
"""The part of a name that numbers repeats."""


class SourceTable(NamedTuple):
    """A table in a file, or in a sheet of one.

    Attributes
    ----------
    file : Path
    name : str
        Name of the file or sheet.
    rows : list of (str, dict)
        Flat rows with their places.
    first_row : mapping
        The first row as the file has it.
    """

    file: Path
    name: str
    rows: Rows
    first_row: Mapping[str, Json]

    @property
    def flat_rows(self) -> list[dict[str, Json]]:
        return [row for _, row in self.rows]

    @property
    def columns(self) -> list[str]:
        """All columns, in the order in which rows have them."""
        return list(dict.fromkeys(column for _, row in self.rows for column in row))

    def named(self, role: str) -> list[str]:
        """Return the columns whose names propose a role, the surest first."""
        columns = (name for name in self.columns if role_of_name(name) == role)
        return sorted(columns, key=lambda name: name_order(name, role))

    def holds_text(self, column: str) -> bool:
        return ColumnValues([row.get(column) for _, row in self.rows]).is_text

    def layout(self, columns: Mapping[str, str]) -> str | None:
        """Return the column of the responses, or all columns of a known layout; None if there are no responses."""
        if "text" in columns:
            return columns["text"] if set(columns["text"].split(",")) & {*self.columns} else None
        if "text" in (known := known_columns(self.first_row)):
            return ", ".join(f"{role}={column}" for role, column in known.items())
        return next(filter(self.holds_text, self.named("text")), None)


def prepare_table(file: Path, name: str, rows: Rows, columns: Mapping[str, str], note: Note) -> SourceTable:
    """Make a table with flat rows; if no column holds responses, search lists of objects for one."""
    first_row = dict(rows[0][1])
    if "text" not in columns and "text" in known_columns(first_row):
        return SourceTable(file, name, rows, first_row)
    flat = [(place, flatten(row) | _values_at(row, columns)) for place, row in rows]
    below_header = _with_header(flat)
    is_log = len(below_header) < len(flat)
    table = SourceTable(file, name, _of_one_kind(below_header, is_log=is_log, note=note), first_row)
    for column in table.columns if file.suffix.lower() in SPREADSHEETS else []:
        if role_of_name(column) in ("agent", "item", "prompt"):
            fill_down(table.rows, column, note)
    if table.layout(columns) is not None:
        return table
    for column in table.columns:
        if any(is_list_of_objects(row.get(column)) for row in table.flat_rows):
            found = table._replace(rows=[(place, one) for place, row in table.rows for one in explode(row, column)])
            if found.layout(columns) is not None:
                return found
    return table


def _values_at(row: Mapping[str, Json], columns: Mapping[str, str]) -> dict[str, Json]:
    """Return the values of columns that are given as paths, or as several columns together."""
    values: dict[str, Json] = {}
    for role, given in columns.items():
        for column in given.split(",") if role == "text" else [given]:
            if names := composite_columns(column, flat := flatten(row)):
                values[column] = value(flat, joined(names))
            elif (path := ColumnPath.parse(column, row)) is not None:
                values[column] = path.one(row)
    return values


def _with_header(rows: Rows) -> Rows:
    """Copy the agents that the first row names into the others, if it has none of their columns and so describes them."""
    (_, header), *others = rows
    if not others or any(name in header for _, row in others for name in row):
        return rows
    agents = {name: text for name, text in header.items() if isinstance(text, str) and role_of_name(name) == "agent"}
    return [(place, {**agents, **row}) for place, row in others]


def _of_one_kind(rows: Rows, *, is_log: bool, note: Note) -> Rows:
    """Leave out rows that name no model, if a column `type` or `kind` tells them from those that do.

    In a log with a header, rows without a prompt are left out in the same way.
    """
    names = dict.fromkeys(name for _, row in rows for name in row)
    for needed in (name for name in names if names_agents_surely(name) or (is_log and role_of_name(name) == "prompt")):
        for column in filter(_KIND.search, names):
            complete = {str(row.get(column)) for _, row in rows if row.get(needed) is not None}
            others = {str(row.get(column)) for _, row in rows if row.get(needed) is None}
            if complete and others and not complete & others:
                note(f"rows not read: {column!r} is {', '.join(sorted(others))}, and {needed!r} is empty", rows[0][0])
                return [(place, row) for place, row in rows if row.get(needed) is not None]
    return rows


def split_by_responses(
    path: Path, tables: Sequence[SourceTable], columns: Mapping[str, str]
) -> tuple[list[SourceTable], list[SourceTable]]:
    """Split tables into those that hold responses and the others: configurations, scores, prompts."""

    def is_inside(table: SourceTable) -> bool:
        parts = table.file.relative_to(path).parts[:-1] if table.file.is_relative_to(path) else ()
        return not _RESPONSE_FOLDERS.isdisjoint(part.lower() for part in parts)

    named = [table for table in tables if plain_name(table.file.stem).removesuffix("s") not in _OTHER_FILES] or tables
    holding = [table for table in named if table.layout(columns) is not None]
    chosen = list(filter(is_inside, holding)) or holding or list(tables)
    return chosen, [table for table in tables if not any(table is one for one in chosen)]


def add_places(tables: Sequence[SourceTable]) -> tuple[str, ...]:
    """Add columns for folder and file to the rows of several tables, and return the names of these columns.

    Times in names are ignored. The folder has a column of its own only if files of one name are in several folders. If all names
    end in a number of a run, a seed or the like, and something else names the agents, these numbers are repeats.
    """
    if len(tables) == 1:
        return ()
    has_sheets = len({table.file for table in tables}) < len(tables)
    files = [table.file for table in tables] if has_sheets else _without_numbers(tables)
    stems = [_TIME.sub("", file.stem) for file in files]
    folders = [next((one for one in file.parents if _TIME.sub("", one.name)), file.parent) for file in files]
    is_grid = len(set(stems)) < len({*files}) == len({*zip(folders, stems, strict=True)}) and not has_sheets
    names = [table.name for table in tables] if has_sheets else suffixes([file.with_suffix("") for file in files])
    places = {FOLDER: suffixes(folders), FILE: stems} if is_grid else {FILE: names}
    places = {column: values for column, values in places.items() if len(set(values)) > 1}
    for at, table in enumerate(tables):
        for row in table.flat_rows:
            row.update({column: values[at] for column, values in places.items()})
    return tuple(places)


def _without_numbers(tables: Sequence[SourceTable]) -> list[Path]:
    """Return the files without numbers of repeats in their names, or in those of their folders; the rows get the numbers.

    Names stay as they are if nothing but the numbers tells agents apart.
    """
    files = [table.file for table in tables]
    has_agents = any(names_agents_surely(column) for column in tables[0].columns)

    def renamed_folder(file: Path) -> Path:
        name = file.parent.name
        return file.parent.with_name(_NUMBER.sub("", name) or "run") / file.name if name else file

    for numbered, names in (
        ([file.with_stem(_NUMBER.sub("", file.stem) or "run") for file in files], [file.stem for file in files]),
        ([renamed_folder(file) for file in files], [file.parent.name for file in files]),
    ):
        numbers = [_NUMBER.search(name) for name in names]
        if len(set(names)) > 1 and all(numbers) and (has_agents or len(set(numbered)) > 1):
            for table, number in zip(tables, numbers, strict=True):
                for row in table.flat_rows:
                    row[FILE_NUMBER] = number[1] if number else None
            return numbered
    return files


def with_prompts(found: Roles, rows: Sequence[dict[str, Json]], beside: Sequence[SourceTable]) -> Roles:
    """Add prompts from a table without responses that has the same item column, if the responses come without any."""
    item = found.columns.get("item")
    if item is None or "prompt" in found.columns:
        return found
    keys = {str(row.get(item)) for row in rows}
    for table in beside:
        for column in table.named("prompt") + table.named("text"):
            prompts = {str(row[item]): row[column] for row in table.flat_rows if row.get(item) and row.get(column)}
            if keys & prompts.keys() and table.holds_text(column):
                for row in rows:
                    row.setdefault(column, prompts.get(str(row.get(item))))
                return replace(found, columns={**found.columns, "prompt": column})
    return found
