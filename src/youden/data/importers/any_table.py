"""Reads whatever people have: one table or several in CSV, TSV, Excel, JSON or Parquet, or a folder of texts for each agent; and
says what it took for what.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

from youden.data.importers.column_names import role_of_name
from youden.data.importers.column_roles import FILE, FILE_NUMBER, FOLDER, Roles, UnclearColumnsError, find_roles, value
from youden.data.importers.foreign_files import files_of, parse_json, parse_lines, read_text, suffixes, wrong
from youden.data.importers.foreign_tables import (
    ForeignTable,
    add_places,
    add_told_places,
    check_columns,
    foreign_table,
    refuse_lone_files,
    split_by_responses,
    unknown_layout,
    with_prompts,
)
from youden.data.importers.loose_columns import NOUNS, ROWS, ColumnPath, Columns, known_columns
from youden.data.importers.loose_table import table_rows
from youden.data.importers.nested_rows import flatten, rows_of_json
from youden.data.importers.pool_joiner import SECOND_RESPONSE, ImportedPool, ItemsByPrompt, Joiner
from youden.data.importers.restarting_ids import composite_columns, with_unique_items
from youden.data.importers.spreadsheets import EXCEL, SEPARATED, SPREADSHEETS, Rows, excel_rows, separated_rows
from youden.errors import ImportFormatError
from youden.text.replacements import Replacements
from youden.text.sentences import counted
from youden.types import Pool
from youden.types.pool import Json

PLAIN = (".csv", ".tsv", ".jsonl", ".parquet")
ENDINGS = (*SPREADSHEETS, ".json", ".jsonl", ".ndjson", ".parquet")
_TEXTS = (".txt", ".md")
_HEAD = 10_000


def read_table(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Rows with an item and a text, or several (`loose_columns.py`), word for word, where columns say what they are: by what
    `columns` names, by the nouns' own names, or as a known layout. What is not said is guessed, as `read_any` does.

    Of several files without a column for the agent, each is an agent, called by its name, and by its folder where two are alike.

    Raises: ImportFormatError naming file and line (or row).
    """
    said = dict(columns)
    files = [] if all(map(_holds_texts, paths)) else _files(paths)
    if not files or not _says_what_is_what(files, said):
        return read_any(*paths, told=columns)
    joiner = Joiner(paths[0].stem)
    for file, name in zip(files, suffixes([file.with_suffix("") for file in files]), strict=True):
        of_file: Columns | None = None
        for place, row in table_rows(file, joiner.replaced):
            of_file = of_file or Columns.of(file, row, columns=said, agent=name, joiner=joiner)
            of_file.add(row, joiner, place=place)
    imported = joiner.pool()
    if SECOND_RESPONSE in imported.left_out and "item" not in columns:
        unique = _with_unique_items(files, said)
        if unique is not None:
            return read_any(*paths, told={**columns, **({} if unique.made else {"item": unique.columns["item"]})})
    return replace(imported, taken=f"agents by {said['agent']!r}" if said.keys() - columns.keys() else "")


def _with_unique_items(files: Sequence[Path], said: Mapping[str, str]) -> Roles | None:
    """Columns of tables that are read word for word, if item ids restart; else None. Raises: ImportFormatError [import-ids]."""
    rows = [{**flatten(row), FILE: str(file)} for file in files for _, row in table_rows(file)]
    named = {noun: noun for noun in NOUNS if noun in rows[0]} | dict(said)
    places = {noun: column for noun, column in named.items() if noun in ("item", "text", "prompt", "repeat")}
    unused = tuple(name for name in rows[0] if name not in (*named.values(), FILE))
    found = Roles(places, (named.get("agent", FILE),), wide=(), made=False, unused=unused)
    unique = with_unique_items(found, rows, place=str(files[0]))
    return None if unique is found else unique


def _says_what_is_what(files: Sequence[Path], said: dict[str, str]) -> bool:
    """Whether the columns of tables that are read word for word say what they are; the agent of a single file is guessed, and
    put into `said`."""
    if any(file.suffix.lower() not in PLAIN for file in files):
        return any("[]" in path for path in said.values())
    rows, row = table_rows(files[0]), dict[str, Json]()
    try:
        row = dict(next(rows, ("", row))[1])
        named = known_columns(row).keys() if "text" not in row.keys() | said.keys() else set()
    except (
        ImportFormatError
    ):  # what is wrong with a file whose header is right is said better by who reads it word for word
        with files[0].open("rb") as file:
            named = set(re.findall(r"\w+", file.readline(_HEAD).decode("ascii", "ignore")))
    if any(FILE in name or FOLDER in name or composite_columns(name, flatten(row)) for name in said.values()):
        return False
    named |= (row.keys() | said.keys()) & set(NOUNS)
    if "text" not in named or not named & {"item", "prompt"}:
        return any("[]" in path for path in said.values())
    if "agent" not in named and len(files) == 1 and row.keys() - set(NOUNS) and "," not in said.get("text", ""):
        own = {noun: noun for noun in NOUNS if noun in row} | said
        with suppress(UnclearColumnsError):
            found = find_roles([flatten(row), *(flatten(one) for _, one in rows)], told=own)
            if len(found.agents) == 1:
                said["agent"] = found.agents[0]
    return True


