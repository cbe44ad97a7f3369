"""Collect the texts and cells of a pool while it is read, and report errors with the location of the row.

Texts of up to `MAX_BYTES_IN_MEMORY` in all are kept in memory; those of a larger pool go to a temporary file.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, SupportsIndex, cast
from weakref import finalize

import numpy as np

from youden.errors import PoolError
from youden.run_keys import EmptyRule
from youden.text.json_text import replace_surrogates
from youden.text.printable import find_name_fault, printable
from youden.text.regular_files import check_regular
from youden.text.replacements import Replacements
from youden.types.pool import Bools, Objects, Positions
from youden.types.texts_in_file import SEPARATOR, TextsInFile, find_file_texts

MAX_BYTES_IN_MEMORY = 200_000_000
"""Maximum size of a pool's texts in memory; larger ones go to an unnamed temporary file, deleted with the process."""

_BUFFER_BYTES = 2**20

_HAS_PREAD = hasattr(os, "pread")


class Spool:
    """Texts in the order in which they are read, in memory or, above `MAX_BYTES_IN_MEMORY`, in a temporary file.

    Methods raise PoolError [disk-full] if the disk has no space for the file.
    """

    def __init__(self) -> None:
        self._data = bytearray()  # texts in UTF-8, each followed by SEPARATOR, until they are moved to the file
        self._file: BinaryIO | None = None
        self._n_bytes = array("q")  # bytes of each text, without SEPARATOR
        self._n_characters = array("q")

    def __len__(self) -> int:
        return len(self._n_bytes)

    def append(self, text: str) -> None:
        """Store one text after the texts that have been added so far."""
        data = text.encode()
        self._n_bytes.append(len(data))
        self._n_characters.append(len(text))
        self._store_encoded(data)

    def extend(self, joined: bytes | memoryview, *, n_bytes: Positions, lengths: Positions) -> None:
        """Add n texts at once.

        joined : the texts in UTF-8, joined by SEPARATOR
        n_bytes, lengths : int arrays (n,), bytes and characters of each text
        """
        self._n_bytes.frombytes(n_bytes.tobytes())
        self._n_characters.frombytes(lengths.tobytes())
        self._store_encoded(joined)

    def to_array(self, cells: Positions, shape: tuple[int, int]) -> Objects:
        """Return the texts as an array of objects, with None at each position without a text.

        If the texts are in a temporary file, the result is a `TextsInFile`. It is indexed like an array, and reads a text
        from the file whenever the text is accessed.

        cells : int array (n_texts,), position of each text in the array, counted row by row from 0; all positions differ. The
            texts have the order in which they were added.
        shape : number of rows and of columns of the array

        Raises: PoolError [disk-full] if the disk has no space for the temporary file.
        """
        n_bytes = np.frombuffer(self._n_bytes, dtype=np.int64)
        n_bytes_with_separator = n_bytes + len(SEPARATOR)
        starts = np.cumsum(n_bytes_with_separator) - n_bytes_with_separator  # total size of the texts before each text
        ends = starts + n_bytes
        if self._file is None:
            bounds = zip(starts.tolist(), ends.tolist(), strict=True)
            flat_texts = np.full(shape[0] * shape[1], None, dtype=np.object_)
            flat_texts[cells] = [self._data[start:end].decode() for start, end in bounds]
            return flat_texts.reshape(shape)

        with _explain_full_disk():
            self._file.flush()
        n_characters = np.frombuffer(self._n_characters, dtype=np.int64)
        texts_in_file = TextsInFile(
            self._file,
            start=_place_in_cells(starts, cells, shape, default=-1),
            n_bytes=_place_in_cells(n_bytes, cells, shape, default=0),
            lengths=_place_in_cells(n_characters, cells, shape, default=0),
        )
        return cast(Objects, texts_in_file)  # which is indexed like an array of objects

    def _store_encoded(self, data: bytes | memoryview) -> None:
        """Append encoded texts to the stored texts.

        Texts are kept in memory up to a total of `MAX_BYTES_IN_MEMORY`. Above this total, all texts are moved to a temporary
        file, and later texts are appended to the file. If the system has no `os.pread`, which is needed to read from the file,
        all texts stay in memory.

        data : one text in UTF-8, or several texts that are joined by SEPARATOR
        """
        if self._file is not None:
            with _explain_full_disk():
                self._file.write(data)
                self._file.write(SEPARATOR)
            return

        self._data += data
        self._data += SEPARATOR
        if len(self._data) > MAX_BYTES_IN_MEMORY and _HAS_PREAD:
            with _explain_full_disk():
                self._file = _open_temporary_file()
                finalize(self, _close_file, self._file)
                self._file.write(self._data)
            self._data.clear()


