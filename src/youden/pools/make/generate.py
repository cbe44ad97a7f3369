"""Makes a pool: every agent's response to every item, by models and by rule.

It knows the order in which agents can respond and what each is given; it refuses to know how a model is reached.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from youden.errors import ConfigError, TooManyMissingError
from youden.judging.asking.sight import Sight
from youden.judging.call.budget import Budget
from youden.judging.config.reading import JudgeConfig
from youden.judging.store.answers import open_store
from youden.nouns import Agent, Completion, Json, Judge, Pool, Progress, Request
from youden.pools.make.agents import SOURCE, AgentsFile, AgentSpec
from youden.pools.make.asking_models import Models, Wanted
from youden.pools.make.generation import Generation, about
from youden.streams import own_stream
from youden.text.transforms import apply_steps

MAX_MISSING = 0.01

Texts = dict[str, list[str | None]]


@dataclass(frozen=True, eq=False)
class Generated:
    """A pool, and what it took. usd: spent now, NaN where a price is unknown."""

    pool: Pool
    n_asked: int
    n_failed: int
    usd: float
    notes: tuple[str, ...]


def generate(
    generation: Generation,
    *,
    store: str | Path,
    max_cost: float | None = None,
    max_missing: float = MAX_MISSING,
    retry_failed: bool = False,
    replay: bool = False,
    progress: Progress | None = None,
    environment: Mapping[str, str] | None = None,
    judges: Mapping[str, Judge] | None = None,
    name: str = "generated",
) -> Generated:
    """Ask and transform until every agent has responded to every item; answers in `store` are not asked again.

    max_cost: USD this call may spend, needed where a model may cost money. max_missing: share of cells that may stay without
    a response. replay: answer from `store` alone, without calls, keys or a cap. judges: asked instead of the models so named.

    Raises: ConfigError before any call; BudgetError, JudgeError, TooManyMissingError with all answers kept for the same call;
    ReplayMissError.
    """
    if not replay:
        _check_cap(generation, max_cost)
    elif retry_failed:
        raise ConfigError(
            "A replay asks nobody, so it cannot ask again what failed. Leave out --replay or --retry-failed.",
            slug="replay-retries",
        )
    with open_store(store, read_only=replay and generation.makes_calls) as answers:
        sight = Sight(progress)
        sight.start(generation.cost.calls, what="generating")
        try:
            models = Models(
                _bounded(generation.file),
                answers,
                Budget(max_cost),
                sight,
                environment=os.environ if environment is None else environment,
                judges=judges or {},
                retry_failed=retry_failed,
                replay=replay,
            )
            texts = asyncio.run(_made(generation, models))
        finally:
            sight.stop()
    return _result(generation, texts, models, max_missing=max_missing, name=name)


def requests_of(generation: Generation, answers: Callable[[list[str]], Mapping[str, Completion]]) -> dict[str, Wanted]:
    """Every request by its key that can be built from `answers` (of keys): a response follows from its reading's answer, and
    an agent that builds on another from the other's response."""
    listed = _Listed(answers)
    asyncio.run(_Making(generation, listed).texts())
    return listed.wanted


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


def _bounded(file: AgentsFile) -> dict[str, JudgeConfig]:
    """The models, each with the longest answer that any agent asks of it, for the cap."""
    most = {name: max(agent.max_tokens for agent in file.agents if agent.model == name) for name in file.models}
    return {name: config.asked_with({"max_tokens": most[name]}) for name, config in file.models.items()}


async def _made(generation: Generation, models: Models) -> Texts:
    try:
        return await _Making(generation, models).texts()
    finally:
        await models.aclose()


class _Answers(Protocol):
    async def ask(self, wanted: Mapping[str, Wanted]) -> Mapping[str, Completion]: ...


class _Listed:
    """Asks nobody, and keeps what was wanted."""

    def __init__(self, answers: Callable[[list[str]], Mapping[str, Completion]]) -> None:
        self.wanted: dict[str, Wanted] = {}
        self._answers = answers

    async def ask(self, wanted: Mapping[str, Wanted]) -> Mapping[str, Completion]:
        self.wanted.update(wanted)
        return self._answers(list(wanted))


