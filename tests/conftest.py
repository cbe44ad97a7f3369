"""What every test gets: no network beyond this machine, a scrubbed environment, and the places of real data."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from allowed_servers import allow_test_servers
from youden.judging.call import secrets

pytest_plugins = ["commands", "postgres"]

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: the workers of pytest-xdist share the cores already
# Containers often forbid bytecode: then every worker and every command that a test starts compiles all it imports again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
gc.set_threshold(10_000)  # what collecting made stays to the end, and is looked through a tenth as often
# How long an example takes says how busy the machine is. Few examples here: .ci/long draws them again under eight seeds.
settings.register_profile("unhurried", deadline=None, max_examples=50)
settings.load_profile("unhurried")


def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: one worker more than there are cores, for a third of the tests' time is waiting for servers."""
    return (os.cpu_count() or 1) + 1


ROOT = Path(__file__).parents[1]
# Servers of the tests speak plain HTTP. A client that reads one certificate is made in a tenth of the time of one that reads all.
os.environ["SSL_CERT_FILE"] = str(ROOT / "tests" / "data" / "nobody.pem")
SHARED = ROOT.parent / "shared"
NO_SHARED = "real judge data (../shared/peer-prediction) is not beside this checkout"
NO_LITELLM = "litellm is not installed"
NO_LOOP = "mounting a loop device needs root on Linux"
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


@pytest.fixture(scope="session", autouse=True)
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's configuration directory, in which servers of this machine were allowed to get the keys of tests."""
    folder = tmp_path_factory.mktemp("configuration")
    allow_test_servers(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def scrubbed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key, proxy or setting of the person who runs the tests must not change what they say."""
    for name in set(os.environ) - KEPT:
        if not name.startswith(("PYTEST_", "PYTHON", "COV_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(secrets, "_registered", secrets.KnownSecrets())  # no error lacks what another test kept secret


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `posix` on Windows."""
    for item in items if os.name == "nt" else ():
        if item.get_closest_marker("posix"):
            item.add_marker(pytest.mark.skip(reason="needs signals, a POSIX shell, symbolic links or named pipes"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the paper's real judge data, read in place."""
    if not (SHARED / "peer-prediction").is_dir():
        pytest.skip(NO_SHARED)
    return SHARED


@pytest.fixture(scope="session")
def peer_prediction(shared: Path) -> Path:
    return shared / "peer-prediction"


@pytest.fixture(scope="session")
def field_notes() -> Path:
    return ROOT / "datasets" / "field-notes"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """With YOUDEN_REQUIRE_ALL=1 a skip is a failure: it hides a missing install step. Data cannot be installed, nor can the right
    to mount, and litellm not beside openai 3: .ci/run has an environment for it."""
    outcome = yield
    report = outcome.get_result()
    excused = hasattr(report, "wasxfail") or any(
        why in str(report.longrepr) for why in (NO_SHARED, NO_LITELLM, NO_LOOP)
    )
    if os.environ.get("YOUDEN_REQUIRE_ALL") == "1" and report.skipped and not excused:
        report.outcome = "failed"
        report.longrepr = f"skipped under YOUDEN_REQUIRE_ALL=1: {report.longrepr}"
