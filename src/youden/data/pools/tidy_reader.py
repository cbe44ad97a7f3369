"""Read a pool from a tidy table (CSV, Parquet or DataFrame) with one row per response.

The columns are agent, item, text, prompt, group and repeat; any other column is an error.
"""

from __future__ import annotations

import codecs
import csv
import logging
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from youden.data.pools.spool import LONG_TEXT, PoolCells, Source, format_excerpt
from youden.data.pools.string_columns import (
    has_blank_text,
    is_utf8,
    iter_distinct_pairs,
    join_texts,
    look_up_ids,
    to_int64,
    to_strings,
)
from youden.decompression import iter_unpacked, open_parquet
from youden.run_keys import EmptyRule
from youden.text.printable import find_name_fault, printable
from youden.text.sentences import describe_similar_names
from youden.text.spreadsheet_cells import GUARDED, remove_guards
from youden.types import Agent, Item, Pool
from youden.types.arguments import describe_no_frame, is_data_frame
from youden.types.pool import Positions

if TYPE_CHECKING:
    import pandas as pd

REQUIRED = ("agent", "item", "text")
OPTIONAL = ("prompt", "group", "repeat")

_BATCH_BYTES, _MIN_BATCH_ROWS, _MAX_BATCH_ROWS = 2**25, 1_000, 100_000
"""Approximate size of the rows of a Parquet file that are read at a time, and limits of their number."""


def read_csv(path: Path, empty: EmptyRule = "failure") -> Pool:
    """Read a pool from a comma-separated table in UTF-8.

    Every field is a string. An empty prompt or group is missing. Two different prompts of an
    item are an error, and so are two different groups of an agent.

    path : the table
    empty : whether an empty text is an empty response, or no response

    Returns the pool, which is named after the file, without the suffix.

    Raises: PoolError if the table is not valid. The message names the line on which the record starts.
    """
    source = Source(path)
    rows = _TidyRows(source, empty)
    columns = (*REQUIRED, *OPTIONAL)
    with source.open() as file, allow_long_csv_fields():
        records = _read_csv_records(source, file)
        header_line, header = next(records, (1, []))
        _check_column_names(source, [name for name in header if name != GUARDED], header_line=header_line)
        positions = {name: header.index(name) for name in (*columns, GUARDED) if name in header}
        for line, record in records:
            _check_csv_record(source, record, header, line)
            row = {name: record[position] for name, position in positions.items()}
            if GUARDED in row:
                row = remove_guards(row)
            rows.add([row.get(name) for name in columns], row_number=line)
    return rows.to_pool()


def _check_csv_record(source: Source, record: list[str], header: list[str], line: int) -> None:
    """Check that a record of a CSV file has as many fields as the header, and does not repeat the header.

    source : the file, which error messages name
    line : number of the line on which the record starts, for error messages

    Raises PoolError [pool-csv].
    """
    if len(record) != len(header):
        raise source.make_error(
            line,
            f"it does not fit the header: got {len(record)} fields, expected {len(header)}. "
            "Put texts with commas, quotes or line breaks in double quotes.",
            slug="pool-csv",
        )
    if record == header:
        raise source.make_error(line, "it repeats the header. Remove it.", slug="pool-csv")


def read_parquet(path: Path, empty: EmptyRule = "failure") -> Pool:
    """Read a pool from a Parquet table.

    Columns are strings, or dictionaries of strings; repeats may be numbers. A null prompt or group is missing.

    path : the table
    empty : whether an empty text is an empty response, or no response

    Returns the pool, which is named after the file, without the suffix.

    Raises: PoolError if the table is not valid. The message names the number of the row, from 1; InputError
        [unpacked-too-large] if the file decompresses to far more than its size.
    """
    source = Source(path, unit="row")
    rows = _TidyRows(source, empty)
    first_row = 1
    with source.open() as file:
        table = _open_table(source, file)
        for batch in _read_batches(source, table):
            columns = _get_pool_columns(batch)
            # rows that are not simple are added one by one, which is slower
            is_added = rows.add_simple_rows(columns, first_row=first_row)
            if not is_added:
                rows.add_one_by_one(columns, first_row=first_row)
            first_row += len(batch)
    return rows.to_pool()


