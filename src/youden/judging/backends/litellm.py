"""Asks any model that litellm reaches (Together, Groq, Bedrock, Vertex, …); needs the extra `litellm`.

litellm's exceptions are openai's. Its retries, its cache and its prices from the network are switched off.
"""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

import openai

from youden.errors import ConfigError, JudgeError
from youden.judging.call.connection import Connection, request_body, retry_after, status_error
from youden.judging.call.failures import CallError, ending_code, fate, http_error, unless_echoed
from youden.judging.call.reply import NO_COOKIES, checked, join_contents, read_response
from youden.judging.call.reply_errors import error_inside
from youden.text.json_text import parse_json
from youden.types import Completion, Request

_NO_KEY = "none"
_NO_CREDENTIALS = ("unable to locate credentials", "default credentials were not found")
"""What Amazon's and Google's own libraries say before anything is sent."""
_UNAUTHORISED = 401
_ERROR = 400
_BROKEN = 500


class LitellmJudge:
    """One chat completion a request; `model` is litellm's name of it, host first: `together_ai/meta-llama/…`.

    Without a key of its own the judge leaves it to litellm to find its provider's in the environment.

    Raises: JudgeError [judge-extra] where litellm is not installed; ConfigError [judge-two-keys] for credentials in a URL.
    """

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self._connection = connection
        if connection.authorization is not None:
            raise ConfigError(
                f"The judge '{connection.name}' has credentials in base_url, which litellm does not send. Take them out and "
                "name a key in api_key_env, or ask this server by `backend: wire`.",
                slug="judge-two-keys",
            )
        self._litellm = _library()
        self._http: Any = None

    async def answer(self, request: Request) -> Completion:
        """The model's reply. Raises: CallError."""
        self._http = self._litellm.aclient_session = self._http or _client()
        began = time.perf_counter()
        try:
            reply = await self._litellm.acompletion(
                timeout=self._connection.timeout,
                num_retries=0,
                max_retries=0,
                caching=False,
                drop_params=False,
                **self._way(),
                **request_body(request),
            )
            return checked(reply.model_dump(), seconds=time.perf_counter() - began)
        except Exception as error:
            raise unless_echoed(_call_error(error), request) from None

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._litellm.close_litellm_async_clients()
        if self._http is not None:
            self._litellm.aclient_session = None
            self._litellm.in_memory_llm_clients_cache.flush_cache()  # it would go on with the client that is closed here
            await self._http.aclose()

    def _way(self) -> dict[str, Any]:
        way: dict[str, Any] = {}
        if self._connection.address:
            way |= {"api_base": self._connection.address, "api_key": _NO_KEY}
        if self._connection.api_key is not None:
            way["api_key"] = self._connection.api_key
        return way


def _call_error(error: Exception) -> CallError:
    """litellm says 500 of a connection that broke as well, so a 500 counts as a call that nobody can price."""
    if (own := _own(error)) is not None:
        return own
    if isinstance(error, openai.APITimeoutError):
        return CallError("No reply within the timeout.", kind="retry")
    if not isinstance(error, openai.APIError):
        return CallError(f"{type(error).__name__}: {error}", kind="retry")
    status, said = getattr(error, "status_code", None), str(error)
    if any(words in said.lower() for words in _NO_CREDENTIALS):
        return CallError(said, kind="stop", status=_UNAUTHORISED)
    code = ending_code(said)
    if not isinstance(status, int) or status < _ERROR or status == _BROKEN:
        return CallError(said, kind="stop" if code else "retry", wording=code)
    headers = getattr(error, "litellm_response_headers", None) or {}
    failure = http_error(status, (code,), said, reason=f"HTTP {status}: {said}", retry_after=retry_after(headers))
    if failure.kind != fate(status) and failure.wording is None:
        failure.wording = code
    return failure


def _own(error: BaseException | None) -> CallError | None:
    """The CallError that our client raised and the libraries above it wrapped, None where there is none."""
    while error is not None and not isinstance(error, CallError):
        error = error.__cause__ or error.__context__
    return error


def _client() -> Any:
    """The client that litellm asks through where it uses OpenAI's SDK: no redirects, no cookies, and reads within the bound."""
    httpx: Any = import_module("httpx")

    async def send(request: Any, **options: Any) -> Any:
        asked = await plain_send(request, **{**options, "stream": True, "follow_redirects": False})
        response = await read_response(asked)
        if not response.is_success:
            raise status_error(response.status_code, response.content, response.headers)
        with suppress(ValueError):
            reply = parse_json(response.content).value
            if (inside := error_inside(reply)) is not None:
                raise inside
            if join_contents(reply):  # litellm accepts only a string
                response = type(response)(
                    response.status_code,
                    headers=response.headers.multi_items(),
                    content=json.dumps(reply),
                    request=response.request,
                )
        return response

    client = httpx.AsyncClient()
    client.cookies.jar.set_policy(NO_COOKIES)
    plain_send, client.send = client.send, send
    return client


def _library() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # otherwise it loads a .env with its addresses and proxies
    try:
        library: Any = import_module("litellm")
    except ImportError:
        raise JudgeError(
            "The judge's backend is litellm, which is not installed. Install it with: pip install 'youden[litellm]'.",
            slug="judge-extra",
        ) from None
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # its warnings repeat a server's words, keys among them
    library.telemetry = False
    library.suppress_debug_info = True
    library.cache = None
    library.num_retries = 0
    return library
