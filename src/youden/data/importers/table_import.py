"""Import a pool from tables, or from a folder of texts for each agent.

If columns are named, by options or because they have the names of a pool's columns, the table is read as it is.
Otherwise `column_roles` finds the roles of the columns, and they are reported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from youden.data.importers.column_names import ROLES
from youden.data.importers.column_roles import Roles, UnclearColumnsError, find_roles
from youden.data.importers.column_values import FILE, FILE_NUMBER, FOLDER, get_value
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
from youden.data.importers.table_files import (
    PLAIN,
    find_tables,
    is_pool_header,
    read_rows,
    read_tables,
    read_text_folder,
)
from youden.data.pools.spool import format_excerpt
from youden.errors import ImportFormatError
from youden.text.printable import format_command
from youden.text.sentences import format_count
from youden.types import Pool
from youden.types.pool import Json

_MAX_LISTED = 250
"""Maximum number of characters of column names that an error lists."""


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
        Pool that was imported from the same path before; its prompts keep their item ids.

    Returns
    -------
    ImportedPool
        The pool; `taken` describes the columns that were used.

    Raises
    ------
    ImportFormatError
        [import-columns] if the role of a column is not clear; [import-format] and others if a file cannot be read. The
        message starts with file and location.
    """
    columns = dict(columns)
    files = find_tables(paths)
    check_roles(paths[0], columns)
    if files and exact and _has_named_columns(files, columns):
        imported = _read_named(paths, files, columns)
        if SECOND_RESPONSE not in imported.left_out or "item" in columns:
            return imported

        # Agents have several responses to one item: perhaps the ids restart.
        composite = _find_composite_item(files, columns)
        if composite is None:
            return imported
        columns |= composite
    return _read_unnamed(paths, files, columns, previous_pool)


def _has_named_columns(files: Sequence[Path], columns: Mapping[str, str]) -> bool:
    """Return whether options, or the first file's header or layout, name the columns of texts and items."""
    has_lists = any("[]" in path for path in columns.values())
    if any(file.is_file() and file.suffix.lower() not in PLAIN for file in files):
        return has_lists

    _, row = next(read_rows(files[0]), ("", {}))
    composites = (split_composite(name, flatten(row)) for name in columns.values())
    if any(FILE in name or FOLDER in name for name in columns.values()) or any(composites):
        return False
    names = row.keys() | columns.keys()
    if "text" not in names:
        names |= detect_known_layout(row).keys()
    return has_lists or is_pool_header(names)


def _read_named(paths: Sequence[Path], files: Sequence[Path], columns: Mapping[str, str]) -> ImportedPool:
    """Read tables whose columns are named, row by row. Without a column for the agent, each file is an agent."""
    builder = PoolBuilder(paths[0].stem)
    agent_column = ""
    names = find_unique_suffixes([file.with_suffix("") for file in files])
    for file, name in zip(files, names, strict=True):
        reader: ResponseReader | None = None
        for location, row in read_rows(file, builder.replaced, builder.add_note):
            if reader is None:
                file_columns = {role: role for role in ROLES if role in row} | dict(columns)
                if "text" not in file_columns:
                    file_columns = detect_known_layout(row) | file_columns
                if len(files) == 1 and "agent" not in file_columns and "," not in file_columns.get("text", ""):
                    agent_column = _find_agent_column(file, file_columns)
                    file_columns |= {"agent": agent_column} if agent_column else {}
                reader = _make_reader(file, row, file_columns, agent=name, builder=builder)
            reader.add(row, location)
    return replace(builder.build(), taken=f"agents by {agent_column!r}" if agent_column else "")


