"""A table too large for one file: a folder of Parquet parts in the order of its rows, which other tools open as one table.

`_parts.json` says which parts there are, how long they are and their digests; tools pass over names that begin with `_`.
The folder takes its place in one step, so that half a table is never there to be read.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter

from youden.data.atomic import replacing_folder
from youden.data.folder.run_files import VERSION, damaged, parse

MANIFEST = "_parts.json"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    file: str
    rows: int
    bytes: int
    sha256: str


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: int = VERSION
    said: str
    parts: tuple[_Part, ...]


class Parts(NamedTuple):
    """files: whole, in order; said: JSON of what the table says beside its rows."""

    files: tuple[Path, ...]
    said: bytes


class PartsWriter:
    """Notes the parts that are written into `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parts: list[_Part] = []

    def next(self) -> Path:
        """Where the next part goes."""
        return self.folder / f"part-{len(self._parts):05d}.parquet"

    def written(self, rows: int) -> None:
        """The next part is there, and holds so many rows."""
        file = self.next()
        size, digest = file.stat().st_size, _digest(file)
        self._parts.append(_Part(file=file.name, rows=rows, bytes=size, sha256=digest))

    def close(self, said: str) -> None:
        text = _Manifest(said=said, parts=tuple(self._parts)).model_dump_json(indent=1)
        (self.folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


@contextmanager
def writing_parts(path: Path, said: str) -> Iterator[PartsWriter]:
    """Parts that become the folder `path`, if the block ends well; else all is as it was."""
    with replacing_folder(path) as fresh:
        writer = PartsWriter(fresh)
        yield writer
        writer.close(said)


def read_parts(path: Path, *, whole: bool = True) -> Parts:
    """The parts in the folder `path`: all there and as long as they were written, and where `whole` is said of their digests too.

    Raises: RunFolderError [run-file-damaged] where one is missing, cut off, changed, or not named; [run-version].
    """
    manifest = path / MANIFEST
    if not manifest.is_file():
        raise damaged(path, f"the folder has no {MANIFEST}, so nobody knows whether its parts are all there")
    found = parse(path, manifest.read_bytes(), TypeAdapter(_Manifest))
    there = {file.name for file in path.glob("*.parquet")}
    if more := sorted(there - {part.file for part in found.parts}):
        raise damaged(path, f"{more[0]} is no part of this table")
    for part in found.parts:
        _check(path, path / part.file, part, whole=whole)
    return Parts(tuple(path / part.file for part in found.parts), found.said.encode())


def _check(path: Path, file: Path, part: _Part, *, whole: bool) -> None:
    if not file.is_file():
        raise damaged(path, f"the part {part.file} ({part.rows} rows) is missing")
    if (size := file.stat().st_size) != part.bytes:
        raise damaged(path, f"the part {part.file} has {size} bytes, not the {part.bytes} that were written")
    if whole and _digest(file) != part.sha256:
        raise damaged(path, f"the part {part.file} is not the one that was written: of another run, or changed")


def _digest(file: Path) -> str:
    with file.open("rb") as bytes_of:
        return hashlib.file_digest(bytes_of, "sha256").hexdigest()


def remove(path: Path) -> None:
    """Take out a file, or a folder of parts."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
