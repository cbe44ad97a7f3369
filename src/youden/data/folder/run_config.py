"""The YAML file behind `youden run CONFIG`: what it may say, and how it is read and written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator

from youden.data.folder.extension_steps import POOLS, ExtensionStep, UnfinishedExtension
from youden.errors import ConfigError, PlanError, RunFolderError
from youden.project_store import moved_store, project_store
from youden.resources import find, report_shadow, report_shadow_at, roots, shipped
from youden.run_keys import INDEPENDENT, REPLACED_KEYS, CallBudget, FromOne, Key, RunKeys, Target, Text, declared_keys
from youden.text.printable import is_device, is_file, path_of, shown, typed
from youden.text.yaml_text import YamlError, misfit, read_yaml

if TYPE_CHECKING:
    from youden.types.facts import PartnerRules
    from youden.types.pool import Json


def _read_keys(path: Path) -> dict[str, object]:
    """What the YAML at `path` says. Raises: ConfigError [run-config-file], [run-config-yaml]."""
    try:
        data = read_yaml(path)
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path} cannot be read ({said}). {_way_on(path)}", slug="run-config-file") from error
    except YamlError as error:
        raise ConfigError(f"{path} is no YAML: {error}. {_way_on(path)}", slug="run-config-yaml") from error
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        held = "is empty" if data is None else f"holds {repr(data)[:60]}, no keys"
        raise ConfigError(f"{path} {held}. {_way_on(path)}", slug="run-config-yaml")
    return data


def _way_on(path: Path) -> str:
    """What to do where the file at `path` is no run's config."""
    if not path.exists():
        return "Correct the path, or write a config with `youden init POOL`."
    if path.suffix.lower() in ("", ".yaml", ".yml") and not path.is_dir():
        return "Write one `key: value` a line, at least `pool: …`, in UTF-8."
    return f"A pool is no config: `{typed(['youden', 'init', str(path)])}` writes one for it."


_CREDENTIALS = re.compile(r"(?:(?<=http://)|(?<=https://))[^\s/@]+@")

OWN_STORE = "verdicts.db"
"""The store in a run's folder: of runs that began before projects had one, and of runs that query the same judge again."""

_PRECISE = ("cyclic", "width", "adaptive")
"""Designs beside which `width`, `top` and `within` can stand."""

_OF_A_DESIGN = ("design", "width", "top", "within", "options", "independent", "holdout", "rule")
"""Keys that a run with `trials_of` cannot have."""


class DrawnAs(BaseModel):
    """How a run's plan was drawn, noted in its folder so that the config makes the same plan where defaults have changed.

    pool: the first pool's digest; for another pool nothing here counts. budget: what the calls of both arms came to, None for as
    many as the design takes.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    pool: Text
    budget: FromOne | None = None


class RayWorkers(BaseModel):
    """What `--engine ray` places: so many workers (None for one a node), each with so much of a node set aside.

    resources: others that the cluster's nodes were started with, by name.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    workers: FromOne | None = None
    num_cpus: Annotated[float, Field(ge=0)] = 1.0
    num_gpus: Annotated[float, Field(ge=0)] = 0.0
    resources: dict[Text, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)


class FitTerms(NamedTuple):
    """What a fit goes by. target: what intervals are about; rules: whose word counts in the rankings beside the plain one."""

    target: Target
    rules: PartnerRules


