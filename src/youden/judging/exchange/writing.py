"""The two forms of an export: lines as a provider's Batch API and `vllm run-batch` read them, and Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from youden.judging.batches.lines import request_line
from youden.judging.exchange.manifest import METADATA, Manifest
from youden.nouns import Request

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