class _Making:
    """Rounds of asking, each of everything whose input is there, until all have responded."""

    def __init__(self, generation: Generation, models: _Answers) -> None:
        self._generation = generation
        self._file = generation.file
        self._items = generation.items
        self._models = models
        self._texts: Texts = {SOURCE: [item.prompt for item in generation.items]}

    async def texts(self) -> Texts:
        """agent → its responses, one an item; None where there could be none."""
        waiting = list(self._file.ordered)
        while waiting:
            await self._respond([agent for agent in waiting if agent.of in self._texts])
            waiting = [agent for agent in waiting if agent.id not in self._texts]
        return self._texts

    async def _respond(self, agents: list[AgentSpec]) -> None:
        """All responses of agents whose inputs are there: the readings first, then the responses, then the transforms."""
        notes = await self._ask({agent.id: (agent, 1) for agent in agents if agent.reading}, {})
        said = await self._ask({agent.id: (agent, 0) for agent in agents if agent.model}, notes)
        for agent in agents:
            inputs = said[agent.id] if agent.model else self._texts[agent.of]
            self._texts[agent.id] = [
                None if text is None else apply_steps(text, agent.transforms, _rng(self._file.seed, agent.id, item.id))
                for text, item in zip(inputs, self._items, strict=True)
            ]

    async def _ask(
        self,
        asking: Mapping[str, tuple[AgentSpec, int]],
        notes: Texts,
    ) -> Texts:
        """agent → the answers to its instruction (0) or its reading (1), one an item; None without input or answer."""
        keys: dict[str, list[str | None]] = {}
        wanted: dict[str, Wanted] = {}
        for name, (agent, which) in asking.items():
            instruction = self._generation.instructions[name][which]
            if agent.model is None or instruction is None:
                continue
            config = self._file.models[agent.model].asked_with(_sent(agent))
            keys[name] = []
            noted_all = notes.get(name, [""] * len(self._items))
            for item, text, noted in zip(self._items, self._texts[agent.of], noted_all, strict=True):
                if text is None or noted is None:
                    keys[name].append(None)
                    continue
                messages = instruction.messages(text, notes=noted)
                request = Request(config.model or "", messages, config.request_parameters)
                one = Wanted(agent.model, config.address, request, agent=name, item=item.id)
                keys[name].append(key := one.key)
                wanted[key] = one
        answers = await self._models.ask(wanted)
        texts = {key: completion.text or completion.refusal or "" for key, completion in answers.items()}
        return {name: [None if key is None else texts.get(key) for key in own] for name, own in keys.items()}


def _result(generation: Generation, made: Texts, models: Models, *, max_missing: float, name: str) -> Generated:
    agents = generation.file.agents
    texts = np.array([made[agent.id] for agent in agents], dtype=np.object_)
    pool = Pool(
        agents=tuple(Agent(agent.id, agent.group, about(agent, generation)) for agent in agents),
        items=generation.items,
        texts=texts.reshape(len(agents), len(generation.items)),
        name=name,
    )
    if pool.n_missing > max_missing * pool.present.size:
        raise TooManyMissingError(
            f"{pool.n_missing} of {pool.present.size} responses could not be had "
            f"({'; '.join(models.reasons) or 'no answer'}), more than max_missing = {max_missing:g} allows. "
            "Look at the models' configs, or raise --max-missing; answers are kept, and the same command goes on from them "
            "(--retry-failed asks again what has no answer).",
            slug="too-many-missing",
        )
    notes = (f"{models.n_failed} calls got no answer: {'; '.join(models.reasons)}",) if models.n_failed else ()
    return Generated(pool, models.n_asked, models.n_failed, models.budget.spent, notes)


def _sent(agent: AgentSpec) -> dict[str, Json]:
    return {"temperature": agent.temperature, "max_tokens": agent.max_tokens, "seed": agent.seed}


def _rng(seed: int, agent: str, item: str) -> np.random.Generator:
    """One stream a cell, whatever else there is."""
    digest = hashlib.sha256(f"{seed}\0{agent}\0{item}".encode("utf-8", "surrogatepass")).digest()
    return own_stream(int.from_bytes(digest[:16], "little"))
