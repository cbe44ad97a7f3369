"""Makes a pool: agents respond to items, models are asked by the loop that also asks judges, and a text that was paid
for is asked once.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from youden.errors import BudgetError, ConfigError, ReplayMissError
from youden.judging.call.budget import Budget
from youden.judging.call.connection import Backend
from youden.judging.call.failures import Failure
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.engine import check_trust, connect
from youden.judging.offline.cassette_file import Entry, entry
from youden.judging.question.questions import canonical, key_of
from youden.judging.scheduler.calling import Caller
from youden.judging.scheduler.loop import Loop, ask_all
from youden.judging.scheduler.options import Asking, check_cap
from youden.judging.scheduler.outcomes import Outcomes
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import StopReason, out_of_money, run_until_stopped, too_many_missing
from youden.judging.store.answers import Store, open_store
from youden.pools.generation.agents import SOURCE, AgentsFile, AgentSpec
from youden.pools.generation.generation import Generation, about
from youden.streams import own_stream
from youden.text.reasoning import without_leading_reasoning
from youden.text.sentences import counted
from youden.text.transforms import apply_steps
from youden.types import Agent, Completion, Judge, Message, Pool, Request
from youden.types.pool import Json, Objects

SCHEMA = 1


@dataclass(frozen=True)
class AgentRequest:
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


def wanted_of(
    config: JudgeConfig, messages: tuple[Message, ...], *, model: str, agent: str, item: str, repeat: int
) -> AgentRequest:
    """What `agent` asks of the model that `config` describes, for its first or a later response."""
    asked_as: dict[str, Json] = {"generated": SCHEMA, "asker": agent}
    if repeat > 1:
        asked_as["replicate"] = repeat - 1
    request = Request(config.model or "", messages, config.request_parameters, asked_as)
    key = key_of(canonical(request, address=config.address))
    return AgentRequest(key, request, config.address, model, agent, item)


def recorded(wanted: Mapping[str, AgentRequest], store: Store) -> Iterator[tuple[str, Entry | None]]:
    """(key, entry) of every request, None where the store knows nothing of it."""
    outcomes = store.known(list(wanted))
    for key, one in wanted.items():
        request = canonical(one.request, address=one.address)
        yield key, entry(key, request, outcomes[key]) if key in outcomes else None


class Models:
    """Models that are asked together, on the same terms. `await ask(...)` as often as needed, then `aclose`.

    n_calls: how many there will be in all, as far as anybody knows. environment: where keys are looked up, once something is left
    to be asked of a model. judges: asked instead of the models so named. replay: ask nobody; what the store does not hold is an
    error.
    n_failed: requests given up on; reasons: each reason once. n_asked: calls that were answered now; n_done: answered or
    given up on; budget: what is spent on them.
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
        self._open = AsyncExitStack()
        self._log = self._open.enter_context(ProgressLog(asking.progress, asking.log))
        self._log.start(n_calls, what="generating")
        self._open.callback(self._log.stop)
        self.budget = Budget(asking.max_cost)
        self._stop = StopReason()
        self._callers: dict[str, Caller] = {}
        if not replay:
            check_trust((config for name, config in configs.items() if name not in judges), environment)
        for name, config in configs.items():
            if name in judges:
                backend = Backend(partial(judges.__getitem__, name))
            else:
                backend = connect(config, environment, of="model")
                self._open.push_async_callback(backend.aclose)
            self._callers[name] = Caller(backend, config, self.budget)

    async def ask(self, wanted: Mapping[str, AgentRequest]) -> dict[str, Completion]:
        """key → completion for those that could be had.

        Raises: BudgetError, JudgeError once the calls in flight have ended; what came is in the store. ReplayMissError.
        """
        works = {name: GeneratedTexts(self) for name in self._callers}
        for one in wanted.values():
            works[one.model].wanted.append(one)
        if self._replay:
            self._look_up(wanted, works)
        else:
            try:
                again = self._asking.retry_failed
                loops = []
                for name, work in works.items():
                    if work.wanted:
                        caller = self._callers[name]
                        of = caller.config, caller.backend, self._store, self._stop, self._log
                        loops.append(Loop(Outcomes(work, *of, retry_failed=again), caller=caller))
                await ask_all(loops, self._stop, grace=self._asking.grace)
            finally:
                self._store.flush()
        return {key: completion for work in works.values() for key, completion in work.answers.items()}

    async def aclose(self) -> None:
        """Let go of the models."""
        await self._open.aclose()

    def _look_up(self, wanted: Mapping[str, AgentRequest], works: Mapping[str, GeneratedTexts]) -> None:
        known = self._store.known(list(wanted))
        for key, one in wanted.items():
            if key not in known:
                of_model = [other for other in wanted.values() if other.model == one.model]
                raise self._not_there(one, flag=not any(other.key in known for other in of_model))
            reason = works[one.model].put([0], key, known[key], usd=0.0, stored=True)
            self._log.advance(1, missing=reason, stored=True)

    def _not_there(self, one: AgentRequest, *, flag: bool) -> ReplayMissError:
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


