"""JSON Schemas of a run's files, made from the types that write and read them, and a file as the value that its schema describes.

A .json or .yaml file is what is in it. A .csv is an array of its lines, each an object by its header: an empty field is null,
and a field of a column of numbers is a number. A .parquet, or a folder of parts, is an object: `metadata` is the JSON under the
key `youden` of its schema, `rows` an array of its rows.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import yaml
from pydantic import TypeAdapter

from youden.data.folder.rate_tables import PairsSaid, RatesSaid
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_files import FILE, VERSION, LedgerFile, PoolFile
from youden.data.folder.run_folder import SignatureFile
from youden.data.folder.sheets import CURL, ITEMS, RANKING, STANDING, STANDINGS, TARGET, RankingFile
from youden.data.folder.trial_tables import ARMS, PlanSaid, VerdictsSaid
from youden.nouns import MISSING_REASONS, Json, RunFacts, Target, Validation

DIALECT = "https://json-schema.org/draft/2020-12/schema"

ENDING = ".schema.json"
_TEXTS = ("agent", "group", "item", "link", "target")

_ID: Json = {"type": "string", "minLength": 1}
_ID_OR_NONE: Json = {"type": ["string", "null"]}
_NUMBER: Json = {"type": ["number", "null"]}
_COUNT: Json = {"type": "integer", "minimum": 0}
_COUNT_OR_NONE: Json = {"type": ["integer", "null"], "minimum": 0}
_SHARE: Json = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_ARM: Json = {"enum": [*ARMS]}
_WHOLE = ("rank_low", "rank_high", "n_trials", "place_low", "place_high")

_TRIAL: dict[str, Json] = {
    "item": _ID,
    "first": _ID,
    "second": _ID,
    "arm": _ARM,
    "other_item": _ID_OR_NONE,
    "replicate": _COUNT,
    "slot": _COUNT_OR_NONE,
}
_ANSWER: dict[str, Json] = {
    "answer": _SHARE,
    "hard": {"enum": [0, 1, None]},
    "missing": {"enum": [*MISSING_REASONS[1:], None]},
    "key": _ID_OR_NONE,
    "tokens_in": _COUNT_OR_NONE,
    "tokens_out": _COUNT_OR_NONE,
    "usd": _NUMBER,
    "seconds": _NUMBER,
    "served": _ID_OR_NONE,
}
_RATE: dict[str, Json] = {
    **dict.fromkeys(("item", "first", "second"), _ID),
    "tpr": _SHARE,
    "fpr": _SHARE,
    **dict.fromkeys(("n_paired", "n_independent", "n_missing"), _COUNT),
}
_PAIR: dict[str, Json] = {
    **dict.fromkeys(("first", "second"), _ID),
    **dict.fromkeys(("agreement", "mean", "error", "n"), _NUMBER),
    "above": {"enum": [0, 1, None]},
}


def build_schemas() -> dict[str, str]:
    """File of a run → its schema as text; the version, at the end of `$id`, is that of the files."""
    schemas: dict[str, Json] = {
        "config.yaml": _of(RunConfig),
        "pool.json": _of(PoolFile),
        "fit.json": _of(RunFacts),
        "signature.json": _of(SignatureFile),
        "ranking.json": _of(RankingFile),
        "labels.json": _of(Validation),
        FILE: _of(LedgerFile),
        "plan.parquet": _table(_of(PlanSaid), _TRIAL),
        "verdicts.parquet": _table(_of(VerdictsSaid), _TRIAL | _ANSWER),
        "rates.parquet": _table(_of(RatesSaid), _RATE),
        "pairs.parquet": _table(_of(PairsSaid), _PAIR),
        "ranking.csv": _lines(_ranking_columns(), required=RANKING),
        "items.csv": _lines({"item": _ID, "difficulty": _NUMBER, "n_trials": _COUNT}, required=ITEMS, others=True),
        "curl.csv": _lines({name: _ID if name == "link" else _NUMBER for name in CURL}, required=CURL),
        **{
            name: _lines({"agent": _ID}, required=["agent"], others=_NUMBER)
            for name in ("scores.csv", "scores_row.csv", "holdout.csv")
        },
    }
    return {name: _text(name, schema) for name, schema in schemas.items()}


def _of(kind: type) -> dict[str, Json]:
    schema: dict[str, Json] = TypeAdapter(kind).json_schema()
    return schema


def _ranking_columns() -> dict[str, Json]:
    columns = {name: _COUNT if name in _WHOLE else _NUMBER for name in RANKING}
    beside = {f"{one}_{name}": _COUNT_OR_NONE if name in _WHOLE else _NUMBER for one in STANDINGS for name in STANDING}
    return columns | {"agent": _ID, "group": _ID_OR_NONE, TARGET: {"enum": [*get_args(Target)]}} | beside


def _lines(columns: Mapping[str, Json], *, required: Sequence[str], others: Json = False) -> dict[str, Json]:
    row: Json = {
        "type": "object",
        "properties": dict(columns),
        "required": [*required],
        "additionalProperties": others,
    }
    return {"type": "array", "items": row}


def _table(metadata: dict[str, Json], columns: Mapping[str, Json]) -> dict[str, Json]:
    """The types that the metadata names stand at the top, where references look for them."""
    named = metadata.pop("$defs", None)
    return {
        "type": "object",
        "properties": {"metadata": metadata, "rows": _lines(columns, required=[*columns])},
        "required": ["metadata", "rows"],
        **({"$defs": named} if named else {}),
    }


def _text(name: str, schema: Json) -> str:
    head = {"$schema": DIALECT, "$id": f"urn:youden:run:{name}:{VERSION}", "title": f"{name} of a youden run"}
    body = schema if isinstance(schema, dict) else {}
    return json.dumps({**body, **head}, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


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
