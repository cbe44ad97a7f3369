"""Provide the schemas of a run's files as built for the documentation, and the files as values to validate."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from jsonschema import Draft202012Validator

from book import making
from youden.data.folder.table_columns import COLUMNS
from youden.text.yaml_text import read_yaml
from youden.types.columns import TableColumn, columns_of
from youden.types.facts import RankingRow

SCHEMAS: dict[str, str] = making("schemas").build_schemas()


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(SCHEMAS[name]))


def content(path: Path) -> Any:
    """Return a file of a run as the value that its schema describes."""
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    if path.suffix == ".yaml":
        return read_yaml(path)
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            columns = {column.name: column for column in (columns_of(RankingRow)[0], *COLUMNS.get(path.name, ()))}
            return [
                {name: _field(columns.get(name), field) for name, field in line.items()}
                for line in csv.DictReader(file)
            ]
    metadata = (pq.read_schema(path).metadata or {})[b"youden"]
    return {"metadata": json.loads(metadata), "rows": pq.read_table(path).to_pylist()}


def _field(column: TableColumn | None, field: str) -> str | float | None:
    if field == "":
        return None
    if column is not None and column.kind == "text":
        return field
    return int(field) if field.lstrip("-").isdigit() else float(field)
