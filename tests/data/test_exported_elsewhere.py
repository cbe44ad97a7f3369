"""Test that other tools, each in its own environment, read the exports."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from commands import Youden, write_config
from hostile_pools import HOSTILE_IDS, make_pool_with_hostile_ids
from hub_server import COMMIT, TOKEN, hub
from importer_files import TOOLS, tool
from small_pools import make_pool
from youden import read_pool
from youden.data.exporters import EXPORTERS
from youden.data.exporters.export_files import ExportOptions
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool

pytestmark = pytest.mark.slow


def in_tools(python: str, *words: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "TMPDIR")}
    own = {"HOME": str(cwd), "HF_HOME": str(cwd / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
    return subprocess.run(
        [python, *map(str, words)],
        cwd=cwd,
        env=kept | own | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def read_by_datasets(folder: Path, *tables: str) -> dict[str, list[dict[str, object]]]:
    python = tool("YOUDEN_EXPORT_PYTHON", "datasets and youden[hub,mlflow]")
    ended = in_tools(python, TOOLS / "read_by_datasets.py", folder, *tables, cwd=folder.parent, HF_HUB_OFFLINE="1")
    assert ended.returncode == 0, ended.stderr
    rows: dict[str, list[dict[str, object]]] = json.loads(ended.stdout)
    return rows


@pytest.fixture
def exportable_run(youden: Youden, tmp_path: Path) -> RunFolder:
    write_pool(make_pool_with_hostile_ids(), tmp_path / "pool")
    write_config(tmp_path / "c.yaml", pool="pool", calls=400, independent="pooled:30", out="run")
    assert youden("run", "c.yaml").code == 0
    return RunFolder(tmp_path / "run")


def test_the_every_eval_ever_schema_accepts_exports(exportable_run: RunFolder, tmp_path: Path) -> None:
    python = tool("YOUDEN_EEE_PYTHON", "every-eval-ever")
    written = EXPORTERS.load("eee")(exportable_run, tmp_path / "eee", options=ExportOptions(organization="a lab"))
    files = sorted((tmp_path / "eee").rglob("*.json"))
    assert len(files) == written.rows["agents"] == len(HOSTILE_IDS)
    relative = [file.relative_to(tmp_path / "eee") for file in files]
    ended = in_tools(python, "-m", "every_eval_ever.validate", *relative, "--format", "json", cwd=tmp_path / "eee")
    reports = json.loads(ended.stdout)
    assert [report["errors"] + report["warnings"] for report in reports] == [[]] * len(files)
    assert ended.returncode == 0


def test_the_every_eval_ever_schema_rejects_a_faulty_export(exportable_run: RunFolder, tmp_path: Path) -> None:
    python = tool("YOUDEN_EEE_PYTHON", "every-eval-ever")
    EXPORTERS.load("eee")(exportable_run, tmp_path / "eee", options=ExportOptions())
    file = next((tmp_path / "eee").rglob("*.json"))
    data = json.loads(file.read_text(encoding="utf-8"))
    del data["evaluation_results"][0]["metric_config"]["lower_is_better"]
    file.write_text(json.dumps(data), encoding="utf-8")
    relative = file.relative_to(tmp_path / "eee")
    ended = in_tools(python, "-m", "every_eval_ever.validate", relative, cwd=tmp_path / "eee")
    assert ended.returncode == 1


def test_datasets_reads_a_hostile_pool_as_youden_does(tmp_path: Path) -> None:
    EXPORTERS.load("hf")(make_pool_with_hostile_ids(), tmp_path / "out", options=ExportOptions())
    read = read_by_datasets(tmp_path / "out", "responses", "items", "agents")
    pool = read_pool(tmp_path / "out")
    assert pool.digest == make_pool_with_hostile_ids().digest
    cells = {(line["agent"], line["item"]): line["text"] for line in read["responses"]}
    for k, agent in enumerate(pool.agents):
        for j, item in enumerate(pool.items):
            assert cells[agent.id, item.id] == pool.texts[k, j]
    assert [line["prompt"] for line in read["items"]] == [item.prompt for item in pool.items]
    assert [(line["id"], line["meta"] or {}) for line in read["agents"]] == [(a.id, dict(a.meta)) for a in pool.agents]


def test_datasets_reads_a_run_with_ids_as_texts(exportable_run: RunFolder, tmp_path: Path) -> None:
    EXPORTERS.load("hf")(exportable_run, tmp_path / "out", options=ExportOptions())
    read = read_by_datasets(tmp_path / "out", "ranking", "items", "trials")
    assert [(line["agent"], line["ability"]) for line in read["ranking"]] == [
        (row.agent, row.ability) for row in exportable_run.read_ranking()
    ]
    assert len(read["trials"]) == len(exportable_run.read_plan())
    assert {line["item"] for line in read["items"]} == set(exportable_run.read_plan().item_ids)


def test_a_complete_run_is_pushed_privately_to_the_address_in_the_environment(
    exportable_run: RunFolder, tmp_path: Path
) -> None:
    python = tool("YOUDEN_EXPORT_PYTHON", "datasets and youden[hub,mlflow]")
    words = ("-m", "youden", "export", exportable_run.path, "out", "--format", "hf", "--push", "me/ranked", "--json")
    with hub() as server:
        ended = in_tools(python, *words, cwd=tmp_path, HF_ENDPOINT=server.url, HF_TOKEN=TOKEN)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["pushed"].endswith("datasets/me/ranked")
    asked = server.repos["me/ranked"]
    assert asked.get("private") is True or asked.get("visibility") == "private"
    files = {str(path.relative_to(tmp_path / "out")): path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}
    files = {name: text for name, text in files.items() if (tmp_path / "out" / name).is_file()}
    sent = server.files["datasets/me/ranked"]
    assert {name: sent[name] for name in files} == files
    assert set(sent) - set(files) <= {".gitattributes"}


def test_a_refused_push_states_the_reason_and_leaves_the_folder_complete(tmp_path: Path) -> None:
    python = tool("YOUDEN_EXPORT_PYTHON", "datasets and youden[hub,mlflow]")
    write_pool(make_pool(2, 3), tmp_path / "pool")
    words = ("-m", "youden", "export", "pool", "out", "--format", "hf", "--push", "me/ranked")
    with hub() as server:
        ended = in_tools(python, *words, cwd=tmp_path, HF_ENDPOINT=server.url, HF_TOKEN=TOKEN[::-1])
    assert ended.returncode == 2
    assert "[hub-refused]" in ended.stderr
    assert TOKEN[::-1] not in ended.stderr
    assert read_pool(tmp_path / "out").digest == make_pool(2, 3).digest
    assert server.files == {}


TRAIN = [{"model": who, "question": q, "answer": f"{who} on {q}"} for q in ("q1", "q2") for who in ("a", "b")]
CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: rows/train.jsonl
  - split: test
    path: rows/test.jsonl
---
"""


