"""Export a pool as one tidy table, or the tables of a run, as CSV, JSONL, Parquet or DuckDB.

The suffix of the file selects the kind of file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from youden.data.atomic import atomic_write
from youden.data.exporters.export_files import Exported, ExportOptions, check_output_files
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.table_columns import COLUMNS
from youden.data.pools.pool_reader import iter_responses
from youden.errors import ConfigError, RunFolderError
from youden.text.spreadsheet_cells import GUARDED, guard, is_number, is_run_by_spreadsheets
from youden.types import Pool
from youden.types.arguments import check_unused

SUFFIXES = (".csv", ".jsonl", ".parquet", ".duckdb")


def export_tables(source: Pool | RunFolder, out: Path, /, *, options: ExportOptions) -> Exported:
    """Export a pool as one table of its responses, or a run as the tables of its ranking, items and trials.

    The .csv or .parquet file of a pool can be read by `youden run`.

    Parameters
    ----------
    source : Pool or RunFolder
        Pool or run to export.
    out : Path
        File to write; its suffix, one of `SUFFIXES`, selects the format. Several tables are written to files
        `<stem>-<table>` next to it, or to one .duckdb.
    options : ExportOptions
        Options of the export. `organization` is an error. `raw_cells` is an error unless the suffix is .csv.

    Returns
    -------
    Exported
        The files, the number of rows by table, and a note if the ranking is that of an unfinished run.

    Raises
    ------
    ConfigError
        [export-format]: if the suffix of `out` is unknown; [export-exists]: if a file exists and may not be replaced;
        [option-unused]: if an option has no effect; [duckdb-missing]: if the package `duckdb` is needed and not installed.
    RunFolderError
        [run-empty]: if the run has no tables.
    """
    raw_cells = options.raw_cells and out.suffix.lower() != ".csv"
    check_unused(f"The export to {out}", organization=options.organization, raw_cells=raw_cells)
    tables = {"responses": pool_to_table(source)} if isinstance(source, Pool) else read_run_tables(source)
    check_output_files(table_paths(out, tables), options)
    paths = write_tables(out, tables, raw_cells=options.raw_cells)

    notes: tuple[str, ...] = ()
    if isinstance(source, RunFolder) and source.has("fit.json"):
        partial_facts = source.read_facts().partial
        notes = () if partial_facts is None else (partial_facts.text,)
    return Exported(paths, {name: len(table) for name, table in tables.items()}, notes)


def pool_to_table(pool: Pool) -> pa.Table:
    """Convert a pool to a table with one row per response.

    pool : pool to convert

    Returns a table, sorted by agent, item and repeat. The columns are agent, item, text, prompt, group and, if agents have
    several responses to an item, repeat.
    """
    names = ("agent", "item", "text", "prompt", "group", "repeat")
    columns: dict[str, list[str | int | None]] = {name: [] for name in names}
    for agent, item, repeat, text in iter_responses(pool):
        columns["agent"].append(agent.id)
        columns["item"].append(item.id)
        columns["text"].append(text)
        columns["prompt"].append(item.prompt)
        columns["group"].append(agent.group)
        columns["repeat"].append(repeat)

    fields = [(name, pa.string()) for name in ("agent", "item", "text", "prompt", "group")]
    if pool.repeat_texts is not None:
        fields.append(("repeat", pa.int32()))
    return pa.table([columns[name] for name, _ in fields], schema=pa.schema(fields))


def read_run_tables(folder: RunFolder) -> dict[str, pa.Table]:
    """Read the tables of a run, for export.

    folder : the run

    Returns up to three tables by name:

    - `ranking`: the ranking of the agents
    - `items`: the items
    - `trials`: the judge's answer to each trial; without such answers, the rates (TPR and FPR) of each pair of agents on each
      item

    Raises: RunFolderError [run-empty] if the run has none of these tables.
    """
    tables = {}
    for name, file in _CSV_FILES.items():
        if folder.has(file):
            tables[name] = _read_csv(folder.file(file))
    for file in ("verdicts.parquet", "rates.parquet"):
        if folder.has(file):
            tables["trials"] = _to_plain_table(pq.read_table(folder.file(file)))
            break
    if not tables:
        raise RunFolderError(
            f"{folder.path} has no ranking, items or trials. Pass a pool, or the folder of a judged run.",
            slug="run-empty",
        )
    return tables


def table_paths(path: Path, tables: Mapping[str, pa.Table]) -> tuple[Path, ...]:
    """Return the files to which tables are written.

    path : file of the export
    tables : tables by name

    Returns only `path` if it is a .duckdb or if there is one table; otherwise one file `<stem>-<table>` per table.

    Raises: ConfigError [export-format] if the suffix is unknown.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"The suffix of '{path}' is unknown: got {path.suffix!r}. Pass a file that ends in {', '.join(SUFFIXES)}.",
            slug="export-format",
        )
    if path.suffix.lower() == ".duckdb" or len(tables) == 1:
        return (path,)
    return tuple(path.with_stem(f"{path.stem}-{name}") for name in tables)


