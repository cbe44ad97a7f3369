"""Reads tables from files into rows: CSV, TSV, Excel, JSON, JSONL, Parquet, data sets saved by `datasets`, folders of texts.

Each row has its place, for messages. What a spreadsheet leaves open (separator, encoding, a title above the header, columns
without a name, merged cells) is inferred and noted. Text files are read by `csv` and sheets by `openpyxl`, not by pandas, which
keeps neither line numbers nor merged cells.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from youden.data.importers.column_names import role_of_name
from youden.data.importers.foreign_files import (
    as_list,
    as_object,
    files_of,
    inner,
    parse_json,
    parse_lines,
    read_json,
    read_lines,
    read_text,
    wrong,
)
from youden.data.importers.nested_rows import rows_of_json
from youden.data.pools.tidy_reader import long_fields
from youden.decompression import Unpacked, open_parquet, unpacked
from youden.errors import ImportFormatError, InputError
from youden.text.regular_files import check_regular
from youden.text.replacements import Replacements
from youden.text.sentences import counted
from youden.text.spreadsheet_cells import GUARDED, without_guards
from youden.types.pool import Json

Note = Callable[[str, str], None]
"""Takes what was assumed, and where."""
Row = dict[str, Json]
Rows = list[tuple[str, Row]]
Records = list[tuple[str, list[Json]]]
"""(place, cells) of each line; None where a cell is empty."""

EXCEL = (".xlsx", ".xlsm")
PLAIN = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".arrow")
SPREADSHEETS = (".csv", ".tsv", ".tab", *EXCEL)
ENDINGS = (*SPREADSHEETS, ".json", ".jsonl", ".ndjson", ".parquet")
_TEXTS = (".txt", ".md")
_ENCODING = "cp1252"
_MERGED = 0.3
"""Share of empty cells of a column below others from which on they are taken for one merged cell."""
_MERGED_CELL = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?\bref="\$?([A-Z]+)\$?(\d+):\$?\1\$?(\d+)"')
_CHUNK, _LONGEST_TAG = 1 << 20, 256
"""Bytes of XML that are searched at once, and the maximum length of one of these tags."""


def table_files(paths: Sequence[Path]) -> list[Path]:
    """Return the tables in files and folders, and the folders of saved data sets; empty if the folders hold texts alone."""
    saved = [split for path in paths for split in saved_splits(path)]
    if saved:
        return saved
    if all(path.is_dir() and not any(file.suffix.lower() in ENDINGS for file in path.rglob("*")) for path in paths):
        return []
    return files_of(paths, [f"*{ending}" for ending in ENDINGS], what=f"a table ({', '.join(ENDINGS)})")


def saved_splits(path: Path) -> list[Path]:
    """Return the folders of the splits that `save_to_disk` wrote at a path; none if it wrote nothing there."""
    if (path / "state.json").is_file():
        return [path]
    if (path / "dataset_dict.json").is_file():
        names = inner(read_json(path / "dataset_dict.json"), "splits")
        return [path / str(name) for name in as_list(names, path / "dataset_dict.json")]
    return []


def read_tables(file: Path, note: Note, replaced: Replacements) -> Iterator[tuple[str, Rows]]:
    """Yield the name and the rows of each table in a file."""
    if file.suffix.lower() in EXCEL:
        sheets = list(excel_rows(file, note))
        yield from sheets if len(sheets) > 1 else [(file.stem, rows) for _, rows in sheets]
    else:
        yield file.stem if file.is_file() else file.name, list(table_rows(file, replaced, note))


def table_rows(
    file: Path, replaced: Replacements | None = None, note: Note = lambda *_: None, *, exact: bool = False
) -> Iterator[tuple[str, Row]]:
    """Yield the place and the fields of each row of a file that holds one table.

    With `exact`, a text file must be UTF-8 with one header line, unique column names and rows of equal length.

    Raises
    ------
    ImportFormatError [import-format], [import-csv], [import-json], [import-encoding], [import-empty], [import-not-found]
    """
    match file.suffix.lower():
        case ".csv" | ".tsv" | ".tab":
            return _separated_rows(file, note, replaced, exact=exact)
        case ".jsonl" | ".ndjson":
            return read_lines(file, replaced)
        case ".json":
            return _json_rows(file, replaced)
        case ".parquet":
            return _parquet_rows(file)
    if (file / "state.json").is_file():
        return _arrow_rows(file)
    raise wrong(file, "it is no .csv, .tsv, .jsonl or .parquet. Convert it.", slug="import-format")


def _json_rows(file: Path, replaced: Replacements | None) -> Iterator[tuple[str, Row]]:
    """Yield the rows of one JSON value, or of lines of JSON."""
    text = read_text(file, replaced)
    try:
        found = parse_json(text, file, replaced)
    except ImportFormatError:
        yield from parse_lines(text, file, replaced)
    else:
        yield from ((f"{file}, row {number}", row) for number, row in enumerate(rows_of_json(found), 1))


def _parquet_rows(file: Path) -> Iterator[tuple[str, Row]]:
    try:
        check_regular(file)
        table = open_parquet(file)
    except (pa.ArrowException, OSError) as error:
        raise wrong(file, f"it is no Parquet file ({error}).", slug="import-format") from error
    with table:
        yield from _batch_rows(unpacked(table.iter_batches(batch_size=10_000), file), file)


def _arrow_rows(folder: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a split that `save_to_disk` wrote."""
    state = as_object(read_json(folder / "state.json"), folder / "state.json")
    files = [
        folder / str(inner(entry, "filename")) for entry in as_list(state.get("_data_files"), folder / "state.json")
    ]

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            try:
                with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as stream:
                    yield from unpacked(stream, file)
            except (pa.ArrowException, OSError) as error:
                problem = f"it is no Arrow stream ({error}). Save the dataset again."
                raise wrong(file, problem, slug="import-format") from error

    return _batch_rows(batches(), folder)


