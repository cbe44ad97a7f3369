"""What is asked of a judge and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from youden.errors import PlanError
from youden.types.finding import Finding
from youden.types.planning import Plan
from youden.types.pool import Bools, Codes, Floats, Ids, Json, ReadOnly

if TYPE_CHECKING:
    from youden.types.results import Rates

AnswerKind = Literal["yes or no", "graded", "lexical"]
"""Of what kind a judge's answers are: 0 or 1, anything between, or a similarity of words."""

MISSING_REASONS = ("answered", "unparsed", "refused", "truncated", "failed", "not_asked", "unfinished_reasoning")
"""What `Verdicts.missing` counts: 0 is an answer, everything else is no answer and why."""


@dataclass(frozen=True)
class Message:
    """One message of a chat request."""

    role: Literal["system", "user", "assistant"]
    """Author of the message."""
    content: str
    """Its text."""


@dataclass(frozen=True)
class Request:
    """One call as it is sent: the model, the messages and every parameter that can change the answer."""

    model: str
    """Name of the model."""
    messages: tuple[Message, ...]
    """Messages in their order."""
    parameters: Mapping[str, Json] = field(default_factory=dict)
    """Other keys of the request's body, such as `temperature`."""
    asked_as: Mapping[str, Json] = field(default_factory=dict)
    """Additional keys that the answer is stored under and that are not sent: the replicate of a trial, or the agent that
    writes a text.
    """


@dataclass(frozen=True)
class Completion:
    """One raw answer of a model."""

    text: str
    """Text of the answer."""
    finish_reason: str
    """Reason for its end, such as `stop` or `length`."""
    model: str
    """Model that answered, as the server names it."""
    tokens_in: int
    """Tokens of the request."""
    tokens_out: int
    """Tokens of the answer."""
    seconds: float = 0.0
    """Wall time of the call that succeeded."""
    fingerprint: str | None = None
    """The server's `system_fingerprint`; None if it sends none."""
    refusal: str | None = None
    """The model's refusal; None if it did not refuse."""
    top_logprobs: tuple[tuple[str, float], ...] = ()
    """Pairs (token, log-probability) of the alternatives to the first token of the answer; empty if the model returns none."""


class Judge(Protocol):
    """Answers one request at a time. It makes no retries of its own."""

    @property
    def name(self) -> str: ...

    async def answer(self, request: Request) -> Completion: ...


class PlanJudge(Protocol):
    """Answers a whole plan without calls."""

    @property
    def name(self) -> str: ...

    def answer_many(self, plan: Plan) -> Verdicts: ...


class Progress(Protocol):
    """Told how long work goes on; draws it or does not."""

    def start(self, total: int, *, what: str) -> None: ...

    def advance(self, n: int = 1, *, failed: int = 0, usd: float = 0.0, cached: int = 0, why: str = "") -> None:
        """`n` more are done: `failed` of them without an answer for the reason `why`, `cached` of them from the store."""
        ...

    def throttled(self) -> None:
        """A call was turned down for coming too soon (429)."""
        ...

    def stop(self) -> None: ...


PER_TRIAL = ("answer", "hard", "missing", "key", "tokens_in", "tokens_out", "usd", "seconds", "served")
"""Columns of `Verdicts` with one value per trial."""


