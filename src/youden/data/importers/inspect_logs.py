"""Imports Inspect logs (`.eval` and `.json`): agents are models, items are samples.

It reads version 2 of the format, as inspect-ai 0.3 writes it, and leaves scores out, but for a response that one of them keeps.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import pyarrow as pa

from youden.data.importers.joining import ImportedPool, Joiner
from youden.data.importers.reading import as_object, files_of, inner, parse_json, read_json, wrong
from youden.data.importers.telling_apart import distinct
from youden.nouns import Json

_ZSTANDARD = 93
_HEADERS = ("header.json", "_journal/start.json")
_BESIDE = {"eval-set.json", "logs.json"}
"""What Inspect writes beside the logs of an eval set, about them."""
KEPT = "keep_response"
"""The scorer of `youden.inspect` that keeps a response as its answer."""


@dataclass(frozen=True)
class _Log:
    path: Path
    header: dict[str, Json]
    samples: list[dict[str, Json]]

    @property
    def model(self) -> str:
        return str(inner(self.header, "eval", "model") or self.path.stem)

    @property
    def task(self) -> str:
        return str(inner(self.header, "eval", "task") or "")


def read_inspect(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """One agent a log, named by its model (and its file, where two logs are of one model and task); items are sample ids.

    A response is what the scorer `youden.inspect.keep_response` kept, else the sample's output.

    A log that did not succeed gives the samples that it has. Of several epochs the first is taken.

    Raises: ImportFormatError for a file that is no log, or in which no sample has an output.
    """
    files = files_of(paths, ("*.eval", "*.json"), what="an Inspect log")
    logs = [_read(path) for path in files if path in paths or path.name not in _BESIDE]
    tasks = {log.task for log in logs}
    joiner = Joiner(paths[0].stem)
    names = distinct([f"{log.model}\0{log.task}" for log in logs], [log.path.with_suffix("") for log in logs])
    for log, name in zip(logs, names, strict=True):
        agent = name.replace(f"\0{log.task}", "")
        status = log.header.get("status", "unfinished")
        if status != "success":
            joiner.note(f"{log.path}: the run ended with status '{status}'; the samples it has were taken.")
        for number, sample in enumerate(log.samples, 1):
            place = f"{log.path}, sample {number}"
            failed = sample.get("error") or inner(sample, "output", "error")
            text = _response(sample)
            if text is None or (failed and not text):
                joiner.leave_out("the sample failed" if failed else "the sample has no output", place)
                continue
            if isinstance(epoch := sample.get("epoch"), int) and epoch > 1:
                joiner.drop(agent, "a repetition (epoch 2 or later)", place)
                continue
            item = sample.get("id")
            joiner.add(
                agent,
                f"{log.task}/{item}" if len(tasks) > 1 and item is not None else item,
                text,
                prompt=_prompt(sample.get("input")),
                place=place,
            )
    return joiner.pool()


def _read(path: Path) -> _Log:
    if path.suffix == ".json":
        log = as_object(read_json(path), path)
        if not isinstance(log.get("eval"), dict):
            raise wrong(path, "it has no key 'eval', so it is no Inspect log.", slug="import-format")
        return _Log(path, log, _objects(log.get("samples"), path))
    try:
        with path.open("rb") as file, ZipFile(file) as archive:
            return _from_archive(path, file, archive)
    except (BadZipFile, OSError, zlib.error, pa.ArrowException) as error:
        raise wrong(
            path, f"it is no whole .eval archive ({error}). Copy it again, or give the .json log.", slug="import-format"
        ) from error


def _from_archive(path: Path, file: BinaryIO, archive: ZipFile) -> _Log:
    names = archive.namelist()
    header = next((name for name in _HEADERS if name in names), None)
    if header is None:
        raise wrong(path, "it has neither header.json nor a journal, so it is no Inspect log.", slug="import-format")
    samples = [
        as_object(parse_json(_member(file, archive.getinfo(name)), f"{path}/{name}"), f"{path}/{name}")
        for name in names
        if name.startswith("samples/") and name.endswith(".json")
    ]
    said = as_object(parse_json(_member(file, archive.getinfo(header)), f"{path}/{header}"), f"{path}/{header}")
    return _Log(path, said, samples)


def _member(file: BinaryIO, info: ZipInfo) -> bytes:
    """The content of one member. Inspect compresses by Zstandard, which `zipfile` reads from Python 3.14 on only."""
    file.seek(info.header_offset + 26)
    skipped = file.read(4)
    file.seek(int.from_bytes(skipped[:2], "little") + int.from_bytes(skipped[2:], "little"), 1)
    raw = file.read(info.compress_size)
    match info.compress_type:
        case method if method == ZIP_STORED:
            return raw
        case method if method == ZIP_DEFLATED:
            return zlib.decompress(raw, wbits=-15)
        case method if method == _ZSTANDARD:
            whole: bytes = pa.Codec("zstd").decompress(raw, info.file_size, asbytes=True)
            return whole
    raise BadZipFile(f"{info.filename} is compressed by method {info.compress_type}")


def _objects(value: Json, path: Path) -> list[dict[str, Json]]:
    return [as_object(sample, path) for sample in value] if isinstance(value, list) else []


def _response(sample: Mapping[str, Json]) -> str | None:
    """What a scorer kept as the response, else the output."""
    kept = inner(sample.get("scores"), KEPT, "answer")
    return kept if isinstance(kept, str) else _text(inner(sample.get("output"), "choices", 0, "message", "content"))


def _text(content: Json) -> str | None:
    """The text of a message: a string, or the text parts of a list."""
    if isinstance(content, list):
        parts = [inner(part, "text") for part in content if inner(part, "type") == "text"]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _prompt(given: Json) -> str | None:
    if isinstance(given, list):
        return "\n\n".join(_iterate(given)) or None
    return given if isinstance(given, str) else None


def _iterate(messages: list[Json]) -> Iterator[str]:
    for message in messages:
        if inner(message, "role") == "user":
            text = _text(inner(message, "content"))
            if text:
                yield text