def _files(paths: Sequence[Path]) -> list[Path]:
    return files_of(paths, [f"*{ending}" for ending in ENDINGS], what=f"a table ({', '.join(ENDINGS)})")


def _holds_texts(path: Path) -> bool:
    return path.is_dir() and not any(file.suffix.lower() in ENDINGS for file in path.rglob("*"))


def read_any(*paths: Path, told: Mapping[str, str] | None = None, known: Pool | None = None) -> ImportedPool:
    """The pool in a file, or in several or a folder of tables that belong together, or of a folder with texts for each agent.

    told: noun → column, where it is known. known: what the same place held before, whose prompts keep the ids that were made for
    them.

    Raises: ImportFormatError naming file and place: [import-columns] where no column can be the text, the agent or the item.
    """
    path, told = paths[0], told or {}
    joiner = Joiner(path.stem, merges=True)
    if _holds_texts(path):
        tables = [foreign_table(path, path.name, _text_rows(path, joiner.replaced), told, joiner.note)]
    else:
        files = _files(paths)
        found = ((file, table) for file in files for table in _tables(file, joiner))
        tables = [foreign_table(file, name, rows, told, joiner.note) for file, (name, rows) in found if rows]
        if not tables and path.is_dir() and any(file.suffix.lower() in _TEXTS for file in path.rglob("*/*")):
            tables = [foreign_table(path, path.name, _text_rows(path, joiner.replaced), told, joiner.note)]
        if not tables:
            raise unknown_layout(path, "no list of rows holds responses as text", _keys(files))
    tables, beside = split_by_responses(path, tables, told)
    if beside:
        names = ", ".join(repr(table.file.name) for table in beside[:3]) + " …" * (len(beside) > 3)
        joiner.note(f"{counted(len(beside), 'table')} without responses not read ({names})")
    places = add_places(tables)
    add_told_places(tables, told)
    check_columns(path, told, [*tables, *beside])
    items = ItemsByPrompt(_ids(known, alone=len(tables) == 1))
    by_layout: dict[str | None, list[ForeignTable]] = {}
    for table in tables:
        by_layout.setdefault(table.text_column(told), []).append(table)
    taken: dict[str, None] = {}
    for alike in by_layout.values():
        if "text" not in told and "text" in known_columns(alike[0].first_row):
            taken |= dict.fromkeys(_add_known(table, joiner, places=places, told=told) for table in alike)
            continue
        rows = [row for table in alike for row in table.flat_rows]
        columns, described = _columns(path, alike[0].name, rows, items=items, places=places, told=told, beside=beside)
        taken.setdefault(described)
        for table in alike:
            for place, row in table.rows:
                columns.add(row, joiner, place=place)
    imported = joiner.pool()
    refuse_lone_files(path, imported.pool, tables, places)
    n_rows = sum(len(table.rows) for table in tables)
    counts = counted(n_rows, "row") + ("" if len(tables) == 1 else f" of {counted(len(tables), 'table')}")
    return replace(imported, taken=f"{counts}: {'; '.join(taken)}")


def _keys(files: Sequence[Path]) -> list[str]:
    """The keys of JSON files that hold an object."""
    values = [parse_json(read_text(file), file) for file in files if file.suffix.lower() == ".json"]
    return list(dict.fromkeys(key for value in values if isinstance(value, dict) for key in value))


def _add_known(table: ForeignTable, joiner: Joiner, *, places: Sequence[str], told: Mapping[str, str]) -> str:
    """Add the responses of a table of a known layout; return in words what was taken for what."""
    named = {**known_columns(table.first_row), **told}
    agent = " / ".join(str(table.flat_rows[0][place]) for place in places) or table.name
    columns = Columns.of(table.file, table.first_row, columns=named, agent=agent, joiner=Joiner(table.name))
    for place, row in table.rows:
        columns.add(row, joiner, place=place)
    return ", ".join(f"{column!r} for {noun}s" for noun, column in named.items())


def _columns(
    path: Path,
    name: str,
    rows: Sequence[dict[str, Json]],
    *,
    items: ItemsByPrompt,
    places: tuple[str, ...],
    told: Mapping[str, str],
    beside: Sequence[ForeignTable],
) -> tuple[Columns, str]:
    """Which columns of tables of one layout are what, and that in words.

    Raises: ImportFormatError [import-columns], [import-ids].
    """
    by_rows = told.get("repeat") == ROWS and not any(ROWS in row for row in rows)
    told = {noun: column for noun, column in told.items() if not (by_rows and noun == "repeat")}
    try:
        found = find_roles(rows, places=places, told=told)
    except UnclearColumnsError as error:
        raise unknown_layout(
            path, error.problem, list(dict.fromkeys(column for row in rows for column in row)), error.options
        ) from error
    parts = composite_columns(told.get("item", ""), found.unused) or ()
    found = replace(found, unused=tuple(column for column in found.unused if column not in parts))
    if told.keys().isdisjoint({"item", "repeat"}) and not by_rows:
        found = with_unique_items(found, rows, place=str(path))
    found = with_prompts(found, rows, beside)
    for row in rows:
        row.update({column: value(row, column) for column in found.columns.values() if column not in row})
    ways = {noun: ColumnPath((column,)) for noun, column in found.columns.items()}
    shared = {column.partition(".")[0] for column in found.wide if "." in column}
    start = len(f"{shared.pop()}.") if len(shared) == 1 and all("." in column for column in found.wide) else 0
    wide = {column[start:]: ColumnPath((column,)) for column in found.wide}  # agents that are keys of one object
    columns = Columns(ways, wide, name, items, made=found.made, loosely=True, by_rows=by_rows)
    return columns, _said(found, name)


