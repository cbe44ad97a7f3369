"""How a pool was made, kept in its folder, so that its requests can be built again.

It keeps agents, models and instructions as they were read. Keys are not kept, and items are in the pool.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter

from youden.data.atomic import replacing
from youden.data.folder.run_files import VERSION, parse, read_bytes
from youden.judging.config.reading import load_judge_config
from youden.pools.make.agents import AgentsFile, AgentSpec
from youden.pools.make.generation import Generation, Instructions
from youden.pools.make.item_sources import read_items
from youden.text.places import shown

RECIPE: Final = "generation.json"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    version: int
    store: str
    seed: int
    models: dict[str, dict[str, JsonValue]]
    agents: tuple[AgentSpec, ...]
    instructions: dict[str, Instructions]


@dataclass(frozen=True, eq=False)
class Recipe:
    """What was made, and the store of its answers."""

    generation: Generation
    store: str


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
    )
    with replacing(folder / RECIPE) as fresh:
        fresh.write_text(recipe.model_dump_json(indent=1) + "\n", encoding="utf-8", newline="\n")


def read_recipe(folder: Path) -> Recipe:
    """The recipe of the pool in `folder`. Raises: RunFolderError, ConfigError."""
    place = folder / RECIPE
    read = parse(place, read_bytes(place), TypeAdapter(_File))
    models = {name: load_judge_config(said) for name, said in read.models.items()}
    file = AgentsFile(path=place, seed=read.seed, items=None, agents=read.agents, models=models)
    store = read.store if "://" in read.store else os.path.normpath(folder / read.store)
    return Recipe(Generation(file, read_items(str(folder)), read.instructions), store)