def _open_table(source: Source, file: BinaryIO) -> pq.ParquetFile:
    """Open a Parquet file as a table of responses, and check its columns.

    source : the file, which error messages name
    file : the opened file

    Returns the table. Its rows are not read yet.

    Raises PoolError [pool-parquet] if the file is not a Parquet file, and [pool-columns] if a required column is
    missing, or a column is unknown or does not contain strings.
    """
    try:
        table = open_parquet(file)
    except (pa.ArrowException, OSError) as error:
        raise source.make_error(
            None, f"it is not a Parquet file ({error}). Write it again, or pass a CSV file.", slug="pool-parquet"
        ) from error

    schema = table.schema_arrow
    _check_column_names(source, schema.names, header_line=None)
    for name in schema.names:
        _check_column_type(source, name, schema.field(name).type)
    return table


def _get_pool_columns(batch: pa.RecordBatch) -> list[pa.LargeStringArray]:
    """Return the columns of a chunk of rows that a pool uses, in a fixed order and as strings.

    batch : rows of a Parquet table, one per response; optional columns may be missing

    Returns arrays (n_rows,) of agents, items, texts, prompts, groups and repeats. A column that the table does not
    have consists of nulls.
    """
    columns = []
    for name in (*REQUIRED, *OPTIONAL):
        if name in batch.schema.names:
            columns.append(to_strings(batch.column(name)))
        else:
            columns.append(pa.nulls(len(batch), pa.large_string()))
    return columns


_LOG = logging.getLogger(__name__)
_NAMES_OF_OTHER_COLUMNS = {
    "prompt",
    "question",
    "query",
    "instruction",
    "input",
    "topic",
    "category",
    "group",
    "repeat",
    "id",
    "index",
    "item_id",
    "question_id",
    "reference",
    "expected",
    "gold",
    "label",
    "score",
    "rating",
    "date",
    "created",
    "email",
    "e-mail",
    "url",
    "comment",
    "notes",
}
"""Names, in lower case, of columns that contain no responses of an agent."""
_FRAME = Path("DataFrame")


def read_frame(frame: pd.DataFrame, empty: EmptyRule = "failure") -> Pool:
    """Read a pool from a DataFrame in one of two layouts.

    - Tidy: one row per response, with the columns agent, item, text and, optionally, prompt, group and repeat.
    - Wide: one row per item, with the column item, one column per agent and, optionally, prompt.

    Cells with None, NaN, pd.NA or NaT are empty. An empty text is an empty response, unless `empty` is "missing". Empty rows
    are skipped. Each other row needs an agent and an item. An unpaired surrogate (half a character) in a text becomes U+FFFD,
    with a warning in the log.

    frame : table in one of the two layouts. Its index is ignored, unless it has the name `item` and no column has it.
    empty : whether an empty cell in place of a text is an empty response, or no response

    Returns the pool; its agents and items are in the order of their first row.

    Raises: PoolError if the frame is not valid. The message names the number of the row, from 1.
    """
    source = Source(_FRAME, unit="row")
    tidy_frame = _to_tidy_frame(source, frame)
    columns = [get_column_values(tidy_frame, name) for name in (*REQUIRED, *OPTIONAL)]
    rows = _TidyRows(source, empty)
    for number, row in enumerate(zip(*columns, strict=True), 1):
        if any(value is not None for value in row):
            fields = [source.to_encodable(value, number) for value in row]
            rows.add(fields, row_number=number)
    source.log_replaced()
    return rows.to_pool()


