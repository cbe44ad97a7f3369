"""Define what `youden generate` makes: agents, items, instructions, the maximum cost, and the recipe.

The recipe is a file in the pool's folder, from which the requests can be built again. Nothing in this
module sends a request.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter

from youden.data.atomic import atomic_write
from youden.data.folder.run_files import VERSION, parse_versioned_json, read_bytes
from youden.data.pools.pool_reader import RESPONSES, find_file_of_other_pool, read_pool
from youden.errors import ConfigError
from youden.judging.config.judge_files import call_cost, load_judge_config
from youden.pools.generation.agents import SOURCE, AgentsFile, AgentSpec, Instruction, load_instruction
from youden.pools.generation.item_sources import read_items
from youden.project_store import find_moved_store
from youden.streams import standalone_stream
from youden.text.printable import redact_location
from youden.text.transforms import apply_steps
from youden.text.words import find_synonyms
from youden.types import Agent, Item
from youden.types.planning import Cost
from youden.types.pool import Json, or_none

Instructions = tuple[Instruction | None, Instruction | None]
"""Instructions for an agent's response, and for the notes that its model writes before; None without such a step."""


@dataclass(frozen=True, eq=False)
class Generation:
    """A pool to generate.

    Attributes
    ----------
    file : AgentsFile
        The agents.
    items : tuple of Item
    instructions : mapping
        Id of an agent → its instructions.
    repeats : int
        Number of responses of each agent to each item.
    """

    file: AgentsFile
    items: tuple[Item, ...]
    instructions: Mapping[str, Instructions]
    repeats: int = 1

    @property
    def responses(self) -> list[tuple[Item, int]]:
        """Item and number (from 1) of each response of an agent: the first responses to all items, then the second ones."""
        return [(item, repeat) for repeat in range(1, self.repeats + 1) for item in self.items]

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents of the pool, with their metadata."""
        return tuple(Agent(spec.id, spec.group, _make_agent_metadata(spec, self)) for spec in self.file.agents)

    @property
    def makes_calls(self) -> bool:
        """Whether an agent queries a model."""
        return self.cost.calls > 0

    @cached_property
    def cost(self) -> Cost:
        """Maximum number of calls and tokens, and their cost in USD. The cost is None if a price is unknown."""
        calls = tokens_in = tokens_out = 0
        usd = 0.0
        for agent in self.file.agents:
            if agent.model is None:
                continue
            agent_calls, agent_tokens_in, agent_tokens_out = self._estimate_usage(agent)
            calls += agent_calls
            tokens_in += agent_tokens_in
            tokens_out += agent_tokens_out
            usd += call_cost(self.file.models[agent.model], agent_tokens_in, agent_tokens_out)
        # responses of all agents, including those that transform a text and query no model
        n_responses = len(self.file.agents) * len(self.responses)
        return Cost(n_responses, calls, tokens_in, tokens_out, or_none(usd))

    def _count_input_characters(self, agent: AgentSpec) -> int:
        """Count the characters of all texts to which an agent responds: prompts, or another agent's longest responses."""
        while agent.based_on != SOURCE:
            agent = next(spec for spec in self.file.agents if spec.id == agent.based_on)
            if agent.model is not None:
                return 4 * agent.max_tokens * len(self.responses)
        return sum(len(item.prompt or "") for item, _ in self.responses)

    def _estimate_usage(self, agent: AgentSpec) -> tuple[int, int, int]:
        """Compute upper bounds on the calls and tokens of an agent that queries a model.

        The maximum cost of the agent follows from these bounds. A response needs one call. If the agent has an instruction for
        notes, a response needs two calls: the first one returns the notes, which are sent with the second one.

        Returns the maximum number of calls, of tokens sent to the model, and of tokens received from it.
        """
        instructions = [instruction for instruction in self.instructions[agent.id] if instruction is not None]
        n_responses = self.repeats * len(self.items)
        n_calls = n_responses * len(instructions)

        # characters of the instructions without the text and the notes that are inserted
        instruction_characters = 0
        for instruction in instructions:
            messages = instruction.messages(text="")
            instruction_characters += sum(len(message.content) for message in messages)

        n_characters = instruction_characters * n_responses + self._count_input_characters(agent) * len(instructions)
        tokens_in = n_characters // 4  # four characters count as one token
        if agent.notes_instruction:
            tokens_in += agent.max_tokens * n_responses  # the notes, which the second call sends to the model
        tokens_out = agent.max_tokens * n_calls
        return n_calls, tokens_in, tokens_out


