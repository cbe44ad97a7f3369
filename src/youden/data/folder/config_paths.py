"""Make the paths in a run config absolute or relative, and find a judge file near a config."""

from __future__ import annotations

import os
import re
from pathlib import Path

from youden.data.folder.extension_steps import POOLS
from youden.resources import find_resource_folders


def make_relative(key: str, value: object, folder: Path) -> object:
    """Return the value of a config key; if it is a path of the user, the path is made relative to `folder`.

    Paths of pools and judges that are shipped with youden, and values of keys that hold no path, stay unchanged.

    value : path relative to the current directory, or absolute
    """
    if not _is_local_path(key, value, Path()):
        return value
    return Path(os.path.relpath(str(value), folder)).as_posix()


def resolve_paths(key: str, value: object, folder: Path) -> object:
    """Return the value of a config key, with each relative path in it joined to the folder of the config file.

    Parameters
    ----------
    key : str
        Key of the config, such as "pool", "judge" or "extensions".
    value : object
        Its value. Lists of extensions and the parts of an extension are converted as well.
    folder : Path
        Folder of the config file, to which the paths are relative; absolute, or relative to the current directory.

    Returns
    -------
    object
        A converted copy, or the value itself if it contains no path of the user: for example the name of a judge, the
        URL of a store, or a shipped pool such as datasets/field-notes.
    """
    if key == "extensions" and isinstance(value, list):
        return [resolve_paths("step", step, folder) for step in value]

    # one extension of the run: its pools are paths, and an unfinished one contains a step
    if key in ("step", "unfinished") and isinstance(value, dict):
        key_by_name = dict.fromkeys(POOLS, "pool") | {"step": "step"}
        resolved = {}
        for name, member in value.items():
            member_key = key_by_name.get(name, "")
            resolved[name] = resolve_paths(member_key, member, folder)
        return resolved

    # keys of a judge, whose prompt may be a file
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

    # datasets/… and configs/… are shipped, unless the user has such a file
    shipped_folders = {"pool": "datasets", "judge": "configs"}
    first_part = Path(value).parts[:1]
    may_be_shipped = first_part == (shipped_folders.get(key),)
    if may_be_shipped and not (folder / value).exists():
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
