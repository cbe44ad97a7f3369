"""Write the requests of a plan into files that any engine can read, JSON lines or Parquet, with `export.json` beside them.

`export.json` describes the judge to whoever answers; an import needs only the request hashes. A plan's distinct requests take a
few bytes each in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from youden.data.atomic import make_directory, remove_leftovers, take_place, workplace
from youden.errors import InputError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.offline.lines import request_line
from youden.judging.question.questions import Questions, keys
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import CHUNK
from youden.types import Plan, Request
from youden.types.pool import Positions

KEY_BYTES = 32
"""Length of a request hash, a SHA-256."""


@dataclass(frozen=True, eq=False)
class Requests:
    """The distinct requests of one judge about a plan, in ascending order of their hashes.

    Attributes
    ----------
    config : JudgeConfig
    key : bytes array S32, shape (n_requests,)
        Request hashes.
    row : int array, shape (n_requests,)
        First trial of each request.
    characters : int array, shape (n_requests,)
        Length of all its messages.
    n_messages : int
        Number of messages of each request.
    """

    config: JudgeConfig
    key: np.ndarray
    row: Positions
    characters: Positions
    n_messages: int

    @classmethod
    def from_plan(cls, config: JudgeConfig, plan: Plan) -> Requests:
        """Find all requests of a judge."""
        questions = config.questions()
        keys_of_trials = np.empty(len(plan), dtype=f"S{KEY_BYTES}")
        for row, key in keys(questions, plan):
            keys_of_trials[row] = bytes.fromhex(key)
        unique, first_trial = np.unique(keys_of_trials, return_index=True)
        n_messages = len(questions.prompt.messages("", "", hint=questions.hint))
        return cls(config, unique, first_trial, questions.characters(plan)[first_trial], n_messages)

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """int64[N]: where each of these keys, bytes S32[N], stands in `key`, −1 for one that is not asked."""
        if not len(self.key):
            return np.full(len(wanted), -1)
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        found: np.ndarray = np.where(self.key[at] == wanted, at, -1)
        return found

    def name(self, at: int) -> str:
        """The key at this place, in hex."""
        return bytes(self.key[at]).ljust(KEY_BYTES, b"\0").hex()  # NumPy leaves out zeros at the end


def asked_judges(config: JudgeConfig) -> list[JudgeConfig]:
    """The judge, or those of a jury, that are asked by calls. Raises: InputError [export-no-calls] where none is."""
    asked = [one for one in config.judges or (config,) if one.makes_calls]
    if not asked:
        raise InputError(
            f"The judge '{config.name}' answers without calls, so there is nothing to export or import. Run `youden judge` "
            "alone, or name a judge that is asked.",
            slug="export-no-calls",
        )
    return asked


def as_bytes(keys: Sequence[object]) -> np.ndarray:
    """bytes S32[N]: what keys in hex stand for, empty for what is no key."""
    return np.array([_bytes_of_key(key) for key in keys], dtype=f"S{KEY_BYTES}")


def _bytes_of_key(key: object) -> bytes:
    try:
        found = bytes.fromhex(key) if isinstance(key, str) and len(key) == 2 * KEY_BYTES else b""
    except ValueError:
        return b""
    return found if len(found) == KEY_BYTES else b""


VERSION = 1
MANIFEST = "export.json"
METADATA = b"youden"
"""Key of a Parquet file's metadata that holds the same as `export.json`."""

ROWS = 1000
"""Of a group in a Parquet file: what a reader holds in memory at once."""

Writer = Callable[[Path, Iterable[tuple[str, Request]], bytes], None]


def _write_lines(path: Path, requests: Iterable[tuple[str, Request]], _: bytes) -> None:
    """Write one line per request; its `custom_id` is its hash."""
    with path.open("wb") as file:
        file.writelines(request_line(key, request, usd=0.0).text for key, request in requests)


