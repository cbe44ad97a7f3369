"""How a call can fail: transiently, as the failure of its trial, or so that the run ends.

`retries` decides whether and when a transient failure is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from youden.errors import JudgeError
from youden.judging.call.account_errors import BAD_KEY, NO_CREDIT, account_error, is_echo
from youden.judging.call.secrets import hidden, hidden_in_part
from youden.types import Request

FailureKind = Literal["retry", "rejected", "stop"]

_LONGEST_REASON = 300
_PERHAPS_WORKED_ON = {408, 504, 524}
"""What a gateway says that waited in vain: behind it the call may go on, and be billed."""
_CODES_IN_TEXT = (
    *("billing_hard_limit_reached", "billing_not_active", "insufficient_quota"),
    *("invalid_model", "model_not_found"),
)
_TRY_AGAIN = {408, 409, 429}
_NOBODY_HOME = {502, 503, 504}
_REJECTED = 400
_WORDED = {_REJECTED, 412, 422}
"""Statuses with which providers report the state of an account only in the message."""
PROXY_REFUSED = 407
_STOP = {401, 402, 403, 404, 405, PROXY_REFUSED}


class CallError(Exception):
    """A call without an answer; the only exception a `Judge` may raise from `answer`.

    kind: `retry` may go better next time; `rejected` is this trial's failure; `stop` would befall every trial.
    reason: a line, from which the secrets of this process are taken out. status: the HTTP status, None where no reply came.
    retry_after: seconds the server asked to wait, None where it did not say.
    free: whether it surely cost nothing; by default, whether the server replied with a status other than a gateway's timeout.
    wording: the part of the server's message that is the only reason to end the run; None if a status or a code is a reason.
    """

    def __init__(
        self,
        reason: str,
        *,
        kind: FailureKind,
        status: int | None = None,
        retry_after: float | None = None,
        free: bool | None = None,
        wording: str | None = None,
    ) -> None:
        reason = hidden(reason)
        cut = reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…"
        self.reason = hidden_in_part(cut)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.free = (status is not None and status not in _PERHAPS_WORKED_ON) if free is None else free
        self.wording = wording
        super().__init__(self.reason)


@dataclass(frozen=True)
class Failure:
    """A request that was given up on, as the store keeps it."""

    kind: FailureKind
    status: int | None
    reason: str


def in_words(said: object) -> str:
    """What a server put where words belong: any JSON, however deep.

    >>> in_words("Top up."), in_words({"a": [1]})
    ('Top up.', "{'a': [1]}")
    """
    try:
        return str(said)
    except RecursionError:
        return "no words, but what is nested too deep to show"


def fate(status: int) -> FailureKind:
    """Return what an HTTP status means for the run.

    >>> fate(429), fate(400), fate(503), fate(307)
    ('retry', 'rejected', 'retry', 'stop')
    """
    if status in _STOP or 300 <= status < 400:
        return "stop"
    return "retry" if status in _TRY_AGAIN or status >= 500 else "rejected"


def http_error(
    status: int, codes: Sequence[object], message: object, *, reason: str, retry_after: float | None = None
) -> CallError:
    """Build the failure for a provider's error from its status, codes and message.

    Parameters
    ----------
    status : int
        HTTP status of the reply, or the status that stands for a code.
    codes : sequence of object
        The error's codes. A known code decides, whatever the status.
    message : object
        The error's message. It is searched for known wording only if the error would otherwise reject this request alone.
    reason : str
        Description of the error for the user.
    retry_after : float, optional
        Seconds that the server asked to wait.

    Returns
    -------
    CallError
        Of kind `stop` if the error is about the account or the model. Its status, by which the remedy is chosen, is then 401 or
        402; with a code for missing credit a status such as 429 stays, and with one for the model every status.

    Examples
    --------
    >>> error = http_error(400, ["invalid_request_error"], "Your credit balance is too low.", reason="HTTP 400")
    >>> error.kind, error.status
    ('stop', 402)
    """
    kind = fate(status)
    account = account_error(codes, message if kind == "rejected" and status in _WORDED else "")
    if account is None:
        return CallError(reason, kind=kind, status=status, retry_after=retry_after)
    account_status, wording = account
    is_specific = account_status == BAD_KEY or (account_status == NO_CREDIT and status in _STOP) or wording is not None
    shown_status = account_status if is_specific else status
    return CallError(reason, kind="stop", status=shown_status, retry_after=retry_after, wording=wording)


def unless_echoed(error: CallError, request: Request) -> CallError:
    """Return `error`, or a rejection of `request` if the only reason to end the run is wording that the request contains."""
    if error.wording is None or not is_echo(error.wording, (message.content for message in request.messages)):
        return error
    return CallError(error.reason, kind="rejected", status=_REJECTED, free=error.free)


def ending_code(said: str) -> str | None:
    """The provider's code in a message that would end the run, None where it has none.

    >>> ending_code('{"error": {"code": "insufficient_quota"}}')
    'insufficient_quota'
    """
    return next((code for code in _CODES_IN_TEXT if code in said), None)


def is_silence(error: CallError) -> bool:
    """Whether nothing came back that its server said: no usable reply, or a gateway's that it got none."""
    return error.kind == "retry" and (error.status is None or error.status in _NOBODY_HOME)


def ends_the_run(error: CallError, *, judge: str, address: str) -> JudgeError:
    """The error a user sees for a failure that would befall every trial."""
    reply = f"The judge '{judge}' at {address} said: {error.reason}"
    if (known_error := _by_status(reply, error.status)) is not None:
        return known_error
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


def _by_status(reply: str, status: int | None) -> JudgeError | None:
    """Build the error for a status with a known remedy; None for any other status."""
    if status in (401, 403):
        return JudgeError(f"{reply} Check the key in the environment and what it may use.", slug="judge-key")
    if status in (404, 405):
        return JudgeError(f"{reply} Check `model` and `base_url` in the judge's config.", slug="judge-model")
    if status == PROXY_REFUSED:
        return JudgeError(
            f"{reply} Check HTTP_PROXY and HTTPS_PROXY, with their user and password, or list the judge's host in NO_PROXY; then "
            "run the same command again.",
            slug="judge-proxy",
        )
    if status is not None and 300 <= status < 400:
        return JudgeError(
            f"{reply} Nothing was sent there. If the judge moved, set `base_url` in its config; if something intercepts the "
            "connection, such as the login page of a network, log in there; then run the same command again.",
            slug="judge-moved",
        )
    return None


TOO_MANY_REQUESTS = 429


@dataclass
class Attempts:
    """The failed attempts of one call.

    Attributes
    ----------
    n_failed : int
        Failures that count as attempts.
    n_throttled : int
        Replies with HTTP 429, which are no attempts.
    throttled_seconds : float
        Seconds waited because of them.
    suspect : bool
        Whether the call failed during an outage, which is no attempt either.
    """

    n_failed: int = 0
    n_throttled: int = 0
    throttled_seconds: float = 0.0
    suspect: bool = False