class RunConfig(RunKeys, BaseModel):
    """Config of one run: the keys of `RunKeys` with their checks, and the keys that youden writes into a run's folder."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    extensions: Annotated[
        list[ExtensionStep], Key("Extensions of the run, in order; each adds trials and keeps the earlier ones.")
    ] = Field(default_factory=list)
    unfinished: Annotated[
        UnfinishedExtension | None,
        Key("Written by youden: the extension that was stopped before its report was written."),
    ] = None
    drawn: Annotated[DrawnAs | None, Key("Written by youden into a run's folder: how the plan was drawn.")] = None
    ray: Annotated[RayWorkers, Key("What `youden judge --engine ray` places on a cluster.")] = RayWorkers()

    @field_validator("calls", mode="before")
    @classmethod
    def _parse_calls(cls, value: object) -> int | str | None:
        try:
            return None if value is None else CallBudget.parse(value).plain
        except PlanError as error:
            raise ValueError("it is not a budget") from error

    @field_validator("independent")
    @classmethod
    def _check_independent(cls, value: str | None) -> str | None:
        if value is not None and not INDEPENDENT.fullmatch(value):
            raise ValueError("it is not a rule for independent trials")
        return value

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if not re.fullmatch(r"\w[\w .+-]{0,99}", value):
            raise ValueError(
                "a name has up to 100 letters, digits, spaces and . + - _ and begins with a letter or digit"
            )
        if is_device(value):
            raise ValueError("no folder of Windows can have this name; set another name")
        return value

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        searched = [name for name in ("top", "within") if getattr(self, name) is not None]
        rounds = ["width"] * (self.width is not None) + searched
        if self.width is not None and (searched or self.design == "adaptive"):
            search = searched[0] if searched else "design: adaptive"
            raise ValueError(f"width asks all agents alike, and {search} looks for the best; keep one of them")
        if rounds and self.design not in _PRECISE:
            raise ValueError(
                f"width, top and within ask cyclic slots in rounds, design {self.design} has none; leave design out"
            )
        if rounds and (twice := self.options.keys() & {"width", "top", "within"}):
            raise ValueError(f"{', '.join(sorted(twice))} stands in options and beside it; keep one of them")
        if self.robust and self.trusted:
            raise ValueError("robust and trusted would both head the ranking; keep one of them")
        if self.trials_of is not None:
            fields = type(self).model_fields
            if wrong := [name for name in _OF_A_DESIGN if getattr(self, name) != fields[name].default]:
                raise ValueError(
                    f"trials_of takes another run's trials, so {', '.join(wrong)} cannot be given with it; remove one"
                )
            if isinstance(self.calls, str):
                raise ValueError(f"trials_of takes a number of calls: got {self.calls}")
        return self

    @property
    def asked_design(self) -> tuple[str, dict[str, JsonValue]]:
        """The design and its options, with `width`, `top` and `within` among them: slots until a width, else adaptive."""
        own: dict[str, JsonValue] = {"width": self.width, "top": self.top, "within": self.within}
        options = {**self.options, **{name: value for name, value in own.items() if value is not None}}
        if self.width is None and self.top is None and self.within is None:
            return self.design, options
        return "adaptive" if self.width is None else "width", options

    @property
    def terms(self) -> FitTerms:
        """What the run is fitted by."""
        from youden.types.facts import PartnerRules, RankedBy

        head: RankedBy = "trusted" if self.trusted else "robust" if self.robust else "plain"
        clones = tuple(tuple(cluster) for cluster in self.clones)
        return FitTerms(self.target, PartnerRules(head, tuple(self.trusted), self.families, clones))

    def fitted_by(self, terms: FitTerms) -> RunConfig:
        """The same run, fitted by other terms."""
        rules = terms.rules
        kept = {
            "target": terms.target,
            "robust": rules.ranked_by == "robust",
            "trusted": list(rules.trusted),
            "families": dict(rules.families),
            "clones": [list(cluster) for cluster in rules.clones],
        }
        return self.model_copy(update=kept)

    @cached_property
    def beside(self) -> Path:
        """Where its file is: a `.env` there may hold the judge's key. The folder in use where it has no file."""
        return Path()

    @cached_property
    def file(self) -> Path | None:
        """The config's file; None if it was not read from one."""
        return None

    @cached_property
    def judge_name(self) -> str | None:
        """The name by which a judge's file was found next to the config; None if it was not found by a name."""
        return None

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path("runs", self.name) if self.out is None else Path(self.out)

    @property
    def store_place(self) -> str:
        """The store's path or URL."""
        if self.store is not None:
            return str(moved_store(path_of(self.store), self.folder)) if "://" not in self.store else self.store
        own_store = self.folder / OWN_STORE
        return str(own_store if own_store.is_file() else project_store())

    @property
    def store_file(self) -> Path | None:
        """The store's file; None where it is on a server."""
        return path_of(self.store_place) if is_file(self.store_place) else None


