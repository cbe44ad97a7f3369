"""Asks models for texts: the requests that agents make, as work for the loop that also asks judges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from youden.errors import BudgetError, ReplayMissError
from youden.judging.asking.calling import Caller
from youden.judging.asking.endings import Ending, out_of_money
from youden.judging.asking.loop import Loop
from youden.judging.asking.side_by_side import ask_all
from youden.judging.asking.sight import EventLog, Sight
from youden.judging.asking.terms import Asking
from youden.judging.call.backend import Backend
from youden.judging.call.budget import Budget
from youden.judging.call.failures import Failure
from youden.judging.cassette.lines import Entry, entry
from youden.judging.config.reading import JudgeConfig
from youden.judging.connecting import connect
from youden.judging.question.questions import canonical, key_of
from youden.judging.store.answers import Store
from youden.nouns import Completion, Json, Judge, Message, Request

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
        self._sight = Sight(asking.progress, log)
        self._sight.start(n_calls, what="generating")
        self._budget = Budget(asking.max_cost)
        self._ending = Ending()
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
                await ask_all(loops, self._ending, grace=self._asking.grace)
            finally:
                self._store.flush()
        return {key: completion for work in works.values() for key, completion in work.answers.items()}

    async def aclose(self) -> None:
        """Let go of the models."""
        self._sight.stop()
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
            ending=self._ending,
            sight=self._sight,
            retry_failed=self._asking.retry_failed,
        )

    def _look_up(self, wanted: Mapping[str, Wanted], works: Mapping[str, Texts]) -> None:
        known = self._store.failures(list(wanted)) | self._store.answers(list(wanted))
        for key, one in wanted.items():
            if key not in known:
                of_model = [other for other in wanted.values() if other.model == one.model]
                raise self._not_there(one, flag=not any(other.key in known for other in of_model))
            reason = works[one.model].put([0], key, known[key], usd=0.0, stored=True)
            self._sight.advance(1, missing=reason, stored=True)

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
