"""Prepare the tables of files that belong together: flatten rows and find the responses.

A table without responses belongs to no agent. Only its prompts are used, and only if the other tables have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

from youden.data.importers.column_names import (
    get_name_priority,
    infer_role,
    is_agent_name,
    make_word_set,
    normalize_name,
)
from youden.data.importers.column_roles import Roles
from youden.data.importers.column_values import FILE, FILE_NUMBER, FOLDER, ColumnValues, split_text_columns
from youden.data.importers.foreign_files import find_unique_suffixes
from youden.data.importers.nested_rows import flatten, is_list_of_objects, split_into_rows
from youden.data.importers.response_columns import ColumnPath, detect_known_layout
from youden.data.importers.table_files import SPREADSHEETS
from youden.data.importers.table_header import AddNote, Rows, fill_down
from youden.text.sentences import format_count
from youden.types.pool import Json

_RESPONSE_FOLDERS = make_word_set("predictions details model_answer answers responses generations completions")
"""Names of folders that hold the responses if other folders hold other tables."""
_OTHER_FILES = make_word_set(
    "question prompt input instruction reference gold expected label dataset metadata config dataset_info"
)
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
        """Return the columns whose names suggest a role, the most reliable first."""
        columns = [name for name in self.columns if infer_role(name) == role]
        return sorted(columns, key=lambda name: get_name_priority(name, role))

    def is_text_column(self, column: str) -> bool:
        """Return whether a value of a column is a text other than a number or time."""
        return any(ColumnValues([row.get(column)]).is_text for _, row in self.rows)  # stops at the first text

    def find_layout(self, columns: Mapping[str, str]) -> str | None:
        """Return a text that identifies the layout of the table; None if the table has no responses.

        Tables with the same layout have their responses in the same columns, and are read as one table. The first of these
        cases that applies determines the text:

        1. The user named columns of responses: what the user wrote, such as "gpt,llama".
        2. The table has the columns of a known public data set: the columns of all roles, such as "agent=models[],
           text=generations[]".
        3. Otherwise: the name of the first column of texts whose name suggests responses.

        columns : columns that the user named, by role. If the role "text" is among them, only its columns may hold responses.
        """
        if "text" in columns:
            has_text_column = not set(split_text_columns(columns["text"], self.columns)).isdisjoint(self.columns)
            return columns["text"] if has_text_column else None

        layout = detect_known_layout(self.first_row)
        if "text" in layout:
            return ", ".join(f"{role}={column}" for role, column in layout.items())
        for column in self.get_candidates("text"):
            if self.is_text_column(column):
                return column
        return None


def prepare_table(file: Path, name: str, rows: Rows, columns: Mapping[str, str], add_note: AddNote) -> SourceTable:
    """Make a table whose rows contain no nested objects.

    - The values of a nested object become columns named by their paths, for example `input.question`. A list stays one value.
    - If only the objects in the lists of a column have responses, each of these objects becomes a row.
    - In spreadsheets, empty cells of agents, items and prompts are filled with the value above.
    - Rows without responses, such as the rows of a grader in a log, are left out.
    - Columns that number the repeats of several agents, such as "gpt run 1" and "gpt run 2", become a list per agent.
    - A first row that has no column in common with the other rows is the header of a log. It is left out, and its agents are
      added to all other rows.

    The rows of a known public data set stay unchanged, unless the user named the column of responses.

    file : path of the table, whose suffix shows whether it is a spreadsheet; it is not read
    name : name of the file or sheet
    rows : location and values of each row, as the file has them; at least one
    columns : columns that the user named, by role, such as {"text": "answer"}
    add_note : callback that receives each assumption about the table (a sentence), and its location

    Returns the table with its flat rows: location and values by column of each row. `first_row` stays nested. `rows` is not
    changed.
    """
    first_row = dict(rows[0][1])
    if "text" not in columns and "text" in detect_known_layout(first_row):
        return SourceTable(file, name, rows, first_row)

    flat_rows = [
        (location, _join_repeats(flatten(row) | _get_named_values(row, columns), columns)) for location, row in rows
    ]
    rows_without_header = _move_header_into_rows(flat_rows)
    is_log = len(rows_without_header) < len(flat_rows)
    response_rows = _drop_rows_without_responses(rows_without_header, is_log=is_log, add_note=add_note)

    table = SourceTable(file, name, response_rows, first_row)
    if "text" not in columns:
        table = _join_numbered_columns(table, add_note)
    if file.suffix.lower() in SPREADSHEETS:
        # people often write a value only into the first of several rows to which it applies
        for column in table.columns:
            if infer_role(column) in ("agent", "item", "prompt"):
                fill_down(table.rows, column, add_note)
    if table.find_layout(columns) is not None:
        return table
    return _find_table_of_elements(table, columns) or table


def _find_table_of_elements(table: SourceTable, columns: Mapping[str, str]) -> SourceTable | None:
    """If the responses of a table are inside lists of objects, make a table with one row per object.

    For example, a row may have a question, and a list of objects with a model and its answer. Each object becomes a row,
    which also has the question.

    table : table without a column of responses
    columns : columns that the user named, by role, such as {"text": "answer"}

    Returns the table for the first column whose objects contain responses; None if no column has such objects.
    """
    for column in table.columns:
        if not any(is_list_of_objects(row.get(column)) for row in table.flat_rows):
            continue
        element_rows: Rows = []
        for location, row in table.rows:
            element_rows += [(location, element) for element in split_into_rows(row, column)]
        table_of_elements = table._replace(rows=element_rows)
        if table_of_elements.find_layout(columns) is not None:
            return table_of_elements
    return None


def _get_named_values(row: Mapping[str, Json], columns: Mapping[str, str]) -> dict[str, Json]:
    """Return the values that a row has in the columns that the user named, except lists and combined columns (`a+b`).

    row : values of a row, which may be nested
    columns : columns that the user named, by role; the role `text` may have several, separated by commas. A column is a
        name, or a path (`a.b`).

    The keys of the result are the columns, as the user wrote them. Columns that do not exist in the row are left out.
    """
    values: dict[str, Json] = {}
    for role, option in columns.items():
        for name in split_text_columns(option, row) if role == "text" else [option]:
            path = ColumnPath.parse(name, row)
            if path is None or path.element_steps is not None or len(path.paths) > 1:
                continue  # lists become rows, and combined columns are joined later
            value = path.get_value(row)
            if value is not None:
                values[name] = value
    return values


def _join_repeats(row: dict[str, Json], columns: Mapping[str, str]) -> dict[str, Json]:
    """Replace several columns of responses by one list of repeats if the user also named a column of agents.

    row : values of a row, which are not nested
    columns : columns that the user named, by role

    Returns the row, in which the name of the new column is the option `text` as the user wrote it.
    """
    names = split_text_columns(columns.get("text", ""), row)
    if "agent" not in columns or len(names) < 2:
        return row
    texts: list[Json] = [None if row.get(name) is None else str(row[name]) for name in names]
    other_values = {name: value for name, value in row.items() if name not in names}
    return other_values | {columns["text"]: texts if any(texts) else None}


def _join_numbered_columns(table: SourceTable, add_note: AddNote) -> SourceTable:
    """Join columns of responses that number the repeats of agents, such as "gpt run 1" and "gpt run 2", into a list per agent.

    All of these conditions must hold; otherwise, the table is returned unchanged:

    - The names of the columns end with a word for a repeat and a number, which may be in parentheses.
    - There are at least two agents, and each has the same two or more numbers.
    - The columns contain texts, and no other column has the name of an agent.

    add_note : callback that receives a note on the joined columns, and its location
    """
    columns_by_agent: dict[str, dict[str, str]] = {}
    for column in table.columns:
        name = re.sub(r"[()\[\]]", " ", column).strip()
        match = _NUMBER.search(name)
        if match is not None and match.end() == len(name) and match.start() > 0:
            columns_by_agent.setdefault(name[: match.start()].rstrip(), {})[match[1]] = column

    numbers = {tuple(columns) for columns in columns_by_agent.values()}
    joined = [column for columns in columns_by_agent.values() for column in columns.values()]
    are_repeats = len(columns_by_agent) > 1 and len(numbers) == 1 and len(next(iter(numbers))) > 1
    if (
        not are_repeats
        or not all(map(table.is_text_column, joined))
        or not columns_by_agent.keys().isdisjoint(table.columns)
    ):
        return table

    agents = ", ".join(map(repr, columns_by_agent))
    reading = f"columns such as {joined[0]!r} are read as repeats (several responses) of the agents {agents}"
    add_note(f"{reading}; to rank each column as an agent, set --column text=NAME,NAME", str(table.file))
    rows: Rows = []
    for location, row in table.rows:
        others = {column: value for column, value in row.items() if column not in joined}
        repeats: dict[str, Json] = {
            agent: [row.get(column) for column in columns.values()] for agent, columns in columns_by_agent.items()
        }
        rows.append((location, others | repeats))
    return table._replace(rows=rows)


def _move_header_into_rows(rows: Rows) -> Rows:
    """Remove a header, which is a first row that shares no column with the other rows, and add its agents to each row."""
    (_, header), *other_rows = rows
    has_shared_column = any(not row.keys().isdisjoint(header) for _, row in other_rows)
    if not other_rows or has_shared_column:
        return rows
    agents = {name: text for name, text in header.items() if isinstance(text, str) and infer_role(name) == "agent"}
    return [(location, {**agents, **row}) for location, row in other_rows]


def _drop_rows_without_responses(rows: Rows, *, is_log: bool, add_note: AddNote) -> Rows:
    """Remove the rows of a log that record something other than responses, such as the ratings of a grader.

    A column whose name ends with "type" or "kind" may state what a row records. Rows without a model are removed if no row of
    the same kind has a model. In a log with a header, the same rule applies to rows without a prompt.

    is_log : whether the rows are from a log with a header
    add_note : callback that receives a note on the removed rows, and its location
    """
    columns = list(dict.fromkeys(chain.from_iterable(row for _, row in rows)))
    required_columns = [name for name in columns if is_agent_name(name) or (is_log and infer_role(name) == "prompt")]
    kind_columns = filter(_KIND.search, columns)
    for required_column, kind_column in product(required_columns, kind_columns):
        complete_rows = [(location, row) for location, row in rows if row.get(required_column) is not None]
        complete_kinds = {str(row.get(kind_column)) for _, row in complete_rows}
        incomplete_kinds = {str(row.get(kind_column)) for _, row in rows if row.get(required_column) is None}
        if complete_kinds and incomplete_kinds and complete_kinds.isdisjoint(incomplete_kinds):
            first_location, _ = rows[0]
            kinds = ", ".join(sorted(incomplete_kinds))
            add_note(f"rows not read: {kind_column!r} is {kinds}, and {required_column!r} is empty", first_location)
            return complete_rows
    return rows


def split_by_responses(
    path: Path, tables: Sequence[SourceTable], columns: Mapping[str, str]
) -> tuple[list[SourceTable], list[SourceTable]]:
    """Split tables into those from which responses are read and all others, such as configurations, scores and prompts.

    Responses are read from the first of these groups that is not empty:

    1. tables with responses in a folder such as "responses" or "predictions" below `path`;
    2. all tables with responses;
    3. all tables.

    A table has responses if one of these columns exists:

    - a column of responses that the user named; if the user named any, only these columns count
    - the columns of a known public data set
    - a column of texts whose name suggests responses

    Files with names such as "questions" or "config" count as tables without responses, unless all files have such names.

    path : file or folder that the user named
    tables : tables of all files
    columns : columns that the user named, by role, such as {"text": "answer"}

    Returns the tables from which responses are read, and the others, both in the given order.
    """
    candidates = [table for table in tables if normalize_name(table.file.stem).removesuffix("s") not in _OTHER_FILES]
    # a table without responses has no layout
    with_text = [table for table in candidates or tables if table.find_layout(columns) is not None]
    in_response_folders = [table for table in with_text if _is_in_response_folder(table, path)]
    with_responses = in_response_folders or with_text or list(tables)
    identities = {id(table) for table in with_responses}
    return with_responses, [table for table in tables if id(table) not in identities]


def describe_unread_tables(tables: Sequence[SourceTable]) -> str:
    """Describe tables from which neither responses nor prompts were read, for a note; there is at least one."""
    file_names = ", ".join(repr(table.file.name) for table in tables[:3])
    ellipsis = " …" if len(tables) > 3 else ""
    return f"{format_count(len(tables), 'table')} without responses not read ({file_names}{ellipsis})"


def _is_in_response_folder(table: SourceTable, path: Path) -> bool:
    """Return whether a folder between `path` and the file of a table has a name such as "responses"."""
    if not table.file.is_relative_to(path):
        return False
    folders = table.file.relative_to(path).parts[:-1]
    return any(folder.lower() in _RESPONSE_FOLDERS for folder in folders)


def add_location_columns(tables: Sequence[SourceTable]) -> tuple[str, ...]:
    """Add columns to tables that state the folder and the file of each row, and return the names of the added columns.

    - `FILE` has the names of the files or, if files have several sheets, of the sheets.
    - `FOLDER` is added if several folders contain files of the same names.
    - `FILE_NUMBER` is added if all names number runs or seeds, as "run-2" does. Its name is not returned.

    `FILE` and `FOLDER` are left out if all their values are equal. Times in the names of files and folders are ignored.

    tables : tables of the files; their rows are changed in place
    """
    if len(tables) == 1:
        return ()
    has_sheets = len({table.file for table in tables}) < len(tables)
    if has_sheets:
        values_by_column = {FILE: [table.name for table in tables]}
    else:
        paths = _add_repeat_numbers(tables)
        values_by_column = _compute_location_columns(paths)
    values_by_column = {column: values for column, values in values_by_column.items() if len(set(values)) > 1}
    for column, values in values_by_column.items():
        _set_column(tables, column, values)
    return tuple(values_by_column)


def _set_column(tables: Sequence[SourceTable], column: str, values: Sequence[str]) -> None:
    """Set a column of several tables, in which all rows of a table have the same value. The rows are changed in place.

    column : name of the column, which is added or overwritten
    values : value for each table
    """
    for table, value in zip(tables, values, strict=True):
        for row in table.flat_rows:
            row[column] = value


def _compute_location_columns(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Compute one or two columns of short texts that identify the file of each table.

    - If several folders contain files of the same names, as gpt/maths.csv and llama/maths.csv, there are two columns: `FOLDER`
      distinguishes the folders ("gpt" and "llama"), and `FILE` has the names of the files without suffix ("maths"). Times in
      the names of files are ignored, and so are folders whose name is only a time.
    - Otherwise, the only column is `FILE`: it has "gpt" and "llama" for answers/gpt.csv and answers/llama.csv. If the names of
      files recur, it also has the last folders (`find_unique_suffixes`).

    paths : path of each file, without its suffix

    Returns a dictionary: name of the column → one value per file.
    """
    names = [_TIME.sub("", path.name) for path in paths]
    folders = [_find_named_folder(path) for path in paths]
    n_files = len(set(paths))
    has_repeated_names = len(set(names)) < n_files
    if has_repeated_names and len(set(zip(folders, names, strict=True))) == n_files:
        return {FOLDER: find_unique_suffixes(folders), FILE: names}
    return {FILE: find_unique_suffixes(paths)}


