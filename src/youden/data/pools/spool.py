"""Texts and cells while a pool is read: where each row stands, what is wrong with it, and when texts leave memory
(`MOST_IN_MEMORY`).
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, SupportsIndex, cast
from weakref import finalize

import numpy as np

from youden.errors import PoolError
from youden.text.json_text import replace_surrogates
from youden.text.printable import acts, printable
from youden.text.regular_files import check_regular
from youden.text.replacements import Replacements
from youden.types.pool import SEPARATOR, Objects, Positions, TextsInFile, in_file

MOST_IN_MEMORY = 200_000_000
"""Bytes of all texts together. Those of a larger pool go into a file among the machine's temporary ones, which has no name and is
gone with the process."""

BUFFER = 2**20

_READS_ANYWHERE = hasattr(os, "pread")


class Spool:
    """Texts in the order in which they are read. Raises: PoolError [pool-room] where there is no room for their file."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._file: BinaryIO | None = None
        self._n_bytes = array("q")
        self._lengths = array("q")

    def __len__(self) -> int:
        return len(self._n_bytes)

    def append(self, text: str) -> None:
        data = text.encode()
        self._n_bytes.append(len(data))
        self._lengths.append(len(text))
        self._hold(data)

    def extend(self, joined: bytes | memoryview, *, n_bytes: Positions, lengths: Positions) -> None:
        """Some texts with SEPARATOR between them, and the bytes and the characters of each."""
        self._n_bytes.frombytes(n_bytes.tobytes())
        self._lengths.frombytes(lengths.tobytes())
        self._hold(joined)

    def at(self, cells: Positions, shape: tuple[int, int]) -> Objects:
        """object of this shape: the texts at these cells, counted row by row; None elsewhere."""
        n_bytes = np.frombuffer(self._n_bytes, dtype=np.int64)
        starts = np.cumsum(n_bytes + len(SEPARATOR)) - n_bytes - len(SEPARATOR)
        if self._file is None:
            bounds = zip(starts.tolist(), (starts + n_bytes).tolist(), strict=True)
            texts = np.full(shape, None, dtype=np.object_)
            texts.ravel()[cells] = [self._held[start:end].decode() for start, end in bounds]
            return texts
        with _room():
            self._file.flush()
        lengths = np.frombuffer(self._lengths, dtype=np.int64)
        in_file = TextsInFile(
            self._file,
            start=_placed(starts, cells, shape, elsewhere=-1),
            n_bytes=_placed(n_bytes, cells, shape, elsewhere=0),
            lengths=_placed(lengths, cells, shape, elsewhere=0),
        )
        return cast(Objects, in_file)  # which is looked at as an array of objects is

    def _hold(self, data: bytes | memoryview) -> None:
        if self._file is not None:
            with _room():
                self._file.write(data)
                self._file.write(SEPARATOR)
            return
        self._held += data
        self._held += SEPARATOR
        if len(self._held) > MOST_IN_MEMORY and _READS_ANYWHERE:
            with _room():
                self._file = _nameless()
                finalize(self, _close, self._file)
                self._file.write(self._held)
            self._held.clear()


def _nameless() -> BinaryIO:
    return cast(BinaryIO, tempfile.TemporaryFile(buffering=BUFFER))


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # of what there was no room for
        file.close()


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PoolError(
            f"The texts of this pool are more than {MOST_IN_MEMORY // 10**6} MB, and there is no room for a copy of them in "
            f"{tempfile.gettempdir()} ({error.strerror}). Make room there, or name another folder in the environment's TMPDIR.",
            slug="pool-room",
        ) from error


def _placed(values: Positions, cells: Positions, shape: tuple[int, int], *, elsewhere: int) -> Positions:
    placed = np.full(shape, elsewhere, dtype=np.int64)
    placed.ravel()[cells] = values
    return placed


_LOG = logging.getLogger(__name__)

MAX_CELLS = 200_000_000
LONG_TEXT = 1_000_000
"""Characters, about 250,000 tokens: more of them take seconds to look at, and hardly a judge reads them."""


