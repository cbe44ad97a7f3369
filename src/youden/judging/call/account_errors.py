"""Recognize errors that end a run, whatever their HTTP status: no credit, an invalid key, or an unknown model.

A provider's code decides. With some statuses, such as 400, some providers send no code, so their message is searched
for known wording. A message may repeat a judged text, which is untrusted, so wording that also occurs in the request
does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

NO_CREDIT, BAD_KEY, NO_SUCH_MODEL = 402, 401, 404
"""The HTTP statuses that these errors should have had."""

_CODES = {
    NO_CREDIT: {
        "insufficient_quota",
        "insufficient_user_quota",
        "insufficient_balance",
        "insufficient_balance_error",
        "insufficient_credits",
        "insufficient_funds",
        "exceeded_current_quota_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_disabled",
        "billing_error",
        "credit_balance_too_low",
        "payment_required",
        "budget_exceeded",
        "arrearage",
        "not_enough_balance",
        "account_overdue",
        "accountoverdueerror",
    },
    BAD_KEY: {
        "invalid_api_key",
        "incorrect_api_key",
        "invalidapikey",
        "api_key_invalid",
        "api_key_expired",
        "api_key_service_blocked",
        "expired_api_key",
        "revoked_api_key",
        "account_deactivated",
        "account_suspended",
        "organization_restricted",
        "authentication_error",
        "invalid_authentication_error",
        "unauthenticated",
        "credentials_missing",
        "access_token_expired",
        "account_state_invalid",
        "token_expired",
        "invalid_grant",
        "expiredtoken",
        "expiredtokenexception",
        "unrecognizedclientexception",
        "invalidsignatureexception",
        "missingauthenticationtokenexception",
        "expiredauthenticationtoken",
        "invalidauthenticationtoken",
    },
    NO_SUCH_MODEL: {"model_not_found", "invalid_model"},
}
_STATUS_OF_CODE = {code: status for status, codes in _CODES.items() for code in codes}

_ACCOUNT = r"(?:your|this|the) (?:\w+ ){0,3}(?:account|organi[sz]ation|subscription|plan|team)"
_KEY = r"(?:api[ _-]?key|(?:access|subscription|auth\w*) key)"
_BETWEEN = r"(?:[^\s\"':`]+ ){0,6}"
"""Up to six words without quotes or colons: after a quote or a colon, a message may repeat a judged text."""
_BEARER = r"(?:access|auth\w*|bearer|security|session|refresh|identity) token"
_WORDING = {
    NO_CREDIT: (
        r"credit balance is too low",
        r"(?:insufficient|not enough) (?:account )?(?:balance|credits?|funds|quota)\b",
        r"balance (?:is )?(?:insufficient|too low|not enough)",
        r"\bno credits? (?:left|remaining|available)",
        r"\b(?:credits?|balance) (?:is|are|has been|have been) (?:depleted|exhausted|used up)",
        r"reached your specified (?:\w+ ){0,2}usage limits",
        r"\b(?:credit|spend|spending) (?:limit|cap) (?:\w+ ){0,2}(?:reached|exceeded)",
        r"(?:reached|exceeded) (?:its|your) monthly spending (?:limit|cap)",
        r"^budget has been exceeded",
        r"余额不足|额度不足|欠费",
        r"exceeded your (?:current|monthly) (?:quota|included credits|spending limit)",
        r"(?:billing hard limit|monthly spending limit) has been reached",
        r"(?:used all available|run out of|out of|doesn't have any) credits",
        rf"{_ACCOUNT} {_BETWEEN}(?:is|has|has been) (?:not active|inactive|in arrears|overdue|past due|expired)",
        r"make sure your account is in good standing",
        r"inactive subscription or usage limit reached",
        r"(?:enable|check your) (?:plan and )?billing\b",
    ),
    BAD_KEY: (
        rf"{_KEY} (?:\w+ ){{0,3}}(?:not valid|invalid|not found|expired|revoked|disabled|blocked|leaked)",
        rf"(?:invalid|incorrect|expired|revoked|unknown|missing) {_KEY}",
        rf"{_BEARER} (?:[\w-]+ ){{0,6}}(?:not valid|invalid|expired|revoked)",
        rf"(?:invalid|expired|revoked) {_BEARER}",
        rf"{_ACCOUNT} {_BETWEEN}(?:is|has been) (?:deactivated|disabled|suspended|restricted|terminated)",
        r"account \S+ is suspended",
        r"^account (?:is |has been )?(?:suspended|disabled|deactivated)",
        r"(?:didn't|did not) provide an api key",
        r"signature expired: ",
        r"AADSTS\d{4,}",
    ),
}
_PATTERNS = {
    status: re.compile("|".join(f"(?:{wording})" for wording in wordings), re.I)
    for status, wordings in _WORDING.items()
}

_ABOUT_CONTENT = re.compile(
    r"\b(?:input|prompt|message|content|request|text)s? (?:was|were|has been|have been) flagged|"
    r"content violates|failed check: safety|requires moderation",
    re.I,
)
_ABOUT_RATE = re.compile(r"current quota|rate limit|try again|retry|\bper (?:second|minute|hour|day|month)\b", re.I)
"""Wording of rate limits. Some providers report a rate limit as an exceeded "current quota", and refer to billing, too."""


def is_about_content(message: object) -> bool:
    """Return whether an error's message states that the provider refuses the content of a request."""
    return isinstance(message, str) and _ABOUT_CONTENT.search(message) is not None


