"""Read the rows of tables in CSV, TSV, Excel, JSON or Parquet, of saved data sets, and of folders of texts.

Text files are read by `csv` and sheets by `openpyxl`: pandas keeps neither line numbers, which messages need, nor
merged cells. What a spreadsheet does not state is inferred and noted: separator, encoding, titles above the header,
unnamed columns and merged cells.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import isnan
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from youden.data.importers.column_names import infer_role
from youden.data.importers.foreign_files import (
    find_files,
    get_nested,
    import_error,
    parse_json,
    parse_lines,
    read_json,
    read_lines,
    read_text,
    require_list,
    require_object,
)
from youden.data.importers.nested_rows import extract_rows
from youden.data.pools.tidy_reader import allow_long_csv_fields
from youden.decompression import UnpackLimit, iter_unpacked, open_parquet
from youden.errors import ImportFormatError, InputError
from youden.text.regular_files import check_regular
from youden.text.replacements import Replacements
from youden.text.sentences import format_count
from youden.text.spreadsheet_cells import GUARDED, remove_guards
from youden.types.pool import Json

Note = Callable[[str, str], None]
"""Function that receives an assumption, as a sentence without a full stop, and its location."""
Row = dict[str, Json]
Rows = list[tuple[str, Row]]
"""Location and values by column of each row."""
Records = list[tuple[str, list[Json]]]
"""Location and cells of each line; an empty cell is None."""

EXCEL = (".xlsx", ".xlsm")
PLAIN = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet")
SPREADSHEETS = (".csv", ".tsv", ".tab", *EXCEL)
EXTENSIONS = (*SPREADSHEETS, ".json", ".jsonl", ".ndjson", ".parquet")
_TEXT_EXTENSIONS = (".txt", ".md")
_FALLBACK_ENCODING = "cp1252"
_MIN_EMPTY_FRACTION = 0.3
"""Minimum fraction of empty cells from which a column is taken for one with merged cells."""
_MERGED_CELL = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?\bref="\$?([A-Z]+)\$?(\d+):\$?\1\$?(\d+)"')
_CHUNK_BYTES, _MAX_TAG_BYTES = 1 << 20, 256
"""Number of bytes of XML that are searched at a time, and maximum length of the tag of a merged range."""


def find_tables(paths: Sequence[Path]) -> list[Path]:
    """List the files of tables in files and folders.

    If a folder was written by `save_to_disk` of `datasets`, the list contains only the folders of such splits.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders.

    Returns
    -------
    list of Path
        Empty if the folders contain neither tables nor splits.

    Raises
    ------
    ImportFormatError
        [import-not-found] if a path does not exist; [import-empty] if one of several folders contains no table.
    """
    splits = [split for path in paths for split in find_saved_splits(path)]
    if splits:
        return splits
    if not any(_has_table(path) for path in paths):
        return []
    patterns = [f"*{extension}" for extension in EXTENSIONS]
    return find_files(paths, patterns, what=f"a table ({', '.join(EXTENSIONS)})")


def _has_table(path: Path) -> bool:
    return not path.is_dir() or any(file.suffix.lower() in EXTENSIONS for file in path.rglob("*"))


def find_saved_splits(path: Path) -> list[Path]:
    """List the folders, one per split, that `save_to_disk` of `datasets` wrote; empty if it wrote none."""
    if (path / "state.json").is_file():
        return [path]
    if (path / "dataset_dict.json").is_file():
        names = get_nested(read_json(path / "dataset_dict.json"), "splits")
        return [path / str(name) for name in require_list(names, path / "dataset_dict.json")]
    return []


def read_tables(file: Path, note: Note, replaced: Replacements) -> Iterator[tuple[str, Rows]]:
    """Yield the name and the rows of each table in a file.

    The name is the title of the sheet if an Excel file has several sheets, and the name of the file otherwise.

    file : file of a table, or folder of a split that `datasets` saved
    note : function that receives each assumption about the file, and its location
    replaced : counter of the values that are replaced because a pool cannot hold them
    """
    if file.suffix.lower() not in EXCEL:
        name = file.stem if file.is_file() else file.name
        yield name, list(read_rows(file, replaced, note))
        return

    sheets = list(read_excel_sheets(file, note))
    if len(sheets) == 1:
        _, rows = sheets[0]
        yield file.stem, rows
    else:
        yield from sheets


def read_rows(
    file: Path, replaced: Replacements | None = None, note: Note = lambda *_: None, *, exact: bool = False
) -> Iterator[tuple[str, Row]]:
    """Read the rows of a file that holds one table.

    Parameters
    ----------
    file : Path
        CSV, TSV, JSON, JSON Lines or Parquet file, or the folder that `save_to_disk` of `datasets` wrote for a split.
    replaced : Replacements, optional
        Counter of the values that are replaced because a pool cannot hold them, such as NaN.
    note : callable, optional
        Function that is called with each assumption about the file, and its location. Default: assumptions are ignored.
    exact : bool, default False
        Whether a CSV or TSV file must be UTF-8, with one header line, unique column names and rows of equal length.

    Yields
    ------
    location : str
        File, and number of the line or row, for error messages.
    row : dict
        Value by column.

    Raises
    ------
    ImportFormatError
        [import-format], [import-csv], [import-json] or [import-encoding] if the content does not have the format of the
        file's extension; [import-empty] without rows; [import-not-found] if the file cannot be read.
    """
    match file.suffix.lower():
        case ".csv" | ".tsv" | ".tab":
            return _read_separated_rows(file, note, replaced, exact=exact)
        case ".jsonl" | ".ndjson":
            return read_lines(file, replaced)
        case ".json":
            return _read_json_rows(file, replaced)
        case ".parquet":
            return _read_parquet_rows(file)
    if (file / "state.json").is_file():
        return _read_arrow_rows(file)
    raise import_error(file, "it is not a .csv, .tsv, .jsonl or .parquet file. Convert it.", slug="import-format")


def _read_json_rows(file: Path, replaced: Replacements | None) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row of a file with one JSON value, or with one JSON object per line.

    replaced : counter of the numbers and texts that are replaced because a pool cannot hold them
    """
    text = read_text(file, replaced)
    try:
        value = parse_json(text, file, replaced)
    except ImportFormatError:
        yield from parse_lines(text, file, replaced)
    else:
        for number, row in enumerate(extract_rows(value), 1):
            yield f"{file}, row {number}", row