def plan_generation(file: AgentsFile, items: tuple[Item, ...], *, repeats: int = 1) -> Generation:
    """Plan the generation of responses: load the instructions of the agents, and check their transforms.

    Parameters
    ----------
    file : AgentsFile
        Contents of AGENTS.yaml: the agents and their models.
    items : tuple of Item
        Items to which the agents respond.
    repeats : int, default 1
        Number of responses of each agent to each item, at least 1; not checked.

    Returns
    -------
    Generation
        Plan of the generation; no request has been sent. Its `cost` has the maximum numbers of calls and tokens, and the maximum
        cost in USD, None if a price is unknown.

    Raises
    ------
    ConfigError
        [not-found], [instruction]: if an instruction is missing or does not fit; [agents-file]: if an agent sets a seed, and the
        provider of its model rejects seeds; [transform-option]: if an option of a transform is not valid; [synonyms-missing]: if
        a transform needs a package that is not installed.
    """
    transforms = chain.from_iterable(agent.transforms for agent in file.agents)
    needs_thesaurus = any(transform.name == "synonyms" for transform in transforms)
    if needs_thesaurus:
        find_synonyms("good")  # for any word, raises [synonyms-missing] if the thesaurus is not installed
    _check_transform_options(file)

    _check_seeds(file)
    instructions = {agent.id: _load_instructions(agent, file.path.parent) for agent in file.agents}
    return Generation(file, items, instructions, repeats)


def _check_transform_options(file: AgentsFile) -> None:
    """Apply the transforms of all agents to a short text; raise ConfigError [transform-option] if an option is not valid."""
    for agent in file.agents:
        try:
            apply_steps("A first sentence. A second one.", agent.transforms, standalone_stream(0))
        except ConfigError as error:
            raise ConfigError(f"{file.path}: agent '{agent.id}': {error.message}", slug=error.slug) from error


def _check_seeds(file: AgentsFile) -> None:
    """Raise ConfigError [agents-file] if an agent sets a seed and the provider of its model rejects seeds."""
    for agent in file.agents:
        if agent.model is None or agent.seed is None:
            continue
        provider = file.models[agent.model].record
        if "seed" in provider.unsupported:
            raise ConfigError(
                f"{file.path}: agent '{agent.id}' sets `seed: {agent.seed}`, which {provider.title} rejects. Remove the seed, or "
                f"map the model '{agent.model}' to one of another provider.",
                slug="agents-file",
            )


def _load_instructions(agent: AgentSpec, folder: Path) -> Instructions:
    """Load the instructions that an agent's model receives.

    An instruction is a template of a prompt. An agent may have a second instruction, which asks its model for notes
    before the response.

    agent : agent with the names of its instructions
    folder : folder of the file that defines the agents, to which the paths of instructions are relative

    Returns the instructions for the response and for the notes; None for one that the agent does not have.
    """
    response: Instruction | None = None
    notes: Instruction | None = None
    if agent.instruction is not None:
        response = load_instruction(agent.instruction, folder=folder, notes=bool(agent.notes_instruction))
    if agent.notes_instruction is not None:
        notes = load_instruction(agent.notes_instruction, folder=folder)
    return response, notes


def check_output_pool(generation: Generation, out: Path) -> None:
    """Check that generating a pool in a folder would not overwrite another pool.

    The folder may contain a pool of the same agents and items. The generation then reproduces this pool, or adds further
    responses of the agents to it.

    Parameters
    ----------
    generation : Generation
        The pool to generate.
    out : Path
        Folder into which the pool is to be written.

    Raises
    ------
    ConfigError
        [out-not-empty]: if the folder contains a pool of other agents or items, or a pool with more responses of an agent to an
        item. Also if it contains no pool, but an agents.jsonl or items.jsonl with other contents.
    """
    if not (out / RESPONSES).exists():
        _check_no_foreign_file(generation, out)
        return

    existing = read_pool(out)
    existing_agents = {agent.id: dict(agent.meta) for agent in existing.agents}
    new_agents = {agent.id: dict(agent.meta) for agent in generation.agents}
    existing_items = [(item.id, item.prompt) for item in existing.items]
    new_items = [(item.id, item.prompt) for item in generation.items]
    if existing_agents != new_agents or existing_items != new_items:
        difference = "agents" if existing_agents != new_agents else "items"
        raise ConfigError(
            f"{out} already contains a pool of other {difference}. Set another --out, or remove that folder.",
            slug="out-not-empty",
        )
    if existing.repeats > generation.repeats:
        raise ConfigError(
            f"{out} already contains up to {existing.repeats} responses of an agent to an item, which {generation.repeats} would "
            f"replace. Set --repeats {existing.repeats} or more, or set another --out.",
            slug="out-not-empty",
        )


