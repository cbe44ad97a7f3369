"""Read the sheets of Excel files, with the values of merged cells."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from youden.data.importers.foreign_files import import_error
from youden.data.importers.table_header import (
    Note,
    Records,
    Rows,
    count_cells,
    find_rows_below_header,
)
from youden.decompression import UnpackLimit
from youden.errors import InputError
from youden.text.regular_files import check_regular
from youden.types.pool import Json

_MERGED_CELL = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?\bref="\$?([A-Z]+)\$?(\d+):\$?\1\$?(\d+)"')
_CHUNK_BYTES = 1 << 20
"""Number of bytes of XML that are searched at a time."""
_MAX_TAG_BYTES = 256
"""Maximum length of the tag of a range of merged cells."""


def read_excel_sheets(file: Path, note: Note) -> Iterator[tuple[str, Rows]]:
    """Read the sheets of an Excel file that have the same columns as its first sheet.

    Sheets without at least two rows of several cells are skipped.

    Parameters
    ----------
    file : Path
        Excel file (.xlsx or .xlsm).
    note : callable
        Function that is called with each assumption about the file, and its location.

    Yields
    ------
    title : str
        Title of the sheet.
    rows : list of (str, dict)
        Location and values by column of each row.

    Raises
    ------
    ImportFormatError
        [import-format] if the file cannot be read; [import-empty] if a sheet has a header and no rows.
    """
    first_header: list[str] | None = None
    for title, records in _read_sheets(file):
        n_rows_of_several_cells = sum(count_cells(record) > 1 for _, record in records)
        if n_rows_of_several_cells < 2:
            continue
        rows = find_rows_below_header(records, file, note, ragged=True)
        _, first_row = rows[0]
        header = list(first_row)
        if first_header is None:
            first_header = header
        if header == first_header:
            yield title, rows
        else:
            note("sheets with other columns not read", repr(title))


def _read_sheets(file: Path) -> Iterator[tuple[str, Records]]:
    """Yield the title and the rows of each sheet, without blank rows and with merged cells filled.

    Raises: ImportFormatError [import-format]; InputError [unpacked-too-large].
    """
    import openpyxl

    try:
        check_regular(file)
        with zipfile.ZipFile(file) as archive:
            unpacked_bytes = sum(member.file_size for member in archive.infolist())
            UnpackLimit(file).add(unpacked_bytes)
        book: Any = openpyxl.load_workbook(file, data_only=True, read_only=True)
        try:
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # the size that the file states may be wrong
                with book._archive.open(sheet._worksheet_path) as source:
                    merged = _find_merged_cells(source)
                location = f"{file.name}, sheet {sheet.title}"
                rows = sheet.iter_rows(values_only=True)
                yield sheet.title, _fill_merged_cells(rows, merged, location)
        finally:
            book.close()
    except InputError:
        raise
    except Exception as error:  # damaged archives raise errors of many types
        raise import_error(
            file, f"it cannot be opened as .xlsx ({error}). Save it again, or as CSV.", slug="import-format"
        ) from error


def _find_merged_cells(source: IO[bytes]) -> dict[tuple[int, int], int]:
    """Find the merged ranges of one column in the XML of a sheet.

    source : open XML of the sheet

    Returns the last row of each range by (first row, column). Rows and columns are numbered from 1.
    """
    from openpyxl.utils import column_index_from_string

    last_rows: dict[tuple[int, int], int] = {}
    overlap = b""  # a tag may be split between two chunks
    while True:
        chunk = source.read(_CHUNK_BYTES)
        if not chunk:
            return last_rows
        for column_letters, first_row, last_row in _MERGED_CELL.findall(overlap + chunk):
            column = column_index_from_string(column_letters.decode())
            last_rows[int(first_row), column] = int(last_row)
        overlap = chunk[-_MAX_TAG_BYTES:]


def _fill_merged_cells(
    rows: Iterable[Sequence[object]], merged: Mapping[tuple[int, int], int], location: str
) -> Records:
    """Return the rows that are not blank, with the value of a merged range copied into each of its rows.

    merged : last row of each merged range, by its first row and its column, numbered from 1
    location : file and sheet, for error messages
    """
    merged_columns = sorted({column for _, column in merged})
    latest_ranges: dict[int, _MergedRange] = {}  # by column
    records: Records = []
    for row_number, values in enumerate(rows, 1):
        record = [_convert_cell(value) for value in values]
        if all(cell is None for cell in record):
            continue

        for column in merged_columns:
            cell = record[column - 1] if column <= len(record) else None
            starts_range = (row_number, column) in merged
            if starts_range:
                latest_ranges[column] = _MergedRange(merged[row_number, column], cell)
            elif cell is None and column in latest_ranges:
                last_row, range_value = latest_ranges[column]
                if row_number <= last_row and range_value is not None:
                    record += [None] * (column - len(record))
                    record[column - 1] = range_value
        records.append((f"{location}, line {row_number}", record))
    return records


class _MergedRange(NamedTuple):
    """Merged cells of one column: the number of the last row, and the value, which the file states in the first row."""

    last_row: int
    value: Json


def _convert_cell(value: object) -> Json:
    """Convert dates and other values to text, and blank texts to None; numbers are kept."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if text.strip() else None
