"""Asks a model behind the OpenAI chat format over bare aiohttp: for servers of one's own, at thousands of calls a second."""

from __future__ import annotations

import time
from collections.abc import Mapping

import aiohttp
import orjson

from youden.judging.call.connection import Connection, parsed, request_body, status_error
from youden.judging.call.failures import PROXY_REFUSED, CallError, fate, unless_echoed
from youden.judging.call.proxies import environment_proxy
from youden.judging.call.reply import MOST_BYTES, checked, read_bounded
from youden.types import Completion, Request


class WireJudge:
    """One chat completion a request. The session opens with the first one. Who asks bounds the time of a call.

    A provider with a format of its own says what differs: `path`, `headers`, `asked`, `read`.
    """

    path = "chat/completions"

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self._connection = connection
        self._url = f"{connection.address}/{self.path}"
        self._session: aiohttp.ClientSession | None = None

    async def answer(self, request: Request) -> Completion:
        """The model's reply. Raises: CallError."""
        self._session = session = self._session or open_session(self._url, self.headers(self._connection))
        try:
            return await self._answered(session, request)
        except CallError as error:
            raise unless_echoed(error, request) from None
        except Exception as error:  # whatever a reply breaks, it is this call's failure
            raise broken(error) from None

    async def _answered(self, session: aiohttp.ClientSession, request: Request) -> Completion:
        began = time.perf_counter()
        async with session.post(self._url, data=self.asked(request), allow_redirects=False) as reply:
            body = await body_of(reply)
        if not 200 <= reply.status < 300:
            raise status_error(reply.status, body, reply.headers)
        return self.read(body, seconds=time.perf_counter() - began)

    @staticmethod
    def headers(connection: Connection) -> dict[str, str]:
        """What goes with every request."""
        headers = {"Content-Type": "application/json"}
        if connection.authorization is not None:
            headers["Authorization"] = connection.authorization
        elif connection.api_key is not None:
            headers["Authorization"] = f"Bearer {connection.api_key}"
        return headers

    def asked(self, request: Request) -> bytes:
        """The body that asks `request`."""
        return orjson.dumps(request_body(request))

    def read(self, body: bytes, *, seconds: float) -> Completion:
        """The completion that a reply's body holds. Raises: CallError."""
        return checked(parsed(body), seconds=seconds)

    async def aclose(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()


async def body_of(reply: aiohttp.ClientResponse, *, most: int = MOST_BYTES) -> bytes:
    """The reply's body. One that says its size, and is not packed, has no more than it says."""
    said = reply.content_length
    if said is not None and said <= most and "Content-Encoding" not in reply.headers:
        return await reply.read()
    return await read_bounded(reply.content.iter_any(), most=most)


def broken(error: BaseException) -> CallError:
    """A connection that could not be made, which cost nothing, or that broke under way or took too long."""
    if isinstance(error, TimeoutError):
        return CallError("No reply within the timeout.", kind="retry")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        reason = f"The proxy answered with HTTP {error.status} ({error.message})."
        return CallError(reason, kind=fate(error.status, None), status=PROXY_REFUSED, free=True)
    never_made = isinstance(error, aiohttp.ClientConnectorError)
    return CallError(f"{type(error).__name__}: {error}", kind="retry", free=never_made)


def open_session(address: str, headers: Mapping[str, str]) -> aiohttp.ClientSession:
    """Open a session for the host of `address`, through the environment's proxy, without cookies or limits on calls."""
    return aiohttp.ClientSession(
        proxy=environment_proxy(address),
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(),
    )
