"""What a provider of batches has to offer, which ones there are, and the folder that anybody works off:
`requests-X.jsonl` is answered by `answers-X.jsonl`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

import orjson

from youden.errors import JudgeError
from youden.judging.call.failures import CallError


@dataclass(frozen=True)
class LineError:
    """Why a batch was turned down: the provider's code, its words, and the line (from 1) it names, if it names one."""

    code: str | None
    message: str
    line: int | None


@dataclass(frozen=True)
class BatchState:
    """A batch under way or ended.

    n_done: requests finished so far. files: ids of result files, of an ended batch. errors: why it was turned down as a whole.
    """

    status: str
    ended: bool
    n_done: int = 0
    files: tuple[str, ...] = ()
    errors: tuple[LineError, ...] = ()


class BatchProvider(Protocol):
    """Runs files of requests. Every method raises CallError where it could not."""

    async def upload(self, text: bytes) -> str:
        """The id of a new file of requests."""
        ...

    async def start(self, file: str, *, perhaps_begun: bool) -> str:
        """The id of the batch of an uploaded file; never a second one of the same file."""
        ...

    async def look(self, batch: str) -> BatchState:
        """How far a batch is."""
        ...

    async def fetch(self, file: str) -> bytes:
        """The text of a result file."""
        ...

    async def aclose(self) -> None:
        """Let go of what is held open."""
        ...


NOT_FOUND = 404


class FolderBatches:
    """Batches in `folder`; ids are names of files in it.

    Every method raises CallError where a file is not there; JudgeError [batch-folder] where the folder cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counted: dict[str, tuple[int, set[str]]] = {}

    async def upload(self, text: bytes) -> str:
        """Leave a file of requests; the same requests again, while nobody answered them, are the same file."""
        digest = hashlib.sha256(text).hexdigest()[:12]
        with _explained():
            self._folder.mkdir(parents=True, exist_ok=True)
            names = (f"requests-{digest}-{number}.jsonl" for number in count(1))
            name = next(one for one in names if not self._answers(one).exists())
            part = self._folder / f".{name}.part"
            part.write_bytes(text)
            os.replace(part, self._folder / name)
        return name

    async def start(self, file: str, *, perhaps_begun: bool) -> str:
        """The file is the batch."""
        return file

    async def look(self, batch: str) -> BatchState:
        """How many of its requests have a result line so far."""
        answers = self._answers(batch)
        with _explained():
            told_done = answers.with_suffix(".done").exists()
            wanted = self._keys(self._folder / batch)
            done = self._keys(answers) & wanted if answers.exists() else set()
        ended = told_done or done == wanted
        files = (answers.name,) if ended and answers.exists() else ()
        status = "completed" if done == wanted else "ended short" if ended else "waiting"
        return BatchState(status, ended, n_done=len(done), files=files)

    async def fetch(self, file: str) -> bytes:
        """The result lines."""
        with _explained():
            return (self._folder / file).read_bytes()

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _answers(self, requests: str) -> Path:
        return self._folder / requests.replace("requests-", "answers-", 1)

    def _keys(self, path: Path) -> set[str]:
        """The keys of a file's whole lines; it is read again only where it has grown."""
        size = path.stat().st_size
        known = self._counted.get(path.name)
        if known is None or known[0] != size:
            with path.open("rb") as file:
                known = self._counted[path.name] = size, {key for line in file if (key := _key(line)) is not None}
        return known[1]


def _key(line: bytes) -> str | None:
    try:
        said = orjson.loads(line)
    except ValueError:
        return None
    key = said.get("custom_id") if isinstance(said, dict) else None
    return key if isinstance(key, str) else None


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
