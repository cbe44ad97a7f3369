"""Classify failed calls: as transient, as a rejection of one request, or as an error that ends the run.

`retries` decides whether and when a transient failure is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from youden.errors import JudgeError
from youden.judging.call.account_errors import find_account_error, is_about_content, is_about_rate, is_quotation
from youden.judging.call.secrets import mask_secret_parts, mask_secrets
from youden.types import Completion, Request

FailureKind = Literal["transient", "rejected", "fatal"]

_MAX_REASON_CHARACTERS = 300
_MAYBE_BILLED = {408, 499, 504, 524}
"""Statuses of a gateway that stopped waiting for a reply: the server behind it may still process the call and bill it."""
_CODES_IN_TEXT = (
    *("billing_hard_limit_reached", "billing_not_active", "insufficient_quota"),
    *("invalid_model", "model_not_found"),
)
_TRANSIENT = {408, 409, 424, 425, 429, 499}
"""Statuses below 500 after which a retry may help. 424 also means that the model failed, 499 that the call was cancelled."""
_REJECTED = 400
TOO_MANY_REQUESTS = 429
_CLASSIFIED_BY_MESSAGE = {_REJECTED, 412, 422, TOO_MANY_REQUESTS}
"""Statuses with which providers report the state of an account only in the message."""
_FORBIDDEN = 403
PROXY_AUTHENTICATION_REQUIRED = 407
_NO_SERVER = {502, 503, 504, PROXY_AUTHENTICATION_REQUIRED}
"""Statuses of a gateway or proxy that cannot reach the server. A 407 is any error of a proxy; some of them are transient."""
_FATAL = {401, 402, 403, 404, 405, PROXY_AUTHENTICATION_REQUIRED}


class CallError(Exception):
    """A call failed; the only exception that a `Judge` may raise from `answer`.

    Parameters
    ----------
    reason : str
        Description of the error in one line. Secrets of this process are masked, and it is cut to 300 characters.
    kind : {"transient", "rejected", "fatal"}
        `transient`: another attempt may succeed. `rejected`: only this request fails. `fatal`: every request would
        fail, so the run must end.
    status : int, optional
        HTTP status; None if there was no reply.
    retry_after : float, optional
        Seconds that the server asked to wait; None if it did not say.
    unbilled : bool, optional
        Whether the call certainly cost nothing. Default: True if there is a status, unless it is the timeout of a
        gateway.
    wording : str, optional
        The part of the server's message because of which the run must end; None if a status or a code is a reason to
        end it.

    Attributes
    ----------
    reason, kind, status, retry_after, unbilled, wording
        As passed; `reason` after masking and cutting.
    """

    def __init__(
        self,
        reason: str,
        *,
        kind: FailureKind,
        status: int | None = None,
        retry_after: float | None = None,
        unbilled: bool | None = None,
        wording: str | None = None,
    ) -> None:
        reason = mask_secrets(reason)
        if len(reason) > _MAX_REASON_CHARACTERS:
            reason = reason[: _MAX_REASON_CHARACTERS - 1] + "…"
        self.reason = mask_secret_parts(reason)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        if unbilled is None:
            unbilled = status is not None and status not in _MAYBE_BILLED
        self.unbilled = unbilled
        self.wording = wording
        super().__init__(self.reason)


@dataclass(frozen=True)
class Failure:
    """The stored outcome of a request that failed for good."""

    kind: FailureKind
    """Kind of its last error."""
    status: int | None
    """HTTP status of its last error; None if there was no reply."""
    reason: str
    """Description of its last error, without secrets."""


def is_final(outcome: Completion | Failure | None) -> bool:
    """Return whether a stored outcome makes another call unnecessary: an answer, or a rejection of the request."""
    return isinstance(outcome, Completion) or (isinstance(outcome, Failure) and outcome.kind == "rejected")


def to_text(value: object) -> str:
    """Convert a server's message, which may be any JSON value, to text.

    Examples
    --------
    >>> to_text("Top up."), to_text({"a": [1]})
    ('Top up.', "{'a': [1]}")
    """
    try:
        return str(value)
    except RecursionError:
        return "a message that is nested too deeply to show"


def classify_status(status: int) -> FailureKind:
    """Return the kind of error that an HTTP status means.

    - "transient": a retry may help.
    - "rejected": the error concerns only this request.
    - "fatal": every other request would fail, too.

    Examples
    --------
    >>> classify_status(429), classify_status(400), classify_status(503), classify_status(307)
    ('transient', 'rejected', 'transient', 'fatal')
    """
    is_redirect = 300 <= status < 400
    if status in _FATAL or is_redirect:
        return "fatal"
    if status in _TRANSIENT or status >= 500:
        return "transient"
    return "rejected"


def make_http_error(
    status: int, codes: Sequence[object], message: object, *, reason: str, retry_after: float | None = None
) -> CallError:
    """Build the failure for a provider's error from its status, codes and message.

    Parameters
    ----------
    status : int
        HTTP status of the reply, or the status that a code means.
    codes : sequence of object
        The error's codes. A known code takes precedence over the status, except for a 403 about the content of the request.
    message : object
        The error's message. For the statuses 400, 412, 422 and 429, it is searched for known wording about the account. A message
        about a rate limit (429) is not searched. For 403, it is searched for wording about the content of the request. A message
        that is not a text is not searched.
    reason : str
        Description of the error for the user.
    retry_after : float, optional
        Seconds that the server asked to wait.

    Returns
    -------
    CallError
        Its kind is

        - `fatal` if the error is about the account or the model. Its status is then 402 for missing credit, 401 for an invalid
          key, and 404 for an unknown model, whatever `status` is.
        - `rejected`, with status 400, if `status` is 403 and the message is about the content of the request.
        - otherwise the kind of `status` (`classify_status`): `fatal`, `transient` or `rejected`.

        Its `wording` is the part of the message that identifies an error about the account, or else None. Its `retry_after` is
        as passed, except for a 403 about the content, which has None.

    Examples
    --------
    >>> error = make_http_error(400, ["invalid_request_error"], "Your credit balance is too low.", reason="HTTP 400")
    >>> error.kind, error.status
    ('fatal', 402)
    """
    if status == _FORBIDDEN and is_about_content(message):
        return CallError(reason, kind="rejected", status=_REJECTED)

    is_rate_limit = status == TOO_MANY_REQUESTS and is_about_rate(message)
    searches_message = status in _CLASSIFIED_BY_MESSAGE and not is_rate_limit
    account_error = find_account_error(codes, message if searches_message else "")
    if account_error is None:
        return CallError(reason, kind=classify_status(status), status=status, retry_after=retry_after)

    account_status, wording = account_error
    return CallError(reason, kind="fatal", status=account_status, retry_after=retry_after, wording=wording)


def to_rejection_if_quoted(error: CallError, request: Request) -> CallError:
    """Convert an error that would end the run to a rejection of the request, if its message may quote the request.

    Words such as "credit balance is too low" in the provider's message end the run. If the request contains the same words,
    the provider may only have quoted them. The run then continues, and only this request counts as failed.

    Parameters
    ----------
    error : CallError
        Error of the call. Its `wording` is the words in the message that would end the run; None if there are none.
    request : Request
        The request that failed.

    Returns
    -------
    CallError
        A rejection of this request if it contains the words; otherwise `error` itself.
    """
    if error.wording is None:
        return error
    request_texts = [message.content for message in request.messages]
    if not is_quotation(error.wording, request_texts):
        return error
    return CallError(error.reason, kind="rejected", status=_REJECTED, unbilled=error.unbilled)


def find_fatal_code(message: str) -> str | None:
    """Search an error's message for a provider's code that ends the run, and return the code; None if there is none.

    Examples
    --------
    >>> find_fatal_code('{"error": {"code": "insufficient_quota"}}')
    'insufficient_quota'
    """
    for code in _CODES_IN_TEXT:
        if code in message:
            return code
    return None


def is_no_response(error: CallError) -> bool:
    """Return whether the server itself sent no usable reply: there was none, or a gateway or proxy reported that it got none."""
    return error.kind == "transient" and (error.status is None or error.status in _NO_SERVER)


def to_judge_error(error: CallError, *, judge: str, address: str) -> JudgeError:
    """Build the error that ends the run after a failure that every trial would have.

    Parameters
    ----------
    error : CallError
        Failure of the call that ended the run. Its `status` is the HTTP status, None without a reply.
    judge : str
        Name of the judge.
    address : str
        Address of its server.

    Returns
    -------
    JudgeError
        Its message names a remedy. Its slug is the first of the following that applies:

        - [judge-key] for HTTP status 401 or 403, [judge-model] for 404 or 405
        - [judge-proxy] for 407, [judge-moved] for a redirect (3xx)
        - [judge-quota] if the account cannot pay for calls (`kind` "fatal")
        - [judge-unreachable] without a reply, or if a gateway replied in place of the judge (502, 503, 504)
        - [judge-rejects] for all other failures
    """
    is_sentence = error.reason.endswith((".", "!", "?", "…"))
    reason = error.reason if is_sentence else f"{error.reason}."
    reply = f"The judge '{judge}' at {address} replied: {reason}"
    status_error = _make_status_error(reply, error.status)
    if status_error is not None:
        return status_error
    if error.kind == "fatal":
        return JudgeError(
            f"{reply} Add credit to the account or set another key, then run the same command again.",
            slug="judge-quota",
        )
    if error.status is None or is_no_response(error):
        return JudgeError(
            f"The judge '{judge}' at {address} sent no usable reply: {reason} "
            "Check that the server runs and that `base_url` is correct, then run the same command again.",
            slug="judge-unreachable",
        )
    remedy = "Check `model`, `decision` and `parameters` in the judge's config."
    if error.status == TOO_MANY_REQUESTS:
        remedy = "Run the same command again when the rate limit of the account allows requests."
    return JudgeError(f"{reply} No call of this run was answered. {remedy}", slug="judge-rejects")


def _make_status_error(reply: str, status: int | None) -> JudgeError | None:
    """Build the error for an HTTP status with a known remedy; None for any other status.

    reply : description of the server's reply, for the message
    """
    if status in (401, 403):
        return JudgeError(f"{reply} Check the key in the environment and its permissions.", slug="judge-key")
    if status in (404, 405):
        return JudgeError(f"{reply} Check `model` and `base_url` in the judge's config.", slug="judge-model")
    if status == PROXY_AUTHENTICATION_REQUIRED:
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


@dataclass
class Attempts:
    """The failed attempts of one call.

    Attributes
    ----------
    n_failed : int
        Failures that count as attempts.
    n_throttled : int
        Replies with HTTP 429, which do not count as attempts.
    throttled_seconds : float
        Seconds waited because of them.
    suspect : bool
        Whether the call failed during an outage, which does not count as an attempt either.
    """

    n_failed: int = 0
    n_throttled: int = 0
    throttled_seconds: float = 0.0
    suspect: bool = False
