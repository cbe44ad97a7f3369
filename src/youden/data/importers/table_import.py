"""Makes a pool of tables: one or several in CSV, TSV, Excel, JSON or Parquet, or a folder of texts for each agent.

Columns that are named, by options or by the names of a pool's columns, are taken as they are; the roles of all others are
found by `column_roles`, and reported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from youden.data.importers.column_names import ROLES
from youden.data.importers.column_roles import Roles, UnclearColumnsError, find_roles
from youden.data.importers.column_values import FILE, FILE_NUMBER, FOLDER, value
from youden.data.importers.foreign_files import parse_json, read_text, suffixes, wrong
from youden.data.importers.nested_rows import flatten
from youden.data.importers.pool_joiner import SECOND_RESPONSE, ImportedPool, ItemsByPrompt, Joiner
from youden.data.importers.related_tables import (
    SourceTable,
    add_places,
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
    known_columns,
    named_paths,
)
from youden.data.importers.restarting_ids import composite_columns, with_unique_items
from youden.data.importers.table_files import PLAIN, is_pool_header, read_tables, table_files, table_rows, text_rows
from youden.data.pools.spool import shown
from youden.errors import ImportFormatError
from youden.text.printable import typed
from youden.text.sentences import counted
from youden.types import Pool
from youden.types.pool import Json

_MAX_LISTED = 250
"""Most characters of columns that an error lists."""


def read_table(
    paths: Sequence[Path], /, *, columns: Mapping[str, str], exact: bool = True, known: Pool | None = None
) -> ImportedPool:
    """Make a pool of files, of folders of tables that belong together, or of a folder with texts for each agent.

    Parameters
    ----------
    paths : sequence of Path
    columns : mapping
        Role to column, to a path inside a column, or for texts to several columns with commas, one per agent.
    exact : bool, default True
        Whether the values of tables whose columns are named are taken as they are: an empty cell is an empty response, a number
        no text, and ids keep the spaces around them.
    known : Pool, optional
        Pool that was made of the same place before; its prompts keep their item ids.

    Returns
    -------
    ImportedPool
        With `taken`, which column was used for what.

    Raises
    ------
    ImportFormatError
        Naming file and place; [import-columns] if the role of a column is not clear.
    """
    columns = dict(columns)
    files = table_files(paths)
    check_roles(paths[0], columns)
    if files and exact and _is_named(files, columns):
        imported = _read_named(paths, files, columns)
        if SECOND_RESPONSE not in imported.left_out or "item" in columns:
            return imported
        item = _unique_item(files, columns)
        if item is None:
            return imported
        columns |= item
    return _read_others(paths, files, columns, known)


def _is_named(files: Sequence[Path], columns: Mapping[str, str]) -> bool:
    """Return whether options, the header of the first file or its known layout name the columns of texts and items."""
    has_lists = any("[]" in path for path in columns.values())
    if any(file.is_file() and file.suffix.lower() not in PLAIN for file in files):
        return has_lists
    _, row = next(table_rows(files[0]), ("", {}))
    composite = (composite_columns(name, flatten(row)) for name in columns.values())
    if any(FILE in name or FOLDER in name for name in columns.values()) or any(composite):
        return False
    named = (known_columns(row).keys() if "text" not in row.keys() | columns.keys() else set()) | row.keys()
    return has_lists or is_pool_header(named | columns.keys())


def _read_named(paths: Sequence[Path], files: Sequence[Path], columns: Mapping[str, str]) -> ImportedPool:
    """Read tables whose columns are named, row by row. Without a column for the agent, each file is an agent."""
    joiner = Joiner(paths[0].stem)
    found = ""
    for file, name in zip(files, suffixes([file.with_suffix("") for file in files]), strict=True):
        reader: ResponseReader | None = None
        for place, row in table_rows(file, joiner.replaced, joiner.note):
            if reader is None:
                given = {role: role for role in ROLES if role in row} | dict(columns)
                given = given if "text" in given else known_columns(row) | given
                if len(files) == 1 and "agent" not in given and "," not in given.get("text", ""):
                    found = _agent_column(file, given)
                    given |= {"agent": found} if found else {}
                reader = _named_reader(file, row, given, agent=name, joiner=joiner)
            reader.add(row, place)
    return replace(joiner.pool(), taken=f"agents by {found!r}" if found else "")


def _named_reader(
    file: Path, row: Mapping[str, Json], columns: dict[str, str], *, agent: str, joiner: Joiner
) -> ResponseReader:
    """Make the reader of a table whose columns are named; a note lists the others."""
    repeats = [name for name in REPEATS if name in row and name not in columns.values()]
    if "repeat" not in columns and repeats:
        columns["repeat"] = repeats[0]
        joiner.note(f"{file}: the column {repeats[0]} tells repeats apart")
    by_rows = columns.get("repeat") == ROW_ORDER and ROW_ORDER not in row
    if by_rows:
        del columns["repeat"]
    paths, wide = named_paths(file, row, columns)
    used = {steps[0] for path in (*paths.values(), *wide.values()) for steps in (path.steps, *path.together)}
    if unused := [name for name in row if name not in used]:
        joiner.note(f"{file}: columns not used: {', '.join(unused)}")
    return ResponseReader(paths, wide, agent, joiner, by_rows=by_rows)


def _agent_column(file: Path, columns: Mapping[str, str]) -> str:
    """Return the column of a single table that names the agents; empty if none does."""
    rows = [flatten(row) for _, row in table_rows(file)]
    if not rows[0].keys() - {*ROLES}:
        return ""
    try:
        agents = find_roles(rows, told=columns).agents
    except UnclearColumnsError:
        return ""
    return agents[0] if len(agents) == 1 else ""


def _unique_item(files: Sequence[Path], columns: Mapping[str, str]) -> dict[str, str] | None:
    """Return the columns that identify an item, if ids restart in tables whose columns are named; None if they do not.

    Raises: ImportFormatError [import-ids].
    """
    rows = [{**flatten(row), FILE: str(file)} for file in files for _, row in table_rows(file)]
    named = {role: role for role in ROLES if role in rows[0]} | dict(columns)
    places = {role: column for role, column in named.items() if role in ("item", "text", "prompt", "repeat")}
    unused = tuple(name for name in rows[0] if name not in (*named.values(), FILE))
    found = Roles(places, (named.get("agent", FILE),), wide=(), made=False, unused=unused)
    unique = with_unique_items(found, rows, place=str(files[0]))
    return None if unique is found else {} if unique.made else {"item": unique.columns["item"]}


def _read_others(
    paths: Sequence[Path], files: Sequence[Path], columns: Mapping[str, str], known: Pool | None
) -> ImportedPool:
    """Read tables, and find the roles of columns that are not named."""
    path = paths[0]
    joiner = Joiner(path.stem, merges=True)
    found = ((file, table) for file in files for table in read_tables(file, joiner.note, joiner.replaced))
    tables = [prepare_table(file, name, rows, columns, joiner.note) for file, (name, rows) in found if rows]
    if not tables and files and not (path.is_dir() and any(path.rglob("*/*.txt"))):
        values = [parse_json(read_text(file), file) for file in files if file.suffix.lower() == ".json"]
        keys = list(dict.fromkeys(key for one in values if isinstance(one, dict) for key in one))
        raise unknown_layout(path, "no list of rows holds responses as text", keys)
    if not tables:
        tables = [prepare_table(path, path.name, text_rows(path, joiner.replaced), columns, joiner.note)]
    tables, beside = split_by_responses(path, tables, columns)
    if beside:
        names = ", ".join(repr(table.file.name) for table in beside[:3]) + " …" * (len(beside) > 3)
        joiner.note(f"{counted(len(beside), 'table')} without responses not read ({names})")
    places = add_places(tables)
    _add_composites(tables, columns)
    _check_columns(path, columns, [*tables, *beside])
    items = ItemsByPrompt(_item_ids(known, alone=len(tables) == 1))
    by_layout: dict[str | None, list[SourceTable]] = {}
    for table in tables:
        by_layout.setdefault(table.layout(columns), []).append(table)
    taken: dict[str, None] = {}
    unused: dict[str, None] = {}
    question = None
    for alike in by_layout.values():
        if "text" not in columns and "text" in known_columns(alike[0].first_row):
            taken |= dict.fromkeys(_add_known(table, joiner, places=places, columns=columns) for table in alike)
            continue
        rows = [row for table in alike for row in table.flat_rows]
        by_rows = columns.get("repeat") == ROW_ORDER and not any(ROW_ORDER in row for row in rows)
        given = {role: column for role, column in columns.items() if not (by_rows and role == "repeat")}
        roles = _roles_of(path, rows, given, places=places, beside=beside, by_rows=by_rows)
        reader = ResponseReader(
            {role: ColumnPath((column,)) for role, column in roles.columns.items()},
            _agent_paths(roles),
            alike[0].name,
            joiner,
            items,
            is_made=roles.made,
            is_exact=False,
            by_rows=by_rows,
        )
        taken.setdefault(describe(roles, alike[0].name))
        unused |= dict.fromkeys(column for column in roles.unused if column not in (FOLDER, FILE))
        question = question or roles.columns.get("prompt")
        for place, row in chain.from_iterable(table.rows for table in alike):
            reader.add(row, place)
    imported = joiner.pool()
    _refuse_lone_files(path, imported.pool, tables, places)
    n_rows = sum(len(table.rows) for table in tables)
    counts = counted(n_rows, "row") + ("" if len(tables) == 1 else f" of {counted(len(tables), 'table')}")
    return replace(imported, taken=f"{counts}: {'; '.join(taken)}", question=question, unused=tuple(unused))


def _add_known(table: SourceTable, joiner: Joiner, *, places: Sequence[str], columns: Mapping[str, str]) -> str:
    """Add the responses of a table of a known layout; return which column was used for what."""
    named = {**known_columns(table.first_row), **columns}
    agent = " / ".join(str(table.flat_rows[0][place]) for place in places) or table.name
    reader = _named_reader(table.file, table.first_row, dict(named), agent=agent, joiner=joiner)
    for place, row in table.rows:
        reader.add(row, place)
    return ", ".join(f"{column!r} for {role}s" for role, column in named.items())


def _roles_of(
    path: Path,
    rows: Sequence[dict[str, Json]],
    columns: Mapping[str, str],
    *,
    places: tuple[str, ...],
    beside: Sequence[SourceTable],
    by_rows: bool,
) -> Roles:
    """Find the roles of the columns of tables of one layout, and add columns that are taken together to the rows.

    Raises: ImportFormatError [import-columns], [import-ids].
    """
    try:
        found = find_roles(rows, places=places, told=columns)
    except UnclearColumnsError as error:
        names = list(dict.fromkeys(column for row in rows for column in row))
        raise unknown_layout(path, error.problem, names, error.options) from error
    parts = composite_columns(columns.get("item", ""), found.unused) or ()
    found = replace(found, unused=tuple(column for column in found.unused if column not in parts))
    if columns.keys().isdisjoint({"item", "repeat"}) and not by_rows:
        found = with_unique_items(found, rows, place=str(path))
    found = with_prompts(found, rows, beside)
    for row in rows:
        row.update({column: value(row, column) for column in found.columns.values() if column not in row})
    return found


def _agent_paths(roles: Roles) -> dict[str, ColumnPath]:
    """Return the column of each agent by its name, without the key of the object that holds all of them."""
    outer = {column.partition(".")[0] for column in roles.wide if "." in column}
    is_nested = len(outer) == 1 and all("." in column for column in roles.wide)
    start = len(f"{outer.pop()}.") if is_nested else 0
    return {column[start:]: ColumnPath((column,)) for column in roles.wide}


def _item_ids(known: Pool | None, *, alone: bool) -> Callable[[int, str], str]:
    """Return a function that makes ids of prompts: q001, q002, …, or of the prompt's hash if several tables have to agree."""
    items = () if known is None else known.items
    ids = {" ".join(item.prompt.split()): item.id for item in items if item.prompt}
    free = (name for n in count(1) if (name := f"q{n:03d}") not in {item.id for item in items})

    def made(_number: int, prompt: str) -> str:
        if prompt not in ids:
            ids[prompt] = next(free) if alone else f"q-{hashlib.sha256(prompt.encode()).hexdigest()[:8]}"
        return ids[prompt]

    return made


