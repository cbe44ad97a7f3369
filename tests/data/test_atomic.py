"""What a write that fails says and leaves behind."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from youden.data.atomic import replacing, replacing_folder, replacing_together

FULL = Path("/dev/full")


def made(path: Path) -> AbstractContextManager[Path]:
    path.mkdir()
    return replacing_together(path, ["a"])


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("place", [replacing, replacing_folder, made])
def test_a_full_disk_is_said_with_the_file_and_leaves_what_was_there(place: Callable, tmp_path: Path) -> None:
    path = tmp_path / "table"
    with pytest.raises(OSError, match="table") as caught, place(path), FULL.open("wb", buffering=0) as file:
        file.write(b"row")
    assert caught.value.errno == errno.ENOSPC
    assert not path.exists() or not list(path.iterdir())


def test_a_folder_that_goes_meanwhile_is_said_and_not_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def write_as_it_goes() -> None:
        with made(folder) as fresh:
            (fresh / "a").write_bytes(b"row")
            shutil.rmtree(folder)

    with pytest.raises(OSError, match="deleted or moved") as caught:
        write_as_it_goes()
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(folder))
    with pytest.raises(FileNotFoundError), replacing_together(folder, ["a"]):
        pass
    assert not folder.exists()
