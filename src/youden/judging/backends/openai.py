"""Asks a model behind the OpenAI chat format by OpenAI's own SDK, over aiohttp.

The SDK's own retries are off, it follows no redirect, and it reads no more of a reply than `read_response` does.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import openai
from openai import AsyncOpenAI, DefaultAioHttpClient

from youden.judging.backends.wire import broken
from youden.judging.call.connection import Connection, parsed, request_body, status_error
from youden.judging.call.failures import CallError, unless_echoed
from youden.judging.call.reply import NO_COOKIES, checked, read_response
from youden.types import Completion, Request

_NO_KEY = "none"


class OpenAIJudge:
    """One chat completion a request. `client`: an SDK client of your own, its retries off."""

    def __init__(
        self,
        connection: Connection,
        *,
        client: AsyncOpenAI | None = None,
    ) -> None:
        self.name = connection.name
        self._client = client or _sdk_client(connection)

    async def answer(self, request: Request) -> Completion:
        """The model's reply. Raises: CallError."""
        began = time.perf_counter()
        try:
            # `chat.completions.create` would look at the type of every part of it, at a quarter of a call's CPU
            reply = await self._client.post("/chat/completions", cast_to=bytes, body=request_body(request))
            return checked(parsed(reply), seconds=time.perf_counter() - began)
        except CallError as error:
            raise unless_echoed(error, request) from None
        except Exception as error:
            raise unless_echoed(_call_error(error), request) from None

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._client.close()


def _call_error(error: BaseException) -> CallError:
    """What the SDK raised, or made of a reply that it cannot read. It calls a connection that nobody took a timeout as well."""
    if isinstance(error, openai.APIStatusError):
        return status_error(error.status_code, error.response.content, error.response.headers)
    while error.__cause__ is not None and not isinstance(error, aiohttp.ClientError):
        error = error.__cause__
    return broken(error)


class _Bounded(DefaultAioHttpClient):
    """Reads no more of a reply than `read_response` does, and keeps no cookies."""

    def __init__(self) -> None:
        super().__init__(follow_redirects=False)
        self.cookies.jar.set_policy(NO_COOKIES)

    async def send(self, request: Any, **options: Any) -> Any:
        """As the SDK's, the reply read already."""
        return await read_response(await super().send(request, **{**options, "stream": True}))


def _sdk_client(connection: Connection) -> AsyncOpenAI:
    headers = {} if connection.authorization is None else {"Authorization": connection.authorization}
    client = AsyncOpenAI(
        api_key=connection.api_key or _NO_KEY,
        base_url=connection.address,
        timeout=connection.timeout,
        max_retries=0,
        default_headers=headers,
        http_client=_Bounded(),
    )
    if not f".{urlsplit(connection.address).hostname}".endswith(".api.openai.com"):
        client.organization = client.project = None  # the SDK reads them from the environment; only OpenAI may get them
        client._custom_headers = headers  # without those in OPENAI_CUSTOM_HEADERS, for the same reason
    return client