def _add_composites(tables: Sequence[SourceTable], columns: Mapping[str, str]) -> None:
    """Add columns that options give as a folder or file together with others to the rows."""
    for column in columns.values():
        for row in (row for table in tables for row in table.flat_rows):
            if names := composite_columns(column, row):
                row[column] = value(row, " + ".join(names))


def _check_columns(path: Path, columns: Mapping[str, str], tables: Sequence[SourceTable]) -> None:
    """Raises: ImportFormatError [import-columns] if no table has a column that is named."""
    present = {column for table in tables for column in table.columns}
    for role, given in columns.items():
        for column in given.split(",") if role == "text" else [given]:
            if column not in present and (role, column) != ("repeat", ROW_ORDER):
                names = dict.fromkeys(name for table in tables for name in table.first_row)
                problem = f"there is no column '{column}'; it has {shown(', '.join(names))}. Correct --column."
                raise wrong(path, problem, slug="import-columns")


def _refuse_lone_files(path: Path, pool: Pool, tables: Sequence[SourceTable], places: Sequence[str]) -> None:
    """Refuse a file that is an agent and shares no item with another agent, while others do.

    Raises: ImportFormatError [import-columns].
    """
    is_shared = pool.present.sum(axis=0) > 1
    shares = [bool((present & is_shared).any()) for present in pool.present]
    files = {str(table.rows[0][1].get(column)) for table in tables for column in places}
    lone = [agent.id for agent, shared in zip(pool.agents, shares, strict=True) if agent.id in files and not shared]
    if lone and any(shares):
        verb = "shares" if len(lone) == 1 else "share"
        raise unknown_layout(
            path, f"{', '.join(map(repr, lone[:3]))} {verb} no item with other agents", tables[0].columns
        )


