"""Build the JSON Schemas of a run's files, for a page of the book, from the types that write and read the files.

The page states which value of a file each schema describes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from youden.data.folder.csv_tables import RankingFile
from youden.data.folder.pool_summary import PoolFile
from youden.data.folder.rate_tables import PairsMetadata, RatesMetadata
from youden.data.folder.run_files import GATES_FILE, VERSION, GateLedger
from youden.data.folder.run_folder import SignatureFile
from youden.data.folder.table_columns import COLUMNS, REPEATS, VOTE, ranking_columns, vote_column
from youden.data.folder.trial_tables import PlanMetadata, VerdictsMetadata
from youden.pools.first_config import SCHEMA_DIALECT, build_config_schema
from youden.types.columns import TableColumn, columns_of
from youden.types.facts import CHANCE, RankingRow, RunFacts
from youden.types.label_facts import QualityFacts, Validation
from youden.types.pool import Json
from youden.types.results import VarianceFacts

METADATA: Final[dict[str, type]] = {
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
    """Return the schema of each file of a run as text; `$id` ends with the version of the files."""
    schemas: dict[str, Json] = {
        "config.yaml": build_config_schema(),
        "pool.json": _build_schema(PoolFile),
        "fit.json": _build_schema(RunFacts),
        "signature.json": _build_schema(SignatureFile),
        "ranking.json": _build_ranking_schema(),
        "labels.json": _build_schema(Validation),
        "quality.json": _build_schema(QualityFacts),
        "variance_components.json": _build_schema(VarianceFacts),
        GATES_FILE: _build_schema(GateLedger),
        **{name: _build_table_schema(_build_schema(metadata), COLUMNS[name]) for name, metadata in METADATA.items()},
        **{name: _build_rows_schema(COLUMNS[name]) for name in ("items.csv", "curl.csv", "quality.csv")},
        "ranking.csv": _build_rows_schema(COLUMNS["ranking.csv"], required=ranking_columns(())),
        **{
            name: _build_rows_schema((_AGENT,), others=_NUMBER)
            for name in ("scores.csv", "scores_row.csv", "holdout.csv")
        },
    }
    rows: Any = schemas["verdicts.parquet"]
    rows["properties"]["rows"]["items"]["patternProperties"] = {
        f"^{VOTE}[0-9]+$": _build_property_schema(vote_column(1))
    }
    return {name: _to_text(name, schema) for name, schema in schemas.items()}


def _build_schema(kind: type) -> dict[str, Any]:
    schema: dict[str, Any] = TypeAdapter(kind).json_schema()
    return schema


def _build_ranking_schema() -> dict[str, Json]:
    """Build the schema of ranking.json: the columns of ranking.csv, p_best, and the alternative rankings of each agent."""
    schema, row = _build_schema(RankingFile), columns_of(RankingRow)
    alternative = _build_object_schema([column for column in row if column.alternative])
    p_best = _build_property_schema(TableColumn("p_best", "share", CHANCE, null=True))
    agent = _build_object_schema(
        row, more={"alternative_rankings": {"type": "object", "additionalProperties": alternative}, "p_best": p_best}
    )
    schema["properties"]["agents"] = {"type": "array", "items": agent}
    return schema


def _build_object_schema(
    columns: Sequence[TableColumn],
    *,
    required: Sequence[TableColumn] | None = None,
    others: Json = False,
    more: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """Build the schema of a row; by default all columns are required. `others` is the schema of all other properties."""
    needed: list[Json] = [column.name for column in (columns if required is None else required)]
    return {
        "type": "object",
        "properties": {**{column.name: _build_property_schema(column) for column in columns}, **(more or {})},
        "required": [*needed, *(more or {})],
        "additionalProperties": others,
    }


def _build_property_schema(column: TableColumn) -> dict[str, Json]:
    schema: dict[str, Json] = {"description": column.description}
    if column.words or column.kind == "bit":
        return schema | {"enum": [*(column.words or (0, 1)), *([None] if column.null else [])]}
    kind = _TYPES.get(column.kind, "number")
    schema["type"] = [kind, "null"] if column.null else kind
    if column.kind == "text" and not column.null:
        schema["minLength"] = 1
    if column.kind in ("whole", "share"):
        schema["minimum"] = 0
    if column.kind == "share":
        schema["maximum"] = 1
    return schema


def _build_rows_schema(
    columns: Sequence[TableColumn], *, required: Sequence[TableColumn] | None = None, others: Json = False
) -> dict[str, Json]:
    return {"type": "array", "items": _build_object_schema(columns, required=required, others=others)}


def _build_table_schema(metadata: dict[str, Json], columns: Sequence[TableColumn]) -> dict[str, Json]:
    """Build the schema of metadata and rows; the definitions of the metadata move to the top, where references point to."""
    definitions = metadata.pop("$defs", None)
    return {
        "type": "object",
        "properties": {
            "metadata": metadata,
            "rows": _build_rows_schema(columns, required=[column for column in columns if column not in REPEATS]),
        },
        "required": ["metadata", "rows"],
        **({"$defs": definitions} if definitions else {}),
    }


def _to_text(name: str, schema: Json) -> str:
    head = {"$schema": SCHEMA_DIALECT, "$id": f"urn:youden:run:{name}:{VERSION}", "title": f"{name} of a youden run"}
    body = schema if isinstance(schema, dict) else {}
    return json.dumps({**body, **head}, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
