"""One process at a time leads a run: a row in its store, which a killed process lets go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from youden.judging.store.answers import open_store
from youden.judging.store.team import Team


@contextmanager
def asked_alone(store: str | Path, *, run: str) -> Iterator[Team]:
    """Lead `run` in `store`; other runs may use the store meanwhile, and workers help.

    Raises: JudgeError [run-busy] where another process leads it.
    """
    with open_store(store) as opened, Team(opened, run, leads=True) as team:
        yield team


@contextmanager
def asked_together(store: str | Path, *, run: str) -> Iterator[Team]:
    """Help whoever asks `run` into `store`, now or later."""
    with open_store(store) as opened, Team(opened, run, leads=False) as team:
        yield team