def _read_parquet_rows(file: Path) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row of a Parquet file."""
    try:
        check_regular(file)
        table = open_parquet(file)
    except (pa.ArrowException, OSError) as error:
        raise import_error(
            file, f"it is not a Parquet file ({error}). Write it again.", slug="import-format"
        ) from error
    with table:
        yield from _iter_batch_rows(iter_unpacked(table.iter_batches(batch_size=10_000), file), file)


def _read_arrow_rows(folder: Path) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row of a split that `save_to_disk` of `datasets` wrote."""
    state_file = folder / "state.json"
    state = require_object(read_json(state_file), state_file)
    entries = require_list(state.get("_data_files"), state_file)
    files = [folder / str(get_nested(entry, "filename")) for entry in entries]

    def read_batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            try:
                with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as stream:
                    yield from iter_unpacked(stream, file)
            except (pa.ArrowException, OSError) as error:
                raise import_error(
                    file, f"it is not an Arrow stream ({error}). Save the dataset again.", slug="import-format"
                ) from error

    return _iter_batch_rows(read_batches(), folder)


def _iter_batch_rows(batches: Iterable[pa.RecordBatch], location: Path) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row; a NaN in a column of floats is a missing value and becomes None."""
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            number += 1
            for name, value in row.items():
                if isinstance(value, float) and isnan(value):
                    row[name] = None
            yield f"{location}, row {number}", row


def is_pool_header(names: Iterable[object]) -> bool:
    """Return whether columns have the names that a pool has: text, and item or prompt."""
    present = {*names}
    return "text" in present and bool(present & {"item", "prompt"})


def read_separated(file: Path, separator: str, *, text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the location and the fields of each record of a text file; a blank line is an empty list.

    Raises: ImportFormatError [import-csv].
    """
    start = 1
    with allow_long_csv_fields():
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        try:
            for record in reader:
                location = f"{file}, line {start}"
                start = reader.line_num + 1
                yield location, record
        except csv.Error as error:
            raise import_error(
                f"{file}, line {start}", f"it is not valid CSV ({error}). Close every double quote.", slug="import-csv"
            ) from error


