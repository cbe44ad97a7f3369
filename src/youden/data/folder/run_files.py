"""The files of a run's folder by name: which command makes each, and what is said when one is missing or does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from youden.errors import RunFolderError
from youden.text.misfits import misfit

T = TypeVar("T")

VERSION: Final = 1
"""Of every file. A reader takes this one alone."""

MADE_BY: Final = {
    "config.yaml": "youden plan CONFIG",
    "pool.json": "youden plan CONFIG",
    "plan.parquet": "youden plan CONFIG",
    "verdicts.parquet": "youden judge CONFIG",
    "rates.parquet": "youden fit RUN",
    "pairs.parquet": "youden fit RUN --engine duckdb",
    "scores.csv": "youden fit RUN",
    "scores_row.csv": "youden fit RUN",
    "holdout.csv": "youden fit RUN",
    "ranking.csv": "youden fit RUN",
    "ranking.json": "youden fit RUN",
    "items.csv": "youden fit RUN",
    "curl.csv": "youden fit RUN",
    "fit.json": "youden fit RUN",
    "signature.json": "youden fit RUN",
    "labels.json": "youden fit RUN --labels FILE",
    "report.html": "youden report RUN",
    "generation.json": "youden generate AGENTS ITEMS --out POOL",
}


def missing(path: Path) -> RunFolderError:
    """The error for a file that is not there."""
    if not path.parent.is_dir():
        return RunFolderError(
            f"There is no run's folder at {path.parent}. Make one with `youden run CONFIG`, or correct the path.",
            slug="run-missing",
        )
    return RunFolderError(
        f"{path.parent} has no {path.name}. Make it with `{_made_by(path)}`; `youden run CONFIG` makes all files.",
        slug="run-file-missing",
    )


def damaged(path: Path, problem: str) -> RunFolderError:
    """The error for a file that is there and not what it has to be. `problem`: what was expected, what arrived."""
    return RunFolderError(
        f"{path}: {problem}. Make it again with `{_made_by(path)}`, or take it out of the folder.",
        slug="run-file-damaged",
    )


def _made_by(path: Path) -> str:
    return MADE_BY.get(path.name, MADE_BY["verdicts.parquet"])  # keys are called after their judge


def read_bytes(path: Path) -> bytes:
    """The file's content. Raises: RunFolderError [run-missing], [run-file-missing]."""
    if not path.is_file():
        raise missing(path)
    return path.read_bytes()


def parse(path: Path, text: bytes, kind: TypeAdapter[T]) -> T:
    """JSON of this version as what `kind` describes.

    Raises: RunFolderError [run-version], [run-file-damaged] naming the place in it.
    """
    try:
        version = json.loads(text)["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(path, f"it is no JSON object with a version ({error})") from error
    if version != VERSION:
        raise RunFolderError(
            f"{path} was written by another youden: it is version {version!r} of this file, and this one "
            f"reads version {VERSION} alone. Nothing was changed. Use the "
            "youden that wrote it, or make the run anew in another folder (--out).",
            slug="run-version",
        )
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        raise damaged(path, misfit(error)) from error
