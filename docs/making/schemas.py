"""JSON Schemas of a run's files, made from the types that write and read them, for a page of the book.

The page describes which value of a file a schema is about.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from youden.data.folder.csv_tables import RankingFile
from youden.data.folder.rate_tables import PairsMetadata, RatesMetadata
from youden.data.folder.run_files import GATES_FILE, VERSION, GateLedger, PoolFile
from youden.data.folder.run_folder import SignatureFile
from youden.data.folder.table_columns import COLUMNS, REPEATS, VOTE, ranking_columns, vote_column
from youden.data.folder.trial_tables import PlanMetadata, VerdictsMetadata
from youden.pools.first_config import SCHEMA_DIALECT, build_config_schema
from youden.types.columns import TableColumn, columns_of
from youden.types.facts import CHANCE, RankingRow, RunFacts
from youden.types.label_facts import QualityFacts, Validation
from youden.types.pool import Json
from youden.types.results import VarianceFacts

SAID: Final[dict[str, type]] = {
    "plan.parquet": PlanMetadata,
    "verdicts.parquet": VerdictsMetadata,
    "rates.parquet": RatesMetadata,
    "pairs.parquet": PairsMetadata,
}
_AGENT = columns_of(RankingRow)[0]
_NUMBER: Json = {"type": ["number", "null"]}
_TYPES: Mapping[str, Json] = {"text": "string", "key": "string", "whole": "integer"}


def page(_: str) -> str:
    """Return a heading and the schema for each file of a run."""
    return "\n".join(f"## `{name}`\n```json\n{text}```\n" for name, text in build_schemas().items())


def build_schemas() -> dict[str, str]:
    """File of a run → its schema as text; the version, at the end of `$id`, is that of the files."""
    schemas: dict[str, Json] = {
        "config.yaml": build_config_schema(),
        "pool.json": _of(PoolFile),
        "fit.json": _of(RunFacts),
        "signature.json": _of(SignatureFile),
        "ranking.json": _ranking(),
        "labels.json": _of(Validation),
        "quality.json": _of(QualityFacts),
        "variance_components.json": _of(VarianceFacts),
        GATES_FILE: _of(GateLedger),
        **{name: _table(_of(said), COLUMNS[name]) for name, said in SAID.items()},
        **{name: _lines(COLUMNS[name]) for name in ("items.csv", "curl.csv", "quality.csv")},
        "ranking.csv": _lines(COLUMNS["ranking.csv"], required=ranking_columns(())),
        **{name: _lines((_AGENT,), others=_NUMBER) for name in ("scores.csv", "scores_row.csv", "holdout.csv")},
    }
    rows: Any = schemas["verdicts.parquet"]
    rows["properties"]["rows"]["items"]["patternProperties"] = {f"^{VOTE}[0-9]+$": _property(vote_column(1))}
    return {name: _text(name, schema) for name, schema in schemas.items()}


def _of(kind: type) -> dict[str, Any]:
    schema: dict[str, Any] = TypeAdapter(kind).json_schema()
    return schema


def _ranking() -> dict[str, Json]:
    """Each agent has the columns of `ranking.csv` and a chance, each of its standings the columns that standings have."""
    schema, row = _of(RankingFile), columns_of(RankingRow)
    alternative = _object([column for column in row if column.alternative])
    chance = _property(TableColumn("p_best", "share", CHANCE, null=True))
    agent = _object(
        row, more={"alternative_rankings": {"type": "object", "additionalProperties": alternative}, "p_best": chance}
    )
    schema["properties"]["agents"] = {"type": "array", "items": agent}
    return schema


def _object(
    columns: Sequence[TableColumn],
    *,
    required: Sequence[TableColumn] | None = None,
    others: Json = False,
    more: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """required: all where nothing is said; others: of properties that no column names."""
    needed: list[Json] = [column.name for column in (columns if required is None else required)]
    return {
        "type": "object",
        "properties": {**{column.name: _property(column) for column in columns}, **(more or {})},
        "required": [*needed, *(more or {})],
        "additionalProperties": others,
    }


def _property(column: TableColumn) -> dict[str, Json]:
    said: dict[str, Json] = {"description": column.description}
    if column.words or column.kind == "bit":
        return said | {"enum": [*(column.words or (0, 1)), *([None] if column.null else [])]}
    kind = _TYPES.get(column.kind, "number")
    said["type"] = [kind, "null"] if column.null else kind
    if column.kind == "text" and not column.null:
        said["minLength"] = 1
    if column.kind in ("whole", "share"):
        said["minimum"] = 0
    if column.kind == "share":
        said["maximum"] = 1
    return said


def _lines(
    columns: Sequence[TableColumn], *, required: Sequence[TableColumn] | None = None, others: Json = False
) -> dict[str, Json]:
    return {"type": "array", "items": _object(columns, required=required, others=others)}


def _table(metadata: dict[str, Json], columns: Sequence[TableColumn]) -> dict[str, Json]:
    """The types that the metadata names stand at the top, where references look for them."""
    named = metadata.pop("$defs", None)
    return {
        "type": "object",
        "properties": {
            "metadata": metadata,
            "rows": _lines(columns, required=[one for one in columns if one not in REPEATS]),
        },
        "required": ["metadata", "rows"],
        **({"$defs": named} if named else {}),
    }


def _text(name: str, schema: Json) -> str:
    head = {"$schema": SCHEMA_DIALECT, "$id": f"urn:youden:run:{name}:{VERSION}", "title": f"{name} of a youden run"}
    body = schema if isinstance(schema, dict) else {}
    return json.dumps({**body, **head}, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
