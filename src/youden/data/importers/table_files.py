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
from itertools import islice
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from youden.data.importers.column_names import infer_role
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
from youden.data.importers.nested_rows import UnequalListsError, extract_rows
from youden.data.importers.table_header import (
    Note,
    Records,
    Row,
    Rows,
    describe_length,
    find_rows_below_header,
)
from youden.data.pools.spool import format_excerpt
from youden.data.pools.tidy_reader import allow_long_csv_fields
from youden.decompression import iter_unpacked, open_parquet
from youden.errors import ImportFormatError
from youden.text.regular_files import check_regular
from youden.text.replacements import Replacements
from youden.text.spreadsheet_cells import GUARDED, remove_guards
from youden.types.pool import Json

if TYPE_CHECKING:
    import pandas as pd

EXCEL = (".xlsx", ".xlsm")
PLAIN = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet")
SPREADSHEETS = (".csv", ".tsv", ".tab", *EXCEL)
EXTENSIONS = (*SPREADSHEETS, ".json", ".jsonl", ".ndjson", ".parquet")
_TEXT_EXTENSIONS = (".txt", ".md")
_FALLBACK_ENCODING = "cp1252"
_LETTERS = re.compile(r"[^\W\d_\x00-\x7f]+")
"""Consecutive letters that are not in ASCII."""


def find_tables(paths: Sequence[Path]) -> list[Path]:
    """List the tables in files and folders; empty if there are none.

    If there are folders of splits (parts of a data set) that `datasets` saved, only these are listed.

    Raises: ImportFormatError [import-not-found] if a path does not exist; [import-empty] if one of several folders has
        no table.
    """
    splits = [split for path in paths for split in find_saved_splits(path)]
    if splits:
        return splits
    if not any(_contains_table(path) for path in paths):
        return []
    patterns = [f"*{extension}" for extension in EXTENSIONS]
    return find_files(paths, patterns, what=f"a table ({', '.join(EXTENSIONS)})")


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


def read_plain_frame(file: Path, note: Note) -> pd.DataFrame | None:
    """Read a plain CSV or TSV file by pandas, which is faster than `read_rows`; cells are texts, or NaN if empty.

    Returns None if the file is not plain (a header of unique names, no longer rows, no pool or guarded export of
    youden), not valid or empty; then call `read_rows`, which reads it or explains the fault.

    note : receives each assumption about the file, and its location
    """
    if file.suffix.lower() not in (".csv", ".tsv", ".tab") or not file.is_file():
        return None

    assumptions: list[str] = []
    try:
        text = _decode_separated_file(
            file, lambda assumption, _location: assumptions.append(assumption), None, strict=False
        )
        frame = _parse_plain_text(text, separator=_detect_separator(text, default=_get_usual_separator(file)))
    except (ImportFormatError, ValueError, csv.Error):
        return None
    if frame is None:
        return None

    for assumption in assumptions:
        note(assumption, file.name)
    return frame


def _read_first_record(text: str, separator: str) -> list[str]:
    """Return the fields in the first line of a CSV text; empty for a blank line."""
    first_line, _, _ = text.partition("\n")
    return next(csv.reader([first_line], delimiter=separator), [])


def _parse_plain_text(text: str, *, separator: str) -> pd.DataFrame | None:
    """Parse the text of a CSV file by pandas; None if it is not plain (`read_plain_frame`) or has no rows.

    Raises: ValueError or csv.Error if the text is not valid.
    """
    import pandas as pd  # takes long to load

    header = _read_first_record(text, separator)
    names = [" ".join(name.split()) for name in header]
    if not _are_plain_names(names) or is_pool_header(header):
        return None

    frame = pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False, na_values=[""])
    has_header = frame.columns.tolist() == header
    has_longer_rows = not isinstance(frame.index, pd.RangeIndex)  # pandas makes an index of additional fields
    if frame.empty or not has_header or has_longer_rows:
        return None
    return frame.set_axis(names, axis=1).dropna(how="all").reset_index(drop=True)


def _are_plain_names(names: Sequence[str]) -> bool:
    """Return whether names of columns are unique, not empty, at least two, and without the column `guarded`."""
    are_unique = len(set(names)) == len(names)
    return len(names) > 1 and all(names) and are_unique and GUARDED not in names