def is_about_rate(message: object) -> bool:
    """Return whether an error's message may be about a rate limit."""
    return isinstance(message, str) and _ABOUT_RATE.search(message) is not None


class ErrorParts(NamedTuple):
    """The codes and the message of a provider's error, from the body of its reply.

    Attributes
    ----------
    codes : tuple of (str or int)
        Codes, types, statuses and reasons, those of the error itself first.
    message : object
        The message, in most replies a string; None if there is none.
    """

    codes: tuple[str | int, ...]
    message: object


def parse_error_parts(body: object) -> ErrorParts:
    """Find the codes and the message in the body of an error.

    Parameters
    ----------
    body : object
        Body of the reply, parsed from JSON. The error may be the body itself, its field `error` or `errors`, or the first
        element of a list.

    Returns
    -------
    ErrorParts
        All codes, and the message. The message may have any type; it is None if the body contains no message.

    Examples
    --------
    >>> parse_error_parts([{"error": {"code": 400, "message": "No.", "details": [{"reason": "API_KEY_INVALID"}]}}])
    ErrorParts(codes=(400, 'API_KEY_INVALID'), message='No.')
    >>> parse_error_parts({"error": "Incorrect API key provided."})
    ErrorParts(codes=(), message='Incorrect API key provided.')
    """
    body_object = _get_first_object(body)
    if body_object is None:  # the body is the message itself
        return ErrorParts((), body)

    error = body_object.get("error") or body_object.get("errors") or body_object
    error_object = _get_first_object(error)
    if error_object is None:  # the field "error" is the message itself, so the body has the codes
        codes = tuple(_iter_codes([body_object, *_get_details(body_object)]))
        return ErrorParts(codes, error)

    details = _get_details(error_object or body_object)  # the details of an empty error object are in the body
    objects = [error_object, *details]  # may contain codes or a message; the most specific object comes first
    if error_object is not body_object:
        objects.append(body_object)
    codes = tuple(_iter_codes(objects))
    return ErrorParts(codes, _find_message(objects))


def _get_first_object(value: object) -> Mapping[str, Any] | None:
    """Return a JSON object that is the value itself or the first element of a list; None if there is none."""
    if isinstance(value, list):
        value = next(iter(value), None)
    return value if isinstance(value, dict) else None


def _get_details(error: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the objects in the list `details` of an error; empty without this list."""
    details = error.get("details")
    if not isinstance(details, list):
        return []
    return [detail for detail in details if isinstance(detail, dict)]


def _iter_codes(objects: Iterable[Mapping[str, Any]]) -> Iterator[str | int]:
    """Yield the values of the fields in which providers write codes."""
    for fields in objects:
        for name in ("code", "type", "status", "reason", "__type", "Code"):
            code = fields.get(name)
            if isinstance(code, str | int) and not isinstance(code, bool):
                yield code


def _find_message(objects: Iterable[Mapping[str, Any]]) -> object:
    """Return the first value, of any type, in a field in which providers write messages; None if there is none."""
    for fields in objects:
        for name in ("message", "detail", "Message", "msg", "status_msg", "error_msg"):
            if fields.get(name) is not None:
                return fields[name]
    return None


def find_account_error(codes: Iterable[object], message: object) -> tuple[int, str | None] | None:
    """Find an error about the account or the model: no credit, an invalid key or an unknown model.

    Parameters
    ----------
    codes : iterable of object
        The provider's codes for the error.
    message : object
        The provider's message. It is searched only if no code is known.

    Returns
    -------
    (int, str or None) or None
        None if there is no such error. Otherwise, an HTTP status, and the part of the message that identifies the error. The
        status is 402 for missing credit, 401 for an invalid key, and 404 for an unknown model. The part is None if a code
        identifies the error.

    Examples
    --------
    >>> find_account_error(["invalid_request_error"], "Your credit balance is too low to access the API.")
    (402, 'credit balance is too low')
    >>> find_account_error(["INVALID_ARGUMENT", "API_KEY_INVALID"], "")
    (401, None)
    """
    for code in codes:
        status_of_code = _get_status_of_code(code)
        if status_of_code is not None:
            return status_of_code, None

    if isinstance(message, str):
        text = " ".join(message.split())
        for status, pattern in _PATTERNS.items():
            match = pattern.search(text)
            if match is not None:
                return status, match[0]
    return None


def _get_status_of_code(code: object) -> int | None:
    """Return the HTTP status that fits a provider's code for an account error; None if the code is not known."""
    if not isinstance(code, str):
        return None
    _, _, name = code.rpartition("#")  # Amazon writes "namespace#Name"
    return _STATUS_OF_CODE.get(name.casefold())


def is_quotation(wording: str, texts: Iterable[str]) -> bool:
    """Return whether a part of an error's message also occurs in a text of the request. The message may then only quote the text.

    Differences in letter case, and in the white space of the request, are ignored.

    wording : part of the error's message
    texts : texts of the messages of the request

    Examples
    --------
    >>> is_quotation("credit balance is too low", ["It says: 'Your credit\\nbalance is TOO low'."])
    True
    """
    searched_words = wording.casefold()
    for text in texts:
        normalized_text = " ".join(text.split()).casefold()
        if searched_words in normalized_text:
            return True
    return False
