"""Find out which trials of a plan the store has answers to, and convert stored answers to verdicts.

Engines only write outcomes to the store and costs to `Costs`. Verdicts are made from stored answers
alone, by `read_answers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np

from youden.judging.call.failures import Attempts, Failure
from youden.judging.question.parsing import MissingReason, Reading, make_missing_reading
from youden.judging.question.questions import Questions, RowKey
from youden.judging.store.answers import Store
from youden.judging.store.contract import Payment
from youden.text.sentences import format_count
from youden.types import MISSING_REASONS, Completion, Finding, Plan, Request, Verdicts
from youden.types.pool import Bools, Json

CHUNK = 1000
"""Number of trials whose answers are looked up in one query of the store."""

_NOT_ASKED, _FAILED = make_missing_reading("not_asked"), make_missing_reading("failed")
_CODES = {reason: code for code, reason in enumerate(MISSING_REASONS)}


@dataclass(eq=False)
class Call:
    """One distinct request, its stored outcome, and the attempts to send it.

    Attributes
    ----------
    key : str
        Request hash.
    rows : list of int
        Trials that need the answer.
    cached : Completion, Failure or None
        Outcome in the store when the call was looked up; None if there is none.
    make_request : callable
        Makes the request from a row and its key.
    usd : float
        USD booked for all attempts so far.
    last_attempt_usd : float
        USD booked for the last attempt.
    attempts : Attempts
        Failed attempts.
    n_lease_losses : int
        Value of `Leases.n_losses` when the lease on its request was acquired.
    """

    key: str
    rows: list[int]
    cached: Completion | Failure | None
    make_request: Callable[[int, str], Request]
    usd: float = 0.0
    last_attempt_usd: float = 0.0
    attempts: Attempts = field(default_factory=Attempts)
    n_lease_losses: int = 0

    @cached_property
    def request(self) -> Request:
        """The request, made when it is first needed: a cached answer needs none."""
        return self.make_request(self.rows[0], self.key)

    def final_outcome(
        self, is_answer: Callable[[Completion], bool], *, retry_failed: bool = False
    ) -> Completion | Failure | None:
        """Return the stored outcome if the request need not be sent again.

        Parameters
        ----------
        is_answer : callable
            Returns whether a completion can be parsed as an answer.
        retry_failed : bool, default False
            If True, only completions that can be parsed as answers are final, so failed requests are sent again. By default,
            all completions and rejections are final.

        Returns
        -------
        Completion, Failure or None
            None if the request has to be sent; a transient failure is never final.
        """
        outcome = self.cached
        if outcome is None:
            return None
        if isinstance(outcome, Completion):
            is_final = not retry_failed or is_answer(outcome)
        else:
            is_final = not retry_failed and outcome.kind == "rejected"
        return outcome if is_final else None


def iter_call_lists(
    keys: Iterable[RowKey], store: Store, *, make_request: Callable[[int, str], Request], size: int = CHUNK
) -> Iterator[list[Call]]:
    """Group trials with the same request into calls, and look up the stored outcomes of the calls.

    Only the next `size` trials are grouped at a time, so several calls may have the same request.

    Parameters
    ----------
    keys : iterable of (int, str)
        Row and request hash of each trial.
    store : Store
        Store of the answers.
    make_request : callable
        Makes the request from a row and its key. It is called only when the request of a call is needed.
    size : int, default 1000
        Number of trials that are read at a time.

    Yields
    ------
    list of Call
        One call per distinct request of the next `size` trials, in the order of the trials. The stored outcome of a call
        is in `cached`; None if the store has none.
    """
    remaining_row_keys = iter(keys)
    while True:
        next_row_keys = list(islice(remaining_row_keys, size))
        if not next_row_keys:
            return
        rows_by_key: dict[str, list[int]] = {}
        for row, key in next_row_keys:
            rows_by_key.setdefault(key, []).append(row)
        outcomes = store.get_outcomes(list(rows_by_key))
        yield [Call(key, rows, outcomes.get(key), make_request) for key, rows in rows_by_key.items()]


class Costs:
    """Costs of calls by trial. The cost of a call is booked in the first trial that needs it; it is 0 in all others.

    Attributes
    ----------
    usd, seconds : float array, shape (n_trials,)
        Cost in USD, NaN if unknown, and duration of the calls.
    tokens_in, tokens_out : int array, shape (n_trials,)
        Tokens of the requests and of the answers.
    is_new : bool array, shape (n_trials,)
        Whether the answer was received in this invocation.
    """

    def __init__(self, n_trials: int) -> None:
        self.usd = np.zeros(n_trials)
        self.seconds = np.zeros(n_trials)
        self.tokens_in = np.zeros(n_trials, dtype=np.int32)
        self.tokens_out = np.zeros(n_trials, dtype=np.int32)
        self.is_new = np.zeros(n_trials, dtype=np.bool_)

    def add(self, rows: Sequence[int], payment: Payment) -> None:
        """Add a call that was made for the trials `rows` in this invocation."""
        self.is_new[list(rows)] = True
        self._set_row(rows[0], payment)

    def with_stored_payments(self, request_hashes: np.ndarray, payments: Mapping[str, Payment]) -> Costs:
        """Return the costs of all invocations of a run, from its stored payments.

        The costs in this object are those of the current invocation. They are not added: the stored payments include them.

        Parameters
        ----------
        request_hashes : bytes array S64, shape (n_trials,)
            Request hash of each trial.
        payments : mapping of str to Payment
            Payments of the run's cost account by request hash: USD, seconds and tokens.

        Returns
        -------
        Costs
            Costs by trial. The cost of a request is in the first trial that needs its answer, and 0 in all others. It is also 0
            for a request without a payment. `is_new` is copied from this object.
        """
        costs = Costs(len(request_hashes))
        costs.is_new = self.is_new
        distinct_hashes, first_rows = np.unique(request_hashes, return_index=True)
        for request_hash, row in zip(distinct_hashes.tolist(), first_rows.tolist(), strict=True):
            payment = payments.get(request_hash.decode())
            if payment is not None:
                costs._set_row(row, payment)
        return costs

    def _set_row(self, row: int, payment: Payment) -> None:
        """Set cost, duration and tokens of a trial."""
        self.usd[row], self.seconds[row] = payment.usd, payment.seconds
        self.tokens_in[row], self.tokens_out[row] = payment.tokens_in, payment.tokens_out


class PlanAnswers:
    """The answers to the trials of a plan, collected chunk by chunk.

    Parameters
    ----------
    plan : Plan
        Trials whose answers are collected.
    missing_reason : str, default "not_asked"
        Reason why the answers to trials are missing for which `set_readings` is not called.

    Attributes
    ----------
    request_hashes : bytes array S64, shape (n_trials,)
        Request hash of each trial; empty if its answer was not found.
    answering_models : AnsweringModels
        Number of answers by model and fingerprint.
    """

    def __init__(self, plan: Plan, *, missing_reason: MissingReason = "not_asked") -> None:
        n = len(plan)
        self.request_hashes = np.zeros(n, dtype="S64")
        self.answering_models = AnsweringModels()
        self._plan = plan
        self._counts: Counter[str] = Counter()
        self._answer = np.full(n, np.nan)
        self._hard_answer = np.full(n, np.nan)
        self._missing_reason = np.full(n, _CODES[missing_reason], dtype=np.int8)
        self._model_codes = np.full(n, -1, dtype=np.int32)  # -1 if the model is unknown
        self._models: dict[str, int] = {}  # name → code

    @property
    def n_done(self) -> int:
        """Number of trials that were answered, failed or cannot be sent."""
        return self._counts.total()

    @property
    def n_missing(self) -> int:
        """Number of trials that failed, cannot be sent, or have no answer in their completion."""
        return self._counts.total() - self._counts["answered"]

    def set_readings(
        self,
        rows: Sequence[int],
        keys: Sequence[str],
        readings: Sequence[tuple[Reading, Completion | None]],
        *,
        are_new: Sequence[bool],
    ) -> None:
        """Set the answers of trials in this object, and count the models that gave them.

        All arguments have one element per trial. Trials that share a request are counted separately.

        Parameters
        ----------
        rows, keys : sequence of int, of str
            Positions of the trials in the plan, and their request hashes.
        readings : sequence of (Reading, Completion or None)
            The parsed answer, or the reason why it is missing; and the completion that was parsed, None if there is none.
        are_new : sequence of bool
            Whether the answer was received in this invocation.
        """
        positions = np.array(rows, dtype=np.int64)
        parsed_answers = [reading for reading, _ in readings]
        self.request_hashes[positions] = np.array(keys, dtype="S64")
        self._answer[positions] = [parsed.answer for parsed in parsed_answers]
        self._hard_answer[positions] = [parsed.hard_answer for parsed in parsed_answers]
        self._missing_reason[positions] = [_CODES[parsed.missing_reason] for parsed in parsed_answers]
        self._model_codes[positions] = [self._number_model(completion) for _, completion in readings]
        self._counts.update(parsed.missing_reason for parsed in parsed_answers)

        completions = [completion for _, completion in readings]
        self.answering_models.count(completions, are_new)

    def _number_model(self, completion: Completion | None) -> int:
        """Return the number of the model of a completion, a new one for a new model; −1 if it is unknown."""
        if completion is None or not completion.model:
            return -1
        return self._models.setdefault(completion.model, len(self._models))

    def to_verdicts(
        self,
        judge: Mapping[str, Json],
        costs: Costs | None = None,
        *,
        usd_calibration: float = 0.0,
        warnings: tuple[Finding, ...] = (),
    ) -> Verdicts:
        """Convert the answers to verdicts.

        Parameters
        ----------
        judge : mapping
            Description of the judge. The verdicts have a copy, to which the names of the served models are added.
        costs : Costs, optional
            Costs of the calls. Default: 0 for each trial, because nothing was sent.
        usd_calibration : float, default 0
            USD that the judge's calibration paid for these answers.
        warnings : tuple of Finding, default ()
            Other findings. Those on several served models and on missing answers are appended to them.

        Returns
        -------
        Verdicts
            One row per trial, in plan order.
        """
        n_trials = len(self._plan)
        if costs is None:
            costs = Costs(n_trials)
        warnings = (*warnings, *self.answering_models.find_mixed_models())
        response_models: list[Json] = [*self.answering_models.list_names()]
        if self.n_missing > 0:
            reasons = format_missing_reasons(self._counts)
            verb = "has" if self.n_missing == 1 else "have"
            message = f"{self.n_missing} of {n_trials} trials {verb} no answer ({reasons}). Missing answers do not count as no."
            warnings = (*warnings, Finding("missing", message, facts={"n": self.n_missing, "n_trials": n_trials}))
        return Verdicts(
            plan=self._plan,
            answer=self._answer,
            hard_answer=self._hard_answer,
            missing_reason=self._missing_reason,
            judge={**judge, "response_models": response_models},
            request_hash=self.request_hashes,
            tokens_in=costs.tokens_in,
            tokens_out=costs.tokens_out,
            usd=costs.usd,
            seconds=costs.seconds,
            usd_calibration=usd_calibration,
            response_model=self._model_codes,
            models=tuple(self._models),
            warnings=warnings,
        )


def read_answers(
    questions: Questions,
    plan: Plan,
    store: Store,
    keys: Iterable[RowKey],
    *,
    is_new: Bools | None = None,
    on_read: Callable[..., None] = lambda n, *, outcome, stored: None,
    on_not_stored: Callable[[str, int], None] = lambda key, row: None,
    not_stored: MissingReason = "not_asked",
) -> PlanAnswers:
    """Read the answers to all trials of a plan from a store and parse them.

    A trial with a stored failure is missing as "failed", and one that does not fit the context of the model as "not_asked".

    Parameters
    ----------
    questions : Questions
        Prompt and parser of the judge.
    plan : Plan
        Trials whose answers are read.
    store : Store
        Store of the answers.
    keys : iterable of (int, str)
        Row and request hash of each trial, in any order. A trial whose row is absent is missing with the reason `not_stored`.
    is_new : bool array, shape (n_trials,), optional
        Whether an answer was received in this invocation. Default: none was.
    on_read : callable, optional
        Called several times as ``on_read(n, outcome=str, stored=bool)``. `n` is the number of further trials with this outcome:
        "answered", or the reason why they have no answer. `stored` is whether it was stored before this invocation.
    on_not_stored : callable, optional
        Called with the key and the row of each trial that could be sent but has no outcome in the store.
    not_stored : str, default "not_asked"
        Reason that these trials get for their missing answer, for example "pending".

    Returns
    -------
    PlanAnswers
        Answers to all trials, with the reasons of missing ones. Its `n_done` does not count the trials that `on_not_stored` was
        called for, or whose row is absent.
    """
    plan_answers = PlanAnswers(plan, missing_reason=not_stored)
    if is_new is None:
        is_new = np.zeros(len(plan), dtype=np.bool_)

    remaining_row_keys = iter(keys)
    while next_row_keys := list(islice(remaining_row_keys, CHUNK)):
        outcomes = store.get_outcomes(sorted({key for _, key in next_row_keys}))
        rows: list[int] = []
        read_keys: list[str] = []
        readings: list[tuple[Reading, Completion | None]] = []
        for row, key in next_row_keys:
            reading = _parse_outcome_or_find_reason(questions, plan, row, outcomes.get(key))
            if reading is None:
                on_not_stored(key, row)
            else:
                rows.append(row)
                read_keys.append(key)
                readings.append(reading)

        are_new: list[bool] = is_new[rows].tolist()
        plan_answers.set_readings(rows, read_keys, readings, are_new=are_new)
        reasons = [parsed.missing_reason for parsed, _ in readings]
        counts = Counter(zip(reasons, are_new, strict=True))
        for (reason, new), n in counts.items():
            on_read(n, outcome=reason, stored=not new)
    return plan_answers


def _parse_outcome_or_find_reason(
    questions: Questions, plan: Plan, row: int, outcome: Completion | Failure | None
) -> tuple[Reading, Completion | None] | None:
    """Parse the stored answer to a trial, or find the reason why there is none: a failure, or a request that is too long.

    questions : parser of the judge, and the size of its model's context window
    row : position of the trial in the plan
    outcome : stored outcome of the trial's request; None if there is none

    Returns None if the request can be sent and has no outcome yet. Otherwise, returns two values:

    - a `Reading`: the parsed answer, or the reason why it is missing
    - the completion that was parsed; None if there is none
    """
    if isinstance(outcome, Completion):
        return questions.read(outcome), outcome
    if isinstance(outcome, Failure):
        return _FAILED, None

    request = questions.request(plan, row)
    is_too_long = not questions.fits(request)
    return (_NOT_ASKED, None) if is_too_long else None


def format_missing_reasons(counts: Mapping[str, int]) -> str:
    """Format the number of missing answers by reason.

    >>> format_missing_reasons({"answered": 5, "refused": 2, "failed": 1})
    '1 failed, 2 refused'
    """
    return ", ".join(f"{n} {reason}" for reason, n in sorted(counts.items()) if reason != "answered")


class AnsweringModels:
    """Counts answers by model and fingerprint, separately for this invocation and earlier ones."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str | None, bool]] = Counter()

    def count(self, answers: Sequence[Completion | None], are_new: Sequence[bool]) -> None:
        """Count answers whose models are known.

        answers : the answers; None for a trial without an answer
        are_new : whether each answer was received in this invocation
        """
        for answer, is_new in zip(answers, are_new, strict=True):
            if answer is not None and answer.model:
                self._counts[answer.model, answer.fingerprint, is_new] += 1

    def list_names(self) -> list[str]:
        """Return the names of all models, with their fingerprint if known, sorted. They are part of the signature."""
        return sorted({_format_model_name(model, fingerprint) for model, fingerprint, _ in self._counts})

    def list_new_names(self) -> list[str]:
        """Return the names of the models that answered in this invocation, sorted."""
        return sorted({_format_model_name(model, fingerprint) for model, fingerprint, new in self._counts if new})

    def find_mixed_models(self) -> tuple[Finding, ...]:
        """Return a finding if the answers come from several models or builds of a model, else an empty tuple."""
        n_answers: Counter[str] = Counter()
        for (model, fingerprint, _), n in self._counts.items():
            n_answers[_format_model_name(model, fingerprint)] += n
        if len(n_answers) < 2:
            return ()
        models = ", ".join(f"{name} ({format_count(n, 'answer')})" for name, n in sorted(n_answers.items()))
        message = (
            f"The served model changed between answers: {models}. Answers of different models may not be comparable. To have "
            "answers of one model, run again with another --out and --store, which pays for all answers again."
        )
        return (Finding("model-changed", message, facts={"models": sorted(n_answers)}),)

    def find_changes_since(self, earlier: Collection[str]) -> tuple[Finding, ...]:
        """Return a finding if a new model has answered in this invocation, else an empty tuple.

        earlier : names of the models that gave the judge's earlier answers. If it is empty, the judge is new, and no model
            counts as changed.
        """
        earlier_names = sorted(earlier)
        added_names = sorted(set(self.list_new_names()) - set(earlier))
        if not earlier_names or not added_names:
            return ()
        message = (
            f"The served model changed since the last answers in the store: {', '.join(earlier_names)} then, "
            f"{', '.join(added_names)} now. Answers of the two may not be comparable."
        )
        return (Finding("model-changed", message, facts={"then": [*earlier_names], "now": [*added_names]}),)


def _format_model_name(model: str, fingerprint: str | None) -> str:
    """Return the name of a model with the fingerprint of the server, if it sent one."""
    return model if fingerprint is None else f"{model} ({fingerprint})"
