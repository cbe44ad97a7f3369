"""Read AGENTS.yaml, which defines the agents of a generated pool, and the instructions of their models.

An instruction is a file of prompts/agents/ with a placeholder for the text.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from youden.data.folder.config_paths import resolve_paths
from youden.errors import ConfigError, YoudenError
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.judging.question.prompts import make_fence
from youden.pools.generation.item_sources import ITEM_SOURCES
from youden.resources import find_resource, is_inside_folder, report_shadow_at
from youden.text.printable import find_name_fault
from youden.text.regular_files import read_regular_text
from youden.text.transforms import Step
from youden.text.yaml_text import YamlError, format_validation_error, read_yaml, split_front_matter
from youden.types import Message

_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class _FrontMatter(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str | None = None


@dataclass(frozen=True)
class Instruction:
    """Instruction of an agent's model.

    Attributes
    ----------
    name : str
        Name of its file.
    template : str
        Message with the placeholder {{text}} and, perhaps, {{notes}}.
    system : str or None
        System message.
    digest : str
        SHA-256 (hex) of the file's text.
    """

    name: str
    template: str
    system: str | None
    digest: str

    def messages(self, text: str, *, notes: str = "") -> tuple[Message, ...]:
        """Fill in the placeholders {{text}} and {{notes}} of the template.

        text : text for {{text}}
        notes : text for {{notes}}, by default empty

        Returns the system message, if there is one, and the user message, which is the filled template without white space at its
        ends. Each text is enclosed in tags, for example <text-…> and </text-…>, that do not occur in the text. A text is ignored
        if the template lacks its placeholder. Placeholders inside a text are not filled. Lone surrogates are replaced by "?".
        """
        text = text.encode("utf-8", "replace").decode()
        notes = notes.encode("utf-8", "replace").decode()
        fence = make_fence(text, notes)
        values = {
            "text": f"<text-{fence}>\n{text}\n</text-{fence}>",
            "notes": f"<notes-{fence}>\n{notes}\n</notes-{fence}>",
        }
        filled_template = _PLACEHOLDER.sub(lambda match: values[match[1]], self.template)
        user_message = Message("user", filled_template.strip())
        if self.system is None:
            return (user_message,)
        return Message("system", self.system), user_message


def load_instruction(name: str, *, folder: Path, notes: bool = False) -> Instruction:
    """Load the instruction of an agent: the template of the prompt that the agent's model receives.

    Parameters
    ----------
    name : str
        Path that ends in .md, or name of a file without this suffix. A name is searched for in the folder prompts/agents/ of
        the current folder, and then in that of youden.
    folder : Path
        Folder in which relative paths start.
    notes : bool, default False
        Whether the placeholder {{notes}} is required; otherwise it is not allowed. The placeholder {{text}} is always
        required, and no other placeholder is allowed.

    Returns
    -------
    Instruction
        Name (that of the file without its suffix), template, system message (the key `system` of the front matter; None without
        one), and SHA-256 (hex) of the file.

    Raises
    ------
    ConfigError
        [not-found]: if prompts/agents/ has no such file; [shadowed]: if a file of the current folder replaces a different one of
        youden, and the environment variable CI is set; [instruction]: if the file cannot be read, or its placeholders or front
        matter are invalid.
    """
    path = folder / name if name.lower().endswith(".md") else find_resource("prompts", f"agents/{name}.md")
    content = _read_instruction(path)
    try:
        parts = split_front_matter(content)
        front_matter = _FrontMatter() if parts is None else _FrontMatter.model_validate(parts.head or {})
    except (ValidationError, YamlError) as error:
        problem = format_validation_error(error) if isinstance(error, ValidationError) else error
        raise ConfigError(
            f"The front matter of {path} does not fit: {problem}. Set only the key `system`.", slug="instruction"
        ) from None

    template = content if parts is None else parts.body
    _check_placeholders(template, front_matter.system or "", path, notes=notes)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return Instruction(path.stem, template, front_matter.system, digest)


def _read_instruction(path: Path) -> str:
    """Read the file of an instruction, which is the template of the prompt that an agent's model receives.

    A link to a file outside the folder is not followed.

    Returns the text of the file.

    Raises ConfigError [instruction] if the file is such a link, does not exist, or is not in UTF-8.
    """
    if path.is_file() and not is_inside_folder(path):
        raise ConfigError(
            f"The instruction {path} links to a file outside its folder, which is not read. Pass the path of that file.",
            slug="instruction",
        )

    try:
        return read_regular_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The instruction {path} cannot be read ({error}). Pass a UTF-8 file.", slug="instruction"
        ) from None


def _check_placeholders(template: str, system: str, path: Path, *, notes: bool) -> None:
    """Check that the template of an instruction contains the placeholders that the agent needs, and no others.

    template : text with placeholders: {{text}} for the prompt of the item or the response to rewrite, and {{notes}} for notes
    system : system message, in which no placeholder is filled
    path : file of the template, for the error message
    notes : whether {{notes}} is required; otherwise it is not allowed

    Raises ConfigError [instruction].
    """
    placeholders = set(_PLACEHOLDER.findall(template))
    expected = {"text", "notes"} if notes else {"text"}
    placeholders |= {f"{name} in `system`" for name in _PLACEHOLDER.findall(system)}
    if placeholders != expected:
        required = "{{text}} and {{notes}}" if notes else "{{text}}"
        raise ConfigError(
            f"The placeholders of the instruction {path} do not fit: got {', '.join(sorted(placeholders)) or 'none'}. Set "
            f"{required} for this agent below the front matter, and no others.",
            slug="instruction",
        )


SOURCE = "source"
"""Value of `based_on` for an agent whose text is the prompt of the item."""
_ALL_MODELS = "*"
_UNUSED_MODEL_KEYS = ("temperature", "max_tokens", "seed", "prompt", "decision", "truncate")
"""Keys of a judge that a model under `models:` must not set, because they would have no effect. The value null is allowed."""

_Text = Annotated[str, Field(min_length=1)]


class AgentSpec(BaseModel):
    """An agent, which responds to a prompt, or to another agent's response.

    Attributes
    ----------
    id : str
    group : str, optional
    based_on : str
        `source` for the item's prompt, or the id of the agent whose response is used.
    model, instruction : str, optional
        Model that makes the response, and its instruction: a file of prompts/agents/, or a path that ends in .md.
    notes_instruction : str, optional
        Instruction for a first request, whose answer is inserted as {{notes}} into that of the second.
    temperature, seed : float, int, optional
        Sent with the request; None is not sent.
    max_tokens : int, default 400
        Maximum number of tokens of an answer, sent with the request.
    steps : tuple
        Transforms that are applied, in order, to the model's answer or, without a model, to the text.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    id: _Text
    group: _Text | None = None
    based_on: _Text = SOURCE
    model: _Text | None = None
    instruction: _Text | None = None
    notes_instruction: _Text | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] = 400
    seed: int | None = None
    steps: tuple[str | dict[str, dict[str, JsonValue]], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _convert_lists(cls, data: object) -> object:
        """Convert a list of steps to a tuple, which a strict model requires."""
        if isinstance(data, Mapping) and isinstance(data.get("steps"), list):
            return {**data, "steps": tuple(data["steps"])}
        return data

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        """Check that the agent has a model or steps, and that fields that need each other are set together.

        Raises ValueError. The message has no subject, because it is printed after the id of the agent.
        """
        if (self.model is None) != (self.instruction is None):
            raise ValueError("model and instruction belong together; set both or neither")
        if self.model is None and (self.notes_instruction or self.temperature is not None or self.seed is not None):
            raise ValueError("notes_instruction, temperature and seed need a model; set model and instruction, too")
        if self.model is None and not self.steps:
            raise ValueError("it defines no response; set model and instruction, or steps")
        has_invalid_step = any(isinstance(step, dict) and len(step) != 1 for step in self.steps)
        if has_invalid_step:
            raise ValueError("a step is a name, or one name with its options, such as {truncate: {words: 20}}")
        return self

    @property
    def transforms(self) -> tuple[Step, ...]:
        """The transforms in `steps`, with their options, as objects that can be applied to texts.

        Raises ConfigError [unknown-transform] if there is no transform with the name, and [transform-option] if the transform
        does not have one of the options.
        """
        transforms = []
        for step in self.steps:
            if isinstance(step, str):
                transforms.append(Step(step, {}))  # checks the name
            else:
                [(name, options)] = step.items()
                transforms.append(Step(name, options))  # checks the name and the options
        return tuple(transforms)


class _AgentsYaml(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    seed: Annotated[int, Field(ge=0)] = 0
    items: _Text | None = None
    models: dict[str, str | dict[str, JsonValue]] = {}
    agents: Annotated[list[AgentSpec], Field(min_length=1)]


class AgentsFile(BaseModel):
    """Agents of a file, and their models.

    Attributes
    ----------
    path : Path
        The file.
    seed : int
        Seed of the transforms.
    items : str or None
        Default source of items.
    agents : tuple of AgentSpec
    models : dict
        Name of a model → its config.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    path: Path
    seed: int
    items: str | None
    agents: tuple[AgentSpec, ...]
    models: dict[str, JudgeConfig]

    @property
    def sorted_agents(self) -> tuple[AgentSpec, ...]:
        """Agents, sorted so that each one follows the agent on which it is based.

        Raises ConfigError [agents-circle] if agents are based on each other in a cycle.
        """
        agents_by_id: dict[str, AgentSpec] = {}  # in the order of the result
        waiting = list(self.agents)
        while waiting:
            ready = [agent for agent in waiting if agent.based_on == SOURCE or agent.based_on in agents_by_id]
            if not ready:
                raise ConfigError(
                    f"{self.path}: {', '.join(agent.id for agent in waiting)} are based on each other in a circle. "
                    "Set `based_on: source` for one of them.",
                    slug="agents-circle",
                )
            agents_by_id |= {agent.id: agent for agent in ready}
            waiting = [agent for agent in waiting if agent.id not in agents_by_id]
        return tuple(agents_by_id.values())


def load_agents(path: Path, *, model_map: Mapping[str, str] | None = None) -> AgentsFile:
    """Read a file that defines agents, such as agents.yaml, and load the configs of their models.

    Parameters
    ----------
    path : Path
        The file, or a folder with an agents.yaml. If a path that begins with configs/ or datasets/ does not exist, it is
        searched for among the files that ship with youden.
    model_map : mapping of str to str, optional
        Maps the name of a model in the file, or `*` for all models, to its replacement. A replacement is another model of the
        file, a judge of configs/judges/, or a path that ends in .yaml. Default: no model is replaced.

    Returns
    -------
    AgentsFile
        The agents, and the config of each model that they use.

    Raises
    ------
    ConfigError
        [agents-file]: if the file cannot be read, or its content does not fit; [agents-circle]: if an agent is based on itself,
        directly or through other agents; [model-map]: if a model cannot be used, or if `model_map` has the name of a model
        that no agent uses.
    """
    path = _find_agents_file(path)
    content = _parse_file(path)
    _check_agents(content, path)

    replacements = model_map or {}
    names = sorted({agent.model for agent in content.agents if agent.model is not None})
    _check_model_map(replacements, names, path)
    models = {name: _load_model(name, content, path, replacements) for name in names}
    items = _resolve_items(content.items, path.parent)
    file = AgentsFile(path=path, seed=content.seed, items=items, agents=tuple(content.agents), models=models)
    _ = file.sorted_agents  # raises [agents-circle] if the agents cannot be sorted
    return file


def _resolve_items(source: str | None, folder: Path) -> str | None:
    """Return the source of items of an agents' file: a registered name, or a path that is joined to the folder of the file."""
    is_name = source in list(ITEM_SOURCES) and not (folder / source).exists()
    return source if source is None or is_name else str(resolve_paths("pool", source, folder))


def _check_model_map(model_map: Mapping[str, str], names: Sequence[str], path: Path) -> None:
    """Check that `model_map` replaces only models in `names`, which agents use; raise ConfigError [model-map] otherwise."""
    remedy = "Remove the mapping: the agents use no model"
    valid_keys = set(names)
    if names:
        remedy = f"Map one of {', '.join(names)}, or all with '*'"
        valid_keys.add(_ALL_MODELS)
    unknown_names = sorted(set(model_map) - valid_keys)
    if unknown_names:
        raise ConfigError(f"{path}: no agent uses the model '{unknown_names[0]}'. {remedy}.", slug="model-map")


def _check_agents(content: _AgentsYaml, path: Path) -> None:
    """Check the agents of a file, and raise ConfigError [agents-file] for the first one that is not valid.

    The id of an agent must be unique and not `source`. A pool must allow its id and its group. Its `based_on` must be `source`
    or the id of an agent. Its transforms must exist.
    """
    n_uses = Counter(agent.id for agent in content.agents)
    for agent in content.agents:
        if n_uses[agent.id] > 1 or agent.id == SOURCE or not agent.id.strip():
            raise _make_file_error(path, f"the id '{agent.id}' is not available. Set a different id for every agent.")
        for key, name in (("id", agent.id), ("group", agent.group or "")):
            fault = find_name_fault(name)
            if fault:
                raise _make_file_error(path, f"the {key} {name!r} of an agent {fault}")
        if agent.based_on != SOURCE and agent.based_on not in n_uses:
            raise _make_file_error(
                path,
                f"agent '{agent.id}' is based on '{agent.based_on}', which is not an agent of this file. "
                "Set `based_on` to an agent.",
            )
        try:
            _ = agent.transforms  # raises an error if a transform does not exist
        except ConfigError as error:
            raise _make_file_error(path, f"agent '{agent.id}': {error.message}") from error


def _find_agents_file(path: Path) -> Path:
    """Return the path of an agents' file; a missing path below configs/ or datasets/ is searched for in the package."""
    report_shadow_at(path)
    kind = path.parts[0] if path.parts else ""
    if not path.exists() and kind in ("configs", "datasets"):
        path = find_resource("configs" if kind == "configs" else "datasets", Path(*path.parts[1:]).as_posix())
    return path / "agents.yaml" if path.is_dir() else path


def _parse_file(path: Path) -> _AgentsYaml:
    """Read and validate an agents' file; raise ConfigError [agents-file] if it cannot be read or is invalid."""
    try:
        data = read_yaml(path)
    except OSError as error:
        raise _make_file_error(
            path, f"it cannot be read ({error.strerror or error}). Pass a UTF-8 YAML file."
        ) from None
    except ValueError as error:
        raise _make_file_error(
            path, f"it is not YAML: {' '.join(str(error).split())}. Pass a UTF-8 YAML file."
        ) from None
    try:
        return _AgentsYaml.model_validate(data)
    except ValidationError as error:
        raise _make_file_error(
            path,
            f"{_format_agent(error, data)}{format_validation_error(error, subject='the file')}. Add or correct this key.",
        ) from None


def _format_agent(error: ValidationError, data: Any) -> str:
    """Return the id of the agent that an error concerns, as the beginning of a message; empty for another part of the file."""
    match error.errors(include_url=False)[0]["loc"]:
        case ("agents", int(number), *_) if isinstance(agent := data["agents"][number], dict):
            return f"agent '{agent.get('id')}': "
    return ""


def _load_model(name: str, content: _AgentsYaml, path: Path, model_map: Mapping[str, str]) -> JudgeConfig:
    """Load the config of a model, or of the model that replaces it.

    A model has the same config keys as a judge. Under `models:`, the agents' file defines it by these keys, or by the name or
    path of a judge config. A name that the file does not define is itself the name or path of a judge config. Paths in the file
    are relative to its folder, and those in `model_map` to the current directory.

    name : name of the model
    content : contents of the agents' file
    path : the agents' file
    model_map : name of a model → name of its replacement, from the option --model-map; the key "*" replaces all others

    Raises: ConfigError [model-map] if the config is invalid or its backend makes no calls.
    """
    default_replacement = model_map.get(_ALL_MODELS, name)
    used_name = model_map.get(name, default_replacement)
    definition = content.models.get(used_name, used_name)  # an undefined name is the name or path of a judge config
    if isinstance(definition, dict):
        _check_model_keys(used_name, definition, path)
        definition = {"name": used_name, **definition}
    elif used_name in content.models or used_name == name:  # not from the command line
        definition = str(resolve_paths("judge", definition, path.parent))
    try:
        config = load_judge_config(definition, file=path)
        if not config.makes_calls:
            raise ConfigError(f"'{config.backend}' makes no calls, so it cannot write a text.", slug="model-map")
    except YoudenError as error:
        mapping = "" if used_name == name else f" (mapped to {used_name!r})"
        raise ConfigError(
            f"{path}: the model '{name}'{mapping} cannot be used: {error.message} "
            f"Add it under `models:`, or map it with --model-map {name}=JUDGE.",
            slug="model-map",
        ) from error
    return config.with_changes({"decision": "text"})  # it writes a text instead of deciding


def _check_model_keys(name: str, keys: Mapping[str, object], path: Path) -> None:
    """Raise ConfigError [agents-file] if a model under `models:` sets a key that is not used to generate texts."""
    unused_keys = [key for key in _UNUSED_MODEL_KEYS if keys.get(key) is not None]
    if unused_keys:
        raise _make_file_error(
            path,
            f"the model '{name}' sets {', '.join(unused_keys)}, which would have no effect. Remove these keys; temperature, "
            "max_tokens and seed are keys of an agent.",
        )


def _make_file_error(path: Path, problem: str) -> ConfigError:
    """Make the error for a problem of the agents' file; `problem` is the message after the path."""
    return ConfigError(f"{path}: {problem}", slug="agents-file")
