"""Test where temporary files of tests are kept, and that .ci/run leaves no processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from memory_folder import MIN_FREE_BYTES, can_hold_tests

ROOT = Path(__file__).parents[2]
SCRIPT = """
set -euo pipefail
source .ci/steps
chain() {
  echo $BASHPID >"$FOLDER/pid"
  sleep 300
}
in_background chain
until [[ -s "$FOLDER/pid" ]]; do sleep 0.05; done
"""

# a shell that starts a program in the background makes it ignore SIGINT
START = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp('bash', ['bash', '-c', sys.argv[1]])"


def test_tests_use_the_disk_if_the_memory_folder_does_not_exist_or_is_not_mounted(tmp_path: Path) -> None:
    assert not can_hold_tests(str(tmp_path / "missing"))
    assert not can_hold_tests(str(tmp_path))


@pytest.mark.posix
@pytest.mark.parametrize(
    ("free_bytes", "flags", "expected"),
    [
        (MIN_FREE_BYTES + 1, 0, True),
        (MIN_FREE_BYTES, 0, False),
        (MIN_FREE_BYTES + 1, getattr(os, "ST_NOEXEC", 0), False),
    ],
    ids=["free", "full", "noexec"],
)
def test_tests_use_a_memory_folder_that_has_space_and_runs_programs(
    monkeypatch: pytest.MonkeyPatch, free_bytes: int, flags: int, expected: bool
) -> None:
    status = SimpleNamespace(f_flag=flags, f_bavail=free_bytes, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda _: status)
    assert can_hold_tests("/") is expected


@pytest.mark.posix
@pytest.mark.slow
@pytest.mark.parametrize("end", ["failure", "interrupt", "termination"])
def test_functions_in_the_background_end_with_the_script_that_started_them(tmp_path: Path, end: str) -> None:
    # the signal is sent when the last command runs: bash defers a signal that arrives while it starts a command until this ends
    last_command = f"bash -c 'echo ready; {'false' if end == 'failure' else 'exec sleep 300'}'"
    with subprocess.Popen(
        [sys.executable, "-c", START, SCRIPT + last_command],
        cwd=ROOT,
        env=os.environ | {"FOLDER": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == b"ready\n"
        if end != "failure":
            os.killpg(script.pid, signal.SIGINT if end == "interrupt" else signal.SIGTERM)
        assert script.wait(timeout=100) != 0

    process = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 100
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(process)
    assert [path.name for path in tmp_path.iterdir()] == ["pid"]


def is_alive(process: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
