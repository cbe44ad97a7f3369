"""Makes a pool: every agent's response to every item, by models and by rule."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from youden.errors import ConfigError
from youden.judging.asking.endings import too_many_missing
from youden.judging.asking.stopping import run_until_stopped
from youden.judging.asking.terms import Asking, check_cap
from youden.judging.config.reading import JudgeConfig
from youden.judging.store.answers import open_store
from youden.nouns import Agent, Completion, Json, Judge, Pool
from youden.pools.make.agents import SOURCE, AgentsFile, AgentSpec
from youden.pools.make.asking_models import Models, Wanted, wanted_of
from youden.pools.make.generation import Generation, about
from youden.streams import own_stream
from youden.text.transforms import apply_steps

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
    asking: Asking | None = None,
    replay: bool = False,
    environment: Mapping[str, str] | None = None,
    judges: Mapping[str, Judge] | None = None,
    name: str = "generated",
) -> Generated:
    """Ask and transform until every agent has responded to every item; answers in `store` are not asked again.

    asking: the terms; its `max_missing` is the share of cells that may stay without a response, counted at the end.
    replay: answer from `store` alone, without calls, keys or a cap. judges: asked instead of the models so named.

    Raises: ConfigError before any call; BudgetError, JudgeError, TooManyMissingError with all answers kept for the same call;
    ReplayMissError.
    """
    asking = asking or Asking()
    models = _bounded(generation.file)
    if not replay:
        check_cap(models.values(), asking.max_cost)
    elif asking.retry_failed:
        raise ConfigError(
            "A replay asks nobody, so it cannot ask again what failed. Leave out --replay or --retry-failed.",
            slug="replay-retries",
        )
    with open_store(store, read_only=replay and generation.makes_calls) as answers:
        asked = Models(
            models,
            answers,
            asking,
            n_calls=generation.cost.calls,
            environment=os.environ if environment is None else environment,
            judges=judges or {},
            replay=replay,
        )
        texts = run_until_stopped(_made(generation, asked))
    return _result(generation, texts, asked, max_missing=asking.max_missing, name=name)


def requests_of(generation: Generation, answers: Callable[[list[str]], Mapping[str, Completion]]) -> dict[str, Wanted]:
    """Every request by its key that can be built from `answers` (of keys): a response follows from its reading's answer, and
    an agent that builds on another from the other's response."""
    listed = _Listed(answers)
    asyncio.run(_Making(generation, listed).texts())
    return listed.wanted


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
                one = wanted_of(config, messages, model=agent.model, agent=name, item=item.id)
                keys[name].append(one.key)
                wanted[one.key] = one
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
        why = "; ".join(models.reasons)
        raise too_many_missing(pool.n_missing, pool.present.size, why=why, max_missing=max_missing, what="responses")
    notes = (f"{models.n_failed} calls got no answer: {'; '.join(models.reasons)}",) if models.n_failed else ()
    return Generated(pool, models.n_asked, models.n_failed, models.usd, notes)


def _sent(agent: AgentSpec) -> dict[str, Json]:
    return {"temperature": agent.temperature, "max_tokens": agent.max_tokens, "seed": agent.seed}


def _rng(seed: int, agent: str, item: str) -> np.random.Generator:
    """One stream a cell, whatever else there is."""
    digest = hashlib.sha256(f"{seed}\0{agent}\0{item}".encode("utf-8", "surrogatepass")).digest()
    return own_stream(int.from_bytes(digest[:16], "little"))
