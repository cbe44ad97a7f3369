"""Read the sheets of Excel files, with the values of merged cells."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from youden.data.importers.foreign_files import import_error
from youden.data.importers.table_header import AddNote, Records, Rows, count_cells, find_rows_below_header
from youden.decompression import UnpackLimit
from youden.errors import InputError
from youden.text.regular_files import check_regular
from youden.text.sentences import format_count
from youden.types.pool import Json

SHEETS_NOT_READ = "sheets with other columns not read"
"""Note on sheets that are not read because they have other columns than the first one."""
_MERGED_CELL = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?\bref="\$?([A-Z]+)\$?(\d+):\$?\1\$?(\d+)"')
_FORMULA_WITHOUT_VALUE = re.compile(
    rb'<(?:\w+:)?c\s(?![^<>]*\bt="str")[^<>]*?\br="([A-Z]+\d+)"[^<>]*><(?:\w+:)?f\b[^<>]*(?:/>|>[^<]*</(?:\w+:)?f>)'
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v></(?:\w+:)?v>)?</(?:\w+:)?c>"
)
"""Cell with a formula that no spreadsheet program has evaluated."""
_CHUNK_BYTES = 1 << 20
"""Number of bytes of XML that are searched at a time."""
_MAX_MATCH_BYTES = 9_000
"""Maximum length of the XML of a cell with a formula, or of a range of merged cells."""


def read_excel_sheets(file: Path, add_note: AddNote) -> Iterator[tuple[str, Rows]]:
    """Read the first sheet of an Excel file, and all other sheets that have similar columns.

    - Two sheets have similar columns if one of them has all columns of the other.
    - Hidden sheets are skipped, and so are sheets with fewer than two rows of several cells.

    file : Excel file (.xlsx or .xlsm)
    add_note : callback that receives each assumption about the file, and its location

    Yields the title of each sheet, and its rows: the location and the values by column of each row.

    Raises: ImportFormatError [import-format] if the file cannot be read; [import-empty] if a sheet has a header and no rows.
    """
    first_header: set[str] | None = None
    for title, records in _read_sheets(file, add_note):
        n_rows_of_several_cells = sum(count_cells(record) > 1 for _, record in records)
        if n_rows_of_several_cells < 2:
            continue
        rows = find_rows_below_header(records, file, add_note, ragged=True)
        _, first_row = rows[0]
        header = set(first_row)
        if first_header is None:
            first_header = header
        has_similar_columns = header <= first_header or header >= first_header
        if has_similar_columns:
            yield title, rows
        else:
            add_note(SHEETS_NOT_READ, repr(title))


def _read_sheet(book: Any, sheet: Any, file: Path, add_note: AddNote) -> Records:
    """Read the rows of a sheet, with merged cells filled."""
    with book._archive.open(sheet._worksheet_path) as source:
        merged, formulas = _scan_sheet(source)
    location = f"{file.name}, sheet {sheet.title}"
    if formulas:
        count = format_count(len(formulas), "formula")
        add_note(f"{count} without a value read as empty; open the file in a spreadsheet program and save it", location)

    sheet.reset_dimensions()  # the size that the file states may be wrong
    rows = sheet.iter_rows(values_only=True)
    return _collapse_blank_rows(_fill_merged_cells(rows, merged, location))


def _read_sheets(file: Path, add_note: AddNote) -> Iterator[tuple[str, Records]]:
    """Yield the title and the rows of each sheet that is not hidden, with merged cells filled.

    Raises: ImportFormatError [import-format]; InputError [unpacked-too-large].
    """
    import openpyxl

    try:
        check_regular(file)
        with zipfile.ZipFile(file) as archive:
            unpacked_bytes = sum(member.file_size for member in archive.infolist())
        UnpackLimit(file).add(unpacked_bytes)
        with closing(openpyxl.load_workbook(file, data_only=True, read_only=True)) as book:
            for sheet in book.worksheets:
                if sheet.sheet_state == "visible":
                    yield sheet.title, _read_sheet(book, sheet, file, add_note)
                else:
                    add_note("hidden sheets not read", repr(sheet.title))
    except InputError:
        raise
    except Exception as error:  # damaged archives raise errors of many types
        raise import_error(
            file, f"it cannot be opened as .xlsx ({error}). Save it again, or as CSV.", slug="import-format"
        ) from error


def _scan_sheet(source: IO[bytes]) -> tuple[dict[tuple[int, int], int], set[bytes]]:
    """Find merged ranges of cells, and formulas without a stored value, in the XML of a sheet.

    Only ranges in a single column are returned.

    source : open XML of the sheet

    Returns a dictionary and a set. The dictionary maps (first row, column) of each range to its last row; all are numbered
    from 1. The set has the cells of the formulas, such as "D2".
    """
    from openpyxl.utils import column_index_from_string

    last_rows: dict[tuple[int, int], int] = {}
    formulas: set[bytes] = set()
    overlap = b""  # a tag may be split between two chunks
    while chunk := source.read(_CHUNK_BYTES):
        xml = overlap + chunk
        formulas.update(_FORMULA_WITHOUT_VALUE.findall(xml))
        for column_letters, first_row, last_row in _MERGED_CELL.findall(xml):
            column = column_index_from_string(column_letters.decode())
            last_rows[int(first_row), column] = int(last_row)
        overlap = chunk[-_MAX_MATCH_BYTES:]
    return last_rows, formulas


def _fill_merged_cells(
    rows: Iterable[Sequence[object]], merged: Mapping[tuple[int, int], int], location: str
) -> Iterator[tuple[str, list[Json]]]:
    """Yield the rows of a sheet in which each range of merged cells in a column is filled with its value.

    In an Excel file, only the first cell of a merged range has the value. A blank row is yielded as a row without cells.

    rows : values of the cells of each row of a sheet
    merged : last row of each merged range, by its first row and its column, numbered from 1
    location : file and sheet, for error messages

    Yields the location and the cells of each row.
    """
    columns = {column for _, column in merged}
    latest_ranges: dict[int, tuple[int, Json]] = {}  # column → last row and value of its latest merged range
    for row_number, values in enumerate(rows, 1):
        record = [_convert_cell(value) for value in values]
        is_blank = count_cells(record) == 0
        if is_blank:
            yield f"{location}, line {row_number}", []
            continue

        for column in columns:
            record += [None] * (column - len(record))
            if (row_number, column) in merged:
                latest_ranges[column] = merged[row_number, column], record[column - 1]
            last_row, value = latest_ranges.get(column, (0, None))
            if record[column - 1] is None and row_number <= last_row:
                record[column - 1] = value
        yield f"{location}, line {row_number}", record


def _collapse_blank_rows(rows: Iterable[tuple[str, list[Json]]]) -> Records:
    """Replace each run of consecutive blank rows by one blank row, and leave out blank rows at the beginning."""
    records: Records = []
    previous_record: list[Json] = []
    for location, record in rows:
        if record or previous_record:
            records.append((location, record))
        previous_record = record
    return records


def _convert_cell(value: object) -> Json:
    """Convert dates and other values to text, and blank texts to None; numbers are kept."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if text.strip() else None
