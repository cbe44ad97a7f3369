"""Running a command as a user does, and small files to run it on."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from batch_server import BatchServer
from small_pools import make_pool
from wire_server import WireServer, running
from youden import cli
from youden.data.pools.pool_reader import write_pool as write_pool_folder
from youden.judging.store.answers import Store, open_store


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    def well(self) -> Ended:
        """Itself, where it ended well."""
        assert self.code == 0, self.err
        return self

    @property
    def said(self) -> Any:
        """The JSON of a command that ended well."""
        return json.loads(self.well().out)

    def refuses(self, slug: str) -> bool:
        """Whether it ended with 2 and an error of this slug."""
        return self.code == 2 and self.err.rstrip().endswith(f"[{slug}]")


Youden = Callable[..., Ended]


@pytest.fixture
def youden(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Youden:
    """Runs one command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["youden", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def server() -> Iterator[WireServer]:
    with running(WireServer()) as started:
        yield started


@pytest.fixture(scope="module")
def one_server() -> Iterator[WireServer]:
    """One address for all tests of a module, for it stands in the judged run that they begin with."""
    with running(WireServer()) as started:
        yield started


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that needs a module's judged run leaves it for the others."""
    return tmp_path_factory.mktemp("begun") / "here"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "v.db") as opened:
        yield opened


@pytest.fixture
def batch_server() -> Iterator[BatchServer]:
    with running(BatchServer()) as started:
        yield started


@pytest.fixture(scope="session")
def mine_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with mine.csv, mine.yaml and their run; `youden demo` has left the run `demo` beside it."""
    place = tmp_path_factory.mktemp("mine")
    write_pool(place / "mine.csv")
    write_config(place / "mine.yaml", pool="mine.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for words in (["run", "mine.yaml", "--quiet"], ["demo", "--out", "demo"]):
            assert CliRunner().invoke(cli.youden, words, catch_exceptions=False).exit_code == 0
    return place


@pytest.fixture
def mine(youden: Youden, mine_once: Path, tmp_path: Path) -> Path:
    """That folder to oneself."""
    shutil.copytree(mine_once, tmp_path, dirs_exist_ok=True)
    return tmp_path


def write_pool(path: Path, *, n_agents: int = 5, n_items: int = 12, group: str = "g") -> None:
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "item", "text", "prompt", "group"])
        for i in range(n_agents):
            for j in range(n_items):
                own = " ".join(f"w{j}x{k}" for k in rng.choice(20, size=4 + 2 * i, replace=False))
                writer.writerow([f"a{i}", f"i{j}", own, f"prompt {j}", group])


def write_config(path: Path, **keys: object) -> None:
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items()), encoding="utf-8")


def write_small_run(folder: Path, name: str = "r", **keys: object) -> None:
    """A pool of five agents on eight items, and the config NAME.yaml of 110 calls on it."""
    write_pool_folder(make_pool(5, 8), folder / "pool")
    write_config(folder / f"{name}.yaml", **{"pool": "pool", "calls": 110, "independent": "pooled:20"} | keys)


def wire_judge(url: str, **keys: object) -> dict[str, Any]:
    """The config of a judge at `url` that needs no key and costs nothing."""
    judge = {"backend": "wire", "model": "m", "base_url": url, "api_key_env": None, "price": 0, "backoff": 0.001}
    return {**judge, **keys}


def everything_in(folder: Path) -> bytes:
    """The content of all files."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
