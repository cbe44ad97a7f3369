"""Make the paths in a run config absolute or relative, and find a judge file near a config."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from youden.data.folder.extension_steps import POOLS
from youden.resources import find_resource_folders


def make_relative(key: str, value: object, folder: Path) -> object:
    """Return the value of a config key; if it is a path of the user, the path is made relative to `folder`.

    Paths of the user are the values that `resolve_paths` lists, except those of extensions. The path of a shipped pool or judge,
    for example datasets/field-notes, counts only if the user has a file of this path. All other values stay unchanged.

    key : key of the config, for example "pool"; use "pool" for the pools of an extension, too
    value : value of the key; a path is relative to the current directory, or absolute
    folder : folder to which the result is relative; itself relative to the current directory, or absolute

    Returns the path as a string with forward slashes, a changed copy of the settings of a judge, or the unchanged value. An
    absolute path becomes relative, too.
    """
    if key == "judge" and isinstance(value, dict):
        return _convert_judge_paths(value, lambda name, setting: make_relative(name, setting, folder))
    return _format_relative(value, folder) if _is_user_path(key, value, folder=Path()) else value


def _format_relative(path: object, folder: Path) -> str:
    """Format a path relative to a folder, with forward slashes."""
    return Path(os.path.relpath(str(path), folder)).as_posix()


def resolve_paths(key: str, value: object, folder: Path) -> object:
    """Return the value of a config key, with each relative path in it joined to the folder of the config file.

    Paths of shipped pools and judges, for example datasets/field-notes, stay unchanged unless the user has a file of this path.

    Parameters
    ----------
    key : str
        Key of the config, for example "pool".
    value : object
        Value of the key. Depending on the key, it may contain these paths:

        - "pool", "out", "trials_from": the value itself
        - "store": the value itself, unless it is a URL
        - "judge": the value itself, if it is a string that ends in .yaml or .yml
        - "judge" with the settings of a judge: the setting "prompt", if it ends in .md, and the judges in "judges" and
          "replay_of", each of which is converted like the value of "judge"
        - "unfinished", an extension whose command was stopped: the pools that the extension adds
        - "extensions", a list of extensions: the pools that they add
    folder : Path
        Folder of the config file, to which the paths are relative; absolute, or relative to the current directory.

    Returns
    -------
    object
        A converted copy, in which each path is a normalized string ("a/../b" becomes "b"). Absolute paths stay absolute. A value
        without a path, for example the name of a judge, is returned unchanged.
    """
    if key == "extensions" and isinstance(value, list):
        return [_resolve_extension_paths(step, folder) for step in value]
    if key == "unfinished":
        return _resolve_extension_paths(value, folder)
    if key == "judge" and isinstance(value, dict):
        return _convert_judge_paths(value, lambda name, setting: resolve_paths(name, setting, folder))
    if _is_user_path(key, value, folder=folder):
        return os.path.normpath(folder / str(value))
    return value


def _resolve_extension_paths(extension: object, folder: Path) -> object:
    """Join the relative paths in the config of one extension to the folder of the config file.

    An extension adds agents, items or calls to a run. Only the keys for its pools contain paths. An unfinished
    extension contains another one under the key `step`, which is converted as well.

    extension : keys of the extension; a value that is not a mapping is not valid, and returned unchanged
    folder : folder to which the paths are relative

    Returns a converted copy of the keys.
    """
    if not isinstance(extension, dict):
        return extension
    resolved: dict[object, object] = {}
    for key, value in extension.items():
        if key in POOLS:
            resolved[key] = resolve_paths("pool", value, folder)
        elif key == "step":
            resolved[key] = _resolve_extension_paths(value, folder)
        else:
            resolved[key] = value
    return resolved


def _convert_judge_paths(judge: dict[str, object], convert: Callable[[str, object], object]) -> dict[str, object]:
    """Return a copy of the settings of a judge in which `convert(key, value)` replaces each value that may contain a path."""
    converted = dict(judge)
    if "prompt" in judge:
        converted["prompt"] = convert("prompt", judge["prompt"])
    if "replay_of" in judge:
        converted["replay_of"] = convert("judge", judge["replay_of"])
    members = judge.get("judges")
    if isinstance(members, list):
        converted["judges"] = [convert("judge", member) for member in members]
    return converted


def _is_user_path(key: str, value: object, *, folder: Path) -> bool:
    """Return whether the value of a config key is the path of a file or folder of the user.

    Only the keys `pool`, `judge`, `store`, `out` and `trials_from`, and `prompt` of a judge, can have such a path. These values
    are not paths of the user:

    - the name of a judge or a prompt;
    - the URL of an answer store;
    - the path of a shipped pool or judge, unless the user has a file of the same path.

    folder : folder to which the value is relative
    """
    if not isinstance(value, str) or not value:
        return False

    match key:
        case "pool":
            return not _is_shipped_path(value, "datasets", folder)
        case "judge":
            return value.lower().endswith((".yaml", ".yml")) and not _is_shipped_path(value, "configs", folder)
        case "prompt":
            return value.lower().endswith(".md")
        case "store":
            return "://" not in value
        case _:
            return key in ("out", "trials_from")


def _is_shipped_path(path: str, resource_folder: str, user_folder: Path) -> bool:
    """Return whether a path such as datasets/NAME refers to a file of youden, because the user has no such file.

    resource_folder : folder of youden, "datasets" or "configs"
    user_folder : folder to which the path is relative
    """
    may_be_shipped = Path(path).parts[:1] == (resource_folder,)
    return may_be_shipped and not (user_folder / path).exists()


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
        The first file NAME.yaml that is not shipped with youden; None if there is none. The caller finds a shipped judge by
        its name.
    """
    is_path = name.lower().endswith((".yaml", ".yml")) or not re.fullmatch(r"[\w.+-]+", name)
    if is_path:
        return None

    shipped_folders = [path.resolve() for path in find_resource_folders("configs", local=False)]
    for judges_folder in (folder / "judges", folder / "configs" / "judges", folder.parent / "judges"):
        file = judges_folder / f"{name}.yaml"
        if not file.is_file():
            continue
        # the file of a shipped judge is configs/judges/NAME.yaml
        configs_folder = file.resolve().parent.parent
        if configs_folder not in shipped_folders:
            return Path(os.path.normpath(file))
    return None
