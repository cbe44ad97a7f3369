"""Read the rows of tables in CSV, TSV, Excel, JSON or Parquet, of saved data sets, and of folders of texts.

Text files are read by `csv` and sheets by `openpyxl`: pandas keeps neither line numbers, which messages need, nor
merged cells. What a spreadsheet does not state is inferred and noted: separator, encoding, titles above the header,
unnamed columns and merged cells.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from itertools import chain, islice
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from youden.data.importers.column_names import make_word_set, normalize_name
from youden.data.importers.excel_files import read_excel_sheets
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
from youden.data.importers.table_header import AddNote, Records, Row, Rows, describe_length, find_rows_below_header
from youden.data.pools.spool import format_excerpt
from youden.data.pools.tidy_reader import allow_long_csv_fields
from youden.decompression import iter_unpacked, open_parquet
from youden.errors import ImportFormatError
from youden.text.json_text import RepeatedKeyError
from youden.text.regular_files import check_regular
from youden.text.replacements import Replacements
from youden.text.spreadsheet_cells import GUARDED, remove_guards
from youden.types.pool import Json

if TYPE_CHECKING:
    import pandas as pd

EXCEL = (".xlsx", ".xlsm")
SPREADSHEETS = (".csv", ".tsv", ".tab", *EXCEL)
EXTENSIONS = (*SPREADSHEETS, ".json", ".jsonl", ".ndjson", ".parquet")
_TEXT_EXTENSIONS = (".txt", ".md")
_PROMPT_FOLDERS = make_word_set("prompt question input instruction query task")
"""Names of folders of prompts, without a plural s. Longer names, such as "new-prompt", are those of agents."""
_INVALID_BYTES = re.compile("[\udc80-\udcff]+")
"""Consecutive bytes that are not valid in UTF-8, as the error handler `surrogateescape` decodes them."""


def find_tables(paths: Sequence[Path]) -> list[Path]:
    """List the files of tables in files and folders.

    The package `datasets` saves each part of a data set, such as "test", in a folder of its own, called a split. If there are
    folders of splits, each of them is a table, and all other tables are ignored.

    paths : files and folders

    Returns the files of tables, or only folders of splits; an empty list if there are neither.

    Raises: ImportFormatError [import-not-found] if a path does not exist; [import-empty] if one of several folders contains
        no table.
    """
    splits = list(chain.from_iterable(map(find_saved_splits, paths)))
    if splits:
        return splits
    if not any(_contains_table(path) for path in paths):
        return []
    patterns = [f"*{extension}" for extension in EXTENSIONS]
    return find_files(paths, patterns, expected_kind=f"a table ({', '.join(EXTENSIONS)})")


def _contains_table(path: Path) -> bool:
    """Return whether a path is a file, or a folder that contains a file of a table."""
    return not path.is_dir() or any(file.suffix.lower() in EXTENSIONS for file in path.rglob("*"))


def find_saved_splits(path: Path) -> list[Path]:
    """List the folders, one per split, that `save_to_disk` of `datasets` wrote; empty if it wrote none."""
    if (path / "state.json").is_file():
        return [path]
    if (path / "dataset_dict.json").is_file():
        names = get_nested(read_json(path / "dataset_dict.json"), "splits")
        return [path / str(name) for name in require_list(names, path / "dataset_dict.json")]
    return []


def read_plain_frame(file: Path, add_note: AddNote) -> pd.DataFrame | None:
    """Read a plain CSV or TSV file by pandas, which is faster than `read_rows`.

    A file is plain if it meets all of these conditions:

    - Its first line is a header of at least two unique names.
    - No row has more fields than the header or repeats the header.
    - The header is not the header of a pool, because the cells of a pool must not be changed.
    - The header has no name `guarded`, which marks files that youden has exported.

    file : file of a table
    add_note : callback that receives each assumption about the file, and its location

    Returns the rows of `read_rows`, with texts as cells and NaN for an empty cell. The result is None if the file is not
    plain, is not valid or has no rows. In this case, call `read_rows`, which reads the file or explains the fault.
    """
    if file.suffix.lower() not in (".csv", ".tsv", ".tab") or not file.is_file():
        return None

    assumptions: list[str] = []
    try:
        text = _decode_separated_file(
            file, lambda assumption, _location: assumptions.append(assumption), None, strict=False
        )
        frame = _parse_plain_text(text, separator=_detect_separator(text, file))
    except (ImportFormatError, ValueError, csv.Error):
        return None
    if frame is None:
        return None

    for assumption in assumptions:
        add_note(assumption, file.name)
    return frame


def _parse_plain_text(text: str, *, separator: str) -> pd.DataFrame | None:
    """Parse the text of a CSV file with pandas; return None if it is not plain (see `read_plain_frame`) or has no rows.

    Raises: ValueError or csv.Error if the text is not valid.
    """
    import pandas as pd  # slow to import

    first_line, _, _ = text.partition("\n")
    header = next(csv.reader([first_line], delimiter=separator), [])
    names = [" ".join(name.split()) for name in header]
    are_plain = len(names) > 1 and all(names) and len(set(names)) == len(names) and GUARDED not in names
    if not are_plain or is_pool_header(header):
        return None

    frame = pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False, na_values=[""])
    has_header = frame.columns.tolist() == header
    has_longer_rows = not isinstance(frame.index, pd.RangeIndex)  # pandas makes an index of additional fields
    has_repeated_header = (frame == frame.columns).all(axis=1).any()
    if frame.empty or not has_header or has_longer_rows or has_repeated_header:
        return None
    return frame.set_axis(names, axis=1).dropna(how="all").reset_index(drop=True)


def iter_plain_locations(file: Path) -> Iterator[str]:
    """Yield the location of each row of `read_plain_frame`: the file, and the number of the first line of the row.

    file : CSV or TSV file that `read_plain_frame` reads
    """
    text = _decode_separated_file(file, add_note=lambda *_: None, replaced=None, strict=False)
    separator = _detect_separator(text, file)
    records = read_separated(file, separator, text=text)
    for location, record in islice(records, 1, None):
        if any(record):
            yield location


def read_tables(file: Path, add_note: AddNote, replaced: Replacements) -> Iterator[tuple[str, Rows]]:
    """Yield the name and the rows of each table in a file.

    An Excel file yields one table per sheet (`read_excel_sheets`). Any other file yields one table, which may have no rows.
    The name is the name of the file without its suffix or, if there are several sheets, the title of the sheet. The rows are a
    list of pairs: the location (file and line or row) and the values by column. Hidden sheets, sheets without a table, and sheets
    whose columns are not similar to those of the first sheet are skipped.

    file : Excel, CSV, TSV, JSON, JSON Lines or Parquet file, or folder of a split that `datasets` saved
    add_note : callback that receives each assumption about the file (a sentence), and its location
    replaced : counts the values that reading replaces, such as NaN, which becomes None

    Raises: ImportFormatError [import-format], [import-csv], [import-json] or [import-encoding] if the content does not have the
        format of the file's suffix, or if the suffix is unknown; [import-empty] if a CSV file, or a sheet with a header, has no
        rows; [import-not-found] if the file cannot be read. InputError if the content of a Parquet file or split is too large
        when it is decompressed. The errors are raised during the iteration.
    """
    if file.suffix.lower() not in EXCEL:
        name = file.stem if file.is_file() else file.name
        yield name, list(read_rows(file, replaced, add_note))
        return

    sheets = list(read_excel_sheets(file, add_note))
    for title, rows in sheets:
        yield title if len(sheets) > 1 else file.stem, rows


def read_rows(
    file: Path, replaced: Replacements | None = None, add_note: AddNote = lambda *_: None, *, strict: bool = False
) -> Iterator[tuple[str, Row]]:
    """Read the rows of a file that holds one table.

    Parameters
    ----------
    file : Path
        CSV, TSV, JSON, JSON Lines or Parquet file, or the folder that `save_to_disk` of `datasets` wrote for a split.
    replaced : Replacements, optional
        Counter of the values that are replaced because a pool cannot hold them: NaN by None, unpaired surrogates by U+FFFD.
        Default: they are replaced, but not counted.
    add_note : callable, optional
        Function that is called with each assumption about the file (a sentence), and its location. Default: assumptions
        are not reported.
    strict : bool, default False
        Whether a CSV or TSV file must be UTF-8 and have a header in its first line, unique column names and rows of equal
        length; its cells are then kept as they are. If False, a file may also be Windows-1252 and have lines above the
        header, and blank cells become None. But if the first line is the header of a pool, the file is read as if True.

    Returns
    -------
    iterator of (str, dict)
        Location of each row (the file, and the number of the line or row), for error messages; and its values by column.

    Raises
    ------
    ImportFormatError
        [import-format], [import-csv], [import-json] or [import-encoding] if the content does not have the format of the
        file's extension, or if the extension is another one, for example .xlsx; [import-empty] if a CSV or TSV file that is
        not read strictly has no rows; [import-not-found] if the file cannot be read. Some errors are only raised during the
        iteration.
    InputError
        If the content of a Parquet file or split is too large when it is decompressed.
    """
    match file.suffix.lower():
        case ".csv" | ".tsv" | ".tab":
            return _read_separated_rows(file, add_note, replaced, strict=strict)
        case ".jsonl" | ".ndjson":
            return read_lines(file, replaced)
        case ".json":
            return _read_json_rows(file, replaced)
        case ".parquet":
            return _read_parquet_rows(file)
    if (file / "state.json").is_file():
        return _iter_batch_rows(_read_arrow_batches(file), file)
    suffix = repr(file.suffix) if file.suffix else "no suffix"
    problem = (
        f"its suffix is not that of a table: got {suffix}. Convert it to one of: {', '.join(EXTENSIONS)}. Rename it if only "
        "its suffix is wrong."
    )
    raise import_error(file, problem, slug="import-format")


def _read_json_rows(file: Path, replaced: Replacements | None) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row of a file in JSON or JSON Lines.

    A file in JSON has one value with all rows. A file in JSON Lines has one object per line.

    replaced : counts the values that reading replaces, such as NaN, which becomes None; None to count nothing
    """
    text = read_text(file, replaced)
    try:
        value = parse_json(text, file, replaced)
    except ImportFormatError as error:
        if isinstance(error.__cause__, RepeatedKeyError):
            raise
        yield from parse_lines(text, file, replaced)  # the file is not one JSON value
        return

    _check_only_objects(value, file)
    for number, row in enumerate(extract_rows(value, file), 1):
        yield f"{file}, row {number}", row