def _find_named_folder(path: Path) -> Path:
    """Return the innermost folder of a path whose name is not only a time; the innermost folder if there is none."""
    named_folders = (folder for folder in path.parents if _TIME.sub("", folder.name))
    return next(named_folders, path.parent)


def _add_repeat_numbers(tables: Sequence[SourceTable]) -> list[Path]:
    """Add the column `FILE_NUMBER` if the names of files or folders number repeated runs, as in `run-2.csv`.

    Two conditions must hold:

    - All names of files, or all names of folders, contain a number, and the names are not all equal.
    - A column, or the rest of the paths, distinguishes the agents without the numbers.

    tables : tables of the files; their rows are changed in place

    Returns the path of each table's file without its suffix. If the column was added, the number is removed from the path,
    too.
    """
    paths = [table.file.with_suffix("") for table in tables]
    has_agent_column = any(map(is_agent_name, tables[0].columns))
    file_names = [path.name for path in paths]
    folder_names = [path.parent.name for path in paths]
    without_file_numbers = [_remove_number(path) for path in paths]
    without_folder_numbers = [_remove_number(path.parent) / path.name for path in paths]
    candidates = ((file_names, without_file_numbers), (folder_names, without_folder_numbers))
    for names, paths_without_numbers in candidates:
        numbers = [match[1] for match in map(_NUMBER.search, names) if match is not None]
        are_numbered = len(numbers) == len(names) and len(set(names)) > 1
        if are_numbered and (has_agent_column or len(set(paths_without_numbers)) > 1):
            _set_column(tables, FILE_NUMBER, numbers)
            return paths_without_numbers
    return paths


