"""Test that a run is logged to MLflow completely with valid names, or not at all if its store is unreachable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import Youden, write_config, write_pool_table
from youden.data.folder.run_folder import RunFolder
from youden.text.printable import to_file_name

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    write_pool_table(tmp_path / "p.csv", group="<b>g")
    text = (tmp_path / "p.csv").read_text(encoding="utf-8").replace("a3,", "../a: 3?,")
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    write_config(tmp_path / "c.yaml", pool="p.csv", calls=100, independent="pooled:10", out="run")
    return tmp_path


@pytest.fixture
def python() -> str:
    result = os.environ.get("YOUDEN_EXPORT_PYTHON")
    if not result:
        pytest.skip("YOUDEN_EXPORT_PYTHON names no interpreter with youden[hub,mlflow] and datasets")
    return result


def elsewhere(python: str, *words: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "TMPDIR")}
    return subprocess.run(
        [python, *map(str, words)],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_without_mlflow_no_request_is_sent(youden: Youden, configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for words in (("run", "c.yaml", "--mlflow"), ("report", "run", "--mlflow")):
        assert youden(*words).refuses("mlflow-missing")
    assert not (configured / "run").exists()


def test_only_the_report_file_of_the_run_is_logged(youden: Youden) -> None:
    assert youden("report", "run", "--mlflow", "--format", "md").refuses("report-mlflow")


@pytest.mark.slow
def test_a_run_is_logged_with_ranking_intervals_cost_and_report(configured: Path, python: str) -> None:
    store = {"MLFLOW_TRACKING_URI": (configured / "store").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    ended = elsewhere(python, "-m", "youden", "run", "c.yaml", "--mlflow", "--json", cwd=configured, **store)
    assert ended.returncode == 0, ended.stderr
    ranked = json.loads(ended.stdout)
    again = elsewhere(python, "-m", "youden", "report", "run", "--mlflow", cwd=configured, **store)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines() == [str(Path("run/report.html"))]
    read = elsewhere(python, TOOLS / "read_by_mlflow.py", cwd=configured, **store)
    assert read.returncode == 0, read.stderr
    runs = json.loads(read.stdout)
    assert len(runs) == 2
    folder = RunFolder(configured / "run")
    for run in runs:
        assert run["status"] == "FINISHED"
        for row in folder.read_ranking():
            name = to_file_name(row.agent)
            assert [run["metrics"][f"{what}/{name}"] for what in ("ability", "low", "high")] == [
                row.ability,
                row.low,
                row.high,
            ]
        assert run["metrics"]["usd"] == 0
        assert run["metrics"]["calls"] == ranked["fit"]["calls"]["n_paired"] + ranked["fit"]["calls"]["n_independent"]
        assert run["params"]["judge"] == "lexical"
        assert run["params"]["design"] == "cyclic"
        assert run["tags"]["youden.signature"] == folder.read_signature().text
        assert {"ranking.csv", "ranking.json", "report.html"} <= set(run["artifacts"])
    assert runs[0]["report"] == folder.file("report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_unreachable_tracking_store_is_an_error_before_any_request(configured: Path, python: str) -> None:
    store = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    ended = elsewhere(python, "-m", "youden", "run", "c.yaml", "--mlflow", cwd=configured, **store)
    assert ended.returncode == 2
    assert "[mlflow-refused]" in ended.stderr
    assert not (configured / "run").exists()
