"""Tables as other tools' files hold them: which of several hold responses, which of their rows, and from which folder and file.

A table without responses belongs to no agent: it may hold prompts, and is otherwise not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from youden.data.importers.column_names import name_order, names_agents_surely, plain_name, role_of_name
from youden.data.importers.column_roles import FILE, FILE_NUMBER, FOLDER, Column, Roles, joined, value
from youden.data.importers.foreign_files import suffixes, wrong
from youden.data.importers.loose_columns import NOUNS, ROWS, ColumnPath, known_columns
from youden.data.importers.nested_rows import explode, flatten, is_list_of_objects
from youden.data.importers.restarting_ids import composite_columns
from youden.data.importers.spreadsheets import SPREADSHEETS, Rows, Say, fill_down
from youden.data.pools.spool import shown
from youden.errors import ImportFormatError
from youden.text.printable import typed
from youden.types import Pool
from youden.types.pool import Json

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
_NUMBER = re.compile(
    r"(?:^|[-_. ]+)(?:repeat|rep|replicate|run|seed|trial|sample|attempt)s?[-_ ]*(\d+)(?=$|[-_. ])",
    re.IGNORECASE | re.ASCII,
)
"""The part of a name that numbers repeats."""
_MAX_LISTED = 250
"""Most characters of columns that an error lists."""


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

    def text_column(self, told: Mapping[str, str]) -> str | None:
        """Return the column that is told or named as a response and holds texts, else None.

        Of a known layout it is all of its columns.
        """
        if "text" in told:
            return told["text"] if set(told["text"].split(",")) & {*self.columns} else None
        if "text" in (known := known_columns(self.first_row)):
            return ", ".join(f"{noun}={column}" for noun, column in known.items())
        return next(
            (name for name in self._named("text") if Column([row.get(name) for row in self.flat_rows]).is_text), None
        )

    def _named(self, noun: str) -> list[str]:
        return sorted(
            (name for name in self.columns if role_of_name(name) == noun), key=lambda name: name_order(name, noun)
        )

    def prompts_by(self, item: str) -> tuple[str, dict[str, Json]] | None:
        """Return a column of prompts, and its texts by the column `item`; None if one of the two is not there."""
        for column in self._named("prompt") + self._named("text"):
            prompts = {
                str(row[item]): row[column]
                for _, row in self.rows
                if row.get(item) and Column([row.get(column)]).is_text
            }
            if prompts:
                return column, prompts
        return None


def foreign_table(file: Path, name: str, rows: Rows, told: Mapping[str, str], say: Say) -> ForeignTable:
    """Make a table with flat rows; if no column is a response, lists of objects are searched for one."""
    first_row = dict(rows[0][1])
    if "text" not in told and "text" in known_columns(first_row):
        return ForeignTable(file, name, rows, first_row)
    flat = [(place, flatten(row) | _told_values(row, told)) for place, row in rows]
    below_header = _with_header(flat)
    is_log = len(below_header) < len(flat)
    table = ForeignTable(file, name, _of_one_kind(below_header, is_log=is_log, say=say), first_row)
    for column in table.columns if file.suffix.lower() in SPREADSHEETS else []:
        if role_of_name(column) in ("agent", "item", "prompt"):
            fill_down(table.rows, column, say)
    if table.text_column(told) is not None:
        return table
    for column in table.columns:
        if any(is_list_of_objects(row.get(column)) for row in table.flat_rows):
            found = table._replace(rows=[(place, one) for place, row in table.rows for one in explode(row, column)])
            if found.text_column(told) is not None:
                return found
    return table


def _told_values(row: Mapping[str, Json], told: Mapping[str, str]) -> dict[str, Json]:
    """The values of columns that are told as paths, or as several columns together."""
    values: dict[str, Json] = {}
    for noun, columns in told.items():
        for column in columns.split(",") if noun == "text" else [columns]:
            if names := composite_columns(column, flat := flatten(row)):
                values[column] = value(flat, joined(names))
            elif (path := ColumnPath.of(column, row)) is not None:
                values[column] = path.one(row)
    return values


def _with_header(rows: Rows) -> Rows:
    """If the first row has no column of the others, it describes them: agents that it names become columns of the others."""
    (_, header), *others = rows
    if not others or any(name in header for _, row in others for name in row):
        return rows
    agents = {name: text for name, text in header.items() if isinstance(text, str) and role_of_name(name) == "agent"}
    return [(place, {**agents, **row}) for place, row in others]


def _of_one_kind(rows: Rows, *, is_log: bool, say: Say) -> Rows:
    """Leave out rows that name no model, if a column `type` or `kind` tells them from those that do.

    In a log with a header, rows without a prompt are left out in the same way.
    """
    names = dict.fromkeys(name for _, row in rows for name in row)
    for needed in (name for name in names if names_agents_surely(name) or (is_log and role_of_name(name) == "prompt")):
        for column in filter(_KIND.search, names):
            complete = {str(row.get(column)) for _, row in rows if row.get(needed) is not None}
            others = {str(row.get(column)) for _, row in rows if row.get(needed) is None}
            if complete and others and not complete & others:
                say(f"rows not read: {column!r} is {', '.join(sorted(others))}, and {needed!r} is empty", rows[0][0])
                return [(place, row) for place, row in rows if row.get(needed) is not None]
    return rows


def split_by_responses(
    path: Path, tables: Sequence[ForeignTable], told: Mapping[str, str]
) -> tuple[list[ForeignTable], list[ForeignTable]]:
    """Split tables into those that hold responses and the others: configurations, scores, prompts."""
    named = [table for table in tables if singular(table.file.stem) not in _NOT_ANSWERS] or tables
    holding = [table for table in named if table.text_column(told) is not None]
    inside = [table for table in holding if _ANSWER_FOLDERS & {part.lower() for part in _folders(path, table.file)}]
    chosen = inside or holding or list(tables)
    return chosen, [table for table in tables if not any(table is one for one in chosen)]


def singular(name: str) -> str:
    """Return a file's plain name without the s of a plural."""
    return plain_name(name).removesuffix("s")


