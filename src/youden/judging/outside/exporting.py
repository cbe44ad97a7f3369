"""Writes what a judge has still to be asked into files that any engine can read, lines or Parquet, and says beside them
what they are.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from youden.errors import InputError
from youden.judging.config.reading import JudgeConfig
from youden.judging.outside.lines import request_line
from youden.judging.outside.manifest import METADATA, NAME, Asked, Manifest, asked_judges
from youden.judging.question.questions import Questions
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import CHUNK
from youden.nouns import Plan, Pool, Request

ROWS = 1000
"""Of a group in a Parquet file: what a reader holds in memory at once."""

Writer = Callable[[Path, Iterable[tuple[str, Request]], Manifest], None]


def write_lines(path: Path, requests: Iterable[tuple[str, Request]], manifest: Manifest) -> None:
    """One line a request; its `custom_id` is its key."""
    with path.open("wb") as file:
        file.writelines(request_line(key, request, usd=0.0).text for key, request in requests)


def write_parquet(path: Path, requests: Iterable[tuple[str, Request]], manifest: Manifest) -> None:
    """The columns `key` and `messages` (a list of role and content); what `export.json` says is in the file's metadata."""
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema(
        [("key", pa.string()), ("messages", pa.list_(message))], metadata={METADATA: manifest.model_dump_json()}
    )
    rest = iter(requests)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(rest, ROWS)):
            messages = [one for _, request in chunk for one in request.messages]
            ends = [0]
            for _, request in chunk:
                ends.append(ends[-1] + len(request.messages))
            said = [pa.array([one.role for one in messages]), pa.array([one.content for one in messages])]
            lists = pa.ListArray.from_arrays(
                pa.array(ends, pa.int32()), pa.StructArray.from_arrays(said, fields=[*message])
            )
            writer.write_batch(pa.record_batch([pa.array([key for key, _ in chunk]), lists], schema=schema))


WRITERS: Mapping[str, Writer] = {"jsonl": write_lines, "parquet": write_parquet}


Format = Literal["jsonl", "parquet"]


@dataclass(frozen=True)
class Exported:
    """What was written: requests, and the files they are in; none where the store holds every answer."""

    requests: int
    files: tuple[Path, ...]


def export_requests(
    plan: Plan,
    pool: Pool,
    *,
    config: JudgeConfig,
    store: Store,
    folder: Path,
    format: Format = "jsonl",
    shards: int = 1,
) -> Exported:
    """Write every request of `config` that `store` has no answer to into the new `folder`, in `shards` files alike in size.

    A jury's judges that are asked by calls get a folder each. The folder is there when it is whole. Memory does not grow but by
    some 100 bytes a trial.

    Raises: InputError [export-there], [export-no-calls], [export-failed].
    """
    members = asked_judges(config)
    names = [f"judge-{number}" for number in range(1, len(members) + 1)] if config.judges else [""]
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} is there already and is not empty. Export into a new folder, so that requests and answers of two exports "
            "do not mix.",
            slug="export-there",
        )
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        done = [
            _exported(plan, pool, config=one, store=store, folder=part / name, format=format, shards=shards)
            for one, name in zip(members, names, strict=True)
        ]
        if any(one.requests for one in done):
            if folder.exists():
                folder.rmdir()
            part.rename(folder)
    except OSError as error:
        raise InputError(
            f"The export cannot be written to {folder} ({error}). Make room, or give a folder that can be written.",
            slug="export-failed",
        ) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    files = tuple(folder / file.relative_to(part) for one in done for file in one.files)
    return Exported(sum(one.requests for one in done), files)


def _exported(
    plan: Plan, pool: Pool, *, config: JudgeConfig, store: Store, folder: Path, format: Format, shards: int
) -> Exported:
    n_own = len(plan) - plan.n_follow_ups
    asked = Asked.of(config, plan, pool, lengths={n_own})
    questions = config.questions()
    rest = np.fromiter(_wanted(asked, store, questions, plan, pool), dtype=np.int64)
    n_files = min(shards, len(rest))
    names = [f"requests-{number}.{format}" for number in range(n_files)]
    manifest = Manifest.of(config, plan=asked.digests[n_own], trials=n_own, requests=len(rest), files=names)
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        begin, end = (len(rest) * at // n_files for at in (number, number + 1))
        requests = ((asked.name(at), questions.request(plan, pool, int(asked.row[at]))) for at in rest[begin:end])
        WRITERS[format](folder / name, requests, manifest)
    (folder / NAME).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return Exported(len(rest), tuple(folder / name for name in names))


def _wanted(asked: Asked, store: Store, questions: Questions, plan: Plan, pool: Pool) -> Iterator[int]:
    """Where the requests stand that have neither an answer nor a rejection in `store` and can be sent, in the plan's order."""
    rest = iter(np.argsort(asked.row).tolist())
    while chunk := {asked.name(at): at for at in islice(rest, CHUNK)}:
        answers = store.answers(list(chunk))
        failures = store.failures([key for key in chunk if key not in answers])
        for key, at in chunk.items():
            if key in answers or (key in failures and failures[key].kind == "rejected"):
                continue
            if questions.context is None or questions.fits(questions.request(plan, pool, int(asked.row[at]))):
                yield at
