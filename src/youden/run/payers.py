"""Under which name the books of a run's store know what it paid."""

from __future__ import annotations

import os
from pathlib import Path

from youden.data.folder.run_config import RunConfig
from youden.judging.asking.terms import Books
from youden.judging.store.sqlite import path_of
from youden.text.printable import is_file


def books_of(config: RunConfig, *, calibrating: bool = False) -> Books:
    """A run is known by where its folder lies beside its store, so that both can be moved together; in a store on a server by the
    folder's name, so that it is the same run on every host. A calibration pays under a name of its own, which the run of the same
    config looks up."""
    payer = _beside(config)
    tries = f"{payer} (calibration)"
    return Books(tries) if calibrating else Books(payer, tried_by=tries)


def _beside(config: RunConfig) -> str:
    folder = config.folder.resolve()
    if not is_file(config.store_place):
        return folder.name
    store = path_of(config.store_place).resolve().parent
    try:
        return Path(os.path.relpath(folder, store)).as_posix()
    except ValueError:  # two drives
        return folder.as_posix()