def unknown_layout(
    path: Path, problem: str, columns: Sequence[str], options: Mapping[str, str] | None = None
) -> ImportFormatError:
    """Make the error for tables whose columns are unclear; it names the options that resolve the case."""
    listed = ", ".join(name for name in columns if name not in (FOLDER, FILE))
    got = f": got the columns {listed[:_MAX_LISTED]}{' …' * (len(listed) > _MAX_LISTED)}" if listed else ""
    remedy = (
        "Name the columns: `youden import table` takes --column text=NAME --column item=NAME --column agent=NAME; its --help "
        "lists the formats of tools."
    )
    if options:
        words = (("--column", f"{role}={column}") for role, column in options.items())
        remedy = f"Name the columns: `{typed(['youden', 'init', str(path), *chain.from_iterable(words)])}`."
    return wrong(path, f"{problem}{got}. {remedy}", slug="import-columns")


def describe(found: Roles, name: str) -> str:
    """Return in words which column was used for what."""
    places = {FILE: "a table each", FOLDER: "a folder each", FILE_NUMBER: "names of files"}
    agents = " and ".join(places.get(column, repr(column)) for column in found.agents)
    if not agents:
        agents = "each of " + ", ".join(map(repr, found.wide)) if found.wide else repr(name)
    item, prompt = found.columns.get("item"), found.columns.get("prompt")
    if found.made:
        items = "row" if prompt is None else f"{prompt!r} (ids made from it)"
    else:
        items = " and ".join(map(repr, str(item).split(" + "))) + (f", prompts in {prompt!r}" if prompt else "")
    parts = [f"agents by {agents}", f"items by {items}"]
    parts += [f"texts in {found.columns['text']!r}"] if "text" in found.columns else []
    for role in ("group", "empty", "repeat"):
        if column := found.columns.get(role):
            parts.append(f"{role} in {places.get(column, repr(column))}")
    return ", ".join(parts)
