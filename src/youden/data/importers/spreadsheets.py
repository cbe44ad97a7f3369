"""Reads what a spreadsheet saved, as people have it: any separator and encoding, a title above the header, columns without a
name, cells that were merged. What was assumed is said.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from youden.data.importers.foreign_files import read_text, wrong
from youden.data.importers.loose_table import separated
from youden.decompression import Unpacked
from youden.errors import ImportFormatError, InputError
from youden.text.regular_files import check_regular
from youden.text.replacements import Replacements
from youden.text.sentences import counted
from youden.text.spreadsheet_cells import GUARDED, without_guards
from youden.types.pool import Json


class Say(Protocol):
    """Told what was assumed, and where."""

    def __call__(self, text: str, place: str = "", /) -> None: ...


Records = list[tuple[str, list[Json]]]
"""(place, cells) of each line; None where a cell is empty."""
Rows = list[tuple[str, dict[str, Json]]]

SEPARATED = (".csv", ".tsv", ".tab")
EXCEL = (".xlsx", ".xlsm")
SPREADSHEETS = (*SEPARATED, *EXCEL)
_SEPARATORS = ",;\t|"
_ENCODING = "cp1252"
_MERGED = 0.3
"""The share of a column's cells that are empty below others from which on they are taken for one merged cell."""
_MERGED_CELL = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?\bref="\$?([A-Z]+)\$?(\d+):\$?\1\$?(\d+)"')
_CHUNK, _LONGEST_TAG = 1 << 20, 256
"""Bytes that are searched at once, and the maximum length of one of these tags."""


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
    first: list[str] | None = None
    for title, records in _sheets(file):
        if sum(sum(cell is not None for cell in record) > 1 for _, record in records) < 2:
            continue
        rows = _as_rows(records, file, say, ragged=True)
        first = first or list(rows[0][1])
        if list(rows[0][1]) == first:
            yield title, rows
        else:
            say("sheets with other columns not read", repr(title))


def _sheets(file: Path) -> Iterator[tuple[str, Records]]:
    """Read the title and the rows of each sheet in one pass over the file. Blank rows are left out; a row ends at its last cell.

    Raises: ImportFormatError [import-format]; InputError [unpacked].
    """
    import openpyxl

    try:
        check_regular(file)
        with zipfile.ZipFile(file) as archive:
            Unpacked(file).add(sum(member.file_size for member in archive.infolist()))
        book: Any = openpyxl.load_workbook(file, data_only=True, read_only=True)
        try:
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # the file may claim any size
                with book._archive.open(sheet._worksheet_path) as source:
                    merged = _merged_cells(source)
                yield (
                    sheet.title,
                    _records(sheet.iter_rows(values_only=True), merged, f"{file.name}, sheet {sheet.title}"),
                )
        finally:
            book.close()
    except InputError:
        raise
    except Exception as error:  # whatever a damaged archive makes of it
        raise wrong(
            file, f"it is no .xlsx that can be opened ({error}). Save it again, or as CSV.", slug="import-format"
        ) from error


def _merged_cells(source: IO[bytes]) -> dict[tuple[int, int], int]:
    """Find the merged cells of a sheet's XML that are one column wide: (first row, column) to last row, all from 1."""
    found: dict[tuple[int, int], int] = {}
    before = b""
    while chunk := source.read(_CHUNK):
        for column, first, last in _MERGED_CELL.findall(before + chunk):
            found[int(first), _column_number(column)] = int(last)
        before = chunk[-_LONGEST_TAG:]
    return found


def _column_number(letters: bytes) -> int:
    """Return the number of a column, from 1, by its letters."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number


def _records(rows: Iterable[Sequence[object]], merged: Mapping[tuple[int, int], int], place: str) -> Records:
    """Return the rows that are not blank; each cell of a merged range has the value of the topmost cell."""
    columns = sorted({column for _, column in merged})
    filling: dict[int, tuple[int, Json]] = {}
    records: Records = []
    for number, values in enumerate(rows, 1):
        record = [_cell(value) for value in values]
        if all(cell is None for cell in record):
            continue
        for column in columns:
            cell = record[column - 1] if column <= len(record) else None
            if (number, column) in merged:
                filling[column] = merged[number, column], cell
            last, value = filling.get(column, (0, None))
            if cell is None and value is not None and number <= last:
                record += [None] * (column - len(record))
                record[column - 1] = value
        records.append((f"{place}, line {number}", record))
    return records


def _cell(value: object) -> Json:
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value) if str(value).strip() else None


def _as_rows(records: Records, file: Path, say: Say, *, ragged: bool = False) -> Rows:
    """Rows by column. The header is the first line with as many cells as a table needs; a line that is too short ends in empty
    cells. A column without a name and without a value is left out.

    ragged: whether a line may be longer than the header; the further columns then have no names.

    Raises: ImportFormatError [import-empty], [import-csv].
    """
    filled = [(place, record) for place, record in records if any(cell is not None for cell in record)]
    at = next((n for n, (_, record) in enumerate(filled) if sum(cell is not None for cell in record) > 1), None)
    if at is None or at + 1 == len(filled):
        raise wrong(
            file, "it has no table of a header and rows. Give one with a column for the texts.", slug="import-empty"
        )
    if at:
        say(f"{counted(at, 'line')} above the header not read", filled[0][0])
    header, body = filled[at][1], filled[at + 1 :]
    used = {column for column, cell in enumerate(header) if cell is not None}
    for place, record in body:
        if not ragged and any(cell is not None for cell in record[len(header) :]):
            raise wrong(
                place,
                f"it has {len(record)} fields, the header {len(header)}. Put texts with separators in double quotes.",
                slug="import-csv",
            )
        used.update(column for column, cell in enumerate(record) if cell is not None)
    named = [(column, header[column] if column < len(header) else None) for column in sorted(used)]
    columns = dict(zip(_named(named), sorted(used), strict=True))
    empty = dict.fromkeys(columns)
    rows: Rows = []
    for place, record in body:
        cells = {name: record[column] for name, column in columns.items() if column < len(record)}
        rows.append((place, empty | cells))
    return [(place, without_guards(row)) for place, row in rows] if GUARDED in columns else rows


def _named(header: Iterable[tuple[int, Json]]) -> list[str]:
    """Return a unique name for each column, from its number, from 0, and its cell in the header."""
    names: dict[str, None] = {}
    for column, cell in header:
        name = f"column {column + 1}" if cell is None else " ".join(str(cell).split())
        while name in names:
            name = f"{name} ({column + 1})"
        names[name] = None
    return list(names)


def fill_down(rows: Rows, column: str, say: Say) -> None:
    """Empty cells of a column take what stands above them, where so many are empty that a cell was merged."""
    empty = sum(row.get(column) is None for _, row in rows)
    if not _MERGED * len(rows) <= empty < len(rows) or rows[0][1].get(column) is None:
        return
    last: Json = None
    for _, row in rows:
        last = row[column] = last if row.get(column) is None else row[column]
    say(f"{counted(empty, 'empty cell')} of {column!r} taken for the one above them", rows[0][0])
