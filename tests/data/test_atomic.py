"""Test the error and the remains of a failed or killed write, and when written data are flushed to disk."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from commands import Youden, wire_judge, write_config
from wire_server import WireServer
from youden.data import atomic
from youden.data.atomic import atomic_write, atomic_write_folder, atomic_write_many

FULL = Path("/dev/full")


def write_one_of_many(path: Path) -> AbstractContextManager[Path]:
    path.mkdir()
    return atomic_write_many(path, ["a"])


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("place", [atomic_write, atomic_write_folder, write_one_of_many])
def test_a_full_disk_is_an_error_with_the_path_and_keeps_the_old_file(
    place: Callable[[Path], AbstractContextManager[Path]], tmp_path: Path
) -> None:
    path = tmp_path / "table"
    with pytest.raises(OSError, match="table") as caught, place(path), FULL.open("wb", buffering=0) as file:
        file.write(b"row")
    assert caught.value.errno == errno.ENOSPC
    assert not path.exists() or not list(path.iterdir())


def test_a_folder_removed_during_a_write_is_an_error_and_is_not_recreated(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def write_as_it_goes() -> None:
        with write_one_of_many(folder) as new_path:
            (new_path / "a").write_bytes(b"row")
            shutil.rmtree(folder)

    with pytest.raises(OSError, match="deleted or moved") as caught:
        write_as_it_goes()
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(folder))
    with pytest.raises(FileNotFoundError), atomic_write_many(folder, ["a"]):
        pass
    assert not folder.exists()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """Record every `os.fsync` and `os.replace` of this process with its file, directory or target."""
    recorded: list[tuple[str, Path]] = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor: int) -> None:
        recorded.append(("fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def record_replace(source: Path, target: Path) -> None:
        recorded.append(("replace", Path(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    return recorded


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc/self/fd here")


@needs_proc
def test_a_file_is_flushed_before_its_rename_and_its_directories_afterwards(
    calls: list[tuple[str, Path]], tmp_path: Path
) -> None:
    path = tmp_path / "new" / "newer" / "file"
    with atomic_write(path) as new_path:
        new_path.write_bytes(b"row")
    directories, (file, rename, directory) = calls[:-3], calls[-3:]
    assert set(directories) == {("fsync", tmp_path), ("fsync", path.parent.parent)}
    assert (file[0], file[1].name) == ("fsync", new_path.name)
    assert [rename, directory] == [("replace", path), ("fsync", path.parent)]


@needs_proc
@pytest.mark.parametrize("replaced", ["nothing", "a file", "a folder"])
def test_every_file_of_a_folder_is_flushed_before_the_folder_is_renamed(
    replaced: str, calls: list[tuple[str, Path]], tmp_path: Path
) -> None:
    path = tmp_path / "folder"
    if replaced == "a file":
        path.write_bytes(b"old")
    elif replaced == "a folder":
        path.mkdir()
        (path / "old").write_bytes(b"old")
    with atomic_write_folder(path) as new_path:
        (new_path / "inner").mkdir()
        (new_path / "a").write_bytes(b"row")
        (new_path / "inner" / "b").write_bytes(b"row")
    flushed = {place.relative_to(new_path).as_posix() for what, place in calls if what == "fsync" and place != tmp_path}
    assert flushed == {".", "a", "inner", "inner/b"}
    assert calls[-2:] == [("replace", path), ("fsync", tmp_path)]
    assert [place.name for place in tmp_path.iterdir()] == ["folder"]
    assert sorted(place.name for place in path.iterdir()) == ["a", "inner"]


@needs_proc
def test_files_written_together_are_flushed_before_the_first_rename(
    calls: list[tuple[str, Path]], tmp_path: Path
) -> None:
    with atomic_write_many(tmp_path, ["a", "b"]) as new_path:
        (new_path / "a").write_bytes(b"row")
        (new_path / "b").write_bytes(b"row")
    first = calls.index(("replace", tmp_path / "a"))
    assert {place.name for _, place in calls[:first]} == {"a", "b", new_path.name}
    assert calls[first + 1 :] == [("replace", tmp_path / "b"), ("fsync", tmp_path)]


KILLED = """
import os, signal, sys
import youden.cli
from youden.data import atomic
from youden.judging.offline import exporting
def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)
atomic.move_into_place = exporting.move_into_place = kill
youden.cli.main()
"""
"""Program that runs `youden` and is killed before the rename of a written file."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words.split(), id=words, marks=() if words == "export mine.csv out.csv" else pytest.mark.slow)
        for words in (
            "export mine.csv out --format hf",
            "export demo out --format eee --organization o",
            "export mine.csv out.csv",
            "export demo new/out.jsonl",
            "import table mine.csv --out pool",
            "label demo --next 5 --out labels.csv",
            "plan wired.yaml --export out",
            "generate agents.yaml items.csv --out made",
        )
    ],
)
@pytest.mark.posix
def test_temporary_files_of_a_killed_command_are_removed_by_the_next_one(
    words: list[str], youden: Youden, mine: Path, server: WireServer
) -> None:
    judge = wire_judge(server.url)
    write_config(mine / "wired.yaml", pool="mine.csv", calls=100, independent="pooled:20", judge=judge)
    agents = [{"id": name, "model": "m", "instruction": "mine.md"} for name in ("a", "b")]
    agents = [{"id": name, "model": "m", "instruction": "mine.md"} for name in ("a", "b")]
    write_config(mine / "agents.yaml", models={"m": judge}, agents=agents)
    (mine / "mine.md").write_text("Rewrite {{text}}", encoding="utf-8")
    (mine / "items.csv").write_text(
        "agent,item,text,prompt\nsource,i0,A text.,It says something of item 1 and says something of item 1.\n",
        encoding="utf-8",
    )
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], cwd=mine, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert list(mine.rglob(".youden-*-*"))
    youden(*words).well()
    assert not list(mine.rglob(".youden-*-*"))


BETWEEN = """
import os, signal, sys
from pathlib import Path
from youden.data import atomic
rename, names = os.replace, []
def killed_at_the_second(source, target):
    names.append(target)
    if len(names) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)
os.replace = killed_at_the_second
with atomic.atomic_write_folder(Path("table")) as fresh:
    (fresh / "new").write_bytes(b"")
"""


def test_a_file_does_not_replace_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(IsADirectoryError, match="a file does not replace it"), atomic_write(folder) as new:
        new.write_text("report", encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]
    assert (folder / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_a_folder_stays_if_its_replacement_cannot_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens on Windows if another program has a file of the new folder open."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "answers").write_text("paid for")
    rename = atomic._replace_with_retry

    def fail_for_the_new_folder(old: Path, new: Path) -> None:
        if new == folder and old.name == "new":
            raise PermissionError(errno.EACCES, "held open", str(new))
        rename(old, new)

    monkeypatch.setattr(atomic, "_replace_with_retry", fail_for_the_new_folder)
    with pytest.raises(PermissionError), atomic_write_folder(folder) as new_folder:
        (new_folder / "answers").write_text("new")
    assert (folder / "answers").read_text() == "paid for"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.posix
def test_a_folder_is_restored_if_its_replacement_was_killed_halfway(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table/old").write_bytes(b"")
    killed = subprocess.run([sys.executable, "-c", BETWEEN], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "table").exists()
    with atomic_write(tmp_path / "another") as new_path:
        new_path.write_bytes(b"")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["another", "old", "table"]