class GeneratedTexts:
    """What is wanted of one model, as work for the loop. answers: by key, as they come."""

    def __init__(self, models: Models) -> None:
        self.wanted: list[AgentRequest] = []
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
        return _response(completion) is not None

    def put(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        models = self._models
        models.n_done += 1
        if isinstance(outcome, Completion):
            self.answers[key] = outcome
            models.n_asked += not stored
            if self.is_answer(outcome):
                return "answered"
            models.n_failed += 1
            models.reasons["the reasoning did not end within max_tokens"] = None
            return "unfinished_reasoning"
        models.n_failed += 1
        models.reasons[outcome.reason if outcome is not None else "not asked"] = None
        return "failed"

    def out_of_money(self, budget: Budget) -> BudgetError:
        return out_of_money(budget, n_done=self._models.n_done, n=len(self), what="calls")


Responses = dict[str, list[str | None]]
"""By agent, as `Generation.responses` has them."""


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

    asking: the terms; its `max_missing` is the share of responses that may be missing, counted at the end.
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


def requests_of(
    generation: Generation, answers: Callable[[list[str]], Mapping[str, Completion]]
) -> dict[str, AgentRequest]:
    """Every request by its key that can be built from `answers` (of keys): a response follows from its reading's answer, and
    an agent that builds on another from the other's response."""
    wanted: dict[str, AgentRequest] = {}

    async def listed(more: Mapping[str, AgentRequest]) -> Mapping[str, Completion]:
        wanted.update(more)
        return answers(list(more))

    asyncio.run(_respond(generation, listed))
    return wanted


def _bounded(file: AgentsFile) -> dict[str, JudgeConfig]:
    """The models, each with the longest answer that any agent asks of it, for the cap."""
    most = {name: max(agent.max_tokens for agent in file.agents if agent.model == name) for name in file.models}
    return {name: config.asked_with({"max_tokens": most[name]}) for name, config in file.models.items()}


async def _made(generation: Generation, models: Models) -> Responses:
    try:
        return await _respond(generation, models.ask)
    finally:
        await models.aclose()


Ask = Callable[[Mapping[str, AgentRequest]], Awaitable[Mapping[str, Completion]]]


async def _respond(generation: Generation, ask: Ask) -> Responses:
    """agent → its responses, None where there could be none: rounds of asking, each of every agent whose input is
    there, the readings first, then the responses, then the transforms."""
    seed, wanted = generation.file.seed, generation.responses
    texts: Responses = {SOURCE: [item.prompt for item, _ in wanted]}
    waiting = list(generation.file.ordered)
    while waiting:
        agents = [agent for agent in waiting if agent.of in texts]
        notes = await _asked(generation, ask, [agent for agent in agents if agent.reading], texts, None)
        said = await _asked(generation, ask, [agent for agent in agents if agent.model], texts, notes)
        for agent in agents:
            inputs = said[agent.id] if agent.model else texts[agent.of]
            texts[agent.id] = [
                None if text is None else apply_steps(text, agent.transforms, _rng(seed, agent.id, item.id, repeat))
                for text, (item, repeat) in zip(inputs, wanted, strict=True)
            ]
        waiting = [agent for agent in waiting if agent.id not in texts]
    return texts


async def _asked(
    generation: Generation, ask: Ask, agents: Sequence[AgentSpec], texts: Responses, notes: Responses | None
) -> Responses:
    """agent → the answers to its instruction; None without input or answer. notes: None: to its reading."""
    keys: dict[str, list[str | None]] = {}
    wanted: dict[str, AgentRequest] = {}
    for agent in agents:
        instruction = generation.instructions[agent.id][1 if notes is None else 0]
        if agent.model is None or instruction is None:
            continue
        configs = [_asked_as(generation, agent, agent.model, repeat) for repeat in range(1, generation.repeats + 1)]
        own = keys[agent.id] = []
        noted_all = (notes or {}).get(agent.id, [""] * len(generation.responses))
        for (item, repeat), text, noted in zip(generation.responses, texts[agent.of], noted_all, strict=True):
            if text is None or noted is None:
                own.append(None)
                continue
            messages = instruction.messages(text, notes=noted)
            config = configs[repeat - 1]
            one = wanted_of(config, messages, model=agent.model, agent=agent.id, item=item.id, repeat=repeat)
            own.append(one.key)
            wanted[one.key] = one
    answers = await ask(wanted)
    said = {key: _response(completion) for key, completion in answers.items()}
    return {name: [None if key is None else said.get(key) for key in own] for name, own in keys.items()}


def _response(completion: Completion) -> str | None:
    """Return the text that an agent responds with; None if the model's reasoning did not end."""
    return without_leading_reasoning(completion.text or completion.refusal or "")


def _asked_as(generation: Generation, agent: AgentSpec, model: str, repeat: int) -> JudgeConfig:
    """The model as it is asked for one of the agent's responses: a seed moves on by one with each, or all would be alike."""
    seed = None if agent.seed is None else agent.seed + repeat - 1
    sent: dict[str, Json] = {"temperature": agent.temperature, "max_tokens": agent.max_tokens, "seed": seed}
    return generation.file.models[model].asked_with(sent)


def _result(generation: Generation, made: Responses, models: Models, *, max_missing: float, name: str) -> Generated:
    said, items = generation.file.agents, generation.items
    agents = tuple(Agent(agent.id, agent.group, about(agent, generation)) for agent in said)
    # a cell has no later response without those before it
    cells = [
        [sorted(made[agent.id][j :: len(items)], key=lambda text: text is None) for j in range(len(items))]
        for agent in said
    ]
    blocks: Objects = np.moveaxis(np.array(cells, dtype=np.object_), 2, 0)
    pool = Pool.of_blocks(agents, items, list(blocks), name)
    n_missing = blocks.size - pool.n_responses
    if n_missing > max_missing * blocks.size:
        why = "; ".join(models.reasons)
        error = too_many_missing(n_missing, blocks.size, why=why, max_missing=max_missing, what="responses")
        if doubts := models.budget.doubts():
            error.add(doubts)
        raise error
    failed = f"{counted(models.n_failed, 'call')} got no answer: {'; '.join(models.reasons)}"
    notes = (*((failed,) if models.n_failed else ()), *filter(None, [models.budget.doubts()]))
    return Generated(pool, models.n_asked, models.n_failed, models.budget.spent, notes)


def _rng(seed: int, agent: str, item: str, repeat: int) -> np.random.Generator:
    """One stream a response, whatever else there is."""
    later = f"\0{repeat}" if repeat > 1 else ""
    digest = hashlib.sha256(f"{seed}\0{agent}\0{item}{later}".encode("utf-8", "surrogatepass")).digest()
    return own_stream(int.from_bytes(digest[:16], "little"))
