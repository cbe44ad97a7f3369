"""Import data sets of Hugging Face: folders that `datasets` saved, or a data set on the Hub.

The commit of a data set on the Hub is recorded in every agent, so that the import can be reproduced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from youden.data.atomic import scratch_directory
from youden.data.importers.foreign_files import import_error
from youden.data.importers.pool_joiner import ImportedPool
from youden.data.importers.table_files import find_saved_splits
from youden.data.importers.table_import import read_table
from youden.errors import ConfigError, ImportFormatError
from youden.types import Pool
from youden.types.arguments import check_unused

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def read_hf_dataset(
    paths: Sequence[Path], /, *, columns: Mapping[str, str], hub: Mapping[str, str] | None = None
) -> ImportedPool:
    """Import data sets of Hugging Face: the rows of all splits are read as tables.

    Parameters
    ----------
    paths : sequence of Path
        Folders that `save_to_disk` wrote, or one name OWNER/NAME on the Hub.
    columns : mapping of str to str
        Column by role, as for `read_table`. Without a column for the agent, each split is an agent.
    hub : mapping of str to str, optional
        Options for a data set on the Hub: `split`, `revision` and `subset`. Default: all splits of the newest revision.

    Returns
    -------
    ImportedPool
        The pool, and notes on what was left out. The meta of agents from the Hub states the name and commit of the data set.

    Raises
    ------
    ImportFormatError
        [import-format]: if `save_to_disk` did not write a folder; [import-hub]: if the data set cannot be loaded from
        the Hub; [import-columns]: if the role of a column is not clear.
    ConfigError
        [hub-missing]: if the package `datasets` is not installed; [option-unused]: if `hub` is set for a folder.
    """
    name = paths[0].as_posix()
    is_on_hub = len(paths) == 1 and not paths[0].exists() and _HUB_NAME.fullmatch(name)
    if is_on_hub:
        return _read_from_hub(name, columns, hub or {})
    check_unused(f"The folder {name}", **(hub or {}))
    for path in paths:
        if not find_saved_splits(path):
            raise import_error(
                path,
                "it has neither state.json nor dataset_dict.json, so `save_to_disk` did not write it. Pass a folder that "
                "`save_to_disk` wrote; for files of rows, set the format `table`.",
                slug="import-format",
            )
    return read_table(paths, columns=columns)


def _read_from_hub(name: str, columns: Mapping[str, str], options: Mapping[str, str]) -> ImportedPool:
    """Import the data set OWNER/NAME from the Hub.

    columns : columns that the user named, by role, such as {"text": "answer"}
    options : `subset`, `split` and `revision` of the data set, if the user set them

    Returns the pool; `source` in the meta of each agent is OWNER/NAME@COMMIT.

    Raises: ImportFormatError [import-hub] if the data set cannot be loaded; the errors of `read_table` for its rows.
    """
    with scratch_directory(Path(gettempdir()), name="youden-hub") as directory:
        saved = Path(directory, *name.split("/"))
        commit = _save_dataset(name, saved, cache=Path(directory, "cache"), options=options)
        try:
            imported = read_table([saved], columns=columns)
        except ImportFormatError as error:
            message = str(error).replace(str(saved), name)  # the user knows the name, not the temporary folder
            raise ImportFormatError(message, slug=error.slug) from error

    commit_note = f"{name} was read at commit {commit}"
    notes = [note.replace(str(saved), name) for note in imported.notes]
    pool = _add_source(imported.pool, f"{name}@{commit}")
    return replace(imported, pool=pool, notes=(commit_note, *notes))


def _add_source(pool: Pool, source: str) -> Pool:
    """Return a copy of a pool whose agents state in their `meta`, under the key "source", where they come from.

    source : name and commit of a data set of the Hub, as OWNER/NAME@COMMIT
    """
    agents = [replace(agent, meta={**agent.meta, "source": source}) for agent in pool.agents]
    return replace(pool, agents=tuple(agents))


def _save_dataset(name: str, folder: Path, *, cache: Path, options: Mapping[str, str]) -> str:
    """Save a data set of the Hub to a folder, and return its commit.

    name : OWNER/NAME of the data set
    folder : folder for the splits, in the format of `save_to_disk`
    cache : folder for the downloaded files
    options : the keys `subset` (default: the only one), `split` (default: all) and `revision` (default: the newest), if
        the user set them

    Raises: ImportFormatError [import-hub] if the data set cannot be loaded; ConfigError [hub-missing] if the package
        `datasets` is not installed.
    """
    datasets, hub = _import_hub_libraries()
    try:
        commit: str = hub.HfApi().dataset_info(name, revision=options.get("revision")).sha
        dataset = datasets.load_dataset(
            name,
            options.get("subset"),
            split=options.get("split"),
            revision=commit,
            cache_dir=cache,
        )
        dataset.save_to_disk(folder)
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError, ValueError) as error:
        message = " ".join(str(error).split())[:300]
        raise ImportFormatError(
            f"{name}: the dataset cannot be loaded from the Hub: {message}. Check the "
            "name, --split, --revision and --subset, and HF_TOKEN if the dataset is private.",
            slug="import-hub",
        ) from error
    return commit


def _import_hub_libraries() -> tuple[Any, Any]:
    """Import the packages `datasets` and `huggingface_hub`; raise ConfigError [hub-missing] if they are not installed."""
    try:
        import_module("huggingface_hub.errors")
        datasets = import_module("datasets")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "A dataset on the Hub needs the package `datasets`, which is not installed. Install youden[datasets], or save the "
            "dataset with `datasets` and pass the folder.",
            slug="hub-missing",
        ) from error
    datasets.disable_progress_bars()
    return datasets, import_module("huggingface_hub")