def _remove_number(path: Path) -> Path:
    """Return a path without the number of a repeat in its last part; a last part that is only a number becomes "run"."""
    return path.with_name(_NUMBER.sub("", path.name) or "run") if path.name else path


def add_prompts(
    roles: Roles, tables: Sequence[SourceTable], other_tables: Sequence[SourceTable]
) -> tuple[Roles, list[SourceTable]]:
    """Add the prompts from other tables to the rows of `tables`.

    An item gets the prompt from the folder of its response, or else from the first table that has one, or else None. If there are
    already prompts, if the items have no ids, or if no table has their prompts, nothing is changed, and `roles` is returned.

    The new column has the name of the column of prompts in the other tables. If `tables` have a column of this name, it gets the
    addition " (prompt)".

    roles : roles of the columns of `tables`
    tables : tables with responses, whose rows are changed in place
    other_tables : tables without responses

    Returns the roles with the added column, and the other tables that have prompts (an empty list if nothing is changed).
    """
    item_column = roles.columns.get("item")
    if item_column is None or "prompt" in roles.columns:
        return roles, []

    rows = [(table.file.parent, row) for table in tables for row in table.flat_rows]
    ids = {str(row.get(item_column)) for _, row in rows}
    id_column, column, prompts = _find_prompts(other_tables, item_column, ids=ids)
    if not prompts:
        return roles, []
    prompt_tables = [table for table in other_tables if _collect_prompts([table], id_column, column)]
    if any(column in row for _, row in rows):  # for example, the column "text" of the responses
        column = f"{column} (prompt)"
    for folder, row in rows:
        prompt_by_folder = prompts.get(str(row.get(item_column)), {})
        first_prompt = next(iter(prompt_by_folder.values()), None)
        row[column] = prompt_by_folder.get(folder, first_prompt)
    return roles.with_role("prompt", column), prompt_tables


