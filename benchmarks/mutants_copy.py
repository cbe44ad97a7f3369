"""Copy a checkout, in which `mutants.py` writes mutants, tests them, and records which functions each test enters."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

TIMEOUT = -1000
NO_TESTS = 5

Tests = dict[str, dict[str, Any]]
"""By test id: `functions` that it enters, `seconds`, `passed`, `failed`."""


class Copy:
    """Copy of a checkout with its own environment, in which mutants are written and tested."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.path = folder / "tree"
        listed = subprocess.check_output(["git", "-C", str(tree), "ls-files", "-zco", "--exclude-standard"], text=True)
        for name in filter(None, listed.split("\0")):
            if (tree / name).is_file():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, self.path / name)
        if (tree.parent / "shared").is_dir():
            (folder / "shared").symlink_to(tree.parent / "shared")
        venv.EnvBuilder(symlinks=True).create(self.path / ".venv")
        packages = next((self.path / ".venv" / "lib").glob("python*/site-packages"))
        shutil.copy2(Path(__file__).with_name("mutants_plugin.py"), packages)
        paths = [str(self.path / "src"), *(path for path in sys.path if path.endswith("site-packages"))]
        (packages / "mutants.pth").write_text("\n".join([*paths, "import mutants_plugin", ""]), encoding="utf-8")
        self.records = packages / "mutants_records"
        self.order = folder / "order"
        self.log = folder / "log"
        self.n_written = 0

    def pytest(self, *words: str, timeout: float | None = None, order: list[str] | None = None) -> tuple[int, Tests]:
        """Run pytest; return its exit status and what the plugin recorded. If the time runs out, the status is `TIMEOUT`."""
        shutil.rmtree(self.path / ".hypothesis", ignore_errors=True)
        shutil.rmtree(self.records, ignore_errors=True)
        self.records.mkdir()
        command = [str(self.path / ".venv" / "bin" / "python"), "-m", "pytest", "-q", "-p", "mutants_plugin"]
        command += ["-p", "no:cacheprovider", "--hypothesis-seed=0", *words]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        if order is not None:
            self.order.write_text("\n".join(order), encoding="utf-8")
            environment["MUTANTS_ORDER"] = str(self.order)
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self.path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            status = wait(process, timeout)
        return status, self.read_records()

    def first_failure(self, tests: list[str], *, timeout: float) -> str | None:
        """Run tests in this order until one fails; return its id, a description of another failure, or None."""
        files = dict.fromkeys(test.split("::")[0] for test in tests)
        status, records = self.pytest("-x", *files, timeout=timeout, order=tests)
        failed = [test for test, record in records.items() if record.get("failed")]
        if failed:
            return failed[0]
        ended_well = status in {0, NO_TESTS}
        return None if ended_well else "timeout" if status == TIMEOUT else f"pytest ended with {status}"

    def read_records(self) -> Tests:
        """Return the records that processes left, one for each test."""
        tests: Tests = {}
        for file in self.records.iterdir():
            for line in file.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                merged = tests.setdefault(record.pop("test"), {"functions": []})
                functions = {*merged["functions"], *record.pop("functions")}
                merged.update(record, functions=sorted(functions))
        return tests

    @contextmanager
    def replaced(self, file: Path, start: int, end: int, text: str) -> Iterator[None]:
        """Replace bytes of a file. Each version has a different modification time, so that no stale bytecode is used."""
        path = self.path / file
        source = path.read_bytes()
        self._write(path, source[:start] + text.encode() + source[end:])
        yield
        self._write(path, source)

    def _write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        self.n_written += 1
        os.utime(path, (self.n_written, self.n_written))


def wait(process: subprocess.Popen[bytes], timeout: float | None) -> int:
    """Wait for a process; interrupt it if the time runs out, so that fixtures stop their servers, and kill it if need be."""
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return TIMEOUT
