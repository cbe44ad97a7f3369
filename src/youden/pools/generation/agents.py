"""AGENTS.yaml: who is to respond, as data, and what an agent's model is told: a file of prompts/agents/ with a place for
the text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from youden.errors import ConfigError, YoudenError
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.judging.question.prompts import fence
from youden.resources import find, report_shadow_at, stays_in_folder
from youden.text.regular_files import read_regular_text
from youden.text.transforms import Step
from youden.text.yaml_text import YamlError, front_matter, misfit, read_yaml
from youden.types import Message

_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class _Head(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str | None = None


@dataclass(frozen=True)
class Instruction:
    """digest: sha256 (hex) of the file's text."""

    name: str
    template: str
    system: str | None
    digest: str

    def messages(self, text: str, *, notes: str = "") -> tuple[Message, ...]:
        """The instruction with the text, and notes on it, between tags that they cannot contain."""
        text, notes = (part.encode("utf-8", "replace").decode() for part in (text, notes))
        tag = fence(text, notes)
        filled = {"text": f"<text-{tag}>\n{text}\n</text-{tag}>", "notes": f"<notes-{tag}>\n{notes}\n</notes-{tag}>"}
        user = Message("user", _PLACE.sub(lambda found: filled[found[1]], self.template).strip())
        return (user,) if self.system is None else (Message("system", self.system), user)


def load_instruction(name: str, *, folder: Path, notes: bool = False) -> Instruction:
    """`prompts/agents/NAME.md`, or the path that ends in .md, from `folder` where it is relative.

    notes: whether there will be notes to fill in.

    Raises: ConfigError [not-found], [instruction].
    """
    path = folder / name if name.endswith(".md") else find("prompts", f"agents/{name}.md")
    if path.is_file() and not stays_in_folder(path):
        raise ConfigError(
            f"The instruction {path} links to a file outside its folder, which is not read. Pass the path of that file.",
            slug="instruction",
        )
    try:
        whole = read_regular_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The instruction {path} cannot be read ({error}). Give a UTF-8 file.", slug="instruction"
        ) from None
    try:
        read = front_matter(whole)
        head = _Head() if read is None else _Head.model_validate(read.head or {})
    except (ValidationError, YamlError) as error:
        said = misfit(error) if isinstance(error, ValidationError) else error
        raise ConfigError(
            f"The front matter of {path} does not fit: {said}. It may say `system:`, no more.", slug="instruction"
        ) from None
    template = whole if read is None else read.body
    places = set(_PLACE.findall(template))
    allowed = {"text", "notes"} if notes else {"text"}
    if "text" not in places or not places <= allowed or (notes and "notes" not in places):
        needs = "{{text}} and {{notes}}" if notes else "{{text}}"
        raise ConfigError(
            f"The instruction {path} has the places {', '.join(sorted(places)) or 'none'}; this agent needs {needs}, no other.",
            slug="instruction",
        )
    return Instruction(path.stem, template, head.system, hashlib.sha256(whole.encode()).hexdigest())


SOURCE = "source"
ALL = "*"

_Text = Annotated[str, Field(min_length=1)]


class AgentSpec(BaseModel):
    """One agent: a text of its own from the item's source, or from another agent's response.

    of: `source` (the item's prompt) or the id of the agent whose response is taken.
    model, instruction: asked what to make of it; the instruction is a file of prompts/agents/, or a path that ends in .md.
    reading: an instruction for a first step, whose answer is put to the second beside the text.
    temperature, max_tokens, seed: sent with the request; None is not sent.
    steps: transforms, in turn, of what the model said, or of the text itself where no model is asked.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    id: _Text
    group: _Text | None = None
    of: _Text = SOURCE
    model: _Text | None = None
    instruction: _Text | None = None
    reading: _Text | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] = 400
    seed: int | None = None
    steps: tuple[str | dict[str, dict[str, JsonValue]], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, data: object) -> object:
        if isinstance(data, Mapping) and isinstance(data.get("steps"), list):
            return {**data, "steps": tuple(data["steps"])}
        return data

    @model_validator(mode="after")
    def _says_how(self) -> Self:
        if (self.model is None) != (self.instruction is None):
            raise ValueError("model and instruction belong together: give both, or neither")
        if self.model is None and (self.reading or self.temperature is not None or self.seed is not None):
            raise ValueError("reading, temperature and seed are for a model; give model and instruction, too")
        if self.model is None and not self.steps:
            raise ValueError("it says nothing: give model and instruction, or steps")
        if any(isinstance(step, dict) and len(step) != 1 for step in self.steps):
            raise ValueError("a step is a name, or one name with its options, such as {truncate: {words: 20}}")
        return self

    @property
    def transforms(self) -> tuple[Step, ...]:
        """The steps, looked up. Raises: ConfigError [unknown-transform], [transform-option]."""
        return tuple(Step(step) if isinstance(step, str) else Step(*next(iter(step.items()))) for step in self.steps)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    seed: Annotated[int, Field(ge=0)] = 0
    items: _Text | None = None
    models: dict[str, str | dict[str, JsonValue]] = {}
    agents: Annotated[list[AgentSpec], Field(min_length=1)]


class AgentsFile(BaseModel):
    """What AGENTS.yaml says, its models found. agents: those built on others after them. items: where they are by default."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    path: Path
    seed: int
    items: str | None
    agents: tuple[AgentSpec, ...]
    models: dict[str, JudgeConfig]

    @property
    def ordered(self) -> tuple[AgentSpec, ...]:
        """The agents, each after the one it builds on."""
        done: dict[str, AgentSpec] = {}
        waiting = list(self.agents)
        while waiting:
            ready = [agent for agent in waiting if agent.of == SOURCE or agent.of in done]
            if not ready:
                raise ConfigError(
                    f"{self.path}: {', '.join(agent.id for agent in waiting)} build on each other in a circle. "
                    "Let one of them start from the source.",
                    slug="agents-circle",
                )
            done |= {agent.id: agent for agent in ready}
            waiting = [agent for agent in waiting if agent.id not in done]
        return tuple(done.values())