def _check_only_objects(value: Json, file: Path) -> None:
    """Raise ImportFormatError [import-json] if a list mixes objects, which are rows, with values other than objects and null."""
    if not isinstance(value, list) or not any(isinstance(element, dict) for element in value):
        return
    for number, element in enumerate(value, 1):
        if not isinstance(element, dict | None):
            problem = (
                f"it is not an object, as other rows are: got {format_excerpt(element)}. Write an object, or remove it."
            )
            raise import_error(f"{file}, row {number}", problem, slug="import-json")


def _read_parquet_rows(file: Path) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row of a Parquet file.

    Raises: ImportFormatError [import-format] if it is not a Parquet file; InputError if its content is too large.
    """
    try:
        check_regular(file)
        table = open_parquet(file)
    except (pa.ArrowException, OSError) as error:
        raise import_error(
            file, f"it is not a Parquet file ({error}). Write it again.", slug="import-format"
        ) from error
    with table:
        yield from _iter_batch_rows(iter_unpacked(table.iter_batches(batch_size=10_000), file), file)


def _read_arrow_batches(folder: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of rows (chunks of consecutive rows) of a split that `save_to_disk` of `datasets` wrote.

    Raises: ImportFormatError [import-format] if a file is not an Arrow stream; InputError if its content is too large.
    """
    state_file = folder / "state.json"
    state = require_object(read_json(state_file), state_file)
    for entry in require_list(state.get("_data_files"), state_file):
        file = folder / str(get_nested(entry, "filename"))
        try:
            with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as stream:
                yield from iter_unpacked(stream, file)
        except (pa.ArrowException, OSError) as error:
            raise import_error(
                file, f"it is not an Arrow stream ({error}). Save the dataset again.", slug="import-format"
            ) from error