def _make_reader(
    file: Path, row: Mapping[str, Json], columns: dict[str, str], *, agent: str, builder: PoolBuilder
) -> ResponseReader:
    """Make the reader of a table whose columns are named, and add notes to `builder`."""
    repeats = [name for name in REPEATS if name in row and name not in columns.values()]
    if "repeat" not in columns and repeats:
        columns["repeat"] = repeats[0]
        builder.add_note(f"{file}: the column {repeats[0]} distinguishes repeats")
    has_ordered_rows = columns.get("repeat") == ROW_ORDER and ROW_ORDER not in row
    if has_ordered_rows:
        del columns["repeat"]

    paths, agent_paths = parse_column_paths(file, row, columns)
    used = {
        steps[0] for path in (*paths.values(), *agent_paths.values()) for steps in (path.steps, *path.further_steps)
    }
    if unused := [name for name in row if name not in used]:
        builder.add_note(f"{file}: columns not used: {', '.join(unused)}")
    return ResponseReader(paths, agent_paths, agent, builder, has_ordered_rows=has_ordered_rows)


def _find_agent_column(file: Path, columns: Mapping[str, str]) -> str:
    """Return the column of a single table that names the agents; empty if none does."""
    rows = [flatten(row) for _, row in read_rows(file)]
    if not rows[0].keys() - {*ROLES}:
        return ""
    try:
        agents = find_roles(rows, given=columns).agents
    except UnclearColumnsError:
        return ""
    return agents[0] if len(agents) == 1 else ""


def _find_composite_item(files: Sequence[Path], columns: Mapping[str, str]) -> dict[str, str] | None:
    """Find out how to identify items in tables whose columns are named, if ids restart.

    Returns the columns that together name an item, as {"item": "a + b"}; an empty dictionary if prompts identify items;
    None if ids do not restart. Raises: ImportFormatError [import-ids].
    """
    rows = [{**flatten(row), FILE: str(file)} for file in files for _, row in read_rows(file)]
    all_columns = {role: role for role in ROLES if role in rows[0]} | dict(columns)
    used = {role: column for role, column in all_columns.items() if role in ("item", "text", "prompt", "repeat")}
    roles = Roles(
        used,
        agents=(all_columns.get("agent", FILE),),
        agent_columns=(),
        has_generated_ids=False,
        unused=tuple(name for name in rows[0] if name not in (*all_columns.values(), FILE)),
    )
    unique = with_unique_items(roles, rows, location=str(files[0]))
    if unique is roles:
        return None
    return {} if unique.has_generated_ids else {"item": unique.columns["item"]}


def _read_unnamed(
    paths: Sequence[Path], files: Sequence[Path], columns: Mapping[str, str], previous_pool: Pool | None
) -> ImportedPool:
    """Read tables, and find the roles of the columns that are not named."""
    path = paths[0]
    builder = PoolBuilder(path.stem, merges=True)
    tables, others = split_by_responses(path, _prepare_tables(path, files, columns, builder), columns)
    if others:
        names = ", ".join(repr(table.file.name) for table in others[:3]) + (" …" if len(others) > 3 else "")
        builder.add_note(f"{format_count(len(others), 'table')} without responses not read ({names})")
    location_columns = add_location_columns(tables)
    _add_composites(tables, columns)
    _check_columns(path, columns, [*tables, *others])

    items = PromptItemIds(_make_item_ids(previous_pool, has_one_table=len(tables) == 1))
    by_layout: dict[str | None, list[SourceTable]] = {}
    for table in tables:
        by_layout.setdefault(table.get_layout(columns), []).append(table)

    used: dict[str, None] = {}
    unused: dict[str, None] = {}
    question = None
    for group in by_layout.values():
        if "text" not in columns and "text" in detect_known_layout(group[0].first_row):
            for table in group:
                description = _add_known_layout(table, builder, location_columns=location_columns, columns=columns)
                used.setdefault(description)
            continue

        rows = [row for table in group for row in table.flat_rows]
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
            group[0].name,
            builder,
            items,
            has_generated_ids=roles.has_generated_ids,
            is_exact=False,
            has_ordered_rows=has_ordered_rows,
        )
        used.setdefault(describe_roles(roles, group[0].name))
        unused |= dict.fromkeys(column for column in roles.unused if column not in (FOLDER, FILE))
        question = question or roles.columns.get("prompt")
        for location, row in chain.from_iterable(table.rows for table in group):
            reader.add(row, location)

    imported = builder.build()
    _check_files_share_items(path, imported.pool, tables, location_columns)
    n_rows = sum(len(table.rows) for table in tables)
    counts = format_count(n_rows, "row") + ("" if len(tables) == 1 else f" of {format_count(len(tables), 'table')}")
    return replace(imported, taken=f"{counts}: {'; '.join(used)}", question=question, unused=tuple(unused))


