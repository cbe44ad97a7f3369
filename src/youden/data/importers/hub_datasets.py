"""Imports data sets of Hugging Face: folders that `datasets` saved, or a name on the Hub, whose commit is recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from youden.data.atomic import workplace
from youden.data.importers.foreign_files import wrong
from youden.data.importers.pool_joiner import ImportedPool
from youden.data.importers.table_files import saved_splits
from youden.data.importers.table_import import read_table
from youden.errors import ConfigError, ImportFormatError
from youden.types import Agent

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def read_hf_dataset(
    paths: Sequence[Path], /, *, columns: Mapping[str, str], hub: Mapping[str, str] | None = None
) -> ImportedPool:
    """Import the rows of all splits, as tables. Without a column for the agent, each split (or data set) is an agent.

    Parameters
    ----------
    paths : sequence of Path
        Folders that `save_to_disk` wrote, or one name OWNER/NAME on the Hub.
    columns : mapping
        Role to column.
    hub : mapping, optional
        Split, revision and subset of a data set on the Hub.

    Raises
    ------
    ImportFormatError
        [import-format] if `save_to_disk` did not write a folder; [import-hub] if the Hub does not deliver the data set.
    ConfigError
        [hub-missing] without the package `datasets`.
    """
    if len(paths) == 1 and not paths[0].exists() and _HUB_NAME.fullmatch(paths[0].as_posix()):
        return _read_from_hub(paths[0].as_posix(), columns, hub or {})
    for path in paths:
        if not saved_splits(path):
            raise wrong(
                path,
                "there is neither state.json nor dataset_dict.json, so it is no folder of `save_to_disk`. "
                "Give that folder; for files of rows use the format `table`.",
                slug="import-format",
            )
    return read_table(paths, columns=columns)


def _read_from_hub(name: str, columns: Mapping[str, str], options: Mapping[str, str]) -> ImportedPool:
    """Import the data set OWNER/NAME; the commit becomes the `source` in the meta of every agent."""
    datasets, hub = _hub_library()
    with workplace(Path(gettempdir()), name="youden-hub") as place:
        saved = Path(place, *name.split("/"))
        try:
            commit = hub.HfApi().dataset_info(name, revision=options.get("revision")).sha
            dataset = datasets.load_dataset(
                name, options.get("subset"), split=options.get("split"), revision=commit, cache_dir=Path(place, "cache")
            )
            dataset.save_to_disk(saved)
        except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError, ValueError) as error:
            raise ImportFormatError(
                f"{name}: this dataset could not be brought from the Hub: {' '.join(str(error).split())[:300]}. Check the "
                "name, --split, --revision and --subset, and HF_TOKEN where the dataset is private.",
                slug="import-hub",
            ) from error
        try:
            imported = read_table([saved], columns=columns)
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
