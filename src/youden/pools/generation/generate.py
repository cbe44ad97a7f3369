"""Generate a pool: let agents respond to items, with models or with transforms of texts.

`agent_requests` makes the requests to models and keeps their texts.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from youden.data.pools.pool_reader import RESPONSES, read_pool
from youden.errors import ConfigError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.scheduler.options import JudgingOptions, check_cap
from youden.judging.scheduler.shutdown import make_too_many_missing_error, run_until_stopped
from youden.judging.store.answers import Store, open_store
from youden.pools.generation.agent_requests import AgentRequest, Models, build_agent_request, read_response
from youden.pools.generation.agents import SOURCE, AgentsFile, AgentSpec, Instruction
from youden.pools.generation.generation import Generation
from youden.streams import standalone_stream
from youden.text.printable import redact_location
from youden.text.sentences import format_count
from youden.text.transforms import apply_steps
from youden.types import Completion, Pool
from youden.types.pool import Json, Objects, Positions

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
    options: JudgingOptions | None = None,
    replay: bool = False,
    name: str = "generated",
) -> GenerationResult:
    """Let every agent respond to every item.

    Parameters
    ----------
    generation : Generation
        Agents, items and instructions.
    store : str or Path
        Path or URL of the store; requests whose answer it contains are not sent. It is created if it does not exist, except
        for a replay.
    options : JudgingOptions, optional
        Options of the queries. Models that may cost money need `max_cost`, a cap in USD. `max_missing` is the maximum fraction
        of responses that may be missing at the end. Default: no cap, and otherwise the defaults of `JudgingOptions`.
    replay : bool, default False
        Whether answers come only from the store, without calls, keys or a cost cap.
    name : str, default "generated"
        Name of the pool.

    Returns
    -------
    GenerationResult
        The pool, which is not written to a file, with the numbers of calls, their cost and notes. Responses without an answer
        are missing in the pool.

    Raises
    ------
    ConfigError
        If options or keys do not fit, before any call; [replay-retries]: if a replay is to retry failures.
    BudgetError, JudgeError, TooManyMissingError
        If the cap is exceeded, a model cannot be used, or too many responses are missing. Answers are stored:
        call again to resume.
    IncompleteRunError
        [stopped]: if a signal stopped the generation. Also if a server cannot be reached for longer than the outage limit.
    ReplayMissError
        [replay-miss]: if an answer is missing in a replay.
    """
    options = options or JudgingOptions()
    configs = _set_max_tokens(generation.file)
    if not replay:
        check_cap(configs.values(), options.max_cost)
    elif options.retry_failed:
        raise ConfigError(
            "A replay makes no calls, so it cannot retry failures. Remove --replay or --retry-failed.",
            slug="replay-retries",
        )
    with open_store(store, read_only=replay and generation.makes_calls) as answers:
        models = Models(configs, answers, options, n_calls=generation.cost.calls, replay=replay)
        texts = run_until_stopped(_respond_and_close(generation, models))
    return _make_result(generation, texts, models, max_missing=options.max_missing, name=name)


def collect_requests(
    generation: Generation, get_answers: Callable[[list[str]], Mapping[str, Completion]]
) -> dict[str, AgentRequest]:
    """Build the requests of a generation without sending them.

    A request may contain an earlier answer: the notes of the agent, or the response of the agent on which it is based. If this
    answer is not known yet, the request is left out.

    Parameters
    ----------
    generation : Generation
        Agents, items and instructions.
    get_answers : callable
        Takes a list of request hashes, and returns the known completions by hash.

    Returns
    -------
    dict of str to AgentRequest
        Request hash → request.
    """
    requests: dict[str, AgentRequest] = {}

    async def record_and_answer(new_requests: Mapping[str, AgentRequest]) -> Mapping[str, Completion]:
        """Record requests in place of sending them, and return the known answers."""
        requests.update(new_requests)
        return get_answers(list(new_requests))

    # the generation passes all its requests to the function, which sends nothing; the responses are not used
    asyncio.run(_generate_responses(generation, record_and_answer))
    return requests


def check_stored_responses(generation: Generation, out: Path, store: str) -> None:
    """Check that a store has the answers from which the responses of an existing pool were made.

    Without them, the responses would be requested again, and other texts would replace them.

    Parameters
    ----------
    generation : Generation
        Agents, items and instructions.
    out : Path
        Folder of the pool. Without a pool in it, nothing is checked.
    store : str
        Path or URL of the store. A store that does not exist has no answers.

    Raises
    ------
    ConfigError
        [out-not-empty]: if answers are missing.
    """
    if not generation.makes_calls or not (out / RESPONSES).exists():
        return
    existing = read_pool(out)
    texts = _read_stored_responses(generation, store)
    stored_pool, _ = _build_pool(generation, texts, name=existing.name)
    n_stored = _count_responses(stored_pool)
    n_missing = sum(int(np.maximum(n - n_stored[agent], 0).sum()) for agent, n in _count_responses(existing).items())
    if n_missing > 0:
        raise ConfigError(
            f"The store {redact_location(store)} lacks the answers of {n_missing:,} of the {existing.n_responses:,} responses in "
            f"{out}. They would be requested again, and other texts would replace them. Set --store to the store of the pool, "
            "import a cassette of the pool into the store, or set another --out.",
            slug="out-not-empty",
        )


def _count_responses(pool: Pool) -> dict[str, Positions]:
    """Count the responses to each item that are not blank, by agent: id of the agent → int array (n_items,)."""
    has_text = np.array([[bool((text or "").strip()) for text in texts] for texts in pool.all_texts])
    counts = has_text.reshape(pool.repeats, pool.n_agents, pool.n_items).sum(axis=0)
    return {agent.id: n_by_item for agent, n_by_item in zip(pool.agents, counts, strict=True)}


def _read_stored_responses(generation: Generation, store: str) -> Responses:
    """Make the responses from the answers in a store, without sending requests; None if an answer is missing."""
    answers: Store | None = None

    async def find_answers(requests: Mapping[str, AgentRequest]) -> Mapping[str, Completion]:
        return {} if answers is None else answers.answers(list(requests))

    with ExitStack() as stack:
        try:
            answers = stack.enter_context(open_store(store, read_only=True))
        except ConfigError as error:
            if error.slug != "store-missing":
                raise
        return asyncio.run(_generate_responses(generation, find_answers))


def _set_max_tokens(file: AgentsFile) -> dict[str, JudgeConfig]:
    """Return the configs of the models by name, each with the largest `max_tokens` of the agents that use the model.

    The maximum cost of a call is computed from the `max_tokens` of the model, and reserved before the call is sent. Therefore,
    this value must not be smaller than the `max_tokens` of any agent.
    """
    configs = {}
    for name, config in file.models.items():
        max_tokens = max(agent.max_tokens for agent in file.agents if agent.model == name)
        configs[name] = config.with_changes(_make_limit(config, max_tokens))
    return configs


def _make_limit(model: JudgeConfig, max_tokens: int) -> dict[str, Json]:
    """Return the keys of a model's config that set its limit of tokens, which is named as the config already names it."""
    if "max_completion_tokens" in model.parameters:
        return {"max_tokens": None, "parameters": {**model.parameters, "max_completion_tokens": max_tokens}}
    return {"max_tokens": max_tokens}


