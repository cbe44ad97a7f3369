"""What an export is told, and what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Exported:
    """What an export wrote: its files or its folder, rows by table, and what a reader has to know."""

    files: tuple[Path, ...]
    rows: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Terms:
    """overwrite: whether files that are there are replaced; a folder never is.

    organization: who made the run, in formats that ask.
    """

    overwrite: bool = False
    organization: str | None = None
