"""Test that small files that unpack to gigabytes are refused with constant memory unless the limit is raised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import Youden, write_config
from small_pools import make_pool
from youden import read_pool
from youden.data.pools.pool_reader import write_pool
from youden.decompression import VARIABLE, iter_unpacked, open_parquet
from youden.errors import ConfigError, InputError

ROOT = Path(__file__).parents[2]
FLAT = 0.65
"""GB of a process that refuses; 0.2 of them are its libraries."""


def bomb(path: Path, *, n: int, length: int, **keys: list[str]) -> Path:
    """Write Parquet with one text, `n` times."""
    output = {name: pa.array(values) for name, values in keys.items()}
    output |= {"text": pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array(["x" * length]))}
    pq.write_table(pa.table(output), path)
    return path


def cells(n: int) -> dict[str, list[str]]:
    return {"agent": [f"a{k % 10}" for k in range(n)], "item": [f"i{k // 10}" for k in range(n)]}


def archive(path: Path, *, n: int, length: int) -> Path:
    """Write an Inspect log of `n` samples, most of whose content is not imported."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", json.dumps({"eval": {"model": "m", "task": "t"}, "status": "success"}))
        for k in range(n):
            output = {"choices": [{"message": {"content": "said"}}]}
            sample = {"id": k, "epoch": 1, "output": output, "events": "x" * length}
            file.writestr(f"samples/{k}.json", json.dumps(sample))
    return path


MEASURED = """
import resource, subprocess, sys
ended = subprocess.run([sys.executable, "-m", "youden", *sys.argv[1:]], capture_output=True, text=True)
print(ended.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
print(ended.stdout, ended.stderr)
"""
"""Linux includes the memory before exec in the peak; therefore a small process starts the measured one."""


def peak(*words: str, cwd: Path, **environment: str) -> tuple[int, float, str]:
    """Return exit code, peak memory in GB and output of `youden` with these arguments."""
    ended = subprocess.run(
        [sys.executable, "-c", MEASURED, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    numbers, _, output = ended.stdout.partition("\n")
    code, kilobytes = map(int, numbers.split())
    return code, kilobytes / 2**20, output


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted as Linux does")
@pytest.mark.parametrize("what", ["pool", "table", "eval", "answers"])
def test_a_file_that_unpacks_to_gigabytes_is_refused_with_constant_memory(what: str, tmp_path: Path) -> None:
    match what:
        case "pool":
            file = bomb(tmp_path / "p.parquet", n=9500, length=1_000_000, **cells(9500))
            words = ["check", str(file)]
        case "table":
            file = bomb(tmp_path / "t.parquet", n=9500, length=1_000_000, **cells(9500))
            words = ["import", "table", str(file), "--out", str(tmp_path / "made")]
        case "eval":
            file = archive(tmp_path / "l.eval", n=12, length=100_000_000)
            words = ["import", "inspect", str(file), "--out", str(tmp_path / "made")]
        case _:
            write_pool(make_pool(5, 8), tmp_path / "pool")
            judge = {"backend": "wire", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}
            place, out = str(tmp_path / "pool"), str(tmp_path / "r")
            write_config(tmp_path / "c.yaml", pool=place, out=out, calls=110, judge={**judge, "price": 0})
            file = bomb(
                tmp_path / "a.parquet", n=9500, length=1_000_000, request_hash=[f"{k:064x}" for k in range(9500)]
            )
            words = ["judge", str(tmp_path / "c.yaml"), "--import", str(file)]
    assert file.stat().st_size < 4_000_000
    bound = {} if what != "table" else {VARIABLE: "0.3"}  # texts that are imported are held until they are joined
    code, gb, output = peak(*words, cwd=tmp_path, **bound)
    assert (code, f"environment variable {VARIABLE}" in output, "Traceback" in output) == (2, True, False), output
    assert "[unpacked-too-large]" in output
    assert gb < FLAT + float(bound.get(VARIABLE, 0)), output
    assert not (tmp_path / "made").exists()


def test_the_unpacked_limit_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, youden: Youden) -> None:
    file = bomb(tmp_path / "p.parquet", n=100, length=100_000, **cells(100))
    log = archive(tmp_path / "l.eval", n=10, length=1_000_000)
    monkeypatch.setenv(VARIABLE, "0.005")
    with pytest.raises(InputError, match=r"unpacks to more than 0\.005 GB"):
        read_pool(file)
    assert "[unpacked-too-large]" in youden("import", "inspect", str(log), "--out", "made").err
    monkeypatch.setenv(VARIABLE, "0.02")
    pool = read_pool(file)
    assert (pool.texts.shape, {len(text) for row in pool.texts for text in row}) == ((10, 10), {100_000})
    assert youden("import", "inspect", str(log), "--out", "made").code == 0
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(ConfigError, match="such as 8"):
        read_pool(file)


def test_rows_of_any_types_are_read_unchanged_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("youden.decompression.CHUNK_BYTES", 100)
    rows = [
        {"a": None if k % 7 == 0 else "x" * (k % 50), "b": f"é{k % 3}", "n": k, "list": [k, None], "raw": b"\xff" * k}
        for k in range(200)
    ]
    table = pa.Table.from_pylist(rows)
    table = table.append_column("coded", table["b"].dictionary_encode()).append_column("nothing", pa.nulls(200))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=64)
    batches = list(
        iter_unpacked(open_parquet(tmp_path / "t.parquet").iter_batches(batch_size=50), tmp_path / "t.parquet")
    )
    assert [row for batch in batches for row in batch.to_pylist()] == table.to_pylist()
    assert len(batches) > 20