def _folders(path: Path, file: Path) -> tuple[str, ...]:
    """The folders between the path that a user named and a file in it."""
    return file.relative_to(path).parts[:-1] if file.is_relative_to(path) else ()


def add_places(tables: Sequence[ForeignTable]) -> tuple[str, ...]:
    """Add columns for folder and file to the rows of several tables, and return the names of these columns.

    Times in names are ignored. The folder has a column of its own only if files of one name lie in several folders. If all names
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


def add_told_places(tables: Sequence[ForeignTable], told: Mapping[str, str]) -> None:
    """Add columns that are told as a folder or file together with others."""
    for column in told.values():
        for row in (row for table in tables for row in table.flat_rows):
            if names := composite_columns(column, row):
                row[column] = value(row, joined(names))


def _without_numbers(tables: Sequence[ForeignTable]) -> list[Path]:
    """The files of tables without numbers of repeats in their names, or in those of their folders; the rows get the numbers.

    Names stay as they are if nothing but the numbers tells agents apart.
    """
    files = [table.file for table in tables]
    has_agents = any(names_agents_surely(column) for column in tables[0].columns)
    for numbered, names in (
        ([file.with_stem(_NUMBER.sub("", file.stem) or "run") for file in files], [file.stem for file in files]),
        ([_renamed_folder(file) for file in files], [file.parent.name for file in files]),
    ):
        numbers = [_NUMBER.search(name) for name in names]
        if len(set(names)) > 1 and all(numbers) and (has_agents or len(set(numbered)) > 1):
            for table, number in zip(tables, numbers, strict=True):
                for row in table.flat_rows:
                    row[FILE_NUMBER] = number[1] if number else None
            return numbered
    return files


def _renamed_folder(file: Path) -> Path:
    return file.parent.with_name(_NUMBER.sub("", file.parent.name) or "run") / file.name if file.parent.name else file


def with_prompts(found: Roles, rows: Sequence[dict[str, Json]], beside: Sequence[ForeignTable]) -> Roles:
    """Add prompts from a table without responses that has the same item column, if the responses come without any."""
    item = found.columns.get("item")
    if item is None or "prompt" in found.columns:
        return found
    for column, prompts in filter(None, (table.prompts_by(item) for table in beside)):
        if any(str(row.get(item)) in prompts for row in rows):
            for row in rows:
                row.setdefault(column, prompts.get(str(row.get(item))))
            return replace(found, columns={**found.columns, "prompt": column})
    return found


def check_columns(path: Path, told: Mapping[str, str], tables: Sequence[ForeignTable]) -> None:
    """Raises: ImportFormatError [import-columns] if no table has a column that is told."""
    present = {column for table in tables for column in table.columns}
    for noun, columns in told.items():
        if noun not in NOUNS:
            raise wrong(path, f"'{noun}' is none of {', '.join(NOUNS)}. Correct --column.", slug="import-columns")
        for column in columns.split(",") if noun == "text" else [columns]:
            if column not in present and (noun, column) != ("repeat", ROWS):
                names = dict.fromkeys(name for table in tables for name in table.first_row)
                problem = f"there is no column '{column}'; it has {shown(', '.join(names))}. Correct --column."
                raise wrong(path, problem, slug="import-columns")


def refuse_lone_files(path: Path, pool: Pool, tables: Sequence[ForeignTable], places: Sequence[str]) -> None:
    """Refuse a file that is an agent and shares no item with another agent, while others do.

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


def unknown_layout(
    path: Path, problem: str, columns: Sequence[str], options: Mapping[str, str] | None = None
) -> ImportFormatError:
    """Make the error for files whose columns cannot be told apart; it names the option that maps them."""
    listed = ", ".join(name for name in columns if name not in (FOLDER, FILE))
    got = f": got the columns {listed[:_MAX_LISTED]}{' …' * (len(listed) > _MAX_LISTED)}" if listed else ""
    remedy = (
        "Name the columns: `youden import table` takes --column text=NAME --column item=NAME --column agent=NAME; its --help "
        "lists the formats of tools."
    )
    if options:
        words = [
            "youden",
            "init",
            str(path),
            *chain.from_iterable(("--column", f"{r}={c}") for r, c in options.items()),
        ]
        remedy = f"Name the columns: `{typed(words)}`."
    return wrong(path, f"{problem}{got}. {remedy}", slug="import-columns")
