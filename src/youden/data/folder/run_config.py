"""Define, read and write the config of a run.

A config is the YAML file that `youden run CONFIG` reads; a run's folder contains a copy of it, with paths
relative to the folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator

from youden.data.folder.config_paths import find_nearby_judge, make_relative, resolve_paths
from youden.data.folder.extension_steps import POOLS, ExtensionStep, UnfinishedExtension
from youden.errors import ConfigError, PlanError, RunFolderError
from youden.project_store import check_store_address, find_moved_store, project_store
from youden.resources import find_resource, find_shipped, report_shadow, report_shadow_at
from youden.run_keys import INDEPENDENT, REPLACED_KEYS, CallBudget, FromOne, Key, RunKeys, Target, Text, declared_keys
from youden.text.printable import format_command, is_device, is_local_file, redact_location, to_path
from youden.text.yaml_text import YamlError, format_validation_error, read_yaml

if TYPE_CHECKING:
    from youden.types.facts import PartnerRules
    from youden.types.pool import Json


def _read_keys(path: Path) -> dict[str, object]:
    """Read the keys of a YAML file.

    Raises: ConfigError [run-config-file] if the file cannot be read; [run-config-yaml] if it is not YAML with keys.
    """
    try:
        data = read_yaml(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{path} cannot be read ({reason}). {_format_file_remedy(path)}", slug="run-config-file"
        ) from error
    except YamlError as error:
        raise ConfigError(
            f"{path} is not YAML: {error}. {_format_file_remedy(path)}", slug="run-config-yaml"
        ) from error
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        problem = "is empty" if data is None else f"contains {repr(data)[:60]}, but no keys"
        raise ConfigError(f"{path} {problem}. {_format_file_remedy(path)}", slug="run-config-yaml")
    return data


def _format_file_remedy(path: Path) -> str:
    """Return how to correct a path that is not the file of a config, as a sentence."""
    if not path.exists():
        return "Check the path, or run `youden init POOL` to write a config."
    if path.suffix.lower() in ("", ".yaml", ".yml") and not path.is_dir():
        return "Write one `key: value` per line, at least `pool: …`, in UTF-8."
    return f"A pool is not a config: run `{format_command(['youden', 'init', str(path)])}` to write a config for it."


_CREDENTIALS = re.compile(r"(?:(?<=http://)|(?<=https://))[^\s/@]+@")

OWN_STORE = "verdicts.db"
"""Name of a store in the run's folder, for runs that are older than project stores or that query a judge again."""

_DESIGNS_WITH_ROUNDS = ("cyclic", "fixed-width", "adaptive")
"""Designs that can be combined with the keys `half_width`, `top` and `max_regret`."""

_DESIGN_KEYS = (
    *("design", "half_width", "top", "max_regret", "options", "independent", "holdout", "holdout_rule"),
    "self_trials",
)
"""Keys that cannot be combined with `trials_from`."""


_NOT_FOR_PREFERENCES = (
    *("half_width", "independent", "holdout", "trials_from"),
    *("robust", "trusted", "families", "follow_up_fraction", "self_trials"),
)
"""Keys that cannot be combined with `question: preference`."""

_PREFERENCE_DESIGNS = ("cyclic", "dense", "adaptive")
"""Designs that can be combined with `question: preference`."""


class DrawnAs(BaseModel):
    """Resolved defaults of a plan.

    They are recorded in the config in the run's folder, which therefore gives the same plan even if defaults change.

    Attributes
    ----------
    pool : str
        Digest of the run's first pool, before extensions. For another pool, the record is ignored.
    budget : int, optional
        Number of calls, of both trial types together. Default: that of the design.
    account : str, optional
        Cost account of the run in its store. It is named after the path that the folder had when the run was judged.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    pool: Text
    budget: FromOne | None = None
    account: Text | None = None


class RayWorkers(BaseModel):
    """Workers that `--engine ray` starts on a cluster, and their resources.

    Attributes
    ----------
    workers : int, optional
        Number of workers; None for one per node.
    num_cpus, num_gpus : float
        Number of CPUs and of GPUs per worker.
    resources : dict
        Name of a custom resource of the cluster → amount per worker.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    workers: FromOne | None = None
    num_cpus: Annotated[float, Field(ge=0)] = 1.0
    num_gpus: Annotated[float, Field(ge=0)] = 0.0
    resources: dict[Text, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)


class FitSettings(NamedTuple):
    """Settings of a fit.

    Attributes
    ----------
    target : Target
        What the intervals describe.
    rules : PartnerRules
        Rules of the alternative rankings, and the ranking that comes first.
    """

    target: Target
    rules: PartnerRules


