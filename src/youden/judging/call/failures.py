"""What a call that brought no answer says of itself, and what that means for the run.

There are three fates: try again, this trial's failure, the whole run's end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from youden.errors import JudgeError

FailureKind = Literal["retry", "rejected", "stop"]

_LONGEST_REASON = 300
_OUT_OF_MONEY = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_NO_SUCH_MODEL = {"model_not_found", "invalid_model"}
_TRY_AGAIN = {408, 409, 429}
_NOBODY_HOME = {502, 503, 504}
_STOP = {401, 402, 403, 404, 405}


class CallError(Exception):
    """A call without an answer; the only exception a `Judge` may raise from `answer`.

    kind: `retry` may go better next time; `rejected` is this trial's failure; `stop` would befall every trial.
    reason: a line without secrets. status: the HTTP status, None where no reply came.
    retry_after: seconds the server asked to wait, None where it did not say.
    free: whether it surely cost nothing: the server turned it down, or never got it.
    """

    def __init__(
        self,
        reason: str,
        *,
        kind: FailureKind,
        status: int | None = None,
        retry_after: float | None = None,
        free: bool = False,
    ) -> None:
        self.reason = reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…"
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.free = free or status is not None
        super().__init__(self.reason)


@dataclass(frozen=True)
class Failure:
    """A request that was given up on, as the store keeps it."""

    kind: FailureKind
    status: int | None
    reason: str


def fate(status: int, code: str | None) -> FailureKind:
    """What an HTTP status and the provider's error code mean for the run.

    >>> fate(429, None), fate(429, "insufficient_quota"), fate(400, "context_length_exceeded"), fate(503, None), fate(307, None)
    ('retry', 'stop', 'rejected', 'retry', 'stop')
    """
    if code in _OUT_OF_MONEY or code in _NO_SUCH_MODEL or status in _STOP or 300 <= status < 400:
        return "stop"
    return "retry" if status in _TRY_AGAIN or status >= 500 else "rejected"


def ending_code(said: str) -> str | None:
    """The provider's code in a message that would end the run, None where it has none.

    >>> ending_code('{"error": {"code": "insufficient_quota"}}')
    'insufficient_quota'
    """
    return next((code for code in sorted(_OUT_OF_MONEY | _NO_SUCH_MODEL) if code in said), None)


def is_silence(error: CallError) -> bool:
    """Whether nothing came back that its server said: no usable reply, or a gateway's that it got none."""
    return error.kind == "retry" and (error.status is None or error.status in _NOBODY_HOME)


def ends_the_run(error: CallError, *, judge: str, address: str) -> JudgeError:
    """The error a user sees for a failure that would befall every trial."""
    reply = f"The judge '{judge}' at {address} said: {error.reason}"
    if error.status in (401, 403):
        return JudgeError(f"{reply} Check the key in the environment and what it may use.", slug="judge-key")
    if error.status in (404, 405):
        return JudgeError(f"{reply} Check `model` and `base_url` in the judge's config.", slug="judge-model")
    if error.status is not None and 300 <= error.status < 400:
        return JudgeError(
            f"{reply} Nothing was sent there. If the judge moved, set `base_url` in its config; if something stands in between, "
            "such as the login page of a network, get past it; then run the same again.",
            slug="judge-moved",
        )
    if error.kind == "stop":
        return JudgeError(
            f"{reply} Top up the account or use another key, then run the same again.", slug="judge-quota"
        )
    if error.status is None or is_silence(error):
        return JudgeError(
            f"The judge '{judge}' at {address} gave no usable reply: {error.reason} "
            "Check that the server runs and `base_url` is right, then run the same again.",
            slug="judge-unreachable",
        )
    return JudgeError(
        f"{reply} No call of this run got an answer. Check `model` and `parameters` in the judge's config.",
        slug="judge-rejects",
    )