def _get_usual_separator(file: Path) -> str:
    """Return the separator that the suffix of a file suggests: a comma for .csv, and a tab for others."""
    return "," if file.suffix.lower() == ".csv" else "\t"


def read_tables(file: Path, note: Note, replaced: Replacements) -> Iterator[tuple[str, Rows]]:
    """Yield the name and the rows (location and values) of each table in a file; only an Excel file may have several.

    Parameters
    ----------
    file : Path
        File of a table, or folder of a split that `datasets` saved.
    note : callable
        Receives each assumption about the file, and its location.
    replaced : Replacements
        Counter of the values that are replaced because a pool cannot hold them.

    Yields
    ------
    name : str
        Name of the file without its suffix, or title of one of several sheets.
    rows : list of (str, dict)
        Rows, as those of `read_rows`, which also lists the errors.
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
    file: Path, replaced: Replacements | None = None, note: Note = lambda *_: None, *, strict: bool = False
) -> Iterator[tuple[str, Row]]:
    """Read the rows of a file that holds one table.

    Parameters
    ----------
    file : Path
        CSV, TSV, JSON, JSON Lines or Parquet file, or the folder that `save_to_disk` of `datasets` wrote for a split.
    replaced : Replacements, optional
        Counter of the values that are replaced because a pool cannot hold them, such as NaN.
    note : callable, optional
        Receives each assumption about the file, and its location. Default: assumptions are not reported.
    strict : bool, default False
        Whether a CSV or TSV file must be UTF-8 with a header, unique column names and rows of equal length, whose cells
        are not changed; a file with the header of a pool is always read so. If False, it may be Windows-1252 and have
        lines above the header, and blank cells become None.

    Returns
    -------
    iterator of (str, dict)
        Location of each row (file and line or row), and its values by column.

    Raises
    ------
    ImportFormatError
        [import-format], [import-csv], [import-json] or [import-encoding]: if the content does not fit the suffix;
        [import-empty]: if a CSV or TSV file has no rows and `strict` is False; [import-not-found]: if the file cannot
        be read. Some are raised during the iteration.
    """
    match file.suffix.lower():
        case ".csv" | ".tsv" | ".tab":
            return _read_separated_rows(file, note, replaced, strict=strict)
        case ".jsonl" | ".ndjson":
            return read_lines(file, replaced)
        case ".json":
            return _read_json_rows(file, replaced)
        case ".parquet":
            return _read_parquet_rows(file)
    if (file / "state.json").is_file():
        return _read_arrow_rows(file)
    suffix = repr(file.suffix) if file.suffix else "no suffix"
    problem = (
        f"its suffix is not that of a table: got {suffix}. Convert it to one of: {', '.join(EXTENSIONS)}. Rename it if only "
        "its suffix is wrong."
    )
    raise import_error(file, problem, slug="import-format")


def _read_json_rows(file: Path, replaced: Replacements | None) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row of a file with one JSON value, or with one object per line.

    replaced : counter of replaced values, such as NaN and invalid characters
    """
    text = read_text(file, replaced)
    try:
        value = parse_json(text, file, replaced)
    except ImportFormatError:
        yield from parse_lines(text, file, replaced)
    else:
        _check_only_objects(value, file)
        try:
            rows = extract_rows(value)
        except UnequalListsError as error:
            raise import_error(
                file,
                f"{error}. Write a null for each missing value, so that all lists are equally long.",
                slug="import-json",
            ) from error
        for number, row in enumerate(rows, 1):
            yield f"{file}, row {number}", row


def _check_only_objects(value: Json, file: Path) -> None:
    """Raise ImportFormatError [import-json] if a list has objects, which are rows, and other values, which would be lost."""
    elements = value if isinstance(value, list) else []
    if not any(isinstance(element, dict) for element in elements):
        return
    for number, element in enumerate(elements, 1):
        if element is not None and not isinstance(element, dict):
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
        batches = table.iter_batches(batch_size=10_000)
        yield from _iter_batch_rows(iter_unpacked(batches, file), file)