def _check_no_foreign_file(generation: Generation, out: Path) -> None:
    """Check that a folder without a pool has no agents.jsonl or items.jsonl that the generated pool would replace.

    A file with the agents or items of the generation is not replaced. Raises ConfigError [out-not-empty].
    """
    foreign_file = find_file_of_other_pool(generation.agents, generation.items, out)
    if foreign_file is not None:
        raise ConfigError(
            f"The generated pool would replace {foreign_file}, which has other content. Set another --out, or move it.",
            slug="out-not-empty",
        )


def _make_agent_metadata(agent: AgentSpec, generation: Generation) -> dict[str, Json]:
    """Return the metadata of an agent that describe how its responses are generated.

    `check_output_pool` compares them with the metadata in an existing pool, so that responses of an agent before and after a
    change are not mixed.

    Returns the seed and the fields of `agent` that differ from their defaults. For an agent with a model, also the provider's
    name of the model (the key "asked"), its address and the digests of the instructions.
    """
    metadata: dict[str, Json] = agent.model_dump(mode="json", exclude={"id", "group"}, exclude_defaults=True)
    metadata["seed"] = generation.file.seed if agent.seed is None else agent.seed
    if agent.model is None:
        return metadata

    config = generation.file.models[agent.model]
    instructions = [instruction for instruction in generation.instructions[agent.id] if instruction is not None]
    digests: list[Json] = [instruction.digest[:12] for instruction in instructions]
    metadata |= {"asked": config.model, "base_url": config.address, "instruction_digests": digests}
    return metadata


RECIPE: Final = "generation.json"


class _RecipeFile(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    version: int
    store: str
    seed: int
    models: dict[str, dict[str, JsonValue]]
    agents: tuple[AgentSpec, ...]
    instructions: dict[str, Instructions]
    repeats: int = 1


def is_generated(folder: Path) -> bool:
    """Return whether a folder has the recipe that `youden generate` writes when it has made a complete pool.

    Parameters
    ----------
    folder : Path
        Folder of the pool.

    Returns
    -------
    bool
        False for a folder that does not exist.
    """
    return (folder / RECIPE).is_file()


def write_recipe(folder: Path, generation: Generation, *, store: str) -> None:
    """Write the recipe of a generated pool (its agents, models and instructions) to generation.json in its folder.

    An existing file is replaced.

    Parameters
    ----------
    folder : Path
        Folder of the pool; it is created if it does not exist.
    generation : Generation
        What was generated.
    store : str
        Path or URL of the store. A path (absolute, or relative to the current directory) is written relative to `folder`, and
        a URL without its password.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    file = generation.file
    store_location = Path(os.path.relpath(store, folder)).as_posix()
    if "://" in store:
        store_location = redact_location(store)
    recipe = _RecipeFile(
        version=VERSION,
        store=store_location,
        seed=file.seed,
        models={name: config.public() for name, config in file.models.items()},
        agents=file.agents,
        instructions=dict(generation.instructions),
        repeats=generation.repeats,
    )
    excluded = None if generation.repeats > 1 else {"repeats"}
    text = recipe.model_dump_json(indent=1, exclude=excluded) + "\n"
    with atomic_write(folder / RECIPE) as tmp_path:
        tmp_path.write_text(text, encoding="utf-8", newline="\n")


def read_store_location(folder: Path) -> str:
    """Read the location of the store with the answers of a generated pool.

    Parameters
    ----------
    folder : Path
        Folder of the pool.

    Returns
    -------
    str
        Path or URL.

    Raises
    ------
    RunFolderError
        If the recipe (generation.json) is missing, damaged or of another version.
    """
    store = _read_recipe(folder).store
    if "://" in store:
        return store
    path = Path(os.path.normpath(folder / store))
    return str(find_moved_store(path, folder))


def read_generation(folder: Path) -> Generation:
    """Read what was generated in a folder, from its recipe and its items.

    Parameters
    ----------
    folder : Path
        Folder of a generated pool.

    Returns
    -------
    Generation
        Agents, items and instructions from which the responses were generated.

    Raises
    ------
    RunFolderError
        If the recipe (generation.json) is missing, damaged or of another version.
    ConfigError
        If a model cannot be used.
    """
    recipe = _read_recipe(folder)
    models = {name: load_judge_config(keys) for name, keys in recipe.models.items()}
    file = AgentsFile(path=folder / RECIPE, seed=recipe.seed, items=None, agents=recipe.agents, models=models)
    return Generation(file, read_items(str(folder)), recipe.instructions, recipe.repeats)


def _read_recipe(folder: Path) -> _RecipeFile:
    """Read the recipe of a generated pool; raise RunFolderError if it is missing, damaged or of another version."""
    return parse_versioned_json(folder / RECIPE, read_bytes(folder / RECIPE), TypeAdapter(_RecipeFile))
