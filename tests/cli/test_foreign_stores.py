"""Test that commands on a folder from another user open no server that its config names without permission."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from commands import Youden, everything_in, wire_judge, write_config, write_small_run
from wire_server import WireServer
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.judging.store.permission import network_stores_allowed
from youden.view.shown import LiveRun


@dataclass
class Listener:
    """Server that accepts connections like PostgreSQL, counts them and closes them."""

    socket: socket.socket
    connections: list[object] = field(default_factory=list)

    @property
    def store(self) -> str:
        return f"postgresql://reader@127.0.0.1:{self.socket.getsockname()[1]}/answers"

    def listen(self) -> None:
        while True:
            try:
                connection, address = self.socket.accept()
            except OSError:
                return
            self.connections.append(address)
            connection.close()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setenv("PGPASSWORD", "password-of-the-user")
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = Listener(server)
        thread = threading.Thread(target=listening.listen, daemon=True)
        thread.start()
        yield listening
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture
def received(tmp_path: Path, youden: Youden, server: WireServer, listener: Listener) -> Path:
    """A judged run whose config names a server as its store, and the config that made it."""
    write_small_run(tmp_path, judge=wire_judge(server.url))
    youden("run", "r.yaml").well()
    for file in (tmp_path / "runs" / "r" / "config.yaml", tmp_path / "r.yaml"):
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
        file.write_text(yaml.safe_dump(config | {"store": listener.store}), encoding="utf-8")
    return tmp_path / "runs" / "r"


READING = [
    ("report",),
    ("report", "--format", "md"),
    ("report", "--against", "runs/r"),
    ("fit",),
    ("compare", "runs/r"),
    ("export", "table.csv"),
    ("label", "--next", "5", "--out", "labels.csv"),
]


@pytest.mark.slow
@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_command_that_reads_a_run_opens_no_server(
    words: tuple[str, ...], received: Path, listener: Listener, youden: Youden
) -> None:
    command, *remainder = words
    youden(command, "runs/r", *remainder).well()
    assert listener.connections == []


@pytest.mark.parametrize("config", ["r.yaml", "runs/r/config.yaml"])
def test_plan_opens_no_server_and_states_that(config: str, received: Path, listener: Listener, youden: Youden) -> None:
    for command in ("plan", "check"):
        ended = youden(command, config).well()
        assert ("[store-not-opened]" in ended.err) == (command == "plan")
    assert listener.connections == []
    assert youden("plan", config, "--export", "asked").refuses("store-not-opened")
    assert youden("cassette", "export", "runs/r", "--out", "c.jsonl").refuses("store-not-opened")
    assert listener.connections == []


def test_the_viewer_opens_no_server(received: Path, listener: Listener) -> None:
    with pytest.raises(ConfigError, match="store-not-opened"):
        LiveRun(RunFolder(received))
    assert listener.connections == []
    with network_stores_allowed():
        LiveRun(RunFolder(received))


def test_a_server_is_opened_if_the_option_is_set(received: Path, listener: Listener, youden: Youden) -> None:
    youden("report", "runs/r", "--open-store").well()
    n = len(listener.connections)
    assert n > 0
    youden("report", "runs/r").well()
    assert len(listener.connections) == n


def test_a_server_that_the_user_named_is_opened(
    received: Path, listener: Listener, youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YOUDEN_STORE", listener.store + "?sslmode=disable")
    youden("report", "runs/r").well()
    n = len(listener.connections)
    assert n > 0
    file = received / "config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump(config | {"store": listener.store + "?hostaddr=127.0.0.1"}), encoding="utf-8")
    youden("report", "runs/r").well()
    assert len(listener.connections) == n


def test_commands_do_not_send_the_password_to_a_server_that_only_a_config_names(
    received: Path, listener: Listener, youden: Youden
) -> None:
    for command in ("run", "judge", "calibrate"):
        assert youden(command, "r.yaml").refuses("store-password"), command
    assert youden("extend", "calls", "runs/r", "20").refuses("store-password")
    for changed in (
        listener.store.replace("reader@", "reader:@"),
        listener.store.replace("reader@", "reader:theirs@") + "?hostaddr=127.0.0.1",
        "postgresql://prod/answers?service=prod",
    ):
        config = yaml.safe_load((received.parents[1] / "r.yaml").read_text(encoding="utf-8"))
        (received.parents[1] / "r.yaml").write_text(yaml.safe_dump(config | {"store": changed}), encoding="utf-8")
        assert youden("run", "r.yaml").refuses("store-password"), changed
    assert listener.connections == []
    assert "[store-unreachable]" in youden("run", "r.yaml", "--store", listener.store).err
    assert listener.connections


def test_a_server_that_an_option_names_may_get_the_password(
    received: Path, listener: Listener, server: WireServer, youden: Youden, tmp_path: Path
) -> None:
    write_config(tmp_path / "second.yaml", **wire_judge(server.url, model="second"))
    second_judge = ("--judge", "second.yaml", "--store", listener.store)
    commands = [
        ("calibrate", "r.yaml", "--store", listener.store),
        ("rejudge", "runs/r", "--calls", "60", *second_judge),
        ("stress", "runs/r", "--attack", "clones", *second_judge),
    ]
    for words in commands:
        ended = youden(*words)
        assert "[store-unreachable]" in ended.err, ended


@pytest.mark.slow
def test_a_command_that_reads_a_run_writes_to_no_file_outside_it(
    received: Path, youden: Youden, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with sqlite3.connect(elsewhere / "private.db") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE private (secret TEXT)")
        connection.execute("INSERT INTO private VALUES ('secret of the user')")
    connection.close()
    before = everything_in(elsewhere)
    for store in (elsewhere / "private.db", elsewhere / "missing.db", f"sqlite:///{elsewhere}/private.db"):
        for file in (received / "config.yaml", tmp_path / "r.yaml"):
            config = yaml.safe_load(file.read_text(encoding="utf-8"))
            file.write_text(yaml.safe_dump(config | {"store": str(store)}), encoding="utf-8")
        youden("report", "runs/r").well()
        youden("plan", "r.yaml").well()
        assert everything_in(elsewhere) == before
        assert [path.name for path in elsewhere.iterdir()] == ["private.db"]
        assert b"secret of the user" not in everything_in(received)
