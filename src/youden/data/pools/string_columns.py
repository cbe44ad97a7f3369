"""Read and check columns of strings in pyarrow, all rows at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

import numpy as np
import pyarrow as pa

from youden.run_keys import EmptyRule
from youden.text.printable import find_name_fault
from youden.types.pool import Positions
from youden.types.texts_in_file import SEPARATOR


def to_strings(column: pa.Array) -> pa.LargeStringArray:
    """Convert a column to strings; NaN becomes null.

    column : strings, numbers, or a dictionary array, which stores each distinct string once
    """
    if pa.types.is_floating(column.type):  # pandas writes whole numbers with nulls as floats
        numbers = column.to_pylist()
        column = pa.array([None if number is None or isnan(number) else str(number) for number in numbers])
    return column.cast(pa.large_string())


def has_blank_text(texts: pa.LargeStringArray, empty: EmptyRule) -> bool:
    """Return whether a text consists of spaces, or is empty and counts as a missing response.

    texts : responses (n_rows,), without nulls
    empty : whether an empty text is an empty response ("failure") or no response ("missing")
    """
    import pyarrow.compute as pc

    is_blank = pc.utf8_is_space(texts)
    if empty == "missing":
        is_blank = pc.or_(is_blank, pc.equal(pc.binary_length(texts), 0))
    return bool(pc.any(is_blank).as_py())


def is_utf8(columns: Sequence[pa.LargeStringArray]) -> bool:
    """Return whether all strings in columns are valid UTF-8, which a Parquet file does not guarantee."""
    try:
        for column in columns:
            column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def look_up_ids(column: pa.LargeStringArray, position_by_id: dict[str, int]) -> Positions | None:
    """Return the position of each id in a column, and assign the next positions to new ids.

    column : ids (n_rows,)
    position_by_id : positions of the ids of earlier rows; new ids are added in place

    Returns an int64 array (n_rows,). If a new id is blank or invalid, no id is added, and the result is None.
    """
    encoded = column.dictionary_encode()
    distinct_ids: list[str] = encoded.dictionary.to_pylist()
    new_ids = [id_ for id_ in distinct_ids if id_ not in position_by_id]
    if any(not id_.strip() or find_name_fault(id_) for id_ in new_ids):
        return None
    for id_ in new_ids:
        position_by_id[id_] = len(position_by_id)

    # each row has the index of its id among the distinct ids
    positions_of_distinct_ids = np.array([position_by_id[id_] for id_ in distinct_ids], dtype=np.int64)
    index_of_id = to_int64(encoded.indices)
    positions: Positions = positions_of_distinct_ids[index_of_id]
    return positions


def join_texts(texts: pa.LargeStringArray) -> memoryview:
    """Join texts (n,) with SEPARATOR between them, and return the UTF-8 bytes, as a `Spool` stores them."""
    import pyarrow.compute as pc

    # `binary_join` joins the texts of each list in an array of lists. Here, the array has a single list of all texts.
    # The arrays are made from buffers, because pyarrow would import pandas to convert Python objects. Arrow requires
    # offsets of 32 bits for lists, and of 64 bits for large strings.
    no_nulls = None
    list_offsets = pa.py_buffer(np.array([0, len(texts)], dtype=np.int32))
    all_texts = pa.ListArray.from_buffers(pa.list_(texts.type), 1, [no_nulls, list_offsets], children=[texts])
    separator_offsets = pa.py_buffer(np.array([0, len(SEPARATOR)], dtype=np.int64))
    separator = pa.LargeStringArray.from_buffers(1, separator_offsets, pa.py_buffer(SEPARATOR))
    (joined,) = pc.binary_join(all_texts, separator)
    return memoryview(joined.as_buffer())


def to_int64(values: pa.Array) -> Positions:
    """Convert whole numbers (n,) without nulls to an int64 array (n,).

    The numbers are read from the memory of the Arrow array, because pyarrow would import pandas to convert them.
    """
    numbers = np.frombuffer(values.buffers()[1], dtype=values.type.to_pandas_dtype())
    return numbers[values.offset : values.offset + len(values)].astype(np.int64, copy=False)


def iter_distinct_pairs(positions: Positions, column: pa.LargeStringArray) -> Iterator[tuple[int, str | None, int]]:
    """Yield each distinct pair of a number and a text once, with the first row that contains it.

    The caller then need not process repeated pairs.

    positions : int array (n_rows,), number of each row, at least 0
    column : text of each row (n_rows,), null if missing

    Yields for each pair the number, the text (None if it is null), and the position of the first row.
    """
    encoded = column.dictionary_encode()
    texts: list[str | None] = [*encoded.dictionary.to_pylist(), None]
    n_texts = len(texts)
    null_code = n_texts - 1
    text_codes = to_int64(encoded.indices.fill_null(null_code))

    # a pair is encoded as one integer, position · n_texts + code of the text, because `np.unique` compares single numbers
    pair_codes, first_rows = np.unique(positions * n_texts + text_codes, return_index=True)
    for pair_code, row in zip(pair_codes.tolist(), first_rows.tolist(), strict=True):
        position, text_code = divmod(pair_code, n_texts)
        yield position, texts[text_code], row
