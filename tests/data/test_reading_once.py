"""Test that a run reads its pool and its plan once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from commands import write_config
from small_pools import make_pool, part_of
from youden.data.pools.pool_reader import write_pool

COUNTED = """
import json, runpy, sys
from pathlib import Path
import pyarrow.parquet as pq
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" and args[1] == "r" else None)
read = pq.read_table
pq.read_table = lambda path, *args, **more: (opened.append(str(path)), read(path, *args, **more))[1]
counted = []
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        runpy.run_module("youden", run_name="__main__")
    except SystemExit as end:
        assert not end.code, end
    counted.append(opened[:])
    opened.clear()
Path("opened.json").write_text(json.dumps(counted))
"""


def opened(here: Path, *commands: list[str]) -> list[Counter[tuple[str, str]]]:
    """Count how often each of the commands, run in one process, opened each file, by folder and file name."""
    subprocess.run([sys.executable, "-c", COUNTED, json.dumps(commands)], cwd=here, check=True, capture_output=True)
    counted = json.loads((here / "opened.json").read_text())
    return [Counter((place.parent.name, place.name) for place in map(Path, places)) for places in counted]


@pytest.fixture
def pools_folder(tmp_path: Path) -> Path:
    pool = make_pool(7, 12)
    for name, agents in (("old", slice(5)), ("new", slice(5, 7))):
        write_pool(part_of(pool, agents), tmp_path / name)
    write_config(tmp_path / "r.yaml", pool="old", judge="lexical", calls=150, independent="pooled:20")
    return tmp_path


@pytest.mark.slow
def test_run_and_extend_read_pools_and_plan_once(pools_folder: Path) -> None:
    run, extended = opened(pools_folder, ["run", "r.yaml"], ["extend", "agents", "runs/r", "new"])
    assert run["old", "responses.jsonl"] == 1
    assert run["r", "plan.parquet"] == 0, "what was just written is known"
    assert extended["old", "responses.jsonl"] == extended["new", "responses.jsonl"] == 1
    assert extended["r", "plan.parquet"] <= 1, "run and extend share this process, and what was just written is known"