def _prepare_tables(
    path: Path, files: Sequence[Path], columns: Mapping[str, str], builder: PoolBuilder
) -> list[SourceTable]:
    """Read the tables in files, or the texts in a folder without tables.

    Raises: ImportFormatError [import-columns] if no file holds rows.
    """
    tables = [
        prepare_table(file, name, rows, columns, builder.add_note)
        for file in files
        for name, rows in read_tables(file, builder.add_note, builder.replaced)
        if rows
    ]
    if tables:
        return tables
    if files and not (path.is_dir() and any(path.rglob("*/*.txt"))):
        values = [parse_json(read_text(file), file) for file in files if file.suffix.lower() == ".json"]
        keys = list(dict.fromkeys(key for value in values if isinstance(value, dict) for key in value))
        raise unclear_columns_error(path, "no list of rows holds responses as text", keys)
    return [prepare_table(path, path.name, read_text_folder(path, builder.replaced), columns, builder.add_note)]


def _add_known_layout(
    table: SourceTable, builder: PoolBuilder, *, location_columns: Sequence[str], columns: Mapping[str, str]
) -> str:
    """Add the responses of a table with a known layout, and return a description of the columns."""
    all_columns = {**detect_known_layout(table.first_row), **columns}
    agent = " / ".join(str(table.flat_rows[0][column]) for column in location_columns) or table.name
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

    Raises: ImportFormatError [import-columns], [import-ids].
    """
    try:
        roles = find_roles(rows, location_columns=location_columns, given=columns)
    except UnclearColumnsError as error:
        names = list(dict.fromkeys(column for row in rows for column in row))
        raise unclear_columns_error(path, error.problem, names, error.options) from error

    item_columns = split_composite(columns.get("item", ""), roles.unused) or ()
    roles = replace(roles, unused=tuple(column for column in roles.unused if column not in item_columns))
    if columns.keys().isdisjoint({"item", "repeat"}) and not has_ordered_rows:
        roles = with_unique_items(roles, rows, location=str(path))
    roles = with_prompts(roles, rows, others)
    for row in rows:
        row.update({column: get_value(row, column) for column in roles.columns.values() if column not in row})
    return roles


def _make_agent_paths(roles: Roles) -> dict[str, ColumnPath]:
    """Return the path of each agent's column; a first key that all columns share is left out of the names."""
    columns = roles.agent_columns
    first_keys = {column.partition(".")[0] for column in columns if "." in column}
    is_nested = len(first_keys) == 1 and all("." in column for column in columns)
    start = len(f"{first_keys.pop()}.") if is_nested else 0
    return {column[start:]: ColumnPath((column,)) for column in columns}


def _make_item_ids(previous_pool: Pool | None, *, has_one_table: bool) -> Callable[[int, str], str]:
    """Return a function that generates the id of an item from its prompt.

    Ids are q001, q002, … for one table, and hashes of the prompts for several tables, which must agree. Prompts of
    `previous_pool` keep their ids.
    """
    items = () if previous_pool is None else previous_pool.items
    known_ids = {item.id for item in items}
    ids = {" ".join(item.prompt.split()): item.id for item in items if item.prompt}
    unused_ids = (id_ for n in count(1) if (id_ := f"q{n:03d}") not in known_ids)

    def get_id(_number: int, prompt: str) -> str:
        if prompt not in ids:
            digest = hashlib.sha256(prompt.encode()).hexdigest()
            ids[prompt] = next(unused_ids) if has_one_table else f"q-{digest[:8]}"
        return ids[prompt]

    return get_id


def _add_composites(tables: Sequence[SourceTable], columns: Mapping[str, str]) -> None:
    """Add the combined columns that the user named, such as `<file>+id`, to the rows."""
    for column in columns.values():
        for row in (row for table in tables for row in table.flat_rows):
            if names := split_composite(column, row):
                row[column] = get_value(row, " + ".join(names))