async def _respond_and_close(generation: Generation, models: Models) -> Responses:
    """Return the responses of each agent, and close the models in any case."""
    try:
        return await _generate_responses(generation, models.ask)
    finally:
        await models.aclose()


QueryFunction = Callable[[Mapping[str, AgentRequest]], Awaitable[Mapping[str, Completion]]]


async def _generate_responses(generation: Generation, query: QueryFunction) -> Responses:
    """Generate the responses of all agents to all items.

    An agent may need the responses of another agent, on which it is based. Therefore, the agents are processed in groups: each
    group contains the agents whose inputs exist by now.

    query : asynchronous function that sends requests, and returns the completions by request hash

    Returns a mapping from the id of each agent to its responses, in the order of `generation.responses`. A missing
    response is None. The id SOURCE maps to the prompts of the items.
    """
    texts_by_agent: Responses = {SOURCE: [item.prompt for item, _ in generation.responses]}
    waiting = list(generation.file.sorted_agents)
    while waiting:
        ready = [agent for agent in waiting if agent.based_on in texts_by_agent]
        agents_with_notes = [agent for agent in ready if agent.notes_instruction]
        agents_with_model = [agent for agent in ready if agent.model]

        notes = await _query_agents(generation, query, agents_with_notes, texts_by_agent, None)
        answers = await _query_agents(generation, query, agents_with_model, texts_by_agent, notes)

        for agent in ready:
            texts = answers[agent.id] if agent.model else texts_by_agent[agent.based_on]
            texts_by_agent[agent.id] = _transform_texts(generation, agent, texts)
        waiting = [agent for agent in waiting if agent.id not in texts_by_agent]
    return texts_by_agent


