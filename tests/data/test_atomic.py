"""What a write that fails says and leaves behind."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from youden.data.atomic import replacing, replacing_folder, replacing_together

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("place", [replacing, replacing_folder, lambda path: replacing_together(path, ["a"])])
def test_a_full_disk_is_said_with_the_file_and_leaves_what_was_there(place: Callable, tmp_path: Path) -> None:
    path = tmp_path / "table"
    with pytest.raises(OSError, match="table") as caught, place(path), FULL.open("wb", buffering=0) as file:
        file.write(b"row")
    assert caught.value.errno == errno.ENOSPC
    assert not path.exists() or not list(path.iterdir())