def load_run_config(path: str | PathLike[str], changes: Mapping[str, Json] | None = None) -> RunConfig:
    """The config at `path` (`configs/NAME` is also looked for among the shipped ones), then `changes` by key.

    Relative paths in the file (pool, judge, trials_of, store, out) start at the file's folder; those in `changes` where the
    program runs. A judge's name is looked for beside the file first (judges/, configs/judges/, ../judges/), so that it is
    found from any folder. A pool `datasets/NAME` that is not there is left for `read_pool` to find. The default name is the
    file's.

    Raises: ConfigError naming file, key, what arrived and what is allowed.
    """
    place = Path(path)
    report_shadow_at(place)
    if not place.exists() and place.parts[:1] == ("configs",):
        place = find("configs", Path(*place.parts[1:]).as_posix())
    return config_at(place, changes or {})


def config_at(place: Path, changes: Mapping[str, Json]) -> RunConfig:
    """As `load_run_config`, of the file at `place`, wherever that is."""
    data = {"name": place.stem, **_read_keys(place)}
    _report_dataset(data.get("pool"), place.parent)
    said = {key: _resolved(key, value, place.parent) for key, value in data.items()} | dict(changes)
    judge_name = None
    if isinstance(judge := said.get("judge"), str) and (beside := judge_beside(judge, place.parent)):
        said["judge"], judge_name = str(beside), judge
    config = config_of_keys(said, origin=str(place))
    # set as cached properties, because they are no part of what the run is
    config.__dict__ |= {"beside": place.parent, "file": place, "judge_name": judge_name}
    return config


def _refuse_replaced_keys(origin: str, data: Mapping[str, object]) -> None:
    """Raises: ConfigError [run-config]; RunFolderError [run-version] if an earlier version of youden wrote the file."""
    for key in REPLACED_KEYS.keys() & data.keys():
        if "drawn" in data:
            raise RunFolderError(
                f"{origin} was written by youden 0.2.0 or earlier: it has the key '{key}'. Use the version that wrote it, or "
                "run your own config in another folder (--out): no stored answer is paid for again.",
                slug="run-version",
            )
        new = REPLACED_KEYS[key]
        remedy = "Remove it." if new is None else f"Set `{new.format(data[key])}` instead."
        raise ConfigError(f"{origin}: unknown key '{key}'. {remedy}", slug="run-config")


def config_of_keys(keys: Mapping[str, object], *, origin: str) -> RunConfig:
    """Make a config from keys whose paths start at the current directory.

    Parameters
    ----------
    keys : mapping
        As in a config file, `name` and `pool` at least.
    origin : str
        Where the keys come from, for the error.

    Returns
    -------
    RunConfig

    Raises
    ------
    ConfigError
        [run-config] naming the key, its value and what is allowed.
    """
    _refuse_replaced_keys(origin, keys)
    try:
        return RunConfig.model_validate(keys)
    except ValidationError as error:
        raise ConfigError(
            f"{origin}: {misfit(error, keys=RunConfig.model_fields)}. {_remedy(error)}", slug="run-config"
        ) from error


def _report_dataset(pool: object, folder: Path) -> None:
    """Report a local dataset that has the name of a shipped one. Raises: ConfigError [shadowed]."""
    if isinstance(pool, str) and pool.startswith("datasets/"):
        name = pool.removeprefix("datasets/")
        local = next((path for path in (folder / pool, Path(pool)) if path.exists()), None)
        if local is not None:
            report_shadow("dataset", name, local, original=shipped("datasets", name))