class RunConfig(RunKeys, BaseModel):
    """Config of a run, with the keys that youden writes into its folder."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    extensions: Annotated[
        list[ExtensionStep], Key("Extensions of the run, in order; each adds trials and keeps the earlier ones.")
    ] = Field(default_factory=list)
    unfinished: Annotated[
        UnfinishedExtension | None,
        Key("Written by youden: the extension that was stopped before its report was written."),
    ] = None
    resolved: Annotated[
        DrawnAs | None, Key("Written by youden into a run's folder: the resolved defaults of the plan.")
    ] = None
    ray: Annotated[RayWorkers, Key("Workers that `youden judge --engine ray` starts on a cluster.")] = RayWorkers()

    @field_validator("calls", mode="before")
    @classmethod
    def _parse_calls(cls, value: object) -> int | str | None:
        """Parse a budget of calls, such as 4000, "5%" or "450/agent"; raise ValueError if it is not valid."""
        if value is None:
            return None
        try:
            return CallBudget.parse(value).plain
        except PlanError as error:
            raise ValueError("it is not a budget") from error

    @field_validator("independent")
    @classmethod
    def _check_independent(cls, value: str | None) -> str | None:
        """Raise ValueError unless the value of `independent` is None or one of the allowed forms."""
        if value is not None and not INDEPENDENT.fullmatch(value):
            raise ValueError("it is not a rule for independent trials")
        return value

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        """Raise ValueError unless the name of a run can also be the name of its folder."""
        if not re.fullmatch(r"\w[\w .+-]{0,99}", value):
            raise ValueError(
                "a name has up to 100 letters, digits, spaces and . + - _ and begins with a letter or digit"
            )
        if is_device(value):
            raise ValueError("this name is reserved on Windows; set another name")
        return value

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        """Raise ValueError if keys contradict each other."""
        self._check_rounds()
        if self.robust and self.trusted:
            raise ValueError("robust and trusted would both determine the ranking; set only one of them")
        if self.trials_from is not None:
            self._check_trials_from()
        if self.question == "preference":
            self._check_preference()
        return self

    def _check_preference(self) -> None:
        """Raise ValueError if the design, the target or another key cannot be combined with `question: preference`."""
        conflicts = [name for name in _NOT_FOR_PREFERENCES if getattr(self, name)]
        if conflicts:
            names = ", ".join(conflicts)
            raise ValueError(f"these keys cannot be combined with question: preference: got {names}; remove {names}")
        if self.design not in _PREFERENCE_DESIGNS:
            designs = ", ".join(_PREFERENCE_DESIGNS)
            raise ValueError(f"question: preference requires one of the designs {designs}: got {self.design}")
        if self.target != "items-like-these":
            raise ValueError(f"question: preference requires the target items-like-these: got {self.target}")

    def _check_rounds(self) -> None:
        """Raise ValueError if a key that samples trials in rounds contradicts the design, its options or another key.

        With the key `half_width`, `top` or `max_regret`, a run is judged in several rounds. The answers so far determine the
        trials of the next round. With `half_width`, rounds are added until the intervals are short enough. With `top` or
        `max_regret`, the rounds search for the best agents. Only a cyclic design can be sampled in rounds.
        """
        search_keys = [name for name in ("top", "max_regret") if getattr(self, name) is not None]
        has_rounds = self.half_width is not None or bool(search_keys)
        if not has_rounds:
            return
        if self.design == "adaptive":
            search_keys.append("design: adaptive")
        if self.half_width is not None and search_keys:
            raise ValueError(
                f"half_width samples all agents equally, and {search_keys[0]} searches for the best; set only one of them"
            )
        if self.design not in _DESIGNS_WITH_ROUNDS:
            raise ValueError(
                f"half_width, top and max_regret sample a cyclic design in rounds, and design {self.design} has none; remove "
                "design"
            )
        duplicates = sorted(self.options.keys() & {"half_width", "top", "max_regret"})
        if duplicates:
            raise ValueError(f"{', '.join(duplicates)} is set in options and outside them; set it only once")

    def _check_trials_from(self) -> None:
        """Check the keys of a config with the key `trials_from`, which makes the run repeat the trials of another run.

        Raises: ValueError if a key that plans trials, for example `design`, is not at its default; or if `calls` depends on the
            pool, as "5%" and "450/agent" do.
        """
        fields = type(self).model_fields
        conflicts = [name for name in _DESIGN_KEYS if getattr(self, name) != fields[name].default]
        if conflicts:
            raise ValueError(
                f"trials_from uses another run's trials and cannot be combined with {', '.join(conflicts)}; remove one of "
                "them"
            )
        is_relative_budget = isinstance(self.calls, str)
        if is_relative_budget:
            raise ValueError(f"trials_from requires a number of calls: got {self.calls}")

    @property
    def effective_design(self) -> tuple[str, dict[str, JsonValue]]:
        """Name of the design that is used, and its options.

        The keys `half_width`, `top` and `max_regret` are added to the options. They also select the design:
        "fixed-width" if `half_width` is set, "adaptive" if `top` or `max_regret` is.
        """
        goals: dict[str, JsonValue] = {"half_width": self.half_width, "top": self.top, "max_regret": self.max_regret}
        set_goals = {name: value for name, value in goals.items() if value is not None}
        if self.half_width is not None:
            design = "fixed-width"
        elif set_goals:
            design = "adaptive"
        else:
            design = self.design
        return design, {**self.options, **set_goals}

    @property
    def fit_settings(self) -> FitSettings:
        """Settings that state how abilities and intervals are computed from the answers.

        The keys `trusted`, `families`, `clones` and `robust` add alternative rankings. In these, some comparisons of an agent
        count less or not at all. With `trusted` or `robust`, the alternative ranking is reported first.
        """
        from youden.types.facts import PartnerRules, RankedBy

        ranked_by: RankedBy = "plain"
        if self.trusted:
            ranked_by = "trusted"
        elif self.robust:
            ranked_by = "robust"
        clones = tuple(tuple(cluster) for cluster in self.clones)
        rules = PartnerRules(ranked_by, trusted=tuple(self.trusted), families=self.families, clones=clones)
        return FitSettings(self.target, rules)

    def with_fit_settings(self, settings: FitSettings) -> RunConfig:
        """Return a copy of the config with other settings of the fit.

        Raises ConfigError [run-config] if a setting is not allowed: a config that could not be read is never written.
        """
        rules = settings.rules
        changes = {
            "target": settings.target,
            "robust": rules.ranked_by == "robust",
            "trusted": list(rules.trusted),
            "families": dict(rules.families),
            "clones": [list(cluster) for cluster in rules.clones],
        }
        run_config_from_keys({"name": self.name, "pool": self.pool, **changes}, origin="settings of the fit")
        return self.model_copy(update=changes)

    @cached_property
    def directory(self) -> Path:
        """Folder of the config's file, or the current directory if it was not read from a file.

        A `.env` in it may contain the API key of the judge.
        """
        return Path()

    @cached_property
    def file(self) -> Path | None:
        """File of the config, None if it was not read from a file."""
        return None

    @cached_property
    def judge_name(self) -> str | None:
        """Name of the judge in its file, if the file was found near the config; otherwise None."""
        return None

    @property
    def folder(self) -> Path:
        """Folder for the files of the run: the key `out`, or runs/NAME by default."""
        return Path("runs", self.name) if self.out is None else Path(self.out)

    @property
    def store_location(self) -> str:
        """Path or URL of the store, in which answers of judges are kept so that no request is paid for twice."""
        if self.store is None:
            own_store = self.folder / OWN_STORE
            return str(own_store if own_store.is_file() else project_store())
        if "://" in self.store:
            return self.store
        return str(find_moved_store(to_path(self.store), self.folder))

    @property
    def store_file(self) -> Path | None:
        """File of the store, None if the store is on a server."""
        return to_path(self.store_location) if is_local_file(self.store_location) else None


def load_run_config(path: str | PathLike[str], changes: Mapping[str, Json] | None = None) -> RunConfig:
    """Read the config of a run, which may be one of the shipped configs.

    Parameters
    ----------
    path : str or path
        File of the config. A `configs/NAME` that does not exist is searched for among the shipped configs.
    changes : mapping, optional
        Keys that replace those of the file.

    Returns
    -------
    RunConfig
        The config. The default of its key `name` is the name of the file without its suffix.

    Raises
    ------
    ConfigError
        [run-config-file]: if the file cannot be read; [run-config-yaml]: if it is not YAML with keys; [run-config]: if
        a key is unknown, or its value is not allowed. The message names the key, its value and what is allowed.
    RunFolderError
        [run-version]: if an earlier version of youden wrote the file.

    Notes
    -----
    The keys pool, judge, trials_from, store and out, and some keys of a judge (see `resolve_paths`), may be paths:

    - A relative path in the file is relative to the folder of the file, and one in `changes` to the current directory.
    - The path of a shipped pool, such as `datasets/field-notes`, is not changed.
    - The name of a judge is first searched for near the file: in judges/, configs/judges/ and ../judges/.
    """
    config_path = Path(path)
    report_shadow_at(config_path)  # warns if a local file is used instead of the shipped config of the same name
    may_be_shipped = config_path.parts[:1] == ("configs",)
    if may_be_shipped and not config_path.exists():
        name = Path(*config_path.parts[1:]).as_posix()
        config_path = find_resource("configs", name)
    return read_run_config(config_path, changes or {})


def read_run_config(path: Path, changes: Mapping[str, Json]) -> RunConfig:
    """Read the config of a run from a file, without a search for shipped configs.

    Parameters
    ----------
    path : Path
        The file.
    changes : mapping
        Keys that replace those of the file.

    Returns
    -------
    RunConfig
        The config. Relative paths in the file start at the folder of the file. Relative paths in `changes` start at the current
        directory.

    Raises
    ------
    ConfigError
        [run-config-file]: if the file cannot be read; [run-config-yaml]: if it is not YAML with keys; [run-config]: if
        a key is unknown, or its value is not allowed.
    RunFolderError
        [run-version]: if an earlier version of youden wrote the file.
    """
    folder = path.parent
    keys_in_file = {"name": path.stem, **_read_keys(path)}
    _report_shadowing_dataset(keys_in_file.get("pool"), folder)
    keys = {key: resolve_paths(key, value, folder) for key, value in keys_in_file.items()}
    keys |= changes

    judge = keys.get("judge")
    judge_path = find_nearby_judge(judge, folder) if isinstance(judge, str) else None
    if judge_path is not None:
        keys["judge"] = str(judge_path)

    config = run_config_from_keys(keys, origin=str(path))
    judge_name = None if judge_path is None else judge
    # A config is frozen, and its origin is not a field. Python keeps the values of cached properties in `__dict__`.
    config.__dict__.update(directory=folder, file=path, judge_name=judge_name)
    return config


def _check_replaced_keys(origin: str, keys: Mapping[str, object]) -> None:
    """Check that a config has no keys of an earlier version that were renamed or removed.

    origin : path of the config, or where its keys come from, for errors
    keys : keys of the config with their values

    Raises: RunFolderError [run-version] if youden wrote the config; ConfigError [run-config] if the user did.
    """
    # youden adds the key `resolved` to the config in a run's folder; earlier versions called this key `drawn`
    was_written_by_youden = "resolved" in keys or "drawn" in keys
    for key in REPLACED_KEYS.keys() & keys.keys():
        if was_written_by_youden:
            raise RunFolderError(
                f"{origin} was written by youden 0.2.0 or earlier: it has the key '{key}'. Use the version that wrote it, or "
                "run your own config in another folder (--out): no stored answer is paid for again.",
                slug="run-version",
            )
        replacement = REPLACED_KEYS[key]
        remedy = "Remove it." if replacement is None else f"Set `{replacement.format(keys[key])}` instead."
        raise ConfigError(f"{origin}: unknown key '{key}'. {remedy}", slug="run-config")


def run_config_from_keys(keys: Mapping[str, object], *, origin: str) -> RunConfig:
    """Make a config from keys.

    Parameters
    ----------
    keys : mapping
        Keys as in a config file, with `name` and `pool`. Relative paths start at the current directory.
    origin : str
        Origin of the keys, for errors.

    Returns
    -------
    RunConfig
        The config, with the default of each key that is not given.

    Raises
    ------
    ConfigError
        [run-config]: if a key is unknown, or its value is not allowed; the message names the key, its value and what is allowed.
    RunFolderError
        [run-version]: if an earlier version of youden wrote the keys.
    """
    _check_replaced_keys(origin, keys)
    try:
        return RunConfig.model_validate(keys)
    except ValidationError as error:
        message = f"{origin}: {format_validation_error(error, keys=RunConfig.model_fields)}. {_suggest_value(error)}"
        raise ConfigError(message.rstrip(), slug="run-config") from error


def _report_shadowing_dataset(pool: object, folder: Path) -> None:
    """Warn about a local dataset that is used instead of a shipped one because it has the same name.

    The path of a shipped dataset is datasets/NAME. If the user has a file or folder with this relative path, it is used
    instead. By default, the warning is logged (`report_shadow`).

    pool : value of the key `pool` in the file of a run's config; nothing is done unless it is a path such as datasets/NAME
    folder : folder of this file, in which the dataset is searched for before the current directory

    Raises: ConfigError [shadowed], instead of the warning, if the environment variable CI is set.
    """
    if not isinstance(pool, str) or not pool.startswith("datasets/"):
        return
    name = pool.removeprefix("datasets/")
    for path in (folder / pool, Path(pool)):
        if path.exists():
            report_shadow("dataset", name, path, original=find_shipped("datasets", name))
            return


def _suggest_value(error: ValidationError) -> str:
    """Return a sentence with the allowed values of the first invalid key, for an error message.

    - If the allowed values are not declared, the sentence is "Set another value."
    - If the error itself states the remedy, the result is empty. This is so for an unknown key and for contradictory keys.
    """
    first_error = error.errors(include_url=False, include_context=False)[0]
    location = first_error["loc"]  # the key, then the position inside its value; empty if keys contradict each other
    is_unknown_key = first_error["type"] == "extra_forbidden"
    if is_unknown_key or not location:
        return ""

    key_name = str(location[0])
    declared_key = declared_keys().get(key_name)
    allowed_values = "" if declared_key is None else declared_key.key.values  # such as "true or false"
    return f"Set {allowed_values}." if allowed_values else "Set another value."


def with_default_store(config: RunConfig, default_store: str | None) -> RunConfig:
    """Return a copy of a config whose key `store` names the answer store of the run, if the key is needed.

    A run uses the first of these stores that exists:

    1. the store in the config;
    2. the store that is recorded in the run's folder;
    3. the run's own store, a file verdicts.db in that folder, which needs no key `store`;
    4. `default_store`;
    5. the store of the project.

    Parameters
    ----------
    config : RunConfig
        Config of a run.
    default_store : str or None
        Path or URL of a store.

    Returns
    -------
    RunConfig
        A copy with the key `store` in the cases 2 and 4; the same config in the other cases.

    Raises
    ------
    ConfigError
        [store-url]: if the config or `default_store` is a connection string of PostgreSQL.
    """
    if config.store is not None:
        check_store_address(config.store)
        return config
    if default_store is not None:
        check_store_address(default_store)

    recorded_store = _read_recorded_store(config.folder)
    if recorded_store is not None:
        return config.model_copy(update={"store": recorded_store})

    has_own_store = (config.folder / OWN_STORE).is_file()
    if has_own_store or default_store is None:
        return config
    return config.model_copy(update={"store": default_store})


def _read_recorded_store(folder: Path) -> str | None:
    """Read the location of the store from the config in a run's folder.

    Returns None if the folder has no config, if the config is not valid, or if it names no store.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        return None
    with suppress(ConfigError):
        config = read_run_config(path, {})
        if config.store is not None:
            return config.store_location
    return None


