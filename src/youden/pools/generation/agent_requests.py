"""Query the models of agents, and keep the texts that they generate.

The scheduler that queries judges also queries the models of agents, so a text that was paid for is never requested
again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from youden.errors import BudgetError, ReplayMissError
from youden.judging.call.budget import Budget
from youden.judging.call.failures import Failure
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.connecting import check_trust, connect
from youden.judging.offline.cassette_file import Entry, make_entry
from youden.judging.question.parsing import is_cut_off
from youden.judging.question.questions import canonical_request, hash_request
from youden.judging.scheduler.calling import Caller
from youden.judging.scheduler.loop import RequestLoop, run_loops
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.scheduler.outcomes import Outcomes
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import StopReason, make_budget_error
from youden.judging.store.answers import Store
from youden.text.reasoning import strip_leading_reasoning
from youden.types import Completion, Message, Request
from youden.types.pool import Json

SCHEMA = 1
"""Version of the cache salt of generated texts."""


@dataclass(frozen=True)
class AgentRequest:
    """A request to the model of an agent, for its response to one item.

    Attributes
    ----------
    key : str
        Request hash. It depends on the agent, so that two agents with the same messages get two texts.
    request : Request
        Model, messages and parameters.
    address : str
        Address of the model, which is part of the request hash.
    model : str
        Name of the model in the agents' file.
    agent, item : str
        Ids of the agent and the item.
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
    """Build the request for one response of an agent.

    The store saves the response under the key of the request, which depends on `config`, `messages`, `agent` and `repeat`.

    Parameters
    ----------
    config : JudgeConfig
        Config of the model.
    messages : tuple of Message
        Messages that are sent to the model.
    model : str
        Name of the model in the agents' file.
    agent, item : str
        Ids of the agent and the item.
    repeat : int
        Number of the response among the agent's responses to the item, from 1.

    Returns
    -------
    AgentRequest
        The request with its key.
    """
    # The salt is part of the request hash. It distinguishes texts of agents from answers of judges, texts of different agents
    # with the same messages, and the responses of an agent to the same item.
    cache_salt: dict[str, Json] = {"generated": SCHEMA, "asker": agent}
    if repeat > 1:
        cache_salt["replicate"] = repeat - 1
    request = Request(config.model or "", messages, config.request_parameters, cache_salt)
    key = hash_request(canonical_request(request, address=config.address))
    return AgentRequest(key, request, config.address, model, agent, item)


def iter_recorded_entries(requests: Mapping[str, AgentRequest], store: Store) -> Iterator[tuple[str, Entry | None]]:
    """Yield each request hash with an entry for a cassette (a file of recorded answers), None if no outcome is stored."""
    outcomes = store.get_outcomes(list(requests))
    for key, agent_request in requests.items():
        request = canonical_request(agent_request.request, address=agent_request.address)
        yield key, make_entry(key, request, outcomes[key]) if key in outcomes else None