def shown(value: object) -> str:
    """`repr`, cut to 60 characters: texts may be megabytes long."""
    text = repr(value[:60] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 60 else f"{text[:57]}…"


_WHOLE = re.compile(r"[0-9]{1,10}(\.0+)?")


@dataclass(frozen=True)
class Source:
    """A file of rows and the word for one of them."""

    path: Path
    unit: Literal["line", "row"] = "line"
    replaced: Replacements = field(default_factory=Replacements, compare=False)

    def wrong(self, number: int | None, problem: str, *, slug: str) -> PoolError:
        """The error that says what is wrong, and what to do, in the numbered row (1-based) or in the whole file."""
        place = str(self.path) if number is None else f"{self.path}, {self.unit} {number}"
        return PoolError(f"{place}: {problem}", slug=slug)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The file's bytes. Raises: PoolError [pool-file]."""
        try:
            check_regular(self.path)
            file = self.path.open("rb")
        except OSError as error:
            raise self.wrong(
                None, f"it cannot be opened ({error.strerror}). Check the path and its permissions.", slug="pool-file"
            ) from error
        with file:
            yield file

    def decode(self, raw: bytes, number: int) -> str:
        """The row's text. Raises: PoolError [pool-encoding] for bytes that are not UTF-8."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.wrong(
                number,
                f"byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8. Save the file as UTF-8.",
                slug="pool-encoding",
            ) from error

    def id(self, value: object, noun: str, number: int) -> str:
        """`value` as an id. Raises: PoolError [pool-id] for anything but a string with something to see in it,
        and for one that acts where it is shown."""
        if not isinstance(value, str):
            raise self.wrong(
                number, f"the {noun} id is {shown(value)}, no string. Write ids as strings.", slug="pool-id"
            )
        if not value.strip():
            raise self.wrong(
                number, f"the {noun} id is empty ({value!r}). Give every {noun} a name of its own.", slug="pool-id"
            )
        self.name(value, f"{noun} id", number)
        return value

    def name(self, value: str, what: str, number: int) -> None:
        """Refuse a name that would act where it is shown. Raises: PoolError [pool-id]."""
        if problem := acts(value):
            raise self.wrong(number, f"the {what} {shown(value)} {problem}", slug="pool-id")

    def text(self, value: object, number: int) -> str:
        """`value` as a response. Raises: PoolError [pool-text] for anything but a string."""
        if isinstance(value, str):
            return self.noticed(value, "text", number)
        raise self.wrong(
            number,
            f"the text is {shown(value)}, no string. Leave the row out where there is no response; "
            "an empty response is the empty string.",
            slug="pool-text",
        )

    def repeat(self, value: object, number: int) -> int | None:
        """Parse the number of a repeat, a whole number from 0 on; None if the row has none.

        Raises: PoolError [pool-repeat] for anything else.
        """
        if value is None or value == "":
            return None
        repeat = -1
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            repeat = int(value.partition(".")[0])
        elif (isinstance(value, float) and value.is_integer()) or (
            isinstance(value, SupportsIndex) and not isinstance(value, bool)
        ):
            repeat = int(value)
        if 0 <= repeat < 2**31:
            return repeat
        raise self.wrong(
            number,
            f"the repeat is {shown(value)}. Number an agent's responses to one item from 0 or 1.",
            slug="pool-repeat",
        )

    def encodable(self, value: object, number: int) -> object:
        """Replace unpaired surrogates, which UTF-8 cannot encode, by U+FFFD, and count the text in `replaced`."""
        if not isinstance(value, str):
            return value
        encodable = replace_surrogates(value)
        self.replaced.add(n_texts=int(encodable != value), place=f"{self.path}, {self.unit} {number}")
        return encodable

    def log_replaced(self) -> None:
        """Log a warning if a text had unpaired surrogates."""
        if note := self.replaced.describe():
            _LOG.warning("%s", printable(note))

    def noticed(self, value: str, what: str, number: int) -> str:
        """`value`; one of more than LONG_TEXT characters is named in a warning of the log."""
        if len(value) > LONG_TEXT:
            _LOG.warning(
                "%s, %s %d: the %s has %s characters. Looking at it takes a while, and hardly a judge reads it: "
                "see whether it is what it should be.",
                *(printable(str(self.path)), self.unit, number, what, f"{len(value):,}"),
            )
        return value


class PoolCells:
    """Responses in the order in which they are read, as columns: agent and item by position, row number, text; and which of
    several responses to the item it is, where any row says so."""

    def __init__(self) -> None:
        self._agent = array("q")
        self._item = array("q")
        self._number = array("q")
        self._repeat: dict[int, int] = {}
        self._texts = Spool()

    def add(self, agent: int, item: int, text: str, *, number: int, repeat: int | None = None) -> None:
        if repeat is not None:
            self._repeat[len(self._agent)] = repeat
        self._agent.append(agent)
        self._item.append(item)
        self._number.append(number)
        self._texts.append(text)

    def extend(self, agents: Positions, items: Positions, numbers: Positions) -> Spool:
        """Many cells at once. Returns where their texts go, in the same order."""
        for column, values in ((self._agent, agents), (self._item, items), (self._number, numbers)):
            column.frombytes(values.astype(np.int64).tobytes())
        return self._texts

    def grids(self, source: Source, *, agents: list[str], items: list[str]) -> tuple[Objects, Objects | None]:
        """`texts` and `further` of a pool; of a large one, as `TextsInFile` gives them. Repeats of a cell stand in the order of
        their numbers.

        Raises: PoolError [pool-empty] without rows, [pool-duplicate] naming both rows of a cell that is given twice,
            [pool-size] above 200 million cells.
        """
        n_agents, n_items = len(agents), len(items)
        if not len(self._texts):
            raise source.wrong(None, "it has no rows. Give one row for each response.", slug="pool-empty")
        if n_agents * n_items > MAX_CELLS:
            raise source.wrong(
                None,
                f"{n_agents} agents × {n_items} items are {n_agents * n_items:.0e} cells for {len(self._texts)} rows. "
                "Check that the ids of agents and items are not different in every row, or split the pool.",
                slug="pool-size",
            )
        cell = np.frombuffer(self._agent, dtype=np.int64) * n_items + np.frombuffer(self._item, dtype=np.int64)
        repeat = np.ones(len(cell), dtype=np.int64)
        if self._repeat:
            repeat[list(self._repeat)] = list(self._repeat.values())
        order = np.lexsort((repeat, cell)) if self._repeat else np.argsort(cell, kind="stable")
        same = cell[order[1:]] == cell[order[:-1]]
        again = np.flatnonzero(same & (repeat[order[1:]] == repeat[order[:-1]]))
        if len(again):
            earliest = again[np.argmin(order[again + 1])]
            first, second = order[earliest], order[earliest + 1]
            raise source.wrong(
                self._number[second],
                f"agent {shown(agents[self._agent[second]])} has responded to item {shown(items[self._item[second]])} "
                f"in {source.unit} {self._number[first]} already. Keep one of the two; where both are its responses, number them "
                "in `repeat`.",
                slug="pool-duplicate",
            )
        if not same.any():
            return self._texts.at(cell, (n_agents, n_items)), None
        position, starts = np.arange(len(cell)), np.append(True, ~same)
        nth = np.empty(len(cell), dtype=np.int64)
        nth[order] = position - np.maximum.accumulate(np.where(starts, position, 0))
        every = self._texts.at(cell + nth * (n_agents * n_items), ((int(nth.max()) + 1) * n_agents, n_items))
        kept = in_file(every)
        if kept is None:
            return every[:n_agents].copy(), every[n_agents:].copy()
        return cast(Objects, kept.rows(slice(n_agents))), cast(Objects, kept.rows(slice(n_agents, None)))