def _to_tidy_frame(source: Source, frame: pd.DataFrame) -> pd.DataFrame:
    """Convert a user's data frame to a data frame with one row per response, and check its columns.

    A frame with one column per agent is rearranged. `youden export` changes texts that a spreadsheet would run as formulas;
    these texts are restored.

    source : the data frame as a source of rows, for error messages
    frame : value that the user passed; it may be of a different type, which is an error

    Raises PoolError [pool-columns] if the value is not a data frame, or its columns are not those of a pool.
    """
    if not is_data_frame(frame):
        raise source.make_error(
            None,
            f"a pool is read from a path or a pandas DataFrame: {describe_no_frame(frame)} To use arrays, pass "
            "`pandas.DataFrame({'agent': agents, 'item': items, 'text': texts})` with one row per response.",
            slug="pool-columns",
        )

    if frame.columns.nlevels > 1:
        problem = f"its columns have several levels: got {format_excerpt(next(iter(frame.columns)))}."
        remedy = 'Select one level, for example by `table["text"]`, or set one name per column.'
        raise source.make_error(None, f"{problem} {remedy}", slug="pool-columns")

    _check_no_repeated_names(source, [str(name) for name in frame.columns], header_line=None)
    if frame.index.name == "item" and "item" not in frame:
        frame = frame.reset_index()
    if GUARDED in frame:
        frame = _restore_guarded_texts(frame)
    has_agent_columns = "agent" not in frame and "text" not in frame
    if has_agent_columns:
        frame = _melt_agents(source, frame)

    column_names = [str(name) for name in frame.columns]
    _check_column_names(source, column_names, header_line=None)
    return frame


def _restore_guarded_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Restore the texts of a frame from a CSV file of `youden export`, and remove its column `guarded`.

    `youden export` puts an apostrophe before a text that a spreadsheet would run as a formula. The column `guarded` names
    the columns with such texts in each row.
    """
    restored_rows = []
    for row in frame.to_dict("records"):
        cell_by_column = {str(name): cell for name, cell in row.items()}
        restored_rows.append(remove_guards(cell_by_column))
    frame_class = type(frame)
    return frame_class(restored_rows)


def _melt_agents(source: Source, frame: pd.DataFrame) -> pd.DataFrame:
    """Convert a frame with one row per item and one column per agent to a frame with one row per response.

    Items to which no agent responded are left out. A frame without a column `item`, or with several rows of an item, has
    a different layout. It is returned unchanged, except that blank rows are left out.

    source : the data frame as a source of rows, for error messages

    Raises: PoolError [pool-columns] if a column has a name that is not the name of an agent, such as group or question;
        [pool-agent] if a column is empty, such as one next to the table in a spreadsheet.
    """
    frame = frame.dropna(how="all")  # such as blank rows below the table in a spreadsheet
    if "item" not in frame or frame["item"].duplicated().any():
        return frame

    item_columns = [name for name in ("item", "prompt") if name in frame]
    agent_columns = [name for name in map(str, frame.columns) if name not in item_columns]
    wrong_columns = [name for name in agent_columns if name.casefold() in _NAMES_OF_OTHER_COLUMNS]
    if wrong_columns:
        raise source.make_error(
            None,
            f"each column except item and prompt must contain the responses of an agent: got a column {wrong_columns[0]}. "
            "Remove the column, name it prompt if it contains the prompts, or pass one row per response.",
            slug="pool-columns",
        )

    responses = frame.drop(columns=item_columns)
    _check_no_empty_columns(source, responses)
    is_response = responses.notna() & responses.map(_is_not_blank)
    has_response = is_response.any(axis=1)  # an item without any response is not a failure of an agent
    return frame[has_response].melt(id_vars=item_columns, var_name="agent", value_name="text")


def _check_no_empty_columns(source: Source, responses: pd.DataFrame) -> None:
    """Raise PoolError [pool-agent] if an agent has no response, as in an empty column next to the table of a spreadsheet.

    source : names the table in error messages
    responses : frame with one column per agent
    """
    empty_columns = [str(name) for name, is_empty in responses.isna().all().items() if is_empty]
    if len(responses) and empty_columns:
        raise source.make_error(
            None,
            f"agent {empty_columns[0]!r} has no response, because its column is empty. Remove the column or, if the agent failed "
            "on every item, fill it with empty texts.",
            slug="pool-agent",
        )


def _is_not_blank(cell: object) -> bool:
    """Return whether a cell is not a text of white space only."""
    return not isinstance(cell, str) or bool(cell.strip())


def get_column_values(frame: pd.DataFrame, name: str) -> list[Any]:
    """Return the values of one column of a data frame as a list.

    A missing value, such as NaN, becomes None. Ids, prompts and groups are converted to strings, because they may be
    numbers. Texts and repeats stay as they are and are checked later.

    name : name of the column; if the frame has no such column, all values are None
    """
    if name not in frame:
        return [None] * len(frame)
    column = frame[name]
    values: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    if name in ("text", "repeat"):
        return values
    return [_to_string(value) for value in values]


def _to_string(value: object) -> object:
    """Convert an id, a prompt or a group to a string; None is returned unchanged.

    A whole float such as 1.0 becomes "1", because pandas converts integers to floats in a column with missing values. Bytes,
    arrays and collections other than tuples are returned unchanged, and are refused later.
    """
    is_collection = hasattr(value, "__len__") and not isinstance(value, str | tuple)
    if value is None or is_collection:
        return value
    if isinstance(value, float | np.floating) and value.is_integer():
        return str(int(value))
    return str(value)


def _read_batches(source: Source, table: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches of about `_BATCH_BYTES`. Raises PoolError [pool-parquet] if its data are damaged.

    source : file of the table, for errors
    """
    metadata = table.metadata
    n_bytes = sum(metadata.row_group(group).total_byte_size for group in range(table.num_row_groups))
    n_rows_per_batch = _BATCH_BYTES * metadata.num_rows // max(n_bytes, 1)
    batch_size = min(max(n_rows_per_batch, _MIN_BATCH_ROWS), _MAX_BATCH_ROWS)
    try:
        yield from iter_unpacked(table.iter_batches(batch_size=batch_size), source.path)
    except (pa.ArrowException, OSError) as error:
        raise source.make_error(
            None, f"its data are damaged ({error}). Write the file again.", slug="pool-parquet"
        ) from error