@dataclass(frozen=True, eq=False)
class Verdicts(ReadOnly):
    """A judge's answers to a plan: one row per trial, in the order of the plan.

    Raises: PlanError [verdicts-length], [verdicts-missing] if the columns do not fit the plan or each other.
    """

    plan: Plan
    """Plan that was judged."""
    answer: Floats
    """float (n_trials,) in [0, 1], 1 for the same source; between 0 and 1 if the judge returns a probability or a grade; NaN
    if missing.
    """
    hard: Floats
    """float (n_trials,), the decision 0 or 1; NaN if missing."""
    missing: Codes
    """int8 (n_trials,), index into MISSING_REASONS; 0 for an answer."""
    judge: Mapping[str, Json]
    """Everything of the judge that an answer depends on, as JSON; part of the signature."""
    key: NDArray[np.bytes_] | None = None
    """bytes S64 (n_trials,), SHA-256 (hex) of the request under which the store holds the answer; None for a judge without
    calls.
    """
    tokens_in: Ids | None = None
    """int32 (n_trials,), 0 if the answer came from the store. In a run's folder this column, and the next three, count all
    invocations of the run.
    """
    tokens_out: Ids | None = None
    """int32 (n_trials,), as `tokens_in`."""
    usd: Floats | None = None
    """float (n_trials,), cost of the calls in USD; NaN if a price is unknown."""
    seconds: Floats | None = None
    """float (n_trials,), wall time of the calls."""
    served: Ids | None = None
    """int32 (n_trials,), index into `models`; −1 if unknown."""
    models: tuple[str, ...] = ()
    """Models that answered."""
    warnings: tuple[Finding, ...] = ()
    """Findings that concern every number computed from these answers."""
    usd_tried: float = 0.0
    """USD that the run's calibration paid for these answers; NaN if a price is unknown."""
    votes: Floats | None = None
    """float (n_judges, n_trials), answer of each judge of a jury, NaN if it gave none; None for a single judge."""

    def __post_init__(self) -> None:
        n = len(self.plan)
        per_trial = {name: getattr(self, name) for name in PER_TRIAL}
        if self.votes is not None:
            per_trial["votes"] = self.votes.T
        for name, column in per_trial.items():
            if column is not None and len(column) != n:
                raise PlanError(
                    f"Verdicts do not fit their plan: got {len(column)} values in {name} for {n} trials. "
                    "Pass one value per trial of the plan, in its order.",
                    slug="verdicts-length",
                )
        n_wrong = int((np.isnan(self.answer) != (self.missing != 0)).sum())
        if n_wrong:
            raise PlanError(
                f"Answers and reasons for missing answers contradict each other: got {n_wrong} of {n} trials with an answer and "
                "a reason, or with neither. Pass NaN as the answer of exactly those trials whose value in missing is not 0.",
                slug="verdicts-missing",
            )
        super().__post_init__()

    def __repr__(self) -> str:
        said = self.answer[~np.isnan(self.answer)]
        yes = f", {said.mean():.0%} said to be of one source" if len(said) else ""
        return f"Verdicts({len(said):,} of {len(self.answer):,} answered by {self.judge.get('name', 'a judge')}{yes})"

    def __len__(self) -> int:
        return len(self.answer)

    @property
    def answered(self) -> Bools:
        """bool[N]: whether the trial has an answer."""
        return np.asarray(self.missing == 0)

    @property
    def reused(self) -> Bools:
        """bool[N]: answered from the store by a call that no pass of this run paid for."""
        if self.key is None or self.seconds is None:
            return np.zeros(len(self), dtype=np.bool_)
        made = (self.seconds > 0) | (np.nan_to_num(self.usd, nan=1.0) > 0 if self.usd is not None else False)
        return np.asarray(self.answered & (self.key != b"") & ~np.isin(self.key, self.key[made]))

    def rates(self) -> Rates:
        """Compute the rates of every ordered pair (first, second) on every item that the plan has trials of.

        Returns
        -------
        Rates
            One row per pair on an item: `item`, `first` and `second`, int (n_rows,); `tpr` and `fpr`, float in [0, 1], NaN
            without an answer; `n_paired`, `n_independent` and `n_missing`, int.

        Notes
        -----
        TPR is the mean answer of the pair's paired trials on the item, FPR the mean answer of its independent trials there. A
        missing answer is counted as missing, never as 0. If the plan's independent trials are pooled, pairs that only have
        independent trials are in `detail` alone. A plan without an answer has NaN rates.

        References
        ----------
        The paper's appendix "TVD-MI Score Construction".

        Examples
        --------
        >>> import youden
        >>> pool = youden.read_pool("datasets/field-notes")
        >>> rates = youden.judge(youden.make_plan(pool, calls=300)).rates()
        >>> len(rates.tpr), rates.n_agents, rates.n_items
        (192, 12, 32)
        """
        from youden.protocol.scores import compute_rates

        return compute_rates(self)

    @property
    def total_usd(self) -> float:
        """USD spent on calls made for these verdicts, its calibration's among them; other answers in the store cost nothing."""
        return self.usd_tried + (0.0 if self.usd is None else float(self.usd.sum()))
