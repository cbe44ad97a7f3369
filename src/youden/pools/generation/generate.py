"""Generate a pool: let agents respond to items, with models or with transforms of texts.

The scheduler that queries judges also queries the models of agents, so a text that was paid for
is never requested again.
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
from youden.judging.connecting import check_trust, connect
from youden.judging.offline.cassette_file import Entry, make_entry
from youden.judging.question.questions import canonical_request, hash_request
from youden.judging.scheduler.calling import Caller
from youden.judging.scheduler.loop import RequestLoop, run_loops
from youden.judging.scheduler.options import JudgingOptions, check_cap
from youden.judging.scheduler.outcomes import Outcomes
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import (
    StopReason,
    make_budget_error,
    make_too_many_missing_error,
    run_until_stopped,
)
from youden.judging.store.answers import Store, open_store
from youden.pools.generation.agents import SOURCE, AgentsFile, AgentSpec
from youden.pools.generation.generation import Generation, agent_metadata
from youden.streams import standalone_stream
from youden.text.reasoning import strip_leading_reasoning
from youden.text.sentences import format_count
from youden.text.transforms import apply_steps
from youden.types import Agent, Completion, Judge, Message, Pool, Request
from youden.types.pool import Json, Objects

SCHEMA = 1
"""Version of the cache salt of generated texts."""


@dataclass(frozen=True)
class AgentRequest:
    """A request on behalf of an agent, about an item.

    `key` is the request hash. It depends on the agent, so two agents with the same messages get two texts. `model` is
    the name of the model in the agents' file.
    """

    key: str
    request: Request
    address: str
    model: str
    agent: str
    item: str

    def __str__(self) -> str:
        return f"agent '{self.agent}' on item '{self.item}'"


def build_agent_request(
    config: JudgeConfig, messages: tuple[Message, ...], *, model: str, agent: str, item: str, repeat: int
) -> AgentRequest:
    """Build the request for one response of an agent; `repeat` is the number of the response, from 1."""
    cache_salt: dict[str, Json] = {"generated": SCHEMA, "asker": agent}
    if repeat > 1:
        cache_salt["replicate"] = repeat - 1
    request = Request(config.model or "", messages, config.request_parameters, cache_salt)
    key = hash_request(canonical_request(request, address=config.address))
    return AgentRequest(key, request, config.address, model, agent, item)


def iter_recorded_entries(requests: Mapping[str, AgentRequest], store: Store) -> Iterator[tuple[str, Entry | None]]:
    """Yield the key of each request and its entry for a cassette, None if the store has no outcome."""
    outcomes = store.get_outcomes(list(requests))
    for key, agent_request in requests.items():
        request = canonical_request(agent_request.request, address=agent_request.address)
        yield key, make_entry(key, request, outcomes[key]) if key in outcomes else None


class Models:
    """Models that are queried together, with one budget and one log. Call `ask` any number of times, then `aclose`.

    `configs` has the config of each model by its name; `judges` has objects that are queried in place of models. API
    keys are looked up in `environment` when a model is queried. With `replay`, answers come only from the store.

    Attributes
    ----------
    n_asked : int
        Number of calls that a model answered; answers from the store do not count.
    n_done : int
        Number of calls with an answer or a failure.
    n_failed : int
        Number of calls without a usable answer.
    reasons : dict
        Distinct reasons of the failures, as keys in order of occurrence.
    budget : Budget
        Cost of the calls.
    """

    def __init__(
        self,
        configs: Mapping[str, JudgeConfig],
        store: Store,
        asking: JudgingOptions,
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
                backend = connect(config, environment, kind="model")
                self._open.push_async_callback(backend.aclose)
            self._callers[name] = Caller(backend, config, self.budget)

    async def ask(self, requests: Mapping[str, AgentRequest]) -> dict[str, Completion]:
        """Query the models, and return the completion of each answered request, by key.

        Raise BudgetError or JudgeError after the calls in flight have ended (answers are in the store), ReplayMissError
        if an answer is missing in a replay.
        """
        works = {name: GeneratedTexts(self) for name in self._callers}
        for agent_request in requests.values():
            works[agent_request.model].requests.append(agent_request)
        if self._replay:
            self._look_up(requests, works)
        else:
            try:
                retry_failed = self._asking.retry_failed
                loops = []
                for name, work in works.items():
                    if work.requests:
                        caller = self._callers[name]
                        resources = caller.config, caller.backend, self._store, self._stop, self._log
                        loops.append(RequestLoop(Outcomes(work, *resources, retry_failed=retry_failed), caller=caller))
                await run_loops(loops, self._stop, grace=self._asking.grace)
            finally:
                self._store.flush()
        return {key: completion for work in works.values() for key, completion in work.answers.items()}

    async def aclose(self) -> None:
        """Close the connections and the log."""
        await self._open.aclose()

    def _look_up(self, requests: Mapping[str, AgentRequest], works: Mapping[str, GeneratedTexts]) -> None:
        """Record the stored outcome of each request; raise ReplayMissError if one is missing."""
        outcomes = self._store.get_outcomes(list(requests))
        for key, agent_request in requests.items():
            if key not in outcomes:
                keys = [request.key for request in requests.values() if request.model == agent_request.model]
                has_other_model = not any(key in outcomes for key in keys)
                raise self._missing_answer_error(agent_request, has_other_model=has_other_model)
            reason = works[agent_request.model].put([0], key, outcomes[key], usd=0.0, stored=True)
            self._log.advance(1, missing=reason, stored=True)

    def _missing_answer_error(self, agent_request: AgentRequest, *, has_other_model: bool) -> ReplayMissError:
        """Return the error for a missing answer.

        `has_other_model` means that the store has no answer of the request's model at all.
        """
        judges = sorted({str(judge.get("name")) for judge in self._store.judges()})
        contents = f" The store contains answers of {', '.join(judges)}." if judges else ""
        replacement = judges[0] if len(judges) == 1 else "JUDGE"
        remedy = "Replay"
        if has_other_model:
            remedy = (
                f"The store has no answer of the model '{agent_request.model}'.{contents} If another model was used in its "
                f"place, set --model-map {agent_request.model}={replacement}. Otherwise replay"
            )
        return ReplayMissError(
            f"The store {self._store.name} has no answer of {agent_request} (under {agent_request.key}), and a replay makes no "
            f"calls. {remedy} with the same agents, items and models, or generate without --replay.",
            slug="replay-miss",
        )


class GeneratedTexts:
    """Requests to one model, as work for the scheduler; `answers` maps a key to its completion."""

    def __init__(self, models: Models) -> None:
        self.requests: list[AgentRequest] = []
        self.answers: dict[str, Completion] = {}
        self._models = models

    def __len__(self) -> int:
        return self._models.n_calls

    def keys(self) -> Iterator[tuple[int, str]]:
        """Yield the row and the key of each request."""
        for row, agent_request in enumerate(self.requests):
            yield row, agent_request.key

    def request(self, row: int, key: str) -> Request:
        """Return the request in a row."""
        return self.requests[row].request

    def fits(self, request: Request) -> bool:
        """Return whether the request can be sent."""
        return True

    def is_answer(self, completion: Completion) -> bool:
        """Return whether the completion contains a response."""
        return _response(completion) is not None

    def put(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        """Record an outcome, and return "answered" or the reason why there is no response."""
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

    def make_budget_error(self, budget: Budget) -> BudgetError:
        """Return the error for a budget that does not allow the next call."""
        return make_budget_error(budget, n_done=self._models.n_done, n=len(self), what="calls")


Responses = dict[str, list[str | None]]
"""Id of an agent → its responses, in the order of `Generation.responses`."""


@dataclass(frozen=True, eq=False)
class GenerationResult:
    """A generated pool and its cost.

    Attributes
    ----------
    pool : Pool
    n_asked : int
        Number of calls that a model answered; answers from the store do not count.
    n_failed : int
        Number of calls without a usable answer.
    usd : float
        Cost of all calls, in USD; NaN if a price is unknown.
    notes : tuple of str
        Messages about failed calls and uncertain costs.
    """

    pool: Pool
    n_asked: int
    n_failed: int
    usd: float
    notes: tuple[str, ...]


def generate(
    generation: Generation,
    *,
    store: str | Path,
    asking: JudgingOptions | None = None,
    replay: bool = False,
    environment: Mapping[str, str] | None = None,
    judges: Mapping[str, Judge] | None = None,
    name: str = "generated",
) -> GenerationResult:
    """Let every agent respond to every item.

    Parameters
    ----------
    generation : Generation
        Agents, items and instructions.
    store : str or Path
        Path or URL of the store; requests whose answer it contains are not sent.
    asking : JudgingOptions, optional
        Options of the queries. `max_missing` is the maximum fraction of responses that may be missing at the end.
    replay : bool, default False
        Whether answers come only from the store, without calls, keys or a cost cap.
    environment : mapping, optional
        Environment variables, for API keys. Default: those of the process.
    judges : mapping, optional
        Name of a model → object that is queried instead of it.
    name : str, default "generated"
        Name of the pool.

    Returns
    -------
    GenerationResult

    Raises
    ------
    ConfigError
        If options or keys do not fit, before any call; [replay-retries]: if a replay is to retry failures.
    BudgetError, JudgeError, TooManyMissingError
        If the cap is exceeded, a model cannot be used, or too many responses are missing. Answers are stored:
        call again to resume.
    ReplayMissError
        [replay-miss]: if an answer is missing in a replay.
    """
    asking = asking or JudgingOptions()
    configs = _with_max_tokens(generation.file)
    if not replay:
        check_cap(configs.values(), asking.max_cost)
    elif asking.retry_failed:
        raise ConfigError(
            "A replay makes no calls, so it cannot retry failures. Remove --replay or --retry-failed.",
            slug="replay-retries",
        )
    with open_store(store, read_only=replay and generation.makes_calls) as answers:
        models = Models(
            configs,
            answers,
            asking,
            n_calls=generation.cost.calls,
            environment=os.environ if environment is None else environment,
            judges=judges or {},
            replay=replay,
        )
        texts = run_until_stopped(_respond_and_close(generation, models))
    return _to_result(generation, texts, models, max_missing=asking.max_missing, name=name)


def collect_requests(
    generation: Generation, answers: Callable[[list[str]], Mapping[str, Completion]]
) -> dict[str, AgentRequest]:
    """Return every request that can be built from the given answers, by key.

    The request for a response contains two answers if they exist: that of the agent's first step (its notes), and the
    response of the agent on which it is based. `answers` is called with keys, and returns the completions it has.
    """
    requests: dict[str, AgentRequest] = {}

    async def collect(new_requests: Mapping[str, AgentRequest]) -> Mapping[str, Completion]:
        requests.update(new_requests)
        return answers(list(new_requests))

    asyncio.run(_respond(generation, collect))
    return requests


def _with_max_tokens(file: AgentsFile) -> dict[str, JudgeConfig]:
    """Return the config of each model with the largest `max_tokens` of its agents.

    The maximum cost of a call depends on it.
    """
    configs = {}
    for name, config in file.models.items():
        max_tokens = max(agent.max_tokens for agent in file.agents if agent.model == name)
        configs[name] = config.with_changes({"max_tokens": max_tokens})
    return configs


async def _respond_and_close(generation: Generation, models: Models) -> Responses:
    try:
        return await _respond(generation, models.ask)
    finally:
        await models.aclose()


Ask = Callable[[Mapping[str, AgentRequest]], Awaitable[Mapping[str, Completion]]]


async def _respond(generation: Generation, ask: Ask) -> Responses:
    """Return the responses of each agent, with None for a missing one.

    Each round processes the agents whose input exists: first their notes, then their responses, then their transforms.
    """
    seed, responses = generation.file.seed, generation.responses
    texts: Responses = {SOURCE: [item.prompt for item, _ in responses]}
    waiting = list(generation.file.ordered)
    while waiting:
        ready = [agent for agent in waiting if agent.based_on in texts]
        notes = await _query_agents(generation, ask, [agent for agent in ready if agent.notes_instruction], texts, None)
        answers = await _query_agents(generation, ask, [agent for agent in ready if agent.model], texts, notes)
        for agent in ready:
            agent_texts: list[str | None] = []
            inputs = answers[agent.id] if agent.model else texts[agent.based_on]
            for text, (item, repeat) in zip(inputs, responses, strict=True):
                if text is None:
                    agent_texts.append(None)
                    continue
                rng = _response_rng(seed, agent.id, item.id, repeat)
                agent_texts.append(apply_steps(text, agent.transforms, rng))
            texts[agent.id] = agent_texts
        waiting = [agent for agent in waiting if agent.id not in texts]
    return texts


async def _query_agents(
    generation: Generation, ask: Ask, agents: Sequence[AgentSpec], texts: Responses, notes: Responses | None
) -> Responses:
    """Return the answers of the agents' models, with None if the input or the answer is missing.

    If `notes` is None, the models follow the instruction that produces notes, otherwise the one that uses them.
    """
    keys: dict[str, list[str | None]] = {}
    requests: dict[str, AgentRequest] = {}
    for agent in agents:
        instruction = generation.instructions[agent.id][1 if notes is None else 0]
        if agent.model is None or instruction is None:
            continue
        configs = [
            _configure_model(generation, agent, agent.model, repeat) for repeat in range(1, generation.repeats + 1)
        ]
        agent_keys = keys[agent.id] = []
        agent_notes = (notes or {}).get(agent.id, [""] * len(generation.responses))
        for (item, repeat), text, note in zip(generation.responses, texts[agent.based_on], agent_notes, strict=True):
            if text is None or note is None:
                agent_keys.append(None)
                continue
            agent_request = build_agent_request(
                configs[repeat - 1],
                instruction.messages(text, notes=note),
                model=agent.model,
                agent=agent.id,
                item=item.id,
                repeat=repeat,
            )
            agent_keys.append(agent_request.key)
            requests[agent_request.key] = agent_request
    completions = await ask(requests)
    answers = {key: _response(completion) for key, completion in completions.items()}
    return {
        agent_id: [None if key is None else answers.get(key) for key in agent_keys]
        for agent_id, agent_keys in keys.items()
    }


def _response(completion: Completion) -> str | None:
    """Return the response in a completion, None if the model's reasoning did not end."""
    return strip_leading_reasoning(completion.text or completion.refusal or "")