_ValueById: TypeAlias = dict[str, tuple[str, int]]
"""Id of an agent or item → its group or prompt, and the number of the first row that states it."""


class _TidyRows:
    """Responses, prompts and groups of the rows that have been read."""

    def __init__(self, source: Source, empty: EmptyRule) -> None:
        self._source = source
        self._cells = PoolCells(empty)
        self._agents: dict[str, int] = {}
        self._items: dict[str, int] = {}
        self._groups: _ValueById = {}
        self._prompts: _ValueById = {}

    def add(self, fields: Sequence[Any], *, row_number: int) -> None:
        """Check one row of the table, and add its response to the pool.

        A text that is None or consists of spaces is an empty response. A prompt or group that is None or empty is ignored:
        an earlier row may state the prompt of the same item, or the group of the same agent.

        fields : agent, item, text, prompt, group and repeat of the row, in this order. The first five are texts, and the repeat
            is a whole number from 0 or its digits. Text, prompt, group and repeat may be None; the repeat None counts as 1.
        row_number : number of the row in the table, from 1, for errors

        Raises: PoolError if a field is not valid: [pool-id] for an id or the name of a group, [pool-text] for a text,
            [pool-repeat] for a repeat, [pool-key] for a prompt or group that is not a text; [pool-contradiction] if an
            earlier row states another prompt of the item, or another group of the agent. A second response of the same agent,
            item and repeat is refused later, by `to_pool`.
        """
        agent, item, text, prompt, group, repeat = fields
        agent_id = self._source.require_id(agent, "agent", row_number)
        item_id = self._source.require_id(item, "item", row_number)
        response = self._source.require_text(text, row_number)
        repeat_number = self._source.parse_repeat(repeat, row_number)

        # a new id gets the next position
        agent_position = self._agents.setdefault(agent_id, len(self._agents))
        item_position = self._items.setdefault(item_id, len(self._items))
        self._cells.add(agent_position, item_position, response, row_number=row_number, repeat=repeat_number)
        for kind, value in (("prompt", prompt), ("group", group)):
            if not isinstance(value, str | None):
                raise self._source.make_no_string_error(value, kind, row_number)
        if prompt:
            self._source.warn_if_long(prompt, "prompt", row_number)
            self._store_prompt_or_group(self._prompts, item_id, prompt, f"prompt of item {item_id!r}", row_number)
        if group:
            self._source.check_name(group, "group", row_number)
            self._store_prompt_or_group(self._groups, agent_id, group, f"group of agent {agent_id!r}", row_number)

    def add_one_by_one(self, columns: Sequence[pa.LargeStringArray], *, first_row: int) -> None:
        """Check and add many rows one by one, which is slower than `add_simple_rows` but handles all rows.

        columns : arrays (n_rows,) of agents, items, texts, prompts, groups and repeats, in this order; null if missing. All are
            texts, also the repeats.
        first_row : number of the first row in the table, from 1

        Raises PoolError for the first invalid row: [pool-encoding] if a field is not UTF-8; [pool-id], [pool-text],
        [pool-repeat] or [pool-key] if it is not valid; [pool-contradiction] if an earlier row contradicts it. The rows before
        the invalid row stay added.
        """
        bytes_columns = [column.cast(pa.large_binary()).to_pylist() for column in columns]
        for row_number, record in enumerate(zip(*bytes_columns, strict=True), first_row):
            fields = [raw if raw is None else self._source.decode(raw, row_number) for raw in record]
            self.add(fields, row_number=row_number)

    def add_simple_rows(self, columns: Sequence[pa.LargeStringArray], *, first_row: int) -> bool:
        """Add many rows at once, if all of them are simple and valid.

        A simple row meets these conditions:

        - It has no number of a repeat.
        - Its text has at most `LONG_TEXT` (1,000,000) characters, and does not consist of spaces.
        - Its text is not empty if empty texts count as missing responses.

        If one row is not simple or not valid, no response is added. The caller must then add each row with `add`, which
        reports invalid rows. Some ids, groups and prompts may already be stored by then. This is harmless, because `add`
        stores the same values again.

        columns : arrays (n_rows,) of agents, items, texts, prompts, groups and repeats, in this order; null if missing
        first_row : number of the first row in the table, from 1

        Returns whether the rows were added.
        """
        agent_ids, item_ids, texts, prompts, groups, _ = columns
        if not _has_valid_fields_without_repeats(columns) or has_blank_text(texts, self._cells.empty):
            return False

        import pyarrow.compute as pc  # takes as long to import as a small table to read

        lengths = to_int64(pc.utf8_length(texts))
        if lengths.max(initial=0) > LONG_TEXT:
            return False

        # store ids, groups and prompts
        agents = look_up_ids(agent_ids, self._agents)
        items = look_up_ids(item_ids, self._items)
        if agents is None or items is None:
            return False
        if not _store_prompts_or_groups(self._groups, groups, agents, list(self._agents), first_row=first_row):
            return False
        if not _store_prompts_or_groups(self._prompts, prompts, items, list(self._items), first_row=first_row):
            return False

        # store the responses
        row_numbers = np.arange(first_row, first_row + len(texts))
        stored_texts = self._cells.extend(agents, items, row_numbers)
        n_bytes = to_int64(pc.binary_length(texts))
        stored_texts.extend(join_texts(texts), n_bytes=n_bytes, lengths=lengths)
        return True

    def _store_prompt_or_group(
        self, value_by_id: _ValueById, id_: str, value: str, description: str, row_number: int
    ) -> None:
        """Store the prompt of an item, or the group of an agent, unless an earlier row states it.

        value_by_id : prompts of all items, or groups of all agents, so far; changed in place
        id_ : id of the item or agent
        value : its prompt or group
        description : what the value is, such as "prompt of item 'a'", for the error
        row_number : number of the row that states the value

        Raises: PoolError [pool-contradiction] if an earlier row states another one.
        """
        if id_ not in value_by_id:
            value_by_id[id_] = (value, row_number)
        earlier_value, earlier_number = value_by_id[id_]
        if earlier_value != value:
            raise self._source.make_error(
                row_number,
                f"the {description} is {format_excerpt(value)}, in {self._source.unit} {earlier_number} it is "
                f"{format_excerpt(earlier_value)}. "
                "Set the same value in all rows, or only in one of them.",
                slug="pool-contradiction",
            )

    def to_pool(self) -> Pool:
        """Make the pool of all rows that have been added, with agents and items in the order of their first row.

        Ids that are almost the same, such as two that differ in case, cause a warning in the log.

        Raises: PoolError [pool-empty] if there are no rows; [pool-duplicate] if two rows have the same agent, item and repeat;
            [pool-agent] if an agent has no response, because its texts are empty and count as missing; [pool-size] if the pool
            is too large.
        """
        agent_ids = list(self._agents)
        item_ids = list(self._items)
        texts, repeat_texts = self._cells.to_texts(self._source, agents=agent_ids, items=item_ids)
        self._cells.check_agents(self._source, agent_ids)
        self._warn_if_similar("agents", agent_ids)
        self._warn_if_similar("items", item_ids)

        groups = {agent_id: group for agent_id, (group, _) in self._groups.items()}
        prompts = {item_id: prompt for item_id, (prompt, _) in self._prompts.items()}
        agents = tuple(Agent(agent_id, group=groups.get(agent_id)) for agent_id in agent_ids)
        items = tuple(Item(item_id, prompt=prompts.get(item_id)) for item_id in item_ids)
        return Pool(agents, items, texts, name=self._source.path.stem, repeat_texts=repeat_texts)

    def _warn_if_similar(self, kind: str, ids: list[str]) -> None:
        """Log a warning if some ids of agents or items (`kind`) are so similar that one may be misspelled."""
        note = describe_similar_names(ids)
        if note:
            _LOG.warning("%s, %s: %s", printable(str(self._source.path)), kind, printable(note))