def _read_separated_rows(
    file: Path, note: Note, replaced: Replacements | None, *, exact: bool
) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row of a CSV or TSV file.

    With `exact`, or if the header is that of a pool, the values are those in the file. Otherwise blank cells become
    None, and lines above the header are left out.
    """
    text = _decode_separated(file, note, replaced, exact=exact)
    first_line, _, other_lines = text.partition("\n")
    if first_line.lower().startswith("sep=") and len(first_line.strip()) == 5:  # declares the separator for Excel
        separator = first_line.strip()[-1]
        text = other_lines
    else:
        default = "," if file.suffix.lower() == ".csv" else "\t"
        separator = _detect_separator(text, default)

    records = read_separated(file, separator, text=text)
    location, header = next(records, ("", []))
    if exact or is_pool_header(header):
        return _read_exact_rows(file, header, records)
    lines: Records = [(location, _replace_blanks(header))]
    lines += [(location, _replace_blanks(record)) for location, record in records]
    return iter(_find_rows_below_header(lines, file, note))


def _decode_separated(file: Path, note: Note, replaced: Replacements | None, *, exact: bool) -> str:
    """Return the text of a file, read as UTF-8 or, if that fails, as Windows-1252.

    Raises: ImportFormatError [import-encoding] if the file is not UTF-8, and either `exact` is True, the header is that
        of a pool, or the file contains a null byte.
    """
    try:
        return read_text(file, replaced)
    except ImportFormatError as error:
        if exact or error.slug != "import-encoding":
            raise
        raw = file.read_bytes()
        first_line = raw.split(b"\n", 1)[0].decode("ascii", "ignore")
        if b"\0" in raw or is_pool_header(re.findall(r"\w+", first_line)):
            raise
        note("not UTF-8, read as Windows-1252", file.name)
        return raw.decode(_FALLBACK_ENCODING, errors="replace")


def _replace_blanks(cells: Iterable[str]) -> list[Json]:
    """Replace cells that are empty or contain only white space by None."""
    return [cell if cell.strip() else None for cell in cells]


def _read_exact_rows(
    file: Path, header: Sequence[str], records: Iterator[tuple[str, list[str]]]
) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each record; all values of a blank line are None.

    Raises: ImportFormatError [import-csv] if a column occurs more than once, or a record is not as long as the header.
    """
    duplicates = [name for name, n in Counter(header).items() if n > 1]
    if duplicates:
        raise import_error(
            file, f"the column {duplicates[0]!r} occurs more than once. Rename one of them.", slug="import-csv"
        )

    for location, record in records:
        if record and len(record) != len(header):
            raise import_error(location, _describe_length(record, header), slug="import-csv")
        row: Row = dict(zip(header, record, strict=True)) if record else dict.fromkeys(header)
        if GUARDED in row:
            row = remove_guards(row)
        yield location, row


def _describe_length(record: Sequence[object], header: Sequence[object]) -> str:
    return f"it has {len(record)} fields, but the header has {len(header)}. Put texts with separators in double quotes."