def _find_prompts(
    tables: Sequence[SourceTable], item_column: str, *, ids: Set[str]
) -> tuple[str, str, dict[str, dict[Path, Json]]]:
    """Find the first column that has a prompt for one of the items.

    The ids may be in a column of a different name, such as "id" for "item". In this case, each item must have a prompt.

    tables : tables without responses
    item_column : column with the ids of the items in the tables with responses
    ids : ids of the items

    Returns the column of ids, the column of prompts, and the prompts (`_collect_prompts`); empty ones if there is no such column.
    """
    for table in tables:
        has_same_name = item_column in table.columns
        id_columns = [item_column] if has_same_name else table.get_candidates("item")[:1]
        prompt_columns = filter(table.is_text_column, table.get_candidates("prompt") + table.get_candidates("text"))
        for id_column, column in product(id_columns, prompt_columns):
            prompts = _collect_prompts(tables, id_column, column)
            if ids <= prompts.keys() or (has_same_name and not ids.isdisjoint(prompts)):
                return id_column, column, prompts
    return "", "", {}


def _collect_prompts(tables: Sequence[SourceTable], id_column: str, column: str) -> dict[str, dict[Path, Json]]:
    """Collect the prompts of items in several tables.

    id_column, column : columns of ids and of prompts

    Returns a dictionary: id → folder of a table → prompt. Rows without an id or a prompt are left out.
    """
    prompts: dict[str, dict[Path, Json]] = {}
    for table in tables:
        for row in table.flat_rows:
            if row.get(id_column) not in (None, "") and row.get(column):  # an id may be 0
                prompts.setdefault(str(row[id_column]), {})[table.file.parent] = row[column]
    return prompts
