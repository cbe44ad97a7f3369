"""Send HTTP requests: the client for all that this package sends itself (judge calls and Batch APIs).

All connections are opened here, so that they share one rule for proxies, certificates, cookies, redirects and reply
size. OpenAI's SDK and litellm use their own HTTP clients.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp

from youden.judging.call.connection import make_status_error
from youden.judging.call.failures import PROXY_AUTHENTICATION_REQUIRED, CallError, classify_status
from youden.judging.call.proxies import find_proxy
from youden.judging.call.reply import MAX_REPLY_BYTES, read_bounded

_NO_TIMEOUT = aiohttp.ClientTimeout()


class HttpClient:
    """Send requests to one server; the session opens with the first request.

    Parameters
    ----------
    address : str
        Base URL of the server, which decides the proxy.
    headers : mapping
        Headers of every request.
    """

    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        self._address = address
        self._headers = headers
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self,
        method: str,
        path: str,
        data: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        max_seconds: float | None = None,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> bytes:
        """Send one request and return the body of its reply.

        Parameters
        ----------
        method, path : str
            HTTP method, and the path that is appended to the address after a slash.
        data : bytes, file object or aiohttp payload, optional
            Body of the request. Default: no body.
        headers : mapping, optional
            Headers of this request alone, in addition to those of the client.
        max_seconds : float, optional
            Seconds that the request may take. Default: no limit, for callers that limit the time themselves.
        max_bytes : int, default 16,000,000
            Largest size of the unpacked body in bytes.

        Returns
        -------
        bytes
            Body of the reply, unpacked if it was compressed.

        Raises
        ------
        CallError
            If the connection fails, the time or size limit is exceeded, or the status is not 2xx; redirects are not followed.
        """
        if self._session is None:
            self._session = _open_session(self._address, self._headers)
        url = f"{self._address}/{path}"
        limit = _NO_TIMEOUT if max_seconds is None else aiohttp.ClientTimeout(total=max_seconds)
        try:
            async with self._session.request(
                method, url, data=data, headers=headers, timeout=limit, allow_redirects=False
            ) as reply:
                body = await _read_body(reply, max_bytes=max_bytes)
        except CallError:
            raise
        except Exception as error:
            raise make_connection_error(error) from None
        if not 200 <= reply.status < 300:
            raise make_status_error(reply.status, body, reply.headers)
        return body

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


async def _read_body(reply: aiohttp.ClientResponse, *, max_bytes: int) -> bytes:
    """Read a body. If a body is not compressed and states its length, aiohttp itself reads no more than that."""
    length = reply.content_length
    if length is not None and length <= max_bytes and "Content-Encoding" not in reply.headers:
        return await reply.read()
    return await read_bounded(reply.content.iter_any(), max_bytes=max_bytes)


def make_connection_error(error: BaseException) -> CallError:
    """Build the error for a connection that could not be made, was lost or timed out.

    Parameters
    ----------
    error : BaseException
        Exception of aiohttp or of another HTTP client.

    Returns
    -------
    CallError
        Its kind is `transient`. If a proxy refused the connection, the proxy's HTTP status determines the kind
        (`classify_status`). The error is `unbilled` if the request was certainly not sent.
    """
    if isinstance(error, TimeoutError):
        return CallError("No reply within the timeout.", kind="transient")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        reason = f"The proxy answered with HTTP {error.status} ({error.message})."
        kind = classify_status(error.status)
        # the status of the error is always 407, because messages to the user explain this status by the proxy
        return CallError(reason, kind=kind, status=PROXY_AUTHENTICATION_REQUIRED, unbilled=True)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        reason = f"The proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be reached ({error})."
        return CallError(reason, kind="transient", unbilled=True)
    was_never_sent = isinstance(error, aiohttp.ClientConnectorError)
    return CallError(f"{type(error).__name__}: {error}", kind="transient", unbilled=was_never_sent)


def _open_session(address: str, headers: Mapping[str, str]) -> aiohttp.ClientSession:
    certificates = _load_trusted_certificates() if address.startswith("https:") else True
    return aiohttp.ClientSession(
        proxy=find_proxy(address),
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0, ssl=certificates),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=_NO_TIMEOUT,
    )


def _load_trusted_certificates() -> ssl.SSLContext:
    """Trust the system's certificates and those of certifi, or only those in SSL_CERT_FILE or SSL_CERT_DIR."""
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        import certifi

        context.load_verify_locations(certifi.where())
    return context