def load_agents(path: Path, *, model_map: Mapping[str, str] | None = None) -> AgentsFile:
    """The agents at `path`: a file, or a folder with an agents.yaml; `configs/…` and `datasets/…` may be shipped ones.

    model_map: model in the file (`*`: every one) → another in the file, a judge of configs/judges/, or a path that ends in .yaml.

    Raises: ConfigError [agents-file], [agents-circle], [agents-unknown], [model-map] and the judge config's.
    """
    place = _located(path)
    said = _parsed(place)
    ids = [agent.id for agent in said.agents]
    for agent in said.agents:
        if ids.count(agent.id) > 1 or agent.id == SOURCE:
            raise _wrong(place, f"the id '{agent.id}' is taken. Give every agent an id of its own.")
        if agent.of != SOURCE and agent.of not in ids:
            raise _wrong(place, f"agent '{agent.id}' is of '{agent.of}', which is no agent here. Correct `of`.")
        try:
            _ = agent.transforms
        except ConfigError as error:
            raise _wrong(place, f"agent '{agent.id}': {error.message}") from error
    named = sorted({agent.model for agent in said.agents if agent.model is not None})
    if unknown := sorted(set(model_map or {}) - {*named, ALL}):
        raise ConfigError(
            f"{place}: no agent asks a model called '{unknown[0]}'. Map one of {', '.join(named) or 'none'}, or all by '*'.",
            slug="model-map",
        )
    models = {name: _model(name, said, place, model_map or {}) for name in named}
    file = AgentsFile(path=place, seed=said.seed, items=said.items, agents=tuple(said.agents), models=models)
    _ = file.ordered
    return file


def _located(path: Path) -> Path:
    report_shadow_at(path)
    kind = path.parts[0] if path.parts else ""
    if not path.exists() and kind in ("configs", "datasets"):
        path = find("configs" if kind == "configs" else "datasets", Path(*path.parts[1:]).as_posix())
    return path / "agents.yaml" if path.is_dir() else path


def _parsed(place: Path) -> _File:
    try:
        data = read_yaml(place)
    except OSError as error:
        raise _wrong(place, f"it cannot be read ({error.strerror or error}). Give a UTF-8 YAML file.") from None
    except ValueError as error:
        raise _wrong(place, f"it is no YAML: {' '.join(str(error).split())}. Give a UTF-8 YAML file.") from None
    try:
        return _File.model_validate(data)
    except ValidationError as error:
        raise _wrong(place, f"{_whose(error, data)}{misfit(error, whole='the file')}. Correct it.") from None


def _whose(error: ValidationError, data: Any) -> str:
    """The agent that the error is about, by its id; empty for another part of the file."""
    match error.errors(include_url=False)[0]["loc"]:
        case ("agents", int(number), *_) if isinstance(agent := data["agents"][number], dict):
            return f"agent '{agent.get('id')}': "
    return ""


def _model(name: str, said: _File, place: Path, model_map: Mapping[str, str]) -> JudgeConfig:
    target = model_map.get(name, model_map.get(ALL, name))
    try:
        given = said.models.get(target, target)
        config = load_judge_config(given if isinstance(given, str) else {"name": target, **given}, file=place)
        if not config.makes_calls:
            raise ConfigError(f"'{config.backend}' makes no calls, so it writes no text.", slug="model-map")
    except YoudenError as error:
        raise ConfigError(
            f"{place}: the model '{name}'{'' if target == name else f' (mapped to {target!r})'} cannot be used: {error.message} "
            f"Name it under `models:`, or map it: --model-map {name}=JUDGE.",
            slug="model-map",
        ) from error
    return config


def _wrong(place: Path, problem: str) -> ConfigError:
    return ConfigError(f"{place}: {problem}", slug="agents-file")
