"""Asks a model behind the OpenAI chat format by OpenAI's own SDK, over aiohttp. The SDK's own retries are off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import openai
from openai import AsyncOpenAI, DefaultAioHttpClient

from youden.judging.call.chat import completion, status_error
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError
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
        self._connection = connection
        self._clock = clock
        self._client = client or sdk_client(connection)

    async def answer(self, request: Request) -> Completion:
        """The model's reply. Raises: CallError."""
        began = self._clock()
        with call_errors(self._connection):
            reply = await self._client.chat.completions.with_raw_response.create(
                model=request.model,
                messages=cast(Any, [{"role": one.role, "content": one.content} for one in request.messages]),
                extra_body=dict(request.parameters),
            )
            body = reply.text
        return completion(body, seconds=self._clock() - began)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._client.close()


@contextmanager
def call_errors(connection: Connection) -> Iterator[None]:
    """The SDK's exceptions as CallErrors without secrets."""
    try:
        yield
    except openai.APIStatusError as error:
        response = error.response
        raise connection.redacted(status_error(error.status_code, response.text, response.headers)) from None
    except openai.APITimeoutError:
        raise CallError("No reply within the timeout.", kind="retry") from None
    except (openai.APIError, OSError, ValueError) as error:
        cause = error.__cause__ or error
        raise connection.redacted(CallError(f"{type(cause).__name__}: {cause}", kind="retry")) from None


def sdk_client(connection: Connection) -> AsyncOpenAI:
    """The SDK's client for `connection`, its own retries off."""
    headers = {} if connection.authorization is None else {"Authorization": connection.authorization}
    return AsyncOpenAI(
        api_key=connection.api_key or _NO_KEY,
        base_url=connection.address,
        timeout=connection.timeout,
        max_retries=0,
        default_headers=headers,
        http_client=DefaultAioHttpClient(),
    )
