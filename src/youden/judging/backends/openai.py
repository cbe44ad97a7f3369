"""Asks a model behind the OpenAI chat format by OpenAI's own SDK, over aiohttp.

The SDK's own retries are off, it follows no redirect, and it reads no more of a reply than `bounded` allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import openai
from openai import AsyncOpenAI, DefaultAioHttpClient

from youden.judging.call.connection import Connection, completion, status_error
from youden.judging.call.failures import CallError
from youden.judging.call.reply import ABOUT_THE_FORM, MOST_BYTES, NO_COOKIES, read_bounded
from youden.nouns import Completion, Request

_NO_KEY = "none"


class OpenAIJudge:
    """One chat completion a request. `client`: an SDK client of your own, its retries off."""

    def __init__(
        self,
        connection: Connection,
        *,
        client: AsyncOpenAI | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.name = connection.name
        self._clock = clock
        self._client = client or sdk_client(connection)

    async def answer(self, request: Request) -> Completion:
        """The model's reply. Raises: CallError."""
        began = self._clock()
        with call_errors():
            reply = await self._client.post("/chat/completions", cast_to=bytes, body=_body(request))
            return completion(reply, seconds=self._clock() - began)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._client.close()


def _body(request: Request) -> dict[str, Any]:
    """What is sent. `chat.completions.create` would look at the type of every part of it, at a quarter of a call's CPU."""
    messages = [{"role": one.role, "content": one.content} for one in request.messages]
    return {"model": request.model, "messages": messages, **request.parameters}


@contextmanager
def call_errors() -> Iterator[None]:
    """What the SDK raises, and whatever it makes of a reply that it cannot read, as CallErrors."""
    try:
        yield
    except CallError:
        raise
    except openai.APIStatusError as error:
        response = error.response
        raise status_error(error.status_code, response.content, response.headers) from None
    except Exception as error:
        raise _broken(error) from None


def _broken(error: BaseException) -> CallError:
    """What stands behind the SDK's exception: it calls a connection that nobody took a timeout as well."""
    while error.__cause__ is not None and not isinstance(error, aiohttp.ClientError):
        error = error.__cause__
    if isinstance(error, TimeoutError):
        return CallError("No reply within the timeout.", kind="retry")
    never_made = isinstance(error, aiohttp.ClientConnectorError)
    return CallError(f"{type(error).__name__}: {error}", kind="retry", free=never_made)


class _Bounded(DefaultAioHttpClient):
    """Reads at most `most` bytes of a reply, unpacked, and keeps no cookies."""

    def __init__(self, *, most: int) -> None:
        super().__init__(follow_redirects=False)
        self.cookies.jar.set_policy(NO_COOKIES)
        self._most = most

    async def send(self, request: Any, **options: Any) -> Any:
        """As the SDK's, the reply read already."""
        response = await super().send(request, **{**options, "stream": True})
        said = response.headers.get("content-length", "")
        try:
            if said.isdecimal() and int(said) <= self._most and "content-encoding" not in response.headers:
                await response.aread()
                return response
            body = await read_bounded(response.aiter_bytes(), most=self._most)
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in ABOUT_THE_FORM]
        return type(response)(response.status_code, headers=headers, content=body, request=request)


def sdk_client(connection: Connection, *, most: int = MOST_BYTES) -> AsyncOpenAI:
    """The SDK's client for `connection`. most: bytes of a reply."""
    headers = {} if connection.authorization is None else {"Authorization": connection.authorization}
    return AsyncOpenAI(
        api_key=connection.api_key or _NO_KEY,
        base_url=connection.address,
        timeout=connection.timeout,
        max_retries=0,
        default_headers=headers,
        http_client=_Bounded(most=most),
    )
