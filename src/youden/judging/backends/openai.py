"""Query a model with the OpenAI chat format through OpenAI's SDK, over aiohttp.

The SDK's retries are off, it follows no redirect, and the size of a reply is limited by `read_response`.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import openai
from openai import AsyncOpenAI, DefaultAioHttpClient

from youden.judging.call.connection import Connection, make_request_body, make_status_error, parse_reply
from youden.judging.call.failures import CallError, to_rejection_if_quoted
from youden.judging.call.http_client import make_connection_error
from youden.judging.call.reply import NO_COOKIES, parse_completion, read_response
from youden.types import Completion, Request

_NO_KEY = "none"


class OpenAIJudge:
    """Sends one chat completion per request.

    Parameters
    ----------
    connection : Connection
        Address, timeout and API key.
    client : AsyncOpenAI, optional
        SDK client to use instead of one for `connection`; its retries must be off.
    """

    def __init__(self, connection: Connection, *, client: AsyncOpenAI | None = None) -> None:
        self.name = connection.name
        self._client = client or _make_client(connection)

    async def answer(self, request: Request) -> Completion:
        """Send a request and return the model's reply. Raises: CallError if the call fails."""
        start_time = time.perf_counter()
        try:
            # `chat.completions.create` checks the type of every part, which takes a quarter of a call's CPU time
            reply = await self._client.post("/chat/completions", cast_to=bytes, body=make_request_body(request))
            return parse_completion(parse_reply(reply), seconds=time.perf_counter() - start_time)
        except CallError as error:
            raise to_rejection_if_quoted(error, request) from None
        except Exception as error:
            raise to_rejection_if_quoted(_to_call_error(error), request) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()


def _to_call_error(error: Exception) -> CallError:
    """Convert an error of the SDK to a CallError, which states whether the call may be repeated.

    The SDK reports a refused connection as a timeout. Therefore, the aiohttp error that caused the timeout is converted.
    """
    if isinstance(error, openai.APIStatusError):
        return make_status_error(error.status_code, error.response.content, error.response.headers)
    cause: BaseException = error
    while cause.__cause__ is not None and not isinstance(cause, aiohttp.ClientError):
        cause = cause.__cause__
    return make_connection_error(cause)


class _BoundedClient(DefaultAioHttpClient):
    """An HTTP client that limits the size of a reply and stores no cookies."""

    def __init__(self) -> None:
        super().__init__(follow_redirects=False)
        self.cookies.jar.set_policy(NO_COOKIES)

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request and read its reply."""
        response = await super().send(request, **{**options, "stream": True})
        return await read_response(response)


def _make_client(connection: Connection) -> AsyncOpenAI:
    """Make a client of OpenAI's SDK that does not retry.

    The SDK reads the organization, the project and further headers of requests from the environment. If the address is not one of
    OpenAI's servers, they are removed from the client.
    """
    headers = {} if connection.authorization is None else {"Authorization": connection.authorization}
    client = AsyncOpenAI(
        api_key=connection.api_key or _NO_KEY,
        base_url=connection.address,
        timeout=connection.timeout,
        max_retries=0,
        default_headers=headers,
        http_client=_BoundedClient(),
    )
    host = urlsplit(connection.address).hostname or ""
    is_openai_server = host == "api.openai.com" or host.endswith(".api.openai.com")
    if not is_openai_server:
        client.organization = None
        client.project = None
        client._custom_headers = headers  # drops those of OPENAI_CUSTOM_HEADERS; the SDK has no public way
    return client
