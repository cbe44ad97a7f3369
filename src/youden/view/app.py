"""Serve the viewer: pages of runs, of comparisons of two runs, and of trials.

The server listens on this machine only, requires a token (see `guard`), writes nothing, and opens only the selected
runs.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar, cast, get_args
from urllib.parse import quote

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from youden.data.folder.run_folder import RunFolder
from youden.data.folder.table_columns import TRIAL_TYPES
from youden.errors import ConfigError, YoudenError
from youden.report.data.comparison import Comparison, match_answers
from youden.report.data.evidence import Sources, read_result
from youden.report.data.opened_trials import cells_of, find_calling_judge, read_raw_answers, text_of
from youden.report.data.ranking_tables import RankedAgent, displayed_columns, format_cell, truncate
from youden.report.data.report import ReportData
from youden.report.data.summary import Summary
from youden.report.data.trial_rows import KINDS, Column, TrialBook, TrialFilter
from youden.report.pages import writing
from youden.report.pages.embed import draw_ranking_alone, select_names
from youden.report.pages.writing import (
    RunLine,
    render_comparison,
    render_live,
    render_page,
    render_preference_comparison,
    render_runs,
)
from youden.text.printable import printable
from youden.text.sentences import format_count
from youden.types import Verdicts
from youden.types.pool import Json
from youden.view.guard import Guard
from youden.view.shown import (
    LiveRun,
    LiveState,
    Runs,
    TrialsOnDisk,
    find_cells,
    get_file_times,
    get_state,
    match_names,
    suggest_names,
)

PAGE_SIZE = 10
TRIALS_IN_MEMORY = 4_000_000
"""Maximum number of trials of a run that is held in memory; a larger run is read in blocks."""
MAX_TEXT = 1_000_000
"""Maximum number of characters of a response that is shown."""
LEVEL = 0.95
"""Confidence level of the intervals of `youden.rank`."""

_CHOICES = {"answer": ("yes", "no", "missing"), "trial_type": TRIAL_TYPES, "kind": KINDS}
"""Allowed values of the filters of trials."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _OpenRun:
    """Trials of a judged run, and the sources of their texts and stored answers."""

    trials: TrialBook | TrialsOnDisk
    sources: Sources