def _transform_texts(generation: Generation, agent: AgentSpec, inputs: Sequence[str | None]) -> list[str | None]:
    """Apply the transforms of an agent to its texts, one per response; a missing text (None) stays missing.

    inputs : texts, in the order of `generation.responses`
    """
    transformed: list[str | None] = []
    for text, (item, repeat) in zip(inputs, generation.responses, strict=True):
        if text is None:
            transformed.append(None)
            continue
        rng = _make_response_rng(generation.file.seed, agent.id, item.id, repeat)
        transformed.append(apply_steps(text, agent.transforms, rng))
    return transformed


async def _query_agents(
    generation: Generation, query: QueryFunction, agents: Sequence[AgentSpec], texts: Responses, notes: Responses | None
) -> Responses:
    """Query the models of agents: either for the responses, or for the notes that a model writes before its response.

    generation : agents, items and instructions
    query : function that sends requests and returns the completions by key
    agents : agents with a model whose inputs exist
    texts : responses of the agents on which these agents are based, by id of the agent
    notes : notes by id of the agent, which are inserted into the requests for the responses; None to request the notes

    Returns the answers of the models by id of the agent, in the order of `generation.responses`. An answer is None if it is
    missing, or if an input of its request is missing.
    """
    requests_by_agent: dict[str, list[AgentRequest | None]] = {}
    for agent in agents:
        response_instruction, notes_instruction = generation.instructions[agent.id]
        instruction = notes_instruction if notes is None else response_instruction
        if instruction is not None:
            inputs = _combine_inputs(generation, agent, texts, notes)
            requests_by_agent[agent.id] = _make_requests(generation, agent, instruction, inputs)

    all_requests = chain.from_iterable(requests_by_agent.values())
    request_by_key = {request.key: request for request in all_requests if request is not None}
    completion_by_key = await query(request_by_key)
    answer_by_key = {key: read_response(completion) for key, completion in completion_by_key.items()}

    answers: Responses = {}
    for agent_id, requests in requests_by_agent.items():
        answers[agent_id] = [None if request is None else answer_by_key.get(request.key) for request in requests]
    return answers


def _combine_inputs(
    generation: Generation, agent: AgentSpec, texts: Responses, notes: Responses | None
) -> list[tuple[str | None, str | None]]:
    """Return the text and the notes to insert into the requests of an agent, one pair per response.

    An agent with an instruction for notes sends two requests per response: the second one contains the notes that answer the
    first one. In all other requests, the notes are an empty text.

    texts : responses by id of the agent on which this agent is based
    notes : notes by id of the agent; None for the requests for notes

    Returns pairs in the order of `generation.responses`. None represents a missing text or missing notes.
    """
    notes_of_agent: Sequence[str | None] = [""] * len(generation.responses)
    if notes is not None and agent.id in notes:
        notes_of_agent = notes[agent.id]
    return list(zip(texts[agent.based_on], notes_of_agent, strict=True))


def _make_requests(
    generation: Generation, agent: AgentSpec, instruction: Instruction, inputs: Sequence[tuple[str | None, str | None]]
) -> list[AgentRequest | None]:
    """Make the requests for the responses of an agent that queries a model.

    Each repeat of a response has its own request. If the agent has a seed, each repeat gets a different seed, so that the
    responses differ.

    agent : agent with a model
    instruction : template of the prompt
    inputs : text and notes that replace the placeholders, one pair per response, in the order of `generation.responses`

    Returns one request per response; None if its text or its notes are missing.
    """
    model = agent.model or ""
    config_by_repeat = {}
    for repeat in range(1, generation.repeats + 1):
        config_by_repeat[repeat] = _configure_model(generation.file.models[model], agent, repeat)

    requests: list[AgentRequest | None] = []
    for (item, repeat), (text, note) in zip(generation.responses, inputs, strict=True):
        request = None
        if text is not None and note is not None:
            messages = instruction.messages(text, notes=note)
            request = build_agent_request(
                config_by_repeat[repeat], messages, model=model, agent=agent.id, item=item.id, repeat=repeat
            )
        requests.append(request)
    return requests