def _batch_rows(batches: Iterable[pa.RecordBatch], place: Path) -> Iterator[tuple[str, Row]]:
    """Yield rows with None for each NaN, which is how tables of floats write a missing value."""
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            number += 1
            values = {name: None if isinstance(one, float) and isnan(one) else one for name, one in row.items()}
            yield f"{place}, row {number}", values


def is_pool_header(names: Iterable[object]) -> bool:
    """Return whether columns are called as those of a pool."""
    present = {*names}
    return "text" in present and bool(present & {"item", "prompt"})


def separated(file: Path, separator: str, *, text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the fields of each record; a blank line is an empty list. Raises: ImportFormatError [import-csv]."""
    start = 1
    with long_fields():
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        try:
            for record in reader:
                place = f"{file}, line {start}"
                start = reader.line_num + 1
                yield place, record
        except csv.Error as error:
            problem = f"it is no CSV ({error}). Close every double quote."
            raise wrong(f"{file}, line {start}", problem, slug="import-csv") from error


def _separated_rows(file: Path, note: Note, replaced: Replacements | None, *, exact: bool) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a text file; with `exact` or the columns of a pool, exactly as they are written."""
    try:
        text = read_text(file, replaced)
    except ImportFormatError as error:
        raw = file.read_bytes() if error.slug == "import-encoding" else b"\0"
        if (
            exact
            or b"\0" in raw
            or is_pool_header(re.findall(r"\w+", raw.split(b"\n", 1)[0].decode("ascii", "ignore")))
        ):
            raise
        text = raw.decode(_ENCODING, errors="replace")
        note("no UTF-8, and read as Windows-1252", file.name)
    start = text.split("\n", 1)[0]
    if start.lower().startswith("sep=") and len(start.strip()) == 5:  # how Excel is told the separator
        separator, text = start.strip()[4], text.split("\n", 1)[1]
    else:
        separator = _separator(text, "," if file.suffix.lower() == ".csv" else "\t")
    records = separated(file, separator, text=text)
    place, header = next(records, ("", []))
    if exact or is_pool_header(header):
        return _exact_rows(file, header, records)
    cells: Records = [(place, [cell if cell.strip() else None for cell in header])]
    cells += ((place, [cell if cell.strip() else None for cell in record]) for place, record in records)
    return iter(_rows_below_header(cells, file, note))


def _exact_rows(
    file: Path, header: Sequence[str], records: Iterator[tuple[str, list[str]]]
) -> Iterator[tuple[str, Row]]:
    if twice := [name for name, n in Counter(header).items() if n > 1]:
        raise wrong(file, f"the column {twice[0]!r} is there twice. Rename one of them.", slug="import-csv")
    for place, record in records:
        if record and len(record) != len(header):
            raise wrong(place, _unequal(record, header), slug="import-csv")
        row: Row = dict(zip(header, record, strict=True)) if record else dict.fromkeys(header)
        yield place, without_guards(row) if GUARDED in row else row


def _unequal(record: Sequence[object], header: Sequence[object]) -> str:
    return f"it has {len(record)} fields, the header {len(header)}. Put texts with separators in double quotes."


def _separator(text: str, usual: str) -> str:
    """Return the separator that makes most of the first lines equally long, and of several columns."""

    def n_alike(separator: str) -> tuple[int, int, bool]:
        reader = csv.reader(io.StringIO(text[:200_000], newline=""), delimiter=separator, strict=True)
        sizes: Counter[int] = Counter()
        try:
            for record, _ in zip(reader, range(50), strict=False):
                sizes[len(record)] += len(record) > 1
        except csv.Error:
            pass
        size, n = max(sizes.items(), key=lambda found: found[1], default=(0, 0))
        return n, size, separator == usual

    return max(",;\t|", key=n_alike)


def excel_rows(file: Path, note: Note) -> Iterator[tuple[str, Rows]]:
    """Yield the title and the rows of each sheet that has the header of the first one. Raises: ImportFormatError."""
    first: list[str] | None = None
    for title, records in _sheets(file):
        if sum(sum(cell is not None for cell in record) > 1 for _, record in records) < 2:
            continue
        rows = _rows_below_header(records, file, note, ragged=True)
        first = first or list(rows[0][1])
        if list(rows[0][1]) == first:
            yield title, rows
        else:
            note("sheets with other columns not read", repr(title))


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
                place = f"{file.name}, sheet {sheet.title}"
                yield sheet.title, _records(sheet.iter_rows(values_only=True), merged, place)
        finally:
            book.close()
    except InputError:
        raise
    except Exception as error:  # whatever a damaged archive makes of it
        problem = f"it is no .xlsx that can be opened ({error}). Save it again, or as CSV."
        raise wrong(file, problem, slug="import-format") from error


def _merged_cells(source: IO[bytes]) -> dict[tuple[int, int], int]:
    """Find the merged cells of a sheet's XML that are one column wide: (first row, column) to last row, all from 1."""
    from openpyxl.utils import column_index_from_string

    found: dict[tuple[int, int], int] = {}
    before = b""
    while chunk := source.read(_CHUNK):
        for column, first, last in _MERGED_CELL.findall(before + chunk):
            found[int(first), column_index_from_string(column.decode())] = int(last)
        before = chunk[-_LONGEST_TAG:]
    return found


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


def _rows_below_header(records: Records, file: Path, note: Note, *, ragged: bool = False) -> Rows:
    """Return rows by column. The header is the first line with several cells; a line that is too short ends in empty cells, and a
    column without a name and a value is left out.

    ragged: whether a line may be longer than the header; the further columns then have no names.

    Raises: ImportFormatError [import-empty], [import-csv].
    """
    filled = [(place, record) for place, record in records if any(cell is not None for cell in record)]
    at = next((n for n, (_, record) in enumerate(filled) if sum(cell is not None for cell in record) > 1), None)
    if at is None or at + 1 == len(filled):
        problem = "it has no table of a header and rows. Give one with a column for the texts."
        raise wrong(file, problem, slug="import-empty")
    if at:
        note(f"{counted(at, 'line')} above the header not read", filled[0][0])
    header, body = filled[at][1], filled[at + 1 :]
    used = {column for column, cell in enumerate(header) if cell is not None}
    for place, record in body:
        if not ragged and any(cell is not None for cell in record[len(header) :]):
            raise wrong(place, _unequal(record, header), slug="import-csv")
        used.update(column for column, cell in enumerate(record) if cell is not None)
    columns = _unique_names(header, sorted(used))
    rows: Rows = []
    for place, record in body:
        cells = {name: record[column] if column < len(record) else None for name, column in columns.items()}
        rows.append((place, without_guards(cells) if GUARDED in columns else cells))
    return rows


def _unique_names(header: Sequence[Json], used: Sequence[int]) -> dict[str, int]:
    names: dict[str, int] = {}
    for column in used:
        cell = header[column] if column < len(header) else None
        name = f"column {column + 1}" if cell is None else " ".join(str(cell).split())
        while name in names:
            name = f"{name} ({column + 1})"
        names[name] = column
    return names


def fill_down(rows: Rows, column: str, note: Note) -> None:
    """Fill empty cells of a column in place with what is above them, if so many are empty that a cell was merged."""
    empty = sum(row.get(column) is None for _, row in rows)
    if not _MERGED * len(rows) <= empty < len(rows) or rows[0][1].get(column) is None:
        return
    last: Json = None
    for _, row in rows:
        last = row[column] = last if row.get(column) is None else row[column]
    note(f"{counted(empty, 'empty cell')} of {column!r} taken for the one above them", rows[0][0])


def text_rows(folder: Path, replaced: Replacements) -> Rows:
    """Read the texts AGENT/ITEM.txt of a folder; those of a folder `prompts` or `questions` are the items' prompts.

    Raises: ImportFormatError [import-empty].
    """
    files = sorted(file for file in folder.rglob("*/*") if file.is_file() and file.suffix.lower() in _TEXTS)
    if not files:
        raise wrong(
            folder,
            f"there is neither a table ({', '.join(ENDINGS)}) nor a folder of texts (.txt, .md) for each agent. "
            "Lay texts as AGENT/ITEM.txt. What an eval tool logged is brought by `youden import`: its --help names the tools.",
            slug="import-empty",
        )
    prompts: dict[str, str] = {}
    rows: Rows = []
    for file in files:
        agent, *parts = file.relative_to(folder).with_suffix("").parts
        item, text = "/".join(parts), read_text(file, replaced)
        if role_of_name(agent.removesuffix("s")) == "prompt":
            prompts[item] = text.strip()
        else:
            rows.append((str(file), {"agent": agent, "item": item, "text": text if text.strip() else None}))
    return [(place, {**row, "prompt": prompts.get(str(row["item"]))}) for place, row in rows]
