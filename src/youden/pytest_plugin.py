"""Replays judge calls in a user's own tests: the marker and the fixture `youden_cassette`.

Nothing of weight is imported before a test asks for a cassette.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from youden.judging.offline.tape import Tape

MODES = ("none", "once", "new", "all")
MARKER = "youden_cassette"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--youden-cassettes MODE`, which beats every marker's mode."""
    parser.getgroup("youden").addoption(
        "--youden-cassettes",
        choices=MODES,
        help="none: play only; once: record where there is no file; new: record what is not there; all: record anew",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    config.addinivalue_line(
        "markers",
        f'{MARKER}(name, mode="none"): answer judge calls from cassettes/NAME.jsonl beside the test '
        f"(modes: {', '.join(MODES)})",
    )


@pytest.fixture
def youden_cassette(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tape]:
    """Answers judge calls from cassettes/NAME.jsonl beside the test; `n_played` and `n_recorded` count them.

    Answers in the project's store would be missing in the cassette, so the default store is a temporary one.
    """
    from youden.judging.offline.tape import Tape, inserted

    name, mode = _asked(request.node.get_closest_marker(MARKER))
    name = name or re.sub(r"[^\w.-]+", "-", request.node.name)
    mode = request.config.getoption("--youden-cassettes") or mode
    tape = Tape(request.path.parent / "cassettes" / f"{name}.jsonl", mode=mode)
    with inserted(tape) as inside, pytest.MonkeyPatch.context() as patch:
        patch.setenv("YOUDEN_STORE", str(tmp_path_factory.mktemp("youden") / "answers.db"))
        yield inside


@pytest.fixture(autouse=True)
def _youden_cassette_of_the_marker(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker(MARKER) is not None:
        request.getfixturevalue(MARKER)


def _asked(marker: pytest.Mark | None) -> tuple[str | None, str]:
    """(name, mode) of a marker, (None, 'none') without one."""
    if marker is None:
        return None, "none"

    def youden_cassette(name: str | None = None, *, mode: str = "none") -> tuple[str | None, str]:
        return name, mode

    return youden_cassette(*marker.args, **marker.kwargs)