def _open_temporary_file() -> BinaryIO:
    """Open a new file that is deleted when it is closed."""
    return cast(BinaryIO, tempfile.TemporaryFile(buffering=_BUFFER_BYTES))


def _close_file(file: BinaryIO) -> None:
    """Close a file, whether or not its buffer can be written."""
    with suppress(OSError):  # the buffer may not fit on the disk
        file.close()


@contextmanager
def _explain_full_disk() -> Iterator[None]:
    """Convert an OSError from the block to PoolError [disk-full]."""
    try:
        yield
    except OSError as error:
        raise PoolError(
            f"The texts of this pool have more than {MAX_BYTES_IN_MEMORY // 10**6} MB, and there is no space for a copy of "
            f"them in {tempfile.gettempdir()} ({error.strerror}). Remove files there, or set the environment variable TMPDIR "
            "to another folder.",
            slug="disk-full",
        ) from error


def _place_in_cells(values: Positions, cells: Positions, shape: tuple[int, int], *, default: int) -> Positions:
    """Return an array of the given shape with `values` in `cells`, and `default` in all other cells.

    values, cells : int arrays (n,), values and their positions in the flattened array
    """
    result = np.full(shape, default, dtype=np.int64)
    result.ravel()[cells] = values
    return result


_LOG = logging.getLogger(__name__)

MAX_CELLS = 200_000_000
LONG_TEXT = 1_000_000
"""Texts of more characters (about 250,000 tokens) are reported: few judges can read them, and checks of them are
slow."""