def _detect_separator(text: str, default: str) -> str:
    """Return the separator that splits most of the first 50 lines into the same number of fields, at least two.

    If several separators split as many lines, the one with the most fields is returned, and `default` before others.
    """

    def compute_score(separator: str) -> tuple[int, int, bool]:
        reader = csv.reader(io.StringIO(text[:200_000], newline=""), delimiter=separator, strict=True)
        n_lines_by_length: Counter[int] = Counter()
        with suppress(csv.Error):
            for record in islice(reader, 50):
                n_lines_by_length[len(record)] += 1 if len(record) > 1 else 0

        if not n_lines_by_length:
            return 0, 0, separator == default
        n_fields, n_lines = n_lines_by_length.most_common(1)[0]
        return n_lines, n_fields, separator == default

    return max(",;\t|", key=compute_score)


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
        n_rows_of_several_cells = sum(_count_cells(record) > 1 for _, record in records)
        if n_rows_of_several_cells < 2:
            continue
        rows = _find_rows_below_header(records, file, note, ragged=True)
        header = list(rows[0][1])
        first_header = first_header or header
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
            UnpackLimit(file).add(sum(member.file_size for member in archive.infolist()))
        book: Any = openpyxl.load_workbook(file, data_only=True, read_only=True)
        try:
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # the size that the file states may be wrong
                with book._archive.open(sheet._worksheet_path) as source:
                    merged = _find_merged_cells(source)
                location = f"{file.name}, sheet {sheet.title}"
                yield sheet.title, _fill_merged_cells(sheet.iter_rows(values_only=True), merged, location)
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

    Returns the last row of each range by (first row, column). Rows and columns are numbered from 1.
    """
    from openpyxl.utils import column_index_from_string

    last_rows: dict[tuple[int, int], int] = {}
    overlap = b""  # a tag may be split between two chunks
    while chunk := source.read(_CHUNK_BYTES):
        for column, first, last in _MERGED_CELL.findall(overlap + chunk):
            last_rows[int(first), column_index_from_string(column.decode())] = int(last)
        overlap = chunk[-_MAX_TAG_BYTES:]
    return last_rows


def _fill_merged_cells(
    rows: Iterable[Sequence[object]], merged: Mapping[tuple[int, int], int], location: str
) -> Records:
    """Return the rows that are not blank, with the value of a merged range copied into each of its rows.

    merged : last row of each merged range, by its first row and its column, numbered from 1
    location : file and sheet, for error messages
    """
    merged_columns = sorted({column for _, column in merged})
    current_ranges: dict[int, tuple[int, Json]] = {}  # by column: last row and value of the range that was begun last
    records: Records = []
    for row_number, values in enumerate(rows, 1):
        record = [_convert_cell(value) for value in values]
        if all(cell is None for cell in record):
            continue

        for column in merged_columns:
            cell = record[column - 1] if column <= len(record) else None
            if (row_number, column) in merged:
                current_ranges[column] = merged[row_number, column], cell
            last_row, value = current_ranges.get(column, (0, None))
            if cell is None and value is not None and row_number <= last_row:
                record += [None] * (column - len(record))
                record[column - 1] = value
        records.append((f"{location}, line {row_number}", record))
    return records


def _count_cells(record: Sequence[Json]) -> int:
    return sum(cell is not None for cell in record)


def _convert_cell(value: object) -> Json:
    """Convert dates and other values to text, and blank texts to None; numbers are kept."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if text.strip() else None


