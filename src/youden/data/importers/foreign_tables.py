"""Selects the tables and rows in other tools' files that hold responses, and records the folder and file of each.

A table without responses belongs to no agent: it may hold prompts, and is otherwise not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from youden.data.importers.foreign_files import suffixes, wrong
from youden.data.importers.guessed_columns import (
    FILE,
    FOLDER,
    Guess,
    is_text,
    joined,
    names_agents_surely,
    noun_of,
    order,
    plain_name,
    value,
)
from youden.data.importers.loose_columns import NOUNS, ROWS, ColumnPath, known_columns
from youden.data.importers.nested_rows import explode, flatten, is_list_of_objects
from youden.data.importers.restarting_ids import composite_columns
from youden.data.importers.spreadsheets import SPREADSHEETS, Rows, Say, fill_down
from youden.data.pools.spool import shown
from youden.errors import ImportFormatError
from youden.nouns import Json, Pool

_ANSWER_FOLDERS = frozenset(
    {"predictions", "details", "model_answer", "answers", "responses", "generations", "completions"}
)
"""Names of folders that hold responses, if folders beside them do not."""
_NOT_ANSWERS = frozenset(
    {
        "question",
        "prompt",
        "input",
        "instruction",
        "reference",
        "gold",
        "expected",
        "label",
        "dataset",
        "metadata",
        "config",
    }
)
"""Names of files that hold no responses, if others do."""
_TIME = re.compile(
    r"[_-]*\d{4}-?\d\d-?\d\d(?:[T_ -]?\d\d[-:]?\d\d[-:]?\d\d(?:[.:]\d+)?)?(?:[+-]\d\d[-:]?\d\d)?", re.ASCII
)
_KIND = re.compile(r"(^|[._ ])(type|kind)$", re.IGNORECASE)
_MAX_LISTED = 250
"""Maximum number of characters of columns that an error lists."""


class ForeignTable(NamedTuple):
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
        """The rows without their places."""
        return [row for _, row in self.rows]

    @property
    def columns(self) -> list[str]:
        """All columns, in the order in which rows have them."""
        return list(dict.fromkeys(column for _, row in self.rows for column in row))

    def text_column(self, given: Mapping[str, str]) -> str | None:
        """Return the column of responses that the user gave, or that is named as one and holds texts; else None.

        For a known layout, return a text that lists all its columns.
        """
        if "text" in given:
            return given["text"] if set(given["text"].split(",")) & {*self.columns} else None
        if "text" in (columns := known_columns(self.first_row)):
            return ", ".join(f"{noun}={column}" for noun, column in columns.items())
        return next((name for name in self._columns_of("text") if is_text(self.flat_rows, name)), None)

    def _columns_of(self, noun: str) -> list[str]:
        return sorted((name for name in self.columns if noun_of(name) == noun), key=lambda name: order(name, noun))

    def prompts_by(self, item: str) -> tuple[str, dict[str, Json]] | None:
        """Return a column of prompts, and its texts by the ids in the column `item`; None if a column is missing."""
        for column in self._columns_of("prompt") + self._columns_of("text"):
            prompts = {str(row[item]): row[column] for _, row in self.rows if row.get(item) and is_text([row], column)}
            if prompts:
                return column, prompts
        return None


def foreign_table(file: Path, name: str, rows: Rows, given: Mapping[str, str], say: Say) -> ForeignTable:
    """Make a table with flat rows; if no column holds responses, search lists of objects for one that does."""
    first_row = dict(rows[0][1])
    if "text" not in given and "text" in known_columns(first_row):
        return ForeignTable(file, name, rows, first_row)
    flat = [(place, flatten(row) | _given_values(row, given)) for place, row in rows]
    below_header = _with_header(flat)
    is_log = len(below_header) < len(flat)
    table = ForeignTable(file, name, _of_one_kind(below_header, is_log=is_log, say=say), first_row)
    for column in table.columns if file.suffix.lower() in SPREADSHEETS else []:
        if noun_of(column) in ("agent", "item", "prompt"):
            fill_down(table.rows, column, say)
    if table.text_column(given) is not None:
        return table
    for column in table.columns:
        if any(is_list_of_objects(row.get(column)) for row in table.flat_rows):
            exploded = table._replace(
                rows=[(place, part) for place, row in table.rows for part in explode(row, column)]
            )
            if exploded.text_column(given) is not None:
                return exploded
    return table


def _given_values(row: Mapping[str, Json], given: Mapping[str, str]) -> dict[str, Json]:
    """Return the values of columns that the user gave as paths, or as several columns together."""
    values: dict[str, Json] = {}
    for noun, columns in given.items():
        for column in columns.split(",") if noun == "text" else [columns]:
            if names := composite_columns(column, flat := flatten(row)):
                values[column] = value(flat, joined(names))
            elif (path := ColumnPath.of(column, row)) is not None:
                values[column] = path.one(row)
    return values


def _with_header(rows: Rows) -> Rows:
    """Treat a first row that shares no column with the others as their description.

    It is removed, and the agents that it names become columns of the others.
    """
    (_, header), *others = rows
    if not others or any(name in header for _, row in others for name in row):
        return rows
    agents = {name: text for name, text in header.items() if isinstance(text, str) and noun_of(name) == "agent"}
    return [(place, {**agents, **row}) for place, row in others]


def _of_one_kind(rows: Rows, *, is_log: bool, say: Say) -> Rows:
    """Leave out rows that name no model, if a column `type` or `kind` separates them from those that name one.

    In a log with a header, rows without a prompt are left out in the same way.
    """
    names = dict.fromkeys(name for _, row in rows for name in row)
    for needed in (name for name in names if names_agents_surely(name) or (is_log and noun_of(name) == "prompt")):
        for column in filter(_KIND.search, names):
            complete = {str(row.get(column)) for _, row in rows if row.get(needed) is not None}
            others = {str(row.get(column)) for _, row in rows if row.get(needed) is None}
            if complete and others and not complete & others:
                say(f"rows not read: {column!r} is {', '.join(sorted(others))}, and {needed!r} is empty", rows[0][0])
                return [(place, row) for place, row in rows if row.get(needed) is not None]
    return rows


def split_by_responses(
    path: Path, tables: Sequence[ForeignTable], given: Mapping[str, str]
) -> tuple[list[ForeignTable], list[ForeignTable]]:
    """Split tables into those that hold responses and the others: configurations, scores, prompts."""
    named = [table for table in tables if singular(table.file.stem) not in _NOT_ANSWERS] or tables
    holding = [table for table in named if table.text_column(given) is not None]
    inside = [table for table in holding if _ANSWER_FOLDERS & {part.lower() for part in _folders(path, table.file)}]
    chosen = inside or holding or list(tables)
    return chosen, [table for table in tables if not any(table is other for other in chosen)]


def singular(name: str) -> str:
    """Return a file's plain name without the s of a plural."""
    return plain_name(name).removesuffix("s")