def format_excerpt(value: object) -> str:
    """Format a value for a message, cut to 60 characters.

    Parameters
    ----------
    value : object
        Value of any type, such as an invalid field of a file.

    Returns
    -------
    str
        The beginning of its `repr`.
    """
    text = repr(value[:60] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 60 else f"{text[:57]}…"


_WHOLE_NUMBER = re.compile(r"[0-9]{1,10}(\.0+)?")


@dataclass(frozen=True)
class Source:
    """A file of rows (`unit` is the word for a row in messages).

    Methods raise PoolError, whose message begins with the path and the number of the row, from 1. `replaced` counts
    texts in which characters were replaced.
    """

    path: Path
    unit: Literal["line", "row"] = "line"
    replaced: Replacements = field(default_factory=Replacements, compare=False)

    def make_error(self, row_number: int | None, problem: str, *, slug: str) -> PoolError:
        """Return the error for a problem in the row with this number, or in the whole file if it is None."""
        location = str(self.path) if row_number is None else f"{self.path}, {self.unit} {row_number}"
        return PoolError(f"{location}: {problem}", slug=slug)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file as bytes; raise PoolError [pool-file] if that fails."""
        try:
            check_regular(self.path)
            file = self.path.open("rb")
        except OSError as error:
            raise self.make_error(
                None, f"it cannot be opened ({error.strerror}). Check the path and its permissions.", slug="pool-file"
            ) from error
        with file:
            yield file

    def decode(self, raw: bytes, row_number: int) -> str:
        """Decode a row of the file from UTF-8; a byte order mark is not removed.

        raw : the bytes of the row
        row_number : number of the row in the file, from 1, for the error

        Raises: PoolError [pool-encoding] if the row is not UTF-8.
        """
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.make_error(
                row_number,
                f"byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8. Save the file as UTF-8, "
                "or pass it to `youden init`, which also reads UTF-16 and writes a pool.",
                slug="pool-encoding",
            ) from error

    def require_id(self, value: object, kind: str, row_number: int) -> str:
        """Check the id of an agent or item, and return it unchanged.

        value : the id; a value that is not a string is an error, even an integer
        kind : "agent" or "item", for the error
        row_number : number of the row in the file, from 1, for the error

        Raises: PoolError [pool-id] if the id is not a string, is blank, has control characters, or starts like a formula of
            a spreadsheet (with =, +, -, @). A plain number such as -3 is valid.
        """
        if not isinstance(value, str):
            raise self.make_error(
                row_number,
                f"the {kind} id is not a string: got {format_excerpt(value)}. Set ids that are strings.",
                slug="pool-id",
            )
        if not value.strip():
            raise self.make_error(
                row_number, f"the {kind} id is empty ({value!r}). Set a different id for every {kind}.", slug="pool-id"
            )
        self.check_name(value, f"{kind} id", row_number)
        return value

    def make_no_string_error(self, value: object, subject: str, row_number: int) -> PoolError:
        """Return the error [pool-key] for a prompt or group (`subject`) that is not a string, in the row with this number."""
        problem = f"the {subject} is not a string: got {format_excerpt(value)}. Set a string, or remove the {subject}."
        return self.make_error(row_number, problem, slug="pool-key")

    def check_name(self, value: str, subject: str, row_number: int) -> None:
        """Raise PoolError [pool-id] if a name has control characters, or if a spreadsheet would run it as a formula.

        subject : what the name is, such as "agent id" or "group", for the error
        row_number : number of the row in the file, from 1, for the error
        """
        if problem := find_name_fault(value):
            raise self.make_error(row_number, f"the {subject} {format_excerpt(value)} {problem}", slug="pool-id")

    def require_text(self, value: object, row_number: int) -> str:
        """Check a response and return it; log a warning if it has more than `LONG_TEXT` (1,000,000) characters.

        None and a text of whitespace become the empty string, which is a valid response. Any other text is returned unchanged.

        value : the response
        row_number : number of the row in the file, from 1, for the error

        Raises: PoolError [pool-text] if the response is neither a string nor None.
        """
        if value is None:
            return ""
        if isinstance(value, str):
            self.warn_if_long(value, "text", row_number)
            return "" if value.isspace() else value
        raise self.make_error(
            row_number,
            f"the text is not a string: got {format_excerpt(value)}. Set a string, which is empty for an empty response, or "
            "remove the row if there is no response.",
            slug="pool-text",
        )

    def parse_repeat(self, value: object, row_number: int) -> int | None:
        """Convert the number of a repeat to an integer; None and the empty string become None.

        value : integer, float such as 2.0, or string of digits such as "2" or "2.0", without spaces
        row_number : number of the row in the file, from 1, for the error

        Raises: PoolError [pool-repeat] if the repeat is not a whole number from 0 to 2³¹ − 1, for example NaN or a bool.
        """
        if value is None or value == "":
            return None

        repeat = _to_whole_number(value)
        if repeat is not None and 0 <= repeat < 2**31:
            return repeat
        raise self.make_error(
            row_number,
            f"the repeat is not a whole number: got {format_excerpt(value)}. Number an agent's responses to an item from 0 or 1.",
            slug="pool-repeat",
        )

    def to_encodable(self, value: object, row_number: int) -> object:
        """Replace unpaired surrogates, which UTF-8 cannot encode, by U+FFFD, and count the text in `replaced`."""
        if not isinstance(value, str):
            return value
        encodable = replace_surrogates(value)
        self.replaced.add(n_texts=int(encodable != value), location=f"{self.path}, {self.unit} {row_number}")
        return encodable

    def log_replaced(self) -> None:
        """Log a warning if a text had unpaired surrogates."""
        if note := self.replaced.describe():
            _LOG.warning("%s", printable(note))

    def warn_if_long(self, value: str, subject: str, row_number: int) -> None:
        """Log a warning with the file and the row if a text has more than `LONG_TEXT` (1,000,000) characters.

        value : the text
        subject : what the text is, such as "response", for the warning
        row_number : number of the row in the file, from 1, for the warning
        """
        if len(value) > LONG_TEXT:
            _LOG.warning(
                "%s, %s %d: the %s has %s characters. Checks of it take a while, and few judges can read it. Check whether it is "
                "correct.",
                printable(str(self.path)),
                self.unit,
                row_number,
                subject,
                f"{len(value):,}",
            )


def _to_whole_number(value: object) -> int | None:
    """Convert an integer, a float such as 2.0, or a text such as "2" or "2.0" to an int; None for any other value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
        digits, _, _ = value.partition(".")
        return int(digits)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, SupportsIndex) else None  # integers of Python and numpy


def _find_first_duplicate(order: Positions, is_duplicate: Bools) -> tuple[int, int]:
    """Find the first response in the file that has the same agent, item and repeat as an earlier response.

    order : int array (n_responses,), positions of the responses, sorted by agent, item and repeat
    is_duplicate : bool array (n_responses - 1,), whether the responses order[i] and order[i + 1] have the same agent, item
        and repeat; at least one is True

    Returns the positions of the earlier response and of its duplicate, in the order of the file.
    """
    # is_duplicate[i] compares the responses order[i] and order[i + 1]
    compared = np.flatnonzero(is_duplicate)
    earlier_responses, duplicates = order[compared], order[compared + 1]
    earliest = int(duplicates.argmin())
    return int(earlier_responses[earliest]), int(duplicates[earliest])


