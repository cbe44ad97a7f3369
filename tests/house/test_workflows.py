"""Test that workflows use pinned actions and time limits: a tag can move, and a job can run for six hours."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
FILES_WITH_ACTIONS = [*WORKFLOWS, ROOT / "action.yml", *sorted(ROOT.glob("docs/github-actions/*.yml"))]
PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.15"]
SYSTEMS = ["ubuntu-latest", "macos-latest", "windows-latest"]
PINNED = re.compile(r"\S+@[0-9a-f]{40} # v\d+(\.\d+)+$")


def load(path: Path) -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load(path.read_text("utf8"))
    return content


@pytest.mark.parametrize("path", FILES_WITH_ACTIONS, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit_and_names_its_version(path: Path) -> None:
    used = [line.split("uses:", 1)[1].strip() for line in path.read_text("utf8").splitlines() if "uses:" in line]
    remote = [action for action in used if not action.startswith("./")]
    assert [action for action in remote if not PINNED.match(action)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_job_has_a_time_limit(path: Path) -> None:
    jobs = load(path)["jobs"]
    assert jobs
    assert [name for name, job in jobs.items() if "timeout-minutes" not in job] == []


def test_a_nightly_workflow_runs_all_checks() -> None:
    nightly = load(ROOT / ".github/workflows/nightly.yml")
    assert any(step.get("run") == ".ci/run" for step in nightly["jobs"]["checks"]["steps"])
    assert nightly[True]["schedule"], "YAML reads the key `on` as true"


def test_the_core_tests_run_on_every_supported_python_and_system() -> None:
    matrix = load(ROOT / ".github/workflows/test.yml")["jobs"]["core"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS
    assert matrix["os"] == SYSTEMS


def test_the_wheel_is_tested_on_the_oldest_and_newest_python() -> None:
    matrix = load(ROOT / ".github/workflows/test.yml")["jobs"]["wheel"]["strategy"]["matrix"]
    assert matrix["python"] == [PYTHONS[0], PYTHONS[-1]]
    assert matrix["os"] == SYSTEMS
