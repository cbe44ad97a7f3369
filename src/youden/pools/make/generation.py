"""What `youden generate` is to make: agents, items and instructions, and what asking for it can cost.

Nothing is asked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from youden.data.pools.reader import RESPONSES, read_pool
from youden.errors import ConfigError
from youden.nouns import Cost, Item, Json
from youden.pools.make.agents import AgentsFile, AgentSpec
from youden.pools.make.instructions import Instruction, load_instruction
from youden.text.thesaurus import synonyms

Instructions = tuple[Instruction | None, Instruction | None]
"""What an agent's model is told: for its response, and for its reading before."""


@dataclass(frozen=True, eq=False)
class Generation:
    """What is to be made. Nothing has been asked."""

    file: AgentsFile
    items: tuple[Item, ...]
    instructions: Mapping[str, Instructions]

    @property
    def makes_calls(self) -> bool:
        return self.cost.calls > 0

    @cached_property
    def cost(self) -> Cost:
        """Calls, tokens in; tokens out are the most there can be, USD None where a price is unknown."""
        calls = tokens_in = tokens_out = 0
        usd: float | None = 0.0
        length = sum(len(item.prompt or "") for item in self.items)
        n_items = len(self.items)
        for agent in self.file.agents:
            if agent.model is None:
                continue
            config = self.file.models[agent.model]
            steps = [one for one in self.instructions[agent.id] if one is not None]
            around = sum(len(message.content) for one in steps for message in one.messages("")) * n_items
            sent = (around + length * len(steps)) // 4 + (agent.max_tokens * n_items if agent.reading else 0)
            answered = agent.max_tokens * n_items * len(steps)
            calls, tokens_in, tokens_out = calls + len(steps) * n_items, tokens_in + sent, tokens_out + answered
            if config.price_in is None or config.price_out is None:
                usd = None
            elif usd is not None:
                usd += (sent * config.price_in + answered * config.price_out) / 1e6
        return Cost(len(self.file.agents) * n_items, calls, tokens_in, tokens_out, usd)


def plan_generation(file: AgentsFile, items: tuple[Item, ...]) -> Generation:
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
    return Generation(file, items, instructions)


def refuse_another_pool(generation: Generation, out: Path) -> None:
    """Whether a pool that is in `out` already was made by the same agents for the same items.

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


def about(agent: AgentSpec, generation: Generation) -> dict[str, Json]:
    """How the agent responds, as its meta."""
    about: dict[str, Json] = agent.model_dump(mode="json", exclude={"id", "group"}, exclude_defaults=True)
    about["seed"] = generation.file.seed if agent.seed is None else agent.seed
    if agent.model is not None:
        config = generation.file.models[agent.model]
        digests: list[Json] = [one.digest[:12] for one in generation.instructions[agent.id] if one is not None]
        about |= {"asked": config.model, "base_url": config.address, "instruction_digests": digests}
    return about