def _remove_rare_keys(data: dict[str, Json], config: RunConfig) -> None:
    """Remove rarely used keys from `data`, the keys of a config, if they have their default values."""
    for key in ("extensions", "trusted", "families", "clones", "robust", "follow_up_fraction", "self_trials"):
        has_default = not data[key]  # the defaults of these keys are empty, False or 0
        if has_default:
            del data[key]
    if config.ray == RayWorkers():
        del data["ray"]
    if config.question == "information":
        del data["question"]


def dump_run_config(config: RunConfig, folder: Path) -> str:
    """Format a config as YAML, without credentials.

    Most keys are written with their value, even if it is the default. Rarely used keys are left out if they have their default.

    config : config of a run
    folder : folder of the file; paths in the result are relative to it

    Returns a YAML text, which `read_run_config` reads.
    """
    data = config.model_dump(mode="json", exclude_none=True)
    data["out"] = str(config.folder)
    for key in data.keys() & {"pool", "judge", "trials_from", "store", "out"}:
        data[key] = make_relative(key, data[key], folder)

    extensions = list(data["extensions"])
    if "unfinished" in data:
        # an extension whose command was stopped; its key `step` contains the extension that was judged last
        unfinished_extension = data["unfinished"]
        extensions += [unfinished_extension, unfinished_extension["step"]]
    for extension in extensions:
        _shorten_extension(extension, folder)

    _remove_rare_keys(data, config)
    if config.store is not None:
        data["store"] = redact_location(data["store"])
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return _CREDENTIALS.sub("", text)  # in URLs of other keys, such as http://user:password@host


def _shorten_extension(extension: dict[str, Any], folder: Path) -> None:
    """Make the paths of pools in an extension relative to a folder, and remove the key `focus` if it has its default."""
    for key in extension.keys() & POOLS:
        extension[key] = make_relative("pool", extension[key], folder)
    if extension.get("focus") == []:
        del extension["focus"]
