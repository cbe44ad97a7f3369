"""Test compose.yaml and the Dockerfile by running their commands as processes, without a Docker daemon."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from postgres import Cluster
from youden.data.folder.run_folder import RunFolder
from youden.judging.store.answers import open_store

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())


def test_the_image_has_the_extras_of_a_worker_and_an_unprivileged_user() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert "RUN pip install --no-cache-dir '.[postgres]'" in lines
    assert "USER nobody" in lines
    assert lines[-1] == 'ENTRYPOINT ["youden"]'


@pytest.mark.slow
def test_compose_services_judge_a_run_together(tmp_path: Path, postgres: Cluster) -> None:
    services = COMPOSE["services"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    url = postgres.new()
    output = services["leader"]["environment"]["YOUDEN_STORE"]
    assert re.fullmatch(r"postgresql://(\w+):([\w-]+)@db:5432/(\w+)", output)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "YOUDEN_STORE": url}
    config = tmp_path / "run.yaml"
    text = (ROOT / "examples/hosts/run.yaml").read_text()
    config.write_text(text.replace("judge:8000", f"127.0.0.1:{port}"))

    def start(service: str, program: list[str]) -> subprocess.Popen[str]:
        there = {"8000": port, "0.0.0.0": "127.0.0.1", "/tmp/run": str(tmp_path / service)}  # noqa: S104, S108
        there["examples/hosts/run.yaml"] = str(config)
        words = [there.get(str(word), str(word)) for word in services[service]["command"]]
        return subprocess.Popen([*program, *words], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)

    judge = start("judge", [sys.executable])
    try:
        youden = [sys.executable, "-m", "youden"]
        asking = [start("leader", youden)] + [
            start("worker", youden) for _ in range(services["worker"]["deploy"]["replicas"])
        ]
        for process in asking:
            _, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
    finally:
        judge.kill()
        judge.communicate()
    folder = RunFolder(tmp_path / "leader")
    assert folder.read_verdicts(folder.read_plan()).answered.all()
    with open_store(url, read_only=True) as store:
        assert len(store) > 300


@pytest.mark.posix
def test_recipes_name_existing_commands() -> None:
    text = (ROOT / "docs/how-to/workers.md").read_text()
    array = re.search(r"```bash\n#!/bin/bash\n(.*?)```", text, re.DOTALL)
    assert array
    for task, words in (("0", ["youden", "judge", "run.yaml"]), ("3", ["youden", "judge", "run.yaml", "--worker"])):
        script = array[1].replace("exec youden", "echo youden")
        done = subprocess.run(
            ["bash", "-euc", script],
            env={**os.environ, "SLURM_ARRAY_TASK_ID": task},
            capture_output=True,
            text=True,
            check=True,
        )
        assert shlex.split(done.stdout) == words
    match = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert match
    container = yaml.safe_load(match[1])["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["judge", "/run/run.yaml", "--worker"]
