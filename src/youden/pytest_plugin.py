"""Replay judge calls in tests of users, by the marker and the fixture `youden_cassette`.

Large modules are imported only in a test that uses a cassette, so that other tests start fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from youden.judging.offline.tape import CassetteRecorder

MODES = ("none", "once", "new", "all")
MARKER = "youden_cassette"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--youden-cassettes MODE`, which overrides the modes of markers."""
    parser.getgroup("youden").addoption(
        "--youden-cassettes",
        choices=MODES,
        help="none: replay only; once: record if there is no file; new: record missing answers; all: record all answers again",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f'{MARKER}(name, mode="none"): answer judge calls from cassettes/NAME.jsonl in the folder of the test '
        f"(modes: {', '.join(MODES)})",
    )


@pytest.fixture
def youden_cassette(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CassetteRecorder]:
    """Answer judge calls from the file cassettes/NAME.jsonl in the folder of the test.

    The attributes `n_played` and `n_recorded` count the calls. The default store is temporary: an answer from the store of the
    project needs no call, and would be missing in the file.
    """
    from youden.judging.offline.tape import CassetteRecorder, use_cassette

    marker_name, marker_mode = _parse_marker(request.node.get_closest_marker(MARKER))
    name = marker_name or re.sub(r"[^\w.-]+", "-", request.node.name)
    mode = request.config.getoption("--youden-cassettes") or marker_mode
    recorder = CassetteRecorder(request.path.parent / "cassettes" / f"{name}.jsonl", mode=mode)
    # a temporary store: answers from the store of the project would be missing in the cassette
    store = tmp_path_factory.mktemp("youden") / "answers.db"
    with use_cassette(recorder) as cassette, pytest.MonkeyPatch.context() as patch:
        patch.setenv("YOUDEN_STORE", str(store))
        yield cassette


@pytest.fixture(autouse=True)
def _use_marked_cassette(request: pytest.FixtureRequest) -> None:
    """Use the fixture `youden_cassette` in every test that has the marker."""
    if request.node.get_closest_marker(MARKER) is not None:
        request.getfixturevalue(MARKER)


def _parse_marker(marker: pytest.Mark | None) -> tuple[str | None, str]:
    """Return the name and the mode of a marker; None and "none" without a marker."""
    if marker is None:
        return None, "none"

    def youden_cassette(name: str | None = None, *, mode: str = "none") -> tuple[str | None, str]:
        return name, mode

    return youden_cassette(*marker.args, **marker.kwargs)