def _check_columns(path: Path, columns: Mapping[str, str], tables: Sequence[SourceTable]) -> None:
    """Raise ImportFormatError [import-columns] if no table has a column that the user named."""
    present = {column for table in tables for column in table.columns}
    for role, text in columns.items():
        for column in text.split(",") if role == "text" else [text]:
            if column not in present and (role, column) != ("repeat", ROW_ORDER):
                names = dict.fromkeys(name for table in tables for name in table.first_row)
                raise import_error(
                    path,
                    f"there is no column '{column}': the columns are {format_excerpt(', '.join(names))}. Set --column to one "
                    "of them.",
                    slug="import-columns",
                )


def _check_files_share_items(
    path: Path, pool: Pool, tables: Sequence[SourceTable], location_columns: Sequence[str]
) -> None:
    """Raise ImportFormatError [import-columns] if a file that is an agent shares no item with another agent.

    If no agents share an item at all, nothing is raised.
    """
    is_shared_item = pool.present.sum(axis=0) > 1
    has_shared_item = [bool((present & is_shared_item).any()) for present in pool.present]
    files = {str(table.rows[0][1].get(column)) for table in tables for column in location_columns}
    lone = [
        agent.id
        for agent, is_shared in zip(pool.agents, has_shared_item, strict=True)
        if agent.id in files and not is_shared
    ]
    if lone and any(has_shared_item):
        verb = "shares" if len(lone) == 1 else "share"
        raise unclear_columns_error(
            path, f"{', '.join(map(repr, lone[:3]))} {verb} no item with other agents", tables[0].columns
        )


def unclear_columns_error(
    path: Path, problem: str, columns: Sequence[str], options: Mapping[str, str] | None = None
) -> ImportFormatError:
    """Make the error for tables whose columns have unclear roles.

    Parameters
    ----------
    path : Path
        File or folder.
    problem : str
        What is unclear, without a full stop.
    columns : sequence of str
        Names of the columns; the message lists the first of them.
    options : mapping of str to str, optional
        Column by role that resolves the ambiguity; the message contains the command.

    Returns
    -------
    ImportFormatError
        [import-columns]
    """
    listed = ", ".join(name for name in columns if name not in (FOLDER, FILE))
    ellipsis = " …" if len(listed) > _MAX_LISTED else ""
    got = f": got the columns {listed[:_MAX_LISTED]}{ellipsis}" if listed else ""
    remedy = (
        "Name the columns: `youden import table` takes --column text=NAME --column item=NAME --column agent=NAME; its --help "
        "lists the formats of tools."
    )
    if options:
        words = chain.from_iterable(("--column", f"{role}={column}") for role, column in options.items())
        remedy = f"Name the columns: `{format_command(['youden', 'init', str(path), *words])}`."
    return import_error(path, f"{problem}{got}. {remedy}", slug="import-columns")


def describe_roles(roles: Roles, name: str) -> str:
    """Describe which column is used for what; `name` is the agent if neither columns nor files name agents."""
    locations = {FILE: "a table each", FOLDER: "a folder each", FILE_NUMBER: "names of files"}
    if roles.agents:
        agents = " and ".join(locations.get(column, repr(column)) for column in roles.agents)
    elif roles.agent_columns:
        agents = "each of " + ", ".join(map(repr, roles.agent_columns))
    else:
        agents = repr(name)

    item, prompt = roles.columns.get("item"), roles.columns.get("prompt")
    if roles.has_generated_ids:
        items = "row" if prompt is None else f"{prompt!r} (ids made from it)"
    else:
        items = " and ".join(map(repr, str(item).split(" + "))) + (f", prompts in {prompt!r}" if prompt else "")

    parts = [f"agents by {agents}", f"items by {items}"]
    if "text" in roles.columns:
        parts.append(f"texts in {roles.columns['text']!r}")
    further = {role: roles.columns[role] for role in ("group", "empty", "repeat") if roles.columns.get(role)}
    parts += [f"{role} in {locations.get(column, repr(column))}" for role, column in further.items()]
    return ", ".join(parts)