def _has_valid_fields_without_repeats(columns: Sequence[pa.LargeStringArray]) -> bool:
    """Return whether the fields of all rows are valid, and no row has the number of a repeat.

    - Each row must have an agent, an item and a text.
    - All strings must be valid UTF-8.
    - The name of a group must not contain control characters or look like a formula of a spreadsheet.

    Ids are checked later, by `look_up_ids`.

    columns : arrays (n_rows,) of agents, items, texts, prompts, groups and repeats, null if missing
    """
    agents, items, texts, _, groups, repeats = columns
    has_missing_values = any(column.null_count > 0 for column in (agents, items, texts))
    has_repeats = repeats.null_count < len(repeats)
    if has_missing_values or has_repeats:
        return False
    if not is_utf8(columns):
        return False
    group_names = [name for name in groups.unique().to_pylist() if name]  # null and an empty string name no group
    return not any(find_name_fault(name) for name in group_names)


def _store_prompts_or_groups(
    value_by_id: _ValueById,
    column: pa.LargeStringArray,
    positions: Positions,
    ids: Sequence[str],
    *,
    first_row: int,
) -> bool:
    """Store the prompts of items, or the groups of agents, from many rows at once; return whether all of them are valid.

    The result is False if two rows state different values for the same item or agent, or if a value is very long. The caller
    must then add the rows one by one. This stores the valid values again and reports the problem.

    value_by_id : prompts of items, or groups of agents, with the number of the first row that states each; changed in place
    column : prompts or groups (n_rows,), null or empty if missing
    positions : int array (n_rows,), position in `ids` of the item or agent of each row
    ids : ids of all items or agents
    first_row : number of the first of these rows in the table, from 1
    """
    if column.null_count == len(column):
        return True
    for position, value, row in iter_distinct_pairs(positions, column):  # rows are counted from 0
        if not value:
            continue
        row_number = first_row + row
        stored_value, _ = value_by_id.setdefault(ids[position], (value, row_number))
        if stored_value != value or len(value) > LONG_TEXT:
            return False
    return True


