"""Reads what a spreadsheet saved, as people have it: any separator and encoding, a title above the header, columns without a
name, cells that were merged. What was assumed is said.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from youden.data.importers.foreign_files import read_text, wrong
from youden.data.importers.loose_table import separated
from youden.errors import ImportFormatError
from youden.nouns import Json
from youden.text.regular_files import check_regular
from youden.text.replacements import Replacements
from youden.text.sentences import counted


class Say(Protocol):
    """Told what was assumed, and where."""

    def __call__(self, text: str, place: str = "", /) -> None: ...


Records = list[tuple[str, list[Json]]]
"""(place, cells) of each line; None where a cell is empty."""
Rows = list[tuple[str, dict[str, Json]]]

_SEPARATORS = ",;\t|"
_ENCODING = "cp1252"
_MERGED = 0.3
"""The share of a column's cells that are empty below others from which on they are taken for one merged cell."""


def separated_rows(file: Path, say: Say, replaced: Replacements) -> Rows:
    """Rows of a text file. Raises: ImportFormatError [import-csv], [import-empty], [import-not-found]."""
    try:
        text = read_text(file, replaced)
    except ImportFormatError as error:
        if error.slug != "import-encoding" or b"\0" in file.read_bytes():
            raise
        text = file.read_bytes().decode(_ENCODING, errors="replace")
        say("no UTF-8, and read as Windows-1252", file.name)
    start = text.split("\n", 1)[0]
    if start.lower().startswith("sep=") and len(start.strip()) == 5:  # how Excel is told the separator
        separator, text = start.strip()[4], text.split("\n", 1)[1]
    else:
        separator = _separator(text, "\t" if file.suffix.lower() in (".tsv", ".tab") else ",")
    records = separated(file, separator, text=text)
    return _as_rows(
        [(place, [cell if cell.strip() else None for cell in record]) for place, record in records], file, say
    )


def _separator(text: str, usual: str) -> str:
    """The one that makes most lines of the first ones equally long, and of several columns."""

    def alike(separator: str) -> tuple[int, int, bool]:
        reader = csv.reader(io.StringIO(text[:200_000], newline=""), delimiter=separator, strict=True)
        sizes: Counter[int] = Counter()
        try:
            for record, _ in zip(reader, range(50), strict=False):
                sizes[len(record)] += len(record) > 1
        except csv.Error:
            pass
        size, n = max(sizes.items(), key=lambda found: found[1], default=(0, 0))
        return n, size, separator == usual

    return max(_SEPARATORS, key=alike)


def excel_rows(file: Path, say: Say) -> Iterator[tuple[str, Rows]]:
    """(sheet, rows) of each sheet that has the header of the first one. Raises: ImportFormatError."""
    import openpyxl

    try:
        check_regular(file)
        book = openpyxl.load_workbook(file, data_only=True)
    except Exception as error:  # whatever a damaged archive makes of it
        raise wrong(
            file, f"it is no .xlsx that can be opened ({error}). Save it again, or as CSV.", slug="import-format"
        ) from error
    first: list[str] | None = None
    for sheet in book.worksheets:
        cells = {(cell.row, cell.column): cell.value for row in sheet.iter_rows() for cell in row}
        for merged in sheet.merged_cells.ranges:
            if merged.size["columns"] == 1:
                top = cells.get((merged.min_row, merged.min_col))
                cells |= {(row, merged.min_col): top for row in range(merged.min_row, merged.max_row + 1)}
        records: Records = [
            (
                f"{file.name}, sheet {sheet.title}, line {row}",
                [_cell(cells.get((row, at))) for at in _to(sheet.max_column)],
            )
            for row in _to(sheet.max_row)
        ]
        if sum(sum(cell is not None for cell in record) > 1 for _, record in records) < 2:
            continue
        rows = _as_rows(records, file, say)
        first = first or list(rows[0][1])
        if list(rows[0][1]) == first:
            yield sheet.title, rows
        else:
            say("sheets with other columns not read", repr(sheet.title))


def _to(n: int) -> range:
    return range(1, n + 1)


def _cell(value: object) -> Json:
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value) if str(value).strip() else None


def _as_rows(records: Records, file: Path, say: Say) -> Rows:
    """Rows by column. The header is the first line with as many cells as a table needs; a line that is too short ends in empty
    cells. Raises: ImportFormatError [import-empty], [import-csv]."""
    filled = [(place, record) for place, record in records if any(cell is not None for cell in record)]
    at = next((n for n, (_, record) in enumerate(filled) if sum(cell is not None for cell in record) > 1), None)
    if at is None or at + 1 == len(filled):
        raise wrong(
            file, "it has no table of a header and rows. Give one with a column for the texts.", slug="import-empty"
        )
    if at:
        say(f"{counted(at, 'line')} above the header not read", filled[0][0])
    header = _named(filled[at][1])
    rows: Rows = []
    for place, record in filled[at + 1 :]:
        if any(cell is not None for cell in record[len(header) :]):
            raise wrong(
                place,
                f"it has {len(record)} fields, the header {len(header)}. Put texts with separators in double quotes.",
                slug="import-csv",
            )
        padded = [*record, *[None] * len(header)]
        rows.append((place, dict(zip(header, padded, strict=False))))
    return rows


def _named(header: Sequence[Json]) -> list[str]:
    """Every column has a name, and each another."""
    names: list[str] = []
    for at, cell in enumerate(header, 1):
        name = f"column {at}" if cell is None else " ".join(str(cell).split())
        names.append(name if name not in names else f"{name} ({at})")
    return names


def fill_down(rows: Rows, column: str, say: Say) -> None:
    """Empty cells of a column take what stands above them, where so many are empty that a cell was merged."""
    empty = sum(row.get(column) is None for _, row in rows)
    if not _MERGED * len(rows) <= empty < len(rows) or rows[0][1].get(column) is None:
        return
    last: Json = None
    for _, row in rows:
        last = row[column] = last if row.get(column) is None else row[column]
    say(f"{counted(empty, 'empty cell')} of {column!r} taken for the one above them", rows[0][0])
