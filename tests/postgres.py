"""Run a temporary PostgreSQL cluster with its own port and socket.

PostgreSQL refuses to run as root; in this case it runs as `postgres`, the user of its package, or as `nobody`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import psycopg
import pytest

ABSENT = "PostgreSQL (initdb and postgres, as in Debian's package postgresql) is not installed"


def binaries() -> Path | None:
    """Return the folder of initdb and postgres, or None if they are not installed."""
    result = shutil.which("initdb")
    folders = [Path(result).parent] if result else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


class Cluster:
    """A running cluster. The role `youden` owns its databases and has no other right; its password is in the URL."""

    PASSWORD = "planted-pg-0123"  # noqa: S105

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder = folder
        self._programs = programs
        self._as = self._user()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._n = 0
        self._emptied: list[str] = []
        self._server: subprocess.Popen[bytes] | None = None
        words = ["initdb", "-D", str(folder / "data"), "-A", "scram-sha-256", "-U", "admin", "--no-sync"]
        password = folder / "password"
        password.write_text(self.PASSWORD)
        for path in (folder, password):
            if self._as is not None:
                shutil.chown(path, self._as)
        self._run([*words, f"--pwfile={password}"])
        self.start()
        with self.admin() as connection:
            connection.execute(f"CREATE ROLE youden LOGIN PASSWORD '{self.PASSWORD}'".encode())

    def start(self) -> None:
        """Start the cluster, and wait until it answers."""
        options = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self._folder}
        options |= {"fsync": "off", "max_connections": 60}  # a kill loses nothing that was passed to the kernel
        words = [str(self._programs / "postgres"), "-D", str(self._folder / "data")]
        words += [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        for _ in range(2400):
            if self._server is None or self._server.poll() is not None:
                # repeated: children of a killed process may hold its memory, and another process its port
                with (self._folder / "log").open("ab") as log:
                    self._server = subprocess.Popen(words, user=self._as, cwd=self._folder, stdout=log, stderr=log)
            try:
                self.admin().close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError(f"PostgreSQL did not start: {(self._folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill the postmaster and thereby every connection."""
        assert self._server is not None
        self._server.send_signal(signal.SIGKILL)
        self._server.wait()

    def stop(self) -> None:
        assert self._server is not None
        self._server.send_signal(signal.SIGINT)
        self._server.wait(120)

    def url(self, database: str, *, role: str = "youden") -> str:
        return f"postgresql://{role}:{self.PASSWORD}@127.0.0.1:{self.port}/{database}"

    def new(self) -> str:
        """Return the URL of a database without a store."""
        if self._emptied:
            return self._emptied.pop()
        self._n += 1
        name = f"d{self._n}"
        with self.admin() as connection:
            connection.execute(f"CREATE DATABASE {name} OWNER youden STRATEGY FILE_COPY".encode())
        return self.url(name)

    def take_back(self, url: str) -> None:
        """Empty a database for the next test, which takes a tenth of the time of a new one."""
        with self.admin(url.rpartition("/")[2]) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            connection.execute("DROP SCHEMA IF EXISTS youden CASCADE")
        self._emptied.append(url)

    def admin(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(self.url(database, role="admin"), autocommit=True)

    def _run(self, words: list[str]) -> None:
        done = subprocess.run(
            [str(self._programs / words[0]), *words[1:]],
            user=self._as,
            cwd=self._folder,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()

    @staticmethod
    def _user() -> str | None:
        import pwd

        if os.geteuid():
            return None
        names = {connection.pw_name for connection in pwd.getpwall()}
        return "postgres" if "postgres" in names else "nobody"


class Hole:
    """Proxy of a database at `url` until `hole.shut` is set: then no data pass, and no connection breaks.

    `hole.entered` is set once a client has connected. If `hole.shuts_at_commit` is true, a COMMIT shuts the hole and still
    passes, so that only its confirmation is lost.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._port = int(re.findall(r":(\d+)/", url)[0])
        self.shut = threading.Event()
        self.entered = threading.Event()
        self.shuts_at_commit = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{self._port}/", f":{self._listening.getsockname()[1]}/")

    def __enter__(self) -> Self:
        self._open: list[socket.socket] = [self._listening]
        self._threads: list[threading.Thread] = []
        self._go(self._let_in)
        return self

    def __exit__(self, *_: object) -> None:
        self.shut.clear()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in self._open:
            connection.close()

    def _go(self, work: Callable[..., None], *between: socket.socket) -> None:
        self._threads.append(threading.Thread(target=work, args=between, daemon=True))
        self._threads[-1].start()

    def _let_in(self) -> None:
        with suppress(OSError):
            while True:
                mine = self._listening.accept()[0]
                self.entered.set()
                connection = socket.create_connection(("127.0.0.1", self._port))
                self._open += [mine, connection]
                self._go(self._pass_on, mine, connection)
                self._go(self._pass_on, connection, mine)

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while output := one.recv(65536):
                while self.shut.is_set():
                    time.sleep(0.05)
                if self.shuts_at_commit and b"COMMIT" in output:
                    self.shut.set()
                other.sendall(output)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Yield a temporary cluster; skip if PostgreSQL is not installed."""
    programs = binaries()
    if programs is None:
        pytest.skip(ABSENT)
    folder = Path(tempfile.mkdtemp(prefix="youden-pg-", dir="/tmp"))
    running = Cluster(folder, programs)
    try:
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def place_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the location of a new store, `sqlite` or `postgresql`."""
    if kind == "sqlite":
        yield str(tmp_path / "v.db")
        return
    running: Cluster = request.getfixturevalue("postgres")
    url = running.new()
    yield url
    running.take_back(url)
