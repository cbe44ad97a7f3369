"""Toy engines: each reads what `youden plan --export` wrote and answers in the form of a real one.

They know the formats; they refuse to know youden. `python toy_engine.py run-batch -i IN -o OUT …` stands in for `vllm`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wire_server import Reply, completion

USED = {"prompt_tokens": 100, "completion_tokens": 1}


def decide(_n: int, body: Mapping[str, Any]) -> Reply:
    """Recognize common items the less often, the higher the numbers of two agents of `make_pool`, and always for agents 0 and 1.

    Those two are linked. Equal requests get equal replies.
    """
    content = body["messages"][-1]["content"]
    agents, items = zip(*re.findall(r"agent (\d+) says something of item (\d+)", content), strict=True)
    luck = int(hashlib.sha256(content.encode()).hexdigest()[:8], 16) / 2**32
    known = 1.0 if {*agents} == {"0", "1"} else 0.6 - 0.02 * (int(agents[0]) + int(agents[1])) / 2
    return Reply("YES" if luck < (known if items[0] == items[1] else 0.15) else "NO", usage=USED)


def lines_of(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """The lines of exported files."""
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def result_line(key: str, body: Mapping[str, Any], reply: Reply) -> str:
    """As a Batch API and `vllm run-batch` write it."""
    said = completion(reply, model=body["model"]) if reply.status < 400 else None
    error = None if said is not None else {"error": {"message": "as told", "code": reply.status}}
    response = {"status_code": reply.status, "request_id": "r", "body": said}
    return json.dumps({"id": f"vllm-{key[:8]}", "custom_id": key, "response": response, "error": error}) + "\n"


def run_batch(requests: Path, results: Path, *, decide: Any = decide) -> None:
    """What `vllm run-batch -i requests -o results` does."""
    with results.open("w", encoding="utf-8") as file:
        for n, line in enumerate(lines_of([requests])):
            assert line.keys() == {"custom_id", "method", "url", "body"}
            assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
            file.write(result_line(line["custom_id"], line["body"], decide(n, line["body"])))


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of an export in Parquet."""
    yield from pq.read_table(path).to_pylist()


def answer_parquet(requests: Path, results: Path, **changes: Any) -> None:
    """Answers with the columns that `youden judge --import` takes."""
    said = json.loads(pq.read_schema(requests).metadata[b"youden"])
    rows = []
    for row in parquet_rows(requests):
        reply = decide(0, row)
        rows.append(
            {
                "request_hash": row["request_hash"],
                "text": reply.text,
                "finish_reason": "stop",
                "model": said["model"],
                "tokens_in": 100,
                "tokens_out": 1,
                **changes,
            }
        )
    pq.write_table(pa.Table.from_pylist(rows), results)


if __name__ == "__main__":
    words = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=False))
    run_batch(Path(words["-i"]), Path(words["-o"]))