def _split_rows(texts: Objects, n_rows: int) -> tuple[Objects, Objects]:
    """Return copies of the first rows of an array of texts and of the others; texts in a file stay there."""
    texts_in_file = find_file_texts(texts)
    if texts_in_file is None:
        return texts[:n_rows].copy(), texts[n_rows:].copy()
    first_rows = texts_in_file.rows(slice(n_rows))
    other_rows = texts_in_file.rows(slice(n_rows, None))
    return cast(Objects, first_rows), cast(Objects, other_rows)


def _rank_in_cells(order: Positions, is_same_cell: Bools) -> Positions:
    """Return the number of each response among those of the same agent to the same item, from 0.

    A cell is a pair of an agent and an item. For example, three responses of one cell get the numbers 0, 1 and 2.

    order : int array (n_responses,), positions of the responses, sorted by cell and repeat
    is_same_cell : bool array (n_responses - 1,), whether the responses order[i] and order[i + 1] have the same cell

    Returns an int array (n_responses,), the number of each response, in the order in which the responses were added.
    """
    sorted_position = np.arange(len(order))
    is_first_of_cell = np.append(True, ~is_same_cell)
    # in the sorted order, a cell begins at the last position so far that is the first of a cell
    first_positions = np.where(is_first_of_cell, sorted_position, 0)
    start_of_cell = np.maximum.accumulate(first_positions)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = sorted_position - start_of_cell
    return rank


