"""From a plan to verdicts: the judge is connected, what the store lacks is asked, answers become verdicts.

It is the same way for a judge that is asked call by call or in batches, a replay, a jury, and a judge that answers whole plans.
Backends are made here and nowhere else: the judge that a config names, behind the cassette that is inserted, if one is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Literal, cast

import numpy as np

from youden.errors import BudgetError, ConfigError, JudgeError, ReplayMissError, TooManyMissingError
from youden.judging.backend_records import BACKENDS, JURY, PROVIDERS, REPLAY, calling_judge, plan_judge
from youden.judging.backends.several import Jury, RoundRobin
from youden.judging.call.budget import Budget
from youden.judging.call.connection import Backend, Connection
from youden.judging.call.failures import Failure
from youden.judging.call.retries import RetryPolicy
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.judging.offline.batch_providers import BatchProvider, FolderBatches
from youden.judging.offline.in_batches import InBatches
from youden.judging.offline.tape import only_plays, with_cassette
from youden.judging.question.questions import Keyed, Questions, trial_name
from youden.judging.scheduler.calling import Caller
from youden.judging.scheduler.loop import Loop, ask_all
from youden.judging.scheduler.options import Asking, Batching, calibration_account
from youden.judging.scheduler.outcomes import Outcomes
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import AnswersMissingError, StopReason, out_of_money, too_many, too_many_missing
from youden.judging.store.answers import Store, payment_of
from youden.judging.store.plan_answers import Costs, PlanAnswers, in_words, read_answers
from youden.registry import Registry
from youden.text.printable import is_file
from youden.types import Completion, Finding, Judge, Plan, Request, Verdicts

_WORKED_OFF = {
    "anthropic": "youden.judging.offline.http_batches:AnthropicBatches",
    "openai": "youden.judging.offline.http_batches:OpenAIBatches",
}

BATCHES: Registry[type] = Registry(
    "youden.batches",
    "batch-provider",
    {name: _WORKED_OFF[one.batches] for name, one in (BACKENDS | PROVIDERS).items() if one.batches},
)

FOLDER = "folder"
"""`batch_provider: folder` leaves files to whoever works them off; it needs no connection."""


@dataclass(frozen=True, eq=False)
class _Run:
    """What all judges of one run share."""

    plan: Plan
    store: Store | None
    asking: Asking
    budget: Budget
    log: ProgressLog
    environment: Mapping[str, str]


class JudgedTrials:
    """All trials of a run's plan as work for who asks, one row each.

    first: the share of the plan that comes last, so that several who ask one plan begin in different places. stop: why the run
    has to end. costs: what was paid.
    """

    def __init__(self, run: _Run, questions: Questions, *, first: float = 0.0) -> None:
        self.stop = StopReason()
        self.costs = Costs(len(run.plan))
        self._asking = run.asking
        self._log = run.log
        self._plan = run.plan
        self._questions = questions
        self._first = int(first * len(run.plan))
        self._key = np.zeros(len(run.plan), dtype="S64")
        self._counts: Counter[str] = Counter()

    def outcomes(self, config: JudgeConfig, backend: Backend, store: Store) -> Outcomes:
        """How the calls for them end."""
        account, again = self._asking.account, self._asking.retry_failed
        return Outcomes(self, config, backend, store, self.stop, self._log, account, again)

    def __len__(self) -> int:
        return len(self._plan)

    def keys(self) -> Iterator[Keyed]:
        of = self._questions, self._plan
        keys = self._asking.keys
        for row, key in chain(keys(*of, start=self._first), islice(keys(*of), self._first)):
            self._key[row] = key
            yield row, key

    def answers(self, store: Store) -> PlanAnswers:
        """What `store` holds of them once they were asked."""
        seen = ((row, self._key.item(row).decode()) for row in range(len(self)))
        return read_answers(self._questions, self._plan, store, seen, fresh=self.costs.fresh)

    def request(self, row: int, key: str) -> Request:
        return self._questions.request_under(key, self._plan, row)

    def fits(self, request: Request) -> bool:
        return self._questions.fits(request)

    def is_answer(self, completion: Completion) -> bool:
        return self._questions.read(completion).missing == "answered"

    def put(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        completion = outcome if isinstance(outcome, Completion) else None
        reason: str = "not_asked" if outcome is None else "failed"
        if completion is not None:
            reason = self._questions.read(completion).missing
        if not stored:
            self.costs.add(rows, payment_of(usd, completion))
        self._counts[reason] += len(rows)
        if too_many(self._n_missing, self._counts.total(), max_missing=self._asking.max_missing):
            self.stop.stop(self._too_many_missing)
        return reason

    def out_of_money(self, budget: Budget) -> BudgetError:
        return out_of_money(budget, n_done=self._counts.total(), n=len(self))

    @property
    def _n_missing(self) -> int:
        return self._counts.total() - self._counts["answered"]

    def _too_many_missing(self) -> TooManyMissingError:
        return too_many_missing(
            self._n_missing, self._counts.total(), why=in_words(self._counts), max_missing=self._asking.max_missing
        )


def connect(config: JudgeConfig, environment: Mapping[str, str], *, of: Literal["judge", "model"] = "judge") -> Backend:
    """The backend that `config` names, several servers in turn; its key is looked up in `environment` once it is first needed.

    of: a judge, whose config a cassette keeps beside its answers, or a model that writes texts.
    """
    return with_cassette(
        Backend(lambda: _judge(config, environment)),
        address=config.address,
        who=f"the {of} '{config.name}'",
        judge=config.public() if of == "judge" else None,
    )


def check_trust(configs: Iterable[JudgeConfig], environment: Mapping[str, str]) -> None:
    """Check that each key of these judges may be sent to its hosts, unless a cassette answers. Raises: ConfigError."""
    if not only_plays():
        for config in configs:
            config.check_trust(environment)


def _judge(config: JudgeConfig, environment: Mapping[str, str]) -> Judge:
    servers = {one.address: calling_judge(one.backend, one.connection(environment)) for one in config.servers}
    return RoundRobin(servers) if len(servers) > 1 else servers[config.address]


async def judge_plan(
    plan: Plan,
    *,
    config: JudgeConfig,
    asking: Asking | None = None,
    store: Store | None = None,
    judge: Judge | None = None,
    environment: Mapping[str, str] | None = None,
    budget: Budget | None = None,
) -> Verdicts:
    """The judge's answer to every trial of `plan`; what `store` knows is not asked again.

    asking: the terms, whose cap has been checked (`check_cap`); missing answers are looked at from 200 trials on, and a
    cassette answers at once even where batches are asked for. judge: asked instead of the one that `config` names.
    environment: where the key is looked up; None for the process's. budget: of several plans under one cap; None for this one's.
    In the verdicts `usd` is NaN for calls whose price is unknown; it holds what this call of the function cost, and with the
    terms' `account` what all invocations cost.

    Raises: ConfigError and JudgeError before any call where something cannot work; later JudgeError, BudgetError,
    TooManyMissingError, with all answers stored, so that the same call goes on from there; ReplayMissError.
    """
    asking = asking or Asking()
    if asking.batching is not None:
        config = config.at_batch_prices()
    with ProgressLog(asking.progress, asking.log) as log:
        environment = os.environ if environment is None else environment
        run = _Run(plan, store, asking, budget or Budget(asking.max_cost), log, environment)
        if config.backend == JURY:
            if judge is None and not asking.stored_only:
                check_trust(config.judges, environment)  # before the first of them is asked
            ballots = [await _verdicts(run, one, judge) for one in config.judges]
            return Jury(ballots, vote=config.vote, name=config.name).answer_many(plan)
        return await _verdicts(run, config, judge)


async def _verdicts(run: _Run, config: JudgeConfig, judge: Judge | None) -> Verdicts:
    run.log.start(len(run.plan), what=f"judging by {config.name}")
    try:
        if config.backend == REPLAY or (run.asking.stored_only and config.makes_calls):
            return _from_store(run, config)
        if judge is not None:
            return await _asked(run, config, Backend(lambda: judge))
        if not config.makes_calls:
            result = plan_judge(config.backend, config.parameters).answer_many(run.plan)
            if result.plan is not run.plan:
                raise JudgeError(
                    f"The judge '{config.name}' returned verdicts on another plan than the one passed to it. "
                    "Return Verdicts whose `plan` is the plan passed to answer_many.",
                    slug="judge-plan",
                )
            run.log.advance(len(run.plan))
            return result
        backend = connect(config, run.environment)
        if run.asking.batching is not None and backend.batches:
            return await _in_batches(run, config, backend, run.asking.batching)
        try:
            return await _asked(run, config, backend)
        finally:
            await backend.aclose()
    finally:
        run.log.stop()


def _from_store(run: _Run, config: JudgeConfig) -> Verdicts:
    """The verdicts of a judge that is not to be asked: a replay of one, without its costs, or what was answered elsewhere.

    Raises: ReplayMissError [replay-miss], naming the first trial that was never asked; AnswersMissingError, TooManyMissingError.
    """
    store, replays = _needed(run.store, config), config.backend == REPLAY
    judge = (config.of or only_judge(store)) if replays else config
    questions = judge.questions()

    def missed(key: str, row: int) -> None:
        if replays:
            raise ReplayMissError(
                f"The store {store.name} has no answer under {key} to {trial_name(run.plan, row)}. "
                "Replay the plan, pool and judge that were judged, or judge this plan first.",
                slug="replay-miss",
            )

    keys = run.asking.keys(questions, run.plan)
    found = read_answers(questions, run.plan, store, keys, advance=run.log.advance, missed=missed)
    if replays:
        return found.verdicts(judge.describe(), warnings=_about_cuts(questions, run))
    if n_missed := len(run.plan) - found.n_done:
        raise AnswersMissingError(run.plan, n_missing=n_missed)
    return _finished(run, config, store, found, Costs(len(run.plan)))


async def _asked(run: _Run, config: JudgeConfig, backend: Backend) -> Verdicts:
    store = _needed(run.store, config)
    backend.open()  # what it lacks, such as a key, is known before anything is asked
    team = run.asking.team
    trials = JudgedTrials(run, config.questions(), first=0.0 if team is None else team.part)
    outcomes = trials.outcomes(config, backend, store)
    caller = Caller(backend, config, run.budget)
    try:
        store.remember_judge(config.public())
        await ask_all([Loop(outcomes, caller=caller, team=team)], outcomes.stop, grace=run.asking.grace)
    finally:
        store.flush()
    return _finished(run, config, store, trials.answers(store), trials.costs, warnings=backend.warnings())


async def _in_batches(run: _Run, config: JudgeConfig, backend: Backend, batching: Batching) -> Verdicts:
    store = _needed(run.store, config)
    if len(config.servers) > 1:
        raise ConfigError(
            f"The judge '{config.name}' has {len(config.servers)} servers, and a batch is fetched where it was sent. Name one of "
            "them as base_url, or ask without --mode batch.",
            slug="judge-servers",
        )
    trials = JudgedTrials(run, config.questions())
    provider = _provider(run, config, store, batching)
    try:
        store.remember_judge(config.public())
        outcomes = trials.outcomes(config, backend, store)
        batches = InBatches(outcomes, provider=provider, budget=run.budget, batching=batching)
        await batches.go()
    finally:
        try:
            store.flush()
        finally:
            await provider.aclose()
    return _finished(run, config, store, trials.answers(store), trials.costs)


def _provider(run: _Run, config: JudgeConfig, store: Store, batching: Batching) -> BatchProvider:
    name = config.batch_provider or config.backend
    if name == FOLDER:
        folder = _folder_of(store, batching)
        batching.say(f"batches go to {folder}: put the results of requests-….jsonl there as answers-….jsonl")
        return FolderBatches(folder)
    policy = RetryPolicy(config.max_tries, config.backoff)
    return batch_provider(name, config.connection(run.environment), policy)


def batch_provider(backend: str, connection: Connection, policy: RetryPolicy) -> BatchProvider:
    """The Batch API behind `connection`. Raises: ConfigError [unknown-batch-provider]."""
    return cast(BatchProvider, BATCHES.load(backend)(connection, policy=policy))


def _finished(
    run: _Run,
    config: JudgeConfig,
    store: Store,
    found: PlanAnswers,
    costs: Costs,
    *,
    warnings: tuple[Finding, ...] = (),
) -> Verdicts:
    """Return the verdicts, with the costs of the account if any, and findings on costs, served models and shortened texts."""
    whose = config.public()
    drift = found.served.since(store.served(whose))
    store.remember_served(whose, found.served.fresh())
    usd_tried = 0.0
    if (account := run.asking.account) is not None:
        costs = costs.by_account(found.key, store.paid(account))
        tried = store.paid(calibration_account(account))
        asked = set(found.key.tolist()) if tried else set()
        usd_tried = sum(one.usd for key, one in tried.items() if key.encode() in asked)
    costs_uncertain = run.budget.uncertain[config.name].findings(config.name)
    warnings = (*costs_uncertain, *warnings, *drift, *_about_cuts(config.questions(), run))
    return found.verdicts(config.describe(), costs, usd_tried=usd_tried, warnings=warnings)


def _about_cuts(questions: Questions, run: _Run) -> tuple[Finding, ...]:
    n = int(questions.cut(run.plan).sum())
    if not n:
        return ()
    said = (
        f"{n:,} of {len(run.plan):,} trials {'was' if n == 1 else 'were'} judged on shortened texts "
        f"(truncate: {questions.truncate}; the model's context is {questions.context:,} tokens)."
    )
    return (Finding("shortened", said, facts={"n": n, "of": len(run.plan)}),)


def _folder_of(store: Store, batching: Batching) -> Path:
    """Where files of requests are left: beside a store that is a file, else where the run says."""
    if is_file(store.name):
        return Path(store.name).with_name("batches")
    if batching.folder is None:
        raise ConfigError(
            f"The judge leaves its batches in a folder, and {store.name} is not a file next to which it could be "
            "created. Pass batch_folder.",
            slug="batch-place",
        )
    return batching.folder


def _needed(store: Store | None, config: JudgeConfig) -> Store:
    if store is None:
        raise ConfigError(
            f"The judge '{config.name}' needs a store, because answers are paid for. Pass a path, such as .youden/answers.db.",
            slug="store-needed",
        )
    return store


def only_judge(store: Store) -> JudgeConfig:
    """The one judge whose answers `store` keeps. Raises: ConfigError [replay-whom]."""
    judges = store.judges()
    if len(judges) != 1:
        names = ", ".join(sorted(str(judge.get("name")) for judge in judges)) or "nobody"
        raise ConfigError(
            f"The store {store.name} holds answers of {names}, so it is not clear whom to replay. "
            "Say it in the judge's config: {backend: replay, of: NAME}.",
            slug="replay-whom",
        )
    return load_judge_config(judges[0])
