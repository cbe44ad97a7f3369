"""Find the error that a reply with a status of success contains in place of an answer.

Its code decides what happens, as if the provider had sent it with the HTTP status of that code.
"""

from __future__ import annotations

from typing import Any

from youden.judging.call.account_errors import ErrorParts, find_account_error, parse_error_parts
from youden.judging.call.failures import CallError, make_http_error

_STATUS_BY_CODE = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "rate_limit_reached_error": 429,
    "resource_exhausted": 429,
    "throttlingexception": 429,
    "too_many_requests": 429,
    "tokens": 429,
    "requests": 429,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found": 404,
    "not_found_error": 404,
    "context_length_exceeded": 400,
    "content_policy_violation": 400,
    "content_filter": 400,
    "failed_precondition": 400,
    "invalid_argument": 400,
    "invalid_request_error": 400,
    "deadline_exceeded": 504,
    "engine_overloaded_error": 503,
    "overloaded_error": 503,
    "unavailable": 503,
    "server_error": 500,
    "api_error": 500,
}
"""HTTP status that providers usually send with each code, in lower case; `account_errors` has further codes."""

_BAD_REQUEST = 400
UNKNOWN_STATUS = 500
"""Status of an error whose codes are all unknown."""


def find_reply_error(reply: object) -> CallError | None:
    """Find and classify the error that a reply contains in place of an answer, although its HTTP status is 200.

    A reply contains an error in one of these cases:

    - The reply, its first choice, or the message of this choice has an error as a field.
    - The finish reason of the first choice is one of `_FAILED`.
    - The reply has a message and no choices, such as {"object": "error", "message": …}.

    Parameters
    ----------
    reply : object
        The reply, parsed from JSON.

    Returns
    -------
    CallError or None
        None if the reply holds no error. Its `unbilled` is False if the reply reports tokens of an answer, which may be billed.

    Examples
    --------
    >>> error = find_reply_error({"error": {"code": "insufficient_quota", "message": "Top up."}})
    >>> error.kind, error.reason
    ('fatal', 'HTTP 200 with an error inside (insufficient_quota): Top up.')
    >>> find_reply_error({"choices": [{"message": {"content": ""}, "error": {"code": 502}}]}).kind
    'transient'
    """
    if not isinstance(reply, dict):
        return None
    error = _find_error_field(reply)
    if error is None:
        return None

    failure = make_error_from_codes(parse_error_parts(error), prefix="HTTP 200 with an error inside")
    usage = object_or_empty(reply.get("usage"))
    if usage.get("completion_tokens"):
        failure.unbilled = False
    return failure


def _find_error_field(reply: dict[str, Any]) -> object | None:
    """Find the error that a reply contains in place of an answer; None if there is none.

    The following places are searched in this order:

    1. The field `error` of the first choice, of its message, and of the reply.
    2. The finish reason of the first choice, if it is one of `_FAILED`.
    3. If the reply has no choices: its field `base_resp`, or else the reply itself, if it contains an error message.

    If the answer is complete, only the field `error` of its choice counts.

    reply : the reply, parsed from JSON
    """
    choices = reply.get("choices")
    first_choice = choices[0] if isinstance(choices, list) and choices else None
    choice = object_or_empty(first_choice)
    message = object_or_empty(choice.get("message"))

    finish_reason = choice.get("finish_reason")
    is_complete_answer = finish_reason in _ENDED_BY_ITSELF and bool(message.get("content"))
    if is_complete_answer and not _is_error(choice.get("error")):
        return None
    for error in (choice.get("error"), message.get("error"), reply.get("error")):
        if _is_error(error):
            return error
    if finish_reason in _FAILED:
        return {"message": f"the finish reason is {finish_reason}."}
    if choices:
        return None

    error_without_choices = reply.get("base_resp") or reply
    reason = parse_error_parts(error_without_choices).message
    has_reason = isinstance(reason, str) and bool(reason)
    return error_without_choices if has_reason else None


_ENDED_BY_ITSELF = ("stop", "length")
_FAILED = ("error", "network_error", "insufficient_system_resource")


def _is_error(value: object) -> bool:
    """Return whether a field named `error` holds one: some gateways send an empty object with every reply."""
    return any(value.values()) if isinstance(value, dict) else bool(value)


def make_error_from_codes(parts: ErrorParts, *, prefix: str) -> CallError:
    """Build the error for a reply that names error codes, but has no HTTP status that describes the error.

    Parameters
    ----------
    parts : ErrorParts
        Codes and message of the error. The first known code determines the kind of the error.
    prefix : str
        Beginning of the reason.

    Returns
    -------
    CallError
        If no code is known, its kind is `fatal` if the message is about the account, and otherwise `transient`.
    """
    # the first code that is known, or else the first code that is not empty
    status = UNKNOWN_STATUS  # means a transient error
    displayed_code = next((code for code in parts.codes if code), "no code")
    for code in parts.codes:
        known_status = find_status_of_code(code)
        if known_status is not None:
            status = known_status
            displayed_code = code
            break

    if status == UNKNOWN_STATUS and find_account_error((), parts.message) is not None:
        status = _BAD_REQUEST  # for this status, `make_http_error` searches the message for a problem with the account
    has_message = isinstance(parts.message, str) and parts.message
    message = parts.message if has_message else "no reason given"
    reason = f"{prefix} ({displayed_code}): {message}"
    return make_http_error(status, parts.codes, parts.message, reason=reason)


def find_status_of_code(code: object) -> int | None:
    """Return the HTTP status that fits the error code of a provider; None if the code is not known.

    Letter case does not matter. A code can also be an HTTP status, as a number or as a text.

    Examples
    --------
    >>> find_status_of_code("overloaded_error"), find_status_of_code("429"), find_status_of_code(200)
    (503, 429, None)
    """
    if isinstance(code, int):
        return code if 400 <= code <= 599 else None
    if not isinstance(code, str):
        return None
    if len(code) == 3 and code.isascii() and code.isdigit():
        return find_status_of_code(int(code))
    status_of_code = _STATUS_BY_CODE.get(code.casefold())
    if status_of_code is not None:
        return status_of_code
    account_error = find_account_error([code], message="")
    if account_error is None:
        return None
    status, _ = account_error
    return status


def object_or_empty(value: object) -> dict[str, Any]:
    """Return a value that is a JSON object, and an empty dictionary for any other value."""
    return value if isinstance(value, dict) else {}
