"""Define the contract of a provider of batches, and exchange files with an engine through a folder.

In the folder, an external engine answers `requests-X.jsonl` by `answers-X.jsonl`, with its lines in any order. A batch
has ended when each of its requests has a result line, or when a file `answers-X.done` exists next to answers that can
all be read; requests without a result then never ran.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

from youden.data.atomic import atomic_write, make_directory
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
    """State of a batch; made only from a status that is known."""

    status: str
    """The provider's name of the status."""
    ended: bool
    """Whether the batch has ended."""
    n_done: int = 0
    """Number of finished requests."""
    files: tuple[str, ...] = ()
    """Ids of the result files of an ended batch."""
    n_lines: int | None = None
    """Number of result lines of an ended batch; other requests never ran. None if every request must get a line."""
    errors: tuple[LineError, ...] = ()
    """Why the provider rejected the whole batch; empty if it did not."""
    n_requests: int | None = None
    """Number of requests of the batch; None if the provider does not report it."""


class BatchProvider(Protocol):
    """Runs files of requests as batches. Every method raises CallError if it fails."""

    async def upload(self, text: bytes) -> str:
        """Upload a file of requests.

        Parameters
        ----------
        text : bytes
            One request per line, in OpenAI's format.

        Returns
        -------
        str
            Id of the file.
        """

    async def start(self, file: str, *, maybe_started: bool) -> str:
        """Start the batch of an uploaded file; never a second one of the same file.

        Parameters
        ----------
        file : str
            Id of the file.
        maybe_started : bool
            Whether an earlier process may have started the batch.

        Returns
        -------
        str
            Id of the batch. If the batch was started before, this is the id of the existing batch.

        Raises
        ------
        CallError
            If the batch cannot be started. Its attribute `unbilled` is True only if certainly no batch of the file was started.
        """

    async def status(self, batch: str) -> BatchState:
        """Return the current status of a batch.

        Parameters
        ----------
        batch : str
            Id of the batch.

        Returns
        -------
        BatchState
            The status.

        Raises
        ------
        CallError
            Of a kind that is retried, if the provider reports a status that is not known.
        """

    async def fetch(self, file: str) -> bytes:
        """Return the content of a result file.

        Parameters
        ----------
        file : str
            Id of the file, from `BatchState.files`.

        Returns
        -------
        bytes
            One result per line, in OpenAI's format.
        """

    async def aclose(self) -> None:
        """Close all connections."""


NOT_FOUND = 404
"""HTTP status of a batch or file that does not exist."""


class _Progress(NamedTuple):
    """What the files of a batch in a folder state about it."""

    n_requests: int
    """Number of requests."""
    n_done: int
    """Number of requests with a result line."""
    n_unreadable: int
    """Number of lines of the file of answers that cannot be read."""
    is_marked_done: bool
    """Whether the engine has created the file which states that no more answers will follow."""


def _get_done_path(answers_path: Path) -> Path:
    """Return the path of the file with which the engine marks a file of answers as done."""
    return answers_path.with_suffix(".done")


