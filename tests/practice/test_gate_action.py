"""The example for GitHub Actions does what it says: its own steps, run by a shell, on a cassette, without a key or a judge."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from commands import Youden, write_config
from pools import make_pool
from wire_server import Reply, WireServer, same_item
from youden.data.pools.pool_reader import write_pool
from youden.nouns import Agent

EXAMPLE = Path(__file__).parents[2] / "docs" / "github-actions"
WORKFLOW = yaml.safe_load((EXAMPLE / "gate.yml").read_text(encoding="utf-8"))
JOB = WORKFLOW["jobs"]["gate"]
SCRIPTS = [step["run"] for step in JOB["steps"] if "run" in step]
RECORDED = (
    "gate",
    "runs/release",
    "--agent",
    "new-model",
    "--baseline",
    "old-model",
    "--ledger",
    "cassettes/gates.json",
)


def test_the_workflow_names_no_secret_and_runs_youden_alone() -> None:
    assert WORKFLOW[True] == "pull_request"  # YAML reads the key `on` as true
    assert "secrets" not in (EXAMPLE / "gate.yml").read_text(encoding="utf-8")
    assert SCRIPTS[0] == "pip install youden"
    assert [script.split()[:2] for script in SCRIPTS[1:]] == [
        ["youden", "cassette"],
        ["youden", "run"],
        ["youden", "gate"],
    ]


@pytest.mark.slow
def test_the_steps_gate_on_a_recorded_cassette(youden: Youden, server: WireServer, tmp_path: Path) -> None:
    def behave(_n: int, body: dict[str, object]) -> Reply:
        return Reply("NO" if "agent 0 says" in str(body) else same_item(body))

    server.behave = behave
    pool = make_pool(5, 12)
    named = {0: "new-model", 1: "old-model"}
    agents = tuple(Agent(named.get(i, agent.id)) for i, agent in enumerate(pool.agents))
    write_pool(replace(pool, agents=agents), tmp_path / "pool")
    shutil.copy(EXAMPLE / "release.yaml", tmp_path)
    write_config(tmp_path / "judge.yaml", backend="openai", model="m", base_url=server.url, api_key_env=None, price=0)
    assert youden("run", "release.yaml", "--judge", "judge.yaml").code == 0
    assert youden("cassette", "export", "runs/release", "--out", "cassettes/release.jsonl").code == 0
    assert youden(*RECORDED).code == 1
    committed = (tmp_path / "cassettes" / "gates.json").read_bytes()

    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("pool", "cassettes"):
        shutil.copytree(tmp_path / name, checkout / name)
    shutil.copy(EXAMPLE / "release.yaml", checkout)
    tools = tmp_path / "bin"
    tools.mkdir()
    tool = tools / "youden"
    tool.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c 'from youden.cli import main; main()' \"$@\"\n")
    tool.chmod(0o755)
    asked = server.n_requests
    environment = (
        os.environ
        | JOB["env"]
        | {
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        }
    )
    ended = [
        subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=checkout,
            check=False,
            env=environment,
            capture_output=True,
            text=True,
        )
        for script in SCRIPTS[1:]
    ]
    assert [one.returncode for one in ended] == [0, 0, 1], [one.stderr for one in ended]
    assert server.n_requests == asked
    assert ET.parse(checkout / "gate.xml").getroot().get("failures") == "1"
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("## ❌ worse: new-model against old-model")
    assert (checkout / "cassettes" / "gates.json").read_bytes() == committed
    assert (checkout / "runs" / "release" / "report.html").exists()
