"""Imports tables whose columns are called as they like: CSV, TSV, JSONL, Parquet, and datasets of Hugging Face: folders that
`datasets` saved, or a name on the Hub, whose commit is said.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from math import isnan
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pyarrow as pa

from youden.data.atomic import workplace
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
from youden.data.importers.loose_columns import Columns
from youden.data.importers.pool_joiner import ImportedPool, Joiner
from youden.data.pools.tidy_reader import long_fields
from youden.decompression import open_parquet, unpacked
from youden.errors import ConfigError, ImportFormatError
from youden.text.regular_files import check_regular
from youden.text.replacements import Replacements
from youden.text.spreadsheet_cells import GUARDED, without_guards
from youden.types import Agent
from youden.types.pool import Json

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}

Rows = Iterator[tuple[str, Mapping[str, Json]]]


def table_rows(file: Path, replaced: Replacements | None = None) -> Rows:
    """(place, row by column) of a .csv, .tsv, .jsonl or .parquet.

    Raises: ImportFormatError [import-format], [import-csv], [import-json], [import-encoding], [import-not-found].
    """
    match file.suffix.lower():
        case ".csv" | ".tsv":
            return _separated(file, _SEPARATORS[file.suffix.lower()], replaced)
        case ".jsonl" | ".ndjson":
            return read_lines(file, replaced)
        case ".parquet":
            return _parquet(file)
    raise wrong(file, "it is no .csv, .tsv, .jsonl or .parquet. Convert it.", slug="import-format")


def separated(file: Path, separator: str, *, text: str) -> Iterator[tuple[str, list[str]]]:
    """(place, fields) of each record in the file's text, the header first; a blank line is an empty list.

    Raises: ImportFormatError [import-csv].
    """
    said = io.StringIO(text, newline="")
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


def _separated(file: Path, separator: str, replaced: Replacements | None) -> Rows:
    records = separated(file, separator, text=read_text(file, replaced))
    _, header = next(records, ("", []))
    if twice := [name for name, n in Counter(header).items() if n > 1]:
        raise wrong(file, f"the column {twice[0]!r} is there twice. Rename one of them.", slug="import-csv")
    for place, record in records:
        if not record:
            yield place, dict.fromkeys(name for name in header if name != GUARDED)
            continue
        if len(record) != len(header):
            raise wrong(
                place,
                f"it has {len(record)} fields, the header {len(header)}. Put texts with separators in double quotes.",
                slug="import-csv",
            )
        row = dict(zip(header, record, strict=True))
        yield place, without_guards(row) if GUARDED in row else row


def _parquet(file: Path) -> Rows:
    try:
        check_regular(file)
        table = open_parquet(file)
    except (pa.ArrowException, OSError) as error:
        raise wrong(file, f"it is no Parquet file ({error}).", slug="import-format") from error
    with table:
        number = 0
        for chunk in unpacked(table.iter_batches(batch_size=10_000), file):
            for row in chunk.to_pylist():
                number += 1
                yield f"{file}, row {number}", without_nan(row)


def without_nan(row: Mapping[str, Json]) -> dict[str, Json]:
    """Return the row with None for each NaN, which is how tables of floats write a missing value.

    >>> without_nan({"text": float("nan"), "score": 0.5})
    {'text': None, 'score': 0.5}
    """
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in row.items()}


def read_hf_dataset(
    paths: Sequence[Path], /, *, columns: Mapping[str, str], hub: Mapping[str, str] | None = None
) -> ImportedPool:
    """Rows of all splits, of one response or several. Without a column for the agent, each split (or dataset) is an agent,
    called by its folder, and by those above it where two are alike.

    One path that is no place here and is spelled OWNER/NAME is a dataset of the Hub. hub: its split, revision and subset.

    Raises: ImportFormatError for a folder that `save_to_disk` did not write, whose columns do not say item and text, or that
    the Hub does not give [import-hub]; ConfigError [hub-missing] without `datasets`.
    """
    if _names_dataset(paths):
        return _from_hub(paths[0].as_posix(), lambda saved: read_hf_dataset(saved, columns=columns), hub or {})
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
                        for row in map(without_nan, chunk.to_pylist()):
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


def _names_dataset(paths: Sequence[Path]) -> bool:
    """Whether the one path is no place here and spelled as OWNER/NAME."""
    return len(paths) == 1 and not paths[0].exists() and _HUB_NAME.fullmatch(paths[0].as_posix()) is not None


def _from_hub(name: str, read: Callable[[Sequence[Path]], ImportedPool], said: Mapping[str, str]) -> ImportedPool:
    """What `read` makes of the dataset OWNER/NAME, saved in a folder of its own until it is read.

    said: split, revision and subset, where they are said; without them all splits of the newest commit. The commit is pinned
    in every agent's meta as `source`, and so in a run's pool.json.

    Raises: ConfigError [hub-missing] without `datasets`; ImportFormatError [import-hub] with what the Hub said, or as `read`.
    """
    datasets, hub = _hub_library()
    with workplace(Path(gettempdir()), name="youden-hub") as place:
        saved = Path(place, *name.split("/"))
        try:
            commit = hub.HfApi().dataset_info(name, revision=said.get("revision")).sha
            dataset = datasets.load_dataset(
                name, said.get("subset"), split=said.get("split"), revision=commit, cache_dir=Path(place, "cache")
            )
            dataset.save_to_disk(saved)
        except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError, ValueError) as error:
            raise ImportFormatError(
                f"{name}: this dataset could not be brought from the Hub: {' '.join(str(error).split())[:300]}. Check the "
                "name, --split, --revision and --subset, and HF_TOKEN where the dataset is private.",
                slug="import-hub",
            ) from error
        try:
            imported = read([saved])
        except ImportFormatError as error:
            raise ImportFormatError(str(error).replace(str(saved), name), slug=error.slug) from error
    source = f"{name}@{commit}"
    agents = tuple(Agent(agent.id, agent.group, {**agent.meta, "source": source}) for agent in imported.pool.agents)
    notes = (f"{name} is read at commit {commit}", *(note.replace(str(saved), name) for note in imported.notes))
    return replace(imported, pool=replace(imported.pool, agents=agents), notes=notes)


def _hub_library() -> tuple[Any, Any]:
    try:
        import_module("huggingface_hub.errors")
        datasets = import_module("datasets")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "A dataset of the Hub needs the package `datasets`, which is not installed. Install youden[datasets], or save it "
            "by `datasets` yourself and give the folder.",
            slug="hub-missing",
        ) from error
    datasets.disable_progress_bars()
    return datasets, import_module("huggingface_hub")