def _configure_model(model: JudgeConfig, agent: AgentSpec, repeat: int) -> JudgeConfig:
    """Return the config of an agent's model for one of its responses to an item.

    repeat : number of the response to the item, from 1; the number minus 1 is added to the seed, so that the responses differ
    """
    seed = None if agent.seed is None else agent.seed + repeat - 1
    return model.with_changes({"temperature": agent.temperature, "seed": seed, **_make_limit(model, agent.max_tokens)})


def _make_result(
    generation: Generation, texts: Responses, models: Models, *, max_missing: float, name: str
) -> GenerationResult:
    """Arrange the generated texts as a pool, and return it with its cost and with notes about failed calls.

    texts : responses by agent, None for a missing one
    models : models that were queried; they contain the counts of calls and failures, and the budget that was spent
    max_missing : maximum fraction of the responses that may be missing
    name : name of the pool

    Raises TooManyMissingError if more than this fraction is missing.
    """
    pool, n_texts = _build_pool(generation, texts, name=name)
    n_missing = n_texts - pool.n_responses
    reasons = "; ".join(models.reasons)
    uncertain_costs = models.budget.describe_uncertain_costs()
    if n_texts and n_missing / n_texts > max_missing:
        error = make_too_many_missing_error(
            n_missing, n_texts, reasons=reasons, max_missing=max_missing, what="responses"
        )
        if uncertain_costs:
            error.add(uncertain_costs)
        raise error

    notes = []
    if models.n_failed:
        notes.append(f"{format_count(models.n_failed, 'call')} got no answer: {reasons}")
    if uncertain_costs:
        notes.append(uncertain_costs)
    return GenerationResult(pool, models.n_asked, models.n_failed, models.budget.spent, tuple(notes))


def _build_pool(generation: Generation, texts: Responses, *, name: str) -> tuple[Pool, int]:
    """Build a pool of generated texts.

    texts : agent id → responses of the agent, in the order of `generation.responses`; None for a missing response
    name : name of the pool

    Returns the pool, and the number of its texts, including missing ones.
    """
    items = generation.items
    texts_by_agent = [_arrange_texts(texts[spec.id], n_items=len(items)) for spec in generation.file.agents]
    texts_by_repeat: Objects = np.stack(texts_by_agent, axis=1)  # (n_repeats, n_agents, n_items)
    pool = Pool.from_repeats(generation.agents, items, list(texts_by_repeat), name)
    return pool, texts_by_repeat.size


def _arrange_texts(texts: Sequence[str | None], *, n_items: int) -> Objects:
    """Arrange the generated responses of one agent as a pool stores them, with one row per repeat.

    Missing responses to an item are moved behind the others: if the second of three is missing, the third becomes the second.

    texts : the first responses to all items, then the second ones, and so on; None for a missing one

    Returns an array (n_repeats, n_items).
    """
    texts_by_repeat = np.array(texts, dtype=np.object_).reshape(-1, n_items)
    for item in range(n_items):
        responses = [text for text in texts_by_repeat[:, item] if text is not None]
        n_missing = len(texts_by_repeat) - len(responses)
        texts_by_repeat[:, item] = responses + [None] * n_missing
    return texts_by_repeat


def _make_response_rng(seed: int, agent: str, item: str, repeat: int) -> np.random.Generator:
    """Return the random generator of one response, which does not depend on other agents, items and repeats."""
    suffix = f"\0{repeat}" if repeat > 1 else ""
    digest = hashlib.sha256(f"{seed}\0{agent}\0{item}{suffix}".encode("utf-8", "surrogatepass")).digest()
    return standalone_stream(int.from_bytes(digest[:16], "little"))