class PoolCells:
    """Collects responses, and arranges them by agent and item.

    Attributes
    ----------
    empty : {"failure", "missing"}
        Whether an empty text counts as a response ("failure") or is left out ("missing").
    """

    def __init__(self, empty: EmptyRule) -> None:
        self.empty = empty
        self._agent = array("q")
        self._item = array("q")
        self._row_number = array("q")
        self._repeat_by_response: dict[int, int] = {}  # position of the response → repeat, if it is set
        self._texts = Spool()

    def add(self, agent: int, item: int, text: str, *, row_number: int, repeat: int | None = None) -> None:
        """Add one response, unless it is empty and empty texts are left out.

        An agent may have several responses to an item, which must have different repeats. `to_texts` checks this.

        agent, item : positions of the agent and the item among all agents and items, from 0
        text : the response; an empty text is left out if the attribute `empty` is "missing"
        row_number : number of the row in the file, from 1, for errors
        repeat : number that distinguishes several responses of the agent to the item; None counts as 1

        Raises: PoolError [disk-full] if the disk has no space for the temporary file of a large pool.
        """
        is_left_out = self.empty == "missing" and text == ""
        if is_left_out:
            return
        response = len(self._agent)  # position of the new response
        if repeat is not None:
            self._repeat_by_response[response] = repeat
        self._agent.append(agent)
        self._item.append(item)
        self._row_number.append(row_number)
        self._texts.append(text)

    def extend(self, agents: Positions, items: Positions, row_numbers: Positions) -> Spool:
        """Add n responses without their texts, and return the `Spool` to which the caller must add the n texts.

        The texts must have the same order. None of them may be empty if empty texts count as missing responses. The responses
        have no repeat, which counts as 1.

        agents, items : int arrays (n,), positions of agents and items, from 0
        row_numbers : int array (n,), numbers of the rows in the file, from 1
        """
        self._agent.frombytes(agents.astype(np.int64).tobytes())
        self._item.frombytes(items.astype(np.int64).tobytes())
        self._row_number.frombytes(row_numbers.astype(np.int64).tobytes())
        return self._texts

    def _check_size(self, source: Source, n_agents: int, n_items: int) -> None:
        """Raise PoolError [pool-empty] if there are no rows, or [pool-size] if there are too many combinations of agent and item.

        source : file of the pool, for errors
        """
        if len(self._texts) == 0:
            raise source.make_error(None, "it has no rows. Add one row per response.", slug="pool-empty")
        n_cells = n_agents * n_items
        if n_cells > MAX_CELLS:
            raise source.make_error(
                None,
                f"the pool is too large: got {n_agents} agents × {n_items} items, {n_cells:.0e} cells, for "
                f"{len(self._texts)} rows. Check that the ids of agents and items are not different in every row, or split the "
                "pool.",
                slug="pool-size",
            )

    def check_agents(self, source: Source, agents: Sequence[str]) -> None:
        """Check that each agent has at least one response. An agent may lose all its responses if empty texts count as missing.

        source : file of the responses, for errors
        agents : ids, by position

        Raises PoolError [pool-agent] for the first agent without a response.
        """
        without_response = sorted({*range(len(agents))} - {*self._agent})
        if without_response:
            agent_id = agents[without_response[0]]
            problem = f"agent {agent_id!r} has no response. Add its responses, or remove the agent."
            raise source.make_error(None, problem, slug="pool-agent")

    def to_texts(self, source: Source, *, agents: list[str], items: list[str]) -> tuple[Objects, Objects | None]:
        """Arrange the responses in arrays by agent and item.

        If an agent has several responses to an item, they are ordered by repeat, the number that distinguishes them.

        Parameters
        ----------
        source : Source
            File of the responses, for errors.
        agents, items : list of str
            Ids of the agents and items, by position.

        Returns
        -------
        texts : object array (n_agents, n_items)
            First response of each agent to each item; None without a response.
        repeat_texts : object array ((n_repeats - 1) * n_agents, n_items) or None
            Second responses in the first n_agents rows, then third responses, and so on. None if there are only first responses.
            Texts in a temporary file are read from it when needed.

        Raises
        ------
        PoolError
            [pool-empty] if there are no rows; [pool-duplicate] if two rows have the same agent, item and repeat (None is 1);
            [pool-size] if there are more than 200 million pairs of an agent and an item; [disk-full] if the disk has no space for
            the temporary file.
        """
        n_agents, n_items = len(agents), len(items)
        self._check_size(source, n_agents, n_items)

        # a cell is a pair of an agent and an item; cells are numbered row by row
        agent = np.frombuffer(self._agent, dtype=np.int64)
        item = np.frombuffer(self._item, dtype=np.int64)
        cell = agent * n_items + item
        order, is_same_cell, is_duplicate = self._sort_by_cell(cell)
        if is_duplicate.any():
            first, second = _find_first_duplicate(order, is_duplicate)
            agent_id, item_id = agents[agent[second]], items[item[second]]
            raise self._make_duplicate_error(source, agent_id, item_id, first=first, second=second)
        has_repeats = is_same_cell.any()
        if not has_repeats:
            return self._texts.to_array(cell, (n_agents, n_items)), None

        # with 2 agents and 3 items, the first responses have the numbers 0 to 5, the second responses 6 to 11, and so on
        rank = _rank_in_cells(order, is_same_cell)
        n_cells = n_agents * n_items
        cell_of_repeat = rank * n_cells + cell
        n_repeats = int(rank.max()) + 1
        all_texts = self._texts.to_array(cell_of_repeat, (n_repeats * n_agents, n_items))
        return _split_rows(all_texts, n_agents)

    def _sort_by_cell(self, cell: Positions) -> tuple[Positions, Bools, Bools]:
        """Sort the responses by cell (a pair of an agent and an item), and the responses of a cell by repeat.

        A repeat is a number that distinguishes several responses of a cell.

        cell : int array (n_responses,), number of the cell of each response

        Returns
        -------
        order : int array (n_responses,)
            Positions of the responses, in the sorted order.
        is_same_cell : bool array (n_responses - 1,)
            Whether the responses order[i] and order[i + 1] have the same cell.
        is_duplicate : bool array (n_responses - 1,)
            Whether the responses order[i] and order[i + 1] have the same cell and the same repeat.
        """
        repeat = np.ones(len(cell), dtype=np.int64)
        if self._repeat_by_response:
            responses_with_repeat = list(self._repeat_by_response)
            repeat[responses_with_repeat] = list(self._repeat_by_response.values())
            order = np.lexsort((repeat, cell))
        else:
            order = np.argsort(cell, kind="stable")

        is_same_cell = np.diff(cell[order]) == 0
        is_same_repeat = np.diff(repeat[order]) == 0
        is_duplicate = is_same_cell & is_same_repeat
        return order, is_same_cell, is_duplicate

    def _make_duplicate_error(self, source: Source, agent: str, item: str, *, first: int, second: int) -> PoolError:
        """Make the error for two responses of an agent to an item that no repeat distinguishes [pool-duplicate].

        source : file of the responses
        first, second : positions of the two responses, in the order in which they were added
        """
        return source.make_error(
            self._row_number[second],
            f"agent {format_excerpt(agent)} already has a response to item {format_excerpt(item)} "
            f"in {source.unit} {self._row_number[first]}. Remove one of the two or, if both are responses of the agent, number "
            "them in `repeat`.",
            slug="pool-duplicate",
        )
