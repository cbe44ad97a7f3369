"""Test that the commands and code of CONTRIBUTING.md run when copied."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
TOOLS = {"pytest": "-m pytest", "youden": "-m youden"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy the checkout under git, with this interpreter instead of the environment that the first block creates."""
    for name in ("src", "tests", "prompts", "configs", "datasets"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "before"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name, arguments in TOOLS.items():
        (tools / name).write_text(f'#!/bin/sh\nPYTHONPATH="$PWD/src" exec \'{sys.executable}\' {arguments} "$@"\n')
        (tools / name).chmod(0o755)
    return tmp_path


@pytest.mark.slow
def test_a_toy_design_needs_one_file_and_a_toy_judge_one_row_and_both_can_be_removed(checkout: Path) -> None:
    setup, *toys = BLOCKS
    assert setup.startswith("python3 -m venv --upgrade-deps .venv && .venv/bin/pip install")
    out = ""
    for block in toys:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=checkout, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        out += done.stdout + done.stderr
    assert [int(n) > 0 for n in re.findall(r"(\d+) passed", out)] == [True, True]
    assert "distant agents are never compared" in out
    left = subprocess.run(["git", "status", "--short", "src"], cwd=checkout, capture_output=True, text=True, check=True)
    assert left.stdout == ""


def test_every_link_and_script_that_contributing_names_exists() -> None:
    named = re.findall(r"\]\((?!https:)([^)#]+)\)", TEXT) + re.findall(
        r"`(\.ci/\w+|tests/[\w/]+\.py|src/[\w/]+/)`", TEXT
    )
    assert {".ci/run", ".ci/long"} <= set(named)
    for target in named:
        assert (ROOT / target).exists(), target
