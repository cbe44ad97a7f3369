"""Protect the viewer: only a browser on this machine that has the token may read its pages."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")


_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """ASGI middleware that admits only requests from this machine that carry the token and change nothing.

    A token in the address is moved to a cookie by a redirect. `one_time_token` may replace the token in the address of
    one request, for commands whose arguments other users of the machine can read.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int, one_time_token: str | None = None) -> None:
        self._app = app
        self._token = token
        self._one_time_token = one_time_token
        self._cookie = f"youden-{port}"
        self._hosts = {f"{host}:{port}" for host in HOSTS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an admitted request on, and answer any other request with an error."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        responder = self._admit_or_refuse(scope, headers)
        await responder(scope, receive, send_with_headers)

    def _admit_or_refuse(self, scope: Scope, headers: Headers) -> ASGIApp:
        """Check a request, and return the object that answers it: the viewer, a redirect or an error.

        The viewer answers requests with a valid cookie. A request with a valid token in its query is redirected to the same
        address without the token, and gets the cookie. The one-time token is valid for a single GET request.
        """
        if headers.get("host", "") not in self._hosts:
            return PlainTextResponse("The viewer answers to 127.0.0.1 and localhost only.\n", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("The viewer only reads.\n", 405, headers={"Allow": "GET, HEAD"})

        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == "token"]
        has_one_time_token = scope["method"] == "GET" and self._redeem_one_time_token(tokens)
        if has_one_time_token or self._is_valid(tokens):
            return self._redirect(scope, query)

        # Other programs of this machine may have set cookies of any form; this parser is as tolerant as browsers are.
        cookies = cookie_parser(headers.get("cookie", ""))
        if self._is_valid([cookies.get(self._cookie, "")]):
            return self._app
        return PlainTextResponse("Open the address that `youden view` printed, which contains the token.\n", 403)

    def _redeem_one_time_token(self, tokens: Iterable[str]) -> bool:
        """Return whether one of the tokens is the one-time token, which cannot be used again after this call."""
        if self._one_time_token is None or self._one_time_token not in tokens:
            return False
        self._one_time_token = None
        return True

    def _redirect(self, scope: Scope, query: list[tuple[str, str]]) -> RedirectResponse:
        """Return a redirect to the same address without the token.

        The redirect sets the cookie that later requests need.

        query : names and values of the query parameters
        """
        remaining_query = urlencode([(name, value) for name, value in query if name != "token"])
        path = scope["raw_path"].decode("latin-1") if scope.get("raw_path") else scope["path"]
        address = "/" + path.lstrip("/")  # a path that begins with two slashes would lead to another host
        if remaining_query:
            address += f"?{remaining_query}"
        response = RedirectResponse(address, 303)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return response

    def _is_valid(self, tokens: Iterable[str]) -> bool:
        """Return whether one of the tokens is the token of this viewer; comparisons take constant time."""
        return any(secrets.compare_digest(token.encode(), self._token.encode()) for token in tokens)
