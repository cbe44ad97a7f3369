"""Requests to a judge, its raw answers, and the verdicts that they become.

Contracts of judges are protocols, so that a plugin implements them without inheriting from a class of this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from youden.errors import PlanError
from youden.types.finding import Finding
from youden.types.payments import RunPayments
from youden.types.planning import Plan
from youden.types.pool import Bools, Codes, Floats, Ids, Json, ReadOnly

if TYPE_CHECKING:
    from youden.types.results import Rates

AnswerKind = Literal["yes or no", "graded", "lexical"]
"""Kind of the answers of a judge: 0 or 1; any number between them; or a similarity of words."""

MISSING_REASONS = (
    *("answered", "unparsed", "refused", "truncated", "failed", "not_asked", "unfinished_reasoning"),
    "pending",
)
"""Values of `Verdicts.missing_reason`, by code: 0 for an answer; each other code is a reason for having none."""


@dataclass(frozen=True)
class Message:
    """One message of a chat request."""

    role: Literal["system", "user", "assistant"]
    """Author of the message."""
    content: str
    """Its text."""


@dataclass(frozen=True)
class Request:
    """One request to a model: its name, the messages, and every parameter that can change the answer."""

    model: str
    """Name of the model."""
    messages: tuple[Message, ...]
    """Messages, in order."""
    parameters: Mapping[str, Json] = field(default_factory=dict)
    """Other keys of the request body, such as `temperature`."""
    cache_salt: Mapping[str, Json] = field(default_factory=dict)
    """Keys that are hashed into the request hash but not sent, so that equal requests get separate answers. Examples are
    the number of the repetition of a trial (`replicate`), and the agent that writes a text.
    """


@dataclass(frozen=True)
class Completion:
    """One raw answer of a model."""

    text: str
    """Text of the answer."""
    finish_reason: str
    """Reason why the answer ended, such as `stop` or `length`."""
    model: str
    """Name of the model that answered, as returned by the server."""
    tokens_in: int
    """Tokens of the request."""
    tokens_out: int
    """Tokens of the answer."""
    seconds: float = 0.0
    """Wall time in seconds of the successful attempt."""
    fingerprint: str | None = None
    """The `system_fingerprint` of the server; None if it sends none."""
    refusal: str | None = None
    """The refusal of the model; None if it did not refuse."""
    top_logprobs: tuple[tuple[str, float], ...] = ()
    """Pairs (token, log-probability) of the alternatives to the first token of the answer; empty if the model
    returns none."""


class Judge(Protocol):
    """Judge that answers one request at a time. It does not retry; the scheduler does."""

    @property
    def name(self) -> str:
        """Name of the judge."""
        ...

    async def answer(self, request: Request) -> Completion:
        """Send one request and return the raw answer.

        Parameters
        ----------
        request : Request
            Request to send.

        Returns
        -------
        Completion
            Raw answer of the model.

        Raises
        ------
        CallError
            If no answer was received; its kind states whether a retry may help.
        """
        ...


class PlanJudge(Protocol):
    """Judge that answers all trials of a plan at once, without calls."""

    @property
    def name(self) -> str:
        """Name of the judge."""
        ...

    def answer_many(self, plan: Plan) -> Verdicts:
        """Answer every trial of a plan.

        Parameters
        ----------
        plan : Plan
            Trials to answer, with their pool.

        Returns
        -------
        Verdicts
            One answer per trial, in the order of the plan.
        """
        ...


@runtime_checkable
class Progress(Protocol):
    """Receiver of progress updates, such as a progress bar."""

    def start(self, total: int, *, what: str) -> None:
        """Begin a task. The next task may begin when `stop` has ended this one.

        Parameters
        ----------
        total : int
            Number of steps; `advance` reports each of them.
        what : str
            Name of the task, for display.
        """
        ...

    def advance(self, n: int = 1, *, failed: int = 0, usd: float = 0.0, cached: int = 0, reason: str = "") -> None:
        """Report completed steps.

        Parameters
        ----------
        n : int, default 1
            Number of completed steps since the last report, with or without an answer, including those from the store.
        failed : int, default 0
            Number of these steps that ended without an answer.
        usd : float, default 0
            Cost of these steps in USD. Never NaN, because calls of unknown price are refused before they are sent.
        cached : int, default 0
            Number of these steps whose answer came from the store.
        reason : str, default ""
            Reason for all of these failures, for example "refused"; empty if no step failed, or if the reason is unknown.
        """
        ...

    def throttled(self) -> None:
        """Report that the server rejected a request because of its rate limit (HTTP 429)."""
        ...

    def stop(self) -> None:
        """End the task."""
        ...


PER_TRIAL = (
    "answer",
    "hard_answer",
    "missing_reason",
    "request_hash",
    "tokens_in",
    "tokens_out",
    "usd",
    "seconds",
    "response_model",
)
"""Columns of `Verdicts` with one value per trial."""


@dataclass(frozen=True, eq=False)
class Verdicts(ReadOnly):
    """Answers of a judge to the trials of a plan, one row per trial, in plan order.

    Raises
    ------
    PlanError
        [verdicts-length]: if a column is not an array with one value per trial; [verdicts-range]: if `answer` does not
        contain numbers; [verdicts-missing]: if `answer` and `missing_reason` contradict each other.
    """

    plan: Plan
    """Plan that was judged."""
    answer: Floats
    """float (n_trials,) in [0, 1], 1 for the same source; between 0 and 1 if the judge returns a probability or a
    grade; NaN if missing.
    """
    hard_answer: Floats
    """float (n_trials,), the answer as a decision, 0 or 1; NaN if missing. For the mean of a jury and for a function, it is 1 if
    the answer is at least 0.5, so two judges that disagree count as a yes. Rankings use `answer`.
    """
    missing_reason: Codes
    """int8 (n_trials,), index into `MISSING_REASONS`; 0 for an answer."""
    judge: Mapping[str, Json]
    """All settings of the judge that an answer depends on, as JSON; part of the signature."""
    request_hash: NDArray[np.bytes_] | None = None
    """bytes S64 (n_trials,), request hash (SHA-256, hexadecimal) that identifies the answer in the store; None for a
    judge without calls.
    """
    tokens_in: Ids | None = None
    """int32 (n_trials,), tokens of the requests; 0 if the answer came from the store. In the folder of a run, this
    column and the next three add up all invocations of the run.
    """
    tokens_out: Ids | None = None
    """int32 (n_trials,), tokens of the answers; 0 if the answer came from the store."""
    usd: Floats | None = None
    """float (n_trials,), cost of the calls in USD; NaN if a price is unknown."""
    seconds: Floats | None = None
    """float (n_trials,), wall time of the calls in seconds."""
    response_model: Ids | None = None
    """int32 (n_trials,), index into `models`; −1 if unknown."""
    models: tuple[str, ...] = ()
    """Names of the models that answered, as returned by the server."""
    warnings: tuple[Finding, ...] = ()
    """Findings that concern every number computed from these answers."""
    usd_calibration: float = 0.0
    """Cost in USD that the calibration of the run paid for these answers; NaN if a price is unknown."""
    paid: RunPayments = field(default_factory=RunPayments)
    """What the run has paid over all commands, including the cost of answers that it does not use; 0 without a run folder."""
    votes: Floats | None = None
    """float (n_judges, n_trials), answer of each judge of a jury, NaN if it gave none; None for a single judge."""

    def __post_init__(self) -> None:
        n = len(self.plan)
        per_trial = {name: getattr(self, name) for name in PER_TRIAL}
        if self.votes is not None:
            per_trial["votes"] = getattr(self.votes, "T", self.votes)  # a list is refused below
        for name, column in per_trial.items():
            if column is not None:
                _check_column(name, column, n_trials=n)
        if self.answer.dtype.kind not in "fiub":
            raise _range_error(f"values of the type {self.answer.dtype}")
        has_no_answer = np.isnan(self.answer)
        has_reason = self.missing_reason != 0
        n_contradictions = int((has_no_answer != has_reason).sum())
        if n_contradictions:
            raise PlanError(
                f"Answers and reasons for missing answers contradict each other: got {n_contradictions} of {n} "
                "trials with an answer and a reason, or with neither. Pass NaN as the answer of exactly those trials whose value "
                "in missing is not 0.",
                slug="verdicts-missing",
            )
        super().__post_init__()

    def __repr__(self) -> str:
        answers = self.answer[~np.isnan(self.answer)]
        judge = self.judge.get("name", "a judge")
        positive = f", {answers.mean():.0%} judged to have the same source" if len(answers) else ""
        return f"Verdicts({len(answers):,} of {len(self.answer):,} answered by {judge}{positive})"

    def __len__(self) -> int:
        return len(self.answer)

    @property
    def answered(self) -> Bools:
        """Whether the trial has an answer: bool array (n_trials,)."""
        return np.asarray(self.missing_reason == 0)

    def check_range(self) -> None:
        """Raise PlanError [verdicts-range] if an answer is not from 0 to 1."""
        outside = self.answer[(self.answer < 0) | (self.answer > 1)]
        if outside.size:
            raise _range_error(f"{outside[0]:g}")

    @property
    def n_pending(self) -> int:
        """Number of trials without an outcome so far; 0 unless the run is unfinished."""
        return int((self.missing_reason == MISSING_REASONS.index("pending")).sum())

    @property
    def reused(self) -> Bools:
        """Whether the answer is from an earlier run, so that this run made no call for it: bool array (n_trials,).

        All elements are False if the judge reports no request hashes or no durations.
        """
        if self.request_hash is None or self.seconds is None:
            return np.zeros(len(self), dtype=np.bool_)

        # A call has a duration, tokens or a cost. The cost is NaN if the price is unknown, and calls in a batch have no
        # duration.
        has_call = self.seconds > 0
        if self.tokens_in is not None:
            has_call |= self.tokens_in > 0
        if self.usd is not None:
            has_call |= np.isnan(self.usd) | (self.usd > 0)

        # one call answers all trials with the same request hash
        hashes_of_calls = self.request_hash[has_call]
        is_answered_by_call = np.isin(self.request_hash, hashes_of_calls)
        has_known_answer = self.answered & (self.request_hash != b"")
        return np.asarray(has_known_answer & ~is_answered_by_call)

    def rates(self) -> Rates:
        """Compute the rates of every ordered pair of agents on every item with trials.

        Returns
        -------
        Rates
            One row per pair (first, second) on an item: `item`, `first` and `second`, int array (n_rows,); `tpr` and `fpr`,
            float in [0, 1], NaN without an answer; `n_paired`, `n_independent` and `n_missing`, int.

        Notes
        -----
        The true-positive rate (TPR) of a pair on an item is the mean answer to its paired trials on the item. The false-positive
        rate (FPR) is the mean answer to its independent trials on the item. A missing answer counts as missing, never as 0.
        Follow-ups, additional trials that serve only to flag groups of agents, do not count. If the independent trials of the
        plan are pooled, a pair that has only independent trials is in `detail` but has no row. If a plan has no answers, all
        rates are NaN.

        References
        ----------
        The paper's appendix "TVD-MI Score Construction".

        Examples
        --------
        >>> import youden
        >>> pool = youden.read_pool("datasets/field-notes")
        >>> rates = youden.judge(youden.make_plan(pool, calls=300)).rates()
        >>> len(rates.tpr), rates.n_agents, rates.n_items
        (276, 12, 32)
        """
        from youden.protocol.scores import compute_rates

        return compute_rates(self)

    @property
    def total_usd(self) -> float:
        """Cost in USD of the calls made for these verdicts and for their calibration; reused answers cost nothing."""
        usd = 0.0 if self.usd is None else float(self.usd.sum())
        return self.usd_calibration + usd


def _check_column(name: str, column: object, *, n_trials: int) -> None:
    """Raise PlanError [verdicts-length] unless a column of verdicts is an array with one value per trial."""
    if not isinstance(column, np.ndarray):
        raise PlanError(
            f"Columns of verdicts must be NumPy arrays: got {type(column).__name__} in {name}. Pass an array with one value "
            "per trial of the plan, in its order.",
            slug="verdicts-length",
        )
    shape_text = f"{len(column)} values" if column.ndim == 1 else f"the shape {column.shape}"
    has_one_row_per_trial = column.shape[:1] == (n_trials,)
    may_have_columns = name == "votes"  # one column per judge
    if not has_one_row_per_trial or (column.ndim != 1 and not may_have_columns):
        raise PlanError(
            f"Verdicts do not fit their plan: got {shape_text} in {name} for {n_trials} trials. "
            "Pass one value per trial of the plan, in its order.",
            slug="verdicts-length",
        )


def _range_error(problem: str) -> PlanError:
    """Make the error for answers that are not numbers from 0 to 1; `problem` states what was found instead."""
    return PlanError(
        f"Answers must be numbers from 0 to 1, or NaN if missing: got {problem}. Rescale the answers, with 1 for yes and 0 for "
        "no.",
        slug="verdicts-range",
    )
