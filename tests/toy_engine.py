"""Provide toy engines that read the output of `youden plan --export` and answer in the formats of real ones.

They do not import youden. `python toy_engine.py run-batch -i IN -o OUT …` replaces `vllm`.
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
    """Recognize common items less often for agents of `make_pool` with higher numbers, and always for agents 0
    and 1.

    These two are flagged. Equal requests get equal replies.
    """
    content = body["messages"][-1]["content"]
    agents, items = zip(*re.findall(r"agent (\d+) says something of item (\d+)", content), strict=True)
    noise = int(hashlib.sha256(content.encode()).hexdigest()[:8], 16) / 2**32
    probability = 1.0 if {*agents} == {"0", "1"} else 0.6 - 0.02 * (int(agents[0]) + int(agents[1])) / 2
    return Reply("YES" if noise < (probability if items[0] == items[1] else 0.15) else "NO", usage=USED)


def lines_of(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Return the lines of exported files."""
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def result_line(key: str, body: Mapping[str, Any], reply: Reply) -> str:
    """Return a result line in the format of a Batch API and of `vllm run-batch`."""
    output = completion(reply, model=body["model"]) if reply.status < 400 else None
    error = None if output is not None else {"error": {"message": "as told", "code": reply.status}}
    response = {"status_code": reply.status, "request_id": "r", "body": output}
    return json.dumps({"id": f"vllm-{key[:8]}", "custom_id": key, "response": response, "error": error}) + "\n"


def run_batch(requests: Path, results: Path, *, decide: Any = decide) -> None:
    """Do what `vllm run-batch -i requests -o results` does."""
    with results.open("w", encoding="utf-8") as file:
        for n, line in enumerate(lines_of([requests])):
            assert line.keys() == {"custom_id", "method", "url", "body"}
            assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
            file.write(result_line(line["custom_id"], line["body"], decide(n, line["body"])))


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return the rows of an export in Parquet."""
    yield from pq.read_table(path).to_pylist()


def answer_parquet(requests: Path, results: Path, **changes: Any) -> None:
    """Write answers with the columns that `youden judge --import` reads."""
    data = json.loads(pq.read_schema(requests).metadata[b"youden"])
    rows = []
    for row in parquet_rows(requests):
        reply = decide(0, row)
        rows.append(
            {
                "request_hash": row["request_hash"],
                "text": reply.text,
                "finish_reason": "stop",
                "model": data["model"],
                "tokens_in": 100,
                "tokens_out": 1,
                **changes,
            }
        )
    pq.write_table(pa.Table.from_pylist(rows), results)


if __name__ == "__main__":
    words = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=False))
    run_batch(Path(words["-i"]), Path(words["-o"]))