def _read_csv_records(source: Source, file: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a CSV file: the number of the first line of each record, and its fields. Blank lines are skipped.

    source : the file, for errors
    file : the file, opened for reading

    Raises: PoolError [pool-csv] if a record is not valid CSV; [pool-encoding] if a line is not UTF-8.
    """

    def decode_lines() -> Iterator[str]:
        for number, raw in enumerate(file, 1):
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield source.decode(line, number)

    reader = csv.reader(decode_lines(), strict=True)
    first_line = 1
    try:
        for record in reader:
            if record:
                yield first_line, record
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise source.make_error(
            first_line,
            f"the record that starts here is not CSV ({error}). "
            "Close every double quote, double those inside a text, and end lines with a line feed.",
            slug="pool-csv",
        ) from error


def _check_column_names(source: Source, names: list[str], *, header_line: int | None) -> None:
    """Check that a table has all required columns of a pool, and no unknown or repeated column.

    source : the table, which error messages name
    names : names of its columns
    header_line : number of the line with the header, for error messages; None if the table has no header line

    Raises PoolError [pool-columns]. The message lists the allowed names.
    """
    missing = [name for name in REQUIRED if name not in names]
    unknown = [name for name in names if name not in (*REQUIRED, *OPTIONAL)]
    problem = ""
    if missing:
        problem = f"no column {', '.join(missing)}: got {format_excerpt(', '.join(names))}."
    elif unknown:
        problem = f"the column {format_excerpt(unknown[0])} is unknown. Remove it, or pass a folder with meta."
    if problem:
        raise source.make_error(header_line, f"{problem} {_suggest_columns(source)}", slug="pool-columns")
    _check_no_repeated_names(source, names, header_line=header_line)


def _check_no_repeated_names(source: Source, names: list[str], *, header_line: int | None) -> None:
    """Raise PoolError [pool-columns] if several columns have the same name.

    source : the table, which error messages name
    names : names of its columns
    header_line : number of the line with the header, for error messages; None if the table has no header line
    """
    repeated_names = [name for name, n_columns in Counter(names).items() if n_columns > 1]
    if repeated_names:
        problem = f"several columns have the same name: got {', '.join(map(repr, repeated_names))}."
        raise source.make_error(header_line, f"{problem} Give each column another name.", slug="pool-columns")


def _suggest_columns(source: Source) -> str:
    """Return the remedy for a table with wrong columns: the allowed names, and another layout or command to use."""
    remedy = f"Name the columns {', '.join(REQUIRED)} and, if there are any, {', '.join(OPTIONAL)}"
    if source.path == _FRAME:
        return f"{remedy}; or pass one row per item, with the column item and one column per agent."
    return f"{remedy}, separated by commas; or run `youden init {shlex.quote(str(source.path))}` to detect the columns."


def _check_column_type(source: Source, name: str, column_type: pa.DataType) -> None:
    """Check that the values of a column of a Parquet file can be read as strings.

    Allowed are strings, dictionaries of strings (a column that stores each distinct string once), and columns of
    nulls. The column `repeat` may also contain numbers.

    source : file of the table, which the error message names
    name : name of the column
    column_type : type of the column

    Raises PoolError [pool-columns] if the type is not allowed.
    """
    value_type = column_type.value_type if pa.types.is_dictionary(column_type) else column_type
    allowed_types = [pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null]
    if name == "repeat":
        allowed_types += [pa.types.is_integer, pa.types.is_floating]
    if not any(is_type(value_type) for is_type in allowed_types):
        raise source.make_error(
            None,
            f"the column {name} does not contain strings: got the type {column_type}. Cast it to string before writing.",
            slug="pool-columns",
        )


@contextmanager
def allow_long_csv_fields() -> Iterator[None]:
    """Let the csv module read fields of any length inside the block; otherwise, a long field is an error."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