def _iter_batch_rows(batches: Iterable[pa.RecordBatch], location: Path) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row.

    A NaN in a column of floats is a missing value, and becomes None. Dates and times become texts, which may be ids.
    """
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            number += 1
            for name, value in row.items():
                if isinstance(value, float) and isnan(value):
                    row[name] = None
                elif isinstance(value, date):
                    row[name] = str(value)
            yield f"{location}, row {number}", row


def is_pool_header(names: Iterable[object]) -> bool:
    """Return whether columns have the names that a pool has: text, and item or prompt."""
    present = {*names}
    return "text" in present and bool(present & {"item", "prompt"})


def read_separated(file: Path, separator: str, *, text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the location and the fields of each record of a CSV text, the header first; a blank line is an empty list.

    A location is "FILE, line N", with the number N of the record's first line, from 1. Fields are not converted. A record may
    have more or fewer fields than the header.

    file : path of the file, for locations and errors; it is not read
    separator : one character between the fields, for example a comma or a tab
    text : content of the file

    Raises: ImportFormatError [import-csv] if a record is not valid CSV.
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
    file: Path, add_note: AddNote, replaced: Replacements | None, *, strict: bool
) -> Iterator[tuple[str, Row]]:
    """Read a CSV or TSV file, and yield the location and the values of each row.

    The separator is the one that splits most lines into the same number of fields. The header is found in one of two ways:

    - If `strict` is True, or if the first line has the columns of a pool, the first line is the header. Cells stay as they
      are.
    - Otherwise, there may be titles above the header, and blank cells become None.

    add_note : callback that receives each assumption about the file, and its location
    replaced : counts the invalid characters that are replaced; None to count nothing
    strict : whether the first line must be the header, see `read_rows`

    Raises: ImportFormatError if the file cannot be decoded or is not a table; see `read_rows`.
    """
    text = _decode_separated_file(file, add_note, replaced, strict=strict)
    separator = _detect_separator(text, file)
    records = read_separated(file, separator, text=text)

    location, header = next(records, ("", []))
    if strict or is_pool_header(header):
        return _read_exact_rows(file, header, records)
    lines: Records = [(location, _replace_blanks(header))]
    lines += [(location, _replace_blanks(record)) for location, record in records]
    return iter(find_rows_below_header(lines, file, add_note))


def _decode_windows_text(file: Path) -> str | None:
    """Decode a table that is not UTF-8 as Windows-1252; return None if it seems to have a different encoding.

    Bytes that are valid UTF-8 are decoded as UTF-8, and only the others as Windows-1252. These signs suggest a different
    encoding:

    - A byte has no meaning in Windows-1252, or the text has null bytes.
    - Most of the invalid bytes are consecutive. In European languages, accented letters are mostly single.
    - The table has the header of a pool. Pools are written in UTF-8.

    Raises: ImportFormatError [import-format] if the file is a ZIP archive.
    """
    raw = file.read_bytes()
    if raw.startswith(b"PK\x03\x04"):
        problem = "it is a ZIP archive, as Excel files are. Rename it to .xlsx if it is an Excel file."
        raise import_error(file, problem, slug="import-format")

    text = raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    runs = _INVALID_BYTES.findall(text)
    n_consecutive = sum(len(run) for run in runs if len(run) > 2)
    has_other_encoding = "\0" in text or n_consecutive > 0.5 * sum(map(len, runs))
    first_line, _, _ = text.partition("\n")
    if has_other_encoding or is_pool_header(re.findall(r"\w+", first_line)):
        return None
    try:
        return _INVALID_BYTES.sub(_decode_match_as_windows, text)
    except UnicodeDecodeError:  # a byte has no meaning in Windows-1252
        return None


def _decode_match_as_windows(match: re.Match[str]) -> str:
    """Decode the bytes that `surrogateescape` has kept in a part of a text as Windows-1252."""
    return match[0].encode("utf-8", "surrogateescape").decode("cp1252")


def _decode_separated_file(file: Path, add_note: AddNote, replaced: Replacements | None, *, strict: bool) -> str:
    """Read the text of a CSV or TSV file and detect its encoding.

    The file is read as UTF-8 or in the encoding that its byte order mark states. A file in neither encoding is read as
    Windows-1252, the encoding that Excel uses in Western Europe.

    add_note : callback that receives each assumption about the file, and its location
    replaced : counts the invalid characters that are replaced; None to count nothing
    strict : if True, Windows-1252 is not tried, and null bytes are accepted

    Raises: ImportFormatError [import-encoding] if the file cannot be decoded or has many null bytes; [import-format] if
        it is a ZIP archive.
    """
    try:
        text = read_text(file, replaced)
    except ImportFormatError as error:
        is_wrong_encoding = error.slug == "import-encoding"
        windows_text = _decode_windows_text(file) if is_wrong_encoding and not strict else None
        if windows_text is None:
            raise
        text = windows_text
        add_note("not UTF-8, read as Windows-1252", file.name)

    if not strict and text.count("\0") > 0.2 * len(text):
        problem = (
            "it contains many null bytes, as a file in UTF-16 without a byte order mark does. Save the file as UTF-8."
        )
        raise import_error(file, problem, slug="import-encoding")
    return text


def _replace_blanks(cells: Iterable[str]) -> list[Json]:
    """Replace cells that are empty or contain only white space by None."""
    return [cell if cell.strip() else None for cell in cells]


def _read_exact_rows(
    file: Path, header: Sequence[str], records: Iterator[tuple[str, list[str]]]
) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each record; all values of a blank line are None.

    records : location and fields of each line after the header

    Raises: ImportFormatError [import-csv] if two columns have the same name, or if a record repeats the header or has another
        number of fields.
    """
    for name, n_columns in Counter(header).items():
        if n_columns > 1:
            raise import_error(
                file, f"the column {name!r} occurs more than once. Rename one of them.", slug="import-csv"
            )
    for location, record in records:
        if record and len(record) != len(header):
            raise import_error(location, describe_length(record, header), slug="import-csv")
        if record == header:
            raise import_error(location, "it repeats the header. Remove it.", slug="import-csv")
        row: Row = dict(zip(header, record, strict=True)) if record else dict.fromkeys(header)
        if GUARDED in row:
            row = remove_guards(row)
        yield location, row


