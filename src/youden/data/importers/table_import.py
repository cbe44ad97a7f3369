"""Import a pool from tables, or from a folder of texts for each agent.

If columns are named, by options or because they have the names of a pool's columns, the table is read as it is.
Otherwise `column_roles` finds the roles of the columns, and they are reported.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path

from youden.data.importers.column_names import ROLES
from youden.data.importers.column_roles import Roles, find_roles
from youden.data.importers.column_values import (
    FILE,
    FOLDER,
    Row,
    UnclearColumnsError,
    join_names,
    split_composite,
    split_names,
    split_text_columns,
    with_similar_ids,
)
from youden.data.importers.excel_files import SHEETS_NOT_READ
from youden.data.importers.foreign_files import find_unique_suffixes, import_error
from youden.data.importers.nested_rows import flatten
from youden.data.importers.pool_joiner import SECOND_RESPONSE, ImportedPool, PoolBuilder, PromptItemIds
from youden.data.importers.related_tables import (
    SourceTable,
    add_location_columns,
    add_prompts,
    describe_unread_tables,
    prepare_table,
    split_by_responses,
)
from youden.data.importers.response_columns import ColumnPath, ResponseReader, detect_known_layout, parse_column_paths
from youden.data.importers.restarting_ids import has_repeats_in_rows, resolve_restarting_ids
from youden.data.importers.role_messages import describe_roles, unclear_columns_error
from youden.data.importers.table_files import (
    find_tables,
    find_texts,
    is_pool_header,
    read_rows,
    read_tables,
    read_text_folder,
)
from youden.data.importers.table_header import Rows
from youden.data.pools.spool import format_excerpt
from youden.errors import ImportFormatError
from youden.text.sentences import format_count
from youden.types import Pool
from youden.types.pool import Json

_PLAIN = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet")
_REPEATS = ("repeat", "sample", "epoch", "trial", "attempt", "seed")
"""Names of columns that number the responses of an agent to one item, if the user names none."""
_LIST_OF_TEXTS = re.compile(r"""\[\s*(['"]).*\1\s*\]""", re.DOTALL)
_ROW_ORDER = "rows"
"""Value of the role `repeat` that names no column: rows of one agent and item are repeats, in their order."""


def read_table(
    paths: Sequence[Path], /, *, columns: Mapping[str, str], exact: bool = True, previous_pool: Pool | None = None
) -> ImportedPool:
    """Import tables, or a folder of texts for each agent, as a pool.

    Parameters
    ----------
    paths : sequence of Path
        Files, and folders of tables that belong together; at least one. The pool is named after the first path.
    columns : mapping of str to str
        Column, or path inside a column, by role: agent, item, text, prompt, group, empty or repeat. The role text may have
        several columns, separated by commas: one per agent or, if a column of agents is named, one per repeat. An empty cell is
        an empty response. If a column has the role empty, this holds only in rows that it marks. Roles that are not named are
        inferred; the mapping may be empty. The value "rows" for the role repeat means that rows of one agent and item are
        repeats, in their order.
    exact : bool, default True
        Whether tables are read without conversions if the names of their columns are known or in `columns`. A response that
        is a number is then left out of the pool and counted in the result, and ids keep the spaces around them. If False, the
        number becomes a text, and ids are cleaned.
    previous_pool : Pool, optional
        Pool that was imported from the same path before; its prompts keep their item ids. It has no effect on tables
        with ids of items, nor on those that `exact` reads as they are.

    Returns
    -------
    ImportedPool
        The `pool`; `used_columns` describes the columns that were used, and is empty if `exact` read tables as they are;
        `notes` lists assumptions and what was left out.

    Raises
    ------
    ImportFormatError
        [import-columns] if the role of a column is not clear, or `columns` has an unknown role; [import-ids] if ids of items
        restart and nothing else identifies the items; [import-empty] if there is no response; [import-format] and others if
        a file cannot be read. The message starts with file and location.
    """
    columns = dict(columns)
    files = find_tables(paths)
    for role in columns.keys() - {*ROLES}:
        problem = f"the role '{role}' is unknown. Set one of {', '.join(ROLES)} by --column ROLE=NAME."
        raise import_error(paths[0], problem, slug="import-columns")
    if files and exact and _are_columns_known(files, columns):
        imported = _read_known_columns(paths, files, columns)
        if SECOND_RESPONSE not in imported.left_out or "item" in columns:
            return imported

        # Agents have several responses to one item: perhaps the ids restart.
        rows = [{**flatten(row), FILE: str(file)} for file in files for _, row in read_rows(file)]
        known_columns = {"agent": FILE, **_get_known_columns(rows[0], columns)}
        roles = find_roles(rows, location_columns=[FILE], given=known_columns)
        roles = replace(roles, unused=tuple(name for name in roles.unused if name != FILE))
        unique_roles = resolve_restarting_ids(roles, rows, location=str(files[0]))
        if unique_roles == roles:
            return imported
        if not unique_roles.has_generated_ids:
            columns["item"] = unique_roles.columns["item"]
    return _read_unnamed_columns(paths, files, columns, previous_pool)


def _are_columns_known(files: Sequence[Path], columns: Mapping[str, str]) -> bool:
    """Return whether the columns of responses and items are known without examining the values of the columns.

    The first of these rules that applies decides:

    1. The columns are known if the user named a path into a list, such as `choices[].text`.
    2. They are not known in spreadsheets and other files whose suffix is not in `_PLAIN`.
    3. They are not known if the user named folders, files, a combined column such as `subject+id`, or several columns of
       responses next to a column of agents. Such columns must be computed.
    4. They are known if the user named them, or if they have known names: "text" and "item", or the names in a public data
       set. A single file must also name its agents, or have no other column that might name them.

    files : files of the tables; only the first row of the first file is examined
    columns : columns that the user named, by role, such as {"text": "answer"}
    """
    if any("[]" in path for path in columns.values()):
        return True
    if not all(file.suffix.lower() in _PLAIN or not file.is_file() for file in files):
        return False

    _, first_row = next(read_rows(files[0]), ("", {}))
    flat_row = flatten(first_row)
    has_several_texts = len(split_text_columns(columns.get("text", ""), flat_row)) > 1
    has_repeats = has_several_texts and "agent" in columns
    if has_repeats or any(
        FILE in name or FOLDER in name or split_composite(name, flat_row) for name in columns.values()
    ):
        return False

    known_roles = _get_known_columns(first_row, columns).keys()
    are_agents_named = len(files) > 1 or "agent" in known_roles or has_several_texts
    has_other_columns = not first_row.keys() <= {*ROLES, *columns.values()}
    return is_pool_header(known_roles) and (are_agents_named or not has_other_columns)


def _read_known_columns(paths: Sequence[Path], files: Sequence[Path], columns: Mapping[str, str]) -> ImportedPool:
    """Import tables whose columns of responses and items are known, row by row.

    If no column names the agents of a file, the file is one agent.

    paths : paths that the user passed; the first one names the pool
    files : files of the tables
    columns : columns that the user named, by role, such as {"text": "answer"}
    """
    builder = PoolBuilder(paths[0].stem)
    names = find_unique_suffixes([file.with_suffix("") for file in files])
    for file, name in zip(files, names, strict=True):
        rows = read_rows(file, builder.replaced, builder.add_note)
        _add_rows_with_known_columns(file, rows, columns, agent=name, builder=builder)
    return builder.build()


def _get_known_columns(row: Mapping[str, Json], columns: Mapping[str, str]) -> dict[str, str]:
    """Return a dictionary: role → the column that the user named for this role, or the column with the name of the role.

    If there is no such column for the role "text", the columns of a known public data set are added.

    row : first row of the table
    columns : columns that the user named, by role; these columns take precedence
    """
    known_columns = {role: role for role in ROLES if role in row} | dict(columns)
    return known_columns if "text" in known_columns else detect_known_layout(row) | known_columns


def _add_rows_with_known_columns(
    file: Path, rows: Iterator[tuple[str, Row]], columns: Mapping[str, str], *, agent: str, builder: PoolBuilder
) -> dict[str, str]:
    """Add the responses of a table whose columns are known (`_get_known_columns`) to a pool.

    Repeats are several responses of an agent to an item. If no column has the role `repeat`, a column with a usual name, such
    as "epoch", distinguishes them.

    file : file of the table, for messages
    rows : location and values of each row
    columns : columns that the user named, by role. If the role `repeat` has the value `_ROW_ORDER`, repeats have the order of
        the rows.
    agent : name of the agent if no column names agents
    builder : pool to which the responses, and notes on repeats and unused columns, are added

    Returns the columns by role; an empty dictionary for a table without rows.

    Raises: ImportFormatError [import-columns] if a column is missing (see `parse_column_paths`).
    """
    first_located_row = next(rows, None)
    if first_located_row is None:
        return {}
    _, first_row = first_located_row
    column_by_role = _get_known_columns(first_row, columns)
    usual_columns = [name for name in _REPEATS if name in first_row and name not in column_by_role.values()]
    has_ordered_rows = column_by_role.get("repeat") == _ROW_ORDER
    if has_ordered_rows:
        del column_by_role["repeat"]
    elif "repeat" not in column_by_role and usual_columns:
        column_by_role["repeat"] = usual_columns[0]
        builder.add_note(f"{file}: the column {usual_columns[0]} distinguishes repeats")

    paths, agent_paths = parse_column_paths(file, first_row, column_by_role)
    steps_from_row = chain.from_iterable(path.paths for path in (*paths.values(), *agent_paths.values()))
    used_columns = {column for column, *_ in steps_from_row}
    unused = [name for name in first_row if name not in used_columns]
    if unused:
        builder.add_note(f"{file}: columns not used: {', '.join(unused)}")

    reader = ResponseReader(paths, agent_paths, agent, builder, has_ordered_rows=has_ordered_rows)
    for location, row in chain([first_located_row], rows):
        reader.add(row, location)
    return column_by_role


def _read_unnamed_columns(
    paths: Sequence[Path], files: Sequence[Path], columns: Mapping[str, str], previous_pool: Pool | None
) -> ImportedPool:
    """Import tables and infer the roles, such as agent or prompt, of the columns that the user did not name.

    Tables with their responses in the same columns have the same layout, and are read as one table. Tables without responses
    are searched for prompts only.

    paths : paths that the user passed; the first one names the pool
    files : files of the tables; empty for folders of texts
    columns : columns that the user named, by role, such as {"text": "answer"}
    previous_pool : earlier import of the same path, whose prompts keep their item ids; None if there is none

    Returns the pool, with a description of the columns that were used.

    Raises: ImportFormatError [import-columns] if a role is not clear; others as in `read_table`.
    """
    path = paths[0]
    builder = PoolBuilder(path.stem, merges=True)
    all_tables = _read_source_tables(path, files, _drop_row_order(columns), builder)
    tables, other_tables = split_by_responses(path, all_tables, columns)
    location_columns = add_location_columns(tables)
    columns = _resolve_named_columns(path, columns, [*tables, *other_tables])

    items = PromptItemIds(_make_id_function(previous_pool, has_one_table=len(tables) == 1))
    importer = _TableImporter(path, columns, location_columns, other_tables, items, builder)
    tables_by_layout: dict[str | None, list[SourceTable]] = {}
    for table in tables:
        tables_by_layout.setdefault(table.find_layout(columns), []).append(table)
    for tables_of_layout in tables_by_layout.values():
        importer.add_tables(tables_of_layout)
    prompt_tables = set(map(id, importer.prompt_tables))
    unread_tables = [table for table in other_tables if id(table) not in prompt_tables]
    if unread_tables:
        builder.add_note(describe_unread_tables(unread_tables))
    imported = builder.build()
    _check_files_share_items(path, imported.pool, tables, location_columns)

    counts = format_count(sum(len(table.rows) for table in tables), "row")
    if len(tables) > 1:
        counts += f" of {format_count(len(tables), 'table')}"
    return replace(
        imported,
        used_columns=f"{counts}: {'; '.join(dict.fromkeys(importer.descriptions))}",
        question=importer.question,
        unused=tuple(dict.fromkeys(importer.unused)),
    )


@dataclass
class _TableImporter:
    """Adds the responses of tables to a pool, and finds the roles of the columns that are not named.

    Attributes
    ----------
    path : Path
        File or folder that the user named, for messages.
    columns : mapping of str to str
        Column by role, as named by the user; the role `repeat` may have the value `_ROW_ORDER`.
    location_columns : tuple of str
        Columns with the folder and the file of each row, which may name agents.
    other_tables : sequence of SourceTable
        Tables without responses, which may hold the prompts.
    items : PromptItemIds
        Gives ids to items that the tables identify only by prompts.
    builder : PoolBuilder
        Pool under construction.
    prompt_tables : list of SourceTable
        Those of `other_tables` from which prompts were read.
    descriptions : list of str
        Descriptions of the used columns for display, such as "'answer' for texts".
    unused : list of str
        Columns without a role, except those of folders and files.
    question : str or None
        First column of prompts; None if there is none, or if the roles of the columns were known and not inferred.
    """

    path: Path
    columns: Mapping[str, str]
    location_columns: tuple[str, ...]
    other_tables: Sequence[SourceTable]
    items: PromptItemIds
    builder: PoolBuilder
    prompt_tables: list[SourceTable] = field(default_factory=list)
    descriptions: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    question: str | None = None

    def add_tables(self, tables: Sequence[SourceTable]) -> None:
        """Add the responses of tables with the same layout to the pool, and record which of their columns were used.

        tables : at least one table; all have their responses in the same columns

        Raises: ImportFormatError [import-columns] if a role is not clear; others as in `read_table`.
        """
        # the columns of a known data set are used unless the user named others for the responses
        is_known_data_set = "text" in detect_known_layout(tables[0].first_row)
        if is_known_data_set and "text" not in self.columns:
            for table in tables:
                self.add_table_of_known_data_set(table)
            return
        roles = self.add_tables_of_unknown_layout(tables)
        self.descriptions.append(describe_roles(roles, tables[0].name))
        self.unused += [column for column in roles.unused if column not in (FOLDER, FILE)]
        self.question = self.question or roles.columns.get("prompt")

    def add_table_of_known_data_set(self, table: SourceTable) -> None:
        """Add the responses of a table with the columns of a known public data set to the pool.

        The roles of these columns are known and need not be inferred. If no column names agents, the folder and the file of
        the table name the agent.
        """
        # all rows of a table are from the same folder and file
        locations = [str(table.flat_rows[0][column]) for column in self.location_columns]
        agent = " / ".join(locations) or table.name
        rows = iter(table.rows)
        columns = _add_rows_with_known_columns(table.file, rows, self.columns, agent=agent, builder=self.builder)
        self.descriptions.append(", ".join(f"{column!r} for {role}s" for role, column in columns.items()))

    def add_tables_of_unknown_layout(self, tables: Sequence[SourceTable]) -> Roles:
        """Infer the roles of columns, such as agent or prompt, and add the responses of the tables to the pool.

        The tables have their responses in the same columns, which are not those of a known data set. If each agent has a
        column, a note lists the columns without any value.

        tables : at least one table

        Returns the columns by role, and the columns without a role.

        Raises: ImportFormatError [import-columns] if roles are unclear or if responses are texts in some rows and objects in
            others; [import-ids] if it is unclear what identifies the items.
        """
        located_rows = list(chain.from_iterable(table.rows for table in tables))
        rows = [row for _, row in located_rows]
        roles, prompt_tables = add_prompts(self.find_roles(rows), tables, self.other_tables)
        self.prompt_tables += prompt_tables
        empty_columns = [name for name in rows[0] if all(row.get(name) is None for row in rows)]
        if roles.agent_columns and empty_columns:
            self.builder.add_note(f"columns without values: {', '.join(map(repr, empty_columns))}")

        all_columns = set(chain.from_iterable(rows))
        has_ordered_rows = self.columns.get("repeat") == _ROW_ORDER
        reader = ResponseReader(
            {role: _make_path(column, all_columns) for role, column in roles.columns.items()},
            _make_agent_paths(roles, tables[0].first_row),
            tables[0].name,
            self.builder,
            self.items,
            has_generated_ids=roles.has_generated_ids,
            is_exact=False,
            has_ordered_rows=has_ordered_rows or has_repeats_in_rows(roles, rows),
        )
        for column in roles.agent_columns or (roles.columns["text"],):
            if _are_written_as_lists([row.get(column) for row in rows]):
                note = f"the responses in {column!r} are written as lists, and each list is read as one text"
                self.builder.add_note(note)
        _check_texts_are_not_nested(roles, located_rows)
        for location, row in located_rows:
            reader.add(row, location)
        return roles

    def find_roles(self, rows: Sequence[Row]) -> Roles:
        """Find the roles of the columns of tables, such as agent, item and text.

        rows : rows of all tables with the same layout

        Returns the columns by role, and the columns without a role.

        Raises: ImportFormatError [import-columns] if roles are unclear; [import-ids] if it is unclear what identifies
            items.
        """
        try:
            roles = find_roles(rows, location_columns=self.location_columns, given=_drop_row_order(self.columns))
        except UnclearColumnsError as error:
            raise self.make_unclear_error(error, rows) from error

        if "item" not in self.columns and "repeat" not in self.columns:
            roles = resolve_restarting_ids(roles, rows, location=str(self.path))
        return roles

    def make_unclear_error(self, error: UnclearColumnsError, rows: Sequence[Row]) -> ImportFormatError:
        """Make the error for a table whose columns have unclear roles.

        If only the first sheet of a spreadsheet was read, the responses may be in another sheet. Therefore, the message names
        the sheets that were not read.

        error : the problem, and the columns that would solve it. If it has such columns, the message contains a command that
            sets them and the columns that the user named.
        rows : rows of the tables, whose columns the message lists

        Returns the error [import-columns], to be raised by the caller.
        """
        problem = error.problem
        unread_sheets = ", ".join(self.builder.get_locations(SHEETS_NOT_READ))
        if unread_sheets:
            problem += f" in the first sheet; move the sheet of the responses before it (not read: {unread_sheets})"
        column_names = list(dict.fromkeys(chain.from_iterable(rows)))
        options = {**self.columns, **error.options} if error.options else {}
        return unclear_columns_error(self.path, problem, column_names, options)


def _drop_row_order(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns by role without the role `repeat` if it has the value `_ROW_ORDER`, which is not a column."""
    return {role: column for role, column in columns.items() if (role, column) != ("repeat", _ROW_ORDER)}


def _make_path(column: str, columns: Collection[str]) -> ColumnPath:
    """Return the path to the value of a column, or of a combined column such as "subject + id", in a row that is not nested.

    columns : names of all columns of the table
    """
    return ColumnPath(paths=tuple((name,) for name in split_names(column, columns)))


def _are_written_as_lists(values: Sequence[Json]) -> bool:
    """Return whether all values are texts such as "['It rained.']", as pandas writes lists to a CSV file, except missing ones."""
    texts = [value for value in values if value is not None]
    return bool(texts) and all(isinstance(text, str) and _LIST_OF_TEXTS.fullmatch(text) for text in texts)


def _check_texts_are_not_nested(roles: Roles, located_rows: Rows) -> None:
    """Check that no column of responses has texts in some rows and objects in other rows.

    Objects have been flattened. For example, the object {"text": "Yes"} in the column "answer" became a column "answer.text"
    with the value "Yes".

    roles : columns by role, among them those of the responses
    located_rows : location and values of each row; columns such as "answer.text" replace each object

    Raises: ImportFormatError [import-columns] if a column of responses has texts and objects.
    """
    names = dict.fromkeys(chain.from_iterable(row for _, row in located_rows))
    path_names = [name for name in names if "." in name]
    for column in roles.agent_columns or (roles.columns["text"],):
        nested_names = [name for name in path_names if name.startswith(f"{column}.")]
        if not nested_names:
            continue

        # "answer.text" may have the response of a row without a text in "answer"; but a nested column that has a value next to a
        # text, as "answer.score" may have, holds further information about the response
        rows_with_text = [row for _, row in located_rows if row.get(column) is not None]
        names_in_place_of_text = [name for name in nested_names if all(row.get(name) is None for row in rows_with_text)]
        for location, row in located_rows:
            names_in_row = [name for name in names_in_place_of_text if name in row]
            if names_in_row and row.get(column) is None:
                problem = f"the responses are texts in {column!r} or in {names_in_row[0]!r}."
                remedy = "Write all responses into one of the two columns."
                raise import_error(location, f"{problem} {remedy}", slug="import-columns")


def _read_source_tables(
    path: Path, files: Sequence[Path], columns: Mapping[str, str], builder: PoolBuilder
) -> list[SourceTable]:
    """Read the tables in files or, if there are none, the texts in a folder.

    path : file or folder that the user named
    files : files of the tables
    columns : columns that the user named, by role, such as {"text": "answer"}
    builder : builder of the pool, which gets the notes

    Raises: ImportFormatError [import-columns] if the files hold no rows, and the folder no texts.
    """
    tables = []
    for file in files:
        for name, rows in read_tables(file, builder.add_note, builder.replaced):
            if rows:
                tables.append(prepare_table(file, name, rows, columns, builder.add_note))
    if tables:
        return tables

    has_texts = path.is_dir() and bool(find_texts(path))
    if files and not has_texts:
        raise unclear_columns_error(path, "no list of rows holds responses as text", [])
    rows = read_text_folder(path, builder.replaced)
    return [prepare_table(path, path.name, rows, columns, builder.add_note)]


def _make_agent_paths(roles: Roles, first_row: Row) -> dict[str, ColumnPath]:
    """If each agent has its own column, return a dictionary: name of the agent → path to its responses; otherwise an empty one.

    An agent is named after its column. A common key of nested values is left out: the paths `outputs.gpt` and `outputs.llama`
    belong to the agents "gpt" and "llama".

    first_row : first row as the file has it, to distinguish a path from a column whose name has a dot, such as "v1.0"
    """
    keys = {column.partition(".")[0] for column in roles.agent_columns}
    are_paths = len(keys) == 1 and not any(column in first_row for column in roles.agent_columns)
    shared_prefix = f"{keys.pop()}." if are_paths else ""
    return {column.removeprefix(shared_prefix): ColumnPath(paths=((column,),)) for column in roles.agent_columns}


def _make_id_function(previous_pool: Pool | None, *, has_one_table: bool) -> Callable[[int, str], str]:
    """Return a function that makes the id of an item from its number and its prompt.

    - For one table, the ids are q001, q002, … in the order of the calls.
    - For several tables, the ids are hashes of the prompts. Equal prompts then get equal ids even if only some tables are
      imported.
    - A prompt of the earlier import keeps its id. No other item gets this id; the function therefore ignores the number.
    - Items without prompts are rows, which are numbered again, so that earlier ids of such items are reused.

    previous_pool : earlier import; None without one. Prompts are compared with single spaces.
    has_one_table : whether all prompts are in one table
    """
    previous_items = () if previous_pool is None else previous_pool.items
    previous_ids = {item.id for item in previous_items if item.prompt}
    id_by_prompt = {" ".join(item.prompt.split()): item.id for item in previous_items if item.prompt}
    numbered_ids = (f"q{number:03d}" for number in count(1))
    unused_ids = (id_ for id_ in numbered_ids if id_ not in previous_ids)

    def get_id(_number: int, prompt: str) -> str:
        if prompt not in id_by_prompt:
            digest = hashlib.sha256(prompt.encode()).hexdigest()
            id_by_prompt[prompt] = next(unused_ids) if has_one_table else f"q-{digest[:8]}"
        return id_by_prompt[prompt]

    return get_id


def _resolve_named_columns(path: Path, columns: Mapping[str, str], tables: Sequence[SourceTable]) -> dict[str, str]:
    """Check that each column that the user named exists in at least one table, and return the columns by role.

    path : file or folder that the user named, for the error message
    columns : columns that the user named, by role. The role `text` may have several columns, separated by commas.
    tables : all tables, with and without responses

    Returns a copy of `columns` in which combined columns, such as `<file>+id`, have the name that `get_value` reads.

    Raises: ImportFormatError [import-columns] if no table has one of the columns.
    """
    existing = set(chain.from_iterable(table.columns for table in tables))
    resolved_columns: dict[str, str] = {}
    for role, option in _drop_row_order(columns).items():
        resolved = join_names(split_composite(option, existing) or [option])
        resolved_columns[role] = resolved
        columns_of_role = split_text_columns(resolved, existing) if role == "text" else [resolved]
        names = chain.from_iterable(split_names(column, existing) for column in columns_of_role)
        missing = [name for name in names if name not in existing]
        if missing:
            original_columns = dict.fromkeys(chain.from_iterable(table.first_row for table in tables))
            raise import_error(
                path,
                f"there is no column '{missing[0]}': the columns are {format_excerpt(', '.join(original_columns))}. Set --column "
                "to one of them.",
                slug="import-columns",
            )
    return {**columns, **resolved_columns}


def _check_files_share_items(
    path: Path, pool: Pool, tables: Sequence[SourceTable], location_columns: Sequence[str]
) -> None:
    """Check that each agent that is named after a file or folder shares an item with another agent.

    Two agents share an item if both responded to it. Without shared items, agents cannot be compared. An agent without shared
    items suggests that a file was taken as an agent by mistake. No error is raised if no agents share items at all.

    path : file or folder that the user named, for the error message
    pool : imported responses
    tables : tables from which the responses were read
    location_columns : columns that have the folder and the file of each row, which may name agents

    Raises: ImportFormatError [import-columns] if an agent that is named after a file or folder shares no item.
    """
    is_shared_item = pool.present.sum(axis=0) > 1
    has_shared_item = (pool.present & is_shared_item).any(axis=1)
    if not has_shared_item.any():
        return

    # all rows of a table are from the same folder and file
    file_names = {str(table.flat_rows[0].get(column)) for table in tables for column in location_columns}
    isolated = [agent.id for agent, is_shared in zip(pool.agents, has_shared_item, strict=True) if not is_shared]
    isolated_files = [repr(agent_id) for agent_id in isolated if agent_id in file_names]
    if isolated_files:
        verb = "shares" if len(isolated_files) == 1 else "share"
        problem = f"{', '.join(isolated_files[:3])} {verb} no item with other agents"
        problem = with_similar_ids(problem, (item.id for item in pool.items))
        raise unclear_columns_error(path, problem, tables[0].columns)
