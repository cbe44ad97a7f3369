"""Reads whatever people have: one table or several in CSV, TSV, Excel, JSON or Parquet, or a folder of texts for each agent; and
says what it took for what.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

import orjson

from youden.data.importers.foreign_files import files_of, read_lines, read_text, suffixes, wrong
from youden.data.importers.guessed_columns import NAMES, Guess, guess, noun_of, plain_name, value
from youden.data.importers.loose_columns import ColumnPath, Columns, known_columns
from youden.data.importers.loose_table import table_rows
from youden.data.importers.pool_joiner import ImportedPool, ItemsByPrompt, Joiner
from youden.data.importers.spreadsheets import Rows, Say, excel_rows, fill_down, separated_rows
from youden.data.importers.tool_exports import table_of_columns
from youden.nouns import Json, Pool

SEPARATED = (".csv", ".tsv", ".tab")
EXCEL = (".xlsx", ".xlsm")
ENDINGS = (*SEPARATED, *EXCEL, ".json", ".jsonl", ".ndjson", ".parquet")
_TEXTS = (".txt", ".md")
_DEEP = 3


def read_any(path: Path, *, known: Pool | None = None) -> ImportedPool:
    """The pool in a file, or in a folder of tables that belong together, or of a folder with texts for each agent.

    known: what the same place held before, whose prompts keep the ids that were made for them.

    Raises: ImportFormatError naming file and place: [import-columns] where no column can be the text or the agent.
    """
    joiner = Joiner(path.stem, merges=True)
    if path.is_dir() and not any(file.suffix.lower() in ENDINGS for file in path.rglob("*")):
        tables = [(path.name, _text_rows(path))]
    else:
        files = files_of([path], [f"*{ending}" for ending in ENDINGS], what=f"a table ({', '.join(ENDINGS)})")
        names = suffixes([file.with_suffix("") for file in files])
        tables = [table for file, name in zip(files, names, strict=True) for table in _tables(file, name, joiner.note)]
    alone = len(tables) == 1
    items = ItemsByPrompt(_ids(known, alone=alone))
    taken: dict[str, None] = {}
    for name, rows in tables:
        columns, said = _columns(path, name, rows, items=items, alone=alone, say=joiner.note)
        taken.setdefault(said)
        for place, row in rows:
            columns.add(row, joiner, place=place)
    found = joiner.pool()
    n_rows = sum(len(rows) for _, rows in tables)
    files_said = f"{n_rows:,} rows" if alone else f"{n_rows:,} rows of {len(tables)} tables"
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


def _tables(file: Path, name: str, say: Say) -> Iterator[tuple[str, Rows]]:
    ending = file.suffix.lower()
    if ending in EXCEL:
        sheets = list(excel_rows(file, say))
        yield from sheets if len(sheets) > 1 else [(name, rows) for _, rows in sheets]
    elif ending in SEPARATED:
        yield name, separated_rows(file, say)
    elif ending == ".json":
        yield name, _json_rows(file)
    else:
        yield name, list(map(_row, table_rows(file)))


def _row(placed: tuple[str, Mapping[str, Json]]) -> tuple[str, dict[str, Json]]:
    return placed[0], dict(placed[1])


def _json_rows(file: Path) -> Rows:
    """Of a list of objects, of columns of one length, or of answers by agent and item; also of lines of JSON."""
    text = read_text(file)
    try:
        found: Json = orjson.loads(text)
    except orjson.JSONDecodeError:
        return list(map(_row, read_lines(file)))
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


def _text_rows(folder: Path) -> Rows:
    """A folder's texts: agent/item.txt; those of a folder `prompts` or `questions` are the items' prompts."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix.lower() in _TEXTS)
    deep = [file for file in files if file.parent != folder]
    if not deep:
        raise wrong(
            folder,
            f"there is neither a table ({', '.join(ENDINGS)}) nor a folder of texts (.txt, .md) for each agent. "
            "Lay texts as AGENT/ITEM.txt.",
            slug="import-empty",
        )
    prompts: dict[str, str] = {}
    rows: Rows = []
    for file in deep:
        agent, item = file.relative_to(folder).parts[0], file.relative_to(folder / file.relative_to(folder).parts[0])
        key = item.with_suffix("").as_posix()
        text = read_text(file)
        if noun_of(agent) == "prompt" or noun_of(agent.removesuffix("s")) == "prompt":
            prompts[key] = text.strip()
        else:
            rows.append((str(file), {"agent": agent, "item": key, "text": text if text.strip() else None}))
    return [(place, {**row, "prompt": prompts.get(str(row["item"]))}) for place, row in rows]


def _columns(path: Path, name: str, rows: Rows, *, items: ItemsByPrompt, alone: bool, say: Say) -> tuple[Columns, str]:
    """Which columns of one table are what, and that in words. Raises: ImportFormatError [import-columns]."""
    if not rows:
        raise wrong(path, f"{name!r} has no rows. Give one row for each response.", slug="import-empty")
    for column in list(rows[0][1]):
        if noun_of(column) in ("agent", "item", "prompt"):
            fill_down(rows, column, say)
    nested = known_columns(rows[0][1])
    flat = [_flat(row) for _, row in rows]
    found = None if "text" in nested else guess(flat, alone=alone)
    if found is None and "text" not in nested:
        raise wrong(
            path,
            f"no column could be the response; it has {', '.join(map(repr, rows[0][1]))[:200]}. Call one `response`, and the "
            "one that says whose it is `model`.",
            slug="import-columns",
        )
    if found is None:
        named = {noun: nested[noun] for noun in nested}
        said = ", ".join(f"{column!r} for {noun}s" for noun, column in named.items())
        return Columns.of(path, rows[0][1], columns=named, agent=name, joiner=Joiner(name)), said
    for row, (_, whole) in zip(flat, rows, strict=True):
        for said in found.places.values():
            if said not in whole and "." not in said:
                whole[said] = value(row, said)
    present = dict.fromkeys(key for _, row in rows for key in row)
    places = {noun: ColumnPath.of(column, present) or ColumnPath((column,)) for noun, column in found.places.items()}
    wide = {column: ColumnPath.of(column, present) or ColumnPath((column,)) for column in found.wide}
    return Columns(places, wide, name, items, made=found.made, loosely=True), _said(found, name, alone=alone)


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
        parts.append(f"items by {item!r}" + (f", prompts in {prompt!r}" if prompt else ""))
    if "text" in found.places:
        parts.append(f"texts in {found.places['text']!r}")
    parts += [f"{noun} in {found.places[noun]!r}" for noun in ("group", "empty", "repeat") if noun in found.places]
    if found.unused:
        parts.append(f"not used: {', '.join(map(repr, found.unused[:6]))}" + " …" * (len(found.unused) > 6))
    return ", ".join(parts)