def _remedy(error: ValidationError) -> str:
    """What the key that does not fit may say, in words."""
    location = error.errors(include_url=False, include_context=False)[0]["loc"]
    declared = declared_keys().get(str(location[0])) if location else None
    return f"Set {declared.key.values}." if declared is not None and declared.key.values else "Correct it."


def with_usual_store(config: RunConfig, usual: str | None) -> RunConfig:
    """Return the config with a store, if it names none: the one that the run's folder names, else `usual`, else the default."""
    if config.store is not None:
        return config
    file, recorded = config.folder / "config.yaml", None
    if file.is_file():
        with suppress(ConfigError):
            saved = config_at(file, {})
            recorded = None if saved.store is None else saved.store_place
    if recorded is None and not (config.folder / OWN_STORE).is_file():
        recorded = usual
    return config if recorded is None else config.model_copy(update={"store": recorded})


def dump_run_config(config: RunConfig, folder: Path) -> str:
    """YAML that, put into `folder`, loads as the same run: paths relative to it, defaults spelled out, no credentials."""
    data = config.model_dump(mode="json", exclude_none=True) | {"out": str(config.folder)}
    unfinished = data.get("unfinished", {})
    for step in (*data["extensions"], unfinished, unfinished.get("step", {})):
        step |= {key: _relative("pool", step[key], folder) for key in step.keys() & POOLS}
        if not step.get("focus", True):
            del step["focus"]
    for key in data.keys() & {"pool", "judge", "trials_of", "store", "out"}:
        data[key] = _relative(key, data[key], folder)
    for key in ("extensions", "trusted", "families", "clones", "robust", "suspected"):
        if not data[key]:
            del data[key]
    if config.ray == RayWorkers():
        del data["ray"]
    if config.store is not None:
        data["store"] = shown(data["store"])
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return _CREDENTIALS.sub("", text)


def _relative(key: str, value: object, folder: Path) -> object:
    """A key's value as it is written into `folder`: a path from there, anything else as it is."""
    return Path(os.path.relpath(str(value), folder)).as_posix() if _own_path(key, value, Path()) else value


def _resolved(key: str, value: object, folder: Path) -> object:
    """A key's value as it stands in a file in `folder`, its paths from where the program runs."""
    if key == "extensions" and isinstance(value, list):
        return [_resolved("step", step, folder) for step in value]
    if key in ("step", "unfinished") and isinstance(value, dict):
        kinds = dict.fromkeys(POOLS, "pool") | {"step": "step"}
        return {name: _resolved(kinds.get(name, ""), said, folder) for name, said in value.items()}
    if key == "judge" and isinstance(value, dict):
        prompt = value.get("prompt")
        if isinstance(prompt, str) and prompt.endswith(".md"):
            return value | {"prompt": os.path.normpath(folder / prompt)}
    return os.path.normpath(folder / str(value)) if _own_path(key, value, folder) else value


def _own_path(key: str, value: object, folder: Path) -> bool:
    """Whether it is a path, and not of a pool or a judge's file that comes with the project."""
    if not isinstance(value, str) or not value:
        return False
    kind = {"pool": "datasets", "judge": "configs"}.get(key)
    if Path(value).parts[:1] == (kind,) and not (folder / value).exists():
        return False
    if key == "judge":
        return value.endswith((".yaml", ".yml"))
    return key in ("pool", "out", "trials_of") or (key == "store" and "://" not in value)


def judge_beside(name: str, folder: Path) -> Path | None:
    """The file of a judge called `name` near a config in `folder`; the project's own are found by their name alone."""
    if not re.fullmatch(r"[\w.+-]+", name) or name.endswith((".yaml", ".yml")):
        return None
    for place in (folder / "judges", folder / "configs" / "judges", folder.parent / "judges"):
        file = place / f"{name}.yaml"
        if file.is_file() and file.resolve().parent.parent not in map(Path.resolve, roots("configs", own=False)):
            return Path(os.path.normpath(file))
    return None
