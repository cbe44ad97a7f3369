"""Makes a pool: agents respond to items, models are asked by the loop that also asks judges, and a text that was paid
for is asked once.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from youden.errors import BudgetError, ConfigError, ReplayMissError
from youden.judging.asking.calling import Caller
from youden.judging.asking.endings import StopReason, out_of_money, run_until_stopped, too_many_missing
from youden.judging.asking.loop import Loop, ask_all
from youden.judging.asking.progress_log import EventLog, ProgressLog
from youden.judging.asking.terms import Asking, check_cap
from youden.judging.call.budget import Budget
from youden.judging.call.connection import Backend
from youden.judging.call.failures import Failure
from youden.judging.config.reading import JudgeConfig
from youden.judging.engine import connect
from youden.judging.outside.cassette_file import Entry, entry
from youden.judging.question.questions import canonical, key_of
from youden.judging.store.answers import Store, open_store
from youden.nouns import Agent, Completion, Json, Judge, Message, Pool, Request
from youden.pools.make.agents import SOURCE, AgentsFile, AgentSpec
from youden.pools.make.generation import Generation, about
from youden.streams import own_stream
from youden.text.transforms import apply_steps

SCHEMA = 1


@dataclass(frozen=True)
class Wanted:
    """A request on behalf of an agent, about an item. model: by its name among those that are asked together.

    key: what the answer is stored under. Two agents with the same words get two texts.
    """

    key: str
    request: Request
    address: str
    model: str
    agent: str
    item: str

    def __str__(self) -> str:
        return f"agent '{self.agent}' on item '{self.item}'"


def wanted_of(config: JudgeConfig, messages: tuple[Message, ...], *, model: str, agent: str, item: str) -> Wanted:
    """What `agent` asks of the model that `config` describes."""
    asked_as: dict[str, Json] = {"generated": SCHEMA, "asker": agent}
    request = Request(config.model or "", messages, config.request_parameters, asked_as)
    key = key_of(canonical(request, address=config.address))
    return Wanted(key, request, config.address, model, agent, item)


def recorded(wanted: Mapping[str, Wanted], store: Store) -> Iterator[tuple[str, Entry | None]]:
    """(key, entry) of every request, None where the store knows nothing of it."""
    outcomes = store.failures(list(wanted)) | store.answers(list(wanted))
    for key, one in wanted.items():
        request = canonical(one.request, address=one.address)
        yield key, entry(key, request, outcomes[key]) if key in outcomes else None


class Models:
    """Models that are asked together, on the same terms. `await ask(...)` as often as needed, then `aclose`.

    n_calls: how many there will be in all, as far as anybody knows. environment: where keys are looked up, once something is left
    to be asked of a model. judges: asked instead of the models so named. replay: ask nobody; what the store does not hold is an
    error.
    n_failed: requests given up on; reasons: each reason once. n_asked: calls that were answered now. usd: spent on them.
    """

    def __init__(
        self,
        configs: Mapping[str, JudgeConfig],
        store: Store,
        asking: Asking,
        *,
        n_calls: int,
        environment: Mapping[str, str],
        judges: Mapping[str, Judge],
        replay: bool = False,
    ) -> None:
        self.n_calls = n_calls
        self.n_asked = 0
        self.n_done = 0
        self.n_failed = 0
        self.reasons: dict[str, None] = {}
        self._store = store
        self._asking = asking
        self._replay = replay
        self._open = ExitStack()
        log = None if asking.log is None else self._open.enter_context(EventLog(asking.log))
        self._log = ProgressLog(asking.progress, log)
        self._log.start(n_calls, what="generating")
        self._budget = Budget(asking.max_cost)
        self._stop = StopReason()
        self._owned: list[Backend] = []
        self._callers: dict[str, Caller] = {}
        for name, config in configs.items():
            if name in judges:
                backend = Backend(partial(judges.__getitem__, name))
            else:
                backend = connect(config, environment, of="model")
                self._owned.append(backend)
            self._callers[name] = Caller(backend, config, self._budget)

    @property
    def usd(self) -> float:
        return self._budget.spent

    async def ask(self, wanted: Mapping[str, Wanted]) -> dict[str, Completion]:
        """key → completion for those that could be had.

        Raises: BudgetError, JudgeError once the calls in flight have ended; what came is in the store. ReplayMissError.
        """
        works = {name: Texts(self) for name in self._callers}
        for one in wanted.values():
            works[one.model].wanted.append(one)
        if self._replay:
            self._look_up(wanted, works)
        else:
            try:
                loops = [self._loop(name, work) for name, work in works.items() if work.wanted]
                await ask_all(loops, self._stop, grace=self._asking.grace)
            finally:
                self._store.flush()
        return {key: completion for work in works.values() for key, completion in work.answers.items()}

    async def aclose(self) -> None:
        """Let go of the models."""
        self._log.stop()
        self._open.close()
        for backend in self._owned:
            await backend.aclose()

    def count(self, outcome: Completion | Failure | None, *, stored: bool) -> str:
        """One request more is done. Returns 'answered' or 'failed'."""
        self.n_done += 1
        if isinstance(outcome, Completion):
            self.n_asked += not stored
            return "answered"
        self.n_failed += 1
        self.reasons[outcome.reason if outcome is not None else "not asked"] = None
        return "failed"

    def out_of_money(self) -> BudgetError:
        return out_of_money(self._budget, n_done=self.n_done, n=self.n_calls, what="calls")

    def _loop(self, name: str, work: Texts) -> Loop:
        return Loop(
            work,
            caller=self._callers[name],
            store=self._store,
            stop=self._stop,
            log=self._log,
            retry_failed=self._asking.retry_failed,
        )

    def _look_up(self, wanted: Mapping[str, Wanted], works: Mapping[str, Texts]) -> None:
        known = self._store.failures(list(wanted)) | self._store.answers(list(wanted))
        for key, one in wanted.items():
            if key not in known:
                of_model = [other for other in wanted.values() if other.model == one.model]
                raise self._not_there(one, flag=not any(other.key in known for other in of_model))
            reason = works[one.model].put([0], key, known[key], usd=0.0, stored=True)
            self._log.advance(1, missing=reason, stored=True)

    def _not_there(self, one: Wanted, *, flag: bool) -> ReplayMissError:
        """flag: nothing that is wanted of the model is there, so another was asked, or the same otherwise."""
        asked = sorted({str(judge.get("name")) for judge in self._store.judges()})
        held = f" The store holds answers of {', '.join(asked)}." if asked else ""
        mapped = (
            f"Nothing that is wanted of the model '{one.model}' is there.{held} If another was asked in its place, say so again: "
            f"--model-map {one.model}={asked[0] if len(asked) == 1 else 'JUDGE'}. Else replay"
        )
        return ReplayMissError(
            f"The store {self._store.name} has no answer of {one} (under {one.key}), and a replay asks nobody. "
            f"{mapped if flag else 'Replay'} the agents, items and models that were asked, or generate without --replay.",
            slug="replay-miss",
        )


class Texts:
    """What is wanted of one model, as work for the loop. answers: by key, as they come."""

    def __init__(self, models: Models) -> None:
        self.wanted: list[Wanted] = []
        self.answers: dict[str, Completion] = {}
        self._models = models

    def __len__(self) -> int:
        return self._models.n_calls

    def keys(self) -> Iterator[tuple[int, str]]:
        for row, one in enumerate(self.wanted):
            yield row, one.key

    def request(self, row: int, key: str) -> Request:
        return self.wanted[row].request

    def fits(self, request: Request) -> bool:
        return True

    def is_answer(self, completion: Completion) -> bool:
        return True

    def put(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        if isinstance(outcome, Completion):
            self.answers[key] = outcome
        return self._models.count(outcome, stored=stored)

    def out_of_money(self, budget: Budget) -> BudgetError:
        return self._models.out_of_money()


Responses = dict[str, list[str | None]]


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


async def _made(generation: Generation, models: Models) -> Responses:
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
        self._texts: Responses = {SOURCE: [item.prompt for item in generation.items]}

    async def texts(self) -> Responses:
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
        notes: Responses,
    ) -> Responses:
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


def _result(generation: Generation, made: Responses, models: Models, *, max_missing: float, name: str) -> Generated:
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
