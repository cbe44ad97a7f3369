"""Judge a plan: connect the judge, send the requests that the store has no answer to, and convert answers to verdicts.

All kinds of judges are run here: single calls, batches, replays, juries, and judges that answer whole plans.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import cast

import numpy as np

from youden.errors import BudgetError, ConfigError, JudgeError, ReplayMissError, TooManyMissingError
from youden.judging.backend_records import BACKENDS, JURY, PROVIDERS, REPLAY, make_plan_judge
from youden.judging.backends.several import Jury
from youden.judging.call.budget import Budget
from youden.judging.call.connection import Backend, Connection
from youden.judging.call.failures import Failure
from youden.judging.call.retries import RetryPolicy
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.judging.connecting import check_trust, connect
from youden.judging.offline.batch_providers import BatchProvider, FolderBatches
from youden.judging.offline.in_batches import BatchRunner
from youden.judging.question.questions import Questions, RowKey, describe_trial
from youden.judging.scheduler.calling import Caller
from youden.judging.scheduler.loop import RequestLoop, run_loops
from youden.judging.scheduler.options import Batching, JudgingOptions
from youden.judging.scheduler.outcomes import Outcomes
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import (
    AnswersMissingError,
    StopReason,
    exceeds_max_missing,
    make_budget_error,
    make_too_many_missing_error,
)
from youden.judging.store.accounts import calibration_account
from youden.judging.store.answers import Store, make_payment
from youden.judging.store.plan_answers import Costs, PlanAnswers, format_missing_reasons, iter_call_lists, read_answers
from youden.registry import Registry
from youden.text.printable import is_local_file
from youden.types import PAIRED, Completion, Finding, Judge, Plan, Request, Verdicts

_BATCH_CLASSES = {
    "anthropic": "youden.judging.offline.http_batches:AnthropicBatches",
    "openai": "youden.judging.offline.http_batches:OpenAIBatches",
}

BATCHES: Registry[type] = Registry(
    "youden.batches",
    "batch-provider",
    {name: _BATCH_CLASSES[record.batches] for name, record in (BACKENDS | PROVIDERS).items() if record.batches},
)

FOLDER = "folder"
"""Value of `batch_provider` that exchanges files with an external engine through a folder, without a connection."""


@dataclass(frozen=True, eq=False)
class _Run:
    """Arguments of `judge_plan` that all judges of a jury share."""

    plan: Plan
    store: Store | None
    options: JudgingOptions
    budget: Budget
    log: ProgressLog
    environment: Mapping[str, str]
    jury: tuple[JudgeConfig, ...] = ()


class JudgedTrials:
    """The trials of a plan, for which the scheduler sends requests.

    Parameters
    ----------
    run : _Run
        Plan, options and log.
    config : JudgeConfig
        Judge, whose prompt and parser are used.
    store : Store
        Store of the answers and their costs.
    start_fraction : float in [0, 1), default 0
        Fraction of the plan after which to begin. Workers on one plan begin at different trials.

    Attributes
    ----------
    stop : StopReason
        Reason for which the run has to stop, if any.
    costs : Costs
        Costs of the calls of this invocation.
    """

    def __init__(self, run: _Run, config: JudgeConfig, store: Store, *, start_fraction: float = 0.0) -> None:
        n_trials = len(run.plan)
        self.stop = StopReason()
        self.costs = Costs(n_trials)
        self._run = run
        self._options = run.options
        self._log = run.log
        self._plan = run.plan
        self._config = config
        self._questions = config.questions()
        self._store = store
        self._start_fraction = start_fraction
        self._request_hashes = np.zeros(n_trials, dtype="S64")
        self._counts: Counter[str] = Counter()  # trials done by outcome: "answered", or the reason of a missing answer
        self._new_counts: Counter[str] = Counter()  # trials done by outcome, without stored ones

    def make_outcome_handler(self, backend: Backend) -> Outcomes:
        """Make the object that stores the outcomes of the calls for these trials, and their costs."""
        return Outcomes(self, self._config, backend, self._store, self.stop, self._log, self._options)

    def __len__(self) -> int:
        return len(self._plan)

    def iter_row_keys(self) -> Iterator[RowKey]:
        """Yield row and request hash of every trial in the order of judging, and keep the hashes in this object.

        Independent trials, which compare responses to different items, are at the end of the plan. They are spread evenly over
        the trials before them. A run that ends early, for example at its cost cap, therefore has answers of both trial types.
        Several processes that judge a plan begin at different trials.
        """
        n_trials = len(self._plan)
        paired_rows = np.flatnonzero(self._plan.trial_type == PAIRED)
        independent_start = 0  # row of the first independent trial after all paired trials
        if len(paired_rows) > 0:
            independent_start = int(paired_rows[-1]) + 1

        earlier_trials = self._iter_from_start_position(0, independent_start)
        independent_trials = self._iter_from_start_position(independent_start, n_trials)
        n_independent = n_trials - independent_start
        merged_trials = _insert_evenly(independent_trials, n_independent, base=earlier_trials, n_base=independent_start)
        for row, key in merged_trials:
            self._request_hashes[row] = key  # `read_answers` needs it
            yield row, key

    def _iter_from_start_position(self, begin: int, end: int) -> Iterator[RowKey]:
        """Yield row and request hash of all trials in `range(begin, end)`, beginning at the start position of this process.

        After the last trial of the range, the trials before the start position follow.
        """
        start = begin + int(self._start_fraction * (end - begin))
        iter_keys = partial(self._options.keys, self._questions, self._plan)
        yield from islice(iter_keys(start=start), end - start)
        yield from islice(iter_keys(start=begin), start - begin)

    def read_answers(self) -> PlanAnswers:
        """Read the answers to all trials from the store. Call this after `iter_row_keys` has yielded all trials."""
        keys = ((row, self._request_hashes.item(row).decode()) for row in range(len(self)))
        return read_answers(self._questions, self._plan, self._store, keys, is_new=self.costs.is_new)

    def request(self, row: int, key: str) -> Request:
        """Make the request of the trial at `row`, and check that its request hash is `key`."""
        return self._questions.request_with_key(key, self._plan, row)

    def fits(self, request: Request) -> bool:
        """Return whether a request fits the context window of the model."""
        return self._questions.fits(request)

    def is_answer(self, completion: Completion) -> bool:
        """Return whether the parser finds an answer in a completion."""
        return self._questions.read(completion).missing_reason == "answered"

    def record_outcome(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        """Record the outcome of a call, and set `stop` if too many trials have no answer.

        From 200 trials on, `stop` is set in two cases: significantly more of the new answers are missing than `max_missing`
        allows, or, after a stored outcome, the missing answers so far are already too many for all trials of the plan.

        Parameters
        ----------
        rows : sequence of int
            Positions of the trials that need the answer.
        key : str
            Request hash. It is ignored, because `rows` identify the trials.
        outcome : Completion, Failure or None
            None if the request cannot be sent, because it is too long for the model.
        usd : float
            Cost of the call in USD, NaN if unknown, which is booked in the first of the trials.
        stored : bool
            Whether the outcome was in the store before; `usd` is then ignored.

        Returns
        -------
        str
            "answered", or the reason why there is no answer, such as "not_asked", "failed" or "unparsed".
        """
        completion = None
        if outcome is None:
            reason = "not_asked"
        elif isinstance(outcome, Completion):
            completion = outcome
            reason = self._questions.read(completion).missing_reason
        else:
            reason = "failed"

        self._counts[reason] += len(rows)
        if stored:
            # a stored outcome costs nothing, so the run continues as long as enough trials may still get an answer
            counts = self._counts
            n_done = len(self)
        else:
            self.costs.add(rows, make_payment(usd, completion))
            self._new_counts[reason] += len(rows)
            counts = self._new_counts
            n_done = counts.total()

        n_missing = counts.total() - counts["answered"]
        if exceeds_max_missing(n_missing, n_done, max_missing=self._options.max_missing, is_certain=stored):
            # calls in flight may still be answered, and more stored outcomes may follow
            final_counts = counts if stored else counts.copy()
            self.stop.request_stop(partial(self._make_too_many_missing_error, final_counts))
        return reason

    def make_budget_error(self, budget: Budget) -> BudgetError:
        """Make the error for a budget that is spent before all trials are answered, by each judge of a jury."""
        paid_judges = [judge for judge in self._run.jury if judge.makes_calls]
        if not paid_judges:
            return make_budget_error(budget, n_done=self._count_done(), n=len(self))

        # the judges of a jury answer one after another, so that all before this one are done
        n_done_judges = [judge.name for judge in paid_judges].index(self._config.name)
        later_judges = paid_judges[n_done_judges + 1 :]
        n_done_by_later = sum(JudgedTrials(self._run, judge, self._store)._count_done() for judge in later_judges)
        n_done = n_done_judges * len(self) + self._count_done() + n_done_by_later
        n = len(paid_judges) * len(self)
        return make_budget_error(budget, n_done=n_done, n=n, what=f"answers of the {len(paid_judges)} judges")

    def _count_done(self) -> int:
        """Count the trials that need no request, including those that other processes or earlier invocations answered."""
        row_keys = self._options.keys(self._questions, self._plan)
        call_lists = iter_call_lists(row_keys, self._store, make_request=self.request)
        n_stored = 0
        for call in chain.from_iterable(call_lists):
            if call.final_outcome(self.is_answer, retry_failed=self._options.retries(call.key)) is not None:
                n_stored += len(call.rows)
        return n_stored + self._counts["not_asked"]

    def _make_too_many_missing_error(self, counts: Counter[str]) -> TooManyMissingError:
        """Return the error that more answers are missing than allowed; `counts` are the trials by outcome."""
        return make_too_many_missing_error(
            counts.total() - counts["answered"],
            counts.total(),
            reasons=format_missing_reasons(counts),
            max_missing=self._options.max_missing,
        )


def _insert_evenly(rows: Iterator[RowKey], n_rows: int, *, base: Iterator[RowKey], n_base: int) -> Iterator[RowKey]:
    """Yield the elements of `base`, with the elements of `rows` inserted between them at equal distances.

    n_rows, n_base : number of elements of `rows` and of `base`
    """
    n_inserted = 0
    for n_yielded, element in enumerate(base, 1):
        yield element
        # for example, after half of `base`, half of `rows` must have been inserted
        n_due = n_yielded * n_rows // n_base
        yield from islice(rows, n_due - n_inserted)
        n_inserted = n_due
    yield from rows  # all rows if `base` is empty; none if it is not


async def judge_plan(
    plan: Plan,
    *,
    config: JudgeConfig,
    options: JudgingOptions | None = None,
    store: Store | None = None,
    judge: Judge | None = None,
    environment: Mapping[str, str] | None = None,
    budget: Budget | None = None,
) -> Verdicts:
    """Run a judge on every trial of a plan and return its verdicts. Stored answers are reused.

    Parameters
    ----------
    plan : Plan
        Trials to be judged, with the pool of their texts.
    config : JudgeConfig
        The judge. A jury sends the requests of its judges one judge after the other.
    options : JudgingOptions, optional
        Options of the run. The cost cap must have been checked with `check_cap`. The limit on missing answers applies
        from 200 trials on. A cassette answers single calls even if batches are set.
    store : Store, optional
        Store of the answers; required for judges that make calls.
    judge : Judge, optional
        Judge to use instead of the one that `config` describes, whose prompt, parser and prices are used nevertheless.
        It is ignored for a replay, and if only stored answers are read.
    environment : mapping, optional
        Environment variables with the API key. Default: those of the process.
    budget : Budget, optional
        Budget that several plans share. Default: one of this plan, with the cap of `options`.

    Returns
    -------
    Verdicts
        One row per trial. Its costs in USD are those of this invocation, or, if `options` has an account, of all
        invocations; NaN if a price is unknown.

    Raises
    ------
    ConfigError, JudgeError
        Before any call, if judge, store and options do not fit.
    JudgeError, BudgetError, TooManyMissingError
        If the run has to stop. All answers are stored, so that the same call resumes it.
    AnswersMissingError
        If `options` allows only stored answers, and the store lacks some.
    IncompleteRunError
        If the server cannot be reached for longer than the outage limit, or the state of a batch is unknown.
    ReplayMissError
        [replay-miss]: if a replay lacks an answer.
    """
    options = options or JudgingOptions()
    if options.batching is not None:
        config = config.with_batch_prices()
    if environment is None:
        environment = os.environ

    with ProgressLog(options.progress, options.log) as log:
        run = _Run(plan, store, options, budget or Budget(options.max_cost), log, environment, config.judges)
        if config.backend != JURY:
            return await _run_judge(run, config, judge)

        # judges that make no calls come first: if one of them cannot judge the plan, no call has been paid for
        members = sorted(config.judges, key=lambda member: member.makes_calls)
        ballot_by_name = {member.name: await _run_judge(run, member, judge) for member in members}
        ballots = [ballot_by_name[member.name] for member in config.judges]
        return Jury(ballots, vote=config.vote, name=config.name).answer_many(plan)


async def _run_judge(run: _Run, config: JudgeConfig, judge: Judge | None) -> Verdicts:
    """Run one judge, and return its verdicts on the plan.

    The config and the options decide whether stored answers are read, the judge judges the whole plan at once, or requests are
    sent.

    run : plan, store, options, budget and log, which all judges of a jury share
    config : config of the judge
    judge : object that answers requests in place of the server of `config`, and that the caller closes; None to connect to
        the server
    """
    run.log.start(len(run.plan), what=f"judging by {config.name}")
    try:
        if config.backend == REPLAY:
            return _read_replayed_verdicts(run, config)
        if run.options.stored_only and config.makes_calls:
            return _read_stored_verdicts(run, config)
        if judge is not None:
            backend = Backend(lambda: judge)
            return await _run_calls(run, config, backend)
        if not config.makes_calls:
            return _judge_whole_plan(run, config)
        return await _connect_and_run(run, config)
    finally:
        run.log.stop()


async def _connect_and_run(run: _Run, config: JudgeConfig) -> Verdicts:
    """Connect to the server of a judge, send the requests in batches or as single calls, and return the verdicts.

    Batches are used if the options contain settings of batches and the backend allows them. A cassette, which is a file of
    recorded requests and answers, allows only single calls.
    """
    backend = connect(config, run.environment, jury=run.jury)
    batching = run.options.batching
    if batching is not None and backend.batches:
        return await _run_batches(run, config, backend, batching)
    try:
        return await _run_calls(run, config, backend)
    finally:
        await backend.aclose()


def _judge_whole_plan(run: _Run, config: JudgeConfig) -> Verdicts:
    """Return the verdicts of a judge that sends no requests, and judges all trials of a plan in one call.

    run : plan, store, options, budget and log, which all judges of a jury share

    Raises: JudgeError [judge-plan] if the judge returns verdicts on another plan.
    """
    verdicts = make_plan_judge(config.backend, config.parameters).answer_many(run.plan)
    if verdicts.plan is not run.plan:
        raise JudgeError(
            f"The judge '{config.name}' returned verdicts on another plan than the one that it was given. "
            "Return Verdicts whose `plan` is the plan passed to answer_many.",
            slug="judge-plan",
        )
    run.log.advance(len(run.plan))
    # a run is resumed by the registered name of its judge
    return replace(verdicts, judge={**verdicts.judge, "name": config.backend})


def _read_replayed_verdicts(run: _Run, config: JudgeConfig) -> Verdicts:
    """Return the verdicts of a replay, which repeat the stored answers of another judge. Nothing is sent or paid for.

    run : plan, store, options and log
    config : judge with the backend "replay". Its key `replay_of` names the judge whose answers are repeated; by default, it is
        the only judge whose answers the store contains.

    Raises: ConfigError [replay-ambiguous] if the store has answers of several judges and none is named; ReplayMissError
    [replay-miss] if the store has no answer to a trial.
    """
    store = _require_store(run.store, config)
    replayed_judge = config.replay_of or load_only_judge(store)
    questions = replayed_judge.questions()

    def raise_replay_miss(key: str, row: int) -> None:
        raise ReplayMissError(
            f"The store {store.name} has no answer with the key {key} to {describe_trial(run.plan, row)}. "
            "Replay the plan, pool and judge that were judged, or judge this plan first.",
            slug="replay-miss",
        )

    row_keys = run.options.keys(questions, run.plan)
    answers = read_answers(
        questions, run.plan, store, row_keys, on_read=run.log.advance, on_not_stored=raise_replay_miss
    )
    return answers.to_verdicts(replayed_judge.describe(), warnings=_find_shortened_texts(questions, run))


def _read_stored_verdicts(run: _Run, config: JudgeConfig) -> Verdicts:
    """Return the verdicts of a judge from its answers in the store, without sending a request.

    A trial without a stored answer is "pending" if the option `allows_pending` is set.

    run : plan, store, options and log
    config : judge that gave the answers

    Raises: ConfigError [store-needed] without a store; AnswersMissingError if a trial has no stored answer and the option is not
    set.
    """
    plan = run.plan
    store = _require_store(run.store, config)
    questions = config.questions()
    request_hashes = run.options.keys(questions, plan)
    answers = read_answers(questions, plan, store, request_hashes, on_read=run.log.advance, not_stored="pending")

    n_not_stored = len(plan) - answers.n_done
    if n_not_stored > 0 and not run.options.allows_pending:
        raise AnswersMissingError(plan, n_missing=n_not_stored)

    no_costs = Costs(len(plan))
    return _make_verdicts(run, config, store, answers, no_costs)


async def _run_calls(run: _Run, config: JudgeConfig, backend: Backend) -> Verdicts:
    """Send one HTTP request for each trial without a stored answer, concurrently, and return the verdicts.

    The verdicts are made from the answers in the store, because several processes (workers) may share the requests of a run. A
    run whose answers are all stored needs no API key. If a signal stops the run, calls in flight have `options.grace` seconds to
    end.

    run : plan, store, options, budget and log, which all judges of a jury share
    config : judge, whose prompt, parser and prices are used
    backend : client of the judge's server

    Raises: ConfigError [store-needed] without a store; the errors of `run_loops` if the run has to stop.
    """
    store = _require_store(run.store, config)

    # the workers begin at different trials, so that they rarely need the same request
    workers = run.options.team
    start_fraction = 0.0 if workers is None else workers.start_fraction
    trials = JudgedTrials(run, config, store, start_fraction=start_fraction)

    # the caller sends requests, and the handler stores their outcomes
    caller = Caller(backend, config, run.budget)
    outcome_handler = trials.make_outcome_handler(backend)
    request_loop = RequestLoop(outcome_handler, caller=caller, workers=workers)
    try:
        store.remember_judge(config.public())
        await run_loops([request_loop], trials.stop, grace=run.options.grace)
    finally:
        store.flush()  # also if the run fails: its answers are paid for

    answers = trials.read_answers()
    return _make_verdicts(run, config, store, answers, trials.costs, warnings=backend.warnings())


async def _run_batches(run: _Run, config: JudgeConfig, backend: Backend, batching: Batching) -> Verdicts:
    """Send the requests without a stored answer in batches, wait for their results, and return the verdicts.

    A batch is a file of requests that a provider answers within a day, at a lower price than single calls.

    run : plan, store, options, budget and log, which all judges of a jury share
    config : judge with one server, whose prompt, parser and prices are used
    backend : client of the judge's server
    batching : how to send and poll batches

    Raises: ConfigError [store-needed] without a store, [judge-servers] if the judge has several servers; the errors of
    `BatchRunner.run` if the run has to stop.
    """
    store = _require_store(run.store, config)
    _check_single_server(config)

    # The runner sends the requests of the trials with the provider's batch interface, which it makes when it needs one. It passes
    # each outcome to the handler, which stores it and reports it to `trials`.
    trials = JudgedTrials(run, config, store)
    outcome_handler = trials.make_outcome_handler(backend)
    make_provider = partial(_make_provider, run, config, store, batching)
    runner = BatchRunner(outcome_handler, make_provider=make_provider, budget=run.budget, batching=batching)

    async with aclosing(runner):
        try:
            store.remember_judge(config.public())
            await runner.run()
        finally:
            store.flush()  # also if the run fails: its answers are paid for

    answers = trials.read_answers()
    return _make_verdicts(run, config, store, answers, trials.costs)


def _check_single_server(config: JudgeConfig) -> None:
    """Check that a judge that is queried in batches has one server. Raises: ConfigError [judge-servers] otherwise."""
    if len(config.servers) > 1:
        raise ConfigError(
            f"The judge '{config.name}' has {len(config.servers)} servers, but a batch is fetched from the server that it was "
            "sent to. Set base_url to one of them, or run without --mode batch.",
            slug="judge-servers",
        )


def _make_provider(run: _Run, config: JudgeConfig, store: Store, batching: Batching) -> BatchProvider:
    """Make the provider of a judge's batches: a Batch API, or a folder for the exchange with an external engine.

    The path of the folder is shown to the user. Before a Batch API is used, the API keys of all judges of the jury are checked:
    each may be sent only to hosts that it belongs to or that the user allowed.

    run : plan, store, options, budget and log, which all judges of a jury share
    config : judge with one server
    store : store of the answers; if it is a file, the folder is next to it
    batching : how to send and poll batches

    Raises: ConfigError [batch-place] if the folder is not known; the errors of an API key that is missing or may not be sent.
    """
    provider_name = config.batch_provider or config.backend
    if provider_name == FOLDER:
        folder = _get_batch_folder(store, batching)
        batching.say(f"batches go to {folder}: put the results of requests-….jsonl there as answers-….jsonl")
        return FolderBatches(folder)

    check_trust(run.jury, run.environment)
    connection = config.connection(run.environment)
    policy = RetryPolicy(config.max_tries, config.backoff)
    return batch_provider(provider_name, connection, policy)


def batch_provider(backend: str, connection: Connection, policy: RetryPolicy) -> BatchProvider:
    """Make the provider of batches of a backend. Raises: ConfigError [unknown-batch-provider]."""
    return cast(BatchProvider, BATCHES.load(backend)(connection, policy=policy))


def _make_verdicts(
    run: _Run,
    config: JudgeConfig,
    store: Store,
    answers: PlanAnswers,
    costs: Costs,
    *,
    warnings: tuple[Finding, ...] = (),
) -> Verdicts:
    """Combine the answers of a judge with their costs and with messages for the user (findings).

    With a cost account, the verdicts contain the costs of all invocations of the run, as recorded in the store. Otherwise,
    they contain only the costs of this invocation. The names of the models that answered are written to the store, unless it
    is read-only.

    run : plan, options and budget
    config : judge that gave the answers
    store : store of the answers, the costs and the names of the models
    answers : answers to all trials of the plan, from the store
    costs : costs of the calls of this invocation
    warnings : findings about the judge's servers, for example that one of them failed
    """
    cost_findings = run.budget.uncertain[config.name].findings(config.name)
    model_findings = _record_answering_models(run, config, store, answers)
    text_findings = _find_shortened_texts(config.questions(), run)
    findings = (*cost_findings, *warnings, *model_findings, *text_findings)

    account = run.options.account
    if account is None:
        return answers.to_verdicts(config.describe(), costs, warnings=findings)

    payments = store.read_payments(account)
    costs_of_account = costs.with_stored_payments(answers.request_hashes, payments)
    usd_calibration = _sum_calibration_costs(store, account, answers)
    return answers.to_verdicts(config.describe(), costs_of_account, usd_calibration=usd_calibration, warnings=findings)


def _record_answering_models(run: _Run, config: JudgeConfig, store: Store, answers: PlanAnswers) -> tuple[Finding, ...]:
    """Compare the models that gave the answers with those of earlier runs, and write their names to the store.

    A provider can replace a model by another version, which may change its answers. If the store is only read, the names are
    not written.

    run : options of the run
    config : judge that gave the answers
    store : store, which has the names from earlier runs
    answers : answers to all trials of the plan, with the names of their models

    Returns a finding if a model answered that did not answer in earlier runs, else an empty tuple.
    """
    judge = config.public()
    earlier_names = store.read_response_models(judge)
    findings = answers.answering_models.find_changes_since(earlier_names)
    if not run.options.read_only:
        store.add_response_models(judge, answers.answering_models.list_new_names())
    return findings


def _sum_calibration_costs(store: Store, account: str, answers: PlanAnswers) -> float:
    """Sum what the calibration of the judge has paid for answers that the plan reuses.

    A calibration tests a judge on trials whose correct answers are known. Its payments have a separate cost account.

    account : cost account of the run
    answers : answers to the trials of the plan, with their request hashes

    Returns the sum in USD; NaN if a cost is unknown.
    """
    payments = store.read_payments(calibration_account(account))
    if not payments:
        return 0.0
    request_hashes = set(answers.request_hashes.tolist())
    return sum([payment.usd for key, payment in payments.items() if key.encode() in request_hashes])


def _find_shortened_texts(questions: Questions, run: _Run) -> tuple[Finding, ...]:
    """Return a finding if texts were shortened to fit the context window of the model, else an empty tuple.

    questions : prompt of the judge, and its limit on the length of texts
    run : plan whose texts are counted
    """
    n_shortened = int(questions.truncated_rows(run.plan).sum())
    if n_shortened == 0:
        return ()
    verb = "was" if n_shortened == 1 else "were"
    message = (
        f"{n_shortened:,} of {len(run.plan):,} trials {verb} judged on shortened texts "
        f"(truncate: {questions.truncate}; the model's context is {questions.context:,} tokens)."
    )
    return (Finding("shortened", message, facts={"n": n_shortened, "n_trials": len(run.plan)}),)


def _get_batch_folder(store: Store, batching: Batching) -> Path:
    """Return the folder for files of batches: `batches` next to a store that is a file, else the folder in the options.

    store : store of the answers
    batching : options of batches, which may contain a folder

    Raises: ConfigError [batch-place] if the store is not a file and the options contain no folder.
    """
    if is_local_file(store.name):
        return Path(store.name).with_name("batches")
    if batching.folder is None:
        raise ConfigError(
            f"The judge exchanges its batches through a folder, and {store.name} is not a file next to which it could be "
            "created. Pass batch_folder.",
            slug="batch-place",
        )
    return batching.folder


def _require_store(store: Store | None, config: JudgeConfig) -> Store:
    """Return the store. Raises: ConfigError [store-needed] if it is None."""
    if store is None:
        raise ConfigError(
            f"The judge '{config.name}' needs a store, because answers are paid for. Pass a path, such as .youden/answers.db.",
            slug="store-needed",
        )
    return store


def load_only_judge(store: Store) -> JudgeConfig:
    """Load the config of the only judge whose answers a store has.

    Parameters
    ----------
    store : Store
        Store of the answers.

    Returns
    -------
    JudgeConfig
        Its config.

    Raises
    ------
    ConfigError
        [replay-ambiguous] if the store has answers of several judges or of no judge.
    """
    judges = store.judges()
    if len(judges) != 1:
        names = sorted(str(judge.get("name")) for judge in judges)
        displayed_names = ", ".join(names) or "no judge"
        raise ConfigError(
            f"The store {store.name} has answers of {displayed_names}, so it is not clear which judge to replay. "
            "Set it in the judge's config: {backend: replay, replay_of: NAME}.",
            slug="replay-ambiguous",
        )
    return load_judge_config(judges[0])
