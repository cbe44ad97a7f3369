"""What a provider of batches has to offer, which ones there are, and the folder that anybody works off.

In the folder `requests-X.jsonl` is answered by `answers-X.jsonl`, in any order of lines. A batch has ended once each of its
requests has a result line, or once there is a file `answers-X.done` beside answers that can all be read: the rest then never ran.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

from youden.data.atomic import make_directory, replacing
from youden.errors import JudgeError
from youden.judging.call.failures import CallError
from youden.judging.offline.lines import LineReader


@dataclass(frozen=True)
class LineError:
    """Why the provider rejected a batch."""

    code: str | None
    """The provider's code; None if it sends none."""
    message: str
    """The provider's message."""
    line: int | None
    """Line of the file, from 1; None if it names none."""


@dataclass(frozen=True)
class BatchState:
    """State of a batch, as its provider reports it without doubt."""

    status: str
    """The provider's word for it."""
    ended: bool
    """Whether the batch has ended."""
    n_done: int = 0
    """Number of finished requests."""
    files: tuple[str, ...] = ()
    """Ids of the result files of an ended batch."""
    n_lines: int | None = None
    """Number of result lines of an ended batch in which a request without a line never ran; None if every request must have a
    line.
    """
    errors: tuple[LineError, ...] = ()
    """Why the provider rejected the whole batch; empty if it did not."""


class BatchProvider(Protocol):
    """Runs files of requests. Every method raises CallError where it could not."""

    async def upload(self, text: bytes) -> str:
        """The id of a new file of requests."""

    async def start(self, file: str, *, perhaps_begun: bool) -> str:
        """The id of the batch of an uploaded file; never a second one of the same file.

        Raises: CallError, `free` only where no batch of the file was begun.
        """

    async def look(self, batch: str) -> BatchState:
        """How far a batch is. Raises: CallError, to be tried again, where what the provider says is no known state."""

    async def fetch(self, file: str) -> bytes:
        """The text of a result file."""

    async def aclose(self) -> None:
        """Let go of what is held open."""


NOT_FOUND = 404


class FolderBatches:
    """Batches in `folder`; ids are names of files in it.

    Every method raises CallError where a file is not there; JudgeError [batch-folder] where the folder cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counted: dict[str, tuple[tuple[int, int], tuple[set[str], int]]] = {}

    async def upload(self, text: bytes) -> str:
        """Leave a file of requests; the same requests again, while nobody answered them, are the same file."""
        digest = hashlib.sha256(text).hexdigest()[:12]
        with _explained():
            make_directory(self._folder)
            names = (f"requests-{digest}-{number}.jsonl" for number in count(1))
            name = next(one for one in names if not self._answers(one).exists())
            with replacing(self._folder / name) as fresh:
                fresh.write_bytes(text)
        return name

    async def start(self, file: str, *, perhaps_begun: bool) -> str:
        """The file is the batch."""
        return file

    async def look(self, batch: str) -> BatchState:
        """How many of its requests have a result line so far."""
        answers = self._answers(batch)
        with _explained():
            told_done = answers.with_suffix(".done").exists()
            wanted, _ = self._read(self._folder / batch)
            answered, n_unreadable = self._read(answers) if answers.exists() else (set(), 0)
        done = answered & wanted
        if done == wanted:
            return BatchState("completed", ended=True, n_done=len(done), files=(answers.name,))
        if not told_done:
            return BatchState("waiting", ended=False, n_done=len(done))
        if not done or n_unreadable:
            raise CallError(
                f"{answers.with_suffix('.done').name} is there, but {answers.name} holds {len(done):,} results and "
                f"{n_unreadable:,} lines that cannot be read: finish it, or take those lines out.",
                kind="retry",
            )
        return BatchState("ended short", ended=True, n_done=len(done), files=(answers.name,), n_lines=len(done))

    async def fetch(self, file: str) -> bytes:
        """The result lines."""
        with _explained():
            return (self._folder / file).read_bytes()

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _answers(self, requests: str) -> Path:
        return self._folder / requests.replace("requests-", "answers-", 1)

    def _read(self, path: Path) -> tuple[set[str], int]:
        """Return the keys of a file's lines, and how many lines have none; read it again only if it has changed."""
        now = path.stat().st_size, path.stat().st_mtime_ns
        known = self._counted.get(path.name)
        if known is None or known[0] != now:
            read = LineReader().read
            with path.open("rb") as file:
                every = [read(line).key for line in file if line.strip()]
            keys = [key for key in every if isinstance(key, str)]
            known = self._counted[path.name] = now, (set(keys), len(every) - len(keys))
        return known[1]


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise CallError(f"{error.filename} is not there.", kind="stop", status=NOT_FOUND) from None
    except OSError as error:
        raise JudgeError(
            f"The folder of batches cannot be used ({error}). Check its disk and permissions, then run the same again; what is "
            "there stays.",
            slug="batch-folder",
        ) from None
