"""Find the header of a table among its lines, and name the columns of the rows below it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from youden.data.importers.column_names import infer_role
from youden.data.importers.foreign_files import import_error
from youden.text.sentences import format_count
from youden.text.spreadsheet_cells import GUARDED, remove_guards
from youden.types.pool import Json

AddNote = Callable[[str, str], None]
"""Function that receives an assumption, as a sentence without a full stop, and its location."""
Row = dict[str, Json]
Rows = list[tuple[str, Row]]
"""Location and values by column of each row."""
Records = list[tuple[str, list[Json]]]
"""Location and cells of each line; an empty cell is None."""
_NUMBER = re.compile(r"[-+]?[\d.,\s]*\d\s*%?")
_TOTAL = re.compile(
    r"(totals?|(grand|sub)[- ]?total|sum|mean|average|avg|median|count|overall|summe|gesamt|mittel(wert)?|durchschnitt|anzahl|"
    r"total(es|e|aux)?|suma|promedio|media(na)?|somme|moyenne|médiane|合計|平均|总计|合计)(?!\w)|合計|平均|总计|合计",
    re.IGNORECASE,
)
"""Labels at the beginning of a line of totals or means."""
_ROLES_OF_ONE_COLUMN = ("agent", "item", "prompt", "text")
"""Roles whose usual names must not be those of several different columns."""
_MAX_TITLES = 10
"""Number of lines with several cells among which the header is searched."""
_MAX_LINES_ABOVE = 100
"""Number of rows above an empty line that are compared with the lines below it."""
_MIN_EMPTY_FRACTION = 0.3
"""A column with at least this fraction of empty cells counts as a column with merged cells."""


def describe_length(record: Sequence[object], header: Sequence[object]) -> str:
    """Describe, for an error message, that a row and the header have different numbers of cells."""
    return f"it has {len(record)} fields, but the header has {len(header)}. Put texts with separators in double quotes."


def count_cells(record: Sequence[Json]) -> int:
    """Count the cells of a row or column that are not empty."""
    return len(record) - record.count(None)


def find_rows_below_header(records: Records, file: Path, add_note: AddNote, *, ragged: bool = False) -> Rows:
    """Find the header of a table, and return the rows below it.

    The header is the first line with several cells that is not a title. These parts are left out: empty columns, duplicate
    columns (same name and cells), repeated headers, and lines of totals at the end. If there is a column `guarded`, the
    apostrophes that youden added to formulas are removed.

    records : location and cells of each line; an empty cell is None
    file : file of the table, for error messages; it is not read
    add_note : callback that receives a sentence and its location, for example if lines above the header are left out
    ragged : whether rows may be longer than the header. The additional columns get names, for example "column 3". Empty cells
        after the last column of the header are always allowed.

    Returns the location of each row, and its values by column. The value of a missing cell is None. If the header has two
    lines, their names are joined, as in "gpt answer".

    Raises: ImportFormatError [import-empty] if there is no row below a header, or if no line has several cells; [import-csv] if a
        row is longer than the header and `ragged` is False, if there is a second table below the first, or if two different
        columns have a name that must be unique, such as "prompt".
    """
    below_empty_line = {location for (_, above), (location, _) in pairwise(records) if count_cells(above) == 0}
    lines, numbers = _remove_empty_lines_and_columns(records)
    header_position = _find_header_position(lines, file)
    header_location, _ = lines[header_position]
    header, body = _split_at_header(lines, header_position, file, add_note)
    _check_no_second_table(body, below_empty_line)
    cells_by_location = dict(records)
    names = cells_by_location[header_location]
    for location, _ in body:
        cells = cells_by_location[location]
        if not ragged and count_cells(cells[len(names) :]) > 0:
            raise import_error(location, describe_length(cells, names), slug="import-csv")

    positions = _name_columns(header, [record for _, record in body], numbers, file, add_note)
    return [(location, _make_row(record, positions)) for location, record in body]


def _remove_empty_lines_and_columns(records: Records) -> tuple[Records, list[int]]:
    """Remove the lines and the columns without any value, and make all lines equally long.

    Returns two lists: the remaining lines with their locations, and the number of each remaining column in the file, from 1.
    """
    filled_columns: set[int] = set()
    for _, record in records:
        filled_columns.update(number for number, cell in enumerate(record, 1) if cell is not None)
    numbers = sorted(filled_columns)

    lines: Records = []
    for location, record in records:
        if count_cells(record) > 0:
            lines.append((location, [record[number - 1] if number <= len(record) else None for number in numbers]))
    return lines, numbers


def _split_at_header(lines: Records, position: int, file: Path, add_note: AddNote) -> tuple[Sequence[Json], Records]:
    """Split the lines of a table into its header, which names the columns, and the rows below the header.

    Titles above the header, repeated headers and totals at the end are left out. A header of two lines is joined into one.

    lines : location and cells of each line that is not empty; all lines have the same number of cells
    position : position of the header in `lines`
    file : file of the table, for messages
    add_note : callback that receives a remark and its location if lines are joined or left out

    Returns the cells of the header, and the location and cells of each row.
    """
    if position > 0:
        first_location, _ = lines[0]
        add_note(f"{format_count(position, 'line')} above the header not read", first_location)

    header: Sequence[Json] = lines[position][1]
    body = lines[position + 1 :]
    # the first line below the header may contain labels, which do not recur in the second one
    joined_names = _join_header_lines(header, [record for _, record in body[:2]])
    if joined_names is not None:
        header = joined_names
        body = body[1:]
        longest_name = max(filter(None, joined_names), key=len)
        add_note(f"two header lines joined, as in {longest_name!r}", file.name)
    body = _remove_repeated_headers(body, header, add_note)
    return header, _remove_totals(body, add_note)


def _name_columns(
    header: Sequence[Json], records: Sequence[Sequence[Json]], numbers: Sequence[int], file: Path, add_note: AddNote
) -> dict[str, int]:
    """Return the position of each column by its name, after giving each column a unique name.

    - An empty column is left out, and so is a column that equals an earlier one in its name and all cells.
    - A column without a name gets its number in the file, as in "column 3".
    - If an earlier column has the same name, the number is appended, as in "name (3)".

    header : names of the columns, as the file has them; None for a column without a name
    records : cells of the lines below the header
    numbers : number of each column in the file, from 1
    file : file of the table, for messages
    add_note : callback that receives a remark and the name of the file if several columns have the same name

    Returns a dictionary: name of a column → its position in `header`, from 0.

    Raises: ImportFormatError [import-csv] if several columns have a name that only one can have, such as "prompt".
    """
    columns = list(zip(header, *records, strict=True))  # the first cell of each column is its name
    equal_positions = _find_equal_columns(columns)
    if equal_positions:
        add_note(
            f"{format_count(len(equal_positions), 'repeated column')} not read, with equal names and cells", file.name
        )

    repeated_names: list[str] = []
    position_by_name: dict[str, int] = {}
    for position, (column, number) in enumerate(zip(columns, numbers, strict=True)):
        is_empty = count_cells(column) == 0
        if is_empty or position in equal_positions:
            continue
        name = _collapse_spaces(column[0]) or f"column {number}"
        if name in position_by_name:
            repeated_names.append(name)
        while name in position_by_name:  # a loop, because the file itself may have a column "name (3)"
            name = f"{name} ({number})"
        position_by_name[name] = position
    _check_repeated_names(repeated_names, file, add_note)
    return position_by_name


def _find_equal_columns(columns: Sequence[tuple[Json, ...]]) -> set[int]:
    """Return the positions of columns that have the name and the cells of an earlier column.

    columns : name and cells of each column; the name is None for a column without one
    """
    equal_positions: set[int] = set()
    earlier_columns: set[tuple[Json, ...]] = set()
    for position, column in enumerate(columns):
        if column[0] is not None and column in earlier_columns:
            equal_positions.add(position)
        earlier_columns.add(column)
    return equal_positions


def _check_repeated_names(repeated_names: Sequence[str], file: Path, add_note: AddNote) -> None:
    """Report by a note that several columns of a table have the same name.

    repeated_names : names that several columns have
    file : file of the table, for messages
    add_note : callback that receives the text of the note and the name of the file

    Raises: ImportFormatError [import-csv] if a name suggests a role that only one column can have, such as "prompt". The file
        may then contain several tables next to each other.
    """
    for name in repeated_names:
        if infer_role(name) in _ROLES_OF_ONE_COLUMN:
            problem = (
                f"several columns have the name {name!r}. Give each column another name, or put tables that are next to each "
                "other below each other."
            )
            raise import_error(file, problem, slug="import-csv")
    if repeated_names:
        first_name = repeated_names[0]
        add_note(
            f"several columns have the name {first_name!r}: their position is added to it, as in 'name (3)'", file.name
        )


def _find_header_position(lines: Records, file: Path) -> int:
    """Find the header of a table, which may be below titles such as "Export | May 2026".

    Usually, the header is the first line with several cells. A later line is the header if two conditions hold:

    - The later line resembles a header (`_is_header`).
    - Each line above it may be a title: it has cells in at most half of the columns, and is not the first line of a header.

    lines : location and cells of each line that is not empty
    file : file of the table, for the error message

    Returns the position of the header in `lines`.

    Raises: ImportFormatError [import-empty] if no line is below a line with several cells.
    """
    records = [record for _, record in lines]
    candidates = [position for position, record in enumerate(records) if count_cells(record) > 1]
    if not candidates or candidates[0] + 1 == len(lines):
        counted_lines = format_count(len(lines), "filled line")
        problem = f"it has no row below a header: got {counted_lines}. Pass a table with a header and at least one row."
        raise import_error(file, problem, slug="import-empty")

    n_columns = max(map(count_cells, records))
    for position, next_position in pairwise(candidates[:_MAX_TITLES]):
        record, *next_two_lines = records[position : position + 3]
        has_two_header_lines = _join_header_lines(record, next_two_lines) is not None
        may_be_title = count_cells(record) <= 0.5 * n_columns and not has_two_header_lines
        if not may_be_title:
            break
        if _is_header(records[next_position : next_position + 2], n_columns=n_columns):
            return next_position
    return candidates[0]


def _is_header(lines: Sequence[Sequence[Json]], *, n_columns: int) -> bool:
    """Return whether a line resembles a header.

    - It has cells in more than half of the columns.
    - None of its cells is a number.
    - All its cells together have less than half as many characters as those of the line below it, which must exist.

    lines : cells of a line and of the line below it, if there is one
    """
    if len(lines) < 2:
        return False
    line, line_below = lines
    names = [str(cell) for cell in line if cell is not None]
    texts_below = [str(cell) for cell in line_below if cell is not None]
    fills_most_columns = len(names) > 0.5 * n_columns
    has_number = any(map(_is_number, names))
    is_short = len("".join(names)) < 0.5 * len("".join(texts_below))
    return fills_most_columns and not has_number and is_short


def _join_header_lines(header: Sequence[Json], first_rows: Sequence[Sequence[Json]]) -> list[str | None] | None:
    """Join the names of a header with the labels in the line below it, as in "gpt answer"; None if there are no labels.

    For example, the labels "answer" and "score" may be below both "gpt" and "llama", or "gpt" and "llama" below the merged
    cells of "Answers". The line below the header has labels if these conditions hold:

    - At least two names have the same labels, or only cells below merged cells have labels of their own.
    - The labels are different words, not numbers.
    - No label recurs in the next line, because a text that recurs may be a value.

    A column without a name gets the name of the column before it, as in merged cells.

    header : cells of the header
    first_rows : cells of the next two lines
    """
    if len(first_rows) < 2:
        return None
    labels, next_cells = first_rows
    names = _fill_forward(header)
    known_labels = _find_shared_labels(names, labels) or _find_labels_below_merged_cells(header, labels)
    are_words = all(isinstance(label, str) and not _NUMBER.fullmatch(label) for label in known_labels)
    are_different = len(set(known_labels)) == len(known_labels)
    has_label_below = any(cell in known_labels for cell in next_cells)
    if not known_labels or not are_words or not are_different or has_label_below:
        return None

    joined_names: list[str | None] = []
    for name, label in zip(names, labels, strict=True):
        distinct_parts = dict.fromkeys([_collapse_spaces(name), _collapse_spaces(label)])
        joined_names.append(" ".join(distinct_parts).strip() or None)
    return joined_names


def _find_shared_labels(names: Sequence[Json], labels: Sequence[Json]) -> tuple[Json, ...]:
    """Return the labels that two names share, such as ("answer", "score") below both "gpt" and "llama".

    names : name of each column; several columns may have one name
    labels : cell below the name of each column

    Returns at least two labels in the order of their columns; an empty tuple if no two names have the same labels.
    """
    labels_by_name: dict[Json, list[Json]] = {}
    for name, label in zip(names, labels, strict=True):
        if name is not None and label is not None:
            labels_by_name.setdefault(name, []).append(label)
    n_names_by_labels = Counter(map(tuple, labels_by_name.values()))
    for labels_of_name, n_names in n_names_by_labels.items():
        if n_names > 1 and len(labels_of_name) > 1:
            return labels_of_name
    return ()


def _find_labels_below_merged_cells(header: Sequence[Json], labels: Sequence[Json]) -> tuple[Json, ...]:
    """Return the labels below merged cells of a header, such as ("gpt", "llama") below "Answers".

    A name is in merged cells if the columns after it have no name. Below each other name, the second line must have no cell, or
    the name again, as in cells that are merged across both lines. At least one such name must exist.

    header : cells of the header, as the file has them
    labels : cells of the line below the header

    Returns the labels in the order of their columns; an empty tuple if the line below may be a row.
    """
    names = _fill_forward(header)
    merged_names = {name for cell, name in zip(header, names, strict=True) if cell is None} - {None}
    merged_labels: list[Json] = []
    has_other_name = False
    for cell, name, label in zip(header, names, labels, strict=True):
        if name in merged_names:
            merged_labels.append(label)
        elif cell is not None:
            if label not in (None, cell):
                return ()
            has_other_name = True
    return tuple(merged_labels) if has_other_name else ()


def _fill_forward(cells: Sequence[Json]) -> list[Json]:
    """Replace each missing cell (None) by the last cell before it that is not missing."""
    filled_cells: list[Json] = []
    for cell in cells:
        filled_cells.append(filled_cells[-1] if cell is None and filled_cells else cell)
    return filled_cells


def _collapse_spaces(cell: Json) -> str:
    """Convert a cell to text, with each run of white space replaced by one space; a missing cell becomes an empty text."""
    return "" if cell is None else " ".join(str(cell).split())


def _remove_repeated_headers(lines: Records, header: Sequence[Json], add_note: AddNote) -> Records:
    """Remove the lines that repeat the header, as on each page of a report or in files that were joined.

    lines : location and cells of each line below the header
    header : cells of the header
    add_note : callback that receives a remark on the removed lines

    Returns the other lines.

    Raises: ImportFormatError [import-csv] if a title is above the repeated header. A title is a line with a single cell, which
        may name the agent of the rows below it.
    """
    remaining: Records = []
    repeated_locations = []
    names = [_collapse_spaces(name) for name in header]
    cells_above: list[Json] = []
    for location, record in lines:
        # the first difference is enough, because cells may be long texts
        if any(_collapse_spaces(cell) != name for cell, name in zip(record, names, strict=True)):
            remaining.append((location, record))
            cells_above = [cell for cell in record if cell is not None]
            continue
        if len(cells_above) == 1:
            problem = (
                f"the header is repeated below the title {cells_above[0]!r}. Write the titles into a new column, and remove the "
                "repeated headers."
            )
            raise import_error(location, problem, slug="import-csv")
        repeated_locations.append(location)
    if repeated_locations:
        add_note(f"{format_count(len(repeated_locations), 'repeated header')} not read", repeated_locations[0])
    return remaining


def _check_no_second_table(rows: Records, below_empty_line: Collection[str]) -> None:
    """Raise ImportFormatError [import-csv] if another table begins below an empty line.

    rows : location and cells of each row of the table
    below_empty_line : locations of the lines that are below an empty line
    """
    is_below_empty_line = [location in below_empty_line for location, _ in rows]
    starts = [position for position in range(1, len(rows)) if is_below_empty_line[position]]
    # the rows from one empty line to the next are compared with the rows above them
    for start, end in pairwise([*starts, len(rows)]):
        section = [record for _, record in rows[start:end]]
        rows_above = [record for _, record in rows[max(0, start - _MAX_LINES_ABOVE) : start]]
        if len(section) > 1 and _is_second_table(section, rows_above):
            location, _ = rows[start]
            problem = (
                "a second table seems to begin here, below an empty line. Move it to another file, or remove the empty "
                "line if it belongs to the same table."
            )
            raise import_error(location, problem, slug="import-csv")


def _is_second_table(lines: Sequence[Sequence[Json]], lines_above: Sequence[Sequence[Json]]) -> bool:
    """Return whether some lines are a second table, with its own header and other columns, below the rows of a first table.

    Columns are compared only if at least half of the rows above have a text in them. Two conditions must hold:

    - The first line is a header: it has no number, and more than half of its cells are short. A short cell has less than half
      the mean length of the texts above it.
    - Below this header, at least one column has no texts.

    lines : cells of the lines, which are consecutive
    lines_above : cells of the rows above the lines, at least one
    """
    header, *rows = lines
    n_names = count_cells(header)
    if n_names < 2 or any(map(_is_number, header)):
        return False

    columns = zip(*rows, strict=True)
    columns_above = zip(*lines_above, strict=True)
    n_short_names = 0
    has_column_without_texts = False
    for name, column, column_above in zip(header, columns, columns_above, strict=True):
        texts_above = _list_texts(column_above)
        if len(texts_above) < 0.5 * len(lines_above):
            continue
        if not _list_texts(column):
            has_column_without_texts = True
        if name is not None and len(str(name)) < 0.5 * fmean(map(len, texts_above)):
            n_short_names += 1
    return has_column_without_texts and n_short_names > 0.5 * n_names


def _list_texts(cells: Sequence[Json]) -> list[str]:
    """List the cells that are neither empty nor numbers, as texts."""
    return [str(cell) for cell in cells if cell is not None and not _is_number(cell)]


def _remove_totals(lines: Records, add_note: AddNote) -> Records:
    """Remove the lines of totals or means at the end of a table of texts, and return the other lines.

    lines : location and cells of each line below the header
    add_note : callback that receives a remark on the removed lines, and its location
    """
    records = [record for _, record in lines]
    n_kept = len(lines)
    while n_kept > 2 and _is_total(records[n_kept - 1], records[: n_kept - 1]):
        n_kept -= 1

    totals = lines[n_kept:]
    if totals:
        first_location, first_total = totals[0]
        label = _list_texts(first_total)[0]
        add_note(f"{format_count(len(totals), 'line')} of totals not read ({label!r})", first_location)
    return lines[:n_kept]


def _is_total(record: Sequence[Json], records_above: Sequence[Sequence[Json]]) -> bool:
    """Return whether a line contains totals: its only text is a label such as "Total" or "Average length".

    All other cells are numbers or empty. At least two of the numbers are in columns whose cells above are mostly texts.
    """
    texts = _list_texts(record)
    if len(texts) != 1 or not _TOTAL.match(texts[0]):
        return False
    n_numbers_below_texts = 0
    for cell, *cells_above in zip(record, *records_above, strict=True):
        has_mostly_texts = len(_list_texts(cells_above)) > len(cells_above) / 2
        if has_mostly_texts and _is_number(cell):
            n_numbers_below_texts += 1
    return n_numbers_below_texts > 1


def _is_number(cell: Json) -> bool:
    """Return whether a cell holds a number, possibly as a text such as "4.5%"."""
    return isinstance(cell, int | float) or (isinstance(cell, str) and _NUMBER.fullmatch(cell.strip()) is not None)


def _make_row(record: Sequence[Json], positions: Mapping[str, int]) -> Row:
    """Return the cells of a line by column.

    In its exports, youden writes an apostrophe before a text that a spreadsheet would run as a formula, and lists the changed
    columns in the column `guarded`. If the table has this column, the apostrophes are removed (`remove_guards`).

    record : cells of the line
    positions : position of each column in the line
    """
    row: Row = {name: record[position] for name, position in positions.items()}
    return remove_guards(row) if GUARDED in row else row


def fill_down(rows: Rows, column: str, add_note: AddNote) -> None:
    """Fill the empty cells (None) of a column in place, each with the value above it.

    In files, a value is often written only in the first of several rows. Nothing is filled if the first cell is empty, or if
    less than 30% of the cells are empty.

    rows : location and values by column of each row; at least one
    column : name of the column; a row without this column has an empty cell
    add_note : callback that receives a sentence with the number of filled cells, and the location of the first row; it is called
        only if cells are filled
    """
    values = [row.get(column) for _, row in rows]
    n_empty = values.count(None)
    if values[0] is None or n_empty < _MIN_EMPTY_FRACTION * len(rows):
        return
    for (_, row), value in zip(rows, _fill_forward(values), strict=True):
        row[column] = value
    first_location, _ = rows[0]
    add_note(f"{format_count(n_empty, 'empty cell')} of {column!r} filled with the value above", first_location)