def _detect_separator(text: str, file: Path) -> str:
    """Return the separator that splits most of the first 50 lines into the same number of fields, at least two.

    If several separators split equally many lines, the one with more fields is returned. If these numbers are equal, too, the
    suffix decides: a comma for .csv, and a tab for all others.

    text : content of the file
    file : path of the file
    """
    other_separators = ",;\t|"
    usual_separator = "," if file.suffix.lower() == ".csv" else "\t"
    beginning = text[:200_000]
    # of several maxima, `max` returns the first one
    return max(usual_separator + other_separators, key=lambda separator: _count_equal_splits(beginning, separator))


def _count_equal_splits(text: str, separator: str) -> tuple[int, int]:
    """Count the lines that a separator splits into the same number of fields.

    Only the first 50 lines are read, up to the first error of the CSV format.

    Returns the number of lines with the most frequent number of fields, and this number of fields; (0, 0) if the separator
    occurs in no line.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    n_lines_by_n_fields: Counter[int] = Counter()
    with suppress(csv.Error):
        n_lines_by_n_fields.update(len(record) for record in islice(reader, 50) if len(record) > 1)
    numbers = [(n_lines, n_fields) for n_fields, n_lines in n_lines_by_n_fields.items()]
    return max(numbers, default=(0, 0))  # most lines or, if two numbers of lines are equal, most fields


def find_texts(folder: Path) -> list[Path]:
    """Return the files .txt and .md in the subfolders of a folder, sorted."""
    paths = sorted(folder.rglob("*/*"))
    return [path for path in paths if path.is_file() and path.suffix.lower() in _TEXT_EXTENSIONS]


def read_text_folder(folder: Path, replaced: Replacements) -> Rows:
    """Read responses from the files AGENT/ITEM.txt (or .md) of a folder.

    The files in a folder whose name means prompts or questions (`_PROMPT_FOLDERS`) are the prompts of the items.

    folder : folder with one subfolder per agent
    replaced : counts the invalid characters that are replaced

    Returns, for each response, the path of its file, and the values of the columns agent, item, text and prompt.

    Raises: ImportFormatError [import-empty] if the folder contains no files of agents.
    """
    prompts: dict[str, str] = {}
    rows: Rows = []
    for file in find_texts(folder):
        agent, *item_parts = file.relative_to(folder).with_suffix("").parts
        item = "/".join(item_parts)
        text = read_text(file, replaced)
        if normalize_name(agent).removesuffix("s") in _PROMPT_FOLDERS:
            prompts[item] = text.strip()
        else:
            is_blank = not text.strip()
            rows.append((str(file), {"agent": agent, "item": item, "text": None if is_blank else text}))
    if not rows:
        raise import_error(
            folder,
            f"the folder has neither a table ({', '.join(EXTENSIONS)}) nor a folder of texts (.txt, .md) for each agent. "
            "Save texts as AGENT/ITEM.txt. For logs of an evaluation tool, run `youden import`; its --help lists the tools.",
            slug="import-empty",
        )

    for _, row in rows:
        row["prompt"] = prompts.get(str(row["item"]))
    return rows
