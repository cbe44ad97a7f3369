"""Import a pool from tables, or from a folder of texts for each agent.

If columns are named, by options or because they have the names of a pool's columns, the table is read as it is.
Otherwise `column_roles` finds the roles of the columns, and they are reported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from youden.data.importers.column_names import ROLES
from youden.data.importers.column_roles import Roles, UnclearColumnsError, find_roles
from youden.data.importers.column_values import FILE, FOLDER, Row, get_value
from youden.data.importers.foreign_files import find_unique_suffixes, import_error, parse_json, read_text
from youden.data.importers.nested_rows import flatten
from youden.data.importers.pool_joiner import SECOND_RESPONSE, ImportedPool, PoolBuilder, PromptItemIds
from youden.data.importers.related_tables import (
    SourceTable,
    add_location_columns,
    prepare_table,
    split_by_responses,
    with_prompts,
)
from youden.data.importers.response_columns import (
    REPEATS,
    ROW_ORDER,
    ColumnPath,
    ResponseReader,
    check_roles,
    detect_known_layout,
    parse_column_paths,
)
from youden.data.importers.restarting_ids import split_composite, with_unique_items
from youden.data.importers.role_messages import describe_roles, unclear_columns_error
from youden.data.importers.table_files import (
    PLAIN,
    find_tables,
    is_pool_header,
    read_rows,
    read_tables,
    read_text_folder,
)
from youden.data.pools.spool import format_excerpt
from youden.text.sentences import format_count
from youden.types import Pool
from youden.types.pool import Json


def read_table(
    paths: Sequence[Path], /, *, columns: Mapping[str, str], exact: bool = True, previous_pool: Pool | None = None
) -> ImportedPool:
    """Import tables, or a folder of texts for each agent, as a pool.

    Parameters
    ----------
    paths : sequence of Path
        Files, and folders of tables that belong together.
    columns : mapping of str to str
        Column, or path inside a column, by role; for texts also several columns, separated by commas, one per agent.
    exact : bool, default True
        Whether tables whose columns are named are read as they are: an empty cell is an empty response, a number is not
        a text, and ids keep the spaces around them.
    previous_pool : Pool, optional
        Pool that was imported from the same path before; its prompts keep their item ids. It has no effect on tables
        with ids of items, nor on those that `exact` reads as they are.

    Returns
    -------
    ImportedPool
        The pool; `taken` describes the columns that were used.

    Raises
    ------
    ImportFormatError
        [import-columns] if the role of a column is not clear; [import-ids] if ids of items restart and nothing else
        identifies the items; [import-format] and others if a file cannot be read. The message starts with file and
        location.
    """
    columns = dict(columns)
    files = find_tables(paths)
    check_roles(paths[0], columns)
    if files and exact and _has_named_columns(files, columns):
        imported = _read_named(paths, files, columns)
        if SECOND_RESPONSE not in imported.left_out or "item" in columns:
            return imported

        # Agents have several responses to one item: perhaps the ids restart.
        rows = _read_flat_rows(files)
        roles = _get_named_roles(rows[0].keys(), columns)
        unique_roles = with_unique_items(roles, rows, location=str(files[0]))
        if unique_roles == roles:
            return imported
        if not unique_roles.has_generated_ids:
            columns["item"] = unique_roles.columns["item"]
    return _read_unnamed(paths, files, columns, previous_pool)


def _has_named_columns(files: Sequence[Path], columns: Mapping[str, str]) -> bool:
    """Return whether options, or the first file's header or layout, name the columns of texts and items.

    files : files of the tables
    columns : column by role, as the user named them
    """
    has_lists = any("[]" in path for path in columns.values())
    has_other_files = any(file.is_file() and file.suffix.lower() not in PLAIN for file in files)
    if has_other_files:
        return has_lists

    _, first_row = next(read_rows(files[0]), ("", {}))
    flat_row = flatten(first_row)
    for name in columns.values():
        uses_location = FILE in name or FOLDER in name
        if uses_location or split_composite(name, flat_row):
            return False

    roles = first_row.keys() | columns.keys()
    if "text" not in roles:
        roles |= detect_known_layout(first_row).keys()
    return has_lists or is_pool_header(roles)


def _read_named(paths: Sequence[Path], files: Sequence[Path], columns: Mapping[str, str]) -> ImportedPool:
    """Read tables whose columns are named, row by row. Without a column for the agent, each file is an agent.

    paths : paths that the user passed; the first one names the pool
    files : files of the tables
    columns : column by role, as the user named them
    """
    builder = PoolBuilder(paths[0].stem)
    agent_column = ""
    names = find_unique_suffixes([file.with_suffix("") for file in files])
    for file, name in zip(files, names, strict=True):
        reader: ResponseReader | None = None
        for location, row in read_rows(file, builder.replaced, builder.add_note):
            if reader is None:  # the first row shows the columns of the file
                file_columns = _get_named_columns(row, columns)
                has_one_text_column = "," not in file_columns.get("text", "")
                if len(files) == 1 and "agent" not in file_columns and has_one_text_column:
                    agent_column = _find_agent_column(file, file_columns)
                    if agent_column:
                        file_columns["agent"] = agent_column
                reader = _make_reader(file, row, file_columns, agent=name, builder=builder)
            reader.add(row, location)

    choices = f"agents by {agent_column!r}" if agent_column else ""
    return replace(builder.build(), used_columns=choices)


def _get_named_columns(row: Mapping[str, Json], columns: Mapping[str, str]) -> dict[str, str]:
    """Return the column by role: those that the user named, those called like a role, and those of a known layout.

    row : first row of the table
    columns : columns by role that the user named, which precede others
    """
    named_columns = {role: role for role in ROLES if role in row} | dict(columns)
    if "text" not in named_columns:
        return detect_known_layout(row) | named_columns
    return named_columns


def _make_reader(
    file: Path, row: Mapping[str, Json], columns: dict[str, str], *, agent: str, builder: PoolBuilder
) -> ResponseReader:
    """Create the reader of a table whose columns are named, and add notes on unused columns and repeats to `builder`.

    row : first row of the table
    columns : column by role; a column of repeats may be added or removed
    agent : name of the agent if no column names agents
    """
    repeats = [name for name in REPEATS if name in row and name not in columns.values()]
    if "repeat" not in columns and repeats:
        columns["repeat"] = repeats[0]
        builder.add_note(f"{file}: the column {repeats[0]} distinguishes repeats")
    has_ordered_rows = columns.get("repeat") == ROW_ORDER and ROW_ORDER not in row
    if has_ordered_rows:
        del columns["repeat"]

    paths, agent_paths = parse_column_paths(file, row, columns)
    used_columns: set[str | int] = set()
    for path in (*paths.values(), *agent_paths.values()):
        used_columns.update(steps[0] for steps in (path.steps, *path.further_steps))
    unused = [name for name in row if name not in used_columns]
    if unused:
        builder.add_note(f"{file}: columns not used: {', '.join(unused)}")
    return ResponseReader(paths, agent_paths, agent, builder, has_ordered_rows=has_ordered_rows)


def _find_agent_column(file: Path, columns: Mapping[str, str]) -> str:
    """Return the column of a single table that names the agents; empty if none does, or if several do together.

    columns : column by role, as far as they are known
    """
    rows = [flatten(row) for _, row in read_rows(file)]
    has_further_columns = bool(rows[0].keys() - {*ROLES})
    if not has_further_columns:
        return ""
    try:
        agents = find_roles(rows, given=columns).agents
    except UnclearColumnsError:
        return ""
    return agents[0] if len(agents) == 1 else ""


def _read_flat_rows(files: Sequence[Path]) -> list[Row]:
    """Read all rows of tables, with nested values as separate columns, and the file of each row."""
    rows: list[Row] = []
    for file in files:
        for _, row in read_rows(file):
            rows.append({**flatten(row), FILE: str(file)})
    return rows


def _get_named_roles(column_names: Collection[str], columns: Mapping[str, str]) -> Roles:
    """Return the roles of columns that are named like a role, or that the user named.

    column_names : all columns of the tables
    columns : column by role, as the user named them
    """
    all_columns = {role: role for role in ROLES if role in column_names} | dict(columns)
    used_columns = {FILE, *all_columns.values()}
    return Roles(
        {role: all_columns[role] for role in ("item", "text", "prompt", "repeat") if role in all_columns},
        agents=(all_columns.get("agent", FILE),),
        agent_columns=(),
        has_generated_ids=False,
        unused=tuple(name for name in column_names if name not in used_columns),
    )


def _read_unnamed(
    paths: Sequence[Path], files: Sequence[Path], columns: Mapping[str, str], previous_pool: Pool | None
) -> ImportedPool:
    """Read tables, and find the roles of the columns that are not named.

    paths : paths that the user passed
    files : files of the tables; empty for folders of texts
    columns : column by role, as the user named them
    previous_pool : earlier import of the same path, whose prompts keep their item ids
    """
    path = paths[0]
    builder = PoolBuilder(path.stem, merges=True)
    tables, tables_without_responses = split_by_responses(path, _prepare_tables(path, files, columns, builder), columns)
    if tables_without_responses:
        file_names = ", ".join(repr(table.file.name) for table in tables_without_responses[:3])
        ellipsis = " …" if len(tables_without_responses) > 3 else ""
        builder.add_note(
            f"{format_count(len(tables_without_responses), 'table')} without responses not read ({file_names}{ellipsis})"
        )
    location_columns = add_location_columns(tables)
    _add_composites(tables, columns)
    _check_columns(path, columns, [*tables, *tables_without_responses])

    items = PromptItemIds(_make_item_ids(previous_pool, has_one_table=len(tables) == 1))
    tables_by_layout: dict[str | None, list[SourceTable]] = {}
    for table in tables:
        tables_by_layout.setdefault(table.find_layout(columns), []).append(table)

    descriptions: dict[str, None] = {}
    unused: dict[str, None] = {}
    question = None
    for group in tables_by_layout.values():
        has_known_layout = "text" not in columns and "text" in detect_known_layout(group[0].first_row)
        if has_known_layout:
            for table in group:
                description = _add_known_layout(table, builder, location_columns=location_columns, columns=columns)
                descriptions.setdefault(description)
            continue

        roles = _add_unknown_layout(
            group,
            builder,
            items,
            path=path,
            columns=columns,
            location_columns=location_columns,
            others=tables_without_responses,
        )
        descriptions.setdefault(describe_roles(roles, group[0].name))
        unused |= dict.fromkeys(column for column in roles.unused if column not in (FOLDER, FILE))
        question = question or roles.columns.get("prompt")

    imported = builder.build()
    _check_files_share_items(path, imported.pool, tables, location_columns)
    counts = format_count(sum(len(table.rows) for table in tables), "row")
    if len(tables) > 1:
        counts += f" of {format_count(len(tables), 'table')}"
    choices = f"{counts}: {'; '.join(descriptions)}"
    return replace(imported, used_columns=choices, question=question, unused=tuple(unused))


def _add_unknown_layout(
    tables: Sequence[SourceTable],
    builder: PoolBuilder,
    items: PromptItemIds,
    *,
    path: Path,
    columns: Mapping[str, str],
    location_columns: tuple[str, ...],
    others: Sequence[SourceTable],
) -> Roles:
    """Add the responses of tables with the same columns to a pool.

    Parameters
    ----------
    tables : sequence of SourceTable
        The tables, at least one.
    builder : PoolBuilder
        Receives the responses.
    items : PromptItemIds
        Gives ids to items that the tables identify only by prompts.
    path : Path
        File or folder, for error messages.
    columns : mapping of str to str
        Column by role, as named by the user.
    location_columns : tuple of str
        Columns for the file and folder of a row, which may name agents.
    others : sequence of SourceTable
        Tables without responses, which may hold the prompts.

    Returns
    -------
    Roles
        The roles of the columns.
    """
    rows = [row for table in tables for row in table.flat_rows]
    has_ordered_rows = columns.get("repeat") == ROW_ORDER and not any(ROW_ORDER in row for row in rows)
    given = dict(columns)
    if has_ordered_rows:
        del given["repeat"]
    roles = _find_roles(
        path, rows, given, location_columns=location_columns, others=others, has_ordered_rows=has_ordered_rows
    )
    reader = ResponseReader(
        {role: ColumnPath((column,)) for role, column in roles.columns.items()},
        _make_agent_paths(roles),
        tables[0].name,
        builder,
        items,
        has_generated_ids=roles.has_generated_ids,
        is_exact=False,
        has_ordered_rows=has_ordered_rows,
    )
    for location, row in chain.from_iterable(table.rows for table in tables):
        reader.add(row, location)
    return roles


def _prepare_tables(
    path: Path, files: Sequence[Path], columns: Mapping[str, str], builder: PoolBuilder
) -> list[SourceTable]:
    """Read the tables in files, or the texts in a folder without tables.

    builder : builder of the pool, which gets the notes

    Raises: ImportFormatError [import-columns] if no file holds rows.
    """
    tables = []
    for file in files:
        for name, rows in read_tables(file, builder.add_note, builder.replaced):
            if rows:
                tables.append(prepare_table(file, name, rows, columns, builder.add_note))
    if tables:
        return tables

    has_texts = path.is_dir() and any(path.rglob("*/*.txt"))
    if files and not has_texts:
        names: list[str] = []  # keys of the JSON objects, for the message
        for file in files:
            if file.suffix.lower() == ".json":
                value = parse_json(read_text(file), file)
                if isinstance(value, dict):
                    names += [key for key in value if key not in names]
        raise unclear_columns_error(path, "no list of rows holds responses as text", names)

    rows = read_text_folder(path, builder.replaced)
    return [prepare_table(path, path.name, rows, columns, builder.add_note)]


def _add_known_layout(
    table: SourceTable, builder: PoolBuilder, *, location_columns: Sequence[str], columns: Mapping[str, str]
) -> str:
    """Add the responses of a table with a known layout to a builder, and return a description of the columns.

    location_columns : columns of the folder and the file, which name the agent if no other column does
    columns : columns by role that the user named
    """
    all_columns = {**detect_known_layout(table.first_row), **columns}
    location_names = [str(table.flat_rows[0][column]) for column in location_columns]
    agent = " / ".join(location_names) or table.name
    reader = _make_reader(table.file, table.first_row, dict(all_columns), agent=agent, builder=builder)
    for location, row in table.rows:
        reader.add(row, location)
    return ", ".join(f"{column!r} for {role}s" for role, column in all_columns.items())


def _find_roles(
    path: Path,
    rows: Sequence[dict[str, Json]],
    columns: Mapping[str, str],
    *,
    location_columns: tuple[str, ...],
    others: Sequence[SourceTable],
    has_ordered_rows: bool,
) -> Roles:
    """Find the roles of the columns of tables with one layout, and add combined columns to the rows.

    path : file or folder that the user named, for messages
    rows : rows of all these tables, changed in place
    columns : columns by role that the user named
    location_columns : columns of the folder and the file of each row
    others : tables without responses, which may hold the prompts
    has_ordered_rows : whether further rows of an agent and item are repeats

    Raises: ImportFormatError [import-columns] if roles are unclear; [import-ids] if it is unclear what identifies items.
    """
    try:
        roles = find_roles(rows, location_columns=location_columns, given=columns)
    except UnclearColumnsError as error:
        all_columns = list(dict.fromkeys(chain.from_iterable(rows)))
        raise unclear_columns_error(path, error.problem, all_columns, error.options) from error

    item_columns = split_composite(columns.get("item", ""), roles.unused) or ()
    unused = tuple(column for column in roles.unused if column not in item_columns)
    roles = replace(roles, unused=unused)
    if columns.keys().isdisjoint({"item", "repeat"}) and not has_ordered_rows:
        roles = with_unique_items(roles, rows, location=str(path))
    roles = with_prompts(roles, rows, others)

    for row in rows:
        for column in roles.columns.values():
            if column not in row:
                row[column] = get_value(row, column)
    return roles


def _make_agent_paths(roles: Roles) -> dict[str, ColumnPath]:
    """Return the path of the column of each agent, if each agent has its own column of texts.

    The agents have the names of the columns, without a first key that all columns share, for example `outputs.`.
    """
    columns = roles.agent_columns
    shared_prefix = ""
    first_keys = {column.partition(".")[0] for column in columns}
    if len(first_keys) == 1 and all("." in column for column in columns):
        shared_prefix = f"{first_keys.pop()}."
    return {column.removeprefix(shared_prefix): ColumnPath((column,)) for column in columns}


def _make_item_ids(previous_pool: Pool | None, *, has_one_table: bool) -> Callable[[int, str], str]:
    """Return a function that generates the id of an item from its prompt.

    Ids are q001, q002, … for one table, and hashes of the prompts for several tables, which must agree. Prompts of
    `previous_pool` keep their ids.

    has_one_table : whether all prompts are in one table
    """
    previous_ids = set()
    id_by_prompt = {}
    if previous_pool is not None:
        for item in previous_pool.items:
            previous_ids.add(item.id)
            if item.prompt:
                normalized_prompt = " ".join(item.prompt.split())
                id_by_prompt[normalized_prompt] = item.id
    numbered_ids = (f"q{number:03d}" for number in count(1))
    unused_ids = (id_ for id_ in numbered_ids if id_ not in previous_ids)

    def get_id(_number: int, prompt: str) -> str:
        """Return the id of a prompt, which is generated the first time."""
        if prompt not in id_by_prompt:
            digest = hashlib.sha256(prompt.encode()).hexdigest()
            id_by_prompt[prompt] = next(unused_ids) if has_one_table else f"q-{digest[:8]}"
        return id_by_prompt[prompt]

    return get_id


def _add_composites(tables: Sequence[SourceTable], columns: Mapping[str, str]) -> None:
    """Add the combined columns that the user named, such as `<file>+id`, to the rows.

    tables : tables, whose rows are changed in place
    """
    rows = [row for table in tables for row in table.flat_rows]
    for column in columns.values():
        for row in rows:
            names = split_composite(column, row)
            if names:
                row[column] = get_value(row, " + ".join(names))


def _check_columns(path: Path, columns: Mapping[str, str], tables: Sequence[SourceTable]) -> None:
    """Raise ImportFormatError [import-columns] if the user named a column that no table has."""
    present = set(chain.from_iterable(table.columns for table in tables))
    for role, column_text in columns.items():
        named_columns = column_text.split(",") if role == "text" else [column_text]
        for column in named_columns:
            is_row_order = role == "repeat" and column == ROW_ORDER
            if column not in present and not is_row_order:
                existing = dict.fromkeys(chain.from_iterable(table.first_row for table in tables))
                raise import_error(
                    path,
                    f"there is no column '{column}': the columns are {format_excerpt(', '.join(existing))}. Set --column to one "
                    "of them.",
                    slug="import-columns",
                )


def _check_files_share_items(
    path: Path, pool: Pool, tables: Sequence[SourceTable], location_columns: Sequence[str]
) -> None:
    """Raise ImportFormatError [import-columns] if an agent named by a file shares no item with another agent.

    If no agents share an item at all, nothing is raised.
    """
    is_shared_item = pool.present.sum(axis=0) > 1
    has_shared_item = (pool.present & is_shared_item).any(axis=1)
    if not has_shared_item.any():
        return

    file_names: set[str] = set()
    for table in tables:
        _, first_row = table.rows[0]
        file_names.update(str(first_row.get(column)) for column in location_columns)
    isolated_ids = []
    for agent, shares_item in zip(pool.agents, has_shared_item, strict=True):
        if agent.id in file_names and not shares_item:
            isolated_ids.append(agent.id)
    if isolated_ids:
        names = ", ".join(map(repr, isolated_ids[:3]))
        verb = "shares" if len(isolated_ids) == 1 else "share"
        raise unclear_columns_error(path, f"{names} {verb} no item with other agents", tables[0].columns)
