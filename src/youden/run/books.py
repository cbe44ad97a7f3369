"""What a run paid: under which name its store's books know it, and what its folder says it paid before there were books."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from youden.data.folder.run_config import RunConfig
from youden.judging.asking.terms import Books
from youden.judging.store.answers import Payment, Store
from youden.judging.store.sqlite import path_of
from youden.nouns import Verdicts
from youden.text.printable import is_file


def books_of(config: RunConfig) -> Books:
    """A run is known by where its folder lies beside its store, so that both can be moved together; in a store on a server by the
    folder's name, so that it is the same run on every host."""
    payer = _beside(config)
    return Books(payer, tried_by=_tries(payer))


def books_of_calibration(config: RunConfig) -> Books:
    """A calibration pays under a name of its own, which the run of the same config looks up."""
    return Books(_tries(_beside(config)))


def carry(earlier: Verdicts, store: Store, books: Books) -> Verdicts | None:
    """Enter what a folder's verdicts cost into books that know nothing of their run, as 0.1.0 kept none.

    Returns `earlier` where that cannot be entered, for a jury's verdicts do not say what each judge was paid for.
    """
    if earlier.usd is None or store.paid(books.payer):
        return None
    if earlier.key is None:
        return earlier
    for row in np.flatnonzero(np.nan_to_num(earlier.usd, nan=1.0)).tolist():
        n_in, n_out = [0 if column is None else int(column[row]) for column in (earlier.tokens_in, earlier.tokens_out)]
        seconds = 0.0 if earlier.seconds is None else float(earlier.seconds[row])
        store.pay(books.payer, earlier.key[row].decode(), Payment(float(earlier.usd[row]), n_in, n_out, seconds))
    store.flush()
    return None


def with_costs(result: Verdicts, earlier: Verdicts) -> Verdicts:
    """What the rows of `earlier`, the first ones, cost before is added to what they cost now."""

    def both(name: str) -> np.ndarray | None:
        now, before = getattr(result, name), getattr(earlier, name)
        if now is not None and before is not None:
            now = now.copy()
            now[: len(before)] += before
        return cast("np.ndarray | None", now)

    changed: Any = {name: both(name) for name in ("tokens_in", "tokens_out", "usd", "seconds")}
    return replace(result, **changed)


def _beside(config: RunConfig) -> str:
    folder = config.folder.resolve()
    if not is_file(config.store_place):
        return folder.name
    store = path_of(config.store_place).resolve().parent
    try:
        return Path(os.path.relpath(folder, store)).as_posix()
    except ValueError:  # two drives
        return folder.as_posix()


def _tries(payer: str) -> str:
    return f"{payer} (calibration)"
