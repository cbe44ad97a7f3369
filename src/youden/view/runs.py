"""The runs a viewer shows: found once by name, looked at again for their state.

A request names a run and never a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError

State = Literal["fitted", "under way", "unfinished"]


@dataclass(frozen=True)
class Runs:
    """Named runs. root: a folder whose subfolders are runs, looked through anew each time; given: runs named by the user."""

    root: Path | None
    given: tuple[Path, ...] = ()

    def all(self) -> dict[str, RunFolder]:
        """Every run by name, in alphabetical order."""
        paths = list(self.given)
        if self.root is not None and self.root.is_dir():
            paths += [path for path in self.root.iterdir() if _is_run(path)]
        found: dict[str, RunFolder] = {}
        for path in sorted(paths, key=lambda path: path.resolve().name):
            name = path.resolve().name
            number = 2
            while name in found:
                name, number = f"{path.resolve().name} ({number})", number + 1
            found[name] = RunFolder(path)
        return found


def find_runs(paths: Sequence[Path], *, root: Path) -> Runs:
    """The runs at `paths`, or all runs in `root` where none is named.

    Raises: RunFolderError [run-missing] for a path that is no run.
    """
    for path in paths:
        if not _is_run(path):
            raise RunFolderError(
                f"There is no run's folder at {path}. Make one with `youden run CONFIG`, or correct the path.",
                slug="run-missing",
            )
    return Runs(None, tuple(paths)) if paths else Runs(root)


def state_of(folder: RunFolder) -> State:
    """Fitted: it has a ranking of its answers; under way: it is planned and has a store to follow; else unfinished."""
    if folder.has("fit.json") and folder.has("ranking.csv") and not _is_newer(folder, "verdicts.parquet", "fit.json"):
        return "fitted"
    if folder.has("plan.parquet") and folder.has("config.yaml"):
        return "under way"
    return "unfinished"


def stamp(folder: RunFolder) -> tuple[float, ...]:
    """Changes when the files behind a report do."""
    names = ("fit.json", "ranking.csv", "signature.json", "verdicts.parquet", "labels.json")
    return tuple(folder.file(name).stat().st_mtime if folder.has(name) else 0.0 for name in names)


def _is_run(path: Path) -> bool:
    return RunFolder(path).has("pool.json")


def _is_newer(folder: RunFolder, name: str, than: str) -> bool:
    return folder.has(name) and folder.file(name).stat().st_mtime > folder.file(than).stat().st_mtime