def _configure_model(generation: Generation, agent: AgentSpec, model: str, repeat: int) -> JudgeConfig:
    """Return the config of the model for one of the agent's responses.

    A seed increases by one per repeat, so that repeats differ.
    """
    seed = None if agent.seed is None else agent.seed + repeat - 1
    parameters: dict[str, Json] = {"temperature": agent.temperature, "max_tokens": agent.max_tokens, "seed": seed}
    return generation.file.models[model].with_changes(parameters)


def _to_result(
    generation: Generation, texts: Responses, models: Models, *, max_missing: float, name: str
) -> GenerationResult:
    """Arrange the texts as a pool; raise TooManyMissingError if too many are missing."""
    specs, items = generation.file.agents, generation.items
    agents = tuple(Agent(spec.id, spec.group, agent_metadata(spec, generation)) for spec in specs)

    # in a pool, an agent's responses to an item have no gaps, so missing texts are moved to the end
    cells = []
    for spec in specs:
        texts_by_item = [texts[spec.id][j :: len(items)] for j in range(len(items))]
        cells.append([sorted(cell, key=lambda text: text is None) for cell in texts_by_item])
    blocks: Objects = np.moveaxis(np.array(cells, dtype=np.object_), 2, 0)
    pool = Pool.from_repeats(agents, items, list(blocks), name)
    n_missing = blocks.size - pool.n_responses
    if n_missing > max_missing * blocks.size:
        reasons = "; ".join(models.reasons)
        error = make_too_many_missing_error(
            n_missing, blocks.size, reasons=reasons, max_missing=max_missing, what="responses"
        )
        if doubts := models.budget.describe_unreported():
            error.add(doubts)
        raise error
    notes = []
    if models.n_failed:
        notes.append(f"{format_count(models.n_failed, 'call')} got no answer: {'; '.join(models.reasons)}")
    if doubts := models.budget.describe_unreported():
        notes.append(doubts)
    return GenerationResult(pool, models.n_asked, models.n_failed, models.budget.spent, tuple(notes))


def _response_rng(seed: int, agent: str, item: str, repeat: int) -> np.random.Generator:
    """Return the random generator of one response, which does not depend on other agents, items and repeats."""
    suffix = f"\0{repeat}" if repeat > 1 else ""
    digest = hashlib.sha256(f"{seed}\0{agent}\0{item}{suffix}".encode("utf-8", "surrogatepass")).digest()
    return standalone_stream(int.from_bytes(digest[:16], "little"))
