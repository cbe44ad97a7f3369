"""Imports a folder that Hugging Face `datasets` saved with `save_to_disk`: one split is a table, or an agent.

It reads `state.json`, `dataset_dict.json` and Arrow streams, and downloads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from youden.data.importers.joining import ImportedPool, Joiner
from youden.data.importers.reading import as_list, as_object, inner, read_json, wrong
from youden.data.importers.tables.rows import Columns
from youden.data.importers.telling_apart import suffixes


def read_hf_dataset(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Rows of all splits, of one response or several (`rows.py`, `layouts.py`). Without a column for the agent, each split (or
    dataset) is an agent, called by its folder, and by those above it where two are alike.

    Raises: ImportFormatError for a folder that `save_to_disk` did not write, or whose columns do not say item and text.
    """
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
                    for chunk in stream:
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
