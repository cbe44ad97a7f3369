"""Finds the JSON Schemas that are shipped, and says how a file of a run is laid out for them.

A .json or .yaml file is what is in it. A .csv is an array of its lines, each an object by its header: an empty field is null,
and a field of a column of numbers is a number. A .parquet, or a folder of parts, is an object: `metadata` is the JSON under the
key `youden` of its schema, `rows` an array of its rows.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

ENDING = ".schema.json"
_HERE = Path(__file__).parent
_TEXTS = ("agent", "group", "item", "link", "target")


def schema_file(name: str) -> Path | None:
    """The schema of a run's file by the file's name; None where it has none."""
    file = _HERE / f"{name}{ENDING}"
    return file if file.is_file() else None


def described() -> tuple[str, ...]:
    """The files of a run that have a schema."""
    return tuple(sorted(file.name.removesuffix(ENDING) for file in _HERE.glob(f"*{ENDING}")))


def content(path: Path) -> Any:
    """A file of a run as the value that its schema describes."""
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    if path.suffix == ".yaml":
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [{name: _field(name, field) for name, field in line.items()} for line in csv.DictReader(file)]
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    said = (path / "_parts.json").read_bytes() if path.is_dir() else None
    metadata = json.loads(said)["said"] if said else (pq.read_schema(path).metadata or {})[b"youden"]
    return {
        "metadata": json.loads(metadata),
        "rows": [row for file in files for row in pq.read_table(file).to_pylist()],
    }


def _field(name: str, field: str) -> str | float | None:
    if field == "":
        return None
    if name in _TEXTS:
        return field
    return int(field) if field.lstrip("-").isdigit() else float(field)