def _ids(known: Pool | None, *, alone: bool) -> Callable[[int, str], str]:
    """Makes ids of prompts: q001, q002, …, or where several tables have to agree, of the prompt's hash."""
    items = () if known is None else known.items
    ids = {" ".join(item.prompt.split()): item.id for item in items if item.prompt}
    free = (name for n in count(1) if (name := f"q{n:03d}") not in {item.id for item in items})

    def made(_number: int, prompt: str) -> str:
        if prompt not in ids:
            ids[prompt] = next(free) if alone else f"q-{hashlib.sha256(prompt.encode()).hexdigest()[:8]}"
        return ids[prompt]

    return made


def _tables(file: Path, joiner: Joiner) -> Iterator[tuple[str, Rows]]:
    ending, name = file.suffix.lower(), file.stem
    if ending in EXCEL:
        sheets = list(excel_rows(file, joiner.note))
        yield from sheets if len(sheets) > 1 else [(name, rows) for _, rows in sheets]
    elif ending in SEPARATED:
        yield name, separated_rows(file, joiner.note, joiner.replaced)
    elif ending == ".json":
        yield name, _json_rows(file, joiner.replaced)
    else:
        yield name, list(map(_row, table_rows(file, joiner.replaced)))


def _row(placed: tuple[str, Mapping[str, Json]]) -> tuple[str, dict[str, Json]]:
    return placed[0], dict(placed[1])


def _json_rows(file: Path, replaced: Replacements) -> Rows:
    """Rows of one JSON value, or of lines of JSON."""
    text = read_text(file, replaced)
    try:
        found = parse_json(text, file, replaced)
    except ImportFormatError:
        return list(map(_row, parse_lines(text, file, replaced)))
    return [(f"{file}, row {number}", row) for number, row in enumerate(rows_of_json(found), 1)]


def _text_rows(folder: Path, replaced: Replacements) -> Rows:
    """A folder's texts: agent/item.txt; those of a folder `prompts` or `questions` are the items' prompts."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix.lower() in _TEXTS)
    deep = [file for file in files if file.parent != folder]
    if not deep:
        raise wrong(
            folder,
            f"there is neither a table ({', '.join(ENDINGS)}) nor a folder of texts (.txt, .md) for each agent. "
            "Lay texts as AGENT/ITEM.txt. What an eval tool logged is brought by `youden import`: its --help names the tools.",
            slug="import-empty",
        )
    prompts: dict[str, str] = {}
    rows: Rows = []
    for file in deep:
        agent, item = file.relative_to(folder).parts[0], file.relative_to(folder / file.relative_to(folder).parts[0])
        key = item.with_suffix("").as_posix()
        text = read_text(file, replaced)
        if role_of_name(agent) == "prompt" or role_of_name(agent.removesuffix("s")) == "prompt":
            prompts[key] = text.strip()
        else:
            rows.append((str(file), {"agent": agent, "item": key, "text": text if text.strip() else None}))
    return [(place, {**row, "prompt": prompts.get(str(row["item"]))}) for place, row in rows]


def _said(found: Roles, name: str) -> str:
    places = {FILE: "a table each", FOLDER: "a folder each"}
    agents = " and ".join(places.get(column, repr(column)) for column in found.agents)
    if not agents:
        agents = "each of " + ", ".join(map(repr, found.wide)) if found.wide else repr(name)
    parts = [f"agents by {agents}"]
    item, prompt = found.columns.get("item"), found.columns.get("prompt")
    if found.made:
        parts.append("items by row" if prompt is None else f"items by {prompt!r} (ids made from it)")
    else:
        parts.append(
            f"items by {' and '.join(map(repr, str(item).split(' + ')))}"
            + (f", prompts in {prompt!r}" if prompt else "")
        )
    if "text" in found.columns:
        parts.append(f"texts in {found.columns['text']!r}")
    places[FILE_NUMBER] = "names of files"
    parts += [
        f"{noun} in {places.get(column, repr(column))}"
        for noun in ("group", "empty", "repeat")
        if (column := found.columns.get(noun))
    ]
    if unused := [column for column in found.unused if column not in (FOLDER, FILE)]:
        parts.append(f"not used: {', '.join(map(repr, unused[:6]))}" + " …" * (len(unused) > 6))
    return ", ".join(parts)
