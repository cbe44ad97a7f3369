"""The pool with texts that `scale.py` plans over, written once for each of its runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def written(folder: Path) -> Path:
    """A pool of the run's shape, as JSON lines and as Parquet, written where it is not there."""
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq

    from youden.data.folder.run_folder import RunFolder

    run, pool = RunFolder(folder).read_plan_without_trials(), folder / "texts"
    if pool.exists():
        return pool
    pool.mkdir()
    for name, ids in (("agents", run.agent_ids), ("items", run.item_ids)):
        (pool / f"{name}.jsonl").write_bytes(b"\n".join(orjson.dumps({"id": one}) for one in ids))
    words = np.frombuffer(b"".join(b"word%04d " % k for k in range(5000)), dtype="S9")
    rng, columns = np.random.default_rng(0), {"agent": pa.string(), "item": pa.string(), "text": pa.large_string()}
    table = pq.ParquetWriter(pool / "pool.parquet", pa.schema(columns), compression="zstd")
    with table, (pool / "responses.jsonl").open("wb") as lines:
        for agent in run.agent_ids:
            said = [row.tobytes().decode() for row in words[rng.integers(5000, size=(run.n_items, 33))]]
            table.write_table(pa.table([[agent] * run.n_items, run.item_ids, said], schema=pa.schema(columns)))
            rows = zip(run.item_ids, said, strict=True)
            lines.writelines(
                orjson.dumps({"agent": agent, "item": item, "text": text}, option=orjson.OPT_APPEND_NEWLINE)
                for item, text in rows
            )
    return pool
