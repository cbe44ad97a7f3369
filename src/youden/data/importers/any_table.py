"""Reads whatever people have: one table or several in CSV, TSV, Excel, JSON or Parquet, or a folder of texts for each agent; and
says what it took for what.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from youden.data.importers.foreign_files import (
    files_of,
    parse_json,
    parse_lines,
    read_text,
    suffixes,
    wrong,
)
from youden.data.importers.guessed_columns import NAMES, Guess, guess, joined, noun_of, plain_name, value
from youden.data.importers.loose_columns import NOUNS, ROWS, ColumnPath, Columns, known_columns
from youden.data.importers.loose_table import table_rows
from youden.data.importers.pool_joiner import SECOND_RESPONSE, ImportedPool, ItemsByPrompt, Joiner
from youden.data.importers.restarting_ids import composite_columns, with_unique_items
from youden.data.importers.spreadsheets import Rows, Say, excel_rows, fill_down, separated_rows
from youden.data.importers.tool_exports import table_of_columns
from youden.data.pools.spool import shown
from youden.errors import ImportFormatError
from youden.nouns import Json, Pool
from youden.text.replacements import Replacements
from youden.text.sentences import counted

PLAIN = (".csv", ".tsv", ".jsonl", ".parquet")
SEPARATED = (".csv", ".tsv", ".tab")
EXCEL = (".xlsx", ".xlsm")
ENDINGS = (*SEPARATED, *EXCEL, ".json", ".jsonl", ".ndjson", ".parquet")
_TEXTS = (".txt", ".md")
_DEEP = 3
_HEAD = 10_000
_FILE = "\0file"
"""Key of a row for the file it is from."""


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
            return read_any(*paths, told={**columns, **({} if unique.made else {"item": unique.places["item"]})})
    return replace(imported, taken=f"agents by {said['agent']!r}" if said.keys() - columns.keys() else "")


def _with_unique_items(files: Sequence[Path], said: Mapping[str, str]) -> Guess | None:
    """Columns of tables that are read word for word, if item ids restart; else None. Raises: ImportFormatError [import-ids]."""
    rows = [{**_flat(row), _FILE: str(file)} for file in files for _, row in table_rows(file)]
    named = {noun: noun for noun in NOUNS if noun in rows[0]} | dict(said)
    places = {noun: column for noun, column in named.items() if noun in ("item", "text", "prompt", "repeat")}
    unused = tuple(name for name in rows[0] if name not in (*named.values(), _FILE))
    found = Guess(places, (named.get("agent", _FILE),), wide=(), made=False, unused=unused)
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
    if any(composite_columns(column, _flat(row)) for column in said.values()):
        return False
    named |= (row.keys() | said.keys()) & set(NOUNS)
    if "text" not in named or not named & {"item", "prompt"}:
        return any("[]" in path for path in said.values())
    if "agent" not in named and len(files) == 1 and row.keys() - set(NOUNS) and "," not in said.get("text", ""):
        own = {noun: noun for noun in NOUNS if noun in row} | said
        found = guess([_flat(row), *(_flat(one) for _, one in rows)], alone=True, told=own)
        if found is not None and len(found.agents) == 1:
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

    Raises: ImportFormatError naming file and place: [import-columns] where no column can be the text or the agent.
    """
    path = paths[0]
    joiner = Joiner(path.stem, merges=True)
    if _holds_texts(path):
        tables = [(path.name, _text_rows(path, joiner.replaced))]
    else:
        files = _files(paths)
        names = suffixes([file.with_suffix("") for file in files])
        tables = [table for file, name in zip(files, names, strict=True) for table in _tables(file, name, joiner)]
    alone = len(tables) == 1
    items = ItemsByPrompt(_ids(known, alone=alone))
    taken: dict[str, None] = {}
    for name, rows in tables:
        columns, said = _columns(path, name, rows, items=items, alone=alone, say=joiner.note, told=told or {})
        taken.setdefault(said)
        for place, row in rows:
            columns.add(row, joiner, place=place)
    found = joiner.pool()
    n_rows = sum(len(rows) for _, rows in tables)
    files_said = counted(n_rows, "row") if alone else f"{counted(n_rows, 'row')} of {counted(len(tables), 'table')}"
    return replace(found, taken=f"{files_said}: {'; '.join(taken)}")


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


def _tables(file: Path, name: str, joiner: Joiner) -> Iterator[tuple[str, Rows]]:
    ending = file.suffix.lower()
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
    """Of a list of objects, of columns of one length, or of answers by agent and item; also of lines of JSON."""
    text = read_text(file, replaced)
    try:
        found = parse_json(text, file, replaced)
    except ImportFormatError:
        return list(map(_row, parse_lines(text, file, replaced)))
    return [(f"{file}, row {number}", row) for number, row in enumerate(_objects(found), 1)]


def _objects(found: Json) -> Iterator[dict[str, Json]]:
    if isinstance(found, list):
        yield from (row for row in found if isinstance(row, dict))
        return
    if not isinstance(found, dict):
        return
    if (table := table_of_columns(found)) is not None:
        yield from table
        return
    lists = {key: said for key, said in found.items() if isinstance(said, list)}
    maps = {key: said for key, said in found.items() if isinstance(said, dict)}
    rows = {key: said for key, said in lists.items() if said and all(isinstance(one, dict) for one in said)}
    if len(rows) == 1 or (rows and any(plain_name(key) in ("rows", "data", "results", "records") for key in rows)):
        yield from _objects(rows.get("rows") or rows.get("data") or rows.get("results") or next(iter(rows.values())))
    elif rows:
        yield from ({"agent": key, **row} for key, said in rows.items() for row in said if isinstance(row, dict))
    elif lists:
        longest = max(map(len, lists.values()))
        yield from ({key: said[at] for key, said in lists.items() if at < len(said)} for at in range(longest))
    elif any(noun_of(key) in NAMES for key in maps):  # as pandas writes columns
        keys = dict.fromkeys(key for said in maps.values() for key in said)
        yield from ({name: said.get(key) for name, said in maps.items()} for key in keys)
    else:
        for agent, said in maps.items():
            yield from ({"agent": agent, "item": item, "text": text} for item, text in said.items())


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
        if noun_of(agent) == "prompt" or noun_of(agent.removesuffix("s")) == "prompt":
            prompts[key] = text.strip()
        else:
            rows.append((str(file), {"agent": agent, "item": key, "text": text if text.strip() else None}))
    return [(place, {**row, "prompt": prompts.get(str(row["item"]))}) for place, row in rows]