def write_parquet(path: Path, requests: Iterable[tuple[str, Request]], manifest: bytes) -> None:
    """Write the columns `key` and `messages` (a list of role and content), with the manifest as metadata."""
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    columns = [("key", pa.string()), ("messages", pa.list_(message))]
    schema = pa.schema(columns, metadata={METADATA: manifest})
    remaining = iter(requests)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(remaining, ROWS)):
            messages = [
                [{"role": one.role, "content": one.content} for one in request.messages] for _, request in chunk
            ]
            arrays = [pa.array([key for key, _ in chunk]), pa.array(messages, pa.list_(message))]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


WRITERS: Mapping[str, Writer] = {"jsonl": _write_lines, "parquet": write_parquet}


Format = Literal["jsonl", "parquet"]


def export_requests(
    plan: Plan,
    *,
    config: JudgeConfig,
    store: Store,
    folder: Path,
    format: Format = "jsonl",
    shards: int = 1,
) -> tuple[int, tuple[Path, ...]]:
    """Write every request of `config` that `store` has no answer to into the new `folder`, in `shards` files alike in size.

    Return the number of requests, and the files; none if the store holds every answer.

    A jury's judges that are asked by calls get a folder each. The folder is there when it is whole. Memory does not grow but by
    some 100 bytes a trial.

    Raises: InputError [export-there], [export-no-calls], [export-failed].
    """
    members = asked_judges(config)
    names = [f"judge-{number}" for number in range(1, len(members) + 1)] if config.judges else [""]
    remove_leftovers(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} is there already and is not empty. Export into a new folder, so that requests and answers of two exports "
            "do not mix.",
            slug="export-there",
        )
    try:
        make_directory(folder.parent)
        with workplace(folder.parent, name="youden") as place:
            part = place / "new"
            done = [
                _export_judge(plan, config=one, store=store, folder=part / name, format=format, shards=shards)
                for one, name in zip(members, names, strict=True)
            ]
            if any(n for n, _ in done):
                take_place(part, folder)
    except OSError as error:
        raise InputError(
            f"The export cannot be written to {folder} ({error}). Make room, or give a folder that can be written.",
            slug="export-failed",
        ) from None
    files = tuple(folder / file.relative_to(part) for _, written in done for file in written)
    return sum(n for n, _ in done), files


def _export_judge(
    plan: Plan, *, config: JudgeConfig, store: Store, folder: Path, format: Format, shards: int
) -> tuple[int, list[Path]]:
    """Write the requests of one judge; return how many there are, and their files."""
    requests, questions = Requests.from_plan(config, plan), config.questions()
    wanted = np.fromiter(_wanted(requests, store, questions, plan), dtype=np.int64)
    chunks = np.array_split(wanted, min(shards, len(wanted)) or 1)
    names = [f"requests-{number}.{format}" for number, chunk in enumerate(chunks) if len(chunk)]
    manifest = {
        "version": VERSION,
        "requests": len(wanted),
        "model": questions.model,
        "parameters": dict(questions.parameters),
        "judge": config.public(),
        "files": names,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, chunk in zip(names, chunks, strict=False):
        pairs = ((requests.name(at), questions.request(plan, int(requests.row[at]))) for at in chunk)
        WRITERS[format](folder / name, pairs, orjson.dumps(manifest))
    (folder / MANIFEST).write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return len(wanted), [folder / name for name in names]


def _wanted(asked: Requests, store: Store, questions: Questions, plan: Plan) -> Iterator[int]:
    """Where the requests stand that have neither an answer nor a rejection in `store` and can be sent, in the plan's order."""
    rest = iter(np.argsort(asked.row).tolist())
    while chunk := {asked.name(at): at for at in islice(rest, CHUNK)}:
        answers = store.answers(list(chunk))
        failures = store.failures([key for key in chunk if key not in answers])
        for key, at in chunk.items():
            if key in answers or (key in failures and failures[key].kind == "rejected"):
                continue
            if questions.context is None or questions.fits(questions.request(plan, int(asked.row[at]))):
                yield at
