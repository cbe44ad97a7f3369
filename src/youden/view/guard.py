"""Who may ask the viewer: this machine, with the token, reading."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from http.cookies import SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
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
    """Lets pass what reads, names this machine as its host and carries the token: in its address, or as the cookie set then."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._cookie = f"youden-{port}"
        self._hosts = {f"{host}:{port}" for host in HOSTS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._answer(scope, headers)(scope, receive, guarded)

    def _answer(self, scope: Scope, headers: Headers) -> ASGIApp:
        if headers.get("host", "") not in self._hosts:
            return PlainTextResponse("The viewer answers to 127.0.0.1 and localhost only.\n", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("The viewer only reads.\n", 405, headers={"Allow": "GET, HEAD"})
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if self._fits(value for name, value in query if name == "token"):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            path = scope["raw_path"].decode("latin-1") if scope.get("raw_path") else scope["path"]
            # A path that begins with two slashes would lead to another host.
            answer = RedirectResponse("/" + path.lstrip("/") + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return answer
        cookies = SimpleCookie(headers.get("cookie", ""))
        if self._cookie in cookies and self._fits([cookies[self._cookie].value]):
            return self._app
        return PlainTextResponse("Open the address that `youden view` printed: it carries the token.\n", 403)

    def _fits(self, offered: Iterable[str]) -> bool:
        return any(secrets.compare_digest(one.encode(), self._token.encode()) for one in offered)
