"""Settings of the process in which tests run, and skips that count as failures; the fixtures are in `fixtures.py`."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from memory_folder import MEMORY_FOLDER, can_hold_tests
from skip_reasons import NO_LITELLM, NO_LOOP, NO_SHARED

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: the workers of pytest-xdist share the cores already
# Containers often forbid bytecode: then every worker and every command that a test starts compiles all it imports again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
gc.set_threshold(10_000)  # what collecting made stays to the end, and is looked through a tenth as often
# A command flushes about fifty files to the disk, and tests would wait for that. Files in memory need no flush.
if "TMPDIR" not in os.environ and can_hold_tests(MEMORY_FOLDER):
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY_FOLDER
# How long an example takes says how busy the machine is. Few examples here: .ci/long draws them again under eight seeds.
settings.register_profile("unhurried", deadline=None, max_examples=50)
settings.load_profile("unhurried")
# Servers of the tests speak plain HTTP. A client that reads one certificate is made in a tenth of the time of one that reads all.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "data" / "nobody.pem")


def pytest_configure(config: pytest.Config) -> None:
    """Register the fixtures. `pytest_plugins` cannot: it takes `fixtures` for a plugin of pytest."""
    import fixtures

    config.pluginmanager.register(fixtures, "fixtures of youden")


def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: one worker more than there are cores, for a third of the tests' time is waiting for servers."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `posix` on Windows."""
    for item in items if os.name == "nt" else ():
        if item.get_closest_marker("posix"):
            item.add_marker(pytest.mark.skip(reason="needs signals, a POSIX shell, symbolic links or named pipes"))


def pytest_collection_finish() -> None:
    """Exclude modules and collected tests, which stay to the end, from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail skipped tests if YOUDEN_REQUIRE_ALL=1: a skip hides a missing install step.

    Data cannot be installed, nor can the right to mount, nor litellm next to openai 3: .ci/run has an environment for it.
    """
    report = yield
    excused = hasattr(report, "wasxfail") or any(
        reason in str(report.longrepr) for reason in (NO_SHARED, NO_LITELLM, NO_LOOP)
    )
    if os.environ.get("YOUDEN_REQUIRE_ALL") == "1" and report.skipped and not excused:
        report.outcome = "failed"
        report.longrepr = f"skipped under YOUDEN_REQUIRE_ALL=1: {report.longrepr}"
    return report
