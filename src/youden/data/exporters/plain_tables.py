"""Write a pool as one tidy table, or a run's tables, as CSV, JSONL, Parquet or DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from youden.data.atomic import replacing
from youden.data.exporters.export_files import Exported, ExportOptions, check_files
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.table_columns import COLUMNS
from youden.data.pools.pool_reader import responses_of
from youden.errors import ConfigError, RunFolderError
from youden.text.spreadsheet_cells import GUARDED, guard, is_number, is_run_by_spreadsheets
from youden.types import Pool

ENDINGS = (".csv", ".jsonl", ".parquet", ".duckdb")


def export_tables(source: Pool | RunFolder, out: Path, /, *, terms: ExportOptions) -> Exported:
    """A pool as one tidy table, which `youden run` reads again as .csv or .parquet; a run as ranking, items and trials."""
    tables = {"responses": pool_table(source)} if isinstance(source, Pool) else run_tables(source)
    check_files(files_of(out, tables), terms)
    return Exported(
        write_tables(out, tables, raw_cells=terms.raw_cells), {name: len(table) for name, table in tables.items()}
    )


def pool_table(pool: Pool) -> pa.Table:
    """Columns agent, item, text, prompt, group, and repeat where agents have several; a row for each response, by agent, then
    item, then repeat."""
    rows = [
        (agent.id, item.id, text, item.prompt, agent.group, repeat) for agent, item, repeat, text in responses_of(pool)
    ]
    names = ("agent", "item", "text", "prompt", "group", "repeat")
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    kinds = dict.fromkeys(names, pa.string()) | {"repeat": pa.int32()}
    table = pa.table({name: pa.array(column, kinds[name]) for name, column in zip(names, columns, strict=True)})
    return table if pool.further is not None else table.drop_columns("repeat")


def run_tables(folder: RunFolder) -> dict[str, pa.Table]:
    """ranking, items and trials (verdicts, else rates) of a run's folder, as far as they are there.

    Raises: RunFolderError [run-nothing] where none is.
    """
    tables = {name: _sheet(folder.file(file)) for name, file in _SHEETS.items() if folder.has(file)}
    for file in ("verdicts.parquet", "rates.parquet"):
        if folder.has(file):
            tables["trials"] = _plain(pq.read_table(folder.file(file)))
            break
    if not tables:
        raise RunFolderError(
            f"{folder.path} holds no ranking, items or trials. Give a pool, or the folder of a judged run.",
            slug="run-nothing",
        )
    return tables


def files_of(path: Path, tables: Mapping[str, pa.Table]) -> tuple[Path, ...]:
    """Where tables are written by the ending of `path`.

    .duckdb: one database with a table each. Else one file each: `path` itself for one table, `<stem>-<table>` for several.

    Raises: ConfigError [export-format].
    """
    if path.suffix not in ENDINGS:
        raise ConfigError(
            f"'{path}' ends in {path.suffix!r}. Give a file that ends in {', '.join(ENDINGS)}.", slug="export-format"
        )
    if path.suffix == ".duckdb" or len(tables) == 1:
        return (path,)
    return tuple(path.with_stem(f"{path.stem}-{name}") for name in tables)


def write_tables(path: Path, tables: Mapping[str, pa.Table], *, raw_cells: bool = False) -> tuple[Path, ...]:
    """Write tables as `files_of` places them; returns the files.

    raw_cells: whether CSV files keep texts unchanged that begin as formulas do.

    Raises: ConfigError [export-format]; [duckdb-missing] where `duckdb` is not installed.
    """
    files = files_of(path, tables)
    if path.suffix == ".duckdb":
        _write_duckdb(path, tables)
        return files
    if path.suffix == ".csv" and not raw_cells:
        tables = {name: _guarded(table) for name, table in tables.items()}
    for file, table in zip(files, tables.values(), strict=True):
        with replacing(file) as fresh:
            _WRITERS[path.suffix](table, fresh)
    return files


def _guarded(table: pa.Table) -> pa.Table:
    """Guard the texts that a spreadsheet would run; a column `guarded` names their columns, if there are any."""
    guarded = [""] * len(table)
    for name in table.column_names:
        if not pa.types.is_string(table.schema.field(name).type):
            continue
        texts = table.column(name).to_pylist()
        guarded_rows = [
            row for row, text in enumerate(texts) if text and is_run_by_spreadsheets(text) and not is_number(text)
        ]
        for row in guarded_rows:
            texts[row] = guard(texts[row])
            guarded[row] += f" {name}" if guarded[row] else name
        if guarded_rows:
            table = table.set_column(table.column_names.index(name), name, pa.array(texts, pa.string()))
    return table.append_column(GUARDED, pa.array(guarded)) if any(guarded) else table


_TYPES = {"text": pa.string(), "whole": pa.int64(), "number": pa.float64()}
_SHEETS = {"ranking": "ranking.csv", "items": "items.csv"}


def _sheet(path: Path) -> pa.Table:
    """A CSV by the types of its columns: ids are texts, whatever they look like, and only an empty field is none."""
    types = {column.name: _TYPES[column.kind] for column in COLUMNS[path.name]}
    options = pc.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
    return pc.read_csv(path, convert_options=options, parse_options=pc.ParseOptions(newlines_in_values=True))


def _plain(table: pa.Table) -> pa.Table:
    """Dictionary columns as strings, without our metadata."""
    columns = {
        field.name: table.column(field.name).cast(pa.string())
        if pa.types.is_dictionary(field.type)
        else table.column(field.name)
        for field in table.schema
    }
    return pa.table(columns)


def _write_jsonl(table: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        for chunk in table.to_batches(max_chunksize=10_000):
            file.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in chunk.to_pylist())


_WRITERS = {
    ".csv": pc.write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": partial(pq.write_table, compression="zstd"),
}


def _write_duckdb(path: Path, tables: Mapping[str, pa.Table]) -> None:
    try:
        duckdb = import_module("duckdb")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "DuckDB files are written by the package `duckdb`, which is not installed. Install youden[duckdb], or export "
            "Parquet, which DuckDB reads as it is.",
            slug="duckdb-missing",
        ) from error
    with replacing(path) as fresh, duckdb.connect(str(fresh)) as connection:
        for name, table in tables.items():
            connection.from_arrow(table).create(name)
