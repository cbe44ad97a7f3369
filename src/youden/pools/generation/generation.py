"""What `youden generate` is to make: agents, items and instructions, what asking for it can cost, and the recipe kept
beside the pool.

Nothing is asked here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter

from youden.data.atomic import replacing
from youden.data.folder.run_files import VERSION, parse, read_bytes
from youden.data.pools.pool_reader import RESPONSES, read_pool
from youden.errors import ConfigError
from youden.judging.config.judge_files import load_judge_config, price
from youden.pools.generation.agents import AgentsFile, AgentSpec, Instruction, load_instruction
from youden.pools.generation.item_sources import read_items
from youden.project_store import moved_store
from youden.text.printable import shown
from youden.text.words import synonyms
from youden.types import Item
from youden.types.planning import Cost
from youden.types.pool import Json, or_none

Instructions = tuple[Instruction | None, Instruction | None]
"""What an agent's model is told: for its response, and for its reading before."""


@dataclass(frozen=True, eq=False)
class Generation:
    """What is to be made. Nothing has been asked. repeats: how many responses of each agent to each item."""

    file: AgentsFile
    items: tuple[Item, ...]
    instructions: Mapping[str, Instructions]
    repeats: int = 1

    @property
    def responses(self) -> list[tuple[Item, int]]:
        """What each agent is to give: all first responses, then all second ones, …; the item, and which one it is, from 1."""
        return [(item, repeat) for repeat in range(1, self.repeats + 1) for item in self.items]

    @property
    def makes_calls(self) -> bool:
        return self.cost.calls > 0

    @cached_property
    def cost(self) -> Cost:
        """Calls, tokens in; tokens out are the most there can be, USD None where a price is unknown."""
        calls = tokens_in = tokens_out = 0
        usd = 0.0
        length = sum(len(item.prompt or "") for item, _ in self.responses)
        n_items = len(self.responses)
        for agent in self.file.agents:
            if agent.model is None:
                continue
            config = self.file.models[agent.model]
            steps = [one for one in self.instructions[agent.id] if one is not None]
            around = sum(len(message.content) for one in steps for message in one.messages("")) * n_items
            sent = (around + length * len(steps)) // 4 + (agent.max_tokens * n_items if agent.reading else 0)
            answered = agent.max_tokens * n_items * len(steps)
            calls, tokens_in, tokens_out = calls + len(steps) * n_items, tokens_in + sent, tokens_out + answered
            usd += price(config, sent, answered)
        return Cost(len(self.file.agents) * n_items, calls, tokens_in, tokens_out, or_none(usd))


def plan_generation(file: AgentsFile, items: tuple[Item, ...], *, repeats: int = 1) -> Generation:
    """Look up the instructions, and see that the steps can be taken here.

    Raises: ConfigError for an instruction that is missing or does not fit, and for a step whose package is not installed
    [synonyms-missing], before anything is paid for.
    """
    folder = file.path.parent
    if any(step.name == "synonyms" for agent in file.agents for step in agent.transforms):
        synonyms("good")
    instructions = {
        agent.id: (
            None
            if agent.instruction is None
            else load_instruction(agent.instruction, folder=folder, notes=bool(agent.reading)),
            None if agent.reading is None else load_instruction(agent.reading, folder=folder),
        )
        for agent in file.agents
    }
    return Generation(file, items, instructions, repeats)


def refuse_another_pool(generation: Generation, out: Path) -> None:
    """Whether a pool that is in `out` already was made by the same agents for the same items, and has no more repeats.

    Raises: ConfigError [generate-other].
    """
    if not (out / RESPONSES).exists():
        return
    there = read_pool(out)
    same_agents = {agent.id: dict(agent.meta) for agent in there.agents} == {
        agent.id: about(agent, generation) for agent in generation.file.agents
    }
    same_items = [(item.id, item.prompt) for item in there.items] == [
        (item.id, item.prompt) for item in generation.items
    ]
    if not (same_agents and same_items):
        raise ConfigError(
            f"{out} holds a pool of other {'items' if same_agents else 'agents'} already. "
            "Give an --out of its own, or delete that folder.",
            slug="generate-other",
        )
    if there.repeats > generation.repeats:
        raise ConfigError(
            f"{out} holds up to {there.repeats} responses of an agent to an item, and {generation.repeats} would take their "
            f"place. Say --repeats {there.repeats} or more, or give an --out of its own.",
            slug="generate-other",
        )


def about(agent: AgentSpec, generation: Generation) -> dict[str, Json]:
    """How the agent responds, as its meta."""
    about: dict[str, Json] = agent.model_dump(mode="json", exclude={"id", "group"}, exclude_defaults=True)
    about["seed"] = generation.file.seed if agent.seed is None else agent.seed
    if agent.model is not None:
        config = generation.file.models[agent.model]
        digests: list[Json] = [one.digest[:12] for one in generation.instructions[agent.id] if one is not None]
        about |= {"asked": config.model, "base_url": config.address, "instruction_digests": digests}
    return about


RECIPE: Final = "generation.json"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    version: int
    store: str
    seed: int
    models: dict[str, dict[str, JsonValue]]
    agents: tuple[AgentSpec, ...]
    instructions: dict[str, Instructions]
    repeats: int = 1


def is_generated(folder: Path) -> bool:
    """Whether `youden generate` made the pool in `folder`."""
    return (folder / RECIPE).is_file()


def write_recipe(folder: Path, generation: Generation, *, store: str) -> None:
    """Put the recipe beside the pool. store: an URL, or a path, which is kept relative to the folder."""
    file = generation.file
    recipe = _File(
        version=VERSION,
        store=shown(store) if "://" in store else Path(os.path.relpath(store, folder)).as_posix(),
        seed=file.seed,
        models={name: config.public() for name, config in file.models.items()},
        agents=file.agents,
        instructions=dict(generation.instructions),
        repeats=generation.repeats,
    )
    with replacing(folder / RECIPE) as fresh:
        written = recipe.model_dump_json(indent=1, exclude=None if generation.repeats > 1 else {"repeats"})
        fresh.write_text(written + "\n", encoding="utf-8", newline="\n")


def recorded_store(folder: Path) -> str:
    """Return the store of the answers that the generated pool in `folder` was made of."""
    store = _read(folder).store
    return store if "://" in store else str(moved_store(Path(os.path.normpath(folder / store)), folder))


def read_generation(folder: Path) -> Generation:
    """Read what was generated into `folder`. Raises: RunFolderError, ConfigError."""
    read = _read(folder)
    models = {name: load_judge_config(keys) for name, keys in read.models.items()}
    file = AgentsFile(path=folder / RECIPE, seed=read.seed, items=None, agents=read.agents, models=models)
    return Generation(file, read_items(str(folder)), read.instructions, read.repeats)


def _read(folder: Path) -> _File:
    return parse(folder / RECIPE, read_bytes(folder / RECIPE), TypeAdapter(_File))
