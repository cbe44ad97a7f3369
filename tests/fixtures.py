"""Define the fixtures of more than one test module: commands, servers, stores, run folders and real data.

`conftest.py` registers this module as a plugin. The name of each fixture of the tests is unique.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from allowed_servers import allow_test_servers
from batch_server import BatchServer
from commands import Ended, Youden, write_config, write_pool_table
from postgres import Cluster, cluster, place_of
from run_folders import write_judged
from skip_reasons import NO_SHARED
from wire_server import WireServer, running, well_behaved
from youden import cli
from youden.data.folder.run_folder import RunFolder
from youden.judging.call import secrets
from youden.judging.store.answers import Store, open_store
from youden.types import Verdicts

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
KEPT = {
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "USERPROFILE",
    "VIRTUAL_ENV",
    "OPENBLAS_NUM_THREADS",
    "SSL_CERT_FILE",
    "XDG_CONFIG_HOME",
    "YOUDEN_LLAMA_PYTHON",
    "YOUDEN_REQUIRE_ALL",
    "YOUDEN_INSPECT_PYTHON",
    "YOUDEN_LM_EVAL_PYTHON",
    "YOUDEN_PROMPTFOO",
    "YOUDEN_HELM_PYTHON",
    "YOUDEN_EEE_PYTHON",
    "YOUDEN_EXPORT_PYTHON",
    "YOUDEN_AXE",
}
"""Environment variables that tests inherit."""


@pytest.fixture(scope="session", autouse=True)
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Create a configuration directory that allows servers of this machine to receive the keys of tests."""
    folder = tmp_path_factory.mktemp("configuration")
    allow_test_servers(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def scrubbed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove keys, proxies and settings of the user from the environment."""
    for name in set(os.environ) - KEPT:
        if not name.startswith(("PYTEST_", "PYTHON", "COV_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(secrets, "_registered", secrets.KnownSecrets())  # secrets of another test would be redacted


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder with the real judge data of the paper."""
    if not (SHARED / "peer-prediction").is_dir():
        pytest.skip(NO_SHARED)
    return SHARED


@pytest.fixture(scope="session")
def peer_prediction(shared: Path) -> Path:
    return shared / "peer-prediction"


@pytest.fixture(scope="session")
def field_notes() -> Path:
    return ROOT / "datasets" / "field-notes"


@pytest.fixture
def youden(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Youden:
    """Run one command in an empty folder."""
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
    """Run one server for all tests of a module, because their common judged run contains its address."""
    with running(WireServer()) as started:
        yield started


@pytest.fixture
def reset_server(one_server: WireServer) -> WireServer:
    """Return the server of the module with its default behavior and without counted requests."""
    one_server.behave, one_server.n_requests = well_behaved, 0
    return one_server


@pytest.fixture
def batch_server() -> Iterator[BatchServer]:
    with running(BatchServer()) as started:
        yield started


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """Run one cluster for all tests of this process; each test uses a `new()` database."""
    with cluster() as started:
        yield started


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the location of a new store, of either kind."""
    with place_of(request.param, request, tmp_path) as location:
        yield location


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "v.db") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """An empty run folder."""
    return RunFolder(tmp_path / "run")


@pytest.fixture
def judged_verdicts(folder: RunFolder) -> Verdicts:
    """Return the verdicts of a judged run in `folder`."""
    return write_judged(folder)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the first test that needs the judged run of a module stores it."""
    return tmp_path_factory.mktemp("begun") / "here"


@pytest.fixture(scope="session")
def mine_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with mine.csv, mine.yaml, their run, and the run `demo` of `youden demo`."""
    path = tmp_path_factory.mktemp("mine")
    write_pool_table(path / "mine.csv")
    write_config(path / "mine.yaml", pool="mine.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for words in (["run", "mine.yaml", "--quiet"], ["demo", "--out", "demo"]):
            assert CliRunner().invoke(cli.youden, words, catch_exceptions=False).exit_code == 0
    return path


@pytest.fixture
def mine(youden: Youden, mine_once: Path, tmp_path: Path) -> Path:
    """Copy the folder of `mine_once`."""
    shutil.copytree(mine_once, tmp_path, dirs_exist_ok=True)
    return tmp_path