class Models:
    """Models of agents, which share one budget and one log. Call `ask` any number of times, then `aclose`.

    Parameters
    ----------
    configs : mapping of str to JudgeConfig
        Name of a model → its config.
    store : Store
        Store of answers. A request whose answer it contains is not sent.
    options : JudgingOptions
        Options of the requests, including the cost cap.
    n_calls : int
        Expected number of calls, for the progress bar.
    replay : bool, default False
        Whether answers come only from the store.

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
        options: JudgingOptions,
        *,
        n_calls: int,
        replay: bool = False,
    ) -> None:
        self.n_calls = n_calls
        self.n_asked = 0
        self.n_done = 0
        self.n_failed = 0
        self.reasons: dict[str, None] = {}
        self._store = store
        self._options = options
        self._replay = replay
        self._open = AsyncExitStack()
        self._log = self._open.enter_context(ProgressLog(options.progress, options.log))
        self._log.start(n_calls, what="generating")
        self._open.callback(self._log.stop)
        self.budget = Budget(options.max_cost)
        self._stop = StopReason()
        self._callers: dict[str, Caller] = {}
        if not replay:
            check_trust(configs.values(), os.environ)
        for name, config in configs.items():
            backend = connect(config, os.environ, kind="model")
            self._open.push_async_callback(backend.aclose)
            self._callers[name] = Caller(backend, config, self.budget)

    async def ask(self, requests: Mapping[str, AgentRequest]) -> dict[str, Completion]:
        """Query the models, and return their answers by request hash. Requests without an answer are left out.

        Raises BudgetError if the cost cap is reached, and JudgeError if a model cannot be used. Before either error is raised,
        the calls in flight end, and their answers are stored. In a replay, raises ReplayMissError if the store lacks an answer.

        requests : requests by request hash
        """
        work_by_model = {name: ModelWork(self) for name in self._callers}  # collects the answers of each model
        for agent_request in requests.values():
            work_by_model[agent_request.model].requests.append(agent_request)

        if self._replay:
            self._record_stored_outcomes(requests, work_by_model)
        else:
            await self._send_requests(work_by_model)

        completions: dict[str, Completion] = {}
        for work in work_by_model.values():
            completions |= work.answers
        return completions

    async def _send_requests(self, work_by_model: Mapping[str, ModelWork]) -> None:
        """Send the requests to all models at the same time, and wait for the answers.

        work_by_model : requests by name of the model, to which the answers are added
        """
        loops = [self._make_loop(name, work) for name, work in work_by_model.items() if work.requests]
        try:
            await run_loops(loops, self._stop, grace=self._options.grace)
        finally:
            self._store.flush()

    def _make_loop(self, model: str, work: ModelWork) -> RequestLoop:
        """Make the loop that sends the requests in `work` to one model."""
        caller = self._callers[model]
        outcomes = Outcomes(work, caller.config, caller.backend, self._store, self._stop, self._log, self._options)
        return RequestLoop(outcomes, caller=caller)

    def record_failure(self, reason: str) -> None:
        """Count a call without a usable answer, and remember the reason, which is shown to the user."""
        self.n_failed += 1
        self.reasons[reason] = None  # a dict is an ordered set

    async def aclose(self) -> None:
        """Close the connections and the log."""
        await self._open.aclose()

    def _record_stored_outcomes(
        self, requests: Mapping[str, AgentRequest], work_by_model: Mapping[str, ModelWork]
    ) -> None:
        """Record the stored outcome of each request in a replay, which sends no request.

        requests : requests by key
        work_by_model : requests by name of the model, to which the stored answers are added

        Raises: ReplayMissError if the store has no outcome of a request.
        """
        outcomes = self._store.get_outcomes(list(requests))
        models_in_store = {request.model for key, request in requests.items() if key in outcomes}
        for key, agent_request in requests.items():
            model = agent_request.model
            if key not in outcomes:
                raise self._make_miss_error(agent_request, is_model_unknown=model not in models_in_store)
            work = work_by_model[model]
            status = work.record_outcome(rows=[], key=key, outcome=outcomes[key], usd=0.0, stored=True)
            self._log.advance(1, outcome=status, stored=True)

    def _make_miss_error(self, agent_request: AgentRequest, *, is_model_unknown: bool) -> ReplayMissError:
        """Make the error for a request without a stored answer in a replay.

        agent_request : the request
        is_model_unknown : whether the store has no answer of the requested model at all. If True, another model was probably
            used, and the error suggests how to replace the name of the model.
        """
        remedy = "Replay with the same agents, items and models, or generate without --replay."
        if is_model_unknown:
            suggestion = self._suggest_model_map(agent_request.model)
            remedy = (
                f"{suggestion} Otherwise replay with the same agents, items and models, or generate without --replay."
            )
        return ReplayMissError(
            f"The store {self._store.name} has no answer of {agent_request} (under {agent_request.key}), and a replay makes no "
            f"calls. {remedy}",
            slug="replay-miss",
        )

    def _suggest_model_map(self, model: str) -> str:
        """Suggest the option that replays answers of another model, because the store has no answer of `model`.

        If the store has answers of only one model, the suggested option --model-map names it.
        """
        names = sorted({str(judge.get("name")) for judge in self._store.judges()})
        contents = f" The store contains answers of {', '.join(names)}." if names else ""
        replacement = names[0] if len(names) == 1 else "JUDGE"
        return (
            f"The store has no answer of the model '{model}'.{contents} If another model was used in its "
            f"place, set --model-map {model}={replacement}."
        )


class ModelWork:
    """Requests to one model, in the form in which the scheduler takes work, and the answers to them.

    Attributes
    ----------
    requests : list of AgentRequest
        Requests to send.
    answers : dict of str to Completion
        Key of a request → its completion; filled while the requests are sent.
    """

    def __init__(self, models: Models) -> None:
        self.requests: list[AgentRequest] = []
        self.answers: dict[str, Completion] = {}
        self._models = models

    def __len__(self) -> int:
        return self._models.n_calls

    def iter_row_keys(self) -> Iterator[tuple[int, str]]:
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
        return read_response(completion) is not None

    def record_outcome(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        """Record the outcome of a request, and count it in the `Models` object, which counts the requests to all models.

        A completion is added to `answers` under its key. If the model's reasoning did not end, it also counts as failed.

        rows, usd : not used; the scheduler passes them to all kinds of work
        key : key of the request
        outcome : completion, or the failure of the call; None if the request was not sent, which counts as failed
        stored : whether the outcome comes from the store; such a completion does not count in `Models.n_asked`

        Returns "answered", "unfinished_reasoning" if the model's reasoning did not end, or "failed".
        """
        models = self._models
        models.n_done += 1
        if not isinstance(outcome, Completion):
            reason = "not asked" if outcome is None else outcome.reason
            models.record_failure(reason)
            return "failed"

        self.answers[key] = outcome
        if not stored:
            models.n_asked += 1
        if self.is_answer(outcome):
            return "answered"
        models.record_failure("the reasoning did not end within max_tokens")
        return "unfinished_reasoning"

    def make_budget_error(self, budget: Budget) -> BudgetError:
        """Return the error for a budget that does not allow the next call."""
        return make_budget_error(budget, n_done=self._models.n_done, n=len(self), what="calls")


def read_response(completion: Completion) -> str | None:
    """Return the response in a completion, None if the model's reasoning did not end.

    If a reply reached its limit of tokens without a response, the model was still reasoning. Some servers do not return the
    reasoning, so that the text of such a reply is empty.
    """
    response = strip_leading_reasoning(completion.text or completion.refusal or "")
    return None if is_cut_off(completion) and not (response or "").strip() else response