def _folders(path: Path, file: Path) -> tuple[str, ...]:
    """Return the folders between the path that a user named and a file in it."""
    return file.relative_to(path).parts[:-1] if file.is_relative_to(path) else ()


def add_places(tables: Sequence[ForeignTable]) -> tuple[str, ...]:
    """Add columns for folder and file to the rows of several tables, and return the names of these columns.

    Times in names are ignored. The folder has a column of its own only if files of one name lie in several folders.
    """
    if len(tables) == 1:
        return ()
    files = [table.file for table in tables]
    stems = [_TIME.sub("", file.stem) for file in files]
    folders = [next((path for path in file.parents if _TIME.sub("", path.name)), file.parent) for file in files]
    is_grid = len(set(stems)) < len(files) == len(set(zip(folders, stems, strict=True)))
    has_sheets = len(set(files)) < len(files)
    names = [table.name for table in tables] if has_sheets else suffixes([file.with_suffix("") for file in files])
    places = {FOLDER: suffixes(folders), FILE: stems} if is_grid else {FILE: names}
    places = {column: values for column, values in places.items() if len(set(values)) > 1}
    for index, table in enumerate(tables):
        for row in table.flat_rows:
            row.update({column: values[index] for column, values in places.items()})
    return tuple(places)


def with_prompts(guessed: Guess, rows: Sequence[dict[str, Json]], other_tables: Sequence[ForeignTable]) -> Guess:
    """Add prompts from a table without responses that has the same item column, if the responses have none."""
    item = guessed.places.get("item")
    if item is None or "prompt" in guessed.places:
        return guessed
    for column, prompts in filter(None, (table.prompts_by(item) for table in other_tables)):
        if any(str(row.get(item)) in prompts for row in rows):
            for row in rows:
                row.setdefault(column, prompts.get(str(row.get(item))))
            return replace(guessed, places={**guessed.places, "prompt": column})
    return guessed


def check_columns(path: Path, given: Mapping[str, str], tables: Sequence[ForeignTable]) -> None:
    """Check that a table has each column that the user gave. Raises: ImportFormatError [import-columns]."""
    present = {column for table in tables for column in table.columns}
    for noun, columns in given.items():
        if noun not in NOUNS:
            raise wrong(path, f"'{noun}' is none of {', '.join(NOUNS)}. Correct --column.", slug="import-columns")
        for column in columns.split(",") if noun == "text" else [columns]:
            if column not in present and (noun, column) != ("repeat", ROWS):
                names = dict.fromkeys(name for table in tables for name in table.first_row)
                problem = f"there is no column '{column}'; it has {shown(', '.join(names))}. Correct --column."
                raise wrong(path, problem, slug="import-columns")


def refuse_lone_files(path: Path, pool: Pool, tables: Sequence[ForeignTable], places: Sequence[str]) -> None:
    """Refuse files that are agents and share no item with another agent, if other agents share items.

    Raises: ImportFormatError [import-columns].
    """
    is_shared = pool.present.sum(axis=0) > 1
    shares = [bool((present & is_shared).any()) for present in pool.present]
    files = {str(table.rows[0][1].get(column)) for table in tables for column in places}
    lone = [agent.id for agent, shared in zip(pool.agents, shares, strict=True) if agent.id in files and not shared]
    if lone and any(shares):
        problem = (
            f"{', '.join(map(repr, lone[:3]))} {'shares' if len(lone) == 1 else 'share'} no item with other agents"
        )
        raise unknown_layout(path, problem, tables[0].columns)


def unknown_layout(path: Path, problem: str, columns: Sequence[str]) -> ImportFormatError:
    """Make the error for files whose columns cannot be recognised; it names the option that maps them."""
    listed = ", ".join(name for name in columns if name not in (FOLDER, FILE))
    got = f": got the columns {listed[:_MAX_LISTED]}{' …' * (len(listed) > _MAX_LISTED)}" if listed else ""
    remedy = (
        "Name the columns: `youden import table` takes --column text=NAME --column item=NAME --column agent=NAME; its --help "
        "lists the formats of tools."
    )
    return wrong(path, f"{problem}{got}. {remedy}", slug="import-columns")
