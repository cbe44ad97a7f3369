"""Write the pool with texts that `scale.py` plans over, once per run."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_pool(folder: Path) -> Path:
    """Write a pool of the run's shape as JSON lines and as Parquet, unless it exists, and return its folder."""
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq

    from youden.data.folder.run_folder import RunFolder

    run, pool = RunFolder(folder).read_plan_without_trials(), folder / "texts"
    if pool.exists():
        return pool
    pool.mkdir()
    for name, ids in (("agents", run.agent_ids), ("items", run.item_ids)):
        (pool / f"{name}.jsonl").write_bytes(b"\n".join(orjson.dumps({"id": id_}) for id_ in ids))
    words = np.frombuffer(b"".join(b"word%04d " % k for k in range(5000)), dtype="S9")
    rng = np.random.default_rng(0)
    columns = {"agent": pa.string(), "item": pa.string(), "text": pa.large_string()}
    table = pq.ParquetWriter(pool / "pool.parquet", pa.schema(columns), compression="zstd")
    with table, (pool / "responses.jsonl").open("wb") as lines:
        for agent in run.agent_ids:
            texts = [row.tobytes().decode() for row in words[rng.integers(5000, size=(run.n_items, 33))]]
            table.write_table(pa.table([[agent] * run.n_items, run.item_ids, texts], schema=pa.schema(columns)))
            rows = zip(run.item_ids, texts, strict=True)
            lines.writelines(
                orjson.dumps({"agent": agent, "item": item, "text": text}, option=orjson.OPT_APPEND_NEWLINE)
                for item, text in rows
            )
    return pool
