"""Makes a pool: every agent's response to every item, by models and by rule.

It knows the order in which agents can respond and what each is given; it refuses to know how a model is reached.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from youden.data.pool_reader import RESPONSES, read_pool
from youden.errors import ConfigError, TooManyMissingError
from youden.judging.budget import Budget
from youden.judging.judge_config import JudgeConfig
from youden.judging.registry import calling_judge
from youden.judging.sight import Sight
from youden.judging.store import open_store
from youden.pools.agents import SOURCE, AgentsFile, AgentSpec
from youden.pools.asking_models import Models, key_for
from youden.pools.instructions import Instruction, load_instruction
from youden.text.transforms import apply_steps
from youden.types import Agent, Cost, Item, Json, Judge, Pool, Progress, Request

MAX_MISSING = 0.01

ModelsOf = Callable[[Mapping[str, JudgeConfig], Callable[[str], Judge]], Models]


@dataclass(frozen=True, eq=False)
class Generation:
    """What is to be made, and at most at what cost. Nothing has been asked."""

    file: AgentsFile
    items: tuple[Item, ...]
    instructions: Mapping[str, tuple[Instruction | None, Instruction | None]]
    cost: Cost

    @property
    def makes_calls(self) -> bool:
        return self.cost.calls > 0


@dataclass(frozen=True, eq=False)
class Generated:
    """A pool, and what it took. usd: spent now, NaN where a price is unknown."""

    pool: Pool
    n_asked: int
    n_failed: int
    usd: float
    notes: tuple[str, ...]


def plan_generation(file: AgentsFile, items: tuple[Item, ...]) -> Generation:
    """Look up the instructions and count calls. Tokens out are the most there can be, USD None where a price is unknown.

    Raises: ConfigError for an instruction that is missing or does not fit.
    """
    folder = file.path.parent
    instructions = {
        agent.id: (
            None
            if agent.instruction is None
            else load_instruction(agent.instruction, folder=folder, notes=bool(agent.reading)),
            None if agent.reading is None else load_instruction(agent.reading, folder=folder),
        )
        for agent in file.agents
    }
    calls = tokens_in = tokens_out = 0
    usd: float | None = 0.0
    length = sum(len(item.prompt or "") for item in items)
    for agent in file.agents:
        if agent.model is None:
            continue
        config = file.models[agent.model]
        steps = [one for one in instructions[agent.id] if one is not None]
        around = sum(len(message.content) for one in steps for message in one.messages("")) * len(items)
        sent = (around + length * len(steps)) // 4 + (agent.max_tokens * len(items) if agent.reading else 0)
        answered = agent.max_tokens * len(items) * len(steps)
        calls, tokens_in, tokens_out = calls + len(steps) * len(items), tokens_in + sent, tokens_out + answered
        if config.price_in is None or config.price_out is None:
            usd = None
        elif usd is not None:
            usd += (sent * config.price_in + answered * config.price_out) / 1e6
    cells = len(file.agents) * len(items)
    return Generation(file, items, instructions, Cost(cells, calls, tokens_in, tokens_out, usd))


def refuse_another_pool(generation: Generation, out: Path) -> None:
    """Whether a pool that is in `out` already was made by the same agents for the same items.

    Raises: ConfigError [generate-other].
    """
    if not (out / RESPONSES).exists():
        return
    there = read_pool(out)
    same_agents = {agent.id: dict(agent.meta) for agent in there.agents} == {
        agent.id: _about(agent, generation) for agent in generation.file.agents
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


def generate(
    generation: Generation,
    *,
    store: str | Path,
    max_cost: float | None = None,
    max_missing: float = MAX_MISSING,
    retry_failed: bool = False,
    progress: Progress | None = None,
    environment: Mapping[str, str] | None = None,
    judges: Mapping[str, Judge] | None = None,
    name: str = "generated",
) -> Generated:
    """Ask and transform until every agent has responded to every item; answers in `store` are not asked again.

    max_cost: USD this call may spend, needed where a model may cost money. max_missing: share of cells that may stay without
    a response. judges: asked instead of the models so named.

    Raises: ConfigError before any call; BudgetError, JudgeError, TooManyMissingError with all answers kept for the same call.
    """
    _check_cap(generation, max_cost)
    with open_store(store) as answers:
        sight = Sight(progress)
        sight.start(generation.cost.calls, what="generating")
        try:
            return asyncio.run(
                _Making(generation, name, max_missing).run(
                    lambda configs, connect: Models(configs, connect, answers, Budget(max_cost), sight, retry_failed),
                    os.environ if environment is None else environment,
                    judges or {},
                )
            )
        finally:
            sight.stop()


def _check_cap(generation: Generation, max_cost: float | None) -> None:
    for config in generation.file.models.values():
        if config.may_cost and max_cost is None:
            raise ConfigError(
                f"Asking '{config.name}' can cost money, and no cap was given. Set --max-cost (USD); for a server of your own "
                "say `price: 0` in the model's config.",
                slug="max-cost-needed",
            )
        if max_cost is not None and (config.price_in is None or config.price_out is None):
            raise ConfigError(
                f"There is a cap of {max_cost:g} USD, but the price of '{config.name}' is unknown. Set price_in and price_out "
                "(USD per million tokens) in its config; `price: 0` for a server of your own.",
                slug="price-unknown",
            )


class _Making:
    """Rounds of asking, each of everything whose input is there, until all have responded."""

    def __init__(self, generation: Generation, name: str, max_missing: float) -> None:
        self._generation = generation
        self._file = generation.file
        self._items = generation.items
        self._name = name
        self._max_missing = max_missing
        self._texts: dict[str, list[str | None]] = {SOURCE: [item.prompt for item in generation.items]}

    async def run(self, models_of: ModelsOf, environment: Mapping[str, str], judges: Mapping[str, Judge]) -> Generated:
        async with AsyncExitStack() as stack:

            def connect(name: str) -> Judge:
                if name in judges:
                    return judges[name]
                config = self._file.models[name]
                asked = calling_judge(config.backend, config.connection(environment))
                if hasattr(asked, "aclose"):
                    stack.push_async_callback(asked.aclose)
                return asked

            models = models_of(
                {
                    name: config.model_copy(update={"max_tokens": self._most(name)})
                    for name, config in self._file.models.items()
                },
                connect,
            )
            waiting = list(self._file.ordered)
            while waiting:
                ready = [agent for agent in waiting if agent.of in self._texts]
                await self._respond(ready, models)
                waiting = [agent for agent in waiting if agent.id not in self._texts]
        return self._result(models)

    def _most(self, model: str) -> int:
        return max(agent.max_tokens for agent in self._file.agents if agent.model == model)

    async def _respond(self, agents: list[AgentSpec], models: Models) -> None:
        """All responses of agents whose inputs are there: the readings first, then the responses, then the transforms."""
        notes = await self._ask({agent.id: (agent, 1) for agent in agents if agent.reading}, {}, models)
        said = await self._ask({agent.id: (agent, 0) for agent in agents if agent.model}, notes, models)
        for agent in agents:
            inputs = said[agent.id] if agent.model else self._texts[agent.of]
            self._texts[agent.id] = [
                None if text is None else apply_steps(text, agent.transforms, _rng(self._file.seed, agent.id, item.id))
                for text, item in zip(inputs, self._items, strict=True)
            ]

    async def _ask(
        self,
        asking: Mapping[str, tuple[AgentSpec, int]],
        notes: Mapping[str, list[str | None]],
        models: Models,
    ) -> dict[str, list[str | None]]:
        """agent → the answers to its instruction (0) or its reading (1), one an item; None without input or answer."""
        keys: dict[str, list[str | None]] = {}
        wanted: dict[str, tuple[str, Request]] = {}
        for name, (agent, which) in asking.items():
            instruction = self._generation.instructions[name][which]
            if agent.model is None or instruction is None:
                continue
            config = self._file.models[agent.model].model_copy(update=_sent(agent))
            keys[name] = []
            for number, text in enumerate(self._texts[agent.of]):
                noted = notes[name][number] if name in notes else ""
                if text is None or noted is None:
                    keys[name].append(None)
                    continue
                messages = instruction.messages(text, notes=noted)
                request = Request(config.model or "", messages, config.request_parameters)
                key = key_for(request, address=config.address, asker=name)
                wanted[key] = (agent.model, request)
                keys[name].append(key)
        answers = await models.ask(wanted)
        texts = {key: completion.text or completion.refusal or "" for key, completion in answers.items()}
        return {name: [None if key is None else texts.get(key) for key in own] for name, own in keys.items()}

    def _result(self, models: Models) -> Generated:
        texts = np.array([self._texts[agent.id] for agent in self._file.agents], dtype=np.object_)
        pool = Pool(
            agents=tuple(Agent(agent.id, agent.group, _about(agent, self._generation)) for agent in self._file.agents),
            items=self._items,
            texts=texts.reshape(len(self._file.agents), len(self._items)),
            name=self._name,
        )
        if pool.n_missing > self._max_missing * pool.present.size:
            raise TooManyMissingError(
                f"{pool.n_missing} of {pool.present.size} responses could not be had "
                f"({'; '.join(models.reasons) or 'no answer'}), more than max_missing = {self._max_missing:g} allows. "
                "Look at the models' configs, or raise --max-missing; answers are kept, and the same command goes on from them "
                "(--retry-failed asks again what has no answer).",
                slug="too-many-missing",
            )
        notes = (f"{models.n_failed} calls got no answer: {'; '.join(models.reasons)}",) if models.n_failed else ()
        return Generated(pool, models.n_asked, models.n_failed, models.budget.spent, notes)


def _about(agent: AgentSpec, generation: Generation) -> dict[str, Json]:
    """How the agent responds, as its meta."""
    about: dict[str, Json] = agent.model_dump(mode="json", exclude={"id", "group"}, exclude_defaults=True)
    about["seed"] = generation.file.seed if agent.seed is None else agent.seed
    if agent.model is not None:
        config = generation.file.models[agent.model]
        digests: list[Json] = [one.digest[:12] for one in generation.instructions[agent.id] if one is not None]
        about |= {"asked": config.model, "base_url": config.address, "instruction_digests": digests}
    return about


def _sent(agent: AgentSpec) -> dict[str, Json]:
    return {"temperature": agent.temperature, "max_tokens": agent.max_tokens, "seed": agent.seed}


def _rng(seed: int, agent: str, item: str) -> np.random.Generator:
    """One stream a cell, whatever else there is."""
    digest = hashlib.sha256(f"{seed}\0{agent}\0{item}".encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))