def _read_arrow_rows(folder: Path) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row of a split that `save_to_disk` of `datasets` wrote."""
    state_file = folder / "state.json"
    state = require_object(read_json(state_file), state_file)
    entries = require_list(state.get("_data_files"), state_file)
    files = [folder / str(get_nested(entry, "filename")) for entry in entries]
    return _iter_batch_rows(_read_arrow_batches(files), folder)


def _read_arrow_batches(files: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of rows (chunks of consecutive rows) in files that contain an Arrow stream.

    Raises: ImportFormatError [import-format] if a file is not an Arrow stream; InputError if its content is too large.
    """
    for file in files:
        try:
            with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as stream:
                yield from iter_unpacked(stream, file)
        except (pa.ArrowException, OSError) as error:
            raise import_error(
                file, f"it is not an Arrow stream ({error}). Save the dataset again.", slug="import-format"
            ) from error


def _iter_batch_rows(batches: Iterable[pa.RecordBatch], location: Path) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row. A NaN in a column of floats is a missing value, and becomes None."""
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
    """Yield the location (first line) and the fields of each record of a CSV text, the header first.

    Parameters
    ----------
    file : Path
        File, for locations and errors.
    separator : str
        Character between fields.
    text : str
        Content of the file.

    Yields
    ------
    location : str
        File and number of the record's first line.
    fields : list of str
        Empty for a blank line.

    Raises
    ------
    ImportFormatError
        [import-csv]: if a record is not valid CSV.
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


_SEPARATOR_LINE = re.compile(r"sep=(\S)\s*", re.IGNORECASE)
"""First line of a file that states the separator for Excel."""


def _read_separated_rows(
    file: Path, note: Note, replaced: Replacements | None, *, strict: bool
) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each row of a CSV or TSV file.

    The parameters and errors are those of `read_rows`.
    """
    text = _decode_separated_file(file, note, replaced, strict=strict)
    first_line, _, other_lines = text.partition("\n")
    declared = _SEPARATOR_LINE.fullmatch(first_line)
    if declared:
        separator = declared[1]
        text = other_lines
    else:
        separator = _detect_separator(text, default=_get_usual_separator(file))

    records = read_separated(file, separator, text=text)
    location, header = next(records, ("", []))
    if strict or is_pool_header(header):
        return _read_exact_rows(file, header, records)
    lines: Records = [(location, _replace_blanks(header))]
    lines += [(location, _replace_blanks(record)) for location, record in records]
    return iter(find_rows_below_header(lines, file, note))


def _decode_windows_text(file: Path) -> str | None:
    """Return the text of a table that is not UTF-8; None if it is not Windows-1252 either, or has the header of a pool.

    Raises: ImportFormatError [import-format] if the file is a ZIP archive.
    """
    raw = file.read_bytes()
    if raw.startswith(b"PK\x03\x04"):
        problem = "it is a ZIP archive, as Excel files are. Rename it to .xlsx if it is an Excel file."
        raise import_error(file, problem, slug="import-format")

    first_line = raw.split(b"\n", 1)[0].decode("ascii", "ignore")
    if is_pool_header(re.findall(r"\w+", first_line)):
        return None
    decoded = _decode_lines(raw.removeprefix(codecs.BOM_UTF8))
    return None if decoded is None or "\0" in decoded else decoded


def _decode_separated_file(file: Path, note: Note, replaced: Replacements | None, *, strict: bool) -> str:
    """Return the text of a CSV or TSV file in UTF-8 or, unless `strict` is True, Windows-1252.

    note : receives each assumption about the file, and its location
    replaced : counter of replaced characters; None to count none

    Raises: ImportFormatError [import-encoding] if the file cannot be decoded or has many null bytes; [import-format] if
        it is a ZIP archive.
    """
    try:
        text = read_text(file, replaced)
    except ImportFormatError as error:
        if strict or error.slug != "import-encoding":
            raise
        decoded = _decode_windows_text(file)
        if decoded is None:
            raise
        text = decoded
        note("not UTF-8, read as Windows-1252", file.name)
    if text.count("\0") > 0.2 * len(text) and not strict:
        problem = (
            "it contains many null bytes, as a file in UTF-16 without a byte order mark does. Save the file as UTF-8."
        )
        raise import_error(file, problem, slug="import-encoding")
    return text


def _decode_lines(raw: bytes) -> str | None:
    """Decode each line as UTF-8 or else as Windows-1252; None if the text seems to have another encoding.

    In European languages, accented letters are mostly single; in another encoding, most are consecutive.
    """
    lines: list[str] = []
    letters: list[str] = []
    for line in raw.splitlines(keepends=True):
        try:
            lines.append(line.decode())
        except UnicodeDecodeError:
            try:
                lines.append(line.decode(_FALLBACK_ENCODING))
            except UnicodeDecodeError:
                return None
            letters += _LETTERS.findall(lines[-1])

    n_consecutive = sum(len(run) for run in letters if len(run) > 2)
    are_foreign = n_consecutive > 0.5 * sum(map(len, letters))
    return None if are_foreign else "".join(lines)


def _replace_blanks(cells: Iterable[str]) -> list[Json]:
    """Replace cells that are empty or contain only white space by None."""
    return [cell if cell.strip() else None for cell in cells]


def _read_exact_rows(
    file: Path, header: Sequence[str], records: Iterator[tuple[str, list[str]]]
) -> Iterator[tuple[str, Row]]:
    """Yield the location and the values of each record; all values of a blank line are None.

    Raises: ImportFormatError [import-csv] if names of columns are equal, a record repeats the header, or has another
        length.
    """
    duplicates = [name for name, n in Counter(header).items() if n > 1]
    if duplicates:
        raise import_error(
            file, f"the column {duplicates[0]!r} occurs more than once. Rename one of them.", slug="import-csv"
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


def _detect_separator(text: str, default: str) -> str:
    """Return the separator that splits most of the first 50 lines into the same number of fields, at least two.

    If several separators split as many lines, the one with the most fields is returned, and `default` before others.
    """
    beginning = text[:200_000]
    return max(",;\t|", key=lambda separator: (*_count_equal_splits(beginning, separator), separator == default))


def _count_equal_splits(text: str, separator: str) -> tuple[int, int]:
    """Return the number of lines with the most frequent number of fields, and this number; (0, 0) without separators.

    Only the first 50 lines are read, up to the first error.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    n_lines_by_n_fields: Counter[int] = Counter()
    with suppress(csv.Error):
        for record in islice(reader, 50):
            if len(record) > 1:
                n_lines_by_n_fields[len(record)] += 1
    if not n_lines_by_n_fields:
        return 0, 0
    n_fields, n_lines = n_lines_by_n_fields.most_common(1)[0]
    return n_lines, n_fields


