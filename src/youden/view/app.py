"""The viewer: all runs, one run fitted or under way, two runs side by side, trials page by page.

It listens on this machine alone, answers who has the token, writes nothing, and opens only the runs it was given.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar, cast, get_args
from urllib.parse import parse_qsl, quote, urlencode

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, YoudenError
from youden.report.data.comparison import Comparison, other_answers
from youden.report.data.evidence import Sources, read_result
from youden.report.data.opened_trials import cells_of, judge_of_calls, raw_answers, text_of
from youden.report.data.ranking_tables import RankedAgent, clipped, shown, shown_columns
from youden.report.data.report import ReportData
from youden.report.data.summary import Summary
from youden.report.data.trial_rows import KINDS, Column, TrialBook, TrialFilter
from youden.report.pages.embed import live_figures, names_in
from youden.report.pages.writing import RunLine, render_comparison, render_live, render_page, render_runs
from youden.text.printable import printable
from youden.types import Verdicts
from youden.types.pool import Json
from youden.view.shown import LiveRun, Runs, TrialParts, cells_with, named, names_like, stamp, state_of

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
    """Lets pass what reads, names this machine as its host and carries the token: in its address, or as the cookie set then.

    once: stands for the token in one address, the first that has it: for words that other users of the machine can read.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int, once: str | None = None) -> None:
        self._app = app
        self._token = token
        self._once = once
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
        offered = [value for name, value in query if name == "token"]
        if scope["method"] == "GET" and self._once is not None and self._once in offered:
            offered, self._once = [self._token], None
        if self._fits(offered):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            path = scope["raw_path"].decode("latin-1") if scope.get("raw_path") else scope["path"]
            # A path that begins with two slashes would lead to another host.
            answer = RedirectResponse("/" + path.lstrip("/") + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return answer
        # as browsers do: what other programs of this machine set stands beside it, in whatever form
        cookies = cookie_parser(headers.get("cookie", ""))
        if self._fits([cookies.get(self._cookie, "")]):
            return self._app
        return PlainTextResponse("Open the address that `youden view` printed: it carries the token.\n", 403)

    def _fits(self, offered: Iterable[str]) -> bool:
        return any(secrets.compare_digest(one.encode(), self._token.encode()) for one in offered)


PAGE_SIZE = 10
TRIALS_IN_MEMORY = 4_000_000
"""Maximum number of trials of a run that is held in memory; of a larger one, blocks are read."""
MAX_TEXT = 1_000_000
LEVEL = 0.95
"""Of the intervals that `youden.rank` draws."""

_CHOICES = {"answer": ("yes", "no", "missing"), "arm": ("paired", "independent"), "kind": KINDS}
"""What a filter of trials may be."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _Opened:
    """A judged run whose trials can be looked at."""

    book: TrialBook | TrialParts
    sources: Sources


class Viewer:
    """Answers requests about `runs`; what was read is kept until the run's files change."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._kept: dict[tuple[str, ...], tuple[object, object]] = {}
        self._lock = Lock()

    def routes(self) -> list[Route]:
        return [
            Route("/", self._page(self._all)),
            Route("/run/{name}", self._page(self._run)),
            Route("/run/{name}/live", self._page(self._live)),
            Route("/run/{name}/trials", self._page(self._trials)),
            Route("/run/{name}/trials/{row:int}", self._page(self._trial)),
            Route("/run/{name}/names", self._page(self._names)),
            Route("/compare", self._page(self._compare)),
        ]

    def _page(self, answer: Callable[[Request], Response]) -> Callable[[Request], Any]:
        async def page(request: Request) -> Response:
            try:
                return await run_in_threadpool(self._one_at_a_time, answer, request)
            except YoudenError as error:
                return PlainTextResponse(f"{error}\n", 409)

        return page

    def _one_at_a_time(self, answer: Callable[[Request], Response], request: Request) -> Response:
        with self._lock:
            return answer(request)

    def _all(self, _request: Request) -> Response:
        lines: list[RunLine] = []
        for name, folder in self._runs.all().items():
            state = state_of(folder)
            try:
                said = (
                    self._keep(("head", name), stamp(folder), partial(Summary, folder)) if state == "fitted" else None
                )
                lines.append((name, quote(name, safe=""), state, said, None))
            except YoudenError as error:
                lines.append((name, quote(name, safe=""), "unfinished", None, str(error)))
        return HTMLResponse(render_runs(lines))

    def _run(self, request: Request) -> Response:
        name, folder = self._named(request.path_params["name"])
        if state_of(folder) == "under way":
            return HTMLResponse(render_live(name, f"/run/{quote(name, safe='')}"))
        return HTMLResponse(self._keep(("page", name), stamp(folder), partial(_drawn, name, folder)))

    def _live(self, request: Request) -> Response:
        name, folder = self._named(request.path_params["name"])
        if state_of(folder) != "under way":
            return _json({"done": True})
        live = self._keep(("live", name), folder.file("plan.parquet").stat().st_mtime, partial(LiveRun, folder))
        state = live.look()
        columns = shown_columns(state.ranking)
        said = asdict(state) | {
            "ranking": [
                _shown(agent, [printable(shown(agent, column)) for column in columns]) for agent in state.ranking
            ],
            "headings": [column.heading.capitalize() for column in columns],
        }
        figures = live_figures(state.ranking, n_answered=state.n_answered, level=LEVEL)
        return _json(said | {"done": False, "figures": figures})

    def _trials(self, request: Request) -> Response:
        opened = self._opened(request)
        asked = request.query_params
        by, page = asked.get("by", "kind"), _number(asked.get("page")) or 0
        if by not in get_args(Column):
            raise HTTPException(400, f"There is no column {by!r}.")
        for name, allowed in _CHOICES.items():
            if asked.get(name, allowed[0]) not in allowed:
                raise HTTPException(400, f"{name} is one of: {', '.join(allowed)}.")
        plan, words = opened.book.plan, asked.get("text", "")
        chosen = TrialFilter(
            agents=named(plan.agent_ids, asked.get("agent", "")),
            items=named(plan.item_ids, asked.get("item", "")),
            arm=asked.get("arm"),
            kind=asked.get("kind"),
            answer=cast(Any, asked.get("answer")),
            words=words,
            cells=self._keep(
                ("words", request.path_params["name"]),
                (opened, words),
                partial(cells_with, plan, opened.sources.pool, words),
            ),
        )
        found = opened.book.page(
            chosen,
            by=cast(Column, by),
            descending=asked.get("descending") == "true",
            start=page * PAGE_SIZE,
            stop=(page + 1) * PAGE_SIZE,
        )
        lines = [asdict(line) for line in found.lines]
        return _json({"total": found.total, "lines": lines, **names_in(found.lines, plan.agent_ids, plan.item_ids)})

    def _names(self, request: Request) -> Response:
        plan, asked = self._opened(request).book.plan, request.query_params
        if asked.get("of") not in ("agent", "item"):
            raise HTTPException(400, "of is one of: agent, item.")
        names = plan.agent_ids if asked["of"] == "agent" else plan.item_ids
        return _json(names_like(names, asked.get("like", "")))

    def _trial(self, request: Request) -> Response:
        opened = self._opened(request)
        book, row = opened.book, request.path_params["row"]
        if not 0 <= row < len(book):
            raise HTTPException(404, "There is no such trial.")
        pool, line = opened.sources.pool, book.line(row)
        texts = [text_of(pool, cell) for cell in cells_of(line)]
        first, second = (None if text is None else clipped(text, MAX_TEXT) for text in texts)
        (raw,) = raw_answers(book.keys([row]), opened.sources.store)
        return _json(
            {
                "line": asdict(line),
                **names_in([line], book.plan.agent_ids, book.plan.item_ids),
                "first": first,
                "second": second,
                "raw": raw,
                "prompt": opened.sources.prompt,
            }
        )

    def _compare(self, request: Request) -> Response:
        asked = request.query_params
        one, folder_one = self._named(asked.get("one", ""))
        two, folder_two = self._named(asked.get("two", ""))
        stamps = stamp(folder_one), stamp(folder_two)
        data: Comparison = self._keep(("pair", one, two), stamps, partial(Comparison, folder_one, folder_two))
        live = f"/run/{quote(one, safe='')}/trials?against={quote(two, safe='')}" if data.trials else None
        return HTMLResponse(render_comparison(data, live=live, home="/"))

    def _opened(self, request: Request) -> _Opened:
        name, folder = self._named(request.path_params["name"])
        opened = self._keep(("trials", name), stamp(folder), partial(_open, folder))
        if "against" not in request.query_params:
            return opened
        other, other_folder = self._named(request.query_params["against"])
        stamps = stamp(folder), stamp(other_folder)
        return self._keep(("against", name, other), stamps, partial(_against, opened, folder, other_folder))

    def _named(self, name: str) -> tuple[str, RunFolder]:
        runs = self._runs.all()
        if name not in runs:
            raise HTTPException(404, "There is no such run.")
        return name, runs[name]

    def _keep(self, key: tuple[str, ...], state: object, make: Callable[[], T]) -> T:
        """What `make` made for this key in this state of its files."""
        if key not in self._kept or self._kept[key][0] != state:
            self._kept[key] = (state, make())
        return cast(T, self._kept[key][1])


def make_app(runs: Runs, *, token: str, port: int, once: str | None = None) -> Guard:
    """The viewer as an ASGI application that listens on `port`."""
    return Guard(Starlette(routes=Viewer(runs).routes()), token=token, port=port, once=once)


def _drawn(name: str, folder: RunFolder) -> str:
    data = ReportData(folder)
    return render_page(data, live=f"/run/{quote(name, safe='')}/trials" if data.trials else None, home="/")


def _open(folder: RunFolder) -> _Opened:
    if folder.has("plan.parquet") and len(folder.judged_files().verdicts) > TRIALS_IN_MEMORY:
        parts = TrialParts(folder)
        return _Opened(parts, Sources(folder, parts.judge))
    result = _answers(folder)
    return _Opened(TrialBook(result), Sources(folder, judge_of_calls(result)))


def _against(opened: _Opened, mine: RunFolder, theirs: RunFolder) -> _Opened:
    result = _answers(mine)
    return replace(opened, book=TrialBook(result, other_answers(result, _answers(theirs))))


def _answers(folder: RunFolder) -> Verdicts:
    result = read_result(folder)
    if result is None:
        raise HTTPException(404, "This run was imported: it has no trials.")
    return result


def _shown(agent: RankedAgent, beside: list[Json]) -> dict[str, Json]:
    return {
        "agent": printable(agent.agent),
        "group": None if agent.group is None else printable(agent.group),
        "places": agent.places,
        "ability": agent.ability,
        "low": agent.low,
        "high": agent.high,
        "shown": beside,
    }


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise HTTPException(400, "A number was expected.")
    return int(text)


def _json(value: object) -> Response:
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Serving:
    """A viewer that is about to answer. url: with the token. url_once: good for one request, in its stead."""

    url: str
    url_once: str
    server: uvicorn.Server
    listener: socket.socket

    def run(self) -> None:
        """Answer until interrupted."""
        self.server.run(sockets=[self.listener])


def prepare(runs: Runs, *, port: int, token: str) -> Serving:
    """A viewer on 127.0.0.1. port: 0 takes a free one.

    Raises: ConfigError [view-port] where the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Port {port} cannot be used ({error.strerror}). Give another --port, or leave it out.", slug="view-port"
        ) from None
    listener.listen()  # a browser that is quicker than the server waits
    port = listener.getsockname()[1]
    once = secrets.token_urlsafe(24)
    app = make_app(runs, token=token, port=port, once=once)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    address = f"http://{ADDRESS}:{port}/?token="
    return Serving(address + token, address + once, uvicorn.Server(config), listener)