def _columns(
    path: Path, name: str, rows: Rows, *, items: ItemsByPrompt, alone: bool, say: Say, told: Mapping[str, str]
) -> tuple[Columns, str]:
    """Which columns of one table are what, and that in words. Raises: ImportFormatError [import-columns]."""
    if not rows:
        raise wrong(path, f"{name!r} has no rows. Give one row for each response.", slug="import-empty")
    for column in list(rows[0][1]):
        if noun_of(column) in ("agent", "item", "prompt"):
            fill_down(rows, column, say)
    nested = known_columns(rows[0][1]) if "text" not in told else {}
    flat = [_flat(row) for _, row in rows]
    by_rows = told.get("repeat") == ROWS and not any(ROWS in row for row in flat)
    told = {noun: column for noun, column in told.items() if not (by_rows and noun == "repeat")}
    for noun, said in told.items():
        _find(path, noun, said.split(",") if noun == "text" else [said], rows, flat)
    found = None if "text" in nested else guess(flat, alone=alone, told=told)
    if found is None and "text" not in nested:
        raise wrong(
            path,
            f"no column could be the response; it has {', '.join(map(repr, rows[0][1]))[:200]}. Call one `response`, and the "
            "one that says whose it is `model`.",
            slug="import-columns",
        )
    if found is None:
        named = nested | told
        said = ", ".join(f"{column!r} for {noun}s" for noun, column in named.items())
        return Columns.of(path, rows[0][1], columns=named, agent=name, joiner=Joiner(name)), said
    parts = composite_columns(told.get("item", ""), found.unused) or ()
    found = replace(found, unused=tuple(name for name in found.unused if name not in parts))
    if told.keys().isdisjoint({"item", "repeat"}) and not by_rows:
        found = with_unique_items(found, flat, place=str(path))
    for row, (_, whole) in zip(flat, rows, strict=True):
        for said in found.places.values():
            if said not in whole and ("." not in said or "+" in said):
                whole[said] = value(row, said)
    present = dict.fromkeys(key for _, row in rows for key in row)
    places = {noun: ColumnPath.of(column, present) or ColumnPath((column,)) for noun, column in found.places.items()}
    wide = {column: ColumnPath.of(column, present) or ColumnPath((column,)) for column in found.wide}
    columns = Columns(places, wide, name, items, made=found.made, loosely=True, by_rows=by_rows)
    return columns, _said(found, name, alone=alone)


def _find(path: Path, noun: str, columns: Sequence[str], rows: Rows, flat: Sequence[dict[str, Json]]) -> None:
    """Puts what stands in columns that are named by a path where columns are. Raises: ImportFormatError [import-columns]."""
    if noun not in NOUNS:
        raise wrong(path, f"'{noun}' is none of {', '.join(NOUNS)}. Correct --column.", slug="import-columns")
    present = dict.fromkeys(key for leaves in flat for key in leaves)
    for said in columns:
        if names := composite_columns(said, present):
            for leaves in flat:
                leaves[said] = value(leaves, joined(names))
        elif said not in present:
            if (way := ColumnPath.of(said, rows[0][1])) is None:
                raise wrong(
                    path,
                    f"there is no column '{said}'; it has {shown(', '.join(rows[0][1]))}. Correct --column.",
                    slug="import-columns",
                )
            for leaves, (_, row) in zip(flat, rows, strict=True):
                leaves[said] = way.one(row)


def _flat(row: Mapping[str, Json], before: str = "", depth: int = _DEEP) -> dict[str, Json]:
    """Leaves of objects in a row, by the path to them."""
    found: dict[str, Json] = {}
    for key, said in row.items():
        if isinstance(said, dict) and depth:
            found |= _flat(said, f"{before}{key}.", depth - 1)
        else:
            found[f"{before}{key}"] = said
    return found


def _said(found: Guess, name: str, *, alone: bool) -> str:
    agents = " and ".join(map(repr, found.agents)) or (
        "each of " + ", ".join(map(repr, found.wide)) if found.wide else ""
    )
    if not agents:
        agents = repr(name) if alone else "a table each"
    parts = [f"agents by {agents}"]
    item, prompt = found.places.get("item"), found.places.get("prompt")
    if found.made:
        parts.append("items by row" if prompt is None else f"items by {prompt!r} (ids made from it)")
    else:
        parts.append(
            f"items by {' and '.join(map(repr, str(item).split(' + ')))}"
            + (f", prompts in {prompt!r}" if prompt else "")
        )
    if "text" in found.places:
        parts.append(f"texts in {found.places['text']!r}")
    parts += [f"{noun} in {found.places[noun]!r}" for noun in ("group", "empty", "repeat") if noun in found.places]
    if found.unused:
        parts.append(f"not used: {', '.join(map(repr, found.unused[:6]))}" + " …" * (len(found.unused) > 6))
    return ", ".join(parts)