def read_text_folder(folder: Path, replaced: Replacements) -> Rows:
    """Read responses from the files AGENT/ITEM.txt (or .md) of a folder; prompts are in `prompts` or `questions`.

    Returns the path and the columns agent, item, text and prompt of each. Raises: ImportFormatError [import-empty]
    without files.

    replaced : counter of the characters that a pool cannot hold
    """
    prompts: dict[str, str] = {}
    rows: Rows = []
    for file in _list_text_files(folder):
        agent, *item_parts = file.relative_to(folder).with_suffix("").parts
        item = "/".join(item_parts)
        text = read_text(file, replaced)
        if infer_role(agent.removesuffix("s")) == "prompt":
            prompts[item] = text.strip()
        else:
            is_blank = not text.strip()
            rows.append((str(file), {"agent": agent, "item": item, "text": None if is_blank else text}))

    for _, row in rows:
        row["prompt"] = prompts.get(str(row["item"]))
    return rows


def _list_text_files(folder: Path) -> list[Path]:
    """List the texts in the subfolders of a folder. Raises: ImportFormatError [import-empty] if there are none."""
    paths = sorted(folder.rglob("*/*"))
    files = [path for path in paths if path.is_file() and path.suffix.lower() in _TEXT_EXTENSIONS]
    if not files:
        raise import_error(
            folder,
            f"the folder has neither a table ({', '.join(EXTENSIONS)}) nor a folder of texts (.txt, .md) for each agent. "
            "Save texts as AGENT/ITEM.txt. For logs of an evaluation tool, run `youden import`; its --help lists the tools.",
            slug="import-empty",
        )
    return files
