"""Find the file of a judge by its name or path, and report a file that hides a shipped judge, a backend or a model."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from youden.errors import ConfigError
from youden.judging.backend_records import JUDGES, infer_judge_keys
from youden.judging.config.price_table import find_table_entry
from youden.resources import find_resource, find_resource_folders, find_shipped, report_shadow, report_shadow_at


def list_judge_names() -> list[str]:
    """Return the names of all judges that have a config file, sorted."""
    files = [path for folder in _list_judge_folders() for path in folder.glob("*.yaml")]
    return sorted({path.stem for path in files})


def _list_judge_folders() -> list[Path]:
    """Return the folders that are searched for judges: judges/ in the working directory, then each configs/judges/."""
    return [Path("judges"), *(root / "judges" for root in find_resource_folders("configs"))]


def find_judge_file(source: str | Path) -> Path | None:
    """Find the file of a judge, given its path or its name; None if a backend or model has this name.

    Raises: ConfigError [unknown-judge] if there is no file, backend or model of this name.
    """
    if isinstance(source, Path) or source.lower().endswith((".yaml", ".yml")):
        return _find_file_by_path(Path(source))

    for folder in _list_judge_folders():
        path = folder / f"{source}.yaml"
        if path.is_file():
            report_hidden_judge(source, path)
            return path
    if _is_backend_or_model(source):
        return None

    names = sorted({*list_judge_names(), *JUDGES})
    similar = get_close_matches(source, names, n=1)
    hint = f"Did you mean '{similar[0]}'?" if similar else f"Known: {', '.join(names)}."
    raise ConfigError(
        f"There is no judge called '{source}'. {hint} Pass the name of a file judges/NAME.yaml in the working directory, a path "
        "that ends in .yaml, or a model with its provider, such as openai/gpt-4o.",
        slug="unknown-judge",
    )


def _find_file_by_path(path: Path) -> Path:
    """Return the path of a judge's file. If the path is configs/… and does not exist, return the shipped file's path.

    If the file exists and a shipped file has the same path, a warning states that the shipped file is not used.
    """
    report_shadow_at(path)
    is_in_configs = path.parts[:1] == ("configs",)
    if not is_in_configs or path.exists():
        return path
    path_in_configs = path.relative_to("configs").as_posix()
    return find_resource("configs", path_in_configs)


def _is_backend_or_model(name: str) -> bool:
    """Return whether a name belongs to a backend, or to a model of a known provider. A judge of this name needs no file.

    A name with a known provider, such as openai/gpt-4o, always belongs to a model. A name without a provider, such as gpt-4o,
    belongs to a model if the table of prices contains it.
    """
    if name in JUDGES:
        return True
    judge_keys = infer_judge_keys(name)  # None if the provider is not known
    if judge_keys is None:
        return False
    if "/" in name:  # the name contains the provider
        return True
    backend = str(judge_keys["backend"])
    return bool(find_table_entry(backend, name))


def report_hidden_judge(name: str, path: Path) -> bool:
    """Tell the user if the file of a judge hides a shipped judge, a backend or a model of the same name.

    The file is used, and what it hides is not. Files in the user's folders take precedence over all shipped judges.

    Parameters
    ----------
    name : str
        Name of the judge.
    path : Path
        Its file.

    Returns
    -------
    bool
        True if the file hides a backend or a model, or a shipped judge with other content. False if it hides nothing.

    Raises
    ------
    ConfigError
        [shadowed]: if the file hides a judge, backend or model and the environment variable CI is set, because warnings
        are rarely read in continuous integration.
    """
    hidden_file = find_shipped("configs", f"judges/{name}.yaml")
    if hidden_file is None and _is_backend_or_model(name):
        hidden_file = Path(name)  # not a real file: a backend or a model has none, and its name differs from `path`
    return report_shadow("judge", name, path, original=hidden_file)


def find_local_judge(name: str) -> Path | None:
    """Find the file of a judge in judges/ or configs/judges/ of the working directory; None if there is none."""
    for folder in (Path("judges"), Path("configs", "judges")):
        path = folder / f"{name}.yaml"
        if path.is_file():
            return path
    return None