class Viewer:
    """Answers requests about runs, with a cache that follows changes of files.

    Parameters
    ----------
    runs : Runs
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._cache: dict[tuple[str, ...], tuple[object, object]] = {}
        self._lock = Lock()

    def routes(self) -> list[Route]:
        """Routes of the pages and of the JSON that they load."""
        return [
            Route("/", self._make_endpoint(self._show_runs)),
            Route("/run/{name}", self._make_endpoint(self._show_run)),
            Route("/run/{name}/live", self._make_endpoint(self._get_live_state)),
            Route("/run/{name}/trials", self._make_endpoint(self._get_trials)),
            Route("/run/{name}/trials/{row:int}", self._make_endpoint(self._get_trial)),
            Route("/run/{name}/names", self._make_endpoint(self._get_names)),
            Route("/compare", self._make_endpoint(self._show_comparison)),
        ]

    def _make_endpoint(self, handler: Callable[[Request], Response]) -> Callable[[Request], Any]:
        """Return an asynchronous endpoint that runs a handler in a thread.

        An error of this package becomes a response with the status 409 and the message as text.
        """

        async def endpoint(request: Request) -> Response:
            try:
                return await run_in_threadpool(self._run_locked, handler, request)
            except YoudenError as error:
                return PlainTextResponse(f"{error}\n", 409)

        return endpoint

    def _run_locked(self, handler: Callable[[Request], Response], request: Request) -> Response:
        """Call a handler while no other handler runs."""
        with self._lock:  # handlers share the cache and open files
            return handler(request)

    def _show_runs(self, _request: Request) -> Response:
        """Show the page that lists all runs, each with its state and a summary or an error."""
        lines = [self._make_run_line(name, folder) for name, folder in self._runs.find_all().items()]
        return HTMLResponse(render_runs(lines))

    def _make_run_line(self, name: str, folder: RunFolder) -> RunLine:
        """Make the entry of one run for the page that lists all runs.

        If the run cannot be read, it is listed as incomplete, with the error, so that the page still shows the other runs.

        name : name of the run as displayed
        folder : folder of the run

        Returns the name, the name for use in an address, the state, the summary and an error message; the last two may be None.
        """
        path = quote(name, safe="")
        state = get_state(folder)
        if state != "fitted":
            return name, path, state, None, None
        try:
            summary = self._get_cached(("head", name), get_file_times(folder), partial(Summary, folder))
        except YoudenError as error:
            return name, path, "incomplete", None, str(error)
        return name, path, state, summary, None

    def _show_run(self, request: Request) -> Response:
        """Show the report of a run, or the page that follows an unfinished one."""
        name, folder = self._find_run(request.path_params["name"])
        if get_state(folder) in ("in progress", "unfinished"):
            return HTMLResponse(render_live(name, f"/run/{quote(name, safe='')}"))
        report = self._get_cached(("page", name), get_file_times(folder), partial(_render_report, name, folder))
        return HTMLResponse(report)

    def _get_live_state(self, request: Request) -> Response:
        """Return as JSON the progress of an unfinished run, and the ranking by its answers so far.

        The JSON is {"done": true} if the run is fitted or incomplete.
        """
        name, folder = self._find_run(request.path_params["name"])
        status = get_state(folder)
        if status not in ("in progress", "unfinished"):
            return _to_json({"done": True})

        plan_time = folder.file("plan.parquet").stat().st_mtime
        live_run = self._get_cached(("live", name), plan_time, partial(LiveRun, folder))
        progress = live_run.update()
        run_status = {"done": False, "in_progress": status == "in progress", "command": folder.format_command()}
        return _to_json(asdict(progress) | run_status | _ranking_to_json(progress))

    def _get_trials(self, request: Request) -> Response:
        """Return as JSON one page of the trials that match the filters of the query.

        The parameters of the query are `page`, from 0; `by` and `descending`, the sort column and its order; and the filters
        `agent`, `item`, `trial_type` (paired or independent), `kind` (how surprising the answer is), `answer` and `text` (words
        in the responses). Raises HTTPException 400 if one is invalid.
        """
        run = self._open_run(request)
        query = request.query_params
        page = _parse_number(query.get("page")) or 0
        _check_choices(query)
        displayed = run.trials.page(
            self._make_trial_filter(run, request),
            by=cast(Column, query.get("by", "kind")),
            descending=query.get("descending") == "true",
            start=page * PAGE_SIZE,
            stop=(page + 1) * PAGE_SIZE,
        )
        lines = [asdict(line) for line in displayed.lines]
        names = select_names(displayed.lines, run.trials.plan.agent_ids, run.trials.plan.item_ids)
        return _to_json({"total": displayed.total, "lines": lines, **names})

    def _make_trial_filter(self, run: _OpenRun, request: Request) -> TrialFilter:
        """Make the filter that selects the trials to display, from the query of a request.

        run : run with the trials and the responses
        request : request whose query may contain "agent", "item", "trial_type", "kind", "answer" and "text". A parameter that is
            missing does not restrict the trials. `_check_choices` must have checked "trial_type", "kind" and "answer".

        Raises: HTTPException 400 if a text to search for is too long.
        """
        query, plan = request.query_params, run.trials.plan

        # the search through all responses is slow, so its result is cached for all pages of the same search in the same run
        search_text = query.get("text", "")
        search_responses = partial(find_cells, plan, run.sources.pool, search_text)
        cache_key = ("words", request.path_params["name"])
        matching_cells = self._get_cached(cache_key, (run, search_text), search_responses)

        return TrialFilter(
            agents=match_names(plan.agent_ids, query.get("agent", "")),
            items=match_names(plan.item_ids, query.get("item", "")),
            trial_type=query.get("trial_type"),
            kind=query.get("kind"),
            answer=cast(Any, query.get("answer")),
            words=search_text,
            cells=matching_cells,
        )

    def _get_names(self, request: Request) -> Response:
        """Return suggestions for the name of an agent or an item that contains the text `like`, as JSON."""
        plan, query = self._open_run(request).trials.plan, request.query_params
        if query.get("kind") not in ("agent", "item"):
            raise HTTPException(400, "kind is one of: agent, item.")
        names = plan.agent_ids if query["kind"] == "agent" else plan.item_ids
        return _to_json(suggest_names(names, query.get("like", "")))

    def _get_trial(self, request: Request) -> Response:
        """Return one trial as JSON: its row, its two responses, the raw answer of the judge, and the prompt.

        Raises HTTPException 404 if the run has no such row.
        """
        run = self._open_run(request)
        row = request.path_params["row"]
        if not 0 <= row < len(run.trials):
            raise HTTPException(404, "There is no such trial.")

        trial = run.trials.get_line(row)
        texts = [text_of(run.sources.pool, cell) for cell in cells_of(trial)]
        first, second = [None if text is None else truncate(text, MAX_TEXT) for text in texts]
        (raw_answer,) = read_raw_answers(run.trials.read_request_hashes([row]), run.sources.store)
        return _to_json(
            {
                "line": asdict(trial),
                **select_names([trial], run.trials.plan.agent_ids, run.trials.plan.item_ids),
                "first": first,
                "second": second,
                "raw": raw_answer,
                "prompt": run.sources.prompt,
            }
        )

    def _show_comparison(self, request: Request) -> Response:
        """Show the comparison of two runs. The query parameters `one` and `two` are their names."""
        query = request.query_params
        name_a, folder_a = self._find_run(query.get("one", ""))
        name_b, folder_b = self._find_run(query.get("two", ""))
        file_times = get_file_times(folder_a), get_file_times(folder_b)
        if folder_a.asks_preference or folder_b.asks_preference:
            render = partial(render_preference_comparison, folder_a, folder_b, home="/")
            return HTMLResponse(self._get_cached(("pair", name_a, name_b), file_times, render))

        comparison: Comparison = self._get_cached(
            ("pair", name_a, name_b), file_times, partial(Comparison, folder_a, folder_b)
        )

        # address from which the page loads the trials of the first run with the answers of both runs
        trials_address = None
        if comparison.trials:
            trials_address = f"/run/{quote(name_a, safe='')}/trials?against={quote(name_b, safe='')}"
        return HTMLResponse(render_comparison(comparison, live=trials_address, home="/"))

    def _open_run(self, request: Request) -> _OpenRun:
        """Open the trials of the run whose name is in the path of a request, such as /run/NAME/trials.

        The query parameter `against` may be the name of a second run. If it is set, each trial also gets the answer of the second
        run to the same trial.
        """
        name, folder = self._find_run(request.path_params["name"])
        file_times = get_file_times(folder)
        run = self._get_cached(("trials", name), file_times, partial(_read_run, folder))
        if "against" not in request.query_params:
            return run

        second_name, second_folder = self._find_run(request.query_params["against"])
        file_times_of_both = file_times, get_file_times(second_folder)
        add_second_answers = partial(_add_answers_of_second_run, run, folder, second_folder)
        return self._get_cached(("against", name, second_name), file_times_of_both, add_second_answers)

    def _find_run(self, name: str) -> tuple[str, RunFolder]:
        """Return the name and the folder of a run; raise HTTPException 404 if there is no such run."""
        runs = self._runs.find_all()
        if name not in runs:
            raise HTTPException(404, "There is no such run.")
        return name, runs[name]

    def _get_cached(self, key: tuple[str, ...], state: object, make: Callable[[], T]) -> T:
        """Return the cached object of a key.

        `make` makes it on the first call, and whenever `state` differs from the last call.
        """
        if key not in self._cache or self._cache[key][0] != state:
            self._cache[key] = (state, make())
        return cast(T, self._cache[key][1])


def make_app(runs: Runs, *, token: str, port: int, one_time_token: str | None = None) -> Guard:
    """Make the viewer as an ASGI application; `one_time_token` replaces `token` in the address of one request."""
    return Guard(Starlette(routes=Viewer(runs).routes()), token=token, port=port, one_time_token=one_time_token)


def _render_report(name: str, folder: RunFolder) -> str:
    """Render the report of a run as HTML; its trials, if it has any, are loaded from this server."""
    if folder.asks_preference:
        return writing.render_preferences(Summary(folder), home="/")
    data = ReportData(folder)
    live = f"/run/{quote(name, safe='')}/trials" if data.trials else None
    return render_page(data, live=live, home="/")


def _read_run(folder: RunFolder) -> _OpenRun:
    """Open the trials of a run: in memory, or on disk if there are more than `TRIALS_IN_MEMORY`."""
    if folder.has("plan.parquet") and len(folder.open_judged_files().verdicts) > TRIALS_IN_MEMORY:
        trials = TrialsOnDisk(folder)
        return _OpenRun(trials, Sources(folder, trials.judge))
    verdicts = _read_verdicts(folder)
    return _OpenRun(TrialBook(verdicts), Sources(folder, find_calling_judge(verdicts)))


def _add_answers_of_second_run(run: _OpenRun, folder: RunFolder, second_folder: RunFolder) -> _OpenRun:
    """Return a run whose trials also have the answers of a second run to the same trials."""
    verdicts = _read_verdicts(folder)
    second_answers = match_answers(verdicts, _read_verdicts(second_folder))
    return replace(run, trials=TrialBook(verdicts, second_answers))


def _read_verdicts(folder: RunFolder) -> Verdicts:
    """Read the trials of a run with their answers; raise HTTPException 404 if the run was imported without trials."""
    verdicts = read_result(folder)
    if verdicts is None:
        raise HTTPException(404, "This run was imported: it has no trials.")
    return verdicts


def _check_choices(query: QueryParams) -> None:
    """Check the sort column and the filters with fixed values of a query; raise HTTPException 400 if one is invalid."""
    sort_column = query.get("by", "kind")
    if sort_column not in get_args(Column):
        raise HTTPException(400, f"There is no column {sort_column!r}.")
    for name, choices in _CHOICES.items():
        if query.get(name, choices[0]) not in choices:
            raise HTTPException(400, f"{name} is one of: {', '.join(choices)}.")


def _ranking_to_json(state: LiveState) -> dict[str, object]:
    """Convert the ranking of an unfinished run to JSON, for the page that shows the progress of the run.

    state : state of the run, with the ranking by the answers so far. The ranking is empty if there are too few answers.

    Returns three keys: "ranking" has one object per agent, "headings" has the headings of the additional columns, and "figures"
    has the drawings of the ranking.
    """
    columns = displayed_columns(state.ranking)
    rows = []
    for agent in state.ranking:
        cells: list[Json] = [printable(format_cell(agent, column)) for column in columns]
        rows.append(_agent_to_json(agent, cells))

    source = f"the store, {format_count(state.n_answered, 'answer')} so far"
    return {
        "ranking": rows,
        "headings": [column.heading.capitalize() for column in columns],
        "figures": draw_ranking_alone(state.ranking, source=source, level=LEVEL),
    }


def _agent_to_json(agent: RankedAgent, cells: list[Json]) -> dict[str, Json]:
    """Return a row of the ranking as JSON; `cells` are its texts as displayed."""
    return {
        "agent": printable(agent.agent),
        "group": None if agent.group is None else printable(agent.group),
        "ranks": agent.ranks,
        "ability": agent.ability,
        "low": agent.low,
        "high": agent.high,
        "extra_columns": cells,
    }


def _parse_number(text: str | None) -> int | None:
    """Parse a whole number of at most 9 digits, None for None; raise HTTPException 400 for any other text."""
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise HTTPException(400, "A number was expected.")
    return int(text)


def _to_json(value: object) -> Response:
    """Return a response with a value as JSON; NumPy arrays become lists."""
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Serving:
    """A viewer whose port is open, and that answers once `run` is called.

    Attributes
    ----------
    url, url_once : str
        Address with the token, and address with a token that is valid for one request.
    server : uvicorn.Server
    listener : socket
    """

    url: str
    url_once: str
    server: uvicorn.Server
    listener: socket.socket

    def run(self) -> None:
        """Answer requests until the process is interrupted."""
        self.server.run(sockets=[self.listener])


def open_server(runs: Runs, *, port: int, token: str) -> Serving:
    """Open a port on this machine for the viewer, without answering requests yet.

    The method `run` of the result answers the requests. A browser that connects earlier has to wait.

    Parameters
    ----------
    runs : Runs
        Runs to show.
    port : int
        TCP port on 127.0.0.1, from 0 to 65535; 0 selects a free port.
    token : str
        Secret that each request must carry, so that other users of the machine cannot read the runs. The caller chooses it.

    Returns
    -------
    Serving
        The server with its open port. Its `url` contains the open port and the token. Its `url_once` contains another token,
        which is valid for only one request.

    Raises
    ------
    ConfigError
        [view-port]: if the port cannot be used, for example because another process uses it or it is above 65535.
    """
    listener = _open_listener(port)
    open_port = listener.getsockname()[1]  # the number of the selected port if `port` is 0
    one_time_token = secrets.token_urlsafe(24)
    app = make_app(runs, token=token, port=open_port, one_time_token=one_time_token)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    address = f"http://{ADDRESS}:{open_port}/?token="
    return Serving(address + token, address + one_time_token, uvicorn.Server(config), listener)


def _open_listener(port: int) -> socket.socket:
    """Open a TCP port on 127.0.0.1 that accepts connections.

    port : number of the port; 0 selects a free port

    Returns the listening socket.
    Raises: ConfigError [view-port] if the port cannot be used, for example because another process uses it.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise ConfigError(
            f"Port {port} cannot be used ({error}). Set another --port, or remove the option.",
            slug="view-port",
        ) from None
    listener.listen()
    return listener
