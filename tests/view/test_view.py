"""Test the viewer over HTTP, and a run that it follows while it is judged."""

from __future__ import annotations

import asyncio
import html
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

from commands import Youden, wire_judge, write_config
from report_runs import judged
from small_pools import make_pool
from youden.data.folder.run_config import load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import ConfigError, RunFolderError
from youden.judging.call.failures import Failure
from youden.judging.store.answers import open_store
from youden.judging.store.contract import Member
from youden.judging.store.leases import LEASE_SECONDS, new_holder_name
from youden.judging.store.statements import SqlBackend
from youden.judging.store.worker_group import coordinate_run
from youden.pipeline.judged_run import PlannedRun, get_run_name, plan_run
from youden.report.data.trial_rows import KINDS
from youden.runs.run_object import Run
from youden.types import Completion
from youden.view.app import Serving, make_app, open_server
from youden.view.shown import LiveRun, Runs, find_runs, get_state
from youden.workflows.labels import open_labels, validate

TOKEN = secrets.token_urlsafe(8)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    judged(root / "one", missing=lambda plan: np.arange(len(plan)) % 10 == 3)
    judged(root / "two", answers=lambda plan: np.linspace(0, 1, len(plan)))
    (root / "half").mkdir()
    pool = RunFolder(root / "one").file("pool.json").read_bytes()
    (root / "half" / "pool.json").write_bytes(pool)
    (root.parent / "secret.txt").write_text("secret", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def serving(root: Path) -> Iterator[Serving]:
    serving = open_server(Runs(root), port=0, token=TOKEN)
    thread = threading.Thread(target=serving.run)
    thread.start()
    while not serving.server.started:
        time.sleep(0.01)
    yield serving
    serving.server.should_exit = True
    thread.join()


@pytest.fixture
def base(serving: Serving) -> str:
    return serving.url.split("/?")[0]


@pytest.fixture
def client(base: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=base, trust_env=False, follow_redirects=True, timeout=300) as client:
        assert client.get("/", params={"token": TOKEN}).status_code == 200
        yield client


def test_the_viewer_listens_on_this_machine_only(serving: Serving) -> None:
    assert serving.listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token=%00"])
def test_without_the_token_requests_are_refused(base: str, query: str) -> None:
    for path in ("/", "/run/one", "/run/one/trials", "/nowhere"):
        answer = httpx.get(base + path + query, trust_env=False, timeout=300)
        assert answer.status_code == 403
        assert "one" not in answer.text


def test_the_browser_address_is_valid_once_and_contains_no_token(root: Path) -> None:
    code_in_link = "seen by others"
    app, once = make_app(Runs(root), token=TOKEN, port=8000, one_time_token=code_in_link), {"token": code_in_link}

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            first = [(await client.head("/nowhere", params={"token": "wrong"})).status_code]
            first += [(await client.get("/", params=once)).status_code, (await client.get("/")).status_code]
            client.cookies.clear()
            return [*first, (await client.get("/", params=once)).status_code]

    assert asyncio.run(ask()) == [403, 303, 200, 403]


def test_a_browser_is_opened_without_the_token_on_a_command_line(
    root: Path, monkeypatch: pytest.MonkeyPatch, youden: Youden
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    monkeypatch.setattr(Serving, "run", lambda serving: serving.listener.close())
    printed = youden("view", str(root / "one"), "--open").out.strip()
    ((there, word), (here, token)) = (url.split("?token=") for url in (*opened, printed))
    assert there == here
    assert word != token


@pytest.mark.parametrize("beside", ["a/b=1", "a@b=1", 'x={"a":"b"}', "=;;", 'q="open', "youden-1=x"])
def test_cookies_of_other_programs_do_not_prevent_login(base: str, beside: str) -> None:
    for cookies, status in ((f"{beside}; youden-{base.rpartition(':')[2]}={TOKEN}; {beside}", 200), (beside, 403)):
        assert httpx.get(f"{base}/", headers={"Cookie": cookies}, trust_env=False, timeout=300).status_code == status


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1.evil.example", ""])
def test_other_hosts_are_refused_even_with_the_token(base: str, client: httpx.Client, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code in (400, 421)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_writes_are_refused(client: httpx.Client, method: str) -> None:
    assert client.request(method, "/run/one").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/run/..%2Fsecret.txt",
        "/run/%2e%2e/%2e%2e/secret.txt",
        "/run/one%2F..%2F..%2Fsecret.txt",
        "/run/%2Fetc%2Fpasswd",
        "/../secret.txt",
        "/run/one/trials?against=..%2Fone",
        "/compare?one=..&two=one",
    ],
)
def test_no_path_leads_out_of_the_runs_folder(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "secret" not in answer.text


def test_the_token_is_removed_from_the_address_and_never_redirects_to_another_host(base: str) -> None:
    for path in ("/run/one", "//evil.example/x"):
        answer = httpx.get(f"{base}{path}?token={TOKEN}&a=b", trust_env=False, timeout=300)
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/{path.lstrip('/')}?a=b"
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie


def test_the_list_shows_every_run_and_its_state(client: httpx.Client) -> None:
    page = client.get("/").text
    for expected in ('href="/run/one"', 'href="/run/two"', "half", "incomplete", 'action="/compare"'):
        assert expected in page


def test_a_report_is_the_same_page_with_trials_loaded_on_demand(client: httpx.Client) -> None:
    page = client.get("/run/one").text
    assert 'data-live="/run/one/trials"' in page
    assert "connect-src 'self'" in html.unescape(page)
    assert "Who is best, and how sure are we?" in page


def test_a_report_is_rendered_once_and_again_if_files_of_the_run_changed(tmp_path: Path) -> None:
    folder = judged(tmp_path / "runs" / "kept")
    app = make_app(Runs(tmp_path / "runs"), token=TOKEN, port=8000)

    async def page() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            client.cookies.update((await client.get("/", params={"token": TOKEN})).cookies)
            return await client.get("/run/kept")

    first = asyncio.run(page())
    assert first.status_code == 200
    items = folder.file("items.csv").read_bytes()
    folder.file("items.csv").unlink()
    assert asyncio.run(page()).text == first.text, "nothing was read again"
    folder.file("items.csv").write_bytes(items)
    agents = folder.read_pool().agents
    labels = tmp_path / "labels.csv"
    labels.write_text("agent,score\n" + "".join(f"{agent.id},{n}\n" for n, agent in enumerate(agents)))
    validate(folder, open_labels(labels, agents))
    with_labels = asyncio.run(page()).text
    assert with_labels != first.text
    rows = [(agent.id, item.id, n % 2) for n, agent in enumerate(agents) for item in folder.read_judged_pool().items]
    Run(folder.path).quality(pd.DataFrame(rows, columns=["agent", "item", "label"]))
    assert asyncio.run(page()).text != with_labels


@pytest.mark.slow
def test_all_trials_are_available_page_by_page(client: httpx.Client) -> None:
    first = client.get("/run/one/trials").json()
    assert first["total"] == 320
    kinds = [KINDS.index(line["kind"]) for line in first["lines"]]
    assert kinds == sorted(kinds)
    observed = [
        line["row"]
        for page in range(32)
        for line in client.get("/run/one/trials", params={"page": page, "by": "row"}).json()["lines"]
    ]
    assert observed == list(range(320))
    missing = client.get("/run/one/trials", params={"answer": "missing"}).json()
    assert missing["total"] == 32
    data = client.get("/run/one/trials/0").json()
    assert data["first"].startswith("agent ")
    assert data["raw"] is None


def test_two_runs_are_shown_side_by_side_with_the_answers_of_both_judges(client: httpx.Client) -> None:
    page = client.get("/compare", params={"one": "one", "two": "two"}).text
    assert "Do the rankings agree?" in page
    assert "data-against" in page
    lines = client.get("/run/one/trials", params={"against": "two", "kind": "judges differ"}).json()["lines"]
    assert lines
    assert all(line["hard_answer"] != (line["against"] == 1) for line in lines)


@pytest.mark.slow
def test_runs_that_ask_for_preferences_are_shown_side_by_side(tmp_path: Path) -> None:
    for name in ("one", "two"):
        judged(
            tmp_path / "runs" / name,
            question="preference",
            judge=wire_judge("http://127.0.0.1:9/v1"),
            answers=lambda plan: (plan.first < plan.second).astype(np.float64),
        )
    judged(tmp_path / "runs" / "information")
    app = make_app(Runs(tmp_path / "runs"), token=TOKEN, port=8000)

    async def pages() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            client.cookies.update((await client.get("/", params={"token": TOKEN})).cookies)
            return [await client.get("/compare", params={"one": "one", "two": name}) for name in ("two", "information")]

    two_judges, two_questions = asyncio.run(pages())
    assert "Two runs by preference" in two_judges.text
    assert "Two instruments" in two_questions.text
    assert '<a href="/">All runs</a>' in two_questions.text


@pytest.mark.parametrize(
    "query", ["by=nothing", "page=-1", "page=x", "answer=perhaps", f"agent={'a' * 201}", "page=99999999999999999999"]
)
def test_an_invalid_query_is_a_clear_error(client: httpx.Client, query: str) -> None:
    assert client.get(f"/run/one/trials?{query}").status_code == 400
    assert client.get("/run/one/trials/320").status_code == 404


def test_a_run_without_a_file_names_the_missing_file(client: httpx.Client) -> None:
    answer = client.get("/run/half")
    assert answer.status_code == 409
    assert "[run-file-missing]" in answer.text


def test_viewing_changes_no_file(client: httpx.Client, root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    for path in ("/", "/run/one", "/run/one/trials", "/run/one/trials/3", "/compare?one=one&two=two", "/run/one/live"):
        assert client.get(path).status_code == 200
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_runs_of_equal_name_are_distinguished_and_an_invalid_path_is_refused(root: Path, tmp_path: Path) -> None:
    judged(tmp_path / "one")
    runs = find_runs([root / "one", tmp_path / "one"], root=root)
    assert list(runs.find_all()) == ["one", "one (2)"]
    assert list(find_runs([], root=root).find_all()) == ["half", "one", "two"]
    assert find_runs([], root=root / "none").find_all() == {}
    with pytest.raises(RunFolderError, match=r"\[run-missing\]"):
        find_runs([tmp_path / "none"], root=root)
    assert get_state(RunFolder(root / "one")) == "fitted"


def test_a_copied_run_is_refitted_despite_the_times_of_its_files(root: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(root / "one", tmp_path / "copy")
    os.utime(copy / "fit.json", (0, 0))
    assert get_state(RunFolder(copy)) == "fitted"


def test_a_port_that_is_taken_or_too_large_is_a_clear_error(serving: Serving) -> None:
    for port in (serving.listener.getsockname()[1], 65_536):
        with pytest.raises(ConfigError, match=rf"Port {port} cannot be used.*\[view-port\]"):
            open_server(Runs(None), port=port, token=TOKEN)


@pytest.mark.parametrize("name", ["trial_type", "kind", "answer"])
def test_an_invalid_filter_is_refused(client: httpx.Client, name: str) -> None:
    refused = client.get("/run/one/trials", params={name: "' OR 1=1"})
    assert (refused.status_code, refused.text.startswith(f"{name} is one of: ")) == (400, True)


@pytest.mark.slow
def test_every_valid_filter_is_accepted(client: httpx.Client) -> None:
    for kind in KINDS:
        assert client.get("/run/one/trials", params={"kind": kind}).status_code == 200
    trial_types = [
        client.get("/run/one/trials", params={"trial_type": trial_type}).json()["total"]
        for trial_type in ("paired", "independent")
    ]
    assert sum(trial_types) == client.get("/run/one/trials").json()["total"]
    assert min(trial_types) > 0


@pytest.mark.slow
def test_trials_are_searched_by_words_in_their_texts_agents_and_items(client: httpx.Client) -> None:
    def search(words: str) -> list[dict[str, object]]:
        answer = client.get("/run/one/trials", params={"text": words}).json()
        assert answer["total"] >= len(answer["lines"])
        lines: list[dict[str, object]] = answer["lines"]
        return lines

    assert all(1 in (line["first"], line["second"]) for line in search("AGENT 1 says"))
    assert all(3 in (line["item"], line["other_item"]) for line in search("of item 3"))
    assert search("a2")
    assert search("no such words") == []
    assert client.get("/run/one/trials", params={"text": "x" * 201}).status_code == 400
    assert client.get("/run/one/trials/0").json()["line"]["row"] == 0


JUDGE = {"backend": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}


def planned(folder: Path, judge: object) -> PlannedRun:
    write_pool(make_pool(5, 8), folder / "pool")
    write_config(folder / "c.yaml", pool="pool", calls=110, independent="pooled:10", judge=judge, max_cost=1, out="run")
    return plan_run(load_run_config(folder / "c.yaml"))


def test_answers_and_failures_are_counted_as_they_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = planned(tmp_path, JUDGE | {"price_in": 1_000_000, "price_out": 0})
    live = LiveRun(run.folder)
    assert live.update().why_no_ranking == "No trial has an answer yet."
    assert not (tmp_path / ".youden").exists()
    keys = [key for _, key, _ in run.judge.questions().iter_requests(run.plan)]
    with open_store(run.config.store_location) as store:
        for n, key in enumerate(keys[:60]):
            text = "YES" if n % 2 else "NO"
            store.add(key, Completion("neither" if n < 5 else text, "stop", "m", tokens_in=2, tokens_out=1))
        store.add(keys[60], Failure("rejected", 400, "no"))
    state = live.update()
    assert (state.n_trials, state.n_answered, state.n_missing, state.n_yes) == (110, 55, 6, 28)
    assert state.usd == pytest.approx(120)
    assert len(state.ranking) == 5
    assert live.update() is state
    with open_store(run.config.store_location) as store:
        store.add(keys[60], Completion("YES", "stop", "m", tokens_in=2, tokens_out=1))
    assert (live.update().n_answered, live.update().n_missing) == (56, 5)


def test_a_judge_without_calls_cannot_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunFolderError, match=r"\[live-no-store\]"):
        LiveRun(planned(tmp_path, "lexical").folder)


def list_member(member: Member, _now: float, _rows: object) -> list[Member]:
    return [member]


def test_a_run_is_in_progress_as_long_as_its_process_sends_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = planned(tmp_path, JUDGE | {"price": 0})
    assert get_state(run.folder) == "unfinished"
    store = run.config.store_location
    with coordinate_run(store, run=get_run_name(run.folder, run.plan)):
        assert get_state(run.folder) == "in progress"
    assert get_state(run.folder) == "unfinished"

    # a process of another machine that does not renew its row counts as ended after the lease
    with open_store(store) as opened:
        now, _ = opened.backend.read_members("r")
        for expires, state in ((now + LEASE_SECONDS, "in progress"), (now - 1, "unfinished")):
            member = Member("elsewhere 1 x", True, 0, 0, 0, expires)
            opened.backend.replace_members(get_run_name(run.folder, run.plan), partial(list_member, member))
            assert get_state(run.folder) == state

    # the process of this machine that has ended
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    machine = new_holder_name().split(" ")[0]
    with open_store(store) as opened:
        member = Member(f"{machine} {int(gone.stdout)} x", True, 0, 0, 0, now + LEASE_SECONDS)
        opened.backend.replace_members(get_run_name(run.folder, run.plan), lambda _now, _rows: [member])
    assert get_state(run.folder) == "unfinished"


def test_a_store_of_another_package_may_lack_the_method_that_finds_runs_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = planned(tmp_path, JUDGE | {"price": 0})
    monkeypatch.delattr(SqlBackend, "read_members")
    with coordinate_run(run.config.store_location, run=get_run_name(run.folder, run.plan)):
        assert get_state(run.folder) == "unfinished"


def test_the_page_of_an_unfinished_run_shows_its_answers_and_how_to_resume_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = planned(tmp_path, JUDGE | {"price": 0})
    keys = [key for _, key, _ in run.judge.questions().iter_requests(run.plan)]
    with open_store(run.config.store_location) as store:
        for n, key in enumerate(keys[:80]):
            store.add(key, Completion("YES" if n % 2 else "NO", "stop", "m", tokens_in=2, tokens_out=1))
    app = make_app(find_runs([run.folder.path], root=tmp_path), token=TOKEN, port=8000)

    async def get(path: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            await client.get("/", params={"token": TOKEN})
            return await client.get(path)

    listed = asyncio.run(get("/")).text
    assert "unfinished" in listed
    assert 'href="/run/run"' in listed
    state = asyncio.run(get("/run/run/live")).json()
    assert (state["done"], state["in_progress"], state["n_answered"]) == (False, False, 80)
    assert state["command"] == f"youden run {run.folder.file('config.yaml')}"
    assert 'id="live-state"' in asyncio.run(get("/run/run")).text
