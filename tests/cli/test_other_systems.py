"""Simulate differences of Windows and macOS: consoles, signals, missing modules, file names and open files.

`.github/workflows/test.yml` runs the tests on these systems.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from commands import Youden, write_pool_table
from youden.data import atomic
from youden.data.atomic import atomic_write
from youden.data.folder.run_config import load_run_config
from youden.errors import ConfigError
from youden.judging.store import leases
from youden.text import printable
from youden.text.printable import format_command, is_device, to_file_name

ROOT = Path(__file__).parents[2]
WITHOUT = """
import asyncio, signal, subprocess, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty"):
    sys.modules[name] = None
for name in ("SIGHUP", "SIGKILL", "SIGALRM", "SIGCHLD", "SIGQUIT", "SIGSTOP", "SIGCONT"):
    delattr(signal, name)
"""
"""First lines of a program that simulate a Python without modules missing on Windows."""


def without(*words: str, here: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", f"{WITHOUT}\nfrom youden.cli import main\nmain()", *words],
        cwd=here,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        check=False,
    )


@pytest.mark.slow
def test_a_pool_is_ranked_without_posix_modules_on_a_cp1252_console(
    tmp_path: Path,
) -> None:
    write_pool_table(tmp_path / "pool.csv")
    console = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "COLUMNS": "80", "NO_COLOR": "1"}
    for words in (["run", "pool.csv.yaml"], ["plan", "pool.csv.yaml"], ["check", "pool.csv"], ["doctor"]):
        (tmp_path / "pool.csv.yaml").write_text("pool: pool.csv\nname: mine\n")
        ended = without(*words, here=tmp_path, **console)
        assert ended.returncode in (0, 1), ended.stderr
        for case in (ended.stdout, ended.stderr):
            text = case.decode("cp1252")
            assert "\\u" not in text
            assert "Traceback" not in text


def test_atomic_write_replaces_an_open_file_once_its_reader_closes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, failures = os.replace, [True, True, True]

    def held_open(source: Path, target: Path) -> None:
        if failures:
            failures.pop()
            raise PermissionError(13, "The process cannot access the file", str(target))
        replace(source, target)

    monkeypatch.setattr(atomic, "LOCKS_OPEN_FILES", True)
    monkeypatch.setattr(atomic, "_RETRY_SECONDS", (0.0, 0.0, 0.0))
    monkeypatch.setattr("youden.data.atomic.os.replace", held_open)
    path = tmp_path / "fit.json"
    path.write_text("old")
    with atomic_write(path) as new_path:
        new_path.write_text("new")
    assert (path.read_text(), failures) == ("new", [])
    failures += [True] * 9
    with pytest.raises(PermissionError, match=r"fit\.json"), atomic_write(path) as new_path:
        new_path.write_text("newer")
    assert [entry.name for entry in tmp_path.iterdir()] == ["fit.json"]
    assert path.read_text() == "new"


def test_no_process_is_signaled_on_a_system_without_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[int] = []
    windows = SimpleNamespace(name="nt", kill=lambda *_: calls.append(1), getpid=os.getpid)
    owner = f"{leases._get_machine_id()} {os.getpid()} x"
    monkeypatch.setattr(leases, "os", windows)
    assert not leases.is_dead_process(owner)
    monkeypatch.setattr(atomic, "os", windows)
    assert not atomic._has_ended(os.getpid())
    assert calls == []


@pytest.mark.parametrize("name", ["CON", "aux", "Nul.v2", "com1", "LPT9.txt", "v2.", "v2 "])
def test_a_run_name_that_windows_forbids_is_refused(name: str, tmp_path: Path) -> None:
    assert is_device(name)
    config = tmp_path / "r.yaml"
    config.write_text(f"pool: p.csv\nname: {json.dumps(name)}\n")
    with pytest.raises(ConfigError, match="Windows"):
        load_run_config(config)


def test_ids_with_colons_or_reserved_names_become_portable_file_names() -> None:
    ids = ["CON", "nul.txt", "a:b", "a/b", "a\\b", 'a"b', "a?b", "x" * 300, "ends.", "..", "läuft", "a|b", "us.meta:0"]
    parts = [to_file_name(entry) for entry in ids]
    assert len({entry.casefold() for entry in parts}) == len(ids)
    for part in parts:
        assert not set(part) & set('<>:"/\\|?*')
        assert not is_device(part)
        assert len(part) <= 100


@pytest.mark.slow
def test_agents_with_ids_that_differ_only_by_case_have_two_files(youden: Youden, tmp_path: Path) -> None:
    rows = [
        (agent, f"i{j}", f"{agent} tells of {j} {'rain' * (1 + j % 3)}")
        for agent in ("Lead", "lead", "CON")
        for j in range(9)
    ]
    (tmp_path / "p.csv").write_text("agent,item,text\n" + "".join(",".join(row) + "\n" for row in rows))
    (tmp_path / "r.yaml").write_text("pool: p.csv\n")
    assert youden("run", "r.yaml").code == 0
    assert youden("export", "runs/r", "out", "--format", "eee").code == 0
    files = [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len({file.casefold() for file in files}) == len(files) >= 3
    assert not any(is_device(part) for file in files for part in file.split("/"))


def test_commands_are_quoted_for_the_shell_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["youden", "run", "my pool.yaml"]
    assert format_command(words) == "youden run 'my pool.yaml'"
    monkeypatch.setattr(printable, "os", SimpleNamespace(name="nt"))
    assert format_command(words) == 'youden run "my pool.yaml"'


@pytest.mark.long
def test_all_tests_are_collected_without_posix_modules_and_signals() -> None:
    collect = "import pytest\nsys.exit(pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', '-m', '']))"
    ended = subprocess.run(
        [sys.executable, "-c", f"{WITHOUT}\n{collect}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
