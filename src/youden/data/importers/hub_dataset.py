"""Brings a dataset from the Hugging Face Hub, by `datasets`, and says of which commit its rows are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from youden.data.importers.pool_joiner import ImportedPool
from youden.errors import ConfigError, ImportFormatError
from youden.nouns import Agent

_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def names_dataset(paths: Sequence[Path]) -> bool:
    """Whether the one path is no place here and spelled as OWNER/NAME."""
    return len(paths) == 1 and not paths[0].exists() and _NAME.fullmatch(paths[0].as_posix()) is not None


def from_hub(name: str, read: Callable[[Sequence[Path]], ImportedPool], said: Mapping[str, str]) -> ImportedPool:
    """What `read` makes of the dataset OWNER/NAME, saved in a folder of its own until it is read.

    said: split, revision and subset, where they are said; without them all splits of the newest commit. The commit is pinned
    in every agent's meta as `source`, and so in a run's pool.json.

    Raises: ConfigError [hub-missing] without `datasets`; ImportFormatError [import-hub] with what the Hub said, or as `read`.
    """
    datasets, hub = _library()
    with TemporaryDirectory(prefix="youden-hub-") as place:
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


def _library() -> tuple[Any, Any]:
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
