"""Pytest plugin of `mutants.py`: records the functions that each test enters, and runs chosen tests in a given order.

It is copied into the environment of a copied checkout, where every interpreter imports it at its start, so that the processes
which a test starts are recorded too. Functions report themselves: `mutants.py` inserts a call of `_mutants_enter` into each.
PYTEST_DONT_REWRITE: it is imported before pytest could rewrite its assertions.
"""

from __future__ import annotations

import atexit
import builtins
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

RECORDS = Path(__file__).with_name("mutants_records")
ORDER = os.environ.get("MUTANTS_ORDER")
"""File with the ids of the tests to run, one per line, in this order."""
STARTED_BY = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
"""The test that started this process, if any."""

entered: set[str] = set()
builtins._mutants_enter = entered.add  # type: ignore[attr-defined]
outcomes: list[tuple[str, float]] = []


def write_record(test: str, **facts: object) -> None:
    """Append the functions entered, and `facts`, to the records of this process."""
    if RECORDS.is_dir():
        record = json.dumps({"test": test, "functions": sorted(entered), **facts})
        with (RECORDS / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(record + "\n")


if STARTED_BY:
    atexit.register(write_record, STARTED_BY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that `MUTANTS_ORDER` lists, in its order."""
    if ORDER:
        by_id = {item.nodeid: item for item in items}
        ids = Path(ORDER).read_text(encoding="utf-8").split("\n")
        items[:] = [by_id[test] for test in ids if test in by_id]


def pytest_runtest_logstart() -> None:
    """Clear the records of earlier tests."""
    entered.clear()
    outcomes.clear()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the outcome of a phase of a test, unless it was run by another process, a worker of pytest-xdist."""
    if not hasattr(report, "node"):
        outcomes.append((report.outcome, report.duration))


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Write the record of a test."""
    results = {outcome for outcome, _ in outcomes}
    if results:
        seconds = sum(duration for _, duration in outcomes)
        write_record(nodeid, passed=results == {"passed"}, failed="failed" in results, seconds=seconds)
