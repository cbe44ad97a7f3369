"""Make the paths in a run config absolute or relative, and find a judge file near a config."""

from __future__ import annotations

import os
import re
from pathlib import Path

from youden.data.folder.extension_steps import POOLS
from youden.resources import find_resource_folders


def make_relative(key: str, value: object, folder: Path) -> object:
    """Return the value of a config key, with a path of the user converted to one relative to `folder`.

    Paths of shipped pools and judges, and values of other keys, stay unchanged.
    """
    if not _is_local_path(key, value, Path()):
        return value
    return Path(os.path.relpath(str(value), folder)).as_posix()


def resolve_paths(key: str, value: object, folder: Path) -> object:
    """Return the value of a config key, with all paths in it converted to start at the current directory.

    `folder` is the folder of the config file, at which the paths start before. Other values stay unchanged.
    """
    if key == "extensions" and isinstance(value, list):
        return [resolve_paths("step", step, folder) for step in value]
    if key in ("step", "unfinished") and isinstance(value, dict):
        key_by_name = dict.fromkeys(POOLS, "pool") | {"step": "step"}
        return {name: resolve_paths(key_by_name.get(name, ""), member, folder) for name, member in value.items()}
    if key == "judge" and isinstance(value, dict):
        prompt = value.get("prompt")
        if isinstance(prompt, str) and prompt.endswith(".md"):
            return value | {"prompt": os.path.normpath(folder / prompt)}
    if not _is_local_path(key, value, folder):
        return value
    return os.path.normpath(folder / str(value))


def _is_local_path(key: str, value: object, folder: Path) -> bool:
    """Return whether the value of a key is a path of the user, and not the path of a shipped pool or judge."""
    if not isinstance(value, str) or not value:
        return False

    folder_of_shipped = {"pool": "datasets", "judge": "configs"}.get(key)
    if Path(value).parts[:1] == (folder_of_shipped,) and not (folder / value).exists():
        return False
    if key == "judge":
        return value.endswith((".yaml", ".yml"))
    if key == "store":
        return "://" not in value
    return key in ("pool", "out", "trials_from")


def find_nearby_judge(name: str, folder: Path) -> Path | None:
    """Find the file of a judge in the folders next to a config.

    Parameters
    ----------
    name : str
        Name of the judge.
    folder : Path
        Folder of the config. Its subfolders judges/ and configs/judges/, and then ../judges/, are searched.

    Returns
    -------
    Path or None
        None if there is no such file, or if it is shipped with youden; a shipped judge is found by its name.
    """
    if not re.fullmatch(r"[\w.+-]+", name) or name.endswith((".yaml", ".yml")):
        return None

    shipped_folders = [path.resolve() for path in find_resource_folders("configs", local=False)]
    for judges_folder in (folder / "judges", folder / "configs" / "judges", folder.parent / "judges"):
        file = judges_folder / f"{name}.yaml"
        if file.is_file() and file.resolve().parent.parent not in shipped_folders:
            return Path(os.path.normpath(file))
    return None
