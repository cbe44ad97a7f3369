"""Finds the error in a reply that calls itself a success: some gateways send `{"error": …}` with the status 200."""

from __future__ import annotations

from youden.judging.call.failures import CallError, fate

_STATUS = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "tokens": 429,
    "requests": 429,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "context_length_exceeded": 400,
    "content_policy_violation": 400,
    "content_filter": 400,
    "invalid_request_error": 400,
    "overloaded_error": 503,
    "server_error": 500,
    "api_error": 500,
    "insufficient_quota": 429,
    "billing_hard_limit_reached": 429,
    "billing_not_active": 429,
    "model_not_found": 404,
    "invalid_model": 404,
}
"""The status that providers send with these codes when they send one."""

_UNKNOWN = 500


def error_inside(reply: object) -> CallError | None:
    """The error that a parsed reply holds in the place of an answer, as the same code with its own status would be; else None.

    A code that is a status counts as that status. One that nobody knows says nothing of the trial, so it may be tried again.

    >>> found = error_inside({"error": {"code": "insufficient_quota", "message": "Top up."}})
    >>> found.kind, found.reason
    ('stop', 'HTTP 200 with an error inside (insufficient_quota): Top up.')
    """
    if not isinstance(reply, dict) or not reply.get("error") or reply.get("choices"):
        return None
    error = reply["error"]
    said = error if isinstance(error, dict) else {"message": error}
    codes = [one for one in (said.get("code"), said.get("type"), said.get("status")) if isinstance(one, str | int)]
    known = next((one for one in codes if _status(one) is not None), None)
    status = _UNKNOWN if known is None else _status(known) or _UNKNOWN
    named = next((str(one) for one in (known, *codes) if one), "no code")
    message = said.get("message")
    words = message if isinstance(message, str) and message else "no reason given"
    kind = fate(status, known if isinstance(known, str) else None)
    return CallError(f"HTTP 200 with an error inside ({named}): {words}", kind=kind, status=status)


def _status(code: str | int) -> int | None:
    """The status that a code stands for, None where nobody knows."""
    if isinstance(code, str):
        return _STATUS.get(code) or (
            _status(int(code)) if len(code) == 3 and code.isascii() and code.isdigit() else None
        )
    return code if 400 <= code <= 599 else None