class FolderBatches:
    """Batches that an external engine runs from a folder; the ids are names of files in it.

    Every method raises CallError if a file does not exist, and JudgeError [batch-folder] if the folder cannot be used.

    Parameters
    ----------
    folder : Path
        Folder of the files, which is created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # by file name: size and modification time of the file, and the result of `_read_request_hashes`
        self._cached_hashes: dict[str, tuple[tuple[int, int], tuple[set[str], int]]] = {}

    async def upload(self, text: bytes) -> str:
        """Write a file of requests to the folder, from which the external engine reads it, and return the name of the file.

        The name is `requests-HASH-NUMBER.jsonl`, with a hash of the requests. The number is 1, or a higher one if the engine has
        already answered files of the same requests. A file that has no answers yet is overwritten.

        text : one request per line, in UTF-8
        """
        digest = hashlib.sha256(text).hexdigest()[:12]
        with _convert_file_errors():
            make_directory(self._folder)
            names = (f"requests-{digest}-{number}.jsonl" for number in count(1))
            name = next(name for name in names if not self._get_answer_path(name).exists())
            with atomic_write(self._folder / name) as tmp_path:
                tmp_path.write_bytes(text)
        return name

    async def start(self, file: str, *, maybe_started: bool) -> str:
        """Return the name of the file, which is also the id of the batch."""
        return file

    async def status(self, batch: str) -> BatchState:
        """Return the current status of a batch: "completed", "ended short" or "waiting".

        - "completed": all requests have a result line in the file of answers.
        - "ended short": only some requests have one, and the engine has created a file `answers-….done`, which marks that no more
          lines will follow.
        - "waiting": otherwise.

        batch : name of the file of requests, which is the id of the batch

        Raises: CallError (transient) if the batch is marked as done, and its file of answers is empty or has lines that
        cannot be read.
        """
        answers_path = self._get_answer_path(batch)
        with _convert_file_errors():
            progress = self._read_progress(self._folder / batch, answers_path)

        n_done, files = progress.n_done, (answers_path.name,)
        if n_done == progress.n_requests:
            return BatchState("completed", ended=True, n_done=n_done, files=files)
        if not progress.is_marked_done:
            return BatchState("waiting", ended=False, n_done=n_done)
        if n_done > 0 and progress.n_unreadable == 0:
            n_requests = progress.n_requests
            return BatchState(
                "ended short", ended=True, n_done=n_done, files=files, n_lines=n_done, n_requests=n_requests
            )
        raise CallError(
            f"{_get_done_path(answers_path).name} exists, but {answers_path.name} has {n_done:,} results and "
            f"{progress.n_unreadable:,} lines that cannot be read. Complete the file, or remove those lines.",
            kind="transient",
        )

    async def fetch(self, file: str) -> bytes:
        """Return the content of a file of answers."""
        with _convert_file_errors():
            return (self._folder / file).read_bytes()

    async def aclose(self) -> None:
        """Do nothing: no file is left open."""

    def _get_answer_path(self, requests: str) -> Path:
        """Return the path of the answers to a file of requests, given its name."""
        return self._folder / requests.replace("requests-", "answers-", 1)

    def _read_progress(self, requests_path: Path, answers_path: Path) -> _Progress:
        """Count the answered requests of a batch in its files, and find out whether the engine has finished.

        requests_path : file of requests
        answers_path : file of answers, which need not exist yet

        Raises: OSError if a file cannot be read, for example FileNotFoundError if there is no file of requests.
        """
        # checked before the answers are read: if the mark exists, they are complete
        is_marked_done = _get_done_path(answers_path).exists()
        requested_keys, _ = self._read_request_hashes(requests_path)
        answered_keys: set[str] = set()
        n_unreadable = 0
        if answers_path.exists():
            answered_keys, n_unreadable = self._read_request_hashes(answers_path)
        n_done = len(answered_keys & requested_keys)
        return _Progress(len(requested_keys), n_done, n_unreadable, is_marked_done)

    def _read_request_hashes(self, path: Path) -> tuple[set[str], int]:
        """Return the request hashes in a file of requests or answers, and the number of lines without a hash.

        The result is cached until the size or the modification time of the file changes.

        path : file in the folder of the batches
        """
        stat = path.stat()
        version = stat.st_size, stat.st_mtime_ns
        if path.name in self._cached_hashes:
            cached_version, cached_result = self._cached_hashes[path.name]
            if cached_version == version:
                return cached_result

        result = _parse_request_hashes(path)
        self._cached_hashes[path.name] = version, result
        return result


def _parse_request_hashes(path: Path) -> tuple[set[str], int]:
    """Return the request hashes in a file, and the number of lines without a hash."""
    reader = LineReader()
    with path.open("rb") as file:
        line_keys = [reader.read(line).key for line in file if line.strip()]
    keys = [key for key in line_keys if isinstance(key, str)]
    return set(keys), len(line_keys) - len(keys)


@contextmanager
def _convert_file_errors() -> Iterator[None]:
    """Convert errors of files in a `with` block: to CallError if a file does not exist, else to JudgeError."""
    try:
        yield
    except FileNotFoundError as error:
        raise CallError(f"{error.filename} does not exist.", kind="fatal", status=NOT_FOUND) from None
    except OSError as error:
        raise JudgeError(
            f"The folder of batches cannot be used ({error}). Check its disk and permissions, then run the same command "
            "again. Its files are kept.",
            slug="batch-folder",
        ) from None
