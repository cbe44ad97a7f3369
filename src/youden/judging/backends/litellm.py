"""Query a model through litellm, which supports many providers (Together, Groq, Bedrock, Vertex, …).

Needs the extra `litellm`. Its retries, its cache and the download of its prices are switched off. Its exceptions are
those of OpenAI's SDK.
"""

from __future__ import annotations

import json
import logging
import os
import time
from importlib import import_module
from typing import Any

import openai

from youden.errors import ConfigError, JudgeError
from youden.extras import format_install
from youden.judging.call.connection import Connection, make_request_body, make_status_error, parse_retry_after
from youden.judging.call.failures import (
    CallError,
    FailureKind,
    classify_status,
    find_fatal_code,
    make_http_error,
    to_rejection_if_quoted,
)
from youden.judging.call.reply import NO_COOKIES, join_contents, parse_completion, read_response
from youden.judging.call.reply_errors import find_reply_error
from youden.text.json_text import parse_json
from youden.types import Completion, Request

_NO_KEY = "none"
_NO_CREDENTIALS = ("unable to locate credentials", "default credentials were not found")
"""Parts of messages with which Amazon's and Google's libraries report missing credentials, before anything is sent."""
_UNAUTHORIZED = 401
_MIN_ERROR_STATUS = 400
_SERVER_ERROR = 500


class LitellmJudge:
    """Sends one chat completion per request.

    Parameters
    ----------
    connection : Connection
        Address, which may be empty, and API key. Without a key, litellm reads that of the provider
        from the environment.

    Raises
    ------
    JudgeError
        [judge-extra] if litellm is not installed.
    ConfigError
        [judge-auth-conflict] if the URL contains credentials.
    """

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self._connection = connection
        if connection.authorization is not None:
            raise ConfigError(
                f"The judge '{connection.name}' has credentials in base_url, which litellm does not send. Remove them and "
                "set api_key_env, or set `backend: wire` for this server.",
                slug="judge-auth-conflict",
            )
        self._litellm = _import_litellm()
        self._http_client: Any = None

    async def answer(self, request: Request) -> Completion:
        """Send a request and return the model's reply. Raises: CallError if the call fails."""
        if self._http_client is None:
            self._http_client = _make_client()
        self._litellm.aclient_session = self._http_client  # a global setting, which another judge may have changed
        start_time = time.perf_counter()
        try:
            reply = await self._litellm.acompletion(
                timeout=self._connection.timeout,
                num_retries=0,
                max_retries=0,
                caching=False,
                drop_params=False,
                **self._make_server_options(),
                **make_request_body(request),
            )
            seconds = time.perf_counter() - start_time
            return parse_completion(reply.model_dump(), seconds=seconds)
        except Exception as error:
            call_error = _to_call_error(error)
            raise to_rejection_if_quoted(call_error, request) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._litellm.close_litellm_async_clients()
        if self._http_client is not None:
            self._litellm.aclient_session = None
            self._litellm.in_memory_llm_clients_cache.flush_cache()  # it would continue to use the client that is closed here
            await self._http_client.aclose()

    def _make_server_options(self) -> dict[str, Any]:
        """Return the arguments of litellm for the address and the API key, if the judge's config has them."""
        options: dict[str, Any] = {}
        if self._connection.address:
            options |= {"api_base": self._connection.address, "api_key": _NO_KEY}
        if self._connection.api_key is not None:
            options["api_key"] = self._connection.api_key
        return options


def _to_call_error(error: Exception) -> CallError:
    """Convert an exception that litellm raised to a CallError.

    - A CallError of our HTTP client, which litellm may have wrapped in another exception, is returned itself.
    - A timeout is a transient error: the call may be sent again.
    - Any other error of OpenAI's SDK is converted by `_convert_api_error`.
    - All remaining exceptions are transient errors.
    """
    original_error = _find_call_error(error)
    if original_error is not None:
        return original_error
    if isinstance(error, openai.APITimeoutError):
        return CallError("No reply within the timeout.", kind="transient")
    if not isinstance(error, openai.APIError):
        return CallError(f"{type(error).__name__}: {error}", kind="transient")
    return _convert_api_error(error)