def write_tables(path: Path, tables: Mapping[str, pa.Table], *, raw_cells: bool = False) -> tuple[Path, ...]:
    """Write tables to files, and replace existing ones.

    path : file of the export. Its suffix, in upper or lower case, selects the format: .csv, .jsonl, .parquet or .duckdb. A
        missing folder is created.
    tables : tables by name
    raw_cells : whether texts that a spreadsheet would run as formulas are written unchanged to CSV files. If False, they begin
        with an apostrophe, and a table with such texts gets a column `guarded`, which lists the changed columns of each row. No
        effect on other formats.

    Returns the written files. All tables of a .duckdb, or a single table, are in `path`. Otherwise, there is one file
    `<stem>-<name>` with the same suffix per table, in the order of `tables`.

    Raises: ConfigError [export-format] if the suffix is unknown; [duckdb-missing] if the package `duckdb` is needed and not
        installed. OSError if a file cannot be written.
    """
    files = table_paths(path, tables)
    if path.suffix.lower() == ".duckdb":
        _write_duckdb(path, tables)
        return files
    if path.suffix.lower() == ".csv" and not raw_cells:
        tables = {name: _guard_formulas(table) for name, table in tables.items()}
    for file, table in zip(files, tables.values(), strict=True):
        with atomic_write(file) as tmp_path:
            _WRITERS[path.suffix.lower()](table, tmp_path)
    return files


def _guard_formulas(table: pa.Table) -> pa.Table:
    """Change the texts that a spreadsheet would run as formulas, so that the spreadsheet shows them as texts.

    Returns a copy of the table with an additional column `guarded`, which lists the changed columns of each row; the same table
    if no text has to be changed.
    """
    guarded_columns: list[list[str]] = [[] for _ in range(len(table))]  # names of the changed columns, by row
    text_columns = [field.name for field in table.schema if pa.types.is_string(field.type)]
    for name in text_columns:
        texts = table.column(name).to_pylist()
        formula_rows = [row for row, text in enumerate(texts) if _is_formula(text)]
        for row in formula_rows:
            texts[row] = guard(texts[row])
            guarded_columns[row].append(name)
        if formula_rows:
            position = table.column_names.index(name)
            table = table.set_column(position, name, pa.array(texts, pa.string()))

    if not any(guarded_columns):
        return table
    joined_names = [" ".join(names) for names in guarded_columns]
    return table.append_column(GUARDED, pa.array(joined_names))


def _is_formula(text: str | None) -> bool:
    """Return whether a spreadsheet would run a text as a formula; a number such as −1 is shown as it is."""
    return text is not None and is_run_by_spreadsheets(text) and not is_number(text)


_TYPES = {"text": pa.string(), "whole": pa.int64(), "number": pa.float64()}
_CSV_FILES = {"ranking": "ranking.csv", "items": "items.csv"}


def _read_csv(path: Path) -> pa.Table:
    """Read a CSV file of a run with the declared types, so that an id such as 007 stays a text.

    Only an empty field is null.
    """
    types = {column.name: _TYPES[column.kind] for column in COLUMNS[path.name]}
    options = pc.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
    return pc.read_csv(path, convert_options=options, parse_options=pc.ParseOptions(newlines_in_values=True))


def _to_plain_table(table: pa.Table) -> pa.Table:
    """Return a table that other tools can read: dictionary columns become plain strings, and metadata are left out."""
    columns = {}
    for field in table.schema:
        column = table.column(field.name)
        columns[field.name] = column.cast(pa.string()) if pa.types.is_dictionary(field.type) else column
    return pa.table(columns)


def _write_jsonl(table: pa.Table, path: Path) -> None:
    """Write a table as JSON Lines, one object per row."""
    with path.open("wb") as file:
        for chunk in table.to_batches(max_chunksize=10_000):
            file.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in chunk.to_pylist())


_WRITERS = {
    ".csv": pc.write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": partial(pq.write_table, compression="zstd"),
}


def _write_duckdb(path: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write tables to a DuckDB file; raise ConfigError [duckdb-missing] if the package `duckdb` is not installed."""
    try:
        duckdb = import_module("duckdb")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "DuckDB files are written by the package `duckdb`, which is not installed. Install youden[duckdb], or export "
            "Parquet, which DuckDB can read.",
            slug="duckdb-missing",
        ) from error
    with atomic_write(path) as tmp_path, duckdb.connect(str(tmp_path)) as connection:
        for name, table in tables.items():
            connection.from_arrow(table).create(name)
