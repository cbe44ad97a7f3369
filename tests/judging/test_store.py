"""Test the store: stored answers, recovery and errors."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections import deque
from contextlib import closing
from itertools import repeat
from pathlib import Path

import pytest

from store_connections import connection_of
from youden.errors import ConfigError, JudgeError, YoudenError
from youden.judging.store.answers import MAX_PENDING_WRITES, open_store
from youden.judging.store.sqlite import make_store_error
from youden.types import Completion

ANSWER = Completion("YES", "stop", "m", 10, 1, 0.5, "fp", None, (("YES", -0.1), ("NO", -2.5)))


def slug_of(path: Path, **options: bool) -> str:
    with pytest.raises(YoudenError) as caught:
        open_store(path, **options)
    assert str(path) in caught.value.message
    return caught.value.slug


def test_a_url_and_a_path_of_one_file_open_the_same_store(tmp_path: Path) -> None:
    path = tmp_path / "a folder" / "v#1?.db"
    with open_store(path) as store:
        store.add("k", ANSWER)
    with open_store(f"sqlite:///{path}".replace("?", "%3F")) as store:
        assert len(store) == 1
    with pytest.raises(ConfigError, match=r"mysql.*postgresql"):
        open_store("mysql://host/db")


@pytest.mark.posix
def test_a_killed_process_loses_no_flushed_answer(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    script = f"""
import os, signal
from youden.judging.store.answers import open_store
from youden.types import Completion
store = open_store({str(path)!r})
for n in range(500):
    store.add(f"k{{n}}", Completion("YES", "stop", "m", 1, 1))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)
    with open_store(path) as store:
        assert len(store) > 500 - MAX_PENDING_WRITES


def test_files_that_are_no_store_are_refused_and_unchanged(tmp_path: Path) -> None:
    words, foreign = tmp_path / "words.db", tmp_path / "other.db"
    words.write_text("agent,item,text\n" * 200, encoding="utf-8")
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    before = [path.read_bytes() for path in (words, foreign)]
    assert [slug_of(path) for path in (words, foreign)] == ["store-corrupt", "not-a-store"]
    assert [path.read_bytes() for path in (words, foreign)] == before


def test_a_damaged_store_is_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    with open_store(path) as store:
        for n in range(2000):
            store.add(f"k{n}", ANSWER)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    with pytest.raises(JudgeError, match=r"recover.*\[store-corrupt\]"), open_store(path) as store:
        store.answers([f"k{n}" for n in range(2000)])


@pytest.mark.parametrize("version", [1, 99])
def test_a_store_of_another_version_is_refused_and_unchanged(tmp_path: Path, version: int) -> None:
    path = tmp_path / "v.db"
    with open_store(path) as store:
        store.add("k" * 64, ANSWER)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("DROP TABLE costs")
    before = path.read_bytes()
    assert slug_of(path) == slug_of(path, read_only=True) == "store-version"
    assert path.read_bytes() == before


def test_a_store_opened_read_only_refuses_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "v.db"
    assert slug_of(path, read_only=True) == "store-missing"
    with open_store(path) as store:
        store.add("k", ANSWER)
    for access in (True, False):
        monkeypatch.setattr(os, "access", lambda *_, access=access: access)
        with open_store(path, read_only=True) as store:
            assert store.answers(["k"]) == {"k": ANSWER}
            with pytest.raises(JudgeError, match="store-read-only"):
                store.remember_judge({})


@pytest.mark.posix
def test_a_path_that_cannot_contain_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "absent" / "v.db")
    (tmp_path / "full").write_text("", encoding="utf-8")
    no_places = (tmp_path, tmp_path / "link.db", tmp_path / "full" / "locked.db")
    assert {slug_of(path) for path in no_places} == {"store-read-only"}


@pytest.mark.parametrize(
    ("code", "slug"),
    [
        (sqlite3.SQLITE_PERM, "store-read-only"),
        (sqlite3.SQLITE_CANTOPEN_ISDIR, "store-read-only"),
        (sqlite3.SQLITE_FULL, "store-full"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "store-busy"),
        (sqlite3.SQLITE_IOERR_WRITE, "store-failed"),
        (sqlite3.SQLITE_NOTADB, "store-corrupt"),
    ],
)
def test_the_code_of_an_sqlite_error_decides_its_slug(code: int, slug: str) -> None:
    error = sqlite3.OperationalError("a message in other words")
    error.sqlite_errorcode = code
    assert make_store_error("v.db", error).slug == slug


def test_a_full_disk_of_the_file_system_is_reported_as_such() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "v.db")
    assert make_store_error("v.db", error).slug == "store-full"


def test_a_full_disk_stops_the_run_and_keeps_stored_answers(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    store = open_store(path)
    connection_of(store).execute("PRAGMA max_page_count = 20")
    with pytest.raises(JudgeError, match="store-full"):
        deque(map(store.add, (f"k{n}" for n in range(2000)), repeat(ANSWER)), maxlen=0)
    with pytest.raises(JudgeError):
        store.close()
    with open_store(path) as store:
        assert len(store) >= MAX_PENDING_WRITES