def test_a_dataset_on_the_hub_is_a_pool_that_records_its_commit(tmp_path: Path) -> None:
    python = tool("YOUDEN_EXPORT_PYTHON", "datasets and youden[hub,mlflow]")
    words = ("-m", "youden", "import", "hf-dataset", "me/answers", "--out", "pool", "--split", "train")
    columns = ("--column", "agent=model", "--column", "item=question", "--column", "text=answer")
    with hub() as server:
        server.files["datasets/me/answers"] = {
            "README.md": CARD.encode(),
            "rows/train.jsonl": "".join(json.dumps(row) + "\n" for row in TRAIN).encode(),
            "rows/test.jsonl": json.dumps(TRAIN[0] | {"question": "q9"}).encode(),
        }
        ended = in_tools(python, *words, "--revision", "main", *columns, cwd=tmp_path, HF_ENDPOINT=server.url)
        assert ended.returncode == 0, ended.stderr
        pool = read_pool(tmp_path / "pool")
        assert {(pool.agents[0].id, item.id): text for item, text in zip(pool.items, pool.texts[0], strict=True)} == {
            ("a", "q1"): "a on q1",
            ("a", "q2"): "a on q2",
        }
        assert [agent.meta["source"] for agent in pool.agents] == [f"me/answers@{COMMIT}"] * 2
        missing = in_tools(python, *words, "--out", "none", "--subset", "no", cwd=tmp_path, HF_ENDPOINT=server.url)
    assert missing.returncode == 2
    assert "me/answers" in missing.stderr
    assert "[import-hub]" in missing.stderr
    assert not (tmp_path / "none").exists()
