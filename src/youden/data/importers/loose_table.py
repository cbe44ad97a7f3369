"""Imports tables whose columns are called as they like: CSV, TSV, JSONL, Parquet, and folders that Hugging Face
`datasets` saved.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from youden.data.importers.foreign_files import (
    as_list,
    as_object,
    inner,
    read_json,
    read_lines,
    read_text,
    suffixes,
    wrong,
)
from youden.data.importers.hub_dataset import from_hub, names_dataset
from youden.data.importers.loose_columns import Columns
from youden.data.importers.pool_joiner import ImportedPool, Joiner
from youden.data.pools.tidy_reader import long_fields
from youden.nouns import Json
from youden.unpacking import open_parquet, unpacked

_SEPARATORS = {".csv": ",", ".tsv": "\t"}

Rows = Iterator[tuple[str, Mapping[str, Json]]]


def table_rows(file: Path) -> Rows:
    """(place, row by column) of a .csv, .tsv, .jsonl or .parquet.

    Raises: ImportFormatError [import-format], [import-csv], [import-json], [import-encoding], [import-not-found].
    """
    match file.suffix.lower():
        case ".csv" | ".tsv":
            return _separated(file, _SEPARATORS[file.suffix.lower()])
        case ".jsonl" | ".ndjson":
            return read_lines(file)
        case ".parquet":
            return _parquet(file)
    raise wrong(file, "it is no .csv, .tsv, .jsonl or .parquet. Convert it.", slug="import-format")


def separated(file: Path, separator: str, *, text: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """(place, fields) of each record, the header first; a blank line is an empty list. text: the file's, where it was read.

    Raises: ImportFormatError [import-csv], and as `read_text`.
    """
    said = io.StringIO(read_text(file) if text is None else text, newline="")
    start = 1
    with long_fields():
        reader = csv.reader(said, delimiter=separator, strict=True)
        try:
            for record in reader:
                place = f"{file}, line {start}"
                start = reader.line_num + 1
                yield place, record
        except csv.Error as error:
            raise wrong(
                f"{file}, line {start}", f"it is no CSV ({error}). Close every double quote.", slug="import-csv"
            ) from error


def _separated(file: Path, separator: str) -> Rows:
    records = separated(file, separator)
    _, header = next(records, ("", []))
    if twice := [name for name in dict.fromkeys(header) if header.count(name) > 1]:
        raise wrong(file, f"the column {twice[0]!r} is there twice. Rename one of them.", slug="import-csv")
    for place, record in records:
        if not record:
            yield place, dict.fromkeys(header)
            continue
        if len(record) != len(header):
            raise wrong(
                place,
                f"it has {len(record)} fields, the header {len(header)}. Put texts with separators in double quotes.",
                slug="import-csv",
            )
        yield place, dict(zip(header, record, strict=True))


def _parquet(file: Path) -> Rows:
    try:
        table = open_parquet(file)
    except (pa.ArrowException, OSError) as error:
        raise wrong(file, f"it is no Parquet file ({error}).", slug="import-format") from error
    with table:
        number = 0
        for chunk in unpacked(table.iter_batches(batch_size=10_000), file):
            for row in chunk.to_pylist():
                number += 1
                yield f"{file}, row {number}", row


def read_hf_dataset(
    paths: Sequence[Path], /, *, columns: Mapping[str, str], hub: Mapping[str, str] | None = None
) -> ImportedPool:
    """Rows of all splits, of one response or several. Without a column for the agent, each split (or dataset) is an agent,
    called by its folder, and by those above it where two are alike.

    One path that is no place here and is spelled OWNER/NAME is a dataset of the Hub. hub: its split, revision and subset.

    Raises: ImportFormatError for a folder that `save_to_disk` did not write, or whose columns do not say item and text; as
    `from_hub`.
    """
    if names_dataset(paths):
        return from_hub(paths[0].as_posix(), lambda saved: read_hf_dataset(saved, columns=columns), hub or {})
    joiner = Joiner(paths[0].stem)
    folders = [split for path in paths for split in _splits(path)]
    for folder, name in zip(folders, suffixes(folders), strict=True):
        state = as_object(read_json(folder / "state.json"), folder / "state.json")
        said: Columns | None = None
        number = 0
        for entry in as_list(state.get("_data_files"), folder / "state.json"):
            file = folder / str(inner(entry, "filename"))
            try:
                with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as stream:
                    for chunk in unpacked(stream, file):
                        for row in chunk.to_pylist():
                            number += 1
                            said = said or Columns.of(folder, row, columns=columns, agent=name, joiner=joiner)
                            said.add(row, joiner, place=f"{folder}, row {number}")
            except (pa.ArrowException, OSError) as error:
                raise wrong(
                    file, f"it is no Arrow stream ({error}). Save the dataset again.", slug="import-format"
                ) from error
    return joiner.pool()


def _splits(path: Path) -> list[Path]:
    if (path / "state.json").is_file():
        return [path]
    if (path / "dataset_dict.json").is_file():
        names = inner(read_json(path / "dataset_dict.json"), "splits")
        return [path / str(name) for name in as_list(names, path / "dataset_dict.json")]
    raise wrong(
        path,
        "there is neither state.json nor dataset_dict.json, so it is no folder of `save_to_disk`. "
        "Give that folder; for files of rows use the format `table`.",
        slug="import-format",
    )