def _convert_api_error(error: openai.APIError) -> CallError:
    """Convert an error of OpenAI's SDK to a CallError. litellm reports the errors of all providers as errors of this SDK.

    1. If credentials are missing, the run ends.
    2. If the message contains an error code that concerns the account or the model, the run ends.
    3. Otherwise, the HTTP status decides: the run ends, the request is rejected, or the call may be sent again.
    4. Without a status, the call may be sent again.
    """
    message = str(error)
    if any(part in message.lower() for part in _NO_CREDENTIALS):
        return CallError(message, kind="fatal", status=_UNAUTHORIZED)
    fatal_code = find_fatal_code(message)

    status: Any = getattr(error, "status_code", None)
    # litellm also sets the status 500 if the connection was lost, so a 500 does not show that the server has replied
    has_error_status = isinstance(status, int) and status >= _MIN_ERROR_STATUS
    if not has_error_status or status == _SERVER_ERROR:
        kind: FailureKind = "transient" if fatal_code is None else "fatal"
        return CallError(message, kind=kind, wording=fatal_code)  # `wording` is the part of the message that decides
    headers = getattr(error, "litellm_response_headers", None) or {}
    return _make_error_from_status(status, message, fatal_code, retry_after=parse_retry_after(headers))


def _make_error_from_status(
    status: int, message: str, fatal_code: str | None, *, retry_after: float | None
) -> CallError:
    """Make the error for a reply of the server that has an HTTP status of at least 400.

    The run may have to stop only because of an error code in the message. However, the message might only quote a judged text
    that contains the code. The code is therefore stored as the `wording` of the error, and `to_rejection_if_quoted` searches the
    request for it.

    status : HTTP status of the reply
    message : message of the exception that litellm raised
    fatal_code : error code in the message for which the run has to stop; None if the message contains no such code
    retry_after : seconds that the server asked to wait; None if it did not ask for a wait
    """
    reason = f"HTTP {status}: {message}"
    call_error = make_http_error(status, (fatal_code,), message, reason=reason, retry_after=retry_after)

    is_fatal_by_message = call_error.kind == "fatal" and classify_status(status) != "fatal"
    if is_fatal_by_message and call_error.wording is None:
        call_error.wording = fatal_code
    return call_error


def _find_call_error(error: BaseException | None) -> CallError | None:
    """Return the CallError that our HTTP client raised and that libraries wrapped in other errors; None without one."""
    while error is not None and not isinstance(error, CallError):
        error = error.__cause__ or error.__context__
    return error


def _make_client() -> Any:
    """Make the `httpx.AsyncClient` for OpenAI's SDK in litellm.

    The client follows no redirects and stores no cookies. Its method `send` is replaced by one that checks replies.
    """
    client = import_module("httpx").AsyncClient()
    client.cookies.jar.set_policy(NO_COOKIES)
    original_send = client.send

    async def send_and_check_reply(request: Any, **options: Any) -> Any:
        """Send an `httpx.Request`, read the whole reply, and return it as an `httpx.Response` that litellm accepts.

        options : keyword arguments of `httpx.AsyncClient.send`; `stream` and `follow_redirects` are replaced

        Raises: CallError if the reply reports an error or is larger than `MAX_REPLY_BYTES`.
        """
        send_options = options | {"stream": True, "follow_redirects": False}
        streaming_response = await original_send(request, **send_options)
        response = await read_response(streaming_response)
        return _to_accepted_response(response)

    client.send = send_and_check_reply
    return client


def _to_accepted_response(response: Any) -> Any:
    """Return an `httpx.Response` that litellm accepts: message contents that are lists of parts are joined to one text.

    A response is returned unchanged if none of its message contents is a list, or if it is not JSON.

    response : `httpx.Response` with its whole body

    Raises: CallError if the HTTP status is not a success, or if the JSON reports an error although the status is a success.
    """
    if not response.is_success:
        raise make_status_error(response.status_code, response.content, response.headers)

    try:
        reply = parse_json(response.content, unique_keys=False).value
    except ValueError:
        return response
    error = find_reply_error(reply)
    if error is not None:
        raise error

    has_joined_contents = join_contents(reply)  # changes `reply` in place
    if not has_joined_contents:
        return response
    return type(response)(
        response.status_code,
        headers=response.headers.raw,
        content=json.dumps(reply),
        request=response.request,
    )


def _import_litellm() -> Any:
    """Import litellm, and switch off its logs, telemetry, cache and retries.

    Raises: JudgeError [judge-extra] if it is not installed.
    """
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # otherwise it loads addresses and proxies from a .env file
    try:
        library: Any = import_module("litellm")
    except ImportError:
        raise JudgeError(
            f"The judge's backend is litellm, which is not installed. Install it with: {format_install('litellm')}.",
            slug="judge-extra",
        ) from None
    # litellm's warnings repeat a server's replies, which may contain keys
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    library.telemetry = False
    library.suppress_debug_info = True
    library.cache = None
    library.num_retries = 0
    return library
