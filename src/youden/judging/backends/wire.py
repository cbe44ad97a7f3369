"""Asks a model behind the OpenAI chat format over bare aiohttp: for servers of one's own, at thousands of calls a second."""

from __future__ import annotations

import time
from collections.abc import Callable

import aiohttp

from youden.judging.call.connection import Connection, completion, request_body, status_error
from youden.judging.call.failures import CallError
from youden.judging.call.reply import MOST_BYTES, read_bounded
from youden.nouns import Completion, Request


class WireJudge:
    """One chat completion a request. The session opens with the first one. Who asks bounds the time of a call."""

    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.name = connection.name
        self._connection = connection
        self._clock = clock
        self._url = f"{connection.address}/chat/completions"
        self._session: aiohttp.ClientSession | None = None

    async def answer(self, request: Request) -> Completion:
        """The model's reply. Raises: CallError."""
        self._session = session = self._session or _session(self._connection)
        try:
            return await self._answered(session, request)
        except CallError as error:
            raise self._connection.redacted(error) from None
        except Exception as error:  # whatever a reply breaks, it is this call's failure
            raise self._connection.redacted(broken(error)) from None

    async def _answered(self, session: aiohttp.ClientSession, request: Request) -> Completion:
        began = self._clock()
        async with session.post(self._url, data=request_body(request), allow_redirects=False) as reply:
            body = await _body(reply)
        if not 200 <= reply.status < 300:
            raise status_error(reply.status, body, reply.headers)
        return completion(body, seconds=self._clock() - began)

    async def aclose(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()


async def _body(reply: aiohttp.ClientResponse) -> bytes:
    """The reply's body. One that says its size, and is not packed, has no more than it says."""
    said = reply.content_length
    if said is not None and said <= MOST_BYTES and "Content-Encoding" not in reply.headers:
        return await reply.read()
    return await read_bounded(reply.content.iter_any())


def broken(error: BaseException) -> CallError:
    """A connection that could not be made, which cost nothing, or that broke under way."""
    never_made = isinstance(error, aiohttp.ClientConnectorError)
    return CallError(f"{type(error).__name__}: {error}", kind="retry", free=never_made)


def _session(connection: Connection) -> aiohttp.ClientSession:
    headers = {"Content-Type": "application/json"}
    if connection.authorization is not None:
        headers["Authorization"] = connection.authorization
    elif connection.api_key is not None:
        headers["Authorization"] = f"Bearer {connection.api_key}"
    return aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(),
    )
