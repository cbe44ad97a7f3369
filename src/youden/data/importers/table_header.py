"""Find the header of a table among its lines, and name the columns of the rows below it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
from statistics import fmean

from youden.data.importers.column_names import infer_role
from youden.data.importers.foreign_files import import_error
from youden.errors import ImportFormatError
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
    """Describe, for an error message, that a row has more cells than the header."""
    return f"it has {len(record)} fields, but the header has {len(header)}. Put texts with separators in double quotes."


def count_cells(record: Sequence[Json]) -> int:
    """Count the cells of a row that are not empty."""
    return len(record) - record.count(None)


def find_rows_below_header(records: Records, file: Path, note: Note, *, ragged: bool = False) -> Rows:
    """Find the header of a table, and return the rows below it.

    The header is the first line with several cells that is not a title.

    Parameters
    ----------
    records : list of (str, list)
        Location and cells of each line.
    file : Path
        File of the table, for error messages.
    note : callable
        Receives a sentence and its location if there are lines above the header, two header lines, repeated headers, lines of
        totals, or several columns of one name.
    ragged : bool, default False
        Whether rows may be longer than the header; the additional columns get names.

    Returns
    -------
    list of (str, dict)
        Location and values by column of each row, None for a missing cell. Columns without name and values, and
        columns with the name and the cells of an earlier one, are left out. A column with values but without a name is called,
        for example, "column 3". If an earlier column has the same name, the number of the column is added to its name, as in
        "name (3)". The names of two header lines are joined, as in "gpt answer". Repeated headers, and lines of totals at the
        end, are left out.

    Raises
    ------
    ImportFormatError
        [import-empty]: if no row is below a header; [import-csv]: if a row is longer than the header and `ragged` is False, if
        there are several tables below each other, or if several columns have a name that only one column can have, such as
        "prompt". Two tables next to each other have such repeated names.
    """
    header, body = _split_at_header(records, file, note)
    _check_no_second_table(records, header, [location for location, _ in body])
    for location, record in body:
        if not ragged and count_cells(record[len(header) :]) > 0:
            raise import_error(location, describe_length(record, header), slug="import-csv")
    positions = _find_column_positions(header, [record for _, record in body], file, note)
    return [(location, _make_row(record, positions)) for location, record in body]


def _split_at_header(records: Records, file: Path, note: Note) -> tuple[list[Json], Records]:
    """Split the lines of a table into its header, which names the columns, and the rows below the header.

    Empty lines, titles above the header, repeated headers and totals at the end are left out. A header of two lines is joined
    into one.

    records : location and cells of each line
    file : file of the table, for messages
    note : function that is called with a remark and its location if lines are joined or left out; empty lines cause no remark

    Returns the cells of the header, and the location and cells of each row.

    Raises: ImportFormatError [import-empty] if no line is below a header.
    """
    lines = [(location, record) for location, record in records if count_cells(record) > 0]
    candidates = [position for position, (_, record) in enumerate(lines) if count_cells(record) > 1]
    if not candidates or candidates[0] + 1 == len(lines):
        raise _make_no_row_error(file, n_lines=len(lines))

    n_above = _find_header_position(lines, candidates)
    if n_above > 0:
        first_location, _ = lines[0]
        note(f"{format_count(n_above, 'line')} above the header not read", first_location)

    # the line below the header may be a second line of the header
    _, header = lines[n_above]
    body = lines[n_above + 1 :]
    joined_header = _join_header_lines(header, [record for _, record in body[:2]])
    if joined_header is not None:
        header = joined_header
        body = body[1:]
        note(f"two header lines joined, as in {_get_longest_name(header)!r}", file.name)

    body = _remove_repeated_headers(body, header, note)
    return header, _remove_totals(body, note)


def _make_no_row_error(file: Path, *, n_lines: int) -> ImportFormatError:
    """Make the error [import-empty] for a table that has no row below its header.

    n_lines : number of lines of the file that are not empty
    """
    counted_lines = format_count(n_lines, "filled line")
    problem = f"it has no row below a header: got {counted_lines}. Pass a table with a header and at least one row."
    return import_error(file, problem, slug="import-empty")


def _find_column_positions(
    header: Sequence[Json], records: Sequence[Sequence[Json]], file: Path, note: Note
) -> dict[str, int]:
    """Find the positions of the columns that have a name or values, and give each of these columns a unique name.

    A column with the name and the cells of an earlier column is left out.

    header : names of the columns, as the file has them; None for a column without a name
    records : cells of the lines below the header
    file : file of the table, for messages
    note : function that is called with a remark and the name of the file if several columns have the same name

    Returns the position of each column, counted from 0, by its unique name, such as "answer" or "answer (3)".

    Raises: ImportFormatError [import-csv] if several columns have a name that only one can have, such as "prompt".
    """
    used_positions: set[int] = set()
    for record in (header, *records):
        used_positions.update(position for position, cell in enumerate(record) if cell is not None)

    equal_positions = _find_equal_columns(header, records)
    if equal_positions:
        note(f"{format_count(len(equal_positions), 'repeated column')} not read, with equal names and cells", file.name)
    kept_header = [None if position in equal_positions else cell for position, cell in enumerate(header)]
    _check_repeated_names(kept_header, file, note)
    return _name_columns(header, sorted(used_positions - equal_positions))


def _check_repeated_names(header: Sequence[Json], file: Path, note: Note) -> None:
    """Check whether several columns of a table have the same name, and tell the user by a note if this is the case.

    A repeated name such as "prompt" is an error: only one column can hold the prompts, so the file may contain several tables.
    For other names, the note announces that the later columns are called, for example, "name (3)" after their position
    (`_name_columns`).

    header : names of the columns; None for a column without a name
    file : file of the table, for messages
    note : function that is called with the text of the note and the name of the file

    Raises: ImportFormatError [import-csv] if the name suggests a role that only one column can have.
    """
    n_columns_by_name = Counter(filter(None, header))
    repeated = [name for name, n_columns in n_columns_by_name.items() if n_columns > 1]
    for name in repeated:
        if infer_role(str(name)) in _ROLES_OF_ONE_COLUMN:
            problem = (
                f"several columns have the name {name!r}. Give each column another name, or put tables that are next to each "
                "other below each other."
            )
            raise import_error(file, problem, slug="import-csv")
    if repeated:
        note(
            f"several columns have the name {repeated[0]!r}: their position is added to it, as in 'name (3)'", file.name
        )


def _find_header_position(lines: Records, candidates: Sequence[int]) -> int:
    """Find the header of a table, which may be below titles such as "Export | May 2026".

    Usually, the header is the first line with several cells. A later one of these lines is the header if it resembles a header
    (`_is_header`) and all lines above it may be titles. A line may be a title if at most half of the columns have a cell in it,
    and if it is not the first of two header lines.

    lines : location and cells of each line that is not empty
    candidates : positions in `lines` of the lines with several cells, at least one

    Returns the position of the header in `lines`.
    """
    n_columns = max(count_cells(record) for _, record in lines)
    for position, next_position in pairwise(candidates[:_MAX_TITLES]):
        _, record = lines[position]
        next_two_lines = [row for _, row in lines[position + 1 : position + 3]]
        has_two_header_lines = _join_header_lines(record, next_two_lines) is not None
        may_be_title = count_cells(record) <= 0.5 * n_columns and not has_two_header_lines
        if not may_be_title:
            break

        next_candidate_and_row = [row for _, row in lines[next_position : next_position + 2]]
        if _is_header(next_candidate_and_row, n_columns=n_columns):
            return next_position
    return candidates[0]


def _is_header(lines: Sequence[Sequence[Json]], *, n_columns: int) -> bool:
    """Return whether a line resembles a header.

    The line must have cells in more than half of the columns, and no cell may be a number. Together, its cells must be less than
    half as long as the cells of the line below it.

    lines : cells of a line and of the line below it, if there is one
    """
    names, *cells_below = [[str(cell) for cell in record if cell is not None] for record in lines]
    if len(names) <= 0.5 * n_columns or any(map(_is_number, names)):
        return False
    return any(sum(map(len, names)) < 0.5 * sum(map(len, cells)) for cells in cells_below)


def _fill_names(header: Sequence[Json], *, n_columns: int) -> list[str]:
    """Return the name of each column; a column without a name gets the name of the column before it."""
    names: list[str] = []
    name = ""
    for position in range(n_columns):
        cell = header[position] if position < len(header) else None
        if cell is not None:
            name = _collapse_spaces(cell)
        names.append(name)
    return names


def _join_header_lines(header: Sequence[Json], first_rows: Sequence[Sequence[Json]]) -> list[Json] | None:
    """Join the names of a header with the labels in the line below it, as in "gpt answer"; None if there are no labels.

    The line below contains labels if at least two names have the same labels, such as "answer" and "score". A column
    without a name, as in merged cells, has the name of the column before it.

    header : cells of the header
    first_rows : cells of the next two lines
    """
    if len(first_rows) < 2:
        return None
    labels, values = first_rows

    # labels in the columns of each name; a merged cell names several columns
    names = _fill_names(header, n_columns=len(labels))
    labels_by_name: dict[str, list[Json]] = {}
    for name, label in zip(names, labels, strict=True):
        if name and label is not None:
            labels_by_name.setdefault(name, []).append(label)
    if not _have_repeated_labels(list(labels_by_name.values()), values):
        return None

    joined_names: list[Json] = []
    for name, label in zip(names, labels, strict=True):
        label_text = "" if label is None else _collapse_spaces(label)
        joined_names.append(f"{name} {label_text}".strip() or None)
    return joined_names


def _collapse_spaces(cell: Json) -> str:
    """Convert a cell to text, with each run of white space replaced by one space."""
    return " ".join(str(cell).split())


def _get_longest_name(header: Sequence[Json]) -> str:
    """Return the longest name of a header."""
    return max(map(str, filter(None, header)), key=len)


def _have_repeated_labels(labels_of_names: Sequence[Sequence[Json]], values: Sequence[Json]) -> bool:
    """Return whether the line below a header has labels that name the columns together with the header.

    For example, each of the names "gpt" and "llama" may have the labels "answer" and "score" below it. At least two names must
    have the same labels. The labels must be at least two different words. None of them may recur in the next line, because a text
    that recurs may be a value.

    labels_of_names : for each name in the header, the cells below the columns of this name
    values : cells of the line below the labels
    """
    n_names_by_labels = Counter(map(tuple, labels_of_names))
    repeated_labels = [labels for labels, n_names in n_names_by_labels.items() if n_names > 1 and len(labels) > 1]
    if not repeated_labels:
        return False

    labels = repeated_labels[0]
    are_words = all(isinstance(label, str) and not _NUMBER.fullmatch(label) for label in labels)
    are_unique = len(set(labels)) == len(labels)
    recur_below = any(value in labels for value in values)
    return are_words and are_unique and not recur_below


def _remove_repeated_headers(lines: Records, header: Sequence[Json], note: Note) -> Records:
    """Leave out the lines that repeat the header, as on each page of a report or where files were joined.

    lines : location and cells of each line below the header
    note : function that receives a remark on the lines

    Raises: ImportFormatError [import-csv] if a title is above the repeated header, because it may name an agent.
    """
    remaining: Records = []
    repeated_locations = []
    for location, record in lines:
        if _have_equal_cells(record, header):
            _check_no_title_above(location, remaining)
            repeated_locations.append(location)
        else:
            remaining.append((location, record))
    if repeated_locations:
        note(f"{format_count(len(repeated_locations), 'repeated header')} not read", repeated_locations[0])
    return remaining


def _check_no_title_above(location: str, lines_above: Records) -> None:
    """Check that the line above a repeated header is not a title, which is a line with a single filled cell.

    A title may name the agent of the rows below it. This name would be lost.

    location : location of the repeated header, for the error message
    lines_above : location and cells of each line above the repeated header; the last one is checked

    Raises: ImportFormatError [import-csv] if the line is a title.
    """
    _, record_above = lines_above[-1] if lines_above else ("", [])
    cells_above = [cell for cell in record_above if cell is not None]
    if len(cells_above) == 1:
        problem = (
            f"the header is repeated below the title {cells_above[0]!r}. Write the titles into a column of their own, and remove "
            "the other headers."
        )
        raise import_error(location, problem, slug="import-csv")


def _have_equal_cells(record: Sequence[Json], header: Sequence[Json]) -> bool:
    """Return whether two lines are equal, except for spaces around the cells and empty cells at the end."""
    return all(_strip(cell) == _strip(name) for cell, name in zip_longest(record, header))


def _strip(cell: Json) -> Json:
    """Remove the spaces around a text; other values are returned unchanged."""
    return cell.strip() if isinstance(cell, str) else cell


def _check_no_second_table(records: Records, header: Sequence[Json], row_locations: Sequence[str]) -> None:
    """Raise ImportFormatError [import-csv] if another table begins below an empty line.

    The lines between two empty lines form a group. Each group is compared with the last rows above it (`_is_second_table`).

    records : location and cells of all lines of the file
    row_locations : locations of the rows of the table
    """
    lines_above: list[Sequence[Json]] = []
    for rows in _split_at_empty_lines(records, set(row_locations)):
        lines = [row for _, row in rows]
        if lines_above and len(lines) > 1 and _is_second_table(lines, lines_above, n_columns=len(header)):
            first_location, _ = rows[0]
            problem = (
                "a second table seems to begin here, below an empty line. Move it to another file, or remove the empty "
                "line if it belongs to the same table."
            )
            raise import_error(first_location, problem, slug="import-csv")
        lines_above = [*lines_above, *lines][-_MAX_LINES_ABOVE:]


def _split_at_empty_lines(records: Records, row_locations: Collection[str]) -> list[Records]:
    """Split the rows of a table into groups of rows without an empty line between them.

    records : location and cells of all lines of the file
    row_locations : locations of the rows of the table; other lines, such as titles, are left out and do not end a group

    Returns the groups in the order of the file, each with at least one row.
    """
    groups: list[Records] = [[]]
    for location, record in records:
        if location in row_locations:
            groups[-1].append((location, record))
        elif count_cells(record) == 0:
            groups.append([])
    return [rows for rows in groups if rows]


def _is_second_table(lines: Sequence[Sequence[Json]], lines_above: Sequence[Sequence[Json]], *, n_columns: int) -> bool:
    """Return whether some lines are a second table, with a header and columns of its own, below the rows of the first table.

    A column is examined only if at least half of the rows above have a text in it. Two conditions must hold:

    - The first line is a header: more than half of its filled cells are less than half as long as the texts above them, and
      no cell is a number.
    - The lines below this header have no texts in at least one of the columns.

    lines : cells of the lines, which are consecutive
    lines_above : cells of the rows above the lines, at least one
    n_columns : number of columns of the first table
    """
    header, *rows = lines
    names = [cell for cell in header if cell is not None]
    if len(names) < 2 or any(map(_is_number, names)):
        return False

    texts_above = [_list_texts(_get_column(lines_above, position)) for position in range(n_columns)]
    text_columns = [position for position, texts in enumerate(texts_above) if len(texts) >= 0.5 * len(lines_above)]
    lacks_texts = any(not _list_texts(_get_column(rows, position)) for position in text_columns)

    n_short_names = 0
    for position in text_columns:
        name = header[position] if position < len(header) else None
        if name is not None and len(str(name)) < 0.5 * fmean(map(len, texts_above[position])):
            n_short_names += 1
    return lacks_texts and n_short_names > 0.5 * len(names)


def _get_column(records: Sequence[Sequence[Json]], position: int) -> list[Json]:
    """Return the cells of one column, for the lines that have it."""
    return [record[position] for record in records if position < len(record)]


def _list_texts(cells: Sequence[Json]) -> list[str]:
    """List the cells that are neither empty nor numbers, as texts."""
    return [str(cell) for cell in cells if cell is not None and not _is_number(cell)]


def _find_equal_columns(header: Sequence[Json], records: Sequence[Sequence[Json]]) -> set[int]:
    """Return the positions of columns that have the name and the cells of an earlier column."""
    positions_by_name: dict[Json, list[int]] = {}
    for position, name in enumerate(header):
        if name is not None:
            positions_by_name.setdefault(str(name), []).append(position)

    equal_positions: set[int] = set()
    for first, *later_positions in positions_by_name.values():
        for later in later_positions:
            if all(record[first : first + 1] == record[later : later + 1] for record in records):
                equal_positions.add(later)
    return equal_positions


def _remove_totals(lines: Records, note: Note) -> Records:
    """Leave out the lines of totals or means at the end of a table of texts.

    A line of totals has a single text, a label such as "Total" or "Average length". Its other cells are numbers, and at least two
    of the numbers are in columns of texts.

    lines : location and cells of each line below the header
    note : function that receives a remark on the lines
    """
    records = [record for _, record in lines]
    n_kept = len(lines)
    while n_kept > 2 and _is_total(records[n_kept - 1], records[: n_kept - 1]):
        n_kept -= 1

    totals = lines[n_kept:]
    if totals:
        first_location, first_total = totals[0]
        label = _list_texts(first_total)[0]
        note(f"{format_count(len(totals), 'line')} of totals not read ({label!r})", first_location)
    return lines[:n_kept]


def _is_total(record: Sequence[Json], records_above: Sequence[Sequence[Json]]) -> bool:
    """Return whether a line has the label of a total, and numbers in at least two columns that hold texts above it."""
    texts = _list_texts(record)
    if len(texts) != 1 or not _TOTAL.match(texts[0]):
        return False

    n_text_columns = 0
    for position, cell in enumerate(record):
        if not _is_number(cell):
            continue
        cells_above = _get_column(records_above, position)
        holds_texts = len(_list_texts(cells_above)) > len(cells_above) / 2
        if holds_texts:
            n_text_columns += 1
    return n_text_columns > 1


def _is_number(cell: Json) -> bool:
    """Return whether a cell holds a number, possibly as a text such as "4.5%"."""
    return isinstance(cell, int | float) or (isinstance(cell, str) and _NUMBER.fullmatch(cell.strip()) is not None)


def _make_row(record: Sequence[Json], positions: Mapping[str, int]) -> Row:
    """Return the cells of a line by column; a cell that the line lacks is None.

    In its exports, youden writes an apostrophe before a text that a spreadsheet would run as a formula, and lists the changed
    columns in the column `guarded`. If the table has this column, the apostrophes are removed (`remove_guards`).

    record : cells of the line
    positions : position of each column in the line
    """
    row: Row = {}
    for name, position in positions.items():
        row[name] = record[position] if position < len(record) else None

    has_guards = GUARDED in row
    return remove_guards(row) if has_guards else row


def _name_columns(header: Sequence[Json], positions: Sequence[int]) -> dict[str, int]:
    """Return the position of each column by a unique name.

    If the third column has no name, it is called "column 3". If it has the name of an earlier column, its number is
    appended, as in "name (3)".

    header : cells of the header, which may have fewer cells than the table has columns
    positions : positions of the columns, counted from 0, in ascending order
    """
    position_by_name: dict[str, int] = {}
    for position in positions:
        cell = header[position] if position < len(header) else None
        name = f"column {position + 1}" if cell is None else _collapse_spaces(cell)
        while name in position_by_name:
            name = f"{name} ({position + 1})"
        position_by_name[name] = position
    return position_by_name


def fill_down(rows: Rows, column: str, note: Note) -> None:
    """Fill the empty cells (None) of a column in place, each with the value above it, as in a column with merged cells.

    Nothing is filled if the first cell is empty, or if less than 30% of the cells are empty.

    Parameters
    ----------
    rows : list of (str, dict)
        Location and values by column of each row.
    column : str
        Name of the column.
    note : callable
        Receives a sentence about the filled cells, and the location of the first row of the table.
    """
    n_empty = sum(row.get(column) is None for _, row in rows)
    has_merged_cells = _MIN_EMPTY_FRACTION * len(rows) <= n_empty < len(rows)
    if not has_merged_cells:
        return
    first_location, first_row = rows[0]
    if first_row.get(column) is None:
        return

    value: Json = None
    for _, row in rows:
        if row.get(column) is not None:
            value = row[column]
        row[column] = value
    note(f"{format_count(n_empty, 'empty cell')} of {column!r} filled with the value above", first_location)