def _find_rows_below_header(records: Records, file: Path, note: Note, *, ragged: bool = False) -> Rows:
    """Return the location and the values by column of each row below the header, the first line with several cells.

    Columns without name and values are left out. With `ragged`, rows may be longer than the header, and the additional
    columns get names.

    Raises: ImportFormatError [import-empty] if there is no row below a header; [import-csv] if a row is longer than the
        header, unless `ragged` is True.
    """
    lines = [(location, record) for location, record in records if _count_cells(record) > 0]
    header_positions = [position for position, (_, record) in enumerate(lines) if _count_cells(record) > 1]
    if not header_positions or header_positions[0] + 1 == len(lines):
        raise import_error(
            file, "it has no header with rows below. Pass a table with a column of responses.", slug="import-empty"
        )
    n_above = header_positions[0]
    if n_above > 0:
        first_location, _ = lines[0]
        note(f"{format_count(n_above, 'line')} above the header not read", first_location)

    _, header = lines[n_above]
    body = lines[n_above + 1 :]
    used_positions = {position for position, cell in enumerate(header) if cell is not None}
    for location, record in body:
        if not ragged and _count_cells(record[len(header) :]) > 0:
            raise import_error(location, _describe_length(record, header), slug="import-csv")
        used_positions.update(position for position, cell in enumerate(record) if cell is not None)

    positions = _name_columns(header, sorted(used_positions))
    rows: Rows = []
    for location, record in body:
        row: Row = {}
        for name, position in positions.items():
            row[name] = record[position] if position < len(record) else None
        if GUARDED in row:
            row = remove_guards(row)
        rows.append((location, row))
    return rows


def _name_columns(header: Sequence[Json], positions: Sequence[int]) -> dict[str, int]:
    """Return the position of each column by a unique name.

    A column without a name is called "column 3", and the second column `name` is called "name (3)", with its number.

    header : cells of the header, which may be shorter than the table
    positions : positions of the columns, from 0, in ascending order
    """
    position_by_name: dict[str, int] = {}
    for position in positions:
        cell = header[position] if position < len(header) else None
        name = f"column {position + 1}" if cell is None else " ".join(str(cell).split())
        while name in position_by_name:
            name = f"{name} ({position + 1})"
        position_by_name[name] = position
    return position_by_name


def fill_down(rows: Rows, column: str, note: Note) -> None:
    """Fill the empty cells of a column in place, each with the value above it, as in a column with merged cells.

    Nothing is filled if the first cell is empty, or if less than 30 % of the cells are.

    rows : location and values by column of each row
    note : function that is called with a sentence about the filled cells, and the location of the first row
    """
    n_empty = sum(row.get(column) is None for _, row in rows)
    has_merged_cells = _MIN_EMPTY_FRACTION * len(rows) <= n_empty < len(rows)
    if not has_merged_cells or rows[0][1].get(column) is None:
        return

    value: Json = None
    for _, row in rows:
        if row.get(column) is not None:
            value = row[column]
        row[column] = value
    note(f"{format_count(n_empty, 'empty cell')} of {column!r} filled with the value above", rows[0][0])


def read_text_folder(folder: Path, replaced: Replacements) -> Rows:
    """Read responses from the files AGENT/ITEM.txt (or .md) of a folder.

    The files in a folder `prompts` or `questions` are the prompts of the items.

    Parameters
    ----------
    folder : Path
    replaced : Replacements
        Counter of the characters that are replaced because a pool cannot hold them.

    Returns
    -------
    list of (str, dict)
        Path of the file, and values of the columns agent, item, text and prompt, for each response.

    Raises
    ------
    ImportFormatError
        [import-empty] if the folder contains no such files.
    """
    files = sorted(file for file in folder.rglob("*/*") if file.is_file() and file.suffix.lower() in _TEXT_EXTENSIONS)
    if not files:
        raise import_error(
            folder,
            f"the folder has neither a table ({', '.join(EXTENSIONS)}) nor a folder of texts (.txt, .md) for each agent. "
            "Save texts as AGENT/ITEM.txt. For logs of an evaluation tool, run `youden import`; its --help lists the tools.",
            slug="import-empty",
        )

    prompts: dict[str, str] = {}
    rows: Rows = []
    for file in files:
        agent, *item_parts = file.relative_to(folder).with_suffix("").parts
        item = "/".join(item_parts)
        text = read_text(file, replaced)
        if infer_role(agent.removesuffix("s")) == "prompt":
            prompts[item] = text.strip()
        else:
            rows.append((str(file), {"agent": agent, "item": item, "text": text if text.strip() else None}))

    for _, row in rows:
        row["prompt"] = prompts.get(str(row["item"]))
    return rows
